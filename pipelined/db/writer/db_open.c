/* Opens the database of a daemon: the folder's lock, schema and upgrades, the position in the log, and replay. */
#include "pipelined/db/writer/db_open.h"

#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/log_apply.h"
#include "storage/base/clock.h"
#include "storage/object/store_marker.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define HOLDER_BYTES   32
#define DEAD_HOLDER_MS 10000

static const unsigned char schema_sql[] = {
#include "schema_sql.inc"
};

int pl_db_check_disk(const char *dir, struct pl_err *err)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } refused[] = {
        {NFS_SUPER_MAGIC, "NFS"}, {SMB_SUPER_MAGIC, "SMB"}, {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB2"}, {AFS_SUPER_MAGIC, "AFS"}};
    struct statfs fs;

    if (statfs(dir, &fs) < 0)
        return pl_err_errno(err, errno, "%s", dir);
    for (size_t i = 0; i < PL_ARRAY_SIZE(refused); i++)
        if ((unsigned long)fs.f_type == refused[i].magic)
            return pl_err_set(err, PL_EINVAL,
                              "--data %s is on %s, where the database's locks cannot be trusted: use a local disk", dir,
                              refused[i].name);
    return 0;
}

/* Reads what the holder of the lock wrote into the file: its pid. */
static void read_holder(int fd, char out[HOLDER_BYTES])
{
    const ssize_t n = pread(fd, out, HOLDER_BYTES - 1, 0);

    out[n > 0 ? n : 0] = '\0';
}

/* True if no other process has this pid. If the file contains our own pid, a process in an earlier container
 * wrote it. */
static bool is_dead(pid_t pid)
{
    return pid > 0 && (pid == getpid() || (kill(pid, 0) < 0 && errno == ESRCH));
}

/* Takes the lock; false when a living process holds it. If a daemon is killed while it forks, its child keeps
 * the lock until the child execs, which may take long on a busy machine. So if the process named in the lock
 * file is dead, waits for the lock up to DEAD_HOLDER_MS. */
static bool take_lock(int fd, char holder[HOLDER_BYTES])
{
    const struct timespec pause = {.tv_nsec = 10000000};
    const int64_t until_ms = pl_clock_mono_ms() + DEAD_HOLDER_MS;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        read_holder(fd, holder);
        if (!is_dead(atoi(holder)) || pl_clock_mono_ms() > until_ms)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

int pl_db_lock(const char *dir, int *ret_fd, struct pl_err *err)
{
    _cleanup_close_ int fd = -1;
    char path[4096], holder[HOLDER_BYTES] = "";
    int n, r = pl_db_check_disk(dir, err);

    if (r < 0)
        return r;
    if (snprintf(path, sizeof path, "%s/pipelined.lock", dir) >= (int)sizeof path)
        return pl_err_set(err, PL_EINVAL, "--data is longer than %zu bytes", sizeof path - 20);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return pl_err_errno(err, errno, "%s", path);
    if (!take_lock(fd, holder))
        return pl_err_set(err, PL_ELOCKED, "another daemon (process %s) runs on %s: stop it, or choose another --data",
                          *holder ? holder : "unknown", dir);
    n = snprintf(holder, sizeof holder, "%d", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, holder, (size_t)n, 0) != n)
        return pl_err_errno(err, errno, "%s", path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int pl_db_save_head(struct pl_conn *c, const struct pl_log_head *head, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    int r = pl_sql_exec(c, err, "INSERT OR REPLACE INTO meta(key, value) VALUES ('log_seq', ?)", "i", (int64_t)head->seq);

    return r < 0 ? r
                 : pl_sql_exec(c, err, "INSERT OR REPLACE INTO meta(key, value) VALUES ('log_hash', ?)", "s",
                               pl_hash_hex(&head->hash, hex));
}

int pl_db_make_schema(struct pl_conn *c, const struct pl_log_head *head, struct pl_err *err)
{
    char store[33], version[48];
    int r;

    pl_hex_encode(head->store_id, sizeof head->store_id, store);
    snprintf(version, sizeof version, "PRAGMA user_version = %d", PL_DB_SCHEMA_VERSION);
    r = pl_sql_script(c, "BEGIN IMMEDIATE", err);
    r = r < 0 ? r : pl_sql_script(c, (const char *)schema_sql, err);
    r = r < 0 ? r : pl_sql_script(c, version, err);
    r = r < 0 ? r : pl_sql_exec(c, err, "INSERT INTO meta(key, value) VALUES ('store_id', ?), ('epoch', '0')", "s", store);
    r = r < 0 ? r : pl_db_save_head(c, head, err);
    return r < 0 ? r : pl_sql_script(c, "COMMIT", err);
}

int pl_db_read_head(struct pl_conn *c, struct pl_log_head *ret, struct pl_err *err)
{
    _cleanup_free_ char *store = NULL, *hash = NULL;
    int64_t seq = 0, epoch = 0;
    int r = pl_sql_text(c, err, &store, "SELECT value FROM meta WHERE key = 'store_id'", "");

    r = r < 0 ? r : pl_sql_text(c, err, &hash, "SELECT value FROM meta WHERE key = 'log_hash'", "");
    r = r < 0 ? r : pl_sql_int(c, err, &seq, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_seq'", "");
    r = r < 0 ? r : pl_sql_int(c, err, &epoch, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'epoch'", "");
    if (r == PL_ENOTFOUND)
        return pl_err_set(err, PL_ECORRUPT, "the database does not record which part of the log it has applied");
    if (r == 0 && (!pl_hex_decode(store, ret->store_id, sizeof ret->store_id) || pl_hash_parse(hash, &ret->hash, NULL) < 0))
        r = pl_err_set(err, PL_ECORRUPT, "the database has a malformed store id \"%.64s\" or log hash \"%.80s\"", store, hash);
    ret->seq = (uint64_t)seq;
    ret->epoch = (uint64_t)epoch;
    return r;
}

/* Checks that the log contains exactly the object (same number, same hash) that the database says it applied
 * last. */
static int check_position(struct pl_conn *c, struct pl_object_store *objects, struct pl_log_head *head, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_LOG_OBJECT_MAX_BYTES};
    char ours[33], theirs[33], key[PL_LOG_KEY_BYTES];
    struct pl_log_head says = {0};
    struct pl_hash found;
    int r = pl_db_read_head(c, &says, err);

    if (r < 0)
        return r;
    pl_hex_encode(head->store_id, sizeof head->store_id, ours);
    pl_hex_encode(says.store_id, sizeof says.store_id, theirs);
    if (!pl_streq(theirs, ours))
        return pl_err_set(err, PL_ELOG, "the database belongs to store %.8s, --store is %.8s", theirs, ours);
    *head = says;
    if (head->seq == 0)
        return 0;
    pl_log_key(head->seq, key);
    r = pl_object_get(objects, key, 0, PL_OBJECT_TO_END, &bytes, err);
    if (r == PL_ENOTFOUND)
        return pl_err_set(err, PL_ELOG, "the database is ahead of the log: it has applied %s, which the store does not have",
                          key);
    if (r < 0)
        return r;
    pl_hash_sha256(bytes.data, bytes.len, &found);
    if (!pl_hash_eq(&found, &head->hash))
        return pl_err_set(err, PL_ELOG,
                          "the database has applied another %s than the one in the store: they belong to different logs", key);
    return 0;
}

struct replay {
    struct pl_conn *conn;
    bool tells;   /* an event is to say that records were replayed */
    bool any;     /* the object has records other than that of an epoch */
    int64_t told; /* id of the event; 0 = there is none yet */
};

static int replay_begin(void *self, uint64_t seq, uint64_t epoch, struct pl_err *err)
{
    struct replay *p = self;

    (void)seq;
    (void)epoch;
    p->any = false;
    return pl_sql_script(p->conn, "BEGIN IMMEDIATE", err);
}

static int replay_record(void *self, const struct pl_log_record *record, uint64_t seq, struct pl_err *err)
{
    struct replay *p = self;
    json_t *payload;
    int r;

    errno = 0; /* jansson does not report that it ran out of memory, but malloc sets errno */
    payload = json_loadb(record->payload, record->len, JSON_REJECT_DUPLICATES, NULL);
    if (!payload && errno == ENOMEM)
        return pl_err_nomem(err);
    if (!json_is_object(payload)) {
        json_decref(payload);
        return pl_err_set(err, PL_ECORRUPT, "record %s of log object %" PRIu64 " is not a JSON object",
                          pl_record_name(record->kind), seq);
    }
    r = pl_apply_record(p->conn, record->kind, payload, seq, err);
    p->any = p->any || record->kind != PL_RECORD_OPEN_EPOCH;
    json_decref(payload);
    return r;
}

/* Says by an event that events may be missing: those of the object's transactions were lost with the daemon, which died
 * between the log object and the COMMIT. */
static int tell_replayed(struct replay *p, uint64_t seq, struct pl_err *err)
{
    int r = pl_sql_exec(p->conn, err,
                        "INSERT INTO event(id, at_us, type, data) VALUES (nullif(?1, 0), ?2, 'recovered',"
                        " json_object('checkpoint', 0, 'log_seq', ?3)) ON CONFLICT(id) DO UPDATE SET data = excluded.data",
                        "iii", p->told, pl_clock_wall_us(), (int64_t)seq);

    if (r >= 0 && p->told == 0)
        p->told = sqlite3_last_insert_rowid(p->conn->db);
    return PL_MIN(r, 0);
}

static int replay_end(void *self, const struct pl_log_head *head, struct pl_err *err)
{
    struct replay *p = self;
    int r = p->tells && p->any ? tell_replayed(p, head->seq, err) : 0;

    r = r < 0 ? r : pl_db_save_head(p->conn, head, err);
    return r < 0 ? r : pl_sql_script(p->conn, "COMMIT", err);
}

/* The scripts that upgrade a database of version i + 1 to the next version. */
static const char *const upgrades[] = {
    "ALTER TABLE attempt ADD COLUMN unnamed INTEGER;"
    "CREATE INDEX attempt_unnamed ON attempt(unnamed) WHERE unnamed IS NOT NULL;",
    "ALTER TABLE project ADD COLUMN options TEXT NOT NULL DEFAULT '{}';"
    "ALTER TABLE worker ADD COLUMN network_off INTEGER NOT NULL DEFAULT 0 CHECK (network_off IN (0, 1));",
    "CREATE INDEX run_by_seq ON run(seq, ord);",
    "CREATE TABLE login_session (id TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, token_hash BLOB NOT NULL, user TEXT NOT NULL,"
    " peer TEXT NOT NULL, agent TEXT NOT NULL, created_us INTEGER NOT NULL, expires_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX login_session_by_user ON login_session(user, created_us);",
    "ALTER TABLE pipeline ADD COLUMN source TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE pipeline_version ADD COLUMN origin TEXT NOT NULL DEFAULT '{}';"
    "DROP TABLE source;"
    "CREATE TABLE source (name TEXT PRIMARY KEY, project TEXT NOT NULL REFERENCES project(name), spec TEXT NOT NULL,"
    " created_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE source_state (name TEXT PRIMARY KEY REFERENCES source(name) ON DELETE CASCADE, state TEXT NOT NULL,"
    " error TEXT NOT NULL DEFAULT '', seen TEXT NOT NULL DEFAULT '', applied TEXT NOT NULL DEFAULT '',"
    " details TEXT NOT NULL DEFAULT '{}', looked_us INTEGER NOT NULL DEFAULT 0, changed_us INTEGER NOT NULL DEFAULT 0) STRICT,"
    " WITHOUT ROWID;",
    "ALTER TABLE pipeline ADD COLUMN stopped TEXT NOT NULL DEFAULT '' CHECK (stopped IN ('', 'hand', 'source'));"
    "ALTER TABLE pipeline ADD COLUMN started_seq INTEGER NOT NULL DEFAULT 0;",
    "DROP TABLE notify;"
    "CREATE TABLE notify (name TEXT PRIMARY KEY, project TEXT NOT NULL REFERENCES project(name) ON DELETE CASCADE, "
    "spec TEXT NOT NULL, created_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE notify_state (name TEXT PRIMARY KEY REFERENCES notify(name) ON DELETE CASCADE, cursor INTEGER NOT "
    "NULL, part TEXT NOT NULL DEFAULT '', sent INTEGER NOT NULL DEFAULT 0, given_up INTEGER NOT NULL DEFAULT 0, "
    "missed INTEGER NOT NULL DEFAULT 0, gap TEXT NOT NULL DEFAULT '', failures INTEGER NOT NULL DEFAULT 0, sent_us "
    "INTEGER NOT NULL DEFAULT 0, sent_ms INTEGER NOT NULL DEFAULT 0, sent_event TEXT NOT NULL DEFAULT '', error_us "
    "INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;",
    "ALTER TABLE commit_ ADD COLUMN git TEXT NOT NULL DEFAULT '';"
    "CREATE TABLE repo_state (repo INTEGER PRIMARY KEY REFERENCES repo(id) ON DELETE CASCADE, state TEXT NOT NULL,"
    " error TEXT NOT NULL DEFAULT '', seen TEXT NOT NULL DEFAULT '', warnings TEXT NOT NULL DEFAULT '[]',"
    " looked_us INTEGER NOT NULL DEFAULT 0, changed_us INTEGER NOT NULL DEFAULT 0) STRICT;",
    "ALTER TABLE lease ADD COLUMN leased_us INTEGER NOT NULL DEFAULT 0;"
    "DROP INDEX attempt_unnamed;"
    "ALTER TABLE attempt RENAME TO old_attempt;"
    "CREATE TABLE attempt (job INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE, datum BLOB NOT NULL,"
    " attempt INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0,"
    " state TEXT NOT NULL CHECK (state IN ('success', 'failed', 'lost')), exit_code INTEGER, signal INTEGER,"
    " oom INTEGER NOT NULL DEFAULT 0, timed_out INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',"
    " tail TEXT NOT NULL DEFAULT '', detail TEXT NOT NULL DEFAULT '{}', finished_us INTEGER NOT NULL, unnamed INTEGER,"
    " PRIMARY KEY (job, datum, attempt, fence)) STRICT, WITHOUT ROWID;"
    "INSERT INTO attempt SELECT job, datum, attempt, 0, state, exit_code, signal, oom, timed_out, reason, tail, detail,"
    " finished_us, unnamed FROM old_attempt;"
    "DROP TABLE old_attempt;"
    "CREATE INDEX attempt_unnamed ON attempt(unnamed) WHERE unnamed IS NOT NULL;"
    "CREATE TABLE job_worker (id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE,"
    " worker INTEGER NOT NULL, lost INTEGER NOT NULL CHECK (lost IN (0, 1)), pod TEXT NOT NULL DEFAULT '',"
    " node TEXT NOT NULL DEFAULT '', started_us INTEGER NOT NULL, ended_us INTEGER NOT NULL, reason TEXT NOT NULL DEFAULT '',"
    " tasks INTEGER NOT NULL DEFAULT 0, held TEXT NOT NULL DEFAULT '[]', gpus INTEGER NOT NULL DEFAULT 0,"
    " gpu_ms INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE INDEX job_worker_by_job ON job_worker(job, lost, id);",
    "CREATE TABLE gpu_span (from_us INTEGER PRIMARY KEY, to_us INTEGER NOT NULL, series TEXT NOT NULL) STRICT;"
    /* keys of traces had the run's id, by which the oldest cannot be told */
    "UPDATE meta SET key = 'traceparent/' || (SELECT printf('%016x', ord) FROM run WHERE id = substr(key, 13))"
    " WHERE key GLOB 'traceparent/*' AND substr(key, 13) IN (SELECT id FROM run);"
    "DELETE FROM meta WHERE key GLOB 'traceparent/*' AND length(key) <> length('traceparent/') + 16;",
};
_Static_assert(PL_ARRAY_SIZE(upgrades) == PL_DB_SCHEMA_VERSION - 1, "a way from each version to the next");

static int upgrade(struct pl_conn *c, int64_t from, struct pl_err *err)
{
    char version[48];
    int r;

    snprintf(version, sizeof version, "PRAGMA user_version = %" PRId64, from + 1);
    r = pl_sql_script(c, "BEGIN IMMEDIATE", err);
    r = r < 0 ? r : pl_sql_script(c, upgrades[from - 1], err);
    r = r < 0 ? r : pl_sql_script(c, version, err);
    r = r < 0 ? r : pl_sql_script(c, "COMMIT", err);
    if (r == 0)
        return 0;
    (void)!pl_sql_script(c, "ROLLBACK", NULL);
    return pl_err_wrap(err, r, "the database of schema %" PRId64 " cannot be upgraded to %d", from, PL_DB_SCHEMA_VERSION);
}

int pl_db_upgrade(struct pl_conn *c, bool *ret_empty, struct pl_err *err)
{
    int64_t version = 0, tables = 0;
    int r = pl_sql_int(c, err, &version, "PRAGMA user_version", "");

    r = r < 0 ? r : pl_sql_int(c, err, &tables, "SELECT count(*) FROM sqlite_schema", "");
    if (r < 0)
        return r;
    if (version > PL_DB_SCHEMA_VERSION)
        return pl_err_set(err, PL_EFORMAT,
                          "the database has schema %" PRId64 ", this program supports up to %d: use the newer program", version,
                          PL_DB_SCHEMA_VERSION);
    if (version < 1 && tables > 0)
        return pl_err_set(err, PL_EFORMAT,
                          "the database has schema %" PRId64 ", which this program cannot upgrade to %d: move the database away, "
                          "and it is rebuilt from the log",
                          version, PL_DB_SCHEMA_VERSION);
    *ret_empty = tables == 0;
    for (; r == 0 && tables > 0 && version < PL_DB_SCHEMA_VERSION; version++)
        r = upgrade(c, version, err);
    return r;
}

static int replay_log(struct replay *replay, struct pl_object_store *objects, uint64_t last, bool look_only,
                      struct pl_log_head *head, struct pl_err *err)
{
    struct pl_log_sink sink = {replay, replay_begin, replay_record, replay_end, look_only};
    int r = last > head->seq ? pl_log_replay_ahead(objects, head, last, &sink, err) : 0;

    return r < 0 ? r : pl_log_replay(objects, head, &sink, err);
}

int pl_db_replay(struct pl_conn *c, struct pl_object_store *objects, uint64_t last, bool look_only, struct pl_log_head *head,
                 struct pl_err *err)
{
    struct replay replay = {.conn = c};

    return replay_log(&replay, objects, last, look_only, head, err);
}

static bool has_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > 0;
}

/* Opens the folder's database. `*ret` is NULL when it has no tables: a crash came between the creation of the file
 * and its schema. */
static int open_found(const char *path, struct pl_conn **ret, struct pl_err *err)
{
    bool empty = false;
    int r = pl_conn_open(path, false, ret, err);

    r = r < 0 ? r : pl_db_upgrade(*ret, &empty, err);
    if (r == 0 && !empty)
        return 0;
    *ret = pl_conn_close(*ret);
    return r;
}

/* Opens the folder's database. If there is none, recovers it from the store, or creates it empty when the store is
 * empty too. */
static int open_database(const char *dir, struct pl_object_store *objects, const struct pl_log_head *head, struct pl_conn **ret,
                         struct pl_recover_report *report, struct pl_err *err)
{
    struct pl_conn *c = NULL;
    char path[4096];
    int r;

    snprintf(path, sizeof path, "%s/pipelined.db", dir);
    r = has_bytes(path) ? open_found(path, &c, err) : 0;
    if (r == 0 && !c) {
        r = pl_db_recover(dir, objects, head->store_id, false, report, err);
        r = r < 0 ? r : pl_conn_open(path, false, &c, err);
        if (r == 0 && !report->recovered)
            r = pl_db_make_schema(c, head, err);
    }
    if (r < 0)
        c = pl_conn_close(c);
    *ret = c;
    return r;
}

int pl_db_prepare(const char *dir, struct pl_object_store *objects, struct pl_conn **ret, struct pl_log_head *ret_head,
                  struct pl_recover_report *ret_report, struct pl_err *err)
{
    _cleanup_(pl_recover_report_finish) struct pl_recover_report report = {0};
    struct pl_log_head head = {0};
    struct replay replay = {.tells = true};
    struct pl_store_marker marker;
    struct pl_conn *c = NULL;
    uint64_t last = 0;
    int r = pl_store_marker_init(objects, &marker, err);

    if (r < 0)
        return r;
    if (!pl_hex_decode(marker.store_id, head.store_id, sizeof head.store_id))
        return pl_err_set(err, PL_ECORRUPT, "the store's marker has a malformed id \"%s\"", marker.store_id);
    r = open_database(dir, objects, &head, &c, &report, err);
    r = r < 0 ? r : check_position(c, objects, &head, err);
    /* check that the log has no gap, because the object that opens this start's epoch would be put into the
     * gap */
    r = r < 0 ? r : pl_log_complete(objects, head.seq, &last, err);
    replay.conn = c;
    r = r < 0 ? r : replay_log(&replay, objects, last, false, &head, err);
    if (r < 0) {
        pl_conn_close(c);
        return r;
    }
    *ret = c;
    *ret_head = head;
    *ret_report = report;
    report = (struct pl_recover_report){0};
    return 0;
}
