/* One pass per level, from the leaves up. A pass finds the node of the next change, feeds its entries and
 * the changes to a level writer, and continues with the following nodes until new and old nodes end at the
 * same key. A node is read only when its entries must be split into nodes again. */
#include "storage/tree_edit/tree_apply.h"

#include "storage/tree/node_stack.h"

/* A pass over one level. The node stack is at the entry that describes the current node of this level in
 * the node's parent; if the current node is the root, the stack is at the item "whole tree". A node is read
 * only when its entries must be split into nodes again. */
struct pass {
    struct pl_node_stack *s;
    unsigned level;
    pl_change_fn next;
    void *next_self;
    struct pl_change c; /* next change; valid if `has` is true */
    bool has;
    struct pl_buf prefix; /* prefix of the keys being dropped; valid if `in_prefix` is true */
    bool in_prefix;
    bool prefix_passed_up;
    struct pl_level_writer w;
    struct pl_buf cut_key; /* last key of the node that was split last */
    bool cut;              /* true if a node was split */
    struct pl_change_list *out;
    /* the only child of what would be the root; set instead of writing that root */
    struct pl_hash sole_child;
    bool has_sole_child;
};

/* The last node that a pass wrote, and its only child if it has just one entry. */
struct written {
    struct pl_hash id;
    uint32_t n;
    struct pl_hash only_child;
};

static int advance(struct pass *p, struct pl_err *err)
{
    int r = p->next(p->next_self, &p->c, err);

    p->has = r > 0;
    return r < 0 ? r : 0;
}

static int emit_put(void *self, const struct pl_level_item *item, struct pl_err *err)
{
    struct pl_change change = {PL_CHANGE_PUT, *item};

    return pl_change_list_add(self, &change, err);
}

static bool on_root(const struct pass *p)
{
    return p->s->low > p->s->top;
}

/* Returns the last key of the current node, without reading the node unless it is the root. */
static const char *node_key(const struct pass *p, size_t *ret_len)
{
    const struct pl_node *root = &p->s->f[p->s->top].node;

    if (!on_root(p))
        return pl_node_stack_key(p->s, ret_len);
    *ret_len = pl_node_key_len(root, root->n - 1);
    return pl_node_key(root, root->n - 1);
}

static int set_buf(struct pl_buf *b, const void *data, size_t n, struct pl_err *err)
{
    pl_buf_clear(b);
    return pl_buf_add(b, data, n, err);
}

static int begin_prefix(struct pass *p, struct pl_err *err)
{
    const struct pl_level_item *item = &p->c.item;

    if (p->in_prefix && pl_key_cmp_prefix(item->key, item->key_len, p->prefix.data, p->prefix.len) == 0)
        return 0; /* the new prefix is within the prefix that is already being dropped */
    p->in_prefix = true;
    p->prefix_passed_up = false;
    return set_buf(&p->prefix, item->key, item->key_len, err);
}

/* Applies the changes up to `key`. `*ret_gone` is set if the old entry of that key is removed or replaced. */
static int apply_changes_to(struct pass *p, const char *key, size_t key_len, bool *ret_gone, struct pl_err *err)
{
    bool gone = false;
    int r = 0, order;

    while (r == 0 && p->has) {
        order = pl_key_cmp(p->c.item.key, p->c.item.key_len, key, key_len);
        if (order > 0)
            break;
        if (p->c.type == PL_CHANGE_PUT)
            r = pl_level_writer_add(&p->w, &p->c.item, err);
        else if (p->c.type == PL_CHANGE_DROP_PREFIX)
            r = begin_prefix(p, err);
        if (order == 0)
            /* the change drops or replaces the entry of `key`, or drops all keys that start with `key` */
            gone = true;
        if (r == 0)
            r = advance(p, err);
    }
    if (r == 0 && p->in_prefix) {
        order = pl_key_cmp_prefix(key, key_len, p->prefix.data, p->prefix.len);
        p->in_prefix = order <= 0;
        gone = gone || order == 0;
    }
    *ret_gone = gone;
    return r;
}

