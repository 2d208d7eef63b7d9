// link: storage/base storage/system
/* path: which paths and names are allowed; words for people. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/base/path.h"

static void paths_that_are_allowed(void **state)
{
    static const char *const good[] = {"a",  "a/b",           "train/b1.csv", ".hidden",          "..a",  "a..",   "...", "a b",
                                       "-x", "日本/ファイル", "e\xcc\x81",    "\xf0\x9f\x98\x80", "a\\b", "*?[]{}"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
        struct pl_err err;

        assert_ok(pl_path_check(good[i], strlen(good[i]), &err), &err);
    }
}

static void paths_that_are_refused(void **state)
{
    static const struct {
        const char *path, *why;
    } bad[] = {
        {"", "empty"},
        {"/a", "empty segment"},
        {"a/", "empty segment"},
        {"a//b", "empty segment"},
        {".", "segment \".\""},
        {"..", "segment \"..\""},
        {"a/../b", "segment \"..\""},
        {"a/.", "segment \".\""},
        {"a\nb", "control byte 0x0a at offset 1"},
        {"a\x7f", "control byte 0x7f at offset 1"},
        {"a\x01", "control byte"},
        {"\xff", "UTF-8"},
        {"a\xc0\x80", "UTF-8"},        /* overlong NUL */
        {"\xed\xa0\x80", "UTF-8"},     /* surrogate */
        {"\xf4\x90\x80\x80", "UTF-8"}, /* past U+10FFFF */
        {"\xe2\x82", "UTF-8"},         /* cut off */
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        struct pl_err err;

        assert_int_equal(pl_path_check(bad[i].path, strlen(bad[i].path), &err), PL_EPATH);
        assert_non_null(strstr(err.msg, bad[i].why));
    }
    assert_int_equal(pl_path_check("a\0b", 3, NULL), PL_EPATH);
}

static void lengths_of_paths_end_at_their_limits(void **state)
{
    char path[2000];

    (void)state;
    memset(path, 'a', sizeof(path));
    assert_int_equal(pl_path_check(path, PL_SEGMENT_MAX_BYTES, NULL), 0);
    assert_int_equal(pl_path_check(path, PL_SEGMENT_MAX_BYTES + 1, NULL), PL_EPATH);
    for (size_t i = 200; i < sizeof(path); i += 201)
        path[i] = '/';
    assert_int_equal(pl_path_check(path, PL_PATH_MAX_BYTES, NULL), 0);
    assert_int_equal(pl_path_check(path, PL_PATH_MAX_BYTES + 1, NULL), PL_EPATH);
}

static void a_users_spelling_becomes_canonical(void **state)
{
    static const struct {
        const char *in, *out;
    } good[] = {{"/", ""}, {"", ""}, {"/a/b/", "a/b"}, {"a/b", "a/b"}, {"a/", "a"}, {"/a", "a"}};
    static const char *const bad[] = {"//", "a//b", "//a", "a//", "/..", "./a", "/a/./b"};
    char out[PL_PATH_MAX_BYTES + 1];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
        struct pl_err err;

        assert_ok(pl_path_canonical(good[i].in, out, &err), &err);
        assert_string_equal(out, good[i].out);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        assert_int_equal(pl_path_canonical(bad[i], out, NULL), PL_EPATH);
}

static void names_follow_the_rule(void **state)
{
    static const char *const good[] = {"a",
                                       "A-b_9",
                                       "0",
                                       "x234567890123456789012345678901234567890123456789_-",
                                       "0123456789abcdef0123456789abcde",
                                       "0123456789abcdef0123456789abcdeg"};
    static const char *const bad[] = {"",
                                      "-a",
                                      "_a",
                                      "a.b",
                                      "a/b",
                                      "a b",
                                      "ä",
                                      "a\n",
                                      "x2345678901234567890123456789012345678901234567890_-",
                                      "0123456789abcdef0123456789abcdef",
                                      "0123456789ABCDEF0123456789abcdef"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
        struct pl_err err;

        assert_ok(pl_name_check("repo", good[i], &err), &err);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        struct pl_err err;

        assert_int_equal(pl_name_check("repo", bad[i], &err), PL_ENAME);
        assert_non_null(strstr(err.msg, "repo"));
    }
}

static void the_nearest_word_is_suggested(void **state)
{
    static const char *const words[] = {"input", "output", "gpu", "run", "timeout", "resources"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {{"inptu", "input"},
                 {"inputs", "input"},
                 {"ouput", "output"},
                 {"gpus", "gpu"},
                 {"gup", "gpu"},
                 {"ran", "run"},
                 {"rna", NULL},
                 {"xyz", NULL},
                 {"tmeot", "timeout"},
                 {"timout", "timeout"},
                 {"ressource", "resources"},
                 {"", NULL}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const char *got = pl_word_nearest(cases[i].word, words, PL_ARRAY_SIZE(words));

        if (cases[i].nearest == NULL)
            assert_null(got);
        else
            assert_string_equal(got, cases[i].nearest);
    }
}

static void sizes_are_written_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {12, "12 B"},
                 {1023, "1023 B"},
                 {1024, "1.0 KiB"},
                 {1610612736, "1.5 GiB"},
                 {1048575, "1.0 MiB"},
                 {UINT64_MAX, "16.0 EiB"}};
    char out[32];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        assert_string_equal(pl_size_text(cases[i].bytes, out), cases[i].text);
}

static void a_text_cut_anywhere_becomes_valid(void **state)
{
    static const struct {
        const char *cut, *trimmed, *clean;
    } table[] = {
        {"", "", ""},
        {"abc", "abc", "abc"},
        {"ab\xC3", "ab", "ab?"},
        {"ab\xC3\xA9", "ab\xC3\xA9", "ab\xC3\xA9"},
        {"\xE2\x82", "", "??"},
        {"\xE2\x82\xAC", "\xE2\x82\xAC", "\xE2\x82\xAC"},
        {"a\xF0\x9F\x98", "a", "a???"},
        {"a\xF0\x9F\x98\x80", "a\xF0\x9F\x98\x80", "a\xF0\x9F\x98\x80"},
        {"a\xC3(b", "a\xC3(b", "a?(b"},
        {"\x80\xFFx", "\x80\xFFx", "??x"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        char text[32];

        strcpy(text, table[i].cut);
        assert_string_equal(pl_utf8_trim(text), table[i].trimmed);
        strcpy(text, table[i].cut);
        assert_string_equal(pl_utf8_clean(text), table[i].clean);
        assert_true(pl_utf8_ok(text, strlen(text)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_that_are_allowed),
        cmocka_unit_test(paths_that_are_refused),
        cmocka_unit_test(lengths_of_paths_end_at_their_limits),
        cmocka_unit_test(a_users_spelling_becomes_canonical),
        cmocka_unit_test(names_follow_the_rule),
        cmocka_unit_test(a_text_cut_anywhere_becomes_valid),
        cmocka_unit_test(the_nearest_word_is_suggested),
        cmocka_unit_test(sizes_are_written_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
