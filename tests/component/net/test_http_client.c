// link: pipelined/net/http_client pipelined/net/loop pipelined/net/server storage/base
/* The HTTP client against the server: bodies both ways, errors that keep their code, what is done when nobody answers. */
#include "pipelined/net/http_client/http_client.h"
#include "tests/support/fixtures/http_fixture.h"
#include "tests/support/fixtures/scripted_http_server.h"

#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include <fcntl.h>
#include <stdatomic.h>

static struct pl_http_client *client;
static struct pl_http_request *held;
static unsigned writes_left;

/* --- handlers --- */

static void on_echo(struct pl_http_request *r, void *arg)
{
    const struct pl_buf *body = pl_http_body(r);
    const char *type = pl_http_header(r, "Content-Type");

    (void)arg;
    pl_http_reply_header(r, "ETag", "\"e1\"");
    pl_http_reply(r, 200, type ? type : "none/none", body->data, body->len);
}

static void on_token(struct pl_http_request *r, void *arg)
{
    const char *token = pl_http_header(r, "Authorization"), *extra = pl_http_header(r, "X-Extra");

    (void)arg;
    pl_http_reply_json(r, 200,
                       json_pack("{s:s?, s:s?, s:b, s:s}", "token", token, "extra", extra, "expect",
                                 pl_http_header(r, "Expect") != NULL, "path", pl_http_param(r, "path")));
}

static void on_json(struct pl_http_request *r, void *arg)
{
    json_t *value;

    (void)arg;
    assert_int_equal(pl_http_body_json(r, &value, NULL), 0);
    pl_http_reply_json(r, 200, value);
}

static void on_error(struct pl_http_request *r, void *arg)
{
    struct pl_err err = {0};

    (void)arg;
    pl_err_set(&err, PL_ECONFLICT, "branch master moved");
    pl_err_field(&err, PL_ECONFLICT, "base");
    if (pl_http_query_flag(r, "hint"))
        pl_err_hint(&err, PL_ECONFLICT, "push again");
    pl_http_reply_error(r, &err);
}

static void on_status(struct pl_http_request *r, void *arg)
{
    uint64_t status;

    (void)arg;
    assert_int_equal(pl_http_query_u64(r, "is", 200, 599, &status, NULL), 0);
    pl_http_reply(r, (unsigned)status, "text/html", "<html>", 6);
}

static void on_hold(struct pl_http_request *r, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    held = r;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

struct counted {
    uint64_t bytes;
    struct pl_hasher hasher;
};

static int counted_write(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct counted *c = self;

    (void)err;
    c->bytes += n;
    pl_hasher_add(&c->hasher, data, n);
    return 0;
}

static void counted_end(void *self, struct pl_http_request *r, const struct pl_err *err)
{
    struct counted *c = self;
    char hex[PL_HASH_HEX + 1];
    struct pl_hash hash;

    pl_hasher_get(&c->hasher, &hash);
    if (err)
        pl_http_reply_error(r, err);
    else
        pl_http_reply_json(r, 200, json_pack("{s:I, s:s}", "bytes", (json_int_t)c->bytes, "sha256", pl_hash_hex(&hash, hex)));
    free(c);
}

static void on_count(struct pl_http_request *r, void *arg)
{
    struct counted *c = calloc(1, sizeof(*c));

    (void)arg;
    pl_hasher_init(&c->hasher);
    pl_http_body_to(r, &(struct pl_http_sink){c, counted_write, counted_end});
}

static void on_refuse_upload(struct pl_http_request *r, void *arg)
{
    struct pl_err err = {0};

    (void)arg;
    pl_err_set(&err, PL_ENOSPC, "the disk is full");
    pl_http_reply_error(r, &err);
}

static const struct pl_http_route routes[] = {
    {"POST", "/echo", PL_ON_POOL, PL_BODY_BYTES, 0, on_echo, NULL, 0},
    {"PUT", "/echo", PL_ON_POOL, PL_BODY_BYTES, 0, on_echo, NULL, 0},
    {"GET", "/token/{path...}", PL_ON_POOL, PL_BODY_NONE, 0, on_token, NULL, 0},
    {"POST", "/json", PL_ON_POOL, PL_BODY_JSON, 0, on_json, NULL, 0},
    {"GET", "/error", PL_ON_POOL, PL_BODY_NONE, 0, on_error, NULL, 0},
    {"GET", "/status", PL_ON_POOL, PL_BODY_NONE, 0, on_status, NULL, 0},
    {"GET", "/hold", PL_ON_LOOP, PL_BODY_NONE, 0, on_hold, NULL, 0},
    {"PUT", "/count", PL_ON_POOL, PL_BODY_STREAM, 0, on_count, NULL, 0},
    {"PUT", "/refuse", PL_ON_POOL, PL_BODY_STREAM, 0, on_refuse_upload, NULL, 0},
};

static int start(void **state)
{
    char url[64];

    (void)state;
    held = NULL;
    if (fixture_start((struct pl_http_options){.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)}) < 0)
        return -1;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
    return pl_http_client_create(url, "secret", &client, NULL);
}

