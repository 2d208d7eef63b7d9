/* engine_internal: what the files of the engine share. See engine.h for the whole. */
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
#include <pthread.h>

#define PL_JOB_ATTEMPTS_KEPT 1000 /* rows of `attempt` a job: so many failed ones, and so many good ones */
#define PL_BASES_MAX         9    /* tables looked into for reuse: the base and the 8 successful commits before it */
#define PL_LONG_POLL_MS      25000
#define PL_ENGINE_LOST_MAX   8 /* leases that were taken back, to be told with the next renewal; older ones it has to name */
#define PL_ENGINE_TOLD_US    (300LL * 1000000) /* of a worker's leases that last: a third of a session's */
#define PL_BUSY_WRITE_MS     5000              /* how much of a job's busy time a daemon that dies may forget */

/* One version of a stage; does not change once loaded. Counted references, any thread. */
struct pl_estage {
    _Atomic unsigned refs;
    uint64_t stage;   /* row id of its output repo: the same for all versions */
    uint64_t version; /* row id in `stage` */
    uint64_t since;   /* order of the first run that reaches it */
    uint64_t pipeline_id;
    int64_t pipeline_version;
    char *project, *pipeline, *effective; /* effective: JSON of the stage */
    struct pl_spec *spec;                 /* with this one stage in it */
    const struct pl_stage *def;
    struct pl_hash code_root, code_identity;
    json_t *git;
    uint64_t datum_bytes; /* of inputs, of the datum that had most since the daemon began; the loop's */
};
struct pl_estage *pl_engine_stage_ref(struct pl_estage *s);
void pl_engine_stage_unref(struct pl_estage *s);

/* What became of a datum: by running it now, or by an earlier commit's row. */
struct pl_eresult {
    bool reused;
    uint8_t run[PL_RUN_ID_BYTES];
    enum pl_datum_row_outputs outputs;
    uint8_t *ops; /* INLINE, owned */
    size_t ops_len;
    struct pl_hash root; /* TREE */
};

/* What a job can be planned from instead of in full (job_base.c). */
struct pl_ebase {
    bool usable;
    struct pl_merge_incremental_roots roots;       /* of the base's commit */
    struct pl_hash leaf_roots[PL_SPEC_LEAVES_MAX]; /* that it was planned over */
    size_t datums;
    bool same_expect; /* it was held to the same output.expect */
};

struct pl_etotals {
    uint64_t datums, planned, reused, done, failed, recovered, attempts;
    uint64_t wait_ms, fetch_ms, compute_ms, upload_ms; /* how long each took; they overlap */
    uint64_t held_ms, gpu_ms;                          /* of workers, of GPUs: while they computed, waited or moved data */
    int64_t busy_ms;                                   /* time with a leased task, of all lives of the daemon */
    uint64_t bytes_in, bytes_out;
    uint64_t user_us, sys_us, max_rss_kb, oom;
    uint64_t gpus; /* most of one worker */
    /* Of GPUs while commands ran: measured for so long, and busy for so long of that; while their workers had no command running; most memory of one
     * worker's, in bytes. */
    uint64_t gpu_measured_ms, gpu_used_ms, gpu_wait_ms, gpu_mem_peak;
};

/* Of a row of the table `result`. */
struct pl_result_key {
    int64_t job, id;
};

/* One job. The loop owns it; plan, inputs and stage do not change once made, and pool work holds a reference. */
struct pl_ejob {
    _Atomic unsigned refs;
    struct pl_engine *engine;
    uint64_t id; /* the scheduler's */
    int64_t row; /* in `job`, 0 = not written yet */
    uint64_t order;
    char run[PL_ID_HEX + 1];
    struct pl_estage *stage;
    enum pl_sched_state state;
    char *reason;
    int64_t created_us, started_us;
    _Atomic bool over;   /* it has ended and its end was given to the database */
    bool writing, dirty; /* a progress row is under way; there is a newer one */

