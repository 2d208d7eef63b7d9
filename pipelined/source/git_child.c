/* git_child: two pipes, read with poll. */
#include "pipelined/source/git_child.h"

#include "pipelined/policy/project_secret.h"
#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

/* Variables of the daemon's environment that the process gets: it reads data of strangers, and others may hold secrets. */
static const char *const passed[] = {"PATH", "LANG", "TZ", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};

struct pl_git_child {
    const char *program;
    const char **argv;
    pid_t pid; /* 0 = no process runs */
    int in, out;
    int cancel;                             /* an eventfd, readable from pl_git_child_cancel on */
    int64_t until_ms, patience_ms, last_ms; /* progress sets until_ms anew by patience_ms, but not beyond last_ms */
    struct pl_buf got;                      /* received, from `at` on not yet used */
    size_t at;
};

int pl_git_child_create(const struct pl_git_child_config *config, struct pl_git_child **ret, struct pl_err *err)
{
    struct pl_git_child *c = calloc(1, sizeof *c);

    if (!c)
        return pl_err_nomem(err);
    c->program = config->program;
    c->in = c->out = -1;
    c->cancel = eventfd(0, EFD_CLOEXEC);
    c->argv = calloc(config->n_readable + 5, sizeof *c->argv);
    if (!c->argv || c->cancel < 0) {
        pl_git_child_destroy(c);
        return pl_err_nomem(err);
    }
    c->argv[0] = "pl-git";
    c->argv[1] = "serve";
    c->argv[2] = config->folder;
    c->argv[3] = config->rules;
    for (size_t i = 0; i < config->n_readable; i++)
        c->argv[4 + i] = config->readable[i];
    *ret = c;
    return 0;
}

static void end(struct pl_git_child *c, bool at_once)
{
    if (!c->pid)
        return;
    if (at_once)
        kill(c->pid, SIGKILL);
    pl_closep(&c->in); /* it ends at the end of its input */
    pl_closep(&c->out);
    c->in = c->out = -1;
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
    pl_buf_clear(&c->got);
    c->at = 0;
}

void pl_git_child_rest(struct pl_git_child *c)
{
    end(c, false);
}

void pl_git_child_drop(struct pl_git_child *c)
{
    end(c, true);
}

void pl_git_child_cancel(struct pl_git_child *c)
{
    const uint64_t one = 1;

    (void)!write(c->cancel, &one, sizeof one);
}

struct pl_git_child *pl_git_child_destroy(struct pl_git_child *c)
{
    if (!c)
        return NULL;
    end(c, true);
    pl_buf_finish(&c->got);
    pl_closep(&c->cancel);
    free(c->argv);
    free(c);
    return NULL;
}

