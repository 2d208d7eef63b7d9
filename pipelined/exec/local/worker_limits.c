/* worker_limits.c: connects the executor with storage/system/cgroup.h: one parent cgroup per data folder, one
 * cgroup per worker. */
#include "pipelined/exec/local/worker_limits.h"

#include "storage/base/hash.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <stdio.h>

struct pl_worker_limits {
    struct pl_cgroup *groups;
};

int pl_worker_limits_open(const char *data_dir, struct pl_worker_limits **ret, struct pl_err *err)
{
    struct pl_worker_limits *l = calloc(1, sizeof *l);
    _cleanup_free_ char *real = realpath(data_dir, NULL);
    const char *folder = real ? real : data_dir;
    char hex[PL_HASH_HEX + 1], name[40];
    const struct pl_cgroup_config config = {.program = "pipelined", .name = name};
    struct pl_hash h;
    int r;

    if (!l)
        return pl_err_nomem(err);
    /* the parent's name is derived from the data folder's path, so that the next daemon finds the cgroups of
     * this one */
    pl_hash_sha256(folder, strlen(folder), &h);
    snprintf(name, sizeof name, "pipelined-%.12s", pl_hash_hex(&h, hex));
    r = pl_cgroup_open(&config, &l->groups, err);
    if (r < 0) {
        free(l);
        return r;
    }
    if (pl_cgroup_held(l->groups) == PL_CGROUP_ALL)
        pl_log_info("exec", "each worker is limited by a cgroup in %s", pl_cgroup_folder(l->groups));
    else
        pl_log_info("exec", "not all limits of workers are enforced: %s: %s", pl_cgroup_why(l->groups),
                    pl_cgroup_remedy(l->groups));
    *ret = l;
    return 0;
}

struct pl_worker_limits *pl_worker_limits_close(struct pl_worker_limits *l)
{
    if (l)
        pl_cgroup_close(l->groups);
    free(l);
    return NULL;
}

const char *pl_worker_limits_folder(const struct pl_worker_limits *l)
{
    return pl_cgroup_held(l->groups) ? pl_cgroup_folder(l->groups) : "";
}

const char *pl_worker_limits_cgroup(const struct pl_worker_limits *l, uint64_t id, char out[PL_CGROUP_PATH])
{
    char name[24];

    *out = '\0';
    snprintf(name, sizeof name, "%" PRIu64, id);
    return pl_cgroup_held(l->groups) ? pl_cgroup_path(l->groups, name, out) : out;
}

int pl_worker_limits_make(const struct pl_worker_limits *l, const struct pl_worker_spec *spec, struct pl_err *err)
{
    const struct pl_cgroup_limits limits = {.memory_bytes = (uint64_t)spec->def->resources.memory_bytes,
                                            .cpu_milli = spec->cpu_milli};

    return pl_cgroup_held(l->groups) ? pl_cgroup_make(l->groups, spec->name, &limits, err) : 0;
}

bool pl_worker_limits_not_held(const struct pl_worker_limits *l, const struct pl_stage *def, char out[PL_EXECUTOR_NOT_HELD])
{
    return pl_cgroup_not_held(l->groups, def->resources.memory_bytes > 0, def->resources.cpu_milli > 0, out,
                              PL_EXECUTOR_NOT_HELD);
}

json_t *pl_worker_limits_json(const struct pl_worker_limits *l)
{
    const unsigned held = pl_cgroup_held(l->groups);
    const bool all = held == PL_CGROUP_ALL;
    char yes[32], no[32];

    return json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "held", pl_cgroup_names(held, yes), "not_held",
                     pl_cgroup_names(PL_CGROUP_ALL & ~held, no), "folder", held ? pl_cgroup_folder(l->groups) : NULL, "why",
                     all ? NULL : pl_cgroup_why(l->groups), "remedy", all ? NULL : pl_cgroup_remedy(l->groups));
}
