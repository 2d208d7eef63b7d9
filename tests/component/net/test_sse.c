// link: pipelined/net/loop pipelined/net/server storage/base
/* Server-sent events: everybody gets everything in order, a reconnecting client goes on where it was, one that is too far behind is told. */
#include "pipelined/net/server/sse.h"
#include "tests/support/fixtures/http_fixture.h"

static struct pl_sse_hub *hub;
/* The "database": events 1..kept are gone, kept+1..stored can be had again. */
static uint64_t kept_after, stored;
static unsigned filters_dropped;

static int older(void *self, uint64_t after, void *filter, struct pl_buf *out, uint64_t *ret_last, struct pl_err *err)
{
    char data[32];

    (void)self;
    (void)filter;
    if (after < kept_after)
        return PL_ENOTFOUND;
    for (unsigned i = 0; i < 100 && after < stored; i++) {
        snprintf(data, sizeof(data), "{\"n\":%llu}", (unsigned long long)++after);
        if (pl_sse_format(out, after, "stored", data, err) < 0)
            return PL_ENOMEM;
        *ret_last = after;
    }
    return 0;
}

static bool wants(void *self, const void *filter, const char *type, const char *data)
{
    (void)self;
    (void)data;
    return !filter || pl_streq(filter, type);
}

static void drop_filter(void *filter)
{
    free(filter);
    pthread_mutex_lock(&lock);
    filters_dropped++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_events(struct pl_http_request *r, void *arg)
{
    const char *type = pl_http_query(r, "type");

    (void)arg;
    pl_sse_hub_subscribe(hub, r, type ? strdup(type) : NULL);
}

static const struct pl_http_route routes[] = {{"GET", "/events", PL_ON_LOOP, PL_BODY_NONE, 0, on_events, NULL, 0}};

static int start_with(uint64_t last_id)
{
    struct pl_sse_options o = {.older = older, .wants = wants, .drop_filter = drop_filter, .last_id = last_id};

    filters_dropped = 0;
    kept_after = 0;
    stored = last_id;
    return pl_sse_hub_create(&o, &hub, NULL) < 0 || fixture_start((struct pl_http_options){.routes = routes, .n_routes = 1});
}

static int start(void **state)
{
    (void)state;
    return start_with(0);
}

static int start_with_history(void **state)
{
    (void)state;
    return start_with(1000);
}

static int stop(void **state)
{
    hub = pl_sse_hub_destroy(hub);
    return fixture_stop(state);
}

static int follow(const char *request)
{
    int fd = client_connect(port);
    struct answer a;

    client_say(fd, request);
    client_read_head(fd, &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "text/event-stream"));
    return fd;
}

static void await_subscribers(size_t n)
{
    while (pl_sse_hub_subscribers(hub) != n)
        sched_yield();
}

/* The next line of the stream that is none of the chunks' own: sizes and the empty lines that end events and chunks. */
static bool next_line(int fd, char *out, size_t size)
{
    while (client_read_line(fd, out, size)) {
        if (strchr("\r\n", out[0]) || strspn(out, "0123456789abcdefABCDEF") == strcspn(out, "\r\n"))
            continue;
        out[strcspn(out, "\r\n")] = 0;
        return true;
    }
    return false;
}

static void expect_event(int fd, uint64_t id, const char *type)
{
    char line[256], wanted[64];

    assert_true(next_line(fd, line, sizeof(line)));
    snprintf(wanted, sizeof(wanted), "id: %llu", (unsigned long long)id);
    assert_string_equal(line, wanted);
    assert_true(next_line(fd, line, sizeof(line)));
    snprintf(wanted, sizeof(wanted), "event: %s", type);
    assert_string_equal(line, wanted);
    assert_true(next_line(fd, line, sizeof(line)));
    assert_memory_equal(line, "data: {", 7);
}

static void expect_reset(int fd)
{
    char line[256];

    assert_true(next_line(fd, line, sizeof(line)));
    assert_string_equal(line, "event: reset");
    while (next_line(fd, line, sizeof(line)))
        if (!pl_streq(line, "data: {}"))
            fail_msg("after the reset: %s", line);
}

static void publish(uint64_t id, const char *type)
{
    assert_int_equal(pl_sse_hub_publish(hub, id, type, "{\"x\":1}", NULL), 0);
}

#define EVENTS_AFTER(id) "GET /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nLast-Event-ID: " #id "\r\n\r\n"

static void test_all_subscribers_get_what_is_published_from_then_on(void **state)
{
    int fds[20];

    (void)state;
    publish(1, "before");
    for (size_t i = 0; i < PL_ARRAY_SIZE(fds); i++)
        fds[i] = follow(GET("/events"));
    await_subscribers(PL_ARRAY_SIZE(fds));
    for (uint64_t id = 2; id < 50; id++)
        publish(id, "commit");
    for (size_t i = 0; i < PL_ARRAY_SIZE(fds); i++) {
        for (uint64_t id = 2; id < 50; id++)
            expect_event(fds[i], id, "commit");
        close(fds[i]);
    }
    await_subscribers(0);
}

