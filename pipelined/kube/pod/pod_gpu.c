/* pod_gpu.c: how a pod requests GPUs: one function per mode of sharing, and common functions that turn
 * product, memory and compute capability into node affinity. */
#include "pipelined/kube/pod/gpu_labels.h"
#include "pipelined/kube/pod/gpushare.h"
#include "pipelined/kube/pod/pod_internal.h"

#include "pl_gpu_presets.h"

#include "storage/base/buf.h"

#include <fnmatch.h>
#include <stdio.h>

#define DRA_DRIVER     "gpu.nvidia.com"
#define KARPENTER_NAME "karpenter.k8s.aws/instance-gpu-name"

static bool one_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pl_streq(words[i], word))
            return true;
    return false;
}

static bool offers(const struct pod_build *b, const char *resource)
{
    return one_of(resource, b->cluster->resources, b->cluster->n_resources);
}

static const char *resource_of(const struct pod_build *b)
{
    return b->stage->gpu.resource != NULL ? b->stage->gpu.resource : PL_GPU_RESOURCE;
}

static bool is_nvidia(const struct pod_build *b)
{
    return pl_streq(resource_of(b), PL_GPU_RESOURCE);
}

/* Requests devices of a resource, and tolerates the taint with which nodes that have them are usually
 * reserved. */
static void limit(struct pod_build *b, const char *resource, uint32_t count)
{
    pl_pod_put(b, b->limits, resource, json_sprintf("%u", count));
    pl_pod_tolerate(b, resource);
}

/* ---- product, memory and compute capability: node labels ---- */

static bool product_matches(const char *glob, const char *value)
{
    return fnmatch(glob, value, FNM_CASEFOLD) == 0;
}

/* True for a product name that GPU Feature Discovery writes for parts of devices. */
static bool is_part(const char *value)
{
    return strstr(value, "-SHARED") != NULL || strstr(value, "-MIG-") != NULL;
}

/* Returns those known values of a node label that match the glob. */
static json_t *products_of(struct pod_build *b, const char *label, const char *glob, bool parts)
{
    json_t *values = json_array();

    for (size_t i = 0; i < b->cluster->n_products; i++) {
        const struct pl_gpu_product *p = &b->cluster->products[i];

        if (pl_streq(p->label, label) && product_matches(glob, p->value) && (parts || !is_part(p->value)))
            pl_pod_add(b, values, json_string(p->value));
    }
    return values;
}

/* Returns those known values of a node label that match any of the stage's globs, in the order of the
 * globs. */
static json_t *wanted_products(struct pod_build *b, const char *label)
{
    const struct pl_gpu *gpu = &b->stage->gpu;
    json_t *values = json_array();

    for (size_t i = 0; i < gpu->n_product; i++) {
        json_t *some = products_of(b, label, gpu->product[i], gpu->share.mode != PL_SHARE_NONE), *value;
        size_t k, at;

        json_array_foreach(some, k, value)
        {
            bool has = false;

            for (at = 0; at < json_array_size(values); at++)
                has = has || json_equal(json_array_get(values, at), value);
            if (!has)
                pl_pod_add(b, values, json_incref(value));
        }
        json_decref(some);
    }
    return values;
}

/* True if an earlier product of the list has the same name; clouds write one name under several labels. */
static bool named_before(const struct pod_build *b, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (pl_streq(b->cluster->products[k].value, b->cluster->products[i].value))
            return true;
    return false;
}

/* Makes the error for a product that no node has; the error lists the known products. */
static int no_product(const struct pod_build *b, struct pl_err *err)
{
    const struct pl_gpu *gpu = &b->stage->gpu;
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    int r = pl_buf_addf(&text, err, "no node has a GPU product %s", gpu->product[0]);

    for (size_t i = 1; i < gpu->n_product && r == 0; i++)
        r = pl_buf_addf(&text, err, " or %s", gpu->product[i]);
    r = r < 0 ? r : pl_buf_add_str(&text, b->cluster->n_products > 0 ? "; known:" : "; no GPU product is known", err);
    for (size_t i = 0, n = 0; i < b->cluster->n_products && n < 20 && r == 0; i++)
        if (!named_before(b, i))
            r = pl_buf_addf(&text, err, "%s %s", n++ > 0 ? "," : "", b->cluster->products[i].value);
    if (r < 0 || pl_buf_str(&text) == NULL)
        return r < 0 ? r : pl_err_nomem(err);
    return pl_err_field(err, pl_err_set(err, PL_EUNAVAILABLE, "%s", (const char *)text.data), "gpu.product");
}

