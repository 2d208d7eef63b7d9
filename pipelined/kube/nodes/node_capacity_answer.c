/* node_capacity_answer.c: answers whether a pod could be placed, with the reason if not, and describes the
 * nodes for the rendering of pods. */
#include "pipelined/kube/nodes/node_capacity_internal.h"
#include "pipelined/kube/pod/gpushare.h"

#include "pipelined/text/quantity.h"

#include <stdio.h>

static int64_t amount_of(const struct pl_node_capacity *o, const struct shape *s, const char *name)
{
    for (uint32_t i = 0; i < s->key.n; i++)
        if (pl_streq(o->names[s->key.amounts[i].name], name))
            return (int64_t)s->key.amounts[i].count;
    return 0;
}

/* Returns the largest amount of a resource that one pod can get from a node of the shape. Shared GPU memory
 * is limited to that of a single device. */
static int64_t most_of(const struct pl_node_capacity *o, const struct shape *s, const char *name)
{
    const int64_t all = amount_of(o, s, name);

    return pl_streq(name, PL_GPUSHARE_MEM) ? pl_gpushare_device(all, amount_of(o, s, PL_GPUSHARE_COUNT)) : all;
}

static bool is_known(const struct pl_node_capacity *o, const char *name)
{
    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (o->shapes[i].taken && amount_of(o, &o->shapes[i], name) > 0)
            return true;
    return false;
}

static bool has_extended(const struct pl_node_capacity *o, const struct shape *s, const struct pl_node_capacity_request *request)
{
    for (size_t i = 0; i < request->n; i++)
        if (most_of(o, s, request->extended[i].name) < request->extended[i].count &&
            !(request->elsewhere && !is_known(o, request->extended[i].name)))
            return false;
    return true;
}

static void PL_PRINTF(3, 4) append(char *text, size_t *at, const char *fmt, ...);
static void append(char *text, size_t *at, const char *fmt, ...)
{
    va_list ap;

    if (*at >= PL_NODE_CAPACITY_WHY_BYTES - 1)
        return;
    va_start(ap, fmt);
    *at += (size_t)vsnprintf(text + *at, PL_NODE_CAPACITY_WHY_BYTES - *at, fmt, ap);
    va_end(ap);
}

static const char *product_of(const struct pl_node_capacity *o, const struct shape *s)
{
    return s->key.n_products > 0 ? o->names[s->key.products[0].value] : "";
}

/* Returns `to` + `count` × `times`; UINT64_MAX if the sum overflows. */
static uint64_t add(uint64_t to, uint64_t count, uint64_t times)
{
    uint64_t n;

    return __builtin_mul_overflow(count, times, &n) || __builtin_add_overflow(to, n, &n) ? UINT64_MAX : n;
}

/* Appends the products of a resource: " (NVIDIA-A100-SXM4-40GB: 16, 12 free; Tesla-T4: 4, 4 free)". Shapes
 * with the same product are added up. */
static void append_products(const struct pl_node_capacity *o, uint32_t name, char *why, size_t *at)
{
    bool first = true;

    for (uint32_t i = 0; i < o->n_shapes; i++) {
        const char *product = product_of(o, &o->shapes[i]);
        uint64_t all = 0, used = 0;
        bool before = false;

        if (!o->shapes[i].taken || amount_of(o, &o->shapes[i], o->names[name]) == 0)
            continue; /* another shape with this product may have the resource, and then lists it */
        for (uint32_t j = 0; j < o->n_shapes && !before; j++) {
            const struct shape *s = &o->shapes[j];

            for (uint32_t k = 0; k < s->key.n && s->taken; k++) {
                if (s->key.amounts[k].name != name || !pl_streq(product_of(o, s), product))
                    continue;
                before = j < i;
                all = add(all, s->key.amounts[k].count, s->nodes);
                used = add(used, s->used[k], 1);
            }
        }
        if (before)
            continue;
        append(why, at, "%s%s%s%llu", first ? " (" : "; ", product, product[0] != '\0' ? ": " : "", (unsigned long long)all);
        if (!o->without_pods)
            append(why, at, ", %llu free", (unsigned long long)(all > used ? all - used : 0));
        first = false;
    }
    if (!first)
        append(why, at, ")");
}

