// link: pipelined/agent/command storage/system
/* What is masked follows the files of a stage's secrets: what they hold now, and what they held before. */
#include "pipelined/agent/command/stage_secrets.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct pl_agent_protocol_secret uses[] = {{.name = "pg", .key = "dsn", .env = "PG"}, {.name = "pg", .mount = "/keys"}};
static const struct pl_agent_protocol_attach stage = {.project = "p", .secrets = uses, .n_secrets = 2};

struct fixture {
    char dir[64];
    struct pl_secrets *s;
};

static void write_key(const struct fixture *f, const char *key, const char *value)
{
    char path[256];

    snprintf(path, sizeof path, "%s/pg/%s", f->dir, key);
    assert_int_equal(pl_io_write_file(path, value, strlen(value), 0600, NULL), 0);
}

/* When the folder changed last. */
static void set_time(const struct fixture *f, time_t when)
{
    const struct timespec then[2] = {{.tv_sec = when}, {.tv_sec = when}};
    char path[256];

    snprintf(path, sizeof path, "%s/pg", f->dir);
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
}

static void prints(struct fixture *f, const char *text, const char *wanted)
{
    _cleanup_(pl_buf_finish) struct pl_buf held = {0};
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};

    pl_secret_redaction_pass(&f->s->mask, &held, text, strlen(text), true, &out);
    assert_string_equal(pl_buf_str(&out), wanted);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    const char *base = getenv("TMPDIR");
    char path[256];

    snprintf(f->dir, sizeof f->dir, "%.40s/pl-secrets-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    snprintf(path, sizeof path, "%s/pg", f->dir);
    assert_int_equal(pl_io_mkdirs(path, 0700, NULL), 0);
    write_key(f, "dsn", "variable");
    write_key(f, "token", "first-token");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    pl_secrets_destroy(f->s);
    assert_int_equal(pl_io_remove_tree(f->dir, NULL), 0);
    free(f);
    return 0;
}

static void a_value_is_masked_from_the_moment_that_it_is_there(void **state)
{
    struct fixture *f = *state;

    set_time(f, 1000);
    assert_int_equal(pl_secrets_read(f->dir, &stage, 0, &f->s, NULL), 0);
    prints(f, "variable first-token next-token", "*** *** next-token");
    write_key(f, "token", "next-token");
    pl_secrets_look(f->s, &stage, 1); /* however short ago the last look was */
    prints(f, "variable first-token next-token", "*** *** ***");
}

/* Two changes may get one time: so what has just changed is read again. */
static void what_changed_just_now_is_read_again_after_a_second(void **state)
{
    const time_t just_now = time(NULL) + 60; /* however slow the machine */
    struct fixture *f = *state;

    set_time(f, just_now);
    assert_int_equal(pl_secrets_read(f->dir, &stage, 0, &f->s, NULL), 0);
    write_key(f, "token", "next-token");
    set_time(f, just_now);
    pl_secrets_look(f->s, &stage, PL_SECRETS_AGAIN_MS - 1);
    prints(f, "next-token", "next-token");
    pl_secrets_look(f->s, &stage, PL_SECRETS_AGAIN_MS);
    prints(f, "next-token", "***");
}

/* A variable has its value for as long as the worker lives. */
static void what_a_file_holds_no_more_makes_room_and_variables_do_not(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf lines = {0};
    struct fixture *f = *state;

    set_time(f, 1000);
    assert_int_equal(pl_secrets_read(f->dir, &stage, 0, &f->s, NULL), 0);
    for (unsigned i = 0; i < PL_SECRET_REDACTION_TEXTS - 1; i++)
        assert_int_equal(pl_buf_addf(&lines, NULL, "n%06u\n", i), 0);
    write_key(f, "dsn", "another");
    write_key(f, "token", pl_buf_str(&lines));
    pl_secrets_look(f->s, &stage, 1);
    prints(f, "variable first-token n000000", "*** first-token ***");
    assert_true(f->s->mask.full);
    assert_true(f->s->said_full);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(a_value_is_masked_from_the_moment_that_it_is_there),
        ROW(what_changed_just_now_is_read_again_after_a_second),
        ROW(what_a_file_holds_no_more_makes_room_and_variables_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
