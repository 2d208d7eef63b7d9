/* pl-runner: starts one command after another inside the sandbox or container, and reports the end of a
 * command only when no process of it is left. Static, libc only, so that it runs in any image. The frames are
 * described in runner_protocol.h.
 *
 *   idle ──RUN──▶ running ──command ended, killed or timed out──▶ sweeping ──no process left──▶ EXIT ──▶ idle
 *
 * Every process that a command leaves behind becomes a child of the runner, because the runner is process 1
 * of the sandbox, or a subreaper. So "no child left" (ECHILD) means "no process left"; if the command left
 * none, finding that out takes one system call. */
#include "pipelined/agent/runner/copy_links.h"
#include "pipelined/agent/runner/no_network.h"
#include "pipelined/agent/runner/runner_pod.h"
#include "pipelined/net/agent_protocol/runner_protocol.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* descriptor numbers in the runner after set_up() */
#define CONTROL_FD 3
#define HELD_FD    4

struct runner {
    int signal_fd;
    /* the runner is process 1 of a pid namespace: kill(-1) reaches exactly the processes of the command */
    bool alone;
    bool orphaned; /* the agent has disconnected */
    pid_t command; /* process of the command; 0 = idle */
    uint64_t start_us;
    uint64_t deadline_us; /* monotonic time in us; 0 = no time limit */
    bool timed_out;
    bool killed;
    /* number of processes that the command left running and that the runner killed */
    uint32_t leftovers;
    struct rusage usage; /* resource usage of all ended processes of the command */
    bool pod, no_network;
    char *const *shared; /* folders of a pod that are shared with the agent; NULL-terminated */
    uint64_t ooms;       /* value of pl_pod_ooms when the last command ended */
    /* received bytes that have not been processed */
    uint8_t in[PL_RUNNER_HEAD_BYTES + PL_RUNNER_FRAME_MAX];
    size_t in_len;
    char *words[PL_RUNNER_ARGS_MAX + 2]; /* argv, a NULL, the environment, a NULL */
};

/* Written by a child that could not start; the parent reads it. Memory is shared until exec, because the
 * child is vfork'ed. */
struct start_failure {
    enum pl_runner_how how;
    int errnum;
};

static struct runner the_runner;

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void die(const char *what)
{
    dprintf(STDERR_FILENO, "pl-runner: %s: %s\n", what, strerror(errno));
    _exit(PL_RUNNER_EXIT_ORPHANED);
}

static void send_frame(enum pl_runner_type type, const uint8_t *payload, size_t n)
{
    uint8_t frame[PL_RUNNER_HEAD_BYTES + PL_RUNNER_EXIT_BYTES];
    size_t len = PL_RUNNER_HEAD_BYTES + n, done = 0;

    pl_runner_put32(frame, (uint32_t)n);
    frame[4] = (uint8_t)type;
    memcpy(frame + PL_RUNNER_HEAD_BYTES, payload, n);
    while (done < len) {
        ssize_t r = send(CONTROL_FD, frame + done, len - done, MSG_NOSIGNAL);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return; /* the agent has disconnected; the next read reports it */
        done += (size_t)r;
    }
}

static void add_usage(struct rusage *sum, const struct rusage *more)
{
    sum->ru_utime.tv_sec += more->ru_utime.tv_sec;
    sum->ru_utime.tv_usec += more->ru_utime.tv_usec;
    sum->ru_stime.tv_sec += more->ru_stime.tv_sec;
    sum->ru_stime.tv_usec += more->ru_stime.tv_usec;
    if (more->ru_maxrss > sum->ru_maxrss)
        sum->ru_maxrss = more->ru_maxrss;
    sum->ru_minflt += more->ru_minflt;
    sum->ru_majflt += more->ru_majflt;
    sum->ru_inblock += more->ru_inblock;
    sum->ru_oublock += more->ru_oublock;
    sum->ru_nvcsw += more->ru_nvcsw;
    sum->ru_nivcsw += more->ru_nivcsw;
}

