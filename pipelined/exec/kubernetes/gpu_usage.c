/* gpu_usage.c: keeps a table of dcgm-exporter pods, each with the time of its next reading. A timer starts
 * the reading that is due; only one is in progress at a time. */
#include "pipelined/exec/kubernetes/gpu_usage.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/map.h"
#include "storage/system/log_line.h"

#include <stdio.h>

struct exporter {
    char key[320]; /* name of the exporter's pod, as "namespace/pod" */
    char path[640], node[256];
    int64_t due_ms; /* monotonic time of the next reading */
    bool told;      /* at least one measurement of its node has been reported */
    char problem[600];
};

/* One request to an exporter. It lives on after the object is destroyed, until its callback has run. */
struct reading {
    struct pl_gpu_use *use; /* NULL: the object was destroyed */
    struct pl_loop *loop;
    struct pl_kube_client *client;
    struct pl_kube_call call;
    struct pl_loop_work work;
    struct pl_buf text;
    char key[320], path[640];
    struct pl_dcgm_gpu *gpus; /* the measurements that the exporter returned, parsed */
    size_t n;
    struct pl_err err;
};

struct pl_gpu_use {
    struct pl_gpu_usage_config config;
    struct pl_map exporters; /* map: key → struct exporter */
    struct pl_timer *timer;
    struct reading *reading; /* the reading in progress; NULL = none */
    char problem[600];
};

/* ---- one reading ---- */

static void tick_in(struct pl_gpu_use *u, int64_t ms)
{
    pl_timer_start(u->timer, (uint64_t)ms);
}

static int64_t pace_of(const struct pl_gpu_use *u)
{
    return u->config.pace_ms ? u->config.pace_ms : PL_GPU_USAGE_PACE_MS;
}

/* Returns the time `ms` from now. Intervals are scaled by the configured pace, so that tests need not
 * wait. */
static int64_t later(const struct pl_gpu_use *u, int64_t ms)
{
    return pl_clock_mono_ms() + ms / PL_GPU_USAGE_PACE_MS * pace_of(u);
}

static void forget_node(struct pl_gpu_use *u, struct exporter *x)
{
    if (x->told)
        u->config.told(u->config.self, x->node, NULL, 0);
    x->told = false;
}

/* Copies the problem of the first exporter that has a problem to the object's field `problem`. */
static void find_problem(struct pl_gpu_use *u)
{
    const struct pl_map_slot *slot;

    u->problem[0] = '\0';
    if (u->exporters.len == 0)
        snprintf(u->problem, sizeof u->problem, "no running dcgm-exporter pod was found");
    for (size_t i = 0; !*u->problem && (slot = pl_map_next(&u->exporters, &i));) {
        const struct exporter *x = slot->value;

        snprintf(u->problem, sizeof u->problem, "%s", x->problem);
    }
}

static void take(struct pl_gpu_use *u, struct exporter *x, const struct reading *r)
{
    if (r->err.code == 0) {
        x->problem[0] = '\0';
        x->due_ms = later(u, PL_GPU_USAGE_MS);
        x->told = true;
        u->config.told(u->config.self, x->node, r->gpus, r->n);
    } else {
        if (!*x->problem)
            pl_log_warn("gpus", "%s: %s", x->key, r->err.msg);
        snprintf(x->problem, sizeof x->problem, "%.300s: %.290s", x->key, r->err.msg);
        x->due_ms =
            later(u, r->err.code == PL_EFORBIDDEN || r->err.code == PL_EAUTH ? PL_GPU_USAGE_SHUT_MS : PL_GPU_USAGE_AGAIN_MS);
        forget_node(u, x);
    }
    find_problem(u);
}

static void reading_free(struct reading *r)
{
    pl_kube_call_finish(&r->call);
    pl_buf_finish(&r->text);
    free(r->gpus);
    free(r);
}

static void on_read(void *arg)
{
    struct reading *r = arg;
    struct pl_gpu_use *u = r->use;
    struct exporter *x = u ? pl_map_get(&u->exporters, r->key, strlen(r->key)) : NULL;

    if (x)
        take(u, x, r);
    if (u) {
        u->reading = NULL;
        tick_in(u, pace_of(u));
    }
    reading_free(r);
}

static int on_bytes(void *self, const void *data, size_t n, struct pl_err *err)
{
    return pl_buf_add(&((struct reading *)self)->text, data, n, err);
}

/* Called on the I/O thread when a reading has ended: parses the answer and posts the remaining work to the
 * loop. */
static void on_done(struct pl_kube_call *call)
{
    struct reading *r = call->arg;

    r->err = call->err;
    if (r->err.code == 0)
        (void)!pl_dcgm_read(r->text.data ? (const char *)r->text.data : "", r->text.len, &r->gpus, &r->n, &r->err);
    pl_loop_post_work(r->loop, &r->work, "gpus.read", on_read, r);
}

/* Starts a reading. It is sent as a stream request, because streams do not count against the client's rate
 * limit, which requests about pods need. */
static void begin(struct pl_gpu_use *u, const struct exporter *x)
{
    struct reading *r = calloc(1, sizeof *r);

    if (!r) {
        tick_in(u, pace_of(u));
        return;
    }
    r->use = u;
    r->loop = u->config.loop;
    r->client = u->config.client;
    r->text.max = PL_DCGM_BYTES_MAX;
    memcpy(r->key, x->key, sizeof r->key);
    memcpy(r->path, x->path, sizeof r->path);
    r->call = (struct pl_kube_call){.method = "GET",
                                    .path = r->path,
                                    .accept = "text/plain",
                                    .stream = true,
                                    .once = true,
                                    .deadline_ms = PL_GPU_USAGE_WAIT_MS,
                                    .stall_ms = PL_GPU_USAGE_WAIT_MS,
                                    .write = on_bytes,
                                    .write_self = r,
                                    .done = on_done,
                                    .arg = r};
    u->reading = r;
    pl_kube_client_start(r->client, &r->call);
}

