/* pod_internal (private to pod_render, pod_gpu, pod_patched, pod_check): a pod under construction. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"

#define POD_MAIN           0 /* places in spec.containers */
#define POD_AGENT          1

#define PL_POD_TOKEN       "PIPELINED_WORKER_TOKEN" /* of the agent's env */
#define PL_POD_CACHE_OWNER "node-cache"             /* name of the container that gives the node's cache to the agent */

struct pod_build {
    const struct pl_pod_cluster *cluster;
    const struct pl_pod_settings *settings;
    const struct pl_pod_worker *worker;
    const struct pl_stage *stage;
    char name[PL_POD_NAME_BYTES];
    json_t *pod, *labels, *annotations, *spec, *main;   /* borrowed but for `pod` */
    json_t *limits, *requests, *env, *mounts, *volumes; /* of main; of the pod */
    json_t *tolerations;
    json_t *require;      /* expressions that all hold of the node */
    json_t *alternatives; /* lists of expressions, of which one holds; [] = no more is asked */
    json_t *prefer;       /* preferredDuringScheduling… */
    json_t *claim;        /* ResourceClaimTemplate or NULL */
    bool lack;            /* without memory: what was built is void */
};

/* All take over `value`; without memory b->lack is set. */
void pl_pod_put(struct pod_build *b, json_t *object, const char *key, json_t *value);
void pl_pod_add(struct pod_build *b, json_t *list, json_t *value);
void pl_pod_variable(struct pod_build *b, json_t *env, const char *name, const char *value);
/* A node's label: {"key", "operator", "values"}; `values` (taken over) may be NULL. */
json_t *pl_pod_expression(struct pod_build *b, const char *key, const char *op, json_t *values);
void pl_pod_tolerate(struct pod_build *b, const char *key);

/* What a GPU worker asks for. PL_EUNAVAILABLE, PL_EINVAL. */
PL_MUST_CHECK
int pl_pod_gpu(struct pod_build *b, struct pl_err *err);
/* What keeps a CPU worker from GPUs. */
void pl_pod_cpu(struct pod_build *b);

/* The rows that gpu.share.preset names: ours, and over them the daemon's. New reference, NULL without memory. */
json_t *pl_pod_presets(const struct pl_pod_settings *settings);

/* The template, the stage's patches, their check, the token. PL_EINVAL, PL_EFORBIDDEN with the field. */
PL_MUST_CHECK
int pl_pod_patch(struct pod_build *b, struct pl_err *err);

/* Does the pod ask for what specs may not have, that `before` (without the spec's patches) had not? PL_EFORBIDDEN with the field. */
PL_MUST_CHECK
int pl_pod_check(const struct pl_pod_worker *worker, const struct pl_pod_settings *settings, const json_t *before,
                 const json_t *after, struct pl_err *err);
