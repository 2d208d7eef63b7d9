/* kube_client.c: keeps calls between their attempts. A call waits in `queue` until a concurrent call ends and
 * the rate limit has a token, in `for_auth` until credentials are available, or on its own timer until the
 * next attempt is due. Everything after pl_kube_client_start runs on the I/O thread. */
#include "pipelined/kube/client/kube_client.h"

#include "pipelined/kube/client/kube_rate_limit.h"
#include "pipelined/kube/client/kube_wait.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/system/trace.h"

#include <pthread.h>
#include <stdio.h>

#define BUFFER_BYTES (64L << 10)

/* A queue of calls, first in, first out. */
struct list {
    struct pl_kube_call *first, **end;
    size_t n;
};

struct pl_kube_client {
    struct pl_http_io *io;
    struct pl_kube_identity *identity;
    char name[512];
    unsigned calls;
    int64_t pause_ms;
    atomic_bool closing, waking; /* waking: timer `wake` is scheduled */
    _Atomic int64_t order;       /* number of the next call; calls begin in the order of their numbers */
    struct pl_http_timer wake, pump_again;
    _Atomic uint64_t requests, retries, throttled;
    atomic_size_t waiting, in_flight;
    _Atomic double rate_now;
    /* The members below are used on the I/O thread only. */
    struct pl_kube_rate rate;
    /* queue[] and running[] are indexed by pl_kube_call.later: 1 = low priority */
    struct list queue[2], for_auth;
    unsigned running[2], streams, logs; /* streams: number of running streams, including logs */
    bool pump_armed;
    uint64_t random;
};

static void pump(struct pl_kube_client *c);

/* ---- lists ---- */

static void append(struct list *l, struct pl_kube_call *call)
{
    call->next_ = NULL;
    *(l->first != NULL ? l->end : &l->first) = call;
    l->end = &call->next_;
    l->n++;
}

static struct pl_kube_call *take_first(struct list *l)
{
    struct pl_kube_call *call = l->first;

    if (call != NULL) {
        l->first = call->next_;
        l->n--;
    }
    return call;
}

/* Inserts all calls of list `first` before the calls of list `l`. */
static void put_before(struct list *l, const struct list *first)
{
    if (first->first == NULL)
        return;
    *first->end = l->first;
    l->end = l->first != NULL ? l->end : first->end;
    l->first = first->first;
    l->n += first->n;
}

/* ---- the end of a call ---- */

static void release_auth(struct pl_kube_call *call)
{
    pl_kube_auth_unref(call->auth_);
    call->auth_ = NULL;
    pl_buf_finish(&call->x_.problem);
    call->x_.problem = (struct pl_buf){0};
}

static void end_call(struct pl_kube_call *call, int code)
{
    struct pl_kube_client *c = call->client_;

    call->err.code = code;
    pl_trace("kube/client", "%s %s: %d, status %d", call->method, call->path, code, call->status.code);
    release_auth(call);
    atomic_fetch_sub(&c->waiting, 1);
    call->done(call);
}

static void give_up(struct pl_kube_call *call, int code, const char *why)
{
    end_call(call, pl_err_set(&call->err, code, "%s", why));
}

static bool is_cancelled(const struct pl_kube_call *call)
{
    return atomic_load(&call->cancel_);
}

/* ---- one attempt ---- */

static void on_answer(struct pl_http_exchange *x);

/* Builds the URL and the headers for one attempt of a call. */
static int make_request(struct pl_kube_client *c, struct pl_kube_call *call)
{
    size_t n = 0;
    int r;

    pl_buf_clear(&call->url_);
    r = pl_buf_addf(&call->url_, &call->err, "%s%s", pl_kube_identity_base(c->identity), call->path);
    if (r < 0 || pl_buf_str(&call->url_) == NULL)
        return r < 0 ? r : pl_err_nomem(&call->err);
    call->headers_[n++] = "User-Agent: pipelined/" PL_VERSION;
    (void)snprintf(call->accept_, sizeof(call->accept_), "Accept: %s", call->accept != NULL ? call->accept : "application/json");
    call->headers_[n++] = call->accept_;
    if (call->auth_->authorization != NULL)
        call->headers_[n++] = call->auth_->authorization;
    if (call->auth_->host != NULL)
        call->headers_[n++] = call->auth_->host;
    if (call->body != NULL) {
        (void)snprintf(call->type_, sizeof(call->type_), "Content-Type: %s",
                       call->content_type != NULL ? call->content_type : "application/json");
        call->headers_[n++] = call->type_;
    }
    call->headers_[n] = NULL;
    return 0;
}

