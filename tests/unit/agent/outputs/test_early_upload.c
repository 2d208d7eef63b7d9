// link: pipelined/agent/inputs pipelined/agent/outputs storage/dataset/ingest storage/object storage/store storage/system storage/tree_edit
/* Output files read while the command runs: only what cannot have changed since counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/outputs/early_upload.h"
#include "pipelined/agent/outputs/file_writers.h"
#include "storage/tree_edit/tree_ops.h"
#include "tests/support/fixtures/swap_fixture.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define BIG (6u << 20) /* more than one batch of a session */

struct world {
    struct agent_files *files;
    struct pl_early *early;
    struct pl_agent_protocol_datum row, next_row;
    int out_fd;
    atomic_bool stopping;
    bool forgetful;                        /* the daemon says of nothing that it has it */
    void (*while_reading)(struct world *); /* at the first question of a session, which comes when a file was partly read */
    unsigned asked;
};

static char *big;

static int has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    struct world *w = self;
    const struct pl_pack_sink sink = pl_store_sink(w->files->store);
    void (*then)(struct world *) = w->while_reading;

    w->asked++;
    w->while_reading = NULL;
    if (then)
        then(w);
    return w->forgetful ? 0 : sink.has(sink.self, ids, n, ret_bitmap, err);
}

static int put_pack(void *self, const struct pl_hash *id, const void *bytes, size_t n, struct pl_err *err)
{
    struct world *w = self;
    const struct pl_pack_sink sink = pl_store_sink(w->files->store);

    return sink.put_pack(sink.self, id, bytes, n, err);
}

static void create(struct world *w, int64_t still_ms)
{
    const struct pl_early_upload_config config = {.work = w->files->work,
                                                  .out_fd = w->out_fd,
                                                  .still_ms = still_ms,
                                                  .sink = {.self = w, .has = has, .put_pack = put_pack},
                                                  .project = "default",
                                                  .stopping = &w->stopping};

    pl_early_upload_destroy(w->early);
    assert_int_equal(pl_early_upload_create(&config, &w->early, NULL), 0);
    pl_early_upload_begin(w->early, &w->row);
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    *state = w;
    w->files = agent_files_create(true);
    w->out_fd = open(w->files->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(w->out_fd >= 0);
    big = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)(i * 2654435761u >> 13);
    create(w, 0);
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    pl_early_upload_destroy(w->early);
    close(w->out_fd);
    agent_files_destroy(w->files);
    free(big);
    free(w);
    return 0;
}

static void put(struct world *w, const char *path, size_t n)
{
    agent_files_write(w->files->out, path, big, n, 0644);
}

static const char *in_out(struct world *w, const char *path)
{
    static char whole[512];

    snprintf(whole, sizeof(whole), "%s/%s", w->files->out, path);
    return whole;
}

static bool end_and_take(struct world *w)
{
    pl_early_upload_end(w->early, &w->row, true);
    return pl_early_upload_take(w->early, &w->row);
}

/* After a tick of the clock that times are taken from. */
static void a_tick_later(void)
{
    struct timespec start, now;

    clock_gettime(CLOCK_REALTIME_COARSE, &start);
    do
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    while (now.tv_sec == start.tv_sec && now.tv_nsec == start.tv_nsec);
}

/* Where the file system does not tell of writers nothing counts, and what follows says nothing. */
static void needs_telling(struct world *w)
{
    if (!pl_file_writers_are_supported(w->files->work))
        skip();
}

/* --- writers --- */