static int stop(void **state)
{
    client = pl_http_client_destroy(client);
    return fixture_stop(state);
}

/* --- what goes through --- */

static void test_token_headers_and_path_arrive(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    _cleanup_free_ char *path = pl_http_path_make("/token/%s/%p?n=%u", "a/b c", "d/\303\251+?#", UINT64_MAX);
    const char *const headers[] = {"X-Extra: more", NULL};
    struct pl_http_call call = {.method = "GET", .path = path, .headers = headers, .out = &out};
    struct pl_http_answer answer;

    (void)state;
    assert_string_equal(path, "/token/a%2Fb%20c/d/%C3%A9%2B%3F%23?n=18446744073709551615");
    assert_int_equal(pl_http_client_call(client, &call, &answer, NULL), 0);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.content_type, "application/json");
    assert_string_equal(pl_buf_str(&out),
                        "{\"token\":\"Bearer secret\",\"extra\":\"more\",\"expect\":false,\"path\":\"a/b c/d/\303\251+?#\"}\n");
}

static void test_bodies_of_memory_go_both_ways(void **state)
{
    static const char *const methods[] = {"POST", "PUT"};
    static const size_t sizes[] = {0, 1, 1000, 1500000};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(methods) * PL_ARRAY_SIZE(sizes); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf out = {0};
        size_t n = sizes[i / 2];
        char *body = malloc(n + 1);
        struct pl_http_call call = {.method = methods[i % 2], .path = "/echo", .upload = PL_UPLOAD_BYTES, .len = n, .out = &out};
        struct pl_http_answer answer;

        memset(body, 'b', n + 1);
        call.bytes = body;
        call.content_type = "x/y";
        assert_int_equal(pl_http_client_call(client, &call, &answer, NULL), 0);
        assert_int_equal(out.len, n);
        if (n)
            assert_memory_equal(out.data, body, n);
        assert_string_equal(answer.content_type, "x/y");
        assert_string_equal(answer.etag, "\"e1\"");
        free(body);
    }
}

static void test_json_goes_both_ways(void **state)
{
    json_t *sent = json_pack("{s:[i,s]}", "a", 1, "\303\251"), *got;

    (void)state;
    assert_int_equal(pl_http_client_json(client, "POST", "/json", sent, &got, NULL), 0);
    assert_true(json_equal(sent, got));
    json_decref(sent);
    json_decref(got);
    assert_int_equal(pl_http_client_json(client, "POST", "/json", NULL, &got, NULL), 0); /* no body: Content-Length: 0 */
    assert_int_equal(json_object_size(got), 0);
    json_decref(got);
    assert_int_equal(pl_http_client_json(client, "GET", "/status?is=200", NULL, &got, NULL), PL_EPROTO);
}

