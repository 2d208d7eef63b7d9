/* cluster_discovery.c: learns what the executor must know about the cluster before it can make pods. The
 * first attempt runs when the daemon starts; if the API server is unreachable, a thread repeats it until the
 * server answers, and the daemon does everything else meanwhile. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

#define KNOCK_MS      5000 /* time within which a reachable server answers */
#define AGAIN_MS      1000 /* first pause between attempts; doubles up to AGAIN_MOST_MS */
#define AGAIN_MOST_MS 10000

struct kube_learning {
    struct kube *kube; /* NULL: the executor was destroyed, or has stopped the attempt */
    struct pl_loop *loop;
    struct pl_kube_client *client;
    struct pl_cluster *cluster;
    struct pl_project_secrets *secrets;
    char owner_uid[64];
    struct pl_err err; /* result of the attempt; code 0 = success */
    pthread_t thread;
    pthread_mutex_t lock;
    struct pl_kube_call *knock; /* under `lock`: the request to /version in progress; NULL = none */
    struct pl_loop_work work;
};

/* Returns true if the error means that the server is unreachable, rather than that it refuses the daemon. */
static bool is_away(int code)
{
    return code == PL_ENET || code == PL_ETIMEOUT || code == PL_EBUSY;
}

/* ---- one attempt: runs on any thread; reads only the members of `kube` that never change ---- */

static void set_knock(struct kube_learning *l, struct pl_kube_call *call)
{
    pthread_mutex_lock(&l->lock);
    l->knock = call;
    pthread_mutex_unlock(&l->lock);
}

/* Tests whether a server answers and accepts our credentials. A response that the path /version is forbidden,
 * rejected or not found also counts as success, because it comes from a server that can be reached. */
static int knock(struct kube_learning *l)
{
    struct pl_kube_call call = {.method = "GET", .path = "/version", .once = true, .deadline_ms = KNOCK_MS};
    int r;

    set_knock(l, &call);
    r = pl_kube_client_run(l->client, &call, &l->err);
    set_knock(l, NULL);
    if (call.verdict == PL_KUBE_DENIED || call.verdict == PL_KUBE_REFUSED || call.verdict == PL_KUBE_GONE)
        r = 0;
    pl_kube_call_finish(&call);
    return r;
}

/* Finds the uid of the ConfigMap that owns the pods (setting kubernetes.owner). */
static int find_owner(struct kube_learning *l)
{
    _cleanup_(json_decrefp) json_t *object = NULL;
    const struct kube *k = l->kube;
    char path[600];
    int r;

    if (!k->settings->owner_name)
        return 0;
    pl_owner_object_path(k, path);
    r = pl_kube_client_get(l->client, path, &object, &l->err);
    if (r < 0)
        return pl_err_wrap(&l->err, r, "kubernetes.owner: ConfigMap %s of namespace %s", k->settings->owner_name, k->space);
    snprintf(l->owner_uid, sizeof l->owner_uid, "%s", pl_json_str(json_object_get(object, "metadata"), "uid"));
    return 0;
}

static int find_secrets(struct kube_learning *l)
{
    const bool may_see = pl_cluster_may(l->cluster, PL_KUBE_MAY_SECRETS);
    const struct pl_project_secrets_config config = {.loop = l->loop,
                                                     .client = l->client,
                                                     .space = l->kube->space,
                                                     .store = l->kube->settings->store_id,
                                                     .may_see = may_see,
                                                     .may_keep = may_see && pl_cluster_may(l->cluster, PL_KUBE_MAY_KEEP_SECRETS),
                                                     .changed = pl_kube_on_secrets,
                                                     .self = l->kube};

    return pl_project_secrets_create(&config, &l->secrets, &l->err);
}

static int ask(struct kube_learning *l)
{
    int r = knock(l);

    r = r < 0 ? r : find_owner(l);
    r = r < 0 ? r : pl_cluster_ask(l->cluster, &l->err);
    r = r < 0 ? r : find_secrets(l);
    l->err.code = r;
    return r;
}

/* ---- starting and ending attempts: on the loop ---- */

static void let_go(struct kube_learning *l)
{
    l->secrets = pl_project_secrets_destroy(l->secrets);
    l->cluster = pl_cluster_destroy(l->cluster);
}

