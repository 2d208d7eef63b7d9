/* gc_players: who comes and goes as in gc_play.h: jobs, open commits, strangers; all of them one after another; and what must hold for each at
 * every moment. */
#pragma once

#include "tests/unit/db/gc/gc_actors.h"
#include "tests/unit/db/open_commits/open_commits_world.h"

#include "pipelined/db/gc/result_codec.h"
#include "pipelined/db/retention/retention.h"

#include <zstd.h>

/* ---- jobs ---- */

static UNUSED void add_chunks(struct slot *s, const void *ops, size_t len)
{
    struct pl_tree_op *list;
    struct pl_err err = {0};
    size_t n;

    assert_ok(pl_tree_ops_read(ops, len, &list, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        if (list[i].op == PL_TREE_PUT && list[i].entry.content == PL_CONTENT_CHUNK && s->n_chunks < PL_ARRAY_SIZE(s->chunks))
            s->chunks[s->n_chunks++] = list[i].entry.id;
    free(list);
}

/* What the stage's jobs have left that did not succeed. */
static UNUSED void add_left(struct play *p, struct slot *s)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(p->g->w.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_err err = {0};

    assert_ok(pl_sql_query(rd.conn, &err, &rows,
                           "SELECT r.rows FROM result r JOIN job j ON j.id = r.job WHERE j.stage = 'train' AND j.kept = 1", ""),
              &err);
    while (pl_sql_next(rd.conn, &rows, &err) > 0) {
        _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
        _cleanup_(json_decrefp) json_t *list = NULL;

        assert_ok(pl_result_codec_column(&rows, 0, &list, &err), &err);
        assert_ok(pl_base64_decode(json_string_value(json_object_get(
                                       json_object_get(json_array_get(json_array_get(list, 0), 1), "output"), "ops")),
                                   &ops, &err),
                  &err);
        add_chunks(s, ops.data, ops.len);
    }
}

/* What the stage's newest commits have. The newest one's id and place into `head`. */
static UNUSED void add_bases(struct play *p, struct slot *s, struct pl_commit_row *head)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(p->g->w.db);
    struct pl_commit_ref ref = {.kind = PL_COMMIT_REF_ID};
    struct pl_commit_row row;
    struct pl_err err = {0};
    int r = pl_db_commit_named(rd.conn, "default", "train", "master", &row, &err);

    *head = r == 0 ? row : (struct pl_commit_row){0};
    for (size_t i = 0; i < 9 && r == 0; i++) {
        s->trees[s->n_trees++] = row.root;
        snprintf(ref.name, sizeof ref.name, "%s", row.parent);
        r = *row.parent ? pl_db_commit_find(rd.conn, "default", "train", &ref, &row, &err) : PL_ENOTFOUND;
    }
}

/* A result, as it is stored while the job goes on. */
static UNUSED int write_result(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct slot *s = arg;
    _cleanup_free_ char *base64 = NULL, *text = NULL;
    uint8_t packed[4096];
    size_t n;

    assert_int_equal(pl_base64_encode(s->ops.data, s->ops.len, &base64, err), 0);
    assert_true(asprintf(&text, "[[0, {\"output\": {\"ops\": \"%s\"}}, \"\"]]", base64) > 0);
    n = ZSTD_compress(packed, sizeof packed, text, strlen(text), 1);
    assert_false(ZSTD_isError(n));
    return PL_MIN(pl_sql_exec(pl_tx_conn(tx), err, "INSERT INTO result(job, id, rows) SELECT id, 1, ? FROM job WHERE run = ?",
                              "bs", packed, n, s->id),
                  0);
}

/* Reads a commit, may take over what its stage has, and has a result of its own. One beside another one is aside, and leaves alone what that
 * one may settle by its end: a stage's jobs look for what is left one after another. */
static UNUSED void begin_job(struct play *p, struct slot *s)
{
    struct pl_commit_row base;
    struct pl_job_args job = {.run = s->id, .project = "default", .stage = "train", .state = "running", .base = base.run};
    struct pl_run_args of = {.id = s->id, .cause = "manual", .message = "", .state = "running"};
    struct pl_err err = {0};
    char root[PL_HASH_HEX + 1];

    for (size_t i = 0; i < SLOTS; i++)
        if (&p->slots[i] != s && p->slots[i].who == STAGE_JOB)
            of.as = "aside";
    pl_id_make((uint64_t)p->task++, s->id);
    s->trees[s->n_trees++] = s->root = a_root(p);
    add_bases(p, s, &base);
    if (!of.as)
        add_left(p, s);
    job.inputs = s->inputs = json_pack("[{s:s, s:s, s:s, s:s}]", "project", "default", "repo", "digits", "commit", "", "root",
                                       pl_hash_hex(&s->root, root));
    assert_ok(pl_db_run(p->g->w.db, PL_TX_LOGGED, pl_tx_run_create, &of, &err), &err);
    run(p, pl_tx_job_progress, &job);
    pl_store_hold(store_of(p->g), &s->hold);
    bring_ops(p, s->seed, &s->ops);
    add_chunks(s, s->ops.data, s->ops.len);
    run(p, write_result, s);
    pl_store_release(&s->hold);
}

struct job_end {
    struct pl_commit_args commit;
    struct pl_job_args job;
};

static UNUSED int end_job_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct job_end *e = arg;
    int r = e->commit.repo ? pl_tx_commit(tx, &e->commit, err) : 0;

    return r < 0 ? r : pl_tx_job_end(tx, &e->job, err);
}