    json_t *inputs; /* [{project, repo, branch, commit, name, root}] once planned */
    json_t *warnings;
    char base[PL_ID_HEX + 1];
    struct pl_rerun_branch aside; /* of its run, known with the plan; no branch: it is none */
    bool planned;
    bool forced; /* every datum is run again, from nothing; known with the plan */
    struct pl_ebase from;
    struct pl_plan *plan; /* in full, or of what differs from the base: then `from` has the rest */
    uint32_t *rows;       /* row → datum */
    uint32_t n_rows;
    struct pl_hash *roots;          /* per leaf */
    char (*commits)[PL_ID_HEX + 1]; /* per leaf, "" = none */
    struct pl_eresult *results;     /* per datum of the plan; written on the loop, read by the commit when all are there */
    uint8_t *has_result;            /* per datum of the plan */
    struct pl_buf stale;            /* struct pl_result_key: results of earlier jobs that may go with the plan's row */
    uint8_t *settled;               /* per row, while it is restored: it has ended, or is a restored task's */
    struct pl_erow_tried *tried;    /* per row, while it is restored; NULL = none went through anything */
    struct pl_etotals totals;
    uint32_t good_kept, failed_kept; /* rows of `attempt` */
    uint32_t next_result;            /* id of the next row in `result` */
    uint32_t next_metric;
};
struct pl_ejob *pl_engine_job_ref(struct pl_ejob *j);
void pl_engine_job_unref(struct pl_ejob *j);
void pl_engine_result_finish(struct pl_eresult *r);

/* As in the column `pod` of `worker`. */
enum pl_pod_kind { PL_NO_POD, PL_POD_WITHOUT_GPU, PL_POD_WITH_GPU };

struct pl_eworker {
    uint64_t id;
    enum pl_pod_kind pod;
    struct pl_estage *stage;
    char incarnation[64];
    uint16_t gpus[PL_SCHED_WORKER_GPUS_MAX];
    uint32_t n_gpus;
    char host[128];
    bool network_off; /* it was started so (pl_engine_network_off) */
    bool stopping, attached;
    char *image;           /* of a pod: the image that its command runs in, as its node resolved it; NULL: not said yet */
    int64_t unnamed_since; /* the lowest row of a job of which an attempt was kept before that; 0 = none */
    struct pl_http_request *waiting;                /* its open `next` */
    struct pl_timer *poll;                          /* when that is answered with idle */
    struct pl_http_request *renewing;               /* its open `renew` */
    struct pl_timer *renewal;                       /* when that is answered, if there is nothing to tell */
    struct pl_sched_lease lost[PL_ENGINE_LOST_MAX]; /* taken back since a renewal was answered last */
    size_t n_lost;
    char *ready;         /* an answer for its next `next`, as JSON text */
    uint64_t ready_task; /* the task in it */
    int64_t told_us;     /* when its leases were last moved up; 0 = never */
};

/* A leased task, so that results and logs find their job. */
struct pl_etask {
    uint64_t id, fence, worker;
    struct pl_ejob *job;
    uint32_t failures, losses;
    bool told;     /* to its worker */
    bool recalled; /* its worker is told with every renewal to give back what it has not begun, until a result comes */
};

struct pl_ending;    /* endings.c */
struct pl_later;     /* later.c */
struct pl_reshaping; /* engine_stages.c */

struct pl_engine {
    struct pl_engine_config config;
    struct pl_executor *executor;
    struct pl_sched *sched;
    struct pl_timer *timer;
    struct pl_conn *conn; /* the loop's own reader: it never waits for one that a pool thread holds while it waits for the loop */
    struct pl_map stages; /* version (u64) → pl_estage */
    struct pl_map current; /* stage (u64) → version it was last set to, as pl_estage */
    struct pl_map jobs;    /* id → pl_ejob, unfinished ones */
    struct pl_map by_key;  /* "run/project/stage" → pl_ejob */
    struct pl_map workers; /* id → pl_eworker */
    struct pl_worker_doors *doors;
    struct pl_map tasks;       /* id → pl_etask */
    uint64_t last_order;       /* of the last run given to the scheduler */
    bool continuing;           /* a TICK is posted */
    int64_t busy_at_ms;        /* when PL_BUSY_WRITE_MS were over last */
    struct pl_ending *endings; /* ends of jobs and runs that wait for those before them, or could not be written */
    unsigned jobs_ending;      /* of them on their way to the database */
    uint64_t endings_made;
    struct pl_timer *retry_timer;
    int64_t retry_ms;
    pthread_mutex_t later_mutex; /* of the list; later.c */
    struct pl_later *later, *later_last;
    struct pl_timer *later_timer;
    _Atomic int64_t stages_made;    /* stage rows ever made when the scheduler's stages were last looked at */
    struct pl_reshaping *reshaping; /* under way */
    bool reshape_again;             /* behind it: what it looked at may be another */
    bool started, restoring;
    _Atomic bool failed;  /* it decides nothing any more */
    _Atomic bool hung_up; /* no `next` waits any more, and nobody asks the loop */
    void (*drained)(void *arg);
    void *drained_arg;
    struct pl_http_route *routes;
    size_t n_routes;
};

