/* Streamed bodies of requests: libmicrohttpd's thread fills the buffer `fill` while a pool thread writes the
 * buffer `drain` to the sink. Each is half of PL_HTTP_BODY_BUFFER. When `fill` is full, the connection is
 * suspended until the pool thread has swapped the two. */
#include "pipelined/net/server/http_internal.h"

#include "storage/base/alloc_failure.h"

#define INTAKE_HALF (PL_HTTP_BODY_BUFFER / 2)

struct http_intake {
    struct pl_http_sink sink;
    struct pl_buf fill;  /* next bytes of the body; guarded by the request's lock */
    struct pl_buf drain; /* bytes that the running job writes to the sink */
    bool running;        /* a job is queued or runs */
    bool eof, ended;
    bool wanted; /* the pool had no space for the job: submit it again */
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

/* Submits the job to the pool unless it is queued or runs. The caller holds the request's lock. */
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
    pl_httpd_request_unref(r); /* not the last reference: libmicrohttpd or the handler still has one */
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
        return n; /* the sink has failed or ended: discard the bytes */
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

/* Swaps the buffers if there is data, and returns true. Returns false if there is none: then the job is done,
 * and must call `end` if `*ret_end` is true. */
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
            /* the connection was suspended because `fill` was full; once the body has ended, it is
             * suspended until the reply */
            pl_httpd_resume(r);
    } else {
        in->running = false;
        *ret_end = !in->ended && (in->eof || in->failure.code);
        in->ended |= *ret_end;
    }
    pthread_mutex_unlock(&r->lock);
    return more;
}

/* A job on the pool: writes buffers to the sink until there is no more data, and calls `end` after the last
 * of the body. */
static void intake_job(void *arg)
{
    struct pl_http_request *r = arg;
    struct http_intake *in = r->intake;
    struct pl_err err = {0};
    bool end = false;

    pl_http_request_enter(r);
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
        /* forget failed allocations of earlier requests on this thread */
        (void)pl_alloc_failure_take();
        /* `end` sends the reply, which releases the handler's reference */
        in->sink.end(in->sink.self, r, in->failure.code ? &in->failure : NULL);
    }
    pl_http_request_leave();
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
