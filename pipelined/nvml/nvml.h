/* nvml: The GPUs of this machine, read through NVIDIA's management library (libnvidia-ml.so.1) if it is
 * installed. The library is loaded with dlopen, so no program depends on it.
 *
 * In:      Nothing.
 * Out:     The properties of each GPU, and how busy and how full it is now.
 * Uses:    storage/base
 * Threads: One thread for each pl_nvml. */
#pragma once

#include "storage/base/err.h"
#include <limits.h>

struct pl_nvml;

struct pl_nvml_gpu {
    char product[96];
    char uuid[96];
    unsigned minor; /* number N of the device /dev/nvidiaN */
    uint64_t memory_bytes;
    unsigned compute; /* compute capability: 100 × major + minor; 0 = unknown */
};

struct pl_nvml_use {
    uint64_t
        used_bytes; /* memory that processes hold, as nvidia-smi shows it; older drivers add what they reserve for themselves */
    bool measured;  /* `utilisation` is valid; false for a device in MIG mode */
    unsigned utilisation; /* in per cent, over the driver's last sample period */
};

/* Loads and initialises the library. PL_EUNAVAILABLE: the error says in one sentence why it cannot be
 * used. */
PL_MUST_CHECK
int pl_nvml_open(struct pl_nvml **ret, struct pl_err *err);
struct pl_nvml *pl_nvml_close(struct pl_nvml *n);
unsigned pl_nvml_count(const struct pl_nvml *n);
/* Returns the driver's version, for example "550.90.07"; "" if unknown. */
const char *pl_nvml_driver(const struct pl_nvml *n);
/* Reads the properties of a GPU, which do not change. `index` counts in bus order, which may differ from `minor`. */
PL_MUST_CHECK
int pl_nvml_read(struct pl_nvml *n, unsigned index, struct pl_nvml_gpu *ret, struct pl_err *err);
/* Reads what a GPU does now. It takes a few milliseconds. */
PL_MUST_CHECK
int pl_nvml_read_use(struct pl_nvml *n, unsigned index, struct pl_nvml_use *ret, struct pl_err *err);
/* Finds the folder of the driver's libraries. False if there is none. */
bool pl_nvml_folder(char ret[PATH_MAX]);
