/* sync_priority: lets background threads wait for a quiet moment before they write, so that they do not delay
 * the syncs of foreground threads.
 *
 * A sync of a small file also waits for other data that is being written to the same disk. A thread marked as
 * a background thread (garbage collection) therefore starts its next piece of disk work only when no
 * foreground sync is in progress and none ended within PL_SYNC_PRIORITY_AFTER_US, because one acknowledged
 * request needs several syncs in quick succession. It waits at most PL_SYNC_PRIORITY_MAX_US per piece, so
 * that it makes progress under any load. All disks are treated as one. Any thread. */
#pragma once

#include "storage/base/base.h"

#define PL_SYNC_PRIORITY_AFTER_US 4000  /* µs after a sync during which another one is expected */
#define PL_SYNC_PRIORITY_MAX_US   40000 /* longest wait per piece of work, in µs */

/* With `patient`, marks the calling thread as a background thread; without, removes the mark. */
void pl_sync_priority_set(bool patient);
/* Mark the begin and the end of a foreground sync; ignored if called by a background thread. */
void pl_sync_priority_sync_begins(void);
void pl_sync_priority_sync_ends(void);
/* Waits for a quiet moment if the calling thread is a background thread; other threads do not wait. Returns
 * the µs waited. */
int64_t pl_sync_priority_wait(void);
