/* node_capacity.c: keeps the shapes of nodes (node_capacity.h) and the extended resources that pods hold.
 * Names are interned, so that the key of a shape can be compared as bytes. */
#include "pipelined/kube/nodes/node_capacity_internal.h"

#include "pipelined/text/json_text.h"
#include "pipelined/text/quantity.h"

#include <stdio.h>

const char *const pl_offer_product_labels[PL_NODE_CAPACITY_PRODUCT_LABELS] = {PL_GPU_PRODUCT, "cloud.google.com/gke-accelerator",
                                                                              "k8s.amazonaws.com/accelerator",
                                                                              "karpenter.k8s.aws/instance-gpu-name",
                                                                              "kubernetes.azure.com/accelerator"};
const char *const pl_offer_strategies[PL_NODE_CAPACITY_STRATEGIES] = {"none", "time-slicing", "mps"};
const char *const pl_offer_gpu_labels[PL_NODE_CAPACITY_GPU_LABELS] = {
    "nvidia.com/gpu.present", "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name", "kubernetes.azure.com/accelerator"};

int pl_node_capacity_create(struct pl_node_capacity **ret, struct pl_err *err)
{
    struct pl_node_capacity *o = calloc(1, sizeof(*o));

    if (o != NULL)
        o->shapes = calloc(PL_NODE_CAPACITY_SHAPES_MAX, sizeof(*o->shapes));
    if (o == NULL || o->shapes == NULL) {
        free(o);
        return pl_err_nomem(err);
    }
    *ret = o;
    return 0;
}

struct pl_node_capacity *pl_node_capacity_destroy(struct pl_node_capacity *o)
{
    if (o == NULL)
        return NULL;
    for (uint32_t i = 0; i < o->n_names; i++)
        free(o->names[i]);
    pl_map_finish(&o->nodes, free);
    pl_map_finish(&o->pods, free);
    free(o->shapes);
    free(o->products);
    free(o->labels);
    free(o->resources);
    free(o->turns);
    free(o);
    return NULL;
}

void pl_node_capacity_without_pods(struct pl_node_capacity *o)
{
    o->without_pods = true;
}

static int name_of(struct pl_node_capacity *o, const char *text, uint32_t *ret, struct pl_err *err)
{
    for (*ret = 0; *ret < o->n_names; (*ret)++)
        if (pl_streq(o->names[*ret], text))
            return 0;
    if (o->n_names == PL_NODE_CAPACITY_NAMES_MAX)
        return pl_err_set(err, PL_ELIMIT, "more than %u names of resources and products in the cluster",
                          PL_NODE_CAPACITY_NAMES_MAX);
    o->names[o->n_names] = strdup(text);
    if (o->names[o->n_names] == NULL)
        return pl_err_nomem(err);
    o->n_names++;
    return 0;
}

/* The largest amount that is kept, as in pl_quantity_bytes: a few amounts can be added without overflow. */
#define MOST ((int64_t)1 << 60)
/* The largest amount held by one pod that is counted: the amounts of all pods of a cluster can be added
 * without overflow. */
#define HELD_MOST ((int64_t)1 << 44)

/* Returns an amount as bytes or count; 0 for anything that is not a quantity. */
static int64_t bytes_of(const json_t *value)
{
    int64_t n = 0;

    if (json_is_integer(value))
        return PL_MIN(PL_MAX(json_integer_value(value), 0), MOST);
    return json_is_string(value) && pl_quantity_bytes(json_string_value(value), &n, NULL) == 0 ? n : 0;
}

static int64_t milli_of(const json_t *value)
{
    int64_t n = 0;

    if (json_is_integer(value))
        return PL_MIN(PL_MAX(json_integer_value(value), 0), MOST / 1000) * 1000;
    return json_is_string(value) && pl_quantity_cpu(json_string_value(value), &n, NULL) == 0 ? n : 0;
}

/* True for a resource name with a domain other than Kubernetes' own. */
static bool is_extended(const char *name)
{
    return strchr(name, '/') != NULL && strncmp(name, "kubernetes.io/", 14) != 0 && strncmp(name, "hugepages-", 10) != 0;
}

