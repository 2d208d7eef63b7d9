/* Looks a path up in the layers from the top down, then in the base; the first layer with an operation for
 * the path, or for a directory above it, decides. */
#include "storage/tree_edit/op_overlay.h"

#include "storage/tree/path_conflict.h"

/* Reads the entry that a path has according to layer `from`, the layers below it, and the base. */
static int get_from(struct pl_op_overlay *o, unsigned from, const char *path, size_t path_len, struct pl_entry *ret,
                    struct pl_err *err)
{
    struct pl_tree_item item;
    int r;

    for (unsigned i = from; i < o->n; i++) {
        switch (pl_op_set_get(o->layers[i], path, path_len, ret)) {
        case PL_OP_THERE:
            return 1;
        case PL_OP_GONE:
            return 0;
        case PL_OP_UNKNOWN:
            break;
        }
    }
    r = pl_tree_cursor_get(o->base, path, path_len, &item, err);
    if (r > 0)
        *ret = item.entry;
    return r;
}

int pl_op_overlay_get(struct pl_op_overlay *o, const char *path, size_t path_len, struct pl_entry *ret, struct pl_err *err)
{
    return get_from(o, 0, path, path_len, ret, err);
}

/* True if none of the first `upto` layers has an operation that affects the path. */
static bool unknown_above(const struct pl_op_overlay *o, unsigned upto, const char *path, size_t path_len)
{
    for (unsigned i = 0; i < upto; i++)
        if (pl_op_set_get(o->layers[i], path, path_len, NULL) != PL_OP_UNKNOWN)
            return false;
    return true;
}

/* True if this layer has deleted the directory with everything in it. */
static bool cleared(const struct pl_op_overlay *o, unsigned layer, const char *path, size_t path_len)
{
    return pl_op_set_cleared(o->layers[layer], path, path_len) >= 0;
}

/* Finds a path below `prefix` that layer `i` puts and no layer above changes. Returns 1 and its operation,
 * or 0. */
static int put_below(const struct pl_op_overlay *o, unsigned i, const char *prefix, size_t len, struct pl_tree_op *ret)
{
    struct pl_op_set_cursor c = pl_op_set_seek(o->layers[i], prefix, len);

    while (pl_op_set_cursor_next(&c, ret) && pl_key_cmp_prefix(ret->path, ret->path_len, prefix, len) == 0)
        if ((ret->op == PL_TREE_PUT || ret->op == PL_TREE_REPLACE) && unknown_above(o, i, ret->path, ret->path_len))
            return 1;
    return 0;
}

/* Finds a path below `prefix` in the base that no layer changes. Returns 1 and its item, or 0. */
static int base_below(struct pl_op_overlay *o, const char *prefix, size_t len, struct pl_tree_item *ret, struct pl_err *err)
{
    int r = pl_tree_cursor_seek(o->base, prefix, len, err);

    while (r == 0 && (r = pl_tree_cursor_next(o->base, ret, err)) > 0) {
        if (pl_key_cmp_prefix(ret->path, ret->path_len, prefix, len) != 0)
            return 0;
        if (unknown_above(o, o->n, ret->path, ret->path_len))
            return 1;
        r = 0;
    }
    return r;
}

/* Returns 1 and the path of an entry below the directory `path`, or 0 if there is none. */
static int is_below(struct pl_op_overlay *o, const char *path, size_t path_len, char other[PL_PATH_MAX_BYTES + 1],
                    size_t *ret_len, struct pl_err *err)
{
    char prefix[PL_PATH_MAX_BYTES + 1];
    struct pl_tree_item item;
    struct pl_tree_op op;
    int r;

    memcpy(prefix, path, path_len);
    prefix[path_len] = '/';
    for (unsigned i = 0; i < o->n; i++) {
        if (put_below(o, i, prefix, path_len + 1, &op)) {
            memcpy(other, op.path, op.path_len);
            *ret_len = op.path_len;
            return 1;
        }
        if (cleared(o, i, path, path_len))
            return 0;
    }
    r = base_below(o, prefix, path_len + 1, &item, err);
    if (r > 0) {
        memcpy(other, item.path, item.path_len);
        *ret_len = item.path_len;
    }
    return r;
}

