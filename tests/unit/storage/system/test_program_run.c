// link: storage/base storage/system
/* program: what another program says in a line. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/base/clock.h"
#include "storage/system/program_run.h"

static char line[64];

static int shell(const char *script, int64_t ms, struct pl_err *err)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};

    return pl_program_run(argv, ms, line, sizeof line, err);
}

static void its_first_line_and_its_status_are_told(void **state)
{
    static const struct {
        const char *script, *line;
        int status;
    } rows[] = {
        {"echo good", "good", 0},
        {"echo bad >&2; exit 3", "bad", 3},
        {"printf 'one\\ntwo\\n'; exit 255", "one", 255},
        {"true", "", 0},
        {"cat; echo nothing to read", "nothing to read", 0},
        {"printf %0100d 7", "000000000000000000000000000000000000000000000000000000000000000", 0},
        {"exec >&- 2>&-; exit 4", "", 4},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_err err = {0};

        assert_int_equal(shell(rows[i].script, 60000, &err), rows[i].status);
        assert_string_equal(line, rows[i].line);
    }
}

static void one_that_takes_too_long_is_ended(void **state)
{
    struct pl_err err = {0};
    int64_t before = pl_clock_mono_ms();

    (void)state;
    assert_int_equal(shell("echo begun; exec sleep 1000", 50, &err), PL_EUNAVAILABLE);
    assert_non_null(strstr(err.msg, "/bin/sh did not end within"));
    assert_true(pl_clock_mono_ms() - before < 500000);
}

static void one_that_dies_or_is_not_there_is_told(void **state)
{
    const char *const argv[] = {"/no/such/program", NULL};
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(shell("kill -9 $$", 60000, &err), PL_EUNAVAILABLE);
    assert_string_equal(err.msg, "/bin/sh ended by signal 9");
    assert_int_equal(pl_program_run(argv, 1000, line, sizeof line, &err), PL_EUNAVAILABLE);
    assert_string_equal(err.msg, "/no/such/program: No such file or directory");
}

static void its_output_and_its_errors_are_apart(void **state)
{
    static const struct {
        const char *script, *out, *said;
        int status;
    } rows[] = {
        {"printf 'one\\ntwo\\n'; echo bad >&2", "one\ntwo\n", "bad\n", 0},
        {"exit 125", "", "", 125},
        {"printf %0100d 7 >&2", "", "000000000000000000000000000000000000000000000000000000000000000", 0},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const char *const argv[] = {"sh", "-c", rows[i].script, NULL}; /* found in PATH */
        _cleanup_(pl_buf_finish) struct pl_buf out = {0};
        struct pl_err err = {0};

        assert_int_equal(pl_program_read(argv, 60000, &out, line, sizeof line, &err), rows[i].status);
        assert_string_equal(pl_buf_str(&out), rows[i].out);
        assert_string_equal(line, rows[i].said);
    }
}

static void more_output_than_its_limit_is_an_error(void **state)
{
    const char *const argv[] = {"sh", "-c", "printf %01000d 7", NULL};
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = 100};

    (void)state;
    assert_int_equal(pl_program_read(argv, 60000, &out, line, sizeof line, NULL), PL_ETOOBIG);
}

static void a_process_is_told_from_a_later_one_of_its_number(void **state)
{
    (void)state;
    assert_true(pl_program_start(getpid()) > 0);
    assert_int_equal(pl_program_start(getpid()), pl_program_start(getpid()));
    assert_int_equal(pl_program_start(1 << 23), 0); /* more than the kernel's largest number */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_first_line_and_its_status_are_told),
        cmocka_unit_test(one_that_takes_too_long_is_ended),
        cmocka_unit_test(one_that_dies_or_is_not_there_is_told),
        cmocka_unit_test(its_output_and_its_errors_are_apart),
        cmocka_unit_test(more_output_than_its_limit_is_an_error),
        cmocka_unit_test(a_process_is_told_from_a_later_one_of_its_number),
    };

    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
