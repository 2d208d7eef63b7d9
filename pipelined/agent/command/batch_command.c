/* The command runs once under pl-runner; batch_server receives its requests for the next datum. pl_batch_run
 * waits for a request, for the end of the command, or for the datum's time limit. */
#include "pipelined/agent/command/batch_command.h"

#include "pipelined/agent/command/batch_server.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include <fcntl.h>
#include <stdio.h>

struct pl_batch {
    struct pl_runner_client *runner;
    const struct pl_sandbox_config *sandbox;
    const struct pl_sandbox_paths *paths;
    struct pl_env *env;
    struct pl_out_folder *out;
    struct pl_next_server *server;
    bool up;             /* the command runs */
    bool at_datum;       /* the command was given a datum and has not asked for the next one */
    unsigned done;       /* number of datums that the running process of the command has completed */
    unsigned idle_lives; /* number of consecutive processes that exited with 0 without completing a datum */
    /* time limit of the datum, and the monotonic time at which it ends; 0 = none */
    int64_t timeout_ms, deadline_ms;
};

int pl_batch_create(struct pl_runner_client *runner, const struct pl_sandbox_config *sandbox,
                    const struct pl_sandbox_paths *paths, struct pl_env *env, struct pl_out_folder *out, struct pl_batch **ret,
                    struct pl_err *err)
{
    struct pl_batch *b = calloc(1, sizeof(*b));
    char folder[4200];
    int r;

    if (!b)
        return pl_err_nomem(err);
    *b = (struct pl_batch){.runner = runner, .sandbox = sandbox, .paths = paths, .env = env, .out = out};
    snprintf(folder, sizeof(folder), "%s/sock", sandbox->work);
    r = pl_next_server_create(folder, &b->server, err);
    if (r < 0) {
        free(b);
        return r;
    }
    *ret = b;
    return 0;
}

struct pl_batch *pl_batch_destroy(struct pl_batch *b)
{
    if (!b)
        return NULL;
    pl_next_server_destroy(b->server);
    free(b);
    return NULL;
}

/* ---- the description of a datum for the command ---- */

/* Appends NAME='value', quoted for a shell. */
static int add_shell(struct pl_buf *b, const struct pl_env_var *variable, struct pl_err *err)
{
    int r = pl_buf_addf(b, err, "%s='", variable->key);

    for (const char *p = variable->value; r == 0 && *p; p++)
        r = *p == '\'' ? pl_buf_add_str(b, "'\\''", err) : pl_buf_add(b, p, 1, err);
    return r < 0 ? r : pl_buf_add_str(b, "'\n", err);
}

static json_t *inputs_json(const struct pl_batch *b, const struct pl_agent_protocol_datum *row)
{
    json_t *inputs = json_object();

    for (size_t i = 0; inputs && i < row->n_inputs; i++) {
        const struct pl_agent_protocol_input *in = &row->inputs[i];
        json_object_set_new(inputs, in->name, json_sprintf("%s/%s%s%s", b->paths->pfs, in->name, *in->path ? "/" : "", in->path));
    }
    return inputs;
}

/* Writes a file below WORK/pfs. Does not sync the file or replace it atomically, because the command is
 * blocked during the write, and after a crash the file is not needed. */
