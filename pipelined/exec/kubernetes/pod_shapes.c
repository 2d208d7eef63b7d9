/* pod_shapes.c: renders pods and groups them into shapes. Pods of one shape look alike to the cluster's
 * scheduler. A shape's id is a hash of those parts of its pods that matter to that scheduler. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"

#include <stdio.h>

static bool is_trusted(const struct kube *k, const char *project)
{
    for (size_t i = 0; i < k->n_trusted; i++)
        if (pl_streq(k->trusted[i], project))
            return true;
    return false;
}

bool pl_kube_network_off(const struct kube *k, const char *project)
{
    return k->events.network_off && k->events.network_off(k->events.self, project);
}

/* Collects what pl_pod_render needs: whether the project is trusted, its secrets, disk space, and the
 * cluster's facts. */
int pl_kube_render(struct kube *k, const struct pl_worker_spec *spec, const struct kshape *shape, struct pl_pod *ret,
                   struct pl_err *err)
{
    /* specs of trusted projects may request everything, including the network */
    const bool trusted = is_trusted(k, spec->project) && !spec->network_off;
    _cleanup_free_ const char **secrets = NULL;
    size_t n_secrets = 0;
    struct pl_pod_worker worker = {.stage = spec->def,
                                   .project = spec->project,
                                   .pipeline = spec->pipeline,
                                   .run = spec->run,
                                   .id = spec->id,
                                   .version = spec->version,
                                   .index = (uint32_t)spec->id,
                                   .incarnation = (uint32_t)(spec->id >> 32),
                                   .token = spec->token,
                                   .gpu = spec->gpu,
                                   .avoid = spec->avoid,
                                   .n_avoid = spec->n_avoid,
                                   .input_bytes = (int64_t)spec->input_bytes,
                                   .trusted = trusted,
                                   .network_off = spec->network_off};
    int r;

    if (!k->cluster)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s", k->away);
    if (k->settings->owner_name && !k->owner_uid[0])
        return pl_err_set(err, PL_EUNAVAILABLE,
                          "ConfigMap %s of namespace %s, which owns the pods (kubernetes.owner), does not exist: create it again",
                          k->settings->owner_name, k->space);
    r = trusted ? 0 : pl_project_secrets_have(k->secrets, spec->project, spec->def, err);
    if (r < 0)
        return r;
    secrets = pl_project_secrets_names(k->secrets, spec->project, &n_secrets);
    if (!secrets)
        return pl_err_nomem(err);
    worker.disk_bytes = shape ? pl_node_capacity_disk(pl_cluster_offer(k->cluster), &shape->request) : 0;
    worker.secrets = secrets;
    worker.n_secrets = n_secrets;
    return pl_pod_render(pl_cluster_facts(k->cluster), k->settings, &worker, ret, err);
}

/* Returns the id of the placeholder shape for a stage whose spec cannot be rendered as a pod. */
static uint64_t number_of_stage(const struct pl_worker_spec *spec)
{
    uint64_t n = pl_xxh64(spec->project, strlen(spec->project), spec->version * 2 + spec->gpu);

    n = pl_xxh64(spec->stage, strlen(spec->stage), n);
    return n ? n : 1;
}

/* Returns a hash of the cluster's facts, combined with `secrets`, a number that stands for the set of
 * secrets. */
static uint64_t facts_number(struct kube *k, uint64_t secrets)
{
    const struct pl_pod_cluster *c = pl_cluster_facts(k->cluster);
    const uint64_t own[] = {secrets, c->demands_cpu_limit, c->demands_memory_limit, c->gpu_mem_unit};
    uint64_t n = pl_xxh64(k->owner_uid, strlen(k->owner_uid), pl_xxh64(own, sizeof own, 0));

    for (size_t i = 0; i < c->n_products; i++) {
        const uint64_t has[] = {(uint64_t)c->products[i].memory_mib, c->products[i].compute};

        n = pl_xxh64(has, sizeof has, n);
        n = pl_xxh64(c->products[i].label, strlen(c->products[i].label), n);
        n = pl_xxh64(c->products[i].value, strlen(c->products[i].value), n);
    }
    for (size_t i = 0; i < c->n_resources; i++)
        n = pl_xxh64(c->resources[i], strlen(c->resources[i]), n);
    for (size_t i = 0; i < c->n_turns; i++) {
        n = pl_xxh64(c->turns[i].strategy, strlen(c->turns[i].strategy), n);
        n = pl_xxh64(c->turns[i].resource, strlen(c->turns[i].resource), n);
    }
    for (size_t i = 0; i < c->n_gpu_labels; i++)
        n = pl_xxh64(c->gpu_labels[i], strlen(c->gpu_labels[i]), n);
    for (size_t i = 0; i < c->n_runtime_classes; i++)
        n = pl_xxh64(c->runtime_classes[i], strlen(c->runtime_classes[i]), n);
    return n;
}

uint64_t pl_kube_facts_number(struct kube *k)
{
    return facts_number(k, pl_project_secrets_number(k->secrets));
}

