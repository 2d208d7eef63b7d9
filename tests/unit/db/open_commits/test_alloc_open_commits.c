// link: pipelined/db/open_commits pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Memory that runs out at any allocation of the workload of opens_world.h, in the caller, the writer of open commits, that of the database
 * and SQLite: the step fails with PL_ENOMEM and leaves everything as it was, or the database gives up and its next start knows; the next
 * try succeeds. */
#include "tests/support/faults/alloc_jansson.h"

#include "tests/unit/db/open_commits/open_commits_world.h"

#include "storage/system/log_line.h"

/* A database is opened anew many times: what the sanitizer keeps of freed memory, and fills, would be most of the time. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:malloc_context_size=12:max_malloc_fill_size=0:allocator_release_to_os_interval_ms=-1";
}

struct sweep {
    struct opens_world o;
    uint64_t next[OPEN_STEPS]; /* allocation at which to fail the step first; beyond it has succeeded */
    uint64_t stride;
    bool lasting;
    unsigned failures, given_up;
};

static int setup(void **state)
{
    struct sweep *s = calloc(1, sizeof *s);

    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    s->o.w.dir = fixture_dir();
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct sweep *s = *state;

    alloc_fail_end();
    opens_world_close(&s->o);
    fixture_remove(s->o.w.dir);
    free(s);
    return 0;
}

static void open_world(struct sweep *s)
{
    struct pl_err err = {0};

    assert_ok(opens_world_open(&s->o, &err), &err);
}

static bool is_state(struct sweep *s, size_t steps)
{
    char *state = opens_state(&s->o);
    bool same = pl_streq(state, opens_expected(steps));

    free(state);
    return same;
}

static void assert_state(struct sweep *s, size_t steps, uint64_t n, const char *what)
{
    char *state = opens_state(&s->o);

    if (!pl_streq(state, opens_expected(steps)))
        fail_msg("step %zu, allocation %llu: %s:\n--- wanted\n%s\n--- got\n%s", steps, (unsigned long long)n, what,
                 opens_expected(steps), state);
    free(state);
}

/* One step with the nth allocation failing; whether one did. */
static bool with_fault(struct sweep *s, uint64_t n, size_t i, int *ret, struct pl_err *err)
{
    alloc_fail_nth(n, s->lasting);
    alloc_spared = false;
    *ret = opens_step(&s->o, i, err);
    alloc_spared = true;
    return alloc_fail_end();
}

/* The database cannot know what is done; a start can. */
static void start_again(struct sweep *s)
{
    s->given_up++;
    opens_world_close(&s->o);
    open_world(s);
}

/* Step `i` has failed. Done in spite of it? */
static bool after_failure(struct sweep *s, size_t i, int r, const struct pl_err *err, uint64_t n)
{
    if (s->o.w.fatal) {
        start_again(s);
        if (is_state(s, i + 1))
            return true;
    } else if (r != PL_ENOMEM || !*err->msg) {
        fail_msg("step %zu, allocation %llu: %d: %s", i, (unsigned long long)n, r, err->msg);
    }
    s->failures++;
    assert_state(s, i, n, "it has failed and left something");
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

        hit = with_fault(s, n, i, &r, &err);
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
        opens_world_close(&s->o);
        assert_int_equal(pl_io_remove_tree(s->o.w.dir, NULL), 0);
        assert_int_equal(mkdir(s->o.w.dir, 0700), 0);
        open_world(s);
        for (size_t i = 0; i < OPEN_STEPS; i++) {
            whole = sweep_step(s, i) && whole;
            if (s->o.w.fatal) /* at the event that tells of it */
                start_again(s);
            assert_state(s, i + 1, s->next[i], "it has done something else");
        }
        /* what was answered is what the files say */
        opens_world_close(&s->o);
        open_world(s);
        assert_state(s, OPEN_STEPS, 0, "after a new start");
        world_fsck(&s->o.w);
    }
    print_message("%u failures, %u times given up, %u rounds\n", s->failures, s->given_up, rounds);
    assert_true((s->failures + s->given_up) * stride > 80 * OPEN_STEPS);
}

