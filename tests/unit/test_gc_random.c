/* Garbage collection among everything else, in random order: pushes at once and in two steps, deletions, tasks that are leased, sessions
 * that last, steps of collections that are stopped or crash at any write, starts anew and from the store alone; also while a mark or
 * a copy is under way. After each step all that is named reads back; when everybody has ended nothing is left that nothing needs.
 * PL_GC_SEEDS: how many runs (6); PL_GC_SEED: this one alone. */
// link: pl_db
#include "gc_world.h"

#include "pipelined/db/recover.h"

#define SLOTS          4
#define STEPS_OF_A_RUN 90
#define ROOTS_MAX      256

/* Somebody who has brought data, or computes, and will let something stand on what was there when it began. */
enum who { NOBODY, SESSION, OWN_WORK, TASK, LATE /* its session ran out: it may be told to bring again */ };

struct slot {
    enum who who;
    struct pl_session_args session;
    struct pl_store_hold hold;
    struct pl_buf ops;
    char text[128];
    size_t seed;
    struct pl_hash root; /* of a task: what its result will name */
};

struct play {
    struct gc_world *g;
    uint64_t rng;
    struct slot slots[SLOTS];
    unsigned lost; /* who was there when the machine was lost may be there so many steps more */
    unsigned depth, stop_after, task;
    size_t pushes, collections, crashes, freed;
};

static size_t roll(struct play *p, size_t n)
{
    return (size_t)(pl_splitmix64(&p->rng) % n);
}

static int64_t commits(struct play *p)
{
    return count(p->g, "SELECT count(*) FROM commit_");
}

/* ---- all that is named reads back ---- */

static size_t add_roots(struct pl_conn *c, const char *sql, enum pl_fsck_kind kind, struct pl_fsck_root *out, size_t n)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_err err = {0};

    assert_ok(pl_sql_query(c, &err, &rows, sql, ""), &err);
    while (pl_sql_next(c, &rows, &err) > 0) {
        assert_true(n < ROOTS_MAX);
        out[n++] = (struct pl_fsck_root){.label = sql, .object = pl_col_hash(&rows, 0), .kind = kind};
    }
    return n;
}

static void assert_reads(struct play *p, struct pl_store *store, bool full)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(p->g->w.db);
    struct pl_fsck_options options = {.full = full, .finding = finding};
    struct pl_fsck_report report = {0};
    struct pl_fsck_root roots[ROOTS_MAX];
    struct pl_err err = {0};
    size_t n = add_roots(rd.conn, "SELECT object FROM commit_", PL_FSCK_COMMIT, roots, 0);

    n = add_roots(rd.conn, "SELECT root FROM checkpoint", PL_FSCK_TREE, roots, n);
    assert_ok(pl_fsck(store, roots, n, &options, &report, &err), &err);
    assert_int_equal(report.findings, 0);
}

/* For who is here, and for who remembers nothing. */
static void assert_all_reads(struct play *p)
{
    struct pl_store *fresh;
    struct pl_err err = {0};

    assert_reads(p, store_of(p->g), false);
    assert_ok(pl_store_open(p->g->w.objects, "default", NULL, &fresh, &err), &err);
    assert_ok(pl_gc_store_opened(p->g->w.db, fresh, &err), &err);
    assert_reads(p, fresh, true);
    pl_store_close(fresh);
}

/* ---- writers ---- */

/* Few names, and content that comes again: so that pushes find what others have brought, or what is condemned. */
static void random_text(struct play *p, char out[128])
{
    size_t n = 0, files = 1 + roll(p, 3);

    *out = '\0';
    for (size_t i = 0; i < files; i++)
        n += (size_t)snprintf(out + n, 128 - n, "%s+f%zu:%zu", i ? " " : "", i * 2 + roll(p, 2), (1 + roll(p, 2)) * 1000);
}

static void push_now(struct play *p)
{
    char text[128];

    random_text(p, text);
    push(p->g, text, 1 + roll(p, 2));
    p->pushes++;
}

static struct slot *free_slot(struct play *p)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (p->slots[i].who == NOBODY)
            return &p->slots[i];
    return NULL;
}

