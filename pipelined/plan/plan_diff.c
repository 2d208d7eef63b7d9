/* plan_diff: compares the tree of an input with the tree of the base, and reports the matches that differ:
 * files directly, directories if anything below them differs. */
#include "pipelined/plan/plan_diff.h"

#include "storage/tree/content_id.h"
#include "storage/tree/tree_diff.h"

struct leaf_diff {
    struct plan_leaf_walk walk;
    const struct pl_hash *base;
    bool reference;
};

/* Finds a directory as a match in the tree `root`. It is a match if it contains a file that the input's
 * `files` select. */
static int diff_find_dir(struct plan_leaf_walk *w, const struct pl_hash *root, const char *dir, size_t len,
                         struct plan_found *ret, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    char prefix[PL_PATH_MAX_BYTES + 2];
    size_t n = len + (len > 0);
    struct pl_tree_item item;
    int r;

    ret->kind = 0;
    memcpy(prefix, dir, len);
    prefix[len] = '/';
    r = pl_tree_cursor_create(w->from->source, root, prefix, n, &cursor, err);
    while (r == 0 && (r = pl_tree_cursor_next(cursor, &item, err)) > 0) {
        r = 0;
        if (item.entry.kind == PL_KIND_DIR ||
            (w->files != NULL && !pl_glob_set_takes(w->files, item.path + n, item.path_len - n)))
            continue;
        ret->kind = PL_KIND_DIR;
        prefix[len] = '\0';
        return pl_content_id_dir(w->from->source, root, prefix, w->files != NULL ? pl_plan_leaf_takes : NULL, w, &ret->content,
                                 NULL, err);
    }
    return r;
}

/* Adds a match to the result if its state in the base and its state now differ. */
static int diff_add(struct leaf_diff *d, const char *path, size_t len, const struct plan_found *old, const struct plan_found *now,
                    struct pl_err *err)
{
    uint8_t is = (uint8_t)((old->kind != 0 ? PL_MATCH_OLD : 0) | (now->kind != 0 ? PL_MATCH_NEW : 0));

    if (old->kind == now->kind && (now->kind == 0 || pl_hash_eq(&old->content, &now->content)))
        return 0;
    /* a changed `reference` makes no difference, because datum keys contain neither its content nor its
     * kind */
    if (d->reference && old->kind != 0 && now->kind != 0)
        return 0;
    if (now->kind != 0)
        is |= PL_MATCH_CHANGED;
    return pl_plan_leaf_add(&d->walk, path, len, now->kind != 0 ? now : old, is, err);
}

static int diff_dir(struct leaf_diff *d, const char *dir, size_t len, struct pl_err *err)
{
    struct plan_found old = {0}, now = {0};
    int r;

    r = diff_find_dir(&d->walk, d->base, dir, len, &old, err);
    if (r == 0)
        r = diff_find_dir(&d->walk, &d->walk.from->root, dir, len, &now, err);
    return r < 0 ? r : diff_add(d, dir, len, &old, &now, err);
}

/* Compares the matching directories above the path. Skips those that were compared for the previous path. */
static int diff_dirs(struct leaf_diff *d, const char *path, size_t len, struct pl_err *err)
{
    struct plan_leaf_walk *w = &d->walk;
    size_t common = 0;
    int r = 0;

    while (common < len && common < w->before_len && path[common] == w->before[common])
        common++;
    for (size_t i = common; i < len && r == 0; i++)
        if (path[i] == '/' && (pl_glob_test(w->glob, path, i, w->captures) & PL_GLOB_MATCH) != 0)
            r = diff_dir(d, path, i, err);
    memcpy(w->before, path, len);
    w->before_len = len;
    return r;
}

