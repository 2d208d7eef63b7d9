/* pod_poll.c: a queue of pods for each of which one GET request must be sent to the API server. Sends one
 * request at a time, and at most PL_POD_TURNS between two timer ticks. */
#include "pipelined/exec/kubernetes/worker_pod.h"

struct kturn_ask {
    struct kturns *turns; /* NULL: the executor was destroyed */
    struct pl_loop *loop;
    uint64_t id; /* id of the pod's worker */
    struct pl_kube_call call;
    char path[PL_POD_POLL_PATH_MAX];
    struct pl_loop_work work;
};

static void next(struct kturns *t);

static void on_answered(void *arg)
{
    struct kturn_ask *ask = arg;
    struct kturns *t = ask->turns;
    struct kpod *p = t ? pl_map_get(&t->kube->pods, &ask->id, sizeof ask->id) : NULL;

    if (t) {
        t->ask = NULL;
        t->kind->take(t->kube, p && p->step == KPOD_THERE ? p : NULL, &ask->call);
    }
    pl_kube_call_finish(&ask->call);
    free(ask);
    if (t)
        next(t);
}

static void on_answer(struct pl_kube_call *call)
{
    struct kturn_ask *ask = call->arg;

    pl_loop_post_work(ask->loop, &ask->work, "kube.turn", on_answered, ask);
}

static void ask_about(struct kturns *t, struct kpod *p)
{
    struct kturn_ask *ask = calloc(1, sizeof *ask);

    if (!ask)
        return; /* without memory the pod stays queued, and the next timer tick tries again */
    *ask = (struct kturn_ask){.turns = t, .loop = t->kube->loop, .id = p->id};
    t->kind->path(p, ask->path);
    ask->call = (struct pl_kube_call){
        .method = "GET", .path = ask->path, .once = true, .deadline_ms = PL_POD_POLL_MS, .done = on_answer, .arg = ask};
    t->ask = ask;
    t->left--;
    pl_kube_client_start(t->kube->client, &ask->call);
}

static void next(struct kturns *t)
{
    struct kpod *p;

    while (!t->ask && t->left > 0 && (p = TAILQ_FIRST(&t->waiting))) {
        pl_worker_pod_leave_turns(p);
        if (p->step == KPOD_THERE && t->kind->begin(p))
            ask_about(t, p);
    }
}

void pl_pod_poll_init(struct kturns *t, struct kube *k, const struct kturns_kind *kind)
{
    *t = (struct kturns){.kube = k, .kind = kind};
    TAILQ_INIT(&t->waiting);
}

void pl_pod_poll_look(struct kturns *t)
{
    t->left = PL_POD_TURNS;
    next(t);
}

void pl_pod_poll_wait(struct kturns *t, struct kpod *p)
{
    if (p->turns == t)
        return;
    pl_worker_pod_leave_turns(p);
    TAILQ_INSERT_TAIL(&t->waiting, p, turn_link);
    p->turns = t;
    next(t);
}

void pl_worker_pod_leave_turns(struct kpod *p)
{
    if (p->turns)
        TAILQ_REMOVE(&p->turns->waiting, p, turn_link);
    p->turns = NULL;
}

void pl_pod_poll_stop(struct kturns *t)
{
    if (t->ask)
        t->ask->turns = NULL;
    t->left = 0;
}
