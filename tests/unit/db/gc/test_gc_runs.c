// link: pipelined/db/gc pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Garbage collection: copies, dry runs, and the thread that collects. */
#include "tests/unit/db/gc/gc_world.h"

#include <pthread.h>
#include <sys/stat.h>

/* ---- copies ---- */

static void test_small_packs_become_few_and_what_is_needed_stays(void **state)
{
    struct gc_world *g = *state;
    char text[64];
    size_t before;

    for (int i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "+f%d:%d", i, 5000 + i);
        push(g, text, (size_t)i);
    }
    before = packs_there(g);
    assert_true(before >= 40);
    collect(g);
    assert_in_range(packs_there(g), 1, 3);
    assert_whole(g);
    before = packs_there(g);
    assert_int_equal(collect(g), 0); /* and that is the end of it */
    assert_int_equal(packs_there(g), before);
}

static void test_packs_of_little_use_are_copied(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_round round;

    push(g, "+keep:70000 +x1:200000 +x2:200001 +x3:200002", 1);
    push(g, "-x1 -x2 -x3", 2);
    /* the first commit keeps all of it */
    round = one_round(g);
    assert_int_equal(round.sums.copied_packs, 0);
    drop_first_commit(g);
    round = one_round(g);
    assert_true(round.sums.copied_packs > 0);
    collect(g);
    assert_whole(g);
}

static void test_a_reader_finds_what_was_copied_meanwhile(void **state)
{
    struct gc_world *g = *state;
    char text[64];
    struct pl_hash chunk;
    struct pl_location before, after;
    struct pl_buf ops = {0}, bytes = {0};
    struct pl_tree_op *list;
    struct pl_err err = {0};
    size_t n;

    assert_ok(world_ops(&g->w, "default", "+x:1000", 7, &ops, &err), &err);
    assert_ok(push_ops(g, &ops, &err), &err);
    assert_ok(pl_tree_ops_read(ops.data, ops.len, &list, &n, &err), &err);
    chunk = list[0].entry.id;
    for (int i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "+f%d:%d", i, 5000 + i);
        push(g, text, (size_t)i);
    }
    assert_ok(pl_store_locate(store_of(g), &chunk, &before, &err), &err);
    collect(g);
    assert_ok(pl_store_locate(store_of(g), &chunk, &after, &err), &err);
    assert_false(pl_hash_eq(&before.pack, &after.pack));
    assert_ok(pl_store_get(store_of(g), &chunk, PL_REC_CHUNK, &bytes, &err), &err);
    assert_int_equal(bytes.len, 1000);
    free(list);
    pl_buf_finish(&bytes);
    pl_buf_finish(&ops);
}

/* ---- a dry run ---- */

static void test_a_dry_run_says_whose_history_would_go_and_changes_nothing(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_round round = {
        .db = g->w.db, .stores = g->w.stores, .project = "default", .may_doom = true, .removed = &g->removed};
    struct pl_err err = {0};
    const json_t *one;
    size_t there;

    push(g, "+a:300000", 1);
    push(g, "+b:200000", 2);
    delete_head(g);
    there = packs_there(g);
    assert_ok(pl_gc_foresee(&round, &err), &err);
    assert_int_equal(json_array_size(round.sums.repos), 1);
    one = json_array_get(round.sums.repos, 0);
    assert_string_equal(json_string_value(json_object_get(one, "repo")), "digits");
    assert_int_equal(json_integer_value(json_object_get(one, "commits")), 1);
    assert_in_range(json_integer_value(json_object_get(one, "bytes")), 100000, 210000);
    assert_in_range(round.sums.freed_bytes, 100000, 300000);
    assert_true(round.sums.freed_bytes < round.sums.bytes);
    pl_gc_report_finish(&round.sums);
    assert_int_equal(packs_there(g), there);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), 0);
}

/* ---- rows ---- */

