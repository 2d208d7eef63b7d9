/* engine: Carries out what the scheduler decides: stages, jobs, results, workers, completion.
 *
 * In:      Runs from the database, requests of agents, exits from the executor.
 * Out:     Transactions, leases, starts and stops of workers.
 * Uses:    db/{gc, pipelines, stage_log, tx, writer}, exec, merge, plan, policy, sched, text, net/{agent_protocol, loop,
 *          server}, storage/{base, pack, store, system, tree, tree_edit}, storage/dataset/commit
 * Threads: The event loop; plans and merges on the pool.
 *
 * Inside:
 *   completion         ends of jobs and runs, written in order
 *   datum_checkpoints  checkpoints of datums by datum key
 *   engine_internal    state shared by the engine's files
 *   engine_restore     restores jobs and workers after a start
 *   engine_stages      loads stages from the database
 *   job_attempts       attempts and losses of unfinished jobs
 *   job_base_commit    the base commit for incremental planning
 *   job_commit         commits a job's outputs
 *   job_full_plan      replans a job in full for comparison
 *   job_plan           plans a job
 *   job_results        results reported by workers
 *   job_save           saves the rows of unfinished jobs
 *   retry_queue        retries work refused by a full pool or database
 *   worker_api         agent protocol routes
 *   worker_tokens      worker tokens and their principals
 *   workers            starts and stops workers, answers their `next` */

/* engine: carries out what the scheduler decides. It feeds events (runs from the database, results from workers, exits from the
 * executor) to core/sched and turns its actions into plans, leases, commits and rows.
 *
 *   database ──runs──▶┌────────┐──PLAN──▶ pool: enumerate, look up ──────▶ JOB_PLANNED
 *   workers ─results─▶│ engine │──LEASE─▶ database: lease ──▶ answer to the worker's `next`
 *   executor ─exits──▶│ (loop) │──COMMIT▶ pool: merge, trees, packs ──▶ database: commit + job ──▶ JOB_COMMITTED
 *                     └────────┘──START/STOP_WORKER──▶ executor
 *
 * All state lives on the loop's thread; pool work gets what it needs by reference to things that do not change (plans, stages). What
 * a restart must know is in the database before it is acted on: plans' inputs before leases, leases before the worker hears of them,
 * results before they are acknowledged. */
#pragma once

#include "pipelined/db/stage_log/stage_log.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/exec/exec.h"
#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "pipelined/policy/container_log_request.h"
#include "pipelined/policy/principal.h"
#include "pipelined/policy/project_secret.h"
#include "storage/store/project_stores.h"

struct pl_engine;
struct pl_spec;

/* What the API asks the running engine. `self` is the engine. */
struct pl_engine_ops {
    /* A transaction has made a run (push, pipeline): schedule it. Any thread, never blocks. */
    void (*run_created)(void *self, const char *run);
    /* A pipeline was created, updated or deleted: read its stages anew; then, when `run` is not "", schedule that run. Blocks:
     * on the pool, holding no reader. */
    void (*pipelines_changed)(void *self, const char *run);
    /* The network of the project may have been switched on or off (db/names.h): workers that were started otherwise get nothing more from here on.
     * Blocks: on the pool, holding no reader. */
    void (*network_changed)(void *self, const char *project);
    /* Stops a run, or one job of it (`stage` not NULL). Blocks: on the pool, holding no reader. PL_ENOTFOUND, PL_EBUSY. */
    int (*stop)(void *self, const char *run, const char *project, const char *stage, const char *why, struct pl_err *err);
    /* Would the executor take the workers of the spec's stages? What speaks against it, but may change, is appended to `warnings` (a list); with
     * `strict` that is PL_EUNAVAILABLE. PL_EINVAL, PL_EFORBIDDEN, PL_EUNAVAILABLE otherwise: one can have none; with the field's path.
     * Blocks, some seconds where the cluster is not reached, however many stages there are: on the pool, holding no reader. */
    int (*check_stages)(void *self, const struct pl_spec *spec, bool strict, json_t *warnings, struct pl_err *err);
    /* Live figures: {"workers": […], "gpus": {…}, "queue": {…}}; new reference. Blocks: on the pool, holding no reader. */
    json_t *(*live)(void *self);
    /* Live progress of an unfinished job: {"waiting", "leased", "done", "failed", "workers", "device"?}; NULL when it is not live. Blocks:
     * on the pool, holding no reader. */
    json_t *(*job_live)(void *self, const char *run, const char *project, const char *stage);
    /* Keeps, lists and removes secrets (core/secret.h); `ret` may be NULL where nothing comes of it. Blocks: on the pool, holding no reader. */
    int (*secrets)(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    /* What a container of the stage's pods prints: as `container_log` of an executor. Blocks: on the pool, holding no reader. PL_EUNAVAILABLE:
     * workers are no containers. */
    int (*container_log)(void *self, const char *project, const char *stage, const struct pl_container_log_request *ask,
                         struct pl_http_stream_ops *ret, struct pl_err *err);
    /* Whose worker token this is: a reference for the caller. PL_EAUTH: nobody's; PL_EBUSY: it is not known yet which workers
     * there are. Of one that is gone: a principal without project. Any thread, never blocks. */
    int (*worker)(void *self, const char *token, struct pl_principal **ret, struct pl_err *err);
};

struct pl_engine_config {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_stage_logs *logs;
    struct pl_loop *loop;
    struct pl_pool *pool;
    const uint8_t *master_key; /* 32 bytes: workers' tokens are made from it */
    uint64_t epoch;            /* of this start of the daemon: ids given out are above epoch << 32 */
    int64_t linger_ms;         /* 0 = the scheduler's default */
    /* A request of a worker is refused as not its own (PL_EFORBIDDEN): for the audit. Loop; does not block. */
    void (*refused)(void *arg, const struct pl_http_request *req);
    void *refused_arg;
    /* It cannot go on: the daemon must end. Loop; once. */
    void (*failed)(void *arg, const char *what);
    void *failed_arg;
};

PL_MUST_CHECK
int pl_engine_create(const struct pl_engine_config *config, struct pl_engine **ret, struct pl_err *err);
/* By whom it starts workers; outlives the engine. Before the API runs, whose requests ask it, too. */
void pl_engine_take_executor(struct pl_engine *e, struct pl_executor *executor);
/* Restores what the last life left, and begins. On the loop's thread or before it runs. */
PL_MUST_CHECK
int pl_engine_start(struct pl_engine *e, struct pl_err *err);
/* The executor's reports go here. */
struct pl_executor_events pl_engine_executor_events(struct pl_engine *e);
/* What the API asks (self = the engine). */
const struct pl_engine_ops *pl_engine_api_ops(void);
/* Routes of the workers' protocol; args are the engine. */
const struct pl_http_route *pl_engine_routes(struct pl_engine *e, size_t *ret_n);
/* Nothing new is planned, leased or started; `drained(arg)` on the loop when no plan, task or commit is under way. */
void pl_engine_drain(struct pl_engine *e, void (*drained)(void *arg), void *arg);
/* Answers every worker that waits for a task: nothing now; from now on what the API asks is answered PL_ESTOPPING, or nothing. Before
 * the API stops, so that it need not wait for them. */
void pl_engine_hang_up(struct pl_engine *e);
/* It decides nothing any more and lets go of the database, which is about to close. NULL is fine. */
void pl_engine_detach(struct pl_engine *e);
/* After the API stopped and nothing is posted any more, before the loop is destroyed. */
struct pl_engine *pl_engine_destroy(struct pl_engine *e);