/* True if an earlier product has the same label as product `i`. */
static bool label_seen_before(const struct pod_build *b, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (pl_streq(b->cluster->products[k].label, b->cluster->products[i].label))
            return true;
    return false;
}

/* Makes node preferences in the order of the stage's product globs, with weights 100, 90, … */
static void prefer_products(struct pod_build *b, const char *label)
{
    const struct pl_gpu *gpu = &b->stage->gpu;

    for (size_t i = 0; i < gpu->n_product && gpu->n_product > 1; i++) {
        json_t *values = products_of(b, label, gpu->product[i], gpu->share.mode != PL_SHARE_NONE);
        int weight = i < 10 ? (int)(100 - 10 * i) : 1;

        if (json_array_size(values) == 0) {
            json_decref(values);
            continue;
        }
        pl_pod_add(b, b->prefer,
                   json_pack("{s:i, s:{s:[o]}}", "weight", weight, "preference", "matchExpressions",
                             pl_pod_expression(b, label, "In", values)));
    }
}

/* Adds the node affinity alternatives that use the labels of GPU Feature Discovery: one of `products` (takes
 * the reference; NULL = any), the memory, and the compute capability. A capability of at least M.m needs two
 * alternatives: major > M, or major = M and minor ≥ m. */
static void want_discovered(struct pod_build *b, json_t *products)
{
    const unsigned major = b->stage->gpu.compute / 100, minor = b->stage->gpu.compute % 100;
    const int64_t mib = pl_gpu_memory_mib(&b->stage->gpu);
    json_t *base = json_array(), *same;

    if (products != NULL)
        pl_pod_add(b, base, pl_pod_expression(b, PL_GPU_PRODUCT, "In", products));
    if (mib > 0)
        pl_pod_add(b, base,
                   pl_pod_expression(b, PL_GPU_MEMORY, "Gt", json_pack("[o]", json_sprintf("%lld", (long long)mib - 1))));
    if (b->stage->gpu.compute == 0) {
        pl_pod_add(b, b->alternatives, base);
        return;
    }
    same = minor > 0 ? json_copy(base) : NULL;
    pl_pod_add(b, base,
               pl_pod_expression(b, PL_GPU_COMPUTE "major", "Gt",
                                 json_pack("[o]", json_sprintf("%u", minor > 0 ? major : major - 1))));
    pl_pod_add(b, b->alternatives, base);
    if (same == NULL)
        return;
    pl_pod_add(b, same, pl_pod_expression(b, PL_GPU_COMPUTE "major", "In", json_pack("[o]", json_sprintf("%u", major))));
    pl_pod_add(b, same, pl_pod_expression(b, PL_GPU_COMPUTE "minor", "Gt", json_pack("[o]", json_sprintf("%u", minor - 1))));
    pl_pod_add(b, b->alternatives, same);
}

/* True if a device with these values meets the stage's request; a value of 0 is unknown, and is not compared. */
static bool suffices(const struct pl_gpu *gpu, int64_t memory_mib, unsigned compute)
{
    return (memory_mib == 0 || memory_mib >= pl_gpu_memory_mib(gpu)) && (compute == 0 || compute >= gpu->compute);
}

/* True if the product, a value of a cloud's label, is known to meet the stage's request. For Karpenter's label
 * the memory is that of Karpenter's other label, or unknown. */
static bool will_do(const struct pod_build *b, const char *label, const char *product)
{
    const struct pl_gpu *gpu = &b->stage->gpu;
    const bool karpenter = pl_streq(label, KARPENTER_NAME), memory = gpu->memory_bytes > 0 && !karpenter;
    struct pl_device device;

    for (size_t i = 0; i < b->cluster->n_products && karpenter; i++) {
        const struct pl_gpu_product *p = &b->cluster->products[i];

        if (pl_streq(p->label, label) && pl_streq(p->value, product) && !suffices(gpu, p->memory_mib, 0))
            return false;
    }
    if (!memory && gpu->compute == 0)
        return true;
    return pl_device_named(product, &device) && (!memory || device.memory_mib >= pl_gpu_memory_mib(gpu)) &&
           device.compute >= gpu->compute;
}