/* ---- shapes ---- */

/* Adds the extended resources to the key, sorted by name. */
static int add_amounts(struct pl_node_capacity *o, const json_t *resources, struct shape_key *key, struct pl_err *err)
{
    const char *name;
    json_t *value;
    int r;

    json_object_foreach((json_t *)(uintptr_t)resources, name, value)
    {
        int64_t count = is_extended(name) ? bytes_of(value) : 0;
        struct amount one = {.count = (uint64_t)count};
        uint32_t at = key->n;

        if (count <= 0 || key->n == PL_NODE_CAPACITY_AMOUNTS_MAX)
            continue;
        r = name_of(o, name, &one.name, err);
        if (r < 0)
            return r;
        for (; at > 0 && key->amounts[at - 1].name > one.name; at--)
            key->amounts[at] = key->amounts[at - 1];
        key->amounts[at] = one;
        key->n++;
    }
    return 0;
}

/* Returns the number that a label has; 0 if it has none, or more than `most`. */
static uint32_t number_of(const json_t *labels, const char *label, uint32_t most)
{
    const char *text = pl_json_str(labels, label);
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && n <= most ? (uint32_t)n : 0;
}

/* Adds the labels that describe GPUs to the key. */
static int add_labels(struct pl_node_capacity *o, const json_t *labels, struct shape_key *key, struct pl_err *err)
{
    const char *strategy = pl_json_str(labels, PL_GPU_STRATEGY);
    int r = 0;

    for (uint32_t i = 0; i < PL_NODE_CAPACITY_STRATEGIES; i++)
        if (pl_streq(strategy, pl_offer_strategies[i]))
            key->strategy = i;

    key->memory_mib = number_of(labels, json_object_get(labels, PL_GPU_MEMORY) ? PL_GPU_MEMORY : PL_KARPENTER_MEM, 1u << 30);
    key->compute = 100 * number_of(labels, PL_GPU_COMPUTE "major", 1000) + number_of(labels, PL_GPU_COMPUTE "minor", 99);
    for (uint32_t i = 0; i < PL_NODE_CAPACITY_GPU_LABELS; i++)
        if (json_object_get(labels, pl_offer_gpu_labels[i]) != NULL)
            key->labels |= 1u << i;
    for (uint32_t i = 0; i < PL_NODE_CAPACITY_PRODUCT_LABELS && r == 0 && key->n_products < PRODUCTS_MAX; i++) {
        const char *value = json_string_value(json_object_get(labels, pl_offer_product_labels[i]));

        if (value == NULL)
            continue;
        key->products[key->n_products].label = i;
        r = name_of(o, value, &key->products[key->n_products].value, err);
        key->n_products += r == 0;
    }
    return r;
}

static int key_of(struct pl_node_capacity *o, const json_t *resources, const json_t *labels, struct shape_key *key,
                  struct pl_err *err)
{
    int r;

    memset(key, 0, sizeof(*key));
    key->cpus = (uint32_t)PL_MIN(milli_of(json_object_get(resources, "cpu")) / 1000, UINT32_MAX);
    key->gib = (uint32_t)PL_MIN(bytes_of(json_object_get(resources, "memory")) >> 30, UINT32_MAX);
    r = add_amounts(o, resources, key, err);
    return r < 0 ? r : add_labels(o, labels, key, err);
}

/* Returns the shape with that key. If there is no such shape, returns an array entry in which to store it:
 * an unused entry, or the entry of the shape without nodes that was seen least recently. NULL: all entries
 * are in use. */
static struct shape *place_of(struct pl_node_capacity *o, const struct shape_key *key)
{
    struct shape *oldest = NULL;

    for (uint32_t i = 0; i < o->n_shapes; i++) {
        struct shape *s = &o->shapes[i];

        if (s->taken && memcmp(&s->key, key, sizeof(*key)) == 0)
            return s;
        if (!s->taken || (s->nodes == 0 && !s->stays && (oldest == NULL || (oldest->taken && s->seen_ms < oldest->seen_ms))))
            oldest = s;
    }
    if ((oldest == NULL || oldest->taken) && o->n_shapes < PL_NODE_CAPACITY_SHAPES_MAX)
        return &o->shapes[o->n_shapes++];
    if (oldest != NULL)
        oldest->taken = false;
    return oldest;
}

