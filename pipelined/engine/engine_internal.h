/* engine_internal: structs and functions that the engine's files share. engine.h describes the whole. */
#pragma once

#include "pipelined/db/tx/commit_tx.h"
#include "pipelined/db/tx/job_tx.h"
#include "pipelined/db/tx/rerun_branch.h"
#include "pipelined/engine/engine.h"
#include "pipelined/engine/worker_tokens.h"
#include "pipelined/merge/merge_incremental.h"
#include "pipelined/metrics/stage_activity.h"
#include "pipelined/plan/datum_table.h"
#include "pipelined/plan/plan.h"
#include "pipelined/sched/sched.h"
#include "storage/system/pool_turns.h"
#include "storage/system/trace.h"
#include <pthread.h>
#include <sys/queue.h>

/* most failed attempts, and also most successful attempts, of one job that table `attempt` keeps */
#define PL_JOB_ATTEMPTS_KEPT 1000
/* most rows of one job in table `job_worker`: so many of workers that were lost, and as many others */
#define PL_JOB_WORKERS_KEPT 1000
/* most workers of one job that are shown while they serve it */
#define PL_JOB_WORKERS_SHOWN 300
/* most datum tables that are searched for results to reuse: those of the base commit and of the 8 commits
 * before it */
#define PL_BASES_MAX    9
#define PL_LONG_POLL_MS 25000
/* most ended leases per worker that are kept, to be reported in the answer to the worker's next renewal.
 * Older ended leases are not kept: such a lease is reported when the worker tries to renew it */
#define PL_ENGINE_LOST_MAX 8
/* interval at which a worker's renewals extend the upload sessions of its leases: a third of a session's
 * lifetime */
#define PL_ENGINE_TOLD_US (300LL * 1000000)
/* interval at which the jobs' busy time is saved: at most this much of it is lost if the daemon crashes */
#define PL_BUSY_WRITE_MS 5000

/* One version of a stage; does not change once loaded. Reference-counted, any thread. */
struct pl_estage {
    _Atomic unsigned refs;
    uint64_t stage;   /* row id of the stage's output repo, the same for all versions of the stage */
    uint64_t version; /* row id of this version in table `stage` */
    uint64_t since;   /* order of the first run that gets a job of the stage */
    uint64_t pipeline_id;
    int64_t pipeline_version;
    char *project, *pipeline, *effective; /* effective definition: the stage as JSON, with all defaults */
    struct pl_spec *spec;                 /* a pipeline spec that contains only this stage */
    const struct pl_stage *def;
    struct pl_hash code_root, code_identity;
    json_t *git;
    /* input bytes of the largest datum that this stage has had since the daemon started; used on the loop
     * only */
    uint64_t datum_bytes;
};
struct pl_estage *pl_engine_stage_ref(struct pl_estage *s);
void pl_engine_stage_unref(struct pl_estage *s);

/* The result of one datum: from running its command now, or from an earlier commit's datum table. */
struct pl_eresult {
    bool reused;
    uint8_t run[PL_RUN_ID_BYTES];
    enum pl_datum_row_outputs outputs;
    uint8_t *ops; /* the output, if `outputs` is PL_ROW_INLINE: an ops stream (storage/tree_edit); owned */
    size_t ops_len;
    struct pl_hash root; /* root hash of the output, if `outputs` is PL_ROW_TREE */
};

/* The base commit of a job: the plan then contains only the datums that differ from it
 * (job_base_commit.c). */
struct pl_ebase {
    bool usable;
    struct pl_merge_incremental_roots roots; /* roots of the base commit */
    /* root hashes of the inputs over which the base commit was planned */
    struct pl_hash leaf_roots[PL_SPEC_LEAVES_MAX];
    size_t datums;
    bool same_expect; /* the base's output was checked against the same output.expect */
};

struct pl_etotals {
    uint64_t datums, planned, reused, done, failed, recovered, attempts;
    /* total time that datums spent in each phase; phases overlap */
    uint64_t wait_ms, fetch_ms, compute_ms, upload_ms;
    /* time for which the job held workers (held_ms) and GPUs (gpu_ms), whether they were computing, waiting
     * or moving data */
    uint64_t held_ms, gpu_ms;
    /* of these the time of leases that were lost with their workers, and how many datums were lost with them */
    uint64_t lost_ms, gpu_lost_ms, lost;
    /* time during which the job had a leased task, over all starts of the daemon */
    int64_t busy_ms;
    uint64_t bytes_in, bytes_out;
    uint64_t user_us, sys_us, max_rss_kb, oom;
    uint64_t gpus; /* largest number of GPUs of one worker */
    /* GPU use, multiplied by the number of GPUs: gpu_measured_ms: time for which the use was measured;
     * gpu_used_ms: busy time within that time; gpu_wait_ms: time in which no command ran. gpu_mem_peak:
     * largest GPU memory use of one worker, in bytes. */
    uint64_t gpu_measured_ms, gpu_used_ms, gpu_wait_ms, gpu_mem_peak;
};

/* Key of a row in table `result`. */
struct pl_result_key {
    int64_t job, id;
};

/* A set of a job's rows, as ascending ranges. */
struct pl_erow_set {
    struct pl_sched_range *items;
    size_t n;
    uint32_t count; /* of rows */
};

