// link: pipelined/db/writer storage/base storage/system
/* Whether the log is still this daemon's: doubted from when somebody asks for a look until a look that began after that has found it so. */
#include "pipelined/db/writer/db.h"
#include "storage/system/io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char dir[64];
    struct pl_object_store *objects;
    struct pl_db *db, *other;
    atomic_int fatal; /* the code */
};

static void on_fatal(void *arg, const struct pl_err *err)
{
    atomic_store(&((struct fixture *)arg)->fatal, err->code);
}

static struct pl_db *open_db(struct fixture *f, const char *name, int64_t watch_ms)
{
    char data[96];
    const struct pl_db_config c = {
        .dir = data, .objects = f->objects, .readers = 1, .watch_ms = watch_ms, .fatal = on_fatal, .arg = f};
    struct pl_db *db;

    (void)snprintf(data, sizeof data, "%s/%s", f->dir, name);
    assert_int_equal(pl_io_mkdirs(data, 0700, NULL), 0);
    assert_int_equal(pl_db_open(&c, &db, NULL), 0);
    return db;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char store[96];

    (void)snprintf(f->dir, sizeof f->dir, "/tmp/pl-log-watch-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(store, sizeof store, "%s/store", f->dir);
    assert_int_equal(pl_object_file_open(store, &f->objects, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    pl_db_close(f->other);
    pl_db_close(f->db);
    pl_object_close(f->objects);
    assert_int_equal(pl_io_remove_tree(f->dir, NULL), 0);
    free(f);
    return 0;
}

static void a_look_that_was_asked_for_ends_the_doubt(void **state)
{
    struct fixture *f = *state;

    f->db = open_db(f, "data", 600000);
    assert_true(pl_db_is_owner(f->db, false));
    (void)pl_db_is_owner(f->db, true);
    while (!pl_db_is_owner(f->db, false))
        usleep(1000);
    assert_int_equal(atomic_load(&f->fatal), 0);
}

/* Nobody looks here. */
static void until_then_it_is_doubted(void **state)
{
    struct fixture *f = *state;

    f->db = open_db(f, "data", 0);
    assert_true(pl_db_is_owner(f->db, false));
    assert_false(pl_db_is_owner(f->db, true));
    assert_false(pl_db_is_owner(f->db, false));
}

static void of_a_daemon_that_was_taken_over_it_is_doubted_for_ever(void **state)
{
    struct fixture *f = *state;

    f->db = open_db(f, "data", 600000);
    f->other = open_db(f, "other", 0);
    assert_false(pl_db_is_owner(f->db, true));
    while (atomic_load(&f->fatal) == 0)
        usleep(1000);
    assert_int_equal(atomic_load(&f->fatal), PL_EFENCED);
    assert_false(pl_db_is_owner(f->db, false));
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(a_look_that_was_asked_for_ends_the_doubt),
        ROW(until_then_it_is_doubted),
        ROW(of_a_daemon_that_was_taken_over_it_is_doubted_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
