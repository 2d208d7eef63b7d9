/* node_history: the file DIR/nodes.json, which remembers what the nodes of the last 30 days could offer
 * (node_capacity.h), so that the next daemon knows a node group that an autoscaler has scaled to zero.
 *
 *   {"version": 1, "server": which cluster, "shapes": [as pl_node_capacity_shape takes them; "seen_ms" by the hour]}
 *
 * A damaged file never prevents the start of the daemon, because the file can be rebuilt from the nodes that
 * the daemon sees: a file that is unreadable or of another cluster is logged and replaced. Single-threaded,
 * except for its own writer thread. */
#pragma once

#include "pipelined/kube/nodes/node_capacity.h"

/* minimum interval between two writes of the file; the write at shutdown does not wait for it */
#define PL_NODE_HISTORY_EVERY_MS 60000
/* resolution of "seen_ms": if nothing else changes, the file is written at most once an hour */
#define PL_NODE_HISTORY_HOUR_MS   (3600LL * 1000)
#define PL_NODE_HISTORY_MAX_BYTES ((size_t)4 << 20)

struct pl_seen_nodes;

/* Reads the file and adds the node shapes in it to `offer`, except those that no node has had for 30 days.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_history_create(const char *path, const char *server, struct pl_node_capacity *offer, int64_t now_ms,
                           struct pl_seen_nodes **ret, struct pl_err *err);
/* Removes from `offer` the node shapes that no node has had for 30 days, and writes the remaining node shapes
 * if they differ from the file. Does not wait: if a write is in progress, this call starts no other write. A
 * failure is logged once; the next call tries again. */
void pl_node_history_keep(struct pl_seen_nodes *s, struct pl_node_capacity *offer, int64_t now_ms);
/* Writes the node shapes of `offer` if they differ from the file, waits for the write, and frees the object.
 * `offer` NULL: writes nothing. */
struct pl_seen_nodes *pl_node_history_destroy(struct pl_seen_nodes *s, struct pl_node_capacity *offer, int64_t now_ms);
