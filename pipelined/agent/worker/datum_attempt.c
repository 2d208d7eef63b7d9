/* The steps of an attempt, and the sentence that explains a failure. A callback follows the command while it
 * runs: it sends output and metrics, and checks whether the attempt is still wanted. */
#include "pipelined/agent/worker/datum_attempt.h"

#include "pipelined/agent/runner/copy_links.h"
#include "pipelined/text/quantity.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/trace.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/statvfs.h>

struct attempt {
    struct pl_datum_context *c;
    const struct pl_agent_protocol_task *task;
    const struct pl_agent_protocol_datum *row;
    struct pl_output_log_source source;
    struct pl_buf held; /* output that may be the beginning of a secret; sent with the next output */
    uint64_t written;   /* bytes of output so far */
    uint8_t tail[PL_AGENT_PROTOCOL_TAIL_MAX];
    size_t tail_at; /* position of the next byte in the ring buffer `tail` */
    struct pl_metrics metrics;
    int64_t stop_ms; /* monotonic time when the agent was first seen to be stopping; 0 = it is not */
    /* the command was killed because the attempt is not wanted; the outcome then gets no reason of failure */
    bool given_up;
};

/* Sets the reason of failure: makes it valid UTF-8 and cuts it to the maximum length. */
static void set_reason(struct pl_agent_protocol_outcome *o, const char *text)
{
    _cleanup_free_ char *clean = pl_agent_protocol_text((const uint8_t *)text, strlen(text), sizeof(o->reason) - 1);

    snprintf(o->reason, sizeof(o->reason), "%s", clean ? clean : "out of memory");
}

/* ---- output of the command ---- */

static void keep_tail(struct attempt *a, const uint8_t *data, size_t n)
{
    if (n > sizeof(a->tail)) {
        data += n - sizeof(a->tail);
        n = sizeof(a->tail);
    }
    for (size_t done = 0; done < n;) {
        size_t part = PL_MIN(n - done, sizeof(a->tail) - a->tail_at);
        memcpy(a->tail + a->tail_at, data + done, part);
        a->tail_at = (a->tail_at + part) % sizeof(a->tail);
        done += part;
    }
}

static char *take_tail(const struct attempt *a)
{
    uint8_t linear[PL_AGENT_PROTOCOL_TAIL_MAX];
    size_t first = sizeof(a->tail) - a->tail_at;

    if (a->written == 0)
        return NULL;
    if (a->written < sizeof(a->tail))
        return pl_agent_protocol_text(a->tail, (size_t)a->written, sizeof(a->tail));
    memcpy(linear, a->tail + a->tail_at, first);
    memcpy(linear + first, a->tail, a->tail_at);
    return pl_agent_protocol_text(linear, sizeof(linear), sizeof(linear));
}

/* Sends output to the log, up to PL_DATUM_LOG_MAX, and keeps its last bytes for the outcome. */
static void put_output(struct attempt *a, const uint8_t *data, size_t n)
{
    static const char notice[] = "\n[pipelined: output cut here: more than 64 MiB of one datum]\n";
    size_t fits = a->written < PL_DATUM_LOG_MAX ? (size_t)PL_MIN((uint64_t)n, PL_DATUM_LOG_MAX - a->written) : 0;

    keep_tail(a, data, n);
    if (fits > 0)
        pl_output_log_add(a->c->outlog, &a->source, a->written, data, fits);
    if (a->written <= PL_DATUM_LOG_MAX && a->written + n > PL_DATUM_LOG_MAX)
        pl_output_log_add(a->c->outlog, &a->source, PL_DATUM_LOG_MAX, (const uint8_t *)notice, sizeof(notice) - 1);
    a->written += n;
}

static void look_at_secrets(const struct pl_datum_context *c)
{
    pl_secrets_look(c->secrets, c->stage, pl_clock_mono_ms());
}

static void mask_output(struct attempt *a, const uint8_t *data, size_t n, bool end)
{
    _cleanup_(pl_buf_finish) struct pl_buf masked = {0};

    /* reads changed secrets first, because a secret may have got a new value since the command began */
    look_at_secrets(a->c);
    pl_secret_redaction_pass(&a->c->secrets->mask, &a->held, data, n, end, &masked);
    if (masked.len)
        put_output(a, masked.data, masked.len);
}

static void on_output(void *self, const uint8_t *data, size_t n)
{
    struct attempt *a = self;

    if (a->c->secrets)
        mask_output(a, data, n, false);
    else
        put_output(a, data, n);
}

