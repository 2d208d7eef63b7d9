/* Reads frames of all versions with one cursor, and writes the newest one. */
#include "pipelined/db/stage_log/log_segment.h"

#define MAGIC_1       "PLSL\001"
#define MAGIC_2       "PLSL\002"
#define MAGIC_3       "PLSL\003"
#define FRAME_BYTES_1 48u
#define FRAME_BYTES_2 56u

void pl_log_segment_start(const struct pl_hash *owner, uint8_t out[PL_LOG_SEGMENT_START_BYTES])
{
    const struct pl_log_frame first = {.datum = *owner};

    memcpy(out, MAGIC_3, PL_LOG_SEGMENT_MAGIC_BYTES);
    pl_log_frame_head(&first, out + PL_LOG_SEGMENT_MAGIC_BYTES);
}

size_t pl_log_segment_head_bytes(const void *bytes, size_t n)
{
    if (n < PL_LOG_SEGMENT_MAGIC_BYTES)
        return 0;
    if (memcmp(bytes, MAGIC_3, PL_LOG_SEGMENT_MAGIC_BYTES) == 0)
        return PL_LOG_FRAME_BYTES;
    if (memcmp(bytes, MAGIC_2, PL_LOG_SEGMENT_MAGIC_BYTES) == 0)
        return FRAME_BYTES_2;
    return memcmp(bytes, MAGIC_1, PL_LOG_SEGMENT_MAGIC_BYTES) == 0 ? FRAME_BYTES_1 : 0;
}

bool pl_log_segment_is_of(const void *bytes, size_t n, const struct pl_hash *owner)
{
    const size_t head = pl_log_segment_head_bytes(bytes, n);

    return head > 0 && n >= PL_LOG_SEGMENT_MAGIC_BYTES + head &&
           memcmp((const uint8_t *)bytes + PL_LOG_SEGMENT_MAGIC_BYTES, owner->b, PL_HASH_BYTES) == 0;
}

static void put_le(uint8_t *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

void pl_log_frame_head(const struct pl_log_frame *f, uint8_t out[PL_LOG_FRAME_BYTES])
{
    memcpy(out, f->datum.b, PL_HASH_BYTES);
    put_le(out + 32, f->attempt, 4);
    put_le(out + 36, f->fence, 8);
    put_le(out + 44, (uint64_t)f->at_us, 8);
    put_le(out + 52, f->offset, 8);
    put_le(out + 60, f->len, 4);
}

bool pl_log_frame_next(struct pl_cursor *c, size_t head_bytes, struct pl_log_frame *ret)
{
    if (head_bytes == 0 || pl_cursor_left(c) < head_bytes)
        return false;
    memcpy(ret->datum.b, pl_cursor_bytes(c, PL_HASH_BYTES), PL_HASH_BYTES);
    ret->attempt = pl_cursor_le32(c);
    ret->fence = head_bytes == FRAME_BYTES_1 ? 0 : pl_cursor_le64(c);
    ret->at_us = head_bytes == PL_LOG_FRAME_BYTES ? (int64_t)pl_cursor_le64(c) : 0;
    ret->offset = pl_cursor_le64(c);
    ret->len = pl_cursor_le32(c);
    ret->bytes = pl_cursor_bytes(c, ret->len);
    return !c->failed;
}

static void key_of(const struct pl_hash *datum, uint32_t attempt, uint8_t out[PL_LOG_PROGRESS_KEY])
{
    memcpy(out, datum->b, PL_HASH_BYTES);
    memcpy(out + PL_HASH_BYTES, &attempt, sizeof attempt);
}

void pl_log_progress_key(const uint8_t key[PL_LOG_PROGRESS_KEY], struct pl_hash *ret_datum, uint32_t *ret_attempt)
{
    memcpy(ret_datum->b, key, PL_HASH_BYTES);
    memcpy(ret_attempt, key + PL_HASH_BYTES, sizeof *ret_attempt);
}

struct pl_log_progress *pl_log_progress_of(const struct pl_map *map, const struct pl_hash *datum, uint32_t attempt)
{
    uint8_t key[PL_LOG_PROGRESS_KEY];

    key_of(datum, attempt, key);
    return pl_map_get(map, key, sizeof key);
}

/* Returns the record of the frame's attempt, and makes it if it is missing. NULL without memory. */
static struct pl_log_progress *make(struct pl_map *map, const struct pl_log_frame *f, struct pl_err *err)
{
    struct pl_log_progress *p = pl_log_progress_of(map, &f->datum, f->attempt);
    uint8_t key[PL_LOG_PROGRESS_KEY];

    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (!p) {
        pl_err_nomem(err);
        return NULL;
    }
    key_of(&f->datum, f->attempt, key);
    if (pl_map_put(map, key, sizeof key, p, NULL, err) == 0)
        return p;
    free(p);
    return NULL;
}

int pl_log_progress_note(struct pl_map *map, const struct pl_log_frame *f, const struct pl_log_progress *before,
                         struct pl_err *err)
{
    const struct pl_log_progress known = before ? *before : (struct pl_log_progress){0};
    struct pl_log_progress *p = make(map, f, err);

    if (!p)
        return PL_ENOMEM;
    if (before)
        *p = known;
    if (p->fence && f->fence > p->fence)
        *p = (struct pl_log_progress){0};
    p->fence = f->fence;
    if (f->offset == PL_LOG_LINE_OFFSET)
        p->over = true;
    else
        p->end = f->offset + f->len;
    p->mid_line = f->len > 0 && f->bytes[f->len - 1] != '\n';
    return 0;
}

int pl_log_progress_load(struct pl_map *map, const struct pl_buf *segment, uint64_t *ret_size, struct pl_err *err)
{
    const size_t head = pl_log_segment_head_bytes(segment->data, segment->len);
    struct pl_cursor c;
    struct pl_log_frame f;
    uint64_t size = PL_LOG_SEGMENT_MAGIC_BYTES;
    int r = 0;

    *ret_size = 0;
    if (head == 0)
        return 0;
    c = pl_cursor_of(segment->data + PL_LOG_SEGMENT_MAGIC_BYTES, segment->len - PL_LOG_SEGMENT_MAGIC_BYTES);
    while (r == 0 && pl_log_frame_next(&c, head, &f)) {
        r = f.len > 0 ? pl_log_progress_note(map, &f, NULL, err) : 0;
        size += head + f.len;
    }
    *ret_size = size;
    return r;
}
