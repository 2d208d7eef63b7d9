// link: pipelined/exec/kubernetes pipelined/kube/client pipelined/kube/pod storage/base kube_fake
/* The executor `kubernetes`: what containers print, read while they run and after. */
#include "tests/support/faults/fake_clock.h"

#include "tests/component/exec/exec_kubernetes_fixture.h"

#include "pipelined/kube/client/kube_client.h"
#include "storage/base/buf.h"

#include <stdatomic.h>

#define T1 "2026-11-22T10:00:01.000000001Z "
#define T2 "2026-11-22T10:00:02.000000001Z "

struct reader {
    struct pl_http_stream_ops ops;
    uint64_t tail;
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
    const struct pl_container_log_request ask = {
        .pod = pod, .container = "main", .follow = follow, .tail = r->tail, .came = on_came, .self = r};

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

static void its_command_ends(struct fixture *f)
{
    patch(f, 7,
          json_pack("{s:{s:[o, o]}}", "status", "containerStatuses",
                    state("main", "terminated", json_pack("{s:i, s:s}", "exitCode", 0, "reason", "Completed")),
                    state("agent", "running", json_object())));
}

/* And nothing it printed is there any more. */
static void it_is_removed(struct fixture *f)
{
    char path[256];

    kube_fake_log(f->fake, "nobody", "", true);
    kube_fake_delete(f->fake, path_of(7, path));
    kube_fake_end_watches(f->fake, true);
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
    its_command_ends(f);
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

    a_pod_runs(f);
    assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
    until(f, has_text);
    it_is_removed(f);
    until(f, is_over);
    assert_int_equal(r.last, PL_PULL_END);
    finish_reader(&r);
}

static bool is_woken(struct fixture *f)
{
    (void)f;
    return reading->came > 0;
}

static void the_end_of_what_printed_nothing_is_no_error(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};
    char path[256];

    a_pod_runs(f);
    kube_fake_log(f->fake, path_of(7, path), "", false);
    assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
    until(f, is_woken);
    it_is_removed(f);
    until(f, is_over);
    assert_int_equal(r.last, PL_PULL_END);
    assert_int_equal(r.text.len, 0);
    finish_reader(&r);
}

/* While time passes quickly. */
static bool is_over_by_and_by(struct fixture *f)
{
    clock_ahead_ms += 100;
    return is_over(f);
}

/* Of a node that is lost nothing comes over the connection, not even its end. */
static void a_connection_that_does_not_end_with_its_container_is_given_up(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};

    a_pod_runs(f);
    assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
    until(f, has_text);
    its_command_ends(f);
    until(f, is_over_by_and_by);
    assert_int_equal(r.last, PL_PULL_END);
    assert_string_equal(pl_buf_str(&r.text), "a\n");
    finish_reader(&r);
}

static void a_connection_that_does_not_end_with_its_pod_is_given_up(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};
    char path[256];

    a_pod_runs(f);
    assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
    until(f, has_text);
    kube_fake_log(f->fake, "nobody", "", false);
    kube_fake_delete(f->fake, path_of(7, path));
    until(f, is_over_by_and_by);
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
    assert_string_equal(err.msg, "the stage has no pod other; it may have ended");
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
    assert_int_equal(open_log(f, &r, NULL, false, &err), PL_EUNAVAILABLE); /* it is not who asks that lacks it */
    assert_non_null(strstr(err.msg, "pods/log: get"));
}

