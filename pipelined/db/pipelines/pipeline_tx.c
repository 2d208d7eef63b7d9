#include "pipelined/db/pipelines/pipeline_tx.h"

#include "pipelined/db/pipelines/pipeline_cycle.h"
#include "pipelined/db/pipelines/update_cost.h"
#include "pipelined/db/tx/job_tx.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/db/writer/name_lookup.h"

#include <stdio.h>

/* ---- names ---- */

static int check_owner(struct pl_tx *tx, const struct pl_spec *spec, const char *stage, struct pl_err *err)
{
    _cleanup_free_ char *owner = NULL;
    struct pl_repo_row repo;
    int r = pl_db_stage_owner(pl_tx_conn(tx), spec->project, stage, &owner, err);

    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    if (r == 0 && !pl_streq(owner, spec->pipeline))
        return pl_err_set(
            err, PL_EINUSE,
            "stage \"%s\" already belongs to pipeline \"%s\" in project \"%s\": rename it, or set \"project\" in the spec", stage,
            owner, spec->project);
    r = pl_db_repo_seek(pl_tx_conn(tx), spec->project, stage, &repo, err);
    if (r > 0 && !repo.output)
        return pl_err_set(err, PL_EINUSE, "stage \"%s\" would write repo \"%s\", which is an input repo: rename the stage", stage,
                          stage);
    return PL_MIN(r, 0);
}

/* Made when it is not there; the options that the spec names are set either way. */
static int make_repo(struct pl_tx *tx, const struct pl_spec *spec, const struct pl_spec_repo *repo, struct pl_err *err)
{
    static const char *const durable[] = {[PL_DURABLE_LOCAL] = "local", [PL_DURABLE_BUCKET] = "bucket"};
    struct pl_repo_args a = {.project = spec->project,
                             .name = repo->name,
                             .exist_ok = true,
                             .set_window = repo->commit_window_ms >= 0,
                             .commit_window_ms = repo->commit_window_ms,
                             .durable = repo->durable >= 0 ? durable[repo->durable] : NULL,
                             .keep = repo->keep.said ? &repo->keep : NULL};
    int r = pl_tx_repo_create(tx, &a, err);

    return r < 0 || a.changed || !(a.set_window || a.durable || a.keep) ? r : pl_tx_repo_update(tx, &a, err);
}

/* What the version before said and this one does not is set back; what nobody said in a spec stays. */
static int said_before(struct pl_tx *tx, const struct pl_spec *spec, const char *stage, bool *ret, struct pl_err *err)
{
    int64_t said = 0;
    int r = pl_sql_int(
        pl_tx_conn(tx), err, &said,
        "SELECT json_type(spec, '$.output.keep') IS NOT NULL FROM stage WHERE current = 1 AND project = ? AND name = ?", "ss",
        spec->project, stage);

    *ret = r == 0 && said;
    return r == PL_ENOTFOUND ? 0 : r;
}

static int make_output(struct pl_tx *tx, const struct pl_spec *spec, const struct pl_stage *stage, struct pl_err *err)
{
    static const struct pl_retention_rule everything = {.said = true};
    struct pl_repo_args a = {.project = spec->project, .name = stage->name, .exist_ok = true, .output = true};
    bool before = false;
    int r = check_owner(tx, spec, stage->name, err);

    r = r < 0 ? r : said_before(tx, spec, stage->name, &before, err);
    a.keep = stage->output.keep.said ? &stage->output.keep : before ? &everything : NULL;
    r = r < 0 ? r : pl_tx_repo_create(tx, &a, err);
    return r < 0 || a.changed || !a.keep ? r : pl_tx_repo_update(tx, &a, err);
}

