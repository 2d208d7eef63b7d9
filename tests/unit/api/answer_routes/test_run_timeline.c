// link: pipelined/api/answer_routes storage/base
/* What a worker did as spans: the phases of its attempts, gaps, GPUs that were held idle, and what a view has no pixel for. */
#include "pipelined/api/answer_routes/run_facts.h"
#include "pipelined/api/answer_routes/run_timeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S 1000000ll

static struct pl_phase_span spans[PL_TIMELINE_PX_MAX + 1];
static int64_t ms[PL_PHASES];

/* The spans in seconds: "start 0-2, compute 2-5". */
static const char *drawn(const struct pl_worker_times *w, const struct pl_attempt_times *attempts, size_t n,
                         struct pl_timeline_view view)
{
    static char text[1000];
    const size_t count = pl_timeline_lane(w, attempts, n, &view, spans, ms);
    size_t at = 0;

    assert_true(count <= view.px + 1);
    text[0] = '\0';
    for (size_t i = 0; i < count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %.4g-%.4g", i ? ", " : "", pl_phase_names[spans[i].phase],
                               (double)spans[i].from_us / S, (double)spans[i].to_us / S);
    return text;
}

static const struct pl_timeline_view all = {0, 100 * S, 1000};

static void an_attempt_has_the_phases_that_did_not_overlap(void **state)
{
    const struct pl_attempt_times two[] = {{2 * S, 10 * S, 1 * S, 2 * S, 6 * S, 1 * S}, {15 * S, 4 * S, 0, 9 * S, 4 * S, 3 * S}};
    const struct pl_worker_times w = {.from_us = 0, .to_us = 20 * S};

    (void)state;
    assert_string_equal(drawn(&w, two, 2, all),
                        "start 0-2, idle 2-3, fetch 3-5, compute 5-11, upload 11-12, idle 12-15, compute 15-19, idle 19-20");
    assert_int_equal(ms[PL_PHASE_COMPUTE], 10000);
    assert_int_equal(ms[PL_PHASE_IDLE], 5000);
}

static void gpus_that_are_held_idle_are_a_phase_of_their_own(void **state)
{
    const struct pl_attempt_times one[] = {{10 * S, 10 * S, 2 * S, 0, 8 * S, 0}};
    struct pl_worker_times w = {.from_us = 0, .placed_us = 4 * S, .to_us = 30 * S, .has_gpus = true};

    (void)state;
    assert_string_equal(drawn(&w, one, 1, all), "wait 0-4, start 4-10, idle_gpu 10-12, compute 12-20, idle_gpu 20-30");
    w.working = true;
    assert_string_equal(drawn(&w, one, 1, all), "wait 0-4, start 4-10, idle_gpu 10-12, compute 12-20, work 20-30");
    w.unplaced = true;
    assert_string_equal(drawn(&w, one, 0, all), "wait 0-30");
}

static void time_without_kept_attempts_is_work(void **state)
{
    const struct pl_attempt_times two[] = {{0, 5 * S, 0, 0, 5 * S, 0}, {20 * S, 5 * S, 0, 0, 5 * S, 0}};
    const struct pl_worker_times w = {.from_us = 0, .to_us = 40 * S, .incomplete = true};

    (void)state;
    assert_string_equal(drawn(&w, two, 2, all), "compute 0-5, work 5-20, compute 20-25, work 25-40");
    assert_string_equal(drawn(&w, two, 0, all), "work 0-40");
}

static void a_view_cuts_and_an_empty_one_has_nothing(void **state)
{
    const struct pl_attempt_times one[] = {{2 * S, 10 * S, 0, 0, 10 * S, 0}};
    const struct pl_worker_times w = {.from_us = 0, .to_us = 20 * S};

    (void)state;
    assert_string_equal(drawn(&w, one, 1, (struct pl_timeline_view){5 * S, 15 * S, 100}), "compute 5-12, idle 12-15");
    assert_int_equal(ms[PL_PHASE_COMPUTE], 7000);
    assert_string_equal(drawn(&w, one, 1, (struct pl_timeline_view){30 * S, 40 * S, 100}), "");
}

static void the_longest_view_has_no_more_spans_than_pixels(void **state)
{
    const struct pl_attempt_times two[] = {{2 * S, 10 * S, 1 * S, 2 * S, 6 * S, 1 * S}, {15 * S, 4 * S, 0, 9 * S, 4 * S, 3 * S}};
    const struct pl_worker_times w = {.from_us = 0, .to_us = 20 * S};

    (void)state;
    for (uint32_t px = 1; px < 5; px++) {
        drawn(&w, two, 2, (struct pl_timeline_view){0, (int64_t)PL_TIMELINE_MAX_US, px});
        drawn(&w, two, 2, (struct pl_timeline_view){0, INT64_MAX, px});
    }
}

