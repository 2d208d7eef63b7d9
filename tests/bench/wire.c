// link:
/* pl-bench-wire PORT DELAY_MS [TRACE]: stands between S3 clients and the server at 127.0.0.1:PORT. Prints its own port; for each line that it
 * reads, what passed since the line before: {"requests": {"GET": 3, …}, "up": bytes, "down": bytes, "connections": n}. Ends with its input.
 *
 * With a delay every round trip takes so much longer: half of it each way, and once more for a new connection, as a handshake would. What
 * is under way is bounded by memory alone (QUEUE_MAX a direction), not by a window. TRACE: a file that gets a line a request. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 << 10)
#define QUEUE_MAX  ((size_t)256 << 20)
#define HEAD_MAX   65536
#define METHODS    8

struct piece {
    struct piece *next;
    int64_t due_us;
    size_t n;
    char bytes[];
};

enum parse { IN_HEAD, IN_BODY, IN_CHUNK_SIZE, IN_CHUNK, IN_TRAILER };

/* One direction of a connection. */
struct way {
    struct pair *pair;
    int from, to;
    bool up;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct piece *first, *last; /* on their way */
    size_t queued;
    bool ended;
    enum parse state;
    uint64_t body; /* bytes of it, or of the chunk with its line end, that are to come */
    size_t head_len;
    char head[HEAD_MAX + 1];
};

struct pair {
    int client, server;
    pthread_mutex_t lock;
    int open; /* ways */
    struct way ways[2];
};

static struct {
    pthread_mutex_t lock;
    char methods[METHODS][16];
    uint64_t requests[METHODS], bytes[2], connections;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};
static int64_t delay_us;
static in_port_t target_port;
static FILE *trace;

static void die(const char *what)
{
    fprintf(stderr, "pl-bench-wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

/* --- what passes --- */

static const char *header_of(const char *head, const char *name)
{
    const size_t n = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':')
            return line + 3 + n + strspn(line + 3 + n, " ");
    return NULL;
}

static void note_request(const char *head)
{
    const char *range = header_of(head, "Range");
    const int method = (int)strcspn(head, " ");
    int i = 0;

    pthread_mutex_lock(&seen.lock);
    while (i < METHODS - 1 && seen.methods[i][0] && (strncmp(seen.methods[i], head, (size_t)method) || seen.methods[i][method]))
        i++;
    snprintf(seen.methods[i], sizeof seen.methods[i], "%.*s", method, head);
    seen.requests[i]++;
    if (trace)
        fprintf(trace, "%lld %.*s %.*s\n", (long long)now_us() / 1000, (int)strcspn(head, "?\r"), head,
                range ? (int)strcspn(range, "\r") : 0, range ? range : "");
    pthread_mutex_unlock(&seen.lock);
}

static void end_head(struct way *w)
{
    const char *length, *coding;

    w->head[w->head_len] = '\0';
    note_request(w->head);
    length = header_of(w->head, "Content-Length");
    coding = header_of(w->head, "Transfer-Encoding");
    w->body = length ? strtoull(length, NULL, 10) : 0;
    w->state = coding && strncasecmp(coding, "chunked", 7) == 0 ? IN_CHUNK_SIZE : w->body ? IN_BODY : IN_HEAD;
    w->head_len = 0;
}

/* The end of a line of a chunked body. */
static void end_line(struct way *w)
{
    const bool empty = w->head_len <= 2;

    w->head[w->head_len] = '\0';
    w->head_len = 0;
    if (w->state == IN_TRAILER) {
        w->state = empty ? IN_HEAD : IN_TRAILER;
        return;
    }
    w->body = strtoull(w->head, NULL, 16);
    w->state = w->body ? IN_CHUNK : IN_TRAILER;
    w->body += 2;
}

static void follow(struct way *w, const char *bytes, size_t n)
{
    while (n > 0) {
        if (w->state == IN_BODY || w->state == IN_CHUNK) {
            const uint64_t some = n < w->body ? n : w->body;

            bytes += some;
            n -= some;
            w->body -= some;
            if (w->body == 0)
                w->state = w->state == IN_BODY ? IN_HEAD : IN_CHUNK_SIZE;
            continue;
        }
        if (w->head_len == HEAD_MAX)
            w->head_len = 0; /* no HTTP: nothing is counted */
        w->head[w->head_len++] = *bytes++;
        n--;
        if (w->state == IN_HEAD && w->head_len >= 4 && memcmp(w->head + w->head_len - 4, "\r\n\r\n", 4) == 0)
            end_head(w);
        else if (w->state != IN_HEAD && w->head[w->head_len - 1] == '\n')
            end_line(w);
    }
}

static void note(struct way *w, const char *bytes, size_t n)
{
    if (w->up)
        follow(w, bytes, n);
    pthread_mutex_lock(&seen.lock);
    seen.bytes[w->up] += n;
    pthread_mutex_unlock(&seen.lock);
}

/* --- one direction --- */

static bool send_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t some = send(fd, bytes, n, MSG_NOSIGNAL);

        if (some < 0)
            return false;
        bytes += some;
        n -= (size_t)some;
    }
    return true;
}

/* The last of both closes. */
static void end_way(struct way *w)
{
    struct pair *p = w->pair;
    bool last;

    shutdown(w->to, SHUT_WR);
    pthread_mutex_lock(&p->lock);
    last = --p->open == 0;
    pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    close(p->client);
    close(p->server);
    free(p);
}

