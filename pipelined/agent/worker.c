#include "pipelined/agent/worker.h"

#include "pipelined/agent/datum.h"
#include "pl_agent_py.h"
#include "storage/base/clock.h"
#include "storage/base/io.h"
#include "storage/base/log.h"
#include "storage/pack/store.h"
#include <fcntl.h>
#include <stdio.h>

#define DRAIN_MS     5000
#define DRAIN_END_MS 1000

struct pl_worker {
    struct pl_worker_config config;
    atomic_bool stopping;
    struct pl_uplink *uplink;
    struct pl_lease *lease;
    struct pl_outlog *outlog;
    struct pl_wire_attach stage;
    struct pl_sandbox_config sandbox;
    struct pl_sandbox_paths paths;
    struct pl_outputs_store store;
    struct pl_datum_context context;
    char checkpoint[4200]; /* WORK/checkpoint */
};

static void on_lease_change(void *self)
{
    struct pl_worker *w = self;

    pl_runner_client_wake(w->context.runner);
}

static int create_link(struct pl_worker *w, struct pl_err *err)
{
    const struct pl_uplink_config uplink = {.url = w->config.url,
                                            .url_file = w->config.url_file,
                                            .token = w->config.token,
                                            .store_dir = w->config.store_dir,
                                            .stopping = &w->stopping};

    return w->config.alone && !w->config.url ? 0 : pl_uplink_create(&uplink, &w->uplink, err);
}

static int create_lease(struct pl_worker *w, struct pl_err *err)
{
    const struct pl_lease_config lease = {.link = w->uplink,
                                          .worker = w->config.name,
                                          .incarnation = w->config.incarnation,
                                          .wake = on_lease_change,
                                          .wake_self = w};
    int r;

    if (w->config.alone)
        return pl_outlog_create_print(STDOUT_FILENO, &w->outlog, err);
    r = pl_lease_create(&lease, &w->lease, err);
    return r < 0 ? r : pl_outlog_create(w->uplink, w->lease, w->config.name, &w->stopping, &w->outlog, err);
}

int pl_worker_create(const struct pl_worker_config *config, struct pl_worker **ret, struct pl_err *err)
{
    struct pl_worker *w = calloc(1, sizeof(*w));
    int r;

    if (!w)
        return pl_err_nomem(err);
    w->config = *config;
    w->context.out_fd = -1;
    r = pl_runner_client_create(&w->sandbox, &w->context.runner, err);
    if (r == 0)
        r = create_link(w, err);
    if (r == 0)
        r = create_lease(w, err);
    if (r < 0) {
        pl_worker_destroy(w);
        return r;
    }
    *ret = w;
    return 0;
}

void pl_worker_stop(struct pl_worker *w)
{
    atomic_store(&w->stopping, true);
    if (w->uplink)
        pl_uplink_wake(w->uplink);
    pl_runner_client_wake(w->context.runner);
}

struct pl_worker *pl_worker_destroy(struct pl_worker *w)
{
    struct pl_err err = {0};

    if (!w)
        return NULL;
    if (w->context.runner)
        pl_runner_client_stop(w->context.runner); /* first of all: no process is left */
    w->context.batch = pl_batch_destroy(w->context.batch);
    pl_outlog_destroy(w->outlog);
    pl_checkpoint_destroy(w->context.checkpoint);
    pl_lease_destroy(w->lease); /* its thread wakes the runner's client */
    w->context.runner = pl_runner_client_destroy(w->context.runner);
    pl_outputs_drop(&w->store);
    pl_inputs_destroy(w->context.inputs);
    pl_env_destroy(w->context.env);
    pl_gpu_meter_destroy(w->context.gpu);
    pl_uplink_destroy(w->uplink);
    pl_wire_attach_finish(&w->stage);
    pl_closep(&w->context.out_fd);
    if (w->sandbox.work && pl_sandbox_remove_folders(&w->sandbox, &err) < 0)
        pl_log_warn("worker", "work folder: %s", err.msg);
    free(w);
    return NULL;
}

