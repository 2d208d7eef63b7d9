/* source_commit: texts from pl-git; two passes of the parser, because the specs of one commit may read each other's
 * outputs; code folders from pl-git into the project's store. */
#include "pipelined/source/source_commit.h"

#include "pipelined/source/git_files.h"
#include "pipelined/source/git_input.h"
#include "pipelined/spec/spec_documents.h"
#include "pipelined/text/json_text.h"
#include "pipelined/text/text_excerpt.h"
#include "storage/store/project_stores.h"

#include <stdio.h>

/* A spec: a file, or one of several documents of a file. */
struct pl_source_draft {
    char *path;              /* of the file in the repository */
    struct pl_buf text;      /* with its NUL */
    struct pl_spec *outline; /* from the first pass, which knows nothing but the text */
    json_t *code, *origin;
    struct pl_pipeline_draft draft;
    enum { UNSEEN, ON_THE_WAY, PLACED } order;
};

static void draft_finish(struct pl_source_draft *d)
{
    pl_pipeline_draft_finish(&d->draft);
    pl_spec_destroy(d->outline);
    pl_buf_finish(&d->text);
    json_decref(d->code);
    json_decref(d->origin);
    free(d->path);
}

void pl_source_commit_finish(struct pl_source_commit *c)
{
    for (size_t i = 0; i < c->n; i++)
        draft_finish(&c->drafts[i]);
    free(c->drafts);
    json_decref(c->warnings);
    json_decref(c->errors);
    json_decref(c->problems);
    pl_store_release(&c->hold);
    c->drafts = NULL;
    c->warnings = NULL;
    c->n = 0;
}

/* ---- files of the commit ---- */