/* What the server says to the daemon is not said to who asks: his rights are others. */
static void what_the_daemon_may_not_is_not_the_askers_fault(void **state_)
{
    static const struct {
        unsigned status;
        const char *says, *said;
    } rows[] = {
        {403,
         "{\"kind\":\"Status\",\"message\":\"pods \\\"p\\\" is forbidden: User \\\"system:serviceaccount:pipelined:pipelined\\\" "
         "cannot get resource \\\"pods/log\\\"\"}",
         "the daemon's account may not read container logs in namespace n (pods/log: get): pods \"p\" is forbidden: User "
         "\"system:serviceaccount:pipelined:pipelined\" cannot get resource \"pods/log\""},
        {401, "{\"kind\":\"Status\",\"message\":\"Unauthorized\"}",
         "the API server rejects the daemon's credentials: Unauthorized"}};
    struct fixture *f = *state_;

    a_pod_runs(f);
    for (size_t i = 0; i < 2 * PL_ARRAY_SIZE(rows); i++) {
        struct reader r = {0};

        kube_fake_heal(f->fake);
        kube_fake_fault(f->fake, (struct kube_fake_fault){"GET", "/log", KUBE_FAULT_ANSWER, rows[i / 2].status, 0,
                                                          rows[i / 2].says, 0, 0});
        assert_int_equal(open_log(f, &r, NULL, i % 2, NULL), 0);
        until(f, is_over);
        assert_int_equal(r.last, PL_EUNAVAILABLE);
        assert_string_equal(r.err.msg, rows[i / 2].said);
        finish_reader(&r);
    }
}

static void a_server_that_does_not_answer_is_not_asked_for_ever(void **state_)
{
    static const struct kube_fake_fault faults[] = {{"GET", "/log", KUBE_FAULT_ANSWER, 503, 0, "", 0, 0},
                                                    {"GET", "/log", KUBE_FAULT_CUT, 0, 0, NULL, 0, 0}};
    struct fixture *f = *state_;

    a_pod_runs(f);
    for (size_t i = 0; i < PL_ARRAY_SIZE(faults); i++) {
        struct reader r = {0};

        kube_fake_heal(f->fake);
        kube_fake_fault(f->fake, faults[i]);
        assert_int_equal(open_log(f, &r, NULL, false, NULL), 0);
        until(f, is_over);
        assert_int_equal(r.last, PL_EUNAVAILABLE); /* it is not the daemon that does not answer */
        assert_non_null(strstr(r.err.msg, kube_fake_url(f->fake)));
        finish_reader(&r);
    }
}

static void who_wants_the_end_gets_the_end(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {.tail = 2};
    char path[256];

    a_pod_runs(f);
    kube_fake_log(f->fake, path_of(7, path), T1 "a\n" T1 "b\n" T2 "c\n", false);
    assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
    until(f, has_text);
    kube_fake_end_watches(f->fake, true); /* it goes on behind what came */
    its_command_ends(f);
    kube_fake_log(f->fake, path_of(7, path), T1 "a\n" T1 "b\n" T2 "c\n" T2 "d\n", true);
    until(f, is_over);
    assert_string_equal(pl_buf_str(&r.text), "b\nc\nd\n");
    finish_reader(&r);
}

/* So that he has an answer: the server's has begun, or it says that the container has not started. */
static void who_follows_what_is_silent_is_woken(void **state_)
{
    struct fixture *f = *state_;
    char path[256];

    a_pod_runs(f);
    kube_fake_log(f->fake, path_of(7, path), "", false);
    for (int i = 0; i < 2; i++) {
        struct reader r = {0};

        assert_int_equal(open_log(f, &r, NULL, true, NULL), 0);
        until(f, is_woken);
        assert_int_equal(r.ops.pull(r.ops.self, &r.text, &r.err), PL_PULL_WAIT);
        finish_reader(&r);
        kube_fake_fault(f->fake,
                        (struct kube_fake_fault){"GET", "/log", KUBE_FAULT_ANSWER, 400, 0,
                                                 "{\"kind\":\"Status\",\"message\":\"container is waiting to start\"}", 0, 0});
    }
}

static bool may_open_one_more(struct fixture *f)
{
    struct reader *r = reading;
    struct pl_err err = {0};
    const int open = open_log(f, r, NULL, true, &err);

    assert_true(open == 0 || open == PL_EBUSY);
    return open == 0;
}

