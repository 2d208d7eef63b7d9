// link: pipelined/kube/pod_state
/* last_words: what of a container's output becomes part of a sentence. */
#include "pipelined/kube/pod_state/log_tail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct {
    const char *text, *words; /* in 16 bytes */
} cases[] = {
    {"", ""},
    {"\n \r\n", ""},
    {"one\ntwo", "two"},
    {"one\ntwo\n\n", "two"},
    {"a\tb\r\n", "a b"},
    {"\n  an end", "an end"},
    {"0123456789abcdefgh", "0123456789abcde"},
    {"0123456789abcd\xc3\xa4", "0123456789abcd"}, /* no half of a character */
    {"0123456789abc\xc3\xa4", "0123456789abc\xc3\xa4"},
    {"{\"level\":\"warn\",\"message\":\"no server\"}\n", "no server"},
    {"x\n{\"message\": \"a\\nb\"}", "a b"},
    {"{\"level\": 7}", "{\"level\": 7}"},
    {"a\xff b\xc3", "a? b?"},
    {"{\"message\": \"cut", "{\"message\": \"cu"},
};

/* The begin of the text is missing. */
static const struct {
    const char *text, *words; /* in 16 bytes */
} cut_cases[] = {
    {"", ""},
    {"alf of a word ends", "\xe2\x80\xa6of a word en"},
    {"\xa4\xa4 is no begin", "\xe2\x80\xa6is no begin"},
    {"oneword", "\xe2\x80\xa6oneword"},
    {"alf\nand whole", "and whole"},
    {"{\"message\": \"one\"}", "one"},
};

static void of_half_a_line_the_whole_words_are_taken(void **state)
{
    char out[16];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cut_cases); i++) {
        pl_log_tail(cut_cases[i].text, strlen(cut_cases[i].text), true, out, sizeof out);
        if (!pl_streq(out, cut_cases[i].words))
            fail_msg("%s\nbecame %s", cut_cases[i].text, out);
    }
}

static void the_last_line_that_says_something_is_taken(void **state)
{
    char out[16];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        pl_log_tail(cases[i].text, strlen(cases[i].text), false, out, sizeof out);
        if (!pl_streq(out, cases[i].words))
            fail_msg("%s\nbecame %s", cases[i].text, out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_line_that_says_something_is_taken),
                                       cmocka_unit_test(of_half_a_line_the_whole_words_are_taken)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
