// link: pipelined/db/gc pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Garbage collection over a real store and database, step by step: what goes, what stays, who is waited for. */
#include "tests/unit/db/gc/gc_world.h"

/* ---- what goes, what stays ---- */

static void test_what_a_deleted_commit_alone_named_goes(void **state)
{
    struct gc_world *g = *state;
    size_t before;

    push(g, "+a:300000 +b:3000", 1);
    before = packs_there(g);
    push(g, "+c:200000", 2);
    assert_true(packs_there(g) > before);
    assert_int_equal(collect(g), 0);
    delete_head(g);
    assert_true(collect(g) > 0);
    assert_int_equal(packs_there(g), before);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state WHERE state <> 'doomed'"), 0);
    assert_whole(g);
}

static void test_a_deleted_repo_gives_all_its_space_back(void **state)
{
    struct gc_world *g = *state;
    struct pl_repo_args repo = {.project = "default", .name = "digits"};
    struct pl_err err = {0};

    push(g, "+a:300000", 1);
    push(g, "+a:300001", 2);
    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, &err), &err);
    collect(g);
    assert_int_equal(packs_there(g), 0);
}

static void test_what_nobody_ever_committed_goes(void **state)
{
    struct gc_world *g = *state;
    struct pl_buf ops = {0};
    struct pl_err err = {0};

    assert_ok(world_ops(&g->w, "default", "+x:100000", 7, &ops, &err), &err);
    pl_buf_finish(&ops);
    assert_int_equal(packs_there(g), 1);
    assert_int_equal(collect(g), 1);
    assert_int_equal(packs_there(g), 0);
}

static void test_a_node_that_cannot_be_read_stops_it_before_anything_goes(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_round round;
    struct pl_hash *packs;
    struct pl_err err = {0};
    size_t n;

    push(g, "+a:100", 1);
    push(g, "+b:100", 2);
    delete_head(g);
    start_anew(g); /* nothing is in a cache */
    assert_ok(pl_store_packs(store_of(g), &packs, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        pl_store_set_seen(store_of(g), &packs[i], PL_PACK_DROPPED);
    free(packs);
    assert_int_equal(try_round(g, &round, &err), PL_ECORRUPT);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), 0);
    start_anew(g);
    assert_whole(g);
}

/* `busy`: 0 when no reader stands in the way of the WAL, while it marks. */
struct looking_on {
    struct gc_world *g;
    int64_t busy;
};

static void empty_the_wal(void *self, const char *phase, uint64_t done, uint64_t all)
{
    struct looking_on *l = self;
    char path[PATH_MAX];
    struct pl_conn *conn;

    (void)done;
    (void)all;
    if (!pl_streq(phase, "mark") || l->busy == 0)
        return;
    snprintf(path, sizeof path, "%s/data/pipelined.db", l->g->w.dir);
    assert_int_equal(pl_conn_open(path, false, &conn, NULL), 0);
    assert_int_equal(pl_sql_int(conn, NULL, &l->busy, "PRAGMA wal_checkpoint(TRUNCATE)", ""), 0);
    pl_conn_close(conn);
}

static void test_the_wal_can_shrink_while_it_marks(void **state)
{
    struct gc_world *g = *state;
    struct looking_on looking = {.g = g, .busy = -1};
    struct pl_gc_round round = {.db = g->w.db,
                                .stores = g->w.stores,
                                .project = "default",
                                .watch = {.note = empty_the_wal, .self = &looking},
                                .removed = &g->removed};
    struct pl_err err = {0};

    push(g, "+a:3000", 1);
    push(g, "+b:3000", 2);
    assert_ok(pl_gc_collect(&round, &err), &err);
    assert_int_equal(looking.busy, 0);
    pl_gc_report_finish(&round.sums);
}

/* ---- who is waited for ---- */

static void assert_waits(struct gc_world *g, size_t there)
{
    struct pl_gc_round round = one_round(g);

    assert_false(round.again);
    assert_true(round.waiting);
    round = one_round(g);
    assert_true(round.waiting);
    assert_true(round.sums.waiting_packs > 0 && round.sums.waiting_bytes > 0);
    assert_int_equal(round.sums.freed_packs, 0);
    assert_int_equal(packs_there(g), there);
}

