/* notify_tx: transactions on notification rules, which send events of a project to a URL. The settings of a rule are
 * logged. How far its deliveries have come is not: it is a position in the table of events, which is not logged either. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/base/path.h"

#define PL_NOTIFY_MAX            1000u
#define PL_NOTIFY_EVENT_NAME_MAX 100u

struct pl_notify_args {
    const char *name;
    const char *project; /* of an update: a rule of another project is not found */
    const json_t *spec;  /* {on, url, format, secret, repo}, complete; of an update: the fields to change; borrowed */
    bool update;         /* the rule exists */
    /* Of an update: checks `spec`, and makes the complete settings of it and of those that the rule has. Called on the writer
     * thread, within the transaction, so that no change that is made meanwhile is lost. */
    int (*merge)(void *self, const json_t *spec, const json_t *before, json_t **ret, struct pl_err *err);
    void *self;
    int64_t created_us; /* out: with `name`, tells a rule from an earlier one of the same name */
};

/* Creates a rule, which begins with the next event, or changes its settings. arg: struct pl_notify_args. PL_EEXISTS,
 * PL_ENOTFOUND, PL_ENAME, PL_ELIMIT (PL_NOTIFY_MAX); errors of args.merge. */
PL_MUST_CHECK
int pl_tx_notify_set(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes a rule; what it had not delivered is not delivered. arg: struct pl_notify_args. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_notify_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

/* How far a rule has come. */
struct pl_notify_state {
    char name[PL_NAME_MAX_BYTES + 1];
    int64_t created_us;
    int64_t cursor; /* the last event that is done: delivered, given up, or of no concern */
    char *part;     /* the event after it is delivered up to this path (format s3); NULL = it has not begun */
    int64_t sent, given_up;
    int64_t missed;                            /* events given up since the last delivery: the next one says so */
    char gap[200];                             /* why other events may be missing since the last delivery; "" = none is */
    unsigned failures;                         /* failed attempts in a row */
    int64_t sent_us, sent_ms;                  /* the last delivery: when, and how long it took */
    char sent_event[PL_NOTIFY_EVENT_NAME_MAX]; /* its TYPE.STATE */
    int64_t error_us;                          /* the last failed attempt; 0 = none */
    char error[PL_ERR_MSG_BYTES];
};
/* Columns of notify_state in the order that pl_notify_state_read expects. */
#define PL_NOTIFY_STATE_COLUMNS                                                                                                  \
    "s.cursor, s.part, s.sent, s.given_up, s.missed, s.gap, s.failures, s.sent_us, s.sent_ms, s.sent_event, s.error_us, s.error"
#define PL_NOTIFY_STATE_N 12
/* Reads a state from columns `at` and following of a row; not `name` and `created_us`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_notify_state_read(const struct pl_rows *rows, int at, struct pl_notify_state *ret, struct pl_err *err);
void pl_notify_state_finish(struct pl_notify_state *state);

/* Writes states, unlogged. A rule that was deleted meanwhile is left alone. arg: struct pl_notify_saving. */
struct pl_notify_saving {
    const struct pl_notify_state *const *states;
    size_t n;
};
PL_MUST_CHECK
int pl_tx_notify_save(struct pl_tx *tx, void *arg, struct pl_err *err);
