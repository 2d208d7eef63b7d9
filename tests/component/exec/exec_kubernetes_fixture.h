/* The executor `kubernetes` on the fake API server, told to an engine that only listens; the kubelet is the test itself. The including file has
 * `// link: kube_fake pl_exec`. Each test gets a struct fixture; its executor is made by create(). */
#pragma once

#include "tests/support/kube_server/kube_fake.h"

#include "pipelined/exec/kubernetes/kubernetes.h"
#include "storage/base/clock.h"
#include "tests/unit/kube/pod/pod_fixture.h"

#include <unistd.h>

#define PODS   "/api/v1/namespaces/n/pods"
#define EVENTS "/api/v1/namespaces/n/events"
#define NODES  "/api/v1/nodes"
#define STORE  "0123456789abcdef0123456789abcdef"

struct heard {
    unsigned started, exited, placed, up, waits, shapes, reshapes, images, leaves;
    bool hopeless, counts, offered;
    enum pl_sched_exit exit;
    uint32_t pending_max;
    unsigned needs_told;
    uint64_t last, needs, shape_needs;
    char end[1024], why[1024], node[128], shape[1024], image[256], leaves_why[1024];
};

struct fixture {
    struct kube_fake *fake;
    struct pl_loop *loop;
    struct pl_timer *tick;
    struct pl_executor *x;
    struct pl_spec *spec;
    struct pl_pod_settings settings;
    struct heard heard;
    uint64_t unused;       /* a shape that nobody in the engine has; 0 = all have somebody */
    unsigned shapes_asked; /* how often it was asked whether a shape is in use: at each look */
    bool come;             /* agents have attached */
    unsigned come_asked;
    bool image_late;   /* nodes say what a container runs of after they say that it runs */
    const char *owner; /* NULL = none */
    const char *trusted;
    bool network_off;  /* of all projects */
    uint64_t epoch;    /* number of the daemon's start */
    unsigned outlived; /* pods of later starts that were told of */
    bool doubted;      /* another daemon may have taken over */
    char kubeconfig[64];
    bool (*until)(struct fixture *f);
    unsigned ticks;
};

static inline void on_started(void *self, uint64_t id, const char *host, int64_t pid, int64_t pid_start)
{
    struct fixture *f = self;

    (void)id, (void)host, (void)pid, (void)pid_start;
    f->heard.started++;
}

static inline void on_exited(void *self, uint64_t id, const struct pl_executor_end *end)
{
    struct heard *h = &((struct fixture *)self)->heard;

    h->exited++;
    h->last = id;
    h->hopeless = end->hopeless;
    h->counts = end->counts;
    h->exit = end->exit;
    (void)snprintf(h->end, sizeof h->end, "%s", end->text);
}

static inline void on_placed(void *self, uint64_t id, const char *node, bool up)
{
    struct heard *h = &((struct fixture *)self)->heard;

    (void)id;
    h->placed++;
    h->up += up;
    (void)snprintf(h->node, sizeof h->node, "%s", node);
}

static inline void on_waits(void *self, uint64_t id, const char *text)
{
    struct heard *h = &((struct fixture *)self)->heard;

    (void)id;
    h->waits++;
    (void)snprintf(h->why, sizeof h->why, "%s", text);
}

static inline void on_shape(void *self, const struct pl_sched_shape *shape)
{
    struct heard *h = &((struct fixture *)self)->heard;

    h->shapes++;
    h->offered = shape->offered;
    h->pending_max = shape->pending_max;
    h->shape_needs = shape->needs;
    (void)snprintf(h->shape, sizeof h->shape, "%s", shape->text ? shape->text : "");
}

static inline void on_reshape(void *self)
{
    ((struct fixture *)self)->heard.reshapes++;
}

static inline bool has_shape(void *self, uint64_t id)
{
    struct fixture *f = self;

    f->shapes_asked++;
    return f->unused != id;
}

static inline void on_image(void *self, uint64_t id, const char *image)
{
    struct heard *h = &((struct fixture *)self)->heard;

    (void)id;
    if (!((const struct fixture *)self)->image_late)
        assert_int_equal(h->up + h->exited, 0);
    h->images++;
    (void)snprintf(h->image, sizeof h->image, "%s", image);
}

static inline void on_needs(void *self, uint64_t id, uint64_t needs)
{
    struct heard *h = &((struct fixture *)self)->heard;

    h->needs_told++;
    h->needs = needs;
    h->last = id;
}

