// link: pipelined/kube/client pipelined/kube/watch storage/base storage/system kube_fake
/* The client against the fake API server: what it does against any (kube_rows.h), and what it makes of each
 * fault. Both have threads of their own. */
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "tests/support/kube_server/kube_client_cases.h"
#include "tests/support/kube_server/kube_fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

struct fixture {
    struct place place;
    struct kube_fake *fake;
};

static struct pl_kube_client *client_of(const struct kube_fake *f, const char *token)
{
    struct pl_kube_client_config config = {.kubeconfig = {.server = strdup(kube_fake_url(f)),
                                                          .name_space = strdup("n"),
                                                          .context = strdup("fake"),
                                                          .token = token != NULL ? strdup(token) : NULL},
                                           .pause_ms = 5};
    struct pl_kube_client *c = NULL;

    assert_int_equal(pl_kube_client_create(&config, &c, NULL), 0);
    return c;
}

static int setup(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);

    x->fake = kube_fake_start();
    x->place.client = client_of(x->fake, NULL);
    (void)snprintf(x->place.space, sizeof x->place.space, "n");
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *x = *state;

    pl_kube_client_destroy(x->place.client);
    kube_fake_stop(x->fake);
    free(x);
    return 0;
}

#define PODS "/api/v1/namespaces/n/pods"

static json_t *pod(const char *name)
{
    return json_pack("{s:{s:s,s:{s:s}}}", "metadata", "name", name, "labels", "app", "row");
}

/* --- writes --- */

/* Each fault comes twice before the server does what it was asked. */
static void what_may_help_is_tried_again_and_nothing_is_made_twice(void **state)
{
    static const struct kube_fake_fault faults[] = {
        {"POST", NULL, KUBE_FAULT_ANSWER, 429, 0, "{}", 0, 2},
        {"POST", NULL, KUBE_FAULT_ANSWER, 500, 0, "{\"kind\":\"Status\",\"message\":\"etcdserver: leader changed\"}", 0, 2},
        {"POST", NULL, KUBE_FAULT_ANSWER, 503, 0, "<html>", 0, 2},
        {"POST", NULL, KUBE_FAULT_AFTER, 500, 0, "{\"kind\":\"Status\",\"message\":\"etcdserver: request timed out\"}", 0, 1},
        {"POST", NULL, KUBE_FAULT_AFTER, 504, 0, "", 0, 1},
        {"POST", NULL, KUBE_FAULT_CUT, 0, 0, NULL, 0, 2},
        {"POST", NULL, KUBE_FAULT_CUT, 0, 0, NULL, 10, 2},
        {"GET", NULL, KUBE_FAULT_ANSWER, 502, 0, "", 0, 2},
    };
    struct fixture *x = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(faults); i++) {
        struct pl_kube_object_create op;
        char name[16], body[1024];

        (void)snprintf(name, sizeof name, "f%zu", i);
        kube_fake_heal(x->fake);
        kube_fake_fault(x->fake, faults[i]);
        if (pl_streq(faults[i].method, "GET")) /* somebody made it before: it is looked at */
            make_pod(&x->place, name, "h", pod_body(name, "h", body), false);
        op = make_pod(&x->place, name, "h", pod_body(name, "h", body), false);
        if (op.err.code != 0)
            fail_msg("fault %zu: %s", i, op.err.msg);
        assert_int_equal(kube_fake_count(x->fake, PODS), i + 1);
    }
}