/* Submits one attempt of the call to the HTTP I/O thread and counts it. */
static void send_call(struct pl_kube_client *c, struct pl_kube_call *call, int64_t now_ms)
{
    struct pl_http_exchange *x = &call->x_;

    call->iov_ = (struct iovec){.iov_base = (void *)(uintptr_t)call->body, .iov_len = call->body_len};
    *x = (struct pl_http_exchange){.method = call->method,
                                   .url = (const char *)call->url_.data,
                                   .headers = call->headers_,
                                   .body = &call->iov_,
                                   .n_body = call->body != NULL,
                                   .has_body = call->body != NULL,
                                   .route = &call->auth_->route,
                                   .timeout_ms =
                                       call->deadline_at_ == INT64_MAX ? 0 : PL_MAX(call->deadline_at_ - now_ms, (int64_t)1),
                                   .stall_ms = call->stall_ms > 0 ? call->stall_ms : PL_KUBE_STALL_MS,
                                   .cancel = &call->cancel_,
                                   .write = call->write,
                                   .begins = call->begins,
                                   .write_self = call->write_self,
                                   .out = &call->reply,
                                   .done = on_answer,
                                   .arg = call};
    pl_buf_clear(&call->reply);
    call->reply.max = PL_KUBE_REPLY_MAX;
    if (call->restart != NULL)
        call->restart(call->write_self);
    *(call->stream ? &c->streams : &c->running[call->later]) += 1;
    c->logs += call->log;
    atomic_fetch_add(&c->in_flight, 1);
    atomic_fetch_add(&c->requests, 1);
    if (call->attempts++ > 0)
        atomic_fetch_add(&c->retries, 1);
    call->began_ms_ = now_ms;
    call->err.code = 0;
    pl_http_io_submit(c->io, x);
}

/* Sends the call's next attempt. Ends the call instead if it was cancelled or a limit is reached; moves it to
 * `for_auth` while no credentials are available. */
static void begin(struct pl_kube_client *c, struct pl_kube_call *call)
{
    const int64_t now_ms = pl_clock_mono_ms();
    int r;

    if (atomic_load(&c->closing) || is_cancelled(call)) {
        give_up(call, PL_ECANCELED, "the request was cancelled");
        return;
    }
    if (call->stream && c->streams >= PL_KUBE_STREAMS) {
        give_up(call, PL_EBUSY, "too many watches and logs at once");
        return;
    }
    if (call->log && c->logs >= PL_KUBE_LOGS) {
        give_up(call, PL_EBUSY, "too many logs at once");
        return;
    }
    r = pl_kube_identity_get(c->identity, now_ms, &call->auth_, &call->err);
    if (r == PL_EBUSY) {
        append(&c->for_auth, call);
        return;
    }
    if (r == 0)
        r = make_request(c, call);
    if (r < 0)
        end_call(call, r);
    else
        send_call(c, call, now_ms);
}

static void on_pump_again(struct pl_http_timer *t)
{
    struct pl_kube_client *c = PL_CONTAINER_OF(t, struct pl_kube_client, pump_again);

    c->pump_armed = false;
    pump(c);
}

/* True if the queue's first call was cancelled or the client is closing. Such a call ends at once: it
 * waits neither for a running call to end nor for a token of the rate limit. */
static bool ends_at_once(const struct pl_kube_client *c, const struct list *queue)
{
    return queue->first != NULL && (atomic_load(&c->closing) || is_cancelled(queue->first));
}

