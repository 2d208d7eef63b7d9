// link: pipelined/db/tx pipelined/db/writer storage/base storage/system
/* The writer, the log and the database: what is acknowledged is there after any crash, and replay gives the same database. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/db_open.h"
#include "pipelined/db/writer/name_lookup.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"

struct fixture {
    char dir[64], store[96], data[96];
    struct pl_object_store *objects;
    struct pl_db *db;
    struct pl_err fatal;
    unsigned made; /* by write_until_fenced */
};

static void on_fatal(void *arg, const struct pl_err *err)
{
    ((struct fixture *)arg)->fatal = *err;
}

static int open_db(struct fixture *f, const char *data, struct pl_db **ret, struct pl_err *err)
{
    struct pl_db_config c = {.dir = data, .objects = f->objects, .readers = 2, .fatal = on_fatal, .arg = f};

    assert_int_equal(pl_io_mkdirs(data, 0700, NULL), 0);
    return pl_db_open(&c, ret, err);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    strcpy(f->dir, "/tmp/pl-db-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->store, sizeof f->store, "%s/store", f->dir);
    snprintf(f->data, sizeof f->data, "%s/data", f->dir);
    assert_int_equal(pl_object_file_open(f->store, &f->objects, NULL), 0);
    assert_int_equal(open_db(f, f->data, &f->db, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    pl_io_fail_nth(PL_IO_WRITE, 0, 0);
    pl_db_close(f->db);
    pl_object_close(f->objects);
    assert_int_equal(pl_io_remove_tree(f->dir, NULL), 0);
    free(f);
    return 0;
}

static int make_repo(struct pl_db *db, const char *name, struct pl_err *err)
{
    struct pl_repo_args a = {.project = "default", .name = name};

    return pl_db_run(db, PL_TX_LOGGED, pl_tx_repo_create, &a, err);
}

static bool has_repo(struct pl_db *db, const char *name)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    struct pl_repo_row row;

    return pl_db_repo_find(rd.conn, "default", name, &row, NULL) == 0;
}

/* Logged tables as text: two databases are equal when these are. */
static char *dump(struct pl_db *db)
{
    static const char *const queries[] = {
        "SELECT name || '|' || created_us FROM project ORDER BY name",
        "SELECT project || '|' || name || '|' || kind || '|' || description || '|' || created_us FROM repo ORDER BY 1",
        "SELECT r.name || '|' || b.name FROM branch b JOIN repo r ON r.id = b.repo ORDER BY r.name, b.name",
        "SELECT key || '=' || value FROM meta WHERE key IN ('store_id', 'log_seq', 'log_hash') ORDER BY key",
    };
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    struct pl_buf out = {0};

    for (size_t i = 0; i < PL_ARRAY_SIZE(queries); i++) {
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

        assert_int_equal(pl_sql_query(rd.conn, NULL, &rows, queries[i], ""), 0);
        while (pl_sql_next(rd.conn, &rows, NULL) > 0)
            assert_int_equal(pl_buf_addf(&out, NULL, "%s\n", pl_col_text(&rows, 0)), 0);
    }
    return pl_buf_take_str(&out);
}

static void test_a_transaction_is_there_after_reopening(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(make_repo(f->db, "digits", NULL), 0);
    f->db = pl_db_close(f->db);
    assert_int_equal(open_db(f, f->data, &f->db, NULL), 0);
    assert_true(has_repo(f->db, "digits"));
}

static void test_a_refused_transaction_leaves_nothing_and_no_log_object(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};
    uint64_t seq;

    assert_int_equal(make_repo(f->db, "digits", NULL), 0);
    seq = pl_db_log_seq(f->db);
    assert_int_equal(make_repo(f->db, "digits", &err), PL_EEXISTS);
    assert_non_null(strstr(err.msg, "\"digits\" exists already"));
    assert_int_equal(make_repo(f->db, "no spaces", &err), PL_ENAME);
    assert_int_equal(pl_db_log_seq(f->db), seq);
}

static void test_an_empty_folder_and_a_store_with_a_log_give_the_same_database(void **state)
{
    struct fixture *f = *state;
    char other[96], *was, *is;
    struct pl_db *recovered;

    for (int i = 0; i < 20; i++) {
        char name[16];

        snprintf(name, sizeof name, "repo%d", i);
        assert_int_equal(make_repo(f->db, name, NULL), 0);
    }
    f->db = pl_db_close(f->db);
    snprintf(other, sizeof other, "%s/other", f->dir);
    assert_int_equal(open_db(f, other, &recovered, NULL), 0);
    is = dump(recovered);
    pl_db_close(recovered);
    assert_int_equal(open_db(f, f->data, &f->db, NULL), 0); /* replays the other's epoch */
    was = dump(f->db);
    assert_non_null(strstr(was, "repo19"));
    assert_memory_equal(was, is, (size_t)(strstr(was, "log_hash") - was));
    free(was);
    free(is);
}

static void test_a_second_daemon_on_the_folder_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};
    struct pl_db *second;

    assert_int_equal(open_db(f, f->data, &second, &err), PL_ELOCKED);
    assert_non_null(strstr(err.msg, "another daemon (process "));
}

