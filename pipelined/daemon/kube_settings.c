/* Checks each "kubernetes.…" setting and builds the struct pl_pod_settings from them. */
#include "pipelined/daemon/kube_settings.h"

#include "pipelined/kube/nodes/node_capacity.h"
#include "pipelined/kube/pod/node_cache_path.h"
#include "pipelined/kube/pod/pod_patch.h"
#include "pipelined/text/quantity.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/system/log_line.h"

#include <ctype.h>
#include <stdio.h>

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static bool is_name(const char *text)
{
    const size_t n = strlen(text);

    return n > 0 && n <= 253 && strspn(text, "-.0123456789abcdefghijklmnopqrstuvwxyz") == n && isalnum((unsigned char)text[0]) &&
           isalnum((unsigned char)text[n - 1]);
}

static int check_name(const char *key, const char *text, struct pl_err *err)
{
    if (!*text || is_name(text))
        return 0;
    return pl_err_set(err, PL_EINVAL,
                      "kubernetes.%s is \"%.100s\": use a name of Kubernetes: lower case letters, digits, \"-\" and \".\"", key,
                      text);
}

/* Sets the error for a JSON setting that does not have the expected form. `at`: the wrong member of the
 * setting `key`; NULL: the setting as a whole is wrong. */
static int bad_tree(struct pl_err *err, const char *key, const char *at, const json_t *value, const char *accepted)
{
    _cleanup_free_ char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    return pl_err_set(err, PL_EINVAL, "kubernetes.%s%s%.100s is %.200s: use %s", key, at ? "." : "", at ? at : "",
                      text ? text : "nothing", accepted);
}

/* Checks the setting pod_template. An operator may add labels and annotations to pods, but must not change
 * its name or namespace, for example. */
static int check_template(const json_t *template, struct pl_err *err)
{
    static const char *const lists[] = {"containers", "initContainers", "volumes", "tolerations", "imagePullSecrets"};
    const json_t *spec = json_object_get(template, "spec");
    _cleanup_(json_decrefp) json_t *alone = json_object();
    const char *key;
    json_t *value;
    int r;

    if (!json_is_object(template))
        return bad_tree(err, "pod_template", NULL, template, "an object with \"metadata\" and \"spec\"");
    json_object_foreach((json_t *)(uintptr_t) template, key, value)
    {
        if (!json_is_object(value) || (!pl_streq(key, "metadata") && !pl_streq(key, "spec")))
            return bad_tree(err, "pod_template", key, value, "\"metadata\" or \"spec\", each an object");
    }
    json_object_foreach(json_object_get(template, "metadata"), key, value)
    {
        if (!json_is_object(value) || (!pl_streq(key, "labels") && !pl_streq(key, "annotations")))
            return bad_tree(err, "pod_template.metadata", key, value, "\"labels\" or \"annotations\", each an object");
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(lists); i++) {
        value = json_object_get(spec, lists[i]);
        if (value && !json_is_array(value))
            return bad_tree(err, "pod_template.spec", lists[i], value, "a list");
    }
    r = alone ? pl_pod_merge(&alone, template, err) : pl_err_nomem(err);
    return r < 0 ? pl_err_wrap(err, r, "kubernetes.pod_template") : 0;
}

/* Checks the setting gpu_shapes: each of its entries must parse as the capacity of a node. */
static int check_shapes(const json_t *shapes, struct pl_err *err)
{
    static const char *const known[] = {"cpu", "memory", "resources", "products"};
    struct pl_node_capacity *offer = NULL;
    const json_t *shape;
    const char *key;
    json_t *value;
    size_t i;
    int r = json_is_array(shapes) ? pl_node_capacity_create(&offer, err) : bad_tree(err, "gpu_shapes", NULL, shapes, "a list");

    for (i = 0; r == 0 && i < json_array_size(shapes); i++) {
        shape = json_array_get(shapes, i);
        json_object_foreach((json_t *)(uintptr_t)shape, key, value)
        {
            size_t at = 0;

            while (at < PL_ARRAY_SIZE(known) && !pl_streq(known[at], key))
                at++;
            if (r == 0 && at == PL_ARRAY_SIZE(known))
                r = bad_tree(err, "gpu_shapes", key, value, "the names cpu, memory, resources and products");
        }
        r = r < 0 ? r : pl_node_capacity_shape(offer, shape, err);
        if (r < 0 && !strstr(err->msg, "kubernetes."))
            r = pl_err_wrap(err, r, "kubernetes.gpu_shapes[%zu]", i);
    }
    pl_node_capacity_destroy(offer);
    return r;
}

