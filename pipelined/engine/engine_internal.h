/* engine_internal: structs and functions that the engine's files share. engine.h describes the whole. */
#pragma once

#include "pipelined/db/tx/commit_tx.h"
#include "pipelined/db/tx/job_tx.h"
#include "pipelined/db/tx/rerun_branch.h"
#include "pipelined/engine/engine.h"
#include "pipelined/engine/worker_tokens.h"
#include "pipelined/merge/merge_incremental.h"
#include "pipelined/plan/datum_table.h"
#include "pipelined/plan/plan.h"
#include "pipelined/sched/sched.h"
#include "storage/system/pool_turns.h"
#include "storage/system/trace.h"
#include <pthread.h>

/* rows of `attempt` kept per job: this many failed attempts, and this many successful ones */
#define PL_JOB_ATTEMPTS_KEPT 1000
/* datum tables searched for results to reuse: the base's and those of the 8 commits before it */
#define PL_BASES_MAX    9
#define PL_LONG_POLL_MS 25000
/* ended leases to report with the next renewal. Older ones are reported when the worker names them */
#define PL_ENGINE_LOST_MAX 8
/* interval at which a worker's renewals extend the sessions of its leases: a third of a session's life */
#define PL_ENGINE_TOLD_US (300LL * 1000000)
/* interval of saving the jobs' busy time: how much a crash of the daemon may lose */
#define PL_BUSY_WRITE_MS 5000

/* One version of a stage; does not change once loaded. Reference-counted, any thread. */
struct pl_estage {
    _Atomic unsigned refs;
    uint64_t stage;   /* row id of its output repo, the same for all versions */
    uint64_t version; /* row id in table `stage` */
    uint64_t since;   /* order of the first run that gets a job of the stage */
    uint64_t pipeline_id;
    int64_t pipeline_version;
    char *project, *pipeline, *effective; /* effective: the stage as JSON, with all defaults */
    struct pl_spec *spec;                 /* a spec with only this stage */
    const struct pl_stage *def;
    struct pl_hash code_root, code_identity;
    json_t *git;
    uint64_t datum_bytes; /* input bytes of the largest datum since the daemon started; loop only */
};
struct pl_estage *pl_engine_stage_ref(struct pl_estage *s);
void pl_engine_stage_unref(struct pl_estage *s);

/* The result of a datum: from running it now, or from an earlier commit's datum table. */
struct pl_eresult {
    bool reused;
    uint8_t run[PL_RUN_ID_BYTES];
    enum pl_datum_row_outputs outputs;
    uint8_t *ops; /* if INLINE: the ops stream; owned */
    size_t ops_len;
    struct pl_hash root; /* if TREE: the root */
};

/* The base commit from which a job can be planned incrementally (job_base_commit.c). */
struct pl_ebase {
    bool usable;
    struct pl_merge_incremental_roots roots;       /* roots of the base commit */
    struct pl_hash leaf_roots[PL_SPEC_LEAVES_MAX]; /* roots of the inputs over which the base was planned */
    size_t datums;
    bool same_expect; /* the base was checked against the same output.expect */
};

struct pl_etotals {
    uint64_t datums, planned, reused, done, failed, recovered, attempts;
    uint64_t wait_ms, fetch_ms, compute_ms, upload_ms; /* time spent in each phase; phases overlap */
    /* time of workers and of GPUs: computing, waiting or moving data */
    uint64_t held_ms, gpu_ms;
    /* time with a leased task, over all starts of the daemon */
    int64_t busy_ms;
    uint64_t bytes_in, bytes_out;
    uint64_t user_us, sys_us, max_rss_kb, oom;
    uint64_t gpus; /* most GPUs of one worker */
    /* GPU use, multiplied by the number of GPUs: time that was measured, busy time within it, and time in
     * which no command ran. gpu_mem_peak: most memory used on one worker, in bytes. */
    uint64_t gpu_measured_ms, gpu_used_ms, gpu_wait_ms, gpu_mem_peak;
};

