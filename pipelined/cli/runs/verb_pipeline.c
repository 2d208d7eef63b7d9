/* The subcommands for pipelines. create and update first store the code folders that the spec file names,
 * then send the spec. */
#include "pipelined/cli/runs/example_folder.h"
#include "pipelined/cli/runs/stage_changes.h"

#include "pipelined/cli/local/code_folder.h"
#include "pipelined/cli/local/spec_file.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/confirm.h"
#include "pipelined/cli/support/run_wait.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/net/remote/remote.h"
#include "pipelined/text/json_position.h"
#include "pipelined/text/json_text.h"
#include "storage/base/path.h"
#include "storage/pack/pack_sink.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- create, update ---- */

struct setting {
    struct pl_cli *c;
    struct pl_cli_spec file;
    json_t *code; /* the code folders stored so far: {STAGE: {"root", "git"}} */
    bool update;
    json_t *answer;
    json_t *answers; /* with --wait: of all pipelines */
};

static void setting_finish(struct setting *s)
{
    pl_cli_spec_finish(&s->file);
    json_decref(s->code);
    json_decref(s->answer);
    json_decref(s->answers);
}

/* Returns the entry of an earlier stage with the same code, NULL if there is none. */
static json_t *same_code(const struct setting *s, size_t i)
{
    const struct pl_spec *spec = s->file.spec;

    for (size_t k = 0; k < i; k++)
        if (spec->stages[k].code && pl_stage_same_code(&spec->stages[k], &spec->stages[i]))
            return json_object_get(s->code, spec->stages[k].name);
    return NULL;
}

static int store_one(struct setting *s, struct pl_remote *remote, const struct pl_stage *stage, struct pl_err *err)
{
    _cleanup_free_ char *folder = pl_cli_spec_code_path(&s->file, stage);
    char hex[PL_HASH_HEX + 1];
    json_t *git = NULL, *entry;
    const struct pl_pack_sink sink = pl_remote_sink(remote);
    struct pl_hash root;
    int r =
        folder ? pl_cli_code_store(&sink, s->file.spec->project, folder, stage->code_files, stage->n_code_files, &root, &git, err)
               : pl_err_nomem(err);

    if (r < 0)
        return pl_err_wrap(err, r, "stage %s", stage->name);
    entry = json_pack("{s:s}", "root", pl_hash_hex(&root, hex));
    if (git)
        json_object_set_new(entry, "git", git);
    return json_object_set_new(s->code, stage->name, entry) < 0 ? pl_err_nomem(err) : 0;
}

/* Opens the upload session for code. If that fails with PL_ENOTFOUND, creates the project and tries again.
 * The project is not created unless it is missing, because only an admin may create projects. */
static int open_session(struct setting *s, struct pl_remote *remote, struct pl_err *err)
{
    int r = pl_remote_session(remote, err);

    if (r != PL_ENOTFOUND)
        return r;
    r = pl_cli_call(s->c, "POST", "/api/v1/projects", json_pack("{s:s, s:b}", "name", s->file.spec->project, "exist_ok", 1), NULL,
                    err);
    return r < 0 ? r : pl_remote_session(remote, err);
}

static int store_code(struct setting *s, struct pl_err *err)
{
    _cleanup_(pl_remote_closep) struct pl_remote *remote = NULL;
    const struct pl_spec *spec = s->file.spec;
    struct pl_http_client *client;
    json_t *same;
    int r = pl_cli_client(s->c, &client, err);

    for (size_t i = 0; i < spec->n_stages && r == 0; i++) {
        if (!spec->stages[i].code)
            continue;
        same = same_code(s, i);
        if (same) {
            json_object_set(s->code, spec->stages[i].name, same);
            continue;
        }
        if (!remote) {
            r = pl_remote_open(client, spec->project, &remote, err);
            r = r < 0 ? r : open_session(s, remote, err);
        }
        r = r < 0 ? r : store_one(s, remote, &spec->stages[i], err);
    }
    return r;
}

