/* local.c: workers as child processes of this machine. Each agent is the leader of its own session, so that a
 * ^C at the daemon's terminal reaches only the daemon. An agent that outlived its daemon is watched through
 * its pidfd. The agent and its runner hold the writing end of the named pipe DIR/work/<id>.held, which the
 * next daemon opens again: when a read from it returns end of file, no process of the worker is left. If
 * cgroups are delegated to the daemon, the sandbox of each worker has its own cgroup with the limits of its
 * stage; the daemon and the agents are outside these cgroups. */
#include "pipelined/exec/local/local.h"

#include "pipelined/exec/local/gpu_slots.h"
#include "pipelined/exec/local/orphan_sandbox.h"
#include "pipelined/exec/local/sandbox_probe.h"
#include "pipelined/exec/local/secret_files.h"
#include "pipelined/exec/local/worker_command.h"
#include "pipelined/exec/local/worker_env.h"
#include "pipelined/exec/local/worker_limits.h"
#include "pipelined/exec/local/workers_log.h"

#include "pipelined/policy/policy.h"
#include "storage/base/map.h"
#include "storage/system/file_users.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/thread_pool.h"
#include "storage/system/trace.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <uv.h>

struct local {
    struct pl_executor base;
    struct pl_loop *loop;
    struct pl_executor_events events;
    char *data_dir, *store_dir, *ca, *program, *sandbox, *secrets; /* `secrets` is the path of DIR/secrets */
    struct pl_gpu_slots *gpus;
    struct pl_worker_limits *limits;
    struct pl_map workers; /* map: worker id → struct worker */
    char host[128];
    struct pl_timer *grace, *log_timer;
    struct pl_leftovers *left;
    bool closing;
    unsigned sweeping;       /* number of work folders being removed */
    size_t strays;           /* number of workers whose `stray` is set */
    void (*done)(void *arg); /* callback of shutdown; NULL once it was called */
    void *done_arg;
};

struct worker {
    struct local *local;
    uint64_t id;
    pid_t pid;
    struct pl_child *child; /* the agent's process if this daemon started the agent; else NULL */
    uv_poll_t *watch;       /* watch on `pidfd`, if the agent was adopted; else NULL */
    int pidfd;
    int held;                 /* reading end of the pipe <id>.held; −1 = none */
    uv_poll_t *held_watch;    /* set after the agent has ended while processes of its command still hold the pipe */
    char end[64];             /* how the agent ended */
    bool stray;               /* the worker is not on record: wait for its end, but do not report it */
    struct pl_loop_work gone; /* work item that reports the worker's end in a later loop turn */
};

/* Returns the start time of a process in clock ticks since boot (proc(5), stat, field 22); 0 if it does not
 * exist. */
static int64_t process_start(pid_t pid)
{
    char path[64], text[1024], *p;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    p = fgets(text, sizeof text, f);
    fclose(f);
    p = p ? strrchr(text, ')') : NULL; /* field 2, the name, may contain blanks and parentheses */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoll(p, NULL, 10) : 0;
}

static void closed(uv_handle_t *h)
{
    free(h);
}

/* Removes a worker's cgroup and the rest of its work folder, on the thread pool. */
struct sweep {
    uv_work_t work;
    struct local *local;
    char path[4200], cgroup[PL_CGROUP_PATH];
};

static void sweep(uv_work_t *work)
{
    struct sweep *s = work->data;
    struct pl_err err = {0};

    if (*s->cgroup && pl_cgroup_remove(s->cgroup, &err) < 0)
        pl_log_warn("exec", "%s", err.msg);
    if (pl_io_remove_tree(s->path, &err) < 0)
        pl_log_warn("exec", "%s", err.msg);
}

/* Calls shutdown's `done` when all workers are gone and their folders removed. */
static void all_gone(struct local *l)
{
    void (*done)(void *arg) = l->done;

    if (l->workers.len > l->strays || l->sweeping || pl_orphan_sandbox_busy(l->left) || !done)
        return;
    l->done = NULL;
    pl_timer_stop(l->grace);
    done(l->done_arg);
}

