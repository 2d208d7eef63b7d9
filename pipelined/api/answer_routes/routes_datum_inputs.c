/* The input files of one datum as a zip or tar archive: a folder for each input, named as below /pfs, with the files of its
 * match by their paths in the repo. Values of `params` are no files. */
#include "pipelined/api/answer_routes/reused_datums.h"

#include "pipelined/api/data_routes/archive_stream.h"
#include "pipelined/plan/datum_text.h"
#include "pipelined/spec/spec.h"
#include "pipelined/text/json_text.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

/* A datum of a job, kept or reused, with what the database knows of its inputs. */
struct wanted {
    struct pl_reused_job job;
    struct pl_hash datum;
    char *text;           /* its paths; NULL: the job has no kept attempt of it */
    struct pl_spec *spec; /* with the job's stage alone */
    int64_t at_us;
};

static void wanted_finish(struct wanted *w)
{
    free(w->text);
    pl_reused_job_finish(&w->job);
    pl_spec_destroy(w->spec);
}

/* Looks for a kept attempt of the datum, which is named by its id, a prefix of it, or its paths. */
static int find_attempt(struct pl_conn *c, const struct pl_http_request *req, struct wanted *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT datum, coalesce(json_extract(detail, '$.paths'), '') FROM attempt WHERE job = ?1"
                         " AND " PL_ATTEMPT_NAMED " ORDER BY datum LIMIT 1",
                         "is", ret->job.id, pl_http_param(req, "datum"));

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    ret->datum = pl_col_hash(&rows, 0);
    ret->text = strdup(pl_col_text(&rows, 1));
    return ret->text ? 0 : pl_err_nomem(err);
}

/* Finds the datum among those that the job reused. */
static int find_reused(struct pl_api *a, const struct pl_http_request *req, struct wanted *ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *found = NULL;
    int r = pl_reused_datum_find(a, req, &ret->job, pl_http_param(req, "datum"), &found, err);

    r = r < 0 ? r : pl_hash_parse(pl_json_str(found, "id"), &ret->datum, err);
    if (r < 0)
        return r;
    ret->text = strdup(pl_json_str(found, "paths"));
    return ret->text ? 0 : pl_err_nomem(err);
}

/* Parses the stored spec of a stage. */
static int parse_spec(const char *project, const char *pipeline, json_t *stage, struct pl_spec **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *spec =
        json_pack("{s:s, s:s, s:[O]}", "pipeline", pipeline, "project", project, "stages", stage);
    _cleanup_free_ char *text = spec ? pl_json_text(spec, JSON_COMPACT) : NULL;

    return text ? pl_spec_parse(text, strlen(text), "stored spec", NULL, ret, NULL, err) : pl_err_nomem(err);
}

static int read_wanted(struct pl_api *a, const struct pl_http_request *req, struct wanted *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *stage = NULL;
    const char *project = pl_http_param(req, "project");
    int r = pl_reused_job_read(rd.conn, req, &ret->job, err);

    r = r < 0 ? r : find_attempt(rd.conn, req, ret, err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows,
                             "SELECT j.pipeline, s.spec, j.created_us FROM job j JOIN stage s ON s.id = j.version"
                             " WHERE j.id = ?",
                             "i", ret->job.id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r == 0)
        return pl_err_set(err, PL_EGONE, "the pipeline of job %s of run %.8s was deleted: what its datums read is not known",
                          pl_http_param(req, "stage"), ret->job.run);
    if (r < 0)
        return r;
    stage = pl_col_json(&rows, 1);
    ret->at_us = pl_col_int(&rows, 2);
    return stage ? parse_spec(project, pl_col_text(&rows, 0), stage, &ret->spec, err) : pl_err_nomem(err);
}

/* Checks that the principal may read the input's repo, and that its commit is still there. */
static int check_commit(struct pl_api *a, const struct pl_http_request *req, const struct pl_input *in, const char *commit,
                        struct pl_err *err)
{
    struct pl_commit_ref ref = {.kind = PL_COMMIT_REF_ID};
    struct pl_commit_row row;
    int r = pl_api_may(req, PL_VERB_READ, in->project, in->repo, err);

    if (r < 0)
        return r;
    snprintf(ref.name, sizeof(ref.name), "%s", commit);
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = pl_db_commit_find(rd.conn, in->project, in->repo, &ref, &row, err);
    }
    return r == PL_ENOTFOUND
               ? pl_err_set(err, PL_EGONE, "commit %.8s of %s, which the datum read, does not exist any more", commit, in->repo)
               : r;
}

