/* kube_event.c: a small table of the events that wait or were written lately, and a token bucket. */
#include "pipelined/kube/client/kube_event.h"

#include "storage/base/clock.h"
#include "storage/base/path.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define COMPONENT "pipelined"

struct event {
    const char *reason; /* NULL = the entry is free */
    char message[PL_KUBE_EVENT_MESSAGE_BYTES];
    bool warning;
    unsigned tries; /* number of times that sending it has failed */
    uint32_t count; /* how often it happened since it was written last; 0 = never */
    /* of the Event that is being sent, the same at each try: `count`, the number of dropped events of which its message
     * tells, and the number in its name */
    uint32_t sent_count, dropped;
    uint64_t number;
    int64_t first_us, last_us;  /* wall clock: of these `count` times the first and the last */
    int64_t noted_ms, again_ms; /* noted first; time from which it may be sent */
};

struct pl_kube_events {
    struct event table[PL_KUBE_EVENTS_KEPT];
    struct event *sending; /* NULL = none */
    uint32_t dropped;      /* of which no message tells */
    unsigned tokens;
    int64_t tokens_ms; /* time up to which tokens were added */
    uint64_t begun;    /* number of Events, without further tries */
};

int pl_kube_events_create(struct pl_kube_events **ret, struct pl_err *err)
{
    struct pl_kube_events *e = calloc(1, sizeof *e);

    if (!e)
        return pl_err_nomem(err);
    e->tokens = PL_KUBE_EVENT_BURST;
    *ret = e;
    return 0;
}

struct pl_kube_events *pl_kube_events_destroy(struct pl_kube_events *e)
{
    free(e);
    return NULL;
}

/* Frees the entries whose window is over and in which nothing happened since they were written. */
static void forget(struct pl_kube_events *e, int64_t now_ms)
{
    for (size_t i = 0; i < PL_KUBE_EVENTS_KEPT; i++) {
        struct event *v = &e->table[i];

        if (v->reason && v != e->sending && v->count == 0 && v->again_ms <= now_ms)
            v->reason = NULL;
    }
}

/* Returns a free entry; else the one that was written longest ago, if nothing happened since; else NULL. */
static struct event *place(struct pl_kube_events *e)
{
    struct event *oldest = NULL;

    for (size_t i = 0; i < PL_KUBE_EVENTS_KEPT; i++) {
        struct event *v = &e->table[i];

        if (!v->reason)
            return v;
        if (v != e->sending && v->count == 0 && (!oldest || v->again_ms < oldest->again_ms))
            oldest = v;
    }
    return oldest;
}

void pl_kube_events_note(struct pl_kube_events *e, const char *reason, bool warning, const char *message, int64_t now_ms,
                         int64_t wall_us)
{
    char text[PL_KUBE_EVENT_MESSAGE_BYTES];
    struct event *v = NULL;

    snprintf(text, sizeof text, "%s", message);
    pl_utf8_clean(pl_utf8_trim(text)); /* the words of a program may be in any encoding */
    forget(e, now_ms);
    for (size_t i = 0; i < PL_KUBE_EVENTS_KEPT && !v; i++)
        if (e->table[i].reason && strcmp(e->table[i].reason, reason) == 0 && strcmp(e->table[i].message, text) == 0)
            v = &e->table[i];
    if (!v) {
        v = place(e);
        if (!v) {
            e->dropped++;
            return;
        }
        *v = (struct event){.reason = reason, .warning = warning, .noted_ms = now_ms, .again_ms = now_ms};
        memcpy(v->message, text, sizeof text);
    }
    if (v->count++ == 0)
        v->first_us = wall_us;
    v->last_us = wall_us;
}

static void fill(struct pl_kube_events *e, int64_t now_ms)
{
    const int64_t more = e->tokens_ms ? (now_ms - e->tokens_ms) / PL_KUBE_EVENT_PAUSE_MS : 0;

    if (more <= 0 && e->tokens_ms)
        return;
    e->tokens = (unsigned)PL_MIN((int64_t)PL_KUBE_EVENT_BURST, e->tokens + more);
    e->tokens_ms = e->tokens < PL_KUBE_EVENT_BURST ? e->tokens_ms + more * PL_KUBE_EVENT_PAUSE_MS : now_ms;
}

/* Returns the entry that waits longest and may be sent; NULL = none. */
static struct event *due(struct pl_kube_events *e, int64_t now_ms)
{
    struct event *first = NULL;

    for (size_t i = 0; i < PL_KUBE_EVENTS_KEPT; i++) {
        struct event *v = &e->table[i];

        if (v->reason && v->count > 0 && v->again_ms <= now_ms && (!first || v->noted_ms < first->noted_ms))
            first = v;
    }
    return first;
}

static json_t *build(const struct event *v, const struct pl_kube_event_object *about)
{
    char name[300], message[1024], first[32], last[32];

    /* the wall time makes the name unique across restarts; names of ConfigMaps have up to 253 bytes, as those of Events */
    snprintf(name, sizeof name, "%.200s.%016" PRIx64 "%04" PRIx64, about->name, (uint64_t)v->first_us, v->number & 0xffff);
    if (v->dropped)
        snprintf(message, sizeof message, "%s (%" PRIu32 " other events were not written)", v->message, v->dropped);
    else
        snprintf(message, sizeof message, "%s", v->message);
    return json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:s, s:s, s:s}, s:s, s:s, s:s, s:I, s:s, s:s, s:{s:s}, s:s, s:s}",
                     "apiVersion", "v1", "kind", "Event", "metadata", "name", name, "namespace", about->space, "involvedObject",
                     "apiVersion", about->api_version, "kind", about->kind, "namespace", about->space, "name", about->name, "uid",
                     about->uid, "reason", v->reason, "message", message, "type", v->warning ? "Warning" : "Normal", "count",
                     (json_int_t)v->sent_count, "firstTimestamp", pl_clock_text(v->first_us, first), "lastTimestamp",
                     pl_clock_text(v->last_us, last), "source", "component", COMPONENT, "reportingComponent", COMPONENT,
                     "reportingInstance", COMPONENT);
}

json_t *pl_kube_events_next(struct pl_kube_events *e, const struct pl_kube_event_object *about, int64_t now_ms)
{
    struct event *v = e->sending ? NULL : due(e, now_ms);
    json_t *event;

    fill(e, now_ms);
    if (!v || e->tokens == 0)
        return NULL;
    if (v->tries == 0) {
        v->sent_count = v->count;
        v->dropped = e->dropped;
        v->number = e->begun++;
        e->dropped = 0;
    }
    event = build(v, about);
    if (!event) { /* it must not be in the way of those that came later */
        e->dropped += v->dropped + v->count;
        v->reason = NULL;
        return NULL;
    }
    e->tokens--;
    e->sending = v;
    return event;
}

void pl_kube_events_sent(struct pl_kube_events *e, enum pl_kube_event_sent sent, int64_t now_ms)
{
    struct event *v = e->sending;

    assert(v);
    e->sending = NULL;
    if (sent == PL_KUBE_EVENT_AGAIN && ++v->tries < PL_KUBE_EVENT_TRIES) {
        v->again_ms = now_ms + PL_KUBE_EVENT_PAUSE_MS;
        return;
    }
    if (sent != PL_KUBE_EVENT_WRITTEN)
        e->dropped += v->dropped + v->sent_count;
    v->tries = 0;
    v->dropped = 0;
    v->count -= v->sent_count;
    v->first_us = v->last_us;
    v->noted_ms = v->again_ms = now_ms + PL_KUBE_EVENT_WINDOW_MS;
}
