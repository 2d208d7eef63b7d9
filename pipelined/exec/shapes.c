#include "pipelined/exec/pods.h"

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

int pl_kube_render(struct kube *k, const struct pl_worker_spec *spec, struct pl_pod *ret, struct pl_err *err)
{
    const struct pl_pod_worker worker = {.stage = spec->def,
                                         .project = spec->project,
                                         .id = spec->id,
                                         .version = spec->version,
                                         .index = (uint32_t)spec->id,
                                         .incarnation = (uint32_t)(spec->id >> 32),
                                         .token = spec->token,
                                         .gpu = spec->gpu,
                                         .trusted = is_trusted(k, spec->project)};

    return pl_pod_render(pl_cluster_facts(k->cluster), k->settings, &worker, ret, err);
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

/* What the cluster's scheduler looks at. */
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
    pl_ramp_init(&s->ramp);
    return s;
}

/* Of a stage that can be no pod: one of its own, by what is wrong. */
static struct kshape *broken_shape(struct kube *k, const struct pl_err *why)
{
    uint64_t id = pl_xxh64(why->msg, strlen(why->msg), 1);
    struct kshape *s = shape_at(k, id ? id : 1);

    if (!s)
        return NULL;
    s->broken = true;
    snprintf(s->why, sizeof s->why, "%.700s", why->msg);
    return s;
}

struct kshape *pl_kshape_of(struct kube *k, const char *project, const struct pl_stage *def, uint64_t version, bool gpu)
{
    const struct pl_worker_spec spec = {
        .project = project, .stage = def->name, .def = def, .version = version, .gpu = gpu, .token = ""};
    struct pl_pod pod = {0};
    struct pl_err err = {0};
    struct kshape *s;
    int r = pl_kube_render(k, &spec, &pod, &err);

    s = r < 0 ? broken_shape(k, &err) : shape_at(k, number_of(&pod));
    if (s && r == 0 && !s->pod) {
        s->pod = json_incref(pod.pod);
        pl_offer_request(s->pod, &s->request);
    }
    pl_pod_finish(&pod);
    if (s && !s->told)
        pl_kshape_look(k, s);
    return s;
}

void pl_kshape_free(void *shape)
{
    struct kshape *s = shape;

    json_decref(s->pod);
    free(s);
}

void pl_kshape_look(struct kube *k, struct kshape *s)
{
    char why[PL_OFFER_WHY_BYTES] = "";
    bool offered = !s->broken && pl_offer_has(pl_cluster_offer(k->cluster), &s->request, why), changed;

    pl_ramp_waiting(&s->ramp, s->pending, pl_clock_mono_ms());
    changed = !s->told || offered != s->offered || s->ramp.pending_max != s->told_max;
    if (!s->broken) {
        changed = changed || (!offered && !pl_streq(why, s->why));
        snprintf(s->why, sizeof s->why, "%s", why);
    }
    if (!changed)
        return;
    s->told = true;
    s->offered = offered;
    s->told_max = s->ramp.pending_max;
    k->events.shape(
        k->events.self,
        &(struct pl_sched_shape){.id = s->id, .offered = offered, .pending_max = s->told_max, .text = offered ? NULL : s->why});
}

void pl_kshape_pending(struct kpod *p, bool pending)
{
    if (!p->shape || p->pending == pending)
        return;
    p->pending = pending;
    p->shape->pending = pending ? p->shape->pending + 1 : p->shape->pending - 1;
    pl_kshape_look(p->kube, p->shape);
}
