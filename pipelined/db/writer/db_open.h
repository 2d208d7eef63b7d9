/* open: from a folder and a store to a database that is exactly the log's image. Used by db.c, and by `pipelinectl recover`. */
#pragma once

#include "pipelined/db/writer/db_recover.h"
#include "storage/dataset/log/log.h"

/* PL_EINVAL where `dir` is on a network filesystem, on which SQLite's locks cannot be trusted. PL_EIO. */
PL_MUST_CHECK
int pl_db_check_disk(const char *dir, struct pl_err *err);

/* Takes DIR/pipelined.lock (flock; held as long as the returned fd is open). PL_ELOCKED names the process that holds it. Else as
 * pl_db_check_disk. */
PL_MUST_CHECK
int pl_db_lock(const char *dir, int *ret_fd, struct pl_err *err);

/* Opens DIR/pipelined.db for writing, checks version and log position, replays what follows. A folder without a database gets one from
 * the store (recover.h), or with an empty store an empty one. `ret_head` is where the log stands then; `ret_report` says what was
 * recovered. PL_EFORMAT, PL_ELOG. */
PL_MUST_CHECK
int pl_db_prepare(const char *dir, struct pl_object_store *objects, struct pl_conn **ret, struct pl_log_head *ret_head,
                  struct pl_recover_report *ret_report, struct pl_err *err);

/* Writes where the log stands into meta; part of the transaction that applied it. */
PL_MUST_CHECK
int pl_db_save_head(struct pl_conn *c, const struct pl_log_head *head, struct pl_err *err);
/* What meta says of it: the store, too. PL_ECORRUPT. */
PL_MUST_CHECK
int pl_db_read_head(struct pl_conn *c, struct pl_log_head *ret, struct pl_err *err);
/* Makes the schema in an empty database, which stands at `head`. */
PL_MUST_CHECK
int pl_db_make_schema(struct pl_conn *c, const struct pl_log_head *head, struct pl_err *err);
/* Brings the schema of an earlier program to this one's, a transaction a version; `ret_empty`: there is none. PL_EFORMAT: it is a newer program's, or
 * nobody's. */
PL_MUST_CHECK
int pl_db_upgrade(struct pl_conn *c, bool *ret_empty, struct pl_err *err);
/* Applies every log object after `head`, a transaction each. `last`: it is known that the log goes on to there at least (0: not known).
 * `look_only`: what a crash left is not made durable first. */
PL_MUST_CHECK
int pl_db_replay(struct pl_conn *c, struct pl_object_store *objects, uint64_t last, bool look_only, struct pl_log_head *head,
                 struct pl_err *err);
