/* Cuts the reply into records and formats each into one write. */
#include "pipelined/cli/runs/log_print.h"

#include "pipelined/cli/support/show.h"
#include "pipelined/text/json_text.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

#define DATUM_DIGITS  12
#define COLUMNS_USUAL 80

struct pl_log_print {
    struct pl_log_print_options options;
    struct pl_buf rest; /* start of a record whose end has not come */
    struct pl_buf out;
    char datum[PL_HASH_HEX + 1]; /* of the last line; "" = none yet */
    bool terminal;
    bool shown; /* the terminal's last line is one that goes on */
};

struct record {
    int64_t at_us;
    char datum[PL_HASH_HEX + 1];
    unsigned attempt;
    char state;
    const char *text;
    size_t len;
};

int pl_log_print_create(const struct pl_log_print_options *options, struct pl_log_print **ret, struct pl_err *err)
{
    struct pl_log_print *p = calloc(1, sizeof *p);

    if (!p)
        return pl_err_nomem(err);
    p->options = *options;
    p->rest.max = PL_LOG_PRINT_RECORD_MAX;
    p->terminal = isatty(STDOUT_FILENO);
    *ret = p;
    return 0;
}

struct pl_log_print *pl_log_print_destroy(struct pl_log_print *p)
{
    if (!p)
        return NULL;
    pl_buf_finish(&p->rest);
    pl_buf_finish(&p->out);
    free(p);
    return NULL;
}

/* Reads a record without its line break. */
static int read_record(const char *line, size_t len, struct record *ret, struct pl_err *err)
{
    char head[160];
    long long at_us;
    int used = 0;

    snprintf(head, sizeof head, "%.*s", (int)PL_MIN(len, sizeof head - 1), line);
    if (sscanf(head, "%lld %64s %u %c%n", &at_us, ret->datum, &ret->attempt, &ret->state, &used) != 4 || (size_t)used >= len ||
        line[used] != ' ')
        return pl_err_set(err, PL_EPROTO, "the daemon's log has \"%.60s\" instead of a line with its time and datum", head);
    ret->at_us = at_us;
    ret->text = line + used + 1;
    ret->len = len - (size_t)used - 1;
    return 0;
}

/* Formats a time like 2026-11-27T02:11:41.123Z. "-": the log of an older daemon has no times. */
static const char *time_text(int64_t at_us, char out[48])
{
    const time_t seconds = (time_t)(at_us / 1000000);
    char text[24];
    struct tm tm;

    if (at_us == 0 || !gmtime_r(&seconds, &tm) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm))
        return "-";
    snprintf(out, 48, "%s.%03dZ", text, (int)(at_us / 1000 % 1000));
    return out;
}

static int add_json(struct pl_log_print *p, const struct record *r, struct pl_err *err)
{
    char text[48];
    _cleanup_(json_decrefp) json_t *o =
        json_pack("{s:s?, s:s, s:I, s:o}", "at", r->at_us ? time_text(r->at_us, text) : NULL, "datum", r->datum, "attempt",
                  (json_int_t)r->attempt, "text", pl_json_bytes(r->text, r->len));
    _cleanup_free_ char *line = o ? pl_json_text(o, JSON_COMPACT | pl_show_json_flags(stdout)) : NULL;

    return line ? pl_buf_addf(&p->out, err, "%s\n", line) : pl_err_nomem(err);
}

static int add_prefix(struct pl_log_print *p, const struct record *r, struct pl_err *err)
{
    char text[48];
    int e = 0;

    if (p->options.prefix_several && !p->options.prefix && *p->datum && !pl_streq(p->datum, r->datum))
        p->options.prefix = true;
    if (r->state != '~')
        memcpy(p->datum, r->datum, sizeof p->datum);
    if (p->options.timestamps)
        e = pl_buf_addf(&p->out, err, "%s ", time_text(r->at_us, text));
    return e < 0 || !p->options.prefix ? e : pl_buf_addf(&p->out, err, "%.*s | ", DATUM_DIGITS, r->datum);
}

/* Adds the text of a line; on a terminal, control characters are replaced. */
static int add_text(struct pl_log_print *p, const struct record *r, struct pl_err *err)
{
    struct pl_show_text clean = {0};
    _cleanup_free_ char *text = p->terminal ? malloc(r->len + 1) : NULL;

    if (!p->terminal)
        return pl_buf_add(&p->out, r->text, r->len, err);
    return text ? pl_buf_add(&p->out, text, pl_show_clean_bytes(&clean, r->text, r->len, text), err) : pl_err_nomem(err);
}

/* Cuts the line that goes on to the width of the terminal, so that the next one replaces all of it. Bytes of a character count
 * as columns, which at worst cuts more. */
static void cut_to_terminal(struct pl_log_print *p, size_t from)
{
    struct winsize size;
    const size_t columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : COLUMNS_USUAL;

    if (p->out.len - from < columns)
        return;
    p->out.len = from + columns - 1;
    while (p->out.len > from && (p->out.data[p->out.len] & 0xc0) == 0x80)
        p->out.len--;
}

static int print_record(struct pl_log_print *p, const struct record *r, struct pl_err *err)
{
    const bool goes_on = r->state == '~';
    size_t from;
    int e = 0;

    if (goes_on && (p->options.json || !p->terminal))
        return 0;
    if (p->options.json)
        return add_json(p, r, err);
    if (p->shown)
        e = pl_buf_add_str(&p->out, "\r\033[K", err);
    from = p->out.len;
    e = e < 0 ? e : add_prefix(p, r, err);
    e = e < 0 ? e : add_text(p, r, err);
    p->shown = goes_on;
    if (e == 0 && goes_on)
        cut_to_terminal(p, from);
    return e < 0 || goes_on ? e : pl_buf_add_str(&p->out, "\n", err);
}

static int flush_out(struct pl_log_print *p, struct pl_err *err)
{
    int r = p->out.len ? pl_io_write(STDOUT_FILENO, p->out.data, p->out.len, "stdout", err) : 0;

    pl_buf_clear(&p->out);
    return r;
}

int pl_log_print_feed(struct pl_log_print *p, const void *data, size_t n, struct pl_err *err)
{
    const char *bytes = data;
    struct record record;
    int r = 0;

    for (size_t at = 0, len; r == 0 && at < n; at += len) {
        const char *end = memchr(bytes + at, '\n', n - at), *line = bytes + at;

        len = end ? (size_t)(end - line) + 1 : n - at;
        if (!end || p->rest.len)
            r = pl_buf_add(&p->rest, line, len - (end != NULL), err);
        if (r < 0 || !end)
            break;
        r = p->rest.len ? read_record((const char *)p->rest.data, p->rest.len, &record, err)
                        : read_record(line, len - 1, &record, err);
        r = r < 0 ? r : print_record(p, &record, err);
        pl_buf_clear(&p->rest);
    }
    return r < 0 ? r : flush_out(p, err);
}

int pl_log_print_end(struct pl_log_print *p, struct pl_err *err)
{
    int r = p->shown ? pl_buf_add_str(&p->out, "\n", err) : 0;

    p->shown = false;
    return r < 0 ? r : flush_out(p, err);
}
