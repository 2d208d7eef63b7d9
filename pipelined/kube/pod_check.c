/* What a spec may not ask for: found on the rendered pod, whatever made it so. */
#include "pod_internal.h"

#include "storage/base/buf.h"

#include <stdarg.h>
#include <stdio.h>

struct check {
    const struct pl_pod_worker *worker;
    const struct pl_pod_settings *settings;
    const json_t *before, *after; /* specs */
    struct pl_err *err;
};

/* What lies at "containers[0].env[1]" of the spec; NULL: nothing. */
static const json_t *value_at(const json_t *value, const char *path)
{
    char name[128];

    while (*path != '\0' && value != NULL) {
        size_t n = strcspn(path, ".[");

        if (*path == '[') {
            char *end = NULL;

            value = json_array_get(value, strtoul(path + 1, &end, 10));
            path = *end == ']' ? end + 1 : end;
        } else {
            (void)snprintf(name, sizeof(name), "%.*s", (int)n, path);
            value = json_object_get(value, name);
            path += n;
        }
        path += *path == '.';
    }
    return value;
}

/* `path` is the field's in the pod's spec. */
static int refuse(struct check *c, const char *path, const char *what)
{
    const json_t *value = value_at(c->after, path);
    _cleanup_free_ char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    return pl_err_field(
        c->err,
        pl_err_set(c->err, PL_EFORBIDDEN,
                   "stage %s: %s %s%s%.80s%s: leave it out; only projects that kubernetes.trusted_projects names may",
                   c->worker->stage->name, path, what, text != NULL ? " (" : "", text != NULL ? text : "",
                   text != NULL ? ")" : ""),
        path);
}

static bool same(const json_t *a, const json_t *b)
{
    return a == b || (a != NULL && b != NULL && json_equal(a, b));
}

static const json_t *named(const json_t *list, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)list, i, one)
    {
        const char *other = json_string_value(json_object_get(one, "name"));

        if (other != NULL && pl_streq(other, name))
            return one;
    }
    return NULL;
}

static bool has_equal(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value))
            return true;
    return false;
}

static bool secret_allowed(const struct check *c, const json_t *name)
{
    const char *text = json_string_value(name);

    for (size_t i = 0; i < c->worker->n_secrets && text != NULL; i++)
        if (pl_streq(c->worker->secrets[i], text))
            return true;
    return false;
}

/* --- the pod itself */

static int check_flags(struct check *c)
{
    static const char *const never[] = {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace",
                                        "automountServiceAccountToken"};
    static const char *const kept[] = {"serviceAccountName",  "serviceAccount", "nodeName",          "restartPolicy",
                                       "ephemeralContainers", "hostUsers",      "setHostnameAsFQDN", "os"};
    const bool claims = same(json_object_get(c->after, "resourceClaims"), json_object_get(c->before, "resourceClaims"));

    for (size_t i = 0; i < PL_ARRAY_SIZE(never); i++) {
        const json_t *value = json_object_get(c->after, never[i]);

        if (value != NULL && !json_is_false(value) && !json_is_null(value) && !same(value, json_object_get(c->before, never[i])))
            return refuse(c, never[i], "is asked for");
    }
    if (!json_is_false(json_object_get(c->after, "automountServiceAccountToken")) &&
        json_is_false(json_object_get(c->before, "automountServiceAccountToken")))
        return refuse(c, "automountServiceAccountToken", "is asked for");
    for (size_t i = 0; i < PL_ARRAY_SIZE(kept); i++)
        if (!same(json_object_get(c->after, kept[i]), json_object_get(c->before, kept[i])))
            return refuse(c, kept[i], "is changed");
    return c->worker->gpu || claims ? 0 : refuse(c, "resourceClaims", "asks for a device that the stage has not (\"gpu\")");
}

static int check_priority(struct check *c)
{
    const char *name = json_string_value(json_object_get(c->after, "priorityClassName"));

    if (name != NULL && strncmp(name, "system-", 7) == 0)
        return refuse(c, "priorityClassName", "is one of the system's");
    if (json_object_get(c->after, "priority") != NULL)
        return refuse(c, "priority", "is set");
    return 0;
}

