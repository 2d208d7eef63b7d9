// link: pipelined/db/open_commits pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Open commits under many threads at once: those who put into what gathers, who reads it, who packs it, who finishes it, and who starts,
 * finishes and drops others on the same repo. What was answered is in the head at the end. For the thread sanitizer too. */
#include "tests/unit/db/open_commits/open_commits_world.h"

#include <stdatomic.h>

#define PUTTERS 3
#define PUTS    200
#define PATHS   12 /* of each */

static struct opens_world world;
static _Atomic int left; /* putters that have not ended */
static struct pl_open_commit_args gathered = {.project = "default", .repo = "digits", .branch = "master"};

/* What must not fail, in any thread: cmocka's own assertions are for the main one. */
static void must(int r, const struct pl_err *err)
{
    if (r >= 0)
        return;
    print_error("%d: %s\n", r, err->msg);
    abort();
}

struct putter {
    unsigned number;
    char last[PATHS]; /* letter of each path, 0 = none */
};

/* Into whatever gathers at the moment: it may be finished under our hands. */
static void put_gathered(const char *puts, char letter)
{
    struct pl_err err = {0};
    int r = PL_ERETRY;

    while (r == PL_ERETRY) {
        _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;

        r = pl_open_commits_gather(world.opens, &gathered, PL_REPO_COMMIT_WINDOW_MAX_MS, &c, &err);
        r = r < 0 ? r : open_put(c, puts, letter, &err);
    }
    must(r, &err);
}

static void *putter_main(void *arg)
{
    struct putter *p = arg;
    uint64_t seed = p->number;
    char puts[64];

    for (int i = 0; i < PUTS; i++) {
        uint64_t draw = pl_splitmix64(&seed);
        unsigned path = (unsigned)(draw % PATHS);
        bool gone = draw % 5 == 0;

        snprintf(puts, sizeof puts, gone ? "-p%u/%u" : "+p%u/%u:%u", p->number, path, draw % 2 ? 20 : 2000);
        p->last[path] = gone ? 0 : (char)('a' + i % 26);
        put_gathered(puts, (char)('a' + i % 26));
    }
    left--;
    return NULL;
}

static int look_at(void *self, struct pl_open_commit *c)
{
    _cleanup_(pl_open_commit_view_finish) struct pl_open_commit_view view = {0};
    const struct pl_chunk_reader reader = pl_open_commit_reader(c);
    struct pl_open_commit_info info;
    struct pl_buf text = {0};
    struct pl_err err = {0};

    (void)self;
    pl_open_commit_info(c, &info);
    must(pl_open_commit_view_init(c, &view, &err), &err);
    opens_describe(&view.source, &view.root, &reader, &text);
    pl_buf_finish(&text);
    return 0;
}

static void *reader_main(void *arg)
{
    struct pl_err err = {0};

    (void)arg;
    while (left) {
        must(pl_open_commits_each(world.opens, "default", "digits", look_at, NULL), &err);
        (void)pl_open_commits_has(world.opens, NULL, "0123");
    }
    return NULL;
}

static int pack_it(void *self, struct pl_open_commit *c)
{
    struct pl_hash root;
    struct pl_err err = {0};

    (void)self;
    must(pl_open_commit_pack(c, &root, &err), &err);
    return 0;
}

static void *packer_main(void *arg)
{
    struct pl_err err = {0};

    (void)arg;
    while (left)
        must(pl_open_commits_each(world.opens, "default", "digits", pack_it, NULL), &err);
    return NULL;
}

static void *finisher_main(void *arg)
{
    struct pl_err err = {0};

    (void)arg;
    while (left)
        must(pl_open_commits_flush(world.opens, "default", "digits", "master", &err), &err);
    return NULL;
}

/* Others' commits of the same repo, on a branch of their own. */
static void *starter_main(void *arg)
{
    const struct pl_open_commit_args args = {.project = "default", .repo = "digits", .branch = "other"};

    (void)arg;
    for (int i = 0; left; i++) {
        struct pl_push_result pushed;
        struct pl_open_commit *c;
        struct pl_err err = {0};

        must(pl_open_commits_start(world.opens, &args, &c, &err), &err);
        must(open_put(c, "+q:2000 +r:3", (char)('a' + i % 26), &err), &err);
        must(i % 2 ? pl_open_commit_finish(c, "", &pushed, &err) : pl_open_commit_abort(c, "not wanted", &err), &err);
        pl_open_commit_unref(c);
    }
    return NULL;
}

