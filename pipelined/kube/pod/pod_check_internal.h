/* pod_check_internal: private to pod_check, pod_check_container and pod_check_volume: compares a pod with and
 * without the spec's patches.
 *
 * `before` is the pod as pod_render and the operator's template made it; `after` is the same pod with the
 * spec's patches. Only differences between `before` and `after` are checked. The fields that a spec may
 * change are listed; every other field is refused, including those that future versions of Kubernetes may
 * add. A member that is null counts as absent. */
#pragma once

#include "pipelined/kube/pod/pod_internal.h"

struct pod_check {
    const struct pl_pod_worker *worker;
    const struct pl_pod_settings *settings;
    const json_t *template;       /* spec of the operator's pod template; NULL = none */
    const json_t *before, *after; /* specs of the two pods */
    struct pl_err *err;
};

/* Makes the error "stage S: PATH WHAT (VALUE): …". `path`: the field's path in the pod's spec
 * ("containers[0].env[1]"); VALUE is the value there. Returns PL_EFORBIDDEN. */
PL_MUST_CHECK
int pl_pod_refuse(struct pod_check *c, const char *path, const char *what);

/* Returns the member `key` of the object; NULL if it is absent or null. */
const json_t *pl_pod_at(const json_t *object, const char *key);
bool pl_pod_same(const json_t *a, const json_t *b);
bool pl_pod_one_of(const char *word, const char *const *words, size_t n);
/* Returns the element of the list whose "name" has this value; NULL = none. */
const json_t *pl_pod_named(const json_t *list, const char *name);
bool pl_pod_has_equal(const json_t *list, const json_t *value);
/* Returns the name of the first member that was changed, added or removed and is not listed in `open`; NULL =
 * none. The name points into the objects. */
const char *pl_pod_changed(const json_t *before, const json_t *after, const char *const *open, size_t n_open);
/* Refuses a member that pl_pod_changed finds, with an error for the path "WHERE.KEY" (WHERE "" = the spec
 * itself). Returns 0 if there is no such member. */
PL_MUST_CHECK
int pl_pod_refuse_changed(struct pod_check *c, const char *where, const json_t *before, const json_t *after,
                          const char *const *open, size_t n_open);
/* True if `profile` (seccompProfile, appArmorProfile) of `after` is unchanged, or equal to that of the whole
 * pod. */
bool pl_pod_profile_fine(const struct pod_check *c, const json_t *before, const json_t *after, const char *profile);
/* True if the member `flag` is true in `before` and not true in `after`. */
bool pl_pod_lowered(const json_t *before, const json_t *after, const char *flag);
/* True if the project's stages may use the secret. */
bool pl_pod_secret_allowed(const struct pod_check *c, const json_t *name);
/* False if a user or group of this securityContext (NULL = none) is not an integer. */
bool pl_pod_ids_are_integers(const json_t *security);
/* True for an environment variable by which container runtimes give devices to a container. */
bool pl_pod_gives_devices(const char *variable);

PL_MUST_CHECK
int pl_pod_check_volumes(struct pod_check *c);
/* True if a spec may add a mount of the volume to a container. */
bool pl_pod_may_mount(const struct pod_check *c, const char *volume);

/* Checks the containers of `list`: "containers" or "initContainers". */
PL_MUST_CHECK
int pl_pod_check_containers(struct pod_check *c, const char *list);