static int make_repos(struct pl_tx *tx, const struct pl_spec *spec, struct pl_err *err)
{
    for (size_t i = 0; i < spec->n_repos; i++) {
        int r = make_repo(tx, spec, &spec->repos[i], err);

        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < spec->n_stages; i++) {
        int r = make_output(tx, spec, &spec->stages[i], err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Inputs are stages of the file or repos that exist. */
static int check_inputs(struct pl_tx *tx, const struct pl_spec *spec, struct pl_err *err)
{
    struct pl_repo_row repo;

    for (size_t i = 0; i < spec->n_stages; i++) {
        for (size_t k = 0; k < spec->stages[i].n_leaves; k++) {
            const struct pl_input *leaf = spec->stages[i].leaves[k];
            int r = pl_input_reads(leaf) ? pl_db_repo_seek(pl_tx_conn(tx), leaf->project, leaf->repo, &repo, err) : 1;

            if (r == 0)
                return pl_err_set(
                    err, PL_ENOTFOUND,
                    "stage \"%s\": repo \"%s\" does not exist: pipelinectl create repo %s, or add \"repos\": {\"%s\": {}}",
                    spec->stages[i].name, leaf->repo, leaf->repo, leaf->repo);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* ---- what changes ---- */

static int stage_changed(struct pl_tx *tx, const struct pl_pipeline_args *a, size_t i, const char *effective, const char **ret,
                         struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                         "SELECT spec, code_identity FROM stage WHERE current = 1 AND project = ? AND name = ?", "ss",
                         a->spec->project, a->spec->stages[i].name);
    struct pl_hash identity;

    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    if (r < 0)
        return r;
    if (r == 0) {
        *ret = "new";
        return 0;
    }
    identity = pl_col_hash(&rows, 1);
    *ret = pl_hash_eq(&identity, &a->code[i].identity) && pl_streq(pl_col_text(&rows, 0), effective) ? "unchanged" : "changed";
    return 0;
}

static int note_removed(struct pl_tx *tx, struct pl_pipeline_args *a, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(
        pl_tx_conn(tx), err, &rows,
        "SELECT s.name FROM stage s JOIN pipeline p ON p.id = s.pipeline WHERE s.current = 1 AND p.project = ? AND p.name = ?",
        "ss", a->spec->project, a->spec->pipeline);

    while (r >= 0 && (r = pl_sql_next(pl_tx_conn(tx), &rows, err)) > 0) {
        if (pl_spec_stage(a->spec, pl_col_text(&rows, 0)))
            continue;
        r = pl_json_add(a->changes, json_pack("{s:s, s:s}", "stage", pl_col_text(&rows, 0), "change", "removed"), err);
        if (r < 0)
            return r;
        a->changed = true;
    }
    return r;
}

static json_t *stage_record(const struct pl_pipeline_args *a, size_t i, const char *effective)
{
    char root[PL_HASH_HEX + 1] = "", identity[PL_HASH_HEX + 1];

    if (!pl_hash_is_zero(&a->code[i].root))
        pl_hash_hex(&a->code[i].root, root);
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:o}", "name", a->spec->stages[i].name, "branch",
                     a->spec->stages[i].output.branch, "spec", json_loads(effective, 0, NULL), "code_root", root, "code_identity",
                     pl_hash_hex(&a->code[i].identity, identity), "git",
                     a->code[i].git ? json_incref(a->code[i].git) : json_object());
}

static int make_stages(struct pl_tx *tx, struct pl_pipeline_args *a, json_t *ret, struct pl_err *err)
{
    for (size_t i = 0; i < a->spec->n_stages; i++) {
        _cleanup_(pl_buf_finish) struct pl_buf effective = {0};
        const char *change = NULL, *text;
        int r = pl_stage_effective_json(&a->spec->stages[i], &effective, err);

        text = r < 0 ? NULL : pl_buf_str(&effective);
        r = r < 0 ? r : text ? stage_changed(tx, a, i, text, &change, err) : pl_err_nomem(err);
        if (r < 0)
            return r;
        a->changed = a->changed || !pl_streq(change, "unchanged");
        r = pl_json_add(a->changes, json_pack("{s:s, s:s}", "stage", a->spec->stages[i].name, "change", change), err);
        r = r < 0 ? r : pl_json_add(ret, stage_record(a, i, text), err);
        if (r < 0)
            return r;
    }
    return note_removed(tx, a, err);
}

/* ---- what runs ---- */

static int has_head(struct pl_tx *tx, const struct pl_input *leaf, bool *ret, struct pl_err *err)
{
    int64_t one;
    int r =
        pl_sql_int(pl_tx_conn(tx), err, &one,
                   "SELECT 1 FROM branch b JOIN repo r ON r.id = b.repo WHERE r.project = ? AND r.name = ? AND b.name = ? AND "
                   "b.head IS NOT NULL",
                   "sss", leaf->project, leaf->repo, leaf->branch);

    *ret = r == 0;
    return r == PL_ENOTFOUND ? 0 : r;
}

/* Does the tree have something to read? Every input of a cross, one of a union, each with a commit or from a stage of the file that runs;
 * `*ret_here`: one of them does. */
static int can_read(struct pl_tx *tx, const struct pl_input *tree, const bool *runs, bool *ret, bool *ret_here,
                    struct pl_err *err)
{
    bool here = tree->stage != PL_SPEC_NO_STAGE && runs[tree->stage], any = tree->n_children == 0, all = true;
    int r = 0;

    if (tree->n_children == 0 && pl_input_triggers(tree) && !here)
        r = has_head(tx, tree, &all, err);
    for (size_t i = 0; r == 0 && i < tree->n_children; i++) {
        bool can = false;

        r = can_read(tx, &tree->children[i], runs, &can, ret_here, err);
        any = any || can;
        all = all && can;
    }
    *ret_here = *ret_here || here;
    *ret = tree->kind == PL_INPUT_UNION ? any : all;
    return r;
}

int pl_pipeline_stages_to_run(struct pl_tx *tx, const struct pl_spec *spec, const bool *wanted, json_t *ret, struct pl_err *err)
{
    _cleanup_free_ bool *runs = calloc(spec->n_stages + 1, sizeof *runs);
    int r = runs ? 0 : pl_err_nomem(err);

    for (size_t k = 0; r == 0 && k < spec->n_stages; k++) {
        uint32_t i = spec->order[k];
        const struct pl_stage *s = &spec->stages[i];
        bool upstream = false, ready = false;

        r = can_read(tx, s->input, runs, &ready, &upstream, err);
        runs[i] = ready && (upstream || wanted[i]);
        if (r == 0 && runs[i])
            r = pl_json_add(ret, json_pack("[s, s]", spec->project, s->name), err);
    }
    return r;
}

/* Those that did not change need not run. */
static int changed_to_run(struct pl_tx *tx, const struct pl_pipeline_args *a, json_t *ret, struct pl_err *err)
{
    _cleanup_free_ bool *changed = calloc(a->spec->n_stages + 1, sizeof *changed);

    for (size_t i = 0; changed && i < a->spec->n_stages; i++)
        changed[i] = !pl_streq(json_string_value(json_object_get(json_array_get(a->changes, i), "change")), "unchanged");
    return changed ? pl_pipeline_stages_to_run(tx, a->spec, changed, ret, err) : pl_err_nomem(err);
}

static int make_run(struct pl_tx *tx, struct pl_pipeline_args *a, json_t *stages, struct pl_err *err)
{
    struct pl_run_args run = {
        .id = a->run, .cause = "pipeline", .message = a->spec->pipeline, .state = "running", .stages = stages};

    return *a->run ? pl_tx_run_create(tx, &run, err) : 0;
}

static int emit_pipeline(struct pl_tx *tx, const struct pl_pipeline_args *a, json_t *stages, struct pl_err *err)
{
    char user[PL_HASH_HEX + 1], effective[PL_HASH_HEX + 1];
    int r =
        pl_tx_emit(tx, PL_RECORD_PIPELINE,
                   json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:O, s:I}", "project", a->spec->project, "name",
                             a->spec->pipeline, "version", (json_int_t)a->version, "user_spec", pl_hash_hex(&a->user_spec, user),
                             "effective_spec", pl_hash_hex(&a->effective_spec, effective), "filename",
                             a->filename ? a->filename : "", "run", a->run, "stages", stages, "at", (json_int_t)pl_tx_now_us(tx)),
                   err);

    return r < 0 ? r
                 : pl_tx_event(tx, "pipeline",
                               json_pack("{s:s, s:s, s:I, s:s}", "project", a->spec->project, "pipeline", a->spec->pipeline,
                                         "version", (json_int_t)a->version, "change", a->version > 1 ? "updated" : "created"),
                               err);
}

static int next_version(struct pl_tx *tx, struct pl_pipeline_args *a, struct pl_err *err)
{
    int64_t version = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &version, "SELECT version FROM pipeline WHERE project = ? AND name = ?", "ss",
                       a->spec->project, a->spec->pipeline);

    if (r == PL_ENOTFOUND)
        r = 0;
    else if (r == 0 && !a->update) {
        r = pl_err_set(err, PL_EEXISTS, "pipeline \"%s\" exists already in project \"%s\"", a->spec->pipeline, a->spec->project);
        return pl_err_hint(err, r, "pipelinectl update pipeline -f FILE");
    }
    a->version = version + 1;
    return r;
}

