/* buf: growable byte buffers, and cursors that read little-endian integers and LEB128 numbers from bytes. */
#include "storage/base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#define BUF_FIRST_BYTES  64
#define VARINT_MAX_BYTES 10

void pl_buf_finish(struct pl_buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = 0;
    b->cap = 0;
}

void pl_buf_clear(struct pl_buf *b)
{
    b->len = 0;
}

void pl_buf_swap(struct pl_buf *a, struct pl_buf *b)
{
    const struct pl_buf old = *a;

    *a = (struct pl_buf){.data = b->data, .len = b->len, .cap = b->cap, .max = a->max};
    *b = (struct pl_buf){.data = old.data, .len = old.len, .cap = old.cap, .max = b->max};
}

static size_t buf_max(const struct pl_buf *b)
{
    return b->max != 0 ? b->max : PL_BUF_DEFAULT_MAX;
}

/* Grows to at least `need` bytes. The capacity doubles, so that appending n bytes costs O(n) in total. */
static int buf_grow(struct pl_buf *b, size_t need, size_t max, struct pl_err *err)
{
    size_t cap = b->cap < BUF_FIRST_BYTES ? BUF_FIRST_BYTES : b->cap;
    uint8_t *data;

    while (cap < need)
        cap = cap > max / 2 ? max : cap * 2;
    data = realloc(b->data, cap);
    if (data == NULL)
        return pl_err_nomem(err);
    b->data = data;
    b->cap = cap;
    return 0;
}

int pl_buf_reserve(struct pl_buf *b, size_t n, struct pl_err *err)
{
    size_t max = buf_max(b);

    if (b->len > max || n > max - b->len)
        return pl_err_set(err, PL_ETOOBIG, "the data is larger than the limit of %zu bytes", max);
    if (b->len + n <= b->cap && b->data != NULL)
        return 0;
    return buf_grow(b, b->len + n, max, err);
}

int pl_buf_add(struct pl_buf *b, const void *data, size_t n, struct pl_err *err)
{
    int r;

    if (n == 0)
        return 0;
    r = pl_buf_reserve(b, n, err);
    if (r < 0)
        return r;
    memcpy(b->data + b->len, data, n);
    b->len += n;
    return 0;
}

static int buf_add_le(struct pl_buf *b, uint64_t v, size_t n, struct pl_err *err)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    return pl_buf_add(b, bytes, n, err);
}

int pl_buf_add_u8(struct pl_buf *b, uint8_t v, struct pl_err *err)
{
    return pl_buf_add(b, &v, 1, err);
}

int pl_buf_add_le16(struct pl_buf *b, uint16_t v, struct pl_err *err)
{
    return buf_add_le(b, v, 2, err);
}

int pl_buf_add_le32(struct pl_buf *b, uint32_t v, struct pl_err *err)
{
    return buf_add_le(b, v, 4, err);
}

int pl_buf_add_le64(struct pl_buf *b, uint64_t v, struct pl_err *err)
{
    return buf_add_le(b, v, 8, err);
}

int pl_buf_add_varint(struct pl_buf *b, uint64_t v, struct pl_err *err)
{
    uint8_t bytes[VARINT_MAX_BYTES];
    size_t n = 0;

    while (v >= 0x80) {
        bytes[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    bytes[n++] = (uint8_t)v;
    return pl_buf_add(b, bytes, n, err);
}

int pl_buf_add_str(struct pl_buf *b, const char *s, struct pl_err *err)
{
    return pl_buf_add(b, s, strlen(s), err);
}

int pl_buf_addf(struct pl_buf *b, struct pl_err *err, const char *fmt, ...)
{
    va_list ap;
    int n, r;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return pl_err_set(err, PL_EINTERNAL, "cannot format a text");
    r = pl_buf_reserve(b, (size_t)n, err);
    /* grow by one more byte for vsnprintf's NUL, which `max` and `len` do not count */
    if (r == 0 && b->cap - b->len <= (size_t)n)
        r = buf_grow(b, b->len + (size_t)n + 1, SIZE_MAX, err);
    if (r < 0)
        return r;
    va_start(ap, fmt);
    (void)vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

char *pl_buf_str(struct pl_buf *b)
{
    if (b->len == b->cap && buf_grow(b, b->len + 1, SIZE_MAX, NULL) < 0)
        return NULL;
    b->data[b->len] = '\0';
    return (char *)b->data;
}

char *pl_buf_take_str(struct pl_buf *b)
{
    char *s = pl_buf_str(b);

    if (s == NULL)
        return NULL;
    b->data = NULL;
    b->len = 0;
    b->cap = 0;
    return s;
}

static uint64_t cursor_le(struct pl_cursor *c, size_t n)
{
    const uint8_t *p = pl_cursor_bytes(c, n);
    uint64_t v = 0;

    if (p == NULL)
        return 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint16_t pl_cursor_le16(struct pl_cursor *c)
{
    return (uint16_t)cursor_le(c, 2);
}

uint32_t pl_cursor_le32(struct pl_cursor *c)
{
    return (uint32_t)cursor_le(c, 4);
}

uint64_t pl_cursor_le64(struct pl_cursor *c)
{
    return cursor_le(c, 8);
}

uint64_t pl_cursor_varint_long(struct pl_cursor *c)
{
    const uint8_t *p = c->p;
    uint64_t v = 0;

    for (unsigned i = 0; i < VARINT_MAX_BYTES && p < c->end && !c->failed; i++) {
        uint8_t byte = *p++;

        if (i == VARINT_MAX_BYTES - 1 && byte > 1)
            break; /* the number does not fit in 64 bits */
        v |= (uint64_t)(byte & 0x7F) << (7 * i);
        if ((byte & 0x80) == 0) {
            if (byte == 0 && i > 0)
                break; /* the encoding is not the shortest form of the number */
            c->p = p;
            return v;
        }
    }
    c->failed = true;
    return 0;
}
