// link: pipelined/kube/client pipelined/kube/watch storage/base storage/http
/* pl-bench-kubelets KUBECONFIG NAMESPACE URL: the kubelets of all nodes of a real API server, and the agents of all pods that get a node: they
 * attach to the daemon at URL, take their task, hand in a result at once, and end; then the pod is said to have succeeded. Nothing
 * runs. Prints a line a result, "POD SENT_US ANSWERED_US" (wall time). Ends with its input.
 *
 * pl-bench-kubelets KUBECONFIG NAMESPACE bare N POD.json: the same kubelets, and a client that does without a daemon what the daemon does for
 * N pods like that one: makes them over 8 connections, and removes each when it has ended. Prints {"pods", "seconds"}. */
#include "pipelined/kube/client/kube_object.h"
#include "pipelined/kube/watch/kube_informer.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/base/clock.h"
#include "storage/base/map.h"
#include "storage/http/http_io.h"

#include <pthread.h>
#include <stdio.h>

#define CONNECTIONS 8
#define AGENT_LINES                                                                                                              \
    16 /* of PL_HTTP_IO_CONNECTIONS_MAX connections each: an agent keeps its request open while its worker lingers */
#define WAIT_MS 20000
#define KEEP    "metadata{annotations} spec{nodeName containers{name env}} status{phase}"
#define WORKER  "pipelined.io/worker"
#define BARE    "bare-"
/* One file "f" of one byte, as an ops stream. */
#define OUTPUT "UExPUAEBAWYBAQF4AAE="

static const char ended[] = "{\"status\":{\"phase\":\"Succeeded\",\"containerStatuses\":["
                            "{\"name\":\"main\",\"image\":\"i\",\"imageID\":\"i\",\"ready\":false,\"restartCount\":0,\"state\":{"
                            "\"terminated\":{\"exitCode\":0,"
                            "\"reason\":\"Completed\"}}},"
                            "{\"name\":\"agent\",\"image\":\"i\",\"imageID\":\"i\",\"ready\":false,\"restartCount\":0,\"state\":{"
                            "\"terminated\":{\"exitCode\":0,"
                            "\"reason\":\"Completed\"}}}]}}";

static struct {
    struct pl_kube_client *kubelets, *client; /* client: of the bare one */
    struct pl_http_io *io[AGENT_LINES];
    unsigned begun;          /* agents */
    const char *space, *url; /* url NULL: there are no agents */
    struct pl_map pods;      /* uid → pod; the informer's thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned gone; /* lock */
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* What an agent asked last. */
enum step { ATTACH, NEXT, RESULT };

struct pod {
    char name[256], uid[64], worker[32], authorization[256], path[600], status_path[640];
    enum step step;
    bool removed;
    int64_t sent_us;
    struct pl_http_io *io;
    struct pl_http_exchange x;
    struct iovec iov;
    char *body, target[600];
    struct pl_buf reply;
    const char *headers[4];
    struct pl_kube_call status;
    struct pl_kube_object_delete removal;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "pl-bench-kubelets: %s: %s\n", what, why);
    exit(1);
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* ---- the kubelet ---- */

static void told(struct pl_kube_call *call)
{
    if (call->err.code < 0)
        fprintf(stderr, "pl-bench-kubelets: %s: %s\n", call->path, call->err.msg);
    pl_kube_call_finish(call);
}

static void tell_end(struct pod *p)
{
    snprintf(p->path, sizeof p->path, "/api/v1/namespaces/%.200s/pods/%s", world.space, p->name);
    snprintf(p->status_path, sizeof p->status_path, "%s/status", p->path);
    p->status = (struct pl_kube_call){.method = "PATCH",
                                      .path = p->status_path,
                                      .body = ended,
                                      .body_len = strlen(ended),
                                      .content_type = "application/merge-patch+json",
                                      .done = told};
    pl_kube_client_start(world.kubelets, &p->status);
}

/* ---- the agent ---- */

static void on_reply(struct pl_http_exchange *x);

static void ask(struct pod *p, enum step step, const char *what, json_t *body /* taken over */)
{
    free(p->body);
    p->body = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    p->step = step;
    p->iov = (struct iovec){p->body, strlen(p->body)};
    snprintf(p->target, sizeof p->target, "%s/api/v1/worker/%s", world.url, what);
    pl_buf_clear(&p->reply);
    p->reply.max = 1 << 20;
    p->x = (struct pl_http_exchange){.method = "POST",
                                     .url = p->target,
                                     .headers = p->headers,
                                     .body = &p->iov,
                                     .n_body = 1,
                                     .has_body = true,
                                     .out = &p->reply,
                                     .done = on_reply,
                                     .arg = p};
    p->sent_us = pl_clock_wall_us();
    pl_http_io_submit(p->io, &p->x);
}

static void ask_next(struct pod *p, enum step step, json_t *results /* taken over */)
{
    ask(p, step, "next",
        json_pack("{s:s, s:s, s:o, s:i}", "worker", p->worker, "incarnation", "1", "results", results, "wait_ms", WAIT_MS));
}

static json_t *result_of(const json_t *row)
{
    return json_pack("{s:O, s:s, s:i, s:i, s:b, s:b, s:s, s:s, s:{s:i,s:i,s:i,s:i,s:i}, s:{s:i,s:i}, s:{s:s}}", "index",
                     json_object_get(row, "index"), "state", "success", "exit_code", 0, "signal", 0, "oom", 0, "timed_out", 0,
                     "reason", "", "tail", "", "ms", "wait", 0, "fetch", 0, "compute", 0, "upload", 0, "held", 0, "bytes", "in",
                     0, "out", 1, "output", "ops", OUTPUT);
}

static void hand_in(struct pod *p, const json_t *task)
{
    json_t *rows = json_array();
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(task, "rows"), i, row) json_array_append_new(rows, result_of(row));
    ask_next(p, RESULT,
             json_pack("[{s:O, s:O, s:o}]", "task", json_object_get(task, "id"), "fence", json_object_get(task, "fence"), "rows",
                       rows));
}

