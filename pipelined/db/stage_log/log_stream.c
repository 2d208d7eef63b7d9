/* Keeps one open line for each datum that is in the middle of a line: in a map by datum, and in a list in the order in
 * which they began. */
#include "pipelined/db/stage_log/log_stream.h"

#include "pipelined/db/stage_log/log_segment.h"
#include "pipelined/db/stage_log/stage_log_internal.h"

#include <inttypes.h>

struct line {
    struct line *next, *previous;
    struct pl_hash datum;
    uint32_t attempt;
    uint64_t fence; /* of the newest frame */
    int64_t at_us;  /* of the newest frame */
    struct pl_buf text;
    bool rewind;  /* a "\r" came: the next byte that is no "\n" begins the line anew */
    bool changed; /* since pl_log_stream_states wrote it */
};

struct pl_log_stream {
    struct pl_map open; /* datum → struct line */
    struct line *first, *last;
    /* of the newest frame */
    struct pl_hash datum;
    uint64_t fence;
};

int pl_log_stream_create(struct pl_log_stream **ret, struct pl_err *err)
{
    struct pl_log_stream *s = calloc(1, sizeof *s);

    if (!s)
        return pl_err_nomem(err);
    *ret = s;
    return 0;
}

static void remove_line(struct pl_log_stream *s, struct line *line)
{
    *(line->previous ? &line->previous->next : &s->first) = line->next;
    *(line->next ? &line->next->previous : &s->last) = line->previous;
    pl_map_remove(&s->open, line->datum.b, PL_HASH_BYTES);
    pl_buf_finish(&line->text);
    free(line);
}

struct pl_log_stream *pl_log_stream_destroy(struct pl_log_stream *s)
{
    if (!s)
        return NULL;
    while (s->first)
        remove_line(s, s->first);
    pl_map_finish(&s->open, NULL);
    free(s);
    return NULL;
}

static int write_record(const struct line *line, char state, struct pl_buf *out, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    int r = pl_buf_addf(out, err, "%" PRId64 " %s %" PRIu32 " %c ", line->at_us, pl_hash_hex(&line->datum, hex), line->attempt,
                        state);

    r = r < 0 || line->text.len == 0 ? r : pl_buf_add(out, line->text.data, line->text.len, err);
    return r < 0 ? r : pl_buf_add(out, "\n", 1, err);
}

/* Writes and removes the line that began first. */
static int end_first(struct pl_log_stream *s, struct pl_buf *out, struct pl_err *err)
{
    int r = write_record(s->first, '+', out, err);

    if (r == 0)
        remove_line(s, s->first);
    return r;
}

/* Writes and removes lines of other datums that came under the frame's lease: its worker computes one datum after another,
 * so those have ended. Only a change of datum or lease can leave such a line. */
static int end_before(struct pl_log_stream *s, const struct pl_log_frame *f, struct pl_buf *out, struct pl_err *err)
{
    const bool same = s->fence == f->fence && pl_hash_eq(&s->datum, &f->datum);
    struct line *next;
    int r = 0;

    for (struct line *line = f->fence && !same ? s->first : NULL; r == 0 && line; line = next) {
        next = line->next;
        if (line->fence != f->fence || pl_hash_eq(&line->datum, &f->datum))
            continue;
        r = write_record(line, '+', out, err);
        if (r == 0)
            remove_line(s, line);
    }
    if (r == 0) {
        s->fence = f->fence;
        s->datum = f->datum;
    }
    return r;
}

int pl_log_stream_end(struct pl_log_stream *s, size_t max, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    while (r == 0 && s->first && out->len < max)
        r = end_first(s, out, err);
    return r;
}

int pl_log_stream_states(struct pl_log_stream *s, size_t max, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (struct line *line = s->first; r == 0 && line && out->len < max; line = line->next) {
        if (line->changed)
            r = write_record(line, '~', out, err);
        line->changed = line->changed && r < 0;
    }
    return r;
}

