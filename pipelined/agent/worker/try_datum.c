/* Reads the request, runs the datum with a worker of its own, writes the output into the folder, and writes
 * the answer. */
#include "pipelined/agent/worker/try_datum.h"

#include "pipelined/agent/inputs/input_entries.h"
#include "pipelined/agent/worker/stage_image.h"
#include "pipelined/agent/worker/try_shell.h"
#include "pipelined/text/glob.h"
#include "pipelined/text/json_text.h"
#include "storage/base/path.h"
#include "storage/store/store.h"
#include "storage/system/io.h"
#include <stdio.h>

#define REQUEST_MAX (64u << 20)
/* maximum number of tree nodes in the cache */
#define NODES_KEPT 8u

struct
try {
    json_t *request;
    struct pl_image image;
    struct pl_object_store *objects;
    struct pl_store *store;
    struct pl_worker *worker;
    struct pl_agent_protocol_task task;
    struct pl_agent_protocol_outcome outcome;
};

static const char *text_of(const struct try *t, const char *key)
{
    return json_string_value(json_object_get(t->request, key));
}

/* ---- the output: entries with the prefix before their paths ---- */

struct output {
    struct pl_entry_source all;
    const char *prefix;
    size_t prefix_len;
    char path[2 * PL_PATH_MAX_BYTES + 2];
    json_t *paths;
    json_int_t files;
    const json_t *expect; /* list of globs (output.expect); NULL = none */
    struct pl_glob *globs[PL_TRY_EXPECT_MAX];
    bool met[PL_TRY_EXPECT_MAX];
    size_t n_globs;
};

static void output_finish(struct output *o)
{
    for (size_t i = 0; i < o->n_globs; i++)
        pl_glob_destroy(o->globs[i]);
    json_decref(o->paths);
}

/* Compiles the globs of output.expect. */
static int compile_expect(struct output *o, struct pl_err *err)
{
    const json_t *one;
    size_t i;

    json_array_foreach(o->expect, i, one)
    {
        int r = i >= PL_TRY_EXPECT_MAX || !json_is_string(one)
                    ? pl_err_set(err, PL_EUSAGE, "\"expect\" in the request: use a list of at most %u globs", PL_TRY_EXPECT_MAX)
                    : pl_glob_compile(json_string_value(one), &o->globs[i], err);

        if (r < 0)
            return r;
        o->n_globs = i + 1;
    }
    return 0;
}

/* Returns the globs of output.expect that matched nothing, a new reference. */
static json_t *unmet_json(const struct output *o)
{
    json_t *list = json_array();

    for (size_t i = 0; i < o->n_globs; i++)
        if (!o->met[i])
            json_array_append(list, json_array_get(o->expect, i));
    return list;
}

/* Returns the next entry of the output, with the prefix before its path, and records the entry for the
 * answer. */
static int next_entry(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err)
{
    struct output *o = self;
    const char *path;
    size_t len;
    int r = o->all.next(o->all.self, &path, &len, ret, err);

    if (r <= 0)
        return r;
    if (o->prefix_len + len >= sizeof(o->path))
        return pl_err_set(err, PL_EPATH, "output %s%s: the path is longer than %d bytes", o->prefix, path, PL_PATH_MAX_BYTES);
    memcpy(o->path, o->prefix, o->prefix_len);
    memcpy(o->path + o->prefix_len, path, len);
    *ret_len = o->prefix_len + len;
    o->path[*ret_len] = 0;
    r = pl_path_check(o->path, *ret_len, err);
    if (r < 0)
        return pl_err_wrap(err, r, "output");
    *ret_path = o->path;
    o->files += ret->kind != PL_KIND_DIR;
    for (size_t i = 0; i < o->n_globs; i++)
        o->met[i] = o->met[i] || pl_glob_match_within(o->globs[i], o->path, *ret_len);
    if (json_array_size(o->paths) < PL_TRY_PATHS_MAX)
        json_array_append_new(o->paths, json_pack("{s:s, s:I}", "path", o->path, "size", (json_int_t)ret->size));
    return 1;
}

/* Writes the entries of the output into the folder. Without a folder it only reads them, so that names that
 * cannot be kept are still found. */
