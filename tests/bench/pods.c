// link: pipelined/exec/kubernetes pipelined/kube/nodes pipelined/kube/pod storage/base kube_fake
/* pl-bench-pods PODS NODES FOREIGN: the executor `kubernetes` alone, against the fake API server in a process of its own, whose other half plays the
 * kubelet: as soon as a pod is there, its containers run. Prints one JSON object:
 *   {"pods", "nodes", "foreign",
 *    "followed_s": until the nodes and what others hold of them are known, "decision_us": would one more shape fit there?
 *    "start_s", "rate", "writes", "cpu_us", "server_us": processor time of a pod here and there, "rss_mib": of the executor, all pods alive,
 *    "adopt_s": a second life until it knows all of them, "adopt_writes"} */
#include "tests/support/kube_server/kube_fake.h"

#include "pipelined/exec/kubernetes/kubernetes.h"
#include "pipelined/kube/nodes/node_capacity.h"
#include "pipelined/kube/pod/pod_render.h"
#include "storage/base/clock.h"

#include <ctype.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PODS  "/api/v1/namespaces/n/pods"
#define STORE "0123456789abcdef0123456789abcdef"
#define GPUS  8 /* of a node */

/* Between the two processes. */
struct shared {
    char url[64];
    _Atomic uint64_t wanted; /* pods 1 to this are run when they are there */
    _Atomic uint64_t writes;
    atomic_bool ready;
};

static struct shared *shared;

struct bench {
    struct pl_loop *loop;
    struct pl_executor *x;
    struct pl_spec *spec;
    struct pl_pod_settings settings;
    struct pl_timer *timer;
    pid_t server;
    uint64_t nodes, foreign;
    char kubeconfig[64];
    uint64_t n, up, exited;
};

static void die(const char *what, const struct pl_err *err)
{
    fprintf(stderr, "pl-bench-pods: %s: %s\n", what, err ? err->msg : "");
    exit(1);
}

/* ---- the cluster ---- */

static const char *path_of(uint64_t id, char out[256])
{
    char name[PL_POD_NAME_BYTES];

    pl_pod_name(STORE, "default", "s", 1, (uint32_t)id, 0, name);
    snprintf(out, 256, PODS "/%s", name);
    return out;
}

static json_t *running(void)
{
    return json_loads(
        "{\"spec\": {\"nodeName\": \"node-0\"}, \"status\": {\"phase\": \"Running\", \"containerStatuses\": ["
        "{\"name\": \"main\", \"state\": {\"running\": {}}}, {\"name\": \"agent\", \"state\": {\"running\": {}}}]}}",
        0, NULL);
}

static void put_nodes(struct kube_fake *f, unsigned nodes, unsigned foreign)
{
    for (unsigned i = 0; i < nodes; i++)
        kube_fake_put(f, "/api/v1/nodes",
                      json_pack("{s:{s:o, s:{s:s, s:s}}, s:{s:{s:s, s:s, s:s, s:s}, s:[{s:s, s:s}]}}", "metadata", "name",
                                json_sprintf("node-%u", i), "labels", "nvidia.com/gpu.product",
                                i % 3 ? "NVIDIA-A100-SXM4-40GB" : "Tesla-T4", "kubernetes.io/arch", "amd64", "status",
                                "allocatable", "cpu", i % 2 ? "96" : "32", "memory", "512Gi", "pods", "110", "nvidia.com/gpu",
                                "8", "conditions", "type", "Ready", "status", "True"));
    for (unsigned i = 0; i < foreign; i++)
        kube_fake_put(f, "/api/v1/namespaces/other/pods",
                      json_pack("{s:{s:o, s:s}, s:{s:o, s:[{s:s, s:{s:{s:s, s:s}}}]}, s:{s:s}}", "metadata", "name",
                                json_sprintf("pod-%u", i), "namespace", "other", "spec", "nodeName",
                                json_sprintf("node-%u", nodes ? i % nodes : 0), "containers", "name", "main", "resources",
                                "limits", "nvidia.com/gpu", "1", "cpu", "4", "status", "phase", "Running"));
}

/* Never returns. */
static void serve(unsigned nodes, unsigned foreign)
{
    struct kube_fake *f = kube_fake_start();
    struct kube_fake_view view;
    uint64_t id = 1;
    char path[256];

    prctl(PR_SET_NAME, "pl-bench-server");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    kube_fake_put(f, "/api/v1/namespaces", json_pack("{s:{s:s}}", "metadata", "name", "n"));
    put_nodes(f, nodes, foreign);
    snprintf(shared->url, sizeof shared->url, "%s", kube_fake_url(f));
    shared->ready = true;
    for (;;) {
        while (id <= shared->wanted && kube_fake_patch(f, path_of(id, path), running()))
            id++;
        kube_fake_look(f, &view);
        shared->writes = view.writes;
        usleep(1000);
    }
}