static uint64_t usec_of(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * 1000000u + (uint64_t)t->tv_usec;
}

/* In a pod: makes the shared folders accessible to the agent. */
static void share(const struct runner *r)
{
    for (char *const *folder = r->shared; r->pod && *folder; folder++)
        pl_pod_share(*folder);
}

/* Returns the number of processes killed for lack of memory since the last command ended. */
static uint32_t count_ooms(struct runner *r)
{
    const uint64_t before = r->ooms;

    r->ooms = r->pod ? pl_pod_ooms() : 0;
    return r->ooms > before ? (uint32_t)(r->ooms - before) : 0;
}

/* Sends the EXIT frame. */
static void send_exit(struct runner *r, enum pl_runner_how how, uint32_t code)
{
    const struct rusage *u = &r->usage;
    const uint32_t ooms = count_ooms(r);
    const uint64_t numbers[PL_RUNNER_EXIT_NUMBERS] = {
        now_us() - r->start_us,
        usec_of(&u->ru_utime),
        usec_of(&u->ru_stime),
        (uint64_t)u->ru_maxrss,
        (uint64_t)u->ru_minflt,
        (uint64_t)u->ru_majflt,
        (uint64_t)u->ru_inblock,
        (uint64_t)u->ru_oublock,
        (uint64_t)u->ru_nvcsw,
        (uint64_t)u->ru_nivcsw,
        ooms > 0 ? pl_pod_memory_limit() : 0,
    };
    uint8_t p[PL_RUNNER_EXIT_BYTES] = {(uint8_t)how, r->timed_out, r->killed, 0};

    pl_runner_put32(p + 4, code);
    pl_runner_put32(p + 8, r->leftovers);
    pl_runner_put32(p + 12, ooms);
    for (int i = 0; i < PL_RUNNER_EXIT_NUMBERS; i++)
        pl_runner_put64(p + 16 + 8 * i, numbers[i]);
    send_frame(PL_RUNNER_EXIT, p, sizeof(p));
}

/* Used without a pid namespace: kills each process whose parent is the runner. Children of a killed process
 * become children of the runner. sweep() repeats this until ECHILD, so it reaches all of them. */
static void kill_children(void)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;

    if (!proc)
        return;
    while ((e = readdir(proc))) {
        char path[300], stat[512], *after_name;
        ssize_t n;
        int fd, parent;

        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        n = read(fd, stat, sizeof(stat) - 1);
        close(fd);
        if (n <= 0)
            continue;
        stat[n] = 0;
        /* the process name before this parenthesis may contain anything, even ") R 1" */
        after_name = strrchr(stat, ')');
        if (after_name && sscanf(after_name, ") %*c %d", &parent) == 1 && parent == getpid())
            kill(atoi(e->d_name), SIGKILL);
    }
    closedir(proc);
}

static void kill_all(const struct runner *r)
{
    if (r->alone)
        kill(-1, SIGKILL); /* reaches all processes in the pid namespace except process 1 itself */
    else
        kill_children();
}

/* Kills and reaps processes until none of the command's is left. */
static void sweep(struct runner *r)
{
    struct rusage usage;
    bool killing = false;
    int status;

    for (;;) {
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid == 0) {
            killing = true;
            kill_all(r);
            pid = wait4(-1, &status, 0, &usage);
        }
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return; /* ECHILD: no process is left */
        r->leftovers += killing;
        add_usage(&r->usage, &usage);
    }
}

static void finish_command(struct runner *r, int status)
{
    enum pl_runner_how how = WIFSIGNALED(status) ? PL_RUNNER_SIGNALED : PL_RUNNER_EXITED;

    sweep(r);
    share(r);
    send_exit(r, how, (uint32_t)(how == PL_RUNNER_SIGNALED ? WTERMSIG(status) : WEXITSTATUS(status)));
    r->command = 0;
    if (r->orphaned)
        _exit(PL_RUNNER_EXIT_ORPHANED);
}

