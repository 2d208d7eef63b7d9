/* Sets up the objects of a worker and runs the three loops: fetch and upload on threads of their own, compute
 * on the caller's thread. */
#include "pipelined/agent/worker/worker.h"

#include "pipelined/agent/worker/datum_attempt.h"
#include "pipelined/agent/worker/datum_flow.h"
#include "pl_agent_py.h"
#include "storage/base/clock.h"
#include "storage/store/store.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include <pthread.h>
#include <stdio.h>

/* maximum wait in ms until command output was sent: before a result is handed in, and at the worker's end */
#define DRAIN_MS     5000
#define DRAIN_END_MS 1000
/* interval in ms at which the upload thread looks for something to do */
#define UPLOAD_LOOK_MS 5000

struct pl_worker {
    struct pl_worker_config config;
    atomic_bool stopping;
    struct pl_uplink *uplink;
    struct pl_lease *lease;
    struct pl_outlog *outlog;
    struct pl_agent_protocol_attach stage;
    struct pl_sandbox_config sandbox;
    struct pl_sandbox_paths paths;
    struct pl_outputs_store store;
    struct pl_datum_context context;
    struct pl_flow *flow;
    /* users of the connection for the fetch and upload threads; their callbacks use the next two fields */
    struct pl_uplink_user fetcher, uploader;
    /* datum being fetched; NULL = the fetch belongs to no lease */
    const struct pl_datum_flow_item *fetching;
    /* task being uploaded; NULL = the upload belongs to no lease */
    const struct pl_agent_protocol_lease *uploading;
    bool sandbox_lost;      /* something outside the worker ended the sandbox */
    uint64_t fetched_bytes; /* bytes of the inputs of the datum fetched last */
    /* the inputs of the datum fetched last are complete; false = the datum is given back */
    bool fetched;
    char checkpoint[4200]; /* path of WORK/checkpoint */
};

/* Called when the daemon took back a task or a datum: wakes the threads of this worker that wait, so that
 * they check their leases. */
static void on_lease_change(void *self)
{
    struct pl_worker *w = self;

    if (pl_task_lease_stops(w->lease))
        pl_worker_stop(w); /* also ends the request for the next task */
    else
        pl_runner_client_wake(w->context.runner);
    pl_uplink_interrupt(w->uplink);
}

static bool is_fetch_wanted(void *self)
{
    const struct pl_worker *w = self;
    const struct pl_datum_flow_item *row = w->fetching;

    return !row || pl_task_lease_wants(w->lease, &row->task->task.lease, row->row->index) == PL_TASK_LEASE_GO_ON;
}

/* True if the upload is still wanted. A worker that was told to stop still uploads what was computed. */
static bool is_upload_wanted(void *self)
{
    const struct pl_worker *w = self;

    return !w->uploading || pl_task_lease_holds(w->lease, w->uploading);
}

static uint32_t *on_recall(void *self, const struct pl_agent_protocol_lease *task, size_t *ret_n, bool *ret_whole)
{
    struct pl_worker *w = self;

    return pl_datum_flow_recall(w->flow, task, ret_n, ret_whole);
}

static int create_link(struct pl_worker *w, struct pl_err *err)
{
    const struct pl_daemon_client_config uplink = {.url = w->config.url,
                                                   .url_file = w->config.url_file,
                                                   .token = w->config.token,
                                                   .store_dir = w->config.store_dir,
                                                   .ca = w->config.ca,
                                                   .remedy = w->config.sandbox == PL_SANDBOX_POD ? PL_WORKER_POD_REMEDY : NULL,
                                                   .stopping = &w->stopping};

    return w->config.alone && !w->config.url ? 0 : pl_daemon_client_create(&uplink, &w->uplink, err);
}

