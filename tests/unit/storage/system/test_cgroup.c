// link: storage/base storage/system
/* cgroup: what is decided from the kernel's texts, what is written to a tree of files in the place of the kernel's, and, where this machine lets
 * root mount cgroups of version 2, a real group. (tests/cgroup has a kernel whose controllers are free.) */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/base/clock.h"
#include "storage/system/cgroup.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

/* ---- decisions ---- */

static void the_own_group_is_the_line_of_version_2(void **state)
{
    static const struct {
        const char *text, *own; /* NULL: none */
    } rows[] = {
        {"0::/system.slice/pipelined.service\n", "/system.slice/pipelined.service"},
        {"0::/\n", "/"},
        {"0::/a b\n", "/a b"},
        {"9:name=systemd:/x\n4:memory:/y\n0::/z\n", "/z"},
        {"0::/last", "/last"},
        {"4:memory:/y\n", NULL},
        {"10::/y\n", NULL},
        {"", NULL},
        {"0::\n", NULL},
        {"0::/../other\n", NULL},
        {"0::/gone (deleted)\n", NULL},
        {"0::/0123456789012345678901234567890123456789012345678901234567890123456789\n", NULL},
    };
    char own[64];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const bool there = pl_cgroup_own(rows[i].text, own, sizeof own);

        assert_int_equal(there, rows[i].own != NULL);
        if (there)
            assert_string_equal(own, rows[i].own);
    }
}

static void controllers_are_read_and_named(void **state)
{
    static const struct {
        const char *text;
        unsigned set;
        const char *names;
    } rows[] = {
        {"cpuset cpu io memory hugetlb pids rdma misc\n", PL_CGROUP_ALL, "cpu, memory and pids"},
        {"memory pids\n", PL_CGROUP_MEMORY | PL_CGROUP_PIDS, "memory and pids"},
        {"cpu memory\n", PL_CGROUP_CPU | PL_CGROUP_MEMORY, "cpu and memory"},
        {"cpu pids\n", PL_CGROUP_CPU | PL_CGROUP_PIDS, "cpu and pids"},
        {"cpuset hugetlb\n", 0, ""},
        {"memory", PL_CGROUP_MEMORY, "memory"},
        {"\n", 0, ""},
        {"", 0, ""},
    };
    char names[32];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        assert_int_equal(pl_cgroup_controllers(rows[i].text), rows[i].set);
        assert_string_equal(pl_cgroup_names(rows[i].set, names), rows[i].names);
    }
}

static void processes_and_events_are_counted(void **state)
{
    static const char events[] = "low 0\nhigh 0\nmax 70\noom 1\noom_kill 2\noom_group_kill 1\n";

    (void)state;
    assert_int_equal(pl_cgroup_others("", 7), 0);
    assert_int_equal(pl_cgroup_others("7\n", 7), 0);
    assert_int_equal(pl_cgroup_others("1\n7\n77\n", 7), 2);
    assert_int_equal(pl_cgroup_others("0\n", 7), 1); /* of another pid namespace */
    assert_int_equal(pl_cgroup_event(events, "oom"), 1);
    assert_int_equal(pl_cgroup_event(events, "oom_kill"), 2);
    assert_int_equal(pl_cgroup_event(events, "kill"), 0);
    assert_int_equal(pl_cgroup_event("", "oom"), 0);
}