static void swept(uv_work_t *work, int status)
{
    struct sweep *s = work->data;
    struct local *l = s->local;

    (void)status;
    free(s);
    l->sweeping--;
    all_gone(l);
}

static void held_path(const struct local *l, uint64_t id, char out[4200])
{
    snprintf(out, 4200, "%s/work/%llu.held", l->data_dir, (unsigned long long)id);
}

static void sweep_work(struct local *l, uint64_t id)
{
    struct sweep *s = calloc(1, sizeof *s);

    if (!s)
        return;
    s->work.data = s;
    s->local = l;
    held_path(l, id, s->path);
    (void)unlink(s->path);
    s->path[strlen(s->path) - strlen(".held")] = '\0';
    if (access(pl_worker_limits_cgroup(l->limits, id, s->cgroup), F_OK) != 0)
        *s->cgroup = '\0';
    if ((access(s->path, F_OK) != 0 && !*s->cgroup) || uv_queue_work(pl_loop_uv(l->loop), &s->work, sweep, swept) != 0)
        free(s);
    else
        l->sweeping++;
}

static void unwatch(uv_poll_t *watch)
{
    if (!watch)
        return;
    uv_poll_stop(watch);
    uv_close((uv_handle_t *)watch, closed);
}

/* Removes the worker from the map of workers and frees it. */
static void drop(struct worker *w)
{
    struct local *l = w->local;
    uint64_t id = w->id;

    l->strays -= w->stray;
    pl_map_remove(&l->workers, &id, sizeof id);
    unwatch(w->watch);
    unwatch(w->held_watch);
    pl_closep(&w->pidfd);
    pl_closep(&w->held);
    free(w);
}

static void forget(struct worker *w)
{
    struct local *l = w->local;
    uint64_t id = w->id;
    bool stray = w->stray;
    char text[sizeof w->end];

    memcpy(text, w->end, sizeof text);
    drop(w);
    sweep_work(l, id);
    if (!stray)
        l->events.exited(l->events.self, id, &(struct pl_executor_end){.text = text});
    all_gone(l);
}

static bool nobody_holds(int fd)
{
    char byte;

    /* end of file: no process holds the writing end; EAGAIN: one does (no process ever writes to it) */
    return fd < 0 || read(fd, &byte, 1) == 0;
}

static void on_held(uv_poll_t *handle, int status, int events)
{
    struct worker *w = handle->data;

    (void)events;
    if (status < 0 || nobody_holds(w->held))
        forget(w);
}

/* Returns the pipe of the next worker whose agent has ended while a process still holds the pipe. */
static int next_left(void *self, size_t *at, uint64_t *ret_id)
{
    struct local *l = self;
    const struct pl_map_slot *slot;

    while ((slot = pl_map_next(&l->workers, at))) {
        const struct worker *w = slot->value;

        if (!w->held_watch)
            continue;
        *ret_id = w->id;
        return w->held;
    }
    return -1;
}

static void none_looked_for(void *self)
{
    all_gone(self);
}

/* Handles the end of an agent. The agent's sandbox and command die soon after it, at once if they are in a
 * cgroup; the worker is gone when no process holds its pipe. */
static void agent_gone(struct worker *w, const char *text)
{
    char cgroup[PL_CGROUP_PATH];

    if (*pl_worker_limits_cgroup(w->local->limits, w->id, cgroup))
        pl_cgroup_kill(cgroup);
    pl_trace("exec/local", "worker %llu ended: %s", (unsigned long long)w->id, text);
    snprintf(w->end, sizeof w->end, "%s", text);
    w->pid = 0;
    if (nobody_holds(w->held)) {
        forget(w);
        return;
    }
    w->held_watch = calloc(1, sizeof *w->held_watch);
    if (!w->held_watch || uv_poll_init(pl_loop_uv(w->local->loop), w->held_watch, w->held) != 0) {
        free(TAKE_PTR(w->held_watch));
        forget(w);
        return;
    }
    w->held_watch->data = w;
    if (uv_poll_start(w->held_watch, UV_READABLE, on_held) != 0)
        forget(w);
    else
        pl_orphan_sandbox_look(w->local->left);
}

