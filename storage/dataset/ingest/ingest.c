/* The caller's thread walks the sources, passes batches of names to reader threads through a ring, and
 * writes finished batches out in order. Readers without a batch help with a large file of another reader. */
#include "storage/dataset/ingest/ingest.h"

#include "storage/dataset/ingest/ingest_output.h"
#include "storage/dataset/ingest/ingest_read.h"
#include "storage/pack/pack_sink.h"
#include "storage/system/thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

/* The ring of batches. published ≥ taken ≥ number of finished batches. The walker accesses only ring elements
 * outside the range taken..published. */
#define RING_MAX 32u

struct ingest {
    const struct pl_ingest_options *options;
    pthread_mutex_t lock;
    /* signalled when a batch is published, when a large file is shared, and at the end */
    pthread_cond_t work;
    pthread_cond_t done; /* signalled when a batch is finished or a helper leaves the shared file */
    struct pl_walk_batch *ring;
    uint64_t ring_len;
    uint64_t published, taken;
    /* number of readers that are working on a batch: each of them may still share a large file */
    unsigned busy;
    bool ending;
    _Atomic bool failed;              /* set with the lock held */
    struct pl_large_file_job *shared; /* a large file with which other readers may help; NULL = none */
    /* number of readers that help with the shared file, not counting the reader that shared it */
    unsigned helpers;
    struct pl_err err; /* the first error of any reader */
};

struct reader_thread {
    struct ingest *in;
    struct pl_reader reader;
    pthread_t thread;
};

static int64_t machine_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- readers ---- */

/* Stores the error unless there was an earlier one, and wakes all threads, which then end. With the lock
 * held. */
static void ingest_fail(struct ingest *in, const struct pl_err *err)
{
    if (!in->failed)
        in->err = *err;
    in->failed = true;
    pthread_cond_broadcast(&in->work);
    pthread_cond_broadcast(&in->done);
}

/* Reads a large file on the calling reader's thread and, unless another file is shared now, lets other
 * readers help with it. Returns when all helpers have finished. */
static void reader_share(void *self, struct pl_large_file_job *job, struct pl_large_file_buffer *buffer)
{
    struct ingest *in = self;
    bool offered;

    pthread_mutex_lock(&in->lock);
    offered = in->shared == NULL && in->helpers == 0;
    if (offered) {
        in->shared = job;
        pthread_cond_broadcast(&in->work);
    }
    pthread_mutex_unlock(&in->lock);
    pl_large_file_job_help(job, buffer);
    if (!offered)
        return;
    pthread_mutex_lock(&in->lock);
    in->shared = NULL;
    while (in->helpers > 0)
        pthread_cond_wait(&in->done, &in->lock);
    pthread_mutex_unlock(&in->lock);
}

/* Helps to read the shared file. The caller holds the lock, which is released during the reading. */
static void reader_help(struct reader_thread *t, struct pl_large_file_job *job)
{
    struct ingest *in = t->in;
    struct pl_err err = {0};

    in->helpers++;
    pthread_mutex_unlock(&in->lock);
    if (pl_large_file_buffer_init(&t->reader.segment, &err) == 0)
        pl_large_file_job_help(job, &t->reader.segment);
    pthread_mutex_lock(&in->lock);
    if (in->shared == job)
        in->shared = NULL; /* no segments are left */
    in->helpers--;
    pthread_cond_broadcast(&in->done);
}

static int batch_read(struct reader_thread *t, struct pl_walk_batch *b, struct pl_err *err)
{
    const struct pl_ingest_options *o = t->in->options;

    b->read_ns = o->now_ns != NULL ? o->now_ns() : machine_now_ns();
    for (uint32_t i = 0; i < b->n; i++) {
        struct pl_walk_item *item = &b->items[i];
        int r = pl_reader_item(&t->reader, b, item, err);

        if (r < 0)
            return r;
        if (o->progress != NULL && item->entry.kind != PL_KIND_DIR)
            atomic_fetch_add_explicit(&o->progress->files, 1, memory_order_relaxed);
    }
    return 0;
}

/* Takes the next batch from the ring and reads its files. The caller holds the lock, which is released during
 * the reading. */
static void reader_batch(struct reader_thread *t)
{
    struct ingest *in = t->in;
    struct pl_walk_batch *b = &in->ring[in->taken++ % in->ring_len];
    struct pl_err err = {0};
    int r;

    in->busy++;
    pthread_mutex_unlock(&in->lock);
    r = batch_read(t, b, &err);
    pthread_mutex_lock(&in->lock);
    in->busy--;
    b->done = true;
    if (r < 0)
        ingest_fail(in, &err);
    pthread_cond_broadcast(&in->done);
    if (in->ending && in->busy == 0)
        pthread_cond_broadcast(&in->work);
}