static void test_a_client_that_comes_back_goes_on_where_it_was(void **state)
{
    int fd;

    (void)state;
    for (uint64_t id = 1; id <= 10; id++)
        publish(id * 10, "job");
    fd = follow(EVENTS_AFTER(75));
    for (uint64_t id = 8; id <= 10; id++)
        expect_event(fd, id * 10, "job");
    publish(101, "run");
    expect_event(fd, 101, "run");
    close(fd);
    fd = follow(GET("/events?since=101"));
    publish(102, "run");
    expect_event(fd, 102, "run");
    close(fd);
}

static void test_what_the_ring_never_had_is_read_from_the_store(void **state)
{
    int fd;

    (void)state;
    publish(1001, "live");
    fd = follow(EVENTS_AFTER(700));
    for (uint64_t id = 701; id <= 1000; id++)
        expect_event(fd, id, "stored");
    expect_event(fd, 1001, "live");
    close(fd);
}

static void test_what_is_kept_no_longer_resets_the_client(void **state)
{
    int fd;

    (void)state;
    kept_after = 500;
    fd = follow(EVENTS_AFTER(499));
    expect_reset(fd);
    close(fd);
    fd = follow(EVENTS_AFTER(5000)); /* an id of another store */
    expect_reset(fd);
    close(fd);
    await_subscribers(0);
}

static void test_a_reader_slower_than_the_ring_catches_up_from_the_store(void **state)
{
    char data[2048], line[4096], wanted[64];
    uint64_t last = 3 * PL_SSE_RING_EVENTS;
    int fd = follow("GET /events HTTP/1.0\r\n\r\n"); /* not chunked */
    struct timeval patience = {.tv_sec = FIXTURE_WAIT_MS / 1000};
    FILE *stream = fdopen(fd, "r");

    (void)state;
    await_subscribers(1);
    memset(data, 'x', sizeof(data));
    data[sizeof(data) - 1] = 0;
    stored = last;
    for (uint64_t id = 1; id <= last; id++) /* far more than sockets and ring hold */
        assert_int_equal(pl_sse_hub_publish(hub, id, "live", data, NULL), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    for (uint64_t id = 1; id <= last; id++) {
        do
            assert_non_null(fgets(line, sizeof(line), stream));
        while (strncmp(line, "id: ", 4) != 0);
        snprintf(wanted, sizeof(wanted), "id: %llu\n", (unsigned long long)id);
        assert_string_equal(line, wanted);
    }
    fclose(stream);
}

static void test_a_filter_is_heeded_and_dropped(void **state)
{
    int fd = follow(GET("/events?type=run"));

    (void)state;
    await_subscribers(1);
    publish(1, "job");
    publish(2, "run");
    publish(3, "job");
    publish(4, "run");
    expect_event(fd, 2, "run");
    expect_event(fd, 4, "run");
    close(fd);
    UNTIL(filters_dropped == 1);
}

static void test_what_is_no_event_is_refused(void **state)
{
    char *large = calloc(1, PL_SSE_EVENT_BYTES_MAX + 1);
    struct answer a;
    int fd;

    (void)state;
    memset(large, 'x', PL_SSE_EVENT_BYTES_MAX);
    assert_int_equal(pl_sse_hub_publish(hub, 1, "a", large, NULL), PL_ETOOBIG);
    assert_int_equal(pl_sse_hub_publish(hub, 1, "a", "two\nlines", NULL), PL_EINVAL);
    publish(5, "a");
    assert_int_equal(pl_sse_hub_publish(hub, 5, "a", "{}", NULL), PL_EINVAL);
    free(large);
    fd = client_connect(port);
    a = client_ask(fd, EVENTS_AFTER(abc));
    assert_int_equal(a.status, 400);
    answer_free(&a);
    close(fd);
    UNTIL(filters_dropped == 1);
}

static void test_the_end_of_the_hub_ends_the_streams(void **state)
{
    int fd = follow("GET /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    char line[64];

    (void)state;
    await_subscribers(1);
    hub = pl_sse_hub_destroy(hub);
    assert_false(next_line(fd, line, sizeof(line)));
    close(fd);
}

#define NEW(f) cmocka_unit_test_setup_teardown(f, start, stop)
#define OLD(f) cmocka_unit_test_setup_teardown(f, start_with_history, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NEW(test_all_subscribers_get_what_is_published_from_then_on),
        NEW(test_a_client_that_comes_back_goes_on_where_it_was),
        OLD(test_what_the_ring_never_had_is_read_from_the_store),
        OLD(test_what_is_kept_no_longer_resets_the_client),
        NEW(test_a_reader_slower_than_the_ring_catches_up_from_the_store),
        NEW(test_a_filter_is_heeded_and_dropped),
        NEW(test_what_is_no_event_is_refused),
        NEW(test_the_end_of_the_hub_ends_the_streams),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
