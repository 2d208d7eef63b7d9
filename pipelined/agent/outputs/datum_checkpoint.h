/* checkpoint: what a command keeps in $PL_CHECKPOINT for its next attempt, uploaded while it runs. A thread takes the folder as a tree
 * every so often and tells the daemon its root; the daemon gives it with the next lease of the same datum key.
 *
 *   idle ──begin──▶ following (a tree every `every_ms`) ──end──▶ idle
 *
 * A folder that cannot be taken (a file changes while it is read, or has just gone) is left for the next time. begin and end belong to
 * one thread. */
#pragma once

#include "pipelined/agent/connection/daemon_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

struct pl_checkpoint;

struct pl_checkpoint_config {
    struct pl_uplink *link;
    const char *worker;
    const char *project;
    const char *folder;
    int64_t every_ms;
};

/* Strings are borrowed. */
PL_MUST_CHECK
int pl_checkpoint_create(const struct pl_checkpoint_config *config, struct pl_checkpoint **ret, struct pl_err *err);
struct pl_checkpoint *pl_checkpoint_destroy(struct pl_checkpoint *c);
/* The command of this row starts. */
void pl_checkpoint_begin(struct pl_checkpoint *c, const struct pl_agent_protocol_lease *lease, uint32_t index);
/* It has ended, no process of it is left. `last`: once more, as it is now. */
void pl_checkpoint_end(struct pl_checkpoint *c, bool last);
