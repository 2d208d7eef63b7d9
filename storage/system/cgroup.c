/* cgroup: collects facts from the kernel's files in pl_cgroup_facts, lets a pure function decide, and then
 * carries out the decision step by step. If the kernel refuses a step for a controller, the controller's
 * limits are reported as not enforced. Limits are written to a group before a process enters it. */
#include "storage/system/cgroup.h"

#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#define FILE_MAX (64u << 10)
/* interval in ms at which a group is checked for being empty: a process leaves its group only shortly after
 * it was reaped */
#define LOOK_MS 20

struct pl_cgroup {
    const char *program;
    char folder[PL_CGROUP_PATH - 128]; /* folder of the group in which the workers' groups are made */
    bool made;                         /* `folder` was made below the root group; close removes it */
    /* controllers whose limits are enforced: set of bits of enum pl_cgroup_controller */
    unsigned held;
    uint64_t pids_max;
    char why[PL_CGROUP_TEXT], remedy[PL_CGROUP_TEXT];
};

/* ---- decisions ---- */

static const struct {
    enum pl_cgroup_controller bit;
    const char *name;
} controllers[] = {{PL_CGROUP_CPU, "cpu"}, {PL_CGROUP_MEMORY, "memory"}, {PL_CGROUP_PIDS, "pids"}};

bool pl_cgroup_own(const char *text, char *ret, size_t size)
{
    static const char gone[] = " (deleted)";
    const char *line = text;
    size_t n;

    while (line && strncmp(line, "0::", 3) != 0)
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    if (!line)
        return false;
    line += 3;
    n = strcspn(line, "\n");
    if (n == 0 || n >= size || *line != '/' || strncmp(line, "/..", 3) == 0)
        return false;
    if (n >= strlen(gone) && strncmp(line + n - strlen(gone), gone, strlen(gone)) == 0)
        return false;
    memcpy(ret, line, n);
    ret[n] = '\0';
    return true;
}

unsigned pl_cgroup_controllers(const char *text)
{
    unsigned set = 0;

    while (*text) {
        const size_t n = strcspn(text, " \n");

        for (size_t i = 0; i < PL_ARRAY_SIZE(controllers); i++)
            if (n == strlen(controllers[i].name) && strncmp(text, controllers[i].name, n) == 0)
                set |= controllers[i].bit;
        text += n + (text[n] != '\0');
    }
    return set;
}

char *pl_cgroup_names(unsigned set, char out[32])
{
    size_t n = 0;

    *out = '\0';
    for (size_t i = 0; i < PL_ARRAY_SIZE(controllers); i++) {
        const bool more = set >> (i + 1) != 0;

        if (set & controllers[i].bit)
            n += (size_t)snprintf(out + n, 32 - n, "%s%s", n == 0 ? "" : more ? ", " : " and ", controllers[i].name);
    }
    return out;
}

size_t pl_cgroup_others(const char *text, int64_t pid)
{
    size_t n = 0;

    while (*text) {
        char *end;
        const long long one = strtoll(text, &end, 10);

        if (end == text)
            break;
        n += one != pid;
        text = end + strspn(end, "\n");
    }
    return n;
}

uint64_t pl_cgroup_event(const char *text, const char *name)
{
    const size_t n = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            return strtoull(line + n, NULL, 10);
    return 0;
}

uint64_t pl_cgroup_weight(uint64_t cpu_milli)
{
    const uint64_t shares = cpu_milli > 256000 ? 262144 : PL_MAX(cpu_milli * 1024 / 1000, (uint64_t)2);

    return 1 + (shares - 2) * 9999 / 262142;
}

uint64_t pl_cgroup_pids(uint64_t pid_max, uint64_t threads_max, uint64_t group_max)
{
    uint64_t least = UINT64_MAX;

    least = pid_max ? PL_MIN(least, pid_max) : least;
    least = threads_max ? PL_MIN(least, threads_max) : least;
    least = group_max ? PL_MIN(least, group_max) : least;
    return least == UINT64_MAX ? 0 : PL_MAX(least / 4, (uint64_t)1);
}

