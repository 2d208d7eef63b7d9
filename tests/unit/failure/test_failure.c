// link: pipelined/failure
/* failure: the line that says why a command failed, and which failures say the same. */
#include "pipelined/failure/error_line.h"
#include "pipelined/failure/failure_groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ---- the line that matters ---- */

static void the_line_that_says_why(void **state)
{
    static const struct {
        const char *output, *line;
        size_t number;
    } cases[] = {
        {"", "", 1},
        {"\n \r\n\t\n", "", 1},
        {"one\ntwo\n\n", "two", 2},
        {"reading\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    open(1)\nValueError: "
         "bad\ncleaning up\n",
         "ValueError: bad", 5},
        {"Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'a'\n\nDuring handling of the above exception, "
         "another "
         "exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 2\npkg.Wrong: no a\n",
         "pkg.Wrong: no a", 9},
        {"Traceback (most recent call last):\n  File \"a.py\", li", "Traceback (most recent call last):", 1},
        {"error: no such column x\nsaved 3 files\n", "error: no such column x", 1},
        {"a.c:3:1: error: expected ';'\nmake[1]: *** [a.o] Error 1\nmake: *** [all] Error 2\n", "a.c:3:1: error: expected ';'",
         1},
        {"make: *** [all] Error 2\n", "make: *** [all] Error 2", 1},
        {"Exception in thread \"main\" java.lang.Failed: x\n\tat a.Errors.b(A.java:3)\nCaused by: java.io.IOException: "
         "disk\n\tat "
         "a.b(A.java:9)\n",
         "Caused by: java.io.IOException: disk", 3},
        {"panic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/a/panic.go:4 +0x1d\nexit status 2\n",
         "panic: index out of range", 1},
        {"thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with RUST_BACKTRACE=1\n",
         "thread 'main' panicked at src/main.rs:2:5:", 1},
        {"10%\r20%\r30%\rcannot open x", "cannot open x", 4},
        {"a\r\nb\r\n", "b", 2},
        {"terror\nmirrors\n", "mirrors", 2},
        {"RuntimeError: CUDA out of memory\nterror\n", "RuntimeError: CUDA out of memory", 1},
        {"  error: indented\nall is well\n", "error: indented", 1},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const struct pl_error_line got = pl_error_line(cases[i].output);

        if (got.len != strlen(cases[i].line) || memcmp(got.text, cases[i].line, got.len) != 0 || got.number != cases[i].number)
            fail_msg("of \"%s\": \"%.*s\" in line %zu", cases[i].output, (int)got.len, got.text, got.number);
    }
}

/* ---- keys ---- */

static void what_varies_is_blanked(void **state)
{
    static const struct {
        const char *message, *key;
    } cases[] = {
        {"", ""},
        {"exit code 1", "exit code #"},
        {"killed: needs more memory than 4Gi", "killed: needs more memory than #Gi"},
        {"cannot identify image file '/pfs/photos/a b.jpg'", "cannot identify image file \"\""},
        {"cannot open /pfs/in/x.csv: No such file or directory", "cannot open /: No such file or directory"},
        {"bad header in photos/1.jpg.", "bad header in /."},
        {"can't parse it, it's wrong", "can't parse it, it's wrong"},
        {"took 4.5 s of 12 s at 2026-11-26T10:11:12Z", "took # s of # s at #T#Z"},
        {"commit 1f0c2b7a90c1 of deadbeef", "commit # of deadbeef"},
        {"at 0x7ffe12 in f(3)", "at # in f(#)"},
        {"IMG_20931.jpg is empty", "IMG_#.jpg is empty"},
        {"10.0.0.1:80 refused", "# refused"},
        {"an open 'quote", "an open 'quote"},
        {"an open \"quote", "an open \"quote"},
    };
    struct pl_arena *arena = pl_arena_create(0);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        assert_string_equal(pl_failure_key(cases[i].message, arena), cases[i].key);
    pl_arena_destroy(arena);
}

/* ---- groups ---- */

static struct pl_failure_group *grouped(const struct pl_failure *f, size_t n, struct pl_arena *arena, size_t *ret_n)
{
    struct pl_failure_group *groups = NULL;

    assert_int_equal(pl_failure_groups(f, n, arena, &groups, ret_n, NULL), 0);
    return groups;
}

