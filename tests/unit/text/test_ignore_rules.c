// link: pipelined/text storage/base
/* ignore_rules: what .pipelinedignore files ignore, beside what git says of the same rules (rows checked with git 2.39). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/text/ignore_rules.h"
#include <stdio.h>

static struct pl_ignore_rules *rules_of(const char *folder, const char *text)
{
    struct pl_ignore_rules *rules = NULL;
    struct pl_err err = {0};

    assert_int_equal(pl_ignore_rules_create(&rules, NULL), 0);
    if (pl_ignore_rules_add(rules, folder, text, strlen(text), &err) < 0)
        fail_msg("%s", err.msg);
    return rules;
}

static void each_rule_ignores_what_git_ignores(void **state)
{
    static const struct {
        const char *folder, *text, *path; /* a path with a slash at its end is a folder */
        bool ignored;
    } table[] = {
        {"", "a", "a", true},
        {"", "a", "x/a", true},
        {"", "a", "ab", false},
        {"", "*.log", "x/y.log", true},
        {"", "*.log", "y.logs", false},
        {"", "/a", "a", true},
        {"", "/a", "x/a", false},
        {"", "a/b", "a/b", true},
        {"", "a/b", "x/a/b", false},
        {"", "/a/b", "a/b", true},
        {"", "a/*", "a/b", true},
        {"", "a/*", "a/b/c", false}, /* its folder a/b is */
        {"", "a/**", "a/b/c", true},
        {"", "**/b", "x/y/b", true},
        {"", "**/b", "b", true},
        {"", "a/**/b", "a/b", true},
        {"", "a/**/b", "a/x/y/b", true},
        {"", "a**b", "axb", true},
        {"", "a**b", "ax/yb", false},
        {"", "build/", "build/", true},
        {"", "build/", "build", false},
        {"", "build/", "x/build/", true},
        {"", "a/b/", "a/b/", true},
        {"", "a/b/", "x/a/b/", false},
        {"", "[ab].c", "b.c", true},
        {"", "[!ab].c", "b.c", false},
        {"", "?.c", "x.c", true},
        {"", "{a,b}", "a", false},
        {"", "{a,b}", "{a,b}", true},
        {"", "(a)", "(a)", true},
        {"", "# a", "# a", false},
        {"", "\\#a", "#a", true},
        {"", "\\!a", "!a", true},
        {"", "a  ", "a", true},
        {"", "a\\ ", "a ", true},
        {"", "a\r\nb\r\n", "b", true},
        {"", "\n\n  \nb", "b", true},
        {"", "*\n!*.py", "x.py", false},
        {"", "*\n!*.py", "x.txt", true},
        {"", "!a\na", "a", true},
        {"", "!", "!", false},
        {"", "/", "a", false},
        {"sub", "a", "sub/a", true},
        {"sub", "a", "sub/x/a", true},
        {"sub", "a", "a", false},
        {"sub", "/a", "sub/a", true},
        {"sub", "/a", "sub/x/a", false},
        {"sub", "x/a", "sub/x/a", true},
        {"sub[1]/*", "a", "sub[1]/*/a", true},
        {"sub[1]/*", "a", "sub1/b/a", false},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_ignore_rules *rules = rules_of(table[i].folder, table[i].text);
        const size_t len = strlen(table[i].path);
        const bool is_dir = table[i].path[len - 1] == '/';
        char path[64];

        snprintf(path, sizeof path, "%.*s", (int)(len - is_dir), table[i].path);
        if (pl_ignore_rules_match(rules, path, is_dir) != table[i].ignored)
            fail_msg("row %zu: \"%s\" in \"%s\" and %s", i, table[i].text, table[i].folder, table[i].path);
        pl_ignore_rules_destroy(rules);
    }
}

static void rules_of_a_folder_below_come_last(void **state)
{
    struct pl_ignore_rules *rules = rules_of("", "*.csv\n");

    (void)state;
    assert_true(pl_ignore_rules_match(rules, "sub/a.csv", false));
    assert_int_equal(pl_ignore_rules_add(rules, "sub", "!a.csv", 6, NULL), 0);
    assert_false(pl_ignore_rules_match(rules, "sub/a.csv", false));
    assert_true(pl_ignore_rules_match(rules, "sub/b.csv", false));
    assert_true(pl_ignore_rules_match(rules, "a.csv", false));
    pl_ignore_rules_destroy(rules);
}

static void a_malformed_rule_is_named_by_file_and_line(void **state)
{
    struct pl_ignore_rules *rules = rules_of("", "");
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_ignore_rules_add(rules, "sub", "ok\n\n[a\n", 7, &err), PL_EGLOB);
    if (!strstr(err.msg, "sub/.pipelinedignore:3: "))
        fail_msg("%s", err.msg);
    pl_ignore_rules_destroy(rules);
}

static void files_and_rules_are_bounded(void **state)
{
    struct pl_ignore_rules *rules = rules_of("", "");
    struct pl_err err = {0};
    char *text = malloc(PL_IGNORE_FILE_BYTES + 1);

    (void)state;
    memset(text, '#', PL_IGNORE_FILE_BYTES + 1);
    assert_int_equal(pl_ignore_rules_add(rules, "", text, PL_IGNORE_FILE_BYTES + 1, &err), PL_ELIMIT);
    assert_non_null(strstr(err.msg, "at most 65536"));
    assert_int_equal(pl_ignore_rules_add(rules, "", text, PL_IGNORE_FILE_BYTES, &err), 0);
    for (size_t i = 0; i < 2 * (PL_IGNORE_RULES_MAX + 1); i += 2)
        memcpy(text + i, "a\n", 2);
    assert_int_equal(pl_ignore_rules_add(rules, "", text, 2 * PL_IGNORE_RULES_MAX, &err), 0);
    assert_int_equal(pl_ignore_rules_add(rules, "", "a", 1, &err), PL_ELIMIT);
    assert_non_null(strstr(err.msg, "more than 1000 rules"));
    free(text);
    pl_ignore_rules_destroy(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_ignores_what_git_ignores),
        cmocka_unit_test(rules_of_a_folder_below_come_last),
        cmocka_unit_test(a_malformed_rule_is_named_by_file_and_line),
        cmocka_unit_test(files_and_rules_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
