// link: pipelined/exec/kubernetes storage/base kube_fake
/* How GPUs are used, as exporters tell over the (fake) API server's proxy: which are read and how often, and that what is not told is not
 * known. */
#include "tests/support/kube_server/kube_fake.h"

#include "pipelined/exec/kubernetes/gpu_usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define PROXY "/api/v1/namespaces/gpu-operator/pods/"
#define TEXT                                                                                                                     \
    "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\",namespace=\"ml\",pod=\"train\"} 37\n"                                                   \
    "DCGM_FI_DEV_FB_USED{UUID=\"GPU-1\",namespace=\"ml\",pod=\"train\"} 10240\n"

struct fixture {
    struct kube_fake *fake;
    struct pl_loop *loop;
    struct pl_timer *tick;
    struct pl_kube_client *client;
    struct pl_gpu_use *use;
    bool (*holds)(struct fixture *f);
    const char *says; /* of problem_says_so */
    unsigned ticks, told, nothing;
    char node[64], pod[100];
    double utilisation, used_mib;
};

static void on_told(void *self, const char *node, const struct pl_dcgm_gpu *gpus, size_t n)
{
    struct fixture *f = self;

    f->told += n > 0;
    f->nothing += n == 0;
    (void)snprintf(f->node, sizeof f->node, "%s", node);
    if (n > 0) {
        (void)snprintf(f->pod, sizeof f->pod, "%s/%.30s", gpus[0].ns, gpus[0].pod);
        f->utilisation = gpus[0].utilisation;
        f->used_mib = gpus[0].used_mib;
    }
}

static void on_tick(void *arg)
{
    struct fixture *f = arg;

    if (f->holds(f))
        pl_loop_stop(f->loop);
    else if (++f->ticks > 10000)
        fail_msg("waited for what did not come: \"%s\"", pl_gpu_usage_problem(f->use));
    else
        pl_timer_start(f->tick, 5);
}