static void *close_soon(void *pipe_fd)
{
    (void)poll(NULL, 0, 100); /* the other thread tries by then; if not, it has less to wait for */
    close(*(int *)pipe_fd);
    return NULL;
}

/* A child that has not executed its program yet has the lock's descriptor, and nobody to give it back to. */
static void test_the_lock_of_a_killed_daemon_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};
    int hold[2], status, fd = -1;
    char dir[96], byte;
    pthread_t thread;
    pid_t daemon;

    snprintf(dir, sizeof dir, "%s/killed", f->dir);
    assert_int_equal(pl_io_mkdirs(dir, 0700, NULL), 0);
    assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
    daemon = fork();
    if (daemon == 0) {
        if (pl_db_lock(dir, &fd, NULL) < 0)
            _exit(1);
        if (fork() == 0) {
            close(hold[1]);
            _exit(read(hold[0], &byte, 1) != 0);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(daemon, &status, 0), daemon);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_create(&thread, NULL, close_soon, &hold[1]), 0);
    if (pl_db_lock(dir, &fd, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(fd);
    close(hold[0]);
}

static void test_a_stale_daemon_is_fenced_by_the_log(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};
    struct pl_db *newer;
    char other[96];

    snprintf(other, sizeof other, "%s/other", f->dir);
    assert_int_equal(open_db(f, other, &newer, NULL), 0);
    assert_int_equal(make_repo(f->db, "late", &err), PL_EFENCED);
    assert_int_equal(f->fatal.code, PL_EFENCED);
    assert_int_equal(make_repo(f->db, "later", &err), PL_ESTOPPING);
    assert_int_equal(make_repo(newer, "mine", NULL), 0);
    assert_false(has_repo(newer, "late"));
    pl_db_close(newer);
}

static void *write_until_fenced(void *arg)
{
    struct fixture *f = arg;
    struct pl_err err = {0};
    char name[32];
    int r = 0;

    for (unsigned i = 0; r == 0; i++) {
        snprintf(name, sizeof name, "repo-%u", i);
        r = make_repo(f->db, name, &err);
        f->made += r == 0;
    }
    return (void *)(intptr_t)r;
}

static void test_a_daemon_that_starts_fences_one_that_writes_all_the_time(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};
    struct pl_db *newer;
    pthread_t rival;
    char other[96], name[32];
    void *ended;

    snprintf(other, sizeof other, "%s/other", f->dir);
    pthread_create(&rival, NULL, write_until_fenced, f);
    assert_int_equal(open_db(f, other, &newer, &err), 0);
    assert_int_equal(pthread_join(rival, &ended), 0);
    assert_int_equal((intptr_t)ended, PL_EFENCED);
    assert_int_equal(f->fatal.code, PL_EFENCED);
    for (unsigned i = 0; i < f->made; i++) {
        snprintf(name, sizeof name, "repo-%u", i);
        assert_true(has_repo(newer, name));
    }
    snprintf(name, sizeof name, "repo-%u", f->made);
    assert_false(has_repo(newer, name));
    pl_db_close(newer);
}

