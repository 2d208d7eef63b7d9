/* A queue of pieces and one thread that sends them. Consecutive bytes of one attempt are joined into one
 * piece. */
#include "pipelined/agent/connection/output_log.h"

#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/timed_cond.h"
#include <inttypes.h>
#include <pthread.h>
#include <time.h>

/* number of retries after a 404 answer for a task that this worker still holds: after its restart the daemon
 * does not know the worker until the worker sends its next lease renewal */
#define REFUSALS_MAX 12

enum kind { OUTPUT, METRICS };

/* Consecutive bytes of one attempt; sent in one request. */
struct piece {
    struct piece *next;
    enum kind kind;
    struct pl_agent_protocol_lease lease;
    char datum[PL_HASH_HEX + 1];
    /* index of the datum in its job, and number of the attempt */
    uint32_t index, attempt;
    /* offset of the first byte in the attempt's output; METRICS: number of lines of the attempt before this
     * piece */
    uint64_t offset;
    /* monotonic time of the first byte */
    int64_t born_ms;
    struct pl_buf bytes;
    size_t taken, lines_taken; /* METRICS: bytes and lines that the daemon has already accepted */
};

struct pl_outlog {
    /* connection to the daemon; NULL = output is printed to print_fd and there is no sending thread */
    struct pl_uplink *link;
    int print_fd;
    struct pl_lease *lease;
    const char *worker;
    const atomic_bool *stopping;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t more;  /* wakes the sending thread */
    pthread_cond_t less;  /* wakes threads that wait for space or for drain */
    /* queue of pieces, oldest first */
    struct piece *first, *last;
    size_t bytes; /* bytes of all pieces, including the one being sent */
    /* the lease whose unsent pieces were dropped last, with a line in the log; no task = none. Used by the
     * sending thread only */
    struct pl_agent_protocol_lease dropped;
    /* the sending thread is sending a piece, which is no longer in the queue */
    bool sending;
    /* send pieces without waiting for their flush time */
    bool draining;
    bool ending;
};

static void wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t mono_ms)
{
    const struct timespec until = {.tv_sec = mono_ms / 1000, .tv_nsec = mono_ms % 1000 * 1000000};

    pthread_cond_timedwait(cond, lock, &until);
}

static void piece_free(struct piece *p)
{
    pl_buf_finish(&p->bytes);
    free(p);
}

static int post_output(struct pl_outlog *o, const struct piece *p, struct pl_err *err)
{
    _cleanup_free_ char *path =
        pl_http_path_make("/api/v1/worker/log?worker=%s&task=%s&fence=%u&datum=%s&attempt=%u&offset=%u", o->worker, p->lease.task,
                          (uint64_t)p->lease.fence, p->datum, (uint64_t)p->attempt, p->offset);

    return path ? pl_daemon_client_post(o->link, path, p->bytes.data, p->bytes.len, err) : pl_err_nomem(err);
}

/* Makes a JSON array of at most PL_AGENT_PROTOCOL_LINES_MAX lines of metrics, starting at byte `*at`; moves
 * `*at` behind them. NULL if memory runs out. */
static json_t *take_lines(const struct piece *p, size_t *at)
{
    const char *text = (const char *)p->bytes.data;
    json_t *lines = json_array();

    for (size_t i = 0; lines && i < PL_AGENT_PROTOCOL_LINES_MAX && *at < p->bytes.len; i++) {
        const char *end = memchr(text + *at, '\n', p->bytes.len - *at);
        size_t n = end ? (size_t)(end - text) - *at : p->bytes.len - *at;

        if (json_array_append_new(lines, json_stringn(text + *at, n)) < 0)
            /* a line that is not UTF-8 cannot be JSON; a null in its place keeps the number of lines right */
            (void)!json_array_append_new(lines, json_null());
        *at += n + 1;
    }
    return lines;
}

/* Sends the lines of a piece in requests of at most PL_AGENT_PROTOCOL_LINES_MAX lines. Accepted lines are not
 * sent again when the function is called again after a failure. */
static int post_metrics(struct pl_outlog *o, struct piece *p, struct pl_err *err)
{
    int r = 0;

    while (r == 0 && p->taken < p->bytes.len) {
        size_t at = p->taken, n;
        json_t *lines = take_lines(p, &at), *lease = pl_agent_protocol_lease_json(&p->lease), *body;

        n = json_array_size(lines);
        body = json_pack("{s:s, s:O, s:I, s:I, s:I, s:o}", "worker", o->worker, "task", json_object_get(lease, "task"), "fence",
                         (json_int_t)p->lease.fence, "index", (json_int_t)p->index, "first",
                         (json_int_t)(p->offset + p->lines_taken), "lines", lines);
        json_decref(lease);
        r = pl_uplink_poll(o->link, "/api/v1/worker/metrics", body, NULL, 0, NULL, err);
        json_decref(body);
        if (r < 0)
            break;
        p->taken = at;
        p->lines_taken += n;
    }
    return r;
}

