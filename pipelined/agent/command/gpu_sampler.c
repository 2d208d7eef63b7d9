/* Loads NVML with dlopen, so that the agent also runs on machines without it. */
#include "pipelined/agent/command/gpu_sampler.h"

#include "pipelined/agent/sandbox/sandbox.h"
#include <dlfcn.h>

/* The declarations of nvml.h that this file uses. NVML keeps its ABI stable for each versioned function
 * name. */
typedef void *nvml_device;
struct nvml_utilization {
    unsigned gpu, memory;
};
struct nvml_memory {
    unsigned long long total, free, used;
};

struct pl_gpu_meter {
    void *library;
    int (*shutdown)(void);
    int (*utilization)(nvml_device device, struct nvml_utilization *ret);
    int (*memory)(nvml_device device, struct nvml_memory *ret);
    nvml_device devices[PL_AGENT_PROTOCOL_GPUS_MAX];
    size_t n;
    uint64_t util_sum, util_count, mem_peak;
};

/* Looks up a function of the NVML library. Copies the pointer with memcpy, because ISO C has no cast from
 * void * to a function pointer. */
static bool find(void *library, const char *name, void *ret_function)
{
    void *symbol = dlsym(library, name);

    memcpy(ret_function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* Stores the NVML handles of the devices /dev/nvidiaN with these numbers N. */
static void find_devices(struct pl_gpu_meter *m, const unsigned *minors, size_t n)
{
    int (*count)(unsigned *ret) = NULL;
    int (*handle)(unsigned index, nvml_device *ret) = NULL;
    int (*minor)(nvml_device device, unsigned *ret) = NULL;
    unsigned found = 0, number;
    nvml_device device;

    if (!find(m->library, "nvmlDeviceGetCount_v2", &count) || !find(m->library, "nvmlDeviceGetHandleByIndex_v2", &handle) ||
        !find(m->library, "nvmlDeviceGetMinorNumber", &minor) || count(&found) != 0)
        return;
    for (unsigned i = 0; i < found; i++) {
        if (handle(i, &device) != 0 || minor(device, &number) != 0)
            continue;
        for (size_t j = 0; j < n && m->n < PL_AGENT_PROTOCOL_GPUS_MAX; j++)
            if (minors[j] == number)
                m->devices[m->n++] = device;
    }
}

void pl_gpu_uuids(const unsigned *minors, size_t n, char (*out)[PL_GPU_UUID_BYTES])
{
    struct pl_gpu_meter *m = pl_gpu_meter_create(minors, n);
    int (*uuid)(nvml_device device, char *ret, unsigned size) = NULL;
    int (*minor)(nvml_device device, unsigned *ret) = NULL;
    unsigned number;

    if (m && find(m->library, "nvmlDeviceGetUUID", &uuid) && find(m->library, "nvmlDeviceGetMinorNumber", &minor))
        for (size_t i = 0; i < m->n; i++)
            for (size_t j = 0; j < n; j++)
                if (minor(m->devices[i], &number) == 0 && number == minors[j] &&
                    uuid(m->devices[i], out[j], PL_GPU_UUID_BYTES) != 0)
                    out[j][0] = 0;
    pl_gpu_meter_destroy(m);
}

struct pl_gpu_meter *pl_gpu_meter_create(const unsigned *minors, size_t n)
{
    struct pl_gpu_meter *m;
    int (*init)(void) = NULL;

    if (n == 0)
        return NULL;
    m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!m->library || !find(m->library, "nvmlInit_v2", &init) || !find(m->library, "nvmlShutdown", &m->shutdown) ||
        !find(m->library, "nvmlDeviceGetUtilizationRates", &m->utilization) ||
        !find(m->library, "nvmlDeviceGetMemoryInfo", &m->memory) || init() != 0) {
        m->shutdown = NULL;
        return pl_gpu_meter_destroy(m);
    }
    find_devices(m, minors, n);
    return m->n ? m : pl_gpu_meter_destroy(m);
}

struct pl_gpu_meter *pl_gpu_meter_destroy(struct pl_gpu_meter *m)
{
    if (!m)
        return NULL;
    if (m->shutdown)
        m->shutdown();
    if (m->library)
        dlclose(m->library);
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
        struct nvml_utilization util = {0};
        struct nvml_memory memory = {0};
        if (m->utilization(m->devices[i], &util) == 0) {
            m->util_sum += util.gpu;
            m->util_count++;
        }
        if (m->memory(m->devices[i], &memory) == 0)
            used += memory.used;
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