static void test_a_session_that_was_there_is_waited_for(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s;
    size_t there;

    push(g, "+a:300000", 1);
    s = open_session(g);
    delete_head(g);
    there = packs_there(g);
    assert_waits(g, there);
    close_session(g, &s);
    assert_int_equal(collect(g), there);
    assert_int_equal(packs_there(g), 0);
}

static void test_a_session_that_came_later_is_not(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s = open_session(g), later;

    push(g, "+a:300000", 1);
    delete_head(g);
    one_round(g);
    later = open_session(g);
    close_session(g, &s);
    collect(g);
    assert_int_equal(packs_there(g), 0);
    close_session(g, &later);
}

static void test_a_session_whose_lease_has_run_out_is_not(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s = {.project = "default", .kind = "write", .lease_us = 1};
    struct pl_err err = {0};

    push(g, "+a:300000", 1);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_open, &s, &err), &err);
    delete_head(g);
    collect(g);
    assert_int_equal(packs_there(g), 0);
    assert_int_equal(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_renew, &s, &err), PL_ENOTFOUND);
    assert_int_equal(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_pin, &s, &err), PL_ENOTFOUND);
}

/* A job of the project "mine" reads a repo of the project "default". */
static void test_a_leased_task_of_another_project_that_reads_this_one_is_waited_for(void **state)
{
    static char job[] = "INSERT INTO job(run, project, stage, version, pipeline, state, inputs, created_us) VALUES"
                        " ('0123', 'mine', 's', 1, 'flow', 'running', '[{\"project\": \"default\", \"root\": \"\"}]', 1)",
                lease[] = "INSERT INTO lease(task, fence, job, worker, rows, failures, losses, seq)"
                          " SELECT 1, 1, j.id, 1, '[]', 0, 0, m.value FROM job j JOIN meta m ON m.key = 'log_seq'",
                end[] = "DELETE FROM lease";
    struct gc_world *g = *state;
    struct pl_err err = {0};

    push(g, "+a:300000", 1);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, job, &err), &err);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, lease, &err), &err);
    delete_head(g);
    collect(g);
    assert_int_not_equal(packs_there(g), 0);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, end, &err), &err);
    collect(g);
    assert_int_equal(packs_there(g), 0);
}

static void test_a_long_session_holds_up_its_pins_alone(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s = open_session(g);
    struct pl_hash *packs;
    struct pl_err err = {0};
    size_t n;

    push(g, "+a:300000", 1);
    assert_ok(pl_store_packs(store_of(g), &packs, &n, &err), &err);
    s.packs = packs;
    s.n = 1;
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_pin, &s, &err), &err);
    delete_head(g);
    one_round(g);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), (int64_t)n - 1); /* what is pinned is not condemned */
    /* the first renewal notes where the log is, the second one moves the session there */
    for (int i = 0; i < 2; i++) {
        collect(g);
        assert_int_equal(packs_there(g), n);
        assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_renew, &s, &err), &err);
    }
    collect(g);
    assert_int_equal(packs_there(g), 1);
    close_session(g, &s);
    collect(g);
    assert_int_equal(packs_there(g), 0);
    free(packs);
}

static void test_a_hold_that_was_there_is_waited_for(void **state)
{
    struct gc_world *g = *state;
    struct pl_store_hold hold = {0}, later = {0};
    size_t there;

    push(g, "+a:300000", 1);
    pl_store_hold(store_of(g), &hold);
    delete_head(g);
    there = packs_there(g);
    assert_waits(g, there);
    pl_store_hold(store_of(g), &later);
    pl_store_release(&hold);
    collect(g);
    assert_int_equal(packs_there(g), 0);
    pl_store_release(&later);
}

static void test_what_came_under_a_hold_is_not_judged(void **state)
{
    struct gc_world *g = *state;
    struct pl_store_hold hold = {0};
    struct pl_buf ops = {0};
    struct pl_err err = {0};

    pl_store_hold(store_of(g), &hold);
    assert_ok(world_ops(&g->w, "default", "+x:100000", 7, &ops, &err), &err);
    one_round(g);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), 0);
    pl_store_release(&hold);
    pl_buf_finish(&ops);
}

