/* gc_play: who comes and goes while garbage is collected: pushes, sessions, readers, tasks; the others are in gc_players.h. */
#pragma once

#include "tests/unit/db/gc/gc_world.h"

#include "pipelined/db/open_commits/open_commits.h"

#include "pipelined/db/tx/direct_upload_tx.h"

#define SLOTS       6
#define BROUGHT_MAX 3 /* files that somebody brings */
#define READ_MAX    16

/* Somebody who has brought data, or computes, or reads, and will let something stand on what was there when it began. */
enum who {
    NOBODY,
    TOLD,      /* a session that knows what is there, of which nothing is pinned yet */
    SESSION,   /* a session by its pins, whatever was condemned since it was opened */
    READER,    /* the same; it reads packs themselves and asks nobody again */
    OWN_WORK,  /* of the daemon, by a hold */
    TASK,      /* by its lease */
    LATE,      /* its session ran out: it may be told to bring again */
    STAGE_JOB, /* of stage "train", until it has ended */
    OPEN,      /* an open commit */
    STRANGER,  /* has put a pack by itself, which nobody has read yet and which may lie */
    WHO
};

struct slot {
    enum who who;
    struct pl_upload_session_args
        session; /* id "": it was lost with a machine, which nothing is doomed for as long as it may last */
    struct pl_store_hold hold;
    struct pl_buf ops;
    size_t seed;
    struct pl_hash root;                     /* of a task: what its result will name */
    bool renewed;                            /* its session */
    char id[PL_ID_HEX + 1];                  /* a job's run, or an open commit's */
    struct pl_hash trees[READ_MAX];          /* that a job may read, or take over, at any time, */
    struct pl_hash chunks[READ_MAX * SLOTS]; /* and content */
    size_t n_trees, n_chunks;
    json_t *inputs;
    struct pl_direct_upload brought;
    bool lies;
    struct pl_hash pins[READ_MAX];
    size_t n_pins;
};

struct play {
    struct gc_world *g;
    struct pl_pool *pool;
    struct pl_open_commits *opens;
    uint64_t rng, trace;
    struct slot slots[SLOTS];
    unsigned lost; /* who was there when the machine was lost may be there so many steps more */
    unsigned depth, stop_after, task;
    void (*between)(struct play *p); /* of every push: its look-up and its transaction. NULL: nothing happens there */
    size_t pushes, collections, crashes, freed, came[WHO];
};

static UNUSED size_t roll(struct play *p, size_t n)
{
    return (size_t)(pl_splitmix64(&p->rng) % n);
}

static UNUSED int64_t commits(struct play *p)
{
    return count(p->g, "SELECT count(*) FROM commit_ c JOIN repo r ON r.id = c.repo WHERE r.name = 'digits'");
}

static UNUSED void run(struct play *p, pl_tx_fn fn, void *arg)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(p->g->w.db, PL_TX_UNLOGGED, fn, arg, &err), &err);
}

static UNUSED bool lives(const struct slot *s)
{
    return *s->session.id;
}

/* ---- pushing ---- */

/* Few names, and content that comes again: so that pushes find what others have brought, or what is condemned. */
static UNUSED void random_text(struct play *p, char out[128])
{
    size_t n = 0, files = 1 + roll(p, BROUGHT_MAX);

    *out = '\0';
    for (size_t i = 0; i < files; i++)
        n += (size_t)snprintf(out + n, 128 - n, "%s+f%zu:%zu", i ? " " : "", i * 2 + roll(p, 2), (1 + roll(p, 2)) * 1000);
}

