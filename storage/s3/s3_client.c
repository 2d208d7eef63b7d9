/* s3_client: a state machine per call, driven by the I/O thread of http_io. The thread keeps a queue of calls
 * and starts them as far as the current limit of concurrent calls allows. Other threads only start calls. */
#include "storage/s3/s3_client.h"

#include "storage/base/clock.h"
#include "storage/http/cancel.h"
#include "storage/http/loopback_host.h"
#include "storage/http/uri.h"
#include "storage/s3/s3_response.h"
#include "storage/s3/sigv4_encoding.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>

#define CANCEL_MS 250 /* interval in ms at which a paused call checks its cancel flag */
/* if the Date of an error response differs from this machine's clock by more than this many seconds, the
 * error is treated as clock skew */
#define SKEW_SEEN_S (5 * 60)

struct pl_s3_client {
    struct pl_http_io *io;
    struct pl_s3_credentials *creds;
    char name[PL_S3_HOST_MAX + PL_S3_BUCKET_MAX + PL_OBJECT_KEY_MAX + 32];
    bool tls;
    unsigned connections;
    int64_t pause_ms, stall_ms, deadline_ms;
    pthread_mutex_t lock;
    struct pl_s3_place place; /* guarded by `lock`: its region may change */
    _Atomic int64_t skew_s;   /* the server's clock minus this machine's clock, in seconds */
    atomic_bool closing;
    atomic_bool waking; /* true: the timer `wake` is armed */
    struct pl_http_timer wake, pump_again;
    bool pump_armed;
    _Atomic uint64_t requests, retries, forbidden, busy, errors; /* pl_s3_client_view */
    /* The fields below belong to the I/O thread. */
    struct pl_s3_call *queue, **queue_end;
    struct pl_s3_call *for_keys; /* calls that wait for credentials */
    unsigned running;
    double limit; /* calls that may run at a time */
    int64_t not_before_ms;
    uint64_t random;
};

static void pump(struct pl_s3_client *c);

/* ---- the end of a call ---- */

static void end_call(struct pl_s3_call *call)
{
    if (call->keys_ != NULL)
        explicit_bzero(call->keys_, sizeof(*call->keys_));
    free(call->keys_);
    call->keys_ = NULL;
    call->done(call);
}

/* Returns true if the outcome of the call is certain even though earlier attempts may have been carried out:
 * the key exists, or the key to delete is absent. */
static bool is_known(const struct pl_s3_call *call, int code)
{
    return code == PL_EEXISTS || (code == PL_ENOTFOUND && pl_streq(call->method, "DELETE"));
}

/* Ends a call with an error. If the server may have carried out an earlier attempt, the error is PL_ENET,
 * so that the caller checks whether the request was carried out. */
static void fail_call(struct pl_s3_call *call, int code)
{
    if (call->unknown && code != PL_ENET && code != PL_ETIMEOUT && !is_known(call, code))
        code = pl_err_wrap(&call->err, PL_ENET, "the server may have carried out an earlier attempt of this request");
    call->err.code = code;
    end_call(call);
}

static void give_up(struct pl_s3_call *call, int code, const char *why)
{
    if (call->err.code == 0)
        (void)pl_err_set(&call->err, code, "%s", why);
    else
        (void)pl_err_wrap(&call->err, code, "%s", why);
    fail_call(call, code);
}

/* ---- one attempt ---- */

static int64_t server_now_s(const struct pl_s3_client *c)
{
    return pl_clock_wall_us() / 1000000 + atomic_load(&c->skew_s);
}

static void copy_place(struct pl_s3_client *c, struct pl_s3_place *ret)
{
    pthread_mutex_lock(&c->lock);
    *ret = c->place;
    pthread_mutex_unlock(&c->lock);
}

/* Copies the location `at` to `p`, except for the region: all endpoints of a bucket have the same region. */
static void put_behind(struct pl_s3_place *p, const struct pl_s3_place *at)
{
    char region[sizeof(p->region)];

    memcpy(region, p->region, sizeof(region));
    *p = *at;
    memcpy(p->region, region, sizeof(region));
}

/* Appends a header line to call->text_ and returns its offset in `*at`; pointers to the lines are made only
 * after the last one was added, because the buffer may move until then. */
