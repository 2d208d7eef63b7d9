/* gc_world: the world of db_world with garbage collection, a round at a time. */
#pragma once

#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/gc/gc_round.h"
#include "pipelined/db/tx/upload_session_tx.h"

struct gc_world {
    struct world w;
    struct pl_map removed;
    uint64_t condemned_at;
    bool may_doom;
};

static UNUSED int setup(void **state)
{
    struct gc_world *g = calloc(1, sizeof *g);
    struct pl_err err = {0};

    g->w.dir = fixture_dir();
    g->may_doom = true;
    assert_ok(world_open(&g->w, "data", &err), &err);
    assert_ok(world_step(&g->w, 0, &err), &err); /* repo digits */
    *state = g;
    return 0;
}

static UNUSED int teardown(void **state)
{
    struct gc_world *g = *state;

    world_close(&g->w);
    pl_map_finish(&g->removed, NULL);
    fixture_remove(g->w.dir);
    free(g);
    return 0;
}

/* As after a daemon's death: memory is gone, and known of removals nothing. */
static UNUSED void start_anew(struct gc_world *g)
{
    struct pl_err err = {0};

    world_close(&g->w);
    pl_map_finish(&g->removed, NULL);
    g->condemned_at = 0;
    assert_ok(world_open(&g->w, "data", &err), &err);
}

static UNUSED int try_round(struct gc_world *g, struct pl_gc_round *ret, struct pl_err *err)
{
    int r;

    *ret = (struct pl_gc_round){.db = g->w.db,
                                .stores = g->w.stores,
                                .project = "default",
                                .may_doom = g->may_doom,
                                .condemned_at = g->condemned_at,
                                .removed = &g->removed};
    r = pl_gc_collect(ret, err);
    g->condemned_at = ret->condemned_at;
    return r;
}

static UNUSED struct pl_gc_round one_round(struct gc_world *g)
{
    struct pl_gc_round round;
    struct pl_err err = {0};

    assert_ok(try_round(g, &round, &err), &err);
    return round;
}

/* Rounds while there is something to do; what they freed. */
static UNUSED uint64_t collect(struct gc_world *g)
{
    uint64_t freed = 0;
    struct pl_gc_round round;

    do {
        round = one_round(g);
        freed += round.sums.freed_packs;
    } while (round.again);
    return freed;
}

static UNUSED struct pl_store *store_of(struct gc_world *g)
{
    struct pl_store *store;

    assert_int_equal(pl_project_stores_get(g->w.stores, "default", &store, NULL), 0);
    return store;
}

static UNUSED struct pl_push_result push(struct gc_world *g, const char *text, size_t step)
{
    struct step s = {PUSH, "default", "digits", "master", text};
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_ok(world_push(&g->w, &s, step, &ret, &err), &err);
    return ret;
}

static UNUSED int end_runs(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    _cleanup_free_ char *run = NULL;
    int r = 0;

    (void)arg;
    while (r == 0 && pl_sql_text(pl_tx_conn(tx), err, &run, "SELECT id FROM run WHERE state = 'running' LIMIT 1", "") == 0) {
        struct pl_run_args end = {.id = run, .state = "success"};

        r = pl_tx_run_end(tx, &end, err);
        free(run);
        run = NULL;
    }
    return r;
}

/* The head of master goes. */
static UNUSED void delete_head(struct gc_world *g)
{
    struct pl_commit_delete_args args = {.project = "default", .repo = "digits", .run = "master"};
    struct pl_err err = {0};

    assert_int_equal(pl_db_run(g->w.db, PL_TX_LOGGED, end_runs, NULL, &err), 0);
    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, pl_tx_commit_delete, &args, &err), &err);
}

static UNUSED int drop_first(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    _cleanup_free_ char *run = NULL;
    int r =
        pl_sql_text(pl_tx_conn(tx), err, &run,
                    "SELECT c.run FROM commit_ c JOIN repo r ON r.id = c.repo WHERE r.name = 'digits' ORDER BY c.id LIMIT 1", "");

    (void)arg;
    return r < 0 ? r
                 : pl_tx_emit(tx, PL_RECORD_COMMIT_DELETE,
                              json_pack("{s:s, s:s, s:s}", "project", "default", "repo", "digits", "run", run), err);
}

/* The oldest commit goes, as by a rule that keeps the newest. */
static UNUSED void drop_first_commit(struct gc_world *g)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, drop_first, NULL, &err), &err);
}

static UNUSED int64_t count(struct gc_world *g, const char *sql)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(g->w.db);
    int64_t n = -1;

    assert_int_equal(pl_sql_int(rd.conn, NULL, &n, sql, ""), 0);
    return n;
}

static UNUSED int count_object(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)key;
    (void)size;
    (void)err;
    ++*(size_t *)arg;
    return 0;
}

static UNUSED size_t packs_there(struct gc_world *g)
{
    size_t n = 0;

    assert_int_equal(pl_object_list(g->w.objects, "p/default/", count_object, &n, NULL), 0);
    return n;
}

static UNUSED int finding(void *self, const struct pl_fsck_finding *f, struct pl_err *err)
{
    (void)self;
    (void)err;
    print_error("fsck: %s (%s %s)\n", f->what, f->commit ? f->commit : "", f->path ? f->path : "");
    return 0;
}

/* Every commit reads back whole, from packs that are not doomed, by somebody who remembers nothing. */
static UNUSED void assert_whole(struct gc_world *g)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(g->w.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_fsck_options options = {.full = true, .finding = finding};
    struct pl_fsck_report report = {0};
    struct pl_fsck_root roots[256];
    struct pl_store *fresh;
    struct pl_err err = {0};
    size_t n = 0;

    assert_ok(pl_store_open(g->w.objects, "default", NULL, &fresh, &err), &err);
    assert_ok(pl_gc_store_opened(g->w.db, fresh, &err), &err);
    assert_ok(pl_sql_query(rd.conn, &err, &rows, "SELECT object FROM commit_", ""), &err);
    while (pl_sql_next(rd.conn, &rows, &err) > 0)
        roots[n++] = (struct pl_fsck_root){"commit", pl_col_hash(&rows, 0)};
    assert_ok(pl_fsck(fresh, roots, n, &options, &report, &err), &err);
    assert_int_equal(report.findings, 0);
    assert_int_equal(report.commits, n);
    pl_store_close(fresh);
}

static UNUSED struct pl_upload_session_args open_session(struct gc_world *g)
{
    struct pl_upload_session_args s = {.project = "default", .kind = "write"};
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_open, &s, &err), &err);
    return s;
}

static UNUSED void close_session(struct gc_world *g, struct pl_upload_session_args *s)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, pl_tx_upload_session_close, s, &err), &err);
}

static UNUSED int run_sql(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err, arg, "");

    return r < 0 ? r : 0;
}

/* `between` (may be NULL) is called between the look-up of what the operations name and the transaction. */
static UNUSED int push_ops_with(struct gc_world *g, const struct pl_buf *ops,
                                int (*between)(void *self, struct pl_pack_builder *session, struct pl_err *err), void *self,
                                struct pl_err *err)
{
    struct pl_push_args args = {.project = "default",
                                .repo = "digits",
                                .branch = "master",
                                .message = "",
                                .author = "",
                                .ops = ops->data,
                                .ops_len = ops->len,
                                .add_records = between,
                                .self = self};
    struct pl_push_result ret;

    return pl_db_push(g->w.db, g->w.stores, &args, &ret, err);
}

static UNUSED int push_ops(struct gc_world *g, const struct pl_buf *ops, struct pl_err *err)
{
    return push_ops_with(g, ops, NULL, NULL, err);
}
