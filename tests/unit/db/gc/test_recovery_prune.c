// link: pipelined/db/gc pipelined/db/pipelines pipelined/db/retention pipelined/db/stage_log pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* regained: what a checkpoint brings back although it was dropped after it is used only when all of it is there. */
#include "tests/unit/db/gc/gc_world.h"

#include "pipelined/db/gc/recovery_prune.h"
#include "pipelined/db/retention/retention.h"
#include "pipelined/db/stage_log/stage_log.h"
#include "pipelined/db/writer/db_recover.h"
#include "pipelined/db/writer/db_snapshot.h"

#include <zstd.h>

/* ---- jobs that leave something ---- */

static const char *run_of(unsigned n)
{
    static char run[PL_ID_HEX + 1];

    snprintf(run, sizeof run, "%032x", n);
    return run;
}

struct leaving {
    unsigned n; /* of the job */
    const char *state;
    const struct pl_buf *ops; /* what its one datum put; NULL = it has no result */
    const struct pl_hash *root;
    const struct pl_hash *log; /* NULL = it printed nothing */
};

static int write_result(struct pl_conn *c, const struct leaving *l, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    _cleanup_free_ char *ops = NULL;
    int e = l->ops ? pl_base64_encode(l->ops->data, l->ops->len, &ops, err) : 0;
    json_t *output = l->ops ? json_pack("{s:s}", "ops", ops) : json_pack("{s:s}", "root", pl_hash_hex(l->root, hex)),
           *rows = json_pack("[[i, {s:o}, s]]", 0, "output", output, "00");
    char *text = json_dumps(rows, JSON_COMPACT), packed[4096];
    size_t n = ZSTD_compress(packed, sizeof packed, text, strlen(text), 1);
    int r = e < 0 ? e
                  : pl_sql_exec(c, err, "INSERT INTO result(job, id, rows) VALUES ((SELECT id FROM job WHERE run = ?), 0, ?)",
                                "sb", run_of(l->n), packed, n);

    json_decref(rows);
    free(text);
    return r;
}

static int leave_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct leaving *l = arg;
    struct pl_job_args job = {.run = run_of(l->n),
                              .project = "default",
                              .stage = "train",
                              .pipeline = "flow",
                              .version = 1,
                              .state = "running",
                              .created_us = 1};
    struct pl_run_args run = {.id = (char *)(uintptr_t)job.run, .cause = "manual", .state = "running"};
    int r = pl_tx_run_create(tx, &run, err);

    r = r < 0 ? r : pl_tx_job_progress(tx, &job, err);
    if (r == 0 && (l->ops || l->root))
        r = write_result(pl_tx_conn(tx), l, err);
    if (r >= 0 && l->log)
        r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT INTO log_segment(job, id, worker, blob, raw_bytes, created_us)"
                        " VALUES ((SELECT id FROM job WHERE run = ?), 0, 'w', ?, 1, 1)",
                        "sb", run_of(l->n), l->log->b, (size_t)PL_HASH_BYTES);
    job.state = l->state;
    job.finished_us = 2;
    return r < 0 ? r : pl_streq(l->state, "running") ? 0 : pl_tx_job_end(tx, &job, err);
}

static void leave(struct gc_world *g, struct leaving l)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, leave_tx, &l, &err), &err);
}

/* A file of so many bytes in packs of its own, that nothing names but `ops`. */
static void bring(struct gc_world *g, size_t size, struct pl_buf *ops)
{
    struct pl_err err = {0};
    char text[32];

    snprintf(text, sizeof text, "+f:%zu", size);
    assert_ok(world_ops(&g->w, "default", text, size, ops, &err), &err);
}

static struct pl_hash bring_blob(struct gc_world *g, const char *text)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(store_of(g));
    struct pl_hash id;
    struct pl_err err = {0};

    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    assert_ok(pl_pack_builder_add(session, PL_REC_BLOB, text, strlen(text), &id, &err), &err);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
    return id;
}

/* ---- there and back ---- */