/* Its result upon what the stage had: the tree of a commit, by a hold from the first look-up on. */
static UNUSED void build_output(struct play *p, struct slot *s, const struct pl_commit_row *head, struct pl_commit_args *c)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(store_of(p->g));
    struct pl_node_source source = {store_of(p->g), pl_store_node_get};
    struct pl_node_sink nodes;
    struct pl_tree_op *list;
    struct pl_err err = {0};
    size_t n;

    assert_ok(pl_tree_ops_read(s->ops.data, s->ops.len, &list, &n, &err), &err);
    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    nodes = (struct pl_node_sink){session, pl_pack_builder_node_put};
    assert_ok(pl_tree_edit(&source, &nodes, &head->root, list, n, &c->root, &err), &err);
    assert_ok(pl_commit_object_put(session, c, head->id ? &head->object : NULL, &err), &err);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
    free(list);
}

static UNUSED void end_job(struct play *p, struct slot *s, bool success)
{
    struct pl_commit_row head;
    struct job_end e = {
        .job = {
            .run = s->id, .project = "default", .stage = "train", .state = success ? "success" : "failure", .inputs = s->inputs}};
    struct pl_err err = {0};

    if (success) {
        s->n_trees = 0;
        pl_store_hold(store_of(p->g), &s->hold);
        add_bases(p, s, &head);
        e.commit = (struct pl_commit_args){.project = "default",
                                           .repo = "train",
                                           .branch = "master",
                                           .run = s->id,
                                           .output = true,
                                           .expect = -1,
                                           .generation = head.generation + 1,
                                           .parent = head.run};
        build_output(p, s, &head, &e.commit);
    }
    assert_ok(pl_db_run(p->g->w.db, PL_TX_LOGGED, end_job_tx, &e, &err), &err);
    leave(p, s);
}

/* ---- strangers ---- */

struct captured {
    struct pl_hash id;
    struct pl_buf bytes;
};

static UNUSED int capture(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    struct captured *c = self;

    c->id = *pack_id;
    return pl_buf_add(&c->bytes, bytes, n, err);
}

/* A pack of what a commit's files hold, as another writer would make it. */
static UNUSED void pack_files(struct play *p, const struct pl_hash *root, struct captured *ret)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = {.self = ret, .put_pack = capture};
    struct pl_node_source source = {store_of(p->g), pl_store_node_get};
    struct pl_tree_cursor *c;
    struct pl_tree_item item;
    struct pl_err err = {0};
    int r;

    assert_ok(pl_pack_builder_open(&sink, "default", &session, &err), &err);
    assert_ok(pl_tree_cursor_create(&source, root, NULL, 0, &c, &err), &err);
    while ((r = pl_tree_cursor_next(c, &item, &err)) > 0) {
        _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
        struct pl_hash id;

        if (item.entry.content != PL_CONTENT_CHUNK)
            continue;
        assert_ok(pl_store_get(store_of(p->g), &item.entry.id, PL_REC_CHUNK, &bytes, &err), &err);
        assert_ok(pl_pack_builder_add(session, PL_REC_CHUNK, bytes.data, bytes.len, &id, &err), &err);
    }
    assert_ok(r, &err);
    pl_tree_cursor_destroy(c);
    assert_ok(pl_pack_builder_finish(session, &err), &err);
}