static void what_will_not_help_is_not_tried_again(void **state)
{
    static const struct {
        unsigned status;
        const char *message;
        int code;
        enum pl_kube_verdict verdict;
    } rows[] = {{400, "bad", PL_EINVAL, PL_KUBE_REFUSED},
                {403, "pods is forbidden", PL_EFORBIDDEN, PL_KUBE_REFUSED},
                {403, "exceeded quota: q, requested: pods=1", PL_ELIMIT, PL_KUBE_PARK},
                {404, "namespaces \\\"n\\\" not found", PL_ENOTFOUND, PL_KUBE_GONE},
                {413, "too large", PL_ETOOBIG, PL_KUBE_REFUSED},
                {422, "must be an integer", PL_EINVAL, PL_KUBE_REFUSED},
                {500, "etcdserver: request is too large", PL_ETOOBIG, PL_KUBE_REFUSED},
                {401, "Unauthorized", PL_EAUTH, PL_KUBE_LOGIN}};
    struct fixture *x = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct kube_fake_view before, after;
        struct pl_kube_object_create op;
        char body[1024], text[256];

        (void)snprintf(text, sizeof text, "{\"kind\":\"Status\",\"message\":\"%s\"}", rows[i].message);
        kube_fake_heal(x->fake);
        kube_fake_fault(x->fake, (struct kube_fake_fault){"POST", NULL, KUBE_FAULT_ANSWER, rows[i].status, 0, text, 0, 0});
        kube_fake_look(x->fake, &before);
        op = make_pod(&x->place, "a", "h", pod_body("a", "h", body), false);
        kube_fake_look(x->fake, &after);
        assert_int_equal(op.err.code, rows[i].code);
        assert_int_equal(op.verdict, rows[i].verdict);
        assert_int_equal(after.requests - before.requests, 1);
    }
    kube_fake_heal(x->fake);
}

static const char starting[] = "{\"kind\":\"Status\",\"message\":\"apiserver is starting\"}";

static void a_deadline_ends_it_with_the_last_words(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_call call = {.method = "POST", .path = PODS, .body = "{}", .body_len = 2, .deadline_ms = 1500};
    struct pl_err err = {0};

    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_ANSWER, 503, 0, starting, 0, 0});
    assert_int_equal(pl_kube_client_run(x->place.client, &call, &err), PL_ENET);
    assert_string_equal(err.msg, "apiserver is starting");
    assert_true(call.attempts > 1 && call.unknown);
    pl_kube_call_finish(&call);
    call.once = true;
    assert_int_equal(pl_kube_client_run(x->place.client, &call, &err), PL_ENET);
    assert_int_equal(call.attempts, 1);
    pl_kube_call_finish(&call);
}

static void a_deadline_in_the_midst_of_an_attempt_ends_it_with_the_words_before(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_call call = {.method = "POST", .path = PODS, .body = "{}", .body_len = 2, .deadline_ms = 1500};
    struct pl_err err = {0};

    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_ANSWER, 503, 0, starting, 0, 1});
    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_SILENT, 0, 0, NULL, 0, 0});
    assert_int_equal(pl_kube_client_run(x->place.client, &call, &err), PL_ENET);
    assert_string_equal(err.msg, "apiserver is starting");
    assert_true(call.attempts == 2 && call.unknown);
    pl_kube_call_finish(&call);
}

static void retry_after_is_waited_for(void **state)
{
    struct fixture *x = *state;
    const int64_t before_ms = pl_clock_mono_ms();
    struct pl_kube_client_view view;
    char body[1024];

    kube_fake_fault(x->fake, (struct kube_fake_fault){"POST", NULL, KUBE_FAULT_ANSWER, 429, 1, "", 0, 1});
    assert_int_equal(make_pod(&x->place, "a", "h", pod_body("a", "h", body), false).err.code, 0);
    assert_true(pl_clock_mono_ms() - before_ms >= 1000);
    pl_kube_client_look(x->place.client, &view);
    assert_int_equal(view.throttled, 1);
    assert_int_equal(view.retries, 1);
}

static void a_server_that_falls_silent_is_left(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_call call = {.method = "GET", .path = "/version", .stall_ms = 50};

    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_SILENT, 0, 0, NULL, 0, 1});
    assert_int_equal(pl_kube_client_run(x->place.client, &call, NULL), 0);
    assert_true(call.attempts >= 2); /* a slow machine is silent for so long, too */
    pl_kube_call_finish(&call);
}

struct ending {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
};