/* Checks one entry of the setting gpu_presets. */
static int check_preset(const char *name, const json_t *preset, struct pl_err *err)
{
    static const char *const objects[] = {"limits", "annotations", "labels"};
    char at[300];
    const char *key, *inner;
    json_t *value, *text;

    if (!json_is_object(preset))
        return bad_tree(err, "gpu_presets", name, preset,
                        "an object with \"limits\", \"annotations\", \"labels\" and \"scheduler\"");
    json_object_foreach((json_t *)(uintptr_t)preset, key, value)
    {
        size_t i = 0;

        (void)snprintf(at, sizeof at, "%.60s.%.60s", name, key);
        while (i < PL_ARRAY_SIZE(objects) && !pl_streq(objects[i], key))
            i++;
        if (i == PL_ARRAY_SIZE(objects) && !(pl_streq(key, "scheduler") && json_is_string(value)))
            return bad_tree(err, "gpu_presets", at, value,
                            "\"limits\", \"annotations\", \"labels\", or a string as \"scheduler\"");
        if (i < PL_ARRAY_SIZE(objects) && !json_is_object(value))
            return bad_tree(err, "gpu_presets", at, value, "an object of strings");
        json_object_foreach(i < PL_ARRAY_SIZE(objects) ? value : NULL, inner, text)
        {
            (void)snprintf(at, sizeof at, "%.60s.%.60s.%.120s", name, key, inner);
            if (!json_is_string(text))
                return bad_tree(err, "gpu_presets", at, text, "a string");
        }
    }
    return 0;
}

static int check_trees(const struct pl_config_kube *k, struct pl_err *err)
{
    int r = check_template(k->pod_template, err);
    const char *name;
    json_t *preset;

    r = r < 0 ? r : check_shapes(k->gpu_shapes, err);
    if (r == 0 && !json_is_object(k->gpu_presets))
        r = bad_tree(err, "gpu_presets", NULL, k->gpu_presets, "an object");
    json_object_foreach(k->gpu_presets, name, preset)
    {
        r = r < 0 ? r : check_preset(name, preset, err);
    }
    if (r == 0 && !json_is_object(k->proxy_env))
        r = bad_tree(err, "proxy_env", NULL, k->proxy_env, "an object of strings");
    return r;
}

/* Splits `text` at its commas; the resulting names point into `*copy`. */
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

/* Checks the name of a PersistentVolumeClaim: "CLAIM" or "PROJECT/CLAIM". */
static int check_claim(const char *text, struct pl_err *err)
{
    const char *slash = strchr(text, '/');
    char project[64];

    (void)snprintf(project, sizeof project, "%.*s", slash ? (int)(slash - text) : 0, text);
    if (is_name(slash ? slash + 1 : text) && (!slash || pl_name_check("project", project, NULL) == 0))
        return 0;
    return pl_err_set(err, PL_EINVAL, "kubernetes.claims is \"%.100s\": use names of PersistentVolumeClaims, or PROJECT/CLAIM",
                      text);
}

/* Splits and checks all settings that are lists of names. */
static int split_lists(const struct pl_config_kube *k, struct pl_kube_settings *s, struct pl_err *err)
{
    int r = split("pull_secrets", k->pull_secrets, s->pull_secrets, &s->pods.n_pull_secrets, &s->texts[0], err);

    r = r < 0 ? r : split("arch", k->arch, s->arch, &s->pods.n_arch, &s->texts[1], err);
    r = r < 0 ? r : split("trusted_projects", k->trusted_projects, s->trusted, &s->n_trusted, &s->texts[2], err);
    r = r < 0 ? r : split("claims", k->claims, s->claims, &s->pods.n_claims, &s->texts[3], err);
    r = r < 0 ? r : split("annotations", k->annotations, s->annotations, &s->pods.n_annotations, &s->texts[4], err);
    for (size_t i = 0; r == 0 && i < s->pods.n_claims; i++)
        r = check_claim(s->claims[i], err);
    for (size_t i = 0; r == 0 && i < s->pods.n_arch; i++)
        if (!pl_streq(s->arch[i], "amd64") && !pl_streq(s->arch[i], "arm64"))
            r = pl_err_set(err, PL_EINVAL, "kubernetes.arch is \"%s\": use amd64 or arm64", s->arch[i]);
    for (size_t i = 0; r == 0 && i < s->pods.n_pull_secrets; i++)
        r = check_name("pull_secrets", s->pull_secrets[i], err);
    for (size_t i = 0; r == 0 && i < s->n_trusted; i++)
        if (pl_name_check("project", s->trusted[i], NULL) < 0)
            r = pl_err_set(err, PL_EINVAL, "kubernetes.trusted_projects is \"%s\": use names of projects", s->trusted[i]);
    s->pods.pull_secrets = s->pull_secrets;
    s->pods.claims = s->claims;
    s->pods.annotations = s->annotations;
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
            return bad_tree(err, "proxy_env", key, value, "a string");
        ret->items[ret->n++] = (struct pl_env_var){.key = key, .value = json_string_value(value)};
    }
    return 0;
}

