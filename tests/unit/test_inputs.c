/* /pfs/<input> of a datum: what lies there after a fetch, whatever lay there before. */
// link: pl_agent
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent_files.h"
#include "storage/dataset/checkout.h"
#include <dirent.h>

static int set_up(void **state)
{
    *state = agent_files_create(true);
    return 0;
}

static int set_up_writable(void **state)
{
    *state = agent_files_create(false);
    return 0;
}

static int tear_down(void **state)
{
    agent_files_destroy(*state);
    return 0;
}

static char big[300000];

/* train/b1.csv, train/b2.csv, train/deep/er/x, tool (executable), big (a chunk list), empty/ */
static struct pl_hash make_commit(struct agent_files *f)
{
    char in[128], path[160];

    snprintf(in, sizeof(in), "%s/in", f->dir);
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 2654435761u >> 13);
    agent_files_write(in, "train/b1.csv", "one", 3, 0644);
    agent_files_write(in, "train/b2.csv", big, 1000, 0644);
    agent_files_write(in, "train/deep/er/x", big, 90, 0644);
    agent_files_write(in, "tool", "#!/bin/sh\n", 10, 0755);
    agent_files_write(in, "big", big, sizeof(big), 0644);
    snprintf(path, sizeof(path), "%s/empty", in);
    assert_int_equal(mkdir(path, 0755), 0);
    return agent_files_commit(f, in);
}

static void fetch(struct agent_files *f, struct pl_wire_input *inputs, size_t n, uint64_t want_bytes)
{
    const struct pl_wire_row row = {.inputs = inputs, .n_inputs = n};
    struct pl_err err = {0};
    uint64_t bytes = 0;

    if (pl_inputs_stage(f->inputs, &row, &bytes, &err) < 0 || pl_inputs_apply(f->inputs, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(bytes, want_bytes);
}

/* Is WORK/pfs/<path> a file of `n` bytes and this mode? */
static bool has_file(struct agent_files *f, const char *path, size_t n, mode_t mode)
{
    char whole[512];
    struct stat st;

    snprintf(whole, sizeof(whole), "%s/pfs/%s", f->work, path);
    return lstat(whole, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size == n && (st.st_mode & 07777) == mode &&
           st.st_mtime == PL_CHECKOUT_MTIME_S;
}

static bool is_there(struct agent_files *f, const char *path)
{
    char whole[512];

    snprintf(whole, sizeof(whole), "%s/%s", f->work, path);
    return access(whole, F_OK) == 0;
}

static void a_file_match_gives_that_file(void **state)
{
    struct agent_files *f = *state;
    struct pl_wire_input in = {.name = "digits", .path = "train/b1.csv", .root = make_commit(f), .file = true};

    fetch(f, &in, 1, 3);
    assert_true(has_file(f, "digits/train/b1.csv", 3, 0444));
    assert_false(is_there(f, "pfs/digits/train/b2.csv"));
    in.path = "train/b2.csv"; /* the next datum */
    fetch(f, &in, 1, 1000);
    assert_true(has_file(f, "digits/train/b2.csv", 1000, 0444));
    assert_false(is_there(f, "pfs/digits/train/b1.csv"));
    in.path = "tool";
    fetch(f, &in, 1, 10);
    assert_true(has_file(f, "digits/tool", 10, 0555));
    in.path = "big";
    fetch(f, &in, 1, sizeof(big));
    assert_true(has_file(f, "digits/big", sizeof(big), 0444));
}

static void the_root_gives_everything(void **state)
{
    struct agent_files *f = *state;
    struct pl_wire_input in = {.name = "digits", .path = "", .root = make_commit(f)};

    fetch(f, &in, 1, 3 + 1000 + 90 + 10 + sizeof(big));
    assert_true(has_file(f, "digits/train/b1.csv", 3, 0444));
    assert_true(has_file(f, "digits/train/deep/er/x", 90, 0444));
    assert_true(has_file(f, "digits/tool", 10, 0555));
    assert_true(is_there(f, "pfs/digits/empty"));
}

static void files_take_a_part_of_a_match(void **state)
{
    struct agent_files *f = *state;
    const char *globs[] = {"*.csv", NULL}, *none[] = {"*.jpg", NULL};
    struct pl_wire_input in = {.name = "digits", .path = "train", .root = make_commit(f), .files = globs, .n_files = 1};

    fetch(f, &in, 1, 3 + 1000 + 90);
    assert_true(has_file(f, "digits/train/b1.csv", 3, 0444));
    assert_false(is_there(f, "pfs/digits/train/deep"));
    assert_false(is_there(f, "pfs/digits/tool"));
    in.files = none;
    fetch(f, &in, 1, 3 + 1000 + 90);
    assert_true(is_there(f, "pfs/digits/train"));
    assert_false(is_there(f, "pfs/digits/train/b1.csv"));
}

static void an_input_that_stays_the_same_stays_where_it_is(void **state)
{
    struct agent_files *f = *state;
    struct pl_hash root = make_commit(f);
    struct pl_wire_input in[2] = {{.name = "test", .path = "train/b1.csv", .root = root, .file = true},
                                  {.name = "model", .path = "train", .root = root}};
    struct stat before, after;
    char path[512];

    snprintf(path, sizeof(path), "%s/pfs/model", f->work);
    fetch(f, in, 2, 3 + 1093);
    assert_int_equal(stat(path, &before), 0);
    in[0].path = "train/b2.csv";
    fetch(f, in, 2, 1000 + 1093);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    fetch(f, in, 1, 1000); /* a datum without it */
    assert_false(is_there(f, "pfs/model"));
}

static void where_a_command_can_write_every_datum_gets_its_own(void **state)
{
    struct agent_files *f = *state;
    struct pl_wire_input in = {.name = "digits", .path = "train", .root = make_commit(f)};
    char path[512];
    struct stat st;

    fetch(f, &in, 1, 1093);
    snprintf(path, sizeof(path), "%s/pfs/digits/train/b2.csv", f->work);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_nlink, 1); /* no link into the cache */
    assert_int_equal(unlink(path), 0);
    fetch(f, &in, 1, 1093);
    assert_true(has_file(f, "digits/train/b2.csv", 1000, 0444));
}

static void behind_a_read_only_mount_files_are_links_into_the_cache(void **state)
{
    struct agent_files *f = *state;
    struct pl_wire_input in = {.name = "digits", .path = "train/b2.csv", .root = make_commit(f), .file = true};
    char path[512];
    struct stat st;

    fetch(f, &in, 1, 1000);
    snprintf(path, sizeof(path), "%s/pfs/digits/train/b2.csv", f->work);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_nlink, 2);
}

static void what_is_not_there_is_named(void **state)
{
    struct agent_files *f = *state;
    struct pl_wire_input in = {.name = "digits", .path = "train/b9.csv", .root = make_commit(f), .file = true};
    const struct pl_wire_row row = {.inputs = &in, .n_inputs = 1};
    struct pl_err err = {0};
    uint64_t bytes;

    assert_int_equal(pl_inputs_stage(f->inputs, &row, &bytes, &err), PL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "input digits"));
    assert_non_null(strstr(err.msg, "train/b9.csv"));
    assert_false(is_there(f, "next/digits"));
    in.path = "train/b1.csv"; /* and the next datum goes on */
    fetch(f, &in, 1, 3);
}

