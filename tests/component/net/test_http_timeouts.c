// link: pipelined/net/loop pipelined/net/server storage/base
/* Connections that do not get to the point: silent ones, half a handshake, headers and refused bodies by the byte, plain HTTP on a port of
 * TLS, one address that takes all there is. Each ends within its time, and the server serves others meanwhile. */
#define FIXTURE_WAIT_MS 10000 /* well below libmicrohttpd's own patience */
#include "tests/support/fixtures/http_fixture.h"

#include "pipelined/net/server/tls.h"
#include "storage/base/clock.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define GREETING_MS 1500
#define PER_ADDRESS 8

static char folder[64], cert_file[96], key_file[96];

static void on_hello(struct pl_http_request *r, void *arg)
{
    (void)arg;
    pl_http_reply(r, 200, "text/plain", "hello", 5);
}

static int guard(struct pl_http_request *r, const struct pl_http_route *route, void *arg, struct pl_err *err)
{
    (void)arg;
    if (route && route->access && !pl_http_header(r, "Authorization"))
        return pl_err_set(err, PL_EAUTH, "no token");
    return 0;
}

static const struct pl_http_route routes[] = {
    {"GET", "/hello", PL_ON_POOL, PL_BODY_NONE, 0, on_hello, NULL, 0},
    {"POST", "/secret", PL_ON_POOL, PL_BODY_BYTES, 0, on_hello, NULL, 1},
};

/* ---- a certificate ---- */

static void write_out(const char *file, const gnutls_datum_t *text)
{
    FILE *f = fopen(file, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text->data, 1, text->size, f), text->size);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(file, 0600), 0);
}

static void make_certificate(void)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t text;
    time_t now = time(NULL);

    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), 0);
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    assert_int_equal(gnutls_x509_crt_set_version(cert, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(cert, "\1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(cert, now - 60), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(cert, now + 86400), 0);
    assert_int_equal(gnutls_x509_crt_set_key(cert, key), 0);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &text), 0);
    write_out(cert_file, &text);
    gnutls_free(text.data);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), 0);
    write_out(key_file, &text);
    gnutls_free(text.data);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

/* ---- a client that speaks TLS, and trusts all ---- */

struct secure {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t trust;
};

static void secure_close(struct secure *c)
{
    gnutls_deinit(c->session);
    gnutls_certificate_free_credentials(c->trust);
    close(c->fd);
}

static bool shakes_hands(struct secure *c)
{
    int e;

    *c = (struct secure){.fd = client_connect(port)};
    assert_int_equal(gnutls_certificate_allocate_credentials(&c->trust), 0);
    assert_int_equal(gnutls_init(&c->session, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_set_default_priority(c->session), 0);
    assert_int_equal(gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->trust), 0);
    gnutls_transport_set_int(c->session, c->fd);
    while ((e = gnutls_handshake(c->session)) < 0 && !gnutls_error_is_fatal(e))
        ;
    if (e < 0)
        secure_close(c);
    return e == 0;
}

/* On a busy machine a handshake can outlast a greeting, and libmicrohttpd count a connection that has just gone: then it is tried again. */
static struct secure secure_connect(void)
{
    int64_t until = pl_clock_mono_ms() + FIXTURE_WAIT_MS;
    struct secure c;

    while (!shakes_hands(&c))
        if (pl_clock_mono_ms() > until)
            fail_msg("no handshake within %d ms", FIXTURE_WAIT_MS);
    return c;
}

static bool secure_say(const struct secure *c, const char *text, size_t n)
{
    return gnutls_record_send(c->session, text, n) == (ssize_t)n;
}

/* Whether a request is answered as it should be; false when it was cut off, as one that is too slow for a greeting. */
static bool is_served(void)
{
    struct secure c = secure_connect();
    char answer[1024];
    ssize_t n =
        secure_say(&c, GET("/hello"), strlen(GET("/hello"))) ? gnutls_record_recv(c.session, answer, sizeof answer - 1) : -1;

    secure_close(&c);
    if (n <= 0)
        return false;
    answer[n] = '\0';
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
    return true;
}

static void somebody_else_is_served(void)
{
    int64_t until = pl_clock_mono_ms() + FIXTURE_WAIT_MS;

    while (!is_served())
        if (pl_clock_mono_ms() > until)
            fail_msg("nobody was served within %d ms", FIXTURE_WAIT_MS);
}