/* What the operations name is there: it is pinned where it lies, as for who asks and for who brings. */
static void pin_all(struct play *p, struct slot *s)
{
    struct pl_tree_op *list;
    struct pl_err err = {0};
    size_t n;

    assert_ok(pl_ops_read(s->ops.data, s->ops.len, &list, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        struct pl_location at;

        if (list[i].op != PL_TREE_PUT || list[i].entry.content != PL_CONTENT_CHUNK)
            continue;
        assert_ok(pl_store_locate(store_of(p->g), &list[i].entry.id, &at, &err), &err);
        s->session.packs = &at.pack;
        s->session.n = 1;
        assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, pl_tx_session_pin, &s->session, &err), &err);
    }
    free(list);
}

static void bring(struct play *p, struct slot *s, enum who who)
{
    struct pl_err err = {0};

    *s = (struct slot){.who = who, .seed = 1 + roll(p, 2)};
    if (who == SESSION)
        s->session = open_session(p->g);
    pl_store_hold(store_of(p->g), &s->hold);
    random_text(p, s->text);
    assert_ok(world_ops(&p->g->w, "default", s->text, s->seed, &s->ops, &err), &err);
    if (who == SESSION)
        pin_all(p, s);
    if (who != OWN_WORK)
        pl_store_release(&s->hold);
}

static void leave(struct play *p, struct slot *s)
{
    if (s->who == SESSION)
        close_session(p->g, &s->session);
    pl_store_release(&s->hold);
    pl_buf_finish(&s->ops);
    *s = (struct slot){0};
}

/* Who has kept to the rules never brings anything twice. */
static void push_brought(struct play *p, struct slot *s)
{
    struct pl_err err = {0};
    int r = push_ops(p->g, &s->ops, &err);

    if (s->who != LATE || r != PL_ERETRY)
        assert_ok(r, &err);
    p->pushes += r == 0;
    leave(p, s);
}

/* ---- tasks ---- */

static int begin_lease(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct slot *s = arg;
    int r =
        pl_sql_exec(pl_tx_conn(tx), err,
                    "INSERT INTO lease(task, fence, job, worker, rows, failures, losses, seq) SELECT ?, 1, max(id), 1, '[]', 0,"
                    " 0, (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_seq') FROM job",
                    "i", (int64_t)s->seed);

    return PL_MIN(r, 0);
}

/* It works on the newest tree, which it will name without being asked for it again. */
static void lease(struct play *p, struct slot *s)
{
    struct pl_job_args job = {.run = "0123456789abcdef0123456789abcdef",
                              .project = "default",
                              .stage = "train",
                              .pipeline = "flow",
                              .version = 1,
                              .state = "running",
                              .created_us = 1};
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(p->g->w.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_err err = {0};

    assert_ok(pl_sql_query(rd.conn, &err, &rows, "SELECT root FROM commit_ ORDER BY id DESC LIMIT 1", ""), &err);
    if (pl_sql_next(rd.conn, &rows, &err) <= 0)
        return;
    *s = (struct slot){.who = TASK, .seed = ++p->task, .root = pl_col_hash(&rows, 0)};
    assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, pl_tx_job_progress, &job, &err), &err);
    assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, begin_lease, s, &err), &err);
}

static int end_lease(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct slot *s = arg;
    struct pl_conn *c = pl_tx_conn(tx);
    int r = pl_sql_exec(c, err, "INSERT INTO checkpoint(project, stage, key, root, at_us) VALUES ('default', 'train', ?, ?, 1)",
                        "bb", &s->seed, sizeof s->seed, s->root.b, (size_t)PL_HASH_BYTES);

    r = r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM lease WHERE task = ?", "i", (int64_t)s->seed);
    return PL_MIN(r, 0);
}

static void report(struct play *p, struct slot *s)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, end_lease, s, &err), &err);
    leave(p, s);
}

/* ---- one after another, at any moment ---- */

static void begin_something(struct play *p)
{
    struct slot *s = free_slot(p);

    if (!s)
        return;
    if (roll(p, 3) == 0)
        lease(p, s);
    else
        bring(p, s, (enum who[]){SESSION, OWN_WORK, LATE}[roll(p, 3)]);
}

static void end_something(struct play *p)
{
    struct slot *s = &p->slots[roll(p, SLOTS)];

    if (s->who == TASK)
        report(p, s);
    else if (s->who != NOBODY && roll(p, 4))
        push_brought(p, s);
    else if (s->who != NOBODY)
        leave(p, s);
}

/* Two leases long: whatever they were told before is theirs by pins alone. */
static void renew_all(struct play *p)
{
    struct pl_err err = {0};

    for (size_t i = 0; i < SLOTS * 2; i++) {
        struct slot *s = &p->slots[i / 2];

        if (s->who == SESSION && *s->session.id)
            assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, pl_tx_session_renew, &s->session, &err), &err);
    }
}

