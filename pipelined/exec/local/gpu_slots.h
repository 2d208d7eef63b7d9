/* gpu_slots: the GPUs of this machine as slots 0 … n − 1: what NVML says of each, and which of them meet what a stage asks for. Slots that
 * --gpus declares beyond what NVML knows are there without a name: no stage that asks for a product, a size or a capability gets one.
 * One thread; what is read of a device that stays the same is read once. */
#pragma once

#include "pipelined/exec/exec.h"
#include "pipelined/spec/spec.h"
#include "storage/base/err.h"
#include <jansson.h>

struct pl_gpu_slots;

/* `wanted`: so many; −1: as NVML says, none without it. PL_EINVAL: more than PL_EXEC_GPUS_MAX. */
PL_MUST_CHECK
int pl_gpu_slots_create(int wanted, struct pl_gpu_slots **ret, struct pl_err *err);
struct pl_gpu_slots *pl_gpu_slots_destroy(struct pl_gpu_slots *g);
unsigned pl_gpu_slots_count(const struct pl_gpu_slots *g);
/* N of /dev/nvidiaN behind a slot. */
unsigned pl_gpu_slots_device(const struct pl_gpu_slots *g, unsigned slot);

/* The slots that meet `product`, `memory` and `compute`: those of the first product glob that one matches first, else by their number. Their
 * count, and −1 when nothing is asked for and any will do. `why`: what is asked for, and what there is: "with product *H100*: this
 * machine has 2 × NVIDIA A100-SXM4-40GB (40960 MiB, compute 8.0)". */
int pl_gpu_slots_choose(const struct pl_gpu_slots *g, const struct pl_gpu *want, uint16_t slots[PL_EXEC_GPUS_MAX], char *why,
                        size_t why_size);
/* {"node": host, "driver", "gpus": [{"slot", "product", "memory_mib", "uuid", "compute", "utilisation", "used_mib"}]}; of a slot without
 * a device only "slot" and "product". New reference, NULL without memory. */
json_t *pl_gpu_slots_json(const struct pl_gpu_slots *g, const char *host);
