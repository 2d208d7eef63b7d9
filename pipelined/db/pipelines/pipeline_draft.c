/* pipeline_draft: the steps between the text of a spec and the transaction that sets its pipeline: parse it with the
 * defaults of its project, check rights, code folders and the cluster, store the texts. */
#include "pipelined/db/pipelines/pipeline_draft.h"

#include "pipelined/db/pipelines/defaults_tx.h"
#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/plan/datum_identity.h"
#include "pipelined/text/json_text.h"
#include "storage/dataset/gc/reachability.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/project_stores.h"
#include "storage/tree/tree_diff.h"

#include <stdio.h>

#define CHANGED_FILES_SHOWN 20 /* names of changed code files, per stage */

/* ---- context of the spec parser ---- */

struct context {
    struct pl_conn *conn;
    const struct pl_principal *who;
    const json_t *beside; /* as in the draft, like `pipeline` */
    const char *pipeline;
    char owner[PL_NAME_MAX_BYTES + 1];
    /* malloc'ed JSON: first the cluster's defaults, then the project's; the third element is NULL */
    char *defaults[3];
    struct pl_err failed; /* first error of a callback; if set, the callbacks' results are invalid */
};

static void context_finish(struct context *c)
{
    free(c->defaults[0]);
    free(c->defaults[1]);
}

static bool find_repo(struct context *c, const char *project, const char *repo, struct pl_repo_row *ret)
{
    struct pl_err err = {0};
    int r = pl_db_repo_seek(c->conn, project, repo, ret, &err);

    if (r < 0)
        c->failed = err;
    return r > 0;
}

/* Returns true if the repo exists or another draft makes it. Also returns true for a repo that the principal may not read, so that the
 * result does not reveal whether it exists; may_set refuses the request later. */
static bool repo_exists(void *self, const char *project, const char *repo)
{
    struct context *c = self;
    char key[2 * PL_NAME_MAX_BYTES + 2];
    const char *maker;
    struct pl_repo_row row;

    snprintf(key, sizeof key, "%s/%s", project, repo);
    maker = pl_json_text_at(c->beside, key);
    if (maker && !pl_streq(maker, c->pipeline))
        return true;
    return !pl_principal_may(c->who, PL_VERB_READ, project, repo) || find_repo(c, project, repo, &row);
}

static bool project_exists(void *self, const char *project)
{
    const struct context *c = self;

    return pl_db_project_check(c->conn, project, NULL) != PL_ENOTFOUND;
}

static const char *stage_owner(void *self, const char *project, const char *stage)
{
    struct context *c = self;
    _cleanup_free_ char *owner = NULL;
    struct pl_repo_row repo;
    struct pl_err err = {0};
    int r;

    if (!pl_principal_may(c->who, PL_VERB_READ, project, stage))
        return "";
    r = pl_db_stage_owner(c->conn, project, stage, &owner, &err);
    if (r < 0 && r != PL_ENOTFOUND)
        c->failed = err;
    if (r < 0)
        return find_repo(c, project, stage, &repo) && (repo.output || repo.kept) ? "" : NULL;
    snprintf(c->owner, sizeof c->owner, "%s", owner);
    return c->owner;
}

static const char *const *defaults(void *self, const char *project)
{
    struct context *c = self;
    struct pl_err err = {0};

    if (pl_db_defaults_read(c->conn, NULL, &c->defaults[0], &err) < 0 ||
        pl_db_defaults_read(c->conn, project, &c->defaults[1], &err) < 0)
        c->failed = err;
    return (const char *const *)c->defaults;
}

static bool network_off(void *self, const char *project)
{
    struct context *c = self;
    struct pl_err err = {0};
    bool off = false;

    if (pl_db_network_off(c->conn, project, &off, &err) < 0)
        c->failed = err;
    return off;
}

static json_t *problems_json(const struct pl_spec_problem *list, size_t n)
{
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_string(list[i].text));
    return out;
}

/* ---- the steps ---- */

void pl_pipeline_draft_finish(struct pl_pipeline_draft *d)
{
    pl_spec_destroy(d->spec);
    free(d->code);
    pl_store_release(&d->hold);
    pl_pack_set_finish(&d->hidden);
    pl_pipeline_args_finish(&d->args);
    json_decref(d->default_paths);
    json_decref(d->warnings);
    *d = (struct pl_pipeline_draft){0};
}

/* Replaces the refusal to read an input of another project, where the spec comes from a source: no role that an admin grants is the
 * source's. */
static int refuse_source(const struct pl_pipeline_draft *d, const struct pl_input *in, struct pl_err *err)
{
    return pl_err_set(err, PL_EFORBIDDEN,
                      "source \"%s\" may not read %s/%s: it has the rights of a writer of project \"%s\" alone, and can be given "
                      "no others: let a user who may read it set a pipeline of %s by hand that brings the data over "
                      "(pipelinectl create pipeline), and read the output of that one",
                      d->who->name, in->project, in->repo, d->spec->project, d->spec->project);
}

/* Checks that the principal may define stages in the project, and may read their inputs, because everyone who
 * may read the project can read what the stages write. */