/* A job that runs, with a task that was leased just now. */
static void begin_task(struct gc_world *g)
{
    struct pl_job_args job = {.run = "0123456789abcdef0123456789abcdef",
                              .project = "default",
                              .stage = "train",
                              .pipeline = "flow",
                              .version = 1,
                              .state = "running",
                              .created_us = 1};
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_job_progress, &job, &err), &err);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql,
                        (void *)"INSERT INTO lease(task, fence, job, worker, rows, failures, losses, seq, renewed_seq)"
                                " SELECT 1, 1, (SELECT id FROM job), 1, '[]', 0, 0, s, s"
                                " FROM (SELECT CAST(value AS INTEGER) AS s FROM meta WHERE key = 'log_seq')",
                        &err),
              &err);
}

/* Its worker says, so often, that all it was told it was told in that session. */
static void say_told(struct gc_world *g, const char *session, int times)
{
    struct pl_lease_pin leases[] = {{.task = 1, .fence = 1}, {.task = 2, .fence = 7}};
    struct pl_lease_pin_args args = {.project = "default", .leases = leases, .n = PL_ARRAY_SIZE(leases)};
    struct pl_err err = {0};

    for (size_t i = 0; i < args.n; i++)
        snprintf(leases[i].session, sizeof leases[i].session, "%s", session);
    for (int i = 0; i < times; i++)
        assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_lease_renew_pins, &args, &err), &err);
}

static void test_a_task_that_was_leased_is_waited_for(void **state)
{
    struct gc_world *g = *state;
    struct pl_err err = {0};
    size_t there;

    push(g, "+a:300000", 1);
    begin_task(g);
    delete_head(g);
    there = packs_there(g);
    assert_waits(g, there);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"DELETE FROM lease", &err), &err);
    collect(g);
    assert_int_equal(packs_there(g), 0);
}

static void test_a_long_task_holds_up_the_pins_of_its_session_alone(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s = open_session(g);
    struct pl_hash *packs;
    struct pl_err err = {0};
    size_t n;

    push(g, "+a:300000", 1);
    begin_task(g);
    assert_ok(pl_store_packs(store_of(g), &packs, &n, &err), &err);
    s.packs = packs;
    s.n = 1;
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_pin, &s, &err), &err);
    delete_head(g);
    say_told(g, s.id, 1);
    assert_waits(g, n); /* it is noted where the log is: next time it has come that far */
    say_told(g, s.id, 1);
    collect(g);
    assert_int_equal(packs_there(g), n);
    say_told(g, s.id, 1);
    collect(g);
    assert_int_equal(packs_there(g), 1);
    close_session(g, &s);
    assert_waits(g, 1);
    say_told(g, s.id, 3); /* what it was told is pinned no more */
    assert_waits(g, 1);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"DELETE FROM lease", &err), &err);
    collect(g);
    assert_int_equal(packs_there(g), 0);
    free(packs);
}

/* The answer was on its way when the pack was condemned; until a mark has met its pin only the lease keeps it. */
static void test_a_long_task_holds_up_what_was_condemned_before_it_was_pinned(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s = open_session(g);
    struct pl_hash *packs;
    struct pl_err err = {0};
    size_t n;

    push(g, "+a:300000", 1);
    begin_task(g);
    assert_ok(pl_store_packs(store_of(g), &packs, &n, &err), &err);
    delete_head(g);
    one_round(g);
    s.packs = packs;
    s.n = 1;
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_pin, &s, &err), &err);
    say_told(g, s.id, 3);
    close_session(g, &s);
    assert_waits(g, n);
    free(packs);
}

static void test_a_long_task_that_was_told_nothing_holds_up_nothing(void **state)
{
    struct gc_world *g = *state;

    push(g, "+a:300000", 1);
    begin_task(g);
    delete_head(g);
    assert_waits(g, packs_there(g));
    say_told(g, "", 2);
    collect(g);
    assert_int_equal(packs_there(g), 0);
}

static void test_nothing_is_doomed_while_sessions_may_be_unknown(void **state)
{
    struct gc_world *g = *state;

    push(g, "+a:300000", 1);
    delete_head(g);
    g->may_doom = false;
    assert_waits(g, packs_there(g));
    g->may_doom = true;
    collect(g);
    assert_int_equal(packs_there(g), 0);
}