static int warn(struct pl_source_commit *c, struct pl_err *err, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int warn(struct pl_source_commit *c, struct pl_err *err, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pl_json_add(c->warnings, json_string(pl_utf8_trim(text)), err);
}

/* ---- the first pass: texts and outlines ---- */

/* Makes room for one more draft. A draft is large: it has room for the mistakes of its spec. */
static int make_room(struct pl_source_commit *c, const char *path, struct pl_err *err)
{
    const size_t cap = PL_MIN(c->cap ? 2 * c->cap : 8, (size_t)PL_SOURCE_FILES_MAX);
    struct pl_source_draft *more;

    if (c->n < c->cap)
        return 0;
    if (c->n == PL_SOURCE_FILES_MAX)
        return pl_err_set(err, PL_ELIMIT, "%s: the commit has more than %u specs", path, PL_SOURCE_FILES_MAX);
    more = realloc(c->drafts, cap * sizeof *more);
    if (!more)
        return pl_err_nomem(err);
    c->drafts = more;
    c->cap = cap;
    return 0;
}

/* Adds a draft with the document of `len` bytes at `from`. */
static int add_draft(struct pl_source_commit *c, const char *path, const char *text, size_t from, size_t len, struct pl_err *err)
{
    struct pl_source_draft *d;
    int r = make_room(c, path, err);

    if (r < 0)
        return r;
    d = &c->drafts[c->n++];
    *d = (struct pl_source_draft){.path = strdup(path)};
    r = d->path ? pl_spec_document_text(text, from, len, &d->text, err) : pl_err_nomem(err);
    c->bytes += d->text.len;
    if (r == 0 && c->bytes > 2 * (uint64_t)PL_SOURCE_BYTES_MAX) /* each keeps its column, by blanks before it */
        r = pl_err_set(err, PL_ELIMIT, "%s: begin each spec on a line of its own", path);
    return r < 0 ? r : pl_buf_str(&d->text) ? 0 : pl_err_nomem(err);
}

static int add_file(struct pl_source_commit *c, struct pl_git_files *f, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    size_t at = 0, from, len;
    int r = pl_git_files_read(f, &text, err);

    if (r == 0 && pl_streq(f->kind, "link"))
        return pl_err_set(err, PL_EINVAL, "%s: is a symbolic link, and links to specs are not followed", f->path);
    if (r == 0 && f->lfs)
        return pl_err_set(err, PL_EINVAL, "%s: is a pointer of git LFS, whose content is not fetched: keep specs in git itself",
                          f->path);
    if (r == 0 && memchr(text.data, '\0', text.len))
        return pl_err_set(err, PL_EINVAL, "%s: holds a NUL byte", f->path);
    if (r == 0 && !pl_utf8_ok(text.data, text.len))
        return pl_err_set(err, PL_EINVAL, "%s: is not UTF-8", f->path);
    while (r == 0 && pl_spec_document_next((const char *)text.data, text.len, &at, &from, &len))
        r = add_draft(c, f->path, (const char *)text.data, from, len, err);
    return r;
}

static int read_specs(struct pl_source_commit *c, struct pl_err *err)
{
    struct pl_git_files f = {.git = c->git,
                             .copy = c->source,
                             .commit = c->id,
                             .folder = "",
                             .glob = c->path,
                             .n_max = PL_SOURCE_FILES_MAX,
                             .sum_max = PL_SOURCE_BYTES_MAX,
                             .ms = PL_GIT_READ_MS};
    int r = pl_git_files_ask(&f, err);

    while (r == 0 && (r = pl_git_files_next(&f, err)) > 0)
        r = add_file(c, &f, err);
    pl_git_files_finish(&f, r);
    if (r == 0 && c->n == 0)
        r = pl_err_set(err, PL_ENOTFOUND,
                       "no file of the commit matches \"%s\" (path): put specs there, or change the source's path", c->path);
    return r;
}

/* Keeps the texts of all mistakes that the parser has found, and the lines of the spec around them. */
static void keep_errors(struct pl_source_commit *c, const struct pl_source_draft *d, const struct pl_spec_errors *found)
{
    for (size_t i = 0; i < found->n_errors; i++) {
        const struct pl_spec_problem *p = &found->errors[i];
        json_t *problem = pl_text_excerpt((const char *)d->text.data, d->text.len, p->line, p->column);

        json_array_append_new(c->errors, json_string(p->text));
        json_object_set_new(problem, "path", json_string(d->path));
        json_object_set_new(problem, "line", json_integer((json_int_t)p->line));
        json_object_set_new(problem, "column", json_integer((json_int_t)p->column));
        json_object_set_new(problem, "field", json_string(p->path));
        json_object_set_new(problem, "text", json_string(pl_spec_problem_message(p, d->path)));
        json_array_append_new(c->problems, problem);
    }
}

/* Parses each text alone, and gathers the repos that the specs make. */
static int outline(struct pl_source_commit *c, json_t *beside, struct pl_err *err)
{
    _cleanup_free_ struct pl_spec_errors *found = calloc(1, sizeof *found);
    const struct pl_spec_context ctx = {.project = c->project};
    char key[2 * PL_NAME_MAX_BYTES + 2];

    if (!found)
        return pl_err_nomem(err);
    for (size_t i = 0; i < c->n; i++) {
        struct pl_source_draft *d = &c->drafts[i];
        const char *text = (const char *)d->text.data;
        int r = pl_spec_parse(text, strlen(text), d->path, &ctx, &d->outline, found, err);

        if (r < 0) {
            keep_errors(c, d, found);
            return r;
        }
        if (!pl_streq(d->outline->project, c->project))
            return pl_err_set(err, PL_EINVAL,
                              "%s: \"project\": \"%s\" is not accepted: source \"%s\" sets pipelines of project \"%s\"", d->path,
                              d->outline->project, c->source, c->project);
        for (size_t k = 0; k < d->outline->n_stages + d->outline->n_repos; k++) {
            const size_t n = d->outline->n_stages;

            snprintf(key, sizeof key, "%s/%s", c->project, k < n ? d->outline->stages[k].name : d->outline->repos[k - n].name);
            if (json_object_set_new(beside, key, json_string(d->outline->pipeline)) < 0)
                return pl_err_nomem(err);
        }
    }
    return 0;
}

/* Refuses a name that two files use. `seen`: {kind and name: path}. */
static int take_name(const struct pl_source_draft *d, const char *kind, const char *name, json_t *seen, struct pl_err *err)
{
    char key[PL_NAME_MAX_BYTES + 16];
    const char *before;

    snprintf(key, sizeof key, "%s %s", kind, name);
    before = json_string_value(json_object_get(seen, key));
    if (before)
        return pl_err_set(err, PL_EINVAL, "%s: %s \"%s\" is also in %s", d->path, kind, name, before);
    return json_object_set_new(seen, key, json_string(d->path)) < 0 ? pl_err_nomem(err) : 0;
}

static int refuse_twice(const struct pl_source_commit *c, json_t *seen, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < c->n; i++) {
        const struct pl_spec *spec = c->drafts[i].outline;

        r = take_name(&c->drafts[i], "pipeline", spec->pipeline, seen, err);
        for (size_t k = 0; r == 0 && k < spec->n_stages; k++)
            r = take_name(&c->drafts[i], "stage", spec->stages[k].name, seen, err);
    }
    return r;
}

