/* nvml.c: loads libnvidia-ml.so.1 with dlopen and resolves the functions that it needs. Older libraries lack
 * nvmlDeviceGetCudaComputeCapability and nvmlDeviceGetMemoryInfo_v2. */
#include "pipelined/nvml/nvml.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#define LIBRARY "libnvidia-ml.so.1"

/* Types of NVML (from nvml.h of the CUDA toolkit). NVIDIA does not change the signatures of functions whose
 * names have a version suffix. */
typedef struct nvml_device *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
/* as nvml.h makes the number of a structure's version */
#define NVML_MEMORY_V2 ((unsigned)sizeof(struct nvml_memory_v2) | 2u << 24)
struct nvml_utilization {
    unsigned gpu, memory;
};

struct pl_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*driver)(char *, unsigned);
    int (*handle)(unsigned, nvml_device *);
    int (*name)(nvml_device, char *, unsigned);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*minor)(nvml_device, unsigned *);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*utilization)(nvml_device, struct nvml_utilization *);
    /* NULL: the installed library lacks this function */
    int (*compute)(nvml_device, int *major, int *minor);
    int (*memory_v2)(nvml_device, struct nvml_memory_v2 *);
    unsigned n;
    char driver_text[96];
};

/* Looks up the functions of the loaded library. */
static int bind(struct pl_nvml *n, struct pl_err *err)
{
    const struct {
        const char *symbol;
        void *slot;
    } wanted[] = {
        {"nvmlInit_v2", &n->init},
        {"nvmlShutdown", &n->shutdown},
        {"nvmlDeviceGetCount_v2", &n->count},
        {"nvmlSystemGetDriverVersion", &n->driver},
        {"nvmlDeviceGetHandleByIndex_v2", &n->handle},
        {"nvmlDeviceGetName", &n->name},
        {"nvmlDeviceGetUUID", &n->uuid},
        {"nvmlDeviceGetMinorNumber", &n->minor},
        {"nvmlDeviceGetMemoryInfo", &n->memory},
        {"nvmlDeviceGetUtilizationRates", &n->utilization},
    };

    void *compute = dlsym(n->library, "nvmlDeviceGetCudaComputeCapability");
    void *memory_v2 = dlsym(n->library, "nvmlDeviceGetMemoryInfo_v2");

    memcpy(&n->compute, &compute, sizeof compute);
    memcpy(&n->memory_v2, &memory_v2, sizeof memory_v2);
    for (size_t i = 0; i < PL_ARRAY_SIZE(wanted); i++) {
        void *f = dlsym(n->library, wanted[i].symbol);

        if (!f)
            return pl_err_set(err, PL_EUNAVAILABLE, "NVML has no %s", wanted[i].symbol);
        memcpy(wanted[i].slot, &f, sizeof f);
    }
    return 0;
}

bool pl_nvml_folder(char ret[PATH_MAX])
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    struct link_map *map = NULL;
    char *slash;
    bool found = library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && realpath(map->l_name, ret);

    if (library)
        dlclose(library);
    slash = found ? strrchr(ret, '/') : NULL;
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

int pl_nvml_open(struct pl_nvml **ret, struct pl_err *err)
{
    struct pl_nvml *n = calloc(1, sizeof *n);
    int r, code;

    if (!n)
        return pl_err_nomem(err);
    n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    r = n->library ? bind(n, err) : pl_err_set(err, PL_EUNAVAILABLE, "no NVIDIA driver library (" LIBRARY ")");
    if (r == 0 && (code = n->init()) != 0)
        r = pl_err_set(err, PL_EUNAVAILABLE, "NVML does not start (code %d)", code);
    if (r < 0) {
        if (n->library)
            dlclose(n->library);
        free(n);
        return r;
    }
    if (n->count(&n->n) != 0)
        n->n = 0;
    if (n->driver(n->driver_text, sizeof n->driver_text) != 0)
        n->driver_text[0] = '\0';
    *ret = n;
    return 0;
}

struct pl_nvml *pl_nvml_close(struct pl_nvml *n)
{
    if (!n)
        return NULL;
    n->shutdown();
    dlclose(n->library);
    free(n);
    return NULL;
}

unsigned pl_nvml_count(const struct pl_nvml *n)
{
    return n->n;
}

const char *pl_nvml_driver(const struct pl_nvml *n)
{
    return n->driver_text;
}

static int cannot_be_read(unsigned index, int code, struct pl_err *err)
{
    return pl_err_set(err, PL_EIO, "GPU %u cannot be read (NVML code %d)", index, code);
}

int pl_nvml_read(struct pl_nvml *n, unsigned index, struct pl_nvml_gpu *ret, struct pl_err *err)
{
    struct nvml_memory memory = {0};
    struct pl_nvml_gpu gpu = {0};
    nvml_device device;
    int code = n->handle(index, &device), major = 0, minor = 0;

    code = code ? code : n->name(device, gpu.product, sizeof gpu.product);
    code = code ? code : n->uuid(device, gpu.uuid, sizeof gpu.uuid);
    code = code ? code : n->minor(device, &gpu.minor);
    code = code ? code : n->memory(device, &memory);
    if (code)
        return cannot_be_read(index, code, err);
    if (n->compute && n->compute(device, &major, &minor) == 0 && major >= 0 && minor >= 0)
        gpu.compute = 100 * (unsigned)major + (unsigned)minor;
    gpu.memory_bytes = memory.total;
    *ret = gpu;
    return 0;
}

int pl_nvml_read_use(struct pl_nvml *n, unsigned index, struct pl_nvml_use *ret, struct pl_err *err)
{
    struct nvml_memory_v2 exact = {.version = NVML_MEMORY_V2};
    struct nvml_utilization use = {0};
    struct nvml_memory memory = {0};
    nvml_device device;
    int code = n->handle(index, &device);

    if (code == 0 && n->memory_v2 && n->memory_v2(device, &exact) == 0)
        memory.used = exact.used; /* without what the driver reserves, 0.6 GiB of an H200 */
    else if (code == 0)
        code = n->memory(device, &memory);
    if (code)
        return cannot_be_read(index, code, err);
    *ret = (struct pl_nvml_use){.used_bytes = memory.used, .measured = n->utilization(device, &use) == 0};
    ret->utilisation = ret->measured ? use.gpu : 0; /* the utilisation is not available in MIG mode */
    return 0;
}
