// link: pipelined/db/stage_log storage/base
/* log_lines, log_search: against naive ones over the whole text, whatever pieces it comes in. */
#include "pipelined/db/stage_log/log_lines.h"
#include "pipelined/db/stage_log/log_search.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Feeds the text in random pieces. */
static void feed(struct pl_log_lines *l, const char *text, size_t n)
{
    for (size_t at = 0, len; at < n; at += len) {
        const size_t wanted = 1 + (size_t)(rand() % 7);
        int r;

        len = PL_MIN(n - at, wanted);
        r = pl_log_lines_feed(l, text + at, len, NULL);
        assert_true(r >= 0);
        if (r == 0)
            break;
    }
}

static void lines_of_a_text(void **state)
{
    static const struct {
        const char *text;
        uint64_t first;
        size_t most;
        const char *want; /* number:text, "+" in front of a line that is still open */
    } cases[] = {
        {"", 1, 9, ""},
        {"a", 1, 9, "+1:a "},
        {"a\n", 1, 9, "1:a "},
        {"a\n\nb\nc", 1, 9, "1:a 2: 3:b +4:c "},
        {"a\nb\nc\nd\n", 2, 2, "2:b 3:c "},
        {"a\nb\n", 3, 2, ""},
        {"10%\r20%\r30%\ndone\n", 1, 9, "1:30% 2:done "},
        {"10%\r20%\r", 1, 9, "+1:20% "},
        {"a\r\nb\r\r\n", 1, 9, "1:a 2:b "},
        {"\r\r\n", 1, 9, "1: "},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_log_lines l = {.first = cases[i].first, .most = cases[i].most, .max_bytes = 1000, .number = 1};
        char got[200] = "";

        feed(&l, cases[i].text, strlen(cases[i].text));
        for (size_t k = 0; k < l.n; k++)
            sprintf(got + strlen(got), "%s%d:%.*s ", l.list[k].open ? "+" : "", (int)l.list[k].number, (int)l.list[k].len,
                    l.text.data ? (const char *)l.text.data + l.list[k].at : "");
        assert_string_equal(got, cases[i].want);
        pl_log_lines_finish(&l);
    }
}

static void a_line_is_bounded_and_says_so(void **state)
{
    const size_t n = 10u << 20;
    char *text = malloc(n + 2);
    struct pl_log_lines l = {.first = 1, .most = 9, .max_bytes = 1u << 20, .number = 1};

    (void)state;
    memset(text, 'x', n);
    memcpy(text + n, "\ny", 2);
    assert_int_equal(pl_log_lines_feed(&l, text, n, NULL), 1);
    assert_true(pl_log_lines_skips(&l));
    assert_int_equal(pl_log_lines_feed(&l, text + n, 2, NULL), 1);
    assert_int_equal(l.n, 2);
    assert_true(l.list[0].cut && l.list[0].len == PL_LOG_LINE_MAX && l.list[0].bytes == n && l.text.len == PL_LOG_LINE_MAX + 1);
    pl_log_lines_finish(&l);
    free(text);
}

static void no_more_than_is_wanted_is_kept(void **state)
{
    struct pl_log_lines l = {.first = 1, .most = 100000, .max_bytes = 1u << 20, .number = 1};
    struct pl_log_lines few = {.first = 1, .most = 1000, .max_bytes = 10, .number = 1};

    (void)state;
    for (unsigned i = 0; i < 5000; i++)
        if (pl_log_lines_feed(&l, "a\n", 2, NULL) == 0)
            break;
    assert_int_equal(l.n, PL_LOG_LINES_MAX);
    feed(&few, "aaaa\nbbbb\ncccc\ndddd\n", 20);
    assert_int_equal(few.n, 3); /* the third passes the limit of bytes */
    pl_log_lines_finish(&l);
    pl_log_lines_finish(&few);
}

static void the_last_lines_are_those_that_fit(void **state)
{
    static const struct {
        size_t max_bytes, n;
        uint64_t first;
    } cases[] = {{100, 4, 1}, {12, 4, 1}, {11, 3, 2}, {4, 1, 4}, {3, 1, 4}, {0, 1, 4}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_log_lines l = {.first = 1, .most = 10, .max_bytes = 100, .number = 1};

        feed(&l, "a\nbbb\ncccc\ndddd", 15);
        pl_log_lines_keep_last(&l, cases[i].max_bytes);
        assert_int_equal(l.n, cases[i].n);
        assert_int_equal(l.list[0].number, cases[i].first);
        assert_memory_equal(l.text.data + l.list[l.n - 1].at, "dddd", 4);
        pl_log_lines_finish(&l);
    }
    pl_log_lines_keep_last(&(struct pl_log_lines){0}, 0);
}