static int create_lease(struct pl_worker *w, struct pl_err *err)
{
    const struct pl_task_lease_config lease = {.link = w->uplink,
                                               .worker = w->config.name,
                                               .incarnation = w->config.incarnation,
                                               .image = w->config.image ? w->config.image->digest : NULL,
                                               .wake = on_lease_change,
                                               .recall = on_recall,
                                               .self = w};
    int r;

    if (w->config.alone)
        return pl_output_log_create_print(STDOUT_FILENO, &w->outlog, err);
    r = pl_task_lease_create(&lease, &w->lease, err);
    return r < 0 ? r : pl_output_log_create(w->uplink, w->lease, w->config.name, &w->stopping, &w->outlog, err);
}

int pl_worker_create(const struct pl_worker_config *config, struct pl_worker **ret, struct pl_err *err)
{
    struct pl_worker *w = calloc(1, sizeof(*w));
    int r;

    if (!w)
        return pl_err_nomem(err);
    w->config = *config;
    w->context.out.fd = -1;
    r = pl_runner_client_create(&w->sandbox, &w->context.runner, err);
    if (r == 0)
        r = pl_datum_flow_create(&w->flow, err);
    if (r == 0)
        r = create_link(w, err);
    w->fetcher = (struct pl_uplink_user){.link = w->uplink, .first = config->alone, .wanted = is_fetch_wanted, .self = w};
    w->uploader = (struct pl_uplink_user){.link = w->uplink, .first = config->alone, .wanted = is_upload_wanted, .self = w};
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
        pl_daemon_client_wake(w->uplink);
    pl_runner_client_wake(w->context.runner);
}

struct pl_worker *pl_worker_destroy(struct pl_worker *w)
{
    struct pl_err err = {0};

    if (!w)
        return NULL;
    if (w->context.runner)
        /* stop the runner first, so that no process of the command is left */
        pl_runner_client_stop(w->context.runner);
    w->context.batch = pl_batch_destroy(w->context.batch);
    pl_output_log_destroy(w->outlog);
    pl_checkpoint_destroy(w->context.checkpoint);
    /* end the lease's thread before the runner client is freed, because that thread wakes the client */
    pl_task_lease_destroy(w->lease);
    w->context.runner = pl_runner_client_destroy(w->context.runner);
    w->flow = pl_datum_flow_destroy(w->flow);
    pl_outputs_drop(&w->store);
    if (w->context.inputs)
        pl_inputs_keep(w->context.inputs);
    pl_inputs_destroy(w->context.inputs);
    pl_input_references_finish(&w->context.refs);
    pl_env_destroy(w->context.env);
    pl_secrets_destroy(w->context.secrets);
    pl_gpu_meter_destroy(w->context.gpu);
    pl_early_upload_destroy(w->context.early);
    pl_daemon_client_destroy(w->uplink);
    pl_agent_protocol_attach_finish(&w->stage);
    pl_out_folder_close(&w->context.out);
    if (w->sandbox.work && pl_sandbox_remove_folders(&w->sandbox, &err) < 0)
        pl_log_warn("worker", "cannot remove the work folder: %s", err.msg);
    free(w);
    return NULL;
}

/* Makes the sandbox's configuration from the worker's and the stage's. */
static void configure_sandbox(struct pl_worker *w)
{
    w->sandbox = (struct pl_sandbox_config){
        .mode = w->config.sandbox,
        .work = w->config.work,
        .runner = w->config.runner,
        .next = w->config.next,
        .batch = w->stage.batch,
        .environment = w->stage.environment,
        .makes_environment = w->stage.makes_environment,
        .extra_ro = w->config.extra_ro,
        .python = w->config.sandbox == PL_SANDBOX_POD || w->config.image ? NULL : w->stage.python,
        .image = w->config.image,
        .has_code = w->stage.code_root != NULL,
        .has_script = w->stage.script != NULL,
        .has_stdin = w->stage.stdin_text != NULL,
        .has_checkpoint = w->stage.checkpoint_ms > 0,
        .writable = w->stage.writable,
        .secrets = w->config.secrets,
        .secret_uses = w->stage.secrets,
        .n_secrets = w->config.secrets ? w->stage.n_secrets : 0,
        .no_network = w->stage.no_network,
        .shm_bytes = w->stage.shm_bytes > 0 ? (uint64_t)w->stage.shm_bytes : 0,
        .cgroup = w->config.cgroup,
        .held_fd = w->config.held_fd,
        .n_gpus = w->stage.has_gpus ? w->stage.n_gpus : w->config.n_gpus,
    };
    memcpy(w->sandbox.gpus, w->stage.has_gpus ? w->stage.gpus : w->config.gpus, sizeof(w->sandbox.gpus));
    pl_gpu_uuids(w->sandbox.gpus, w->sandbox.n_gpus, w->sandbox.gpu_uuids);
}

