// link:
/* puts: many small files into a daemon, one request each, over several connections that stay open.
 *
 *   puts HOST PORT TOKEN TARGET CONNECTIONS FILES BYTES
 *
 * TARGET is the path of the files ("/api/v1/repos/default/in/open/ID/files"); file i is TARGET/dd/iiiiii. Prints one JSON line: seconds,
 * files a second, p50 and p99 of a request in ms. Any answer but 2xx ends it. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char *token, *target;
static struct sockaddr_in address;
static unsigned files, bytes;
static atomic_uint next_file;
static unsigned salt; /* other bytes each time */
static double *took;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
    fprintf(stderr, "puts: %s\n", what);
    exit(1);
}

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* One answer with a Content-Length. */
static void read_answer(int fd)
{
    char in[8192], *end = NULL, *length;
    size_t n = 0, want = sizeof in - 1;

    while (n < want) {
        ssize_t got = read(fd, in + n, sizeof in - 1 - n);

        if (got <= 0)
            die("the connection ended");
        n += (size_t)got;
        in[n] = '\0';
        if (!end && (end = strstr(in, "\r\n\r\n"))) {
            length = strcasestr(in, "content-length:");
            want = (size_t)(end + 4 - in) + (length ? strtoul(length + 15, NULL, 10) : 0);
        }
    }
    if (strncmp(in, "HTTP/1.1 2", 10) != 0)
        die(in);
}

static void put_one(int fd, char *out, unsigned i)
{
    size_t n = (size_t)sprintf(out,
                               "PUT %s/%02u/%06u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAuthorization: Bearer %s\r\n"
                               "Content-Length: %u\r\n\r\n",
                               target, i % 100, i, ntohs(address.sin_port), token, bytes);
    unsigned seed = (i + salt) * 2654435761u + 1;

    for (unsigned k = 0; k < bytes; k++) {
        seed = seed * 1664525u + 1013904223u;
        out[n++] = (char)(seed >> 24);
    }
    for (size_t at = 0; at < n;) {
        ssize_t wrote = write(fd, out + at, n - at);

        if (wrote <= 0)
            die("write");
        at += (size_t)wrote;
    }
    read_answer(fd);
}

static void *connection(void *arg)
{
    char *out = malloc(bytes + 4096);
    int fd = dial();
    unsigned i;

    (void)arg;
    while ((i = atomic_fetch_add(&next_file, 1)) < files) {
        double before = now();

        put_one(fd, out, i);
        took[i] = now() - before;
    }
    close(fd);
    free(out);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    unsigned connections;
    pthread_t threads[256];
    double begin;

    if (argc != 8)
        die("usage: puts HOST PORT TOKEN TARGET CONNECTIONS FILES BYTES");
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &address.sin_addr);
    token = argv[3];
    target = argv[4];
    connections = (unsigned)atoi(argv[5]);
    files = (unsigned)atoi(argv[6]);
    bytes = (unsigned)atoi(argv[7]);
    took = calloc(files + 1, sizeof *took);
    if (connections == 0 || connections > 256 || files == 0 || !took)
        die("numbers");
    salt = (unsigned)time(NULL) * 100003u;
    begin = now();
    for (unsigned i = 0; i < connections; i++)
        pthread_create(&threads[i], NULL, connection, NULL);
    for (unsigned i = 0; i < connections; i++)
        pthread_join(threads[i], NULL);
    begin = now() - begin;
    qsort(took, files, sizeof *took, by_size);
    printf("{\"seconds\": %.3f, \"files_per_s\": %.0f, \"p50_ms\": %.2f, \"p99_ms\": %.2f}\n", begin, files / begin,
           took[files / 2] * 1e3, took[files * 99ull / 100] * 1e3);
    free(took);
    return 0;
}
