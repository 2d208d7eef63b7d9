/* worker_check: each part of a machine in turn. */
#include "pipelined/exec/local/worker_check.h"

#include "pipelined/exec/local/worker_env.h"
#include "pipelined/sandbox_view/image.h"
#include <stdio.h>
#include <unistd.h>

uint64_t pl_worker_machine_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool pl_worker_uses_image(const struct pl_worker_check_config *c, const struct pl_stage *def)
{
    return def->image && pl_streq(c->sandbox, "bwrap") && pl_worker_images_can(c->images);
}

/* Checks the programs, which are this machine's unless an image has them. */
static int check_programs(const struct pl_worker_check_config *c, const struct pl_stage *def, struct pl_executor_check *ret,
                          struct pl_err *err)
{
    struct pl_err why = {0};
    int r;

    if (pl_worker_uses_image(c, def)) { /* its programs are known once it is here: then the worker's start fails */
        r = pl_image_check_name(def->image, err);
        return r < 0 ? pl_err_field(err, r, "image") : 0;
    }
    if (def->image && def->image_required)
        snprintf(ret->no_image, sizeof ret->no_image, "image %.300s needs %s", def->image,
                 pl_streq(c->sandbox, "none")      ? "a sandbox: start the daemon without --sandbox none"
                 : pl_worker_images_off(c->images) ? "podman, which this daemon does not use: start it without --podman \"\""
                                                   : "podman, which is not on this machine: apt-get install podman");
    r = pl_worker_env_check(c->sandbox, def, &why);
    if (r == PL_ENOTFOUND)
        snprintf(ret->cannot_start, sizeof ret->cannot_start, "%.1000s", why.msg);
    return r == 0 || r == PL_ENOTFOUND ? 0 : pl_err_field(err, pl_err_set(err, r, "%s", why.msg), why.field);
}

int pl_worker_check(const struct pl_worker_check_config *c, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                    struct pl_err *err)
{
    const unsigned all = pl_gpu_slots_count(c->gpus), want = gpu && def->gpu.required ? def->gpu.count : 0;
    uint16_t slots[PL_EXEC_GPUS_MAX];
    char what[512] = "";
    int n = pl_gpu_slots_choose(c->gpus, &def->gpu, slots, what, sizeof what), r = check_programs(c, def, ret, err);

    if (r < 0)
        return r;
    (void)pl_worker_limits_not_held(c->limits, def, ret->not_held);
    if (n < 0)
        snprintf(what, sizeof what, "and this machine has %u", all);
    if (want > (n < 0 ? all : (unsigned)n))
        snprintf(ret->not_offered, sizeof ret->not_offered, "a worker wants %u GPU%s %s", want, want == 1 ? "" : "s", what);
    else if ((uint64_t)def->resources.memory_bytes > pl_worker_machine_memory())
        snprintf(ret->not_offered, sizeof ret->not_offered, "a worker wants %llu MiB of memory and this machine has %llu",
                 (unsigned long long)(def->resources.memory_bytes >> 20), (unsigned long long)(pl_worker_machine_memory() >> 20));
    return 0;
}