static void say_delegate(const char *program, char remedy[PL_CGROUP_TEXT])
{
    if (pl_streq(program, "pipelined"))
        snprintf(remedy, PL_CGROUP_TEXT,
                 "run it as its systemd unit, or with systemd-run --user --scope -p \"" PL_CGROUP_ASKED "\" pipelined");
    else
        snprintf(remedy, PL_CGROUP_TEXT, "run it with systemd-run --user --scope -p \"" PL_CGROUP_ASKED "\" %.60s", program);
}

unsigned pl_cgroup_judge(const struct pl_cgroup_facts *f, char why[PL_CGROUP_TEXT], char remedy[PL_CGROUP_TEXT])
{
    unsigned missing;
    char names[32];

    *why = *remedy = '\0';
    say_delegate(f->program, remedy);
    if (!f->version_2 && f->version_1) {
        snprintf(why, PL_CGROUP_TEXT, "this machine uses version 1 of cgroups, or both versions");
        snprintf(remedy, PL_CGROUP_TEXT, "boot it with systemd.unified_cgroup_hierarchy=1");
    } else if (!f->version_2) {
        snprintf(why, PL_CGROUP_TEXT, "no cgroups are mounted at %.200s", f->root);
        snprintf(remedy, PL_CGROUP_TEXT, "mount -t cgroup2 none %.200s", f->root);
    } else if (f->read_only) {
        snprintf(why, PL_CGROUP_TEXT, "%.200s is mounted read-only", f->root);
        snprintf(remedy, PL_CGROUP_TEXT,
                 "remove ProtectControlGroups from its systemd unit, or mount cgroups writable in its container");
    } else if (!f->own) {
        snprintf(why, PL_CGROUP_TEXT, "%.60s is not in a cgroup that is visible below %.200s", f->program, f->root);
    } else if (!f->writable || f->systemds) {
        snprintf(why, PL_CGROUP_TEXT, "the cgroup %.200s is not delegated to %.60s", f->own, f->program);
    } else if (f->others > 0 && !f->in_root) {
        snprintf(why, PL_CGROUP_TEXT, "the cgroup %.200s of %.60s contains other processes", f->own, f->program);
    } else if ((missing = PL_CGROUP_ALL & ~f->controllers) != 0) {
        snprintf(why, PL_CGROUP_TEXT, "the cgroup %.200s has no controller %s", f->own, pl_cgroup_names(missing, names));
        if (!f->in_root)
            snprintf(remedy, PL_CGROUP_TEXT, "request it from systemd: " PL_CGROUP_ASKED);
        else
            snprintf(remedy, PL_CGROUP_TEXT, "boot without cgroup_disable=, and without version 1 of cgroups");
        return f->controllers & PL_CGROUP_ALL;
    } else {
        *remedy = '\0';
        return PL_CGROUP_ALL;
    }
    return 0;
}

/* ---- files of groups ---- */

/* Returns the file's text, owned by `b`; "" if it cannot be read. */
static const char *read_text(struct pl_buf *b, const char *folder, const char *name)
{
    char path[PATH_MAX];

    pl_buf_clear(b);
    b->max = FILE_MAX;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path || pl_io_read_file(path, b, NULL) < 0)
        pl_buf_clear(b);
    return pl_buf_str(b) ? pl_buf_str(b) : "";
}

static uint64_t read_number(const char *folder, const char *name)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};

    return strtoull(read_text(&b, folder, name), NULL, 10); /* "max" yields 0: no limit */
}

/* Writes a file of a group with a single write call, because the kernel accepts or refuses each write as a
 * whole. Returns 0 or a negative errno. */
static int write_text(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    _cleanup_close_ int fd = -1;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -ENAMETOOLONG;
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static bool may_write(const char *folder)
{
    static const char *const names[] = {"", "cgroup.procs", "cgroup.subtree_control"};
    char path[PATH_MAX];

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) >= (int)sizeof path || access(path, W_OK) < 0)
            return false;
    return true;
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