/* Ends the output of the command: sends bytes that were held back as the possible beginning of a secret.
 * Returns the last bytes of the output. */
static char *end_output(struct attempt *a)
{
    if (a->c->secrets)
        mask_output(a, NULL, 0, true);
    pl_buf_finish(&a->held);
    return take_tail(a);
}

/* ---- while the command runs ---- */

/* Masks secrets in lines. Secret texts contain no line break, so the number of lines stays the same. */
static void mask_lines(const struct pl_datum_context *c, struct pl_buf *lines)
{
    _cleanup_(pl_buf_finish) struct pl_buf held = {0};
    struct pl_buf masked = {0};

    look_at_secrets(c);
    pl_secret_redaction_pass(&c->secrets->mask, &held, lines->data, lines->len, true, &masked);
    pl_buf_finish(lines);
    *lines = masked;
}

static void follow_metrics(struct attempt *a, bool end)
{
    struct pl_buf lines = {0};
    uint64_t first = a->metrics.lines;

    pl_metrics_poll(&a->metrics, pl_clock_mono_ms(), end, &lines);
    if (lines.len && a->c->secrets)
        mask_lines(a->c, &lines);
    if (lines.len)
        pl_output_log_metrics(a->c->outlog, &a->source, first, (const char *)lines.data, lines.len);
    pl_buf_finish(&lines);
}

/* Called while the command runs. True: kill the command, because the attempt is not wanted. */
static bool on_tick(void *self)
{
    struct attempt *a = self;

    /* ignores errors: a command that replaces its output folder leaves a moment without one; the check at the
     * command's end counts */
    (void)!pl_out_folder_follow(&a->c->out, NULL);
    follow_metrics(a, false);
    pl_gpu_meter_sample(a->c->gpu);
    if (atomic_load(a->c->stopping) && !a->stop_ms)
        a->stop_ms = pl_clock_mono_ms();
    a->given_up = pl_task_lease_wants(a->c->lease, &a->task->lease, a->row->index) != PL_TASK_LEASE_GO_ON ||
                  (a->stop_ms && pl_clock_mono_ms() - a->stop_ms >= PL_DATUM_GRACE_MS);
    return a->given_up;
}

/* ---- reason of a failure ---- */

uint64_t pl_datum_oom_count(void)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {.max = 1 << 16};
    char *at;

    if (pl_io_read_file("/proc/vmstat", &b, NULL) < 0)
        return 0;
    at = pl_buf_str(&b) ? strstr((char *)b.data, "\noom_kill ") : NULL;
    return at ? strtoull(at + 10, NULL, 10) : 0;
}

uint64_t pl_datum_disk_left(const struct pl_datum_context *c)
{
    struct statvfs fs;

    return fstatvfs(c->out.fd, &fs) < 0 ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize;
}

static const char *why_not_started(const struct pl_command_result *run)
{
    switch (run->code) {
    case ENOENT:
        return "there is no such program, or the interpreter of its #! line does not exist";
    case ENOEXEC:
        return "it is neither a program for this machine's architecture nor a script with a #! line";
    case EACCES:
        return "it is not executable";
    default:
        return strerror(run->code);
    }
}

/* Explains why the program could not be started. For a script with ENOENT, its interpreter is missing. */
static void judge_start(const struct pl_datum_context *c, const struct pl_command_result *run, const char *program, char *text,
                        size_t size)
{
    const char *script = run->code == ENOENT ? c->stage->script : NULL,
               *who = c->sandbox->mode == PL_SANDBOX_POD || c->sandbox->image ? "the image has" : "there is";

    if (!script) {
        snprintf(text, size, "cannot start %.200s: %s", program, why_not_started(run));
    } else if (strncmp(script, "#!", 2) == 0) {
        script += 2 + strspn(script + 2, " \t");
        snprintf(text, size, "cannot start the script: %s no %.*s, the interpreter of its #! line", who,
                 (int)PL_MIN(strcspn(script, " \t\n"), 200u), script);
    } else {
        snprintf(
            text, size,
            "cannot start the script: %s no %s: begin it with #! and the path of an interpreter, or give a program as \"run\"",
            who, program);
    }
}

