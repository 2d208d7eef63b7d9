// link: pipelined/exec/kubernetes pipelined/kube/pod storage/base kube_fake
/* The executor `kubernetes` where time passes and a pod comes to nothing: what its agent printed is told, an image that never comes is given up. */
#include "tests/support/faults/fake_clock.h"

#include "pipelined/exec/kubernetes/worker_pod.h"
#include "tests/component/exec/exec_kubernetes_fixture.h"

#define NO_SERVER                                                                                                                \
    "{\"time\":\"2026-11-22T10:00:00Z\",\"level\":\"warn\",\"program\":\"pipelined-worker\",\"module\":\"lease\",\"message\":"   \
    "\"no server at https://daemon:7380\"}\n"

#define CLASSES   "/apis/node.k8s.io/v1/runtimeclasses"
#define WORKLOADS "/apis/kueue.x-k8s.io/v1beta1/namespaces/n/workloads"

static bool says_why(struct fixture *f)
{
    return f->heard.waits > 0;
}

static void a_pod_up(struct fixture *f)
{
    create(f, true);
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    f->heard.waits = 0;
}

static void log_is(struct fixture *f, const char *lines)
{
    char path[256];

    kube_fake_log(f->fake, path_of(7, path), lines, true);
}

static void assert_why(struct fixture *f, const char *end)
{
    char path[256], why[600];

    (void)snprintf(why, sizeof why, "pod %s runs on node cpu-1, but its agent has not connected%s",
                   strrchr(path_of(7, path), '/') + 1, end);
    assert_string_equal(f->heard.why, why);
}

static void the_last_words_of_an_agent_that_does_not_come_are_told(void **state_)
{
    struct fixture *f = *state_;

    a_pod_up(f);
    log_is(f, NO_SERVER);
    clock_ahead_ms += PL_POD_ATTACH_TIMEOUT_MS;
    until(f, says_why);
    assert_why(f, ": no server at https://daemon:7380");
    f->heard.waits = 0;
    log_is(f, NO_SERVER "the certificate of daemon is not trusted here\n\n");
    clock_ahead_ms += PL_POD_ATTACH_TIMEOUT_REPEAT_MS;
    until(f, says_why);
    assert_why(f, ": the certificate of daemon is not trusted here");
}

#define MANY 12

static bool all_are_there(struct fixture *f)
{
    return kube_fake_count(f->fake, PODS) == MANY;
}

static bool all_are_up(struct fixture *f)
{
    return f->heard.up == MANY;
}

static bool all_are_told(struct fixture *f)
{
    return f->heard.waits >= MANY;
}

static void many_start(struct fixture *f)
{
    create(f, true);
    for (uint64_t id = 1; id <= MANY; id++)
        start(f, id);
    until(f, all_are_there);
}

/* Before the first is asked again, though that is due before all have had their turn. */
static void of_many_each_has_its_turn(void **state_)
{
    struct fixture *f = *state_;

    many_start(f);
    for (uint64_t id = 1; id <= MANY; id++)
        run(f, id);
    until(f, all_are_up);
    f->heard.waits = 0;
    kube_fake_log(f->fake, "nobody", "", true);
    clock_ahead_ms += PL_POD_ATTACH_TIMEOUT_MS;
    until(f, all_are_told);
    assert_non_null(strstr(f->heard.why, "its log cannot be read"));
    assert_int_equal(f->heard.waits, MANY);
}

static void who_has_printed_nothing_is_told_so(void **state_)
{
    struct fixture *f = *state_;

    a_pod_up(f);
    log_is(f, "");
    clock_ahead_ms += PL_POD_ATTACH_TIMEOUT_MS;
    until(f, says_why);
    assert_why(f, ", and has printed nothing");
}

static void a_log_that_may_not_be_read_is_not_asked_for(void **state_)
{
    struct fixture *f = *state_;

    kube_fake_deny(f->fake, " get /pods/log ");
    a_pod_up(f);
    log_is(f, NO_SERVER);
    clock_ahead_ms += PL_POD_ATTACH_TIMEOUT_MS;
    until(f, says_why);
    assert_why(f, ", and the daemon's account may not read its log (pods/log: get)");
}

static bool is_asked_whether_it_came(struct fixture *f)
{
    return f->come_asked > 0;
}

static void of_an_agent_that_has_come_nothing_is_asked(void **state_)
{
    struct fixture *f = *state_;

    f->come = true;
    a_pod_up(f);
    log_is(f, NO_SERVER);
    clock_ahead_ms += PL_POD_ATTACH_TIMEOUT_MS;
    until(f, is_asked_whether_it_came);
    finish(f, 7, 0, 0);
    until(f, has_end);
    assert_int_equal(f->come_asked, 1);
    assert_int_equal(f->heard.waits, 0);
}

