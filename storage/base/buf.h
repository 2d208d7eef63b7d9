/* buf: a growable run of bytes with a bound. `struct pl_buf b = {0}` is empty and bounded by PL_BUF_DEFAULT_MAX; set `max` for another. */
#pragma once

#include "storage/base/err.h"

#define PL_BUF_DEFAULT_MAX (64u << 20)

struct pl_buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t max; /* 0 = PL_BUF_DEFAULT_MAX; growing past it is PL_ETOOBIG */
};

void pl_buf_finish(struct pl_buf *b);
/* Empties it, keeps the memory. */
void pl_buf_clear(struct pl_buf *b);
/* Room for `n` more bytes. PL_ETOOBIG, PL_ENOMEM. */
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
/* LEB128, 1..10 bytes, canonical (shortest). */
PL_MUST_CHECK
int pl_buf_add_varint(struct pl_buf *b, uint64_t v, struct pl_err *err);
PL_MUST_CHECK
int pl_buf_add_str(struct pl_buf *b, const char *s, struct pl_err *err);
PL_MUST_CHECK
int pl_buf_addf(struct pl_buf *b, struct pl_err *err, const char *fmt, ...) PL_PRINTF(3, 4);
/* The bytes as a C string: a NUL is put after them (not counted in len). NULL only without memory. */
char *pl_buf_str(struct pl_buf *b);
/* Hands the memory over as a NUL-terminated malloc'ed string; the buffer is empty afterwards. NULL only without memory. */
char *pl_buf_take_str(struct pl_buf *b);

/* cursor: reads a run of bytes from front to back; never past the end. After the first failure every read fails (`failed` stays true):
 * read a whole structure, then check once. */
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
/* The next `n` bytes, in place; NULL (and failed) when there are fewer. */
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
/* Refuses a varint that is not the shortest form or does not fit 64 bits. Most have one byte. */
static inline uint64_t pl_cursor_varint(struct pl_cursor *c)
{
    return !c->failed && c->p < c->end && *c->p < 0x80 ? *c->p++ : pl_cursor_varint_long(c);
}
