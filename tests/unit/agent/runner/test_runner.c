// link: pipelined/agent/command storage/base storage/system
/* The runner: one command after another, each reported exactly, none leaving a process behind.
 * Runs pl-runner itself, which lies beside this program, without a sandbox and (where bubblewrap works) in one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/command/runner_client.h"
#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct fixture {
    char work[256];
    char runner[512];
    struct pl_sandbox_config config;
    struct pl_sandbox_paths paths;
    struct pl_runner_client *client;
    struct pl_buf output;
    int ticks;
    int kill_at_tick;
};

static void own_folder(char *out, size_t n)
{
    char exe[400];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    assert_true(len > 0);
    exe[len] = 0;
    *strrchr(exe, '/') = 0;
    snprintf(out, n, "%s/pl-runner", exe);
}

static bool sandbox_works(const char *runner)
{
    struct pl_err err = {0};

    if (pl_runner_client_probe(runner, NULL, "/tmp", &err) == 0)
        return true;
    print_message("bubblewrap: %s\n", err.msg);
    return false;
}

static int set_up(void **state, enum pl_sandbox_mode mode)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct pl_err err = {0};

    *state = f;
    own_folder(f->runner, sizeof(f->runner));
    snprintf(f->work, sizeof(f->work), "/tmp/pl-test-runner-%d", (int)getpid());
    f->config = (struct pl_sandbox_config){.mode = mode, .work = f->work, .runner = f->runner, .has_code = true};
    if (mode == PL_SANDBOX_BWRAP && !sandbox_works(f->runner))
        return 0;
    assert_int_equal(pl_sandbox_make_folders(&f->config, &err), 0);
    assert_int_equal(pl_sandbox_paths(&f->config, &f->paths, &err), 0);
    assert_int_equal(pl_runner_client_create(&f->config, &f->client, &err), 0);
    if (pl_runner_client_start(f->client, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
}

static int set_up_none(void **state)
{
    return set_up(state, PL_SANDBOX_NONE);
}

static int set_up_bwrap(void **state)
{
    return set_up(state, PL_SANDBOX_BWRAP);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    pl_runner_client_destroy(f->client);
    pl_buf_finish(&f->output);
    assert_int_equal(pl_io_remove_tree(f->work, NULL), 0);
    free(f);
    return 0;
}

static void on_output(void *self, const uint8_t *data, size_t n)
{
    struct fixture *f = self;

    assert_int_equal(pl_buf_add(&f->output, data, n, NULL), 0);
}

static bool on_tick(void *self)
{
    struct fixture *f = self;

    return ++f->ticks == f->kill_at_tick;
}

static const char *const usual_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "A=1", NULL};

static struct pl_command_result run_argv(struct fixture *f, const char *const *argv, uint64_t timeout_ms)
{
    struct pl_command_result result;
    struct pl_err err = {0};
    const struct pl_runner_command command = {
        .argv = argv,
        .env = usual_env,
        .cwd = f->paths.code,
        .timeout_ms = timeout_ms,
        .on_output = on_output,
        .on_tick = on_tick,
        .tick_ms = f->kill_at_tick ? 5 : 0,
        .self = f,
    };

    pl_buf_clear(&f->output);
    f->ticks = 0;
    if (pl_runner_client_run(f->client, &command, &result, &err) < 0)
        fail_msg("%s", err.msg);
    return result;
}

static struct pl_command_result run_shell(struct fixture *f, const char *script, uint64_t timeout_ms)
{
    return run_argv(f, (const char *const[]){"sh", "-c", script, NULL}, timeout_ms);
}

/* The fixture of a mode that this machine cannot do has no client. */
#define FIXTURE(state)                                                                                                           \
    struct fixture *f = *(state);                                                                                                \
    if (!f->client)                                                                                                              \
    skip()

