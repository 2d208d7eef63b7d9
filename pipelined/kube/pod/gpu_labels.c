/* gpu_labels.c: a table of globs for product names; the first that matches counts. What nodes' labels say comes
 * before the table. */
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

struct pl_device pl_device_of(const struct pl_gpu_product *product)
{
    struct pl_device device;

    if (!pl_device_named(product->value, &device))
        device = (struct pl_device){0};
    if (product->memory_mib > 0)
        device.memory_mib = product->memory_mib;
    if (product->compute > 0)
        device.compute = product->compute;
    return device;
}

int pl_device_describe(const struct pl_gpu_product *product, struct pl_buf *text, struct pl_err *err)
{
    const struct pl_device d = pl_device_of(product);
    int r = pl_buf_addf(text, err, " %s has ", product->value);

    if (r < 0)
        return r;
    if (d.memory_mib == 0 && d.compute == 0)
        return pl_buf_add_str(text, "unknown memory and capability", err);
    r = d.memory_mib > 0 ? pl_buf_addf(text, err, "%lld MiB, ", (long long)d.memory_mib)
                         : pl_buf_add_str(text, "unknown memory, ", err);
    if (r < 0)
        return r;
    return d.compute > 0 ? pl_buf_addf(text, err, "%u.%u", d.compute / 100, d.compute % 100)
                         : pl_buf_add_str(text, "unknown capability", err);
}
