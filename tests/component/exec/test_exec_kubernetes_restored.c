// link: pipelined/exec/kubernetes pipelined/kube/pod pipelined/text storage/base kube_fake
/* The executor `kubernetes` where the cluster's memory is not ours: set back to an older backup, and names that somebody else has. */
#include "pipelined/exec/kubernetes/worker_pod.h"
#include "pipelined/text/json_text.h"
#include "tests/component/exec/exec_kubernetes_fixture.h"

static unsigned long version_of(struct fixture *f, const char *path)
{
    json_t *object = kube_fake_get(f->fake, path);
    unsigned long version;

    assert_non_null(object);
    version = strtoul(pl_json_str(json_object_get(object, "metadata"), "resourceVersion"), NULL, 10);
    json_decref(object);
    return version;
}

static bool has_two_pods(struct fixture *f)
{
    return kube_fake_count(f->fake, PODS) == 2;
}

/* Watches from a version that is to come say nothing, and end when their time is over: now. */
static bool has_end_at_last(struct fixture *f)
{
    if (listens(f))
        kube_fake_end_watches(f->fake, false);
    return has_end(f);
}

/* etcd from a backup of before its pod: that one is lost without blame, the next is made and followed. */
static void a_pod_that_a_backup_does_not_know_is_gone(void **state_)
{
    struct fixture *f = *state_;
    const unsigned long before = version_of(f, NODES "/cpu-1");

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    kube_fake_set_back(f->fake, before);
    assert_int_equal(kube_fake_count(f->fake, PODS), 0);
    until(f, has_end_at_last);
    assert_int_equal(f->heard.last, 7);
    assert_string_equal(f->heard.end, "its pod was deleted");
    assert_int_equal(f->heard.exit, PL_SCHED_EXIT_DISRUPTED);
    assert_false(f->heard.hopeless);
    assert_false(f->heard.counts);
    memset(&f->heard, 0, sizeof f->heard);
    start(f, 8);
    until(f, has_pod);
    run(f, 8);
    until(f, is_up);
    finish(f, 8, 0, 0);
    until(f, has_end);
    assert_int_equal(f->heard.last, 8);
}

/* The same while the daemon was away: what it adopts is looked for, and not found. */
static void a_pod_that_went_with_a_backup_while_nobody_looked_is_not_waited_for(void **state_)
{
    struct fixture *f = *state_;
    const unsigned long before = version_of(f, NODES "/cpu-1");
    const struct pl_worker_spec spec = worker(f, 7);

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    f->x = pl_executor_destroy(f->x);
    kube_fake_set_back(f->fake, before);
    create(f, false);
    f->x->ops->adopt(f->x, &spec, 0, 0);
    until(f, has_end);
    assert_string_equal(f->heard.end, "its pod no longer existed when the daemon restarted");
    assert_false(f->heard.hopeless);
    assert_int_equal(f->heard.exit, PL_SCHED_EXIT_UNMADE); /* as far as anybody can tell */
}

/* Somebody has made a pod that is called as ours would be: it is not taken for ours, nor removed; the next start of the worker has another name. */
static void a_foreign_pod_under_our_name_is_left_alone(void **state_)
{
    struct fixture *f = *state_;
    char path[256], name[PL_POD_NAME_BYTES];
    json_t *theirs;

    pl_pod_name(STORE, "default", "Train_net", 1, 7, 0, name);
    kube_fake_put(f->fake, PODS, json_pack("{s:{s:s}, s:{s:s}}", "metadata", "name", name, "status", "phase", "Running"));
    create(f, true);
    start(f, 7);
    until(f, has_end);
    if (strstr(f->heard.end, "already exists, and is not pipelined's object") == NULL || strstr(f->heard.end, name) == NULL)
        fail_msg("says \"%s\"", f->heard.end);
    assert_false(f->heard.hopeless);
    assert_int_equal(f->heard.up, 0);
    memset(&f->heard, 0, sizeof f->heard);
    start(f, 7 | (1ULL << 32));
    until(f, has_two_pods);
    run(f, 7 | (1ULL << 32));
    until(f, is_up);
    f->x->ops->stop(f->x, 7 | (1ULL << 32), true);
    until(f, has_pod);
    theirs = kube_fake_get(f->fake, path_of(7, path));
    assert_non_null(theirs);
    json_decref(theirs);
}