/* One byte of each record is another. */
static UNUSED void make_it_lie(struct captured *c)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_pack_memory memory = {c->bytes.data, c->bytes.len};
    struct pl_pack_input in = pl_pack_input_memory(&memory);

    assert_int_equal(pl_pack_footer_read(&in, &f, NULL), 0);
    for (uint32_t i = 0; i < f.count; i++)
        c->bytes.data[f.entries[i].offset + PL_PACK_RECORD_BYTES + f.entries[i].stored / 2] ^= 1;
}

static UNUSED void begin_stranger(struct play *p, struct slot *s)
{
    struct captured pack = {0};
    char key[PL_PACK_KEY_BYTES];
    struct pl_err err = {0};
    struct iovec iov;

    s->root = a_root(p);
    s->session = open_session(p->g);
    pack_files(p, &s->root, &pack);
    s->lies = roll(p, 2) == 0;
    if (pack.bytes.len == 0) {
        leave(p, s);
        return;
    }
    if (s->lies)
        make_it_lie(&pack);
    iov = (struct iovec){pack.bytes.data, pack.bytes.len};
    assert_ok(pl_object_put(p->g->w.objects, pl_pack_key("default", &pack.id, key), &iov, 1, true, &err), &err);
    s->brought =
        (struct pl_direct_upload){.project = "default", .pack = pack.id, .writer = "a stranger", .bytes = pack.bytes.len};
    pin(p, s, &pack.id);
    run(p, pl_tx_direct_upload_add, &s->brought);
    assert_ok(pl_store_add_pack(store_of(p->g), &pack.id, PL_DOUBT_UNREAD, &err), &err);
    pl_buf_finish(&pack.bytes);
}

/* It is read, unless it went before that; one that lies is taken out. */
static UNUSED void read_back(struct play *p, struct slot *s)
{
    struct pl_direct_upload_mismatch lie = {.pack = &s->brought, .why = "a byte is another"};
    char key[PL_PACK_KEY_BYTES];
    struct pl_err err = {0};
    uint64_t size;
    int r;

    pl_pack_key("default", &s->brought.pack, key);
    r = pl_object_size(p->g->w.objects, key, &size, &err);
    if (r == 0 && s->lies) {
        pl_store_drop_pack(store_of(p->g), &s->brought.pack);
        assert_ok(pl_db_run(p->g->w.db, PL_TX_LOGGED, pl_tx_direct_upload_quarantine, &lie, &err), &err);
        assert_ok(pl_object_remove(p->g->w.objects, key, &err), &err);
    } else {
        run(p, pl_tx_direct_upload_settle, &s->brought);
        pl_store_set_unread(store_of(p->g), &s->brought.pack, false);
    }
    leave(p, s);
}

/* ---- open commits ---- */

static UNUSED void begin_opens(struct play *p)
{
    char dir[PATH_MAX];
    struct pl_open_commits_config config = {
        .db = p->g->w.db, .stores = p->g->w.stores, .dir = dir, .finished = opens_finished, .self = p};
    struct pl_err err = {0};

    snprintf(dir, sizeof dir, "%s/data/open", p->g->w.dir);
    assert_ok(pl_pool_create("opens", 1, 64, &p->pool, &err), &err);
    config.pool = p->pool;
    assert_ok(pl_open_commits_open(&config, &p->opens, &err), &err);
}

static UNUSED void end_opens(struct play *p)
{
    pl_open_commits_stop(p->opens);
    p->pool = pl_pool_destroy(p->pool);
    p->opens = pl_open_commits_close(p->opens);
}