/* ---- engine.c: feeding the scheduler ---- */
/* One event; carries out what follows. Loop. The scheduler's refusals are returned. */
int pl_engine_feed(struct pl_engine *e, struct pl_sched_event *ev, struct pl_err *err);
/* It lacks what it needs to go on without telling something wrong (memory, most often): nothing is decided any more, and the daemon
 * ends. The next start takes up what was under way. Loop. */
void pl_engine_fail(struct pl_engine *e, const char *what);
/* Runs fn(arg) on the loop, never within the call. Any thread. */
void pl_engine_post(struct pl_engine *e, const char *label, pl_loop_fn fn, void *arg);
struct pl_ejob *pl_engine_job(struct pl_engine *e, uint64_t id);
struct pl_ejob *pl_engine_job_by_key(struct pl_engine *e, const char *run, const char *project, const char *stage);
/* A new job enters the maps. */
PL_MUST_CHECK
int pl_engine_add_job(struct pl_engine *e, uint64_t id, uint64_t order, const char *run, struct pl_estage *stage,
                      struct pl_ejob **ret, struct pl_err *err);
/* It leaves the maps; work under way holds its own reference. */
void pl_engine_forget_job(struct pl_engine *e, struct pl_ejob *j);
/* Its end is in the database: who follows its log is woken, finds it, and goes. */
void pl_engine_job_ended(struct pl_ejob *j);

/* ---- job_rows.c: rows of jobs that have not ended ---- */
/* Writes the job's row soon (coalesced). */
void pl_engine_job_changed(struct pl_ejob *j);
/* Writes the rows that could not be written. */
void pl_engine_write_dirty(struct pl_engine *e);
/* Writes how long jobs have had a leased task: a timeout counts it, also over a restart. */
void pl_engine_write_busy(struct pl_engine *e);
/* Loop. Fills the row's arguments; JSON in it is the caller's to free with pl_engine_job_args_done. */
void pl_engine_job_args(struct pl_ejob *j, struct pl_job_args *ret);
void pl_engine_job_args_done(struct pl_job_args *a);
/* A lease of its is the worker's: where its stage would rather have a GPU and that has none, the job has a warning that says why. Loop. */
void pl_engine_job_device(struct pl_ejob *j, const struct pl_eworker *w);

/* ---- later.c: what has no room now is tried again in a moment ---- */
/* Runs fn(arg) on the pool, perhaps after a while. Within the call only when the engine has failed: fn looks for that when it is long.
 * Any thread. */
void pl_engine_pool(struct pl_engine *e, pl_pool_fn fn, void *arg);
/* The same for work that may take long (storage/system/thread_pool.h). */
void pl_engine_pool_slow(struct pl_engine *e, pl_pool_fn fn, void *arg);
/* Gives the database a transaction as pl_db_submit does, but for a queue at its bound, which is waited for. `done` comes exactly once,
 * within the call when the database is closed. Any thread. */
void pl_engine_submit(struct pl_engine *e, enum pl_tx_class class, pl_tx_fn fn, pl_tx_done done, void *arg);
PL_MUST_CHECK
int pl_engine_retry_queue_init(struct pl_engine *e, struct pl_err *err);
/* The engine has failed: what was put off is given up now. */
void pl_engine_retry_queue_flush(struct pl_engine *e);
void pl_engine_retry_queue_finish(struct pl_engine *e);

/* ---- endings.c: ends of jobs and runs are written in their order, again and again until the database takes them ---- */
PL_MUST_CHECK
int pl_engine_completion_init(struct pl_engine *e, struct pl_err *err);
void pl_engine_completion_finish(struct pl_engine *e);
void pl_engine_end_job(struct pl_ejob *j);
/* The action RUN_STATE with a final state. */
void pl_engine_end_run(struct pl_engine *e, const struct pl_sched_action *a);
/* What could not be written is written again after a pause that grows: ends, and rows of jobs that are dirty. Loop. */
void pl_engine_retry(struct pl_engine *e);
/* Calls fn(arg, 0, …) when all ends given before are in the database: later, on the loop. Never before the engine's end, with r < 0,
 * when the database is closed to them. Loop. */