/* Reaps ended processes. If the command's first process has ended, also kills and reaps the command's other
 * processes. */
static void reap(struct runner *r)
{
    struct rusage usage;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        add_usage(&r->usage, &usage);
        if (pid != r->command)
            continue; /* an orphan of the command that ended by itself */
        finish_command(r, status);
        return;
    }
}

static const char *env_path(char *const *env)
{
    for (; *env; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return "/usr/local/bin:/usr/bin:/bin";
}

/* Like execvpe(3), with the PATH of the command's own environment, and without running files that lack "#!"
 * as shell scripts. Runs in the vfork'ed child: no malloc, no locks. Returns errno. */
static int exec_search(char *const *argv, char *const *env)
{
    char path[4096];
    int errnum = ENOENT;

    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, env);
        return errno;
    }
    for (const char *p = env_path(env); *p;) {
        size_t n = strcspn(p, ":");
        if (n + strlen(argv[0]) + 2 <= sizeof(path)) {
            memcpy(path, p, n);
            snprintf(path + n, sizeof(path) - n, "%s%s", n ? "/" : "./", argv[0]);
            execve(path, argv, env);
            if (errno != ENOENT && errno != ENOTDIR)
                errnum = errno;
        }
        p += n + (p[n] == ':');
    }
    return errnum;
}

/* Opens the file for the command's standard input. */
static void open_input(const char *path)
{
    int fd = open(path, O_RDONLY);

    if (fd < 0 || (fd != STDIN_FILENO && dup2(fd, STDIN_FILENO) < 0))
        return; /* if the file cannot be opened, standard input stays empty */
    if (fd != STDIN_FILENO)
        close(fd);
}

/* The vfork'ed child: sets up the process and executes the command. */
__attribute__((noreturn)) static void child(const char *cwd, char *const *argv, char *const *env, const char *input,
                                            volatile struct start_failure *failure)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGTERM, SIG_DFL);
    /* a process group of its own lets the command use "kill 0" without reaching the runner; a new session
     * would do that too, but for a session the kernel also creates a scheduling group, which takes time */
    setpgid(0, 0);
    failure->how = PL_RUNNER_NO_CWD;
    if (chdir(cwd) < 0) {
        failure->errnum = errno;
        _exit(127);
    }
    if (input)
        open_input(input);
    failure->how = PL_RUNNER_NO_EXEC;
    failure->errnum = the_runner.no_network ? pl_no_network_begin() : 0;
    if (failure->errnum == 0)
        failure->errnum = exec_search(argv, env);
    _exit(127);
}

/* Starts the command, or sends EXIT with the reason why it could not be started. */
static void start_command(struct runner *r, const char *cwd, char *const *argv, char *const *env, const char *input)
{
    volatile struct start_failure failure = {PL_RUNNER_EXITED, 0};
    pid_t pid;

    memset(&r->usage, 0, sizeof(r->usage));
    r->timed_out = r->killed = false;
    r->leftovers = 0;
    /* vfork is much cheaper than fork: the child uses the parent's memory, and the parent waits until the
     * child calls exec */
    pid = vfork();
    if (pid == 0)
        child(cwd, argv, env, input, &failure);
    if (pid < 0) {
        send_exit(r, PL_RUNNER_NO_FORK, (uint32_t)errno);
        return;
    }
    if (failure.errnum) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        send_exit(r, failure.how, (uint32_t)failure.errnum);
        return;
    }
    r->command = pid;
}

/* Stores pointers to `n` NUL-terminated words, beginning at `*p`, and a final NULL in `words`. False if the
 * payload holds fewer words. */
