/* metric_text: writes samples as OpenMetrics text 1.0, or as the text format 0.0.4 of Prometheus, which older
 * tools read.
 *
 *   text    = *family "# EOF\n"                                   (0.0.4: no UNIT and EOF; NAME is that of the samples)
 *   family  = "# TYPE" NAME TYPE  ["# UNIT" NAME UNIT]  "# HELP" NAME TEXT  *sample
 *   sample  = NAME [_total | _info] "{" label="value" … "}" number
 *
 * Add the samples in the order of the list; the text has every family of the list, with or without samples. The
 * first failure is kept and returned at the end. Not thread-safe. */
#pragma once

#include "pipelined/metrics/metric_list.h"
#include "storage/base/buf.h"

#define PL_METRIC_TYPE_OPEN  "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define PL_METRIC_TYPE_PLAIN "text/plain; version=0.0.4; charset=utf-8"

struct pl_metric_text {
    struct pl_buf *out;
    bool plain;     /* Prometheus text 0.0.4 instead of OpenMetrics */
    unsigned begun; /* number of families whose header was written */
    int failed;
};

/* Adds one sample. `labels`: the values of the metric's labels, in their order; NULL for a metric without labels. */
void pl_metric_add(struct pl_metric_text *t, enum pl_metric metric, double value, const char *const *labels);
/* Adds a sample with one label, or without labels if `label` is NULL. */
void pl_metric_add_one(struct pl_metric_text *t, enum pl_metric metric, const char *label, double value);
/* Writes the remaining families and the end. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_metric_text_end(struct pl_metric_text *t, struct pl_err *err);

/* True if a client with this Accept header gets OpenMetrics: it names that format, or not the plain one. */
bool pl_metric_wants_open(const char *accept);

/* Appends the Markdown table of the metrics, for docs/metrics.md. */
PL_MUST_CHECK
int pl_metric_markdown(struct pl_buf *out, struct pl_err *err);
