/* Finds the segments that hold what is wanted by the counts in their rows, and feeds their text to log_lines or
 * log_search. */
#include "pipelined/db/stage_log/log_view.h"

#include "pipelined/db/stage_log/log_segment.h"
#include "pipelined/db/stage_log/stage_log_internal.h"

#include <inttypes.h>
#include <stdio.h>

#define DATUM_KEY 16 /* hex digits of a datum in `entries` */

/* ---- counts of one segment ---- */

/* Text that one filter leaves of a segment. */
struct count {
    uint64_t bytes, breaks;
    bool ended; /* the last byte is a line break */
};

static void count_text(struct count *c, const struct pl_log_frame *f)
{
    if (f->len == 0)
        return;
    c->bytes += f->len;
    c->breaks += pl_log_lines_count(f->bytes, f->len);
    c->ended = f->bytes[f->len - 1] == '\n';
}

/* Counts the text of a segment, altogether and by datum: `of` has struct count by the datum's hex digits. */
static int count_segment(const struct pl_buf *segment, struct count *all, struct pl_map *of, struct pl_err *err)
{
    const size_t head = pl_log_segment_head_bytes(segment->data, segment->len);
    char hex[PL_HASH_HEX + 1];
    struct pl_log_frame f;
    struct pl_cursor c;

    if (head == 0)
        return 0;
    c = pl_cursor_of(segment->data + PL_LOG_SEGMENT_MAGIC_BYTES, segment->len - PL_LOG_SEGMENT_MAGIC_BYTES);
    while (pl_log_frame_next(&c, head, &f)) {
        struct count *one;

        count_text(all, &f);
        if (f.len == 0)
            continue;
        pl_hash_hex(&f.datum, hex);
        one = pl_map_get(of, hex, DATUM_KEY);
        if (!one) {
            one = calloc(1, sizeof *one);
            if (!one || pl_map_put(of, hex, DATUM_KEY, one, NULL, err) < 0) {
                free(one);
                return pl_err_nomem(err);
            }
        }
        count_text(one, &f);
    }
    return 0;
}

static int write_count(struct pl_buf *out, const struct count *c, struct pl_err *err)
{
    return pl_buf_addf(out, err, "[%" PRIu64 ",%" PRIu64 ",%d]", c->bytes, c->breaks, c->ended);
}

int pl_stage_log_entries(const struct pl_buf *segment, char **ret, struct pl_err *err)
{
    struct pl_buf out = {0};
    struct pl_map of = {0};
    struct count all = {0};
    const struct pl_map_slot *slot;
    int r = count_segment(segment, &all, &of, err);

    r = r < 0 ? r : pl_buf_add_str(&out, "{\"all\":", err);
    r = r < 0 ? r : write_count(&out, &all, err);
    if (r == 0 && of.len <= PL_LOG_DATUMS_MAX) {
        const char *before = ",\"of\":{";

        r = of.len == 0 ? pl_buf_add_str(&out, before, err) : 0;
        for (size_t i = 0; r == 0 && (slot = pl_map_next(&of, &i)); before = ",") {
            r = pl_buf_addf(&out, err, "%s\"%.*s\":", before, DATUM_KEY, (const char *)slot->key);
            r = r < 0 ? r : write_count(&out, slot->value, err);
        }
        r = r < 0 ? r : pl_buf_add_str(&out, "}", err);
    }
    r = r < 0 ? r : pl_buf_add_str(&out, "}", err);
    if (r == 0 && !(*ret = pl_buf_take_str(&out)))
        r = pl_err_nomem(err);
    pl_buf_finish(&out);
    pl_map_finish(&of, free);
    return r;
}

/* ---- the index of a log ---- */

/* A segment, and what comes before it. */
struct segment {
    struct count own;
    uint64_t bytes, breaks; /* before it */
    bool known;
    bool old; /* its row is from before there were counts */
};

/* A log through a filter. */
struct view {
    struct pl_stage_logs *l;
    const char *project;
    int64_t job;
    struct pl_log_filter filter;
    struct segment *list;
    size_t n, room;
    struct count all;     /* of all segments */
    struct pl_buf loaded; /* the text of segment `loaded_at` that the filter leaves over */
    size_t loaded_at;     /* SIZE_MAX = none */
};

static void view_finish(struct view *v)
{
    free(v->list);
    pl_buf_finish(&v->loaded);
}

/* Counts of a segment whose row has none yet. */
struct counted {
    int64_t job, segment;
    char *entries;
};

static int write_counts_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct counted *c = arg;
    int r = pl_sql_exec(pl_tx_conn(tx), err, "UPDATE log_segment SET entries = ? WHERE job = ? AND id = ? AND entries = '[]'",
                        "sii", c->entries, c->job, c->segment);

    return r < 0 ? r : 0;
}

