/* Checks of a cluster: API server, rights, namespace, ConfigMaps, nodes, runtime and device classes,
 * quotas. */
#include "pipelined/cli/doctor/doctor.h"

#include "pipelined/cli/support/show.h"

#include "pipelined/kube/nodes/node_capacity.h"
#include "pipelined/kube/pod/own_limits.h"
#include "storage/base/clock.h"

#include <stdio.h>

#define OLDEST_MINOR 25
#define FIRST_MS     15000 /* time limit of the first request to the API server */
#define PAGE         500   /* most nodes or pods that one request returns */
#define APPLY        "kubectl apply -k pipelined/deploy/cluster"

/* ---- API server ---- */

/* Requests the server's version, without retries because a user is waiting. */
static int get_version(struct pl_doctor *d, json_t **ret, struct pl_err *err)
{
    struct pl_kube_call call = {.method = "GET", .path = "/version", .once = true, .deadline_ms = FIRST_MS};
    int r = pl_kube_client_run(d->client, &call, err);

    if (r == 0) {
        *ret = json_loadb((const char *)call.reply.data, call.reply.len, 0, NULL);
        r = *ret ? 0 : pl_err_set(err, PL_EPROTO, "%s: the answer to /version is not JSON", pl_kube_client_name(d->client));
    }
    pl_kube_call_finish(&call);
    return r;
}

static int check_version(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *version = NULL;
    const char *name = pl_kube_client_name(d->client);
    struct pl_err why = {0};
    int minor, r = get_version(d, &version, &why);

    if (r == PL_EFORBIDDEN)
        return pl_doctor_say(d, PL_DOCTOR_WARN, "api server", NULL, err, "%s: %s", name, why.msg);
    if (r < 0) {
        r = pl_doctor_say(d, PL_DOCTOR_FAIL, "api server", "Check the kubeconfig's server and user: kubectl version", err, "%s",
                          why.msg);
        return r < 0 ? r : pl_err_set(err, PL_EIO, "the API server does not answer");
    }
    minor = atoi(pl_show_text_at(version, "minor"));
    return pl_doctor_say(d, minor < OLDEST_MINOR ? PL_DOCTOR_WARN : PL_DOCTOR_OK, "api server",
                         minor < OLDEST_MINOR ? "Versions before 1.25 are not tested" : NULL, err, "%s is Kubernetes %s", name,
                         pl_show_text_at(version, "gitVersion"));
}

static int check_groups(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *groups = NULL;
    int code, r = pl_doctor_get(d, "/apis", &groups, &code, err);

    if (r < 0)
        return r;
    pl_facts_groups(groups, &d->facts, d->dra);
    if (!d->facts.openshift)
        return 0;
    return pl_doctor_say(d, PL_DOCTOR_OK, "openshift", NULL, err,
                         "its security context constraints choose the users and groups of pods");
}

/* ---- rights ---- */

/* Checks which requests to the API server the account may make, and prints a line for each missing
 * permission; pl_kube_access_ask writes these lines. The first line is a FAIL if the account may not create
 * pods. */
static int check_access(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf lines = {0};
    const char *text;
    size_t n;
    int r = pl_kube_access_ask(d->client, d->space, &d->access, &lines, err);

    if (r == PL_EFORBIDDEN) {
        for (size_t i = 0; i < PL_KUBE_FEATURE_COUNT; i++)
            d->access.on[i] = true;
        return pl_doctor_say(
            d, PL_DOCTOR_WARN, "rights", NULL, err,
            "this account may not query its own permissions: a missing permission is only noticed when it is needed");
    }
    if (r < 0)
        return r;
    (void)pl_kube_questions(&n);
    text = lines.len ? pl_buf_str(&lines) : "";
    if (!text)
        return pl_err_nomem(err);
    if (!*text)
        return pl_doctor_say(d, PL_DOCTOR_OK, "rights", NULL, err, "all %zu requests are allowed in namespace %s", n, d->space);
    for (const char *p = text; *p && r == 0; p += strcspn(p, "\n"), p += *p == '\n') {
        const bool fatal = p == text && !d->access.on[PL_KUBE_MAY_PODS];

        r = pl_doctor_say(d, fatal ? PL_DOCTOR_FAIL : PL_DOCTOR_WARN, "rights",
                          fatal ? "Bind the Role of pipelined/deploy/base/access.yaml to this account: " APPLY : NULL, err,
                          "%.*s", (int)strcspn(p, "\n"), p);
    }
    return r;
}

