// link: pipelined/db/pipelines pipelined/db/stage_log pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* log_view: lines and searches over segments, open and sealed, against the whole text; and that little is read of a large log. */
#include "pipelined/db/stage_log/log_view.h"
#include "tests/unit/db/stage_log/stage_log_fixture.h"

#define PIECE (1u << 20)

/* What the job printed, altogether and by datum. */
static char *whole(struct logs *t, uint8_t d)
{
    struct pl_stage_log_cursor cursor = {0};

    return read_on(t, d, &cursor, 8u << 20);
}

/* Appends pieces of random lines of two datums, so that segments end within lines. Some hold no line break. */
static void print_much(struct logs *t, unsigned pieces)
{
    uint64_t at[3] = {0};
    char *piece = malloc(PIECE);

    for (unsigned i = 0; i < pieces; i++) {
        const uint8_t d = (uint8_t)(1 + rand() % 2);
        const bool one_line = rand() % 5 == 0;
        const struct pl_stage_log_source source = {.datum = datum(d), .attempt = 1, .fence = 1};

        for (size_t k = 0; k < PIECE; k++)
            piece[k] = one_line || rand() % 300 ? (char)('a' + rand() % 20) : '\n';
        if (rand() % 2)
            memcpy(piece + (size_t)rand() % (PIECE - 20), "\nneedle in it\n", 14);
        assert_int_equal(append_bytes(t, &source, at[d], piece, PIECE), 0);
        at[d] += PIECE;
    }
    free(piece);
}

static uint64_t lines_of(const char *text)
{
    const size_t n = strlen(text);

    return pl_log_lines_count(text, n) + (n > 0 && text[n - 1] != '\n');
}

/* The start of line `number`. */
static const char *line_at(const char *text, uint64_t number)
{
    for (; number > 1 && text; number--)
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    return text;
}

static void assert_lines_of(struct logs *t, uint8_t d, const char *text, const struct pl_log_range *range, uint64_t first)
{
    const struct pl_hash id = datum(d);
    const struct pl_log_filter filter = {.datum = d ? &id : NULL};
    struct pl_log_total total = {0};
    struct pl_log_lines got = {0};
    struct pl_err err = {0};
    const char *at = line_at(text, first);
    const uint64_t all = lines_of(text);

    assert_ok(pl_stage_logs_lines(t->l, "default", t->job, &filter, range, &got, &total, &err), &err);
    assert_int_equal(total.bytes, strlen(text));
    assert_int_equal(total.lines, all);
    assert_int_equal(got.n, first > all ? 0 : PL_MIN(all - first + 1, range->most));
    for (size_t i = 0; i < got.n; i++) {
        const size_t n = strcspn(at, "\n");

        assert_int_equal(got.list[i].number, first + i);
        assert_int_equal(got.list[i].bytes, n);
        assert_int_equal(got.list[i].len, PL_MIN(n, PL_LOG_LINE_MAX));
        assert_int_equal(got.list[i].cut, n > PL_LOG_LINE_MAX);
        assert_memory_equal(got.text.data + got.list[i].at, at, got.list[i].len);
        at += n + (at[n] == '\n');
    }
    pl_log_lines_finish(&got);
}

static uint64_t search(struct logs *t, uint8_t d, const struct pl_log_search *s, uint64_t from, bool back)
{
    const struct pl_hash id = datum(d);
    const struct pl_log_filter filter = {.datum = d ? &id : NULL};
    struct pl_log_found found = {0};
    struct pl_err err = {0};

    do
        assert_ok(pl_stage_logs_search(t->l, "default", t->job, &filter, s, found.next ? found.next : from, back, &found, &err),
                  &err);
    while (found.line == 0 && found.next);
    return found.line;
}

static uint64_t naive(const char *text, const char *needle, uint64_t from, bool back)
{
    uint64_t line = 1, last = 0;

    for (const char *hit = text, *c = text; (hit = strstr(hit, needle)); hit++) {
        for (; c < hit; c++)
            line += *c == '\n';
        if (back ? line >= from : line >= from)
            return back ? last : line;
        last = line;
    }
    return back ? last : 0;
}

