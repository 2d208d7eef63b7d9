/* cgroup: limits for the processes of a sandbox, by version 2 of Linux control groups (cgroups(7);
 * Documentation/admin-guide/cgroup-v2.rst).
 *
 *   ROOT/…/own         the group in which this program was started, if it is delegated to the program
 *     daemon           this program moves into this group: a group that has processes cannot enable
 *                      controllers for its subgroups. If the program was already started in it, `own` is the
 *                      group above
 *     worker-17        one sandbox and its limits; it has no subgroups
 *
 * A program in the root group stays there, because the root group may have processes; it makes a group
 * ROOT/NAME and uses it as `own`. If no group is delegated to the program, it makes none, and
 * pl_cgroup_not_held explains why. The functions in the first part of this header are pure; those in the
 * second part read and write files. */
#pragma once

#include "storage/base/err.h"

#include <limits.h>

#define PL_CGROUP_TEXT   512  /* bytes of one message */
#define PL_CGROUP_REMOVE 5000 /* ms within which the processes of a group must end */
/* bytes of a folder's path; leaves room for a file name */
#define PL_CGROUP_PATH   (PATH_MAX - 64)
#define PL_CGROUP_LEAF   "daemon"  /* name of the program's own group */
#define PL_CGROUP_WORKER "worker-" /* prefix of the names of workers' groups */
/* line in a systemd unit or scope that requests the delegation of these controllers */
#define PL_CGROUP_ASKED "Delegate=cpu memory pids"

enum pl_cgroup_controller { PL_CGROUP_CPU = 1, PL_CGROUP_MEMORY = 2, PL_CGROUP_PIDS = 4, PL_CGROUP_ALL = 7 };

/* ---- decisions: pure functions ---- */

/* Copies the PATH of the line "0::PATH" in /proc/PID/cgroup to `ret`. False: no such line, the group was
 * removed, or it is outside this cgroup namespace. */
bool pl_cgroup_own(const char *text, char *ret, size_t size);
/* Parses cgroup.controllers or cgroup.subtree_control. Returns a set of bits of enum pl_cgroup_controller;
 * unknown names are ignored. */
unsigned pl_cgroup_controllers(const char *text);
/* Formats the names of a set of controllers: "cpu and memory"; "" for none. Returns `out`. */
char *pl_cgroup_names(unsigned controllers, char out[32]);
/* Returns the number of processes other than `pid` that a cgroup.procs lists. */
size_t pl_cgroup_others(const char *text, int64_t pid);
/* Returns the number in the line "NAME N" of memory.events; 0 if there is no such line. */
uint64_t pl_cgroup_event(const char *text, const char *name);
/* Returns the cpu.weight, 1 to 10000, for a request of `cpu_milli` thousandths of a CPU; twice the request
 * gives twice the weight. The formula is that of Kubernetes: one CPU is 1024 shares, at least 2, at most
 * 262144 (MilliCPUToShares in the kubelet's pkg/kubelet/cm/helpers_linux.go), and the weight is 1 + (shares −
 * 2) · 9999 ÷ 262142 (KEP-2254, "Phase 1"). Runtimes since runc 1.3.2 and crun 1.23 use a curve that passes
 * through 100 at one CPU; it is not used here because it does not keep the proportions of requests. */
uint64_t pl_cgroup_weight(uint64_t cpu_milli);
/* Returns the pids.max of one sandbox: a quarter of the smallest of kernel.pid_max, kernel.threads-max and
 * the limit of the program's group. An argument of 0 is unknown; the result is 0 if all are unknown. */
uint64_t pl_cgroup_pids(uint64_t pid_max, uint64_t threads_max, uint64_t group_max);

struct pl_cgroup_facts {
    const char *root;    /* folder where cgroups are mounted */
    const char *program; /* name for messages: "pipelined" */
    /* folder of the group that would contain the workers' groups, from /proc/self/cgroup; NULL = none */
    const char *own;
    bool version_1; /* version 1, or both versions, are mounted at `root` */
    bool version_2;
    bool in_root;   /* `own` is the root of all groups */
    bool read_only; /* `root` is mounted read-only */
    bool writable;  /* this user may write in `own` */
    /* the program runs as root and could write, but systemd manages `own` and has not delegated it */
    bool systemds;
    size_t others;        /* processes in `own` other than this one */
    unsigned controllers; /* controllers available in `own` */
};