/* ---- the server ---- */

static int start(void **state)
{
    bool tls = *state == NULL;
    struct pl_err err = {0};

    snprintf(folder, sizeof folder, "/tmp/guests-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(cert_file, sizeof cert_file, "%s/cert.pem", folder);
    snprintf(key_file, sizeof key_file, "%s/key.pem", folder);
    make_certificate();
    if (pl_tls_open(cert_file, key_file, &err) < 0)
        fail_msg("%s", err.msg);
    return fixture_start((struct pl_http_options){.routes = routes,
                                                  .n_routes = PL_ARRAY_SIZE(routes),
                                                  .guard = guard,
                                                  .per_address = PER_ADDRESS,
                                                  .greeting_ms = GREETING_MS,
                                                  .tls = tls});
}

static int stop(void **state)
{
    fixture_stop(state);
    pl_tls_close();
    unlink(cert_file);
    unlink(key_file);
    return rmdir(folder);
}

/* The other side ends it, by itself; within FIXTURE_WAIT_MS. */
static void is_cut_off(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t until = pl_clock_mono_ms() + FIXTURE_WAIT_MS;
    char rest[4096];

    while (pl_clock_mono_ms() < until)
        if (poll(&p, 1, 100) > 0 && recv(fd, rest, sizeof rest, MSG_DONTWAIT) <= 0)
            return;
    fail_msg("it is still there after %d ms", FIXTURE_WAIT_MS);
}

/* Says `text` a byte at a time, for as long as it is let; false when that was to the end. */
static bool drips(struct secure *c, int fd, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (c ? !secure_say(c, text + i, 1) : send(fd, text + i, 1, MSG_NOSIGNAL) != 1)
            return true;
        if (poll(&p, 1, 20) > 0 && !c) /* the end, or an answer */
            return true;
    }
    return false;
}

static size_t connections(void)
{
    struct pl_http_stats stats;

    pl_http_server_get_stats(server, &stats);
    return stats.connections;
}

static void until_nobody_is_there(void)
{
    int64_t until = pl_clock_mono_ms() + FIXTURE_WAIT_MS;

    while (connections())
        if (pl_clock_mono_ms() > until || sched_yield() < 0)
            fail_msg("%zu connections are left", connections());
}

/* ---- what they do ---- */

/* The head of a ClientHello: what GnuTLS waits for the rest of. */
static const char half_a_hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

static void silence_and_half_a_handshake_end_in_time(void **state)
{
    int silent = client_connect(port), half = client_connect(port), closed = client_connect(port);

    (void)state;
    assert_true(client_send(half, half_a_hello, sizeof half_a_hello - 1));
    assert_true(client_send(closed, half_a_hello, sizeof half_a_hello - 1));
    shutdown(closed, SHUT_WR); /* half-closed */
    somebody_else_is_served();
    is_cut_off(silent);
    is_cut_off(half);
    is_cut_off(closed);
    close(silent);
    close(half);
    close(closed);
    until_nobody_is_there();
}

static void a_handshake_by_the_byte_ends_in_time(void **state)
{
    char hello[2048] = {0};
    int fd = client_connect(port);

    (void)state;
    memcpy(hello, half_a_hello, sizeof half_a_hello - 1);
    assert_true(drips(NULL, fd, hello, sizeof hello)); /* 20 ms a byte: 40 s, would it be let */
    close(fd);
    until_nobody_is_there();
}

static void headers_by_the_byte_end_in_time(void **state)
{
    char head[4096] = "GET /hello HTTP/1.1\r\nHost: x\r\nX: ";
    struct secure c = secure_connect();

    (void)state;
    memset(head + strlen(head), 'x', sizeof head - strlen(head) - 1);
    assert_true(drips(&c, c.fd, head, strlen(head)));
    secure_close(&c);
    until_nobody_is_there();
}

static void the_body_of_a_refused_request_ends_in_time(void **state)
{
    static const char head[] = "POST /secret HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    struct secure c = secure_connect();
    char body[4096];

    (void)state;
    memset(body, 'x', sizeof body);
    assert_true(secure_say(&c, head, strlen(head)));
    assert_true(drips(&c, c.fd, body, sizeof body));
    secure_close(&c);
    until_nobody_is_there();
}