static void who_has_a_file_open_for_writing_or_mapped_is_seen(void **state)
{
    struct world *w = *state;
    int reader, writer;
    void *map;

    needs_telling(w);
    put(w, "a", 5000);
    reader = open(in_out(w, "a"), O_RDONLY | O_CLOEXEC);
    assert_true(pl_file_writers_is_none(reader));
    writer = open(in_out(w, "a"), O_RDWR | O_CLOEXEC);
    assert_false(pl_file_writers_is_none(reader));
    map = mmap(NULL, 5000, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
    close(writer);
    assert_false(pl_file_writers_is_none(reader)); /* mapped still */
    munmap(map, 5000);
    assert_true(pl_file_writers_is_none(reader));
    close(reader);
}

static void a_file_system_in_memory_does_not_tell(void **state)
{
    char folder[] = "/dev/shm/pl-test-writers-XXXXXX";

    (void)state;
    if (!mkdtemp(folder))
        skip();
    assert_false(pl_file_writers_are_supported(folder));
    assert_int_equal(rmdir(folder), 0); /* nothing is left there */
}

/* --- what counts --- */

static void a_file_left_alone_is_read_while_the_command_runs(void **state)
{
    struct world *w = *state;
    const struct pl_entry *entry;
    struct pl_hash id;

    needs_telling(w);
    put(w, "d/small", 5000);
    put(w, "large", BIG);
    pl_early_upload_scan(w->early);
    pl_hash_sha256(big, 5000, &id);
    assert_true(pl_store_has(w->files->store, &id)); /* now, not at the end */
    assert_true(end_and_take(w));
    entry = pl_early_upload_find(w->early, "d/small");
    assert_non_null(entry);
    assert_int_equal(entry->size, 5000);
    assert_int_equal(entry->kind, PL_KIND_FILE);
    assert_true(pl_hash_eq(&entry->id, &id));
    assert_int_equal(pl_early_upload_find(w->early, "large")->size, BIG);
    assert_null(pl_early_upload_find(w->early, "d"));
    assert_null(pl_early_upload_find(w->early, "e"));
    (void)pl_early_upload_release(w->early, &w->row);
    assert_false(pl_early_upload_take(w->early, &w->row));
}

static void an_entry_found_early_is_the_outputs(void **state)
{
    struct world *w = *state;
    struct pl_outputs_request request = {.out = w->files->out,
                                         .pfs = "/pfs",
                                         .refs = &w->files->refs,
                                         .row = &w->row,
                                         .store = &w->files->outputs,
                                         .early = w->early};
    struct pl_agent_protocol_outcome outcome = {0};
    struct pl_tree_op *ops;
    struct pl_hash id;
    size_t n;

    needs_telling(w);
    put(w, "a", 5000);
    put(w, "tool", 5000);
    assert_int_equal(chmod(in_out(w, "tool"), 0755), 0);
    pl_early_upload_scan(w->early);
    put(w, "b", 5000);
    assert_true(end_and_take(w));
    put(w, "a", 4000); /* nobody does: it shows that the file is not read again */
    put(w, "b", 3000);
    assert_int_equal(pl_outputs_capture(&request, &outcome, NULL), 0);
    assert_int_equal(pl_tree_ops_read(outcome.ops, outcome.ops_len, &ops, &n, NULL), 0);
    assert_int_equal(n, 3);
    pl_hash_sha256(big, 5000, &id);
    assert_true(ops[0].entry.size == 5000 && pl_hash_eq(&ops[0].entry.id, &id));
    assert_int_equal(ops[1].entry.size, 3000);
    assert_int_equal(ops[2].entry.kind, PL_KIND_EXEC);
    assert_int_equal(outcome.bytes_out, 13000);
    free(ops);
    pl_agent_protocol_outcome_finish(&outcome);
}

static void many_files_are_read_but_for_those_found_early(void **state)
{
    struct world *w = *state;
    struct pl_outputs_request request = {.out = w->files->out,
                                         .pfs = "/pfs",
                                         .refs = &w->files->refs,
                                         .row = &w->row,
                                         .store = &w->files->outputs,
                                         .early = w->early};
    struct pl_agent_protocol_outcome outcome = {0};
    struct pl_tree_op *ops;
    size_t n;
    char name[32];

    needs_telling(w);
    put(w, "early", 5000);
    pl_early_upload_scan(w->early);
    for (unsigned i = 0; i <= PL_OUTPUTS_FEW; i++) {
        snprintf(name, sizeof(name), "l%02u", i);
        put(w, name, 1 + i % 10);
    }
    assert_true(end_and_take(w));
    put(w, "early", 4000);
    assert_int_equal(pl_outputs_capture(&request, &outcome, NULL), 0);
    assert_int_equal(pl_tree_ops_read(outcome.ops, outcome.ops_len, &ops, &n, NULL), 0);
    assert_int_equal(n, PL_OUTPUTS_FEW + 2);
    assert_int_equal(ops[0].entry.size, 5000);
    assert_int_equal(ops[n - 1].entry.size, 1 + PL_OUTPUTS_FEW % 10);
    free(ops);
    pl_agent_protocol_outcome_finish(&outcome);
}

/* --- what does not --- */

static void write_same_size(struct world *w)
{
    struct stat st;
    int fd = open(in_out(w, "a"), O_WRONLY | O_CLOEXEC);

    assert_int_equal(fstat(fd, &st), 0);
    a_tick_later();
    assert_int_equal(pwrite(fd, "other", 5, 100), 5);
    assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0); /* as if nothing had been */
    close(fd);
}

