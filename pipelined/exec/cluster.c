#include "pipelined/exec/cluster.h"

#include "pipelined/kube/cluster_facts.h"
#include "pipelined/kube/kube_write.h"
#include "storage/base/clock.h"
#include "storage/base/log.h"

#include <stdio.h>

#define NODE_KEEP  "metadata{labels} spec{unschedulable taints} status{allocatable conditions}"
#define NODES_PAGE 500 /* asked for at once */
#define POD_KEEP   "metadata{deletionTimestamp} spec{nodeName containers{resources} initContainers{resources}} status{phase}"

struct pl_cluster {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    char *space;
    void (*changed)(void *self);
    void *self;
    struct pl_kube_access access;
    struct pl_pod_cluster facts;
    json_t *runtime_classes; /* list of names, which facts points into */
    const char **class_names;
    char dra[PL_FACTS_DRA_BYTES];
    struct pl_offer *offer;
    struct pl_kube_feed *nodes, *pods;
    struct pl_timer *timer;
};

/* ---- what is asked once ---- */

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* NULL: not to be had; said in the log unless it is not there at all. */
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

static int ask_runtime_classes(struct pl_cluster *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list =
        c->access.on[PL_KUBE_MAY_RUNTIME_CLASSES] ? ask(c, "/apis/node.k8s.io/v1/runtimeclasses") : NULL;
    const json_t *items = json_object_get(list, "items"), *item;
    size_t i, n = json_array_size(items);

    if (!list)
        return 0;
    c->runtime_classes = json_array();
    c->class_names = calloc(n + 1, sizeof *c->class_names);
    if (!c->runtime_classes || !c->class_names)
        return pl_err_nomem(err);
    json_array_foreach((json_t *)(uintptr_t)items, i, item)
    {
        if (json_array_append_new(c->runtime_classes, json_string(text_at(json_object_get(item, "metadata"), "name"))) < 0)
            return pl_err_nomem(err);
        c->class_names[i] = json_string_value(json_array_get(c->runtime_classes, i));
    }
    c->facts.runtime_classes = c->class_names;
    c->facts.n_runtime_classes = n;
    c->facts.runtime_classes_known = true;
    return 0;
}

/* Does a LimitRange of the namespace give containers that limit when they have none? */
static bool has_default(const json_t *ranges, const char *resource)
{
    const json_t *range, *limit;
    size_t i, k;

    json_array_foreach(json_object_get(ranges, "items"), i, range)
        json_array_foreach(json_object_get(json_object_get(range, "spec"), "limits"), k,
                           limit) if (pl_streq(text_at(limit, "type"), "Container") &&
                                      *text_at(json_object_get(limit, "default"), resource)) return true;
    return false;
}

static bool is_limited(const json_t *quotas, const char *resource)
{
    const json_t *quota;
    size_t i;

    json_array_foreach(json_object_get(quotas, "items"), i,
                       quota) if (json_object_get(json_object_get(json_object_get(quota, "spec"), "hard"), resource)) return true;
    return false;
}

static void ask_quotas(struct pl_cluster *c)
{
    _cleanup_(json_decrefp) json_t *quotas = NULL, *ranges = NULL;
    char path[300];

    if (!c->access.on[PL_KUBE_MAY_QUOTAS])
        return;
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/resourcequotas", c->space);
    quotas = ask(c, path);
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/limitranges", c->space);
    ranges = ask(c, path);
    c->facts.demands_cpu_limit = is_limited(quotas, "limits.cpu") && !has_default(ranges, "cpu");
    c->facts.demands_memory_limit = is_limited(quotas, "limits.memory") && !has_default(ranges, "memory");
}

/* One page of nodes; `more` is where the next begins, "" after the last. */
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
        int r = pl_offer_node(c->offer, node, pl_clock_wall_us() / 1000, err);

        if (r < 0)
            return r;
    }
    next = text_at(json_object_get(list, "metadata"), "continue");
    if (strlen(next) >= n)
        next = ""; /* what follows it is seen by the watch */
    snprintf(more, n, "%s", next);
    return 0;
}

/* Pods are rendered by what nodes have: so that is known before the first of them. What goes wrong here the watch makes good. */
static int ask_nodes(struct pl_cluster *c, struct pl_err *err)
{
    char more[4096] = "";
    int r = 0;

    if (!c->access.on[PL_KUBE_MAY_NODES])
        return 0;
    do
        r = take_nodes(c, more, sizeof more, err);
    while (r == 0 && *more);
    if (r < 0 && r != PL_ENOMEM) {
        pl_log_warn("cluster", "nodes: %s", err->msg);
        r = 0;
    }
    return r < 0 ? r : pl_offer_describe(c->offer, &c->facts, err);
}

