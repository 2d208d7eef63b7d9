// link: pipelined/net/loop pipelined/net/server storage/base
/* The HTTP server's streams: bodies through a sink, generated and pushed answers; that nothing grows, that nobody's vanishing hurts, and how
 * it all ends. */
#include "tests/support/fixtures/http_fixture.h"

#include "storage/base/clock.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdatomic.h>

#define HELD_MAX 8
static struct pl_http_request *held[HELD_MAX];
static size_t n_held;
static struct pl_http_stream *push;
static unsigned closed_streams;
static struct {
    bool gate_shut; /* the sink's write waits */
    uint64_t bytes;
    unsigned begun, ends, writing;
    int code; /* of `end` */
    int fail_with;
    struct pl_http_request *request; /* with keep: `end` leaves it to the test */
    bool keep;
} sink;

static void change(void)
{
    pthread_cond_broadcast(&changed);
}

/* --- a connection that takes little at a time, later than the generator gives --- */

static struct {
    atomic_bool is_on; /* for one answer at a time */
    MHD_ContentReaderCallback read;
} behind;

static ssize_t read_little(void *stream, uint64_t at, char *out, size_t max)
{
    pl_pool_drain(pool);
    return behind.read(stream, at, out, PL_MIN(max, 4096));
}

/* In the place of the library's, which it calls. */
struct MHD_Response *MHD_create_response_from_callback(uint64_t size, size_t block, MHD_ContentReaderCallback read, void *arg,
                                                       MHD_ContentReaderFreeCallback done)
{
    struct MHD_Response *(*real)(uint64_t, size_t, MHD_ContentReaderCallback, void *, MHD_ContentReaderFreeCallback);

    *(void **)&real = dlsym(RTLD_NEXT, "MHD_create_response_from_callback");
    assert_non_null(real);
    behind.read = read;
    return real(size, block, behind.is_on ? read_little : read, arg, done);
}

/* --- handlers --- */

static void on_hello(struct pl_http_request *r, void *arg)
{
    (void)arg;
    pl_http_reply(r, 200, "text/plain", "hello", 5);
}

static void on_hold(struct pl_http_request *r, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    held[n_held++] = r;
    change();
    pthread_mutex_unlock(&lock);
}

static int sink_write(void *self, const void *data, size_t n, struct pl_err *err)
{
    int r = 0;

    (void)self;
    (void)data;
    pthread_mutex_lock(&lock);
    sink.writing++;
    change();
    while (sink.gate_shut)
        pthread_cond_wait(&changed, &lock);
    sink.writing--;
    sink.bytes += n;
    if (sink.fail_with)
        r = pl_err_set(err, sink.fail_with, "the disk is full");
    pthread_mutex_unlock(&lock);
    return r;
}

static void sink_end(void *self, struct pl_http_request *r, const struct pl_err *err)
{
    bool keep;

    (void)self;
    pthread_mutex_lock(&lock);
    sink.ends++;
    sink.code = err ? err->code : 0;
    sink.request = r;
    keep = sink.keep;
    change();
    pthread_mutex_unlock(&lock);
    if (keep)
        return;
    if (err)
        pl_http_reply_error(r, err);
    else
        pl_http_reply_json(r, 201, json_integer((json_int_t)sink.bytes));
}

static void on_stream_body(struct pl_http_request *r, void *arg)
{
    struct pl_http_sink s = {NULL, sink_write, sink_end};

    (void)arg;
    pthread_mutex_lock(&lock);
    sink.begun++;
    change();
    pthread_mutex_unlock(&lock);
    pl_http_body_to(r, &s);
}

static void on_stream_refused(struct pl_http_request *r, void *arg)
{
    struct pl_err err = {0};

    (void)arg;
    pl_err_set(&err, PL_EINUSE, "not now");
    pl_http_reply_error(r, &err);
}

static void stream_closed(void *self)
{
    (void)self;
    pthread_mutex_lock(&lock);
    closed_streams++;
    change();
    pthread_mutex_unlock(&lock);
}