static int shape_of(struct pl_node_capacity *o, const struct shape_key *key, struct shape **ret, struct pl_err *err)
{
    struct shape *s = place_of(o, key);

    if (s == NULL)
        return pl_err_set(err, PL_ELIMIT, "the cluster's nodes have more than %u shapes", PL_NODE_CAPACITY_SHAPES_MAX);
    if (!s->taken)
        *s = (struct shape){.key = *key, .taken = true};
    *ret = s;
    return 0;
}

/* ---- nodes ---- */

/* Adds what the pods of a node hold to the totals of the node's shape, or subtracts it. */
static void count_used(struct shape *shape, const struct amount *amounts, uint32_t n, bool add)
{
    for (uint32_t i = 0; shape != NULL && i < shape->key.n; i++)
        for (uint32_t k = 0; k < n; k++)
            if (shape->key.amounts[i].name == amounts[k].name)
                shape->used[i] += add ? amounts[k].count : -amounts[k].count;
}

static void leave_shape(struct node *node, int64_t now_ms)
{
    if (node->shape == NULL)
        return;
    count_used(node->shape, node->used, node->n, false);
    node->shape->nodes--;
    node->shape->seen_ms = now_ms;
    node->shape = NULL;
}

static int node_named(struct pl_node_capacity *o, const char *name, struct node **ret, struct pl_err *err)
{
    struct node *node = pl_map_get(&o->nodes, name, strlen(name));

    if (node == NULL) {
        node = calloc(1, sizeof(*node) + strlen(name) + 1);
        if (node != NULL)
            memcpy(node->name, name, strlen(name));
        if (node == NULL || pl_map_put(&o->nodes, name, strlen(name), node, NULL, NULL) < 0) {
            free(node);
            return pl_err_nomem(err);
        }
    }
    *ret = node;
    return 0;
}

/* Frees the record of a node that no longer exists and on which no pod holds resources. */
static void drop_unused(struct pl_node_capacity *o, const struct node *node)
{
    if (node->shape == NULL && node->pods == 0)
        free(pl_map_remove(&o->nodes, node->name, strlen(node->name)));
}

/* Moves the node to the shape with that key; on failure the node keeps its shape. If all entries of the
 * array of shapes are in use and the node is the only node of its old shape, the old shape's entry is reused. */
static int change_shape(struct pl_node_capacity *o, struct node *node, const struct shape_key *key, int64_t now_ms,
                        struct pl_err *err)
{
    const bool alone = node->shape != NULL && node->shape->nodes == 1 && !node->shape->stays;
    struct shape *shape;
    int r = shape_of(o, key, &shape, alone ? NULL : err);

    if (r < 0 && alone) {
        leave_shape(node, now_ms);
        r = shape_of(o, key, &shape, err);
    }
    if (r < 0)
        return r;
    leave_shape(node, now_ms);
    node->shape = shape;
    shape->nodes++;
    count_used(shape, node->used, node->n, true);
    return 0;
}

/* Moves the node to the shape given by its allocatable resources and labels. */
int pl_node_capacity_node(struct pl_node_capacity *o, const json_t *node, int64_t now_ms, struct pl_err *err)
{
    const json_t *metadata = json_object_get(node, "metadata"),
                 *has = json_object_get(json_object_get(node, "status"), "allocatable");
    const char *name = json_string_value(json_object_get(metadata, "name"));
    struct shape_key key;
    struct node *n;
    int r = name != NULL ? key_of(o, has, json_object_get(metadata, "labels"), &key, err)
                         : pl_err_set(err, PL_EINVAL, "a node object has no name");

    r = r < 0 ? r : node_named(o, name, &n, err);
    if (r < 0)
        return r;
    if (n->shape == NULL || memcmp(&n->shape->key, &key, sizeof(key)) != 0) {
        r = change_shape(o, n, &key, now_ms, err);
        if (r < 0) {
            drop_unused(o, n);
            return r;
        }
    }
    n->shape->seen_ms = now_ms;
    n->shape->cpu_milli = PL_MAX(n->shape->cpu_milli, milli_of(json_object_get(has, "cpu")));
    n->shape->memory_bytes = PL_MAX(n->shape->memory_bytes, bytes_of(json_object_get(has, "memory")));
    n->shape->disk_bytes = PL_MAX(n->shape->disk_bytes, bytes_of(json_object_get(has, "ephemeral-storage")));
    return 0;
}

