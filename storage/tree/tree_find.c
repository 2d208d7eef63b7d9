/* Scans the entries of a node without assembling their keys. An index of every INDEX_STEPth key is kept
 * with the node's bytes, so that later lookups scan only a few entries. */
#include "storage/tree/tree_find.h"

#include "storage/tree/tree_node.h"

#include <stdatomic.h>

/* A scan through the entries of one node, in order. Each entry says how many bytes its key shares with the
 * key before it; `match` is how many bytes that key shares with the searched key. The two numbers give the
 * order of the keys without assembling them. */
struct scan {
    struct pl_cursor c;
    const uint8_t *key;
    size_t key_len, match;
    uint8_t level;
    uint32_t left; /* entries not scanned yet */
};

/* The index of a node: every INDEX_STEPth key, complete, and the position of the entry after it. Stored as
 * one block of memory: the marks in ascending order, then the bytes of the keys. */
#define INDEX_STEP 16u

struct mark {
    /* `behind`: offset in the node of the entry that follows the key; `key`: offset of the key's bytes in the
     * index */
    uint32_t behind, key;
    uint32_t key_len, left; /* `left`: number of the node's entries after the key */
};

struct node_index {
    uint32_t n;
    struct mark marks[];
};

static int bad_node(struct pl_err *err)
{
    return pl_err_set(err, PL_EFORMAT, "a record is not a valid tree node");
}

/* Reads the header of a node and starts a scan for `key`. */
static int begin(struct scan *s, const struct pl_byte_view *node, const void *key, size_t key_len, struct pl_err *err)
{
    const uint8_t *magic;
    uint8_t version;

    *s = (struct scan){.c = pl_cursor_of(node->bytes, node->n), .key = key, .key_len = key_len};
    magic = pl_cursor_bytes(&s->c, 4);
    version = pl_cursor_u8(&s->c);
    /* kind of tree, paths or rows: not needed, because both compare keys as bytes */
    (void)pl_cursor_u8(&s->c);
    s->level = pl_cursor_u8(&s->c);
    s->left = pl_cursor_le32(&s->c);
    if (s->c.failed || memcmp(magic, PL_NODE_MAGIC, 4) != 0 || version != PL_NODE_VERSION || s->level >= PL_TREE_MAX_LEVELS)
        return bad_node(err);
    return 0;
}

/* A lookup scans many entries of a node. So varints of at most two bytes are decoded inline here, and varints
 * that the lookup does not need are skipped without decoding. */
static inline uint64_t short_varint(struct pl_cursor *c)
{
    const uint8_t *p = c->p;
    bool two = !c->failed && pl_cursor_left(c) >= 2 && p[0] >= 0x80 && p[1] > 0 && p[1] < 0x80;

    if (!two)
        return pl_cursor_varint(c);
    c->p += 2;
    return (uint64_t)(p[0] & 0x7F) | (uint64_t)p[1] << 7;
}

static inline void skip_varint(struct pl_cursor *c)
{
    const uint8_t *p = c->p;

    while (p < c->end && *p >= 0x80)
        p++;
    c->failed |= p == c->end;
    c->p = c->failed ? c->end : p + 1;
}

/* Compares the key of the next entry with the searched key: < 0, 0 or > 0. */
static int compare_next(struct scan *s)
{
    uint64_t shared = pl_cursor_varint(&s->c), rest = pl_cursor_varint(&s->c);
    const uint8_t *bytes = rest <= pl_cursor_left(&s->c) ? pl_cursor_bytes(&s->c, (size_t)rest) : NULL;
    size_t n, same = 0;

    if (!bytes || s->c.failed) {
        s->c.failed = true;
        return 1;
    }
    if (shared < s->match)
        /* the entry's key differs from the previous key at an earlier byte than the searched key does; it is
         * greater than the previous key, and so greater than the searched key */
        return 1;
    if (shared > s->match)
        /* the entry's key differs from the searched key at the same byte as the previous key, so it is
         * also less */
        return -1;
    n = PL_MIN((size_t)rest, s->key_len - s->match);
    while (same < n && bytes[same] == s->key[s->match + same])
        same++;
    s->match += same;
    if (same < n)
        return bytes[same] < s->key[s->match] ? -1 : 1;
    return rest == n ? (s->match == s->key_len ? 0 : -1) : 1;
}