/* Appends what is known about the memory limit to the reason. */
static void say_oom(const struct pl_datum_context *c, const struct pl_command_result *run, char *text, size_t size)
{
    /* the kernel rounds a cgroup's memory limit to whole pages */
    const int64_t asked = c->stage->memory_bytes;
    char limit[32];

    if (c->sandbox->mode != PL_SANDBOX_POD && run->memory_limit == 0)
        snprintf(text, size, ": the machine ran out of memory");
    else if (c->sandbox->mode != PL_SANDBOX_POD)
        snprintf(text, size, ", out of memory: it needs more than the %s of its resources.memory",
                 pl_quantity_bytes_text(asked ? asked : (int64_t)run->memory_limit, limit));
    else if (run->memory_limit > 0)
        snprintf(text, size, ": it needs more memory than %s, the limit of its container: increase resources.memory",
                 pl_quantity_bytes_text((int64_t)run->memory_limit, limit));
    else
        snprintf(text, size, ": its node ran out of memory, and the stage has no limit: set resources.memory");
}

static void judge_signal(struct pl_datum_context *c, const struct pl_command_result *run, struct pl_agent_protocol_outcome *o,
                         char *text, size_t size)
{
    const char *name = sigabbrev_np(run->code);
    char why[160] = "";

    if (run->code == SIGKILL) {
        uint64_t count = pl_datum_oom_count();
        o->oom = c->sandbox->mode == PL_SANDBOX_POD || c->sandbox->cgroup ? run->ooms > 0 : count > c->oom_seen;
        c->oom_seen = count;
    }
    if (o->oom)
        say_oom(c, run, why, sizeof(why));
    snprintf(text, size, "killed by signal %d%s%s%s%s", run->code, name ? " (SIG" : "", name ? name : "", name ? ")" : "", why);
}

/* Sets the reason why the command failed, or "" if it succeeded. */
static void judge(struct pl_datum_context *c, const struct pl_command_result *run, const char *program, uint64_t timeout_ms,
                  struct pl_agent_protocol_outcome *o)
{
    char text[PL_AGENT_PROTOCOL_REASON_MAX] = "", duration[32];

    if (run->timed_out)
        snprintf(text, sizeof(text), "timed out after %s", pl_duration_text((int64_t)timeout_ms, duration));
    else if (run->how == PL_RUNNER_SIGNALED)
        judge_signal(c, run, o, text, sizeof(text));
    else if (run->how == PL_RUNNER_NO_CWD)
        snprintf(text, sizeof(text), "the working directory cannot be entered: %s", strerror(run->code));
    else if (run->how == PL_RUNNER_NO_EXEC)
        judge_start(c, run, program, text, sizeof(text));
    else if (run->how == PL_RUNNER_NO_FORK)
        snprintf(text, sizeof(text), "cannot start a process: %s", strerror(run->code));
    else if (run->code != 0 && !pl_codes_has(&c->stage->accepted, run->code))
        snprintf(text, sizeof(text), "exit code %d", run->code);
    if (text[0] && pl_datum_disk_left(c) < PL_DATUM_FULL_BYTES)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "; the disk of the work folder is full");
    set_reason(o, text);
}

/* ---- the steps ---- */

/* Handles a failure of the agent itself in the step `step`. The datum is given back if it can succeed another
 * time; otherwise it fails. */
static int carry(struct pl_agent_protocol_outcome *o, const struct pl_datum_context *c, int code, const char *step,
                 const struct pl_err *why)
{
    char text[PL_ERR_MSG_BYTES + 100];

    if (pl_daemon_client_is_transport_error(code)) {
        o->gave_back = true;
        pl_log(code == PL_ECANCELED ? PL_LOG_INFO : PL_LOG_WARN, "datum", "datum in row %u given back to the daemon: %s: %s",
               o->index, step, why->msg);
        return 0;
    }
    snprintf(text, sizeof(text), "%s: %s%s", step, why->msg,
             code == PL_ENOSPC || pl_datum_disk_left(c) < PL_DATUM_FULL_BYTES ? "; the disk of the work folder is full" : "");
    set_reason(o, text);
    return 0;
}

static int64_t since_ms(int64_t start_us)
{
    return (pl_clock_mono_us() - start_us + 500) / 1000;
}

/* Sets the reason of failure to the message that a batch command reported, with secrets masked. */
static void set_said(const struct pl_datum_context *c, struct pl_agent_protocol_outcome *o, const char *text)
{
    _cleanup_(pl_buf_finish) struct pl_buf said = {0};

    if (pl_buf_add_str(&said, text, NULL) == 0 && c->secrets)
        mask_lines(c, &said);
    text = pl_buf_str(&said);
    set_reason(o, text ? text : "out of memory");
}

