/* Pods whose containers run, and whose agent has not come: what it printed last says why, and is told as what the pod waits for. One is asked
 * at a time; those that have come cost nothing. */
#include "pipelined/exec/pods.h"

#include "pipelined/kube/last_words.h"
#include "storage/base/clock.h"

#include <stdio.h>

#define ASK_MS     10000 /* that the answer may take */
#define LINE_BYTES 320u  /* of what it printed */

struct kube_silent_ask {
    struct kube *kube; /* NULL: nobody wants to know any more */
    struct pl_loop *loop;
    uint64_t id; /* the pod's worker */
    struct pl_kube_call call;
    char path[700];
    struct pl_loop_work work;
};

void pl_kpod_is_up(struct kpod *p, const char *node)
{
    p->up = true;
    p->came = !p->kube->events.has_come || !p->id;
    p->silent_ms = pl_clock_mono_ms() + PL_POD_SILENT_MS;
    if (!p->came)
        p->node = strdup(node);
}

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

    snprintf(why, sizeof why, "pod %s runs on node %.100s, but its agent has not come%s%s", p->name, p->node ? p->node : "?",
             mark, words);
    if (pl_streq(why, p->why))
        return;
    snprintf(p->why, sizeof p->why, "%s", why);
    k->events.waits(k->events.self, p->id, p->why);
}

static void tell_printed(struct kpod *p, const struct pl_kube_call *call)
{
    char line[LINE_BYTES] = "";

    if (call->err.code == 0)
        pl_last_words((const char *)call->reply.data, call->reply.len, false, line, sizeof line);
    if (call->err.code < 0)
        tell(p, ", and what it prints cannot be read: ", call->err.msg);
    else if (*line)
        tell(p, ": ", line);
    else
        tell(p, ", and has printed nothing", "");
}

static void on_answered(void *arg)
{
    struct kube_silent_ask *ask = arg;
    struct kube *k = ask->kube;
    struct kpod *p = k ? pl_map_get(&k->pods, &ask->id, sizeof ask->id) : NULL;

    if (k)
        k->silent_ask = NULL;
    if (p && p->up && p->step == KPOD_THERE && !p->stop && !has_come(p))
        tell_printed(p, &ask->call);
    pl_kube_call_finish(&ask->call);
    free(ask);
}

static void on_answer(struct pl_kube_call *call)
{
    struct kube_silent_ask *ask = call->arg;

    pl_loop_post_work(ask->loop, &ask->work, "kube.silent", on_answered, ask);
}

void pl_kpod_look_silent(struct kpod *p)
{
    const int64_t now_ms = pl_clock_mono_ms();
    struct kube *k = p->kube;
    struct kube_silent_ask *ask;

    if (p->came || p->step != KPOD_THERE || now_ms < p->silent_ms || has_come(p))
        return;
    if (!pl_cluster_may(k->cluster, PL_KUBE_MAY_LOGS)) {
        tell(p, ", and what it prints may not be read (pods/log: get)", "");
        return;
    }
    ask = k->silent_ask ? NULL : calloc(1, sizeof *ask);
    if (!ask)
        return; /* at the next look */
    p->silent_ms = now_ms + PL_POD_SILENT_AGAIN_MS;
    *ask = (struct kube_silent_ask){.kube = k, .loop = k->loop, .id = p->id};
    snprintf(ask->path, sizeof ask->path, "%s/%s/log?container=agent&tailLines=5&limitBytes=65536", k->pods_path, p->name);
    ask->call = (struct pl_kube_call){
        .method = "GET", .path = ask->path, .once = true, .deadline_ms = ASK_MS, .done = on_answer, .arg = ask};
    k->silent_ask = ask;
    pl_kube_client_start(k->client, &ask->call);
}

void pl_kube_silent_stop(struct kube *k)
{
    if (k->silent_ask)
        k->silent_ask->kube = NULL;
}