static UNUSED struct pl_open_commit *find_open(struct play *p, const struct slot *s)
{
    struct pl_open_commit *c;
    struct pl_err err = {0};

    assert_ok(pl_open_commits_find(p->opens, "default", "digits", s->id, false, &c, &err), &err);
    return c;
}

/* Operations that name what is in packs. */
static UNUSED void write_open(struct play *p, struct slot *s, struct pl_open_commit *c)
{
    struct open_waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    _cleanup_(pl_pack_set_finish) struct pl_pack_set hidden = {0};
    struct pl_store_hold hold;
    struct pl_tree_op *list;
    struct pl_err err = {0};
    char path[32];
    size_t n;

    pl_store_hold(store_of(p->g), &hold);
    bring_ops(p, s->seed, &s->ops);
    assert_ok(pl_tree_ops_read(s->ops.data, s->ops.len, &list, &n, &err), &err);
    snprintf(path, sizeof path, "o%zu", (size_t)(s - p->slots)); /* nobody else's: it is never a conflict */
    list[0].path = path;
    list[0].path_len = strlen(path);
    assert_ok(pl_db_check_content(store_of(p->g), list, 1, &hidden, NULL, &err), &err);
    assert_ok(pl_open_commit_revive(c, &hidden, &err), &err);
    w.write = (struct pl_open_commit_write){.ops = list, .n_ops = 1, .bytes = sizeof *list, .done = open_written};
    assert_ok(pl_open_commit_write(c, &w.write, &err), &err);
    pthread_mutex_lock(&w.lock);
    while (!w.over)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    assert_ok(w.result, &w.err);
    pl_store_release(&hold);
    free(list);
}

static UNUSED void begin_open(struct play *p, struct slot *s)
{
    const struct pl_open_commit_args args = {.project = "default", .repo = "digits", .branch = "master"};
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    struct pl_err err = {0};
    char put[32];

    assert_ok(pl_open_commits_start(p->opens, &args, &c, &err), &err);
    snprintf(s->id, sizeof s->id, "%s", pl_open_commit_head(c)->commit);
    write_open(p, s, c);
    snprintf(put, sizeof put, "+p%zu:3000", (size_t)(s - p->slots));
    assert_ok(open_put(c, put, 'x', &err), &err);
}

/* Only a deletion, of its base or of all that followed, keeps it from becoming a commit: no rule does. */
static UNUSED void assert_base_was_deleted(struct play *p, const struct pl_open_commit_file_head *head)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(p->g->w.db);
    int64_t deleted = 0;

    if (commits(p) == 0)
        return;
    assert_int_equal(pl_sql_int(rd.conn, NULL, &deleted, "SELECT count(*) FROM commit_gone WHERE run = ? AND why <> ?", "ss",
                                head->base, PL_RETENTION_GONE_OLD),
                     0);
    assert_int_equal(deleted, 1);
}

static UNUSED void end_open(struct play *p, struct slot *s, bool finish)
{
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = find_open(p, s);
    struct pl_push_result pushed;
    struct pl_err err = {0};
    int r = finish ? pl_open_commit_finish(c, "", &pushed, &err) : PL_ECONFLICT;

    p->pushes += r == 0;
    if (r == PL_ECONFLICT && finish)
        assert_base_was_deleted(p, pl_open_commit_head(c));
    if (r == PL_ECONFLICT)
        r = pl_open_commit_abort(c, "for the test", &err);
    assert_ok(r, &err);
    leave(p, s);
}

/* ---- one after another, at any moment ---- */

static UNUSED void begin_something(struct play *p)
{
    struct slot *s = p->slots;

    while (s < p->slots + SLOTS && s->who != NOBODY)
        s++;
    if (s == p->slots + SLOTS || commits(p) == 0)
        return;
    *s = (struct slot){.who = (enum who)(1 + roll(p, WHO - 1)), .seed = 1 + roll(p, 2)};
    p->came[s->who]++;
    if (s->who == TASK)
        lease(p, s);
    else if (s->who == READER)
        begin_to_read(p, s);
    else if (s->who == STAGE_JOB)
        begin_job(p, s);
    else if (s->who == OPEN)
        begin_open(p, s);
    else if (s->who == STRANGER)
        begin_stranger(p, s);
    else
        bring(p, s);
}