/* Rows of a job that failed in an earlier job and are not tried again, because the job's run retries other datums
 * (db/pipelines/rerun.h). They have ended before the job begins. Set by pl_job_plan; `kept` and `message` by
 * pl_job_untried_write. */
struct pl_euntried {
    json_t *ids;            /* {"failed": [datum id…], "recovered": [datum id…]}; NULL = the run leaves none out */
    char of[PL_ID_HEX + 1]; /* run of the earlier job */
    struct pl_erow_set all, failed, recovered;
    uint32_t kept; /* how many failed attempts the job has from the earlier job */
    char *message; /* of the first failed row; NULL = it is not known any more */
};

/* What subscribers were told last of an unfinished job, by an event with its state or with its datums. */
struct pl_job_told {
    bool told; /* they were told anything */
    bool owed; /* datums have ended since, which a "progress" event will say */
    bool planned;
    enum pl_sched_state state;
    uint64_t reason; /* hash of it */
    const json_t *warnings;
    int64_t started_us, datums; /* datums: that had ended, whatever way */
    int64_t at_ms;              /* monotonic */
};

/* One job. The loop owns it; `plan`, `inputs` and `stage` do not change once set, and work on the pool holds
 * a reference to the job. */
struct pl_ejob {
    _Atomic unsigned refs;
    struct pl_engine *engine;
    uint64_t id; /* id of the job in the scheduler */
    int64_t row; /* row id of the job in table `job`; 0 = not written yet */
    uint64_t order;
    char run[PL_ID_HEX + 1];
    struct pl_estage *stage;
    enum pl_sched_state state;
    char *reason;
    int64_t created_us, started_us;
    _Atomic bool over;   /* the job has ended, and its end was handed to the database */
    bool writing, dirty; /* `writing`: a write of its row is in progress; `dirty`: the row has changed since */
    struct pl_job_told told;

    json_t *inputs; /* the job's inputs, once it is planned: [{project, repo, branch, commit, name, root}] */
    json_t *warnings;
    char base[PL_ID_HEX + 1];
    /* the run's separate branch, valid once `planned` is set; aside.branch is "" if the run has no separate
     * branch */
    struct pl_rerun_branch aside;
    bool planned;
    bool forced; /* all datums run again, no result is reused; valid once `planned` is set */
    struct pl_ebase from;
    /* plan of all datums, or only of the datums that differ from the base commit that `from` describes */
    struct pl_plan *plan;
    /* maps the numbers of datums that must run (the scheduler's rows) to datum numbers in the plan */
    uint32_t *rows;
    uint32_t n_rows;
    char *no_datums; /* why the plan has no datums: the input without a match; NULL = it has some, or the reason is unknown */
    struct pl_hash *roots;          /* root hash of each input */
    char (*commits)[PL_ID_HEX + 1]; /* commit id of each input; "" = none */
    /* result of each datum of the plan; written on the loop, read by the commit when all results are there */
    struct pl_eresult *results;
    uint8_t *has_result; /* one flag per datum of the plan: its result is set */
    /* array of struct pl_result_key: results of earlier jobs that are deleted when the row of this planned
     * job is written */
    struct pl_buf stale;
    /* one flag per item of `rows`, only while the job is restored: the datum has ended or belongs to a
     * restored task */
    uint8_t *settled;
    /* history of each item of `rows`, only while the job is restored; NULL = no datum has failures or
     * losses */
    struct pl_erow_tried *tried;
    struct pl_euntried untried;
    struct pl_etotals totals;
    uint32_t good_kept, failed_kept, lost_kept; /* numbers of the job's rows in table `attempt` */
    LIST_HEAD(, service) services;              /* workers that serve it now (worker_record.c) */
    uint32_t next_result;                       /* id of the job's next row in table `result` */
    uint32_t next_metric;
};
struct pl_ejob *pl_engine_job_ref(struct pl_ejob *j);
void pl_engine_job_unref(struct pl_ejob *j);
void pl_engine_result_finish(struct pl_eresult *r);

/* Values of column `pod` of table `worker`. */
enum pl_pod_kind { PL_NO_POD, PL_POD_WITHOUT_GPU, PL_POD_WITH_GPU };

struct pl_eworker {
    uint64_t id;
    enum pl_pod_kind pod;
    struct pl_estage *stage;
    char incarnation[64];
    char run[PL_ID_HEX + 1]; /* the run for which it was started; "" = unknown */
    uint16_t gpus[PL_SCHED_WORKER_GPUS_MAX];
    uint32_t n_gpus;
    char host[128];
    bool network_off; /* started while the project's network was off (pl_engine_network_off) */
    bool stopping;
    bool attached; /* it has attached since the start of the daemon */
    /* pods only: the image in which its command runs, as the node resolved it; NULL = unknown so far */
    char *image;
    /* while the image is unknown: lowest row id of a job with an attempt of this worker; 0 = none */
    int64_t unnamed_since;
    struct pl_http_request *waiting; /* its open `next` request; NULL = none */
    /* deadline at which the open `next` is answered with "idle" */
    struct pl_timer *poll;
    struct pl_http_request *renewing; /* its open `renew` request; NULL = none */
    /* deadline at which the open `renew` is answered without anything to report */
    struct pl_timer *renewal;
    /* leases that ended since the worker's last renewal was answered */
    struct pl_sched_lease lost[PL_ENGINE_LOST_MAX];
    size_t n_lost;
    char *ready;         /* prepared answer (JSON text) to the worker's following `next` request; NULL = none */
    uint64_t ready_task; /* id of the task that the answer in `ready` leases */
    /* wall-clock time at which the upload sessions of its leases were last extended; 0 = never */
    int64_t told_us;
};