static void so_many_are_read_at_a_time_and_no_more(void **state_)
{
    struct fixture *f = *state_;
    struct reader all[PL_KUBE_LOGS] = {0}, more = {0};
    struct pl_err err = {0};

    a_pod_runs(f);
    for (size_t i = 0; i < PL_ARRAY_SIZE(all); i++)
        assert_int_equal(open_log(f, &all[i], NULL, true, NULL), 0);
    assert_int_equal(open_log(f, &more, NULL, true, &err), PL_EBUSY);
    assert_string_equal(err.msg, "16 container logs are being read, the maximum; try again later");
    finish_reader(&all[0]);
    reading = &more;
    until(f, may_open_one_more);
    until(f, has_text);
    for (size_t i = 1; i < PL_ARRAY_SIZE(all); i++)
        finish_reader(&all[i]);
    finish_reader(&more);
}

static bool is_read_piece_by_piece(struct fixture *f)
{
    struct reader *r = reading;

    (void)f;
    r->last = r->ops.pull(r->ops.self, &r->text, &r->err);
    return r->last == PL_PULL_END;
}

static void a_long_log_comes_whole(void **state_)
{
    struct fixture *f = *state_;
    struct pl_buf printed = {0}, want = {0};
    struct reader r = {0};
    char path[256];

    for (int i = 0; i < 40000; i++) {
        assert_int_equal(pl_buf_addf(&printed, NULL, T1 "line %d of many\n", i), 0);
        assert_int_equal(pl_buf_addf(&want, NULL, "line %d of many\n", i), 0);
    }
    a_pod_runs(f);
    kube_fake_log(f->fake, path_of(7, path), pl_buf_str(&printed), true);
    assert_int_equal(open_log(f, &r, NULL, false, NULL), 0);
    until(f, is_read_piece_by_piece);
    assert_int_equal(r.text.len, want.len);
    assert_memory_equal(r.text.data, want.data, want.len);
    finish_reader(&r);
    pl_buf_finish(&printed);
    pl_buf_finish(&want);
}

static void on_shut_down(void *arg)
{
    *(bool *)arg = true;
}

/* Who waits for a node that does not answer holds a thread meanwhile. */
static void a_daemon_that_ends_waits_for_no_log(void **state_)
{
    struct fixture *f = *state_;
    struct reader r = {0};
    struct pl_err err = {0};
    bool down = false;

    a_pod_runs(f);
    kube_fake_fault(f->fake, (struct kube_fake_fault){"GET", "/log", KUBE_FAULT_SILENT, 0, 0, NULL, 0, 0});
    assert_int_equal(open_log(f, &r, NULL, false, NULL), 0);
    f->x->ops->shutdown(f->x, true, on_shut_down, &down);
    assert_true(down && r.came > 0);
    assert_int_equal(r.ops.pull(r.ops.self, &r.text, &r.err), PL_ECANCELED);
    finish_reader(&r);
    assert_int_equal(open_log(f, &r, NULL, false, &err), PL_ESTOPPING);
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
        ROW(the_end_of_what_printed_nothing_is_no_error),
        ROW(a_connection_that_does_not_end_with_its_container_is_given_up),
        ROW(a_connection_that_does_not_end_with_its_pod_is_given_up),
        ROW(why_nothing_can_be_read_is_said),
        ROW(of_several_pods_one_is_named),
        ROW(without_the_right_nothing_is_asked),
        ROW(what_the_daemon_may_not_is_not_the_askers_fault),
        ROW(a_server_that_does_not_answer_is_not_asked_for_ever),
        ROW(who_wants_the_end_gets_the_end),
        ROW(who_follows_what_is_silent_is_woken),
        ROW(so_many_are_read_at_a_time_and_no_more),
        ROW(a_long_log_comes_whole),
        ROW(a_daemon_that_ends_waits_for_no_log),
        ROW(an_executor_that_ends_ends_what_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
