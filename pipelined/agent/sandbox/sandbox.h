/* agent/sandbox: What a command may see and do on this machine: folders, devices, system calls, user namespace.
 *
 * In:      The sandbox's configuration.
 * Out:     A prepared work folder and the arguments that start the sandbox.
 * Uses:    net/agent_protocol, storage/{base, system}
 * Threads: The compute thread of the worker.
 *
 * Headers for other rooms:
 *   seccomp         system-call filter
 *   user_namespace  user namespace of the sandboxes of a root agent */

/* sandbox: what a stage's command may see and do on this machine. One sandbox holds one runner for the
 * worker's whole life; a datum is a fork and exec inside it.
 *
 * With bubblewrap: read-only /usr /bin /sbin /lib* and the harmless part of /etc, private /tmp /home /root /run, own pid, ipc and
 * mount namespaces, a minimal /dev with exactly the GPU nodes of the worker, cleared environment, a seccomp filter, no privilege
 * to gain. The work folder appears as /pfs (read-only; /pfs/out writable), /code and /pl; nothing else of the host's files does,
 * least of all the daemon's folder. ptrace stays allowed: in a pid namespace of its own nobody else can be seen.
 *
 * Mode none: the same folders at their real place below the work folder, found through $PL_INPUT_* and $PL_OUT; no namespaces.
 *
 * Mode pod: the command's container is the sandbox. The work folder is a volume of the pod; parts of it are mounted there as bubblewrap
 * would: pfs at /pfs (read-only), pfs/out at /pfs/out, each writable input at its place, code at /code, tmp at /tmp, and, below /pl,
 * bin and sock (read-only) and checkpoint. So these folders must be there before that container and are never replaced: the pod's first container
 * makes them (pl_sandbox_install). All are of one group that agent and command have, which may write to them.
 *
 * Layout of the work folder, made by pl_sandbox_make_folders:
 *   pfs/<input>   the datum's inputs     pfs/out   its output             next/    inputs of the next one
 *   done/<n>      outputs on their way   code/     the stage's code       tmp/     mode none's /tmp
 *   script        the stage's, if any    stdin     what it reads          bin/     what commands may call; in a pod these two as well
 *   checkpoint/   what the command keeps for its next attempt             sock/    a batch stage's socket */
#pragma once

#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/base/err.h"

#include <jansson.h>

#define PL_GPU_UUID_BYTES 96

enum pl_sandbox_mode { PL_SANDBOX_BWRAP, PL_SANDBOX_NONE, PL_SANDBOX_POD };
/* "bubblewrap", "no sandbox", "a pod". */
const char *pl_sandbox_mode_name(enum pl_sandbox_mode mode);

struct pl_sandbox_config {
    enum pl_sandbox_mode mode;
    const char *work;     /* absolute */
    const char *runner;   /* absolute path of pl-runner */
    const char *next;     /* absolute path of pl-next; NULL: not shown */
    const char *extra_ro; /* absolute folders to show read-only, ':' between them; NULL or "" for none (PIPELINED_SANDBOX_RO) */
    bool batch;           /* the command reaches the agent through a socket in /pl/sock */
    bool has_code;        /* /code is there */
    bool has_script;      /* /pl/script is there */
    bool has_stdin;       /* /pl/stdin is there */
    bool has_checkpoint;  /* /pl/checkpoint is there */
    const json_t
        *writable; /* names of inputs that the command may change, NULL = none: folders made with the others, never replaced */
    const char *secrets; /* folder of the project's secrets: */
    const struct pl_agent_protocol_secret *secret_uses;
    size_t n_secrets;
    bool no_network;                           /* an empty network namespace */
    uint64_t shm_bytes;                        /* size of /dev/shm, 0 = the kernel's default */
    const char *cgroup;                        /* folder of the group (cgroup.h) that all of it lives in; NULL = none */
    int held_fd;                               /* the runner keeps it open until no process is left; 0 = none */
    size_t n_gpus;                             /* 0: no GPU device at all */
    unsigned gpus[PL_AGENT_PROTOCOL_GPUS_MAX]; /* N of /dev/nvidiaN */
    char gpu_uuids[PL_AGENT_PROTOCOL_GPUS_MAX][PL_GPU_UUID_BYTES]; /* as CUDA knows them; "" = not known */
};