static ssize_t read_zeros(void *self, void *out, size_t n, struct pl_err *err)
{
    uint64_t *left = self;

    if (*left == UINT64_MAX)
        return pl_err_set(err, PL_ECHANGED, "the file changed");
    n = PL_MIN(n, *left);
    memset(out, 0, n);
    *left -= n;
    return (ssize_t)n;
}

static void check_count(struct pl_http_call *call, const void *data, size_t n)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    char hex[PL_HASH_HEX + 1];
    struct pl_hash hash;

    call->method = "PUT";
    call->path = "/count";
    call->out = &out;
    assert_int_equal(pl_http_client_call(client, call, NULL, NULL), 0);
    pl_hash_sha256(data, n, &hash);
    assert_non_null(strstr(pl_buf_str(&out), pl_hash_hex(&hash, hex)));
}

static void test_large_bodies_are_streamed_from_file_and_reader(void **state)
{
    size_t n = 5000000;
    uint64_t left = n;
    char name[] = "/tmp/pl-test-XXXXXX", *zeros = calloc(1, n);
    int fd = mkostemp(name, O_CLOEXEC);

    (void)state;
    unlink(name);
    assert_int_equal(write(fd, "head", 4), 4);
    assert_int_equal(ftruncate(fd, (off_t)n + 100), 0);
    check_count(&(struct pl_http_call){.upload = PL_UPLOAD_FD, .fd = fd, .offset = 4, .len = n}, zeros, n);
    check_count(&(struct pl_http_call){.upload = PL_UPLOAD_READER, .read = read_zeros, .read_self = &left, .len = n}, zeros, n);
    left = n;
    check_count(&(struct pl_http_call){.upload = PL_UPLOAD_READER, .read = read_zeros, .read_self = &left, .len = UINT64_MAX},
                zeros, n);
    close(fd);
    free(zeros);
}

static void test_a_reader_that_gives_up_ends_the_call_with_its_error(void **state)
{
    uint64_t left = UINT64_MAX;
    struct pl_http_call call = {
        .method = "PUT", .path = "/count", .upload = PL_UPLOAD_READER, .read = read_zeros, .read_self = &left, .len = 1000};
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_http_client_call(client, &call, NULL, &err), PL_ECHANGED);
    assert_string_equal(err.msg, "the file changed");
}

static int take_some(void *self, const void *data, size_t n, struct pl_err *err)
{
    (void)self;
    (void)data;
    (void)n;
    return writes_left-- ? 0 : pl_err_set(err, PL_ENOSPC, "no room for the answer");
}

static void test_an_answer_is_bounded_and_its_taker_may_stop_it(void **state)
{
    static char body[300000];
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = 1000};
    struct pl_http_call call = {
        .method = "POST", .path = "/echo", .upload = PL_UPLOAD_BYTES, .bytes = body, .len = sizeof(body), .out = &out};
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_http_client_call(client, &call, NULL, NULL), PL_ETOOBIG);
    writes_left = 1;
    call.write = take_some;
    assert_int_equal(pl_http_client_call(client, &call, NULL, &err), PL_ENOSPC);
    assert_string_equal(err.msg, "no room for the answer");
}

/* --- errors --- */

static void test_errors_keep_code_message_field_and_hint(void **state)
{
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_http_client_get(client, "/error?hint=1", NULL, &err), PL_ECONFLICT);
    assert_string_equal(err.msg, "branch master moved");
    assert_string_equal(err.field, "base");
    assert_string_equal(err.hint, "push again");
    memset(&err, 0, sizeof(err));
    assert_int_equal(pl_http_client_get(client, "/error", NULL, &err), PL_ECONFLICT);
    assert_string_equal(err.hint, ""); /* the general remedy is known here too */
    assert_int_equal(pl_http_client_get(client, "/nowhere", NULL, &err), PL_ENOTFOUND);
}

