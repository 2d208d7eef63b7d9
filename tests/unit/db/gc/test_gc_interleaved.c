// link: pipelined/db/gc pipelined/db/open_commits pipelined/db/pipelines pipelined/db/retention pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Garbage collection when something comes between two of its steps: a pin, a failure of the disk, somebody who asks or commits; and what it
 * does about what is damaged, not durable, or not read back. */
#include "tests/support/faults/seeded_run.h"

#include "tests/unit/db/gc/gc_actors_jobs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#define WRITER_S 30 /* it takes milliseconds, or for ever */

/* ---- a round, and what comes in its middle ---- */

struct meanwhile {
    struct gc_world *g;
    void (*once)(struct meanwhile *m); /* when the roots are known, before anything follows from them */
    struct pl_upload_session_args *session;
    struct pl_hash pack;
    struct pl_buf *ops;
};

static bool call_once(void *self)
{
    struct meanwhile *m = self;
    void (*once)(struct meanwhile *) = m->once;

    m->once = NULL;
    if (once)
        once(m);
    return false;
}

static int round_with(struct gc_world *g, const struct pl_gc_watch *watch, struct pl_gc_round *ret, struct pl_err *err)
{
    int r;

    *ret = (struct pl_gc_round){.db = g->w.db,
                                .stores = g->w.stores,
                                .project = "default",
                                .watch = *watch,
                                .may_doom = true,
                                .condemned_at = g->condemned_at,
                                .removed = &g->removed};
    r = pl_gc_collect(ret, err);
    g->condemned_at = ret->condemned_at;
    return r;
}

static int round_beside(struct gc_world *g, struct meanwhile *m, struct pl_gc_round *ret, struct pl_err *err)
{
    return round_with(g, &(struct pl_gc_watch){.stop = call_once, .self = m}, ret, err);
}

/* A chunk in a pack of its own, which no commit names. */
static struct pl_hash bring_chunk(struct gc_world *g, struct pl_buf *ops, struct pl_location *ret)
{
    struct pl_tree_op *list;
    struct pl_hash chunk;
    struct pl_err err = {0};
    size_t n;

    assert_ok(world_ops(&g->w, "default", "+x:1000", 7, ops, &err), &err);
    assert_ok(pl_tree_ops_read(ops->data, ops->len, &list, &n, &err), &err);
    chunk = list[0].entry.id;
    free(list);
    assert_ok(pl_store_locate(store_of(g), &chunk, ret, &err), &err);
    return chunk;
}

static void assert_reads(struct gc_world *g, const struct pl_hash *chunk)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_err err = {0};

    assert_ok(pl_store_get(store_of(g), chunk, PL_REC_CHUNK, &bytes, &err), &err);
}

static int64_t states(struct gc_world *g)
{
    return count(g, "SELECT count(*) FROM pack_state");
}

/* ---- pins ---- */

static void pin_it(struct meanwhile *m)
{
    struct pl_err err = {0};

    m->session->packs = &m->pack;
    m->session->n = 1;
    assert_ok(pl_db_run(m->g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_pin, m->session, &err), &err);
}

static void test_what_is_pinned_after_the_mark_is_not_condemned_and_shown_as_before(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s;
    struct meanwhile m = {.g = g, .once = pin_it, .session = &s};
    struct pl_gc_round round;
    struct pl_location at;
    struct pl_buf ops = {0};
    struct pl_hash chunk;
    struct pl_err err = {0};

    push(g, "+a:100", 1);
    chunk = bring_chunk(g, &ops, &at);
    s = open_session(g);
    m.pack = at.pack;
    assert_ok(round_beside(g, &m, &round, &err), &err);
    assert_null(m.once);
    assert_int_equal(states(g), 0);
    assert_true(pl_store_has(store_of(g), &chunk));
    pl_buf_finish(&ops);
}