static int send_spec(struct setting *s, bool dry_run, bool yes, struct pl_err *err)
{
    const char *slash = strrchr(s->file.filename, '/');
    json_t *text = json_stringn((const char *)s->file.text.data, s->file.text.len);

    if (!text)
        return pl_err_set(err, PL_ESPEC, "%s is not UTF-8", s->file.filename);
    json_decref(s->answer);
    s->answer = NULL;
    return pl_cli_call(s->c, "POST", "/api/v1/pipelines",
                       json_pack("{s:o, s:s, s:s, s:O, s:b, s:b, s:b, s:b, s:b}", "spec", text, "filename",
                                 slash ? slash + 1 : s->file.filename, "project", s->file.spec->project, "code", s->code,
                                 "update", (int)s->update, "dry_run", (int)dry_run, "yes", (int)yes, "strict",
                                 (int)pl_cli_flag(s->c, "strict"), "detach", (int)pl_cli_flag(s->c, "detach")),
                       &s->answer, err);
}

/* If standard input is a terminal, shows what an update would run again and asks for confirmation. Sets
 * `*ret_yes` to true if the user has confirmed the cost. */
static int confirm(struct setting *s, bool *ret_yes, struct pl_err *err)
{
    char question[PL_NAME_MAX_BYTES + 32];
    int r;

    *ret_yes = pl_cli_flag(s->c, "yes");
    if (!s->update || !pl_cli_asks(s->c))
        return 0;
    r = send_spec(s, true, false, err);
    if (r < 0 || !json_is_true(pl_show_at(s->answer, "changed")))
        return r;
    pl_cli_stage_changes(s->c, pl_show_at(s->answer, "stages"));
    snprintf(question, sizeof question, "update pipeline %s?", s->file.spec->pipeline);
    r = pl_cli_ask(question, err);
    *ret_yes = r == 0;
    return r;
}

/* Returns the part of a warning after the file's name. Only this part is compared with pipelinectl's own
 * warnings, because the server's warning has the file's name without its folder. */
static const char *behind_name(const char *warning)
{
    const char *colon = strchr(warning, ':');

    return colon ? colon : warning;
}

/* Prints those warnings of the server that pipelinectl has not printed itself. The server checks more: for
 * example, it knows the cluster. */
static void print_warnings(const struct setting *s)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(s->answer, "warnings"), i, one)
    {
        const char *text = json_string_value(one);
        bool told = false;
        char shown[PL_ERR_MSG_BYTES];

        for (size_t k = 0; text && k < s->file.problems->n_warnings && !told; k++)
            told = strstr(s->file.problems->warnings[k].text, behind_name(text)) != NULL;
        if (text && !told && !s->c->quiet)
            fprintf(stderr, "%s (warning)\n", pl_show_clean(text, shown, sizeof shown));
    }
}

static void say(const struct setting *s, bool dry_run)
{
    const struct pl_cli *c = s->c;
    const char *name = pl_show_text_at(s->answer, "pipeline"), *run = pl_show_text_at(s->answer, "run");
    const struct pl_spec *spec = s->file.spec;
    const struct pl_input *first = spec->n_stages && spec->stages[0].n_leaves ? spec->stages[0].leaves[0] : NULL;
    char repo[PL_CLI_REPO_TEXT];

    if (c->json)
        return;
    if (!json_is_true(pl_show_at(s->answer, "changed"))) {
        pl_show_say(c, "pipeline %s: nothing changed (version %lld)\n", name, (long long)pl_show_int_at(s->answer, "version"));
        return;
    }
    pl_show_say(c, "pipeline %s %s%s (version %lld)\n", name, dry_run ? "would be " : "", s->update ? "updated" : "created",
                (long long)pl_show_int_at(s->answer, "version"));
    print_warnings(s);
    pl_cli_stage_changes(s->c, pl_show_at(s->answer, "stages"));
    if (dry_run)
        return;
    if (*run)
        pl_show_say(c, "run %s\n", run);
    else if (first && pl_input_reads(first))
        pl_show_say(c, "next: pipelinectl put file %s@%s:/ -r -f FOLDER\n", pl_cli_repo_text(first->project, first->repo, repo),
                    first->branch);
}