static int add_line(struct pl_s3_call *call, size_t *at, const char *name, const char *value)
{
    int r = 0;

    *at = call->text_.len;
    r = pl_buf_addf(&call->text_, &call->err, "%s: %s", name, value);
    return r < 0 ? r : pl_buf_add_u8(&call->text_, 0, &call->err);
}

static int add_url(struct pl_s3_call *call, const struct pl_s3_place *place, const char *path)
{
    char origin[PL_S3_HOST_MAX + 9];
    struct pl_err *err = &call->err;
    int r = pl_buf_add_str(&call->text_, pl_s3_place_origin(place, origin), err);

    if (r == 0)
        r = pl_uri_escape(path, true, &call->text_, err);
    if (r == 0 && call->n_query > 0)
        r = pl_buf_add_u8(&call->text_, '?', err);
    if (r == 0)
        r = pl_sigv4_query(call->query, call->n_query, &call->text_, err);
    return r < 0 ? r : pl_buf_add_u8(&call->text_, 0, err);
}

/* Builds the URL and the signed headers of the next attempt in call->text_ and call->lines_. */
static int sign(struct pl_s3_client *c, struct pl_s3_call *call)
{
    _cleanup_(pl_buf_finish) struct pl_buf authorization = {0};
    const char *payload = call->payload != NULL ? call->payload : PL_SIGV4_EMPTY_SHA256;
    char host[PL_S3_HOST_MAX + 1], time[PL_SIGV4_TIME_BYTES + 1], path[PL_S3_URL_MAX];
    struct pl_sigv4_pair headers[PL_S3_CALL_HEADERS + 4];
    size_t n = 0, at[PL_S3_CALL_HEADERS + 5], lines = 0;
    struct pl_sigv4_request q = {.method = call->method, .query = call->query, .n_query = call->n_query, .payload = payload};
    struct pl_sigv4_scope scope;
    struct pl_sigv4_key key;
    struct pl_s3_place place;
    int r;

    copy_place(c, &place);
    if (call->has_moved_)
        put_behind(&place, &call->moved_);
    (void)pl_s3_place_host(&place, host);
    q.path = pl_s3_place_path(&place, call->key, path);
    headers[n++] = (struct pl_sigv4_pair){"host", host};
    headers[n++] = (struct pl_sigv4_pair){"x-amz-date", pl_sigv4_time(server_now_s(c), time)};
    headers[n++] = (struct pl_sigv4_pair){"x-amz-content-sha256", payload};
    if (call->keys_->token[0] != '\0')
        headers[n++] = (struct pl_sigv4_pair){"x-amz-security-token", call->keys_->token};
    for (size_t i = 0; i < call->n_headers; i++)
        headers[n++] = call->headers[i];
    q.headers = headers;
    q.n_headers = n;
    r = pl_sigv4_scope_init(&scope, time, place.region, "s3", &call->err);
    if (r == 0)
        r = pl_sigv4_key(call->keys_->secret, &scope, &key, &call->err);
    if (r == 0)
        r = pl_sigv4_authorization(&q, &scope, &key, call->keys_->access_key, time, &authorization, NULL, &call->err);
    explicit_bzero(&key, sizeof(key));
    if (r == 0 && pl_buf_str(&authorization) == NULL)
        r = pl_err_nomem(&call->err);
    pl_buf_clear(&call->text_);
    if (r == 0)
        r = add_url(call, &place, q.path);
    /* start at 1: the first header is Host, which libcurl adds itself */
    for (size_t i = 1; r == 0 && i < n; i++)
        r = add_line(call, &at[lines++], headers[i].name, headers[i].value);
    if (r == 0)
        r = add_line(call, &at[lines++], "Authorization", (const char *)authorization.data);
    for (size_t i = 0; r == 0 && i < lines; i++)
        call->lines_[i] = (const char *)call->text_.data + at[i];
    call->lines_[r == 0 ? lines : 0] = NULL;
    return r;
}

static void on_answer(struct pl_http_exchange *x);