/* Where the command finds things: pointers into static text or the config's strings copied here. */
struct pl_sandbox_paths {
    char pfs[4096];        /* "/pfs" or WORK/pfs */
    char code[4096];       /* "/code" or WORK/code; the working directory when there is code */
    char tmp[4096];        /* "/tmp" or WORK/tmp; the working directory otherwise */
    char home[4096];       /* a writable home */
    char script[4096];     /* "/pl/script" or WORK/script; "/pl/bin/script" in a pod */
    char bin[4096];        /* "/pl/bin" or WORK/bin: pl-next, pachctl; py/pl.py below it */
    char sock[4096];       /* "/pl/sock" or WORK/sock: the socket `next` of a batch stage */
    char checkpoint[4096]; /* "/pl/checkpoint" or WORK/checkpoint */
    char input[4096];      /* "/pl/stdin" or WORK/stdin; "/pl/bin/stdin" in a pod */
    char runner[4096];     /* of the runner, for its second task (copy_links.h) */
};

/* A NULL-terminated argv on the heap, and the environment to start it with. */
struct pl_sandbox_argv {
    char **v;
    size_t n;
    size_t cap;
    char *env[2];
};

/* The arguments that start the runner: bwrap … -- /pl/bin/pl-runner, or just the runner in mode none; with a group, what enters it stands
 * before them. `seccomp_fd` and `userns_fd` are
 * the numbers that the filter and the user namespace will have in the child, -1 for none. Folders of the host that are not there are left out. PL_ENOMEM, PL_EINVAL
 * (an extra folder that is not absolute, or that shows the work folder). */
PL_MUST_CHECK
int pl_sandbox_argv(const struct pl_sandbox_config *config, int seccomp_fd, int userns_fd, struct pl_sandbox_argv *ret,
                    struct pl_err *err);
void pl_sandbox_argv_finish(struct pl_sandbox_argv *argv);

/* PL_EINVAL when the work folder's name is too long. */
PL_MUST_CHECK
int pl_sandbox_paths(const struct pl_sandbox_config *config, struct pl_sandbox_paths *ret, struct pl_err *err);
/* Removes what is in a folder; the folder itself stays (it may be a mount point). PL_ENOTFOUND, PL_EIO. */
PL_MUST_CHECK
int pl_sandbox_clear(const char *folder, struct pl_err *err);
/* Removes the work folder; of one that is a mount point what is in it. Absent is fine. That of a pod is left: it goes with the pod. */
PL_MUST_CHECK
int pl_sandbox_remove_folders(const struct pl_sandbox_config *config, struct pl_err *err);
/* Makes the work folder anew: what an earlier worker left there is removed. In a pod it looks whether all is there. PL_EIO, PL_ENOSPC,
 * PL_EUNAVAILABLE (a pod's folder is not there). */
PL_MUST_CHECK
int pl_sandbox_make_folders(const struct pl_sandbox_config *config, struct pl_err *err);

/* Of a pod, in its first container: makes the folders below config->work (and those of config->writable) and copies config->runner
 * and config->next to its bin. May be repeated. PL_EIO, PL_ENOSPC. */
PL_MUST_CHECK
int pl_sandbox_install(const struct pl_sandbox_config *config, struct pl_err *err);
/* Where the stage's script ("script") and what it reads ("stdin") are written. */
void pl_sandbox_own_file(const struct pl_sandbox_config *config, const char *name, char out[4200]);

/* $PATH inside: the agent's own folders that an extra read-only folder shows, then the usual ones. In mode none the agent's; in a
 * pod the container's (runner_pod.h).  * malloc'ed, NULL without memory. */
char *pl_sandbox_search_path(const struct pl_sandbox_config *config);
