/* run_timeline: what a worker did from its start to its end, as spans that follow each other without a gap, none narrower than
 * a pixel. Pure.
 *
 *   wait ─▶ start ─▶ ( idle ─▶ fetch ─▶ compute ─▶ upload )* ─▶ idle
 *
 * What overlaps is not shown twice: an input that was fetched while the datum before it computed is no `fetch`. Of a job only some
 * attempts are kept (table `attempt`); time of a worker of which nothing is kept is `work`. */
#pragma once

#include "storage/base/base.h"

#define PL_TIMELINE_PX_MAX 4000u
#define PL_TIMELINE_MAX_US (50ull * 365 * 86400 * 1000000) /* most time from the beginning of a view to its end */

enum pl_phase {
    PL_PHASE_WAIT,     /* its pod has no node */
    PL_PHASE_START,    /* its image is pulled, its process starts: it has no datum yet */
    PL_PHASE_FETCH,    /* it waits for inputs */
    PL_PHASE_COMPUTE,  /* the command runs */
    PL_PHASE_UPLOAD,   /* it waits for outputs to be sent */
    PL_PHASE_IDLE,     /* it has no datum */
    PL_PHASE_IDLE_GPU, /* the same, while it holds GPUs */
    PL_PHASE_WORK,     /* it has datums, nothing more is known */
    PL_PHASES
};
extern const char *const pl_phase_names[PL_PHASES];

struct pl_phase_span {
    int64_t from_us, to_us;
    enum pl_phase phase;
};

/* One attempt at a datum: when it began to hold the worker, for how long, and how long each part of it took. */
struct pl_attempt_times {
    int64_t from_us, held_us, wait_us, fetch_us, compute_us, upload_us;
};

/* One worker in one job. All times are wall clock. */
struct pl_worker_times {
    int64_t from_us, to_us;
    int64_t placed_us; /* when its pod got a node; 0 = it has none, or is no pod: from_us */
    bool unplaced;     /* it has no node yet */
    bool has_gpus;
    bool incomplete; /* of its attempts some are not kept */
    bool working;    /* it has a datum at `to_us` */
};

/* What is drawn. */
struct pl_timeline_view {
    int64_t from_us, to_us; /* from_us < to_us, no more than PL_TIMELINE_MAX_US apart */
    uint32_t px;            /* 1..PL_TIMELINE_PX_MAX */
};

/* Writes the spans of a worker within the view to `out`, which has room for view->px + 1; returns how many. `attempts` are the
 * kept ones, by from_us. `ms` gets the time of each phase within the view, before spans are merged. */
size_t pl_timeline_lane(const struct pl_worker_times *w, const struct pl_attempt_times *attempts, size_t n,
                        const struct pl_timeline_view *view, struct pl_phase_span *out, int64_t ms[PL_PHASES]);

/* Adds the spans of one worker to the numbers of workers, one for each pixel: `there` of all, `busy` of those that compute or
 * work. A worker counts where it is in the middle of the pixel. */
void pl_timeline_crowd_add(const struct pl_timeline_view *view, const struct pl_phase_span *spans, size_t n, uint32_t *there,
                           uint32_t *busy);
