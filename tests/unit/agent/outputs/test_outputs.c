// link: pipelined/agent/inputs pipelined/agent/outputs pipelined/agent/sandbox storage/dataset/ingest storage/object storage/store storage/system storage/tree storage/tree_edit
/* /pfs/out of a datum → entries: what is kept, by what path and mode, and what is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/inputs/folder_move.h"
#include "pipelined/agent/sandbox/sandbox.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_ops.h"
#include "tests/support/fixtures/swap_fixture.h"
#include <sys/socket.h>
#include <sys/un.h>

struct fixture {
    struct agent_files *files;
    struct pl_agent_protocol_input input;
    struct pl_agent_protocol_datum row;
    struct pl_agent_protocol_outcome outcome;
};

static char big[300000];

/* An input "images" whose match is the folder d: d/a.png (80 bytes), d/sub/b.png, d/tool (executable); other/c.png is not in it. */
static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    char in[128];

    *state = f;
    f->files = agent_files_create(true);
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 2654435761u >> 13);
    snprintf(in, sizeof(in), "%s/in", f->files->dir);
    agent_files_write(in, "d/a.png", big, 80, 0644);
    agent_files_write(in, "d/sub/b.png", "b", 1, 0644);
    agent_files_write(in, "d/tool", "t", 1, 0755);
    agent_files_write(in, "other/c.png", "c", 1, 0644);
    f->input = (struct pl_agent_protocol_input){.name = "images", .path = "d", .root = agent_files_commit(f->files, in)};
    f->row = (struct pl_agent_protocol_datum){.inputs = &f->input, .n_inputs = 1};
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    pl_agent_protocol_outcome_finish(&f->outcome);
    agent_files_destroy(f->files);
    free(f);
    return 0;
}

static int capture(struct fixture *f, struct pl_err *err)
{
    const struct pl_outputs_request request = {
        .out = f->files->out, .pfs = "/pfs", .refs = &f->files->refs, .row = &f->row, .store = &f->files->outputs};

    pl_agent_protocol_outcome_finish(&f->outcome);
    return pl_outputs_capture(&request, &f->outcome, err);
}

static void put(struct fixture *f, const char *path, const void *data, size_t n, mode_t mode)
{
    agent_files_write(f->files->out, path, data, n, mode);
}

static void put_link(struct fixture *f, const char *path, const char *text)
{
    char whole[512];

    snprintf(whole, sizeof(whole), "%s/%s", f->files->out, path);
    assert_int_equal(symlink(text, whole), 0);
}

static const char *letter(uint8_t kind)
{
    static const char *const letters[] = {"", "F", "X", "L", "D"};

    return letters[kind];
}

/* The entries of the outcome, "a F3 b X10 …", in order. The caller frees it. */
static char *listing(struct fixture *f)
{
    const struct pl_node_source nodes = {.self = f->files->store, .get = pl_store_node_get};
    struct pl_buf b = {0};
    struct pl_err err = {0};

    if (f->outcome.ops) {
        struct pl_tree_op *ops;
        size_t n;
        assert_true(f->outcome.ops_len <= PL_AGENT_PROTOCOL_INLINE_MAX);
        assert_int_equal(pl_tree_ops_read(f->outcome.ops, f->outcome.ops_len, &ops, &n, &err), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(pl_buf_addf(&b, NULL, "%.*s %s%d ", (int)ops[i].path_len, ops[i].path, letter(ops[i].entry.kind),
                                         (int)ops[i].entry.size),
                             0);
        free(ops);
    } else {
        struct pl_tree_cursor *cursor;
        struct pl_tree_item item;
        assert_int_equal(pl_outputs_flush(&f->files->outputs, &err), 0);
        assert_int_equal(pl_tree_cursor_create(&nodes, &f->outcome.root, NULL, 0, &cursor, &err), 0);
        while (pl_tree_cursor_next(cursor, &item, &err) > 0)
            assert_int_equal(pl_buf_addf(&b, NULL, "%s %s%d ", item.path, letter(item.entry.kind), (int)item.entry.size), 0);
        pl_tree_cursor_destroy(cursor);
    }
    return pl_buf_take_str(&b);
}

#define ASSERT_OUTPUT(f, want)                                                                                                   \
    do {                                                                                                                         \
        struct pl_err err_ = {0};                                                                                                \
        char *got_;                                                                                                              \
        if (capture(f, &err_) < 0)                                                                                               \
            fail_msg("%s", err_.msg);                                                                                            \
        got_ = listing(f);                                                                                                       \
        assert_string_equal(got_, want);                                                                                         \
        free(got_);                                                                                                              \
    } while (0)

static void nothing_written_costs_nothing(void **state)
{
    struct fixture *f = *state;

    ASSERT_OUTPUT(f, "");
    assert_int_equal(f->outcome.ops_len, 7);
    assert_null(f->files->outputs.session); /* nothing to upload */
}

static void files_folders_and_modes_are_kept(void **state)
{
    struct fixture *f = *state;
    char path[512];

    put(f, "b.txt", "hello", 5, 0600);
    put(f, "a/run", "#!", 2, 0755);
    put(f, "a.b", "x", 1, 0644); /* '.' sorts before '/' */
    put(f, "a/z", "", 0, 0644);
    snprintf(path, sizeof(path), "%s/void/inner", f->files->out);
    assert_int_equal(pl_io_mkdirs(path, 0700, NULL), 0);
    ASSERT_OUTPUT(f, "a.b F1 a/run X2 a/z F0 b.txt F5 void/inner D0 ");
    assert_int_equal(f->outcome.bytes_out, 8);
}

static void larger_outputs_go_into_packs(void **state)
{
    struct fixture *f = *state;
    struct pl_err err = {0};

    put(f, "chunk", big, 5000, 0644);
    put(f, "list", big, sizeof(big), 0644);
    ASSERT_OUTPUT(f, "chunk F5000 list F300000 ");
    assert_non_null(f->outcome.ops); /* two entries are few bytes */
    assert_non_null(f->files->outputs.session);
    assert_int_equal(pl_outputs_flush(&f->files->outputs, &err), 0);
    assert_null(f->files->outputs.session);
}

static void more_than_1_KiB_of_entries_become_a_tree(void **state)
{
    struct fixture *f = *state;
    struct pl_buf want = {0};
    char name[32];

    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "part-%02d/data.csv", i);
        put(f, name, big, 70, 0644);
        assert_int_equal(pl_buf_addf(&want, NULL, "%s F70 ", name), 0);
    }
    ASSERT_OUTPUT(f, pl_buf_str(&want));
    assert_null(f->outcome.ops);
    pl_buf_finish(&want);
}

