// link: pipelined/kube/client storage/base kube_fake
/* What a container prints, once; what the cluster says of a pod; what we may do. By threads of the client and of the server. */
#include "pipelined/kube/client/kube_log.h"
#include "pipelined/kube/client/kube_permission.h"
#include "tests/support/kube_server/kube_fake.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct heard {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pl_buf text; /* lock */
    bool over;          /* lock */
    struct pl_err why;
};

static int on_line(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err)
{
    struct heard *h = self;
    int r;

    pthread_mutex_lock(&h->lock);
    r = pl_buf_addf(&h->text, err, "%s%.*s%s", time_us == 0 ? "?" : "", (int)n, line, whole ? "|" : "+");
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return r;
}

static void on_over(void *self, const struct pl_err *err)
{
    struct heard *h = self;

    pthread_mutex_lock(&h->lock);
    h->over = true;
    h->why = *err;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void await_text(struct heard *h, const char *what)
{
    pthread_mutex_lock(&h->lock);
    while (h->text.len == 0 || strstr(pl_buf_str(&h->text), what) == NULL)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void await_over(struct heard *h)
{
    pthread_mutex_lock(&h->lock);
    while (!h->over)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

#define HEARD                                                                                                                    \
    {                                                                                                                            \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, false,                                                         \
        {                                                                                                                        \
            0                                                                                                                    \
        }                                                                                                                        \
    }

/* --- lines --- */

#define T1 "2026-01-02T03:04:05.000000001Z "
#define T2 "2026-01-02T03:04:05.000000002Z "
#define T3 "2026-01-02T03:04:06Z "

static void a_log_read_in_two_connections_cut_anywhere_is_read_once(void **state)
{
    const char *log = T1 "a\n" T1 "b\n" T2 "c\n" T2 "\n" T2 "d\n" T3 "e\n2026-01-02T05:04:06.5+02:00 f\n";

    (void)state;
    for (size_t cut = 0; cut <= strlen(log); cut++) {
        struct heard h = HEARD;
        struct pl_kube_lines l = {.line = on_line, .self = &h};
        char since[32];

        assert_int_equal(pl_kube_lines_feed(&l, log, cut, NULL), 0);
        assert_int_equal(pl_kube_lines_end(&l, false, NULL), 0);
        pl_kube_lines_since(&l, since);
        assert_true(since[0] == '\0' || strncmp(since, "2026-01-02T03:04:0", 18) == 0);
        pl_kube_lines_restart(&l); /* the second begins with the first line of that second, at the earliest */
        for (size_t i = pl_streq(since, "2026-01-02T03:04:06Z") ? (size_t)(strstr(log, T3) - log) : 0; i < strlen(log); i++)
            assert_int_equal(pl_kube_lines_feed(&l, log + i, 1, NULL), 0);
        assert_int_equal(pl_kube_lines_end(&l, true, NULL), 0);
        assert_string_equal(pl_buf_str(&h.text), "a|b|c||d|e|f|");
        pl_kube_lines_finish(&l);
        pl_buf_finish(&h.text);
    }
}

static void lines_of_all_kinds(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {{"", ""},
                {"\n", "?|"},
                {"unable to retrieve container logs\n", "?unable to retrieve container logs|"},
                {T1 "no end", "no end|"},
                {T1 "x y  z \r\n", "x y  z \r|"},
                {T3 "later\n" T1 "a clock set back\n" T3 "again\n", "later|a clock set back|again|"}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct heard h = HEARD;
        struct pl_kube_lines l = {.line = on_line, .self = &h};

        assert_int_equal(pl_kube_lines_feed(&l, rows[i].text, strlen(rows[i].text), NULL), 0);
        assert_int_equal(pl_kube_lines_end(&l, true, NULL), 0);
        assert_string_equal(h.text.len > 0 ? pl_buf_str(&h.text) : "", rows[i].want);
        pl_kube_lines_finish(&l);
        pl_buf_finish(&h.text);
    }
}

static int count_line(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err)
{
    size_t *counts = self;

    (void)time_us, (void)line, (void)err;
    counts[0] += n;
    counts[1]++;
    counts[2] += whole;
    return 0;
}

static void a_line_without_end_comes_in_parts(void **state)
{
    size_t counts[3] = {0};
    struct pl_kube_lines l = {.line = count_line, .self = counts};
    char *text = malloc(3 * PL_KUBE_LINE_MAX);

    (void)state;
    memset(text, 'x', 3 * PL_KUBE_LINE_MAX);
    memcpy(text, T1, strlen(T1));
    assert_int_equal(pl_kube_lines_feed(&l, text, 3 * PL_KUBE_LINE_MAX - 5, NULL), 0);
    assert_int_equal(pl_kube_lines_feed(&l, "\n", 1, NULL), 0);
    assert_int_equal(counts[0], 3 * PL_KUBE_LINE_MAX - 5 - strlen(T1));
    assert_int_equal(counts[1], 3);
    assert_int_equal(counts[2], 1);
    pl_kube_lines_finish(&l);
    free(text);
}

/* --- following --- */

static struct pl_kube_client *client_of(const struct kube_fake *f)
{
    struct pl_kube_client_config config = {.kubeconfig = {.server = strdup(kube_fake_url(f)), .name_space = strdup("n")},
                                           .pause_ms = 5};
    struct pl_kube_client *c = NULL;

    assert_int_equal(pl_kube_client_create(&config, &c, NULL), 0);
    return c;
}

static struct pl_kube_log *follow(struct pl_kube_client *c, struct heard *h)
{
    const struct pl_kube_log_config config = {
        .space = "n", .pod = "p", .container = "main", .pause_ms = 5, .line = on_line, .over = on_over, .self = h};
    struct pl_kube_log *l = NULL;

    assert_int_equal(pl_kube_log_create(c, &config, &l, NULL), 0);
    return l;
}

#define POD "/api/v1/namespaces/n/pods/p"

static void a_log_is_followed_through_lost_connections_to_its_end(void **state)
{
    struct kube_fake *f = kube_fake_start();
    struct pl_kube_client *c = client_of(f);
    struct heard h = HEARD;
    struct pl_kube_log *l;

    (void)state;
    kube_fake_fault(f, (struct kube_fake_fault){"GET", "/log", KUBE_FAULT_ANSWER, 400, 0,
                                                "{\"kind\":\"Status\",\"message\":\"container \\\"main\\\" in pod \\\"p\\\" is "
                                                "waiting to start: ContainerCreating\"}",
                                                0, 2});
    kube_fake_log(f, POD, T1 "a\n", false);
    l = follow(c, &h);
    await_text(&h, "a|");
    kube_fake_log(f, POD, T1 "a\n" T2 "b\n", false);
    await_text(&h, "b|");
    kube_fake_end_watches(f, true);
    kube_fake_log(f, POD, T1 "a\n" T2 "b\n" T2 "c\n", false);
    await_text(&h, "c|");
    kube_fake_end_watches(f, false);
    pl_kube_log_container_ended(l);
    kube_fake_log(f, POD, T1 "a\n" T2 "b\n" T2 "c\n" T3 "d\n", true);
    await_over(&h);
    assert_int_equal(h.why.code, 0);
    assert_string_equal(pl_buf_str(&h.text), "a|b|c|d|");
    pl_kube_log_destroy(l);
    pl_buf_finish(&h.text);
    pl_kube_client_destroy(c);
    kube_fake_stop(f);
}

static void a_pod_that_is_gone_ends_it_and_so_does_who_stops_it(void **state)
{
    struct kube_fake *f = kube_fake_start();
    struct pl_kube_client *c = client_of(f);
    struct heard h = HEARD;
    struct pl_kube_log *l = follow(c, &h);

    (void)state;
    await_over(&h);
    assert_int_equal(h.why.code, PL_ENOTFOUND);
    pl_kube_log_destroy(l);
    h.over = false;
    kube_fake_log(f, POD, T1 "a\n", false);
    l = follow(c, &h);
    await_text(&h, "a|");
    pl_kube_log_stop(l); /* while it is followed */
    await_over(&h);
    assert_int_equal(h.why.code, PL_ECANCELED);
    pl_kube_log_destroy(l);
    h.over = false;
    l = follow(c, &h);
    pl_kube_log_destroy(l);
    assert_true(h.over);
    assert_int_equal(h.why.code, PL_ECANCELED);
    pl_buf_finish(&h.text);
    pl_kube_client_destroy(c);
    kube_fake_stop(f);
}

static int too_much(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err)
{
    const int r = on_line(self, time_us, line, n, whole, err);

    return r < 0 || line[0] != 'b' ? r : pl_err_set(err, PL_ETOOBIG, "more is printed than is read");
}

static void who_takes_no_more_is_not_asked_again(void **state)
{
    struct kube_fake *f = kube_fake_start();
    struct pl_kube_client *c = client_of(f);
    struct heard h = HEARD;
    const struct pl_kube_log_config config = {
        .space = "n", .pod = "p", .container = "main", .line = too_much, .over = on_over, .self = &h};
    struct pl_kube_log *l;

    (void)state;
    kube_fake_log(f, POD, T1 "a\n" T2 "b\n" T3 "c\n", false);
    assert_int_equal(pl_kube_log_create(c, &config, &l, NULL), 0);
    await_over(&h);
    assert_int_equal(h.why.code, PL_ETOOBIG);
    assert_string_equal(pl_buf_str(&h.text), "a|b|");
    pl_kube_log_destroy(l);
    pl_buf_finish(&h.text);
    pl_kube_client_destroy(c);
    kube_fake_stop(f);
}

static void who_wants_what_is_there_gets_no_more(void **state)
{
    struct kube_fake *f = kube_fake_start();
    struct pl_kube_client *c = client_of(f);
    struct heard h = HEARD;
    const struct pl_kube_log_config config = {
        .space = "n", .pod = "p", .container = "main", .once = true, .line = on_line, .over = on_over, .self = &h};
    struct pl_kube_log *l;

    (void)state;
    kube_fake_log(f, POD, T1 "a\n" T2 "b\n", false); /* it runs */
    assert_int_equal(pl_kube_log_create(c, &config, &l, NULL), 0);
    await_over(&h);
    assert_int_equal(h.why.code, 0);
    assert_string_equal(pl_buf_str(&h.text), "a|b|");
    pl_kube_log_destroy(l);
    pl_buf_finish(&h.text);
    pl_kube_client_destroy(c);
    kube_fake_stop(f);
}

/* Connections that end within the answer: as long as each brings something it goes on. */
static void what_is_cut_again_and_again_has_an_end(void **state)
{
    static const struct {
        size_t bytes; /* of each answer that come */
        int code;
        const char *text;
        unsigned long requests;
    } rows[] = {{0, PL_ENET, "", PL_KUBE_LOG_TRIES},
                {40, PL_ENET, "a|", PL_KUBE_LOG_TRIES},
                {2 * (sizeof T3 + 1) + 5, 0, "a|b|c|d|e|", 4}};
    const char *log = "2026-01-02T03:04:01Z a\n2026-01-02T03:04:02Z b\n2026-01-02T03:04:03Z c\n2026-01-02T03:04:04Z d\n"
                      "2026-01-02T03:04:05Z e\n";

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct kube_fake *f = kube_fake_start();
        struct pl_kube_client *c = client_of(f);
        struct heard h = HEARD;
        const struct pl_kube_log_config config = {.space = "n",
                                                  .pod = "p",
                                                  .container = "main",
                                                  .once = true,
                                                  .pause_ms = 5,
                                                  .line = on_line,
                                                  .over = on_over,
                                                  .self = &h};
        struct kube_fake_view view;
        struct pl_kube_log *l;

        kube_fake_log(f, POD, log, false);
        kube_fake_fault(f, (struct kube_fake_fault){"GET", "/log", KUBE_FAULT_CUT, 0, 0, NULL, rows[i].bytes, 0});
        assert_int_equal(pl_kube_log_create(c, &config, &l, NULL), 0);
        await_over(&h);
        kube_fake_look(f, &view);
        assert_int_equal(h.why.code, rows[i].code);
        assert_string_equal(h.text.len > 0 ? pl_buf_str(&h.text) : "", rows[i].text);
        assert_int_equal(view.requests, rows[i].requests);
        pl_kube_log_destroy(l);
        pl_buf_finish(&h.text);
        pl_kube_client_destroy(c);
        kube_fake_stop(f);
    }
}

static void a_container_that_ended_without_a_start_has_no_log(void **state)
{
    struct kube_fake *f = kube_fake_start();
    struct pl_kube_client *c = client_of(f);
    struct heard h = HEARD;
    struct pl_kube_log *l;

    (void)state;
    kube_fake_fault(f, (struct kube_fake_fault){
                           "GET", "/log", KUBE_FAULT_ANSWER, 400, 0,
                           "{\"kind\":\"Status\",\"message\":\"container is waiting to start: CreateContainerError\"}", 0, 0});
    l = follow(c, &h);
    kube_fake_await_requests(f, 2);
    pl_kube_log_container_ended(l);
    await_over(&h);
    assert_int_equal(h.why.code, PL_EINVAL);
    pl_kube_log_destroy(l);
    pl_kube_client_destroy(c);
    kube_fake_stop(f);
}

/* --- what we may do --- */

static void what_is_not_allowed_is_listed_with_what_is_off_for_it(void **state)
{
    struct kube_fake *f = kube_fake_start();
    struct pl_kube_client *c = client_of(f);
    struct pl_kube_access a;
    struct pl_buf lines = {0};

    (void)state;
    assert_int_equal(pl_kube_access_ask(c, "n", &a, &lines, NULL), 0);
    assert_int_equal(lines.len, 0);
    for (size_t i = 0; i < PL_KUBE_FEATURE_COUNT; i++)
        assert_true(a.on[i]);
    kube_fake_deny(f, " watch /nodes  list /nodes  patch /secrets  create resource.k8s.io/resourceclaimtemplates ");
    assert_int_equal(pl_kube_access_ask(c, "n", &a, &lines, NULL), 0);
    assert_string_equal(
        pl_buf_str(&lines),
        "list nodes (cluster), watch nodes (cluster): not allowed: the cluster's capacity is unknown and GPUs are not listed\n"
        "create resourceclaimtemplates.resource.k8s.io: not allowed: GPUs by resource claims (DRA) are not available\n"
        "patch secrets: not allowed: pipelinectl cannot create, change or delete secrets\n");
    assert_true(a.on[PL_KUBE_MAY_PODS] && !a.on[PL_KUBE_MAY_NODES] && !a.on[PL_KUBE_MAY_CLAIMS] && a.on[PL_KUBE_MAY_ALL_PODS]);
    pl_buf_finish(&lines);
    pl_kube_client_destroy(c);
    kube_fake_stop(f);
}

static void questions_without_an_answer_switch_nothing_off(void **state)
{
    struct kube_fake *f = kube_fake_start();
    struct pl_kube_client *c = client_of(f);
    struct pl_kube_access a;
    struct pl_err err = {0};
    size_t n;

    (void)state;
    kube_fake_fault(f, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_ANSWER, 404, 0, "{}", 0, 3});
    assert_int_equal(pl_kube_access_ask(c, "n", &a, NULL, &err), 0);
    assert_int_equal(a.unknown, 3);
    for (size_t i = 0; i < PL_KUBE_FEATURE_COUNT; i++)
        assert_true(a.on[i]);
    kube_fake_token(f, "other");
    assert_int_equal(pl_kube_access_ask(c, "n", &a, NULL, &err), PL_EAUTH);
    assert_non_null(pl_kube_questions(&n));
    assert_true(n > PL_KUBE_FEATURE_COUNT);
    pl_kube_client_destroy(c);
    kube_fake_stop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_read_in_two_connections_cut_anywhere_is_read_once),
        cmocka_unit_test(lines_of_all_kinds),
        cmocka_unit_test(a_line_without_end_comes_in_parts),
        cmocka_unit_test(a_log_is_followed_through_lost_connections_to_its_end),
        cmocka_unit_test(a_pod_that_is_gone_ends_it_and_so_does_who_stops_it),
        cmocka_unit_test(who_takes_no_more_is_not_asked_again),
        cmocka_unit_test(who_wants_what_is_there_gets_no_more),
        cmocka_unit_test(what_is_cut_again_and_again_has_an_end),
        cmocka_unit_test(a_container_that_ended_without_a_start_has_no_log),
        cmocka_unit_test(what_is_not_allowed_is_listed_with_what_is_off_for_it),
        cmocka_unit_test(questions_without_an_answer_switch_nothing_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