/* Returns the queue whose first call may begin now; NULL if no call may. Low-priority calls (`later`) use at
 * most half of the client's concurrent calls; while both queues have calls, each queue gets half. */
static struct list *next_queue(struct pl_kube_client *c)
{
    const unsigned half = PL_MAX(1u, c->calls / 2);
    const bool later = c->queue[1].first != NULL && c->running[1] < half;

    for (size_t i = 0; i < PL_ARRAY_SIZE(c->queue); i++)
        if (ends_at_once(c, &c->queue[i]))
            return &c->queue[i];
    if (c->running[0] + c->running[1] >= c->calls)
        return NULL;
    if (c->queue[0].first != NULL && (c->running[0] < half || !later))
        return &c->queue[0];
    return later ? &c->queue[1] : NULL;
}

static void arm_pump(struct pl_kube_client *c, int64_t due_ms)
{
    if (c->pump_armed)
        return;
    c->pump_armed = true;
    c->pump_again = (struct pl_http_timer){.fn = on_pump_again, .due_ms = due_ms};
    pl_http_io_at(c->io, &c->pump_again);
}

/* Begins queued calls until the limit of concurrent calls or the rate limit is reached. */
static void pump(struct pl_kube_client *c)
{
    struct list *queue;

    while ((queue = next_queue(c)) != NULL) {
        const int64_t now_ms = pl_clock_mono_ms(), wait_ms = ends_at_once(c, queue) ? 0 : pl_kube_rate_take(&c->rate, now_ms);

        atomic_store(&c->rate_now, c->rate.rate);
        if (wait_ms > 0) {
            arm_pump(c, now_ms + wait_ms);
            return;
        }
        begin(c, take_first(queue));
    }
}

static void enter(struct pl_kube_client *c, struct pl_kube_call *call)
{
    if (call->stream) {
        begin(c, call);
        return;
    }
    append(&c->queue[call->later], call);
    pump(c);
}

/* Runs after the credentials changed or failed, or a waiting call was cancelled: returns the calls in
 * `for_auth` to the front of their queues. There they wait again until fewer than the allowed number of calls
 * run. */
static void on_wake(struct pl_http_timer *t)
{
    struct pl_kube_client *c = PL_CONTAINER_OF(t, struct pl_kube_client, wake);
    struct list calls = c->for_auth, again[2] = {{0}};
    struct pl_kube_call *call;

    atomic_store(&c->waking, false);
    c->for_auth = (struct list){0};
    while ((call = take_first(&calls)) != NULL)
        if (call->stream || is_cancelled(call))
            begin(c, call);
        else
            append(&again[call->later], call);
    for (size_t i = 0; i < PL_ARRAY_SIZE(again); i++)
        put_before(&c->queue[i], &again[i]);
    pump(c);
}

static void on_changed(void *arg)
{
    struct pl_kube_client *c = arg;

    if (atomic_exchange(&c->waking, true))
        return;
    c->wake = (struct pl_http_timer){.fn = on_wake};
    pl_http_io_at(c->io, &c->wake);
}

/* ---- interpreting the answer ---- */

static void on_due(struct pl_http_timer *t);

static void wait_until(struct pl_kube_call *call, int64_t now_ms)
{
    call->timer_ = (struct pl_http_timer){.fn = on_due, .due_ms = PL_MIN(call->due_ms_, now_ms + PL_KUBE_CANCEL_MS)};
    pl_http_io_at(call->client_->io, &call->timer_);
}

static void on_due(struct pl_http_timer *t)
{
    struct pl_kube_call *call = PL_CONTAINER_OF(t, struct pl_kube_call, timer_);
    const int64_t now_ms = pl_clock_mono_ms();

    if (now_ms < call->due_ms_ && !is_cancelled(call) && !atomic_load(&call->client_->closing))
        wait_until(call, now_ms);
    else
        enter(call->client_, call);
}

static bool changes_something(const struct pl_kube_call *call)
{
    return !pl_streq(call->method, "GET");
}

/* Returns the pause before the next attempt: the server's Retry-After plus an exponential back-off, half of
 * it random. */
