/* gpushare: arithmetic of shared GPU memory, as nodes with Aliyun's gpushare plugin or Koordinator count it.
 * Pure. */
#pragma once

#include "pipelined/spec/spec.h"

#define PL_GPUSHARE_MEM   "aliyun.com/gpu-mem"
#define PL_GPUSHARE_COUNT "aliyun.com/gpu-count"
/* Nodes do not say which unit the plugin counts (its option --memory-unit). The unit is MiB if a device
 * has at least this many units, else GiB: no device has 1000 GiB of memory, and none has less than 1000 MiB. */
#define PL_GPUSHARE_MIB_FROM 1000

/* Returns the memory of one device of a node. `memory`: sum over the node's devices; `count`: number of
 * devices; 0 = not known, taken as one device. */
static inline int64_t pl_gpushare_device(int64_t memory, int64_t count)
{
    return count > 0 ? memory / count : memory;
}

static inline enum pl_share_unit pl_gpushare_unit(int64_t device)
{
    return device >= PL_GPUSHARE_MIB_FROM ? PL_UNIT_MIB : PL_UNIT_GIB;
}