/* ---- namespace ---- */

static int check_space(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *space = NULL;
    const char *level, *phase;
    char path[300];
    int code, r;

    snprintf(path, sizeof path, "/api/v1/namespaces/%.253s", d->space);
    r = pl_doctor_get(d, path, &space, &code, err);
    if (r < 0)
        return r;
    d->no_space = code == PL_ENOTFOUND;
    if (d->no_space)
        return pl_doctor_say(d, PL_DOCTOR_FAIL, "namespace", "Create it with all that it needs: " APPLY, err, "%s does not exist",
                             d->space);
    if (!space)
        return pl_doctor_say(d, PL_DOCTOR_WARN, "namespace",
                             "Allow \"get namespaces\" in it; until then pods are made as for a namespace that admits all", err,
                             "%s may not be read, so its level of Pod Security is not known", d->space);
    phase = pl_show_text_at(space, "status.phase");
    if (pl_streq(phase, "Terminating"))
        return pl_doctor_say(d, PL_DOCTOR_FAIL, "namespace", "Wait until it is gone, then create it again: " APPLY, err,
                             "%s is being deleted", d->space);
    d->facts.level = pl_facts_level(space);
    level = pl_facts_level_name(d->facts.level);
    if (d->asked.node_cache && d->facts.level != PL_LEVEL_PRIVILEGED)
        return pl_doctor_say(d, PL_DOCTOR_WARN, "namespace",
                             "Add the component node-cache to the deployment, or set no node_cache", err,
                             "%s enforces \"%s\", which does not admit the node folder %s: workers run without this cache",
                             d->space, level, d->asked.node_cache);
    return pl_doctor_say(d, PL_DOCTOR_OK, "namespace", NULL, err, "%s, Pod Security %s", d->space,
                         d->facts.level == PL_LEVEL_PRIVILEGED ? "admits everything" : level);
}

/* Checks that a ConfigMap exists and that it has the key. Does nothing if no ConfigMap is given. */
static int check_map(struct pl_doctor *d, const char *what, const char *name, const char *key, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *map = NULL;
    char path[600];
    int code, r;

    if (!name)
        return 0;
    snprintf(path, sizeof path, "/api/v1/namespaces/%.253s/configmaps/%.253s", d->space, name);
    r = pl_doctor_get(d, path, &map, &code, err);
    if (r < 0)
        return r;
    if (code == PL_EFORBIDDEN)
        return pl_doctor_say(d, PL_DOCTOR_WARN, what, "Allow \"get configmaps\"", err, "ConfigMap %s may not be read", name);
    if (!map)
        return pl_doctor_say(d, PL_DOCTOR_FAIL, what, "Create it: " APPLY, err, "ConfigMap %s is not in namespace %s", name,
                             d->space);
    if (key && !json_object_get(pl_show_at(map, "data"), key))
        return pl_doctor_say(d, PL_DOCTOR_FAIL, what, "Put the certificates there, in PEM", err, "ConfigMap %s has no key %s",
                             name, key);
    return pl_doctor_say(d, PL_DOCTOR_OK, what, NULL, err, "ConfigMap %s", name);
}

/* ---- nodes ---- */

struct nodes {
    struct pl_node_capacity *offer;
    unsigned all, ready, amd64, arm64, other;
};

static void count_node(struct nodes *n, const json_t *node)
{
    const char *arch = pl_show_text_at(node, "status.nodeInfo.architecture");
    const json_t *condition;
    size_t i;

    n->all++;
    if (pl_streq(arch, "amd64"))
        n->amd64++;
    else if (pl_streq(arch, "arm64"))
        n->arm64++;
    else
        n->other++;
    json_array_foreach((json_t *)(uintptr_t)pl_show_at(node, "status.conditions"), i, condition)
    {
        n->ready += pl_streq(pl_show_text_at(condition, "type"), "Ready") &&
                    pl_streq(pl_show_text_at(condition, "status"), "True") &&
                    !json_is_true(pl_show_at(node, "spec.unschedulable"));
    }
}

static int take_node(struct nodes *n, const json_t *item, struct pl_err *err)
{
    int r = pl_node_capacity_node(n->offer, item, pl_clock_wall_us() / 1000, err);

    count_node(n, item);
    return r == PL_ELIMIT ? 0 : r;
}

static int take_pod(struct nodes *n, const json_t *item, struct pl_err *err)
{
    int r = pl_node_capacity_pod(n->offer, item, err);

    return r == PL_ELIMIT ? 0 : r;
}