/* Sends the signed request and counts the attempt. */
static void send_call(struct pl_s3_client *c, struct pl_s3_call *call)
{
    struct pl_http_exchange *x = &call->x;

    x->method = call->method;
    x->url = (const char *)call->text_.data;
    x->headers = call->lines_;
    x->body = call->body;
    x->n_body = call->n_body;
    x->has_body = call->has_body;
    x->stall_ms = c->stall_ms;
    x->cancel = call->cancel;
    x->timeout_ms = PL_MAX(call->deadline_ms_ - pl_clock_mono_ms(), (int64_t)1);
    x->out = call->xml ? &call->reply : call->out;
    x->write = call->write;
    x->write_self = call->write_self;
    if (x->out != NULL)
        pl_buf_clear(x->out);
    if (call->xml)
        call->reply.max = PL_S3_REPLY_MAX;
    if (call->restart != NULL)
        call->restart(call->write_self);
    x->done = on_answer;
    x->arg = call;
    c->running++;
    atomic_fetch_add(&c->requests, 1);
    if (call->attempts++ > 0)
        atomic_fetch_add(&c->retries, 1);
    call->err.code = 0;
    pl_http_io_submit(c->io, x);
}

static bool is_cancelled(const struct pl_s3_call *call)
{
    return call->cancel != NULL && atomic_load(call->cancel);
}

/* Signs and sends a call. If credentials are still being fetched, the call waits for them. */
static void begin(struct pl_s3_client *c, struct pl_s3_call *call)
{
    int r;

    if (atomic_load(&c->closing) || is_cancelled(call)) {
        give_up(call, PL_ECANCELED, is_cancelled(call) ? "the request was canceled" : "the store is being closed");
        return;
    }
    if (call->keys_ == NULL)
        call->keys_ = malloc(sizeof(*call->keys_));
    if (call->keys_ == NULL) {
        fail_call(call, pl_err_nomem(&call->err));
        return;
    }
    r = pl_s3_credentials_get(c->creds, server_now_s(c), call->keys_, &call->err);
    if (r == PL_EBUSY) {
        call->next_ = c->for_keys;
        c->for_keys = call;
        return;
    }
    if (r == 0)
        r = sign(c, call);
    if (r < 0)
        fail_call(call, r);
    else
        send_call(c, call);
}

static void enqueue(struct pl_s3_client *c, struct pl_s3_call *call)
{
    call->next_ = NULL;
    *(c->queue != NULL ? c->queue_end : &c->queue) = call;
    c->queue_end = &call->next_;
}

static void on_pump_again(struct pl_http_timer *t)
{
    struct pl_s3_client *c = PL_CONTAINER_OF(t, struct pl_s3_client, pump_again);

    c->pump_armed = false;
    pump(c);
}

/* Starts queued calls until the limit of concurrent calls is reached. Starts none during a pause that a
 * server has asked for. */
static void pump(struct pl_s3_client *c)
{
    while (c->queue != NULL) {
        struct pl_s3_call *call = c->queue;

        if (!atomic_load(&c->closing)) {
            if (c->running >= (unsigned)c->limit)
                return;
            if (pl_clock_mono_ms() < c->not_before_ms) {
                if (!c->pump_armed) {
                    c->pump_armed = true;
                    c->pump_again = (struct pl_http_timer){.fn = on_pump_again, .due_ms = c->not_before_ms};
                    pl_http_io_at(c->io, &c->pump_again);
                }
                return;
            }
        }
        c->queue = call->next_;
        begin(c, call);
    }
}

static void on_timer(struct pl_http_timer *t);

static void pause_on(struct pl_s3_call *call, int64_t due_ms)
{
    call->timer_ = (struct pl_http_timer){.fn = on_timer, .due_ms = due_ms};
    pl_http_io_at(call->client_->io, &call->timer_);
}

static void on_timer(struct pl_http_timer *t)
{
    struct pl_s3_call *call = PL_CONTAINER_OF(t, struct pl_s3_call, timer_);
    struct pl_s3_client *c = call->client_;
    const int64_t now_ms = pl_clock_mono_ms();

    if (now_ms < call->due_ms_ && !is_cancelled(call) && !atomic_load(&c->closing)) {
        pause_on(call, PL_MIN(call->due_ms_, now_ms + CANCEL_MS));
        return;
    }
    enqueue(c, call);
    pump(c);
}

