#include "tree_find.h"

#include "node.h"

/* A walk along the entries of one node, in order, that knows how the key stands to each without putting their keys together: an entry says
 * how many bytes it has in common with the one before, and `match` is how many that one has in common with the key. */
struct scan {
    struct pl_cursor c;
    const uint8_t *key;
    size_t key_len, match;
    uint8_t level;
    uint32_t left; /* entries */
};

static int bad_node(struct pl_err *err)
{
    return pl_err_set(err, PL_EFORMAT, "a node of a tree is none");
}

static int begin(struct scan *s, const struct pl_buf *node, const void *key, size_t key_len, struct pl_err *err)
{
    const uint8_t *magic;
    uint8_t version;

    *s = (struct scan){.c = pl_cursor_of(node->data, node->len), .key = key, .key_len = key_len};
    magic = pl_cursor_bytes(&s->c, 4);
    version = pl_cursor_u8(&s->c);
    (void)pl_cursor_u8(&s->c); /* paths or rows: keys are bytes */
    s->level = pl_cursor_u8(&s->c);
    s->left = pl_cursor_le32(&s->c);
    if (s->c.failed || memcmp(magic, PL_NODE_MAGIC, 4) != 0 || version != PL_NODE_VERSION || s->level >= PL_TREE_MAX_LEVELS)
        return bad_node(err);
    return 0;
}

/* A node has hundreds of entries, and this reads half of them: varints of two bytes without a call, those that nobody asks for not at all. */
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

/* How the next entry's key stands to the one that is looked for: < 0, 0, > 0. */
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
        return 1; /* it differs from the one before earlier than the key does, and it is the greater one */
    if (shared > s->match)
        return -1; /* it differs from the key where the one before did */
    n = PL_MIN((size_t)rest, s->key_len - s->match);
    while (same < n && bytes[same] == s->key[s->match + same])
        same++;
    s->match += same;
    if (same < n)
        return bytes[same] < s->key[s->match] ? -1 : 1;
    return rest == n ? (s->match == s->key_len ? 0 : -1) : 1;
}

/* The bytes of an entry's value. */
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

/* The value of the first key that is not less, and whether it is equal: 1, or 0 when all are less. */
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

int pl_tree_find(const struct pl_node_source *source, const struct pl_hash *root, const void *key, size_t key_len,
                 struct pl_buf *scratch, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_hash id = *root;
    struct scan s;
    const uint8_t *at;
    size_t len;
    bool equal;
    int r;

    if (pl_hash_is_zero(root))
        return 0;
    for (unsigned depth = 0; depth < PL_TREE_MAX_LEVELS; depth++) {
        pl_buf_clear(scratch);
        r = source->get(source->self, &id, scratch, err);
        r = r < 0 ? r : begin(&s, scratch, key, key_len, err);
        r = r < 0 ? r : find_in_node(&s, &at, &len, &equal, err);
        if (r <= 0 || (s.level == 0 && !equal))
            return PL_MIN(r, 0);
        if (s.level == 0) {
            pl_buf_clear(ret);
            r = pl_buf_add(ret, at, len, err);
            return r < 0 ? r : 1;
        }
        memcpy(id.b, at, PL_HASH_BYTES);
    }
    return pl_err_set(err, PL_ECORRUPT, "a tree is deeper than %u levels", PL_TREE_MAX_LEVELS);
}

int pl_tree_find_entry(const struct pl_node_source *source, const struct pl_hash *root, const void *key, size_t key_len,
                       struct pl_buf *scratch, struct pl_buf *ret_value, struct pl_entry *ret, struct pl_err *err)
{
    struct pl_cursor c;
    int r = pl_tree_find(source, root, key, key_len, scratch, ret_value, err);

    if (r <= 0)
        return r;
    c = pl_cursor_of(ret_value->data, ret_value->len);
    r = pl_entry_decode(&c, ret, err);
    return r < 0 ? r : 1;
}