static int write_entries(struct try *t, struct output *o, struct pl_err *err)
{
    const struct pl_chunk_reader reader = pl_worker_reader(t->worker);
    const struct pl_entry_source entries = {.self = o, .next = next_entry};
    const struct pl_checkout_options options = {.replace = true, .own = true};
    const char *out = text_of(t, "out"), *path;
    struct pl_entry entry;
    size_t len;
    int r;

    if (out)
        return pl_checkout(&entries, &reader, out, &options, NULL, err);
    while ((r = next_entry(o, &path, &len, &entry, err)) > 0)
        ;
    return r;
}

static int write_tree(struct try *t, struct output *o, struct pl_err *err)
{
    const struct pl_chunk_reader reader = pl_worker_reader(t->worker);
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    _cleanup_(pl_node_cache_finish) struct pl_node_cache nodes = {0};
    struct pl_entry_source_tree tree = {0};
    struct pl_node_source source;
    int r = pl_node_cache_init(&nodes, &reader, NODES_KEPT, err);

    if (r < 0)
        return r;
    source = pl_node_cache_source(&nodes);
    r = pl_tree_cursor_create(&source, &t->outcome.root, NULL, 0, &cursor, err);
    if (r < 0)
        return r;
    tree.cursor = cursor;
    o->all = pl_entry_source_tree(&tree);
    return write_entries(t, o, err);
}

static int write_output(struct try *t, struct output *o, struct pl_err *err)
{
    struct pl_tree_ops_reader reader;
    int r;

    if (!t->outcome.ops)
        return write_tree(t, o, err);
    r = pl_tree_ops_reader_init(&reader, t->outcome.ops, t->outcome.ops_len, err);
    if (r < 0)
        return r;
    o->all = pl_entry_source_ops(&reader);
    return write_entries(t, o, err);
}

/* ---- request and answer ---- */

static void try_finish(struct try *t)
{
    pl_agent_protocol_outcome_finish(&t->outcome);
    pl_agent_protocol_task_finish(&t->task);
    pl_worker_destroy(t->worker);
    pl_store_close(t->store);
    pl_object_close(t->objects);
    pl_image_finish(&t->image);
    json_decref(t->request);
}

static int read_request(struct try *t, const char *path, struct pl_err *err)
{
    static const char *const texts[] = {"store", "work", "result", "sandbox"};
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = REQUEST_MAX};
    json_error_t where;
    int r = pl_io_read_file(path, &text, err);

    if (r < 0)
        return r;
    t->request = json_loadb((const char *)text.data, text.len, 0, &where);
    if (!t->request)
        return pl_err_set(err, PL_EUSAGE, "%s:%d: %s", path, where.line, where.text);
    for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++)
        if (!text_of(t, texts[i]))
            return pl_err_set(err, PL_EUSAGE, "%s: \"%s\" is missing", path, texts[i]);
    return 0;
}

static int read_task(struct try *t, struct pl_err *err)
{
    enum pl_agent_protocol_next_kind kind;
    int r = pl_agent_protocol_next_read(json_incref(json_object_get(t->request, "task")), &kind, &t->task, err);

    if (r == 0 && (kind != PL_WIRE_TASK || t->task.n_rows != 1))
        r = pl_err_set(err, PL_EUSAGE, "the task in the request must have exactly one datum");
    return r;
}

static int open_store(struct try *t, const char *project, struct pl_err *err)
{
    int r = pl_object_file_open(text_of(t, "store"), &t->objects, err);

    return r < 0 ? r : pl_store_open(t->objects, project, NULL, &t->store, err);
}

static int write_json(const struct try *t, const json_t *answer, struct pl_err *err)
{
    _cleanup_free_ char *text = answer ? pl_json_text(answer, JSON_COMPACT) : NULL;

    return text ? pl_io_write_file(text_of(t, "result"), text, strlen(text), 0600, err) : pl_err_nomem(err);
}

static void write_failure(const struct try *t, const struct pl_err *why)
{
    _cleanup_(json_decrefp) json_t *answer =
        json_pack("{s:{s:s, s:s, s:s}}", "error", "code", pl_err_info(why->code)->name, "message", why->msg, "hint", why->hint);

    (void)!write_json(t, answer, NULL);
}