static int64_t pause_of(struct pl_kube_client *c, const struct pl_kube_call *call)
{
    const int64_t whole = PL_MIN((int64_t)PL_KUBE_PAUSE_MOST, c->pause_ms << PL_MIN(call->attempts - 1, 16u));
    const int64_t some = whole / 2 + (int64_t)(pl_splitmix64(&c->random) % (uint64_t)(whole / 2 + 1));

    return 1000 * (int64_t)call->status.retry_after_s + some;
}

/* Derives the call's outcome from libcurl's error when no HTTP answer came. Returns true if another attempt
 * may succeed. */
static bool no_answer(struct pl_kube_call *call)
{
    const int code = call->err.code;

    call->status = (struct pl_kube_status){0};
    call->verdict = PL_KUBE_AGAIN;
    (void)snprintf(call->status.message, sizeof(call->status.message), "%.*s", (int)sizeof(call->status.message) - 1,
                   call->err.msg);
    if (code == PL_EUNAVAILABLE) {
        call->err.code = PL_ETLS;
        (void)pl_err_hint(&call->err, PL_ETLS,
                          "Name the cluster's CA in the kubeconfig: certificate-authority or certificate-authority-data.");
    }
    (void)pl_err_wrap(&call->err, call->err.code, "%s", call->client_->name);
    return code == PL_ENET || code == PL_ETIMEOUT || code == PL_EPROTO;
}

static bool may_login(struct pl_kube_client *c, struct pl_kube_call *call, int64_t now_ms)
{
    if (call->verdict != PL_KUBE_LOGIN || call->login_tried_)
        return false;
    call->login_tried_ = true;
    return pl_kube_identity_refused(c->identity, call->auth_, now_ms);
}

static void again_later(struct pl_kube_client *c, struct pl_kube_call *call, int64_t now_ms)
{
    const int64_t due_ms = now_ms + pause_of(c, call);

    if (call->tries_until_ == INT64_MAX && call->tries_ms > 0 && call->status.code != 429)
        call->tries_until_ = now_ms + call->tries_ms;
    if (call->once || call->stream || due_ms >= PL_MIN(call->tries_until_, call->deadline_at_)) {
        end_call(call, call->err.code);
        return;
    }
    release_auth(call);
    call->due_ms_ = due_ms;
    wait_until(call, now_ms);
}

/* Sets the call's error, its status and the class of the answer (kube_response.h) from the attempt's
 * result. Returns true if another attempt may succeed. */
static bool read_answer(struct pl_kube_client *c, struct pl_kube_call *call)
{
    struct pl_http_exchange *x = &call->x_;

    if (x->err.code != 0) {
        call->unknown |= changes_something(call) && x->sent;
        if (x->err.code == PL_ETIMEOUT && call->status.code != 0 && pl_clock_mono_ms() >= call->deadline_at_) {
            /* the deadline cut this attempt short: what the server said to the one before is the reason */
            call->err = (struct pl_err){0};
            (void)pl_kube_status_error(&call->status, &call->err);
            return false;
        }
        call->err = x->err;
        return no_answer(call);
    }
    if (x->status == 429)
        atomic_fetch_add(&c->throttled, 1);
    if (x->status >= 200 && x->status <= 299) {
        call->status = (struct pl_kube_status){.code = x->status};
        call->verdict = PL_KUBE_OK;
        call->err = (struct pl_err){0};
        return false;
    }
    pl_kube_status_read(x->status, x->problem.data, x->problem.len, x->retry_after_s, &call->status);
    call->verdict = pl_kube_status_verdict(&call->status);
    call->unknown |= changes_something(call) && x->status >= 500;
    call->err = (struct pl_err){0};
    (void)pl_kube_status_error(&call->status, &call->err);
    return call->verdict == PL_KUBE_AGAIN;
}