/* ---- the order ---- */

/* {stage: index of its draft}; by it a draft comes after those whose outputs it reads. */
static int stage_index(const struct pl_source_commit *c, json_t *ret, struct pl_err *err)
{
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->drafts[i].outline->n_stages; k++)
            if (json_object_set_new(ret, c->drafts[i].outline->stages[k].name, json_integer((json_int_t)i)) < 0)
                return pl_err_nomem(err);
    return 0;
}

struct ordering {
    struct pl_source_commit *c;
    const json_t *stages;
    struct pl_source_draft *placed; /* room for all */
    size_t n;
};

/* Places the draft after those that it reads. At most PL_SOURCE_FILES_MAX deep. */
static int place(struct ordering *o, size_t i, struct pl_err *err)
{
    struct pl_source_draft *d = &o->c->drafts[i];
    const struct pl_spec *spec = d->outline;

    if (d->order == PLACED)
        return 0;
    d->order = ON_THE_WAY;
    for (size_t s = 0; s < spec->n_stages; s++)
        for (size_t k = 0; k < spec->stages[s].n_leaves; k++) {
            const struct pl_input *leaf = spec->stages[s].leaves[k];
            const json_t *at = leaf->kind == PL_INPUT_LEAF && pl_streq(leaf->project, o->c->project)
                                   ? json_object_get(o->stages, leaf->repo)
                                   : NULL;
            const size_t other = (size_t)json_integer_value(at);
            int r;

            if (!at || other == i)
                continue;
            if (o->c->drafts[other].order == ON_THE_WAY)
                return pl_err_set(err, PL_EINVAL, "%s: pipeline \"%s\" and pipeline \"%s\" read each other's outputs in a circle",
                                  d->path, spec->pipeline, o->c->drafts[other].outline->pipeline);
            r = place(o, other, err);
            if (r < 0)
                return r;
        }
    d->order = PLACED;
    o->placed[o->n++] = *d; /* the draft moves; `d` is only looked at */
    return 0;
}

static int put_in_order(struct pl_source_commit *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *stages = json_object();
    struct ordering o = {.c = c, .stages = stages, .placed = calloc(c->n, sizeof *o.placed)};
    int r = stages && o.placed ? stage_index(c, stages, err) : pl_err_nomem(err);

    for (size_t i = 0; r == 0 && i < c->n; i++)
        r = place(&o, i, err);
    if (r < 0) {
        free(o.placed);
        return r;
    }
    free(c->drafts);
    c->drafts = o.placed;
    return 0;
}

/* ---- code ---- */

/* Stores the files of a code folder as a tree. */
static int store_folder(struct pl_source_commit *c, const char *folder, const struct pl_stage *stage, struct pl_hash *ret,
                        struct pl_err *err)
{
    struct pl_git_files f = {.git = c->git,
                             .copy = c->source,
                             .commit = c->id,
                             .folder = folder,
                             .globs = stage->code_files,
                             .n_globs = stage->n_code_files,
                             .ignore = true,
                             .n_max = PL_CODE_FILES_MAX,
                             .sum_max = PL_CODE_BYTES_MAX,
                             .ms = PL_GIT_READ_MS};
    struct pl_store *store;
    int r = pl_project_stores_get(c->host->stores, c->project, &store, err);

    r = r < 0 ? r : pl_git_files_store(&f, store, c->project, "code folder", c->warnings, ret, NULL, err);
    if (r == 0 && f.n == 0)
        r = pl_err_set(err, PL_ENOTFOUND, "no file of the folder %s matches \"files\"", folder);
    return r;
}

/* Makes the path of the stage's code folder in the repository: that of the spec's folder, and `code` below it. */
static int folder_path(const struct pl_source_draft *d, const char *code, char out[PL_PATH_MAX_BYTES + 1], struct pl_err *err)
{
    const char *slash = strrchr(d->path, '/');
    const int len = slash ? (int)(slash - d->path) : 0;
    int n = pl_streq(code, ".") ? snprintf(out, PL_PATH_MAX_BYTES + 1, "%.*s", len, d->path)
                                : snprintf(out, PL_PATH_MAX_BYTES + 1, "%.*s%s%s", len, d->path, len ? "/" : "", code);

    return n > PL_PATH_MAX_BYTES ? pl_err_set(err, PL_EPATH, "%s: the path of the code folder is too long", d->path) : 0;
}