/* Requests a list page by page and calls `take` for each of its items. */
static int each(struct pl_doctor *d, const char *path, struct nodes *n,
                int (*take)(struct nodes *n, const json_t *item, struct pl_err *err), struct pl_err *err)
{
    char next[2048] = "", at[2300];
    int r;

    do {
        _cleanup_(json_decrefp) json_t *page = NULL;
        const json_t *item;
        size_t i;

        snprintf(at, sizeof at, "%s?limit=%d%s%s", path, PAGE, *next ? "&continue=" : "", next);
        r = pl_kube_client_get(d->client, at, &page, err);
        json_array_foreach(json_object_get(page, "items"), i, item)
        {
            r = r < 0 ? r : take(n, item, err);
        }
        snprintf(next, sizeof next, "%s", pl_show_text_at(page, "metadata.continue"));
    } while (r == 0 && *next);
    return r;
}

static bool is_for(const char *arch, const char *name)
{
    return !arch || strstr(arch, name) != NULL;
}

static int say_arch(struct pl_doctor *d, const struct nodes *n, struct pl_err *err)
{
    const char *arch = d->asked.arch;
    unsigned others = (is_for(arch, "amd64") ? 0 : n->amd64) + (is_for(arch, "arm64") ? 0 : n->arm64) + n->other;

    if (!arch && n->amd64 && n->arm64)
        return pl_doctor_say(d, PL_DOCTOR_WARN, "architectures",
                             "Set kubernetes.arch to the architectures of the images of pipelined and of the stages", err,
                             "%u nodes are amd64 and %u arm64: pods go to both", n->amd64, n->arm64);
    if (n->all && others == n->all)
        return pl_doctor_say(d, PL_DOCTOR_FAIL, "architectures", "Build the image for the nodes' architecture (--platform)", err,
                             "no node is %s", arch ? arch : "amd64 or arm64");
    if (others)
        return pl_doctor_say(d, PL_DOCTOR_WARN, "architectures", NULL, err,
                             "%u of %u nodes have another architecture and get no pods", others, n->all);
    return pl_doctor_say(d, PL_DOCTOR_OK, "architectures", NULL, err, "%s",
                         n->arm64 ? n->amd64 ? "amd64, arm64" : "arm64" : "amd64");
}

/* Reports the nodes' GPUs. Only an error message of pl_node_capacity_has contains the list of GPUs: if a
 * request needs a resource that no node has, the message ends with "known: " and that list. */
static int say_gpus(struct pl_doctor *d, struct nodes *n, struct pl_err *err)
{
    const struct pl_node_capacity_request nobody = {.n = 1, .extended = {{"pipelined.io/none", 1}}};
    char why[PL_NODE_CAPACITY_WHY_BYTES];
    const char *known;
    int r = pl_node_capacity_describe(n->offer, &d->facts, err);

    if (r < 0)
        return r;
    (void)pl_node_capacity_has(n->offer, &nobody, why);
    known = strstr(why, "known: ");
    if (!known)
        return pl_doctor_say(d, PL_DOCTOR_OK, "gpus", NULL, err,
                             "none: stages with gpu wait, those with \"required\": false use the CPU");
    return pl_doctor_say(d, PL_DOCTOR_OK, "gpus", NULL, err, "%s", known + strlen("known: "));
}

static int check_nodes(struct pl_doctor *d, struct nodes *n, struct pl_err *err)
{
    int r;

    if (!d->access.on[PL_KUBE_MAY_NODES])
        return 0; /* check_access has already reported that nodes may not be listed */
    r = pl_node_capacity_create(&n->offer, err);
    r = r < 0 ? r : each(d, "/api/v1/nodes", n, take_node, err);
    if (r == 0 && d->access.on[PL_KUBE_MAY_ALL_PODS])
        r = each(d, "/api/v1/pods", n, take_pod, err);
    else if (r == 0)
        pl_node_capacity_without_pods(n->offer);
    if (r < 0)
        return r;
    if (n->ready == 0)
        r = pl_doctor_say(d, PL_DOCTOR_FAIL, "nodes", "kubectl describe nodes; an autoscaler may bring some when pods wait", err,
                          "%u nodes, and none of them is ready for pods", n->all);
    else
        r = pl_doctor_say(d, n->ready < n->all ? PL_DOCTOR_WARN : PL_DOCTOR_OK, "nodes", NULL, err, "%u nodes, %u ready for pods",
                          n->all, n->ready);
    r = r < 0 || !n->all ? r : say_arch(d, n, err);
    return r < 0 ? r : say_gpus(d, n, err);
}

