/* exec: The interface of executors: start and stop workers, secrets, container logs, GPUs.
 *
 * In:      Orders of the engine.
 * Out:     Events: started, exited, waits because.
 * Uses:    net/{loop, server}, policy, sched, spec, storage/base
 * Threads: The event loop. */

/* exec: what starts workers, behind one interface: `local` (child processes of this machine), `kubernetes` (pods). The scheduler
 * decides, the executor carries out and reports; it holds no decisions of its own. Everything here happens on the loop's thread. */
#pragma once

#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "pipelined/policy/container_log_request.h"
#include "pipelined/policy/project_secret.h"
#include "pipelined/sched/sched.h"
#include "pipelined/spec/spec.h"
#include "storage/base/err.h"
#include <jansson.h>

#define PL_EXECUTOR_GRACE_MS 5000
#define PL_EXEC_GPUS_MAX     64
#define PL_EXECUTOR_NOT_HELD 1280 /* bytes of that sentence */

struct pl_executor;

/* What a worker is started with. Borrowed for the call, but for project, stage and def: until `exited`. */
struct pl_worker_spec {
    uint64_t id;
    const char *name; /* the id as text: --worker */
    const char *project, *stage;
    const struct pl_stage *def; /* NULL: an adopted one whose stage is no more; it is stopped at once */
    uint64_t version;           /* of the stage */
    bool gpu;                   /* of a pod: it gets the stage's GPUs */
    bool network_off;           /* its project has the network off: the command gets none, whatever the stage says */
    const char *const *avoid;   /* nodes that a pod should not go to while there are others */
    size_t n_avoid;
    const char *token;    /* of this worker alone */
    const uint16_t *gpus; /* slots, exclusively its own; none for a CPU worker */
    size_t n_gpus;
    uint32_t cpu_milli;
    uint64_t memory_bytes; /* 0 = no limit */
    uint64_t disk_bytes, shm_bytes;
    uint64_t input_bytes; /* of the largest datum that its stage has had, beside `disk_bytes`; 0 = not known */
};

struct pl_executor_capacity {
    uint64_t cpu_milli;
    uint64_t memory_bytes; /* 0 = not counted */
    uint32_t gpu_slots;
    uint32_t gpu_offered;
};

/* How a worker ended. */
struct pl_executor_end {
    const char *text;      /* "exit code 1", "killed by signal 9" */
    bool hopeless, counts; /* as WORKER_EXITED of the scheduler says */
};

/* What the engine is told. */
struct pl_executor_events {
    void *self;
    void (*started)(void *self, uint64_t id, const char *host, int64_t pid, int64_t pid_start);
    /* It is gone for certain, with all its processes: exactly once for each that was started or adopted. */
    void (*exited)(void *self, uint64_t id, const struct pl_executor_end *end);
    /* Of pods: WORKER_PLACED, with the node that took it; WORKER_WAITS; SHAPE. Not within a call of `start` or `adopt`. */
    void (*placed)(void *self, uint64_t id, const char *node, bool up);
    void (*waits)(void *self, uint64_t id, const char *text);
    void (*shape)(void *self, const struct pl_sched_shape *shape);
    /* What the cluster has is another: of each stage the shape is to be asked for anew. Not within a call. */
    void (*reshape)(void *self);
    /* Does a stage or a worker have that shape? One that none has is forgotten. Asked in a turn of the loop of its own; NULL: none ever is. */
    bool (*has_shape)(void *self, uint64_t id);
    /* Has the worker attached? Asked of pods alone, in turns of the loop of their own; NULL: all have. */
    bool (*has_come)(void *self, uint64_t id);
    /* Of pods: the image that the command runs in, as its node resolved it ("debian@sha256:…"): before it is told that it is up, or that it ended. NULL:
     * nobody wants to know. */
    void (*image)(void *self, uint64_t id, const char *image);
    /* Of pods that were adopted and wait for a node: WORKER_NEEDS. Not within a call of `adopt`. NULL: nobody wants to know. */
    void (*needs)(void *self, uint64_t id, uint64_t needs);
    /* Has the project its network off? Asked of pods that are no worker's yet; of a worker its pl_worker_spec says it. NULL: none has. */
    bool (*network_off)(void *self, const char *project);
};

/* Would a stage's workers be taken? Texts are "" where there is nothing to say. */
struct pl_executor_check {
    char not_offered[1024];              /* no node could take one: the cluster's sentence */
    char not_checked[1024];              /* the cluster did not answer the question: why */
    char not_held[PL_EXECUTOR_NOT_HELD]; /* workers are had, but not held to some of their stage's `resources` */
    bool away;  /* given to `ask`: it did not answer the last one, and is asked nothing; set where it does not answer this one */
    char *body; /* the executor's own, between check and ask */
    char name[64];
    uint64_t number;
};