static void many_files_are_read_by_all_cores_with_the_same_result(void **state)
{
    struct fixture *f = *state;
    struct pl_buf want = {0};
    char name[32];

    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "%03d", i);
        put(f, name, big, (size_t)i, 0644);
    }
    put_link(f, "100a", "100");
    put_link(f, "150a", "/pfs/images/d/tool");
    for (int i = 0; i < 200; i++)
        assert_int_equal(pl_buf_addf(&want, NULL, "%03d F%d %s", i, i, i == 100 ? "100a L3 " : i == 150 ? "150a X1 " : ""), 0);
    ASSERT_OUTPUT(f, pl_buf_str(&want));
    pl_buf_finish(&want);
}

static void links_are_kept_or_followed_into_inputs(void **state)
{
    struct fixture *f = *state;

    put(f, "file", "1", 1, 0644);
    put_link(f, "kept", "file");
    put_link(f, "absolute", "/pfs/out/file");
    put_link(f, "picture", "/pfs/images/d/a.png");
    put_link(f, "folder", "../images/d/sub");
    put_link(f, "whole", "/pfs/images");
    ASSERT_OUTPUT(
        f, "absolute L4 file F1 folder/b.png F1 kept L4 picture F80 whole/d/a.png F80 whole/d/sub/b.png F1 whole/d/tool X1 ");
    assert_null(f->files->outputs.session); /* by reference: no bytes */
}

static void links_that_lead_elsewhere_are_refused_by_name(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"/etc/passwd", "/pfs/out/l is a link to /etc/passwd"},
        {"../../etc/passwd", "/pfs/out/l is a link to ../../etc/passwd"},
        {"/pfs/images/other/c.png", "link /pfs/out/l -> /pfs/images/other/c.png"}, /* not in the match */
        {"/pfs/images/d/no", "link /pfs/out/l -> /pfs/images/d/no"},
        {"/pfs/nothing/x", "there is no input nothing"},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct fixture *f = *state;
        struct pl_err err = {0};
        put_link(f, "l", cases[i].text);
        assert_true(capture(f, &err) < 0);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("%s: %s", cases[i].text, err.msg);
        assert_int_equal(pl_sandbox_clear(f->files->out, NULL), 0);
    }
}

static void names_that_no_dataset_can_hold_are_refused(void **state)
{
    static const struct {
        const char *name, *says;
    } cases[] = {
        {"a\x80"
         "b",
         "/pfs/out/a\\x80b has a name that is not UTF-8"},
        {"a\nb", "/pfs/out/a\\x0ab has a name with a control character"},
        {"d/\x01", "/pfs/out/d/\\x01 has a name with a control character"},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct fixture *f = *state;
        struct pl_err err = {0};
        put(f, cases[i].name, "x", 1, 0644);
        assert_int_equal(capture(f, &err), PL_EPATH);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("%s", err.msg);
        assert_int_equal(pl_sandbox_clear(f->files->out, NULL), 0);
    }
}

