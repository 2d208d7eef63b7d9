/* gpu_sampler.c: finds the worker's devices among the GPUs that NVML counts. */
#include "pipelined/agent/command/gpu_sampler.h"

#include "pipelined/agent/sandbox/sandbox.h"
#include "pipelined/nvml/nvml.h"

#include <stdio.h>

struct pl_gpu_meter {
    struct pl_nvml *nvml;
    unsigned devices[PL_AGENT_PROTOCOL_GPUS_MAX]; /* NVML's numbers of the worker's devices */
    size_t n;
    uint64_t util_sum, util_count, mem_peak;
};

void pl_gpu_uuids(const unsigned *minors, size_t n, char (*out)[PL_GPU_UUID_BYTES])
{
    struct pl_gpu_meter *m = pl_gpu_meter_create(minors, n);
    struct pl_nvml_gpu gpu;

    for (size_t i = 0; m && i < m->n; i++) {
        if (pl_nvml_read(m->nvml, m->devices[i], &gpu, NULL) < 0)
            continue;
        for (size_t j = 0; j < n; j++)
            if (gpu.minor == minors[j])
                snprintf(out[j], PL_GPU_UUID_BYTES, "%s", gpu.uuid);
    }
    pl_gpu_meter_destroy(m);
}

struct pl_gpu_meter *pl_gpu_meter_create(const unsigned *minors, size_t n)
{
    struct pl_gpu_meter *m;
    struct pl_nvml_gpu gpu;

    if (n == 0)
        return NULL;
    m = calloc(1, sizeof(*m));
    if (!m || pl_nvml_open(&m->nvml, NULL) < 0)
        return pl_gpu_meter_destroy(m);
    for (unsigned i = 0; i < pl_nvml_count(m->nvml); i++) {
        if (pl_nvml_read(m->nvml, i, &gpu, NULL) < 0)
            continue;
        for (size_t j = 0; j < n && m->n < PL_AGENT_PROTOCOL_GPUS_MAX; j++)
            if (gpu.minor == minors[j])
                m->devices[m->n++] = i;
    }
    return m->n ? m : pl_gpu_meter_destroy(m);
}

struct pl_gpu_meter *pl_gpu_meter_destroy(struct pl_gpu_meter *m)
{
    if (!m)
        return NULL;
    pl_nvml_close(m->nvml);
    free(m);
    return NULL;
}

void pl_gpu_meter_start(struct pl_gpu_meter *m)
{
    if (m)
        m->util_sum = m->util_count = m->mem_peak = 0;
}

void pl_gpu_meter_sample(struct pl_gpu_meter *m)
{
    uint64_t used = 0;

    for (size_t i = 0; m && i < m->n; i++) {
        struct pl_nvml_use use;

        if (pl_nvml_read_use(m->nvml, m->devices[i], &use, NULL) < 0)
            continue;
        m->util_sum += use.utilisation;
        m->util_count += use.measured;
        used += use.used_bytes;
    }
    if (m && used > m->mem_peak)
        m->mem_peak = used;
}

bool pl_gpu_meter_read(const struct pl_gpu_meter *m, unsigned *ret_util, uint64_t *ret_mem_peak)
{
    if (!m || m->util_count == 0)
        return false;
    *ret_util = (unsigned)(m->util_sum / m->util_count);
    *ret_mem_peak = m->mem_peak;
    return true;
}
