/* Moves two node stacks, one per tree, forward together. If both are on subtrees with the same id, both
 * subtrees are skipped. Otherwise the subtree of the higher level is entered, until both stacks are on
 * entries. */
#include "storage/tree/tree_diff.h"

#include "storage/tree/node_stack.h"

struct pl_tree_differ {
    struct pl_node_stack a; /* position in the old tree */
    struct pl_node_stack b; /* position in the new tree */
    struct pl_buf prefix;
    struct pl_buf from; /* skip the keys before this one */
    bool started;
    /* the current entry of `a` was returned or compared: move past it before the next comparison */
    bool a_given;
    bool b_given;
    struct pl_entry old_entry;
    struct pl_entry new_entry;
};

int pl_tree_differ_create(const struct pl_node_source *source, const struct pl_hash *old_root, const struct pl_hash *new_root,
                          const char *prefix, size_t prefix_len, struct pl_tree_differ **ret, struct pl_err *err)
{
    struct pl_tree_differ *d = calloc(1, sizeof *d);
    int r;

    if (!d)
        return pl_err_nomem(err);
    pl_node_stack_init(&d->a, source, old_root);
    pl_node_stack_init(&d->b, source, new_root);
    if (pl_hash_eq(old_root, new_root))
        d->a.end = d->b.end = d->started = true;
    r = pl_buf_add(&d->prefix, prefix, prefix_len, err);
    r = r < 0 ? r : pl_buf_add(&d->from, prefix, prefix_len, err);
    if (r < 0) {
        pl_tree_differ_destroy(d);
        return r;
    }
    *ret = d;
    return 0;
}

int pl_tree_differ_seek(struct pl_tree_differ *d, const char *from, size_t from_len, struct pl_err *err)
{
    if (pl_key_cmp(from, from_len, d->from.data, d->from.len) <= 0)
        return 0;
    pl_buf_clear(&d->from);
    return pl_buf_add(&d->from, from, from_len, err);
}

struct pl_tree_differ *pl_tree_differ_destroy(struct pl_tree_differ *d)
{
    if (d) {
        pl_node_stack_finish(&d->a);
        pl_node_stack_finish(&d->b);
        pl_buf_finish(&d->prefix);
        pl_buf_finish(&d->from);
        free(d);
    }
    return NULL;
}

/* True if neither the current item nor any item after it can be within the prefix. For an unread subtree this
 * is decided by the key before the subtree. */
static bool at_end(const struct pl_tree_differ *d, const struct pl_node_stack *s)
{
    const char *key;
    size_t len;

    if (s->end)
        return true;
    key = s->low == 0 ? pl_node_stack_key(s, &len) : pl_node_stack_floor(s, &len);
    return key && pl_key_cmp_prefix(key, len, d->prefix.data, d->prefix.len) > 0;
}

static int enter(const struct pl_tree_differ *d, struct pl_node_stack *s, struct pl_err *err)
{
    struct pl_node_bound bound = {d->from.data, d->from.len, false};

    return pl_node_stack_enter(s, &bound, err);
}

/* `whole` is on an unread subtree. If `s` has entered a node with the same id and is still at the first
 * item of that node, moves both stacks past the node and returns true. */
static bool skip_entered(struct pl_node_stack *s, struct pl_node_stack *whole)
{
    unsigned level = whole->low - 1;
    struct pl_hash id = pl_node_stack_child_id(whole);

    if (level < s->low || level > s->top || !pl_hash_eq(&s->f[level].id, &id))
        return false;
    for (unsigned l = s->low; l <= level; l++) {
        if (s->f[l].at != s->f[l].first)
            return false;
    }
    s->low = level + 1;
    pl_node_stack_next(s);
    pl_node_stack_next(whole);
    return true;
}

/* Advances while at least one of the two stacks is on a subtree: skips subtrees that are equal, otherwise
 * enters the subtree of the higher level. */