/* A leased task. Requests that carry results or logs find their job through it. */
struct pl_etask {
    uint64_t id, fence, worker;
    struct pl_ejob *job;
    uint32_t failures, losses;
    bool told; /* the answer with the task was sent to the worker */
    /* the worker must give back the datums that it has not begun. The request is repeated in the answer to
     * each renewal until a result of the task arrives */
    bool recalled;
};

struct pl_ending;    /* completion.c */
struct pl_egpus;     /* engine_gpus.c */
struct pl_later;     /* retry_queue.c */
struct pl_reshaping; /* engine_stages.c */

/* What was counted since the start, for /metrics (engine_metrics.c). Loop. */
struct pl_engine_count {
    uint64_t jobs_ended[PL_SCHED_STATES];
    struct pl_stage_work work; /* of all stages */
    struct pl_stage_activity stages;
};

struct pl_engine {
    struct pl_engine_config config;
    struct pl_executor *executor;
    struct pl_sched *sched;
    struct pl_timer *timer;
    struct pl_timer *progress; /* fires when subscribers are to be told of datums that ended (job_save.c) */
    /* the loop's own database reader. The loop must not wait for a shared reader, since a thread that holds
     * one may be waiting for the loop */
    struct pl_conn *conn;
    struct pl_map stages;  /* version (u64) → pl_estage */
    struct pl_map current; /* stage (u64) → pl_estage of the version that the scheduler uses now */
    struct pl_map jobs;    /* job id → pl_ejob, for unfinished jobs */
    struct pl_map by_key;  /* "run/project/stage" → pl_ejob */
    struct pl_map workers; /* worker id → pl_eworker */
    struct pl_map records; /* worker id → pl_worker_record, until its end is handed to the scheduler */
    struct pl_worker_doors *doors;
    struct pl_map tasks; /* task id → pl_etask */
    uint64_t last_order; /* order of the last run that was given to the scheduler */
    bool continuing;     /* a TICK for the scheduler is posted to the loop */
    int64_t busy_at_ms;  /* monotonic time at which busy times were last saved */
    /* ends of jobs and runs that are not written: they wait for earlier ends, or their write failed */
    struct pl_ending *endings;
    unsigned jobs_ending; /* number of ends of jobs that are being written */
    uint64_t endings_made;
    struct pl_timer *retry_timer;
    int64_t retry_ms;
    pthread_mutex_t later_mutex; /* guards `later` and `later_last` (retry_queue.c) */
    struct pl_later *later, *later_last;
    struct pl_timer *later_timer;
    struct pl_turns *turns; /* makes the slow work of one project run one piece at a time */
    /* total number of stage rows made in the database, as of the last update of the scheduler's stages */
    _Atomic int64_t stages_made;
    /* pass in progress that computes the stages' pod shapes again; NULL = none */
    struct pl_reshaping *reshaping;
    /* the settings changed during the pass `reshaping`: another pass must follow it */
    bool reshape_again;
    struct pl_engine_count count;
    struct pl_egpus *gpus; /* NULL = there are no GPUs, or the engine has not started */
    bool started, restoring;
    _Atomic bool failed; /* the engine makes no more decisions */
    /* requests of workers are no longer kept open, and API calls no longer use the loop */
    _Atomic bool hung_up;
    void (*drained)(void *arg);
    void *drained_arg;
    struct pl_http_route *routes;
    size_t n_routes;
};

/* ---- engine.c: feeding the scheduler ---- */
/* Passes one event to the scheduler and carries out the resulting actions. Returns the scheduler's error if
 * it refuses the event. Loop. */
int pl_engine_feed(struct pl_engine *e, struct pl_sched_event *ev, struct pl_err *err);
/* Stops the engine because it cannot continue correctly, most often for lack of memory: it decides nothing
 * more, and the daemon ends. The next start of the daemon resumes the work. Loop. */
void pl_engine_fail(struct pl_engine *e, const char *what);
/* Runs fn(arg) on the loop and waits for its end. PL_ESTOPPING: it was not called. Pool, without holding a
 * database reader. */
PL_MUST_CHECK
int pl_engine_call(struct pl_engine *e, pl_loop_fn fn, void *arg, struct pl_err *err);
/* Posts fn(arg) to the loop; it never runs within this call. Any thread. */
void pl_engine_post(struct pl_engine *e, const char *label, pl_loop_fn fn, void *arg);
struct pl_ejob *pl_engine_job(struct pl_engine *e, uint64_t id);
struct pl_ejob *pl_engine_job_by_key(struct pl_engine *e, const char *run, const char *project, const char *stage);
/* Creates a job and adds it to the engine's maps, which own it. */
PL_MUST_CHECK
int pl_engine_add_job(struct pl_engine *e, uint64_t id, uint64_t order, const char *run, struct pl_estage *stage,
                      struct pl_ejob **ret, struct pl_err *err);
/* Removes the job from the engine's maps. Work in progress holds its own reference to it. */
void pl_engine_forget_job(struct pl_engine *e, struct pl_ejob *j);

/* ---- engine_metrics.c: figures for /metrics ---- */
/* Counts a job that reached a final state, one that was planned with its reused results, and `n` attempts that
 * ended: `before` are the job's totals without them. Loop. */