static bool same_lease(const struct pl_agent_protocol_lease *a, const struct pl_agent_protocol_lease *b)
{
    return a->fence == b->fence && pl_streq(a->task, b->task);
}

/* Drops the pieces of a lease that wait in the queue; returns their bytes. */
static size_t drop_queued(struct pl_outlog *o, const struct pl_agent_protocol_lease *lease)
{
    struct piece **link = &o->first;
    size_t dropped = 0;

    pthread_mutex_lock(&o->lock);
    o->last = NULL;
    while (*link) {
        struct piece *p = *link;

        if (same_lease(&p->lease, lease)) {
            *link = p->next;
            dropped += p->bytes.len;
            piece_free(p);
        } else {
            o->last = p;
            link = &p->next;
        }
    }
    o->bytes -= dropped;
    pthread_cond_broadcast(&o->less);
    pthread_mutex_unlock(&o->lock);
    return dropped;
}

/* Called with a piece of a task that ended before the piece was sent: drops the task's other pieces, too. Logs
 * one line for each task, because a command that is being killed may print a lot. */
static void drop_task(struct pl_outlog *o, const struct piece *p)
{
    size_t bytes = p->bytes.len + drop_queued(o, &p->lease);

    if (!same_lease(&o->dropped, &p->lease))
        pl_log_warn("outlog", "task %s: %zu bytes of output and metrics could not be sent to the daemon: the task ended before",
                    p->lease.task, bytes);
    o->dropped = p->lease;
}

/* Sends one piece, retrying while the daemon is away. Drops it with a log line when the daemon refuses it or
 * the task is over. */
static void send_piece(struct pl_outlog *o, struct piece *p)
{
    struct pl_err err = {0};
    unsigned tries = 0, refusals = 0;
    bool held;
    int r = 0;

    /* stop when the task was handed in or taken back: the daemon then accepts no more output of it */
    while ((held = pl_task_lease_holds(o->lease, &p->lease))) {
        r = p->kind == OUTPUT ? post_output(o, p, &err) : post_metrics(o, p, &err);
        if (r == PL_ENOTFOUND && refusals++ < REFUSALS_MAX)
            r = PL_EBUSY;
        if (r != PL_ECANCELED && (r == 0 || !pl_daemon_client_retry(o->link, r, &tries)))
            break;
    }
    if (!held)
        drop_task(o, p);
    else if (r < 0)
        pl_log_warn("outlog", "task %s: %zu bytes of %s could not be sent to the daemon: %s", p->lease.task, p->bytes.len,
                    p->kind == OUTPUT ? "output" : "metrics", err.msg);
}

/* Returns the monotonic time at which the first piece is to be sent; 0 = now. */
static int64_t due_ms(const struct pl_outlog *o)
{
    const struct piece *p = o->first;

    if (p->next || o->draining || o->ending || p->kind == METRICS || p->bytes.len >= PL_OUTPUT_LOG_SEND_BYTES)
        return 0;
    return p->born_ms + PL_OUTPUT_LOG_FLUSH_MS;
}

/* The sending thread. Takes the first piece when it is due, sends it without the lock, and wakes waiting
 * threads. */