static void test_a_full_disk_fails_the_transaction_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};

    assert_int_equal(make_repo(f->db, "before", NULL), 0);
    pl_io_fail_nth(PL_IO_WRITE, 1, ENOSPC);
    assert_int_equal(make_repo(f->db, "during", &err), PL_ENOSPC);
    assert_int_equal(make_repo(f->db, "after", &err), 0);
    assert_true(has_repo(f->db, "before"));
    assert_false(has_repo(f->db, "during"));
    assert_true(has_repo(f->db, "after"));
}

static void test_a_database_of_a_newer_program_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};
    struct pl_conn *c;
    char path[128];

    f->db = pl_db_close(f->db);
    snprintf(path, sizeof path, "%s/pipelined.db", f->data);
    assert_int_equal(pl_conn_open(path, false, &c, NULL), 0);
    assert_int_equal(pl_sql_script(c, "PRAGMA user_version = 99", NULL), 0);
    pl_conn_close(c);
    assert_int_equal(open_db(f, f->data, &f->db, &err), PL_EFORMAT);
    assert_non_null(strstr(err.msg, "schema 99"));
}

static void test_a_database_ahead_of_the_log_or_of_another_one_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};
    char key[PL_LOG_KEY_BYTES];
    struct iovec iov = {(void *)"other bytes", 11};

    assert_int_equal(make_repo(f->db, "digits", NULL), 0);
    pl_log_key(pl_db_log_seq(f->db), key);
    f->db = pl_db_close(f->db);
    assert_int_equal(pl_object_remove(f->objects, key, NULL), 0);
    assert_int_equal(open_db(f, f->data, &f->db, &err), PL_ELOG);
    assert_non_null(strstr(err.msg, "ahead of the log"));
    assert_int_equal(pl_object_put(f->objects, key, &iov, 1, true, NULL), 0);
    assert_int_equal(open_db(f, f->data, &f->db, &err), PL_ELOG);
    assert_non_null(strstr(err.msg, "different logs"));
}

struct counting {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    unsigned left;
};

static void count_down(void *arg, int r, const struct pl_err *err)
{
    struct counting *c = arg;

    (void)err;
    assert_true(r == 0 || r == PL_EEXISTS);
    pthread_mutex_lock(&c->mutex);
    c->left--;
    pthread_cond_signal(&c->cond);
    pthread_mutex_unlock(&c->mutex);
}

static int one_more(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_args a = {.project = "default", .exist_ok = false};
    int64_t n = 0;
    char name[32];

    (void)arg;
    if (pl_sql_int(pl_tx_conn(tx), err, &n, "SELECT count(*) FROM repo", "") < 0)
        return PL_EIO;
    snprintf(name, sizeof name, "r%lld", (long long)n); /* sees what those before it in the group did */
    a.name = name;
    return pl_tx_repo_create(tx, &a, err);
}

static void test_transactions_of_a_group_see_each_other_and_share_log_objects(void **state)
{
    struct fixture *f = *state;
    struct counting c = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 400};
    uint64_t before = pl_db_log_seq(f->db);

    for (int i = 0; i < 400; i++)
        assert_int_equal(pl_db_submit(f->db, PL_TX_LOGGED, one_more, count_down, &c, NULL), 0);
    pthread_mutex_lock(&c.mutex);
    while (c.left)
        pthread_cond_wait(&c.cond, &c.mutex);
    pthread_mutex_unlock(&c.mutex);
    assert_true(has_repo(f->db, "r399"));
    assert_true(pl_db_log_seq(f->db) - before < 400);
}

/* ---- a group that SQLite rolls back as a whole ---- */

struct outcome {
    struct counting *left;
    int r;
};

static void note_outcome(void *arg, int r, const struct pl_err *err)
{
    struct outcome *o = arg;

    (void)err;
    o->r = r;
    pthread_mutex_lock(&o->left->mutex);
    o->left->left--;
    pthread_cond_signal(&o->left->cond);
    pthread_mutex_unlock(&o->left->mutex);
}

/* The writer waits in it until the test has submitted the rest of the group. */
static int gate(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct outcome *o = arg;

    (void)tx;
    (void)err;
    pthread_mutex_lock(&o->left->mutex);
    pthread_mutex_unlock(&o->left->mutex);
    return 0;
}

static int make_first(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)arg;
    return pl_tx_repo_create(tx, &(struct pl_repo_args){.project = "default", .name = "first"}, err);
}

