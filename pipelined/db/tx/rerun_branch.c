/* Resolves the inputs of a rerun from the job rows of the run that it repeats. If that earlier run is itself
 * a rerun and never planned the job, uses the job rows of the run that the earlier run repeated. */
#include "pipelined/db/tx/rerun_branch.h"

#include <stdio.h>

int pl_rerun_branch_find(struct pl_conn *c, const char *run, struct pl_rerun_branch *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT id, of_run, as_branch FROM run WHERE id = ? AND as_branch IS NOT NULL", "s", run);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    snprintf(ret->run, sizeof ret->run, "%s", pl_col_text(&rows, 0));
    snprintf(ret->of, sizeof ret->of, "%s", pl_col_text(&rows, 1));
    snprintf(ret->branch, sizeof ret->branch, "%s", pl_col_text(&rows, 2));
    return 1;
}

/* ---- inputs ---- */

/* Says whether this run writes the branch of the input. False for a stage that reads its own earlier output. */
static int is_written(struct pl_conn *c, const struct pl_rerun_branch *a, const struct pl_input *leaf, bool *ret,
                      struct pl_err *err)
{
    int64_t n = 0;
    int r =
        pl_sql_int(c, err, &n,
                   "SELECT count(*) FROM run, json_each(run.stages) e JOIN stage s ON s.project = json_extract(e.value, '$[0]')"
                   " AND s.name = json_extract(e.value, '$[1]') AND s.current = 1"
                   " WHERE run.id = ? AND s.project = ? AND s.name = ? AND s.branch = ?",
                   "ssss", a->run, leaf->project, leaf->repo, leaf->branch);

    *ret = n > 0 && pl_input_triggers(leaf);
    return r;
}

static int commit_of(struct pl_conn *c, const struct pl_input *leaf, const char *id, struct pl_commit_row *ret,
                     struct pl_err *err)
{
    struct pl_commit_ref ref = {.kind = PL_COMMIT_REF_ID};
    int r;

    snprintf(ref.name, sizeof ref.name, "%s", id);
    r = pl_db_commit_find(c, leaf->project, leaf->repo, &ref, ret, err);
    return r < 0 ? r : 1;
}

/* Reads the inputs of the stage's job in a run: 1 and a new reference; 0 when the job was never planned. */
static int read_inputs(struct pl_conn *c, const char *run, const char *project, const struct pl_stage *stage, json_t **ret,
                       struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *inputs = NULL;
    int r = pl_sql_query(c, err, &rows, "SELECT inputs FROM job WHERE run = ? AND project = ? AND stage = ?", "sss", run, project,
                         stage->name);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    inputs = pl_col_json(&rows, 0);
    if (!inputs)
        return pl_err_nomem(err);
    if (json_array_size(inputs) == 0)
        return 0;
    if (json_array_size(inputs) != stage->n_leaves)
        return pl_err_set(err, PL_ECONFLICT, "stage %s was changed since run %.8s", stage->name, run);
    *ret = json_incref(inputs);
    return 1;
}

/* Finds the commit of an input of a job that was never planned: if `own`, this run's own output; otherwise
 * the head that the branch had when run `of` began. */
static int as_then(struct pl_conn *c, const struct pl_rerun_branch *a, const char *of, const struct pl_input *leaf, bool own,
                   struct pl_commit_row *ret, struct pl_err *err)
{
    struct pl_repo_row repo;
    int64_t order = 0;
    int r;

    if (own)
        return commit_of(c, leaf, a->run, ret, err);
    r = pl_db_repo_find(c, leaf->project, leaf->repo, &repo, err);
    r = r < 0 ? r : pl_sql_int(c, err, &order, "SELECT ord FROM run WHERE id = ?", "s", of);
    return r < 0 ? r : pl_db_branch_as_of(c, repo.id, leaf->branch, order, ret, err);
}

int pl_rerun_branch_input(struct pl_conn *c, const struct pl_rerun_branch *a, const char *project, const struct pl_stage *stage,
                          size_t i, struct pl_commit_row *ret, struct pl_err *err)
{
    const struct pl_input *leaf = stage->leaves[i];
    struct pl_rerun_branch at = *a, next;
    _cleanup_(json_decrefp) json_t *inputs = NULL;
    const char *commit;
    bool own = false;
    int r = is_written(c, a, leaf, &own, err);

    r = r < 0 ? r : read_inputs(c, at.of, project, stage, &inputs, err);
    /* the job was not planned in this run: try the run that this run repeated */
    while (r == 0 && (r = pl_rerun_branch_find(c, at.of, &next, err)) > 0) {
        at = next;
        r = read_inputs(c, at.of, project, stage, &inputs, err);
    }
    if (r < 0)
        return r;
    if (!inputs)
        return as_then(c, a, at.of, leaf, own, ret, err);
    commit = json_string_value(json_object_get(json_array_get(inputs, i), "commit"));
    if (!commit || !*commit)
        return 0;
    return commit_of(c, leaf, own && pl_streq(commit, at.of) ? a->run : commit, ret, err);
}

/* ---- the branch ---- */

int pl_rerun_branch_made(struct pl_conn *c, int64_t repo, const char *branch, bool *ret, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n,
                       "SELECT count(*) FROM branch b JOIN commit_ c ON c.id = b.head JOIN run r ON r.id = c.run"
                       " WHERE b.repo = ? AND b.name = ? AND r.as_branch = b.name",
                       "is", repo, branch);

    *ret = n > 0;
    return r;
}

int pl_rerun_branch_check(struct pl_conn *c, const char *project, const char *stage, const char *branch, struct pl_err *err)
{
    struct pl_commit_row head;
    struct pl_repo_row repo;
    int64_t own = 0;
    bool made = false;
    int r = pl_sql_int(c, err, &own, "SELECT count(*) FROM stage WHERE project = ? AND name = ? AND branch = ? AND current = 1",
                       "sss", project, stage, branch);

    if (r == 0 && own) {
        r = pl_err_set(err, PL_EINVAL, "branch \"%s\" is the one that stage \"%s\" writes", branch, stage);
        return pl_err_hint(err, r, "Leave out --as to write there, or give another branch");
    }
    r = r < 0 ? r : pl_db_repo_find(c, project, stage, &repo, err);
    r = r < 0 ? r : pl_db_branch_head(c, repo.id, branch, &head, err);
    if (r <= 0)
        return r;
    r = pl_rerun_branch_made(c, repo.id, branch, &made, err);
    if (r < 0 || made)
        return r;
    r = pl_err_set(err, PL_EEXISTS, "branch \"%s\" of repo \"%s\" has commit %.8s, which no rerun --as has written", branch,
                   stage, head.run);
    return pl_err_hint(err, r, "Choose another name");
}
