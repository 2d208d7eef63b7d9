/* open: from a folder and a store to a database that is exactly the log's image. Used by db.c, and by `pipelinectl recover`. */
#pragma once

#include "pipelined/db/sql.h"
#include "storage/dataset/log.h"

/* Takes DIR/pipelined.lock (flock; held as long as the returned fd is open). PL_ELOCKED names the process that holds it.
 * Refuses network filesystems, on which SQLite's locks cannot be trusted. */
PL_MUST_CHECK
int pl_db_lock(const char *dir, int *ret_fd, struct pl_err *err);

/* Opens DIR/pipelined.db for writing, makes the schema in an empty one, checks version and log position, replays what follows.
 * `ret_head` is where the log stands then. PL_EFORMAT, PL_ELOG. */
PL_MUST_CHECK
int pl_db_prepare(const char *dir, struct pl_object_store *objects, struct pl_conn **ret, struct pl_log_head *ret_head,
                  struct pl_err *err);

/* Writes where the log stands into meta; part of the transaction that applied it. */
PL_MUST_CHECK
int pl_db_save_head(struct pl_conn *c, const struct pl_log_head *head, struct pl_err *err);