static int put(const struct pl_batch *b, const char *name, const void *text, size_t n, struct pl_err *err)
{
    char path[4200];
    _cleanup_close_ int fd = -1;

    snprintf(path, sizeof(path), "%s/pfs/%s", b->sandbox->work, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return fd < 0 ? pl_err_errno(err, errno, "%s", path) : pl_io_write(fd, text, n, path, err);
}

/* Writes .datum.json and .env, the variables that differ from datum to datum. */
static int write_notes(struct pl_batch *b, const struct pl_agent_protocol_task *task, const struct pl_agent_protocol_datum *row,
                       struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf shell = {0};
    _cleanup_(json_decrefp) json_t *note = NULL;
    _cleanup_free_ char *text = NULL;
    char out[4200];
    json_t *variables = json_object();
    struct pl_env_var *env;
    size_t n;
    int r = pl_env_of_datum(b->env, task, row, &env, &n, err);

    for (size_t i = 0; r == 0 && i < n; i++) {
        if (json_object_set_new(variables, env[i].key, json_string(env[i].value)) < 0)
            r = pl_err_nomem(err);
        r = r < 0 ? r : add_shell(&shell, &env[i], err);
    }
    snprintf(out, sizeof(out), "%s/out", b->paths->pfs);
    note = json_pack("{s:s, s:s, s:s, s:o, s:s, s:o}", "datum", row->datum, "run", task->run, "job", task->job, "inputs",
                     inputs_json(b, row), "out", out, "env", variables);
    text = note ? pl_json_text(note, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
    if (r == 0 && !text)
        r = pl_err_nomem(err);
    r = r < 0 ? r : put(b, ".datum.json", text, strlen(text), err);
    return r < 0 ? r : put(b, ".env", shell.data, shell.len, err);
}

/* ---- starting the command, and its end ---- */

static int start(struct pl_batch *b, const struct pl_runner_command *command, struct pl_err *err)
{
    struct pl_runner_command first = *command;
    int r = pl_env_of(b->env, NULL, NULL, &first.env, err);

    /* the command has many datums: only escapes are replaced */
    r = r < 0 ? r : pl_env_argv(b->env, NULL, command->argv, &first.argv, err);
    first.timeout_ms = 0; /* the datum's limit is measured here; the command as a whole has none */
    r = r < 0 ? r : pl_runner_client_begin(b->runner, &first, err);
    b->up = r == 0;
    b->at_datum = false;
    b->done = 0;
    return r;
}

/* Handles the end of the command and fills `ret`. Returns 1 if the command is to be started again for the
 * same datum. */
static int ended(struct pl_batch *b, struct pl_batch_result *ret, bool timed_out, struct pl_err *err)
{
    bool left = ret->run.how == PL_RUNNER_EXITED && ret->run.code == 0 && !ret->run.killed;

    b->up = b->at_datum = false;
    ret->run.timed_out = timed_out;
    ret->end = PL_BATCH_ENDED;
    b->idle_lives = left && b->done == 0 ? b->idle_lives + 1 : 0;
    if (!left || timed_out)
        return 0;
    if (b->idle_lives >= PL_BATCH_IDLE_LIVES) {
        b->idle_lives = 0;
        ret->end = PL_BATCH_IDLE;
        return 0;
    }
    /* if the command replaced its output folder, use the new one; then delete everything that the command
     * wrote there */
    if (pl_out_folder_restore(b->out, err) == PL_EUNAVAILABLE)
        return PL_EIO;
    return pl_sandbox_clear(b->out->path, err) < 0 ? PL_EIO : 1;
}

/* Handles a request of the command, if there is one. Returns true if the request ends the datum that the
 * command was processing. */
static bool asked(struct pl_batch *b, struct pl_batch_result *ret)
{
    const char *message = NULL;

    pl_next_server_look(b->server);
    if (!pl_next_server_asked(b->server, &message))
        return false;
    /* either the process's first request, or a repeated one because its client disconnected before it
     * received the previous answer */
    if (!b->at_datum) {
        b->at_datum = pl_next_server_answer(b->server, "ok");
        b->deadline_ms = b->timeout_ms ? pl_clock_mono_ms() + b->timeout_ms : 0;
        return false;
    }
    b->at_datum = false;
    b->done++;
    b->idle_lives = 0;
    ret->end = message ? PL_BATCH_FAILED : PL_BATCH_DONE;
    if (message)
        snprintf(ret->message, sizeof(ret->message), "%s", *message ? message : "failed");
    return true;
}

/* Loop: start the command if it is down, handle its request, wait for the next event. */
int pl_batch_run(struct pl_batch *b, const struct pl_runner_command *command, const struct pl_agent_protocol_task *task,
                 const struct pl_agent_protocol_datum *row, struct pl_batch_result *ret, struct pl_err *err)
{
    const int64_t start_us = pl_clock_mono_us();
    bool timed_out = false;
    int r = write_notes(b, task, row, err);

    *ret = (struct pl_batch_result){0};
    b->timeout_ms = (int64_t)command->timeout_ms;
    /* until the command gets the datum, this deadline limits its start; asked() sets a new deadline when the
     * command gets the datum */
    b->deadline_ms = b->timeout_ms ? pl_clock_mono_ms() + b->timeout_ms : 0;
    while (r == 0) {
        enum pl_runner_event event = PL_RUNNER_EVENT_FD;

        if (!b->up)
            r = start(b, command, err);
        /* the request may have arrived before this call, while no datum was running */
        if (r == 0 && asked(b, ret))
            break;
        if (r == 0)
            r = pl_runner_client_wait(b->runner, command, pl_next_server_fd(b->server), b->deadline_ms, &event, &ret->run, err);
        if (r == 0 && event == PL_RUNNER_EVENT_EXIT) {
            r = ended(b, ret, timed_out, err);
            if (r <= 0)
                break;
            r = 0;
        } else if (r == 0 && event == PL_RUNNER_EVENT_TIME) {
            timed_out = true;
            b->deadline_ms = 0;
            pl_runner_client_kill(b->runner);
        }
    }
    if (r < 0)
        b->up = b->up && pl_runner_client_up(b->runner);
    if (ret->end != PL_BATCH_ENDED)
        ret->run.wall_us = (uint64_t)(pl_clock_mono_us() - start_us);
    return r;
}

/* Output callback that discards what the command prints after its last datum. */
static void unheard(void *self, const uint8_t *data, size_t n)
{
    (void)self;
    (void)data;
    (void)n;
}

/* Answers requests with "end" until the command ends or PL_BATCH_LEAVE_MS have passed. */
void pl_batch_leave(struct pl_batch *b)
{
    const struct pl_runner_command command = {.on_output = unheard};
    const int64_t deadline_ms = pl_clock_mono_ms() + PL_BATCH_LEAVE_MS;
    struct pl_command_result run = {0};
    struct pl_err err = {0};
    bool told = false;

    while (b->up && pl_runner_client_up(b->runner)) {
        enum pl_runner_event event = PL_RUNNER_EVENT_EXIT;
        const char *message = NULL;

        pl_next_server_look(b->server);
        if (pl_next_server_asked(b->server, &message))
            told = pl_next_server_answer(b->server, "end") || told;
        if (pl_runner_client_wait(b->runner, &command, pl_next_server_fd(b->server), deadline_ms, &event, &run, &err) < 0)
            break;
        if (event == PL_RUNNER_EVENT_EXIT)
            b->up = false;
        else if (event == PL_RUNNER_EVENT_TIME) {
            pl_log_warn("batch", "the command did not exit within %d s%s; it will be killed", PL_BATCH_LEAVE_MS / 1000,
                        told ? " after pl-next reported that there are no more datums" : "");
            break; /* stopping the runner kills the command */
        }
    }
    if (!b->up && run.code != 0)
        pl_log_warn("batch", "the command ended with %s %d", run.how == PL_RUNNER_SIGNALED ? "signal" : "exit code", run.code);
}