static int may_set(const struct pl_pipeline_draft *d, struct pl_err *err)
{
    int r = pl_principal_check(d->who, PL_VERB_DEFINE, d->spec->project, NULL, err);

    for (size_t i = 0; i < d->spec->n_stages && r == 0; i++) {
        const struct pl_stage *stage = &d->spec->stages[i];

        for (size_t leaf = 0; leaf < stage->n_leaves && r == 0; leaf++) {
            const struct pl_input *in = stage->leaves[leaf];

            if (in->kind == PL_INPUT_LEAF)
                r = pl_principal_check(d->who, PL_VERB_READ, in->project, in->repo, err);
            if (r == PL_EFORBIDDEN && d->args.origin)
                r = refuse_source(d, in, err);
            if (r < 0)
                pl_err_wrap(err, r, "stage \"%s\": input \"%s\"", stage->name, in->name);
        }
    }
    return r;
}

int pl_pipeline_draft_parse(struct pl_pipeline_draft *d, const char *project, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(d->host->db);
    _cleanup_(context_finish) struct context c = {.conn = rd.conn, .who = d->who, .beside = d->beside, .pipeline = d->pipeline};
    struct pl_spec_context ctx = {.self = &c,
                                  .project = project,
                                  .defaults = defaults,
                                  .network_off = network_off,
                                  .repo_exists = repo_exists,
                                  .project_exists = project_exists,
                                  .stage_owner = stage_owner,
                                  .no_sandbox = d->host->no_sandbox,
                                  .local = d->host->local,
                                  .cluster = !d->host->local};
    int r = pl_spec_parse(d->text, strlen(d->text), d->filename, &ctx, &d->spec, &d->problems, err);

    if (c.failed.code < 0) {
        *err = c.failed;
        return c.failed.code;
    }
    json_decref(TAKE_PTR(d->default_paths));
    if (r == 0 && c.defaults[0] && c.defaults[1])
        r = pl_spec_default_paths(c.defaults[0], c.defaults[1], &d->default_paths, err);
    r = r < 0 ? r : may_set(d, err);
    /* before a store is opened for the project */
    return r < 0 ? r : pl_db_project_check(rd.conn, d->spec->project, err);
}

static int refuse_code(const char *stage, const char *key, const char *why, struct pl_err *err)
{
    char field[2 * PL_NAME_MAX_BYTES];

    snprintf(field, sizeof field, "code.%.60s%s%.24s", stage, *key ? "." : "", key);
    return pl_err_field(err, pl_err_set(err, PL_EINVAL, "%s: %s", field, why), field);
}

static bool is_setup(const char *name)
{
    const size_t n = strlen(name), m = strlen(PL_SETUP_SUFFIX);

    return n > m && pl_streq(name + n - m, PL_SETUP_SUFFIX);
}

/* Checks `code` of the request: {STAGE: {"root", "git"}} for stages that have a code folder. */
static int check_code(const struct pl_pipeline_draft *d, json_t *code, struct pl_err *err)
{
    const char *name, *key;
    json_t *one, *value;

    if (code && !json_is_object(code))
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "code: an object {STAGE: {\"root\", \"git\"}} is expected"), "code");
    json_object_foreach(code, name, one)
    {
        const struct pl_stage *stage = pl_spec_stage(d->spec, name);

        /* the client does not know the project's defaults, by which two stages may share the one that makes their environment */
        if (!stage && is_setup(name))
            continue;
        if (!stage || !stage->code)
            return refuse_code(name, "", stage ? "this stage of the spec has no \"code\"" : "the spec has no stage of that name",
                               err);
        if (!json_is_object(one))
            return refuse_code(name, "", "an object {\"root\", \"git\"} is expected", err);
        json_object_foreach(one, key, value)
        {
            bool git = pl_streq(key, "git");

            if (!git && !pl_streq(key, "root"))
                return refuse_code(name, key, "unknown; \"root\" and \"git\" are accepted", err);
            if (git ? !json_is_object(value) : !json_is_string(value))
                return refuse_code(name, key, git ? "an object is expected" : "a string is expected", err);
        }
    }
    return 0;
}

static int note_hidden(void *self, const struct pl_hash *pack, struct pl_err *err)
{
    struct pl_pipeline_draft *d = self;

    return pl_pack_set_add(&d->hidden, pack, err);
}

/* Reads and checks the tree root of a stage's code folder, which the client has uploaded. */
static int read_root(struct pl_pipeline_draft *d, const struct pl_stage *stage, const char *text, struct pl_hash *ret,
                     struct pl_err *err)
{
    struct pl_store *store;
    int r;

    if (!text)
        return pl_err_set(err, PL_EINVAL, "stage \"%s\" has \"code\": \"%s\", but the request has no code.%s.root", stage->name,
                          stage->code, stage->name);
    r = pl_hash_parse(text, ret, err);
    r = r < 0 ? r : pl_project_stores_get(d->host->stores, d->spec->project, &store, err);
    if (r < 0)
        return r;
    if (!d->hold.store)
        pl_store_hold(store, &d->hold);
    r = pl_reachability_check_tree(
        &(struct pl_reachability){.store = store, .hidden = note_hidden, .self = d, .effort = &d->effort}, ret, err);
    return r < 0 ? pl_err_wrap(err, r, "the code folder of stage \"%s\"", stage->name) : 0;
}

