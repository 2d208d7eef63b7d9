/* kube_log.c: splits the log into lines, recognises lines that were delivered before, and follows the log
 * over successive connections until the container has ended and its log has been read to the end. */
#include "pipelined/kube/client/kube_log.h"

#include "pipelined/kube/client/kube_exec_plugin.h"
#include "pipelined/kube/client/kube_object.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/http/uri.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#define PAUSE_MS 1000

/* ---- lines ---- */

void pl_kube_lines_restart(struct pl_kube_lines *l)
{
    pl_buf_clear(&l->rest);
    l->in_line = l->left_out = false;
    l->skip = l->at_last;
}

void pl_kube_lines_finish(struct pl_kube_lines *l)
{
    pl_buf_finish(&l->rest);
}

const char *pl_kube_lines_since(const struct pl_kube_lines *l, char out[32])
{
    out[0] = '\0';
    return l->any ? pl_clock_text(l->last_ns / 1000, out) : out;
}

/* Parses the timestamp at the beginning of a line: RFC 3339 in the node's time zone, with nanoseconds. False:
 * the line has none. */
static bool split(const char *line, size_t n, int64_t *ret_ns, size_t *ret_len)
{
    const char *blank = memchr(line, ' ', PL_MIN(n, (size_t)40)), *digits;
    const size_t len = blank != NULL ? (size_t)(blank - line) : n;
    char stamp[40];
    int64_t us, ns = 0, unit = 100;

    if (len < 20 || len >= sizeof(stamp))
        return false;
    memcpy(stamp, line, len);
    stamp[len] = '\0';
    if (!pl_kube_time_parse(stamp, &us))
        return false;
    digits = strchr(stamp, '.');
    for (size_t i = 7; digits != NULL && strspn(digits + 1, "0123456789") >= i && unit > 0; i++, unit /= 10)
        ns += (digits[i] - '0') * unit;
    *ret_ns = us * 1000 + ns;
    *ret_len = len + (blank != NULL);
    return true;
}

/* True if a line with this timestamp was delivered before. A line with an older timestamp counts as delivered
 * only while the server repeats lines of the previous connection; after that it is new, because the node's
 * clock may have been set back. */
static bool is_known(struct pl_kube_lines *l, int64_t ns)
{
    if (l->any && ns < l->last_ns)
        return l->skip > 0;
    if (l->any && ns == l->last_ns && l->skip > 0) {
        l->skip--;
        return true;
    }
    if (!l->any || ns > l->last_ns)
        l->at_last = 0;
    l->any = true;
    l->last_ns = ns;
    l->at_last++;
    l->skip = 0;
    return false;
}

/* Passes a line, or the part of it that has arrived, to the callback, unless it was delivered before. */
static int hand_on(struct pl_kube_lines *l, const char *data, size_t n, bool whole, struct pl_err *err)
{
    const bool first = !l->in_line;
    int64_t ns = 0;
    size_t skip = 0;

    if (first)
        l->left_out = split(data, n, &ns, &skip) && is_known(l, ns);
    l->in_line = !whole;
    if (l->left_out)
        return 0;
    return l->line(l->self, ns / 1000, data + skip, n - skip, whole, err);
}

/* Collects bytes in `rest` until they form a complete line or reach PL_KUBE_LINE_MAX. */
int pl_kube_lines_feed(struct pl_kube_lines *l, const void *data, size_t n, struct pl_err *err)
{
    const char *at = data;
    int r = 0;

    while (n > 0 && r == 0) {
        const char *end = memchr(at, '\n', n);
        const size_t some = PL_MIN(end != NULL ? (size_t)(end - at) : n, PL_KUBE_LINE_MAX - l->rest.len);
        const bool whole = end != NULL && some == (size_t)(end - at);

        r = pl_buf_add(&l->rest, at, some, err);
        if (r == 0 && (whole || l->rest.len == PL_KUBE_LINE_MAX)) {
            r = hand_on(l, l->rest.data != NULL ? (const char *)l->rest.data : "", l->rest.len, whole, err);
            pl_buf_clear(&l->rest);
        }
        at += some + whole;
        n -= some + whole;
    }
    return r;
}

int pl_kube_lines_end(struct pl_kube_lines *l, bool over, struct pl_err *err)
{
    int r = 0;

    if (over && l->rest.len > 0)
        r = hand_on(l, (const char *)l->rest.data, l->rest.len, true, err);
    pl_buf_clear(&l->rest);
    return r;
}

