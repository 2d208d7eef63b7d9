// link: pipelined/cli/support
/* The progress line: what it says of the counters, and how its rate follows them. */
#include "pipelined/cli/support/progress.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static void the_line_says_what_is_known(void **state)
{
    static const struct {
        const char *what, *line;
        struct pl_cli_progress_state is;
        struct pl_cli_progress_rate rate;
    } rows[] = {
        {"one large file",
         "read 1.0 GiB of 4.0 GiB (25 %), 100.0 MiB/s, 31s left",
         {0, GIB, 1, 4 * GIB},
         {0, GIB, 100 * MIB, true}},
        {"many files",
         "read 3 of 10 files, 1.0 MiB of 4.0 MiB (25 %), 1.0 MiB/s, 4s left",
         {3, MIB, 10, 4 * MIB},
         {0, MIB, MIB, true}},
        {"the first look", "read 0 of 10 files, 0 B of 4.0 MiB (0 %)", {0, 0, 10, 4 * MIB}, {0}},
        {"standard input", "read 1.0 GiB, 1.0 MiB/s", {0, GIB, 0, 0}, {0, GIB, MIB, true}},
        {"files without a total", "found 3 files, 1.0 MiB, 1.0 MiB/s", {3, MIB, 0, 0}, {0, MIB, MIB, true}},
        {"almost done is not done",
         "read 4.0 GiB of 4.0 GiB (99 %), 1.0 MiB/s, 1s left",
         {0, 4 * GIB - 1, 1, 4 * GIB},
         {0, 0, MIB, true}},
        {"done", "read 4.0 GiB of 4.0 GiB (100 %), 1.0 MiB/s", {0, 4 * GIB, 1, 4 * GIB}, {0, 0, MIB, true}},
        {"a file grew", "read 4.0 GiB of 4.0 GiB (100 %), 1.0 MiB/s", {0, 5 * GIB, 1, 4 * GIB}, {0, 0, MIB, true}},
        {"it stands still", "read 1.0 GiB of 4.0 GiB (25 %), 0 B/s", {0, GIB, 1, 4 * GIB}, {0, GIB, 0, true}},
        {"weeks", "read 1.0 GiB of 4.0 GiB (25 %), 1.0 KiB/s", {0, GIB, 1, 4 * GIB}, {0, GIB, 1024, true}},
        {"nothing but empty files", "read 3 files, 0 B, 0 B/s", {3, 0, 10, 0}, {0, 0, 0, true}},
    };
    char line[PL_CLI_PROGRESS_TEXT];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const char *word = strncmp(rows[i].line, "found", 5) == 0 ? "found" : "read";

        print_message("%s\n", rows[i].what);
        assert_string_equal(pl_cli_progress_text(word, &rows[i].is, &rows[i].rate, line), rows[i].line);
    }
}

static void the_largest_figures_fit(void **state)
{
    struct pl_cli_progress_state is = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX, UINT64_MAX};
    struct pl_cli_progress_rate rate = {.per_s = 1e18, .begun = true};
    char line[PL_CLI_PROGRESS_TEXT];

    (void)state;
    assert_non_null(strstr(pl_cli_progress_text("wrote", &is, &rate, line), "/s"));
    assert_in_range(strlen(line), 60, PL_CLI_PROGRESS_TEXT - 1);
}

static void the_time_left_needs_a_total_and_a_rate(void **state)
{
    static const struct {
        struct pl_cli_progress_state is;
        double per_s;
        bool begun;
        int64_t left_s;
    } rows[] = {
        {{0, 50, 1, 100}, 10, true, 6},   {{0, 50, 1, 100}, 10, false, -1}, {{0, 50, 0, 0}, 10, true, -1},
        {{0, 100, 1, 100}, 10, true, -1}, {{0, 99, 1, 100}, 1000, true, 1}, {{0, 0, 1, 100}, 0.5, true, -1},
        {{0, 0, 1, GIB}, 1, true, -1},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_cli_progress_rate rate = {.per_s = rows[i].per_s, .begun = rows[i].begun};

        assert_int_equal(pl_cli_progress_left_s(&rows[i].is, &rate), rows[i].left_s);
    }
}

/* Looks every 250 ms while 1 MiB/s comes, for `s` seconds. */
static void steady(struct pl_cli_progress_rate *rate, int s, uint64_t per_s)
{
    for (int i = 0; i < 4 * s; i++)
        pl_cli_progress_rate_next(rate, rate->at_ms + 250, rate->bytes + per_s / 4);
}

static void the_rate_is_smoothed(void **state)
{
    struct pl_cli_progress_rate rate = {.at_ms = 1000};

    (void)state;
    pl_cli_progress_rate_next(&rate, 1000, 5); /* no time went by */
    assert_false(rate.begun);
    pl_cli_progress_rate_next(&rate, 1400, 4 * MIB / 10);
    assert_in_range((uint64_t)rate.per_s, MIB - KIB, MIB + KIB); /* the first look is the rate */
    steady(&rate, 10, MIB);
    assert_in_range((uint64_t)rate.per_s, MIB - KIB, MIB + KIB);
    steady(&rate, 1, 0); /* a pause of a second is no reason to double the time left */
    assert_in_range((uint64_t)rate.per_s, MIB * 7 / 10, MIB - 1);
    steady(&rate, 60, 0); /* a minute is */
    assert_in_range((uint64_t)rate.per_s, 0, KIB);
    steady(&rate, 60, 10 * MIB);
    assert_in_range((uint64_t)rate.per_s, 9 * MIB, 10 * MIB + KIB);
}

static void a_counter_that_was_set_back_begins_anew(void **state)
{
    struct pl_cli_progress_rate rate = {.at_ms = 0};

    (void)state;
    steady(&rate, 10, MIB);
    pl_cli_progress_rate_next(&rate, rate.at_ms + 250, 0);
    assert_false(rate.begun);
    steady(&rate, 1, 2 * MIB);
    assert_in_range((uint64_t)rate.per_s, 2 * MIB - KIB, 2 * MIB + KIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_says_what_is_known),
        cmocka_unit_test(the_largest_figures_fit),
        cmocka_unit_test(the_time_left_needs_a_total_and_a_rate),
        cmocka_unit_test(the_rate_is_smoothed),
        cmocka_unit_test(a_counter_that_was_set_back_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