static void again_at(struct pl_s3_call *call, int64_t due_ms)
{
    call->due_ms_ = due_ms;
    pause_on(call, call->cancel != NULL && due_ms > 0 ? PL_MIN(due_ms, pl_clock_mono_ms() + CANCEL_MS) : due_ms);
}

/* Puts the calls that wait for credentials back into the queue, after credentials were fetched or the fetch
 * failed. */
static void on_wake(struct pl_http_timer *t)
{
    struct pl_s3_client *c = PL_CONTAINER_OF(t, struct pl_s3_client, wake);
    struct pl_s3_call *calls = c->for_keys;

    atomic_store(&c->waking, false);
    c->for_keys = NULL;
    while (calls != NULL) {
        struct pl_s3_call *call = calls;

        calls = call->next_;
        enqueue(c, call);
    }
    pump(c);
}

static void on_keys_changed(void *arg)
{
    struct pl_s3_client *c = arg;

    if (atomic_exchange(&c->waking, true))
        return;
    c->wake = (struct pl_http_timer){.fn = on_wake};
    pl_http_io_at(c->io, &c->wake);
}

/* ---- what a response means for the next attempt ---- */

/* Returns why a successful response cannot be trusted: a proxy answered instead of the store, or a truncated
 * response would go unnoticed. NULL: it can be trusted. */
static const char *what_is_wrong(const struct pl_s3_call *call)
{
    const struct pl_http_exchange *x = &call->x;

    if ((call->etag && x->etag[0] == '\0') || (call->expect != 0 && call->expect != x->status))
        return "the response does not match the request: another server or a proxy may have sent it";
    if (x->length == UINT64_MAX && !x->chunked && pl_streq(call->method, "GET"))
        return "the response has neither a Content-Length nor chunked encoding";
    return NULL;
}

/* Classifies the response of an attempt and fills `p` with its error document. */
static enum pl_s3_response_class read_answer(const struct pl_s3_client *c, struct pl_s3_call *call,
                                             struct pl_s3_response_error *p)
{
    struct pl_http_exchange *x = &call->x;
    const bool ok = x->status >= 200 && x->status <= 299;
    enum pl_s3_response_class class;
    const char *wrong;

    *p = (struct pl_s3_response_error){0};
    if (x->status == 0)
        return PL_S3_RETRY;
    if (pl_s3_response_error_parse(ok && call->xml ? &call->reply : &x->problem, p) && ok)
        return p->code[0] != '\0' && pl_s3_response_class_of(500, p->code) != PL_S3_OK ? pl_s3_response_class_of(500, p->code)
                                                                                       : PL_S3_RETRY;
    class = pl_s3_response_class_of(x->status, p->code);
    if (class == PL_S3_OK && (wrong = what_is_wrong(call)) != NULL) {
        (void)snprintf(p->message, sizeof(p->message), "%s", wrong);
        return PL_S3_RETRY;
    }
    if (class == PL_S3_WRONG_REGION && p->region[0] == '\0')
        (void)snprintf(p->region, sizeof(p->region), "%s", x->region);
    if (class == PL_S3_FORBIDDEN && x->date_s != 0 && llabs(x->date_s - server_now_s(c)) > SKEW_SEEN_S)
        return PL_S3_CLOCK_SKEW; /* a response to HEAD has no body, and so no error code to tell the reason */
    if (class == PL_S3_BAD_RESPONSE && x->status == 400 && p->code[0] == '\0' && call->keys_->token[0] != '\0')
        return PL_S3_BAD_CREDENTIALS; /* a response to HEAD has no error code, see above */
    return class;
}

/* Adopts the time of the response as the server's clock. */
static bool mend_clock(struct pl_s3_client *c, struct pl_s3_call *call)
{
    if (call->clock_tried_ || call->x.date_s == 0)
        return false;
    call->clock_tried_ = true;
    atomic_store(&c->skew_s, call->x.date_s - pl_clock_wall_us() / 1000000);
    return true;
}

/* Moves the client to the region that the response names, and the call to the host of a redirect. Returns
 * true if a retry may now succeed. */