static void drop_all(struct gc_world *g, const char *where)
{
    char sql[256];
    struct pl_err err = {0};

    snprintf(sql, sizeof sql, "DELETE FROM result WHERE job IN (SELECT id FROM job WHERE %s)", where);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, sql, &err), &err);
    snprintf(sql, sizeof sql, "DELETE FROM log_segment WHERE job IN (SELECT id FROM job WHERE %s)", where);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, sql, &err), &err);
    snprintf(sql, sizeof sql, "UPDATE job SET kept = 0 WHERE %s", where);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, sql, &err), &err);
}

static void checkpoint(struct gc_world *g)
{
    char dir[PATH_MAX];
    struct pl_snapshot_options o = {.dir = dir};
    struct pl_err err = {0};
    uint64_t seq;

    snprintf(dir, sizeof dir, "%s/data", g->w.dir);
    assert_ok(pl_db_checkpoint(g->w.db, &o, &seq, &err), &err);
}

/* On another machine. */
static void recover(struct gc_world *g)
{
    struct pl_err err = {0};

    world_close(&g->w);
    pl_map_finish(&g->removed, NULL);
    g->condemned_at = 0;
    assert_ok(world_open(&g->w, "anew", &err), &err);
    assert_true(pl_db_recovered(g->w.db)->recovered && pl_db_recovered(g->w.db)->ckpt_seq);
}

static void check(struct gc_world *g)
{
    struct pl_err err = {0};

    assert_ok(pl_recovery_prune_results(g->w.db, g->w.stores, &err), &err);
}

static bool left(struct gc_world *g, const char *what, unsigned n)
{
    char sql[256];

    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE job = (SELECT id FROM job WHERE run = '%s')", what, run_of(n));
    return count(g, sql) > 0;
}

static void test_results_whose_bytes_went_are_not_reused(void **state)
{
    struct gc_world *g = *state;
    struct pl_buf gone = {0}, stays = {0};

    bring(g, 100000, &gone);
    bring(g, 200000, &stays);
    push(g, "+g:3000", 1);
    leave(g, (struct leaving){.n = 1, .state = "failure", .ops = &gone});
    leave(g, (struct leaving){.n = 2, .state = "killed", .ops = &stays});
    leave(g, (struct leaving){.n = 3, .state = "killed", .ops = &gone}); /* what is marked for the first is not taken for there */
    leave(g, (struct leaving){.n = 4, .state = "running", .ops = &stays});
    checkpoint(g);
    drop_all(g, "substr(run, 32) IN ('1', '3')");
    assert_true(collect(g) > 0);
    recover(g);
    assert_int_equal(count(g, "SELECT count(*) FROM result"), 4);
    assert_int_equal(count(g, "SELECT count(*) FROM job WHERE kept = 1"), 3);

    check(g);
    assert_false(left(g, "result", 1));
    assert_true(left(g, "result", 2));
    assert_false(left(g, "result", 3));
    assert_true(left(g, "result", 4));
    assert_int_equal(count(g, "SELECT count(*) FROM job WHERE kept = 1"), 1);
    assert_int_equal(count(g, "SELECT count(*) FROM meta WHERE key = 'regained'"), 0);
    assert_int_equal(collect(g), 0); /* and garbage is collected on */
    assert_whole(g);
    pl_buf_finish(&gone);
    pl_buf_finish(&stays);
}

static void test_a_tree_of_which_a_node_went_is_not_reused(void **state)
{
    struct gc_world *g = *state;
    struct pl_push_result pushed = push(g, "+a:100000", 1);
    struct pl_hash root;
    struct pl_commit_row row;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(g->w.db);

        assert_int_equal(pl_db_commit_named(rd.conn, "default", "digits", pushed.commit, &row, NULL), 0);
        root = row.root;
    }
    leave(g, (struct leaving){.n = 1, .state = "failure", .root = &root});
    checkpoint(g);
    drop_all(g, "1");
    delete_head(g);
    assert_true(collect(g) > 0);
    recover(g);
    assert_true(left(g, "result", 1));
    check(g);
    assert_false(left(g, "result", 1));
    collect(g);
}