static void write_mapped(struct world *w)
{
    int fd = open(in_out(w, "a"), O_RDWR | O_CLOEXEC);
    char *map = mmap(NULL, 5000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    a_tick_later();
    map[100] = 'y';
    munmap(map, 5000);
}

static void put_another_in_its_place(struct world *w)
{
    char from[600];

    snprintf(from, sizeof(from), "%s/new", w->files->dir);
    agent_files_write(w->files->dir, "new", big + 7, 5000, 0644);
    assert_int_equal(rename(from, in_out(w, "a")), 0);
}

static void take_it_away(struct world *w)
{
    assert_int_equal(unlink(in_out(w, "a")), 0);
}

static void make_it_a_program(struct world *w)
{
    a_tick_later();
    assert_int_equal(chmod(in_out(w, "a"), 0755), 0);
}

static void what_was_changed_after_it_was_read_does_not_count(void **state)
{
    void (*const changes[])(struct world *) = {write_same_size, write_mapped, put_another_in_its_place, take_it_away,
                                               make_it_a_program};
    struct world *w = *state;

    needs_telling(w);
    for (size_t i = 0; i < PL_ARRAY_SIZE(changes); i++) {
        put(w, "a", 5000);
        put(w, "b", 5000);
        pl_early_upload_begin(w->early, &w->row);
        pl_early_upload_scan(w->early);
        changes[i](w);
        assert_true(end_and_take(w));
        assert_null(pl_early_upload_find(w->early, "a"));
        assert_non_null(pl_early_upload_find(w->early, "b"));
        (void)pl_early_upload_release(w->early, &w->row);
    }
}

static void what_is_being_written_is_not_read(void **state)
{
    struct world *w = *state;
    int fd;

    needs_telling(w);
    put(w, "a", 5000);
    fd = open(in_out(w, "a"), O_WRONLY | O_CLOEXEC);
    pl_early_upload_scan(w->early);
    assert_int_equal(w->asked, 0);
    close(fd);
    pl_early_upload_scan(w->early);
    assert_int_equal(w->asked, 1);
    assert_true(end_and_take(w));
}

static void what_changed_just_now_is_not_read(void **state)
{
    struct world *w = *state;

    create(w, 3600 * 1000);
    put(w, "a", 5000);
    pl_early_upload_scan(w->early);
    assert_int_equal(w->asked, 0);
    assert_false(end_and_take(w));
}

static void a_file_that_changed_after_it_was_read_is_not_read_early_again(void **state)
{
    struct world *w = *state;

    put(w, "a", 5000);
    pl_early_upload_scan(w->early);
    assert_int_equal(w->asked, 1);
    write_same_size(w);
    pl_early_upload_scan(w->early);
    pl_early_upload_scan(w->early);
    assert_int_equal(w->asked, 1);
    assert_false(end_and_take(w));
}

static void metrics_links_and_what_the_tree_holds_itself_are_not_read(void **state)
{
    struct world *w = *state;

    put(w, "metrics.jsonl", 5000);
    put(w, "small", PL_INLINE_MAX_BYTES);
    agent_files_write(w->files->dir, "outside/file", big, 5000, 0644);
    assert_int_equal(symlink("../../../outside/file", in_out(w, "file")), 0);
    assert_int_equal(symlink("../../../outside", in_out(w, "folder")), 0);
    assert_int_equal(mkfifo(in_out(w, "fifo"), 0644), 0);
    pl_early_upload_scan(w->early);
    assert_int_equal(w->asked, 0);
}

static void a_folder_that_may_not_be_read_is_left_to_the_end(void **state)
{
    struct world *w = *state;

    put(w, "d/a", 5000);
    assert_int_equal(chmod(in_out(w, "d"), 0), 0);
    pl_early_upload_scan(w->early);
    assert_int_equal(w->asked, geteuid() == 0); /* who may read anything does */
    assert_int_equal(chmod(in_out(w, "d"), 0755), 0);
}

static void chunks_that_the_daemon_has_no_more_do_not_count(void **state)
{
    struct world *w = *state;

    needs_telling(w);
    put(w, "a", 5000);
    pl_early_upload_scan(w->early);
    w->forgetful = true;
    assert_false(end_and_take(w));
}

static void another_rows_output_is_not_taken_for_this_ones(void **state)
{
    struct world *w = *state;

    put(w, "a", 5000);
    pl_early_upload_scan(w->early);
    pl_early_upload_end(w->early, &w->row, true);
    pl_early_upload_begin(w->early, &w->next_row);
    pl_early_upload_scan(w->early);
    assert_false(pl_early_upload_take(w->early, &w->row));
}

/* --- the command ends while its output is read --- */

static void end_kept(struct world *w)
{
    pl_early_upload_end(w->early, &w->row, true);
}

static void end_unwanted(struct world *w)
{
    pl_early_upload_end(w->early, &w->row, false);
}

static void write_and_end(struct world *w)
{
    write_same_size(w);
    pl_early_upload_end(w->early, &w->row, true);
}

static void a_command_may_end_while_its_output_is_read(void **state)
{
    const struct {
        void (*happens)(struct world *);
        bool counts;
    } cases[] = {{end_kept, true}, {write_and_end, false}, {end_unwanted, false}};
    struct world *w = *state;

    needs_telling(w);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        big[1] = (char)i; /* of each another content: all of it is asked for */
        put(w, "a", BIG);
        put(w, "b", 5000 + i);
        pl_early_upload_begin(w->early, &w->row);
        w->while_reading = cases[i].happens;
        pl_early_upload_scan(w->early);
        assert_null(w->while_reading);
        assert_int_equal(pl_early_upload_take(w->early, &w->row), cases[i].counts);
        if (cases[i].counts)
            assert_non_null(pl_early_upload_find(w->early, "a"));
        if (cases[i].counts)
            assert_null(pl_early_upload_find(w->early, "b")); /* not begun: the end has come */
        (void)pl_early_upload_release(w->early, &w->row);
    }
}