/* ---- what is condemned ---- */

/* One chunk of a file, which is condemned when this returns, and the operation that puts it. */
static struct pl_hash condemned_chunk(struct gc_world *g, struct pl_upload_session_args *s, struct pl_buf *ops)
{
    struct pl_tree_op *list;
    struct pl_hash chunk;
    struct pl_err err = {0};
    size_t n;

    assert_ok(world_ops(&g->w, "default", "+x:1000", 7, ops, &err), &err);
    assert_ok(pl_tree_ops_read(ops->data, ops->len, &list, &n, &err), &err);
    chunk = list[0].entry.id;
    free(list);
    *s = open_session(g); /* so that it is not doomed at once */
    assert_true(pl_store_has(store_of(g), &chunk));
    one_round(g);
    return chunk;
}

static void test_who_asks_is_not_shown_what_is_condemned_and_who_reads_is(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s;
    struct pl_buf ops = {0}, bytes = {0};
    struct pl_hash chunk = condemned_chunk(g, &s, &ops);
    struct pl_err err = {0};
    uint8_t bits = 0xFF;

    for (int again = 0; again < 2; again++) { /* the same after a start */
        assert_false(pl_store_has(store_of(g), &chunk));
        pl_store_has_many(store_of(g), &chunk, 1, &bits, NULL);
        assert_int_equal(bits, 0);
        assert_ok(pl_store_get(store_of(g), &chunk, PL_REC_CHUNK, &bytes, &err), &err);
        start_anew(g);
    }
    pl_buf_finish(&bytes);
    pl_buf_finish(&ops);
}

static void test_a_push_of_what_is_condemned_revives_it(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s;
    struct pl_buf ops = {0};
    struct pl_hash chunk = condemned_chunk(g, &s, &ops);
    struct pl_err err = {0};

    assert_ok(push_ops(g, &ops, &err), &err);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), 0);
    assert_true(pl_store_has(store_of(g), &chunk));
    close_session(g, &s);
    collect(g);
    assert_whole(g);
    pl_buf_finish(&ops);
}

static void test_a_push_of_what_is_gone_is_told_to_bring_it_again(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s;
    struct pl_buf ops = {0};
    struct pl_err err = {0};

    condemned_chunk(g, &s, &ops);
    close_session(g, &s);
    collect(g);
    assert_int_equal(packs_there(g), 0);
    assert_int_equal(push_ops(g, &ops, &err), PL_ERETRY);
    pl_buf_clear(&ops);
    assert_ok(world_ops(&g->w, "default", "+x:1000", 7, &ops, &err), &err);
    assert_ok(push_ops(g, &ops, &err), &err);
    assert_whole(g);
    pl_buf_finish(&ops);
}

static void test_a_second_mark_finds_what_came_to_be_needed(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s;
    struct pl_buf ops = {0};
    struct pl_hash chunk = condemned_chunk(g, &s, &ops);
    struct pl_err err = {0};

    /* as by a worker, whose results are not looked at again */
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql,
                        (void *)"INSERT INTO checkpoint(project, stage, key, root, at_us)"
                                " SELECT 'default', 'train', x'00', zeroblob(32), 1",
                        &err),
              &err);
    assert_ok(push_ops(g, &ops, &err), &err);
    close_session(g, &s);
    assert_int_equal(collect(g), 0);
    assert_true(pl_store_has(store_of(g), &chunk));
    assert_whole(g);
    pl_buf_finish(&ops);
}

/* ---- what was not read back ---- */

static int put_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_hash *pack = arg;
    int r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT INTO brought_pack(project, pack, session, writer, bytes, at_us, state)"
                        " VALUES ('default', ?, '', 'ada', 1, 1, 'unread')",
                        "h", pack);

    return PL_MIN(r, 0);
}

/* Another pack with this record, of which only the footer was read. */
static struct pl_hash bring_unread(struct gc_world *g, const void *bytes, size_t n)
{
    struct pl_pack_sink sink = pl_store_sink(store_of(g));
    struct pl_pack_builder *session;
    struct pl_hash id, pack, chunk;
    struct pl_location at;
    struct pl_err err = {0};