enum pl_attempt_end {
    PL_ATTEMPT_SUCCESS,
    PL_ATTEMPT_RETRY, /* it failed, and the datum runs again */
    PL_ATTEMPT_FAILED,
    PL_ATTEMPT_RECOVERED,
    PL_ATTEMPT_LOST, /* with its worker */
};
void pl_engine_count_end(const struct pl_ejob *j);
void pl_engine_count_reused(const struct pl_ejob *j);
void pl_engine_count_attempts(const struct pl_ejob *j, const struct pl_etotals *before, enum pl_attempt_end end, uint64_t n);
/* Implements pl_engine_ops.metrics. */
struct pl_metric_text;
PL_MUST_CHECK
int pl_engine_metrics(void *self, struct pl_metric_text *t, struct pl_err *err);

/* ---- engine_gpus.c: who holds the GPUs, and their history ---- */
/* Returns the executor's report on its GPUs with the holder of each GPU, a new reference (schema Gpus). Loop. */
json_t *pl_engine_gpus_json(struct pl_engine *e);
/* Begins to record what GPUs do, if the executor has `slots` of its own or is a cluster. Loop. */
PL_MUST_CHECK
int pl_engine_gpus_start(struct pl_engine *e, uint32_t slots, struct pl_err *err);
/* Call it when workers may have got or given back GPUs: they are looked at soon. Loop. */
void pl_engine_gpus_touch(struct pl_engine *e);
/* Writes what was not written yet, and records no more. */
void pl_engine_gpus_end(struct pl_engine *e);
void pl_engine_gpus_finish(struct pl_engine *e);
/* Implement pl_engine_ops.queue and pl_engine_ops.gpu_spans. */
json_t *pl_engine_queue(void *self, const char *run, const char *project, const char *stage);
json_t *pl_engine_gpu_spans(void *self);

/* ---- job_save.c: rows of unfinished jobs ---- */
/* Writes the job's row to the database soon. Several changes may share one write. */
void pl_engine_job_changed(struct pl_ejob *j);
/* Creates and frees the timer that tells of progress. */
PL_MUST_CHECK
int pl_engine_progress_init(struct pl_engine *e, struct pl_err *err);
void pl_engine_progress_finish(struct pl_engine *e);
/* Writes again the rows of jobs whose last write failed. */
void pl_engine_write_dirty(struct pl_engine *e);
/* Saves for how long each job has had a leased task. The job timeout counts this time, also across a restart
 * of the daemon. */
void pl_engine_write_busy(struct pl_engine *e);
/* Fills `ret` with the values of the job's row; free them with pl_engine_job_args_done. Loop. */
void pl_engine_job_args(struct pl_ejob *j, struct pl_job_args *ret);
void pl_engine_job_args_done(struct pl_job_args *a);
/* Called when the worker gets a lease of the job: adds a warning to the job if its stage prefers a GPU and
 * the worker has none. Loop. */
void pl_engine_job_device(struct pl_ejob *j, const struct pl_eworker *w);

/* ---- retry_queue.c: work that a full queue refused is tried again shortly afterwards ---- */
/* Runs fn(arg) on the pool, possibly later. If the engine has failed, fn runs within this call; a
 * long-running fn must check for that. Any thread. */
void pl_engine_pool(struct pl_engine *e, pl_pool_fn fn, void *arg);
/* Like pl_engine_pool, for work that may take long: the work of one project runs one piece at a time
 * (storage/system/pool_turns.h). `project` must live as long as `arg`. */
void pl_engine_pool_slow(struct pl_engine *e, const char *project, pl_pool_fn fn, void *arg);
/* Submits a transaction like pl_db_submit, but waits if the database's queue is full. Calls `done` exactly
 * once; within this call if the database is closed. Any thread. */
void pl_engine_submit(struct pl_engine *e, enum pl_tx_class class, pl_tx_fn fn, pl_tx_done done, void *arg);
PL_MUST_CHECK
int pl_engine_retry_queue_init(struct pl_engine *e, struct pl_err *err);
/* Called after the engine has failed: completes all queued work now, with an error. */
void pl_engine_retry_queue_flush(struct pl_engine *e);
void pl_engine_retry_queue_finish(struct pl_engine *e);

/* ---- completion.c: ends of jobs and runs, written in order and retried until written ---- */
PL_MUST_CHECK
int pl_engine_completion_init(struct pl_engine *e, struct pl_err *err);
void pl_engine_completion_finish(struct pl_engine *e);
void pl_engine_end_job(struct pl_ejob *j);
/* Called when the job's end is in the database: seals the job's log, so that clients that follow the log are
 * woken and see its end. */
void pl_engine_job_ended(struct pl_ejob *j);
/* Writes the end of the run that an action RUN_STATE with a final state reports. */
void pl_engine_end_run(struct pl_engine *e, const struct pl_sched_action *a);
/* Writes again, after a growing pause, the ends and the changed rows of jobs whose write failed. Loop. */
void pl_engine_retry(struct pl_engine *e);
/* Calls fn(arg, 0, …) on the loop when all ends that were handed over before are in the database. If the
 * database is closed or the engine is destroyed, r < 0. fn never runs within this call, except while the
 * engine is destroyed. Loop. */
void pl_engine_after_completion(struct pl_engine *e, void (*fn)(void *arg, int r, const struct pl_err *err), void *arg);

