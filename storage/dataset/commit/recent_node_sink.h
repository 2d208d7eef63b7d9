/* recent_nodes: a node sink over a pack session that keeps the last nodes it put, and a source that finds them before they are in a
 * pack: so that a commit can read the sums of the tree it has just written and go into the same pack. One thread. */
#pragma once

#include "storage/tree/tree.h"

#define PL_RECENT_NODE_SINK_MAX 32

struct pl_pack_builder;

struct pl_recent_node_sink {
    struct pl_pack_builder *session;
    struct pl_node_source below; /* asked for everything else */
    struct pl_recent_node {
        struct pl_hash id;
        struct pl_buf bytes;
    } nodes[PL_RECENT_NODE_SINK_MAX];
    unsigned next;
};

void pl_recent_node_sink_init(struct pl_recent_node_sink *r, struct pl_pack_builder *session, const struct pl_node_source *below);
void pl_recent_node_sink_finish(struct pl_recent_node_sink *r);
struct pl_node_sink pl_recent_node_sink_sink(struct pl_recent_node_sink *r);
struct pl_node_source pl_recent_node_sink_source(struct pl_recent_node_sink *r);
