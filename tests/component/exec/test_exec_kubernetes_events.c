// link: pipelined/exec/kubernetes pipelined/kube/client pipelined/kube/pod pipelined/text storage/base kube_fake
/* The executor `kubernetes` tells what happened by Events about the ConfigMap that owns the pods: where it may, and never at the cost of anything else. */
#include "tests/support/faults/fake_clock.h"

#include "pipelined/exec/kubernetes/worker_pod.h"
#include "pipelined/text/json_text.h"
#include "tests/component/exec/exec_kubernetes_fixture.h"

#define OWNERS "/api/v1/namespaces/n/configmaps"
#define LOST   "pod p on a was lost: its pod was evicted"
#define DENIED                                                                                                                   \
    "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"events is forbidden: User \\\"d\\\" cannot "       \
    "create "                                                                                                                    \
    "resource \\\"events\\\"\"}"

static void with_owner(struct fixture *f)
{
    f->owner = "anchor";
    kube_fake_put(f->fake, OWNERS, json_pack("{s:{s:s}}", "metadata", "name", "anchor"));
    create(f, true);
    kube_fake_count_requests(f->fake, "POST", "/events");
}

static unsigned long sent(struct fixture *f)
{
    struct kube_fake_view view;

    kube_fake_look(f->fake, &view);
    return view.counted;
}

static size_t written(struct fixture *f)
{
    return kube_fake_count(f->fake, EVENTS);
}

/* Returns the Event about the owner with this reason; the caller's. */
static json_t *event_of(struct fixture *f, const char *reason)
{
    const struct kube *k = (struct kube *)f->x;
    json_t *list = NULL, *one, *found = NULL;
    struct pl_err err = {0};
    char path[300];
    size_t i;

    snprintf(path, sizeof path, EVENTS "?fieldSelector=involvedObject.uid%%3D%s&limit=100", k->owner_uid);
    if (pl_kube_client_get(k->client, path, &list, &err) < 0)
        fail_msg("%s", err.msg);
    json_array_foreach(json_object_get(list, "items"), i, one) if (pl_streq(pl_json_str(one, "reason"), reason)) found =
        json_incref(one);
    json_decref(list);
    if (!found)
        fail_msg("no event %s", reason);
    return found;
}

static bool one_is_written(struct fixture *f)
{
    return written(f) == 1;
}

static bool two_are_written(struct fixture *f)
{
    return written(f) == 2;
}

/* The executor looks at everything again, twice. */
static void looks(struct fixture *f)
{
    for (unsigned i = 0; i < 2; i++) {
        count_looks(f);
        clock_ahead_ms += PL_POD_LOOK_MS;
        until(f, is_looked);
    }
}

static void what_happened_is_told_about_the_owner(void **state_)
{
    struct fixture *f = *state_;
    const json_t *about;
    json_t *event;

    with_owner(f);
    f->x->ops->tell(f->x, "WorkerLost", LOST);
    until(f, one_is_written);
    event = event_of(f, "WorkerLost");
    about = json_object_get(event, "involvedObject");
    assert_string_equal(pl_json_str(event, "message"), LOST);
    assert_string_equal(pl_json_str(event, "type"), "Warning");
    assert_string_equal(pl_json_str(about, "kind"), "ConfigMap");
    assert_string_equal(pl_json_str(about, "name"), "anchor");
    assert_string_equal(pl_json_str(about, "namespace"), "n");
    assert_string_equal(pl_json_str(about, "apiVersion"), "v1");
    json_decref(event);
}

/* A minute later all that were the same are one more, with their number. */
static void the_same_again_is_counted(void **state_)
{
    struct fixture *f = *state_;

    with_owner(f);
    for (int i = 0; i < 500; i++)
        f->x->ops->tell(f->x, "WorkerLost", LOST);
    until(f, one_is_written);
    for (int i = 0; i < 7; i++)
        f->x->ops->tell(f->x, "WorkerLost", LOST);
    looks(f);
    assert_int_equal(sent(f), 1);
    clock_ahead_ms += PL_KUBE_EVENT_WINDOW_MS;
    until(f, two_are_written);
}

static void without_an_owner_nothing_is_sent(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    kube_fake_count_requests(f->fake, NULL, "/events");
    f->x->ops->tell(f->x, "WorkerLost", LOST);
    looks(f);
    assert_int_equal(sent(f), 0);
}

static void without_the_right_nothing_is_sent(void **state_)
{
    struct fixture *f = *state_;

    kube_fake_deny(f->fake, " create /events ");
    with_owner(f);
    f->x->ops->tell(f->x, "WorkerLost", LOST);
    looks(f);
    assert_int_equal(sent(f), 0);
}

static bool one_is_sent(struct fixture *f)
{
    return sent(f) == 1;
}

