/* agent/worker: Life of one worker: attach, datums through three threads, end; try without a daemon.
 *
 * In:      Configuration, tasks.
 * Out:     Results.
 * Uses:    agent/{command, connection, inputs, outputs, runner, sandbox}, net/{agent_protocol, http_client}, policy,
 *          text, storage/{base, pack, store, system}
 * Threads: Three threads: fetch, compute, upload.
 *
 * Inside:
 *   datum_attempt  one attempt at one datum, step by step
 *   datum_flow     datums on their way through the three threads
 *   mesh_proxy     ends a service-mesh proxy of the pod
 *   try_datum      one datum without a daemon
 *   try_shell      an interactive shell in place of the command
 *   try_terminal   a pseudo-terminal for the shell of try
 *   worker_main    main function of the agent */

/* worker: one worker's life: attach, sandbox and runner up, then task after task until the daemon says end, the agent is told to end,
 * or the daemon has been away for too long. Whatever the end, no process, mount or folder of it is left.
 *
 *   attach ──▶ set up ──▶ ask ──task──▶ fetch ─┐ row by row   ┌─▶ compute ─┐ row by row   ┌─▶ upload ──last row──▶ outputs durable,
 *                          ▲ │end              └──────────────┘            └──────────────┘                      output sent, handed in
 *                          └─┘ three threads (flow.h): the next row is fetched and the last one uploaded while one computes
 *
 * Told to end, or the lease lost: what was fetched ahead is given back, what computes is killed (datum.h), what is uploaded is finished. */
#pragma once

#include "pipelined/agent/sandbox/sandbox.h"
#include "pipelined/policy/policy.h"
#include "storage/pack/chunk_reader.h"
#include <stdatomic.h>

struct pl_worker_config {
    const char *url, *url_file, *token, *name;
    const char *store_dir;   /* the daemon's store when it is a folder that can be read here; NULL = by HTTP */
    const char *ca;          /* certificates (PEM) by which daemon and bucket must be vouched for; NULL = the machine's */
    const char *incarnation; /* which start of this worker it is */
    const char *work;        /* absolute, without links; made and removed */
    const char *cache;       /* of whole files; NULL = none */
    const char *runner;      /* absolute path of pl-runner */
    const char *next;        /* absolute path of pl-next */
    const char *extra_ro;
    const char *secrets; /* folder of the project's secrets; NULL = there are none here */
    const char *cgroup;  /* folder of the group that its sandbox lives in, with the stage's limits; NULL = none */
    enum pl_sandbox_mode sandbox;
    bool one_by_one;  /* nothing is fetched or uploaded while a command runs: for measurements */
    int64_t early_ms; /* output files left alone for so long are uploaded while the command runs (early.h); 0 = none */
    int held_fd;      /* a pipe's end that is open until no process of this worker is left; 0 = none */
    size_t n_gpus;
    unsigned gpus[PL_AGENT_PROTOCOL_GPUS_MAX];
    /* A worker alone (try.h): no lease, the output of commands on standard output; it reads here first, then at `url` unless NULL,
     * and writes here only. NULL = a daemon's worker. */
    struct pl_store *alone;
};

struct pl_worker;
struct pl_datum_context;
struct pl_store;
struct pl_agent_protocol_attach;
struct pl_agent_protocol_outcome;
struct pl_agent_protocol_task;

PL_MUST_CHECK
int pl_worker_create(const struct pl_worker_config *config, struct pl_worker **ret, struct pl_err *err);
/* 0: ended as wanted. PL_EUNAVAILABLE: the sandbox does not start. PL_ENET and others of the daemon: it is away or refuses us. */
PL_MUST_CHECK
int pl_worker_run(struct pl_worker *w, struct pl_err *err);
/* Of a worker alone: sets up for `stage` (taken over, also on failure) and runs the task; `outcomes` has room for its rows, each to be
 * finished. `by_hand` as in datum.h. As pl_worker_run. */
PL_MUST_CHECK
int pl_worker_run_alone(struct pl_worker *w, struct pl_agent_protocol_attach *stage, const struct pl_agent_protocol_task *task,
                        int (*by_hand)(const struct pl_datum_context *c, const char *const *env, const char *cwd,
                                       struct pl_agent_protocol_outcome *o, struct pl_err *err),
                        struct pl_agent_protocol_outcome *outcomes, struct pl_err *err);
/* What the worker reads; as long as it lives. */
struct pl_chunk_reader pl_worker_reader(struct pl_worker *w);
/* Of one that has run: something outside ended its sandbox. The program's exit code is PL_WORKER_EXIT_SANDBOX then. */
bool pl_worker_sandbox_lost(const struct pl_worker *w);
/* End soon: what cannot be finished in PL_DATUM_GRACE_MS is given back. Also in a signal handler. */
void pl_worker_stop(struct pl_worker *w);
struct pl_worker *pl_worker_destroy(struct pl_worker *w);