static void on_child_exit(void *arg, int status, int signum)
{
    struct worker *w = arg;
    char text[64];

    if (signum)
        snprintf(text, sizeof text, "killed by signal %d", signum);
    else if (status == PL_WORKER_EXIT_SANDBOX)
        snprintf(text, sizeof text, "its sandbox was killed from outside");
    else
        snprintf(text, sizeof text, "exit code %d", status);
    w->child = NULL;
    agent_gone(w, text);
}

/* ---- starting a worker ---- */

/* Keeps workers.log within its size limit; runs now and every PL_WORKERS_LOG_EVERY_MS. */
static void bound_log(void *arg)
{
    struct local *l = arg;
    struct pl_err err = {0};

    if (pl_workers_log_bound(l->data_dir, &err) < 0)
        pl_log_warn("exec", "%s", err.msg);
    pl_timer_start(l->log_timer, PL_WORKERS_LOG_EVERY_MS);
}

/* Creates a worker's pipe: keeps the reading end and returns the writing end, which the caller owns. */
static int make_held(struct local *l, struct worker *w, struct pl_err *err)
{
    char path[4200];
    int fd;

    held_path(l, w->id, path);
    (void)unlink(path);
    if (mkfifo(path, 0600) < 0 || (w->held = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) < 0)
        return pl_err_errno(err, errno, "%s", path);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? pl_err_errno(err, errno, "%s", path) : fd;
}

static int spawn(struct local *l, struct worker *w, const struct pl_worker_command *c, struct pl_err *err)
{
    _cleanup_close_ int log = pl_workers_log_open(l->data_dir), held = make_held(l, w, err);
    struct pl_child_options o = {
        .label = "worker.exit", .argv = c->argv, .env = (const char *const *)c->env, .n_fds = 4, .own_session = true};

    if (held < 0)
        return held;
    o.fds[0] = -1;
    o.fds[1] = o.fds[2] = log;
    o.fds[3] = held;
    return pl_child_spawn(l->loop, &o, on_child_exit, w, &w->child, err);
}

static struct worker *new_worker(struct local *l, uint64_t id, struct pl_err *err)
{
    struct worker *w = calloc(1, sizeof *w);

    if (!w) {
        pl_err_nomem(err);
        return NULL;
    }
    w->local = l;
    w->id = id;
    w->pidfd = w->held = -1;
    if (pl_map_put(&l->workers, &id, sizeof id, w, NULL, err) < 0) {
        free(w);
        return NULL;
    }
    return w;
}

/* Fails if the worker must run without network but there is no sandbox that can ensure it. */
static int check_network(const struct local *l, const struct pl_worker_spec *spec, struct pl_err *err)
{
    if ((spec->def->network && !spec->network_off) || !pl_streq(l->sandbox, "none"))
        return 0;
    return pl_err_set(err, PL_EUNAVAILABLE,
                      "%s%s must run without network%s, which needs a sandbox: use bubblewrap, not --sandbox none",
                      spec->network_off ? "project " : "stage ", spec->network_off ? spec->project : spec->stage,
                      spec->network_off ? "" : " (\"network\": false)");
}