/* ---- the executor ---- */

static void on_started(void *self, uint64_t id, const char *host, int64_t pid, int64_t pid_start)
{
    (void)self, (void)id, (void)host, (void)pid, (void)pid_start;
}

static void on_exited(void *self, uint64_t id, const struct pl_executor_end *end)
{
    struct bench *b = self;

    fprintf(stderr, "pl-bench-pods: worker %llu ended: %s\n", (unsigned long long)id, end->text);
    b->exited++;
    pl_loop_stop(b->loop);
}

static void on_placed(void *self, uint64_t id, const char *node, bool up)
{
    struct bench *b = self;

    (void)id, (void)node;
    b->up += up;
    if (b->up == b->n)
        pl_loop_stop(b->loop);
}

static void on_waits(void *self, uint64_t id, const char *text)
{
    (void)self, (void)id, (void)text;
}

static void on_shape(void *self, const struct pl_sched_shape *shape)
{
    (void)self, (void)shape;
}

static void create(struct bench *b)
{
    struct pl_exec_kubernetes_config config = {.loop = b->loop,
                                               .kubeconfig = b->kubeconfig,
                                               .context = "",
                                               .settings = &b->settings,
                                               .events = {b, on_started, on_exited, on_placed, on_waits, on_shape}};
    struct pl_err err = {0};

    b->settings = (struct pl_pod_settings){
        .store_id = STORE, .image = "pipelined:1", .default_image = "debian:12", .worker_url = "http://daemon:7380"};
    if (pl_exec_kubernetes_create(&config, &b->x, &err) < 0)
        die("executor", &err);
}

static struct pl_worker_spec worker(struct bench *b, uint64_t id)
{
    return (struct pl_worker_spec){.id = id,
                                   .name = "1",
                                   .project = "default",
                                   .stage = "s",
                                   .def = &b->spec->stages[0],
                                   .version = 1,
                                   .token = "plw_1_9579f4f5edd613f84a426c337cfa65baefb0276c9afc0bbe280c6bf5a3c1a588"};
}

static double rss_mib(void)
{
    unsigned long long kb = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");

    malloc_trim(0);
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "RssAnon: %llu kB", &kb);
    if (f)
        fclose(f);
    return (double)kb / 1024;
}

static double seconds_since(int64_t began_us)
{
    return (double)(pl_clock_mono_us() - began_us) / 1e6;
}