static void failures_of_one_cause_are_one_group(void **state)
{
    static const struct pl_failure f[] = {
        {"timed out after 10m", "still at it: error", false, "photos=/lisbon/b1/1.jpg", "cpu-2", 10},
        {"exit code 1", "Traceback (most recent call last):\n  x\nPIL.Bad: cannot identify '/a/1.jpg'\n", true,
         "photos=/lisbon/b7/1.jpg", "cpu-1", 0},
        {"exit code 1", "Traceback (most recent call last):\n  x\nPIL.Bad: cannot identify '/a/2.jpg'\n", true,
         "photos=/lisbon/b7/2.jpg", "cpu-2", 512},
        {"exit code 1", "", true, "photos=/oslo/3.jpg", "", -1},
        {"exit code 2", "PIL.Bad: cannot identify '/a/4.jpg'", true, "photos=/lisbon/b7/11.jpg", "cpu-1", 7},
    };
    struct pl_arena *arena = pl_arena_create(0);
    size_t n = 0;
    struct pl_failure_group *g = grouped(f, PL_ARRAY_SIZE(f), arena, &n);

    (void)state;
    assert_int_equal(n, 3);
    assert_int_equal(g[0].count, 3);
    assert_string_equal(g[0].message, "PIL.Bad: cannot identify '/a/1.jpg'");
    assert_string_equal(g[0].folder, "photos=/lisbon/b7/");
    assert_string_equal(g[0].reason, "");
    assert_string_equal(g[0].node, "");
    assert_int_equal(g[0].bytes_min, 0);
    assert_int_equal(g[0].bytes_max, 512);
    assert_int_equal(g[0].members[0], 1);
    assert_int_equal(g[0].members[1], 2);
    assert_int_equal(g[0].members[2], 4);
    assert_string_equal(g[1].message, "timed out after 10m"); /* of two as large, the earlier one */
    assert_string_equal(g[1].node, "cpu-2");
    assert_string_equal(g[1].folder, "photos=/lisbon/b1/");
    assert_string_equal(g[2].message, "exit code 1");
    assert_int_equal(g[2].bytes_min, -1);
    assert_int_equal(g[2].bytes_max, -1);
    assert_string_equal(g[2].node, "");
    pl_arena_destroy(arena);
}

static void the_root_of_an_input_is_no_folder_in_common(void **state)
{
    static const struct pl_failure f[] = {{"killed", "", false, "in=/a", "n", 1}, {"killed", "", false, "in=/b", "n", 1}};
    struct pl_arena *arena = pl_arena_create(0);
    size_t n = 0;
    struct pl_failure_group *g = grouped(f, 2, arena, &n);

    (void)state;
    assert_int_equal(n, 1);
    assert_string_equal(g[0].folder, "");
    assert_string_equal(g[0].node, "n");
    assert_string_equal(g[0].reason, "killed");
    (void)grouped(f, 0, arena, &n);
    assert_int_equal(n, 0);
    pl_arena_destroy(arena);
}

static void the_folder_in_common_is_that_of_one_input(void **state)
{
    static const struct {
        const char *one, *other, *folder;
    } cases[] = {
        {"a=/x/1, b=/", "a=/x/2, b=/", "a=/x/"},
        {"photos=/lisbon/1.jpg, model=/", "photos=/lisbon/1.jpg, model=/", "photos=/lisbon/"},
        {"model=/, photos=/1", "model=/, photos=/2", ""},
        {"model=/, photos=/b/1", "model=/, photos=/b/2", "photos=/b/"},
        {"m=/v1/x, p=/1", "m=/v1/x, p=/2", "m=/v1/"},
        {"in=/", "in=/", ""},
        {"in=/a/b/c/1", "in=/a/b/d/1", "in=/a/b/"},
        {"params={\"k\":1}", "params={\"k\":2}", ""},
    };
    struct pl_arena *arena = pl_arena_create(0);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const struct pl_failure f[] = {{"killed", "", false, cases[i].one, "", 1}, {"killed", "", false, cases[i].other, "", 1}};
        size_t n = 0;

        assert_string_equal(grouped(f, 2, arena, &n)->folder, cases[i].folder);
    }
    pl_arena_destroy(arena);
}

/* Each failure is in exactly one group, members of a group have its key, and no two groups have the same key. */
static void groups_are_a_partition(void **state)
{
    enum { MANY = 1000 };
    static struct pl_failure f[MANY];
    static char texts[MANY][64];
    struct pl_arena *arena = pl_arena_create(0);
    bool seen[MANY] = {0};
    size_t n = 0;
    struct pl_failure_group *g;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof(texts[i]), "kind %c of %zu", (char)('a' + i * i % 7), i);
        f[i] = (struct pl_failure){texts[i], "", false, "in=/", "", -1};
    }
    g = grouped(f, MANY, arena, &n);
    assert_int_equal(n, 4); /* the squares modulo 7: 0, 1, 2, 4 */
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || g[i].count <= g[i - 1].count);
        for (size_t k = 0; k < g[i].count; k++) {
            assert_false(seen[g[i].members[k]]);
            seen[g[i].members[k]] = true;
            assert_true(k == 0 || g[i].members[k] > g[i].members[k - 1]);
            assert_string_equal(pl_failure_key(texts[g[i].members[k]], arena), g[i].key);
        }
    }
    for (size_t i = 0; i < MANY; i++)
        assert_true(seen[i]);
    pl_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_that_says_why),
        cmocka_unit_test(what_varies_is_blanked),
        cmocka_unit_test(failures_of_one_cause_are_one_group),
        cmocka_unit_test(the_root_of_an_input_is_no_folder_in_common),
        cmocka_unit_test(the_folder_in_common_is_that_of_one_input),
        cmocka_unit_test(groups_are_a_partition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
