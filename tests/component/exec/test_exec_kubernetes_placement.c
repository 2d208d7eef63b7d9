// link: pipelined/exec/kubernetes pipelined/kube/pod storage/base kube_fake
/* The executor `kubernetes`: pods that wait for a node, or to run on one: what a node must have for them, what is known of those of an earlier life, and
 * those that nobody will ever start. */
#include "tests/component/exec/exec_kubernetes_fixture.h"

static uint64_t needs_of(struct fixture *f, const struct pl_spec *spec, bool gpu, uint64_t *ret_shape)
{
    assert_int_equal(f->x->ops->shape(f->x, "default", &spec->stages[0], 1, gpu, ret_shape, NULL), 0);
    assert_int_not_equal(f->heard.shape_needs, 0);
    return f->heard.shape_needs;
}

static bool has_products(struct fixture *f)
{
    return strstr(f->heard.shape, "Tesla-T4") != NULL;
}

/* What pods only keep away from, or like better, is no need: a node of another kind changes their shape, not what they wait for. What they ask for is,
 * by its name and by which products it may be of. */
static void what_pods_need_of_a_node_is_told_apart_from_what_they_would_rather_have(void **state_)
{
    static const struct {
        const char *more;
        bool gpu, another;
    } rows[] = {
        {"", false, false}, /* avoids nodes with GPUs, by the labels that there are */
        {"\"gpu\": 1", true, false},
        {"\"gpu\": {\"share\": {\"mode\": \"time-slicing\"}}", true, true},
        {"\"gpu\": {\"product\": [\"*A100*\", \"*T4*\"]}", true, true},
    };
    struct fixture *f = *state_;
    struct pl_spec *two = pod_spec_of("\"gpu\": 2"), *spec[PL_ARRAY_SIZE(rows)];
    uint64_t before[PL_ARRAY_SIZE(rows)], first[PL_ARRAY_SIZE(rows)], second, id;
    struct pl_worker_spec large = worker(f, 8);

    put_gpu_node(f, "a100", "NVIDIA-A100-SXM4-40GB");
    create(f, true);
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        spec[i] = pod_spec_of(rows[i].more);
        before[i] = needs_of(f, spec[i], rows[i].gpu, &first[i]);
    }
    kube_fake_put(f->fake, NODES,
                  json_pack("{s:{s:s, s:{s:s, s:s, s:s}}, s:{s:{s:s, s:s, s:s}, s:[{s:s, s:s}]}}", "metadata", "name", "turns",
                            "labels", "nvidia.com/gpu.product", "Tesla-T4-SHARED", "nvidia.com/gpu.sharing-strategy",
                            "time-slicing", "cloud.google.com/gke-accelerator", "nvidia-tesla-t4", "status", "allocatable", "cpu",
                            "8", "memory", "32Gi", "nvidia.com/gpu.shared", "8", "conditions", "type", "Ready", "status",
                            "True"));
    put_gpu_node(f, "t4", "Tesla-T4");
    large.def = &two->stages[0];
    large.gpu = true;
    ask_anew(f, &large, "Tesla-T4-SHARED", &id);
    assert_true(has_products(f));
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const uint64_t after = needs_of(f, spec[i], rows[i].gpu, &second);

        assert_int_not_equal(first[i], second);
        if ((before[i] != after) != rows[i].another)
            fail_msg("%s: what it needs is %s", rows[i].more, rows[i].another ? "the same" : "another");
        pl_spec_destroy(spec[i]);
    }
    pl_spec_destroy(two);
}

static bool has_told_what_it_needs(struct fixture *f)
{
    return f->heard.needs_told > 0;
}

/* Of one that waits for a node what that must have, as it was made then; of the one that has a node nothing. */
static void what_an_adopted_pod_waits_for_is_told(void **state_)
{
    struct fixture *f = *state_;
    struct pl_worker_spec spec = worker(f, 7);
    uint64_t id, needs;

    create(f, true);
    needs = needs_of(f, f->spec, false, &id);
    start(f, 7);
    start(f, 8);
    while (kube_fake_count(f->fake, PODS) < 2)
        until(f, listens);
    bind(f, 8);
    f->x = pl_executor_destroy(f->x);
    memset(&f->heard, 0, sizeof f->heard);

    create(f, false);
    f->x->ops->adopt(f->x, &spec, 0, 0);
    spec = worker(f, 8);
    f->x->ops->adopt(f->x, &spec, 0, 0);
    until(f, has_told_what_it_needs);
    assert_int_equal(f->heard.last, 7);
    assert_true(f->heard.needs == needs);
    until(f, is_placed);
    bind(f, 7);
    run(f, 7);
    run(f, 8);
    while (f->heard.up < 2)
        until(f, is_up);
    assert_int_equal(f->heard.needs_told, 1);
}

