/* The constant variables are made once, as NAME=value strings. The variables of a datum are made for each
 * call, in an arena. */
#include "pipelined/agent/command/command_env.h"

#include "pipelined/sandbox_view/python_env.h"
#include "pipelined/spec/datum_env.h"
#include "storage/base/arena.h"
#include <assert.h>
#include <stdio.h>

/* maximum number of constant variables, without those of an image */
#define BASE_MAX (32 + PL_SANDBOX_PACKAGE_VARIABLES)

/* Variables that the command inherits without a sandbox, where it uses the host's own installation. No other
 * variables of the daemon or the agent are passed on. */
static const char *const inherited[] = {
    "USER", "LOGNAME", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"};

struct pl_env {
    const struct pl_agent_protocol_attach *stage;
    const struct pl_sandbox_config *config;
    const struct pl_sandbox_paths *paths;
    const struct pl_secrets *secrets;
    char **base; /* constant variables, NAME=value */
    size_t n_base, max_base;
    char *python_bin;       /* folder of the stage's Python, which comes first in PATH; NULL = the stage has none of its own */
    struct pl_arena *arena; /* memory of the last call's result */
};

/* Sets a variable, "NAME=VALUE", and takes it over; NULL = no memory. It replaces an earlier one of its name. */
static int set(struct pl_env *e, char *text, struct pl_err *err)
{
    size_t i = 0;

    if (!text)
        return pl_err_nomem(err);
    while (i < e->n_base && strncmp(e->base[i], text, strcspn(text, "=") + 1) != 0)
        i++;
    assert(i < e->max_base);
    free(e->base[i]);
    e->base[i] = text;
    e->n_base = PL_MAX(e->n_base, i + 1);
    return 0;
}

static int add_base(struct pl_env *e, const char *name, const char *value, struct pl_err *err)
{
    char *text = NULL;

    if (!value)
        return 0;
    return set(e, asprintf(&text, "%s=%s", name, value) < 0 ? NULL : text, err);
}

/* Adds CUDA_VISIBLE_DEVICES. In the sandbox CUDA sees only the assigned devices and numbers them from 0.
 * Without a sandbox CUDA sees all devices and numbers them in an order of its own, so they are named by
 * UUID. */
static int add_gpus(struct pl_env *e, struct pl_err *err)
{
    const bool none = e->config->mode == PL_SANDBOX_NONE;
    char list[(PL_GPU_UUID_BYTES + 1) * PL_AGENT_PROTOCOL_GPUS_MAX] = "";
    size_t len = 0;

    for (size_t i = 0; i < e->config->n_gpus; i++) {
        const char *uuid = e->config->gpu_uuids[i], *comma = i ? "," : "";

        if (none && *uuid)
            len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", comma, uuid);
        else
            len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u", comma, none ? e->config->gpus[i] : (unsigned)i);
    }
    return add_base(e, "CUDA_VISIBLE_DEVICES", list, err); /* "" for a CPU stage: CUDA then sees no devices */
}

/* Adds PYTHONPATH: the stage's own `env` first, then the folder of pl.py. */
static int add_python(struct pl_env *e, struct pl_err *err)
{
    const char *own = NULL;
    char path[2 * 4096];

    for (size_t i = 0; i < e->stage->n_env; i++)
        if (pl_streq(e->stage->env[i].key, "PYTHONPATH"))
            own = e->stage->env[i].value;
    snprintf(path, sizeof(path), "%s%s%s/py", own ? own : "", own && *own ? ":" : "", e->paths->bin);
    return add_base(e, "PYTHONPATH", path, err);
}

/* Notes which folder is first in PATH even if the stage sets PATH: that of its environment or of its Python. Adds VIRTUAL_ENV if that
 * Python is a virtual environment: the agent's own one is then not passed on. */
static int add_virtual_env(struct pl_env *e, struct pl_err *err)
{
    struct pl_python_env python;
    int r;

    if (e->config->environment) {
        e->python_bin = strdup(PL_ENVIRONMENT "/bin");
        return e->python_bin ? 0 : pl_err_nomem(err);
    }
    if (!e->config->python)
        return 0;
    r = pl_python_env_find(e->config->python, &python, err);
    if (r < 0)
        return r;
    e->python_bin = strdup(python.bin);
    if (!e->python_bin)
        return pl_err_nomem(err);
    return python.venv ? add_base(e, "VIRTUAL_ENV", python.folder, err) : 0;
}

static int add_socket(struct pl_env *e, struct pl_err *err)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s/next", e->paths->sock);
    return add_base(e, "PL_NEXT_SOCKET", path, err);
}