/* Creates or updates the pipeline that the file's current spec defines. */
static int set_one(struct setting *s, struct pl_err *err)
{
    bool dry_run = pl_cli_flag(s->c, "dry-run"), yes = false;
    int tries = 3, r;

    do {
        json_object_clear(s->code);
        r = store_code(s, err);
        r = r < 0 || dry_run || yes ? r : confirm(s, &yes, err);
        r = r < 0 ? r : send_spec(s, dry_run, yes, err);
    } while (r == PL_ERETRY && --tries > 0);
    if (r < 0)
        return r;
    say(s, dry_run);
    /* all pipelines are set before the first run is waited for */
    if (!pl_cli_flag(s->c, "wait"))
        return pl_cli_run_started(s->c, s->answer, err);
    return json_array_append(s->answers, s->answer) < 0 ? pl_err_nomem(err) : 0;
}

/* Waits for the runs of all pipelines that were set. Returns `r`, or the first error if that is 0. */
static int wait_for_all(const struct setting *s, int r, struct pl_err *err)
{
    const json_t *answer;
    size_t i;

    json_array_foreach(s->answers, i, answer)
    {
        struct pl_err why = {0};
        int ended = pl_cli_run_started(s->c, answer, &why);

        if (r == 0 && ended < 0) {
            r = ended;
            *err = why;
        }
    }
    return r;
}

/* Creates or updates the pipelines of the file in their order, because a pipeline may read what an earlier
 * one writes. */
static int set_pipeline(struct pl_cli *c, bool update, struct pl_err *err)
{
    _cleanup_(setting_finish) struct setting s = {.c = c, .update = update, .code = json_object(), .answers = json_array()};
    const char *filename = pl_cli_value(c, "file");
    int r;

    if (!filename)
        return pl_err_set(err, PL_EUSAGE, "%s pipeline needs a spec: give -f SPEC%s", c->verb->verb,
                          update ? "" : ", or --example NAME for one to start from");
    for (r = pl_cli_spec_read(c, filename, true, &s.file, err), r = r < 0 ? r : 1; r > 0; r = pl_cli_spec_next(c, &s.file, err)) {
        r = set_one(&s, err);
        if (r < 0)
            break;
    }
    return wait_for_all(&s, r, err);
}

static int create_pipeline(struct pl_cli *c, struct pl_err *err)
{
    const char *example = pl_cli_value(c, "example");

    if (example && pl_cli_value(c, "file"))
        return pl_err_set(err, PL_EUSAGE,
                          "--example copies an example into a folder; create it with -f afterwards: give one of the two");
    if (example && (pl_cli_flag(c, "dry-run") || pl_cli_flag(c, "strict") || pl_cli_flag(c, "wait")))
        return pl_err_set(err, PL_EUSAGE,
                          "--dry-run, --strict and --wait say nothing of --example, which only copies files: leave them out");
    if (example)
        return pl_cli_example_write(c, example, c->n_args ? c->args[0] : NULL, err);
    if (c->n_args)
        return pl_err_set(err, PL_EUSAGE,
                          "\"%.200s\" is not expected: a folder is given with --example alone; give a spec with -f SPEC",
                          c->args[0]);
    return set_pipeline(c, false, err);
}

static int update_pipeline(struct pl_cli *c, struct pl_err *err)
{
    return set_pipeline(c, true, err);
}

/* ---- list, inspect, delete ---- */

static void show_stages(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const json_t *one;
    size_t i, n = 0;

    (void)item;
    *out = '\0';
    json_array_foreach(value, i, one)
    {
        if (n < PL_SHOW_TEXT_MAX)
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s", i ? ", " : "", pl_show_text_at(one, "name"));
    }
}

/* Writes why a stage is out of date; of a pipeline with several such stages, how many they are and the first of them. */
static void show_freshness(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    static const char beginning[] = "out of date: ";
    const char *text = pl_show_text_at(value, "text");

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%s", text + (strncmp(text, beginning, strlen(beginning)) == 0 ? strlen(beginning) : 0));
}

