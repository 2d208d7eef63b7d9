/* object_s3_read: range reads. A large range is read in pieces by parallel requests. Each response is
 * checked: it must have the requested range and the announced length. */
#include "storage/object/object_s3.h"

#include "storage/object/stream_compare.h"

#include <pthread.h>
#include <stdio.h>

/* ---- one range ---- */

/* Text of a Range header: "bytes=0-9", "bytes=5-", "bytes=-100". */
struct range_text {
    char text[64];
};

static struct range_text range_of(uint64_t offset, uint64_t len)
{
    struct range_text t;

    if (len == PL_OBJECT_TO_END)
        (void)snprintf(t.text, sizeof(t.text), "bytes=%llu-", (unsigned long long)offset);
    else
        (void)snprintf(t.text, sizeof(t.text), "bytes=%llu-%llu", (unsigned long long)offset,
                       (unsigned long long)(offset + len - 1));
    return t;
}

static int ends_early(const char *key, uint64_t total, struct pl_err *err)
{
    if (total == UINT64_MAX)
        return pl_err_set(err, PL_ECORRUPT, "object %s ends early", key);
    return pl_err_set(err, PL_ECORRUPT, "object %s ends early: it has %llu bytes", key, (unsigned long long)total);
}

/* Finds the size of an object after the server responded that the object has no bytes in the requested range.
 * Not every server includes the size in that response, and some return status 200 for an empty object. */
static int size_of(struct pl_object_s3 *s, const char *key, const struct pl_http_exchange *x, uint64_t *ret, struct pl_err *err)
{
    *ret = x->status == 200 ? 0 : x->total;
    return *ret == UINT64_MAX ? pl_object_s3_size(&s->store, key, ret, err) : 0;
}

static int too_much(const char *key, struct pl_err *err)
{
    return pl_err_set(err, PL_EPROTO, "object %s: the server sent more bytes than requested: does it support ranges?", key);
}

/* Reads a range of at most `most` bytes with a ranged GET into `ret`; `*ret_first` is the offset of its first
 * byte and `*ret_total` the size of the object. PL_ECORRUPT if the range begins at or after the end. */
static int get_range(struct pl_object_s3 *s, const char *key, const char *range, uint64_t most, struct pl_buf *ret,
                     uint64_t *ret_first, uint64_t *ret_total, struct pl_err *err)
{
    const struct pl_sigv4_pair headers[] = {{"range", range}};
    struct pl_s3_call call = {.method = "GET", .key = key, .headers = headers, .n_headers = 1, .etag = true, .out = ret};
    const size_t max = ret->max;
    const bool bounded = most < (max != 0 ? max : PL_BUF_DEFAULT_MAX);
    int r;

    if (bounded)
        ret->max = (size_t)most;
    r = pl_s3_client_run(s->client, &call, err);
    ret->max = max;
    if (r == PL_ETOOBIG && bounded)
        r = too_much(key, err);
    *ret_first = call.x.first;
    *ret_total = call.x.total;
    if ((r == PL_EIO && call.x.status == 416) || (r == 0 && call.x.status == 200 && ret->len == 0)) {
        r = size_of(s, key, &call.x, ret_total, err);
        if (r == 0)
            r = ends_early(key, *ret_total, err);
    } else if (r == 0 && (call.x.status != 206 || call.x.total == UINT64_MAX)) {
        r = pl_err_set(err, PL_EPROTO, "object %s: the server's response is not a range: status %u, %s Content-Range", key,
                       call.x.status, call.x.total == UINT64_MAX ? "no" : "with");
    }
    pl_s3_call_finish(&call);
    return r;
}

/* Reads the whole object with one request, at most ret->max bytes. */
static int get_all(struct pl_object_s3 *s, const char *key, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_s3_call call = {.method = "GET", .key = key, .etag = true, .expect = 200, .out = ret};
    int r = pl_s3_client_run(s->client, &call, err);

    pl_s3_call_finish(&call);
    return r;
}

