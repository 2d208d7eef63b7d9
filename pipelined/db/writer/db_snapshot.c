/* Copies the database with sqlite3_backup inside one read transaction, strips the copy, and rebuilds it with
 * VACUUM INTO. */
#include "pipelined/db/writer/db_snapshot.h"

#include "pipelined/db/writer/db_open.h"
#include "storage/base/clock.h"
#include "storage/dataset/log/log_checkpoint.h"

#include <limits.h>
#include <stdio.h>

static const struct pl_secret_column secrets[] = {
    {"s3_secret", "sealed", "S3 key without its secret (make a new one with create s3-key)",
     "SELECT user || '/' || access_key FROM s3_key ORDER BY 1"},
};

const struct pl_secret_column *pl_db_secret_columns(size_t *ret_n)
{
    *ret_n = PL_ARRAY_SIZE(secrets);
    return secrets;
}

/* Removes rows about processes, sessions and files of this machine, which would be false elsewhere or later.
 * Table checkpoint has the trees that an attempt of a datum saves for the next attempt; they are not kept
 * once the datum is done, so their data may be gone by the time of a recovery. */
static const char strip_sql[] =
    "DELETE FROM worker; DELETE FROM lease; DELETE FROM session; DELETE FROM pin; DELETE FROM checkpoint;"
    "DELETE FROM login_session; DELETE FROM source_state; DELETE FROM repo_state; DELETE FROM gpu_span;"
    "DELETE FROM log_segment WHERE blob IS NULL;";

struct scratch {
    char path[PATH_MAX];
};

static void scratch_finish(struct scratch *s)
{
    static const char *const ends[] = {"", "-journal", "-wal", "-shm"};
    char path[PATH_MAX + 16];

    for (size_t i = 0; *s->path && i < PL_ARRAY_SIZE(ends); i++) {
        snprintf(path, sizeof path, "%s%s", s->path, ends[i]);
        unlink(path);
    }
}

static int scratch_path(const struct pl_snapshot_options *o, const char *name, struct scratch *ret, struct pl_err *err)
{
    uint8_t random[8];
    char hex[17];

    pl_random_bytes(random, sizeof random);
    pl_hex_encode(random, sizeof random, hex);
    if (snprintf(ret->path, sizeof ret->path, "%s/%s-%s", o->dir, name, hex) < (int)sizeof ret->path)
        return 0;
    ret->path[0] = '\0';
    return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", o->dir);
}

/* ---- the copy ---- */

static int step_all(sqlite3_backup *backup, const struct pl_snapshot_options *o, struct pl_err *err)
{
    for (;;) {
        int code;

        if (o->stop && o->stop(o->arg))
            return pl_err_set(err, PL_ECANCELED, "the snapshot was canceled");
        code = sqlite3_backup_step(backup, PL_SNAPSHOT_STEP_PAGES);
        if (code == SQLITE_DONE)
            return 0;
        if (code != SQLITE_OK)
            return pl_err_set(err, (code & 0xff) == SQLITE_FULL ? PL_ENOSPC : PL_EIO, "cannot copy the database: %s",
                              sqlite3_errstr(code));
    }
}

/* Copies all pages of the database inside the reader's transaction. */
static int copy_pages(struct pl_conn *from, const char *path, const struct pl_snapshot_options *o, struct pl_err *err)
{
    sqlite3_backup *backup = NULL;
    sqlite3 *to = NULL;
    int r = sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK
                ? 0
                : pl_err_set(err, PL_EIO, "%s: %s", path, to ? sqlite3_errmsg(to) : "no memory");

    if (r == 0)
        backup = sqlite3_backup_init(to, "main", from->db, "main");
    if (r == 0 && !backup)
        r = pl_err_set(err, PL_EIO, "cannot copy the database: %s", sqlite3_errmsg(to));
    r = r < 0 ? r : step_all(backup, o, err);
    sqlite3_backup_finish(backup);
    sqlite3_close(to);
    return r;
}

