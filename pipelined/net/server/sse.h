/* sse: server-sent events to any number of subscribers from one ring of the last events. A subscriber is a cursor into the ring,
 * not a queue: a slow one costs nothing. One that fell out of the ring, or asks for older events, is served from `older`; when
 * that has them no more either, it gets `event: reset` and the stream ends (the page reloads, then follows anew).
 *
 * On the wire: "id: 17\nevent: commit\ndata: {…}\n\n", a comment every 15 s when nothing happens. */
#pragma once

#include "pipelined/net/server/http_server.h"

#define PL_SSE_RING_EVENTS     8192
#define PL_SSE_RING_BYTES      (8u << 20)
#define PL_SSE_EVENT_BYTES_MAX (64u << 10)
#define PL_SSE_SUBSCRIBERS_MAX 1024

struct pl_sse_hub;

/* Appends one event as it goes over the wire. `data` is one line (compact JSON). */
PL_MUST_CHECK
int pl_sse_format(struct pl_buf *out, uint64_t id, const char *type, const char *data, struct pl_err *err);

struct pl_sse_options {
    void *self;
    /* Events after `after`, formatted by pl_sse_format, about 64 KiB; `ret_last` = the last id looked at (`after` when there is
     * none yet). Runs on the pool, for several subscribers at once. PL_ENOTFOUND: they are no longer kept. NULL = only the ring.
     */
    int (*older)(void *self, uint64_t after, void *filter, struct pl_buf *out, uint64_t *ret_last, struct pl_err *err);
    /* Whether a subscriber with `filter` wants the event; NULL = everything. Must not block. */
    bool (*wants)(void *self, const void *filter, const char *type, const char *data);
    /* Whether a subscriber with `filter` is to be told nothing more: its stream ends. NULL = never. Must not block. */
    bool (*over)(void *self, const void *filter);
    void (*drop_filter)(void *filter); /* frees a subscriber's filter; may be NULL */
    uint64_t last_id;                  /* the newest event that exists already (from the database); 0 = none */
};

PL_MUST_CHECK
int pl_sse_hub_create(const struct pl_sse_options *o, struct pl_sse_hub **ret, struct pl_err *err);
/* To all subscribers. `id` rises from call to call. Any thread, never blocks; an event larger than the bound is PL_ETOOBIG. */
PL_MUST_CHECK
int pl_sse_hub_publish(struct pl_sse_hub *h, uint64_t id, const char *type, const char *data, struct pl_err *err);
/* Answers `req` with the stream of what comes after its Last-Event-ID header (or query argument `since`), or, without one, of
 * what comes from now on. Takes `filter`. Replies in any case (PL_EBUSY at the bound of subscribers, PL_EINVAL for an id that is
 * none). */
void pl_sse_hub_subscribe(struct pl_sse_hub *h, struct pl_http_request *req, void *filter);
/* `over` may answer otherwise than before. Any thread, never blocks. */
void pl_sse_hub_look(struct pl_sse_hub *h);
size_t pl_sse_hub_subscribers(struct pl_sse_hub *h);
/* Ends all streams; the memory goes with the last of them. */
struct pl_sse_hub *pl_sse_hub_destroy(struct pl_sse_hub *h);