void pl_node_capacity_node_gone(struct pl_node_capacity *o, const char *name, int64_t now_ms)
{
    struct node *node = pl_map_get(&o->nodes, name, strlen(name));

    if (node == NULL)
        return;
    leave_shape(node, now_ms);
    drop_unused(o, node);
}

/* ---- pods ---- */

static int64_t more_of(int64_t before, int64_t more, bool sum)
{
    return sum ? PL_MIN(before + more, MOST) : PL_MAX(before, more);
}

static void add_request(struct pl_node_capacity_request *to, const char *name, int64_t count, bool sum)
{
    size_t i = 0;

    while (i < to->n && !pl_streq(to->extended[i].name, name))
        i++;
    if (i == PL_NODE_CAPACITY_AMOUNTS_MAX)
        return;
    if (i == to->n) {
        to->extended[to->n].name = name;
        to->extended[to->n++].count = 0;
    }
    to->extended[i].count = more_of(to->extended[i].count, count, sum);
}

static void add_requests(struct pl_node_capacity_request *to, const struct pl_node_capacity_request *more, bool sum)
{
    to->cpu_milli = more_of(to->cpu_milli, more->cpu_milli, sum);
    to->memory_bytes = more_of(to->memory_bytes, more->memory_bytes, sum);
    for (size_t i = 0; i < more->n; i++)
        add_request(to, more->extended[i].name, more->extended[i].count, sum);
}

/* Reads a container's requests. Extended resources are read from its limits, because their requests must be
 * equal. */
static void request_of(const json_t *container, struct pl_node_capacity_request *ret)
{
    const json_t *resources = json_object_get(container, "resources"), *limits = json_object_get(resources, "limits"),
                 *requests = json_object_get(resources, "requests"), *cpu = json_object_get(requests, "cpu"),
                 *memory = json_object_get(requests, "memory");
    const char *name;
    json_t *value;

    *ret =
        (struct pl_node_capacity_request){.cpu_milli = milli_of(cpu != NULL ? cpu : json_object_get(limits, "cpu")),
                                          .memory_bytes = bytes_of(memory != NULL ? memory : json_object_get(limits, "memory"))};
    json_object_foreach((json_t *)(uintptr_t)limits, name, value)
    {
        if (is_extended(name) && bytes_of(value) > 0)
            add_request(ret, name, bytes_of(value), true);
    }
}

/* Adds up requests as the scheduler does: sidecars keep running while all later containers run; other init
 * containers run one at a time. */
void pl_node_capacity_request(const json_t *pod, struct pl_node_capacity_request *ret)
{
    const json_t *spec = json_object_get(pod, "spec"), *container;
    struct pl_node_capacity_request one, first = {0};
    size_t i;

    *ret = (struct pl_node_capacity_request){0};
    json_array_foreach(json_object_get(spec, "initContainers"), i, container)
    {
        request_of(container, &one);
        if (pl_streq(pl_json_str(container, "restartPolicy"), "Always")) { /* a sidecar: it keeps running */
            add_requests(ret, &one, true);
            one = *ret;
        } else {
            add_requests(&one, ret, true);
        }
        add_requests(&first, &one, false);
    }
    json_array_foreach(json_object_get(spec, "containers"), i, container)
    {
        request_of(container, &one);
        add_requests(ret, &one, true);
    }
    add_requests(ret, &first, false);
}