static void delete_something(struct play *p)
{
    struct pl_err err = {0};

    if (roll(p, 3) == 0)
        assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, run_sql,
                            (void *)"DELETE FROM checkpoint WHERE key ="
                                    " (SELECT min(key) FROM checkpoint)",
                            &err),
                  &err);
    else if (commits(p) > 3 || (commits(p) > 1 && roll(p, 2)))
        drop_first_commit(p->g);
    else if (commits(p) > 0)
        delete_head(p->g);
}

static void disturb(struct play *p)
{
    static void (*const table[])(struct play * p) = {push_now,      begin_something, begin_something,  end_something,
                                                     end_something, renew_all,       delete_something, delete_something};

    table[roll(p, PL_ARRAY_SIZE(table))](p);
}

/* ---- collections ---- */

/* Asked before each node of a mark and each pack of a copy: here everything else goes on. */
static bool meanwhile(void *self)
{
    struct play *p = self;

    if (p->stop_after && --p->stop_after == 0)
        return true;
    if (p->depth++ == 0 && roll(p, 12) == 0)
        disturb(p);
    p->depth--;
    return false;
}

static int one_collection(struct play *p, bool *ret_again, struct pl_err *err)
{
    struct gc_world *g = p->g;
    struct pl_gc_round round = {.db = g->w.db,
                                .stores = g->w.stores,
                                .project = "default",
                                .watch = {.stop = meanwhile, .self = p},
                                .may_doom = !p->lost,
                                .condemned_at = g->condemned_at,
                                .removed = &g->removed};
    int r = pl_gc_collect(&round, err);

    g->condemned_at = round.condemned_at;
    *ret_again = round.again;
    p->freed += round.sums.freed_packs;
    p->collections++;
    return r;
}

static void collect_some(struct play *p)
{
    struct pl_err err = {0};
    bool again = true;
    int r = 0;

    p->stop_after = roll(p, 3) ? 0 : 1 + (unsigned)roll(p, 60);
    for (int i = 0; i < 3 && again && r == 0; i++)
        r = one_collection(p, &again, &err);
    if (r != PL_ECANCELED)
        assert_ok(r, &err);
    p->stop_after = 0;
}

/* Whoever was part of the daemon is gone with it. */
static void forget_own_work(struct play *p)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (p->slots[i].who == OWN_WORK)
            leave(p, &p->slots[i]);
}

static void start_again(struct play *p)
{
    forget_own_work(p);
    start_anew(p->g);
}

/* No write of a collection succeeds from some one on, and that is the end of this daemon. */
static void crash_in_collection(struct play *p)
{
    struct pl_err err = {0};
    bool again;

    p->depth = 1; /* alone: others would be told of the failure, and not as they expect */
    for (int call = 0; call < PL_IO_CALLS; call++) {
        pl_io_fail_on((enum pl_io_call)call, true);
        pl_io_fail_nth((enum pl_io_call)call, 1 + roll(p, call == PL_IO_WRITE ? 12 : 6), EIO);
    }
    (void)!one_collection(p, &again, &err);
    for (int call = 0; call < PL_IO_CALLS; call++) {
        pl_io_fail_nth((enum pl_io_call)call, 0, 0);
        pl_io_fail_on((enum pl_io_call)call, false);
    }
    p->depth = 0;
    p->crashes++;
    start_again(p);
}

/* The disk is lost: the store alone is left, and sessions and leases are not known any more. Those who have them are refused, or bring
 * again; tasks are computed again. */
static void lose_the_disk(struct play *p)
{
    struct pl_err err = {0};

    for (size_t i = 0; i < SLOTS; i++)
        if (p->slots[i].who == TASK)
            leave(p, &p->slots[i]);
        else if (p->slots[i].who == SESSION)
            p->slots[i].session.id[0] = '\0';
    forget_own_work(p);
    world_close(&p->g->w);
    pl_map_finish(&p->g->removed, NULL);
    p->g->condemned_at = 0;
    assert_ok(pl_io_remove_tree(fixture_path(p->g->w.dir, "data"), &err), &err);
    assert_ok(world_open(&p->g->w, "data", &err), &err);
    assert_true(pl_db_recovered(p->g->w.db)->recovered);
    p->lost = 12;
}

/* Sessions that were lost end before anything is doomed. */
static void time_goes_on(struct play *p)
{
    if (p->lost == 0 || --p->lost > 0)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        if (p->slots[i].who == SESSION && !*p->slots[i].session.id)
            leave(p, &p->slots[i]);
}