static void on_end(struct pl_kube_call *call)
{
    struct ending *e = call->arg;

    pthread_mutex_lock(&e->lock);
    e->over = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static int take_all(void *self, const void *data, size_t n, struct pl_err *err)
{
    (void)self, (void)data, (void)n, (void)err;
    return 0;
}

/* Two connections are kept, of a watch that has ended and of a call; one of them falls silent, and the other is not trusted. */
static void a_connection_that_was_kept_beside_a_silent_one_is_not_taken(void **state)
{
    struct ending e = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    struct fixture *x = *state;
    struct pl_kube_call watch = {.method = "GET",
                                 .path = PODS "?watch=1&resourceVersion=1&timeoutSeconds=600",
                                 .stream = true,
                                 .stall_ms = 600000,
                                 .write = take_all,
                                 .done = on_end,
                                 .arg = &e};
    struct pl_kube_call call = {.method = "GET", .path = "/version"};
    struct kube_fake_view before, after;

    pl_kube_client_start(x->place.client, &watch);
    kube_fake_await_watches(x->fake, 1);
    assert_int_equal(pl_kube_client_run(x->place.client, &call, NULL), 0);
    kube_fake_end_watches(x->fake, false);
    pthread_mutex_lock(&e.lock);
    while (!e.over)
        pthread_cond_wait(&e.changed, &e.lock);
    pthread_mutex_unlock(&e.lock);
    kube_fake_look(x->fake, &before);
    assert_int_equal(before.connections, 2);
    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_SILENT, 0, 0, NULL, 0, 1});
    call.stall_ms = 100;
    assert_int_equal(pl_kube_client_run(x->place.client, &call, NULL), 0);
    kube_fake_look(x->fake, &after);
    assert_true(after.connections > before.connections);
    pl_kube_call_finish(&call);
    pl_kube_call_finish(&watch);
}

/* One that a node is waited for in vain, and one that others are answered on meanwhile. */
static void a_connection_that_answered_beside_a_silent_one_is_taken_again(void **state)
{
    struct ending e = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    struct fixture *x = *state;
    struct pl_kube_call silent = {
        .method = "GET", .path = "/silent", .once = true, .deadline_ms = 2500, .done = on_end, .arg = &e};
    struct pl_kube_call call = {.method = "GET", .path = "/version"};
    struct kube_fake_view before, after;
    bool over = false;

    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, "/silent", KUBE_FAULT_SILENT, 0, 0, NULL, 0, 0});
    kube_fake_look(x->fake, &before);
    pl_kube_client_start(x->place.client, &silent);
    kube_fake_await_requests(x->fake, before.requests + 1);
    while (!over) {
        assert_int_equal(pl_kube_client_run(x->place.client, &call, NULL), 0);
        pthread_mutex_lock(&e.lock);
        over = e.over;
        pthread_mutex_unlock(&e.lock);
    }
    assert_int_equal(silent.err.code, PL_ETIMEOUT);
    kube_fake_look(x->fake, &before);
    for (int i = 0; i < 10; i++)
        assert_int_equal(pl_kube_client_run(x->place.client, &call, NULL), 0);
    kube_fake_look(x->fake, &after);
    assert_int_equal(after.connections, before.connections);
    pl_kube_call_finish(&call);
    pl_kube_call_finish(&silent);
}

static void no_server_is_said_with_its_address(void **state)
{
    struct pl_kube_client_config config = {
        .kubeconfig = {.server = strdup("http://127.0.0.1:1"), .name_space = strdup("n"), .context = strdup("k")}};
    struct pl_kube_call call = {.method = "GET", .path = "/version", .once = true};
    struct pl_kube_client *c = NULL;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_kube_client_create(&config, &c, NULL), 0);
    assert_int_equal(pl_kube_client_run(c, &call, &err), PL_ENET);
    assert_non_null(strstr(err.msg, "http://127.0.0.1:1 (context k): "));
    assert_false(call.unknown);
    pl_kube_call_finish(&call);
    pl_kube_client_destroy(c);
}

/* To who asked the daemon for something. */
static void an_api_server_that_is_away_is_not_the_daemon(void **state)
{
    const struct fixture *x = *state;
    const char *name = pl_kube_client_name(x->place.client);
    const struct {
        int code;
        const char *says, *hint;
        int told;
        const char *prefix; /* of what is told then */
    } rows[] = {{PL_ENET, "kubelet: connection refused", "", PL_EUNAVAILABLE, name},
                {PL_ETIMEOUT, name, "", PL_EUNAVAILABLE, ""}, /* it says which already */
                {PL_EPROTO, "no JSON", "", PL_EUNAVAILABLE, name},
                {PL_ETLS, name, "Name the CA.", PL_EUNAVAILABLE, ""},
                {PL_EAUTH, "Unauthorized", "", PL_EUNAVAILABLE, "the API server rejects the daemon's credentials"},
                {PL_EINVAL, "no such key", "Another.", PL_EINVAL, ""},
                {PL_ENOTFOUND, "no such pod", "", PL_ENOTFOUND, ""}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_err err = {0};
        char want[512];

        (void)pl_err_hint(&err, pl_err_set(&err, rows[i].code, "%s", rows[i].says), "%s", rows[i].hint);
        (void)snprintf(want, sizeof want, "%s%s%s", rows[i].prefix, *rows[i].prefix ? ": " : "", rows[i].says);
        assert_int_equal(pl_kube_client_blame(x->place.client, &err), rows[i].told);
        assert_int_equal(err.code, rows[i].told);
        assert_string_equal(err.msg, want);
        if (*rows[i].hint || rows[i].told == rows[i].code)
            assert_string_equal(err.hint, rows[i].hint);
        else
            assert_non_null(strstr(err.hint, "not pipelined"));
    }
}

