/* output_log: sends the output of commands and the lines of metrics.jsonl to the daemon, in order. A thread
 * of its own sends, so that no command waits for the network. Output is sent PL_OUTPUT_LOG_FLUSH_MS after it
 * was written, or when PL_OUTPUT_LOG_SEND_BYTES have gathered. While the daemon is away, more output is
 * buffered, up to a larger limit. At the limit the command waits, because its pipe is full.
 *
 * Output that the daemon finally refuses, because the task is over, is dropped with a line in the agent's own
 * log: one for each task. */
#pragma once

#include "pipelined/agent/connection/task_lease.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

#define PL_OUTPUT_LOG_FLUSH_MS   150
#define PL_OUTPUT_LOG_SEND_BYTES (256u << 10)
#define PL_OUTPUT_LOG_MAX        (4u << 20)  /* bytes buffered at most while the daemon answers */
#define PL_OUTPUT_LOG_AWAY_MAX   (64u << 20) /* bytes buffered at most while the daemon is away */

struct pl_outlog;

/* The origin of a piece of output: one attempt at one datum. */
struct pl_output_log_source {
    const struct pl_agent_protocol_lease *lease;
    const char *datum; /* 64 hex digits */
    /* index of the datum in its job */
    uint32_t index;
    uint32_t attempt;
};

/* Starts the sending thread. All arguments are borrowed and must outlive the object; `stopping` is set when
 * the agent stops. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_output_log_create(struct pl_uplink *link, struct pl_lease *lease, const char *worker, const atomic_bool *stopping,
                         struct pl_outlog **ret, struct pl_err *err);
/* Creates a log for a worker without a daemon: the caller's thread writes output to `fd` as it arrives;
 * metrics are dropped. PL_ENOMEM. */
PL_MUST_CHECK
int pl_output_log_create_print(int fd, struct pl_outlog **ret, struct pl_err *err);
/* Waits for the request in progress, drops the rest, and frees. */
struct pl_outlog *pl_output_log_destroy(struct pl_outlog *o);

/* Appends `n` bytes of output at byte `offset` of this attempt's output. Waits while the buffer is full,
 * unless the agent is stopping. Drops the bytes, with a log line, if there is no memory. */
void pl_output_log_add(struct pl_outlog *o, const struct pl_output_log_source *source, uint64_t offset, const uint8_t *data,
                       size_t n);
/* Appends lines of metrics.jsonl with their newlines. `first` is the number of lines of this attempt that
 * came before; the daemon uses this number to recognise lines that it receives twice. */
void pl_output_log_metrics(struct pl_outlog *o, const struct pl_output_log_source *source, uint64_t first, const char *lines,
                           size_t n);
/* Sends everything that is buffered, without waiting for the flush time, and waits at most `timeout_ms` for
 * that. While the daemon is away: returns at once, or, if `patient`, waits until the daemon is back or the
 * agent stops. Call it before a result is handed in, so that the job's log is complete: afterwards the daemon
 * accepts no more output. */
void pl_output_log_drain(struct pl_outlog *o, int64_t timeout_ms, bool patient);
