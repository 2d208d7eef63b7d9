/* datum_checkpoint: uploads what a command saves in $PL_CHECKPOINT for its next attempt, while the command
 * runs. A thread periodically stores the folder as a tree and reports the tree's root to the daemon. The
 * daemon passes the root on with the next lease of a datum with the same key.
 *
 *   idle ──begin──▶ following (a tree every `every_ms`) ──end──▶ idle
 *
 * If the folder cannot be stored, because a file changes or disappears while it is read, the next round tries
 * again. begin and end must be called on one thread. */
#pragma once

#include "pipelined/agent/connection/daemon_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

struct pl_checkpoint;

struct pl_checkpoint_config {
    struct pl_uplink *link;
    const char *worker;
    const char *project;
    /* the folder that the command sees as $PL_CHECKPOINT */
    const char *folder;
    int64_t every_ms;
};

/* Creates the object and its thread. The strings of `config` are borrowed. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_checkpoint_create(const struct pl_checkpoint_config *config, struct pl_checkpoint **ret, struct pl_err *err);
struct pl_checkpoint *pl_checkpoint_destroy(struct pl_checkpoint *c);
/* Starts to save the checkpoint folder periodically. Call it when the datum's command starts. */
void pl_checkpoint_begin(struct pl_checkpoint *c, const struct pl_agent_protocol_lease *lease, uint32_t index);
/* Stops saving the folder. Call it when the command has ended and none of its processes is left. `last`:
 * store the folder once more, in its final state. */
void pl_checkpoint_end(struct pl_checkpoint *c, bool last);
