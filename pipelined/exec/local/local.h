/* exec/local: Workers as child processes of this machine, GPUs as slots, secrets as files.
 *
 * In:      Orders of the engine.
 * Out:     Processes and their exits.
 * Uses:    exec, policy, spec, net/loop, storage/{base, system}
 * Threads: The event loop.
 *
 * Inside:
 *   gpu_slots       GPUs of this machine and which of them meet a stage's request
 *   nvml            reads GPUs through NVIDIA's management library
 *   orphan_sandbox  kills sandboxes whose agent is gone
 *   sandbox_probe   tests whether bubblewrap works here
 *   secret_files    project secrets as files of this machine
 *   worker_limits   limits of a worker's cgroup, and which do not hold
 *   workers_log     DIR/logs/workers.log, rotated */

/* local: workers as child processes of this machine, GPUs as slots, secrets as files. */
#pragma once

#include "pipelined/exec/exec.h"

struct pl_exec_local_config {
    struct pl_loop *loop;
    const char *data_dir;  /* DIR: work/, cache/, pipelined.url are below */
    const char *store_dir; /* the file store's folder, "" when the store is elsewhere */
    const char *ca;        /* certificates (PEM) for the bucket behind the store, "" = the machine's */
    const char *program;   /* pipelined-worker; NULL = beside this program */
    const char *sandbox;   /* "bwrap" or "none" */
    int gpus;              /* slots; -1 = as NVML says (0 without it) */
    struct pl_executor_events events;
};

/* PL_EINVAL (sandbox), PL_ENOTFOUND (the agent's program), PL_EUNAVAILABLE (bubblewrap does not work here). */
PL_MUST_CHECK
int pl_exec_local_create(const struct pl_exec_local_config *config, struct pl_executor **ret, struct pl_err *err);
