/* lease: the tasks that this worker holds, kept alive and handed in. A thread renews every renew_ms; meanwhile the daemon holds the renewal and
 * answers it at once when it takes something back: that is noted here, and whoever fetches, computes or uploads is woken.
 *
 *   attach ──▶ ask ──task──▶ (its datums; renewed) ──▶ hand_in        several tasks at once: one is fetched for, one computes, one is
 *              │end                                                    handed in
 *              ▼
 *
 * Rows that the daemon wants for a worker that has none are given back as they are, when they have not been begun; the rest goes on.
 * An unknown worker (404: the daemon was restarted) attaches again with what it holds. A lease that the daemon says is lost ends
 * its task; a daemon that does not answer does not (pl_daemon_client_retry). attach comes first; then one thread asks, one hands in, and the
 * others may be called from any. */
#pragma once

#include "pipelined/agent/connection/daemon_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

#define PL_TASK_LEASE_POLL_MS   25000 /* of ask */
#define PL_TASK_LEASE_TASKS_MAX 3     /* held at once: fetched for, computing, handed in */

struct pl_lease;

struct pl_task_lease_config {
    struct pl_uplink *link;
    const char *worker;
    const char *incarnation;
    void (*wake)(void *self); /* something was taken back: look at pl_task_lease_wants */
    /* Others are idle: which rows of that task have not been begun, as pl_datum_flow_recall says. On the renewing thread. */
    uint32_t *(*recall)(void *self, const struct pl_agent_protocol_lease *task, size_t *ret_n, bool *ret_whole);
    void *self;
};

PL_MUST_CHECK
int pl_task_lease_create(const struct pl_task_lease_config *config, struct pl_lease **ret, struct pl_err *err);
struct pl_lease *pl_task_lease_destroy(struct pl_lease *l);

/* Attaches and starts the renewing thread. */
PL_MUST_CHECK
int pl_task_lease_attach(struct pl_lease *l, struct pl_agent_protocol_attach *ret, struct pl_err *err);

/* Asks for a task, for at most PL_TASK_LEASE_POLL_MS; never while PL_TASK_LEASE_TASKS_MAX are held. `end` while some are: they are not wanted any more
 * (PL_TASK_LEASE_STOP). Errors: the daemon has been away for too long, refuses this worker, or the agent is stopping (PL_ECANCELED). */
PL_MUST_CHECK
int pl_task_lease_next(struct pl_lease *l, enum pl_agent_protocol_next_kind *ret_kind, struct pl_agent_protocol_task *ret_task,
                       struct pl_err *err);
/* Hands in the result of a task held, again after each failure until the daemon has answered: it is held no longer. `leaving`: the agent
 * was told to end. When the lease was lost the result is dropped: that of another worker counts. Errors as of ask, but it goes on while
 * the agent is stopping. */
PL_MUST_CHECK
int pl_task_lease_hand_in(struct pl_lease *l, const struct pl_agent_protocol_lease *task,
                          const struct pl_agent_protocol_outcome *outcomes, size_t n, bool leaving, struct pl_err *err);

enum pl_task_lease_want {
    PL_TASK_LEASE_GO_ON,
    PL_TASK_LEASE_ABANDON, /* this datum is not wanted any more */
    PL_TASK_LEASE_LOST,    /* the task belongs to another worker */
    PL_TASK_LEASE_STOP,    /* the worker shall end, giving back what it has not finished */
};
/* Is this task ours still? Its result has not been handed in, and the daemon has not taken it back. */
bool pl_task_lease_holds(struct pl_lease *l, const struct pl_agent_protocol_lease *lease);
/* What the daemon wants of row `index` of that task. Without a lease (NULL): that it goes on. */
enum pl_task_lease_want pl_task_lease_wants(struct pl_lease *l, const struct pl_agent_protocol_lease *task, uint32_t index);
/* Was the worker told to end? */
bool pl_task_lease_stops(struct pl_lease *l);