/* Appends the extended resources that nodes have, with their products. */
static void append_known(const struct pl_node_capacity *o, char *why, size_t *at)
{
    bool first = true;

    for (uint32_t name = 0; name < o->n_names; name++) {
        bool known = false;

        for (uint32_t i = 0; i < o->n_shapes && !known; i++)
            known = o->shapes[i].taken && amount_of(o, &o->shapes[i], o->names[name]) > 0;
        if (!known)
            continue;
        append(why, at, "%s%s", first ? "; known: " : ", ", o->names[name]);
        append_products(o, name, why, at);
        first = false;
    }
    if (first)
        append(why, at, "; no node has such resources");
}

/* Explains in `why` the first requested resource of which no node has enough; false if there is none. */
static bool lacks_one(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request, char *why)
{
    size_t at = 0;

    for (size_t i = 0; i < request->n; i++) {
        const char *name = request->extended[i].name;
        int64_t most = 0;

        for (uint32_t k = 0; k < o->n_shapes; k++)
            if (o->shapes[k].taken)
                most = PL_MAX(most, most_of(o, &o->shapes[k], name));
        if (most >= request->extended[i].count || (most == 0 && request->elsewhere))
            continue;
        if (most == 0)
            append(why, &at, "no node offers %s", name);
        else
            append(why, &at, "no node offers %lld %s%s: the largest has %lld", (long long)request->extended[i].count, name,
                   pl_streq(name, PL_GPUSHARE_MEM) ? " of one device" : "", (long long)most);
        append_known(o, why, &at);
        return true;
    }
    return false;
}

/* Explains in `why` that no node has enough CPU or memory, and names the largest node that has the requested
 * extended resources. */
static void lacks_room(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request, char *why)
{
    const struct shape *best = NULL;
    char cpu[32], memory[32], has_cpu[32], has_memory[32];
    size_t at = 0;

    for (uint32_t i = 0; i < o->n_shapes; i++) {
        const struct shape *s = &o->shapes[i];

        if (s->taken && has_extended(o, s, request) && (best == NULL || s->memory_bytes > best->memory_bytes))
            best = s;
    }
    if (best == NULL) {
        append(why, &at, "no node offers all of");
        for (size_t i = 0; i < request->n; i++)
            append(why, &at, "%s %lld %s", i > 0 ? "," : "", (long long)request->extended[i].count, request->extended[i].name);
        append_known(o, why, &at);
        return;
    }
    append(why, &at, "no node has cpu %s and memory %s", pl_quantity_cpu_text(PL_MAX(request->cpu_milli, 1), cpu),
           pl_quantity_bytes_text(PL_MAX(request->memory_bytes, 1), memory));
    for (size_t i = 0; i < request->n; i++)
        append(why, &at, " in addition to %lld %s", (long long)request->extended[i].count, request->extended[i].name);
    append(why, &at, ": the largest has cpu %s and memory %s", pl_quantity_cpu_text(PL_MAX(best->cpu_milli, 1), has_cpu),
           pl_quantity_bytes_text(PL_MAX(best->memory_bytes, 1), has_memory));
}

static bool takes(const struct pl_node_capacity *o, const struct shape *s, const struct pl_node_capacity_request *request)
{
    return s->taken && s->cpu_milli >= request->cpu_milli && s->memory_bytes >= request->memory_bytes &&
           has_extended(o, s, request);
}

/* Looks for a shape that could take the pod and that has nodes other than the given ones, or is declared by
 * the configuration. */
