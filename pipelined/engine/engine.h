/* engine: Carries out what the scheduler decides: stages, jobs, results, workers, completion.
 *
 * In:      Runs from the database, requests of agents, exits from the executor.
 * Out:     Transactions, leases, starts and stops of workers.
 * Uses:    db/{gc, pipelines, stage_log, tx, writer}, exec, gpus, merge, metrics, plan, policy, sched, text,
 *          net/{agent_protocol, loop, server}, storage/{base, pack, store, system, tree, tree_edit}, storage/dataset/commit
 * Threads: The event loop; plans and merges on the pool.
 *
 * Inside:
 *   attempt_row        rows of table `attempt`
 *   completion         ends of jobs and runs, written in order
 *   datum_checkpoints  checkpoints of datums by datum key
 *   engine_gpus        who holds the GPUs, and their history
 *   engine_internal    state shared by the engine's files
 *   engine_metrics     figures for /metrics
 *   engine_restore     restores jobs and workers after a start
 *   engine_stages      loads stages from the database
 *   job_attempts       attempts and losses of unfinished jobs
 *   job_base_commit    the base commit for incremental planning
 *   job_commit         commits a job's outputs
 *   job_full_plan      replans a job in full for comparison
 *   job_plan           plans a job
 *   job_results        results reported by workers
 *   job_save           saves the rows of unfinished jobs
 *   loss_log           writes the losses of workers into jobs' logs
 *   retry_queue        retries work refused by a full pool or database
 *   worker_api         agent protocol routes
 *   worker_principal   makes and checks the tokens of workers
 *   worker_record      history of workers: node, time, cause of the end
 *   worker_tokens      worker tokens and their principals
 *   workers            starts and stops workers, answers their `next` */

/* engine: carries out what the scheduler decides. It feeds the scheduler (room sched) with events: runs from
 * the database, results from workers, exits from the executor. It turns the scheduler's actions into plans,
 * leases, commits and database rows.
 *
 * database ──runs──▶┌────────┐──PLAN──▶ pool: enumerate, look up ──────▶ JOB_PLANNED
 * workers ─results─▶│ engine │──LEASE─▶ database: lease ──▶ answer to the worker's `next`
 * executor ─exits──▶│ (loop) │──COMMIT▶ pool: merge, trees, packs ──▶ database: commit, job ─▶ JOB_COMMITTED
 *                   └────────┘──START/STOP_WORKER──▶ executor
 *
 * All state lives on the event loop's thread. Work on the pool gets references to objects that do not change
 * (plans, stages). Whatever a restart must know is in the database before the engine acts on it: the inputs
 * of a plan before any lease, a lease before its worker hears of it, results before they are acknowledged. */
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
struct pl_metric_text;
struct pl_spec;

