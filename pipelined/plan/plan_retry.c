/* plan_retry: reads the failed datums of the base from its owner tree, decodes their enumeration keys, and
 * finds their matches. */
#include "pipelined/plan/plan_retry.h"

#include "pipelined/plan/datum_table.h"
#include "pipelined/plan/plan_diff.h"

#define AGAIN_HASHED 0xFF

/* The part of an enumeration key that belongs to one input. */
struct again_part {
    size_t leaf;
    const char *path;
    size_t len;
    bool dir;
};

/* Reads the next part of an enumeration key (plan.h) and returns 1; returns 0 at the end of the key. */
static int again_next(const struct pl_plan *p, struct pl_cursor *c, struct again_part *ret, struct pl_err *err)
{
    const uint8_t *end;

    if (pl_cursor_left(c) == 0)
        return 0;
    if (c->p[0] == AGAIN_HASHED)
        return pl_err_set(err, PL_ELIMIT, "a failed datum has an enumeration key that is too long to be decoded");
    ret->leaf = (size_t)pl_cursor_u8(c) << 8;
    ret->leaf |= pl_cursor_u8(c);
    end = pl_cursor_left(c) > 0 ? memchr(c->p, 0, pl_cursor_left(c)) : NULL;
    if (c->failed || end == NULL || ret->leaf >= p->n_leaves)
        return pl_err_set(err, PL_ECORRUPT, "the enumeration key of a failed datum is malformed");
    ret->path = (const char *)c->p;
    ret->len = (size_t)(end - c->p);
    ret->dir = pl_input_reads(p->stage->leaves[ret->leaf]) && (ret->len == 0 || ret->path[ret->len - 1] == '/');
    if (ret->dir && ret->len > 0)
        ret->len--;
    c->p = end + 1;
    return 1;
}

/* Returns the index of the match that the part names; leaf->n if the input has no such match. */
static size_t again_find(const struct pl_plan_leaf *leaf, const struct again_part *part)
{
    const struct pl_plan_match wanted = {.path = part->path,
                                         .path_len = (uint16_t)part->len,
                                         .kind = part->dir ? PL_KIND_DIR : PL_KIND_FILE};
    size_t low = 0, high = leaf->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pl_plan_match_cmp(&leaf->matches[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < leaf->n && pl_plan_match_cmp(&leaf->matches[low], &wanted) == 0 ? low : leaf->n;
}

static int again_open(const struct pl_plan_request *q, struct pl_tree_cursor **ret, struct pl_err *err)
{
    return pl_tree_cursor_create(q->base_source, &q->base_owner, PL_OWNER_FAILED_PREFIX, 1, ret, err);
}

/* ---- matches ---- */

/* Adds matches of failed datums to the input's list, unless it has them. The matches are found in the order
 * of the owner tree, so the caller sorts the list afterwards. */
static int again_leaf(const struct pl_plan *p, const struct pl_plan_request *q, size_t leaf, struct plan_leaf_walk *w,
                      struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_tree_item item;
    int r = again_open(q, &cursor, err);

    while (r == 0 && (r = pl_tree_cursor_next(cursor, &item, err)) > 0) {
        struct pl_cursor c = pl_cursor_of(item.path + 1, item.path_len - 1);
        struct again_part part;

        while ((r = again_next(p, &c, &part, err)) > 0) {
            if (part.leaf == leaf && again_find(&p->leaves[leaf], &part) == p->leaves[leaf].n)
                r = pl_plan_leaf_at(w, part.path, part.len, part.dir, err);
            if (r < 0)
                return r;
        }
    }
    return r;
}

static int again_compare(const void *a, const void *b)
{
    return pl_plan_match_cmp(a, b);
}

/* Sorts the matches and removes duplicates. */
static void again_settle(struct pl_plan_leaf *found)
{
    size_t kept = 0;

    if (found->n > 1)
        qsort(found->matches, found->n, sizeof(*found->matches), again_compare);
    for (size_t i = 0; i < found->n; i++)
        if (i == 0 || pl_plan_match_cmp(&found->matches[kept - 1], &found->matches[i]) != 0)
            found->matches[kept++] = found->matches[i];
    found->n = kept;
}

static int again_join(struct pl_plan *p, const struct pl_plan_request *q, size_t leaf, struct plan_memory *memory,
                      struct pl_err *err)
{
    const struct pl_input *input = p->stage->leaves[leaf];
    struct pl_plan_leaf found = {0};
    struct plan_leaf_walk walk;
    int r;

    if (!pl_input_reads(input))
        return pl_plan_leaf_complete(input, &q->inputs[leaf], memory, &p->leaves[leaf], err);
    r = pl_plan_leaf_open(&walk, input, &q->inputs[leaf], memory, &found, err);
    if (r == 0)
        r = again_leaf(p, q, leaf, &walk, err);
    again_settle(&found);
    if (r == 0)
        r = pl_plan_leaf_join(memory, &found, &p->leaves[leaf], err);
    pl_plan_leaf_close(&walk);
    free(found.matches);
    return r < 0 ? pl_err_wrap(err, r, "input %s", input->name) : 0;
}

/* Returns 1 if the base has failed datums, else 0. */
static int again_any(const struct pl_plan_request *q, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_tree_item item;
    int r = again_open(q, &cursor, err);

    return r < 0 ? r : pl_tree_cursor_next(cursor, &item, err);
}

int pl_plan_retry_matches(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, const bool *complete,
                          struct pl_err *err)
{
    int r = again_any(q, err);

    if (r <= 0)
        return r;
    r = 0;
    for (size_t i = 0; i < p->n_leaves && r == 0; i++)
        if (!complete[i])
            r = again_join(p, q, i, memory, err);
    return r;
}

/* ---- datums ---- */

/* Finds the matches of a failed datum and stores their indexes in `picks`. Returns 1, or 0 if the datum is
 * already planned or gone. */
static int again_picks(const struct pl_plan *p, const struct pl_tree_item *item, uint32_t *picks, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(item->path + 1, item->path_len - 1);
    struct again_part part;
    int r;

    memset(picks, 0xFF, PL_SPEC_LEAVES_MAX * sizeof(*picks)); /* sets every entry to PL_PLAN_NO_PICK */
    while ((r = again_next(p, &c, &part, err)) > 0) {
        const struct pl_plan_leaf *leaf = &p->leaves[part.leaf];
        size_t at = again_find(leaf, &part);

        if (at == leaf->n)
            return pl_err_set(err, PL_ECORRUPT, "a failed datum of the base has a match that does not exist");
        if (leaf->matches[at].is != (PL_MATCH_OLD | PL_MATCH_NEW))
            return 0;
        picks[part.leaf] = (uint32_t)at;
    }
    return r < 0 ? r : 1;
}

int pl_plan_retry(const struct pl_plan *p, const struct pl_plan_request *q, pl_plan_retry_fn emit, void *self, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    uint32_t picks[PL_SPEC_LEAVES_MAX];
    struct pl_tree_item item;
    int r = again_open(q, &cursor, err);

    while (r == 0 && (r = pl_tree_cursor_next(cursor, &item, err)) > 0) {
        r = again_picks(p, &item, picks, err);
        if (r > 0)
            r = emit(self, picks, err);
    }
    return r;
}