/* One that has all but our labels is no worker of ours either: it is not looked at, whatever it says it is. */
static void who_only_names_a_worker_is_not_taken_for_it(void **state_)
{
    struct fixture *f = *state_;
    char name[PL_POD_NAME_BYTES];

    create(f, true);
    pl_pod_name(STORE, "default", "Train_net", 1, 7, 0, name);
    kube_fake_put(f->fake, PODS,
                  json_pack("{s:{s:s, s:{s:s}}, s:{s:s}}", "metadata", "name", name, "annotations", "pipelined.io/worker", "7",
                            "status", "phase", "Running"));
    start(f, 7);
    until(f, has_end);
    assert_int_equal(f->heard.placed, 0);
    assert_non_null(strstr(f->heard.end, "is not pipelined's object"));
}

/* A copy of the pod of worker 7, as somebody makes one to look into it: labels, annotations and all. */
static void put_copy(struct fixture *f, const char *name)
{
    char path[256];
    json_t *copy = kube_fake_get(f->fake, path_of(7, path));
    json_t *metadata = json_object_get(copy, "metadata");

    assert_non_null(copy);
    json_object_set_new(metadata, "name", json_string(name));
    json_object_del(metadata, "uid");
    json_object_del(metadata, "resourceVersion");
    kube_fake_put(f->fake, PODS, copy);
}

static void assert_there(struct fixture *f, const char *path)
{
    json_t *pod = kube_fake_get(f->fake, path);

    if (pod == NULL)
        fail_msg("%s is gone", path);
    json_decref(pod);
}

static bool has_three_pods(struct fixture *f)
{
    return kube_fake_count(f->fake, PODS) == 3;
}

static void a_copy_of_a_pod_of_ours_is_nobody_s(void **state_)
{
    struct fixture *f = *state_;

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    put_copy(f, "a-copy");
    put_copy(f, "z-copy-0123456789-8-0");
    run(f, 7);
    until(f, is_up);
    finish(f, 7, 0, 0);
    until(f, has_end);
    until(f, has_two_pods);
    assert_int_equal(f->heard.last, 7);
    assert_int_equal(f->heard.exited, 1);
    f->x = pl_executor_destroy(f->x);
    memset(&f->heard, 0, sizeof f->heard);
    create(f, true);
    start(f, 8); /* behind the list with the copies */
    until(f, has_three_pods);
    run(f, 8);
    until(f, is_up);
    finish(f, 8, 0, 0);
    until(f, has_end);
    until(f, has_two_pods);
    assert_there(f, PODS "/a-copy");
    assert_there(f, PODS "/z-copy-0123456789-8-0");
}

/* A worker whose stage is no more is found by its number: not in a copy that has it. */
static void a_copy_is_not_adopted(void **state_)
{
    struct fixture *f = *state_;
    struct pl_worker_spec spec;
    char path[256];

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    put_copy(f, "a-copy");
    f->x = pl_executor_destroy(f->x);
    assert_true(kube_fake_delete(f->fake, path_of(7, path)));
    create(f, false);
    spec = worker(f, 7);
    spec.def = NULL;
    f->x->ops->adopt(f->x, &spec, 0, 0);
    until(f, has_end);
    assert_string_equal(f->heard.end, "its pod no longer existed when the daemon restarted");
    assert_there(f, PODS "/a-copy");
}

/* A pod that another start made for one of its workers. */
static void put_stray(struct fixture *f, uint64_t worker)
{
    char name[PL_POD_NAME_BYTES], id[24];

    pl_pod_name(STORE, "default", "Train_net", 1, (uint32_t)worker, (uint32_t)(worker >> 32), name);
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)worker);
    kube_fake_put(f->fake, PODS,
                  json_pack("{s:{s:s, s:{s:s}, s:{s:s}}, s:{s:s}}", "metadata", "name", name, "labels", PL_POD_LABEL "store",
                            STORE, "annotations", PL_POD_LABEL "worker", id, "status", "phase", "Running"));
}

static bool is_outlived(struct fixture *f)
{
    return f->outlived > 0;
}

#define OF_START(start, number) ((uint64_t)(start) << 32 | (number))

/* Another daemon has taken over the store: nothing of it is touched, and the log is looked at. */
static void a_pod_of_a_later_start_is_left_alone_and_told(void **state_)
{
    struct fixture *f = *state_;
    char path[256];

    f->epoch = 5;
    put_stray(f, OF_START(6, 1));
    create(f, true);
    until(f, is_outlived);
    f->outlived = 0;
    put_stray(f, OF_START(7, 1));
    until(f, is_outlived);
    assert_int_equal(f->outlived, 1);
    start(f, OF_START(5, 1)); /* its life comes after all that was heard of them */
    until(f, has_three_pods);
    run(f, OF_START(5, 1));
    until(f, is_up);
    finish(f, OF_START(5, 1), 0, 0);
    until(f, has_two_pods);
    assert_there(f, path_of(OF_START(6, 1), path));
    assert_there(f, path_of(OF_START(7, 1), path));
}

static bool two_are_up(struct fixture *f)
{
    return f->heard.up == 2;
}