static void configure_sandbox(struct pl_worker *w)
{
    w->sandbox = (struct pl_sandbox_config){
        .mode = w->config.sandbox,
        .work = w->config.work,
        .runner = w->config.runner,
        .next = w->config.next,
        .batch = w->stage.batch,
        .extra_ro = w->config.extra_ro,
        .has_code = w->stage.code_root != NULL,
        .has_script = w->stage.script != NULL,
        .has_stdin = w->stage.stdin_text != NULL,
        .has_checkpoint = w->stage.checkpoint_ms > 0,
        .writable = w->stage.writable,
        .no_network = w->stage.no_network,
        .shm_bytes = w->stage.shm_bytes > 0 ? (uint64_t)w->stage.shm_bytes : 0,
        .held_fd = w->config.held_fd,
        .n_gpus = w->stage.has_gpus ? w->stage.n_gpus : w->config.n_gpus,
    };
    memcpy(w->sandbox.gpus, w->stage.has_gpus ? w->stage.gpus : w->config.gpus, sizeof(w->sandbox.gpus));
    pl_gpu_uuids(w->sandbox.gpus, w->sandbox.n_gpus, w->sandbox.gpu_uuids);
}

static int put_code_and_script(struct pl_worker *w, struct pl_err *err)
{
    char path[4200];
    struct pl_hash root;
    int r = 0;

    if (w->stage.code_root) {
        snprintf(path, sizeof(path), "%s/code", w->config.work);
        r = pl_hash_parse(w->stage.code_root, &root, err);
        if (r == 0)
            r = pl_inputs_code(w->context.inputs, &root, path, err);
    }
    if (r == 0 && w->stage.script) {
        snprintf(path, sizeof(path), "%s/script", w->config.work);
        r = pl_io_write_file(path, w->stage.script, strlen(w->stage.script), 0555, err);
    }
    if (r == 0 && w->stage.stdin_text) {
        snprintf(path, sizeof(path), "%s/stdin", w->config.work);
        r = pl_io_write_file(path, w->stage.stdin_text, strlen(w->stage.stdin_text), 0444, err);
    }
    snprintf(path, sizeof(path), "%s/bin/py/%s", w->config.work, pl_agent_py_files[0].name);
    return r < 0 ? r : pl_io_write_file(path, pl_agent_py_files[0].data, pl_agent_py_files[0].size, 0444, err);
}

/* Of a worker alone: what its own store lacks is the daemon's. */
static int read_own_first(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_worker *w = self;
    const struct pl_chunk_reader own = pl_store_chunk_reader(w->config.alone);
    struct pl_chunk_reader daemon;

    if (!w->uplink || pl_store_has(w->config.alone, id))
        return own.get(own.self, id, kind, ret, err);
    daemon = pl_uplink_reader(w->uplink);
    return daemon.get(daemon.self, id, kind, ret, err);
}

struct pl_chunk_reader pl_worker_reader(struct pl_worker *w)
{
    return w->config.alone ? (struct pl_chunk_reader){.self = w, .get = read_own_first} : pl_uplink_reader(w->uplink);
}