/* Sets the outcome of a batch stage's datum; the command may keep running. */
static void judge_batch(struct pl_datum_context *c, const struct pl_batch_result *end, const char *program, uint64_t timeout_ms,
                        struct pl_agent_protocol_outcome *o)
{
    if (end->end == PL_BATCH_FAILED)
        set_said(c, o, end->message);
    else if (end->end == PL_BATCH_IDLE)
        set_reason(
            o, "the command ended with exit code 0 twice without completing a datum: a batch command must call pl-next until it "
               "exits with 3, or iterate over pl.datums()");
    else if (end->end == PL_BATCH_ENDED)
        judge(c, &end->run, program, timeout_ms, o);
}

/* Finds the output folder that the command has left (it may have replaced the folder), and ensures that there
 * is one for the next datum. Negative: there is none and it cannot be created. */
static int look_at_out(struct pl_datum_context *c, struct pl_agent_protocol_outcome *o, struct pl_err *err)
{
    struct pl_err why = {0};
    int r = pl_out_folder_restore(&c->out, &why);

    if (r == PL_EUNAVAILABLE)
        return pl_err_set(err, PL_EIO, "%s", why.msg);
    return r < 0 && !o->gave_back && !o->reason[0] ? carry(o, c, r, "output", &why) : 0;
}

/* Runs the command for one datum and sets the reason if the datum failed. */
static int run_and_judge(struct attempt *a, struct pl_runner_command *command, struct pl_agent_protocol_outcome *o,
                         struct pl_err *err)
{
    struct pl_datum_context *c = a->c;
    const int64_t start_us = pl_clock_mono_us();
    struct pl_batch_result end = {.end = PL_BATCH_ENDED};
    int r;

    if (c->batch)
        r = pl_batch_run(c->batch, command, a->task, a->row, &end, err);
    else
        r = pl_env_of(c->env, a->task, a->row, &command->env, err);
    if (r == 0 && c->batch && end.end != PL_BATCH_ENDED)
        /* the runner shares files with the agent at the end of a command, but a batch command keeps running,
         * so ask for it here */
        r = pl_runner_client_share(c->runner, err);
    if (r == 0 && !c->batch && !c->stage->script)
        r = pl_env_argv(c->env, a->row, command->argv, &command->argv, err);
    if (r == 0 && !c->batch)
        r = pl_runner_client_run(c->runner, command, &end.run, err);
    o->compute_ms = since_ms(start_us);
    o->tail = end_output(a);
    o->run = end.run;
    if (r == PL_ETOOBIG) {
        set_reason(o, err->msg);
        return 0;
    }
    if (r < 0)
        return r;
    o->gave_back = a->given_up && end.end == PL_BATCH_ENDED && end.run.killed;
    if (!o->gave_back)
        judge_batch(c, &end, command->argv[0], a->row->timeout_ms, o);
    return 0;
}

/* Runs the stage's on_error command in the sandbox, the working directory and the environment of the failed
 * command. */
static int run_on_error(struct attempt *a, const struct pl_runner_command *failed, struct pl_agent_protocol_outcome *o,
                        struct pl_err *err)
{
    /* this command gets no standard input, because that belonged to the failed command */
    struct pl_runner_command command = *failed;
    struct pl_command_result result = {0};
    int64_t start_us = pl_clock_mono_us();
    int r = pl_env_argv(a->c->env, a->row, (const char *const *)a->c->stage->err_run, &command.argv, err);

    command.input = NULL;
    r = r == 0 ? pl_runner_client_run(a->c->runner, &command, &result, err) : r;
    o->compute_ms += since_ms(start_us);
    free(o->tail);
    o->tail = end_output(a);
    o->recovered = r == 0 && result.how == PL_RUNNER_EXITED && !result.timed_out &&
                   (result.code == 0 || pl_codes_has(&a->c->stage->accepted, result.code));
    o->gave_back = a->given_up && result.killed;
    return r == PL_ETOOBIG ? 0 : r;
}

/* ---- links in the output ---- */

/* Output callback of the program that copies link targets. */
struct said {
    struct attempt *attempt;
    char text[PL_AGENT_PROTOCOL_REASON_MAX];
    size_t len;
};

static void on_said(void *self, const uint8_t *data, size_t n)
{
    struct said *s = self;

    n = PL_MIN(n, sizeof(s->text) - 1 - s->len);
    memcpy(s->text + s->len, data, n);
    s->len += n;
}

static bool on_said_tick(void *self)
{
    const struct said *s = self;

    return on_tick(s->attempt);
}

