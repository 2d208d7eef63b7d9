/* exec: The interface of executors: start and stop workers, secrets, container logs, GPUs.
 *
 * In:      Orders of the engine.
 * Out:     Events: a worker started, exited, or waits and why.
 * Uses:    net/{loop, server}, policy, sched, spec, storage/base
 * Threads: The event loop.
 *
 * An executor starts workers: `local` as child processes of this machine, `kubernetes` as pods. The scheduler
 * decides; the executor carries out and reports, and makes no scheduling decisions. Every function and event
 * runs on the loop's thread, unless its comment says otherwise. */
#pragma once

#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "pipelined/policy/container_log_request.h"
#include "pipelined/policy/project_secret.h"
#include "pipelined/sched/sched.h"
#include "pipelined/spec/spec.h"
#include "storage/base/err.h"
#include <jansson.h>

#define PL_EXECUTOR_GRACE_MS   5000
#define PL_EXEC_GPUS_MAX       64
#define PL_EXEC_POD_NAME_BYTES 64
#define PL_EXECUTOR_NOT_HELD   1280 /* size of the buffer into which pl_executor_ops.not_held writes a sentence */

struct pl_executor;

/* Describes a worker to start or to adopt. Pointers are valid only during the call, except `project`, `stage`,
 * `pipeline`, `run` and `def`, which stay valid until the worker's `exited` event. */
struct pl_worker_spec {
    uint64_t id;
    const char *name; /* the id as text, for the agent's option --worker */
    const char *project, *stage;
    /* of a worker to start: its pipeline, and the id of the run for which it is started; else NULL */
    const char *pipeline, *run;
    /* the stage's definition; NULL: an adopted worker of a deleted stage, which is stopped at once */
    const struct pl_stage *def;
    uint64_t version; /* version number of the stage */
    /* pods only: true = the worker gets the stage's GPUs, false = it is a pod of the stage's variant without
     * GPUs */
    bool gpu;
    /* the project forbids network access: the command gets no network, even if the stage requests it */
    bool network_off;
    const char *const *avoid; /* pods only: names of nodes to avoid while other nodes can take the pod */
    size_t n_avoid;
    const char *token;    /* bearer token that only this worker uses */
    const uint16_t *gpus; /* GPU slots that the scheduler reserved for this worker; none for a CPU worker */
    size_t n_gpus;
    uint32_t cpu_milli;
    uint64_t memory_bytes; /* 0 = no limit */
    uint64_t disk_bytes, shm_bytes;
    /* size in bytes of the largest datum that the stage has had so far; the worker needs that much disk space
     * in addition to `disk_bytes`; 0 = unknown */
    uint64_t input_bytes;
};

struct pl_executor_capacity {
    uint64_t cpu_milli;
    uint64_t memory_bytes; /* memory of this machine in bytes; 0 = memory is not counted */
    uint32_t gpu_slots;
    uint32_t gpu_offered;
};

/* Requests to the cluster's API server since the start, and those that wait or run now. */
struct pl_executor_calls {
    uint64_t requests, retries, throttled; /* throttled: replies with status 429 */
    size_t waiting, running;
};

/* How a worker ended. */
struct pl_executor_end {
    const char *text; /* reason as text: "exit code 1", "killed by signal 9" */
    /* as in event WORKER_EXITED (sched.h): `hopeless` = another worker would fail in the same way; `counts` =
     * the user's command ended the worker; `exit`: how it ended otherwise */
    bool hopeless, counts;
    enum pl_sched_exit exit;
};

/* Why workers can be neither started nor watched. */
struct pl_executor_outage {
    const char *text; /* names the server and what it says; borrowed until the loop's next turn */
    int code;         /* PL_EUNAVAILABLE, or PL_EFORBIDDEN if the daemon has lost the right to do so */
    int64_t since_us; /* wall clock */
};