static bool is_unconfined(const json_t *security, const char *profile)
{
    const char *type = json_string_value(json_object_get(json_object_get(security, profile), "type"));

    return type != NULL && !pl_streq(type, "RuntimeDefault");
}

static int check_pod_security(struct check *c)
{
    static const char *const kept[] = {"sysctls", "windowsOptions", "fsGroup", "supplementalGroups", "seLinuxOptions"};
    const json_t *after = json_object_get(c->after, "securityContext"), *before = json_object_get(c->before, "securityContext");
    char path[64];

    if (after != NULL && !json_is_object(after))
        return refuse(c, "securityContext", "is no object");
    for (size_t i = 0; i < PL_ARRAY_SIZE(kept); i++) {
        (void)snprintf(path, sizeof(path), "securityContext.%s", kept[i]);
        if (!same(json_object_get(after, kept[i]), json_object_get(before, kept[i])))
            return refuse(c, path, "is changed");
    }
    if (!same(json_object_get(after, "seccompProfile"), json_object_get(before, "seccompProfile")))
        return refuse(c, "securityContext.seccompProfile", "is changed");
    if (is_unconfined(after, "appArmorProfile"))
        return refuse(c, "securityContext.appArmorProfile", "is not RuntimeDefault");
    if (json_integer_value(json_object_get(after, "runAsUser")) == PL_AGENT_UID)
        return refuse(c, "securityContext.runAsUser", "is the agent's");
    return 0;
}

/* As kubelets took them before there were fields for it; the daemon's template may bring some. */
static int check_annotations(struct check *c, const json_t *metadata)
{
    static const char *const never[] = {"container.apparmor.security.beta.kubernetes.io/",
                                        "container.seccomp.security.alpha.kubernetes.io/",
                                        "seccomp.security.alpha.kubernetes.io/"};
    const json_t *annotations = json_object_get(metadata, "annotations"),
                 *ours = json_object_get(json_object_get(c->settings->pod_template, "metadata"), "annotations");
    const char *key;
    json_t *value;
    char path[160];

    json_object_foreach((json_t *)(uintptr_t)annotations, key, value)
    {
        for (size_t i = 0; i < PL_ARRAY_SIZE(never); i++) {
            if (strncmp(key, never[i], strlen(never[i])) != 0 || same(json_object_get(ours, key), value))
                continue;
            (void)snprintf(path, sizeof(path), "metadata.annotations.%.120s", key);
            return refuse(c, path, "is set");
        }
    }
    return 0;
}

/* --- volumes */

static int check_projected(struct check *c, const json_t *projected, const char *path)
{
    const json_t *source;
    const char *key;
    json_t *value;
    size_t i;

    json_array_foreach(json_object_get(projected, "sources"), i, source)
    {
        json_object_foreach((json_t *)(uintptr_t)source, key, value)
        {
            if (pl_streq(key, "secret") && secret_allowed(c, json_object_get(value, "name")))
                continue;
            if (pl_streq(key, "secret"))
                return refuse(c, path, "projects a secret that is not labelled for the project");
            if (!pl_streq(key, "configMap") && !pl_streq(key, "downwardAPI"))
                return refuse(c, path, "projects what is no configMap, secret or downwardAPI");
        }
    }
    return 0;
}

static int check_volume(struct check *c, const json_t *volume, size_t i)
{
    static const char *const open[] = {"emptyDir", "configMap", "downwardAPI", "persistentVolumeClaim", "ephemeral", "image"};
    const char *key, *name = json_string_value(json_object_get(volume, "name"));
    char path[96];
    json_t *value;

    (void)snprintf(path, sizeof(path), "volumes[%zu]", i);
    if (name == NULL)
        return refuse(c, path, "has no name");
    if (same(volume, named(json_object_get(c->before, "volumes"), name)))
        return 0;
    json_object_foreach((json_t *)(uintptr_t)volume, key, value)
    {
        bool known = pl_streq(key, "name");

        for (size_t k = 0; k < PL_ARRAY_SIZE(open); k++)
            known = known || pl_streq(key, open[k]);
        if (known)
            continue;
        (void)snprintf(path, sizeof(path), "volumes[%zu].%.60s", i, key);
        if (pl_streq(key, "secret") && secret_allowed(c, json_object_get(value, "secretName")))
            continue;
        if (pl_streq(key, "secret"))
            return refuse(c, path, "is not labelled for the project");
        if (!pl_streq(key, "projected"))
            return refuse(c, path, "is asked for");
        if (check_projected(c, value, path) < 0)
            return PL_EFORBIDDEN;
    }
    return 0;
}

