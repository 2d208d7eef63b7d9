// link: pipelined/net/loop
/* The event loop: what is posted runs in order on one thread, timers fire once, children report how they ended. */
#include "pipelined/net/loop/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

static struct pl_loop *loop;

static int make_loop(void **state)
{
    (void)state;
    return pl_loop_create(&loop, NULL);
}

static int drop_loop(void **state)
{
    (void)state;
    loop = pl_loop_destroy(loop);
    return 0;
}

static void stop(void *arg)
{
    (void)arg;
    pl_loop_stop(loop);
}

/* --- posting --- */

#define POSTERS 4
#define POSTS   5000

struct poster {
    unsigned sent, seen;
    bool in_order, on_loop;
};
struct note {
    struct poster *poster;
    unsigned number;
};

static void on_note(void *arg)
{
    struct note *n = arg;

    n->poster->in_order &= n->number == n->poster->seen;
    n->poster->on_loop &= pl_loop_is_current(loop);
    n->poster->seen++;
    free(n);
}

static void *post_many(void *arg)
{
    struct poster *p = arg;

    while (p->sent < POSTS) {
        struct note *n = malloc(sizeof(*n));

        *n = (struct note){p, p->sent};
        if (pl_loop_post(loop, "note", on_note, n, NULL) < 0) {
            free(n);
            continue;
        }
        p->sent++;
    }
    return NULL;
}

static void *post_and_stop(void *arg)
{
    pthread_t threads[POSTERS];
    struct poster *posters = arg;

    for (int i = 0; i < POSTERS; i++)
        pthread_create(&threads[i], NULL, post_many, &posters[i]);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    pl_loop_stop(loop);
    return NULL;
}

static void test_each_threads_posts_run_in_order_on_the_loop(void **state)
{
    struct poster posters[POSTERS];
    struct pl_loop_stats stats;
    pthread_t starter;

    (void)state;
    for (int i = 0; i < POSTERS; i++)
        posters[i] = (struct poster){.in_order = true, .on_loop = true};
    pthread_create(&starter, NULL, post_and_stop, posters);
    pl_loop_run(loop);
    pthread_join(starter, NULL);
    for (int i = 0; i < POSTERS; i++) {
        assert_int_equal(posters[i].seen, POSTS);
        assert_true(posters[i].in_order);
        assert_true(posters[i].on_loop);
    }
    pl_loop_get_stats(loop, &stats);
    assert_int_equal(stats.posted, 0);
    assert_true(stats.posted_most > 0);
    assert_false(pl_loop_is_current(loop));
}

static void count(void *arg)
{
    ++*(unsigned *)arg;
}

static void test_the_queue_has_a_bound(void **state)
{
    unsigned seen = 0;
    struct pl_err err = {0};

    (void)state;
    for (unsigned i = 0; i < PL_LOOP_POSTS_MAX; i++)
        assert_int_equal(pl_loop_post(loop, "count", count, &seen, NULL), 0);
    assert_int_equal(pl_loop_post(loop, "count", count, &seen, &err), PL_EBUSY);
    assert_non_null(strstr(err.msg, "65536"));
    pl_loop_stop(loop);
    pl_loop_run(loop);
    assert_int_equal(seen, PL_LOOP_POSTS_MAX);
}

static void test_work_posted_twice_before_it_runs_runs_once_and_may_be_posted_again(void **state)
{
    struct pl_loop_work work = {0};
    unsigned seen = 0;

    (void)state;
    pl_loop_post_work(loop, &work, "count", count, &seen);
    pl_loop_post_work(loop, &work, "count", count, &seen);
    pl_loop_stop(loop);
    pl_loop_run(loop);
    assert_int_equal(seen, 1);
    pl_loop_post_work(loop, &work, "count", count, &seen);
    pl_loop_stop(loop);
    pl_loop_run(loop);
    assert_int_equal(seen, 2);
}

