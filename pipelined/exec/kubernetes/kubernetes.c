/* kubernetes.c: the executor `kubernetes`: implements the operations of exec.h on top of worker_pod.h, and
 * dispatches the watched pods and events to the workers. kube/pod_state interprets the status of a pod;
 * kube/pod renders the pods. Everything except the client's callbacks runs on the loop. */
#include "pipelined/exec/kubernetes/kubernetes.h"

#include "pipelined/exec/kubernetes/worker_pod.h"
#include "pipelined/kube/client/kubeconfig.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <stdio.h>

#define POD_KEEP                                                                                                                 \
    "metadata{labels{pipelined.io/project pipelined.io/stage kueue.x-k8s.io/queue-name} "                                        \
    "annotations{pipelined.io/worker " PL_POD_NEEDS                                                                              \
    " kubernetes.io/limit-ranger ALIYUN_COM_GPU_MEM_IDX scheduler.framework.gpushare.allocation} deletionTimestamp} "            \
    "spec{nodeName schedulerName schedulingGates containers{name resources} volumes{ephemeral} " PL_CLUSTER_HOLDS_KEEP           \
    "} status"
#define EVENT_KEEP "involvedObject{uid} reason message type count firstTimestamp lastTimestamp eventTime series"

static struct kpod *pod_of(const struct kube *k, uint64_t id)
{
    return pl_map_get(&k->pods, &id, sizeof id);
}

/* ---- start, stop, adopt ---- */

static int kube_start(struct pl_executor *x, const struct pl_worker_spec *spec, struct pl_err *err)
{
    struct kube *k = (struct kube *)x;
    struct kpod *p;
    int r;

    if (!k->cluster)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s", k->away);
    p = pl_worker_pod_new(k, spec->id);
    if (!p)
        return pl_err_nomem(err);
    r = pl_worker_pod_order(p, spec, err);
    r = r < 0 ? r : pl_worker_pod_make(p, err);
    if (r < 0)
        pl_worker_pod_free(p);
    else
        k->events.started(k->events.self, spec->id, "", 0, 0);
    return r;
}

struct gone {
    struct kube *kube;
    uint64_t id;
};

/* Reports the end of an unknown worker in a later loop turn, because the caller of stop is still carrying out
 * a step. */
static void report_gone(void *arg)
{
    struct gone *g = arg;
    struct kube *k = g->kube;

    k->events.exited(k->events.self, g->id, &(struct pl_executor_end){.text = "it no longer exists"});
    free(g);
}

static void kube_stop(struct pl_executor *x, uint64_t id, bool kill)
{
    struct kube *k = (struct kube *)x;
    struct kpod *p = pod_of(k, id);
    struct gone *g;

    if (p) {
        pl_worker_pod_delete(p, kill);
        return;
    }
    g = malloc(sizeof *g);
    if (!g)
        return;
    *g = (struct gone){k, id};
    if (pl_loop_post(k->loop, "kube.gone", report_gone, g, NULL) < 0)
        free(g); /* without the report the engine repeats the stop */
}

static void kube_adopt(struct pl_executor *x, const struct pl_worker_spec *spec, int64_t pid, int64_t pid_start)
{
    struct kube *k = (struct kube *)x;
    struct kpod *p = pl_worker_pod_new(k, spec->id);

    (void)pid;
    (void)pid_start;
    if (!p)
        return;
    p->step = KPOD_THERE;
    p->adopted = true;
    if (!spec->def)
        return; /* the pod's name is not known: find() then identifies the pod by its worker's id */
    pl_pod_name(k->settings->store_id, spec->project, spec->stage, spec->version, (uint32_t)spec->id, (uint32_t)(spec->id >> 32),
                p->name);
    p->memory_bytes = spec->def->resources.memory_bytes;
    pl_pod_shape_take(p, pl_pod_shape_of(k, spec->project, spec->def, spec->version, spec->gpu));
}

/* ---- pods and events from the cluster ---- */