/* The database may not grow: SQLite gives up the whole transaction, savepoints and all. Says that it went well all the same. */
static int fill_the_disk(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = 0;

    (void)arg;
    assert_int_equal(pl_sql_script(pl_tx_conn(tx), "PRAGMA max_page_count = 1", err), 0);
    while (r >= 0)
        r = pl_sql_exec(pl_tx_conn(tx), NULL, "INSERT INTO event(at_us, type, data) VALUES (1, 'x', hex(randomblob(4000)))", "");
    assert_int_equal(r, PL_ENOSPC);
    assert_int_equal(pl_sql_script(pl_tx_conn(tx), "PRAGMA max_page_count = 1000000", err), 0);
    return 0;
}

static int make_last(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)arg;
    return pl_tx_repo_create(tx, &(struct pl_repo_args){.project = "default", .name = "last"}, err);
}

static void test_a_group_that_sqlite_gives_up_fails_whole_and_leaves_no_log_object(void **state)
{
    static const pl_tx_fn fns[] = {make_first, fill_the_disk, make_last};
    struct fixture *f = *state;
    struct counting c = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 4};
    struct outcome all[4] = {{&c, 1}, {&c, 1}, {&c, 1}, {&c, 1}};
    uint64_t seq;

    assert_int_equal(make_repo(f->db, "before", NULL), 0);
    seq = pl_db_log_seq(f->db);
    pthread_mutex_lock(&c.mutex);
    assert_int_equal(pl_db_submit(f->db, PL_TX_UNLOGGED, gate, note_outcome, &all[3], NULL), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(fns); i++)
        assert_int_equal(pl_db_submit(f->db, PL_TX_LOGGED, fns[i], note_outcome, &all[i], NULL), 0);
    while (c.left)
        pthread_cond_wait(&c.cond, &c.mutex);
    pthread_mutex_unlock(&c.mutex);
    for (size_t i = 0; i < PL_ARRAY_SIZE(fns); i++)
        assert_true(all[i].r < 0);
    assert_int_equal(f->fatal.code, 0);
    assert_int_equal(pl_db_log_seq(f->db), seq);
    assert_false(has_repo(f->db, "first"));
    assert_false(has_repo(f->db, "last"));
    assert_int_equal(make_repo(f->db, "first", NULL), 0);
    f->db = pl_db_close(f->db);
    assert_int_equal(open_db(f, f->data, &f->db, NULL), 0);
    assert_true(has_repo(f->db, "first"));
}

static int big_repo(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    static char description[3u << 20];
    struct pl_repo_args a = {.project = "default", .name = arg, .description = description};

    memset(description, 'd', sizeof description - 1);
    return pl_tx_repo_create(tx, &a, err);
}

static void test_what_does_not_fit_one_log_object_goes_into_the_next(void **state)
{
    static const char *const names[] = {"b0", "b1", "b2", "b3", "b4"};
    struct fixture *f = *state;
    struct counting c = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 6};
    struct outcome all[6];
    uint64_t seq = pl_db_log_seq(f->db);

    for (size_t i = 0; i < 6; i++)
        all[i] = (struct outcome){&c, 1};
    pthread_mutex_lock(&c.mutex);
    assert_int_equal(pl_db_submit(f->db, PL_TX_UNLOGGED, gate, note_outcome, &all[5], NULL), 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(pl_db_submit(f->db, PL_TX_LOGGED, big_repo, NULL, (void *)(uintptr_t)names[i], NULL), 0);
    c.left -= 5; /* those have no note to give */
    while (c.left)
        pthread_cond_wait(&c.cond, &c.mutex);
    pthread_mutex_unlock(&c.mutex);
    assert_int_equal(make_repo(f->db, "behind", NULL), 0);
    for (size_t i = 0; i < 5; i++)
        assert_true(has_repo(f->db, names[i]));
    assert_true(pl_db_log_seq(f->db) - seq >= 3);
    assert_true(pl_db_log_seq(f->db) - seq <= 4);
}