uint64_t pl_kube_facts_of(struct kube *k, const char *project)
{
    size_t n_names = 0;
    _cleanup_free_ const char **names = pl_project_secrets_names(k->secrets, project, &n_names);
    /* NULL (no memory) starts the hash at 1, so that it differs from that of an empty list */
    uint64_t n = names == NULL;

    for (size_t i = 0; i < n_names; i++)
        n = pl_xxh64(names[i], strlen(names[i]), n);
    return facts_number(k, n);
}

static void put(json_t *to, const char *key, const json_t *value)
{
    if (value)
        json_object_set(to, key, (json_t *)(uintptr_t)value);
}

static json_t *resources_of(const json_t *containers)
{
    json_t *list = json_array();
    const json_t *c;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)containers, i, c) json_array_append(list, json_object_get(c, "resources"));
    return list;
}

const char *pl_kube_queue_of(const json_t *pod)
{
    return json_string_value(
        json_object_get(json_object_get(json_object_get(pod, "metadata"), "labels"), "kueue.x-k8s.io/queue-name"));
}

/* Returns the id of a pod's shape: a hash of the fields that the cluster's scheduler examines. */
static uint64_t number_of(const struct pl_pod *pod)
{
    static const char *const keys[] = {"nodeSelector",      "affinity",         "tolerations",    "schedulerName",
                                       "priorityClassName", "runtimeClassName", "resourceClaims", "topologySpreadConstraints"};
    const json_t *spec = json_object_get(pod->pod, "spec");
    _cleanup_(json_decrefp) json_t *what = json_object();
    _cleanup_free_ char *text = NULL;
    uint64_t n;

    for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
        put(what, keys[i], json_object_get(spec, keys[i]));
    json_object_set_new(what, "containers", resources_of(json_object_get(spec, "containers")));
    json_object_set_new(what, "initContainers", resources_of(json_object_get(spec, "initContainers")));
    put(what, "queue",
        json_object_get(json_object_get(json_object_get(pod->pod, "metadata"), "labels"), "kueue.x-k8s.io/queue-name"));
    put(what, "claim", json_object_get(pod->claim_template, "spec"));
    json_object_set_new(what, "elsewhere", json_boolean(pod->elsewhere));
    text = json_dumps(what, JSON_COMPACT | JSON_SORT_KEYS);
    n = text ? pl_xxh64(text, strlen(text), 0) : 0;
    return n ? n : 1;
}

/* Returns the match expressions of a node selector that require a property of a node. Expressions that only
 * exclude nodes (NotIn, DoesNotExist) are left out. */
static json_t *asked_of(const json_t *expressions)
{
    json_t *asked = json_array();
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)expressions, i, one)
    {
        const char *op = pl_json_str(one, "operator");

        if (!pl_streq(op, "NotIn") && !pl_streq(op, "DoesNotExist"))
            json_array_append(asked, (json_t *)(uintptr_t)one);
    }
    return asked;
}

/* Returns a hash of what a node must have for the pod: its extended resources, node selector and required
 * affinity. If the cluster renames a label or resource, new pods ask for the new name and hash differently: a
 * waiting pod with the old hash would wait forever and is replaced. */
static uint64_t needs_of(const json_t *pod, const struct pl_node_capacity_request *request)
{
    const json_t *spec = json_object_get(pod, "spec"), *node = json_object_get(json_object_get(spec, "affinity"), "nodeAffinity"),
                 *terms = json_object_get(json_object_get(node, "requiredDuringSchedulingIgnoredDuringExecution"),
                                          "nodeSelectorTerms"),
                 *term;
    _cleanup_(json_decrefp) json_t *what = json_object();
    _cleanup_free_ char *text = NULL;
    json_t *counts = json_object(), *asked = json_array();
    uint64_t n;
    size_t i;

    for (i = 0; i < request->n; i++)
        json_object_set_new(counts, request->extended[i].name, json_integer(request->extended[i].count));
    json_array_foreach((json_t *)(uintptr_t)terms, i, term)
        json_array_append_new(asked, asked_of(json_object_get(term, "matchExpressions")));
    json_object_set_new(what, "extended", counts);
    json_object_set_new(what, "terms", asked);
    put(what, "nodeSelector", json_object_get(spec, "nodeSelector"));
    text = json_dumps(what, JSON_COMPACT | JSON_SORT_KEYS);
    n = text ? pl_xxh64(text, strlen(text), 0) : 0;
    return n ? n : 1;
}

static struct kshape *shape_at(struct kube *k, uint64_t id)
{
    struct kshape *s = pl_map_get(&k->shapes, &id, sizeof id);

    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s || pl_map_put(&k->shapes, &id, sizeof id, s, NULL, NULL) < 0) {
        free(s);
        return NULL;
    }
    s->id = id;
    pl_pending_pod_limit_init(&s->ramp);
    return s;
}

/* Finds or creates the placeholder shape for a stage whose spec cannot be rendered as a pod; `why` has the
 * reason. */