/* The head's files of each putter are its last ones. */
static void check_head(const struct putter *putters)
{
    char *state, want[32];
    size_t files = 0, found = 0;

    state = opens_state(&world);
    for (unsigned n = 0; n < PUTTERS; n++) {
        for (unsigned path = 0; path < PATHS; path++) {
            const char *at;

            snprintf(want, sizeof want, " p%u/%u:", n, path);
            at = strstr(state, want);
            if (!putters[n].last[path]) {
                assert_null(at);
                continue;
            }
            assert_non_null(at);
            assert_int_equal(*(strpbrk(at + 1, " ;") - 1), putters[n].last[path]);
            files++;
        }
    }
    for (const char *at = state; (at = strchr(at, ':')); at += 2, found++)
        at = strchr(at + 1, ':');
    assert_int_equal(found, files);
    free(state);
}

static void test_puts_reads_packs_and_ends_at_once(void **state)
{
    static void *(*const mains[])(void *) = {reader_main, packer_main, finisher_main, starter_main};
    pthread_t threads[PUTTERS + PL_ARRAY_SIZE(mains)];
    struct putter putters[PUTTERS] = {0};
    struct pl_err err = {0};

    (void)state;
    left = PUTTERS;
    for (unsigned i = 0; i < PUTTERS; i++) {
        putters[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, putter_main, &putters[i]), 0);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(mains); i++)
        assert_int_equal(pthread_create(&threads[PUTTERS + i], NULL, mains[i], NULL), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    assert_ok(pl_open_commits_flush(world.opens, "default", "digits", "master", &err), &err);
    assert_int_equal(opens_files(&world), 0);
    check_head(putters);
    world_fsck(&world.w);
}

/* The clock finishes what is quiet while others put. */
static void test_the_clock_finishes_while_others_put(void **state)
{
    struct pl_err err = {0};
    pthread_t threads[PUTTERS];
    struct putter putters[PUTTERS] = {0};
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;

    (void)state;
    left = PUTTERS;
    for (unsigned i = 0; i < PUTTERS; i++) {
        putters[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, putter_main, &putters[i]), 0);
    }
    while (left) { /* whoever asks sets the window */
        assert_ok(pl_open_commits_gather(world.opens, &gathered, 1, &c, &err), &err);
        c = pl_open_commit_unref(c);
    }
    for (size_t i = 0; i < PUTTERS; i++)
        pthread_join(threads[i], NULL);
    assert_ok(pl_open_commits_flush(world.opens, "default", "digits", "master", &err), &err);
    check_head(putters);
    world_fsck(&world.w);
}

static void test_what_was_answered_is_there_after_a_stop(void **state)
{
    struct pl_err err = {0};
    char puts[32], *text;

    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(puts, sizeof puts, "+s/%02d:2000", i);
        put_gathered(puts, 's');
    }
    opens_world_close(&world);
    assert_ok(opens_world_open(&world, &err), &err);
    text = opens_state(&world);
    for (int i = 0; i < 20; i++) {
        snprintf(puts, sizeof puts, " s/%02d:2000:s", i);
        assert_non_null(strstr(text, puts));
    }
    free(text);
}

/* A repo may be made anew under its name while the old one's open commits are dropped. */
static void test_a_repo_that_goes_takes_its_own_open_commits_and_no_others(void **state)
{
    const struct pl_open_commit_args args = {.project = "default", .repo = "vault", .branch = "master"};
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    struct pl_err err = {0};
    int64_t id;

    (void)state;
    assert_ok(pl_open_commits_start(world.opens, &args, &c, &err), &err);
    id = pl_open_commit_head(c)->repo_id;
    pl_open_commits_drop_repo(world.opens, "default", "vault", id - 1);
    assert_true(pl_open_commits_has(world.opens, NULL, pl_open_commit_head(c)->commit));
    pl_open_commits_drop_repo(world.opens, "default", "vault", id);
    assert_false(pl_open_commits_has(world.opens, NULL, pl_open_commit_head(c)->commit));
}

/* ---- what is taken away when it is empty ---- */

struct removal {
    struct pl_open_commit *open;
    pthread_t late;
    int written, gathered;
};

static int nothing(void *self, struct pl_err *err)
{
    (void)self;
    (void)err;
    return 0;
}