static void counts_written(void *arg, int r, const struct pl_err *err)
{
    struct counted *c = arg;

    (void)r; /* without them the segment is counted again */
    (void)err;
    free(c->entries);
    free(c);
}

/* Writes the counts of an old segment into its row, so that it need not be loaded again to be counted. Does not wait. */
static void write_counts(const struct view *v, size_t at, const struct pl_buf *bytes)
{
    struct counted *c = calloc(1, sizeof *c);

    if (!c)
        return;
    *c = (struct counted){.job = v->job, .segment = (int64_t)at};
    if (pl_stage_log_entries(bytes, &c->entries, NULL) < 0 ||
        pl_db_submit(pl_stage_log_db(v->l), PL_TX_UNLOGGED, write_counts_tx, counts_written, c, NULL) < 0)
        counts_written(c, 0, NULL);
}

/* Loads the text of a segment that the filter leaves over. PL_ENOTFOUND: there is no such segment; errors of the effort. */
static int load_text(struct view *v, size_t at, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_log_frame f;
    struct pl_cursor c;
    size_t head = 0;
    int r;

    if (v->loaded_at == at)
        return 0;
    v->loaded_at = SIZE_MAX;
    pl_buf_clear(&v->loaded);
    r = pl_stage_log_load(v->l, v->project, v->job, at, &bytes, &head, err);
    r = r < 0 ? r : pl_effort_add(v->filter.effort, bytes.len / 1024 + 1, err);
    if (r < 0)
        return r;
    if (v->list[at].old) {
        v->list[at].old = false;
        write_counts(v, at, &bytes);
    }
    c = pl_cursor_of(bytes.data, bytes.len);
    if (head == 0 || !pl_cursor_bytes(&c, PL_LOG_SEGMENT_MAGIC_BYTES)) {
        v->loaded_at = at;
        return 0;
    }
    for (r = 0; r == 0 && pl_log_frame_next(&c, head, &f);)
        if (!v->filter.datum || (pl_hash_eq(v->filter.datum, &f.datum) && (!v->filter.attempt || v->filter.attempt == f.attempt)))
            r = pl_buf_add(&v->loaded, f.bytes, f.len, err);
    v->loaded_at = r < 0 ? SIZE_MAX : at;
    return r;
}

static int count_loaded(struct view *v, size_t at, struct count *ret, struct pl_err *err)
{
    int r = load_text(v, at, err);

    if (r < 0)
        return r;
    *ret = (struct count){.bytes = v->loaded.len, .breaks = pl_log_lines_count(v->loaded.data, v->loaded.len)};
    ret->ended = v->loaded.len > 0 && v->loaded.data[v->loaded.len - 1] == '\n';
    return 0;
}

static int add_segment(struct view *v, const struct segment *one, struct pl_err *err)
{
    if (v->n == v->room) {
        const size_t room = v->room ? 2 * v->room : 64;
        struct segment *list = realloc(v->list, room * sizeof *list);

        if (!list)
            return pl_err_nomem(err);
        v->list = list;
        v->room = room;
    }
    v->list[v->n++] = *one;
    return 0;
}

/* Reads the rows of the sealed segments. Column 1 is NULL where nothing is known. */
static int read_rows(struct view *v, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(pl_stage_log_db(v->l));
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char path[64] = "$.all", hex[PL_HASH_HEX + 1];
    int r;

    if (v->filter.datum)
        snprintf(path, sizeof path, "$.of.\"%.*s\"", DATUM_KEY, pl_hash_hex(v->filter.datum, hex));
    r = pl_sql_query(
        rd.conn, err, &rows,
        "SELECT iif(length(blob) > 0, 0, 1), json_extract(entries, ?2 || '[0]'), json_extract(entries, ?2 || '[1]'),"
        " json_extract(entries, ?2 || '[2]'), json_type(entries, ?3) IS NOT NULL, length(blob) > 0 AND entries = '[]'"
        " FROM log_segment WHERE job = ?1 ORDER BY id",
        "iss", v->job, path, v->filter.datum ? "$.of" : "$.all");
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        struct segment one = {.own = {.bytes = (uint64_t)pl_col_int(&rows, 1),
                                      .breaks = (uint64_t)pl_col_int(&rows, 2),
                                      .ended = pl_col_int(&rows, 3)},
                              .old = pl_col_int(&rows, 5)};

        /* a segment without content is empty, and so is one in which the datum has no text; of one attempt only that is known */
        one.known = pl_col_int(&rows, 0) || (pl_col_int(&rows, 4) && (!v->filter.attempt || one.own.bytes == 0));
        r = add_segment(v, &one, err);
    }
    return r < 0 ? r : 0;
}

