/* outage: notices that the API server, or the right to use it, is gone, and that it is back. Each is logged once, and told by
 * an Event where one can be written; meanwhile the reason is shown by `status` and /readyz. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

/* number of ticks in a row after which a reason counts as an outage; a single failed request is none */
#define TICKS 2

bool pl_kube_is_right(enum pl_kube_verdict verdict)
{
    return verdict == PL_KUBE_DENIED || verdict == PL_KUBE_LOGIN;
}

void pl_kube_watch_problem(const struct kube *k, char out[PL_POD_WHY_BYTES])
{
    const char *name = pl_kube_client_name(k->client);
    char problem[PL_POD_WHY_BYTES] = "";

    pl_loop_informer_problem(k->pods_feed, problem, sizeof problem);
    if (*problem && strncmp(problem, name, strlen(name)) != 0)
        snprintf(out, PL_POD_WHY_BYTES, "%.200s: %.400s", name, problem);
    else /* the text of a lost connection names the server already */
        snprintf(out, PL_POD_WHY_BYTES, "%s", problem);
}

/* Writes why pods can be neither made nor watched; "" if they can. Sets `*ret_right` if it is a lack of rights to
 * create pods. */
static void reason(struct kube *k, char out[PL_POD_WHY_BYTES], bool *ret_right)
{
    const struct kpod *p;

    *ret_right = false;
    if (!k->cluster) {
        snprintf(out, PL_POD_WHY_BYTES, "%s", k->away);
        return;
    }
    pl_kube_watch_problem(k, out);
    TAILQ_FOREACH(p, &k->parked, parked_link)
    {
        if (*out || !pl_kube_is_right(p->parked_by))
            continue;
        snprintf(out, PL_POD_WHY_BYTES, "%.200s: %.400s", pl_kube_client_name(k->client), p->why);
        *ret_right = true;
    }
}

/* Classifies the reason for those who may not read it. */
static int code_of(const char *text)
{
    return strstr(text, " is forbidden: ") || strstr(text, "Unauthorized") ? PL_EFORBIDDEN : PL_EUNAVAILABLE;
}

bool pl_kube_is_away(const struct kube *k)
{
    return k->outage.ticks > 0 && code_of(k->outage.text) != PL_EFORBIDDEN;
}

/* Returns true if a pod that was refused for a lack of rights is being tried again: its answer is not known yet. */
static bool is_tried_again(const struct kube *k)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&k->pods, &i));) {
        const struct kpod *p = slot->value;

        if ((p->step == KPOD_MAKING || p->step == KPOD_MAKING_CLAIM) && p->parked > 0 && pl_kube_is_right(p->parked_by))
            return true;
    }
    return false;
}

/* Tells by an Event that it is over, which is the first time at which one can be written. */
static void tell_over(struct kube *k, const char *took)
{
    const struct kube_outage *o = &k->outage;
    const bool by_right = code_of(o->text) == PL_EFORBIDDEN;
    char text[PL_POD_WHY_BYTES + 100];

    snprintf(text, sizeof text, "the API server could not be used for %s: %s", took, o->text);
    if (by_right)
        k->owner_events_off = false; /* the right to create Events may be there again, too */
    pl_owner_event(k, by_right ? "RightRegained" : "ClusterUnreachable", !by_right, text);
}

void pl_kube_outage_look(struct kube *k)
{
    struct kube_outage *o = &k->outage;
    char text[PL_POD_WHY_BYTES], took[32];
    bool right, over;

    reason(k, text, &right);
    if (!*text && o->ticks && o->right && !o->granted && is_tried_again(k))
        return;
    if (*text) {
        o->right = right;
        o->granted = false;
        snprintf(o->text, sizeof o->text, "%s", text);
        if (o->ticks++ == 0)
            o->since_us = pl_clock_wall_us();
        if (o->ticks == TICKS && k->cluster) { /* discovery logs it if the server never answered */
            pl_log_warn("kubernetes", "%s; running workers go on; no worker can be started or watched until this has passed",
                        o->text);
            if (code_of(o->text) == PL_EFORBIDDEN)
                pl_owner_event(k, "RightLost", true, o->text);
        }
        return;
    }
    /* a lack of rights may also end because no worker is to be started any more: then nothing is known of it */
    over = o->ticks >= TICKS && (!o->right || o->granted);
    if (over)
        pl_log_warn("kubernetes", "%s can be used again, after %s", pl_kube_client_name(k->client),
                    pl_duration_text((pl_clock_wall_us() - o->since_us) / 1000, took));
    o->ticks = 0;
    if (over)
        tell_over(k, took);
}

bool pl_kube_outage(struct pl_executor *x, struct pl_executor_outage *ret)
{
    const struct kube_outage *o = &((const struct kube *)x)->outage;

    if (o->ticks < TICKS)
        return false;
    *ret = (struct pl_executor_outage){o->text, code_of(o->text), o->since_us};
    return true;
}
