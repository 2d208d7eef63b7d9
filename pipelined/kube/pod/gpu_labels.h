/* gpu_labels: memory and compute capability of GPUs by nodes' labels, or by the product names in clouds' node
 * labels, for nodes that GPU Feature Discovery has not labelled. Pure.
 *
 * For a name that stands for several devices the smallest values are given. Memory is what nvidia-smi shows
 * for the whole device; compute capability is that of NVIDIA's table of CUDA GPUs. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"
#include "storage/base/buf.h"

struct pl_device {
    int64_t memory_mib;
    unsigned compute; /* compute capability: 100 × major + minor */
};

/* Looks up the memory and compute capability of a product. False: the name is unknown. */
bool pl_device_named(const char *product, struct pl_device *ret);
/* Returns what is known of a product: what nodes' labels say, else what its name says; 0 = unknown. */
struct pl_device pl_device_of(const struct pl_gpu_product *product);
/* Appends what is known of a product: " Tesla-T4 has 15360 MiB, 7.5". PL_ENOMEM. */
PL_MUST_CHECK
int pl_device_describe(const struct pl_gpu_product *product, struct pl_buf *text, struct pl_err *err);