static UNUSED void end_something(struct play *p)
{
    struct slot *s = &p->slots[roll(p, SLOTS)];

    if (s->who == TASK)
        report(p, s);
    else if (s->who == STAGE_JOB)
        end_job(p, s, roll(p, 2) == 0);
    else if (s->who == OPEN)
        end_open(p, s, roll(p, 4) != 0);
    else if (s->who == STRANGER)
        read_back(p, s);
    else if (s->who == READER || roll(p, 4) == 0)
        leave(p, s);
    else if (s->who == TOLD)
        pin_all(p, s);
    else if (s->who != NOBODY)
        push_brought(p, s);
}

/* Two leases long: whatever they were told before is theirs by pins alone. What somebody was told is pinned before the second ends. */
static UNUSED void renew_all(struct play *p)
{
    for (size_t i = 0; i < SLOTS * 2; i++) {
        struct slot *s = &p->slots[i / 2];

        if (!lives(s) || (s->who == TOLD && s->renewed))
            continue;
        if (s->who == TASK)
            say_told(p, s);
        else
            run(p, pl_tx_upload_session_renew, &s->session);
        s->renewed = true;
    }
}

/* What the rules of both repos drop; others go on between its transactions. */
static UNUSED void keep_pass(struct play *p, bool (*meanwhile)(void *self))
{
    struct pl_retention_run pass = {.db = p->g->w.db, .stop = meanwhile, .self = p};
    struct pl_err err = {0};
    int r;

    assert_ok(pl_db_run(p->g->w.db, PL_TX_LOGGED, end_runs, NULL, &err), &err);
    r = pl_retention_run(&pass, &err);
    if (r != PL_ECANCELED)
        assert_ok(r, &err);
    json_decref(pass.report);
}

/* Leases run out, without a word; and what is kept for a day is so no more. */
static UNUSED void let_a_day_pass(struct play *p)
{
    seeded_wait_us(PL_RETENTION_DAY_US + 1);
    for (struct slot *s = p->slots; s < p->slots + SLOTS; s++) {
        s->session.id[0] = '\0';
        if (s->who == READER)
            leave(p, s);
        else if (s->who == SESSION || s->who == TOLD)
            s->who = LATE;
    }
}

/* ---- what must hold for them ---- */

static UNUSED void assert_pack_is_there(struct play *p, const struct pl_hash *pack)
{
    char key[PL_PACK_KEY_BYTES];
    struct pl_err err = {0};
    uint64_t size;

    assert_ok(pl_object_size(p->g->w.objects, pl_pack_key("default", pack, key), &size, &err), &err);
}

/* What it has brought itself is nobody's garbage. */
static UNUSED void assert_own_is_shown(struct play *p, const struct slot *s)
{
    struct pl_location at[BROUGHT_MAX];
    size_t n = locate_all(p, &s->ops, at);

    for (size_t i = 0; i < n; i++)
        assert_false(at[i].pack_no >= s->hold.packs && at[i].hidden);
}

static UNUSED void assert_chunk_reads(const struct pl_chunk_reader *reader, const struct pl_hash *id)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_err err = {0};

    assert_ok(reader->get(reader->self, id, PL_REC_CHUNK, &bytes, &err), &err);
}

static UNUSED void assert_tree_reads(const struct pl_node_source *source, const struct pl_chunk_reader *reader,
                                     const struct pl_hash *root)
{
    struct pl_tree_cursor *c;
    struct pl_tree_item item;
    struct pl_err err = {0};
    int r;

    assert_ok(pl_tree_cursor_create(source, root, NULL, 0, &c, &err), &err);
    while ((r = pl_tree_cursor_next(c, &item, &err)) > 0)
        if (reader && item.entry.content == PL_CONTENT_CHUNK)
            assert_chunk_reads(reader, &item.entry.id);
    assert_ok(r, &err);
    pl_tree_cursor_destroy(c);
}

static UNUSED void assert_open_reads(struct play *p, const struct slot *s)
{
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = find_open(p, s);
    struct pl_chunk_reader reader = pl_open_commit_reader(c);
    struct pl_open_commit_view view;
    struct pl_err err = {0};

    assert_ok(pl_open_commit_view_init(c, &view, &err), &err);
    assert_tree_reads(&view.source, &reader, &view.root);
    pl_open_commit_view_finish(&view);
}

