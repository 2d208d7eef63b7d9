/* metric_lines: reads the stored lines of a job's metrics.jsonl piece by piece, without holding a database reader while
 * they are parsed. */
#pragma once

#include "pipelined/api/server/api_context.h"

#define PL_METRIC_LINES_MAX 200000u /* most lines of one job that are read: its newest ones */

/* One line. */
struct pl_metric_line {
    struct pl_hash datum;
    int64_t fence;    /* of the lease under which it was written; 0 = not known */
    const char *text; /* JSON of an object; NULL = the line was no JSON object. Borrowed */
};

typedef int (*pl_metric_line_fn)(void *self, const struct pl_metric_line *line, struct pl_err *err);

/* Calls fn(self, line) for the newest lines of a job, at most `most`, in their order, until it fails, with no reader
 * held. `datum` NULL: of all datums. `*ret_read`: how many; `*ret_cut`: there are older ones. PL_ENOMEM, or what fn
 * returned. */
PL_MUST_CHECK
int pl_metric_lines_read(struct pl_api *a, int64_t job, const struct pl_hash *datum, size_t most, pl_metric_line_fn fn,
                         void *self, size_t *ret_read, bool *ret_cut, struct pl_err *err);
/* The step of a line: its `step`, else its `epoch`, else `number`. */
double pl_metric_line_step(const json_t *line, size_t number);
/* True for figures that are no result: step, epoch, progress. */
bool pl_metric_is_place(const char *name);
