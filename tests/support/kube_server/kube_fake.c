/* The server: connections, requests, answers. What is kept is kube_fake_store. */
#include "tests/support/kube_server/kube_fake_internal.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define REQUEST_MAX (16u << 20)

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* --- answers --- */

static void flush_out(struct conn *c)
{
    struct kube_fake *f = c->fake;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

    while (c->out_at < c->out.len && !c->silent) {
        const ssize_t n = send(c->fd, c->out.data + c->out_at, c->out.len - c->out_at, MSG_NOSIGNAL);

        if (n <= 0)
            break;
        c->out_at += (size_t)n;
    }
    if (c->out_at == c->out.len) {
        pl_buf_clear(&c->out);
        c->out_at = 0;
    } else {
        e.events |= EPOLLOUT;
    }
    (void)epoll_ctl(f->epoll, EPOLL_CTL_MOD, c->fd, &e);
}

void kube_fake_close(struct conn *c)
{
    struct kube_fake *f = c->fake;

    for (struct conn **at = &f->conns; *at != NULL; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    f->n_watches -= c->watching;
    f->n_conns--;
    pthread_cond_broadcast(&f->changed);
    close(c->fd);
    pl_buf_finish(&c->in);
    pl_buf_finish(&c->out);
    free(c->collection);
    free(c->labels);
    free(c->fields);
    c->next = f->dead; /* freed at the end of the turn: an event of it may still be in hand */
    f->dead = c;
}

/* Bytes of an answer's body; a cut counts them, and ends the connection. False when it is gone. */
static bool put_body(struct conn *c, const void *data, size_t n)
{
    const bool ends = c->cut_after <= n;

    if (ends)
        n = c->cut_after;
    c->cut_after -= ends ? 0 : c->cut_after == SIZE_MAX ? 0 : n;
    if (n > 0 && c->chunked)
        must(pl_buf_addf(&c->out, NULL, "%zx\r\n", n) == 0);
    must(pl_buf_add(&c->out, data, n, NULL) == 0);
    if (n > 0 && c->chunked)
        must(pl_buf_add(&c->out, "\r\n", 2, NULL) == 0);
    flush_out(c);
    if (ends) {
        shutdown(c->fd, SHUT_RDWR);
        return false;
    }
    return true;
}

void kube_fake_stream(struct conn *c, const void *data, size_t n)
{
    if (n > 0)
        (void)put_body(c, data, n);
}

void kube_fake_stream_end(struct conn *c)
{
    must(pl_buf_add_str(&c->out, "0\r\n\r\n", NULL) == 0);
    c->chunked = false;
    c->fake->n_watches -= c->watching;
    c->watching = c->following = false;
    flush_out(c);
}

static void begin_stream(struct conn *c, const char *type)
{
    must(pl_buf_addf(&c->out, NULL, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", type) == 0);
    c->chunked = true;
    flush_out(c);
}

void kube_fake_answer(struct conn *c, unsigned status, const char *body, size_t n, unsigned retry_after_s)
{
    char retry[48] = "";

    if (c->then != NULL) { /* it was done, and is not told */
        const struct kube_fake_fault *t = c->then;

        c->then = NULL;
        status = t->status;
        retry_after_s = t->retry_after_s;
        body = t->body != NULL ? t->body : "";
        n = strlen(body);
    }
    if (retry_after_s > 0)
        (void)snprintf(retry, sizeof retry, "Retry-After: %u\r\n", retry_after_s);
    must(pl_buf_addf(&c->out, NULL, "HTTP/1.1 %u X\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n", status,
                     retry, n) == 0);
    (void)put_body(c, body, n);
}

json_t *kube_fake_shown(struct conn *c, json_t *object)
{
    json_t *metadata = json_object_get(object, "metadata"), *less;

    if (!c->metadata_only || metadata == NULL) {
        c->fake->view.with_data += json_object_get(object, "data") != NULL;
        return object;
    }
    less = json_pack("{s:s, s:s, s:O}", "apiVersion", "meta.k8s.io/v1", "kind", "PartialObjectMetadata", "metadata", metadata);
    must(less != NULL);
    json_decref(object);
    return less;
}

void kube_fake_answer_json(struct conn *c, unsigned status, json_t *object)
{
    char *text = json_dumps(object = kube_fake_shown(c, object), JSON_COMPACT);

    must(text != NULL);
    kube_fake_answer(c, status, text, strlen(text), 0);
    free(text);
    json_decref(object);
}

void kube_fake_refuse(struct conn *c, unsigned code, const char *reason, const char *message)
{
    kube_fake_answer_json(c, code,
                          json_pack("{s:s,s:s,s:s,s:s,s:s,s:i}", "kind", "Status", "apiVersion", "v1", "status", "Failure",
                                    "message", message, "reason", reason, "code", (int)code));
}

/* --- requests --- */

static int hex_of(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

char *kube_fake_param(const char *query, const char *name)
{
    const size_t len = strlen(name);

    for (const char *at = query; at != NULL && *at != '\0'; at = strchr(at, '&') != NULL ? strchr(at, '&') + 1 : NULL)
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            char *out = strndup(at + len + 1, strcspn(at + len + 1, "&")), *to = out;

            for (const char *from = out; *from != '\0'; to++)
                if (*from == '%') {
                    *to = (char)(hex_of(from[1]) * 16 + hex_of(from[2]));
                    from += 3;
                } else {
                    *to = *from++;
                }
            *to = '\0';
            return out;
        }
    return NULL;
}

static struct kube_fake_fault *find_fault(struct kube_fake *f, const struct request *q)
{
    char whole[8192];

    (void)snprintf(whole, sizeof whole, "%s?%s", q->path, q->query);
    for (size_t i = 0; i < f->n_faults; i++) {
        struct kube_fake_fault *x = &f->faults[i];
        const bool watch = strstr(q->query, "watch=1") != NULL;

        if (x->method != NULL && !pl_streq(x->method, q->method) && !(watch && pl_streq(x->method, "WATCH")))
            continue;
        if (x->method != NULL && pl_streq(x->method, "GET") && watch)
            continue;
        if (f->fault_left[i] == 0 || (x->part != NULL && strstr(whole, x->part) == NULL))
            continue;
        if (f->fault_left[i] != UINT32_MAX)
            f->fault_left[i]--;
        return x;
    }
    return NULL;
}

static void begin_watch(struct conn *c, const struct request *q)
{
    struct kube_fake *f = c->fake;
    char *version = kube_fake_param(q->query, "resourceVersion");

    free(c->collection);
    free(c->labels);
    free(c->fields);
    c->collection = strdup(q->path);
    c->labels = kube_fake_param(q->query, "labelSelector");
    c->fields = kube_fake_param(q->query, "fieldSelector");
    begin_stream(c, "application/json");
    c->watching = true;
    f->n_watches++;
    pthread_cond_broadcast(&f->changed);
    kube_fake_replay(f, c, version != NULL ? strtoul(version, NULL, 10) : 0);
    free(version);
}

static const char *last_lines(const char *lines, unsigned long n)
{
    const char *at = lines + strlen(lines);

    for (; n > 0 && at > lines; n--)
        for (at--; at > lines && at[-1] != '\n';)
            at--;
    return at;
}

static void begin_log(struct conn *c, const struct request *q)
{
    struct kube_fake *f = c->fake;
    char *pod = strndup(q->path, strlen(q->path) - 4), *since = kube_fake_param(q->query, "sinceTime");
    char *tail = kube_fake_param(q->query, "tailLines");
    const char *lines = pl_streq(pod, f->log_path) ? f->log : NULL;

    if (lines == NULL) {
        kube_fake_refuse(c, 404, "NotFound", "pods \"x\" not found");
    } else {
        begin_stream(c, "text/plain");
        while (since != NULL && *lines != '\0' && strncmp(lines, since, 19) < 0 && strchr(lines, '\n') != NULL)
            lines = strchr(lines, '\n') + 1; /* whole seconds, inclusive */
        if (tail != NULL)
            lines = last_lines(lines, strtoul(tail, NULL, 10));
        kube_fake_stream(c, lines, strlen(lines));
        c->following = strstr(q->query, "follow=true") != NULL && !f->log_over;
        if (!c->following)
            kube_fake_stream_end(c);
    }
    free(pod);
    free(since);
    free(tail);
}

static void handle(struct conn *c, const struct request *q)
{
    struct kube_fake *f = c->fake;
    const struct kube_fake_fault *x = find_fault(f, q);
    const size_t len = strlen(q->path);

    f->view.requests++;
    pthread_cond_broadcast(&f->changed);
    f->view.writes += !pl_streq(q->method, "GET");
    f->view.counted += f->counted_part != NULL && strstr(q->path, f->counted_part) != NULL &&
                       (f->counted_method == NULL || pl_streq(q->method, f->counted_method));
    c->cut_after = SIZE_MAX;
    if (x != NULL && x->kind == KUBE_FAULT_CUT)
        c->cut_after = x->bytes;
    c->then = x != NULL && x->kind == KUBE_FAULT_AFTER ? x : NULL;
    c->silent = x != NULL && x->kind == KUBE_FAULT_SILENT;
    if (x != NULL && x->kind == KUBE_FAULT_ANSWER)
        kube_fake_answer(c, x->status, x->body != NULL ? x->body : "", x->body != NULL ? strlen(x->body) : 0, x->retry_after_s);
    else if (f->token != NULL && (q->token == NULL || !pl_streq(q->token, f->token)))
        kube_fake_refuse(c, 401, "Unauthorized", "Unauthorized");
    else if (strstr(q->query, "watch=1") != NULL)
        begin_watch(c, q);
    else if (len > 4 && pl_streq(q->path + len - 4, "/log"))
        begin_log(c, q);
    else
        kube_fake_do(f, c, q);
}

/* One whole request at the front of `in`; false when there is none yet. */
static bool take_request(struct conn *c)
{
    char *head = (char *)c->in.data, *end, *length, *bearer, *accept;
    struct request q = {0};
    size_t body, total;
    char method[16], target[8192], token[512];

    if (c->in.len == 0 || pl_buf_str(&c->in) == NULL || (end = strstr((char *)c->in.data, "\r\n\r\n")) == NULL)
        return false;
    head = (char *)c->in.data;
    *end = '\0';
    length = strcasestr(head, "\r\ncontent-length:");
    bearer = strcasestr(head, "\r\nauthorization: bearer ");
    body = length != NULL ? strtoul(length + 17, NULL, 10) : 0;
    if (bearer != NULL && sscanf(bearer + 24, "%511s", token) == 1)
        q.token = token;
    accept = strcasestr(head, "\r\naccept:");
    c->metadata_only = accept != NULL && strstr(accept, "as=PartialObjectMetadata") != NULL;
    must(sscanf(head, "%15s %8191s", method, target) == 2);
    *end = '\r';
    total = (size_t)(end + 4 - head) + body;
    if (c->in.len < total)
        return false;
    q.method = method;
    q.path = target;
    q.query = strchr(target, '?') != NULL ? strchr(target, '?') + 1 : "";
    if (*q.query != '\0' || strchr(target, '?') != NULL)
        *strchr(target, '?') = '\0';
    q.body = end + 4;
    q.body_len = body;
    handle(c, &q);
    memmove(c->in.data, c->in.data + total, c->in.len - total);
    c->in.len -= total;
    return c->in.len > 0;
}

static void on_readable(struct conn *c)
{
    char part[65536];
    const ssize_t n = recv(c->fd, part, sizeof part, 0);

    if (n <= 0) {
        kube_fake_close(c);
        return;
    }
    c->in.max = REQUEST_MAX;
    must(pl_buf_add(&c->in, part, (size_t)n, NULL) == 0);
    while (!c->silent && take_request(c))
        ;
}

static void on_connection(struct kube_fake *f)
{
    const int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;
    struct conn *c = fd >= 0 ? calloc(1, sizeof *c) : NULL;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

    if (c == NULL)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fake = f;
    c->fd = fd;
    c->out.max = 512u << 20;
    c->cut_after = SIZE_MAX;
    c->next = f->conns;
    f->conns = c;
    f->view.connections++;
    f->n_conns++;
    f->view.at_once = PL_MAX(f->view.at_once, f->n_conns);
    must(epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &e) == 0);
}

static void turn(struct kube_fake *f, const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++) {
        struct conn *c = events[i].data.ptr;
        bool alive = false;

        if (c == NULL) {
            on_connection(f);
            continue;
        }
        if (c == (struct conn *)f) {
            eventfd_t x;

            (void)eventfd_read(f->wake, &x);
            continue;
        }
        for (const struct conn *k = f->conns; k != NULL && !alive; k = k->next)
            alive = k == c;
        if (alive && (events[i].events & EPOLLOUT))
            flush_out(c);
        if (alive && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            on_readable(c);
    }
}

static void free_dead(struct kube_fake *f)
{
    while (f->dead != NULL) {
        struct conn *c = f->dead;

        f->dead = c->next;
        free(c);
    }
}

static void *serve(void *arg)
{
    struct kube_fake *f = arg;
    struct epoll_event events[64];
    bool ending = false;

    while (!ending) {
        const int n = epoll_wait(f->epoll, events, 64, -1);

        pthread_mutex_lock(&f->lock);
        turn(f, events, n);
        free_dead(f);
        ending = f->ending;
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

/* --- the face --- */

struct kube_fake *kube_fake_start(void)
{
    struct kube_fake *f = calloc(1, sizeof *f);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct epoll_event e = {.events = EPOLLIN};
    socklen_t len = sizeof at;

    must(f != NULL);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->log_path = strdup("");
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    must(bind(f->listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(f->listener, 256) == 0);
    must(getsockname(f->listener, (struct sockaddr *)&at, &len) == 0);
    (void)snprintf(f->url, sizeof f->url, "http://127.0.0.1:%u", ntohs(at.sin_port));
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->listener, &e) == 0);
    e.data.ptr = f;
    must(epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->wake, &e) == 0);
    must(pthread_create(&f->thread, NULL, serve, f) == 0);
    return f;
}

void kube_fake_stop(struct kube_fake *f)
{
    pthread_mutex_lock(&f->lock);
    f->ending = true;
    pthread_mutex_unlock(&f->lock);
    (void)eventfd_write(f->wake, 1);
    pthread_join(f->thread, NULL);
    while (f->conns != NULL)
        kube_fake_close(f->conns);
    free_dead(f);
    kube_fake_store_finish(f);
    close(f->listener);
    close(f->epoll);
    close(f->wake);
    free(f->log_path);
    free(f->log);
    free(f->token);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    free(f);
}

const char *kube_fake_url(const struct kube_fake *f)
{
    return f->url;
}

void kube_fake_fault(struct kube_fake *f, struct kube_fake_fault fault)
{
    pthread_mutex_lock(&f->lock);
    must(f->n_faults < PL_ARRAY_SIZE(f->faults));
    f->faults[f->n_faults] = fault;
    f->fault_left[f->n_faults++] = fault.times > 0 ? fault.times : UINT32_MAX;
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_heal(struct kube_fake *f)
{
    pthread_mutex_lock(&f->lock);
    f->n_faults = 0;
    for (struct conn *c = f->conns; c != NULL; c = c->next)
        c->then = NULL;
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_end_watches(struct kube_fake *f, bool broken)
{
    pthread_mutex_lock(&f->lock);
    for (struct conn *c = f->conns; c != NULL; c = c->next)
        if ((c->watching || c->following) && broken)
            shutdown(c->fd, SHUT_RDWR);
        else if (c->watching || c->following)
            kube_fake_stream_end(c);
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_log(struct kube_fake *f, const char *pod_path, const char *lines, bool over)
{
    pthread_mutex_lock(&f->lock);
    if (f->log != NULL && pl_streq(f->log_path, pod_path) && strncmp(lines, f->log, strlen(f->log)) == 0)
        for (struct conn *c = f->conns; c != NULL; c = c->next)
            if (c->following)
                kube_fake_stream(c, lines + strlen(f->log), strlen(lines) - strlen(f->log));
    free(f->log);
    free(f->log_path);
    f->log = strdup(lines);
    f->log_path = strdup(pod_path);
    f->log_over = over;
    for (struct conn *c = f->conns; c != NULL && over; c = c->next)
        if (c->following)
            kube_fake_stream_end(c);
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_deny(struct kube_fake *f, const char *denied)
{
    pthread_mutex_lock(&f->lock);
    f->denied = denied;
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_token(struct kube_fake *f, const char *token)
{
    pthread_mutex_lock(&f->lock);
    free(f->token);
    f->token = token != NULL ? strdup(token) : NULL;
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_look(struct kube_fake *f, struct kube_fake_view *ret)
{
    pthread_mutex_lock(&f->lock);
    *ret = f->view;
    ret->watches = f->n_watches;
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_count_requests(struct kube_fake *f, const char *method, const char *part)
{
    pthread_mutex_lock(&f->lock);
    f->counted_method = method;
    f->counted_part = part;
    f->view.counted = 0;
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_await_watches(struct kube_fake *f, unsigned long n)
{
    pthread_mutex_lock(&f->lock);
    while (f->n_watches != n)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_await_requests(struct kube_fake *f, unsigned long n)
{
    pthread_mutex_lock(&f->lock);
    while (f->view.requests < n)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}
