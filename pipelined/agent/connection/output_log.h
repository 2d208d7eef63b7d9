/* outlog: output of commands and lines of metrics.jsonl on their way to the daemon, in order, by a thread of its own, so that no
 * command waits for the network. Output is sent PL_OUTPUT_LOG_FLUSH_MS after it was written or when PL_OUTPUT_LOG_SEND_BYTES have
 * gathered. While the daemon is away it is kept, up to a larger bound; at the bound the command waits (its pipe fills).
 *
 * What the daemon refuses for good (the task is over) is dropped with a line in the agent's own log. */
#pragma once

#include "pipelined/agent/connection/task_lease.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

#define PL_OUTPUT_LOG_FLUSH_MS   150
#define PL_OUTPUT_LOG_SEND_BYTES (256u << 10)
#define PL_OUTPUT_LOG_MAX        (4u << 20)  /* kept while the daemon answers */
#define PL_OUTPUT_LOG_AWAY_MAX   (64u << 20) /* kept while it does not */

struct pl_outlog;

/* Whose output it is: one attempt at one datum. */
struct pl_output_log_source {
    const struct pl_agent_protocol_lease *lease;
    const char *datum; /* 64 hex */
    uint32_t index;
    uint32_t attempt;
};

PL_MUST_CHECK
int pl_output_log_create(struct pl_uplink *link, struct pl_lease *lease, const char *worker, const atomic_bool *stopping,
                         struct pl_outlog **ret, struct pl_err *err);
/* For a worker without a daemon: output is written to `fd` as it comes, by the caller's thread; metrics go nowhere. */
PL_MUST_CHECK
int pl_output_log_create_print(int fd, struct pl_outlog **ret, struct pl_err *err);
/* Waits for what is under way; the rest is dropped. */
struct pl_outlog *pl_output_log_destroy(struct pl_outlog *o);

/* `n` bytes of output at `offset` of this attempt. Waits at the bound, but not once the agent is stopping. */
void pl_output_log_add(struct pl_outlog *o, const struct pl_output_log_source *source, uint64_t offset, const uint8_t *data,
                       size_t n);
/* Lines of metrics.jsonl, with their newlines; `first`: how many of this attempt came before. A daemon that gets them twice knows them by
 * that. */
void pl_output_log_metrics(struct pl_outlog *o, const struct pl_output_log_source *source, uint64_t first, const char *lines,
                           size_t n);
/* Sends all that is there without waiting for the flush time, and waits for it for at most `timeout_ms`. While the daemon is away:
 * gives up at once, or (`patient`) waits until it is back, is given up, or the agent is stopping. So that a job's log is whole when
 * its result is in: after that the daemon takes no more of it. */
void pl_output_log_drain(struct pl_outlog *o, int64_t timeout_ms, bool patient);
