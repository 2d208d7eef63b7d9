/* plan_change: finds the combinations of matches that a change affects. It walks the tree of inputs
 * recursively, and allows each combination exactly one way to be found. */
#include "pipelined/plan/plan_change.h"

#include "pipelined/plan/plan_diff.h"
#include "pipelined/plan/plan_retry.h"

#include <jansson.h>

/* Which matches below a node of the input tree are combined: all, only untouched ones (COLD), or at least one
 * touched one (HOT). */
enum pick_mode { PICK_ANY, PICK_COLD, PICK_HOT };

/* Selects the combinations whose matches all have the flag `in`. A match whose flags are F counts as touched
 * if (F & hot) == hot_is. */
struct pick_set {
    uint8_t in, hot, hot_is;
};
static const struct pick_set pick_planned = {PL_MATCH_NEW, PL_MATCH_CHANGED, PL_MATCH_CHANGED};
static const struct pick_set pick_gone = {PL_MATCH_OLD, PL_MATCH_NEW, 0};

struct picking {
    struct pl_plan *plan;
    struct plan_memory *memory;
    const struct pick_set *set;
    bool hot[PL_SPEC_LEAVES_MAX]; /* true for an input that has touched matches */
    /* the combination that is being made: for each input the index of its match */
    uint32_t picks[PL_SPEC_LEAVES_MAX];
    uint32_t *out; /* array of the combinations found, with n_leaves numbers each */
    size_t n, cap;
};

/* The inputs that are still to be combined, as a linked list on the call stack. */
struct pick_rest {
    const struct pl_input *node;
    enum pick_mode mode;
    const struct pick_rest *next;
};

static bool pick_is_hot(const struct pick_set *set, const struct pl_plan_match *m)
{
    return (m->is & set->in) != 0 && (m->is & set->hot) == set->hot_is;
}

static bool pick_node_hot(const struct picking *p, const struct pl_input *node)
{
    if (node->n_children == 0)
        return p->hot[node->leaf];
    for (size_t i = 0; i < node->n_children; i++)
        if (pick_node_hot(p, &node->children[i]))
            return true;
    return false;
}

/* Appends the current combination to the list of combinations found. */
static int pick_emit(struct picking *p, struct pl_err *err)
{
    size_t width = p->plan->n_leaves, cap = p->cap == 0 ? 64 : 2 * p->cap;
    uint32_t *grown;
    int r;

    if (p->n == PL_DATUMS_MAX)
        return pl_err_set(err, PL_ELIMIT, "the change affects more than %u datums", PL_DATUMS_MAX);
    if (p->n == p->cap) {
        r = pl_plan_memory_check(p->memory, (cap - p->cap) * width * sizeof(*grown), err);
        if (r < 0)
            return r;
        grown = realloc(p->out, cap * width * sizeof(*grown));
        if (grown == NULL)
            return pl_err_nomem(err);
        p->memory->arrays += (cap - p->cap) * width * sizeof(*grown);
        p->out = grown;
        p->cap = cap;
    }
    memcpy(p->out + p->n++ * width, p->picks, width * sizeof(*p->picks));
    return 0;
}

static int pick_rest(struct picking *p, const struct pick_rest *rest, struct pl_err *err);

static int pick_leaf(struct picking *p, const struct pick_rest *rest, struct pl_err *err)
{
    const struct pl_plan_leaf *leaf = &p->plan->leaves[rest->node->leaf];
    int r = 0;

    for (size_t i = 0; i < leaf->n && r == 0; i++) {
        const struct pl_plan_match *m = &leaf->matches[i];

        if ((m->is & p->set->in) == 0 || (rest->mode != PICK_ANY && pick_is_hot(p->set, m) != (rest->mode == PICK_HOT)))
            continue;
        p->picks[rest->node->leaf] = (uint32_t)i;
        r = pick_rest(p, rest->next, err);
    }
    p->picks[rest->node->leaf] = PL_PLAN_NO_PICK;
    return r;
}

/* Combines the first i inputs of a cross with each other and with the list `next`. With PICK_HOT, input
 * number `hot` contributes a touched match and the inputs before it do not, so that each combination is found
 * once. */
