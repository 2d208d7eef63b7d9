/* Helper threads take the file's segments in order. They read and scan them in parallel, cut them into chunks
 * one segment after the other, and hash the chunks in parallel. */
#include "storage/dataset/ingest/large_file.h"

#include "storage/chunk/chunk_scan.h"
#include "storage/dataset/ingest/ingest.h"
#include <pthread.h>

#define SEGMENT ((size_t)PL_INGEST_SEGMENT_BYTES)
/* maximum number of chunks that can end in one segment */
#define CUTS_MAX ((SEGMENT + PL_CHUNK_MAX_BYTES) / PL_CHUNK_MIN_BYTES + 2)

struct segment_result {
    bool done;
    size_t n;
    size_t lens[CUTS_MAX];
    struct pl_hash ids[CUTS_MAX];
};

struct pl_large_file_job {
    int fd;
    uint64_t size;
    uint64_t segments;
    const struct pl_file_write_sink *sink;
    const _Atomic bool *stop;

    pthread_mutex_t lock;
    pthread_cond_t moved; /* signalled when cut_next or list_next increases, and on an error */
    uint64_t taken;       /* number of segments that helpers have taken so far */
    uint64_t cut_next;    /* number of the segment to cut next */
    uint64_t list_next;   /* number of the segment whose chunk ids the list needs next */
    size_t carry_len;
    uint8_t carry[PL_CHUNK_MAX_BYTES];
    struct pl_list_builder *list;
    struct segment_result results[PL_LARGE_FILE_SEGMENTS_AHEAD];
    struct pl_err err;
};

int pl_large_file_buffer_init(struct pl_large_file_buffer *b, struct pl_err *err)
{
    if (b->bytes != NULL)
        return 0;
    b->bytes = malloc(PL_CHUNK_MAX_BYTES + SEGMENT);
    b->bits = malloc(PL_CHUNK_SCAN_WORDS(SEGMENT) * sizeof(*b->bits));
    if (b->bytes != NULL && b->bits != NULL)
        return 0;
    pl_large_file_buffer_finish(b);
    return pl_err_nomem(err);
}

void pl_large_file_buffer_finish(struct pl_large_file_buffer *b)
{
    free(b->bytes);
    free(b->bits);
    *b = (struct pl_large_file_buffer){0};
}

int pl_large_file_job_create(int fd, uint64_t size, const struct pl_file_write_sink *sink, const _Atomic bool *stop,
                             struct pl_large_file_job **ret, struct pl_err *err)
{
    _cleanup_(pl_large_file_job_destroyp) struct pl_large_file_job *job = calloc(1, sizeof(*job));
    struct pl_list_sink lists = {.self = sink->self, .put = sink->list};
    int r;

    if (job == NULL)
        return pl_err_nomem(err);
    job->fd = fd;
    job->size = size;
    job->segments = (size + SEGMENT - 1) / SEGMENT;
    job->sink = sink;
    job->stop = stop;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->moved, NULL);
    r = pl_list_builder_create(&lists, &job->list, err);
    if (r == 0)
        *ret = TAKE_PTR(job);
    return r;
}

struct pl_large_file_job *pl_large_file_job_destroy(struct pl_large_file_job *job)
{
    if (job == NULL)
        return NULL;
    pl_list_builder_destroy(job->list);
    pthread_mutex_destroy(&job->lock);
    pthread_cond_destroy(&job->moved);
    free(job);
    return NULL;
}

/* Stores the error unless there was an earlier one, and wakes all waiting threads, which then end. With the
 * lock held. */
static void job_fail(struct pl_large_file_job *job, const struct pl_err *err)
{
    if (job->err.code == 0)
        job->err = *err;
    pthread_cond_broadcast(&job->moved);
}

/* Assigns the next segment to the calling helper. Returns false if none is left or the job has failed. */
static bool job_take(struct pl_large_file_job *job, uint64_t *ret)
{
    bool ok;

    pthread_mutex_lock(&job->lock);
    if (job->stop != NULL && atomic_load(job->stop) && job->err.code == 0) {
        (void)pl_err_set(&job->err, PL_ECANCELED, "reading was stopped");
        pthread_cond_broadcast(&job->moved);
    }
    while (job->err.code == 0 && job->taken < job->segments && job->taken - job->list_next >= PL_LARGE_FILE_SEGMENTS_AHEAD)
        pthread_cond_wait(&job->moved, &job->lock);
    ok = job->err.code == 0 && job->taken < job->segments;
    if (ok)
        *ret = job->taken++;
    pthread_mutex_unlock(&job->lock);
    return ok;
}

static size_t segment_len(const struct pl_large_file_job *job, uint64_t k)
{
    return (size_t)PL_MIN((uint64_t)SEGMENT, job->size - k * SEGMENT);
}

/* Reads a segment with the scan window before it. Later the uncut tail of the previous segment is copied over
 * the window; the bytes are the same. */
