/* The executor `kubernetes`: what containers print, read while they run and after. */
// link: kube_fake pl_exec
#include "exec_kubernetes_fixture.h"

#include "storage/base/buf.h"

#include <stdatomic.h>

#define T1 "2026-11-22T10:00:01.000000001Z "
#define T2 "2026-11-22T10:00:02.000000001Z "

struct reader {
    struct pl_http_stream_ops ops;
    struct pl_buf text;
    struct pl_err err;
    int last; /* of pull */
    atomic_uint came;
};

static struct reader *reading; /* by the test that runs */

static void on_came(void *self)
{
    ((struct reader *)self)->came++;
}

static int open_log(struct fixture *f, struct reader *r, const char *pod, bool follow, struct pl_err *err)
{
    const uint64_t workers[] = {7, 8};
    const struct pl_container_log_ask ask = {.pod = pod, .container = "main", .follow = follow, .came = on_came, .self = r};

    reading = r;
    return f->x->ops->container_log(f->x, workers, 2, &ask, &r->ops, err);
}

static void read_some(struct reader *r)
{
    while ((r->last = r->ops.pull(r->ops.self, &r->text, &r->err)) == PL_PULL_MORE)
        ;
}

static bool is_over(struct fixture *f)
{
    (void)f;
    read_some(reading);
    return reading->last != PL_PULL_WAIT;
}

static bool has_text(struct fixture *f)
{
    (void)f;
    read_some(reading);
    return reading->text.len > 0;
}

static void finish_reader(struct reader *r)
{
    r->ops.closed(r->ops.self);
    pl_buf_finish(&r->text);
}

static void a_pod_runs(struct fixture *f)
{
    char path[256];

    create(f, true);
    start(f, 7);
    until(f, has_pod);
    run(f, 7);
    until(f, is_up);
    kube_fake_log(f->fake, path_of(7, path), T1 "a\n", false);
}

static void what_is_there_is_read_and_no_more(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};

    a_pod_runs(f);
    assert_int_equal(open_log(f, &r, NULL, false, NULL), 0);
    until(f, is_over);
    assert_int_equal(r.last, PL_PULL_END);
    assert_string_equal(pl_buf_str(&r.text), "a\n");
    assert_true(r.came > 0);
    finish_reader(&r);
}

static void who_follows_reads_until_the_container_has_ended(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};
    char path[256];

    a_pod_runs(f);
    assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
    until(f, has_text);
    assert_string_equal(pl_buf_str(&r.text), "a\n");
    assert_int_equal(r.last, PL_PULL_WAIT);
    patch(f, 7,
          json_pack("{s:{s:[o, o]}}", "status", "containerStatuses",
                    state("main", "terminated", json_pack("{s:i, s:s}", "exitCode", 0, "reason", "Completed")),
                    state("agent", "running", json_object())));
    kube_fake_log(f->fake, path_of(7, path), T1 "a\n" T2 "b\n", true);
    until(f, is_over);
    assert_int_equal(r.last, PL_PULL_END);
    assert_string_equal(pl_buf_str(&r.text), "a\nb\n");
    finish_reader(&r);
}

static void a_pod_that_is_removed_is_the_end_of_what_was_followed(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};
    char path[256];

    a_pod_runs(f);
    assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
    until(f, has_text);
    kube_fake_log(f->fake, "nobody", "", true);
    kube_fake_delete(f->fake, path_of(7, path));
    kube_fake_end_watches(f->fake, true);
    until(f, is_over);
    assert_int_equal(r.last, PL_PULL_END);
    finish_reader(&r);
}

static void why_nothing_can_be_read_is_said(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};

    a_pod_runs(f);
    kube_fake_fault(f->fake,
                    (struct kube_fake_fault){
                        "GET", "/log", KUBE_FAULT_ANSWER, 400, 0,
                        "{\"kind\":\"Status\",\"message\":\"container \\\"main\\\" in pod \\\"p\\\" is waiting to start: "
                        "ContainerCreating\"}",
                        0, 0});
    assert_int_equal(open_log(f, &r, NULL, false, NULL), 0);
    until(f, is_over);
    assert_int_equal(r.last, PL_EINVAL);
    assert_non_null(strstr(r.err.msg, "is waiting to start: ContainerCreating"));
    finish_reader(&r);
}

static bool has_two_pods(struct fixture *f)
{
    return kube_fake_count(f->fake, PODS) == 2;
}

static bool both_up(struct fixture *f)
{
    return f->heard.up == 2;
}

static void of_several_pods_one_is_named(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};
    struct pl_err err = {0};
    char path[256], names[600];
    const char *name;

    create(f, true);
    assert_int_equal(open_log(f, &r, NULL, false, &err), PL_ENOTFOUND);
    assert_string_equal(err.msg, "the stage has no pod now");
    start(f, 7);
    start(f, 8);
    until(f, has_two_pods);
    run(f, 7);
    run(f, 8);
    until(f, both_up);
    assert_int_equal(open_log(f, &r, NULL, false, &err), PL_EINVAL);
    (void)snprintf(names, sizeof names, "the stage has 2 pods: name one of them: %s", strrchr(path_of(7, path), '/') + 1);
    assert_true(strncmp(err.msg, names, strlen(names)) == 0 && strstr(err.msg, strrchr(path_of(8, path), '/') + 1));
    assert_int_equal(open_log(f, &r, "other", false, &err), PL_ENOTFOUND);
    assert_string_equal(err.msg, "the stage has no pod other, or not any more");
    name = strrchr(path_of(8, path), '/') + 1;
    kube_fake_log(f->fake, path, T1 "of 8\n", false);
    assert_int_equal(open_log(f, &r, name, false, NULL), 0);
    until(f, is_over);
    assert_string_equal(pl_buf_str(&r.text), "of 8\n");
    finish_reader(&r);
}

static void without_the_right_nothing_is_asked(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};
    struct pl_err err = {0};

    kube_fake_deny(f->fake, " get /pods/log ");
    a_pod_runs(f);
    assert_int_equal(open_log(f, &r, NULL, false, &err), PL_EFORBIDDEN);
    assert_non_null(strstr(err.msg, "pods/log: get"));
}

/* Readers may outlive the executor. */
static void an_executor_that_ends_ends_what_is_read(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0}, left = {0};

    a_pod_runs(f);
    assert_int_equal(open_log(f, &left, NULL, true, NULL), 0);
    until(f, has_text);
    assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
    finish_reader(&left);
    f->x = pl_executor_destroy(f->x);
    while (r.ops.pull(r.ops.self, &r.text, &r.err) == PL_PULL_MORE)
        ;
    assert_int_equal(r.ops.pull(r.ops.self, &r.text, &r.err), PL_ECANCELED);
    finish_reader(&r);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(what_is_there_is_read_and_no_more),
        ROW(who_follows_reads_until_the_container_has_ended),
        ROW(a_pod_that_is_removed_is_the_end_of_what_was_followed),
        ROW(why_nothing_can_be_read_is_said),
        ROW(of_several_pods_one_is_named),
        ROW(without_the_right_nothing_is_asked),
        ROW(an_executor_that_ends_ends_what_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
