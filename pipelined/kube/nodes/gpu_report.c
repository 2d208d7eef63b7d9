/* gpu_report.c: keeps the needed fields of nodes and pods with GPUs, and combines them with the exporters'
 * measurements when the report is made. */
#include "pipelined/kube/nodes/gpu_report.h"

#include "pipelined/text/json_text.h"
#include "storage/base/map.h"

#include "pipelined/kube/nodes/node_capacity.h"
#include "pipelined/kube/pod/gpushare.h"
#include "pipelined/kube/pod/pod_render.h"

#include <stdio.h>

#define KEY_BYTES (63 + 253 + 2)

/* Nodes and pods are kept as JSON text, because a cluster has tens of thousands of them and JSON objects take
 * ten times the memory. */
struct pl_gpu_report {
    /* node name → {"address", "product"?, "resources": {NAME: COUNT}, "unhealthy": {NAME: COUNT}} */
    struct pl_map nodes;
    /* pod uid → {"node", "namespace", "pod", "project"?, "stage"?, "holds": {NAME: COUNT}, "unhealthy": {NAME:
     * COUNT}, "devices": {INDEX: UNITS}, "pending"} */
    struct pl_map pods;
    /* latest measurements: node name → {"namespace/pod": {"utilisation", "used_mib", "devices"}} */
    json_t *use;
    /* pods of stages: "namespace/pod" → {"sum", "times", "peak_mib"}, measured since the last
     * pl_gpu_report_take */
    json_t *taken;
};

static const char *key_of(const char *ns, const char *pod, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%.63s/%.253s", ns, pod);
    return out;
}

static int64_t count_at(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_string(v) ? strtoll(json_string_value(v), NULL, 10) : json_integer_value(v);
}

int pl_gpu_report_create(struct pl_gpu_report **ret, struct pl_err *err)
{
    struct pl_gpu_report *g = calloc(1, sizeof *g);

    if (!g)
        return pl_err_nomem(err);
    g->use = json_object();
    g->taken = json_object();
    if (!g->use || !g->taken) {
        pl_gpu_report_destroy(g);
        return pl_err_nomem(err);
    }
    *ret = g;
    return 0;
}

struct pl_gpu_report *pl_gpu_report_destroy(struct pl_gpu_report *g)
{
    if (!g)
        return NULL;
    pl_map_finish(&g->nodes, free);
    pl_map_finish(&g->pods, free);
    json_decref(g->use);
    json_decref(g->taken);
    free(g);
    return NULL;
}

/* ---- GPU resources ---- */

static bool is_gpu(const char *resource)
{
    static const char *const words[] = {"gpu",   "nvidia.com/mig-", "google.com/tpu", "neuron",
                                        "gaudi", "Ascend",          "gpu.intel.com/", "vcuda"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++)
        if (strchr(resource, '/') && strstr(resource, words[i]))
            return !pl_streq(resource, PL_GPUSHARE_COUNT);
    return false;
}

/* Stores `value` as text under `key`, and takes the reference to it. PL_ELIMIT: `all` has `max` entries. */
static int put(struct pl_map *all, size_t max, const char *what, const char *key, json_t *value, struct pl_err *err)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    void *old = NULL;
    int r = text ? 0 : pl_err_nomem(err);

    json_decref(value);
    if (r == 0 && all->len >= max && !pl_map_get(all, key, strlen(key)))
        r = pl_err_set(err, PL_ELIMIT, "more than %zu %s have GPUs: %s is left out", max, what, key);
    r = r < 0 ? r : pl_map_put(all, key, strlen(key), text, &old, err);
    free(r < 0 ? text : old);
    return r;
}

/* ---- nodes ---- */

static const char *product_of(const json_t *labels)
{
    static const char *const known[] = {PL_GPU_PRODUCT,
                                        "amd.com/gpu.product-name",
                                        "cloud.google.com/gke-accelerator",
                                        "k8s.amazonaws.com/accelerator",
                                        "karpenter.k8s.aws/instance-gpu-name",
                                        "kubernetes.azure.com/accelerator"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(known); i++)
        if (*pl_json_str(labels, known[i]))
            return pl_json_str(labels, known[i]);
    return NULL;
}

static const char *address_of(const json_t *status)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(status, "addresses"), i, one)
    {
        if (pl_streq(pl_json_str(one, "type"), "InternalIP"))
            return pl_json_str(one, "address");
    }
    return "unknown";
}