/* Starts an agent, after checking that its programs and secrets exist and that its network can be restricted. */
static int local_start(struct pl_executor *x, const struct pl_worker_spec *spec, struct pl_err *err)
{
    struct local *l = (struct local *)x;
    const struct pl_worker_command_config config = {.data_dir = l->data_dir,
                                                    .store_dir = l->store_dir,
                                                    .ca = l->ca,
                                                    .program = l->program,
                                                    .sandbox = l->sandbox,
                                                    .secrets = l->secrets,
                                                    .gpus = l->gpus,
                                                    .limits = l->limits};
    _cleanup_free_ struct pl_worker_command *c = calloc(1, sizeof *c);
    struct worker *w;
    int r = l->closing ? pl_err_set(err, PL_ESTOPPING, "the daemon is stopping")
            : c        ? pl_worker_command_make(&config, spec, c, err)
                       : pl_err_nomem(err);

    if (r == 0) {
        r = pl_worker_env_check(l->sandbox, spec->def, err);
        if (r == PL_ENOTFOUND || r == PL_EINVAL) /* other failures are tried again */
            return pl_err_wrap(err, PL_ESTAGE, "stage %s cannot run", spec->stage);
    }
    r = r < 0 ? r : pl_secret_files_have(l->secrets, spec->project, spec->def, err);
    r = r < 0 ? r : check_network(l, spec, err);
    if (r < 0)
        return r;
    w = new_worker(l, spec->id, err);
    if (!w)
        return PL_ENOMEM;
    r = pl_worker_limits_make(l->limits, spec, err);
    r = r < 0 ? r : spawn(l, w, c, err);
    if (r < 0) {
        sweep_work(l, spec->id);
        pl_map_remove(&l->workers, &spec->id, sizeof spec->id);
        pl_closep(&w->held);
        free(w);
        return pl_err_wrap(err, r, "worker of stage %s", spec->stage);
    }
    w->pid = pl_child_pid(w->child);
    pl_trace("exec/local", "worker %llu, stage %s: process %lld", (unsigned long long)w->id, spec->stage, (long long)w->pid);
    l->events.started(l->events.self, w->id, l->host, w->pid, process_start(w->pid));
    return 0;
}

/* ---- stopping a worker ---- */

static void send_signal(const struct worker *w, int signum)
{
    if (w->pidfd >= 0) /* an adopted agent is not our child, so another process may have its pid by now */
        syscall(SYS_pidfd_send_signal, w->pidfd, signum, NULL, 0);
    else if (w->pid > 0) /* pid 0: the agent has ended, and its runner kills the other processes */
        kill(w->pid, signum);
}

/* Reports the worker's end in a later loop turn, because the caller of stop or adopt is not done yet. */
static void report_gone(void *arg)
{
    agent_gone(arg, "it no longer exists");
}

static void report_later(struct local *l, struct worker *w)
{
    pl_loop_post_work(l->loop, &w->gone, "worker.gone", report_gone, w);
}

static void local_stop(struct pl_executor *x, uint64_t id, bool kill_it)
{
    struct local *l = (struct local *)x;
    struct worker *w = pl_map_get(&l->workers, &id, sizeof id);

    if (!w) {
        w = new_worker(l, id, NULL);
        if (w)
            report_later(l, w);
        return;
    }
    send_signal(w, kill_it ? SIGKILL : SIGTERM);
}

/* ---- adopting a worker ---- */

static void on_pidfd(uv_poll_t *handle, int status, int events)
{
    struct worker *w = handle->data;

    (void)status;
    (void)events;
    unwatch(TAKE_PTR(w->watch));
    pl_closep(&w->pidfd);
    w->pidfd = -1;
    agent_gone(w, "it ended after the daemon restarted");
}

/* Watches an agent of an earlier daemon. A process with another start time only has the same pid. */
static void local_adopt(struct pl_executor *x, const struct pl_worker_spec *spec, int64_t pid, int64_t pid_start)
{
    struct local *l = (struct local *)x;
    const uint64_t id = spec->id;
    struct worker *w = new_worker(l, id, NULL);
    char path[4200];

    if (!w)
        return;
    held_path(l, id, path);
    w->held = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    w->pidfd = pid > 0 && pid_start ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
    /* compare the start time after opening the pidfd: from then on the pid cannot be reused unnoticed */
    if (w->pidfd >= 0 && process_start((pid_t)pid) != pid_start)
        w->pidfd = (close(w->pidfd), -1);
    w->watch = w->pidfd >= 0 ? calloc(1, sizeof *w->watch) : NULL;
    if (!w->watch || uv_poll_init(pl_loop_uv(l->loop), w->watch, w->pidfd) != 0) {
        free(TAKE_PTR(w->watch));
        report_later(l, w);
        return;
    }
    w->pid = (pid_t)pid;
    w->watch->data = w;
    if (uv_poll_start(w->watch, UV_READABLE, on_pidfd) != 0)
        report_later(l, w);
}