/* True if one of `products` (NULL = any that the stage's mode of sharing accepts), values of the label of GPU
 * Feature Discovery, meets the stage's request, or may meet it. */
static bool discovered_will_do(const struct pod_build *b, const json_t *products)
{
    const struct pl_gpu *gpu = &b->stage->gpu;

    for (size_t i = 0; i < b->cluster->n_products; i++) {
        const struct pl_gpu_product *p = &b->cluster->products[i];
        const struct pl_device device = pl_device_of(p);
        bool meant = products == NULL && (gpu->share.mode != PL_SHARE_NONE || !is_part(p->value));

        for (size_t k = 0; k < json_array_size(products) && !meant; k++)
            meant = pl_streq(json_string_value(json_array_get(products, k)), p->value);
        if (meant && pl_streq(p->label, PL_GPU_PRODUCT) && suffices(gpu, device.memory_mib, device.compute))
            return true;
    }
    return false;
}

/* Adds the node affinity alternative for nodes that have only a cloud's label with the product. False: no
 * product meets the request. */
static bool want_named(struct pod_build *b, const char *label, json_t *products)
{
    const int64_t mib = pl_gpu_memory_mib(&b->stage->gpu);
    json_t *values = json_array(), *all = json_array(), *one;
    size_t i;

    json_array_foreach(products, i, one)
    {
        if (will_do(b, label, json_string_value(one)))
            pl_pod_add(b, values, json_incref(one));
    }
    json_decref(products);
    if (json_array_size(values) == 0) {
        json_decref(values);
        json_decref(all);
        return false;
    }
    pl_pod_add(b, all, pl_pod_expression(b, label, "In", values));
    if (mib > 0) { /* nodes with GPU Feature Discovery's memory label match the alternatives of want_discovered */
        pl_pod_add(b, all, pl_pod_expression(b, PL_GPU_MEMORY, "DoesNotExist", NULL));
        if (pl_streq(label, KARPENTER_NAME))
            pl_pod_add(b, all,
                       pl_pod_expression(b, PL_KARPENTER_MEM, "Gt", json_pack("[o]", json_sprintf("%lld", (long long)mib - 1))));
    }
    pl_pod_add(b, b->alternatives, all);
    return true;
}

/* Makes the error for memory or compute capability that no known product has; the error lists the known
 * products. */
static int no_device(const struct pod_build *b, struct pl_err *err)
{
    const struct pl_gpu *gpu = &b->stage->gpu;
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    bool labelled = true;
    int r = pl_buf_add_str(&text, "no GPU of the cluster is known to have", err);

    if (r == 0 && gpu->memory_bytes > 0)
        r = pl_buf_addf(&text, err, " %lld MiB%s", (long long)pl_gpu_memory_mib(gpu), gpu->compute > 0 ? " and" : "");
    if (r == 0 && gpu->compute > 0)
        r = pl_buf_addf(&text, err, " compute capability %u.%u", gpu->compute / 100, gpu->compute % 100);
    for (size_t i = 0, n = 0; i < b->cluster->n_products && n < 10 && r == 0; i++) {
        const struct pl_gpu_product *p = &b->cluster->products[i];

        if (named_before(b, i))
            continue;
        labelled = labelled && p->memory_mib > 0 && p->compute > 0;
        r = pl_buf_add_str(&text, n++ > 0 ? "," : ";", err);
        r = r < 0 ? r : pl_device_describe(p, &text, err);
    }
    if (r == 0 && !labelled)
        r = pl_buf_add_str(&text,
                           "; install GPU Feature Discovery, which labels nodes with both (" PL_GPU_MEMORY ", " PL_GPU_COMPUTE
                           "major and minor), or name gpu.product",
                           err);
    if (r < 0 || pl_buf_str(&text) == NULL)
        return r < 0 ? r : pl_err_nomem(err);
    return pl_err_field(err, pl_err_set(err, PL_EUNAVAILABLE, "%s", (const char *)text.data),
                        gpu->compute > 0 ? "gpu.compute" : "gpu.memory");
}

/* Returns those known values of a node label that the stage accepts: those that match its globs, or all if it
 * has no globs. */
