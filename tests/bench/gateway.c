// link: storage/base storage/s3
/* pl-bench-gateway WORK HOST PORT SECRET BUCKET CONNECTIONS COUNT N: asks an S3 gateway, by requests that are signed before the clock starts,
 * over connections that stay open, each with one request under way; one thread, so that most of the machine is left to the gateway.
 *
 *   put    COUNT objects of N bytes, "objects/dd/iiiiii"          get    the same objects, in another order
 *   list   COUNT pages of 1,000 keys, each from anywhere in a bucket with N keys "dddd/fffff" as spine.py makes them
 *   parts  one object "large" of COUNT parts of N bytes
 *
 * PL_BENCH_ACCESS_KEY: the access key, for another server than ours. Bodies are signed by their hash. Prints one JSON line: seconds, requests
 * a second, p50 and p99 of a request in ms. Any answer but 2xx ends it. */
#include "storage/base/hash.h"
#include "storage/base/path.h"
#include "storage/s3/sigv4.h"
#include "storage/s3/sigv4_encoding.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define KEPT_BYTES      8192 /* of an answer */
#define READ_BYTES      (256u << 10)
#define FOLDER_KEYS     10000 /* spine.py */

struct request {
    struct pl_buf bytes;
    double sent, took;
    char *answer; /* its first KEPT_BYTES, when they are wanted */
};

struct connection {
    int fd;
    struct request *request; /* under way; NULL: none */
    size_t out, kept;        /* sent; of the answer's head */
    uint64_t left;           /* of its body */
    bool body;               /* its head is whole */
    char head[KEPT_BYTES + 1];
};

static const char *host, *port, *access_key = "pipelined", *secret, *bucket;
static struct sockaddr_in address;
static struct connection connections[CONNECTIONS_MAX];

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "pl-bench-gateway: %s\n", what);
    exit(1);
}

static void check(int r, const struct pl_err *err)
{
    if (r < 0)
        die(err->msg);
}

/* ---- requests ---- */

/* `query` may be empty. */
static void make(struct request *r, const char *method, const char *path, const struct pl_sigv4_pair *query, size_t n_query,
                 const void *body, size_t len)
{
    char time_text[PL_SIGV4_TIME_BYTES + 1], hex[PL_HASH_HEX + 1], where[256];
    struct pl_sigv4_pair headers[] = {{"host", where}, {"x-amz-content-sha256", hex}, {"x-amz-date", time_text}};
    struct pl_sigv4_request q = {method, path, query, n_query, headers, PL_ARRAY_SIZE(headers), hex};
    struct pl_sigv4_scope scope;
    struct pl_sigv4_key key;
    struct pl_hash hash;
    struct pl_err err = {0};

    pl_hash_sha256(body, len, &hash);
    pl_hash_hex(&hash, hex);
    snprintf(where, sizeof where, "%s:%s", host, port);
    pl_sigv4_time(time(NULL), time_text);
    check(pl_sigv4_scope_init(&scope, time_text, "us-east-1", "s3", &err), &err);
    check(pl_sigv4_key(secret, &scope, &key, &err), &err);
    check(pl_buf_addf(&r->bytes, &err, "%s %s%s", method, path, n_query ? "?" : ""), &err);
    check(pl_sigv4_query(query, n_query, &r->bytes, &err), &err);
    check(pl_buf_addf(&r->bytes, &err, " HTTP/1.1\r\nHost: %s\r\nx-amz-content-sha256: %s\r\nx-amz-date: %s\r\nAuthorization: ",
                      where, hex, time_text),
          &err);
    check(pl_sigv4_authorization(&q, &scope, &key, access_key, time_text, &r->bytes, NULL, &err), &err);
    check(pl_buf_addf(&r->bytes, &err, "\r\nContent-Length: %zu\r\n\r\n", len), &err);
    check(pl_buf_add(&r->bytes, body, len, &err), &err);
}

static struct request *requests_new(size_t n)
{
    struct request *r = calloc(n, sizeof *r);

    if (!r)
        die("memory");
    return r;
}

static void requests_free(struct request *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pl_buf_finish(&r[i].bytes);
        free(r[i].answer);
    }
    free(r);
}

static void fill(uint8_t *out, size_t n, uint64_t seed)
{
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t x = pl_splitmix64(&seed);

        memcpy(out + i, &x, 8);
    }
}

/* ---- asking ---- */

