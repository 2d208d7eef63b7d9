/* leftovers: sandboxes (bwrap) that outlive their agents. bwrap waits, before it ties itself to the life of its parent, for a word of it that a
 * killed parent does not give any more: for ever, with its worker's pipe in its hands.
 *
 *   idle ──look──▶ soon (PL_ORPHAN_SANDBOX_MS) ──▶ looking, on a thread of libuv's pool: one pass over all processes, for all workers
 *     ▲                 ▲                        │
 *     │                 └── pipes are held yet: after a pause that doubles up to PL_ORPHAN_SANDBOX_MAX_MS, until `look` ──┤
 *     └──────────────────────────────── none is ─────────────────────────────────────────────────────────────────────┘
 *
 * All functions are the loop's. */
#pragma once

#include "pipelined/net/loop/loop.h"

#define PL_ORPHAN_SANDBOX_MS     1000 /* that a sandbox has to end after its agent */
#define PL_ORPHAN_SANDBOX_MAX_MS 60000

struct pl_leftovers;

struct pl_orphan_sandbox_config {
    struct pl_loop *loop;
    /* A pipe that a process of a worker holds whose agent has gone, from `*at` on (0: the first): its descriptor, which is not kept, and its
     * worker's number; −1: there is none more. */
    int (*next)(void *self, size_t *at, uint64_t *ret_id);
    /* None is looked for at this moment: it may be destroyed. */
    void (*rests)(void *self);
    void *self;
};

/* PL_ENOMEM. */
PL_MUST_CHECK
int pl_orphan_sandbox_create(const struct pl_orphan_sandbox_config *config, struct pl_leftovers **ret, struct pl_err *err);
/* One more agent has gone whose pipe is held: soon, whatever the pause was. */
void pl_orphan_sandbox_look(struct pl_leftovers *l);
/* Whether they are being looked for; then `rests` comes. */
bool pl_orphan_sandbox_busy(const struct pl_leftovers *l);
/* Not while it is busy. Takes NULL, returns NULL. */
struct pl_leftovers *pl_orphan_sandbox_destroy(struct pl_leftovers *l);
