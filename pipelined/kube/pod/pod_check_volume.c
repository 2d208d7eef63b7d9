/* pod_check_volume.c: checks the sources of volumes that a spec adds, and that the spec changes no volume
 * that the pod has without it. */
#include "pipelined/kube/pod/pod_check_internal.h"

#include <stdio.h>

/* True for a claim that kubernetes.claims lists, for all projects or for this one ("PROJECT/CLAIM"). */
static bool claim_allowed(const struct pod_check *c, const json_t *name)
{
    const char *claim = json_string_value(name), *project = c->worker->project;
    size_t n = strlen(project);

    for (size_t i = 0; i < c->settings->n_claims && claim != NULL; i++) {
        const char *one = c->settings->claims[i], *slash = strchr(one, '/');

        if (slash == NULL ? pl_streq(one, claim)
                          : (size_t)(slash - one) == n && memcmp(one, project, n) == 0 && pl_streq(slash + 1, claim))
            return true;
    }
    return false;
}

/* Checks the sources of a projected volume. */
static int check_projected(struct pod_check *c, const json_t *projected, const char *path)
{
    const json_t *source;
    const char *key;
    json_t *value;
    size_t i;

    json_array_foreach(json_object_get(projected, "sources"), i, source)
    {
        json_object_foreach((json_t *)(uintptr_t)source, key, value)
        {
            if (pl_streq(key, "secret") && pl_pod_secret_allowed(c, json_object_get(value, "name")))
                continue;
            if (pl_streq(key, "secret"))
                return pl_pod_refuse(c, path, "projects a secret that is not labelled for the project");
            if (!pl_streq(key, "configMap") && !pl_streq(key, "downwardAPI"))
                return pl_pod_refuse(c, path, "projects something other than a configMap, secret or downwardAPI");
        }
    }
    return 0;
}

/* Allows an ephemeral volume only if it is a new, empty disk. A disk made from another volume or a
 * snapshot, or an existing volume, could contain data of other projects. Annotations are refused, because
 * they could make the provisioner use an existing folder. */
static int check_ephemeral(struct pod_check *c, const json_t *ephemeral, const char *path)
{
    static const char *const outer[] = {"volumeClaimTemplate"}, *const template[] = {"metadata", "spec"},
                             *const metadata[] = {"labels", "creationTimestamp"},
                             *const spec[] = {"accessModes", "resources", "storageClassName", "volumeMode"};
    const json_t *claim = json_object_get(ephemeral, "volumeClaimTemplate");
    char at[160];
    int r;

    r = pl_pod_refuse_changed(c, path, NULL, ephemeral, outer, PL_ARRAY_SIZE(outer));
    (void)snprintf(at, sizeof(at), "%s.volumeClaimTemplate", path);
    r = r < 0 ? r : pl_pod_refuse_changed(c, at, NULL, claim, template, PL_ARRAY_SIZE(template));
    (void)snprintf(at, sizeof(at), "%s.volumeClaimTemplate.metadata", path);
    r = r < 0 ? r : pl_pod_refuse_changed(c, at, NULL, json_object_get(claim, "metadata"), metadata, PL_ARRAY_SIZE(metadata));
    (void)snprintf(at, sizeof(at), "%s.volumeClaimTemplate.spec", path);
    return r < 0 ? r : pl_pod_refuse_changed(c, at, NULL, json_object_get(claim, "spec"), spec, PL_ARRAY_SIZE(spec));
}

/* Checks one source of the volume at `path`; `key` is the kind of the source, such as "configMap". */
static int check_source(struct pod_check *c, const char *path, const char *key, const json_t *value)
{
    static const char *const open[] = {"name", "emptyDir", "configMap", "downwardAPI", "image"};
    char at[128];

    if (json_is_null(value) || pl_pod_one_of(key, open, PL_ARRAY_SIZE(open)))
        return 0;
    (void)snprintf(at, sizeof(at), "%s.%.60s", path, key);
    if (pl_streq(key, "persistentVolumeClaim"))
        return claim_allowed(c, json_object_get(value, "claimName"))
                   ? 0
                   : pl_pod_refuse(c, at, "is a claim that kubernetes.claims does not name for the project");
    if (pl_streq(key, "ephemeral"))
        return check_ephemeral(c, value, at);
    if (pl_streq(key, "secret"))
        return pl_pod_secret_allowed(c, json_object_get(value, "secretName"))
                   ? 0
                   : pl_pod_refuse(c, at, "is not labelled for the project");
    return pl_streq(key, "projected") ? check_projected(c, value, at) : pl_pod_refuse(c, at, "is forbidden");
}

static int check_volume(struct pod_check *c, const json_t *volume, size_t i)
{
    const char *key, *name = json_string_value(json_object_get(volume, "name"));
    char path[64];
    json_t *value;
    int r = 0;

    (void)snprintf(path, sizeof(path), "volumes[%zu]", i);
    if (name == NULL)
        return pl_pod_refuse(c, path, "has no name");
    if (pl_pod_same(volume, pl_pod_named(json_object_get(c->before, "volumes"), name)))
        return 0;
    json_object_foreach((json_t *)(uintptr_t)volume, key, value)
    {
        r = r < 0 ? r : check_source(c, path, key, value);
    }
    return r;
}

/* True for the volumes that the renderer made for main: its shared memory and the secrets that it mounts. */
static bool is_of_main(const struct pod_check *c, const char *name)
{
    return pl_pod_named(json_object_get(c->template, "volumes"), name) == NULL &&
           (pl_streq(name, "shm") || strncmp(name, "secret-", 7) == 0);
}

bool pl_pod_may_mount(const struct pod_check *c, const char *volume)
{
    return pl_pod_named(json_object_get(c->before, "volumes"), volume) == NULL || is_of_main(c, volume) ||
           (pl_streq(volume, "trust") && pl_pod_named(json_object_get(c->template, "volumes"), volume) == NULL);
}

int pl_pod_check_volumes(struct pod_check *c)
{
    const json_t *before = json_object_get(c->before, "volumes"), *after = json_object_get(c->after, "volumes"), *volume;
    size_t i;
    int r;

    json_array_foreach((json_t *)(uintptr_t)before, i, volume)
    {
        const char *name = json_string_value(json_object_get(volume, "name"));

        if (name != NULL && !is_of_main(c, name) && !pl_pod_same(volume, pl_pod_named(after, name)))
            return pl_pod_refuse(c, "volumes", "changes a volume that is not the stage's");
    }
    json_array_foreach((json_t *)(uintptr_t)after, i, volume)
    {
        const char *name = json_string_value(json_object_get(volume, "name"));

        r = check_volume(c, volume, i);
        if (r < 0)
            return r;
        if (name != NULL && pl_pod_named(after, name) != volume)
            return pl_pod_refuse(c, "volumes", "has two entries with the same name");
    }
    return 0;
}
