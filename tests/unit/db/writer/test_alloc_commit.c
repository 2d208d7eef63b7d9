// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Memory that runs out at any allocation of any step of the workload of db_world.h, in the caller, the writer and SQLite: the step
 * fails with PL_ENOMEM and leaves everything as it was, or the database gives up and its next start knows; the next try succeeds. */
#include "tests/support/faults/alloc_jansson.h"

#include "tests/support/fixtures/db_world.h"

/* A database is opened anew many times: what the sanitizer keeps of freed memory, and fills, would be most of the time. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:malloc_context_size=12:max_malloc_fill_size=0:allocator_release_to_os_interval_ms=-1";
}

#define CHECK_EVERY 1 /* failures between two looks at the whole state */

struct sweep {
    struct world w;
    char *expected[STEPS + 1]; /* the model after so many steps */
    uint64_t next[STEPS];      /* allocation at which to fail the step first; beyond it has succeeded */
    uint64_t stride;
    bool lasting;
    unsigned failures, given_up;
};

static int setup(void **state)
{
    struct sweep *s = calloc(1, sizeof *s);

    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    for (size_t i = 0; i <= STEPS; i++)
        s->expected[i] = model_after(i);
    s->w.dir = fixture_dir();
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct sweep *s = *state;

    alloc_fail_end();
    world_close(&s->w);
    fixture_remove(s->w.dir);
    for (size_t i = 0; i <= STEPS; i++)
        free(s->expected[i]);
    free(s);
    return 0;
}

static bool is_state(struct sweep *s, size_t steps)
{
    char *state = world_state(&s->w);
    bool same = pl_streq(state, s->expected[steps]);

    if (!same)
        print_error("--- wanted\n%s--- got\n%s", s->expected[steps], state);
    free(state);
    return same;
}

/* One call of the product with the nth allocation failing; whether one did. */
static bool with_fault(struct sweep *s, uint64_t n, int (*call)(struct sweep *s, size_t i, struct pl_err *err), size_t i,
                       int *ret, struct pl_err *err)
{
    alloc_fail_nth(n, s->lasting);
    alloc_spared = false;
    *ret = call(s, i, err);
    alloc_spared = true;
    return alloc_fail_end();
}

static int do_open(struct sweep *s, size_t i, struct pl_err *err)
{
    (void)i;
    return world_open(&s->w, "data", err);
}

static int do_step(struct sweep *s, size_t i, struct pl_err *err)
{
    return world_step(&s->w, i, err);
}

static void open_world(struct sweep *s)
{
    struct pl_err err = {0};

    assert_ok(world_open(&s->w, "data", &err), &err);
}

static void start_over(struct sweep *s)
{
    world_close(&s->w);
    assert_int_equal(pl_io_remove_tree(s->w.dir, NULL), 0);
    assert_int_equal(mkdir(s->w.dir, 0700), 0);
}

/* Opens with every `stride`th allocation failing; `begin` prepares each try. */
static void sweep_open(struct sweep *s, void (*begin)(struct sweep *s), size_t steps, uint64_t stride)
{
    bool hit = true;
    int r;

    for (uint64_t n = 1; hit; n += stride) {
        struct pl_err err = {0};

        begin(s);
        hit = with_fault(s, n, do_open, 0, &r, &err);
        if (r < 0 && (!hit || r != PL_ENOMEM || !*err.msg))
            fail_msg("opening, allocation %llu: %d: %s", (unsigned long long)n, r, err.msg);
        if (r < 0)
            open_world(s);
        if (!is_state(s, steps))
            fail_msg("opened after allocation %llu failed, it is another state", (unsigned long long)n);
    }
}

static bool was_done(struct sweep *s, size_t steps)
{
    char *state = world_state(&s->w);
    bool same = pl_streq(state, s->expected[steps]);

    free(state);
    return same;
}

/* Step `i` has failed. Done in spite of it? */
static bool after_failure(struct sweep *s, size_t i, int r, const struct pl_err *err, uint64_t n)
{
    struct pl_err again = {0};

    if (s->w.fatal) { /* it cannot know whether the step is done; a start can */
        s->given_up++;
        if (world_step(&s->w, i, &again) != PL_ESTOPPING)
            fail_msg("step %zu, allocation %llu: it has given up and goes on", i, (unsigned long long)n);
        world_close(&s->w);
        assert_ok(world_open(&s->w, "data", &again), &again);
        if (was_done(s, i + 1))
            return true;
    } else if (r != PL_ENOMEM || !*err->msg) {
        fail_msg("step %zu, allocation %llu: %d: %s", i, (unsigned long long)n, r, err->msg);
    } else if (++s->failures % CHECK_EVERY != 0) {
        return false;
    }
    if (!is_state(s, i))
        fail_msg("step %zu, allocation %llu: it has failed and left something", i, (unsigned long long)n);
    return false;
}

/* Whether it was done without a failure. */
static bool sweep_step(struct sweep *s, size_t i)
{
    for (bool done = false; !done;) {
        struct pl_err err = {0};
        uint64_t n = s->next[i] += s->stride;
        bool hit;
        int r;

        hit = with_fault(s, n, do_step, i, &r, &err);
        if (r < 0 && !hit)
            fail_msg("step %zu: %d: %s", i, r, err.msg);
        if (r >= 0 && !hit)
            return true;
        done = r >= 0 || after_failure(s, i, r, &err, n);
    }
    return false;
}

/* A failure that a step survives ends its sweep: the next round goes on behind it, until all are done without one. */
static void sweep(struct sweep *s, bool lasting, uint64_t stride)
{
    bool whole = false;
    unsigned rounds;

    s->lasting = lasting;
    s->stride = stride;
    memset(s->next, 0, sizeof s->next);
    for (rounds = 0; !whole; rounds++) {
        whole = true;
        start_over(s);
        open_world(s);
        for (size_t i = 0; i < STEPS; i++) {
            whole = sweep_step(s, i) && whole;
            if (!is_state(s, i + 1))
                fail_msg("step %zu after %llu allocations has done something else", i, (unsigned long long)s->next[i]);
        }
        world_fsck(&s->w);
    }
    print_message("%u failures, %u times given up, %u rounds\n", s->failures, s->given_up, rounds);
    assert_true((s->failures + s->given_up) * s->stride > 200 * STEPS);
}

static void test_any_allocation_of_a_transaction(void **state)
{
    sweep(*state, false, 3);
}

static void test_no_memory_from_any_allocation_on(void **state)
{
    sweep(*state, true, 61);
}

static void close_it(struct sweep *s)
{
    world_close(&s->w);
}

/* The store has everything, this machine nothing: the log is replayed. */
static void forget_data(struct sweep *s)
{
    world_close(&s->w);
    assert_int_equal(pl_io_remove_tree(fixture_path(s->w.dir, "data"), NULL), 0);
}

static void do_workload(struct sweep *s)
{
    struct pl_err err = {0};

    open_world(s);
    for (size_t i = 0; i < STEPS; i++)
        assert_ok(world_step(&s->w, i, &err), &err);
}

static void test_opening_an_empty_folder(void **state)
{
    sweep_open(*state, start_over, 0, 29);
}

static void test_opening_again(void **state)
{
    do_workload(*state);
    sweep_open(*state, close_it, STEPS, 5);
}

static void test_replaying_the_log(void **state)
{
    struct sweep *s = *state;

    do_workload(s);
    s->lasting = true;
    sweep_open(s, forget_data, STEPS, 101);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_opening_an_empty_folder),
        T(test_opening_again),
        T(test_replaying_the_log),
        T(test_any_allocation_of_a_transaction),
        T(test_no_memory_from_any_allocation_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