/* ---- engine_stages.c ---- */
/* Loads a stage version from the database; the caller unrefs it. Any thread that has a connection.
 * PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_engine_stage_load(struct pl_conn *c, uint64_t version, struct pl_estage **ret, struct pl_err *err);
/* Finds a stage version by its row id, and loads it if needed. The result is borrowed. Loop; the database
 * read is a short look-up by key. */
PL_MUST_CHECK
int pl_engine_stage(struct pl_engine *e, uint64_t version, struct pl_estage **ret, struct pl_err *err);
/* Load the current stage versions with row ids above `after`, and hand them to the engine. Loading runs on a
 * pool thread, because a large pipeline would hold up the loop. The loaded list belongs to the caller, also
 * after an error, until pl_engine_take_stages (loop) frees it. */
PL_MUST_CHECK
int pl_engine_load_stages(struct pl_engine *e, int64_t after, struct pl_estage ***ret, size_t *ret_n, struct pl_err *err);
void pl_engine_take_stages(struct pl_engine *e, struct pl_estage **list, size_t n);
/* Finds the id of the shape of the stage's pods, with or without its GPUs; 0 if workers are processes.
 * Loop. */
PL_MUST_CHECK
int pl_engine_shape(struct pl_engine *e, const struct pl_estage *s, bool gpu, uint64_t *ret, struct pl_err *err);
/* The settings from which pods are made have changed: tells the scheduler the new shapes of each stage, a few
 * stages per turn of the loop. Only one pass runs at a time; a call during a pass starts another one after
 * it. Loop. */
void pl_engine_reshape(struct pl_engine *e);
/* Returns true if the project's network is off, so that its stages get no network even if they request it;
 * also true if the setting cannot be read. Loop. */
bool pl_engine_network_off(struct pl_engine *e, const char *project);
/* Called after the project's network setting may have changed: retires workers that were started with the
 * other setting, and has pod shapes computed again. `project` NULL: checks all workers, at the start.
 * Loop. */
void pl_engine_network_changed(struct pl_engine *e, const char *project);
/* Gives a stage version to the scheduler, as the stage's current version. */
PL_MUST_CHECK
int pl_engine_stage_set(struct pl_engine *e, struct pl_estage *s, struct pl_err *err);
/* Gives stage versions (row ids, ascending) to the scheduler, in an order in which no new version forms a
 * cycle with an old version that is replaced later. A version that the scheduler refuses is logged. */
PL_MUST_CHECK
int pl_engine_set_versions(struct pl_engine *e, const uint64_t *versions, size_t n, struct pl_err *err);
/* Makes the scheduler's stages equal to the current stages in the database: sets new versions, and removes
 * stages (not while restoring). */
PL_MUST_CHECK
int pl_engine_sync_stages(struct pl_engine *e, struct pl_err *err);
/* Returns the total number of stage rows ever made in the database; it rises with every pipeline that is
 * created or updated. */
PL_MUST_CHECK
int pl_engine_stages_made(struct pl_engine *e, int64_t *ret, struct pl_err *err);
/* Returns the scheduler's number of a branch. */
struct pl_sched_head pl_engine_head(const char *project, const char *repo, const char *branch);

/* ---- engine_restore.c ---- */
PL_MUST_CHECK
int pl_engine_restore(struct pl_engine *e, struct pl_err *err);
/* Gives the scheduler the database's runs that it does not have yet, in order. */
PL_MUST_CHECK
int pl_engine_new_runs(struct pl_engine *e, struct pl_err *err);

/* ---- job_plan.c ---- */
/* Makes the job's plan: finds its inputs, enumerates its datums, finds results to reuse. Sets the job's plan,
 * rows, roots, commits, inputs, base, and the results of reused datums. A restored job has its `inputs` and
 * its base commit already: it is planned again from the same commits and the same base commit. `conn` NULL:
 * takes one of the pool's readers; the loop passes its own reader, because all of the pool's readers may be
 * held by threads that wait for the loop. On the pool, or at the start. */
PL_MUST_CHECK
int pl_job_plan(struct pl_ejob *j, struct pl_conn *conn, struct pl_err *err);
/* Discards the job's plan, but keeps its inputs and base. */
void pl_job_unplan(struct pl_ejob *j);
/* Enumerates the job's datums: those that differ from the commit `base`, or all if `base` is NULL. Any
 * thread. */
PL_MUST_CHECK
int pl_job_enumerate(const struct pl_ejob *j, const struct pl_ebase *base, struct pl_plan **ret, struct pl_err *err);
/* Returns the branch to which the job's output goes, once it is planned. */
const char *pl_job_branch(const struct pl_ejob *j);
/* Marks the job as planned, after pl_job_plan: from now on the loop may read the plan. Loop. */
void pl_job_planned(struct pl_ejob *j);
/* Carries out action PLAN. */
void pl_engine_plan(struct pl_engine *e, struct pl_ejob *j);

/* ---- job_base_commit.c ---- */
/* Decides whether the job can be planned from the commit `base`. Fills j->from except `datums`. If it cannot,
 * sets from.usable to false and returns 0. */
PL_MUST_CHECK
int pl_job_find_base(struct pl_ejob *j, struct pl_conn *c, const struct pl_commit_row *base, struct pl_err *err);
/* Called after pl_job_find_base: reads the number of datums of the base commit from the store. */
PL_MUST_CHECK
int pl_job_read_base(struct pl_ejob *j, const struct pl_node_source *source, struct pl_err *err);

