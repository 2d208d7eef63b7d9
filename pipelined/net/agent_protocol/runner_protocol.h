/* runner_protocol: the frames between agent and pl-runner on one stream socket, which is the runner's standard
 * input.
 *
 *   frame := u32 LE n (length of the payload), u8 type, n bytes
 *
 *   runner → agent   HELLO  once, when it is ready
 *   agent  → runner  RUN    one command; the next one only after its EXIT
 *                    KILL   kills the command at once; ignored when none runs (it may have just ended)
 *                    SHARE  opens the folders of a pod (agent/runner/runner_pod.h); allowed while a command runs
 *   runner → agent   EXIT   the command has ended and none of its processes is left
 *                    SHARED the answer to SHARE
 *
 *   HELLO := u8 version (1), u8 alone (1: the runner is process 1 of a pid namespace), u16 LE 0
 *   RUN   := u64 LE timeout_ms (0 = none), u32 LE argc, u32 LE envc, then NUL-terminated: cwd, argv[argc], env[envc],
 *            and optionally the path of a file that becomes the command's standard input (else /dev/null)
 *   KILL, SHARE, SHARED := nothing
 *   EXIT  := u8 how (enum pl_runner_how), u8 timed_out, u8 killed (by KILL), u8 0,
 *            u32 LE code (exit code, signal or errno),
 *            u32 LE leftovers (processes killed after the command),
 *            u32 LE ooms (processes killed by the kernel because the container was out of memory; only in a pod:
 *            elsewhere the agent reads the cgroup's count), then u64 LE each: wall_us, user_us, sys_us, max_rss_kb,
 *            minor_faults, major_faults, in_blocks, out_blocks, voluntary_switches, involuntary_switches,
 *            memory_limit (of the container, in bytes; set if ooms is not 0; 0 = no limit)
 *
 * The command's output goes to the runner's own standard output and error, which are a pipe to the agent. All output
 * of the command is in that pipe before the runner sends EXIT. Times and faults are sums over the command and all
 * its processes; max_rss is the maximum over these processes.
 *
 * When the agent ends (end of file), an idle runner exits with 0. A running command is killed, because no agent
 * would take its result, and the runner exits with 75. Descriptor PL_RUNNER_HELD_FD is optional: one end of a pipe,
 * which the runner keeps open until it ends and does not pass to commands. The holder of the pipe's other end sees
 * when no process of the worker is left.
 *
 *   pl-runner --enter-cgroup FILE PROGRAM ARGUMENT…
 *
 * starts a sandbox with limits: pl-runner writes its own pid into FILE (the cgroup.procs of a cgroup), then executes
 * PROGRAM, found through PATH, with an empty environment. So no process of the sandbox is ever outside that
 * cgroup. */
#pragma once

#include <stdint.h>

#define PL_RUNNER_VERSION    1
#define PL_RUNNER_HEAD_BYTES 5
/* largest payload of a frame in bytes; the kernel accepts no longer argv and env either */
#define PL_RUNNER_FRAME_MAX      (2u << 20)
#define PL_RUNNER_ARGS_MAX       65536u /* most entries of argc + envc together */
#define PL_RUNNER_HELLO_BYTES    4
#define PL_RUNNER_RUN_HEAD_BYTES 16
#define PL_RUNNER_EXIT_NUMBERS   11
#define PL_RUNNER_EXIT_BYTES     (16 + 8 * PL_RUNNER_EXIT_NUMBERS)
#define PL_RUNNER_HELD_FD        11
#define PL_RUNNER_EXIT_ORPHANED  75
#define PL_ENTER_CGROUP          "--enter-cgroup"

enum pl_runner_type {
    PL_RUNNER_RUN = 1,
    PL_RUNNER_KILL = 2,
    PL_RUNNER_SHARE = 3,
    PL_RUNNER_HELLO = 0x80,
    PL_RUNNER_EXIT = 0x81,
    PL_RUNNER_SHARED = 0x82,
};

enum pl_runner_how {
    PL_RUNNER_EXITED = 0,   /* the command ended by itself; code: its exit code */
    PL_RUNNER_SIGNALED = 1, /* a signal ended the command; code: the signal's number */
    PL_RUNNER_NO_CWD = 2,   /* not started, because the working directory cannot be entered; code: errno */
    PL_RUNNER_NO_EXEC = 3,  /* not started, because the program cannot be executed; code: errno */
    PL_RUNNER_NO_FORK = 4,  /* not started, because fork failed; code: errno */
};

static inline void pl_runner_put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline void pl_runner_put64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline uint32_t pl_runner_get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t pl_runner_get64(const uint8_t *p)
{
    return (uint64_t)pl_runner_get32(p) | (uint64_t)pl_runner_get32(p + 4) << 32;
}
