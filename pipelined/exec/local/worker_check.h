/* worker_check: whether workers of a stage could run on this machine as it is now. */
#pragma once

#include "pipelined/exec/exec.h"
#include "pipelined/exec/local/gpu_slots.h"
#include "pipelined/exec/local/worker_image.h"
#include "pipelined/exec/local/worker_limits.h"

struct pl_worker_check_config {
    const char *sandbox; /* "bwrap" or "none" */
    const struct pl_gpu_slots *gpus;
    const struct pl_worker_limits *limits;
    struct pl_worker_images *images;
};

/* True if the commands of the stage run in its image here. */
bool pl_worker_uses_image(const struct pl_worker_check_config *c, const struct pl_stage *def);
/* Compares the stage's programs, image, GPUs and memory with those of this machine; see `check` of
 * pl_executor_ops. The check is complete at once. */
PL_MUST_CHECK
int pl_worker_check(const struct pl_worker_check_config *c, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                    struct pl_err *err);
/* Memory of this machine in bytes. */
uint64_t pl_worker_machine_memory(void);