static void on_push(struct pl_http_request *r, void *arg)
{
    struct pl_http_stream_options o = {
        .content_type = "text/plain", .length = PL_HTTP_LENGTH_UNKNOWN, .heartbeat = "~", .heartbeat_ms = 500, .endless = true};
    struct pl_http_stream_ops ops = {.closed = stream_closed};
    struct pl_http_stream *s;

    (void)arg;
    if (!pl_http_query_flag(r, "heartbeat"))
        o.heartbeat = NULL;
    s = pl_http_reply_stream(r, &o, &ops);
    pthread_mutex_lock(&lock);
    push = s;
    change();
    pthread_mutex_unlock(&lock);
}

struct generator {
    uint64_t left;
    uint64_t fail_at;
};

static int generate(void *self, struct pl_buf *out, struct pl_err *err)
{
    struct generator *g = self;
    uint64_t n = PL_MIN(g->left, 50000);

    for (uint64_t i = 0; i < n; i++)
        if (pl_buf_add_u8(out, (uint8_t)(g->left - i), err) < 0)
            return PL_ENOMEM;
    g->left -= n;
    if (g->fail_at && g->left <= g->fail_at)
        return pl_err_set(err, PL_EIO, "the disk went away");
    return g->left ? PL_PULL_MORE : PL_PULL_END;
}

static void generator_closed(void *self)
{
    free(self);
    stream_closed(NULL);
}

static void on_pull(struct pl_http_request *r, void *arg)
{
    struct pl_http_stream_options o = {.content_type = "application/octet-stream", .length = PL_HTTP_LENGTH_UNKNOWN};
    struct generator *g = calloc(1, sizeof(*g));
    struct pl_http_stream_ops ops = {g, generate, generator_closed};

    (void)arg;
    assert_int_equal(pl_http_query_u64(r, "n", 0, UINT64_MAX, &g->left, NULL), 0);
    assert_int_equal(pl_http_query_u64(r, "fail_at", 0, UINT64_MAX, &g->fail_at, NULL), 0);
    if (pl_http_query_flag(r, "sized"))
        o.length = g->left;
    pl_http_stream_close(pl_http_reply_stream(r, &o, &ops));
}

static const struct pl_http_route routes[] = {
    {"GET", "/loop", PL_ON_LOOP, PL_BODY_NONE, 0, on_hello, NULL, 0},
    {"GET", "/hold", PL_ON_LOOP, PL_BODY_NONE, 0, on_hold, NULL, 0},
    {"PUT", "/stream", PL_ON_POOL, PL_BODY_STREAM, 0, on_stream_body, NULL, 0},
    {"PUT", "/stream-small", PL_ON_POOL, PL_BODY_STREAM, 100000, on_stream_body, NULL, 0},
    {"PUT", "/stream-refused", PL_ON_LOOP, PL_BODY_STREAM, 0, on_stream_refused, NULL, 0},
    {"GET", "/push", PL_ON_POOL, PL_BODY_NONE, 0, on_push, NULL, 0},
    {"GET", "/pull", PL_ON_POOL, PL_BODY_NONE, 0, on_pull, NULL, 0},
};

static int start(void **state)
{
    (void)state;
    n_held = 0;
    push = NULL;
    closed_streams = 0;
    memset(&sink, 0, sizeof(sink));
    return fixture_start((struct pl_http_options){.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)});
}

/* --- streamed bodies --- */

static uint64_t rss_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    assert_int_equal(fscanf(f, "%lu %lu", &pages, &resident), 2);
    fclose(f);
    return (uint64_t)resident * 4096;
}

struct upload {
    int fd;
    uint64_t left;
    atomic_uint_fast64_t sent;
    bool cut;
};

static void *upload(void *arg)
{
    struct upload *u = arg;
    static char block[65536];

    while (u->left) {
        size_t n = PL_MIN(u->left, sizeof(block));

        if (!client_send(u->fd, block, n)) {
            u->cut = true;
            break;
        }
        u->left -= n;
        atomic_fetch_add(&u->sent, n);
    }
    return NULL;
}

#define UPLOAD_BYTES (64u << 20)

static void begin_upload(struct upload *u, pthread_t *thread, const char *target, uint64_t bytes)
{
    char head[128];

    *u = (struct upload){.fd = client_connect(port), .left = bytes};
    snprintf(head, sizeof(head), "PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: %llu\r\n\r\n", target, (unsigned long long)bytes);
    client_say(u->fd, head);
    pthread_create(thread, NULL, upload, u);
}