static bool mend_region(struct pl_s3_client *c, struct pl_s3_call *call, const char *region)
{
    const struct pl_http_exchange *x = &call->x;
    bool moved = false;

    if (call->redirects_++ == PL_S3_REDIRECTS_MAX)
        return false;
    pthread_mutex_lock(&c->lock);
    if (region[0] != '\0' && !pl_streq(region, c->place.region))
        moved = pl_s3_place_move(&c->place, region, NULL) == 0;
    pthread_mutex_unlock(&c->lock);
    if ((x->status == 307 || x->status == 308) && x->location[0] != '\0') {
        /* only this thread changes it */
        struct pl_s3_place to = call->has_moved_ ? call->moved_ : c->place;

        if (!pl_s3_place_follow(&to, call->key, x->location))
            return moved;
        call->moved_ = to;
        call->has_moved_ = true;
        return true;
    }
    return moved;
}

static bool mend_keys(struct pl_s3_client *c, struct pl_s3_call *call)
{
    if (call->keys_tried_)
        return false;
    call->keys_tried_ = true;
    return pl_s3_credentials_refused(c->creds, call->keys_);
}

/* Returns a random pause between 0 and a bound that doubles with each attempt ("full jitter"). */
static int64_t pause_of(struct pl_s3_client *c, unsigned attempts)
{
    const int64_t bound = c->pause_ms * PL_MIN((int64_t)1 << PL_MIN(attempts - 1, 16u), (int64_t)PL_S3_PAUSE_GROWTH);

    return (int64_t)(pl_splitmix64(&c->random) % (uint64_t)(bound + 1));
}

static void slow_down(struct pl_s3_client *c, const struct pl_s3_call *call, int64_t now_ms)
{
    const int64_t asked_ms = PL_MIN((int64_t)call->x.retry_after_s * 1000, c->pause_ms * PL_S3_PAUSE_GROWTH);

    /* the limit is lowered only once for 503 responses that arrive together */
    if (now_ms >= c->not_before_ms)
        c->limit = PL_MAX(1.0, c->limit / 2);
    c->not_before_ms = PL_MAX(c->not_before_ms, now_ms + PL_MAX(asked_ms, pause_of(c, call->attempts)));
}

static bool changes_something(const struct pl_s3_call *call)
{
    return !pl_streq(call->method, "GET") && !pl_streq(call->method, "HEAD");
}

/* Schedules a retry after a failure of the server or the network, or ends the call if its attempts or its
 * time are used up. */
static void try_again(struct pl_s3_client *c, struct pl_s3_call *call, int code)
{
    const int64_t now_ms = pl_clock_mono_ms(), due_ms = PL_MAX(now_ms + pause_of(c, call->attempts), c->not_before_ms);

    if (changes_something(call) && (call->x.sent || call->x.status != 0))
        call->unknown = true;
    if (call->once || call->attempts >= PL_S3_ATTEMPTS || due_ms >= call->deadline_ms_ || atomic_load(&c->closing))
        fail_call(call, call->unknown && code != PL_ETIMEOUT ? PL_ENET : code);
    else
        again_at(call, due_ms);
}

static bool is_final(int transport)
{
    return transport == PL_ENOMEM || transport == PL_EINVAL || transport == PL_EUNAVAILABLE || transport == PL_ETOOBIG ||
           transport == PL_ECANCELED || transport == PL_EBUSY;
}

static void count_reply(struct pl_s3_client *c, unsigned status)
{
    if (status == 401 || status == 403)
        atomic_fetch_add(&c->forbidden, 1);
    else if (status == 429 || status == 503)
        atomic_fetch_add(&c->busy, 1);
    else if (status >= 500)
        atomic_fetch_add(&c->errors, 1);
}

void pl_s3_client_look(struct pl_s3_client *c, struct pl_s3_client_view *ret)
{
    *ret = (struct pl_s3_client_view){.requests = atomic_load(&c->requests),
                                      .retries = atomic_load(&c->retries),
                                      .forbidden = atomic_load(&c->forbidden),
                                      .busy = atomic_load(&c->busy),
                                      .errors = atomic_load(&c->errors)};
}

/* Decides after each attempt: the call succeeded, is retried at once with a correction, is retried after a
 * pause, or failed. */
