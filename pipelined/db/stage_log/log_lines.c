/* Lines are found with memchr; only lines that are wanted are looked at byte by byte. */
#include "pipelined/db/stage_log/log_lines.h"

#include <assert.h>

void pl_log_lines_finish(struct pl_log_lines *l)
{
    pl_buf_finish(&l->text);
    free(l->list);
    l->list = NULL;
}

uint64_t pl_log_lines_count(const void *bytes, size_t n)
{
    const char *p = bytes, *end = p + n;
    uint64_t lines = 0;

    while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
        lines++;
        p++;
    }
    return lines;
}

static bool full(const struct pl_log_lines *l)
{
    return l->n >= PL_MIN(l->most, (size_t)PL_LOG_LINES_MAX) || l->text.len >= l->max_bytes;
}

static int begin_line(struct pl_log_lines *l, struct pl_err *err)
{
    if (l->n == l->room) {
        const size_t room = l->room ? 2 * l->room : 64;
        struct pl_log_line *list = realloc(l->list, room * sizeof *list);

        if (!list)
            return pl_err_nomem(err);
        l->list = list;
        l->room = room;
    }
    l->list[l->n++] = (struct pl_log_line){.number = l->number, .at = l->text.len, .open = true};
    l->in_line = true;
    l->rewind = false;
    return 0;
}

/* Adds text of the open line: `n` bytes without "\n". */
static int add_text(struct pl_log_lines *l, const char *bytes, size_t n, struct pl_err *err)
{
    struct pl_log_line *line = &l->list[l->n - 1];

    line->bytes += n;
    while (n > 0) {
        const char *cr = memchr(bytes, '\r', n);
        const size_t plain = cr ? (size_t)(cr - bytes) : n;
        size_t kept;
        int r;

        if (plain > 0 && l->rewind) { /* what came after "\r" takes the place of what was before */
            l->text.len = line->at;
            line->len = 0;
            line->cut = l->rewind = false;
        }
        kept = PL_MIN(plain, (size_t)(PL_LOG_LINE_MAX - line->len));
        r = pl_buf_add(&l->text, bytes, kept, err);
        if (r < 0)
            return r;
        line->len += (uint32_t)kept;
        line->cut |= kept < plain;
        l->rewind |= cr != NULL;
        bytes += plain + (cr != NULL);
        n -= plain + (cr != NULL);
    }
    return 0;
}

int pl_log_lines_feed(struct pl_log_lines *l, const void *bytes, size_t n, struct pl_err *err)
{
    const char *p = bytes, *end = p + n;

    assert(l->number >= 1);
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline ? newline : end;
        int r = 0;

        if (!l->in_line && l->number >= l->first) {
            if (full(l))
                return 0;
            r = begin_line(l, err);
        }
        if (r == 0 && l->in_line)
            r = add_text(l, p, (size_t)(stop - p), err);
        if (r < 0)
            return r;
        if (newline) {
            if (l->in_line)
                l->list[l->n - 1].open = false;
            l->in_line = false;
            l->number++;
        }
        p = newline ? newline + 1 : end;
    }
    return l->in_line || !full(l);
}

bool pl_log_lines_skips(const struct pl_log_lines *l)
{
    return l->in_line ? l->list[l->n - 1].cut && !l->rewind : l->number < l->first;
}

void pl_log_lines_keep_last(struct pl_log_lines *l, size_t max_bytes)
{
    size_t first = l->n, bytes = 0;

    while (first > 0 && (first == l->n || bytes + l->list[first - 1].len <= max_bytes))
        bytes += l->list[--first].len;
    if (first == 0)
        return;
    l->n -= first;
    memmove(l->list, l->list + first, l->n * sizeof *l->list);
}
