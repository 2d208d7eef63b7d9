/* The thread that writes to open commits. It takes the writes that wait for one commit as a group, checks
 * them in order, appends them with one fdatasync, and answers them. It also finishes commits that are due. */
#include "pipelined/db/open_commits/branch_view.h"
#include "pipelined/db/open_commits/open_commits_internal.h"

#include "storage/base/clock.h"
#include "storage/base/map.h"
#include "storage/chunk/codec.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/store.h"
#include "storage/system/log_line.h"

#include <time.h>

#define GROUP_BYTES ((size_t)32 << 20)

/* ---- one group of writes ---- */

struct group {
    struct pl_open_commit *c;
    struct pl_op_set request, ops;
    struct pl_op_overlay overlay;
    struct pl_op_record *records;
    size_t n, cap;
    struct pl_map ids; /* ids of the records in `records` */
    const char *message;
};

static int add_record(struct group *g, const struct pl_op_record *record, struct pl_err *err)
{
    int r;

    if (pl_open_commit_file_has(g->c->spool, &record->id) || pl_map_get(&g->ids, record->id.b, PL_HASH_BYTES))
        return 0;
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 64;
        struct pl_op_record *records = reallocarray(g->records, cap, sizeof *records);

        if (!records)
            return pl_err_nomem(err);
        g->records = records;
        g->cap = cap;
    }
    r = pl_map_put(&g->ids, record->id.b, PL_HASH_BYTES, g, NULL, err);
    if (r == 0)
        g->records[g->n++] = *record;
    return r;
}

/* Checks that the commit stays within its limits with the group's operations added. Must be called before the
 * append: at a restart, the daemon loads all operations in the commit's file into memory. */
static int check_bounds(const struct group *g, struct pl_err *err)
{
    const struct pl_open_commit *c = g->c;
    size_t items = c->table.n + g->ops.n + g->request.n, bytes = g->ops.bytes + g->request.bytes;

    if (items > PL_TREE_OPS_MAX)
        return pl_err_set(err, PL_ELIMIT, "the open commit has more than %u operations: finish it first", PL_TREE_OPS_MAX);
    if (c->table.bytes + bytes > PL_OPEN_COMMIT_BYTES_MAX)
        return pl_err_set(err, PL_ELIMIT, "paths and entries of the open commit take more than %zu MiB: finish it first",
                          PL_OPEN_COMMIT_BYTES_MAX >> 20);
    if (atomic_load(&c->o->bytes) + bytes > PL_OPEN_COMMITS_BYTES_MAX)
        return pl_err_set(err, PL_ELIMIT, "paths and entries of all open commits take more than %zu MiB: finish some",
                          PL_OPEN_COMMITS_BYTES_MAX >> 20);
    return 0;
}

/* Looks up the current file at a path, in this group, then in the gathering commits, then in the head.
 * Returns 1, or 0 when there is no file. */
static int look_now(struct group *g, const struct pl_tree_op *at, struct pl_branch_file *ret, struct pl_err *err)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(g->c);
    _cleanup_(pl_branch_view_finish) struct pl_branch_view view = {0};
    struct pl_tree_op op;
    int r;

    switch (pl_op_set_look(&g->ops, at->path, at->path_len, &op)) {
    case PL_OP_GONE:
        return 0;
    case PL_OP_THERE:
        ret->entry = op.entry;
        r = op.attributes.len ? pl_buf_add(&ret->attributes, op.attributes.data, op.attributes.len, err) : 0;
        return r < 0 ? r : 1;
    case PL_OP_UNKNOWN:
        break;
    }
    r = pl_branch_view_init(g->c->o->config.heads, g->c->o, g->c->store, h->repo, h->branch, &view, err);
    r = r < 0 ? r : pl_branch_view_get(&view, at->path, at->path_len, ret, err);
    ret->open = NULL; /* destroying `view` releases the reference to ret->open */
    return r;
}

