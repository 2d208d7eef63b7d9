/* Entries: constructors, checks, encoding; and the order of keys. */
#include "storage/tree/tree.h"

const struct pl_tree_params pl_tree_params_v1 = {
    .min_entries = 300,
    .max_entries = PL_NODE_LIMIT_ENTRIES,
    .max_bytes = PL_NODE_LIMIT_BYTES,
    .threshold = UINT64_MAX / 300, /* = floor(2^64 / 300), because 300 does not divide 2^64 */
};

struct pl_entry pl_entry_inline(uint8_t kind, const void *data, size_t len)
{
    struct pl_entry e = {.kind = kind, .content = PL_CONTENT_INLINE, .size = len};

    if (len > 0 && len <= PL_INLINE_MAX_BYTES) {
        e.inline_len = (uint8_t)len;
        memcpy(e.data, data, len);
    }
    return e;
}

struct pl_entry pl_entry_chunk(uint8_t kind, uint64_t size_bytes, const struct pl_hash *id)
{
    return (struct pl_entry){.kind = kind, .content = PL_CONTENT_CHUNK, .size = size_bytes, .id = *id};
}

struct pl_entry pl_entry_list(uint8_t kind, uint64_t size_bytes, const struct pl_hash *id)
{
    return (struct pl_entry){.kind = kind, .content = PL_CONTENT_LIST, .size = size_bytes, .id = *id};
}

struct pl_entry pl_entry_dir(void)
{
    return (struct pl_entry){.kind = PL_KIND_DIR, .content = PL_CONTENT_NONE};
}

struct pl_entry pl_entry_row(const void *row, size_t len)
{
    return (struct pl_entry){.kind = PL_KIND_ROW, .content = PL_CONTENT_INLINE, .size = len, .row = row};
}

/* Returns the sizes that are valid for a kind with a content (table in tree.h); false if the combination
 * is invalid. */
static bool size_range(uint8_t kind, uint8_t content, uint64_t *ret_least, uint64_t *ret_most)
{
    static const struct {
        uint8_t kind, content;
        uint64_t least, most;
    } table[] = {
        {PL_KIND_FILE, PL_CONTENT_INLINE, 0, PL_INLINE_MAX_BYTES},
        {PL_KIND_FILE, PL_CONTENT_CHUNK, PL_INLINE_MAX_BYTES + 1, PL_CHUNK_LIMIT_BYTES},
        {PL_KIND_FILE, PL_CONTENT_LIST, PL_ONE_CHUNK_BYTES + 1, PL_FILE_LIMIT_BYTES - 1},
        {PL_KIND_LINK, PL_CONTENT_INLINE, 1, PL_INLINE_MAX_BYTES},
        {PL_KIND_LINK, PL_CONTENT_CHUNK, PL_INLINE_MAX_BYTES + 1, PL_LINK_MAX_BYTES},
        {PL_KIND_DIR, PL_CONTENT_NONE, 0, 0},
        {PL_KIND_ROW, PL_CONTENT_INLINE, 0, PL_ROW_MAX_BYTES},
    };

    if (kind == PL_KIND_EXEC)
        kind = PL_KIND_FILE;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        if (table[i].kind == kind && table[i].content == content) {
            *ret_least = table[i].least;
            *ret_most = table[i].most;
            return true;
        }
    }
    return false;
}

static int check_fields(uint8_t kind, uint8_t content, uint64_t size, int code, struct pl_err *err)
{
    uint64_t least, most;

    if (!size_range(kind, content, &least, &most))
        return pl_err_set(err, code, "an entry of kind %u cannot have content type %u", kind, content);
    if (size < least || size > most)
        return pl_err_set(err, code, "an entry of kind %u with content type %u has size %llu; accepted are %llu to %llu", kind,
                          content, (unsigned long long)size, (unsigned long long)least, (unsigned long long)most);
    return 0;
}