static void on_reply(struct pl_http_exchange *x)
{
    struct pod *p = x->arg;
    json_t *answer = x->status == 200 ? json_loadb((const char *)p->reply.data, p->reply.len, 0, NULL) : NULL;
    const json_t *task = json_object_get(answer, "task");

    if (!answer)
        fprintf(stderr, "pl-bench-kubelets: %s: status %u: %s %.*s\n", p->name, x->status, x->err.msg, (int)x->problem.len,
                (const char *)x->problem.data);
    pl_buf_finish(&x->problem);
    if (p->step == RESULT && answer)
        printf("%s %lld %lld\n", p->name, (long long)p->sent_us, (long long)pl_clock_wall_us());
    if (!answer || json_is_true(json_object_get(answer, "end")))
        tell_end(p);
    else if (task)
        hand_in(p, task);
    else
        ask_next(p, NEXT, json_array()); /* attached, or idle */
    json_decref(answer);
}

static void begin_agent(struct pod *p, const json_t *object)
{
    const json_t *container, *variable;
    size_t i, k;

    snprintf(p->worker, sizeof p->worker, "%s",
             text_at(json_object_get(json_object_get(object, "metadata"), "annotations"), WORKER));
    json_array_foreach(json_object_get(json_object_get(object, "spec"), "containers"), i, container)
        json_array_foreach(json_object_get(container, "env"), k,
                           variable) if (pl_streq(text_at(variable, "name"), "PIPELINED_WORKER_TOKEN"))
            snprintf(p->authorization, sizeof p->authorization, "Authorization: Bearer %s", text_at(variable, "value"));
    p->io = world.io[world.begun++ % AGENT_LINES];
    p->headers[0] = p->authorization;
    p->headers[1] = "Content-Type: application/json";
    ask(p, ATTACH, "attach",
        json_pack("{s:i, s:s, s:s, s:s, s:i, s:[]}", "protocol", PL_AGENT_PROTOCOL_PROTOCOL, "worker", p->worker, "incarnation",
                  "1", "host", text_at(json_object_get(object, "spec"), "nodeName"), "pid", 1, "held"));
}

/* ---- the client that does without a daemon ---- */

static void removed(struct pl_kube_object_delete *op)
{
    if (op->err.code < 0)
        die("delete", op->err.msg);
    pl_kube_object_delete_finish(op);
}

static void remove_pod(struct pod *p)
{
    p->removed = true;
    p->removal = (struct pl_kube_object_delete){.path = p->path, .uid = p->uid, .grace_s = -1, .done = removed};
    pl_kube_object_delete_start(world.client, &p->removal);
}

static void made(struct pl_kube_object_create *op)
{
    if (op->err.code < 0)
        die("create", op->err.msg);
    pl_kube_object_create_finish(op);
}

