/* pod_check_container.c: checks the containers of a pod field by field against those before the spec's
 * patches. */
#include "pipelined/kube/pod/pod_check_internal.h"

#include <stdio.h>

/* A container to be checked. Of the containers that the pod has without the spec's patches, a spec may change
 * only main. */
struct judged {
    const json_t *before; /* the container before the patches; NULL = the spec added it */
    const json_t *after;
    const char *path; /* path of the container in the pod's spec, such as "containers[0]" */
};

static int refuse_at(struct pod_check *c, const struct judged *one, const char *field, const char *what)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s.%s", one->path, field);
    return pl_pod_refuse(c, path, what);
}

/* ---- securityContext ---- */

/* Returns "capabilities.add" or "capabilities.drop" if the spec adds a capability or no longer drops one;
 * NULL if the capabilities are allowed. */
static const char *bad_capabilities(const json_t *before, const json_t *after)
{
    const json_t *add = pl_pod_at(after, "add"), *drop = pl_pod_at(after, "drop"), *all = json_object_get(before, "drop"), *one;
    size_t i;

    if (add != NULL && !json_is_array(add))
        return "capabilities.add";
    json_array_foreach((json_t *)(uintptr_t)add, i, one)
    {
        if (!pl_pod_has_equal(json_object_get(before, "add"), one))
            return "capabilities.add";
    }
    json_array_foreach((json_t *)(uintptr_t)all, i, one)
    {
        if (!pl_pod_has_equal(drop, one))
            return "capabilities.drop";
    }
    return NULL;
}

/* True if the flag is false or unchanged, or if it is absent and `anyway` is set. */
static bool is_allowed(const json_t *before, const json_t *after, const char *flag, bool anyway)
{
    const json_t *value = pl_pod_at(after, flag);

    return json_is_false(value) || (anyway && value == NULL) || pl_pod_same(pl_pod_at(before, flag), value);
}

/* Returns the field of the securityContext that requests more than a spec may; NULL = none. */
static const char *bad_security(struct pod_check *c, const json_t *before, const json_t *after)
{
    static const char *const open[] = {"privileged",     "capabilities",    "allowPrivilegeEscalation", "procMount",
                                       "seccompProfile", "appArmorProfile", "readOnlyRootFilesystem",   "runAsNonRoot",
                                       "runAsUser",      "runAsGroup"};
    const json_t *proc = pl_pod_at(after, "procMount"), *uid = pl_pod_at(after, "runAsUser");
    const char *bad = bad_capabilities(pl_pod_at(before, "capabilities"), pl_pod_at(after, "capabilities"));

    if (!is_allowed(before, after, "privileged", true))
        return "privileged";
    if (bad != NULL)
        return bad;
    if (!is_allowed(before, after, "allowPrivilegeEscalation", false))
        return "allowPrivilegeEscalation";
    if (proc != NULL && !pl_pod_same(proc, pl_pod_at(before, "procMount")) &&
        !(json_is_string(proc) && pl_streq(json_string_value(proc), "Default")))
        return "procMount";
    if (!pl_pod_profile_fine(c, before, after, "seccompProfile"))
        return "seccompProfile";
    if (!pl_pod_profile_fine(c, before, after, "appArmorProfile"))
        return "appArmorProfile";
    if (pl_pod_lowered(before, after, "readOnlyRootFilesystem"))
        return "readOnlyRootFilesystem";
    if (pl_pod_lowered(before, after, "runAsNonRoot"))
        return "runAsNonRoot";
    if (!pl_pod_ids_are_integers(after)) /* a number such as 10002.0 would not be recognised as the agent's user */
        return "runAsUser";
    if (json_integer_value(uid) == PL_AGENT_UID && !pl_pod_same(uid, pl_pod_at(before, "runAsUser")))
        return "runAsUser";
    return pl_pod_changed(before, after, open, PL_ARRAY_SIZE(open));
}

static int check_security(struct pod_check *c, const struct judged *one)
{
    const json_t *after = pl_pod_at(one->after, "securityContext");
    char field[96];
    const char *bad;

    if (after != NULL && !json_is_object(after))
        return refuse_at(c, one, "securityContext", "is not an object");
    bad = bad_security(c, pl_pod_at(one->before, "securityContext"), after);
    (void)snprintf(field, sizeof(field), "securityContext.%.60s", bad != NULL ? bad : "");
    return bad != NULL ? refuse_at(c, one, field, "is forbidden") : 0;
}

