/* worker_command: the command line and the environment with which a worker's agent is started on this machine. */
#pragma once

#include "pipelined/exec/local/gpu_slots.h"
#include "pipelined/exec/local/worker_env.h"
#include "pipelined/exec/local/worker_limits.h"

/* What is the same for all workers of a daemon; see pl_exec_local_config. */
struct pl_worker_command_config {
    const char *data_dir, *store_dir, *ca, *program, *sandbox;
    const char *secrets; /* path of DIR/secrets */
    struct pl_gpu_slots *gpus;
    const struct pl_worker_limits *limits;
};

/* `argv` and `env` end with a NULL. They point into the other fields, into the configuration and the daemon's
 * environment, which must outlive them. */
struct pl_worker_command {
    const char *argv[32];
    char *env[PL_WORKER_ENV_MAX + 2]; /* what workers inherit, and the token */
    size_t n;                         /* of argv, without the NULL */
    char name[24], url[256], work[4200], cache[4200], url_file[4200], secrets[4400], cgroup[PL_CGROUP_PATH], gpus[256],
        token[256];
};

/* Adds the image in which the commands run; borrowed. At most once. */
void pl_worker_command_image(struct pl_worker_command *c, const char *image);
/* Fills `c`, which must be zeroed. The agent's end of its pipe is descriptor 3. Reads the daemon's URL from
 * DIR/pipelined.url: errors of pl_io_read_file. */
PL_MUST_CHECK
int pl_worker_command_make(const struct pl_worker_command_config *config, const struct pl_worker_spec *spec,
                           struct pl_worker_command *c, struct pl_err *err);
