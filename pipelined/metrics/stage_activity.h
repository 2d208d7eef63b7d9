/* stage_activity: counts what stages did. PL_STAGE_ACTIVITY_MAX stages have figures of their own; all others
 * share those of `rest`, so the number of labels stays bounded however many stages there are.
 *
 *   stage is active ──known, or a place is free──▶ its own place
 *          │ all places taken ──the one quiet for the longest time was quiet for PL_STAGE_ACTIVITY_QUIET_MS──▶ takes it
 *          └────────────────────otherwise──▶ rest
 *
 * Each amount is counted in one place only, and no figure falls: when a stage loses its place, its counters end,
 * and if it becomes active again later, they begin at 0. Sums of rates over all stages are therefore right.
 * Not thread-safe. */
#pragma once

#include "storage/base/err.h"
#include "storage/base/path.h"

#define PL_STAGE_ACTIVITY_MAX      50
#define PL_STAGE_ACTIVITY_QUIET_MS 600000

/* Sums over datums; times in ms. */
struct pl_stage_work {
    uint64_t success, failed, recovered, retry, lost; /* attempts, by result */
    uint64_t reused;
    uint64_t wait_ms, fetch_ms, compute_ms, upload_ms;
    uint64_t gpu_ms, gpu_compute_ms, gpu_lost_ms;
    uint64_t bytes_in, bytes_out;
};
void pl_stage_work_add(struct pl_stage_work *to, const struct pl_stage_work *w);

/* What the stage's unfinished jobs do now. */
struct pl_stage_now {
    uint64_t jobs, waiting, leased, workers;
    int64_t oldest_us; /* wall clock; creation of the oldest job that has not begun; 0 = none */
};

struct pl_stage_place {
    char project[PL_NAME_MAX_BYTES + 1], stage[PL_NAME_MAX_BYTES + 1];
    int64_t active_ms;
    struct pl_stage_work work;
    struct pl_stage_now now;
};

struct pl_stage_activity {
    size_t n;
    struct pl_stage_place places[PL_STAGE_ACTIVITY_MAX];
    struct pl_stage_place rest; /* project "", stage "other" */
};

/* Returns the place in which the stage is counted at `now_ms` (monotonic clock), and notes that it is active.
 * Valid until the next call. */
struct pl_stage_place *pl_stage_activity_at(struct pl_stage_activity *a, const char *project, const char *stage, int64_t now_ms);
/* Clears `now` of all places. */
void pl_stage_activity_clear_now(struct pl_stage_activity *a);
