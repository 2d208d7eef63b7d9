/* Sorted blocks of up to BLOCK_ITEMS pointers to items. A full block is split in two. */
#include "storage/tree_edit/op_set.h"

#define BLOCK_ITEMS 256u
#define SPARES_KEPT 4u /* spare blocks kept for the next pl_op_set_take */

struct op_item {
    uint8_t op;
    uint16_t path_len, value_len;
    uint8_t bytes[]; /* path, then the encoded entry, then attributes */
};

struct pl_op_block {
    size_t n;
    union {
        struct op_item *items[BLOCK_ITEMS];
        struct pl_op_block *next; /* next block in the list of spare blocks */
    };
};

/* The position of an item, or where it would be inserted. */
struct place {
    size_t block, at;
    bool found;
};

static int compare(const struct op_item *item, const char *path, size_t path_len)
{
    return pl_key_cmp(item->bytes, item->path_len, path, path_len);
}

static bool clears(const struct op_item *item)
{
    return item->op == PL_TREE_DELETE_PREFIX || item->op == PL_TREE_REPLACE;
}

static bool puts_entry(uint8_t op)
{
    return op == PL_TREE_PUT || op == PL_TREE_REPLACE;
}

static struct pl_op_block *block_new(struct pl_op_set *t)
{
    struct pl_op_block *b = t->spare;

    if (!b)
        return calloc(1, sizeof *b);
    t->spare = b->next;
    t->n_spare--;
    *b = (struct pl_op_block){0};
    return b;
}

static void drop_spares(struct pl_op_set *t, size_t keep)
{
    while (t->n_spare > keep)
        free(block_new(t));
}

void pl_op_set_finish(struct pl_op_set *t)
{
    drop_spares(t, 0);
    for (size_t b = 0; b < t->n_blocks; b++) {
        for (size_t i = 0; i < t->blocks[b]->n; i++)
            free(t->blocks[b]->items[i]);
        free(t->blocks[b]);
    }
    free(t->blocks);
    *t = (struct pl_op_set){0};
}