static void settle(struct pl_s3_client *c, struct pl_s3_call *call)
{
    struct pl_http_exchange *x = &call->x;
    const int transport = x->status == 0 ? x->err.code : 0;
    struct pl_s3_response_error p;
    enum pl_s3_response_class class = read_answer(c, call, &p);
    bool mended = false;
    int code;

    count_reply(c, (unsigned)x->status);
    /* the response is to the second transmission and does not tell whether the server carried out the
     * first */
    if (x->resent && changes_something(call))
        call->unknown = true;
    if (class == PL_S3_OK) {
        c->limit = PL_MIN((double)c->connections, c->limit + 1 / c->limit);
        call->unknown = false;
        end_call(call);
        return;
    }
    if (transport < 0) {
        call->err = x->err;
        code = pl_err_wrap(&call->err, transport, "s3");
    } else {
        code = pl_s3_response_class_error(class, x->status, &p, &call->err);
    }
    if (class == PL_S3_CLOCK_SKEW)
        mended = mend_clock(c, call);
    else if (class == PL_S3_WRONG_REGION)
        mended = mend_region(c, call, p.region);
    else if (class == PL_S3_BAD_CREDENTIALS)
        mended = mend_keys(c, call);
    else if (class == PL_S3_REDUCE_RATE)
        slow_down(c, call, pl_clock_mono_ms());
    if (mended)
        again_at(call, 0);
    else if (class == PL_S3_REDUCE_RATE || (class == PL_S3_RETRY && !is_final(transport)))
        try_again(c, call, code);
    else
        fail_call(call, code);
}

static void on_answer(struct pl_http_exchange *x)
{
    struct pl_s3_call *call = x->arg;
    struct pl_s3_client *c = call->client_;

    c->running--;
    if (x->err.code == PL_ECANCELED && changes_something(call) && x->sent)
        call->unknown = true;
    settle(c, call);
    pump(c);
}

/* ---- public functions ---- */

static int64_t body_bytes(const struct pl_s3_call *call)
{
    int64_t n = 0;

    for (int i = 0; i < call->n_body; i++)
        n += (int64_t)call->body[i].iov_len;
    return n;
}