/* ---- a large range, in pieces that are read in parallel ---- */

struct pieces {
    struct pl_object_s3 *s;
    const char *key;
    uint64_t offset, len;
    uint8_t *into;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned running;
};

struct piece {
    struct pieces *all;
    struct pl_s3_call call;
    struct pl_sigv4_pair header;
    struct range_text range;
    uint64_t at, len, got;
    bool busy, ended;
};

static int piece_write(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct piece *p = self;

    if (n > p->len - p->got) /* PL_ETOOBIG is not retried, unlike transport errors */
        return pl_err_set(err, PL_ETOOBIG, "object %s: the server sent more bytes than requested", p->all->key);
    memcpy(p->all->into + p->at + p->got, data, n);
    p->got += n;
    return 0;
}

static void piece_restart(void *self)
{
    struct piece *p = self;

    p->got = 0;
}

static void piece_done(struct pl_s3_call *call)
{
    struct piece *p = call->arg;

    pthread_mutex_lock(&p->all->lock);
    p->ended = true;
    pthread_cond_signal(&p->all->changed);
    pthread_mutex_unlock(&p->all->lock);
}

static void piece_start(struct pieces *all, struct piece *p, uint64_t at)
{
    *p = (struct piece){.all = all, .at = at, .len = PL_MIN(PL_S3_RANGE_BYTES, all->len - at), .busy = true};
    p->range = range_of(all->offset + at, p->len);
    p->header = (struct pl_sigv4_pair){"range", p->range.text};
    p->call = (struct pl_s3_call){.method = "GET",
                                  .key = all->key,
                                  .headers = &p->header,
                                  .n_headers = 1,
                                  .etag = true,
                                  .expect = 206,
                                  .write = piece_write,
                                  .restart = piece_restart,
                                  .write_self = p,
                                  .done = piece_done,
                                  .arg = p};
    all->running++;
    pl_s3_client_start(all->s->client, &p->call);
}

/* Collects a finished piece; the first failure is kept in `*r` and `err`. */
static void piece_take(struct pieces *all, struct piece *p, int *r, struct pl_err *err)
{
    p->busy = false;
    all->running--;
    if (*r == 0 && p->call.err.code < 0) {
        if (err != NULL)
            *err = p->call.err;
        *r = p->call.err.code;
        if (*r == PL_EIO && p->call.x.status == 416)
            *r = ends_early(all->key, p->call.x.total, err);
        else if (*r == PL_ETOOBIG)
            *r = too_much(all->key, err);
    } else if (*r == 0 && (p->got != p->len || p->call.x.total == UINT64_MAX || p->call.x.first != all->offset + p->at)) {
        *r = ends_early(all->key, p->call.x.total, err);
    }
    pl_s3_call_finish(&p->call);
}

/* Reads a range into `into` in pieces, PL_S3_RANGES at a time, and waits for all of them, even after a
 * failure. */
static int get_pieces(struct pl_object_s3 *s, const char *key, uint64_t offset, uint64_t len, uint8_t *into, struct pl_err *err)
{
    struct pieces all = {.s = s,
                         .key = key,
                         .offset = offset,
                         .len = len,
                         .into = into,
                         .lock = PTHREAD_MUTEX_INITIALIZER,
                         .changed = PTHREAD_COND_INITIALIZER};
    struct piece pieces[PL_S3_RANGES] = {0};
    uint64_t at = 0;
    int r = 0;

    pthread_mutex_lock(&all.lock);
    while (all.running > 0 || (r == 0 && at < len)) {
        for (unsigned i = 0; i < PL_S3_RANGES; i++) {
            if (pieces[i].busy && pieces[i].ended)
                piece_take(&all, &pieces[i], &r, err);
            if (!pieces[i].busy && r == 0 && at < len) {
                piece_start(&all, &pieces[i], at);
                at += pieces[i].len;
            }
        }
        if (all.running > 0)
            pthread_cond_wait(&all.changed, &all.lock);
    }
    pthread_mutex_unlock(&all.lock);
    pthread_mutex_destroy(&all.lock);
    pthread_cond_destroy(&all.changed);
    return r;
}

