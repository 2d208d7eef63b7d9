/* pod_check_internal (private to pod_check, pod_check_container, pod_check_volume): what a spec brought to a pod, held against what it may bring.
 *
 * `before` is the pod as pod_render and the operator's template made it, `after` the same with the spec's patches: only where the two differ
 * a spec is judged. What a spec may change is listed, field by field; every other field is refused, those that Kubernetes is yet to invent
 * included. A member that is null is none. */
#pragma once

#include "pipelined/kube/pod/pod_internal.h"

struct pod_check {
    const struct pl_pod_worker *worker;
    const struct pl_pod_settings *settings;
    const json_t *template;       /* spec of the operator's; NULL = none */
    const json_t *before, *after; /* specs */
    struct pl_err *err;
};

/* PL_EFORBIDDEN: "stage S: PATH WHAT (VALUE): …"; `path` is the field's in the pod's spec ("containers[0].env[1]"), and VALUE what lies there. */
PL_MUST_CHECK
int pl_pod_refuse(struct pod_check *c, const char *path, const char *what);

const json_t *pl_pod_at(const json_t *object, const char *key);
bool pl_pod_same(const json_t *a, const json_t *b);
bool pl_pod_one_of(const char *word, const char *const *words, size_t n);
/* The element of that "name"; NULL. */
const json_t *pl_pod_named(const json_t *list, const char *name);
bool pl_pod_has_equal(const json_t *list, const json_t *value);
/* The first member that is another than before, came or went, and is none of `open`; NULL. Lives as long as both. */
const char *pl_pod_changed(const json_t *before, const json_t *after, const char *const *open, size_t n_open);
/* Refuses it, at "WHERE.KEY" ("" = the spec itself). 0 when there is none. */
PL_MUST_CHECK
int pl_pod_refuse_changed(struct pod_check *c, const char *where, const json_t *before, const json_t *after,
                          const char *const *open, size_t n_open);
/* Is `profile` (seccompProfile, appArmorProfile) of `after` as it was, or what the whole pod has? */
bool pl_pod_profile_fine(const struct pod_check *c, const json_t *before, const json_t *after, const char *profile);
/* Was `flag` true, and is no more? */
bool pl_pod_lowered(const json_t *before, const json_t *after, const char *flag);
bool pl_pod_secret_allowed(const struct pod_check *c, const json_t *name);
/* False if a user or group of this securityContext (NULL = none) is a number with a point, or no number. */
bool pl_pod_ids_are_integers(const json_t *security);
/* A variable by which container runtimes give devices. */
bool pl_pod_gives_devices(const char *variable);

PL_MUST_CHECK
int pl_pod_check_volumes(struct pod_check *c);
/* May a container of the spec mount the volume of that name, where it did not before? */
bool pl_pod_may_mount(const struct pod_check *c, const char *volume);

/* `list`: "containers" or "initContainers". */
PL_MUST_CHECK
int pl_pod_check_containers(struct pod_check *c, const char *list);