static json_t *named(struct pod_build *b, const char *label)
{
    if (b->stage->gpu.n_product > 0)
        return wanted_products(b, label);
    return products_of(b, label, "*", b->stage->gpu.share.mode != PL_SHARE_NONE);
}

/* Adds the node affinity alternatives that use this label. Returns true if the label has a known value
 * that the stage accepts. Sets `*will` to true if a product with such a value meets, or may meet, the stage's
 * request. */
static bool want_by(struct pod_build *b, const char *label, bool *will)
{
    const bool globs = b->stage->gpu.n_product > 0, discovered = pl_streq(label, PL_GPU_PRODUCT);
    json_t *products = discovered && !globs ? NULL : named(b, label);

    if (products != NULL && json_array_size(products) == 0) {
        json_decref(products);
        return false;
    }
    if (discovered) {
        *will = discovered_will_do(b, products) || *will;
        want_discovered(b, products);
    } else if (!want_named(b, label, products)) {
        return true;
    } else {
        *will = true;
    }
    prefer_products(b, label);
    return true;
}

/* Adds node affinity alternatives for each product label, because a node has either GPU Feature Discovery's
 * label or its cloud's. */
static int want_device(struct pod_build *b, struct pl_err *err)
{
    const struct pl_gpu *gpu = &b->stage->gpu;
    bool any = false, will = false;

    if (gpu->n_product == 0 && gpu->memory_bytes == 0 && gpu->compute == 0)
        return 0;
    for (size_t i = 0; i < b->cluster->n_products; i++)
        if (!label_seen_before(b, i))
            any = want_by(b, b->cluster->products[i].label, &will) || any;
    if (will)
        return 0;
    if (gpu->n_product > 0 && !any)
        return no_product(b, err);
    if (any)
        return no_device(b, err);
    want_discovered(b, NULL); /* nothing is known about the cluster's nodes: rely on GPU Feature Discovery */
    return 0;
}

/* ---- modes of sharing ---- */

/* Requests whole devices, and excludes nodes that offer parts of devices under the same resource name. */
static int share_none(struct pod_build *b, struct pl_err *err)
{
    json_t *parts = json_array();

    limit(b, resource_of(b), b->stage->gpu.count);
    if (is_nvidia(b)) {
        pl_pod_add(b, b->require, pl_pod_expression(b, PL_GPU_STRATEGY, "NotIn", json_pack("[ss]", "time-slicing", "mps")));
        for (size_t i = 0; i < b->cluster->n_products; i++)
            if (pl_streq(b->cluster->products[i].label, PL_GPU_PRODUCT) && is_part(b->cluster->products[i].value))
                pl_pod_add(b, parts, json_string(b->cluster->products[i].value));
    }
    if (json_array_size(parts) > 0)
        pl_pod_add(b, b->require, pl_pod_expression(b, PL_GPU_PRODUCT, "NotIn", parts));
    else
        json_decref(parts);
    return want_device(b, err);
}

/* Returns the name of the resource for a time-sliced or MPS-shared device: device plugins may rename it to
 * "<resource>.shared". The nodes that share by this strategy decide the name; if there are none, the
 * resources of any nodes do. The renamed resource is preferred. */
static const char *turns_of(const struct pod_build *b, const char *strategy, const char *shared)
{
    const char *found = NULL;

    for (size_t i = 0; i < b->cluster->n_turns && is_nvidia(b); i++) {
        const struct pl_gpu_turns *t = &b->cluster->turns[i];

        if (!pl_streq(t->strategy, strategy))
            continue;
        if (pl_streq(t->resource, shared))
            return shared;
        if (pl_streq(t->resource, resource_of(b)))
            found = resource_of(b);
    }
    if (found == NULL)
        found = offers(b, shared) ? shared : resource_of(b);
    return found;
}

static int share_turns(struct pod_build *b, const char *strategy, struct pl_err *err)
{
    char shared[400];

    (void)snprintf(shared, sizeof(shared), "%.390s.shared", resource_of(b));
    limit(b, turns_of(b, strategy, shared), b->stage->gpu.count);
    pl_pod_tolerate(b, resource_of(b));
    if (is_nvidia(b))
        pl_pod_add(b, b->require, pl_pod_expression(b, PL_GPU_STRATEGY, "In", json_pack("[s]", strategy)));
    return want_device(b, err);
}