int pl_entry_check(const struct pl_entry *e, struct pl_err *err)
{
    uint64_t inline_len;
    int r;

    r = check_fields(e->kind, e->content, e->size, PL_EINVAL, err);
    if (r < 0)
        return r;
    inline_len = e->content == PL_CONTENT_INLINE && e->kind != PL_KIND_ROW ? e->size : 0;
    if (e->inline_len != inline_len)
        return pl_err_set(err, PL_EINVAL, "an entry of kind %u with content type %u and size %llu cannot have inline length %u",
                          e->kind, e->content, (unsigned long long)e->size, e->inline_len);
    return 0;
}

/* Returns the number of bytes that follow the size field in an encoded entry, and in `ret` a pointer to
 * them. */
static size_t payload(const struct pl_entry *e, const uint8_t **ret)
{
    *ret = e->kind == PL_KIND_ROW ? e->row : e->data;
    if (e->content == PL_CONTENT_INLINE)
        return (size_t)e->size;
    *ret = e->id.b;
    return e->content == PL_CONTENT_NONE ? 0 : PL_HASH_BYTES;
}

bool pl_entry_eq(const struct pl_entry *a, const struct pl_entry *b)
{
    const uint8_t *pa, *pb;
    size_t n;

    if (a->kind != b->kind || a->content != b->content || a->size != b->size)
        return false;
    n = payload(a, &pa);
    return n == payload(b, &pb) && (n == 0 || memcmp(pa, pb, n) == 0);
}

int pl_entry_encode(const struct pl_entry *e, struct pl_buf *out, struct pl_err *err)
{
    const uint8_t *bytes;
    size_t n;
    int r;

    r = pl_entry_check(e, err);
    if (r < 0)
        return r;
    n = payload(e, &bytes);
    r = pl_buf_reserve(out, PL_ENTRY_MAX_BYTES, err);
    if (r == 0)
        r = pl_buf_add_u8(out, e->kind, err);
    if (r == 0)
        r = pl_buf_add_u8(out, e->content, err);
    if (r == 0)
        r = pl_buf_add_varint(out, e->size, err);
    if (r == 0 && n > 0)
        r = pl_buf_add(out, bytes, n, err);
    return r;
}

int pl_entry_decode(struct pl_cursor *c, struct pl_entry *ret, struct pl_err *err)
{
    struct pl_entry e = {0};
    const uint8_t *bytes;
    int r;

    e.kind = pl_cursor_u8(c);
    e.content = pl_cursor_u8(c);
    e.size = pl_cursor_varint(c);
    if (c->failed)
        return pl_err_set(err, PL_EFORMAT, "the encoded entry is cut off");
    r = check_fields(e.kind, e.content, e.size, PL_EFORMAT, err);
    if (r < 0)
        return r;
    if (e.content != PL_CONTENT_NONE) {
        bytes = pl_cursor_bytes(c, e.content == PL_CONTENT_INLINE ? (size_t)e.size : PL_HASH_BYTES);
        if (!bytes)
            return pl_err_set(err, PL_EFORMAT, "the encoded entry is cut off");
        if (e.kind == PL_KIND_ROW) {
            e.row = bytes;
        } else if (e.content == PL_CONTENT_INLINE) {
            e.inline_len = (uint8_t)e.size;
            memcpy(e.data, bytes, (size_t)e.size);
        } else {
            memcpy(e.id.b, bytes, PL_HASH_BYTES);
        }
    }
    *ret = e;
    return 0;
}

static int put_hash_only(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    (void)self;
    (void)err;
    pl_hash_sha256(bytes, n, ret_id);
    return 0;
}

struct pl_node_sink pl_node_sink_hash_only(void)
{
    return (struct pl_node_sink){.put = put_hash_only};
}

int pl_key_cmp(const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t n = PL_MIN(a_len, b_len);
    int c = n ? memcmp(a, b, n) : 0;

    if (c != 0)
        return c;
    return a_len < b_len ? -1 : a_len > b_len;
}

int pl_key_cmp_prefix(const void *key, size_t key_len, const void *prefix, size_t prefix_len)
{
    size_t n = PL_MIN(key_len, prefix_len);
    int c = n ? memcmp(key, prefix, n) : 0;

    if (c != 0)
        return c;
    return key_len < prefix_len ? -1 : 0;
}
