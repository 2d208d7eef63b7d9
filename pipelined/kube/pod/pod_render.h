/* pod_render: renders a stage's worker as a pod. A pure function of the stage, the cluster's facts, the
 * daemon's settings and the worker: it returns the pod's JSON, and the claim template that some GPU requests
 * need. The same arguments give the same bytes. The JSON is kept small, because an API server needs more time
 * for larger objects.
 *
 *   install   (init) pipelined's image: makes the volume's folders and copies there the programs that commands
 *             may call
 *   main      the user's image; its entrypoint is replaced by /pl/bin/pl-runner, to which the agent sends commands
 *   agent     pipelined's image: pipelined-worker --sandbox pod; moves data, holds the worker's token
 *
 * They share the volume `pl` (emptyDir, or the stage's `scratch`). The agent has all of it at /pl; main has
 * the folders that pipelined/agent/sandbox/sandbox.h lists for a pod: pfs at /pfs (read-only), pfs/out and
 * each writable input in their places, tmp at /tmp, code at /code, and bin and sock (read-only) and
 * checkpoint below /pl.
 *
 * main runs as the stage's `user`, if given; else as PL_MAIN_UID if the namespace enforces `restricted`; on
 * OpenShift as OpenShift chooses; else as the image's user. agent and install run as PL_AGENT_UID, and only
 * the volume is writable for them. The volume's group is PL_POD_GROUP. */
#pragma once

#include "pipelined/spec/spec.h"

#include <jansson.h>

#define PL_MAIN_UID       10001
#define PL_POD_GROUP      10003
#define PL_POD_NAME_BYTES 64
#define PL_POD_GRACE_MS   30000 /* Kubernetes' default, which is not written to the pod */
#define PL_POD_LABEL      "pipelined.io/"
#define PL_GPU_PRODUCT    "nvidia.com/gpu.product" /* labels of GPU Feature Discovery */
#define PL_GPU_STRATEGY   "nvidia.com/gpu.sharing-strategy"
#define PL_GPU_MEMORY     "nvidia.com/gpu.memory"                 /* MiB */
#define PL_GPU_COMPUTE    "nvidia.com/gpu.compute."               /* followed by "major" or "minor" */
#define PL_KARPENTER_MEM  "karpenter.k8s.aws/instance-gpu-memory" /* MiB */

enum pl_pod_level { PL_LEVEL_PRIVILEGED, PL_LEVEL_BASELINE, PL_LEVEL_RESTRICTED };
enum pl_cpu_on_gpu { PL_CPU_AVOIDS_GPU, PL_CPU_NEVER_ON_GPU, PL_CPU_ANYWHERE };

/* A value of a node label that names a product: {PL_GPU_PRODUCT, "NVIDIA-A100-SXM4-40GB"} or
 * {"cloud.google.com/gke-accelerator", "nvidia-tesla-t4"}. */
struct pl_gpu_product {
    const char *label, *value;
    /* the most memory, in MiB, and the highest compute capability (100 × major + minor) that nodes with this
     * product have by their labels; 0 = no label says it */
    int64_t memory_mib;
    unsigned compute;
};

/* A resource name on nodes that share GPUs by `strategy` (a value of the label PL_GPU_STRATEGY): {"mps",
 * "nvidia.com/gpu.shared"}. */
struct pl_gpu_turns {
    const char *strategy, *resource;
};

/* The facts about the cluster and the namespace. All zero: nothing is known. */
struct pl_pod_cluster {
    enum pl_pod_level level; /* Pod Security level that the namespace enforces */
    bool openshift;
    const char *dra;                    /* preferred served version of resource.k8s.io; NULL = none */
    const char *const *runtime_classes; /* names of the cluster's runtime classes */
    size_t n_runtime_classes;
    bool runtime_classes_known;
    const struct pl_gpu_product *products; /* products seen on nodes */
    size_t n_products;
    const char *const *gpu_labels; /* keys of GPU labels seen on nodes; none: the usual ones are used */
    size_t n_gpu_labels;
    const char *const *resources; /* names of the extended resources that nodes have */
    size_t n_resources;
    /* resources of shared devices, for each sharing strategy: those of existing nodes or, if there are none,
     * those of nodes that may come back */
    const struct pl_gpu_turns *turns;
    size_t n_turns;
    enum pl_share_unit gpu_mem_unit;              /* unit of aliyun.com/gpu-mem; GiB if unknown */
    bool demands_cpu_limit, demands_memory_limit; /* a quota requires a limit, and no LimitRange sets a default */
};