static void count_held(struct held *held, bool add)
{
    struct node *node = held->node;

    count_used(node->shape, held->amounts, held->n, add);
    node->pods += add ? 1u : -1u;
    for (uint32_t k = 0; k < held->n; k++) {
        uint32_t i = 0;

        while (i < node->n && node->used[i].name != held->amounts[k].name)
            i++;
        if (i == node->n && node->n < PL_NODE_CAPACITY_AMOUNTS_MAX)
            node->used[node->n++] = (struct amount){.name = held->amounts[k].name};
        if (i < node->n)
            node->used[i].count += add ? held->amounts[k].count : -held->amounts[k].count;
    }
}

static void let_go(struct pl_node_capacity *o, struct held *held)
{
    if (held == NULL)
        return;
    count_held(held, false);
    drop_unused(o, held->node);
    free(held);
}

void pl_node_capacity_pod_gone(struct pl_node_capacity *o, const char *uid)
{
    let_go(o, pl_map_remove(&o->pods, uid, strlen(uid)));
}

static bool holds(const json_t *pod)
{
    const char *phase = json_string_value(json_object_get(json_object_get(pod, "status"), "phase"));

    return phase == NULL || (!pl_streq(phase, "Succeeded") && !pl_streq(phase, "Failed"));
}

/* Makes the record of the resources that a pod holds on that node, without adding them to the node's
 * totals. */
static int held_of(struct pl_node_capacity *o, const char *node, const struct pl_node_capacity_request *request,
                   struct held **ret, struct pl_err *err)
{
    struct held *held = calloc(1, sizeof(*held) + request->n * sizeof(*held->amounts));
    int r = held != NULL ? 0 : pl_err_nomem(err);

    for (size_t i = 0; i < request->n && r == 0; i++) {
        held->amounts[i].count = (uint64_t)PL_MIN(request->extended[i].count, HELD_MOST);
        r = name_of(o, request->extended[i].name, &held->amounts[i].name, err);
        held->n++;
    }
    r = r < 0 ? r : node_named(o, node, &held->node, err);
    if (r < 0) {
        free(held);
        return r;
    }
    *ret = held;
    return 0;
}

/* Adds the pod's new record to the totals before it drops the old record, so that nothing changes on
 * failure. */
int pl_node_capacity_pod(struct pl_node_capacity *o, const json_t *pod, struct pl_err *err)
{
    const char *uid = json_string_value(json_object_get(json_object_get(pod, "metadata"), "uid")),
               *name = json_string_value(json_object_get(json_object_get(pod, "spec"), "nodeName"));
    struct pl_node_capacity_request request;
    struct held *held;
    void *before;
    int r;

    if (uid == NULL)
        return pl_err_set(err, PL_EINVAL, "a pod object has no uid");
    pl_node_capacity_request(pod, &request);
    if (name == NULL || request.n == 0 || !holds(pod)) {
        pl_node_capacity_pod_gone(o, uid);
        return 0;
    }
    r = held_of(o, name, &request, &held, err);
    if (r < 0)
        return r;
    r = pl_map_put(&o->pods, uid, strlen(uid), held, &before, err);
    if (r < 0) {
        drop_unused(o, held->node);
        free(held);
        return r;
    }
    count_held(held, true);
    let_go(o, before);
    return 0;
}

/* ---- shapes from the configuration and the history ---- */