/* Returns the controllers that this program may try to use. If some are missing, `why` receives the reason
 * and `remedy` what to do; otherwise both are "". */
unsigned pl_cgroup_judge(const struct pl_cgroup_facts *facts, char why[PL_CGROUP_TEXT], char remedy[PL_CGROUP_TEXT]);

/* ---- the program's groups ---- */

struct pl_cgroup;

struct pl_cgroup_config {
    /* name of this program, for messages and for the commands that messages suggest: "pipelined",
     * "pipelinectl" */
    const char *program;
    /* name of the group made in the root group; the same after a restart */
    const char *name;
    const char *root, *proc, *systemd; /* NULL = /sys/fs/cgroup, /proc, /run/systemd/system; tests set them */
};

struct pl_cgroup_limits {
    uint64_t memory_bytes; /* maximum; 0 = none */
    uint64_t cpu_milli;    /* requested thousandths of a CPU; 0 = the default weight */
};

/* Finds out what this program may do, moves it to a leaf group and enables controllers. Returns 0 even if no
 * limit can be enforced: pl_cgroup_held then returns 0, and the program stays in its group. Must be called
 * before the program starts child processes. The caller frees `*ret` with pl_cgroup_close. PL_ENOMEM. */
PL_MUST_CHECK
int pl_cgroup_open(const struct pl_cgroup_config *config, struct pl_cgroup **ret, struct pl_err *err);
/* Removes the group ROOT/NAME if it was made and no worker's group is left in it, and frees `g`. NULL is
 * allowed. Returns NULL. */
struct pl_cgroup *pl_cgroup_close(struct pl_cgroup *g);
/* Returns the set of controllers whose limits are enforced; 0 = none, and no groups are made. */
unsigned pl_cgroup_held(const struct pl_cgroup *g);
/* Return texts for users: why the limits of the other controllers are not enforced, and what to do about it;
 * "" if all are enforced. Owned by `g`. */
const char *pl_cgroup_why(const struct pl_cgroup *g);
const char *pl_cgroup_remedy(const struct pl_cgroup *g);
/* Returns true if a stage asks for a limit of memory or CPU that is not enforced; `out` then receives one
 * sentence with the limit, the reason and the remedy. */
bool pl_cgroup_not_held(const struct pl_cgroup *g, bool memory, bool cpu, char *out, size_t size);
/* Returns the folder in which groups are made; owned by `g`. */
const char *pl_cgroup_folder(const struct pl_cgroup *g);
/* Writes the folder of a worker's group, which need not exist, to `out`; returns `out`. */
char *pl_cgroup_path(const struct pl_cgroup *g, const char *worker, char out[PL_CGROUP_PATH]);
/* Makes the group of a worker with its limits; if the group exists, sets its limits. If its processes exceed
 * their memory, the kernel kills all of them (memory.oom.group); they do not swap. Call it only if
 * pl_cgroup_held is not 0. PL_EIO, PL_ENOSPC (the parent allows no more groups). */
PL_MUST_CHECK
int pl_cgroup_make(const struct pl_cgroup *g, const char *worker, const struct pl_cgroup_limits *limits, struct pl_err *err);

/* ---- one group, named by its folder; any thread ---- */

/* Kills all processes in the group, if the kernel supports it (cgroup.kill, Linux 5.14). Does nothing if the
 * group does not exist. */
void pl_cgroup_kill(const char *path);
/* Kills all processes in the group, waits at most PL_CGROUP_REMOVE ms until they have ended, and removes the
 * group. Returns 0 if the group does not exist. PL_EBUSY (processes are still there), PL_EIO. */
PL_MUST_CHECK
int pl_cgroup_remove(const char *path, struct pl_err *err);

/* A group's memory limit, and events since the group was made. */
struct pl_cgroup_memory {
    uint64_t limit_bytes; /* 0 = none */
    uint64_t at_limit;    /* number of times that the limit was reached and no memory could be freed */
    /* number of processes killed for lack of memory, within the limit or on the whole machine */
    uint64_t killed;
};
/* Reads the limit and the events of a group. Fields that cannot be read are 0. */
void pl_cgroup_read_memory(const char *path, struct pl_cgroup_memory *ret);