bool pl_node_capacity_has_beside(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request,
                                 const char *const *nodes, size_t n)
{
    bool any = false;

    for (uint32_t i = 0; i < o->n_shapes; i++) {
        const struct shape *s = &o->shapes[i];
        uint32_t beside = s->nodes;

        any = any || s->taken;
        if (!takes(o, s, request))
            continue;
        for (size_t k = 0; k < n; k++) {
            const struct node *node = pl_map_get(&o->nodes, nodes[k], strlen(nodes[k]));

            beside -= node != NULL && node->shape == s;
        }
        if (beside > 0 || s->stays)
            return true;
    }
    return !any;
}

bool pl_node_capacity_has(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request,
                          char why[PL_NODE_CAPACITY_WHY_BYTES])
{
    bool any = false;

    why[0] = '\0';
    for (uint32_t i = 0; i < o->n_shapes; i++) {
        const struct shape *s = &o->shapes[i];

        any = any || s->taken;
        if (takes(o, s, request))
            return true;
    }
    if (any && !lacks_one(o, request, why))
        lacks_room(o, request, why);
    return !any;
}

int64_t pl_node_capacity_disk(const struct pl_node_capacity *o, const struct pl_node_capacity_request *request)
{
    int64_t most = 0;

    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (takes(o, &o->shapes[i], request))
            most = PL_MAX(most, o->shapes[i].disk_bytes);
    return most;
}

/* ---- description for rendering ---- */

/* Compares by label, in the order of pl_offer_product_labels, then by value, so that pods do not depend on
 * the order in which nodes were seen. */
static int compare_products(const void *a, const void *b)
{
    const struct pl_gpu_product *x = a, *y = b;
    uint32_t i = 0, k = 0;

    while (pl_offer_product_labels[i] != x->label)
        i++;
    while (pl_offer_product_labels[k] != y->label)
        k++;
    return i != k ? (i > k) - (i < k) : strcmp(x->value, y->value);
}

/* Lists the distinct products of all shapes in o->products. */
static size_t describe_products(struct pl_node_capacity *o)
{
    size_t n = 0;

    for (uint32_t i = 0; i < o->n_shapes; i++) {
        for (uint32_t k = 0; k < o->shapes[i].key.n_products && o->shapes[i].taken; k++) {
            const struct shape_key *key = &o->shapes[i].key;
            const struct pl_gpu_product one = {.label = pl_offer_product_labels[key->products[k].label],
                                               .value = o->names[key->products[k].value]};
            size_t j = 0;

            while (j < n && !(o->products[j].label == one.label && o->products[j].value == one.value))
                j++;
            if (j == n)
                o->products[n++] = one;
            o->products[j].memory_mib = PL_MAX(o->products[j].memory_mib, (int64_t)key->memory_mib);
            o->products[j].compute = PL_MAX(o->products[j].compute, (unsigned)key->compute);
        }
    }
    qsort(o->products, n, sizeof(*o->products), compare_products);
    return n;
}

/* True for a resource of NVIDIA's device plugin, the only plugin that shares devices by time-slicing or
 * MPS. */
static bool is_shared(const struct pl_node_capacity *o, const struct amount *amount)
{
    return strncmp(o->names[amount->name], "nvidia.com/", 11) == 0;
}

/* True if an existing node with this sharing strategy (an index of pl_offer_strategies) has shared devices.
 * If none has, the caller also counts nodes that may come back, because a node has no devices while its
 * plugin restarts. */
static bool is_there(const struct pl_node_capacity *o, uint32_t strategy)
{
    for (uint32_t i = 0; i < o->n_shapes; i++) {
        const struct shape *s = &o->shapes[i];

        for (uint32_t k = 0; k < s->key.n && s->taken && s->nodes > 0 && s->key.strategy == strategy; k++)
            if (is_shared(o, &s->key.amounts[k]))
                return true;
    }
    return false;
}

static void add_turns(struct pl_node_capacity *o, const struct shape *s, size_t *n)
{
    const char *strategy = pl_offer_strategies[s->key.strategy];

    for (uint32_t k = 0; k < s->key.n; k++) {
        const struct pl_gpu_turns one = {strategy, o->names[s->key.amounts[k].name]};
        size_t j = 0;

        if (!is_shared(o, &s->key.amounts[k]))
            continue;
        while (j < *n && !(o->turns[j].strategy == one.strategy && o->turns[j].resource == one.resource))
            j++;
        if (j == *n)
            o->turns[(*n)++] = one;
    }
}

