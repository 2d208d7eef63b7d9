// link: pipelined/exec/kubernetes pipelined/kube/pod storage/base kube_fake
/* The executor `kubernetes` where a pod cannot be made for now: it waits, says why, costs its stage nothing, and is made when it can be, as it
 * is to be then. */
#include "pipelined/exec/kubernetes/worker_pod.h"
#include "tests/component/exec/exec_kubernetes_fixture.h"

#define QUOTAS  "/api/v1/namespaces/n/resourcequotas"
#define SECRETS "/api/v1/namespaces/n/secrets"

#define REFUSAL(code, reason, message)                                                                                           \
    "{\"kind\":\"Status\",\"reason\":\"" reason "\",\"message\":\"" message "\",\"code\":" #code "}"
#define FULL                                                                                                                     \
    REFUSAL(403, "Forbidden", "pods \\\"a\\\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9")
#define DENIED                                                                                                                   \
    REFUSAL(403, "Forbidden",                                                                                                    \
            "pods is forbidden: User \\\"d\\\" cannot create resource \\\"pods\\\" in API group \\\"\\\" in the namespace "      \
            "\\\"n\\\"")
#define ENDING  REFUSAL(403, "Forbidden", "unable to create new content in namespace n because it is being terminated")
#define DEMANDS REFUSAL(403, "Forbidden", "pods \\\"a\\\" is forbidden: failed quota: q: must specify limits.cpu for: agent,main")
#define NONE    REFUSAL(404, "NotFound", "namespaces \\\"n\\\" not found")

static void refuse(struct fixture *f, unsigned status, const char *body)
{
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/pods", KUBE_FAULT_ANSWER, status, 0, body, 0, 0});
}

static bool has_why(struct fixture *f)
{
    return f->heard.why[0] != '\0';
}

static bool has_three(struct fixture *f)
{
    return kube_fake_count(f->fake, PODS) == 3;
}

static void put_quota(struct fixture *f)
{
    kube_fake_put(f->fake, QUOTAS, json_pack("{s:{s:s}, s:{s:{s:s}}}", "metadata", "name", "q", "spec", "hard", "pods", "12"));
}

static void what_a_quota_refuses_is_made_when_the_quota_changes(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    refuse(f, 403, FULL);
    start(f, 7);
    until(f, has_why);
    assert_non_null(strstr(f->heard.why, "exceeded quota: q, requested: pods=1"));
    start(f, 8);
    start(f, 9);
    while (f->heard.waits < 3)
        until(f, has_why);
    kube_fake_heal(f->fake);
    put_quota(f);
    until(f, has_three); /* the first that finds room lets the next one try */
    assert_int_equal(f->heard.exited, 0);
}

/* Of what else passes: all are tried again as soon as the server answers a list. */
static void what_is_refused_for_now_is_made_once_it_is_taken(void **state_)
{
    static const struct {
        unsigned status;
        const char *body, *says;
    } rows[] = {{403, DENIED,
                 "cannot create resource \"pods\" in API group \"\" in the namespace \"n\": Give the daemon's account"},
                {403, ENDING, "because it is being terminated"},
                {404, NONE, "namespaces \"n\" not found"},
                {401, REFUSAL(401, "Unauthorized", "Unauthorized"), "Unauthorized: Check the credentials"},
                {409, REFUSAL(409, "Conflict", "Operation cannot be fulfilled on resourcequotas: the object has been modified"),
                 "the object has been modified"}};
    struct fixture *f = *state_;

    create(f, true);
    for (unsigned i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        memset(&f->heard, 0, sizeof f->heard);
        refuse(f, rows[i].status, rows[i].body);
        start(f, 7 + i);
        until(f, has_why);
        if (!strstr(f->heard.why, rows[i].says))
            fail_msg("says \"%s\"", f->heard.why);
        kube_fake_heal(f->fake);
        kube_fake_put(f->fake, PODS, json_pack("{s:{s:s}}", "metadata", "name", "other")); /* a version that can be compacted */
        kube_fake_delete(f->fake, PODS "/other");
        kube_fake_compact(f->fake);
        kube_fake_end_watches(f->fake, true);
        until(f, has_pod);
        assert_int_equal(f->heard.exited, 0);
        run(f, 7 + i);
        until(f, is_up);
        f->x->ops->stop(f->x, 7 + i, true);
        until(f, has_no_pod);
        until(f, has_end);
    }
}

