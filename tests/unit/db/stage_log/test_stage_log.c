// link: pipelined/db/pipelines pipelined/db/stage_log pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* What stages print: kept once and in order of arrival, cut into segments, sealed into packs, read and followed across all of it. */
#include "tests/unit/db/stage_log/stage_log_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

/* ---- pieces ---- */

static void test_pieces_are_kept_in_order_of_arrival_and_read_by_datum(void **state)
{
    struct logs *t = *state;

    append(t, 1, 1, 0, "one\n");
    append(t, 2, 1, 0, "two\n");
    append(t, 1, 1, 4, "one again\n");
    assert_log(t, 0, "one\ntwo\none again\n");
    assert_log(t, 1, "one\none again\n");
    assert_log(t, 2, "two\n");
    assert_log(t, 3, "");
}

static void test_a_piece_sent_twice_is_kept_once(void **state)
{
    struct logs *t = *state;

    append(t, 1, 1, 0, "abc");
    append(t, 1, 1, 0, "abc");
    append(t, 1, 1, 1, "bcd"); /* "d" is new */
    append(t, 1, 1, 4, "e");
    append(t, 1, 1, 2, "cd");
    append(t, 1, 1, 5, "");
    assert_log(t, 1, "abcde");
}

static void test_each_attempt_counts_from_its_own_start(void **state)
{
    struct logs *t = *state;

    append(t, 1, 1, 0, "first ");
    append(t, 1, 2, 0, "second ");
    append(t, 1, 1, 6, "end");
    assert_log(t, 1, "first second end");
}

/* What a worker lost is lost; what it sends late is not put where it does not belong. */
static void test_a_gap_stays_a_gap(void **state)
{
    struct logs *t = *state;

    append(t, 1, 1, 0, "ab");
    append(t, 1, 1, 6, "gh");
    append(t, 1, 1, 2, "cdef");
    append(t, 1, 1, 8, "ij");
    assert_log(t, 1, "abghij");
}

static void test_a_datums_output_ends_at_its_bound(void **state)
{
    struct logs *t = *state;

    append(t, 1, 1, PL_STAGE_LOG_DATUM_BYTES, "[cut]");
    append(t, 1, 1, PL_STAGE_LOG_DATUM_BYTES + 4096, "more");
    assert_log(t, 1, "[cut]");
}

static void test_a_piece_larger_than_a_segment_is_refused(void **state)
{
    struct logs *t = *state;
    char *big = calloc(1, PL_STAGE_LOG_SEGMENT_BYTES);

    assert_int_equal(append_bytes(t, &FIRST, 0, big, PL_STAGE_LOG_SEGMENT_BYTES), PL_ETOOBIG);
    free(big);
    assert_log(t, 0, "");
}

/* ---- segments ---- */

/* Line i of datum d: 1,000 bytes. */
static void line_of(unsigned i, char out[1001])
{
    int n = snprintf(out, 1001, "%07u ", i);

    memset(out + n, 'a' + (int)(i % 26), 1000 - (size_t)n - 1);
    out[999] = '\n';
    out[1000] = '\0';
}

static void append_lines(struct logs *t, uint8_t d, unsigned from, unsigned n)
{
    char line[1001];

    for (unsigned i = from; i < from + n; i++) {
        line_of(i, line);
        append(t, d, 1, 1000ull * i, line);
    }
}

static void assert_lines(const char *got, unsigned from, unsigned n)
{
    char line[1001];

    assert_int_equal(strlen(got), 1000u * n);
    for (unsigned i = 0; i < n; i++) {
        line_of(from + i, line);
        assert_memory_equal(got + 1000u * i, line, 1000);
    }
}

static void test_full_segments_are_sealed_and_read_as_before(void **state)
{
    struct logs *t = *state;
    struct pl_stage_log_cursor cursor = {0};
    char *all;

    append_lines(t, 1, 0, 9000);
    assert_int_equal(segments(t), 2);
    all = read_on(t, 1, &cursor, 100000);
    assert_lines(all, 0, 9000);
    free(all);
    assert_int_equal(cursor.segment, 2);
}

