/* Speaks the frames of runner_protocol.h over a socket pair (in a pod: a unix socket) and reads the command's
 * output from a pipe. Everything happens in poll loops on the caller's thread; an eventfd wakes them. */
#include "pipelined/agent/command/runner_client.h"

#include "pipelined/agent/command/unix_socket.h"
#include "pipelined/agent/sandbox/seccomp.h"
#include "pipelined/agent/sandbox/user_namespace.h"
#include "pipelined/text/quantity.h"
#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/cgroup.h"
#include "storage/system/io.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SECCOMP_FD_IN_CHILD 10
#define USERNS_FD_IN_CHILD  12 /* not 11, because that is PL_RUNNER_HELD_FD */
#define START_MS            10000
#define START_TRIES         3 /* attempts to start a sandbox that is killed while it starts */
#define STOP_MS             2000
/* time for pl-runner to make files accessible to the agent; there may be very many files */
#define SHARE_MS          600000
#define OUTPUT_READ_BYTES 65536
#define OUTPUT_PIPE_BYTES (256 << 10)

struct pl_runner_client {
    const struct pl_sandbox_config *config;
    /* process id of bwrap, or of the runner if it runs without bwrap; 0 = not started, or in a pod */
    pid_t pid;
    int control_fd; /* the agent's end of the control socket; -1 = the client is down */
    int output_fd;  /* the agent's end of the output pipe, non-blocking */
    int wake_fd;
    /* received bytes that have not been processed */
    uint8_t in[PL_RUNNER_HEAD_BYTES + PL_RUNNER_EXIT_BYTES];
    size_t in_len;
    bool has_exit; /* `exit` holds an EXIT frame that arrived while another answer was expected */
    uint8_t exit[PL_RUNNER_EXIT_BYTES];
    int64_t next_tick_ms;           /* monotonic time of the next call of on_tick; 0 = not set */
    int64_t began_us;               /* monotonic time when the running command began */
    struct pl_cgroup_memory memory; /* memory state of the sandbox's cgroup when the running command began */
    bool used_up;                   /* the client is down because the sandbox's cgroup ran out of memory */
    uint8_t output[OUTPUT_READ_BYTES];
};

int pl_runner_client_create(const struct pl_sandbox_config *config, struct pl_runner_client **ret, struct pl_err *err)
{
    struct pl_runner_client *c = calloc(1, sizeof(*c));

    if (!c)
        return pl_err_nomem(err);
    c->config = config;
    c->control_fd = c->output_fd = -1;
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0) {
        free(c);
        return pl_err_errno(err, errno, "cannot create an eventfd");
    }
    *ret = c;
    return 0;
}

bool pl_runner_client_up(const struct pl_runner_client *c)
{
    return c->control_fd >= 0;
}

/* Starts bwrap or the runner. Uses posix_spawn, because the agent has other threads. The child gets its own
 * session, so that signals of a terminal do not reach it. */
