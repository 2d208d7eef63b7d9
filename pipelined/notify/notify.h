/* notify: Sends events of the database to URLs that users name.
 *
 *   table of events ──notify_events──▶ what a rule wants ──notify_format, notify_objects──▶ body ──notify_send──▶ POST
 *
 * In:      Rules and events of the database.
 * Out:     HTTP requests; how far each rule has come.
 * Uses:    db/{tx, writer}, policy, text, storage/{base, http, store, system, tree}
 * Threads: One of its own, which decides; one of storage/http, which sends; the API calls from any thread.
 *
 * Inside:
 *   notify_events   finds the events that a rule wants
 *   notify_format   bodies and signatures
 *   notify_objects  the files that a commit changed, for S3's form
 *   notify_rule     the settings of a rule, and which events it wants
 *   notify_send     one delivery */

/* notify: the rules and their thread. Of one rule, one event is on its way at a time, and the next one follows when that is
 * delivered or given up: so they come in order. The position of a rule is written after the delivery: after a crash an
 * event may be sent again, under the same delivery id.
 *
 *            event is wanted             due                  answered
 *   QUIET ──────────────────▶ BEHIND ───────────▶ SENDING ──────────────▶ BEHIND
 *     ▲                          │
 *     └── no event is wanted ────┘
 *
 * Bounds: PL_NOTIFY_MAX rules; one event of each in memory; PL_NOTIFY_SENDS_MAX deliveries at a time, half of them to rules
 * whose last attempt failed. */
#pragma once

#include "pipelined/db/tx/notify_tx.h"
#include "pipelined/policy/project_secret.h"
#include "storage/http/outbound.h"
#include "storage/store/project_stores.h"

#define PL_NOTIFY_GIVE_UP_S     (24 * 3600) /* an event that is older is given up if an attempt fails */
#define PL_NOTIFY_WAITING_SHOWN 10000

/* What the notifications use; must outlive them. */
struct pl_notify_config {
    struct pl_db *db;
    struct pl_project_stores *stores;
    const struct pl_outbound *outbound;
    int (*secrets)(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    void *secrets_self;
};

struct pl_notify;

/* Reads the rules and starts the thread. PL_EIO, PL_ENOMEM; errors of the database. */
PL_MUST_CHECK
int pl_notify_start(const struct pl_notify_config *config, struct pl_notify **ret, struct pl_err *err);
/* Makes the thread end soon; deliveries that have not been answered are made again after the next start. Does not block.
 * NULL is allowed. */
void pl_notify_drain(struct pl_notify *n);
/* Waits up to `ms` milliseconds for the end of the thread, which uses the database until then. True if it has ended, or `n`
 * is NULL. */
bool pl_notify_drained(struct pl_notify *n, int64_t ms);
/* Waits for the end of the thread and frees the notifications. NULL is allowed. Returns NULL. */
struct pl_notify *pl_notify_destroy(struct pl_notify *n);

/* Says that the database has new events. Any thread, does not block. */
void pl_notify_event(struct pl_notify *n);
/* Says that a rule was created, changed or deleted. */
void pl_notify_changed(struct pl_notify *n);
/* Checks the settings of a rule, {on, url, format?, secret?, repo?}, and returns them in normal form. `before`: the settings
 * that an update changes, NULL for a new rule. PL_EINVAL, PL_EFORBIDDEN: the message and field name the setting. */
PL_MUST_CHECK
int pl_notify_check(const struct pl_notify *n, const json_t *given, const json_t *before, json_t **ret, struct pl_err *err);
/* True if the settings want events of the whole daemon: then whoever sets the rule must be allowed to read everything. */
bool pl_notify_wants_all(const json_t *settings);
/* Sends a test to the URL of the settings, and waits for the reply. Returns {"status", "ms", "error"}; "error" is "" if the
 * test was delivered, "status" 0 if there was no reply. */
PL_MUST_CHECK
int pl_notify_test(struct pl_notify *n, const char *name, const char *project, const json_t *settings, json_t **ret,
                   struct pl_err *err);
/* Counts the events after `cursor` that still have to be delivered, up to PL_NOTIFY_WAITING_SHOWN. */
PL_MUST_CHECK
int pl_notify_waiting(struct pl_notify *n, const char *project, const json_t *settings, int64_t cursor, int64_t *ret,
                      struct pl_err *err);