    sink.has = NULL;
    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    assert_ok(pl_pack_builder_add(session, PL_REC_CHUNK, bytes, n, &chunk, &err), &err);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
    pl_pack_builder_close(session);
    id = chunk;
    assert_ok(pl_store_locate(store_of(g), &id, &at, &err), &err); /* the newest that is shown */
    pack = at.pack;
    pl_store_set_unread(store_of(g), &pack, true);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, put_tx, &pack, &err), &err);
    return pack;
}

/* A pack that is condemned and good has what a commit needs, and so has one that may lie: the good one lives again. */
static void test_what_is_good_does_not_go_for_the_sake_of_what_may_lie(void **state)
{
    struct gc_world *g = *state;
    struct pl_buf ops = {0}, bytes = {0};
    struct pl_upload_session_args s;
    struct pl_hash chunk = condemned_chunk(g, &s, &ops), good, unread;
    struct pl_location at;
    struct pl_err err = {0};

    assert_ok(pl_store_locate(store_of(g), &chunk, &at, &err), &err);
    good = at.pack;
    assert_ok(pl_store_get(store_of(g), &chunk, PL_REC_CHUNK, &bytes, &err), &err);
    unread = bring_unread(g, bytes.data, bytes.len);
    assert_ok(push_ops(g, &ops, &err), &err);
    close_session(g, &s);
    collect(g);
    pl_store_drop_pack(store_of(g), &unread); /* it did */
    assert_ok(pl_store_locate(store_of(g), &chunk, &at, &err), &err);
    assert_true(pl_hash_eq(&at.pack, &good));
    assert_true(pl_store_has(store_of(g), &chunk));
    pl_buf_finish(&bytes);
    pl_buf_finish(&ops);
}

/* A mark counts a record in one pack alone: the other would go for its sake. */
static void test_of_two_that_may_lie_neither_goes_before_it_is_read(void **state)
{
    struct gc_world *g = *state;
    struct pl_buf ops = {0}, bytes = {0};
    struct pl_upload_session_args s;
    struct pl_hash chunk = condemned_chunk(g, &s, &ops), good, liar;
    struct pl_location at;
    struct pl_err err = {0};

    assert_ok(pl_store_locate(store_of(g), &chunk, &at, &err), &err);
    good = at.pack;
    assert_ok(pl_store_get(store_of(g), &chunk, PL_REC_CHUNK, &bytes, &err), &err);
    assert_ok(push_ops(g, &ops, &err), &err);
    liar = bring_unread(g, bytes.data, bytes.len);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, put_tx, &good, &err), &err);
    pl_store_set_unread(store_of(g), &good, true);
    close_session(g, &s);
    assert_int_equal(collect(g), 0);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), 0);
    pl_store_set_unread(store_of(g), &good, false);
    pl_store_drop_pack(store_of(g), &liar);
    assert_int_equal(collect(g), 0);
    assert_true(pl_store_has(store_of(g), &chunk));
    pl_buf_finish(&bytes);
    pl_buf_finish(&ops);
}

static void test_an_unread_pack_that_lives_again_is_unread_still_and_so_it_is_after_a_start(void **state)
{
    struct gc_world *g = *state;
    struct pl_buf ops = {0}, bytes = {0};
    struct pl_upload_session_args s;
    struct pl_hash chunk = condemned_chunk(g, &s, &ops), unread;
    struct pl_location at;
    struct pl_err err = {0};

    assert_ok(pl_store_locate(store_of(g), &chunk, &at, &err), &err);
    unread = at.pack;
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, put_tx, &unread, &err), &err);
    pl_store_set_unread(store_of(g), &unread, true);
    assert_ok(push_ops(g, &ops, &err), &err);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), 0);
        assert_ok(pl_store_locate(store_of(g), &chunk, &at, &err), &err);
        assert_true(pl_hash_eq(&at.pack, &unread) && at.unread && !at.hidden);
        assert_false(pl_store_has(store_of(g), &chunk));
        start_anew(g);
    }
    pl_buf_finish(&bytes);
    pl_buf_finish(&ops);
}