int pl_pipeline_draft_code(struct pl_pipeline_draft *d, json_t *code, struct pl_err *err)
{
    int r = check_code(d, code, err);

    if (r < 0)
        return r;
    d->code = calloc(d->spec->n_stages + 1, sizeof *d->code);
    if (!d->code)
        return pl_err_nomem(err);
    for (size_t i = 0; i < d->spec->n_stages; i++) {
        const struct pl_stage *stage = &d->spec->stages[i];
        json_t *one = json_object_get(code, stage->name);

        r = stage->code ? read_root(d, stage, json_string_value(json_object_get(one, "root")), &d->code[i].root, err) : 0;
        if (r < 0)
            return r;
        d->code[i].git = json_object_get(one, "git");
        pl_stage_code_identity(stage, stage->code ? &d->code[i].root : NULL, &d->code[i].identity);
    }
    return 0;
}

/* Stores the spec as written and in its effective form, as blobs; a dry run only computes their ids. */
static int store_specs(struct pl_pipeline_draft *d, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf effective = {0};
    struct pl_pack_sink sink;
    struct pl_store *store;
    int r = pl_spec_effective_json(d->spec, &effective, err);

    if (r < 0)
        return r;
    if (d->args.dry_run) {
        pl_hash_sha256(d->text, strlen(d->text), &d->args.user_spec);
        pl_hash_sha256(effective.data, effective.len, &d->args.effective_spec);
        return 0;
    }
    r = pl_project_stores_get(d->host->stores, d->spec->project, &store, err);
    if (r < 0)
        return r;
    if (!d->hold.store)
        pl_store_hold(store, &d->hold);
    sink = pl_store_sink(store);
    r = pl_pack_builder_open(&sink, d->spec->project, &session, err);
    r = r < 0 ? r : pl_pack_builder_add(session, PL_REC_BLOB, d->text, strlen(d->text), &d->args.user_spec, err);
    r = r < 0 ? r : pl_pack_builder_add(session, PL_REC_BLOB, effective.data, effective.len, &d->args.effective_spec, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

int pl_pipeline_draft_ready(struct pl_pipeline_draft *d, bool strict, struct pl_err *err)
{
    int r;

    d->warnings = problems_json(d->problems.warnings, d->problems.n_warnings);
    r = d->warnings ? d->host->check_stages(d->host->engine, d->spec, strict, d->warnings, err) : pl_err_nomem(err);
    r = r < 0 ? r : store_specs(d, err);
    d->args.spec = d->spec;
    d->args.code = d->code;
    d->args.defaults = d->default_paths;
    d->args.by = d->who->name;
    d->args.filename = d->filename;
    d->args.stands_on = &d->hidden;
    d->args.confirm_above_s = d->host->confirm_above_s;
    return r < 0 ? r : pl_pipeline_prepare(&d->args, d->host->db, err);
}

/* ---- what an update changes ---- */

struct changed_files {
    json_t *names; /* the first CHANGED_FILES_SHOWN */
    json_int_t count;
};

static int add_changed_file(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct changed_files *files = self;

    if (files->count++ < CHANGED_FILES_SHOWN && json_array_append_new(files->names, json_string(change->path)) < 0)
        return pl_err_nomem(err);
    return 0;
}

/* "" is the root of no files. */
static int read_root_at(const json_t *roots, size_t i, struct pl_hash *ret, struct pl_err *err)
{
    const char *text = json_string_value(json_array_get(roots, i));

    *ret = (struct pl_hash){0};
    return *text ? pl_hash_parse(text, ret, err) : 0;
}

int pl_pipeline_name_changed_files(struct pl_project_stores *stores, const char *project, json_t *entry, struct pl_err *err)
{
    const json_t *roots = json_object_get(entry, "code");
    struct changed_files files = {.names = json_array()};
    struct pl_hash before, after;
    struct pl_store *store;
    int r = pl_project_stores_get(stores, project, &store, err);

    r = r < 0 ? r : read_root_at(roots, 0, &before, err);
    r = r < 0 ? r : read_root_at(roots, 1, &after, err);
    if (r == 0)
        r = pl_tree_diff(&(struct pl_node_source){.self = store, .get = pl_store_node_get}, &before, &after, NULL, 0,
                         add_changed_file, &files, err);
    if (r == 0 && json_object_set_new(entry, "files", json_pack("{s:O, s:I}", "changed", files.names, "count", files.count)) < 0)
        r = pl_err_nomem(err);
    json_decref(files.names);
    (void)!json_object_del(entry, "code");
    return r;
}

int pl_pipeline_draft_name_files(struct pl_pipeline_draft *d, struct pl_err *err)
{
    json_t *entry;
    size_t i;
    int r = 0;

    json_array_foreach(d->args.changes, i, entry)
    {
        if (r == 0 && json_object_get(entry, "code"))
            r = pl_pipeline_name_changed_files(d->host->stores, d->spec->project, entry, err);
    }
    return r;
}