static int copy(struct pl_db *db, const char *path, const struct pl_snapshot_options *o, struct pl_log_head *ret,
                struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    int r = pl_sql_script(rd.conn, "BEGIN", err);

    if (r < 0)
        return r;
    r = pl_db_read_head(rd.conn, ret, err); /* the first read fixes the state that is copied */
    r = r < 0 ? r : copy_pages(rd.conn, path, o, err);
    return pl_sql_script(rd.conn, "COMMIT", r < 0 ? NULL : err) < 0 && r == 0 ? err->code : r;
}

/* ---- removing what must not leave the machine ---- */

static int empty_column(struct pl_conn *c, const struct pl_secret_column *s, struct pl_err *err)
{
    char sql[256];
    int64_t there = 0;
    int r = pl_sql_int(c, err, &there, "SELECT count(*) FROM pragma_table_info(?) WHERE name = ?", "ss", s->table, s->column);

    if (r < 0 || there == 0)
        return r;
    snprintf(sql, sizeof sql, "UPDATE %s SET %s = CASE typeof(%s) WHEN 'text' THEN '' ELSE x'' END", s->table, s->column,
             s->column);
    return pl_sql_script(c, sql, err);
}

/* Strips `copy` and writes it to `path`. Emptied cells may leave bytes in free pages, so VACUUM INTO rebuilds the
 * file from live rows. */
static int strip(const char *copy, const char *path, struct pl_err *err)
{
    struct pl_conn *c = NULL;
    _cleanup_free_ char *verdict = NULL;
    int r = pl_conn_open(copy, false, &c, err);

    r = r < 0 ? r : pl_sql_script(c, "PRAGMA synchronous=OFF; PRAGMA secure_delete=ON; PRAGMA foreign_keys=OFF; BEGIN", err);
    r = r < 0 ? r : pl_sql_script(c, strip_sql, err);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(secrets); i++)
        r = empty_column(c, &secrets[i], err);
    r = r < 0 ? r : pl_sql_script(c, "COMMIT", err);
    unlink(path);
    r = r < 0 ? r : pl_sql_exec(c, err, "VACUUM INTO ?", "s", path);
    r = r < 0 ? r : pl_sql_text(c, err, &verdict, "PRAGMA quick_check(1)", "");
    pl_conn_close(c);
    if (r >= 0 && !pl_streq(verdict, "ok"))
        return pl_err_set(err, PL_ECORRUPT, "the database is damaged: %s", verdict);
    return PL_MIN(r, 0);
}

int pl_db_snapshot(struct pl_db *db, const char *path, const struct pl_snapshot_options *o, struct pl_log_head *ret,
                   struct pl_err *err)
{
    _cleanup_(scratch_finish) struct scratch raw = {0};
    int r = scratch_path(o, "snapshot", &raw, err);

    r = r < 0 ? r : copy(db, raw.path, o, ret, err);
    r = r < 0 ? r : strip(raw.path, path, err);
    if (r < 0)
        unlink(path);
    return r < 0 ? pl_err_wrap(err, r, "snapshot") : 0;
}

int pl_db_checkpoint(struct pl_db *db, const struct pl_snapshot_options *o, uint64_t *ret_seq, struct pl_err *err)
{
    _cleanup_(scratch_finish) struct scratch plain = {0}, pressed = {0};
    struct pl_log_head at = {0};
    struct pl_log_checkpoint_head head = {.at_us = pl_clock_wall_us()};
    int r = scratch_path(o, "ckpt", &plain, err);

    r = r < 0 ? r : scratch_path(o, "ckpt", &pressed, err);
    r = r < 0 ? r : pl_db_snapshot(db, plain.path, o, &at, err);
    if (r < 0)
        return r;
    memcpy(head.store_id, at.store_id, sizeof head.store_id);
    head.epoch = at.epoch;
    head.seq = at.seq;
    head.log_hash = at.hash;
    r = pl_log_checkpoint_put(pl_db_objects(db), &head, plain.path, pressed.path, o->stop, o->arg, err);
    r = r < 0 ? r : pl_log_checkpoint_trim(pl_db_objects(db), err);
    if (r == 0)
        *ret_seq = at.seq;
    return r;
}