static int check(struct group *g, struct pl_open_commit_write *w, struct pl_err *err)
{
    _cleanup_(pl_branch_file_finish) struct pl_branch_file now = {0};
    int r = look_now(g, &w->ops[0], &now, err);

    return r < 0 ? r : w->check(w, r > 0 ? &now : NULL, err);
}

static int take(struct group *g, struct pl_open_commit_write *w, struct pl_err *err)
{
    int r = w->check && w->n_ops ? check(g, w, err) : 0;

    r = r < 0 ? r : pl_op_overlay_add_all(&g->overlay, w->ops, w->n_ops, err);
    r = r < 0 ? r : check_bounds(g, err);
    r = r < 0 ? r : pl_op_set_reserve(&g->ops, &g->request, err);
    for (size_t i = 0; i < w->n_records && r == 0; i++)
        r = add_record(g, &w->records[i], err);
    if (r == 0) {
        pl_op_set_take(&g->ops, &g->request);
        g->message = w->message && *w->message ? w->message : g->message;
    }
    pl_op_set_finish(&g->request);
    return r;
}

/* True if the operations refer to content that the store has and the spool does not have: its pack may not be
 * durable yet, so the store must be flushed. True for any list, because its pieces are not checked. */
static bool stands_on_packs(const struct group *g)
{
    struct pl_op_set_cursor cursor = pl_op_set_seek(&g->ops, "", 0);
    struct pl_tree_op op;

    while (pl_op_set_cursor_next(&cursor, &op)) {
        if (op.op != PL_TREE_PUT && op.op != PL_TREE_REPLACE)
            continue;
        if (op.entry.content == PL_CONTENT_LIST)
            return true;
        if (op.entry.content == PL_CONTENT_CHUNK && !pl_map_get(&g->ids, op.entry.id.b, PL_HASH_BYTES) &&
            !pl_open_commit_file_has(g->c->spool, &op.entry.id))
            return true;
    }
    return false;
}

/* Makes the group durable: checks that this daemon still owns the log, flushes the store if needed, and
 * appends the group to the spool. */
static int make_durable(struct group *g, struct pl_err *err)
{
    struct pl_open_commit *c = g->c;
    size_t before;
    int r = 0;

    /* One check per group is needed: what a fenced daemon acknowledges would be lost. If the repo has durable
     * set to "bucket", the check is made after the put of the object instead. */
    if (!pl_open_commit_head(c)->bucket)
        r = pl_db_check_owner(c->o->config.db, err);
    if (r == 0 && stands_on_packs(g))
        r = pl_store_flush(c->store, err);
    /* reserve memory in c->table first, because adding the group to it must not fail after the append */
    pthread_mutex_lock(&c->lock);
    r = r < 0 ? r : pl_op_set_reserve(&c->table, &g->ops, err);
    pthread_mutex_unlock(&c->lock);
    if (r == 0 && (g->ops.n || g->n))
        r = pl_open_commit_file_append(c->spool, g->records, g->n, &g->ops, g->message, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&c->lock);
    before = c->table.bytes;
    pl_open_commit_group_durable(c, &g->ops);
    atomic_fetch_add(&c->o->bytes, c->table.bytes - before);
    pthread_mutex_unlock(&c->lock);
    return 0;
}

static void write_group(struct pl_open_commit *c, struct pl_open_commit_write *writes)
{
    struct group g = {.c = c};
    struct pl_err err = {0};
    int r;

    g.overlay = (struct pl_op_overlay){.layers = {&g.request, &g.ops, &c->table}, .n = 3, .base = c->base};
    for (struct pl_open_commit_write *w = writes; w; w = w->next)
        w->result = take(&g, w, &w->err);
    r = make_durable(&g, &err);
    for (struct pl_open_commit_write *w = writes; w && r < 0; w = w->next) {
        if (w->result == 0) {
            w->result = r;
            w->err = err;
        }
    }
    pl_op_set_finish(&g.ops);
    pl_map_finish(&g.ids, NULL);
    free(g.records);
}