/* Begins a line for the frame's datum, at the end of the list. NULL without memory. */
static struct line *begin_line(struct pl_log_stream *s, const struct pl_log_frame *f, struct pl_err *err)
{
    struct line *line = calloc(1, sizeof *line);

    if (!line) {
        pl_err_nomem(err);
        return NULL;
    }
    line->datum = f->datum;
    if (pl_map_put(&s->open, line->datum.b, PL_HASH_BYTES, line, NULL, err) < 0) {
        free(line);
        return NULL;
    }
    line->previous = s->last;
    *(s->last ? &s->last->next : &s->first) = line;
    s->last = line;
    return line;
}

/* Adds bytes without a line break. */
static int add_text(struct line *line, const uint8_t *bytes, size_t n, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    line->changed = line->changed || n > 0;
    for (size_t i = 0, len; r == 0 && i < n; i += len) {
        const uint8_t *cr = memchr(bytes + i, '\r', n - i);

        len = 1;
        if (cr == bytes + i) {
            line->rewind = true;
            continue;
        }
        if (line->rewind)
            pl_buf_clear(&line->text);
        line->rewind = false;
        len = PL_MIN(cr ? (size_t)(cr - bytes) - i : n - i, PL_LOG_STREAM_LINE_MAX - line->text.len);
        r = pl_buf_add(&line->text, bytes + i, len, err);
        if (r == 0 && line->text.len >= PL_LOG_STREAM_LINE_MAX) {
            r = write_record(line, '+', out, err);
            pl_buf_clear(&line->text);
        }
    }
    return r;
}

int pl_log_stream_feed(struct pl_log_stream *s, const struct pl_log_frame *f, uint32_t *at, size_t max, struct pl_buf *out,
                       struct pl_err *err)
{
    struct line *line = pl_map_get(&s->open, f->datum.b, PL_HASH_BYTES);
    int r = f->len ? end_before(s, f, out, err) : 0;

    if (r < 0)
        return r;
    /* a line that an earlier attempt did not end */
    if (line && f->len && line->attempt != f->attempt) {
        r = write_record(line, '+', out, err);
        remove_line(s, TAKE_PTR(line));
    }
    if (r == 0 && !line && f->len && s->open.len >= PL_LOG_STREAM_OPEN_MAX)
        r = end_first(s, out, err);
    while (r == 0 && *at < f->len && out->len < max) {
        const uint8_t *bytes = f->bytes + *at;
        const uint32_t most = PL_MIN(f->len - *at, PL_LOG_STREAM_LINE_MAX);
        const uint8_t *end = memchr(bytes, '\n', most);
        const uint32_t len = end ? (uint32_t)(end - bytes) + 1 : most;

        if (!line && !(line = begin_line(s, f, err)))
            return PL_ENOMEM;
        line->attempt = f->attempt;
        line->fence = f->fence;
        line->at_us = f->at_us;
        r = add_text(line, bytes, len - (end != NULL), out, err);
        if (r == 0 && end) {
            r = write_record(line, '=', out, err);
            remove_line(s, TAKE_PTR(line));
        }
        *at += len;
    }
    return r;
}

int pl_log_take_frames(const uint8_t *bytes, size_t n, uint64_t base, size_t head_bytes, const struct pl_log_reading *to,
                       struct pl_err *err)
{
    struct pl_stage_log_cursor *cursor = to->cursor;
    struct pl_cursor c;
    struct pl_log_frame f;

    if (cursor->offset > base + n)
        return 0;
    c = pl_cursor_of(bytes + (cursor->offset - base), n - (cursor->offset - base));
    while (to->out->len < to->max && pl_log_frame_next(&c, head_bytes, &f)) {
        if (f.len && (!to->datum || pl_hash_eq(to->datum, &f.datum))) {
            int r = to->lines ? pl_log_stream_feed(to->lines, &f, &cursor->taken, to->max, to->out, err)
                              : pl_buf_add(to->out, f.bytes, f.len, err);

            if (r < 0)
                return r;
            if (to->lines && cursor->taken < f.len)
                return 0;
        }
        cursor->taken = 0;
        cursor->offset += head_bytes + f.len;
    }
    return 0;
}
