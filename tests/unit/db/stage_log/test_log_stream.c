// link: pipelined/db/stage_log storage/base
/* Whole lines of datums that print at the same time: what is written when, and how much is kept. */
#include "pipelined/db/stage_log/log_segment.h"
#include "pipelined/db/stage_log/log_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct streamed {
    struct pl_log_stream *s;
    struct pl_buf out;
};

static int setup(void **state)
{
    struct streamed *t = calloc(1, sizeof *t);

    assert_int_equal(pl_log_stream_create(&t->s, NULL), 0);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct streamed *t = *state;

    pl_log_stream_destroy(t->s);
    pl_buf_finish(&t->out);
    free(t);
    return 0;
}

static void feed_of(struct streamed *t, uint64_t fence, uint8_t datum, uint32_t attempt, const char *text)
{
    const struct pl_log_frame f = {.datum = {.b = {datum}},
                                   .attempt = attempt,
                                   .fence = fence,
                                   .at_us = 7,
                                   .bytes = (const uint8_t *)text,
                                   .len = (uint32_t)strlen(text)};
    uint32_t at = 0;

    assert_int_equal(pl_log_stream_feed(t->s, &f, &at, SIZE_MAX, &t->out, NULL), 0);
    assert_int_equal(at, f.len);
}

static void feed(struct streamed *t, uint8_t datum, uint32_t attempt, const char *text)
{
    feed_of(t, 0, datum, attempt, text);
}

/* Compares what was written since the last call. Each record is shown as DATUM.ATTEMPT STATE TEXT, with the datum's first
 * byte, and with | between records. */
static void assert_written(struct streamed *t, const char *want)
{
    struct pl_buf got = {0};
    const char *p = t->out.len ? pl_buf_str(&t->out) : "";

    while (*p) {
        unsigned datum, attempt;
        char hex[PL_HASH_HEX + 1], mark;
        int at, used = 0;
        const char *end = strchr(p, '\n');

        assert_non_null(end);
        assert_int_equal(sscanf(p, "%d %64s %u %c%n", &at, hex, &attempt, &mark, &used), 4);
        assert_int_equal(at, 7);
        assert_int_equal(sscanf(hex, "%2x", &datum), 1);
        assert_int_equal(p[used], ' ');
        assert_int_equal(pl_buf_addf(&got, NULL, "%s%u.%u%c%.*s", got.len ? "|" : "", datum, attempt, mark,
                                     (int)(end - p) - used - 1, p + used + 1),
                         0);
        p = end + 1;
    }
    assert_string_equal(got.len ? pl_buf_str(&got) : "", want);
    pl_buf_finish(&got);
    pl_buf_clear(&t->out);
}