/* True if the pod's name ends as the pod of its annotated worker must ("…-<10 hex>-<index>-<incarnation>"). A
 * pod that was copied or made by hand may have our labels, but not the name. */
static bool is_named_for_worker(const json_t *metadata)
{
    const char *name = pl_json_str(metadata, "name"),
               *worker = pl_json_str(json_object_get(metadata, "annotations"), PL_POD_LABEL "worker");
    const uint64_t id = strtoull(worker, NULL, 10);
    const size_t n = strlen(name);
    char tail[32];
    size_t len = (size_t)snprintf(tail, sizeof tail, "-%" PRIu32 "-%" PRIu32, (uint32_t)id, (uint32_t)(id >> 32));

    return id && n > len + 11 && pl_streq(name + n - len, tail) && name[n - len - 11] == '-' &&
           strspn(name + n - len - 10, "0123456789abcdef") == 10;
}

/* Deletes a pod of this store that has no worker: the daemon that made it died before it recorded the worker,
 * or the worker has ended. */
static void remove_stray(struct kube *k, json_t *object)
{
    struct kpod *p = pl_worker_pod_new(k, 0);

    if (!p)
        return;
    p->step = KPOD_GOING;
    snprintf(p->name, sizeof p->name, "%s", pl_json_str(json_object_get(object, "metadata"), "name"));
    pl_worker_pod_seen(p, object);
}

/* Finds the worker to which a pod belongs: by the pod's uid, else by its annotation and name. */
static struct kpod *find(const struct kube *k, const json_t *object)
{
    const json_t *metadata = json_object_get(object, "metadata");
    const char *uid = pl_json_str(metadata, "uid"), *worker;
    struct kpod *p = pl_map_get(&k->by_uid, uid, strlen(uid));

    if (p)
        return p;
    worker = pl_json_str(json_object_get(metadata, "annotations"), PL_POD_LABEL "worker");
    p = pod_of(k, strtoull(worker, NULL, 10));
    if (p && !p->name[0] && is_named_for_worker(metadata))
        snprintf(p->name, sizeof p->name, "%s", pl_json_str(metadata, "name"));
    return p && pl_streq(p->name, pl_json_str(metadata, "name")) ? p : NULL;
}

/* Called when the first listing of pods is complete: an adopted worker whose pod was not in it is gone. */
static void synced(struct kube *k)
{
    const struct pl_map_slot *slot;
    bool again = true;

    while (again) { /* pl_worker_pod_gone changes the map: start over */
        again = false;
        for (size_t i = 0; !again && (slot = pl_map_next(&k->pods, &i));) {
            struct kpod *p = slot->value;

            if (!p->adopted || p->seen)
                continue;
            pl_worker_pod_gone(p, "its pod no longer existed when the daemon restarted");
            again = true;
        }
    }
}

/* Handles a pod of this store that has no worker here. A pod of a later start of a daemon is never deleted:
 * it shows that another daemon has taken over, or that the store was set back to an older state. Pods of
 * earlier starts are removed by the first listing only; one that appears later was made by a daemon that does
 * not know yet that this one has taken over. */
static void on_stray(struct kube *k, enum pl_kube_event e, json_t *object)
{
    const json_t *metadata = json_object_get(object, "metadata");
    const char *name = pl_json_str(metadata, "name");
    uint64_t start;

    if (!is_named_for_worker(metadata)) {
        if (e == PL_KUBE_ADDED)
            pl_log_warn("kubernetes", "pod %s has the labels of this daemon's pods but was not created by it: ignored", name);
        return;
    }
    start = strtoull(pl_json_str(json_object_get(metadata, "annotations"), PL_POD_LABEL "worker"), NULL, 10) >> 32;
    if (start == k->epoch || (start < k->epoch && !k->listed)) {
        remove_stray(k, object);
    } else if (e == PL_KUBE_ADDED) {
        pl_log(k->strays_told ? PL_LOG_DEBUG : PL_LOG_WARN, "kubernetes",
               "pod %s was created by start %" PRIu64 " of a daemon on this store, and this is start %" PRIu64
               ": it is left alone, as are all others of its kind",
               name, start, k->epoch);
        k->strays_told = true;
        if (start > k->epoch && k->is_owner) {
            k->doubted = true;
            (void)k->is_owner(k->is_owner_arg, true);
        }
    }
}