static int segment_read(const struct pl_large_file_job *job, uint64_t k, uint8_t *at, size_t n, struct pl_err *err)
{
    size_t before = k > 0 ? PL_CHUNK_WINDOW_BYTES : 0, want = before + n, have = 0;

    while (have < want) {
        ssize_t got = pread(job->fd, at - before + have, want - have, (off_t)(k * SEGMENT - before + have));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return pl_err_errno(err, errno, "cannot read");
        if (got == 0)
            return pl_err_set(err, PL_ECHANGED, "the file became shorter while it was read");
        have += (size_t)got;
    }
    return 0;
}

/* Determines the lengths of the chunks that end in the segment, and leaves the rest in `carry`. With the
 * lock held, when it is the segment's turn. */
static void segment_cut(struct pl_large_file_job *job, uint64_t k, uint8_t *at, size_t n, const uint64_t *bits,
                        struct segment_result *result)
{
    size_t from = 0, carry = job->carry_len, len;

    memcpy(at - carry, job->carry, carry);
    while ((len = pl_chunk_scan_cut(bits, n, carry, from)) > 0) {
        result->lens[result->n++] = len;
        from += len - carry;
        carry = 0;
    }
    if (k + 1 == job->segments && n - from + carry > 0) {
        result->lens[result->n++] = n - from + carry;
        from = n;
        carry = 0;
    }
    job->carry_len = n - from + carry;
    memcpy(job->carry, at + n - job->carry_len, job->carry_len);
}

/* Waits for the segment's turn and cuts it. `*ret_start` is where its first chunk begins. False if the job
 * has failed. */
static bool job_cut(struct pl_large_file_job *job, uint64_t k, uint8_t *at, size_t n, const uint64_t *bits, uint8_t **ret_start)
{
    bool ok;

    pthread_mutex_lock(&job->lock);
    while (job->err.code == 0 && job->cut_next != k)
        pthread_cond_wait(&job->moved, &job->lock);
    ok = job->err.code == 0;
    if (ok) {
        *ret_start = at - job->carry_len;
        segment_cut(job, k, at, n, bits, &job->results[k % PL_LARGE_FILE_SEGMENTS_AHEAD]);
        job->cut_next++;
        pthread_cond_broadcast(&job->moved);
    }
    pthread_mutex_unlock(&job->lock);
    return ok;
}

/* Adds the chunks of complete segments to the list, in order. With the lock held. */
static int job_list(struct pl_large_file_job *job, struct pl_err *err)
{
    struct segment_result *result = &job->results[job->list_next % PL_LARGE_FILE_SEGMENTS_AHEAD];

    while (result->done) {
        for (size_t i = 0; i < result->n; i++) {
            int r = pl_list_builder_add(job->list, &result->ids[i], result->lens[i], err);

            if (r < 0)
                return r;
        }
        result->n = 0;
        result->done = false;
        result = &job->results[++job->list_next % PL_LARGE_FILE_SEGMENTS_AHEAD];
    }
    return 0;
}

/* Hashes and stores the chunks of a segment, then adds complete segments to the list. */
static int segment_hash(struct pl_large_file_job *job, uint64_t k, const uint8_t *p, struct pl_err *err)
{
    struct segment_result *result = &job->results[k % PL_LARGE_FILE_SEGMENTS_AHEAD];
    int r;

    for (size_t i = 0; i < result->n; i++) {
        r = job->sink->chunk(job->sink->self, p, result->lens[i], &result->ids[i], err);
        if (r < 0)
            return r;
        p += result->lens[i];
    }
    pthread_mutex_lock(&job->lock);
    result->done = true;
    r = job_list(job, err);
    pthread_cond_broadcast(&job->moved);
    pthread_mutex_unlock(&job->lock);
    return r;
}

void pl_large_file_job_help(struct pl_large_file_job *job, struct pl_large_file_buffer *buffer)
{
    uint8_t *at = buffer->bytes + PL_CHUNK_MAX_BYTES, *start;
    struct pl_err err = {0};
    uint64_t k;
    int r = 0;

    while (r == 0 && job_take(job, &k)) {
        size_t n = segment_len(job, k);

        r = segment_read(job, k, at, n, &err);
        if (r < 0)
            break;
        pl_chunk_scan(at, n, buffer->bits);
        if (!job_cut(job, k, at, n, buffer->bits, &start))
            return;
        r = segment_hash(job, k, start, &err);
    }
    if (r < 0) {
        pthread_mutex_lock(&job->lock);
        job_fail(job, &err);
        pthread_mutex_unlock(&job->lock);
    }
}

int pl_large_file_job_finish(struct pl_large_file_job *job, uint8_t kind, struct pl_entry *ret, struct pl_err *err)
{
    struct pl_hash id;
    uint64_t bytes;
    int r;

    if (job->err.code != 0) {
        if (err != NULL)
            *err = job->err;
        return job->err.code;
    }
    r = pl_list_builder_finish(job->list, &id, &bytes, err);
    if (r == 0)
        *ret = pl_entry_list(kind, bytes, &id);
    return r;
}
