/* Computes two orders of the stages: by name, and the order in which they run (Kahn's algorithm over the
 * inputs that are stages of the same spec). */
#include "pipelined/spec/spec_reader.h"

#define ORDER_CIRCLE_SHOWN 20u

struct order {
    struct pl_spec *spec;
    uint32_t *waits_for; /* for each stage, the number of its inputs that are not in the order yet */
    uint32_t *start;     /* the stages that read stage i are readers[start[i]..start[i + 1]) */
    uint32_t *readers;
};

/* Returns one of the stages that could not be ordered, and sets next[i] for each such stage i to one of its
 * inputs that could not be ordered either. Following these links leads into a cycle. */
static uint32_t order_left_over(const struct order *o, uint32_t *next)
{
    uint32_t any = 0;

    for (uint32_t i = 0; i < o->spec->n_stages; i++) {
        for (size_t j = 0; j < o->spec->stages[i].n_leaves; j++) {
            uint32_t input = o->spec->stages[i].leaves[j]->stage;

            if (input != PL_SPEC_NO_STAGE && o->waits_for[input] > 0)
                next[i] = input;
        }
        if (o->waits_for[i] > 0)
            any = i;
    }
    return any;
}

/* Writes the cycle, such as "a reads c reads b reads a", starting with the stage that is first in the
 * text. */
static int order_circle_text(const struct pl_spec *spec, const uint32_t *next, uint32_t first, struct pl_buf *text)
{
    uint32_t at = next[first];
    int r = pl_buf_add_str(text, spec->stages[first].name, NULL);

    for (unsigned n = 0; r == 0 && at != first && n < ORDER_CIRCLE_SHOWN; n++, at = next[at])
        r = pl_buf_addf(text, NULL, " reads %s", spec->stages[at].name);
    if (r == 0)
        r = pl_buf_addf(text, NULL, "%s reads %s", at != first ? " reads …" : "", spec->stages[first].name);
    return r == 0 && pl_buf_str(text) != NULL ? 0 : PL_ENOMEM;
}

static void order_report_circle(struct spec_reader *r, const struct order *o)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    uint32_t *next = pl_spec_alloc(r, o->spec->n_stages * sizeof(*next)), at, first;
    size_t leaf = 0;

    if (next == NULL)
        return;
    at = order_left_over(o, next);
    for (size_t i = 0; i < o->spec->n_stages; i++)
        at = next[at]; /* after as many steps as there are stages, `at` is on the cycle */
    first = at;
    for (uint32_t i = next[at]; i != at; i = next[i])
        first = PL_MIN(first, i);
    if (order_circle_text(o->spec, next, first, &text) < 0) {
        r->failed = PL_ENOMEM;
        return;
    }
    while (o->spec->stages[first].leaves[leaf]->stage != next[first])
        leaf++;
    pl_spec_enter_leaf(r, first, leaf, "repo");
    pl_spec_problem(r, "the stages form a circle: %s", (const char *)text.data);
}

/* Counts the edges, then fills `readers` by counting sort. False if out of memory. */
static bool order_init(struct spec_reader *r, struct order *o)
{
    struct pl_spec *spec = r->spec;
    size_t n = spec->n_stages, n_edges = 0;
    uint32_t *start = pl_spec_alloc(r, (n + 2) * sizeof(*start));

    o->spec = spec;
    o->waits_for = pl_spec_alloc(r, (n + 1) * sizeof(*o->waits_for));
    spec->order = pl_spec_alloc(r, (n + 1) * sizeof(*spec->order));
    spec->by_name = pl_spec_alloc(r, (n + 1) * sizeof(*spec->by_name));
    if (start == NULL || o->waits_for == NULL || spec->order == NULL || spec->by_name == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < spec->stages[i].n_leaves; j++) {
            uint32_t input = spec->stages[i].leaves[j]->stage;

            if (input == PL_SPEC_NO_STAGE)
                continue;
            o->waits_for[i]++;
            start[input + 2]++;
            n_edges++;
        }
    }
    for (size_t i = 2; i < n + 2; i++)
        start[i] += start[i - 1];
    o->start = start;
    o->readers = pl_spec_alloc(r, (n_edges + 1) * sizeof(*o->readers));
    if (o->readers == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++)
        for (size_t j = 0; j < spec->stages[i].n_leaves; j++)
            if (spec->stages[i].leaves[j]->stage != PL_SPEC_NO_STAGE)
                o->readers[start[spec->stages[i].leaves[j]->stage + 1]++] = i;
    return true;
}

static int order_by_name(const void *a, const void *b, void *stages)
{
    const struct pl_stage *list = stages;

    return strcmp(list[*(const uint32_t *)a].name, list[*(const uint32_t *)b].name);
}

/* Kahn's algorithm: a stage is appended to the order once all its inputs are in it. Stages that cannot be
 * appended are on a cycle or depend on one. */
void pl_spec_order(struct spec_reader *r)
{
    struct order o;
    size_t done = 0;

    if (!order_init(r, &o))
        return;
    for (uint32_t i = 0; i < o.spec->n_stages; i++)
        o.spec->by_name[i] = i;
    qsort_r(o.spec->by_name, o.spec->n_stages, sizeof(*o.spec->by_name), order_by_name, o.spec->stages);
    for (uint32_t i = 0; i < o.spec->n_stages; i++)
        if (o.waits_for[i] == 0)
            o.spec->order[done++] = i;
    for (size_t at = 0; at < done; at++)
        for (uint32_t e = o.start[o.spec->order[at]]; e < o.start[o.spec->order[at] + 1]; e++)
            if (--o.waits_for[o.readers[e]] == 0)
                o.spec->order[done++] = o.readers[e];
    if (done < o.spec->n_stages)
        order_report_circle(r, &o);
}