/* Handles the end of an attempt: retries at once with fresh credentials, retries later, or ends the call. */
static void on_answer(struct pl_http_exchange *x)
{
    struct pl_kube_call *call = x->arg;
    struct pl_kube_client *c = call->client_;
    const int64_t now_ms = pl_clock_mono_ms();
    bool again;

    *(call->stream ? &c->streams : &c->running[call->later]) -= 1;
    c->logs -= call->log;
    atomic_fetch_sub(&c->in_flight, 1);
    again = read_answer(c, call);
    if (!call->stream && x->err.code != PL_ECANCELED)
        pl_kube_rate_answer(&c->rate, now_ms, call->status.code, call->status.retry_after_s, now_ms - call->began_ms_);
    if (may_login(c, call, now_ms)) {
        release_auth(call);
        enter(c, call);
    } else if (again && !is_cancelled(call)) {
        again_later(c, call, now_ms);
    } else {
        end_call(call, call->err.code);
    }
    pump(c);
}

/* ---- public functions ---- */

int pl_kube_client_create(struct pl_kube_client_config *config, struct pl_kube_client **ret, struct pl_err *err)
{
    const struct pl_http_io_config io = {.connections = PL_KUBE_CALLS + PL_KUBE_STREAMS, .buffer_bytes = BUFFER_BYTES};
    struct pl_kube_client *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL) {
        pl_kubeconfig_finish(&config->kubeconfig);
        return pl_err_nomem(err);
    }
    c->calls = config->calls > 0 ? PL_MIN(config->calls, PL_KUBE_CALLS) : PL_KUBE_CALLS;
    c->pause_ms = config->pause_ms > 0 ? config->pause_ms : PL_KUBE_PAUSE_MS;
    (void)snprintf(c->name, sizeof(c->name), "%.300s (context %.100s)", config->kubeconfig.server,
                   config->kubeconfig.context != NULL ? config->kubeconfig.context : "?");
    pl_kube_rate_init(&c->rate, pl_clock_mono_ms());
    atomic_store(&c->rate_now, c->rate.rate);
    pl_random_bytes(&c->random, sizeof(c->random));
    r = pl_kube_identity_create(&config->kubeconfig, on_changed, c, &c->identity, err);
    if (r == 0)
        r = pl_http_io_create(&io, &c->io, err);
    if (r < 0) {
        pl_kube_client_destroy(c);
        return r;
    }
    *ret = c;
    return 0;
}

void pl_kube_client_close(struct pl_kube_client *c)
{
    atomic_store(&c->closing, true);
    on_changed(c); /* ends the calls that wait for credentials */
    pl_http_io_wake(c->io);
}

struct pl_kube_client *pl_kube_client_destroy(struct pl_kube_client *c)
{
    struct pl_kube_call *call;

    if (c == NULL)
        return NULL;
    atomic_store(&c->closing, true);
    if (c->io != NULL)
        pl_http_io_stop(c->io);
    pl_kube_identity_destroy(c->identity); /* kills a running credential plugin and joins its thread */
    while ((call = take_first(&c->for_auth)) != NULL)
        give_up(call, PL_ECANCELED, "the request was cancelled");
    pl_http_io_destroy(c->io);
    free(c);
    return NULL;
}

static void on_start(struct pl_http_timer *t)
{
    struct pl_kube_call *call = PL_CONTAINER_OF(t, struct pl_kube_call, timer_);

    enter(call->client_, call);
}

void pl_kube_client_start(struct pl_kube_client *c, struct pl_kube_call *call)
{
    const int64_t deadline_ms = call->deadline_ms > 0 ? call->deadline_ms : call->stream ? INT64_MAX : PL_KUBE_DEADLINE_MS;

    call->client_ = c;
    call->err = (struct pl_err){0};
    call->status = (struct pl_kube_status){0};
    call->verdict = PL_KUBE_AGAIN;
    call->unknown = call->login_tried_ = false;
    call->attempts = 0;
    call->auth_ = NULL;
    call->tries_until_ = INT64_MAX;
    call->deadline_at_ = deadline_ms == INT64_MAX ? INT64_MAX : pl_clock_mono_ms() + deadline_ms;
    atomic_store(&call->cancel_, false);
    if (atomic_fetch_add(&c->waiting, 1) >= PL_KUBE_WAITING_MAX && !call->stream) {
        give_up(call, PL_EBUSY, "too many requests wait for the API server");
        return;
    }
    /* Due times far in the past make the timers fire at once. Each call's due time is one ms later than
     * that of the call before it, so that calls begin in the order in which they were started. */
    call->timer_ = (struct pl_http_timer){.fn = on_start, .due_ms = INT64_MIN / 2 + atomic_fetch_add(&c->order, 1)};
    pl_http_io_at(c->io, &call->timer_);
}