static int spawn(const struct pl_sandbox_argv *argv, int control, int output, int seccomp, int userns, int held, pid_t *ret_pid,
                 struct pl_err *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r;

    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    sigfillset(&all);
    r = posix_spawn_file_actions_adddup2(&files, control, STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
    if (r == 0 && seccomp >= 0)
        r = posix_spawn_file_actions_adddup2(&files, seccomp, SECCOMP_FD_IN_CHILD);
    if (r == 0 && userns >= 0)
        r = posix_spawn_file_actions_adddup2(&files, userns, USERNS_FD_IN_CHILD);
    /* duplicate `held` last: before this point one of the other descriptors may have the number
     * PL_RUNNER_HELD_FD */
    if (r == 0 && held > 0)
        r = posix_spawn_file_actions_adddup2(&files, held, PL_RUNNER_HELD_FD);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (r == 0)
        r = posix_spawnp(ret_pid, argv->v[0], &files, &attr, argv->v, argv->env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    if (r == ENOENT)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s is not installed", argv->v[0]);
    return r ? pl_err_errno(err, r, "cannot start %s", argv->v[0]) : 0;
}

static void close_fd(int *fd)
{
    pl_closep(fd);
    *fd = -1;
}

/* Waits until `fd` is readable or `deadline_ms` (monotonic) has passed. True if it is readable. */
static bool wait_readable(int fd, int64_t deadline_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r;

    do {
        int64_t left = deadline_ms - pl_clock_mono_ms();
        r = poll(&p, 1, left > 0 ? (int)left : 0);
    } while (r < 0 && errno == EINTR);
    return r > 0;
}

/* Returns 1 if the receive buffer begins with a complete frame, 0 if not. PL_EIO: the frame is longer than
 * any valid one. */
static int has_frame(const struct pl_runner_client *c, struct pl_err *err)
{
    size_t want;

    if (c->in_len < PL_RUNNER_HEAD_BYTES)
        return 0;
    want = pl_runner_get32(c->in);
    if (want > PL_RUNNER_EXIT_BYTES)
        return pl_err_set(err, PL_EIO, "pl-runner sent an invalid frame of %zu bytes", want);
    return c->in_len >= PL_RUNNER_HEAD_BYTES + want;
}

/* Removes the first frame from the receive buffer. */
static void drop_frame(struct pl_runner_client *c)
{
    const size_t n = PL_RUNNER_HEAD_BYTES + pl_runner_get32(c->in);

    memmove(c->in, c->in + n, c->in_len - n);
    c->in_len -= n;
}

/* Reads available bytes of the next frame. 1: the frame is complete. 0: not yet. PL_EIO: the runner has
 * disconnected. */
static int read_frame(struct pl_runner_client *c, struct pl_err *err)
{
    int r = has_frame(c, err);
    ssize_t n;

    if (r != 0)
        return r;
    n = recv(c->control_fd, c->in + c->in_len, sizeof(c->in) - c->in_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return pl_err_set(err, PL_EIO, "pl-runner disconnected");
    c->in_len += (size_t)n;
    return has_frame(c, err);
}

/* Waits at most `wait_ms` for bwrap or the runner to end, then kills it. Returns its wait status. The kernel
 * ends all processes of the sandbox when the sandbox's process 1 ends. */
static int collect(struct pl_runner_client *c, int wait_ms)
{
    int status = 0;
    _cleanup_close_ int pid_fd = c->pid > 0 ? (int)syscall(SYS_pidfd_open, c->pid, 0) : -1;

    if (c->pid == 0)
        return 0; /* in a pod the daemon, not the agent, notices when the runner ends */
    if (pid_fd < 0 || !wait_readable(pid_fd, pl_clock_mono_ms() + wait_ms))
        kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
    return status;
}

void pl_runner_client_stop(struct pl_runner_client *c)
{
    close_fd(&c->control_fd); /* an idle runner ends when the socket is closed */
    if (c->pid > 0)
        collect(c, STOP_MS);
    close_fd(&c->output_fd);
    c->in_len = 0;
    c->has_exit = false;
}

struct pl_runner_client *pl_runner_client_destroy(struct pl_runner_client *c)
{
    if (!c)
        return NULL;
    pl_runner_client_stop(c);
    close_fd(&c->wake_fd);
    free(c);
    return NULL;
}

/* Makes the error of a failed start from the first line that bwrap or the runner printed. PL_ERETRY: it
 * printed nothing, because it was killed during the start. */
static int explain_start(struct pl_runner_client *c, const struct pl_err *why, struct pl_err *err)
{
    char said[512];
    ssize_t n;
    int status;

    close_fd(&c->control_fd);
    status = collect(c, STOP_MS);
    n = read(c->output_fd, said, sizeof(said) - 1);
    said[n > 0 ? n : 0] = 0;
    said[strcspn(said, "\n")] = 0;
    pl_runner_client_stop(c);
    if (said[0])
        return pl_err_set(err, PL_EUNAVAILABLE, "%s", said);
    if (why->code != PL_EIO)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s", why->msg);
    if (WIFSIGNALED(status))
        return pl_err_set(err, PL_ERETRY, "the sandbox was killed by signal %d", WTERMSIG(status));
    return pl_err_set(err, PL_ERETRY, "the sandbox ended with exit code %d without a message", WEXITSTATUS(status));
}

/* Waits for the HELLO frame and checks its version. */
static int wait_hello(struct pl_runner_client *c, struct pl_err *err)
{
    int64_t deadline_ms = pl_clock_mono_ms() + START_MS;
    int r = 0;

    while (r == 0) {
        if (!wait_readable(c->control_fd, deadline_ms))
            return pl_err_set(err, PL_ETIMEOUT, "pl-runner did not answer within %d s", START_MS / 1000);
        r = read_frame(c, err);
    }
    if (r < 0)
        return r;
    if (c->in[4] != PL_RUNNER_HELLO || pl_runner_get32(c->in) != PL_RUNNER_HELLO_BYTES ||
        c->in[PL_RUNNER_HEAD_BYTES] != PL_RUNNER_VERSION)
        return pl_err_set(err, PL_EPROTO, "pl-runner and the agent are of different versions: install both from the same build");
    drop_frame(c);
    return 0;
}

/* Checks that bwrap still runs after HELLO. bwrap's child asks the kernel to kill it when bwrap ends
 * (PR_SET_PDEATHSIG), but it does so a moment after its creation. If bwrap is killed before that moment, the
 * runner starts although nothing will end its sandbox. The runner sends HELLO after that moment. So if bwrap
 * is alive then, the runner ends with it. */
static int check_alive(struct pl_runner_client *c, struct pl_err *err)
{
    siginfo_t ended = {0};

    if (waitid(P_PID, (id_t)c->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
        return 0;
    return pl_err_set(err, PL_EIO, "the sandbox ended during its start");
}

/* Makes one attempt to start sandbox and runner. PL_ERETRY: bwrap or the runner was killed during the
 * start. */
static int start_once(struct pl_runner_client *c, struct pl_err *err)
{
    _cleanup_(pl_sandbox_argv_finish) struct pl_sandbox_argv argv = {0};
    _cleanup_close_ int seccomp = -1, userns = -1, theirs = -1, output = -1;
    struct pl_err why = {0};
    int sockets[2], pipe_fds[2], r;

    if (c->config->mode == PL_SANDBOX_BWRAP) {
        r = pl_seccomp_filter_fd(&seccomp, err);
        if (r < 0)
            return r;
        userns = pl_userns_open();
    }
    r = pl_sandbox_argv(c->config, seccomp < 0 ? -1 : SECCOMP_FD_IN_CHILD, userns < 0 ? -1 : USERNS_FD_IN_CHILD, &argv, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return pl_err_errno(err, errno, "cannot set up the socket to pl-runner");
    c->control_fd = sockets[0];
    theirs = sockets[1];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        r = pl_err_errno(err, errno, "cannot make the pipe for command output");
        pl_runner_client_stop(c);
        return r;
    }
    c->output_fd = pipe_fds[0];
    output = pipe_fds[1];
    fcntl(c->output_fd, F_SETFL, O_NONBLOCK);
    /* ignore errors: the larger pipe buffer is only an optimisation, and the default of 64 KiB works too */
    (void)fcntl(output, F_SETPIPE_SZ, OUTPUT_PIPE_BYTES);
    r = spawn(&argv, theirs, output, seccomp, userns, c->config->held_fd, &c->pid, err);
    if (r < 0) {
        pl_runner_client_stop(c);
        return r;
    }
    /* close the copies that the agent has, so that the socket reports end of file when the runner ends */
    close_fd(&theirs);
    close_fd(&output);
    r = wait_hello(c, &why);
    r = r < 0 ? r : check_alive(c, &why);
    return r < 0 ? explain_start(c, &why, err) : 0;
}

/* ---- the runner in a pod ---- */

/* Sends the descriptor of the output pipe to the runner. */
static int send_output(int control_fd, int output, struct pl_err *err)
{
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &output, sizeof(output));
    return sendmsg(control_fd, &message, MSG_NOSIGNAL) == 1 ? 0 : pl_err_set(err, PL_EIO, "pl-runner disconnected");
}

/* Waits for the runner's connection and returns its descriptor. PL_ECANCELED: pl_runner_client_wake was
 * called. */
static int accept_runner(const struct pl_runner_client *c, int listen_fd, struct pl_err *err)
{
    struct pollfd fds[2] = {{.fd = listen_fd, .events = POLLIN}, {.fd = c->wake_fd, .events = POLLIN}};
    int fd;

    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return pl_err_errno(err, errno, "cannot set up the socket to pl-runner");
    if (fds[1].revents)
        return pl_err_set(err, PL_ECANCELED, "the worker was stopped before the container of the command started");
    fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    return fd < 0 ? pl_err_errno(err, errno, "cannot set up the socket to pl-runner") : fd;
}

/* Waits for the runner of the pod. The socket accepts one connection only, so that no other process can take
 * the runner's place. */
static int start_in_pod(struct pl_runner_client *c, struct pl_err *err)
{
    _cleanup_close_ int listen_fd = -1, output = -1;
    char folder[4200];
    int pipe_fds[2], r;

    snprintf(folder, sizeof(folder), "%s/sock", c->config->work);
    r = pl_unix_socket_listen(folder, "runner", 1, &listen_fd, err);
    if (r < 0)
        return r;
    r = accept_runner(c, listen_fd, err);
    if (r < 0)
        return r;
    c->control_fd = r;
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        r = pl_err_errno(err, errno, "cannot make the pipe for command output");
        pl_runner_client_stop(c);
        return r;
    }
    c->output_fd = pipe_fds[0];
    output = pipe_fds[1];
    fcntl(c->output_fd, F_SETFL, O_NONBLOCK);
    (void)fcntl(output, F_SETPIPE_SZ, OUTPUT_PIPE_BYTES);
    r = send_output(c->control_fd, output, err);
    close_fd(&output);
    r = r < 0 ? r : wait_hello(c, err);
    if (r < 0)
        pl_runner_client_stop(c);
    return r;
}

/* Counts the processes that the kernel killed for lack of memory in the sandbox's cgroup since the start of
 * the command (or of the sandbox, if no command runs). Sets `ooms` of `ret`, and `memory_limit` if the
 * cgroup's own limit was the cause. Returns true in that last case. */
static bool count_ooms(const struct pl_runner_client *c, struct pl_command_result *ret)
{
    struct pl_cgroup_memory now;

    if (!c->config->cgroup)
        return false;
    pl_cgroup_read_memory(c->config->cgroup, &now);
    if (now.killed <= c->memory.killed)
        return false;
    ret->ooms = (uint32_t)PL_MIN(now.killed - c->memory.killed, (uint64_t)UINT32_MAX);
    ret->memory_limit = now.at_limit > c->memory.at_limit ? now.limit_bytes : 0;
    return ret->memory_limit > 0;
}

int pl_runner_client_start(struct pl_runner_client *c, struct pl_err *err)
{
    struct pl_command_result end = {0};
    struct pl_err why = {0};
    char limit[32];
    int r = PL_ERETRY;

    c->used_up = false;
    if (c->config->mode == PL_SANDBOX_POD)
        return start_in_pod(c, err);
    if (c->config->cgroup)
        pl_cgroup_read_memory(c->config->cgroup, &c->memory);
    for (int i = 0; i < START_TRIES && r == PL_ERETRY; i++)
        r = start_once(c, &why);
    if (r < 0 && count_ooms(c, &end))
        return pl_err_set(err, PL_EUNAVAILABLE,
                          "the sandbox needs more memory to start than the %s of resources.memory: increase it",
                          pl_quantity_bytes_text((int64_t)end.memory_limit, limit));
    if (r == PL_ERETRY)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s, %d times", why.msg, START_TRIES);
    if (r < 0 && err)
        *err = why;
    return r;
}

/* Appends each string of `words`, with its NUL, to the RUN frame. */
static int add_words(struct pl_buf *b, const char *const *words, uint32_t *ret_n, struct pl_err *err)
{
    uint32_t n = 0;
    int r = 0;

    for (; r == 0 && words[n]; n++)
        r = pl_buf_add(b, words[n], strlen(words[n]) + 1, err);
    *ret_n = n;
    return r;
}

/* Sends a RUN frame. */
static int send_run(struct pl_runner_client *c, const struct pl_runner_command *command, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {.max = PL_RUNNER_HEAD_BYTES + PL_RUNNER_FRAME_MAX};
    uint8_t head[PL_RUNNER_HEAD_BYTES + PL_RUNNER_RUN_HEAD_BYTES] = {0};
    uint32_t argc = 0, envc = 0;
    int r = pl_buf_add(&b, head, sizeof(head), err);

    if (r == 0)
        r = pl_buf_add(&b, command->cwd, strlen(command->cwd) + 1, err);
    if (r == 0)
        r = add_words(&b, command->argv, &argc, err);
    if (r == 0)
        r = add_words(&b, command->env, &envc, err);
    if (r == 0 && command->input)
        r = pl_buf_add(&b, command->input, strlen(command->input) + 1, err);
    if (r < 0 || argc + envc > PL_RUNNER_ARGS_MAX)
        return pl_err_set(err, PL_ETOOBIG, "the command's arguments and environment exceed 2 MiB or %u words",
                          PL_RUNNER_ARGS_MAX);
    pl_runner_put32(b.data, (uint32_t)(b.len - PL_RUNNER_HEAD_BYTES));
    b.data[4] = PL_RUNNER_RUN;
    pl_runner_put64(b.data + 5, command->timeout_ms);
    pl_runner_put32(b.data + 13, argc);
    pl_runner_put32(b.data + 17, envc);
    for (size_t done = 0; done < b.len;) {
        ssize_t n = send(c->control_fd, b.data + done, b.len - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pl_err_set(err, PL_EIO, "pl-runner disconnected");
        done += (size_t)n;
    }
    return 0;
}

static void send_kill(struct pl_runner_client *c)
{
    const uint8_t frame[PL_RUNNER_HEAD_BYTES] = {0, 0, 0, 0, PL_RUNNER_KILL};

    /* ignores errors: if the runner is lost, the next read reports it */
    (void)!send(c->control_fd, frame, sizeof(frame), MSG_NOSIGNAL);
}

/* Passes output from the pipe to on_output: with `all` everything until the pipe is empty, otherwise the
 * bytes of one read. Returns false if the runner has closed the pipe. */
static bool pump_output(struct pl_runner_client *c, const struct pl_runner_command *command, bool all)
{
    ssize_t n;

    do {
        n = read(c->output_fd, c->output, sizeof(c->output));
        if (n > 0)
            command->on_output(command->self, c->output, (size_t)n);
    } while ((n > 0 && all) || (n < 0 && errno == EINTR));
    return n != 0;
}

/* Decodes the payload of an EXIT frame. */
static void take_result(const uint8_t *p, struct pl_command_result *ret)
{
    uint64_t *const numbers[PL_RUNNER_EXIT_NUMBERS] = {
        &ret->wall_us,      &ret->user_us,   &ret->sys_us,     &ret->max_rss_kb,         &ret->minor_faults,
        &ret->major_faults, &ret->in_blocks, &ret->out_blocks, &ret->voluntary_switches, &ret->involuntary_switches,
        &ret->memory_limit,
    };

    *ret = (struct pl_command_result){
        .how = (enum pl_runner_how)p[0],
        .timed_out = p[1],
        .killed = p[2],
        .code = (int)pl_runner_get32(p + 4),
        .leftovers = pl_runner_get32(p + 8),
        .ooms = pl_runner_get32(p + 12),
    };
    for (size_t i = 0; i < PL_RUNNER_EXIT_NUMBERS; i++)
        *numbers[i] = pl_runner_get64(p + 16 + 8 * i);
}

/* Handles a runner that no longer answers: kills it if necessary and waits for its end; the client is then
 * down. Returns PL_EIO with a new message if a signal other than SIGKILL ended the runner, else `code`. */
static int lose_runner(struct pl_runner_client *c, int code, struct pl_err *err)
{
    int status = collect(c, 0);

    pl_runner_client_stop(c);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        return pl_err_set(err, PL_EIO, "pl-runner was killed by signal %d", WTERMSIG(status));
    return code;
}

/* Stores the complete frame, which must be an EXIT frame. PL_EIO otherwise. */
static int keep_exit(struct pl_runner_client *c, struct pl_err *err)
{
    if (c->in[4] != PL_RUNNER_EXIT || pl_runner_get32(c->in) != PL_RUNNER_EXIT_BYTES)
        return pl_err_set(err, PL_EIO, "pl-runner sent an unexpected frame");
    memcpy(c->exit, c->in + PL_RUNNER_HEAD_BYTES, PL_RUNNER_EXIT_BYTES);
    c->has_exit = true;
    drop_frame(c);
    return 0;
}

/* Waits for one event while the command runs and handles it. Returns 1 if an EXIT frame is complete. Sets
 * `*ret_fd` if the caller's descriptor `fd` is readable. */
static int turn(struct pl_runner_client *c, const struct pl_runner_command *command, int fd, int64_t deadline_ms, bool *ret_fd,
                struct pl_err *err)
{
    struct pollfd fds[4] = {{.fd = c->control_fd, .events = POLLIN},
                            {.fd = c->output_fd, .events = POLLIN},
                            {.fd = c->wake_fd, .events = POLLIN},
                            {.fd = fd, .events = POLLIN}};
    const bool here = c->has_exit || has_frame(c, NULL) != 0;
    int64_t until_ms = deadline_ms, now_ms;
    uint64_t wakes;

    if (command->tick_ms) {
        if (!c->next_tick_ms)
            c->next_tick_ms = pl_clock_mono_ms() + command->tick_ms;
        until_ms = until_ms ? PL_MIN(until_ms, c->next_tick_ms) : c->next_tick_ms;
    }
    now_ms = pl_clock_mono_ms();
    until_ms = here ? now_ms : until_ms;
    if (poll(fds, 4, until_ms ? (int)PL_MIN(PL_MAX(until_ms - now_ms, 0), 3600000) : -1) < 0 && errno != EINTR)
        return pl_err_errno(err, errno, "cannot wait for pl-runner");
    if (fds[1].revents && !pump_output(c, command, false))
        close_fd(&c->output_fd);
    if (fds[0].revents || here) {
        int r = c->has_exit ? 1 : read_frame(c, err);
        if (r != 0)
            return r;
    }
    *ret_fd = fds[3].revents != 0;
    if (fds[2].revents)
        (void)!read(c->wake_fd, &wakes, sizeof(wakes));
    if (fds[2].revents || (command->tick_ms && pl_clock_mono_ms() >= c->next_tick_ms)) {
        c->next_tick_ms = 0;
        if (command->on_tick && command->on_tick(command->self))
            send_kill(c);
    }
    return 0;
}

int pl_runner_client_begin(struct pl_runner_client *c, const struct pl_runner_command *command, struct pl_err *err)
{
    int r = c->used_up ? pl_runner_client_start(c, err) : 0;

    if (r < 0)
        return r;
    if (!pl_runner_client_up(c))
        return pl_err_set(err, PL_EIO, "pl-runner is not running");
    c->next_tick_ms = 0;
    c->began_us = pl_clock_mono_us();
    if (c->config->cgroup)
        pl_cgroup_read_memory(c->config->cgroup, &c->memory);
    r = send_run(c, command, err);
    if (r < 0 && r != PL_ETOOBIG)
        lose_runner(c, r, err);
    return r;
}

/* Calls turn() until there is an event for the caller. If the sandbox was killed for lack of memory, reports
 * that the command ended by SIGKILL. */
int pl_runner_client_wait(struct pl_runner_client *c, const struct pl_runner_command *command, int fd, int64_t deadline_ms,
                          enum pl_runner_event *ret_event, struct pl_command_result *ret, struct pl_err *err)
{
    bool ready = false;
    int r = 0;

    while (r == 0) {
        r = turn(c, command, fd, deadline_ms, &ready, err);
        if (r == 0 && (ready || (deadline_ms && pl_clock_mono_ms() >= deadline_ms))) {
            *ret_event = ready ? PL_RUNNER_EVENT_FD : PL_RUNNER_EVENT_TIME;
            return 0;
        }
    }
    if (c->output_fd >= 0)
        /* reads the rest of the command's output, all of which was written before the runner sent EXIT */
        (void)pump_output(c, command, true);
    if (r > 0 && !c->has_exit)
        r = keep_exit(c, err);
    if (r < 0) {
        struct pl_command_result end = {.how = PL_RUNNER_SIGNALED,
                                        .code = SIGKILL,
                                        .wall_us = (uint64_t)(pl_clock_mono_us() - c->began_us)};

        r = lose_runner(c, r, err);
        c->used_up = count_ooms(c, &end);
        if (!c->used_up)
            return r;
        *ret = end;
    } else {
        c->has_exit = false;
        take_result(c->exit, ret);
        (void)count_ooms(c, ret);
    }
    *ret_event = PL_RUNNER_EVENT_EXIT;
    return 0;
}

void pl_runner_client_kill(struct pl_runner_client *c)
{
    if (pl_runner_client_up(c))
        send_kill(c);
}

/* Waits for the SHARED frame, the runner's answer to SHARE. If the command ends meanwhile, an EXIT frame
 * arrives first and is stored. */
static int wait_shared(struct pl_runner_client *c, struct pl_err *err)
{
    int r = 0;

    for (;;) {
        if (has_frame(c, NULL) == 0 && !wait_readable(c->control_fd, pl_clock_mono_ms() + SHARE_MS))
            return pl_err_set(err, PL_EIO, "pl-runner did not answer within %d s", SHARE_MS / 1000);
        r = read_frame(c, err);
        if (r > 0 && c->in[4] == PL_RUNNER_SHARED) {
            drop_frame(c);
            return 0;
        }
        if (r > 0)
            r = keep_exit(c, err);
        if (r < 0)
            return r;
    }
}

int pl_runner_client_share(struct pl_runner_client *c, struct pl_err *err)
{
    const uint8_t frame[PL_RUNNER_HEAD_BYTES] = {0, 0, 0, 0, PL_RUNNER_SHARE};
    int r;

    if (c->config->mode != PL_SANDBOX_POD)
        return 0;
    if (!pl_runner_client_up(c) || send(c->control_fd, frame, sizeof(frame), MSG_NOSIGNAL) != (ssize_t)sizeof(frame))
        return pl_err_set(err, PL_EIO, "pl-runner disconnected");
    r = wait_shared(c, err);
    return r < 0 ? lose_runner(c, r, err) : 0;
}

int pl_runner_client_run(struct pl_runner_client *c, const struct pl_runner_command *command, struct pl_command_result *ret,
                         struct pl_err *err)
{
    enum pl_runner_event event;
    int r = pl_runner_client_begin(c, command, err);

    return r < 0 ? r : pl_runner_client_wait(c, command, -1, 0, &event, ret, err);
}

void pl_runner_client_wake(struct pl_runner_client *c)
{
    const uint64_t one = 1;

    /* the write fails only if the counter of the eventfd is at its maximum; poll then returns anyway */
    (void)!write(c->wake_fd, &one, sizeof(one));
}

int pl_runner_client_probe(const char *runner, const char *extra_ro, const char *tmp, struct pl_err *err)
{
    char work[4096];
    struct pl_sandbox_config config = {.mode = PL_SANDBOX_BWRAP, .work = work, .runner = runner, .extra_ro = extra_ro};
    struct pl_runner_client *c = NULL;
    int r;

    snprintf(work, sizeof(work), "%s/pl-probe-XXXXXX", tmp);
    if (!mkdtemp(work))
        return pl_err_errno(err, errno, "cannot create the probe folder %s", work);
    r = pl_sandbox_make_folders(&config, err);
    if (r == 0)
        r = pl_runner_client_create(&config, &c, err);
    if (r == 0)
        r = pl_runner_client_start(c, err);
    pl_runner_client_destroy(c);
    if (pl_sandbox_remove_folders(&config, r < 0 ? NULL : err) < 0 && r == 0)
        r = PL_EIO;
    return r;
}
