/* A cursor is a node stack with a prefix. pl_tree_stats_get adds the stored sums of whole subtrees and enters
 * only the subtrees that are partly outside the prefix. */
#include "storage/tree/tree_walk.h"

#include "storage/tree/node_stack.h"
#include "storage/tree/tree_build.h"

struct pl_tree_cursor {
    struct pl_node_stack stack;
    struct pl_buf prefix;
    /* copy of the sought path, because the caller's path may be in a node that the seek replaces */
    struct pl_buf target;
    /* UNPLACED: nothing was read; PLACED: on the item to return next; GIVEN: the current item was returned */
    enum { UNPLACED, PLACED, GIVEN } state;
};

int pl_tree_cursor_create(const struct pl_node_source *source, const struct pl_hash *root, const char *prefix, size_t prefix_len,
                          struct pl_tree_cursor **ret, struct pl_err *err)
{
    struct pl_tree_cursor *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return pl_err_nomem(err);
    pl_node_stack_init(&c->stack, source, root);
    r = pl_buf_add(&c->prefix, prefix, prefix_len, err);
    if (r < 0) {
        pl_tree_cursor_destroy(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct pl_tree_cursor *pl_tree_cursor_destroy(struct pl_tree_cursor *c)
{
    if (c) {
        pl_node_stack_finish(&c->stack);
        pl_buf_finish(&c->prefix);
        pl_buf_finish(&c->target);
        free(c);
    }
    return NULL;
}

static int place(struct pl_tree_cursor *c, struct pl_node_bound bound, struct pl_err *err)
{
    int r;

    c->state = UNPLACED;
    pl_buf_clear(&c->target);
    r = pl_buf_add(&c->target, bound.key, bound.key_len, err);
    if (r < 0)
        return r;
    bound.key = c->target.data;
    r = pl_node_stack_seek(&c->stack, &bound, 0, err);
    if (r == 0)
        c->state = PLACED;
    return r;
}

int pl_tree_cursor_seek(struct pl_tree_cursor *c, const char *path, size_t path_len, struct pl_err *err)
{
    struct pl_node_bound bound = {path, path_len, false};

    if (pl_key_cmp(path, path_len, c->prefix.data, c->prefix.len) < 0)
        bound = (struct pl_node_bound){c->prefix.data, c->prefix.len, false};
    return place(c, bound, err);
}

int pl_tree_cursor_seek_past(struct pl_tree_cursor *c, const char *prefix, size_t prefix_len, struct pl_err *err)
{
    struct pl_node_bound bound = {prefix, prefix_len, true};

    if (pl_key_cmp_prefix(c->prefix.data, c->prefix.len, prefix, prefix_len) > 0)
        bound = (struct pl_node_bound){c->prefix.data, c->prefix.len, false};
    return place(c, bound, err);
}

/* Returns 1 and the cursor's current item if the item's key starts with the cursor's prefix; otherwise 0. */
static int give(struct pl_tree_cursor *c, struct pl_tree_item *ret)
{
    const struct pl_node_frame *f;
    const char *path;
    size_t path_len;

    if (c->stack.end)
        return 0;
    path = pl_node_stack_key(&c->stack, &path_len);
    if (pl_key_cmp_prefix(path, path_len, c->prefix.data, c->prefix.len) != 0)
        return 0;
    f = pl_node_stack_frame(&c->stack);
    *ret = (struct pl_tree_item){path, path_len, pl_node_entry(&f->node, f->at)};
    c->state = GIVEN;
    return 1;
}

int pl_tree_cursor_next(struct pl_tree_cursor *c, struct pl_tree_item *ret, struct pl_err *err)
{
    int r = 0;

    if (c->state == UNPLACED)
        r = pl_tree_cursor_seek(c, "", 0, err);
    else if (c->state == GIVEN && !c->stack.end)
        r = pl_node_stack_next_at(&c->stack, 0, err);
    if (r < 0)
        return r;
    c->state = PLACED;
    return give(c, ret);
}

int pl_tree_cursor_get(struct pl_tree_cursor *c, const char *path, size_t path_len, struct pl_tree_item *ret, struct pl_err *err)
{
    const char *key;
    size_t key_len;
    int r;

    r = pl_tree_cursor_seek(c, path, path_len, err);
    if (r < 0 || c->stack.end)
        return r;
    key = pl_node_stack_key(&c->stack, &key_len);
    if (pl_key_cmp(key, key_len, path, path_len) != 0)
        return 0;
    return give(c, ret);
}

int pl_tree_get(const struct pl_node_source *source, const struct pl_hash *root, const char *path, size_t path_len,
                struct pl_entry *ret, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    int r;

    r = pl_tree_cursor_create(source, root, NULL, 0, &c, err);
    if (r == 0)
        r = pl_tree_cursor_get(c, path, path_len, &item, err);
    if (r < 0)
        return r;
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "there is no \"%.*s\"", (int)PL_MIN(path_len, 800u), path);
    if (item.entry.kind == PL_KIND_ROW)
        return pl_err_set(err, PL_EINVAL, "a row is read through a cursor, which owns its bytes");
    *ret = item.entry;
    return 0;
}

/* Adds the current item to the sums. If the item is a subtree that may be only partly within the prefix,
 * enters the subtree instead. */
static int add_stats(struct pl_node_stack *s, const struct pl_node_bound *start, struct pl_tree_stats *sum, struct pl_err *err)
{
    const struct pl_node_frame *f = pl_node_stack_frame(s);
    struct pl_node_child child;
    struct pl_entry e;
    size_t key_len, floor_len;
    const char *key = pl_node_stack_key(s, &key_len);
    const char *floor_key = pl_node_stack_floor(s, &floor_len);
    bool whole = start->key_len == 0 || (floor_key && pl_node_bound_reached(start, floor_key, floor_len));

    if (s->low == 0) {
        e = pl_node_entry(&f->node, f->at);
        sum->files += e.kind != PL_KIND_DIR;
        sum->bytes += e.size;
    } else if (whole && pl_key_cmp_prefix(key, key_len, start->key, start->key_len) == 0) {
        child = pl_node_child(&f->node, f->at);
        sum->files += child.stats.files;
        sum->bytes += child.stats.bytes;
    } else {
        return pl_node_stack_enter(s, start, err);
    }
    pl_node_stack_next(s);
    return 0;
}

/* True if all keys of the current item come after the keys that start with the prefix. */
static bool is_past(const struct pl_node_stack *s, const struct pl_node_bound *start)
{
    size_t len;
    const char *key = s->low == 0 ? pl_node_stack_key(s, &len) : pl_node_stack_floor(s, &len);

    return key && pl_key_cmp_prefix(key, len, start->key, start->key_len) > 0;
}

int pl_tree_stats_get(const struct pl_node_source *source, const struct pl_hash *root, const char *prefix, size_t prefix_len,
                      struct pl_tree_stats *ret, struct pl_err *err)
{
    _cleanup_(pl_node_stack_finish) struct pl_node_stack s;
    struct pl_node_bound start = {prefix, prefix_len, false};
    struct pl_tree_stats sum = {0};
    int r;

    pl_node_stack_init(&s, source, root);
    r = pl_node_stack_open(&s, err);
    if (r == 0 && !s.end && prefix_len == 0) {
        *ret = s.f[s.top].node.stats;
        return 0;
    }
    if (r == 0 && !s.end)
        r = pl_node_stack_enter(&s, &start, err);
    while (r == 0 && !s.end && !is_past(&s, &start))
        r = add_stats(&s, &start, &sum, err);
    if (r < 0)
        return r;
    *ret = sum;
    return 0;
}

int pl_tree_check(const struct pl_node_source *source, const struct pl_hash *root, const struct pl_tree_params *params,
                  struct pl_err *err)
{
    _cleanup_(pl_tree_builder_destroyp) struct pl_tree_builder *b = NULL;
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    struct pl_node_sink sink = pl_node_sink_hash_only();
    struct pl_tree_item item;
    struct pl_hash rebuilt;
    char hex[PL_HASH_HEX + 1];
    int r;

    sink.params = params;
    r = pl_tree_builder_create(&sink, &b, err);
    if (r == 0)
        r = pl_tree_cursor_create(source, root, NULL, 0, &c, err);
    if (r < 0)
        return r;
    while ((r = pl_tree_cursor_next(c, &item, err)) > 0) {
        r = pl_tree_builder_add(b, item.path, item.path_len, &item.entry, err);
        if (r == PL_ECOLLISION)
            return pl_err_wrap(err, PL_ECORRUPT, "tree %.12s", pl_hash_hex(root, hex));
        if (r < 0)
            return r;
    }
    if (r == 0)
        r = pl_tree_builder_finish(b, &rebuilt, NULL, err);
    if (r < 0)
        return r;
    if (!pl_hash_eq(root, &rebuilt))
        return pl_err_set(err, PL_ECORRUPT, "tree %.12s is not split into nodes by the rule of the format",
                          pl_hash_hex(root, hex));
    return 0;
}

int pl_tree_visit_nodes(const struct pl_node_source *source, const struct pl_hash *root, pl_tree_node_fn visit, void *self,
                        struct pl_err *err)
{
    _cleanup_(pl_node_stack_finish) struct pl_node_stack s;
    struct pl_hash id;
    int r;

    pl_node_stack_init(&s, source, root);
    r = pl_node_stack_open(&s, err);
    while (r >= 0 && !s.end) {
        id = pl_node_stack_child_id(&s);
        r = visit(self, &id, s.low - 1, err);
        if (r < 0)
            return r;
        if (r != PL_TREE_SKIP && s.low >= 2)
            r = pl_node_stack_enter(&s, NULL, err);
        else
            pl_node_stack_next(&s);
    }
    return r < 0 ? r : 0;
}
