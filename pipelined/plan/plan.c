/* plan: creates a plan, in full or from a base, and gives access to its datums: matches, ids, enumeration
 * keys, output prefixes, texts. */
#include "pipelined/plan/plan_change.h"
#include "pipelined/spec/output_prefix.h"

#include <stdio.h>

/* Computes how many datums each node of the input tree gives. Numbers above PL_DATUMS_MAX are capped at
 * PL_DATUMS_MAX + 1. */
static size_t plan_count(const struct pl_plan *p, const struct pl_input *node, size_t *counts)
{
    size_t n = node->kind == PL_INPUT_CROSS;

    if (node->n_children == 0)
        n = p->leaves[node->leaf].n;
    for (size_t i = 0; i < node->n_children; i++) {
        size_t child = plan_count(p, &node->children[i], counts);

        n = PL_MIN(node->kind == PL_INPUT_CROSS ? n * child : n + child, (size_t)PL_DATUMS_MAX + 1);
    }
    counts[node->node] = n;
    return n;
}

/* Writes the factors of the number of datums for an error message: "test 20 × (a 3 + b 4)". */
static int plan_count_text(const struct pl_plan *p, const struct pl_input *node, struct pl_buf *text, struct pl_err *err)
{
    bool sum = node->kind == PL_INPUT_UNION && node->n_children > 1;
    int r = sum ? pl_buf_add_str(text, "(", err) : 0;

    if (node->n_children == 0)
        return pl_buf_addf(text, err, "%s %zu", node->name, p->leaves[node->leaf].n);
    for (size_t i = 0; i < node->n_children && r == 0; i++) {
        r = i > 0 ? pl_buf_add_str(text, sum ? " + " : " × ", err) : 0;
        r = r < 0 ? r : plan_count_text(p, &node->children[i], text, err);
    }
    return r < 0 || !sum ? r : pl_buf_add_str(text, ")", err);
}

static int plan_too_many(const struct pl_plan *p, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    int r = plan_count_text(p, p->stage->input, &text, err);

    if (r < 0 || pl_buf_str(&text) == NULL)
        return pl_err_nomem(err);
    return pl_err_set(err, PL_ELIMIT, "stage %s would have more than %u datums (%s)", p->stage->name, PL_DATUMS_MAX,
                      (const char *)text.data);
}

/* Sets the matches of datum number `rank` of the node. In a cross, the last input varies fastest. */
static void plan_pick(const struct pl_input *node, const size_t *counts, size_t rank, uint32_t *picks)
{
    if (node->n_children == 0)
        picks[node->leaf] = (uint32_t)rank;
    for (size_t i = node->n_children; i-- > 0 && node->kind == PL_INPUT_CROSS;) {
        const struct pl_input *child = &node->children[i];

        plan_pick(child, counts, rank % counts[child->node], picks);
        rank /= counts[child->node];
    }
    for (size_t i = 0; i < node->n_children && node->kind == PL_INPUT_UNION; i++) {
        const struct pl_input *child = &node->children[i];

        if (rank < counts[child->node]) {
            plan_pick(child, counts, rank, picks);
            return;
        }
        rank -= counts[child->node];
    }
}

/* Fills `leaves` with the inputs that the datum has, and returns their number. */
static size_t plan_leaves_of(const struct pl_plan *p, size_t datum, struct pl_datum_leaf leaves[PL_SPEC_LEAVES_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(p, datum, i);

        if (m != NULL)
            leaves[n++] = (struct pl_datum_leaf){p->stage->leaves[i], m->path, m->path_len, m->kind, &m->content};
    }
    return n;
}

static int plan_keys(struct pl_plan *p, struct plan_memory *memory, const struct pl_hash *code_identity, struct pl_err *err)
{
    int r = pl_plan_memory_check(memory, p->n_datums * sizeof(*p->keys), err);

    if (r < 0)
        return r;
    p->keys = malloc(p->n_datums * sizeof(*p->keys) + 1);
    if (p->keys == NULL)
        return pl_err_nomem(err);
    memory->arrays += p->n_datums * sizeof(*p->keys);
    for (size_t d = 0; d < p->n_datums; d++) {
        struct pl_datum_leaf leaves[PL_SPEC_LEAVES_MAX];

        pl_datum_key(leaves, plan_leaves_of(p, d, leaves), code_identity, &p->stage->cache, &p->keys[d]);
    }
    return 0;
}