/* A try says at once which program is missing. For a daemon's worker the daemon has checked that; a shell needs only the
 * stage's Python. */
static int check_programs(const struct pl_worker *w, struct pl_err *err)
{
    const struct pl_sandbox_view view = pl_sandbox_view_of(&w->sandbox);
    struct pl_sandbox_stage stage = {.python = w->stage.python, .environment = w->stage.environment};

    if (!w->config.alone || w->sandbox.mode == PL_SANDBOX_POD)
        return 0;
    for (size_t i = 0; i < w->stage.n_env; i++)
        if (pl_streq(w->stage.env[i].key, "PATH"))
            stage.path = w->stage.env[i].value;
    if (!w->context.by_hand) {
        stage.run = (const char *const *)w->stage.run;
        stage.script = w->stage.script;
    }
    return pl_sandbox_view_stage(&view, &stage, err);
}

/* Writes the stage's code, script and standard input, and our Python files, into the work folder. */
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
        pl_sandbox_own_file(&w->sandbox, "script", path);
        r = pl_io_write_file(path, w->stage.script, strlen(w->stage.script), 0555, err);
    }
    if (r == 0 && w->stage.stdin_text) {
        pl_sandbox_own_file(&w->sandbox, "stdin", path);
        r = pl_io_write_file(path, w->stage.stdin_text, strlen(w->stage.stdin_text), 0444, err);
    }
    for (size_t i = 0; r == 0 && i < pl_agent_py_files_count; i++) {
        snprintf(path, sizeof(path), "%s/bin/py/%s", w->config.work, pl_agent_py_files[i].name);
        r = pl_io_write_file(path, pl_agent_py_files[i].data, pl_agent_py_files[i].size, 0444, err);
    }
    return r;
}

struct pl_chunk_reader pl_worker_reader(struct pl_worker *w)
{
    return pl_daemon_client_reader(&w->fetcher);
}

static int create_checkpoint(struct pl_worker *w, struct pl_err *err)
{
    const struct pl_checkpoint_config checkpoint = {.link = w->uplink,
                                                    .worker = w->config.name,
                                                    .project = w->stage.project,
                                                    .folder = w->checkpoint,
                                                    .every_ms = w->stage.checkpoint_ms};

    snprintf(w->checkpoint, sizeof(w->checkpoint), "%s/checkpoint", w->config.work);
    return pl_checkpoint_create(&checkpoint, &w->context.checkpoint, err);
}

static int create_early(struct pl_worker *w, struct pl_err *err)
{
    const struct pl_early_upload_config early = {.work = w->config.work,
                                                 .out_fd = w->context.out.fd,
                                                 .still_ms = w->config.early_ms,
                                                 .sink = w->store.sink,
                                                 .project = w->stage.project,
                                                 .stopping = &w->stopping};

    /* the files of an installer are moved and removed while it runs */
    if (w->config.alone || w->config.one_by_one || w->config.early_ms == 0 || w->stage.makes_environment)
        return 0;
    return pl_early_upload_create(&early, &w->context.early, err);
}

static int read_secrets(struct pl_worker *w, struct pl_err *err)
{
    if (w->stage.n_secrets == 0 || !w->config.secrets)
        return 0;
    return pl_secrets_read(w->config.secrets, &w->stage, pl_clock_mono_ms(), &w->context.secrets, err);
}