/* Where what operations name is. Each must be there. */
static UNUSED size_t locate_all(struct play *p, const struct pl_buf *ops, struct pl_location ret[BROUGHT_MAX])
{
    struct pl_tree_op *list;
    struct pl_err err = {0};
    size_t n, found = 0;

    assert_ok(pl_tree_ops_read(ops->data, ops->len, &list, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        if (list[i].op != PL_TREE_PUT || list[i].entry.content != PL_CONTENT_CHUNK)
            continue;
        assert_true(found < BROUGHT_MAX);
        assert_ok(pl_store_locate(store_of(p->g), &list[i].entry.id, &ret[found++], &err), &err);
    }
    free(list);
    return found;
}

static UNUSED void bring_ops(struct play *p, size_t seed, struct pl_buf *ret)
{
    struct pl_err err = {0};
    char text[128];

    random_text(p, text);
    assert_ok(world_ops(&p->g->w, "default", text, seed, ret, &err), &err);
}

/* What only a stranger's pack is said to have, nobody else has been told of. */
static UNUSED bool stands_on_unread(struct play *p, const struct pl_buf *ops)
{
    struct pl_tree_op *list;
    struct pl_location at;
    struct pl_err err = {0};
    bool unread = false;
    size_t n;

    assert_ok(pl_tree_ops_read(ops->data, ops->len, &list, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        unread = unread || (list[i].op == PL_TREE_PUT && list[i].entry.content == PL_CONTENT_CHUNK &&
                            pl_store_locate(store_of(p->g), &list[i].entry.id, &at, NULL) == 0 && at.unread);
    free(list);
    return unread;
}

static UNUSED int go_on_between(void *self, struct pl_pack_builder *session, struct pl_err *err)
{
    struct play *p = self;

    (void)session;
    (void)err;
    if (p->between)
        p->between(p);
    return 0;
}

/* I1: what it stands on was live, or lives again. What was condemned after it had been looked up waits for the push, and for a mark after
 * that. */
static UNUSED int push_one(struct play *p, const struct pl_buf *ops, struct pl_err *err)
{
    struct pl_location at[BROUGHT_MAX];
    size_t collections = p->collections;
    int r = stands_on_unread(p, ops) ? pl_err_set(err, PL_ERETRY, "it was told too long ago")
                                     : push_ops_with(p->g, ops, go_on_between, p, err);
    size_t n = r < 0 ? 0 : locate_all(p, ops, at);

    for (size_t i = 0; i < n; i++)
        assert_false(at[i].hidden && p->collections == collections);
    p->pushes += r == 0;
    return r;
}

static UNUSED void push_now(struct play *p)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_store_hold hold;
    struct pl_err err = {0};

    pl_store_hold(store_of(p->g), &hold);
    bring_ops(p, 1 + roll(p, 2), &ops);
    assert_ok(push_one(p, &ops, &err), &err);
    pl_store_release(&hold);
}

/* ---- sessions ---- */

static UNUSED void pin(struct play *p, struct slot *s, const struct pl_hash *pack)
{
    for (size_t i = 0; i < s->n_pins; i++)
        if (pl_hash_eq(&s->pins[i], pack))
            return;
    assert_true(s->n_pins < READ_MAX);
    s->pins[s->n_pins++] = *pack;
    if (!lives(s))
        return;
    s->session.packs = pack;
    s->session.n = 1;
    run(p, pl_tx_upload_session_pin, &s->session);
}

/* What it was told is there still. */
static UNUSED void pin_all(struct play *p, struct slot *s)
{
    struct pl_location at[BROUGHT_MAX];
    size_t n = locate_all(p, &s->ops, at);

    for (size_t i = 0; i < n; i++)
        pin(p, s, &at[i].pack);
    s->who = SESSION;
}

static UNUSED void bring(struct play *p, struct slot *s)
{
    if (s->who == TOLD || s->who == SESSION)
        s->session = open_session(p->g);
    pl_store_hold(store_of(p->g), &s->hold);
    bring_ops(p, s->seed, &s->ops);
    if (s->who == SESSION)
        pin_all(p, s);
    if (s->who != OWN_WORK)
        pl_store_release(&s->hold);
}

static UNUSED void leave(struct play *p, struct slot *s)
{
    if (lives(s))
        close_session(p->g, &s->session);
    pl_store_release(&s->hold);
    pl_buf_finish(&s->ops);
    json_decref(s->inputs);
    *s = (struct slot){0};
}

/* Who has kept to the rules never brings anything twice. */
static UNUSED void push_brought(struct play *p, struct slot *s)
{
    struct pl_err err = {0};
    int r = push_one(p, &s->ops, &err);

    if (s->who != LATE || r != PL_ERETRY)
        assert_ok(r, &err);
    leave(p, s);
}

/* ---- readers ---- */

static UNUSED struct pl_hash a_root(struct play *p)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(p->g->w.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_hash root = {0};
    struct pl_err err = {0};
    int64_t n = 0;

    assert_ok(pl_sql_int(rd.conn, &err, &n, "SELECT count(*) FROM commit_", ""), &err);
    assert_ok(pl_sql_query(rd.conn, &err, &rows, "SELECT root FROM commit_ ORDER BY id LIMIT 1 OFFSET ?", "i",
                           (int64_t)roll(p, (size_t)n + !n)),
              &err);
    if (pl_sql_next(rd.conn, &rows, &err) > 0)
        root = pl_col_hash(&rows, 0);
    return root;
}

static UNUSED void pin_files(struct play *p, struct slot *s)
{
    struct pl_node_source source = {store_of(p->g), pl_store_node_get};
    struct pl_tree_cursor *c;
    struct pl_tree_item item;
    struct pl_err err = {0};
    int r;

    assert_ok(pl_tree_cursor_create(&source, &s->root, NULL, 0, &c, &err), &err);
    while ((r = pl_tree_cursor_next(c, &item, &err)) > 0) {
        struct pl_location at;

        if (item.entry.content != PL_CONTENT_CHUNK)
            continue;
        assert_ok(pl_store_locate(store_of(p->g), &item.entry.id, &at, &err), &err);
        pin(p, s, &at.pack);
    }
    assert_ok(r, &err);
    pl_tree_cursor_destroy(c);
}

/* A plan: the packs that a commit's files lie in, which stay until it has read them. */
static UNUSED void begin_to_read(struct play *p, struct slot *s)
{
    s->root = a_root(p);
    s->session = open_session(p->g);
    pin_files(p, s);
}

/* ---- tasks ---- */

static UNUSED int begin_lease(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct slot *s = arg;
    int r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT INTO lease(task, fence, job, worker, rows, failures, losses, seq, renewed_seq)"
                        " SELECT ?, 1, max(j.id), 1, '[]', 0, 0, CAST(m.value AS INTEGER), CAST(m.value AS INTEGER) FROM job j"
                        " JOIN meta m ON m.key = 'log_seq' WHERE j.stage = 'tasks'",
                        "i", (int64_t)s->seed);

    return PL_MIN(r, 0);
}

/* Its session knows the tree: all of it is pinned. */
static UNUSED void pin_tree(struct play *p, struct slot *s)
{
    struct pl_location at;
    struct pl_err err = {0};

    s->session = open_session(p->g);
    if (pl_hash_is_zero(&s->root))
        return;
    assert_ok(pl_store_locate(store_of(p->g), &s->root, &at, &err), &err);
    pin(p, s, &at.pack);
    pin_files(p, s);
}

/* Its worker says that all it knows it was told in that session. */
static UNUSED void say_told(struct play *p, const struct slot *s)
{
    struct pl_lease_pin told = {.task = s->seed, .fence = 1};
    struct pl_lease_pin_args args = {.project = "default", .leases = &told, .n = 1};

    memcpy(told.session, s->session.id, sizeof told.session);
    run(p, pl_tx_lease_renew_pins, &args);
}

/* It works on a tree, which it will name without being asked for it again. */
static UNUSED void lease(struct play *p, struct slot *s)
{
    struct pl_job_args job = {.run = "0123456789abcdef0123456789abcdef",
                              .project = "default",
                              .stage = "tasks",
                              .pipeline = "flow",
                              .version = 1,
                              .state = "running",
                              .created_us = 1};

    s->root = a_root(p);
    s->seed = ++p->task;
    run(p, pl_tx_job_progress, &job);
    run(p, begin_lease, s);
    if (roll(p, 2) == 0)
        pin_tree(p, s);
}

static UNUSED int end_lease(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct slot *s = arg;
    struct pl_conn *c = pl_tx_conn(tx);
    int r = pl_sql_exec(c, err, "INSERT INTO checkpoint(project, stage, key, root, at_us) VALUES ('default', 'train', ?, ?, 1)",
                        "bb", &s->seed, sizeof s->seed, s->root.b, (size_t)PL_HASH_BYTES);

    r = r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM lease WHERE task = ?", "i", (int64_t)s->seed);
    return PL_MIN(r, 0);
}

static UNUSED void report(struct play *p, struct slot *s)
{
    run(p, end_lease, s);
    leave(p, s);
}