static void test_what_was_posted_runs_even_when_the_loop_never_did(void **state)
{
    unsigned seen = 0;

    (void)state;
    assert_int_equal(pl_loop_post(loop, "count", count, &seen, NULL), 0);
    loop = pl_loop_destroy(loop);
    assert_int_equal(seen, 1);
}

/* --- timers --- */

struct ticks {
    struct pl_timer *timer, *never;
    unsigned fired, forbidden;
};

static void on_tick(void *arg)
{
    struct ticks *t = arg;

    if (++t->fired < 3)
        pl_timer_start(t->timer, 1);
    else
        pl_loop_stop(loop);
}

static void on_never(void *arg)
{
    ((struct ticks *)arg)->forbidden++;
}

static void test_a_timer_fires_once_per_start(void **state)
{
    struct ticks t = {0};

    (void)state;
    assert_int_equal(pl_timer_create(loop, "tick", on_tick, &t, &t.timer, NULL), 0);
    assert_int_equal(pl_timer_create(loop, "never", on_never, &t, &t.never, NULL), 0);
    pl_timer_start(t.timer, 0);
    pl_timer_start(t.never, 0);
    pl_timer_stop(t.never);
    assert_false(pl_timer_active(t.never));
    assert_true(pl_timer_active(t.timer));
    pl_loop_run(loop);
    assert_int_equal(t.fired, 3);
    assert_int_equal(t.forbidden, 0);
    t.timer = pl_timer_destroy(t.timer); /* the other is closed with the loop */
}

static void destroy_self(void *arg)
{
    struct pl_timer **t = arg;

    *t = pl_timer_destroy(*t);
    pl_loop_stop(loop);
}

static void test_a_timer_may_destroy_itself(void **state)
{
    struct pl_timer *t;

    (void)state;
    assert_int_equal(pl_timer_create(loop, "self", destroy_self, &t, &t, NULL), 0);
    pl_timer_start(t, 0);
    pl_loop_run(loop);
    assert_null(t);
}

static void burn(void *arg)
{
    struct timespec end, now;

    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += (PL_LOOP_SLOW_MS + 10) * 1000000L;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - end.tv_sec) * 1000000000L + now.tv_nsec - end.tv_nsec < 0);
    pl_loop_stop(loop); /* a second turn could be slow by itself */
}

static void test_a_slow_turn_is_counted(void **state)
{
    struct pl_loop_stats stats;

    (void)state;
    assert_int_equal(pl_loop_post(loop, "burn", burn, NULL, NULL), 0);
    pl_loop_run(loop);
    pl_loop_get_stats(loop, &stats);
    assert_int_equal(stats.slow_turns, 1);
    assert_true(stats.longest_us >= PL_LOOP_SLOW_MS * 1000);
}

/* --- signals --- */

static void test_a_signal_arrives_on_the_loop(void **state)
{
    (void)state;
    assert_int_equal(pl_loop_on_signal(loop, SIGUSR1, "usr1", stop, NULL, NULL), 0);
    kill(getpid(), SIGUSR1);
    pl_loop_run(loop);
}

/* --- children --- */

struct ended {
    int status, signum;
    unsigned calls;
};

static void on_exit_of_child(void *arg, int status, int signum)
{
    struct ended *e = arg;

    *e = (struct ended){status, signum, e->calls + 1};
    pl_loop_stop(loop);
}

static void test_a_child_reports_its_exit_code_and_has_only_what_it_was_given(void **state)
{
    const char *argv[] = {"sh", "-c", "echo $A; pwd; echo five >&5; test ! -e /proc/self/fd/9 && exit 7", NULL};
    const char *env[] = {"A=b", "PATH=/usr/bin:/bin", NULL};
    int out[2], five[2];
    char text[64] = {0};
    struct pl_child_options o = {.label = "child", .argv = argv, .env = env, .cwd = "/", .n_fds = 6};
    struct ended e = {0};
    struct pl_child *c;

    (void)state;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(five, O_CLOEXEC), 0);
    for (int i = 0; i < 6; i++)
        o.fds[i] = -1;
    o.fds[1] = out[1];
    o.fds[5] = five[1];
    assert_int_equal(pl_child_spawn(loop, &o, on_exit_of_child, &e, &c, NULL), 0);
    pl_loop_run(loop);
    assert_int_equal(e.calls, 1);
    assert_int_equal(e.status, 7);
    assert_int_equal(e.signum, 0);
    assert_int_equal(read(out[0], text, sizeof(text)), 4);
    assert_string_equal(text, "b\n/\n");
    assert_int_equal(read(five[0], text, sizeof(text)), 5);
    close(out[0]), close(out[1]), close(five[0]), close(five[1]);
}