static void test_an_answer_that_is_not_ours_becomes_the_nearest_error(void **state)
{
    static const struct {
        unsigned status;
        int code;
    } table[] = {{400, PL_EINVAL}, {401, PL_EAUTH}, {404, PL_ENOTFOUND}, {413, PL_ETOOBIG},
                 {418, PL_EPROTO}, {502, PL_ENET},  {503, PL_ENET},      {599, PL_EINTERNAL}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        char path[32];
        struct pl_err err = {0};

        snprintf(path, sizeof(path), "/status?is=%u", table[i].status);
        assert_int_equal(pl_http_client_get(client, path, NULL, &err), table[i].code);
        assert_non_null(strstr(err.msg, path));
    }
}

static void test_nobody_there_is_said_plainly(void **state)
{
    struct pl_http_client *lonely;
    struct pl_err err = {0};
    int unused = client_connect(port); /* only to find a port: its own is not listened on */
    struct sockaddr_in self;
    socklen_t len = sizeof(self);
    char url[64], wanted[128];

    (void)state;
    assert_int_equal(getsockname(unused, (struct sockaddr *)&self, &len), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(self.sin_port));
    snprintf(wanted, sizeof(wanted), "no server at %s: start pipelined, or set --server", url);
    assert_int_equal(pl_http_client_create(url, NULL, &lonely, NULL), 0);
    assert_int_equal(pl_http_client_get(lonely, "/", NULL, &err), PL_ENET);
    assert_string_equal(err.msg, wanted);
    pl_http_client_set_remedy(lonely, "check worker_url");
    assert_int_equal(pl_http_client_get(lonely, "/", NULL, &err), PL_ENET);
    assert_non_null(strstr(err.msg, ": check worker_url"));
    assert_null(strstr(err.msg, "--server"));
    lonely = pl_http_client_destroy(lonely);
    assert_int_equal(pl_http_client_create("127.0.0.1:7380", NULL, &lonely, &err), PL_EINVAL);
    assert_non_null(strstr(err.msg, "http://HOST:PORT"));
    close(unused);
}

/* a label of 64 bytes: refused without a request */
#define NO_NAME "http://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid:7380"

static void test_a_name_that_cannot_be_resolved_is_not_a_daemon_to_start(void **state)
{
    struct pl_http_client *lost;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_http_client_create(NO_NAME, NULL, &lost, NULL), 0);
    assert_int_equal(pl_http_client_get(lost, "/", NULL, &err), PL_ENET);
    assert_string_equal(err.msg, "no server at " NO_NAME ": its name cannot be resolved: check the address in --server, "
                                 "PIPELINED_URL or the login context, and this machine's DNS");
    pl_http_client_destroy(lost);
}

static void test_a_refusal_in_the_middle_of_an_upload_is_what_is_reported(void **state)
{
    uint64_t left;
    struct pl_http_call call = {.method = "PUT",
                                .path = "/refuse",
                                .upload = PL_UPLOAD_READER,
                                .read = read_zeros,
                                .read_self = &left,
                                .len = UINT64_C(1) << 36};

    (void)state;
    for (int i = 0; i < 10; i++) {
        struct pl_err err = {0};

        left = call.len;
        assert_int_equal(pl_http_client_call(client, &call, NULL, &err), PL_ENOSPC);
        assert_string_equal(err.msg, "the disk is full");
        assert_true(left > call.len / 2);
    }
}

/* --- waiting --- */

static void test_a_call_has_a_timeout(void **state)
{
    struct pl_http_call call = {.method = "GET", .path = "/hold", .timeout_ms = 2000};

    (void)state;
    assert_int_equal(pl_http_client_call(client, &call, NULL, NULL), PL_ETIMEOUT);
    UNTIL(held);
    pl_http_reply(held, 200, "text/plain", "", 0);
}

static void *cancel_when_held(void *arg)
{
    UNTIL(held);
    atomic_store((atomic_bool *)arg, true);
    return NULL;
}