static int share_time_slicing(struct pod_build *b, struct pl_err *err)
{
    return share_turns(b, "time-slicing", err);
}

static int share_mps(struct pod_build *b, struct pl_err *err)
{
    const struct pl_gpu_share *share = &b->stage->gpu.share;
    char text[64];

    if (share->memory_bytes > 0) {
        (void)snprintf(text, sizeof(text), "0=%lldM", (long long)(share->memory_bytes >> 20));
        pl_pod_variable(b, b->env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", text);
    }
    if (share->threads > 0) {
        (void)snprintf(text, sizeof(text), "%u", share->threads);
        pl_pod_variable(b, b->env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", text);
    }
    return share_turns(b, "mps", err);
}

/* Requests devices with a MIG profile. With the device plugin's strategy `mixed`, each profile is a resource
 * of its own. With `single`, all devices of a node have one profile, the resource is that of whole GPUs, and
 * the node's product label names the profile. */
static int share_mig(struct pod_build *b, struct pl_err *err)
{
    const char *profile = b->stage->gpu.share.profile, *plus = strchr(profile, '+');
    int n = plus != NULL ? (int)(plus - profile) : (int)strlen(profile);
    char mixed[128], single[128];
    json_t *products;

    (void)snprintf(mixed, sizeof(mixed), "nvidia.com/mig-%.*s%s", n, profile, plus != NULL ? ".me" : "");
    (void)snprintf(single, sizeof(single), "*-MIG-%.*s%s", n, profile, plus != NULL ? ".me" : "");
    products = products_of(b, PL_GPU_PRODUCT, single, true);
    if (offers(b, mixed) || json_array_size(products) == 0) {
        json_decref(products);
        limit(b, mixed, b->stage->gpu.count);
    } else {
        limit(b, PL_GPU_RESOURCE, b->stage->gpu.count);
        pl_pod_add(b, b->require, pl_pod_expression(b, PL_GPU_PRODUCT, "In", products));
    }
    pl_pod_tolerate(b, PL_GPU_RESOURCE);
    return want_device(b, err);
}

/* Requests memory of a shared device, converted to the unit that the cluster's nodes use and rounded up. */
static int share_gpu_mem(struct pod_build *b, struct pl_err *err)
{
    const struct pl_gpu_share *share = &b->stage->gpu.share;
    uint64_t amount = share->amount;

    if (share->unit == PL_UNIT_MIB && b->cluster->gpu_mem_unit == PL_UNIT_GIB)
        amount = (amount + 1023) / 1024;
    else if (share->unit == PL_UNIT_GIB && b->cluster->gpu_mem_unit == PL_UNIT_MIB)
        amount *= 1024;
    pl_pod_put(b, b->limits, PL_GPUSHARE_MEM, json_sprintf("%llu", (unsigned long long)amount));
    pl_pod_tolerate(b, PL_GPUSHARE_MEM);
    pl_pod_tolerate(b, PL_GPU_RESOURCE);
    return want_device(b, err);
}

/* ---- resource claims (resource.k8s.io) ---- */

/* Converts a glob to a regular expression in a single-quoted CEL string. */
static int add_regex(struct pl_buf *out, const char *glob, struct pl_err *err)
{
    int r = pl_buf_add_str(out, "(?i)^", err);

    for (; *glob != '\0' && r == 0; glob++) {
        if (*glob == '*')
            r = pl_buf_add_str(out, ".*", err);
        else if (*glob == '?')
            r = pl_buf_add_str(out, ".", err);
        else if (strchr("'\"", *glob) != NULL)
            r = pl_buf_addf(out, err, "\\%c", *glob);
        else if (strchr("\\.+()[]{}^$|", *glob) != NULL)
            r = pl_buf_addf(out, err, "\\\\%s%c", *glob == '\\' ? "\\" : "", *glob);
        else
            r = pl_buf_add_u8(out, (uint8_t)*glob, err);
    }
    return r < 0 ? r : pl_buf_add_str(out, "$", err);
}

static int product_selector(const struct pl_gpu *gpu, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < gpu->n_product && r == 0; i++) {
        r = pl_buf_addf(out, err, "%sdevice.attributes['" DRA_DRIVER "'].productName.matches('", i > 0 ? " || " : "");
        r = r < 0 ? r : add_regex(out, gpu->product[i], err);
        r = r < 0 ? r : pl_buf_add_str(out, "')", err);
    }
    return r;
}

static void add_selector(struct pod_build *b, json_t *selectors, json_t *expression)
{
    pl_pod_add(b, selectors, json_pack("{s:{s:o}}", "cel", "expression", expression));
}

/* Adds the CEL selectors for product, memory and compute capability. */
static int selectors_of(struct pod_build *b, json_t *selectors, struct pl_err *err)
{
    const struct pl_gpu *gpu = &b->stage->gpu;
    _cleanup_(pl_buf_finish) struct pl_buf products = {0};
    int r = product_selector(gpu, &products, err);

    if (r < 0 || pl_buf_str(&products) == NULL)
        return r < 0 ? r : pl_err_nomem(err);
    for (size_t i = 0; i < gpu->share.n_selectors; i++)
        add_selector(b, selectors, json_string(gpu->share.selectors[i]));
    if (products.len > 0)
        add_selector(b, selectors, json_string((const char *)products.data));
    if (gpu->memory_bytes > 0)
        add_selector(b, selectors,
                     json_sprintf("device.capacity['" DRA_DRIVER "'].memory.compareTo(quantity('%lldMi')) >= 0",
                                  (long long)pl_gpu_memory_mib(gpu)));
    if (gpu->compute > 0)
        add_selector(b, selectors,
                     json_sprintf("device.attributes['" DRA_DRIVER "'].cudaComputeCapability.compareTo(semver('%u.%u.0')) >= 0",
                                  gpu->compute / 100, gpu->compute % 100));
    return 0;
}

/* Makes the claim's request object. Up to API version v1beta1, the fields that describe the device are
 * members of the request; since v1beta2, they are members of its object "exactly". */
static json_t *claim_request(struct pod_build *b, json_t *selectors)
{
    json_t *exactly =
        json_pack("{s:s, s:i}", "deviceClassName", b->stage->gpu.share.device_class, "count", (int)b->stage->gpu.count);

    if (json_array_size(selectors) > 0)
        pl_pod_put(b, exactly, "selectors", selectors);
    else
        json_decref(selectors);
    if (!pl_streq(b->cluster->dra, "v1beta1"))
        return json_pack("{s:s, s:o}", "name", "gpu", "exactly", exactly);
    pl_pod_put(b, exactly, "name", json_string("gpu"));
    return exactly;
}

/* Makes the ResourceClaimTemplate. Its name depends only on its content, so that stages with the same request
 * share one. Takes the reference to `spec`. */
static void name_claim(struct pod_build *b, json_t *spec)
{
    char *text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS), name[32], hex[PL_HASH_HEX + 1], api[64];
    json_t *metadata;
    struct pl_hash hash;

    if (text == NULL) {
        json_decref(spec);
        b->lack = true;
        return;
    }
    pl_hash_sha256(text, strlen(text), &hash);
    free(text);
    (void)snprintf(name, sizeof(name), "gpu-%.10s", pl_hash_hex(&hash, hex));
    (void)snprintf(api, sizeof(api), "resource.k8s.io/%.32s", b->cluster->dra);
    metadata = json_pack("{s:s}", "name", name);
    if (b->settings->owner_uid != NULL)
        pl_pod_put(b, metadata, "ownerReferences",
                   json_deep_copy(json_object_get(json_object_get(b->pod, "metadata"), "ownerReferences")));
    b->claim = json_pack("{s:s, s:s, s:o, s:{s:o}}", "apiVersion", api, "kind", "ResourceClaimTemplate", "metadata", metadata,
                         "spec", "spec", spec);
    pl_pod_put(b, b->spec, "resourceClaims", json_pack("[{s:s, s:s}]", "name", "gpu", "resourceClaimTemplateName", name));
}