/* Half-closed after its request: nobody waits for an answer any more, as the server sees it; it keeps nothing either way. */
static void a_half_closed_connection_ends(void **state)
{
    struct secure c = secure_connect();

    (void)state;
    assert_true(secure_say(&c, GET("/hello"), strlen(GET("/hello"))));
    shutdown(c.fd, SHUT_WR);
    is_cut_off(c.fd);
    secure_close(&c);
    until_nobody_is_there();
}

static void plain_http_is_told_that_this_is_tls(void **state)
{
    static const char *const says[] = {GET("/hello"), "POST /secret HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "G"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(says); i++) {
        int fd = client_connect(port);
        struct answer a = client_ask(fd, says[i]);

        assert_int_equal(a.status, 400);
        assert_true(a.complete);
        assert_non_null(strstr(a.body, "this port speaks HTTPS"));
        is_cut_off(fd);
        answer_free(&a);
        close(fd);
    }
    somebody_else_is_served();
}

/* What is neither gets no words. */
static void noise_is_cut_off(void **state)
{
    int fd = client_connect(port);

    (void)state;
    client_say(fd, "\xff\xfe\x01\x02 and so on, and so on, and so on, and so on");
    is_cut_off(fd);
    close(fd);
}

static void an_address_has_its_share_and_no_more(void **state)
{
    int fds[PER_ADDRESS + 3];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(fds); i++)
        fds[i] = client_connect(port);
    for (size_t i = PER_ADDRESS; i < PL_ARRAY_SIZE(fds); i++)
        is_cut_off(fds[i]);
    assert_true(connections() <= PER_ADDRESS);
    for (size_t i = 0; i < PL_ARRAY_SIZE(fds); i++)
        close(fds[i]);
    until_nobody_is_there();
    somebody_else_is_served();
}

struct swapping {
    pthread_t thread;
    atomic_bool stop;
    unsigned swaps;
};

/* The files change, and are looked at, as fast as it goes. */
static void *swap(void *arg)
{
    struct swapping *s = arg;

    while (!atomic_load(&s->stop) || s->swaps < 3) {
        make_certificate();
        pl_tls_look();
        s->swaps++;
    }
    return NULL;
}

static void the_certificate_changes_under_handshakes(void **state)
{
    struct swapping s = {0};

    (void)state;
    assert_int_equal(pthread_create(&s.thread, NULL, swap, &s), 0);
    for (int i = 0; i < 40; i++)
        somebody_else_is_served();
    atomic_store(&s.stop, true);
    pthread_join(s.thread, NULL);
    somebody_else_is_served();
    until_nobody_is_there();
}

/* Without TLS the times are the same. */
static void plain_headers_by_the_byte_end_in_time(void **state)
{
    static const char head[] = "GET /hello HTTP/1.1\r\nHost: x\r\nX: ";
    char text[4096];
    int fd = client_connect(port), keeps;
    struct answer a;

    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text, head, strlen(head));
    assert_true(drips(NULL, fd, text, sizeof text));
    close(fd);
    /* one that has asked stays for its next request: it began within its time, and waits longer than a greeting */
    keeps = client_connect(port);
    a = client_ask(keeps, GET("/hello"));
    answer_free(&a);
    fd = client_connect(port);
    is_cut_off(fd); /* more than a greeting is over */
    a = client_ask(keeps, GET("/hello"));
    assert_int_equal(a.status, 200);
    answer_free(&a);
    close(fd);
    close(keeps);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
static bool plain = true;

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(silence_and_half_a_handshake_end_in_time),
        TEST(a_handshake_by_the_byte_ends_in_time),
        TEST(headers_by_the_byte_end_in_time),
        TEST(the_body_of_a_refused_request_ends_in_time),
        TEST(a_half_closed_connection_ends),
        TEST(plain_http_is_told_that_this_is_tls),
        TEST(noise_is_cut_off),
        TEST(an_address_has_its_share_and_no_more),
        TEST(the_certificate_changes_under_handshakes),
        cmocka_unit_test_prestate_setup_teardown(plain_headers_by_the_byte_end_in_time, start, stop, &plain),
    };

    signal(SIGPIPE, SIG_IGN); /* GnuTLS sends to those who have gone */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