void pl_engine_after_completion(struct pl_engine *e, void (*fn)(void *arg, int r, const struct pl_err *err), void *arg);

/* ---- engine_stages.c ---- */
/* A stage version from the database, for whoever asks; unref it. Any thread with a connection. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_engine_stage_load(struct pl_conn *c, uint64_t version, struct pl_estage **ret, struct pl_err *err);
/* Stage version by its row id, loaded when it is not known. Loop; reads the database (small, by key). */
PL_MUST_CHECK
int pl_engine_stage(struct pl_engine *e, uint64_t version, struct pl_estage **ret, struct pl_err *err);
/* Current versions with row ids above `after`, loaded on a pool thread: a large pipeline would hold up the loop. What was loaded is the
 * caller's, also after an error, until pl_engine_take_stages (loop) takes it and frees the list. */
PL_MUST_CHECK
int pl_engine_load_stages(struct pl_engine *e, int64_t after, struct pl_estage ***ret, size_t *ret_n, struct pl_err *err);
void pl_engine_take_stages(struct pl_engine *e, struct pl_estage **list, size_t n);
/* Number of the shape of its pods, 0 where workers are processes. Loop. */
PL_MUST_CHECK
int pl_engine_shape(struct pl_engine *e, const struct pl_estage *s, bool gpu, uint64_t *ret, struct pl_err *err);
/* What pods are rendered by has changed: tells the scheduler which shapes the pods of each stage have now, some stages in a turn of the loop. One
 * goes at a time; who calls meanwhile has all of them looked at once more behind it. Loop. */
void pl_engine_reshape(struct pl_engine *e);
/* Has the project its network off, so that its stages get none whatever they say? Where that cannot be read: yes. Loop. */
bool pl_engine_network_off(struct pl_engine *e, const char *project);
/* That may be another than it was: retires workers that were started otherwise, and has pods rendered anew. `project` NULL: workers of all, at
 * the start. Loop. */
void pl_engine_network_changed(struct pl_engine *e, const char *project);
/* Gives a stage version to the scheduler. */
PL_MUST_CHECK
int pl_engine_stage_set(struct pl_engine *e, struct pl_estage *s, struct pl_err *err);
/* Gives versions (row ids, ascending) to the scheduler, in an order in which none closes a cycle with what is replaced. One that
 * cannot be given is logged. */
PL_MUST_CHECK
int pl_engine_set_versions(struct pl_engine *e, const uint64_t *versions, size_t n, struct pl_err *err);
/* Brings the scheduler's stages to what the database has as current: sets, removes (not while restoring). */
PL_MUST_CHECK
int pl_engine_sync_stages(struct pl_engine *e, struct pl_err *err);
/* How many stage rows were ever made: rises with every pipeline that is created or updated. */
PL_MUST_CHECK
int pl_engine_stages_made(struct pl_engine *e, int64_t *ret, struct pl_err *err);
/* Number of a branch for the scheduler. */
struct pl_sched_head pl_engine_head(const char *project, const char *repo, const char *branch);

/* ---- engine_restore.c ---- */
PL_MUST_CHECK
int pl_engine_restore(struct pl_engine *e, struct pl_err *err);
/* Runs that the database has and the scheduler does not, in order. */
PL_MUST_CHECK
int pl_engine_new_runs(struct pl_engine *e, struct pl_err *err);

/* ---- job_plan.c ---- */
/* Makes the plan of a job: inputs, enumeration, reuse. Pool (or the start). Fills plan, rows, roots, commits, inputs, base, results
 * of reused datums. A job with `inputs` set (restored) is planned over these very commits and its base. `conn` NULL: a reader of the
 * pool's; the loop gives its own, for those may all wait for it. */
PL_MUST_CHECK
int pl_job_plan(struct pl_ejob *j, struct pl_conn *conn, struct pl_err *err);
/* Takes the plan away again, but for inputs and base. */
void pl_job_unplan(struct pl_ejob *j);
/* Enumerates the job's datums: from `base`, or in full when it is NULL. Any thread. */
PL_MUST_CHECK
int pl_job_enumerate(const struct pl_ejob *j, const struct pl_ebase *base, struct pl_plan **ret, struct pl_err *err);
/* The branch that its output goes to, once it is planned. */
const char *pl_job_branch(const struct pl_ejob *j);
/* On the loop, after pl_job_plan: from now on the loop may read what it filled. */
void pl_job_planned(struct pl_ejob *j);
/* The action PLAN. */
void pl_engine_plan(struct pl_engine *e, struct pl_ejob *j);

