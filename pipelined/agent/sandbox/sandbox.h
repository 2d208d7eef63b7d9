/* agent/sandbox: What a command may see and do on this machine: folders, devices, system calls, user
 * namespace.
 *
 * In:      The sandbox's configuration.
 * Out:     A prepared work folder and the arguments that start the sandbox.
 * Uses:    net/agent_protocol, nvml, sandbox_view, storage/{base, system}
 * Threads: The compute thread of the worker.
 *
 * Headers for other rooms:
 *   seccomp         system-call filter
 *   user_namespace  user namespace of the sandboxes of a root agent */

/* sandbox: what a stage's command may see and do on this machine. One sandbox holds one runner (pl-runner)
 * for the worker's whole life; running a datum is a fork and exec inside it.
 *
 * With bubblewrap: read-only /usr /bin /sbin /lib* and the harmless part of /etc; private /tmp /home /root
 * /run; its own pid, ipc and mount namespaces; a minimal /dev with only the worker's GPU devices; a cleared
 * environment; a seccomp filter; no way to gain privileges. The work folder appears as /pfs (read-only, with
 * /pfs/out writable), /code and /pl. No other files of the host are visible, in particular not the daemon's
 * folder. ptrace stays allowed, because in its own pid namespace a command sees no foreign process.
 *
 * Mode none: no namespaces. The command uses the same folders at their real paths in the work folder, and
 * finds them through $PL_INPUT_* and $PL_OUT.
 *
 * Mode pod: the command's container is the sandbox. The work folder is a volume of the pod. Parts of it are
 * mounted in the container as bubblewrap would: pfs at /pfs (read-only), pfs/out at /pfs/out, each writable
 * input at its place, code at /code, tmp at /tmp, and below /pl: bin, sock and env (read-only) and checkpoint. So
 * these folders must exist before that container starts and are never replaced: the pod's first container
 * creates them (pl_sandbox_install). They belong to a group that has agent and command as members and may
 * write.
 *
 * Layout of the work folder, made by pl_sandbox_make_folders:
 *   pfs/<input>   the datum's inputs
 *   pfs/out       the datum's output
 *   next/         inputs of the next datum
 *   done/<n>      outputs that wait for their upload
 *   code/         the stage's code
 *   env/          links to what is in the input that is the environment: /pl/env
 *   tmp/          /tmp of mode none and pod
 *   script        the stage's script, if any (in a pod: bin/script)
 *   stdin         standard input of the command, if any (in a pod: bin/stdin)
 *   bin/          programs that commands may call
 *   sock/         socket of a batch stage
 *   checkpoint/   what the command saves for its next attempt */
#pragma once

#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "pipelined/sandbox_view/sandbox_view.h"
#include "storage/base/err.h"

#include <jansson.h>

#define PL_GPU_UUID_BYTES 96
/* where commands in an image find the libraries of this machine's GPU driver */
#define PL_SANDBOX_DRIVER "/pl/driver"

enum pl_sandbox_mode { PL_SANDBOX_BWRAP, PL_SANDBOX_NONE, PL_SANDBOX_POD };
/* Returns "bubblewrap", "no sandbox" or "a pod". */
const char *pl_sandbox_mode_name(enum pl_sandbox_mode mode);

struct pl_sandbox_config {
    enum pl_sandbox_mode mode;
    const char *work;   /* absolute path of the work folder */
    const char *runner; /* absolute path of pl-runner */
    const char *next;   /* absolute path of pl-next; NULL = the command has no pl-next */
    /* absolute folders to show read-only, separated by ':'; NULL or "" = none (PIPELINED_SANDBOX_RO) */
    const char *extra_ro;
    /* Python environment or interpreter of the stage (python_env.h); NULL = none, as in a pod or an image */
    const char *python;
    const struct pl_image *image; /* bubblewrap shows its files instead of this machine's; NULL = none */
    bool environment;             /* /pl/env is a folder of links to an input, which pl_inputs_apply fills */
    bool makes_environment;       /* /pl/env is the output folder */
    bool batch;                   /* batch stage: the command reaches the agent through a socket in /pl/sock */
    bool has_code;                /* /code exists */
    bool has_script;              /* /pl/script exists */
    bool has_stdin;               /* /pl/stdin exists */
    bool has_checkpoint;          /* /pl/checkpoint exists */
    /* names of inputs that the command may modify, NULL = none; their folders are made once and never
     * replaced */
    const json_t *writable;
    const char *secrets; /* folder of the project's secrets, and the secrets that the command receives */
    const struct pl_agent_protocol_secret *secret_uses;
    size_t n_secrets;
    bool no_network;    /* give the command an empty network namespace */
    uint64_t shm_bytes; /* size of /dev/shm in bytes; 0 = the kernel's default */
    /* cgroup folder (cgroup.h) of all processes of the sandbox; NULL = none */
    const char *cgroup;
    /* descriptor that the runner keeps open until no process of the sandbox is left; 0 = none */
    int held_fd;
    size_t n_gpus;                             /* 0 = no GPU device */
    unsigned gpus[PL_AGENT_PROTOCOL_GPUS_MAX]; /* numbers N of /dev/nvidiaN */
    /* UUIDs of the GPUs as CUDA names them; "" = unknown */
    char gpu_uuids[PL_AGENT_PROTOCOL_GPUS_MAX][PL_GPU_UUID_BYTES];
};