/* Returns entry `i` of a node in the form that the writer accepts. */
static struct pl_level_item item_of(const struct pl_node *node, uint32_t i)
{
    struct pl_level_item item = {
        pl_node_key(node, i), pl_node_key_len(node, i), pl_node_value(node, i), pl_node_value_len(node, i), {0}};
    struct pl_entry e;

    if (node->level > 0) {
        item.stats = pl_node_child(node, i).stats;
    } else {
        e = pl_node_entry(node, i);
        item.stats = (struct pl_tree_stats){e.kind != PL_KIND_DIR, e.size};
    }
    return item;
}

/* Adds a DROP of the current node's entry to the changes of the level above. */
static int pass_up_drop(struct pass *p, struct pl_err *err)
{
    const struct pl_node_frame *parent = pl_node_stack_frame(p->s);
    struct pl_change drop = {PL_CHANGE_DROP, item_of(&parent->node, parent->at)};

    return pl_change_list_add(p->out, &drop, err);
}

/* Passes the entries of the current node to the level writer, together with the changes whose keys lie
 * within that node. */
static int cut_node(struct pass *p, struct pl_err *err)
{
    const struct pl_node *node;
    struct pl_level_item item;
    const char *key;
    size_t key_len;
    bool gone;
    int r;

    r = pl_node_stack_child(p->s, &node, err);
    if (r == 0 && !on_root(p))
        r = pass_up_drop(p, err);
    for (uint32_t i = 0; r == 0 && i < node->n; i++) {
        r = apply_changes_to(p, pl_node_key(node, i), pl_node_key_len(node, i), &gone, err);
        if (r < 0 || gone)
            continue;
        item = item_of(node, i);
        r = pl_level_writer_add(&p->w, &item, err);
    }
    if (r < 0)
        return r;
    p->cut = true;
    key = node_key(p, &key_len);
    return set_buf(&p->cut_key, key, key_len, err);
}

/* Called at the end of the old level: applies the remaining changes and writes the last node. If the root
 * would have only one child, it is not written; `sole_child` is set instead. */
static int finish_level(struct pass *p, struct pl_err *err)
{
    int r = 0;

    while (r == 0 && p->has) {
        if (p->c.type == PL_CHANGE_PUT)
            r = pl_level_writer_add(&p->w, &p->c.item, err);
        if (r == 0)
            r = advance(p, err);
    }
    if (r == 0 && p->level == p->s->top && p->level > 0 && p->w.written == 0 && p->w.n == 1) {
        p->sole_child = p->w.last_only.id;
        p->has_sole_child = true;
        p->w.n = 0;
    }
    return r < 0 ? r : pl_level_writer_flush(&p->w, err);
}

/* Moves to the next node, and skips the nodes that are completely within a dropped prefix. */
static int next_node(struct pass *p, struct pl_err *err)
{
    struct pl_node_bound past = {p->prefix.data, p->prefix.len, true};
    struct pl_change drop = {PL_CHANGE_DROP_PREFIX, {.key = p->prefix.data, .key_len = p->prefix.len}};
    const char *key;
    size_t key_len;
    int r;

    r = pl_node_stack_next_at(p->s, p->level + 1, err);
    if (r < 0 || p->s->end || !p->in_prefix)
        return r;
    key = node_key(p, &key_len);
    if (pl_node_bound_reached(&past, key, key_len))
        return 0;
    if (!p->prefix_passed_up) {
        r = pl_change_list_add(p->out, &drop, err);
        if (r < 0)
            return r;
        p->prefix_passed_up = true;
    }
    return pl_node_stack_seek(p->s, &past, p->level + 1, err);
}

/* Returns 1 if a new node ends at the same key as the old node before the current one, and no change
 * affects the first entry of the current node. The nodes from the current one up to the next change are
 * then unchanged. */