static void a_request_becomes_a_weight_as_kubernetes_has_it(void **state)
{
    static const uint64_t rows[][2] = {
        {1, 1},     {10, 1},     {100, 4},      {250, 10},       {500, 20},        {1000, 39},
        {2000, 79}, {4000, 157}, {64000, 2500}, {256000, 10000}, {1000000, 10000}, {UINT64_MAX, 10000},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        assert_int_equal(pl_cgroup_weight(rows[i][0]), rows[i][1]);
}

static void a_sandbox_has_a_quarter_of_the_processes_that_there_may_be(void **state)
{
    static const uint64_t rows[][4] = {
        {4194304, 126000, 0, 31500}, {32768, 126000, 0, 8192}, {32768, 126000, 4915, 1228}, {0, 0, 0, 0}, {3, 0, 0, 1},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        assert_int_equal(pl_cgroup_pids(rows[i][0], rows[i][1], rows[i][2]), rows[i][3]);
}

#define DELEGATE "run it as its systemd unit, or with systemd-run --user --scope -p \"Delegate=cpu memory pids\" pipelined"
#define FACTS    .root = "/sys/fs/cgroup", .program = "pipelined"

static void what_does_not_hold_has_a_reason_and_a_remedy(void **state)
{
    static const struct {
        struct pl_cgroup_facts facts;
        unsigned may;
        const char *why, *remedy;
    } rows[] = {
        {{FACTS, .version_2 = true, .own = "/a", .writable = true, .controllers = PL_CGROUP_ALL}, PL_CGROUP_ALL, "", ""},
        {{FACTS, .version_2 = true, .own = "/", .in_root = true, .writable = true, .others = 90, .controllers = PL_CGROUP_ALL},
         PL_CGROUP_ALL,
         "",
         ""},
        {{FACTS, .version_1 = true},
         0,
         "this machine uses version 1 of cgroups, or both versions",
         "boot it with systemd.unified_cgroup_hierarchy=1"},
        {{FACTS}, 0, "no cgroups are mounted at /sys/fs/cgroup", "mount -t cgroup2 none /sys/fs/cgroup"},
        {{FACTS, .version_2 = true, .read_only = true, .own = "/", .writable = true},
         0,
         "/sys/fs/cgroup is mounted read-only",
         "remove ProtectControlGroups from its systemd unit, or mount cgroups writable in its container"},
        {{FACTS, .version_2 = true}, 0, "pipelined is not in a cgroup that is visible below /sys/fs/cgroup", DELEGATE},
        {{FACTS, .version_2 = true, .own = "/user.slice/session-2.scope", .controllers = PL_CGROUP_ALL},
         0,
         "the cgroup /user.slice/session-2.scope is not delegated to pipelined",
         DELEGATE},
        {{FACTS, .version_2 = true, .own = "/system.slice/x.service", .writable = true, .systemds = true,
          .controllers = PL_CGROUP_ALL},
         0,
         "the cgroup /system.slice/x.service is not delegated to pipelined",
         DELEGATE},
        {{FACTS, .version_2 = true, .own = "/a", .writable = true, .others = 1, .controllers = PL_CGROUP_ALL},
         0,
         "the cgroup /a of pipelined contains other processes",
         DELEGATE},
        {{FACTS, .version_2 = true, .own = "/a", .writable = true, .controllers = PL_CGROUP_MEMORY},
         PL_CGROUP_MEMORY,
         "the cgroup /a has no controller cpu and pids",
         "request it from systemd: Delegate=cpu memory pids"},
        {{FACTS, .version_2 = true, .own = "/", .in_root = true, .writable = true},
         0,
         "the cgroup / has no controller cpu, memory and pids",
         "boot without cgroup_disable=, and without version 1 of cgroups"},
        {{.root = "/r", .program = "pipelinectl", .version_2 = true, .own = "/a"},
         0,
         "the cgroup /a is not delegated to pipelinectl",
         "run it with systemd-run --user --scope -p \"Delegate=cpu memory pids\" pipelinectl"},
    };
    char why[PL_CGROUP_TEXT], remedy[PL_CGROUP_TEXT];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        assert_int_equal(pl_cgroup_judge(&rows[i].facts, why, remedy), rows[i].may);
        assert_string_equal(why, rows[i].why);
        assert_string_equal(remedy, rows[i].remedy);
    }
}

/* ---- a tree of files ---- */

struct tree {
    char root[256], proc[300], own[300];
    struct pl_cgroup_config config;
    struct pl_cgroup *g;
};

static void put(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    *strrchr(path, '/') = '\0';
    assert_int_equal(pl_io_mkdirs(path, 0755, NULL), 0);
    path[strlen(path)] = '/';
    assert_int_equal(pl_io_write_file(path, text, strlen(text), 0600, NULL), 0);
}

static const char *get(const char *folder, const char *name)
{
    static struct pl_buf b;
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    pl_buf_finish(&b);
    b = (struct pl_buf){.max = 4096};
    return pl_io_read_file(path, &b, NULL) < 0 ? NULL : pl_buf_str(&b) ? pl_buf_str(&b) : "";
}

/* A group as the kernel shows it, `own` below the root, with the files of a worker's group where one will be made. */
static int set_up(void **state)
{
    struct tree *t = calloc(1, sizeof *t);

    *state = t;
    snprintf(t->root, sizeof t->root, "/tmp/pl-test-cgroup-%d", (int)getpid());
    snprintf(t->proc, sizeof t->proc, "%s/proc", t->root);
    snprintf(t->own, sizeof t->own, "%s/svc", t->root);
    t->config = (struct pl_cgroup_config){
        .program = "pipelined", .name = "pipelined-1", .root = t->root, .proc = t->proc, .systemd = "/no/such"};
    assert_int_equal(pl_io_remove_tree(t->root, NULL), 0);
    put(t->root, "cgroup.controllers", "cpu memory pids\n");
    put(t->root, "cgroup.subtree_control", "");
    put(t->root, "cgroup.procs", "1\n");
    put(t->proc, "self/cgroup", "0::/svc\n");
    put(t->proc, "sys/kernel/pid_max", "32768\n");
    put(t->proc, "sys/kernel/threads-max", "100000\n");
    put(t->own, "cgroup.type", "domain\n");
    put(t->own, "cgroup.controllers", "cpuset cpu memory pids\n");
    put(t->own, "cgroup.subtree_control", "");
    put(t->own, "cgroup.procs", "");
    put(t->own, "pids.max", "4000\n");
    put(t->own, "daemon/cgroup.procs", "");
    return 0;
}

static int tear_down(void **state)
{
    struct tree *t = *state;

    pl_cgroup_close(t->g);
    assert_int_equal(pl_io_remove_tree(t->root, NULL), 0);
    free(t);
    return 0;
}

static void open_it(struct tree *t)
{
    struct pl_err err = {0};

    t->g = pl_cgroup_close(t->g);
    if (pl_cgroup_open(&t->config, &t->g, &err) < 0)
        fail_msg("%s", err.msg);
}

static void the_program_moves_to_a_leaf_before_it_enables_controllers(void **state)
{
    struct tree *t = *state;
    char path[PL_CGROUP_PATH], want[PL_CGROUP_PATH], text[PL_CGROUP_TEXT];

    open_it(t);
    assert_int_equal(pl_cgroup_held(t->g), PL_CGROUP_ALL);
    assert_string_equal(get(t->own, "daemon/cgroup.procs"), "0");
    assert_string_equal(get(t->own, "cgroup.subtree_control"), "+cpu +memory +pids");
    assert_string_equal(pl_cgroup_folder(t->g), t->own);
    snprintf(want, sizeof want, "%s/worker-17", t->own);
    assert_string_equal(pl_cgroup_path(t->g, "17", path), want);
    assert_string_equal(pl_cgroup_why(t->g), "");
    assert_false(pl_cgroup_not_held(t->g, true, true, text, sizeof text));
}

static void one_that_was_started_in_the_leaf_takes_the_group_above(void **state)
{
    struct tree *t = *state;

    put(t->proc, "self/cgroup", "0::/svc/daemon\n");
    open_it(t);
    assert_int_equal(pl_cgroup_held(t->g), PL_CGROUP_ALL);
    assert_string_equal(pl_cgroup_folder(t->g), t->own);
    assert_string_equal(get(t->own, "daemon/cgroup.procs"), ""); /* it is there */
    assert_string_equal(get(t->own, "cgroup.subtree_control"), "+cpu +memory +pids");
}

static void in_the_root_group_a_group_is_made_for_all_of_them(void **state)
{
    struct tree *t = *state;
    char folder[300];

    snprintf(folder, sizeof folder, "%s/pipelined-1", t->root);
    put(folder, "cgroup.subtree_control", "");
    put(t->proc, "self/cgroup", "0::/\n");
    open_it(t);
    assert_int_equal(pl_cgroup_held(t->g), PL_CGROUP_ALL);
    assert_string_equal(pl_cgroup_folder(t->g), folder);
    assert_string_equal(get(t->root, "cgroup.subtree_control"), "+cpu +memory +pids");
    assert_string_equal(get(folder, "cgroup.subtree_control"), "+cpu +memory +pids");
    assert_string_equal(get(t->root, "cgroup.procs"), "1\n"); /* nobody was moved */
}

static void nothing_is_touched_where_nothing_may_be_done(void **state)
{
    struct tree *t = *state;
    char text[PL_CGROUP_TEXT];

    put(t->own, "cgroup.procs", "1\n2\n");
    open_it(t);
    assert_int_equal(pl_cgroup_held(t->g), 0);
    assert_string_equal(get(t->own, "cgroup.subtree_control"), "");
    assert_string_equal(get(t->own, "daemon/cgroup.procs"), "");
    assert_false(pl_cgroup_not_held(t->g, false, false, text, sizeof text)); /* nothing was asked for */
    assert_true(pl_cgroup_not_held(t->g, true, false, text, sizeof text));
    assert_string_equal(text, "resources.memory is not enforced here, it is only reserved: the cgroup /svc of pipelined "
                              "contains other processes: " DELEGATE);
    assert_true(pl_cgroup_not_held(t->g, true, true, text, sizeof text));
    assert_non_null(
        strstr(text, "resources.memory and resources.cpu are not enforced here, they are only reserved: the cgroup "));
    assert_true(pl_cgroup_not_held(t->g, false, true, text, sizeof text));
    assert_non_null(strstr(text, "resources.cpu is not enforced here, it is only reserved: the cgroup "));
}

static void a_controller_that_is_missing_takes_only_its_limits_away(void **state)
{
    struct tree *t = *state;
    char text[PL_CGROUP_TEXT];

    put(t->own, "cgroup.controllers", "memory pids\n");
    open_it(t);
    assert_int_equal(pl_cgroup_held(t->g), PL_CGROUP_MEMORY | PL_CGROUP_PIDS);
    assert_false(pl_cgroup_not_held(t->g, true, false, text, sizeof text));
    assert_true(pl_cgroup_not_held(t->g, true, true, text, sizeof text));
    assert_string_equal(text, "resources.cpu is not enforced here, it is only reserved: the cgroup /svc has no controller "
                              "cpu: request it from systemd: Delegate=cpu memory pids");
}

/* A folder takes no text, as a group with processes takes no controllers. */
static void one_that_the_kernel_refuses_leaves_the_program_where_it_was(void **state)
{
    struct tree *t = *state;
    char path[400];

    snprintf(path, sizeof path, "%s/cgroup.subtree_control", t->own);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    open_it(t);
    assert_int_equal(pl_cgroup_held(t->g), 0);
    assert_string_equal(get(t->own, "cgroup.procs"), "0"); /* back */
    assert_non_null(strstr(pl_cgroup_why(t->g), "/svc/cgroup.subtree_control rejects +pids: Is a directory"));
    assert_string_equal(pl_cgroup_remedy(t->g), DELEGATE);
}

static void version_1_and_no_cgroups_are_told_apart(void **state)
{
    struct tree *t = *state;
    char path[400];

    snprintf(path, sizeof path, "%s/cgroup.controllers", t->root);
    assert_int_equal(unlink(path), 0);
    open_it(t);
    assert_non_null(strstr(pl_cgroup_why(t->g), "no cgroups are mounted at "));
    put(t->root, "memory/cgroup.procs", "");
    open_it(t);
    assert_string_equal(pl_cgroup_why(t->g), "this machine uses version 1 of cgroups, or both versions");
}

/* The files that the kernel puts into a new group. */
static void lay(struct tree *t, const char *worker, bool old)
{
    static const char *const files[] = {"pids.max", "cpu.weight", "memory.max", "memory.swap.max", "memory.oom.group"};
    char folder[PL_CGROUP_PATH];

    pl_cgroup_path(t->g, worker, folder);
    for (size_t i = 0; i < PL_ARRAY_SIZE(files) - (old ? 2 : 0); i++)
        put(folder, files[i], "");
}

static void a_worker_gets_the_limits_of_its_stage(void **state)
{
    static const struct {
        const char *worker;
        struct pl_cgroup_limits limits;
        bool old; /* a kernel without swap and group kills */
        const char *memory, *weight;
    } rows[] = {
        {"1", {0, 0}, false, "", ""},
        {"2", {64 << 20, 2000}, false, "67108864", "79"},
        {"3", {64 << 20, 0}, true, "67108864", ""},
        {"4", {0, 500}, false, "", "20"},
    };
    struct tree *t = *state;

    open_it(t);
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        char folder[PL_CGROUP_PATH];
        struct pl_err err = {0};
        const bool limited = *rows[i].memory && !rows[i].old;

        lay(t, rows[i].worker, rows[i].old);
        if (pl_cgroup_make(t->g, rows[i].worker, &rows[i].limits, &err) < 0)
            fail_msg("%s", err.msg);
        pl_cgroup_path(t->g, rows[i].worker, folder);
        assert_string_equal(get(folder, "pids.max"), "1000");
        assert_string_equal(get(folder, "memory.max"), rows[i].memory);
        assert_string_equal(get(folder, "cpu.weight"), rows[i].weight);
        if (rows[i].old)
            continue;
        assert_string_equal(get(folder, "memory.swap.max"), limited ? "0" : "");
        assert_string_equal(get(folder, "memory.oom.group"), limited ? "1" : "");
    }
}