static int plan_enumerate(struct pl_plan *p, struct plan_memory *memory, struct pl_err *err)
{
    _cleanup_free_ size_t *counts = calloc(p->stage->n_nodes + 1, sizeof(*counts));
    size_t n = counts != NULL && p->n_leaves > 0 ? plan_count(p, p->stage->input, counts) : 0;
    size_t picks = n * p->n_leaves * sizeof(*p->picks);
    int r = n > PL_DATUMS_MAX ? plan_too_many(p, err) : pl_plan_memory_check(memory, picks, err);

    if (r < 0)
        return r;
    p->picks = malloc(picks + 1);
    if (counts == NULL || p->picks == NULL)
        return pl_err_nomem(err);
    memory->arrays += picks;
    memset(p->picks, 0xFF, picks); /* sets every entry to PL_PLAN_NO_PICK */
    for (size_t d = 0; d < n; d++)
        plan_pick(p->stage->input, counts, d, p->picks + d * p->n_leaves);
    p->n_datums = p->n_total = n;
    return 0;
}

/* Makes a full plan by walking the tree of every input. */
static int plan_in_full(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < p->n_leaves && r == 0; i++)
        r = pl_input_reads(q->stage->leaves[i])
                ? pl_plan_leaf_match(q->stage->leaves[i], &q->inputs[i], memory, &p->leaves[i], err)
                : pl_plan_leaf_params(q->stage->leaves[i], memory, &p->leaves[i], err);
    return r < 0 ? r : plan_enumerate(p, memory, err);
}

static int plan_fill(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, struct pl_err *err)
{
    int r = pl_output_prefix_compile(q->stage, &p->prefix, err);

    if (r == 0)
        r = q->base != NULL ? pl_plan_change(p, q, memory, err) : plan_in_full(p, q, memory, err);
    return r < 0 ? r : plan_keys(p, memory, &q->code_identity, err);
}