static bool says_of_quota(struct fixture *f)
{
    return strstr(f->heard.why, "insufficient") != NULL;
}

static bool says_of_queue(struct fixture *f)
{
    return strstr(f->heard.why, "queue team-a") != NULL;
}

static void hold_back(struct fixture *f, uint64_t id)
{
    patch(f, id,
          json_pack("{s:{s:{s:s}}, s:{s:[{s:s}]}}", "metadata", "labels", "kueue.x-k8s.io/queue-name", "team-a", "spec",
                    "schedulingGates", "name", "kueue.x-k8s.io/admission"));
}

static json_t *workload_of(struct fixture *f, uint64_t id, const char *message)
{
    char path[256], name[16];
    json_t *pod = kube_fake_get(f->fake, path_of(id, path)), *metadata = json_object_get(pod, "metadata"), *made;

    (void)snprintf(name, sizeof name, "w%u", (unsigned)id);
    made = json_pack("{s:{s:s, s:{s:O}}, s:{s:[{s:s, s:s, s:s}]}}", "metadata", "name", name, "labels", "kueue.x-k8s.io/job-uid",
                     json_object_get(metadata, "uid"), "status", "conditions", "type", "QuotaReserved", "status", "False",
                     "message", message);
    json_decref(pod);
    return made;
}

static void why_a_queue_holds_a_pod_back_is_told(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    hold_back(f, 7);
    until(f, says_of_queue);
    assert_string_equal(f->heard.why,
                        "queue team-a has not admitted the pod yet: Scheduling is blocked due to non-empty scheduling gates "
                        "(kueue.x-k8s.io/admission)");
    kube_fake_put(f->fake, WORKLOADS, workload_of(f, 7, "insufficient quota"));
    clock_ahead_ms += PL_POD_QUEUED_MS;
    until(f, says_of_quota);
    assert_string_equal(f->heard.why, "queue team-a has not admitted the pod yet: insufficient quota");
}

static void of_many_that_are_held_back_each_has_its_turn(void **state_)
{
    struct fixture *f = *state_;

    many_start(f);
    f->heard.waits = 0;
    for (uint64_t id = 1; id <= MANY; id++)
        hold_back(f, id);
    until(f, all_are_told);
    f->heard.waits = 0;
    for (uint64_t id = 1; id <= MANY; id++)
        kube_fake_put(f->fake, WORKLOADS, workload_of(f, id, "insufficient quota"));
    clock_ahead_ms += PL_POD_QUEUED_MS;
    until(f, all_are_told);
    assert_true(says_of_quota(f));
    assert_int_equal(f->heard.waits, MANY);
}

static bool says_of_image(struct fixture *f)
{
    return strstr(f->heard.why, "Image") != NULL;
}

static bool has_two_pods(struct fixture *f)
{
    return kube_fake_count(f->fake, PODS) == 2;
}

static void waits_for_image(struct fixture *f, uint64_t id)
{
    patch(f, id,
          json_pack("{s:{s:s}, s:{s:s, s:[o]}}", "spec", "nodeName", "cpu-1", "status", "phase", "Pending", "containerStatuses",
                    state("main", "waiting",
                          json_pack("{s:s, s:s}", "reason", "ErrImagePull", "message", "debian:12: not found"))));
    memset(&f->heard, 0, sizeof f->heard);
    until(f, says_of_image);
}

static bool is_replaced(struct fixture *f)
{
    return f->heard.exited > 0 && has_pod(f);
}

/* A pod that takes the place of another one, which waits for its image and is told to end: what a stage does that looks for another node. */
static void place_apart(struct fixture *f, uint64_t old, uint64_t new)
{
    start(f, new);
    until(f, has_two_pods);
    waits_for_image(f, new);
    f->x->ops->stop(f->x, old, true);
    until(f, is_replaced);
    assert_int_equal(f->heard.exited, 1);
    assert_int_equal(f->heard.last, old);
}

/* Ten minutes after the first pod began to wait the third one is given up, which has waited for two of them. */
static void an_image_is_waited_for_ten_minutes_by_all_pods_of_a_stage_together(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    waits_for_image(f, 7);
    clock_ahead_ms += 4 * 60000;
    place_apart(f, 7, 8);
    clock_ahead_ms += 4 * 60000;
    place_apart(f, 8, 9);
    memset(&f->heard, 0, sizeof f->heard);
    clock_ahead_ms += 2 * 60000;
    until(f, has_end);
    assert_int_equal(f->heard.last, 9);
    assert_true(f->heard.hopeless);
    assert_non_null(strstr(f->heard.end, "check the image's name"));
}

