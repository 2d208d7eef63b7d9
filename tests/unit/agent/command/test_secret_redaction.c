// link: pipelined/agent/command
/* What a command prints less its secrets, however the bytes come in pieces. */
#include "pipelined/agent/command/secret_redaction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct pl_secret_redaction mask_of(const char *const *texts)
{
    struct pl_secret_redaction m = {0};

    for (size_t i = 0; i < 3 && texts[i]; i++)
        assert_int_equal(pl_secret_redaction_add(&m, texts[i], strlen(texts[i]), false, NULL), 0);
    pl_secret_redaction_ready(&m);
    return m;
}

/* In pieces of `step` bytes. */
static void passes(const struct pl_secret_redaction *m, const char *text, size_t step, const char *wanted)
{
    _cleanup_(pl_buf_finish) struct pl_buf held = {0};
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    size_t len = strlen(text);

    for (size_t at = 0; at < len; at += step)
        pl_secret_redaction_pass(m, &held, text + at, PL_MIN(step, len - at), false, &out);
    pl_secret_redaction_pass(m, &held, NULL, 0, true, &out);
    assert_string_equal(pl_buf_str(&out), wanted);
    assert_int_equal(held.len, 0);
}

static void secrets_become_stars_in_whatever_pieces_they_come(void **state)
{
    static const struct {
        const char *texts[3], *text, *wanted;
    } cases[] = {
        {{"hunter2"}, "the password is hunter2\n", "the password is ***\n"},
        {{"hunter2"}, "hunter2hunter2 hunter hunte", "****** hunter hunte"},
        {{"abcd", "abcdef"}, "abcdef abcde abcd", "*** ***e ***"}, /* the longest one counts */
        {{"aab0"}, "aaab0", "a***"},
        {{"line one\nline two\r\n\nab\n"}, "line two, line one, ab", "***, ***, ab"},
        {{"abc", ""}, "abc", "abc"}, /* too short to hide */
        {{NULL}, "nothing", "nothing"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_secret_redaction m = mask_of(cases[i].texts);

        for (size_t step = 1; step < 30; step++)
            passes(&m, cases[i].text, step, cases[i].wanted);
        pl_secret_redaction_finish(&m);
    }
}

static void output_goes_on_while_nothing_of_it_may_be_a_secret(void **state)
{
    struct pl_secret_redaction m = mask_of((const char *const[]){"hunter2", NULL});
    _cleanup_(pl_buf_finish) struct pl_buf held = {0};
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};

    (void)state;
    pl_secret_redaction_pass(&m, &held, "half 40%\rhunt", 13, false, &out);
    assert_int_equal(out.len, 9); /* up to what may begin one … */
    pl_secret_redaction_pass(&m, &held, "ed", 2, false, &out);
    assert_string_equal(pl_buf_str(&out), "half 40%\rhunted"); /* … and does not */
    pl_secret_redaction_finish(&m);
}

static void add_numbers(struct pl_secret_redaction *m, unsigned from, unsigned n, bool for_good)
{
    char text[16];

    for (unsigned i = from; i < from + n; i++) {
        snprintf(text, sizeof text, "n%06u", i);
        assert_int_equal(pl_secret_redaction_add(m, text, strlen(text), for_good, NULL), 0);
    }
}

/* A key that is changed once an hour: what it was makes room for what it is, what still is does not. */
static void the_oldest_that_are_no_more_make_room(void **state)
{
    struct pl_secret_redaction m = {0};

    (void)state;
    pl_secret_redaction_begin(&m);
    add_numbers(&m, 0, 1, true);
    add_numbers(&m, 1, PL_SECRET_REDACTION_TEXTS - 1, false);
    pl_secret_redaction_ready(&m);
    assert_false(m.full);
    pl_secret_redaction_begin(&m);
    add_numbers(&m, 900000, 2, false); /* two new ones, */
    add_numbers(&m, 1, 1, false);      /* and of those before the oldest is there still */
    pl_secret_redaction_ready(&m);
    assert_false(m.full);
    assert_int_equal(m.n, PL_SECRET_REDACTION_TEXTS);
    passes(&m, "n900000 n900001 n000000 n000001 n000002 n000003 n000004", 64, "*** *** *** *** n000002 n000003 ***");
    pl_secret_redaction_finish(&m);
}

static void what_is_too_much_of_one_round_is_noted(void **state)
{
    struct pl_secret_redaction m = {0};

    (void)state;
    pl_secret_redaction_begin(&m);
    add_numbers(&m, 0, PL_SECRET_REDACTION_TEXTS, false);
    add_numbers(&m, 0, 3, false); /* again: nothing is left out */
    assert_false(m.full);
    add_numbers(&m, PL_SECRET_REDACTION_TEXTS, 1, false);
    assert_true(m.full);
    pl_secret_redaction_ready(&m);
    passes(&m, "n000000 n009999 n010000", 64, "*** *** n010000");
    pl_secret_redaction_finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_become_stars_in_whatever_pieces_they_come),
        cmocka_unit_test(output_goes_on_while_nothing_of_it_may_be_a_secret),
        cmocka_unit_test(the_oldest_that_are_no_more_make_room),
        cmocka_unit_test(what_is_too_much_of_one_round_is_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
