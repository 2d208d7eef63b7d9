// link: storage/base storage/system
/* trace: which rooms PIPELINED_TRACE names. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/system/trace.h"

static void the_environment_names_rooms(void **state)
{
    static const struct {
        const char *list, *room;
        bool on;
    } rows[] = {
        {"sched", "sched", true},
        {"sched", "sched/x", true},
        {"sched", "schedule", false},
        {"exec", "exec/local", true},
        {"exec/local", "exec", false},
        {"engine,exec/local", "exec/local", true},
        {"engine, exec/local", "exec/local", true},
        {"all", "storage/object", true},
        {"", "all", false},
        {",,", "engine", false},
        {"al", "engine", false},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        setenv("PIPELINED_TRACE", rows[i].list, 1);
        if (pl_trace_on(rows[i].room) != rows[i].on)
            fail_msg("PIPELINED_TRACE=%s, room %s: not %d", rows[i].list, rows[i].room, rows[i].on);
    }
    unsetenv("PIPELINED_TRACE");
    assert_false(pl_trace_on("engine"));
}

static void a_line_names_the_room_and_is_cut(void **state)
{
    char line[8192], text[4000];
    int saved = dup(STDERR_FILENO), pipe_fd[2];
    ssize_t n;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(pipe(pipe_fd), 0);
    dup2(pipe_fd[1], STDERR_FILENO);
    pl_trace_write("engine", "job %d %s", 7, text);
    dup2(saved, STDERR_FILENO);
    n = read(pipe_fd[0], line, sizeof line - 1);
    assert_in_range(n, 1000, 2048);
    line[n] = '\0';
    assert_non_null(strstr(line, " engine: job 7 xxx"));
    assert_int_equal(line[n - 1], '\n');
    close(saved);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_names_rooms),
        cmocka_unit_test(a_line_names_the_room_and_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
