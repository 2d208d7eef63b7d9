/* The hub has one ring of events and a list of subscribers. Each subscriber is a cursor with a pull stream.
 * Publishing an event wakes all streams; their generators then read the ring. */
#include "pipelined/net/server/sse.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define PULL_BYTES (64u << 10)

struct event {
    uint64_t id;
    char *type; /* `type` and `data` are in one allocation: type, NUL, data, NUL */
    const char *data;
    size_t bytes;
};

struct subscriber {
    atomic_uint refs; /* references are held by the stream (until it is closed) and by the list */
    struct pl_sse_hub *hub;
    void *filter;
    uint64_t after;                /* id of the last event that was sent; used by the running pull only */
    struct pl_http_stream *stream; /* guarded by the hub's lock, like the fields below */
    struct subscriber *prev, *next;
    bool linked, closed;
    bool foreign; /* the client named an event with a larger id than the newest event */
};

struct pl_sse_hub {
    atomic_uint refs;
    struct pl_sse_options o;
    /* guards the fields below; a thread that needs this lock and a request's lock takes this lock first */
    pthread_mutex_t lock;
    struct event *ring;
    /* the events, by ascending id, are ring[(first + i) % PL_SSE_RING_EVENTS] for 0 ≤ i < n */
    size_t first, n;
    size_t bytes;
    uint64_t floor; /* every event with a larger id is in the ring */
    uint64_t last_id;
    struct subscriber *subscribers;
    size_t n_subscribers;
    bool ended;
};

int pl_sse_format(struct pl_buf *out, uint64_t id, const char *type, const char *data, struct pl_err *err)
{
    return pl_buf_addf(out, err, "id: %llu\nevent: %s\ndata: %s\n\n", (unsigned long long)id, type, data);
}

/* --- the hub --- */