static bool take_words(char **p, const char *end, size_t n, char **words)
{
    for (size_t i = 0; i < n; i++) {
        char *nul = memchr(*p, 0, (size_t)(end - *p));
        if (!nul)
            return false;
        words[i] = *p;
        *p = nul + 1;
    }
    words[n] = NULL;
    return true;
}

/* Handles a RUN frame. False if it is malformed. */
static bool handle_run(struct runner *r, uint8_t *payload, size_t n)
{
    char *p = (char *)payload + PL_RUNNER_RUN_HEAD_BYTES, *end = (char *)payload + n, *cwd[2], *input[2] = {NULL}, **env;
    uint64_t timeout_ms;
    uint32_t argc, envc;

    if (n < PL_RUNNER_RUN_HEAD_BYTES || r->command)
        return false;
    timeout_ms = pl_runner_get64(payload);
    argc = pl_runner_get32(payload + 8);
    envc = pl_runner_get32(payload + 12);
    if (argc == 0 || argc > PL_RUNNER_ARGS_MAX || envc > PL_RUNNER_ARGS_MAX - argc)
        return false;
    env = r->words + argc + 1;
    if (!take_words(&p, end, 1, cwd) || !take_words(&p, end, argc, r->words) || !take_words(&p, end, envc, env))
        return false;
    if (p < end && !take_words(&p, end, 1, input))
        return false;
    env = r->pod ? pl_pod_env(env) : env;
    r->start_us = now_us();
    r->deadline_us = timeout_ms ? r->start_us + timeout_ms * 1000 : 0;
    start_command(r, cwd[0], r->words, env, input[0]);
    return true;
}

/* Handles all complete frames that were received. A malformed frame ends the runner: agent and runner are
 * always of the same build. */
static void handle_input(struct runner *r)
{
    size_t at = 0;

    while (r->in_len - at >= PL_RUNNER_HEAD_BYTES) {
        uint8_t *frame = r->in + at;
        size_t n = pl_runner_get32(frame);
        bool ok = n <= PL_RUNNER_FRAME_MAX;

        if (ok && r->in_len - at - PL_RUNNER_HEAD_BYTES < n)
            break;
        if (ok && frame[4] == PL_RUNNER_RUN) {
            ok = handle_run(r, frame + PL_RUNNER_HEAD_BYTES, n);
        } else if (ok && frame[4] == PL_RUNNER_KILL) {
            r->killed = r->command != 0;
            if (r->command)
                kill_all(r);
        } else if (ok && frame[4] == PL_RUNNER_SHARE) {
            share(r);
            send_frame(PL_RUNNER_SHARED, frame, 0);
        } else {
            ok = false;
        }
        if (!ok) {
            errno = EPROTO;
            die("malformed frame from the agent");
        }
        at += PL_RUNNER_HEAD_BYTES + n;
    }
    memmove(r->in, r->in + at, r->in_len - at);
    r->in_len -= at;
}

static void agent_gone(struct runner *r)
{
    if (!r->command)
        _exit(0);
    r->orphaned = true;
    kill_all(r);
}

static void read_control(struct runner *r)
{
    ssize_t n = recv(CONTROL_FD, r->in + r->in_len, sizeof(r->in) - r->in_len, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        agent_gone(r);
        return;
    }
    r->in_len += (size_t)n;
    handle_input(r);
}

static int poll_timeout_ms(const struct runner *r)
{
    uint64_t now;

    if (!r->command || !r->deadline_us || r->timed_out)
        return -1;
    now = now_us();
    if (r->deadline_us <= now)
        return 0;
    return (r->deadline_us - now) / 1000 > 3600000 ? 3600000 : (int)((r->deadline_us - now + 999) / 1000);
}