static void a_limit_that_cannot_be_set_is_an_error(void **state)
{
    const struct pl_cgroup_limits limits = {.memory_bytes = 4096};
    struct tree *t = *state;
    struct pl_err err = {0};

    open_it(t);
    assert_int_equal(pl_cgroup_make(t->g, "1", &limits, &err), PL_EIO);
    assert_non_null(strstr(err.msg, "/svc/worker-1: pids.max: 1000: No such file or directory"));
}

static void the_limit_and_what_was_killed_are_read(void **state)
{
    struct pl_cgroup_memory memory = {7, 7, 7};
    struct tree *t = *state;

    pl_cgroup_read_memory(t->own, &memory);
    assert_int_equal(memory.limit_bytes + memory.at_limit + memory.killed, 0);
    put(t->own, "memory.max", "max\n");
    put(t->own, "memory.events", "max 9\noom 3\noom_kill 2\n");
    pl_cgroup_read_memory(t->own, &memory);
    assert_int_equal(memory.limit_bytes, 0);
    assert_int_equal(memory.at_limit, 3);
    assert_int_equal(memory.killed, 2);
    put(t->own, "memory.max", "67108864\n");
    pl_cgroup_read_memory(t->own, &memory);
    assert_int_equal(memory.limit_bytes, 64 << 20);
}