/* Requests devices with a resource claim (dynamic resource allocation). */
static int share_dra(struct pod_build *b, struct pl_err *err)
{
    json_t *selectors = json_array();
    int r;

    if (b->cluster->dra == NULL) {
        json_decref(selectors);
        return pl_err_field(err,
                            pl_err_set(err, PL_EUNAVAILABLE,
                                       "the cluster does not serve resource.k8s.io: mode \"dra\" needs Kubernetes 1.32 or newer"),
                            "gpu.share.mode");
    }
    r = selectors_of(b, selectors, err);
    if (r < 0) {
        json_decref(selectors);
        return r;
    }
    name_claim(b, json_pack("{s:{s:[o]}}", "devices", "requests", claim_request(b, selectors)));
    pl_pod_put(b, json_object_get(b->main, "resources"), "claims", json_pack("[{s:s}]", "name", "gpu"));
    pl_pod_tolerate(b, PL_GPU_RESOURCE);
    return 0;
}

/* ---- custom requests and presets ---- */

static const char *value_of(const struct pod_build *b, const char *name, size_t n, char count[16])
{
    const struct pl_pairs *values = &b->stage->gpu.share.values;

    for (size_t i = 0; i < values->n; i++)
        if (strlen(values->items[i].key) == n && memcmp(values->items[i].key, name, n) == 0)
            return values->items[i].value;
    (void)snprintf(count, 16, "%u", b->stage->gpu.count);
    return n == 5 && memcmp(name, "count", 5) == 0 ? count : NULL;
}