/* ---- the writer, for whom others wait ---- */

static void test_a_transaction_that_has_taken_its_time_ends_with_what_it_has(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_change changes[5] = {0};
    struct pl_gc_tx_args args = {.project = "default", .changes = changes, .n = 5, .budget_us = 1};
    struct pl_err err = {0};
    unsigned n = 0;

    for (size_t i = 0; i < 5; i++) {
        memset(changes[i].pack.b, (int)i + 1, PL_HASH_BYTES);
        changes[i].state = PL_PACK_CONDEMNED;
    }
    while (args.n) {
        assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, pl_tx_pack_state, &args, &err), &err);
        assert_in_range(args.seen, 1, args.n);
        for (size_t i = 0; i < args.n; i++)
            assert_int_equal(args.changes[i].done, i < args.seen);
        args.changes += args.seen;
        args.n -= args.seen;
        n++;
    }
    assert_true(n > 1);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), 5);
}

/* Whether somebody has pinned a pack is asked of each pack alone, however many pins and sessions there are. */
static void test_pins_are_found_by_their_pack(void **state)
{
    struct gc_world *g = *state;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(g->w.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_err err = {0};
    int by_pack = 0;

    assert_ok(pl_sql_query(rd.conn, &err, &rows,
                           "EXPLAIN QUERY PLAN SELECT EXISTS (SELECT 1 FROM pin p CROSS JOIN session s ON s.id = p.session"
                           " WHERE p.pack = x'00' AND s.project = 'default' AND s.lease_us >= 1)",
                           ""),
              &err);
    while (pl_sql_next(rd.conn, &rows, &err) > 0) {
        by_pack += strstr(pl_col_text(&rows, 3), "INDEX pin_by_pack") != NULL;
        assert_false(strncmp(pl_col_text(&rows, 3), "SCAN", 4) == 0 && !strstr(pl_col_text(&rows, 3), "CONSTANT"));
    }
    assert_int_equal(by_pack, 1);
}

/* ---- crashes ---- */

static void test_it_goes_on_from_what_was_condemned(void **state)
{
    struct gc_world *g = *state;

    push(g, "+a:300000", 1);
    delete_head(g);
    one_round(g);
    assert_true(count(g, "SELECT count(*) FROM pack_state WHERE state = 'condemned'") > 0);
    start_anew(g);
    collect(g);
    assert_int_equal(packs_there(g), 0);
}

static int64_t due(struct gc_world *g)
{
    return count(g, "SELECT count(*) FROM pack_state WHERE state = 'condemned'");
}

/* It vanished, or lied and was taken out: nothing is left to be doomed, and nobody shall look for it again and again. */
static void test_what_was_condemned_and_is_there_no_more_is_forgotten(void **state)
{
    struct gc_world *g = *state;
    struct pl_upload_session_args s;
    struct pl_buf ops = {0};
    struct pl_hash chunk = condemned_chunk(g, &s, &ops);
    struct pl_location at;
    struct pl_err err = {0};

    assert_ok(pl_store_locate(store_of(g), &chunk, &at, &err), &err);
    one_round(g);
    assert_int_equal(due(g), 1); /* it waits for the session */
    pl_store_drop_pack(store_of(g), &at.pack);
    one_round(g);
    assert_int_equal(due(g), 0);
    start_anew(g); /* the object was there all the same: it is judged as any other */
    assert_true(pl_store_has(store_of(g), &chunk));
    close_session(g, &s);
    assert_int_equal(collect(g), 1);
    pl_buf_finish(&ops);
}

static void test_what_was_doomed_and_not_removed_is_not_seen_and_goes_at_last(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_change changes[16] = {0};
    struct pl_gc_tx_args args = {.project = "default", .changes = changes};
    struct pl_hash *packs;
    struct pl_err err = {0};
    size_t n;

    push(g, "+a:300000", 1);
    delete_head(g);
    one_round(g);
    assert_ok(pl_store_packs(store_of(g), &packs, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        changes[i] = (struct pl_gc_change){.pack = packs[i], .state = PL_PACK_DOOMED};
    args.n = n;
    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, pl_tx_pack_state, &args, &err), &err);
    free(packs);
    start_anew(g);
    assert_int_equal(packs_there(g), n);
    assert_ok(pl_store_packs(store_of(g), &packs, &n, &err), &err);
    assert_int_equal(n, 0);
    free(packs);
    one_round(g);
    assert_int_equal(packs_there(g), 0);
}

static void test_states_follow_one_another_and_nothing_else(void **state)
{
    static const struct {
        const char *now, *next;
        bool may;
    } table[] = {
        {"", PL_PACK_CONDEMNED, true},
        {"", PL_PACK_DOOMED, false},
        {"", PL_PACK_REVIVED, false},
        {"", PL_PACK_GONE, false},
        {PL_PACK_CONDEMNED, PL_PACK_CONDEMNED, false},
        {PL_PACK_CONDEMNED, PL_PACK_GONE, false},
        {PL_PACK_CONDEMNED, PL_PACK_REVIVED, true},
        {PL_PACK_CONDEMNED, PL_PACK_DOOMED, true},
        {PL_PACK_DOOMED, PL_PACK_CONDEMNED, false},
        {PL_PACK_DOOMED, PL_PACK_REVIVED, false},
        {PL_PACK_DOOMED, PL_PACK_DOOMED, false},
        {PL_PACK_DOOMED, PL_PACK_GONE, true},
    };
    struct gc_world *g = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_gc_change path[3] = {0};
        struct pl_gc_tx_args args = {.project = "default", .changes = path};
        struct pl_err err = {0};

        memset(path[0].pack.b, (int)i + 1, PL_HASH_BYTES);
        path[1].pack = path[2].pack = path[0].pack;
        if (*table[i].now)
            path[args.n++].state = PL_PACK_CONDEMNED;
        if (pl_streq(table[i].now, PL_PACK_DOOMED))
            path[args.n++].state = PL_PACK_DOOMED;
        path[args.n++].state = table[i].next;
        assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, pl_tx_pack_state, &args, &err), &err);
        assert_int_equal(path[args.n - 1].done, table[i].may);
    }
}

