/* An epoll set of the listening socket and at most PL_NEXT_ASKERS_MAX clients. One complete request waits for
 * its answer; a second one is refused. */
#include "pipelined/agent/command/batch_server.h"

#include "pipelined/agent/command/unix_socket.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* A connected client and the part of its request that has arrived. */
struct asker {
    int fd; /* descriptor of the connection; -1 = this entry is unused */
    size_t len;
    char line[sizeof("fail ") + PL_NEXT_MESSAGE_MAX + 1];
};

struct pl_next_server {
    int listen_fd, epoll_fd;
    struct asker askers[PL_NEXT_ASKERS_MAX];
    struct asker *waiting; /* the client whose complete request waits for its answer; NULL = none */
};

static bool watch(struct pl_next_server *s, int fd, void *who)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = who};

    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

int pl_next_server_create(const char *folder, struct pl_next_server **ret, struct pl_err *err)
{
    struct pl_next_server *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return pl_err_nomem(err);
    for (size_t i = 0; i < PL_NEXT_ASKERS_MAX; i++)
        s->askers[i].fd = -1;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->listen_fd = -1;
    r = pl_unix_socket_listen(folder, "next", PL_NEXT_ASKERS_MAX, &s->listen_fd, err);
    if (r == 0 && (s->epoll_fd < 0 || !watch(s, s->listen_fd, NULL)))
        r = pl_err_errno(err, errno, "%s/next", folder);
    if (r < 0) {
        pl_next_server_destroy(s);
        return r;
    }
    *ret = s;
    return 0;
}

static void drop(struct pl_next_server *s, struct asker *a)
{
    if (a->fd >= 0)
        close(a->fd); /* closing also removes it from the epoll set */
    a->fd = -1;
    a->len = 0;
    if (s->waiting == a)
        s->waiting = NULL;
}

struct pl_next_server *pl_next_server_destroy(struct pl_next_server *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < PL_NEXT_ASKERS_MAX; i++)
        drop(s, &s->askers[i]);
    pl_closep(&s->listen_fd);
    pl_closep(&s->epoll_fd);
    free(s);
    return NULL;
}

int pl_next_server_fd(const struct pl_next_server *s)
{
    return s->epoll_fd;
}

/* Accepts a connection; closes it at once if PL_NEXT_ASKERS_MAX clients are connected. */
static void take_in(struct pl_next_server *s)
{
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (size_t i = 0; fd >= 0 && i < PL_NEXT_ASKERS_MAX; i++) {
        struct asker *a = &s->askers[i];
        if (a->fd >= 0)
            continue;
        if (!watch(s, fd, a))
            break;
        a->fd = fd;
        return;
    }
    pl_closep(&fd);
}

static void say(const struct asker *a, const char *text)
{
    /* ignore the error if the client has disconnected */
    (void)!send(a->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Handles a complete request line. */
static void request(struct pl_next_server *s, struct asker *a)
{
    if (!pl_streq(a->line, "next") && strncmp(a->line, "fail ", 5) != 0) {
        say(a, "error the request is neither \"next\" nor \"fail MESSAGE\"\n");
        drop(s, a);
    } else if (s->waiting) {
        say(a, "error another process of this command is already waiting for the next datum\n");
        drop(s, a);
    } else {
        s->waiting = a;
    }
}

/* Reads the bytes that a client has sent and handles its request when the line is complete. */
static void hear(struct pl_next_server *s, struct asker *a)
{
    char rest[64];
    bool whole = s->waiting == a;
    size_t room = sizeof(a->line) - a->len - 1;
    ssize_t n = recv(a->fd, whole ? rest : a->line + a->len, whole ? sizeof(rest) : room, MSG_DONTWAIT);
    char *end;

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            drop(s, a); /* the client disconnected before its request was answered */
        return;
    }
    if (whole)
        return; /* ignore bytes after the request */
    end = memchr(a->line + a->len, '\n', (size_t)n);
    a->len += (size_t)n;
    if (end || a->len + 1 == sizeof(a->line)) { /* a line that is too long is cut off */
        *(end ? end : a->line + a->len) = '\0';
        request(s, a);
    }
}

void pl_next_server_look(struct pl_next_server *s)
{
    struct epoll_event events[PL_NEXT_ASKERS_MAX + 1];
    int n = epoll_wait(s->epoll_fd, events, PL_ARRAY_SIZE(events), 0);

    for (int i = 0; i < n; i++) {
        struct asker *a = events[i].data.ptr;
        if (!a)
            take_in(s);
        else if (a->fd >= 0)
            hear(s, a);
    }
}

bool pl_next_server_asked(const struct pl_next_server *s, const char **ret_message)
{
    if (!s->waiting)
        return false;
    *ret_message = s->waiting->line[0] == 'f' ? s->waiting->line + 5 : NULL;
    return true;
}

bool pl_next_server_answer(struct pl_next_server *s, const char *answer)
{
    char text[PL_NEXT_MESSAGE_MAX];
    int n = snprintf(text, sizeof(text), "%s\n", answer);
    bool heard = s->waiting && send(s->waiting->fd, text, PL_MIN((size_t)n, sizeof(text) - 1), MSG_NOSIGNAL | MSG_DONTWAIT) == n;

    if (s->waiting)
        drop(s, s->waiting);
    return heard;
}