/* They have their nodes already: nothing is learnt from that about how many more would find one. */
static void pods_that_are_adopted_with_their_nodes_let_none_follow(void **state_)
{
    struct fixture *f = *state_;
    struct pl_worker_spec spec;
    uint64_t id;

    create(f, true);
    for (uint64_t i = 1; i <= 3; i++)
        start(f, i);
    while (kube_fake_count(f->fake, PODS) < 3)
        until(f, listens);
    bind(f, 1);
    bind(f, 2);
    f->x = pl_executor_destroy(f->x);
    memset(&f->heard, 0, sizeof f->heard);

    create(f, false);
    for (uint64_t i = 1; i <= 3; i++) {
        spec = worker(f, i);
        f->x->ops->adopt(f->x, &spec, 0, 0);
    }
    until(f, has_told_what_it_needs);
    while (f->heard.placed < 2)
        until(f, is_placed);
    (void)needs_of(f, f->spec, false, &id);
    assert_int_equal(f->heard.pending_max, 1);
    bind(f, 3); /* now */
    while (f->heard.placed < 3)
        until(f, is_placed);
    (void)needs_of(f, f->spec, false, &id);
    assert_true(f->heard.pending_max > 1);
}

/* Where the node of a pod is lost before the pod's containers run nobody takes it away: it is told to end, and over. */
static void who_is_deleted_before_it_runs_is_over(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    bind(f, 7);
    until(f, is_placed);
    patch(f, 7, json_pack("{s:{s:s}}", "metadata", "deletionTimestamp", "2026-11-22T10:00:00Z"));
    until(f, has_end);
    assert_string_equal(f->heard.end, "its pod was deleted");
    assert_false(f->heard.hopeless || f->heard.counts);
}

/* Its jobs run on the CPU meanwhile, unless no node would take even that pod: the reason is then that one's. */
static void a_gpu_that_nobody_offers_and_that_is_not_required_makes_no_job_wait(void **state_)
{
    static const struct {
        const char *fields, *says;
        bool on_cpu;
    } rows[] = {
        {"\"gpu\": 1", "no node offers nvidia.com/gpu; ", false},
        {"\"gpu\": {\"required\": false}", "no node offers nvidia.com/gpu; ", true},
        {"\"gpu\": {\"required\": false, \"product\": [\"*B200*\"]}", "no node has a GPU product *B200*", true},
        {"\"gpu\": {\"required\": false}, \"resources\": {\"memory\": \"2Ti\"}", "no node has cpu ", false},
    };
    struct fixture *f = *state_;

    create(f, true);
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_spec *spec = pod_spec_of(rows[i].fields);
        struct pl_executor_check c;
        struct pl_err err = {0};

        if (f->x->ops->check(f->x, "default", &spec->stages[0], true, &c, &err) < 0)
            fail_msg("%s: %s", rows[i].fields, err.msg);
        if (strncmp(c.not_offered, rows[i].says, strlen(rows[i].says)) != 0 || c.on_cpu != rows[i].on_cpu)
            fail_msg("%s: %s (on_cpu %d)", rows[i].fields, c.not_offered, c.on_cpu);
        if (rows[i].on_cpu) /* what the cluster is asked to admit is the pod that will run */
            assert_true(c.body && !strstr(c.body, "nvidia.com/gpu\":\"1"));
        free(c.body);
        pl_spec_destroy(spec);
    }
}

/* Who may ask for all of a pod could have the network back by it. */
static void a_trusted_project_is_not_while_its_network_is_off(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *spec = pod_spec_of("\"placement\": {\"pod_patch\": {\"hostNetwork\": true}}");
    struct pl_worker_spec worker_spec = worker(f, 7);
    struct pl_executor_check c;
    struct pl_err err = {0};
    uint64_t id;

    f->trusted = "default";
    create(f, true);
    worker_spec.def = &spec->stages[0];
    assert_int_equal(f->x->ops->check(f->x, "default", &spec->stages[0], false, &c, &err), 0);
    free(c.body);
    assert_int_equal(f->x->ops->shape(f->x, "default", &spec->stages[0], 1, false, &id, NULL), 0);
    assert_true(f->heard.offered);
    f->network_off = true;
    assert_int_equal(f->x->ops->check(f->x, "default", &spec->stages[0], false, &c, &err), PL_EFORBIDDEN);
    assert_string_equal(err.field, "hostNetwork");
    assert_int_equal(f->x->ops->shape(f->x, "default", &spec->stages[0], 1, false, &id, NULL), 0);
    assert_false(f->heard.offered); /* one that is there waits, and says why */
    assert_non_null(strstr(f->heard.shape, "hostNetwork is forbidden"));
    worker_spec.network_off = true;
    assert_int_equal(f->x->ops->start(f->x, &worker_spec, &err), PL_EFORBIDDEN);
    worker_spec.network_off = false;
    assert_int_equal(f->x->ops->start(f->x, &worker_spec, &err), 0);
    pl_spec_destroy(spec);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(what_pods_need_of_a_node_is_told_apart_from_what_they_would_rather_have),
        ROW(what_an_adopted_pod_waits_for_is_told),
        ROW(pods_that_are_adopted_with_their_nodes_let_none_follow),
        ROW(who_is_deleted_before_it_runs_is_over),
        ROW(a_gpu_that_nobody_offers_and_that_is_not_required_makes_no_job_wait),
        ROW(a_trusted_project_is_not_while_its_network_is_off),
    };

    return cmocka_run_group_tests_name("exec_kubernetes_needs", tests, NULL, NULL);
}