/* ---- workers without a record ---- */

/* Kills the agents of workers that are not on record: no daemon will take up what they do, and without this each would look
 * for a daemon for PL_DAEMON_CLIENT_ORPHAN_MS. Their commands end with them. */
static void kill_strays(struct local *l)
{
    const struct pl_map_slot *slot;
    const char *name = strrchr(l->program, '/');
    _cleanup_free_ size_t *killed = calloc(l->strays + 1, sizeof *killed);
    _cleanup_free_ int *pipes = calloc(l->strays + 1, sizeof *pipes);
    char comm[16]; /* proc(5): longer names are cut */
    size_t n = 0;

    if (l->strays == 0 || !killed || !pipes)
        return;
    snprintf(comm, sizeof comm, "%s", name ? name + 1 : l->program);
    for (size_t i = 0; (slot = pl_map_next(&l->workers, &i));) {
        const struct worker *w = slot->value;

        if (w->stray && w->held >= 0)
            pipes[n++] = w->held;
    }
    pl_file_users_kill(pipes, n, comm, killed);
}

/* Waits for the end of a worker that is not on record. */
static void sweep_stray(struct local *l, uint64_t id)
{
    struct worker *w = pl_map_get(&l->workers, &id, sizeof id);
    char path[4200];

    w = w ? NULL : new_worker(l, id, NULL);
    if (!w)
        return;
    w->stray = true;
    l->strays++;
    held_path(l, id, path);
    w->held = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    agent_gone(w, "the daemon has no record of it");
}

/* Calls sweep_stray for each id in a folder's entries "<prefix><id>" and "<prefix><id>.held". */
static void sweep_folder(struct local *l, const char *path, const char *prefix)
{
    const struct dirent *e;
    DIR *dir = opendir(path);

    while (dir && (e = readdir(dir))) {
        const char *number = strncmp(e->d_name, prefix, strlen(prefix)) == 0 ? e->d_name + strlen(prefix) : "";
        char *end;
        uint64_t id = strtoull(number, &end, 10);

        if (isdigit((unsigned char)*number) && (!*end || pl_streq(end, ".held")))
            sweep_stray(l, id);
    }
    if (dir)
        closedir(dir);
}

static void local_sweep(struct pl_executor *x)
{
    struct local *l = (struct local *)x;
    char path[4200];

    snprintf(path, sizeof path, "%s/work", l->data_dir);
    sweep_folder(l, path, "");
    sweep_folder(l, pl_worker_limits_folder(l->limits), PL_CGROUP_WORKER);
    kill_strays(l);
}

/* ---- secrets, capacity and GPUs ---- */

static int local_secrets(struct pl_executor *x, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    return pl_secret_files(((struct local *)x)->secrets, op, ret, err);
}

static uint64_t machine_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void local_capacity(struct pl_executor *x, struct pl_executor_capacity *ret)
{
    struct local *l = (struct local *)x;

    *ret = (struct pl_executor_capacity){.cpu_milli = (uint64_t)pl_cores() * 1000,
                                         .memory_bytes = machine_memory(),
                                         .gpu_slots = pl_gpu_slots_count(l->gpus),
                                         .gpu_offered = pl_gpu_slots_count(l->gpus)};
}

static int local_choose_gpus(struct pl_executor *x, const struct pl_gpu *want, uint16_t slots[PL_EXEC_GPUS_MAX], char *why,
                             size_t why_size)
{
    return pl_gpu_slots_choose(((struct local *)x)->gpus, want, slots, why, why_size);
}