/* Asks for what gathers while it is being taken away. */
static void *late_main(void *arg)
{
    struct removal *a = arg;
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    struct pl_err err = {0};

    a->gathered = pl_open_commits_gather(world.opens, &gathered, PL_REPO_COMMIT_WINDOW_MAX_MS, &c, &err);
    return NULL;
}

static int remove_digits(void *self, struct pl_err *err)
{
    struct removal *a = self;
    struct pl_repo_args args = {.project = "default", .name = "digits", .empty = true};
    struct pl_err refused = {0};

    a->written = open_put(a->open, "+late:10", 'x', &refused);
    assert_int_equal(pthread_create(&a->late, NULL, late_main, a), 0);
    return pl_db_run(world.w.db, PL_TX_LOGGED, pl_tx_repo_delete, &args, err);
}

static void test_nothing_gets_into_what_is_taken_away_empty(void **state)
{
    struct removal a = {0};
    struct pl_err err = {0};
    char id[PL_ID_HEX + 1];

    (void)state;
    assert_ok(pl_open_commits_gather(world.opens, &gathered, PL_REPO_COMMIT_WINDOW_MAX_MS, &a.open, &err), &err);
    snprintf(id, sizeof id, "%s", pl_open_commit_head(a.open)->commit);
    assert_ok(pl_open_commits_while_empty(world.opens, "default", "digits", NULL, remove_digits, &a, &err), &err);
    assert_int_equal(pthread_join(a.late, NULL), 0);
    assert_int_equal(a.written, PL_ERETRY);
    assert_int_equal(a.gathered, PL_ENOTFOUND);
    assert_false(pl_open_commits_has(world.opens, NULL, id));
    pl_open_commit_unref(a.open);
}

/* What is left of a deleted branch is not put into. */
static void test_what_gathers_ends_with_its_branch(void **state)
{
    const struct pl_open_commit_args side = {.project = "default", .repo = "digits", .branch = "side", .must_exist = true};
    struct pl_branch_args branch = {.project = "default", .repo = "digits", .name = "side", .from = ""};
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *started = NULL, *c = NULL, *late = NULL;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_open_commits_gather(world.opens, &side, 1, &c, &err), PL_ENOTFOUND);
    assert_ok(pl_db_run(world.w.db, PL_TX_LOGGED, pl_tx_branch_create, &branch, &err), &err);
    assert_ok(pl_open_commits_start(world.opens, &side, &started, &err), &err);
    assert_ok(pl_open_commits_gather(world.opens, &side, PL_REPO_COMMIT_WINDOW_MAX_MS, &c, &err), &err);
    assert_ok(pl_open_commits_while_empty(world.opens, "default", "digits", "side", nothing, NULL, &err), &err);
    assert_int_equal(open_put(c, "+late:10", 'x', &err), PL_ERETRY);
    assert_ok(open_put(started, "+a:10", 'x', &err), &err);
    assert_ok(pl_db_run(world.w.db, PL_TX_LOGGED, pl_tx_branch_delete, &branch, &err), &err);
    assert_int_equal(pl_open_commits_gather(world.opens, &side, 1, &late, &err), PL_ENOTFOUND);
}

static int unexpected(void *self, struct pl_err *err)
{
    (void)self;
    (void)err;
    fail();
    return 0;
}

static int refused(void *self, struct pl_err *err)
{
    (void)self;
    return pl_err_set(err, PL_EINUSE, "for the test");
}

static void test_what_has_something_is_not_taken_away(void **state)
{
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    struct pl_repo_args args = {.project = "default", .name = "digits", .empty = true};
    struct pl_branch_args branch = {.project = "default", .repo = "digits", .name = "master", .empty = true};
    struct pl_err err = {0};

    (void)state;
    assert_ok(pl_open_commits_gather(world.opens, &gathered, PL_REPO_COMMIT_WINDOW_MAX_MS, &c, &err), &err);
    assert_int_equal(pl_open_commits_while_empty(world.opens, "default", "digits", "master", refused, NULL, &err), PL_EINUSE);
    assert_ok(open_put(c, "+a:10", 'x', &err), &err); /* it is open as before */
    assert_int_equal(pl_open_commits_while_empty(world.opens, "default", "digits", "master", unexpected, NULL, &err),
                     PL_ECONFLICT);
    assert_int_equal(pl_open_commits_while_empty(world.opens, "default", "digits", NULL, unexpected, NULL, &err), PL_ECONFLICT);
    assert_int_equal(pl_open_commits_while_empty(world.opens, "default", "digits", "other", refused, NULL, &err), PL_EINUSE);
    assert_ok(open_put(c, "+b:10", 'x', &err), &err);
    assert_ok(pl_open_commits_flush(world.opens, "default", "digits", "master", &err), &err);
    assert_int_equal(pl_db_run(world.w.db, PL_TX_LOGGED, pl_tx_branch_delete, &branch, &err), PL_ECONFLICT);
    assert_int_equal(pl_db_run(world.w.db, PL_TX_LOGGED, pl_tx_repo_delete, &args, &err), PL_ECONFLICT);
}

