// link: pipelined/text storage/base
/* json_pos: the scanner gives jansson's verdict on every text, and finds where each value stands. */
#include "pipelined/text/json_position.h"
#include "storage/base/hash.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char *const accepted[] = {
    "{}",
    "[]",
    " \t\r\n{ } \n",
    "{\"a\": 1, \"b\": [true, false, null]}",
    "[-0, 0, 1.5, -2e10, 1E+2, 1e-400, 0e999999999999, 9223372036854775807, -9223372036854775808]",
    "[\"\\u00e4 \\ud83d\\ude00 \\\" \\\\ \\/ \\b\\f\\n\\r\\t \x7f\"]",
    "{\"\": {\"\": []}}",
    "{\"a\": {\"b\": 1}, \"b\": {\"b\": 1}}",
    "[\"\xc3\xa4\xf0\x9f\x98\x80\"]",
    "[1.7976931348623157e308, 1.7976931348623158079e308, 0.00000000000000000000000000000000000000000000001e350]",
};

static const char *const refused[] = {
    "",
    " ",
    "1",
    "\"a\"",
    "null",
    "{",
    "}",
    "[",
    "]",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\" 1}",
    "[1 2]",
    "[01]",
    "[-]",
    "[+1]",
    "[.5]",
    "[1.]",
    "[1e]",
    "[1e+]",
    "[0x1]",
    "[1a]",
    "[tru]",
    "[True]",
    "[truex]",
    "[NaN]",
    "[Infinity]",
    "{} {}",
    "{}x",
    "[\"a]",
    "[\"a\nb\"]",
    "[\"a\tb\"]",
    "[\"\\x\"]",
    "[\"\\u12g4\"]",
    "[\"\\u12\"]",
    "[\"\\u0000\"]",
    "{\"\\u0000\": 1}",
    "[\"\\ud800\"]",
    "[\"\\ud800x\"]",
    "[\"\\ud800\\u0041\"]",
    "[\"\\udc00\"]",
    "{\"\":1,\"\":2}",
    "{\"a\":1,\"a\":2}",
    "{\"a\":1,\"\\u0061\":2}",
    "{\"x\":{\"\":1,\"\":2}}",
    "[9223372036854775808]",
    "[-9223372036854775809]",
    "[1e309]",
    "[-1e309]",
    "[1.8e308]",
    "[100000000000000000000e300]",
    "[\"\xff\"]",
    "[\"\xc0\x80\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"\xf4\x90\x80\x80\"]",
    "\xef\xbb\xbf{}",
    "// x\n{}",
    "['a']",
    "[1,\v2]",
};

static unsigned json_depth(const json_t *v)
{
    unsigned deepest = 0;
    const char *key;
    json_t *member;
    size_t i;

    if (json_is_array(v)) {
        json_array_foreach(v, i, member) deepest = PL_MAX(deepest, json_depth(member));
    } else if (json_is_object(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, key, member) deepest = PL_MAX(deepest, json_depth(member));
    } else {
        return 0;
    }
    return deepest + 1;
}

/* jansson's verdict with the three bounds of ours. */
static bool oracle(const char *text, size_t len)
{
    json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    bool ok = v != NULL && json_depth(v) <= PL_JSON_DEPTH_MAX && memchr(text, '\0', len) == NULL;

    json_decref(v);
    return ok;
}

static void assert_same_verdict(const char *text, size_t len)
{
    struct pl_err err = {0};
    struct pl_json_pos at;
    char *copy = malloc(len == 0 ? 1 : len); /* exactly as long: reading past it is seen */
    bool ours, theirs = oracle(text, len);

    assert_non_null(copy);
    memcpy(copy, text, len);
    ours = pl_json_check(copy, len, &at, &err) == 0;
    if (ours != theirs)
        print_error("ours %d, jansson %d (%s): %.*s\n", ours, theirs, err.msg, (int)len, text);
    assert_int_equal(ours, theirs);
    if (!ours) {
        assert_true(at.offset <= len);
        assert_int_equal(err.code, PL_ESPEC);
    }
    free(copy);
}

