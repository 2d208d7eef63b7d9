// link: pl_net
/* The HTTP server: what is answered by whom, what is refused, that nothing grows, and that nobody's vanishing hurts. */
#include "pipelined/net/http_server.h"
#include "pipelined/net/loop.h"

#include "http_fixture.h"
#include "storage/base/clock.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

static struct pl_loop *loop;
static pthread_t loop_thread;
static struct pl_pool *pool;
static struct pl_http_server *server;
static unsigned port;

/* What handlers leave for the test, and what it lets them do. */
#define HELD_MAX 256
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct pl_http_request *held[HELD_MAX];
static size_t n_held;
static struct pl_http_stream *push;
static unsigned closed_streams, contexts_dropped;
static struct {
    bool gate_shut; /* the sink's write waits */
    uint64_t bytes;
    unsigned begun, ends, writing;
    int code; /* of `end` */
    int fail_with;
    struct pl_http_request *request; /* with keep: `end` leaves it to the test */
    bool keep;
} sink;

#define UNTIL(condition)                                                                                                         \
    do {                                                                                                                         \
        struct timespec until_;                                                                                                  \
        clock_gettime(CLOCK_REALTIME, &until_);                                                                                  \
        until_.tv_sec += FIXTURE_WAIT_MS / 1000;                                                                                 \
        pthread_mutex_lock(&lock);                                                                                               \
        while (!(condition))                                                                                                     \
            if (pthread_cond_timedwait(&changed, &lock, &until_) != 0)                                                           \
                fail_msg("never: %s", #condition);                                                                               \
        pthread_mutex_unlock(&lock);                                                                                             \
    } while (0)

static void change(void)
{
    pthread_cond_broadcast(&changed);
}

/* --- handlers --- */

static void on_echo(struct pl_http_request *r, void *arg)
{
    char cookie[32] = "";
    const char *q = pl_http_query(r, "q"), *second = pl_http_query_at(r, "q", 1);

    (void)arg;
    pl_http_cookie(r, "session", cookie, sizeof(cookie));
    pl_http_reply_json(r, 200,
                       json_pack("{s:s, s:s, s:s?, s:s?, s:s, s:s?, s:b}", "a", pl_http_param(r, "a"), "b", pl_http_param(r, "b"),
                                 "q", q, "q2", second, "cookie", cookie, "h", pl_http_header(r, "x-thing"), "flag",
                                 pl_http_query_flag(r, "flag")));
}

static void on_tail(struct pl_http_request *r, void *arg)
{
    (void)arg;
    pl_http_reply(r, 200, "text/plain", pl_http_param(r, "path"), strlen(pl_http_param(r, "path")));
}

static void on_loop_route(struct pl_http_request *r, void *arg)
{
    (void)arg;
    pl_http_reply_static(r, 200, "text/plain", pl_loop_is_current(loop) ? "loop" : "elsewhere", pl_loop_is_current(loop) ? 4 : 9);
}

static void on_bytes(struct pl_http_request *r, void *arg)
{
    const struct pl_buf *body = pl_http_body(r);

    (void)arg;
    assert_int_equal(body->data[body->len], 0);
    pl_http_reply(r, 200, "application/octet-stream", body->data, body->len);
}

static void on_json(struct pl_http_request *r, void *arg)
{
    struct pl_err err = {0};
    json_t *value;

    (void)arg;
    if (pl_http_body_json(r, &value, &err) < 0)
        pl_http_reply_error(r, &err);
    else
        pl_http_reply_json(r, 201, value);
}

static void on_number(struct pl_http_request *r, void *arg)
{
    struct pl_err err = {0};
    uint64_t n;

    (void)arg;
    if (pl_http_query_u64(r, "limit", 100, 1000, &n, &err) < 0)
        pl_http_reply_error(r, &err);
    else
        pl_http_reply_json(r, 200, json_integer((json_int_t)n));
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

static void on_file(struct pl_http_request *r, void *arg)
{
    char name[] = "/tmp/pl-test-XXXXXX", text[100];
    int fd = mkostemp(name, O_CLOEXEC);

    (void)arg;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('0' + i % 10);
    assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
    unlink(name);
    pl_http_reply_header(r, "ETag", "\"v1\"");
    pl_http_reply_fd(r, fd, 10, 80, "text/plain"); /* "0123…9" eight times */
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

static void drop_context(void *context)
{
    assert_ptr_equal(context, &contexts_dropped);
    pthread_mutex_lock(&lock);
    contexts_dropped++;
    change();
    pthread_mutex_unlock(&lock);
}

static int guard(struct pl_http_request *r, const struct pl_http_route *route, void *arg, struct pl_err *err)
{
    const char *host = pl_http_header(r, "Host");

    assert_ptr_equal(arg, &contexts_dropped);
    if (host && pl_streq(host, "evil"))
        return pl_err_set(err, PL_EHOST, "Host \"%s\" is not mine", host);
    if (route && route->access && !pl_http_header(r, "Authorization"))
        return pl_err_set(err, PL_EAUTH, "no token");
    if (route && route->access)
        pl_http_set_context(r, &contexts_dropped, drop_context);
    return 0;
}

static const struct pl_http_route routes[] = {
    {"GET", "/echo/{a}/of/{b}", PL_ON_POOL, PL_BODY_NONE, 0, on_echo, NULL, 0},
    {"GET", "/tail/{path...}", PL_ON_POOL, PL_BODY_NONE, 0, on_tail, NULL, 0},
    {"GET", "/loop", PL_ON_LOOP, PL_BODY_NONE, 0, on_loop_route, NULL, 0},
    {"POST", "/bytes", PL_ON_POOL, PL_BODY_BYTES, 1000, on_bytes, NULL, 0},
    {"PUT", "/bytes", PL_ON_POOL, PL_BODY_BYTES, 1000, on_bytes, NULL, 0},
    {"POST", "/json", PL_ON_POOL, PL_BODY_JSON, 0, on_json, NULL, 0},
    {"GET", "/number", PL_ON_POOL, PL_BODY_NONE, 0, on_number, NULL, 0},
    {"GET", "/hold", PL_ON_LOOP, PL_BODY_NONE, 0, on_hold, NULL, 0},
    {"PUT", "/stream", PL_ON_POOL, PL_BODY_STREAM, 0, on_stream_body, NULL, 0},
    {"PUT", "/stream-small", PL_ON_POOL, PL_BODY_STREAM, 100000, on_stream_body, NULL, 0},
    {"PUT", "/stream-refused", PL_ON_LOOP, PL_BODY_STREAM, 0, on_stream_refused, NULL, 0},
    {"GET", "/file", PL_ON_POOL, PL_BODY_NONE, 0, on_file, NULL, 0},
    {"GET", "/push", PL_ON_POOL, PL_BODY_NONE, 0, on_push, NULL, 0},
    {"GET", "/pull", PL_ON_POOL, PL_BODY_NONE, 0, on_pull, NULL, 0},
    {"POST", "/secret", PL_ON_POOL, PL_BODY_BYTES, 0, on_bytes, NULL, 1},
};

/* --- life --- */

static void *run_loop(void *arg)
{
    (void)arg;
    pl_loop_run(loop);
    return NULL;
}

static int start(void **state)
{
    struct pl_http_options o = {.listen = "127.0.0.1:0",
                                .routes = routes,
                                .n_routes = PL_ARRAY_SIZE(routes),
                                .guard = guard,
                                .guard_arg = &contexts_dropped};
    struct pl_err err = {0};

    (void)state;
    n_held = 0;
    push = NULL;
    closed_streams = contexts_dropped = 0;
    memset(&sink, 0, sizeof(sink));
    if (pl_loop_create(&loop, &err) < 0 || pl_pool_create("test", 4, 1024, &pool, &err) < 0)
        return -1;
    pthread_create(&loop_thread, NULL, run_loop, NULL);
    o.loop = loop;
    o.pool = pool;
    if (pl_http_server_start(&o, &server, &err) < 0) {
        print_error("%s\n", err.msg);
        return -1;
    }
    port = pl_http_server_port(server);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    pl_http_server_stop(server, FIXTURE_WAIT_MS);
    pool = pl_pool_destroy(pool);
    pl_loop_stop(loop);
    pthread_join(loop_thread, NULL);
    loop = pl_loop_destroy(loop);
    server = pl_http_server_destroy(server);
    return 0;
}

/* --- requests and answers --- */

struct exchange {
    const char *request;
    int status;
    const char *body; /* part of it; NULL = not looked at */
};

static void check(const struct exchange *table, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int fd = client_connect(port);
        struct answer a = client_ask(fd, table[i].request);

        if (a.status != table[i].status || (table[i].body && (!a.body || !strstr(a.body, table[i].body))))
            fail_msg("%s\n-> %d %s, wanted %d %s", table[i].request, a.status, a.body ? a.body : "(none)", table[i].status,
                     table[i].body ? table[i].body : "");
        answer_free(&a);
        close(fd);
    }
}

#define GET(target)                "GET " target " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(target, length, body) "POST " target " HTTP/1.1\r\nHost: x\r\nContent-Length: " #length "\r\n\r\n" body

static void test_requests_reach_their_handlers_decoded(void **state)
{
    static const struct exchange table[] = {
        {GET("/echo/1/of/2"), 200, "{\"a\":\"1\",\"b\":\"2\",\"q\":null"},
        {GET("/echo/a%2Fb/of/%C3%A9?q=x+y%2B&flag"), 200, "\"a\":\"a/b\",\"b\":\"\303\251\",\"q\":\"x y+\""},
        {GET("/echo/1/of/2?q=1&&q=%26&flag=0"), 200, "\"q\":\"1\",\"q2\":\"&\",\"cookie\":\"\",\"h\":null,\"flag\":false"},
        {GET("/echo/1/of/2?q"), 200, "\"q\":\"\""},
        {"GET /echo/1/of/2 HTTP/1.1\r\nHost: x\r\nCookie: a=b; session=s3; c=d\r\nX-THING:  v\r\n\r\n", 200,
         "\"cookie\":\"s3\",\"h\":\"v\""},
        {"GET /echo/1/of/2 HTTP/1.1\r\nHost: x\r\nCookie: session=0123456789012345678901234567890123456789\r\n\r\n", 200,
         "\"cookie\":\"\""},
        {GET("/tail/a/b%20c//d/"), 200, "a/b c//d/"},
        {GET("/tail/"), 200, ""},
        {GET("/%74ail/x"), 200, "x"},
        {GET("/loop"), 200, "loop"},
        {GET("/number"), 200, "100"},
        {GET("/number?limit=7"), 200, "7"},
        {GET("/number?limit=1001"), 400, "\"field\":\"limit\""},
        {GET("/number?limit=-1"), 400, "from 0 to 1000"},
        {POST("/bytes", 5, "hello"), 200, "hello"},
        {POST("/bytes", 0, ""), 200, ""},
        {"POST /bytes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: "
         "t\r\n\r\n",
         200, "abcde"},
        {POST("/json", 9, "{\"a\":[1]}"), 201, "{\"a\":[1]}"},
        {POST("/json", 0, ""), 201, "{}"},
        {POST("/json", 9, "{\"a\":1,}}"), 400, "line 1"},
        {POST("/json", 13, "{\"a\":1,\"a\":2}"), 400, "duplicate"},
        {"GET /loop HTTP/1.0\r\n\r\n", 200, "loop"},
    };

    (void)state;
    check(table, PL_ARRAY_SIZE(table));
}

static void test_what_cannot_be_answered_is_refused(void **state)
{
    static const struct exchange table[] = {
        {GET("/nothing"), 404, "\"code\":\"not_found\""},
        {GET("/tail"), 404, NULL},
        {GET("/echo//of/2"), 404, NULL},
        {GET("/loop/"), 404, NULL},
        {POST("/loop", 0, ""), 405, "GET, HEAD"},
        {GET("/echo/%zz/of/2"), 400, "percent"},
        {GET("/echo/%4/of/2"), 400, "percent"},
        {GET("/echo/%00/of/2"), 400, "percent"},
        {GET("/echo/%ff/of/2"), 400, "UTF-8"},
        {GET("/echo/1/of/2?q=%"), 400, "query"},
        {"GET http://x/loop HTTP/1.1\r\nHost: x\r\n\r\n", 400, "begins with /"},
        {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL},
        {"GET /loop HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", 413, NULL},
        {"GET /loop HTTP/1.1\r\n\r\n", 400, NULL},
        {"GET /loop HTTP/1.1\r\nHost: evil\r\n\r\n", 421, "wrong_host"},
        {POST("/secret", 0, ""), 401, "\"hint\":"},
        {"POST /secret HTTP/1.1\r\nHost: x\r\nAuthorization: y\r\nContent-Length: 1\r\n\r\nz", 200, "z"},
    };

    (void)state;
    check(table, PL_ARRAY_SIZE(table));
    UNTIL(contexts_dropped == 1);
}

/* The eleven shapes of shared lore that let a proxy and a server disagree about where a request ends. Each must be refused, and nothing
 * that follows on the connection may be taken for a request. */
static void test_no_request_is_smuggled(void **state)
{
    static const char *const shapes[] = {
        "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n0\r\n\r\n",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n0\r\n\r\n",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nX: 1\r\n\tContent-Length: 5\r\n\r\nhello",
        "POST /bytes HTTP/1.1\rHost: x\rContent-Length: 5\r\rhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nFoo\r\nContent-Length: 5\r\n\r\nhello",
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(shapes); i++) {
        int fd = client_connect(port);
        struct answer first, second;

        client_say(fd, shapes[i]);
        client_say(fd, GET("/loop"));
        shutdown(fd, SHUT_WR);
        first = client_read_answer(fd);
        second = client_read_answer(fd);
        print_message("shape %2zu: %d, then %d\n", i + 1, first.status, second.status);
        if (first.status != -1 && first.status != 400 && first.status != 413)
            fail_msg("shape %zu got %d\n%s", i + 1, first.status, shapes[i]);
        if (second.status != -1)
            fail_msg("after shape %zu the connection went on", i + 1);
        answer_free(&first);
        answer_free(&second);
        close(fd);
    }
}

static void test_headers_have_a_limit(void **state)
{
    int fd = client_connect(port);
    struct answer a;
    char line[1024];

    (void)state;
    memset(line, 'a', sizeof(line));
    memcpy(line, "X-Long: ", 8);
    memcpy(line + sizeof(line) - 2, "\r\n", 2);
    client_say(fd, "GET /loop HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 40 && client_send(fd, line, sizeof(line)); i++)
        ;
    a = client_read_answer(fd);
    assert_true(a.status == 431 || a.status == -1);
    answer_free(&a);
    close(fd);
}

static void test_a_connection_serves_many_requests(void **state)
{
    int fd = client_connect(port);

    (void)state;
    for (int i = 0; i < 50; i++) {
        static const char *const requests[] = {GET("/loop"), POST("/bytes", 3, "abc"), GET("/nothing"), POST("/loop", 3, "abc")};
        static const int statuses[] = {200, 200, 404, 405};
        struct answer a = client_ask(fd, requests[i % 4]);

        assert_int_equal(a.status, statuses[i % 4]);
        answer_free(&a);
    }
    close(fd);
}

static void test_a_refused_body_does_not_end_the_connection(void **state)
{
    static char body[2000];
    int fd = client_connect(port);
    struct answer a;

    (void)state;
    client_say(fd, "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n");
    client_send(fd, body, sizeof(body));
    a = client_read_answer(fd);
    assert_int_equal(a.status, 413);
    answer_free(&a);
    a = client_ask(fd, GET("/loop"));
    assert_int_equal(a.status, 200);
    answer_free(&a);
    close(fd);
}

static void test_pipelined_requests_are_answered_in_order(void **state)
{
    int fd = client_connect(port);

    (void)state;
    client_say(fd, GET("/tail/1") GET("/loop") GET("/tail/3") GET("/nothing") GET("/tail/5"));
    for (int i = 0; i < 5; i++) {
        static const char *const bodies[] = {"1", "loop", "3", "there is no", "5"};
        struct answer a = client_read_answer(fd);

        assert_non_null(strstr(a.body, bodies[i]));
        answer_free(&a);
    }
    close(fd);
}

static void test_head_has_the_headers_and_no_body(void **state)
{
    int fd = client_connect(port);
    struct answer a;
    char value[256];

    (void)state;
    client_say(fd, "HEAD /tail/abc HTTP/1.1\r\nHost: x\r\n\r\n");
    client_read_head(fd, &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Content-Length", value), "3");
    a = client_ask(fd, GET("/loop"));
    assert_string_equal(a.body, "loop");
    answer_free(&a);
    close(fd);
}

static void test_a_client_that_expects_100_is_told(void **state)
{
    int fd = client_connect(port);
    struct answer a;

    (void)state;
    client_say(fd, "PUT /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    client_read_head(fd, &a);
    assert_int_equal(a.status, 100);
    a = client_ask(fd, "ab");
    assert_string_equal(a.body, "ab");
    answer_free(&a);
    close(fd);

    fd = client_connect(port);
    a = client_ask(fd, "PUT /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n");
    assert_int_equal(a.status, 413); /* and not a byte of the body was asked for */
    answer_free(&a);
    close(fd);
}

/* --- late answers --- */

static void test_two_hundred_long_polls_are_answered_by_one_event(void **state)
{
    int fds[200];

    (void)state;
    for (int i = 0; i < 200; i++) {
        fds[i] = client_connect(port);
        client_say(fds[i], GET("/hold"));
    }
    UNTIL(n_held == 200);
    for (int i = 0; i < 200; i++)
        pl_http_reply(held[i], 200, "text/plain", "now", 3);
    for (int i = 0; i < 200; i++) {
        struct answer a = client_read_answer(fds[i]);

        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "now");
        answer_free(&a);
        close(fds[i]);
    }
}

static void test_a_client_that_vanishes_is_noticed_and_the_late_answer_goes_nowhere(void **state)
{
    int fd = client_connect(port);

    (void)state;
    client_say(fd, GET("/hold"));
    UNTIL(n_held == 1);
    assert_false(pl_http_request_gone(held[0]));
    close(fd);
    while (!pl_http_request_gone(held[0]))
        sched_yield();
    pl_http_reply(held[0], 200, "text/plain", "late", 4);
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

/* --- files --- */

static void test_a_file_is_served_in_whole_and_in_part(void **state)
{
    static const struct {
        const char *header;
        int status;
        size_t len;
        const char *range;
        char first;
    } table[] = {
        {"", 200, 80, NULL, '0'},
        {"Range: bytes=0-0\r\n", 206, 1, "bytes 0-0/80", '0'},
        {"Range: bytes=75-\r\n", 206, 5, "bytes 75-79/80", '5'},
        {"Range: bytes=-3\r\n", 206, 3, "bytes 77-79/80", '7'},
        {"Range: bytes=-300\r\n", 206, 80, "bytes 0-79/80", '0'},
        {"Range: bytes=12-999\r\n", 206, 68, "bytes 12-79/80", '2'},
        {"Range: bytes=80-\r\n", 416, 0, "bytes */80", 0},
        {"Range: bytes=-0\r\n", 416, 0, "bytes */80", 0},
        {"Range: bytes=1-2,5-6\r\n", 200, 80, NULL, '0'},
        {"Range: bytes=5-3\r\n", 200, 80, NULL, '0'},
        {"Range: lines=1-2\r\n", 200, 80, NULL, '0'},
        {"Range: bytes=1-2\r\nIf-Range: \"v1\"\r\n", 206, 2, "bytes 1-2/80", '1'},
        {"Range: bytes=1-2\r\nIf-Range: \"v0\"\r\n", 200, 80, NULL, '0'},
    };
    int fd = client_connect(port);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        char request[256], value[256];
        struct answer a;
        const char *range;

        snprintf(request, sizeof(request), "GET /file HTTP/1.1\r\nHost: x\r\n%s\r\n", table[i].header);
        a = client_ask(fd, request);
        if (a.status != table[i].status)
            fail_msg("%s: %d", table[i].header, a.status);
        assert_int_equal(a.len, table[i].len);
        range = answer_header(&a, "Content-Range", value);
        if (table[i].range)
            assert_string_equal(range, table[i].range);
        else
            assert_null(range);
        if (a.len)
            assert_int_equal(a.body[0], table[i].first);
        answer_free(&a);
    }
    close(fd);
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

static void test_pushed_bytes_arrive_at_once_and_a_full_queue_says_so(void **state)
{
    static char block[65536];
    int fd = client_connect(port), r;
    struct answer a;
    char text[16];
    int64_t begun;
    uint64_t sent = 0;
    struct pl_err err;

    (void)state;
    client_say(fd, GET("/push"));
    UNTIL(push);
    begun = pl_clock_mono_ms();
    client_read_head(fd, &a); /* without anything written */
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pl_http_stream_write(push, "hello\n", 6, NULL), 0);
        assert_true(client_read_exactly(fd, text, 11)); /* "6\r\nhello\n\r\n" */
        assert_memory_equal(text, "6\r\nhello\n\r\n", 11);
    }
    assert_true(pl_clock_mono_ms() - begun < 1000); /* Nagle and cork would take 40 or 200 ms each */
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

static void test_a_port_in_use_and_a_nonsense_address_are_named(void **state)
{
    struct pl_http_options o = {.routes = routes, .n_routes = 0, .pool = pool};
    struct pl_http_server *second;
    struct pl_err err = {0};
    char address[32];

    (void)state;
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    o.listen = address;
    assert_int_equal(pl_http_server_start(&o, &second, &err), PL_EINUSE);
    assert_non_null(strstr(err.msg, address));
    o.listen = "7380";
    assert_int_equal(pl_http_server_start(&o, &second, &err), PL_EINVAL);
    o.listen = "[::1]:0";
    if (pl_http_server_start(&o, &second, &err) == 0) /* machines without IPv6 exist */
        second = pl_http_server_destroy(second);
}

#define SERVED(f) cmocka_unit_test_setup_teardown(f, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(test_requests_reach_their_handlers_decoded),
        SERVED(test_what_cannot_be_answered_is_refused),
        SERVED(test_no_request_is_smuggled),
        SERVED(test_headers_have_a_limit),
        SERVED(test_a_connection_serves_many_requests),
        SERVED(test_a_refused_body_does_not_end_the_connection),
        SERVED(test_pipelined_requests_are_answered_in_order),
        SERVED(test_head_has_the_headers_and_no_body),
        SERVED(test_a_client_that_expects_100_is_told),
        SERVED(test_two_hundred_long_polls_are_answered_by_one_event),
        SERVED(test_a_client_that_vanishes_is_noticed_and_the_late_answer_goes_nowhere),
        SERVED(test_a_slow_sink_holds_back_the_client_and_memory_stays_bounded),
        SERVED(test_a_failing_sink_answers_before_the_upload_is_through),
        SERVED(test_a_refused_upload_is_cut_off_when_its_client_goes_on),
        SERVED(test_a_streamed_body_past_its_bound_fails),
        SERVED(test_a_client_that_vanishes_in_the_middle_of_its_body_ends_the_sink),
        SERVED(test_a_file_is_served_in_whole_and_in_part),
        SERVED(test_a_generated_body_arrives_whole),
        SERVED(test_a_generator_that_fails_leaves_a_recognisably_incomplete_body),
        SERVED(test_a_slow_reader_holds_back_the_generator),
        SERVED(test_pushed_bytes_arrive_at_once_and_a_full_queue_says_so),
        SERVED(test_a_reader_that_vanishes_ends_the_stream),
        SERVED(test_a_silent_stream_has_a_heartbeat),
        SERVED(test_stopping_waits_for_running_requests_and_refuses_new_ones),
        SERVED(test_stopping_at_once_cuts_everything_and_late_answers_are_allowed),
        SERVED(test_a_port_in_use_and_a_nonsense_address_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