/* The right was there at the start. Nothing else notices. */
static void a_right_that_is_withdrawn_is_not_tried_again(void **state_)
{
    struct fixture *f = *state_;

    with_owner(f);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/events", KUBE_FAULT_ANSWER, 403, 0, DENIED, 0, 0});
    f->x->ops->tell(f->x, "WorkerLost", LOST);
    until(f, one_is_sent);
    looks(f);
    kube_fake_heal(f->fake);
    f->x->ops->tell(f->x, "WorkerLost", "pod q on a was lost");
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    looks(f);
    assert_int_equal(sent(f), 1);
    assert_int_equal(written(f), 0);
}

static bool two_are_sent(struct fixture *f)
{
    clock_ahead_ms += 1000;
    return sent(f) == 2;
}

static bool three_are_sent(struct fixture *f)
{
    clock_ahead_ms += 1000;
    return sent(f) == 3;
}

/* The API server wrote it and answered something else. The second try says so. */
static void an_event_whose_answer_is_lost_is_written_once(void **state_)
{
    struct fixture *f = *state_;

    with_owner(f);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/events", KUBE_FAULT_AFTER, 503, 0, "it is away", 0, 1});
    f->x->ops->tell(f->x, "WorkerLost", LOST);
    until(f, two_are_sent);
    f->x->ops->tell(f->x, "WorkerLost", "pod q on a was lost");
    until(f, three_are_sent);
    looks(f);
    until(f, two_are_written);
    assert_int_equal(sent(f), 3);
}

static bool is_away(struct fixture *f)
{
    struct pl_executor_outage outage;

    clock_ahead_ms += 1000;
    return f->x->ops->outage(f->x, &outage);
}

static bool two_are_written_later(struct fixture *f)
{
    clock_ahead_ms += 1000;
    return written(f) == 2;
}

/* While the API server is away nothing is sent; when it is back, that it was away is told, and what happened meanwhile. */
static void an_outage_is_told_when_it_is_over(void **state_)
{
    struct fixture *f = *state_;
    json_t *event;

    with_owner(f);
    kube_fake_fault(f->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_ANSWER, 503, 0, "it is away", 0, 0});
    kube_fake_end_watches(f->fake, true);
    until(f, is_away);
    kube_fake_count_requests(f->fake, "POST", "/events");
    f->x->ops->tell(f->x, "WorkerLost", LOST);
    looks(f);
    assert_int_equal(sent(f), 0);
    kube_fake_heal(f->fake);
    until(f, two_are_written_later);
    event = event_of(f, "ClusterUnreachable");
    assert_non_null(strstr(pl_json_str(event, "message"), "the API server could not be used for "));
    assert_non_null(strstr(pl_json_str(event, "message"), "it is away"));
    json_decref(event);
    event = event_of(f, "WorkerLost");
    assert_string_equal(pl_json_str(event, "message"), LOST);
    json_decref(event);
}

static bool no_pod_is_listed(struct fixture *f)
{
    struct pl_executor_outage outage;

    return f->x->ops->outage(f->x, &outage) && written(f) == 1;
}

/* The right to list pods is withdrawn and given again: Events can be written all the time. */
static void a_right_that_is_lost_is_told_at_once(void **state_)
{
    struct fixture *f = *state_;
    json_t *event;

    with_owner(f);
    kube_fake_fault(f->fake,
                    (struct kube_fake_fault){
                        "GET", "/namespaces/n/pods", KUBE_FAULT_ANSWER, 403, 0,
                        "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"pods is forbidden: User "
                        "\\\"d\\\" cannot list resource \\\"pods\\\"\"}",
                        0, 0});
    kube_fake_fault(f->fake,
                    (struct kube_fake_fault){
                        "WATCH", "/namespaces/n/pods", KUBE_FAULT_ANSWER, 403, 0,
                        "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"pods is forbidden: User "
                        "\\\"d\\\" cannot watch resource \\\"pods\\\"\"}",
                        0, 0});
    kube_fake_end_watches(f->fake, true);
    until(f, no_pod_is_listed);
    event = event_of(f, "RightLost");
    assert_non_null(strstr(pl_json_str(event, "message"), "pods is forbidden"));
    json_decref(event);
    kube_fake_heal(f->fake);
    until(f, two_are_written);
    event = event_of(f, "RightRegained");
    assert_string_equal(pl_json_str(event, "type"), "Normal");
    json_decref(event);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(what_happened_is_told_about_the_owner),
        ROW(the_same_again_is_counted),
        ROW(without_an_owner_nothing_is_sent),
        ROW(without_the_right_nothing_is_sent),
        ROW(a_right_that_is_withdrawn_is_not_tried_again),
        ROW(an_event_whose_answer_is_lost_is_written_once),
        ROW(an_outage_is_told_when_it_is_over),
        ROW(a_right_that_is_lost_is_told_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
