/* Streamed bodies: libmicrohttpd's thread fills one buffer while a pool thread writes the other to the sink.
 * `fill` and `drain` are half of PL_HTTP_BODY_BUFFER each. When `fill` is full, the connection is suspended until
 * the pool has swapped them. */
#include "pipelined/net/server/http_internal.h"

#include "storage/base/alloc_failure.h"

#define INTAKE_HALF (PL_HTTP_BODY_BUFFER / 2)

struct http_intake {
    struct pl_http_sink sink;
    struct pl_buf fill;  /* guarded by the request's lock */
    struct pl_buf drain; /* used by the running job */
    bool running;        /* a job is queued or runs */
    bool eof, ended;
    bool wanted; /* the pool refused the job */
    struct pl_err failure;
};

static void intake_job(void *arg);

void pl_httpd_body_free(struct http_intake *in)
{
    if (!in)
        return;
    pl_buf_finish(&in->fill);
    pl_buf_finish(&in->drain);
    free(in);
}

/* Submits the job unless it runs. Caller holds the lock. */
static void intake_schedule(struct pl_http_request *r)
{
    struct http_intake *in = r->intake;

    if (in->running || in->ended)
        return;
    in->running = true;
    in->wanted = false;
    pl_httpd_request_ref(r);
    if (pl_pool_submit(r->server->pool, intake_job, r, NULL) == 0)
        return;
    in->running = false;
    in->wanted = true;
    pl_httpd_retry_soon(r->server);
    pl_httpd_request_unref(r); /* never the last reference: libmicrohttpd or the handler has one */
}

void pl_httpd_body_wake(struct pl_http_request *r)
{
    if (r->intake->wanted)
        intake_schedule(r);
}

size_t pl_httpd_body_add(struct pl_http_request *r, const void *data, size_t n)
{
    struct http_intake *in = r->intake;
    size_t room = INTAKE_HALF - in->fill.len, take = PL_MIN(room, n);

    if (in->ended || in->failure.code)
        return n; /* discard */
    if (take && pl_buf_add(&in->fill, data, take, NULL) < 0)
        pl_err_nomem(&in->failure);
    if (in->fill.len >= INTAKE_HALF / 2 || in->failure.code)
        intake_schedule(r);
    return take;
}

void pl_httpd_body_fail(struct pl_http_request *r, const struct pl_err *err)
{
    if (!r->intake->failure.code && !r->intake->ended)
        r->intake->failure = *err;
    intake_schedule(r);
}

void pl_httpd_body_eof(struct pl_http_request *r)
{
    r->intake->eof = true;
    intake_schedule(r);
}

void pl_httpd_body_gone(struct pl_http_request *r)
{
    struct http_intake *in = r->intake;

    if (in->eof || in->ended)
        return;
    if (!in->failure.code)
        pl_err_set(&in->failure, PL_ENET, "the client disconnected in the middle of the body");
    intake_schedule(r);
}

void pl_httpd_body_settle(struct pl_http_request *r)
{
    bool run;

    pthread_mutex_lock(&r->lock);
    run = r->intake->wanted && !r->intake->running && !r->intake->ended;
    r->intake->running |= run;
    pthread_mutex_unlock(&r->lock);
    if (!run)
        return;
    pl_httpd_request_ref(r);
    intake_job(r);
}

/* Swaps the buffers if there is data. False: the job is done; `ret_end`: it must call `end`. */
static bool intake_next(struct pl_http_request *r, bool *ret_end)
{
    struct http_intake *in = r->intake;
    struct pl_buf full;
    bool more;

    pthread_mutex_lock(&r->lock);
    more = in->fill.len > 0 && !in->failure.code;
    if (more) {
        full = in->fill;
        in->fill = in->drain;
        in->drain = full;
        pl_buf_clear(&in->fill);
        if (!in->eof)
            pl_httpd_resume(r); /* it waited for space; after the end of the body it waits for the reply */
    } else {
        in->running = false;
        *ret_end = !in->ended && (in->eof || in->failure.code);
        in->ended |= *ret_end;
    }
    pthread_mutex_unlock(&r->lock);
    return more;
}

/* Writes buffers to the sink until there is no data, and calls `end` after the last. */
static void intake_job(void *arg)
{
    struct pl_http_request *r = arg;
    struct http_intake *in = r->intake;
    struct pl_err err = {0};
    bool end = false;

    while (intake_next(r, &end)) {
        int e = in->sink.write(in->sink.self, in->drain.data, in->drain.len, &err);

        if (e < 0) {
            pthread_mutex_lock(&r->lock);
            if (!err.code)
                pl_err_set(&err, e, "the body could not be processed");
            in->failure = err;
            pthread_mutex_unlock(&r->lock);
        }
    }
    if (end) {
        /* from here on lack of memory concerns this request */
        (void)pl_alloc_failure_take();
        /* replies, which releases the handler's reference */
        in->sink.end(in->sink.self, r, in->failure.code ? &in->failure : NULL);
    }
    pl_httpd_request_unref(r);
}

void pl_http_body_to(struct pl_http_request *r, const struct pl_http_sink *sink)
{
    struct http_intake *in = calloc(1, sizeof(*in));
    struct pl_err err = {0};
    bool gone;

    if (!in) {
        pl_err_nomem(&err);
        sink->end(sink->self, r, &err);
        return;
    }
    in->sink = *sink;
    in->fill.max = in->drain.max = INTAKE_HALF;
    pl_httpd_request_ref(r); /* `end` may release the handler's reference at once */
    pthread_mutex_lock(&r->lock);
    r->intake = in;
    gone = !r->connection;
    if (gone)
        pl_httpd_body_gone(r);
    pl_httpd_resume(r);
    pthread_mutex_unlock(&r->lock);
    if (gone)
        pl_httpd_body_settle(r);
    pl_httpd_request_unref(r);
}
