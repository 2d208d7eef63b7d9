/* opens_world: db_world's store and database with open commits, a fixed workload on these, and what is there after each step, as text. */
#pragma once

#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/open_commits/open_commits.h"
#include "pipelined/db/tx/repo_tx.h"

#include <pthread.h>

enum open_step_kind { OPEN_START, OPEN_PUT, OPEN_NAME, OPEN_PACK, OPEN_FINISH, OPEN_GATHER, OPEN_FLUSH, OPEN_ABORT };

/* `puts` as in db_world; the files of step number 0 are full of 'a', those of 1 of 'b', … . OPEN_NAME: the
 * bytes are in a pack that no flush has seen, and are named alone. `after`: the state, see opens_state. Repo
 * "digits" gathers, "vault" is durable: bucket. */
struct open_step {
    enum open_step_kind kind;
    const char *repo, *puts, *after;
};

static const struct open_step open_steps[] = {
    {OPEN_START, "digits", "", "digits [started]; vault"},
    {OPEN_PUT, "digits", "+a:10 +b:3000", "digits [started a:10:b b:3000:b]; vault"},
    {OPEN_PUT, "digits", "-a +c/x:70 +c/y:3000", "digits [started b:3000:b c/x:70:c c/y:3000:c]; vault"},
    {OPEN_PACK, "digits", "", "digits [started b:3000:b c/x:70:c c/y:3000:c]; vault"},
    {OPEN_PUT, "digits", "+b:3001 !c +d:5", "digits [started b:3001:e d:5:e]; vault"},
    {OPEN_FINISH, "digits", "", "digits b:3001:e d:5:e; vault"},
    {OPEN_GATHER, "digits", "", "digits b:3001:e d:5:e [gathers b:3001:e d:5:e]; vault"},
    {OPEN_PUT, "digits", "+a:65", "digits b:3001:e d:5:e [gathers a:65:h b:3001:e d:5:e]; vault"},
    {OPEN_PUT, "digits", "!b +f/g:3000", "digits b:3001:e d:5:e [gathers a:65:h d:5:e f/g:3000:i]; vault"},
    {OPEN_FLUSH, "digits", "", "digits a:65:h d:5:e f/g:3000:i; vault"},
    {OPEN_START, "vault", "", "digits a:65:h d:5:e f/g:3000:i; vault [started]"},
    {OPEN_PUT, "vault", "+v:3000 +w:1", "digits a:65:h d:5:e f/g:3000:i; vault [started v:3000:l w:1:l]"},
    {OPEN_FINISH, "vault", "", "digits a:65:h d:5:e f/g:3000:i; vault v:3000:l w:1:l"},
    {OPEN_START, "digits", "", "digits a:65:h d:5:e f/g:3000:i [started a:65:h d:5:e f/g:3000:i]; vault v:3000:l w:1:l"},
    {OPEN_PUT, "digits", "!f +z:70", "digits a:65:h d:5:e f/g:3000:i [started a:65:h d:5:e z:70:o]; vault v:3000:l w:1:l"},
    {OPEN_ABORT, "digits", "", "digits a:65:h d:5:e f/g:3000:i; vault v:3000:l w:1:l"},
    {OPEN_GATHER, "digits", "", "digits a:65:h d:5:e f/g:3000:i [gathers a:65:h d:5:e f/g:3000:i]; vault v:3000:l w:1:l"},
    {OPEN_PUT, "digits", "-d +e:7", "digits a:65:h d:5:e f/g:3000:i [gathers a:65:h e:7:r f/g:3000:i]; vault v:3000:l w:1:l"},
    {OPEN_FINISH, "digits", "", "digits a:65:h e:7:r f/g:3000:i; vault v:3000:l w:1:l"},
    {OPEN_START, "digits", "", "digits a:65:h e:7:r f/g:3000:i [started a:65:h e:7:r f/g:3000:i]; vault v:3000:l w:1:l"},
    {OPEN_NAME, "digits", "-e !f +n:3000", "digits a:65:h e:7:r f/g:3000:i [started a:65:h n:3000:u]; vault v:3000:l w:1:l"},
    {OPEN_FINISH, "digits", "", "digits a:65:h n:3000:u; vault v:3000:l w:1:l"},
    {OPEN_START, "vault", "", "digits a:65:h n:3000:u; vault v:3000:l w:1:l [started v:3000:l w:1:l]"},
    {OPEN_NAME, "vault", "+v:70", "digits a:65:h n:3000:u; vault v:3000:l w:1:l [started v:70:x w:1:l]"},
    {OPEN_FINISH, "vault", "", "digits a:65:h n:3000:u; vault v:70:x w:1:l"},
};
#define OPEN_STEPS PL_ARRAY_SIZE(open_steps)