static void *send_loop(void *arg)
{
    struct pl_outlog *o = arg;

    pthread_mutex_lock(&o->lock);
    for (;;) {
        struct piece *p = o->first;
        if (!p && o->ending)
            break;
        if (!p) {
            pthread_cond_wait(&o->more, &o->lock);
            continue;
        }
        if (due_ms(o) > pl_clock_mono_ms()) {
            wait_until(&o->more, &o->lock, due_ms(o));
            continue;
        }
        o->first = p->next;
        if (!o->first)
            o->last = NULL;
        o->sending = true;
        pthread_mutex_unlock(&o->lock);
        send_piece(o, p);
        pthread_mutex_lock(&o->lock);
        o->sending = false;
        o->bytes -= p->bytes.len;
        piece_free(p);
        pthread_cond_broadcast(&o->less);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

int pl_output_log_create(struct pl_uplink *link, struct pl_lease *lease, const char *worker, const atomic_bool *stopping,
                         struct pl_outlog **ret, struct pl_err *err)
{
    struct pl_outlog *o = calloc(1, sizeof(*o));
    int r;

    if (!o)
        return pl_err_nomem(err);
    o->link = link;
    o->lease = lease;
    o->worker = worker;
    o->stopping = stopping;
    pthread_mutex_init(&o->lock, NULL);
    pl_timed_cond_init(&o->more);
    pl_timed_cond_init(&o->less);
    r = pthread_create(&o->thread, NULL, send_loop, o);
    if (r != 0) {
        free(o);
        return pl_err_errno(err, r, "cannot start the thread that sends output");
    }
    *ret = o;
    return 0;
}

int pl_output_log_create_print(int fd, struct pl_outlog **ret, struct pl_err *err)
{
    struct pl_outlog *o = calloc(1, sizeof(*o));

    if (!o)
        return pl_err_nomem(err);
    o->print_fd = fd;
    *ret = o;
    return 0;
}

struct pl_outlog *pl_output_log_destroy(struct pl_outlog *o)
{
    struct piece *rest;
    size_t bytes = 0;

    if (!o || !o->link) {
        free(o);
        return NULL;
    }
    pthread_mutex_lock(&o->lock);
    o->ending = true;
    rest = o->first;
    o->first = o->last = NULL;
    pthread_cond_broadcast(&o->more);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    for (struct piece *next; rest; rest = next) {
        next = rest->next;
        bytes += rest->bytes.len;
        piece_free(rest);
    }
    if (bytes > 0)
        pl_log_warn("outlog", "%zu bytes of output and metrics could not be sent to the daemon: the worker ended before", bytes);
    pthread_cond_destroy(&o->more);
    pthread_cond_destroy(&o->less);
    pthread_mutex_destroy(&o->lock);
    free(o);
    return NULL;
}

/* Returns the last piece of the queue if these bytes continue it, else a new piece at the end of the queue.
 * NULL if memory runs out. Call with the lock held. */
static struct piece *piece_for(struct pl_outlog *o, enum kind kind, const struct pl_output_log_source *s, uint64_t offset)
{
    struct piece *p = o->last;

    if (p && p->kind == kind && p->index == s->index && p->attempt == s->attempt && same_lease(&p->lease, s->lease) &&
        p->bytes.len < PL_OUTPUT_LOG_SEND_BYTES)
        return p;
    p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->kind = kind;
    p->lease = *s->lease;
    memcpy(p->datum, s->datum, PL_HASH_HEX);
    p->index = s->index;
    p->attempt = s->attempt;
    p->offset = offset;
    p->born_ms = pl_clock_mono_ms();
    if (o->last)
        o->last->next = p;
    else
        o->first = p;
    o->last = p;
    return p;
}

/* Appends bytes to the queue; waits while the queue is full. */
static void add(struct pl_outlog *o, enum kind kind, const struct pl_output_log_source *s, uint64_t offset, const void *data,
                size_t n)
{
    struct piece *p;

    pthread_mutex_lock(&o->lock);
    while (o->bytes >= (pl_daemon_client_down(o->link) ? PL_OUTPUT_LOG_AWAY_MAX : PL_OUTPUT_LOG_MAX) && !atomic_load(o->stopping))
        /* polls, because "daemon away" and "agent stopping" do not signal the condition */
        wait_until(&o->less, &o->lock, pl_clock_mono_ms() + 100);
    p = piece_for(o, kind, s, offset);
    if (p && pl_buf_add(&p->bytes, data, n, NULL) == 0)
        o->bytes += n;
    else
        pl_log_warn("outlog", "task %s: %zu bytes of output were lost: out of memory", s->lease->task, n);
    pthread_cond_signal(&o->more);
    pthread_mutex_unlock(&o->lock);
}

void pl_output_log_add(struct pl_outlog *o, const struct pl_output_log_source *source, uint64_t offset, const uint8_t *data,
                       size_t n)
{
    if (o->link)
        add(o, OUTPUT, source, offset, data, n);
    else
        /* ignore a closed standard output: the command continues */
        (void)!pl_io_write(o->print_fd, data, n, "standard output", NULL);
}

void pl_output_log_metrics(struct pl_outlog *o, const struct pl_output_log_source *source, uint64_t first, const char *lines,
                           size_t n)
{
    if (o->link)
        add(o, METRICS, source, first, lines, n);
}

void pl_output_log_drain(struct pl_outlog *o, int64_t timeout_ms, bool patient)
{
    int64_t until_ms = pl_clock_mono_ms() + timeout_ms;

    if (!o->link)
        return;
    pthread_mutex_lock(&o->lock);
    o->draining = true;
    pthread_cond_signal(&o->more);
    while ((o->first || o->sending) && pl_clock_mono_ms() < until_ms) {
        if (pl_daemon_client_down(o->link)) {
            if (!patient || atomic_load(o->stopping))
                break;
            /* the time limit counts from the moment at which the daemon answers again */
            until_ms = pl_clock_mono_ms() + timeout_ms;
        }
        wait_until(&o->less, &o->lock, PL_MIN(until_ms, pl_clock_mono_ms() + 100));
    }
    o->draining = false;
    pthread_mutex_unlock(&o->lock);
}
