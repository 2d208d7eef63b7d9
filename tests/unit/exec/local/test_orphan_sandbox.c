// link: pipelined/exec/local
/* leftovers: sandboxes whose agents have gone are killed, with one look for all of them; nobody else is. */
#include "pipelined/exec/local/orphan_sandbox.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#define N 3

struct world {
    struct pl_loop *loop;
    struct pl_leftovers *left;
    int pipes[N]; /* reading ends; −1: nobody's */
    pid_t holders[N];
    unsigned rests;
};

/* It holds the writing end alone, under that name. */
static pid_t hold(const char *name, int *ret_pipe)
{
    int ends[2], ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        prctl(PR_SET_NAME, name);
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    close(ends[1]);
    *ret_pipe = ends[0];
    return pid;
}

static int next(void *self, size_t *at, uint64_t *ret_id)
{
    const struct world *w = self;

    while (*at < N) {
        *ret_id = *at;
        if (w->pipes[(*at)++] >= 0)
            return w->pipes[*ret_id];
    }
    return -1;
}

static void on_rests(void *self)
{
    struct world *w = self;

    assert_false(pl_orphan_sandbox_busy(w->left));
    w->rests++;
    pl_loop_stop(w->loop);
}

static void those_that_are_left_are_killed_with_one_look(void **state)
{
    struct world w = {0};
    const struct pl_orphan_sandbox_config config = {.next = next, .rests = on_rests, .self = &w};
    struct pl_orphan_sandbox_config own = config;
    int status;

    (void)state;
    w.holders[0] = hold("bwrap", &w.pipes[0]);
    w.holders[1] = hold("other", &w.pipes[1]);
    w.holders[2] = hold("bwrap", &w.pipes[2]);
    assert_int_equal(pl_loop_create(&w.loop, NULL), 0);
    own.loop = w.loop;
    assert_int_equal(pl_orphan_sandbox_create(&own, &w.left, NULL), 0);
    pl_orphan_sandbox_look(w.left);
    pl_orphan_sandbox_look(w.left); /* no second look for a second one */
    pl_loop_run(w.loop);
    assert_int_equal(w.rests, 1);
    for (size_t i = 0; i < N; i += 2) {
        assert_int_equal(waitpid(w.holders[i], &status, 0), w.holders[i]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    assert_int_equal(waitpid(w.holders[1], &status, WNOHANG), 0);
    kill(w.holders[1], SIGKILL);
    assert_int_equal(waitpid(w.holders[1], &status, 0), w.holders[1]);
    pl_orphan_sandbox_destroy(w.left);
    for (size_t i = 0; i < N; i++)
        close(w.pipes[i]);
    pl_loop_destroy(w.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(those_that_are_left_are_killed_with_one_look)};

    return cmocka_run_group_tests_name("leftovers", tests, NULL, NULL);
}