/* Returns the number of GPUs. In a pod only the number is known, not the devices. */
static uint32_t gpus_of(const struct pl_env *e)
{
    return PL_MAX((uint32_t)e->config->n_gpus, e->stage->gpu_count);
}

/* Makes the constant variables in a pod. All other variables come from the image, and the GPU devices from
 * the node. */
static int make_base_of_pod(struct pl_env *e, const char *path, struct pl_err *err)
{
    int r = path ? add_base(e, "PATH", path, err) : pl_err_nomem(err);

    if (r == 0)
        r = add_python(e, err);
    if (r == 0 && e->stage->batch)
        r = add_socket(e, err);
    if (r == 0 && gpus_of(e) == 0)
        r = add_base(e, "CUDA_VISIBLE_DEVICES", "", err);
    if (r == 0 && e->config->has_checkpoint)
        r = add_base(e, "PL_CHECKPOINT", e->paths->checkpoint, err);
    return r < 0 ? r : add_virtual_env(e, err);
}

/* Adds those of the agent's own variables that the command gets. */
static int add_inherited(struct pl_env *e, struct pl_err *err)
{
    const bool none = e->config->mode == PL_SANDBOX_NONE;
    int r = 0;

    for (size_t i = 0; r == 0 && e->config->makes_environment && i < PL_SANDBOX_PACKAGE_VARIABLES; i++)
        r = add_base(e, pl_sandbox_package_variables[i], getenv(pl_sandbox_package_variables[i]), err);
    for (size_t i = 0; r == 0 && none && i < PL_ARRAY_SIZE(inherited); i++)
        if (!e->config->python || !pl_streq(inherited[i], "VIRTUAL_ENV"))
            r = add_base(e, inherited[i], getenv(inherited[i]), err);
    return r;
}

/* True if a secret has the name of this variable, NAME=VALUE. */
static bool is_secret(const struct pl_env *e, const char *text)
{
    for (size_t i = 0; e->secrets && i < e->secrets->n_env; i++)
        if (strncmp(e->secrets->env[i], text, strcspn(text, "=") + 1) == 0)
            return true;
    return false;
}

/* Adds the variables of the image but those that a secret sets; those of ours that come later replace them. */
static int add_image(struct pl_env *e, struct pl_err *err)
{
    json_t *one;
    size_t k;
    int r = 0;

    json_array_foreach((json_t *)(uintptr_t)e->config->image->env, k, one)
    {
        const char *text = json_string_value(one);

        if (r == 0 && text && *text != '=' && strchr(text, '=') && !is_secret(e, text))
            r = set(e, strdup(text), err);
    }
    return r;
}

/* Adds the folder of the GPU driver's libraries. Without an image LD_LIBRARY_PATH is passed on, because the linker's
 * cache may not list that folder. */
static int add_driver(struct pl_env *e, struct pl_err *err)
{
    const char *own = NULL;
    char *text = NULL;

    if (!e->config->image)
        return add_base(e, "LD_LIBRARY_PATH", getenv("LD_LIBRARY_PATH"), err);
    for (size_t i = 0; i < e->n_base; i++)
        if (strncmp(e->base[i], "LD_LIBRARY_PATH=", 16) == 0)
            own = e->base[i] + 16;
    if (asprintf(&text, "LD_LIBRARY_PATH=%s%s%s", PL_SANDBOX_DRIVER, own && *own ? ":" : "", own ? own : "") < 0)
        text = NULL;
    return set(e, text, err);
}

