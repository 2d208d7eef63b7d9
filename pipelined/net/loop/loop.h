/* net/loop: The libuv loop on which everything that decides runs.
 *
 * In:      Posted functions, timers, child processes.
 * Out:     Callbacks in order.
 * Uses:    storage/{base, system}
 * Threads: One thread; pl_loop_post from any thread.
 *
 * Callbacks never block; a turn that takes more than PL_LOOP_SLOW_MS is logged with the label of its slowest
 * callback. Functions must be called on the loop's thread unless stated otherwise.
 *
 * A label is a constant short text ("sched.step"), kept by pointer. */
#pragma once

#include "storage/base/err.h"
#include <sys/types.h>

#define PL_LOOP_SLOW_MS 50
/* Bound on waiting pl_loop_post calls, beyond which pl_loop_post returns PL_EBUSY. pl_loop_post_work does not
 * count: the caller owns its memory. */
#define PL_LOOP_POSTS_MAX 65536

struct pl_loop;
struct pl_timer;
struct pl_child;
struct uv_loop_s;
typedef void (*pl_loop_fn)(void *arg);

PL_MUST_CHECK
int pl_loop_create(struct pl_loop **ret, struct pl_err *err);
/* Runs until pl_loop_stop; what was posted before the stop still runs. The calling thread becomes the loop's
 * thread. */
void pl_loop_run(struct pl_loop *l);
/* Stops the loop. Any thread, also from a callback. */
void pl_loop_stop(struct pl_loop *l);
/* Runs what is still posted, closes what the loop owns (timers, signals, handles of children, which live on) and
 * frees it. Call it on the loop's thread, or after that thread ended. Aborts if a raw uv handle is still open,
 * naming its kind. */
struct pl_loop *pl_loop_destroy(struct pl_loop *l);
/* True on the thread that runs the loop. Any thread. */
bool pl_loop_is_current(const struct pl_loop *l);
struct uv_loop_s *pl_loop_uv(struct pl_loop *l);

/* Runs fn(arg) on the loop, in order of posting. Any thread, never blocks. PL_EBUSY at the bound, PL_ENOMEM. */
PL_MUST_CHECK
int pl_loop_post(struct pl_loop *l, const char *label, pl_loop_fn fn, void *arg, struct pl_err *err);
/* The same with the caller's memory: cannot fail. `work` may be reused or freed once `fn` begins; posting it again
 * before that has no effect. For completions, whose number is bounded by their objects. Any thread. */
struct pl_loop_work {
    struct pl_loop_work *next;
    const char *label;
    pl_loop_fn fn;
    void *arg;
    bool queued;
    bool owned; /* allocated by pl_loop_post; the loop frees it */
};
void pl_loop_post_work(struct pl_loop *l, struct pl_loop_work *work, const char *label, pl_loop_fn fn, void *arg);

/* Figures for /metrics and status. Any thread. */
struct pl_loop_stats {
    uint64_t turns;
    uint64_t slow_turns;  /* over PL_LOOP_SLOW_MS */
    uint64_t longest_us;  /* the longest turn so far */
    size_t posted;        /* waiting now */
    size_t posted_most;   /* the most that ever waited at once */
    uint64_t turn_le[12]; /* histogram: turns that took at most 2^i × 64 µs (the last: any) */
};
void pl_loop_get_stats(struct pl_loop *l, struct pl_loop_stats *ret);

/* --- timers: one-shot, may be started again --- */
PL_MUST_CHECK
int pl_timer_create(struct pl_loop *l, const char *label, pl_loop_fn fn, void *arg, struct pl_timer **ret, struct pl_err *err);
/* Starts the timer: it fires once, `delay_ms` from now. Replaces an earlier start. */
void pl_timer_start(struct pl_timer *t, uint64_t delay_ms);
void pl_timer_stop(struct pl_timer *t);
bool pl_timer_active(const struct pl_timer *t);
/* Stops and frees the timer. NULL is allowed. */
struct pl_timer *pl_timer_destroy(struct pl_timer *t);

/* --- signals --- */
/* Calls fn(arg) on the loop for each signal `signum` until the loop is destroyed. */
PL_MUST_CHECK
int pl_loop_on_signal(struct pl_loop *l, int signum, const char *label, pl_loop_fn fn, void *arg, struct pl_err *err);

/* --- child processes --- */
#define PL_CHILD_FDS_MAX 16

struct pl_child_options {
    const char *label;
    const char *const *argv; /* NULL-terminated; argv[0] without a slash is looked up in PATH */
    const char *const *env;  /* NULL-terminated "K=V"; NULL = the daemon's own environment */
    const char *cwd;         /* NULL = the daemon's */
    /* fds[i] becomes descriptor i of the child, -1 = /dev/null. The first three always exist. The caller keeps its
     * descriptors. */
    int fds[PL_CHILD_FDS_MAX];
    unsigned n_fds; /* at least 3 */
    /* setsid: a terminal's ^C and the daemon's end do not reach the child, and kill can reach its whole process
     * group */
    bool own_session;
};

/* `status` is the exit code, or 0 if signal `signum` ended the child. Called once; the child is freed afterwards. */
typedef void (*pl_child_exit_fn)(void *arg, int status, int signum);

/* Starts a child process. PL_ENOTFOUND (no such program), PL_EIO: then no process runs and `on_exit` is not
 * called. */
PL_MUST_CHECK
int pl_child_spawn(struct pl_loop *l, const struct pl_child_options *o, pl_child_exit_fn on_exit, void *arg,
                   struct pl_child **ret, struct pl_err *err);
pid_t pl_child_pid(const struct pl_child *c);
/* Sends `signum` to the process, or with `group` to its process group (own_session only). Returns 0 also if the
 * process has ended. */
int pl_child_kill(struct pl_child *c, int signum, bool group, struct pl_err *err);
