/* Decodes and checks nodes completely, so that later accesses need no checks. */
#include "storage/tree/tree_node.h"

void pl_node_finish(struct pl_node *node)
{
    free(node->items);
    pl_buf_finish(&node->raw);
    pl_buf_finish(&node->keys);
    *node = (struct pl_node){0};
}

size_t pl_key_common(const void *a, size_t a_len, const void *b, size_t b_len)
{
    const uint8_t *pa = a, *pb = b;
    size_t n = PL_MIN(a_len, b_len), i = 0;

    while (i < n && pa[i] == pb[i])
        i++;
    return i;
}

static int format_error(struct pl_err *err, const char *what, uint32_t i)
{
    return pl_err_set(err, PL_EFORMAT, "tree node: %s in entry %u", what, i);
}

static int decode_header(struct pl_node *node, struct pl_cursor *c, struct pl_err *err)
{
    const uint8_t *magic = pl_cursor_bytes(c, 4);
    uint8_t version = pl_cursor_u8(c);

    node->tree = pl_cursor_u8(c);
    node->level = pl_cursor_u8(c);
    node->n = pl_cursor_le32(c);
    if (c->failed || memcmp(magic, PL_NODE_MAGIC, 4) != 0)
        return pl_err_set(err, PL_EFORMAT, "tree node: does not start with " PL_NODE_MAGIC ", or is too short for a header");
    if (version != PL_NODE_VERSION)
        return pl_err_set(err, PL_EFORMAT, "tree node: version %u; this program supports %u", version, PL_NODE_VERSION);
    if (node->tree != PL_TREE_PATHS && node->tree != PL_TREE_ROWS)
        return pl_err_set(err, PL_EFORMAT, "tree node: unknown kind of tree: %u", node->tree);
    if (node->level >= PL_TREE_MAX_LEVELS)
        return pl_err_set(err, PL_EFORMAT, "tree node: level %u is too high", node->level);
    if (node->n == 0 || node->n > PL_NODE_LIMIT_ENTRIES)
        return pl_err_set(err, PL_EFORMAT, "tree node: %u entries; accepted are 1 to %u", node->n, PL_NODE_LIMIT_ENTRIES);
    return 0;
}

/* Grows the array of items to at least `n` elements. The contents of the array are undefined afterwards. */
static int reserve_items(struct pl_node *node, uint32_t n, struct pl_err *err)
{
    struct pl_node_item *items;

    if (n <= node->items_cap)
        return 0;
    items = realloc(node->items, n * sizeof *items);
    if (!items)
        return pl_err_nomem(err);
    node->items = items;
    node->items_cap = n;
    return 0;
}

/* Decodes the key of entry `i` from the key before it. The shared length must be exact, so that each key
 * has only one encoding. */
static int decode_key(struct pl_node *node, struct pl_cursor *c, uint32_t i, struct pl_err *err)
{
    size_t max = node->tree == PL_TREE_PATHS ? PL_PATH_MAX_BYTES : PL_ROW_KEY_MAX_BYTES;
    size_t last_len = i > 0 ? pl_node_key_len(node, i - 1) : 0;
    size_t key_at = node->keys.len;
    uint64_t shared = pl_cursor_varint(c);
    uint64_t rest_len = pl_cursor_varint(c);
    const uint8_t *rest;
    uint8_t *key;
    int r;

    if (c->failed || shared > last_len || rest_len == 0 || rest_len > max - shared)
        return format_error(err, "invalid key lengths", i);
    rest = pl_cursor_bytes(c, (size_t)rest_len);
    if (!rest)
        return format_error(err, "cut off", i);
    r = pl_buf_reserve(&node->keys, (size_t)(shared + rest_len) + 1, err);
    if (r < 0)
        return r;
    if (i > 0 && shared < last_len && rest[0] <= (uint8_t)pl_node_key(node, i - 1)[shared])
        return format_error(err, "key out of order or not shortened", i);
    key = node->keys.data + key_at;
    if (shared > 0)
        memcpy(key, pl_node_key(node, i - 1), (size_t)shared);
    memcpy(key + shared, rest, (size_t)rest_len);
    key[shared + rest_len] = 0;
    node->keys.len += (size_t)(shared + rest_len) + 1;
    node->items[i].key_at = (uint32_t)key_at;
    node->items[i].key_len = (uint16_t)(shared + rest_len);
    if (node->tree == PL_TREE_PATHS)
        return pl_path_check((const char *)key, (size_t)(shared + rest_len), err);
    return 0;
}

/* Decodes and checks the value of entry `i`, adds its counts to the node's sums, and stores its position in
 * the item. */
static int decode_value(struct pl_node *node, struct pl_cursor *c, uint32_t i, struct pl_err *err)
{
    const uint8_t *start = c->p;
    struct pl_tree_stats stats = {0};
    struct pl_entry e;
    int r;

    if (node->level == 0) {
        r = pl_entry_decode(c, &e, err);
        if (r < 0)
            return pl_err_wrap(err, r, "tree node: entry %u", i);
        if ((e.kind == PL_KIND_ROW) != (node->tree == PL_TREE_ROWS))
            return format_error(err, "wrong kind for this tree", i);
        stats = (struct pl_tree_stats){.files = e.kind != PL_KIND_DIR, .bytes = e.size};
    } else {
        pl_cursor_bytes(c, PL_HASH_BYTES);
        stats.files = pl_cursor_varint(c);
        stats.bytes = pl_cursor_varint(c);
        if (c->failed)
            return format_error(err, "child", i);
    }
    if (__builtin_add_overflow(node->stats.files, stats.files, &node->stats.files) ||
        __builtin_add_overflow(node->stats.bytes, stats.bytes, &node->stats.bytes))
        return format_error(err, "the sums exceed 64 bits", i);
    node->items[i].value_at = (uint32_t)(start - node->raw.data);
    node->items[i].value_len = (uint16_t)(c->p - start);
    return 0;
}