static void dial(struct connection *c)
{
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void push(struct connection *c)
{
    struct request *r = c->request;

    while (r && c->out < r->bytes.len) {
        ssize_t n = send(c->fd, r->bytes.data + c->out, r->bytes.len - c->out, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            die("a connection ended while sending");
        c->out += (size_t)n;
    }
}

static void begin(struct connection *c, struct request *r)
{
    c->request = r;
    c->out = c->kept = 0;
    c->body = false;
    if (r) {
        r->sent = now();
        push(c);
    }
}

static void read_head(struct connection *c, size_t head)
{
    const char *length = strcasestr(c->head, "\r\ncontent-length:");
    size_t here = c->kept - head;

    if (strncmp(c->head, "HTTP/1.1 2", 10) != 0)
        die(c->head);
    c->left = length ? strtoull(length + 17, NULL, 10) : 0;
    if (here > c->left)
        die("more than one answer");
    c->left -= here;
    c->body = true;
}

/* Some of what has come; false: nothing has. */
static bool take_some(struct connection *c, bool wanted)
{
    static char bytes[READ_BYTES];
    const char *end;
    ssize_t n;

    if (c->body && !wanted) {
        n = recv(c->fd, bytes, (size_t)PL_MIN(c->left, (uint64_t)sizeof bytes), MSG_DONTWAIT);
    } else {
        n = recv(c->fd, c->head + c->kept, KEPT_BYTES - c->kept, MSG_DONTWAIT);
        if (n == 0 || c->kept == KEPT_BYTES)
            die("an answer is longer than is wanted");
    }
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0)
        die("a connection ended");
    if (c->body) {
        c->left -= (uint64_t)n;
        c->kept += wanted ? (size_t)n : 0;
    } else {
        c->kept += (size_t)n;
        c->head[c->kept] = '\0';
        end = strstr(c->head, "\r\n\r\n");
        if (end)
            read_head(c, (size_t)(end + 4 - c->head));
    }
    return true;
}

/* All that has come; true: the answer is whole. */
static bool pull(struct connection *c, bool wanted)
{
    while (!(c->body && !c->left))
        if (!take_some(c, wanted))
            return false;
    return true;
}

static void done(struct connection *c, bool wanted)
{
    struct request *r = c->request;

    r->took = now() - r->sent;
    if (!wanted)
        return;
    c->head[c->kept] = '\0';
    r->answer = strdup(c->head);
}

/* All of them; the seconds that it took. */
static double ask(struct request *r, size_t n, unsigned n_connections, bool wanted)
{
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[CONNECTIONS_MAX];
    size_t next = 0, ended = 0;
    double began;

    for (unsigned i = 0; i < n_connections; i++) {
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &connections[i]};

        dial(&connections[i]);
        epoll_ctl(loop, EPOLL_CTL_ADD, connections[i].fd, &e);
    }
    began = now();
    for (unsigned i = 0; i < n_connections; i++)
        begin(&connections[i], next < n ? &r[next++] : NULL);
    while (ended < n) {
        int k = epoll_wait(loop, events, CONNECTIONS_MAX, 30000);

        if (k <= 0)
            die("nothing comes");
        for (int i = 0; i < k; i++) {
            struct connection *c = events[i].data.ptr;

            push(c);
            while (c->request && pull(c, wanted)) {
                done(c, wanted);
                ended++;
                begin(c, next < n ? &r[next++] : NULL);
            }
        }
    }
    began = now() - began;
    for (unsigned i = 0; i < n_connections; i++)
        close(connections[i].fd);
    close(loop);
    return began;
}

static int by_time(const void *a, const void *b)
{
    const struct request *x = a, *y = b;

    return (x->took > y->took) - (x->took < y->took);
}

static void tell(struct request *r, size_t n, double seconds)
{
    qsort(r, n, sizeof *r, by_time);
    printf("{\"seconds\": %.4f, \"per_second\": %.0f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}\n", seconds, (double)n / seconds,
           r[n / 2].took * 1e3, r[n * 99 / 100].took * 1e3);
}

/* ---- works ---- */

static void objects(bool put, unsigned n_connections, size_t count, size_t size)
{
    struct request *r = requests_new(count);
    uint8_t *body = calloc(1, size + 8);
    uint64_t salt = (uint64_t)time(NULL);
    char path[512];
    double took;

    for (size_t i = 0; i < count; i++) {
        size_t k = put ? i : i * 7919 % count;

        snprintf(path, sizeof path, "/%s/objects/%02zu/%06zu", bucket, k % 100, k);
        if (put)
            fill(body, size, salt + i);
        make(&r[i], put ? "PUT" : "GET", path, NULL, 0, body, put ? size : 0);
    }
    took = ask(r, count, n_connections, false);
    tell(r, count, took);
    requests_free(r, count);
    free(body);
}