/* ---- env and envFrom ---- */

static size_t count_named(const json_t *list, const char *name)
{
    const json_t *one;
    size_t n = 0, i;

    json_array_foreach((json_t *)(uintptr_t)list, i, one)
    {
        const char *other = json_string_value(json_object_get(one, "name"));

        n += other != NULL && pl_streq(other, name);
    }
    return n;
}

/* Returns what is wrong with the source of a new variable; NULL = nothing. */
static const char *bad_source(struct pod_check *c, const json_t *from)
{
    static const char *const known[] = {"configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef", "fileKeyRef"};
    const json_t *secret = pl_pod_at(from, "secretKeyRef"), *file = pl_pod_at(from, "fileKeyRef");
    const char *volume = json_string_value(json_object_get(file, "volumeName"));

    if (secret != NULL && !pl_pod_secret_allowed(c, json_object_get(secret, "name")))
        return "reads a secret that is not labelled for the project";
    if (file != NULL && (volume == NULL || !pl_pod_may_mount(c, volume)))
        return "reads a volume that is not the stage's";
    return pl_pod_changed(NULL, from, known, PL_ARRAY_SIZE(known)) != NULL
               ? "reads something other than a configMap, secret, file or field of the pod"
               : NULL;
}

/* Returns what is wrong with a variable; NULL = nothing. */
static const char *bad_variable(struct pod_check *c, const struct judged *one, const json_t *variable)
{
    const json_t *old = json_object_get(one->before, "env");
    const char *name = json_string_value(json_object_get(variable, "name")),
               *value = json_string_value(json_object_get(variable, "value"));
    const bool nothing = value != NULL && pl_streq(value, "void") && pl_pod_at(variable, "valueFrom") == NULL;
    size_t n = name != NULL ? count_named(json_object_get(one->after, "env"), name) : 0;

    /* refuse new duplicates of a name, because the last one would count */
    if (n > 1 && n > count_named(old, name))
        return "is defined twice";
    if (pl_pod_has_equal(old, variable))
        return NULL;
    if (name != NULL && pl_pod_gives_devices(name) && !nothing)
        return "gives devices other than the stage's \"gpu\"";
    return bad_source(c, pl_pod_at(variable, "valueFrom"));
}

/* Returns what is wrong with an envFrom entry; NULL = nothing. For a worker with GPUs, new entries for
 * main are refused: the ConfigMap or Secret may contain NVIDIA_VISIBLE_DEVICES, and main has no variable of
 * that name that would override it. */
static const char *bad_variables(struct pod_check *c, const struct judged *one, const json_t *from)
{
    static const char *const known[] = {"prefix", "configMapRef", "secretRef"};
    const json_t *secret = pl_pod_at(from, "secretRef");

    if (pl_pod_has_equal(json_object_get(one->before, "envFrom"), from))
        return NULL;
    if (secret != NULL && !pl_pod_secret_allowed(c, json_object_get(secret, "name")))
        return "reads a secret that is not labelled for the project";
    if (c->worker->gpu && one->before != NULL)
        return "may bring variables that give devices (name those that are needed in \"env\")";
    return pl_pod_changed(NULL, from, known, PL_ARRAY_SIZE(known)) != NULL ? "reads something other than a configMap or secret"
                                                                           : NULL;
}

/* Checks all variables of the container, and that no variable that gives devices to it was removed. */
static int check_env(struct pod_check *c, const struct judged *one)
{
    const json_t *env = json_object_get(one->after, "env"), *variable;
    const char *bad;
    char field[48];
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)env, i, variable)
    {
        bad = bad_variable(c, one, variable);
        (void)snprintf(field, sizeof(field), "env[%zu]", i);
        if (bad != NULL)
            return refuse_at(c, one, field, bad);
    }
    json_array_foreach(json_object_get(one->before, "env"), i, variable)
    {
        const char *name = json_string_value(json_object_get(variable, "name"));

        if (name != NULL && pl_pod_gives_devices(name) && pl_pod_named(env, name) == NULL)
            return refuse_at(c, one, "env", "lacks a variable that limits the visible devices");
    }
    json_array_foreach(json_object_get(one->after, "envFrom"), i, variable)
    {
        bad = bad_variables(c, one, variable);
        (void)snprintf(field, sizeof(field), "envFrom[%zu]", i);
        if (bad != NULL)
            return refuse_at(c, one, field, bad);
    }
    return 0;
}