static void test_a_slow_sink_holds_back_the_client_and_memory_stays_bounded(void **state)
{
    uint64_t before = rss_bytes(), sent;
    struct upload u;
    pthread_t thread;
    struct answer a;

    (void)state;
    sink.gate_shut = true;
    begin_upload(&u, &thread, "/stream", UPLOAD_BYTES);
    UNTIL(sink.writing == 1);
    do { /* until the kernel's buffers are full as well */
        struct pollfd p = {.fd = u.fd, .events = POLLOUT};

        sent = atomic_load(&u.sent);
        if (poll(&p, 1, 200) == 0 && sent == atomic_load(&u.sent))
            break;
    } while (true);
    assert_true(sent < UPLOAD_BYTES / 2);
    assert_true(rss_bytes() < before + (8u << 20));
    pthread_mutex_lock(&lock);
    sink.gate_shut = false;
    change();
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    a = client_read_answer(u.fd);
    assert_int_equal(a.status, 201);
    assert_int_equal(sink.bytes, UPLOAD_BYTES);
    assert_int_equal(sink.ends, 1);
    answer_free(&a);
    close(u.fd);
}

static void test_a_failing_sink_answers_before_the_upload_is_through(void **state)
{
    struct upload u;
    pthread_t thread;
    struct answer a;

    (void)state;
    sink.fail_with = PL_ENOSPC;
    begin_upload(&u, &thread, "/stream", UINT64_C(1) << 40);
    a = client_read_answer(u.fd);
    assert_int_equal(a.status, 507);
    assert_non_null(strstr(a.body, "the disk is full"));
    shutdown(u.fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    assert_int_equal(sink.ends, 1);
    answer_free(&a);
    close(u.fd);
}

static void test_a_refused_upload_is_cut_off_when_its_client_goes_on(void **state)
{
    struct upload u;
    pthread_t thread;
    struct answer a;

    (void)state;
    begin_upload(&u, &thread, "/stream-refused", UINT64_C(1) << 40);
    a = client_read_answer(u.fd);
    assert_int_equal(a.status, 409);
    pthread_join(thread, NULL);
    assert_true(u.cut);
    answer_free(&a);
    close(u.fd);
}

static void test_a_streamed_body_past_its_bound_fails(void **state)
{
    struct upload u;
    pthread_t thread;
    struct answer a;

    (void)state;
    begin_upload(&u, &thread, "/stream-small", 100001);
    a = client_read_answer(u.fd); /* refused by its announced length: no sink ever sees it */
    pthread_join(thread, NULL);
    assert_int_equal(a.status, 413);
    assert_int_equal(sink.ends, 0);
    answer_free(&a);
    close(u.fd);

    u.fd = client_connect(port);
    client_say(u.fd, "PUT /stream-small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 11; i++) {
        static char block[10000];

        client_say(u.fd, "2710\r\n");
        client_send(u.fd, block, sizeof(block));
        client_say(u.fd, "\r\n");
    }
    client_say(u.fd, "0\r\n\r\n");
    a = client_read_answer(u.fd);
    assert_int_equal(a.status, 413);
    assert_int_equal(sink.ends, 1);
    assert_int_equal(sink.code, PL_ETOOBIG);
    answer_free(&a);
    close(u.fd);
}

static void test_a_client_that_vanishes_in_the_middle_of_its_body_ends_the_sink(void **state)
{
    int fd = client_connect(port);

    (void)state;
    client_say(fd, "PUT /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc");
    shutdown(fd, SHUT_RDWR);
    close(fd);
    UNTIL(sink.ends == 1);
    assert_int_equal(sink.code, PL_ENET);
}

/* --- response streams --- */

static void test_a_generated_body_arrives_whole(void **state)
{
    static const char *const requests[] = {
        GET("/pull?n=0"), GET("/pull?n=1"), GET("/pull?n=3000001"), GET("/pull?n=3000001&sized=1"), GET("/pull?n=0&sized=1"),
    };
    int fd = client_connect(port);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(requests); i++) {
        uint64_t n = strtoull(strstr(requests[i], "n=") + 2, NULL, 10);
        struct answer a = client_ask(fd, requests[i]);

        assert_int_equal(a.status, 200);
        assert_true(a.complete);
        assert_int_equal(a.len, n);
        for (uint64_t k = 0; k < n; k++)
            if ((uint8_t)a.body[k] != (uint8_t)(n - k))
                fail_msg("byte %llu is wrong", (unsigned long long)k);
        answer_free(&a);
    }
    close(fd);
    UNTIL(closed_streams == PL_ARRAY_SIZE(requests));
}