/* Prepares the work folder and starts the sandbox after attaching. */
static int set_up(struct pl_worker *w, struct pl_err *err)
{
    const struct pl_input_stores_config refs = {
        .project = w->stage.project,
        .reader = pl_daemon_client_reader(&w->uploader),
        .user = w->uplink ? &w->uploader : NULL,
    };
    struct pl_inputs_config inputs = {.reader = pl_worker_reader(w),
                                      .user = w->uplink ? &w->fetcher : NULL,
                                      .work = w->config.work,
                                      .cache = w->config.cache,
                                      .project = w->stage.project,
                                      .stage = w->stage.stage,
                                      .read_only = w->config.sandbox != PL_SANDBOX_NONE,
                                      .by_group = w->config.sandbox == PL_SANDBOX_POD,
                                      .checkpoint = w->stage.checkpoint_ms > 0 && !w->config.alone};
    /* in a pod the cluster gives the secrets to the container */
    const bool in_pod = w->config.sandbox == PL_SANDBOX_POD;
    int r;

    configure_sandbox(w);
    r = check_programs(w, err);
    if (r == 0)
        r = pl_sandbox_paths(&w->sandbox, &w->paths, err);
    if (r == 0)
        r = pl_sandbox_make_folders(&w->sandbox, err);
    if (r == 0 && w->uplink)
        r = pl_daemon_client_open_store(w->uplink, w->stage.project, err);
    if (r == 0)
        r = pl_inputs_create(&inputs, &w->context.inputs, err);
    if (r == 0)
        r = pl_input_references_init(&w->context.refs, &refs, err);
    if (r == 0)
        r = put_code_and_script(w, err);
    if (r == 0)
        r = read_secrets(w, err);
    if (r == 0)
        r = pl_env_create(&w->stage, &w->sandbox, &w->paths, in_pod ? NULL : w->context.secrets, &w->context.env, err);
    if (r == 0 && w->stage.batch)
        r = pl_batch_create(w->context.runner, &w->sandbox, &w->paths, w->context.env, &w->context.out, &w->context.batch, err);
    if (r == 0)
        r = pl_runner_client_start(w->context.runner, err);
    if (r < 0)
        return r;
    r = pl_out_folder_open(&w->context.out, w->config.work, err);
    if (r < 0)
        return r;
    w->store =
        (struct pl_outputs_store){.sink = w->config.alone ? pl_store_sink(w->config.alone) : pl_daemon_client_sink(&w->uploader),
                                  .project = w->stage.project};
    r = create_early(w, err);
    if (r == 0 && inputs.checkpoint)
        r = create_checkpoint(w, err);
    w->context.stage = &w->stage;
    w->context.sandbox = &w->sandbox;
    w->context.paths = &w->paths;
    w->context.store = &w->store;
    w->context.lease = w->lease;
    w->context.outlog = w->outlog;
    w->context.stopping = &w->stopping;
    w->context.gpu = pl_gpu_meter_create(w->sandbox.gpus, w->sandbox.n_gpus);
    return r;
}

static bool told_to_end(struct pl_worker *w)
{
    return atomic_load(&w->stopping) || pl_task_lease_stops(w->lease);
}

static void fail(struct pl_worker *w, int code, const struct pl_err *why)
{
    pl_datum_flow_fail(w->flow, code, why);
    pl_worker_stop(w);
}

/* ---- fetch ---- */

