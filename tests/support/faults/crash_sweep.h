/* crash_sweep: a workload of steps that meets a crash, or a failure, at every single write, sync and rename it makes: in the files of
 * storage/base/io and in those of SQLite. What was acknowledged is there, nothing is half there, and work goes on. */
#pragma once

#include "tests/support/faults/sqlite_faults.h"
#include "tests/support/fixtures/store_fixture.h"

#include <signal.h>
#include <sys/wait.h>

enum where { FILE_WRITE = PL_IO_WRITE, FILE_FSYNC = PL_IO_FSYNC, FILE_RENAME = PL_IO_RENAME, DATABASE = PL_IO_CALLS, WHERES };

struct crash_work {
    size_t steps;
    void *world;
    char *dir; /* of all its files; empty at the start */
    int (*open)(void *world, struct pl_err *err);
    void (*close)(void *world);
    int (*step)(void *world, size_t i, struct pl_err *err);
    /* Fails the test unless the state is that after `low` or, when `may_be_more`, after `low` + 1 steps: which. */
    size_t (*check)(void *world, size_t low, bool may_be_more, const char *what);
    /* Whether it does nothing any more, because it cannot know what was done. */
    bool (*gave_up)(void *world);
    /* Is it whole? `closely`, now and then: it may close the world then. */
    void (*look)(void *world, bool closely, const char *what);
};

static UNUSED void crash_arm(enum where where, uint64_t nth, int how)
{
    if (where == DATABASE)
        sqlite_fail_nth(nth, how);
    else
        pl_io_fail_nth((enum pl_io_call)where, nth, how);
}

static UNUSED void crash_disarm(void)
{
    for (int where = 0; where < WHERES; where++)
        crash_arm((enum where)where, 0, 0);
}

/* Those after it fail too. */
static UNUSED void crash_last(enum where where, bool lasting)
{
    if (where == DATABASE)
        sqlite_faults.lasting = lasting;
    else
        pl_io_fail_on((enum pl_io_call)where, lasting);
}

static UNUSED uint64_t crash_calls(enum where where)
{
    return where == DATABASE ? sqlite_faults.calls : pl_io_calls((enum pl_io_call)where);
}

/* An empty folder again. */
static UNUSED void crash_start_over(const struct crash_work *w)
{
    w->close(w->world);
    assert_int_equal(pl_io_remove_tree(w->dir, NULL), 0);
    assert_int_equal(mkdir(w->dir, 0700), 0);
}

static UNUSED void crash_steps(const struct crash_work *w, size_t from)
{
    struct pl_err err = {0};

    for (size_t i = from; i < w->steps; i++)
        if (w->step(w->world, i, &err) < 0)
            fail_msg("step %zu: %s", i, err.msg);
}

static UNUSED void crash_open(const struct crash_work *w)
{
    struct pl_err err = {0};

    assert_ok(w->open(w->world, &err), &err);
}

/* ---- crashes ---- */

/* In a process of its own: the workload, a byte to `fd` for each step acknowledged. */
static UNUSED void crash_child(const struct crash_work *w, enum where where, uint64_t nth, int how, int fd)
{
    struct pl_err err;

    crash_arm(where, nth, how);
    if (w->open(w->world, &err) < 0)
        _exit(1);
    for (size_t i = 0; i < w->steps; i++)
        if (w->step(w->world, i, &err) < 0 || write(fd, "", 1) != 1)
            _exit(1);
    w->close(w->world);
    _exit(0);
}