static bool local_not_held(struct pl_executor *x, const struct pl_stage *def, char out[PL_EXECUTOR_NOT_HELD])
{
    return pl_worker_limits_not_held(((struct local *)x)->limits, def, out);
}

static unsigned local_device(struct pl_executor *x, uint32_t slot)
{
    return pl_gpu_slots_device(((struct local *)x)->gpus, slot);
}

static json_t *local_limits(struct pl_executor *x)
{
    return pl_worker_limits_json(((struct local *)x)->limits);
}

static json_t *local_sandbox(struct pl_executor *x)
{
    const struct local *l = (struct local *)x;

    return pl_worker_env_json(l->host, l->sandbox);
}

/* Compares the stage's GPUs and memory with those of this machine. The check is complete at once. */
static int local_check(struct pl_executor *x, const char *project, const struct pl_stage *def, bool gpu,
                       struct pl_executor_check *ret, struct pl_err *err)
{
    const struct local *l = (struct local *)x;
    struct pl_err why = {0};
    const int r = pl_worker_env_check(l->sandbox, def, &why);
    const unsigned all = pl_gpu_slots_count(l->gpus), want = gpu && def->gpu.required ? def->gpu.count : 0;
    uint16_t slots[PL_EXEC_GPUS_MAX];
    char what[512] = "";
    int n = pl_gpu_slots_choose(l->gpus, &def->gpu, slots, what, sizeof what);

    (void)project;
    if (r == PL_ENOTFOUND)
        snprintf(ret->cannot_start, sizeof ret->cannot_start, "%.1000s", why.msg);
    else if (r < 0)
        return pl_err_field(err, pl_err_set(err, r, "%s", why.msg), why.field);
    (void)pl_worker_limits_not_held(l->limits, def, ret->not_held);
    if (n < 0)
        snprintf(what, sizeof what, "and this machine has %u", all);
    if (want > (n < 0 ? all : (unsigned)n))
        snprintf(ret->not_offered, sizeof ret->not_offered, "a worker wants %u GPU%s %s", want, want == 1 ? "" : "s", what);
    else if ((uint64_t)def->resources.memory_bytes > machine_memory())
        snprintf(ret->not_offered, sizeof ret->not_offered, "a worker wants %llu MiB of memory and this machine has %llu",
                 (unsigned long long)(def->resources.memory_bytes >> 20), (unsigned long long)(machine_memory() >> 20));
    return 0;
}

static json_t *local_gpus(struct pl_executor *x)
{
    struct local *l = (struct local *)x;

    return pl_gpu_slots_json(l->gpus, l->host);
}

/* ---- shutdown and creation ---- */

static void signal_all(struct local *l, int signum)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&l->workers, &i));)
        send_signal(slot->value, signum);
}

/* Forgets workers that are not on record; the next daemon finds them again. */
static void drop_strays(struct local *l)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; l->strays && (slot = pl_map_next(&l->workers, &i));) {
        struct worker *w = slot->value;

        if (!w->stray)
            continue;
        drop(w);
        i = 0; /* removing an entry moves others in the map, so start over */
    }
}

static void grace_over(void *arg)
{
    signal_all(arg, SIGKILL);
}

static void local_shutdown(struct pl_executor *x, bool kill_them, void (*done)(void *arg), void *arg)
{
    struct local *l = (struct local *)x;

    l->closing = true;
    pl_timer_stop(l->log_timer);
    l->done = done;
    l->done_arg = arg;
    kill_strays(l); /* one that was only forked at the start was not found then */
    drop_strays(l);
    signal_all(l, kill_them ? SIGKILL : SIGTERM);
    pl_timer_start(l->grace, PL_EXECUTOR_GRACE_MS);
    all_gone(l);
}

