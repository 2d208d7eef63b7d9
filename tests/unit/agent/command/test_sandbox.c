// link: pipelined/agent/command storage/system
/* The sandbox: its arguments, what a command sees and may do in it, and how it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/command/runner_client.h"
#include "storage/system/io.h"
#include <stdio.h>
#include <sys/stat.h>

static struct pl_sandbox_config base(enum pl_sandbox_mode mode)
{
    return (struct pl_sandbox_config){.mode = mode, .work = "/var/lib/w/1", .runner = "/usr/lib/pl-runner"};
}

/* The arguments in one line, each with a space before and after. */
static char *line_of(const struct pl_sandbox_config *config, int seccomp_fd)
{
    struct pl_sandbox_argv argv = {0};
    struct pl_buf b = {0};

    assert_int_equal(pl_sandbox_argv(config, seccomp_fd, -1, &argv, NULL), 0);
    for (size_t i = 0; i < argv.n; i++)
        assert_int_equal(pl_buf_addf(&b, NULL, " %s ", argv.v[i]), 0);
    assert_null(argv.v[argv.n]);
    pl_sandbox_argv_finish(&argv);
    return pl_buf_take_str(&b);
}

static void mode_none_is_the_runner_alone(void **state)
{
    (void)state;
    const struct pl_sandbox_config config = base(PL_SANDBOX_NONE);
    char *line = line_of(&config, -1);
    struct pl_sandbox_paths paths;

    assert_string_equal(line, " /usr/lib/pl-runner ");
    free(line);
    assert_int_equal(pl_sandbox_paths(&config, &paths, NULL), 0);
    assert_string_equal(paths.pfs, "/var/lib/w/1/pfs");
    assert_string_equal(paths.code, "/var/lib/w/1/code");
    assert_string_equal(paths.script, "/var/lib/w/1/script");
}

static void a_limited_one_enters_its_group_first(void **state)
{
    (void)state;
    struct pl_sandbox_config config = base(PL_SANDBOX_NONE);
    char *line;

    config.cgroup = "/sys/fs/cgroup/svc/worker-1";
    line = line_of(&config, -1);
    assert_string_equal(line,
                        " /usr/lib/pl-runner  --enter-cgroup  /sys/fs/cgroup/svc/worker-1/cgroup.procs  /usr/lib/pl-runner ");
    free(line);
    config.mode = PL_SANDBOX_BWRAP;
    line = line_of(&config, -1);
    assert_ptr_equal(strstr(line, " /usr/lib/pl-runner  --enter-cgroup  /sys/fs/cgroup/svc/worker-1/cgroup.procs  bwrap "), line);
    free(line);
}

static void only_the_work_folder_is_shown(void **state)
{
    (void)state;
    const struct pl_sandbox_config config = base(PL_SANDBOX_BWRAP);
    char *line = line_of(&config, 10);

    assert_non_null(strstr(line, " --ro-bind  /var/lib/w/1/pfs  /pfs  --bind  /var/lib/w/1/pfs/out  /pfs/out "));
    assert_non_null(strstr(line, " --unshare-pid  --unshare-ipc  --die-with-parent "));
    assert_non_null(strstr(line, " --clearenv "));
    assert_non_null(strstr(line, " --seccomp  10 "));
    assert_null(strstr(line, "--unshare-net"));
    assert_null(strstr(line, "nvidia0"));
    assert_null(strstr(line, "/dev/nvidiactl"));
    assert_null(strstr(line, " /code ")); /* only with code */
    assert_null(strstr(line, "shadow"));
    assert_null(strstr(line, " /etc  /etc "));
    free(line);
}

static void a_gpu_stage_gets_exactly_its_devices(void **state)
{
    (void)state;
    struct pl_sandbox_config config = base(PL_SANDBOX_BWRAP);
    char *line;

    config.n_gpus = 2;
    config.gpus[0] = 3;
    config.gpus[1] = 5;
    config.no_network = true;
    config.shm_bytes = 1 << 20;
    line = line_of(&config, -1);
    assert_non_null(strstr(line, " --dev-bind-try  /dev/nvidia3  /dev/nvidia3 "));
    assert_non_null(strstr(line, " --dev-bind-try  /dev/nvidia5  /dev/nvidia5 "));
    assert_non_null(strstr(line, " /dev/nvidiactl "));
    assert_null(strstr(line, "/dev/nvidia0"));
    assert_non_null(strstr(line, "--unshare-net"));
    assert_non_null(strstr(line, " --size  1048576  --tmpfs  /dev/shm "));
    assert_null(strstr(line, "--seccomp"));
    free(line);
}