/* Requests the next task from the daemon. Returns 1 if there is one, 0 if there are no more. */
static int ask(struct pl_worker *w, struct pl_datum_flow_task **ret, struct pl_err *err)
{
    enum pl_agent_protocol_next_kind kind = PL_WIRE_IDLE;
    struct pl_agent_protocol_task task = {0};
    int64_t asked_ms = 0;
    int r = 0;

    while (r == 0 && kind == PL_WIRE_IDLE) {
        if (told_to_end(w))
            return 0;
        asked_ms = pl_clock_mono_ms();
        r = pl_task_lease_next(w->lease, &kind, &task, err);
    }
    if (r == PL_ECANCELED && told_to_end(w))
        return 0;
    if (r < 0 || kind == PL_WIRE_END)
        return r;
    r = pl_datum_flow_add(w->flow, &task, ret, err);
    if (r < 0)
        return r;
    (*ret)->asked_ms = asked_ms;
    (*ret)->got_ms = pl_clock_mono_ms();
    return 1;
}

static bool is_given_back(struct pl_worker *w, const struct pl_datum_flow_item *row)
{
    return atomic_load(&row->task->lost) || pl_datum_flow_given_back(w->flow, row);
}

/* Fetches the inputs of one datum and passes the datum on. When the disk is nearly full, waits until no other
 * datum is in progress. False: the flow has failed. */
static bool fetch_row(struct pl_worker *w, struct pl_datum_flow_item *row)
{
    const struct pl_agent_protocol_task *task = &row->task->task;
    const uint64_t left = pl_datum_disk_left(&w->context);
    bool alone = w->config.one_by_one || left < PL_DATUM_FLOW_FREE_BYTES;

    w->fetching = row;
    if (!alone && pl_datum_flow_is_full(w->flow) && left >= PL_DATUM_FLOW_FREE_BYTES + 2 * w->fetched_bytes &&
        !is_given_back(w, row))
        pl_datum_fetch_ahead(&w->context, task, row->row, row->outcome);
    if (!pl_datum_flow_wait_room(w->flow, alone))
        return false;
    alone = alone || !pl_datum_flow_busy(w->flow);
    row->outcome->gave_back = is_given_back(w, row);
    if (pl_datum_fetch(&w->context, task, row->row, alone, row->outcome) < 0) {
        if (!pl_datum_flow_wait_room(w->flow, true))
            return false;
        (void)!pl_datum_fetch(&w->context, task, row->row, true, row->outcome);
    }
    w->fetched_bytes = row->outcome->bytes_in;
    w->fetched = !row->outcome->gave_back;
    w->fetching = NULL;
    pl_datum_flow_fetched(w->flow, row);
    return true;
}

/* The fetch thread: requests tasks and fetches the inputs of their datums. */
static void *fetch_loop(void *arg)
{
    struct pl_worker *w = arg;
    struct pl_err err = {0};
    int r = 1;

    while (r > 0 && pl_datum_flow_may_ask(w->flow, w->config.one_by_one)) {
        struct pl_datum_flow_task *t;
        size_t n = 0;

        r = ask(w, &t, &err);
        if (r > 0) {
            /* a copy, because the task may be handed in and freed once its last datum is fetched */
            n = t->task.n_rows;
            w->fetching = t->rows;
            pl_inputs_prepare(w->context.inputs, &t->task);
        }
        for (size_t i = 0; r > 0 && i < n; i++)
            if (!fetch_row(w, &t->rows[i]))
                r = 0;
        /* the inputs are in place, so what they replaced can be removed */
        if (r > 0 && pl_datum_flow_wait_room(w->flow, false) && w->fetched)
            pl_inputs_trim(w->context.inputs);
    }
    if (r < 0)
        fail(w, r, &err);
    pl_datum_flow_close_input(w->flow);
    return NULL;
}

/* ---- compute ---- */

static void on_placed(void *self)
{
    struct pl_worker *w = self;

    pl_datum_flow_placed(w->flow);
}

/* Handles a runner that was lost while a command ran: something outside killed the sandbox, because the
 * command cannot. This does not count as an attempt at the datum. The worker hands in what was computed,
 * gives the rest back and ends. The daemon leases the datum again, at once after the first loss, then after a longer
 * delay each time, and at most PL_SCHED_LOSSES_MAX times. A worker without a daemon starts the sandbox again. */