static void test_a_row_goes_a_day_after_its_object(void **state)
{
    struct gc_world *g = *state;
    struct pl_err err = {0};

    push(g, "+a:300000", 1);
    delete_head(g);
    collect(g);
    assert_true(count(g, "SELECT count(*) FROM pack_state WHERE state = 'doomed'") > 0);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"UPDATE pack_state SET at_us = at_us - 86400000001", &err),
              &err);
    one_round(g);
    assert_int_equal(count(g, "SELECT count(*) FROM pack_state"), 0);
}

/* ---- what could not be removed ---- */

struct in_the_way {
    struct gc_world *g;
    int n;
};

/* A folder that is not empty in the place of each pack, or none. */
static int stand_in_the_way(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct in_the_way *w = arg;
    char path[PATH_MAX], inner[PATH_MAX + 8];

    (void)size;
    (void)err;
    snprintf(path, sizeof path, "%s/%s", fixture_path(w->g->w.dir, "store"), key);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(inner, sizeof inner, "%s/x", path);
    assert_int_equal(mkdir(inner, 0700), 0);
    w->n++;
    return 0;
}

static void test_what_is_removed_at_last_is_counted_then_and_once(void **state)
{
    struct gc_world *g = *state;
    struct in_the_way way = {.g = g};
    struct pl_gc_round round;
    struct pl_err err = {0};
    char command[PATH_MAX + 64];

    push(g, "+a:300000", 1);
    delete_head(g);
    assert_true(one_round(g).again);
    assert_int_equal(pl_object_list(g->w.objects, "p/default/", stand_in_the_way, &way, NULL), 0);
    assert_true(try_round(g, &round, &err) < 0);
    assert_int_equal(round.sums.freed_packs, 0);
    assert_true(try_round(g, &round, &err) < 0);
    assert_int_equal(round.sums.freed_packs, 0);
    snprintf(command, sizeof command, "rm -r '%s'/p/default", fixture_path(g->w.dir, "store"));
    assert_int_equal(system(command), 0);
    round = one_round(g);
    assert_int_equal(round.sums.freed_packs, way.n);
    assert_true(round.sums.freed_bytes > 300000);
    assert_int_equal(g->removed.len, way.n);
    assert_int_equal(one_round(g).sums.freed_packs, 0);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"UPDATE pack_state SET at_us = at_us - 86400000001", &err),
              &err);
    one_round(g);
    assert_int_equal(g->removed.len, 0); /* with their rows */
}

/* ---- the thread ---- */

static struct pl_gc *create(struct gc_world *g, int64_t every_ms)
{
    char index[PATH_MAX];
    struct pl_gc_config config = {.db = g->w.db, .stores = g->w.stores, .index_dir = index, .every_ms = every_ms};
    struct pl_gc *gc;
    struct pl_err err = {0};

    snprintf(index, sizeof index, "%s/data/index", g->w.dir);
    assert_ok(pl_gc_create(&config, &gc, &err), &err);
    assert_ok(pl_gc_start(gc, &err), &err);
    return gc;
}

static struct pl_gc_report wait_for(struct pl_gc *gc, uint64_t number)
{
    struct pl_gc_report report;

    pl_gc_wait(gc, number, 60000);
    pl_gc_report(gc, &report);
    assert_false(report.running);
    return report;
}

static void test_who_asks_is_told_what_it_did(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_report report;
    struct pl_err err = {0};
    uint64_t number;
    struct pl_gc *gc;

    push(g, "+a:300000", 1);
    delete_head(g);
    gc = create(g, 0);
    assert_ok(pl_gc_begin(gc, true, &number, &err), &err);
    report = wait_for(gc, number);
    assert_true(report.dry_run && report.freed_packs > 0 && json_array_size(report.repos) == 1);
    pl_gc_report_finish(&report);
    assert_true(packs_there(g) > 0);
    assert_ok(pl_gc_begin(gc, false, &number, &err), &err);
    report = wait_for(gc, number);
    assert_true(!report.dry_run && report.freed_packs > 0 && report.waiting_packs == 0);
    assert_int_equal(report.error.code, 0);
    pl_gc_report_finish(&report);
    assert_int_equal(packs_there(g), 0);
    assert_int_equal(count(g, "SELECT count(*) FROM event WHERE type = 'gc'"), 1);
    pl_gc_destroy(gc);
}