/* Stores the code folder of the stage, unless a stage before has the same (`known`: {folder and globs: root}). */
static int stage_code(struct pl_source_commit *c, struct pl_source_draft *d, const struct pl_stage *stage, json_t *known,
                      struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf key = {0};
    char folder[PL_PATH_MAX_BYTES + 1], hex[PL_HASH_HEX + 1];
    struct pl_hash root;
    int r = folder_path(d, stage->code, folder, err);

    r = r < 0 ? r : pl_buf_addf(&key, err, "%s", folder);
    for (size_t i = 0; r == 0 && i < stage->n_code_files; i++)
        r = pl_buf_addf(&key, err, "\n%s", stage->code_files[i]);
    if (r == 0 && !pl_buf_str(&key))
        r = pl_err_nomem(err);
    if (r < 0)
        return r;
    if (!json_object_get(known, pl_buf_str(&key))) {
        r = store_folder(c, folder, stage, &root, err);
        if (r < 0)
            return pl_err_wrap(err, r, "%s: the code of stage \"%s\"", d->path, stage->name);
        if (json_object_set_new(known, pl_buf_str(&key), json_string(pl_hash_hex(&root, hex))) < 0)
            return pl_err_nomem(err);
    }
    if (json_object_set_new(d->code, stage->name,
                            json_pack("{s:O, s:{s:s, s:b, s:s}}", "root", json_object_get(known, pl_buf_str(&key)), "git", "head",
                                      c->id, "dirty", 0, "path", folder)) < 0)
        return pl_err_nomem(err);
    return 0;
}

/* ---- the second pass ---- */

static json_t *origin_of(const struct pl_source_commit *c, const char *path)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I}", "source", c->source, "url", c->url, "branch", c->branch,
                     "commit", c->id, "path", path, "author", c->author, "message", c->message, "at",
                     (json_int_t)c->at_s * 1000000);
}

/* Checks one spec beside the others, and prepares it. */
static int prepare(struct pl_source_commit *c, struct pl_source_draft *d, const struct pl_principal *who, const json_t *beside,
                   json_t *known, struct pl_err *err)
{
    const json_t *text;
    size_t i;
    int r;

    d->origin = origin_of(c, d->path);
    d->code = json_object();
    if (!d->origin || !d->code)
        return pl_err_nomem(err);
    d->draft.host = c->host;
    d->draft.who = who;
    d->draft.text = (const char *)d->text.data;
    d->draft.filename = d->path;
    d->draft.beside = beside;
    d->draft.pipeline = d->outline->pipeline;
    d->draft.args.update = d->draft.args.confirmed = true;
    d->draft.args.dry_run = c->dry_run;
    d->draft.args.origin = d->origin;
    r = pl_pipeline_draft_parse(&d->draft, c->project, err);
    if (r < 0)
        keep_errors(c, d, &d->draft.problems);
    r = r < 0 ? r : pl_git_inputs_check(c->addresses, d->draft.spec, err);
    for (size_t k = 0; r == 0 && k < d->draft.spec->n_stages; k++)
        if (d->draft.spec->stages[k].code)
            r = stage_code(c, d, &d->draft.spec->stages[k], known, err);
    r = r < 0 ? r : pl_pipeline_draft_code(&d->draft, d->code, err);
    r = r < 0 ? r : pl_pipeline_draft_ready(&d->draft, false, err);
    if (r < 0)
        return strncmp(err->msg, d->path, strlen(d->path)) == 0 ? r : pl_err_wrap(err, r, "%s", d->path);
    json_array_foreach(d->draft.warnings, i, text)
    {
        r = r < 0 ? r : pl_json_add(c->warnings, json_incref((json_t *)text), err);
    }
    return r;
}

/* The rights of a source: those of a writer of its project, whoever pushes. */
static int make_principal(const struct pl_source_commit *c, struct pl_principal **ret, struct pl_err *err)
{
    struct pl_grant grant = {.role = PL_ROLE_WRITER};
    const struct pl_principal_user user = {
        .name = c->source, .token = "", .grants = &grant, .n_grants = 1, .limit = {.role = PL_ROLE_ADMIN}};

    snprintf(grant.scope, sizeof grant.scope, "%s", c->project);
    return pl_principal_user(&user, ret, err);
}