static int restart_runner(struct pl_worker *w, struct pl_agent_protocol_outcome *o, const struct pl_err *why, struct pl_err *err)
{
    if (!w->config.alone) {
        pl_log_warn("worker", "datum in row %u: %s: something outside the worker ended the %s of the command", o->index, why->msg,
                    w->sandbox.mode == PL_SANDBOX_POD ? "container" : "sandbox");
        o->lost = true;
        w->sandbox_lost = true;
        pl_worker_stop(w);
        return 0;
    }
    pl_log_warn("worker", "datum in row %u: %s; starting the sandbox again", o->index, why->msg);
    o->success = false;
    snprintf(o->reason, sizeof(o->reason), "the sandbox ended while the command ran: %.900s", why->msg);
    return pl_runner_client_start(w->context.runner, err);
}

static void folder_path(const struct pl_worker *w, int folder, char out[4200])
{
    snprintf(out, 4200, "%s/done/%d", w->config.work, folder);
}

/* Moves the command's output to a folder of its own below WORK/done; waits until one of these folders is
 * free. */
static int take_output(struct pl_worker *w, struct pl_datum_flow_item *row, struct pl_err *err)
{
    char to[4200];
    int r;

    if (!pl_datum_flow_take_folder(w->flow, row))
        return 0; /* the flow has failed */
    folder_path(w, row->folder, to);
    r = pl_datum_take(&w->context, to, row->outcome);
    if (r > 0)
        return 0;
    pl_datum_flow_return_folder(w->flow, row);
    return r < 0 ? pl_err_set(err, PL_EIO, "the output folder cannot be emptied") : 0;
}

/* Assigns the worker's time since the previous datum was computed, or since the worker became idle, to this
 * datum. */
static void account(struct pl_worker *w, struct pl_datum_flow_item *row, int64_t began_ms)
{
    const struct pl_datum_flow_task *t = row->task;
    const bool first = row == t->rows;
    int64_t from_us;

    row->outcome->held_ms = (pl_datum_flow_held(w->flow, first ? t->asked_ms * 1000 : 0, &from_us) + 500) / 1000;
    if (first)
        row->outcome->wait_ms = PL_MAX(PL_MIN(t->got_ms, began_ms) - from_us / 1000, 0);
}

/* Computes one datum, and moves its output to WORK/done. */
static int compute_row(struct pl_worker *w, struct pl_datum_flow_item *row, struct pl_err *err)
{
    const int64_t began_ms = pl_clock_mono_ms();
    struct pl_err why = {0};
    int r;

    if (row == row->task->rows)
        w->context.oom_seen = pl_datum_oom_count();
    if (atomic_load(&row->task->lost) || row->given_back)
        row->outcome->gave_back = true;
    r = pl_datum_compute(&w->context, &row->task->task, row->row, on_placed, w, row->outcome, &why);
    if (r < 0 && !pl_runner_client_up(w->context.runner))
        r = restart_runner(w, row->outcome, &why, err);
    else if (r < 0 && err)
        *err = why;
    r = r < 0 ? r : take_output(w, row, err);
    account(w, row, began_ms);
    return r;
}

static void compute_loop(struct pl_worker *w)
{
    struct pl_datum_flow_item *row;
    struct pl_err err = {0};
    int r = 0;

    while (r == 0 && (row = pl_datum_flow_next(w->flow))) {
        r = compute_row(w, row, &err);
        if (r == 0)
            pl_datum_flow_computed(w->flow, row);
    }
    if (r < 0)
        fail(w, r, &err);
}

/* ---- upload ---- */

static int upload_row(struct pl_worker *w, struct pl_datum_flow_item *row, struct pl_err *err)
{
    char from[4200];
    int r;

    folder_path(w, row->folder, from);
    w->uploading = w->lease ? &row->task->task.lease : NULL;
    r = pl_datum_upload(&w->context, row->row, row->folder < 0 ? NULL : from, row->outcome);
    w->uploading = NULL;
    if (r < 0)
        atomic_store(&row->task->lost, true);
    r = row->folder < 0 ? 0 : pl_sandbox_clear(from, err);
    pl_datum_flow_uploaded(w->flow, row);
    return r;
}

