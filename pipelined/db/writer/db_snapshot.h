/* snapshot: a copy of the database at one moment, fit to leave this machine: without secrets, and without what means something here only.
 * It is what a log checkpoint (storage/dataset/log/log_checkpoint.h) holds, and how one is made.
 *
 *   reader: BEGIN ─ log_seq, log_hash ─ sqlite3_backup, PL_SNAPSHOT_STEP_PAGES a step ─▶ copy ─ strip ─ VACUUM INTO ─ quick_check
 *
 * The reader's transaction pins one state of the WAL, so that the copy need not begin anew whenever the writer commits; the writer is
 * never held (a read transaction only keeps the WAL from being reset until the copy is done). Blocks: not on the loop. */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_SNAPSHOT_STEP_PAGES 512 /* 2 MiB */

/* Secrets: columns that no snapshot has. What was there is made anew after a recovery. Add to the table in snapshot.c; a column there is
 * emptied (x'' or ''), so it may be NOT NULL but must take an empty value. */
struct pl_secret_column {
    const char *table, *column;
    const char *what;  /* for people: "S3 keys" */
    const char *names; /* query of what each of them is called: from what the log gives back */
};
const struct pl_secret_column *pl_db_secret_columns(size_t *ret_n);

struct pl_snapshot_options {
    const char *dir; /* scratch files are made and removed there */
    /* May be NULL. True: PL_ECANCELED. */
    bool (*stop)(void *arg);
    void *arg;
};

/* Writes a snapshot to `path`, which is replaced; `ret` is where its log stands. PL_ECANCELED, PL_ENOSPC, PL_EIO, PL_ECORRUPT (the
 * database itself is damaged). */
PL_MUST_CHECK
int pl_db_snapshot(struct pl_db *db, const char *path, const struct pl_snapshot_options *options, struct pl_log_head *ret,
                   struct pl_err *err);
/* A snapshot as the store's newest checkpoint, and those beyond PL_LOG_CHECKPOINT_KEPT removed; `ret_seq` is its number. Errors of the above and of
 * pl_log_checkpoint_put. */
PL_MUST_CHECK
int pl_db_checkpoint(struct pl_db *db, const struct pl_snapshot_options *options, uint64_t *ret_seq, struct pl_err *err);