/* What it may run again is told, and must be confirmed when it is much. */
static int price(struct pl_tx *tx, struct pl_pipeline_args *a, const json_t *runs, struct pl_err *err)
{
    int r = pl_update_cost(pl_tx_conn(tx), a, runs, a->changes, &a->gpu_s, err);

    if (r < 0 || a->dry_run || a->confirmed || a->confirm_above_s < 0 || a->gpu_s <= a->confirm_above_s)
        return r;
    r = pl_err_set(
        err, PL_ECONFIRM,
        "pipeline \"%s\": the update may run what took %.1f GPU-hours, and above %.1f (confirm_above) it must be confirmed",
        a->spec->pipeline, (double)a->gpu_s / 3600, (double)a->confirm_above_s / 3600);
    return pl_err_hint(err, r, "pipelinectl update pipeline -f FILE --dry-run says what would run, --yes does it");
}

/* The new version and its run. */
static int make_version(struct pl_tx *tx, struct pl_pipeline_args *a, json_t *stages, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *runs = json_array();
    int r = changed_to_run(tx, a, runs, err);

    r = r < 0 ? r : price(tx, a, runs, err);
    if (r < 0)
        return r;
    a->changed = true;
    if (json_array_size(runs))
        pl_id_make((uint64_t)(pl_tx_now_us(tx) / 1000), a->run);
    r = emit_pipeline(tx, a, stages, err);
    return r < 0 ? r : make_run(tx, a, runs, err);
}

