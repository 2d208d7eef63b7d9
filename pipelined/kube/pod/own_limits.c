/* own_limits.c: compares as the API server's admission does (LimitRanger, ResourceQuota): a limit that a container does
 * not have is the LimitRange's default. */
#include "pipelined/kube/pod/own_limits.h"

#include "pipelined/kube/pod/pod_internal.h"
#include "pipelined/text/json_text.h"
#include "pipelined/text/quantity.h"

#include <stdio.h>

#define LOWER_MEMORY "Lower kubernetes.agent_memory, or let the namespace allow more"
#define RAISE_MEMORY "Raise kubernetes.agent_memory, a quarter of which is requested, or lower the min of the LimitRange"
#define OTHER        "Change it, or the container's resources by kubernetes.pod_template"

static const char *const resources[] = {"memory", "cpu"};

/* Reads the quantity of a resource: bytes, or thousandths of a CPU. False: there is none, or no quantity. */
static bool read_amount(const json_t *amounts, const char *resource, bool cpu, int64_t *ret, const char **ret_text)
{
    const char *text = pl_json_str(amounts, resource);

    *ret_text = text;
    *ret = 0;
    if (text[0] == '0' && text[1] == '\0')
        return true;
    return text[0] != '\0' && (cpu ? pl_quantity_cpu(text, ret, NULL) : pl_quantity_bytes(text, ret, NULL)) == 0;
}

static bool is_memory(const char *resource)
{
    return pl_streq(resource, "memory");
}

/* Request and limit of one container of pipelined for one resource. */
struct asked {
    const char *container, *resource;
    bool has_limit, has_request;
    int64_t limit, request;
    const char *limit_text, *request_text;
};

static void read_asked(const json_t *container, const char *resource, const json_t *defaults, struct asked *ret)
{
    const json_t *all = json_object_get(container, "resources");
    const bool cpu = !is_memory(resource);

    *ret = (struct asked){.container = pl_json_str(container, "name"), .resource = resource};
    ret->has_request = read_amount(json_object_get(all, "requests"), resource, cpu, &ret->request, &ret->request_text);
    ret->has_limit = read_amount(json_object_get(all, "limits"), resource, cpu, &ret->limit, &ret->limit_text) ||
                     read_amount(defaults, resource, cpu, &ret->limit, &ret->limit_text);
}

static void PL_PRINTF(3, 4) say(struct pl_own_limits *to, const char *remedy, const char *fmt, ...);
static void say(struct pl_own_limits *to, const char *remedy, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(to->why, sizeof to->why, fmt, ap);
    va_end(ap);
    to->remedy = remedy;
}

/* True for a container that pipelined adds to every pod. */
static bool is_ours(const json_t *container)
{
    static const char *const names[] = {"agent", "install", PL_POD_CACHE_OWNER};

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        if (pl_streq(pl_json_str(container, "name"), names[i]))
            return true;
    return false;
}

/* Calls `refuses` for each of pipelined's containers and each resource, until it returns true. */
static bool any(const json_t *pod, const json_t *rule, const json_t *defaults,
                bool (*refuses)(const json_t *rule, const struct asked *asked, struct pl_own_limits *ret),
                struct pl_own_limits *ret)
{
    static const char *const lists[] = {"containers", "initContainers"};
    const json_t *container;
    struct asked asked;
    size_t i;

    for (size_t k = 0; k < PL_ARRAY_SIZE(lists); k++) {
        json_array_foreach(json_object_get(json_object_get(pod, "spec"), lists[k]), i, container)
        {
            for (size_t n = 0; n < PL_ARRAY_SIZE(resources) && is_ours(container); n++) {
                read_asked(container, resources[n], defaults, &asked);
                if (refuses(rule, &asked, ret))
                    return true;
            }
        }
    }
    return false;
}

/* ---- LimitRange ---- */

/* `limit`, here and below: one entry of a LimitRange's limits, of type Container or Pod. */
static bool exceeds_max(const json_t *limit, const struct asked *a, struct pl_own_limits *ret)
{
    const bool cpu = !is_memory(a->resource), over_limit = a->has_limit, over = a->has_request || a->has_limit;
    const char *most_text, *what = pl_streq(pl_json_str(limit, "type"), "Pod") ? "pod" : "container";
    int64_t most;

    if (!over || !read_amount(json_object_get(limit, "max"), a->resource, cpu, &most, &most_text) ||
        (over_limit ? a->limit : a->request) <= most)
        return false;
    say(ret, cpu ? OTHER : LOWER_MEMORY, "allows a %s at most %.40s of %s, and container %s %s %.40s", what, most_text,
        a->resource, a->container, over_limit ? "has a limit of" : "requests", over_limit ? a->limit_text : a->request_text);
    return true;
}

