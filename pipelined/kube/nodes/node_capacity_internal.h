/* offer_internal (private to offer, offer_answers): what is known of nodes and of who holds what they have. */
#pragma once

#include "pipelined/kube/nodes/node_capacity.h"
#include "storage/base/map.h"

#define PRODUCTS_MAX 4u /* labels of one node that name a product */

struct amount {
    uint32_t name; /* in o->names */
    uint32_t zero; /* amounts are compared by their bytes */
    uint64_t count;
};

/* What makes nodes alike; zeroed before it is filled, so that bytes compare. */
struct shape_key {
    uint32_t cpus, gib, labels; /* labels: bits of pl_offer_gpu_labels */
    uint32_t strategy;          /* of pl_offer_strategies */
    uint32_t n, n_products;
    struct amount amounts[PL_NODE_CAPACITY_AMOUNTS_MAX]; /* by name */
    struct {
        uint32_t label, value; /* label: index in pl_offer_product_labels */
    } products[PRODUCTS_MAX];
};

struct shape {
    struct shape_key key;
    int64_t cpu_milli, memory_bytes; /* the most that one of them has */
    int64_t disk_bytes;              /* the same, of its own disk; 0 = not known */
    int64_t seen_ms;
    uint64_t used[PL_NODE_CAPACITY_AMOUNTS_MAX]; /* of key.amounts, on all nodes */
    uint32_t nodes;
    bool stays, taken;
};

struct node {
    struct shape *shape; /* NULL: only its pods are known */
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
    struct shape *shapes; /* PL_NODE_CAPACITY_SHAPES_MAX */
    uint32_t n_shapes;    /* places ever taken */
    struct pl_map nodes, pods;
    bool without_pods;
    struct pl_gpu_product *products; /* of pl_node_capacity_describe */
    const char **labels, **resources;
    struct pl_gpu_turns *turns;
};

#define PL_NODE_CAPACITY_PRODUCT_LABELS 5u
#define PL_NODE_CAPACITY_GPU_LABELS     5u
#define PL_NODE_CAPACITY_STRATEGIES     3u
/* Labels whose value is a product; the first is of GPU Feature Discovery. */
extern const char *const pl_offer_product_labels[PL_NODE_CAPACITY_PRODUCT_LABELS];
/* Ways to share devices, by PL_GPU_STRATEGY; the first is none. */
extern const char *const pl_offer_strategies[PL_NODE_CAPACITY_STRATEGIES];
/* Labels that a node without GPUs has not. */
extern const char *const pl_offer_gpu_labels[PL_NODE_CAPACITY_GPU_LABELS];