/* True if systemd has marked the group as delegated, with an extended attribute of the folder (systemd's
 * docs/CGROUP_DELEGATION.md). In a group that is not delegated, systemd may change anything at any time. */
static bool is_noted(const char *folder)
{
    char value[8];

    return getxattr(folder, "user.delegate", value, sizeof value) > 0 ||
           getxattr(folder, "trusted.delegate", value, sizeof value) > 0;
}

/* ---- opening ---- */

/* The facts for pl_cgroup_judge, with the memory of the strings that they point to. */
struct look {
    struct pl_cgroup_facts facts;
    char own[PL_CGROUP_PATH / 2], folder[PL_CGROUP_PATH - 256];
    bool in_leaf; /* the program was started in the subgroup `daemon` of `own` */
};

/* Fills `l` with the facts about the group of this process. If the process was started in the leaf group
 * `daemon`, the facts are about that group's parent. */
static void look(const struct pl_cgroup_config *config, struct look *l)
{
    const char *root = config->root ? config->root : "/sys/fs/cgroup", *proc = config->proc ? config->proc : "/proc",
               *systemd = config->systemd ? config->systemd : "/run/systemd/system";
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_cgroup_facts *f = &l->facts;
    struct statvfs fs;
    char *slash;

    *f = (struct pl_cgroup_facts){.root = root, .program = config->program};
    f->version_2 = is_there(root, "cgroup.controllers");
    f->version_1 = !f->version_2 && (is_there(root, "unified") || is_there(root, "memory") || is_there(root, "systemd"));
    f->read_only = statvfs(root, &fs) == 0 && (fs.f_flag & ST_RDONLY);
    if (!f->version_2 || !pl_cgroup_own(read_text(&b, proc, "self/cgroup"), l->own, sizeof l->own))
        return;
    slash = strrchr(l->own, '/');
    l->in_leaf = pl_streq(slash + 1, PL_CGROUP_LEAF);
    if (l->in_leaf)
        slash[slash == l->own] = '\0';
    if (snprintf(l->folder, sizeof l->folder, "%s%s", root, pl_streq(l->own, "/") ? "" : l->own) >= (int)sizeof l->folder)
        return;
    f->own = l->own;
    f->in_root = !is_there(l->folder, "cgroup.type");
    f->writable = may_write(l->folder);
    f->systemds = !f->in_root && geteuid() == 0 && access(systemd, F_OK) == 0 && !is_noted(l->folder);
    f->others = pl_cgroup_others(read_text(&b, l->folder, "cgroup.procs"), (int64_t)getpid());
    f->controllers = pl_cgroup_controllers(read_text(&b, l->folder, "cgroup.controllers"));
}

/* Enables controllers of the group `folder` for its subgroups. Returns those that the kernel enabled. If the
 * kernel refuses them all together, each is tried alone, and `why` receives the reason for one that was
 * refused. */
static unsigned enable(struct pl_cgroup *g, const char *folder, unsigned want)
{
    char text[32] = "";
    unsigned took = 0;
    size_t n = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(controllers); i++)
        if (want & controllers[i].bit)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s+%s", n ? " " : "", controllers[i].name);
    if (n == 0 || write_text(folder, "cgroup.subtree_control", text) == 0)
        return want;
    for (size_t i = 0; i < PL_ARRAY_SIZE(controllers); i++) {
        int r = 0;

        if (!(want & controllers[i].bit))
            continue;
        snprintf(text, sizeof text, "+%s", controllers[i].name);
        r = write_text(folder, "cgroup.subtree_control", text);
        if (r == 0)
            took |= controllers[i].bit;
        else
            snprintf(g->why, sizeof g->why, "%.300s/cgroup.subtree_control rejects %s: %s", folder, text, strerror(-r));
    }
    if (!*g->remedy)
        say_delegate(g->program, g->remedy);
    return took;
}

/* Moves this process to the group `folder`, which is made if it does not exist. Returns 0 or a negative
 * errno. */
