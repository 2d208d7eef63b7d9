/* pl-next: ends the current datum of a batch stage and waits for the next one. It is a static program that
 * uses libc only, so that it runs in any image. Called as "pachctl", it understands `pachctl next datum` of
 * older stage code. The lines on the socket are described in batch_server.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX 1000
/* exit codes: no more datums; wrong usage */
#define END   3
#define USAGE 2

static const char usage[] = "usage: pl-next                 the current datum is done: wait for the next one\n"
                            "       pl-next --fail MESSAGE  the current datum failed: wait for the next one\n"
                            "Exit code: 0 the next datum is in place, 3 there are no more, 1 an error occurred.\n";

static int fail(const char *what)
{
    fprintf(stderr, "pl-next: %s: %s\n", what, strerror(errno));
    return 1;
}

/* Connects to PL_NEXT_SOCKET. Its path may be longer than a socket address, so it is reached through
 * /proc/self/fd. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char folder[4096];
    const char *slash = strrchr(path, '/');
    int dir, fd, r;

    if (!slash || (size_t)(slash - path) >= sizeof(folder)) {
        errno = EINVAL;
        return -1;
    }
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (dir < 0 || fd < 0)
        return -1;
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%.64s", dir, slash + 1);
    do
        r = connect(fd, (const struct sockaddr *)&address, sizeof(address));
    while (r < 0 && errno == EINTR);
    return r < 0 ? -1 : fd;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t r = send(fd, p, n, MSG_NOSIGNAL);
        if (r < 0 && errno != EINTR)
            return false;
        p += r > 0 ? r : 0;
        n -= r > 0 ? (size_t)r : 0;
    }
    return true;
}

static size_t receive_line(int fd, char *line, size_t size)
{
    size_t n = 0;

    while (n + 1 < size) {
        ssize_t r = recv(fd, line + n, 1, 0);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0 || line[n] == '\n')
            break;
        n++;
    }
    line[n] = '\0';
    return n;
}

/* Sends the request and waits for the answer; returns the exit code. `message` NULL: the datum is done. */
static int ask(const char *message)
{
    const char *path = getenv("PL_NEXT_SOCKET");
    char line[MESSAGE_MAX + 16];
    int fd, n;

    if (!path) {
        fputs("pl-next: PL_NEXT_SOCKET is not set: pl-next works only in a stage with \"datum\": {\"batch\": true}\n", stderr);
        return 1;
    }
    n = message ? snprintf(line, sizeof(line), "fail %.*s", MESSAGE_MAX, message) : snprintf(line, sizeof(line), "next");
    for (int i = 0; i < n; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[n++] = '\n';
    fd = connect_to(path);
    if (fd < 0 || !send_all(fd, line, (size_t)n))
        return fail(path);
    if (receive_line(fd, line, sizeof(line)) == 0) {
        fputs("pl-next: the worker disconnected\n", stderr);
        return 1;
    }
    if (strcmp(line, "ok") == 0)
        return 0;
    if (strcmp(line, "end") == 0)
        return END;
    fprintf(stderr, "pl-next: %s\n", strncmp(line, "error ", 6) == 0 ? line + 6 : line);
    return 1;
}

/* Handles "pachctl next datum [--error MESSAGE]"; no other command of pachctl is supported. */
static int as_pachctl(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "next") == 0 && strcmp(argv[2], "datum") == 0) {
        if (argc == 3)
            return ask(NULL);
        if (argc == 5 && (strcmp(argv[3], "--error") == 0 || strcmp(argv[3], "-e") == 0))
            return ask(argv[4]);
        if (argc == 4 && strncmp(argv[3], "--error=", 8) == 0)
            return ask(argv[3] + 8);
    }
    fputs("pachctl: in a stage only \"pachctl next datum [--error MESSAGE]\" is supported\n", stderr);
    return USAGE;
}

int main(int argc, char **argv)
{
    const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;

    name = name ? name + 1 : argc > 0 ? argv[0] : "";
    if (strcmp(name, "pachctl") == 0)
        return as_pachctl(argc, argv);
    if (argc == 1)
        return ask(NULL);
    if (argc == 3 && strcmp(argv[1], "--fail") == 0)
        return ask(argv[2]);
    if (argc == 2 && strncmp(argv[1], "--fail=", 7) == 0)
        return ask(argv[1] + 7);
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    fputs(usage, stderr);
    return USAGE;
}