/* Starts the reading that is most overdue, or waits until one is due. */
static void tick(void *arg)
{
    struct pl_gpu_use *u = arg;
    const struct exporter *first = NULL;
    const struct pl_map_slot *slot;
    int64_t now_ms = pl_clock_mono_ms();

    if (u->reading)
        return;
    for (size_t i = 0; (slot = pl_map_next(&u->exporters, &i));)
        if (!first || ((struct exporter *)slot->value)->due_ms < first->due_ms)
            first = slot->value;
    if (first && first->due_ms <= now_ms)
        begin(u, first);
    else if (first)
        tick_in(u, PL_MIN(first->due_ms - now_ms, (int64_t)PL_GPU_USAGE_MS));
}

/* ---- the table of exporters ---- */

static bool is_exporter(const json_t *labels)
{
    static const char *const names[] = {"dcgm-exporter", "nvidia-dcgm-exporter", "gke-managed-dcgm-exporter"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        if (pl_streq(pl_json_str(labels, "app"), names[i]) || pl_streq(pl_json_str(labels, "app.kubernetes.io/name"), names[i]))
            return true;
    return false;
}

/* Returns the number of the pod's port "metrics", else of its first port, else PL_GPU_USAGE_PORT. */
static unsigned port_of(const json_t *pod)
{
    const json_t *container, *port;
    json_int_t found = 0;
    size_t i, k;

    json_array_foreach(json_object_get(json_object_get(pod, "spec"), "containers"), i, container)
        json_array_foreach(json_object_get(container, "ports"), k, port)
    {
        const json_int_t number = json_integer_value(json_object_get(port, "containerPort"));

        if (pl_streq(pl_json_str(port, "name"), "metrics") || !found)
            found = number;
    }
    return found > 0 && found < 65536 ? (unsigned)found : PL_GPU_USAGE_PORT;
}

static void forget(struct pl_gpu_use *u, const char *key)
{
    struct exporter *x = pl_map_get(&u->exporters, key, strlen(key));

    if (!x)
        return;
    forget_node(u, x);
    pl_map_remove(&u->exporters, key, strlen(key));
    free(x);
    find_problem(u);
}

static void know(struct pl_gpu_use *u, const char *key, const json_t *pod)
{
    const json_t *metadata = json_object_get(pod, "metadata");
    struct exporter *x = pl_map_get(&u->exporters, key, strlen(key));

    if (!x) {
        x = u->exporters.len < PL_GPU_USAGE_MAX ? calloc(1, sizeof *x) : NULL;
        if (!x || pl_map_put(&u->exporters, key, strlen(key), x, NULL, NULL) < 0) {
            free(x);
            return;
        }
        snprintf(x->key, sizeof x->key, "%s", key);
    }
    snprintf(x->node, sizeof x->node, "%s", pl_json_str(json_object_get(pod, "spec"), "nodeName"));
    snprintf(x->path, sizeof x->path, "/api/v1/namespaces/%.253s/pods/%.253s:%u/proxy/metrics",
             pl_json_str(metadata, "namespace"), pl_json_str(metadata, "name"), port_of(pod));
    find_problem(u);
    if (!u->reading)
        tick_in(u, 0);
}

/* Returns true if the pod is an exporter: it runs on a node and has a known label. */
void pl_gpu_usage_pod(struct pl_gpu_use *u, enum pl_kube_event e, const json_t *pod)
{
    const json_t *metadata = json_object_get(pod, "metadata");
    char key[320];

    if (e == PL_KUBE_SYNCED)
        return;
    snprintf(key, sizeof key, "%.63s/%.253s", pl_json_str(metadata, "namespace"), pl_json_str(metadata, "name"));
    if (e != PL_KUBE_DELETED && is_exporter(json_object_get(metadata, "labels")) &&
        pl_streq(pl_json_str(json_object_get(pod, "status"), "phase"), "Running") &&
        *pl_json_str(json_object_get(pod, "spec"), "nodeName"))
        know(u, key, pod);
    else
        forget(u, key);
}

const char *pl_gpu_usage_problem(const struct pl_gpu_use *u)
{
    return u->problem;
}

/* ---- creation ---- */

int pl_gpu_usage_create(const struct pl_gpu_usage_config *config, struct pl_gpu_use **ret, struct pl_err *err)
{
    struct pl_gpu_use *u = calloc(1, sizeof *u);
    int r;

    if (!u)
        return pl_err_nomem(err);
    u->config = *config;
    find_problem(u);
    r = pl_timer_create(config->loop, "gpus.use", tick, u, &u->timer, err);
    if (r < 0) {
        free(u);
        return r;
    }
    *ret = u;
    return 0;
}

struct pl_gpu_use *pl_gpu_usage_destroy(struct pl_gpu_use *u)
{
    if (!u)
        return NULL;
    if (u->reading)
        /* the callback of the reading frees it, at the latest when the client is destroyed */
        u->reading->use = NULL;
    pl_timer_destroy(u->timer);
    pl_map_finish(&u->exporters, free);
    free(u);
    return NULL;
}
