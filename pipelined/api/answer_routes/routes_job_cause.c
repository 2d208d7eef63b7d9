/* Why a job ran: what changed since the stage's last job before it that succeeded. */
#include "pipelined/api/answer_routes/job_changes.h"
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/plan/stage_change.h"
#include "pipelined/text/json_text.h"

#define JOBS_BEFORE 1000 /* number of earlier jobs of the stage among which the last good one is looked for */

/* One of the two jobs that are compared. */
struct side {
    char run[PL_ID_HEX + 1]; /* "" = there is no such job */
    bool planned;            /* its inputs are known */
    json_t *inputs, *spec;   /* spec: JSON null if the pipeline's version is gone */
    struct pl_hash code, code_root;
};

/* State of one request. No database reader is held while trees are read. */
struct cause {
    struct pl_api *api;
    const struct pl_http_request *req;
    struct side now, before;
    char rerun_of[PL_ID_HEX + 1]; /* "" = the run is not a rerun */
    struct pl_effort effort;
    struct pl_buf text; /* the sentence */
};

static void cause_finish(struct cause *c)
{
    json_decref(c->now.inputs);
    json_decref(c->now.spec);
    json_decref(c->before.inputs);
    json_decref(c->before.spec);
    pl_buf_finish(&c->text);
}

/* ---- reading both jobs ---- */

static int read_side(struct pl_conn *c, int64_t job, struct side *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(
        c, err, &rows,
        "SELECT j.run, j.inputs, s.spec, coalesce(j.code, zeroblob(32)), coalesce(s.code_root, zeroblob(32)), j.planned"
        " FROM job j LEFT JOIN stage s ON s.id = j.version WHERE j.id = ?",
        "i", job);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    snprintf(ret->run, sizeof(ret->run), "%s", pl_col_text(&rows, 0));
    ret->inputs = pl_col_json(&rows, 1);
    ret->spec = pl_col_json(&rows, 2);
    ret->code = pl_col_hash(&rows, 3);
    ret->code_root = pl_col_hash(&rows, 4);
    ret->planned = pl_col_int(&rows, 5) != 0;
    return ret->inputs && ret->spec ? 0 : pl_err_nomem(err);
}

static int read_jobs(struct cause *c, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(c->api->config.db);
    _cleanup_free_ char *of = NULL;
    char run[PL_ID_HEX + 1];
    int64_t job = 0, before = 0;
    int r = pl_api_job_find(rd.conn, pl_http_param(c->req, "project"), pl_http_param(c->req, "stage"),
                            pl_http_param(c->req, "run"), &job, run, err);

    r = r < 0 ? r : read_side(rd.conn, job, &c->now, err);
    r = r < 0 ? r : pl_sql_text(rd.conn, err, &of, "SELECT coalesce(of_run, '') FROM run WHERE id = ?", "s", run);
    if (r < 0)
        return r;
    snprintf(c->rerun_of, sizeof(c->rerun_of), "%s", of);
    /* of the JOBS_BEFORE jobs before it; runs on a branch of their own are experiments, and do not count */
    r = pl_sql_int(
        rd.conn, err, &before,
        "SELECT id FROM (SELECT b.id, b.state, b.run FROM job j JOIN job b ON b.project = j.project AND b.stage = j.stage"
        " AND b.id < j.id WHERE j.id = ? ORDER BY b.id DESC LIMIT ?) WHERE state = 'success'"
        " AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = run AND r.as_branch IS NOT NULL) LIMIT 1",
        "ii", job, (int64_t)JOBS_BEFORE);
    return r == PL_ENOTFOUND ? 0 : r < 0 ? r : read_side(rd.conn, before, &c->before, err);
}

/* ---- the sentence ---- */

/* Begins one more part of the sentence. */
static int begin_part(struct cause *c, struct pl_err *err)
{
    return c->text.len > 0 ? pl_buf_add_str(&c->text, "; ", err) : 0;
}

static int add_part(struct cause *c, const char *what, const char *more, struct pl_err *err)
{
    const int r = begin_part(c, err);

    return r < 0 ? r : pl_buf_addf(&c->text, err, "%s%s", what, more);
}

/* ---- code and spec ---- */

/* Adds "code changed: train.py, net.py and 3 more". */
static int add_code_text(struct cause *c, const struct pl_file_changes *changes, struct pl_err *err)
{
    const uint64_t all = pl_file_changes_sum(changes);
    const json_t *name;
    size_t i;
    int r = begin_part(c, err);

    r = r < 0 ? r : pl_buf_add_str(&c->text, "code changed", err);
    json_array_foreach(changes->named, i, name)
    {
        r = r < 0 ? r : pl_buf_addf(&c->text, err, "%s%s", i ? ", " : ": ", json_string_value(name));
    }
    return r < 0 || all <= i ? r : pl_buf_addf(&c->text, err, " and %llu more", (unsigned long long)(all - i));
}