static void closing_ends_what_is_under_way(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_client *c = client_of(x->fake, NULL);
    struct one *all = calloc(MANY, sizeof *all);
    struct gate g = GATE;

    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_SILENT, 0, 0, NULL, 0, 0});
    for (size_t i = 0; i < MANY; i++) {
        all[i].op = (struct pl_kube_object_create){
            .collection = PODS, .name = "a", .hash = "h", .body = "{}", .body_len = 2, .done = on_created, .arg = &g};
        pl_kube_object_create_start(c, &all[i].op);
    }
    pl_kube_client_destroy(c);
    assert_int_equal(g.done, MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(all[i].op.err.code, PL_ECANCELED);
        pl_kube_object_create_finish(&all[i].op);
    }
    free(all);
}

static void connections_are_kept_and_few(void **state)
{
    struct fixture *x = *state;
    struct kube_fake_view view;

    many_are_made_at_once_over_few_connections(state);
    kube_fake_look(x->fake, &view);
    assert_true(view.connections <= PL_KUBE_CALLS && view.at_once <= PL_KUBE_CALLS);
}

static void on_call(struct pl_kube_call *call)
{
    pass(call->arg);
}

/* Each DELETE goes unanswered, and there are more of them than places. */
static void removals_leave_room_for_what_is_made(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_client *c = client_of(x->fake, NULL);
    struct pl_kube_call *removals = calloc(MANY, sizeof *removals), get = {.method = "GET", .path = "/version"};
    struct gate g = GATE;

    kube_fake_fault(x->fake, (struct kube_fake_fault){"DELETE", NULL, KUBE_FAULT_SILENT, 0, 0, NULL, 0, 0});
    for (size_t i = 0; i < MANY; i++) {
        removals[i] = (struct pl_kube_call){.method = "DELETE", .path = PODS "/a", .later = true, .done = on_call, .arg = &g};
        pl_kube_client_start(c, &removals[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pl_kube_client_run(c, &get, NULL), 0);
        assert_int_equal(get.attempts, 1);
        pl_kube_call_finish(&get);
        get = (struct pl_kube_call){.method = "GET", .path = "/version"};
    }
    assert_int_equal(g.done, 0);
    pl_kube_client_destroy(c);
    assert_int_equal(g.done, MANY);
    for (size_t i = 0; i < MANY; i++)
        pl_kube_call_finish(&removals[i]);
    free(removals);
}

/* --- who we are --- */

static void a_token_that_changed_is_read_again_when_it_is_refused(void **state)
{
    struct fixture *x = *state;
    char path[] = "/tmp/pl-kube-token-XXXXXX";
    const int fd = mkstemp(path);
    struct pl_kube_client_config config = {
        .kubeconfig = {.server = strdup(kube_fake_url(x->fake)), .name_space = strdup("n"), .token_file = strdup(path)},
        .pause_ms = 5};
    struct pl_kube_client *c = NULL;
    json_t *got = NULL;

    assert_int_equal(pl_io_write(fd, "one\n", 4, path, NULL), 0);
    assert_int_equal(pl_kube_client_create(&config, &c, NULL), 0);
    kube_fake_token(x->fake, "one");
    assert_int_equal(pl_kube_client_get(c, "/version", &got, NULL), 0);
    json_decref(got);
    kube_fake_token(x->fake, "two");
    assert_int_equal(pl_kube_client_get(c, "/version", &got, NULL), PL_EAUTH);
    assert_int_equal(pl_io_pwrite(fd, "two\n", 4, 0, path, NULL), 0);
    assert_int_equal(pl_kube_client_get(c, "/version", &got, NULL), 0);
    json_decref(got);
    pl_kube_client_destroy(c);
    close(fd);
    unlink(path);
}

/* Says who we are when somebody writes to the pipe at `path`. */
static struct pl_kube_client *client_with_plugin(const struct kube_fake *f, const char *path)
{
    struct pl_kube_plugin *plugin = calloc(1, sizeof *plugin);
    struct pl_kube_client_config config = {
        .kubeconfig = {.server = strdup(kube_fake_url(f)), .name_space = strdup("n"), .plugin = plugin}, .pause_ms = 5};
    struct pl_kube_client *c = NULL;

    plugin->api_version = strdup("client.authentication.k8s.io/v1");
    plugin->command = strdup("/bin/sh");
    plugin->args[0] = strdup("-c");
    assert_true(asprintf(&plugin->args[1],
                         "read x <%s; echo '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": "
                         "\"ExecCredential\", \"status\": {\"token\": \"t\"}}'",
                         path) > 0);
    assert_int_equal(pl_kube_client_create(&config, &c, NULL), 0);
    return c;
}

static void what_waited_to_know_who_we_are_runs_a_few_at_a_time(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_call *calls = calloc(MANY, sizeof *calls);
    char folder[] = "/tmp/pl-kube-plugin-XXXXXX", path[64];
    struct kube_fake_view view;
    struct pl_kube_client *c;
    struct gate g = GATE;
    FILE *pipe;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    c = client_with_plugin(x->fake, path);
    for (size_t i = 0; i < MANY; i++) {
        calls[i] = (struct pl_kube_call){.method = "GET", .path = "/version", .done = on_call, .arg = &g};
        pl_kube_client_start(c, &calls[i]);
    }
    pipe = fopen(path, "w"); /* once it reads */
    assert_true(pipe && fputs("now\n", pipe) >= 0 && fclose(pipe) == 0);
    await(&g, MANY);
    kube_fake_look(x->fake, &view);
    assert_true(view.at_once <= PL_KUBE_CALLS);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(calls[i].err.code, 0);
        pl_kube_call_finish(&calls[i]);
    }
    pl_kube_client_destroy(c);
    free(calls);
    unlink(path);
    rmdir(folder);
}

