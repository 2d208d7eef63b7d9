/* runner_client: the agent's end of pl-runner: starts it in its sandbox, runs one command after another, ends it.
 *
 *   down ──start──▶ idle ──run──▶ (command runs; on_output, on_tick) ──▶ idle … ──stop──▶ down
 *
 * One thread; only pl_runner_client_wake may be called from others. When the runner is lost (killed from outside, or for lack of memory on the
 * machine), run answers PL_EIO and the client is down: start it anew. When its own group was out of memory (cgroup.h), the kernel has killed the
 * whole sandbox with the command: that is the command's end by SIGKILL, and the next command starts the sandbox. */
#pragma once

#include "pipelined/agent/sandbox/sandbox.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "pipelined/net/agent_protocol/runner_protocol.h"

struct pl_runner_client; /* opaque */

struct pl_runner_command {
    const char *const *argv; /* NULL-terminated */
    const char *const *env;  /* NULL-terminated NAME=value */
    const char *cwd;
    const char *input;   /* path of what it reads; NULL = nothing */
    uint64_t timeout_ms; /* 0 = none */
    /* Output as it comes, stdout and stderr together; also called for the rest after the end. */
    void (*on_output)(void *self, const uint8_t *data, size_t n);
    /* Every ≤ tick_ms while the command runs (0 = never). Returning true kills the command. */
    bool (*on_tick)(void *self);
    unsigned tick_ms;
    void *self;
};

PL_MUST_CHECK
int pl_runner_client_create(const struct pl_sandbox_config *config, struct pl_runner_client **ret, struct pl_err *err);
/* Starts sandbox and runner and waits for HELLO (≤ 10 s); again when they are killed meanwhile, three times at most. PL_EUNAVAILABLE with
 * what bubblewrap said when it does not come up. In a pod the runner starts by itself and comes to WORK/sock/runner: it is waited for
 * until somebody calls pl_runner_client_wake (PL_ECANCELED), for the image of its container may take long; and it comes once. */
PL_MUST_CHECK
int pl_runner_client_start(struct pl_runner_client *c, struct pl_err *err);
bool pl_runner_client_up(const struct pl_runner_client *c);
/* Runs one command to its end. PL_EUNAVAILABLE (the sandbox that the command before used up does not start again), PL_ETOOBIG (argv and env > 2 MiB), PL_EIO (the runner is lost; with bubblewrap all its processes
 * are dead). */
PL_MUST_CHECK
int pl_runner_client_run(struct pl_runner_client *c, const struct pl_runner_command *command, struct pl_command_result *ret,
                         struct pl_err *err);

/* The same in steps, for a command that is talked to while it runs. After begin, wait is called again and again until it says EXIT. */
enum pl_runner_event {
    PL_RUNNER_EVENT_EXIT, /* the command is over: `*ret` is filled */
    PL_RUNNER_EVENT_FD,   /* `fd` has something to read */
    PL_RUNNER_EVENT_TIME, /* `deadline_ms` has come */
};
PL_MUST_CHECK
int pl_runner_client_begin(struct pl_runner_client *c, const struct pl_runner_command *command, struct pl_err *err);
/* Waits for the command that was begun; of `command` the callbacks and tick_ms count, which may change from call to call. `fd` -1 and
 * `deadline_ms` (monotonic) 0: not waited for. */
PL_MUST_CHECK
int pl_runner_client_wait(struct pl_runner_client *c, const struct pl_runner_command *command, int fd, int64_t deadline_ms,
                          enum pl_runner_event *ret_event, struct pl_command_result *ret, struct pl_err *err);
/* Kills the command that was begun; EXIT follows. */
void pl_runner_client_kill(struct pl_runner_client *c);
/* Wakes a running pl_runner_client_run or _wait, which calls on_tick at once. Any thread, also a signal handler. */
void pl_runner_client_wake(struct pl_runner_client *c);
/* In a pod: what the command has left so far is opened for the agent, as it is at each end of a command; elsewhere nothing. PL_EIO: the
 * runner is lost. */
PL_MUST_CHECK
int pl_runner_client_share(struct pl_runner_client *c, struct pl_err *err);
/* Ends runner and sandbox and waits for them: no process is left. */
void pl_runner_client_stop(struct pl_runner_client *c);
struct pl_runner_client *pl_runner_client_destroy(struct pl_runner_client *c);
static inline void pl_runner_client_destroyp(struct pl_runner_client **c)
{
    *c = pl_runner_client_destroy(*c);
}

/* Does bubblewrap work here, with the very namespaces and mounts of a worker? Starts a runner in a folder below `tmp` and ends
 * it. 0, or PL_EUNAVAILABLE with one line why not (not installed, user namespaces forbidden, …), fit to be shown to people. */
PL_MUST_CHECK
int pl_runner_client_probe(const char *runner, const char *extra_ro, const char *tmp, struct pl_err *err);