static void extra_folders_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *extra;
        const char *says; /* NULL: accepted */
    } cases[] = {
        {"", NULL},
        {"/usr/lib:/usr/bin", NULL},
        {"::/usr/lib:", NULL},
        {"opt", "not an absolute folder"},
        {"/no/such/folder", "/no/such/folder does not exist"},
        {"/var", "contains the work folder"},
        {"/var/lib/w/1/", "contains the work folder"},
        {"/", "contains the work folder"},
        {"/var/lib/w/10", "does not exist"}, /* a neighbour by name, not a parent */
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_sandbox_config config = base(PL_SANDBOX_BWRAP);
        struct pl_sandbox_argv argv = {0};
        struct pl_err err = {0};

        config.extra_ro = cases[i].extra;
        if (!cases[i].says) {
            assert_int_equal(pl_sandbox_argv(&config, -1, -1, &argv, &err), 0);
        } else {
            assert_int_equal(pl_sandbox_argv(&config, -1, -1, &argv, &err), PL_EINVAL);
            assert_non_null(strstr(err.msg, cases[i].says));
        }
        pl_sandbox_argv_finish(&argv);
    }
}

static void a_work_folder_must_be_absolute(void **state)
{
    (void)state;
    struct pl_sandbox_config config = base(PL_SANDBOX_NONE);
    struct pl_sandbox_argv argv = {0};
    struct pl_err err = {0};

    config.work = "w";
    assert_int_equal(pl_sandbox_argv(&config, -1, -1, &argv, &err), PL_EINVAL);
}