static void what_waits_to_know_who_we_are_can_be_given_up(void **state)
{
    struct fixture *x = *state;
    char folder[] = "/tmp/pl-kube-plugin-XXXXXX", path[64];
    struct pl_kube_call watch = {.method = "GET", .path = PODS "?watch=1", .stream = true}, get = {.method = "GET", .path = "/a"};
    struct pl_kube_call *const calls[] = {&watch, &get};
    const int64_t began_ms = pl_clock_mono_ms();
    struct pl_kube_client *c;
    struct gate g = GATE;
    int fd;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    c = client_with_plugin(x->fake, path);
    for (size_t i = 0; i < PL_ARRAY_SIZE(calls); i++) {
        calls[i]->done = on_call;
        calls[i]->arg = &g;
        pl_kube_client_start(c, calls[i]);
    }
    fd = open(path, O_WRONLY); /* the plugin runs */
    for (size_t i = 0; i < PL_ARRAY_SIZE(calls); i++)
        pl_kube_client_cancel(c, calls[i]);
    await(&g, PL_ARRAY_SIZE(calls));
    assert_true(pl_clock_mono_ms() - began_ms < PL_KUBE_PLUGIN_MS); /* not with the plugin's end */
    for (size_t i = 0; i < PL_ARRAY_SIZE(calls); i++) {
        assert_int_equal(calls[i]->err.code, PL_ECANCELED);
        pl_kube_call_finish(calls[i]);
    }
    close(fd);
    pl_kube_client_destroy(c);
    unlink(path);
    rmdir(folder);
}

/* --- watches --- */

