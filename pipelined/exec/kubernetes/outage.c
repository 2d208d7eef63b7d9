/* outage: notices that the API server, or the right to use it, is gone, and that it is back. Each is logged once;
 * meanwhile the reason is shown by `status` and /readyz. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

/* in so many ticks of the timer in a row the reason must be there: one request in a row may fail */
#define TICKS 2

/* Writes why pods can be neither made nor watched; "" if they can. */
static void reason(struct kube *k, char out[PL_POD_WHY_BYTES])
{
    char problem[PL_POD_WHY_BYTES] = "";
    const struct kpod *p;

    *out = '\0';
    if (!k->cluster) {
        snprintf(out, PL_POD_WHY_BYTES, "%s", k->away);
        return;
    }
    pl_loop_informer_problem(k->pods_feed, problem, sizeof problem);
    TAILQ_FOREACH(p, &k->parked, parked_link)
    {
        if (*problem || (p->parked_by != PL_KUBE_DENIED && p->parked_by != PL_KUBE_LOGIN))
            continue;
        snprintf(problem, sizeof problem, "%s", p->why);
    }
    if (*problem)
        snprintf(out, PL_POD_WHY_BYTES, "%.200s: %.400s", pl_kube_client_name(k->client), problem);
}

/* Classifies the reason for those who may not read it. */
static int code_of(const char *text)
{
    return strstr(text, " is forbidden: ") || strstr(text, "Unauthorized") ? PL_EFORBIDDEN : PL_EUNAVAILABLE;
}

void pl_kube_outage_look(struct kube *k)
{
    struct kube_outage *o = &k->outage;
    char text[PL_POD_WHY_BYTES], took[32];

    reason(k, text);
    if (*text) {
        snprintf(o->text, sizeof o->text, "%s", text);
        if (o->ticks++ == 0)
            o->since_us = pl_clock_wall_us();
        if (o->ticks == TICKS && k->cluster) /* discovery logs it if the server never answered */
            pl_log_warn("kubernetes", "%s; workers that run go on, but no pod is made, seen or removed until this has passed",
                        o->text);
        return;
    }
    if (o->ticks >= TICKS)
        pl_log_warn("kubernetes", "%s can be used again, after %s", pl_kube_client_name(k->client),
                    pl_duration_text((pl_clock_wall_us() - o->since_us) / 1000, took));
    o->ticks = 0;
}

bool pl_kube_outage(struct pl_executor *x, struct pl_executor_outage *ret)
{
    const struct kube_outage *o = &((const struct kube *)x)->outage;

    if (o->ticks < TICKS)
        return false;
    *ret = (struct pl_executor_outage){o->text, code_of(o->text), o->since_us};
    return true;
}
