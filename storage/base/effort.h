/* effort: what one piece of work may cost, and whether anybody still waits for it. Whatever walks what others brought (lists, trees, paths)
 * is given one and counts there. One thread at a time. */
#pragma once

#include "storage/base/err.h"

#define PL_EFFORT_LOOK 1024u /* visits between two looks at the clock and at who waits */

struct pl_effort {
    uint64_t visits_max;            /* 0 = no limit */
    int64_t until_ms;               /* of pl_clock_mono_ms; 0 = no limit */
    bool (*gone)(const void *self); /* nobody waits any more; any thread; may be NULL */
    const void *self;
    uint64_t visits, look_at; /* counted; when to look again */
};

/* Counts `n` steps of work: entries, records, nodes. PL_ELIMIT, PL_ETIMEOUT, PL_ECANCELED (who asked has gone). NULL is fine: no limits. */
PL_MUST_CHECK
int pl_effort_add(struct pl_effort *e, uint64_t n, struct pl_err *err);
