/* Reads the daemon's JSON replies (an error names the wrong field) and builds the agent's JSON requests. */
#include "pipelined/net/agent_protocol/agent_protocol.h"

#include "pipelined/policy/project_secret.h"
#include "pipelined/text/quantity.h"
#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"
#include <inttypes.h>
#include <stdio.h>

static int bad(struct pl_err *err, const char *where, const char *field)
{
    return pl_err_field(err,
                        pl_err_set(err, PL_EPROTO, "the daemon's answer to %s: \"%s\" is missing or malformed", where, field),
                        field);
}

/* Returns the string in the member `field`, or `otherwise` if the member is absent or null. */
static const char *string_or(const json_t *o, const char *field, const char *otherwise)
{
    const char *s = json_string_value(json_object_get(o, field));

    return s ? s : otherwise;
}

static int64_t integer_or(const json_t *o, const char *field, int64_t otherwise)
{
    const json_t *v = json_object_get(o, field);

    return json_is_integer(v) ? (int64_t)json_integer_value(v) : otherwise;
}

/* Reads a command and its arguments as a NULL-terminated list of strings. */
static int read_argv(const json_t *run, const char *field, const char ***ret, struct pl_err *err)
{
    size_t n = json_array_size(run);

    if (n == 0)
        return bad(err, "attach", field);
    *ret = calloc(n + 1, sizeof(**ret));
    if (!*ret)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        (*ret)[i] = json_string_value(json_array_get(run, i));
        if (!(*ret)[i])
            return bad(err, "attach", field);
    }
    return 0;
}

/* Reads the command, its accepted exit codes, its checkpoints and its standard input. */
static int read_run(const json_t *stage, struct pl_agent_protocol_attach *a, struct pl_err *err)
{
    const json_t *on_error = json_object_get(stage, "on_error");
    const char *every;
    int r = json_is_object(on_error) ? read_argv(json_object_get(on_error, "run"), "stage.on_error", &a->err_run, err) : 0;

    for (size_t i = 0; i < json_array_size(json_object_get(stage, "accept_codes")); i++) {
        json_int_t code = json_integer_value(json_array_get(json_object_get(stage, "accept_codes"), i));

        if (code < 0 || code > 255)
            return bad(err, "attach", "stage.accept_codes");
        a->accepted.bits[code / 32] |= 1u << (code % 32);
    }
    a->writable = json_object_get(stage, "writable");
    a->environment = json_is_true(json_object_get(stage, "environment"));
    a->makes_environment = json_is_true(json_object_get(json_object_get(stage, "output"), "environment"));
    every = string_or(json_object_get(stage, "checkpoint"), "every", NULL);
    if (every && pl_duration_parse(every, &a->checkpoint_ms, NULL) < 0)
        return bad(err, "attach", "stage.checkpoint.every");
    a->stdin_text = string_or(stage, "stdin", NULL);
    a->python = string_or(stage, "python", NULL);
    a->copy_links = json_is_true(json_object_get(json_object_get(stage, "output"), "copy_links"));
    a->script = string_or(stage, "script", NULL);
    return r < 0 || a->script ? r : read_argv(json_object_get(stage, "run"), "stage.run", &a->run, err);
}

static int read_env(json_t *stage, struct pl_agent_protocol_attach *a, struct pl_err *err)
{
    json_t *env = json_object_get(stage, "env"), *value;
    const char *key;

    if (!env || json_is_null(env))
        return 0;
    if (!json_is_object(env))
        return bad(err, "attach", "stage.env");
    a->env = calloc(json_object_size(env) + 1, sizeof(*a->env));
    if (!a->env)
        return pl_err_nomem(err);
    json_object_foreach(env, key, value)
    {
        if (!json_is_string(value))
            return bad(err, "attach", "stage.env");
        a->env[a->n_env++] = (struct pl_env_var){.key = key, .value = json_string_value(value)};
    }
    return 0;
}