/* ---- a pool that has no thread to spare ---- */

#define FLUSH_S 60 /* it takes milliseconds, or for ever */

struct plug {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool in, out;
};

static void plug_job(void *arg)
{
    struct plug *p = arg;

    pthread_mutex_lock(&p->lock);
    p->in = true;
    pthread_cond_broadcast(&p->cond);
    while (!p->out)
        pthread_cond_wait(&p->cond, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void plug_in(struct plug *p)
{
    struct pl_err err = {0};

    assert_ok(pl_pool_submit(world.pool, plug_job, p, &err), &err);
    pthread_mutex_lock(&p->lock);
    while (!p->in)
        pthread_cond_wait(&p->cond, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void plug_out(struct plug *p)
{
    pthread_mutex_lock(&p->lock);
    p->out = true;
    pthread_cond_broadcast(&p->cond);
    pthread_mutex_unlock(&p->lock);
}

/* Its job for the pool is waiting: puts go into another one. */
static void wait_until_due(const char *id)
{
    struct pl_err err = {0};
    bool same = true;

    while (same) {
        _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;

        assert_ok(pl_open_commits_gather(world.opens, &gathered, 1, &c, &err), &err);
        same = pl_streq(pl_open_commit_head(c)->commit, id);
    }
}

struct flush {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool over;
    int result;
    struct pl_err err;
};

static void *flush_main(void *arg)
{
    struct flush *f = arg;
    int r = pl_open_commits_flush(world.opens, "default", "digits", "master", &f->err);

    pthread_mutex_lock(&f->lock);
    f->result = r;
    f->over = true;
    pthread_cond_signal(&f->cond);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* False: it was not over in time. */
static bool wait_for_flush(struct flush *f)
{
    struct timespec until;
    bool over;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FLUSH_S;
    pthread_mutex_lock(&f->lock);
    while (!f->over && pthread_cond_timedwait(&f->cond, &f->lock, &until) == 0)
        ;
    over = f->over;
    pthread_mutex_unlock(&f->lock);
    return over;
}

/* All threads of the pool may be such that wait for what gathers. */
static void test_who_waits_for_an_end_needs_no_thread_of_the_pool(void **state)
{
    struct plug plug = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
    struct flush flush = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    pthread_t waits;
    struct pl_err err = {0};
    bool in_time;
    char *text;

    (void)state;
    plug_in(&plug);
    assert_ok(pl_open_commits_gather(world.opens, &gathered, 1, &c, &err), &err);
    assert_ok(open_put(c, "+a:10", 'x', &err), &err);
    wait_until_due(pl_open_commit_head(c)->commit);
    assert_int_equal(pthread_create(&waits, NULL, flush_main, &flush), 0);
    in_time = wait_for_flush(&flush);
    plug_out(&plug); /* else nothing of this would end */
    pthread_join(waits, NULL);
    assert_true(in_time);
    assert_ok(flush.result, &flush.err);
    pl_pool_drain(world.pool); /* the job finds nothing to do */
    text = opens_state(&world);
    assert_string_equal(text, "digits a:10:x; vault");
    free(text);
}

static int setup(void **state)
{
    struct pl_err err = {0};

    (void)state;
    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    world = (struct opens_world){.w.dir = fixture_dir()};
    assert_ok(opens_world_open(&world, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    opens_world_close(&world);
    fixture_remove(world.w.dir);
    return 0;
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_puts_reads_packs_and_ends_at_once),          T(test_the_clock_finishes_while_others_put),
        T(test_what_was_answered_is_there_after_a_stop),    T(test_a_repo_that_goes_takes_its_own_open_commits_and_no_others),
        T(test_nothing_gets_into_what_is_taken_away_empty), T(test_what_gathers_ends_with_its_branch),
        T(test_what_has_something_is_not_taken_away),       T(test_who_waits_for_an_end_needs_no_thread_of_the_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