/* ---- runtime and device classes ---- */

/* Writes the names of the items of a list, separated by commas. */
static int names_of(const json_t *items, struct pl_buf *out, struct pl_err *err)
{
    const json_t *item;
    size_t i;
    int r = 0;

    json_array_foreach((json_t *)(uintptr_t)items, i, item)
    {
        r = r < 0 ? r : pl_buf_addf(out, err, "%s%s", i ? ", " : "", pl_show_text_at(item, "metadata.name"));
    }
    return r < 0 ? r : pl_buf_add(out, "", 1, err);
}

static int check_runtime_classes(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf names = {0};
    json_t *list = NULL;
    const json_t *items, *item;
    size_t i;
    int code, r;

    if (!d->access.on[PL_KUBE_MAY_RUNTIME_CLASSES])
        return 0;
    r = pl_doctor_get(d, "/apis/node.k8s.io/v1/runtimeclasses", &list, &code, err);
    d->classes = list;
    items = json_object_get(list, "items");
    d->class_names = calloc(json_array_size(items) + 1, sizeof *d->class_names);
    if (r == 0 && !d->class_names)
        r = pl_err_nomem(err);
    r = r < 0 ? r : names_of(items, &names, err);
    if (r < 0)
        return r;
    json_array_foreach((json_t *)(uintptr_t)items, i, item) d->class_names[i] = pl_show_text_at(item, "metadata.name");
    d->facts.runtime_classes = d->class_names;
    d->facts.n_runtime_classes = json_array_size(items);
    d->facts.runtime_classes_known = code == 0;
    return pl_doctor_say(d, PL_DOCTOR_OK, "runtimes", NULL, err, "%s",
                         d->facts.n_runtime_classes ? (const char *)names.data
                                                    : "no RuntimeClass: containers run with the nodes' default runtime");
}

static int check_claims(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf names = {0};
    _cleanup_(json_decrefp) json_t *list = NULL;
    char path[100];
    int code, r;

    if (!d->facts.dra || !d->access.on[PL_KUBE_MAY_CLAIMS])
        return pl_doctor_say(d, PL_DOCTOR_OK, "claims", NULL, err,
                             "GPUs by resource claims (share \"dra\") are not available: %s",
                             d->facts.dra ? "this account may not query them" : "resource.k8s.io is not served");
    snprintf(path, sizeof path, "/apis/resource.k8s.io/%.31s/deviceclasses", d->facts.dra);
    r = pl_doctor_get(d, path, &list, &code, err);
    r = r < 0 ? r : names_of(json_object_get(list, "items"), &names, err);
    if (r < 0)
        return r;
    return pl_doctor_say(d, PL_DOCTOR_OK, "claims", NULL, err, "resource.k8s.io/%s, device classes: %s", d->facts.dra,
                         code == PL_EFORBIDDEN ? "not known: this account may not list them"
                         : names.len > 1       ? (const char *)names.data
                                               : "none");
}

/* ---- quotas and limits ---- */

/* True if a LimitRange gives containers a default limit of the resource. */
static bool gives_default(const json_t *ranges, const char *resource)
{
    const json_t *range, *limit;
    size_t i, k;

    json_array_foreach((json_t *)(uintptr_t)ranges, i, range)
    {
        json_array_foreach((json_t *)(uintptr_t)pl_show_at(range, "spec.limits"), k, limit)
        {
            if (pl_streq(pl_show_text_at(limit, "type"), "Container") &&
                json_object_get(json_object_get(limit, "default"), resource))
                return true;
        }
    }
    return false;
}

/* Prints a ResourceQuota, and records in d->facts which limits the quota requires of every container. */
static int say_quota(struct pl_doctor *d, const json_t *quota, const json_t *ranges, struct pl_err *err)
{
    const char *name = pl_show_text_at(quota, "metadata.name"), *resource;
    const json_t *used = pl_show_at(quota, "status.used"), *hard;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)pl_show_at(quota, "spec.hard"), resource, hard)
    {
        const char *has = json_string_value(json_object_get(used, resource)), *most = json_string_value(hard);
        const bool full = has && most && pl_streq(has, most);

        if (pl_streq(resource, "limits.cpu") && !gives_default(ranges, "cpu"))
            d->facts.demands_cpu_limit = true;
        if (pl_streq(resource, "limits.memory") && !gives_default(ranges, "memory"))
            d->facts.demands_memory_limit = true;
        r = r < 0 ? r
                  : pl_doctor_say(d, full ? PL_DOCTOR_WARN : PL_DOCTOR_OK, "quota",
                                  full ? "Pods that need more wait until others end, or until the quota is raised" : NULL, err,
                                  "%s: %s of %s %s used", name, has ? has : "?", most ? most : "?", resource);
    }
    return r;
}