struct opens_world {
    struct world w;
    struct pl_pool *pool;
    struct pl_open_commits *opens;
    int64_t retry_ms; /* pl_open_commits_config */
};

static UNUSED void opens_finished(void *self, const char *run)
{
    (void)self;
    (void)run;
}

/* Of the writes of these tests: whoever waits is told. */
struct open_waiter {
    struct pl_open_commit_write write; /* first */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool over;
    int result;
    struct pl_err err;
};

static UNUSED void open_written(struct pl_open_commit_write *w, int r, const struct pl_err *err)
{
    struct open_waiter *o = (struct open_waiter *)w;

    pthread_mutex_lock(&o->lock);
    o->over = true;
    o->result = r;
    if (r < 0)
        o->err = *err;
    pthread_cond_signal(&o->cond);
    pthread_mutex_unlock(&o->lock);
}

#define OPEN_OPS_MAX 8

/* One put, with the bytes it brings; `letter` fills the files. */
struct open_put {
    struct open_waiter waiter; /* first */
    struct pl_tree_op ops[OPEN_OPS_MAX];
    struct word words[OPEN_OPS_MAX];
    struct pl_op_record records[OPEN_OPS_MAX];
    uint8_t bytes[OPEN_OPS_MAX][4096];
};

static UNUSED void open_put_word(struct open_put *p, size_t i, char letter)
{
    const struct word *w = &p->words[i];
    struct pl_tree_op *op = &p->ops[i];

    op->path = w->path;
    op->path_len = strlen(w->path);
    op->op = w->op == '+' ? PL_TREE_PUT : w->op == '-' ? PL_TREE_DELETE : PL_TREE_DELETE_PREFIX;
    if (w->op != '+')
        return;
    assert_true(w->size <= sizeof p->bytes[i]);
    memset(p->bytes[i], letter, w->size);
    if (w->size <= PL_INLINE_MAX_BYTES) {
        op->entry = pl_entry_inline(PL_KIND_FILE, p->bytes[i], w->size);
    } else {
        struct pl_op_record *r = &p->records[p->waiter.write.n_records++];

        *r = (struct pl_op_record){
            .kind = PL_REC_CHUNK, .raw = (uint32_t)w->size, .stored = (uint32_t)w->size, .bytes = p->bytes[i]};
        pl_hash_sha256(p->bytes[i], w->size, &r->id);
        op->entry = pl_entry_chunk(PL_KIND_FILE, w->size, &r->id);
    }
}

