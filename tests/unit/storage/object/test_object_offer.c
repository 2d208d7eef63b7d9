// link: storage/base storage/object storage/system
/* object_offer: a file of the daemon's user is taken once and whole; anything else in the folder is refused and stays out. */
#include "tests/unit/storage/object/object_table.h"

#include "storage/object/object_offer.h"

#include <sys/stat.h>
#include <utime.h>

#define NAME "offer-00112233445566778899aabb"

static char *dir;
static char store_dir[PATH_MAX];
static struct pl_object_store *store;

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    umask(022);
    dir = fixture_dir();
    (void)snprintf(store_dir, sizeof(store_dir), "%s", fixture_path(dir, "store"));
    assert_ok(pl_object_file_open(store_dir, &store, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PL_IO_CALLS; i++)
        pl_io_fail_nth((enum pl_io_call)i, 0, 0);
    store = pl_object_close(store);
    fixture_remove(dir);
    return 0;
}

static const char *tmp(const char *name)
{
    static char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%.3000s/tmp/%s", store_dir, name);
    return path;
}

static int take(const char *name)
{
    char path[PATH_MAX];
    struct pl_err err;
    uint64_t size;

    return pl_object_offer_take(store, name, path, &size, &err);
}

static void an_offer_becomes_an_object_once(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf got = {0};
    char name[PL_OBJECT_OFFER_NAME], path[PATH_MAX];
    struct pl_err err;
    uint64_t size;

    (void)state;
    assert_true(pl_object_offer_allowed(store_dir));
    assert_ok(pl_object_offer_make(store_dir, "the bytes", 9, 0, name, &err), &err);
    assert_ok(pl_object_offer_take(store, name, path, &size, &err), &err);
    assert_int_equal(size, 9);
    assert_int_equal(take(name), PL_ENOTFOUND);
    assert_ok(pl_object_adopt(store, "p/one", path, &err), &err);
    assert_ok(pl_object_get_all(store, "p/one", &got, &err), &err);
    assert_int_equal(got.len, 9);
    assert_memory_equal(got.data, "the bytes", 9);
    assert_int_equal(fixture_count(tmp("")), 0);
}

static void a_withdrawn_offer_is_gone(void **state)
{
    char name[PL_OBJECT_OFFER_NAME];
    struct pl_err err;

    (void)state;
    assert_ok(pl_object_offer_make(store_dir, "x", 1, 0, name, &err), &err);
    pl_object_offer_withdraw(store_dir, name);
    assert_int_equal(take(name), PL_ENOTFOUND);
    pl_object_offer_withdraw(store_dir, name); /* a second time does nothing */
    assert_int_equal(fixture_count(tmp("")), 0);
}