/* Checks the settings that are an image, a choice of words, a duration or a quantity. */
static int read_choices(const struct pl_config_kube *k, struct pl_pod_settings *s, struct pl_err *err)
{
    static const char *const choices[] = {
        [PL_CPU_AVOIDS_GPU] = "avoid", [PL_CPU_NEVER_ON_GPU] = "never", [PL_CPU_ANYWHERE] = "allow"};
    char duration[32];
    size_t i = 0;

    if (!*k->image)
        return pl_err_hint(err, pl_err_set(err, PL_EINVAL, "--executor kubernetes needs --kubernetes-image"),
                           "Give an image with pipelined's programs that the cluster can pull (pipelined/deploy/Containerfile).");
    while (i < PL_ARRAY_SIZE(choices) && !pl_streq(choices[i], k->cpu_on_gpu_nodes))
        i++;
    if (i == PL_ARRAY_SIZE(choices))
        return pl_err_set(err, PL_EINVAL, "kubernetes.cpu_on_gpu_nodes is \"%s\": use avoid, never or allow",
                          k->cpu_on_gpu_nodes);
    s->cpu_on_gpu_nodes = (enum pl_cpu_on_gpu)i;
    if (k->grace_ms < 1000 || k->grace_ms > PL_KUBE_GRACE_MOST_MS)
        return pl_err_set(err, PL_EINVAL, "kubernetes.grace is \"%s\": use a duration from 1s to 24h",
                          pl_duration_text(k->grace_ms, duration));
    if (*k->node_cache && pl_node_cache_path_check(k->node_cache, err) < 0)
        return PL_EINVAL;
    if (pl_quantity_bytes(k->agent_memory, &s->agent_memory_bytes, NULL) < 0 || s->agent_memory_bytes <= 0)
        return pl_err_set(err, PL_EINVAL, "kubernetes.agent_memory is \"%s\": use a quantity such as 512Mi", k->agent_memory);
    return 0;
}

int pl_kube_settings_read(const struct pl_config *config, const char *store_id, struct pl_kube_settings *ret, struct pl_err *err)
{
    const struct pl_config_kube *k = &config->kube;
    const struct {
        const char *key, *text;
    } names[] = {{"namespace", k->namespace}, {"owner", k->owner}, {"ca", k->ca}, {"trust_bundle", k->trust_bundle}};
    int r;

    *ret = (struct pl_kube_settings){.pods = {.store_id = store_id,
                                              .namespace = or_null(k->namespace),
                                              .image = k->image,
                                              .default_image = or_null(k->default_image),
                                              .owner_name = or_null(k->owner),
                                              .ca = or_null(k->ca),
                                              .trust_bundle = or_null(k->trust_bundle),
                                              .mesh = k->mesh,
                                              .grace_ms = k->grace_ms,
                                              .node_cache = or_null(k->node_cache),
                                              .pod_template = json_object_size(k->pod_template) ? k->pod_template : NULL,
                                              .gpu_presets = json_object_size(k->gpu_presets) ? k->gpu_presets : NULL}};
    r = read_choices(k, &ret->pods, err);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(names); i++)
        r = check_name(names[i].key, names[i].text, err);
    r = r < 0 ? r : check_trees(k, err);
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
        pl_log_warn("kubernetes",
                    "pods will use the address %s of the daemon, which they cannot reach from other machines: set --worker-url",
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
