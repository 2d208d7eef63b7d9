/* node_capacity: what a cluster can offer to pods, free or not: what its nodes can allocate, what nodes of
 * the last 30 days could allocate (an autoscaler may bring them back), and the shapes of nodes that the
 * configuration declares.
 *
 * Nodes that are alike form one shape: the same extended resources and GPU labels, the same whole CPUs and
 * GiB of memory. The functions below examine shapes, not single nodes; a cluster of 10,000 nodes has a few
 * dozen shapes. Only pods that hold extended resources are kept.
 *
 * Not thread-safe; no I/O, no clock: `now_ms` is wall time. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"

#define PL_NODE_CAPACITY_SEEN_MS     (30LL * 24 * 3600 * 1000)
#define PL_NODE_CAPACITY_SHAPES_MAX  1024u
#define PL_NODE_CAPACITY_NAMES_MAX   1024u /* maximum number of names of resources and products */
#define PL_NODE_CAPACITY_AMOUNTS_MAX 16u   /* maximum number of extended resources of one node or pod */
#define PL_NODE_CAPACITY_WHY_BYTES   800

struct pl_node_capacity;

/* Creates an empty object. PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_capacity_create(struct pl_node_capacity **ret, struct pl_err *err);
struct pl_node_capacity *pl_node_capacity_destroy(struct pl_node_capacity *o);

/* Reports a node (a v1 Node) that is new or has changed. PL_ELIMIT (too many names or shapes), PL_ENOMEM: the
 * earlier state of the node stays. */
PL_MUST_CHECK
int pl_node_capacity_node(struct pl_node_capacity *o, const json_t *node, int64_t now_ms, struct pl_err *err);
void pl_node_capacity_node_gone(struct pl_node_capacity *o, const char *name, int64_t now_ms);
/* Reports a pod, of any owner, that is new or has changed: while it is bound and has not ended, it holds what
 * it requests. PL_ELIMIT, PL_ENOMEM: the earlier state of the pod stays. */
PL_MUST_CHECK
int pl_node_capacity_pod(struct pl_node_capacity *o, const json_t *pod, struct pl_err *err);
void pl_node_capacity_pod_gone(struct pl_node_capacity *o, const char *uid);
/* Call if the daemon's account may not list the pods of other namespaces: answers then do not say how much is
 * free. */
void pl_node_capacity_without_pods(struct pl_node_capacity *o);

/* Adds a shape of nodes that the configuration declares or that was seen earlier: {"cpu", "memory",
 * "resources": {NAME: COUNT}, "products": {LABEL: VALUE}?, "seen_ms"?}; without "seen_ms" it never expires.
 * "products": the labels that describe GPUs and how they are shared. PL_EINVAL, PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_capacity_shape(struct pl_node_capacity *o, const json_t *shape, struct pl_err *err);
/* Returns the shapes that were seen, in the format of pl_node_capacity_shape; the "seen_ms" of a shape that
 * has nodes is `now_ms`. New reference; NULL if out of memory. */
json_t *pl_node_capacity_shapes(const struct pl_node_capacity *o, int64_t now_ms);
/* Drops the shapes that no node has had for PL_NODE_CAPACITY_SEEN_MS. */
void pl_node_capacity_expire(struct pl_node_capacity *o, int64_t now_ms);

/* The resources that a pod requests from its node. The names point into the pod's JSON. */
struct pl_node_capacity_request {
    int64_t cpu_milli, memory_bytes;
    /* a node that does not list a requested resource may still take the pod, because a scheduler extender may
     * manage that resource */
    bool elsewhere;
    size_t n;
    struct {
        const char *name;
        int64_t count;
    } extended[PL_NODE_CAPACITY_AMOUNTS_MAX];
};
/* Computes a pod's request: the larger of what its containers request together, and what each init container
 * requests together with the sidecars before it (restartPolicy Always). */
void pl_node_capacity_request(const json_t *pod, struct pl_node_capacity_request *ret);
/* True if some node could ever take the pod, or if no node is known. Otherwise `why` is a sentence: "no node
 * offers nvidia.com/gpux; known: nvidia.com/gpu (NVIDIA-A100-SXM4-40GB: 16, 12 free)". */
bool pl_node_capacity_has(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request,
                          char why[PL_NODE_CAPACITY_WHY_BYTES]);

/* True if a node that is not among the `n` named nodes could take the pod: an existing node, or a node of
 * a shape that the configuration declares. Also true if no node is known. */
bool pl_node_capacity_has_beside(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request,
                                 const char *const *nodes, size_t n);

/* Returns the largest disk space for pods, in bytes, among the nodes that could take the pod; 0 = unknown. */
int64_t pl_node_capacity_disk(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request);

/* Sets the members of `ret` that depend on nodes: products, gpu_labels, resources, turns and gpu_mem_unit.
 * `o` owns the lists; they are valid until `o` changes. PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_capacity_describe(struct pl_node_capacity *o, struct pl_pod_cluster *ret, struct pl_err *err);