static void test_what_is_pinned_after_the_mark_is_not_doomed_and_not_removed(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s;
    struct meanwhile m = {.g = g, .once = pin_it, .session = &s};
    struct pl_gc_round round;
    struct pl_location at;
    struct pl_buf ops = {0};
    struct pl_hash chunk;
    struct pl_err err = {0};
    size_t there;

    push(g, "+a:100", 1);
    chunk = bring_chunk(g, &ops, &at);
    one_round(g);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state WHERE state = 'condemned'"), 1);
    there = packs_there(g);
    s = open_session(g); /* it came later: it is not waited for */
    m.pack = at.pack;
    assert_ok(round_beside(g, &m, &round, &err), &err);
    assert_null(m.once);
    assert_int_equal(packs_there(g), there);
    assert_reads(g, &chunk);
    close_session(g, &s);
    assert_int_equal(collect(g), 1);
    pl_buf_finish(&ops);
}

/* ---- the log cannot be written ---- */

static void fail_the_next_write(struct meanwhile *m)
{
    (void)m;
    pl_io_fail_nth(PL_IO_WRITE, 1, EIO);
}

static void test_a_doom_that_is_not_logged_did_not_happen(void **state)
{
    struct gc_world *g = *state;
    struct meanwhile m = {.g = g, .once = fail_the_next_write};
    struct pl_gc_round round;
    struct pl_location at;
    struct pl_buf ops = {0};
    struct pl_hash chunk;
    struct pl_err err = {0};
    size_t there;

    push(g, "+a:100", 1);
    chunk = bring_chunk(g, &ops, &at);
    one_round(g);
    there = packs_there(g);
    assert_int_equal(round_beside(g, &m, &round, &err), PL_EIO);
    assert_int_equal(packs_there(g), there);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state WHERE state = 'condemned'"), 1);
    assert_reads(g, &chunk); /* as before */
    assert_false(pl_store_has(store_of(g), &chunk));
    assert_int_equal(collect(g), 1);
    pl_buf_finish(&ops);
}

/* ---- who asks while it is being condemned ---- */

struct writer_stop {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool in, out;
};

static int stop_writer(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct writer_stop *w = arg;

    (void)tx;
    (void)err;
    pthread_mutex_lock(&w->lock);
    w->in = true;
    pthread_cond_broadcast(&w->cond);
    while (!w->out)
        pthread_cond_wait(&w->cond, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

static void *collect_main(void *arg)
{
    struct pl_gc_round round;

    return (void *)(intptr_t)try_round(arg, &round, NULL);
}

static bool is_hidden_in_time(struct gc_world *g, const struct pl_hash *chunk)
{
    int64_t until_ms = pl_clock_mono_ms() + WRITER_S * 1000;

    while (pl_store_has(store_of(g), chunk) && pl_clock_mono_ms() < until_ms)
        sched_yield();
    return !pl_store_has(store_of(g), chunk);
}

/* I5: else somebody would be told of it just before it is condemned. */
static void test_nobody_is_told_of_what_is_about_to_be_condemned(void **state)
{
    struct gc_world *g = *state;
    struct writer_stop stop = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct pl_location at;
    struct pl_buf ops = {0};
    struct pl_hash chunk = bring_chunk(g, &ops, &at);
    pthread_t collector;
    struct pl_err err = {0};
    bool hidden;
    void *r;

    assert_ok(pl_db_submit(g->w.db, PL_TX_UNLOGGED, stop_writer, NULL, &stop, &err), &err);
    pthread_mutex_lock(&stop.lock);
    while (!stop.in)
        pthread_cond_wait(&stop.cond, &stop.lock);
    pthread_mutex_unlock(&stop.lock);
    assert_true(pl_store_has(store_of(g), &chunk));
    assert_int_equal(pthread_create(&collector, NULL, collect_main, g), 0);
    hidden = is_hidden_in_time(g, &chunk);
    pthread_mutex_lock(&stop.lock);
    stop.out = true;
    pthread_cond_broadcast(&stop.cond);
    pthread_mutex_unlock(&stop.lock);
    pthread_join(collector, &r);
    assert_true(hidden);
    assert_int_equal((intptr_t)r, 0);
    pl_buf_finish(&ops);
}

/* ---- what is needed moves while roots are read ---- */

static struct meanwhile *mover;

static int on_statement(unsigned what, void *arg, void *statement, void *text)
{
    (void)what;
    (void)arg;
    (void)text;
    if (mover && strstr(sqlite3_sql(statement), "FROM result r JOIN job"))
        call_once(mover);
    return 0;
}

static int trace_connection(sqlite3 *db, const char **message, const void *routines)
{
    (void)message;
    (void)routines;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

/* What was a job's result is a commit's from now on. */
static void make_a_commit_of_it(struct meanwhile *m)
{
    struct pl_err err = {0};

    assert_ok(push_ops(m->g, m->ops, &err), &err);
    assert_ok(pl_db_run(m->g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"DELETE FROM result", &err), &err);
}

static void begin_job_with_result(struct gc_world *g, struct slot *s)
{
    struct pl_job_args job = {.run = s->id, .project = "default", .stage = "train", .state = "running", .inputs = s->inputs};
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_job_progress, &job, &err), &err);
    if (s->ops.len)
        assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, write_result, s, &err), &err);
}