bool pl_kube_is_owner(const struct kube *k)
{
    return !k->doubted;
}

/* Reports why pods are held that were held for nothing else before. */
static void tell_held(struct kube *k)
{
    struct kpod *p;

    TAILQ_FOREACH(p, &k->parked, parked_link)
    {
        if (p->why[0] || p->leaving)
            continue;
        snprintf(p->why, sizeof p->why, "another daemon may have taken over the store: its log is being looked at");
        k->events.waits(k->events.self, p->id, p->why);
    }
}

/* Makes the pods that were held, once the log was found to be this daemon's. Only here the doubt ends: if it ended
 * wherever somebody asks, nobody would make them. */
static void look_at_doubt(struct kube *k)
{
    if (!k->doubted)
        return;
    if (!k->is_owner(k->is_owner_arg, false)) {
        tell_held(k);
        return;
    }
    k->doubted = false;
    pl_worker_pods_try_all(k);
}

/* Passes a pod's change to its worker. */
static void on_pod(void *self, enum pl_kube_event e, json_t *object)
{
    struct kube *k = self;
    struct kpod *p;

    if (e == PL_KUBE_SYNCED) {
        k->listed = true;
        synced(k);
        pl_worker_pods_try_all(k);
        return;
    }
    pl_cluster_own_pod(k->cluster, e, object);
    p = find(k, object);
    if (e == PL_KUBE_DELETED) {
        if (!p || (p->uid[0] && !pl_streq(p->uid, pl_json_str(json_object_get(object, "metadata"), "uid"))))
            return;
        if (!p->stop) /* something else deleted the pod, possibly by deleting the owner object */
            pl_owner_object_recheck(k);
        pl_worker_pod_gone(p, "its pod was deleted");
    } else if (p) {
        pl_worker_pod_seen(p, object);
    } else {
        on_stray(k, e, object);
    }
}

static void on_event(void *self, enum pl_kube_event e, json_t *object)
{
    struct kube *k = self;
    const char *uid = pl_json_str(json_object_get(object, "involvedObject"), "uid");
    struct kpod *p = e == PL_KUBE_ADDED || e == PL_KUBE_MODIFIED ? pl_map_get(&k->by_uid, uid, strlen(uid)) : NULL;

    if (p)
        pl_worker_pod_event(p, object);
}

void pl_kube_on_changed(void *self)
{
    struct kube *k = self;
    const uint64_t facts = k->cluster ? pl_kube_facts_number(k) : k->facts;
    const struct pl_map_slot *slot;

    if (facts != k->facts) {
        k->facts = facts;
        k->events.reshape(k->events.self);
    }
    pl_pod_shapes_forget(k);
    for (size_t i = 0; (slot = pl_map_next(&k->shapes, &i));)
        pl_pod_shape_look(k, slot->value);
}

/* Schedules one report for all changes of secrets within a short time, because often several secrets change
 * at once. */
void pl_kube_on_secrets(void *self)
{
    const struct kube *k = self;

    if (k->cluster)
        pl_cluster_tell_soon(k->cluster);
}

void pl_kube_on_room(void *self)
{
    pl_worker_pods_try_room(self);
}

/* Reports that the API server is unreachable, as the reason why pods that are being created wait. */
static void tell_problem(struct kube *k)
{
    const struct pl_map_slot *slot;
    char why[PL_POD_WHY_BYTES];

    if (!k->pods_feed)
        return;
    pl_kube_watch_problem(k, why);
    for (size_t i = 0; why[0] && (slot = pl_map_next(&k->pods, &i));) {
        struct kpod *p = slot->value;

        if ((p->step != KPOD_MAKING && p->step != KPOD_MAKING_CLAIM) || pl_streq(why, p->why))
            continue;
        snprintf(p->why, sizeof p->why, "%s", why);
        k->events.waits(k->events.self, p->id, p->why);
    }
}

