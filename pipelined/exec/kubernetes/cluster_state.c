/* cluster_state.c: asks the API server for permissions, pod security level, API groups, limits, runtime
 * classes and nodes, then feeds the watched nodes and pods to node_capacity (free resources), gpu_report (GPU
 * holders) and gpu_usage. */
#include "pipelined/exec/kubernetes/cluster_state.h"

#include "pipelined/exec/kubernetes/gpu_usage.h"
#include "pipelined/exec/kubernetes/namespace_limits.h"
#include "pipelined/exec/kubernetes/node_history.h"
#include "pipelined/kube/client/kube_object.h"
#include "pipelined/kube/pod/cluster_facts.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <ctype.h>
#include <stdio.h>

#define NODE_KEEP  "metadata{labels} spec{unschedulable taints} status{allocatable capacity conditions addresses}"
#define NODES_PAGE 250 /* nodes per page of the first listing */
#define POD_KEEP                                                                                                                 \
    "metadata{deletionTimestamp " PL_CLUSTER_POD_KEEP "} spec{nodeName containers{resources ports} " PL_CLUSTER_HOLDS_KEEP       \
    "} status{phase containerStatuses{allocatedResourcesStatus}}"

#define CLASSES_PATH "/apis/node.k8s.io/v1/runtimeclasses"

/* A listing of the runtime classes while the loop runs. It has its own memory, because its answer may come after
 * the cluster object was destroyed. */
struct classes_look {
    struct pl_cluster *cluster; /* NULL: it was destroyed */
    struct pl_loop *loop;
    struct pl_kube_call call;
    struct pl_loop_work work;
};

struct pl_cluster {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    char *space, *store;
    void (*changed)(void *self);
    void (*room)(void *self);
    void *self;
    struct pl_kube_access access;
    struct pl_pod_cluster facts;
    bool stale;              /* the facts about nodes must be computed again */
    json_t *runtime_classes; /* list of names as JSON; the names in `facts` point into it */
    const char **class_names;
    struct classes_look *classes_look; /* request in progress that lists the runtime classes again; NULL = none */
    int64_t classes_ms;                /* monotonic time of the last such request */
    unsigned classes_looks;            /* number of such requests since more shapes waited for a class */
    size_t classes_lacking;            /* number of shapes that waited for a class at the last tick */
    char dra[PL_FACTS_DRA_BYTES];
    struct pl_node_capacity *offer;
    char *seen_path;
    struct pl_seen_nodes *seen; /* remembers the nodes of the last 30 days; NULL: no history is kept */
    struct pl_timer *seen_timer;
    /* names of the nodes that pl_cluster_ask listed, as {NAME: true}; NULL once they were passed to the
     * watch */
    json_t *listed;
    struct pl_gpu_report *gpus;
    struct pl_gpu_use *use;
    struct pl_kube_feed *nodes, *pods;
    struct pl_limits *limits;
    struct pl_timer *timer;
};

/* ---- facts that are read once ---- */

/* Gets an object from the API server. Returns NULL on failure; a failure is logged unless the object does not
 * exist. */
static json_t *ask(struct pl_cluster *c, const char *path)
{
    struct pl_err err = {0};
    json_t *got = NULL;
    int r = pl_kube_client_get(c->client, path, &got, &err);

    if (r < 0 && r != PL_ENOTFOUND)
        pl_log_warn("cluster", "%s: %s", path, err.msg);
    return r < 0 ? NULL : got;
}

static void ask_level(struct pl_cluster *c)
{
    _cleanup_(json_decrefp) json_t *space = NULL;
    char path[300];

    snprintf(path, sizeof path, "/api/v1/namespaces/%s", c->space);
    space = ask(c, path);
    c->facts.level = pl_facts_level(space);
}

static void ask_groups(struct pl_cluster *c)
{
    _cleanup_(json_decrefp) json_t *groups = ask(c, "/apis");

    pl_facts_groups(groups, &c->facts, c->dra);
}

/* Replaces the known runtime classes by those of a list. Sets `*ret_changed` if they differ. PL_ENOMEM: the known
 * ones stay. */