/* Adds to `resources` the GPUs of a node that pods can get, and to `unhealthy` those that they cannot: the kubelet
 * counts devices that a plugin reports as unhealthy as the node's capacity, but not as allocatable. */
static void read_devices_of_node(const json_t *status, json_t *resources, json_t *unhealthy)
{
    const json_t *allocatable = json_object_get(status, "allocatable"), *capacity = json_object_get(status, "capacity");
    const char *resource;
    json_t *count;

    json_object_foreach((json_t *)(uintptr_t)allocatable, resource, count)
    {
        const int64_t healthy = count_at(allocatable, resource), all = PL_MAX(healthy, count_at(capacity, resource));

        if (!(is_gpu(resource) || pl_streq(resource, PL_GPUSHARE_COUNT)) || all <= 0)
            continue;
        (void)json_object_set_new(resources, resource, json_integer(PL_MAX(healthy, 0)));
        if (all > healthy)
            (void)json_object_set_new(unhealthy, resource, json_integer(all - PL_MAX(healthy, 0)));
    }
}

int pl_gpu_report_node(struct pl_gpu_report *g, const json_t *node, struct pl_err *err)
{
    const json_t *metadata = json_object_get(node, "metadata"), *status = json_object_get(node, "status");
    json_t *resources = json_object(), *unhealthy = json_object();
    const char *name = pl_json_str(metadata, "name");

    read_devices_of_node(status, resources, unhealthy);
    if (json_object_size(resources) == 0) {
        json_decref(resources);
        json_decref(unhealthy);
        pl_gpu_report_node_gone(g, name);
        return 0;
    }
    return put(&g->nodes, PL_GPU_REPORT_NODES_MAX, "nodes", name,
               json_pack("{s:s, s:s*, s:o, s:o}", "address", address_of(status), "product",
                         product_of(json_object_get(metadata, "labels")), "resources", resources, "unhealthy", unhealthy),
               err);
}

void pl_gpu_report_node_gone(struct pl_gpu_report *g, const char *name)
{
    free(pl_map_remove(&g->nodes, name, strlen(name)));
    (void)json_object_del(g->use, name);
}

/* ---- pods ---- */

/* Reads the devices that the gpushare scheduler gave to a pod: newer schedulers annotate {container: {index:
 * units}}, older ones a single index for all units. */
static void read_devices(const json_t *annotations, int64_t units, json_t *pod)
{
    json_t *devices = json_object(),
           *all = json_loads(pl_json_str(annotations, "scheduler.framework.gpushare.allocation"), 0, NULL), *one, *part;
    const char *index = pl_json_str(annotations, "ALIYUN_COM_GPU_MEM_IDX"), *name, *key;
    int64_t placed = 0;

    json_object_foreach(all, name, one)
    {
        json_object_foreach(one, key, part)
        {
            (void)json_object_set_new(devices, key, json_integer(count_at(devices, key) + json_integer_value(part)));
            placed += json_integer_value(part);
        }
    }
    json_decref(all);
    if (placed == 0 && *index >= '0' && *index <= '9') {
        (void)json_object_set_new(devices, index, json_integer(units));
        placed = units;
    }
    (void)json_object_set_new(pod, "devices", devices);
    (void)json_object_set_new(pod, "pending", json_integer(PL_MAX(units - placed, 0)));
}

static json_t *holds_of(const json_t *pod)
{
    struct pl_node_capacity_request request;
    json_t *holds = json_object();

    pl_node_capacity_request(pod, &request);
    for (size_t i = 0; i < request.n; i++)
        if (is_gpu(request.extended[i].name) && request.extended[i].count > 0)
            (void)json_object_set_new(holds, request.extended[i].name, json_integer(request.extended[i].count));
    return holds;
}

/* Counts a pod's unhealthy devices by resource. The kubelet writes the health of each device to the status of its
 * container if its feature ResourceHealthStatus is on. */
static json_t *unhealthy_of(const json_t *pod)
{
    const json_t *status, *resource, *device;
    json_t *all = json_object();
    size_t i, k, n;

    json_array_foreach(json_object_get(json_object_get(pod, "status"), "containerStatuses"), i, status)
        json_array_foreach(json_object_get(status, "allocatedResourcesStatus"), k, resource)
            json_array_foreach(json_object_get(resource, "resources"), n, device)
    {
        const char *name = pl_json_str(resource, "name");

        if (pl_streq(pl_json_str(device, "health"), "Unhealthy"))
            (void)json_object_set_new(all, name, json_integer(count_at(all, name) + 1));
    }
    return all;
}

