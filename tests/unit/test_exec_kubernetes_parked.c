/* The executor `kubernetes` where a pod cannot be made for now: it waits, says why, costs its stage nothing, and is made when it can be. */
// link: kube_fake pl_exec
#include "exec_kubernetes_fixture.h"

#define QUOTAS "/api/v1/namespaces/n/resourcequotas"

#define REFUSAL(code, reason, message)                                                                                           \
    "{\"kind\":\"Status\",\"reason\":\"" reason "\",\"message\":\"" message "\",\"code\":" #code "}"
#define FULL                                                                                                                     \
    REFUSAL(403, "Forbidden", "pods \\\"a\\\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9")
#define DENIED                                                                                                                   \
    REFUSAL(403, "Forbidden",                                                                                                    \
            "pods is forbidden: User \\\"d\\\" cannot create resource \\\"pods\\\" in API group \\\"\\\" in the namespace "      \
            "\\\"n\\\"")
#define ENDING REFUSAL(403, "Forbidden", "unable to create new content in namespace n because it is being terminated")
#define NONE   REFUSAL(404, "NotFound", "namespaces \\\"n\\\" not found")

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
        ROW(the_executor_may_end_while_some_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