static void test_a_whole_session_can_be_killed(void **state)
{
    const char *argv[] = {"sh", "-c", "sleep 100 & echo $!; wait", NULL};
    int out[2];
    char text[32] = {0};
    struct pl_child_options o = {.label = "child", .argv = argv, .fds = {-1, -1, 2}, .n_fds = 3, .own_session = true};
    struct ended e = {0};
    struct pl_child *c;

    (void)state;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    o.fds[1] = out[1];
    assert_int_equal(pl_child_spawn(loop, &o, on_exit_of_child, &e, &c, NULL), 0);
    close(out[1]);
    assert_true(read(out[0], text, sizeof(text)) > 1);
    assert_int_equal(getsid(pl_child_pid(c)), pl_child_pid(c));
    assert_int_equal(pl_child_kill(c, SIGKILL, true, NULL), 0);
    pl_loop_run(loop);
    assert_int_equal(e.signum, SIGKILL);
    assert_int_equal(read(out[0], text, sizeof(text)), 0); /* the grandchild held the pipe: it is dead too */
    close(out[0]);
}

static void test_a_missing_program_is_an_error_and_no_exit_is_reported(void **state)
{
    const char *argv[] = {"/nowhere/program", NULL};
    struct pl_child_options o = {.label = "child", .argv = argv, .fds = {-1, -1, -1}, .n_fds = 3};
    struct ended e = {0};
    struct pl_err err = {0};
    struct pl_child *c;

    (void)state;
    assert_int_equal(pl_child_spawn(loop, &o, on_exit_of_child, &e, &c, &err), PL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "/nowhere/program"));
    pl_loop_stop(loop);
    pl_loop_run(loop);
    assert_int_equal(e.calls, 0);
}

static void test_a_child_outlives_the_loop(void **state)
{
    const char *argv[] = {"sleep", "100", NULL};
    struct pl_child_options o = {.label = "child", .argv = argv, .fds = {-1, -1, -1}, .n_fds = 3, .own_session = true};
    struct ended e = {0};
    struct pl_child *c;
    pid_t pid;

    (void)state;
    assert_int_equal(pl_child_spawn(loop, &o, on_exit_of_child, &e, &c, NULL), 0);
    pid = pl_child_pid(c);
    loop = pl_loop_destroy(loop);
    assert_int_equal(kill(pid, 0), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define ON_LOOP(f) cmocka_unit_test_setup_teardown(f, make_loop, drop_loop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOOP(test_each_threads_posts_run_in_order_on_the_loop),
        ON_LOOP(test_the_queue_has_a_bound),
        ON_LOOP(test_work_posted_twice_before_it_runs_runs_once_and_may_be_posted_again),
        ON_LOOP(test_what_was_posted_runs_even_when_the_loop_never_did),
        ON_LOOP(test_a_timer_fires_once_per_start),
        ON_LOOP(test_a_timer_may_destroy_itself),
        ON_LOOP(test_a_slow_turn_is_counted),
        ON_LOOP(test_a_signal_arrives_on_the_loop),
        ON_LOOP(test_a_child_reports_its_exit_code_and_has_only_what_it_was_given),
        ON_LOOP(test_a_whole_session_can_be_killed),
        ON_LOOP(test_a_missing_program_is_an_error_and_no_exit_is_reported),
        ON_LOOP(test_a_child_outlives_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
