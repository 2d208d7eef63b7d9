/* runner_client: the agent's side of the conversation with pl-runner. It starts pl-runner in its sandbox, has
 * it run one command after another, and stops it.
 *
 *   down ──start──▶ idle ──run──▶ (command runs; on_output, on_tick) ──▶ idle … ──stop──▶ down
 *
 * All calls on one thread, except pl_runner_client_wake. If the runner is lost (killed from outside, or
 * because the machine ran out of memory), pl_runner_client_run returns PL_EIO and the client is down; the
 * caller may start it again. If the sandbox's own cgroup ran out of memory (cgroup.h), the kernel has killed
 * the whole sandbox. This is reported as a command that ended with SIGKILL, and the next command starts the
 * sandbox again. */
#pragma once

#include "pipelined/agent/sandbox/sandbox.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "pipelined/net/agent_protocol/runner_protocol.h"

struct pl_runner_client;

struct pl_runner_command {
    const char *const *argv; /* NULL-terminated */
    const char *const *env;  /* NULL-terminated NAME=value */
    const char *cwd;
    const char *input;   /* path of the file for standard input; NULL = empty */
    uint64_t timeout_ms; /* 0 = no limit */
    /* Called with output as it arrives (stdout and stderr together), and with the rest of the output after
     * the command has ended. */
    void (*on_output)(void *self, const uint8_t *data, size_t n);
    /* Called at least every tick_ms while the command runs (tick_ms 0 = only when woken). Returning true
     * kills the command. */
    bool (*on_tick)(void *self);
    unsigned tick_ms;
    void *self;
};

/* Creates a client whose runner is not started yet. `config` is borrowed. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_runner_client_create(const struct pl_sandbox_config *config, struct pl_runner_client **ret, struct pl_err *err);
/* Starts sandbox and runner and waits at most 10 s for the runner's HELLO. If they are killed meanwhile,
 * tries again, at most three times in all. PL_EUNAVAILABLE, with the message of bubblewrap, if they do not
 * start. In a pod the runner is started by its container and connects to WORK/sock/runner, once. The call
 * then waits without limit, because pulling the container's image may take long, until pl_runner_client_wake
 * is called (PL_ECANCELED). */
PL_MUST_CHECK
int pl_runner_client_start(struct pl_runner_client *c, struct pl_err *err);
/* True if the runner was started and is still connected. */
bool pl_runner_client_up(const struct pl_runner_client *c);
/* Runs one command until it ends. PL_EUNAVAILABLE: the sandbox was killed by the previous command and does
 * not start again. PL_ETOOBIG: argv and env exceed 2 MiB. PL_EIO: the runner is lost; with bubblewrap all its
 * processes are dead. */
PL_MUST_CHECK
int pl_runner_client_run(struct pl_runner_client *c, const struct pl_runner_command *command, struct pl_command_result *ret,
                         struct pl_err *err);

/* pl_runner_client_run in steps, for a command that the agent talks to while it runs: call begin, then wait
 * repeatedly until it returns EXIT. */
enum pl_runner_event {
    PL_RUNNER_EVENT_EXIT, /* the command has ended: `*ret` is filled */
    PL_RUNNER_EVENT_FD,   /* the caller's descriptor `fd` is readable */
    PL_RUNNER_EVENT_TIME, /* the caller's `deadline_ms` has passed */
};
/* Starts a command and returns. Errors as for pl_runner_client_run. */
PL_MUST_CHECK
int pl_runner_client_begin(struct pl_runner_client *c, const struct pl_runner_command *command, struct pl_err *err);
/* Waits for an event of the command that was begun. Uses the callbacks and tick_ms of `command`, which may
 * change from call to call. `fd` -1: no descriptor to wait for. `deadline_ms`, on the monotonic clock: 0 =
 * none. PL_EIO: the runner is lost. */
PL_MUST_CHECK
int pl_runner_client_wait(struct pl_runner_client *c, const struct pl_runner_command *command, int fd, int64_t deadline_ms,
                          enum pl_runner_event *ret_event, struct pl_command_result *ret, struct pl_err *err);
/* Kills the command that was begun; PL_RUNNER_EVENT_EXIT follows. */
void pl_runner_client_kill(struct pl_runner_client *c);
/* Wakes a running pl_runner_client_run or pl_runner_client_wait, which then calls on_tick at once. Any
 * thread; also in a signal handler. */
void pl_runner_client_wake(struct pl_runner_client *c);
/* In a pod: makes the files that the command has written so far accessible to the agent, as happens at each
 * end of a command. Elsewhere it does nothing. PL_EIO: the runner is lost. */
PL_MUST_CHECK
int pl_runner_client_share(struct pl_runner_client *c, struct pl_err *err);
/* Stops the runner and its sandbox, and waits until none of their processes is left. In a pod it only closes
 * the connection. */
void pl_runner_client_stop(struct pl_runner_client *c);
struct pl_runner_client *pl_runner_client_destroy(struct pl_runner_client *c);
static inline void pl_runner_client_destroyp(struct pl_runner_client **c)
{
    *c = pl_runner_client_destroy(*c);
}

/* Tests whether bubblewrap works on this machine, with the same namespaces and mounts as a worker: starts a
 * runner in a folder below `tmp` and stops it. PL_EUNAVAILABLE: it does not work; the message says why in one
 * line that can be shown to users (not installed, user namespaces forbidden, …). */
PL_MUST_CHECK
int pl_runner_client_probe(const char *runner, const char *extra_ro, const char *tmp, struct pl_err *err);