int main(void)
{
#define GC(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        GC(what_a_deleted_commit_alone_named_goes),
        GC(a_deleted_repo_gives_all_its_space_back),
        GC(what_nobody_ever_committed_goes),
        GC(a_node_that_cannot_be_read_stops_it_before_anything_goes),
        GC(the_wal_can_shrink_while_it_marks),
        GC(a_session_that_was_there_is_waited_for),
        GC(a_session_that_came_later_is_not),
        GC(a_session_whose_lease_has_run_out_is_not),
        GC(a_leased_task_of_another_project_that_reads_this_one_is_waited_for),
        GC(a_long_session_holds_up_its_pins_alone),
        GC(a_hold_that_was_there_is_waited_for),
        GC(what_came_under_a_hold_is_not_judged),
        GC(a_task_that_was_leased_is_waited_for),
        GC(a_long_task_holds_up_the_pins_of_its_session_alone),
        GC(a_long_task_holds_up_what_was_condemned_before_it_was_pinned),
        GC(a_long_task_that_was_told_nothing_holds_up_nothing),
        GC(nothing_is_doomed_while_sessions_may_be_unknown),
        GC(who_asks_is_not_shown_what_is_condemned_and_who_reads_is),
        GC(a_push_of_what_is_condemned_revives_it),
        GC(a_push_of_what_is_gone_is_told_to_bring_it_again),
        GC(a_second_mark_finds_what_came_to_be_needed),
        GC(what_is_good_does_not_go_for_the_sake_of_what_may_lie),
        GC(of_two_that_may_lie_neither_goes_before_it_is_read),
        GC(an_unread_pack_that_lives_again_is_unread_still_and_so_it_is_after_a_start),
        GC(a_transaction_that_has_taken_its_time_ends_with_what_it_has),
        GC(pins_are_found_by_their_pack),
        GC(it_goes_on_from_what_was_condemned),
        GC(what_was_condemned_and_is_there_no_more_is_forgotten),
        GC(what_was_doomed_and_not_removed_is_not_seen_and_goes_at_last),
        GC(states_follow_one_another_and_nothing_else),
    };
#undef GC

    return cmocka_run_group_tests(tests, NULL, NULL);
}
