/* kube_log: reads a container's log line by line, each line once, across broken connections.
 *
 * The server is asked for timestamps and, after the first connection, for lines since the last timestamp
 * received. It answers from the beginning of that second on, so lines received before are recognised by their
 * timestamp, and by their position among lines with the same timestamp. */
#pragma once

#include "pipelined/kube/client/kube_client.h"

#define PL_KUBE_LINE_MAX  (64u << 10) /* bytes of a line; a longer one is delivered in parts */
#define PL_KUBE_LOG_TRIES 3u

/* ---- lines: pure ---- */

struct pl_kube_lines {
    /* Receives a line without timestamp and newline, borrowed. `time_us` since 1970; 0 = the line has no
     * timestamp (a message of the server itself). `whole` false: the rest of the line follows. A negative
     * result ends the feed. */
    int (*line)(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err);
    void *self;
    struct pl_buf rest; /* the incomplete line */
    bool in_line;       /* the beginning of the line was delivered or skipped */
    bool left_out;
    bool any;         /* a timestamp was received */
    int64_t last_ns;  /* latest timestamp, ns since 1970 */
    uint64_t at_last; /* number of lines with that timestamp that were delivered */
    uint64_t skip;    /* number of lines with it still to skip on this connection */
};
/* Begins a new connection, which was requested with pl_kube_lines_since. */
void pl_kube_lines_restart(struct pl_kube_lines *l);
/* Feeds received bytes. PL_ENOMEM; errors of `line`. */
PL_MUST_CHECK
int pl_kube_lines_feed(struct pl_kube_lines *l, const void *data, size_t n, struct pl_err *err);
/* Ends a connection. `over`: it was the last, so an incomplete line is delivered; otherwise it is dropped and
 * read again. */
PL_MUST_CHECK
int pl_kube_lines_end(struct pl_kube_lines *l, bool over, struct pl_err *err);
/* Returns `out`: the value for sinceTime, "2026-01-02T03:04:05Z"; "" = from the beginning. */
const char *pl_kube_lines_since(const struct pl_kube_lines *l, char out[32]);
void pl_kube_lines_finish(struct pl_kube_lines *l);

/* ---- following a log ---- */

struct pl_kube_log;

struct pl_kube_log_config {
    const char *space, *pod, *container; /* namespace, pod and container; copied */
    /* read what exists and do not follow; then a server that sends nothing is tried PL_KUBE_LOG_TRIES
     * times */
    bool once;
    uint64_t tail;    /* number of existing lines to read, from the end; 0 = all */
    int64_t pause_ms; /* pause between connections; 0 = 1000 */
    /* receives lines, as in struct pl_kube_lines; on the I/O thread */
    int (*line)(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err);
    /* Called when all is well although no line may come for long: the server follows the log, or (`started`
     * false) the container has not started. On the I/O thread. NULL = not called. */
    void (*stands)(void *self, bool started);
    /* Called once, as the last callback: code 0 = the log was read completely, PL_ENOTFOUND = the pod is
     * gone, PL_ECANCELED = stopped, else why the server refuses. On the I/O thread. */
    void (*over)(void *self, const struct pl_err *err);
    void *self;
};
/* Starts reading; waits for a container that has not started. The client must outlive the log. PL_EINVAL,
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_log_create(struct pl_kube_client *c, const struct pl_kube_log_config *config, struct pl_kube_log **ret,
                       struct pl_err *err);
/* Call when the container has ended according to its status: the rest is read, then the log is over. Any
 * thread. */
void pl_kube_log_container_ended(struct pl_kube_log *l);
/* Cuts a connection that still follows although the container has ended, since it will bring nothing; the
 * rest is read over a new one. Any thread. */
void pl_kube_log_cut(struct pl_kube_log *l);
/* Stops reading; `over` is called soon. Any thread. */
void pl_kube_log_stop(struct pl_kube_log *l);
/* Stops reading, waits for the end, and frees. Not on the I/O thread. NULL is allowed; returns NULL. */
struct pl_kube_log *pl_kube_log_destroy(struct pl_kube_log *l);
