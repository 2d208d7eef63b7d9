/* update_cost: compares each new stage with the current one, says which fields changed, and estimates from
 * the stage's last jobs what runs again. */
#include "pipelined/db/pipelines/update_cost.h"

#include "pipelined/plan/stage_change.h"
#include "pipelined/text/json_text.h"

#include <stdio.h>
#include <string.h>

/* ---- what changed ---- */

struct old_stage {
    json_t *spec; /* NULL: the pipeline has no such stage */
    struct pl_hash code_root, identity;
};

static int read_old(struct pl_conn *c, const char *project, const char *stage, struct old_stage *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT spec, code_root, code_identity FROM stage WHERE current = 1 AND project = ? AND name = ?", "ss",
                         project, stage);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    ret->spec = pl_col_json(&rows, 0);
    ret->code_root = pl_col_hash(&rows, 1);
    ret->identity = pl_col_hash(&rows, 2);
    return ret->spec ? 0 : pl_err_nomem(err);
}

/* Handles an unchanged stage: its datums may have to run again if a stage that it reads runs again. */
static enum pl_again again_by_inputs(const struct pl_stage *stage, const enum pl_again *stages)
{
    for (size_t i = 0; i < stage->n_leaves; i++)
        if (stage->leaves[i]->stage != PL_SPEC_NO_STAGE &&
            !(stage->leaves[i]->reference && pl_streq(stage->leaves[i]->glob, "/")) &&
            stages[stage->leaves[i]->stage] != PL_AGAIN_NONE)
            return PL_AGAIN_SOME;
    return PL_AGAIN_NONE;
}

static enum pl_again again_of(const struct pl_pipeline_args *a, size_t i, const struct old_stage *old, const json_t *now,
                              const enum pl_again *stages)
{
    const enum pl_again own = pl_stage_again(old->spec, now, !pl_hash_eq(&old->identity, &a->code[i].identity));

    return own == PL_AGAIN_NONE ? again_by_inputs(&a->spec->stages[i], stages) : own;
}

/* ---- what it costs ---- */

int pl_stage_past_read(struct pl_conn *c, const char *project, const char *stage, struct pl_stage_past *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r;

    *ret = (struct pl_stage_past){-1, -1, -1};
    r = pl_sql_int(c, err, &ret->datums,
                   "SELECT json_extract(counts, '$.total') FROM job WHERE project = ? AND stage = ? AND planned = 1"
                   " ORDER BY id DESC LIMIT 1",
                   "ss", project, stage);

    if (r == PL_ENOTFOUND)
        return 0;
    r = r < 0 ? r
              : pl_sql_query(c, err, &rows,
                             "SELECT ran, json_extract(ms, '$.gpu'), json_extract(ms, '$.held') FROM (SELECT ms, id,"
                             " json_extract(counts, '$.done') + json_extract(counts, '$.failed') AS ran FROM job"
                             " WHERE project = ? AND stage = ? AND planned = 1) WHERE ran > 0 ORDER BY id DESC LIMIT 1",
                             "ss", project, stage);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    ret->gpu_s = (double)pl_col_int(&rows, 1) / 1000 / (double)pl_col_int(&rows, 0);
    ret->worker_s = (double)pl_col_int(&rows, 2) / 1000 / (double)pl_col_int(&rows, 0);
    return 0;
}

static json_t *seconds(double each, int64_t datums)
{
    return each < 0 ? json_null() : json_integer((json_int_t)(each * (double)datums + 0.5));
}

json_t *pl_stage_past_json(const struct pl_stage_past *past, int64_t datums, bool at_most, bool estimated)
{
    return json_pack("{s:I, s:I, s:b, s:b, s:o, s:o}", "datums", (json_int_t)datums, "of", (json_int_t)past->datums, "at_most",
                     (int)at_most, "estimated", (int)estimated, "gpu_s", seconds(past->gpu_s, datums), "worker_s",
                     seconds(past->worker_s, datums));
}

