/* Response streams: data that is written or pulled waits in `front` until libmicrohttpd reads it; without data the
 * connection is suspended. The pool fills `back` while `front` is sent.
 *
 *   open ──close / pull's end──▶ ending ──front empty──▶ end of body
 *     └──fail / gone───────────▶ failed ──(gone: at once)──▶ connection cut
 *
 * In state `over`, libmicrohttpd has dropped the response. The callback `closed` is called once, when the stream is
 * over and no pull runs. */
#include "pipelined/net/server/http_internal.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"

/* the generator is called when less than this is queued */
#define STREAM_LOW          (PL_HTTP_STREAM_BUFFER / 2)
#define STREAM_BLOCK        (128u << 10) /* most bytes that libmicrohttpd reads and sends at a time */
#define STREAM_PULL_MAX     (1u << 20)   /* most bytes of one call of the generator */
#define STREAM_HEARTBEAT_MS 15000

struct pl_http_stream {
    atomic_uint refs;                /* references are held by the stream's owner, the response, and a running pull */
    struct pl_http_request *request; /* owns a reference to the request, whose lock guards the fields below */
    struct pl_http_stream_ops ops;
    const char *heartbeat;
    unsigned heartbeat_ms;
    bool endless;
    int64_t sent_ms;
    struct pl_buf front;
    size_t front_at;    /* number of bytes of `front` that were already sent */
    struct pl_buf back; /* buffer that the running pull fills */
    bool pulling, waiting, woken, wanted;
    bool ending, failed, gone, over, closed;
};

static void stream_pull_job(void *arg);

static void stream_unref(struct pl_http_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    atomic_fetch_sub(&s->request->server->streams, 1);
    pl_buf_finish(&s->front);
    pl_buf_finish(&s->back);
    pl_httpd_request_unref(s->request);
    free(s);
}

static size_t stream_queued(const struct pl_http_stream *s)
{
    return s->front.len - s->front_at;
}

/* True if the callback `closed` must be called now; true only once. The caller then calls it without the
 * lock. */
static bool stream_closes(struct pl_http_stream *s)
{
    if (!s->over || s->pulling || s->closed)
        return false;
    s->closed = true;
    return s->ops.closed;
}

/* Starts a call of the generator on the pool, if there is space for data and the generator may have some. The
 * caller holds the lock. */
static void stream_ask(struct pl_http_stream *s)
{
    if (!s->ops.pull || s->pulling || s->ending || s->failed || s->over || s->waiting || stream_queued(s) >= STREAM_LOW)
        return;
    s->pulling = true;
    s->wanted = false;
    atomic_fetch_add(&s->refs, 1);
    if (pl_pool_submit_slow(s->request->server->pool, stream_pull_job, s, NULL) == 0)
        return;
    /* this never releases the last reference: the response has one until the stream is over */
    atomic_fetch_sub(&s->refs, 1);
    s->pulling = false;
    s->wanted = true;
    pl_httpd_retry_soon(s->request->server);
}

/* Drops the bytes that were already sent from `front`. The caller holds the lock. */
static void stream_compact(struct pl_http_stream *s)
{
    if (!s->front_at)
        return;
    memmove(s->front.data, s->front.data + s->front_at, stream_queued(s));
    s->front.len -= s->front_at;
    s->front_at = 0;
}

/* --- the generator's side --- */

/* Moves the bytes that a pull returned to `front`. Returns true if the generator should be called again at
 * once. The caller holds the lock. */
static bool stream_take(struct pl_http_stream *s, int result)
{
    stream_compact(s);
    if (stream_queued(s) == 0) {
        pl_buf_swap(&s->front, &s->back);
    } else if (s->back.len && pl_buf_add(&s->front, s->back.data, s->back.len, NULL) < 0) {
        result = PL_ENOMEM;
    }
    pl_buf_clear(&s->back);
    s->failed |= result < 0;
    s->ending |= result == PL_PULL_END;
    s->waiting = result == PL_PULL_WAIT && !s->woken;
    s->woken = false;
    pl_httpd_resume(s->request);
    return !s->ending && !s->failed && !s->over && !s->waiting && stream_queued(s) < STREAM_LOW;
}

