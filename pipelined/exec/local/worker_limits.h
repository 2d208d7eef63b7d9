/* worker_limits: resource limits of this machine's workers: a cgroup (cgroup.h) for the sandbox of each
 * worker, if cgroups are delegated to the daemon. */
#pragma once

#include "pipelined/exec/exec.h"
#include "storage/system/cgroup.h"

struct pl_worker_limits;

/* Opens the cgroups of the daemon with this data folder, and logs which limits are enforced. Must be called
 * before the daemon starts other processes, because it moves the daemon to a leaf of its cgroup.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_worker_limits_open(const char *data_dir, struct pl_worker_limits **ret, struct pl_err *err);
/* Frees the object and leaves the cgroups of running workers in place. NULL is allowed; returns NULL. */
struct pl_worker_limits *pl_worker_limits_close(struct pl_worker_limits *l);
/* Returns the folder that holds the workers' cgroups, each named PL_CGROUP_WORKER followed by the worker's
 * id; "" if no cgroups are made. */
const char *pl_worker_limits_folder(const struct pl_worker_limits *l);
/* Returns `out`: the folder of the worker's cgroup, whether or not it exists; "" if no cgroups are made. */
const char *pl_worker_limits_cgroup(const struct pl_worker_limits *l, uint64_t id, char out[PL_CGROUP_PATH]);
/* Creates the worker's cgroup with the limits that the stage's `resources` set. Does nothing if no cgroups
 * are made. Errors as for pl_cgroup_make. */
PL_MUST_CHECK
int pl_worker_limits_make(const struct pl_worker_limits *l, const struct pl_worker_spec *spec, struct pl_err *err);
/* The executor's operations `not_held` and `limits` (exec.h). */
bool pl_worker_limits_not_held(const struct pl_worker_limits *l, const struct pl_stage *def, char out[PL_EXECUTOR_NOT_HELD]);
json_t *pl_worker_limits_json(const struct pl_worker_limits *l);