static void test_roots_are_those_of_one_moment(void **state)
{
    struct gc_world *g = *state;
    struct slot s = {.id = "0123456789abcdef0123456789abcdef"};
    struct meanwhile m = {.g = g, .once = make_a_commit_of_it, .ops = &s.ops};
    struct pl_gc_round round;
    struct pl_location at;
    struct pl_hash chunk;
    struct pl_err err = {0};
    int r;

    push(g, "+a:100", 1);
    chunk = bring_chunk(g, &s.ops, &at);
    begin_job_with_result(g, &s);
    mover = &m;
    assert_int_equal(sqlite3_auto_extension((void (*)(void))trace_connection), SQLITE_OK);
    r = try_round(g, &round, &err);
    sqlite3_reset_auto_extension();
    mover = NULL;
    assert_ok(r, &err);
    assert_null(m.once);
    assert_int_equal(states(g), 0);
    assert_true(pl_store_has(store_of(g), &chunk));
    pl_buf_finish(&s.ops);
}

/* ---- jobs ---- */

static struct pl_hash newest_root(struct gc_world *g)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(g->w.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_err err = {0};

    assert_ok(pl_sql_query(rd.conn, &err, &rows, "SELECT root FROM commit_ ORDER BY id DESC LIMIT 1", ""), &err);
    assert_int_equal(pl_sql_next(rd.conn, &rows, &err), 1);
    return pl_col_hash(&rows, 0);
}

static void test_what_a_job_reads_stays_until_it_has_ended(void **state)
{
    struct gc_world *g = *state;
    struct slot s = {.id = "0123456789abcdef0123456789abcdef"};
    struct pl_location at;
    struct pl_hash root, chunk;
    char hex[PL_HASH_HEX + 1];
    struct pl_err err = {0};

    push(g, "+a:100", 1);
    chunk = bring_chunk(g, &s.ops, &at);
    assert_ok(push_ops(g, &s.ops, &err), &err);
    pl_buf_finish(&s.ops);
    root = newest_root(g);
    s.inputs = json_pack("[{s:s, s:s, s:s, s:s}]", "project", "default", "repo", "digits", "commit", "", "root",
                         pl_hash_hex(&root, hex));
    begin_job_with_result(g, &s);
    delete_head(g);
    collect(g);
    start_anew(g); /* nothing is in a cache */
    assert_ok(pl_store_locate(store_of(g), &root, &at, &err), &err);
    assert_reads(g, &chunk);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"UPDATE job SET final = 1", &err), &err);
    collect(g);
    assert_int_equal(pl_store_locate(store_of(g), &chunk, &at, NULL), PL_ENOTFOUND);
    json_decref(s.inputs);
}