static void exit_code_signal_and_output_are_told(void **state)
{
    FIXTURE(state);
    static const struct {
        const char *script;
        enum pl_runner_how how;
        int code;
        const char *output;
    } cases[] = {
        {"exit 0", PL_RUNNER_EXITED, 0, ""},
        {"echo out; echo err >&2; exit 7", PL_RUNNER_EXITED, 7, "out\nerr\n"},
        {"kill -SEGV $$", PL_RUNNER_SIGNALED, SIGSEGV, ""},
        {"kill -KILL $$", PL_RUNNER_SIGNALED, SIGKILL, ""},
        {"echo $A; cat; pwd >/dev/null", PL_RUNNER_EXITED, 0, "1\n"},
        {"env -i sh -c 'exit 255'", PL_RUNNER_EXITED, 255, ""},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const struct pl_command_result r = run_shell(f, cases[i].script, 0);
        assert_int_equal(r.how, cases[i].how);
        assert_int_equal(r.code, cases[i].code);
        assert_string_equal(pl_buf_str(&f->output), cases[i].output);
        assert_false(r.timed_out || r.killed);
        assert_int_equal(r.leftovers, 0);
    }
}

static void all_output_is_there_when_the_command_is_over(void **state)
{
    FIXTURE(state);
    const struct pl_command_result r = run_shell(f, "head -c 3000000 /dev/zero; echo end", 0);

    assert_int_equal(r.code, 0);
    assert_int_equal(f->output.len, 3000004);
    assert_memory_equal(f->output.data + 3000000, "end\n", 4);
}

static void what_cannot_start_says_why(void **state)
{
    FIXTURE(state);
    struct pl_command_result r = run_argv(f, (const char *const[]){"no-such-program", NULL}, 0);
    char script[600], name[4200];

    assert_int_equal(r.how, PL_RUNNER_NO_EXEC);
    assert_int_equal(r.code, ENOENT);
    snprintf(script, sizeof(script), "%s/code/notexec", f->work);
    assert_int_equal(pl_io_write_file(script, "x", 1, 0644, NULL), 0);
    snprintf(name, sizeof(name), "%s/notexec", f->paths.code);
    r = run_argv(f, (const char *const[]){name, NULL}, 0);
    assert_int_equal(r.how, PL_RUNNER_NO_EXEC);
    assert_int_equal(r.code, EACCES);
    assert_int_equal(chmod(script, 0755), 0);
    r = run_argv(f, (const char *const[]){name, NULL}, 0);
    assert_int_equal(r.code, ENOEXEC); /* no #! line */
    r = run_shell(f, "exit 3", 0);
    assert_int_equal(r.code, 3); /* and the runner lives on */
}

static void relative_programs_are_found_from_the_working_directory(void **state)
{
    FIXTURE(state);
    char script[600];

    snprintf(script, sizeof(script), "%s/code/tool", f->work);
    assert_int_equal(pl_io_write_file(script, "#!/bin/sh\necho $1 $#\n", 21, 0755, NULL), 0);
    assert_int_equal(run_argv(f, (const char *const[]){"./tool", "a b", "", NULL}, 0).code, 0);
    assert_string_equal(pl_buf_str(&f->output), "a b 2\n");
}

static void children_left_behind_die_before_the_end_is_reported(void **state)
{
    FIXTURE(state);
    struct pl_command_result r;
    struct stat st;
    char file[600];

    /* A child in its own session, one ignoring signals, a daemon's double fork. Each would write a file when it survived. */
    r = run_shell(
        f,
        "late() { echo >ready$1; while [ ! -e go ]; do sleep 0.02; done; echo >late; }; "
        "setsid sh -c 'echo >ready1; while [ ! -e go ]; do sleep 0.02; done; echo >late' & (trap '' TERM HUP INT; late 2) & "
        "( (late 3) & ) & while [ ! -e ready1 -o ! -e ready2 -o ! -e ready3 ]; do :; done; exit 5",
        0);
    assert_int_equal(r.how, PL_RUNNER_EXITED);
    assert_int_equal(r.code, 5);
    assert_true(r.leftovers >= 3);
    r = run_shell(f, "touch go; sleep 0.4", 0); /* longer than any of them would need */
    snprintf(file, sizeof(file), "%s/code/late", f->work);
    assert_int_equal(stat(file, &st), -1);
}

static void a_timeout_kills_the_whole_family(void **state)
{
    FIXTURE(state);
    const int64_t start = pl_clock_mono_ms();
    const struct pl_command_result r = run_shell(f, "sleep 100 & setsid sleep 100 & echo started; wait", 50);

    assert_true(r.timed_out);
    assert_false(r.killed);
    assert_int_equal(r.how, PL_RUNNER_SIGNALED);
    assert_int_equal(r.code, SIGKILL);
    assert_true(r.wall_us >= 50000);
    assert_true(pl_clock_mono_ms() - start < 20000);
}