/* ---- packs ---- */

int pl_open_commit_pack_records(struct pl_open_commit *c, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(c->store);
    uint64_t group;
    int r = pl_pack_builder_open(&sink, pl_open_commit_head(c)->project, &session, err);

    r = r < 0 ? r : pl_open_commit_file_pack(c->spool, session, &group, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&c->o->lock);
    c->packed_group = PL_MAX(c->packed_group, group);
    pthread_mutex_unlock(&c->o->lock);
    return 0;
}

static void pack_job(void *arg)
{
    struct pl_open_commit *c = arg;
    struct pl_open_commits *o = c->o;
    struct pl_err err = {0};
    bool still;

    pthread_mutex_lock(&o->lock);
    still = c->state == PL_OPEN_OPEN; /* if the commit is ending, the thread that ends it packs the rest itself */
    pthread_mutex_unlock(&o->lock);
    if (still && pl_open_commit_pack_records(c, &err) < 0)
        pl_log_warn("open", "open commit %.8s: cannot move its records into a pack, will retry: %s",
                    pl_open_commit_head(c)->commit, err.msg);
    pthread_mutex_lock(&o->lock);
    c->packing = false;
    o->jobs--;
    pthread_cond_broadcast(&o->ended);
    pthread_mutex_unlock(&o->lock);
    pl_open_commit_unref(c);
}

/* Marks what the last pack job has packed, and starts a new job when the spool has enough unpacked records. */
static void look_after_packs(struct pl_open_commit *c)
{
    struct pl_open_commits *o = c->o;
    struct pl_err err = {0};
    uint64_t group;
    bool begin;

    pthread_mutex_lock(&o->lock);
    group = c->packed_group;
    pthread_mutex_unlock(&o->lock);
    if (pl_open_commit_file_mark_packed(c->spool, group, &err) < 0)
        pl_log_warn("open", "commit %.8s: %s", pl_open_commit_head(c)->commit, err.msg);
    if (pl_open_commit_file_unpacked_bytes(c->spool) < PL_OPEN_COMMIT_PACK_BYTES)
        return;
    pthread_mutex_lock(&o->lock);
    begin = !c->packing && !o->stopping;
    if (begin) {
        c->packing = true;
        c->refs++;
        o->jobs++;
    }
    pthread_mutex_unlock(&o->lock);
    if (begin && pl_pool_submit(o->config.pool, pack_job, c, NULL) < 0)
        pack_job(c); /* the pool is full: pack on this thread, while writers wait */
}

/* ---- the queue ---- */

int pl_open_commit_write(struct pl_open_commit *c, struct pl_open_commit_write *w, struct pl_err *err)
{
    struct pl_open_commits *o = c->o;
    int r = 0;

    w->next = NULL;
    pthread_mutex_lock(&o->lock);
    while (o->queue_bytes >= PL_OPEN_COMMIT_QUEUE_BYTES && !o->stopping)
        pthread_cond_wait(&o->room, &o->lock);
    if (o->stopping)
        r = pl_err_set(err, PL_ESTOPPING, "the daemon is stopping");
    else if (c->state != PL_OPEN_OPEN)
        r = pl_err_set(err, PL_ERETRY, "commit %.8s is not open any more", pl_open_commit_head(c)->commit);
    if (r == 0) {
        c->last_ms = c->idle_since_ms = pl_clock_mono_ms();
        if (!c->written)
            c->first_ms = c->last_ms;
        c->written = true;
        *(c->first ? &c->last->next : &c->first) = w;
        c->last = w;
        c->pending++;
        o->queue_bytes += w->bytes;
        if (!c->ready) {
            c->ready = true;
            c->next_ready = NULL;
            *(o->ready_first ? &o->ready_last->next_ready : &o->ready_first) = c;
            o->ready_last = c;
            pthread_cond_signal(&o->wake);
        }
    }
    pthread_mutex_unlock(&o->lock);
    return r;
}