/* What the put brings goes into a pack that is not flushed, and is not sent along. */
static UNUSED int open_put_aside(struct pl_open_commit *c, struct open_put *p, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(pl_open_commit_store(c));
    struct pl_open_commit_write *w = &p->waiter.write;
    struct pl_hash id;
    int r;

    sink.flush = NULL;
    r = pl_pack_builder_open(&sink, "default", &session, err);
    for (size_t i = 0; i < w->n_records && r == 0; i++)
        r = pl_pack_builder_add(session, p->records[i].kind, p->records[i].bytes, p->records[i].raw, &id, err);
    w->n_records = 0;
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

static UNUSED int open_put_wait(struct pl_open_commit *c, struct open_waiter *w, struct pl_err *err)
{
    int r = pl_open_commit_write(c, &w->write, err);

    if (r < 0)
        return r;
    pthread_mutex_lock(&w->lock);
    while (!w->over)
        pthread_cond_wait(&w->cond, &w->lock);
    pthread_mutex_unlock(&w->lock);
    if (w->result < 0)
        *err = w->err;
    return w->result;
}

/* Writes and waits for the answer. `aside`: see open_put_aside. */
static UNUSED int open_put_as(struct pl_open_commit *c, const char *puts, char letter, bool aside, struct pl_err *err)
{
    struct open_put *p = FIXTURE_MALLOC(sizeof *p);
    size_t n = 0;
    int r;

    *p = (struct open_put){.waiter = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER}};
    while (next_word(&puts, &p->words[n]))
        open_put_word(p, n++, letter);
    p->waiter.write.ops = p->ops;
    p->waiter.write.n_ops = n;
    p->waiter.write.records = p->records;
    p->waiter.write.bytes = sizeof *p;
    p->waiter.write.done = open_written;
    r = aside ? open_put_aside(c, p, err) : 0;
    r = r < 0 ? r : open_put_wait(c, &p->waiter, err);
    free(p);
    return r;
}

static UNUSED int open_put(struct pl_open_commit *c, const char *puts, char letter, struct pl_err *err)
{
    return open_put_as(c, puts, letter, false, err);
}

static UNUSED void opens_world_close(struct opens_world *o)
{
    pl_open_commits_stop(o->opens);
    o->pool = pl_pool_destroy(o->pool);
    o->opens = pl_open_commits_close(o->opens);
    world_close(&o->w);
}

static UNUSED int opens_make_repo(struct opens_world *o, const char *name, int64_t window_ms, const char *durable,
                                  struct pl_err *err)
{
    struct pl_repo_args a = {.project = "default",
                             .name = name,
                             .exist_ok = true,
                             .set_window = true,
                             .commit_window_ms = window_ms,
                             .durable = durable};

    return pl_db_run(o->w.db, PL_TX_LOGGED, pl_tx_repo_create, &a, err);
}

static UNUSED int opens_world_open(struct opens_world *o, struct pl_err *err)
{
    char dir[PATH_MAX];
    struct pl_open_commits_config config = {.finished = opens_finished, .self = o, .dir = dir};
    int r = world_open(&o->w, "data", err);

    snprintf(dir, sizeof dir, "%s/data/open", o->w.dir);
    r = r < 0 ? r : opens_make_repo(o, "digits", PL_REPO_COMMIT_WINDOW_MAX_MS, "local", err);
    r = r < 0 ? r : opens_make_repo(o, "vault", 0, "bucket", err);
    r = r < 0 ? r : pl_pool_create("opens", 1, 64, &o->pool, err);
    config.db = o->w.db;
    config.stores = o->w.stores;
    config.pool = o->pool;
    config.retry_ms = o->retry_ms;
    r = r < 0 ? r : pl_open_commits_open(&config, &o->opens, err);
    if (r < 0)
        opens_world_close(o);
    return r;
}

static UNUSED int opens_step_on(struct pl_open_commit *c, const struct open_step *s, char letter, struct pl_err *err)
{
    struct pl_push_result pushed;
    struct pl_hash root;

    switch (s->kind) {
    case OPEN_PUT:
    case OPEN_NAME:
        return open_put_as(c, s->puts, letter, s->kind == OPEN_NAME, err);
    case OPEN_PACK:
        return pl_open_commit_pack(c, &root, err);
    case OPEN_FINISH:
        return pl_open_commit_finish(c, "", &pushed, err);
    default:
        return pl_open_commit_abort(c, "for the test", err);
    }
}

static UNUSED int opens_step(struct opens_world *o, size_t step, struct pl_err *err)
{
    const struct open_step *s = &open_steps[step];
    const struct pl_open_commit_args args = {.project = "default", .repo = s->repo, .branch = "master"};
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    int r;

    if (s->kind == OPEN_START)
        return pl_open_commits_start(o->opens, &args, &c, err);
    if (s->kind == OPEN_GATHER)
        return pl_open_commits_gather(o->opens, &args, PL_REPO_COMMIT_WINDOW_MAX_MS, &c, err);
    if (s->kind == OPEN_FLUSH)
        return pl_open_commits_flush(o->opens, "default", s->repo, "master", err);
    r = pl_open_commits_find(o->opens, "default", s->repo, "master", true, &c, err);
    return r < 0 ? r : opens_step_on(c, s, (char)('a' + step), err);
}