static int pick_cross(struct picking *p, const struct pl_input *cross, size_t i, enum pick_mode mode,
                      const struct pick_rest *next, size_t hot, struct pl_err *err)
{
    struct pick_rest child = {.next = next};

    if (i == 0)
        return pick_rest(p, next, err);
    child.node = &cross->children[i - 1];
    child.mode = mode != PICK_HOT ? mode : i - 1 < hot ? PICK_COLD : i - 1 == hot ? PICK_HOT : PICK_ANY;
    return pick_cross(p, cross, i - 1, mode, &child, hot, err);
}

/* Makes the combinations of each input of a union, one input after the other. */
static int pick_union(struct picking *p, const struct pick_rest *rest, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < rest->node->n_children && r == 0; i++) {
        const struct pick_rest child = {&rest->node->children[i], rest->mode, rest->next};

        r = rest->mode == PICK_HOT && !pick_node_hot(p, child.node) ? 0 : pick_rest(p, &child, err);
    }
    return r;
}

static int pick_rest(struct picking *p, const struct pick_rest *rest, struct pl_err *err)
{
    const struct pl_input *node;
    int r = 0;

    if (rest == NULL)
        return pick_emit(p, err);
    node = rest->node;
    if (node->n_children == 0)
        return pick_leaf(p, rest, err);
    if (node->kind == PL_INPUT_UNION)
        return pick_union(p, rest, err);
    if (rest->mode != PICK_HOT)
        return pick_cross(p, node, node->n_children, rest->mode, rest->next, 0, err);
    for (size_t hot = 0; hot < node->n_children && r == 0; hot++)
        if (pick_node_hot(p, &node->children[hot]))
            r = pick_cross(p, node, node->n_children, PICK_HOT, rest->next, hot, err);
    return r;
}