static void *reader_run(void *arg)
{
    struct reader_thread *t = arg;
    struct ingest *in = t->in;

    pthread_mutex_lock(&in->lock);
    while (!in->failed) {
        if (in->taken < in->published)
            reader_batch(t);
        else if (in->shared != NULL)
            reader_help(t, in->shared);
        else if (in->ending && in->busy == 0)
            break;
        else
            pthread_cond_wait(&in->work, &in->lock);
    }
    pthread_mutex_unlock(&in->lock);
    pl_reader_finish(&t->reader);
    return NULL;
}

/* ---- the caller's thread ---- */

/* Waits for batch `seq`, the oldest one, and writes it out. */
static int ring_drain(struct ingest *in, uint64_t seq, struct pl_ingest_out *out, struct pl_err *err)
{
    struct pl_walk_batch *b = &in->ring[seq % in->ring_len];
    int r = 0;

    pthread_mutex_lock(&in->lock);
    while (!b->done && !in->failed)
        pthread_cond_wait(&in->done, &in->lock);
    if (in->failed) {
        r = in->err.code;
        if (err != NULL)
            *err = in->err;
    }
    pthread_mutex_unlock(&in->lock);
    if (r == 0)
        r = pl_ingest_out_batch(out, b, err);
    if (r == 0)
        pl_walk_batch_clear(b);
    return r;
}

/* Fills the ring with batches and writes finished ones out, until the walk ends. */
static int ring_feed(struct ingest *in, struct pl_walk *walk, struct pl_ingest_out *out, struct pl_err *err)
{
    uint64_t drained = 0, seq = 0;
    int r;

    for (;; seq++) {
        while (seq - drained >= in->ring_len) {
            if ((r = ring_drain(in, drained++, out, err)) < 0)
                return r;
        }
        r = pl_walk_next(walk, &in->ring[seq % in->ring_len], err);
        if (r < 0)
            return r;
        if (r == 0)
            break;
        pthread_mutex_lock(&in->lock);
        in->published = seq + 1;
        pthread_cond_signal(&in->work);
        pthread_mutex_unlock(&in->lock);
    }
    while (drained < seq) {
        if ((r = ring_drain(in, drained++, out, err)) < 0)
            return r;
    }
    return 0;
}

/* Starts the readers. They block all signals, so that the program's own threads receive them. */
static int readers_start(struct reader_thread *threads, unsigned n, unsigned *ret_started, struct pl_err *err)
{
    sigset_t all, old;
    int r = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (*ret_started = 0; *ret_started < n; ++*ret_started) {
        r = pthread_create(&threads[*ret_started].thread, NULL, reader_run, &threads[*ret_started]);
        if (r != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r == 0 ? 0 : pl_err_errno(err, r, "cannot start a reader thread");
}

static void readers_stop(struct ingest *in, struct reader_thread *threads, unsigned n, bool failed)
{
    pthread_mutex_lock(&in->lock);
    in->ending = true;
    in->failed = in->failed || failed;
    pthread_cond_broadcast(&in->work);
    pthread_mutex_unlock(&in->lock);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i].thread, NULL);
}

static unsigned reader_count(const struct pl_ingest_options *o)
{
    unsigned n = o->threads != 0 ? o->threads : pl_cores();

    return PL_MIN(n, PL_INGEST_THREADS_MAX);
}

/* Starts the readers, runs the walk and stops the readers. `trust`: entries of the stat cache are used. */
static int ingest_run(struct ingest *in, struct pl_pack_builder *session, bool trust, struct pl_walk *walk,
                      struct pl_ingest_out *out, struct pl_err *err)
{
    const struct pl_stat_cache *cache = trust ? in->options->stat_cache : NULL;
    struct reader_thread threads[PL_INGEST_THREADS_MAX] = {0};
    unsigned n = reader_count(in->options), started;
    int r;

    if (cache != NULL && pl_stat_cache_len(cache) == 0)
        cache = NULL;
    for (unsigned i = 0; i < n; i++) {
        threads[i].in = in;
        threads[i].reader = (struct pl_reader){.sink = pl_file_write_sink_pack(session),
                                               .stat_cache = cache,
                                               .remembers = in->options->stat_cache != NULL,
                                               .stop = &in->failed,
                                               .progress = in->options->progress,
                                               .share = reader_share,
                                               .self = in};
    }
    r = readers_start(threads, n, &started, err);
    if (r == 0)
        r = ring_feed(in, walk, out, err);
    readers_stop(in, threads, started, r < 0);
    return r;
}

static void ingest_finish(struct ingest *in)
{
    for (uint64_t i = 0; in->ring != NULL && i < in->ring_len; i++)
        pl_walk_batch_finish(&in->ring[i]);
    free(in->ring);
    pthread_mutex_destroy(&in->lock);
    pthread_cond_destroy(&in->work);
    pthread_cond_destroy(&in->done);
}

