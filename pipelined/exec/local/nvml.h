/* nvml: the GPUs of this machine, through NVIDIA's management library when it is there (dlopen: the product does not depend on it). */
#pragma once

#include "storage/base/err.h"

struct pl_nvml;

struct pl_nvml_gpu {
    char product[96];
    char uuid[96];
    unsigned minor; /* /dev/nvidia<minor> */
    uint64_t memory_bytes, used_bytes;
    unsigned compute;     /* 100 × major + minor of its capability; 0 = the library does not say */
    bool measured;        /* utilisation is: not so of a device that is cut into parts */
    unsigned utilisation; /* per cent of the last sample period */
};

/* PL_EUNAVAILABLE with one sentence why there is none. */
PL_MUST_CHECK
int pl_nvml_open(struct pl_nvml **ret, struct pl_err *err);
struct pl_nvml *pl_nvml_close(struct pl_nvml *n);
unsigned pl_nvml_count(const struct pl_nvml *n);
/* "550.90.07" */
const char *pl_nvml_driver(const struct pl_nvml *n);
PL_MUST_CHECK
int pl_nvml_read(struct pl_nvml *n, unsigned index, struct pl_nvml_gpu *ret, struct pl_err *err);
