/* log_watch: whether the log is still this daemon's. Another daemon that takes over writes the next object with a higher epoch; whoever
 * does not write learns of it only by looking.
 *
 *   look, before something is acknowledged that is not in the log ──┐
 *                                                                   ├──▶ the next log key: free, or ours ──▶ 0
 *   thread, every `every_ms`, also when nothing happens ────────────┘                   another's     ──▶ PL_EFENCED, fenced() once
 *
 * Any thread. */
#pragma once

#include "storage/object/object.h"

#define PL_LOG_WATCH_MS 3000

struct pl_log_watch;

struct pl_log_watch_config {
    struct pl_object_store *objects;
    uint64_t epoch, seq; /* ours; the last object that is known */
    int64_t every_ms;    /* 0 = there is no thread: it looks when it is asked */
    /* Once. Any thread. */
    void (*fenced)(void *self, const struct pl_err *err);
    void *self;
};

PL_MUST_CHECK
int pl_log_watch_create(const struct pl_log_watch_config *config, struct pl_log_watch **ret, struct pl_err *err);
/* Looks now; one request as a rule. 0: nobody has taken over by the time of the call. PL_EFENCED; errors of the store: nobody knows. */
PL_MUST_CHECK
int pl_log_watch_look(struct pl_log_watch *w, struct pl_err *err);
/* The log has come to object `seq`. */
void pl_log_watch_at(struct pl_log_watch *w, uint64_t seq);
/* The thread ends; `fenced` comes no more from it. */
void pl_log_watch_stop(struct pl_log_watch *w);
/* NULL is fine. */
struct pl_log_watch *pl_log_watch_destroy(struct pl_log_watch *w);