/* Keeps the pod's record while the pod is on a node, has not ended, and holds GPUs. */
int pl_gpu_report_pod(struct pl_gpu_report *g, const json_t *pod, struct pl_err *err)
{
    const json_t *metadata = json_object_get(pod, "metadata"), *labels = json_object_get(metadata, "labels");
    const char *node = pl_json_str(json_object_get(pod, "spec"), "nodeName"),
               *phase = pl_json_str(json_object_get(pod, "status"), "phase"), *stage = pl_json_str(labels, PL_POD_LABEL "stage"),
               *project = pl_json_str(labels, PL_POD_LABEL "project");
    const bool holds_any = *node && !pl_streq(phase, "Succeeded") && !pl_streq(phase, "Failed");
    json_t *holds = holds_any ? holds_of(pod) : NULL, *kept;
    char key[KEY_BYTES];

    if (json_object_size(holds) == 0) {
        json_decref(holds);
        pl_gpu_report_pod_gone(g, pl_json_str(metadata, "uid"));
        return 0;
    }
    kept = json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:o, s:o}", "node", node, "namespace", pl_json_str(metadata, "namespace"),
                     "pod", pl_json_str(metadata, "name"), "project", *stage ? project : NULL, "stage", *stage ? stage : NULL,
                     "holds", holds, "unhealthy", unhealthy_of(pod));
    if (kept && json_object_get(holds, PL_GPUSHARE_MEM))
        read_devices(json_object_get(metadata, "annotations"), count_at(holds, PL_GPUSHARE_MEM), kept);
    key_of(pl_json_str(metadata, "namespace"), pl_json_str(metadata, "name"), key);
    if (*stage && !json_object_get(g->taken, key) && json_object_set_new(g->taken, key, json_object()) < 0) {
        json_decref(kept);
        return pl_err_nomem(err);
    }
    return put(&g->pods, PL_GPU_REPORT_PODS_MAX, "pods", pl_json_str(metadata, "uid"), kept, err);
}

void pl_gpu_report_pod_gone(struct pl_gpu_report *g, const char *uid)
{
    _cleanup_free_ char *text = pl_map_remove(&g->pods, uid, strlen(uid));
    _cleanup_(json_decrefp) json_t *pod = text ? json_loads(text, 0, NULL) : NULL;
    char key[KEY_BYTES];

    if (pod)
        (void)json_object_del(g->taken, key_of(pl_json_str(pod, "namespace"), pl_json_str(pod, "pod"), key));
}

/* ---- measurements ---- */

/* Adds a device's measurements to those of its pod. */
static int add_use(json_t *all, const struct pl_dcgm_gpu *gpu, struct pl_err *err)
{
    char key[KEY_BYTES];
    json_t *one;

    if (!*gpu->pod)
        return 0;
    key_of(gpu->ns, gpu->pod, key);
    one = json_object_get(all, key);
    if (!one) {
        one = json_object();
        if (!one || json_object_set_new(all, key, one) < 0)
            return pl_err_nomem(err);
    }
    if (gpu->utilisation >= 0) { /* mean over the pod's devices that have a value */
        double n = json_number_value(json_object_get(one, "devices")),
               sum = json_number_value(json_object_get(one, "utilisation")) * n;

        (void)json_object_set_new(one, "utilisation", json_real((sum + gpu->utilisation) / (n + 1)));
        (void)json_object_set_new(one, "devices", json_real(n + 1));
    }
    if (gpu->used_mib >= 0)
        (void)json_object_set_new(one, "used_mib",
                                  json_integer(count_at(one, "used_mib") + (int64_t)PL_MIN(gpu->used_mib, 1e12)));
    return 0;
}

/* Adds the latest measurement of each stage's pod to the sums that pl_gpu_report_take returns. */
static void gather(struct pl_gpu_report *g, const json_t *all)
{
    const char *key;
    json_t *told;

    json_object_foreach((json_t *)(uintptr_t)all, key, told)
    {
        json_t *t = json_object_get(g->taken, key);

        if (!t || !json_object_get(told, "utilisation"))
            continue;
        (void)json_object_set_new(t, "sum",
                                  json_real(json_number_value(json_object_get(t, "sum")) +
                                            json_number_value(json_object_get(told, "utilisation"))));
        (void)json_object_set_new(t, "times", json_integer(count_at(t, "times") + 1));
        (void)json_object_set_new(t, "peak_mib", json_integer(PL_MAX(count_at(t, "peak_mib"), count_at(told, "used_mib"))));
    }
}