static int boundaries_meet(struct pass *p, struct pl_err *err)
{
    const struct pl_node *node;
    const char *key;
    size_t key_len;
    int r;

    if (p->in_prefix)
        return 0;
    if (p->w.n == 0)
        return 1;
    key = node_key(p, &key_len);
    if (p->has && pl_key_cmp(p->c.item.key, p->c.item.key_len, key, key_len) <= 0)
        return 0;
    r = pl_node_stack_child(p->s, &node, err);
    if (r < 0 || pl_level_writer_fits(&p->w, pl_node_key(node, 0), pl_node_key_len(node, 0), pl_node_value_len(node, 0)))
        return r;
    r = pl_level_writer_flush(&p->w, err);
    return r < 0 ? r : 1;
}

/* Moves to the node of the next change. If the change affects the first key of that node, moves to the
 * previous node instead, because the end of a node may depend on the first key of the next one. */
static int find_start(struct pass *p, struct pl_err *err)
{
    const struct pl_level_item *item = &p->c.item;
    struct pl_node_bound bound = {item->key, item->key_len, false};
    const struct pl_node *node;
    const char *before;
    size_t before_len;
    int r;

    r = pl_node_stack_seek(p->s, &bound, p->level + 1, err);
    if (r == 0 && p->s->end)
        r = pl_node_stack_last(p->s, p->level + 1, err);
    if (r == 0)
        r = pl_node_stack_child(p->s, &node, err);
    if (r < 0 || pl_key_cmp(item->key, item->key_len, pl_node_key(node, 0), pl_node_key_len(node, 0)) > 0)
        return r;
    before = pl_node_stack_floor(p->s, &before_len);
    if (!before || pl_key_cmp(before, before_len, p->cut_key.data, p->cut_key.len) == 0)
        return 0;
    r = pl_node_stack_prev_at(p->s, p->level + 1, err);
    return r < 0 ? r : 0;
}

/* Runs a pass. For each group of neighbouring changes, splits nodes again until a new node ends at the same
 * key as an old node. */
static int run_pass(struct pass *p, struct pl_err *err)
{
    int r = advance(p, err);

    while (r == 0 && p->has) {
        r = find_start(p, err);
        while (r == 0) {
            r = cut_node(p, err);
            if (r == 0)
                r = next_node(p, err);
            if (r == 0 && p->s->end) {
                r = finish_level(p, err);
                break;
            }
            if (r == 0)
                r = boundaries_meet(p, err);
        }
        if (r > 0)
            r = 0;
    }
    return r;
}

/* Returns the root if `id` is the only node of level `level`: goes down to the only child as long as a node
 * has just one. */
static int collapse(const struct pl_node_stack *s, const struct written *written, struct pl_hash id, unsigned level,
                    struct pl_hash *ret, struct pl_err *err)
{
    _cleanup_(pl_node_finish) struct pl_node node = {0};
    int r;

    for (; level > 0; level--) {
        if (written[level].n > 0 && pl_hash_eq(&written[level].id, &id)) {
            if (written[level].n > 1)
                break;
            id = written[level].only_child;
            continue;
        }
        r = pl_node_load(&node, &s->source, &id, err);
        if (r < 0)
            return r;
        if (node.n > 1)
            break;
        id = pl_node_child(&node, 0).id;
    }
    *ret = id;
    return 0;
}

/* Writes the levels above the old root. */
static int grow(const struct pl_node_sink *sink, uint8_t tree, unsigned first, const struct pl_change_list *nodes,
                struct pl_hash *ret, struct pl_err *err)
{
    _cleanup_(pl_level_tower_finish) struct pl_level_tower t;
    struct pl_change c;
    int r = 0;

    pl_level_tower_init(&t, sink, tree, first);
    for (size_t i = 0; r == 0 && i < nodes->n; i++) {
        c = pl_change_list_get(nodes, i);
        r = pl_level_tower_add(&t, &c.item, err);
    }
    return r < 0 ? r : pl_level_tower_root(&t, ret, err);
}

struct list_reader {
    const struct pl_change_list *list;
    size_t i;
};

