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
#include "pipelined/exec/local/work_sweep.h"
#include "pipelined/exec/local/worker_check.h"
#include "pipelined/exec/local/worker_command.h"
#include "pipelined/exec/local/worker_env.h"
#include "pipelined/exec/local/worker_image.h"
#include "pipelined/exec/local/worker_limits.h"
#include "pipelined/exec/local/workers_log.h"

#include "pipelined/policy/policy.h"
#include "storage/base/map.h"
#include "storage/system/file_users.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/program_run.h"
#include "storage/system/thread_pool.h"
#include "storage/system/trace.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <uv.h>

struct local {
    struct pl_executor base;
    struct pl_loop *loop;
    struct pl_executor_events events;
    char *data_dir, *store_dir, *ca, *program, *sandbox, *podman, *cache, *secrets; /* `secrets` is the path of DIR/secrets */
    struct pl_gpu_slots *gpus;
    struct pl_worker_limits *limits;
    struct pl_worker_images *images;
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
    int held;                          /* reading end of the pipe <id>.held; −1 = none */
    uv_poll_t *held_watch;             /* set after the agent has ended while processes of its command still hold the pipe */
    char end[64];                      /* how the agent ended */
    bool stray;                        /* the worker is not on record: wait for its end, but do not report it */
    struct pl_worker_command *command; /* while the worker waits for its image; else NULL */
    const struct pl_stage *def;        /* of a worker that has, or waits for, an image */
    struct pl_worker_image_wait image;
    struct pl_loop_work said; /* work item that says so; it runs before `gone` of the same worker */
    char *no_image;           /* why there is no image */
    bool hopeless;            /* … and there will be none */
    struct pl_loop_work gone; /* work item that reports the worker's end in a later loop turn */
};

static struct pl_worker_check_config check_config(const struct local *l)
{
    return (struct pl_worker_check_config){.sandbox = l->sandbox, .gpus = l->gpus, .limits = l->limits, .images = l->images};
}