/* ---- following a log ---- */

struct pl_kube_log {
    struct pl_kube_client *client;
    struct pl_kube_log_config config;
    char *container;
    struct pl_kube_lines lines;
    struct pl_buf base, path;
    struct pl_kube_call call;
    struct pl_http_timer timer;
    int64_t due_ms;
    unsigned failures; /* failed attempts since a line was last received */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under `lock`. ending: a stop was requested; ended: the container has ended; under_way: a request is
     * in progress; idle: the callback `over` has returned, so the log may be freed. */
    bool ending, ended, under_way, idle;
    /* This connection was opened after the container had ended, so it reads the rest of the log. Written
     * under `lock`. */
    bool last;
};

static void step(struct pl_kube_log *l);

static void finish(struct pl_kube_log *l, const struct pl_err *err)
{
    l->config.over(l->config.self, err);
    pthread_mutex_lock(&l->lock);
    l->idle = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* If a stop was requested, ends the log and returns true; then the caller must not use the log any more. */
static bool is_ending(struct pl_kube_log *l)
{
    struct pl_err err = {0};
    bool ending;

    pthread_mutex_lock(&l->lock);
    l->under_way = false;
    ending = l->ending;
    pthread_mutex_unlock(&l->lock);
    if (ending) {
        (void)pl_err_set(&err, PL_ECANCELED, "reading the log was stopped");
        finish(l, &err);
    }
    return ending;
}

static void on_timer(struct pl_http_timer *t);

static void wait_some(struct pl_kube_log *l, int64_t now_ms)
{
    l->timer = (struct pl_http_timer){.fn = on_timer, .due_ms = PL_MIN(l->due_ms, now_ms + PL_KUBE_CANCEL_MS)};
    pl_kube_client_at(l->client, &l->timer);
}

static void on_timer(struct pl_http_timer *t)
{
    struct pl_kube_log *l = PL_CONTAINER_OF(t, struct pl_kube_log, timer);
    const int64_t now_ms = pl_clock_mono_ms();

    if (is_ending(l))
        return;
    if (now_ms < l->due_ms)
        wait_some(l, now_ms);
    else
        step(l);
}

static int on_bytes(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct pl_kube_log *l = self;

    return pl_kube_lines_feed(&l->lines, data, n, err);
}

/* True if the server refused the log because the container has not started yet, as in "container … is waiting
 * to start". */
static bool is_early(const struct pl_kube_call *call)
{
    return call->status.code == 400 &&
           (strstr(call->status.message, "waiting to start") != NULL || strstr(call->status.message, "PodInitializing") != NULL ||
            strstr(call->status.message, "not have a host assigned") != NULL);
}

/* Delivers a line. Only a line resets the failure count: connections that succeed but bring nothing count as
 * failures. */
static int on_line(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err)
{
    struct pl_kube_log *l = self;

    l->failures = 0;
    return l->config.line(l->config.self, time_us, line, n, whole, err);
}

static void on_begins(void *self)
{
    const struct pl_kube_log *l = self;

    if (l->config.stands != NULL && !l->config.once)
        l->config.stands(l->config.self, true);
}

/* Decides after the end of a connection whether another one is needed. */
static bool goes_on(struct pl_kube_log *l, const struct pl_kube_call *call)
{
    if (call->err.code == 0)
        return !l->last;
    if (call->err.code == PL_ETOOBIG) /* the receiver of the lines is too slow */
        return false;
    if (is_early(call))
        return !l->last;
    return call->verdict == PL_KUBE_AGAIN && (++l->failures < PL_KUBE_LOG_TRIES || !l->config.once);
}

static void on_done(struct pl_kube_call *call)
{
    struct pl_kube_log *l = call->arg;
    const bool goes = goes_on(l, call);
    struct pl_err err = call->err;
    int r;

    if (is_ending(l))
        return;
    r = pl_kube_lines_end(&l->lines, !goes && err.code == 0, &err);
    if (!goes || r < 0) {
        finish(l, &err);
        return;
    }
    if (err.code != 0 && is_early(call) && l->config.stands != NULL)
        l->config.stands(l->config.self, false);
    l->due_ms = pl_clock_mono_ms() + l->config.pause_ms;
    wait_some(l, pl_clock_mono_ms());
}

/* Builds the path of the next request: once lines were received, it requests only lines from the last
 * timestamp on. */
static int make_path(struct pl_kube_log *l, struct pl_err *err)
{
    char since[32];
    int r;

    pl_buf_clear(&l->path);
    r = pl_buf_addf(&l->path, err, "%s?timestamps=true&container=", (const char *)l->base.data);
    if (r == 0)
        r = pl_uri_escape(l->container, false, &l->path, err);
    if (r == 0 && !l->last)
        r = pl_buf_add_str(&l->path, "&follow=true", err);
    if (r == 0 && *pl_kube_lines_since(&l->lines, since) != '\0')
        r = pl_buf_addf(&l->path, err, "&sinceTime=%s", since);
    else if (r == 0 && l->config.tail > 0)
        r = pl_buf_addf(&l->path, err, "&tailLines=%" PRIu64, l->config.tail);
    return r == 0 && pl_buf_str(&l->path) == NULL ? pl_err_nomem(err) : r;
}

/* Requests the log over a new connection. */
static void step(struct pl_kube_log *l)
{
    struct pl_err err = {0};

    pthread_mutex_lock(&l->lock);
    l->last = l->ended;
    pthread_mutex_unlock(&l->lock);
    pl_kube_lines_restart(&l->lines);
    if (make_path(l, &err) < 0) {
        finish(l, &err);
        return;
    }
    l->call = (struct pl_kube_call){.method = "GET",
                                    .path = (const char *)l->path.data,
                                    .stream = true,
                                    .log = true,
                                    /* a followed container may print nothing for days; TCP keepalive detects
                                     * a dead server */
                                    .stall_ms = l->last ? 0 : INT64_MAX / 2,
                                    .write = on_bytes,
                                    .begins = on_begins,
                                    .write_self = l,
                                    .done = on_done,
                                    .arg = l,
                                    .url_ = l->call.url_};
    /* `done` also runs on this thread, so it cannot run before this function has returned */
    pl_kube_client_start(l->client, &l->call);
    pthread_mutex_lock(&l->lock);
    l->under_way = true;
    if (l->ending)
        pl_kube_client_cancel(l->client, &l->call);
    pthread_mutex_unlock(&l->lock);
}

int pl_kube_log_create(struct pl_kube_client *c, const struct pl_kube_log_config *config, struct pl_kube_log **ret,
                       struct pl_err *err)
{
    struct pl_kube_log *l = calloc(1, sizeof(*l));
    int r;

    if (l == NULL)
        return pl_err_nomem(err);
    l->client = c;
    l->config = *config;
    if (l->config.pause_ms <= 0)
        l->config.pause_ms = PAUSE_MS;
    l->ended = config->once;
    l->lines.line = on_line;
    l->lines.self = l;
    l->container = strdup(config->container);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    r = l->container != NULL ? pl_kube_path(&l->base, "v1", config->space, "pods", config->pod, "log", err) : pl_err_nomem(err);
    if (r < 0) {
        l->idle = true;
        pl_kube_log_destroy(l);
        return r;
    }
    l->timer = (struct pl_http_timer){.fn = on_timer};
    pl_kube_client_at(c, &l->timer);
    *ret = l;
    return 0;
}

void pl_kube_log_container_ended(struct pl_kube_log *l)
{
    pthread_mutex_lock(&l->lock);
    l->ended = true;
    pthread_mutex_unlock(&l->lock);
}

void pl_kube_log_cut(struct pl_kube_log *l)
{
    pthread_mutex_lock(&l->lock);
    if (l->under_way && !l->last)
        pl_kube_client_cancel(l->client, &l->call);
    pthread_mutex_unlock(&l->lock);
}

void pl_kube_log_stop(struct pl_kube_log *l)
{
    pthread_mutex_lock(&l->lock);
    l->ending = true;
    if (l->under_way)
        pl_kube_client_cancel(l->client, &l->call);
    pthread_mutex_unlock(&l->lock);
}

struct pl_kube_log *pl_kube_log_destroy(struct pl_kube_log *l)
{
    if (l == NULL)
        return NULL;
    pl_kube_log_stop(l);
    pthread_mutex_lock(&l->lock);
    while (!l->idle)
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    pl_kube_call_finish(&l->call);
    pl_kube_lines_finish(&l->lines);
    pl_buf_finish(&l->base);
    pl_buf_finish(&l->path);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    free(l->container);
    free(l);
    return NULL;
}