/* ---- job_base.c ---- */
/* May the job be planned from the commit `base`? Fills j->from but for `datums`; what speaks against it is no error. */
PL_MUST_CHECK
int pl_job_find_base(struct pl_ejob *j, struct pl_conn *c, const struct pl_commit_row *base, struct pl_err *err);
/* Then: the number of datums of that base, from the store. */
PL_MUST_CHECK
int pl_job_read_base(struct pl_ejob *j, const struct pl_node_source *source, struct pl_err *err);

/* ---- job_whole.c ---- */
/* Plan and results of all datums of a job. */
struct pl_ewhole {
    const struct pl_plan *plan;
    const struct pl_eresult *results;
    const uint8_t *has_result;
    struct pl_plan *own_plan; /* what was made for it: NULL when the job's own plan is in full */
    struct pl_eresult *own_results;
    uint8_t *own_has_result;
    struct pl_arena *arena;
};
/* For a job that was planned from a base: everything is enumerated and what is not in its plan is looked up in the base's table. */
PL_MUST_CHECK
int pl_job_full_plan(const struct pl_ejob *j, const struct pl_node_source *source, struct pl_ewhole *ret, struct pl_err *err);
void pl_job_full_plan_finish(struct pl_ewhole *w);

/* ---- job_commit.c ---- */
void pl_engine_commit(struct pl_engine *e, struct pl_ejob *j);