static struct kshape *broken_shape(struct kube *k, uint64_t id, const struct pl_err *why)
{
    struct kshape *s = shape_at(k, id);

    if (!s)
        return NULL;
    s->broken = true;
    s->no_class = pl_streq(why->field, "placement.runtime_class");
    snprintf(s->broken_by, sizeof s->broken_by, "%.700s", why->msg);
    return s;
}

/* Finds or creates the shape of a rendered pod, and reports it: always if `tell` is set, otherwise only if it
 * is new. `why` is not NULL if the pod could not be rendered; `pod` is then unused. */
static struct kshape *find_shape(struct kube *k, const struct pl_worker_spec *spec, const struct pl_pod *pod,
                                 const struct pl_err *why, bool tell)
{
    struct kshape *s = why ? broken_shape(k, number_of_stage(spec), why) : shape_at(k, number_of(pod));

    if (s && !why && !s->pod) {
        s->pod = json_incref(pod->pod);
        pl_node_capacity_request(s->pod, &s->request);
        s->request.elsewhere = pod->elsewhere;
        s->needs = needs_of(s->pod, &s->request);
        s->queued = pl_kube_queue_of(s->pod) != NULL;
    }
    if (s)
        s->told = s->told && !tell;
    if (s && (why || !s->told))
        pl_pod_shape_look(k, s);
    return s;
}

struct kshape *pl_pod_shape_of_pod(struct kube *k, const struct pl_worker_spec *spec, const struct pl_pod *pod)
{
    return find_shape(k, spec, pod, NULL, false);
}

struct kshape *pl_pod_shape_of(struct kube *k, const char *project, const struct pl_stage *def, uint64_t version, bool gpu)
{
    const struct pl_worker_spec spec = {.project = project,
                                        .stage = def->name,
                                        .def = def,
                                        .version = version,
                                        .gpu = gpu,
                                        .network_off = pl_kube_network_off(k, project),
                                        .token = ""};
    struct pl_pod pod = {0};
    struct pl_err err = {0};
    int r = pl_kube_render(k, &spec, NULL, &pod, &err);
    struct kshape *s = find_shape(k, &spec, &pod, r < 0 ? &err : NULL, true);

    pl_pod_finish(&pod);
    return s;
}

void pl_pod_shape_free(void *shape)
{
    struct kshape *s = shape;

    json_decref(s->pod);
    free(s);
}

void pl_pod_shape_take(struct kpod *p, struct kshape *s)
{
    pl_pod_shape_pending(p, false);
    if (p->shape)
        p->shape->pods--;
    p->shape = s;
    if (s)
        s->pods++;
}

void pl_pod_shapes_forget(struct kube *k)
{
    const struct pl_map_slot *slot;
    struct kshape *unused[64];
    size_t n;

    do {
        n = 0;
        for (size_t i = 0; k->events.has_shape && n < PL_ARRAY_SIZE(unused) && (slot = pl_map_next(&k->shapes, &i));) {
            struct kshape *s = slot->value;

            if (s->pods == 0 && !k->events.has_shape(k->events.self, s->id))
                unused[n++] = s;
        }
        for (size_t i = 0; i < n; i++) {
            pl_map_remove(&k->shapes, &unused[i]->id, sizeof unused[i]->id);
            pl_pod_shape_free(unused[i]);
        }
    } while (n == PL_ARRAY_SIZE(unused));
}

size_t pl_pod_shapes_lack_class(const struct kube *k)
{
    const struct pl_map_slot *slot;
    size_t n = 0;

    for (size_t i = 0; (slot = pl_map_next(&k->shapes, &i));)
        n += ((const struct kshape *)slot->value)->no_class;
    return n;
}

void pl_pod_shape_look(struct kube *k, struct kshape *s)
{
    char why[PL_NODE_CAPACITY_WHY_BYTES] = "";
    bool offered, changed;

    if (s->broken)
        snprintf(why, sizeof why, "%s", s->broken_by);
    offered = !s->broken && (s->queued || pl_node_capacity_has(pl_cluster_offer(k->cluster), &s->request, why));
    pl_pending_pod_limit_waiting(&s->ramp, s->pending, pl_clock_mono_ms());
    changed = !s->told || offered != s->offered || s->ramp.pending_max != s->told_max || (!offered && !pl_streq(why, s->why));
    snprintf(s->why, sizeof s->why, "%s", why);
    if (!changed)
        return;
    s->told = true;
    s->offered = offered;
    s->told_max = s->ramp.pending_max;
    k->events.shape(k->events.self, &(struct pl_sched_shape){.id = s->id,
                                                             .offered = offered,
                                                             .pending_max = s->told_max,
                                                             .needs = s->needs,
                                                             .text = offered ? NULL : s->why});
}

void pl_pod_shape_pending(struct kpod *p, bool pending)
{
    if (!p->shape || p->pending == pending)
        return;
    p->pending = pending;
    p->shape->pending = pending ? p->shape->pending + 1 : p->shape->pending - 1;
    pl_pod_shape_look(p->kube, p->shape);
}