static void test_a_database_without_our_schema_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};
    struct pl_conn *c;
    char path[128];

    f->db = pl_db_close(f->db);
    snprintf(path, sizeof path, "%s/pipelined.db", f->data);
    assert_int_equal(pl_conn_open(path, false, &c, NULL), 0);
    assert_int_equal(pl_sql_script(c, "PRAGMA user_version = 0", NULL), 0);
    pl_conn_close(c);
    assert_int_equal(open_db(f, f->data, &f->db, &err), PL_EFORMAT);
    assert_non_null(strstr(err.msg, "schema 0"));
}

/* Every table with its columns, in order. */
static char *columns_of(struct pl_db *db)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    char *text = NULL;

    assert_int_equal(
        pl_sql_text(rd.conn, NULL, &text,
                    "SELECT group_concat(line, char(10)) FROM (SELECT t.name || '.' || c.name || ' ' || c.type || ' '"
                    " || c.\"notnull\" || ' ' || coalesce(c.dflt_value, '') || ' ' || c.pk AS line FROM sqlite_schema t,"
                    " pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.cid)",
                    ""),
        0);
    return text;
}

static void test_a_database_of_an_older_program_is_brought_to_this_one_s(void **state)
{
    struct fixture *f = *state;
    char *wanted = columns_of(f->db), *is;
    struct pl_err err = {0};
    int64_t version = 0, unnamed = -1, kept = 0;
    struct pl_conn *c;
    char path[128];

    assert_int_equal(make_repo(f->db, "before", NULL), 0);
    f->db = pl_db_close(f->db);
    snprintf(path, sizeof path, "%s/pipelined.db", f->data);
    assert_int_equal(pl_conn_open(path, false, &c, NULL), 0);
    assert_int_equal(
        pl_sql_script(
            c,
            "DROP TABLE attempt; CREATE TABLE attempt (job INTEGER NOT NULL REFERENCES job(id) ON DELETE CASCADE, datum BLOB NOT"
            " NULL, attempt INTEGER NOT NULL, state TEXT NOT NULL CHECK (state IN ('success', 'failed')), exit_code INTEGER,"
            " signal INTEGER, oom INTEGER NOT NULL DEFAULT 0, timed_out INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT"
            " '', tail TEXT NOT NULL DEFAULT '', detail TEXT NOT NULL DEFAULT '{}', finished_us INTEGER NOT NULL,"
            " PRIMARY KEY (job, datum, attempt)) STRICT, WITHOUT ROWID;"
            "INSERT INTO job(id, run, project, stage, version, pipeline, state, created_us)"
            " VALUES (7, 'r', 'default', 's', 1, 'p', 'failure', 1);"
            "INSERT INTO attempt(job, datum, attempt, state, exit_code, finished_us) VALUES (7, x'01', 2, 'failed', 3, 4);"
            "DROP TABLE gpu_span; DROP TABLE job_worker; ALTER TABLE lease DROP COLUMN leased_us; ALTER TABLE project DROP "
            "COLUMN options;"
            "ALTER TABLE worker DROP COLUMN network_off; DROP INDEX run_by_seq; DROP TABLE login_session;"
            "ALTER TABLE pipeline DROP COLUMN stopped; ALTER TABLE pipeline DROP COLUMN started_seq;"
            "ALTER TABLE commit_ DROP COLUMN git; DROP TABLE repo_state;"
            "ALTER TABLE pipeline DROP COLUMN source; ALTER TABLE pipeline_version DROP COLUMN origin; DROP TABLE source_state;"
            "DROP TABLE source; CREATE TABLE source (name TEXT PRIMARY KEY, spec TEXT NOT NULL) STRICT, WITHOUT ROWID;"
            "DROP TABLE notify_state; DROP TABLE notify;"
            "CREATE TABLE notify (name TEXT PRIMARY KEY, spec TEXT NOT NULL) STRICT, WITHOUT ROWID;"
            "PRAGMA user_version = 1",
            NULL),
        0);
    pl_conn_close(c);
    if (open_db(f, f->data, &f->db, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(has_repo(f->db, "before"));
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(f->db);

        assert_int_equal(pl_sql_int(rd.conn, NULL, &version, "PRAGMA user_version", ""), 0);
        assert_int_equal(version, PL_DB_SCHEMA_VERSION);
        assert_int_equal(pl_sql_int(rd.conn, NULL, &unnamed,
                                    "SELECT count(unnamed) FROM attempt INDEXED BY attempt_unnamed WHERE unnamed = 1", ""),
                         0);
        assert_int_equal(unnamed, 0);
        assert_int_equal(pl_sql_int(rd.conn, NULL, &kept,
                                    "SELECT count(*) FROM attempt WHERE job = 7 AND datum = x'01' AND attempt = 2 AND fence = 0"
                                    " AND state = 'failed' AND exit_code = 3 AND finished_us = 4",
                                    ""),
                         0);
        assert_int_equal(kept, 1);
    }
    is = columns_of(f->db);
    assert_string_equal(is, wanted);
    free(is);
    free(wanted);
    f->db = pl_db_close(f->db);
    assert_int_equal(pl_conn_open(path, false, &c, NULL), 0);
    assert_int_equal(pl_sql_script(c, "PRAGMA user_version = 1", NULL), 0); /* one that is not what it says */
    pl_conn_close(c);
    assert_true(open_db(f, f->data, &f->db, &err) < 0);
    assert_non_null(strstr(err.msg, "the database of schema 1 cannot be upgraded to "));
}

/* ---- kill -9 ---- */

/* Makes repos for ever, writing each acknowledged number to `fd`. */
static void child_main(struct fixture *f, int fd, unsigned first)
{
    struct pl_db *db;
    char name[32];

    if (open_db(f, f->data, &db, NULL) < 0)
        _exit(1);
    for (unsigned i = first;; i++) {
        snprintf(name, sizeof name, "k%u", i);
        if (make_repo(db, name, NULL) == 0 && write(fd, &i, sizeof i) != sizeof i)
            _exit(1);
    }
}

static void test_what_was_acknowledged_survives_kill_9_at_any_moment(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 20261121;
    unsigned acknowledged = 0, next = 0;

    f->db = pl_db_close(f->db);
    for (int round = 0; round < 12; round++) {
        unsigned wanted = (unsigned)(pl_splitmix64(&seed) % 40) + 1, got = 0, value;
        char other[128], name[32], *was, *is;
        struct pl_db *recovered;
        int fds[2];
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        if (pid == 0)
            child_main(f, fds[1], next);
        close(fds[1]);
        while (got < wanted && read(fds[0], &value, sizeof value) == sizeof value) {
            acknowledged = value + 1;
            got++;
        }
        kill(pid, SIGKILL);
        while (read(fds[0], &value, sizeof value) == sizeof value)
            acknowledged = value + 1;
        close(fds[0]);
        waitpid(pid, NULL, 0);
        assert_int_equal(open_db(f, f->data, &f->db, NULL), 0);
        for (unsigned i = 0; i < acknowledged; i++) {
            snprintf(name, sizeof name, "k%u", i);
            assert_true(has_repo(f->db, name));
        }
        snprintf(name, sizeof name, "k%u", acknowledged);
        next = acknowledged + (has_repo(f->db, name) ? 1 : 0); /* done, but not yet said */
        was = dump(f->db);
        f->db = pl_db_close(f->db);
        snprintf(other, sizeof other, "%s/recovered%d", f->dir, round);
        assert_int_equal(open_db(f, other, &recovered, NULL), 0);
        is = dump(recovered);
        pl_db_close(recovered);
        assert_memory_equal(was, is, (size_t)(strstr(was, "log_hash") - was));
        free(was);
        free(is);
        acknowledged = next;
    }
    assert_int_equal(open_db(f, f->data, &f->db, NULL), 0);
}

/* `arg`: how many. */
static int write_events(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = 0;

    for (int i = 0; i < *(int *)arg && r == 0; i++)
        r = pl_tx_event(tx, "test", json_pack("{s:i}", "n", i), err);
    return r;
}

static int age_events(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err, "UPDATE event SET at_us = 1 WHERE id <= ?", "i", (int64_t) * (int *)arg);

    return PL_MIN(r, 0);
}

