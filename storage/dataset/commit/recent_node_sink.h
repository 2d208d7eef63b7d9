/* recent_node_sink: a node sink over a pack builder that keeps the last PL_RECENT_NODE_SINK_MAX nodes in
 * memory, and a node source that finds these nodes before their pack is written. The code that makes a
 * commit uses it to read the sums of the tree that it has just written, and to put the commit object into
 * the same pack as that tree. Single-threaded. */
#pragma once

#include "storage/tree/tree.h"

#define PL_RECENT_NODE_SINK_MAX 32

struct pl_pack_builder;

struct pl_recent_node_sink {
    struct pl_pack_builder *session;
    struct pl_node_source below; /* source of the nodes that are not in memory */
    struct pl_recent_node {
        struct pl_hash id;
        struct pl_buf bytes;
    } nodes[PL_RECENT_NODE_SINK_MAX];
    unsigned next;
};

/* Initialises the sink. `session`, and what `below` refers to, must outlive it. */
void pl_recent_node_sink_init(struct pl_recent_node_sink *r, struct pl_pack_builder *session, const struct pl_node_source *below);
void pl_recent_node_sink_finish(struct pl_recent_node_sink *r);
struct pl_node_sink pl_recent_node_sink_sink(struct pl_recent_node_sink *r);
struct pl_node_source pl_recent_node_sink_source(struct pl_recent_node_sink *r);