static void test_a_generator_that_fails_leaves_a_recognisably_incomplete_body(void **state)
{
    static const char *const requests[] = {GET("/pull?n=1000000&fail_at=300000"), GET("/pull?n=1000000&fail_at=300000&sized=1")};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(requests); i++) {
        int fd = client_connect(port);
        struct answer a = client_ask(fd, requests[i]);

        assert_int_equal(a.status, 200);
        assert_false(a.complete);
        answer_free(&a);
        close(fd);
    }
    UNTIL(closed_streams == 2);
}

static void test_a_slow_reader_holds_back_the_generator(void **state)
{
    uint64_t before = rss_bytes();
    int fd = client_connect(port);
    struct pl_http_stats stats;
    struct answer a;

    (void)state;
    client_say(fd, GET("/pull?n=1000000000000"));
    client_read_head(fd, &a);
    assert_int_equal(a.status, 200);
    for (int i = 0; i < 1000; i++) {
        char block[1000];

        client_read(fd, block, sizeof(block));
    }
    assert_true(rss_bytes() < before + (8u << 20));
    pl_http_server_get_stats(server, &stats);
    assert_int_equal(stats.streams, 1);
    close(fd);
    UNTIL(closed_streams == 1);
}

/* What waits for it is never all sent: before each piece of it the generator has made all that it was asked for. */
static void test_a_reader_that_is_always_behind_gets_all(void **state)
{
    const uint64_t n = 4000000;
    int fd = client_connect(port);
    static char block[32768];
    uint64_t got = 0;
    struct answer a;

    (void)state;
    behind.is_on = true;
    client_say(fd, GET("/pull?n=4000000&sized=1"));
    client_read_head(fd, &a);
    assert_int_equal(a.status, 200);
    while (got < n) {
        size_t some = client_read(fd, block, sizeof(block));

        if (!some)
            fail_msg("cut off after %llu bytes", (unsigned long long)got);
        for (size_t i = 0; i < some; i++, got++)
            if ((uint8_t)block[i] != (uint8_t)(n - got))
                fail_msg("byte %llu is wrong", (unsigned long long)got);
    }
    close(fd);
    UNTIL(closed_streams == 1);
    behind.is_on = false;
}

static void test_pushed_bytes_arrive_at_once_and_a_full_queue_says_so(void **state)
{
    static char block[65536];
    int fd = client_connect(port), r;
    struct answer a;
    char text[16];
    uint64_t sent = 0;
    unsigned soon = 0;
    struct pl_err err;

    (void)state;
    client_say(fd, GET("/push"));
    UNTIL(push);
    client_read_head(fd, &a); /* without anything written */
    for (int i = 0; i < 20; i++) {
        const int64_t begun_ms = pl_clock_mono_ms();

        assert_int_equal(pl_http_stream_write(push, "hello\n", 6, NULL), 0);
        assert_true(client_read_exactly(fd, text, 11)); /* "6\r\nhello\n\r\n" */
        assert_memory_equal(text, "6\r\nhello\n\r\n", 11);
        soon += pl_clock_mono_ms() - begun_ms < 40;
    }
    assert_true(soon >= 5); /* Nagle and cork would delay nearly each by 40 or 200 ms, a busy machine some */
    while ((r = pl_http_stream_write(push, block, sizeof(block), &err)) == 0 || sent == 0)
        sent += r == 0 ? sizeof(block) : 0;
    assert_int_equal(r, PL_EBUSY);
    pl_http_stream_close(push);
    while (sent) { /* what was accepted still arrives, though chunked anew */
        char line[16];
        size_t n;

        assert_true(client_read_line(fd, line, sizeof(line)));
        n = strtoul(line, NULL, 16);
        assert_true(n > 0 && n <= sent);
        sent -= n;
        for (n += 2; n;)
            n -= client_read(fd, block, PL_MIN(n, sizeof(block)));
    }
    assert_true(client_read_exactly(fd, text, 5));
    assert_memory_equal(text, "0\r\n\r\n", 5);
    close(fd);
    UNTIL(closed_streams == 1);
}