/* Compares what the containers that pipelined adds to every pod ask for with the limit ranges and quotas. Prints a line
 * if there are any. */
static int check_own_containers(struct pl_doctor *d, const json_t *ranges, const json_t *quotas, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *pod = NULL;
    struct pl_own_limits found;
    const json_t *one;
    size_t i;

    if (json_array_size(ranges) + json_array_size(quotas) == 0 || pl_doctor_pod(d, &pod, NULL) < 0)
        return 0; /* the probe reports why the pod cannot be built */
    json_array_foreach((json_t *)(uintptr_t)ranges, i, one)
    {
        if (pl_own_limits_range(one, pod, &found))
            return pl_doctor_say(d, PL_DOCTOR_FAIL, "limits", found.remedy, err, "%s", found.why);
    }
    json_array_foreach((json_t *)(uintptr_t)quotas, i, one)
    {
        if (pl_own_limits_quota(one, pod, &found))
            return pl_doctor_say(d, PL_DOCTOR_FAIL, "limits", found.remedy, err, "%s", found.why);
    }
    return pl_doctor_say(d, PL_DOCTOR_OK, "limits", NULL, err,
                         "the LimitRanges and quotas admit the containers that pipelined adds to pods");
}

static int check_limits(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *quotas = NULL, *ranges = NULL;
    const json_t *quota, *limits;
    char path[300];
    size_t i;
    int code, r;

    if (!d->access.on[PL_KUBE_MAY_QUOTAS])
        return 0;
    snprintf(path, sizeof path, "/api/v1/namespaces/%.253s/resourcequotas", d->space);
    r = pl_doctor_get(d, path, &quotas, &code, err);
    snprintf(path, sizeof path, "/api/v1/namespaces/%.253s/limitranges", d->space);
    r = r < 0 ? r : pl_doctor_get(d, path, &ranges, &code, err);
    if (r < 0)
        return r;
    limits = json_object_get(ranges, "items");
    json_array_foreach(json_object_get(quotas, "items"), i, quota)
    {
        r = r < 0 ? r : say_quota(d, quota, limits, err);
    }
    if (r == 0 && d->facts.demands_memory_limit)
        r = pl_doctor_say(d, PL_DOCTOR_WARN, "quota",
                          "Give each stage resources.memory (or update defaults), or the namespace a LimitRange with a default",
                          err, "the quota demands limits.memory of every container, and no LimitRange gives a default");
    if (r == 0 && json_array_size(json_object_get(quotas, "items")) == 0)
        r = pl_doctor_say(d, PL_DOCTOR_OK, "quota", NULL, err, "none%s",
                          json_array_size(limits) ? "; a LimitRange gives containers defaults for what they do not ask for" : "");
    return r < 0 ? r : check_own_containers(d, limits, json_object_get(quotas, "items"), err);
}

/* ---- all checks ---- */

int pl_doctor_cluster(struct pl_doctor *d, struct pl_err *err)
{
    struct nodes nodes = {0};
    int r = check_version(d, err);

    r = r < 0 ? r : check_groups(d, err);
    r = r < 0 ? r : check_space(d, err);
    r = r < 0 ? r : check_access(d, err);
    if (r == 0 && !d->no_space) {
        r = check_map(d, "owner", d->asked.owner, NULL, err);
        r = r < 0 ? r : check_map(d, "ca", d->asked.ca, "ca.crt", err);
        r = r < 0 ? r : check_map(d, "trust", d->asked.trust_bundle, "ca.crt", err);
        r = r < 0 ? r : check_limits(d, err);
    }
    r = r < 0 ? r : check_nodes(d, &nodes, err);
    r = r < 0 ? r : check_runtime_classes(d, err);
    r = r < 0 ? r : check_claims(d, err);
    /* clear the fields of d->facts that point into nodes.offer, which is destroyed below; the test pod does
     * not need these fields, because it uses no GPU */
    d->facts.products = NULL;
    d->facts.resources = NULL;
    d->facts.gpu_labels = NULL;
    d->facts.n_products = d->facts.n_resources = d->facts.n_gpu_labels = 0;
    pl_node_capacity_destroy(nodes.offer);
    return r;
}
