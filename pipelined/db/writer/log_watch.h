/* log_watch: notices that another daemon has taken over the log. The other daemon writes the next object with a
 * higher epoch; a daemon that does not write learns of it only by looking.
 *
 *   look, before something is acknowledged that is not in the log ──┐
 *                                                                   ├──▶ the next log key
 *   thread, every `every_ms`, also when the daemon is idle ─────────┘
 *
 *   key is free, or ours: 0        key is another daemon's: PL_EFENCED, fenced() once
 *
 * Any thread. */
#pragma once

#include "storage/object/object.h"

#define PL_LOG_WATCH_MS 3000

struct pl_log_watch;

struct pl_log_watch_config {
    struct pl_object_store *objects;
    uint64_t epoch, seq; /* epoch of this daemon; number of the last known log object */
    int64_t every_ms;    /* 0 = no thread: checks only on pl_log_watch_look */
    /* Called once, on any thread, when another daemon has taken over. */
    void (*fenced)(void *self, const struct pl_err *err);
    void *self;
};

PL_MUST_CHECK
int pl_log_watch_create(const struct pl_log_watch_config *config, struct pl_log_watch **ret, struct pl_err *err);
/* Checks now, usually with one request. Returns 0 if no daemon had taken over by the time of the call.
 * PL_EFENCED: another daemon had; errors of the store: it is not known. */
PL_MUST_CHECK
int pl_log_watch_look(struct pl_log_watch *w, struct pl_err *err);
/* Makes the thread check at once. Does not block. */
void pl_log_watch_look_soon(struct pl_log_watch *w);
/* Returns true unless pl_log_watch_look_soon was called and no check that began after the call has found that no daemon had
 * taken over. Without a thread (every_ms 0) nothing ever finds that. */
bool pl_log_watch_is_ours(struct pl_log_watch *w);
/* Tells the watch that the log has grown to object `seq`. */
void pl_log_watch_at(struct pl_log_watch *w, uint64_t seq);
/* Stops the thread; after the return it no longer calls `fenced`. */
void pl_log_watch_stop(struct pl_log_watch *w);
/* Frees the watch. NULL is allowed. */
struct pl_log_watch *pl_log_watch_destroy(struct pl_log_watch *w);
