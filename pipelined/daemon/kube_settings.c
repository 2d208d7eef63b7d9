#include "kube_settings.h"

#include "pipelined/core/quantity.h"
#include "storage/base/log.h"

#include <stdio.h>

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

/* Cuts `text` at its commas; `*copy` holds the names. */
static int split(const char *key, const char *text, const char *names[], size_t *ret_n, char **copy, struct pl_err *err)
{
    char *save = NULL;
    size_t n = 0;

    *copy = strdup(text);
    if (!*copy)
        return pl_err_nomem(err);
    for (char *name = strtok_r(*copy, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
        if (n == PL_KUBE_NAMES_MAX)
            return pl_err_set(err, PL_EINVAL, "kubernetes.%s has more than %u names", key, PL_KUBE_NAMES_MAX);
        names[n++] = name;
    }
    *ret_n = n;
    return 0;
}

static int split_lists(const struct pl_config_kube *k, struct pl_kube_settings *s, struct pl_err *err)
{
    int r = split("pull_secrets", k->pull_secrets, s->pull_secrets, &s->pods.n_pull_secrets, &s->texts[0], err);

    r = r < 0 ? r : split("arch", k->arch, s->arch, &s->pods.n_arch, &s->texts[1], err);
    r = r < 0 ? r : split("trusted_projects", k->trusted_projects, s->trusted, &s->n_trusted, &s->texts[2], err);
    for (size_t i = 0; r == 0 && i < s->pods.n_arch; i++)
        if (!pl_streq(s->arch[i], "amd64") && !pl_streq(s->arch[i], "arm64"))
            r = pl_err_set(err, PL_EINVAL, "kubernetes.arch is \"%s\": accepted are amd64 and arm64", s->arch[i]);
    s->pods.pull_secrets = s->pull_secrets;
    s->pods.arch = s->arch;
    return r;
}

static int read_proxy_env(const json_t *env, struct pl_pairs *ret, struct pl_err *err)
{
    const char *key;
    json_t *value;

    ret->items = calloc(json_object_size(env) + 1, sizeof *ret->items);
    if (!ret->items)
        return pl_err_nomem(err);
    json_object_foreach((json_t *)(uintptr_t)env, key, value)
    {
        if (!json_is_string(value))
            return pl_err_set(err, PL_EINVAL, "kubernetes.proxy_env.%s must be a text", key);
        ret->items[ret->n++] = (struct pl_env_var){.key = key, .value = json_string_value(value)};
    }
    return 0;
}

static int read_choices(const struct pl_config_kube *k, struct pl_pod_settings *s, struct pl_err *err)
{
    static const char *const choices[] = {
        [PL_CPU_AVOIDS_GPU] = "avoid", [PL_CPU_NEVER_ON_GPU] = "never", [PL_CPU_ANYWHERE] = "allow"};
    size_t i = 0;

    if (!*k->image)
        return pl_err_hint(
            err, pl_err_set(err, PL_EINVAL, "--executor kubernetes needs --kubernetes-image"),
            "Name the image with pipelined's programs that the cluster can pull (pipelined/deploy/Containerfile).");
    while (i < PL_ARRAY_SIZE(choices) && !pl_streq(choices[i], k->cpu_on_gpu_nodes))
        i++;
    if (i == PL_ARRAY_SIZE(choices))
        return pl_err_set(err, PL_EINVAL, "kubernetes.cpu_on_gpu_nodes is \"%s\": accepted are avoid, never and allow",
                          k->cpu_on_gpu_nodes);
    s->cpu_on_gpu_nodes = (enum pl_cpu_on_gpu)i;
    if (pl_quantity_bytes(k->agent_memory, &s->agent_memory_bytes, NULL) < 0 || s->agent_memory_bytes <= 0)
        return pl_err_set(err, PL_EINVAL, "kubernetes.agent_memory is \"%s\": accepted are quantities like 512Mi",
                          k->agent_memory);
    return 0;
}

int pl_kube_settings_read(const struct pl_config *config, const char *store_id, struct pl_kube_settings *ret, struct pl_err *err)
{
    const struct pl_config_kube *k = &config->kube;
    int r;

    *ret = (struct pl_kube_settings){.pods = {.store_id = store_id,
                                              .namespace = or_null(k->namespace),
                                              .image = k->image,
                                              .default_image = or_null(k->default_image),
                                              .owner_name = or_null(k->owner),
                                              .ca = or_null(k->ca),
                                              .trust_bundle = or_null(k->trust_bundle),
                                              .mesh = k->mesh,
                                              .node_cache = or_null(k->node_cache),
                                              .pod_template = json_object_size(k->pod_template) ? k->pod_template : NULL,
                                              .gpu_presets = json_object_size(k->gpu_presets) ? k->gpu_presets : NULL}};
    r = read_choices(k, &ret->pods, err);
    r = r < 0 ? r : split_lists(k, ret, err);
    r = r < 0 ? r : read_proxy_env(k->proxy_env, &ret->pods.proxy_env, err);
    if (r < 0)
        pl_kube_settings_finish(ret);
    return r;
}

int pl_kube_settings_url(struct pl_kube_settings *s, const struct pl_config *config, const char *url, struct pl_err *err)
{
    s->worker_url = strdup(*config->worker_url ? config->worker_url : *config->public_url ? config->public_url : url);
    if (!s->worker_url)
        return pl_err_nomem(err);
    s->pods.worker_url = s->worker_url;
    if (!*config->worker_url && !*config->public_url)
        pl_log_warn("kubernetes", "pods are told to reach the daemon at %s: from other machines they cannot; set --worker-url",
                    url);
    return 0;
}

void pl_kube_settings_finish(struct pl_kube_settings *s)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(s->texts); i++)
        free(s->texts[i]);
    free(s->pods.proxy_env.items);
    free(s->worker_url);
    memset(s, 0, sizeof *s);
}