/* Key of a row in table `result`. */
struct pl_result_key {
    int64_t job, id;
};

/* One job. The loop owns it; plan, inputs and stage do not change once made, and work on the pool holds a
 * reference. */
struct pl_ejob {
    _Atomic unsigned refs;
    struct pl_engine *engine;
    uint64_t id; /* the scheduler's id */
    int64_t row; /* row id in table `job`; 0 = not written yet */
    uint64_t order;
    char run[PL_ID_HEX + 1];
    struct pl_estage *stage;
    enum pl_sched_state state;
    char *reason;
    int64_t created_us, started_us;
    _Atomic bool over;   /* the job has ended, and its end was handed to the database */
    bool writing, dirty; /* a write of its row is in progress; the row has changed since */

    json_t *inputs; /* [{project, repo, branch, commit, name, root}], once planned */
    json_t *warnings;
    char base[PL_ID_HEX + 1];
    /* the run's separate branch, known once planned; its `branch` is "" if the run has none */
    struct pl_rerun_branch aside;
    bool planned;
    bool forced; /* every datum runs again and nothing is reused; known once planned */
    struct pl_ebase from;
    /* the full plan, or only the datums that differ from the base; `from` describes the rest */
    struct pl_plan *plan;
    uint32_t *rows; /* array: row number → datum number */
    uint32_t n_rows;
    struct pl_hash *roots;          /* one per input */
    char (*commits)[PL_ID_HEX + 1]; /* one per input; "" = none */
    /* one per datum of the plan; written on the loop, read by the commit when all are there */
    struct pl_eresult *results;
    uint8_t *has_result; /* one flag per datum of the plan */
    /* array of struct pl_result_key: results of earlier jobs that are deleted when the plan's row is
     * written */
    struct pl_buf stale;
    /* one flag per row, while the job is restored: the row has ended or belongs to a restored task */
    uint8_t *settled;
    /* one per row, while the job is restored; NULL = no row has failures or losses */
    struct pl_erow_tried *tried;
    struct pl_etotals totals;
    uint32_t good_kept, failed_kept; /* number of rows in table `attempt` */
    uint32_t next_result;            /* id of the next row in table `result` */
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
    uint16_t gpus[PL_SCHED_WORKER_GPUS_MAX];
    uint32_t n_gpus;
    char host[128];
    bool network_off; /* started with the network off (pl_engine_network_off) */
    bool stopping, attached;
    /* of a pod: the image that its command runs in, as the node resolved it; NULL = unknown so far */
    char *image;
    /* while the image is unknown: lowest row id of a job with an attempt of this worker; 0 = none */
    int64_t unnamed_since;
    struct pl_http_request *waiting; /* its open `next` request */
    /* deadline at which the open `next` is answered with "idle" */
    struct pl_timer *poll;
    struct pl_http_request *renewing; /* its open `renew` request */
    /* deadline at which the open `renew` is answered with nothing to report */
    struct pl_timer *renewal;
    /* leases that ended since the last renewal was answered */
    struct pl_sched_lease lost[PL_ENGINE_LOST_MAX];
    size_t n_lost;
    char *ready;         /* prepared answer (JSON text) for its following `next` request; NULL = none */
    uint64_t ready_task; /* id of the task in `ready` */
    int64_t told_us;     /* wall-clock time when the sessions of its leases were last extended; 0 = never */
};

/* A leased task; requests with results and logs find their job through it. */
struct pl_etask {
    uint64_t id, fence, worker;
    struct pl_ejob *job;
    uint32_t failures, losses;
    bool told; /* the worker has been told of the task */
    /* the worker must give back rows that it has not begun; repeated with each renewal until a result
     * arrives */
    bool recalled;
};

struct pl_ending;    /* completion.c */
struct pl_later;     /* retry_queue.c */
struct pl_reshaping; /* engine_stages.c */