static void lines_and_searches_are_those_of_the_whole_text(void **state)
{
    struct logs *t = *state;
    struct pl_log_search *s;

    srand(9);
    assert_int_equal(pl_log_search_text("needle", &s, NULL), 0);
    for (unsigned round = 0; round < 4; round++) {
        print_much(t, 5);
        if (round == 2)
            seal(t);
        for (uint8_t d = 0; d <= 3; d++) {
            char *text = whole(t, d);
            const uint64_t all = lines_of(text);

            for (unsigned i = 0; i < 4; i++) {
                const uint64_t first = 1 + (uint64_t)rand() % (all + 2);
                const struct pl_log_range from = {.first = first, .most = 1 + (size_t)(rand() % 500), .max_bytes = 64u << 20};

                assert_lines_of(t, d, text, &from, first);
                assert_int_equal(search(t, d, s, first, false), naive(text, "needle", first, false));
                assert_int_equal(search(t, d, s, first, true), naive(text, "needle", first, true));
            }
            assert_lines_of(t, d, text, &(struct pl_log_range){.tail = true, .most = 100, .max_bytes = 64u << 20},
                            all > 100 ? all - 99 : 1);
            if (*text) {
                const uint64_t byte = (uint64_t)rand() % strlen(text);

                assert_lines_of(t, d, text, &(struct pl_log_range){.byte = byte, .most = 3, .max_bytes = 64u << 20},
                                1 + pl_log_lines_count(text, byte));
            }
            free(text);
        }
    }
    pl_log_search_free(s);
}

/* With the part of the log in which they end, and the one before it. */
static void the_last_lines_are_read_without_all_that_is_before_them(void **state)
{
    static const uint64_t numbers[] = {1, 3, 1000, 30000};
    struct logs *t = *state;
    struct pl_stage_log_cursor at = {1, 1, 1};
    struct pl_err err = {0};

    assert_ok(pl_stage_logs_tail(t->l, "default", t->job, &(struct pl_log_filter){0}, 5, &at, &err), &err);
    assert_true(at.segment == 0 && at.offset == 0 && at.taken == 0); /* nothing was printed yet */
    print_much(t, 18);
    for (uint8_t d = 0; d <= 2; d++) {
        char *text = whole(t, d);
        const struct pl_hash id = datum(d);
        const struct pl_log_filter filter = {.datum = d ? &id : NULL};

        for (size_t i = 0; i < PL_ARRAY_SIZE(numbers); i++) {
            const uint64_t wanted = PL_MIN(numbers[i], lines_of(text));
            char *end;

            assert_ok(pl_stage_logs_tail(t->l, "default", t->job, &filter, numbers[i], &at, &err), &err);
            assert_true(wanted == numbers[i] || at.segment == 0);
            assert_true(numbers[i] > 3 || (int64_t)at.segment >= segments(t) - 3);
            end = read_on(t, d, &at, PIECE);
            assert_true(strlen(end) <= strlen(text) && lines_of(end) >= wanted);
            assert_string_equal(end, text + strlen(text) - strlen(end));
            free(end);
        }
        free(text);
    }
}

static void a_match_over_the_end_of_a_segment_is_found(void **state)
{
    struct logs *t = *state;
    struct pl_log_search *s;

    append(t, 1, 1, 0, "first\nnee");
    seal(t);
    append(t, 1, 1, 9, "dle\nlast\n");
    assert_int_equal(segments(t), 1);
    assert_int_equal(pl_log_search_text("needle", &s, NULL), 0);
    assert_int_equal(search(t, 0, s, 1, false), 2);
    assert_int_equal(search(t, 0, s, 9, true), 2);
    assert_int_equal(search(t, 0, s, 2, true), 0);
    pl_log_search_free(s);
}

static int forget_entries(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)arg;
    return PL_MIN(pl_sql_exec(pl_tx_conn(tx), err, "UPDATE log_segment SET entries = '[]'", ""), 0);
}

