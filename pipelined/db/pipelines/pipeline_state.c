/* pipeline_state: one column of table pipeline says who stopped it. The engine leaves stages of stopped pipelines out of the
 * scheduler (engine_stages.c), so that the start's run is the first that has jobs of them again. */
#include "pipelined/db/pipelines/pipeline_state.h"

#include "pipelined/db/pipelines/manual_run.h"

/* Reads who stopped the pipeline. PL_ENOTFOUND: there is no such pipeline. */
static int read_stopped(struct pl_conn *c, const char *project, const char *name, char **ret, struct pl_err *err)
{
    return pl_sql_text(c, err, ret, "SELECT stopped FROM pipeline WHERE project = ? AND name = ?", "ss", project, name);
}

int pl_pipeline_check_runs(struct pl_conn *c, const char *project, const char *name, struct pl_err *err)
{
    _cleanup_free_ char *stopped = NULL;
    int r = read_stopped(c, project, name, &stopped, err);

    if (r < 0)
        return r == PL_ENOTFOUND ? 0 : r;
    if (!*stopped)
        return 0;
    r = pl_err_set(err, PL_ECONFLICT, "pipeline \"%s\" is stopped", name);
    return pl_err_hint(err, r, "pipelinectl start pipeline %s", name);
}

int pl_pipeline_state_emit(struct pl_tx *tx, const char *project, const char *name, const char *who, struct pl_err *err)
{
    int r = pl_tx_emit(tx, PL_RECORD_PIPELINE_STATE,
                       json_pack("{s:s, s:s, s:s, s:I}", "project", project, "name", name, "stopped", who, "at",
                                 (json_int_t)pl_tx_now_us(tx)),
                       err);

    return r < 0 ? r
                 : pl_tx_event(tx, "pipeline",
                               json_pack("{s:s, s:s, s:s}", "project", project, "pipeline", name, "change",
                                         *who ? "stopped" : "started"),
                               err);
}

int pl_tx_pipeline_state(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_pipeline_state_args *a = arg;
    struct pl_manual_run_args run = {.project = a->project, .pipeline = a->name, .may_be_none = true};
    _cleanup_free_ char *stopped = NULL;
    int r = read_stopped(pl_tx_conn(tx), a->project, a->name, &stopped, err);

    *a->run = '\0';
    if (r == PL_ENOTFOUND)
        return pl_err_set(err, r, "pipeline \"%s\" does not exist in project \"%s\"", a->name, a->project);
    if (r < 0)
        return r;
    /* stopping by hand what its source stopped makes it stay stopped when its file comes back */
    a->changed = a->stop ? strcmp(stopped, PL_STOPPED_BY_HAND) != 0 : *stopped != '\0';
    if (!a->changed)
        return 0;
    r = pl_pipeline_state_emit(tx, a->project, a->name, a->stop ? PL_STOPPED_BY_HAND : "", err);
    if (r < 0 || a->stop)
        return r;
    r = pl_tx_manual_run(tx, &run, err);
    json_decref(run.stages);
    if (r == 0)
        memcpy(a->run, run.run, sizeof a->run);
    return r;
}
