/* gpu: how busy the worker's GPUs are while a command runs, through NVML (libnvidia-ml.so.1, opened when it is there). Without it,
 * or without GPUs, nothing is measured and nothing fails. One thread. */
#pragma once

#include "pipelined/agent/sandbox/sandbox.h"
#include "storage/base/base.h"

struct pl_gpu_meter;

/* The devices /dev/nvidiaN of `minors`. NULL when there is nothing to measure. */
struct pl_gpu_meter *pl_gpu_meter_create(const unsigned *minors, size_t n);
struct pl_gpu_meter *pl_gpu_meter_destroy(struct pl_gpu_meter *m);
/* A new command. */
void pl_gpu_meter_start(struct pl_gpu_meter *m);
/* Looks at all devices once; a few milliseconds. */
void pl_gpu_meter_sample(struct pl_gpu_meter *m);
/* Mean utilisation in per cent over devices and samples, and the most memory in use at a time (all devices together), since start. False when
 * there was no sample. */
bool pl_gpu_meter_read(const struct pl_gpu_meter *m, unsigned *ret_util, uint64_t *ret_mem_peak);
/* The UUIDs of devices by their N of /dev/nvidiaN; "" where NVML does not say. `out` has `n` places. */
void pl_gpu_uuids(const unsigned *minors, size_t n, char (*out)[PL_GPU_UUID_BYTES]);