bool pl_gpu_report_take(struct pl_gpu_report *g, const char *ns, const char *pod, struct pl_gpu_told *ret)
{
    char key[KEY_BYTES];
    json_t *t = json_object_get(g->taken, key_of(ns, pod, key));
    const int64_t times = count_at(t, "times");

    if (times == 0)
        return false;
    ret->utilisation = json_number_value(json_object_get(t, "sum")) / (double)times;
    ret->mem_peak_bytes = count_at(t, "peak_mib") << 20;
    (void)json_object_clear(t);
    return true;
}

int pl_gpu_report_use(struct pl_gpu_report *g, const char *node, const struct pl_dcgm_gpu *gpus, size_t n, struct pl_err *err)
{
    json_t *all = json_object();
    int r = all ? 0 : pl_err_nomem(err);

    for (size_t i = 0; i < n && r == 0; i++)
        r = add_use(all, &gpus[i], err);
    if (r < 0) {
        json_decref(all);
        return r;
    }
    gather(g, all);
    return json_object_set_new(g->use, node, all) < 0 ? pl_err_nomem(err) : 0;
}

/* ---- the report ---- */

/* Returns the pods grouped by node: {NODE: [POD, …]}. */
static json_t *pods_by_node(const struct pl_gpu_report *g)
{
    json_t *all = json_object(), *list;
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&g->pods, &i));) {
        _cleanup_(json_decrefp) json_t *pod = json_loads(slot->value, 0, NULL);

        list = json_object_get(all, pl_json_str(pod, "node"));
        if (!list) {
            list = json_array();
            (void)json_object_set_new(all, pl_json_str(pod, "node"), list);
        }
        (void)json_array_append(list, pod);
    }
    return all;
}

static json_t *holder_json(const json_t *pod, const json_t *use, int64_t count, int64_t unhealthy)
{
    static const char *const copied[] = {"project", "stage", "devices"};
    json_t *o = json_pack("{s:O, s:O, s:I}", "namespace", json_object_get(pod, "namespace"), "pod", json_object_get(pod, "pod"),
                          "count", (json_int_t)count);
    char key[KEY_BYTES];
    const json_t *told;

    for (size_t i = 0; i < PL_ARRAY_SIZE(copied); i++)
        if (json_object_get(pod, copied[i]))
            (void)json_object_set(o, copied[i], json_object_get(pod, copied[i]));
    if (unhealthy > 0)
        (void)json_object_set_new(o, "unhealthy", json_integer(unhealthy));
    told = json_object_get(use, key_of(pl_json_str(pod, "namespace"), pl_json_str(pod, "pod"), key));
    if (json_object_get(told, "utilisation"))
        (void)json_object_set(o, "utilisation", json_object_get(told, "utilisation"));
    if (json_object_get(told, "used_mib"))
        (void)json_object_set(o, "used_mib", json_object_get(told, "used_mib"));
    return o;
}

/* Adds to the report's row for a node's shared GPU memory the total and the allocated units of each
 * device. */
static void add_devices(json_t *row, const json_t *node, const json_t *pods)
{
    const int64_t n = PL_MIN(count_at(json_object_get(node, "resources"), PL_GPUSHARE_COUNT), (int64_t)PL_GPUSHARE_GPUS_MAX),
                  each = n > 0 ? count_at(row, "capacity") / n : 0;
    int64_t given[PL_GPUSHARE_GPUS_MAX] = {0}, pending = 0;
    json_t *list = json_array(), *units;
    const json_t *pod;
    const char *index;
    size_t i;

    json_array_foreach(pods, i, pod)
    {
        pending += count_at(pod, "pending");
        json_object_foreach(json_object_get(pod, "devices"), index, units)
        {
            unsigned long at = strtoul(index, NULL, 10);

            if (at < (unsigned long)n)
                given[at] += json_integer_value(units);
            else
                pending += json_integer_value(units);
        }
    }
    for (int64_t k = 0; k < n; k++)
        (void)json_array_append_new(list, json_pack("{s:I, s:I}", "allocated", (json_int_t)given[k], "total", (json_int_t)each));
    (void)json_object_set_new(row, "gpus", list);
    (void)json_object_set_new(row, "pending", json_integer(pending));
}

