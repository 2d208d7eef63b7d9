// link: pipelined/exec/kubernetes storage/base storage/system
/* seen_nodes: what nodes the daemon's last life saw, through a file that may be anything; two threads: the caller's and the writer's. */
#include "pipelined/exec/kubernetes/node_history.h"

#include "storage/base/buf.h"
#include "storage/system/io.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define DAY    (24LL * 3600 * 1000)
#define NOW    (20000 * DAY)
#define SERVER "https://cluster.example:6443 (context c)"

struct fixture {
    char folder[64], path[96], log[96];
    struct pl_node_capacity *offer;
    struct pl_seen_nodes *seen;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    snprintf(f->folder, sizeof f->folder, "/tmp/pl-seen-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/nodes.json", f->folder);
    snprintf(f->log, sizeof f->log, "%s/log", f->folder);
    *state = f;
    return 0;
}

static void end_life(struct fixture *f, int64_t now_ms)
{
    f->seen = pl_node_history_destroy(f->seen, f->offer, now_ms);
    f->offer = pl_node_capacity_destroy(f->offer);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    end_life(f, NOW);
    assert_int_equal(pl_io_remove_tree(f->folder, NULL), 0);
    free(f);
    return 0;
}

static void begin_life(struct fixture *f, int64_t now_ms)
{
    assert_int_equal(pl_node_capacity_create(&f->offer, NULL), 0);
    assert_int_equal(pl_node_history_create(f->path, SERVER, f->offer, now_ms, &f->seen, NULL), 0);
}

static void node(struct fixture *f, const char *name, const char *resource, int count, int64_t now_ms)
{
    json_t *n = json_pack("{s:{s:s}, s:{s:{s:s, s:s, s:i}}}", "metadata", "name", name, "status", "allocatable", "cpu", "8",
                          "memory", "32Gi", resource, count);

    assert_int_equal(pl_node_capacity_node(f->offer, n, now_ms, NULL), 0);
    json_decref(n);
}

static bool offers(const struct fixture *f, const char *resource, int64_t count)
{
    const struct pl_node_capacity_request request = {.n = 1, .extended = {{resource, count}}};
    char why[PL_NODE_CAPACITY_WHY_BYTES];

    return pl_node_capacity_has(f->offer, &request, why);
}

static void put(const struct fixture *f, const char *text)
{
    assert_int_equal(pl_io_write_file(f->path, text, strlen(text), 0600, NULL), 0);
}

/* Where the log goes meanwhile, and what it says; the caller's. */
static int log_from(const struct fixture *f)
{
    int kept = dup(2);

    assert_non_null(freopen(f->log, "w", stderr));
    return kept;
}

static char *log_until(const struct fixture *f, int kept)
{
    struct pl_buf text = {0};

    (void)fflush(stderr);
    assert_int_equal(dup2(kept, 2), 2);
    close(kept);
    assert_int_equal(pl_io_read_file(f->log, &text, NULL), 0);
    assert_int_equal(pl_buf_add(&text, "", 1, NULL), 0);
    return (char *)text.data;
}