void pl_s3_client_start(struct pl_s3_client *c, struct pl_s3_call *call)
{
    const int64_t bytes = body_bytes(call) + (call->out != NULL ? (int64_t)call->out->max : 0);

    call->client_ = c;
    call->cancel = pl_cancel_flag();
    call->err = (struct pl_err){0};
    call->unknown = false;
    call->attempts = call->redirects_ = 0;
    call->clock_tried_ = call->keys_tried_ = false;
    call->has_moved_ = false;
    call->deadline_ms_ = pl_clock_mono_ms() + c->deadline_ms + bytes * 1000 / PL_S3_SLOWEST;
    again_at(call, 0);
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static void wake_caller(struct pl_s3_call *call)
{
    struct waiter *w = call->arg;

    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

int pl_s3_client_run(struct pl_s3_client *c, struct pl_s3_call *call, struct pl_err *err)
{
    struct waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

    call->done = wake_caller;
    call->arg = &w;
    pl_s3_client_start(c, call);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.changed, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.changed);
    if (call->err.code < 0 && err != NULL)
        *err = call->err;
    return call->err.code;
}

void pl_s3_call_finish(struct pl_s3_call *call)
{
    pl_buf_finish(&call->reply);
    pl_buf_finish(&call->text_);
    pl_buf_finish(&call->x.problem);
}

static int client_init(struct pl_s3_client *c, const struct pl_s3_client_config *config, struct pl_err *err)
{
    /* a server on this machine is never reached through a proxy */
    struct pl_http_io_config io = {.connections = c->connections,
                                   .ca = config->ca,
                                   .no_proxy = pl_is_loopback_host(config->place.host)};
    struct pl_s3_credentials_config creds = config->creds;
    char origin[PL_S3_HOST_MAX + 9];
    int r = pl_http_io_create(&io, &c->io, err);

    if (r < 0)
        return r;
    (void)snprintf(c->name, sizeof(c->name), "s3://%s/%s at %s", c->place.bucket, c->place.prefix,
                   pl_s3_place_origin(&c->place, origin));
    creds.changed = on_keys_changed;
    creds.arg = c;
    creds.region = c->place.region;
    return pl_s3_credentials_create(&creds, c->io, &c->creds, err);
}

int pl_s3_client_create(const struct pl_s3_client_config *config, struct pl_s3_client **ret, struct pl_err *err)
{
    struct pl_s3_client *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return pl_err_nomem(err);
    pthread_mutex_init(&c->lock, NULL);
    c->place = config->place;
    c->tls = config->place.tls;
    c->connections = config->connections != 0 ? PL_MIN(config->connections, PL_HTTP_IO_CONNECTIONS_MAX) : PL_S3_CONNECTIONS;
    c->limit = c->connections;
    c->pause_ms = config->pause_ms != 0 ? config->pause_ms : PL_S3_PAUSE_MS;
    c->stall_ms = config->stall_ms != 0 ? config->stall_ms : PL_S3_STALL_MS;
    c->deadline_ms = config->deadline_ms != 0 ? config->deadline_ms : PL_S3_DEADLINE_MS;
    pl_random_bytes(&c->random, sizeof(c->random));
    r = client_init(c, config, err);
    if (r < 0) {
        pl_s3_client_destroy(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct pl_s3_client *pl_s3_client_destroy(struct pl_s3_client *c)
{
    if (c == NULL)
        return NULL;
    atomic_store(&c->closing, true);
    if (c->io != NULL) {
        on_keys_changed(c); /* ends the calls that wait for credentials or in the queue */
        pl_http_io_stop(c->io);
    }
    c->creds = pl_s3_credentials_destroy(c->creds);
    c->io = pl_http_io_destroy(c->io);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

int pl_s3_client_presign(struct pl_s3_client *c, const struct pl_s3_place *behind, const char *method, const char *key,
                         const struct pl_sigv4_pair *headers, size_t n_headers, const char *payload, uint32_t expires_s,
                         struct pl_buf *out, uint32_t *ret_expires_s, struct pl_err *err)
{
    const int64_t now_s = server_now_s(c);
    char host[PL_S3_HOST_MAX + 1], origin[PL_S3_HOST_MAX + 9], path[PL_S3_URL_MAX], time[PL_SIGV4_TIME_BYTES + 1];
    struct pl_sigv4_pair all[PL_S3_CALL_HEADERS + 1];
    struct pl_sigv4_request q = {.method = method, .headers = all, .n_headers = n_headers + 1, .payload = payload};
    struct pl_s3_place place;
    struct pl_s3_access_keys keys;
    struct pl_sigv4_scope scope;
    struct pl_sigv4_key day;
    int r;

    if (n_headers > PL_S3_CALL_HEADERS)
        return pl_err_set(err, PL_EINVAL, "the request has %zu headers; at most %d can be signed", n_headers, PL_S3_CALL_HEADERS);
    r = pl_s3_credentials_wait(c->creds, now_s, c->deadline_ms, &keys, err);
    if (r < 0)
        return r;
    if (keys.expires_s > 0)
        expires_s = (uint32_t)PL_MAX(PL_MIN((int64_t)expires_s, keys.expires_s - now_s), (int64_t)1);
    copy_place(c, &place);
    if (behind != NULL)
        put_behind(&place, behind);
    all[0] = (struct pl_sigv4_pair){"host", pl_s3_place_host(&place, host)};
    if (n_headers > 0)
        memcpy(all + 1, headers, n_headers * sizeof(*all));
    q.path = pl_s3_place_path(&place, key, path);
    (void)pl_sigv4_time(now_s, time);
    r = pl_sigv4_scope_init(&scope, time, place.region, "s3", err);
    if (r == 0)
        r = pl_sigv4_key(keys.secret, &scope, &day, err);
    if (r == 0)
        r = pl_buf_add_str(out, pl_s3_place_origin(&place, origin), err);
    if (r == 0)
        r = pl_sigv4_presign(&q, &scope, &day, keys.access_key, keys.token[0] != '\0' ? keys.token : NULL, time, expires_s, out,
                             err);
    if (r == 0)
        *ret_expires_s = expires_s;
    explicit_bzero(&keys, sizeof(keys));
    explicit_bzero(&day, sizeof(day));
    return r;
}

struct pl_http_io *pl_s3_client_io(struct pl_s3_client *c)
{
    return c->io;
}

bool pl_s3_client_tls(const struct pl_s3_client *c)
{
    return c->tls;
}

const char *pl_s3_client_name(const struct pl_s3_client *c)
{
    return c->name;
}
