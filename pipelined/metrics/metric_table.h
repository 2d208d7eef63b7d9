/* metric_table: results of a stage's jobs side by side: parameters and metrics as columns, in the order that was asked for; and two
 * runs against each other. Pure.
 *
 * A result is one datum of one job, as GET /metrics/{project}/{stage}/jobs lists it. Of a metric its last value counts.
 * Bounds: PL_METRIC_COLUMNS_MAX. */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>

#define PL_METRIC_COLUMNS_MAX 256u /* parameters and metrics together; what comes after is no column */

struct pl_metric_table {
    json_t *params;  /* names: those of `params` inputs, then the variables that are not the same in all rows */
    json_t *metrics; /* names */
    json_t *rows;    /* {"run", "created_us", "state", "version", "datum", "params": {NAME: VALUE}, "metrics": {NAME: NUMBER}} */
};

/* Makes the table of results, in their order or by `sort`: a metric or a parameter, "-" before it for the largest first; NULL = their
 * order. Rows without the value come last, numbers before texts. PL_EUSAGE: there is no such name; the message lists those that
 * exist. PL_ENOMEM. Release `ret` with pl_metric_table_finish. */
PL_MUST_CHECK
int pl_metric_table_make(const json_t *results, const char *sort, struct pl_metric_table *ret, struct pl_err *err);
void pl_metric_table_finish(struct pl_metric_table *table);

/* Compares the results of two runs, datum by datum; if each has one, these two. `*ret`: a new list of {"datum", "params", "metric", "a",
 * "b", "difference"}: numbers, null where a run has none; difference is b − a, null if that is no
 * finite number. PL_ENOMEM. */
PL_MUST_CHECK
int pl_metric_table_diff(const json_t *a, const json_t *b, json_t **ret, struct pl_err *err);