/* Paths as the command sees them. */
struct pl_sandbox_paths {
    char pfs[4096];        /* "/pfs" or WORK/pfs */
    char code[4096];       /* "/code" or WORK/code; the working directory if the stage has code */
    char tmp[4096];        /* "/tmp" or WORK/tmp; the working directory if the stage has no code */
    char home[4096];       /* the home folder, writable */
    char script[4096];     /* "/pl/script" or WORK/script; in a pod "/pl/bin/script" */
    char bin[4096];        /* "/pl/bin" or WORK/bin, with pl-next, pachctl and py/pl.py */
    char sock[4096];       /* "/pl/sock" or WORK/sock, with the socket `next` of a batch stage */
    char checkpoint[4096]; /* "/pl/checkpoint" or WORK/checkpoint */
    char input[4096];      /* "/pl/stdin" or WORK/stdin; in a pod "/pl/bin/stdin" */
    char runner[4096];     /* pl-runner, which also copies link targets (copy_links.h) */
};

/* A NULL-terminated argv on the heap, and the environment of the program that it starts. */
struct pl_sandbox_argv {
    char **v;
    size_t n;
    size_t cap;
    char *env[2];
};

/* Makes the arguments that start the runner: bwrap … -- /pl/bin/pl-runner, or only the runner in mode none.
 * With a cgroup they begin with the program that enters it. `seccomp_fd` and `userns_fd` are the descriptors
 * of the filter and of the user namespace in the child, -1 = none. Host folders that do not exist are left
 * out. PL_ENOMEM; PL_EINVAL: the work folder or an extra folder is not absolute, an extra folder does not
 * exist or would show the work folder. */
PL_MUST_CHECK
int pl_sandbox_argv(const struct pl_sandbox_config *config, int seccomp_fd, int userns_fd, struct pl_sandbox_argv *ret,
                    struct pl_err *err);
void pl_sandbox_argv_finish(struct pl_sandbox_argv *argv);

/* Fills in the paths. PL_EINVAL if the work folder's path is too long. */
PL_MUST_CHECK
int pl_sandbox_paths(const struct pl_sandbox_config *config, struct pl_sandbox_paths *ret, struct pl_err *err);
/* Removes the content of a folder, even while a command changes the folder; never removes anything outside
 * it. Keeps the folder itself, because it may be a mount point. PL_ENOTFOUND; PL_EIO and other codes of
 * errno, for instance if the path is a link. */
PL_MUST_CHECK
int pl_sandbox_clear(const char *folder, struct pl_err *err);
/* Removes the work folder, or only its content if it is a mount point. 0 if it does not exist. Does nothing
 * in a pod, where it is removed with the pod. */
PL_MUST_CHECK
int pl_sandbox_remove_folders(const struct pl_sandbox_config *config, struct pl_err *err);
/* Creates an empty work folder and removes what an earlier worker left there. In a pod it only checks that
 * all folders exist. PL_EIO, PL_ENOSPC, PL_EUNAVAILABLE (a folder of the pod is missing). */
PL_MUST_CHECK
int pl_sandbox_make_folders(const struct pl_sandbox_config *config, struct pl_err *err);

/* For a pod's first container: creates the folders below config->work, including those of config->writable,
 * and copies config->runner and config->next to bin/. May be repeated. PL_EIO, PL_ENOSPC. */
PL_MUST_CHECK
int pl_sandbox_install(const struct pl_sandbox_config *config, struct pl_err *err);
/* Makes the path at which the agent writes the stage's script ("script") or its standard input ("stdin"). */
void pl_sandbox_own_file(const struct pl_sandbox_config *config, const char *name, char out[4200]);

/* Returns what the sandbox shows, for the agent's $PATH. Its texts are the configuration's and the environment's. */
struct pl_sandbox_view pl_sandbox_view_of(const struct pl_sandbox_config *config);
/* Makes the command's $PATH: our own programs, the folder of the stage's Python, folders of the agent's $PATH that an
 * extra read-only folder makes visible, then the usual ones. In mode none, instead of the last two, the agent's $PATH;
 * in a pod a prefix of the container's (runner_pod.h). malloc'ed, NULL without memory. */
char *pl_sandbox_search_path(const struct pl_sandbox_config *config);