static void test_a_reader_that_vanishes_ends_the_stream(void **state)
{
    int fd = client_connect(port);
    struct answer a;

    (void)state;
    client_say(fd, GET("/push"));
    UNTIL(push);
    client_read_head(fd, &a);
    close(fd);
    UNTIL(closed_streams == 1); /* within two seconds, though nothing was written */
    assert_true(pl_http_stream_gone(push));
    assert_int_equal(pl_http_stream_write(push, "x", 1, NULL), PL_ENET);
    pl_http_stream_close(push);
}

static void test_a_silent_stream_has_a_heartbeat(void **state)
{
    int fd = client_connect(port);
    struct answer a;
    char text[6];

    (void)state;
    client_say(fd, GET("/push?heartbeat=1"));
    client_read_head(fd, &a);
    assert_true(client_read_exactly(fd, text, 6));
    assert_memory_equal(text, "1\r\n~\r\n", 6);
    UNTIL(push);
    pl_http_stream_close(push);
    close(fd);
}

/* --- the end --- */

static void *stop_with_patience(void *arg)
{
    (void)arg;
    pl_http_server_stop(server, FIXTURE_WAIT_MS);
    return NULL;
}

static void test_stopping_waits_for_running_requests_and_refuses_new_ones(void **state)
{
    int slow = client_connect(port), idle = client_connect(port), streaming = client_connect(port);
    struct answer a;
    pthread_t stopper;

    (void)state;
    a = client_ask(idle, GET("/loop"));
    answer_free(&a);
    client_say(slow, GET("/hold"));
    client_say(streaming, GET("/push"));
    UNTIL(n_held == 1 && push);
    pthread_create(&stopper, NULL, stop_with_patience, NULL);
    UNTIL(closed_streams == 1); /* it is draining */
    a = client_ask(idle, GET("/loop"));
    assert_int_equal(a.status, 503);
    assert_non_null(strstr(a.body, "stopping"));
    answer_free(&a);
    pl_http_reply(held[0], 200, "text/plain", "done", 4);
    a = client_read_answer(slow);
    assert_string_equal(a.body, "done");
    answer_free(&a);
    pthread_join(stopper, NULL);
    a = client_read_answer(streaming);
    assert_true(a.complete);
    answer_free(&a);
    pl_http_stream_close(push);
    close(slow), close(idle), close(streaming);
}

static void test_stopping_at_once_cuts_everything_and_late_answers_are_allowed(void **state)
{
    int polling = client_connect(port), uploading = client_connect(port), pulling = client_connect(port);
    struct answer a;

    (void)state;
    client_say(polling, GET("/hold"));
    client_say(uploading, "PUT /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc");
    client_say(pulling, GET("/pull?n=1000000000"));
    client_read_head(pulling, &a);
    UNTIL(n_held == 1 && sink.begun == 1);
    pl_http_server_stop(server, 0);
    a = client_read_answer(polling);
    assert_int_equal(a.status, -1);
    UNTIL(sink.ends == 1 && closed_streams == 1);
    assert_int_equal(sink.code, PL_ENET);
    pl_http_reply(held[0], 200, "text/plain", "late", 4);
    close(polling), close(uploading), close(pulling);
}

#define SERVED(f) cmocka_unit_test_setup_teardown(f, start, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(test_a_slow_sink_holds_back_the_client_and_memory_stays_bounded),
        SERVED(test_a_failing_sink_answers_before_the_upload_is_through),
        SERVED(test_a_refused_upload_is_cut_off_when_its_client_goes_on),
        SERVED(test_a_streamed_body_past_its_bound_fails),
        SERVED(test_a_client_that_vanishes_in_the_middle_of_its_body_ends_the_sink),
        SERVED(test_a_generated_body_arrives_whole),
        SERVED(test_a_generator_that_fails_leaves_a_recognisably_incomplete_body),
        SERVED(test_a_slow_reader_holds_back_the_generator),
        SERVED(test_a_reader_that_is_always_behind_gets_all),
        SERVED(test_pushed_bytes_arrive_at_once_and_a_full_queue_says_so),
        SERVED(test_a_reader_that_vanishes_ends_the_stream),
        SERVED(test_a_silent_stream_has_a_heartbeat),
        SERVED(test_stopping_waits_for_running_requests_and_refuses_new_ones),
        SERVED(test_stopping_at_once_cuts_everything_and_late_answers_are_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