/* Another client's upload, an object, or a file outside the store must not be named. */
static void only_names_of_offers_are_taken(void **state)
{
    static const char *const bad[] = {"",
                                      "00112233445566778899aabb",
                                      "offer-00112233445566778899aab",
                                      "offer-00112233445566778899aabbc",
                                      "offer-00112233445566778899aABB",
                                      "offer-../../p/x00000000000000",
                                      ("../tmp/" NAME),
                                      "/etc/passwd"};
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_write_file(tmp(NAME), "x", 1, 0600, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        assert_int_equal(take(bad[i]), PL_EINVAL);
    assert_int_equal(fixture_count(tmp("")), 1);
}

static void a_folder_that_others_may_write_to_has_no_offers(void **state)
{
    static const mode_t modes[] = {0770, 0707, 0777};
    char at[PATH_MAX];
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_write_file(tmp(NAME), "x", 1, 0600, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(modes); i++) {
        assert_int_equal(chmod(tmp(""), modes[i]), 0);
        assert_false(pl_object_offer_allowed(store_dir));
        assert_int_equal(take(NAME), PL_EFORBIDDEN);
    }
    assert_int_equal(chmod(tmp(""), 0755), 0);
    assert_true(pl_object_offer_allowed(store_dir));
    assert_false(pl_object_offer_allowed(fixture_path(dir, "nowhere")));
    if (geteuid() == 0) {
        assert_int_equal(chown(tmp(""), 4711, (gid_t)-1), 0);
        assert_false(pl_object_offer_allowed(store_dir));
        assert_int_equal(take(NAME), PL_EFORBIDDEN);
        assert_int_equal(chown(tmp(""), 0, (gid_t)-1), 0);
    }
    assert_int_equal(take(NAME), 0);
    assert_int_equal(chmod(store_dir, 0757), 0); /* others may put another folder into the place of tmp */
    assert_false(pl_object_offer_allowed(store_dir));
    assert_int_equal(chmod(store_dir, 0775), 0);
    assert_true(pl_object_offer_allowed(store_dir));
    assert_int_equal(rename(tmp(""), fixture_path(dir, "elsewhere")), 0);
    (void)snprintf(at, sizeof(at), "%.3000s/tmp", store_dir);
    assert_int_equal(symlink(fixture_path(dir, "elsewhere"), at), 0);
    assert_false(pl_object_offer_allowed(store_dir));
    assert_int_equal(take(NAME), PL_EFORBIDDEN);
}

static void make_link(const char *to)
{
    assert_int_equal(symlink(to, tmp(NAME)), 0);
}

static void make_second_name(const char *of)
{
    assert_int_equal(link(of, tmp(NAME)), 0);
}

static void make_foreign(const char *of)
{
    (void)of;
    assert_int_equal(pl_io_write_file(tmp(NAME), "x", 1, 0644, NULL), 0);
    assert_int_equal(chown(tmp(NAME), 4711, (gid_t)-1), 0);
}

static void make_folder(const char *of)
{
    (void)of;
    assert_int_equal(mkdir(tmp(NAME), 0700), 0);
}

static void what_is_no_file_of_the_owner_is_refused(void **state)
{
    static const struct {
        void (*make)(const char *of);
        bool root; /* needs the right to give files away */
    } cases[] = {{make_link, false}, {make_second_name, false}, {make_foreign, true}, {make_folder, false}};
    struct pl_err err;

    (void)state;
    assert_ok(table_put(store, "p/one", "content", true, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        if (cases[i].root && geteuid() != 0)
            continue;
        cases[i].make(fixture_path(dir, "store/p/one"));
        assert_int_equal(take(NAME), PL_EFORBIDDEN);
        assert_int_equal(remove(tmp(NAME)), 0); /* it was left where it was */
    }
    assert_int_equal(access(fixture_path(dir, "store/p/one"), F_OK), 0);
}

static void a_full_disk_leaves_no_file(void **state)
{
    char name[PL_OBJECT_OFFER_NAME] = "";
    struct pl_err err;

    (void)state;
    pl_io_fail_nth(PL_IO_WRITE, 1, ENOSPC);
    assert_int_equal(pl_object_offer_make(store_dir, "x", 1, 0, name, &err), PL_ENOSPC);
    assert_string_equal(name, "");
    assert_int_equal(fixture_count(tmp("")), 0);
    /* an error that stays is another one than an error of the moment */
    assert_int_equal(pl_object_offer_make(fixture_path(dir, "nowhere"), "x", 1, 0, name, &err), PL_EUNAVAILABLE);
}

static void the_reserve_of_the_disk_stays_free(void **state)
{
    char name[PL_OBJECT_OFFER_NAME] = "";
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_object_offer_make(store_dir, "x", 1, UINT64_MAX, name, &err), PL_ENOSPC);
    assert_non_null(strstr(err.msg, "reserved"));
    assert_string_equal(name, "");
    assert_int_equal(fixture_count(tmp("")), 0);
    assert_ok(pl_object_offer_make(store_dir, "x", 1, 1, name, &err), &err);
}

static void what_a_killed_client_left_is_removed(void **state)
{
    struct utimbuf old = {0};
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_write_file(tmp(NAME), "x", 1, 0600, &err), &err);
    assert_ok(pl_io_write_file(tmp("00112233445566778899aabb"), "x", 1, 0600, &err), &err);
    assert_true(pl_object_offer_allowed(store_dir));
    assert_int_equal(fixture_count(tmp("")), 2);
    old.modtime = old.actime = time(NULL) - PL_OBJECT_OFFER_STALE_SECONDS - 10;
    assert_int_equal(utime(tmp(NAME), &old), 0);
    assert_int_equal(utime(tmp("00112233445566778899aabb"), &old), 0);
    assert_true(pl_object_offer_allowed(store_dir));
    assert_int_equal(access(tmp(NAME), F_OK), -1);
    assert_int_equal(fixture_count(tmp("")), 1); /* an upload that the daemon receives is not an offer */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_offer_becomes_an_object_once),         TEST(a_withdrawn_offer_is_gone),
        TEST(only_names_of_offers_are_taken),          TEST(a_folder_that_others_may_write_to_has_no_offers),
        TEST(what_is_no_file_of_the_owner_is_refused), TEST(a_full_disk_leaves_no_file),
        TEST(the_reserve_of_the_disk_stays_free),      TEST(what_a_killed_client_left_is_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
