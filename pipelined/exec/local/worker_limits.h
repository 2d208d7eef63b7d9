/* worker_limits: what this machine's workers may take: a cgroup for the sandbox of each (cgroup.h), where these are delegated to the daemon. */
#pragma once

#include "pipelined/exec/exec.h"
#include "storage/system/cgroup.h"

struct pl_worker_limits;

/* For the daemon of that folder, before it starts other processes: it moves to a leaf of its cgroup. Says in the log what holds. PL_ENOMEM. */
PL_MUST_CHECK
int pl_worker_limits_open(const char *data_dir, struct pl_worker_limits **ret, struct pl_err *err);
/* Takes NULL, returns NULL. Groups of workers that go on stay. */
struct pl_worker_limits *pl_worker_limits_close(struct pl_worker_limits *l);
/* Where groups are made, PL_CGROUP_WORKER and the worker's number; "" where none are. */
const char *pl_worker_limits_folder(const struct pl_worker_limits *l);
/* The folder of the worker's group, whether or not it is there; "" where none are made. Returns `out`. */
const char *pl_worker_limits_cgroup(const struct pl_worker_limits *l, uint64_t id, char out[PL_CGROUP_PATH]);
/* Makes it, with what the stage says in `resources`. Where none are made nothing. As pl_cgroup_make. */
PL_MUST_CHECK
int pl_worker_limits_make(const struct pl_worker_limits *l, const struct pl_worker_spec *spec, struct pl_err *err);
/* As `not_held` and `limits` of an executor. */
bool pl_worker_limits_not_held(const struct pl_worker_limits *l, const struct pl_stage *def, char out[PL_EXECUTOR_NOT_HELD]);
json_t *pl_worker_limits_json(const struct pl_worker_limits *l);
