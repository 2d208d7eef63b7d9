/* gpu_labels.c: a table of globs for product names; the first that matches counts. */
#include "pipelined/kube/pod/gpu_labels.h"

#include "storage/base/base.h"

#include <fnmatch.h>

/* Names as GKE ("nvidia-tesla-t4"), Karpenter ("t4"), EKS and others write them. */
static const struct {
    const char *glob;
    struct pl_device device;
} devices[] = {
    {"*k80*", {11441, 307}},     {"*m60*", {7680, 502}},        {"*p100*", {16280, 600}},          {"*p40", {22919, 601}},
    {"*p4", {7611, 601}},        {"*v100*32gb*", {32510, 700}}, {"*v100*", {16160, 700}},          {"*t4g*", {15360, 705}},
    {"*t4", {15360, 705}},       {"*a100*80gb*", {81920, 800}}, {"*a100*", {40960, 800}},          {"*a30", {24576, 800}},
    {"*a10g*", {22731, 806}},    {"*a10", {22731, 806}},        {"*l40s*", {46068, 809}},          {"*l40", {46068, 809}},
    {"*l4", {23034, 809}},       {"*gh200*", {97871, 900}},     {"*h100*", {81559, 900}},          {"*h200*", {143771, 900}},
    {"*gb200*", {183359, 1000}}, {"*b200*", {183359, 1000}},    {"*rtx*pro*6000*", {97887, 1200}},
};

bool pl_device_named(const char *product, struct pl_device *ret)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(devices); i++) {
        if (fnmatch(devices[i].glob, product, FNM_CASEFOLD) != 0)
            continue;
        *ret = devices[i].device;
        return true;
    }
    return false;
}