static void make_pods(const char *file, unsigned n)
{
    struct pl_kube_object_create *ops = calloc(n, sizeof *ops);
    char path[300], *collection;
    json_error_t e;
    json_t *pod = json_load_file(file, 0, &e), *metadata = json_object_get(pod, "metadata");

    if (!ops || !pod)
        die(file, e.text);
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods", world.space);
    collection = strdup(path);
    for (unsigned i = 0; i < n; i++) {
        char *text;

        json_object_set_new(metadata, "name", json_sprintf(BARE "%u", i));
        text = json_dumps(pod, JSON_COMPACT);
        ops[i] = (struct pl_kube_object_create){
            .collection = collection, .name = "", .hash = "", .body = text, .body_len = strlen(text), .done = made};
        pl_kube_object_create_start(world.client, &ops[i]);
    }
    json_decref(pod);
}

/* ---- what is watched ---- */

static int on_pod(void *self, enum pl_kube_event e, json_t *object, struct pl_err *err)
{
    const json_t *metadata = json_object_get(object, "metadata");
    const char *uid = text_at(metadata, "uid"), *phase = text_at(json_object_get(object, "status"), "phase");
    struct pod *p = pl_map_get(&world.pods, uid, strlen(uid));

    (void)self;
    if (world.client && strncmp(text_at(metadata, "name"), BARE, strlen(BARE)) != 0)
        return 0; /* left by others */
    if (e == PL_KUBE_DELETED && p) {
        pthread_mutex_lock(&world.lock);
        world.gone++;
        pthread_cond_signal(&world.changed);
        pthread_mutex_unlock(&world.lock);
    }
    if (p && world.client && !p->removed && pl_streq(phase, "Succeeded") && e == PL_KUBE_MODIFIED)
        remove_pod(p);
    if (p || (e != PL_KUBE_ADDED && e != PL_KUBE_MODIFIED) || !*text_at(json_object_get(object, "spec"), "nodeName") ||
        !pl_streq(phase, "Pending"))
        return 0;
    p = calloc(1, sizeof *p);
    if (!p)
        return pl_err_nomem(err);
    snprintf(p->name, sizeof p->name, "%s", text_at(metadata, "name"));
    snprintf(p->uid, sizeof p->uid, "%s", uid);
    if (pl_map_put(&world.pods, p->uid, strlen(p->uid), p, NULL, err) < 0)
        return PL_ENOMEM;
    if (world.url)
        begin_agent(p, object);
    else
        tell_end(p);
    return 0;
}

static struct pl_kube_client *connect_to(const char *file)
{
    struct pl_kube_client_config config = {.calls = CONNECTIONS};
    struct pl_kube_client *c = NULL;
    struct pl_err err = {0};

    if (pl_kubeconfig_load(&(struct pl_kubeconfig_where){.files = file}, &config.kubeconfig, &err) < 0 ||
        pl_kube_client_create(&config, &c, &err) < 0)
        die(file, err.msg);
    return c;
}

static void be_bare(const char *file, unsigned n)
{
    const int64_t began_us = pl_clock_mono_us();

    make_pods(file, n);
    pthread_mutex_lock(&world.lock);
    while (world.gone < n)
        pthread_cond_wait(&world.changed, &world.lock);
    pthread_mutex_unlock(&world.lock);
    printf("{\"pods\": %u, \"seconds\": %.3f}\n", n, (double)(pl_clock_mono_us() - began_us) / 1e6);
}

int main(int argc, char **argv)
{
    const bool bare = argc == 6 && pl_streq(argv[3], "bare");
    const struct pl_http_io_config io = {.connections = PL_HTTP_IO_CONNECTIONS_MAX, .no_proxy = true};
    struct pl_kube_watch_config watch = {.keep = KEEP, .event = on_pod};
    struct pl_kube_informer *informer = NULL;
    struct pl_err err = {0};
    char path[300];

    if (argc != 4 && !bare)
        die("usage", "KUBECONFIG NAMESPACE URL | KUBECONFIG NAMESPACE bare N POD.json");
    setvbuf(stdout, NULL, _IOLBF, 0);
    world.space = argv[2];
    world.url = bare ? NULL : argv[3];
    world.kubelets = connect_to(argv[1]);
    world.client = bare ? connect_to(argv[1]) : NULL;
    for (unsigned i = 0; i < AGENT_LINES; i++)
        if (pl_http_io_create(&io, &world.io[i], &err) < 0)
            die("http", err.msg);
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods", world.space);
    watch.path = path;
    if (pl_kube_informer_create(world.kubelets, &watch, &informer, &err) < 0)
        die("watch", err.msg);
    if (bare)
        be_bare(argv[5], (unsigned)atoi(argv[4]));
    else
        while (getchar() != EOF)
            ;
    fflush(stdout);
    _exit(0); /* requests are under way: nothing is left to be said */
}
