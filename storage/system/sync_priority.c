/* sync_priority: counts the foreground syncs in progress and remembers when the last one ended. Background
 * threads poll the count and that time. */
#include "storage/system/sync_priority.h"

#include "storage/base/clock.h"

#include <stdatomic.h>
#include <time.h>

#define LOOK_US 500

static _Thread_local bool is_patient;
static atomic_int under_way;
static _Atomic int64_t ended_us; /* end of the last foreground sync */

void pl_sync_priority_set(bool patient)
{
    is_patient = patient;
}

void pl_sync_priority_sync_begins(void)
{
    if (!is_patient)
        atomic_fetch_add(&under_way, 1);
}

void pl_sync_priority_sync_ends(void)
{
    if (is_patient)
        return;
    atomic_store(&ended_us, pl_clock_mono_us());
    atomic_fetch_sub(&under_way, 1);
}

int64_t pl_sync_priority_wait(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_US * 1000};
    int64_t began_us, now_us;

    if (!is_patient)
        return 0;
    began_us = now_us = pl_clock_mono_us();
    while (now_us - began_us < PL_SYNC_PRIORITY_MAX_US &&
           (atomic_load(&under_way) > 0 || now_us - atomic_load(&ended_us) < PL_SYNC_PRIORITY_AFTER_US)) {
        (void)nanosleep(&pause, NULL);
        now_us = pl_clock_mono_us();
    }
    return now_us - began_us;
}