static int read_list(void *self, struct pl_change *ret, struct pl_err *err)
{
    struct list_reader *reader = self;

    (void)err;
    if (reader->i == reader->list->n)
        return 0;
    *ret = pl_change_list_get(reader->list, reader->i++);
    return 1;
}

/* Runs the pass of one level. Reads the changes of this level from p->next and writes the changes of the
 * level above to p->out. */
static int cut_level(struct pass *p, const struct pl_node_sink *sink, uint8_t tree, struct written *ret, struct pl_err *err)
{
    int r;

    pl_level_writer_init(&p->w, sink, tree, (uint8_t)p->level, emit_put, p->out);
    r = run_pass(p, err);
    if (r == 0)
        pl_change_list_settle(p->out);
    if (r == 0 && p->w.written > 0)
        *ret = (struct written){p->w.last_id, p->w.last_n, p->w.last_only.id};
    pl_level_writer_finish(&p->w);
    pl_buf_finish(&p->prefix);
    pl_buf_finish(&p->cut_key);
    return r;
}

/* Applies the changes to an existing tree, level by level. Ends early if a level passes no changes up, and
 * otherwise removes levels with a single node or adds levels above the old root. */
static int apply_to_nodes(struct pl_node_stack *s, const struct pl_node_sink *sink, uint8_t tree, pl_change_fn next, void *self,
                          struct pl_hash *ret_root, struct pl_err *err)
{
    _cleanup_(pl_change_list_finish) struct pl_change_list below = {0};
    _cleanup_(pl_change_list_finish) struct pl_change_list above = {0};
    struct written written[PL_TREE_MAX_LEVELS] = {0};
    struct list_reader reader = {.list = &below};
    struct pl_hash id;
    struct pass p;
    int r;

    for (unsigned level = 0; level <= s->top; level++) {
        p = (struct pass){.s = s, .level = level, .next = next, .next_self = self, .out = &above};
        r = cut_level(&p, sink, tree, &written[level], err);
        if (r < 0)
            return r;
        if (above.n == 0 && (level < s->top || !p.cut)) {
            *ret_root = s->root;
            return 0;
        }
        pl_change_list_finish(&below);
        below = above;
        above = (struct pl_change_list){0};
        reader.i = 0;
        next = read_list;
        self = &reader;
    }
    if (p.has_sole_child)
        return collapse(s, written, p.sole_child, s->top - 1, ret_root, err);
    if (below.n == 1) {
        memcpy(id.b, pl_change_list_get(&below, 0).item.value, PL_HASH_BYTES);
        *ret_root = id;
        return 0;
    }
    return grow(sink, tree, s->top + 1, &below, ret_root, err);
}

/* Builds a new tree from the PUTs. */
static int apply_to_nothing(const struct pl_node_sink *sink, uint8_t tree, pl_change_fn next, void *self,
                            struct pl_hash *ret_root, struct pl_err *err)
{
    _cleanup_(pl_level_tower_finish) struct pl_level_tower t;
    struct pl_change c;
    int r;

    pl_level_tower_init(&t, sink, tree, 0);
    while ((r = next(self, &c, err)) > 0) {
        if (c.type != PL_CHANGE_PUT)
            continue;
        r = pl_level_tower_add(&t, &c.item, err);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : pl_level_tower_root(&t, ret_root, err);
}

int pl_tree_apply(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *root, uint8_t tree,
                  pl_change_fn next, void *self, struct pl_hash *ret_root, struct pl_err *err)
{
    _cleanup_(pl_node_stack_finish) struct pl_node_stack s;
    int r;

    pl_node_stack_init(&s, source, root);
    r = pl_node_stack_open(&s, err);
    if (r < 0)
        return r;
    if (s.end)
        return apply_to_nothing(sink, tree, next, self, ret_root, err);
    if (s.f[s.top].node.tree != tree)
        return pl_err_set(err, PL_EINVAL, "a tree cannot contain both rows and paths");
    return apply_to_nodes(&s, sink, tree, next, self, ret_root, err);
}
