/* Pods that a queue of Kueue holds back: why, is in the Workload that Kueue made for them. It is asked for, of one pod at a time and now and then,
 * where that may be read; where it may not, the pod's gate is all that is told. */
#include "pipelined/exec/pods.h"

#include "pipelined/kube/workload.h"
#include "storage/base/clock.h"

#define ASK_MS    10000  /* that the answer may take */
#define AGAIN_MS  15000  /* of one pod */
#define DENIED_MS 600000 /* until it is asked again whether it may be read */

struct kube_queue_ask {
    struct kube *kube; /* NULL: nobody wants to know any more */
    struct pl_loop *loop;
    uint64_t id; /* the pod's worker */
    struct pl_kube_call call;
    char path[PL_WORKLOAD_PATH_MAX];
    struct pl_loop_work work;
};

static void take(struct kpod *p, const struct pl_kube_call *call)
{
    json_t *list = json_loadb((const char *)call->reply.data, call->reply.len, JSON_ALLOW_NUL, NULL);
    char words[PL_POD_QUEUE_SAYS_BYTES];

    pl_workload_words(list, words, sizeof words);
    json_decref(list);
    free(p->queue_says);
    p->queue_says = *words ? strdup(words) : NULL;
    pl_kpod_look(p);
}

static void on_answered(void *arg)
{
    struct kube_queue_ask *ask = arg;
    const struct pl_kube_call *call = &ask->call;
    struct kube *k = ask->kube;
    struct kpod *p = k ? pl_map_get(&k->pods, &ask->id, sizeof ask->id) : NULL;

    if (k)
        k->queue_ask = NULL;
    if (k && (call->verdict == PL_KUBE_DENIED || call->verdict == PL_KUBE_GONE)) /* GONE: no Kueue */
        k->queue_ms = pl_clock_mono_ms() + DENIED_MS;
    if (p && p->step == KPOD_THERE && call->err.code == 0)
        take(p, call);
    pl_kube_call_finish(&ask->call);
    free(ask);
}

static void on_answer(struct pl_kube_call *call)
{
    struct kube_queue_ask *ask = call->arg;

    pl_loop_post_work(ask->loop, &ask->work, "kube.queue", on_answered, ask);
}

void pl_kpod_look_queue(struct kpod *p)
{
    const int64_t now_ms = pl_clock_mono_ms();
    struct kube *k = p->kube;
    struct kube_queue_ask *ask;

    if (p->queue_ms == 0)
        p->queue_ms = now_ms + PL_POD_QUEUED_MS;
    if (now_ms < p->queue_ms || now_ms < k->queue_ms || k->queue_ask || !p->id)
        return;
    ask = calloc(1, sizeof *ask);
    if (!ask)
        return; /* at the next look */
    p->queue_ms = now_ms + AGAIN_MS;
    *ask = (struct kube_queue_ask){.kube = k, .loop = k->loop, .id = p->id};
    pl_workload_path(k->space, p->uid, ask->path);
    ask->call = (struct pl_kube_call){
        .method = "GET", .path = ask->path, .once = true, .deadline_ms = ASK_MS, .done = on_answer, .arg = ask};
    k->queue_ask = ask;
    pl_kube_client_start(k->client, &ask->call);
}

void pl_kube_queue_stop(struct kube *k)
{
    if (k->queue_ask)
        k->queue_ask->kube = NULL;
}
