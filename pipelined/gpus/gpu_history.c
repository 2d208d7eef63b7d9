/* gpu_history.c: each series and each stage has one array of sums per amount, with a sum for each step. */
#include "pipelined/gpus/gpu_history.h"

#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <math.h>
#include <stdio.h>

enum amount { CAPACITY, HELD, USED, IDLE, MEASURED, BUSY, AMOUNTS };
static const char *const amount_names[] = {"capacity", "held", "used", "idle", "measured", "busy"};
static const char *const total_names[] = {"capacity_ms", "held_ms", "used_ms", "idle_ms", "measured_ms", "busy_ms"};

struct curve {
    char node[128], product[128]; /* of a stage: project and name */
    int64_t slot;
    double total[AMOUNTS];
    double *steps; /* [AMOUNTS][points] */
};

struct pl_gpu_history {
    struct pl_gpu_history_config config;
    struct curve *series, *stages;
    size_t n_series, n_stages;
    double total[AMOUNTS];
    double *known; /* milliseconds of each step of which there is a record */
};

int pl_gpu_history_create(const struct pl_gpu_history_config *config, struct pl_gpu_history **ret, struct pl_err *err)
{
    struct pl_gpu_history *h = calloc(1, sizeof *h);

    if (h) {
        h->config = *config;
        h->known = calloc(config->points, sizeof *h->known);
    }
    if (!h || !h->known) {
        free(h);
        return pl_err_nomem(err);
    }
    *ret = h;
    return 0;
}

static void curves_free(struct curve *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i].steps);
    free(list);
}

struct pl_gpu_history *pl_gpu_history_destroy(struct pl_gpu_history *h)
{
    if (!h)
        return NULL;
    curves_free(h->series, h->n_series);
    curves_free(h->stages, h->n_stages);
    free(h->known);
    free(h);
    return NULL;
}

/* ---- adding ---- */

/* Finds the curve of the list; adds it if there are fewer than `max`. `*ret` is NULL if there is no place for it. */
static int curve_at(const struct pl_gpu_history *h, struct curve **list, size_t *n, size_t max, const char *node,
                    const char *product, int64_t slot, struct curve **ret, struct pl_err *err)
{
    struct curve *more;

    *ret = NULL;
    for (size_t i = 0; i < *n; i++) {
        struct curve *c = &(*list)[i];

        if (c->slot == slot && pl_streq(c->node, node) && pl_streq(c->product, product)) {
            *ret = c;
            return 0;
        }
    }
    if (*n >= max)
        return 0;
    more = realloc(*list, (*n + 1) * sizeof *more);
    if (!more)
        return pl_err_nomem(err);
    *list = more;
    more[*n] = (struct curve){.slot = slot, .steps = calloc((size_t)AMOUNTS * h->config.points, sizeof(double))};
    if (!more[*n].steps)
        return pl_err_nomem(err);
    snprintf(more[*n].node, sizeof more[*n].node, "%s", node);
    snprintf(more[*n].product, sizeof more[*n].product, "%s", product);
    *ret = &more[(*n)++];
    return 0;
}

static double step_us(const struct pl_gpu_history *h)
{
    return (double)(h->config.to_us - h->config.from_us) / h->config.points;
}

/* A span as far as it lies in the history: the steps that it touches, and which share of it lies in each. */
struct part {
    const struct pl_gpu_history *history;
    double from_us, to_us, length_us; /* from the start of the history; length_us: of the whole span */
    size_t first, last;
};

static double share_in(const struct part *p, size_t step)
{
    const double width = step_us(p->history);

    return (PL_MIN(p->to_us, width * (double)(step + 1)) - PL_MAX(p->from_us, width * (double)step)) / p->length_us;
}

static void add_amount(struct curve *c, const struct part *p, enum amount which, double ms)
{
    double *steps = c->steps + (size_t)which * p->history->config.points;

    for (size_t i = p->first; ms > 0 && i <= p->last; i++)
        steps[i] += ms * share_in(p, i);
    c->total[which] += ms * (p->to_us - p->from_us) / p->length_us;
}

/* Adds what one holder had of the series: to the series, if it has a curve, and to its stage. */
static int add_holder(struct pl_gpu_history *h, struct curve *series, const struct part *p, const json_t *by, struct pl_err *err)
{
    const char *project = json_string_value(json_array_get(by, 0)), *stage = json_string_value(json_array_get(by, 1));
    struct curve *c;
    int r = 0;

    if (!project || !stage || (*stage && h->config.may_see && !h->config.may_see(h->config.who, project, stage)))
        project = stage = "";
    r = curve_at(h, &h->stages, &h->n_stages, *stage ? PL_GPU_HISTORY_STAGES_MAX - 1 : PL_GPU_HISTORY_STAGES_MAX, project, stage,
                 -1, &c, err);
    if (r == 0 && !c)
        r = curve_at(h, &h->stages, &h->n_stages, PL_GPU_HISTORY_STAGES_MAX, "", "", -1, &c, err);
    for (enum amount a = HELD; r == 0 && a <= IDLE; a++) {
        const double ms = PL_MAX(json_number_value(json_array_get(by, 2 + (size_t)(a - HELD))), 0.0);

        if (series)
            add_amount(series, p, a, ms);
        if (c)
            add_amount(c, p, a, ms);
        h->total[a] += ms * (p->to_us - p->from_us) / p->length_us;
    }
    return r;
}

