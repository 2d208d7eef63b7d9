/* agent/worker: Life of one worker: attach, datums through three threads, end; try without a daemon.
 *
 * In:      Configuration, tasks.
 * Out:     Results.
 * Uses:    agent/{command, connection, inputs, outputs, runner, sandbox}, net/{agent_protocol, http_client}, policy,
 *          sandbox_view, text, storage/{base, pack, store, system}
 * Threads: Three threads: fetch, compute, upload.
 *
 * Inside:
 *   datum_attempt  one attempt at one datum, step by step
 *   datum_flow     datums on their way through the three threads
 *   mesh_proxy     ends a service-mesh proxy of the pod
 *   stage_image    gets a stage's image ready before a worker starts
 *   try_datum      one datum without a daemon
 *   try_shell      an interactive shell in place of the command
 *   try_terminal   a pseudo-terminal for the shell of try
 *   worker_main    main function of the agent */

/* worker: the life of one worker: it attaches, starts sandbox and runner, and processes tasks until the
 * daemon has no more, the agent is told to stop, or the daemon has been away for too long. However the worker
 * ends, none of its processes, mounts or folders remains.
 *
 *   attach ──▶ set up ──▶ ask ──task──▶ fetch ──row──▶ compute ──row──▶ upload ──last row──▶ hand in
 *                          ▲ │end
 *                          └─┘
 *
 * The three threads (datum_flow.h) work on different rows: while one row computes, the next is fetched and
 * the previous one is uploaded. A task is handed in when its outputs are durable and its command output was
 * sent.
 *
 * When the agent is told to stop or a lease is lost, datums ("rows") that were fetched ahead are given back,
 * the command is killed (datum_attempt.h), and running uploads are finished. */
#pragma once

#include "pipelined/agent/sandbox/sandbox.h"
#include "pipelined/policy/policy.h"
#include "storage/pack/chunk_reader.h"
#include <stdatomic.h>

/* what to do if an agent in a pod does not reach the daemon */
#define PL_WORKER_POD_REMEDY "check worker_url in the daemon's configuration, its Service, DNS and NetworkPolicies"

struct pl_worker_config {
    const char *url, *url_file, *token, *name;
    /* folder of the daemon's store, if this machine can read it directly; NULL = read over HTTP */
    const char *store_dir;
    /* PEM file of the CA certificates for daemon and bucket; NULL = the system's certificates */
    const char *ca;
    const char *incarnation; /* identifies this start of the worker */
    const char *work;        /* absolute path without links of the work folder; created and removed */
    const char *cache;       /* folder of the cache of whole files; NULL = none */
    const char *runner;      /* absolute path of pl-runner */
    const char *next;        /* absolute path of pl-next */
    const char *extra_ro;
    const char *secrets;          /* folder of the project's secrets; NULL = none on this machine */
    const struct pl_image *image; /* the image in which the command runs; NULL = none, as in a pod */
    const char *cgroup;           /* cgroup folder of the sandbox, with the stage's limits; NULL = none */
    enum pl_sandbox_mode sandbox;
    bool one_by_one; /* for measurements: fetch and upload nothing while a command runs */
    /* time in ms after which an output file that has not changed is uploaded while the command still runs
     * (early_upload.h); 0 = no early uploads */
    int64_t early_ms;
    int held_fd; /* descriptor that stays open until no process of this worker is left; 0 = none */
    /* GPU devices, if the daemon does not assign any */
    size_t n_gpus;
    unsigned gpus[PL_AGENT_PROTOCOL_GPUS_MAX];
    /* For a worker without a daemon's lease (try_datum.h): prints command output on standard output, reads
     * from this store first and then from the daemon at `url` (if not NULL), and writes only to this store.
     * NULL = a daemon's worker. */
    struct pl_store *alone;
};

struct pl_worker;
struct pl_datum_context;
struct pl_store;
struct pl_agent_protocol_attach;
struct pl_agent_protocol_outcome;
struct pl_agent_protocol_task;

/* Creates a worker without contacting the daemon. `config` is copied; the objects that its pointers refer to
 * are borrowed. PL_EINVAL, PL_ENOMEM, PL_EIO, PL_EUNAVAILABLE. */
PL_MUST_CHECK
int pl_worker_create(const struct pl_worker_config *config, struct pl_worker **ret, struct pl_err *err);
/* Runs the worker to its end. 0: it ended as planned. PL_EUNAVAILABLE: the sandbox cannot be started or was
 * ended from outside. PL_ENET and other errors of the daemon: it is away or refuses this worker. */
PL_MUST_CHECK
int pl_worker_run(struct pl_worker *w, struct pl_err *err);
/* For a worker with config->alone: sets up for `stage` (taken over, also on failure) and runs the task.
 * `outcomes` has an element for each datum of the task; the caller finishes each. `by_hand` as in
 * datum_attempt.h. Errors as for pl_worker_run. */
PL_MUST_CHECK
int pl_worker_run_alone(struct pl_worker *w, struct pl_agent_protocol_attach *stage, const struct pl_agent_protocol_task *task,
                        int (*by_hand)(const struct pl_datum_context *c, const char *const *env, const char *cwd,
                                       struct pl_agent_protocol_outcome *o, struct pl_err *err),
                        struct pl_agent_protocol_outcome *outcomes, struct pl_err *err);
/* Returns the reader that the worker uses; valid as long as the worker. */
struct pl_chunk_reader pl_worker_reader(struct pl_worker *w);
/* After pl_worker_run: true if something outside ended the sandbox. The program then exits with
 * PL_WORKER_EXIT_SANDBOX. */
bool pl_worker_sandbox_lost(const struct pl_worker *w);
/* Makes the worker end soon: gives back what cannot be finished within PL_DATUM_GRACE_MS. May be called in a
 * signal handler. */
void pl_worker_stop(struct pl_worker *w);
/* Stops the runner, frees everything and removes the work folder. */
struct pl_worker *pl_worker_destroy(struct pl_worker *w);