static void an_agent_that_stops_reads_no_more(void **state)
{
    struct world *w = *state;

    put(w, "a", BIG);
    atomic_store(&w->stopping, true);
    pl_early_upload_scan(w->early);
    assert_int_equal(w->asked, 0);
    assert_false(end_and_take(w));
}

/* The command swaps what is scanned and read for links that lead outside: nothing of that is read, and no mode is changed there. */
static void nothing_outside_is_read_for_a_command_that_swaps(void **state)
{
    struct world *w = *state;
    unsigned good = 0;
    struct swapper s = {.seed = 29};

    needs_telling(w);
    swapper_start(&s, w->files->out, w->files->dir, 3);
    for (unsigned i = 0; swapper_goes_on(&s, 3 * i); i++) {
        pl_early_upload_scan(w->early);
        if (end_and_take(w)) {
            const struct pl_entry *moved = pl_early_upload_find(w->early, "d/inner/f");

            good += pl_early_upload_find(w->early, "d/inner/more-000") != NULL;
            assert_true(!moved || moved->size == 3);
            assert_null(pl_early_upload_find(w->early, "d/inner/secret"));
            assert_null(pl_early_upload_find(w->early, "d/inner/other/secret"));
        }
        (void)pl_early_upload_release(w->early, &w->row);
        pl_early_upload_begin(w->early, &w->row);
    }
    swapper_stop(&s);
    assert_true(good > 0);
    assert_false(pl_store_has(w->files->store, &s.secret_id));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(who_has_a_file_open_for_writing_or_mapped_is_seen),
        CASE(a_file_system_in_memory_does_not_tell),
        CASE(a_file_left_alone_is_read_while_the_command_runs),
        CASE(an_entry_found_early_is_the_outputs),
        CASE(many_files_are_read_but_for_those_found_early),
        CASE(what_was_changed_after_it_was_read_does_not_count),
        CASE(what_is_being_written_is_not_read),
        CASE(what_changed_just_now_is_not_read),
        CASE(a_file_that_changed_after_it_was_read_is_not_read_early_again),
        CASE(metrics_links_and_what_the_tree_holds_itself_are_not_read),
        CASE(a_folder_that_may_not_be_read_is_left_to_the_end),
        CASE(chunks_that_the_daemon_has_no_more_do_not_count),
        CASE(another_rows_output_is_not_taken_for_this_ones),
        CASE(a_command_may_end_while_its_output_is_read),
        CASE(an_agent_that_stops_reads_no_more),
        CASE(nothing_outside_is_read_for_a_command_that_swaps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
