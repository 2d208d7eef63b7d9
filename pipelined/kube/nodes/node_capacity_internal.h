/* node_capacity_internal: private to node_capacity and node_capacity_answer: the state of nodes and of pods
 * that hold their resources. */
#pragma once

#include "pipelined/kube/nodes/node_capacity.h"
#include "storage/base/map.h"

#define PRODUCTS_MAX 4u /* maximum number of product labels of one node */

struct amount {
    uint32_t name; /* index of the resource's name in o->names */
    uint32_t zero; /* padding, always 0, because amounts are compared as bytes */
    uint64_t count;
};

/* The properties that all nodes of a shape have in common. A key is zeroed before it is filled, so that
 * keys can be compared as bytes. */
struct shape_key {
    /* whole CPUs and GiB of memory; labels: bit i = the node has the label pl_offer_gpu_labels[i] */
    uint32_t cpus, gib, labels;
    uint32_t strategy; /* how the node shares devices: index in pl_offer_strategies */
    /* by the node's labels: memory of a device in MiB, and its compute capability as 100 × major + minor; 0 =
     * no label says it */
    uint32_t memory_mib, compute;
    uint32_t n, n_products;
    struct amount amounts[PL_NODE_CAPACITY_AMOUNTS_MAX]; /* sorted by name */
    struct {
        uint32_t label, value; /* label: index in pl_offer_product_labels; value: index in o->names */
    } products[PRODUCTS_MAX];
};

struct shape {
    struct shape_key key;
    int64_t cpu_milli, memory_bytes; /* maximum over the shape's nodes */
    int64_t disk_bytes;              /* disk space for pods, maximum over the shape's nodes; 0 = unknown */
    int64_t seen_ms;
    /* total that pods hold on the shape's nodes, for each resource of key.amounts */
    uint64_t used[PL_NODE_CAPACITY_AMOUNTS_MAX];
    uint32_t nodes;
    bool stays, taken;
};

struct node {
    struct shape *shape; /* NULL = the node does not exist, but pods hold resources on it */
    uint32_t pods, n;
    struct amount used[PL_NODE_CAPACITY_AMOUNTS_MAX];
    char name[];
};

struct held {
    struct node *node;
    uint32_t n;
    struct amount amounts[];
};

struct pl_node_capacity {
    char *names[PL_NODE_CAPACITY_NAMES_MAX];
    uint32_t n_names;
    struct shape *shapes; /* array of PL_NODE_CAPACITY_SHAPES_MAX entries */
    uint32_t n_shapes;    /* number of entries that were ever used */
    struct pl_map nodes, pods;
    bool without_pods;
    struct pl_gpu_product *products; /* lists for pl_node_capacity_describe */
    const char **labels, **resources;
    struct pl_gpu_turns *turns;
};

#define PL_NODE_CAPACITY_PRODUCT_LABELS 5u
#define PL_NODE_CAPACITY_GPU_LABELS     5u
#define PL_NODE_CAPACITY_STRATEGIES     3u
/* Node labels whose value names a GPU product; the first is that of GPU Feature Discovery. */
extern const char *const pl_offer_product_labels[PL_NODE_CAPACITY_PRODUCT_LABELS];
/* Values of the label PL_GPU_STRATEGY, which says how a node shares its devices; the first is "none". */
extern const char *const pl_offer_strategies[PL_NODE_CAPACITY_STRATEGIES];
/* Labels that only nodes with GPUs have. */
extern const char *const pl_offer_gpu_labels[PL_NODE_CAPACITY_GPU_LABELS];
