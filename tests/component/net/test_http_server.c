// link: pipelined/net/loop pipelined/net/server storage/base
/* The HTTP server: what is answered by whom, and what is refused. Bodies and answers that stream, and stopping: test_http_stream.c. */
#include "tests/support/fixtures/http_fixture.h"

#include <fcntl.h>
#include <stdatomic.h>

#define HELD_MAX   256
#define BODIES_MAX ((size_t)1 << 20)
#define LARGE      900000 /* bytes: one fits, two do not */
static struct pl_http_request *held[HELD_MAX];
static size_t n_held;
static unsigned contexts_dropped;

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
    {"GET", "/file", PL_ON_POOL, PL_BODY_NONE, 0, on_file, NULL, 0},
    {"POST", "/secret", PL_ON_POOL, PL_BODY_BYTES, 0, on_bytes, NULL, 1},
};

static int start(void **state)
{
    (void)state;
    n_held = 0;
    contexts_dropped = 0;
    return fixture_start((struct pl_http_options){.routes = routes,
                                                  .n_routes = PL_ARRAY_SIZE(routes),
                                                  .guard = guard,
                                                  .guard_arg = &contexts_dropped,
                                                  .bodies_max = BODIES_MAX});
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
        "POST /bytes HTTP/1.1\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\nContent-Length: 5\r\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\n\r\nhello",
        "POST /bytes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\nhello",
        "POST /bytes HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello",
        "POST /bytes HTTP/1.1\r\nX: a\rb\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "GET /loop HTTP/1.1\r\nHost: x\r\n\n",
        "GET /loop HTTP/1.1\nHost: x\n\n",
        "GET /loop HTTP/1.0\n\r\n",
        "GET /loop HTTP/1.0\r\n\n",
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

/* A large JSON body, which says nothing; its status. */
static int ask_large(void)
{
    static char body[LARGE];
    int fd = client_connect(port), status;
    struct answer a;

    memset(body, ' ', sizeof body);
    memcpy(body, "{}", 2);
    client_say(fd, "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n");
    client_send(fd, body, sizeof body);
    a = client_read_answer(fd);
    status = a.status;
    answer_free(&a);
    close(fd);
    return status;
}

static void test_bodies_in_memory_have_a_bound_together_and_small_ones_pass(void **state)
{
    static char body[LARGE - 1];
    int fd = client_connect(port), status;
    struct answer a;

    (void)state;
    assert_int_equal(ask_large(), 201);
    client_say(fd, "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n");
    client_send(fd, body, sizeof body); /* all but its last byte */
    while ((status = ask_large()) == 201)
        ; /* what was sent has yet to arrive */
    assert_int_equal(status, 503);
    check((const struct exchange[]){{POST("/json", 2, "{}"), 201, "{}"}}, 1);
    client_send(fd, "", 1);
    a = client_read_answer(fd);
    assert_true(a.status == 400 || a.status == 503); /* it is no JSON; unless another was ahead of its bytes */
    answer_free(&a);
    close(fd);
    while ((status = ask_large()) == 503)
        ; /* the connection has yet to be tidied up */
    assert_int_equal(status, 201);
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

#define SERVED(f) cmocka_unit_test_setup_teardown(f, start, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(test_requests_reach_their_handlers_decoded),
        SERVED(test_what_cannot_be_answered_is_refused),
        SERVED(test_no_request_is_smuggled),
        SERVED(test_headers_have_a_limit),
        SERVED(test_a_connection_serves_many_requests),
        SERVED(test_a_refused_body_does_not_end_the_connection),
        SERVED(test_bodies_in_memory_have_a_bound_together_and_small_ones_pass),
        SERVED(test_pipelined_requests_are_answered_in_order),
        SERVED(test_head_has_the_headers_and_no_body),
        SERVED(test_a_client_that_expects_100_is_told),
        SERVED(test_two_hundred_long_polls_are_answered_by_one_event),
        SERVED(test_a_client_that_vanishes_is_noticed_and_the_late_answer_goes_nowhere),
        SERVED(test_a_file_is_served_in_whole_and_in_part),
        SERVED(test_a_port_in_use_and_a_nonsense_address_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