/* Rows of segments from before there were counts, or of too many datums, are counted from the text. */
static void segments_without_counts_are_counted(void **state)
{
    struct logs *t = *state;
    struct pl_err err = {0};
    char *text;

    print_much(t, 9);
    assert_ok(pl_db_run(t->w.db, PL_TX_UNLOGGED, forget_entries, NULL, &err), &err);
    text = whole(t, 1);
    assert_lines_of(t, 1, text, &(struct pl_log_range){.tail = true, .most = 9, .max_bytes = 1u << 20}, lines_of(text) - 8);
    free(text);
}

static int64_t rows_without_counts(struct logs *t)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(t->w.db);
    int64_t n = -1;

    assert_int_equal(pl_sql_int(rd.conn, NULL, &n, "SELECT count(*) FROM log_segment WHERE entries = '[]'", ""), 0);
    return n;
}

static int nothing(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)tx;
    (void)arg;
    (void)err;
    return 0;
}

static int last_line(struct logs *t, struct pl_effort *effort, uint64_t *ret_lines)
{
    const struct pl_log_filter filter = {.effort = effort};
    struct pl_log_total total = {0};
    struct pl_log_lines got = {0};
    int r = pl_stage_logs_lines(t->l, "default", t->job, &filter,
                                &(struct pl_log_range){.tail = true, .most = 1, .max_bytes = 1u << 20}, &got, &total, NULL);

    pl_log_lines_finish(&got);
    *ret_lines = total.lines;
    return r;
}

/* A log of old segments is loaded once: their counts are written back. */
static void counts_of_old_segments_are_kept(void **state)
{
    struct logs *t = *state;
    struct pl_effort effort = {0};
    struct pl_err err = {0};
    uint64_t lines, again;

    print_much(t, 9);
    seal(t);
    assert_ok(pl_db_run(t->w.db, PL_TX_UNLOGGED, forget_entries, NULL, &err), &err);
    assert_int_equal(rows_without_counts(t), segments(t));
    assert_int_equal(last_line(t, &effort, &lines), 0);
    assert_true(effort.visits >= 9 * PIECE / 1024);
    assert_ok(pl_db_run(t->w.db, PL_TX_UNLOGGED, nothing, NULL, &err), &err); /* after what was submitted before */
    assert_int_equal(rows_without_counts(t), 0);
    effort = (struct pl_effort){0};
    assert_int_equal(last_line(t, &effort, &again), 0);
    assert_int_equal(again, lines);
    assert_true(effort.visits <= 2 * (PL_STAGE_LOG_SEGMENT_BYTES / 1024 + 1)); /* only those with the last line */
}

static bool is_gone(const void *self)
{
    (void)self;
    return true;
}

/* The work of a request ends at its limits and when nobody waits for it; what was counted until then is kept. */
static void counting_ends_with_the_effort(void **state)
{
    struct logs *t = *state;
    struct pl_effort gone = {.gone = is_gone}, few = {.visits_max = PL_STAGE_LOG_SEGMENT_BYTES / 1024 + 100};
    struct pl_log_filter filter = {.effort = &gone};
    struct pl_log_search *s;
    struct pl_log_found found;
    struct pl_err err = {0};
    uint64_t lines;

    print_much(t, 13);
    seal(t);
    assert_ok(pl_db_run(t->w.db, PL_TX_UNLOGGED, forget_entries, NULL, &err), &err);
    assert_int_equal(last_line(t, &gone, &lines), PL_ECANCELED);
    assert_int_equal(pl_log_search_text("needle", &s, NULL), 0);
    assert_int_equal(pl_stage_logs_search(t->l, "default", t->job, &filter, s, 1, false, &found, NULL), PL_ECANCELED);
    pl_log_search_free(s);
    assert_int_equal(last_line(t, &few, &lines), PL_ELIMIT);
    assert_ok(pl_db_run(t->w.db, PL_TX_UNLOGGED, nothing, NULL, &err), &err);
    assert_in_range(rows_without_counts(t), 1, segments(t) - 1);
}

static void print_long_line(struct logs *t, uint8_t d, unsigned pieces)
{
    const struct pl_stage_log_source source = {.datum = datum(d), .attempt = 1, .fence = 1};
    char *piece = malloc(PIECE);

    memset(piece, '\r', PIECE);
    for (unsigned i = 0; i < pieces; i++)
        assert_int_equal(append_bytes(t, &source, (uint64_t)i * PIECE, piece, PIECE), 0);
    free(piece);
}

