/* pod_check.c: refuses what a spec may not request, by examining the rendered pod, whatever part of the spec
 * caused it. This file checks the pod itself; its containers and volumes have files of their own. */
#include "pipelined/kube/pod/pod_check_internal.h"

#include "storage/base/buf.h"

#include <stdio.h>
#include <strings.h>

/* Returns the value at a path of the spec, such as "containers[0].env[1]"; NULL = none. */
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

int pl_pod_refuse(struct pod_check *c, const char *path, const char *what)
{
    const json_t *value = value_at(c->after, path);
    _cleanup_free_ char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    return pl_err_field(
        c->err,
        pl_err_set(c->err, PL_EFORBIDDEN,
                   "stage %s: %s %s%s%.80s%s: leave it out; only projects in kubernetes.trusted_projects may have it%s",
                   c->worker->stage->name, path, what, text != NULL ? " (" : "", text != NULL ? text : "",
                   text != NULL ? ")" : "", c->worker->network_off ? ", and only if their network is not off" : ""),
        path);
}

const json_t *pl_pod_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_null(value) ? NULL : value;
}

bool pl_pod_same(const json_t *a, const json_t *b)
{
    return a == b || (a != NULL && b != NULL && json_equal(a, b));
}

bool pl_pod_one_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pl_streq(words[i], word))
            return true;
    return false;
}

const json_t *pl_pod_named(const json_t *list, const char *name)
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

bool pl_pod_has_equal(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value))
            return true;
    return false;
}

const char *pl_pod_changed(const json_t *before, const json_t *after, const char *const *open, size_t n_open)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)after, key, value)
    {
        if (!pl_pod_same(pl_pod_at(before, key), json_is_null(value) ? NULL : value) && !pl_pod_one_of(key, open, n_open))
            return key;
    }
    json_object_foreach((json_t *)(uintptr_t)before, key, value)
    {
        if (!json_is_null(value) && pl_pod_at(after, key) == NULL && !pl_pod_one_of(key, open, n_open))
            return key;
    }
    return NULL;
}

int pl_pod_refuse_changed(struct pod_check *c, const char *where, const json_t *before, const json_t *after,
                          const char *const *open, size_t n_open)
{
    const char *key = pl_pod_changed(before, after, open, n_open);
    char path[256];

    if (key == NULL)
        return 0;
    (void)snprintf(path, sizeof(path), "%.180s%s%.60s", where, where[0] != '\0' ? "." : "", key);
    return pl_pod_refuse(c, path, pl_pod_at(before, key) != NULL ? "is changed" : "is forbidden");
}

bool pl_pod_profile_fine(const struct pod_check *c, const json_t *before, const json_t *after, const char *profile)
{
    const json_t *was = pl_pod_at(before, profile), *is = pl_pod_at(after, profile),
                 *whole = pl_pod_at(json_object_get(c->before, "securityContext"), profile);
    const char *type = json_string_value(json_object_get(is, "type"));

    if (pl_pod_same(was, is))
        return true;
    if (was != NULL)
        return false;
    return whole != NULL ? pl_pod_same(whole, is) : type != NULL && pl_streq(type, "RuntimeDefault");
}

bool pl_pod_lowered(const json_t *before, const json_t *after, const char *flag)
{
    return json_is_true(json_object_get(before, flag)) && !json_is_true(json_object_get(after, flag));
}

bool pl_pod_ids_are_integers(const json_t *security)
{
    static const char *const names[] = {"runAsUser", "runAsGroup", "fsGroup"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
        const json_t *id = pl_pod_at(security, names[i]);

        if (id != NULL && !json_is_integer(id))
            return false;
    }
    return true;
}

bool pl_pod_secret_allowed(const struct pod_check *c, const json_t *name)
{
    const char *text = json_string_value(name);

    return text != NULL && pl_pod_one_of(text, c->worker->secrets, c->worker->n_secrets);
}

bool pl_pod_gives_devices(const char *variable)
{
    /* every vendor's runtime has such a variable: NVIDIA, AMD, HABANA, ASCEND, … */
    static const char suffix[] = "_VISIBLE_DEVICES";
    /* these variables only choose among the devices that the container has; libraries in the container read
     * them */
    static const char *const choosing[] = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};
    const size_t n = strlen(variable);

    return n >= sizeof(suffix) && pl_streq(variable + n - (sizeof(suffix) - 1), suffix) &&
           !pl_pod_one_of(variable, choosing, PL_ARRAY_SIZE(choosing));
}

