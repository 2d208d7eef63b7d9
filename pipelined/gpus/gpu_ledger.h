/* gpu_ledger: sums up the time of GPUs from reports on their present state. A report counts until the next one.
 *
 *   report at t0 ──▶ state ──report at t1: state × (t1 − t0)──▶ sums of the open span ──minute is over──▶ span
 *
 * A span ends with its minute. While no GPU is held or measured busy, it goes on for up to PL_GPU_SPAN_IDLE_MINUTES, so
 * that GPUs at rest cost nothing. All sums are in GPU-milliseconds: 2 GPUs held for 3 s are 6000.
 *
 * A span as JSON: {"from_us", "to_us", "series": [{"node", "product", "slot"?, "capacity", "measured", "busy", "by":
 * [[project, stage, held, used, idle]…]}…]}. A series is one slot of a single machine, or the GPUs of one product of a
 * node. capacity: GPUs that could be held. measured: of that, time for which a driver or exporter measured the use; busy:
 * the part of `measured` in which it computed. held: a stage (project and stage "": something that is not ours) had it;
 * used: a datum of it ran there; idle: it was held and did nothing, that is, it was measured below PL_GPU_IDLE_PERCENT, or
 * where nothing measures it, no datum ran.
 *
 * Bounds: PL_GPU_SERIES_MAX series, PL_GPU_HOLDERS_MAX holders of one series in a span; further nodes share the series
 * with node "", further holders the one that is not ours. */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_GPU_SERIES_MAX        128
#define PL_GPU_HOLDERS_MAX       64
#define PL_GPU_SPAN_IDLE_MINUTES 10
#define PL_GPU_IDLE_PERCENT      5
/* a state that is older counts for no time: the machine slept, or its clock was set */
#define PL_GPU_STATE_MAX_US (20 * 60 * 1000000ll)

struct pl_gpu_ledger;

PL_MUST_CHECK
int pl_gpu_ledger_create(struct pl_gpu_ledger **ret, struct pl_err *err);
/* NULL is allowed; returns NULL. */
struct pl_gpu_ledger *pl_gpu_ledger_destroy(struct pl_gpu_ledger *l);
/* Takes a report at `now_us` (wall clock): {"gpus": [slots], "nodes": [rows]} (schema Gpus); if the report has slots, its
 * rows are not read. `*ret_changed` (may be NULL): which GPUs there are, who holds them or what runs on them has changed.
 * PL_ENOMEM: the report is not taken. */
PL_MUST_CHECK
int pl_gpu_ledger_see(struct pl_gpu_ledger *l, int64_t now_us, const json_t *report, bool *ret_changed, struct pl_err *err);
/* Returns the spans that have ended since the last call, a new reference; NULL if there are none or memory ran out. */
json_t *pl_gpu_ledger_take(struct pl_gpu_ledger *l);
/* Returns the span that goes on, up to the last report, a new reference; NULL if it is empty or memory ran out. */
json_t *pl_gpu_ledger_open(const struct pl_gpu_ledger *l);
/* Ends the span that goes on at `now_us`. */
void pl_gpu_ledger_end(struct pl_gpu_ledger *l, int64_t now_us);
/* Adds to each held slot of the report, and to each holder of its rows, "idle_since_us": since when it has been held and
 * done nothing, if it does nothing now. */
void pl_gpu_ledger_mark(const struct pl_gpu_ledger *l, json_t *report);
/* Present numbers of GPUs. */
struct pl_gpu_counts {
    double capacity, held, computing, idle;
};
struct pl_gpu_counts pl_gpu_ledger_counts(const struct pl_gpu_ledger *l);
