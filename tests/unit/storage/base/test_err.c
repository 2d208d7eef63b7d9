// link: storage/base storage/system
/* The table of errors: sound in itself, and what docs/errors.md shows. */
#include "tests/support/fixtures/generated_docs.h"

static void test_every_code_and_name_is_there_once(void **state)
{
    size_t n;
    const struct pl_err_info *rows = pl_err_table(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        assert_true(rows[i].code < 0);
        assert_ptr_equal(pl_err_info(rows[i].code), &rows[i]);
        assert_ptr_equal(pl_err_info_by_name(rows[i].name), &rows[i]);
        assert_int_equal(strspn(rows[i].name, "abcdefghijklmnopqrstuvwxyz_"), strlen(rows[i].name));
    }
    assert_int_equal(pl_err_info(-9999)->code, PL_EINTERNAL);
    assert_null(pl_err_info_by_name("no_such_error"));
}

static void test_statuses_and_exit_codes_are_those_of_errors(void **state)
{
    size_t n;
    const struct pl_err_info *rows = pl_err_table(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        assert_in_range(rows[i].http_status, 400, 599);
        assert_in_range(rows[i].exit_code, 1, 6);
        assert_int_equal(rows[i].meaning[strlen(rows[i].meaning) - 1], '.');
        assert_int_equal(rows[i].remedy[strlen(rows[i].remedy) - 1], '.');
    }
}

static void test_the_page_is_made_from_the_table(void **state)
{
    struct pl_buf page = {0};

    (void)state;
    assert_int_equal(pl_err_markdown(&page, NULL), 0);
    assert_docs(DOCS("errors.md"), &page);
    pl_buf_finish(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_and_name_is_there_once),
        cmocka_unit_test(test_statuses_and_exit_codes_are_those_of_errors),
        cmocka_unit_test(test_the_page_is_made_from_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