/* Checks whether paths exist below the path of a PUT. If so, a file or link is PL_ECOLLISION, and for an
 * empty directory `*ret_nothing` is set, because the PUT has no effect. */
static int check_below(struct pl_op_overlay *o, const struct pl_tree_op *op, bool *ret_nothing, struct pl_err *err)
{
    char other[PL_PATH_MAX_BYTES + 1];
    size_t len;
    int r;

    *ret_nothing = false;
    if (op->op == PL_TREE_REPLACE)
        return 0;
    r = is_below(o, op->path, op->path_len, other, &len, err);
    if (r <= 0)
        return r;
    if (op->entry.kind != PL_KIND_DIR)
        return pl_path_conflict_collision(err, op->path, op->path_len, other, len);
    *ret_nothing = true;
    return 0;
}

/* Checks that no parent directory of the path is a file. `ret_dir_len` receives the length of a parent path
 * that is an empty directory; 0 = none. There is at most one, because no entry is below an empty
 * directory. */
static int check_above(struct pl_op_overlay *o, const struct pl_tree_op *op, size_t *ret_dir_len, struct pl_err *err)
{
    struct pl_entry entry;
    int r;

    *ret_dir_len = 0;
    for (size_t len = 1; len < op->path_len; len++) {
        if (op->path[len] != '/')
            continue;
        r = get_from(o, 0, op->path, len, &entry, err);
        if (r < 0)
            return r;
        if (r > 0 && entry.kind != PL_KIND_DIR)
            return pl_path_conflict_collision(err, op->path, len, op->path, op->path_len);
        if (r > 0)
            *ret_dir_len = len;
    }
    return 0;
}

/* Checks a PUT or REPLACE and adds it to the top layer, together with the removal of a parent's entry if that
 * parent was an empty directory. */
static int add_put(struct pl_op_overlay *o, const struct pl_tree_op *op, struct pl_err *err)
{
    struct pl_tree_op gone = {.op = PL_TREE_DELETE, .path = op->path};
    struct pl_entry there;
    bool nothing;
    int r = pl_path_check(op->path, op->path_len, err);

    r = r < 0 ? r : pl_entry_check(&op->entry, err);
    if (r == 0 && op->entry.kind == PL_KIND_ROW)
        r = pl_err_set(err, PL_EINVAL, "an operation cannot put a row");
    if (r < 0)
        return r;
    if (op->op == PL_TREE_PUT) { /* fast path: most puts replace an existing file */
        r = get_from(o, 0, op->path, op->path_len, &there, err);
        if (r != 0)
            return r < 0 ? r : pl_op_set_add(o->layers[0], op, err);
    }
    r = check_above(o, op, &gone.path_len, err);
    r = r < 0 ? r : check_below(o, op, &nothing, err);
    if (r < 0 || nothing)
        return r;
    r = gone.path_len ? pl_op_set_add(o->layers[0], &gone, err) : 0;
    return r < 0 ? r : pl_op_set_add(o->layers[0], op, err);
}

int pl_op_overlay_add(struct pl_op_overlay *o, const struct pl_tree_op *op, struct pl_err *err)
{
    int r = 0;

    switch (op->op) {
    case PL_TREE_PUT:
    case PL_TREE_REPLACE:
        return add_put(o, op, err);
    case PL_TREE_DELETE:
    case PL_TREE_DELETE_PREFIX:
        if (op->op == PL_TREE_DELETE || op->path_len)
            r = pl_path_check(op->path, op->path_len, err);
        return r < 0 ? r : pl_op_set_add(o->layers[0], op, err);
    default:
        return pl_err_set(err, PL_EINVAL, "unknown tree operation %u", op->op);
    }
}

int pl_op_overlay_add_all(struct pl_op_overlay *o, const struct pl_tree_op *ops, size_t n, struct pl_err *err)
{
    int r = 0;

    for (int puts = 0; puts < 2; puts++)
        for (size_t i = 0; i < n && r == 0; i++)
            if ((ops[i].op == PL_TREE_PUT || ops[i].op == PL_TREE_REPLACE) == (puts == 1))
                r = pl_op_overlay_add(o, &ops[i], err);
    return r;
}
