/* gpu_labels: memory and compute capability of GPUs by the product names in clouds' node labels, for nodes
 * that GPU Feature Discovery has not labelled. Pure.
 *
 * For a name that stands for several devices the smallest values are given. Memory is what nvidia-smi shows
 * for the whole device; compute capability is that of NVIDIA's table of CUDA GPUs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pl_device {
    int64_t memory_mib;
    unsigned compute; /* compute capability: 100 × major + minor */
};

/* Looks up the memory and compute capability of a product. False: the name is unknown. */
bool pl_device_named(const char *product, struct pl_device *ret);
