/* buf: a growable byte buffer with a maximum size. `struct pl_buf b = {0}` is empty and holds at most
 * PL_BUF_DEFAULT_MAX bytes; set `max` for another limit. Not thread-safe.
 *
 * The add functions append to the buffer. They return PL_ETOOBIG if it would become larger than its maximum,
 * or PL_ENOMEM, and then leave it unchanged. */
#pragma once

#include "storage/base/err.h"

#define PL_BUF_DEFAULT_MAX (64u << 20)

struct pl_buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t max; /* bytes; 0 = PL_BUF_DEFAULT_MAX; growing past it fails with PL_ETOOBIG */
};

/* Frees the memory and leaves an empty buffer. */
void pl_buf_finish(struct pl_buf *b);
/* Empties the buffer and keeps its memory. */
void pl_buf_clear(struct pl_buf *b);
/* Exchanges the content and the memory of two buffers, but not their maxima. */
void pl_buf_swap(struct pl_buf *a, struct pl_buf *b);
/* Makes room for `n` more bytes. PL_ETOOBIG, PL_ENOMEM. */
PL_MUST_CHECK
int pl_buf_reserve(struct pl_buf *b, size_t n, struct pl_err *err);
PL_MUST_CHECK
int pl_buf_add(struct pl_buf *b, const void *data, size_t n, struct pl_err *err);
PL_MUST_CHECK
int pl_buf_add_u8(struct pl_buf *b, uint8_t v, struct pl_err *err);
PL_MUST_CHECK
int pl_buf_add_le16(struct pl_buf *b, uint16_t v, struct pl_err *err);
PL_MUST_CHECK
int pl_buf_add_le32(struct pl_buf *b, uint32_t v, struct pl_err *err);
PL_MUST_CHECK
int pl_buf_add_le64(struct pl_buf *b, uint64_t v, struct pl_err *err);
/* Appends an unsigned LEB128 number: 1 to 10 bytes, the shortest form. */
PL_MUST_CHECK
int pl_buf_add_varint(struct pl_buf *b, uint64_t v, struct pl_err *err);
PL_MUST_CHECK
int pl_buf_add_str(struct pl_buf *b, const char *s, struct pl_err *err);
PL_MUST_CHECK
/* Appends text formatted as by printf, without the NUL. Also PL_EINTERNAL if vsnprintf fails. */
int pl_buf_addf(struct pl_buf *b, struct pl_err *err, const char *fmt, ...) PL_PRINTF(3, 4);
/* Returns the bytes as a C string, owned by the buffer: adds a NUL at their end, which `len` does not count.
 * NULL only without memory. */
char *pl_buf_str(struct pl_buf *b);
/* Returns the bytes as a NUL-terminated malloc'ed string that the caller owns; the buffer is empty
 * afterwards. NULL only without memory, and then the buffer is unchanged. */
char *pl_buf_take_str(struct pl_buf *b);

/* cursor: reads a byte string from front to back and never past its end. After the first failure `failed`
 * stays true and every read fails: a caller reads a whole structure and then checks `failed` once. Failed
 * reads return 0 or NULL. */
struct pl_cursor {
    const uint8_t *p;
    const uint8_t *end;
    bool failed;
};

static inline struct pl_cursor pl_cursor_of(const void *data, size_t len)
{
    return (struct pl_cursor){.p = data, .end = len > 0 ? (const uint8_t *)data + len : data};
}
static inline size_t pl_cursor_left(const struct pl_cursor *c)
{
    return (size_t)(c->end - c->p);
}
/* Returns a pointer to the next `n` bytes, without copying them; NULL, and sets `failed`, if fewer are
 * left. */
static inline const uint8_t *pl_cursor_bytes(struct pl_cursor *c, size_t n)
{
    const uint8_t *p = c->p;

    if (c->failed || n > pl_cursor_left(c)) {
        c->failed = true;
        return NULL;
    }
    c->p += n;
    return p;
}
static inline uint8_t pl_cursor_u8(struct pl_cursor *c)
{
    const uint8_t *p = pl_cursor_bytes(c, 1);

    return p ? *p : 0;
}
uint16_t pl_cursor_le16(struct pl_cursor *c);
uint32_t pl_cursor_le32(struct pl_cursor *c);
uint64_t pl_cursor_le64(struct pl_cursor *c);
uint64_t pl_cursor_varint_long(struct pl_cursor *c);
/* Reads an unsigned LEB128 number. Fails if it is not in the shortest form or does not fit in 64 bits. The
 * one-byte case, the most frequent one, is inline; pl_cursor_varint_long reads the others. */
static inline uint64_t pl_cursor_varint(struct pl_cursor *c)
{
    return !c->failed && c->p < c->end && *c->p < 0x80 ? *c->p++ : pl_cursor_varint_long(c);
}