static void test_a_call_can_be_given_up_from_another_thread(void **state)
{
    atomic_bool cancel = false;
    struct pl_http_call call = {.method = "GET", .path = "/hold", .cancel = &cancel};
    pthread_t canceller;

    (void)state;
    pthread_create(&canceller, NULL, cancel_when_held, &cancel);
    assert_int_equal(pl_http_client_call(client, &call, NULL, NULL), PL_ECANCELED);
    pthread_join(canceller, NULL);
    pl_http_reply(held, 200, "text/plain", "", 0);
}

static _Atomic int64_t interrupted_ms;

static void *interrupt_when_held(void *arg)
{
    (void)arg;
    UNTIL(held);
    atomic_store(&interrupted_ms, pl_clock_mono_ms());
    pl_http_client_interrupt(client);
    return NULL;
}

static void test_an_interrupt_ends_at_once_what_may_be_interrupted(void **state)
{
    struct pl_http_call call = {.method = "GET", .path = "/hold", .interruptible = true};
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    pthread_t interrupter;
    unsigned quick = 0;

    (void)state;
    for (int i = 0; i < 5; i++) {
        held = NULL;
        pthread_create(&interrupter, NULL, interrupt_when_held, NULL);
        assert_int_equal(pl_http_client_call(client, &call, NULL, NULL), PL_ECANCELED);
        quick += pl_clock_mono_ms() - atomic_load(&interrupted_ms) < 100; /* a call looks by itself once a second */
        pthread_join(interrupter, NULL);
        pl_http_reply(held, 200, "text/plain", "", 0);
    }
    assert_true(quick > 0);
    pl_http_client_interrupt(client); /* of no call */
    assert_int_equal(pl_http_client_get(client, "/token/x", &out, NULL), 0);
}

static void test_an_interrupt_leaves_other_calls_alone(void **state)
{
    struct pl_http_call call = {.method = "GET", .path = "/hold", .timeout_ms = 2000};
    pthread_t interrupter;

    (void)state;
    pthread_create(&interrupter, NULL, interrupt_when_held, NULL);
    assert_int_equal(pl_http_client_call(client, &call, NULL, NULL), PL_ETIMEOUT);
    pthread_join(interrupter, NULL);
    pl_http_reply(held, 200, "text/plain", "", 0);
}

static void *call_often(void *arg)
{
    for (int i = 0; i < 50; i++) {
        _cleanup_(pl_buf_finish) struct pl_buf out = {0};

        if (pl_http_client_get(client, "/token/x", &out, NULL) < 0 || out.len == 0)
            atomic_fetch_add((atomic_uint *)arg, 1);
    }
    return NULL;
}

static void test_many_threads_share_few_connections(void **state)
{
    pthread_t threads[8];
    atomic_uint failed = 0;
    struct pl_http_stats stats;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++)
        pthread_create(&threads[i], NULL, call_often, &failed);
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failed, 0);
    pl_http_server_get_stats(server, &stats);
    assert_int_equal(stats.requests, 8 * 50);
    assert_true(stats.connections <= 8);
}

/* --- what goes over the wire --- */

static void test_the_request_as_it_is_sent(void **state)
{
    static const char *const headers[] = {"X-More: 1", NULL};
    struct peer p = {.connections = {{.says = {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}}}};
    struct pl_http_call call = {.method = "PUT",
                                .path = "/a/b?c=d",
                                .headers = headers,
                                .content_type = "text/plain",
                                .upload = PL_UPLOAD_BYTES,
                                .bytes = "body",
                                .len = 4};
    struct pl_http_client *c;
    char expected[512];

    (void)state;
    peer_start(&p, 1);
    c = client_of(&p, "/base/");
    assert_int_equal(pl_http_client_call(c, &call, NULL, NULL), 0);
    pl_http_client_destroy(c);
    snprintf(expected, sizeof expected,
             "PUT /base/a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: pipelined/1\r\nAccept: */*\r\n"
             "Authorization: Bearer secret\r\nContent-Type: text/plain\r\nX-More: 1\r\nContent-Length: 4\r\n\r\nbody",
             p.port);
    assert_string_equal(p.heard, expected);
    peer_stop(&p);
}