/* ---- search ---- */

/* The first line from `from` on in which the text matches; 0: none. */
static uint64_t found(const struct pl_log_search *s, const char *text, size_t n, uint64_t from)
{
    struct pl_log_search_state state = {.line = 1};

    for (size_t at = 0, len, used; at < n; at += len) {
        const size_t wanted = 1 + (size_t)(rand() % 9);

        len = PL_MIN(n - at, wanted);
        if (pl_log_search_feed(s, &state, from, text + at, len, &used))
            return state.line;
        assert_int_equal(used, len);
    }
    return pl_log_search_end(&state, from) ? state.line : 0;
}

static uint64_t naive(const char *needle, const char *text, size_t n, uint64_t from)
{
    const size_t m = strlen(needle);
    uint64_t line = 1;

    for (size_t i = 0; i < n; line += text[i++] == '\n')
        if (line >= from && i + m <= n && strncasecmp(text + i, needle, m) == 0)
            return line;
    return 0;
}

/* Texts over few letters, so that matches overlap and nearly match. */
static void a_search_finds_what_a_naive_one_finds(void **state)
{
    (void)state;
    srand(5);
    for (unsigned round = 0; round < 3000; round++) {
        char text[400], needle[6] = "";
        const size_t n = (size_t)(rand() % 399), m = 1 + (size_t)(rand() % 4);
        const uint64_t from = 1 + (uint64_t)(rand() % 20);
        struct pl_log_search *s;

        for (size_t i = 0; i < n; i++)
            text[i] = "abABc\n\0"[rand() % 7];
        for (size_t i = 0; i < m; i++)
            needle[i] = "abAc"[rand() % 4];
        text[n] = '\0';
        assert_int_equal(pl_log_search_text(needle, &s, NULL), 0);
        if (found(s, text, n, from) != naive(needle, text, n, from))
            fail_msg("\"%s\" from %d in \"%s\"", needle, (int)from, text);
        pl_log_search_free(s);
    }
}

static void errors_are_whole_words(void **state)
{
    static const struct {
        const char *text;
        uint64_t line;
    } cases[] = {
        {"all is well\nterror mirrors\n", 0},
        {"x\nerror: no\n", 2},
        {"ValueError: bad", 1},
        {"a\nERROR", 2},
        {"errors\nerror_count=3\n", 0},
        {"a panic!", 1},
        {"Segmentation fault\n", 1},
        {"killed", 1},
        {"unkilled\nkilledx\n", 0},
        {"java.io.IOException\n", 1},
        {"Traceback (most\n", 1},
        {"non-fatal\n", 1},
    };
    struct pl_log_search *s;

    (void)state;
    assert_int_equal(pl_log_search_errors(&s, NULL), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        if (found(s, cases[i].text, strlen(cases[i].text), 1) != cases[i].line)
            fail_msg("of \"%s\"", cases[i].text);
    pl_log_search_free(s);
}

static void texts_that_cannot_be_found_are_refused(void **state)
{
    char longest[PL_LOG_SEARCH_BYTES + 2];
    struct pl_log_search *s;

    (void)state;
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(pl_log_search_text(longest, &s, NULL), PL_EINVAL);
    assert_int_equal(pl_log_search_text("", &s, NULL), PL_EINVAL);
    assert_int_equal(pl_log_search_text("a\nb", &s, NULL), PL_EINVAL);
    assert_int_equal(pl_log_search_text(longest + 1, &s, NULL), 0);
    assert_int_equal(found(s, longest, sizeof longest - 1, 1), 1);
    pl_log_search_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_a_text),
        cmocka_unit_test(a_line_is_bounded_and_says_so),
        cmocka_unit_test(no_more_than_is_wanted_is_kept),
        cmocka_unit_test(the_last_lines_are_those_that_fit),
        cmocka_unit_test(a_search_finds_what_a_naive_one_finds),
        cmocka_unit_test(errors_are_whole_words),
        cmocka_unit_test(texts_that_cannot_be_found_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