static int log_of(struct gc_world *g, unsigned n, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(g->w.db);
    int64_t job = 0;

    assert_int_equal(pl_sql_int(rd.conn, NULL, &job, "SELECT id FROM job WHERE run = ?", "s", run_of(n)), 0);
    return pl_retention_check_job(rd.conn, job, PL_KEEP_LOGS, err);
}

static void test_a_log_whose_bytes_went_says_so(void **state)
{
    struct gc_world *g = *state;
    struct pl_hash gone = bring_blob(g, "it printed this"), stays = bring_blob(g, "and that");
    struct pl_stage_log_cursor cursor = {0};
    struct pl_stage_logs *logs;
    struct pl_buf out = {0};
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql,
                        (void *)"INSERT INTO repo(project, name, kind, created_us) VALUES ('default', 'train', 'output', 1)",
                        &err),
              &err);
    leave(g, (struct leaving){.n = 1, .state = "success", .log = &gone});
    leave(g, (struct leaving){.n = 2, .state = "success", .log = &stays});
    leave(g, (struct leaving){.n = 3, .state = "success"});
    checkpoint(g);
    drop_all(g, "substr(run, 32) = '1'");
    assert_true(collect(g) > 0);
    recover(g);
    for (int again = 0; again < 2; again++) { /* when somebody asks it to be checked once more too */
        check(g);
        assert_int_equal(log_of(g, 1, &err), PL_ENOTFOUND);
        assert_non_null(strstr(err.msg, "was dropped before"));
        assert_int_equal(log_of(g, 2, &err), 0);
        assert_int_equal(log_of(g, 3, &err), 0); /* it printed nothing */
        assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"INSERT INTO meta VALUES ('regained', '')", &err), &err);
    }
    /* whoever reads on in it sees its end */
    assert_ok(pl_stage_logs_open(fixture_path(g->w.dir, "logs"), g->w.db, g->w.stores, &logs, &err), &err);
    assert_ok(pl_stage_logs_read(logs, "default", count(g, "SELECT min(id) FROM job"), NULL, &cursor, 100, NULL, &out, &err),
              &err);
    assert_int_equal(out.len, 0);
    pl_stage_logs_close(logs);
    pl_buf_finish(&out);
    collect(g);
}

static void test_a_store_that_is_checked_alone_misses_no_log_that_was_dropped(void **state)
{
    struct gc_world *g = *state;
    struct pl_hash gone = bring_blob(g, "it printed this");
    struct pl_conn *conn;
    struct pl_err err = {0};
    char path[PATH_MAX];

    leave(g, (struct leaving){.n = 1, .state = "success", .log = &gone});
    checkpoint(g);
    drop_all(g, "1");
    collect(g);
    recover(g);
    snprintf(path, sizeof path, "%s/anew/pipelined.db", g->w.dir);
    assert_ok(pl_conn_open(path, false, &conn, &err), &err);
    assert_ok(pl_recovery_prune_logs(conn, g->w.stores, &err), &err);
    pl_conn_close(conn);
    assert_int_equal(count(g, "SELECT count(*) FROM log_segment WHERE length(blob) > 0"), 0);
}

static void test_without_a_recovery_nothing_is_looked_at(void **state)
{
    struct gc_world *g = *state;
    struct pl_hash nothing = {.b = {7}};

    leave(g, (struct leaving){.n = 1, .state = "success", .log = &nothing});
    check(g);
    assert_true(left(g, "log_segment", 1));
}

int main(void)
{
#define REGAINED(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        REGAINED(results_whose_bytes_went_are_not_reused), REGAINED(a_tree_of_which_a_node_went_is_not_reused),
        REGAINED(a_log_whose_bytes_went_says_so),          REGAINED(a_store_that_is_checked_alone_misses_no_log_that_was_dropped),
        REGAINED(without_a_recovery_nothing_is_looked_at),
    };
#undef REGAINED

    return cmocka_run_group_tests(tests, NULL, NULL);
}