static void test_the_end_of_the_job_seals_the_rest_and_leaves_no_file(void **state)
{
    struct logs *t = *state;
    char *all;

    append_lines(t, 1, 0, 5000);
    seal(t);
    assert_int_equal(segments(t), 2);
    assert_int_equal(fixture_count(t->dir), 0);
    restart(t);
    all = read_on(t, 0, &(struct pl_stage_log_cursor){0}, 1u << 20);
    assert_lines(all, 0, 5000);
    free(all);
    seal(t); /* nothing new */
    assert_int_equal(segments(t), 2);
}

static void test_a_job_that_printed_nothing_is_sealed_without_a_segment(void **state)
{
    struct logs *t = *state;

    seal(t);
    assert_int_equal(segments(t), 0);
    assert_log(t, 0, "");
}

static void test_what_comes_after_the_end_is_kept_too(void **state)
{
    struct logs *t = *state;

    append(t, 1, 1, 0, "before ");
    seal(t);
    append(t, 1, 1, 0, "before "); /* again: its answer was lost */
    append(t, 1, 1, 7, "after");
    assert_log(t, 1, "before after");
    seal(t);
    assert_log(t, 1, "before after");
    assert_int_equal(segments(t), 2);
}

static void test_a_follower_goes_on_across_a_seal(void **state)
{
    struct logs *t = *state;
    struct pl_stage_log_cursor cursor = {0};
    unsigned seen = 0;
    char *late;

    for (unsigned i = 0; i < 6000; i += 1500) { /* the first segment is full after 3,971 lines */
        char *new;

        append_lines(t, 1, i, 1500);
        new = read_on(t, 1, &cursor, 1u << 20);
        assert_lines(new, seen, 1500);
        seen += 1500;
        free(new);
    }
    seal(t);
    append(t, 1, 1, 6000000, "late");
    late = read_on(t, 1, &cursor, 10);
    assert_string_equal(late, "late");
    free(late);
}

/* ---- followers ---- */

static void count_wake(void *arg)
{
    ++*(int *)arg;
}

static void test_watchers_are_woken_by_bytes_of_their_job_and_by_its_end(void **state)
{
    struct logs *t = *state;
    struct pl_err err = {0};
    int mine = 0, others = 0;

    assert_ok(pl_stage_logs_watch(t->l, t->job, count_wake, &mine, &err), &err);
    assert_ok(pl_stage_logs_watch(t->l, t->job + 1, count_wake, &others, &err), &err);
    append(t, 1, 1, 0, "x");
    assert_int_equal(mine, 1);
    seal(t);
    assert_int_equal(mine, 2);
    pl_stage_logs_unwatch(t->l, &mine);
    append(t, 1, 1, 1, "y");
    assert_int_equal(mine, 2);
    assert_int_equal(others, 0);
}

/* ---- crashes and full disks ---- */

static void test_whole_frames_survive_a_crash_and_a_torn_one_is_sent_again(void **state)
{
    struct logs *t = *state;
    struct stat st;

    append(t, 1, 1, 0, "whole ");
    assert_int_equal(stat(open_file(t), &st), 0);
    append(t, 1, 1, 6, "torn");
    for (off_t cut = 1; cut < 60; cut += 10) { /* in its bytes, in its head */
        pl_stage_logs_close(t->l);
        assert_int_equal(truncate(open_file(t), st.st_size + 60 - cut), 0);
        open_logs(t);
        assert_log(t, 1, "whole ");
        append(t, 1, 1, 0, "whole ");
        append(t, 1, 1, 6, "torn");
        assert_log(t, 1, "whole torn");
    }
    append(t, 1, 1, 10, " end");
    seal(t);
    assert_log(t, 1, "whole torn end");
}

static void test_a_file_without_its_first_bytes_is_begun_anew(void **state)
{
    struct logs *t = *state;

    append(t, 1, 1, 0, "lost");
    pl_stage_logs_close(t->l);
    assert_int_equal(truncate(open_file(t), 3), 0);
    open_logs(t);
    assert_log(t, 1, "");
    append(t, 1, 1, 0, "lost, and sent again");
    assert_log(t, 1, "lost, and sent again");
}