static int diff_change(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct leaf_diff *d = self;
    struct plan_leaf_walk *w = &d->walk;
    struct plan_found old = {0}, now = {0};
    int r;

    if (pl_glob_is_root(w->glob)) {
        r = diff_dir(d, "", 0, err);
        return r < 0 ? r : 1; /* stop here: the root is the only match */
    }
    r = diff_dirs(d, change->path, change->path_len, err);
    if (r < 0 || !pl_glob_match(w->glob, change->path, change->path_len, w->captures))
        return r;
    r = pl_plan_leaf_file(w, change->path, change->path_len, change->old_entry, &old, err);
    if (r == 0)
        r = pl_plan_leaf_file(w, change->path, change->path_len, change->new_entry, &now, err);
    return r < 0 ? r : diff_add(d, change->path, change->path_len, &old, &now, err);
}

int pl_plan_leaf_diff(const struct pl_input *input, const struct pl_plan_input *from, const struct pl_hash *base,
                      struct plan_memory *memory, struct pl_plan_leaf *ret, struct pl_err *err)
{
    struct leaf_diff d = {.base = base, .reference = input->reference};
    const char *prefix;
    size_t prefix_len;
    int r = pl_plan_leaf_open(&d.walk, input, from, memory, ret, err);

    if (r == 0) {
        prefix = pl_glob_prefix(d.walk.glob, &prefix_len);
        r = pl_tree_diff(from->source, base, &from->root, prefix, prefix_len, diff_change, &d, err);
    }
    pl_plan_leaf_close(&d.walk);
    return r < 0 ? pl_err_wrap(err, r, "input %s", input->name) : 0;
}

int pl_plan_leaf_join(struct plan_memory *memory, const struct pl_plan_leaf *all, struct pl_plan_leaf *leaf, struct pl_err *err)
{
    size_t n = 0, i = 0, k = 0, cap = all->n + leaf->n;
    struct pl_plan_match *joined;
    int r = pl_plan_memory_check(memory, cap * sizeof(*joined), err);

    if (r < 0)
        return r;
    joined = calloc(cap + 1, sizeof(*joined));
    if (joined == NULL)
        return pl_err_nomem(err);
    while (i < all->n || k < leaf->n) {
        int c = i == all->n ? 1 : k == leaf->n ? -1 : pl_plan_match_cmp(&all->matches[i], &leaf->matches[k]);

        if (c < 0) {
            joined[n] = all->matches[i];
            joined[n++].is = PL_MATCH_OLD | PL_MATCH_NEW;
        } else {
            joined[n++] = leaf->matches[k++];
        }
        i += c <= 0;
    }
    memory->arrays += cap * sizeof(*joined);
    free(leaf->matches);
    leaf->matches = joined;
    leaf->n = n;
    return 0;
}

int pl_plan_leaf_at(struct plan_leaf_walk *w, const char *path, size_t len, bool dir, struct pl_err *err)
{
    struct plan_found found = {0};
    struct pl_entry entry;
    int r;

    if (!dir)
        r = pl_tree_get(w->from->source, &w->from->root, path, len, &entry, err);
    else
        r = diff_find_dir(w, &w->from->root, path, len, &found, err);
    if (r == 0 && !dir)
        r = pl_plan_leaf_file(w, path, len, &entry, &found, err);
    if (r == 0 && (found.kind == 0 || (pl_glob_test(w->glob, path, len, w->captures) & PL_GLOB_MATCH) == 0))
        return pl_err_set(err, PL_ECORRUPT, "/%.*s is no longer a match", (int)PL_MIN(len, (size_t)200), path);
    return r < 0 ? r : pl_plan_leaf_add(w, path, len, &found, PL_MATCH_OLD | PL_MATCH_NEW, err);
}

int pl_plan_leaf_complete(const struct pl_input *input, const struct pl_plan_input *from, struct plan_memory *memory,
                          struct pl_plan_leaf *leaf, struct pl_err *err)
{
    struct pl_plan_leaf all = {0};
    int r = pl_input_reads(input) ? pl_plan_leaf_match(input, from, memory, &all, err)
                                  : pl_plan_leaf_params(input, memory, &all, err);

    if (r == 0)
        r = pl_plan_leaf_join(memory, &all, leaf, err);
    free(all.matches);
    return r;
}