/* Runs at each timer tick: retries discovery and blocked pods, and re-examines pods that wait, for example
 * for an image. Examines only PL_POD_LOOK_TURN pods per loop turn, so that results and leases need not
 * wait. */
static void look(void *arg)
{
    struct kube *k = arg;
    const struct pl_map_slot *slot = NULL;

    if (k->looked == 0) {
        pl_cluster_discovery_tick(k);
        pl_owner_object_read(k);
        pl_kube_on_changed(k);
        if (k->cluster)
            pl_cluster_refresh_runtime_classes(k->cluster, pl_pod_shapes_lack_class(k));
        look_at_doubt(k);
        pl_worker_pods_tick_blocked(k);
        tell_problem(k);
        pl_kube_outage_look(k);
        pl_owner_event_send(k);
        pl_kube_logs_look(k);
        pl_pod_poll_look(&k->silent);
        pl_pod_poll_look(&k->queued);
    }
    for (unsigned n = 0; n < PL_POD_LOOK_TURN && (slot = pl_map_next(&k->by_uid, &k->looked));) {
        struct kpod *p = slot->value;

        if (p->up && !p->stop) {
            pl_pod_attach_timeout_check(p);
            continue;
        }
        pl_worker_pod_tick(p);
        n++;
    }
    k->looked = slot ? k->looked : 0;
    pl_timer_start(k->timer, slot ? 1 : PL_POD_LOOK_MS);
}

/* ---- the other operations ---- */

static int kube_shape(struct pl_executor *x, const char *project, const struct pl_stage *def, uint64_t version, bool gpu,
                      uint64_t *ret, struct pl_err *err)
{
    const struct kshape *s = pl_pod_shape_of((struct kube *)x, project, def, version, gpu);

    if (!s)
        return pl_err_nomem(err);
    *ret = s->id;
    return 0;
}

static int kube_check(struct pl_executor *x, const char *project, const struct pl_stage *def, bool gpu,
                      struct pl_executor_check *ret, struct pl_err *err)
{
    return pl_pod_dry_run_begin((struct kube *)x, project, def, gpu, ret, err);
}

static int kube_ask(struct pl_executor *x, struct pl_executor_check *check, struct pl_err *err)
{
    return pl_pod_dry_run_ask((struct kube *)x, check, err);
}

static int kube_secrets(struct pl_executor *x, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    struct kube *k = (struct kube *)x;
    struct pl_project_secrets *secrets = k->secrets;
    int r;

    if (!secrets)
        return pl_err_set(err, PL_EUNAVAILABLE,
                          "secrets are kept in the cluster, but %s has not answered since the daemon started",
                          pl_kube_client_name(k->client));
    r = pl_project_secrets_carry_out(secrets, op, ret, err);
    return r < 0 && err ? pl_kube_client_blame(k->client, err) : r;
}

static int kube_container_log(struct pl_executor *x, const uint64_t *workers, size_t n,
                              const struct pl_container_log_request *ask, struct pl_http_stream_ops *ret, struct pl_err *err)
{
    return pl_kube_container_log((struct kube *)x, workers, n, ask, ret, err);
}

static void kube_tell(struct pl_executor *x, const char *reason, const char *message)
{
    pl_owner_event((struct kube *)x, reason, true, message);
}

static const char *kube_pod_name(struct pl_executor *x, uint64_t id)
{
    const struct kpod *p = pod_of((struct kube *)x, id);

    return p ? p->name : "";
}

/* Reports a capacity of zero: pods are limited by their shapes, not by the capacity of one machine. */
static void kube_capacity(struct pl_executor *x, struct pl_executor_capacity *ret)
{
    (void)x;
    *ret = (struct pl_executor_capacity){0};
}

static unsigned kube_device(struct pl_executor *x, uint32_t slot)
{
    (void)x;
    return slot;
}

