/* manual_run: reads the current stages of a pipeline as one spec, selects the stages that can run, and
 * creates the run. */
#include "pipelined/db/pipelines/manual_run.h"

#include "pipelined/db/pipelines/pipeline_state.h"
#include "pipelined/db/pipelines/pipeline_tx.h"
#include "pipelined/db/tx/job_tx.h"
#include <stdio.h>

/* Parses the effective specs of the pipeline's current stages as one spec. */
static int read_spec(struct pl_conn *c, const struct pl_manual_run_args *a, struct pl_spec **ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    size_t n = 0;
    int r = pl_buf_addf(&text, err, "{\"pipeline\":\"%s\",\"project\":\"%s\",\"stages\":[", a->pipeline, a->project);

    r = r < 0 ? r
              : pl_sql_query(c, err, &rows,
                             "SELECT s.spec FROM stage s JOIN pipeline p ON p.id = s.pipeline"
                             " WHERE p.project = ? AND p.name = ? AND s.current = 1 ORDER BY s.position",
                             "ss", a->project, a->pipeline);
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = pl_buf_addf(&text, err, "%s%s", n++ ? "," : "", pl_col_text(&rows, 0));
    if (r < 0)
        return r;
    if (n == 0)
        return pl_err_set(err, PL_ENOTFOUND, "there is no pipeline \"%s\" in project \"%s\"", a->pipeline, a->project);
    r = pl_buf_add_str(&text, "]}", err);
    return r < 0 ? r : pl_spec_parse((const char *)text.data, text.len, a->pipeline, NULL, ret, NULL, err);
}

static int choose(const struct pl_manual_run_args *a, const struct pl_spec *spec, bool *wanted, struct pl_err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < spec->n_stages; i++) {
        wanted[i] = !a->stage || pl_streq(spec->stages[i].name, a->stage);
        n += wanted[i];
    }
    return n ? 0 : pl_err_set(err, PL_ENOTFOUND, "pipeline \"%s\" has no stage \"%s\"", a->pipeline, a->stage);
}

/* Lists [project, stage] of the wanted stages that can run. `ready` lists in addition the stages downstream
 * of them. */
static int list_stages(struct pl_manual_run_args *a, const struct pl_spec *spec, const bool *wanted, json_t *ready,
                       struct pl_err *err)
{
    const json_t *pair;
    size_t i;

    int r = 0;

    json_decref(a->stages);
    a->stages = json_array();
    json_array_foreach(ready, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 1));
        const struct pl_stage *stage = pl_spec_stage(spec, name);

        if (r == 0 && stage && wanted[stage - spec->stages])
            r = pl_json_add(a->stages, json_pack("[s, s, s*]", a->project, name, a->force ? "force" : NULL), err);
    }
    return r < 0 || a->stages ? r : pl_err_nomem(err);
}

/* Reports the first wanted stage that has no commit to read, with a hint that names the repo to push to. */
static int nothing_to_read(const struct pl_manual_run_args *a, const struct pl_spec *spec, const bool *wanted, struct pl_err *err)
{
    for (size_t k = 0; k < spec->n_stages; k++) {
        const struct pl_stage *s = &spec->stages[spec->order[k]];

        if (!wanted[spec->order[k]] || s->n_leaves == 0 || !pl_input_reads(s->leaves[0]))
            continue;
        pl_err_set(err, PL_EINVAL, "stage \"%s\" has nothing to read yet", s->name);
        return pl_err_hint(err, PL_EINVAL, "%s: pipelinectl put file %s@%s -r -f FOLDER",
                           a->dry_run ? "Push files to its input; puts that wait in an open commit do not count in a dry run"
                                      : "Push files to its input",
                           s->leaves[0]->repo, s->leaves[0]->branch);
    }
    return pl_err_set(err, PL_EINVAL, "pipeline \"%s\" has nothing to read yet", a->pipeline);
}

static int make_run(struct pl_tx *tx, struct pl_manual_run_args *a, struct pl_err *err)
{
    struct pl_run_args run = {.id = a->run, .cause = "manual", .state = "running", .stages = a->stages};
    _cleanup_free_ char *message = NULL;
    int r;

    if (asprintf(&message, "%s%s%s%s", a->pipeline, a->stage ? ", stage " : "", a->stage ? a->stage : "",
                 a->force ? ", every datum" : "") < 0)
        return pl_err_nomem(err);
    run.message = message;
    pl_id_make((uint64_t)(pl_tx_now_us(tx) / 1000), a->run);
    r = pl_tx_run_create(tx, &run, err);
    return r < 0 ? r : pl_db_run_asker_write(pl_tx_conn(tx), a->run, &a->asker, err);
}

/* the run lists only the wanted stages; the scheduler adds the stages downstream of them */
int pl_tx_manual_run(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_manual_run_args *a = arg;
    _cleanup_(pl_spec_destroyp) struct pl_spec *spec = NULL;
    _cleanup_free_ bool *wanted = NULL;
    _cleanup_(json_decrefp) json_t *ready = json_array();
    int r = read_spec(pl_tx_conn(tx), a, &spec, err);

    *a->run = '\0';
    r = r < 0 ? r : pl_pipeline_check_runs(pl_tx_conn(tx), a->project, a->pipeline, err);
    if (r < 0)
        return r;
    wanted = calloc(spec->n_stages, sizeof *wanted);
    if (!wanted)
        return pl_err_nomem(err);
    r = choose(a, spec, wanted, err);
    if (r < 0)
        return r;
    r = pl_pipeline_stages_to_run(tx, spec, wanted, ready, err);
    r = r < 0 ? r : list_stages(a, spec, wanted, ready, err);
    if (r == 0 && json_array_size(a->stages) == 0 && a->may_be_none)
        return 0;
    if (r == 0 && json_array_size(a->stages) == 0)
        r = nothing_to_read(a, spec, wanted, err);
    if (r == 0 && a->dry_run)
        return pl_err_set(err, PL_ECANCELED, "dry run");
    return r < 0 ? r : make_run(tx, a, err);
}

int pl_db_run_is_forced(struct pl_conn *c, const char *run, const char *project, const char *stage, bool *ret, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n,
                       "SELECT count(*) FROM run, json_each(run.stages) e WHERE run.id = ? AND json_extract(e.value, '$[0]') = ?"
                       " AND json_extract(e.value, '$[1]') = ? AND json_extract(e.value, '$[2]') = 'force'",
                       "sss", run, project, stage);

    if (r == 0)
        *ret = n > 0;
    return r;
}