static void pages(unsigned n_connections, size_t count, size_t keys)
{
    struct request *r = requests_new(count);
    char path[512], after[64];
    double took;

    snprintf(path, sizeof path, "/%s", bucket);
    for (size_t i = 0; i < count; i++) {
        size_t k = i * 104729 % keys;
        const struct pl_sigv4_pair query[] = {{"list-type", "2"}, {"start-after", after}};

        snprintf(after, sizeof after, "d%03zu/f%05zu", k / FOLDER_KEYS, k % FOLDER_KEYS);
        make(&r[i], "GET", path, query, PL_ARRAY_SIZE(query), "", 0);
    }
    took = ask(r, count, n_connections, false);
    tell(r, count, took);
    requests_free(r, count);
}

/* What stands between two texts, up to 127 bytes. */
static void between(const char *text, const char *before, const char *behind, char ret[128])
{
    const char *from = strcasestr(text, before), *to = from ? strstr(from + strlen(before), behind) : NULL;

    if (!to || to - from - (ptrdiff_t)strlen(before) > 127)
        die(text);
    snprintf(ret, 128, "%.*s", (int)(to - from - (ptrdiff_t)strlen(before)), from + strlen(before));
}

static void make_parts(struct request *r, const char *path, const char *upload, size_t count, size_t size)
{
    uint8_t *body = calloc(1, size + 8);
    uint64_t salt = (uint64_t)time(NULL);
    char number[24];

    if (!body)
        die("memory");
    for (size_t i = 0; i < count; i++) {
        const struct pl_sigv4_pair query[] = {{"partNumber", number}, {"uploadId", upload}};

        snprintf(number, sizeof number, "%zu", i + 1);
        fill(body, size, salt + i);
        make(&r[i], "PUT", path, query, PL_ARRAY_SIZE(query), body, size);
    }
    free(body);
}

static void parts(unsigned n_connections, size_t count, size_t size)
{
    struct request *r = requests_new(count + 2), *last = &r[count + 1];
    struct pl_buf xml = {0};
    char path[512], upload[128], etag[128];
    struct pl_err err = {0};
    double took;

    snprintf(path, sizeof path, "/%s/large", bucket);
    make(&r[0], "POST", path, &(struct pl_sigv4_pair){"uploads", ""}, 1, "", 0);
    took = ask(&r[0], 1, 1, true);
    between(r[0].answer, "<UploadId>", "</UploadId>", upload);
    make_parts(r + 1, path, upload, count, size);
    took += ask(r + 1, count, n_connections, true);
    check(pl_buf_addf(&xml, &err, "<CompleteMultipartUpload>"), &err);
    for (size_t i = 0; i < count; i++) {
        between(r[1 + i].answer, "\r\nETag: ", "\r\n", etag);
        check(pl_buf_addf(&xml, &err, "<Part><PartNumber>%zu</PartNumber><ETag>%s</ETag></Part>", i + 1, etag), &err);
    }
    check(pl_buf_addf(&xml, &err, "</CompleteMultipartUpload>"), &err);
    make(last, "POST", path, &(struct pl_sigv4_pair){"uploadId", upload}, 1, xml.data, xml.len);
    took += ask(last, 1, 1, true);
    tell(r, count + 2, took);
    pl_buf_finish(&xml);
    requests_free(r, count + 2);
}

int main(int argc, char **argv)
{
    unsigned n_connections;
    size_t count, n;

    if (argc != 9)
        die("usage: pl-bench-gateway put|get|list|parts HOST PORT SECRET BUCKET CONNECTIONS COUNT N");
    host = argv[2];
    port = argv[3];
    secret = argv[4];
    if (getenv("PL_BENCH_ACCESS_KEY"))
        access_key = getenv("PL_BENCH_ACCESS_KEY");
    bucket = argv[5];
    n_connections = (unsigned)atoi(argv[6]);
    count = strtoull(argv[7], NULL, 10);
    n = strtoull(argv[8], NULL, 10);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1 || n_connections < 1 || n_connections > CONNECTIONS_MAX || !count || !n)
        die("numbers");
    if (pl_streq(argv[1], "put") || pl_streq(argv[1], "get"))
        objects(pl_streq(argv[1], "put"), n_connections, count, n);
    else if (pl_streq(argv[1], "list"))
        pages(n_connections, count, n);
    else if (pl_streq(argv[1], "parts"))
        parts(n_connections, count, n);
    else
        die("no such work");
    return 0;
}