/* Processor time of a process. */
static double cpu_us(pid_t pid)
{
    struct timespec t = {0};
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- what is measured ---- */

/* How many GPUs are free, by the sentence about one that nobody has. */
static uint64_t free_gpus(struct bench *b)
{
    struct pl_executor_check check = {0};
    struct pl_stage def = b->spec->stages[0];
    struct pl_err err = {0};
    uint64_t all = 0;

    def.gpu.count = 1;
    def.gpu.resource = "example.com/gpu";
    if (b->x->ops->check(b->x, "default", &def, true, &check, &err) < 0)
        die("check", &err);
    free(check.body);
    for (const char *at = check.not_offered; (at = strstr(at, ", ")); at += 2)
        if (isdigit((unsigned char)at[2]))
            all += strtoull(at + 2, NULL, 10);
    return all;
}

static void look(void *arg)
{
    struct bench *b = arg;

    if (free_gpus(b) == GPUS * b->nodes - b->foreign)
        pl_loop_stop(b->loop);
    else
        pl_timer_start(b->timer, 10);
}

/* Until all that others hold is known. */
static void follow(struct bench *b, json_t *out)
{
    const int64_t began = pl_clock_mono_us();

    if (pl_timer_create(b->loop, "bench.look", look, b, &b->timer, NULL) < 0)
        die("timer", NULL);
    pl_timer_start(b->timer, 0);
    pl_loop_run(b->loop);
    b->timer = pl_timer_destroy(b->timer);
    json_object_set_new(out, "followed_s", json_real(seconds_since(began)));
}

static void start_all(struct bench *b, json_t *out)
{
    const double cpu = cpu_us(getpid()), server = cpu_us(b->server);
    const int64_t began = pl_clock_mono_us();
    struct pl_err err = {0};

    shared->wanted = b->n;
    for (uint64_t id = 1; id <= b->n; id++) {
        const struct pl_worker_spec spec = worker(b, id);

        if (b->x->ops->start(b->x, &spec, &err) < 0)
            die("start", &err);
    }
    pl_loop_run(b->loop);
    json_object_set_new(out, "start_s", json_real(seconds_since(began)));
    json_object_set_new(out, "rate", json_real((double)b->n / seconds_since(began)));
    json_object_set_new(out, "cpu_us", json_real((cpu_us(getpid()) - cpu) / (double)b->n));
    json_object_set_new(out, "server_us", json_real((cpu_us(b->server) - server) / (double)b->n));
    json_object_set_new(out, "rss_mib", json_real(rss_mib()));
    usleep(50000); /* the other side counts */
    json_object_set_new(out, "writes", json_integer((json_int_t)shared->writes));
}

static void adopt_all(struct bench *b, json_t *out)
{
    const uint64_t writes = shared->writes;
    int64_t began;

    b->x = pl_executor_destroy(b->x);
    b->up = 0;
    began = pl_clock_mono_us();
    create(b);
    for (uint64_t id = 1; id <= b->n; id++) {
        const struct pl_worker_spec spec = worker(b, id);

        b->x->ops->adopt(b->x, &spec, 0, 0);
    }
    pl_loop_run(b->loop);
    json_object_set_new(out, "adopt_s", json_real(seconds_since(began)));
    usleep(50000);
    json_object_set_new(out, "adopt_writes", json_integer((json_int_t)(shared->writes - writes)));
}

/* Would another shape fit? Each is new, so that nothing is remembered. */
static void decide(struct bench *b, json_t *out)
{
    struct pl_stage def = b->spec->stages[0];
    const int rounds = 500;
    uint64_t shape;
    int64_t began;

    def.gpu.count = 1;
    began = pl_clock_mono_us();
    for (int i = 0; i < rounds; i++) {
        def.resources.memory_bytes = (i + 1) << 20;
        (void)!b->x->ops->shape(b->x, "default", &def, 1, true, &shape, NULL);
    }
    json_object_set_new(out, "decision_us", json_real((double)(pl_clock_mono_us() - began) / rounds));
}

static void write_kubeconfig(struct bench *b)
{
    FILE *file;

    snprintf(b->kubeconfig, sizeof b->kubeconfig, "/tmp/pl-bench-pods.XXXXXX");
    file = fdopen(mkstemp(b->kubeconfig), "w");
    fprintf(file,
            "{\"current-context\": \"c\", \"clusters\": [{\"name\": \"c\", \"cluster\": {\"server\": \"%s\"}}], \"users\": "
            "[{\"name\": \"u\", "
            "\"user\": {}}], \"contexts\": [{\"name\": \"c\", \"context\": {\"cluster\": \"c\", \"user\": \"u\", \"namespace\": "
            "\"n\"}}]}",
            shared->url);
    fclose(file);
}

static void parse_spec(struct bench *b)
{
    static const char text[] =
        "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"in\"}, \"run\": [\"true\"]}]}";
    struct pl_spec_errors problems = {0};
    struct pl_err err = {0};

    if (pl_spec_parse(text, strlen(text), "s.json", NULL, &b->spec, &problems, &err) < 0)
        die("spec", &err);
}

int main(int argc, char **argv)
{
    const unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 20000, nodes = argc > 2 ? (unsigned)atoi(argv[2]) : 100,
                   foreign = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    struct bench b = {.n = n, .nodes = nodes, .foreign = foreign};
    json_t *out = json_pack("{s:i, s:i, s:i}", "pods", (int)n, "nodes", (int)nodes, "foreign", (int)foreign);

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    b.server = fork();
    if (b.server == 0)
        serve(nodes, foreign);
    while (!shared->ready)
        usleep(1000);
    write_kubeconfig(&b);
    parse_spec(&b);
    if (pl_loop_create(&b.loop, NULL) < 0)
        die("loop", NULL);
    create(&b);
    follow(&b, out);
    decide(&b, out);
    start_all(&b, out);
    adopt_all(&b, out);
    pl_executor_destroy(b.x);
    pl_loop_destroy(b.loop);
    pl_spec_destroy(b.spec);
    unlink(b.kubeconfig);
    kill(b.server, SIGKILL);
    waitpid(b.server, NULL, 0);
    json_dumpf(out, stdout, JSON_REAL_PRECISION(4));
    putchar('\n');
    json_decref(out);
    return b.exited ? 1 : 0;
}
