/* offer: what a cluster can offer to pods, whether it has it free or not: what its nodes can allocate, what nodes of the last 30 days could
 * (an autoscaler brings them back), and what the configuration says that nodes could have.
 *
 * Nodes that are alike are one shape: the same extended resources and labels of GPUs, the same whole CPUs and GiB of memory. An answer looks at
 * shapes, never at nodes: a 10,000-node cluster is a few dozen of them. Of pods only those are kept that hold extended resources.
 *
 * Not thread-safe; no I/O, no clock: `now_ms` is wall time. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"

#define PL_NODE_CAPACITY_SEEN_MS     (30LL * 24 * 3600 * 1000)
#define PL_NODE_CAPACITY_SHAPES_MAX  1024u
#define PL_NODE_CAPACITY_NAMES_MAX   1024u /* of resources and products */
#define PL_NODE_CAPACITY_AMOUNTS_MAX 16u   /* extended resources of a node or pod */
#define PL_NODE_CAPACITY_WHY_BYTES   800

struct pl_node_capacity;

/* PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_capacity_create(struct pl_node_capacity **ret, struct pl_err *err);
struct pl_node_capacity *pl_node_capacity_destroy(struct pl_node_capacity *o);

/* A node is new or has changed; a v1 Node. PL_ELIMIT (too many names or shapes), PL_ENOMEM: what was known of it stays. */
PL_MUST_CHECK
int pl_node_capacity_node(struct pl_node_capacity *o, const json_t *node, int64_t now_ms, struct pl_err *err);
void pl_node_capacity_node_gone(struct pl_node_capacity *o, const char *name, int64_t now_ms);
/* A pod of anybody is new or has changed: while it is bound and has not ended, it holds what it asks for. PL_ELIMIT, PL_ENOMEM: what was
 * known of it stays. */
PL_MUST_CHECK
int pl_node_capacity_pod(struct pl_node_capacity *o, const json_t *pod, struct pl_err *err);
void pl_node_capacity_pod_gone(struct pl_node_capacity *o, const char *uid);
/* Nobody may look at others' pods: nothing is said of what is free. */
void pl_node_capacity_without_pods(struct pl_node_capacity *o);

/* A shape of the configuration or of the daemon's last life: {"cpu", "memory", "resources": {NAME: COUNT}, "products": {LABEL: VALUE}?, "seen_ms"?};
 * without "seen_ms" it stays. "products": labels that tell of GPUs, the strategy by which they are shared among them. PL_EINVAL, PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_capacity_shape(struct pl_node_capacity *o, const json_t *shape, struct pl_err *err);
/* The shapes that were seen, as pl_node_capacity_shape takes them: now, where there are nodes; a new reference, NULL without memory. */
json_t *pl_node_capacity_shapes(const struct pl_node_capacity *o, int64_t now_ms);
/* Forgets shapes that no node has had for PL_NODE_CAPACITY_SEEN_MS. */
void pl_node_capacity_expire(struct pl_node_capacity *o, int64_t now_ms);

/* What a pod asks of its node. Names are the pod's. */
struct pl_node_capacity_request {
    int64_t cpu_milli, memory_bytes;
    bool elsewhere; /* a resource that no node lists may be counted by somebody else, a scheduler's extender say: it is no lack */
    size_t n;
    struct {
        const char *name;
        int64_t count;
    } extended[PL_NODE_CAPACITY_AMOUNTS_MAX];
};
/* The greater of what its containers ask together and what each container before them does, with those before them that stay (restartPolicy Always). */
void pl_node_capacity_request(const json_t *pod, struct pl_node_capacity_request *ret);
/* Could some node ever take it? If not, `why` is the sentence: "no node offers nvidia.com/gpux; known: nvidia.com/gpu (NVIDIA-A100-SXM4-40GB: 16, 12
 * free)". Nothing known of any node: true. */
bool pl_node_capacity_has(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request,
                          char why[PL_NODE_CAPACITY_WHY_BYTES]);

/* Could one take it that is none of those nodes: another that is there, or one that the configuration says there may be? Nothing known of any node: true. */
bool pl_node_capacity_has_beside(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request,
                                 const char *const *nodes, size_t n);

/* Of the nodes that could take it, the disk of the one that has most of it for pods; 0 = not known. */
int64_t pl_node_capacity_disk(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request);

/* Fills what of `ret` comes from nodes: products, gpu_labels, resources, turns, which are the offer's until it changes; gpu_mem_unit. PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_capacity_describe(struct pl_node_capacity *o, struct pl_pod_cluster *ret, struct pl_err *err);
