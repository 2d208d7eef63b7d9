/* A server that says exactly what the test wants, byte by byte, and hangs up where it likes. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include <arpa/inet.h>
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
    bool lingers;      /* reads on until the client hangs up, as servers do: what is unread at a close takes the answer with it */
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

static void linger(int fd)
{
    char rest[65536];

    shutdown(fd, SHUT_WR);
    while (recv(fd, rest, sizeof rest, 0) > 0)
        ;
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
        if (s->lingers)
            linger(fd);
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

static __attribute__((unused)) struct pl_http_client *client_of(const struct peer *p, const char *path)
{
    struct pl_http_client *c = NULL;
    char url[128];

    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", p->port, path);
    assert_int_equal(pl_http_client_create(url, "secret", &c, NULL), 0);
    return c;
}

/* One GET of /x against one connection with this script. */
static __attribute__((unused)) int get_from(const struct script *s, struct pl_buf *out, struct pl_err *err)
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
