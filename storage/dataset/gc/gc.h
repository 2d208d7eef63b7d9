/* storage/dataset/gc: Marks and copies for garbage collection, and the protocol of pack states.
 *
 * In:      Roots that must be kept.
 * Out:     Unreachable packs; new packs with the live records of old ones.
 * Uses:    storage/{base, chunk, pack, store, tree}
 * Threads: The garbage-collection thread.
 *
 * Headers for other rooms:
 *   gc_copy       moves live records out of mostly dead packs
 *   gc_mark       marks reachable records, one bit each
 *   reachability  checks that all records below a tree root exist */

/* Garbage collection finds packs that are no longer needed and removes them while clients write. This is
 * the protocol; tests/model/gc.pml models it for the checker spin.
 *
 *            put             mark: no live record, or all live ones were copied
 *   (absent) ───▶ live ─────────────────────────────────────────────▶ condemned
 *                  ▲                                                   │     │
 *                  └──────────────── revived ──────────────────────────┘     │ I3
 *                                                                            ▼
 *                               row deleted ◀── object deleted ◀────────── doomed
 *
 * A condemned pack is revived if a commit refers to one of its records (in the commit's transaction), if a
 * mark finds a live record in it, or if the index no longer has the pack. Every change of state is a record
 * of the log (pack_state), so a crash leaves no state in between: the next collection continues from the
 * table pack_state.
 *
 *   I1  A commit never refers to a doomed or removed pack. A push looks up all records that its commit
 *       refers to. A condemned pack that has one of them is revived in the push's own transaction; records
 *       of a doomed pack count as missing (PL_ERETRY: the client uploads them again).
 *   I2  A pack with a reachable record is not removed, however lookups, commits, ends of leases, marks and
 *       crashes interleave.
 *   I3  A condemned pack is doomed only when all sessions, leases and holds that existed when it was
 *       condemned have ended, and a mark that began after that has found no live record in it.
 *         a session   belongs to an uploading or reading client. Garbage collection waits for it from the
 *                     log position `opened_seq` on. A renewal sets `opened_seq` to the log position of the
 *                     previous renewal, because all packs that the client was told of before that are
 *                     pinned by now. So a long session delays the removal only of packs that it has pinned.
 *         a lease     belongs to a task. Records that the task's result refers to are not looked up again,
 *                     so the lease counts until the result is in the database. A renewal of the lease moves
 *                     its log position in the same way, but only while the session exists in which the
 *                     worker was told of packs: that session pins them.
 *         a hold      protects the daemon's own work, from the first lookup until the references are in the
 *                     database (pl_store_hold).
 *       After a start of the daemon no pack is doomed for the lifetime of one session, because the database
 *       may have lost sessions that clients still use. An unread pack (pl_store_set_unread) is neither
 *       condemned nor doomed: if two packs have the same record, a mark counts it for only one of them, and
 *       the copy in that pack may be damaged.
 *   I4  A collector that is killed at any point does no harm, and the next one finishes its work.
 *   I5  A client that asks which records it need not upload never gets an answer that relies on a condemned
 *       pack: the pack is hidden in memory before it is condemned in the database, and hidden again when the
 *       daemon starts. Reads still find the pack until it is doomed.
 *   I6  There is one collector at a time, in the daemon that owns the log. Dooming a pack needs a log record,
 *       which a daemon that was fenced cannot write.
 *
 * Roots, of one project: commits (object, tree, attributes, table with all outputs that its rows refer to,
 * owners); code folders and specs of every version of a pipeline; logs, and results of jobs, that are kept
 * or belong to running jobs, with their inputs; checkpoints; open commits; and the whole packs that
 * sessions have pinned. The packs that the collection decides about are chosen before the roots are read.
 *
 * Reachable records must be durable before other packs are condemned or doomed because of them: a copy in
 * a pack that was not flushed may be lost in a crash. The store is therefore flushed between the mark and
 * the decision, and no client is told that a record exists before it is flushed. */
#pragma once

#include "storage/base/hash.h"

/* States of a pack, in the table pack_state and in the log record pack_state. A live pack has no row. */
#define PL_PACK_CONDEMNED "condemned"
#define PL_PACK_DOOMED    "doomed"
#define PL_PACK_REVIVED   "revived" /* only in the log: the row is deleted */
/* only in the log: the row of a doomed pack is deleted, when no daemon can still be deleting its object */
#define PL_PACK_GONE "gone"