static void keep_one(struct gc_world *g)
{
    struct pl_retention_rule keep = {.commits = 1};
    struct pl_repo_args args = {.project = "default", .name = "digits", .keep = &keep};
    struct pl_err err = {0};

    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, end_runs, NULL, &err), &err);
    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, pl_tx_repo_update, &args, &err), &err);
}

static void test_what_rules_drop_is_foreseen_counted_and_freed(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_report report;
    struct pl_err err = {0};
    uint64_t number, foreseen;
    struct pl_gc *gc;

    for (size_t i = 0; i < 4; i++)
        push(g, i % 2 ? "-a +b:300000" : "+a:300000 -b", i);
    keep_one(g);
    gc = create(g, 0);
    assert_ok(pl_gc_begin(gc, true, &number, &err), &err);
    report = wait_for(gc, number);
    assert_int_equal(report.commits, 3);
    foreseen = report.freed_bytes;
    assert_true(foreseen > 900000);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(report.repos, 0), "commits")), 3);
    pl_gc_report_finish(&report);
    assert_int_equal(count(g, "SELECT count(*) FROM commit_"), 4);
    assert_ok(pl_gc_begin(gc, false, &number, &err), &err);
    report = wait_for(gc, number);
    assert_int_equal(report.commits, 3);
    assert_true(report.freed_bytes >= foreseen);
    pl_gc_report_finish(&report);
    assert_int_equal(count(g, "SELECT count(*) FROM commit_"), 1);
    assert_int_equal(count(g, "SELECT json_extract(data, '$.commits') FROM event WHERE type = 'gc'"), 3);
    assert_whole(g);
    pl_gc_destroy(gc);
}

static void test_one_that_is_stopped_before_it_begins_says_so(void **state)
{
    struct gc_world *g = *state;
    char index[PATH_MAX];
    struct pl_gc_config config = {.db = g->w.db, .stores = g->w.stores, .index_dir = index};
    struct pl_gc_report report;
    struct pl_err err = {0};
    uint64_t number;
    struct pl_gc *gc;

    snprintf(index, sizeof index, "%s/data/index", g->w.dir);
    assert_ok(pl_gc_create(&config, &gc, &err), &err); /* its thread does not run yet */
    for (uint64_t i = 1; i <= 2; i++) {
        assert_ok(pl_gc_begin(gc, i == 2, &number, &err), &err);
        assert_int_equal(number, i);
        pl_gc_stop(gc);
        report = wait_for(gc, number);
        assert_true(report.number == i && report.dry_run == (i == 2) && report.finished_us);
        assert_int_equal(report.error.code, PL_ECANCELED);
    }
    assert_ok(pl_gc_start(gc, &err), &err);
    assert_ok(pl_gc_begin(gc, false, &number, &err), &err);
    report = wait_for(gc, number);
    assert_int_equal(report.number, 3);
    assert_int_equal(report.error.code, 0);
    pl_gc_report_finish(&report);
    pl_gc_destroy(gc);
}

/* Vision with a repo and a push, deleted. */
static void delete_vision(struct gc_world *g)
{
    struct pl_repo_args repo = {.project = "vision", .name = "cats"}, project = {.name = "vision"};
    struct pl_err err = {0};
    static const size_t steps[] = {2, 3, 5};

    for (size_t i = 0; i < PL_ARRAY_SIZE(steps); i++)
        assert_ok(world_step(&g->w, steps[i], &err), &err);
    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, end_runs, NULL, &err), &err);
    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, &err), &err);
    assert_ok(pl_db_run(g->w.db, PL_TX_LOGGED, pl_tx_project_delete, &project, &err), &err);
}

static size_t packs_of_vision(struct gc_world *g)
{
    size_t n = 0;

    assert_int_equal(pl_object_list(g->w.objects, "p/vision/", count_object, &n, NULL), 0);
    return n;
}

