/* gpu_slots: the GPUs of this machine as slots 0 … n − 1, described by NVML, and which of them meet a stage's
 * request. If --gpus declares more slots than NVML knows GPUs, the additional slots have no description: a
 * stage that requests a product, a memory size or a compute capability never gets one of them.
 * Single-threaded. The unchanging properties of a device are read once. */
#pragma once

#include "pipelined/exec/exec.h"
#include "pipelined/spec/spec.h"
#include "storage/base/err.h"
#include <jansson.h>

struct pl_gpu_slots;

/* Creates the table of slots. `wanted`: number of slots; −1: as many as NVML reports, none without NVML.
 * PL_EINVAL: more than PL_EXEC_GPUS_MAX. */
PL_MUST_CHECK
int pl_gpu_slots_create(int wanted, struct pl_gpu_slots **ret, struct pl_err *err);
struct pl_gpu_slots *pl_gpu_slots_destroy(struct pl_gpu_slots *g);
unsigned pl_gpu_slots_count(const struct pl_gpu_slots *g);
/* Returns the number N of the device /dev/nvidiaN of a slot. */
unsigned pl_gpu_slots_device(const struct pl_gpu_slots *g, unsigned slot);

/* Finds the slots that meet the `product`, `memory` and `compute` of a request, ordered first by which
 * product pattern they match and then by number. Returns their count, or −1 if the request names no property,
 * so that any slot will do. `why` describes the request and the machine's GPUs: "with product *H100*: this
 * machine has 2 × NVIDIA A100-SXM4-40GB (40960 MiB, compute 8.0)". */
int pl_gpu_slots_choose(const struct pl_gpu_slots *g, const struct pl_gpu *want, uint16_t slots[PL_EXEC_GPUS_MAX], char *why,
                        size_t why_size);
/* Returns {"node": host, "driver", "gpus": [{"slot", "product", "memory_mib", "uuid", "compute",
 * "utilisation", "used_mib"}]} as a new reference; for a slot without a known device only "slot" and
 * "product". NULL without memory. */
json_t *pl_gpu_slots_json(const struct pl_gpu_slots *g, const char *host);
