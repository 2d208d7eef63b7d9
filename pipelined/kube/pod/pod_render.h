/* pod_render: a stage's worker as a pod. A pure function: stage + what is known of the cluster + the daemon's settings + which worker → the
 * JSON that is POSTed, and the claim template that some GPUs want. Same arguments, same bytes; the body is kept small, because that is
 * what an API server charges for. pod_gpu: how GPUs are asked for; pod_patch: patches;
 * pod_patched: applied, and what comes after; pod_check: what they may not ask for.
 *
 *   install   (init) our image: makes the volume's folders and puts the programs there that commands may call
 *   main      the user's image, its entrypoint replaced by /pl/bin/pl-runner, to which the agent brings commands
 *   agent     our image: pipelined-worker --sandbox pod; moves data, holds the worker's token
 *
 * The one volume `pl` (emptyDir, or the stage's `scratch`); the agent has all of it at /pl, main the folders of it that
 * pipelined/agent/sandbox/sandbox.h lists for a pod: pfs at /pfs (read-only), pfs/out and each writable input where they belong, tmp at /tmp, code at
 * /code, bin and sock (read-only) and checkpoint below /pl.
 *
 * main runs as the stage's `user`; else where the namespace enforces `restricted` as PL_MAIN_UID; on OpenShift as that says; else as the
 * image's. agent and install: PL_AGENT_UID, nothing writable but the volume. The volume's group is PL_POD_GROUP. */
#pragma once

#include "pipelined/spec/spec.h"

#include <jansson.h>

#define PL_MAIN_UID       10001
#define PL_POD_GROUP      10003
#define PL_POD_NAME_BYTES 64
#define PL_POD_GRACE_MS   30000 /* Kubernetes' default, not written */
#define PL_POD_LABEL      "pipelined.io/"
#define PL_GPU_PRODUCT    "nvidia.com/gpu.product" /* labels of GPU Feature Discovery */
#define PL_GPU_STRATEGY   "nvidia.com/gpu.sharing-strategy"

enum pl_pod_level { PL_LEVEL_PRIVILEGED, PL_LEVEL_BASELINE, PL_LEVEL_RESTRICTED };
enum pl_cpu_on_gpu { PL_CPU_AVOIDS_GPU, PL_CPU_NEVER_ON_GPU, PL_CPU_ANYWHERE };

/* A value that a node label for the name of a product has, e.g. {PL_GPU_PRODUCT, "NVIDIA-A100-SXM4-40GB"} or {"cloud.google.com/gke-accelerator",
 * "nvidia-tesla-t4"}. */
struct pl_gpu_product {
    const char *label, *value;
};

/* A resource of nodes that share their GPUs in this way (value of PL_GPU_STRATEGY), e.g. {"mps", "nvidia.com/gpu.shared"}. */
struct pl_gpu_turns {
    const char *strategy, *resource;
};

/* What is known of the cluster and of the namespace. Zeroed: nothing. */
struct pl_pod_cluster {
    enum pl_pod_level level; /* enforced in the namespace */
    bool openshift;
    const char *dra;                    /* newest version of resource.k8s.io that is served; NULL = none */
    const char *const *runtime_classes; /* served */
    size_t n_runtime_classes;
    bool runtime_classes_known;
    const struct pl_gpu_product *products; /* seen on nodes */
    size_t n_products;
    const char *const *gpu_labels; /* keys seen on nodes that have GPUs; none: the usual ones */
    size_t n_gpu_labels;
    const char *const *resources; /* extended resources on offer */
    size_t n_resources;
    const struct pl_gpu_turns *turns; /* of a strategy: by the nodes that there are, else by those that may come */
    size_t n_turns;
    enum pl_share_unit gpu_mem_unit;              /* of aliyun.com/gpu-mem; GiB where nothing is known */
    bool demands_cpu_limit, demands_memory_limit; /* by a quota, and no LimitRange gives one */
};

/* What the daemon is told about all pods. */
struct pl_pod_settings {
    const char *store_id;
    const char *namespace;
    const char *image; /* ours: agent and install */
    const char *const *arch;
    size_t n_arch; /* that it is for; 0 = any */
    const char *default_image;
    const char *const *pull_secrets;
    size_t n_pull_secrets;
    const char *const *claims; /* that specs may mount: "CLAIM", of all projects, or "PROJECT/CLAIM" */
    size_t n_claims;
    const char *const *annotations; /* prefixes of those that specs may set, beside pod_check.c's own */
    size_t n_annotations;
    const char *worker_url;
    const char *owner_name, *owner_uid; /* the ConfigMap that pods belong to; NULL = none */
    const char *ca;                     /* ConfigMap whose ca.crt the daemon's certificate is checked with; NULL = the image's */
    const char *trust_bundle;           /* ConfigMap whose ca.crt commands and agents trust; NULL = none */
    struct pl_pairs proxy_env;
    enum pl_cpu_on_gpu cpu_on_gpu_nodes;
    bool mesh;                  /* service meshes may put their proxies in, which the agent ends */
    int64_t grace_ms;           /* 0 = PL_POD_GRACE_MS */
    int64_t agent_memory_bytes; /* 0 = 512Mi */
    const char *node_cache;     /* folder of nodes for whole files; only where the namespace admits it. NULL = none */
    const json_t *pod_template; /* {"metadata", "spec"} merged over every pod (pl_pod_merge); NULL = none */
    const json_t *gpu_presets;  /* rows over those of gpu_presets.json; NULL = none */
};

/* Which worker. */
struct pl_pod_worker {
    const struct pl_stage *stage;
    const char *project;
    uint64_t id;
    uint64_t version; /* of the stage */
    uint32_t index, incarnation;
    const char *token;
    bool gpu;         /* it gets its GPUs; false also for a stage that goes on without */
    bool trusted;     /* the project is one of kubernetes.trusted_projects, and has its network */
    bool network_off; /* it has none: nor have its stages, whatever they say */
    int64_t
        input_bytes; /* of its largest datum, as far as is known: asked for of the node's disk in whole MiB, but no more than one has */
    int64_t disk_bytes;       /* of the node that has most of it for such pods (offer.h); 0 = not known */
    const char *const *avoid; /* nodes that it does not go to */
    size_t n_avoid;
    const char *const *secrets; /* labelled for the project */
    size_t n_secrets;
};

struct pl_pod {
    char name[PL_POD_NAME_BYTES];
    json_t *pod;
    json_t *claim_template; /* ResourceClaimTemplate that must be there first; NULL = none */
    bool elsewhere;         /* who counts its devices may be another than nodes (offer.h) */
};

/* `*ret` is finished by pl_pod_finish. PL_EINVAL: the stage cannot be a pod (no image, a user that the namespace forbids); PL_EFORBIDDEN: its
 * patch asks for what specs may not have; PL_EUNAVAILABLE: nothing of the cluster is what it asks for. Each with the field's path. */
PL_MUST_CHECK
int pl_pod_render(const struct pl_pod_cluster *cluster, const struct pl_pod_settings *settings,
                  const struct pl_pod_worker *worker, struct pl_pod *ret, struct pl_err *err);
void pl_pod_finish(struct pl_pod *pod);

/* "<stage>-<10 hex of store, project, stage, version>-<index>-<incarnation>": the stage in lower case, other bytes '-', cut so that all has
 * at most 63. */
void pl_pod_name(const char *store_id, const char *project, const char *stage, uint64_t version, uint32_t index,
                 uint32_t incarnation, char ret[PL_POD_NAME_BYTES]);
