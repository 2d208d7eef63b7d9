/* Signal handlers write the signal's number to a pipe. One poll loop reads the pipe, the user's terminal and
 * the master side of the pseudo-terminal. */
#include "pipelined/agent/worker/try_terminal.h"

#include "storage/system/io.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static const int signals[PL_TERMINAL_SIGNALS] = {SIGWINCH, SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT};
/* pipe through which the signal handler passes the numbers of received signals */
static int wake_fds[2] = {-1, -1};

static void on_signal(int number)
{
    const int before = errno;
    const char byte = (char)number;

    (void)!write(wake_fds[1], &byte, 1); /* if the pipe is full, it already wakes the loop */
    errno = before;
}

static void copy_size(const struct pl_terminal *t)
{
    struct winsize size;

    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
        (void)ioctl(t->master, TIOCSWINSZ, &size);
}

int pl_terminal_open(struct pl_terminal *ret, struct pl_err *err)
{
    struct pl_terminal t = {.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
    struct sigaction action = {.sa_handler = on_signal};

    if (t.master < 0 || grantpt(t.master) < 0 || unlockpt(t.master) < 0 || ptsname_r(t.master, t.slave, sizeof t.slave) != 0 ||
        fcntl(t.master, F_SETFL, O_NONBLOCK) < 0 || tcgetattr(STDIN_FILENO, &t.before) < 0 ||
        pipe2(wake_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        pl_closep(&t.master);
        return pl_err_set(err, PL_EUNAVAILABLE, "cannot open a terminal for the shell: %s", strerror(errno));
    }
    (void)tcsetattr(t.master, TCSANOW, &t.before);
    copy_size(&t);
    for (size_t i = 0; i < PL_TERMINAL_SIGNALS; i++)
        sigaction(signals[i], &action, &t.actions[i]);
    *ret = t;
    return 0;
}

/* Handles received signals. Returns 0, or the signal that ends this process. SIGINT and SIGQUIT are ignored:
 * a raw terminal does not send them, and they concern only the shell. */
static int take_signals(const struct pl_terminal *t)
{
    char number;
    int ends = 0;

    while (read(wake_fds[0], &number, 1) == 1) {
        if (number == SIGWINCH)
            copy_size(t);
        if (number == SIGTERM || number == SIGHUP)
            ends = number;
    }
    return ends;
}

static bool has_ended(pid_t pid)
{
    siginfo_t ended = {0};

    return waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || ended.si_pid != 0;
}

/* Copies output of the shell to the terminal. False: no output is there at the moment, or no more will
 * come. */
static bool show(const struct pl_terminal *t)
{
    char bytes[4096];
    const ssize_t n = read(t->master, bytes, sizeof bytes);

    return n > 0 && pl_io_write(STDOUT_FILENO, bytes, (size_t)n, "terminal", NULL) == 0;
}

/* The loop: waits for typed bytes, for output and for signals until the shell has ended. */
int pl_terminal_pass(struct pl_terminal *t, pid_t pid)
{
    struct termios raw = t->before;
    char typed[4096];
    size_t len = 0, at = 0;
    int ends = 0;

    cfmakeraw(&raw);
    t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    while (ends == 0 && !has_ended(pid)) {
        struct pollfd polled[] = {{.fd = wake_fds[0], .events = POLLIN},
                                  {.fd = t->master, .events = (short)(POLLIN | (at < len ? POLLOUT : 0))},
                                  {.fd = at < len ? -1 : STDIN_FILENO, .events = POLLIN}};
        ssize_t n;

        if (poll(polled, PL_ARRAY_SIZE(polled), -1) < 0 && errno != EINTR)
            break;
        ends = take_signals(t);
        if (polled[1].revents & POLLIN)
            (void)show(t);
        /* no process has the slave open: the shell has ended or will soon */
        else if (polled[1].revents & POLLHUP)
            (void)poll(&polled[0], 1, 1000);
        if (polled[1].revents & POLLOUT && (n = write(t->master, typed + at, len - at)) > 0)
            at += (size_t)n;
        if (polled[2].revents) {
            n = read(STDIN_FILENO, typed, sizeof typed);
            at = 0;
            len = n > 0 ? (size_t)n : 0;
            if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) /* the user's terminal was closed */
                ends = SIGHUP;
        }
    }
    while (ends == 0 && show(t))
        ;
    return ends;
}

void pl_terminal_close(struct pl_terminal *t)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, output;

    if (t->raw) { /* restores the settings even if another program controls the terminal by now */
        sigaction(SIGTTOU, &ignore, &output);
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
        sigaction(SIGTTOU, &output, NULL);
    }
    for (size_t i = 0; i < PL_TERMINAL_SIGNALS; i++)
        sigaction(signals[i], &t->actions[i], NULL);
    close(t->master);
    close(wake_fds[0]);
    close(wake_fds[1]);
    *t = (struct pl_terminal){.master = -1};
}