static int read_secrets(const json_t *stage, struct pl_agent_protocol_attach *a, struct pl_err *err)
{
    const json_t *list = json_object_get(stage, "secrets"), *one;
    size_t i;

    a->secrets = calloc(json_array_size(list) + 1, sizeof(*a->secrets));
    if (!a->secrets)
        return pl_err_nomem(err);
    json_array_foreach(list, i, one)
    {
        struct pl_agent_protocol_secret s = {string_or(one, "name", NULL), string_or(one, "key", NULL),
                                             string_or(one, "env", NULL), string_or(one, "mount", NULL)};

        if (!s.name || pl_secret_name_check(s.name, NULL) < 0 || (s.env == NULL) == (s.mount == NULL) ||
            (s.env != NULL) != (s.key != NULL) || (s.key && pl_secret_key_check(s.key, NULL) < 0) || (s.mount && *s.mount != '/'))
            return bad(err, "attach", "stage.secrets");
        a->secrets[a->n_secrets++] = s;
    }
    return 0;
}

/* Reads the number of GPUs, and which devices were assigned. */
static int read_gpus(const json_t *doc, struct pl_agent_protocol_attach *a, struct pl_err *err)
{
    const json_t *gpu = json_object_get(doc, "gpu"), *devices = json_object_get(gpu, "devices");
    const int64_t count = integer_or(gpu, "count", 0);

    if (count < 0 || count > PL_GPUS_MAX)
        return bad(err, "attach", "gpu.count");
    a->gpu_count = (uint32_t)count;
    if (!json_is_array(devices))
        return 0;
    a->has_gpus = true;
    a->n_gpus = json_array_size(devices);
    if (a->n_gpus > PL_AGENT_PROTOCOL_GPUS_MAX)
        return bad(err, "attach", "gpu.devices");
    for (size_t i = 0; i < a->n_gpus; i++) {
        const json_t *v = json_array_get(devices, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 255)
            return bad(err, "attach", "gpu.devices");
        a->gpus[i] = (unsigned)json_integer_value(v);
    }
    return 0;
}

/* Reads the whole reply to `attach`. */
static int read_attach(json_t *doc, struct pl_agent_protocol_attach *a, struct pl_err *err)
{
    json_t *stage = json_object_get(doc, "stage");
    struct pl_hash root;
    const char *shm, *memory;
    int r;

    if (integer_or(doc, "protocol", 0) != PL_AGENT_PROTOCOL_PROTOCOL)
        return pl_err_set(err, PL_EPROTO,
                          "the daemon speaks agent protocol %" PRId64 ", this agent %d: install the same version on both sides",
                          integer_or(doc, "protocol", 0), PL_AGENT_PROTOCOL_PROTOCOL);
    if (!json_is_object(stage))
        return bad(err, "attach", "stage");
    a->lease_ms = integer_or(doc, "lease_ms", 30000);
    a->renew_ms = integer_or(doc, "renew_ms", 10000);
    a->project = string_or(doc, "project", "default");
    a->token = string_or(doc, "token", NULL);
    a->stage = string_or(stage, "name", NULL);
    a->pipeline = string_or(stage, "pipeline", string_or(doc, "pipeline", ""));
    if (a->renew_ms < 10 || a->lease_ms < a->renew_ms)
        return bad(err, "attach", "renew_ms");
    if (!a->stage)
        return bad(err, "attach", "stage.name");
    a->code_root = string_or(stage, "code_root", NULL);
    if (a->code_root && !*a->code_root)
        a->code_root = NULL;
    if (a->code_root && pl_hash_parse(a->code_root, &root, NULL) < 0)
        return bad(err, "attach", "stage.code_root");
    a->shm_bytes = integer_or(json_object_get(stage, "resources"), "shm", 0);
    shm = string_or(json_object_get(stage, "resources"), "shm", "");
    if (*shm && pl_quantity_bytes(shm, &a->shm_bytes, NULL) < 0)
        return bad(err, "attach", "stage.resources.shm");
    a->memory_bytes = integer_or(json_object_get(stage, "resources"), "memory", 0);
    memory = string_or(json_object_get(stage, "resources"), "memory", "");
    if (*memory && pl_quantity_bytes(memory, &a->memory_bytes, NULL) < 0)
        return bad(err, "attach", "stage.resources.memory");
    a->batch = json_is_true(json_object_get(json_object_get(stage, "datum"), "batch"));
    a->no_network = json_is_false(json_object_get(stage, "network"));
    r = read_run(stage, a, err);
    if (r == 0)
        r = read_env(stage, a, err);
    if (r == 0)
        r = read_secrets(stage, a, err);
    return r == 0 ? read_gpus(doc, a, err) : r;
}