/* Copies the members of a preset's object. Replaces values of the form ${NAME}; a member whose NAME has no
 * value is left out. */
static void add_row(struct pod_build *b, const json_t *row, json_t *to)
{
    const char *key, *text;
    char count[16];
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)row, key, member)
    {
        text = json_string_value(member);
        if (text != NULL && strncmp(text, "${", 2) == 0 && text[strlen(text) - 1] == '}')
            text = value_of(b, text + 2, strlen(text) - 3, count);
        if (text != NULL)
            pl_pod_put(b, to, key, json_string(text));
    }
}

/* True for labels by which the daemon finds its pods, or by which service meshes decide whether to inject a
 * proxy. */
static bool is_ours(const char *label)
{
    static const char *const known[] = {"app.kubernetes.io/managed-by", "sidecar.istio.io/inject", "linkerd.io/inject"};

    return strncmp(label, PL_POD_LABEL, strlen(PL_POD_LABEL)) == 0 || one_of(label, known, PL_ARRAY_SIZE(known));
}

static void add_pairs(struct pod_build *b, const struct pl_pairs *pairs, json_t *to)
{
    for (size_t i = 0; i < pairs->n; i++)
        if (!is_ours(pairs->items[i].key))
            pl_pod_put(b, to, pairs->items[i].key, json_string(pairs->items[i].value));
}

static bool row_has(const json_t *row, const char *name)
{
    static const char *const objects[] = {"limits", "annotations", "labels"};
    char variable[300];
    const char *key;
    json_t *member;

    (void)snprintf(variable, sizeof(variable), "${%.256s}", name);
    for (size_t i = 0; i < PL_ARRAY_SIZE(objects); i++) {
        json_object_foreach(json_object_get(row, objects[i]), key, member)
        {
            if (json_is_string(member) && pl_streq(json_string_value(member), variable))
                return true;
        }
    }
    return false;
}

static int no_preset(const struct pod_build *b, const json_t *rows, struct pl_err *err)
{
    char known[400] = "";
    size_t n = 0;
    const char *key;
    json_t *row;

    json_object_foreach((json_t *)(uintptr_t)rows, key, row)
    {
        if (n < sizeof(known) - 1)
            n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%.60s", n > 0 ? ", " : "", key);
    }
    return pl_err_field(
        err, pl_err_set(err, PL_EINVAL, "there is no preset \"%s\"; known presets: %s", b->stage->gpu.share.preset, known),
        "gpu.share.preset");
}

/* Applies the preset that the stage names, with its values. */
static int use_preset(struct pod_build *b, const json_t *rows, struct pl_err *err)
{
    const struct pl_gpu_share *share = &b->stage->gpu.share;
    const json_t *row = json_object_get(rows, share->preset), *scheduler = json_object_get(row, "scheduler");

    if (!json_is_object(row))
        return no_preset(b, rows, err);
    for (size_t i = 0; i < share->values.n; i++)
        if (!row_has(row, share->values.items[i].key))
            return pl_err_field(err,
                                pl_err_set(err, PL_EINVAL, "preset \"%s\" does not use a value \"%s\"", share->preset,
                                           share->values.items[i].key),
                                "gpu.share.values");
    add_row(b, json_object_get(row, "limits"), b->limits);
    add_row(b, json_object_get(row, "annotations"), b->annotations);
    add_row(b, json_object_get(row, "labels"), b->labels);
    if (json_is_string(scheduler))
        pl_pod_put(b, b->spec, "schedulerName", json_deep_copy(scheduler));
    return 0;
}

