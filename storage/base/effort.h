/* effort: limits the work of one request: a maximum number of steps, a deadline, and whether the client still
 * waits. Functions that walk data of a size chosen by clients (lists, trees, paths) receive a pl_effort and
 * count their steps in it. Used by one thread at a time. */
#pragma once

#include "storage/base/err.h"

#define PL_EFFORT_LOOK 1024u /* steps between two checks of the deadline and of the client */

struct pl_effort {
    uint64_t visits_max;            /* 0 = no limit */
    int64_t until_ms;               /* deadline on the clock of pl_clock_mono_ms; 0 = none */
    bool (*gone)(const void *self); /* true if no client waits any more; called on any thread; NULL = never */
    const void *self;               /* argument of `gone` */
    /* `visits`: steps counted so far; `look_at`: value of `visits` at which deadline and client are
     * checked next */
    uint64_t visits, look_at;
};

/* Counts `n` steps of work: entries, records, nodes. Returns PL_ELIMIT (too many steps), PL_ETIMEOUT, or
 * PL_ECANCELED (the client has disconnected). `e` NULL: no limits. */
PL_MUST_CHECK
int pl_effort_add(struct pl_effort *e, uint64_t n, struct pl_err *err);