static void *carry_at_once(void *arg)
{
    struct way *w = arg;
    char *bytes = malloc(READ_BYTES);
    ssize_t n;

    while (bytes && (n = recv(w->from, bytes, READ_BYTES, 0)) > 0) {
        note(w, bytes, (size_t)n);
        if (!send_all(w->to, bytes, (size_t)n)) {
            shutdown(w->from, SHUT_RD);
            break;
        }
    }
    free(bytes);
    end_way(w);
    return NULL;
}

static void *take_in(void *arg)
{
    struct way *w = arg;
    const int64_t begins_us = now_us() + (w->up ? delay_us : 0); /* nothing is sent before the handshake is over */
    char *bytes = malloc(READ_BYTES);
    ssize_t n;

    while (bytes && (n = recv(w->from, bytes, READ_BYTES, 0)) > 0) {
        struct piece *p = malloc(sizeof *p + (size_t)n);

        if (!p)
            break;
        *p = (struct piece){.due_us = (now_us() > begins_us ? now_us() : begins_us) + delay_us / 2, .n = (size_t)n};
        memcpy(p->bytes, bytes, (size_t)n);
        note(w, bytes, (size_t)n);
        pthread_mutex_lock(&w->lock);
        while (w->queued > QUEUE_MAX)
            pthread_cond_wait(&w->change, &w->lock);
        if (w->first)
            w->last->next = p;
        else
            w->first = p;
        w->last = p;
        w->queued += p->n;
        pthread_cond_broadcast(&w->change);
        pthread_mutex_unlock(&w->lock);
    }
    free(bytes);
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static struct piece *next_piece(struct way *w)
{
    struct piece *p;

    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->ended)
        pthread_cond_wait(&w->change, &w->lock);
    p = w->first;
    if (p) {
        w->first = p->next;
        w->queued -= p->n;
        pthread_cond_broadcast(&w->change);
    }
    pthread_mutex_unlock(&w->lock);
    return p;
}

static void *carry_later(void *arg)
{
    struct way *w = arg;
    struct piece *p;
    pthread_t reader;
    bool broken = false;

    if (pthread_create(&reader, NULL, take_in, w) != 0)
        die("thread");
    while ((p = next_piece(w)) != NULL) {
        const struct timespec due = {.tv_sec = p->due_us / 1000000, .tv_nsec = p->due_us % 1000000 * 1000};

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        if (!broken && !send_all(w->to, p->bytes, p->n)) {
            broken = true;
            shutdown(w->from, SHUT_RD);
        }
        free(p);
    }
    pthread_join(reader, NULL);
    end_way(w);
    return NULL;
}

/* --- connections --- */

static void connect_pair(int client)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(target_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct pair *p = calloc(1, sizeof *p);
    const int one = 1;

    if (!p)
        die("memory");
    *p = (struct pair){
        .client = client, .server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .lock = PTHREAD_MUTEX_INITIALIZER, .open = 2};
    if (p->server < 0 || connect(p->server, (const struct sockaddr *)&to, sizeof to) < 0)
        die("connect");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(p->server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < 2; i++) {
        struct way *w = &p->ways[i];
        pthread_t thread;

        w->pair = p;
        w->up = i == 0;
        w->from = w->up ? client : p->server;
        w->to = w->up ? p->server : client;
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->change, NULL);
        if (pthread_create(&thread, NULL, delay_us ? carry_later : carry_at_once, w) != 0)
            die("thread");
        pthread_detach(thread);
    }
}

static void *accept_all(void *arg)
{
    const int listener = *(const int *)arg;

    for (;;) {
        const int client = accept(listener, NULL, NULL);

        if (client < 0)
            die("accept");
        pthread_mutex_lock(&seen.lock);
        seen.connections++;
        pthread_mutex_unlock(&seen.lock);
        connect_pair(client);
    }
    return NULL;
}

static int listen_anywhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 1024) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        die("listen");
    printf("%u\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static void tell(void)
{
    const char *comma = "";

    pthread_mutex_lock(&seen.lock);
    printf("{\"requests\": {");
    for (int i = 0; i < METHODS && seen.methods[i][0]; i++) {
        printf("%s\"%s\": %llu", comma, seen.methods[i], (unsigned long long)seen.requests[i]);
        seen.requests[i] = 0;
        comma = ", ";
    }
    printf("}, \"up\": %llu, \"down\": %llu, \"connections\": %llu}\n", (unsigned long long)seen.bytes[1],
           (unsigned long long)seen.bytes[0], (unsigned long long)seen.connections);
    seen.bytes[0] = seen.bytes[1] = seen.connections = 0;
    if (trace)
        fflush(trace);
    pthread_mutex_unlock(&seen.lock);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char line[16];
    int listener;

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: pl-bench-wire PORT DELAY_MS [TRACE]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    target_port = (in_port_t)atoi(argv[1]);
    delay_us = atoll(argv[2]) * 1000;
    if (argc > 3 && !(trace = fopen(argv[3], "we")))
        die(argv[3]);
    listener = listen_anywhere();
    if (pthread_create(&thread, NULL, accept_all, &listener) != 0)
        die("thread");
    while (fgets(line, sizeof line, stdin))
        tell();
    return 0;
}
