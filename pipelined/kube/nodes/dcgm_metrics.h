/* dcgm: what NVIDIA's dcgm-exporter tells of the GPUs of a node, in Prometheus' text format: of each device, or instance of one, how busy it is, how
 * much of its memory is used, and which pod has it. Pure. Of
 *
 *   DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-…",modelName="…",container="main",namespace="ml",pod="train-0"} 37
 *   DCGM_FI_DEV_FB_USED{…} 10240       MiB
 *   DCGM_FI_DEV_FB_FREE{…} 30720       MiB
 *   DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID="7",…} 0.42      of instances, which have no GPU_UTIL
 *
 * lines with the same UUID, instance and pod are one device. Other metrics are passed over. */
#pragma once

#include "storage/base/err.h"

#define PL_DCGM_GPUS_MAX  4096u      /* devices and instances that one answer may tell of */
#define PL_DCGM_BYTES_MAX (8u << 20) /* of one answer */

struct pl_dcgm_gpu {
    char uuid[96];
    char instance[16]; /* GPU_I_ID of an instance; "" = the whole device */
    char model[96];
    char ns[64], pod[254], container[64]; /* "" = nobody has it, or the exporter does not know */
    double utilisation;                   /* per cent; −1 = not told */
    double used_mib, free_mib;            /* −1 = not told */
};

/* malloc'ed list, in the order of the text. PL_EFORMAT with the line (a text that is none of this format); PL_ETOOBIG; PL_ELIMIT; PL_ENOMEM. */
PL_MUST_CHECK
int pl_dcgm_read(const char *text, size_t len, struct pl_dcgm_gpu **ret, size_t *ret_n, struct pl_err *err);