static void many_files_come_by_all_cores(void **state)
{
    struct agent_files *f = *state;
    char in[128], name[32];
    struct pl_wire_input input = {.name = "many", .path = "d"};

    snprintf(in, sizeof(in), "%s/in", f->dir);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "d/%03d", i);
        agent_files_write(in, name, name, strlen(name), 0644);
    }
    input.root = agent_files_commit(f, in);
    fetch(f, &input, 1, 1000);
    assert_true(has_file(f, "many/d/000", 5, 0444));
    assert_true(has_file(f, "many/d/199", 5, 0444));
}

static void the_code_is_a_copy_that_can_be_written_to(void **state)
{
    struct agent_files *f = *state;
    struct pl_hash root = make_commit(f);
    char code[256], path[512];
    struct stat st;
    struct pl_err err = {0};

    snprintf(code, sizeof(code), "%s/code", f->work);
    if (pl_inputs_code(f->inputs, &root, code, &err) < 0)
        fail_msg("%s", err.msg);
    snprintf(path, sizeof(path), "%s/tool", code);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_int_equal(st.st_nlink, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_match_gives_that_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_root_gives_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_take_a_part_of_a_match, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_input_that_stays_the_same_stays_where_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_a_command_can_write_every_datum_gets_its_own, set_up_writable, tear_down),
        cmocka_unit_test_setup_teardown(behind_a_read_only_mount_files_are_links_into_the_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_files_come_by_all_cores, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_code_is_a_copy_that_can_be_written_to, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
