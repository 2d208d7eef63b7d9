/* Writes, reads and checks the encoding of attributes. */
#include "storage/tree_edit/file_attributes.h"

#include <ctype.h>

#define VERSION        1u
#define MODIFIED_BYTES 8u

/* ---- writing ---- */

int pl_file_attributes_begin(struct pl_buf *out, struct pl_err *err)
{
    return pl_buf_add_u8(out, VERSION, err);
}

int pl_file_attributes_add(struct pl_buf *out, enum pl_attribute tag, const void *bytes, size_t n, struct pl_err *err)
{
    int r = pl_buf_add_u8(out, (uint8_t)tag, err);

    r = r < 0 ? r : pl_buf_add_varint(out, n, err);
    return r < 0 ? r : pl_buf_add(out, bytes, n, err);
}

int pl_file_attributes_add_modified(struct pl_buf *out, int64_t us, struct pl_err *err)
{
    int r = pl_buf_add_u8(out, PL_ATTR_MODIFIED, err);

    r = r < 0 ? r : pl_buf_add_varint(out, MODIFIED_BYTES, err);
    return r < 0 ? r : pl_buf_add_le64(out, (uint64_t)us, err);
}

int pl_file_attributes_add_meta(struct pl_buf *out, const char *name, const char *value, struct pl_err *err)
{
    size_t name_len = strlen(name), value_len = strlen(value);
    int r = pl_buf_add_u8(out, PL_ATTR_META, err);

    r = r < 0 ? r : pl_buf_add_varint(out, name_len + 1 + value_len, err);
    for (size_t i = 0; i < name_len && r == 0; i++)
        r = pl_buf_add_u8(out, (uint8_t)tolower((unsigned char)name[i]), err);
    r = r < 0 ? r : pl_buf_add_u8(out, 0, err);
    return r < 0 ? r : pl_buf_add(out, value, value_len, err);
}

int pl_file_attributes_add_parts(struct pl_buf *out, const uint64_t *sizes, size_t n, const uint8_t *sums, size_t sum_bytes,
                                 struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0}, runs = {0};
    size_t n_runs = 0;
    int r = 0;

    for (size_t i = 0, same; i < n && r == 0; i += same) {
        for (same = 1; i + same < n && sizes[i + same] == sizes[i]; same++)
            ;
        n_runs++;
        r = pl_buf_add_varint(&runs, same, err);
        r = r < 0 ? r : pl_buf_add_varint(&runs, sizes[i], err);
    }
    r = r < 0 ? r : pl_buf_add_varint(&text, n_runs, err);
    r = r < 0 ? r : pl_buf_add(&text, runs.data, runs.len, err);
    if (r == 0 && sums)
        r = pl_buf_add(&text, sums, n * sum_bytes, err);
    return r < 0 ? r : pl_file_attributes_add(out, PL_ATTR_PARTS, text.data, text.len, err);
}

/* ---- reading ---- */

static bool read_field(struct pl_cursor *c, struct pl_attribute_field *ret)
{
    uint64_t len;

    ret->tag = pl_cursor_u8(c);
    len = pl_cursor_varint(c);
    if (c->failed || len > pl_cursor_left(c))
        return false;
    ret->len = (size_t)len;
    ret->bytes = pl_cursor_bytes(c, ret->len);
    return !c->failed;
}

bool pl_file_attributes_next(const struct pl_file_attributes *a, size_t *at, struct pl_attribute_field *ret)
{
    struct pl_cursor c;

    if (*at == 0 && a->len && a->data[0] == VERSION)
        *at = 1;
    if (*at == 0 || *at >= a->len)
        return false;
    c = pl_cursor_of(a->data + *at, a->len - *at);
    if (!read_field(&c, ret))
        return false;
    *at = (size_t)(c.p - a->data);
    return true;
}

bool pl_file_attributes_find(const struct pl_file_attributes *a, enum pl_attribute tag, struct pl_attribute_field *ret)
{
    size_t at = 0;

    while (pl_file_attributes_next(a, &at, ret))
        if (ret->tag == tag)
            return true;
    return false;
}

bool pl_file_parts_read(const struct pl_attribute_field *f, struct pl_file_parts *ret)
{
    struct pl_cursor c = pl_cursor_of(f->bytes, f->len);
    uint64_t runs = pl_cursor_varint(&c), sums;

    *ret = (struct pl_file_parts){.runs = c.p};
    for (; runs && !c.failed; runs--) {
        uint64_t parts = pl_cursor_varint(&c), size = pl_cursor_varint(&c), bytes;

        if (!parts || parts > UINT32_MAX || __builtin_mul_overflow(parts, size, &bytes) ||
            __builtin_add_overflow(ret->bytes, bytes, &ret->bytes) || ret->n + parts > UINT32_MAX)
            return false;
        ret->n += parts;
    }
    ret->end = c.p;
    sums = pl_cursor_left(&c);
    if (c.failed || !ret->n || sums % ret->n)
        return false;
    ret->sum_bytes = (size_t)(sums / ret->n);
    ret->sums = sums ? c.p : NULL;
    return true;
}

