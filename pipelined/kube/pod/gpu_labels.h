/* pod_devices: what is known of GPUs by the names that clouds' labels give them, where GPU Feature Discovery does not say it of each node. Pure.
 *
 * Of names that stand for several devices the least is said. Figures: memory as nvidia-smi shows it of the whole device, compute capability as
 * NVIDIA's table of CUDA GPUs has it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pl_device {
    int64_t memory_mib;
    unsigned compute; /* major × 100 + minor */
};

/* False: nothing is known of that name. */
bool pl_device_named(const char *product, struct pl_device *ret);