/* ---- the pod itself ---- */

/* Checks the pod's fields. A field that is neither in `open` nor checked below must not change. */
static int check_fields(struct pod_check *c)
{
    static const char *const off[] = {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"};
    static const char *const open[] = {"activeDeadlineSeconds", "affinity", "enableServiceLinks", "nodeSelector",
                                       "preemptionPolicy", "readinessGates", "schedulerName", "schedulingGates", "subdomain",
                                       "terminationGracePeriodSeconds", "tolerations", "runtimeClassName",
                                       "topologySpreadConstraints",
                                       /* checked below or by other functions */
                                       "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "resourceClaims", "hostname",
                                       "priority", "priorityClassName", "securityContext", "volumes", "containers",
                                       "initContainers", "imagePullSecrets"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(off); i++) {
        const json_t *value = pl_pod_at(c->after, off[i]);

        if (value != NULL && !json_is_false(value) && !pl_pod_same(value, json_object_get(c->before, off[i])))
            return pl_pod_refuse(c, off[i], "is forbidden");
    }
    if (!pl_pod_same(pl_pod_at(c->after, "resourceClaims"), pl_pod_at(c->before, "resourceClaims")))
        return pl_pod_refuse(c, "resourceClaims", "requests devices other than the stage's \"gpu\"");
    if (pl_pod_at(c->template, "runtimeClassName") != NULL &&
        !pl_pod_same(pl_pod_at(c->before, "runtimeClassName"), pl_pod_at(c->after, "runtimeClassName")))
        return pl_pod_refuse(c, "runtimeClassName", "is changed");
    return pl_pod_refuse_changed(c, "", c->before, c->after, open, PL_ARRAY_SIZE(open));
}

/* Refuses the daemon's host name as the pod's hostname. The pod's /etc/hosts maps its hostname to the pod
 * itself, so the agent would connect to the command's container instead of the daemon. */
static int check_hostname(struct pod_check *c)
{
    const char *name = json_string_value(json_object_get(c->after, "hostname")), *url = c->settings->worker_url, *host;

    if (name == NULL || url == NULL || pl_pod_same(json_object_get(c->before, "hostname"), json_object_get(c->after, "hostname")))
        return 0;
    host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    if (strcspn(host, ".:/") == strlen(name) && strncasecmp(host, name, strlen(name)) == 0)
        return pl_pod_refuse(c, "hostname", "is the daemon's host name");
    return 0;
}

/* Checks the pod's priority class against the operator's template, because `before` already has the priority
 * class of the stage's placement. */
static int check_priority(struct pod_check *c)
{
    const json_t *class = pl_pod_at(c->after, "priorityClassName");
    const char *name = json_string_value(class);

    if (name != NULL && strncmp(name, "system-", 7) == 0 &&
        !pl_pod_same(class, json_object_get(c->template, "priorityClassName")))
        return pl_pod_refuse(c, "priorityClassName", "is a system priority class");
    if (!pl_pod_same(pl_pod_at(c->before, "priority"), pl_pod_at(c->after, "priority")))
        return pl_pod_refuse(c, "priority", "is set");
    return 0;
}

/* Checks the pod's securityContext: profiles, root and the agent's user must stay as they are. */
static int check_pod_security(struct pod_check *c)
{
    static const char *const open[] = {"runAsUser",           "runAsGroup",     "runAsNonRoot",
                                       "fsGroupChangePolicy", "seccompProfile", "appArmorProfile"};
    const json_t *after = pl_pod_at(c->after, "securityContext"), *before = json_object_get(c->before, "securityContext"), *uid;

    if (after != NULL && !json_is_object(after))
        return pl_pod_refuse(c, "securityContext", "is not an object");
    uid = pl_pod_at(after, "runAsUser");
    if (!pl_pod_profile_fine(c, before, after, "seccompProfile"))
        return pl_pod_refuse(c, "securityContext.seccompProfile", "is changed");
    if (!pl_pod_profile_fine(c, before, after, "appArmorProfile"))
        return pl_pod_refuse(c, "securityContext.appArmorProfile", "is not RuntimeDefault");
    if (pl_pod_lowered(before, after, "runAsNonRoot"))
        return pl_pod_refuse(c, "securityContext.runAsNonRoot", "is changed");
    if (!pl_pod_ids_are_integers(after))
        return pl_pod_refuse(c, "securityContext", "has a user or group that is not an integer");
    if (json_integer_value(uid) == PL_AGENT_UID && !pl_pod_same(uid, json_object_get(before, "runAsUser")))
        return pl_pod_refuse(c, "securityContext.runAsUser", "is the agent's user");
    return pl_pod_refuse_changed(c, "securityContext", before, after, open, PL_ARRAY_SIZE(open));
}

/* True if a GPU preset sets the annotation; with such annotations GPU schedulers give out parts of GPUs. */
static bool is_of_preset(const json_t *rows, const char *annotation)
{
    const char *key;
    json_t *row;

    json_object_foreach((json_t *)(uintptr_t)rows, key, row)
    {
        if (json_object_get(json_object_get(row, "annotations"), annotation) != NULL)
            return true;
    }
    return false;
}

/* True for annotations that a spec may set. Container runtimes, webhooks, meshes, networks and clouds obey
 * annotations, and new ones appear each year, so only harmless ones are listed. Kubernetes leaves names
 * without a domain to users; CRI-O, runc and systemd obey some names with dots. */
static bool is_allowed(const struct pod_check *c, const char *annotation)
{
    /* allowed, because the renderer's own annotations overwrite the spec's */
    static const char *const prefixes[] = {PL_POD_LABEL,
                                           "cluster-autoscaler.kubernetes.io/",
                                           "karpenter.sh/",
                                           "kueue.x-k8s.io/",
                                           "linkerd.io/inject",
                                           "prometheus.io/",
                                           "sidecar.istio.io/inject",
                                           "sidecar.istio.io/proxyCPU",
                                           "sidecar.istio.io/proxyMemory"};

    if (strpbrk(annotation, "./") == NULL)
        return true;
    for (size_t i = 0; i < PL_ARRAY_SIZE(prefixes); i++)
        if (strncmp(annotation, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    for (size_t i = 0; i < c->settings->n_annotations; i++)
        if (strncmp(annotation, c->settings->annotations[i], strlen(c->settings->annotations[i])) == 0)
            return true;
    return false;
}

/* True if the spec's pairs contain the key. */
static bool says(const struct pl_pairs *pairs, const char *key)
{
    for (size_t i = 0; i < pairs->n; i++)
        if (pl_streq(pairs->items[i].key, key))
            return true;
    return false;
}

/* Checks the annotations. Patches cannot change them, but the stage's placement and gpu.share set some. The
 * daemon's template may set any; an operator's GPU preset may set its own for a stage with GPUs. */
static int check_annotations(struct pod_check *c, const json_t *metadata)
{
    const json_t *annotations = json_object_get(metadata, "annotations"),
                 *ours = json_object_get(json_object_get(c->settings->pod_template, "metadata"), "annotations");
    const struct pl_stage *stage = c->worker->stage;
    _cleanup_(json_decrefp) json_t *rows = NULL; /* loaded only when needed: few pods need it */
    const char *key;
    json_t *value;
    char path[160];

    json_object_foreach((json_t *)(uintptr_t)annotations, key, value)
    {
        const bool of_spec = says(&stage->placement.annotations, key) || says(&stage->gpu.share.annotations, key);
        const bool allowed = is_allowed(c, key);
        bool of_preset;

        if (pl_pod_same(json_object_get(ours, key), value) || (allowed && (c->worker->gpu || !of_spec)))
            continue;
        if (rows == NULL && (rows = pl_pod_presets(c->settings)) == NULL)
            return pl_err_nomem(c->err);
        of_preset = is_of_preset(rows, key);
        (void)snprintf(path, sizeof(path), "metadata.annotations.%.120s", key);
        if (of_preset && !c->worker->gpu)
            return pl_pod_refuse(c, path, "requests devices other than the stage's \"gpu\"");
        if (!allowed && (of_spec || !of_preset))
            return pl_pod_refuse(c, path, "is not an annotation that specs may set or that kubernetes.annotations allows");
    }
    return 0;
}

/* Refuses labels by which Services, GPU measurements (exec/kubernetes/gpu_usage.h) and clouds' identity
 * systems select pods. In table `names`, a NULL value stands for any value of the label. */
static int check_labels(struct pod_check *c, const json_t *metadata)
{
    static const char *const names[][2] = {{"app", "pipelined"},
                                           {"app", "dcgm-exporter"},
                                           {"app", "nvidia-dcgm-exporter"},
                                           {"app", "gke-managed-dcgm-exporter"},
                                           {"app.kubernetes.io/name", "pipelined"},
                                           {"app.kubernetes.io/name", "dcgm-exporter"},
                                           {"app.kubernetes.io/name", "nvidia-dcgm-exporter"},
                                           {"app.kubernetes.io/name", "gke-managed-dcgm-exporter"},
                                           {"aadpodidbinding", NULL},
                                           {"azure.workload.identity/use", "true"}};
    const json_t *ours = json_object_get(json_object_get(c->settings->pod_template, "metadata"), "labels");
    char path[64];

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
        const json_t *value = json_object_get(json_object_get(metadata, "labels"), names[i][0]);
        const char *text = json_string_value(value);

        (void)snprintf(path, sizeof(path), "metadata.labels.%s", names[i][0]);
        if (text != NULL && (names[i][1] == NULL || pl_streq(names[i][1], text)) &&
            !pl_pod_same(value, json_object_get(ours, names[i][0])))
            return pl_pod_refuse(c, path, "is reserved for other programs");
    }
    return 0;
}

static int check_pull_secrets(struct pod_check *c)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(c->after, "imagePullSecrets"), i, one)
    {
        const json_t *name = json_object_get(one, "name");
        const char *text = json_string_value(name);
        bool ours = text != NULL && pl_pod_one_of(text, c->settings->pull_secrets, c->settings->n_pull_secrets);

        if (!ours && !pl_pod_secret_allowed(c, name) && !pl_pod_has_equal(json_object_get(c->before, "imagePullSecrets"), one))
            return pl_pod_refuse(c, "imagePullSecrets", "names a secret that is not labelled for the project");
    }
    return 0;
}