static void closed(uv_handle_t *h)
{
    free(h);
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

static void swept(void *arg)
{
    struct local *l = arg;

    l->sweeping--;
    all_gone(l);
}

static void held_path(const struct local *l, uint64_t id, char out[4200])
{
    snprintf(out, 4200, "%s/work/%llu.held", l->data_dir, (unsigned long long)id);
}

static void sweep_work(struct local *l, uint64_t id)
{
    char path[4200], cgroup[PL_CGROUP_PATH];

    held_path(l, id, path);
    (void)unlink(path);
    path[strlen(path) - strlen(".held")] = '\0';
    l->sweeping += pl_work_sweep(l->loop, path, pl_worker_limits_cgroup(l->limits, id, cgroup), swept, l);
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
    free(w->command);
    free(w->no_image);
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
    int r;

    if (held < 0)
        return held;
    o.fds[0] = -1;
    o.fds[1] = o.fds[2] = log;
    o.fds[3] = held;
    r = pl_child_spawn(l->loop, &o, on_child_exit, w, &w->child, err);
    if (r < 0)
        return r;
    w->pid = pl_child_pid(w->child);
    pl_trace("exec/local", "worker %llu: process %lld", (unsigned long long)w->id, (long long)w->pid);
    l->events.started(l->events.self, w->id, l->host, w->pid, pl_program_start(w->pid));
    return 0;
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

/* ---- image of a worker ---- */

/* Says what the worker waits for, in a turn after its start. */
static void say_image(void *arg)
{
    struct worker *w = arg;
    char text[512];

    if (!w->command)
        return;
    snprintf(text, sizeof text, "getting image %.400s", w->def->image);
    w->local->events.waits(w->local->events.self, w->id, text);
}

/* Ends a worker that has no image, in a turn after the last that knows of it. */
static void report_no_image(void *arg)
{
    struct worker *w = arg;
    struct local *l = w->local;
    const uint64_t id = w->id;
    const bool hopeless = w->hopeless;
    _cleanup_free_ char *why = TAKE_PTR(w->no_image);

    drop(w);
    sweep_work(l, id);
    l->events.exited(l->events.self, id, &(struct pl_executor_end){.text = why ? why : "out of memory", .hopeless = hopeless});
    all_gone(l);
}

static void on_image(void *self, const char *image, const char *why, bool hopeless)
{
    struct worker *w = self;
    struct local *l = w->local;
    _cleanup_free_ struct pl_worker_command *c = TAKE_PTR(w->command);
    struct pl_err err = {0};

    if (image) {
        pl_worker_command_image(c, image);
        if (spawn(l, w, c, &err) == 0) {
            l->events.placed(l->events.self, w->id, l->host, true); /* from now on it must attach in time */
            return;
        }
        why = err.msg;
    }
    w->hopeless = hopeless;
    w->no_image = strdup(why);
    pl_loop_post_work(l->loop, &w->gone, "worker.gone", report_no_image, w);
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

    const struct pl_worker_check_config check = check_config(l);
    const bool in_image = pl_worker_uses_image(&check, spec->def);

    if (r == 0 && !in_image) {
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
    if (r == 0 && in_image) {
        w->def = spec->def;
        w->image = (struct pl_worker_image_wait){.done = on_image, .self = w};
        r = pl_worker_images_get(l->images, spec->def, &w->image, err);
        w->command = r < 0 ? NULL : TAKE_PTR(c);
        if (r == 0)
            pl_loop_post_work(l->loop, &w->said, "worker.image", say_image, w);
    } else if (r == 0) {
        r = spawn(l, w, c, err);
    }
    if (r < 0) {
        sweep_work(l, spec->id);
        drop(w);
        return pl_err_wrap(err, r, "worker of stage %s", spec->stage);
    }
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

/* Ends a worker that waits for its image. */
static void leave_image(struct worker *w)
{
    pl_worker_images_leave(w->local->images, &w->image);
    free(TAKE_PTR(w->command));
    report_later(w->local, w);
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
    if (w->command)
        leave_image(w);
    else
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
    if (w->pidfd >= 0 && pl_program_start((pid_t)pid) != pid_start)
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

static void local_capacity(struct pl_executor *x, struct pl_executor_capacity *ret)
{
    struct local *l = (struct local *)x;

    *ret = (struct pl_executor_capacity){.cpu_milli = (uint64_t)pl_cores() * 1000,
                                         .memory_bytes = pl_worker_machine_memory(),
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

    return pl_worker_env_json(l->host, l->sandbox, l->podman);
}

static bool local_runs_image(struct pl_executor *x, const struct pl_stage *def)
{
    const struct pl_worker_check_config c = check_config((struct local *)x);

    return pl_worker_uses_image(&c, def);
}

static int local_check(struct pl_executor *x, const char *project, const struct pl_stage *def, bool gpu,
                       struct pl_executor_check *ret, struct pl_err *err)
{
    const struct pl_worker_check_config c = check_config((struct local *)x);

    (void)project;
    return pl_worker_check(&c, def, gpu, ret, err);
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
    const struct pl_map_slot *slot;

    l->closing = true;
    pl_timer_stop(l->log_timer);
    l->done = done;
    l->done_arg = arg;
    kill_strays(l); /* one that was only forked at the start was not found then */
    drop_strays(l);
    for (size_t i = 0; (slot = pl_map_next(&l->workers, &i));) {
        struct worker *w = slot->value;

        if (w->command)
            leave_image(w);
    }
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
    pl_worker_images_destroy(l->images);
    pl_gpu_slots_destroy(l->gpus);
    pl_worker_limits_close(l->limits);
    free(l->data_dir);
    free(l->store_dir);
    free(l->ca);
    free(l->program);
    free(l->sandbox);
    free(l->podman);
    free(l->cache);
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
                                                 .runs_image = local_runs_image,
                                                 .limits = local_limits,
                                                 .sandbox = local_sandbox,
                                                 .shutdown = local_shutdown,
                                                 .destroy = local_destroy};

/* Copies the configuration. */
static int copy_config(struct local *l, const struct pl_exec_local_config *config, struct pl_err *err)
{
    char beside[PATH_MAX] = "";
    int r = config->program ? 0 : pl_program_beside("pipelined-worker", beside, err);

    if (r < 0)
        return r;
    l->loop = config->loop;
    l->events = config->events;
    l->data_dir = strdup(config->data_dir);
    l->store_dir = strdup(config->store_dir);
    l->ca = strdup(config->ca ? config->ca : "");
    l->program = strdup(config->program ? config->program : beside);
    l->sandbox = strdup(config->sandbox);
    l->podman = strdup(config->podman ? config->podman : "");
    if (asprintf(&l->secrets, "%s/secrets", config->data_dir) < 0)
        l->secrets = NULL;
    if (asprintf(&l->cache, "%s/cache", config->data_dir) < 0)
        l->cache = NULL;
    return l->data_dir && l->store_dir && l->ca && l->program && l->sandbox && l->podman && l->cache && l->secrets
               ? 0
               : pl_err_nomem(err);
}

/* Checks the sandbox, and opens GPUs, cgroups and workers.log. */
int pl_exec_local_create(const struct pl_exec_local_config *config, struct pl_executor **ret, struct pl_err *err)
{
    struct local *l = calloc(1, sizeof *l);
    const struct pl_orphan_sandbox_config left = {.loop = config->loop, .next = next_left, .rests = none_looked_for, .self = l};
    int r;

    if (!l)
        return pl_err_nomem(err);
    l->base.ops = &local_ops;
    if (gethostname(l->host, sizeof l->host - 1) < 0)
        strcpy(l->host, "localhost");
    r = copy_config(l, config, err);
    if (r == 0 && !pl_streq(l->sandbox, "bwrap") && !pl_streq(l->sandbox, "none"))
        r = pl_err_set(err, PL_EINVAL, "--sandbox \"%s\": use bwrap or none", l->sandbox);
    if (r == 0 && pl_streq(l->sandbox, "bwrap"))
        r = pl_sandbox_probe(l->program, err);
    r = r < 0 ? r : pl_timer_create(l->loop, "workers.grace", grace_over, l, &l->grace, err);
    r = r < 0 ? r : pl_timer_create(l->loop, "workers.log", bound_log, l, &l->log_timer, err);
    r = r < 0 ? r : pl_orphan_sandbox_create(&left, &l->left, err);
    r = r < 0 ? r : pl_gpu_slots_create(config->gpus, &l->gpus, err);
    r = r < 0 ? r : pl_worker_images_create(l->loop, l->program, l->podman, l->cache, &l->images, err);
    r = r < 0 ? r : pl_worker_limits_open(l->data_dir, &l->limits, err);
    if (r < 0) {
        local_destroy(&l->base);
        return r;
    }
    bound_log(l);
    *ret = &l->base;
    return 0;
}
