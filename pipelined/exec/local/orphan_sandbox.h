/* orphan_sandbox: kills sandboxes (bwrap) that outlive their agents. Before bwrap binds its life to its
 * parent's, it waits for a message from the parent. If the parent is killed before sending it, bwrap waits
 * for ever and keeps the worker's pipe open.
 *
 *   idle ──look──▶ soon (PL_ORPHAN_SANDBOX_MS) ──▶ looking: one pass over all processes, for all workers
 *    ▲                 ▲                              │
 *    │                 └── pipes are still held ──────┤
 *    └────────────────── no pipe is held ─────────────┘
 *
 * While pipes are held, the pause between passes doubles up to PL_ORPHAN_SANDBOX_MAX_MS; a call of
 * pl_orphan_sandbox_look resets it. A pass runs on libuv's thread pool. All functions are called on the
 * loop's thread. */
#pragma once

#include "pipelined/net/loop/loop.h"

#define PL_ORPHAN_SANDBOX_MS     1000 /* time that a sandbox has to end by itself after its agent has ended */
#define PL_ORPHAN_SANDBOX_MAX_MS 60000

struct pl_leftovers;

struct pl_orphan_sandbox_config {
    struct pl_loop *loop;
    /* Returns the pipe of the next worker, starting at position `*at` (0 = the first), whose agent has ended
     * while a process still holds the pipe. The result is the pipe's descriptor, which the caller must not
     * keep; the worker's id is returned too. −1: there are no more such workers. */
    int (*next)(void *self, size_t *at, uint64_t *ret_id);
    /* Called when a pass over all processes has ended: the object may be destroyed. */
    void (*rests)(void *self);
    void *self;
};

/* Creates the object, idle. PL_ENOMEM. */
PL_MUST_CHECK
int pl_orphan_sandbox_create(const struct pl_orphan_sandbox_config *config, struct pl_leftovers **ret, struct pl_err *err);
/* Call this when the agent of another worker has ended while its pipe is held: a pass over all processes
 * follows within PL_ORPHAN_SANDBOX_MS, whatever the pause was. */
void pl_orphan_sandbox_look(struct pl_leftovers *l);
/* Returns true while a pass over all processes runs; `rests` is called at its end. */
bool pl_orphan_sandbox_busy(const struct pl_leftovers *l);
/* Frees the object. Must not be called while a pass runs. NULL is allowed; returns NULL. */
struct pl_leftovers *pl_orphan_sandbox_destroy(struct pl_leftovers *l);
