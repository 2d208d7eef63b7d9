/* Checks the packs with several threads, in order of id. Each thread takes the next pack that is not done. */
#include "storage/dataset/fsck/fsck_internal.h"

#include "storage/system/thread_pool.h"

/* One pass over all packs. The lock of `f` guards next, done, first_open, n_done, result and err. */
struct pass {
    struct pl_fsck *f;
    struct pl_hash *packs; /* ids of all packs, ascending */
    bool *done;
    size_t n, next;
    size_t first_open; /* number of the first pack that is not done */
    size_t n_done;
    int result;
    struct pl_err err;
};

static void pass_finish(struct pass *p)
{
    free(p->packs);
    free(p->done);
}

/* A pack being checked by one thread. */
struct one {
    struct pl_fsck *f;
    const struct pl_hash *pack;
    uint64_t findings;
    int result; /* 0, or the negative error code with which reporting a finding failed */
    struct pl_err err;
};

static void bad_record(void *arg, const struct pl_pack_entry *e, const struct pl_err *why)
{
    struct one *o = arg;
    struct pl_fsck_finding finding = {.what = why->msg, .pack = o->pack, .id = &e->id};
    int r = 0;

    o->findings++;
    if (o->result < 0)
        return;
    pthread_mutex_lock(&o->f->lock);
    if (o->f->damaged.len < PL_FSCK_DAMAGED_MAX)
        r = pl_map_put(&o->f->damaged, e->id.b, PL_HASH_BYTES, o->f, NULL, &o->err);
    if (r == 0)
        r = pl_fsck_tell(o->f, &finding, &o->err);
    pthread_mutex_unlock(&o->f->lock);
    o->result = PL_MIN(r, 0);
}

/* Reports a damaged pack. A pack that garbage collection removed meanwhile is not a finding. */
static int bad_pack(struct pl_fsck *f, const struct pl_hash *pack, int r, const struct pl_err *why, struct pl_err *err)
{
    struct pl_fsck_finding finding = {.what = why->msg, .pack = pack};

    if (!pl_fsck_is_damage(r)) {
        *err = *why;
        return r;
    }
    if (!pl_store_has_pack(f->store, pack))
        return 0;
    pthread_mutex_lock(&f->lock);
    r = pl_map_put(&f->bad_packs, pack->b, PL_HASH_BYTES, f, NULL, err);
    r = r < 0 ? r : pl_fsck_tell(f, &finding, err);
    pthread_mutex_unlock(&f->lock);
    return PL_MIN(r, 0);
}

static int read_pack(struct pl_fsck *f, const struct pl_hash *pack, uint32_t count, struct pl_err *err)
{
    struct one o = {.f = f, .pack = pack};
    struct pl_err why = {0};
    int r = pl_store_verify_pack(f->store, pack, bad_record, &o, &why);

    pthread_mutex_lock(&f->lock);
    f->report.records += count - PL_MIN(o.findings, (uint64_t)count);
    pthread_mutex_unlock(&f->lock);
    if (o.result < 0) {
        *err = o.err;
        return o.result;
    }
    if (r < 0 && (o.findings == 0 || !pl_fsck_is_damage(r)))
        return bad_pack(f, pack, r, &why, err);
    return 0;
}

static int check_pack(struct pl_fsck *f, const struct pl_hash *pack, struct pl_err *err)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer footer = {0};
    struct pl_err why = {0};
    int r = pl_fsck_stopped(f, err);

    if (r < 0)
        return r;
    r = pl_store_pack_footer(f->store, pack, &footer, &why);
    if (r < 0)
        return bad_pack(f, pack, r, &why, err);
    return f->options->full ? read_pack(f, pack, footer.count, err) : 0;
}

/* Marks a pack as done and reports the progress. With the lock held. */
static int note_done(struct pass *p, size_t at, struct pl_err *err)
{
    const struct pl_fsck_options *o = p->f->options;
    struct pl_fsck_progress progress = {.stage = "packs", .total = p->n};

    p->f->report.packs++;
    p->done[at] = true;
    p->n_done++;
    while (p->first_open < p->n && p->done[p->first_open])
        p->first_open++;
    progress.done = p->n_done;
    progress.upto = p->first_open ? &p->packs[p->first_open - 1] : NULL;
    return o->progress ? o->progress(o->self, &progress, err) : 0;
}

/* The function of each thread: checks pack after pack until none is left or an error occurs in any thread. */
static void work(void *arg)
{
    struct pass *p = arg;

    pthread_mutex_lock(&p->f->lock);
    while (p->result == 0) {
        struct pl_err err = {0};
        size_t at;
        int r;

        while (p->next < p->n && p->done[p->next])
            p->next++;
        if (p->next == p->n)
            break;
        at = p->next++;
        pthread_mutex_unlock(&p->f->lock);
        r = check_pack(p->f, &p->packs[at], &err);
        pthread_mutex_lock(&p->f->lock);
        r = r < 0 ? r : note_done(p, at, &err);
        if (r < 0 && p->result == 0) {
            p->result = r;
            p->err = err;
        }
    }
    pthread_mutex_unlock(&p->f->lock);
}

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, PL_HASH_BYTES);
}

static bool is_again(const struct pl_fsck_options *o, const struct pl_hash *pack)
{
    for (size_t i = 0; i < o->n_again; i++)
        if (pl_hash_eq(&o->again[i], pack))
            return true;
    return false;
}

/* Marks the packs as done that the interrupted check has verified. */
static void skip_earlier(struct pass *p)
{
    const struct pl_fsck_options *o = p->f->options;

    for (size_t i = 0; o->full && o->after && i < p->n && by_id(&p->packs[i], o->after) <= 0; i++) {
        if (is_again(o, &p->packs[i]))
            continue;
        p->done[i] = true;
        p->n_done++;
        p->f->report.earlier++;
    }
}

static int run(struct pass *p, unsigned threads, struct pl_err *err)
{
    struct pl_pool *pool = NULL;
    int r;

    if (threads < 2) {
        work(p);
        return 0;
    }
    r = pl_pool_create("fsck", threads, threads, &pool, err);
    for (unsigned i = 0; r == 0 && i < threads; i++)
        r = pl_pool_submit(pool, work, p, err);
    pl_pool_destroy(pool);
    return r;
}

int pl_fsck_packs(struct pl_fsck *f, struct pl_err *err)
{
    _cleanup_(pass_finish) struct pass p = {.f = f};
    unsigned threads = f->options->threads ? f->options->threads : pl_cores();
    int r = pl_store_packs(f->store, &p.packs, &p.n, err);

    if (r < 0)
        return r;
    p.done = calloc(p.n + 1, sizeof *p.done);
    if (!p.done)
        return pl_err_nomem(err);
    if (p.n)
        qsort(p.packs, p.n, sizeof *p.packs, by_id);
    skip_earlier(&p);
    r = run(&p, (unsigned)PL_MIN((size_t)PL_MIN(threads, PL_FSCK_THREADS_MAX), p.n), err);
    if (r == 0 && p.result < 0)
        *err = p.err;
    return r < 0 ? r : p.result;
}