static int step_subtrees(struct pl_tree_differ *d, struct pl_err *err)
{
    struct pl_node_stack *a = &d->a, *b = &d->b;
    struct pl_hash a_id, b_id;
    int r = 0;

    if (a->low > b->low)
        return skip_entered(b, a) ? 0 : enter(d, a, err);
    if (b->low > a->low)
        return skip_entered(a, b) ? 0 : enter(d, b, err);
    a_id = pl_node_stack_child_id(a);
    b_id = pl_node_stack_child_id(b);
    if (pl_hash_eq(&a_id, &b_id)) {
        pl_node_stack_next(a);
        pl_node_stack_next(b);
        return 0;
    }
    r = enter(d, a, err);
    return r < 0 ? r : enter(d, b, err);
}

/* Compares entries; each side is on an entry or at its end. Returns 1 and the difference, or 0 if the
 * entries are equal. */
static int compare_entries(struct pl_tree_differ *d, bool a_end, bool b_end, struct pl_tree_change *ret)
{
    const struct pl_node_frame *fa = &d->a.f[0], *fb = &d->b.f[0];
    struct pl_tree_change change = {0};
    const char *a_key = NULL, *b_key = NULL;
    size_t a_len = 0, b_len = 0;
    int order = a_end - b_end;

    if (!a_end)
        a_key = pl_node_stack_key(&d->a, &a_len);
    if (!b_end)
        b_key = pl_node_stack_key(&d->b, &b_len);
    if (!a_end && !b_end)
        order = pl_key_cmp(a_key, a_len, b_key, b_len);
    d->a_given = order <= 0;
    d->b_given = order >= 0;
    if (order == 0 && pl_key_cmp(pl_node_value(&fa->node, fa->at), pl_node_value_len(&fa->node, fa->at),
                                 pl_node_value(&fb->node, fb->at), pl_node_value_len(&fb->node, fb->at)) == 0)
        return 0;
    change.path = order <= 0 ? a_key : b_key;
    change.path_len = order <= 0 ? a_len : b_len;
    if (order <= 0) {
        d->old_entry = pl_node_entry(&fa->node, fa->at);
        change.old_entry = &d->old_entry;
    }
    if (order >= 0) {
        d->new_entry = pl_node_entry(&fb->node, fb->at);
        change.new_entry = &d->new_entry;
    }
    *ret = change;
    return 1;
}

static int start(struct pl_tree_differ *d, struct pl_err *err)
{
    int r = pl_node_stack_open(&d->a, err);

    if (r == 0)
        r = pl_node_stack_open(&d->b, err);
    if (r == 0 && !d->a.end && !d->b.end && d->a.f[d->a.top].node.tree != d->b.f[d->b.top].node.tree)
        r = pl_err_set(err, PL_EINVAL, "a tree of rows cannot be compared with a tree of paths");
    d->started = r == 0;
    return r;
}

/* Moves past the entries that were compared. */
static void leave_compared(struct pl_tree_differ *d)
{
    if (d->a_given)
        pl_node_stack_next(&d->a);
    if (d->b_given)
        pl_node_stack_next(&d->b);
    d->a_given = d->b_given = false;
}

int pl_tree_differ_next(struct pl_tree_differ *d, struct pl_tree_change *ret, struct pl_err *err)
{
    int r = d->started ? 0 : start(d, err);

    while (r == 0) {
        bool a_end, b_end, on_subtree;

        leave_compared(d);
        a_end = at_end(d, &d->a);
        b_end = at_end(d, &d->b);
        if (a_end && b_end)
            return 0;
        on_subtree = (!a_end && d->a.low > 0) || (!b_end && d->b.low > 0);
        if (!on_subtree)
            r = compare_entries(d, a_end, b_end, ret);
        else if (a_end || b_end)
            r = enter(d, a_end ? &d->b : &d->a, err);
        else
            r = step_subtrees(d, err);
    }
    return r;
}

int pl_tree_diff(const struct pl_node_source *source, const struct pl_hash *old_root, const struct pl_hash *new_root,
                 const char *prefix, size_t prefix_len, pl_tree_change_fn fn, void *self, struct pl_err *err)
{
    _cleanup_(pl_tree_differ_destroyp) struct pl_tree_differ *d = NULL;
    struct pl_tree_change change;
    int r;

    r = pl_tree_differ_create(source, old_root, new_root, prefix, prefix_len, &d, err);
    if (r < 0)
        return r;
    while ((r = pl_tree_differ_next(d, &change, err)) > 0) {
        r = fn(self, &change, err);
        if (r != 0)
            return r;
    }
    return r;
}