static void the_search_path_shows_what_is_visible(void **state)
{
    (void)state;
    static const char usual[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    struct pl_sandbox_config config = base(PL_SANDBOX_BWRAP);
    char *path;

    setenv("PATH", "/opt/x/bin:/home/me/bin:/usr/bin", 1);
    path = pl_sandbox_search_path(&config);
    assert_string_equal(path, "/pl/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    free(path);
    config.extra_ro = "/srv:/opt";
    path = pl_sandbox_search_path(&config);
    assert_string_equal(path, "/pl/bin:/opt/x/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    free(path);
    config.extra_ro = "/opt/x/bin:/home/me/bi"; /* a folder of PATH itself, and a neighbour by name */
    path = pl_sandbox_search_path(&config);
    assert_string_equal(path, "/pl/bin:/opt/x/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    free(path);
    config.mode = PL_SANDBOX_NONE;
    path = pl_sandbox_search_path(&config);
    assert_string_equal(path, "/var/lib/w/1/bin:/opt/x/bin:/home/me/bin:/usr/bin");
    free(path);
    setenv("PATH", usual, 1);
}

/* --- a real one --- */

struct fixture {
    char work[256];
    char runner[512];
    struct pl_sandbox_config config;
    struct pl_runner_client *client;
    struct pl_buf output;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct pl_err err = {0};
    ssize_t len = readlink("/proc/self/exe", f->runner, 400);
    char script[300];

    *state = f;
    assert_true(len > 0);
    strcpy(strrchr(f->runner, '/'), "/pl-runner");
    snprintf(f->work, sizeof(f->work), "/tmp/pl-test-sandbox-%d", (int)getpid());
    f->config = (struct pl_sandbox_config){
        .mode = PL_SANDBOX_BWRAP, .work = f->work, .runner = f->runner, .has_code = true, .has_script = true};
    if (pl_runner_client_probe(f->runner, NULL, "/tmp", &err) < 0) {
        print_message("bubblewrap: %s\n", err.msg);
        return 0;
    }
    assert_int_equal(pl_sandbox_make_folders(&f->config, &err), 0);
    snprintf(script, sizeof(script), "%s/script", f->work);
    assert_int_equal(pl_io_write_file(script, "#!/bin/sh\necho from the script\n", 32, 0555, NULL), 0);
    assert_int_equal(pl_runner_client_create(&f->config, &f->client, &err), 0);
    if (pl_runner_client_start(f->client, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
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

static int run_shell(struct fixture *f, const char *script)
{
    struct pl_command_result result;
    struct pl_err err = {0};
    char host_userns[100] = "HOST_USERNS=";
    const ssize_t len = readlink("/proc/self/ns/user", host_userns + strlen(host_userns), 80);
    const struct pl_runner_command command = {
        .argv = (const char *const[]){"sh", "-c", script, NULL},
        .env = (const char *const[]){"PATH=/usr/bin:/bin", host_userns, NULL},
        .cwd = "/code",
        .on_output = on_output,
        .self = f,
    };

    assert_true(len > 0);
    pl_buf_clear(&f->output);
    if (pl_runner_client_run(f->client, &command, &result, &err) < 0)
        fail_msg("%s", err.msg);
    return result.how == PL_RUNNER_EXITED ? result.code : -result.code;
}

static void what_a_command_sees_and_may_do(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *what;
        const char *script; /* must exit 0 */
    } cases[] = {
        {"pfs is read-only, out is not", "! touch /pfs/x 2>/dev/null && touch /pfs/out/x && rm /pfs/out/x"},
        {"code and tmp are writable", "touch /code/x /tmp/x /run/x /home/x && rm /code/x"},
        {"tmp outlives the command", "test -e /tmp/x"},
        {"system and root folders are not writable", "! touch /usr/x /etc/x /x 2>/dev/null"},
        {"the host's files are not there", "! test -e /etc/shadow && test -z \"$(ls -A /root)\" && ! ls /var/lib 2>/dev/null"},
        {"the host's keys are not there",
         "! test -e /etc/ssl/private || grep -q ' /etc/ssl/private .* tmpfs ' /proc/self/mountinfo"},
        {"the work folder has no other name",
         "! test -e $(dirname $(grep -m1 ' /pfs ' /proc/self/mountinfo | cut -d' ' -f4))/next"},
        {"nobody else's processes", "test $(ls -d /proc/[0-9]* | wc -l) -le 8"},
        {"process 1 cannot be looked into", "! cat /proc/1/environ 2>/dev/null | grep -q . "},
        {"no devices but the harmless ones", "! ls /dev/nvidia* /dev/sd* /dev/vd* /dev/kmsg /dev/mem 2>/dev/null"},
        {"mounting is denied", "! mount -t tmpfs none /tmp 2>/dev/null"},
        {"namespaces are denied", "! unshare -Ur true 2>/dev/null && ! unshare -m true 2>/dev/null"},
        {"the clock is not ours", "! date -s 2001-01-01 2>/dev/null"},
        {"kernel settings are not ours", "! (cat /proc/sys/kernel/hostname >/proc/sys/kernel/hostname) 2>/dev/null"},
        {"root's capabilities hold here alone",
         "test -n \"$HOST_USERNS\" && test \"$(readlink /proc/self/ns/user)\" != \"$HOST_USERNS\""},
        {"files may be any user's",
         "test $(id -u) != 0 || (touch /tmp/of && chown 4321:8765 /tmp/of && test $(stat -c %u:%g /tmp/of) = 4321:8765)"},
        {"the script is there", "test \"$(/pl/script)\" = 'from the script'"},
        {"programs, libraries and names are there", "ls / >/dev/null && getent passwd root >/dev/null"},
        {"shared memory works", "touch /dev/shm/x"},
        {"no environment but what is given", "test -z \"$(env | grep -vE '^(PATH|HOST_USERNS|PWD|OLDPWD|SHLVL|_)=')\""},
    };

    if (!f->client)
        skip();
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        if (run_shell(f, cases[i].script) != 0)
            fail_msg("%s: %s", cases[i].what, pl_buf_str(&f->output));
}

static void inputs_are_swapped_behind_the_mount(void **state)
{
    struct fixture *f = *state;
    char from[400], to[400];

    if (!f->client)
        skip();
    snprintf(from, sizeof(from), "%s/next/in", f->work);
    snprintf(to, sizeof(to), "%s/pfs/in", f->work);
    assert_int_equal(pl_io_mkdirs(from, 0755, NULL), 0);
    assert_int_not_equal(run_shell(f, "test -d /pfs/in"), 0);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(run_shell(f, "test -d /pfs/in"), 0);
    assert_int_not_equal(run_shell(f, "touch /pfs/in/x 2>/dev/null"), 0);
}

static void why_it_cannot_start_is_said(void **state)
{
    (void)state;
    struct pl_sandbox_config config = base(PL_SANDBOX_BWRAP);
    struct pl_runner_client *c = NULL;
    struct pl_err err = {0};

    config.work = "/no/such/work"; /* bubblewrap cannot bind it */
    assert_int_equal(pl_runner_client_create(&config, &c, &err), 0);
    assert_int_equal(pl_runner_client_start(c, &err), PL_EUNAVAILABLE);
    assert_true(strlen(err.msg) > 5);
    assert_false(pl_runner_client_up(c));
    pl_runner_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mode_none_is_the_runner_alone),
        cmocka_unit_test(a_limited_one_enters_its_group_first),
        cmocka_unit_test(only_the_work_folder_is_shown),
        cmocka_unit_test(a_gpu_stage_gets_exactly_its_devices),
        cmocka_unit_test(extra_folders_are_checked),
        cmocka_unit_test(a_work_folder_must_be_absolute),
        cmocka_unit_test(the_search_path_shows_what_is_visible),
        cmocka_unit_test_setup_teardown(what_a_command_sees_and_may_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(inputs_are_swapped_behind_the_mount, set_up, tear_down),
        cmocka_unit_test(why_it_cannot_start_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
