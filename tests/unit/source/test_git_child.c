// link: pipelined/source
/* The daemon's end of pl-git: programs that answer, answer nonsense, end, or say nothing. Each is a shell script. */
#include "pipelined/source/git_child.h"

#include "storage/base/clock.h"
#include "storage/system/io.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char folder[64], program[128];
static _Atomic int64_t each_look_ms, passed_ms;

/* The clock since boot, which moves on by `each_look_ms` with each look at it. */
int clock_gettime(clockid_t which, struct timespec *ret)
{
    int r = (int)syscall(SYS_clock_gettime, which, ret);

    if (which == CLOCK_MONOTONIC)
        ret->tv_sec += (passed_ms += each_look_ms) / 1000;
    return r;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_git_child.XXXXXX");
    signal(SIGPIPE, SIG_IGN);
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return pl_io_remove_tree(folder, NULL);
}

/* A child whose program reads a request and then runs `script`. */
static struct pl_git_child *child(const char *script)
{
    static const struct pl_git_child_config config = {.program = program, .folder = folder, .rules = "{}"};
    struct pl_git_child *c = NULL;
    char text[1000];
    int n = snprintf(text, sizeof text, "#!/bin/bash\nread -r request\n%s\n", script);

    snprintf(program, sizeof program, "%s/program", folder);
    assert_int_equal(pl_io_write_file(program, text, (size_t)n, 0700, NULL), 0);
    assert_int_equal(chmod(program, 0700), 0);
    assert_int_equal(pl_git_child_create(&config, &c, NULL), 0);
    return c;
}

static int ask(struct pl_git_child *c, int64_t ms, json_t **ret, struct pl_err *err)
{
    int r = pl_git_child_ask(c, json_pack("{s:s}", "do", "x"), ms, err);

    return r < 0 ? r : pl_git_child_line(c, ret, err);
}

static void a_line_and_the_bytes_after_it_arrive(void **state)
{
    struct pl_git_child *c = child("printf '{\"len\":5}\\nhello{\"done\":true}\\n'; cat >/dev/null");
    json_t *line = NULL;
    char bytes[16];
    ssize_t n, got = 0;

    (void)state;
    assert_int_equal(ask(c, 60000, &line, NULL), 0);
    json_decref(line);
    while (got < 5 && (n = pl_git_child_bytes(c, bytes + got, (size_t)(5 - got), NULL)) > 0)
        got += n;
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(pl_git_child_line(c, &line, NULL), 0);
    assert_true(json_is_true(json_object_get(line, "done")));
    json_decref(line);
    pl_git_child_destroy(c);
}

static void what_is_no_answer_is_an_error_and_the_next_request_starts_another(void **state)
{
    static const struct {
        const char *script;
        int code;
        const char *why;
    } rows[] = {
        {"exit 3", PL_EIO, "ended without an answer"},
        {"echo nonsense", PL_EIO, "no answer"},
        {"echo '[1]'", PL_EIO, "no answer"},
        {"head -c 100000 /dev/zero 2>/dev/null | tr '\\0' x 2>/dev/null; cat >/dev/null", PL_EIO, "no answer"},
        {"kill -9 $$", PL_EIO, "ended without an answer"},
        {"echo '{\"error\": 1, \"message\": \"odd\"}'", PL_EIO, "odd"},
        {"echo '{\"error\": -77777, \"message\": \"unknown\"}'", PL_EIO, "unknown"},
        {"echo '{\"error\": -1}'", 0, "pl-git failed"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_git_child *c = child(rows[i].script);

        for (int again = 0; again < 2; again++) {
            struct pl_err err = {0};
            json_t *line = NULL;
            int r = ask(c, 60000, &line, &err);

            assert_true(rows[i].code ? r == rows[i].code : r < 0);
            assert_non_null(strstr(err.msg, rows[i].why));
            pl_git_child_rest(c);
        }
        pl_git_child_destroy(c);
    }
}

static void an_error_keeps_its_code_and_message(void **state)
{
    char script[100];
    struct pl_err err = {0};
    json_t *line = NULL;
    struct pl_git_child *c;

    (void)state;
    snprintf(script, sizeof script, "echo '{\"error\": %d, \"message\": \"no branch\"}'", PL_ENOTFOUND);
    c = child(script);
    assert_int_equal(ask(c, 60000, &line, &err), PL_ENOTFOUND);
    assert_string_equal(err.msg, "no branch");
    pl_git_child_destroy(c);
}

static void silence_ends_at_the_time_limit(void **state)
{
    struct pl_git_child *c = child("exec sleep 600");
    const int64_t began = pl_clock_mono_ms();
    struct pl_err err = {0};
    json_t *line = NULL;

    (void)state;
    assert_int_equal(ask(c, 50, &line, &err), PL_ETIMEOUT);
    assert_true(pl_clock_mono_ms() - began < 60000);
    pl_git_child_destroy(c);
}

static void progress_gives_more_time(void **state)
{
    /* from one line to the next less passes than the limit, in all more */
    struct pl_git_child *c =
        child("for ((i = 0; i < 20; i++)); do echo '{\"progress\":true}'; read -t 0.02 x; done; echo '{\"done\":true}'");
    json_t *line = NULL;
    int r;

    (void)state;
    each_look_ms = 5000;
    r = ask(c, 60000, &line, NULL);
    each_look_ms = 0;
    assert_int_equal(r, 0);
    assert_true(json_is_true(json_object_get(line, "done")));
    json_decref(line);
    pl_git_child_destroy(c);
}

static void *cancel(void *c)
{
    pl_git_child_cancel(c);
    return NULL;
}

static void a_cancel_from_another_thread_ends_the_wait_and_all_later_ones(void **state)
{
    struct pl_git_child *c = child("exec sleep 600");
    struct pl_err err = {0};
    json_t *line = NULL;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, cancel, c), 0);
    assert_int_equal(ask(c, 600000, &line, &err), PL_ECANCELED);
    pthread_join(thread, NULL);
    assert_int_equal(ask(c, 600000, &line, &err), PL_ECANCELED);
    pl_git_child_destroy(c);
}

static void a_program_that_is_not_there_is_unavailable(void **state)
{
    static const struct pl_git_child_config config = {.program = "/nonexistent/pl-git", .folder = folder, .rules = "{}"};
    struct pl_git_child *c = NULL;
    struct pl_err err = {0};
    json_t *line = NULL;

    (void)state;
    assert_int_equal(pl_git_child_create(&config, &c, NULL), 0);
    assert_int_equal(ask(c, 1000, &line, &err), PL_EUNAVAILABLE);
    pl_git_child_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_and_the_bytes_after_it_arrive),
        cmocka_unit_test(what_is_no_answer_is_an_error_and_the_next_request_starts_another),
        cmocka_unit_test(an_error_keeps_its_code_and_message),
        cmocka_unit_test(progress_gives_more_time),
        cmocka_unit_test(silence_ends_at_the_time_limit),
        cmocka_unit_test(a_cancel_from_another_thread_ends_the_wait_and_all_later_ones),
        cmocka_unit_test(a_program_that_is_not_there_is_unavailable),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
