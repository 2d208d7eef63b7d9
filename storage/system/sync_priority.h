/* patience: who works for nobody in particular lets those go first who wait for the disk.
 *
 * Who syncs a small file waits also for what others have under way on that disk. So a thread that has said that it is patient (garbage
 * collection) begins its next piece of work there when nobody else syncs, nor has done so for a moment: what is acknowledged takes several
 * syncs, one close behind the other. It waits for at most PL_SYNC_PRIORITY_MAX_US a piece, so that it goes on however much others write. Any
 * thread; one for all disks. */
#pragma once

#include "storage/base/base.h"

#define PL_SYNC_PRIORITY_AFTER_US 4000  /* after the end of a sync another one may follow */
#define PL_SYNC_PRIORITY_MAX_US   40000 /* a piece */

/* This thread is patient from now on, or no more. */
void pl_sync_priority_set(bool patient);
/* A sync begins, and ends, for which somebody waits. Of a patient thread's nothing is noted. */
void pl_sync_priority_sync_begins(void);
void pl_sync_priority_sync_ends(void);
/* Before a piece of work on a disk: a patient thread waits, others do not. Microseconds waited. */
int64_t pl_sync_priority_wait(void);