/* The daemon's settings for all pods. */
struct pl_pod_settings {
    const char *store_id;
    const char *namespace;
    const char *image; /* pipelined's image, for the containers agent and install */
    const char *const *arch;
    size_t n_arch; /* number of architectures of pipelined's image; 0 = any */
    const char *default_image;
    const char *const *pull_secrets;
    size_t n_pull_secrets;
    const char *const *claims; /* claims that specs may mount: "CLAIM" for all projects, or "PROJECT/CLAIM" */
    size_t n_claims;
    const char *const *annotations; /* prefixes of annotations that specs may set, besides those in pod_check.c */
    size_t n_annotations;
    const char *worker_url;
    const char *owner_name, *owner_uid; /* name and uid of the ConfigMap that owns the pods; NULL = none */
    /* ConfigMap whose ca.crt verifies the daemon's certificate; NULL = the image's CA certificates */
    const char *ca;
    const char *trust_bundle; /* ConfigMap whose ca.crt commands and agents trust; NULL = none */
    struct pl_pairs proxy_env;
    enum pl_cpu_on_gpu cpu_on_gpu_nodes;
    bool mesh;                  /* service meshes may inject their proxies, which the agent stops at the end */
    int64_t grace_ms;           /* termination grace period of the pods; 0 = PL_POD_GRACE_MS */
    int64_t agent_memory_bytes; /* memory limit of the agent's container; 0 = 512Mi */
    /* folder of nodes for the agents' cache, used only if the namespace is privileged; NULL = none */
    const char *node_cache;
    const json_t *pod_template; /* {"metadata", "spec"}, merged over every pod by pl_pod_merge; NULL = none */
    const json_t *gpu_presets;  /* presets that override those of gpu_presets.json; NULL = none */
};

/* The worker to render. */
struct pl_pod_worker {
    const struct pl_stage *stage;
    const char *project;
    const char *pipeline, *run; /* labels of the pod; NULL = none */
    uint64_t id;
    uint64_t version; /* the stage's version */
    uint32_t index, incarnation;
    const char *token;
    bool gpu;     /* the worker gets GPUs; false also for the CPU variant of a stage with optional GPUs */
    bool trusted; /* the project is in kubernetes.trusted_projects, and its network is not off */
    /* the project forbids network access: its stages have no network, whatever their field `network` says */
    bool network_off;
    /* bytes of the largest datum so far; 0 = unknown. The pod requests this disk space, but at most what some
     * node has */
    int64_t input_bytes;
    /* largest disk of the nodes that could take such a pod (node_capacity.h); 0 = unknown */
    int64_t disk_bytes;
    const char *const *avoid; /* names of nodes to exclude */
    size_t n_avoid;
    const char *const *secrets; /* names of the secrets that are labelled for the project */
    size_t n_secrets;
};

struct pl_pod {
    char name[PL_POD_NAME_BYTES];
    json_t *pod;
    json_t *claim_template; /* ResourceClaimTemplate that must be created first; NULL = none */
    /* a program other than the nodes' kubelets may manage the requested devices (node_capacity.h:
     * `elsewhere`) */
    bool elsewhere;
};

/* Renders the pod; `*ret` must be freed with pl_pod_finish. PL_EINVAL: the stage cannot be a pod (no
 * image, a user that the namespace forbids); PL_EFORBIDDEN: the stage's patch requests something that specs
 * may not request; PL_EUNAVAILABLE: the cluster lacks something that the stage requests. The error names the
 * field's path. */
PL_MUST_CHECK
int pl_pod_render(const struct pl_pod_cluster *cluster, const struct pl_pod_settings *settings,
                  const struct pl_pod_worker *worker, struct pl_pod *ret, struct pl_err *err);
void pl_pod_finish(struct pl_pod *pod);

/* Makes the pod's name: "<stage>-<10 hex of store, project, stage, version>-<index>-<incarnation>": the stage
 * in lower case with other bytes as '-', cut so that the name has at most 63 bytes. */
void pl_pod_name(const char *store_id, const char *project, const char *stage, uint64_t version, uint32_t index,
                 uint32_t incarnation, char ret[PL_POD_NAME_BYTES]);