static int set_up(struct pl_worker *w, struct pl_err *err)
{
    struct pl_inputs_config inputs = {.reader = pl_worker_reader(w),
                                      .uplink = w->uplink,
                                      .work = w->config.work,
                                      .cache = w->config.cache,
                                      .read_only = w->config.sandbox == PL_SANDBOX_BWRAP};
    char out[4200];
    int r;

    configure_sandbox(w);
    r = pl_sandbox_paths(&w->sandbox, &w->paths, err);
    if (r == 0)
        r = pl_sandbox_make_folders(&w->sandbox, err);
    if (r == 0 && w->uplink)
        r = pl_uplink_open_store(w->uplink, w->stage.project, err);
    if (r == 0)
        r = pl_inputs_create(&inputs, &w->context.inputs, err);
    if (r == 0)
        r = put_code_and_script(w, err);
    if (r == 0)
        r = pl_env_create(&w->stage, &w->sandbox, &w->paths, &w->context.env, err);
    if (r == 0 && w->stage.batch)
        r = pl_batch_create(w->context.runner, &w->sandbox, &w->paths, w->context.env, &w->context.batch, err);
    if (r == 0)
        r = pl_runner_client_start(w->context.runner, err);
    if (r < 0)
        return r;
    snprintf(out, sizeof(out), "%s/pfs/out", w->config.work);
    w->context.out_fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->context.out_fd < 0)
        return pl_err_errno(err, errno, "%s", out);
    w->store = (struct pl_outputs_store){.sink = w->config.alone ? pl_store_sink(w->config.alone) : pl_uplink_sink(w->uplink),
                                         .project = w->stage.project};
    if (w->stage.checkpoint_ms > 0 && !w->config.alone) {
        const struct pl_checkpoint_config checkpoint = {.link = w->uplink,
                                                        .worker = w->config.name,
                                                        .project = w->stage.project,
                                                        .folder = w->checkpoint,
                                                        .every_ms = w->stage.checkpoint_ms};

        snprintf(w->checkpoint, sizeof(w->checkpoint), "%s/checkpoint", w->config.work);
        r = pl_checkpoint_create(&checkpoint, &w->context.checkpoint, err);
        if (r < 0)
            return r;
    }
    w->context.stage = &w->stage;
    w->context.sandbox = &w->sandbox;
    w->context.paths = &w->paths;
    w->context.store = &w->store;
    w->context.lease = w->lease;
    w->context.outlog = w->outlog;
    w->context.stopping = &w->stopping;
    w->context.gpu = pl_gpu_meter_create(w->sandbox.gpus, w->sandbox.n_gpus);
    return 0;
}

/* The runner was lost under a command: that attempt failed, the next one gets a new sandbox. */
static int restart_runner(struct pl_worker *w, struct pl_wire_outcome *o, const struct pl_err *why, struct pl_err *err)
{
    pl_log_warn("worker", "row %u: %s; starting the sandbox again", o->index, why->msg);
    o->success = false;
    snprintf(o->reason, sizeof(o->reason), "the sandbox ended under the command: %.900s", why->msg);
    return pl_runner_client_start(w->context.runner, err);
}

/* Outputs that could not be uploaded are none: their rows are given back, or carry the reason when trying again is of no use. */
static void upload_failed(struct pl_wire_outcome *outcomes, size_t n, int code, const struct pl_err *why)
{
    for (size_t i = 0; i < n; i++) {
        struct pl_wire_outcome *o = &outcomes[i];
        if (!o->success || (o->ops && o->ops_len <= PL_WIRE_EMPTY_OPS))
            continue;
        o->success = false;
        o->gave_back = pl_uplink_not_the_commands(code);
        snprintf(o->reason, sizeof(o->reason), "output: upload: %.900s", why->msg);
    }
    pl_log_warn("worker", "upload: %s", why->msg);
}

static int run_task(struct pl_worker *w, const struct pl_wire_task *task, struct pl_wire_outcome *outcomes, int64_t wait_ms,
                    struct pl_err *err)
{
    struct pl_err why = {0};
    int64_t start_ms;
    int r = 0;

    w->context.oom_seen = pl_datum_oom_count();
    pl_inputs_prepare(w->context.inputs, task);
    for (size_t i = 0; r == 0 && i < task->n_rows; i++) {
        r = pl_datum_run(&w->context, task, &task->rows[i], &outcomes[i], &why);
        if (r < 0 && !pl_runner_client_up(w->context.runner))
            r = restart_runner(w, &outcomes[i], &why, err);
        else if (r < 0 && err)
            *err = why;
    }
    if (r < 0)
        return r;
    outcomes[0].wait_ms = wait_ms;
    start_ms = pl_clock_mono_ms();
    r = pl_outputs_flush(&w->store, &why);
    if (r < 0)
        upload_failed(outcomes, task->n_rows, r, &why);
    outcomes[task->n_rows - 1].upload_ms += pl_clock_mono_ms() - start_ms;
    pl_outlog_drain(w->outlog, DRAIN_MS, true);
    return 0;
}