/* Makes one pass over all sources. `trust`: entries of the stat cache are used. `*ret_missing` is set if the
 * store lacks a record of such an entry: the pass must then be repeated with `trust` false. */
static int ingest_pass(struct pl_pack_builder *session, const struct pl_ingest_source *sources, size_t n,
                       const struct pl_ingest_options *options, bool trust, struct pl_buf *ops, bool *ret_missing,
                       struct pl_ingest_stats *ret, struct pl_err *err)
{
    _cleanup_(ingest_finish) struct ingest in = {.options = options,
                                                 .lock = PTHREAD_MUTEX_INITIALIZER,
                                                 .work = PTHREAD_COND_INITIALIZER,
                                                 .done = PTHREAD_COND_INITIALIZER};
    _cleanup_(pl_walk_destroyp) struct pl_walk *walk = NULL;
    _cleanup_(pl_ingest_out_destroyp) struct pl_ingest_out *out = NULL;
    int r;

    in.ring_len = PL_MIN(RING_MAX, 4 * reader_count(options) + 4);
    in.ring = calloc(in.ring_len, sizeof(*in.ring));
    if (in.ring == NULL)
        return pl_err_nomem(err);
    if ((r = pl_walk_create(sources, n, options, &walk, err)) < 0 ||
        (r = pl_ingest_out_create(sources, n, options, ops, &out, err)) < 0 ||
        (r = ingest_run(&in, session, trust, walk, out, err)) < 0)
        return r;
    return pl_ingest_out_end(out, ret_missing, ret, err);
}

int pl_ingest_tree(struct pl_pack_builder *session, const struct pl_ingest_source *sources, size_t n,
                   const struct pl_ingest_options *options, struct pl_buf *ret_ops, struct pl_ingest_stats *ret_stats,
                   struct pl_err *err)
{
    static const struct pl_ingest_options plain = {0};
    const struct pl_ingest_options *o = options != NULL ? options : &plain;
    struct pl_ingest_stats stats = {0};
    int64_t began = pl_clock_mono_us();
    bool missing = false;
    int r;

    if (o->stat_cache != NULL && o->sink == NULL)
        return pl_err_set(err, PL_EINVAL, "a stat cache needs a sink");
    if (ret_ops->max == 0)
        ret_ops->max = PL_INGEST_OPS_MAX_BYTES;
    r = ingest_pass(session, sources, n, o, true, ret_ops, &missing, &stats, err);
    if (r == 0 && missing) {
        if (o->progress != NULL) {
            atomic_store(&o->progress->files, 0);
            atomic_store(&o->progress->bytes, 0);
        }
        r = ingest_pass(session, sources, n, o, false, ret_ops, &missing, &stats, err);
    }
    if (r < 0) {
        pl_buf_clear(ret_ops);
        return r;
    }
    stats.seconds = (double)(pl_clock_mono_us() - began) / 1e6;
    if (ret_stats != NULL)
        *ret_stats = stats;
    return 0;
}

/* Adds the items of a batch. */
static void measure_batch(const struct pl_walk_batch *b, const struct pl_ingest_options *o, struct pl_ingest_size *sum)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const struct pl_walk_item *item = &b->items[i];
        uint64_t size = item->type == PL_WALK_LINK ? strlen(pl_walk_name(b, item)) : 0;
        bool known = item->type == PL_WALK_FILE && pl_reader_known_size(o->stat_cache, b, item, &size);

        sum->files += item->type != PL_WALK_EMPTY_DIR;
        sum->bytes += size;
        sum->new_bytes += known ? 0 : size;
    }
    if (o->progress != NULL) {
        atomic_store_explicit(&o->progress->files, sum->files, memory_order_relaxed);
        atomic_store_explicit(&o->progress->bytes, sum->bytes, memory_order_relaxed);
    }
}

int pl_ingest_measure(const struct pl_ingest_source *sources, size_t n, const struct pl_ingest_options *options,
                      struct pl_ingest_size *ret, struct pl_err *err)
{
    static const struct pl_ingest_options plain = {0};
    const struct pl_ingest_options *o = options != NULL ? options : &plain;
    _cleanup_(pl_walk_destroyp) struct pl_walk *walk = NULL;
    struct pl_walk_batch *b = calloc(1, sizeof(*b));
    struct pl_ingest_size sum = {0};
    int r = b != NULL ? pl_walk_create(sources, n, o, &walk, err) : pl_err_nomem(err);

    for (bool more = r == 0; more;) {
        r = pl_walk_next(walk, b, err);
        more = r > 0;
        if (more)
            measure_batch(b, o, &sum);
        pl_walk_batch_clear(b);
    }
    if (b != NULL)
        pl_walk_batch_finish(b);
    free(b);
    if (r == 0)
        *ret = sum;
    return r;
}
