/* gpu_history: merges spans of the ledger (gpu_ledger.h) into curves of `points` equal steps and sums over them. A span that
 * lies in several steps is shared out by time. All amounts are in GPU-milliseconds.
 *
 * Bounds: PL_GPU_HISTORY_POINTS_MAX steps, PL_GPU_HISTORY_SERIES_MAX series (a node or product that came later is left out
 * of the curves and counted in the total), PL_GPU_HISTORY_STAGES_MAX stages (others count as what is not ours). */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_GPU_HISTORY_POINTS_MAX 1440u
#define PL_GPU_HISTORY_SERIES_MAX 256u
#define PL_GPU_HISTORY_STAGES_MAX 64u

struct pl_gpu_history;

struct pl_gpu_history_config {
    int64_t from_us, to_us; /* from_us < to_us */
    unsigned points;        /* 1..PL_GPU_HISTORY_POINTS_MAX */
    /* True if the stage may be named; the time of others counts as that of what is not ours. NULL: all may be. */
    bool (*may_see)(const void *who, const char *project, const char *stage);
    const void *who;
};

PL_MUST_CHECK
int pl_gpu_history_create(const struct pl_gpu_history_config *config, struct pl_gpu_history **ret, struct pl_err *err);
/* NULL is allowed; returns NULL. */
struct pl_gpu_history *pl_gpu_history_destroy(struct pl_gpu_history *h);
static inline void pl_gpu_history_destroyp(struct pl_gpu_history **h)
{
    *h = pl_gpu_history_destroy(*h);
}
/* Adds the part of the span that lies between from_us and to_us. `series` is the list of the span's series; what is malformed
 * in it counts as 0. PL_ENOMEM. */
PL_MUST_CHECK
int pl_gpu_history_add(struct pl_gpu_history *h, int64_t from_us, int64_t to_us, const json_t *series, struct pl_err *err);
/* Returns the curves and sums, a new reference (schema GpuHistory of the API); NULL without memory. Series come by node,
 * product and slot, stages with the one that held most first. */
json_t *pl_gpu_history_json(const struct pl_gpu_history *h);
