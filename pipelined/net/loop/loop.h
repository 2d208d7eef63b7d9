/* net/loop: The libuv loop on which everything that decides runs.
 *
 * In:      Posted functions, timers, child processes.
 * Out:     Callbacks in order.
 * Uses:    storage/{base, system}
 * Threads: One thread; pl_loop_post from any thread. */

/* loop: one libuv loop, on which everything that decides runs: callbacks never block, and a turn that takes over PL_LOOP_SLOW_MS
 * is logged with the label of its slowest callback. Functions belong to the loop's thread unless they say "any thread".
 *
 * A label is a short constant text ("sched.step"): it is kept by pointer, for the log of slow turns. */
#pragma once

#include "storage/base/err.h"
#include <sys/types.h>

#define PL_LOOP_SLOW_MS 50
/* Waiting pl_loop_post calls; at the bound pl_loop_post answers PL_EBUSY. pl_loop_post_work is not counted: its memory is its
 * owner's. */
#define PL_LOOP_POSTS_MAX 65536

struct pl_loop;
struct pl_timer;
struct pl_child;
struct uv_loop_s;
typedef void (*pl_loop_fn)(void *arg);

PL_MUST_CHECK
int pl_loop_create(struct pl_loop **ret, struct pl_err *err);
/* Runs until pl_loop_stop. What was posted before the stop is done. The calling thread becomes the loop's thread. */
void pl_loop_run(struct pl_loop *l);
/* Any thread, also a callback. */
void pl_loop_stop(struct pl_loop *l);
/* Runs what is still posted, closes what the loop owns (timers, signals, children's handles: the children live on) and frees it.
 * Call it on the thread that ran the loop or after that thread ended. A raw uv handle that somebody left open aborts, naming its
 * kind. */
struct pl_loop *pl_loop_destroy(struct pl_loop *l);
/* True on the thread that runs the loop. Any thread. */
bool pl_loop_is_current(const struct pl_loop *l);
struct uv_loop_s *pl_loop_uv(struct pl_loop *l);

/* Runs fn(arg) on the loop, in the order of posting. Any thread, never blocks. PL_EBUSY at PL_LOOP_POSTS_MAX, PL_ENOMEM. */
PL_MUST_CHECK
int pl_loop_post(struct pl_loop *l, const char *label, pl_loop_fn fn, void *arg, struct pl_err *err);
/* The same with the caller's memory: cannot fail. `work` is free again when `fn` begins; posted twice before that it runs once.
 * For completions, whose number is bounded by their objects. Any thread. */
struct pl_loop_work {
    struct pl_loop_work *next;
    const char *label;
    pl_loop_fn fn;
    void *arg;
    bool queued;
    bool owned; /* by pl_loop_post: freed by the loop */
};
void pl_loop_post_work(struct pl_loop *l, struct pl_loop_work *work, const char *label, pl_loop_fn fn, void *arg);

/* For /metrics and status. Any thread. */
struct pl_loop_stats {
    uint64_t turns;
    uint64_t slow_turns;  /* over PL_LOOP_SLOW_MS */
    uint64_t longest_us;  /* the longest turn so far */
    size_t posted;        /* waiting now */
    size_t posted_most;   /* the most that ever waited */
    uint64_t turn_le[12]; /* turns that took at most 2^i × 64 µs (the last: any), for a histogram */
};
void pl_loop_get_stats(struct pl_loop *l, struct pl_loop_stats *ret);

/* --- timers: one-shot, started again at will --- */
PL_MUST_CHECK
int pl_timer_create(struct pl_loop *l, const char *label, pl_loop_fn fn, void *arg, struct pl_timer **ret, struct pl_err *err);
/* Fires once, `delay_ms` from now; an earlier start is forgotten. */
void pl_timer_start(struct pl_timer *t, uint64_t delay_ms);
void pl_timer_stop(struct pl_timer *t);
bool pl_timer_active(const struct pl_timer *t);
/* It never fires again. NULL is fine. */
struct pl_timer *pl_timer_destroy(struct pl_timer *t);

/* --- signals --- */
/* fn(arg) on the loop for each SIGTERM, SIGINT, … until the loop is destroyed. */
PL_MUST_CHECK
int pl_loop_on_signal(struct pl_loop *l, int signum, const char *label, pl_loop_fn fn, void *arg, struct pl_err *err);

/* --- child processes --- */
#define PL_CHILD_FDS_MAX 16

struct pl_child_options {
    const char *label;
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH when it has no slash */
    const char *const *env;  /* NULL-terminated "K=V"; NULL = the daemon's own environment */
    const char *cwd;         /* NULL = the daemon's */
    /* fds[i] becomes descriptor i of the child, -1 = /dev/null. The first three are always there. They stay the caller's. */
    int fds[PL_CHILD_FDS_MAX];
    unsigned n_fds;   /* at least 3 */
    bool own_session; /* setsid: a terminal's ^C and the daemon's end do not reach it, and kill can reach all its processes */
};

/* `status` is the exit code, or 0 when `signum` ended it. Called once; the child is freed when it returns. */
typedef void (*pl_child_exit_fn)(void *arg, int status, int signum);

/* PL_ENOTFOUND (no such program), PL_EIO. On failure nothing runs and `on_exit` is never called. */
PL_MUST_CHECK
int pl_child_spawn(struct pl_loop *l, const struct pl_child_options *o, pl_child_exit_fn on_exit, void *arg,
                   struct pl_child **ret, struct pl_err *err);
pid_t pl_child_pid(const struct pl_child *c);
/* Sends `signum` to the process, or with `group` to its whole session's process group (own_session only). A process that is gone:
 * 0. */
int pl_child_kill(struct pl_child *c, int signum, bool group, struct pl_err *err);
