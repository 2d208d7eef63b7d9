/* kube_log: reads a container's log line by line, each line once, across broken connections.
 *
 * The server is asked for timestamps and, after the first connection, for lines since the last timestamp
 * received. It answers from the beginning of that second on, so lines received before are recognised by their
 * timestamp, and by their position among lines with the same timestamp. */
#pragma once

#include "pipelined/kube/client/kube_client.h"

#define PL_KUBE_LINE_MAX  (64u << 10) /* maximum bytes of a line; a longer line is delivered in parts */
#define PL_KUBE_LOG_TRIES 3u

/* ---- splitting into lines (pure) ---- */

struct pl_kube_lines {
    /* Receives a line without timestamp and newline, borrowed. `time_us`: µs since 1970; 0 = the line has no
     * timestamp (a message of the server itself). `whole` false: the rest of the line follows. A negative
     * result ends pl_kube_lines_feed with that error. */
    int (*line)(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err);
    void *self;
    struct pl_buf rest; /* bytes of the line that is not complete */
    bool in_line;       /* the beginning of the line was delivered or skipped */
    bool left_out;
    bool any;         /* a line with a timestamp was received */
    int64_t last_ns;  /* latest timestamp, ns since 1970 */
    uint64_t at_last; /* number of delivered lines whose timestamp is last_ns */
    uint64_t skip;    /* number of lines with timestamp last_ns still to be skipped on this connection */
};
/* Prepares for the lines of a new connection, which was requested with the sinceTime of
 * pl_kube_lines_since. */
void pl_kube_lines_restart(struct pl_kube_lines *l);
/* Processes received bytes. PL_ENOMEM, or an error of the callback `line`. */
PL_MUST_CHECK
int pl_kube_lines_feed(struct pl_kube_lines *l, const void *data, size_t n, struct pl_err *err);
/* Ends a connection. If `over`, it was the last one, and an incomplete line is delivered; otherwise an
 * incomplete line is dropped and the next connection reads it again. */
PL_MUST_CHECK
int pl_kube_lines_end(struct pl_kube_lines *l, bool over, struct pl_err *err);
/* Writes the value of the query parameter sinceTime to `out`, such as "2026-01-02T03:04:05Z" ("" = read from
 * the beginning), and returns `out`. */
const char *pl_kube_lines_since(const struct pl_kube_lines *l, char out[32]);
void pl_kube_lines_finish(struct pl_kube_lines *l);

/* ---- following a log ---- */

struct pl_kube_log;

struct pl_kube_log_config {
    const char *space, *pod, *container; /* namespace, pod and container; copied */
    /* read the existing lines and do not follow the log; the log ends with an error after PL_KUBE_LOG_TRIES
     * failed attempts in a row */
    bool once;
    uint64_t tail;    /* number of existing lines to read, from the end; 0 = all */
    int64_t pause_ms; /* pause between connections; 0 = 1000 */
    /* receives lines, as in struct pl_kube_lines; on the I/O thread */
    int (*line)(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err);
    /* Reports that the log works although no line may come for a long time: `started` true = the server has
     * begun to send the log; false = the container has not started. On the I/O thread. NULL = not called. */
    void (*stands)(void *self, bool started);
    /* The last callback, called once. `err` has code 0 if the log was read completely, PL_ENOTFOUND if the
     * pod is gone, PL_ECANCELED after pl_kube_log_stop, else the server's error. On the I/O thread. */
    void (*over)(void *self, const struct pl_err *err);
    void *self;
};
/* Starts reading; waits for a container that has not started. The client must outlive the log. PL_EINVAL,
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_log_create(struct pl_kube_client *c, const struct pl_kube_log_config *config, struct pl_kube_log **ret,
                       struct pl_err *err);
/* Call when the container has ended according to its status: the rest of the log is read, then the log ends.
 * Any thread. */
void pl_kube_log_container_ended(struct pl_kube_log *l);
/* Call when the container has ended but the server keeps the connection of the followed log open. Closes
 * that connection; the rest of the log is read over a new connection, which ends by itself. Any thread. */
void pl_kube_log_cut(struct pl_kube_log *l);
/* Stops reading; `over` is called soon. Any thread. */
void pl_kube_log_stop(struct pl_kube_log *l);
/* Stops reading, waits until `over` has been called, and frees the log. Not on the I/O thread. NULL is
 * allowed; returns NULL. */
struct pl_kube_log *pl_kube_log_destroy(struct pl_kube_log *l);
