/* node_stack: a place in a tree: the nodes from the root down to an item, each loaded only when entered. The base of cursor, diff,
 * edit and sums. Internal to storage/tree. Single-threaded.
 *
 * The current item is an entry (low == 0), a subtree that nobody has looked into yet (0 < low ≤ top: item of an inner node), or the
 * whole tree (low == top + 1). Every node that is entered is held against what its parent says of it: PL_ECORRUPT. */
#pragma once

#include "storage/tree/tree_node.h"

struct pl_node_frame {
    struct pl_node node;
    struct pl_hash id;
    bool held;      /* node is that of id; stays when the stack leaves it, so that coming back reads nothing */
    uint32_t at;    /* current item */
    uint32_t first; /* where entering stood */
};

struct pl_node_stack {
    struct pl_node_source source;
    struct pl_hash root;
    bool opened; /* the root is read: top is known */
    bool end;    /* past the last item */
    unsigned top;
    unsigned low;
    struct pl_node_frame f[PL_TREE_MAX_LEVELS]; /* by level */
};

/* Reads nothing. A zero root stands at the end. */
void pl_node_stack_init(struct pl_node_stack *s, const struct pl_node_source *source, const struct pl_hash *root);
void pl_node_stack_finish(struct pl_node_stack *s);

/* Stands on the whole tree, with the root read. */
PL_MUST_CHECK
int pl_node_stack_open(struct pl_node_stack *s, struct pl_err *err);
/* Goes into the current subtree, to its first item or (bound not NULL) the first that reaches the bound; `end` when none does. */
PL_MUST_CHECK
int pl_node_stack_enter(struct pl_node_stack *s, const struct pl_node_bound *bound, struct pl_err *err);
/* To the item of `level` (≤ top + 1) that reaches the bound, the last key of a subtree being its key; `end` when none does. */
PL_MUST_CHECK
int pl_node_stack_seek(struct pl_node_stack *s, const struct pl_node_bound *bound, unsigned level, struct pl_err *err);
/* To the last item of `level`. */
PL_MUST_CHECK
int pl_node_stack_last(struct pl_node_stack *s, unsigned level, struct pl_err *err);
/* To what follows the current item, as high up as it is still untouched. Reads nothing. */
void pl_node_stack_next(struct pl_node_stack *s);
/* To the neighbour of `level`, where the stack stands. `next` may come to the end; prev gives 0 and stays when there is none, else 1. */
PL_MUST_CHECK
int pl_node_stack_next_at(struct pl_node_stack *s, unsigned level, struct pl_err *err);
PL_MUST_CHECK
int pl_node_stack_prev_at(struct pl_node_stack *s, unsigned level, struct pl_err *err);
/* Reads the node below the current subtree without going into it; the stack's. */
PL_MUST_CHECK
int pl_node_stack_child(struct pl_node_stack *s, const struct pl_node **ret, struct pl_err *err);

/* Of the current item, which is not the whole tree. */
static inline const struct pl_node_frame *pl_node_stack_frame(const struct pl_node_stack *s)
{
    return &s->f[s->low];
}
static inline const char *pl_node_stack_key(const struct pl_node_stack *s, size_t *ret_len)
{
    const struct pl_node_frame *f = &s->f[s->low];

    *ret_len = pl_node_key_len(&f->node, f->at);
    return pl_node_key(&f->node, f->at);
}
/* Id of the current subtree (low > 0). */
struct pl_hash pl_node_stack_child_id(const struct pl_node_stack *s);
/* The key that all of the current item is greater than; NULL when there is none. */
const char *pl_node_stack_floor(const struct pl_node_stack *s, size_t *ret_len);