/* Callbacks by which the executor reports to the engine. */
struct pl_executor_events {
    void *self;
    void (*started)(void *self, uint64_t id, const char *host, int64_t pid, int64_t pid_start);
    /* The worker is certainly gone, with all its processes. Called exactly once for each worker that was
     * started or adopted. */
    void (*exited)(void *self, uint64_t id, const struct pl_executor_end *end);
    /* Pods, and local workers that wait for their image; `shape`: pods only. The engine turns these reports into the
     * scheduler's events WORKER_PLACED (with the node that accepted the pod), WORKER_WAITS and SHAPE. Never called within
     * `start` or `adopt`. */
    void (*placed)(void *self, uint64_t id, const char *node, bool up);
    void (*waits)(void *self, uint64_t id, const char *text);
    void (*shape)(void *self, const struct pl_sched_shape *shape);
    /* The cluster's nodes have changed: the engine must call `shape` again for every stage. Never called
     * within another call. */
    void (*reshape)(void *self);
    /* Returns true if a stage or a worker of the engine uses the pod shape; the executor forgets pod shapes
     * for which it returns false. Called in a separate iteration of the event loop. NULL: no shape is ever
     * forgotten. */
    bool (*has_shape)(void *self, uint64_t id);
    /* Returns true if the worker has attached. Called for pods only, in a separate iteration of the event
     * loop. NULL: all workers count as attached. */
    bool (*has_come)(void *self, uint64_t id);
    /* Pods only: reports the image in which the worker's command runs, as the node resolved it
     * ("debian@sha256:…"). Called before the report that the pod is up or has ended. NULL: images are not
     * reported. */
    void (*image)(void *self, uint64_t id, const char *image);
    /* Pods only: reports what an adopted pod that waits for a node requires of it (the scheduler's event
     * WORKER_NEEDS). Never called within `adopt`. NULL: not reported. */
    void (*needs)(void *self, uint64_t id, uint64_t needs);
    /* Returns true if the project forbids network access. Called for stages without a worker, to check them
     * or to find their shape; for a worker, pl_worker_spec.network_off says so. NULL: no project forbids
     * it. */
    bool (*network_off)(void *self, const char *project);
    /* Pods only: the cluster takes the worker's pod away, which still runs (preempted, drained, deleted), for
     * this reason; "": it does not any more. NULL: not reported. */
    void (*leaves)(void *self, uint64_t id, const char *why);
};

/* Result of checking whether workers of a stage could be started. Each text is "" if there is nothing to
 * report. */
struct pl_executor_check {
    /* reason, in the cluster's words, why no node could take a worker of the stage */
    char not_offered[1024];
    bool on_cpu; /* `not_offered` holds for the stage's GPUs alone: its workers run on CPUs meanwhile */
    /* reason why the cluster did not answer, so that the stage is not checked */
    char not_checked[1024];
    /* reason why the stage's command cannot start on this machine as it is now, such as a missing program */
    char cannot_start[1024];
    /* reason why the stage's image cannot be used, although the stage requires it: its commands would run with this
     * machine's files, which no new stage may */
    char no_image[512];
    /* sentence that says which of the stage's `resources` are not enforced; workers can run nevertheless */
    char not_held[PL_EXECUTOR_NOT_HELD];
    /* set by the caller before `ask`: the cluster did not answer an earlier check, so `ask` must not query
     * the cluster; set by `ask`: the cluster did not answer this check */
    bool away;
    char *body;    /* private state that the executor passes from `check` to `ask` */
    char own[512]; /* why the containers of pipelined itself cannot be admitted; "" = no such reason is known */
    char name[64];
    uint64_t number;
};