static int move_to(const char *folder)
{
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return -errno;
    return write_text(folder, "cgroup.procs", "0");
}

/* For a program in the root group: makes the group ROOT/NAME for the workers. The program itself stays in the
 * root group. */
static void set_up_in_root(struct pl_cgroup *g, const struct look *l, const char *name, unsigned may)
{
    if (snprintf(g->folder, sizeof g->folder, "%s/%s", l->folder, name) >= (int)sizeof g->folder)
        return;
    may = enable(g, l->folder, may);
    if (may && mkdir(g->folder, 0755) < 0 && errno != EEXIST) {
        snprintf(g->why, sizeof g->why, "%.300s: %s", g->folder, strerror(errno));
        return;
    }
    g->made = may != 0;
    g->held = may ? enable(g, g->folder, may) : 0;
}

/* For a program in a group that was delegated to it: moves this process to a leaf group and enables
 * controllers. Moves the process back if no controller could be enabled. */
static void set_up_in_own(struct pl_cgroup *g, const struct look *l, unsigned may)
{
    char leaf[PATH_MAX];
    int r;

    snprintf(g->folder, sizeof g->folder, "%s", l->folder);
    snprintf(leaf, sizeof leaf, "%s/" PL_CGROUP_LEAF, g->folder);
    r = l->in_leaf ? 0 : move_to(leaf);
    if (r < 0) {
        snprintf(g->why, sizeof g->why, "%s cannot move to the cgroup %.300s: %s", g->program, leaf, strerror(-r));
        say_delegate(g->program, g->remedy);
        return;
    }
    g->held = enable(g, g->folder, may);
    if (!g->held && !l->in_leaf && write_text(g->folder, "cgroup.procs", "0") == 0)
        (void)rmdir(leaf);
}

int pl_cgroup_open(const struct pl_cgroup_config *config, struct pl_cgroup **ret, struct pl_err *err)
{
    const char *proc = config->proc ? config->proc : "/proc";
    _cleanup_free_ struct look *l = calloc(1, sizeof *l);
    struct pl_cgroup *g = calloc(1, sizeof *g);
    unsigned may;

    if (!l || !g) {
        free(g);
        return pl_err_nomem(err);
    }
    g->program = config->program;
    look(config, l);
    may = pl_cgroup_judge(&l->facts, g->why, g->remedy);
    if (may && l->facts.in_root)
        set_up_in_root(g, l, config->name, may);
    else if (may)
        set_up_in_own(g, l, may);
    if (g->held & PL_CGROUP_PIDS)
        g->pids_max = pl_cgroup_pids(read_number(proc, "sys/kernel/pid_max"), read_number(proc, "sys/kernel/threads-max"),
                                     read_number(l->folder, "pids.max"));
    *ret = g;
    return 0;
}

struct pl_cgroup *pl_cgroup_close(struct pl_cgroup *g)
{
    if (g && g->made)
        /* rmdir fails if the folder still contains a worker's group; the folder must then stay */
        (void)rmdir(g->folder);
    free(g);
    return NULL;
}

/* ---- what is enforced ---- */

unsigned pl_cgroup_held(const struct pl_cgroup *g)
{
    return g->held;
}

const char *pl_cgroup_why(const struct pl_cgroup *g)
{
    return g->why;
}

const char *pl_cgroup_remedy(const struct pl_cgroup *g)
{
    return g->remedy;
}

bool pl_cgroup_not_held(const struct pl_cgroup *g, bool memory, bool cpu, char *out, size_t size)
{
    memory = memory && !(g->held & PL_CGROUP_MEMORY);
    cpu = cpu && !(g->held & PL_CGROUP_CPU);
    if (!memory && !cpu)
        return false;
    snprintf(out, size, "%s%s%s %s not enforced here, %s only reserved: %s: %s", memory ? "resources.memory" : "",
             memory && cpu ? " and " : "", cpu ? "resources.cpu" : "", memory && cpu ? "are" : "is",
             memory && cpu ? "they are" : "it is", g->why, g->remedy);
    return true;
}

