/* gpu_sampler: measures how busy the worker's GPUs are while a command runs. Without NVML or without GPUs nothing is measured, and nothing fails. One thread. */
#pragma once

#include "pipelined/agent/sandbox/sandbox.h"
#include "storage/base/base.h"

struct pl_gpu_meter;

/* Opens the devices /dev/nvidiaN whose N is in `minors`. NULL if there is nothing to measure; the other
 * functions accept NULL. */
struct pl_gpu_meter *pl_gpu_meter_create(const unsigned *minors, size_t n);
struct pl_gpu_meter *pl_gpu_meter_destroy(struct pl_gpu_meter *m);
/* Resets the measurement at the start of a command. */
void pl_gpu_meter_start(struct pl_gpu_meter *m);
/* Takes one sample of all devices. Takes a few milliseconds. */
void pl_gpu_meter_sample(struct pl_gpu_meter *m);
/* Returns the mean utilisation in per cent over all devices and samples, and the peak memory in use in bytes
 * (all devices together), since start. False if there was no sample. */
bool pl_gpu_meter_read(const struct pl_gpu_meter *m, unsigned *ret_util, uint64_t *ret_mem_peak);
/* Writes the UUID of each device /dev/nvidiaN in `minors` to `out`, which has `n` entries; an entry stays
 * unchanged if NVML does not know the device. */
void pl_gpu_uuids(const unsigned *minors, size_t n, char (*out)[PL_GPU_UUID_BYTES]);