int pl_tx_pipeline_set(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_pipeline_args *a = arg;
    _cleanup_(json_decrefp) json_t *stages = json_array();
    int r;

    json_decref(a->changes);
    a->changes = json_array();
    a->changed = false;
    a->run[0] = '\0';
    a->gpu_s = 0;
    r = stages && a->changes ? 0 : pl_err_nomem(err);
    if (r == 0 && a->stands_on && !a->dry_run)
        r = pl_tx_revive(tx, a->spec->project, a->stands_on, err);
    r = r < 0 ? r : next_version(tx, a, err);
    r = r < 0 ? r : make_stages(tx, a, stages, err);
    r = r < 0 ? r : make_repos(tx, a->spec, err);
    r = r < 0 ? r : check_inputs(tx, a->spec, err);
    r = r < 0 ? r : pl_pipeline_cycle_check(pl_tx_conn(tx), a->spec, err);
    if (r < 0)
        return r;
    if (!a->changed && a->version > 1)
        a->version--;
    else
        r = make_version(tx, a, stages, err);
    if (r == 0 && a->dry_run)
        r = pl_err_set(err, PL_ECANCELED, "dry run");
    return r;
}

/* ---- delete ---- */

/* The output repos that its stages of all versions left, but for those that another pipeline's stage has taken over. */
static int list_outputs(struct pl_tx *tx, int64_t pipeline, json_t *names, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                         "SELECT DISTINCT s.name FROM stage s JOIN repo r ON r.project = s.project AND r.name = s.name"
                         " WHERE s.pipeline = ?1 AND r.kind = 'output' AND NOT EXISTS (SELECT 1 FROM stage o"
                         " WHERE o.current = 1 AND o.project = s.project AND o.name = s.name AND o.pipeline <> ?1)",
                         "i", pipeline);

    while (r >= 0 && (r = pl_sql_next(pl_tx_conn(tx), &rows, err)) > 0)
        if ((r = pl_json_add(names, json_string(pl_col_text(&rows, 0)), err)) < 0)
            break;
    return r;
}

static int delete_outputs(struct pl_tx *tx, const struct pl_pipeline_delete_args *a, const json_t *names, struct pl_err *err)
{
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
    {
        struct pl_repo_args repo = {.project = a->project, .name = json_string_value(name), .force = a->force};
        int r = pl_tx_repo_delete(tx, &repo, err);

        if (r < 0)
            return r;
    }
    return 0;
}

int pl_tx_pipeline_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_pipeline_delete_args *a = arg;
    _cleanup_(json_decrefp) json_t *names = json_array();
    int64_t id = 0;
    int r =
        pl_sql_int(pl_tx_conn(tx), err, &id, "SELECT id FROM pipeline WHERE project = ? AND name = ?", "ss", a->project, a->name);

    if (r == PL_ENOTFOUND)
        return pl_err_set(err, PL_ENOTFOUND, "pipeline \"%s\" does not exist in project \"%s\"", a->name, a->project);
    r = r < 0 ? r : list_outputs(tx, id, names, err);
    r = r < 0 ? r
              : pl_tx_emit(tx, PL_RECORD_PIPELINE_DELETE, json_pack("{s:s, s:s}", "project", a->project, "name", a->name), err);
    if (r == 0 && !a->keep_repos)
        r = delete_outputs(tx, a, names, err);
    return r < 0
               ? r
               : pl_tx_event(tx, "pipeline",
                             json_pack("{s:s, s:s, s:s}", "project", a->project, "pipeline", a->name, "change", "deleted"), err);
}