/* ---- the driver's reads ---- */

static int wrap(struct pl_err *err, int r, const char *key)
{
    if (r == PL_ENOTFOUND)
        return pl_err_set(err, r, "object %s does not exist", key);
    return r < 0 && r != PL_ECORRUPT ? pl_err_wrap(err, r, "read object %s", key) : r;
}

int pl_object_s3_size(struct pl_object_store *store, const char *key, uint64_t *ret, struct pl_err *err)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);
    struct pl_s3_call call = {.method = "HEAD", .key = key, .etag = true, .expect = 200};
    int r = pl_s3_client_run(s->client, &call, err);

    if (r == 0 && call.x.length == UINT64_MAX)
        r = pl_err_set(err, PL_EPROTO, "the server does not return the object's length");
    if (r == 0)
        *ret = call.x.length;
    pl_s3_call_finish(&call);
    return wrap(err, r, key);
}

static int get_known(struct pl_object_s3 *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                     struct pl_err *err)
{
    uint64_t first, total;
    int r;

    pl_buf_clear(ret);
    r = pl_buf_reserve(ret, (size_t)len, err);
    if (r < 0)
        return r;
    if (len > 2 * PL_S3_RANGE_BYTES) {
        r = get_pieces(s, key, offset, len, ret->data, err);
        ret->len = r == 0 ? (size_t)len : 0;
        return r;
    }
    r = get_range(s, key, range_of(offset, len).text, len, ret, &first, &total, err);
    if (r == 0 && (ret->len != len || first != offset))
        r = ends_early(key, total, err);
    return r;
}

/* Reads from an offset to the end, whose position is unknown. */
static int get_rest(struct pl_object_s3 *s, const char *key, uint64_t offset, struct pl_buf *ret, struct pl_err *err)
{
    uint64_t first, total;
    int r = get_range(s, key, range_of(offset, PL_OBJECT_TO_END).text, UINT64_MAX, ret, &first, &total, err);

    if (r == PL_ECORRUPT && total == offset) {
        pl_buf_clear(ret);
        return 0;
    }
    if (r == 0 && (first != offset || ret->len != total - offset))
        r = ends_early(key, total, err);
    return r;
}

int pl_object_s3_get(struct pl_object_store *store, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                     struct pl_err *err)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);
    uint64_t size;
    int r;

    if (len == PL_OBJECT_TO_END) {
        r = offset == 0 ? get_all(s, key, ret, err) : get_rest(s, key, offset, ret, err);
        return wrap(err, r, key);
    }
    if (len > UINT64_MAX - offset)
        return ends_early(key, UINT64_MAX, err);
    if (len > 0)
        return wrap(err, get_known(s, key, offset, len, ret, err), key);
    r = pl_object_s3_size(store, key, &size, err);
    if (r == 0 && offset > size)
        r = ends_early(key, size, err);
    pl_buf_clear(ret);
    return r;
}

int pl_object_s3_get_some(struct pl_object_store *store, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                          struct pl_err *err)
{
    uint64_t first, total;
    int r;

    if (len > UINT64_MAX - offset)
        len = PL_OBJECT_TO_END;
    r = get_range(pl_object_s3_of(store), key, range_of(offset, len).text, len, ret, &first, &total, err);
    if (r == PL_ECORRUPT && total == offset) {
        pl_buf_clear(ret);
        return 0;
    }
    if (r == 0 && (first != offset || ret->len != PL_MIN(len, total - offset)))
        r = ends_early(key, total, err);
    return wrap(err, r, key);
}

int pl_object_s3_tail(struct pl_object_store *store, const char *key, size_t n, struct pl_buf *ret, uint64_t *ret_size,
                      struct pl_err *err)
{
    char range[64];
    uint64_t first, total;
    int r;