/* A line of more than a search looks through at once: it says where to go on, or that it has come to the end. */
static void a_search_ends_in_one_long_line(void **state)
{
    const unsigned many = PL_LOG_SEARCH_BUDGET / PIECE + 9;
    struct logs *t = *state;
    struct pl_effort effort = {0};
    const struct pl_log_filter filter = {.effort = &effort};
    struct pl_log_found found = {0};
    struct pl_log_search *s;
    struct pl_err err = {0};

    assert_int_equal(pl_log_search_text("needle", &s, NULL), 0);
    append(t, 9, 1, 0, "needle\n");
    print_long_line(t, 1, many);
    assert_ok(pl_stage_logs_search(t->l, "default", t->job, &filter, s, 2, false, &found, &err), &err);
    assert_int_equal(found.line, 0);
    assert_int_equal(found.next, 0); /* there is no other line */
    assert_in_range(effort.visits, PL_LOG_SEARCH_BUDGET / 1024, (PL_LOG_SEARCH_BUDGET + 2 * PL_STAGE_LOG_SEGMENT_BYTES) / 1024);
    append(t, 9, 1, 7, "\nthe needle\n");
    assert_ok(pl_stage_logs_search(t->l, "default", t->job, &filter, s, 2, false, &found, &err), &err);
    assert_int_equal(found.line, 0);
    assert_int_equal(found.next, 3);
    assert_int_equal(search(t, 0, s, 2, false), 3);
    effort = (struct pl_effort){0};
    assert_ok(pl_stage_logs_search(t->l, "default", t->job, &filter, s, 3, true, &found, &err), &err);
    assert_int_equal(found.line, 0);
    assert_int_equal(found.next, 2);
    assert_true(effort.visits <= (PL_LOG_SEARCH_BUDGET + 3 * PL_STAGE_LOG_SEGMENT_BYTES) / 1024);
    assert_int_equal(search(t, 0, s, 3, true), 1);
    pl_log_search_free(s);
}

static void of_one_attempt_only_its_lines(void **state)
{
    struct logs *t = *state;
    const struct pl_hash id = datum(1);
    const struct pl_log_filter filter = {.datum = &id, .attempt = 2};
    struct pl_log_total total = {0};
    struct pl_log_lines got = {0};
    struct pl_err err = {0};

    append(t, 1, 1, 0, "first\n");
    append(t, 2, 2, 0, "another\n");
    seal(t);
    append(t, 1, 2, 0, "second\n");
    assert_ok(pl_stage_logs_lines(t->l, "default", t->job, &filter,
                                  &(struct pl_log_range){.first = 1, .most = 9, .max_bytes = 99}, &got, &total, &err),
              &err);
    assert_int_equal(total.lines, 1);
    assert_memory_equal(got.text.data, "second", 6);
    pl_log_lines_finish(&got);
}

static void the_newest_of_long_lines_is_always_there(void **state)
{
    struct logs *t = *state;
    struct pl_log_total total = {0};
    struct pl_log_lines got = {0};
    struct pl_err err = {0};

    append(t, 1, 1, 0, "a first long line\nanother one\nthe newest\n");
    assert_ok(pl_stage_logs_lines(t->l, "default", t->job, &(struct pl_log_filter){0},
                                  &(struct pl_log_range){.tail = true, .most = 9, .max_bytes = 12}, &got, &total, &err),
              &err);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.list[0].number, 3);
    assert_memory_equal(got.text.data + got.list[0].at, "the newest", 10);
    pl_log_lines_finish(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_and_searches_are_those_of_the_whole_text, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_lines_are_read_without_all_that_is_before_them, setup, teardown),
        cmocka_unit_test_setup_teardown(a_match_over_the_end_of_a_segment_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(segments_without_counts_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_of_old_segments_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(counting_ends_with_the_effort, setup, teardown),
        cmocka_unit_test_setup_teardown(a_search_ends_in_one_long_line, setup, teardown),
        cmocka_unit_test_setup_teardown(of_one_attempt_only_its_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(the_newest_of_long_lines_is_always_there, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