/* ---- the kernel's ---- */

/* A mount of cgroups of version 2 that nobody else sees; NULL where this machine gives none, which is told. */
static const char *private_mount(void)
{
    static char folder[] = "/tmp/pl-test-cgroup-mount-XXXXXX";
    static bool tried, there;

    if (tried)
        return there ? folder : NULL;
    tried = true;
    if (!mkdtemp(folder) || unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", folder, "cgroup2", 0, NULL) < 0)
        print_message("no cgroups of version 2 can be mounted here: %s\n", strerror(errno));
    else
        there = true;
    return there ? folder : NULL;
}

/* A process in the group, with a child there that has left its session; both sleep. */
static pid_t sleepers(const char *group)
{
    char procs[PATH_MAX];
    int ready[2];
    pid_t pid;
    char byte;

    snprintf(procs, sizeof procs, "%s/cgroup.procs", group);
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        FILE *f = fopen(procs, "we");

        if (!f || fputs("0", f) < 0 || fclose(f) != 0)
            _exit(1);
        if (fork() == 0)
            setsid();
        if (write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void a_real_group_is_removed_with_all_that_is_in_it(void **state)
{
    const char *root = private_mount();
    struct pl_cgroup_memory memory;
    struct pl_err err = {0};
    char group[PATH_MAX];
    int status = 0;
    pid_t pid;

    (void)state;
    if (!root)
        skip();
    snprintf(group, sizeof group, "%s/pl-test-%d", root, (int)getpid());
    assert_int_equal(mkdir(group, 0755), 0);
    pid = sleepers(group);
    assert_int_equal(pl_cgroup_others(get(group, "cgroup.procs"), pid), 1);
    pl_cgroup_read_memory(group, &memory);
    assert_int_equal(memory.killed, 0);
    if (pl_cgroup_remove(group, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(access(group, F_OK), -1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(pl_cgroup_remove(group, &err), 0); /* absent is fine */
    pl_cgroup_kill(group);
}

/* Whatever this kernel has: what is said to hold is what the kernel took, and nothing is left behind. */
static void a_real_root_group_gives_what_it_has(void **state)
{
    const char *root = private_mount();
    const struct pl_cgroup_limits limits = {.memory_bytes = 64 << 20, .cpu_milli = 1000};
    char name[64], proc[96], folder[PATH_MAX], path[PL_CGROUP_PATH];
    const struct pl_cgroup_config config = {
        .program = "pipelined", .name = name, .root = root, .proc = proc, .systemd = "/no/such"};
    struct pl_cgroup *g = NULL;
    struct pl_err err = {0};
    unsigned there;

    (void)state;
    if (!root)
        skip();
    snprintf(name, sizeof name, "pl-test-%d", (int)getpid());
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    snprintf(proc, sizeof proc, "/tmp/%s-proc", name);
    put(proc, "self/cgroup", "0::/\n"); /* wherever the test itself is */
    there = pl_cgroup_controllers(get(root, "cgroup.controllers"));
    assert_int_equal(pl_cgroup_open(&config, &g, &err), 0);
    print_message("controllers here: %x; held: %x; %s\n", there, pl_cgroup_held(g), pl_cgroup_why(g));
    assert_int_equal(pl_cgroup_held(g) & ~there, 0);
    assert_int_equal(pl_cgroup_held(g) == PL_CGROUP_ALL, *pl_cgroup_why(g) == '\0');
    if (pl_cgroup_held(g)) {
        if (pl_cgroup_make(g, "1", &limits, &err) < 0)
            fail_msg("%s", err.msg);
        pl_cgroup_path(g, "1", path);
        if (pl_cgroup_held(g) & PL_CGROUP_MEMORY)
            assert_string_equal(get(path, "memory.max"), "67108864\n");
        if (pl_cgroup_held(g) & PL_CGROUP_CPU)
            assert_string_equal(get(path, "cpu.weight"), "39\n");
        assert_int_equal(pl_cgroup_remove(path, &err), 0);
    }
    pl_cgroup_close(g);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(pl_io_remove_tree(proc, NULL), 0);
}

static int unmount(void **state)
{
    const char *root = private_mount();

    (void)state;
    if (root) {
        umount2(root, MNT_DETACH);
        rmdir(root);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_own_group_is_the_line_of_version_2),
        cmocka_unit_test(controllers_are_read_and_named),
        cmocka_unit_test(processes_and_events_are_counted),
        cmocka_unit_test(a_request_becomes_a_weight_as_kubernetes_has_it),
        cmocka_unit_test(a_sandbox_has_a_quarter_of_the_processes_that_there_may_be),
        cmocka_unit_test(what_does_not_hold_has_a_reason_and_a_remedy),
        cmocka_unit_test_setup_teardown(the_program_moves_to_a_leaf_before_it_enables_controllers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_was_started_in_the_leaf_takes_the_group_above, set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_the_root_group_a_group_is_made_for_all_of_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_touched_where_nothing_may_be_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_controller_that_is_missing_takes_only_its_limits_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_the_kernel_refuses_leaves_the_program_where_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(version_1_and_no_cgroups_are_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_worker_gets_the_limits_of_its_stage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_limit_that_cannot_be_set_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_limit_and_what_was_killed_are_read, set_up, tear_down),
        cmocka_unit_test(a_real_group_is_removed_with_all_that_is_in_it),
        cmocka_unit_test(a_real_root_group_gives_what_it_has),
    };

    return cmocka_run_group_tests(tests, NULL, unmount);
}
