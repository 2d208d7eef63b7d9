/* rerun: checks that the jobs of the earlier run can be repeated over the commits that they read, and creates
 * the new run. A retry checks the same for its one job. */
#include "pipelined/db/pipelines/rerun.h"

#include "pipelined/db/pipelines/pipeline_state.h"
#include "pipelined/db/tx/job_tx.h"
#include "pipelined/db/tx/rerun_branch.h"
#include "pipelined/db/writer/name_lookup.h"

#include <stdio.h>

static int check_over(struct pl_conn *c, const char *run, struct pl_err *err)
{
    int64_t running = 0;
    int r = pl_sql_int(c, err, &running, "SELECT state = 'running' FROM run WHERE id = ?", "s", run);

    if (r == PL_ENOTFOUND)
        return pl_err_set(err, r, "there is no run %.8s", run);
    if (r == 0 && running) {
        r = pl_err_set(err, PL_EINUSE, "run %.8s has not ended", run);
        return pl_err_hint(err, r, "Wait for it: pipelinectl wait run ID");
    }
    return r;
}

/* Says whether a job of the rerun writes this branch before the stage reads it. With `failed`, only
 * unsuccessful jobs are repeated, and a stage that reads its own output reads the commit from before the
 * rerun. */
static int is_output(struct pl_conn *c, const struct pl_rerun_args *a, const char *stage, const char *project, const char *repo,
                     const char *branch, bool *ret, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n,
                       "SELECT count(*) FROM job j JOIN stage s ON s.project = j.project AND s.name = j.stage AND s.current = 1"
                       " WHERE j.run = ?1 AND j.project = ?2 AND j.stage = ?3 AND s.branch = ?4"
                       " AND (NOT ?5 OR (j.state <> 'success' AND j.stage <> ?6))",
                       "ssssis", a->of, project, repo, branch, (int64_t)a->failed, stage);

    *ret = n > 0;
    return r;
}

/* Refuses if an unfinished run may write the branch before the rerun reads it. */
static int check_settled(struct pl_conn *c, const char *project, const char *repo, const char *branch, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT j.run FROM job j JOIN run r ON r.id = j.run"
                         " WHERE j.project = ? AND j.stage = ? AND j.final = 0 AND r.as_branch IS NULL LIMIT 1",
                         "ss", project, repo);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    r = pl_err_set(err, PL_ECONFLICT, "run %.8s may be about to write %s@%s", pl_col_text(&rows, 0), repo, branch);
    return pl_err_hint(err, r, "Wait for it: pipelinectl wait run ID");
}

/* Checks that the commit which the job read still exists. */
static int check_there(struct pl_conn *c, const char *project, const char *repo, const char *commit, struct pl_err *err)
{
    struct pl_commit_ref ref = {.kind = PL_COMMIT_REF_ID};
    struct pl_commit_row row;
    int r;

    snprintf(ref.name, sizeof ref.name, "%s", commit);
    r = pl_db_commit_find(c, project, repo, &ref, &row, err);
    if (r != PL_ENOTFOUND)
        return r;
    r = pl_err_set(err, PL_ECONFLICT, "commit %.8s of %s no longer exists", commit, repo);
    return pl_err_hint(err, r,
                       "Without it the run cannot be repeated; on the current data: pipelinectl run pipeline NAME --force");
}

/* Reports that the head of an input's branch is another commit than the one that the job read. */
static int moved(const struct pl_rerun_args *a, const char *stage, const json_t *in, const char *head, struct pl_err *err)
{
    const char *commit = json_string_value(json_object_get(in, "commit"));
    int r = pl_err_set(err, PL_ECONFLICT, "stage %s read commit %.8s of %s@%s in run %.8s; the head is now %.8s", stage,
                       *commit ? commit : "none", json_string_value(json_object_get(in, "repo")),
                       json_string_value(json_object_get(in, "branch")), a->of, *head ? head : "none");

    if (a->alone)
        return pl_err_hint(err, r, "On the current data, every failed datum: pipelinectl run pipeline NAME --stage %s", stage);
    return pl_err_hint(
        err, r,
        "On the current data: pipelinectl run pipeline NAME --force; on the data of that run, with outputs on another branch: "
        "pipelinectl rerun RUN --as NAME");
}

