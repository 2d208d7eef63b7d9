/* Replaces the runner in the sandbox's argument list by a shell. */
#include "pipelined/agent/worker/try_shell.h"

#include "pipelined/agent/sandbox/seccomp.h"
#include "pipelined/agent/sandbox/user_namespace.h"
#include "pipelined/agent/worker/try_terminal.h"
#include "storage/base/clock.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#define SECCOMP_FD_IN_CHILD 10
#define USERNS_FD_IN_CHILD  12 /* not 11, because that is PL_RUNNER_HELD_FD */
/* maximum number of words in argv besides the sandbox's arguments and the environment */
#define OWN_WORDS 10u

struct shell {
    struct pl_sandbox_argv sandbox;
    const char **argv;
    char prompt[128], term[128];
};

static void shell_finish(struct shell *s)
{
    pl_sandbox_argv_finish(&s->sandbox);
    free(s->argv);
}

/* Makes the argument list: the sandbox's arguments without the runner, then `env -i -C CWD NAME=value …
 * bash`. */
static int make_argv(struct shell *s, const struct pl_datum_context *c, const char *const *env, const char *cwd, int seccomp,
                     int userns, struct pl_err *err)
{
    const bool bash = access("/bin/bash", X_OK) == 0;
    size_t n_env = 0, n = 0;
    int r = pl_sandbox_argv(c->sandbox, seccomp < 0 ? -1 : SECCOMP_FD_IN_CHILD, userns < 0 ? -1 : USERNS_FD_IN_CHILD, &s->sandbox,
                            err);

    while (env[n_env])
        n_env++;
    s->argv = r < 0 ? NULL : calloc(s->sandbox.n + n_env + OWN_WORDS, sizeof(*s->argv));
    if (!s->argv)
        return r < 0 ? r : pl_err_nomem(err);
    for (size_t i = 0; i + 1 < s->sandbox.n; i++)
        s->argv[n++] = s->sandbox.v[i];
    s->argv[n++] = "/usr/bin/env";
    s->argv[n++] = "-i";
    s->argv[n++] = "-C";
    s->argv[n++] = cwd;
    snprintf(s->prompt, sizeof(s->prompt), "PS1=%.60s:\\w\\$ ", c->stage->stage);
    snprintf(s->term, sizeof(s->term), "TERM=%.60s", getenv("TERM") ? getenv("TERM") : "dumb");
    s->argv[n++] = s->prompt;
    s->argv[n++] = s->term;
    for (size_t i = 0; i < n_env; i++)
        s->argv[n++] = env[i];
    s->argv[n++] = bash ? "/bin/bash" : "/bin/sh";
    if (bash)
        s->argv[n] = "--norc";
    return 0;
}

/* Starts the shell. `terminal`: path of its terminal, in a session of its own; NULL = in this process's
 * session. */
static int start(const struct shell *s, int seccomp, int userns, const char *terminal, pid_t *ret, struct pl_err *err)
{
    const short session = terminal ? POSIX_SPAWN_SETSID : 0;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r = 0;

    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    sigfillset(&all);
    if (seccomp >= 0)
        r = posix_spawn_file_actions_adddup2(&files, seccomp, SECCOMP_FD_IN_CHILD);
    if (r == 0 && userns >= 0)
        r = posix_spawn_file_actions_adddup2(&files, userns, USERNS_FD_IN_CHILD);
    if (r == 0 && terminal)
        r = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, terminal, O_RDWR, 0);
    for (int fd = STDOUT_FILENO; r == 0 && terminal && fd <= STDERR_FILENO; fd++)
        r = posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, fd);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | session));
    if (r == 0)
        r = posix_spawnp(ret, s->argv[0], &files, &attr, (char *const *)s->argv, s->sandbox.env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return r ? pl_err_set(err, PL_EUNAVAILABLE, "cannot start a shell: %s: %s", s->argv[0], strerror(r)) : 0;
}

static void note_end(pid_t pid, struct pl_agent_protocol_outcome *o)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    o->run.how = WIFSIGNALED(status) ? PL_RUNNER_SIGNALED : PL_RUNNER_EXITED;
    o->run.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

/* Runs the shell without a terminal, on this process's standard input and output. */
static int run_plain(const struct shell *s, int seccomp, int userns, struct pl_agent_protocol_outcome *o, struct pl_err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    pid_t pid;
    int r = start(s, seccomp, userns, NULL, &pid, err);

    if (r < 0)
        return r;
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    note_end(pid, o);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    return 0;
}

/* Runs the shell on a pseudo-terminal. If a signal ends the agent, the shell is killed first. */
static int run_on_terminal(const struct shell *s, int seccomp, int userns, struct pl_agent_protocol_outcome *o,
                           struct pl_err *err)
{
    struct pl_terminal terminal;
    pid_t pid;
    int ends, r = pl_terminal_open(&terminal, err);

    if (r < 0)
        return r;
    r = start(s, seccomp, userns, terminal.slave, &pid, err);
    ends = r < 0 ? 0 : pl_terminal_pass(&terminal, pid);
    pl_terminal_close(&terminal);
    if (r < 0)
        return r;
    /* with bubblewrap all processes in the sandbox end too; without it SIGHUP tells the shell's session */
    if (ends) {
        kill(-pid, SIGHUP);
        kill(pid, SIGKILL);
    }
    note_end(pid, o);
    if (ends)
        raise(ends); /* send the signal to this process again, now with its normal effect */
    return ends ? pl_err_set(err, PL_ECANCELED, "the shell was ended by a signal: %s", strsignal(ends)) : 0;
}

int pl_shell_run(const struct pl_datum_context *c, const char *const *env, const char *cwd, struct pl_agent_protocol_outcome *o,
                 struct pl_err *err)
{
    _cleanup_(shell_finish) struct shell s = {0};
    _cleanup_close_ int seccomp = -1, userns = -1;
    const int64_t start_ms = pl_clock_mono_ms();
    int r = c->sandbox->mode == PL_SANDBOX_BWRAP ? pl_seccomp_filter_fd(&seccomp, err) : 0;

    if (c->sandbox->mode == PL_SANDBOX_BWRAP)
        userns = pl_userns_open();
    r = r < 0 ? r : make_argv(&s, c, env, cwd, seccomp, userns, err);
    if (r == 0)
        r = (isatty(STDIN_FILENO) ? run_on_terminal : run_plain)(&s, seccomp, userns, o, err);
    o->compute_ms = pl_clock_mono_ms() - start_ms;
    return r;
}
