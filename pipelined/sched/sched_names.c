/* Names of events and actions, for traces. */
#include "pipelined/sched/sched.h"

#include "storage/base/base.h"

#include <stdio.h>

const char *pl_sched_event_name(enum pl_sched_event_kind kind)
{
    static const char *const names[] = {
        [PL_SCHED_EV_TICK] = "TICK",
        [PL_SCHED_EV_STAGE_SET] = "STAGE_SET",
        [PL_SCHED_EV_STAGE_SHAPES] = "STAGE_SHAPES",
        [PL_SCHED_EV_STAGE_REMOVED] = "STAGE_REMOVED",
        [PL_SCHED_EV_RUN] = "RUN",
        [PL_SCHED_EV_JOB_PLANNED] = "JOB_PLANNED",
        [PL_SCHED_EV_PLAN_FAILED] = "PLAN_FAILED",
        [PL_SCHED_EV_JOB_COMMITTED] = "JOB_COMMITTED",
        [PL_SCHED_EV_COMMIT_FAILED] = "COMMIT_FAILED",
        [PL_SCHED_EV_STOP_JOB] = "STOP_JOB",
        [PL_SCHED_EV_STOP_RUN] = "STOP_RUN",
        [PL_SCHED_EV_START_FAILED] = "START_FAILED",
        [PL_SCHED_EV_WORKER_ATTACHED] = "WORKER_ATTACHED",
        [PL_SCHED_EV_WORKER_NEXT] = "WORKER_NEXT",
        [PL_SCHED_EV_RENEW] = "RENEW",
        [PL_SCHED_EV_RESULT] = "RESULT",
        [PL_SCHED_EV_WORKER_EXITED] = "WORKER_EXITED",
        [PL_SCHED_EV_WORKER_PLACED] = "WORKER_PLACED",
        [PL_SCHED_EV_WORKER_WAITS] = "WORKER_WAITS",
        [PL_SCHED_EV_WORKER_NEEDS] = "WORKER_NEEDS",
        [PL_SCHED_EV_WORKER_RETIRE] = "WORKER_RETIRE",
        [PL_SCHED_EV_CAPACITY] = "CAPACITY",
        [PL_SCHED_EV_SHAPE] = "SHAPE",
        [PL_SCHED_EV_DRAIN] = "DRAIN",
        [PL_SCHED_EV_RESTORE_RUN] = "RESTORE_RUN",
        [PL_SCHED_EV_RESTORE_JOB] = "RESTORE_JOB",
        [PL_SCHED_EV_RESTORE_WORKER] = "RESTORE_WORKER",
        [PL_SCHED_EV_RESTORE_TASK] = "RESTORE_TASK",
        [PL_SCHED_EV_RESTORE_DONE] = "RESTORE_DONE",
    };

    return kind < PL_ARRAY_SIZE(names) ? names[kind] : "?";
}

static const char *action_name(enum pl_sched_action_kind kind)
{
    static const char *const names[] = {
        [PL_SCHED_RUN_STATE] = "RUN_STATE",
        [PL_SCHED_JOB_STATE] = "JOB_STATE",
        [PL_SCHED_PLAN] = "PLAN",
        [PL_SCHED_COMMIT] = "COMMIT",
        [PL_SCHED_START_WORKER] = "START_WORKER",
        [PL_SCHED_STOP_WORKER] = "STOP_WORKER",
        [PL_SCHED_LEASE] = "LEASE",
        [PL_SCHED_LEASE_LOST] = "LEASE_LOST",
        [PL_SCHED_CANCEL] = "CANCEL",
        [PL_SCHED_RETURNED] = "RETURNED",
        [PL_SCHED_RECALL] = "RECALL",
        [PL_SCHED_GIVE_UP] = "GIVE_UP",
        [PL_SCHED_RESULT] = "RESULT",
        [PL_SCHED_TIMER] = "TIMER",
        [PL_SCHED_CONTINUE] = "CONTINUE",
        [PL_SCHED_DRAINED] = "DRAINED",
    };

    return kind < PL_ARRAY_SIZE(names) ? names[kind] : "?";
}

const char *pl_sched_action_text(const struct pl_sched_action *a, char out[PL_SCHED_ACTION_TEXT])
{
    const char *name = action_name(a->kind);
    const size_t size = PL_SCHED_ACTION_TEXT;

    switch (a->kind) {
    case PL_SCHED_RUN_STATE:
        snprintf(out, size, "%s run %s state %d", name, a->run.id, a->run.state);
        break;
    case PL_SCHED_JOB_STATE:
    case PL_SCHED_PLAN:
    case PL_SCHED_COMMIT:
        snprintf(out, size, "%s job %llu state %d %s", name, (unsigned long long)a->job.id, a->job.state,
                 a->job.reason ? a->job.reason : "");
        break;
    case PL_SCHED_START_WORKER:
    case PL_SCHED_STOP_WORKER:
        snprintf(out, size, "%s worker %llu", name, (unsigned long long)a->worker.id);
        break;
    case PL_SCHED_LEASE:
    case PL_SCHED_LEASE_LOST:
    case PL_SCHED_CANCEL:
    case PL_SCHED_RETURNED:
    case PL_SCHED_RECALL:
        snprintf(out, size, "%s worker %llu task %llu fence %llu", name, (unsigned long long)a->lease.worker,
                 (unsigned long long)a->lease.task, (unsigned long long)a->lease.fence);
        break;
    default:
        snprintf(out, size, "%s", name);
    }
    return out;
}