void pl_kube_client_cancel(struct pl_kube_client *c, struct pl_kube_call *call)
{
    atomic_store(&call->cancel_, true);
    on_changed(c); /* the call may be waiting for credentials */
    pl_http_io_wake(c->io);
}

static void wake(struct pl_kube_call *call)
{
    pl_kube_wake(call->arg);
}

int pl_kube_client_run(struct pl_kube_client *c, struct pl_kube_call *call, struct pl_err *err)
{
    struct kube_wait w = PL_KUBE_WAIT;

    call->done = wake;
    call->arg = &w;
    pl_kube_client_start(c, call);
    pl_kube_await(&w);
    if (call->err.code < 0 && err != NULL)
        *err = call->err;
    return call->err.code;
}

int pl_kube_client_blame(const struct pl_kube_client *c, struct pl_err *err)
{
    const struct pl_err says = *err;
    const bool away = says.code == PL_ENET || says.code == PL_ETIMEOUT || says.code == PL_EPROTO || says.code == PL_ETLS;

    if (!away && says.code != PL_EAUTH)
        return says.code;
    if (!away)
        (void)pl_err_set(err, PL_EUNAVAILABLE, "the API server rejects the daemon's credentials: %.800s", says.msg);
    else if (strstr(says.msg, c->name) == NULL)
        (void)pl_err_set(err, PL_EUNAVAILABLE, "%.450s: %.500s", c->name, says.msg);
    else
        (void)pl_err_set(err, PL_EUNAVAILABLE, "%s", says.msg);
    return pl_err_hint(err, PL_EUNAVAILABLE, "%s",
                       says.hint[0] != '\0' ? says.hint
                                            : "That is the API server of the stages' cluster, not pipelined: pipelinectl doctor "
                                              "--cluster tests whether it can be reached.");
}

void pl_kube_call_finish(struct pl_kube_call *call)
{
    pl_buf_finish(&call->reply);
    pl_buf_finish(&call->url_);
    call->reply = call->url_ = (struct pl_buf){0};
}

int pl_kube_client_get(struct pl_kube_client *c, const char *path, json_t **ret, struct pl_err *err)
{
    struct pl_kube_call call = {.method = "GET", .path = path};
    json_error_t e;
    int r = pl_kube_client_run(c, &call, err);

    if (r == 0) {
        json_t *value = json_loadb((const char *)call.reply.data, call.reply.len, JSON_ALLOW_NUL, &e);

        if (value == NULL)
            r = pl_err_set(err, PL_EPROTO, "%s: GET %s: the answer is not JSON: %s", c->name, path, e.text);
        else
            *ret = value;
    }
    pl_kube_call_finish(&call);
    return r;
}

void pl_kube_client_at(struct pl_kube_client *c, struct pl_http_timer *t)
{
    pl_http_io_at(c->io, t);
}

const char *pl_kube_client_name(const struct pl_kube_client *c)
{
    return c->name;
}

const char *pl_kube_client_namespace(const struct pl_kube_client *c)
{
    return pl_kube_identity_config(c->identity)->name_space;
}

void pl_kube_client_look(struct pl_kube_client *c, struct pl_kube_client_view *ret)
{
    const size_t all = atomic_load(&c->waiting), running = atomic_load(&c->in_flight);

    *ret = (struct pl_kube_client_view){.rate = atomic_load(&c->rate_now),
                                        .requests = atomic_load(&c->requests),
                                        .retries = atomic_load(&c->retries),
                                        .throttled = atomic_load(&c->throttled),
                                        .waiting = all > running ? all - running : 0,
                                        .running = running};
}
