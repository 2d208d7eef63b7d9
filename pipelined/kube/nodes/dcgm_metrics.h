/* dcgm_metrics: parses the metrics of NVIDIA's dcgm-exporter, in Prometheus' text format: for each GPU, or
 * MIG instance of one, its utilisation, its used memory, and the pod that holds it. Pure. It reads these lines:
 *
 *   DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-…",modelName="…",container="main",namespace="ml",pod="train-0"} 37
 *   DCGM_FI_DEV_FB_USED{…} 10240       MiB
 *   DCGM_FI_DEV_FB_FREE{…} 30720       MiB
 *   DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID="7",…} 0.42      for MIG instances, which have no GPU_UTIL
 *
 * All lines with the same UUID, MIG instance and pod describe one device. Other metrics are skipped. */
#pragma once

#include "storage/base/err.h"

#define PL_DCGM_GPUS_MAX  4096u      /* maximum number of devices and MIG instances in one answer */
#define PL_DCGM_BYTES_MAX (8u << 20) /* maximum bytes of one answer */

struct pl_dcgm_gpu {
    char uuid[96];
    char instance[16]; /* GPU_I_ID of a MIG instance; "" = the whole device */
    char model[96];
    char ns[64], pod[254], container[64]; /* pod that holds the device; "" = none, or unknown to the exporter */
    double utilisation;                   /* GPU utilisation in per cent; −1 = unknown */
    double used_mib, free_mib;            /* used and free memory; −1 = unknown */
};

/* Parses an exporter's answer to a list of devices that the caller frees, in the order of the text.
 * PL_EFORMAT: the text has another format (the error has the line); PL_ETOOBIG; PL_ELIMIT; PL_ENOMEM. */
PL_MUST_CHECK
int pl_dcgm_read(const char *text, size_t len, struct pl_dcgm_gpu **ret, size_t *ret_n, struct pl_err *err);