static void test_a_piece_of_a_segment_just_sealed_is_not_kept_twice_after_a_restart(void **state)
{
    struct logs *t = *state;
    char *all;

    append_lines(t, 1, 0, 3972); /* the last one opened the second segment */
    assert_int_equal(segments(t), 1);
    restart(t);
    append_lines(t, 1, 3969, 10);
    all = read_on(t, 1, &(struct pl_stage_log_cursor){0}, 1u << 20);
    assert_lines(all, 0, 3979);
    free(all);
}

static void test_a_crash_between_a_segments_row_and_its_files_end_leaves_no_file(void **state)
{
    struct logs *t = *state;
    char name[64];
    FILE *f;

    append(t, 1, 1, 0, "sealed");
    seal(t);
    snprintf(name, sizeof name, "%lld-0.log", (long long)t->job);
    f = fopen(fixture_path(t->dir, name), "w");
    assert_non_null(f);
    fclose(f);
    restart(t);
    append(t, 1, 1, 6, " more");
    seal(t);
    assert_log(t, 1, "sealed more");
    assert_int_equal(fixture_count(t->dir), 0);
}

static void test_a_full_disk_loses_no_piece_that_was_answered(void **state)
{
    struct logs *t = *state;
    char longer[600];

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (uint64_t n = 1; n <= 3; n++) { /* the file's first bytes, the frame's head, its bytes */
        pl_io_fail_nth(PL_IO_WRITE, n, ENOSPC);
        assert_int_equal(append_bytes(t, &LAST, 0, longer, strlen(longer)), PL_ENOSPC);
        restart(t);
        pl_io_fail_nth(PL_IO_WRITE, 0, 0);
        assert_log(t, 0, "");
        if (access(open_file(t), F_OK) == 0)
            assert_int_equal(unlink(open_file(t)), 0);
        restart(t);
    }
    append(t, 1, 1, 0, "a");
    pl_io_fail_nth(PL_IO_WRITE, 2, ENOSPC);
    assert_int_equal(append_bytes(t, &LAST, 0, longer, strlen(longer)), PL_ENOSPC);
    append(t, 1, 1, 1, "b");
    restart(t);
    append(t, 1, 1, 2, "c");
    assert_log(t, 0, "abc");
}

/* The database is lost and rebuilt: rows of unfinished jobs are not in the log, and their numbers are given anew. */
static void test_a_rebuilt_databases_jobs_get_no_lines_of_others(void **state)
{
    struct logs *t = *state;
    int64_t old = t->job;
    struct pl_err err = {0};

    append(t, 1, 1, 0, "of the job before");
    pl_stage_logs_close(t->l);
    world_close(&t->w);
    assert_ok(world_open(&t->w, "data2", &err), &err);
    t->job = new_job(t, "eval");
    assert_int_equal(t->job, old);
    open_logs(t);
    assert_log(t, 0, "");
    append(t, 1, 1, 0, "mine");
    seal(t);
    assert_log(t, 0, "mine");
}

static void test_files_of_unknown_jobs_go_and_other_files_stay(void **state)
{
    static const char *const names[] = {"77-0.log", "77-12.log", "notes.txt", "1-0.log.bak"};
    struct logs *t = *state;

    append(t, 1, 1, 0, "mine");
    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        assert_int_equal(pl_io_write_file(fixture_path(t->dir, names[i]), "PLSL\001", 5, 0600, NULL), 0);
    restart(t);
    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        assert_int_equal(access(fixture_path(t->dir, names[i]), F_OK), i < 2 ? -1 : 0);
    assert_log(t, 0, "mine");
}

/* ---- several at once ---- */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered, open;
};

static int wait_at_gate(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct gate *g = arg;

    (void)tx, (void)err;
    pthread_mutex_lock(&g->lock);
    g->entered = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return 0;
}

static void *seal_thread(void *arg)
{
    seal(arg);
    return NULL;
}

/* The segment's pack is there: its thread waits for the database's writer now. */
static bool has_a_pack(struct logs *t)
{
    return fixture_count(fixture_path(t->w.dir, "store/p")) > 0;
}