/* Decodes and checks the bytes in node->raw. */
static int decode_raw(struct pl_node *node, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(node->raw.data, node->raw.len);
    int r;

    node->stats = (struct pl_tree_stats){0};
    pl_buf_clear(&node->keys);
    if (node->raw.len > PL_NODE_LIMIT_BYTES)
        return pl_err_set(err, PL_EFORMAT, "tree node: %zu bytes; at most %u are accepted", node->raw.len, PL_NODE_LIMIT_BYTES);
    r = decode_header(node, &c, err);
    if (r < 0)
        return r;
    if (node->n > pl_cursor_left(&c)) /* every entry needs more than one byte */
        return format_error(err, "cut off", node->n - 1);
    r = reserve_items(node, node->n, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < node->n; i++) {
        r = decode_key(node, &c, i, err);
        if (r == 0)
            r = decode_value(node, &c, i, err);
        if (r < 0)
            return r;
    }
    if (pl_cursor_left(&c) > 0)
        return pl_err_set(err, PL_EFORMAT, "tree node: %zu bytes after the last entry", pl_cursor_left(&c));
    return 0;
}

int pl_node_decode(struct pl_node *node, const void *bytes, size_t n, struct pl_err *err)
{
    int r;

    pl_buf_clear(&node->raw);
    r = pl_buf_add(&node->raw, bytes, n, err);
    if (r == 0)
        r = decode_raw(node, err);
    if (r < 0)
        node->n = 0;
    return r;
}

int pl_node_load(struct pl_node *node, const struct pl_node_source *source, const struct pl_hash *id, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    int r;

    pl_buf_clear(&node->raw);
    r = source->get(source->self, id, &node->raw, err);
    if (r == 0)
        r = decode_raw(node, err);
    if (r < 0) {
        node->n = 0;
        return pl_err_wrap(err, r, "tree node %.12s", pl_hash_hex(id, hex));
    }
    return 0;
}

struct pl_entry pl_node_entry(const struct pl_node *node, uint32_t i)
{
    struct pl_cursor c = pl_cursor_of(pl_node_value(node, i), pl_node_value_len(node, i));
    struct pl_entry e = {0};

    if (pl_entry_decode(&c, &e, NULL) < 0)
        abort(); /* unreachable: decode_value has decoded the same bytes */
    return e;
}

struct pl_node_child pl_node_child(const struct pl_node *node, uint32_t i)
{
    struct pl_cursor c = pl_cursor_of(pl_node_value(node, i), pl_node_value_len(node, i));
    struct pl_node_child child;

    memcpy(child.id.b, pl_cursor_bytes(&c, PL_HASH_BYTES), PL_HASH_BYTES);
    child.stats.files = pl_cursor_varint(&c);
    child.stats.bytes = pl_cursor_varint(&c);
    return child;
}

bool pl_node_fits(const struct pl_node *node, const struct pl_node *parent, uint32_t i, const void *floor_key, size_t floor_len)
{
    struct pl_node_child child = pl_node_child(parent, i);

    if (node->tree != parent->tree || node->level + 1u != parent->level)
        return false;
    if (node->stats.files != child.stats.files || node->stats.bytes != child.stats.bytes)
        return false;
    if (pl_key_cmp(pl_node_key(parent, i), pl_node_key_len(parent, i), pl_node_key(node, node->n - 1),
                   pl_node_key_len(node, node->n - 1)) != 0)
        return false;
    return !floor_key || pl_key_cmp(floor_key, floor_len, pl_node_key(node, 0), pl_node_key_len(node, 0)) < 0;
}

int pl_node_child_encode(const struct pl_node_child *child, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_add(out, child->id.b, PL_HASH_BYTES, err);

    if (r == 0)
        r = pl_buf_add_varint(out, child->stats.files, err);
    if (r == 0)
        r = pl_buf_add_varint(out, child->stats.bytes, err);
    return r;
}

bool pl_node_bound_reached(const struct pl_node_bound *bound, const void *key, size_t key_len)
{
    if (bound->past)
        return pl_key_cmp_prefix(key, key_len, bound->key, bound->key_len) > 0;
    return pl_key_cmp(key, key_len, bound->key, bound->key_len) >= 0;
}

uint32_t pl_node_find(const struct pl_node *node, const struct pl_node_bound *bound)
{
    uint32_t lo = 0, hi = node->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (pl_node_bound_reached(bound, pl_node_key(node, mid), pl_node_key_len(node, mid)))
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

uint32_t pl_node_find_near(const struct pl_node *node, const struct pl_node_bound *bound, uint32_t guess)
{
    for (uint32_t i = guess; i < node->n && i - guess < 2; i++) {
        if (!pl_node_bound_reached(bound, pl_node_key(node, i), pl_node_key_len(node, i)))
            continue;
        if (i > guess || i == 0 || !pl_node_bound_reached(bound, pl_node_key(node, i - 1), pl_node_key_len(node, i - 1)))
            return i;
        break;
    }
    return pl_node_find(node, bound);
}