static void test_lines_of_two_datums_are_not_mixed(void **state)
{
    struct streamed *t = *state;

    feed(t, 1, 1, "one ");
    feed(t, 2, 1, "two\nand ");
    assert_written(t, "2.1=two");
    feed(t, 1, 1, "line\n\nleft");
    assert_written(t, "1.1=one line|1.1=");
    feed(t, 2, 1, "more");
    assert_int_equal(pl_log_stream_end(t->s, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "2.1+and more|1.1+left");
    assert_int_equal(pl_log_stream_end(t->s, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "");
}

static void test_a_rewritten_line_has_its_last_state(void **state)
{
    struct streamed *t = *state;

    feed(t, 1, 1, "\r10 %\r20 %");
    feed(t, 1, 1, "\r");
    assert_int_equal(pl_log_stream_states(t->s, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "1.1~20 %");
    assert_int_equal(pl_log_stream_states(t->s, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "");
    feed(t, 1, 1, "30 %\r\nnext\r\n");
    assert_written(t, "1.1=30 %|1.1=next");
    assert_int_equal(pl_log_stream_states(t->s, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "");
}

static void test_a_new_attempt_begins_a_line(void **state)
{
    struct streamed *t = *state;

    feed(t, 1, 1, "died here");
    feed(t, 1, 2, "again\n");
    assert_written(t, "1.1+died here|1.2=again");
}

static void test_an_open_line_ends_when_its_lease_prints_for_another_datum(void **state)
{
    struct streamed *t = *state;

    feed_of(t, 5, 1, 1, "result ");
    feed_of(t, 6, 2, 1, "of another worker");
    feed_of(t, 5, 1, 1, "of 1");
    assert_written(t, "");
    feed_of(t, 5, 3, 1, "result of 3");
    assert_written(t, "1.1+result of 1");
    feed_of(t, 5, 4, 1, "four\n");
    assert_written(t, "3.1+result of 3|4.1=four");
    feed_of(t, 7, 2, 1, ", again"); /* its lease was lost */
    feed_of(t, 6, 5, 1, "five");
    assert_written(t, "");
    feed_of(t, 7, 6, 1, "six");
    assert_written(t, "2.1+of another worker, again");
    assert_int_equal(pl_log_stream_end(t->s, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "5.1+five|6.1+six");
}

static void test_a_long_line_comes_in_parts(void **state)
{
    struct streamed *t = *state;
    char *text = calloc(1, PL_LOG_STREAM_LINE_MAX + 3);

    memset(text, 'x', PL_LOG_STREAM_LINE_MAX + 2);
    feed(t, 1, 1, text);
    assert_int_equal(memcmp(strchr(pl_buf_str(&t->out), '+'), "+ xx", 4), 0);
    assert_int_equal(t->out.data[t->out.len - 1], '\n');
    pl_buf_clear(&t->out);
    feed(t, 1, 1, "\n");
    assert_written(t, "1.1=xx");
    free(text);
}

static void test_open_lines_are_bounded(void **state)
{
    struct streamed *t = *state;
    struct pl_log_frame f = {.attempt = 1, .at_us = 7, .bytes = (const uint8_t *)"x", .len = 1};
    uint32_t at = 0;

    for (uint32_t i = 0; i < PL_LOG_STREAM_OPEN_MAX; i++) {
        memcpy(f.datum.b, &i, sizeof i);
        at = 0;
        assert_int_equal(pl_log_stream_feed(t->s, &f, &at, SIZE_MAX, &t->out, NULL), 0);
    }
    assert_int_equal(t->out.len, 0);
    at = 0;
    memset(f.datum.b, 9, sizeof f.datum.b);
    f = (struct pl_log_frame){.datum = f.datum, .attempt = 3, .at_us = 7, .bytes = (const uint8_t *)"y\n", .len = 2};
    assert_int_equal(pl_log_stream_feed(t->s, &f, &at, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "0.1+x|9.3=y");
}

/* A record is longer than a short line: what is given at once is bounded all the same, and nothing is lost. */
static void test_many_short_lines_come_a_part_at_a_time(void **state)
{
    struct streamed *t = *state;
    const uint32_t n = 100000;
    const size_t max = 64 << 10;
    uint8_t *text = malloc(2 * n);
    struct pl_log_frame f = {.datum = {.b = {1}}, .attempt = 1, .at_us = 7, .bytes = text, .len = 2 * n};
    uint32_t records = 0, calls = 0;

    for (uint32_t i = 0; i < n; i++)
        memcpy(text + 2 * i, "1\n", 2);
    for (uint32_t at = 0; at < f.len; calls++) {
        pl_buf_clear(&t->out);
        assert_int_equal(pl_log_stream_feed(t->s, &f, &at, max, &t->out, NULL), 0);
        assert_in_range(t->out.len, 1, max + PL_LOG_STREAM_LINE_MAX + 200);
        for (size_t i = 0; i < t->out.len; i++)
            records += t->out.data[i] == '\n';
    }
    assert_int_equal(records, n);
    assert_true(calls > 100);
    free(text);
    /* and so are the ends and the states of open lines */
    pl_buf_clear(&t->out);
    for (uint8_t i = 1; i <= 3; i++)
        feed(t, i, 1, "goes on");
    assert_int_equal(pl_log_stream_states(t->s, 1, &t->out, NULL), 0);
    assert_written(t, "1.1~goes on");
    assert_int_equal(pl_log_stream_states(t->s, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "2.1~goes on|3.1~goes on");
    assert_int_equal(pl_log_stream_end(t->s, 1, &t->out, NULL), 0);
    assert_written(t, "1.1+goes on");
    assert_int_equal(pl_log_stream_end(t->s, SIZE_MAX, &t->out, NULL), 0);
    assert_written(t, "2.1+goes on|3.1+goes on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_of_two_datums_are_not_mixed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_rewritten_line_has_its_last_state, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_new_attempt_begins_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_open_line_ends_when_its_lease_prints_for_another_datum, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_line_comes_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_lines_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_short_lines_come_a_part_at_a_time, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