static json_t *kube_gpus(struct pl_executor *x)
{
    const struct kube *k = (struct kube *)x;

    if (k->cluster)
        return pl_cluster_gpus(k->cluster);
    return json_pack("{s:s, s:s, s:[], s:[], s:s}", "node", pl_kube_client_name(k->client), "driver", "", "gpus", "nodes",
                     "not_measured", k->away);
}

static void kube_calls(struct pl_executor *x, struct pl_executor_calls *ret)
{
    struct pl_kube_client_view view;

    pl_kube_client_look(((struct kube *)x)->client, &view);
    *ret = (struct pl_executor_calls){.requests = view.requests,
                                      .retries = view.retries,
                                      .throttled = view.throttled,
                                      .waiting = view.waiting,
                                      .running = view.running};
}

static bool kube_gpu_use(struct pl_executor *x, uint64_t id, double *ret_utilisation, int64_t *ret_mem_peak_bytes)
{
    const struct kube *k = (struct kube *)x;
    const struct kpod *p = pod_of(k, id);
    struct pl_gpu_told told;

    if (!p || !k->cluster || !pl_cluster_gpu_told(k->cluster, p->name, &told))
        return false;
    *ret_utilisation = told.utilisation;
    *ret_mem_peak_bytes = told.mem_peak_bytes;
    return true;
}

/* Shuts down: leaves the pods running, since they outlive the daemon, and ends the log streams. */
static void kube_shutdown(struct pl_executor *x, bool kill, void (*done)(void *arg), void *arg)
{
    (void)kill;
    pl_kube_logs_stop((struct kube *)x);
    done(arg);
}

static void free_pods(struct pl_map *pods)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(pods, &i)); i = 0) {
        struct kpod *p = slot->value;

        p->shape = NULL;
        pl_worker_pod_free(p); /* removes the pod from both maps, `pods` and `by_uid` */
    }
}

/* Stops requests and watches before it frees what their callbacks use. */
static void kube_destroy(struct pl_executor *x)
{
    struct kube *k = (struct kube *)x;

    pl_cluster_discovery_stop(k);
    pl_owner_object_stop(k);
    pl_pod_poll_stop(&k->silent);
    pl_pod_poll_stop(&k->queued);
    pl_kube_logs_stop(k);
    k->pods_feed = pl_loop_informer_destroy(k->pods_feed);
    k->events_feed = pl_loop_informer_destroy(k->events_feed);
    pl_timer_destroy(k->timer);
    free_pods(&k->pods);
    free_pods(&k->by_uid); /* the pods that remain have no worker */
    k->secrets = pl_project_secrets_destroy(k->secrets);
    k->cluster = pl_cluster_destroy(k->cluster);
    /* ends all requests in progress; the loop then frees the pods of these requests */
    k->client = pl_kube_client_destroy(k->client);
    k->owner_events = pl_kube_events_destroy(k->owner_events);
    pl_map_finish(&k->pods, NULL);
    pl_map_finish(&k->by_uid, NULL);
    pl_map_finish(&k->image_waits, NULL); /* the pods have removed their entries */
    pl_map_finish(&k->shapes, pl_pod_shape_free);
    pl_map_finish(&k->admitted, NULL);
    pthread_mutex_destroy(&k->admitted_lock);
    free(k);
}

static const struct pl_executor_ops ops = {
    .name = "kubernetes",
    .start = kube_start,
    .stop = kube_stop,
    .adopt = kube_adopt,
    .shape = kube_shape,
    .check = kube_check,
    .ask = kube_ask,
    .secrets = kube_secrets,
    .container_log = kube_container_log,
    .capacity = kube_capacity,
    .outage = pl_kube_outage,
    .pod_name = kube_pod_name,
    .tell = kube_tell,
    .device = kube_device,
    .gpus = kube_gpus,
    .calls = kube_calls,
    .gpu_use = kube_gpu_use,
    .shutdown = kube_shutdown,
    .destroy = kube_destroy,
};

/* ---- creation ---- */