int pl_source_commit_read(struct pl_source_commit *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *beside = json_object(), *known = json_object(), *seen = json_object();
    _cleanup_(pl_principal_unrefp) struct pl_principal *who = NULL;
    struct pl_store *store;
    int r = pl_project_stores_get(c->host->stores, c->project, &store, err);

    if (r < 0)
        return r;
    pl_store_hold(store, &c->hold);
    c->warnings = json_array();
    c->errors = json_array();
    c->problems = json_array();
    r = beside && known && seen && c->warnings && c->errors && c->problems ? make_principal(c, &who, err) : pl_err_nomem(err);
    r = r < 0 ? r : read_specs(c, err);
    r = r < 0 ? r : outline(c, beside, err);
    r = r < 0 ? r : refuse_twice(c, seen, err);
    r = r < 0 ? r : put_in_order(c, err);
    for (size_t i = 0; r == 0 && i < c->n; i++)
        r = prepare(c, &c->drafts[i], who, beside, known, err);
    return r;
}

int pl_source_commit_apply(struct pl_source_commit *c, struct pl_source_apply *ret, struct pl_err *err)
{
    _cleanup_free_ struct pl_pipeline_args **pipelines = calloc(c->n + 1, sizeof *pipelines);
    bool changed = false;
    int r;

    *ret = (struct pl_source_apply){.name = c->source,
                                    .project = c->project,
                                    .commit = c->id,
                                    .created_us = c->created_us,
                                    .git = c->url,
                                    .branch = c->branch,
                                    .path = c->path,
                                    .asked = c->asked,
                                    .pipelines = pipelines,
                                    .n = c->n,
                                    .dry_run = c->dry_run};
    if (!pipelines)
        return pl_err_nomem(err);
    for (size_t i = 0; i < c->n; i++)
        pipelines[i] = &c->drafts[i].draft.args;
    r = pl_db_run(c->host->db, PL_TX_LOGGED, pl_tx_source_apply, ret, err);
    ret->pipelines = NULL;
    if (c->dry_run && r == PL_ECANCELED)
        return 0; /* rolled back, as it must be */
    if (r < 0)
        return ret->failed < c->n ? pl_err_wrap(err, r, "%s", c->drafts[ret->failed].path) : r;
    r = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct pl_pipeline_args *args = &c->drafts[i].draft.args;

        changed = changed || args->changed || args->restarted;
        if (args->stopped && r == 0)
            r = warn(c, err, "%s: pipeline \"%s\" is stopped: pipelinectl start pipeline %s", c->drafts[i].path,
                     args->spec->pipeline, args->spec->pipeline);
        if (args->skipped && r == 0)
            r = warn(c, err, "%s: pipeline \"%s\" was detached and is set by hand: delete the pipeline to have it set again",
                     c->drafts[i].path, args->spec->pipeline);
    }
    if (changed || json_array_size(ret->pruned) > 0)
        c->host->pipelines_changed(c->host->engine, ret->run);
    return r;
}

json_t *pl_source_commit_changes(struct pl_source_commit *c)
{
    json_t *list = json_array();

    for (size_t i = 0; i < c->n; i++) {
        struct pl_pipeline_draft *d = &c->drafts[i].draft;

        (void)!pl_pipeline_draft_name_files(d, NULL); /* the list is right without the names */
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:O}", "pipeline", d->spec->pipeline, "path", c->drafts[i].path,
                                              "change",
                                              d->args.restarted     ? "started"
                                              : !d->args.changed    ? "unchanged"
                                              : d->args.version > 1 ? "updated"
                                                                    : "created",
                                              "stages", d->args.changes));
    }
    return list;
}

void pl_source_commit_count(const struct pl_source_commit *c, size_t *ret_set, size_t *ret_changed, size_t *ret_started)
{
    *ret_set = *ret_changed = *ret_started = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct pl_pipeline_args *args = &c->drafts[i].draft.args;

        *ret_set += !args->skipped;
        *ret_changed += args->changed;
        *ret_started += args->restarted;
    }
}

json_t *pl_source_commit_left(const struct pl_source_apply *done, const char *name)
{
    switch (done->prune) {
    case PL_PRUNE_STOP:
        return json_sprintf("pipeline \"%s\" is in no file any more, and is stopped: pipelinectl delete pipeline %s", name, name);
    case PL_PRUNE_DELETE:
        return json_sprintf("pipeline \"%s\" was in no file any more, and was deleted with its outputs", name);
    default:
        return json_sprintf("pipeline \"%s\" is in no file any more, and still runs: pipelinectl delete pipeline %s", name, name);
    }
}

json_t *pl_source_commit_names(const struct pl_source_commit *c)
{
    json_t *names = json_array();

    for (size_t i = 0; i < c->n; i++)
        if (!c->drafts[i].draft.args.skipped)
            json_array_append_new(names, json_string(c->drafts[i].outline->pipeline));
    return names;
}