/* Copies what links in the output lead to. A process in the sandbox copies, with no more rights than the
 * command; see copy_links.h. */
static int copy_links(struct attempt *a, const struct pl_runner_command *done, struct pl_agent_protocol_outcome *o,
                      struct pl_err *err)
{
    const struct pl_sandbox_paths *paths = a->c->paths;
    struct said said = {.attempt = a};
    char out[4200], duration[32], text[PL_AGENT_PROTOCOL_REASON_MAX] = "output: cannot copy the targets of its links";
    const char *const argv[] = {paths->runner, PL_COPY_LINKS, out, paths->pfs, NULL};
    struct pl_runner_command command = *done;
    struct pl_command_result result = {0};
    const int64_t start_us = pl_clock_mono_us();
    int r;

    snprintf(out, sizeof(out), "%s/out", paths->pfs);
    command.argv = argv;
    command.input = NULL;
    command.on_output = on_said;
    command.on_tick = on_said_tick;
    command.self = &said;
    r = pl_runner_client_run(a->c->runner, &command, &result, err);
    o->compute_ms += since_ms(start_us);
    if (r < 0)
        return r;
    o->gave_back = a->given_up && result.killed;
    if (o->gave_back || (result.how == PL_RUNNER_EXITED && result.code == 0))
        return 0;
    while (said.len > 0 && said.text[said.len - 1] == '\n')
        said.text[--said.len] = 0;
    if (result.timed_out)
        snprintf(text, sizeof(text), "output: copying the targets of its links timed out after %s",
                 pl_duration_text((int64_t)command.timeout_ms, duration));
    set_reason(o, said.len ? said.text : text);
    return 0;
}

/* Runs the command (or `by_hand` in its place), and then what follows it: copying link targets, or the
 * command of on_error. */
static int run_command(struct attempt *a, struct pl_agent_protocol_outcome *o, struct pl_err *err)
{
    const struct pl_datum_context *c = a->c;
    const char *const with_interpreter[] = {"/bin/sh", "-e", c->paths->script, NULL}, *const by_itself[] = {c->paths->script,
                                                                                                            NULL};
    const char *const *script = c->stage->script && strncmp(c->stage->script, "#!", 2) == 0 ? by_itself : with_interpreter;
    struct pl_runner_command command = {
        .argv = c->stage->script ? script : (const char *const *)c->stage->run,
        .cwd = c->sandbox->has_code ? c->paths->code : c->paths->tmp,
        .input = c->stage->stdin_text ? c->paths->input : NULL,
        .timeout_ms = a->row->timeout_ms,
        .on_output = on_output,
        .on_tick = on_tick,
        .tick_ms = PL_METRICS_POLL_MS,
        .self = a,
    };
    int r;

    if (c->by_hand) {
        r = pl_env_of(c->env, a->task, a->row, &command.env, err);
        return r < 0 ? r : c->by_hand(c, command.env, command.cwd, o, err);
    }
    pl_metrics_start(&a->metrics, c->out.fd, pl_clock_mono_ms());
    pl_gpu_meter_start(c->gpu);
    r = run_and_judge(a, &command, o, err);
    r = r < 0 ? r : look_at_out(a->c, o, err);
    if (r < 0)
        return r;
    follow_metrics(a, true);
    o->has_gpu = pl_gpu_meter_read(c->gpu, &o->gpu_util, &o->gpu_mem_peak);
    if (!o->has_gpu) { /* no sample was taken, because the command ended too soon: take one now */
        pl_gpu_meter_sample(c->gpu);
        o->has_gpu = pl_gpu_meter_read(c->gpu, &o->gpu_util, &o->gpu_mem_peak);
    }
    if (!o->gave_back && !o->reason[0] && c->stage->copy_links)
        r = copy_links(a, &command, o, err);
    return r == 0 && !o->gave_back && o->reason[0] && c->stage->err_run ? run_on_error(a, &command, o, err) : r;
}

/* True if nothing more is to be done for this datum. Gives it back if the agent stops or the daemon no longer
 * wants it. */
static bool is_decided(struct pl_datum_context *c, const struct pl_agent_protocol_task *task, struct pl_agent_protocol_outcome *o)
{
    if (o->gave_back || o->reason[0])
        return true;
    o->gave_back = atomic_load(c->stopping) || pl_task_lease_wants(c->lease, &task->lease, o->index) != PL_TASK_LEASE_GO_ON;
    return o->gave_back;
}