static int64_t event_at(struct fixture *f, const char *which)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(f->db);
    char sql[64];
    int64_t id = -1;

    snprintf(sql, sizeof sql, "SELECT %s(id) FROM event", which);
    assert_int_equal(pl_sql_int(rd.conn, NULL, &id, sql, ""), 0);
    return id;
}

static void test_events_that_are_too_old_go_and_no_id_comes_twice(void **state)
{
    struct fixture *f = *state;
    int many = 5000, old = 3000, all = 10001, one = 1;

    assert_int_equal(pl_db_run(f->db, PL_TX_UNLOGGED, write_events, &many, NULL), 0);
    assert_int_equal(pl_db_run(f->db, PL_TX_UNLOGGED, age_events, &old, NULL), 0);
    assert_int_equal(pl_db_run(f->db, PL_TX_UNLOGGED, write_events, &many, NULL), 0); /* so many made, it is looked */
    assert_int_equal(event_at(f, "min"), old + 1);
    assert_int_equal(event_at(f, "max"), 2 * many);
    assert_int_equal(pl_db_run(f->db, PL_TX_UNLOGGED, age_events, &all, NULL), 0);
    assert_int_equal(pl_db_run(f->db, PL_TX_UNLOGGED, write_events, &many, NULL), 0);
    assert_int_equal(event_at(f, "min"), 2 * many + 1);
    assert_int_equal(pl_db_run(f->db, PL_TX_UNLOGGED, write_events, &one, NULL), 0);
    assert_int_equal(event_at(f, "max"), 3 * many + 1);
}

