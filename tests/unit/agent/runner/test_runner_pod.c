// link: pipelined/agent/command pipelined/agent/runner storage/base storage/system
/* The runner as a container's first process: agent and command are different users with a group in common, and a pod's folders lie
 * where a kubelet would mount them (here bubblewrap does). Needs root, as a kubelet does; elsewhere it says so and runs nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/command/runner_client.h"
#include "pipelined/agent/runner/runner_pod.h"
#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define GROUP   10003
#define AGENT   10002
#define COMMAND "10001"

struct fixture {
    char work[256], runner[512], next[512];
    json_t *writable;
    struct pl_sandbox_config config;
    struct pl_sandbox_paths paths;
    struct pl_runner_client *client;
    pid_t pod; /* bubblewrap */
    struct pl_buf output;
};

static void beside(const char *name, char *out, size_t n)
{
    char exe[400];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    assert_true(len > 0);
    exe[len] = 0;
    *strrchr(exe, '/') = 0;
    snprintf(out, n, "%s/%s", exe, name);
}

/* What a kubelet does for container "main". */
static void start_container(struct fixture *f)
{
    char pfs[300], out[300], extra[300], code[300], tmp[300], bin[300], sock[300], checkpoint[300];

    snprintf(pfs, sizeof(pfs), "%s/pfs", f->work);
    snprintf(out, sizeof(out), "%s/pfs/out", f->work);
    snprintf(extra, sizeof(extra), "%s/pfs/extra", f->work);
    snprintf(code, sizeof(code), "%s/code", f->work);
    snprintf(tmp, sizeof(tmp), "%s/tmp", f->work);
    snprintf(bin, sizeof(bin), "%s/bin", f->work);
    snprintf(sock, sizeof(sock), "%s/sock", f->work);
    snprintf(checkpoint, sizeof(checkpoint), "%s/checkpoint", f->work);
    f->pod = fork();
    assert_true(f->pod >= 0);
    if (f->pod > 0)
        return;
    setenv("OF_THE_IMAGE", "yes", 1);
    setenv("A", "of the image", 1);
    setenv("PATH", "/usr/bin:/bin:/of/the/image", 1);
    execlp("bwrap", "bwrap", "--unshare-pid", "--as-pid-1", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink",
           "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/sbin",
           "/sbin", "--proc", "/proc", "--dev", "/dev", "--perms", "0755", "--dir", "/pl", "--ro-bind-try", "/sys", "/sys",
           "--ro-bind", pfs, "/pfs", "--bind", out, "/pfs/out", "--bind", extra, "/pfs/extra", "--bind", code, "/code", "--bind",
           tmp, "/tmp", "--ro-bind", bin, "/pl/bin", "--ro-bind", sock, "/pl/sock", "--bind", checkpoint, "/pl/checkpoint",
           "--chdir", "/", "setpriv", "--reuid", COMMAND, "--regid", COMMAND, "--groups", "10003", "/pl/bin/pl-runner", "--pod",
           "/pl/sock/runner", "/pfs/out", "/pfs/extra", "/pl/checkpoint", NULL);
    _exit(99);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    const gid_t group = GROUP;
    struct pl_err err = {0};

    *state = f;
    if (geteuid() != 0) {
        print_message("not root: a pod's users cannot be had here\n");
        return 0;
    }
    beside("pl-runner", f->runner, sizeof(f->runner));
    beside("pl-next", f->next, sizeof(f->next));
    snprintf(f->work, sizeof(f->work), "/tmp/pl-test-pod-%d", (int)getpid());
    f->writable = json_pack("[s]", "extra");
    f->config = (struct pl_sandbox_config){
        .mode = PL_SANDBOX_POD, .work = f->work, .runner = f->runner, .next = f->next, .has_code = true, .writable = f->writable};
    /* an emptyDir under fsGroup */
    assert_int_equal(mkdir(f->work, 0777), 0);
    assert_int_equal(chown(f->work, 0, GROUP), 0);
    assert_int_equal(chmod(f->work, 02777), 0);
    assert_int_equal(setgroups(1, &group), 0);
    assert_int_equal(setegid(AGENT), 0);
    assert_int_equal(seteuid(AGENT), 0);
    umask(002);
    if (pl_sandbox_install(&f->config, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(pl_sandbox_make_folders(&f->config, &err), 0);
    assert_int_equal(pl_sandbox_paths(&f->config, &f->paths, &err), 0);
    assert_int_equal(pl_runner_client_create(&f->config, &f->client, &err), 0);
    assert_int_equal(seteuid(0), 0);
    start_container(f);
    assert_int_equal(seteuid(AGENT), 0);
    if (pl_runner_client_start(f->client, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
}

/* Its first process, as the kernel does it; there is none any more when the container ends by itself. */
static void kill_container(const struct fixture *f)
{
    char path[64];
    FILE *children;
    int pid = 0;

    assert_int_equal(seteuid(0), 0);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)f->pod, (int)f->pod);
    children = fopen(path, "re");
    assert_non_null(children);
    if (fscanf(children, "%d", &pid) == 1)
        (void)kill(pid, SIGKILL);
    fclose(children);
}

static int end_of_pod(struct fixture *f)
{
    int status = -1;

    assert_int_equal(waitpid(f->pod, &status, 0), f->pod);
    f->pod = 0;
    return status;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    pl_runner_client_destroy(f->client);
    if (f->pod > 0 && waitpid(f->pod, NULL, WNOHANG) == 0) {
        kill_container(f);
        (void)end_of_pod(f);
    }
    if (f->client) {
        (void)!seteuid(0);
        (void)!setegid(0);
        umask(022);
        assert_int_equal(pl_io_remove_tree(f->work, NULL), 0);
    }
    json_decref(f->writable);
    pl_buf_finish(&f->output);
    free(f);
    return 0;
}

#define FIXTURE(state)                                                                                                           \
    struct fixture *f = *(state);                                                                                                \
    if (!f->client)                                                                                                              \
    skip()

static void on_output(void *self, const uint8_t *data, size_t n)
{
    struct fixture *f = self;

    assert_int_equal(pl_buf_add(&f->output, data, n, NULL), 0);
}

static struct pl_runner_command shell(struct fixture *f, const char *const *argv, const char *const *env)
{
    return (struct pl_runner_command){.argv = argv, .env = env, .cwd = f->paths.code, .on_output = on_output, .self = f};
}

static struct pl_command_result run(struct fixture *f, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL}, *const env[] = {"PATH=/pl/bin:", "A=of the stage", NULL};
    const struct pl_runner_command command = shell(f, argv, env);
    struct pl_command_result result;
    struct pl_err err = {0};

    pl_buf_clear(&f->output);
    if (pl_runner_client_run(f->client, &command, &result, &err) < 0)
        fail_msg("%s", err.msg);
    return result;
}

static const char *said(struct fixture *f)
{
    return pl_buf_str(&f->output);
}

static void commands_run_as_their_user_in_their_container(void **state)
{
    FIXTURE(state);

    assert_int_equal(run(f, "id -u; pwd; echo out; echo err >&2; exit 7").code, 7);
    assert_string_equal(said(f), "10001\n/code\nout\nerr\n");
    assert_int_equal(run(f, "touch /pfs/no 2>/dev/null").code, 1); /* read-only */
    assert_int_equal(run(f, "echo $$").code, 0);
    assert_int_equal(run(f, "kill -TERM 1; sleep 0.05; exit 3").code, 3); /* the pod is told to end: not the runner's business */
    assert_int_equal(run(f, "sleep 100 & setsid sleep 100 & exit 4").leftovers, 2);
}

static void the_image_s_environment_is_kept(void **state)
{
    FIXTURE(state);

    assert_int_equal(run(f, "echo $OF_THE_IMAGE; echo $A; echo $PATH").code, 0);
    assert_string_equal(said(f), "yes\nof the stage\n/pl/bin:/usr/bin:/bin:/of/the/image\n");
}

static void put_and_look(struct fixture *f, const char *name)
{
    char path[600], moved[700];
    int fd;

    snprintf(path, sizeof(path), "%s/pfs/out/%s", f->work, name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    close(fd);
    snprintf(moved, sizeof(moved), "%s.moved", path);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(unlink(moved), 0);
}

static void what_a_command_leaves_is_the_agent_s_too(void **state)
{
    FIXTURE(state);
    static const char script[] =
        "cd /pfs/out; umask 077; mkdir -p d/e; echo 1 >d/e/closed; echo 2 >closed; chmod 000 closed; "
        "echo 3 >/tmp/t; mv /tmp/t moved; ln -s /etc/passwd link; mkdir shut; echo 4 >shut/x; chmod 0 shut";
    char path[600], away[700];
    struct stat st;

    assert_int_equal(run(f, script).code, 0);
    put_and_look(f, "d/e/closed");
    put_and_look(f, "closed");
    put_and_look(f, "moved");
    snprintf(path, sizeof(path), "%s/pfs/out/d", f->work); /* a folder of another user can be moved and emptied */
    snprintf(away, sizeof(away), "%s/done/0/d", f->work);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(pl_io_remove_tree(away, NULL), 0);
    assert_int_equal(stat("/etc/passwd", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
}

static void what_the_agent_brings_is_the_command_s_too(void **state)
{
    FIXTURE(state);
    char path[4200];

    snprintf(path, sizeof(path), "%s/pfs/extra/x", f->work);
    assert_int_equal(pl_io_write_file(path, "old", 3, 0664, NULL), 0);
    pl_sandbox_own_file(&f->config, "script", path);
    assert_int_equal(pl_io_write_file(path, "echo $0\n", 8, 0555, NULL), 0);
    assert_int_equal(run(f, "cat /pfs/extra/x; echo new >/pfs/extra/x; echo c >/code/c; echo k >/pl/checkpoint/k").code, 0);
    assert_string_equal(said(f), "old");
    assert_int_equal(run(f, "sh -e /pl/bin/script; echo x >/pl/bin/y").code, 2);
    assert_int_equal(run(f, "command -v pachctl; command -v pl-next").code, 0);
    assert_string_equal(said(f), "/pl/bin/pachctl\n/pl/bin/pl-next\n");
}

/* As for a batch stage: the command lives on; and as when it ends meanwhile. */
static void it_is_shared_while_a_command_runs(void **state)
{
    FIXTURE(state);
    const char *const argv[] = {"sh", "-c", "umask 077; echo 1 >/pfs/out/a; echo ready; read x </tmp/go; exit 6", NULL},
                      *const env[] = {"PATH=/pl/bin:", NULL};
    const struct pl_runner_command command = shell(f, argv, env);
    struct pl_command_result result;
    enum pl_runner_event event;
    struct pl_err err = {0};
    char go[600];
    int fd;

    snprintf(go, sizeof(go), "%s/tmp/go", f->work);
    assert_int_equal(mkfifo(go, 0666), 0);
    assert_int_equal(chmod(go, 0666), 0);
    assert_int_equal(pl_runner_client_begin(f->client, &command, &err), 0);
    while (f->output.len < 6) {
        assert_int_equal(pl_runner_client_wait(f->client, &command, -1, pl_clock_mono_ms() + 10, &event, &result, &err), 0);
        assert_int_equal(event, PL_RUNNER_EVENT_TIME);
    }
    assert_int_equal(pl_runner_client_share(f->client, &err), 0);
    put_and_look(f, "a");
    fd = open(go, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "\n", 1), 1);
    close(fd);
    for (int i = 0; i < 50; i++) /* EXIT comes somewhere between */
        assert_int_equal(pl_runner_client_share(f->client, &err), 0);
    assert_int_equal(pl_runner_client_wait(f->client, &command, -1, 0, &event, &result, &err), 0);
    assert_int_equal(event, PL_RUNNER_EVENT_EXIT);
    assert_int_equal(result.code, 6);
    assert_int_equal(run(f, "exit 2").code, 2);
}

static void without_the_agent_it_ends(void **state)
{
    FIXTURE(state);
    const char *const argv[] = {"sleep", "100", NULL}, *const env[] = {"PATH=/pl/bin:", NULL};
    const struct pl_runner_command command = shell(f, argv, env);
    struct pl_err err = {0};
    int status;

    assert_int_equal(pl_runner_client_begin(f->client, &command, &err), 0);
    pl_runner_client_stop(f->client);
    status = end_of_pod(f);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), PL_RUNNER_EXIT_ORPHANED);
}

static void an_idle_one_ends_well(void **state)
{
    FIXTURE(state);
    int status;

    pl_runner_client_stop(f->client);
    assert_false(pl_runner_client_up(f->client));
    status = end_of_pod(f);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* As when the kernel kills the container for want of memory. */
static void a_lost_container_is_told(void **state)
{
    FIXTURE(state);
    const char *const argv[] = {"sleep", "100", NULL}, *const env[] = {"PATH=/pl/bin:", NULL};
    const struct pl_runner_command command = shell(f, argv, env);
    struct pl_command_result result;
    enum pl_runner_event event;
    struct pl_err err = {0};

    assert_int_equal(pl_runner_client_begin(f->client, &command, &err), 0);
    kill_container(f);
    assert_int_equal(pl_runner_client_wait(f->client, &command, -1, 0, &event, &result, &err), PL_EIO);
    assert_false(pl_runner_client_up(f->client));
    assert_int_equal(pl_runner_client_share(f->client, &err), PL_EIO);
    (void)end_of_pod(f);
}

static void *wake(void *arg)
{
    pl_runner_client_wake(arg);
    return NULL;
}

/* Its image may never come. */
static void an_agent_that_waits_can_be_told_to_end(void **state)
{
    FIXTURE(state);
    struct pl_runner_client *other = NULL;
    struct pl_err err = {0};
    pthread_t thread;

    assert_int_equal(pl_runner_client_create(&f->config, &other, &err), 0);
    assert_int_equal(pthread_create(&thread, NULL, wake, other), 0);
    assert_int_equal(pl_runner_client_start(other, &err), PL_ECANCELED);
    pthread_join(thread, NULL);
    pl_runner_client_destroy(other);
}

int main(void)
{
#define POD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        POD(commands_run_as_their_user_in_their_container),
        POD(the_image_s_environment_is_kept),
        POD(what_a_command_leaves_is_the_agent_s_too),
        POD(what_the_agent_brings_is_the_command_s_too),
        POD(it_is_shared_while_a_command_runs),
        POD(without_the_agent_it_ends),
        POD(an_idle_one_ends_well),
        POD(a_lost_container_is_told),
        POD(an_agent_that_waits_can_be_told_to_end),
    };
    return cmocka_run_group_tests_name("runner_pod", tests, NULL, NULL);
}