/* Checks that the job would now read the same commit as in the earlier run. */
static int check_input(struct pl_conn *c, const struct pl_rerun_args *a, const char *stage, const json_t *in, struct pl_err *err)
{
    const char *run = a->of;
    const char *project = json_string_value(json_object_get(in, "project")),
               *repo = json_string_value(json_object_get(in, "repo")), *branch = json_string_value(json_object_get(in, "branch")),
               *commit = json_string_value(json_object_get(in, "commit"));
    struct pl_commit_row head = {0};
    struct pl_repo_row row;
    bool own = false;
    int r;

    if (!project || !repo || !branch || !commit || !*repo)
        return 0; /* an input of parameters has no commit */
    r = a->alone ? 0 : is_output(c, a, stage, project, repo, branch, &own, err);
    /* the commit need not exist if the rerun writes it itself, or if the input had no commit */
    if (r == 0 && a->as)
        return !*commit || (own && pl_streq(commit, run)) ? 0 : check_there(c, project, repo, commit, err);
    if (r < 0 || own)
        return r;
    r = pl_db_repo_find(c, project, repo, &row, err);
    r = r < 0 ? r : pl_db_branch_head(c, row.id, branch, &head, err);
    if (r < 0)
        return r;
    if (pl_streq(head.run, commit))
        return check_settled(c, project, repo, branch, err);
    return moved(a, stage, in, head.run, err);
}

static int check_inputs(struct pl_conn *c, const struct pl_rerun_args *a, const char *stage, const json_t *inputs,
                        struct pl_err *err)
{
    const json_t *in;
    size_t i;
    int r = 0;

    json_array_foreach(inputs, i, in)
    {
        r = r < 0 ? r : check_input(c, a, stage, in, err);
    }
    return r;
}

/* Refuses a stage of a stopped pipeline: no run gives it jobs. */
static int check_runs(struct pl_conn *c, const char *project, const char *stage, struct pl_err *err)
{
    _cleanup_free_ char *pipeline = NULL;
    int r = pl_db_stage_owner(c, project, stage, &pipeline, err);

    return r < 0 ? r : pl_pipeline_check_runs(c, project, pipeline, err);
}

/* Says whether two versions of a stage are the same. They are if only other stages of the pipeline were changed. */
static int is_same(struct pl_conn *c, int64_t version, int64_t current, int64_t *ret, struct pl_err *err)
{
    return pl_sql_int(c, err, ret,
                      "SELECT count(*) FROM stage a JOIN stage b ON b.spec = a.spec AND b.code_identity = a.code_identity"
                      " AND b.branch = a.branch WHERE a.id = ? AND b.id = ?",
                      "ii", version, current);
}

/* Checks that the stage still exists, and is unchanged unless only failed jobs are repeated. After a change of the stage all
 * its datums are others, so a retry of some of them would run all. */
static int check_stage(struct pl_conn *c, const struct pl_rerun_args *a, const char *project, const char *stage, int64_t version,
                       struct pl_err *err)
{
    int64_t current = 0, same = 0;
    int r =
        pl_sql_int(c, err, &current, "SELECT id FROM stage WHERE project = ? AND name = ? AND current = 1", "ss", project, stage);

    if (r == PL_ENOTFOUND)
        return pl_err_set(err, PL_ECONFLICT, "stage %s of run %.8s no longer exists", stage, a->of);
    r = r < 0 ? r : check_runs(c, project, stage, err);
    r = r < 0 || a->failed ? r : is_same(c, version, current, &same, err);
    if (r < 0 || a->failed || same)
        return PL_MIN(r, 0);
    r = pl_err_set(err, PL_ECONFLICT, "stage %s was changed since run %.8s", stage, a->of);
    return a->alone ? pl_err_hint(err, r, "Its new version runs all its datums: pipelinectl run pipeline NAME --stage %s", stage)
                    : r;
}

/* Checks each job of the run that is to be repeated, and adds its stage to the list. */
static int add_jobs(struct pl_conn *c, struct pl_rerun_args *a, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT project, stage, state, version, inputs FROM job WHERE run = ? ORDER BY id", "s",
                         a->of);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        _cleanup_(json_decrefp) json_t *inputs = pl_col_json(&rows, 4);
        const char *project = pl_col_text(&rows, 0), *stage = pl_col_text(&rows, 1);

        if (a->failed && pl_streq(pl_col_text(&rows, 2), "success"))
            continue;
        r = check_stage(c, a, project, stage, pl_col_int(&rows, 3), err);
        r = r < 0 ? r : inputs ? check_inputs(c, a, stage, inputs, err) : pl_err_nomem(err);
        r = r < 0 || !a->as ? r : pl_rerun_branch_check(c, project, stage, a->as, err);
        r = r < 0 ? r
                  : pl_json_add(a->stages,
                                a->failed ? json_pack("[s, s]", project, stage) : json_pack("[s, s, s]", project, stage, "force"),
                                err);
        if (r < 0)
            return r;
    }
    return r;
}

