/* Derives the changes of keys from the operations. In a tree of paths it first checks the names: which
 * empty directories are removed, which keys below deleted directories go, and which paths collide.
 * tree_apply then applies the changes. */
#include "storage/tree_edit/tree_edit.h"

#include "storage/tree/path_conflict.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_apply.h"

/* State of one call of pl_tree_edit: the caller's operations, and what check_names derives from their paths:
 * the PUTs of empty directories that have no effect, and the further keys that must be removed. */
struct edit {
    const struct pl_node_source *source;
    const struct pl_hash *root;
    const struct pl_tree_op *ops;
    size_t n;
    uint8_t tree;
    bool has_prefixes;
    uint8_t *gives_way; /* bitmap: bit i set = PUT i acts as DELETE */
    struct pl_change_list extra;
    struct pl_tree_cursor *base;
    /* trail of the paths of the PUTs; each tag is the number of its operation */
    struct pl_path_conflict_trail *trail;
    struct pl_buf scratch;
    /* position in the stream of changes (next_change) */
    size_t op_at;
    size_t extra_at;
};

static void edit_finish(struct edit *e)
{
    free(e->gives_way);
    pl_change_list_finish(&e->extra);
    pl_tree_cursor_destroy(e->base);
    if (e->trail)
        pl_path_conflict_trail_finish(e->trail);
    free(e->trail);
    pl_buf_finish(&e->scratch);
}

static bool is_put(const struct pl_tree_op *op)
{
    return op->op == PL_TREE_PUT || op->op == PL_TREE_REPLACE;
}

static bool is_prefix(const struct pl_tree_op *op)
{
    return op->op == PL_TREE_DELETE_PREFIX || op->op == PL_TREE_REPLACE;
}

static void give_way(struct edit *e, size_t i)
{
    e->gives_way[i / 8] |= (uint8_t)(1u << (i % 8));
}

static bool gives_way(const struct edit *e, size_t i)
{
    return (e->gives_way[i / 8] >> (i % 8) & 1) != 0;
}

/* Checks operation `i`: order, path, kind and entry. */
static int check_op(const struct edit *e, size_t i, struct pl_err *err)
{
    const struct pl_tree_op *op = &e->ops[i], *before = i > 0 ? op - 1 : NULL;
    int r = 0;

    if (before && pl_key_cmp(before->path, before->path_len, op->path, op->path_len) >= 0)
        return pl_path_conflict_disorder(err, before->path, before->path_len, op->path, op->path_len);
    if (op->op != PL_TREE_DELETE_PREFIX || op->path_len > 0)
        r = pl_path_conflict_check_key(e->tree, op->path, op->path_len, err);
    if (r < 0)
        return r;
    if (op->op == PL_TREE_DELETE || op->op == PL_TREE_DELETE_PREFIX)
        return 0;
    if (!is_put(op) || (op->op == PL_TREE_REPLACE && e->tree == PL_TREE_ROWS))
        return pl_err_set(err, PL_EINVAL, "invalid tree operation %u", op->op);
    if ((op->entry.kind == PL_KIND_ROW) != (e->tree == PL_TREE_ROWS))
        return pl_err_set(err, PL_EINVAL, "a tree cannot contain both rows and paths");
    r = pl_entry_check(&op->entry, err);
    return r < 0 ? pl_err_wrap(err, r, "%.*s", (int)PL_MIN(op->path_len, 400u), op->path) : 0;
}

/* Decides the kind of tree: that of the first PUT, or without one that of the root; paths if there is no
 * root. */
static int find_tree(struct edit *e, struct pl_err *err)
{
    _cleanup_(pl_node_finish) struct pl_node node = {0};
    int r;

    e->tree = PL_TREE_PATHS;
    for (size_t i = 0; i < e->n; i++) {
        if (is_put(&e->ops[i])) {
            e->tree = e->ops[i].entry.kind == PL_KIND_ROW ? PL_TREE_ROWS : PL_TREE_PATHS;
            return 0;
        }
    }
    if (pl_hash_is_zero(e->root))
        return 0;
    r = pl_node_load(&node, e->source, e->root, err);
    if (r == 0)
        e->tree = node.tree;
    return r;
}