static int ask_access(struct pl_cluster *c, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf lines = {0};
    int r = pl_kube_access_ask(c->client, c->space, &c->access, &lines, err);
    const char *text = r < 0 ? NULL : pl_buf_str(&lines);

    if (r < 0)
        return r;
    for (const char *p = text; p && *p;) {
        size_t n = strcspn(p, "\n");

        pl_log_warn("cluster", "%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
    if (!c->access.on[PL_KUBE_MAY_PODS])
        return pl_err_set(err, PL_EFORBIDDEN, "%s: pods cannot be made in namespace %s: %.600s", pl_kube_client_name(c->client),
                          c->space, text ? text : "");
    return 0;
}

/* ---- what is followed ---- */

static void tell(void *arg)
{
    struct pl_cluster *c = arg;
    struct pl_err err = {0};

    if (pl_offer_describe(c->offer, &c->facts, &err) < 0)
        pl_log_error("cluster", "%s", err.msg);
    c->changed(c->self);
}

static void tell_soon(struct pl_cluster *c)
{
    if (!pl_timer_active(c->timer))
        pl_timer_start(c->timer, PL_CLUSTER_CHANGED_MS);
}

static void on_node(void *self, enum pl_kube_event e, json_t *object)
{
    struct pl_cluster *c = self;
    const int64_t now_ms = pl_clock_wall_us() / 1000;
    struct pl_err err = {0};

    if (e == PL_KUBE_DELETED)
        pl_offer_node_gone(c->offer, text_at(json_object_get(object, "metadata"), "name"), now_ms);
    else if (e != PL_KUBE_SYNCED && pl_offer_node(c->offer, object, now_ms, &err) < 0)
        pl_log_warn("cluster", "node %s: %s", text_at(json_object_get(object, "metadata"), "name"), err.msg);
    tell_soon(c);
}

static void on_pod(void *self, enum pl_kube_event e, json_t *object)
{
    struct pl_cluster *c = self;
    struct pl_err err = {0};

    if (e == PL_KUBE_DELETED)
        pl_offer_pod_gone(c->offer, text_at(json_object_get(object, "metadata"), "uid"));
    else if (e != PL_KUBE_SYNCED && pl_offer_pod(c->offer, object, &err) < 0)
        pl_log_warn("cluster", "pods: %s", err.msg);
}

static int follow(struct pl_cluster *c, struct pl_err *err)
{
    struct pl_kube_feed_config nodes = {
        .loop = c->loop, .client = c->client, .path = "/api/v1/nodes", .keep = NODE_KEEP, .event = on_node, .self = c};
    struct pl_kube_feed_config pods = {
        .loop = c->loop, .client = c->client, .path = "/api/v1/pods", .keep = POD_KEEP, .event = on_pod, .self = c};
    int r = c->access.on[PL_KUBE_MAY_NODES] ? pl_kube_feed_create(&nodes, &c->nodes, err) : 0;

    if (r < 0)
        return r;
    if (c->access.on[PL_KUBE_MAY_ALL_PODS])
        return pl_kube_feed_create(&pods, &c->pods, err);
    pl_offer_without_pods(c->offer);
    return 0;
}

static int fill(struct pl_cluster *c, const struct pl_cluster_config *config, struct pl_err *err)
{
    const json_t *shape;
    size_t i;
    int r = pl_offer_create(&c->offer, err);

    json_array_foreach((json_t *)(uintptr_t)config->gpu_shapes, i, shape) if (r == 0) r = pl_offer_shape(c->offer, shape, err);
    r = r < 0 ? r : pl_timer_create(c->loop, "cluster.changed", tell, c, &c->timer, err);
    r = r < 0 ? r : ask_access(c, err);
    if (r < 0)
        return r;
    ask_level(c);
    ask_groups(c);
    ask_quotas(c);
    r = ask_runtime_classes(c, err);
    r = r < 0 ? r : ask_nodes(c, err);
    return r < 0 ? r : follow(c, err);
}

int pl_cluster_create(const struct pl_cluster_config *config, struct pl_cluster **ret, struct pl_err *err)
{
    struct pl_cluster *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return pl_err_nomem(err);
    *c = (struct pl_cluster){.loop = config->loop, .client = config->client, .changed = config->changed, .self = config->self};
    c->space = strdup(config->space);
    r = c->space ? fill(c, config, err) : pl_err_nomem(err);
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
    c->nodes = pl_kube_feed_destroy(c->nodes);
    c->pods = pl_kube_feed_destroy(c->pods);
    pl_timer_destroy(c->timer);
    pl_offer_destroy(c->offer);
    json_decref(c->runtime_classes);
    free(c->class_names);
    free(c->space);
    free(c);
    return NULL;
}

const struct pl_pod_cluster *pl_cluster_facts(struct pl_cluster *c)
{
    return &c->facts;
}

const struct pl_offer *pl_cluster_offer(const struct pl_cluster *c)
{
    return c->offer;
}

bool pl_cluster_may(const struct pl_cluster *c, enum pl_kube_feature feature)
{
    return c->access.on[feature];
}
