/* pod_finish.c: turns the built pod into the one that is sent: applies the operator's template and the
 * stage's patches, completes the containers that the patches add, checks that the patches request nothing
 * forbidden, and finally adds the agent's token, so that no patch can copy it. */
#include "pipelined/kube/pod/pod_internal.h"

#include "pipelined/kube/pod/pod_patch.h"

#include "storage/base/buf.h"

/* ---- containers that a spec adds ---- */

static bool is_named(const json_t *list, const json_t *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)list, i, one)
    {
        if (name != NULL && json_equal(json_object_get(one, "name"), name))
            return true;
    }
    return false;
}

static void put_missing(struct pod_build *b, json_t *object, const char *key, json_t *value)
{
    const json_t *is = json_object_get(object, key);

    if (is == NULL || json_is_null(is))
        pl_pod_put(b, object, key, value);
    else
        json_decref(value);
}

/* Returns a member of the object, after creating it as `empty` if it is absent. NULL: the member is neither
 * an object nor a list, and the API server will refuse the pod. */
static json_t *member(struct pod_build *b, json_t *object, const char *key, json_t *empty)
{
    json_t *value;

    put_missing(b, object, key, empty);
    value = json_object_get(object, key);
    return json_is_object(value) || json_is_array(value) ? value : NULL;
}

/* Adds to a container the security settings that security_of_main (pod_render.c) gives to main. */
static void complete_security(struct pod_build *b, json_t *container)
{
    const bool restricted = b->cluster->level == PL_LEVEL_RESTRICTED;
    json_t *security = member(b, container, "securityContext", json_object()), *capabilities;

    if (!json_is_object(security))
        return;
    put_missing(b, security, "allowPrivilegeEscalation", json_false());
    if (restricted && !b->cluster->openshift)
        put_missing(b, security, "runAsUser", json_integer(PL_MAIN_UID));
    if (!restricted && json_integer_value(json_object_get(security, "runAsUser")) == 0)
        return;
    put_missing(b, security, "runAsNonRoot", json_true());
    capabilities = member(b, security, "capabilities", json_object());
    if (json_is_object(capabilities))
        put_missing(b, capabilities, "drop", json_pack("[s]", "ALL"));
}

/* Hides the GPUs from a container: where NVIDIA's runtime is the default, an image that requests "all" would
 * see every GPU, including those of other pods. */
static void complete_env(struct pod_build *b, json_t *container)
{
    json_t *env = member(b, container, "env", json_array()), *name = json_string("NVIDIA_VISIBLE_DEVICES");

    if (json_is_array(env) && !is_named(env, name))
        pl_pod_variable(b, env, "NVIDIA_VISIBLE_DEVICES", "void");
    json_decref(name);
}

static bool has_devices(const json_t *container)
{
    const json_t *resources = json_object_get(container, "resources");
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(resources, "limits"), key, value)
    {
        if (strchr(key, '/') != NULL)
            return true;
    }
    return json_array_size(json_object_get(resources, "claims")) > 0;
}

/* Completes the containers that the patches added: they get no GPUs and, like main, no more privileges than the
 * namespace's level allows. */
static void complete(struct pod_build *b, const json_t *before)
{
    static const char *const lists[] = {"containers", "initContainers"};
    json_t *container;
    size_t i;

    for (size_t k = 0; k < PL_ARRAY_SIZE(lists); k++) {
        json_array_foreach(json_object_get(json_object_get(b->pod, "spec"), lists[k]), i, container)
        {
            if (!json_is_object(container) ||
                is_named(json_object_get(json_object_get(before, "spec"), lists[k]), json_object_get(container, "name")))
                continue;
            if (!b->worker->trusted)
                complete_security(b, container);
            /* containers of trusted projects get the devices that they request */
            if (!b->worker->trusted || !has_devices(container))
                complete_env(b, container);
        }
    }
}

/* ---- template and patches ---- */

/* Applies one patch to the pod's spec; errors name `field`. */
static int apply(json_t *pod, const char *text, const char *field, int (*how)(json_t **, const json_t *, struct pl_err *),
                 struct pl_err *err)
{
    json_t *patch = json_loads(text, 0, NULL), *spec = json_incref(json_object_get(pod, "spec"));
    struct pl_err why = {0};
    int r = patch != NULL ? how(&spec, patch, &why) : PL_ENOMEM;

    json_decref(patch);
    if (r == 0 && !json_is_object(spec))
        r = pl_err_set(&why, PL_EINVAL, "the pod's spec would no longer be an object");
    if (json_object_set_new(pod, "spec", spec) < 0 || r == PL_ENOMEM)
        return pl_err_nomem(err);
    return r < 0 ? pl_err_field(err, pl_err_set(err, r, "%s: %.700s", field, why.msg), field) : 0;
}

/* Applies the stage's patches, then completes and checks the result. */
static int patch_pod(struct pod_build *b, struct pl_err *err)
{
    const struct pl_placement *placement = &b->stage->placement;
    _cleanup_(json_decrefp) json_t *before = json_deep_copy(b->pod);
    int r = 0;

    if (before == NULL)
        return pl_err_nomem(err);
    if (placement->pod_spec != NULL)
        r = apply(b->pod, placement->pod_spec, "placement.pod_spec", pl_json_merge, err);
    if (r == 0 && placement->pod_patch != NULL)
        r = apply(b->pod, placement->pod_patch, "placement.pod_patch",
                  placement->pod_patch[0] == '[' ? pl_json_patch : pl_pod_merge, err);
    if (r < 0)
        return r;
    complete(b, before);
    return b->lack ? pl_err_nomem(err) : pl_pod_check(b->worker, b->settings, before, b->pod, err);
}

/* Fills in the agent's token after all patches and checks: otherwise a patch could copy the token to where
 * the command can read it, and errors, which quote refused values, could show it. A trusted project may have
 * replaced the agent; then there is nothing to fill in. */
static void give_token(struct pod_build *b)
{
    const json_t *containers = json_object_get(json_object_get(b->pod, "spec"), "containers"), *container;
    json_t *variable;
    size_t i, k;

    json_array_foreach((json_t *)(uintptr_t)containers, i, container)
    {
        const char *name = json_string_value(json_object_get(container, "name"));

        if (name == NULL || !pl_streq(name, "agent"))
            continue;
        json_array_foreach(json_object_get(container, "env"), k, variable)
        {
            const char *key = json_string_value(json_object_get(variable, "name")),
                       *value = json_string_value(json_object_get(variable, "value"));

            if (key != NULL && value != NULL && pl_streq(key, PL_POD_TOKEN) && value[0] == '\0')
                pl_pod_put(b, variable, "value", json_string(b->worker->token));
        }
    }
}

int pl_pod_patch(struct pod_build *b, struct pl_err *err)
{
    const struct pl_placement *placement = &b->stage->placement;
    int r = b->settings->pod_template != NULL ? pl_pod_merge(&b->pod, b->settings->pod_template, err) : 0;

    if (r < 0)
        return pl_err_wrap(err, r, "the daemon's pod_template");
    if (placement->pod_spec != NULL || placement->pod_patch != NULL)
        r = patch_pod(b, err);
    else
        r = pl_pod_check(b->worker, b->settings, b->pod, b->pod, err);
    if (r == 0)
        give_token(b);
    return r == 0 && b->lack ? pl_err_nomem(err) : r;
}