static int check_as(const struct pl_rerun_args *a, struct pl_err *err)
{
    int r = a->as ? pl_name_check("branch", a->as, err) : 0;

    return r < 0 ? pl_err_field(err, r, "as") : 0;
}

/* Makes the message of the run, which says what is repeated. */
int pl_tx_rerun(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_rerun_args *a = arg;
    struct pl_run_args run = {.id = a->run, .cause = "manual", .state = "running", .of = a->of, .as = a->as};
    char message[64 + PL_NAME_MAX_BYTES];
    int r = check_as(a, err);

    r = r < 0 ? r : check_over(pl_tx_conn(tx), a->of, err);
    json_decref(a->stages); /* if the transaction function is called again, release the array of the first call */
    a->stages = json_array();
    r = r < 0 ? r : !a->stages ? pl_err_nomem(err) : add_jobs(pl_tx_conn(tx), a, err);
    if (r < 0)
        return r;
    if (json_array_size(a->stages) == 0)
        return pl_err_set(err, PL_ENOTFOUND, a->failed ? "no job of run %.8s failed" : "run %.8s has no jobs", a->of);
    snprintf(message, sizeof message, "%s of run %.8s again%s%s", a->failed ? "failed jobs" : "all jobs", a->of,
             a->as ? ", as " : "", a->as ? a->as : "");
    run.message = message;
    run.stages = a->stages;
    pl_id_make((uint64_t)(pl_tx_now_us(tx) / 1000), a->run);
    r = pl_tx_run_create(tx, &run, err);
    return r < 0 ? r : pl_db_run_asker_write(pl_tx_conn(tx), a->run, &a->asker, err);
}

/* Refuses a run that wrote a branch of its own: a retry writes the stage's own branch. */
static int check_branch(struct pl_conn *c, const char *run, struct pl_err *err)
{
    _cleanup_free_ char *as = NULL;
    int r = pl_sql_text(c, err, &as, "SELECT coalesce(as_branch, '') FROM run WHERE id = ?", "s", run);

    if (r < 0 || !*as)
        return r;
    r = pl_err_set(err, PL_ECONFLICT, "run %.8s wrote branch \"%s\" instead of the stages' own branches", run, as);
    return pl_err_hint(err, r, "Every failed datum of it, to that branch: pipelinectl rerun %.8s --failed --as %s", run, as);
}

/* Checks that the run has the job, that it has ended, and that it would have the same datums again. */
static int check_job(struct pl_conn *c, const struct pl_retry_args *a, struct pl_err *err)
{
    const struct pl_rerun_args as_rerun = {.of = a->of, .alone = true};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *inputs = NULL;
    int r = check_branch(c, a->of, err);

    r = r < 0 ? r
              : pl_sql_query(c, err, &rows, "SELECT version, inputs, final FROM job WHERE run = ? AND project = ? AND stage = ?",
                             "sss", a->of, a->project, a->stage);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "run %.8s has no job of stage %s", a->of, a->stage);
    if (!pl_col_int(&rows, 2))
        return pl_err_set(err, PL_EINUSE, "job %s of run %.8s has not ended", a->stage, a->of);
    inputs = pl_col_json(&rows, 1);
    if (!inputs)
        return pl_err_nomem(err);
    r = check_stage(c, &as_rerun, a->project, a->stage, pl_col_int(&rows, 0), err);
    return r < 0 ? r : check_inputs(c, &as_rerun, a->stage, inputs, err);
}

int pl_tx_retry(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_retry_args *a = arg;
    _cleanup_(json_decrefp) json_t *stages = json_pack("[[s, s, O]]", a->project, a->stage, a->untried);
    const size_t n =
        json_array_size(json_object_get(a->untried, "failed")) + json_array_size(json_object_get(a->untried, "recovered"));
    struct pl_run_args run = {.id = a->run, .cause = "manual", .state = "running", .of = a->of, .stages = stages};
    char message[64 + 2 * PL_NAME_MAX_BYTES];
    int r = stages ? check_job(pl_tx_conn(tx), a, err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    if (n > PL_RETRY_UNTRIED_MAX)
        return pl_err_set(err, PL_ELIMIT, "%zu failed datums would not be tried again; the most are %u", n, PL_RETRY_UNTRIED_MAX);
    snprintf(message, sizeof message, "%s in run %.8s again", a->what, a->of);
    run.message = message;
    pl_id_make((uint64_t)(pl_tx_now_us(tx) / 1000), a->run);
    r = pl_tx_run_create(tx, &run, err);
    return r < 0 ? r : pl_db_run_asker_write(pl_tx_conn(tx), a->run, &a->asker, err);
}