/* Checks the shape; adds it, or updates the existing shape with the same key. */
int pl_node_capacity_shape(struct pl_node_capacity *o, const json_t *shape, struct pl_err *err)
{
    const json_t *seen = json_object_get(shape, "seen_ms"), *products = json_object_get(shape, "products");
    json_t *resources =
        json_object_get(shape, "resources") != NULL ? json_copy(json_object_get(shape, "resources")) : json_object();
    struct shape_key key;
    struct shape *s;
    int r = 0;

    if (!json_is_object(shape) || !json_is_object(resources) || (products != NULL && !json_is_object(products)))
        r = pl_err_set(
            err, PL_EINVAL,
            "a node shape must be an object with \"cpu\", \"memory\" and \"resources\", such as {\"nvidia.com/gpu\": 8}");
    else if (milli_of(json_object_get(shape, "cpu")) <= 0 || bytes_of(json_object_get(shape, "memory")) <= 0)
        r = pl_err_set(err, PL_EINVAL, "a node shape needs a \"cpu\" such as \"96\" and a \"memory\" such as \"1Ti\"");
    else if (json_object_set(resources, "cpu", json_object_get(shape, "cpu")) < 0 ||
             json_object_set(resources, "memory", json_object_get(shape, "memory")) < 0)
        r = pl_err_nomem(err);
    r = r < 0 ? r : key_of(o, resources, products, &key, err);
    json_decref(resources);
    r = r < 0 ? r : shape_of(o, &key, &s, err);
    if (r < 0)
        return r;
    s->stays = s->stays || seen == NULL;
    s->seen_ms = PL_MAX(s->seen_ms, json_integer_value(seen));
    s->cpu_milli = PL_MAX(s->cpu_milli, milli_of(json_object_get(shape, "cpu")));
    s->memory_bytes = PL_MAX(s->memory_bytes, bytes_of(json_object_get(shape, "memory")));
    return 0;
}

/* Converts the labels in a shape's key back to JSON, from which add_labels makes the same key. */
static json_t *labels_json(const struct pl_node_capacity *o, const struct shape_key *key)
{
    json_t *labels = json_object();
    bool ok = true;

    for (uint32_t i = 0; i < PL_NODE_CAPACITY_GPU_LABELS; i++)
        if ((key->labels >> i & 1) != 0)
            ok = ok && json_object_set_new(labels, pl_offer_gpu_labels[i], json_string("true")) == 0;
    for (uint32_t i = 0; i < key->n_products; i++)
        ok = ok && json_object_set_new(labels, pl_offer_product_labels[key->products[i].label],
                                       json_string(o->names[key->products[i].value])) == 0;
    if (key->strategy > 0)
        ok = ok && json_object_set_new(labels, PL_GPU_STRATEGY, json_string(pl_offer_strategies[key->strategy])) == 0;
    if (key->memory_mib > 0)
        ok = ok && json_object_set_new(labels, PL_GPU_MEMORY, json_sprintf("%u", key->memory_mib)) == 0;
    if (key->compute > 0)
        ok = ok && json_object_set_new(labels, PL_GPU_COMPUTE "major", json_sprintf("%u", key->compute / 100)) == 0 &&
             json_object_set_new(labels, PL_GPU_COMPUTE "minor", json_sprintf("%u", key->compute % 100)) == 0;
    if (!ok) {
        json_decref(labels);
        return NULL;
    }
    return labels;
}

static json_t *shape_json(const struct pl_node_capacity *o, const struct shape *s, int64_t now_ms)
{
    json_t *resources = json_object(), *products = labels_json(o, &s->key);
    char cpu[32], memory[32];
    bool ok = products != NULL;

    for (uint32_t i = 0; i < s->key.n; i++)
        ok = ok && json_object_set_new(resources, o->names[s->key.amounts[i].name], json_integer(s->key.amounts[i].count)) == 0;
    if (!ok) {
        json_decref(resources);
        json_decref(products);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:I}", "cpu", pl_quantity_cpu_text(PL_MAX(s->cpu_milli, 1), cpu), "memory",
                     pl_quantity_bytes_text(PL_MAX(s->memory_bytes, 1), memory), "resources", resources, "products", products,
                     "seen_ms", (json_int_t)(s->nodes > 0 ? now_ms : s->seen_ms));
}

json_t *pl_node_capacity_shapes(const struct pl_node_capacity *o, int64_t now_ms)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < o->n_shapes && list != NULL; i++) {
        if (!o->shapes[i].taken || o->shapes[i].stays)
            continue;
        if (json_array_append_new(list, shape_json(o, &o->shapes[i], now_ms)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

void pl_node_capacity_expire(struct pl_node_capacity *o, int64_t now_ms)
{
    for (uint32_t i = 0; i < o->n_shapes; i++) {
        struct shape *s = &o->shapes[i];

        if (s->nodes == 0 && !s->stays && s->seen_ms + PL_NODE_CAPACITY_SEEN_MS < now_ms)
            s->taken = false;
    }
}