static int take_classes(struct pl_cluster *c, const json_t *list, bool *ret_changed, struct pl_err *err)
{
    const json_t *items = json_object_get(list, "items"), *item;
    const size_t n = json_array_size(items);
    _cleanup_(json_decrefp) json_t *classes = json_array();
    _cleanup_free_ const char **names = calloc(n + 1, sizeof *names);
    size_t i;

    if (!classes || !names)
        return pl_err_nomem(err);
    json_array_foreach((json_t *)(uintptr_t)items, i, item)
    {
        if (json_array_append_new(classes, json_string(pl_json_str(json_object_get(item, "metadata"), "name"))) < 0)
            return pl_err_nomem(err);
        names[i] = json_string_value(json_array_get(classes, i));
    }
    *ret_changed = !c->facts.runtime_classes_known || !json_equal(classes, c->runtime_classes);
    json_decref(c->runtime_classes);
    free(c->class_names);
    c->runtime_classes = TAKE_PTR(classes);
    c->class_names = TAKE_PTR(names);
    c->facts.runtime_classes = c->class_names;
    c->facts.n_runtime_classes = n;
    c->facts.runtime_classes_known = true;
    return 0;
}

/* Lists the runtime classes, if the account may; otherwise they stay unknown. */
static int ask_runtime_classes(struct pl_cluster *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = c->access.on[PL_KUBE_MAY_RUNTIME_CLASSES] ? ask(c, CLASSES_PATH) : NULL;
    bool changed;

    return list ? take_classes(c, list, &changed, err) : 0;
}

static void on_classes(void *arg)
{
    struct classes_look *look = arg;
    struct pl_cluster *c = look->cluster;
    _cleanup_(json_decrefp) json_t *list = NULL;
    bool changed = false;

    if (c && look->call.err.code == 0)
        list = json_loadb((const char *)look->call.reply.data, look->call.reply.len, JSON_ALLOW_NUL, NULL);
    pl_kube_call_finish(&look->call);
    free(look);
    if (!c)
        return;
    c->classes_look = NULL;
    if (json_is_array(json_object_get(list, "items")) && take_classes(c, list, &changed, NULL) == 0 && changed)
        pl_cluster_tell_soon(c);
}

static void on_classes_listed(struct pl_kube_call *call)
{
    struct classes_look *look = call->arg;

    pl_loop_post_work(look->loop, &look->work, "cluster.classes", on_classes, look);
}

void pl_cluster_refresh_runtime_classes(struct pl_cluster *c, size_t lacking)
{
    const int64_t now_ms = pl_clock_mono_ms();
    struct classes_look *look;
    int64_t pause_ms;

    if (lacking > c->classes_lacking)
        c->classes_looks = 0;
    c->classes_lacking = lacking;
    pause_ms = PL_MIN(PL_CLUSTER_CLASSES_MOST_MS, (int64_t)PL_CLUSTER_CLASSES_MS << PL_MIN(c->classes_looks, 4u));
    if (!lacking || !c->access.on[PL_KUBE_MAY_RUNTIME_CLASSES] || c->classes_look || now_ms - c->classes_ms < pause_ms)
        return;
    look = calloc(1, sizeof *look);
    if (!look)
        return; /* without memory nothing is listed; the next call tries again */
    c->classes_ms = now_ms;
    c->classes_looks++;
    c->classes_look = look;
    look->cluster = c;
    look->loop = c->loop;
    look->call = (struct pl_kube_call){.method = "GET",
                                       .path = CLASSES_PATH,
                                       .once = true,
                                       .deadline_ms = PL_CLUSTER_CLASSES_MS,
                                       .done = on_classes_listed,
                                       .arg = look};
    pl_kube_client_start(c->client, &look->call);
}

/* Reads one page of the list of nodes. `more`, a buffer of `n` bytes, contains the continue token of this
 * page and receives that of the next page, "" after the last one. */
static int take_nodes(struct pl_cluster *c, char *more, size_t n, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    _cleanup_(json_decrefp) json_t *list = NULL;
    const json_t *node;
    const char *next;
    size_t i;

    if (asprintf(&path, "/api/v1/nodes?limit=%d%s%s", NODES_PAGE, *more ? "&continue=" : "", more) < 0) {
        path = NULL;
        return pl_err_nomem(err);
    }
    list = ask(c, path);
    json_array_foreach(json_object_get(list, "items"), i, node)
    {
        int r = pl_node_capacity_node(c->offer, node, pl_clock_wall_us() / 1000, err);

        if (r < 0)
            return r;
        if (json_object_set_new(c->listed, pl_json_str(json_object_get(node, "metadata"), "name"), json_true()) < 0)
            return pl_err_nomem(err);
    }
    next = pl_json_str(json_object_get(list, "metadata"), "continue");
    if (strlen(next) >= n)
        next = ""; /* the continue token does not fit into the buffer: the watch delivers the remaining nodes */
    snprintf(more, n, "%s", next);
    return 0;
}

