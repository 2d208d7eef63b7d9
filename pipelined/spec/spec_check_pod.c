/* Checks of pod fields that involve more than one value, and of fields that have no effect on one machine. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/spec/datum_env.h"

/* Sets the current path to a field of stage i, and to a member of that field; both may be NULL. */
static void spec_enter(struct spec_reader *r, size_t i, const char *key, const char *member)
{
    pl_spec_enter_stage(r, i);
    if (key != NULL)
        pl_spec_enter_key(r, key);
    if (member != NULL)
        pl_spec_enter_key(r, member);
}

static void spec_check_gpu(struct spec_reader *r, size_t i)
{
    const struct pl_gpu *gpu = &r->spec->stages[i].gpu;

    if (gpu->resource != NULL && gpu->share.mode > PL_SHARE_MPS) {
        spec_enter(r, i, "gpu", "resource");
        pl_spec_problem(
            r,
            "\"resource\" is only accepted with the modes none, time-slicing and mps: other modes have a resource of their own");
    }
    if (gpu->share.mode == PL_SHARE_GPU_MEM && gpu->count > 1) {
        spec_enter(r, i, "gpu", "count");
        pl_spec_problem(r, "%u is not accepted: mode \"gpu-mem\" requests memory of one device", gpu->count);
    }
    if (gpu->share.mode == PL_SHARE_CUSTOM && gpu->share.values.n > 0 && gpu->share.preset == NULL) {
        spec_enter(r, i, "gpu", "share");
        pl_spec_enter_key(r, "values");
        pl_spec_problem(r, "\"values\" is accepted only with a \"preset\": set one");
    }
}

static void spec_check_resources(struct spec_reader *r, size_t i)
{
    const struct pl_resources *has = &r->spec->stages[i].resources;

    if (has->memory_request_bytes > 0 && has->memory_request_bytes > has->memory_bytes) {
        spec_enter(r, i, "resources", "memory_request");
        pl_spec_problem(r, "more than \"memory\", which is the limit");
    }
    if (has->cpu_limit_milli > 0 && has->cpu_limit_milli < has->cpu_milli) {
        spec_enter(r, i, "resources", "cpu_limit");
        pl_spec_problem(r, "less than \"cpu\", which is reserved");
    }
    if (has->shm_bytes > 0 && has->memory_bytes > 0 && has->shm_bytes > has->memory_bytes) {
        spec_enter(r, i, "resources", "shm");
        pl_spec_problem(r, "more than \"memory\", which includes it");
    }
}

/* True if a secret may be mounted there: an absolute path outside of the folders that pipelined uses. */
static bool spec_mount_ok(const char *mount)
{
    static const char *const ours[] = {"/pfs", "/pl", "/code", "/tmp", "/dev", "/proc", "/sys"};

    if (mount[0] != '/' || mount[1] == '\0' || strstr(mount, "//") != NULL || strstr(mount, "/.") != NULL ||
        mount[strlen(mount) - 1] == '/' || strchr(mount, ':') != NULL)
        return false;
    for (size_t i = 0; i < PL_ARRAY_SIZE(ours); i++) {
        size_t n = strlen(ours[i]);

        if (strncmp(mount, ours[i], n) == 0 && (mount[n] == '/' || mount[n] == '\0'))
            return false;
    }
    return true;
}

static void spec_check_secret_env(struct spec_reader *r, const struct pl_stage *stage, const char *env)
{
    if (!pl_identifier_ok(env))
        pl_spec_problem(r, "\"%.60s\" is not a valid variable name: use letters, digits and _, not starting with a digit", env);
    else if (pl_spec_reserves_variable(env))
        pl_spec_problem(r, "\"%.60s\" is set by pipelined: choose another name, which does not start with PL_", env);
    for (size_t i = 0; i < stage->n_env; i++)
        if (pl_streq(stage->env[i].key, env))
            pl_spec_problem(r, "\"%.60s\" is in \"env\" as well: remove one of them", env);
    for (size_t i = 0; i < stage->n_leaves; i++)
        if (stage->leaves[i]->name != NULL && pl_streq(stage->leaves[i]->name, env))
            pl_spec_problem(r, "\"%.60s\" is the variable of the input of that name: rename one of them", env);
}

