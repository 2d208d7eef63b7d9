/* sse: server-sent events to many subscribers from one ring of recent events. A subscriber is a cursor into the
 * ring, not a queue, so a slow subscriber costs no memory. A subscriber whose next event has left the ring is served
 * by the callback `older`; if that no longer has the event, the client gets `event: reset` and its stream ends (the
 * web page reloads and subscribes again).
 *
 * On the wire: "id: 17\nevent: commit\ndata: {…}\n\n", and a comment every 15 s without events. */
#pragma once

#include "pipelined/net/server/http_server.h"

#define PL_SSE_RING_EVENTS     8192
#define PL_SSE_RING_BYTES      (8u << 20)
#define PL_SSE_EVENT_BYTES_MAX (64u << 10)
#define PL_SSE_SUBSCRIBERS_MAX 1024

struct pl_sse_hub;

/* Appends an event in the format of the wire. `data` is one line of compact JSON. */
PL_MUST_CHECK
int pl_sse_format(struct pl_buf *out, uint64_t id, const char *type, const char *data, struct pl_err *err);

struct pl_sse_options {
    void *self;
    /* Appends the events with ids larger than `after`, formatted by pl_sse_format, about 64 KiB; `*ret_last`
     * becomes the id of the last event that it examined (`after` if none). Runs on the pool, for several
     * subscribers at once. PL_ENOTFOUND: these events are no longer kept. NULL = there are no events besides
     * those in the ring. */
    int (*older)(void *self, uint64_t after, void *filter, struct pl_buf *out, uint64_t *ret_last, struct pl_err *err);
    /* Returns true if a subscriber with `filter` gets the event. NULL = every subscriber gets every event.
     * Must not block. */
    bool (*wants)(void *self, const void *filter, const char *type, const char *data);
    /* Returns true if a subscriber with `filter` must get no more events, which ends its stream. NULL =
     * never. Must not block. */
    bool (*over)(void *self, const void *filter);
    void (*drop_filter)(void *filter); /* frees a subscriber's filter; may be NULL */
    uint64_t last_id;                  /* id of the newest event in the database at the start; 0 = none */
};

PL_MUST_CHECK
int pl_sse_hub_create(const struct pl_sse_options *o, struct pl_sse_hub **ret, struct pl_err *err);
/* Publishes an event to all subscribers. `id` must rise from call to call. Any thread, never blocks.
 * PL_ETOOBIG: the event is larger than the bound. */
PL_MUST_CHECK
int pl_sse_hub_publish(struct pl_sse_hub *h, uint64_t id, const char *type, const char *data, struct pl_err *err);
/* Replies to `req` with a stream of events: those after the id in its Last-Event-ID header (or query argument
 * `since`); without either, those from now on. Takes over `filter`. It replies in every case, also with an
 * error (PL_EBUSY: too many subscribers, PL_EINVAL: a malformed id). */
void pl_sse_hub_subscribe(struct pl_sse_hub *h, struct pl_http_request *req, void *filter);
/* Call it when the result of `over` may have changed: it is then called again for all subscribers. Any
 * thread, never blocks. */
void pl_sse_hub_look(struct pl_sse_hub *h);
size_t pl_sse_hub_subscribers(struct pl_sse_hub *h);
/* Ends all streams and releases the hub; its memory is freed with the last of the streams. */
struct pl_sse_hub *pl_sse_hub_destroy(struct pl_sse_hub *h);