/* Lists the nodes before the first pod is rendered, because pods are rendered for the properties of the
 * nodes. Failures are only logged, because the watch delivers the nodes later. If the daemon may not list
 * nodes, the history of nodes is not read either: its entries could not be compared with the real nodes, and
 * would be used for 30 days. */
static int ask_nodes(struct pl_cluster *c, struct pl_err *err)
{
    char more[4096] = "";
    int r = 0;

    if (!c->access.on[PL_KUBE_MAY_NODES])
        return 0;
    c->listed = json_object();
    if (!c->listed)
        return pl_err_nomem(err);
    if (c->seen_path)
        r = pl_node_history_create(c->seen_path, pl_kube_client_name(c->client), c->offer, pl_clock_wall_us() / 1000, &c->seen,
                                   err);
    if (r < 0)
        return r;
    do
        r = take_nodes(c, more, sizeof more, err);
    while (r == 0 && *more);
    if (r < 0 && r != PL_ENOMEM) {
        pl_log_warn("cluster", "cannot list the nodes: %s", err->msg);
        r = 0;
    }
    return r < 0 ? r : pl_node_capacity_describe(c->offer, &c->facts, err);
}

/* Asks which features the daemon's account may use and logs each missing permission. Fails if the account may
 * not create pods. */
static int ask_access(struct pl_cluster *c, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf lines = {0};
    int r = pl_kube_access_ask(c->client, c->space, &c->access, &lines, err);
    const char *text = r < 0 ? NULL : pl_buf_str(&lines);
    unsigned f = 0;

    if (r < 0)
        return r;
    for (const char *p = text; p && *p; f++) {
        size_t n = strcspn(p, "\n");

        while (f < PL_KUBE_FEATURE_COUNT && c->access.on[f])
            f++; /* the lines are about the features that are off, in their order */
        pl_log(f == PL_KUBE_MAY_WRITE_EVENTS ? PL_LOG_INFO : PL_LOG_WARN, "cluster", "%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
    if (!c->access.on[PL_KUBE_MAY_PODS])
        return pl_err_set(err, PL_EFORBIDDEN, "%s: cannot create pods in namespace %s: %.600s", pl_kube_client_name(c->client),
                          c->space, text ? text : "");
    return 0;
}

/* ---- collections that are watched ---- */

static void tell(void *arg)
{
    struct pl_cluster *c = arg;

    c->changed(c->self);
}

void pl_cluster_tell_soon(struct pl_cluster *c)
{
    if (!pl_timer_active(c->timer))
        pl_timer_start(c->timer, PL_CLUSTER_CHANGED_MS);
}

/* Updates the GPU report: which GPUs nodes have, and which pods hold them. */
static void report_node(struct pl_cluster *c, enum pl_kube_event e, const json_t *node)
{
    struct pl_err err = {0};

    if (e == PL_KUBE_DELETED)
        pl_gpu_report_node_gone(c->gpus, pl_json_str(json_object_get(node, "metadata"), "name"));
    else if (e != PL_KUBE_SYNCED && pl_gpu_report_node(c->gpus, node, &err) < 0)
        pl_log_warn("cluster", "%s", err.msg);
}

static void report_pod(struct pl_cluster *c, enum pl_kube_event e, const json_t *pod)
{
    struct pl_err err = {0};

    if (e == PL_KUBE_DELETED)
        pl_gpu_report_pod_gone(c->gpus, pl_json_str(json_object_get(pod, "metadata"), "uid"));
    else if (e != PL_KUBE_SYNCED && pl_gpu_report_pod(c->gpus, pod, &err) < 0)
        pl_log_warn("cluster", "%s", err.msg);
}

/* Updates the free capacity of the nodes. */
static void count_pod(struct pl_cluster *c, enum pl_kube_event e, const json_t *pod)
{
    struct pl_err err = {0};

    if (e == PL_KUBE_DELETED)
        pl_node_capacity_pod_gone(c->offer, pl_json_str(json_object_get(pod, "metadata"), "uid"));
    else if (e != PL_KUBE_SYNCED && pl_node_capacity_pod(c->offer, pod, &err) < 0)
        pl_log_warn("cluster", "cannot count the resources of a pod: %s", err.msg);
}

static void on_node(void *self, enum pl_kube_event e, json_t *object)
{
    struct pl_cluster *c = self;
    const int64_t now_ms = pl_clock_wall_us() / 1000;
    const char *name = pl_json_str(json_object_get(object, "metadata"), "name");
    struct pl_err err = {0};

    if (e == PL_KUBE_DELETED)
        pl_node_capacity_node_gone(c->offer, name, now_ms);
    else if (e != PL_KUBE_SYNCED && pl_node_capacity_node(c->offer, object, now_ms, &err) < 0)
        pl_log_warn("cluster", "cannot use the capacity of node %s: %s", name, err.msg);
    report_node(c, e, object);
    c->stale = true;
    pl_cluster_tell_soon(c);
}

static void keep_seen(void *arg)
{
    struct pl_cluster *c = arg;

    pl_node_history_keep(c->seen, c->offer, pl_clock_wall_us() / 1000);
    c->stale = true; /* nodes that have not been seen for a long time are no longer offered */
    pl_timer_start(c->seen_timer, PL_NODE_HISTORY_EVERY_MS);
}

void pl_cluster_own_pod(struct pl_cluster *c, enum pl_kube_event e, const json_t *pod)
{
    report_pod(c, e, pod);
    if (c->pods)
        count_pod(c, e, pod);
}

static void on_use(void *self, const char *node, const struct pl_dcgm_gpu *gpus, size_t n)
{
    struct pl_cluster *c = self;
    struct pl_err err = {0};

    if (pl_gpu_report_use(c->gpus, node, gpus, n, &err) < 0)
        pl_log_warn("cluster", "%s", err.msg);
}

static void on_pod(void *self, enum pl_kube_event e, json_t *object)
{
    struct pl_cluster *c = self;

    report_pod(c, e, object);
    pl_gpu_usage_pod(c->use, e, object);
    count_pod(c, e, object);
}

/* Starts to watch the namespace's limits, the nodes, and the pods that are not this store's. A collection
 * that the account may not watch is skipped. Without a watch on all pods, the free capacity is unknown. */
int pl_cluster_follow(struct pl_cluster *c, struct pl_err *err)
{
    struct pl_loop_informer_config nodes = {
        .loop = c->loop, .client = c->client, .path = "/api/v1/nodes", .keep = NODE_KEEP, .event = on_node, .self = c};
    char others[120];
    struct pl_loop_informer_config pods = {.loop = c->loop,
                                           .client = c->client,
                                           .path = "/api/v1/pods",
                                           .labels = others,
                                           .keep = POD_KEEP,
                                           .event = on_pod,
                                           .self = c};
    int r = pl_namespace_limits_follow(c->limits, err);

    snprintf(others, sizeof others, PL_POD_LABEL "store!=%s", c->store);
    if (r == 0 && c->seen)
        keep_seen(c);
    if (r == 0 && c->access.on[PL_KUBE_MAY_NODES]) {
        nodes.known = TAKE_PTR(c->listed);
        r = pl_loop_informer_create(&nodes, &c->nodes, err);
    }
    if (r < 0)
        return r;
    if (c->access.on[PL_KUBE_MAY_ALL_PODS])
        return pl_loop_informer_create(&pods, &c->pods, err);
    pl_node_capacity_without_pods(c->offer);
    return 0;
}

static void take_limits(struct pl_cluster *c)
{
    c->facts.demands_cpu_limit = pl_namespace_limits_required(c->limits, "cpu");
    c->facts.demands_memory_limit = pl_namespace_limits_required(c->limits, "memory");
}

static void on_limits(void *self)
{
    struct pl_cluster *c = self;

    take_limits(c);
    pl_cluster_tell_soon(c);
    c->room(c->self);
}

void pl_cluster_look_at_limits(struct pl_cluster *c)
{
    pl_namespace_limits_refresh(c->limits);
}

void pl_cluster_own_limits(const struct pl_cluster *c, const json_t *pod, char out[PL_CLUSTER_OWN_LIMITS_BYTES])
{
    struct pl_own_limits found;

    out[0] = '\0';
    if (pl_namespace_limits_refuse(c->limits, pod, &found))
        snprintf(out, PL_CLUSTER_OWN_LIMITS_BYTES, "%s: %c%s", found.why, tolower(found.remedy[0]), found.remedy + 1);
}

static int ask_limits(struct pl_cluster *c, struct pl_err *err)
{
    const struct pl_namespace_limits_config config = {.loop = c->loop,
                                                      .client = c->client,
                                                      .space = c->space,
                                                      .ask = c->access.on[PL_KUBE_MAY_QUOTAS],
                                                      .follow = c->access.on[PL_KUBE_MAY_ROOM],
                                                      .changed = on_limits,
                                                      .self = c};
    int r = pl_namespace_limits_create(&config, &c->limits, err);

    if (r == 0)
        take_limits(c);
    return r;
}

static int fill(struct pl_cluster *c, const struct pl_cluster_config *config, struct pl_err *err)
{
    const struct pl_gpu_usage_config use = {.loop = c->loop, .client = c->client, .told = on_use, .self = c};
    const json_t *shape;
    size_t i;
    int r = pl_node_capacity_create(&c->offer, err);

    json_array_foreach((json_t *)(uintptr_t)config->gpu_shapes, i, shape) if (r == 0) r =
        pl_node_capacity_shape(c->offer, shape, err);
    if (r == 0 && config->seen && !(c->seen_path = strdup(config->seen)))
        r = pl_err_nomem(err);
    r = r < 0 ? r : pl_gpu_report_create(&c->gpus, err);
    r = r < 0 ? r : pl_gpu_usage_create(&use, &c->use, err);
    r = r < 0 ? r : pl_timer_create(c->loop, "cluster.seen", keep_seen, c, &c->seen_timer, err);
    return r < 0 ? r : pl_timer_create(c->loop, "cluster.changed", tell, c, &c->timer, err);
}

int pl_cluster_ask(struct pl_cluster *c, struct pl_err *err)
{
    int r = ask_access(c, err);

    if (r < 0)
        return r;
    ask_level(c);
    ask_groups(c);
    r = ask_limits(c, err);
    r = r < 0 ? r : ask_runtime_classes(c, err);
    return r < 0 ? r : ask_nodes(c, err);
}

int pl_cluster_create(const struct pl_cluster_config *config, struct pl_cluster **ret, struct pl_err *err)
{
    struct pl_cluster *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return pl_err_nomem(err);
    *c = (struct pl_cluster){
        .loop = config->loop, .client = config->client, .changed = config->changed, .room = config->room, .self = config->self};
    c->space = strdup(config->space);
    c->store = strdup(config->store);
    r = c->space && c->store ? fill(c, config, err) : pl_err_nomem(err);
    if (r < 0) {
        pl_cluster_destroy(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct pl_cluster *pl_cluster_destroy(struct pl_cluster *c)
{
    if (!c)
        return NULL;
    c->nodes = pl_loop_informer_destroy(c->nodes);
    c->pods = pl_loop_informer_destroy(c->pods);
    c->limits = pl_namespace_limits_destroy(c->limits);
    if (c->classes_look)
        c->classes_look->cluster = NULL;
    pl_timer_destroy(c->timer);
    pl_timer_destroy(c->seen_timer);
    pl_node_history_destroy(c->seen, c->offer, pl_clock_wall_us() / 1000);
    free(c->seen_path);
    pl_gpu_usage_destroy(c->use);
    pl_gpu_report_destroy(c->gpus);
    pl_node_capacity_destroy(c->offer);
    json_decref(c->listed);
    json_decref(c->runtime_classes);
    free(c->class_names);
    free(c->space);
    free(c->store);
    free(c);
    return NULL;
}

/* The facts are recomputed only here, on demand, because nodes may change many times between two calls. */
const struct pl_pod_cluster *pl_cluster_facts(struct pl_cluster *c)
{
    struct pl_err err = {0};

    if (c->stale && pl_node_capacity_describe(c->offer, &c->facts, &err) < 0)
        pl_log_error("cluster", "%s", err.msg);
    c->stale = false;
    return &c->facts;
}

const struct pl_node_capacity *pl_cluster_offer(const struct pl_cluster *c)
{
    return c->offer;
}

json_t *pl_cluster_gpus(const struct pl_cluster *c)
{
    const bool nodes = c->access.on[PL_KUBE_MAY_NODES], pods = c->access.on[PL_KUBE_MAY_ALL_PODS];
    const char *problem =
        !nodes  ? "nodes are unknown: allow the daemon's account to list and watch them"
        : !pods ? "pods of other namespaces are unknown: allow the daemon's account to list and watch pods in all namespaces"
                : pl_gpu_usage_problem(c->use);

    return json_pack("{s:s, s:s, s:[], s:o, s:s}", "node", pl_kube_client_name(c->client), "driver", "", "gpus", "nodes",
                     pl_gpu_report_json(c->gpus), "not_measured", problem);
}

bool pl_cluster_gpu_told(struct pl_cluster *c, const char *pod, struct pl_gpu_told *ret)
{
    return pl_gpu_report_take(c->gpus, c->space, pod, ret);
}

bool pl_cluster_may(const struct pl_cluster *c, enum pl_kube_feature feature)
{
    return c->access.on[feature];
}
