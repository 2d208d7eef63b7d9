/* kube_event: the Events that the daemon writes about one object: builds them, and bounds how many there are.
 *
 *   note ──▶ waiting ──next──▶ being sent ──sent (WRITTEN)──▶ written ──note──▶ repeated ──a window later──▶ waiting
 *               ▲                  │ │                           └──a window later──▶ (forgotten)
 *               │                  │ └─sent (REFUSED)──▶ dropped, then as if it were written
 *               └── sent (AGAIN) ──┘ PL_KUBE_EVENT_TRIES times, then it is dropped
 *
 * An event with the reason and message of one that was written less than PL_KUBE_EVENT_WINDOW_MS ago is only
 * counted; when the window is over, one event is written for all of them, with their number. At most
 * PL_KUBE_EVENT_BURST events are sent at once, and one per PL_KUBE_EVENT_PAUSE_MS after that. At most
 * PL_KUBE_EVENTS_KEPT are kept; further ones are dropped, and the next event that is written says how many.
 *
 * Pure: the caller passes monotonic times, and sends. Not thread-safe. */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_KUBE_EVENTS_KEPT         32u
#define PL_KUBE_EVENT_WINDOW_MS     60000
#define PL_KUBE_EVENT_BURST         5u
#define PL_KUBE_EVENT_PAUSE_MS      1000
#define PL_KUBE_EVENT_TRIES         3u
#define PL_KUBE_EVENT_MESSAGE_BYTES 900u /* the API server takes messages of up to 1,024 bytes */

struct pl_kube_events;

/* What became of an event that was sent. */
enum pl_kube_event_sent {
    PL_KUBE_EVENT_WRITTEN,
    PL_KUBE_EVENT_AGAIN,   /* not known, or refused for now: it is to be sent once more, by the same name */
    PL_KUBE_EVENT_REFUSED, /* for good */
};

/* The object that the events are about. */
struct pl_kube_event_object {
    const char *api_version, *kind, *space, *name, *uid;
};

/* PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_events_create(struct pl_kube_events **ret, struct pl_err *err);
/* NULL is allowed; returns NULL. */
struct pl_kube_events *pl_kube_events_destroy(struct pl_kube_events *e);
/* Notes an event. `reason`: a word in CamelCase, a string literal. `message` is copied, up to
 * PL_KUBE_EVENT_MESSAGE_BYTES, with "?" for what is not UTF-8. `warning`: its type is Warning, else Normal. `wall_us`:
 * when it happened. */
void pl_kube_events_note(struct pl_kube_events *e, const char *reason, bool warning, const char *message, int64_t now_ms,
                         int64_t wall_us);
/* Returns the Event (core/v1) that is to be sent now, about that object, as a new reference; NULL if none is to be sent, if one
 * is being sent, or if it cannot be built (without memory, or about names that are not UTF-8), which drops it. The caller sends
 * it and then calls pl_kube_events_sent. */
json_t *pl_kube_events_next(struct pl_kube_events *e, const struct pl_kube_event_object *about, int64_t now_ms);
/* Says what became of the event that pl_kube_events_next returned. */
void pl_kube_events_sent(struct pl_kube_events *e, enum pl_kube_event_sent sent, int64_t now_ms);