static int write_answer(const struct try *t, const struct output *o, struct pl_err *err)
{
    const struct pl_agent_protocol_outcome *out = &t->outcome;
    const bool exited = out->run.how == PL_RUNNER_EXITED, killed = out->run.how == PL_RUNNER_SIGNALED;
    _cleanup_(json_decrefp) json_t *answer =
        json_pack("{s:b, s:b, s:b, s:b, s:s, s:i, s:i, s:{s:I, s:I, s:I}, s:{s:I, s:I}, s:I, s:O, s:o}", "success",
                  (int)out->success, "gave_back", (int)out->gave_back, "oom", (int)out->oom, "timed_out", (int)out->run.timed_out,
                  "reason", out->reason, "exit_code", exited ? out->run.code : 0, "signal", killed ? out->run.code : 0, "ms",
                  "fetch", (json_int_t)out->fetch_ms, "compute", (json_int_t)out->compute_ms, "upload",
                  (json_int_t)out->upload_ms, "bytes", "in", (json_int_t)out->bytes_in, "out", (json_int_t)out->bytes_out,
                  "files", o->files, "paths", o->paths, "unmet", out->success ? unmet_json(o) : json_array());

    return write_json(t, answer, err);
}

/* ---- the datum ---- */

static int make_worker(struct try *t, const struct pl_try_config *config, struct pl_err *err)
{
    const struct pl_worker_config worker = {
        .url = text_of(t, "url"),
        .token = config->token,
        .ca = config->ca,
        .name = "try",
        .incarnation = "1",
        .work = text_of(t, "work"),
        .runner = config->runner,
        .next = config->next,
        .extra_ro = config->extra_ro,
        .secrets = text_of(t, "secrets"),
        .image = t->image.doc ? &t->image : NULL,
        .cgroup = text_of(t, "cgroup"),
        .sandbox = pl_streq(text_of(t, "sandbox"), "none") ? PL_SANDBOX_NONE : PL_SANDBOX_BWRAP,
        .alone = t->store,
    };

    return pl_worker_create(&worker, &t->worker, err);
}

static int run_datum(struct try *t, const struct pl_try_config *config, struct pl_err *err)
{
    const bool shell = json_is_true(json_object_get(t->request, "shell"));
    const json_t *image = json_object_get(t->request, "image");
    struct pl_agent_protocol_attach stage;
    int r = pl_agent_protocol_attach_read(json_incref(json_object_get(t->request, "attach")), &stage, err);

    if (r < 0)
        return r;
    if (json_is_object(image)) /* before there are other threads */
        r = pl_stage_image_get(image, &t->image, err);
    r = r < 0 ? r : open_store(t, stage.project, err);
    r = r < 0 ? r : make_worker(t, config, err);
    if (r < 0) {
        pl_agent_protocol_attach_finish(&stage);
        return r;
    }
    config->on_worker(t->worker);
    r = pl_worker_run_alone(t->worker, &stage, &t->task, shell ? pl_shell_run : NULL, &t->outcome, err);
    config->on_worker(NULL);
    return r;
}

/* Writes the output of a successful datum. A name that a dataset cannot hold makes the datum fail, not the
 * request. */
static int keep_output(struct try *t, struct output *o, struct pl_err *err)
{
    struct pl_err why = {0};
    int r = t->outcome.success ? write_output(t, o, &why) : 0;

    if (r != PL_EPATH) {
        if (r < 0 && err)
            *err = why;
        return r;
    }
    t->outcome.success = false;
    snprintf(t->outcome.reason, sizeof(t->outcome.reason), "%s", why.msg);
    return 0;
}

static int answer_request(struct try *t, const struct pl_try_config *config, struct pl_err *err)
{
    const char *prefix = text_of(t, "prefix");
    _cleanup_(output_finish) struct output output = {.paths = json_array(),
                                                     .prefix = prefix ? prefix : "",
                                                     .prefix_len = prefix ? strlen(prefix) : 0,
                                                     .expect = json_object_get(t->request, "expect")};
    int r = output.paths ? read_task(t, err) : pl_err_nomem(err);

    r = r < 0 ? r : compile_expect(&output, err);
    r = r < 0 ? r : run_datum(t, config, err);
    r = r < 0 ? r : keep_output(t, &output, err);
    return r < 0 ? r : write_answer(t, &output, err);
}

int pl_try_run(const struct pl_try_config *config, struct pl_err *err)
{
    _cleanup_(try_finish) struct try t = {0};
    struct pl_err why = {0};
    int r = read_request(&t, config->request, err);

    if (r < 0)
        return r;
    r = answer_request(&t, config, &why);
    if (r < 0) {
        why.code = r;
        write_failure(&t, &why);
    }
    return 0;
}