static int pick_compare(const void *a, const void *b, void *width)
{
    const uint32_t *x = a, *y = b;

    for (size_t i = 0; i < *(const size_t *)width; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* Finds all combinations that `set` selects and that have a touched match. */
static int pick_all(struct picking *p, const struct pick_set *set, struct pl_err *err)
{
    const struct pick_rest all = {.node = p->plan->stage->input, .mode = PICK_HOT};
    size_t width = p->plan->n_leaves;

    p->set = set;
    memset(p->picks, 0xFF, sizeof(p->picks)); /* sets every entry to PL_PLAN_NO_PICK */
    for (size_t i = 0; i < width; i++) {
        const struct pl_plan_leaf *leaf = &p->plan->leaves[i];

        p->hot[i] = false;
        for (size_t m = 0; m < leaf->n && !p->hot[i]; m++)
            p->hot[i] = pick_is_hot(set, &leaf->matches[m]);
    }
    return pick_node_hot(p, p->plan->stage->input) ? pick_rest(p, &all, err) : 0;
}

static int pick_again(void *self, const uint32_t *picks, struct pl_err *err)
{
    struct picking *p = self;

    memcpy(p->picks, picks, p->plan->n_leaves * sizeof(*picks));
    return pick_emit(p, err);
}

static void pick_sort(struct picking *p, size_t from)
{
    size_t width = p->plan->n_leaves;

    if (p->n > from)
        qsort_r(p->out + from * width, p->n - from, width * sizeof(*p->out), pick_compare, &width);
}

/* True if any input below this node of the input tree has a match that differs from the base. */
static bool change_below(const struct pl_plan *p, const struct pl_input *node)
{
    if (node->n_children == 0)
        return p->leaves[node->leaf].n > 0;
    for (size_t i = 0; i < node->n_children; i++)
        if (change_below(p, &node->children[i]))
            return true;
    return false;
}

/* Marks the inputs whose unchanged matches are needed: the inputs that are crossed with an input that
 * changed. */
static void change_wanted(const struct pl_plan *p, const struct pl_input *node, bool wanted, bool *ret)
{
    if (node->n_children == 0) {
        ret[node->leaf] = wanted;
        return;
    }
    for (size_t i = 0; i < node->n_children; i++) {
        bool beside = wanted;

        for (size_t k = 0; k < node->n_children; k++)
            beside = beside || (k != i && node->kind == PL_INPUT_CROSS && change_below(p, &node->children[k]));
        change_wanted(p, &node->children[i], beside, ret);
    }
}

/* Counts the planned datums that did not exist in the base. */
static size_t change_added(const struct pl_plan *p)
{
    size_t n = 0;

    for (size_t d = 0; d < p->n_datums; d++) {
        bool old = true;

        for (size_t i = 0; i < p->n_leaves; i++) {
            const struct pl_plan_match *m = pl_plan_match_of(p, d, i);

            old = old && (m == NULL || (m->is & PL_MATCH_OLD) != 0);
        }
        n += !old;
    }
    return n;
}

static int change_leaves(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, struct pl_err *err)
{
    bool wanted[PL_SPEC_LEAVES_MAX] = {0};
    int r = 0;

    for (size_t i = 0; i < p->n_leaves && r == 0; i++)
        if (pl_input_reads(p->stage->leaves[i]))
            r = pl_plan_leaf_diff(p->stage->leaves[i], &q->inputs[i], &q->base[i], memory, &p->leaves[i], err);
    if (r < 0)
        return r;
    change_wanted(p, p->stage->input, false, wanted);
    for (size_t i = 0; i < p->n_leaves && r == 0; i++)
        if (wanted[i])
            r = pl_plan_leaf_complete(p->stage->leaves[i], &q->inputs[i], memory, &p->leaves[i], err);
    return r < 0 ? r : pl_plan_retry_matches(p, q, memory, wanted, err);
}

/* Lists first the planned datums, including those that failed in the base, and then the gone datums; sorts
 * each of the two lists in spec order. */
int pl_plan_change(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, struct pl_err *err)
{
    struct picking picking = {.plan = p, .memory = memory};
    size_t added;
    int r;

    p->partial = true;
    r = change_leaves(p, q, memory, err);
    if (r == 0)
        r = pick_all(&picking, &pick_planned, err);
    if (r == 0)
        r = pl_plan_retry(p, q, pick_again, &picking, err);
    pick_sort(&picking, 0);
    p->n_datums = picking.n;
    if (r == 0)
        r = pick_all(&picking, &pick_gone, err);
    pick_sort(&picking, p->n_datums);
    p->n_gone = picking.n - p->n_datums;
    p->picks = picking.out;
    if (r < 0)
        return r;
    added = change_added(p);
    if (p->n_gone > q->base_datums)
        return pl_err_set(err, PL_ECORRUPT, "the change removes %zu datums, but the base has only %zu", p->n_gone,
                          q->base_datums);
    p->n_total = q->base_datums - p->n_gone + added;
    if (p->n_total > PL_DATUMS_MAX)
        return pl_err_set(err, PL_ELIMIT, "stage %s would have more than %u datums", p->stage->name, PL_DATUMS_MAX);
    return 0;
}

/* ---- can a stage be planned from a base? ---- */

/* Makes JSON of the parts of a stage that determine its datums. The caller owns it. */
static int change_signature(const struct pl_stage *stage, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    json_t *spec, *signature;
    int r = pl_stage_effective_json(stage, &text, err);

    if (r < 0)
        return r;
    spec = json_loadb((const char *)text.data, text.len, 0, NULL);
    signature = json_pack("{s:O?, s:O?, s:s}", "input", json_object_get(spec, "input"), "cache", json_object_get(spec, "cache"),
                          "prefix", stage->output.prefix);
    json_decref(spec);
    if (signature == NULL)
        return pl_err_nomem(err);
    *ret = signature;
    return 0;
}

int pl_plan_may_follow(const struct pl_stage *stage, const struct pl_hash *code_identity, const struct pl_stage *base,
                       const struct pl_hash *base_code_identity, bool *ret, struct pl_err *err)
{
    json_t *a = NULL, *b = NULL;
    int r = change_signature(stage, &a, err);

    if (r == 0)
        r = change_signature(base, &b, err);
    if (r == 0)
        *ret = json_equal(a, b) && stage->cache.enabled && (!stage->cache.code || pl_hash_eq(code_identity, base_code_identity));
    json_decref(a);
    json_decref(b);
    return r;
}