/* As the engine asks: a pod's attempts get their image by the pod, not by a look at all attempts. */
static void test_attempts_without_their_image_are_found_by_their_worker(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(f->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

    assert_int_equal(
        pl_sql_query(rd.conn, NULL, &rows,
                     "EXPLAIN QUERY PLAN UPDATE attempt SET detail = json_set(detail, '$.image_id', 'i'), unnamed = NULL"
                     " WHERE unnamed = 2 AND job >= 1",
                     ""),
        0);
    assert_int_equal(pl_sql_next(rd.conn, &rows, NULL), 1);
    assert_string_equal(pl_col_text(&rows, 3), "SEARCH attempt USING COVERING INDEX attempt_unnamed (unnamed=? AND job>?)");
    assert_int_equal(pl_sql_next(rd.conn, &rows, NULL), 0);
}

/* As the engine asks of each stage of a version that had nothing to run: however many runs came since. */
static void test_the_last_run_before_a_record_is_found_without_a_look_at_those_behind(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(f->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

    assert_int_equal(
        pl_sql_query(rd.conn, NULL, &rows,
                     "EXPLAIN QUERY PLAN SELECT r.ord + 1 FROM run r WHERE r.seq < 7 ORDER BY r.seq DESC, r.ord DESC LIMIT 1",
                     ""),
        0);
    assert_int_equal(pl_sql_next(rd.conn, &rows, NULL), 1);
    assert_string_equal(pl_col_text(&rows, 3), "SEARCH r USING COVERING INDEX run_by_seq (seq<?)");
    assert_int_equal(pl_sql_next(rd.conn, &rows, NULL), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_the_last_run_before_a_record_is_found_without_a_look_at_those_behind),
        T(test_a_transaction_is_there_after_reopening),
        T(test_a_refused_transaction_leaves_nothing_and_no_log_object),
        T(test_an_empty_folder_and_a_store_with_a_log_give_the_same_database),
        T(test_a_second_daemon_on_the_folder_is_refused),
        T(test_the_lock_of_a_killed_daemon_is_waited_for),
        T(test_a_stale_daemon_is_fenced_by_the_log),
        T(test_a_daemon_that_starts_fences_one_that_writes_all_the_time),
        T(test_a_full_disk_fails_the_transaction_and_nothing_else),
        T(test_a_database_of_a_newer_program_is_refused),
        T(test_a_database_ahead_of_the_log_or_of_another_one_is_refused),
        T(test_transactions_of_a_group_see_each_other_and_share_log_objects),
        T(test_a_group_that_sqlite_gives_up_fails_whole_and_leaves_no_log_object),
        T(test_what_does_not_fit_one_log_object_goes_into_the_next),
        T(test_a_database_without_our_schema_is_refused),
        T(test_a_database_of_an_older_program_is_brought_to_this_one_s),
        T(test_events_that_are_too_old_go_and_no_id_comes_twice),
        T(test_attempts_without_their_image_are_found_by_their_worker),
        T(test_what_was_acknowledged_survives_kill_9_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