static void a_watch_survives_all_that_happens_to_it(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_informer *i;
    struct ear e;

    kube_fake_put(x->fake, PODS, pod("a"));
    i = listen_in(&x->place, &e, "app=row", 0);
    await_told(&e, "ADDED:a SYNCED ");
    kube_fake_await_watches(x->fake, 1);
    kube_fake_end_watches(x->fake, false); /* ended well */
    kube_fake_put(x->fake, PODS, pod("b"));
    await_told(&e, "ADDED:b ");
    kube_fake_await_watches(x->fake, 1);
    kube_fake_end_watches(x->fake, true); /* broken */
    kube_fake_delete(x->fake, PODS "/a");
    await_told(&e, "DELETED:a ");
    kube_fake_await_watches(x->fake, 1);
    kube_fake_end_watches(x->fake, true); /* and what happened meanwhile is forgotten */
    kube_fake_delete(x->fake, PODS "/b");
    kube_fake_put(x->fake, PODS, pod("c"));
    kube_fake_compact(x->fake);
    assert_int_equal(await_told(&e, "DELETED:b "), 1);
    await_told(&e, "ADDED:c ");
    stop_listening(i, &e);
}

/* What it had seen before is forgotten, and yet it goes on from what the bookmark says: lists are refused here. */
static void a_bookmark_spares_a_list(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_informer *i;
    struct ear e;

    kube_fake_put(x->fake, PODS, pod("a"));
    i = listen_in(&x->place, &e, "app=row", 0);
    await_told(&e, "ADDED:a SYNCED ");
    kube_fake_await_watches(x->fake, 1);
    kube_fake_fault(x->fake, (struct kube_fake_fault){"GET", "limit=", KUBE_FAULT_ANSWER, 500, 0, "no lists", 0, 0});
    kube_fake_compact(x->fake);
    kube_fake_bookmark(x->fake);
    kube_fake_end_watches(x->fake, false);
    kube_fake_put(x->fake, PODS, pod("b"));
    await_told(&e, "ADDED:b ");
    kube_fake_heal(x->fake);
    stop_listening(i, &e);
}

static void a_watch_cut_within_a_frame_tells_everything_once(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_informer *i;
    struct ear e;
    char name[32], told[48];

    for (size_t cut = 1; cut <= 2; cut++) /* at each byte: test_kube_watch */
        kube_fake_fault(x->fake, (struct kube_fake_fault){"WATCH", NULL, KUBE_FAULT_CUT, 0, 0, NULL, 130 * cut, 1});
    i = listen_in(&x->place, &e, NULL, 0);
    await_told(&e, "SYNCED ");
    for (int k = 0; k < 3; k++) {
        (void)snprintf(name, sizeof name, "p%d", k);
        kube_fake_put(x->fake, PODS, pod(name));
        (void)snprintf(told, sizeof told, "ADDED:p%d ", k);
        assert_int_equal(await_told(&e, told), 1);
    }
    stop_listening(i, &e);
}

/* One more log than there may be is refused, and a watch finds a place all the same. */
static void logs_leave_streams_for_watches(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_client *c = client_of(x->fake, NULL);
    struct pl_kube_call logs[PL_KUBE_LOGS + 1], watch = {.method = "GET", .path = PODS "?watch=1", .stream = true};
    struct gate g = GATE, w = GATE;
    struct kube_fake_view before;

    kube_fake_log(x->fake, PODS "/a", "", false);
    kube_fake_look(x->fake, &before);
    for (size_t i = 0; i < PL_ARRAY_SIZE(logs); i++) {
        logs[i] = (struct pl_kube_call){
            .method = "GET", .path = PODS "/a/log?follow=true", .stream = true, .log = true, .done = on_call, .arg = &g};
        pl_kube_client_start(c, &logs[i]);
    }
    await(&g, 1);
    kube_fake_await_requests(x->fake, before.requests + PL_KUBE_LOGS); /* the end of watches ends those that follow by then */
    assert_int_equal(logs[PL_KUBE_LOGS].err.code, PL_EBUSY);
    assert_string_equal(logs[PL_KUBE_LOGS].err.msg, "too many logs at once");
    watch.done = on_call;
    watch.arg = &w;
    pl_kube_client_start(c, &watch);
    kube_fake_await_watches(x->fake, 1);
    kube_fake_end_watches(x->fake, false);
    await(&g, PL_ARRAY_SIZE(logs));
    await(&w, 1);
    for (size_t i = 0; i < PL_ARRAY_SIZE(logs); i++)
        pl_kube_call_finish(&logs[i]);
    pl_kube_call_finish(&watch);
    logs[0] = (struct pl_kube_call){.method = "GET", .path = PODS "/a/log", .stream = true, .log = true};
    assert_int_equal(pl_kube_client_run(c, &logs[0], NULL), 0); /* there is room again */
    pl_kube_call_finish(&logs[0]);
    pl_kube_client_destroy(c);
}