const char *pl_cgroup_folder(const struct pl_cgroup *g)
{
    return g->folder;
}

char *pl_cgroup_path(const struct pl_cgroup *g, const char *worker, char out[PL_CGROUP_PATH])
{
    snprintf(out, PL_CGROUP_PATH, "%s/" PL_CGROUP_WORKER "%.64s", g->folder, worker);
    return out;
}

/* Each element of the table is a file of the group. The file is written only if the limit was requested and
 * its controller is enabled. */
int pl_cgroup_make(const struct pl_cgroup *g, const char *worker, const struct pl_cgroup_limits *limits, struct pl_err *err)
{
    const bool memory = g->held & PL_CGROUP_MEMORY && limits->memory_bytes > 0;
    const struct {
        /* `said`: write the value; `may_lack`: the file may be absent (older kernels, no swap) */
        bool said, may_lack;
        const char *file;
        uint64_t value;
    } rows[] = {
        {(g->held & PL_CGROUP_PIDS) && g->pids_max, false, "pids.max", g->pids_max},
        {(g->held & PL_CGROUP_CPU) && limits->cpu_milli > 0, false, "cpu.weight", pl_cgroup_weight(limits->cpu_milli)},
        {memory, false, "memory.max", limits->memory_bytes},
        {memory, true, "memory.swap.max", 0},
        {memory, true, "memory.oom.group", 1},
    };
    char path[PL_CGROUP_PATH], text[32];

    pl_cgroup_path(g, worker, path);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return pl_err_set(err, errno == EAGAIN ? PL_ENOSPC : PL_EIO, "cgroup %s: %s", path, strerror(errno));
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        int r;

        if (!rows[i].said)
            continue;
        snprintf(text, sizeof text, "%llu", (unsigned long long)rows[i].value);
        r = write_text(path, rows[i].file, text);
        if (r < 0 && !(rows[i].may_lack && r == -ENOENT)) {
            (void)rmdir(path);
            return pl_err_set(err, PL_EIO, "cgroup %s: %s: %s: %s", path, rows[i].file, text, strerror(-r));
        }
    }
    return 0;
}

/* ---- one group ---- */

void pl_cgroup_kill(const char *path)
{
    (void)write_text(path, "cgroup.kill", "1");
}

/* Waits until the kernel reports a change of the group's state, at most LOOK_MS. */
static void wait_change(const char *path)
{
    char file[PATH_MAX], byte;
    _cleanup_close_ int fd = -1;
    struct pollfd p = {.events = POLLPRI};

    snprintf(file, sizeof file, "%s/cgroup.events", path);
    fd = open(file, O_RDONLY | O_CLOEXEC);
    p.fd = fd;
    if (fd >= 0)
        (void)!read(fd, &byte, 1); /* poll reports only changes after the last read */
    (void)poll(&p, 1, LOOK_MS);
}

int pl_cgroup_remove(const char *path, struct pl_err *err)
{
    const int64_t until_ms = pl_clock_mono_ms() + PL_CGROUP_REMOVE;

    if (rmdir(path) == 0 || errno == ENOENT)
        return 0;
    pl_cgroup_kill(path);
    while (rmdir(path) < 0) {
        if (errno == ENOENT)
            return 0;
        if (errno != EBUSY)
            return pl_err_errno(err, errno, "cgroup %s", path);
        if (pl_clock_mono_ms() >= until_ms)
            return pl_err_set(err, PL_EBUSY, "cgroup %s: its processes have not ended within %d s", path,
                              PL_CGROUP_REMOVE / 1000);
        wait_change(path);
    }
    return 0;
}

void pl_cgroup_read_memory(const char *path, struct pl_cgroup_memory *ret)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    const char *text = read_text(&b, path, "memory.events");

    *ret = (struct pl_cgroup_memory){.limit_bytes = read_number(path, "memory.max"),
                                     .at_limit = pl_cgroup_event(text, "oom"),
                                     .killed = pl_cgroup_event(text, "oom_kill")};
}
