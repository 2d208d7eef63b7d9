/* sql: one SQLite connection with its prepared statements, and short ways to run them. One thread at a time uses a
 * connection. */
#pragma once

#include "pipelined/text/json_text.h"
#include "storage/base/err.h"
#include "storage/base/hash.h"
#include "storage/base/map.h"

#include <jansson.h>
#include <sqlite3.h>

/* Returns whether the user `who` may read the repo (or stage) `name` of `project`. If `name` is NULL: whether
 * the user may read the project as a whole. If both are NULL: whether the user may read everything. */
typedef bool (*pl_readable_fn)(const void *who, const char *project, const char *name);

struct pl_conn {
    sqlite3 *db;
    pl_readable_fn readable; /* called by the SQL function readable(project, name); NULL: it returns false */
    const void *who;
    struct pl_map statements; /* SQL text → sqlite3_stmt*, kept prepared */
    /* the writer runs a group of transactions: a statement outside the group's SQL transaction is refused */
    bool in_group;
    /* while in_group: the error that made SQLite roll back the transaction by itself (no memory, full disk, I/O
     * error); 0 = none */
    int lost;
};

/* Opens `path` with the product's pragmas: WAL, synchronous=FULL, foreign keys, trusted_schema off,
 * defensive. The pragmas that durability depends on are read back and checked. A read-only connection cannot
 * write or checkpoint. PL_EIO, PL_ECORRUPT. */
PL_MUST_CHECK
int pl_conn_open(const char *path, bool read_only, struct pl_conn **ret, struct pl_err *err);
struct pl_conn *pl_conn_close(struct pl_conn *c);

/* The rows of one running statement; `{0}` means that there is no statement. */
struct pl_rows {
    sqlite3_stmt *stmt;
    bool cached; /* true: pl_rows_finish returns the statement to the cache; false: it finalizes the statement */
};
void pl_rows_finish(struct pl_rows *rows);

/* The functions below take `fmt`, one letter per argument:
 *   i int64_t   d int   s const char * (NULL: NULL)   b const void *, size_t
 *   h const struct pl_hash * (NULL or all zeros: NULL)
 * Texts and blobs must live until the statement is finished. */

/* Runs a statement and discards its rows. Returns the number of changed rows. PL_EEXISTS: a unique constraint;
 * PL_ENOSPC, PL_EIO. */
PL_MUST_CHECK
int pl_sql_exec(struct pl_conn *c, struct pl_err *err, const char *sql, const char *fmt, ...);
/* Starts a query into `rows` (declare it with _cleanup_(pl_rows_finish)). */
PL_MUST_CHECK
int pl_sql_query(struct pl_conn *c, struct pl_err *err, struct pl_rows *rows, const char *sql, const char *fmt, ...);
/* Steps to the next row: 1 = a row is ready, 0 = no more rows, negative = an error. */
PL_MUST_CHECK
int pl_sql_next(struct pl_conn *c, struct pl_rows *rows, struct pl_err *err);
/* Reads the first column of the first row. PL_ENOTFOUND ("not found") when there is no row. */
PL_MUST_CHECK
int pl_sql_int(struct pl_conn *c, struct pl_err *err, int64_t *ret, const char *sql, const char *fmt, ...);
/* Like pl_sql_int, but reads the column as text; malloc'ed. */
PL_MUST_CHECK
int pl_sql_text(struct pl_conn *c, struct pl_err *err, char **ret, const char *sql, const char *fmt, ...);
/* Runs several statements in one text, without arguments. */
PL_MUST_CHECK
int pl_sql_script(struct pl_conn *c, const char *sql, struct pl_err *err);

static inline int64_t pl_col_int(const struct pl_rows *rows, int column)
{
    return sqlite3_column_int64(rows->stmt, column);
}
/* Returns the column as text, "" for NULL; valid until the next step. */
const char *pl_col_text(const struct pl_rows *rows, int column);
/* Returns the column as a hash, all zeros for NULL or a blob of another length. */
struct pl_hash pl_col_hash(const struct pl_rows *rows, int column);
/* Returns the column's JSON as a new reference, JSON null for NULL. Returns NULL without memory: JSON in the
 * database always parses. */
json_t *pl_col_json(const struct pl_rows *rows, int column);