/* Ours stay as they are: pl, ca, trust, cache. */
static int check_volumes(struct check *c)
{
    const json_t *before = json_object_get(c->before, "volumes"), *after = json_object_get(c->after, "volumes"), *volume;
    static const char *const ours[] = {"pl", "ca", "trust", "cache"};
    size_t i;
    int r;

    for (size_t k = 0; k < PL_ARRAY_SIZE(ours); k++)
        if (!same(named(before, ours[k]), named(after, ours[k])))
            return refuse(c, "volumes", "changes a volume of the agent");
    json_array_foreach((json_t *)(uintptr_t)after, i, volume)
    {
        const char *name = json_string_value(json_object_get(volume, "name"));

        r = check_volume(c, volume, i);
        if (r < 0)
            return r;
        if (name != NULL && named(after, name) != volume)
            return refuse(c, "volumes", "has two of one name");
    }
    return 0;
}

/* --- containers */

static int check_container_security(struct check *c, const json_t *before, const json_t *container, const char *path)
{
    const json_t *security = json_object_get(container, "securityContext"),
                 *capabilities = json_object_get(security, "capabilities"), *proc;
    char field[128];
    const char *what = NULL;

    if (same(security, json_object_get(before, "securityContext")) && before != NULL)
        return 0;
    proc = json_object_get(security, "procMount");
    if (security != NULL && !json_is_object(security))
        what = "";
    else if (json_object_get(security, "privileged") != NULL && !json_is_false(json_object_get(security, "privileged")))
        what = ".privileged";
    else if (json_array_size(json_object_get(capabilities, "add")) > 0 ||
             (json_object_get(capabilities, "add") != NULL && !json_is_array(json_object_get(capabilities, "add"))))
        what = ".capabilities.add";
    else if (!json_is_false(json_object_get(security, "allowPrivilegeEscalation")))
        what = ".allowPrivilegeEscalation";
    else if (proc != NULL && !(json_is_string(proc) && pl_streq(json_string_value(proc), "Default")))
        what = ".procMount";
    else if (is_unconfined(security, "seccompProfile"))
        what = ".seccompProfile";
    else if (is_unconfined(security, "appArmorProfile"))
        what = ".appArmorProfile";
    else if (json_object_get(security, "windowsOptions") != NULL)
        what = ".windowsOptions";
    else if (json_object_get(security, "seLinuxOptions") != NULL)
        what = ".seLinuxOptions";
    else if (json_integer_value(json_object_get(security, "runAsUser")) == PL_AGENT_UID)
        what = ".runAsUser";
    (void)snprintf(field, sizeof(field), "%s.securityContext%s", path, what != NULL ? what : "");
    return what != NULL ? refuse(c, field, "is asked for") : 0;
}

static int check_container_env(struct check *c, const json_t *before, const json_t *container, const char *path)
{
    const json_t *one, *old = json_object_get(before, "env");
    char field[128];
    size_t i;

    json_array_foreach(json_object_get(container, "env"), i, one)
    {
        const json_t *secret = json_object_get(json_object_get(one, "valueFrom"), "secretKeyRef");

        (void)snprintf(field, sizeof(field), "%s.env[%zu]", path, i);
        if (secret != NULL && !secret_allowed(c, json_object_get(secret, "name")) && !has_equal(old, one))
            return refuse(c, field, "reads a secret that is not labelled for the project");
    }
    json_array_foreach(json_object_get(container, "envFrom"), i, one)
    {
        const json_t *secret = json_object_get(one, "secretRef");

        (void)snprintf(field, sizeof(field), "%s.envFrom[%zu]", path, i);
        if (secret != NULL && !secret_allowed(c, json_object_get(secret, "name")) &&
            !has_equal(json_object_get(before, "envFrom"), one))
            return refuse(c, field, "reads a secret that is not labelled for the project");
    }
    json_array_foreach(json_object_get(container, "ports"), i, one)
    {
        (void)snprintf(field, sizeof(field), "%s.ports[%zu].hostPort", path, i);
        if (json_object_get(one, "hostPort") != NULL && !has_equal(json_object_get(before, "ports"), one))
            return refuse(c, field, "is asked for");
    }
    return 0;
}

