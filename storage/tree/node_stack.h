/* node_stack: a position in a tree: the nodes from the root down to an item. Each node is loaded only when
 * it is entered. Cursors, diffs, edits and sums are built on it. Used by this room and storage/tree_edit.
 * Single-threaded.
 *
 * The current item is an entry (low == 0), an unread subtree (0 < low ≤ top: an item of an inner node), or
 * the whole tree (low == top + 1). A node that is entered is compared with its parent's entry; a
 * difference is PL_ECORRUPT. */
#pragma once

#include "storage/tree/tree_node.h"

struct pl_node_frame {
    struct pl_node node;
    struct pl_hash id;
    /* true: `node` holds the decoded node `id`. The node is kept when the stack leaves it, so that
     * returning to it reads nothing */
    bool held;
    uint32_t at;    /* number of the current item */
    uint32_t first; /* item at which the node was entered */
};

struct pl_node_stack {
    struct pl_node_source source;
    struct pl_hash root;
    bool opened; /* true: the root was loaded, so `top` is valid */
    bool end;    /* true: the position is after the last item */
    unsigned top;
    unsigned low;
    struct pl_node_frame f[PL_TREE_MAX_LEVELS]; /* frames, indexed by level */
};

/* Initialises a stack; reads nothing. With a zero root the stack is at the end. */
void pl_node_stack_init(struct pl_node_stack *s, const struct pl_node_source *source, const struct pl_hash *root);
void pl_node_stack_finish(struct pl_node_stack *s);

/* Loads the root and moves to the whole tree. */
PL_MUST_CHECK
int pl_node_stack_open(struct pl_node_stack *s, struct pl_err *err);
/* Enters the current subtree and moves to its first item. If `bound` (a search target, see tree_node.h) is
 * not NULL, moves to the first item at or after the bound instead; sets `end` if there is no such item. */
PL_MUST_CHECK
int pl_node_stack_enter(struct pl_node_stack *s, const struct pl_node_bound *bound, struct pl_err *err);
/* Moves to the first item of `level` (≤ top + 1) whose key is at or after the bound. The key of a subtree
 * is its last key. Sets `end` if there is no such item. */
PL_MUST_CHECK
int pl_node_stack_seek(struct pl_node_stack *s, const struct pl_node_bound *bound, unsigned level, struct pl_err *err);
/* Moves to the last item of `level`. */
PL_MUST_CHECK
int pl_node_stack_last(struct pl_node_stack *s, unsigned level, struct pl_err *err);
/* Moves to the item after the current one. If several levels have an item that begins there, moves to the
 * one on the highest level, so that its subtree stays unread. Reads nothing. */
void pl_node_stack_next(struct pl_node_stack *s);
/* Move to the next or the previous item of `level`, which must be the current level. next_at may reach the
 * end. prev_at returns 1, or 0 and does not move if there is no previous item. */
PL_MUST_CHECK
int pl_node_stack_next_at(struct pl_node_stack *s, unsigned level, struct pl_err *err);
PL_MUST_CHECK
int pl_node_stack_prev_at(struct pl_node_stack *s, unsigned level, struct pl_err *err);
/* Loads the node of the current subtree without entering it. The stack owns the node. */
PL_MUST_CHECK
int pl_node_stack_child(struct pl_node_stack *s, const struct pl_node **ret, struct pl_err *err);

/* Frame and key of the current item, which must not be the whole tree. */
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
/* Returns the id of the current subtree (low > 0). */
struct pl_hash pl_node_stack_child_id(const struct pl_node_stack *s);
/* Returns a key that is less than all keys of the current item: the key before it. NULL if there is none. */
const char *pl_node_stack_floor(const struct pl_node_stack *s, size_t *ret_len);