static bool two_have_ended(struct fixture *f)
{
    return f->heard.exited == 2;
}

static bool is_outlived_twice(struct fixture *f)
{
    return f->outlived == 2;
}

static bool own_pods_are(struct fixture *f, const bool there[3])
{
    char path[256];

    for (unsigned i = 0; i < 3; i++) {
        json_t *pod = kube_fake_get(f->fake, path_of(OF_START(5, 1 + i), path));

        json_decref(pod);
        if (there[i] != (pod != NULL))
            return false;
    }
    return true;
}

static bool only_the_third_is_there(struct fixture *f)
{
    return own_pods_are(f, (const bool[]){false, false, true});
}

static bool says_why(struct fixture *f)
{
    return strstr(f->heard.why, "another daemon may have taken over the store: its log is being looked at") != NULL;
}

/* From the moment that a pod of a later start was seen until the log was found to be this daemon's: no pod is made, and not even its own are
 * removed, neither one that has ended nor one that is told to end. If the log is its own, it goes on. */
static void while_another_daemon_may_have_taken_over_no_pod_is_made_or_removed(void **state_)
{
    struct fixture *f = *state_;
    struct kube_fake_view before, after;

    f->epoch = 5;
    create(f, true);
    start(f, OF_START(5, 1));
    start(f, OF_START(5, 2));
    until(f, has_two_pods);
    run(f, OF_START(5, 1));
    run(f, OF_START(5, 2));
    until(f, two_are_up);
    f->doubted = true;
    put_stray(f, OF_START(6, 1));
    until(f, is_outlived);
    kube_fake_look(f->fake, &before);
    start(f, OF_START(5, 3));
    f->x->ops->stop(f->x, OF_START(5, 1), true);
    finish(f, OF_START(5, 2), 0, 0);
    until(f, has_end);
    put_stray(f, OF_START(6, 2)); /* heard of after all that */
    until(f, is_outlived_twice);
    kube_fake_look(f->fake, &after);
    assert_int_equal(after.writes, before.writes);
    assert_true(own_pods_are(f, (const bool[]){true, true, false}));
    until(f, says_why);
    f->doubted = false;
    until(f, only_the_third_is_there);
    until(f, two_have_ended);
    assert_int_equal(f->outlived, 2);
    assert_int_equal(kube_fake_count(f->fake, PODS), 3);
}

static bool none_is_held(struct fixture *f)
{
    return TAILQ_EMPTY(&((const struct kube *)f->x)->parked);
}

/* Another pod is to be made before anybody looks at the log again. Those that are held have no pause that could end instead. */
static void once_the_log_is_found_its_own_all_pods_are_made_whoever_asks_first(void **state_)
{
    struct fixture *f = *state_;
    struct kpod *p;

    f->epoch = 5;
    create(f, true);
    f->doubted = true;
    put_stray(f, OF_START(6, 1));
    until(f, is_outlived);
    start(f, OF_START(5, 1));
    assert_false(none_is_held(f));
    f->doubted = false;
    start(f, OF_START(5, 2));
    TAILQ_FOREACH(p, &((const struct kube *)f->x)->parked, parked_link)
    {
        p->retry_ms = INT64_MAX;
    }
    until(f, none_is_held);
    until(f, has_three_pods);
}

/* Pods of an earlier start that appear after the first listing stay: this daemon may have been taken over, too. */
static void only_the_first_list_removes_pods_of_earlier_starts(void **state_)
{
    struct fixture *f = *state_;
    char path[256];

    f->epoch = 5;
    put_stray(f, OF_START(4, 1));
    put_stray(f, OF_START(5, 9));
    create(f, true);
    until(f, has_no_pod);
    put_stray(f, OF_START(4, 2));
    start(f, OF_START(5, 1));
    until(f, has_two_pods);
    run(f, OF_START(5, 1));
    until(f, is_up);
    finish(f, OF_START(5, 1), 0, 0);
    until(f, has_pod);
    assert_there(f, path_of(OF_START(4, 2), path));
    assert_int_equal(f->outlived, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_pod_that_a_backup_does_not_know_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pod_that_went_with_a_backup_while_nobody_looked_is_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_foreign_pod_under_our_name_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_of_a_pod_of_ours_is_nobody_s, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_is_not_adopted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pod_of_a_later_start_is_left_alone_and_told, setup, teardown),
        cmocka_unit_test_setup_teardown(while_another_daemon_may_have_taken_over_no_pod_is_made_or_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(once_the_log_is_found_its_own_all_pods_are_made_whoever_asks_first, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_first_list_removes_pods_of_earlier_starts, setup, teardown),
        cmocka_unit_test_setup_teardown(who_only_names_a_worker_is_not_taken_for_it, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
