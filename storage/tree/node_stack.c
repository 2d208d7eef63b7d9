/* Frames are indexed by level, with the root at `top`. A frame keeps its decoded node after the stack has
 * left that level, so returning to the same node needs no read. */
#include "storage/tree/node_stack.h"

void pl_node_stack_init(struct pl_node_stack *s, const struct pl_node_source *source, const struct pl_hash *root)
{
    *s = (struct pl_node_stack){.source = *source, .root = *root, .end = pl_hash_is_zero(root)};
}

void pl_node_stack_finish(struct pl_node_stack *s)
{
    for (unsigned i = 0; i < PL_TREE_MAX_LEVELS; i++)
        pl_node_finish(&s->f[i].node);
    *s = (struct pl_node_stack){.end = true};
}

int pl_node_stack_open(struct pl_node_stack *s, struct pl_err *err)
{
    struct pl_node node = {0};
    struct pl_node_frame *f;
    int r;

    if (pl_hash_is_zero(&s->root)) {
        s->end = true;
        return 0;
    }
    if (!s->opened) {
        r = pl_node_load(&node, &s->source, &s->root, err);
        if (r < 0) {
            pl_node_finish(&node);
            return r;
        }
        s->top = node.level;
        s->opened = true;
        f = &s->f[s->top];
        *f = (struct pl_node_frame){.node = node, .id = s->root, .held = true};
    }
    s->low = s->top + 1;
    s->end = false;
    return 0;
}

struct pl_hash pl_node_stack_child_id(const struct pl_node_stack *s)
{
    if (!s->opened || s->low > s->top)
        return s->root;
    return pl_node_child(&s->f[s->low].node, s->f[s->low].at).id;
}

const char *pl_node_stack_floor(const struct pl_node_stack *s, size_t *ret_len)
{
    for (unsigned l = s->low; l <= s->top; l++) {
        if (s->f[l].at > 0) {
            *ret_len = pl_node_key_len(&s->f[l].node, s->f[l].at - 1);
            return pl_node_key(&s->f[l].node, s->f[l].at - 1);
        }
    }
    *ret_len = 0;
    return NULL;
}

/* True if the node has the level, last key and sums that the current item of its parent states. */
static bool child_fits(const struct pl_node_stack *s, const struct pl_node *node)
{
    const struct pl_node_frame *parent = &s->f[s->low];
    size_t floor_len;
    const char *floor_key = pl_node_stack_floor(s, &floor_len);

    return pl_node_fits(node, &parent->node, parent->at, floor_key, floor_len);
}

int pl_node_stack_child(struct pl_node_stack *s, const struct pl_node **ret, struct pl_err *err)
{
    struct pl_node_frame *f = &s->f[s->low - 1];
    struct pl_hash id = pl_node_stack_child_id(s);
    char hex[PL_HASH_HEX + 1];
    int r;

    if (!f->held || !pl_hash_eq(&f->id, &id)) {
        f->held = false;
        r = pl_node_load(&f->node, &s->source, &id, err);
        if (r < 0)
            return r;
        f->id = id;
        f->held = true;
    }
    if (s->low <= s->top && !child_fits(s, &f->node))
        return pl_err_set(err, PL_ECORRUPT, "tree node %.12s does not match its entry in the parent node", pl_hash_hex(&id, hex));
    *ret = &f->node;
    return 0;
}

int pl_node_stack_enter(struct pl_node_stack *s, const struct pl_node_bound *bound, struct pl_err *err)
{
    const struct pl_node *node;
    struct pl_node_frame *f;
    int r;

    r = pl_node_stack_child(s, &node, err);
    if (r < 0)
        return r;
    s->low--;
    f = &s->f[s->low];
    /* the next seek usually ends near the position of the last one, so start searching there */
    f->first = f->at = bound ? pl_node_find_near(node, bound, f->at) : 0;
    s->end = f->at == node->n;
    return 0;
}

int pl_node_stack_seek(struct pl_node_stack *s, const struct pl_node_bound *bound, unsigned level, struct pl_err *err)
{
    int r = pl_node_stack_open(s, err);

    while (r == 0 && !s->end && s->low > level)
        r = pl_node_stack_enter(s, bound, err);
    return r;
}

/* Enters subtrees down to `level`, each at its last item. */
static int descend_last(struct pl_node_stack *s, unsigned level, struct pl_err *err)
{
    int r = 0;

    while (r == 0 && s->low > level) {
        r = pl_node_stack_enter(s, NULL, err);
        if (r == 0)
            s->f[s->low].at = s->f[s->low].node.n - 1;
    }
    return r;
}

int pl_node_stack_last(struct pl_node_stack *s, unsigned level, struct pl_err *err)
{
    int r = pl_node_stack_open(s, err);

    return r < 0 || s->end ? r : descend_last(s, level, err);
}

void pl_node_stack_next(struct pl_node_stack *s)
{
    for (; s->low <= s->top; s->low++) {
        if (++s->f[s->low].at < s->f[s->low].node.n)
            return;
    }
    s->end = true;
}

int pl_node_stack_next_at(struct pl_node_stack *s, unsigned level, struct pl_err *err)
{
    int r = 0;

    pl_node_stack_next(s);
    while (r == 0 && !s->end && s->low > level)
        r = pl_node_stack_enter(s, NULL, err);
    return r;
}

int pl_node_stack_prev_at(struct pl_node_stack *s, unsigned level, struct pl_err *err)
{
    unsigned l = level;
    int r;

    while (l <= s->top && s->f[l].at == 0)
        l++;
    if (l > s->top)
        return 0;
    s->f[l].at--;
    s->low = l;
    r = descend_last(s, level, err);
    return r < 0 ? r : 1;
}
