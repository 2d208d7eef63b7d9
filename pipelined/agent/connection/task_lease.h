/* task_lease: the tasks that this worker holds under a lease. A thread renews the leases every renew_ms. The
 * daemon holds each renewal open and answers at once when it takes back a task or a datum. The renewing
 * thread records this and wakes the threads that fetch, compute or upload.
 *
 *   attach ──▶ next ──task──▶ (the task's datums run; lease renewed) ──▶ hand_in
 *              │end
 *              ▼
 *
 * Several tasks are held at once: inputs of one are fetched, one computes, one is handed in.
 *
 * When another worker is idle, the daemon may request datums ("rows") of a task back: those that have not
 * begun are given back, the others continue. When the daemon does not know the worker (404, after a restart),
 * the worker attaches again and reports what it holds. A lease that the daemon declares lost ends its task. A
 * daemon that does not answer does not end a task (see pl_daemon_client_retry). Call attach first; then one
 * thread calls next, one thread calls hand_in, and the other functions may be called from any thread. */
#pragma once

#include "pipelined/agent/connection/daemon_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

#define PL_TASK_LEASE_POLL_MS 25000 /* how long one call of next waits for a task */
/* maximum number of held tasks: one whose inputs are fetched, one that computes, one that is handed in */
#define PL_TASK_LEASE_TASKS_MAX 3

struct pl_lease;

struct pl_task_lease_config {
    struct pl_uplink *link;
    const char *worker;
    const char *incarnation;
    const char *image; /* digest of the image in which commands run; NULL = none, or the daemon knows it */
    /* Called when the daemon took back a task or some of its datums, or told the worker to stop;
     * pl_task_lease_wants then returns what the daemon wants. Called on the renewing thread or inside
     * pl_task_lease_next. */
    void (*wake)(void *self);
    /* Called on the renewing thread when other workers are idle: gives back the datums of the task with
     * lease `task` that have not begun. Result and parameters are those of pl_datum_flow_recall. */
    uint32_t *(*recall)(void *self, const struct pl_agent_protocol_lease *task, size_t *ret_n, bool *ret_whole);
    void *self;
};

/* Creates the object without contacting the daemon. The strings of `config` are borrowed. PL_ENOMEM. */
PL_MUST_CHECK
int pl_task_lease_create(const struct pl_task_lease_config *config, struct pl_lease **ret, struct pl_err *err);
/* Ends the renewing thread and frees the object. */
struct pl_lease *pl_task_lease_destroy(struct pl_lease *l);

/* Attaches the worker to the daemon, retrying while the daemon is away, and starts the renewing thread.
 * `*ret` must be released with pl_agent_protocol_attach_finish. */
PL_MUST_CHECK
int pl_task_lease_attach(struct pl_lease *l, struct pl_agent_protocol_attach *ret, struct pl_err *err);

/* Asks for a task and waits for at most PL_TASK_LEASE_POLL_MS. Must not be called while
 * PL_TASK_LEASE_TASKS_MAX tasks are held. PL_WIRE_END while tasks are held: their results are no longer
 * wanted (PL_TASK_LEASE_STOP). Errors: the daemon has been away for too long, it refuses this worker, or the
 * agent is stopping (PL_ECANCELED). */
PL_MUST_CHECK
int pl_task_lease_next(struct pl_lease *l, enum pl_agent_protocol_next_kind *ret_kind, struct pl_agent_protocol_task *ret_task,
                       struct pl_err *err);
/* Hands in the result of a held task and releases the task. Retries until the daemon has answered. `leaving`:
 * the agent was told to stop. If the lease was lost, the result is dropped, because the result of another
 * worker counts. Errors as for pl_task_lease_next, but a stopping agent does not end the call. */
PL_MUST_CHECK
int pl_task_lease_hand_in(struct pl_lease *l, const struct pl_agent_protocol_lease *task,
                          const struct pl_agent_protocol_outcome *outcomes, size_t n, bool leaving, struct pl_err *err);

/* Instruction of the daemon to this worker about a datum of a task. */
enum pl_task_lease_want {
    PL_TASK_LEASE_GO_ON,
    PL_TASK_LEASE_ABANDON, /* stop this datum; its result is no longer wanted */
    PL_TASK_LEASE_LOST,    /* stop the task; it belongs to another worker now */
    PL_TASK_LEASE_STOP,    /* stop the worker and give back what it has not finished */
};
/* True if this worker still holds the task: its result has not been handed in and the daemon has not taken it
 * back. */
bool pl_task_lease_holds(struct pl_lease *l, const struct pl_agent_protocol_lease *lease);
/* Returns what the daemon wants done with datum `index` of the task. If `l` is NULL (a worker without a
 * daemon), returns PL_TASK_LEASE_GO_ON. */
enum pl_task_lease_want pl_task_lease_wants(struct pl_lease *l, const struct pl_agent_protocol_lease *task, uint32_t index);
/* True if the daemon told the worker to stop. */
bool pl_task_lease_stops(struct pl_lease *l);