/* Lists the segments; the last one is open. */
static int list_segments(struct view *v, struct pl_err *err)
{
    static const struct segment open;
    int r = read_rows(v, err);

    v->loaded_at = SIZE_MAX;
    return r < 0 ? r : add_segment(v, &open, err);
}

/* Counts a segment, unless its row has the counts. */
static int count(struct view *v, size_t at, struct pl_err *err)
{
    int r = v->list[at].known ? 0 : count_loaded(v, at, &v->list[at].own, err);

    return r == PL_ENOTFOUND && at == v->n - 1 ? 0 : r; /* nothing was written since the last one was sealed */
}

/* Reads or counts all segments, and sums them up. What was counted of old ones stays, also if the effort ends before all. */
static int view_open(struct view *v, struct pl_err *err)
{
    int r = list_segments(v, err);

    for (size_t i = 0; r == 0 && i < v->n; i++) {
        struct segment *s = &v->list[i];

        r = count(v, i, err);
        s->bytes = v->all.bytes;
        s->breaks = v->all.breaks;
        v->all.bytes += s->own.bytes;
        v->all.breaks += s->own.breaks;
        if (s->own.bytes > 0)
            v->all.ended = s->own.ended;
    }
    return r;
}

/* The last segment in which line `line` may begin: the line break before it is there, or further in front. */
static size_t segment_of(const struct view *v, uint64_t line)
{
    size_t low = 0, high = v->n; /* low is good, high is not */

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (v->list[middle].breaks + 1 < line)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- lines ---- */

/* Finds the line of a byte of the text. */
static int line_of_byte(struct view *v, uint64_t byte, uint64_t *ret, struct pl_err *err)
{
    size_t i = v->n - 1;
    int r;

    while (i > 0 && v->list[i].bytes > byte)
        i--;
    *ret = v->list[i].breaks + 1;
    if (v->list[i].own.bytes == 0)
        return 0;
    r = load_text(v, i, err);
    if (r == 0)
        *ret += pl_log_lines_count(v->loaded.data, PL_MIN((size_t)(byte - v->list[i].bytes), v->loaded.len));
    return r;
}

static int read_lines(struct view *v, struct pl_log_lines *lines, struct pl_err *err)
{
    size_t i = segment_of(v, lines->first);
    int r = 1;

    lines->number = v->list[i].breaks + 1;
    for (; r > 0 && i < v->n; i++) {
        if (v->list[i].own.bytes == 0)
            continue;
        if (pl_log_lines_skips(lines) && v->list[i].own.breaks == 0 && lines->in_line) {
            lines->list[lines->n - 1].bytes += v->list[i].own.bytes;
            continue;
        }
        r = load_text(v, i, err);
        /* not more than was counted: a log that grows meanwhile would have more lines than its total says */
        r = r < 0 ? r : pl_log_lines_feed(lines, v->loaded.data, PL_MIN(v->loaded.len, (size_t)v->list[i].own.bytes), err);
    }
    return PL_MIN(r, 0);
}

int pl_stage_logs_lines(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_log_filter *filter,
                        const struct pl_log_range *range, struct pl_log_lines *ret, struct pl_log_total *ret_total,
                        struct pl_err *err)
{
    _cleanup_(view_finish) struct view v = {.l = l, .project = project, .job = job, .filter = *filter};
    int r = view_open(&v, err);

    /* of the last lines, those at the end are kept: how many fit is known when they are read */
    *ret = (struct pl_log_lines){.first = range->first,
                                 .most = range->most,
                                 .max_bytes = range->tail ? (size_t)PL_LOG_LINES_MAX * PL_LOG_LINE_MAX : range->max_bytes,
                                 .number = 1};
    if (r < 0)
        return r;
    *ret_total = (struct pl_log_total){v.all.bytes, v.all.breaks + (v.all.bytes > 0 && !v.all.ended)};
    if (range->tail)
        ret->first = ret_total->lines > range->most ? ret_total->lines - range->most + 1 : 1;
    else if (range->first == 0)
        r = line_of_byte(&v, range->byte, &ret->first, err);
    ret->first = PL_MAX(ret->first, (uint64_t)1);
    if (r == 0 && ret->first <= ret_total->lines)
        r = read_lines(&v, ret, err);
    if (r == 0 && range->tail)
        pl_log_lines_keep_last(ret, range->max_bytes);
    return r;
}

int pl_stage_logs_tail(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_log_filter *filter,
                       uint64_t lines, struct pl_stage_log_cursor *ret, struct pl_err *err)
{
    _cleanup_(view_finish) struct view v = {.l = l, .project = project, .job = job, .filter = *filter};
    int r = list_segments(&v, err);
    uint64_t breaks = 0;
    size_t i = v.n;

    for (; r == 0 && i > 0 && breaks <= lines; i--) {
        r = count(&v, i - 1, err);
        breaks += v.list[i - 1].own.breaks;
    }
    if (r == 0) /* the first of these lines may begin in the segment before */
        *ret = (struct pl_stage_log_cursor){.segment = i > 0 ? i - 1 : 0};
    return r;
}

/* ---- search ---- */

/* Says where a search goes on that has looked through enough: with the line that it has come to or, if that is still the
 * one that it began with, behind it: of a longer line the rest is not looked through. */
static uint64_t next_line(const struct view *v, uint64_t line, uint64_t from)
{
    const uint64_t next = PL_MAX(line, from + 1);

    return next <= v->all.breaks + !v->all.ended ? next : 0;
}

static int search_on(struct view *v, const struct pl_log_search *search, uint64_t from, struct pl_log_found *ret,
                     struct pl_err *err)
{
    size_t i = segment_of(v, from), used;
    struct pl_log_search_state state = {.line = v->list[i].breaks + 1};
    uint64_t looked = 0;
    int r = 0;

    for (; r == 0 && i < v->n; i++) {
        if (v->list[i].own.bytes == 0)
            continue;
        if (looked >= PL_LOG_SEARCH_BUDGET) {
            ret->next = next_line(v, state.line, from);
            return 0;
        }
        r = load_text(v, i, err);
        if (r == 0 && pl_log_search_feed(search, &state, from, v->loaded.data, v->loaded.len, &used)) {
            ret->line = state.line;
            return 0;
        }
        looked += v->loaded.len;
    }
    if (r == 0 && pl_log_search_end(&state, from))
        ret->line = state.line;
    return r;
}

/* Returns the last match of the loaded segment and the text `after` it in a line below `from`; 0: none. */
static uint64_t last_match(const struct view *v, const struct pl_log_search *search, uint64_t line, uint64_t from,
                           const struct pl_buf *after)
{
    const struct pl_buf *parts[] = {&v->loaded, after};
    struct pl_log_search_state state = {.line = line};
    uint64_t last = 0;

    for (size_t p = 0; p < PL_ARRAY_SIZE(parts); p++) {
        for (size_t at = 0, used; at < parts[p]->len; at += used) {
            if (!pl_log_search_feed(search, &state, 1, parts[p]->data + at, parts[p]->len - at, &used))
                break;
            if (state.line >= from)
                return last;
            last = state.line;
        }
    }
    return pl_log_search_end(&state, 1) && state.line < from ? state.line : last;
}

/* Puts the first bytes of the loaded segment in front of `after`, which keeps as many as the longest text has. */
static int keep_start(const struct view *v, struct pl_buf *after, struct pl_err *err)
{
    uint8_t old[PL_LOG_SEARCH_BYTES];
    const size_t n = PL_MIN(after->len, sizeof old), own = PL_MIN(v->loaded.len, sizeof old);
    int r;

    if (n > 0)
        memcpy(old, after->data, n);
    pl_buf_clear(after);
    r = pl_buf_add(after, v->loaded.data, own, err);
    return r < 0 ? r : pl_buf_add(after, old, PL_MIN(n, sizeof old - own), err);
}

static int search_back(struct view *v, const struct pl_log_search *search, uint64_t from, struct pl_log_found *ret,
                       struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf after = {0}; /* a match may end in the next segments */
    size_t i = segment_of(v, from);
    const uint64_t begun = v->list[i].breaks;
    uint64_t looked = 0;
    int r = 0;

    for (;; i--) {
        const struct segment *s = &v->list[i];

        if (looked >= PL_LOG_SEARCH_BUDGET) {
            /* the line that goes on behind this segment is not done yet; if it is the first one that was looked at, the rest
             * of it is not looked through */
            ret->next = s->breaks < begun ? s->breaks + s->own.breaks + 2 : begun ? begun + 1 : 0;
            return 0;
        }
        r = s->own.bytes > 0 ? load_text(v, i, err) : 0;
        if (r < 0)
            return r;
        if (s->own.bytes > 0) {
            ret->line = last_match(v, search, s->breaks + 1, from, &after);
            r = ret->line ? 0 : keep_start(v, &after, err);
            looked += v->loaded.len;
        }
        if (r < 0 || ret->line || i == 0)
            return r;
    }
}

int pl_stage_logs_search(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_log_filter *filter,
                         const struct pl_log_search *search, uint64_t from, bool back, struct pl_log_found *ret,
                         struct pl_err *err)
{
    _cleanup_(view_finish) struct view v = {.l = l, .project = project, .job = job, .filter = *filter};
    int r = view_open(&v, err);

    *ret = (struct pl_log_found){0};
    if (r < 0 || (back && from <= 1))
        return r;
    return back ? search_back(&v, search, from, ret, err) : search_on(&v, search, PL_MAX(from, (uint64_t)1), ret, err);
}