static void show_stale(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const json_int_t n = json_integer_value(value);
    char why[PL_SHOW_TEXT_MAX];
    const json_t *one;
    size_t i;

    *out = '\0';
    json_array_foreach(pl_show_at(item, "stages"), i, one)
    {
        show_freshness(pl_show_at(one, "freshness"), one, why);
        if (!*why)
            continue;
        snprintf(out, PL_SHOW_TEXT_MAX, "%.60s: %.800s", pl_show_text_at(one, "name"), why);
        if (n > 1)
            snprintf(out + strlen(out), PL_SHOW_TEXT_MAX - strlen(out), " (and %lld more)", (long long)n - 1);
        return;
    }
}

static int list_pipeline(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"PIPELINE", "name", NULL},        {"VERSION", "version", NULL},
                                               {"STATE", "state", NULL},          {"UPDATED", "updated_us", pl_show_ago},
                                               {"STAGES", "stages", show_stages}, {"OUT OF DATE", "stale", show_stale}};
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/pipelines?project=%s", c->project);

    return pl_show_list(c, path, "pipelines", columns, PL_ARRAY_SIZE(columns), 0,
                        "no pipelines yet: pipelinectl create pipeline -f SPEC", err);
}

static int pipeline_path(const struct pl_cli *c, const char *query, char **ret, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    struct pl_cli_name at;
    int r = pl_cli_name(c, "pipeline", c->args[0], &at, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/pipelines/%s/%s", at.project, at.name);
    if (!path || asprintf(ret, "%s%s", path, query) < 0)
        return pl_err_nomem(err);
    return 0;
}

/* Prints what a run would do: a line for each stage. */
static void say_prices(const struct pl_cli *c, const json_t *answer)
{
    const json_t *one;
    size_t i;

    pl_show_say(c, "a run would have %zu stage%s; none was started\n", json_array_size(pl_show_at(answer, "prices")),
                json_array_size(pl_show_at(answer, "prices")) == 1 ? "" : "s");
    json_array_foreach(pl_show_at(answer, "prices"), i, one)
        pl_cli_stage_price(c, one, json_array_get(pl_show_at(answer, "prices"), 0)); /* a run begins with its own pipeline */
}

static int run_pipeline(struct pl_cli *c, struct pl_err *err)
{
    const char *stage = pl_cli_value(c, "stage");
    _cleanup_(json_decrefp) json_t *answer = NULL;
    _cleanup_free_ char *path = NULL;
    int r = pipeline_path(c, "/run", &path, err);

    r = r < 0 ? r
              : pl_cli_call(c, "POST", path,
                            json_pack("{s:s*, s:b, s:b}", "stage", stage, "force", (int)pl_cli_flag(c, "force"), "dry_run",
                                      (int)pl_cli_flag(c, "dry-run")),
                            &answer, err);
    if (r < 0)
        return r;
    if (pl_cli_flag(c, "dry-run") && !c->json)
        say_prices(c, answer);
    else if (!pl_cli_flag(c, "dry-run"))
        pl_show_say(c, "run %s of %zu stage%s\n", pl_show_text_at(answer, "run"), json_array_size(pl_show_at(answer, "stages")),
                    json_array_size(pl_show_at(answer, "stages")) == 1 ? "" : "s");
    return pl_cli_run_started(c, answer, err);
}

/* Stops or starts the pipeline; `ret`: the answer, which the caller prints. */
static int set_state(const struct pl_cli *c, const char *verb, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    int r = pipeline_path(c, verb, &path, err);

    return r < 0 ? r : pl_cli_call((struct pl_cli *)c, "POST", path, NULL, ret, err);
}

static int stop_pipeline(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL;
    int r = set_state(c, "/stop", &answer, err);

    if (r == 0 && json_is_true(pl_show_at(answer, "changed")))
        pl_show_say(c, "pipeline %s is stopped and keeps its outputs: pipelinectl start pipeline %s goes on\n", c->args[0],
                    c->args[0]);
    else if (r == 0)
        pl_show_say(c, "pipeline %s was stopped already\n", c->args[0]);
    return r < 0 || !c->json ? r : pl_show_json(answer, err);
}

static int start_pipeline(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL;
    int r = set_state(c, "/start", &answer, err);
    const char *run = pl_show_text_at(answer, "run");

    if (r < 0)
        return r;
    if (!json_is_true(pl_show_at(answer, "changed")))
        pl_show_say(c, "pipeline %s is not stopped; run pipeline %s begins a run\n", c->args[0], c->args[0]);
    else if (*run)
        pl_show_say(c, "pipeline %s started\nrun %s\n", c->args[0], run);
    else
        pl_show_say(c, "pipeline %s started; its inputs have no commit yet\n", c->args[0]);
    return pl_cli_run_started(c, answer, err);
}

static void show_code(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *head = pl_show_text_at(value, "head");

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.12s%s", head, json_is_true(pl_show_at(value, "dirty")) ? " (changed since)" : "");
}

/* ---- origins of fields ---- */

/* One row per field of a stage's effective spec. */
struct fields {
    const char *stage;
    const json_t *origins; /* {PATH: ORIGIN} */
    struct pl_buf path;
    json_t *rows;
};

static int add_fields(struct fields *f, const json_t *value, struct pl_err *err);

static int add_inner(struct fields *f, const char *key, size_t index, const json_t *value, struct pl_err *err)
{
    const size_t len = f->path.len;
    int r = key ? pl_json_path_key(&f->path, key, err) : pl_json_path_index(&f->path, index, err);

    r = r < 0 ? r : add_fields(f, value, err);
    f->path.len = len;
    return r;
}

static int add_fields(struct fields *f, const json_t *value, struct pl_err *err)
{
    const char *path = pl_buf_str(&f->path), *origin = path ? pl_json_text_at(f->origins, path) : NULL, *key;
    const json_t *inner;
    size_t i;
    int r = path ? 0 : pl_err_nomem(err);

    if (r == 0 && origin)
        return pl_json_add(f->rows,
                           json_pack("{s:s, s:s, s:O, s:s}", "stage", f->stage, "field", path, "value", value, "from", origin),
                           err);
    json_object_foreach((json_t *)(uintptr_t)value, key, inner)
    {
        r = r < 0 ? r : add_inner(f, key, 0, inner, err);
    }
    json_array_foreach((json_t *)(uintptr_t)value, i, inner)
    {
        r = r < 0 ? r : add_inner(f, NULL, i, inner, err);
    }
    return r;
}

static void show_value(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    _cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.60s%s", text ? text : "", text && strlen(text) > 60 ? "…" : "");
    pl_utf8_clean(out);
}

/* Says where a field comes from, as a person would. */
static void show_from(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    static const struct {
        const char *origin, *words;
    } all[] = {{"stage", "the stage"},
               {"spec", "the spec's defaults"},
               {"project", "the project's defaults"},
               {"cluster", "the cluster's defaults"},
               {"language", "the language's default"},
               {"unknown", "a default (not recorded)"}};
    const char *origin = json_string_value(value);

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%s", origin ? origin : "");
    for (size_t i = 0; origin && i < PL_ARRAY_SIZE(all); i++)
        if (pl_streq(all[i].origin, origin))
            snprintf(out, PL_SHOW_TEXT_MAX, "%s", all[i].words);
}

/* Prints the fields of all stages with their values and origins. */
static int tell_origins(const json_t *pipeline, struct pl_err *err)
{
    static const struct pl_column columns[] = {
        {"STAGE", "stage", NULL}, {"FIELD", "field", NULL}, {"VALUE", "value", show_value}, {"FROM", "from", show_from}};
    _cleanup_(json_decrefp) json_t *rows = json_array();
    struct fields f = {.rows = rows};
    const json_t *one;
    size_t i;
    int r = rows ? 0 : pl_err_nomem(err);

    json_array_foreach(pl_show_at(pipeline, "stages"), i, one)
    {
        f.stage = pl_show_text_at(one, "name");
        f.origins = pl_show_at(one, "origins");
        r = r < 0 ? r : add_fields(&f, pl_show_at(one, "spec"), err);
    }
    pl_buf_finish(&f.path);
    return r < 0 ? r : pl_show_table(rows, columns, PL_ARRAY_SIZE(columns), true, err);
}

/* Reads the version that --at names; 0 = none is named. */
static int read_version(const struct pl_cli *c, unsigned long long *ret, struct pl_err *err)
{
    const char *text = pl_cli_value(c, "at");
    char *end = NULL;

    *ret = 0;
    if (!text)
        return 0;
    errno = 0;
    if (*text >= '1' && *text <= '9')
        *ret = strtoull(text, &end, 10);
    if (end && !*end && errno == 0 && *ret <= INT64_MAX)
        return 0;
    return pl_err_set(err, PL_EUSAGE, "--at %.60s: the number of a version is expected: list version %s shows them", text,
                      c->args[0]);
}

static int inspect_pipeline(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {{"pipeline", "name", NULL},
                                             {"project", "project", NULL},
                                             {"version", "version", NULL},
                                             {"state", "state", NULL},
                                             {"stopped by", "stopped_by", NULL},
                                             {"created", "created_us", pl_show_time},
                                             {"updated", "updated_us", pl_show_time},
                                             {"spec", "filename", NULL},
                                             {"git", "origin", pl_show_origin}};
    static const struct pl_column stages[] = {{"STAGE", "name", NULL},   {"INPUTS", "inputs", NULL},
                                              {"GPU", "gpu", NULL},      {"BRANCH", "branch", NULL},
                                              {"GIT", "git", show_code}, {"OUT OF DATE", "freshness", show_freshness}};
    _cleanup_(json_decrefp) json_t *pipeline = NULL;
    _cleanup_free_ char *path = NULL;
    const bool origins = pl_cli_flag(c, "origins");
    unsigned long long version = 0;
    char query[64];
    int r = read_version(c, &version, err);

    snprintf(query, sizeof query, "?version=%llu%s", version, origins ? "&origins=1" : "");
    r = r < 0 ? r : pipeline_path(c, query, &path, err);
    r = r < 0 ? r : pl_cli_call(c, "GET", path, NULL, &pipeline, err);
    if (r == 0 && origins && !c->json)
        return tell_origins(pipeline, err);
    if (r == 0 && pl_cli_flag(c, "spec") && !c->json) {
        pl_show_print(stdout, "%s", pl_show_text_at(pipeline, "spec"));
        return 0;
    }
    r = r < 0 ? r : pl_show_object(c, pipeline, lines, PL_ARRAY_SIZE(lines), err);
    if (r < 0 || c->json)
        return r;
    putchar('\n');
    return pl_show_table(pl_show_at(pipeline, "stages"), stages, PL_ARRAY_SIZE(stages), true, err);
}

static int delete_pipeline(struct pl_cli *c, struct pl_err *err)
{
    static const char *const queries[] = {"", "keep_repos=1", "force=1", "keep_repos=1&force=1"};
    _cleanup_free_ char *path = NULL;
    int r = pipeline_path(c, "", &path, err);

    return r < 0 ? r
                 : pl_cli_delete(c, path, queries[pl_cli_flag(c, "keep-repos") + 2 * pl_cli_flag(c, "force")], "pipeline",
                                 c->args[0], err);
}

static const struct pl_option create_options[] = {
    {"file", 'f', "SPEC", "the spec, JSON; - for standard input"},
    {"dry-run", 0, NULL, "show what would happen, change nothing"},
    {"strict", 0, NULL, "refuse stages that the cluster cannot run now, and if it does not answer"},
    PL_CLI_WAIT,
    {"example", 0, "NAME", "copy an example into a folder to start from: plain or params"},
    {0}};
static const struct pl_option update_options[] = {{"file", 'f', "SPEC", "the spec, JSON; - for standard input"},
                                                  {"dry-run", 0, NULL, "show what would happen, change nothing"},
                                                  {"yes", 'y', NULL, "do not ask for confirmation, however much runs again"},
                                                  {"detach", 0, NULL, "set a pipeline by hand from now on that a source has set"},
                                                  {"strict", 0, NULL,
                                                   "refuse stages that the cluster cannot run now, and if it does not answer"},
                                                  PL_CLI_WAIT,
                                                  {0}};
static const struct pl_option run_options[] = {{"stage", 0, "STAGE", "only this stage and the stages that depend on it"},
                                               {"force", 0, NULL, "run every datum again, even if its result exists"},
                                               {"dry-run", 0, NULL,
                                                "show how many datums would run and be reused; start nothing"},
                                               PL_CLI_WAIT,
                                               {0}};
static const struct pl_option start_options[] = {PL_CLI_WAIT, {0}};
static const struct pl_option inspect_options[] = {{"spec", 0, NULL, "print the spec as it was written"},
                                                   {"origins", 0, NULL,
                                                    "print each field of the stages with its value and where it comes from"},
                                                   {"at", 0, "VERSION", "show an earlier version"},
                                                   {0}};
static const struct pl_option delete_options[] = {{"keep-repos", 0, NULL, "keep the stages' outputs, as input repos"},
                                                  {"force", 0, NULL, "delete it even if another pipeline reads its outputs"},
                                                  PL_CLI_YES,
                                                  {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "pipeline",
     "-f SPEC | --example NAME [FOLDER]",
     0,
     1,
     create_options,
     create_pipeline,
     "Creates a pipeline from a spec and the code folders beside it, and runs it on the data that is there.",
     {"create pipeline -f pipelines/digits/pipeline.json", "create pipeline -f spec.json --dry-run",
      "create pipeline --example plain"}},
    {"update",
     "pipeline",
     "-f SPEC",
     0,
     0,
     update_options,
     update_pipeline,
     "Updates a pipeline to its spec, and shows what that runs again. More GPU time than confirm_above needs --yes.",
     {"update pipeline -f spec.json", "update pipeline -f spec.json --dry-run", "update pipeline -f spec.json --yes"}},
    {"run",
     "pipeline",
     "NAME [--stage STAGE] [--force] [--dry-run]",
     1,
     1,
     run_options,
     run_pipeline,
     "Starts a run of a pipeline's stages on the current data of their inputs.",
     {"run pipeline digits", "run pipeline digits --dry-run", "run pipeline digits --stage train --force"}},
    {"stop",
     "pipeline",
     "NAME",
     1,
     1,
     NULL,
     stop_pipeline,
     "Stops a pipeline: kills its running jobs, and gives it no more until start. It keeps its outputs.",
     {"stop pipeline digits", "stop pipeline vision/photos", "stop pipeline digits --json"}},
    {"start",
     "pipeline",
     "NAME",
     1,
     1,
     start_options,
     start_pipeline,
     "Starts a stopped pipeline, with a run over the current data of its inputs.",
     {"start pipeline digits", "start pipeline vision/photos", "start pipeline digits --json"}},
    {"list",
     "pipeline",
     "",
     0,
     0,
     NULL,
     list_pipeline,
     "Lists pipelines with their stages, and which of these are out of date.",
     {"list pipeline", "ls pipelines --json", "--project vision list pipeline"}},
    {"inspect",
     "pipeline",
     "NAME [--spec|--origins] [--at VERSION]",
     1,
     1,
     inspect_options,
     inspect_pipeline,
     "Shows a pipeline and its stages, and which of these are out of date.",
     {"inspect pipeline digits", "inspect pipeline digits --spec --at 2", "inspect pipeline vision/photos --origins"}},
    {"delete",
     "pipeline",
     "NAME",
     1,
     1,
     delete_options,
     delete_pipeline,
     "Deletes a pipeline with its stages' outputs. On a terminal it asks if the outputs have commits.",
     {"delete pipeline digits", "delete pipeline digits --keep-repos", "delete pipeline digits --force --yes"}},
};
PL_CLI_TABLE(pipeline, verbs);