/* Waits once; handles ended children, frames and the time limit. */
static void turn(struct runner *r)
{
    struct pollfd fds[2] = {{.fd = r->signal_fd, .events = POLLIN}, {.fd = r->orphaned ? -1 : CONTROL_FD, .events = POLLIN}};
    struct signalfd_siginfo seen[16];

    if (poll(fds, 2, poll_timeout_ms(r)) < 0 && errno != EINTR)
        die("poll");
    if (fds[0].revents && read(r->signal_fd, seen, sizeof(seen)) > 0)
        reap(r);
    if (fds[1].revents)
        read_control(r);
    if (r->command && r->deadline_us && !r->timed_out && now_us() >= r->deadline_us) {
        r->timed_out = true;
        kill_all(r);
    }
}

/* Moves the control socket from standard input to CONTROL_FD. Commands get /dev/null as standard input, and
 * inherit no descriptor but the output pipe. */
static void set_up(struct runner *r)
{
    const struct rlimit no_core = {0, 0};
    sigset_t child_ended;
    int null_fd;

    if (dup2(STDIN_FILENO, CONTROL_FD) < 0)
        die("standard input");
    if (dup2(PL_RUNNER_HELD_FD, HELD_FD) < 0)
        close(HELD_FD);
    /* if the kernel is too old (ENOSYS), descriptors that bwrap left open stay open */
    syscall(SYS_close_range, HELD_FD + 1, ~0U, 0);
    fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC);
    fcntl(HELD_FD, F_SETFD, FD_CLOEXEC);
    null_fd = open("/dev/null", O_RDWR);
    if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0)
        die("/dev/null");
    if (null_fd != STDIN_FILENO)
        close(null_fd);
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, NULL);
    if (r->pod)
        /* ignore SIGTERM: when a pod is stopped, all its containers get it, and the agent ends the command
         * and then the runner */
        signal(SIGTERM, SIG_IGN);
    r->signal_fd = signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
    if (r->signal_fd < 0)
        die("signalfd");
    r->alone = getpid() == 1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_DUMPABLE, 0); /* the command runs as the same user and must not inspect the runner */
    setrlimit(RLIMIT_CORE, &no_core);
    umask(r->pod ? 002 : 022);
}

/* Enters a cgroup and executes a program in it. argv[0]: the file of the cgroup that lists its processes;
 * argv[1] and the rest: the program and its arguments. */
static int enter_cgroup(char **argv)
{
    char *const env[] = {NULL};
    int fd = open(argv[0], O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, "0", 1) != 1) {
        dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
        return PL_RUNNER_EXIT_ORPHANED;
    }
    execvpe(argv[1], argv + 1, env);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[1], errno == ENOENT ? "not installed" : strerror(errno));
    return PL_RUNNER_EXIT_ORPHANED;
}

int main(int argc, char **argv)
{
    struct runner *r = &the_runner;
    uint8_t hello[PL_RUNNER_HELLO_BYTES] = {PL_RUNNER_VERSION, 0, 0, 0};

    if (argc == 4 && strcmp(argv[1], PL_COPY_LINKS) == 0)
        return pl_copy_links(argv[2], argv[3]);
    if (argc >= 4 && strcmp(argv[1], PL_ENTER_CGROUP) == 0)
        return enter_cgroup(argv + 2);
    if (argc >= 2 && strcmp(argv[1], PL_POD_PROBE) == 0)
        return pl_pod_probe(argv + 2);
    if (argc >= 3 && strcmp(argv[1], PL_POD_OPTION) == 0) {
        r->no_network = argc >= 4 && strcmp(argv[3], PL_POD_NO_NET) == 0;
        if (r->no_network && !pl_no_network_works()) {
            errno = ENOSYS;
            die("\"network\": false needs a kernel with seccomp filters");
        }
        if (!pl_pod_connect(argv[2]))
            return PL_RUNNER_EXIT_ORPHANED;
        r->pod = true;
        r->shared = argv + 3 + r->no_network;
        r->ooms = pl_pod_ooms();
    }
    set_up(r);
    hello[1] = r->alone;
    send_frame(PL_RUNNER_HELLO, hello, sizeof(hello));
    for (;;)
        turn(r);
}