static void what_is_json_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(accepted); i++) {
        assert_true(oracle(accepted[i], strlen(accepted[i])));
        assert_same_verdict(accepted[i], strlen(accepted[i]));
    }
}

static void what_is_not_json_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(refused); i++) {
        if (oracle(refused[i], strlen(refused[i])))
            print_error("jansson accepts %s\n", refused[i]);
        assert_false(oracle(refused[i], strlen(refused[i])));
        assert_same_verdict(refused[i], strlen(refused[i]));
    }
}

static void bounds_of_depth_size_and_nul(void **state)
{
    char deep[2 * PL_JSON_DEPTH_MAX + 4];
    struct pl_err err = {0};
    char *large;

    (void)state;
    for (unsigned n = PL_JSON_DEPTH_MAX; n <= PL_JSON_DEPTH_MAX + 1; n++) {
        memset(deep, '[', n);
        memset(deep + n, ']', n);
        assert_int_equal(pl_json_check(deep, 2 * n, NULL, &err), n <= PL_JSON_DEPTH_MAX ? 0 : PL_ESPEC);
    }
    assert_int_equal(pl_json_check("[1\0]", 4, NULL, &err), PL_ESPEC);
    assert_int_equal(pl_json_check(NULL, 0, NULL, &err), PL_ESPEC); /* an empty file, read */
    large = malloc(PL_JSON_MAX_BYTES + 1);
    assert_non_null(large);
    memset(large, ' ', PL_JSON_MAX_BYTES + 1);
    memcpy(large, "[]", 2);
    assert_int_equal(pl_json_check(large, PL_JSON_MAX_BYTES, NULL, &err), 0);
    assert_int_equal(pl_json_check(large, PL_JSON_MAX_BYTES + 1, NULL, &err), PL_ETOOBIG);
    free(large);
}

/* Bytes changed, removed, added, doubled: never a different verdict. Seeded, so that a failure comes again. */
static void mutations_get_janssons_verdict(void **state)
{
    static const char alphabet[] = "{}[]:,\"\\/truefalsn0123456789+-.eE \n\tu dD8cC\x01\x7f\x80\xc3\xa4\xed\xf0\xff";
    uint64_t seed = 20261121;
    size_t n_texts = PL_ARRAY_SIZE(accepted) + PL_ARRAY_SIZE(refused);

    (void)state;
    for (unsigned round = 0; round < 60000; round++) {
        size_t which = pl_splitmix64(&seed) % n_texts;
        const char *base = which < PL_ARRAY_SIZE(accepted) ? accepted[which] : refused[which - PL_ARRAY_SIZE(accepted)];
        char text[256];
        size_t len = strlen(base);

        assert_true(len < 200);
        memcpy(text, base, len);
        for (uint64_t m = pl_splitmix64(&seed) % 4 + 1; m > 0; m--) {
            size_t at = len > 0 ? pl_splitmix64(&seed) % len : 0;
            char c = alphabet[pl_splitmix64(&seed) % (sizeof(alphabet) - 1)];

            switch (pl_splitmix64(&seed) % 3) {
            case 0:
                if (len > 0)
                    text[at] = c;
                break;
            case 1:
                if (len > 0)
                    memmove(text + at, text + at + 1, --len - at);
                break;
            default:
                memmove(text + at + 1, text + at, len++ - at);
                text[at] = c;
            }
        }
        assert_same_verdict(text, len);
    }
}