/* ---- what is there ---- */

static UNUSED void opens_read(const struct pl_chunk_reader *reader, const struct pl_entry *e, struct pl_buf *ret)
{
    struct pl_err err = {0};

    if (e->content == PL_CONTENT_INLINE)
        assert_int_equal(pl_buf_add(ret, e->data, e->size, NULL), 0);
    else
        assert_ok(reader->get(reader->self, &e->id, PL_REC_CHUNK, ret, &err), &err);
}

/* " path:bytes:letter" of each file. */
static UNUSED void opens_describe(const struct pl_node_source *source, const struct pl_hash *root,
                                  const struct pl_chunk_reader *reader, struct pl_buf *out)
{
    struct pl_tree_cursor *c;
    struct pl_tree_item item;
    struct pl_err err = {0};
    int r;

    assert_ok(pl_tree_cursor_create(source, root, NULL, 0, &c, &err), &err);
    while ((r = pl_tree_cursor_next(c, &item, &err)) > 0) {
        struct pl_buf bytes = {0};

        opens_read(reader, &item.entry, &bytes);
        for (size_t i = 1; i < bytes.len; i++)
            assert_int_equal(bytes.data[i], bytes.data[0]);
        assert_int_equal(pl_buf_addf(out, NULL, " %s:%zu:%c", item.path, bytes.len, bytes.len ? bytes.data[0] : '-'), 0);
        pl_buf_finish(&bytes);
    }
    assert_ok(r, &err);
    pl_tree_cursor_destroy(c);
}

static UNUSED int opens_describe_open(void *self, struct pl_open_commit *c)
{
    _cleanup_(pl_open_commit_view_finish) struct pl_open_commit_view view = {0};
    const struct pl_chunk_reader reader = pl_open_commit_reader(c);
    struct pl_buf *out = self;
    struct pl_err err = {0};

    assert_int_equal(pl_buf_addf(out, NULL, " [%s", pl_open_commit_head(c)->gathered ? "gathers" : "started"), 0);
    assert_ok(pl_open_commit_view_init(c, &view, &err), &err);
    opens_describe(&view.source, &view.root, &reader, out);
    assert_int_equal(pl_buf_add_str(out, "]", NULL), 0);
    return 0;
}

static UNUSED void opens_describe_head(struct opens_world *o, const char *repo, struct pl_buf *out)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = world_read(o->w.db);
    struct pl_store *store;
    struct pl_commit_row row;
    struct pl_chunk_reader reader;
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_err err = {0};

    assert_ok(pl_project_stores_get(o->w.stores, "default", &store, &err), &err);
    reader = pl_store_chunk_reader(store);
    source.self = store;
    if (pl_db_commit_named(rd.conn, "default", repo, "master", &row, &err) == 0)
        opens_describe(&source, &row.root, &reader, out);
}

/* "repo path:bytes:letter … [open ones, each with its files]; repo …", malloc'ed. */
static UNUSED char *opens_state(struct opens_world *o)
{
    static const char *const repos[] = {"digits", "vault"};
    struct pl_buf out = {0};

    for (size_t i = 0; i < PL_ARRAY_SIZE(repos); i++) {
        assert_int_equal(pl_buf_addf(&out, NULL, "%s%s", i ? "; " : "", repos[i]), 0);
        opens_describe_head(o, repos[i], &out);
        assert_int_equal(pl_open_commits_each(o->opens, "default", repos[i], opens_describe_open, &out), 0);
    }
    return pl_buf_take_str(&out);
}

/* After so many steps. */
static UNUSED const char *opens_expected(size_t steps)
{
    return steps ? open_steps[steps - 1].after : "digits; vault";
}

/* Files in DIR/open: one an open commit, and nothing else. */
static UNUSED size_t opens_files(struct opens_world *o)
{
    return fixture_count(fixture_path(o->w.dir, "data/open"));
}