json_t *pl_pod_presets(const struct pl_pod_settings *settings)
{
    json_t *rows = json_loadb((const char *)pl_gpu_presets_files[0].data, pl_gpu_presets_files[0].size, 0, NULL);

    if (rows != NULL && settings->gpu_presets != NULL &&
        json_object_update(rows, (json_t *)(uintptr_t)settings->gpu_presets) < 0) {
        json_decref(rows);
        return NULL;
    }
    return rows;
}

/* Applies a preset, and on top of it the stage's own limits, annotations, labels and scheduler. */
static int share_custom(struct pod_build *b, struct pl_err *err)
{
    const struct pl_gpu_share *share = &b->stage->gpu.share;
    json_t *rows = pl_pod_presets(b->settings), *member;
    const char *key;
    int r = 0;

    if (rows == NULL)
        b->lack = true;
    else if (share->preset != NULL)
        r = use_preset(b, rows, err);
    json_decref(rows);
    add_pairs(b, &share->limits, b->limits);
    add_pairs(b, &share->annotations, b->annotations);
    add_pairs(b, &share->labels, b->labels);
    if (share->scheduler != NULL)
        pl_pod_put(b, b->spec, "schedulerName", json_string(share->scheduler));
    json_object_foreach(b->limits, key, member)
    {
        if (strchr(key, '/') != NULL)
            pl_pod_tolerate(b, key);
    }
    pl_pod_tolerate(b, PL_GPU_RESOURCE);
    return r < 0 ? r : want_device(b, err);
}

int pl_pod_gpu(struct pod_build *b, struct pl_err *err)
{
    static int (*const modes[])(struct pod_build * b, struct pl_err * err) = {
        [PL_SHARE_NONE] = share_none,    [PL_SHARE_TIME_SLICING] = share_time_slicing, [PL_SHARE_MPS] = share_mps,
        [PL_SHARE_MIG] = share_mig,      [PL_SHARE_GPU_MEM] = share_gpu_mem,           [PL_SHARE_DRA] = share_dra,
        [PL_SHARE_CUSTOM] = share_custom};

    pl_pod_put(b, b->annotations, "cluster-autoscaler.kubernetes.io/safe-to-evict", json_string("false"));
    pl_pod_put(b, b->annotations, "karpenter.sh/do-not-disrupt", json_string("true"));
    return modes[b->stage->gpu.share.mode](b, err);
}

/* Labels that nodes with GPUs usually have, used if none were seen. */
static const char *const usual_labels[] = {"nvidia.com/gpu.present", "cloud.google.com/gke-accelerator",
                                           "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name",
                                           "kubernetes.azure.com/accelerator"};

void pl_pod_cpu(struct pod_build *b)
{
    const char *const *labels = b->cluster->n_gpu_labels > 0 ? b->cluster->gpu_labels : usual_labels;
    size_t n = b->cluster->n_gpu_labels > 0 ? b->cluster->n_gpu_labels : PL_ARRAY_SIZE(usual_labels);
    json_t *none;

    pl_pod_variable(b, b->env, "NVIDIA_VISIBLE_DEVICES",
                    "void"); /* an image with "all" would see every GPU where NVIDIA's runtime is the default */
    if (b->settings->cpu_on_gpu_nodes == PL_CPU_ANYWHERE)
        return;
    none = b->settings->cpu_on_gpu_nodes == PL_CPU_NEVER_ON_GPU ? json_incref(b->require) : json_array();
    for (size_t i = 0; i < n; i++)
        pl_pod_add(b, none, pl_pod_expression(b, labels[i], "DoesNotExist", NULL));
    if (b->settings->cpu_on_gpu_nodes == PL_CPU_NEVER_ON_GPU)
        json_decref(none);
    else
        pl_pod_add(b, b->prefer, json_pack("{s:i, s:{s:o}}", "weight", 100, "preference", "matchExpressions", none));
}
