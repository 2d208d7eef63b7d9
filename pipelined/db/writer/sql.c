/* Connections, their cache of prepared statements, and the functions that run them. */
#include "pipelined/db/writer/sql.h"

#include <stdarg.h>
#include <stdio.h>

/* Maps an extended error code of SQLite to ours. */
static int code_of(int code)
{
    if (code == SQLITE_IOERR_NOMEM)
        return PL_ENOMEM;
    switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
        return code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY ? PL_EEXISTS : PL_EINTERNAL;
    case SQLITE_FULL:
        return PL_ENOSPC;
    case SQLITE_NOMEM:
        return PL_ENOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return PL_ECORRUPT;
    default:
        return PL_EIO;
    }
}

static int sql_error(struct pl_conn *c, struct pl_err *err, const char *sql)
{
    int code = sqlite3_extended_errcode(c->db);

    if (c->in_group && sqlite3_get_autocommit(c->db) && !c->lost)
        c->lost = code_of(code);
    return pl_err_set(err, code_of(code), "database: %s (%d) in: %.80s", sqlite3_errmsg(c->db), code, sql);
}

static int check_pragma(struct pl_conn *c, const char *pragma, const char *want, struct pl_err *err)
{
    _cleanup_free_ char *got = NULL;
    char sql[64];
    int r;

    snprintf(sql, sizeof sql, "PRAGMA %s", pragma);
    r = pl_sql_text(c, err, &got, sql, "");
    if (r < 0)
        return r;
    if (!pl_streq(got, want))
        return pl_err_set(err, PL_EIO, "database: PRAGMA %s is %s, it must be %s", pragma, got, want);
    return 0;
}

static int set_pragmas(struct pl_conn *c, bool read_only, struct pl_err *err)
{
    int r = pl_sql_script(c,
                          read_only ? "PRAGMA foreign_keys=ON; PRAGMA busy_timeout=5000; PRAGMA trusted_schema=OFF;"
                                    : "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
                                      "PRAGMA busy_timeout=5000; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"
                                      "PRAGMA journal_size_limit=67108864;",
                          err);

    if (r < 0)
        return r;
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
    if (read_only)
        return 0;
    r = check_pragma(c, "journal_mode", "wal", err);
    r = r < 0 ? r : check_pragma(c, "synchronous", "2", err);
    return r < 0 ? r : check_pragma(c, "foreign_keys", "1", err);
}

/* SQL function readable(project, name): the database filters lists by what the user may read, so that pages stay
 * full. */
static void sql_readable(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct pl_conn *c = sqlite3_user_data(ctx);
    const char *project = (const char *)sqlite3_value_text(argv[0]), *name = (const char *)sqlite3_value_text(argv[1]);

    (void)argc;
    sqlite3_result_int(ctx, c->readable && c->readable(c->who, project, name));
}

static int add_functions(struct pl_conn *c, struct pl_err *err)
{
    if (sqlite3_create_function_v2(c->db, "readable", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, c, sql_readable, NULL, NULL, NULL) !=
        SQLITE_OK)
        return sql_error(c, err, "readable()");
    return 0;
}