struct pl_engine {
    struct pl_engine_config config;
    struct pl_executor *executor;
    struct pl_sched *sched;
    struct pl_timer *timer;
    /* the loop's own database reader. The loop must not wait for a shared reader, since a thread that holds
     * one may be waiting for the loop */
    struct pl_conn *conn;
    struct pl_map stages;  /* version (u64) → pl_estage */
    struct pl_map current; /* stage (u64) → pl_estage of the version that was last set */
    struct pl_map jobs;    /* id → pl_ejob, unfinished jobs */
    struct pl_map by_key;  /* "run/project/stage" → pl_ejob */
    struct pl_map workers; /* id → pl_eworker */
    struct pl_worker_doors *doors;
    struct pl_map tasks;       /* id → pl_etask */
    uint64_t last_order;       /* order of the last run given to the scheduler */
    bool continuing;           /* a TICK is posted */
    int64_t busy_at_ms;        /* monotonic time of the last save of busy times */
    struct pl_ending *endings; /* ends of jobs and runs that wait for earlier ones, or could not be written */
    unsigned jobs_ending;      /* ends of jobs that are being written */
    uint64_t endings_made;
    struct pl_timer *retry_timer;
    int64_t retry_ms;
    pthread_mutex_t later_mutex; /* guards later and later_last (retry_queue.c) */
    struct pl_later *later, *later_last;
    struct pl_timer *later_timer;
    struct pl_turns *turns; /* slow work of one project takes turns */
    /* number of stage rows ever made, when the scheduler's stages were last brought up to date */
    _Atomic int64_t stages_made;
    struct pl_reshaping *reshaping; /* reshaping in progress; NULL = none */
    bool reshape_again;             /* reshape once more after that, since things changed meanwhile */
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
/* Feeds one event to the scheduler and carries out its actions. Returns the scheduler's error if the event is
 * refused. Loop. */
int pl_engine_feed(struct pl_engine *e, struct pl_sched_event *ev, struct pl_err *err);
/* Ends the engine because it cannot continue correctly, most often for lack of memory: nothing more is
 * decided, and the daemon ends. The next start resumes the work. Loop. */
void pl_engine_fail(struct pl_engine *e, const char *what);
/* Posts fn(arg) to the loop; it never runs within this call. Any thread. */
void pl_engine_post(struct pl_engine *e, const char *label, pl_loop_fn fn, void *arg);
struct pl_ejob *pl_engine_job(struct pl_engine *e, uint64_t id);
struct pl_ejob *pl_engine_job_by_key(struct pl_engine *e, const char *run, const char *project, const char *stage);
/* Makes a job and adds it to the maps, which own it. */
PL_MUST_CHECK
int pl_engine_add_job(struct pl_engine *e, uint64_t id, uint64_t order, const char *run, struct pl_estage *stage,
                      struct pl_ejob **ret, struct pl_err *err);
/* Removes the job from the maps. Work in progress holds its own reference. */
void pl_engine_forget_job(struct pl_engine *e, struct pl_ejob *j);
/* The job's end is in the database: seals its log, so that clients that follow the log are woken and see the
 * end. */
void pl_engine_job_ended(struct pl_ejob *j);

/* ---- job_save.c: rows of unfinished jobs ---- */
/* Writes the job's row soon. Several changes may share one write. */
void pl_engine_job_changed(struct pl_ejob *j);
/* Writes again the rows whose last write failed. */
void pl_engine_write_dirty(struct pl_engine *e);
/* Saves how long jobs have had a leased task. The job timeout counts this time, also across a restart. */
void pl_engine_write_busy(struct pl_engine *e);
/* Fills `ret` with the values of the job's row; free them with pl_engine_job_args_done. Loop. */
void pl_engine_job_args(struct pl_ejob *j, struct pl_job_args *ret);
void pl_engine_job_args_done(struct pl_job_args *a);
/* Called when the worker gets a lease of the job: adds a warning to the job if its stage prefers a GPU and
 * the worker has none. Loop. */
void pl_engine_job_device(struct pl_ejob *j, const struct pl_eworker *w);

/* ---- retry_queue.c: work that a full queue refused is retried shortly after ---- */
/* Runs fn(arg) on the pool, possibly later. If the engine has failed, fn runs within this call; a long fn
 * checks for that. Any thread. */
void pl_engine_pool(struct pl_engine *e, pl_pool_fn fn, void *arg);
/* The same for work that may take long: that of one project takes turns (storage/system/pool_turns.h). `project`
 * must live as long as `arg`. */
void pl_engine_pool_slow(struct pl_engine *e, const char *project, pl_pool_fn fn, void *arg);
/* Submits a transaction like pl_db_submit, but waits if the database's queue is full. Calls `done` exactly
 * once; within this call if the database is closed. Any thread. */
void pl_engine_submit(struct pl_engine *e, enum pl_tx_class class, pl_tx_fn fn, pl_tx_done done, void *arg);
PL_MUST_CHECK
int pl_engine_retry_queue_init(struct pl_engine *e, struct pl_err *err);
/* After the engine has failed: completes all queued work now, with an error. */
void pl_engine_retry_queue_flush(struct pl_engine *e);
void pl_engine_retry_queue_finish(struct pl_engine *e);

/* ---- completion.c: ends of jobs and runs, written in order and retried until written ---- */
PL_MUST_CHECK
int pl_engine_completion_init(struct pl_engine *e, struct pl_err *err);
void pl_engine_completion_finish(struct pl_engine *e);
void pl_engine_end_job(struct pl_ejob *j);
/* Writes the run's end, for action RUN_STATE with a final state. */
void pl_engine_end_run(struct pl_engine *e, const struct pl_sched_action *a);
/* After a growing pause, writes again what could not be written: ends, and changed rows of jobs. Loop. */
void pl_engine_retry(struct pl_engine *e);
/* Calls fn(arg, 0, …) on the loop when all ends given before are in the database; never within this call,
 * except when the engine is destroyed: then, or if the database is closed, r < 0. Loop. */
void pl_engine_after_completion(struct pl_engine *e, void (*fn)(void *arg, int r, const struct pl_err *err), void *arg);

/* ---- engine_stages.c ---- */
/* Loads a stage version from the database; the caller unrefs it. Any thread that has a connection.
 * PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_engine_stage_load(struct pl_conn *c, uint64_t version, struct pl_estage **ret, struct pl_err *err);
/* Finds a stage version by its row id, and loads it if needed. Borrowed. Loop; the database read is small, by
 * key. */
PL_MUST_CHECK
int pl_engine_stage(struct pl_engine *e, uint64_t version, struct pl_estage **ret, struct pl_err *err);
/* Load and take the current versions with row ids above `after`. Loading runs on a pool thread, because a
 * large pipeline would hold up the loop. The loaded list belongs to the caller, also after an error, until
 * pl_engine_take_stages (loop) takes it and frees the list. */
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
/* Returns true if the project's network is off, so that its stages get no network whatever they ask for; also
 * true if the setting cannot be read. Loop. */
bool pl_engine_network_off(struct pl_engine *e, const char *project);
/* The project's network setting may have changed: retires workers that were started with the other setting,
 * and has shapes computed again. `project` NULL: checks all workers, at the start. Loop. */
void pl_engine_network_changed(struct pl_engine *e, const char *project);
/* Gives a stage version to the scheduler, as the stage's current version. */
PL_MUST_CHECK
int pl_engine_stage_set(struct pl_engine *e, struct pl_estage *s, struct pl_err *err);
/* Gives versions (row ids, ascending) to the scheduler, in an order in which none closes a cycle with a
 * version that is yet to be replaced. A version that is refused is logged. */
PL_MUST_CHECK
int pl_engine_set_versions(struct pl_engine *e, const uint64_t *versions, size_t n, struct pl_err *err);
/* Makes the scheduler's stages equal to the current stages in the database: sets new versions, and removes
 * stages (not while restoring). */
PL_MUST_CHECK
int pl_engine_sync_stages(struct pl_engine *e, struct pl_err *err);
/* Returns the number of stage rows ever made; it rises with every pipeline that is created or updated. */
PL_MUST_CHECK
int pl_engine_stages_made(struct pl_engine *e, int64_t *ret, struct pl_err *err);
/* Returns the scheduler's number of a branch. */
struct pl_sched_head pl_engine_head(const char *project, const char *repo, const char *branch);

/* ---- engine_restore.c ---- */
PL_MUST_CHECK
int pl_engine_restore(struct pl_engine *e, struct pl_err *err);
/* Gives the scheduler the runs that it does not have yet, in order. */
PL_MUST_CHECK
int pl_engine_new_runs(struct pl_engine *e, struct pl_err *err);

/* ---- job_plan.c ---- */
/* Makes the job's plan: finds its inputs, enumerates datums, finds results to reuse. Fills plan, rows, roots,
 * commits, inputs, base, and the results of reused datums. A restored job, whose `inputs` are set, is planned
 * over these very commits and its base. `conn` NULL: takes one of the pool's readers; the loop passes its
 * own, because all of the pool's readers may be held by threads that wait for the loop. On the pool, or at
 * the start. */
PL_MUST_CHECK
int pl_job_plan(struct pl_ejob *j, struct pl_conn *conn, struct pl_err *err);
/* Discards the plan, but keeps inputs and base. */
void pl_job_unplan(struct pl_ejob *j);
/* Enumerates the job's datums: those that differ from `base`, or all if it is NULL. Any thread. */
PL_MUST_CHECK
int pl_job_enumerate(const struct pl_ejob *j, const struct pl_ebase *base, struct pl_plan **ret, struct pl_err *err);
/* Returns the branch to which the job's output goes, once it is planned. */
const char *pl_job_branch(const struct pl_ejob *j);
/* Publishes the result of pl_job_plan: from now on the loop may read it. Loop. */
void pl_job_planned(struct pl_ejob *j);
/* Carries out action PLAN. */
void pl_engine_plan(struct pl_engine *e, struct pl_ejob *j);

/* ---- job_base_commit.c ---- */
/* Decides whether the job can be planned from the commit `base`. Fills j->from except `datums`. If it cannot,
 * from.usable is false and 0 is returned. */
PL_MUST_CHECK
int pl_job_find_base(struct pl_ejob *j, struct pl_conn *c, const struct pl_commit_row *base, struct pl_err *err);
/* Afterwards: reads the base's number of datums from the store. */
PL_MUST_CHECK
int pl_job_read_base(struct pl_ejob *j, const struct pl_node_source *source, struct pl_err *err);

/* ---- job_full_plan.c ---- */
/* Plan and results of all datums of a job. */
struct pl_ewhole {
    const struct pl_plan *plan;
    const struct pl_eresult *results;
    const uint8_t *has_result;
    struct pl_plan *own_plan; /* owned, as the fields below; NULL if the job's own plan is complete */
    struct pl_eresult *own_results;
    uint8_t *own_has_result;
    struct pl_arena *arena;
};
/* Makes the full plan of a job that was planned from a base: enumerates all datums, and takes the results
 * that the job's plan does not have from the base's datum table. */
PL_MUST_CHECK
int pl_job_full_plan(const struct pl_ejob *j, const struct pl_node_source *source, struct pl_ewhole *ret, struct pl_err *err);
void pl_job_full_plan_finish(struct pl_ewhole *w);

/* ---- job_commit.c ---- */
void pl_engine_commit(struct pl_engine *e, struct pl_ejob *j);

/* ---- job_results.c ---- */
/* Parses the output of one successful row of a RESULT, as the worker sent it: {"index", "state",
 * "output"…}. */
PL_MUST_CHECK
int pl_result_of_json(const json_t *row, const char *run, struct pl_eresult *ret, struct pl_err *err);
void pl_totals_add(struct pl_etotals *t, const json_t *row);
/* Returns the reason of a failed row, with the last line that the command printed if the command itself
 * failed. Valid as long as row and arena. */
const char *pl_result_message(const json_t *row, struct pl_arena *arena);
/* Fills the results of a restored job from table `result`. */
PL_MUST_CHECK
int pl_job_load_results(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Reuses results of the stage's jobs that failed or were killed since its last success, for the datums in
 * j->rows, which are sorted by datum key. Reads row by row, since many results may belong to no datum any
 * more. */
PL_MUST_CHECK
int pl_kept_results(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Deletes the results listed in j->stale. Results of the stage's last PL_KEPT_JOBS_ALL failed or killed jobs
 * are always kept; older ones only while the newest plan uses them. */
#define PL_KEPT_JOBS_ALL 64
PL_MUST_CHECK
int pl_kept_drop_stale(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Handles the results that came with a `next` request: feeds them to the scheduler, writes them to the
 * database, then calls done(arg) on the loop. Takes ownership of `results` (a JSON array). */
void pl_engine_results(struct pl_engine *e, struct pl_eworker *w, json_t *results, void (*done)(void *arg), void *arg);
/* Carries out action RESULT, within the step that pl_engine_results made. */
void pl_engine_result_action(struct pl_engine *e, const struct pl_sched_action *a);

/* ---- job_attempts.c ---- */
enum pl_tried_state { PL_TRIED_WAITING, PL_TRIED_FAILED, PL_TRIED_RECOVERED };
/* A record of what rows of a job went through. The newest record of a row counts. */
struct pl_etried {
    char *rows; /* ranges in the form of pl_ranges_text */
    uint32_t failures, losses;
    enum pl_tried_state state;
    char *reason; /* of the first row, if it failed; may be NULL */
};
void pl_job_attempts_finish(struct pl_etried *t);
/* Writes a record for the job with row id `job`, unless the job has ended. Within a transaction. */
PL_MUST_CHECK
int pl_job_attempts_write(struct pl_conn *c, int64_t job, const struct pl_etried *t, struct pl_err *err);
/* Converts ranges to JSON text, [[lo, hi]…], and back. The text is malloc'ed, NULL without memory; the caller
 * frees *ret. PL_ENOMEM. */
char *pl_ranges_text(const struct pl_sched_range *ranges, size_t n);
PL_MUST_CHECK
int pl_ranges_parse(const json_t *list, struct pl_sched_range **ret, size_t *ret_n, struct pl_err *err);
/* Carries out action RETURNED: ends the lease (pl_engine_drop_task) and deletes its row, since its rows may
 * be leased anew. */
void pl_engine_return_task(struct pl_engine *e, const struct pl_sched_action *a);
/* Carries out action GIVE_UP. */
void pl_engine_give_up(struct pl_engine *e, const struct pl_sched_action *a);
/* For a restored job whose rows with results are already settled: settles the rows that ended without a
 * result, and fills the event's failed, first_failed and tried. Texts and lists belong to the arena. */
PL_MUST_CHECK
int pl_job_attempts_load(struct pl_ejob *j, struct pl_conn *c, struct pl_arena *arena, struct pl_sched_event *ev,
                         struct pl_err *err);
/* Returns true if the row of a restored job has exactly this history. A lease with another history is not the
 * row's newest. */
bool pl_job_attempts_of_row(const struct pl_ejob *j, uint32_t row, uint32_t failures, uint32_t losses);
/* Deletes the job's records, because it is planned again and its rows get other numbers. Waits for the
 * database. */
PL_MUST_CHECK
int pl_job_attempts_forget(struct pl_ejob *j, struct pl_err *err);

/* ---- workers.c ---- */
void pl_engine_start_worker(struct pl_engine *e, const struct pl_sched_action *a);
void pl_engine_stop_worker(struct pl_engine *e, const struct pl_sched_action *a);
struct pl_eworker *pl_engine_worker(struct pl_engine *e, uint64_t id);
PL_MUST_CHECK
int pl_engine_add_worker(struct pl_engine *e, uint64_t id, struct pl_estage *stage, const uint16_t *gpus, size_t n_gpus,
                         struct pl_eworker **ret, struct pl_err *err);
void pl_engine_worker_free(void *worker);
#define PL_WORKER_TOKEN_BYTES 192
/* Texts of a worker's spec. pl_engine_worker_spec fills `ret` except for the CPU, memory and nodes to avoid
 * that the scheduler assigns; it borrows from the worker and from `texts`. */
struct pl_engine_worker_texts {
    char name[32], token[PL_WORKER_TOKEN_BYTES];
};
void pl_engine_worker_spec(const struct pl_engine *e, const struct pl_eworker *w, struct pl_engine_worker_texts *texts,
                           struct pl_worker_spec *ret);
/* Writes the worker's row after it attached; calls `done` like pl_db_submit, also if the submission
 * failed. */
void pl_engine_worker_attached_row(struct pl_engine *e, const struct pl_eworker *w, pl_tx_done done, void *arg);
/* Makes the token with which the worker is started. */
void pl_engine_worker_token(const struct pl_engine *e, uint64_t id, char out[PL_WORKER_TOKEN_BYTES]);
/* Returns true if a token may be exchanged with this incarnation: it is random enough that no other process
 * could know it. */
bool pl_engine_incarnation_ok(const char *incarnation);
/* Exchanges the worker's first token for one of this start of the worker. PL_EFORBIDDEN: another start has
 * exchanged it. */
PL_MUST_CHECK
int pl_engine_exchange_token(struct pl_engine *e, uint64_t id, const char *incarnation, char out[PL_WORKER_TOKEN_BYTES],
                             struct pl_err *err);
/* Implements pl_engine_ops.worker. */
int pl_engine_worker_principal(void *self, const char *token, struct pl_principal **ret, struct pl_err *err);
/* Answers the worker's open `next` request, or keeps the answer for its following one. Takes ownership of
 * `answer` (JSON text). `task`: id of the task in the answer; 0 = none. */
void pl_engine_answer(struct pl_eworker *w, char *answer, uint64_t task);
/* Discards the answer that is kept for the worker. */
void pl_engine_worker_drop_ready(struct pl_eworker *w);
/* Carries out action LEASE: writes the lease to the database, then answers the worker. */
void pl_engine_lease(struct pl_engine *e, const struct pl_sched_action *a);
/* Ends a lease. If the worker knows of the task, the open or the next renewal reports the end to it;
 * otherwise the task is never sent. */
void pl_engine_drop_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence);
/* The same without a report, because the worker itself handed in the last result. */
void pl_engine_end_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence);
/* Carries out action RECALL. */
void pl_engine_recall_task(struct pl_engine *e, const struct pl_sched_action *a);
void pl_etask_free(void *task);

/* ---- datum_checkpoints.c ---- */
/* Stores the checkpoint that a worker reported for a row, and answers `req`. Loop. */
void pl_engine_checkpoint(struct pl_engine *e, struct pl_http_request *req, struct pl_ejob *job, uint32_t row,
                          const struct pl_hash *root);
/* Returns the root (hex) of the checkpoint that an earlier attempt left at `since_us` (wall clock) or later;
 * NULL if there is none. Pool. */
json_t *pl_checkpoint_json(const struct pl_ejob *job, const struct pl_hash *key, int64_t since_us);
/* Deletes the checkpoints of datums that succeeded; `rows` as in job_results.c: [[datum, row, key]…]. */
PL_MUST_CHECK
int pl_checkpoints_drop(const struct pl_ejob *job, struct pl_conn *c, const json_t *rows, struct pl_err *err);

/* ---- worker_api.c ---- */
/* Answers the worker's open renewal, if there is one, with its ended leases, whether it should stop, and
 * `recalled`: the id of a recalled task (0 = none). */
void pl_eworker_tell(struct pl_eworker *w, uint64_t recalled);
PL_MUST_CHECK
int pl_engine_make_routes(struct pl_engine *e, struct pl_err *err);