/* Makes the part of the archive for one input of the datum. */
static int make_part(struct pl_api *a, const struct pl_datum_text_part *from, const json_t *job_input,
                     struct pl_archive_part *ret, struct pl_err *err)
{
    const struct pl_input *in = from->input;
    struct pl_store *store = NULL;
    struct pl_entry entry;
    int r = pl_hash_parse(pl_json_str(job_input, "root"), &ret->root, err);

    r = r < 0 ? r : pl_project_stores_get(a->config.stores, in->project, &store, err);
    if (r < 0)
        return r;
    if (from->path_len > PL_PATH_MAX_BYTES)
        return pl_err_set(err, PL_EPATH, "a path of the datum is longer than %d bytes", PL_PATH_MAX_BYTES);
    ret->source = (struct pl_node_source){store, pl_store_node_get};
    ret->reader = pl_store_chunk_reader(store);
    snprintf(ret->top, sizeof(ret->top), "%s", in->name);
    ret->below_len = (size_t)snprintf(ret->below, sizeof(ret->below), "%.*s", (int)from->path_len, from->path);
    if (ret->below_len == 0)
        return in->n_files ? pl_glob_set_compile(in->files, in->n_files, &ret->files, err) : 0;
    r = pl_tree_get(&ret->source, &ret->root, ret->below, ret->below_len, &entry, err);
    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    ret->file = r == 0 && entry.kind != PL_KIND_DIR;
    if (ret->file)
        return 0;
    ret->below[ret->below_len++] = '/';
    ret->below[ret->below_len] = '\0';
    return in->n_files ? pl_glob_set_compile(in->files, in->n_files, &ret->files, err) : 0;
}

static int plan_inputs(struct pl_api *a, const struct pl_http_request *req, struct wanted *w, struct pl_archive_plan *plan,
                       struct pl_err *err)
{
    struct pl_datum_text_part from[PL_SPEC_LEAVES_MAX];
    int n, r = pl_archive_format_read(req, true, &plan->zip, err);

    r = r < 0 ? r : read_wanted(a, req, w, err);
    r = r < 0 || w->text ? r : find_reused(a, req, w, err);
    if (r < 0)
        return r;
    n = r = pl_datum_text_parse(&w->spec->stages[0], w->text, &w->datum, from, err);
    if (r == PL_ENOTFOUND)
        return pl_err_hint(err, r, "Its files are also read by: pipelinectl try %s --at %.8s --datum DATUM",
                           pl_http_param(req, "stage"), w->job.run);
    if (r < 0)
        return r;
    plan->parts = calloc((size_t)n + 1, sizeof(*plan->parts));
    if (!plan->parts)
        return pl_err_nomem(err);
    for (int i = 0; r >= 0 && i < n; i++) {
        const json_t *one = json_array_get(w->job.inputs, from[i].input->leaf);
        const char *commit = pl_json_str(one, "commit");

        if (!pl_input_reads(from[i].input) || !*commit) /* parameters, or a branch that had no commit yet */
            continue;
        r = check_commit(a, req, from[i].input, commit, err);
        r = r < 0 ? r : make_part(a, &from[i], one, &plan->parts[plan->n_parts++], err);
        if (r < 0)
            return pl_err_wrap(err, r, "input %s", from[i].input->name);
    }
    plan->at_us = w->at_us;
    return pl_archive_check_entries(plan, err);
}

static void get_inputs(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(wanted_finish) struct wanted w = {0};
    struct pl_archive_plan plan = {0};
    char hex[PL_HASH_HEX + 1];
    struct pl_err err = {0};

    if (plan_inputs(a, req, &w, &plan, &err) < 0) {
        pl_archive_plan_finish(&plan);
        pl_http_reply_error(req, &err);
        return;
    }
    /* a stage's name and an id need no escapes */
    snprintf(plan.file_name, sizeof(plan.file_name), "%s-%.8s-%.12s.%s", pl_http_param(req, "stage"), w.job.run,
             pl_hash_hex(&w.datum, hex), plan.zip ? "zip" : "tar");
    pl_archive_reply(req, &plan);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/datums/{datum}/inputs",
     .raw = get_inputs,
     .costly = true,
     .verb = PL_VERB_READ,
     .summary =
         "Returns the files that a datum read as a zip (default) or tar archive, with a folder for each input. The datum is "
         "named by its id, a prefix of it, or its paths; an attempt at it must be kept, or the job has reused its result. The "
         "principal must be allowed to "
         "read each input's repo. A reply that is cut off is incomplete.",
     .query = "format",
     .reply = "application/*"},
};
const struct pl_api_table pl_api_routes_datum_inputs = {.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)};
