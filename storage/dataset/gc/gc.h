/* storage/dataset/gc: Mark and copy of garbage collection, and the protocol of pack states.
 *
 * In:      Roots of what must be kept.
 * Out:     Unreachable packs, new packs with what was alive in old ones.
 * Uses:    storage/{base, chunk, pack, store, tree}
 * Threads: The garbage-collection thread.
 *
 * Headers for other rooms:
 *   gc_copy       moves live records out of mostly dead packs
 *   gc_mark       marks reachable records, one bit each
 *   reachability  checks that all records below a tree root exist */

/* gc: which packs nothing needs any more, found and removed while writers write. This is the protocol; tests/model/gc.pml is its model,
 * which spin searches through.
 *
 *            put                    mark: nothing needs it, or what does was copied
 *   (absent) ───▶ live ──────────────────────────────────────────────────▶ condemned
 *                  ▲                                                        │      │
 *                  └── a commit names one of its records (same transaction),┘      │ all who were there when it was condemned have ended;
 *                      or a mark meets one; or the store lost the pack             ▼ then a mark met nothing of it
 *                                                                                doomed ──▶ its object is removed, then its row
 *
 * condemned, doomed and what lives again are records of the log (pack_state), so a crash leaves no state in between: whoever collects next
 * goes on from the table.
 *
 *   I1  A commit never stands on what is doomed or gone. A push looks up all that it names; what lies in a condemned pack makes that live
 *       in the push's own transaction; what lies in a doomed one is as if it were not there (PL_ERETRY: it is brought again).
 *   I2  A pack of which anything is reachable is not removed, however look-ups, commits, ends of leases, marks and crashes interleave.
 *   I3  Doom waits until everybody who was there when the pack was condemned has ended, and for a mark that began after that. "There":
 *         a session   of a pusher or reader, by a number of the log: it was opened at `opened_seq`. A renewal moves that up to where the
 *                     log was one lease ago, for by then whatever it was told is pinned: a long one holds up nothing but its pins
 *         a lease     of a task: what a result names is not looked at again, so its worker counts until the result is in the database.
 *                     It moves up as a session does while the one session lasts in which all that it was told was told, and pinned
 *         a hold      of the daemon's own work, from its first look-up until what stands on it is in the database (pl_store_hold)
 *       After a start there is no doom for one session's lifetime: sessions may have been lost with a machine.
 *       A pack that was not read back yet (pl_store_set_unread) is neither condemned nor doomed: of two such with the same record a mark counts
 *       one, which may lie.
 *   I4  A collector that is killed at any place does no harm, and the next one ends what it began.
 *   I5  Those who ask whether to bring something are never told of a condemned pack: it is hidden in memory before it is condemned in the
 *       database, and hidden again at a start. Those who read find it until it is doomed.
 *   I6  One collector at a time, in the daemon that owns the log: a doom must be logged, so one that was fenced dooms nothing.
 *
 * Roots, all of one project: commits (object, tree, attributes, table with all outputs that its rows name, owners), code folders and
 * specs of every version of a pipeline, logs that are kept, results of jobs that go on or are kept, their inputs, checkpoints, open
 * commits, and whole packs that a session's pins name. Which packs are judged is said before the roots are read.
 *
 * What is reachable must be durable before anything is condemned or doomed for its sake: a copy in a pack that no flush has seen may be
 * gone after a crash. So the store is flushed between the mark and its verdict; and nobody is told that something is there before it is
 * flushed. */
#pragma once

#include "storage/base/hash.h"

/* A pack's state, as pack_state and the record pack_state have it; live ones have no row. */
#define PL_PACK_CONDEMNED "condemned"
#define PL_PACK_DOOMED    "doomed"
#define PL_PACK_REVIVED   "revived" /* in the log alone: the row goes */
#define PL_PACK_GONE      "gone"    /* the same, of a doomed one, when nobody can be removing its object any more */