/* ---- ports, probes and hooks ---- */

static int check_ports(struct pod_check *c, const struct judged *one)
{
    const json_t *port;
    char field[48];
    size_t i;

    json_array_foreach(json_object_get(one->after, "ports"), i, port)
    {
        (void)snprintf(field, sizeof(field), "ports[%zu].hostPort", i);
        if (pl_pod_at(port, "hostPort") != NULL && !pl_pod_has_equal(json_object_get(one->before, "ports"), port))
            return refuse_at(c, one, field, "is forbidden");
    }
    return 0;
}

/* Checks a probe or hook: the kubelet would connect from the node's network, or run commands outside of the
 * runner. */
static int check_handler(struct pod_check *c, const struct judged *one, const char *field, const json_t *handler)
{
    static const char *const calls[] = {"httpGet", "tcpSocket"};
    char at[96];

    for (size_t i = 0; i < PL_ARRAY_SIZE(calls); i++) {
        (void)snprintf(at, sizeof(at), "%s.%s.host", field, calls[i]);
        if (pl_pod_at(pl_pod_at(handler, calls[i]), "host") != NULL)
            return refuse_at(c, one, at, "would be called from the node's network");
    }
    (void)snprintf(at, sizeof(at), "%s.exec", field);
    return one->before != NULL && pl_pod_at(handler, "exec") != NULL ? refuse_at(c, one, at, "would run outside of the runner")
                                                                     : 0;
}

static int check_handlers(struct pod_check *c, const struct judged *one)
{
    static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"}, *const hooks[] = {"postStart",
                                                                                                               "preStop"};
    const json_t *lifecycle = pl_pod_at(one->after, "lifecycle");
    char field[48];
    int r = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(probes) && r == 0; i++)
        if (!pl_pod_same(pl_pod_at(one->before, probes[i]), pl_pod_at(one->after, probes[i])))
            r = check_handler(c, one, probes[i], pl_pod_at(one->after, probes[i]));
    /* main's hooks must be unchanged (check_fields) */
    for (size_t i = 0; i < PL_ARRAY_SIZE(hooks) && r == 0 && one->before == NULL; i++) {
        (void)snprintf(field, sizeof(field), "lifecycle.%s", hooks[i]);
        r = check_handler(c, one, field, pl_pod_at(lifecycle, hooks[i]));
    }
    return r;
}

/* ---- volumeMounts and volumeDevices ---- */

/* Normalises an absolute path: without ".", ".." and repeated "/". */
static void clean_path(const char *path, char ret[256])
{
    size_t n = 0;

    while (*path != '\0') {
        size_t len = strcspn(path, "/");

        if (len == 2 && memcmp(path, "..", 2) == 0) {
            while (n > 0 && ret[--n] != '/')
                ;
        } else if (len > 0 && !(len == 1 && *path == '.') && n + len + 1 < 256) {
            ret[n++] = '/';
            memcpy(ret + n, path, len);
            n += len;
        }
        path += len + (path[len] == '/');
    }
    if (n == 0)
        ret[n++] = '/';
    ret[n] = '\0';
}

