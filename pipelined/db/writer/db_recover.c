/* Recovery: newest good checkpoint, replay of the log after it, a report, and the rename that makes the result the
 * database (db_recover.h). */
#include "pipelined/db/writer/db_recover.h"

#include "pipelined/db/writer/db_open.h"
#include "pipelined/db/writer/db_snapshot.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/dataset/log/log_checkpoint.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

struct recovery {
    const char *dir;
    struct pl_object_store *objects;
    bool look_only;
    struct pl_log_head head;
    struct pl_conn *conn;
    struct pl_recover_report report;
    char path[PATH_MAX]; /* the database being built */
};

void pl_recover_report_finish(struct pl_recover_report *r)
{
    json_decref(r->anew);
    *r = (struct pl_recover_report){0};
}

static void remove_database(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[PATH_MAX + 16];

    for (size_t i = 0; i < PL_ARRAY_SIZE(ends); i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

static void recovery_finish(struct recovery *v)
{
    v->conn = pl_conn_close(v->conn);
    if (*v->path)
        remove_database(v->path);
    pl_recover_report_finish(&v->report);
}

/* ---- the newest good checkpoint ---- */

/* True if the error means that this checkpoint is unusable, so that the next older one should be tried. Any
 * other error would occur with the next checkpoint too, or says nothing about the checkpoint: then recovery
 * fails. */
static bool is_broken(int r)
{
    return r == PL_ECORRUPT || r == PL_EFORMAT || r == PL_ENOTFOUND || r == PL_ETOOBIG || r == PL_EIO;
}

/* Checks that the log contains exactly the object (same number, same hash) up to which the checkpoint was
 * made. */
static int check_log_object(struct recovery *v, const struct pl_log_checkpoint_head *head, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_LOG_OBJECT_MAX_BYTES};
    char key[PL_LOG_KEY_BYTES];
    struct pl_hash found;
    int r;

    pl_log_key(head->seq, key);
    r = pl_object_get_all(v->objects, key, &bytes, err);
    if (r == PL_ENOTFOUND) {
        pl_err_set(err, PL_ELOG, "%s is missing, but a later checkpoint shows that it existed", key);
        return pl_err_hint(err, PL_ELOG,
                           "Restore it and the log objects after it from a mirror. If you delete ckpt/%s instead, "
                           "all changes after the end of the remaining log are lost.",
                           key + 4);
    }
    if (r < 0)
        return r;
    pl_hash_sha256(bytes.data, bytes.len, &found);
    return pl_hash_eq(&found, &head->log_hash)
               ? 0
               : pl_err_set(err, PL_ECORRUPT, "ckpt%s belongs to another log: its hash of %s is different", key + 3, key);
}

/* Checks that the checkpoint's database has the log position that the checkpoint's head states. */
static int check_meta(struct recovery *v, const struct pl_log_checkpoint_head *head, struct pl_err *err)
{
    struct pl_log_head says = {0};
    bool empty = false;
    int r = pl_db_upgrade(v->conn, &empty, err);

    if (r == 0 && empty)
        r = pl_err_set(err, PL_ECORRUPT, "checkpoint %" PRIu64 " holds an empty database", head->seq);
    r = r < 0 ? r : pl_db_read_head(v->conn, &says, err);
    if (r < 0)
        return r == PL_EINVAL || r == PL_ENOTFOUND ? PL_ECORRUPT : r;
    if (says.seq != head->seq || !pl_hash_eq(&says.hash, &head->log_hash) || memcmp(says.store_id, head->store_id, 16) != 0)
        return pl_err_set(err, PL_ECORRUPT, "checkpoint %" PRIu64 " holds the database of another checkpoint", head->seq);
    v->head.seq = says.seq;
    v->head.epoch = says.epoch;
    v->head.hash = says.hash;
    return 0;
}

static int try_checkpoint(struct recovery *v, uint64_t seq, struct pl_err *err)
{
    struct pl_log_checkpoint_head head = {0};
    int r;

    remove_database(v->path);
    r = pl_log_checkpoint_get(v->objects, seq, v->path, &head, err);
    if (r == 0 && memcmp(head.store_id, v->head.store_id, 16) != 0)
        r = pl_err_set(err, PL_ECORRUPT, "checkpoint %" PRIu64 " belongs to another store", seq);
    r = r < 0 ? r : check_log_object(v, &head, err);
    r = r < 0 ? r : pl_conn_open(v->path, false, &v->conn, err);
    r = r < 0 ? r : check_meta(v, &head, err);
    if (r < 0) {
        v->conn = pl_conn_close(v->conn);
        return r;
    }
    v->report.ckpt_seq = seq;
    return 0;
}

static int newest_checkpoint(struct recovery *v, struct pl_err *err)
{
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX];
    int n = pl_log_checkpoint_list(v->objects, seqs, err);

    for (int i = 0; i < n && !v->conn; i++) {
        struct pl_err why = {0};
        int r = try_checkpoint(v, seqs[i], &why);

        if (r < 0 && !is_broken(r)) {
            if (err)
                *err = why;
            return r;
        }
        if (r < 0 && v->report.passed_over++ == 0)
            snprintf(v->report.why, sizeof v->report.why, "%.511s", why.msg);
    }
    return PL_MIN(n, 0);
}