/* Checks the secrets that the stage names; those of the daemon's template belong to the operator. */
static int check_own_secrets(struct pod_check *c)
{
    const struct pl_stage *stage = c->worker->stage;
    char path[64];

    for (size_t i = 0; i < stage->n_secrets; i++) {
        const struct pl_secret_use *use = &stage->secrets[i];

        (void)snprintf(path, sizeof(path), "secrets[%zu]", i);
        if (!pl_pod_one_of(use->name, c->worker->secrets, c->worker->n_secrets))
            return pl_pod_refuse(c, path, "is not labelled for the project");
        (void)snprintf(path, sizeof(path), "secrets[%zu].env", i);
        if (use->env != NULL && pl_pod_gives_devices(use->env))
            return pl_pod_refuse(c, path, "is a variable that gives devices to the container");
    }
    return 0;
}

int pl_pod_check(const struct pl_pod_worker *worker, const struct pl_pod_settings *settings, const json_t *before,
                 const json_t *after, struct pl_err *err)
{
    struct pl_err unused = {0};
    struct pod_check c = {.worker = worker,
                          .settings = settings,
                          .template = json_object_get(settings->pod_template, "spec"),
                          .before = json_object_get(before, "spec"),
                          .after = json_object_get(after, "spec"),
                          .err = err != NULL ? err : &unused};
    int r;

    if (worker->trusted)
        return 0;
    r = check_own_secrets(&c);
    r = r < 0 ? r : check_fields(&c);
    r = r < 0 ? r : check_hostname(&c);
    r = r < 0 ? r : check_priority(&c);
    r = r < 0 ? r : check_pod_security(&c);
    r = r < 0 ? r : check_annotations(&c, json_object_get(after, "metadata"));
    r = r < 0 ? r : check_labels(&c, json_object_get(after, "metadata"));
    r = r < 0 ? r : pl_pod_check_volumes(&c);
    r = r < 0 ? r : pl_pod_check_containers(&c, "containers");
    r = r < 0 ? r : pl_pod_check_containers(&c, "initContainers");
    return r < 0 ? r : check_pull_secrets(&c);
}