struct pl_executor_ops {
    const char *name; /* name of the executor: "local" or "kubernetes" */
    /* Starts a worker. If this fails, nothing runs and `exited` is not called. PL_ESTAGE: every other worker of the
     * stage would fail in the same way. */
    int (*start)(struct pl_executor *x, const struct pl_worker_spec *spec, struct pl_err *err);
    /* Stops a worker. `kill`: kills it at once, with every process that it started; otherwise asks it to
     * return its task and end. If the executor does not know the id, it reports `exited`. */
    void (*stop)(struct pl_executor *x, uint64_t id, bool kill);
    /* Adopts a worker that an earlier run of the daemon started: watches it if it is still alive; otherwise
     * reports `exited` later, not within the call. */
    void (*adopt)(struct pl_executor *x, const struct pl_worker_spec *spec, int64_t pid, int64_t pid_start);
    /* Returns the id of the pod shape (sched.h) of the stage, with or without its GPUs. Each call also
     * reports the shape itself by the event `shape`, possibly within the call. If no pod can be made of the
     * stage, its shape is reported as not offered, with the reason. NULL: workers are processes and use the
     * machine's capacity. PL_ENOMEM. */
    int (*shape)(struct pl_executor *x, const char *project, const struct pl_stage *def, uint64_t version, bool gpu,
                 uint64_t *ret, struct pl_err *err);
    /* Begins to check whether workers of the stage could be started. The local executor completes `ret` at
     * once and leaves `ret->body` NULL. If `ret->body` is set after a return of 0, the caller must call
     * `ask`, which releases it. PL_EINVAL, PL_EFORBIDDEN: no pod can be made of the stage, or the sandbox does not
     * show one of its programs; the error has the path of the field in the spec. */
    int (*check)(struct pl_executor *x, const char *project, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                 struct pl_err *err);
    /* Completes a check: waits at most a few seconds for the cluster's answer. If the field `away` is set, it
     * does not wait and sets `not_checked`. PL_EINVAL: the cluster refuses the pod; the error has the
     * cluster's words. Must not be called on the loop's thread, nor after `destroy`. */
    int (*ask)(struct pl_executor *x, struct pl_executor_check *check, struct pl_err *err);
    /* Removes the work folders and cgroups that workers of earlier daemon runs left, for example a worker
     * that was killed before it was recorded. Does not block: the folders of a worker are removed later, once
     * no process of that worker is left. Call it after all workers on record have been adopted. Reports
     * nothing. May be NULL. */
    void (*sweep)(struct pl_executor *x);
    /* Reads or changes the secrets of a project (project_secret.h). The caller must have checked `op`; `ret`
     * may be NULL for operations without a result. Not on the loop's thread; blocks. Errors as for
     * pl_secret_files. */
    int (*secrets)(struct pl_executor *x, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    /* Opens a stream of the output of one container, in the pod of one of the `n` workers in `workers`. The
     * caller must have checked `ask`. `ask` is borrowed during the call, but `ask->self` must stay valid
     * until the stream is closed. The caller closes `*ret` exactly once, possibly after `destroy`; `pull`
     * never blocks. If the log cannot be read, `pull` fails before its first bytes, with the API server's
     * words. PL_ENOTFOUND: no such pod; PL_EINVAL: several pods match, and the error names them;
     * PL_EFORBIDDEN. NULL: workers do not run in containers. */
    int (*container_log)(struct pl_executor *x, const uint64_t *workers, size_t n, const struct pl_container_log_request *ask,
                         struct pl_http_stream_ops *ret, struct pl_err *err);
    void (*capacity)(struct pl_executor *x, struct pl_executor_capacity *ret);
    /* Returns the number N of the device /dev/nvidiaN of a GPU slot. NULL if workers are pods. */
    unsigned (*device)(struct pl_executor *x, uint32_t slot);
    /* Returns true if workers can be neither started nor watched at present. NULL: they always can. */
    bool (*outage)(struct pl_executor *x, struct pl_executor_outage *ret);
    /* Returns the name of the worker's pod, borrowed; "" if it is not known (any more). NULL: workers are no pods. */
    const char *(*pod_name)(struct pl_executor *x, uint64_t id);
    /* Tells the cluster's operators that something went wrong, where they look for that. `reason`: a word in CamelCase,
     * a string literal. `message`: "?" is written for what is not UTF-8. Cannot fail. NULL: there is no such place. */
    void (*tell)(struct pl_executor *x, const char *reason, const char *message);
    /* Chooses the GPU slots that meet a stage's GPU request; see pl_gpu_slots_choose. NULL if workers are
     * pods. */
    int (*choose_gpus)(struct pl_executor *x, const struct pl_gpu *want, uint16_t slots[PL_EXEC_GPUS_MAX], char *why,
                       size_t why_size);
    /* Returns a report on the GPUs as a new reference: for one machine as pl_gpu_slots_json writes it, for a
     * cluster {"node", "driver", "gpus": [], "nodes": as pl_gpu_report_json}. */
    json_t *(*gpus)(struct pl_executor *x);
    /* Returns true if some of the stage's `resources` are not enforced for its workers; `out` then says in
     * one sentence which are not enforced, why, and what the operator can do about it. NULL: all are
     * enforced. */
    bool (*not_held)(struct pl_executor *x, const struct pl_stage *def, char out[PL_EXECUTOR_NOT_HELD]);
    /* Returns true if commands of the stage, which names an image, run in it as things are now. NULL: they never do, or the
     * executor's workers are pods. */
    bool (*runs_image)(struct pl_executor *x, const struct pl_stage *def);
    /* Returns which resource limits this machine enforces: {"held", "not_held": names of cgroup controllers
     * as text, "folder"?, "why"?, "remedy"?}, a new reference. NULL: the cluster enforces the limits. */
    json_t *(*limits)(struct pl_executor *x);
    /* Returns how the sandboxes of this machine's workers look, as pl_worker_env_json writes it, a new
     * reference. NULL: workers are pods. */
    json_t *(*sandbox)(struct pl_executor *x);
    /* Counts the requests to the cluster. NULL: there is no cluster. */
    void (*calls)(struct pl_executor *x, struct pl_executor_calls *ret);
    /* Reports how the worker's GPUs were used since the last call for this worker, measured from outside the
     * worker: mean utilisation in per cent, and the peak of their used memory in bytes. Returns false if
     * nothing is known. NULL: workers measure the use themselves. */
    bool (*gpu_use)(struct pl_executor *x, uint64_t id, double *ret_utilisation, int64_t *ret_mem_peak_bytes);
    /* Ends all workers and starts no more. `kill`: kills them at once; otherwise asks them to end and kills
     * them after PL_EXECUTOR_GRACE_MS. Calls `done(arg)` once when all workers are gone, possibly within the
     * call. A second call with `kill` kills the remaining workers at once. */
    void (*shutdown)(struct pl_executor *x, bool kill, void (*done)(void *arg), void *arg);
    /* Frees the executor. Only after `done` was called. */
    void (*destroy)(struct pl_executor *x);
};

struct pl_executor {
    const struct pl_executor_ops *ops;
};

static inline struct pl_executor *pl_executor_destroy(struct pl_executor *x)
{
    if (x)
        x->ops->destroy(x);
    return NULL;
}