/* A job on the pool: calls the generator until the queue is filled or the generator must wait for data. */
static void stream_pull_job(void *arg)
{
    struct pl_http_stream *s = arg;
    bool again = true, empty = false, closes = false;

    while (again) {
        struct pl_err err = {0};
        const uint64_t before = pl_log_request(s->request->id);
        int result = s->ops.pull(s->ops.self, &s->back, &err);

        (void)pl_log_request(before);
        pthread_mutex_lock(&s->request->lock);
        empty = s->back.len == 0;
        again = stream_take(s, result);
        s->pulling = again;
        closes = !again && stream_closes(s);
        pthread_mutex_unlock(&s->request->lock);
        /* a generator that searches long without data yields the thread to other jobs */
        if (again && empty && pl_pool_submit_slow(s->request->server->pool, stream_pull_job, s, NULL) == 0)
            return;
    }
    if (closes)
        s->ops.closed(s->ops.self);
    stream_unref(s);
}

/* --- libmicrohttpd's side --- */

/* Passes the next bytes to libmicrohttpd, or suspends the connection. */
static ssize_t on_read(void *arg, uint64_t at, char *out, size_t max)
{
    struct pl_http_stream *s = arg;
    size_t n;
    ssize_t result;

    (void)at;
    pthread_mutex_lock(&s->request->lock);
    n = PL_MIN(stream_queued(s), max);
    if (s->gone || atomic_load(&s->request->server->stopping) == HTTP_CUTTING) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (n) {
        memcpy(out, s->front.data + s->front_at, n);
        s->front_at += n;
        s->sent_ms = pl_clock_mono_ms();
        if (stream_queued(s) == 0) {
            pl_buf_clear(&s->front);
            s->front_at = 0;
        }
        stream_ask(s);
        result = (ssize_t)n;
    } else if (s->failed) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (s->ending) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        stream_ask(s);
        result = pl_httpd_suspend(s->request) ? 0 : MHD_CONTENT_READER_END_WITH_ERROR;
    }
    pthread_mutex_unlock(&s->request->lock);
    return result;
}

/* Called when libmicrohttpd drops the response: it was sent, or its connection has ended. */
static void on_free(void *arg)
{
    struct pl_http_stream *s = arg;
    bool closes;

    pthread_mutex_lock(&s->request->lock);
    s->over = true;
    s->request->stream = NULL;
    closes = stream_closes(s);
    pthread_mutex_unlock(&s->request->lock);
    if (closes)
        s->ops.closed(s->ops.self);
    stream_unref(s);
}

void pl_httpd_stream_gone(struct pl_http_stream *s)
{
    s->gone = true;
    pl_httpd_resume(s->request);
}

void pl_httpd_stream_drain(struct pl_http_stream *s)
{
    if (!s->endless)
        return;
    s->ending = true;
    pl_httpd_resume(s->request);
}

void pl_httpd_stream_tick(struct pl_http_stream *s, int64_t now_ms)
{
    if (s->wanted)
        stream_ask(s);
    if (!s->heartbeat || s->ending || stream_queued(s) || now_ms - s->sent_ms < s->heartbeat_ms)
        return;
    s->sent_ms = now_ms;
    if (pl_buf_add_str(&s->front, s->heartbeat, NULL) == 0)
        pl_httpd_resume(s->request);
}

/* --- the owner's side --- */

static struct MHD_Response *stream_response(struct pl_http_stream *s, uint64_t length)
{
    bool known = length != PL_HTTP_LENGTH_UNKNOWN;

    /* a chunked body needs only a small block buffer, because libmicrohttpd does not use it: it reads the data
     * directly into the connection's buffer */
    return MHD_create_response_from_callback(known ? length : MHD_SIZE_UNKNOWN,
                                             known ? (size_t)PL_MIN(length + 1, (uint64_t)STREAM_BLOCK) : 4096, on_read, s,
                                             on_free);
}