static unsigned lines(const char *text)
{
    unsigned n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void nodes_of_the_last_life_are_still_known(void **state)
{
    struct fixture *f = *state;
    struct stat st;

    begin_life(f, NOW);
    assert_true(offers(f, "nvidia.com/gpu", 8)); /* nothing is known */
    node(f, "c", "example.com/x", 1, NOW);
    node(f, "g", "nvidia.com/gpu", 8, NOW);
    pl_node_capacity_node_gone(f->offer, "g", NOW);
    end_life(f, NOW);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    begin_life(f, NOW + 29 * DAY);
    assert_true(offers(f, "nvidia.com/gpu", 8));
    assert_false(offers(f, "nvidia.com/gpu", 9));
    assert_false(offers(f, "amd.com/gpu", 1));
    end_life(f, NOW + 29 * DAY);
}

static void what_was_not_seen_for_thirty_days_is_known_no_more(void **state)
{
    struct fixture *f = *state;

    begin_life(f, NOW);
    node(f, "c", "example.com/x", 1, NOW);
    node(f, "g", "nvidia.com/gpu", 8, NOW);
    pl_node_capacity_node_gone(f->offer, "g", NOW);
    pl_node_history_keep(f->seen, f->offer, NOW + 31 * DAY); /* c is there still */
    assert_false(offers(f, "nvidia.com/gpu", 8));
    end_life(f, NOW + 31 * DAY);
    begin_life(f, NOW + 60 * DAY);
    assert_true(offers(f, "example.com/x", 1));
    assert_false(offers(f, "nvidia.com/gpu", 8));
    end_life(f, NOW + 60 * DAY);
    begin_life(f, NOW + 92 * DAY);
    assert_true(offers(f, "nvidia.com/gpu", 8)); /* nothing is known again */
    end_life(f, NOW + 92 * DAY);
}

/* By the end of its life the daemon has seen what is there, whenever the cluster spoke of it last. */
static void a_node_that_is_there_is_seen_all_the_time(void **state)
{
    struct fixture *f = *state;

    begin_life(f, NOW);
    node(f, "g", "nvidia.com/gpu", 8, NOW);
    node(f, "c", "example.com/x", 1, NOW);
    end_life(f, NOW + 100 * DAY);
    begin_life(f, NOW + 101 * DAY);
    assert_true(offers(f, "nvidia.com/gpu", 8));
    assert_false(offers(f, "amd.com/gpu", 1));
    end_life(f, NOW + 101 * DAY);
}

static void a_clock_that_went_back_makes_nothing_stay_for_ever(void **state)
{
    struct fixture *f = *state;

    begin_life(f, NOW + 1000 * DAY);
    node(f, "g", "nvidia.com/gpu", 8, NOW + 1000 * DAY);
    end_life(f, NOW + 1000 * DAY);
    begin_life(f, NOW);
    node(f, "c", "example.com/x", 1, NOW);
    assert_true(offers(f, "nvidia.com/gpu", 8));
    pl_node_history_keep(f->seen, f->offer, NOW + 31 * DAY);
    assert_false(offers(f, "nvidia.com/gpu", 8));
    end_life(f, NOW + 31 * DAY);
}

/* The writer has a thread of its own: what it did is known at the end of a life. */
static uint64_t writes_of(struct fixture *f, int64_t now_ms)
{
    const uint64_t before = pl_io_calls(PL_IO_RENAME);

    begin_life(f, now_ms);
    node(f, "g", "nvidia.com/gpu", 8, now_ms);
    pl_node_history_keep(f->seen, f->offer, now_ms);
    end_life(f, now_ms);
    return pl_io_calls(PL_IO_RENAME) - before;
}

static void it_is_written_when_there_is_something_new_and_each_hour(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(writes_of(f, NOW), 1);
    assert_int_equal(writes_of(f, NOW + PL_NODE_HISTORY_HOUR_MS - 1), 0);
    assert_int_equal(writes_of(f, NOW + PL_NODE_HISTORY_HOUR_MS), 1);
}

#define FILE_OF(shapes) "{\"version\": 1, \"server\": \"" SERVER "\", \"shapes\": " shapes "}"
#define GOOD            "{\"cpu\": \"8\", \"memory\": \"32Gi\", \"resources\": {\"nvidia.com/gpu\": 8}, \"seen_ms\": 1728000000000}"

static void a_file_that_is_no_good_is_said_once_and_made_anew(void **state)
{
    static const struct {
        const char *text, *says;
        bool some; /* of its shapes are taken */
    } cases[] = {
        {"", "1:0: '[' or '{' expected near end of file"},
        {"{\"version\": 1, \"shapes\": [", "1:"},
        {"[]", "it is not {\"version\": 1, "},
        {"{\"version\": 2, \"server\": \"" SERVER "\", \"shapes\": []}", "it is not {\"version\": 1, "},
        {FILE_OF("{}"), "it is not {\"version\": 1, "},
        {"{\"version\": 1, \"server\": \"https://other.example\", \"shapes\": [" GOOD "]}",
         "it belongs to another cluster: https://other.example"},
        {FILE_OF("[" GOOD ", {\"cpu\": \"8\", \"memory\": \"32Gi\", \"resources\": {\"x/y\": 8}}]"),
         "shapes[1]: a shape without \"seen_ms\"", true},
        {FILE_OF("[7, " GOOD "]"), "shapes[0]: a shape without \"seen_ms\"", true},
        {FILE_OF("[{\"cpu\": -1, \"seen_ms\": 1}, " GOOD "]"), "shapes[0]: a node shape needs a \"cpu\"", true},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        int kept = log_from(f);
        char *log;

        put(f, cases[i].text);
        begin_life(f, NOW);
        node(f, "c", "example.com/x", 1, NOW);
        if (offers(f, "nvidia.com/gpu", 8) != cases[i].some || offers(f, "x/y", 1))
            fail_msg("%s", cases[i].text);
        end_life(f, NOW);
        begin_life(f, NOW);
        assert_true(offers(f, "example.com/x", 1));
        end_life(f, NOW);
        log = log_until(f, kept);
        if (lines(log) != 1 || !strstr(log, cases[i].says) || !strstr(log, "nodes.json: ") ||
            !strstr(log, ": the file will be rewritten"))
            fail_msg("%s\nsays: %s", cases[i].text, log);
        free(log);
    }
}

/* Until the disk was asked so many times more. */
static void keep_until_asked(struct fixture *f, uint64_t times)
{
    const uint64_t from = pl_io_calls(PL_IO_WRITE);

    while (pl_io_calls(PL_IO_WRITE) < from + times) {
        pl_node_history_keep(f->seen, f->offer, NOW);
        (void)sched_yield();
    }
}

static void a_disk_that_refuses_it_is_said_once_and_asked_again(void **state)
{
    struct fixture *f = *state;
    int kept = log_from(f);
    char *log;

    begin_life(f, NOW);
    node(f, "g", "nvidia.com/gpu", 8, NOW);
    node(f, "c", "example.com/x", 1, NOW);
    pl_io_fail_nth(PL_IO_WRITE, 1, ENOSPC);
    pl_io_fail_on(PL_IO_WRITE, true);
    keep_until_asked(f, 3);
    assert_int_equal(access(f->path, F_OK), -1);
    pl_io_fail_nth(PL_IO_WRITE, 0, 0);
    end_life(f, NOW);
    log = log_until(f, kept);
    if (lines(log) != 1 || !strstr(log, "No space left on device; retrying every minute"))
        fail_msg("%s", log);
    free(log);
    begin_life(f, NOW);
    assert_true(offers(f, "nvidia.com/gpu", 8));
    assert_false(offers(f, "amd.com/gpu", 1));
    end_life(f, NOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_of_the_last_life_are_still_known, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_not_seen_for_thirty_days_is_known_no_more, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_that_is_there_is_seen_all_the_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clock_that_went_back_makes_nothing_stay_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_written_when_there_is_something_new_and_each_hour, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_no_good_is_said_once_and_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(a_disk_that_refuses_it_is_said_once_and_asked_again, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
