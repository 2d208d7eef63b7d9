// link: pipelined/kube/pod
/* Any patch of a pod, in all three ways: refused, or a pod that still is one; of one that is taken the agent's containers are as they were and
 * nothing of the host is in it. */
#include "pipelined/kube/pod/pod_patch.h"
#include "pipelined/kube/pod/pod_render.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct pl_pod_settings settings = {.store_id = "s", .namespace = "n", .image = "ours", .worker_url = "https://d:1"};
static const char token[] = "plw_fuzzed";
static const char text[] =
    "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"], \"image\": \"i\"}]}";

static struct pl_spec *spec_of(void)
{
    struct pl_spec *spec = NULL;

    if (pl_spec_parse(text, sizeof(text) - 1, "f", NULL, &spec, NULL, NULL) < 0)
        abort();
    return spec;
}

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* No GPU by limits, nor by the variable that images may have; no file of the agent's volume. */
static void look_at_container(const json_t *container)
{
    const json_t *resources = json_object_get(container, "resources"), *one;
    unsigned devices = 0;
    const char *key;
    json_t *value;
    size_t i;

    must(!json_is_true(json_object_get(json_object_get(container, "securityContext"), "privileged")));
    must(json_is_false(json_object_get(json_object_get(container, "securityContext"), "allowPrivilegeEscalation")));
    json_object_foreach(json_object_get(resources, "limits"), key, value) must(strchr(key, '/') == NULL || json_is_null(value));
    json_object_foreach(json_object_get(resources, "requests"), key, value) must(strchr(key, '/') == NULL || json_is_null(value));
    json_array_foreach(json_object_get(container, "env"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name")),
                   *said = json_string_value(json_object_get(one, "value"));

        must(said == NULL || strstr(said, token) == NULL);
        if (name == NULL || strcmp(name, "NVIDIA_VISIBLE_DEVICES") != 0)
            continue;
        must(said != NULL && strcmp(said, "void") == 0);
        devices++;
    }
    must(devices == 1);
}

/* Nothing that only a trusted project may have, looked for another way. */
static void look(const struct pl_pod *got, const struct pl_pod *plain)
{
    const json_t *spec = json_object_get(got->pod, "spec"), *was = json_object_get(plain->pod, "spec");
    const json_t *containers = json_object_get(spec, "containers");

    must(json_equal(json_array_get(containers, 1), json_array_get(json_object_get(was, "containers"), 1)));
    must(json_equal(json_array_get(json_object_get(spec, "initContainers"), 0),
                    json_array_get(json_object_get(was, "initContainers"), 0)));
    for (size_t i = 0; i < json_array_size(containers); i++)
        if (i != 1)
            look_at_container(json_array_get(containers, i));
    for (size_t i = 1; i < json_array_size(json_object_get(spec, "initContainers")); i++)
        look_at_container(json_array_get(json_object_get(spec, "initContainers"), i));
    must(!json_is_array(json_object_get(spec, "hostAliases")) && !json_is_object(json_object_get(spec, "dnsConfig")));
    must(!json_is_true(json_object_get(spec, "hostNetwork")) && !json_is_true(json_object_get(spec, "hostPID")));
    must(!json_is_true(json_object_get(spec, "hostIPC")) && !json_is_true(json_object_get(spec, "shareProcessNamespace")));
    must(json_is_false(json_object_get(spec, "automountServiceAccountToken")));
    must(!json_is_string(json_object_get(spec, "serviceAccountName")) && !json_is_string(json_object_get(spec, "nodeName")));
    for (size_t i = 0; i < json_array_size(json_object_get(spec, "volumes")); i++) {
        const json_t *volume = json_array_get(json_object_get(spec, "volumes"), i);

        must(!json_is_object(json_object_get(volume, "hostPath")) && !json_is_object(json_object_get(volume, "secret")));
        must(!json_is_object(json_object_get(volume, "persistentVolumeClaim")));
    }
}

static void try_patch(struct pl_spec *spec, const char *pod_spec, const char *pod_patch, const struct pl_pod *plain)
{
    const struct pl_pod_cluster cluster = {0};
    const struct pl_pod_worker worker = {.stage = &spec->stages[0], .project = "p", .token = token};
    struct pl_pod pod = {0};
    struct pl_err err = {0};

    spec->stages[0].placement.pod_spec = pod_spec;
    spec->stages[0].placement.pod_patch = pod_patch;
    if (pl_pod_render(&cluster, &settings, &worker, &pod, &err) < 0) {
        must(err.msg[0] != '\0' && strstr(err.msg, token) == NULL);
        return;
    }
    look(&pod, plain);
    pl_pod_finish(&pod);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct pl_spec *spec;
    static struct pl_pod plain;
    json_t *json = json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES, NULL);
    char *patch = json != NULL && n <= PL_POD_PATCH_MAX ? json_dumps(json, JSON_COMPACT) : NULL;

    if (spec == NULL) {
        const struct pl_pod_cluster cluster = {0};

        spec = spec_of();
        must(pl_pod_render(&cluster, &settings,
                           &(struct pl_pod_worker){.stage = &spec->stages[0], .project = "p", .token = token}, &plain,
                           NULL) == 0);
    }
    if (patch != NULL && strstr(patch, token) != NULL) { /* it knows the token already */
        free(patch);
        patch = NULL;
    }
    if (patch != NULL && json_is_object(json))
        try_patch(spec, patch, NULL, &plain);
    if (patch != NULL)
        try_patch(spec, NULL, patch, &plain);
    json_decref(json);
    free(patch);
    return 0;
}
