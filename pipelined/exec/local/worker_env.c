/* The lists of variables. */
#include "pipelined/exec/local/worker_env.h"

/* Variables that workers inherit. The first N_SHOWN decide what a command finds on this machine. */
static const char *const inherited[] = {"PATH",
                                        "LD_LIBRARY_PATH",
                                        "CUDA_HOME",
                                        "NVIDIA_DRIVER_CAPABILITIES",
                                        "PIPELINED_SANDBOX_RO",
                                        "HOME",
                                        "LANG",
                                        "LC_ALL",
                                        "TZ",
                                        "TMPDIR",
                                        "PIPELINED_OVERLAP",
                                        "PIPELINED_TRACE",
                                        "ASAN_OPTIONS",
                                        "UBSAN_OPTIONS",
                                        "LSAN_OPTIONS",
                                        "TSAN_OPTIONS"};
#define N_SHOWN 4u
_Static_assert(PL_ARRAY_SIZE(inherited) + PL_SANDBOX_PACKAGE_VARIABLES <= PL_WORKER_ENV_MAX,
               "the list of the caller is too short");

/* Adds those of the environment that are in the list. */
static size_t add_listed(const char *const *names, size_t n_names, char *ret[PL_WORKER_ENV_MAX], size_t n)
{
    extern char **environ;

    for (char **e = environ; *e && n < PL_WORKER_ENV_MAX; e++)
        for (size_t i = 0; i < n_names; i++)
            if (strncmp(*e, names[i], strlen(names[i])) == 0 && (*e)[strlen(names[i])] == '=')
                ret[n++] = *e;
    return n;
}

size_t pl_worker_env_list(char *ret[PL_WORKER_ENV_MAX])
{
    const size_t n = add_listed(inherited, PL_ARRAY_SIZE(inherited), ret, 0);

    return add_listed(pl_sandbox_package_variables, PL_SANDBOX_PACKAGE_VARIABLES, ret, n);
}

/* True if the program lies in the folder of one of the stage's secrets. */
static bool is_in_a_secret(const struct pl_stage *def, const char *program)
{
    for (size_t i = 0; program && i < def->n_secrets; i++) {
        const char *mount = def->secrets[i].mount;
        const size_t len = mount ? strlen(mount) : 0;

        if (len && strncmp(program, mount, len) == 0 && program[len] == '/')
            return true;
    }
    return false;
}

int pl_worker_env_check(const char *mode, const struct pl_stage *def, struct pl_err *err)
{
    const struct pl_sandbox_view view = {.all = pl_streq(mode, "none"),
                                         .read_only = getenv("PIPELINED_SANDBOX_RO"),
                                         .path = getenv("PATH")};
    struct pl_sandbox_stage stage = {.script = def->script,
                                     .python = def->python,
                                     .environment = pl_stage_environment(def) != NULL};
    const char *const run[] = {def->n_run ? def->run[0] : NULL, NULL};

    stage.run = run;
    for (size_t i = 0; i < def->n_env; i++)
        if (pl_streq(def->env[i].key, "PATH"))
            stage.path = def->env[i].value;
    if (is_in_a_secret(def, run[0]))
        stage.run = NULL; /* only the worker's sandbox has it */
    return pl_sandbox_view_stage(&view, &stage, err);
}

json_t *pl_worker_env_json(const char *host, const char *mode, const char *podman)
{
    const char *folders = getenv("PIPELINED_SANDBOX_RO");
    json_t *env = json_object(), *list = json_array();

    for (size_t i = 0; i < N_SHOWN; i++)
        if (getenv(inherited[i]))
            json_object_set_new(env, inherited[i], json_string(getenv(inherited[i])));
    for (const char *p = folders ? folders : ""; *p;) {
        size_t n = strcspn(p, ":");

        if (n)
            json_array_append_new(list, json_stringn(p, n));
        p += n + (p[n] == ':');
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "host", host, "mode", mode, "podman", podman, "read_only", list, "env", env);
}