/* All that is there goes but for those who have found it, or are told that it is there. */
static void sweep(struct play *p)
{
    push_now(p);
    for (int i = 0; i < 2; i++)
        begin_something(p);
    while (commits(p) > 0)
        delete_head(p->g);
    collect_some(p);
    renew_all(p);
    collect_some(p);
    for (int i = 0; i < 2; i++)
        end_something(p);
}

static void step(struct play *p)
{
    size_t n = roll(p, 100);

    time_goes_on(p);
    if (n < 62)
        disturb(p);
    else if (n < 70)
        sweep(p);
    else if (n < 90)
        collect_some(p);
    else if (n < 95)
        crash_in_collection(p);
    else if (n < 98)
        start_again(p);
    else
        lose_the_disk(p);
    assert_all_reads(p);
}

/* ---- when everybody has ended ---- */

static void end_everybody(struct play *p)
{
    struct pl_err err = {0};

    p->lost = 0;
    p->depth = 1; /* nobody comes any more */
    for (size_t i = 0; i < SLOTS; i++)
        if (p->slots[i].who == TASK)
            report(p, &p->slots[i]);
        else
            leave(p, &p->slots[i]);
    /* those whose client left without a word, by their leases */
    assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"DELETE FROM session", &err), &err);
    for (int i = 0; i < 2; i++)
        collect(p->g);
    p->depth = 0;
}

static struct pl_gc_round foresee(struct play *p)
{
    struct pl_gc_round round = {
        .db = p->g->w.db, .stores = p->g->w.stores, .project = "default", .may_doom = true, .removed = &p->g->removed};
    struct pl_err err = {0};

    assert_ok(pl_gc_foresee(&round, &err), &err);
    pl_gc_report_finish(&round.sums);
    return round;
}

static uint64_t sizes;

static int add_size(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)arg;
    (void)key;
    (void)err;
    sizes += size;
    return 0;
}

/* At most 40 % of what is there is of no use, beside what a pack has around its records. */
static void assert_little_is_left(struct play *p)
{
    struct pl_gc_round round = foresee(p);
    size_t packs = packs_there(p->g);

    assert_int_equal(round.sums.freed_packs, 0);
    assert_int_equal(round.sums.packs, packs);
    assert_int_equal(count(p->g, "SELECT count(*) FROM pack_state WHERE state <> 'doomed'"), 0);
    sizes = 0;
    assert_int_equal(pl_object_list(p->g->w.objects, "p/default/", add_size, NULL, NULL), 0);
    assert_in_range(sizes, round.sums.live_bytes,
                    round.sums.live_bytes * 100 / PL_GC_LIVE_PERCENT + packs * PL_PACK_OVERHEAD(64));
}

static void delete_all(struct play *p)
{
    struct pl_repo_args repo = {.project = "default", .name = "digits"};
    struct pl_err err = {0};

    assert_int_equal(pl_db_run(p->g->w.db, PL_TX_LOGGED, end_runs, NULL, &err), 0);
    assert_ok(pl_db_run(p->g->w.db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, &err), &err);
    assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, run_sql, (void *)"DELETE FROM checkpoint", &err), &err);
    collect(p->g);
}

static void play(uint64_t seed)
{
    void *state;
    struct play p = {.rng = seed};

    assert_int_equal(setup(&state), 0);
    p.g = state;
    for (int i = 0; i < STEPS_OF_A_RUN; i++)
        step(&p);
    end_everybody(&p);
    assert_all_reads(&p);
    assert_little_is_left(&p);
    delete_all(&p);
    assert_int_equal(packs_there(p.g), 0);
    print_message("seed %llu: %zu pushes, %zu collections of which %zu crashed, %zu packs freed\n", (unsigned long long)seed,
                  p.pushes, p.collections, p.crashes, p.freed);
    assert_true(p.pushes > 0 && p.collections > 0);
    teardown(&state);
}

static void test_what_is_named_reads_back_and_the_rest_goes(void **state)
{
    const char *many = getenv("PL_GC_SEEDS"), *one = getenv("PL_GC_SEED");
    uint64_t n = many ? strtoull(many, NULL, 10) : 6;

    (void)state;
    if (one)
        play(strtoull(one, NULL, 10));
    for (uint64_t seed = 1; seed <= n && !one; seed++)
        play(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_named_reads_back_and_the_rest_goes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