static void local_destroy(struct pl_executor *x)
{
    struct local *l = (struct local *)x;

    pl_map_finish(&l->workers, NULL);
    pl_timer_destroy(l->grace);
    pl_timer_destroy(l->log_timer);
    pl_orphan_sandbox_destroy(l->left);
    pl_gpu_slots_destroy(l->gpus);
    pl_worker_limits_close(l->limits);
    free(l->data_dir);
    free(l->store_dir);
    free(l->ca);
    free(l->program);
    free(l->sandbox);
    free(l->secrets);
    free(l);
}

static const struct pl_executor_ops local_ops = {.name = "local",
                                                 .start = local_start,
                                                 .stop = local_stop,
                                                 .adopt = local_adopt,
                                                 .sweep = local_sweep,
                                                 .secrets = local_secrets,
                                                 .capacity = local_capacity,
                                                 .device = local_device,
                                                 .check = local_check,
                                                 .choose_gpus = local_choose_gpus,
                                                 .gpus = local_gpus,
                                                 .not_held = local_not_held,
                                                 .limits = local_limits,
                                                 .sandbox = local_sandbox,
                                                 .shutdown = local_shutdown,
                                                 .destroy = local_destroy};

/* Returns the path of pipelined-worker in the folder of this program; NULL on failure. */
static char *program_beside(void)
{
    char path[4096], *slash, *out = NULL;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    if (n <= 0)
        return NULL;
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (slash && asprintf(&out, "%.*s/pipelined-worker", (int)(slash - path), path) < 0)
        return NULL;
    return out;
}

/* Copies the configuration, checks the agent's program and the sandbox, and opens GPUs, cgroups and
 * workers.log. */
int pl_exec_local_create(const struct pl_exec_local_config *config, struct pl_executor **ret, struct pl_err *err)
{
    struct local *l = calloc(1, sizeof *l);
    const struct pl_orphan_sandbox_config left = {.loop = config->loop, .next = next_left, .rests = none_looked_for, .self = l};
    int r;

    if (!l)
        return pl_err_nomem(err);
    l->base.ops = &local_ops;
    l->loop = config->loop;
    l->events = config->events;
    l->data_dir = strdup(config->data_dir);
    l->store_dir = strdup(config->store_dir);
    l->ca = strdup(config->ca ? config->ca : "");
    l->program = config->program ? strdup(config->program) : program_beside();
    l->sandbox = strdup(config->sandbox);
    if (asprintf(&l->secrets, "%s/secrets", config->data_dir) < 0)
        l->secrets = NULL;
    if (gethostname(l->host, sizeof l->host - 1) < 0)
        strcpy(l->host, "localhost");
    r = l->data_dir && l->store_dir && l->ca && l->program && l->sandbox && l->secrets ? 0 : pl_err_nomem(err);
    if (r == 0 && !pl_streq(l->sandbox, "bwrap") && !pl_streq(l->sandbox, "none"))
        r = pl_err_set(err, PL_EINVAL, "--sandbox \"%s\": use bwrap or none", l->sandbox);
    if (r == 0 && access(l->program, X_OK) != 0)
        r = pl_err_set(err, PL_ENOTFOUND, "the agent %s is missing: install pipelined-worker next to pipelined", l->program);
    if (r == 0 && pl_streq(l->sandbox, "bwrap"))
        r = pl_sandbox_probe(l->program, err);
    r = r < 0 ? r : pl_timer_create(l->loop, "workers.grace", grace_over, l, &l->grace, err);
    r = r < 0 ? r : pl_timer_create(l->loop, "workers.log", bound_log, l, &l->log_timer, err);
    r = r < 0 ? r : pl_orphan_sandbox_create(&left, &l->left, err);
    r = r < 0 ? r : pl_gpu_slots_create(config->gpus, &l->gpus, err);
    r = r < 0 ? r : pl_worker_limits_open(l->data_dir, &l->limits, err);
    if (r < 0) {
        local_destroy(&l->base);
        return r;
    }
    bound_log(l);
    *ret = &l->base;
    return 0;
}
