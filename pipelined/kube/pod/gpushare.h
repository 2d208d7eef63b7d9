/* gpushare: memory of devices as nodes count it that share it out (Aliyun's gpushare plugin, Koordinator). Pure. */
#pragma once

#include "pipelined/spec/spec.h"

#define PL_GPUSHARE_MEM   "aliyun.com/gpu-mem"
#define PL_GPUSHARE_COUNT "aliyun.com/gpu-count"
/* Nodes do not say in what the plugin counts (its --memory-unit). A device of so many units counts MiB: none has 1000 GiB, and none that is
 * counted in MiB has less than 1000. */
#define PL_GPUSHARE_MIB_FROM 1000

/* Of one device, where a node has `memory` of `count` devices; 0 = it does not say of how many, and has one. */
static inline int64_t pl_gpushare_device(int64_t memory, int64_t count)
{
    return count > 0 ? memory / count : memory;
}

static inline enum pl_share_unit pl_gpushare_unit(int64_t device)
{
    return device >= PL_GPUSHARE_MIB_FROM ? PL_UNIT_MIB : PL_UNIT_GIB;
}