static void until(struct fixture *f, bool (*holds)(struct fixture *f))
{
    f->holds = holds;
    f->ticks = 0;
    pl_timer_start(f->tick, 0);
    pl_loop_run(f->loop);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct pl_kube_client_config config = {.pause_ms = 5};
    struct pl_gpu_usage_config use = {.pace_ms = 1, .told = on_told, .self = f};

    f->fake = kube_fake_start();
    config.kubeconfig =
        (struct pl_kubeconfig){.server = strdup(kube_fake_url(f->fake)), .name_space = strdup("n"), .context = strdup("fake")};
    assert_int_equal(pl_kube_client_create(&config, &f->client, NULL), 0);
    assert_int_equal(pl_loop_create(&f->loop, NULL), 0);
    assert_int_equal(pl_timer_create(f->loop, "test.tick", on_tick, f, &f->tick, NULL), 0);
    use.loop = f->loop;
    use.client = f->client;
    assert_int_equal(pl_gpu_usage_create(&use, &f->use, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    pl_gpu_usage_destroy(f->use);
    pl_kube_client_destroy(f->client);
    pl_timer_destroy(f->tick);
    pl_loop_destroy(f->loop);
    kube_fake_stop(f->fake);
    free(f);
    return 0;
}

static void tell(struct fixture *f, enum pl_kube_event e, const char *name, const char *label, const char *value, json_t *ports,
                 const char *phase)
{
    json_t *pod =
        json_pack("{s:{s:s, s:s, s:{s:s}}, s:{s:s, s:[{s:o}]}, s:{s:s}}", "metadata", "name", name, "namespace", "gpu-operator",
                  "labels", label, value, "spec", "nodeName", "g1", "containers", "ports", ports, "status", "phase", phase);

    assert_non_null(pod);
    pl_gpu_usage_pod(f->use, e, pod);
    json_decref(pod);
}

static void answers(struct fixture *f, const char *part, unsigned status, const char *body)
{
    kube_fake_fault(f->fake, (struct kube_fake_fault){"GET", part, KUBE_FAULT_ANSWER, status, 0, body, 0, 0});
}

static bool told_twice(struct fixture *f)
{
    return f->told >= 2;
}

static void exporters_are_read_again_and_again(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(pl_gpu_usage_problem(f->use), "no running dcgm-exporter pod was found");
    answers(f, PROXY "x:9400/proxy/metrics", 200, TEXT);
    tell(f, PL_KUBE_ADDED, "other", "app", "jupyter", json_array(), "Running");
    tell(f, PL_KUBE_ADDED, "x", "app", "nvidia-dcgm-exporter", json_array(), "Running");
    until(f, told_twice);
    assert_string_equal(f->node, "g1");
    assert_string_equal(f->pod, "ml/train");
    assert_true(f->utilisation == 37 && f->used_mib == 10240);
    assert_string_equal(pl_gpu_usage_problem(f->use), "");
    tell(f, PL_KUBE_DELETED, "x", "app", "nvidia-dcgm-exporter", json_array(), "Running");
    assert_int_equal(f->nothing, 1); /* it is not known any more */
    assert_string_equal(pl_gpu_usage_problem(f->use), "no running dcgm-exporter pod was found");
}

static void a_pod_says_at_which_port(void **state)
{
    struct fixture *f = *state;

    answers(f, PROXY "x:9401/proxy/metrics", 200, TEXT);
    tell(f, PL_KUBE_ADDED, "x", "app.kubernetes.io/name", "dcgm-exporter",
         json_pack("[{s:s, s:i}, {s:s, s:i}]", "name", "health", "containerPort", 8080, "name", "metrics", "containerPort", 9401),
         "Running");
    until(f, told_twice);
}

static bool has_problem(struct fixture *f)
{
    return *pl_gpu_usage_problem(f->use) != '\0';
}

static bool problem_says_so(struct fixture *f)
{
    return strstr(pl_gpu_usage_problem(f->use), f->says) != NULL;
}

static unsigned long requests_of(struct fixture *f)
{
    struct kube_fake_view view;

    kube_fake_look(f->fake, &view);
    return view.requests;
}

static void what_is_not_told_is_not_known(void **state)
{
    static const struct {
        unsigned status;
        const char *body, *says;
    } rows[] = {
        {403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"cannot get resource pods/proxy\",\"code\":403}",
         "gpu-operator/x: "},
        {503, "{\"kind\":\"Status\",\"reason\":\"ServiceUnavailable\",\"message\":\"no endpoints available\",\"code\":503}",
         "no endpoints available"},
        {200, "<html>", "gpu-operator/x: "},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        kube_fake_heal(f->fake);
        f->told = f->nothing = 0;
        answers(f, PROXY "x:9400", 200, TEXT);
        tell(f, PL_KUBE_ADDED, "x", "app", "dcgm-exporter", json_array(), "Running");
        until(f, told_twice);
        kube_fake_heal(f->fake);
        answers(f, PROXY "x:9400", rows[i].status, rows[i].body);
        f->says = rows[i].says; /* a reading that was under way may find the proxy gone */
        until(f, problem_says_so);
        assert_int_equal(f->nothing, 1);
        tell(f, PL_KUBE_DELETED, "x", "app", "dcgm-exporter", json_array(), "Running");
    }
}

static void one_that_does_not_run_is_not_asked(void **state)
{
    struct fixture *f = *state;
    const unsigned long before = requests_of(f);

    tell(f, PL_KUBE_ADDED, "x", "app", "dcgm-exporter", json_array(), "Pending");
    tell(f, PL_KUBE_ADDED, "y", "app", "dcgm-exporter", json_array(), "Running");
    until(f, has_problem);
    assert_null(strstr(pl_gpu_usage_problem(f->use), "/x"));
    assert_int_equal(requests_of(f), before + (strstr(pl_gpu_usage_problem(f->use), "/y") ? 1 : 0));
}

/* It ends while an answer is on its way. */
static void it_can_end_at_any_time(void **state)
{
    struct fixture *f = *state;

    kube_fake_fault(f->fake, (struct kube_fake_fault){.method = "GET", .part = "x:9400", .kind = KUBE_FAULT_SILENT});
    tell(f, PL_KUBE_ADDED, "x", "app", "dcgm-exporter", json_array(), "Running");
    tell(f, PL_KUBE_ADDED, "z", "app", "other", json_array(), "Running");
    f->told = 2;
    until(f, told_twice); /* the loop has turned: the request is under way */
    kube_fake_await_requests(f->fake, 1);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(exporters_are_read_again_and_again), ROW(a_pod_says_at_which_port), ROW(what_is_not_told_is_not_known),
        ROW(one_that_does_not_run_is_not_asked), ROW(it_can_end_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