static bool is_within(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Returns what is wrong with the folder of a new mount: it hides a folder of the agent or requests devices;
 * NULL = nothing. */
static const char *bad_place(const struct judged *one, const json_t *mount)
{
    static const char *const devices[] = {"/var/run/nvidia-container-devices", "/run/nvidia-container-devices"};
    const char *text = json_string_value(json_object_get(mount, "mountPath")), *name;
    const json_t *other;
    char path[256], old[256];
    size_t i;

    if (text == NULL || strlen(text) >= sizeof(path))
        /* too long to compare: Kubernetes allows 1024 bytes, but no folder of ours is that long */
        return "is not a valid folder";
    clean_path(text, path);
    for (i = 0; i < PL_ARRAY_SIZE(devices); i++)
        if (is_within(path, devices[i]))
            return "gives devices other than the stage's \"gpu\"";
    if (one->before == NULL)
        return NULL;
    if (pl_streq(path, "/") || is_within(path, "/pl") || is_within(path, "/pfs"))
        return "hides a folder of the agent";
    json_array_foreach(json_object_get(one->before, "volumeMounts"), i, other)
    {
        name = json_string_value(json_object_get(other, "name"));
        text = json_string_value(json_object_get(other, "mountPath"));
        if (name == NULL || text == NULL || !pl_streq(name, "pl"))
            continue;
        clean_path(text, old);
        if (pl_streq(path, old))
            return "hides a folder of the agent";
    }
    return NULL;
}

/* Returns what is wrong with a mount; NULL = nothing. */
static const char *bad_mount(struct pod_check *c, const struct judged *one, const json_t *mount)
{
    const json_t *propagation = pl_pod_at(mount, "mountPropagation");
    const char *name = json_string_value(json_object_get(mount, "name"));

    if (pl_pod_has_equal(json_object_get(one->before, "volumeMounts"), mount))
        return NULL;
    if (name == NULL || !pl_pod_may_mount(c, name))
        return "mounts a volume that is not the stage's";
    if (propagation != NULL && !(json_is_string(propagation) && pl_streq(json_string_value(propagation), "None")))
        return "requests mountPropagation";
    return bad_place(one, mount);
}

/* Checks all mounts and block devices, and that no mount of the agent's volume was removed. */
static int check_mounts(struct pod_check *c, const struct judged *one)
{
    const json_t *mounts = json_object_get(one->after, "volumeMounts"), *mount;
    const char *name, *bad;
    char field[48];
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)mounts, i, mount)
    {
        bad = bad_mount(c, one, mount);
        (void)snprintf(field, sizeof(field), "volumeMounts[%zu]", i);
        if (bad != NULL)
            return refuse_at(c, one, field, bad);
    }
    json_array_foreach(json_object_get(one->before, "volumeMounts"), i, mount)
    {
        name = json_string_value(json_object_get(mount, "name"));
        if (name != NULL && pl_streq(name, "pl") && !pl_pod_has_equal(mounts, mount))
            return refuse_at(c, one, "volumeMounts", "lacks a folder of the agent");
    }
    json_array_foreach(json_object_get(one->after, "volumeDevices"), i, mount)
    {
        name = json_string_value(json_object_get(mount, "name"));
        (void)snprintf(field, sizeof(field), "volumeDevices[%zu]", i);
        if (!pl_pod_has_equal(json_object_get(one->before, "volumeDevices"), mount) &&
            (name == NULL || !pl_pod_may_mount(c, name)))
            return refuse_at(c, one, field, "is a volume that is not the stage's");
    }
    return 0;
}

/* ---- resources ---- */

/* True if the amounts of a resource whose name has a domain ("nvidia.com/gpu") differ. Such resources are
 * devices, and only the stage's "gpu" may request devices. */
static bool devices_changed(const json_t *before, const json_t *after)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)after, key, value)
    {
        if (strchr(key, '/') != NULL && !pl_pod_same(pl_pod_at(before, key), json_is_null(value) ? NULL : value))
            return true;
    }
    json_object_foreach((json_t *)(uintptr_t)before, key, value)
    {
        if (strchr(key, '/') != NULL && pl_pod_at(after, key) == NULL)
            return true;
    }
    return false;
}

static int check_resources(struct pod_check *c, const struct judged *one)
{
    static const char *const open[] = {"limits", "requests"};
    const json_t *before = pl_pod_at(one->before, "resources"), *after = pl_pod_at(one->after, "resources");
    char field[48];

    for (size_t i = 0; i < PL_ARRAY_SIZE(open); i++) {
        (void)snprintf(field, sizeof(field), "resources.%s", open[i]);
        if (devices_changed(pl_pod_at(before, open[i]), pl_pod_at(after, open[i])))
            return refuse_at(c, one, field, "requests devices other than the stage's \"gpu\"");
    }
    return pl_pod_changed(before, after, open, PL_ARRAY_SIZE(open)) == NULL
               ? 0
               : refuse_at(c, one, "resources.claims", "requests devices other than the stage's \"gpu\"");
}

