/* db/writer: SQLite as the applied image of the log: open, replay, group commit, look-ups, recovery, fsck.
 *
 * In:      Transactions; log records.
 * Out:     Durable commits; read connections.
 * Uses:    policy, text, storage/{base, http, object, store, system}, storage/dataset/{commit, fsck, gc, log}
 * Threads: One writer thread; readers on any thread.
 *
 * Headers for other rooms:
 *   db           writer thread, group commit, readers
 *   db_fsck      fsck of a whole store, driven by the database
 *   db_open      opens, locks and replays the database
 *   db_recover   rebuilds the database from the store
 *   db_snapshot  copy of the database for a checkpoint
 *   log_watch    notices that another daemon took the log over
 *   name_lookup  resolves repos, commits, runs and prefixes
 *   sql          one SQLite connection with prepared statements
 *
 * Inside:
 *   db_run       runs a transaction for a waiting thread
 *   clock_trust  the time that deletions may rely on
 *   log_apply    applies one log record to the database
 *   log_epoch    fences an earlier daemon by an epoch record */
#pragma once