/* Makes the constant variables. */
static int make_base(struct pl_env *e, struct pl_err *err)
{
    const bool none = e->config->mode == PL_SANDBOX_NONE;
    _cleanup_free_ char *path = pl_sandbox_search_path(e->config);
    const char *home = none && getenv("HOME") ? getenv("HOME") : e->paths->home;
    int r;

    if (e->config->mode == PL_SANDBOX_POD)
        return make_base_of_pod(e, path, err);
    r = add_base(e, "LANG", "C.UTF-8", err);
    if (r == 0 && e->config->image)
        r = add_image(e, err);
    if (r == 0)
        r = path ? add_base(e, "PATH", path, err) : pl_err_nomem(err);
    if (r == 0)
        r = add_base(e, "HOME", home, err);
    if (r == 0)
        r = add_base(e, "TMPDIR", e->paths->tmp, err);
    if (r == 0)
        r = add_python(e, err);
    if (r == 0 && e->stage->batch)
        r = add_socket(e, err);
    if (r == 0)
        r = add_gpus(e, err);
    if (r == 0 && e->config->has_checkpoint)
        r = add_base(e, "PL_CHECKPOINT", e->paths->checkpoint, err);
    if (r == 0 && !none && e->config->n_gpus)
        r = add_driver(e, err);
    if (r == 0)
        r = add_virtual_env(e, err);
    return r < 0 ? r : add_inherited(e, err);
}

int pl_env_create(const struct pl_agent_protocol_attach *stage, const struct pl_sandbox_config *config,
                  const struct pl_sandbox_paths *paths, const struct pl_secrets *secrets, struct pl_env **ret, struct pl_err *err)
{
    struct pl_env *e = calloc(1, sizeof(*e));
    int r;

    if (!e)
        return pl_err_nomem(err);
    e->stage = stage;
    e->config = config;
    e->paths = paths;
    e->secrets = secrets;
    e->max_base = BASE_MAX + (config->image ? json_array_size(config->image->env) : 0);
    e->base = calloc(e->max_base, sizeof(*e->base));
    r = e->base ? make_base(e, err) : pl_err_nomem(err);
    if (r < 0) {
        pl_env_destroy(e);
        return r;
    }
    *ret = e;
    return 0;
}

struct pl_env *pl_env_destroy(struct pl_env *e)
{
    if (!e)
        return NULL;
    for (size_t i = 0; i < e->n_base; i++)
        free(e->base[i]);
    free(e->base);
    pl_arena_destroy(e->arena);
    free(e->python_bin);
    free(e);
    return NULL;
}

static bool has_key(const struct pl_env_var *vars, size_t n, const char *text)
{
    const size_t len = strcspn(text, "=");

    for (size_t i = 0; i < n; i++)
        if (strlen(vars[i].key) == len && memcmp(vars[i].key, text, len) == 0)
            return true;
    return false;
}

/* Joins the constant variables, the secrets and `vars` into one array. `vars` replace constant variables of
 * the same name, except PYTHONPATH: its constant value already contains the stage's own PYTHONPATH. A PATH comes
 * after the folder of the stage's Python. */
static int merge(struct pl_env *e, const struct pl_env_var *vars, size_t n, const char *const **ret, struct pl_err *err)
{
    const size_t n_secrets = e->secrets ? e->secrets->n_env : 0;
    const char **all = pl_arena_alloc(e->arena, (n + e->n_base + n_secrets + 1) * sizeof(*all));
    size_t at = 0;

    if (!all)
        return pl_err_nomem(err);
    for (size_t i = 0; i < e->n_base; i++)
        if (strncmp(e->base[i], "PYTHONPATH=", 11) == 0 || !has_key(vars, n, e->base[i]))
            all[at++] = e->base[i];
    /* the spec parser ensures that no other variable of the stage has the name of a secret */
    for (size_t i = 0; i < n_secrets; i++)
        all[at++] = e->secrets->env[i];
    for (size_t i = 0; i < n; i++) {
        if (pl_streq(vars[i].key, "PYTHONPATH"))
            continue;
        if (e->python_bin && pl_streq(vars[i].key, "PATH"))
            all[at] = pl_arena_printf(e->arena, "PATH=%s:%s", e->python_bin, vars[i].value);
        else
            all[at] = pl_arena_printf(e->arena, "%s=%s", vars[i].key, vars[i].value);
        if (!all[at++])
            return pl_err_nomem(err);
    }
    *ret = all;
    return 0;
}

