/* kube_log: what a container prints, line by line, and once, through whatever ends the connection.
 *
 * The server is asked for timestamps and, after the first time, for what was printed since the last one that came. It answers from the
 * begin of that second on: what was seen already is left out by its timestamp, and by its place among lines of the same one. */
#pragma once

#include "pipelined/kube/client/kube_client.h"

#define PL_KUBE_LINE_MAX  (64u << 10) /* bytes of a line; a longer one comes in parts */
#define PL_KUBE_LOG_TRIES 3u

/* --- lines: pure --- */

struct pl_kube_lines {
    /* `line` without timestamp and newline, borrowed; `time_us` since 1970, 0 = it had none (the server's own words). `whole` false: the rest
     * of the line follows. Negative ends the feed. */
    int (*line)(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err);
    void *self;
    struct pl_buf rest; /* of the line that is not whole yet */
    bool in_line;       /* its begin was handed on, or left out */
    bool left_out;
    bool any;         /* a timestamp was seen */
    int64_t last_ns;  /* the latest, since 1970 */
    uint64_t at_last; /* lines with it that were handed on */
    uint64_t skip;    /* of this connection: lines with it still to be left out */
};
/* A new connection, asked with pl_kube_lines_since. */
void pl_kube_lines_restart(struct pl_kube_lines *l);
/* Of the line's: PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_lines_feed(struct pl_kube_lines *l, const void *data, size_t n, struct pl_err *err);
/* The connection ended: what is left is a line only if `over` (nothing will be asked again). */
PL_MUST_CHECK
int pl_kube_lines_end(struct pl_kube_lines *l, bool over, struct pl_err *err);
/* "2026-01-02T03:04:05Z" for sinceTime; "" = from the begin. */
const char *pl_kube_lines_since(const struct pl_kube_lines *l, char out[32]);
void pl_kube_lines_finish(struct pl_kube_lines *l);

/* --- following --- */

struct pl_kube_log;

struct pl_kube_log_config {
    const char *space, *pod, *container; /* copied */
    bool once;        /* what is there, and no more; a server of which nothing comes is asked PL_KUBE_LOG_TRIES times */
    uint64_t tail;    /* of what is there, the last so many lines; 0 = all */
    int64_t pause_ms; /* between connections; 0 = 1000 */
    int (*line)(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err); /* on the I/O thread */
    /* NULL, or: nothing is wrong, and there may be nothing for long: the server follows it, or (`started` false) the container has not started. On
     * the I/O thread. */
    void (*stands)(void *self, bool started);
    /* It is over: code 0 = all was read, PL_ENOTFOUND = the pod is gone, PL_ECANCELED = it was stopped, or why the server refuses. On the I/O
     * thread, once; nothing comes after it. */
    void (*over)(void *self, const struct pl_err *err);
    void *self;
};
/* Follows at once; a container that has not started is waited for. PL_EINVAL, PL_ENOMEM. The client outlives it. */
PL_MUST_CHECK
int pl_kube_log_create(struct pl_kube_client *c, const struct pl_kube_log_config *config, struct pl_kube_log **ret,
                       struct pl_err *err);
/* The container has ended (its status says so): what is left is read, then it is over. Any thread. */
void pl_kube_log_container_ended(struct pl_kube_log *l);
/* A connection that follows still, though the container has ended, comes to nothing any more: what is left is asked for anew. Any thread. */
void pl_kube_log_cut(struct pl_kube_log *l);
/* It is over soon. Any thread. */
void pl_kube_log_stop(struct pl_kube_log *l);
/* Stops it, and waits until it is over. Not on the I/O thread. Takes NULL, returns NULL. */
struct pl_kube_log *pl_kube_log_destroy(struct pl_kube_log *l);