static inline void on_leaves(void *self, uint64_t id, const char *why)
{
    struct heard *h = &((struct fixture *)self)->heard;

    (void)id;
    h->leaves++;
    (void)snprintf(h->leaves_why, sizeof h->leaves_why, "%s", why);
}

static inline bool network_off(void *self, const char *project)
{
    (void)project;
    return ((const struct fixture *)self)->network_off;
}

static inline bool is_owner(void *self, bool look)
{
    struct fixture *f = self;

    f->outlived += look;
    return !f->doubted;
}

static inline bool has_come(void *self, uint64_t id)
{
    struct fixture *f = self;

    (void)id;
    f->come_asked++;
    return f->come;
}

static inline void on_tick(void *arg)
{
    struct fixture *f = arg;

    if (f->until(f))
        pl_loop_stop(f->loop);
    else if (++f->ticks > 10000)
        fail_msg("waited for what did not come: end \"%s\", why \"%s\", shape \"%s\"", f->heard.end, f->heard.why,
                 f->heard.shape);
    else
        pl_timer_start(f->tick, 5);
}

/* Turns the loop until that holds. */
static inline void until(struct fixture *f, bool (*holds)(struct fixture *f))
{
    f->until = holds;
    f->ticks = 0;
    pl_timer_start(f->tick, 0);
    pl_loop_run(f->loop);
}

static inline bool listens(struct fixture *f)
{
    struct kube_fake_view view;

    kube_fake_look(f->fake, &view);
    return view.watches == 7; /* pods, events, quotas, limit ranges, nodes, everybody's pods, secrets */
}

static inline void create(struct fixture *f, bool follow)
{
    struct pl_exec_kubernetes_config config = {.loop = f->loop,
                                               .kubeconfig = f->kubeconfig,
                                               .context = "",
                                               .settings = &f->settings,
                                               .epoch = f->epoch,
                                               .is_owner = is_owner,
                                               .is_owner_arg = f,
                                               .events = {f, on_started, on_exited, on_placed, on_waits, on_shape, on_reshape,
                                                          has_shape, has_come, on_image, on_needs, network_off, on_leaves}};
    struct pl_err err = {0};

    f->settings = (struct pl_pod_settings){
        .store_id = STORE, .image = "pipelined:1", .default_image = "debian:12", .worker_url = "http://daemon:7380"};
    f->settings.owner_name = f->owner;
    config.trusted = &f->trusted;
    config.n_trusted = f->trusted != NULL;
    if (pl_exec_kubernetes_create(&config, &f->x, &err) < 0)
        fail_msg("%s", err.msg);
    if (follow)
        until(f, listens);
}

static inline int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    FILE *file;
    int fd;

    f->fake = kube_fake_start();
    assert_int_equal(pl_loop_create(&f->loop, NULL), 0);
    assert_int_equal(pl_timer_create(f->loop, "test.tick", on_tick, f, &f->tick, NULL), 0);
    (void)snprintf(f->kubeconfig, sizeof f->kubeconfig, "/tmp/test_exec_kubernetes.XXXXXX");
    fd = mkstemp(f->kubeconfig);
    file = fdopen(fd, "w");
    (void)fprintf(file,
                  "{\"current-context\": \"c\", \"clusters\": [{\"name\": \"c\", \"cluster\": {\"server\": \"%s\"}}], \"users\": "
                  "[{\"name\": "
                  "\"u\", \"user\": {}}], \"contexts\": [{\"name\": \"c\", \"context\": {\"cluster\": \"c\", \"user\": \"u\", "
                  "\"namespace\": \"n\"}}]}",
                  kube_fake_url(f->fake));
    assert_int_equal(fclose(file), 0);
    kube_fake_put(f->fake, "/api/v1/namespaces", json_pack("{s:{s:s}}", "metadata", "name", "n"));
    kube_fake_put(f->fake, NODES,
                  json_pack("{s:{s:s}, s:{s:{s:s, s:s, s:s}, s:[{s:s, s:s}]}}", "metadata", "name", "cpu-1", "status",
                            "allocatable", "cpu", "8", "memory", "32Gi", "pods", "110", "conditions", "type", "Ready", "status",
                            "True"));
    f->spec = pod_spec_of("");
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;

    pl_executor_destroy(f->x);
    pl_timer_destroy(f->tick);
    pl_loop_destroy(f->loop);
    kube_fake_stop(f->fake);
    pl_spec_destroy(f->spec);
    (void)unlink(f->kubeconfig);
    free(f);
    return 0;
}