static int start(struct pl_git_child *c, struct pl_err *err)
{
    /* libgit2 looks for known hosts below HOME, and fails if there is none */
    char names[PL_ARRAY_SIZE(passed)][1024], *environment[PL_ARRAY_SIZE(passed) + 2] = {(char[]){"HOME=/nonexistent"}};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int in[2], out[2], e;
    size_t n = 1;
    sigset_t set;

    if (pipe2(in, O_CLOEXEC) < 0)
        return pl_err_errno(err, errno, "pipe");
    if (pipe2(out, O_CLOEXEC) < 0) {
        e = errno;
        close(in[0]);
        close(in[1]);
        return pl_err_errno(err, e, "pipe");
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    sigemptyset(&set);
    posix_spawnattr_setsigmask(&attributes, &set);
    sigaddset(&set, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    for (size_t i = 0; i < PL_ARRAY_SIZE(passed); i++) {
        const char *value = getenv(passed[i]);

        if (value && snprintf(names[i], sizeof names[i], "%s=%s", passed[i], value) < (int)sizeof names[i])
            environment[n++] = names[i];
    }
    environment[n] = NULL;
    e = posix_spawn(&c->pid, c->program, &actions, &attributes, (char *const *)(uintptr_t)c->argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    if (e) {
        close(in[1]);
        close(out[0]);
        c->pid = 0;
        return pl_err_set(err, PL_EUNAVAILABLE, "cannot start %s: %s", c->program, strerror(e));
    }
    c->in = in[1];
    c->out = out[0];
    return 0;
}

/* Waits until the process can be read from. */
static int wait_for(struct pl_git_child *c, struct pl_err *err)
{
    for (;;) {
        struct pollfd p[] = {{.fd = c->out, .events = POLLIN}, {.fd = c->cancel, .events = POLLIN}};
        const int64_t now_ms = pl_clock_mono_ms();
        const int64_t left = PL_MAX(c->until_ms - now_ms, (int64_t)0);

        if (poll(p, 2, (int)PL_MIN(left, (int64_t)INT32_MAX)) < 0 && errno != EINTR)
            return pl_err_errno(err, errno, "poll");
        if (p[1].revents)
            return pl_err_set(err, PL_ECANCELED, "the daemon stops");
        if (p[0].revents)
            return 0;
        if (left == 0) /* nothing was there at the end: what came while this thread did not run is an answer in time */
            return pl_err_set(err, PL_ETIMEOUT, "the repository did not answer in time");
    }
}

/* Receives more bytes. Returns their number. */
static ssize_t receive(struct pl_git_child *c, void *out, size_t n, struct pl_err *err)
{
    int r = c->pid ? wait_for(c, err) : pl_err_set(err, PL_EIO, "pl-git does not run");
    ssize_t got = r < 0 ? r : read(c->out, out, n);

    if (r == 0 && got == 0)
        r = pl_err_set(err, PL_EIO, "pl-git ended without an answer");
    else if (r == 0 && got < 0)
        r = pl_err_errno(err, errno, "pl-git");
    if (r < 0)
        end(c, true);
    return r < 0 ? r : got;
}

/* Sends one line, which is shorter than a pipe holds, and which the process reads before it answers. */
static int send_line(struct pl_git_child *c, const char *text, struct pl_err *err)
{
    struct pl_err why = {0};
    int r = c->pid ? 0 : start(c, err);

    if (r < 0)
        return r;
    if (pl_io_write(c->in, text, strlen(text), "pl-git", &why) == 0 && pl_io_write(c->in, "\n", 1, "pl-git", &why) == 0)
        return 0;
    end(c, true);
    return pl_err_set(err, PL_EIO, "pl-git ended: %s", why.msg);
}

int pl_git_child_ask(struct pl_git_child *c, json_t *request, int64_t ms, struct pl_err *err)
{
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    int r;

    pl_secret_values_erase(json_object_get(request, "secret"));
    json_decref(request);
    if (!text)
        return pl_err_nomem(err);
    c->patience_ms = ms;
    c->until_ms = pl_clock_mono_ms() + ms;
    c->last_ms = pl_clock_mono_ms() + PL_GIT_ASK_MS_MAX;
    r = send_line(c, text, err);
    explicit_bzero(text, strlen(text));
    free(text);
    return r;
}

/* An error that the process reports. */
static int reported(const json_t *line, struct pl_err *err)
{
    const int code = (int)json_integer_value(json_object_get(line, "error"));
    const char *message = json_string_value(json_object_get(line, "message"));

    return pl_err_set(err, code < 0 && pl_err_info(code)->code == code ? code : PL_EIO, "%s",
                      message ? message : "pl-git failed");
}

/* Receives one line. */
static int receive_line(struct pl_git_child *c, json_t **ret, struct pl_err *err)
{
    const uint8_t *newline;
    json_t *line;

    while (!(newline = c->got.len > c->at ? memchr(c->got.data + c->at, '\n', c->got.len - c->at) : NULL)) {
        ssize_t n;
        int r = 0;

        if (c->at) {
            memmove(c->got.data, c->got.data + c->at, c->got.len - c->at);
            c->got.len -= c->at;
            c->at = 0;
        }
        if (c->got.len > PL_GIT_LINE_BYTES_MAX)
            r = pl_err_set(err, PL_EIO, "pl-git sent no answer");
        r = r < 0 ? r : pl_buf_reserve(&c->got, 4096, err);
        n = r < 0 ? r : receive(c, c->got.data + c->got.len, 4096, err);
        if (n < 0) {
            end(c, true);
            return (int)n;
        }
        c->got.len += (size_t)n;
    }
    line = json_loadb((const char *)c->got.data + c->at, (size_t)(newline - (c->got.data + c->at)), JSON_REJECT_DUPLICATES, NULL);
    c->at = (size_t)(newline - c->got.data) + 1;
    if (!json_is_object(line)) {
        json_decref(line);
        end(c, true);
        return pl_err_set(err, PL_EIO, "pl-git sent no answer");
    }
    *ret = line;
    return 0;
}

int pl_git_child_line(struct pl_git_child *c, json_t **ret, struct pl_err *err)
{
    json_t *line = NULL;
    int r;

    while ((r = receive_line(c, &line, err)) == 0 && json_is_true(json_object_get(line, "progress"))) {
        c->until_ms = PL_MIN(pl_clock_mono_ms() + c->patience_ms, c->last_ms);
        json_decref(line);
    }
    if (r == 0 && json_object_get(line, "error")) {
        r = reported(line, err);
        json_decref(line);
    } else if (r == 0) {
        *ret = line;
    }
    return r;
}

ssize_t pl_git_child_bytes(struct pl_git_child *c, void *out, size_t n, struct pl_err *err)
{
    const size_t there = PL_MIN(n, c->got.len - c->at);

    if (there == 0)
        return receive(c, out, n, err);
    memcpy(out, c->got.data + c->at, there);
    c->at += there;
    return (ssize_t)there;
}