/* It was made, and the answer said something else. */
static void what_is_there_after_all_is_made_once(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/pods", KUBE_FAULT_AFTER, 403, 0, DENIED, 0, 1});
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    assert_int_equal(f->heard.exited, 0);
    assert_int_equal(kube_fake_count(f->fake, PODS), 1);
}

static void who_waits_to_be_made_can_be_told_to_end(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    refuse(f, 403, FULL);
    start(f, 7);
    until(f, has_why);
    f->x->ops->stop(f->x, 7, true);
    f->x->ops->stop(f->x, 7, true);
    assert_int_equal(f->heard.exited, 0); /* not within the call */
    until(f, has_end);
    kube_fake_heal(f->fake);
    put_quota(f);
    start(f, 8);
    until(f, has_pod);
    assert_int_equal(f->heard.exited, 1);
}

static bool has_seven(struct fixture *f)
{
    char path[256];
    json_t *pod = kube_fake_get(f->fake, path_of(7, path));

    json_decref(pod);
    return pod != NULL;
}

/* What the pod of worker 7 says that its main container needs of cpu at most; "" = nothing. */
static void cpu_limit(struct fixture *f, char ret[32])
{
    char path[256];
    json_t *pod = kube_fake_get(f->fake, path_of(7, path));
    const json_t *main = NULL, *one;
    const char *text;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(pod, "spec"), "containers"), i, one)
    {
        if (pl_streq(json_string_value(json_object_get(one, "name")), "main"))
            main = one;
    }
    text = json_string_value(json_object_get(json_object_get(json_object_get(main, "resources"), "limits"), "cpu"));
    (void)snprintf(ret, 32, "%s", text ? text : "");
    json_decref(pod);
}

static void demand_limits(struct fixture *f)
{
    kube_fake_put(f->fake, QUOTAS,
                  json_pack("{s:{s:s}, s:{s:{s:s, s:s}}}", "metadata", "name", "q", "spec", "hard", "pods", "12", "limits.cpu",
                            "64"));
}

/* A quota that came meanwhile wants to know more of it. */
static void what_waited_is_made_as_the_namespace_wants_it_by_then(void **state_)
{
    struct fixture *f = *state_;
    char limit[32];

    create(f, true);
    refuse(f, 403, FULL);
    start(f, 7);
    until(f, has_why);
    kube_fake_heal(f->fake);
    demand_limits(f);
    until(f, has_seven);
    cpu_limit(f, limit);
    assert_string_not_equal(limit, "");
    assert_int_equal(f->heard.exited, 0);
}

/* The quota is the server's before it is ours. */
static void a_demand_that_nobody_told_of_yet_is_waited_for(void **state_)
{
    struct fixture *f = *state_;
    char limit[32];

    create(f, true);
    refuse(f, 403, DEMANDS);
    start(f, 7);
    until(f, has_why);
    assert_non_null(strstr(f->heard.why, "must specify limits.cpu"));
    kube_fake_heal(f->fake);
    demand_limits(f);
    until(f, has_seven);
    cpu_limit(f, limit);
    assert_string_not_equal(limit, "");
    assert_int_equal(f->heard.exited, 0);
}

static bool does_not_follow_limits(struct fixture *f)
{
    struct kube_fake_view view;

    kube_fake_look(f->fake, &view);
    return view.watches == 5;
}

static void where_limits_cannot_be_followed_they_are_asked_for_again(void **state_)
{
    struct fixture *f = *state_;
    char limit[32];

    kube_fake_deny(f->fake, " watch /resourcequotas  watch /limitranges ");
    create(f, false);
    until(f, does_not_follow_limits);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/pods", KUBE_FAULT_ANSWER, 403, 0, DEMANDS, 0, 1});
    demand_limits(f);
    start(f, 7);
    until(f, has_seven);
    cpu_limit(f, limit);
    assert_string_not_equal(limit, "");
    assert_int_equal(f->heard.exited, 0);
}