int pl_agent_protocol_attach_read(json_t *doc, struct pl_agent_protocol_attach *ret, struct pl_err *err)
{
    struct pl_agent_protocol_attach a = {.doc = doc};
    int r = read_attach(doc, &a, err);

    if (r < 0) {
        pl_agent_protocol_attach_finish(&a);
        return r;
    }
    *ret = a;
    return 0;
}

void pl_agent_protocol_attach_finish(struct pl_agent_protocol_attach *a)
{
    free(a->run);
    free(a->err_run);
    free(a->env);
    free(a->secrets);
    json_decref(a->doc);
    *a = (struct pl_agent_protocol_attach){0};
}

static int read_task_id(const json_t *id, struct pl_agent_protocol_lease *ret, struct pl_err *err)
{
    int n;

    ret->task_is_number = json_is_integer(id);
    if (ret->task_is_number)
        n = snprintf(ret->task, sizeof(ret->task), "%" JSON_INTEGER_FORMAT, json_integer_value(id));
    else if (json_is_string(id))
        n = snprintf(ret->task, sizeof(ret->task), "%s", json_string_value(id));
    else
        return bad(err, "next", "task.id");
    return n <= 0 || n >= (int)sizeof(ret->task) ? bad(err, "next", "task.id") : 0;
}

/* Reads the parameters of a params input; they become the content of params.json. */
static int read_params(const json_t *o, struct pl_agent_protocol_input *in, struct pl_err *err)
{
    const char *key;
    json_t *value;

    in->values = json_object_get(o, "values");
    if (!json_is_object(in->values) || json_object_size(in->values) > PL_PARAM_NAMES_MAX)
        return bad(err, "next", "inputs.values");
    json_object_foreach(in->values, key, value) if (!json_is_string(value)) return bad(err, "next", "inputs.values");
    in->path = "params.json";
    in->file = true;
    pl_hash_sha256(in->json, strlen(in->json), &in->root);
    return 0;
}

/* Reads one input of a datum. Stores the input's globs in the zeroed array at `*files`, and advances `*files`
 * past the globs and the NULL that ends them. */
static int read_input(const json_t *o, struct pl_agent_protocol_input *in, const char ***files, struct pl_err *err)
{
    const json_t *globs = json_object_get(o, "files");
    const char *root = string_or(o, "root", ""), *kind = string_or(o, "kind", "dir");

    in->name = string_or(o, "name", "");
    in->path = string_or(o, "path", "");
    in->commit = string_or(o, "commit", NULL);
    in->project = string_or(o, "project", NULL);
    while (*in->path == '/')
        in->path++;
    if (pl_name_check("input", in->name, NULL) < 0)
        return bad(err, "next", "inputs.name");
    if (in->project && pl_name_check("project", in->project, NULL) < 0)
        return bad(err, "next", "inputs.project");
    in->json = string_or(o, "json", NULL);
    if (in->json)
        return read_params(o, in, err);
    if (*in->path && pl_path_check(in->path, strlen(in->path), NULL) < 0)
        return bad(err, "next", "inputs.path");
    if (pl_hash_parse(root, &in->root, NULL) < 0)
        return bad(err, "next", "inputs.root");
    in->file = !pl_streq(kind, "dir") && !pl_streq(kind, "4");
    in->writable = json_is_true(json_object_get(o, "writable"));
    in->environment = json_is_true(json_object_get(o, "environment"));
    in->n_files = json_array_size(globs); /* json_array_size is 0 if the value is not an array */
    if (in->n_files == 0)
        return 0;
    in->files = *files;
    for (size_t i = 0; i < in->n_files; i++) {
        in->files[i] = json_string_value(json_array_get(globs, i));
        if (!in->files[i])
            return bad(err, "next", "inputs.files");
    }
    *files += in->n_files + 1;
    return 0;
}