/* ---- job_full_plan.c ---- */
/* The plan and the results of all datums of a job. */
struct pl_ewhole {
    const struct pl_plan *plan;
    const struct pl_eresult *results;
    const uint8_t *has_result;
    struct pl_plan *own_plan; /* owned, as are the fields below; NULL if the job's own plan is complete */
    struct pl_eresult *own_results;
    uint8_t *own_has_result;
    struct pl_arena *arena;
};
/* Makes the full plan of a job that was planned from a base commit: enumerates all datums, and copies from
 * the base's datum table the results that the job's plan lacks. */
PL_MUST_CHECK
int pl_job_full_plan(const struct pl_ejob *j, const struct pl_node_source *source, struct pl_ewhole *ret, struct pl_err *err);
void pl_job_full_plan_finish(struct pl_ewhole *w);

/* ---- job_commit.c ---- */
void pl_engine_commit(struct pl_engine *e, struct pl_ejob *j);

/* ---- job_results.c ---- */
/* Parses the output of one successful datum of a RESULT, as the worker sent it: {"index", "state",
 * "output"…}. */
PL_MUST_CHECK
int pl_result_of_json(const json_t *row, const char *run, struct pl_eresult *ret, struct pl_err *err);
void pl_totals_add(struct pl_etotals *t, const json_t *row);
/* Returns the reason why a datum failed; if its command failed, with the last line that the command printed.
 * The text lives as long as `row` and the arena. */
