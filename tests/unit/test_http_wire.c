// link: pl_net
/* The client against a server that says exactly what the test wants, byte by byte, and hangs up where it likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/net/http_client.h"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONNECTIONS_MAX 4
#define HEARD_MAX       (1u << 20)

/* What one connection hears and says: it answers each "\r\n\r\n" it reads with the next of `says`, then hangs up. */
struct script {
    const char *says[4];
    bool bytewise;     /* one byte a segment */
    size_t want;       /* hears at least so many bytes before it answers (0: one head), */
    const char *until; /* or up to this */
};

struct peer {
    int listener;
    unsigned port;
    struct script connections[CONNECTIONS_MAX];
    size_t n;
    char *heard;
    size_t heard_len;
    unsigned accepted;
    pthread_t thread;
};

static void say(int fd, const struct script *s, const char *text)
{
    size_t n = strlen(text), piece = s->bytewise ? 1 : n;

    for (size_t at = 0; at < n; at += piece)
        if (send(fd, text + at, PL_MIN(piece, n - at), MSG_NOSIGNAL) < 0)
            return;
}

static bool hear(struct peer *p, int fd, const struct script *s)
{
    size_t start = p->heard_len;

    for (;;) {
        ssize_t n = recv(fd, p->heard + p->heard_len, HEARD_MAX - p->heard_len - 1, 0);

        if (n <= 0)
            return false;
        p->heard_len += (size_t)n;
        p->heard[p->heard_len] = '\0';
        if (s->want ? p->heard_len - start >= s->want : strstr(p->heard + start, s->until ? s->until : "\r\n\r\n") != NULL)
            return true;
    }
}

static void *serve(void *arg)
{
    struct peer *p = arg;

    for (size_t i = 0; i < p->n; i++) {
        const struct script *s = &p->connections[i];
        int fd = accept(p->listener, NULL, NULL);

        if (fd < 0)
            break;
        p->accepted++;
        for (size_t k = 0; k < PL_ARRAY_SIZE(s->says) && s->says[k]; k++) {
            if (!hear(p, fd, s))
                break;
            say(fd, s, s->says[k]);
        }
        close(fd);
    }
    return NULL;
}

static void peer_start(struct peer *p, size_t n)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;

    p->n = n;
    p->heard = calloc(1, HEARD_MAX);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(bind(p->listener, (struct sockaddr *)&at, sizeof at), errno);
    assert_return_code(listen(p->listener, 8), errno);
    getsockname(p->listener, (struct sockaddr *)&at, &len);
    p->port = ntohs(at.sin_port);
    pthread_create(&p->thread, NULL, serve, p);
}

static void peer_stop(struct peer *p)
{
    shutdown(p->listener, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->listener);
    free(p->heard);
}

static struct pl_http_client *client_of(const struct peer *p, const char *path)
{
    struct pl_http_client *c = NULL;
    char url[128];

    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", p->port, path);
    assert_int_equal(pl_http_client_create(url, "secret", &c, NULL), 0);
    return c;
}

/* One GET of /x against one connection with this script. */
static int get_from(const struct script *s, struct pl_buf *out, struct pl_err *err)
{
    struct peer p = {.connections = {*s}};
    struct pl_http_client *c;
    int r;

    peer_start(&p, 1);
    c = client_of(&p, "");
    r = pl_http_client_get(c, "/x", out, err);
    pl_http_client_destroy(c);
    peer_stop(&p);
    return r;
}

#define LONG_HEADER                                                                                                              \
    "X: 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"  \
    "89\r\n"