/* ---- what is not durable ---- */

/* The same record in another pack, the name of which no flush has seen. */
static void put_again_unflushed(struct gc_world *g, const struct pl_hash *chunk)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_pack_sink sink = pl_store_sink(store_of(g));
    struct pl_hash id;
    struct pl_err err = {0};

    sink.has = NULL;
    sink.flush = NULL;
    assert_ok(pl_store_get(store_of(g), chunk, PL_REC_CHUNK, &bytes, &err), &err);
    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    assert_ok(pl_pack_builder_add(session, PL_REC_CHUNK, bytes.data, bytes.len, &id, &err), &err);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
}

static void test_nothing_goes_for_the_sake_of_what_is_not_durable(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_round round;
    struct pl_location at;
    struct pl_buf ops = {0};
    struct pl_hash chunk = bring_chunk(g, &ops, &at);
    struct pl_err err = {0};

    assert_ok(push_ops(g, &ops, &err), &err);
    put_again_unflushed(g, &chunk);
    pl_io_fail_nth(PL_IO_FSYNC, 1, EIO);
    assert_int_equal(try_round(g, &round, &err), PL_EIO);
    assert_non_null(strstr(err.msg, "/p/default")); /* its folder is the first that is synced: before the log */
    assert_int_equal(states(g), 0);
    one_round(g);
    assert_int_equal(states(g), 1);
    pl_buf_finish(&ops);
}

static void fail_the_third_sync(void *self, const char *phase, uint64_t done, uint64_t all)
{
    (void)self;
    (void)done;
    (void)all;
    if (pl_streq(phase, "copy"))
        pl_io_fail_nth(PL_IO_FSYNC, 3, EIO);
}

static void test_nothing_goes_for_the_sake_of_copies_that_are_not_durable(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_round round;
    struct pl_err err = {0};

    push(g, "+keep:70000 +x1:200000 +x2:200001 +x3:200002", 1);
    push(g, "-x1 -x2 -x3", 2);
    drop_first_commit(g);
    /* a pack of data, one of lists; then their folders, and the log after those */
    assert_int_equal(round_with(g, &(struct pl_gc_watch){.note = fail_the_third_sync}, &round, &err), PL_EIO);
    assert_non_null(strstr(err.msg, "/p/default"));
    collect(g);
    assert_whole(g);
}

/* ---- what is damaged ---- */

static struct pl_hash chunk_of(struct gc_world *g, const char *text, size_t step)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_tree_op *list;
    struct pl_hash chunk;
    struct pl_err err = {0};
    size_t n;

    assert_ok(world_ops(&g->w, "default", text, step, &ops, &err), &err);
    assert_ok(pl_tree_ops_read(ops.data, ops.len, &list, &n, &err), &err);
    chunk = list[0].entry.id;
    free(list);
    return chunk;
}

static void damage(struct gc_world *g, const struct pl_location *at)
{
    char key[PL_PACK_KEY_BYTES], path[PATH_MAX];
    uint8_t byte;
    int fd;

    snprintf(path, sizeof path, "%s/%s", fixture_path(g->w.dir, "store"), pl_pack_key("default", &at->pack, key));
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at->offset + PL_PACK_RECORD_BYTES + at->stored / 2), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at->offset + PL_PACK_RECORD_BYTES + at->stored / 2), 1);
    close(fd);
}

static void assert_state(struct gc_world *g, const struct pl_hash *pack, const char *want)
{
    char now[PL_GC_STATE_BYTES];

    assert_int_equal(pl_pack_state_read(g->w.db, "default", pack, now, NULL), 0);
    assert_string_equal(now, want);
}