    if (n == 0) {
        pl_buf_clear(ret);
        return pl_object_s3_size(store, key, ret_size, err);
    }
    (void)snprintf(range, sizeof(range), "bytes=-%zu", n);
    r = get_range(pl_object_s3_of(store), key, range, n, ret, &first, &total, err);
    if (r == PL_ECORRUPT && total == 0) { /* an empty object has no ranges */
        pl_buf_clear(ret);
        *ret_size = 0;
        return 0;
    }
    if (r == 0 && (ret->len != PL_MIN(n, total) || first != total - ret->len))
        r = ends_early(key, total, err);
    if (r == 0)
        *ret_size = total;
    return wrap(err, r, key);
}

/* Loads a whole object for the cache. The response for the first piece contains the object's size. */
static int load(void *self, const char *key, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_object_s3 *s = self;
    uint64_t first, total;
    int r;

    ret->max = PL_S3_OBJECT_MAX;
    r = get_range(s, key, range_of(0, PL_S3_RANGE_BYTES).text, PL_S3_RANGE_BYTES, ret, &first, &total, err);
    if (r == PL_ECORRUPT && total == 0) {
        pl_buf_clear(ret);
        return 0;
    }
    if (r == 0 && (first != 0 || ret->len != PL_MIN(PL_S3_RANGE_BYTES, total)))
        r = ends_early(key, total, err);
    if (r < 0 || ret->len == total)
        return r;
    if (total > PL_S3_OBJECT_MAX)
        return pl_err_set(err, PL_ETOOBIG, "object %s has %llu bytes, at most %zu can be cached", key, (unsigned long long)total,
                          PL_S3_OBJECT_MAX);
    r = pl_buf_reserve(ret, (size_t)(total - ret->len), err);
    if (r == 0)
        r = get_pieces(s, key, ret->len, total - ret->len, ret->data + ret->len, err);
    if (r == 0)
        ret->len = (size_t)total;
    return r;
}

int pl_object_s3_local_fd(struct pl_object_store *store, const char *key, int *ret_fd, struct pl_err *err)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);

    if (s->cache == NULL)
        return pl_err_set(err, PL_EUNAVAILABLE, "object %s is in a bucket, and there is no local cache", key);
    return wrap(err, pl_object_cache_get(s->cache, key, load, s, ret_fd, err), key);
}

/* ---- comparison with expected bytes ---- */

/* up to this many bytes, reading on is cheaper than closing the connection */
#define COMPARE_ON_BYTES ((size_t)256 << 10)

struct looking {
    /* `now`: the comparison of the current attempt; `all`: the state with which each attempt starts */
    struct pl_stream_compare now, all;
    size_t after; /* bytes received after the first difference */
};

static int compare_write(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct looking *l = self;

    l->after += pl_stream_compare_add(&l->now, data, n);
    return l->after > COMPARE_ON_BYTES ? pl_err_set(err, PL_EINVAL, "the object differs") : 0;
}

static void compare_restart(void *self)
{
    struct looking *l = self;

    l->now = l->all;
    l->after = 0;
}

int pl_object_s3_compare(struct pl_object_s3 *s, const char *key, const struct iovec *iov, int n, struct pl_err *err)
{
    struct looking l = {.all = {.iov = iov, .n = n}};
    struct pl_s3_call call = {.method = "GET",
                              .key = key,
                              .etag = true,
                              .expect = 200,
                              .write = compare_write,
                              .restart = compare_restart,
                              .write_self = &l};
    int r = pl_s3_client_run(s->client, &call, err);

    pl_s3_call_finish(&call);
    /* not an error: a difference was found, and the transfer was stopped because the rest need not be read */
    if (r == PL_EINVAL && l.after > COMPARE_ON_BYTES && call.x.etag[0] != '\0')
        return 0;
    return r < 0 ? r : pl_stream_compare_end(&l.now);
}