bool pl_open_commit_has(struct pl_open_commit *c, const struct pl_hash *id)
{
    return pl_store_has(c->store, id) || pl_open_commit_file_has(c->spool, id);
}

/* Takes the first write that waits for `c`, and as many after it as GROUP_BYTES allows. Caller holds the
 * lock. */
static struct pl_open_commit_write *take_writes(struct pl_open_commits *o, struct pl_open_commit *c)
{
    struct pl_open_commit_write *writes = c->first, *w = writes;
    size_t bytes = w->bytes;

    while (w->next && bytes + w->next->bytes <= GROUP_BYTES) {
        w = w->next;
        bytes += w->bytes;
    }
    c->first = w->next;
    w->next = NULL;
    if (c->first) { /* the remaining writes wait at the end of the queue, behind those of other commits */
        c->next_ready = NULL;
        *(o->ready_first ? &o->ready_last->next_ready : &o->ready_first) = c;
        o->ready_last = c;
    } else {
        c->ready = false;
    }
    return writes;
}

static void answer(struct pl_open_commit *c, struct pl_open_commit_write *writes)
{
    struct pl_open_commits *o = c->o;
    struct pl_open_commit_write *next;
    size_t n = 0, bytes = 0;

    for (struct pl_open_commit_write *w = writes; w; w = next) {
        next = w->next;
        n++;
        bytes += w->bytes;
        w->done(w, w->result, &w->err);
    }
    pthread_mutex_lock(&o->lock);
    c->pending -= n;
    o->queue_bytes -= bytes;
    pthread_cond_broadcast(&o->room);
    pthread_cond_broadcast(&o->ended);
    pthread_mutex_unlock(&o->lock);
}

static void work(struct pl_open_commits *o, struct pl_open_commit *c)
{
    struct pl_open_commit_write *writes;

    pthread_mutex_lock(&o->lock);
    writes = take_writes(o, c);
    pthread_mutex_unlock(&o->lock);
    write_group(c, writes);
    answer(c, writes);
    look_after_packs(c);
}

/* Returns a reference to the next commit that has writes waiting; NULL: the thread must end. Caller holds the
 * lock. */
static struct pl_open_commit *next_ready(struct pl_open_commits *o)
{
    struct pl_open_commit *c;

    while (!o->ready_first && !o->stopping) {
        int64_t due = pl_open_commits_due(o, pl_clock_mono_ms());
        struct timespec until = {.tv_sec = due / 1000, .tv_nsec = due % 1000 * 1000000};

        if (!o->ready_first && !o->stopping)
            pthread_cond_timedwait(&o->wake, &o->lock, &until);
    }
    c = o->ready_first;
    if (c) {
        o->ready_first = c->next_ready;
        c->refs++;
    }
    return c;
}

static void *writer_main(void *arg)
{
    struct pl_open_commits *o = arg;
    struct pl_open_commit *c;

    pthread_setname_np(pthread_self(), "open-writer");
    for (;;) {
        pthread_mutex_lock(&o->lock);
        c = next_ready(o);
        pthread_mutex_unlock(&o->lock);
        if (!c)
            return NULL;
        work(o, c);
        pl_open_commit_unref(c);
    }
}

int pl_open_commits_writer_start(struct pl_open_commits *o, struct pl_err *err)
{
    if (pthread_create(&o->thread, NULL, writer_main, o) != 0)
        return pl_err_nomem(err);
    o->thread_started = true;
    return 0;
}

void pl_open_commits_writer_stop(struct pl_open_commits *o)
{
    if (!o->thread_started)
        return;
    pthread_mutex_lock(&o->lock);
    o->stopping = true;
    pthread_cond_broadcast(&o->wake);
    pthread_cond_broadcast(&o->room);
    pthread_cond_broadcast(&o->ended);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    o->thread_started = false;
}
