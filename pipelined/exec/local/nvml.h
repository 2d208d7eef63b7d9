/* nvml: reads the GPUs of this machine through NVIDIA's management library, if it is installed. The library
 * is loaded with dlopen, so the program does not depend on it. */
#pragma once

#include "storage/base/err.h"

struct pl_nvml;

struct pl_nvml_gpu {
    char product[96];
    char uuid[96];
    unsigned minor; /* number N of the device /dev/nvidiaN */
    uint64_t memory_bytes, used_bytes;
    unsigned compute;     /* compute capability: 100 × major + minor; 0 = unknown */
    bool measured;        /* `utilisation` is valid; false for a device in MIG mode */
    unsigned utilisation; /* utilisation in per cent, over the driver's last sample period */
};

/* Loads and initialises the library. PL_EUNAVAILABLE: the error says in one sentence why it cannot be
 * used. */
PL_MUST_CHECK
int pl_nvml_open(struct pl_nvml **ret, struct pl_err *err);
struct pl_nvml *pl_nvml_close(struct pl_nvml *n);
unsigned pl_nvml_count(const struct pl_nvml *n);
/* Returns the driver's version, for example "550.90.07"; "" if unknown. */
const char *pl_nvml_driver(const struct pl_nvml *n);
PL_MUST_CHECK
int pl_nvml_read(struct pl_nvml *n, unsigned index, struct pl_nvml_gpu *ret, struct pl_err *err);