static void test_a_damaged_pack_of_little_use_stays_and_others_are_copied(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_round round;
    struct pl_location hurt, whole;
    struct pl_hash chunk;
    struct pl_err err = {0};

    push(g, "+bad:60000 +more:50000 +x1:200000 +x2:200001", 1);
    push(g, "+good:60000 +y1:200000 +y2:200001", 2);
    push(g, "-x1 -x2 -y1 -y2", 3);
    chunk = chunk_of(g, "+bad:60000", 1);
    assert_ok(pl_store_locate(store_of(g), &chunk, &hurt, &err), &err);
    damage(g, &hurt);
    chunk = chunk_of(g, "+good:60000", 2);
    assert_ok(pl_store_locate(store_of(g), &chunk, &whole, &err), &err);
    drop_first_commit(g);
    drop_first_commit(g);
    round = one_round(g);
    assert_true(round.sums.copied_packs > 0);
    assert_state(g, &hurt.pack, "");
    assert_state(g, &whole.pack, PL_PACK_CONDEMNED);
    collect(g);
    chunk = chunk_of(g, "+more:50000", 1);
    assert_reads(g, &chunk);
}

/* ---- what was not read back ---- */

static int put_unread(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT INTO brought_pack(project, pack, session, writer, bytes, at_us, state)"
                        " VALUES ('default', ?, '', 'ada', 1, 1, 'unread')",
                        "h", arg);

    return PL_MIN(r, 0);
}

static void doubt(struct gc_world *g, struct pl_hash *pack)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, put_unread, pack, &err), &err);
    pl_store_set_unread(store_of(g), pack, true);
}

/* It came again by another way when it was condemned: it has to be read before it is known whether it is needed, for the other one with the
 * same record may lie. */
static void test_a_condemned_pack_that_came_again_does_not_go_before_it_is_read(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s = open_session(g);
    struct pl_location at;
    struct pl_buf ops = {0};
    struct pl_hash chunk = bring_chunk(g, &ops, &at), good = at.pack, liar;
    struct pl_err err = {0};

    one_round(g);
    assert_state(g, &good, PL_PACK_CONDEMNED);
    put_again_unflushed(g, &chunk);
    assert_ok(pl_store_locate(store_of(g), &chunk, &at, &err), &err);
    liar = at.pack;
    doubt(g, &good);
    doubt(g, &liar);
    assert_ok(push_ops(g, &ops, &err), &err);
    close_session(g, &s);
    collect(g);
    assert_state(g, &good, PL_PACK_CONDEMNED);
    pl_store_set_unread(store_of(g), &good, false);
    pl_store_drop_pack(store_of(g), &liar);
    collect(g);
    assert_state(g, &good, "");
    assert_true(pl_store_has(store_of(g), &chunk));
    assert_reads(g, &chunk);
    pl_buf_finish(&ops);
}

static int teardown_between(void **state)
{
    for (int call = 0; call < PL_IO_CALLS; call++)
        pl_io_fail_nth((enum pl_io_call)call, 0, 0);
    return teardown(state);
}

int main(void)
{
#define GC(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown_between)
    const struct CMUnitTest tests[] = {
        GC(what_is_pinned_after_the_mark_is_not_condemned_and_shown_as_before),
        GC(what_is_pinned_after_the_mark_is_not_doomed_and_not_removed),
        GC(a_doom_that_is_not_logged_did_not_happen),
        GC(nobody_is_told_of_what_is_about_to_be_condemned),
        GC(roots_are_those_of_one_moment),
        GC(what_a_job_reads_stays_until_it_has_ended),
        GC(nothing_goes_for_the_sake_of_what_is_not_durable),
        GC(nothing_goes_for_the_sake_of_copies_that_are_not_durable),
        GC(a_damaged_pack_of_little_use_stays_and_others_are_copied),
        GC(a_condemned_pack_that_came_again_does_not_go_before_it_is_read),
    };
#undef GC

    return cmocka_run_group_tests(tests, NULL, NULL);
}
