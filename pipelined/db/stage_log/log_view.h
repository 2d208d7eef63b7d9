/* log_view: any lines of a job's log, and a search in it, without reading the whole log.
 *
 * Each sealed segment has in its row how much text and how many lines it holds, and how much of that each datum printed:
 *
 *   log_segment.entries := {"all": [bytes, line breaks, last], "of": {"first 16 digits of a datum": [bytes, line breaks, last], …}}
 *
 * `last` is 1 if the text ends with a line break. A segment with more than PL_LOG_DATUMS_MAX datums has no "of". So only the segments are
 * loaded that hold what is wanted; those without such a row are loaded to be counted. Rows from before there were counts get
 * them when they are counted for the first time.
 *
 * Lines count from 1, in the text that the filter leaves over. A log that grows keeps its lines' numbers. Block on the
 * store: on the pool, without a database reader. */
#pragma once

#include "pipelined/db/stage_log/log_lines.h"
#include "pipelined/db/stage_log/log_search.h"
#include "pipelined/db/stage_log/stage_log.h"
#include "storage/base/effort.h"

#define PL_LOG_DATUMS_MAX    1024u
#define PL_LOG_SEARCH_BUDGET (32u << 20) /* text that one search looks through before it says where to go on */

/* Whose text counts, and how much may be loaded for it. */
struct pl_log_filter {
    const struct pl_hash *datum; /* NULL = of all */
    uint32_t attempt;            /* 0 = of all; only with a datum */
    struct pl_effort *effort;    /* counts KiB of segments that are loaded; NULL = as many as it takes. Borrowed */
};

struct pl_log_total {
    uint64_t bytes, lines; /* a last line without its line break counts */
};

/* Which lines are wanted: from line `first`, or, if that is 0, from the line with byte `byte` (from 0), or, with `tail`, the last ones. */
struct pl_log_range {
    uint64_t first, byte;
    bool tail;
    size_t most, max_bytes; /* as in pl_log_lines */
};

/* Reads lines. The caller frees `*ret` with pl_log_lines_finish, also after an error. Errors of the store and of the effort. */
PL_MUST_CHECK
int pl_stage_logs_lines(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_log_filter *filter,
                        const struct pl_log_range *range, struct pl_log_lines *ret, struct pl_log_total *ret_total,
                        struct pl_err *err);

/* Sets `*ret` to a place from which pl_stage_logs_read gives the last `lines` lines, usually preceded by more lines: the
 * start of a segment. Only the segments from there on are counted. A line that began more than a segment before the last ones
 * lacks its start. Errors of the store and of the effort. */
PL_MUST_CHECK
int pl_stage_logs_tail(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_log_filter *filter,
                       uint64_t lines, struct pl_stage_log_cursor *ret, struct pl_err *err);

/* What a search found. */
struct pl_log_found {
    uint64_t line; /* 0 = nothing so far */
    uint64_t next; /* if `line` is 0: `from` with which the search goes on; 0 = there is no match */
};
/* Finds the first line of a number of at least `from` that matches or, with `back`, the last one below `from`. Of a line of
 * more than PL_LOG_SEARCH_BUDGET bytes it may leave the rest out. Errors of the store and of the effort. */
PL_MUST_CHECK
int pl_stage_logs_search(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_log_filter *filter,
                         const struct pl_log_search *search, uint64_t from, bool back, struct pl_log_found *ret,
                         struct pl_err *err);