static inline struct pl_worker_spec worker(struct fixture *f, uint64_t id)
{
    return (struct pl_worker_spec){.id = id,
                                   .name = "1",
                                   .project = "default",
                                   .stage = f->spec->stages[0].name,
                                   .def = &f->spec->stages[0],
                                   .version = 1,
                                   .token = "secret"};
}

static inline void start(struct fixture *f, uint64_t id)
{
    const struct pl_worker_spec spec = worker(f, id);
    struct pl_err err = {0};

    if (f->x->ops->start(f->x, &spec, &err) < 0)
        fail_msg("%s", err.msg);
}

static inline const char *path_of(uint64_t id, char out[256])
{
    char name[PL_POD_NAME_BYTES];

    pl_pod_name(STORE, "default", "Train_net", 1, (uint32_t)id, (uint32_t)(id >> 32), name);
    (void)snprintf(out, 256, PODS "/%s", name);
    return out;
}

static inline bool is_looked(struct fixture *f)
{
    return f->shapes_asked > 0;
}

/* From now on `shapes_asked` is above 0 when the executor has looked at everything: there is a shape that no pod has. */
static inline void count_looks(struct fixture *f)
{
    struct pl_spec *spec = pod_spec_of("\"resources\": {\"cpu\": 3}");
    uint64_t id;

    assert_int_equal(f->x->ops->shape(f->x, "default", &spec->stages[0], 99, false, &id, NULL), 0);
    pl_spec_destroy(spec);
    f->shapes_asked = 0;
}

static inline bool has_pod(struct fixture *f)
{
    return kube_fake_count(f->fake, PODS) == 1;
}

static inline bool has_no_pod(struct fixture *f)
{
    return kube_fake_count(f->fake, PODS) == 0;
}

static inline bool has_end(struct fixture *f)
{
    return f->heard.exited > 0;
}

static inline bool is_up(struct fixture *f)
{
    return f->heard.up > 0;
}

static inline bool is_placed(struct fixture *f)
{
    return f->heard.placed > 0;
}

static inline void patch(struct fixture *f, uint64_t id, json_t *what)
{
    char path[256];

    assert_non_null(what);
    assert_true(kube_fake_patch(f->fake, path_of(id, path), what));
}

static inline json_t *state(const char *name, const char *how, json_t *what)
{
    return json_pack("{s:s, s:{s:o}}", "name", name, "state", how, what);
}

static inline void bind(struct fixture *f, uint64_t id)
{
    patch(f, id, json_pack("{s:{s:s}}", "spec", "nodeName", "cpu-1"));
}

static inline void run(struct fixture *f, uint64_t id)
{
    patch(f, id,
          json_pack("{s:{s:s}, s:{s:s, s:[o, o]}}", "spec", "nodeName", "cpu-1", "status", "phase", "Running",
                    "containerStatuses", state("main", "running", json_object()), state("agent", "running", json_object())));
}

static inline void finish(struct fixture *f, uint64_t id, int main_code, int agent_code)
{
    patch(f, id,
          json_pack("{s:{s:s, s:[o, o]}}", "status", "phase", main_code || agent_code ? "Failed" : "Succeeded",
                    "containerStatuses",
                    state("main", "terminated",
                          json_pack("{s:i, s:s}", "exitCode", main_code, "reason", main_code ? "Error" : "Completed")),
                    state("agent", "terminated", json_pack("{s:i}", "exitCode", agent_code))));
}

static inline void put_gpu_node(struct fixture *f, const char *name, const char *product)
{
    kube_fake_put(f->fake, NODES,
                  json_pack("{s:{s:s, s:{s:s}}, s:{s:{s:s, s:s, s:s, s:s}, s:[{s:s, s:s}]}}", "metadata", "name", name, "labels",
                            "nvidia.com/gpu.product", product, "status", "allocatable", "cpu", "8", "memory", "32Gi", "pods",
                            "110", "nvidia.com/gpu", "1", "conditions", "type", "Ready", "status", "True"));
}

static inline bool is_reshaped(struct fixture *f)
{
    return f->heard.reshapes > 0;
}

/* As the engine does: asks anew whenever it is told to, until that is said of the shape ("": it is offered). */
static inline void ask_anew(struct fixture *f, const struct pl_worker_spec *spec, const char *says, uint64_t *id)
{
    do {
        until(f, is_reshaped);
        f->heard.reshapes = 0;
        assert_int_equal(f->x->ops->shape(f->x, "default", spec->def, 1, spec->gpu, id, NULL), 0);
    } while (*says ? !strstr(f->heard.shape, says) : !f->heard.offered);
}