/* Steps acknowledged. `kill_after`: it is killed as soon as so many are; SIZE_MAX: never. */
static UNUSED size_t crash_run(const struct crash_work *w, enum where where, uint64_t nth, int how, size_t kill_after,
                               int *ret_status)
{
    size_t acknowledged = 0;
    int fds[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        crash_child(w, where, nth, how, fds[1]);
    close(fds[1]);
    while (acknowledged < kill_after && read(fds[0], &byte, 1) == 1)
        acknowledged++;
    if (kill_after != SIZE_MAX)
        kill(pid, SIGKILL);
    while (read(fds[0], &byte, 1) == 1)
        acknowledged++;
    close(fds[0]);
    assert_int_equal(waitpid(pid, ret_status, 0), pid);
    return acknowledged;
}

static UNUSED void crash_check(const struct crash_work *w, size_t acknowledged, bool go_on, const char *what)
{
    size_t n;

    crash_open(w);
    n = w->check(w->world, acknowledged, true, what);
    if (go_on) {
        crash_steps(w, n);
        w->check(w->world, w->steps, false, what);
    }
    w->look(w->world, true, what);
}

/* At every `stride`th call. */
static UNUSED void crash_sweep(const struct crash_work *w, enum where where, int how, uint64_t stride)
{
    char what[64];
    int status = 0;
    uint64_t n;

    for (n = 1;; n += stride) {
        size_t acknowledged = crash_run(w, where, n, how, SIZE_MAX, &status);

        snprintf(what, sizeof what, "crash %s call %llu of kind %d", how == PL_IO_EXIT_AFTER ? "after" : "before",
                 (unsigned long long)n, (int)where);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != PL_IO_EXIT_STATUS && WEXITSTATUS(status) != 0))
            fail_msg("%s: status %d after %zu steps", what, status, acknowledged);
        if (WEXITSTATUS(status) == 0)
            break; /* there are no more calls */
        crash_check(w, acknowledged, n / stride % 4 == 0, what);
        crash_start_over(w);
    }
    assert_true(n > 2 * w->steps / 3);
    crash_check(w, w->steps, false, "no crash");
    crash_start_over(w);
}

static UNUSED void crash_kill_at_random(const struct crash_work *w, int rounds)
{
    uint64_t seed = 20261121;
    int status;

    for (int round = 0; round < rounds; round++) {
        size_t wanted = pl_splitmix64(&seed) % w->steps;

        crash_check(w, crash_run(w, FILE_WRITE, 0, 0, wanted, &status), true, "kill -9");
        crash_start_over(w);
    }
}

/* ---- failures ---- */

/* Step `i` has failed. The world goes on with it undone, or has given up because it cannot know. Steps done now. */
static UNUSED size_t crash_after_failure(const struct crash_work *w, size_t i, const char *what)
{
    struct pl_err err = {0};

    if (!w->gave_up(w->world))
        return w->check(w->world, i, false, what);
    assert_int_equal(w->step(w->world, i, &err), PL_ESTOPPING);
    w->close(w->world);
    crash_open(w);
    return w->check(w->world, i, true, what);
}

/* A disk that is full stays so: what is tried again fails again, and leaves as little. Then there is room. */
static UNUSED void crash_try_again(const struct crash_work *w, size_t i, const char *what)
{
    struct pl_err err = {0};
    int r = w->step(w->world, i, &err);

    if (r >= 0 || !*err.msg)
        fail_msg("%s: step %zu, tried again: %d: %s", what, i, r, err.msg);
    crash_disarm();
}

static UNUSED void crash_with_failure(const struct crash_work *w, bool lasting, const char *what)
{
    struct pl_err err = {0};
    unsigned failures = 0;
    int r = w->open(w->world, &err);

    if (r < 0 && lasting)
        crash_disarm();
    if (r < 0)
        crash_open(w);
    for (size_t i = 0; i < w->steps;) {
        r = w->step(w->world, i, &err);
        if (r >= 0) {
            i++;
            continue;
        }
        if (++failures > 1)
            fail_msg("%s: step %zu fails after one failure: %s", what, i, err.msg);
        assert_true(*err.msg);
        if (lasting)
            crash_try_again(w, i, what);
        i = crash_after_failure(w, i, what);
    }
}

/* The nth call fails, or with `lasting` that and all after it, until a step has failed twice. */
static UNUSED void crash_sweep_failures(const struct crash_work *w, enum where where, int how, bool lasting, uint64_t stride)
{
    char what[80];
    bool reached = true;

    for (uint64_t n = 1; reached; n += stride) {
        uint64_t before = crash_calls(where);

        snprintf(what, sizeof what, "error %d %s call %llu of kind %d", how, lasting ? "from" : "at", (unsigned long long)n,
                 (int)where);
        crash_arm(where, n, how);
        crash_last(where, lasting);
        crash_with_failure(w, lasting, what);
        reached = crash_calls(where) - before >= n;
        crash_disarm();
        w->check(w->world, w->steps, false, what);
        w->look(w->world, n / stride % 4 == 0, what);
        crash_start_over(w);
    }
}