static void test_an_answer_that_is_none_is_an_unreachable_server(void **state)
{
    static const struct {
        const char *answer, *said;
    } rows[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ""},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", ""},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ""},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ""},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", ""},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct script s = {.says = {rows[i].answer}};
        struct pl_buf out = {0};
        struct pl_err err = {0};

        if (get_from(&s, &out, &err) != PL_ENET || !strstr(err.msg, rows[i].said) || !strstr(err.msg, "GET /x at http://127"))
            fail_msg("%s: %s", rows[i].answer, err.msg);
        pl_buf_finish(&out);
    }
}

static void test_a_connection_is_used_again(void **state)
{
    struct peer p = {
        .connections = {{.says = {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1",
                                  "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n2\r\n0\r\n\r\n",
                                  "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n4"}}}};
    struct pl_http_client *c;
    struct pl_buf out = {0};

    (void)state;
    peer_start(&p, 1);
    c = client_of(&p, "");
    assert_int_equal(pl_http_client_get(c, "/1", &out, NULL), 0);
    assert_int_equal(pl_http_client_get(c, "/2", &out, NULL), PL_ENOTFOUND);
    assert_int_equal(pl_http_client_json(c, "DELETE", "/3", NULL, NULL, NULL), 0);
    assert_int_equal(pl_http_client_get(c, "/4", &out, NULL), 0);
    assert_string_equal(pl_buf_str(&out), "14");
    assert_int_equal(p.accepted, 1);
    pl_http_client_destroy(c);
    pl_buf_finish(&out);
    peer_stop(&p);
}