static int create_client(struct kube *k, const struct pl_exec_kubernetes_config *config, struct pl_err *err)
{
    const struct pl_kubeconfig_where where = {.files = *config->kubeconfig ? config->kubeconfig : NULL,
                                              .context = *config->context ? config->context : NULL};
    struct pl_kube_client_config client = {0};
    int r = pl_kubeconfig_load(&where, &client.kubeconfig, err);

    r = r < 0 ? r : pl_kube_client_create(&client, &k->client, err);
    pl_kubeconfig_finish(&client.kubeconfig);
    return r;
}

/* Starts the watches on the pods of this store and, if the account may, on events. */
int pl_kube_begin(struct kube *k, struct pl_err *err)
{
    char labels[200], path[300];
    struct pl_loop_informer_config pods = {.loop = k->loop,
                                           .client = k->client,
                                           .path = k->pods_path,
                                           .labels = labels,
                                           .keep = POD_KEEP,
                                           .event = on_pod,
                                           .self = k};
    struct pl_loop_informer_config events = {.loop = k->loop,
                                             .client = k->client,
                                             .path = path,
                                             .fields = "involvedObject.kind=Pod",
                                             .keep = EVENT_KEEP,
                                             .event = on_event,
                                             .self = k};
    int r;

    snprintf(labels, sizeof labels, PL_POD_LABEL "store=%s", k->settings->store_id);
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/events", k->space);
    r = pl_cluster_follow(k->cluster, err);
    if (r == 0)
        r = pl_loop_informer_create(&pods, &k->pods_feed, err);
    if (r == 0 && pl_cluster_may(k->cluster, PL_KUBE_MAY_EVENTS))
        r = pl_loop_informer_create(&events, &k->events_feed, err);
    if (r < 0)
        k->pods_feed = pl_loop_informer_destroy(k->pods_feed);
    return r;
}

static int set_up(struct kube *k, const struct pl_exec_kubernetes_config *config, struct pl_err *err)
{
    int r = create_client(k, config, err);

    if (r < 0)
        return r;
    snprintf(k->space, sizeof k->space, "%s",
             k->settings->namespace ? k->settings->namespace : pl_kube_client_namespace(k->client));
    k->settings->namespace = k->space;
    snprintf(k->pods_path, sizeof k->pods_path, "/api/v1/namespaces/%.200s/pods", k->space);
    if (k->settings->owner_name)
        k->settings->owner_uid = k->owner_uid;
    if (k->settings->owner_name)
        r = pl_kube_events_create(&k->owner_events, err);
    r = r < 0 ? r : pl_timer_create(k->loop, "kube.look", look, k, &k->timer, err);
    r = r < 0 ? r : pl_cluster_discovery(k, err);
    if (r == 0)
        pl_timer_start(k->timer, PL_POD_LOOK_MS);
    return r;
}

int pl_exec_kubernetes_create(const struct pl_exec_kubernetes_config *config, struct pl_executor **ret, struct pl_err *err)
{
    struct kube *k = calloc(1, sizeof *k);
    int r;

    if (!k)
        return pl_err_nomem(err);
    *k = (struct kube){.x.ops = &ops,
                       .loop = config->loop,
                       .settings = config->settings,
                       .trusted = config->trusted,
                       .n_trusted = config->n_trusted,
                       .epoch = config->epoch,
                       .is_owner = config->is_owner,
                       .is_owner_arg = config->is_owner_arg,
                       .gpu_shapes = config->gpu_shapes,
                       .data_dir = config->data_dir,
                       .events = config->events};
    TAILQ_INIT(&k->parked);
    pl_pod_poll_init(&k->silent, k, &pl_kturns_silent);
    pl_pod_poll_init(&k->queued, k, &pl_kturns_queued);
    pthread_mutex_init(&k->admitted_lock, NULL);
    r = set_up(k, config, err);
    if (r < 0) {
        kube_destroy(&k->x);
        return r;
    }
    *ret = &k->x;
    return 0;
}