static void label(struct fixture *f, const char *project)
{
    assert_true(kube_fake_patch(f->fake, SECRETS "/pg",
                                json_pack("{s:{s:{s:s}}}", "metadata", "labels", "pipelined.io/project", project)));
}

/* Worker 7 of a stage with a secret, which its project has. */
static struct pl_spec *start_with_secret(struct fixture *f)
{
    struct pl_spec *stage = pod_spec_of("\"secrets\": [{\"name\": \"pg\", \"mount\": \"/keys\"}]");
    struct pl_worker_spec spec = worker(f, 7);
    struct pl_err err = {0};

    spec.def = &stage->stages[0];
    if (f->x->ops->start(f->x, &spec, &err) < 0)
        fail_msg("%s", err.msg);
    return stage;
}

static void put_secret(struct fixture *f)
{
    kube_fake_put(f->fake, SECRETS,
                  json_pack("{s:{s:s, s:{s:s}}}", "metadata", "name", "pg", "labels", "pipelined.io/project", "default"));
}

/* Its project has lost it while there was no room for the pod. */
static void who_waited_gets_no_secret_that_is_another_projects_by_then(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *stage;

    put_secret(f);
    create(f, true);
    refuse(f, 403, FULL);
    stage = start_with_secret(f);
    until(f, has_why);
    f->heard.reshapes = 0;
    label(f, "other");
    until(f, is_reshaped);
    kube_fake_heal(f->fake);
    put_quota(f);
    until(f, has_end);
    assert_non_null(strstr(f->heard.end, "project default has no secret \"pg\""));
    assert_false(f->heard.hopeless || f->heard.counts);
    assert_int_equal(kube_fake_count(f->fake, PODS), 0);
    pl_spec_destroy(stage);
}

/* Its body was with the client, which went on trying. */
static void a_pod_that_was_made_with_it_all_the_same_is_removed(void **state_)
{
    struct fixture *f = *state_;
    struct pl_spec *stage;

    put_secret(f);
    create(f, true);
    refuse(f, 503, "");
    stage = start_with_secret(f);
    f->heard.reshapes = 0;
    label(f, "other");
    until(f, is_reshaped);
    kube_fake_heal(f->fake);
    until(f, has_end);
    assert_non_null(strstr(f->heard.end, "project default has no secret \"pg\""));
    assert_false(f->heard.hopeless || f->heard.counts);
    until(f, has_no_pod);
    pl_spec_destroy(stage);
}

/* What it asked for was refused for good, but that is not what it would ask for now. */
static void what_is_refused_is_made_anew_when_it_would_be_another_by_now(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/pods", KUBE_FAULT_ANSWER, 503, 0, "", 0, 1});
    kube_fake_fault(f->fake, (struct kube_fake_fault){"POST", "/pods", KUBE_FAULT_ANSWER, 422, 0,
                                                      REFUSAL(422, "Invalid", "spec.containers: Invalid value"), 0, 1});
    start(f, 7);
    put_secret(f); /* its project's: it may use it */
    until(f, is_reshaped);
    until(f, has_seven);
    assert_int_equal(f->heard.exited, 0);
}

/* It is there after all, which is told between the wish to end it and its end; nothing more will ever be said of it. */
static void who_turns_up_while_it_leaves_is_removed(void **state_)
{
    struct fixture *f = *state_;
    char path[256], name[PL_POD_NAME_BYTES];
    const struct kube *k;
    struct kpod *p;
    uint64_t id = 7;
    json_t *pod;

    create(f, true);
    refuse(f, 403, DENIED);
    start(f, 7);
    until(f, has_why);
    k = (const struct kube *)f->x;
    p = pl_map_get(&k->pods, &id, sizeof id);
    assert_non_null(p);
    (void)snprintf(name, sizeof name, "%s", p->name);
    kube_fake_put(f->fake, PODS,
                  json_pack("{s:{s:s}}", "metadata", "name", name)); /* no watch of ours sees it: it has no label */
    pod = kube_fake_get(f->fake, path_of(7, path));
    f->x->ops->stop(f->x, 7, true);
    pl_worker_pod_seen(p, pod);
    json_decref(pod);
    until(f, has_end);
    until(f, has_no_pod);
    assert_int_equal(f->heard.exited, 1);
}