/* Adds to a row how many of the node's devices are unhealthy, and how many of these are certainly held: those of
 * which pods' statuses say it, or those that are held beyond the healthy ones. If a single pod holds devices, it
 * holds these. */
static void add_unhealthy(json_t *row, const json_t *node, const char *resource)
{
    const int64_t all = count_at(json_object_get(node, "unhealthy"), resource);
    const json_t *by = json_object_get(row, "by"), *holder;
    int64_t told = 0, held = count_at(row, "allocated") - count_at(row, "capacity");
    size_t i;

    json_array_foreach(by, i, holder) told += count_at(holder, "unhealthy");
    if (told < held && json_array_size(by) == 1)
        (void)json_object_set_new(json_array_get(by, 0), "unhealthy", json_integer(PL_MIN(held, all)));
    held = PL_MIN(PL_MAX(held, told), PL_MAX(all, told));
    if (all > 0)
        (void)json_object_set_new(row, "unhealthy", json_integer(all));
    if (held > 0)
        (void)json_object_set_new(row, "unhealthy_held", json_integer(held));
}

/* Makes the report's row for one resource of one node. */
static json_t *row_json(const char *name, const json_t *node, const char *resource, int64_t capacity, const json_t *pods,
                        const json_t *use)
{
    json_t *by = json_array(), *row;
    int64_t allocated = 0;
    const json_t *pod;
    size_t i;

    json_array_foreach(pods, i, pod)
    {
        int64_t count = count_at(json_object_get(pod, "holds"), resource);

        allocated += count;
        if (count > 0)
            (void)json_array_append_new(by, holder_json(pod, use, count, count_at(json_object_get(pod, "unhealthy"), resource)));
    }
    row = json_pack("{s:s, s:O, s:s, s:O*, s:I, s:I, s:o}", "node", name, "address", json_object_get(node, "address"), "resource",
                    resource, "product", json_object_get(node, "product"), "capacity", (json_int_t)capacity, "allocated",
                    (json_int_t)allocated, "by", by);
    if (row)
        add_unhealthy(row, node, resource);
    if (row && pl_streq(resource, PL_GPUSHARE_MEM))
        add_devices(row, node, pods);
    return row;
}

static int compare_by(const json_t *x, const json_t *y, const char *first, const char *second)
{
    int r = strcmp(pl_json_str(x, first), pl_json_str(y, first));

    return r ? r : strcmp(pl_json_str(x, second), pl_json_str(y, second));
}

static int compare_rows(const void *a, const void *b)
{
    return compare_by(*(json_t *const *)a, *(json_t *const *)b, "node", "resource");
}

static int compare_pods(const void *a, const void *b)
{
    return compare_by(*(json_t *const *)a, *(json_t *const *)b, "namespace", "pod");
}

/* Returns a sorted copy of a list; NULL for NULL. */
static json_t *sorted(const json_t *list, int (*compare)(const void *a, const void *b))
{
    const size_t n = json_array_size(list);
    _cleanup_free_ json_t **items = calloc(n + 1, sizeof(json_t *));
    json_t *out = items && list ? json_array() : NULL;

    for (size_t i = 0; items && i < n; i++)
        items[i] = json_array_get(list, i);
    if (n && items)
        qsort(items, n, sizeof(json_t *), compare);
    for (size_t i = 0; out && i < n; i++)
        (void)json_array_append(out, items[i]);
    return out;
}

static void add_rows(json_t *rows, const char *name, const json_t *node, const json_t *pods_there, const json_t *use)
{
    _cleanup_(json_decrefp) json_t *pods = sorted(pods_there, compare_pods);
    const char *resource;
    json_t *count;

    json_object_foreach(json_object_get(node, "resources"), resource, count)
    {
        if (!pl_streq(resource, PL_GPUSHARE_COUNT))
            (void)json_array_append_new(rows, row_json(name, node, resource, json_integer_value(count), pods, use));
    }
}

json_t *pl_gpu_report_json(const struct pl_gpu_report *g)
{
    _cleanup_(json_decrefp) json_t *rows = json_array(), *by_node = pods_by_node(g);
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&g->nodes, &i));) {
        const char *name = (const char *)slot->key;
        _cleanup_(json_decrefp) json_t *node = json_loads(slot->value, 0, NULL);

        add_rows(rows, name, node, json_object_get(by_node, name), json_object_get(g->use, name));
    }
    return sorted(rows, compare_rows);
}
