/* http_fixture: a server to test, and a plain socket client that says exactly the bytes it is given and reads whole answers. Everything
 * waits at most 10 s. */
#pragma once

#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "storage/base/base.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cmocka.h>

#define FIXTURE_WAIT_MS 10000

struct answer {
    int status; /* -1: the connection ended without one */
    char head[4096];
    char *body;
    size_t len;
    bool complete; /* the body ended as announced */
};

static inline int client_connect(unsigned port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

/* False when the other side no longer takes it. */
static inline bool client_send(int fd, const void *data, size_t n)
{
    const char *p = data;

    while (n) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);

        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

static inline bool client_say(int fd, const char *text)
{
    return client_send(fd, text, strlen(text));
}

/* One read; 0 at the end or on reset. */
static inline size_t client_read(int fd, void *out, size_t n)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t r;
    int ready;

    do
        ready = poll(&p, 1, FIXTURE_WAIT_MS);
    while (ready < 0 && errno == EINTR); /* the fuzzer looks at its clock by SIGALRM */
    if (ready <= 0)
        fail_msg("nothing came in %d ms", FIXTURE_WAIT_MS);
    do
        r = recv(fd, out, n, 0);
    while (r < 0 && errno == EINTR);
    return r > 0 ? (size_t)r : 0;
}

static inline bool client_read_exactly(int fd, char *out, size_t n)
{
    while (n) {
        size_t r = client_read(fd, out, n);

        if (!r)
            return false;
        out += r;
        n -= r;
    }
    return true;
}

static inline bool client_read_line(int fd, char *out, size_t size)
{
    size_t n = 0;

    while (n + 1 < size && client_read(fd, out + n, 1) == 1)
        if (out[n++] == '\n') {
            out[n] = 0;
            return true;
        }
    out[n] = 0;
    return false;
}

static inline bool client_read_chunked(int fd, struct answer *a)
{
    char line[64];

    while (client_read_line(fd, line, sizeof(line))) {
        size_t n = strtoul(line, NULL, 16);

        a->body = realloc(a->body, a->len + n + 3);
        assert_non_null(a->body);
        if (!client_read_exactly(fd, a->body + a->len, n + 2))
            return false;
        a->len += n;
        a->body[a->len] = 0;
        if (n == 0)
            return true;
    }
    return false;
}

static inline const char *answer_header(const struct answer *a, const char *name, char out[256])
{
    char needle[80];
    const char *at;

    snprintf(needle, sizeof(needle), "\r\n%s: ", name);
    at = strcasestr(a->head, needle);
    if (!at)
        return NULL;
    snprintf(out, 256, "%.*s", (int)strcspn(at + strlen(needle), "\r"), at + strlen(needle));
    return out;
}

static inline void client_read_head(int fd, struct answer *a)
{
    size_t n = 0;

    *a = (struct answer){.status = -1};
    do {
        if (!client_read_line(fd, a->head + n, sizeof(a->head) - n))
            return;
        n = strlen(a->head);
    } while (!strstr(a->head, "\r\n\r\n"));
    a->status = atoi(a->head + 9);
}

static inline struct answer client_read_answer(int fd)
{
    struct answer a;
    char value[256];

    client_read_head(fd, &a);
    if (a.status < 0)
        return a;
    if (answer_header(&a, "Transfer-Encoding", value)) {
        a.complete = client_read_chunked(fd, &a);
    } else if (answer_header(&a, "Content-Length", value)) {
        a.len = strtoul(value, NULL, 10);
        a.body = calloc(1, a.len + 1);
        assert_non_null(a.body);
        a.complete = client_read_exactly(fd, a.body, a.len);
    }
    return a;
}

static inline struct answer client_ask(int fd, const char *text)
{
    client_say(fd, text);
    return client_read_answer(fd);
}

static inline void answer_free(struct answer *a)
{
    free(a->body);
    a->body = NULL;
}

/* --- a server with a loop on its own thread and a pool --- */

static struct pl_loop *loop;
static struct pl_pool *pool;
static struct pl_http_server *server;
static unsigned port;
static pthread_t fixture_loop_thread;

/* What handlers tell the test, and it them. */
static __attribute__((unused)) pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __attribute__((unused)) pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Waits for a condition over what `lock` guards. */
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

static inline void *fixture_run_loop(void *arg)
{
    pl_loop_run(arg);
    return NULL;
}

static inline void fixture_loop_turned(void *arg)
{
    pthread_mutex_lock(&lock);
    *(bool *)arg = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Everything posted to the loop before has been dealt with. */
static __attribute__((unused)) void fixture_await_loop(void)
{
    bool turned = false;
    struct pl_err err = {0};

    if (pl_loop_post(loop, "fixture.turned", fixture_loop_turned, &turned, &err) < 0)
        fail_msg("%s", err.msg);
    UNTIL(turned);
}

static inline int fixture_start(struct pl_http_options o)
{
    struct pl_err err = {0};

    o.listen = "127.0.0.1:0";
    if (pl_loop_create(&loop, &err) < 0 || pl_pool_create("test", 4, 1024, &pool, &err) < 0)
        return -1;
    pthread_create(&fixture_loop_thread, NULL, fixture_run_loop, loop);
    o.loop = loop;
    o.pool = pool;
    if (pl_http_server_start(&o, &server, &err) < 0) {
        print_error("%s\n", err.msg);
        return -1;
    }
    port = pl_http_server_port(server);
    return 0;
}

static inline int fixture_stop(void **state)
{
    (void)state;
    pl_http_server_stop(server, FIXTURE_WAIT_MS);
    pool = pl_pool_destroy(pool);
    pl_loop_stop(loop);
    pthread_join(fixture_loop_thread, NULL);
    loop = pl_loop_destroy(loop);
    server = pl_http_server_destroy(server);
    return 0;
}

#define GET(target)                "GET " target " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(target, length, body) "POST " target " HTTP/1.1\r\nHost: x\r\nContent-Length: " #length "\r\n\r\n" body