/* ---- replay of the log after the checkpoint ---- */

static int replay(struct recovery *v, uint64_t last, struct pl_err *err)
{
    int r = pl_sql_script(v->conn, "PRAGMA synchronous=OFF", err); /* everything is synced once at the end */

    r = r < 0 ? r : pl_db_replay(v->conn, v->objects, last, v->look_only, &v->head, err);
    v->report.log_seq = v->head.seq;
    return r;
}

/* Drops jobs that were unfinished in the checkpoint and whose run has ended since. */
static int drop_what_is_over(struct recovery *v, struct pl_err *err)
{
    int r = pl_sql_exec(v->conn, err,
                        "DELETE FROM job WHERE final = 0 AND run NOT IN (SELECT id FROM run WHERE state = 'running')", "");

    return PL_MIN(r, 0);
}

/* ---- the report ---- */

static int add_secrets(struct recovery *v, const struct pl_secret_column *s, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char text[600];
    int r = pl_sql_query(v->conn, err, &rows, s->names, "");

    while (r >= 0 && (r = pl_sql_next(v->conn, &rows, err)) > 0) {
        snprintf(text, sizeof text, "%s: %.500s", s->what, pl_col_text(&rows, 0));
        r = pl_json_add(v->report.anew, json_string(text), err);
    }
    return r;
}

static int list_anew(struct recovery *v, struct pl_err *err)
{
    const struct pl_secret_column *secrets;
    size_t n;
    int r;

    v->report.anew = json_pack("[ss]", "DIR/token: the admin's token, unless you put the old one there",
                               "DIR/master.key: the key that encrypts secrets of S3 keys");
    if (!v->report.anew)
        return pl_err_nomem(err);
    r = 0;
    secrets = pl_db_secret_columns(&n);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_secrets(v, &secrets[i], err);
    return r;
}