static void test_a_slow_seal_holds_up_neither_other_jobs_nor_readers(void **state)
{
    struct logs *t = *state, other = *t;
    struct gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
    struct pl_store *store;
    pthread_t sealing;
    struct pl_err err = {0};

    other.job = new_job(t, "other");
    append(t, 1, 1, 0, "slow");
    assert_false(has_a_pack(t));
    assert_ok(pl_project_stores_get(t->w.stores, "default", &store, &err),
              &err); /* the first time, that waits for the writer, too */
    assert_ok(pl_db_submit(t->w.db, PL_TX_UNLOGGED, wait_at_gate, NULL, &g, &err), &err);
    pthread_mutex_lock(&g.lock);
    while (!g.entered)
        pthread_cond_wait(&g.changed, &g.lock);
    pthread_mutex_unlock(&g.lock);
    pthread_create(&sealing, NULL, seal_thread, t);
    while (!has_a_pack(t))
        sched_yield();
    append(&other, 1, 1, 0, "quick");
    assert_log(&other, 0, "quick");
    assert_log(t, 0, "slow");
    pthread_mutex_lock(&g.lock);
    g.open = true;
    pthread_cond_broadcast(&g.changed);
    pthread_mutex_unlock(&g.lock);
    pthread_join(sealing, NULL);
    assert_log(t, 0, "slow");
    assert_int_equal(segments(t), 1);
}

struct printer {
    struct logs *t;
    uint8_t datum;
};

static void *print_lines(void *arg)
{
    const struct printer *p = arg;

    append_lines(p->t, p->datum, 0, 3000);
    return NULL;
}

static void test_what_is_read_while_it_is_written_and_sealed_is_whole_and_in_order(void **state)
{
    struct logs *t = *state;
    struct printer printers[3] = {{t, 1}, {t, 2}, {t, 3}};
    pthread_t threads[3];
    struct pl_stage_log_cursor cursor = {0};
    unsigned seen = 0;

    for (size_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, print_lines, &printers[i]);
    while (seen < 3000) {
        char *new = read_on(t, 2, &cursor, 1u << 20);
        unsigned n = (unsigned)(strlen(new) / 1000);

        assert_lines(new, seen, n);
        seen += n;
        free(new);
    }
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    seal(t);
    for (uint8_t d = 1; d <= 3; d++) {
        char *all = read_on(t, d, &(struct pl_stage_log_cursor){0}, 1u << 20);

        assert_lines(all, 0, 3000);
        free(all);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_pieces_are_kept_in_order_of_arrival_and_read_by_datum),
        T(test_a_piece_sent_twice_is_kept_once),
        T(test_each_attempt_counts_from_its_own_start),
        T(test_a_gap_stays_a_gap),
        T(test_a_datums_output_ends_at_its_bound),
        T(test_a_piece_larger_than_a_segment_is_refused),
        T(test_full_segments_are_sealed_and_read_as_before),
        T(test_the_end_of_the_job_seals_the_rest_and_leaves_no_file),
        T(test_a_job_that_printed_nothing_is_sealed_without_a_segment),
        T(test_what_comes_after_the_end_is_kept_too),
        T(test_a_follower_goes_on_across_a_seal),
        T(test_watchers_are_woken_by_bytes_of_their_job_and_by_its_end),
        T(test_whole_frames_survive_a_crash_and_a_torn_one_is_sent_again),
        T(test_a_file_without_its_first_bytes_is_begun_anew),
        T(test_a_piece_of_a_segment_just_sealed_is_not_kept_twice_after_a_restart),
        T(test_a_crash_between_a_segments_row_and_its_files_end_leaves_no_file),
        T(test_a_full_disk_loses_no_piece_that_was_answered),
        T(test_a_rebuilt_databases_jobs_get_no_lines_of_others),
        T(test_files_of_unknown_jobs_go_and_other_files_stay),
        T(test_a_slow_seal_holds_up_neither_other_jobs_nor_readers),
        T(test_what_is_read_while_it_is_written_and_sealed_is_whole_and_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