static struct kube_learning *finish(struct kube_learning *l)
{
    if (!l)
        return NULL;
    let_go(l);
    pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

/* Creates the state of an attempt; it is destroyed by finish(). */
static int make(struct kube *k, struct kube_learning **ret, struct pl_err *err)
{
    char seen[4096];
    const struct pl_cluster_config config = {.loop = k->loop,
                                             .client = k->client,
                                             .space = k->space,
                                             .store = k->settings->store_id,
                                             .gpu_shapes = k->gpu_shapes,
                                             .seen = k->data_dir ? seen : NULL,
                                             .changed = pl_kube_on_changed,
                                             .room = pl_kube_on_room,
                                             .self = k};
    struct kube_learning *l = calloc(1, sizeof *l);
    int r;

    if (!l)
        return pl_err_nomem(err);
    snprintf(seen, sizeof seen, "%s/nodes.json", k->data_dir ? k->data_dir : "");
    l->kube = k;
    l->loop = k->loop;
    l->client = k->client;
    pthread_mutex_init(&l->lock, NULL);
    r = pl_cluster_create(&config, &l->cluster, err);
    if (r < 0)
        finish(l);
    else
        *ret = l;
    return r;
}

/* Hands the results to the executor after a successful attempt, and begins to watch the cluster. */
static int take(struct kube *k, struct kube_learning *l, struct pl_err *err)
{
    int r;

    snprintf(k->owner_uid, sizeof k->owner_uid, "%s", l->owner_uid);
    k->cluster = l->cluster;
    r = pl_kube_begin(k, err);
    if (r < 0) {
        k->cluster = NULL;
        return r;
    }
    l->cluster = NULL;
    k->secrets = TAKE_PTR(l->secrets);
    k->facts = pl_kube_facts_number(k);
    pl_log_info("kubernetes", "workers are pods of namespace %s of %s", k->space, pl_kube_client_name(k->client));
    return 0;
}

/* Records that the server is unreachable and when to try again. If the reason differs from the last one, logs
 * it and returns true. */
static bool note_away(struct kube *k, const struct pl_err *err)
{
    const char *name = pl_kube_client_name(k->client);
    const bool named = strncmp(err->msg, name, strlen(name)) == 0;

    k->learn_ms = pl_clock_mono_ms() + PL_MIN(AGAIN_MOST_MS, (int64_t)AGAIN_MS << PL_MIN(k->learned, 5u));
    k->learned++;
    if (k->away_code == err->code)
        return false;
    k->away_code = err->code;
    snprintf(k->away, sizeof k->away, "%.200s%s%.400s", named ? "" : name, named ? "" : ": ", err->msg);
    pl_log_warn("kubernetes", "%s; the daemon continues without pods and retries until the API server answers", k->away);
    return true;
}

int pl_cluster_discovery(struct kube *k, struct pl_err *err)
{
    struct kube_learning *l;
    int r = make(k, &l, err);

    if (r < 0)
        return r;
    r = ask(l);
    if (r == 0) {
        r = take(k, l, err);
    } else if (is_away(r)) {
        (void)note_away(k, &l->err);
        r = 0;
    } else if (err) {
        *err = l->err;
    }
    finish(l);
    return r;
}

static void on_learned(void *arg)
{
    struct kube_learning *l = arg;
    struct kube *k = l->kube;
    struct pl_err err = l->err;

    if (k) {
        pthread_join(l->thread, NULL);
        k->learning = NULL;
        if (err.code == 0)
            err.code = take(k, l, &err);
        if (err.code == 0 || note_away(k, &err))
            k->events.reshape(k->events.self);
    }
    finish(l);
}

static void *run(void *arg)
{
    struct kube_learning *l = arg;

    (void)ask(l); /* the caller reads the error from l->err */
    pl_loop_post_work(l->loop, &l->work, "kube.learned", on_learned, l);
    return NULL;
}

void pl_cluster_discovery_tick(struct kube *k)
{
    struct kube_learning *l;

    if (k->cluster || k->learning || pl_clock_mono_ms() < k->learn_ms || make(k, &l, NULL) < 0)
        return;
    if (pthread_create(&l->thread, NULL, run, l) != 0)
        finish(l); /* the next tick tries again */
    else
        k->learning = l;
}

void pl_cluster_discovery_stop(struct kube *k)
{
    struct kube_learning *l = TAKE_PTR(k->learning);

    if (!l)
        return;
    pl_kube_client_close(k->client);
    pthread_mutex_lock(&l->lock);
    if (l->knock)
        pl_kube_client_cancel(k->client, l->knock);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    let_go(l);
    l->kube = NULL; /* on_learned frees the object in a later loop turn */
}
