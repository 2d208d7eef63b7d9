/* effort: counts steps. Checks the deadline, and whether the client has disconnected, only every
 * PL_EFFORT_LOOK steps. */
#include "storage/base/effort.h"

#include "storage/base/clock.h"

int pl_effort_add(struct pl_effort *e, uint64_t n, struct pl_err *err)
{
    if (!e)
        return 0;
    e->visits += n;
    if (e->visits_max && e->visits > e->visits_max)
        return pl_err_set(err, PL_ELIMIT, "the request needs more than %llu steps: request less data at once",
                          (unsigned long long)e->visits_max);
    if (e->visits < e->look_at)
        return 0;
    e->look_at = e->visits + PL_EFFORT_LOOK;
    if (e->gone && e->gone(e->self))
        return pl_err_set(err, PL_ECANCELED, "the client disconnected");
    return e->until_ms && pl_clock_mono_ms() >= e->until_ms
               ? pl_err_set(err, PL_ETIMEOUT, "the request took longer than allowed: request less data at once")
               : 0;
}