/* Returns the bytes of the entry's value and moves the scan to the next entry. */
static const uint8_t *value(struct scan *s, size_t *ret_len)
{
    const uint8_t *from = s->c.p;
    uint8_t content;
    uint64_t size;

    if (s->level) {
        (void)pl_cursor_bytes(&s->c, PL_HASH_BYTES);
        skip_varint(&s->c);
        skip_varint(&s->c);
    } else {
        (void)pl_cursor_u8(&s->c);
        content = pl_cursor_u8(&s->c);
        size = short_varint(&s->c);
        if (content == PL_CONTENT_INLINE && size <= PL_ENTRY_MAX_BYTES)
            (void)pl_cursor_bytes(&s->c, (size_t)size);
        else if (content == PL_CONTENT_CHUNK || content == PL_CONTENT_LIST)
            (void)pl_cursor_bytes(&s->c, PL_HASH_BYTES);
        else if (content != PL_CONTENT_NONE)
            s->c.failed = true;
    }
    *ret_len = s->c.failed ? 0 : (size_t)(s->c.p - from);
    return from;
}

/* Finds the first entry whose key is not less than the searched key. Returns 1, the entry's value, and
 * whether the two keys are equal; or 0 if all keys are less. */
static int find_in_node(struct scan *s, const uint8_t **ret, size_t *ret_len, bool *ret_equal, struct pl_err *err)
{
    while (s->left-- > 0) {
        int order = compare_next(s);

        *ret = value(s, ret_len);
        if (s->c.failed)
            return bad_node(err);
        *ret_equal = order == 0;
        if (order >= 0)
            return 1;
    }
    return 0;
}

/* ---- index of a node ---- */

/* Assembles the key of the next entry. `key` holds the key before it, of `*len` bytes. False if the entry
 * is malformed or the key is too long. */
static bool next_key(struct scan *s, uint8_t key[PL_ROW_KEY_MAX_BYTES], size_t *len)
{
    uint64_t shared = pl_cursor_varint(&s->c), rest = pl_cursor_varint(&s->c);
    const uint8_t *bytes = rest <= pl_cursor_left(&s->c) ? pl_cursor_bytes(&s->c, (size_t)rest) : NULL;

    if (bytes == NULL || s->c.failed || shared > *len || shared + rest > PL_ROW_KEY_MAX_BYTES)
        return false;
    memcpy(key + shared, bytes, (size_t)rest);
    *len = (size_t)(shared + rest);
    return true;
}

/* Builds an index of the node's entries, of at most `max` bytes; the scan `s` is at the first entry. Returns
 * NULL if the index does not fit, if the node is too small to need one, if an entry is malformed, or without
 * memory. */
static struct node_index *index_make(struct scan s, const struct pl_byte_view *node, size_t max)
{
    const uint32_t n = s.left / INDEX_STEP;
    size_t at = sizeof(struct node_index) + n * sizeof(struct mark), key_len = 0, len;
    struct node_index *index = s.left <= node->n && n > 0 && at <= max ? malloc(max) : NULL;
    uint8_t key[PL_ROW_KEY_MAX_BYTES];

    if (index == NULL)
        return NULL;
    index->n = 0;
    while (index->n < n && next_key(&s, key, &key_len)) {
        (void)value(&s, &len);
        if (s.c.failed)
            break;
        if (s.left-- % INDEX_STEP != 0)
            continue;
        if (key_len > max - at)
            break;
        memcpy((uint8_t *)index + at, key, key_len);
        index->marks[index->n++] = (struct mark){(uint32_t)(s.c.p - node->bytes), (uint32_t)at, (uint32_t)key_len, s.left};
        at += key_len;
    }
    return index->n == n ? index : (free(index), NULL);
}