static void test_packs_of_a_deleted_project_go_where_the_folder_is_new(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_report report;
    struct pl_err err = {0};
    char command[PATH_MAX + 64];
    uint64_t number;
    struct pl_gc *gc;

    push(g, "+a:3000", 1);
    delete_vision(g);
    assert_true(packs_of_vision(g) > 0);
    world_close(&g->w);
    snprintf(command, sizeof command, "rm -r '%s'/data/index", g->w.dir);
    assert_int_equal(system(command), 0);
    assert_ok(world_open(&g->w, "data", &err), &err);
    gc = create(g, 0);
    assert_ok(pl_gc_begin(gc, false, &number, &err), &err);
    report = wait_for(gc, number);
    assert_int_equal(report.error.code, 0);
    pl_gc_report_finish(&report);
    pl_gc_destroy(gc);
    assert_int_equal(packs_of_vision(g), 0);
    assert_whole(g);
}

static void test_it_collects_by_the_clock(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc *gc;

    push(g, "+a:300000", 1);
    delete_head(g);
    gc = create(g, 1);
    pl_gc_wait(gc, 1, 60000); /* the next one may be under way already */
    pl_gc_destroy(gc);
    assert_int_equal(packs_there(g), 0);
}

static void test_it_collects_by_the_clock_however_often_it_is_started(void **state)
{
    struct gc_world *g = *state;
    struct pl_err err = {0};
    uint64_t number;
    struct pl_gc *gc;

    gc = create(g, 3600000);
    assert_ok(pl_gc_begin(gc, false, &number, &err), &err);
    pl_gc_wait(gc, number, 60000);
    pl_gc_destroy(gc);
    push(g, "+a:300000", 1);
    delete_head(g);
    gc = create(g, 3600000);
    pl_gc_wait(gc, 1, 100); /* not due */
    pl_gc_destroy(gc);
    assert_true(packs_there(g) > 0);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql,
                        (void *)"UPDATE meta SET value = value - 3600000000 WHERE key = 'gc_at'", &err),
              &err);
    gc = create(g, 3600000);
    pl_gc_wait(gc, 1, 60000);
    pl_gc_destroy(gc);
    assert_int_equal(packs_there(g), 0);
}

static void test_another_start_of_the_machine_makes_it_wait(void **state)
{
    struct gc_world *g = *state;
    struct pl_gc_report report;
    struct pl_err err = {0};
    uint64_t number;
    struct pl_gc *gc;

    push(g, "+a:300000", 1);
    delete_head(g);
    assert_ok(pl_db_run(g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"INSERT INTO meta(key, value) VALUES ('boot_id', 'another')",
                        &err),
              &err);
    gc = create(g, 0);
    assert_ok(pl_gc_begin(gc, false, &number, &err), &err);
    report = wait_for(gc, number);
    assert_true(report.freed_packs == 0 && report.waiting_packs > 0);
    pl_gc_report_finish(&report);
    pl_gc_destroy(gc);
    gc = create(g, 0); /* the daemon starts again soon after: they are unknown still */
    assert_ok(pl_gc_begin(gc, false, &number, &err), &err);
    report = wait_for(gc, number);
    assert_true(report.freed_packs == 0 && report.waiting_packs > 0);
    pl_gc_report_finish(&report);
    pl_gc_destroy(gc);
}

int main(void)
{
#define GC(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        GC(small_packs_become_few_and_what_is_needed_stays),
        GC(packs_of_little_use_are_copied),
        GC(a_reader_finds_what_was_copied_meanwhile),
        GC(a_dry_run_says_whose_history_would_go_and_changes_nothing),
        GC(a_row_goes_a_day_after_its_object),
        GC(what_is_removed_at_last_is_counted_then_and_once),
        GC(who_asks_is_told_what_it_did),
        GC(what_rules_drop_is_foreseen_counted_and_freed),
        GC(one_that_is_stopped_before_it_begins_says_so),
        GC(packs_of_a_deleted_project_go_where_the_folder_is_new),
        GC(it_collects_by_the_clock),
        GC(it_collects_by_the_clock_however_often_it_is_started),
        GC(another_start_of_the_machine_makes_it_wait),
    };
#undef GC

    return cmocka_run_group_tests(tests, NULL, NULL);
}
