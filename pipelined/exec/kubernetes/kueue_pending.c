/* kueue_pending.c: finds out why a Kueue queue holds a pod back. The reason is in the Workload object that
 * Kueue made for the pod; it is read at intervals if the account may read Workloads. Otherwise only the pod's
 * scheduling gate is reported. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "pipelined/kube/pod_state/kueue_workload.h"
#include "storage/base/clock.h"

#define AGAIN_MS 15000 /* interval between two reads of the Workload of one pod */
/* pause after Workloads could not be read, because the account may not or because Kueue is not installed */
#define DENIED_MS 600000

_Static_assert(PL_KUEUE_WORKLOAD_PATH_MAX <= PL_POD_POLL_PATH_MAX, "paths of Workloads fit");

static void take(struct kube *k, struct kpod *p, const struct pl_kube_call *call)
{
    char words[PL_POD_QUEUE_REASON_BYTES];
    json_t *list;

    /* PL_KUBE_GONE: Kueue is not installed */
    if (call->verdict == PL_KUBE_DENIED || call->verdict == PL_KUBE_GONE)
        k->queue_ms = pl_clock_mono_ms() + DENIED_MS;
    if (!p || call->err.code < 0)
        return;
    list = json_loadb((const char *)call->reply.data, call->reply.len, JSON_ALLOW_NUL, NULL);
    pl_kueue_workload_reason(list, words, sizeof words);
    json_decref(list);
    free(p->queue_says);
    p->queue_says = *words ? strdup(words) : NULL;
    pl_worker_pod_tick(p);
}

static bool begin(struct kpod *p)
{
    const int64_t now_ms = pl_clock_mono_ms();

    if (p->up || now_ms < p->kube->queue_ms)
        return false;
    p->queue_ms = now_ms + AGAIN_MS;
    return true;
}

static void path(const struct kpod *p, char ret[PL_POD_POLL_PATH_MAX])
{
    pl_kueue_workload_path(p->kube->space, p->uid, ret);
}

const struct kturns_kind pl_kturns_queued = {begin, path, take};

void pl_kueue_pending_check(struct kpod *p)
{
    const int64_t now_ms = pl_clock_mono_ms();
    struct kube *k = p->kube;

    if (p->queue_ms == 0)
        p->queue_ms = now_ms + PL_POD_QUEUED_MS;
    if (now_ms >= p->queue_ms && now_ms >= k->queue_ms && p->id)
        pl_pod_poll_wait(&k->queued, p);
}