static void a_tick_can_kill(void **state)
{
    FIXTURE(state);
    struct pl_command_result r;

    f->kill_at_tick = 3;
    r = run_shell(f, "sleep 100", 0);
    assert_true(r.killed);
    assert_false(r.timed_out);
    f->kill_at_tick = 0;
    assert_int_equal(run_shell(f, "exit 4", 0).code, 4);
}

static void rusage_covers_children(void **state)
{
    FIXTURE(state);
    const struct pl_command_result r = run_shell(f, "head -c 30000000 /dev/zero | sha256sum >/dev/null; : ", 0);

    assert_true(r.user_us + r.sys_us > 0);
    assert_true(r.max_rss_kb > 100);
    assert_true(r.wall_us > 0);
}

static void arguments_of_any_bytes_and_many(void **state)
{
    FIXTURE(state);
    enum { N = 20000 };
    const char **argv = calloc(N + 5, sizeof(*argv));
    struct pl_err err = {0};
    struct pl_command_result result;
    char *huge = malloc(3 << 20);
    const struct pl_runner_command command = {
        .argv = (const char *const[]){"echo", huge, NULL}, .env = usual_env, .cwd = "/", .on_output = on_output, .self = f};

    argv[0] = "sh";
    argv[1] = "-c";
    argv[2] = "echo $#";
    argv[3] = "sh";
    for (int i = 0; i < N; i++)
        argv[4 + i] = "x\ty\xff";
    assert_int_equal(run_argv(f, argv, 0).code, 0);
    assert_string_equal(pl_buf_str(&f->output), "20000\n");
    memset(huge, 'a', (3 << 20) - 1);
    huge[(3 << 20) - 1] = 0;
    assert_int_equal(pl_runner_client_run(f->client, &command, &result, &err), PL_ETOOBIG);
    assert_int_equal(run_shell(f, "exit 9", 0).code, 9);
    free(huge);
    free(argv);
}

static void the_command_inherits_nothing_but_its_output(void **state)
{
    FIXTURE(state);

    assert_int_equal(run_shell(f, "for i in 3 4 5 6 7 8 9 10 11 12; do [ ! -e /proc/$$/fd/$i ] || echo $i; done", 0).code, 0);
    assert_string_equal(pl_buf_str(&f->output), "");
    assert_int_equal(run_shell(f, "grep SigBlk /proc/self/status", 0).code, 0);
    assert_string_equal(pl_buf_str(&f->output), "SigBlk:\t0000000000000000\n");
    assert_int_equal(run_shell(f, "kill -PIPE $$", 0).code, SIGPIPE);
}

static void a_lost_runner_is_an_error_and_starts_anew(void **state)
{
    FIXTURE(state);
    struct pl_command_result result;
    struct pl_err err = {0};
    const struct pl_runner_command command = {.argv = (const char *const[]){"sh", "-c", "kill -9 $PPID; sleep 1", NULL},
                                              .env = usual_env,
                                              .cwd = "/",
                                              .on_output = on_output,
                                              .self = f};

    assert_int_equal(pl_runner_client_run(f->client, &command, &result, &err), PL_EIO);
    assert_false(pl_runner_client_up(f->client));
    assert_int_equal(pl_runner_client_start(f->client, &err), 0);
    assert_int_equal(run_shell(f, "exit 2", 0).code, 2);
}

/* A folder with files in the place of a group: `events` is what memory.events holds. */
static void put_group(struct fixture *f, const char *name, const char *text)
{
    static char folder[300];
    char path[400];

    snprintf(folder, sizeof(folder), "%s/group", f->work);
    assert_int_equal(pl_io_mkdirs(folder, 0755, NULL), 0);
    f->config.cgroup = folder;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(pl_io_write_file(path, text, strlen(text), 0600, NULL), 0);
}