static UNUSED void assert_job_reads(struct play *p, const struct slot *s)
{
    struct pl_node_source source = {store_of(p->g), pl_store_node_get};
    struct pl_chunk_reader reader = pl_store_chunk_reader(store_of(p->g));

    for (size_t i = 0; i < s->n_trees; i++)
        assert_tree_reads(&source, &reader, &s->trees[i]);
    for (size_t i = 0; i < s->n_chunks; i++)
        assert_chunk_reads(&reader, &s->chunks[i]);
}

/* What the stage's newest commit was planned over: the nodes alone. */
static UNUSED void assert_planned_reads(struct play *p)
{
    struct pl_node_source source = {store_of(p->g), pl_store_node_get};
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(p->g->w.db);
    _cleanup_free_ char *text = NULL;
    struct pl_hash root;

    if (pl_sql_text(rd.conn, NULL, &text,
                    "SELECT json_extract(j.inputs, '$[0].root') FROM branch b JOIN repo r ON r.id = b.repo JOIN commit_ c"
                    " ON c.id = b.head JOIN job j ON j.run = c.run WHERE r.name = 'train'",
                    "") < 0)
        return;
    assert_int_equal(pl_hash_parse(text, &root, NULL), 0);
    assert_tree_reads(&source, NULL, &root);
}

/* What nobody has read is known for that, and nobody is told of it. */
static UNUSED void assert_is_unread(struct pl_store *store, const struct pl_hash *pack)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_location at;
    struct pl_err err = {0};

    assert_true(pl_store_is_unread(store, pack));
    assert_ok(pl_store_pack_footer(store, pack, &f, &err), &err);
    for (uint32_t i = 0; i < f.count; i++)
        if (pl_store_has(store, &f.entries[i].id)) {
            assert_ok(pl_store_locate(store, &f.entries[i].id, &at, &err), &err);
            assert_false(at.unread);
        }
}

/* Those who ask are told of nothing that is condemned, and what is doomed nobody finds. */
static UNUSED void assert_is_seen_as(struct pl_store *store, const struct pl_hash *pack, const char *state)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_location at;

    if (pl_streq(state, PL_PACK_DOOMED)) {
        assert_false(pl_store_has_pack(store, pack));
        return;
    }
    if (pl_store_pack_footer(store, pack, &f, NULL) < 0) /* it was taken out by another way */
        return;
    for (uint32_t i = 0; i < f.count; i++)
        if (pl_store_locate(store, &f.entries[i].id, &at, NULL) == 0 && pl_hash_eq(&at.pack, pack)) {
            assert_true(at.hidden);
            assert_false(pl_store_has(store, &f.entries[i].id));
        }
}

static UNUSED void assert_states_are_seen(struct play *p, struct pl_store *store)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(p->g->w.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_err err = {0};

    assert_ok(pl_sql_query(rd.conn, &err, &rows, "SELECT pack, state FROM pack_state", ""), &err);
    while (pl_sql_next(rd.conn, &rows, &err) > 0) {
        struct pl_hash pack = pl_col_hash(&rows, 0);

        assert_is_seen_as(store, &pack, pl_col_text(&rows, 1));
    }
    for (const struct slot *s = p->slots; s < p->slots + SLOTS; s++)
        if (s->who == STRANGER)
            assert_is_unread(store, &s->brought.pack);
}

static UNUSED void assert_all_have_theirs(struct play *p)
{
    assert_planned_reads(p);
    for (const struct slot *s = p->slots; s < p->slots + SLOTS; s++) {
        if (s->who == STAGE_JOB)
            assert_job_reads(p, s);
        if (s->who == OPEN)
            assert_open_reads(p, s);
        for (size_t i = 0; i < s->n_pins && s->who != LATE && (s->who != STRANGER || lives(s)); i++)
            assert_pack_is_there(p, &s->pins[i]);
        if (s->who == OWN_WORK)
            assert_own_is_shown(p, s);
    }
}
