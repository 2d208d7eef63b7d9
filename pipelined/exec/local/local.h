/* exec/local: Workers as child processes of this machine, GPUs as slots, secrets as files.
 *
 * In:      Orders of the engine.
 * Out:     Processes and their exits.
 * Uses:    exec, nvml, policy, sandbox_view, spec, text, net/loop, storage/{base, system}
 * Threads: The event loop.
 *
 * Inside:
 *   gpu_slots       GPUs of this machine and which of them meet a stage's request
 *   orphan_sandbox  kills sandboxes whose agent is gone
 *   sandbox_probe   tests whether bubblewrap works here
 *   secret_files    project secrets as files of this machine
 *   worker_image    gets the images of workers by podman
 *   work_sweep      removes work folders and cgroups of workers
 *   worker_check    whether workers of a stage could run on this machine
 *   worker_command  command line and environment of a worker's agent
 *   worker_env      environment of workers
 *   worker_limits   limits of a worker's cgroup, and which are not enforced
 *   workers_log     DIR/logs/workers.log, with a bound on its size */
#pragma once

#include "pipelined/exec/exec.h"

struct pl_exec_local_config {
    struct pl_loop *loop;
    const char *data_dir;  /* the daemon's data folder DIR: it contains work/, cache/ and pipelined.url */
    const char *store_dir; /* folder of the file store; "" if the store is not in a folder */
    /* file of CA certificates (PEM) for the bucket in which the store is; "" = the machine's certificates */
    const char *ca;
    const char *program; /* path of the program pipelined-worker; NULL = in the folder of this program */
    const char *sandbox; /* kind of sandbox: "bwrap" or "none" */
    const char *podman;  /* podman's name or path; "" = images are not used */
    int gpus;            /* number of GPU slots; -1 = as many as NVML reports (0 without NVML) */
    struct pl_executor_events events;
};

/* Creates the local executor. Strings of `config` are copied. PL_EINVAL (sandbox, gpus), PL_ENOTFOUND (the
 * agent's program), PL_EUNAVAILABLE (bubblewrap does not work here), PL_ENOMEM. */
PL_MUST_CHECK
int pl_exec_local_create(const struct pl_exec_local_config *config, struct pl_executor **ret, struct pl_err *err);