/* Marks the outputs of a failed upload as not stored: their datums are given back if a later upload may
 * succeed, and otherwise fail with the reason. */
static void upload_failed(struct pl_agent_protocol_outcome *outcomes, size_t n, int code, const struct pl_err *why)
{
    for (size_t i = 0; i < n; i++) {
        struct pl_agent_protocol_outcome *o = &outcomes[i];
        if (!o->success || (o->ops && o->ops_len <= PL_AGENT_PROTOCOL_EMPTY_OPS))
            continue;
        o->success = false;
        o->gave_back = pl_daemon_client_is_transport_error(code);
        snprintf(o->reason, sizeof(o->reason), "output: cannot upload it: %.900s", why->msg);
    }
    pl_log_warn("worker", "cannot upload outputs: %s", why->msg);
}

static bool all_lost(const struct pl_datum_flow_task *t)
{
    for (size_t i = 0; i < t->task.n_rows; i++)
        if (!t->outcomes[i].lost)
            return false;
    return true;
}

/* Finishes a task whose datums have all been processed: makes their bytes durable, sends the remaining
 * command output, and hands the task in. */
static int finish_task(struct pl_worker *w, struct pl_datum_flow_task *t, struct pl_err *err)
{
    struct pl_agent_protocol_outcome *last = &t->outcomes[t->task.n_rows - 1];
    int64_t start_ms = pl_clock_mono_ms();
    struct pl_err why = {0};
    int r;

    w->uploading = &t->task.lease;
    r = pl_outputs_flush(&w->store, &why);
    w->uploading = NULL;
    if (r < 0 && pl_task_lease_holds(w->lease, &t->task.lease))
        upload_failed(t->outcomes, t->task.n_rows, r, &why);
    last->upload_ms += pl_clock_mono_ms() - start_ms;
    /* send the output before the task is handed in: afterwards the daemon accepts no more output of it */
    if (pl_task_lease_holds(w->lease, &t->task.lease))
        pl_output_log_drain(w->outlog, DRAIN_MS, true);
    last->held_ms += (pl_datum_flow_held_more(w->flow) + 500) / 1000;
    if (all_lost(t))
        r = 0; /* does not hand the task in: the daemon takes it back when this worker has ended */
    else
        r = pl_task_lease_hand_in(w->lease, &t->task.lease, t->outcomes, t->task.n_rows, told_to_end(w), err);
    if (r == 0)
        pl_datum_flow_handed_in(w->flow, t);
    return r;
}

/* The upload thread: uploads the outputs of computed datums, hands in tasks, and in between scans for early
 * uploads. */
static void *upload_loop(void *arg)
{
    struct pl_worker *w = arg;
    const int64_t look_ms = w->context.early ? w->config.early_ms : UPLOAD_LOOK_MS;
    struct pl_err err = {0};
    bool over = false;
    int r = 0;

    while (r == 0 && !over) {
        struct pl_datum_flow_item *row = pl_datum_flow_to_upload(w->flow, look_ms, &over);

        if (!row && !over && w->context.early && pl_datum_disk_left(&w->context) >= PL_DATUM_FLOW_FREE_BYTES)
            pl_early_upload_scan(w->context.early);
        if (!row)
            continue;
        r = upload_row(w, row, &err);
        if (r == 0 && row->last)
            r = finish_task(w, row->task, &err);
    }
    if (r < 0)
        fail(w, r, &err);
    return NULL;
}

/* ---- the whole worker ---- */

