// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* What a container prints, over HTTP: its status says what is known of it before the first byte. */
#include "tests/support/fixtures/api_fixture.h"

#include "pipelined/net/server/http_server.h"
#include "storage/base/clock.h"

#define LOG "/api/v1/logs/default/train/agent"

/* What the engine gives the next who asks. */
static struct {
    int open;         /* not 0: it refuses */
    const char *text; /* first; NULL = nothing */
    bool stands;      /* who follows is woken, with or without text */
    int end;          /* PL_PULL_WAIT: not before who reads has gone */
    int late;         /* not 0: that is the end, a moment after who reads has been told to wait */
    bool comes;
    pthread_t later;
    struct pl_container_log_request asked;
    char pod[64], container[16];
    atomic_uint closed;
} gives;

static void *comes_later(void *arg)
{
    (void)arg;
    gives.asked.came(gives.asked.self);
    return NULL;
}

static int give(void *self, struct pl_buf *out, struct pl_err *err)
{
    const char *text = gives.text;

    (void)self;
    gives.text = NULL;
    if (gives.late < 0) {
        gives.end = gives.late;
        gives.late = 0;
        gives.comes = true;
        assert_int_equal(pthread_create(&gives.later, NULL, comes_later, NULL), 0);
        return PL_PULL_WAIT;
    }
    if (text)
        return pl_buf_add_str(out, text, err) < 0 ? PL_ENOMEM : PL_PULL_MORE;
    return gives.end < 0 ? pl_err_set(err, gives.end, "the cluster refuses it") : gives.end;
}

/* Nothing comes after it. */
static void on_closed(void *self)
{
    (void)self;
    if (gives.comes)
        pthread_join(gives.later, NULL);
    gives.comes = false;
    gives.closed++;
}

static int engine_opens(void *self, const char *project, const char *stage, const struct pl_container_log_request *ask,
                        struct pl_http_stream_ops *ret, struct pl_err *err)
{
    (void)self;
    assert_string_equal(project, "default");
    assert_string_equal(stage, "train");
    gives.asked = *ask;
    snprintf(gives.pod, sizeof gives.pod, "%s", ask->pod ? ask->pod : "-");
    snprintf(gives.container, sizeof gives.container, "%s", ask->container);
    if (gives.open < 0)
        return pl_err_set(err, gives.open, "16 are read already");
    *ret = (struct pl_http_stream_ops){.self = &gives, .pull = give, .closed = on_closed};
    if (gives.stands)
        ask->came(ask->self);
    return 0;
}

/* A stage that has had no job. */
static void a_stage(void)
{
    make_repo("data");
    does(200, "POST", "/api/v1/pipelines",
         "{\"filename\": \"f.json\", \"spec\": \"{\\\"pipeline\\\": \\\"flow\\\", \\\"repos\\\": {\\\"data\\\": {}}, "
         "\\\"stages\\\": [{\\\"name\\\": "
         "\\\"train\\\", \\\"run\\\": [\\\"x\\\"], \\\"input\\\": {\\\"repo\\\": \\\"data\\\"}}]}\"}");
}

static int setup(void **state)
{
    memset(&gives, 0, sizeof gives);
    api_engine.container_log = engine_opens;
    return api_setup(state);
}

static void what_there_is_comes_and_so_does_what_was_asked(void **state)
{
    struct answer a;

    (void)state;
    a_stage();
    gives.text = "printed\n";
    a = ask("GET", LOG "?pod=p-1&tail=7", NULL);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "printed\n");
    assert_string_equal(gives.pod, "p-1");
    assert_string_equal(gives.container, "agent");
    assert_int_equal(gives.asked.tail, 7);
    assert_false(gives.asked.follow);
    answer_free(&a);
}

static void what_cannot_be_had_is_refused_before_the_first_byte(void **state)
{
    static const char *const targets[] = {LOG, LOG "?follow=1"};

    (void)state;
    a_stage();
    for (size_t i = 0; i < PL_ARRAY_SIZE(targets); i++) {
        gives.end = PL_EUNAVAILABLE;
        refused("not_available", "the cluster refuses it", "GET", targets[i], NULL);
        gives.late = PL_EUNAVAILABLE;
        refused("not_available", "the cluster refuses it", "GET", targets[i], NULL);
        gives.open = PL_EBUSY;
        refused("busy", "16 are read already", "GET", targets[i], NULL);
        gives.open = 0;
    }
    assert_int_equal(gives.closed, 4);
}

static void who_follows_what_is_silent_has_an_answer(void **state)
{
    struct answer a;
    const int64_t began_ms = pl_clock_mono_ms();
    char head[256];
    int fd;

    (void)state;
    a_stage();
    gives.end = PL_PULL_WAIT;
    gives.stands = true;
    fd = client_connect(port);
    snprintf(head, sizeof head, "GET " LOG "?follow=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n" AS_USER "\r\n", port);
    assert_true(client_say(fd, head));
    client_read_head(fd, &a);
    assert_int_equal(a.status, 200);
    assert_true(pl_clock_mono_ms() - began_ms < 25000); /* it is not what is waited for at most that ended */
    answer_free(&a);
    close(fd);
}

static void arguments_that_cannot_be_are_refused(void **state)
{
    (void)state;
    a_stage();
    refused("invalid", "pod is empty", "GET", LOG "?pod=", NULL);
    refused("invalid", "tail", "GET", LOG "?tail=1000001", NULL);
    refused("invalid", "a pod has main, agent and install", "GET", "/api/v1/logs/default/train/sidecar", NULL);
    refused("not_found", "project \"default\" has no stage \"other\"", "GET", "/api/v1/logs/default/other/agent", NULL);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, api_teardown)
    const struct CMUnitTest tests[] = {
        ROW(what_there_is_comes_and_so_does_what_was_asked),
        ROW(what_cannot_be_had_is_refused_before_the_first_byte),
        ROW(who_follows_what_is_silent_has_an_answer),
        ROW(arguments_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests_name("api_container_log", tests, NULL, NULL);
}
