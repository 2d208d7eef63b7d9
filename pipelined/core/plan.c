#include "plan_leaf.h"

#include "template.h"

#include <stdio.h>

/* The number of datums: the product of the matches. */
static int plan_count(const struct pl_plan *p, size_t *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    size_t n = p->n_leaves > 0;
    bool over = false;
    int r = 0;

    for (size_t i = 0; i < p->n_leaves; i++) {
        if (p->leaves[i].n == 0) {
            *ret = 0;
            return 0;
        }
    }
    for (size_t i = 0; i < p->n_leaves && r == 0; i++) {
        over = over || p->leaves[i].n > PL_DATUMS_MAX / n;
        n = over ? PL_DATUMS_MAX : n * p->leaves[i].n;
        r = pl_buf_addf(&text, err, "%s%s %zu", i > 0 ? " × " : "", p->stage->leaves[i]->name, p->leaves[i].n);
    }
    if (r == 0 && over && pl_buf_str(&text) != NULL)
        r = pl_err_set(err, PL_ELIMIT, "stage %s would have more than %u datums (%s)", p->stage->name, PL_DATUMS_MAX,
                       (const char *)text.data);
    *ret = n;
    return r;
}

static void plan_leaves_of(const struct pl_plan *p, size_t datum, struct pl_datum_leaf leaves[PL_SPEC_LEAVES_MAX])
{
    for (size_t i = 0; i < p->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(p, datum, i);

        leaves[i] = (struct pl_datum_leaf){p->stage->leaves[i], m->path, m->path_len, m->kind, &m->content};
    }
}

static int plan_product(struct pl_plan *p, struct plan_memory *memory, const struct pl_hash *code_identity, struct pl_err *err)
{
    size_t n = p->n_datums, each = sizeof(*p->keys) + p->n_leaves * sizeof(*p->picks);
    uint32_t at[PL_SPEC_LEAVES_MAX] = {0};
    int r = pl_plan_memory_check(memory, n * each, err);

    if (r < 0)
        return r;
    p->keys = malloc(n * sizeof(*p->keys));
    p->picks = malloc(n * p->n_leaves * sizeof(*p->picks));
    if (p->keys == NULL || p->picks == NULL)
        return pl_err_nomem(err);
    for (size_t d = 0; d < n; d++) {
        struct pl_datum_leaf leaves[PL_SPEC_LEAVES_MAX];

        memcpy(p->picks + d * p->n_leaves, at, p->n_leaves * sizeof(*at));
        plan_leaves_of(p, d, leaves);
        pl_datum_key(leaves, p->n_leaves, code_identity, &p->stage->cache, &p->keys[d]);
        for (size_t i = p->n_leaves; i-- > 0;) { /* the last input runs fastest */
            if (++at[i] < p->leaves[i].n)
                break;
            at[i] = 0;
        }
    }
    return 0;
}

static int plan_fill(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, struct pl_err *err)
{
    struct pl_template_input inputs[PL_SPEC_LEAVES_MAX];
    int r = 0;

    for (size_t i = 0; i < p->n_leaves && r == 0; i++) {
        inputs[i].name = q->stage->leaves[i]->name;
        r = pl_plan_leaf_match(q->stage->leaves[i], &q->inputs[i], memory, &p->leaves[i], &inputs[i].captures, err);
    }
    if (r == 0)
        r = pl_template_compile(q->stage->output.prefix, inputs, p->n_leaves, &p->prefix, err);
    if (r == 0)
        r = plan_count(p, &p->n_datums, err);
    if (r == 0 && p->n_datums > 0)
        r = plan_product(p, memory, &q->code_identity, err);
    return r;
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
    return &p->leaves[leaf].matches[p->picks[datum * p->n_leaves + leaf]];
}

void pl_plan_datum_id(const struct pl_plan *p, size_t datum, struct pl_hash *ret)
{
    struct pl_datum_leaf leaves[PL_SPEC_LEAVES_MAX];

    plan_leaves_of(p, datum, leaves);
    pl_datum_id(leaves, p->n_leaves, ret);
}

/* A directory below the root, whose path has a '/' after it in the enumeration key. */
static bool plan_is_folder(const struct pl_plan_match *m)
{
    return m->kind == PL_KIND_DIR && m->path_len > 0;
}

/* A long key goes through the hasher piece by piece: the exact key need not fit anywhere. */
size_t pl_plan_enum_key(const struct pl_plan *p, size_t datum, uint8_t out[PL_ENUM_KEY_MAX])
{
    struct pl_hasher *hasher = NULL;
    struct pl_hash hash;
    size_t n = 0, total = 0;

    for (size_t i = 0; i < p->n_leaves; i++)
        total += 2 + (size_t)pl_plan_match_of(p, datum, i)->path_len + plan_is_folder(pl_plan_match_of(p, datum, i)) + 1;
    if (total > PL_ENUM_KEY_MAX)
        hasher = pl_hasher_create();
    for (size_t i = 0; i < p->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(p, datum, i);
        uint8_t head[2] = {(uint8_t)(i >> 8), (uint8_t)i}, tail[2] = {'/', 0};
        const void *pieces[3] = {head, m->path, plan_is_folder(m) ? tail : tail + 1};
        size_t lens[3] = {2, m->path_len, plan_is_folder(m) ? 2 : 1};

        for (size_t k = 0; k < 3; k++) {
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
    pl_hasher_destroy(hasher);
    out[0] = 0xFF;
    memcpy(out + 1, hash.b, PL_HASH_BYTES);
    return 1 + PL_HASH_BYTES;
}

int pl_plan_prefix(const struct pl_plan *p, size_t datum, struct pl_buf *out, struct pl_err *err)
{
    struct pl_template_value values[PL_SPEC_LEAVES_MAX];
    size_t from = out->len, slashes = 0;
    struct pl_hash id = {0};
    int r;

    for (size_t i = 0; i < p->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(p, datum, i);

        values[i] = (struct pl_template_value){m->path, m->path_len, m->captures};
    }
    if (pl_template_wants_datum(p->prefix))
        pl_plan_datum_id(p, datum, &id);
    r = pl_template_render(p->prefix, values, &id, out, err);
    if (r < 0)
        return r;
    while (from + slashes < out->len && out->data[from + slashes] == '/') /* "${x.dir}/" of a file in the root */
        slashes++;
    if (slashes > 0)
        memmove(out->data + from, out->data + from + slashes, out->len - from - slashes);
    out->len -= slashes;
    return 0;
}

char *pl_plan_datum_text(const struct pl_plan *p, size_t datum, char *out, size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < p->n_leaves && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s=/%s", i > 0 ? ", " : "", p->stage->leaves[i]->name,
                              pl_plan_match_of(p, datum, i)->path);
    return pl_utf8_trim(out);
}