static bool nine_is_gone(struct fixture *f)
{
    return f->heard.exited > 0 && f->heard.last == 9;
}

/* The containers of another pod of the stage run: from then on the ten minutes begin anew. */
static void a_good_start_ends_the_wait_for_an_image(void **state_)
{
    struct fixture *f = *state_;
    int64_t from_ms;

    f->come = true; /* otherwise it would be told why the agent of the second does not */
    create(f, true);
    start(f, 7);
    until(f, has_pod);
    waits_for_image(f, 7);
    clock_ahead_ms += 8 * 60000;
    start(f, 8);
    until(f, has_two_pods);
    run(f, 8);
    until(f, is_up);
    f->x->ops->stop(f->x, 7, true);
    until(f, has_pod);
    from_ms = pl_clock_mono_ms();
    start(f, 9);
    until(f, has_two_pods);
    waits_for_image(f, 9);
    count_looks(f);
    while (!nine_is_gone(f)) {
        f->shapes_asked = 0;
        clock_ahead_ms += 60000;
        until(f, is_looked);
    }
    assert_in_range(pl_clock_mono_ms() - from_ms, PL_POD_PULL_MS, 3 * PL_POD_PULL_MS);
}

static void an_image_that_never_comes_is_given_up(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    waits_for_image(f, 7);
    assert_string_equal(f->heard.why, "ErrImagePull of main: debian:12: not found");
    assert_int_equal(f->heard.exited, 0);
    clock_ahead_ms += PL_POD_PULL_MS;
    until(f, has_end);
    assert_string_equal(f->heard.end,
                        "ErrImagePull of main: debian:12: not found: check the image's name and the registry's secret");
    assert_true(f->heard.hopeless);
    assert_false(f->heard.counts);
    until(f, has_no_pod);
}

static unsigned long classes_listed(struct fixture *f)
{
    struct kube_fake_view view;

    kube_fake_look(f->fake, &view);
    return view.counted;
}

static void asks_for_class(struct fixture *f, uint64_t version, const char *more)
{
    struct pl_spec *spec = pod_spec_of(more);
    uint64_t id;

    assert_int_equal(f->x->ops->shape(f->x, "default", &spec->stages[0], version, false, &id, NULL), 0);
    pl_spec_destroy(spec);
    if (!strstr(f->heard.shape, "the cluster has no runtime class"))
        fail_msg("%s", f->heard.shape);
}

/* Lets time pass until the runtime classes were listed so often; returns how long that took, in ms. */
static int64_t until_classes_listed(struct fixture *f, unsigned long times)
{
    const int64_t from_ms = pl_clock_mono_ms();

    kube_fake_count_requests(f->fake, "GET", "/runtimeclasses");
    while (classes_listed(f) < times) {
        f->shapes_asked = 0;
        clock_ahead_ms += PL_POD_LOOK_MS;
        until(f, is_looked);
    }
    return pl_clock_mono_ms() - from_ms;
}

/* Ever more seldom, up to a minute; another stage that waits for one is heard of at once. */
static void runtime_classes_are_listed_seldom_while_a_stage_lacks_one(void **state_)
{
    struct fixture *f = *state_;
    int64_t took_ms;

    kube_fake_put(f->fake, CLASSES, json_pack("{s:{s:s}}", "metadata", "name", "nvidia"));
    create(f, true);
    asks_for_class(f, 1, "\"placement\": {\"runtime_class\": \"kata\"}");
    took_ms = until_classes_listed(f, 8);
    assert_in_range(took_ms, 240000, 600000); /* 4 s, 8 s, 16 s, 32 s, 60 s … */
    asks_for_class(f, 2, "\"placement\": {\"runtime_class\": \"gvisor\"}");
    took_ms = until_classes_listed(f, 1);
    assert_in_range(took_ms, 0, 30000);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(the_last_words_of_an_agent_that_does_not_come_are_told),
        ROW(of_many_each_has_its_turn),
        ROW(who_has_printed_nothing_is_told_so),
        ROW(a_log_that_may_not_be_read_is_not_asked_for),
        ROW(of_an_agent_that_has_come_nothing_is_asked),
        ROW(why_a_queue_holds_a_pod_back_is_told),
        ROW(of_many_that_are_held_back_each_has_its_turn),
        ROW(an_image_that_never_comes_is_given_up),
        ROW(an_image_is_waited_for_ten_minutes_by_all_pods_of_a_stage_together),
        ROW(a_good_start_ends_the_wait_for_an_image),
        ROW(runtime_classes_are_listed_seldom_while_a_stage_lacks_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