/* Returns the number of the first operation with a path ≥ this one. */
static size_t find_op(const struct edit *e, const char *path, size_t path_len)
{
    size_t lo = 0, hi = e->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (pl_key_cmp(e->ops[mid].path, e->ops[mid].path_len, path, path_len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static const struct pl_tree_op *op_at(const struct edit *e, const char *path, size_t path_len)
{
    size_t i = find_op(e, path, path_len);

    if (i == e->n || pl_key_cmp(e->ops[i].path, e->ops[i].path_len, path, path_len) != 0)
        return NULL;
    return &e->ops[i];
}

/* Returns the length of a directory above `path` that a DELETE_PREFIX or REPLACE removes; -1 if there is
 * none. */
static ssize_t deleted_above(const struct edit *e, const char *path, size_t path_len)
{
    const struct pl_tree_op *op;

    if (!e->has_prefixes)
        return -1;
    if (is_prefix(&e->ops[0]) && e->ops[0].path_len == 0)
        return 0;
    for (size_t len = 1; len < path_len; len++) {
        if (path[len] != '/')
            continue;
        op = op_at(e, path, len);
        if (op && is_prefix(op))
            return (ssize_t)len;
    }
    return -1;
}

/* Checks the PUTs whose path is a parent directory of PUT `i`: an empty directory is dropped from the
 * operations, a file is a collision. */
static int check_puts_above(struct edit *e, size_t i, struct pl_err *err)
{
    const struct pl_tree_op *op = &e->ops[i];
    const struct pl_path_conflict_step *step;
    uint32_t at = 0;

    while ((step = pl_path_conflict_trail_above(e->trail, &at))) {
        if (e->ops[step->tag].entry.kind != PL_KIND_DIR)
            return pl_path_conflict_collision(err, op->path, step->len, op->path, op->path_len);
        give_way(e, step->tag);
    }
    return 0;
}

/* Handles an entry of the base tree whose path is a parent directory of PUT `i`: an empty directory is
 * removed, a file is a collision. */
static int settle_above(struct edit *e, size_t i, size_t dir_len, const struct pl_entry *entry, struct pl_err *err)
{
    const struct pl_tree_op *op = &e->ops[i];
    struct pl_change drop = {PL_CHANGE_DROP, {.key = op->path, .key_len = dir_len}};

    if (op_at(e, op->path, dir_len) || deleted_above(e, op->path, dir_len) >= 0)
        /* another operation deletes this entry, or puts its path, which check_puts_above has checked */
        return 0;
    if (entry->kind == PL_KIND_DIR)
        return pl_change_list_add(&e->extra, &drop, err);
    return pl_path_conflict_collision(err, op->path, dir_len, op->path, op->path_len);
}

/* Looks in the base tree for an entry at a parent directory of PUT `i`. Parents within the first `known`
 * bytes of the path are skipped: they are known to be directories, or were checked for the previous PUT. */
static int check_base_above(struct edit *e, size_t i, size_t known, struct pl_err *err)
{
    const struct pl_tree_op *op = &e->ops[i];
    struct pl_tree_item item;
    int r = 0;

    for (size_t len = known + 1; r == 0 && len < op->path_len; len++) {
        if (op->path[len] != '/')
            continue;
        r = pl_tree_cursor_get(e->base, op->path, len, &item, err);
        if (r > 0)
            return settle_above(e, i, len, &item.entry, err);
    }
    return r;
}

/* Checks which entries of the base remain below PUT `i`, whose path is not in the base: a file is a
 * collision, an empty directory is dropped. */
static int check_base_below(struct edit *e, size_t i, struct pl_err *err)
{
    const struct pl_tree_op *op = &e->ops[i], *other;
    struct pl_tree_item item;
    ssize_t deleted;
    int r;

    pl_buf_clear(&e->scratch);
    r = pl_buf_add(&e->scratch, op->path, op->path_len, err);
    if (r == 0)
        r = pl_buf_add_u8(&e->scratch, '/', err);
    if (r == 0)
        r = pl_tree_cursor_seek(e->base, (const char *)e->scratch.data, e->scratch.len, err);
    while (r == 0 && (r = pl_tree_cursor_next(e->base, &item, err)) > 0) {
        if (pl_key_cmp_prefix(item.path, item.path_len, e->scratch.data, e->scratch.len) != 0)
            return 0;
        r = 0;
        deleted = deleted_above(e, item.path, item.path_len);
        other = op_at(e, item.path, item.path_len);
        if (deleted >= 0) {
            r = pl_tree_cursor_seek_past(e->base, item.path, (size_t)deleted + 1, err);
        } else if (!other || is_put(other)) {
            if (op->entry.kind != PL_KIND_DIR)
                return pl_path_conflict_collision(err, op->path, op->path_len, item.path, item.path_len);
            give_way(e, i);
            return 0;
        }
    }
    return r;
}

/* Returns the length of the longest common directory of two paths. */
static size_t common_dir(const void *a, size_t a_len, const char *b, size_t b_len)
{
    size_t n = pl_key_common(a, a_len, b, b_len);

    while (n > 0 && b[n - 1] != '/')
        n--;
    return n > 0 ? n - 1 : 0;
}

/* Checks PUT `i` against the base. The directories within the first `known` bytes of its path were checked
 * for the previous PUT. */
static int check_base(struct edit *e, size_t i, size_t known, struct pl_err *err)
{
    const struct pl_tree_op *op = &e->ops[i];
    struct pl_tree_item item;
    bool may_have_below = false;
    int r;

    r = pl_tree_cursor_seek(e->base, op->path, op->path_len, err);
    if (r == 0)
        r = pl_tree_cursor_next(e->base, &item, err);
    if (r < 0)
        return r;
    if (r > 0) {
        if (pl_key_cmp(item.path, item.path_len, op->path, op->path_len) == 0)
            return 0; /* the path exists: nothing above or below it changes */
        known = PL_MAX(known, common_dir(item.path, item.path_len, op->path, op->path_len));
        may_have_below = pl_key_cmp_prefix(item.path, item.path_len, op->path, op->path_len) == 0;
    }
    r = check_base_above(e, i, known, err);
    if (r == 0 && may_have_below && op->op == PL_TREE_PUT)
        r = check_base_below(e, i, err);
    return r;
}

static int check_put(struct edit *e, size_t i, struct pl_err *err)
{
    const struct pl_tree_op *op = &e->ops[i];
    size_t known = common_dir(e->trail->path.data, e->trail->path.len, op->path, op->path_len);
    int r;

    r = pl_path_conflict_trail_go(e->trail, op->path, op->path_len, err);
    if (r == 0)
        r = check_puts_above(e, i, err);
    if (r == 0 && !pl_hash_is_zero(e->root))
        r = check_base(e, i, known, err);
    if (r == 0)
        pl_path_conflict_trail_mark(e->trail, (uint32_t)i);
    return r;
}

/* Adds the removal of everything below a deleted or replaced directory. */
static int drop_below(struct edit *e, const struct pl_tree_op *op, struct pl_err *err)
{
    struct pl_change drop = {PL_CHANGE_DROP_PREFIX, {0}};
    int r;

    pl_buf_clear(&e->scratch);
    r = pl_buf_add(&e->scratch, op->path, op->path_len, err);
    if (r == 0 && op->path_len > 0)
        r = pl_buf_add_u8(&e->scratch, '/', err);
    if (r < 0)
        return r;
    drop.item.key = e->scratch.data;
    drop.item.key_len = e->scratch.len;
    return pl_change_list_add(&e->extra, &drop, err);
}

/* Checks the names of all operations: fills `gives_way` and `extra`, or finds a collision. */
static int check_names(struct edit *e, struct pl_err *err)
{
    int r;

    e->trail = calloc(1, sizeof *e->trail);
    if (!e->trail)
        return pl_err_nomem(err);
    r = pl_tree_cursor_create(e->source, e->root, NULL, 0, &e->base, err);
    for (size_t i = 0; r == 0 && i < e->n; i++) {
        if (is_put(&e->ops[i]))
            r = check_put(e, i, err);
        if (r == 0 && is_prefix(&e->ops[i]))
            r = drop_below(e, &e->ops[i], err);
    }
    if (r == 0)
        pl_change_list_settle(&e->extra);
    return r;
}

/* Converts operation `i` to a change of its key. */
static int change_of_op(struct edit *e, size_t i, struct pl_change *ret, struct pl_err *err)
{
    const struct pl_tree_op *op = &e->ops[i];
    struct pl_change c = {PL_CHANGE_DROP, {.key = op->path, .key_len = op->path_len}};
    int r;

    if (is_put(op) && !gives_way(e, i)) {
        pl_buf_clear(&e->scratch);
        r = pl_entry_encode(&op->entry, &e->scratch, err);
        if (r < 0)
            return r;
        c.type = PL_CHANGE_PUT;
        c.item.value = e->scratch.data;
        c.item.value_len = e->scratch.len;
        c.item.stats = (struct pl_tree_stats){op->entry.kind != PL_KIND_DIR, op->entry.size};
    } else if (op->op == PL_TREE_DELETE_PREFIX && e->tree == PL_TREE_ROWS) {
        c.type = PL_CHANGE_DROP_PREFIX;
    }
    *ret = c;
    return 1;
}

/* The pl_change_fn of an edit: merges operations and extra changes in order of key. */
static int next_change(void *self, struct pl_change *ret, struct pl_err *err)
{
    struct edit *e = self;
    struct pl_change extra = {0};
    bool has_op = e->op_at < e->n, has_extra = e->extra_at < e->extra.n;

    if (has_extra)
        extra = pl_change_list_get(&e->extra, e->extra_at);
    if (has_extra &&
        (!has_op || pl_key_cmp(extra.item.key, extra.item.key_len, e->ops[e->op_at].path, e->ops[e->op_at].path_len) < 0)) {
        e->extra_at++;
        *ret = extra;
        return 1;
    }
    return has_op ? change_of_op(e, e->op_at++, ret, err) : 0;
}

int pl_tree_edit(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *root,
                 const struct pl_tree_op *ops, size_t n, struct pl_hash *ret_root, struct pl_err *err)
{
    _cleanup_(edit_finish) struct edit e = {.source = source, .root = root, .ops = ops, .n = n};
    int r;

    if (n > UINT32_MAX)
        return pl_err_set(err, PL_ELIMIT, "too many operations in one edit: %zu", n);
    r = find_tree(&e, err);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = check_op(&e, i, err);
        e.has_prefixes = e.has_prefixes || is_prefix(&ops[i]);
    }
    if (r < 0)
        return r;
    e.gives_way = calloc(1, n / 8 + 1);
    if (!e.gives_way)
        return pl_err_nomem(err);
    if (e.tree == PL_TREE_PATHS)
        r = check_names(&e, err);
    return r < 0 ? r : pl_tree_apply(source, sink, root, e.tree, next_change, &e, ret_root, err);
}
