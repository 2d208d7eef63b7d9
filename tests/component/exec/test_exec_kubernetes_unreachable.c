// link: pipelined/exec/kubernetes pipelined/kube/pod storage/base kube_fake
/* The executor `kubernetes` where the API server is away when it begins: it begins all the same, says so, and makes pods once it answers. */
#include "pipelined/exec/kubernetes/worker_pod.h"
#include "tests/component/exec/exec_kubernetes_fixture.h"

static void be_away(struct fixture *f)
{
    kube_fake_fault(f->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_ANSWER, 503, 0, "it starts", 0, 0});
}

static uint64_t shape_of(struct fixture *f)
{
    uint64_t id;

    assert_int_equal(f->x->ops->shape(f->x, "default", &f->spec->stages[0], 1, false, &id, NULL), 0);
    return id;
}

static void no_stage_has_pods_until_the_server_answers(void **state_)
{
    const struct pl_secret_op list = {.what = PL_SECRET_LIST, .project = "default"};
    struct fixture *f = *state_;
    const struct pl_worker_spec spec = worker(f, 7);
    struct pl_executor_check c;
    struct pl_err err = {0};
    json_t *gpus, *secrets = NULL;
    uint64_t first;

    be_away(f);
    create(f, false);
    first = shape_of(f);
    assert_false(f->heard.offered);
    assert_non_null(strstr(f->heard.shape, "http://127.0.0.1:"));
    assert_non_null(strstr(f->heard.shape, "it starts"));
    assert_int_equal(f->x->ops->check(f->x, "default", spec.def, false, &c, &err), 0);
    assert_non_null(strstr(c.not_checked, "it starts"));
    assert_null(c.body);
    assert_int_equal(f->x->ops->start(f->x, &spec, &err), PL_EUNAVAILABLE);
    assert_int_equal(f->x->ops->secrets(f->x, &list, &secrets, &err), PL_EUNAVAILABLE);
    assert_non_null(strstr(err.msg, "has not answered since the daemon started"));
    gpus = f->x->ops->gpus(f->x);
    assert_non_null(strstr(json_string_value(json_object_get(gpus, "not_measured")), "it starts"));
    json_decref(gpus);
    kube_fake_heal(f->fake);
    until(f, is_reshaped);
    until(f, listens);
    assert_int_not_equal(shape_of(f), first);
    assert_true(f->heard.offered);
    start(f, 7);
    until(f, has_pod);
    assert_int_equal(f->heard.exited, 0);
    assert_int_equal(f->x->ops->secrets(f->x, &list, &secrets, &err), 0);
    json_decref(secrets);
    kube_fake_token(f->fake, "another"); /* than the daemon's: who asks has his own */
    assert_int_equal(f->x->ops->secrets(f->x, &list, &secrets, &err), PL_EUNAVAILABLE);
    assert_string_equal(err.msg, "the API server rejects the daemon's credentials: Unauthorized");
}

/* Who was adopted meanwhile is found, is gone, or is told to end, as if the server had been there. */
static void pods_of_an_earlier_life_are_found_later(void **state_)
{
    struct fixture *f = *state_;
    struct pl_worker_spec spec;

    create(f, true);
    start(f, 7);
    start(f, 8);
    while (kube_fake_count(f->fake, PODS) < 2)
        until(f, listens);
    f->x = pl_executor_destroy(f->x);
    memset(&f->heard, 0, sizeof f->heard);
    be_away(f);
    create(f, false);
    for (uint64_t id = 7; id <= 9; id++) {
        spec = worker(f, id);
        f->x->ops->adopt(f->x, &spec, 0, 0);
    }
    f->x->ops->stop(f->x, 8, true);
    run(f, 7);
    kube_fake_heal(f->fake);
    until(f, is_up);
    until(f, has_pod); /* 8 is removed */
    while (f->heard.exited < 2)
        until(f, has_end);
    assert_int_equal(f->heard.placed, f->heard.up);
}

static void who_waits_for_a_server_can_end(void **state_)
{
    struct fixture *f = *state_;

    be_away(f);
    create(f, false);
    kube_fake_heal(f->fake);
    kube_fake_fault(f->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_SILENT, 0, 0, "", 0, 0});
    pl_cluster_discovery_tick((struct kube *)f->x); /* not yet: it has just been asked */
    assert_null(((struct kube *)f->x)->learning);
    ((struct kube *)f->x)->learn_ms = 0;
    pl_cluster_discovery_tick((struct kube *)f->x);
    assert_non_null(((struct kube *)f->x)->learning);
}

/* It answers at first, and goes in the middle of what must be known. */
static void a_server_that_goes_while_it_is_asked_is_asked_again(void **state_)
{
    struct fixture *f = *state_;

    be_away(f);
    create(f, false);
    kube_fake_heal(f->fake);
    kube_fake_fault(f->fake, (struct kube_fake_fault){NULL, "/selfsubjectaccessreviews", KUBE_FAULT_ANSWER, 401, 0, "", 0, 28});
    until(f, is_reshaped); /* now it is that which holds us up */
    (void)shape_of(f);
    assert_false(f->heard.offered);
    f->heard.reshapes = 0;
    until(f, is_reshaped);
    (void)shape_of(f);
    assert_true(f->heard.offered);
}

static void what_is_wrong_for_good_is_told_at_the_start(void **state_)
{
    struct fixture *f = *state_;
    const struct pl_exec_kubernetes_config config = {.loop = f->loop,
                                                     .kubeconfig = f->kubeconfig,
                                                     .context = "",
                                                     .settings = &f->settings,
                                                     .events = {f, on_started, on_exited, on_placed, on_waits, on_shape,
                                                                on_reshape, has_shape}};
    struct pl_err err = {0};

    f->settings.store_id = STORE;
    kube_fake_token(f->fake, "another");
    assert_int_equal(pl_exec_kubernetes_create(&config, &f->x, &err), PL_EAUTH);
    kube_fake_token(f->fake, NULL);
    f->settings = (struct pl_pod_settings){.store_id = STORE, .owner_name = "anchor"};
    assert_int_equal(pl_exec_kubernetes_create(&config, &f->x, &err), PL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "kubernetes.owner: ConfigMap anchor of namespace n"));
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(no_stage_has_pods_until_the_server_answers),
        ROW(pods_of_an_earlier_life_are_found_later),
        ROW(who_waits_for_a_server_can_end),
        ROW(a_server_that_goes_while_it_is_asked_is_asked_again),
        ROW(what_is_wrong_for_good_is_told_at_the_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
