/* owner_object.c: the ConfigMap that owns the pods (setting kubernetes.owner). If its namespace was deleted
 * and created again, the ConfigMap has a new uid, and the cluster would at once delete pods that name the old
 * one as their owner. So the ConfigMap is read again whenever it may have been deleted. Events about what
 * happened to workers, and to the API server, are written about this object. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

#define LOOK_MS 10000 /* time limit of the request */

struct kube_owner_look {
    struct kube *kube; /* NULL: the executor was destroyed */
    struct pl_loop *loop;
    struct pl_kube_call call;
    char path[600];
    struct pl_loop_work work;
};

struct kube_owner_event {
    struct kube *kube; /* NULL: the executor was destroyed */
    struct pl_loop *loop;
    struct pl_kube_call call;
    char path[300], *text;
    struct pl_loop_work work;
};

void pl_owner_object_path(const struct kube *k, char ret[600])
{
    snprintf(ret, 600, "/api/v1/namespaces/%.200s/configmaps/%.253s", k->space, k->settings->owner_name);
}

/* Stores the owner's uid; "" = the ConfigMap does not exist. */
static void know(struct kube *k, const char *uid)
{
    if (pl_streq(uid, k->owner_uid))
        return;
    if (*uid)
        pl_log_info("kubernetes", "ConfigMap %s of namespace %s was recreated: it owns the pods from now on",
                    k->settings->owner_name, k->space);
    else
        pl_log_warn("kubernetes", "ConfigMap %s of namespace %s was deleted: no pod is created until it exists again",
                    k->settings->owner_name, k->space);
    snprintf(k->owner_uid, sizeof k->owner_uid, "%s", uid);
    pl_kube_on_changed(k);
}

static void on_looked(void *arg)
{
    struct kube_owner_look *look = arg;
    const struct pl_kube_call *call = &look->call;
    _cleanup_(json_decrefp) json_t *object = NULL;
    struct kube *k = look->kube;

    if (k) {
        k->owner_look = NULL;
        if (call->err.code == 0)
            object = json_loadb((const char *)call->reply.data, call->reply.len, JSON_ALLOW_NUL, NULL);
        if (object || call->verdict == PL_KUBE_GONE)
            know(k, pl_json_str(json_object_get(object, "metadata"), "uid"));
        k->owner_doubt = !object;
        if (object)
            pl_worker_pods_try_all(k);
    }
    pl_kube_call_finish(&look->call);
    free(look);
}

static void on_answer(struct pl_kube_call *call)
{
    struct kube_owner_look *look = call->arg;

    pl_loop_post_work(look->loop, &look->work, "kube.owner", on_looked, look);
}

void pl_owner_object_recheck(struct kube *k)
{
    k->owner_doubt = k->settings->owner_name != NULL;
}

void pl_owner_object_read(struct kube *k)
{
    struct kube_owner_look *look = k->owner_doubt && !k->owner_look ? calloc(1, sizeof *look) : NULL;

    if (!look)
        return;
    k->owner_look = look;
    look->kube = k;
    look->loop = k->loop;
    pl_owner_object_path(k, look->path);
    look->call = (struct pl_kube_call){
        .method = "GET", .path = look->path, .once = true, .deadline_ms = LOOK_MS, .done = on_answer, .arg = look};
    pl_kube_client_start(k->client, &look->call);
}

void pl_owner_object_stop(struct kube *k)
{
    if (k->owner_look)
        k->owner_look->kube = NULL;
    if (k->owner_sending)
        k->owner_sending->kube = NULL;
}

/* ---- Events ---- */

/* True if Events may be written at some time. While the API server has not answered since the start, it is not known. */
static bool may_tell(const struct kube *k)
{
    return k->settings->owner_name && k->owner_events && !k->owner_events_off &&
           (!k->cluster || pl_cluster_may(k->cluster, PL_KUBE_MAY_WRITE_EVENTS));
}

static enum pl_kube_event_sent what_became_of(const struct pl_kube_call *call)
{
    /* EXISTS: the answer to an earlier try was lost */
    if (call->err.code == 0 || call->verdict == PL_KUBE_EXISTS)
        return PL_KUBE_EVENT_WRITTEN;
    return call->verdict == PL_KUBE_AGAIN ? PL_KUBE_EVENT_AGAIN : PL_KUBE_EVENT_REFUSED;
}

static void on_event_made(void *arg)
{
    struct kube_owner_event *event = arg;
    const struct pl_kube_call *call = &event->call;
    struct kube *k = event->kube;

    if (k) {
        k->owner_sending = NULL;
        if (call->verdict == PL_KUBE_DENIED) {
            k->owner_events_off = true;
            pl_log_info("kubernetes", "Events are not written any more: %s", call->err.msg);
        }
        pl_kube_events_sent(k->owner_events, what_became_of(call), pl_clock_mono_ms());
    }
    pl_kube_call_finish(&event->call);
    free(event->text);
    free(event);
    if (k)
        pl_owner_event_send(k);
}

static void on_event_answer(struct pl_kube_call *call)
{
    struct kube_owner_event *event = call->arg;

    pl_loop_post_work(event->loop, &event->work, "kube.event", on_event_made, event);
}

void pl_owner_event_send(struct kube *k)
{
    const struct pl_kube_event_object about = {"v1", "ConfigMap", k->space, k->settings->owner_name, k->owner_uid};
    const bool now = may_tell(k) && k->cluster && k->owner_uid[0] && !k->owner_sending && !pl_kube_is_away(k);
    struct kube_owner_event *event = now ? calloc(1, sizeof *event) : NULL;
    _cleanup_(json_decrefp) json_t *object = event ? pl_kube_events_next(k->owner_events, &about, pl_clock_mono_ms()) : NULL;

    if (!object) {
        free(event);
        return;
    }
    *event = (struct kube_owner_event){.kube = k, .loop = k->loop, .text = json_dumps(object, JSON_COMPACT)};
    if (!event->text) { /* no memory: the event is tried again */
        free(event);
        pl_kube_events_sent(k->owner_events, PL_KUBE_EVENT_AGAIN, pl_clock_mono_ms());
        return;
    }
    snprintf(event->path, sizeof event->path, "/api/v1/namespaces/%.200s/events", k->space);
    event->call = (struct pl_kube_call){.method = "POST",
                                        .path = event->path,
                                        .body = event->text,
                                        .body_len = strlen(event->text),
                                        .later = true,
                                        .once = true,
                                        .deadline_ms = LOOK_MS,
                                        .done = on_event_answer,
                                        .arg = event};
    k->owner_sending = event;
    pl_kube_client_start(k->client, &event->call);
}

void pl_owner_event(struct kube *k, const char *reason, bool warning, const char *message)
{
    if (!may_tell(k))
        return;
    pl_kube_events_note(k->owner_events, reason, warning, message, pl_clock_mono_ms(), pl_clock_wall_us());
    pl_owner_event_send(k);
}
