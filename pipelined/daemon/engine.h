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

#include "pipelined/api/api.h"
#include "pipelined/exec/executor.h"

struct pl_engine;

struct pl_engine_config {
    struct pl_db *db;
    struct pl_stores *stores;
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
