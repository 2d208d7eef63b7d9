/* Limits the time of connections that have not made a request: the TLS handshake and the headers must complete in
 * that time, and so must the body of a refused request. libmicrohttpd's own timeout counts from the last byte, so
 * one byte a minute would hold a connection for weeks. Also answers plain HTTP on a TLS port.
 *
 *   accepted ──greeting_ms──▶ request's headers ──(no limit here)──▶ answered ──greeting_ms + PL_HTTP_IDLE_S──▶ next
 *                                      └─refused──greeting_ms──▶ its body
 *
 * libmicrohttpd reports when a connection begins and when it ends; the end is reported before the descriptor is
 * closed. Between the two reports, the connection's entry (struct http_guest) is in a list that the server's lock
 * guards. The holder of that lock may therefore shut down the descriptors in the list. */
#include "pipelined/net/server/http_internal.h"

#include "storage/base/clock.h"

#include <gnutls/gnutls.h>
#include <stdio.h>
#include <sys/socket.h>

/* most bytes of a plain HTTP request that are read before the reply: with unread bytes, the connection
 * would be reset and the reply lost */
#define PLAIN_MAX 32768

struct http_guest {
    struct http_guest *prev, *next;
    int fd;
    atomic_int_fast64_t until_ms; /* time at which the connection is shut down, in ms; 0 = no limit */
    bool spoke;                   /* for TLS: the first byte has been checked; used on libmicrohttpd's thread only */
};

/* ---- plain HTTP on a port of TLS ---- */

/* Answers a plain HTTP request with an error. */
static void tell_plain(int fd)
{
    static const char body[] =
        "{\"error\":{\"code\":\"invalid\",\"message\":\"this port speaks HTTPS, but the request is plain HTTP\","
        "\"hint\":\"Write https:// instead of http:// in the address.\"}}\n";
    char head[160], rest[4096];
    size_t taken = 0;
    ssize_t k;
    int n =
        snprintf(head, sizeof head,
                 "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                 sizeof body - 1);
    struct iovec parts[2] = {{.iov_base = head, .iov_len = (size_t)n},
                             {.iov_base = (void *)(uintptr_t)body, .iov_len = sizeof body - 1}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    while (taken < PLAIN_MAX && (k = recv(fd, rest, sizeof rest, MSG_DONTWAIT)) > 0)
        taken += (size_t)k;
    if (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        shutdown(fd, SHUT_WR);
}

/* Reads from the socket for GnuTLS, and recognises plain HTTP by its first byte: a TLS record begins with
 * byte 22, a plain HTTP request with a letter. */
static ssize_t pull(gnutls_transport_ptr_t arg, void *data, size_t n)
{
    struct http_guest *g = arg;
    unsigned char first;
    ssize_t k;

    if (!g->spoke) {
        k = recv(g->fd, &first, 1, MSG_PEEK);
        if (k <= 0)
            return k;
        g->spoke = true;
        if (first >= 'A' && first <= 'Z') {
            tell_plain(g->fd);
            return 0;
        }
    }
    return recv(g->fd, data, n, 0);
}

static void listen_first(struct MHD_Connection *connection, struct http_guest *g)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (!info || !info->tls_session)
        return;
    gnutls_transport_set_ptr2(info->tls_session, g, (gnutls_transport_ptr_t)(intptr_t)g->fd);
    gnutls_transport_set_pull_function(info->tls_session, pull);
}

/* ---- connections ---- */

/* Adds an entry for a new connection to the list. */
static void arrive(struct pl_http_server *s, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_guest *g = fd ? calloc(1, sizeof *g) : NULL;

    *context = g;
    if (!g) { /* without an entry the connection would have no time limit: close it */
        if (fd)
            shutdown(fd->connect_fd, SHUT_RDWR);
        return;
    }
    g->fd = fd->connect_fd;
    atomic_init(&g->until_ms, pl_clock_mono_ms() + s->greeting_ms);
    if (s->tls)
        listen_first(connection, g);
    pthread_mutex_lock(&s->lock);
    g->next = s->guests;
    if (g->next)
        g->next->prev = g;
    s->guests = g;
    pthread_mutex_unlock(&s->lock);
}

static void leave(struct pl_http_server *s, void **context)
{
    struct http_guest *g = *context;

    *context = NULL;
    if (!g)
        return;
    pthread_mutex_lock(&s->lock);
    if (g->prev)
        g->prev->next = g->next;
    else
        s->guests = g->next;
    if (g->next)
        g->next->prev = g->prev;
    pthread_mutex_unlock(&s->lock);
    free(g);
}

void pl_httpd_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        arrive(arg, connection, context);
    else
        leave(arg, context);
}

/* ---- limits ---- */

static void set_until(struct MHD_Connection *connection, int64_t until_ms)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_guest *g = info ? info->socket_context : NULL;

    if (g)
        atomic_store(&g->until_ms, until_ms);
}

void pl_httpd_timeout_request_begun(struct MHD_Connection *connection)
{
    set_until(connection, 0);
}

void pl_httpd_timeout_refused(const struct pl_http_server *s, struct MHD_Connection *connection)
{
    set_until(connection, pl_clock_mono_ms() + s->greeting_ms);
}

void pl_httpd_timeout_answered(const struct pl_http_server *s, struct MHD_Connection *connection)
{
    set_until(connection, pl_clock_mono_ms() + s->greeting_ms + PL_HTTP_IDLE_S * 1000);
}

void pl_httpd_timeout_sweep(struct pl_http_server *s, int64_t now_ms)
{
    for (struct http_guest *g = s->guests; g; g = g->next) {
        int_fast64_t until = atomic_load(&g->until_ms);

        if (until && now_ms >= until && atomic_compare_exchange_strong(&g->until_ms, &until, 0))
            shutdown(g->fd, SHUT_RDWR); /* libmicrohttpd then closes the connection */
    }
}
