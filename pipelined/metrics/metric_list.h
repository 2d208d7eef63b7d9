/* metric_list: the metrics of GET /metrics, in the order of the text. docs/metrics.md has the same table; a test
 * compares the two.
 *
 * Labels: `project` and `stage` have at most PL_STAGE_ACTIVITY_MAX values at a time, and project="",
 * stage="other" for the rest (stage_activity.h). All other labels have the values of a fixed list. No label
 * holds a datum, run, user, worker, pod or node.
 *
 * Counters begin at 0 with each start of the daemon. A metric of a part that this daemon does not have (pods, a
 * bucket) has no samples. */
#pragma once

#include "storage/base/err.h"

enum pl_metric_type { PL_METRIC_GAUGE, PL_METRIC_COUNTER, PL_METRIC_INFO };

/*  X(ID, family, type, unit or "", labels separated by spaces, meaning) */
#define PL_METRIC_MAP(X)                                                                                                         \
    X(BUILD, "pipelined_build", INFO, "", "version executor", "Version and executor of the daemon.")                             \
    X(START_TIME, "pipelined_start_time_seconds", GAUGE, "seconds", "", "Unix time at which the daemon started.")                \
    X(RUNS, "pipelined_runs", GAUGE, "", "", "Unfinished runs.")                                                                 \
    X(JOBS, "pipelined_jobs", GAUGE, "", "state", "Unfinished jobs by state.")                                                   \
    X(JOBS_ENDED, "pipelined_jobs_ended", COUNTER, "", "state", "Jobs that ended, by their final state.")                        \
    X(DATUMS, "pipelined_datums", GAUGE, "", "state", "Datums of unfinished jobs that wait for a worker, or that a worker has.") \
    X(DATUMS_ENDED, "pipelined_datums_ended", COUNTER, "", "state",                                                              \
      "Attempts at datums that ended, by result; retry: the datum runs again; lost: with its worker.")                           \
    X(DATUMS_REUSED, "pipelined_datums_reused", COUNTER, "", "", "Datums whose earlier result was used again.")                  \
    X(TASKS, "pipelined_tasks", GAUGE, "", "state",                                                                              \
      "Leased tasks: assigned: the worker has not fetched it yet; held; recalled: the worker gives datums back.")                \
    X(WORKERS, "pipelined_workers", GAUGE, "", "state", "Worker processes or pods by state.")                                    \
    X(QUEUE_JOBS, "pipelined_queue_jobs", GAUGE, "", "", "Jobs that have not begun: no datum of theirs was leased yet.")         \
    X(QUEUE_AGE, "pipelined_queue_oldest_age_seconds", GAUGE, "seconds", "", "Time since the oldest of these jobs was created.") \
    X(PHASE, "pipelined_datum_phase_seconds", COUNTER, "seconds", "phase",                                                       \
      "Time that datums spent in each phase; phases of different datums overlap.")                                               \
    X(DATUM_BYTES, "pipelined_datum_bytes", COUNTER, "bytes", "direction", "Bytes that datums read (in) and wrote (out).")       \
    X(GPUS, "pipelined_gpus", GAUGE, "", "state",                                                                                \
      "GPUs: offered by this machine (not with pods); held by workers; used: by workers that have a task.")                      \
    X(GPU_SECONDS, "pipelined_gpu_seconds", COUNTER, "seconds", "use",                                                           \
      "GPU time of ended attempts: held by them; computing: the command ran; lost: held by lost attempts.")                      \
    X(STAGE_JOBS, "pipelined_stage_jobs", GAUGE, "", "project stage", "Unfinished jobs of the stage.")                           \
    X(STAGE_DATUMS, "pipelined_stage_datums", GAUGE, "", "project stage state", "As pipelined_datums, by stage.")                \
    X(STAGE_AGE, "pipelined_stage_oldest_age_seconds", GAUGE, "seconds", "project stage",                                        \
      "Time since the stage's oldest job that has not begun was created; 0: none waits.")                                        \
    X(STAGE_WORKERS, "pipelined_stage_workers", GAUGE, "", "project stage", "Worker processes or pods of the stage.")            \
    X(STAGE_ENDED, "pipelined_stage_datums_ended", COUNTER, "", "project stage state", "As pipelined_datums_ended, by stage.")   \
    X(STAGE_PHASE, "pipelined_stage_phase_seconds", COUNTER, "seconds", "project stage phase",                                   \
      "As pipelined_datum_phase_seconds, by stage.")                                                                             \
    X(STAGE_GPU_SECONDS, "pipelined_stage_gpu_seconds", COUNTER, "seconds", "project stage",                                     \
      "GPU time that the stage's ended attempts held.")                                                                          \
    X(KUBE_REQUESTS, "pipelined_kube_requests", COUNTER, "", "", "Requests to the Kubernetes API server, with repetitions.")     \
    X(KUBE_RETRIES, "pipelined_kube_retries", COUNTER, "", "", "Of these, repetitions of a request.")                            \
    X(KUBE_THROTTLED, "pipelined_kube_throttled", COUNTER, "", "", "Replies 429 of the Kubernetes API server.")                  \
    X(KUBE_CALLS, "pipelined_kube_calls", GAUGE, "", "state", "Calls to the Kubernetes API server that wait or run now.")        \
    X(TRANSFER, "pipelined_transfer_bytes", COUNTER, "bytes", "direction", "Bytes of packs that went through the API.")          \
    X(SIGNED_URLS, "pipelined_signed_urls", COUNTER, "", "method", "Presigned URLs given to clients and workers.")               \
    X(STORE_CALLS, "pipelined_store_calls", COUNTER, "", "operation result",                                                     \
      "Calls of the daemon to its store; refused: forbidden, wrong credentials, or busy.")                                       \
    X(STORE_REQUESTS, "pipelined_store_requests", COUNTER, "", "", "HTTP requests to the bucket, with repetitions.")             \
    X(STORE_RETRIES, "pipelined_store_retries", COUNTER, "", "", "Of these, repetitions of a request.")                          \
    X(STORE_REFUSALS, "pipelined_store_refusals", COUNTER, "", "kind",                                                           \
      "Replies of the bucket that refuse a request: forbidden (401, 403), busy (429, 503), error (other 5xx).")                  \
    X(LOG_POSITION, "pipelined_log_position_objects", GAUGE, "objects", "", "Number of the last object of the log.")             \
    X(LOG_CHECKPOINT_LAG, "pipelined_log_checkpoint_lag_objects", GAUGE, "objects", "",                                          \
      "Log objects after the newest checkpoint: what a recovery replays.")                                                       \
    X(LOG_QUEUE, "pipelined_log_queue_transactions", GAUGE, "transactions", "",                                                  \
      "Transactions that wait for the database's writer.")                                                                       \
    X(LOG_LAG, "pipelined_log_lag_seconds", GAUGE, "seconds", "", "Age of the oldest transaction that is not committed yet.")    \
    X(DISK_FREE, "pipelined_disk_free_bytes", GAUGE, "bytes", "", "Free space of the daemon's folder.")                          \
    X(LOOP_SLOW, "pipelined_loop_slow_turns", COUNTER, "", "", "Turns of the event loop that took too long.")                    \
    X(LOOP_LONGEST, "pipelined_loop_longest_turn_seconds", GAUGE, "seconds", "",                                                 \
      "Longest turn of the event loop since the start.")                                                                         \
    X(HTTP_REQUESTS, "pipelined_http_requests", COUNTER, "", "", "Requests to the API, with those of workers.")                  \
    X(HTTP_CONNECTIONS, "pipelined_http_connections", GAUGE, "", "", "Open connections to the API.")

enum pl_metric {
#define PL_METRIC_ENUM(id, ...) PL_METRIC_##id,
    PL_METRIC_MAP(PL_METRIC_ENUM)
#undef PL_METRIC_ENUM
        PL_METRICS
};

#define PL_METRIC_LABELS_MAX 3

struct pl_metric_rule {
    const char *family, *unit, *labels, *meaning;
    enum pl_metric_type type;
};
const struct pl_metric_rule *pl_metric_rule(enum pl_metric metric);
