/* cgroup: limits for the processes of a sandbox, by version 2 of Linux control groups (cgroups(7); Documentation/admin-guide/cgroup-v2.rst).
 *
 *   ROOT/…/own         the group that this program was started in, where that is delegated to it
 *     daemon           this program, which moves there: a group with processes of its own cannot hand controllers to others.
 *                      Started there already, it takes the group above
 *     worker-17        one sandbox and its limits: a leaf
 *
 * A program in the root group, which may have processes, stays there and makes ROOT/NAME in the place of `own`. Where nothing is delegated no
 * group is made, and pl_cgroup_not_held says why. The first part of this header decides and does nothing else; the rest reads and writes files. */
#pragma once

#include "storage/base/err.h"

#include <limits.h>

#define PL_CGROUP_TEXT   512                        /* bytes of a sentence */
#define PL_CGROUP_REMOVE 5000                       /* ms that the processes of a group have to end */
#define PL_CGROUP_PATH   (PATH_MAX - 64)            /* bytes of a group's folder: there is room for a file's name behind it */
#define PL_CGROUP_LEAF   "daemon"                   /* the program's own group */
#define PL_CGROUP_WORKER "worker-"                  /* what the names of workers' groups begin with */
#define PL_CGROUP_ASKED  "Delegate=cpu memory pids" /* what a systemd unit or scope says */

enum pl_cgroup_controller { PL_CGROUP_CPU = 1, PL_CGROUP_MEMORY = 2, PL_CGROUP_PIDS = 4, PL_CGROUP_ALL = 7 };

/* ---- decisions ---- */

/* The path in the line "0::PATH" of /proc/PID/cgroup. False: there is none, it was removed, or it lies outside of this cgroup namespace. */
bool pl_cgroup_own(const char *text, char *ret, size_t size);
/* Of cgroup.controllers or cgroup.subtree_control: those of enum pl_cgroup_controller. */
unsigned pl_cgroup_controllers(const char *text);
/* "cpu and memory": their names; "" for none. Returns `out`. */
char *pl_cgroup_names(unsigned controllers, char out[32]);
/* How many processes a cgroup.procs names beside `pid`. */
size_t pl_cgroup_others(const char *text, int64_t pid);
/* The number in the line "NAME N" of memory.events, 0 without such a line. */
uint64_t pl_cgroup_event(const char *text, const char *name);
/* cpu.weight of a request of so many thousandths of a CPU, 1 to 10000; twice the request is twice the weight. As Kubernetes says: a CPU is 1024
 * shares, at least 2, at most 262144 (MilliCPUToShares of the kubelet's pkg/kubelet/cm/helpers_linux.go), and shares are
 * 1 + (shares − 2) · 9999 ÷ 262142 of weight (KEP-2254, "Phase 1"). Runtimes since runc 1.3.2 and crun 1.23 take a curve through 100 at one CPU: it does not
 * keep proportions, which is what a request is for. */
uint64_t pl_cgroup_weight(uint64_t cpu_milli);
/* pids.max of one sandbox: a quarter of the least of what the machine (kernel.pid_max, kernel.threads-max) and the program's group may have. 0 = not known. */
uint64_t pl_cgroup_pids(uint64_t pid_max, uint64_t threads_max, uint64_t group_max);

struct pl_cgroup_facts {
    const char *root;    /* where cgroups are mounted */
    const char *program; /* "pipelined" */
    const char *own;     /* the group that is to hold others, as /proc/self/cgroup says; NULL = there is none */
    bool version_1;      /* something else than version 2 is mounted at `root` */
    bool version_2;
    bool in_root;         /* `own` is the root of all groups */
    bool read_only;       /* `root` */
    bool writable;        /* this user may write in `own` */
    bool systemds;        /* systemd manages the groups and has not delegated this one, though root could write there */
    size_t others;        /* processes in `own` beside this one */
    unsigned controllers; /* that `own` has */
};

/* Which controllers may be tried. Of those that may not, `why` and the `remedy`; both "" with all of them. */
unsigned pl_cgroup_judge(const struct pl_cgroup_facts *facts, char why[PL_CGROUP_TEXT], char remedy[PL_CGROUP_TEXT]);

/* ---- groups ---- */

struct pl_cgroup;

struct pl_cgroup_config {
    const char *program;               /* in sentences, and in the command that is a remedy: "pipelined", "pipelinectl" */
    const char *name;                  /* of the group that is made in the root group; the same in each life of a daemon */
    const char *root, *proc, *systemd; /* NULL = /sys/fs/cgroup, /proc, /run/systemd/system; tests have their own */
};

struct pl_cgroup_limits {
    uint64_t memory_bytes; /* 0 = none */
    uint64_t cpu_milli;    /* requested; 0 = the weight that all groups have */
};

/* Looks what this program may do, moves it to a leaf and enables controllers. 0 also where nothing may be done: pl_cgroup_held says so, and the
 * program is where it was. Call it before the program starts others. PL_ENOMEM. */
PL_MUST_CHECK
int pl_cgroup_open(const struct pl_cgroup_config *config, struct pl_cgroup **ret, struct pl_err *err);
/* Removes the group of `name` if none is left in it. Takes NULL, returns NULL. */
struct pl_cgroup *pl_cgroup_close(struct pl_cgroup *g);
/* Controllers whose limits hold; 0: groups are not made. */
unsigned pl_cgroup_held(const struct pl_cgroup *g);
/* Why the others do not, and what to do; "" when all do. */
const char *pl_cgroup_why(const struct pl_cgroup *g);
const char *pl_cgroup_remedy(const struct pl_cgroup *g);
/* Whether what a stage says of memory and CPU does not hold: then one sentence that says what, why, and the remedy. */
bool pl_cgroup_not_held(const struct pl_cgroup *g, bool memory, bool cpu, char *out, size_t size);
/* The folder in which groups are made. */
const char *pl_cgroup_folder(const struct pl_cgroup *g);
/* The folder of a worker's group, whether or not it is there. Returns `out`. */
char *pl_cgroup_path(const struct pl_cgroup *g, const char *worker, char out[PL_CGROUP_PATH]);
/* Makes it with its limits; one that is there already gets them. What goes over its memory is killed as a whole (memory.oom.group), and does not
 * swap. Only while something is held. PL_EIO, PL_ENOSPC (the parent allows no more). */
PL_MUST_CHECK
int pl_cgroup_make(const struct pl_cgroup *g, const char *worker, const struct pl_cgroup_limits *limits, struct pl_err *err);

/* ---- one group, by its folder; any thread ---- */

/* Kills all in it, where the kernel can (cgroup.kill, Linux 5.14). Does nothing when it is not there. */
void pl_cgroup_kill(const char *path);
/* Kills all in it, waits until they have ended, PL_CGROUP_REMOVE at most, and removes it. Absent is fine. PL_EBUSY, PL_EIO. */
PL_MUST_CHECK
int pl_cgroup_remove(const char *path, struct pl_err *err);

/* A group's limit of memory, and what the kernel did for lack of it since the group was made. */
struct pl_cgroup_memory {
    uint64_t limit_bytes; /* 0 = none */
    uint64_t at_limit;    /* times that the limit was reached and nothing could be freed */
    uint64_t killed;      /* processes, also for lack of memory elsewhere on the machine */
};
/* Zeros where it cannot be read. */
void pl_cgroup_read_memory(const char *path, struct pl_cgroup_memory *ret);
