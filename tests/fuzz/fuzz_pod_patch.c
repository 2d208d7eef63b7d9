// link: pl_kube pl_core
/* Any patch of a pod, in all three ways: refused, or a pod that still is one; of one that is taken the agent's containers are as they were and
 * nothing of the host is in it. */
#include "pipelined/kube/pod_patch.h"
#include "pipelined/kube/pod_render.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct pl_pod_settings settings = {.store_id = "s", .namespace = "n", .image = "ours", .worker_url = "https://d:1"};
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

/* Nothing that only a trusted project may have, looked for another way. */
static void look(const struct pl_pod *got, const struct pl_pod *plain)
{
    const json_t *spec = json_object_get(got->pod, "spec"), *was = json_object_get(plain->pod, "spec");
    const json_t *containers = json_object_get(spec, "containers");

    must(json_equal(json_array_get(containers, 1), json_array_get(json_object_get(was, "containers"), 1)));
    must(json_equal(json_array_get(json_object_get(spec, "initContainers"), 0),
                    json_array_get(json_object_get(was, "initContainers"), 0)));
    for (size_t i = 0; i < json_array_size(containers); i++)
        must(!json_is_true(json_object_get(json_object_get(json_array_get(containers, i), "securityContext"), "privileged")));
    must(!json_is_true(json_object_get(spec, "hostNetwork")) && !json_is_true(json_object_get(spec, "hostPID")));
    must(!json_is_true(json_object_get(spec, "hostIPC")) && !json_is_true(json_object_get(spec, "shareProcessNamespace")));
    must(json_is_false(json_object_get(spec, "automountServiceAccountToken")));
    must(json_object_get(spec, "serviceAccountName") == NULL && json_object_get(spec, "nodeName") == NULL);
    for (size_t i = 0; i < json_array_size(json_object_get(spec, "volumes")); i++) {
        const json_t *volume = json_array_get(json_object_get(spec, "volumes"), i);

        must(json_object_get(volume, "hostPath") == NULL && json_object_get(volume, "secret") == NULL);
    }
}

static void try_patch(struct pl_spec *spec, const char *pod_spec, const char *pod_patch, const struct pl_pod *plain)
{
    const struct pl_pod_cluster cluster = {0};
    const struct pl_pod_worker worker = {.stage = &spec->stages[0], .project = "p", .token = "t"};
    struct pl_pod pod = {0};
    struct pl_err err = {0};

    spec->stages[0].placement.pod_spec = pod_spec;
    spec->stages[0].placement.pod_patch = pod_patch;
    if (pl_pod_render(&cluster, &settings, &worker, &pod, &err) < 0) {
        must(err.msg[0] != '\0');
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
        must(pl_pod_render(&cluster, &settings, &(struct pl_pod_worker){.stage = &spec->stages[0], .project = "p", .token = "t"},
                           &plain, NULL) == 0);
    }
    if (patch != NULL && json_is_object(json))
        try_patch(spec, patch, NULL, &plain);
    if (patch != NULL)
        try_patch(spec, NULL, patch, &plain);
    json_decref(json);
    free(patch);
    return 0;
}