/* Returns the last block whose first item is ≤ the path. No block is empty. */
static size_t find_block(const struct pl_op_set *t, const char *path, size_t path_len)
{
    size_t lo = 0, hi = t->n_blocks;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (compare(t->blocks[mid]->items[0], path, path_len) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 ? lo - 1 : 0;
}

static struct place find(const struct pl_op_set *t, const char *path, size_t path_len)
{
    struct place p = {.block = find_block(t, path, path_len)};
    const struct pl_op_block *b = t->n_blocks ? t->blocks[p.block] : NULL;
    size_t hi = b ? b->n : 0;

    while (p.at < hi) {
        size_t mid = p.at + (hi - p.at) / 2;

        if (compare(b->items[mid], path, path_len) < 0)
            p.at = mid + 1;
        else
            hi = mid;
    }
    p.found = b && p.at < b->n && compare(b->items[p.at], path, path_len) == 0;
    return p;
}

static struct op_item *item_at(const struct pl_op_set *t, const char *path, size_t path_len)
{
    struct place p = find(t, path, path_len);

    return p.found ? t->blocks[p.block]->items[p.at] : NULL;
}

/* ---- changes ---- */

static int room_for_blocks(struct pl_op_set *t, size_t n, struct pl_err *err)
{
    struct pl_op_block **blocks;
    size_t cap = t->cap_blocks ? t->cap_blocks : 16;

    while (cap < t->n_blocks + n)
        cap *= 2;
    if (cap == t->cap_blocks)
        return 0;
    blocks = reallocarray(t->blocks, cap, sizeof(struct pl_op_block *));
    if (!blocks)
        return pl_err_nomem(err);
    t->blocks = blocks;
    t->cap_blocks = cap;
    return 0;
}

static int insert_block(struct pl_op_set *t, size_t at, struct pl_op_block *block, struct pl_err *err)
{
    int r = room_for_blocks(t, 1, err);

    if (r < 0)
        return r;
    memmove(t->blocks + at + 1, t->blocks + at, (t->n_blocks - at) * sizeof(struct pl_op_block *));
    t->blocks[at] = block;
    t->n_blocks++;
    return 0;
}

/* Makes space for one item in the block at `p`. A full block is split, at its end if items are added in
 * order. */
static int make_room(struct pl_op_set *t, struct place *p, struct pl_err *err)
{
    struct pl_op_block *full = t->n_blocks ? t->blocks[p->block] : NULL, *next;
    size_t keep;
    int r;

    if (full && full->n < BLOCK_ITEMS)
        return 0;
    next = block_new(t);
    if (!next)
        return pl_err_nomem(err);
    r = insert_block(t, full ? p->block + 1 : 0, next, err);
    if (r < 0) {
        free(next);
        return r;
    }
    if (!full)
        return 0;
    keep = p->at == BLOCK_ITEMS ? BLOCK_ITEMS : BLOCK_ITEMS / 2;
    next->n = full->n - keep;
    memcpy(next->items, full->items + keep, next->n * sizeof(struct op_item *));
    full->n = keep;
    if (p->at >= keep) {
        p->block++;
        p->at -= keep;
    }
    return 0;
}

static void count(struct pl_op_set *t, const struct op_item *item, int sign)
{
    t->n += (size_t)sign;
    t->clearing += (size_t)(sign * clears(item));
    t->bytes += (size_t)(sign * ((int)sizeof *item + item->path_len + item->value_len));
}

static void remove_at(struct pl_op_set *t, struct place p)
{
    struct pl_op_block *b = t->blocks[p.block];

    count(t, b->items[p.at], -1);
    free(b->items[p.at]);
    memmove(b->items + p.at, b->items + p.at + 1, (--b->n - p.at) * sizeof(struct op_item *));
    if (b->n)
        return;
    free(b);
    memmove(t->blocks + p.block, t->blocks + p.block + 1, (--t->n_blocks - p.block) * sizeof(struct pl_op_block *));
}

/* Allocates an item of kind `op` with the path, encoded entry and attributes of the operation `from`. */
static int make_item(uint8_t op, const struct pl_tree_op *from, struct op_item **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf value = {0};
    struct op_item *item;
    int r = puts_entry(op) ? pl_entry_encode(&from->entry, &value, err) : 0;

    if (r == 0 && puts_entry(op) && from->attributes.len)
        r = pl_buf_add(&value, from->attributes.data, from->attributes.len, err);
    if (r < 0)
        return r;
    item = malloc(sizeof *item + from->path_len + value.len);
    if (!item)
        return pl_err_nomem(err);
    item->op = op;
    item->path_len = (uint16_t)from->path_len;
    item->value_len = (uint16_t)value.len;
    if (from->path_len)
        memcpy(item->bytes, from->path, from->path_len);
    if (value.len)
        memcpy(item->bytes + from->path_len, value.data, value.len);
    *ret = item;
    return 0;
}

/* Inserts `item`, or replaces the item of the same path. On success the set owns `item`. */
static int put_item(struct pl_op_set *t, struct op_item *item, struct pl_err *err)
{
    struct place p = find(t, (const char *)item->bytes, item->path_len);
    struct pl_op_block *b;
    int r;

    if (p.found) {
        b = t->blocks[p.block];
        count(t, b->items[p.at], -1);
        free(b->items[p.at]);
    } else {
        r = make_room(t, &p, err);
        if (r < 0)
            return r;
        b = t->blocks[p.block];
        memmove(b->items + p.at + 1, b->items + p.at, (b->n++ - p.at) * sizeof(struct op_item *));
    }
    b->items[p.at] = item;
    count(t, item, 1);
    return 0;
}

/* Removes the items below a directory. */
static void drop_below(struct pl_op_set *t, const char *path, size_t path_len)
{
    char prefix[PL_PATH_MAX_BYTES + 1];
    size_t len = 0;

    if (path_len) {
        memcpy(prefix, path, path_len);
        prefix[path_len] = '/';
        len = path_len + 1;
    }
    for (;;) {
        struct place p = find(t, prefix, len);
        struct op_item *item;

        if (t->n_blocks && p.at == t->blocks[p.block]->n)
            p = (struct place){.block = p.block + 1};
        if (p.block >= t->n_blocks)
            return;
        item = t->blocks[p.block]->items[p.at];
        if (pl_key_cmp_prefix(item->bytes, item->path_len, prefix, len) != 0)
            return;
        remove_at(t, p);
    }
}

/* Returns the kind of item that an operation must be stored as, and removes the items that the operation
 * makes obsolete. After a deleted directory, a PUT of its path is a REPLACE, and a DELETE of it a
 * DELETE_PREFIX. */
static uint8_t upon(struct pl_op_set *t, uint8_t op, const char *path, size_t path_len)
{
    const struct op_item *there;

    if (op == PL_TREE_DELETE_PREFIX || op == PL_TREE_REPLACE) {
        drop_below(t, path, path_len);
        return op;
    }
    there = item_at(t, path, path_len);
    if (!there || !clears(there))
        return op;
    return op == PL_TREE_PUT ? PL_TREE_REPLACE : PL_TREE_DELETE_PREFIX;
}

int pl_op_set_add(struct pl_op_set *t, const struct pl_tree_op *op, struct pl_err *err)
{
    uint8_t as = upon(t, op->op, op->path, op->path_len);
    struct op_item *item = NULL;
    int r;

    if (t->n >= PL_TREE_OPS_MAX && !item_at(t, op->path, op->path_len))
        return pl_err_set(err, PL_ELIMIT, "more than %u operations in one commit", PL_TREE_OPS_MAX);
    r = make_item(as, op, &item, err);
    if (r < 0)
        return r;
    r = put_item(t, item, err);
    if (r < 0)
        free(item);
    return r;
}

/* Computes how many new blocks pl_op_set_take needs at most, and allocates them. The items arrive in order,
 * so a block that is full now is split at most once. Each half is split again only after new items have
 * filled its free slots. */
int pl_op_set_reserve(struct pl_op_set *t, const struct pl_op_set *from, struct pl_err *err)
{
    size_t blocks = PL_MIN(from->n, t->n_blocks + from->n / (BLOCK_ITEMS / 2) + 1);

    while (t->n_spare < blocks) {
        struct pl_op_block *b = calloc(1, sizeof *b);

        if (!b)
            return pl_err_nomem(err);
        b->next = t->spare;
        t->spare = b;
        t->n_spare++;
    }
    return room_for_blocks(t, blocks, err);
}

void pl_op_set_take(struct pl_op_set *t, struct pl_op_set *from)
{
    for (size_t i = 0; i < from->n_blocks; i++) {
        struct pl_op_block *b = from->blocks[i];

        for (size_t k = 0; k < b->n; k++) {
            struct op_item *item = b->items[k];

            item->op = upon(t, item->op, (const char *)item->bytes, item->path_len);
            if (put_item(t, item, NULL) < 0)
                abort(); /* unreachable: reserve has made space */
        }
        b->n = 0;
    }
    pl_op_set_finish(from);
    drop_spares(t, SPARES_KEPT);
}

int pl_op_set_merge(struct pl_op_set *t, const struct pl_op_set *from, struct pl_err *err)
{
    struct pl_op_set_cursor c = {.t = from};
    struct pl_tree_op op;
    int r = 0;

    while (r == 0 && pl_op_set_cursor_next(&c, &op))
        r = pl_op_set_add(t, &op, err);
    return r;
}

/* ---- lookups ---- */

ssize_t pl_op_set_cleared(const struct pl_op_set *t, const char *path, size_t path_len)
{
    const struct op_item *item;

    if (!t->clearing)
        return -1;
    item = item_at(t, "", 0);
    if (item)
        return 0;
    for (size_t len = 1; len <= path_len; len++) {
        if (len < path_len && path[len] != '/')
            continue;
        item = item_at(t, path, len);
        if (item && clears(item))
            return (ssize_t)len;
    }
    return -1;
}

static void read_item(const struct op_item *item, struct pl_tree_op *ret)
{
    struct pl_cursor c = pl_cursor_of(item->bytes + item->path_len, item->value_len);

    *ret = (struct pl_tree_op){.op = item->op, .path = (const char *)item->bytes, .path_len = item->path_len};
    if (!puts_entry(item->op))
        return;
    if (pl_entry_decode(&c, &ret->entry, NULL) < 0)
        abort(); /* unreachable: make_item encoded these bytes */
    ret->attributes = (struct pl_file_attributes){c.p, pl_cursor_left(&c)};
}

enum pl_op_set_item pl_op_set_look(const struct pl_op_set *t, const char *path, size_t path_len, struct pl_tree_op *ret)
{
    const struct op_item *item = item_at(t, path, path_len);

    if (!item)
        return pl_op_set_cleared(t, path, path_len) >= 0 ? PL_OP_GONE : PL_OP_UNKNOWN;
    if (!puts_entry(item->op))
        return PL_OP_GONE;
    read_item(item, ret);
    return PL_OP_THERE;
}

enum pl_op_set_item pl_op_set_get(const struct pl_op_set *t, const char *path, size_t path_len, struct pl_entry *ret)
{
    struct pl_tree_op op;
    enum pl_op_set_item known = pl_op_set_look(t, path, path_len, &op);

    if (known == PL_OP_THERE && ret)
        *ret = op.entry;
    return known;
}

struct pl_op_set_cursor pl_op_set_seek(const struct pl_op_set *t, const char *path, size_t path_len)
{
    struct place p = find(t, path, path_len);

    return (struct pl_op_set_cursor){t, p.block, p.at};
}

int pl_op_set_cursor_next(struct pl_op_set_cursor *c, struct pl_tree_op *ret)
{
    const struct pl_op_set *t = c->t;

    if (c->block < t->n_blocks && c->at == t->blocks[c->block]->n) {
        c->block++;
        c->at = 0;
    }
    if (c->block >= t->n_blocks)
        return 0;
    read_item(t->blocks[c->block]->items[c->at++], ret);
    return 1;
}

int pl_op_set_write(const struct pl_op_set *t, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(pl_tree_ops_writer_finish) struct pl_tree_ops_writer w = {0};
    struct pl_op_set_cursor c = {.t = t};
    struct pl_tree_op op;
    int r = pl_tree_ops_writer_init(&w, out, err);

    while (r == 0 && pl_op_set_cursor_next(&c, &op))
        r = pl_tree_ops_writer_add(&w, &op, err);
    return r < 0 ? r : pl_tree_ops_writer_end(&w, err);
}

int pl_op_set_list(const struct pl_op_set *t, struct pl_tree_op **ret, size_t *ret_n, struct pl_err *err)
{
    struct pl_tree_op *ops = calloc(t->n + 1, sizeof *ops);
    struct pl_op_set_cursor c = {.t = t};
    size_t n = 0;

    if (!ops)
        return pl_err_nomem(err);
    while (n < t->n && pl_op_set_cursor_next(&c, &ops[n]))
        n++;
    *ret = ops;
    *ret_n = n;
    return 0;
}