/* Reads one datum with its inputs. */
static int read_row(const json_t *o, struct pl_agent_protocol_datum *row, struct pl_agent_protocol_input **inputs,
                    const char ***files, struct pl_err *err)
{
    const json_t *list = json_object_get(o, "inputs");
    int64_t index = integer_or(o, "index", -1), timeout_ms = integer_or(o, "timeout_ms", 0);
    struct pl_hash id;
    int r;

    if (index < 0 || index > UINT32_MAX)
        return bad(err, "next", "rows.index");
    row->index = (uint32_t)index;
    row->attempt = (uint32_t)integer_or(o, "attempt", 1);
    row->timeout_ms = timeout_ms > 0 ? (uint64_t)timeout_ms : 0;
    row->datum = string_or(o, "datum", "");
    if (pl_hash_parse(row->datum, &id, NULL) < 0)
        return bad(err, "next", "rows.datum");
    if (pl_hash_parse(string_or(o, "key", ""), &row->key, NULL) < 0)
        return bad(err, "next", "rows.key");
    row->has_checkpoint = json_is_string(json_object_get(o, "checkpoint"));
    if (row->has_checkpoint && pl_hash_parse(string_or(o, "checkpoint", ""), &row->checkpoint, NULL) < 0)
        return bad(err, "next", "rows.checkpoint");
    row->n_inputs = json_array_size(list);
    row->inputs = *inputs;
    for (size_t i = 0; i < row->n_inputs; i++) {
        r = read_input(json_array_get(list, i), &row->inputs[i], files, err);
        if (r < 0)
            return r;
    }
    *inputs += row->n_inputs;
    return 0;
}

/* Counts the inputs and globs of all rows, and allocates space for them. */
static int make_room(const json_t *rows, struct pl_agent_protocol_task *t, struct pl_err *err)
{
    size_t n_inputs = 0, n_files = 0;

    t->n_rows = json_array_size(rows);
    if (t->n_rows == 0 || t->n_rows > PL_AGENT_PROTOCOL_DATUMS_MAX)
        return bad(err, "next", "task.rows");
    for (size_t i = 0; i < t->n_rows; i++) {
        const json_t *inputs = json_object_get(json_array_get(rows, i), "inputs");
        if (json_array_size(inputs) > PL_AGENT_PROTOCOL_INPUTS_MAX)
            return bad(err, "next", "rows.inputs");
        for (size_t j = 0; j < json_array_size(inputs); j++)
            n_files += json_array_size(json_object_get(json_array_get(inputs, j), "files")) + 1;
        n_inputs += json_array_size(inputs);
    }
    t->rows = calloc(t->n_rows, sizeof(*t->rows));
    t->inputs = calloc(n_inputs + 1, sizeof(*t->inputs));
    t->files = calloc(n_files + 1, sizeof(*t->files));
    return t->rows && t->inputs && t->files ? 0 : pl_err_nomem(err);
}

/* Reads a task: its lease, run, job and rows (datums). */
static int read_task(const json_t *task, struct pl_agent_protocol_task *t, struct pl_err *err)
{
    const json_t *rows = json_object_get(task, "rows"), *fence = json_object_get(task, "fence");
    struct pl_agent_protocol_input *inputs;
    const char **files;
    int r = read_task_id(json_object_get(task, "id"), &t->lease, err);

    if (r == 0 && !json_is_integer(fence))
        r = bad(err, "next", "task.fence");
    if (r < 0)
        return r;
    t->lease.fence = (int64_t)json_integer_value(fence);
    t->run = string_or(task, "run", "");
    t->job = string_or(task, "job", "");
    t->traceparent = string_or(task, "traceparent", "");
    r = make_room(rows, t, err);
    inputs = t->inputs;
    files = t->files;
    for (size_t i = 0; r == 0 && i < t->n_rows; i++)
        r = read_row(json_array_get(rows, i), &t->rows[i], &inputs, &files, err);
    return r;
}

int pl_agent_protocol_next_read(json_t *doc, enum pl_agent_protocol_next_kind *ret_kind, struct pl_agent_protocol_task *ret_task,
                                struct pl_err *err)
{
    struct pl_agent_protocol_task t = {.doc = doc};
    json_t *task = json_object_get(doc, "task");
    int r;

    if (json_is_object(task)) {
        r = read_task(task, &t, err);
        if (r < 0) {
            pl_agent_protocol_task_finish(&t);
            return r;
        }
        *ret_task = t;
        *ret_kind = PL_WIRE_TASK;
        return 0;
    }
    *ret_kind = json_is_true(json_object_get(doc, "end")) ? PL_WIRE_END : PL_WIRE_IDLE;
    r = json_is_object(doc) ? 0 : bad(err, "next", "task");
    json_decref(doc);
    return r;
}