/* What the worker holds between two calls of next. */
struct held {
    struct pl_wire_task task;
    struct pl_wire_outcome *outcomes; /* NULL: nothing */
};

static void held_finish(struct held *h)
{
    for (size_t i = 0; h->outcomes && i < h->task.n_rows; i++)
        pl_wire_outcome_finish(&h->outcomes[i]);
    free(h->outcomes);
    pl_wire_task_finish(&h->task);
    *h = (struct held){0};
}

static bool told_to_end(struct pl_worker *w)
{
    return atomic_load(&w->stopping) || pl_lease_wants(w->lease, UINT32_MAX) == PL_LEASE_STOP;
}

/* One round: hand in, get a task, run it. 1: go on; 0: the end. */
static int turn(struct pl_worker *w, struct held *h, struct pl_err *err)
{
    const int64_t start_ms = pl_clock_mono_ms();
    const bool leaving = told_to_end(w);
    struct pl_wire_task task = {0};
    enum pl_wire_next_kind kind;
    int r;

    if (leaving && !h->outcomes)
        return 0;
    r = pl_lease_next(w->lease, h->outcomes, h->task.n_rows, leaving, &kind, &task, err);
    if (r == PL_ECANCELED && !leaving)
        return 1; /* told to end meanwhile: what is held is handed in by the next round */
    held_finish(h);
    if (r < 0)
        return r;
    if (kind != PL_WIRE_TASK)
        return kind == PL_WIRE_IDLE && !leaving;
    h->task = task;
    h->outcomes = calloc(task.n_rows, sizeof(*h->outcomes));
    if (!h->outcomes)
        return pl_err_nomem(err);
    r = run_task(w, &h->task, h->outcomes, pl_clock_mono_ms() - start_ms, err);
    return r < 0 ? r : 1;
}

int pl_worker_run(struct pl_worker *w, struct pl_err *err)
{
    struct held held = {0};
    int r = pl_lease_attach(w->lease, &w->stage, err);

    if (r == 0) {
        r = set_up(w, err);
        if (r < 0)
            pl_err_wrap(err, r, "worker of stage %s", w->stage.stage);
    }
    if (r == 0) {
        pl_log_info("worker", "stage %s: ready (%s, %zu GPUs)", w->stage.stage,
                    w->sandbox.mode == PL_SANDBOX_BWRAP ? "bubblewrap" : "no sandbox", w->sandbox.n_gpus);
        r = 1;
    }
    while (r > 0)
        r = turn(w, &held, err);
    held_finish(&held);
    if (w->context.batch)
        pl_batch_leave(w->context.batch);
    pl_outlog_drain(w->outlog, DRAIN_END_MS, false);
    return told_to_end(w) && r == PL_ECANCELED ? 0 : r;
}

int pl_worker_run_alone(struct pl_worker *w, struct pl_wire_attach *stage, const struct pl_wire_task *task,
                        int (*by_hand)(const struct pl_datum_context *c, const char *const *env, const char *cwd,
                                       struct pl_wire_outcome *o, struct pl_err *err),
                        struct pl_wire_outcome *outcomes, struct pl_err *err)
{
    int r;

    w->stage = *stage;
    *stage = (struct pl_wire_attach){0};
    w->context.by_hand = by_hand;
    r = set_up(w, err);
    if (r < 0)
        return pl_err_wrap(err, r, "stage %s", w->stage.stage);
    r = run_task(w, task, outcomes, 0, err);
    if (w->context.batch)
        pl_batch_leave(w->context.batch);
    return r;
}