int pl_plan_create(const struct pl_plan_request *q, struct pl_plan **ret, struct pl_err *err)
{
    _cleanup_(pl_plan_destroyp) struct pl_plan *p = calloc(1, sizeof(*p));
    struct plan_memory memory = {.max = q->max_bytes != 0 ? q->max_bytes : PL_PLAN_DEFAULT_BYTES};
    int r;

    if (p == NULL)
        return pl_err_nomem(err);
    p->stage = q->stage;
    p->arena = memory.arena = pl_arena_create(memory.max);
    p->leaves = calloc(q->stage->n_leaves + 1, sizeof(*p->leaves));
    if (p->arena == NULL || p->leaves == NULL)
        return pl_err_nomem(err);
    p->n_leaves = q->stage->n_leaves;
    r = plan_fill(p, q, &memory, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(p);
    return 0;
}

struct pl_plan *pl_plan_destroy(struct pl_plan *p)
{
    if (p == NULL)
        return NULL;
    for (size_t i = 0; i < p->n_leaves; i++)
        free(p->leaves[i].matches);
    free(p->leaves);
    free(p->keys);
    free(p->picks);
    pl_template_destroy(p->prefix);
    pl_arena_destroy(p->arena);
    free(p);
    return NULL;
}

const struct pl_plan_match *pl_plan_match_of(const struct pl_plan *p, size_t datum, size_t leaf)
{
    uint32_t pick = p->picks[datum * p->n_leaves + leaf];

    return pick != PL_PLAN_NO_PICK ? &p->leaves[leaf].matches[pick] : NULL;
}

void pl_plan_datum_id(const struct pl_plan *p, size_t datum, struct pl_hash *ret)
{
    struct pl_datum_leaf leaves[PL_SPEC_LEAVES_MAX];

    pl_datum_id(leaves, plan_leaves_of(p, datum, leaves), ret);
}

/* A key that is longer than the limit is only hashed, piece by piece; it is never stored as a whole. */
size_t pl_plan_enum_key(const struct pl_plan *p, size_t datum, uint8_t out[PL_ENUM_KEY_MAX])
{
    struct pl_hasher memory, *hasher = NULL;
    struct pl_hash hash;
    size_t n = 0, total = 0;

    for (size_t i = 0; i < p->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(p, datum, i);

        total += m != NULL ? 2 + (size_t)m->path_len + pl_plan_is_folder(m) + 1 : 0;
    }
    if (total > PL_ENUM_KEY_MAX)
        hasher = pl_hasher_init(&memory);
    for (size_t i = 0; i < p->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(p, datum, i);
        uint8_t head[2] = {(uint8_t)(i >> 8), (uint8_t)i}, tail[2] = {'/', 0};
        const void *pieces[3] = {head, m != NULL ? m->path : NULL, m != NULL && pl_plan_is_folder(m) ? tail : tail + 1};
        size_t lens[3] = {2, m != NULL ? m->path_len : 0, m != NULL && pl_plan_is_folder(m) ? 2 : 1};

        for (size_t k = 0; k < 3 && m != NULL; k++) {
            if (hasher != NULL)
                pl_hasher_add(hasher, pieces[k], lens[k]);
            else
                memcpy(out + n, pieces[k], lens[k]);
            n += hasher != NULL ? 0 : lens[k];
        }
    }
    if (hasher == NULL)
        return n;
    pl_hasher_get(hasher, &hash);
    out[0] = 0xFF;
    memcpy(out + 1, hash.b, PL_HASH_BYTES);
    return 1 + PL_HASH_BYTES;
}

/* Returns the value of input i for the prefix template. If several inputs have the same name, returns the
 * value of the one that this datum has. */
static struct pl_template_value plan_value(const struct pl_plan *p, size_t datum, size_t i)
{
    const struct pl_plan_match *m = pl_plan_match_of(p, datum, i);
    const struct pl_input *in = p->stage->leaves[i];
    struct pl_template_value value = {.path = ""};

    for (size_t k = 0; k < p->n_leaves && m == NULL; k++) {
        if (pl_streq(p->stage->leaves[k]->name, in->name))
            m = pl_plan_match_of(p, datum, k);
        if (m != NULL)
            in = p->stage->leaves[k];
    }
    if (m == NULL)
        return value;
    value = (struct pl_template_value){.path = m->path, .path_len = m->path_len, .captures = m->captures};
    if (in->n_params > 0) {
        value.params = in->param_names;
        value.n_params = in->n_params;
        value.texts = in->combinations[m - p->leaves[in->leaf].matches].values;
    }
    return value;
}

int pl_plan_prefix(const struct pl_plan *p, size_t datum, struct pl_buf *out, struct pl_err *err)
{
    struct pl_template_value values[PL_SPEC_LEAVES_MAX];
    size_t from = out->len, slashes = 0;
    struct pl_hash id = {0};
    int r;

    for (size_t i = 0; i < p->n_leaves; i++)
        values[i] = plan_value(p, datum, i);
    if (pl_template_wants_datum(p->prefix))
        pl_plan_datum_id(p, datum, &id);
    r = pl_template_render(p->prefix, values, &id, out, err);
    if (r < 0)
        return r;
    /* "${x.dir}/" of a file in the root gives a leading slash */
    while (from + slashes < out->len && out->data[from + slashes] == '/')
        slashes++;
    if (slashes > 0)
        memmove(out->data + from, out->data + from + slashes, out->len - from - slashes);
    out->len -= slashes;
    return 0;
}

int pl_plan_match_text(const struct pl_plan *p, size_t leaf, const struct pl_plan_match *m, char *out, size_t size)
{
    const struct pl_input *in = p->stage->leaves[leaf];

    return snprintf(out, size, "%s=%s%s", in->name, pl_input_reads(in) ? "/" : "", m->path);
}

char *pl_plan_datum_text(const struct pl_plan *p, size_t datum, char *out, size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < p->n_leaves && n < size; i++) {
        const struct pl_plan_match *m = p->stage->leaves[i]->environment ? NULL : pl_plan_match_of(p, datum, i);

        if (m != NULL && n > 0)
            n += (size_t)snprintf(out + n, size - n, ", ");
        if (m != NULL && n < size)
            n += (size_t)pl_plan_match_text(p, i, m, out + n, size - n);
    }
    return pl_utf8_trim(out);
}