static size_t describe_turns(struct pl_node_capacity *o)
{
    size_t n = 0;

    for (uint32_t strategy = 1; strategy < PL_NODE_CAPACITY_STRATEGIES; strategy++) {
        const bool there = is_there(o, strategy);

        for (uint32_t i = 0; i < o->n_shapes; i++) {
            const struct shape *s = &o->shapes[i];

            if (s->taken && s->key.strategy == strategy && (s->nodes > 0 || !there))
                add_turns(o, s, &n);
        }
    }
    return n;
}

static bool memory_is_shared(const struct pl_node_capacity *o)
{
    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (o->shapes[i].taken && o->shapes[i].nodes > 0 && amount_of(o, &o->shapes[i], PL_GPUSHARE_MEM) > 0)
            return true;
    return false;
}

/* Returns the unit in which to request shared memory. If nodes use both units the finer one, MiB, is
 * returned: an amount in MiB does not fit on a device counted in GiB, whereas an amount in GiB would be
 * almost nothing on a device counted in MiB. */
static enum pl_share_unit describe_unit(const struct pl_node_capacity *o)
{
    const bool there = memory_is_shared(o);

    for (uint32_t i = 0; i < o->n_shapes; i++) {
        const struct shape *s = &o->shapes[i];

        if (s->taken && (s->nodes > 0 || !there) && pl_gpushare_unit(most_of(o, s, PL_GPUSHARE_MEM)) == PL_UNIT_MIB)
            return PL_UNIT_MIB;
    }
    return PL_UNIT_GIB;
}

/* Fills the lists of products, labels, resources and shared resources, which are allocated on the first
 * call. */
int pl_node_capacity_describe(struct pl_node_capacity *o, struct pl_pod_cluster *ret, struct pl_err *err)
{
    uint32_t labels = 0;
    size_t n = 0, n_resources = 0;

    if (o->products == NULL)
        o->products = calloc(PRODUCTS_MAX * PL_NODE_CAPACITY_SHAPES_MAX, sizeof(*o->products));
    if (o->labels == NULL)
        o->labels = calloc(PL_NODE_CAPACITY_GPU_LABELS, sizeof(*o->labels));
    if (o->resources == NULL)
        o->resources = calloc(PL_NODE_CAPACITY_NAMES_MAX, sizeof(*o->resources));
    if (o->turns == NULL)
        o->turns = calloc((size_t)PL_NODE_CAPACITY_STRATEGIES * PL_NODE_CAPACITY_NAMES_MAX, sizeof(*o->turns));
    if (o->products == NULL || o->labels == NULL || o->resources == NULL || o->turns == NULL)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < o->n_shapes; i++)
        labels |= o->shapes[i].taken ? o->shapes[i].key.labels : 0;
    for (uint32_t i = 0; i < PL_NODE_CAPACITY_GPU_LABELS; i++)
        if ((labels >> i & 1) != 0)
            o->labels[n++] = pl_offer_gpu_labels[i];
    for (uint32_t name = 0; name < o->n_names; name++) {
        bool known = false;

        for (uint32_t i = 0; i < o->n_shapes && !known; i++)
            known = o->shapes[i].taken && amount_of(o, &o->shapes[i], o->names[name]) > 0;
        if (known)
            o->resources[n_resources++] = o->names[name];
    }
    ret->products = o->products;
    ret->n_products = describe_products(o);
    ret->gpu_labels = o->labels;
    ret->n_gpu_labels = n;
    ret->resources = o->resources;
    ret->n_resources = n_resources;
    ret->turns = o->turns;
    ret->n_turns = describe_turns(o);
    ret->gpu_mem_unit = describe_unit(o);
    return 0;
}
