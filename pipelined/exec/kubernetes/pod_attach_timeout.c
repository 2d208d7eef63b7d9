/* pod_attach_timeout.c: handles pods whose containers run but whose agent has not attached. The last lines
 * that the agent printed usually say why; they are reported as the reason why the worker waits. Pods whose
 * agent has attached cause no work. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "pipelined/kube/pod_state/log_tail.h"
#include "storage/base/clock.h"

#include <stdio.h>

#define LINE_BYTES 320u /* how many bytes of the agent's output are reported */

void pl_worker_pod_is_up(struct kpod *p, const char *node)
{
    p->up = true;
    p->came = !p->kube->events.has_come || !p->id;
    p->silent_ms = pl_clock_mono_ms() + PL_POD_ATTACH_TIMEOUT_MS;
    if (!p->came)
        p->node = strdup(node);
}

/* Returns true if the agent has attached; in that case also frees the node name that was kept for the
 * reports. */
static bool has_come(struct kpod *p)
{
    p->came = p->came || p->kube->events.has_come(p->kube->events.self, p->id);
    if (p->came)
        free(TAKE_PTR(p->node));
    return p->came;
}

static void tell(struct kpod *p, const char *mark, const char *words)
{
    struct kube *k = p->kube;
    char why[PL_POD_WHY_BYTES];

    snprintf(why, sizeof why, "pod %s runs on node %.100s, but its agent has not connected%s%s", p->name, p->node ? p->node : "?",
             mark, words);
    if (pl_streq(why, p->why))
        return;
    snprintf(p->why, sizeof p->why, "%s", why);
    k->events.waits(k->events.self, p->id, p->why);
}

static void take(struct kube *k, struct kpod *p, const struct pl_kube_call *call)
{
    char line[LINE_BYTES] = "";

    (void)k;
    if (!p || !p->up || p->stop || has_come(p))
        return;
    if (call->err.code == 0)
        pl_log_tail((const char *)call->reply.data, call->reply.len, false, line, sizeof line);
    if (call->err.code < 0)
        tell(p, ", and its log cannot be read: ", call->err.msg);
    else if (*line)
        tell(p, ": ", line);
    else
        tell(p, ", and has printed nothing", "");
}

static bool begin(struct kpod *p)
{
    if (!p->up || p->stop || has_come(p))
        return false;
    p->silent_ms = pl_clock_mono_ms() + PL_POD_ATTACH_TIMEOUT_REPEAT_MS;
    return true;
}

static void path(const struct kpod *p, char ret[PL_POD_POLL_PATH_MAX])
{
    snprintf(ret, PL_POD_POLL_PATH_MAX, "%s/%s/log?container=agent&tailLines=5&limitBytes=65536", p->kube->pods_path, p->name);
}

const struct kturns_kind pl_kturns_silent = {begin, path, take};

void pl_pod_attach_timeout_check(struct kpod *p)
{
    struct kube *k = p->kube;

    if (p->came || p->step != KPOD_THERE || pl_clock_mono_ms() < p->silent_ms || has_come(p))
        return;
    if (pl_cluster_may(k->cluster, PL_KUBE_MAY_LOGS))
        pl_pod_poll_wait(&k->silent, p);
    else
        tell(p, ", and the daemon's account may not read its log (pods/log: get)", "");
}