/* The volume is mounted as it was, and by nobody else. */
static int check_container_mounts(struct check *c, const json_t *before, const json_t *container, const char *path)
{
    static const char *const ours[] = {"pl", "ca", "cache"};
    const json_t *mount, *old = json_object_get(before, "volumeMounts");
    size_t i, k, had = 0, has = 0;
    char field[128];

    json_array_foreach((json_t *)(uintptr_t)old, i, mount)
    {
        const char *name = json_string_value(json_object_get(mount, "name"));

        had += name != NULL && pl_streq(name, "pl");
    }
    json_array_foreach(json_object_get(container, "volumeMounts"), i, mount)
    {
        const char *name = json_string_value(json_object_get(mount, "name"));
        bool known;

        (void)snprintf(field, sizeof(field), "%s.volumeMounts[%zu]", path, i);
        if (json_object_get(mount, "mountPropagation") != NULL)
            return refuse(c, field, "asks for mountPropagation");
        known = has_equal(old, mount);
        for (k = 0; k < PL_ARRAY_SIZE(ours) && !known; k++)
            if (name != NULL && pl_streq(name, ours[k]))
                return refuse(c, field, "mounts a volume of the agent");
        has += name != NULL && pl_streq(name, "pl");
    }
    (void)snprintf(field, sizeof(field), "%s.volumeMounts", path);
    return has == had ? 0 : refuse(c, field, "leaves out a folder of the agent");
}

/* A CPU stage has no GPU, whoever asks. */
static int check_container_gpus(struct check *c, const json_t *before, const json_t *container, const char *path)
{
    const json_t *limits = json_object_get(json_object_get(container, "resources"), "limits");
    char field[128];
    const char *key;
    json_t *value;

    if (c->worker->gpu)
        return 0;
    json_object_foreach((json_t *)(uintptr_t)limits, key, value)
    {
        (void)snprintf(field, sizeof(field), "%s.resources.limits", path);
        if (strncmp(key, "nvidia.com/", 11) == 0 || strstr(key, "gpu") != NULL)
            return refuse(c, field, "asks for a GPU that the stage has not (\"gpu\")");
    }
    (void)snprintf(field, sizeof(field), "%s.resources.claims", path);
    if (json_array_size(json_object_get(json_object_get(container, "resources"), "claims")) > 0)
        return refuse(c, field, "asks for a device that the stage has not (\"gpu\")");
    (void)snprintf(field, sizeof(field), "%s.env", path);
    if (before != NULL && !same(named(json_object_get(before, "env"), "NVIDIA_VISIBLE_DEVICES"),
                                named(json_object_get(container, "env"), "NVIDIA_VISIBLE_DEVICES")))
        return refuse(c, field, "changes NVIDIA_VISIBLE_DEVICES of a stage without GPUs");
    return 0;
}

/* The command is started by the runner: main goes on being that. */
static int check_main(struct check *c, const json_t *before, const json_t *container, const char *path)
{
    static const char *const kept[] = {"command", "args", "lifecycle", "restartPolicy", "stdin", "tty"};
    char field[128];

    for (size_t i = 0; i < PL_ARRAY_SIZE(kept); i++) {
        (void)snprintf(field, sizeof(field), "%s.%s", path, kept[i]);
        if (!same(json_object_get(before, kept[i]), json_object_get(container, kept[i])))
            return refuse(c, field, "is changed");
    }
    return 0;
}

