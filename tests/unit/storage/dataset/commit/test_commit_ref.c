// link: storage/dataset/commit
/* How people name commits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/dataset/commit/commit_ref.h"

#define ID "00112233445566778899aabbccddeeff"

static void names_are_taken_apart(void **state)
{
    static const struct {
        const char *text;
        const char *project, *repo;
        enum pl_commit_ref_kind kind;
        const char *name;
        unsigned back;
        bool has_path;
        const char *path;
    } table[] = {
        {"digits", "", "digits", PL_COMMIT_REF_NONE, "", 0, false, ""},
        {"vision/digits", "vision", "digits", PL_COMMIT_REF_NONE, "", 0, false, ""},
        {"digits@master", "", "digits", PL_COMMIT_REF_BRANCH, "master", 0, false, ""},
        {"vision/digits@dev", "vision", "digits", PL_COMMIT_REF_BRANCH, "dev", 0, false, ""},
        {"digits@" ID, "", "digits", PL_COMMIT_REF_ID, ID, 0, false, ""},
        {"digits@9f3c", "", "digits", PL_COMMIT_REF_PREFIX, "9f3c", 0, false, ""},
        {"digits@0011223344556677", "", "digits", PL_COMMIT_REF_PREFIX, "0011223344556677", 0, false, ""},
        {"digits@beef", "", "digits", PL_COMMIT_REF_PREFIX, "beef", 0, false, ""},
        {"digits@bee", "", "digits", PL_COMMIT_REF_BRANCH, "bee", 0, false, ""},
        {"digits@BEEF", "", "digits", PL_COMMIT_REF_BRANCH, "BEEF", 0, false, ""},
        {"digits@master^", "", "digits", PL_COMMIT_REF_BRANCH, "master", 1, false, ""},
        {"digits@master^2", "", "digits", PL_COMMIT_REF_BRANCH, "master", 2, false, ""},
        {"digits@master^^", "", "digits", PL_COMMIT_REF_BRANCH, "master", 2, false, ""},
        {"digits@master^2^", "", "digits", PL_COMMIT_REF_BRANCH, "master", 3, false, ""},
        {"digits@master^0", "", "digits", PL_COMMIT_REF_BRANCH, "master", 0, false, ""},
        {"digits@master:/", "", "digits", PL_COMMIT_REF_BRANCH, "master", 0, true, ""},
        {"digits@master:", "", "digits", PL_COMMIT_REF_BRANCH, "master", 0, true, ""},
        {"digits@master:/a/b.csv", "", "digits", PL_COMMIT_REF_BRANCH, "master", 0, true, "a/b.csv"},
        {"digits@master:a/b", "", "digits", PL_COMMIT_REF_BRANCH, "master", 0, true, "a/b"},
        {"digits@master^3:/x@y:z^1", "", "digits", PL_COMMIT_REF_BRANCH, "master", 3, true, "x@y:z^1"},
        {"digits:/a", "", "digits", PL_COMMIT_REF_NONE, "", 0, true, "a"},
        {"p/digits@" ID "^10:/a", "p", "digits", PL_COMMIT_REF_ID, ID, 10, true, "a"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_err err = {0};
        struct pl_commit_ref ref;

        if (pl_commit_ref_parse(table[i].text, &ref, &err) < 0)
            fail_msg("%s: %s", table[i].text, err.msg);
        assert_string_equal(ref.project, table[i].project);
        assert_string_equal(ref.repo, table[i].repo);
        if (ref.kind != table[i].kind)
            fail_msg("%s: kind %d", table[i].text, (int)ref.kind);
        assert_string_equal(ref.name, table[i].name);
        assert_int_equal(ref.back, table[i].back);
        assert_int_equal(ref.has_path, table[i].has_path);
        assert_string_equal(ref.path, table[i].path);
    }
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *part;
    } table[] = {
        {"", PL_EINVAL, "repo is missing"},
        {"@master", PL_EINVAL, "repo is missing"},
        {"/digits", PL_EINVAL, "project is missing"},
        {"a/b/c@master", PL_ENAME, "repo"},
        {"digits@", PL_EINVAL, "branch or commit is missing"},
        {"digits@^1", PL_EINVAL, "branch or commit is missing"},
        {"digits@ma ster", PL_ENAME, "ma ster"},
        {"digits@master^x", PL_EINVAL, "^x"},
        {"digits@master^1x", PL_EINVAL, "x"},
        {"digits@master^1000001", PL_EINVAL, "1000000"},
        {"digits@master^99999999999999999999999", PL_EINVAL, "1000000"},
        {"digits@master:/a/../b", PL_EPATH, ".."},
        {"_digits", PL_ENAME, "_digits"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@master", PL_ENAME, "51"},
        {ID "@master", PL_ENAME, "32 hex"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_err err = {0};
        struct pl_commit_ref ref;
        int r = pl_commit_ref_parse(table[i].text, &ref, &err);

        if (r != table[i].code || strstr(err.msg, table[i].part) == NULL)
            fail_msg("%s: %d %s", table[i].text, r, err.msg);
    }
}

static void a_commit_alone_has_no_repo(void **state)
{
    struct pl_err err = {0};
    struct pl_commit_ref ref;

    (void)state;
    assert_int_equal(pl_commit_ref_parse_commit("9f3c^2", &ref, &err), 0);
    assert_int_equal(ref.kind, PL_COMMIT_REF_PREFIX);
    assert_int_equal(ref.back, 2);
    assert_string_equal(ref.repo, "");
    assert_int_equal(pl_commit_ref_parse_commit("master:/a", &ref, &err), PL_ENAME);
    assert_int_equal(pl_commit_ref_parse_commit("", &ref, &err), PL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_taken_apart),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_commit_alone_has_no_repo),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
