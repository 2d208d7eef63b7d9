/* seen_nodes: DIR/nodes.json: what nodes of the last 30 days could offer (offer.h), for the daemon's next life. A group of nodes that an autoscaler
 * has scaled to zero is known then, too.
 *
 *   {"version": 1, "server": of which cluster, "shapes": [as pl_node_capacity_shape takes them; "seen_ms" by the hour]}
 *
 * Made from what is seen, so no file is a reason not to start: one that cannot be read, or is of another cluster, is said in the log and made anew.
 * One thread at a time, but for the one that writes. */
#pragma once

#include "pipelined/kube/nodes/node_capacity.h"

#define PL_NODE_HISTORY_EVERY_MS  60000           /* it is written at most so often, but for the end */
#define PL_NODE_HISTORY_HOUR_MS   (3600LL * 1000) /* and for time alone every hour */
#define PL_NODE_HISTORY_MAX_BYTES ((size_t)4 << 20)

struct pl_seen_nodes;

/* What the file has is told to `offer`; what was seen too long ago is left out. PL_ENOMEM. */
PL_MUST_CHECK
int pl_node_history_create(const char *path, const char *server, struct pl_node_capacity *offer, int64_t now_ms,
                           struct pl_seen_nodes **ret, struct pl_err *err);
/* Forgets what no node has had for so long, and has written what is left, unless the file says it already. Does not wait: while a write is under
 * way there is none. What fails is said once, and tried again with the next call. */
void pl_node_history_keep(struct pl_seen_nodes *s, struct pl_node_capacity *offer, int64_t now_ms);
/* Writes what is not written yet, and waits for that. */
struct pl_seen_nodes *pl_node_history_destroy(struct pl_seen_nodes *s, struct pl_node_capacity *offer, int64_t now_ms);