static int check_container(struct check *c, const char *list, const json_t *container, size_t i)
{
    const char *name = json_string_value(json_object_get(container, "name"));
    const json_t *before = name != NULL ? named(json_object_get(c->before, list), name) : NULL;
    char path[64];
    int r;

    (void)snprintf(path, sizeof(path), "%s[%zu]", list, i);
    if (name == NULL)
        return refuse(c, path, "has no name");
    if (pl_streq(name, "agent") || pl_streq(name, "install") || (before != NULL && pl_streq(name, PL_POD_CACHE_OWNER)))
        return same(before, container) ? 0 : refuse(c, path, "changes a container of the agent");
    r = check_container_security(c, before, container, path);
    r = r < 0 ? r : check_container_env(c, before, container, path);
    r = r < 0 ? r : check_container_mounts(c, before, container, path);
    r = r < 0 ? r : check_container_gpus(c, before, container, path);
    return r < 0 || !pl_streq(name, "main") ? r : check_main(c, before, container, path);
}

static int check_containers(struct check *c, const char *list, const char *const *ours, size_t n)
{
    const json_t *after = json_object_get(c->after, list), *container;
    size_t i;

    for (i = 0; i < n; i++) {
        const json_t *one = json_array_get(after, i);
        const char *name = json_string_value(json_object_get(one, "name"));

        if (name == NULL || !pl_streq(name, ours[i]))
            return refuse(c, list, "loses or moves a container of the agent, or \"main\"");
    }
    json_array_foreach((json_t *)(uintptr_t)after, i, container)
    {
        const char *name = json_string_value(json_object_get(container, "name"));
        int r = check_container(c, list, container, i);

        if (r < 0)
            return r;
        if (named(after, name) != container)
            return refuse(c, list, "has two of one name");
    }
    return 0;
}

static int check_pull_secrets(struct check *c)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(c->after, "imagePullSecrets"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        bool ours = false;

        for (size_t k = 0; k < c->settings->n_pull_secrets && name != NULL; k++)
            ours = ours || pl_streq(c->settings->pull_secrets[k], name);
        if (!ours && !secret_allowed(c, json_object_get(one, "name")) &&
            !has_equal(json_object_get(c->before, "imagePullSecrets"), one))
            return refuse(c, "imagePullSecrets", "names a secret that is not labelled for the project");
    }
    return 0;
}

/* The stage's own; those that the daemon's template brings are the operator's. */
static int check_own_secrets(struct check *c)
{
    const struct pl_stage *stage = c->worker->stage;
    char path[64];

    for (size_t i = 0; i < stage->n_secrets; i++) {
        bool allowed = false;

        for (size_t k = 0; k < c->worker->n_secrets; k++)
            allowed = allowed || pl_streq(c->worker->secrets[k], stage->secrets[i].name);
        (void)snprintf(path, sizeof(path), "secrets[%zu]", i);
        if (!allowed)
            return refuse(c, path, "is not labelled for the project");
    }
    return 0;
}

int pl_pod_check(const struct pl_pod_worker *worker, const struct pl_pod_settings *settings, const json_t *before,
                 const json_t *after, struct pl_err *err)
{
    static const char *const containers[] = {"main", "agent"}, *const inits[] = {"install"};
    struct pl_err unused = {0};
    struct check c = {worker, settings, json_object_get(before, "spec"), json_object_get(after, "spec"),
                      err != NULL ? err : &unused};
    int r;

    if (worker->trusted)
        return 0;
    r = check_own_secrets(&c);
    r = r < 0 ? r : check_flags(&c);
    r = r < 0 ? r : check_priority(&c);
    r = r < 0 ? r : check_pod_security(&c);
    r = r < 0 ? r : check_annotations(&c, json_object_get(after, "metadata"));
    r = r < 0 ? r : check_volumes(&c);
    r = r < 0 ? r : check_containers(&c, "containers", containers, PL_ARRAY_SIZE(containers));
    r = r < 0 ? r : check_containers(&c, "initContainers", inits, PL_ARRAY_SIZE(inits));
    return r < 0 ? r : check_pull_secrets(&c);
}