void pl_datum_fetch_ahead(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                          const struct pl_agent_protocol_datum *row, struct pl_agent_protocol_outcome *o)
{
    const int64_t start_us = pl_clock_mono_us();

    if (is_decided(c, task, o))
        return;
    pl_inputs_ahead(c->inputs, row);
    o->fetch_ms += since_ms(start_us);
}

int pl_datum_fetch(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                   const struct pl_agent_protocol_datum *row, bool alone, struct pl_agent_protocol_outcome *o)
{
    const int64_t start_us = pl_clock_mono_us();
    struct pl_err why = {0};
    int r;

    if (is_decided(c, task, o))
        return 0;
    r = pl_inputs_stage(c->inputs, row, alone, &o->bytes_in, &why);
    o->fetch_ms += since_ms(start_us);
    pl_trace("agent/worker", "datum %llu fetched: %d, %llu bytes in %lld ms", (unsigned long long)row->index, r,
             (unsigned long long)o->bytes_in, (long long)o->fetch_ms);
    if (r == PL_ENOSPC && !alone)
        return r;
    return r < 0 ? carry(o, c, r, "inputs", &why) : 0;
}

/* If an earlier step has already decided the outcome, does not put the inputs in place and runs nothing. */
int pl_datum_compute(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                     const struct pl_agent_protocol_datum *row, void (*placed)(void *self), void *self,
                     struct pl_agent_protocol_outcome *o, struct pl_err *err)
{
    struct attempt a = {.c = c,
                        .task = task,
                        .row = row,
                        .source = {.lease = &task->lease, .datum = row->datum, .index = row->index, .attempt = row->attempt}};
    const bool decided = is_decided(c, task, o);
    struct pl_err why = {0};
    int r = decided ? 0 : pl_inputs_apply(c->inputs, &why);

    if (placed)
        placed(self);
    if (r < 0)
        return carry(o, c, r, "inputs", &why);
    if (decided)
        return 0;
    if (c->secrets)
        look_at_secrets(c);
    if (c->checkpoint)
        pl_checkpoint_begin(c->checkpoint, &task->lease, row->index);
    pl_early_upload_begin(c->early, row);
    pl_trace("agent/worker", "datum %llu, attempt %u: command starts", (unsigned long long)row->index, (unsigned)row->attempt);
    r = run_command(&a, o, err);
    pl_trace("agent/worker", "datum %llu: command ended: %d%s%s", (unsigned long long)row->index, r, *o->reason ? ", " : "",
             o->reason);
    pl_early_upload_end(c->early, row, r == 0 && !o->gave_back && !o->reason[0]);
    if (c->checkpoint)
        pl_checkpoint_end(c->checkpoint, o->gave_back ? a.stop_ms != 0 : o->reason[0] != 0);
    return r;
}

int pl_datum_take(struct pl_datum_context *c, const char *to, struct pl_agent_protocol_outcome *o)
{
    struct pl_err why = {0};
    int r = look_at_out(c, o, &why);

    if (r < 0)
        return r;
    r = pl_folder_move(c->out.fd, "the output folder", to, &why);
    if (r >= 0)
        return r;
    if (!o->gave_back && !o->reason[0])
        (void)!carry(o, c, r, "output", &why);
    return pl_sandbox_clear(c->out.path, NULL) < 0 ? PL_EIO : 0;
}

static int capture(struct pl_datum_context *c, const struct pl_agent_protocol_datum *row, const char *from,
                   struct pl_agent_protocol_outcome *o)
{
    const struct pl_outputs_request request = {.out = from,
                                               .pfs = c->paths->pfs,
                                               .refs = &c->refs,
                                               .row = row,
                                               .store = c->store,
                                               .keep_links = c->sandbox->makes_environment,
                                               .early = pl_early_upload_take(c->early, row) ? c->early : NULL};
    const int64_t start_us = pl_clock_mono_us();
    struct pl_err why = {0};
    int r = pl_outputs_capture(&request, o, &why);

    o->upload_ms += since_ms(start_us);
    o->success = r == 0;
    if (r < 0)
        (void)!carry(o, c, r, "output", &why);
    return pl_daemon_client_is_transport_error(r) ? r : 0;
}

int pl_datum_upload(struct pl_datum_context *c, const struct pl_agent_protocol_datum *row, const char *from,
                    struct pl_agent_protocol_outcome *o)
{
    int r = o->gave_back || o->lost || o->reason[0] ? 0 : capture(c, row, from, o);

    o->upload_ms += pl_early_upload_release(c->early, row);
    return r;
}