static void test_every_way_to_frame_an_answer(void **state)
{
    static const struct {
        const char *answer, *body;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"},
        {"HTTP/1.1 200\r\ncontent-length:5\r\n\r\nhello", "hello"},
        {"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", "hello"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", "hello"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n", "hello"},
        {"HTTP/1.1 200 OK\r\n\r\nhello", "hello"},
        {"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nhello", "hello"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"},
        {"HTTP/1.1 200 OK\r\n" LONG_HEADER LONG_HEADER LONG_HEADER "Content-Length: 5\r\n\r\nhello", "hello"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        for (int bytewise = 0; bytewise < 2; bytewise++) {
            struct script s = {.says = {rows[i].answer}, .bytewise = bytewise};
            struct pl_buf out = {0};
            struct pl_err err = {0};

            if (get_from(&s, &out, &err) != 0)
                fail_msg("%s: %s", rows[i].answer, err.msg);
            assert_string_equal(pl_buf_str(&out), rows[i].body);
            pl_buf_finish(&out);
        }
    }
}

static void test_answers_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *answer, *said;
    } rows[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"},
        {"HTTP/2 200\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "broke off"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "broke off"},
        {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "no number"},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no number"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "no number"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no number"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "broke off"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "broke off"},
        {"", "without an answer"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct script s = {.says = {rows[i].answer}};
        struct pl_buf out = {0};
        struct pl_err err = {0};

        assert_int_equal(get_from(&s, &out, &err), PL_ENET);
        if (!strstr(err.msg, rows[i].said))
            fail_msg("%s: %s", rows[i].answer, err.msg);
        pl_buf_finish(&out);
    }
}

static void test_a_head_is_bounded(void **state)
{
    struct pl_buf answer = {0}, out = {0};
    struct script s = {0};
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_buf_add_str(&answer, "HTTP/1.1 200 OK\r\n", NULL), 0);
    while (answer.len < 100000)
        assert_int_equal(pl_buf_add_str(&answer, LONG_HEADER, NULL), 0);
    s.says[0] = pl_buf_str(&answer);
    assert_int_equal(get_from(&s, &out, &err), PL_ENET);
    assert_non_null(strstr(err.msg, "too large"));
    pl_buf_finish(&answer);
    pl_buf_finish(&out);
}

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
             "Authorization: Bearer secret\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nX-More: 1\r\n\r\nbody",
             p.port);
    assert_string_equal(p.heard, expected);
    peer_stop(&p);
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

static void test_a_connection_that_is_to_be_closed_is_not_used_again(void **state)
{
    static const char *const closing[] = {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1",
                                          "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n1",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1extra"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(closing); i++) {
        struct peer p = {.connections = {{.says = {closing[i]}}, {.says = {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2"}}}};
        struct pl_http_client *c;
        struct pl_buf out = {0};

        peer_start(&p, 2);
        c = client_of(&p, "");
        assert_int_equal(pl_http_client_get(c, "/1", &out, NULL), 0);
        assert_int_equal(pl_http_client_get(c, "/2", &out, NULL), 0);
        assert_string_equal(pl_buf_str(&out), "12");
        pl_http_client_destroy(c);
        pl_buf_finish(&out);
        peer_stop(&p);
    }
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
    struct peer p = {.connections = {{.says = {refusal}}}};
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
    } rows[] = {{"http://127.0.0.1:1", PL_ENET},    {"http://127.0.0.1:1/", PL_ENET}, {"http://localhost:1/base", PL_ENET},
                {"http://[::1]:1", PL_ENET},        {"https://127.0.0.1:1", PL_ENET}, {"http://user:word@127.0.0.1:1", PL_ENET},
                {"http://nowhere.invalid", PL_ENET}};

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_frame_an_answer),
        cmocka_unit_test(test_answers_that_are_none_are_refused),
        cmocka_unit_test(test_a_head_is_bounded),
        cmocka_unit_test(test_the_request_as_it_is_sent),
        cmocka_unit_test(test_a_connection_is_used_again),
        cmocka_unit_test(test_a_connection_that_is_to_be_closed_is_not_used_again),
        cmocka_unit_test(test_a_kept_connection_that_died_is_replaced),
        cmocka_unit_test(test_a_body_of_unknown_length_goes_in_chunks),
        cmocka_unit_test(test_a_reader_that_has_less_than_it_said),
        cmocka_unit_test(test_an_early_refusal_is_heard),
        cmocka_unit_test(test_the_answer_to_a_head_has_no_body),
        cmocka_unit_test(test_a_unix_socket),
        cmocka_unit_test(test_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