static int work(struct pl_worker *w, struct pl_err *err)
{
    pthread_t fetch, upload;
    int r = pthread_create(&upload, NULL, upload_loop, w);

    if (r != 0)
        return pl_err_errno(err, r, "cannot start the upload thread");
    r = pthread_create(&fetch, NULL, fetch_loop, w);
    if (r != 0) {
        struct pl_err why = {0};
        fail(w, pl_err_errno(&why, r, "cannot start the fetch thread"), &why);
    }
    compute_loop(w);
    if (r == 0)
        pthread_join(fetch, NULL);
    pthread_join(upload, NULL);
    return pl_datum_flow_result(w->flow, err);
}

int pl_worker_run(struct pl_worker *w, struct pl_err *err)
{
    int r = pl_task_lease_attach(w->lease, &w->stage, err);

    if (r == 0) {
        r = set_up(w, err);
        if (r < 0)
            pl_err_wrap(err, r, "worker of stage %s", w->stage.stage);
    }
    if (r == 0) {
        pl_log_info("worker", "stage %s: ready (%s, %zu GPUs)", w->stage.stage, pl_sandbox_mode_name(w->sandbox.mode),
                    PL_MAX(w->sandbox.n_gpus, (size_t)w->stage.gpu_count));
        r = work(w, err);
    }
    if (w->context.batch)
        pl_batch_leave(w->context.batch);
    pl_output_log_drain(w->outlog, DRAIN_END_MS, false);
    /* in a pod a lost sandbox is not an error of the worker, because the pod's status reports it */
    if (w->sandbox_lost && w->sandbox.mode != PL_SANDBOX_POD)
        return pl_err_set(err, PL_EUNAVAILABLE, "something outside the worker ended the sandbox");
    return r == PL_ECANCELED && told_to_end(w) ? 0 : r;
}

bool pl_worker_sandbox_lost(const struct pl_worker *w)
{
    return w->sandbox_lost;
}

/* Runs each step of each datum on this thread, one datum after another. */
static int run_alone(struct pl_worker *w, const struct pl_agent_protocol_task *task, struct pl_agent_protocol_outcome *outcomes,
                     struct pl_err *err)
{
    struct pl_err why = {0};
    char from[4200];
    int r = 0;

    folder_path(w, 0, from);
    w->context.oom_seen = pl_datum_oom_count();
    for (size_t i = 0; r == 0 && i < task->n_rows; i++) {
        struct pl_agent_protocol_outcome *o = &outcomes[i];

        *o = (struct pl_agent_protocol_outcome){.index = task->rows[i].index};
        r = pl_datum_fetch(&w->context, task, &task->rows[i], true, o);
        if (r == 0) {
            r = pl_datum_compute(&w->context, task, &task->rows[i], NULL, NULL, o, &why);
            if (r < 0 && !pl_runner_client_up(w->context.runner))
                r = restart_runner(w, o, &why, err);
            else if (r < 0 && err)
                *err = why;
        }
        r = r < 0 ? r : pl_datum_take(&w->context, from, o);
        r = r < 0 ? r : pl_datum_upload(&w->context, &task->rows[i], r ? from : NULL, o);
        r = r < 0 ? r : pl_sandbox_clear(from, err);
    }
    if (r < 0)
        return r;
    r = pl_outputs_flush(&w->store, &why);
    if (r < 0)
        upload_failed(outcomes, task->n_rows, r, &why);
    return 0;
}

int pl_worker_run_alone(struct pl_worker *w, struct pl_agent_protocol_attach *stage, const struct pl_agent_protocol_task *task,
                        int (*by_hand)(const struct pl_datum_context *c, const char *const *env, const char *cwd,
                                       struct pl_agent_protocol_outcome *o, struct pl_err *err),
                        struct pl_agent_protocol_outcome *outcomes, struct pl_err *err)
{
    int r;

    w->stage = *stage;
    *stage = (struct pl_agent_protocol_attach){0};
    w->context.by_hand = by_hand;
    r = set_up(w, err);
    if (r < 0)
        return pl_err_wrap(err, r, "stage %s", w->stage.stage);
    r = run_alone(w, task, outcomes, err);
    if (w->context.batch)
        pl_batch_leave(w->context.batch);
    return r;
}