/* ---- a container, and all of a list ---- */

/* Checks the fields that no other function checks. The runner starts main's command, so a spec cannot change
 * how main is started. */
static int check_fields(struct pod_check *c, const struct judged *one)
{
    static const char *const open[] = {"image", "imagePullPolicy", "workingDir", "terminationMessagePath",
                                       "terminationMessagePolicy", "resizePolicy",
                                       /* checked by the functions above */
                                       "env", "envFrom", "livenessProbe", "ports", "readinessProbe", "resources",
                                       "securityContext", "startupProbe", "volumeDevices", "volumeMounts",
                                       /* allowed only in containers that the spec adds */
                                       "name", "command", "args", "stdin", "stdinOnce", "tty", "lifecycle", "restartPolicy"};
    const size_t n_added = 8;

    return pl_pod_refuse_changed(c, one->path, one->before, one->after, open,
                                 PL_ARRAY_SIZE(open) - (one->before != NULL ? n_added : 0));
}

/* Refuses values that should be lists and are not, because the checks look only into lists. */
static int check_lists(struct pod_check *c, const struct judged *one)
{
    static const char *const lists[] = {"env", "envFrom", "ports", "volumeDevices", "volumeMounts"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(lists); i++) {
        const json_t *value = pl_pod_at(one->after, lists[i]);

        if (value != NULL && !json_is_array(value))
            return refuse_at(c, one, lists[i], "is not a list");
    }
    return 0;
}

/* Checks a container that the spec added or changed. */
static int check_container(struct pod_check *c, const char *list, const json_t *container, size_t i)
{
    const char *name = json_string_value(json_object_get(container, "name"));
    const json_t *before = name != NULL ? pl_pod_named(json_object_get(c->before, list), name) : NULL;
    char path[64];
    const struct judged one = {before, container, path};
    int r;

    (void)snprintf(path, sizeof(path), "%s[%zu]", list, i);
    if (name == NULL)
        return pl_pod_refuse(c, path, "has no name");
    if (before != NULL && pl_pod_same(before, container))
        return 0;
    if (before != NULL && !pl_streq(name, "main"))
        return pl_pod_refuse(c, path, "changes a container that is not the stage's");
    /* a container that the spec adds has no runner that would remove its network */
    if (before == NULL && c->worker->network_off)
        return pl_err_field(
            c->err,
            pl_err_set(c->err, PL_EFORBIDDEN,
                       "stage %s: %s is an additional container (\"%.60s\"), which would have network access, but the network "
                       "is off in project \"%s\": leave it out, or ask an admin of the project for pipelinectl "
                       "update project %s --network on",
                       c->worker->stage->name, path, name, c->worker->project, c->worker->project),
            path);
    if (before == NULL && (pl_streq(name, "main") || pl_streq(name, "agent") || pl_streq(name, "install")))
        return pl_pod_refuse(c, path, "has the name of another container");
    r = check_lists(c, &one);
    r = r < 0 ? r : check_security(c, &one);
    r = r < 0 ? r : check_env(c, &one);
    r = r < 0 ? r : check_ports(c, &one);
    r = r < 0 ? r : check_handlers(c, &one);
    r = r < 0 ? r : check_mounts(c, &one);
    r = r < 0 ? r : check_resources(c, &one);
    return r < 0 ? r : check_fields(c, &one);
}

int pl_pod_check_containers(struct pod_check *c, const char *list)
{
    const json_t *before = json_object_get(c->before, list), *after = json_object_get(c->after, list), *container;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)before, i, container)
    {
        if (!pl_pod_same(json_object_get(container, "name"), json_object_get(json_array_get(after, i), "name")))
            return pl_pod_refuse(c, list, "removes or moves an existing container");
    }
    json_array_foreach((json_t *)(uintptr_t)after, i, container)
    {
        const char *name = json_string_value(json_object_get(container, "name"));
        int r = check_container(c, list, container, i);

        if (r < 0)
            return r;
        if (pl_pod_named(after, name) != container)
            return pl_pod_refuse(c, list, "has two entries with the same name");
    }
    return 0;
}