static int add_code(struct cause *c, json_t *out, struct pl_err *err)
{
    struct pl_file_changes changes = {0};
    const struct pl_file_filter all = {0};
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_store *store;
    int r;

    if (pl_hash_eq(&c->now.code_root, &c->before.code_root) || json_is_null(c->now.spec) || json_is_null(c->before.spec))
        return 0;
    r = pl_project_stores_get(c->api->config.stores, pl_http_param(c->req, "project"), &store, err);
    source.self = store;
    r = r < 0 ? r : pl_file_changes_count(&source, &c->before.code_root, &c->now.code_root, &all, &c->effort, &changes, err);
    r = r < 0 ? r : add_code_text(c, &changes, err);
    if (r >= 0 && json_object_set(out, "code", changes.named) < 0)
        r = pl_err_nomem(err);
    json_decref(changes.named);
    return r;
}

/* Returns the fields of a spec that change what the stage computes (datum_identity.h), but for the code. */
static json_t *computing(const json_t *spec)
{
    static const char *const keys[] = {"image", "run", "script", "env", "user", "stdin", "python", "input", "cache"};
    json_t *out = json_object();

    for (size_t i = 0; out && i < PL_ARRAY_SIZE(keys); i++)
        if (json_object_get(spec, keys[i]) && json_object_set(out, keys[i], json_object_get(spec, keys[i])) < 0)
            json_decref(TAKE_PTR(out));
    return out;
}

/* Adds those fields if they differ. */
static int add_spec(struct cause *c, json_t *out, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *before = computing(c->before.spec), *now = computing(c->now.spec);
    char what[PL_STAGE_CHANGE_MAX];

    if (!before || !now)
        return pl_err_nomem(err);
    if (json_is_null(c->now.spec) || json_is_null(c->before.spec))
        return 0;
    pl_stage_change_text(before, now, false, what);
    if (!what[0])
        return 0;
    if (json_object_set_new(out, "spec", json_string(what)) < 0)
        return pl_err_nomem(err);
    return add_part(c, "spec changed: ", what, err);
}

/* ---- inputs ---- */

/* Returns the input of the earlier job that reads the same branch under the same name; NULL = none. */
static const json_t *same_input(const json_t *inputs, const json_t *in)
{
    static const char *const keys[] = {"name", "project", "repo", "branch"};
    const json_t *one;
    size_t i;

    json_array_foreach(inputs, i, one)
    {
        bool same = true;

        for (size_t k = 0; k < PL_ARRAY_SIZE(keys); k++)
            same = same && pl_streq(pl_json_str(one, keys[k]), pl_json_str(in, keys[k]));
        if (same)
            return one;
    }
    return NULL;
}

static void filter_finish(struct pl_file_filter *f)
{
    pl_glob_destroy(f->glob);
    pl_glob_set_destroy(f->files);
}

/* Compiles `glob` and `files` of an input of the stage's spec; NULL or JSON null: all files. */
static int filter_of(const json_t *leaf, struct pl_file_filter *ret, struct pl_err *err)
{
    const char *glob = pl_json_str(leaf, "glob");
    int r = *glob ? pl_glob_compile(glob, &ret->glob, err) : 0;

    return r < 0 ? r : pl_job_input_files(leaf, &ret->files, err);
}

/* Returns 1 if the commit that an input read is still there, else 0: garbage collection may have removed its files. */
static int is_there(struct cause *c, const json_t *in, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(c->api->config.db);
    struct pl_commit_row row;
    int r =
        pl_db_commit_named(rd.conn, pl_json_str(in, "project"), pl_json_str(in, "repo"), pl_json_str(in, "commit"), &row, err);

    return r == PL_ENOTFOUND ? 0 : r < 0 ? r : 1;
}

/* Counts what changed in one input, and adds it to the list and to the sentence. */
static int compare_input(struct cause *c, const json_t *in, const json_t *old, const json_t *leaf, json_t *list,
                         struct pl_err *err)
{
    _cleanup_(filter_finish) struct pl_file_filter filter = {0};
    struct pl_file_changes changes = {0};
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_hash before, after;
    struct pl_store *store = NULL;
    int r = pl_hash_parse(pl_json_str(old, "root"), &before, err);