static void a_path_too_long_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[1600] = "";
    struct pl_err err = {0};

    for (int i = 0; i < 6; i++) {
        memset(path + strlen(path), 'd', 200);
        strcat(path, "/");
    }
    strcat(path, "x");
    put(f, path, "x", 1, 0644);
    assert_int_equal(capture(f, &err), PL_EPATH);
    assert_non_null(strstr(err.msg, "longer than 1,024 bytes"));
}

static void special_files_are_refused_by_name(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[512];
    struct pl_err err = {0};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(path, sizeof(path), "%s/pipe", f->files->out);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_int_equal(capture(f, &err), PL_EINVAL);
    assert_non_null(strstr(err.msg, "/pfs/out/pipe is a FIFO"));
    assert_int_equal(pl_sandbox_clear(f->files->out, NULL), 0);
    assert_true(snprintf(path, sizeof(path), "%s/sock", f->files->out) < (int)sizeof(address.sun_path));
    strcpy(address.sun_path, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    assert_int_equal(capture(f, &err), PL_EINVAL);
    assert_non_null(strstr(err.msg, "/pfs/out/sock is a socket"));
}

static void what_the_command_made_unreadable_is_opened_up(void **state)
{
    struct fixture *f = *state;
    char path[512];

    put(f, "d/file", "x", 1, 0000);
    snprintf(path, sizeof(path), "%s/d", f->files->out);
    assert_int_equal(chmod(path, 0), 0);
    ASSERT_OUTPUT(f, "d/file F1 ");
    assert_int_equal(pl_sandbox_clear(f->files->out, NULL), 0);
    ASSERT_OUTPUT(f, "");
}

/* ---- a command that lives on ---- */

/* The command keeps the folder open and swaps what is walked for links that lead outside: nothing of that is read, and no mode is changed there. */
static void nothing_outside_is_touched_for_a_command_that_swaps(struct fixture *f, unsigned more_files)
{
    struct swapper s = {.seed = 17};
    unsigned good = 0;

    swapper_start(&s, f->files->out, f->files->dir, more_files);
    for (unsigned i = 0; swapper_goes_on(&s, i); i++) {
        struct pl_err err = {0};
        _cleanup_free_ char *got = NULL;

        if (capture(f, &err) < 0) {
            if (strstr(err.msg, f->files->dir) && !strstr(err.msg, s.outside)) /* a link's target may be said */
                fail_msg("not as the command knows it: %s", err.msg);
            assert_true(*err.msg);
            pl_outputs_drop(&f->files->outputs);
            continue;
        }
        good++;
        got = listing(f);
        if (strstr(got, "secret ") || strstr(got, "F7777 "))
            fail_msg("from outside: %s", got);
    }
    swapper_stop(&s);
    assert_true(good > 0);
    assert_false(pl_store_has(f->files->store, &s.secret_id));
}

static void a_few_files_of_a_command_that_swaps(void **state)
{
    nothing_outside_is_touched_for_a_command_that_swaps(*state, 0);
}

static void many_files_of_a_command_that_swaps(void **state)
{
    nothing_outside_is_touched_for_a_command_that_swaps(*state, PL_OUTPUTS_FEW + 1);
}

/* The command makes the folder anew and swaps what is being removed for links that lead outside: nothing of that goes. */
static void nothing_outside_is_removed_for_a_command_that_swaps(void **state)
{
    struct fixture *f = *state;
    struct swapper s = {.seed = 31, .removed = true};
    char aside[320], link[320];
    struct stat st;

    snprintf(aside, sizeof aside, "%s/aside", f->files->dir);
    snprintf(link, sizeof link, "%s/link", f->files->dir);
    assert_int_equal(pl_io_mkdirs(aside, 0755, NULL), 0);
    swapper_start(&s, f->files->out, f->files->dir, 3);
    assert_int_equal(symlink(s.outside, link), 0);
    for (unsigned i = 0; swapper_goes_on(&s, i); i++) {
        const int fd = open(f->files->out, O_RDONLY | O_DIRECTORY);

        (void)!pl_folder_move(fd, "out", aside, NULL); /* what goes away meanwhile is an error */
        close(fd);
        (void)!pl_sandbox_clear(f->files->out, NULL);
        assert_int_equal(pl_sandbox_clear(aside, NULL), 0);
        assert_true(pl_sandbox_clear(link, NULL) < 0);
    }
    swapper_stop(&s);
    assert_int_equal(pl_sandbox_clear(f->files->out, NULL), 0);
    assert_int_equal(pl_sandbox_clear(aside, NULL), 0);
    assert_int_equal(lstat(link, &st), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_written_costs_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_folders_and_modes_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(larger_outputs_go_into_packs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_1_KiB_of_entries_become_a_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_files_are_read_by_all_cores_with_the_same_result, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_are_kept_or_followed_into_inputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_that_lead_elsewhere_are_refused_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_that_no_dataset_can_hold_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_too_long_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(special_files_are_refused_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_command_made_unreadable_is_opened_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_few_files_of_a_command_that_swaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_files_of_a_command_that_swaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_outside_is_removed_for_a_command_that_swaps, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
