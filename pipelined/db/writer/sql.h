/* sql: one SQLite connection with its prepared statements, and short ways to run them. A connection belongs to one thread at a time. */
#pragma once

#include "storage/base/err.h"
#include "storage/base/hash.h"
#include "storage/base/map.h"

#include <jansson.h>
#include <sqlite3.h>

/* Whether whoever a query is made for may see what it is about: a repo (or stage) of a project; the project, with `name` NULL;
 * everything, with both NULL. */
typedef bool (*pl_readable_fn)(const void *who, const char *project, const char *name);

struct pl_conn {
    sqlite3 *db;
    pl_readable_fn readable; /* what the SQL function readable(project, name) asks; NULL: it says no */
    const void *who;
    struct pl_map statements; /* SQL text → sqlite3_stmt*, kept prepared */
    bool in_group;            /* statements run inside a transaction or not at all */
    int lost; /* while in_group: why SQLite has rolled the transaction back by itself (no memory, full disk, I/O error), 0 = not */
};

/* Opens `path` with the product's pragmas, each read back: WAL, synchronous=FULL, foreign keys, trusted_schema off, defensive.
 * A read-only connection cannot write or checkpoint. PL_EIO, PL_ECORRUPT. */
PL_MUST_CHECK
int pl_conn_open(const char *path, bool read_only, struct pl_conn **ret, struct pl_err *err);
struct pl_conn *pl_conn_close(struct pl_conn *c);

/* Rows of one running statement; `{0}` is none. */
struct pl_rows {
    sqlite3_stmt *stmt;
    bool cached; /* back to the cache on finish, else finalised */
};
void pl_rows_finish(struct pl_rows *rows);

/* `fmt` has one letter an argument:
 *   i int64_t   d int   s const char * (NULL: NULL)   h const struct pl_hash * (NULL or all zeros: NULL)   b const void *, size_t
 * Texts and blobs must live until the statement is finished. */

/* Runs a statement that gives no rows; the number of rows changed. PL_EEXISTS for a violated uniqueness, PL_ENOSPC, PL_EIO. */
PL_MUST_CHECK
int pl_sql_exec(struct pl_conn *c, struct pl_err *err, const char *sql, const char *fmt, ...);
/* Starts a query into `rows` (finish it with _cleanup_(pl_rows_finish)). */
PL_MUST_CHECK
int pl_sql_query(struct pl_conn *c, struct pl_err *err, struct pl_rows *rows, const char *sql, const char *fmt, ...);
/* 1: a row stands ready; 0: no more; negative: an error. */
PL_MUST_CHECK
int pl_sql_next(struct pl_conn *c, struct pl_rows *rows, struct pl_err *err);
/* The first column of the first row. PL_ENOTFOUND (without a message) when there is no row. */
PL_MUST_CHECK
int pl_sql_int(struct pl_conn *c, struct pl_err *err, int64_t *ret, const char *sql, const char *fmt, ...);
/* The same as text, malloc'ed. */
PL_MUST_CHECK
int pl_sql_text(struct pl_conn *c, struct pl_err *err, char **ret, const char *sql, const char *fmt, ...);
/* Several statements in one text, without arguments. */
PL_MUST_CHECK
int pl_sql_script(struct pl_conn *c, const char *sql, struct pl_err *err);

static inline int64_t pl_col_int(const struct pl_rows *rows, int column)
{
    return sqlite3_column_int64(rows->stmt, column);
}
/* Never NULL; valid until the next step. */
const char *pl_col_text(const struct pl_rows *rows, int column);
/* All zeros for NULL. */
struct pl_hash pl_col_hash(const struct pl_rows *rows, int column);
/* The column's JSON as a new reference, null for NULL; NULL without memory (what stands in the database parses). */
json_t *pl_col_json(const struct pl_rows *rows, int column);
/* Puts `item`, which it takes, at the end of `list`. PL_ENOMEM also when one of them is NULL: what could not be made is not left out. */
PL_MUST_CHECK
int pl_json_add(json_t *list, json_t *item, struct pl_err *err);