static void spec_check_secret(struct spec_reader *r, size_t i, size_t k)
{
    const struct pl_stage *stage = &r->spec->stages[i];
    const struct pl_secret_use *use = &stage->secrets[k];
    size_t path_len;

    spec_enter(r, i, "secrets", NULL);
    pl_spec_enter_index(r, k);
    path_len = r->path.len;
    if ((use->env == NULL) == (use->mount == NULL)) {
        pl_spec_problem(r, "exactly one of \"env\" and \"mount\" is accepted");
        return;
    }
    if ((use->env == NULL) != (use->key == NULL))
        pl_spec_problem(r, use->env != NULL ? "\"env\" needs the \"key\" whose value it becomes"
                                            : "\"mount\" gives every key: remove \"key\"");
    for (size_t j = 0; j < k; j++) {
        const struct pl_secret_use *other = &stage->secrets[j];

        if ((use->env != NULL && other->env != NULL && pl_streq(use->env, other->env)) ||
            (use->mount != NULL && other->mount != NULL && pl_streq(use->mount, other->mount)))
            pl_spec_problem(r, "secrets[%zu] has the same variable or folder: rename one of them", j);
    }
    pl_spec_enter_key(r, use->env != NULL ? "env" : "mount");
    if (use->env != NULL)
        spec_check_secret_env(r, stage, use->env);
    else if (!spec_mount_ok(use->mount))
        pl_spec_problem(r,
                        "\"%.60s\" is not accepted: a folder such as \"/secrets/pg\", not in /pfs, /pl, /code, /tmp, /dev, "
                        "/proc or /sys",
                        use->mount);
    pl_spec_leave(r, path_len);
}

static void spec_check_toleration(struct spec_reader *r, size_t i, size_t k)
{
    const struct pl_toleration *t = &r->spec->stages[i].placement.tolerations[k];

    spec_enter(r, i, "placement", "tolerations");
    pl_spec_enter_index(r, k);
    if (t->op == PL_TOLERATE_EQUAL && t->key == NULL)
        pl_spec_problem(r, "\"key\" is missing: it can be left out only with \"operator\": \"Exists\"");
    if (t->op == PL_TOLERATE_EXISTS && t->value != NULL && t->value[0] != '\0')
        pl_spec_problem(r, "\"operator\": \"Exists\" takes no \"value\"");
    if (t->seconds >= 0 && (t->effect == NULL || !pl_streq(t->effect, "NoExecute")))
        pl_spec_problem(r, "\"toleration_seconds\" is only accepted with \"effect\": \"NoExecute\"");
}

/* True for folders that the sandbox shows read-only from the machine: no folder can be created in them. */
static bool spec_mount_is_system(const char *mount)
{
    static const char *const system[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(system); i++) {
        size_t n = strlen(system[i]);

        if (strncmp(mount, system[i], n) == 0 && (mount[n] == '/' || mount[n] == '\0'))
            return true;
    }
    return false;
}

static void spec_check_local_secret(struct spec_reader *r, size_t i, size_t k)
{
    const char *mount = r->spec->stages[i].secrets[k].mount;

    if (mount == NULL || (!r->ctx->no_sandbox && !spec_mount_is_system(mount)))
        return;
    spec_enter(r, i, "secrets", NULL);
    pl_spec_enter_index(r, k);
    pl_spec_enter_key(r, "mount");
    if (r->ctx->no_sandbox)
        pl_spec_problem(r, "without a sandbox (--sandbox none) nothing can be mounted: use \"env\"");
    else
        pl_spec_problem(r, "\"%.60s\" is a system folder of the machine: use another one, such as \"/secrets/pg\"", mount);
}

/* Refuses fields that one machine without a cluster cannot provide, and fields that need the sandbox if the
 * worker has none. */