/* Calls that the API makes into the running engine. `self` is the engine. */
struct pl_engine_ops {
    /* Called after a transaction has created a run (by a push, or for a pipeline): schedules the run. Any
     * thread, never blocks. */
    void (*run_created)(void *self, const char *run);
    /* Called after a pipeline was created, updated or deleted: reads its stages again, and then schedules
     * `run` if it is not "". Blocks: call it on the pool, without holding a database reader. */
    void (*pipelines_changed)(void *self, const char *run);
    /* Called after the project's network may have been switched on or off: workers that were started with the
     * other setting get no more tasks. Blocks: call it on the pool, without holding a database reader. */
    void (*network_changed)(void *self, const char *project);
    /* Stops a run, or only the job of one stage (`stage` not NULL). PL_ENOTFOUND, PL_EBUSY. Blocks: call it
     * on the pool, without holding a database reader. */
    int (*stop)(void *self, const char *run, const char *project, const char *stage, const char *why, struct pl_err *err);
    /* Checks whether the executor could run workers of the spec's stages. A problem that may go away is
     * appended to the list `warnings`; with `strict` it is the error PL_EUNAVAILABLE. PL_EINVAL,
     * PL_EFORBIDDEN, PL_EUNAVAILABLE: a stage can never have a worker; the message names the path of the
     * field in the spec. Blocks, for some seconds in all if the cluster does not answer: call it on the pool,
     * without holding a database reader. */
    int (*check_stages)(void *self, const struct pl_spec *spec, bool strict, json_t *warnings, struct pl_err *err);
    /* Returns live figures, a new reference: {"workers": […], "gpus": {…}, "queue": {…}, and what
     * the executor says of "limits" and "sandbox"}. Blocks: call it on
     * the pool, without holding a database reader. */
    json_t *(*live)(void *self);
    /* Returns the jobs that wait for resources, in the order in which they are served, and the report on the GPUs:
     * {"queue": [entries as gpus/gpu_queue.h describes them, with "reason"], "gpus"}, a new reference. `run` not NULL: only
     * the job of that run, project and stage, if it waits. Blocks: call it on the pool, without holding a database reader. */
    json_t *(*queue)(void *self, const char *run, const char *project, const char *stage);
    /* Returns the newest spans of the GPUs' history, which may not be in table gpu_span yet, oldest first, a new reference
     * (gpus/gpu_ledger.h): the last one goes up to now. An empty list if there are no GPUs. Blocks: call it on the pool,
     * without holding a database reader. */
    json_t *(*gpu_spans)(void *self);
    /* Returns true if workers can be neither started nor watched at present (exec.h); texts live until the loop's next
     * turn. On the loop. NULL: never. */
    bool (*outage)(void *self, struct pl_executor_outage *ret);
    /* Returns the live progress of an unfinished job: {"waiting", "leased", "done", "failed", "workers",
     * "device"?}; NULL if the scheduler does not have the job. Blocks: call it on the pool, without holding a
     * database reader. */
    json_t *(*job_live)(void *self, const char *run, const char *project, const char *stage);
    /* Writes the metrics of jobs, datums, tasks, workers, stages and the cluster, from PL_METRIC_RUNS on
     * (metrics/metric_list.h). PL_ESTOPPING, PL_ENOMEM. Blocks: call it on the pool, without holding a database
     * reader. */
    int (*metrics)(void *self, struct pl_metric_text *t, struct pl_err *err);
    /* Stores, lists, reads or removes secrets of a project (policy/project_secret.h). `ret` may be NULL if the
     * operation has no result. Blocks: call it on the pool, without holding a database reader. */
    int (*secrets)(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    /* Opens a stream of the output of one container of the stage's pods, as `container_log` of an executor
     * does. PL_EUNAVAILABLE: workers are not containers. Blocks: call it on the pool, without holding a
     * database reader. */
    int (*container_log)(void *self, const char *project, const char *stage, const struct pl_container_log_request *ask,
                         struct pl_http_stream_ops *ret, struct pl_err *err);
    /* Finds the worker to which the token belongs; `ret` is a new reference to its principal. A worker that
     * is gone gets a principal without a project. PL_EAUTH: not a worker's token; PL_EBUSY: the daemon has
     * just started and the workers are not restored yet. Any thread, never blocks. */
    int (*worker)(void *self, const char *token, struct pl_principal **ret, struct pl_err *err);
};

struct pl_engine_config {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_stage_logs *logs;
    struct pl_loop *loop;
    struct pl_pool *pool;
    const uint8_t *master_key; /* secret key of 32 bytes, from which the workers' tokens are derived */
    /* number of this start of the daemon; ids that this start assigns are above epoch << 32 */
    uint64_t epoch;
    int64_t linger_ms; /* time that an idle worker is kept; 0 = the scheduler's default */
    /* Called when a request is refused because it names another worker than its token does (PL_EFORBIDDEN);
     * used for the audit log. On the loop; must not block. */
    void (*refused)(void *arg, const struct pl_http_request *req);
    void *refused_arg;
    /* Called once if the engine cannot continue; the daemon must then end. On the loop. */
    void (*failed)(void *arg, const char *what);
    void *failed_arg;
};

/* Creates the engine with its routes. The engine schedules nothing before pl_engine_start. */
PL_MUST_CHECK
int pl_engine_create(const struct pl_engine_config *config, struct pl_engine **ret, struct pl_err *err);
/* Sets the executor that starts workers; it must outlive the engine. Call this before the API runs, because
 * API requests use the executor. */
void pl_engine_take_executor(struct pl_engine *e, struct pl_executor *executor);
/* Restores what an earlier start of the daemon left, and begins to schedule. On the loop's thread, or before
 * the loop runs. */
PL_MUST_CHECK
int pl_engine_start(struct pl_engine *e, struct pl_err *err);
/* Returns the callbacks through which the executor reports to the engine. */
struct pl_executor_events pl_engine_executor_events(struct pl_engine *e);
/* Returns the API's calls into the engine (self = the engine). */
const struct pl_engine_ops *pl_engine_api_ops(void);
/* Returns the routes of the agent protocol; the engine is the argument of their handlers. The routes live as
 * long as the engine. */
const struct pl_http_route *pl_engine_routes(struct pl_engine *e, size_t *ret_n);
/* Begins to drain: from now on nothing new is planned, leased or started. Calls `drained(arg)` on the loop
 * when no plan, task or commit is in progress. */
void pl_engine_drain(struct pl_engine *e, void (*drained)(void *arg), void *arg);
/* Answers all open requests of workers with "nothing now". From now on calls of the API return PL_ESTOPPING
 * or nothing. Call this before the API stops, so that the API need not wait for these requests. */
void pl_engine_hang_up(struct pl_engine *e);
/* Stops all decisions of the engine and releases its database reader. Call this before the database closes.
 * NULL is allowed. */
void pl_engine_detach(struct pl_engine *e);
/* Frees the engine. Call this after the API has stopped and nothing is posted to the loop any more, and
 * before the loop is destroyed. NULL is allowed. */
struct pl_engine *pl_engine_destroy(struct pl_engine *e);