/* `anew`: the input may select other datums than in the last job. */
static int add_again(json_t *change, enum pl_again again, bool anew, const struct pl_stage_past *past, int64_t *gpu_s,
                     struct pl_err *err)
{
    json_t *one = pl_stage_past_json(past, again == PL_AGAIN_NONE ? 0 : past->datums, again == PL_AGAIN_SOME && !anew, anew);

    if (!one || json_object_set_new(change, "again", one) < 0)
        return pl_err_nomem(err);
    *gpu_s += json_integer_value(json_object_get(one, "gpu_s"));
    return 0;
}

/* ---- all stages ---- */

/* Marks the stages of the spec that `runs` ([project, name]…) lists. */
static void note_runs(const struct pl_spec *spec, const json_t *runs, bool *ret)
{
    const json_t *one;
    size_t i;

    json_array_foreach(runs, i, one)
    {
        const struct pl_stage *stage = pl_spec_stage(spec, json_string_value(json_array_get(one, 1)));

        if (stage)
            ret[stage - spec->stages] = true;
    }
}

/* Adds what changed in a stage that exists: "what" and "code". */
static int add_changed(json_t *change, const struct old_stage *old, const json_t *now, const struct pl_stage_code *code,
                       struct pl_err *err)
{
    char what[PL_STAGE_CHANGE_MAX], from[PL_HASH_HEX + 1] = "", to[PL_HASH_HEX + 1] = "";
    int r = 0;

    pl_stage_change_text(old->spec, now, !pl_hash_eq(&old->code_root, &code->root), what);
    if (*what)
        r = json_object_set_new(change, "what", json_string(what));
    if (!pl_hash_is_zero(&old->code_root))
        pl_hash_hex(&old->code_root, from);
    if (!pl_hash_is_zero(&code->root))
        pl_hash_hex(&code->root, to);
    if (r == 0 && !pl_streq(from, to))
        r = json_object_set_new(change, "code", json_pack("[s, s]", from, to));
    return r < 0 ? pl_err_nomem(err) : 0;
}

/* Adds "what", "code" and "again" to the stage's entry of changes. */
static int price_stage(struct pl_conn *c, const struct pl_pipeline_args *a, size_t i, json_t *change, enum pl_again *stages,
                       int64_t *gpu_s, struct pl_err *err)
{
    const struct pl_stage *stage = &a->spec->stages[i];
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    _cleanup_(json_decrefp) json_t *now = NULL;
    struct pl_stage_past past = {-1, -1, -1};
    struct old_stage old = {0};
    bool anew = false;
    int r = pl_stage_effective_json(stage, &text, err);

    now = r < 0 ? NULL : json_loadb((const char *)text.data, text.len, 0, NULL);
    r = r < 0 ? r : now ? read_old(c, a->spec->project, stage->name, &old, err) : pl_err_nomem(err);
    r = r < 0 || !old.spec ? r : pl_stage_past_read(c, a->spec->project, stage->name, &past, err);
    stages[i] = PL_AGAIN_ALL;
    if (r == 0 && old.spec) {
        r = add_changed(change, &old, now, &a->code[i], err);
        stages[i] = again_of(a, i, &old, now, stages);
        anew = pl_stage_selects_anew(old.spec, now);
    }
    json_decref(old.spec);
    return r < 0 || past.datums < 0 ? r : add_again(change, stages[i], anew, &past, gpu_s, err);
}

int pl_update_cost(struct pl_conn *c, const struct pl_pipeline_args *a, const json_t *runs, json_t *changes, int64_t *ret_gpu_s,
                   struct pl_err *err)
{
    _cleanup_free_ enum pl_again *stages = calloc(a->spec->n_stages + 1, sizeof *stages);
    _cleanup_free_ bool *run = calloc(a->spec->n_stages + 1, sizeof *run);
    int r = stages && run ? 0 : pl_err_nomem(err);

    *ret_gpu_s = 0;
    if (r == 0)
        note_runs(a->spec, runs, run);
    for (size_t k = 0; r == 0 && k < a->spec->n_stages; k++) {
        uint32_t i = a->spec->order[k];

        if (run[i])
            r = price_stage(c, a, i, json_array_get(changes, i), stages, ret_gpu_s, err);
    }
    return r;
}