/* Gets the parameters of the datum's `params` input; returns their number. */
static size_t params_of(const struct pl_agent_protocol_datum *row, struct pl_param params[PL_PARAM_NAMES_MAX])
{
    const char *key;
    json_t *value;
    size_t n = 0;

    for (size_t i = 0; row && i < row->n_inputs && n == 0; i++)
        json_object_foreach(row->inputs[i].values, key, value) params[n++] = (struct pl_param){key, json_string_value(value)};
    return n;
}

int pl_env_argv(struct pl_env *e, const struct pl_agent_protocol_datum *row, const char *const *argv, const char *const **ret,
                struct pl_err *err)
{
    struct pl_param params[PL_PARAM_NAMES_MAX];
    size_t n_params = params_of(row, params), n = 0;
    bool same = n_params == 0;
    const char **all;

    *ret = argv;
    for (; argv[n]; n++)
        same = same && !strstr(argv[n], "$${");
    if (same)
        return 0;
    all = pl_arena_alloc(e->arena, (n + 1) * sizeof(*all));
    for (size_t i = 0; all && i < n; i++) {
        _cleanup_(pl_buf_finish) struct pl_buf text = {0};
        int r = pl_param_text_expand(argv[i], params, n_params, &text, err);

        if (r < 0)
            return r;
        all[i] = pl_buf_str(&text) ? pl_arena_strdup(e->arena, (char *)text.data) : NULL;
        if (!all[i])
            return pl_err_nomem(err);
    }
    *ret = all;
    return all ? 0 : pl_err_nomem(err);
}

int pl_env_of_datum(struct pl_env *e, const struct pl_agent_protocol_task *task, const struct pl_agent_protocol_datum *row,
                    struct pl_env_var **ret, size_t *ret_n, struct pl_err *err)
{
    struct pl_datum_env_input inputs[PL_AGENT_PROTOCOL_INPUTS_MAX];
    struct pl_param params[PL_PARAM_NAMES_MAX];
    struct pl_datum_env_request request = {
        .pfs = e->paths->pfs,
        .project = e->stage->project,
        .pipeline = e->stage->pipeline,
        .stage = e->stage->stage,
        .gpu_count = gpus_of(e),
        .inputs = inputs,
        .params = params,
        .env = e->stage->env,
        .n_env = e->stage->n_env,
    };

    if (row) {
        request.run = task->run;
        request.traceparent = task->traceparent;
        request.datum_id = row->datum;
        request.datum_key = row->key;
        request.n_inputs = row->n_inputs;
        request.n_params = params_of(row, params);
    }
    for (size_t i = 0; i < request.n_inputs; i++)
        inputs[i] = (struct pl_datum_env_input){.name = row->inputs[i].name,
                                                .path = row->inputs[i].path,
                                                .commit = row->inputs[i].commit};
    pl_arena_destroy(e->arena);
    e->arena = pl_arena_create(0);
    if (!e->arena)
        return pl_err_nomem(err);
    return pl_datum_env(&request, e->arena, ret, ret_n, err);
}

int pl_env_of(struct pl_env *e, const struct pl_agent_protocol_task *task, const struct pl_agent_protocol_datum *row,
              const char *const **ret, struct pl_err *err)
{
    struct pl_env_var *vars;
    size_t n;
    int r = pl_env_of_datum(e, task, row, &vars, &n, err);

    return r == 0 ? merge(e, vars, n, ret, err) : r;
}