static void a_large_object_comes_through_stripped(void **state)
{
    struct fixture *x = *state;
    const size_t n = 1500000;
    char *big = malloc(n + 1);
    json_t *object = pod("big");
    struct pl_kube_informer *i;
    struct ear e;

    memset(big, 'x', n);
    big[n] = '\0';
    assert_int_equal(json_object_set_new(object, "spec", json_pack("{s:s}", "huge", big)), 0);
    i = listen_in(&x->place, &e, NULL, 0);
    await_told(&e, "SYNCED ");
    kube_fake_put(x->fake, PODS, object);
    await_told(&e, "ADDED:big ");
    stop_listening(i, &e);
    free(big);
}

static void closing_a_watch_that_pauses_or_was_never_answered(void **state)
{
    struct fixture *x = *state;
    struct pl_kube_informer *i;
    struct ear e;

    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_SILENT, 0, 0, NULL, 0, 1});
    i = listen_in(&x->place, &e, NULL, 0);
    kube_fake_await_requests(x->fake, 1);
    stop_listening(i, &e);
    kube_fake_fault(x->fake, (struct kube_fake_fault){NULL, NULL, KUBE_FAULT_ANSWER, 500, 0, "", 0, 0});
    i = listen_in(&x->place, &e, NULL, 0);
    for (struct pl_kube_informer_view v = {0}; v.failures == 0;)
        pl_kube_informer_look(i, &v);
    stop_listening(i, &e);
}

static void names_that_are_none_make_no_path(void **state)
{
    static const char *const bad[] = {"", "A", "a/b", "../x", "a_b", "-a", "a b"};
    struct pl_buf out = {0};
    struct pl_err err = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        assert_int_equal(pl_kube_path(&out, "v1", "n", "pods", bad[i], NULL, &err), PL_EINVAL);
        assert_int_equal(pl_kube_path(&out, "v1", bad[i], "pods", NULL, NULL, &err), PL_EINVAL);
    }
    pl_buf_clear(&out);
    assert_int_equal(pl_kube_path(&out, "resource.k8s.io/v1", "n", "resourceclaims", "a.b-1", "status", NULL), 0);
    assert_string_equal((const char *)out.data, "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/a.b-1/status");
    pl_buf_finish(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest rows[] = {KUBE_ROWS};
    const struct CMUnitTest tests[] = {
        TEST(what_may_help_is_tried_again_and_nothing_is_made_twice),
        TEST(what_will_not_help_is_not_tried_again),
        TEST(a_deadline_ends_it_with_the_last_words),
        TEST(a_deadline_in_the_midst_of_an_attempt_ends_it_with_the_words_before),
        TEST(retry_after_is_waited_for),
        TEST(a_server_that_falls_silent_is_left),
        TEST(a_connection_that_was_kept_beside_a_silent_one_is_not_taken),
        TEST(a_connection_that_answered_beside_a_silent_one_is_taken_again),
        cmocka_unit_test(no_server_is_said_with_its_address),
        TEST(an_api_server_that_is_away_is_not_the_daemon),
        TEST(closing_ends_what_is_under_way),
        TEST(connections_are_kept_and_few),
        TEST(removals_leave_room_for_what_is_made),
        TEST(a_token_that_changed_is_read_again_when_it_is_refused),
        TEST(what_waited_to_know_who_we_are_runs_a_few_at_a_time),
        TEST(what_waits_to_know_who_we_are_can_be_given_up),
        TEST(a_watch_survives_all_that_happens_to_it),
        TEST(a_bookmark_spares_a_list),
        TEST(a_watch_cut_within_a_frame_tells_everything_once),
        TEST(logs_leave_streams_for_watches),
        TEST(a_large_object_comes_through_stripped),
        TEST(closing_a_watch_that_pauses_or_was_never_answered),
        cmocka_unit_test(names_that_are_none_make_no_path),
    };
    const int failed = cmocka_run_group_tests_name("rows", rows, setup, teardown);

    return failed + cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