/* ---- job_results.c ---- */
/* One row of a RESULT as the worker sent it: {"index", "state", "output"…}: what is kept of a good one. */
PL_MUST_CHECK
int pl_result_of_json(const json_t *row, const char *run, struct pl_eresult *ret, struct pl_err *err);
void pl_totals_add(struct pl_etotals *t, const json_t *row);
/* The reason of a failed row, with the command's last line where that says why; lives as long as row and arena. */
const char *pl_result_message(const json_t *row, struct pl_arena *arena);
/* Rows of `result` of a restored job: fills its results. */
PL_MUST_CHECK
int pl_job_load_results(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Results of the stage's jobs that failed or were killed since its last success, to the datums in `rows`, which lie in the order of
 * their keys: read row by row, for there may be many that no datum has any more. */
PL_MUST_CHECK
int pl_kept_results(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Those of the stage's last PL_KEPT_JOBS_ALL jobs that failed or were killed stay whatever they are of; of those before them, what the newest plan
 * has use for: the others are noted in j->stale, and go with this. */
#define PL_KEPT_JOBS_ALL 64
PL_MUST_CHECK
int pl_kept_drop_stale(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err);
/* Results that came with a `next`: feeds them, persists, then calls done(arg) on the loop. Takes `results` (a JSON array). */
void pl_engine_results(struct pl_engine *e, struct pl_eworker *w, json_t *results, void (*done)(void *arg), void *arg);
/* The action RESULT, within the step that pl_engine_results made. */
void pl_engine_result_action(struct pl_engine *e, const struct pl_sched_action *a);

/* ---- job_tried.c ---- */
enum pl_tried_state { PL_TRIED_WAITING, PL_TRIED_FAILED, PL_TRIED_RECOVERED };
/* What rows of a job went through, as one record: the newest of a row counts. */
struct pl_etried {
    char *rows; /* as pl_ranges_text makes them */
    uint32_t failures, losses;
    enum pl_tried_state state;
    char *reason; /* of the first row, when it failed; may be NULL */
};
void pl_job_attempts_finish(struct pl_etried *t);
/* Writes one of job `job` (row id), unless that has ended. Within a transaction. */
PL_MUST_CHECK
int pl_job_attempts_write(struct pl_conn *c, int64_t job, const struct pl_etried *t, struct pl_err *err);
/* [[lo, hi]…]; malloc'ed, NULL without memory. And back: PL_ENOMEM; free *ret. */
char *pl_ranges_text(const struct pl_sched_range *ranges, size_t n);
PL_MUST_CHECK
int pl_ranges_parse(const json_t *list, struct pl_sched_range **ret, size_t *ret_n, struct pl_err *err);
/* The action RETURNED: the lease is over (pl_engine_drop_task), and its row goes, for its rows may be leased anew. */
void pl_engine_return_task(struct pl_engine *e, const struct pl_sched_action *a);
/* The action GIVE_UP. */
void pl_engine_give_up(struct pl_engine *e, const struct pl_sched_action *a);
/* Of a restored job whose rows with results are settled: settles those that ended without; fills failed, first_failed and tried of the event.
 * Texts and lists are the arena's. */
PL_MUST_CHECK
int pl_job_attempts_load(struct pl_ejob *j, struct pl_conn *c, struct pl_arena *arena, struct pl_sched_event *ev,
                         struct pl_err *err);
/* Did the row of a restored job go through just that? A lease that says otherwise is not its newest. */
bool pl_job_attempts_of_row(const struct pl_ejob *j, uint32_t row, uint32_t failures, uint32_t losses);
/* The job is planned anew: its rows are others. Waits for the database. */
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
/* What the executor is told of it, less what the scheduler gave it of this machine. Borrows from the worker and `texts`. */
struct pl_engine_worker_texts {
    char name[32], token[PL_WORKER_TOKEN_BYTES];
};
void pl_engine_worker_spec(const struct pl_engine *e, const struct pl_eworker *w, struct pl_engine_worker_texts *texts,
                           struct pl_worker_spec *ret);
/* Writes what attach told of it; `done` as of pl_db_submit, also when it could not be submitted. */
void pl_engine_worker_attached_row(struct pl_engine *e, const struct pl_eworker *w, pl_tx_done done, void *arg);
/* The token that a worker is started with. */
void pl_engine_worker_token(const struct pl_engine *e, uint64_t id, char out[PL_WORKER_TOKEN_BYTES]);
/* Is it one that a token may be exchanged by: with something nobody else could say? */
bool pl_engine_incarnation_ok(const char *incarnation);
/* The token that this start of the worker gets for the first one. PL_EFORBIDDEN: another start has got it. */
PL_MUST_CHECK
int pl_engine_exchange_token(struct pl_engine *e, uint64_t id, const char *incarnation, char out[PL_WORKER_TOKEN_BYTES],
                             struct pl_err *err);
/* pl_engine_ops.worker. */
int pl_engine_worker_principal(void *self, const char *token, struct pl_principal **ret, struct pl_err *err);
/* Answers the worker's open `next`, or keeps the answer. Takes `answer` (JSON text); `task`: the one in it, 0 for none. */
void pl_engine_answer(struct pl_eworker *w, char *answer, uint64_t task);
/* Nothing is kept for it any more. */
void pl_engine_worker_drop_ready(struct pl_eworker *w);
/* The action LEASE: persists it, then answers. */
void pl_engine_lease(struct pl_engine *e, const struct pl_sched_action *a);
/* The lease is over: a worker that has been told of it is told so, by its open renewal or the next; another will not be. */
void pl_engine_drop_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence);
/* The same, when the worker knows: it has handed in the result. */
void pl_engine_end_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence);
/* The action RECALL. */
void pl_engine_recall_task(struct pl_engine *e, const struct pl_sched_action *a);
void pl_etask_free(void *task);

/* ---- checkpoints.c ---- */
/* Keeps what the worker of the row told, and answers `req`. Loop. */
void pl_engine_checkpoint(struct pl_engine *e, struct pl_http_request *req, struct pl_ejob *job, uint32_t row,
                          const struct pl_hash *root);
/* Root of the tree that an attempt before left, at `since_us` (since the epoch) or later, as hex; NULL when there is none. Pool. */
json_t *pl_checkpoint_json(const struct pl_ejob *job, const struct pl_hash *key, int64_t since_us);
/* Those of datums that succeeded: `rows` as job_results keeps them, [[datum, row, key]…]. */
PL_MUST_CHECK
int pl_checkpoints_drop(const struct pl_ejob *job, struct pl_conn *c, const json_t *rows, struct pl_err *err);

/* ---- worker_api.c ---- */
/* Answers the worker's open renewal, if there is one: with what was taken back, whether it is to end, and `recalled`, a task (0 = none). */
void pl_eworker_tell(struct pl_eworker *w, uint64_t recalled);
PL_MUST_CHECK
int pl_engine_make_routes(struct pl_engine *e, struct pl_err *err);