/* Between two calls the server closed the kept connection: the second call begins anew, with its whole body. */
static void test_a_kept_connection_that_died_is_replaced(void **state)
{
    struct peer p = {.connections = {{.says = {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"}},
                                     {.says = {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2"}, .want = 200000}}};
    char *body = calloc(1, 200000);
    struct pl_buf out = {0};
    struct pl_http_call call = {
        .method = "POST", .path = "/2", .upload = PL_UPLOAD_BYTES, .bytes = body, .len = 200000, .out = &out};
    struct pl_http_client *c;
    struct pl_err err = {0};

    (void)state;
    peer_start(&p, 2);
    c = client_of(&p, "");
    assert_int_equal(pl_http_client_get(c, "/1", &out, NULL), 0);
    if (pl_http_client_call(c, &call, NULL, &err) != 0)
        fail_msg("%s", err.msg);
    assert_string_equal(pl_buf_str(&out), "12");
    assert_int_equal(p.accepted, 2);
    pl_http_client_destroy(c);
    pl_buf_finish(&out);
    free(body);
    peer_stop(&p);
}

static ssize_t give_letters(void *left, void *out, size_t n, struct pl_err *err)
{
    size_t *k = left;

    (void)err;
    n = PL_MIN(PL_MIN(n, 3), *k);
    memset(out, 'a', n);
    *k -= n;
    return (ssize_t)n;
}

static void test_a_body_of_unknown_length_goes_in_chunks(void **state)
{
    struct peer p = {.connections = {{.says = {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, .until = "\r\n0\r\n\r\n"}}};
    size_t letters = 8;
    struct pl_http_call call = {.method = "POST",
                                .path = "/",
                                .upload = PL_UPLOAD_READER,
                                .len = UINT64_MAX,
                                .read = give_letters,
                                .read_self = &letters};
    struct pl_http_client *c;

    (void)state;
    peer_start(&p, 1);
    c = client_of(&p, "");
    assert_int_equal(pl_http_client_call(c, &call, NULL, NULL), 0);
    pl_http_client_destroy(c);
    assert_non_null(strstr(p.heard, "Transfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(p.heard, "\r\n\r\n3\r\naaa\r\n3\r\naaa\r\n2\r\naa\r\n0\r\n\r\n"));
    peer_stop(&p);
}

static void test_a_reader_that_has_less_than_it_said(void **state)
{
    struct peer p = {.connections = {{.says = {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, .want = 1000000}}};
    size_t letters = 8;
    struct pl_http_call call = {
        .method = "POST", .path = "/", .upload = PL_UPLOAD_READER, .len = 10, .read = give_letters, .read_self = &letters};
    struct pl_http_client *c;
    struct pl_err err = {0};

    (void)state;
    peer_start(&p, 1);
    c = client_of(&p, "");
    assert_int_equal(pl_http_client_call(c, &call, NULL, &err), PL_EIO);
    assert_non_null(strstr(err.msg, "8 of 10"));
    pl_http_client_destroy(c);
    peer_stop(&p);
}

/* The server refuses while the body is still coming, and closes: its refusal is what the caller hears. */
static void test_an_early_refusal_is_heard(void **state)
{
    static const char refusal[] = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 58\r\n\r\n"
                                  "{\"error\":{\"code\":\"unauthorized\",\"message\":\"not this one\"}}";
    struct peer p = {.connections = {{.says = {refusal}, .lingers = true}}};
    size_t big = 32u << 20;
    char *body = calloc(1, big);
    struct pl_http_call call = {.method = "PUT", .path = "/", .upload = PL_UPLOAD_BYTES, .bytes = body, .len = big};
    struct pl_http_client *c;
    struct pl_err err = {0};

    (void)state;
    peer_start(&p, 1);
    c = client_of(&p, "");
    assert_int_equal(pl_http_client_call(c, &call, NULL, &err), PL_EAUTH);
    assert_string_equal(err.msg, "not this one");
    pl_http_client_destroy(c);
    peer_stop(&p);
    free(body);
}

static void test_the_answer_to_a_head_has_no_body(void **state)
{
    struct peer p = {.connections = {{.says = {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"e\"\r\n\r\n",
                                               "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2"}}}};
    struct pl_http_call call = {.method = "HEAD", .path = "/"};
    struct pl_http_answer answer;
    struct pl_http_client *c;
    struct pl_buf out = {0};

    (void)state;
    peer_start(&p, 1);
    c = client_of(&p, "");
    assert_int_equal(pl_http_client_call(c, &call, &answer, NULL), 0);
    assert_string_equal(answer.etag, "\"e\"");
    assert_int_equal(pl_http_client_get(c, "/2", &out, NULL), 0);
    assert_int_equal(p.accepted, 1);
    pl_http_client_destroy(c);
    pl_buf_finish(&out);
    peer_stop(&p);
}

static void test_a_unix_socket(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct peer p = {.connections = {{.says = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}}}, .n = 1};
    struct pl_http_client *c = NULL;
    struct pl_buf out = {0};
    char url[128];

    (void)state;
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/pl-test-wire-%d", (int)getpid());
    p.heard = calloc(1, HEARD_MAX);
    p.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(bind(p.listener, (struct sockaddr *)&at, sizeof at), errno);
    assert_return_code(listen(p.listener, 8), errno);
    pthread_create(&p.thread, NULL, serve, &p);
    snprintf(url, sizeof url, "unix:%s", at.sun_path);
    assert_int_equal(pl_http_client_create(url, NULL, &c, NULL), 0);
    assert_int_equal(pl_http_client_get(c, "/", &out, NULL), 0);
    assert_string_equal(pl_buf_str(&out), "ok");
    pl_http_client_destroy(c);
    peer_stop(&p);
    unlink(at.sun_path);
    pl_buf_finish(&out);
}

static void test_addresses(void **state)
{
    static const struct {
        const char *url;
        int code; /* of a call: nobody listens on port 1 */
    } rows[] = {{"http://127.0.0.1:1", PL_ENET},     {"http://127.0.0.1:1/", PL_ENET}, {"http://localhost:1/base", PL_ENET},
                {"http://[::1]:1", PL_ENET},         {"https://127.0.0.1:1", PL_ENET}, {"http://user:word@127.0.0.1:1", PL_ENET},
                {"http://nowhere.invalid", PL_ENET}, {"unix:/nowhere/socket", PL_ENET}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_http_client *c = NULL;
        struct pl_err err = {0};

        if (pl_http_client_create(rows[i].url, NULL, &c, &err) < 0)
            fail_msg("%s: %s", rows[i].url, err.msg);
        assert_int_equal(pl_http_client_json(c, "GET", "/", NULL, NULL, &err), rows[i].code);
        assert_non_null(strstr(err.msg, rows[i].url));
        pl_http_client_destroy(c);
    }
    assert_int_equal(pl_http_client_create("ftp://x", NULL, &(struct pl_http_client *){0}, NULL), PL_EINVAL);
    assert_int_equal(pl_http_client_create("localhost:7380", NULL, &(struct pl_http_client *){0}, NULL), PL_EINVAL);
}

static void test_no_proxy_is_asked_for_what_is_on_this_machine(void **state)
{
    struct script s = {.says = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}};
    struct pl_buf out = {0};
    struct pl_http_client *c;
    struct pl_err err = {0};

    (void)state;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    assert_int_equal(get_from(&s, &out, &err), 0);
    assert_string_equal(pl_buf_str(&out), "ok");
    assert_int_equal(pl_http_client_create("http://elsewhere.invalid", NULL, &c, NULL), 0);
    assert_int_equal(pl_http_client_get(c, "/", &out, &err), PL_ENET); /* of the proxy, which is not there */
    assert_non_null(strstr(err.msg, "no server at http://elsewhere.invalid"));
    pl_http_client_destroy(c);
    unsetenv("http_proxy");
    pl_buf_finish(&out);
}

#define SERVED(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(test_token_headers_and_path_arrive),
        SERVED(test_bodies_of_memory_go_both_ways),
        SERVED(test_json_goes_both_ways),
        SERVED(test_large_bodies_are_streamed_from_file_and_reader),
        SERVED(test_a_reader_that_gives_up_ends_the_call_with_its_error),
        SERVED(test_an_answer_is_bounded_and_its_taker_may_stop_it),
        SERVED(test_errors_keep_code_message_field_and_hint),
        SERVED(test_an_answer_that_is_not_ours_becomes_the_nearest_error),
        SERVED(test_nobody_there_is_said_plainly),
        SERVED(test_a_name_that_cannot_be_resolved_is_not_a_daemon_to_start),
        SERVED(test_a_refusal_in_the_middle_of_an_upload_is_what_is_reported),
        SERVED(test_a_call_has_a_timeout),
        SERVED(test_a_call_can_be_given_up_from_another_thread),
        SERVED(test_an_interrupt_ends_at_once_what_may_be_interrupted),
        SERVED(test_an_interrupt_leaves_other_calls_alone),
        SERVED(test_many_threads_share_few_connections),
        cmocka_unit_test(test_the_request_as_it_is_sent),
        cmocka_unit_test(test_an_answer_that_is_none_is_an_unreachable_server),
        cmocka_unit_test(test_a_connection_is_used_again),
        cmocka_unit_test(test_a_kept_connection_that_died_is_replaced),
        cmocka_unit_test(test_a_body_of_unknown_length_goes_in_chunks),
        cmocka_unit_test(test_a_reader_that_has_less_than_it_said),
        cmocka_unit_test(test_an_early_refusal_is_heard),
        cmocka_unit_test(test_the_answer_to_a_head_has_no_body),
        cmocka_unit_test(test_a_unix_socket),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_no_proxy_is_asked_for_what_is_on_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
