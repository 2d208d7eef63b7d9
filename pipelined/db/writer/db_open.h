/* db_open: opens a folder and a store as a database that is exactly the log's image. Used by db.c and by
 * `pipelinectl recover`. */
#pragma once

#include "pipelined/db/writer/db_recover.h"
#include "storage/dataset/log/log.h"

/* Checks that `dir` is not on a network filesystem, where SQLite's locks cannot be trusted. PL_EINVAL: it is
 * on one; PL_EIO. */
PL_MUST_CHECK
int pl_db_check_disk(const char *dir, struct pl_err *err);

/* Locks DIR/pipelined.lock (flock) for as long as the returned fd is open. PL_ELOCKED names the process that holds
 * the lock; also the errors of pl_db_check_disk. */
PL_MUST_CHECK
int pl_db_lock(const char *dir, int *ret_fd, struct pl_err *err);

/* Opens DIR/pipelined.db for writing, checks its version and log position, and replays the log after it. If the
 * folder has no database, it is rebuilt from the store (db_recover.h), or created empty when the store is empty.
 * An event "recovered" says that records were replayed: the events of their transactions, which the log does not have, are lost.
 * `ret_head` is the log position after the replay; `ret_report` says what was recovered. PL_EFORMAT, PL_ELOG. */
PL_MUST_CHECK
int pl_db_prepare(const char *dir, struct pl_object_store *objects, struct pl_conn **ret, struct pl_log_head *ret_head,
                  struct pl_recover_report *ret_report, struct pl_err *err);

/* Writes the log position into table meta, in the transaction that applied the log up to there. */
PL_MUST_CHECK
int pl_db_save_head(struct pl_conn *c, const struct pl_log_head *head, struct pl_err *err);
/* Reads the log position and the store's id from table meta. PL_ECORRUPT. */
PL_MUST_CHECK
int pl_db_read_head(struct pl_conn *c, struct pl_log_head *ret, struct pl_err *err);
/* Creates the schema in an empty database and sets its log position to `head`. */
PL_MUST_CHECK
int pl_db_make_schema(struct pl_conn *c, const struct pl_log_head *head, struct pl_err *err);
/* Upgrades the schema of an earlier program to the current version, one transaction per version. `ret_empty`: the
 * database has no tables. PL_EFORMAT: the schema is of a newer program, or unknown. */
PL_MUST_CHECK
int pl_db_upgrade(struct pl_conn *c, bool *ret_empty, struct pl_err *err);
/* Applies every log object after `head`, one transaction per object, and advances `head`. `last`: the log is known
 * to reach at least that object (0: unknown). `look_only`: write nothing to the store; otherwise objects that a
 * crash may have left volatile are made durable first. */
PL_MUST_CHECK
int pl_db_replay(struct pl_conn *c, struct pl_object_store *objects, uint64_t last, bool look_only, struct pl_log_head *head,
                 struct pl_err *err);