bool pl_file_attributes_parts(const struct pl_file_attributes *a, struct pl_file_parts *ret)
{
    struct pl_attribute_field f;

    return pl_file_attributes_find(a, PL_ATTR_PARTS, &f) && pl_file_parts_read(&f, ret);
}

bool pl_file_parts_get(const struct pl_file_parts *p, uint64_t number, uint64_t *ret_first, uint64_t *ret_size,
                       const uint8_t **ret_sum)
{
    struct pl_cursor c = pl_cursor_of(p->runs, (size_t)(p->end - p->runs));
    uint64_t first = 0, before = 0;

    while (number > before && number <= p->n && pl_cursor_left(&c)) {
        uint64_t parts = pl_cursor_varint(&c), size = pl_cursor_varint(&c);

        if (number <= before + parts) {
            *ret_first = first + (number - before - 1) * size;
            *ret_size = size;
            *ret_sum = p->sums ? p->sums + (number - 1) * p->sum_bytes : NULL;
            return true;
        }
        before += parts;
        first += parts * size;
    }
    return false;
}

int64_t pl_file_attributes_modified(const struct pl_file_attributes *a, int64_t fallback)
{
    struct pl_attribute_field f;
    struct pl_cursor c;

    if (!pl_file_attributes_find(a, PL_ATTR_MODIFIED, &f) || f.len != MODIFIED_BYTES)
        return fallback;
    c = pl_cursor_of(f.bytes, f.len);
    return (int64_t)pl_cursor_le64(&c);
}

static bool next_but_modified(const struct pl_file_attributes *a, size_t *at, struct pl_attribute_field *ret)
{
    while (pl_file_attributes_next(a, at, ret))
        if (ret->tag != PL_ATTR_MODIFIED)
            return true;
    return false;
}

bool pl_file_attributes_same(const struct pl_file_attributes *a, const struct pl_file_attributes *b)
{
    struct pl_attribute_field x, y;
    size_t at = 0, other = 0;

    for (;;) {
        bool more = next_but_modified(a, &at, &x);

        if (more != next_but_modified(b, &other, &y))
            return false;
        if (!more)
            return true;
        if (x.tag != y.tag || x.len != y.len || memcmp(x.bytes, y.bytes, x.len) != 0)
            return false;
    }
}

/* ---- checking ---- */

static bool text_ok(const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((text[i] < 0x20 && text[i] != '\t') || text[i] == 0x7F)
            return false;
    return true;
}

/* Returns the length of the name of a META field; 0 if there is none. */
static size_t name_len(const struct pl_attribute_field *f)
{
    const uint8_t *end = memchr(f->bytes, 0, f->len);

    return end ? (size_t)(end - f->bytes) : 0;
}

/* True if a META field has a valid name in lower case, greater than the name before it, and a valid value. */
static bool meta_ok(const struct pl_attribute_field *f, const struct pl_attribute_field *last)
{
    size_t n = name_len(f), before;
    int order;

    if (!n || !text_ok(f->bytes, n) || !text_ok(f->bytes + n + 1, f->len - n - 1))
        return false;
    for (size_t i = 0; i < n; i++)
        if (f->bytes[i] >= 'A' && f->bytes[i] <= 'Z')
            return false;
    if (last->tag != PL_ATTR_META)
        return true;
    before = name_len(last);
    order = memcmp(last->bytes, f->bytes, PL_MIN(n, before));
    return order < 0 || (order == 0 && before < n);
}

static bool field_ok(const struct pl_attribute_field *f, const struct pl_attribute_field *last)
{
    struct pl_file_parts parts;

    switch (f->tag) {
    case PL_ATTR_MODIFIED:
        return f->tag > last->tag && f->len == MODIFIED_BYTES;
    case PL_ATTR_CHECKSUM:
        return f->tag > last->tag && f->len > 1 && text_ok(f->bytes + 1, f->len - 1);
    case PL_ATTR_PARTS:
        return f->tag > last->tag && pl_file_parts_read(f, &parts);
    case PL_ATTR_TAGS:
        return f->tag > last->tag && text_ok(f->bytes, f->len);
    case PL_ATTR_META:
        return meta_ok(f, last);
    default:
        return f->tag > last->tag && f->tag < PL_ATTR_CHECKSUM && text_ok(f->bytes, f->len);
    }
}

int pl_file_attributes_check(const struct pl_file_attributes *a, struct pl_err *err)
{
    struct pl_attribute_field f, last = {0};
    size_t at = 0;

    if (a->len > PL_FILE_ATTRIBUTES_MAX_BYTES || !a->len || a->data[0] != VERSION)
        return pl_err_set(err, PL_EFORMAT, "the attributes have %zu bytes; accepted are 1 to %u bytes of version %u", a->len,
                          PL_FILE_ATTRIBUTES_MAX_BYTES, VERSION);
    while (pl_file_attributes_next(a, &at, &f)) {
        if (!field_ok(&f, &last))
            return pl_err_set(err, PL_EFORMAT, "attributes: field %u is out of order or has an invalid value", f.tag);
        last = f;
    }
    return at == a->len || a->len == 1 ? 0 : pl_err_set(err, PL_EFORMAT, "attributes end in the middle of a field");
}