/* A container's limit may be the LimitRange's default, and then be less than pipelined's request. */
static bool exceeds_limit(const struct asked *a, struct pl_own_limits *ret)
{
    if (!a->has_request || !a->has_limit || a->request <= a->limit)
        return false;
    say(ret, OTHER, "gives containers a limit of %.40s %s, and container %s requests %.40s", a->limit_text, a->resource,
        a->container, a->request_text);
    return true;
}

static bool is_below_min(const json_t *limit, const struct asked *a, struct pl_own_limits *ret)
{
    const bool cpu = !is_memory(a->resource);
    const char *least_text;
    int64_t least;

    if (!a->has_request || !read_amount(json_object_get(limit, "min"), a->resource, cpu, &least, &least_text) ||
        a->request >= least)
        return false;
    say(ret, cpu ? OTHER : RAISE_MEMORY, "demands of a container at least %.40s of %s, and container %s requests %.40s",
        least_text, a->resource, a->container, a->request_text);
    return true;
}

static bool exceeds_ratio(const json_t *limit, const struct asked *a, struct pl_own_limits *ret)
{
    const char *most_text;
    int64_t most_milli;

    if (!a->has_request || !a->has_limit ||
        !read_amount(json_object_get(limit, "maxLimitRequestRatio"), a->resource, true, &most_milli, &most_text) ||
        (double)a->limit * 1000 <= (double)most_milli * (double)a->request)
        return false;
    say(ret, OTHER, "allows a limit of %s of at most %.40s times the request, and container %s has %.40s and requests %.40s",
        a->resource, most_text, a->container, a->limit_text, a->request_text);
    return true;
}

/* For type Pod only the maximum is compared: the pod's other containers count as well. */
static bool limit_refuses(const json_t *limit, const struct asked *a, struct pl_own_limits *ret)
{
    if (exceeds_max(limit, a, ret))
        return true;
    return pl_streq(pl_json_str(limit, "type"), "Container") &&
           (exceeds_limit(a, ret) || is_below_min(limit, a, ret) || exceeds_ratio(limit, a, ret));
}

/* Puts the object's kind and name before the reason. */
static void name_object(const char *kind, const json_t *object, struct pl_own_limits *ret)
{
    char why[sizeof ret->why];

    memcpy(why, ret->why, sizeof why);
    (void)snprintf(ret->why, sizeof ret->why, "%s %.63s %.300s", kind, pl_json_str(json_object_get(object, "metadata"), "name"),
                   why);
}

bool pl_own_limits_range(const json_t *range, const json_t *pod, struct pl_own_limits *ret)
{
    const json_t *limit;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(range, "spec"), "limits"), i, limit)
    {
        const char *type = pl_json_str(limit, "type");

        if (!pl_streq(type, "Container") && !pl_streq(type, "Pod"))
            continue;
        if (any(pod, limit, json_object_get(limit, "default"), limit_refuses, ret)) {
            name_object("LimitRange", range, ret);
            return true;
        }
    }
    return false;
}

/* ---- ResourceQuota ---- */

static bool quota_refuses(const json_t *hard, const struct asked *a, struct pl_own_limits *ret)
{
    const struct {
        const char *prefix;
        bool has;
        int64_t amount;
        const char *text, *verb;
    } sums[] = {
        {"limits.", a->has_limit, a->limit, a->limit_text, "has a limit of"},
        {"requests.", a->has_request, a->request, a->request_text, "requests"},
        {"", a->has_request, a->request, a->request_text, "requests"},
    };
    const bool cpu = !is_memory(a->resource);

    for (size_t i = 0; i < PL_ARRAY_SIZE(sums); i++) {
        char key[40];
        const char *text;
        int64_t most;

        (void)snprintf(key, sizeof key, "%s%s", sums[i].prefix, a->resource);
        if (!sums[i].has || !read_amount(hard, key, cpu, &most, &text) || sums[i].amount <= most)
            continue;
        say(ret, cpu ? OTHER : LOWER_MEMORY, "allows all pods together %.40s of %s, and container %s of each %s %.40s", text, key,
            a->container, sums[i].verb, sums[i].text);
        return true;
    }
    return false;
}

bool pl_own_limits_quota(const json_t *quota, const json_t *pod, struct pl_own_limits *ret)
{
    const json_t *spec = json_object_get(quota, "spec");

    if (json_array_size(json_object_get(spec, "scopes")) > 0 || json_object_get(spec, "scopeSelector") != NULL ||
        !any(pod, json_object_get(spec, "hard"), NULL, quota_refuses, ret))
        return false;
    name_object("ResourceQuota", quota, ret);
    return true;
}