static void a_sandbox_starts_in_its_group(void **state)
{
    FIXTURE(state);
    struct pl_buf procs = {.max = 100};
    struct pl_err err = {0};
    char path[400];

    pl_runner_client_stop(f->client);
    put_group(f, "cgroup.procs", "");
    if (pl_runner_client_start(f->client, &err) < 0)
        fail_msg("%s", err.msg);
    snprintf(path, sizeof(path), "%s/cgroup.procs", f->config.cgroup);
    assert_int_equal(pl_io_read_file(path, &procs, &err), 0);
    assert_string_equal(pl_buf_str(&procs), "0");
    pl_buf_finish(&procs);
    assert_int_equal(run_shell(f, "exit 3", 0).code, 3);
    pl_runner_client_stop(f->client);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(pl_runner_client_start(f->client, &err), PL_EUNAVAILABLE);
    assert_non_null(strstr(err.msg, "group/cgroup.procs: No such file or directory"));
}

/* The kernel's part is played by the command: it notes what was killed, and kills. */
static void lack_of_memory_is_told_by_the_group_that_had_it(void **state)
{
    FIXTURE(state);
    static const struct {
        const char *events; /* written by the command; NULL: none happened */
        const char *who;    /* is killed: the command, or the runner with it */
        bool lost;          /* the sandbox was killed from outside */
        uint32_t ooms;
        uint64_t limit;
    } rows[] = {
        {"oom 1\noom_kill 2\n", "$PPID", false, 2, 64 << 20},
        {"oom 1\noom_kill 3\n", "$PPID", true, 0, 0}, /* the machine's, not this group's */
        {NULL, "$PPID", true, 0, 0},
        {"oom 2\noom_kill 4\n", "$$", false, 1, 64 << 20},
        {"oom 2\noom_kill 5\n", "$$", false, 1, 0},
        {NULL, "$$", false, 0, 0},
        {"oom 3\noom_kill 6\n", "$PPID", false, 1, 64 << 20},
    };
    struct pl_command_result r;
    struct pl_err err = {0};
    char script[800];
    const struct pl_runner_command command = {
        .argv = (const char *const[]){"sh", "-c", script, NULL}, .env = usual_env, .cwd = "/", .on_output = on_output, .self = f};

    pl_runner_client_stop(f->client);
    put_group(f, "cgroup.procs", "");
    put_group(f, "memory.max", "67108864\n");
    put_group(f, "memory.events", "oom 0\noom_kill 0\n");
    assert_int_equal(pl_runner_client_start(f->client, &err), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        snprintf(script, sizeof(script), "echo said; printf '%s' >%s/%s; kill -9 %s; kill -9 $$",
                 rows[i].events ? rows[i].events : "", f->config.cgroup, rows[i].events ? "memory.events" : "other", rows[i].who);
        pl_buf_clear(&f->output);
        if (rows[i].lost) {
            assert_int_equal(pl_runner_client_run(f->client, &command, &r, &err), PL_EIO);
            assert_false(pl_runner_client_up(f->client));
            assert_int_equal(pl_runner_client_start(f->client, &err), 0);
            continue;
        }
        if (pl_runner_client_run(f->client, &command, &r, &err) < 0) /* after a loss at the limit it starts by itself */
            fail_msg("row %zu: %s", i, err.msg);
        assert_int_equal(r.how, PL_RUNNER_SIGNALED);
        assert_int_equal(r.code, SIGKILL);
        assert_int_equal(r.ooms, rows[i].ooms);
        assert_int_equal(r.memory_limit, rows[i].limit);
        assert_true(r.wall_us > 0);
        assert_string_equal(pl_buf_str(&f->output), "said\n");
    }
    assert_int_equal(run_shell(f, "exit 5", 0).code, 5);
}

/* A bubblewrap that starts the runner and makes nothing else; the first `deaths` times it is killed before its child asks the kernel to
 * die with it, and the runner says HELLO when that is over. */