int pl_conn_open(const char *path, bool read_only, struct pl_conn **ret, struct pl_err *err)
{
    int flags = SQLITE_OPEN_NOMUTEX | (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    struct pl_conn *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return pl_err_nomem(err);
    r = sqlite3_open_v2(path, &c->db, flags, NULL);
    if (r != SQLITE_OK) {
        r = pl_err_set(err, code_of(c->db ? sqlite3_extended_errcode(c->db) : r), "database %s cannot be opened: %s", path,
                       c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(r));
        pl_conn_close(c);
        return r;
    }
    sqlite3_extended_result_codes(c->db, 1);
    r = set_pragmas(c, read_only, err);
    r = r < 0 ? r : add_functions(c, err);
    if (r < 0) {
        pl_conn_close(c);
        return pl_err_wrap(err, r, "%s", path);
    }
    *ret = c;
    return 0;
}

static void finalize(void *stmt)
{
    sqlite3_finalize(stmt);
}

struct pl_conn *pl_conn_close(struct pl_conn *c)
{
    if (!c)
        return NULL;
    pl_map_finish(&c->statements, finalize);
    sqlite3_close(c->db);
    free(c);
    return NULL;
}

void pl_rows_finish(struct pl_rows *rows)
{
    if (!rows->stmt)
        return;
    if (rows->cached) {
        sqlite3_reset(rows->stmt);
        sqlite3_clear_bindings(rows->stmt);
    } else {
        sqlite3_finalize(rows->stmt);
    }
    rows->stmt = NULL;
}

/* Refuses a statement after SQLite rolled back the transaction by itself: outside the transaction the
 * statement would commit at once. */
static int check_group(struct pl_conn *c, struct pl_err *err)
{
    if (!c->in_group || !sqlite3_get_autocommit(c->db))
        return 0;
    c->lost = c->lost ? c->lost : PL_EIO;
    return pl_err_set(err, c->lost, "database: the transaction was rolled back");
}

/* Prepares `sql`, or takes the prepared statement from the cache. If the cached one is in use, because the
 * same query runs nested in itself, prepares another. */
static int prepare(struct pl_conn *c, struct pl_rows *rows, const char *sql, struct pl_err *err)
{
    size_t len = strlen(sql);
    sqlite3_stmt *stmt = pl_map_get(&c->statements, sql, len);
    int r;

    if (stmt && !sqlite3_stmt_busy(stmt)) {
        *rows = (struct pl_rows){stmt, true};
        return 0;
    }
    if (sqlite3_prepare_v3(c->db, sql, -1, stmt ? 0 : SQLITE_PREPARE_PERSISTENT, &rows->stmt, NULL) != SQLITE_OK)
        return sql_error(c, err, sql);
    rows->cached = !stmt;
    if (!rows->cached)
        return 0;
    r = pl_map_put(&c->statements, sql, len, rows->stmt, NULL, err);
    if (r < 0) {
        rows->cached = false;
        pl_rows_finish(rows);
    }
    return r;
}

/* Binds the next argument; `letter` gives its type. SQLITE_MISUSE: unknown letter. */
static int bind_one(sqlite3_stmt *stmt, int at, char letter, va_list *ap)
{
    switch (letter) {
    case 'i':
        return sqlite3_bind_int64(stmt, at, va_arg(*ap, int64_t));
    case 'd':
        return sqlite3_bind_int(stmt, at, va_arg(*ap, int));
    case 's':
        return sqlite3_bind_text(stmt, at, va_arg(*ap, const char *), -1, SQLITE_STATIC);
    case 'h': {
        const struct pl_hash *h = va_arg(*ap, const struct pl_hash *);

        return !h || pl_hash_is_zero(h) ? sqlite3_bind_null(stmt, at)
                                        : sqlite3_bind_blob(stmt, at, h->b, PL_HASH_BYTES, SQLITE_STATIC);
    }
    case 'b': {
        const void *p = va_arg(*ap, const void *);
        size_t n = va_arg(*ap, size_t);

        return sqlite3_bind_blob64(stmt, at, p, n, SQLITE_STATIC);
    }
    default:
        return SQLITE_MISUSE;
    }
}

static int query_v(struct pl_conn *c, struct pl_err *err, struct pl_rows *rows, const char *sql, const char *fmt, va_list *ap)
{
    int r = check_group(c, err);

    r = r < 0 ? r : prepare(c, rows, sql, err);
    if (r < 0)
        return r;
    for (int i = 0; fmt[i]; i++) {
        if (bind_one(rows->stmt, i + 1, fmt[i], ap) != SQLITE_OK) {
            r = sql_error(c, err, sql);
            pl_rows_finish(rows);
            return r;
        }
    }
    return 0;
}

int pl_sql_query(struct pl_conn *c, struct pl_err *err, struct pl_rows *rows, const char *sql, const char *fmt, ...)
{
    va_list ap;
    int r;

    pl_rows_finish(rows);
    va_start(ap, fmt);
    r = query_v(c, err, rows, sql, fmt, &ap);
    va_end(ap);
    return r;
}

/* Makes SQLite terminate every text of the row now. It appends the NUL to a long text on first access, which may
 * fail without memory; here the failure can be reported, and later reads of the row cannot fail. */
static bool end_texts(sqlite3_stmt *stmt)
{
    for (int i = 0, n = sqlite3_column_count(stmt); i < n; i++)
        if (sqlite3_column_type(stmt, i) == SQLITE_TEXT && !sqlite3_column_text(stmt, i))
            return false;
    return true;
}

int pl_sql_next(struct pl_conn *c, struct pl_rows *rows, struct pl_err *err)
{
    int r = check_group(c, err);

    if (r < 0)
        return r;
    switch (sqlite3_step(rows->stmt)) {
    case SQLITE_ROW:
        return end_texts(rows->stmt) ? 1 : sql_error(c, err, sqlite3_sql(rows->stmt));
    case SQLITE_DONE:
        pl_rows_finish(rows);
        return 0;
    default:
        return sql_error(c, err, sqlite3_sql(rows->stmt));
    }
}

int pl_sql_exec(struct pl_conn *c, struct pl_err *err, const char *sql, const char *fmt, ...)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = query_v(c, err, &rows, sql, fmt, &ap);
    va_end(ap);
    if (r < 0)
        return r;
    do
        r = pl_sql_next(c, &rows, err);
    while (r > 0);
    return r < 0 ? r : sqlite3_changes(c->db);
}

int pl_sql_int(struct pl_conn *c, struct pl_err *err, int64_t *ret, const char *sql, const char *fmt, ...)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = query_v(c, err, &rows, sql, fmt, &ap);
    va_end(ap);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r < 0)
        return r;
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "not found");
    *ret = pl_col_int(&rows, 0);
    return 0;
}

int pl_sql_text(struct pl_conn *c, struct pl_err *err, char **ret, const char *sql, const char *fmt, ...)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    va_list ap;
    char *copy;
    int r;

    va_start(ap, fmt);
    r = query_v(c, err, &rows, sql, fmt, &ap);
    va_end(ap);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r < 0)
        return r;
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "not found");
    copy = strdup(pl_col_text(&rows, 0));
    /* a number is converted to text on access, which may fail */
    if (!copy || sqlite3_errcode(c->db) == SQLITE_NOMEM) {
        free(copy);
        return pl_err_nomem(err);
    }
    *ret = copy;
    return 0;
}

int pl_sql_script(struct pl_conn *c, const char *sql, struct pl_err *err)
{
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : sql_error(c, err, sql);
}

const char *pl_col_text(const struct pl_rows *rows, int column)
{
    const char *text = (const char *)sqlite3_column_text(rows->stmt, column);

    return text ? text : "";
}

struct pl_hash pl_col_hash(const struct pl_rows *rows, int column)
{
    struct pl_hash h = {0};
    const void *blob = sqlite3_column_blob(rows->stmt, column);

    if (blob && sqlite3_column_bytes(rows->stmt, column) == PL_HASH_BYTES)
        memcpy(h.b, blob, PL_HASH_BYTES);
    return h;
}

json_t *pl_col_json(const struct pl_rows *rows, int column)
{
    const char *text = pl_col_text(rows, column);

    return *text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
}
