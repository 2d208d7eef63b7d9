/* pod_internal: private to pod_render, pod_gpu, pod_finish and the pod checks: a pod under construction. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"

#define POD_MAIN  0 /* positions in spec.containers */
#define POD_AGENT 1

/* environment variable of the agent's container with the agent's token */
#define PL_POD_TOKEN "PIPELINED_WORKER_TOKEN"
/* name of the init container that gives the node's cache folder to the agent */
#define PL_POD_CACHE_OWNER "node-cache"

struct pod_build {
    const struct pl_pod_cluster *cluster;
    const struct pl_pod_settings *settings;
    const struct pl_pod_worker *worker;
    const struct pl_stage *stage;
    char name[PL_POD_NAME_BYTES];
    /* parts of the pod's JSON; borrowed, except `pod` itself */
    json_t *pod, *labels, *annotations, *spec, *main;
    /* lists and objects of container main, except `volumes`, which is the pod's */
    json_t *limits, *requests, *env, *mounts, *volumes;
    json_t *tolerations;
    json_t *require; /* node affinity expressions that must all hold */
    /* lists of node affinity expressions: a node must satisfy all expressions of at least one list; [] =
     * no further requirement */
    json_t *alternatives;
    json_t *prefer; /* entries for preferredDuringSchedulingIgnoredDuringExecution */
    json_t *claim;  /* ResourceClaimTemplate; NULL = none */
    bool lack;      /* memory ran out: the pod is unusable */
};

/* The next three functions add a value to an object or a list. pl_pod_put and pl_pod_add take the
 * reference to `value`. If memory runs out, the functions set b->lack. */
void pl_pod_put(struct pod_build *b, json_t *object, const char *key, json_t *value);
void pl_pod_add(struct pod_build *b, json_t *list, json_t *value);
void pl_pod_variable(struct pod_build *b, json_t *env, const char *name, const char *value);
/* Returns a requirement on a node's label: {"key", "operator", "values"}; takes the reference to `values`
 * (may be NULL). */
json_t *pl_pod_expression(struct pod_build *b, const char *key, const char *op, json_t *values);
/* Tolerates any taint with that key, once. */
void pl_pod_tolerate(struct pod_build *b, const char *key);

/* Adds the GPU request to the pod of a GPU worker. PL_EUNAVAILABLE, PL_EINVAL. */
PL_MUST_CHECK
int pl_pod_gpu(struct pod_build *b, struct pl_err *err);
/* Adds to the pod of a CPU worker the settings that keep it away from GPUs. */
void pl_pod_cpu(struct pod_build *b);

/* Returns the presets for gpu.share.preset: the built-in ones, overridden by the daemon's setting. New
 * reference; NULL if out of memory. */
json_t *pl_pod_presets(const struct pl_pod_settings *settings);

/* Applies the template and the stage's patches, checks the result, and adds the token. PL_EINVAL,
 * PL_EFORBIDDEN: the error names the field. */
PL_MUST_CHECK
int pl_pod_patch(struct pod_build *b, struct pl_err *err);

/* Checks that the pod requests nothing that a spec may not request, unless `before`, the pod without the
 * spec's patches, already had it. PL_EFORBIDDEN: the error names the field. */
PL_MUST_CHECK
int pl_pod_check(const struct pl_pod_worker *worker, const struct pl_pod_settings *settings, const json_t *before,
                 const json_t *after, struct pl_err *err);