struct pl_executor_ops {
    const char *name; /* "local" */
    /* On failure nothing runs and exited is not called. */
    int (*start)(struct pl_executor *x, const struct pl_worker_spec *spec, struct pl_err *err);
    /* `kill`: at once, with everything it started; else it is asked to give back and end. Unknown ids: exited is called. */
    void (*stop)(struct pl_executor *x, uint64_t id, bool kill);
    /* A worker of the daemon's last life: watched if it still lives, else reported as exited (later, not within the call). */
    void (*adopt)(struct pl_executor *x, const struct pl_worker_spec *spec, int64_t pid, int64_t pid_start);
    /* Where workers are pods: the number of the shape (sched.h) that those of the stage have, with its GPUs or without; what that
     * shape is like is told by the event, each time, also within the call. Of a stage that can be no pod a shape that is not offered, which
     * says why. NULL: workers are processes and take the machine's capacity. PL_ENOMEM. */
    int (*shape)(struct pl_executor *x, const char *project, const struct pl_stage *def, uint64_t version, bool gpu,
                 uint64_t *ret, struct pl_err *err);
    /* Begins to ask whether the stage's workers could be had; on one machine `ret` has the answer then, and there is nothing to
     * `ask`. PL_EINVAL, PL_EFORBIDDEN: no pod can be made of it; each with the field's path. After 0 `ask` ends it where
     * there is a `body`. */
    int (*check)(struct pl_executor *x, const char *project, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                 struct pl_err *err);
    /* Waits for the answer, a few seconds at most; not at all with `away`, of which not_checked tells. PL_EINVAL: the cluster refuses them, in its words. Not on the loop's thread; before
     * `destroy`. */
    int (*ask)(struct pl_executor *x, struct pl_executor_check *check, struct pl_err *err);
    /* All that the daemon's last lives wrote down have been adopted: what they left else, of workers that they were killed before or while
     * writing down, goes once nobody holds it. Nothing is reported. May be NULL. */
    void (*sweep)(struct pl_executor *x);
    /* Secrets of projects (secret.h), checked; `ret` may be NULL where nothing comes of it. Off the loop's thread; blocks. Errors as of
     * pl_secret_files. */
    int (*secrets)(struct pl_executor *x, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    /* What a container of the pod of one of these workers prints; `ask` (but for `self` borrowed) was checked. `*ret` is closed once by the caller, also after
     * `destroy`; its `pull` never blocks; before its first bytes it ends negative where they cannot be had, in the server's words. PL_ENOTFOUND: there is no such pod; PL_EINVAL: there are several, with
     * their names; PL_EFORBIDDEN. NULL: workers are no containers. */
    int (*container_log)(struct pl_executor *x, const uint64_t *workers, size_t n, const struct pl_container_log_request *ask,
                         struct pl_http_stream_ops *ret, struct pl_err *err);
    void (*capacity)(struct pl_executor *x, struct pl_executor_capacity *ret);
    /* N of /dev/nvidiaN behind a slot. */
    unsigned (*device)(struct pl_executor *x, uint32_t slot);
    /* Which slots meet what a stage says of its GPUs: as pl_gpu_slots_choose. NULL where workers are pods. */
    int (*choose_gpus)(struct pl_executor *x, const struct pl_gpu *want, uint16_t slots[PL_EXEC_GPUS_MAX], char *why,
                       size_t why_size);
    /* Of one machine as pl_gpu_slots_json; of a cluster {"node", "driver", "gpus": [], "nodes": as pl_gpu_report_json}. New reference. */
    json_t *(*gpus)(struct pl_executor *x);
    /* Which of the stage's `resources` workers are not held to: true with one sentence that says what, why and the remedy. NULL: they are held. */
    bool (*not_held)(struct pl_executor *x, const struct pl_stage *def, char out[PL_EXECUTOR_NOT_HELD]);
    /* What of one machine's `resources` holds: {"held", "not_held": names of controllers in words, "folder"?, "why"?, "remedy"?}; new reference.
     * NULL: the cluster sees to it. */
    json_t *(*limits)(struct pl_executor *x);
    /* How the worker's GPUs were used since this was asked of it last, all that it is known from outside: their mean utilisation in per cent, and the
     * most of their memory in use at a time, in bytes. False: nothing is known. NULL: workers measure it themselves. */
    bool (*gpu_use)(struct pl_executor *x, uint64_t id, double *ret_utilisation, int64_t *ret_mem_peak_bytes);
    /* Ends all workers (`kill`: at once, else they are asked first and killed after PL_EXECUTOR_GRACE_MS) and starts no more;
     * `done(arg)` once when all are gone, perhaps within the call. May be called again, harder. */
    void (*shutdown)(struct pl_executor *x, bool kill, void (*done)(void *arg), void *arg);
    /* After `done`. */
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