static void put_bwrap(struct fixture *f, int deaths)
{
    char script[2048], path[300];
    const int n =
        snprintf(script, sizeof(script),
                 "#!/bin/sh\n"
                 "cd %s\n"
                 "echo >>starts\n"
                 "[ $(grep -c '' starts) -le %d ] || exec %s\n"
                 "[ -p dead ] || mkfifo dead\n"
                 "exec 3<&0\n"
                 "{ read -r _ <dead\n"
                 "while grep -q '^State:.[^ZX]' /proc/$$/status; do :; done 2>/dev/null\n" /* its files close before it is dead */
                 "exec %s <&3; } &\n"
                 "exec 4>dead\n"
                 "kill -9 $$\n",
                 f->work, deaths, f->runner, f->runner);

    snprintf(path, sizeof(path), "%s/bwrap", f->work);
    assert_int_equal(pl_io_write_file(path, script, (size_t)n, 0755, NULL), 0);
    f->config.mode = PL_SANDBOX_BWRAP;
}

/* Starts it anew with that bubblewrap. What it loses becomes a child of ours. */
static int start_with(struct fixture *f, int deaths, struct pl_err *err)
{
    const char *path = getenv("PATH");
    char *usual = strdup(path ? path : "/usr/bin:/bin"), with_ours[4096];
    int r;

    pl_runner_client_stop(f->client);
    put_bwrap(f, deaths);
    snprintf(with_ours, sizeof(with_ours), "%s:%s", f->work, usual);
    setenv("PATH", with_ours, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    r = pl_runner_client_start(f->client, err);
    setenv("PATH", usual, 1);
    free(usual);
    return r;
}

static void a_runner_whose_sandbox_was_killed_before_it_is_not_used(void **state)
{
    FIXTURE(state);
    struct pl_err err = {0};
    int ended = 0;

    assert_int_equal(start_with(f, 1000, &err), PL_EUNAVAILABLE);
    assert_string_equal(err.msg, "the sandbox was killed by signal 9, 3 times");
    assert_false(pl_runner_client_up(f->client));
    while (waitpid(-1, NULL, 0) > 0)
        ended++;
    assert_int_equal(ended, 3);
}

static void a_sandbox_killed_while_it_comes_up_is_started_again(void **state)
{
    FIXTURE(state);
    struct pl_err err = {0};
    int status;

    assert_int_equal(start_with(f, 2, &err), 0);
    assert_true(waitpid(-1, &status, 0) > 0 && waitpid(-1, &status, 0) > 0); /* both runners that were not used */
    assert_int_equal(run_shell(f, "exit 2", 0).code, 2);
}

static void stopping_leaves_no_process(void **state)
{
    FIXTURE(state);
    const int64_t until = pl_clock_mono_ms() + 60000;
    pid_t ended;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pl_runner_client_stop(f->client);
    while ((ended = waitpid(-1, NULL, WNOHANG)) >= 0) /* what was killed with its parent is ours now, until it has ended */
        if (ended == 0 && (pl_clock_mono_ms() > until || sched_yield() < 0))
            fail_msg("a process is left");
    assert_int_equal(errno, ECHILD);
}

#define BOTH(test)                                                                                                               \
    {#test " (none)", test, set_up_none, tear_down, NULL},                                                                       \
    {                                                                                                                            \
#test " (bwrap)", test, set_up_bwrap, tear_down, NULL                                                                    \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(exit_code_signal_and_output_are_told),
        BOTH(all_output_is_there_when_the_command_is_over),
        BOTH(what_cannot_start_says_why),
        BOTH(relative_programs_are_found_from_the_working_directory),
        BOTH(children_left_behind_die_before_the_end_is_reported),
        BOTH(a_timeout_kills_the_whole_family),
        BOTH(a_tick_can_kill),
        BOTH(rusage_covers_children),
        BOTH(arguments_of_any_bytes_and_many),
        BOTH(the_command_inherits_nothing_but_its_output),
        /* in the sandbox the runner is process 1, which cannot be killed from inside */
        cmocka_unit_test_setup_teardown(a_lost_runner_is_an_error_and_starts_anew, set_up_none, tear_down),
        cmocka_unit_test_setup_teardown(a_runner_whose_sandbox_was_killed_before_it_is_not_used, set_up_none, tear_down),
        cmocka_unit_test_setup_teardown(a_sandbox_killed_while_it_comes_up_is_started_again, set_up_none, tear_down),
        BOTH(a_sandbox_starts_in_its_group),
        cmocka_unit_test_setup_teardown(lack_of_memory_is_told_by_the_group_that_had_it, set_up_none, tear_down),
        BOTH(stopping_leaves_no_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