static void errors_name_place_and_reason(void **state)
{
    static const struct {
        const char *text;
        unsigned line, column;
        const char *says;
    } cases[] = {
        {"{\n  \"a\": 1,\n  \"a\": 2\n}", 3, 3, "a second time"},
        {"{\"a\": tru}", 1, 7, "\"tru\" is not a JSON value"},
        {"{\"a\": 1,}", 1, 9, "there is nothing between the , and the }"},
        {"{\"a\" 1}", 1, 6, "a : is expected after the key, not '1'"},
        {"[\"ä\", x]", 1, 7, "\"x\" is not a JSON value"},
        {"[1", 1, 3, "not the end of the text"},
        {"{\"name\": \"abc\n\"}", 1, 10, "not closed on its line"},
        {"[01]", 1, 2, "must not start with 0"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_json_pos at = {0};
        struct pl_err err = {0};

        assert_int_equal(pl_json_check(cases[i].text, strlen(cases[i].text), &at, &err), PL_ESPEC);
        if (strstr(err.msg, cases[i].says) == NULL)
            print_error("%s\n", err.msg);
        assert_non_null(strstr(err.msg, cases[i].says));
        assert_int_equal(at.line, cases[i].line);
        assert_int_equal(at.column, cases[i].column);
    }
}

static const char sample[] = "{\n"
                             "  \"stages\": [\n"
                             "    {\"name\": \"prepäre\"},\n"
                             "    {\"name\": \"b\", \"input\": {\"glob\": \"/\", \"files\": [\"x\", \"y\"]}}\n"
                             "  ],\n"
                             "  \"env\": {\"odd.key\": 1, \"q\\\"\": 2, \"\": {\"z\": 3}}\n"
                             "}\n";

static void values_are_found_by_path(void **state)
{
    static const struct {
        const char *path;
        bool found;
        unsigned key_line, key_column, line, column;
    } cases[] = {
        {"", true, 1, 1, 1, 1},
        {"stages", true, 2, 3, 2, 13},
        {"stages[0]", true, 3, 5, 3, 5},
        {"stages[0].name", true, 3, 6, 3, 14},
        {"stages[1].input.glob", true, 4, 29, 4, 37},
        {"stages[1].input.files[1]", true, 4, 57, 4, 57},
        {"env[\"odd.key\"]", true, 6, 11, 6, 22},
        {"env[\"q\\\"\"]", true, 6, 25, 6, 32},
        {"env[\"\"].z", true, 6, 40, 6, 45},
        /* what is not there: the deepest value on the way */
        {"stages[1].input.nothing", false, 4, 19, 4, 28},
        {"stages[7].name", false, 2, 3, 2, 13},
        {"nothing.at.all", false, 1, 1, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_json_pos key, value;
        bool found = pl_json_find(sample, strlen(sample), cases[i].path, &key, &value);

        if (found != cases[i].found || key.line != cases[i].key_line || key.column != cases[i].key_column ||
            value.line != cases[i].line || value.column != cases[i].column)
            print_error("%s: %d key %u:%u value %u:%u\n", cases[i].path, found, key.line, key.column, value.line, value.column);
        assert_int_equal(found, cases[i].found);
        assert_int_equal(key.line, cases[i].key_line);
        assert_int_equal(key.column, cases[i].key_column);
        assert_int_equal(value.line, cases[i].line);
        assert_int_equal(value.column, cases[i].column);
    }
}

/* Every value of the sample, by a path built as the spec reader builds it. */
static void find_all(json_t *v, struct pl_buf *path)
{
    size_t len = path->len, i;
    struct pl_json_pos at;
    const char *key;
    json_t *member;

    assert_true(pl_json_find(sample, strlen(sample), pl_buf_str(path), NULL, &at));
    if (json_is_string(v))
        assert_int_equal(sample[at.offset], '"');
    if (json_is_object(v)) {
        json_object_foreach(v, key, member)
        {
            assert_int_equal(pl_json_path_key(path, key, NULL), 0);
            find_all(member, path);
            path->len = len;
        }
    }
    json_array_foreach(v, i, member)
    {
        assert_int_equal(pl_json_path_index(path, i, NULL), 0);
        find_all(member, path);
        path->len = len;
    }
}

static void built_paths_are_found(void **state)
{
    json_t *v = json_loads(sample, 0, NULL);
    struct pl_buf path = {0};

    (void)state;
    assert_non_null(v);
    find_all(v, &path);
    pl_buf_finish(&path);
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_json_is_accepted),     cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(bounds_of_depth_size_and_nul), cmocka_unit_test(mutations_get_janssons_verdict),
        cmocka_unit_test(errors_name_place_and_reason), cmocka_unit_test(values_are_found_by_path),
        cmocka_unit_test(built_paths_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
