/* sse: server-sent events to many subscribers from one ring of recent events. A subscriber is a cursor into the
 * ring, not a queue: a slow one costs nothing. A subscriber that fell out of the ring, or asks for older events,
 * is served by `older`; if that no longer has them, it gets `event: reset` and its stream ends (the page reloads
 * and follows anew).
 *
 * On the wire: "id: 17\nevent: commit\ndata: {…}\n\n", and a comment every 15 s without events. */
#pragma once

#include "pipelined/net/server/http_server.h"

#define PL_SSE_RING_EVENTS     8192
#define PL_SSE_RING_BYTES      (8u << 20)
#define PL_SSE_EVENT_BYTES_MAX (64u << 10)
#define PL_SSE_SUBSCRIBERS_MAX 1024

struct pl_sse_hub;

/* Appends an event in the wire format. `data` is one line (compact JSON). */
PL_MUST_CHECK
int pl_sse_format(struct pl_buf *out, uint64_t id, const char *type, const char *data, struct pl_err *err);

struct pl_sse_options {
    void *self;
    /* Appends events after `after`, formatted by pl_sse_format, about 64 KiB; `ret_last` = the last id examined
     * (`after` if none). Runs on the pool, for several subscribers at once. PL_ENOTFOUND: the events are no longer
     * kept. NULL = only the ring. */
    int (*older)(void *self, uint64_t after, void *filter, struct pl_buf *out, uint64_t *ret_last, struct pl_err *err);
    /* True if a subscriber with `filter` gets the event; NULL = every event. Must not block. */
    bool (*wants)(void *self, const void *filter, const char *type, const char *data);
    /* True if a subscriber with `filter` must get no more events: its stream ends. NULL = never. Must not block. */
    bool (*over)(void *self, const void *filter);
    void (*drop_filter)(void *filter); /* frees a subscriber's filter; may be NULL */
    uint64_t last_id;                  /* newest event in the database; 0 = none */
};

PL_MUST_CHECK
int pl_sse_hub_create(const struct pl_sse_options *o, struct pl_sse_hub **ret, struct pl_err *err);
/* Publishes to all subscribers. `id` rises from call to call. Any thread, never blocks. PL_ETOOBIG: an event
 * beyond the bound. */
PL_MUST_CHECK
int pl_sse_hub_publish(struct pl_sse_hub *h, uint64_t id, const char *type, const char *data, struct pl_err *err);
/* Replies to `req` with the stream of events after its Last-Event-ID header (or query argument `since`), or,
 * without either, of events from now on. Takes `filter`. Replies in every case (PL_EBUSY: too many subscribers,
 * PL_EINVAL: a malformed id). */
void pl_sse_hub_subscribe(struct pl_sse_hub *h, struct pl_http_request *req, void *filter);
/* The result of `over` may have changed: check it for all subscribers. Any thread, never blocks. */
void pl_sse_hub_look(struct pl_sse_hub *h);
size_t pl_sse_hub_subscribers(struct pl_sse_hub *h);
/* Ends all streams; the memory is freed with the last of them. */
struct pl_sse_hub *pl_sse_hub_destroy(struct pl_sse_hub *h);
