/* notify_events: finds the events that a rule wants in the table of events. Any thread; blocks. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/notify/notify_rule.h"

#define PL_NOTIFY_TYPE_CHARS 64u
#define PL_NOTIFY_PAGE       1000 /* rows that one call reads */

struct pl_notify_event {
    int64_t id, at_us;
    char type[PL_NOTIFY_TYPE_CHARS];
    json_t *data;
};
void pl_notify_event_finish(struct pl_notify_event *e);

/* What a search found on its way. */
struct pl_notify_search {
    int64_t cursor;     /* in: where it begins; out: the last event that is known not to be wanted */
    int64_t given_up;   /* out: events that are wanted, but older than `give_up_us` */
    int64_t give_up_us; /* in: give events up that are older; 0 = none */
    char gap[200];      /* out: why events may be missing; "" = none is */
};

/* Finds the first event after s->cursor that the filter wants. Returns 1 and the event; 0 at the end of the table; -1 … as
 * errors. PL_EBUSY, without a message: after PL_NOTIFY_PAGE rows none was found, call it again. */
PL_MUST_CHECK
int pl_notify_events_next(struct pl_db *db, const struct pl_notify_filter *f, struct pl_notify_search *s,
                          struct pl_notify_event *ret, struct pl_err *err);
/* Returns whether the filter wants the event; `c` is used for events of runs. */
PL_MUST_CHECK
int pl_notify_events_wanted(struct pl_conn *c, const struct pl_notify_filter *f, const char *type, const json_t *data, bool *ret,
                            struct pl_err *err);
/* Counts the events after `cursor` that the filter wants, up to `most`. */
PL_MUST_CHECK
int pl_notify_events_count(struct pl_db *db, const struct pl_notify_filter *f, int64_t cursor, int64_t most, int64_t *ret,
                           struct pl_err *err);