static void nothing_is_drawn_after_the_worker_ended(void **state)
{
    const struct pl_attempt_times later[] = {{2 * S, 3 * S, 0, 0, 3 * S, 0}, {30 * S, 5 * S, 0, 0, 5 * S, 0}};
    const struct pl_worker_times w = {.from_us = 0, .to_us = 20 * S};

    (void)state;
    assert_string_equal(drawn(&w, later, 2, all), "start 0-2, compute 2-5, idle 5-20");
    assert_int_equal(ms[PL_PHASE_COMPUTE], 3000);
}

/* 100,000 datums of 1 ms on 100 pixels: each has 1,000 of them. */
static void narrow_spans_become_one_of_the_phase_that_takes_most(void **state)
{
    enum { N = 100000 };
    struct pl_attempt_times *many = calloc(N, sizeof *many);
    const struct pl_worker_times w = {.from_us = 0, .to_us = 100 * S};

    (void)state;
    assert_non_null(many);
    for (int64_t i = 0; i < N; i++)
        many[i] = (struct pl_attempt_times){i * 1000, 1000, 0, i < N / 2 ? 700 : 100, i < N / 2 ? 300 : 900, 0};
    assert_string_equal(drawn(&w, many, N, (struct pl_timeline_view){0, 100 * S, 100}), "fetch 0-50, compute 50-100");
    assert_int_equal(ms[PL_PHASE_COMPUTE], 15000 + 45000);
    for (int64_t i = 0; i < N; i++) /* now each second is another phase than the one before it */
        many[i].compute_us = i / 1000 % 2 ? 900 : 300, many[i].fetch_us = i / 1000 % 2 ? 100 : 700;
    assert_int_equal(pl_timeline_lane(&w, many, N, &(struct pl_timeline_view){0, 100 * S, 100}, spans, ms), 100);
    for (unsigned px = 1; px < 100; px++) /* whatever the width, there are no more than pixels, and no gap */
        drawn(&w, many, N, (struct pl_timeline_view){0, 100 * S, px});
    free(many);
}

static void a_crowd_is_counted_where_it_is_in_the_middle_of_a_pixel(void **state)
{
    const struct pl_phase_span first[] = {{0, 4 * S, PL_PHASE_START}, {4 * S, 10 * S, PL_PHASE_COMPUTE}},
                               second[] = {{3 * S, 6 * S, PL_PHASE_WORK}};
    const struct pl_timeline_view view = {0, 10 * S, 5};
    uint32_t there[5] = {0}, busy[5] = {0};
    static const uint32_t want_there[] = {1, 2, 2, 1, 1}, want_busy[] = {0, 1, 2, 1, 1};

    (void)state;
    pl_timeline_crowd_add(&view, first, 2, there, busy);
    pl_timeline_crowd_add(&view, second, 1, there, busy);
    assert_memory_equal(there, want_there, sizeof there);
    assert_memory_equal(busy, want_busy, sizeof busy);
}

static void a_run_is_expected_to_take_as_long_as_the_median_of_those_before(void **state)
{
    static const struct {
        int64_t took[5];
        size_t n;
        int64_t want;
    } rows[] = {{{0}, 0, -1}, {{5, 1}, 2, -1}, {{9, 1, 5}, 3, 5}, {{8, 2, 4, 100}, 4, 6}, {{5, 4, 3, 2, 1}, 5, 3}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        int64_t took[5];

        memcpy(took, rows[i].took, sizeof took);
        assert_int_equal(pl_run_estimate(took, rows[i].n), rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_has_the_phases_that_did_not_overlap),
        cmocka_unit_test(gpus_that_are_held_idle_are_a_phase_of_their_own),
        cmocka_unit_test(time_without_kept_attempts_is_work),
        cmocka_unit_test(a_view_cuts_and_an_empty_one_has_nothing),
        cmocka_unit_test(the_longest_view_has_no_more_spans_than_pixels),
        cmocka_unit_test(nothing_is_drawn_after_the_worker_ended),
        cmocka_unit_test(narrow_spans_become_one_of_the_phase_that_takes_most),
        cmocka_unit_test(a_crowd_is_counted_where_it_is_in_the_middle_of_a_pixel),
        cmocka_unit_test(a_run_is_expected_to_take_as_long_as_the_median_of_those_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