    r = r < 0 ? r : pl_hash_parse(pl_json_str(in, "root"), &after, err);
    r = r < 0 ? r : filter_of(leaf, &filter, err);
    r = r < 0 ? r : pl_project_stores_get(c->api->config.stores, pl_json_str(in, "project"), &store, err);
    source.self = store;
    r = r < 0 ? r : pl_file_changes_count(&source, &before, &after, &filter, &c->effort, &changes, err);
    if (r >= 0 && pl_file_changes_sum(&changes) > 0)
        r = begin_part(c, err);
    r = r < 0 ? r : pl_file_changes_text(&changes, pl_json_str(in, "repo"), &c->text, err);
    r = r < 0 ? r
              : pl_json_add(list,
                            json_pack("{s:O, s:O, s:O, s:O, s:O, s:I, s:I, s:I, s:b, s:s, s:O}", "name",
                                      json_object_get(in, "name"), "project", json_object_get(in, "project"), "repo",
                                      json_object_get(in, "repo"), "from", json_object_get(old, "commit"), "to",
                                      json_object_get(in, "commit"), "added", (json_int_t)changes.added, "changed",
                                      (json_int_t)changes.changed, "removed", (json_int_t)changes.removed, "more",
                                      (int)changes.more, "folder", changes.folder, "paths", changes.named),
                            err);
    json_decref(changes.named);
    return r;
}

/* An input without a comparable earlier state: `note` says why. */
static int note_input(const json_t *in, const char *note, json_t *list, struct pl_err *err)
{
    return pl_json_add(list, json_pack("{s:O, s:s}", "name", json_object_get(in, "name"), "note", note), err);
}

static int add_input(struct cause *c, size_t index, const json_t *in, json_t *list, struct pl_err *err)
{
    const json_t *old = same_input(c->before.inputs, in), *leaf = pl_job_input_leaf(c->now.spec, index);
    const char *repo = pl_json_str(in, "repo");
    int r;

    if (!*repo || pl_streq(pl_json_str(in, "root"), pl_json_str(old, "root")))
        return 0;
    if (!pl_access_may_read(pl_http_context(c->req), pl_json_str(in, "project"), repo))
        return note_input(in, "it comes from a repo that you may not read", list, err);
    if (!old || !*pl_json_str(old, "root") || !*pl_json_str(in, "root")) {
        r = add_part(c, "new input: ", repo, err);
        return r < 0 ? r : note_input(in, "the job before did not read it", list, err);
    }
    r = is_there(c, old, err);
    r = r <= 0 ? r : is_there(c, in, err);
    return r < 0    ? r
           : r == 0 ? note_input(in, "the commit has been deleted", list, err)
                    : compare_input(c, in, old, leaf, list, err);
}

/* ---- the reply ---- */

static int compare(struct cause *c, json_t *out, struct pl_err *err)
{
    json_t *inputs = json_object_get(out, "inputs");
    const json_t *in;
    size_t i;
    char of[9] = "";
    int r;

    snprintf(of, sizeof(of), "%.8s", c->rerun_of); /* as ids are shown to people */
    r = *of ? add_part(c, "run again: the jobs of run ", of, err) : 0;
    if (r >= 0 && !c->now.planned)
        return add_part(c, "its datums are not known: it was not planned", "", err);
    if (!*c->before.run)
        return r < 0 || *of ? r : add_part(c, "the stage has not succeeded before", "", err);
    r = r < 0 ? r : add_code(c, out, err);
    r = r < 0 ? r : add_spec(c, out, err);
    json_array_foreach(c->now.inputs, i, in)
    {
        r = r < 0 ? r : add_input(c, i, in, inputs, err);
    }
    if (r >= 0 && c->text.len == 0)
        r = add_part(c, "nothing that it reads changed", "", err);
    return r;
}

static int get_cause(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(cause_finish) struct cause c = {.api = a, .req = req, .effort = pl_request_effort(req)};
    _cleanup_(json_decrefp) json_t *out = NULL;
    int r = read_jobs(&c, err);

    if (r < 0)
        return r;
    out = json_pack("{s:s, s:s, s:s, s:[]}", "run", c.now.run, "before", c.before.run, "rerun_of", c.rerun_of, "inputs");
    r = out ? compare(&c, out, err) : pl_err_nomem(err);
    r = r < 0 ? r : pl_buf_add(&c.text, "", 1, err);
    if (r < 0)
        return r;
    if (json_object_set_new(out, "text", json_string(pl_utf8_clean((char *)c.text.data))) < 0)
        return pl_err_nomem(err);
    *ret = json_incref(out);
    return 0;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/cause",
     .json = get_cause,
     .verb = PL_VERB_READ,
     .costly = true,
     .summary = "Returns why a job ran: what changed in its inputs, code and spec since the stage's last job before it that "
                "succeeded (`before`; \"\" = there is none), and that as a sentence. Of inputs only files count that the "
                "stage's globs select.",
     .reply = "JobCause"},
};

static const struct pl_api_schema schemas[] = {
    {"JobCause", "run:string before:string rerun_of:string text:string code:string[]? spec:string? inputs:CauseInput[]"},
    {"CauseInput", "name:string project:string? repo:string? from:string? to:string? added:integer? changed:integer? "
                   "removed:integer? more:boolean? folder:string? paths:string[]? note:string?"},
};

PL_API_TABLE(job_cause, routes, schemas);