const char *pl_result_message(const json_t *row, struct pl_arena *arena);
/* Fills in the results of a restored job from table `result`. */
PL_MUST_CHECK
int pl_job_load_results(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Sets the results of datums in j->rows (sorted by datum key) from results of earlier jobs of the stage that
 * failed or were killed. Considers only jobs after the stage's last successful job. Reads table `result` row
 * by row: loading it whole could take much memory for datums that no longer exist. */
PL_MUST_CHECK
int pl_kept_results(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Deletes the results listed in j->stale. Results of the stage's last PL_KEPT_JOBS_ALL failed or killed jobs
 * are always kept; results of older jobs are kept only while the newest plan uses them. */
#define PL_KEPT_JOBS_ALL 64
PL_MUST_CHECK
int pl_kept_drop_stale(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Handles the results in the body of a `next` request: passes them to the scheduler, writes them to the database,
 * then calls done(arg) on the loop. */
void pl_engine_results(struct pl_engine *e, struct pl_eworker *w, const json_t *body, void (*done)(void *arg), void *arg);
/* Carries out action RESULT, while the step runs in which pl_engine_results passed the result to the
 * scheduler. */
void pl_engine_result_action(struct pl_engine *e, const struct pl_sched_action *a);

/* ---- attempt_row.c: rows of table `attempt` ---- */
/* Which attempt at a datum it was, and which worker made it. */
struct pl_attempt_source {
    uint32_t attempt;
    uint64_t fence, worker;
    const char *pod;    /* name of the worker's pod, "" = not known (any more); NULL = the worker was no pod */
    int64_t started_us; /* wall clock; since when the worker was held for it; 0 = not known, or never */
};
/* Makes the row of an attempt at datum number `datum` of the plan: {"datum", "paths", "attempt", "fence", "row": the
 * outcome as the worker sends it, "worker", "pod"?, "started_us"?}, a new reference, to which the caller may add "image_id". */
json_t *pl_attempt_row_make(const struct pl_ejob *j, size_t datum, const struct pl_attempt_source *source, json_t *outcome);
/* Writes the row. Call it within a transaction. */
PL_MUST_CHECK
int pl_attempt_row_write(struct pl_conn *c, int64_t job, const json_t *a, int64_t now_us, struct pl_err *err);

/* ---- job_attempts.c ---- */
enum pl_tried_state { PL_TRIED_WAITING, PL_TRIED_FAILED, PL_TRIED_RECOVERED };
/* A record of the attempts and losses of a set of datums of one job. If several records name a datum, the
 * newest record is valid. */
struct pl_etried {
    char *rows; /* row numbers as JSON text, in the form that pl_ranges_text writes */
    uint32_t failures, losses;
    enum pl_tried_state state;
    char *reason; /* reason of the first datum, if it failed; may be NULL */
};
void pl_job_attempts_finish(struct pl_etried *t);
/* Writes the record for the job whose row id is `job`, unless the job has ended. Call it within a
 * transaction. */
PL_MUST_CHECK
int pl_job_attempts_write(struct pl_conn *c, int64_t job, const struct pl_etried *t, struct pl_err *err);
/* Convert ranges of row numbers to JSON text, [[lo, hi]…], and back. The text is malloc'ed, NULL without
 * memory; the caller frees *ret. PL_ENOMEM. */
char *pl_ranges_text(const struct pl_sched_range *ranges, size_t n);
PL_MUST_CHECK
int pl_ranges_parse(const json_t *list, struct pl_sched_range **ret, size_t *ret_n, struct pl_err *err);
/* Carries out action RETURNED: ends the lease (pl_engine_drop_task) and deletes its row in the database,
 * since its datums may be leased anew. */
void pl_engine_return_task(struct pl_engine *e, const struct pl_sched_action *a);
/* Carries out action GIVE_UP: records the datums as failed. */
void pl_engine_give_up(struct pl_engine *e, const struct pl_sched_action *a);
/* Called for a restored job after its datums with results were marked as settled. Marks the datums that ended
 * without a result as settled too, and sets the fields failed, first_failed and tried of `ev`. Texts and
 * lists belong to the arena. */
PL_MUST_CHECK
int pl_job_attempts_load(struct pl_ejob *j, struct pl_conn *c, struct pl_arena *arena, struct pl_sched_event *ev,
                         struct pl_err *err);
/* Returns true if the datum with number `row` of a restored job has exactly this number of failures and
 * losses. A stored lease with other numbers is not the newest lease of the datum. */
bool pl_job_attempts_of_row(const struct pl_ejob *j, uint32_t row, uint32_t failures, uint32_t losses);
/* Reads from the run's row which datums of the job it leaves untried. */
PL_MUST_CHECK
int pl_job_untried_read(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Finds the rows of these datums, once the job's rows are listed. */
PL_MUST_CHECK
int pl_job_untried_find(struct pl_ejob *j, struct pl_err *err);
/* Records that these rows have ended, and copies their attempts from the earlier job, so that the new job says why they
 * failed. `job` is the job's row id. Call it within the transaction that writes the plan. */
PL_MUST_CHECK
int pl_job_untried_write(struct pl_ejob *j, struct pl_conn *c, int64_t job, struct pl_err *err);
void pl_job_untried_finish(struct pl_euntried *u);
/* Deletes the job's records of attempts and losses, because the job is planned again and its datums get other
 * row numbers. Waits for the database. */
PL_MUST_CHECK
int pl_job_attempts_forget(struct pl_ejob *j, struct pl_err *err);

/* ---- worker_record.c: the history of workers. Loop ---- */
/* Begins the record of a worker that was started, or restored: `started_us` by the wall clock. `j` is the job for which
 * it was started; NULL = unknown. Without memory the worker is not recorded. */
void pl_worker_record_begin(struct pl_engine *e, const struct pl_eworker *w, struct pl_ejob *j, int64_t started_us);
/* A node accepted the worker's pod. */
void pl_worker_record_placed(struct pl_engine *e, uint64_t worker, const char *node);
/* The worker was given a task of the job, at that time by the wall clock. */
void pl_worker_record_leased(struct pl_engine *e, uint64_t worker, struct pl_ejob *j, int64_t since_us);
/* The worker reported results: its time until now is in the job's totals. */
void pl_worker_record_reported(struct pl_engine *e, uint64_t worker);
/* The worker gave back a datum whose command it had started; it was held for `ms` for that, which count as lost. Returns
 * what is known of the attempt, as pl_worker_record_lost does; the reason is as far as it is known before the worker's
 * end. `leaving`: the worker said that it ends. */
json_t *pl_worker_record_given_back(struct pl_engine *e, uint64_t worker, bool leaving, struct pl_ejob *j, int64_t ms);
/* The worker holds one task less. */
void pl_worker_record_released(struct pl_engine *e, uint64_t worker);
/* The lease of action RETURNED or GIVE_UP ended with its worker. If it was lost, adds the time since the worker's last
 * report to the job's totals, because no report of it will come. Returns what is known of the attempt: {"reason", "node",
 * "worker", "pod"?, "gpus", "ms": {"held"}}, a new reference; NULL if there is no record of the worker. */
json_t *pl_worker_record_lost(struct pl_engine *e, const struct pl_sched_action *a, struct pl_ejob *j);
/* Returns the name of the worker's pod; "" if it has none. */
const char *pl_worker_record_pod(struct pl_engine *e, uint64_t worker);
/* Writes the worker's pod and node, "pod P, node N" or "node N"; "" if they are not known. */
#define PL_WORKER_WHERE_BYTES 224
void pl_worker_record_where(struct pl_engine *e, uint64_t worker, char out[PL_WORKER_WHERE_BYTES]);
/* The cluster takes the worker's pod away, which still runs; `why` "": it does not any more. */
void pl_worker_record_leaves(struct pl_engine *e, uint64_t worker, const char *why);
/* The worker was told to end (told), or has ended (ended: `text` as the executor says it). Only the first reason counts. */
void pl_worker_record_told(struct pl_engine *e, uint64_t worker, bool kill, const char *reason);
void pl_worker_record_ended(struct pl_engine *e, uint64_t worker, bool attached, const struct pl_executor_end *end);
/* The scheduler knows of the worker's end: logs it, writes the rows of the jobs that it served, and ends the record. A
 * worker whose pod was never made is neither lost nor has it served a job. */
void pl_worker_record_finish(struct pl_engine *e, uint64_t worker);
/* Tells the cluster's operators by the executor's `tell`, if it has one. */
void pl_engine_tell(const struct pl_engine *e, const char *reason, const char *fmt, ...) PL_PRINTF(3, 4);
/* The job has ended: writes the rows of the workers that serve it. */
void pl_worker_records_job_over(struct pl_ejob *j);
/* Everything is restored: workers without a task serve the first unfinished job of their stage version. Finds in the
 * database since when workers serve their jobs, and how many tasks they had. */
PL_MUST_CHECK
int pl_worker_records_restored(struct pl_engine *e, struct pl_err *err);
/* Returns the workers that serve the job now, as JobWorker of the API, at most PL_JOB_WORKERS_SHOWN. */
json_t *pl_worker_records_json(const struct pl_ejob *j);
void pl_worker_record_free(void *record);

/* ---- workers.c ---- */
void pl_engine_start_worker(struct pl_engine *e, const struct pl_sched_action *a);
void pl_engine_stop_worker(struct pl_engine *e, const struct pl_sched_action *a);
struct pl_eworker *pl_engine_worker(struct pl_engine *e, uint64_t id);
PL_MUST_CHECK
int pl_engine_add_worker(struct pl_engine *e, uint64_t id, struct pl_estage *stage, const uint16_t *gpus, size_t n_gpus,
                         struct pl_eworker **ret, struct pl_err *err);
void pl_engine_worker_free(void *worker);
#define PL_WORKER_TOKEN_BYTES 192
/* Texts to which a worker's spec points. pl_engine_worker_spec fills `ret` except for the CPU, the memory and
 * the nodes to avoid, which the scheduler assigns; `ret` borrows from the worker and from `texts`. */
struct pl_engine_worker_texts {
    char name[32], token[PL_WORKER_TOKEN_BYTES];
};
void pl_engine_worker_spec(const struct pl_engine *e, const struct pl_eworker *w, struct pl_engine_worker_texts *texts,
                           struct pl_worker_spec *ret);
/* Writes the worker's database row after it attached; calls `done` as pl_db_submit does, also if the
 * submission failed. */
void pl_engine_worker_attached_row(struct pl_engine *e, const struct pl_eworker *w, pl_tx_done done, void *arg);
/* Writes the token with which the worker is started. */
void pl_engine_worker_token(const struct pl_engine *e, uint64_t id, char out[PL_WORKER_TOKEN_BYTES]);
/* Returns true if a worker may exchange its token under this incarnation (its own random id): the id is long
 * enough that no other process can guess it. */
bool pl_engine_incarnation_ok(const char *incarnation);
/* Exchanges the worker's first token for one that is valid for this start of the worker. PL_EFORBIDDEN:
 * another start has exchanged it. */
PL_MUST_CHECK
int pl_engine_exchange_token(struct pl_engine *e, uint64_t id, const char *incarnation, char out[PL_WORKER_TOKEN_BYTES],
                             struct pl_err *err);
/* Implements pl_engine_ops.worker. */
int pl_engine_worker_principal(void *self, const char *token, struct pl_principal **ret, struct pl_err *err);
/* Answers the worker's open `next` request; without one, keeps the answer for the worker's following request.
 * Takes ownership of `answer` (JSON text). `task`: id of the task in the answer; 0 = none. */
void pl_engine_answer(struct pl_eworker *w, char *answer, uint64_t task);
/* Discards the answer that is kept for the worker. */
void pl_engine_worker_drop_ready(struct pl_eworker *w);
/* Carries out action LEASE: writes the lease to the database, then answers the worker. */
void pl_engine_lease(struct pl_engine *e, const struct pl_sched_action *a);
/* Ends a lease. If the worker was told of the task, the answer to its open or next renewal reports the end of
 * the lease; otherwise the task is never sent. */
void pl_engine_drop_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence);
/* Ends a lease like pl_engine_drop_task, but reports nothing, because the worker itself handed in the last
 * result. */
void pl_engine_end_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence);
/* Carries out action RECALL: asks the worker to give datums back. */
void pl_engine_recall_task(struct pl_engine *e, const struct pl_sched_action *a);
void pl_etask_free(void *task);

/* ---- datum_checkpoints.c ---- */
/* Stores the checkpoint that a worker reported for a datum, and answers `req`. Loop. */
void pl_engine_checkpoint(struct pl_engine *e, struct pl_http_request *req, struct pl_ejob *job, uint32_t row,
                          const struct pl_hash *root);
/* Returns the root hash (hex) of the datum's checkpoint, if an earlier attempt stored it at `since_us` (wall
 * clock) or later; else NULL. Pool. */
json_t *pl_checkpoint_json(const struct pl_ejob *job, const struct pl_hash *key, int64_t since_us);
/* Deletes the checkpoints of datums that succeeded. `rows` lists them: [[row number, result as the worker
 * sent it, datum key]…]. */
PL_MUST_CHECK
int pl_checkpoints_drop(const struct pl_ejob *job, struct pl_conn *c, const json_t *rows, struct pl_err *err);

/* ---- loss_log.c ---- */
/* Call it after text was appended to the job's log: if the job has ended meanwhile, its log was sealed before, and is
 * sealed again with the text. `r`: result of the append, which is returned if it is an error. Pool. */
PL_MUST_CHECK
int pl_engine_log_appended(const struct pl_ejob *j, int r, struct pl_err *err);
/* Called for an action RETURNED: if the datums were lost with their worker, adds the reason to what they have
 * printed. */
void pl_engine_log_loss(struct pl_engine *e, const struct pl_sched_action *a);
/* Adds the reason to what a datum has printed that its worker gave back after it had started the command. */
void pl_engine_log_given_back(struct pl_ejob *j, uint64_t worker, uint64_t fence, size_t datum, const char *why);

/* ---- worker_api.c ---- */
/* Answers the worker's open renewal, if there is one, with the worker's ended leases, whether it should stop,
 * and `recalled`: the id of a recalled task (0 = none). */
void pl_eworker_tell(struct pl_eworker *w, uint64_t recalled);
PL_MUST_CHECK
int pl_engine_make_routes(struct pl_engine *e, struct pl_err *err);