static int add_series(struct pl_gpu_history *h, const struct part *p, const json_t *one, struct pl_err *err)
{
    static const enum amount own[] = {CAPACITY, MEASURED, BUSY};
    const json_t *slot = json_object_get(one, "slot");
    struct curve *c;
    json_t *by;
    size_t i;
    int r = curve_at(h, &h->series, &h->n_series, PL_GPU_HISTORY_SERIES_MAX, pl_json_str(one, "node"),
                     pl_json_str(one, "product"), slot ? json_integer_value(slot) : -1, &c, err);

    for (i = 0; r == 0 && i < PL_ARRAY_SIZE(own); i++) {
        const double ms = PL_MAX(json_number_value(json_object_get(one, amount_names[own[i]])), 0.0);

        if (c)
            add_amount(c, p, own[i], ms);
        h->total[own[i]] += ms * (p->to_us - p->from_us) / p->length_us;
    }
    json_array_foreach(json_object_get(one, "by"), i, by)
    {
        r = r < 0 ? r : add_holder(h, c, p, by, err);
    }
    return r;
}

int pl_gpu_history_add(struct pl_gpu_history *h, int64_t from_us, int64_t to_us, const json_t *series, struct pl_err *err)
{
    const int64_t from = PL_MAX(from_us, h->config.from_us), to = PL_MIN(to_us, h->config.to_us);
    struct part p = {.history = h, .length_us = (double)(to_us - from_us)};
    json_t *one;
    size_t i;
    int r = 0;

    if (from >= to)
        return 0;
    p.from_us = (double)(from - h->config.from_us);
    p.to_us = (double)(to - h->config.from_us);
    p.first = PL_MIN((size_t)(p.from_us / step_us(h)), h->config.points - 1);
    p.last = PL_MIN((size_t)(p.to_us / step_us(h)), h->config.points - 1);
    for (i = p.first; i <= p.last; i++)
        h->known[i] += share_in(&p, i) * p.length_us / 1000;
    json_array_foreach((json_t *)(uintptr_t)series, i, one)
    {
        r = r < 0 ? r : add_series(h, &p, one, err);
    }
    return r;
}

/* ---- the answer ---- */

static json_t *numbers(const double *steps, unsigned n)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, json_integer(llround(steps[i])));
    return list;
}

static json_t *sums(const double *total, enum amount first, enum amount last)
{
    json_t *o = json_object();

    for (enum amount a = first; a <= last; a++)
        json_object_set_new(o, total_names[a], json_integer(llround(total[a])));
    return o;
}

static json_t *series_json(const struct pl_gpu_history *h, const struct curve *c)
{
    json_t *o = json_pack("{s:s, s:s}", "node", c->node, "product", c->product);

    if (c->slot >= 0)
        json_object_set_new(o, "slot", json_integer(c->slot));
    for (enum amount a = 0; a < AMOUNTS; a++)
        json_object_set_new(o, amount_names[a], numbers(c->steps + (size_t)a * h->config.points, h->config.points));
    return o;
}

static json_t *stage_json(const struct pl_gpu_history *h, const struct curve *c)
{
    json_t *o = sums(c->total, HELD, IDLE);

    if (*c->product) {
        json_object_set_new(o, "project", json_string(c->node));
        json_object_set_new(o, "stage", json_string(c->product));
    }
    json_object_set_new(o, "held", numbers(c->steps + (size_t)HELD * h->config.points, h->config.points));
    return o;
}

static int by_name(const void *a, const void *b)
{
    const struct curve *x = a, *y = b;
    const int node = strcmp(x->node, y->node), product = node ? node : strcmp(x->product, y->product);

    return product ? product : (x->slot > y->slot) - (x->slot < y->slot);
}

static int by_held(const void *a, const void *b)
{
    const struct curve *x = a, *y = b;

    return x->total[HELD] != y->total[HELD] ? (x->total[HELD] < y->total[HELD] ? 1 : -1) : by_name(a, b);
}

json_t *pl_gpu_history_json(const struct pl_gpu_history *h)
{
    json_t *series = json_array(), *stages = json_array();

    if (h->n_series)
        qsort(h->series, h->n_series, sizeof *h->series, by_name);
    if (h->n_stages)
        qsort(h->stages, h->n_stages, sizeof *h->stages, by_held);
    for (size_t i = 0; i < h->n_series; i++)
        json_array_append_new(series, series_json(h, &h->series[i]));
    for (size_t i = 0; i < h->n_stages; i++)
        json_array_append_new(stages, stage_json(h, &h->stages[i]));
    return json_pack("{s:I, s:I, s:i, s:o, s:o, s:o, s:o}", "from_us", (json_int_t)h->config.from_us, "to_us",
                     (json_int_t)h->config.to_us, "points", (int)h->config.points, "known_ms",
                     numbers(h->known, h->config.points), "series", series, "stages", stages, "total",
                     sums(h->total, CAPACITY, BUSY));
}
