/* owner_object.c: the ConfigMap that owns the pods (setting kubernetes.owner). If its namespace was deleted
 * and created again, the ConfigMap has a new uid, and the cluster would at once delete pods that name the old
 * one as their owner. So the ConfigMap is read again whenever it may have been deleted. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "pipelined/text/json_text.h"
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
}