/* Ends a stream for which no response could be made: writes to it have no effect. */
static void stream_stillborn(struct pl_http_stream *s)
{
    struct pl_err err = {0};

    s->over = true;
    if (stream_closes(s))
        s->ops.closed(s->ops.self);
    stream_unref(s); /* release the reference that was meant for the response */
    pl_err_nomem(&err);
    pl_http_reply_error(s->request, &err);
}

struct pl_http_stream *pl_http_reply_stream(struct pl_http_request *r, const struct pl_http_stream_options *o,
                                            const struct pl_http_stream_ops *ops)
{
    struct pl_http_stream *s = calloc(1, sizeof(*s));
    struct MHD_Response *response;

    if (!s) {
        struct pl_err err = {0};

        pl_err_nomem(&err);
        pl_http_reply_error(r, &err);
        if (ops && ops->closed)
            ops->closed(ops->self);
        return NULL;
    }
    atomic_init(&s->refs, 2);
    pl_httpd_request_ref(r);
    s->request = r;
    if (ops)
        s->ops = *ops;
    s->heartbeat = o->heartbeat;
    s->heartbeat_ms = o->heartbeat_ms ? o->heartbeat_ms : STREAM_HEARTBEAT_MS;
    s->endless = o->endless;
    s->sent_ms = pl_clock_mono_ms();
    s->front.max = PL_HTTP_STREAM_BUFFER + STREAM_PULL_MAX;
    s->back.max = STREAM_PULL_MAX;
    atomic_fetch_add(&r->server->streams, 1);
    response = stream_response(s, o->length);
    if (!response) {
        stream_stillborn(s);
        return s;
    }
    pl_httpd_add_common_headers(r, response, o->content_type);
    pthread_mutex_lock(&r->lock);
    r->stream = s;
    s->ending = s->endless && atomic_load(&r->server->stopping) != HTTP_SERVING;
    if (r->connection)
        stream_ask(s);
    pthread_mutex_unlock(&r->lock);
    pl_httpd_answer(r, o->status ? o->status : 200, response);
    return s;
}

int pl_http_stream_write(struct pl_http_stream *s, const void *data, size_t n, struct pl_err *err)
{
    int r = 0;

    pthread_mutex_lock(&s->request->lock);
    if (s->over || s->gone || s->failed || s->ending)
        r = pl_err_set(err, PL_ENET, "the client has disconnected");
    else if (stream_queued(s) && stream_queued(s) + n > PL_HTTP_STREAM_BUFFER)
        r = pl_err_set(err, PL_EBUSY, "the client reads too slowly: %zu bytes wait to be sent", stream_queued(s));
    if (r == 0)
        stream_compact(s);
    if (r == 0)
        r = pl_buf_add(&s->front, data, n, err);
    if (r == 0)
        pl_httpd_resume(s->request);
    pthread_mutex_unlock(&s->request->lock);
    return r;
}

void pl_http_stream_wake(struct pl_http_stream *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->request->lock);
    s->waiting = false;
    /* a running pull may have found no data just before the new data arrived: the generator is called again */
    s->woken = s->pulling;
    stream_ask(s);
    pthread_mutex_unlock(&s->request->lock);
}

bool pl_http_stream_gone(const struct pl_http_stream *s)
{
    bool gone;

    pthread_mutex_lock(&s->request->lock);
    gone = s->over || s->gone;
    pthread_mutex_unlock(&s->request->lock);
    return gone;
}

void pl_http_stream_close(struct pl_http_stream *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->request->lock);
    if (!s->ops.pull) {
        s->ending = true;
        pl_httpd_resume(s->request);
    }
    pthread_mutex_unlock(&s->request->lock);
    stream_unref(s);
}

void pl_http_stream_fail(struct pl_http_stream *s)
{
    pthread_mutex_lock(&s->request->lock);
    s->failed = true;
    pl_httpd_resume(s->request);
    pthread_mutex_unlock(&s->request->lock);
    stream_unref(s);
}