/* Records the recovery as an event, and in table meta for later look-ups. */
static int leave_word(struct recovery *v, struct pl_err *err)
{
    int64_t now = pl_clock_wall_us();
    _cleanup_(json_decrefp) json_t *word =
        json_pack("{s:I, s:I, s:I, s:O}", "at_us", (json_int_t)now, "checkpoint", (json_int_t)v->report.ckpt_seq, "log_seq",
                  (json_int_t)v->report.log_seq, "anew", v->report.anew);
    _cleanup_free_ char *text = word ? pl_json_text(word, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    int r;

    if (!text)
        return pl_err_nomem(err);
    r = pl_sql_exec(v->conn, err,
                    "INSERT OR REPLACE INTO meta(key, value) VALUES ('recovered', ?), ('regained', ''), ('unread', '')", "s",
                    text);
    r = r < 0 ? r
              : pl_sql_exec(v->conn, err,
                            "INSERT INTO event(id, at_us, type, data) SELECT coalesce(max(id), 0) + ?, ?, 'recovered',"
                            " json_object('checkpoint', ?, 'log_seq', ?) FROM event",
                            "iiii", (int64_t)PL_RECOVER_EVENT_GAP, now, (int64_t)v->report.ckpt_seq, (int64_t)v->report.log_seq);
    return PL_MIN(r, 0);
}

/* ---- the finished database ---- */

/* Checks the file by itself, with a new connection: quick_check must not read pages that are only in the WAL. */
static int check_file(const char *path, struct pl_err *err)
{
    _cleanup_free_ char *verdict = NULL;
    struct pl_conn *c = NULL;
    int r = pl_conn_open(path, true, &c, err);

    r = r < 0 ? r : pl_sql_text(c, err, &verdict, "PRAGMA quick_check(1)", "");
    pl_conn_close(c);
    if (r == 0 && !pl_streq(verdict, "ok"))
        r = pl_err_set(err, PL_EIO, "the recovered database is damaged: %s", verdict);
    return r;
}

/* Moves the whole WAL into the database file. Closing the last connection does that too, but reports no failure. */
static int fold_wal(struct recovery *v, struct pl_err *err)
{
    int64_t busy = 0;
    int r = pl_sql_int(v->conn, err, &busy, "PRAGMA wal_checkpoint(TRUNCATE)", "");

    if (r == 0 && busy)
        r = pl_err_set(err, PL_EBUSY, "another process reads the database that is being recovered");
    v->conn = pl_conn_close(v->conn);
    return r < 0 ? pl_err_wrap(err, r, "%s", v->path) : check_file(v->path, err);
}

/* Syncs the database before it gets its name. First removes the files of an older database in the folder, which
 * SQLite would take for ours. */
static int put_in_place(struct recovery *v, struct pl_err *err)
{
    _cleanup_close_ int fd = -1;
    char path[PATH_MAX];
    int r = fold_wal(v, err);

    if (r < 0)
        return r;
    if (snprintf(path, sizeof path, "%s/pipelined.db", v->dir) >= (int)sizeof path)
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", v->dir);
    fd = open(v->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pl_err_errno(err, errno, "%s", v->path);
    r = pl_io_fdatasync(fd, v->path, err);
    if (r < 0)
        return r;
    remove_database(path);
    r = pl_io_rename(v->path, path, err);
    return r < 0 ? r : pl_io_fsync_dir(v->dir, err);
}

static int rebuild(struct recovery *v, uint64_t last, struct pl_err *err)
{
    int r = 0;

    if (!v->conn) {
        remove_database(v->path);
        r = pl_conn_open(v->path, false, &v->conn, err);
        r = r < 0 ? r : pl_db_make_schema(v->conn, &v->head, err);
    }
    r = r < 0 ? r : replay(v, last, err);
    r = r < 0 ? r : drop_what_is_over(v, err);
    r = r < 0 ? r : list_anew(v, err);
    r = r < 0 ? r : leave_word(v, err);
    return r < 0 ? r : put_in_place(v, err);
}

int pl_db_recover(const char *dir, struct pl_object_store *objects, const uint8_t store_id[16], bool look_only,
                  struct pl_recover_report *ret, struct pl_err *err)
{
    _cleanup_(recovery_finish) struct recovery v = {.dir = dir, .objects = objects, .look_only = look_only};
    uint64_t last = 0;
    int r;

    memcpy(v.head.store_id, store_id, sizeof v.head.store_id);
    if (snprintf(v.path, sizeof v.path, "%s/recover.db", dir) >= (int)sizeof v.path) {
        v.path[0] = '\0';
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", dir);
    }
    r = newest_checkpoint(&v, err);
    r = r < 0 ? r : pl_log_complete(objects, v.head.seq, &last, err);
    if (r == 0 && last > 0)
        r = rebuild(&v, last, err);
    if (r < 0)
        return pl_err_wrap(err, r, "recover");
    v.report.recovered = last > 0;
    *ret = v.report;
    v.report = (struct pl_recover_report){0};
    return 0;
}
