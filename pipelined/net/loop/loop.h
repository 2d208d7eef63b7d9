/* net/loop: The libuv loop. Its thread makes the daemon's decisions, one callback after another.
 *
 * In:      Posted functions, timers, child processes.
 * Out:     Callbacks in order.
 * Uses:    storage/{base, system}
 * Threads: One thread; pl_loop_post from any thread.
 *
 * Callbacks never block. A turn (all callbacks between two polls) that takes more than PL_LOOP_SLOW_MS is logged with
 * the label of its slowest callback. Functions must be called on the loop's thread unless stated otherwise.
 *
 * A label is a short constant text ("sched.step"); the loop keeps the pointer. */
#pragma once

#include "storage/base/err.h"
#include <sys/types.h>

#define PL_LOOP_SLOW_MS 50
/* Most functions that may wait after pl_loop_post; beyond this number, pl_loop_post returns PL_EBUSY.
 * Functions posted with pl_loop_post_work do not count, because their memory is the caller's. */
#define PL_LOOP_POSTS_MAX 65536

struct pl_loop;
struct pl_timer;
struct pl_child;
struct uv_loop_s;
typedef void (*pl_loop_fn)(void *arg);

PL_MUST_CHECK
int pl_loop_create(struct pl_loop **ret, struct pl_err *err);
/* Runs the loop until pl_loop_stop. Functions that were posted before the stop still run. The calling thread
 * becomes the loop's thread. */
void pl_loop_run(struct pl_loop *l);
/* Stops the loop. Any thread, also from a callback. */
void pl_loop_stop(struct pl_loop *l);
/* Runs the functions that are still posted, closes what the loop owns (timers, signals, and the handles of
 * children, which continue to run) and frees the loop. Call it on the loop's thread, or after that thread has
 * ended. Aborts if another libuv handle is still open; a log line names its kind. */
struct pl_loop *pl_loop_destroy(struct pl_loop *l);
/* True on the thread that runs the loop. Any thread. */
bool pl_loop_is_current(const struct pl_loop *l);
struct uv_loop_s *pl_loop_uv(struct pl_loop *l);

/* Runs fn(arg) on the loop. Functions run in the order in which they were posted. Any thread, never blocks.
 * PL_EBUSY: too many functions wait; PL_ENOMEM. */
PL_MUST_CHECK
int pl_loop_post(struct pl_loop *l, const char *label, pl_loop_fn fn, void *arg, struct pl_err *err);
/* Like pl_loop_post, but uses the caller's memory and therefore cannot fail. `work` may be reused or freed as
 * soon as `fn` begins; posting it again before that has no effect. The number of such functions is
 * not limited: use pl_loop_post_work for completions, of which each object has only a bounded number. Any
 * thread. */
struct pl_loop_work {
    struct pl_loop_work *next;
    const char *label;
    pl_loop_fn fn;
    void *arg;
    bool queued;
    bool owned; /* allocated by pl_loop_post, so the loop frees it */
};
void pl_loop_post_work(struct pl_loop *l, struct pl_loop_work *work, const char *label, pl_loop_fn fn, void *arg);

/* Figures for /metrics and status. Any thread. */
struct pl_loop_stats {
    uint64_t turns;
    uint64_t slow_turns; /* number of turns longer than PL_LOOP_SLOW_MS */
    uint64_t longest_us; /* length of the longest turn so far */
    size_t posted;       /* number of posted functions that wait now */
    size_t posted_most;  /* the largest number of posted functions that ever waited at once */
    /* histogram of turns: element i counts those of at most 2^i × 64 µs; the last element counts all
     * longer ones */
    uint64_t turn_le[12];
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
/* Calls fn(arg) on the loop each time that the process receives the signal `signum`, until the loop is
 * destroyed. */
PL_MUST_CHECK
int pl_loop_on_signal(struct pl_loop *l, int signum, const char *label, pl_loop_fn fn, void *arg, struct pl_err *err);

/* --- child processes --- */
#define PL_CHILD_FDS_MAX 16

struct pl_child_options {
    const char *label;
    const char *const *argv; /* NULL-terminated list; argv[0] is looked up in PATH if it has no slash */
    const char *const *env;  /* NULL-terminated list of "K=V"; NULL = the daemon's own environment */
    const char *cwd;         /* working directory; NULL = the daemon's */
    /* fds[i] becomes descriptor i of the child; -1 = /dev/null. Descriptors 0 to 2 of the child are always
     * open. The caller still owns its descriptors. */
    int fds[PL_CHILD_FDS_MAX];
    unsigned n_fds; /* number of descriptors; fewer than 3 count as 3 */
    /* run the child in a session of its own (setsid): ^C in a terminal and the daemon's end do not reach it,
     * and pl_child_kill can reach its whole process group */
    bool own_session;
};

/* Called once when the child has ended. `status` is the exit code; it is 0 if the signal `signum` ended the
 * child. The child is freed after the call. */
typedef void (*pl_child_exit_fn)(void *arg, int status, int signum);

/* Starts a child process. PL_ENOTFOUND (no such program), PL_EIO: then no process runs and `on_exit` is not
 * called. */
PL_MUST_CHECK
int pl_child_spawn(struct pl_loop *l, const struct pl_child_options *o, pl_child_exit_fn on_exit, void *arg,
                   struct pl_child **ret, struct pl_err *err);
pid_t pl_child_pid(const struct pl_child *c);
/* Sends `signum` to the process. With `group` it goes to the whole process group, if the child has its own
 * session. Returns 0 also if the process has ended. */
int pl_child_kill(struct pl_child *c, int signum, bool group, struct pl_err *err);