/* Returns the node's index, which is built by the first lookup in the node; NULL if the node has none. */
static const struct node_index *index_of(const struct scan *s, const struct pl_byte_view *node)
{
    struct node_index *index;
    void *before = NULL;

    if (node->aside == NULL || (before = atomic_load(node->aside)) != NULL)
        return before;
    index = index_make(*s, node, pl_byte_view_decoded_max(node->n));
    if (index == NULL || atomic_compare_exchange_strong(node->aside, &before, index))
        return index;
    free(index); /* another thread has built and stored the node's index first */
    return before;
}

/* Moves the scan to the entry after the greatest key in the index that is less than the searched key. */
static void skip_to(struct scan *s, const struct pl_byte_view *node, const struct node_index *index)
{
    uint32_t lo = 0, hi = index->n;
    const struct mark *m;
    const uint8_t *key;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        m = &index->marks[mid];
        if (pl_key_cmp((const uint8_t *)index + m->key, m->key_len, s->key, s->key_len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0)
        return;
    m = &index->marks[lo - 1];
    key = (const uint8_t *)index + m->key;
    s->c = pl_cursor_of(node->bytes + m->behind, node->n - m->behind);
    s->left = m->left;
    while (s->match < PL_MIN((size_t)m->key_len, s->key_len) && key[s->match] == s->key[s->match])
        s->match++;
}

/* ---- lookup in a tree ---- */

struct look {
    const void *key;
    size_t key_len;
    struct pl_buf *value; /* result, from a leaf */
    struct pl_hash child; /* next node, from an inner node */
    bool leaf;
};

/* Searches one node. Returns 1, or 0 if the key is not in the tree. */
static int look_at(void *arg, const struct pl_byte_view *node, struct pl_err *err)
{
    struct look *l = arg;
    const struct node_index *index;
    const uint8_t *at;
    struct scan s;
    bool equal;
    size_t len;
    int r = begin(&s, node, l->key, l->key_len, err);

    if (r < 0)
        return r;
    index = index_of(&s, node);
    if (index != NULL)
        skip_to(&s, node, index);
    r = find_in_node(&s, &at, &len, &equal, err);
    l->leaf = s.level == 0;
    if (r <= 0 || (l->leaf && !equal))
        return PL_MIN(r, 0);
    if (!l->leaf) {
        memcpy(l->child.b, at, PL_HASH_BYTES);
        return 1;
    }
    pl_buf_clear(l->value);
    r = pl_buf_add(l->value, at, len, err);
    return r < 0 ? r : 1;
}

int pl_tree_find(const struct pl_node_shower *nodes, const struct pl_hash *root, const void *key, size_t key_len,
                 struct pl_buf *ret, struct pl_err *err)
{
    struct look l = {.key = key, .key_len = key_len, .value = ret, .child = *root};

    if (pl_hash_is_zero(root))
        return 0;
    for (unsigned depth = 0; depth < PL_TREE_MAX_LEVELS; depth++) {
        struct pl_hash id = l.child;
        int r = nodes->show(nodes->self, &id, look_at, &l, err);

        if (r <= 0 || l.leaf)
            return r;
    }
    return pl_err_set(err, PL_ECORRUPT, "a tree has more than %u levels", PL_TREE_MAX_LEVELS);
}

int pl_tree_find_entry(const struct pl_node_shower *nodes, const struct pl_hash *root, const void *key, size_t key_len,
                       struct pl_buf *ret_value, struct pl_entry *ret, struct pl_err *err)
{
    struct pl_cursor c;
    int r = pl_tree_find(nodes, root, key, key_len, ret_value, err);

    if (r <= 0)
        return r;
    c = pl_cursor_of(ret_value->data, ret_value->len);
    r = pl_entry_decode(&c, ret, err);
    return r < 0 ? r : 1;
}