#define OWNERS "/api/v1/namespaces/n/configmaps"

static void put_owner(struct fixture *f)
{
    kube_fake_put(f->fake, OWNERS, json_pack("{s:{s:s}}", "metadata", "name", "anchor"));
}

/* Does the pod of worker 7 belong to the ConfigMap that there is? */
static bool belongs(struct fixture *f)
{
    char path[256];
    json_t *pod = kube_fake_get(f->fake, path_of(7, path)), *owner = kube_fake_get(f->fake, OWNERS "/anchor");
    const json_t *uid = json_object_get(json_object_get(owner, "metadata"), "uid");
    const json_t *of = json_array_get(json_object_get(json_object_get(pod, "metadata"), "ownerReferences"), 0);
    const bool yes = uid && json_equal(uid, json_object_get(of, "uid"));

    json_decref(pod);
    json_decref(owner);
    return yes;
}

/* The namespace is deleted, and made anew with all that is in it. */
static void who_waits_for_a_namespace_belongs_to_the_owner_that_is_there_then(void **state_)
{
    struct fixture *f = *state_;

    f->owner = "anchor";
    put_owner(f);
    create(f, true);
    refuse(f, 404, NONE);
    assert_true(kube_fake_delete(f->fake, OWNERS "/anchor"));
    start(f, 7);
    until(f, has_why);
    kube_fake_heal(f->fake);
    put_owner(f);
    until(f, has_seven);
    assert_true(belongs(f));
    assert_int_equal(f->heard.exited, 0);
}

static bool says_owner(struct fixture *f)
{
    uint64_t id;

    assert_int_equal(f->x->ops->shape(f->x, "default", &f->spec->stages[0], 1, false, &id, NULL), 0);
    return !f->heard.offered && strstr(f->heard.shape, "ConfigMap anchor of namespace n") &&
           strstr(f->heard.shape, "create it again");
}

static bool is_offered(struct fixture *f)
{
    uint64_t id;

    assert_int_equal(f->x->ops->shape(f->x, "default", &f->spec->stages[0], 1, false, &id, NULL), 0);
    return f->heard.offered;
}

/* Pods that go with their owner are what we see of it. */
static void without_its_owner_no_pod_is_made(void **state_)
{
    struct fixture *f = *state_;
    char path[256];

    f->owner = "anchor";
    put_owner(f);
    create(f, true);
    start(f, 7);
    until(f, has_seven);
    assert_true(belongs(f));
    run(f, 7);
    until(f, is_up);
    assert_true(kube_fake_delete(f->fake, OWNERS "/anchor"));
    assert_true(kube_fake_delete(f->fake, path_of(7, path)));
    until(f, has_end);
    until(f, says_owner);
    put_owner(f);
    until(f, is_offered);
    start(f, 7);
    until(f, has_seven);
    assert_true(belongs(f));
}

static void the_executor_may_end_while_some_wait(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    refuse(f, 403, FULL);
    start(f, 7);
    start(f, 8);
    until(f, has_why);
    f->x->ops->stop(f->x, 7, true);
    f->x = pl_executor_destroy(f->x);
    assert_int_equal(kube_fake_count(f->fake, PODS), 0);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(what_a_quota_refuses_is_made_when_the_quota_changes),
        ROW(what_is_refused_for_now_is_made_once_it_is_taken),
        ROW(what_is_there_after_all_is_made_once),
        ROW(who_waits_to_be_made_can_be_told_to_end),
        ROW(what_waited_is_made_as_the_namespace_wants_it_by_then),
        ROW(a_demand_that_nobody_told_of_yet_is_waited_for),
        ROW(where_limits_cannot_be_followed_they_are_asked_for_again),
        ROW(who_waited_gets_no_secret_that_is_another_projects_by_then),
        ROW(a_pod_that_was_made_with_it_all_the_same_is_removed),
        ROW(what_is_refused_is_made_anew_when_it_would_be_another_by_now),
        ROW(who_turns_up_while_it_leaves_is_removed),
        ROW(who_waits_for_a_namespace_belongs_to_the_owner_that_is_there_then),
        ROW(without_its_owner_no_pod_is_made),
        ROW(the_executor_may_end_while_some_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