void pl_agent_protocol_task_finish(struct pl_agent_protocol_task *t)
{
    free(t->rows);
    free(t->inputs);
    free(t->files);
    json_decref(t->doc);
    *t = (struct pl_agent_protocol_task){0};
}

static json_t *task_id_json(const struct pl_agent_protocol_lease *lease)
{
    return lease->task_is_number ? json_integer(strtoll(lease->task, NULL, 10)) : json_string(lease->task);
}

json_t *pl_agent_protocol_lease_json(const struct pl_agent_protocol_lease *lease)
{
    return json_pack("{s:o, s:I}", "task", task_id_json(lease), "fence", (json_int_t)lease->fence);
}

bool pl_agent_protocol_lease_is(const struct pl_agent_protocol_lease *lease, const json_t *task)
{
    struct pl_agent_protocol_lease other = {0};

    if (json_is_object(task))
        task = json_object_get(task, "task");
    return read_task_id(task, &other, NULL) == 0 && pl_streq(other.task, lease->task);
}

static json_t *output_json(const struct pl_agent_protocol_outcome *o)
{
    _cleanup_free_ char *base64 = NULL;
    char hex[PL_HASH_HEX + 1];

    if (!o->ops)
        return json_pack("{s:s}", "root", pl_hash_hex(&o->root, hex));
    if (pl_base64_encode(o->ops, o->ops_len, &base64, NULL) < 0)
        return NULL;
    return json_pack("{s:s}", "ops", base64);
}

static json_t *rusage_json(const struct pl_command_result *run)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "user_us", (json_int_t)run->user_us, "sys_us",
                     (json_int_t)run->sys_us, "max_rss_kb", (json_int_t)run->max_rss_kb, "minor_faults",
                     (json_int_t)run->minor_faults, "major_faults", (json_int_t)run->major_faults, "in_blocks",
                     (json_int_t)run->in_blocks, "out_blocks", (json_int_t)run->out_blocks, "voluntary_switches",
                     (json_int_t)run->voluntary_switches, "involuntary_switches", (json_int_t)run->involuntary_switches);
}

/* Returns the command's exit code in the way that a shell reports it. */
static int exit_code(const struct pl_command_result *run)
{
    if (run->how == PL_RUNNER_EXITED)
        return run->code;
    return run->how == PL_RUNNER_NO_EXEC ? 127 : run->how == PL_RUNNER_SIGNALED ? 0 : 126;
}

/* Builds the JSON of the outcome of one row. */
static json_t *row_json(const struct pl_agent_protocol_outcome *o, bool with_tail)
{
    const struct pl_command_result *run = &o->run;
    json_t *row = json_pack("{s:I, s:s, s:i, s:i, s:b, s:b, s:s, s:s, s:{s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I}, s:o}", "index",
                            (json_int_t)o->index, "state", o->success ? "success" : "failed", "exit_code", exit_code(run),
                            "signal", run->how == PL_RUNNER_SIGNALED ? run->code : 0, "oom", (int)o->oom, "timed_out",
                            (int)run->timed_out, "reason", o->reason, "tail", with_tail && o->tail ? o->tail : "", "ms", "wait",
                            (json_int_t)o->wait_ms, "fetch", (json_int_t)o->fetch_ms, "compute", (json_int_t)o->compute_ms,
                            "upload", (json_int_t)o->upload_ms, "held", (json_int_t)o->held_ms, "bytes", "in",
                            (json_int_t)o->bytes_in, "out", (json_int_t)o->bytes_out, "rusage", rusage_json(run));

    if (row && o->recovered && json_object_set_new(row, "recovered", json_true()) < 0) {
        json_decref(row);
        return NULL;
    }
    if (row && o->success && json_object_set_new(row, "output", output_json(o)) < 0) {
        json_decref(row);
        return NULL;
    }
    if (row && o->has_gpu &&
        json_object_set_new(row, "gpu",
                            json_pack("{s:i, s:I}", "util", (int)o->gpu_util, "mem_peak", (json_int_t)o->gpu_mem_peak)) < 0) {
        json_decref(row);
        return NULL;
    }
    return row;
}

/* Chooses the rows whose output tails are sent, within PL_AGENT_PROTOCOL_TAILS_MAX. Failed rows come first,
 * because users read their output. */