static void spec_check_local(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];

    if (r->ctx != NULL && r->ctx->no_sandbox && !stage->network) {
        spec_enter(r, i, "network", NULL);
        pl_spec_problem(
            r, "without a sandbox (--sandbox none) the network cannot be switched off: remove this field, or use bubblewrap");
    } else if (r->ctx != NULL && r->ctx->no_sandbox && r->network_off) {
        spec_enter(r, i, "network", NULL);
        pl_spec_problem(r,
                        "the network is off in project \"%s\", and without a sandbox (--sandbox none) it cannot be switched off: "
                        "use bubblewrap",
                        r->spec->project);
    }
    if (r->ctx == NULL || !r->ctx->local)
        return;
    if (stage->gpu.share.mode > PL_SHARE_TIME_SLICING) {
        spec_enter(r, i, "gpu", "share");
        pl_spec_enter_key(r, "mode");
        pl_spec_problem(r,
                        "parts of GPUs are only available on Kubernetes; on one machine a worker has whole ones: use \"none\"");
    }
    if (stage->gpu.resource != NULL) {
        spec_enter(r, i, "gpu", "resource");
        pl_spec_problem(r, "\"%s\" is not accepted: the GPUs of one machine are \"" PL_GPU_RESOURCE "\"", stage->gpu.resource);
    }
    for (size_t k = 0; k < stage->n_secrets; k++)
        spec_check_local_secret(r, i, k);
}

void pl_spec_check_pod(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];

    spec_check_gpu(r, i);
    spec_check_resources(r, i);
    for (size_t k = 0; k < stage->n_secrets; k++)
        spec_check_secret(r, i, k);
    for (size_t k = 0; k < stage->placement.n_tolerations; k++)
        spec_check_toleration(r, i, k);
    spec_check_local(r, i);
}

static bool spec_says_placement(const struct pl_placement *p)
{
    return p->node_selector.n > 0 || p->n_tolerations > 0 || p->n_arch > 0 || p->priority_class != NULL ||
           p->runtime_class != NULL || p->queue != NULL || p->grace_ms >= 0 || p->pending_ms > 0 || p->labels.n > 0 ||
           p->annotations.n > 0 || p->pod_spec != NULL || p->pod_patch != NULL;
}

/* Warns about fields that have no effect on one machine. */
void pl_spec_warn_pod(struct spec_reader *r, size_t i)
{
    const struct pl_stage *stage = &r->spec->stages[i];
    const struct pl_gpu *gpu = &stage->gpu;
    const struct {
        bool said;
        const char *key, *member, *what;
    } unused[] = {
        {gpu->share.mode == PL_SHARE_TIME_SLICING, "gpu", "share", "workers do not share GPUs"},
        {stage->resources.cpu_limit_milli > 0, "resources", "cpu_limit", "the use of CPUs is not limited"},
        {stage->resources.memory_request_bytes > 0, "resources", "memory_request", "only \"memory\" counts"},
        {stage->user.given, "user", NULL, "the command runs as the daemon's user"},
        {stage->scratch.size_bytes > 0, "scratch", NULL, "data is in the daemon's folder"},
        {spec_says_placement(&stage->placement), "placement", NULL, "all workers run on this machine"},
    };

    if (stage->python != NULL && r->ctx != NULL && r->ctx->cluster) {
        spec_enter(r, i, "python", NULL);
        pl_spec_warning(r, "%s: not used in a cluster, where the image has the Python; a change of it runs all datums again",
                        stage->name);
    }
    if (gpu->count > 1 && (gpu->share.mode == PL_SHARE_TIME_SLICING || gpu->share.mode == PL_SHARE_MPS)) {
        spec_enter(r, i, "gpu", "count");
        pl_spec_warning(r, "%s: the %u time slices may all be of the same shared device", stage->name, gpu->count);
    }
    for (size_t k = 0; k < PL_ARRAY_SIZE(unused) && r->ctx != NULL && r->ctx->local; k++) {
        if (!unused[k].said)
            continue;
        spec_enter(r, i, unused[k].key, unused[k].member);
        pl_spec_warning(r, "%s: ignored on one machine: %s", stage->name, unused[k].what);
    }
}