static void test_any_allocation_of_a_step(void **state)
{
    sweep(*state, false, 1);
}

static void test_no_memory_from_any_allocation_on(void **state)
{
    sweep(*state, true, 2);
}

/* ---- starting with open commits ---- */

static void test_a_start_with_open_commits(void **state)
{
    enum { STEPS_DONE = 9 }; /* one gathers, with records in its file */
    struct sweep *s = *state;
    struct pl_err err = {0};
    bool hit = true;

    open_world(s);
    for (size_t i = 0; i < STEPS_DONE; i++)
        assert_ok(opens_step(&s->o, i, &err), &err);
    for (uint64_t n = 1; hit; n += 3) {
        int r;

        opens_world_close(&s->o);
        alloc_fail_nth(n, n % 2);
        alloc_spared = false;
        r = opens_world_open(&s->o, &err);
        alloc_spared = true;
        hit = alloc_fail_end();
        if (r < 0 && (!hit || r != PL_ENOMEM || !*err.msg))
            fail_msg("starting, allocation %llu: %d: %s", (unsigned long long)n, r, err.msg);
        if (r < 0)
            open_world(s);
        assert_state(s, STEPS_DONE, n, "another state");
        assert_int_equal(opens_files(&s->o), 1);
    }
}

/* ---- the table of what is durable ---- */

/* Operations in folders "0" to "9", some on whole folders. */
static void draw_ops(uint64_t *seed, size_t n, struct pl_op_set *ret)
{
    const struct pl_entry entry = pl_entry_inline(PL_KIND_FILE, "x", 1);
    struct pl_err err = {0};
    char path[32];

    for (size_t i = 0; i < n; i++) {
        uint64_t draw = pl_splitmix64(seed);
        struct pl_tree_op op = {.op = draw % 7 ? PL_TREE_PUT : PL_TREE_DELETE, .path = path, .entry = entry};

        if (draw % 500 == 1)
            op.op = draw % 1000 == 1 ? PL_TREE_DELETE_PREFIX : PL_TREE_REPLACE;
        op.path_len = (size_t)snprintf(path, sizeof path, draw % 500 == 1 ? "%u" : "%u/%u", (unsigned)(draw >> 16) % 10,
                                       (unsigned)(draw >> 32) % 3000);
        assert_ok(pl_op_set_add(ret, &op, &err), &err);
    }
}

static void assert_same_table(const struct pl_op_set *a, const struct pl_op_set *b)
{
    struct pl_buf x = {0}, y = {0};
    struct pl_err err = {0};

    assert_ok(pl_op_set_write(a, &x, &err), &err);
    assert_ok(pl_op_set_write(b, &y, &err), &err);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->clearing, b->clearing);
    pl_buf_finish(&x);
    pl_buf_finish(&y);
}

static void test_taking_needs_no_memory_and_does_what_merging_does(void **state)
{
    struct pl_err err = {0};

    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        struct pl_op_set a = {0}, b = {0}, from = {0};
        uint64_t seed = i, size = pl_splitmix64(&seed), more = pl_splitmix64(&seed), again = seed;

        draw_ops(&seed, size % 4000, &a);
        draw_ops(&again, size % 4000, &b);
        draw_ops(&seed, 1 + more % (i % 2 ? 3000 : 10), &from);
        assert_ok(pl_op_set_merge(&b, &from, &err), &err);
        assert_ok(pl_op_set_reserve(&a, &from, &err), &err);
        alloc_fail_nth(1, true);
        alloc_spared = false;
        pl_op_set_take(&a, &from);
        alloc_spared = true;
        assert_false(alloc_fail_end());
        assert_same_table(&a, &b);
        assert_int_equal(from.n, 0);
        pl_op_set_finish(&a);
        pl_op_set_finish(&b);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_any_allocation_of_a_step),
        T(test_no_memory_from_any_allocation_on),
        T(test_a_start_with_open_commits),
        cmocka_unit_test(test_taking_needs_no_memory_and_does_what_merging_does),
    };

    pl_log_init("test", PL_LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