static void hub_unref(struct pl_sse_hub *h)
{
    if (atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    for (size_t i = 0; i < h->n; i++)
        free(h->ring[(h->first + i) % PL_SSE_RING_EVENTS].type);
    free(h->ring);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

int pl_sse_hub_create(const struct pl_sse_options *o, struct pl_sse_hub **ret, struct pl_err *err)
{
    struct pl_sse_hub *h = calloc(1, sizeof(*h));

    if (h)
        h->ring = calloc(PL_SSE_RING_EVENTS, sizeof(*h->ring));
    if (!h || !h->ring) {
        free(h);
        return pl_err_nomem(err);
    }
    atomic_init(&h->refs, 1);
    h->o = *o;
    h->floor = h->last_id = o->last_id;
    pthread_mutex_init(&h->lock, NULL);
    *ret = h;
    return 0;
}

static struct event *ring_at(struct pl_sse_hub *h, size_t i)
{
    return &h->ring[(h->first + i) % PL_SSE_RING_EVENTS];
}

static void ring_make_room(struct pl_sse_hub *h, size_t bytes)
{
    while (h->n == PL_SSE_RING_EVENTS || (h->n && h->bytes + bytes > PL_SSE_RING_BYTES)) {
        struct event *oldest = ring_at(h, 0);

        h->floor = oldest->id;
        h->bytes -= oldest->bytes;
        free(oldest->type);
        h->first = (h->first + 1) % PL_SSE_RING_EVENTS;
        h->n--;
    }
}

static void hub_wake_all(struct pl_sse_hub *h)
{
    for (struct subscriber *s = h->subscribers; s; s = s->next)
        pl_http_stream_wake(s->stream);
}

/* Copies the event into the ring, dropping the oldest ones if needed, and wakes all subscribers. */
int pl_sse_hub_publish(struct pl_sse_hub *h, uint64_t id, const char *type, const char *data, struct pl_err *err)
{
    size_t type_size = strlen(type) + 1, data_size = strlen(data) + 1;
    char *text;

    if (type_size + data_size > PL_SSE_EVENT_BYTES_MAX)
        return pl_err_set(err, PL_ETOOBIG, "an event of %zu bytes is too large for the stream: at most %u", data_size,
                          PL_SSE_EVENT_BYTES_MAX);
    if (strchr(data, '\n') || strchr(data, '\r'))
        return pl_err_set(err, PL_EINVAL, "the data of an event must be one line");
    text = malloc(type_size + data_size);
    if (!text)
        return pl_err_nomem(err);
    memcpy(text, type, type_size);
    memcpy(text + type_size, data, data_size);

    pthread_mutex_lock(&h->lock);
    if (id <= h->last_id) {
        pthread_mutex_unlock(&h->lock);
        free(text);
        return pl_err_set(err, PL_EINVAL, "event %llu was published after event %llu: ids must rise", (unsigned long long)id,
                          (unsigned long long)h->last_id);
    }
    ring_make_room(h, type_size + data_size);
    *ring_at(h, h->n++) = (struct event){.id = id, .type = text, .data = text + type_size, .bytes = type_size + data_size};
    h->bytes += type_size + data_size;
    h->last_id = id;
    hub_wake_all(h);
    pthread_mutex_unlock(&h->lock);
    return 0;
}

void pl_sse_hub_look(struct pl_sse_hub *h)
{
    pthread_mutex_lock(&h->lock);
    hub_wake_all(h);
    pthread_mutex_unlock(&h->lock);
}

size_t pl_sse_hub_subscribers(struct pl_sse_hub *h)
{
    size_t n;

    pthread_mutex_lock(&h->lock);
    n = h->n_subscribers;
    pthread_mutex_unlock(&h->lock);
    return n;
}

struct pl_sse_hub *pl_sse_hub_destroy(struct pl_sse_hub *h)
{
    if (!h)
        return NULL;
    pthread_mutex_lock(&h->lock);
    h->ended = true;
    hub_wake_all(h);
    pthread_mutex_unlock(&h->lock);
    hub_unref(h);
    return NULL;
}

/* --- a subscriber --- */

static void subscriber_unref(struct subscriber *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    if (s->hub->o.drop_filter)
        s->hub->o.drop_filter(s->filter);
    hub_unref(s->hub);
    free(s);
}

/* Returns the index in the ring of the first event with an id larger than `after`. The caller holds the
 * lock. */
static size_t ring_find(struct pl_sse_hub *h, uint64_t after)
{
    size_t low = 0, high = h->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (ring_at(h, middle)->id <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Appends those events of the ring that come after the subscriber's cursor. The caller holds the lock. */
static int subscriber_take(struct subscriber *s, struct pl_buf *out, struct pl_err *err)
{
    struct pl_sse_hub *h = s->hub;

    for (size_t i = ring_find(h, s->after); i < h->n; i++) {
        const struct event *e = ring_at(h, i);
        int r = 0;

        if (out->len >= PULL_BYTES)
            return PL_PULL_MORE;
        if (!h->o.wants || h->o.wants(h->o.self, s->filter, e->type, e->data))
            r = pl_sse_format(out, e->id, e->type, e->data, err);
        if (r < 0)
            return r;
        s->after = e->id;
    }
    return PL_PULL_WAIT;
}

static int take_reset(struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_add_str(out, "event: reset\ndata: {}\n\n", err);

    return r < 0 ? r : PL_PULL_END;
}

/* Appends events that the ring no longer has, with the callback `older`. */
static int subscriber_take_older(struct subscriber *s, uint64_t floor, struct pl_buf *out, struct pl_err *err)
{
    struct pl_sse_hub *h = s->hub;
    uint64_t last = s->after;
    int r = h->o.older ? h->o.older(h->o.self, s->after, s->filter, out, &last, err) : PL_ENOTFOUND;

    if (r == PL_ENOTFOUND)
        return take_reset(out, err);
    if (r < 0)
        return r;
    /* if `older` examined no event, none is left before the ring: move the cursor to the start of the ring */
    s->after = last > s->after ? last : floor;
    return PL_PULL_MORE;
}

/* Generator of a subscriber's stream: sends events from the ring or, if the cursor is before the ring, from
 * `older`. */
static int on_pull(void *self, struct pl_buf *out, struct pl_err *err)
{
    struct subscriber *s = self;
    struct pl_sse_hub *h = s->hub;
    uint64_t floor;
    bool in_ring;
    int r = PL_PULL_END;

    if (h->o.over && h->o.over(h->o.self, s->filter))
        return PL_PULL_END;
    pthread_mutex_lock(&h->lock);
    floor = h->floor;
    /* also true if the cursor is past the ring's newest event: `older` may have read events from the database
     * that are not published yet */
    in_ring = s->after >= floor;
    if (!h->ended && !s->foreign && in_ring)
        r = subscriber_take(s, out, err);
    else if (!h->ended)
        r = PL_PULL_MORE;
    pthread_mutex_unlock(&h->lock);
    if (r != PL_PULL_MORE || out->len)
        return r;
    return s->foreign ? take_reset(out, err) : subscriber_take_older(s, floor, out, err);
}

/* Removes the subscriber from the list when its stream is over. */
static void on_closed(void *self)
{
    struct subscriber *s = self;
    struct pl_sse_hub *h = s->hub;
    bool linked;

    pthread_mutex_lock(&h->lock);
    s->closed = true;
    linked = s->linked;
    if (linked) {
        if (s->prev)
            s->prev->next = s->next;
        else
            h->subscribers = s->next;
        if (s->next)
            s->next->prev = s->prev;
        s->linked = false;
    }
    h->n_subscribers--;
    pthread_mutex_unlock(&h->lock);
    if (linked) {
        pl_http_stream_close(s->stream);
        subscriber_unref(s);
    }
    subscriber_unref(s);
}

/* Reads from the request the id of the event after which the client continues. */
static int subscriber_position(struct pl_http_request *req, uint64_t *ret_after, bool *ret_given, struct pl_err *err)
{
    const char *text = pl_http_header(req, "Last-Event-ID");
    char *end;

    *ret_given = text || pl_http_query(req, "since");
    if (!text)
        return pl_http_query_u64(req, "since", 0, UINT64_MAX, ret_after, err);
    errno = 0;
    *ret_after = strtoull(text, &end, 10);
    if (errno || *end || !isdigit((unsigned char)*text))
        return pl_err_set(err, PL_EINVAL, "Last-Event-ID \"%s\" is not the number of an event", text);
    return 0;
}

/* Creates a subscriber, unless there are PL_SSE_SUBSCRIBERS_MAX already. */
static int subscriber_create(struct pl_sse_hub *h, struct pl_http_request *req, void *filter, struct subscriber **ret,
                             struct pl_err *err)
{
    struct subscriber *s;
    uint64_t after;
    bool given, full;
    int r = subscriber_position(req, &after, &given, err);

    if (r < 0)
        return r;
    s = calloc(1, sizeof(*s));
    if (!s)
        return pl_err_nomem(err);
    pthread_mutex_lock(&h->lock);
    full = h->n_subscribers >= PL_SSE_SUBSCRIBERS_MAX || h->ended;
    h->n_subscribers += !full;
    s->after = given ? after : h->last_id;
    s->foreign = given && after > h->last_id;
    pthread_mutex_unlock(&h->lock);
    if (full) {
        free(s);
        return pl_err_set(err, PL_EBUSY, "%d clients receive events already, the largest number allowed", PL_SSE_SUBSCRIBERS_MAX);
    }
    atomic_init(&s->refs, 2);
    atomic_fetch_add(&h->refs, 1);
    s->hub = h;
    s->filter = filter;
    *ret = s;
    return 0;
}

void pl_sse_hub_subscribe(struct pl_sse_hub *h, struct pl_http_request *req, void *filter)
{
    struct pl_http_stream_options o = {
        .content_type = "text/event-stream", .length = PL_HTTP_LENGTH_UNKNOWN, .heartbeat = ": \n\n", .endless = true};
    struct pl_http_stream_ops ops = {.pull = on_pull, .closed = on_closed};
    struct pl_http_stream *stream;
    struct subscriber *s;
    struct pl_err err = {0};
    bool linked;

    if (subscriber_create(h, req, filter, &s, &err) < 0) {
        if (h->o.drop_filter)
            h->o.drop_filter(filter);
        pl_http_reply_error(req, &err);
        return;
    }
    ops.self = s;
    pl_http_reply_header(req, "X-Accel-Buffering", "no"); /* keeps a proxy from buffering events */
    stream = pl_http_reply_stream(req, &o, &ops);
    pthread_mutex_lock(&h->lock);
    linked = !s->closed; /* the stream may have ended already */
    if (linked) {
        s->stream = stream;
        s->linked = true;
        s->next = h->subscribers;
        if (s->next)
            s->next->prev = s;
        h->subscribers = s;
        /* events that were published before the subscriber was in the list did not wake its stream */
        pl_http_stream_wake(stream);
    }
    pthread_mutex_unlock(&h->lock);
    if (linked)
        return;
    pl_http_stream_close(stream);
    subscriber_unref(s);
}
