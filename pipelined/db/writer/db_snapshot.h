/* db_snapshot: a copy of the database at one moment that may leave the machine: without secrets and without rows
 * that only mean something on this machine. A log checkpoint (storage/dataset/log/log_checkpoint.h) holds such a
 * copy.
 *
 *   reader: BEGIN ─ log_seq, log_hash ─ sqlite3_backup, PL_SNAPSHOT_STEP_PAGES per step ─▶ copy
 *   copy:   strip ─ VACUUM INTO ─ quick_check
 *
 * The reader's transaction pins one state of the WAL, so the copy need not start over whenever the writer
 * commits. The writer is never blocked; the read transaction only keeps the WAL from being reset until the
 * copy is done. Blocks; do not call it on the event loop's thread. */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_SNAPSHOT_STEP_PAGES 512 /* 2 MiB */

/* A column that contains secrets. Snapshots have an empty value (x'' or '') in it, which the column must
 * accept even if it is NOT NULL. After a recovery the secrets must be created again. The table of these
 * columns is in db_snapshot.c. */
struct pl_secret_column {
    const char *table, *column;
    const char *what;  /* for the recovery report: "S3 keys" */
    const char *names; /* query for the names of the rows whose secret is lost */
};
const struct pl_secret_column *pl_db_secret_columns(size_t *ret_n);

struct pl_snapshot_options {
    const char *dir; /* folder for scratch files, which are removed */
    /* May be NULL. Returning true cancels with PL_ECANCELED. */
    bool (*stop)(void *arg);
    void *arg;
};

/* Writes a snapshot to `path`, replacing the file; `ret` is the snapshot's log position. PL_ECANCELED, PL_ENOSPC,
 * PL_EIO, PL_ECORRUPT (the database itself is damaged). */
PL_MUST_CHECK
int pl_db_snapshot(struct pl_db *db, const char *path, const struct pl_snapshot_options *options, struct pl_log_head *ret,
                   struct pl_err *err);
/* Stores a snapshot as the newest checkpoint and removes the checkpoints beyond PL_LOG_CHECKPOINT_KEPT; `ret_seq`
 * is its number. Errors of pl_db_snapshot and pl_log_checkpoint_put. */
PL_MUST_CHECK
int pl_db_checkpoint(struct pl_db *db, const struct pl_snapshot_options *options, uint64_t *ret_seq, struct pl_err *err);