static void choose_tails(const struct pl_agent_protocol_outcome *outcomes, size_t n, bool *chosen)
{
    size_t left = PL_AGENT_PROTOCOL_TAILS_MAX;

    for (int success = 0; success <= 1; success++)
        for (size_t i = 0; i < n; i++) {
            size_t len = outcomes[i].tail ? strlen(outcomes[i].tail) : 0;
            if (outcomes[i].success == (success == 1) && len <= left) {
                chosen[i] = true;
                left -= len;
            }
        }
}

json_t *pl_agent_protocol_give_back_json(const struct pl_agent_protocol_lease *lease, const uint32_t *rows, size_t n)
{
    json_t *gave_back = json_array();

    for (size_t i = 0; gave_back && i < n; i++)
        if (json_array_append_new(gave_back, json_integer((json_int_t)rows[i])) < 0) {
            json_decref(gave_back);
            return NULL;
        }
    return json_pack("{s:o, s:I, s:[], s:o}", "task", task_id_json(lease), "fence", (json_int_t)lease->fence, "rows", "gave_back",
                     gave_back);
}

/* Adds the rows whose command was started and that are given back, and how long the worker was held for each. */
static bool add_begun(json_t *result, const struct pl_agent_protocol_outcome *outcomes, size_t n)
{
    json_t *begun = NULL;

    for (size_t i = 0; i < n; i++) {
        if (outcomes[i].lost || !outcomes[i].gave_back || outcomes[i].compute_ms == 0)
            continue;
        if (!begun && json_object_set_new(result, "begun", begun = json_array()) < 0)
            return false;
        if (json_array_append_new(begun, json_pack("[I, I]", (json_int_t)outcomes[i].index, (json_int_t)outcomes[i].held_ms)) < 0)
            return false;
    }
    return true;
}

json_t *pl_agent_protocol_result_json(const struct pl_agent_protocol_lease *lease,
                                      const struct pl_agent_protocol_outcome *outcomes, size_t n)
{
    json_t *rows = json_array(), *gave_back = json_array(), *result = NULL;
    _cleanup_free_ bool *tails = calloc(n + 1, sizeof(*tails));
    bool ok = rows && gave_back && tails;

    if (ok)
        choose_tails(outcomes, n, tails);
    for (size_t i = 0; ok && i < n; i++) {
        if (outcomes[i].lost)
            continue;
        if (outcomes[i].gave_back)
            ok = json_array_append_new(gave_back, json_integer((json_int_t)outcomes[i].index)) == 0;
        else
            ok = json_array_append_new(rows, row_json(&outcomes[i], tails[i])) == 0;
    }
    if (ok)
        result = json_pack("{s:o, s:I, s:O, s:O}", "task", task_id_json(lease), "fence", (json_int_t)lease->fence, "rows", rows,
                           "gave_back", gave_back);
    json_decref(rows);
    json_decref(gave_back);
    if (result && !add_begun(result, outcomes, n)) {
        json_decref(result);
        return NULL;
    }
    return result;
}

void pl_agent_protocol_outcome_finish(struct pl_agent_protocol_outcome *o)
{
    free(o->tail);
    free(o->ops);
    *o = (struct pl_agent_protocol_outcome){0};
}

/* Returns the length of the UTF-8 character that begins at `p`; 0 if it is invalid. */
static size_t character(const uint8_t *p, size_t n)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    return len <= n && p[0] != 0 && pl_utf8_ok(p, len) ? len : 0;
}

char *pl_agent_protocol_text(const uint8_t *data, size_t n, size_t max)
{
    struct pl_buf out = {.max = 3 * max + 1};
    size_t at = n > max ? n - max : 0;
    int r = pl_buf_reserve(&out, 1, NULL);

    if (at > 0) /* skip the rest of a character whose beginning was cut off */
        for (int i = 0; i < 3 && at < n && (data[at] & 0xc0) == 0x80; i++)
            at++;
    while (r == 0 && at < n) {
        size_t len = character(data + at, n - at);
        r = len ? pl_buf_add(&out, data + at, len, NULL) : pl_buf_add(&out, "\xef\xbf\xbd", 3, NULL);
        at += len ? len : 1;
    }
    if (r < 0) {
        pl_buf_finish(&out);
        return NULL;
    }
    return pl_buf_take_str(&out);
}
