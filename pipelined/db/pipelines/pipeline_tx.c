/* pipeline_tx: creates, updates and deletes pipelines. Everything that can be computed before the transaction
 * is prepared outside it; the transaction compares stages, makes repos, checks inputs, estimates the cost,
 * and creates the new version and its run. */
#include "pipelined/db/pipelines/pipeline_tx.h"

#include "pipelined/db/pipelines/pipeline_cycle.h"
#include "pipelined/db/pipelines/pipeline_state.h"
#include "pipelined/db/pipelines/update_cost.h"
#include "pipelined/db/tx/job_tx.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/text/json_text.h"

#include <stdint.h>
#include <stdio.h>

/* ---- before the transaction ---- */

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

/* Returns the highest stage row id ever used. While it does not change, no stage has changed its inputs. */
static int newest_stage(struct pl_conn *c, int64_t *ret, struct pl_err *err)
{
    return pl_sql_int(c, err, ret, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'stage'), 0)", "");
}

/* Runs before the transaction on a pool thread, with a read-only connection. */
int pl_pipeline_prepare(struct pl_pipeline_args *a, struct pl_db *db, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    int r = newest_stage(rd.conn, &a->newest_stage, err);
    size_t bytes = 0;

    a->records = json_array();
    a->texts = json_array();
    for (size_t i = 0; r == 0 && i < a->spec->n_stages; i++) {
        _cleanup_(pl_buf_finish) struct pl_buf effective = {0};
        const char *text;

        r = pl_stage_effective_json(&a->spec->stages[i], &effective, err);
        text = r < 0 ? NULL : pl_buf_str(&effective);
        if (r == 0 && !text)
            r = pl_err_nomem(err);
        bytes += effective.len;
        if (r == 0 && bytes > PL_PIPELINE_TEXT_MAX)
            r = pl_err_set(err, PL_ELIMIT,
                           "the stages of pipeline \"%s\", with their \"defaults\", take more than %u bytes: put long scripts "
                           "into files of the"
                           " code folder, or make several pipelines",
                           a->spec->pipeline, PL_PIPELINE_TEXT_MAX);
        r = r < 0 ? r : pl_json_add(a->texts, json_string(text), err);
        r = r < 0 ? r : pl_json_add(a->records, stage_record(a, i, text), err);
    }
    if (r == 0 && pl_pipeline_cycle_check(rd.conn, a->spec, NULL) < 0)
        /* there is a cycle: the transaction checks again, after other checks whose errors are more useful */
        a->newest_stage = -1;
    return r;
}

void pl_pipeline_args_finish(struct pl_pipeline_args *a)
{
    json_decref(TAKE_PTR(a->records));
    json_decref(TAKE_PTR(a->texts));
    json_decref(TAKE_PTR(a->changes));
    json_decref(TAKE_PTR(a->kept_origin));
}

/* ---- repos ---- */

/* Creates a repo that the spec declares if it does not exist. Options that the spec gives are set in either
 * case. */
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

/* Refuses a stage over a repo that a deleted pipeline left and users have pushed to since, on whichever branch: its output
 * would replace what they pushed, or it would go with the pipeline. */
static int check_taken_over(struct pl_tx *tx, const struct pl_stage *stage, const struct pl_repo_row *repo, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                         "SELECT b.name, c.run FROM branch b JOIN commit_ c ON c.id = b.head WHERE b.repo = ? AND c.stage = ''"
                         " LIMIT 1",
                         "i", repo->id);

    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    if (r <= 0)
        return r;
    r = pl_err_set(err, PL_EINUSE, "stage \"%s\" would write branch \"%s\" of repo \"%s\", to which commit %.8s was pushed",
                   stage->name, pl_col_text(&rows, 0), stage->name, pl_col_text(&rows, 1));
    return pl_err_hint(err, r, "Rename the stage, or delete the repo: pipelinectl delete repo %s", stage->name);
}

/* Creates or updates the output repo of a stage. `kept`: the previous version of the stage set a retention
 * rule, which is removed if the new version sets none. A rule that did not come from a spec is never removed. */
static int make_output(struct pl_tx *tx, const struct pl_spec *spec, const struct pl_stage *stage, bool kept, struct pl_err *err)
{
    static const struct pl_retention_rule everything = {.said = true};
    struct pl_repo_args a = {.project = spec->project, .name = stage->name, .exist_ok = true, .output = true};
    struct pl_repo_row repo;
    int r = pl_db_repo_seek(pl_tx_conn(tx), spec->project, stage->name, &repo, err);

    if (r > 0 && !repo.output && !repo.kept)
        return pl_err_set(err, PL_EINUSE, "stage \"%s\" would write repo \"%s\", which is an input repo: rename the stage",
                          stage->name, stage->name);
    a.keep = stage->output.keep.said ? &stage->output.keep : kept ? &everything : NULL;
    if (r >= 0)
        r = r == 0 ? pl_tx_repo_create(tx, &a, err) : repo.kept ? check_taken_over(tx, stage, &repo, err) : 0;
    return r < 0 || a.changed || !a.keep ? r : pl_tx_repo_update(tx, &a, err);
}

/* Creates the repos of inputs that follow git, or checks that those that exist follow the same. */
static int make_git_repos(struct pl_tx *tx, struct pl_pipeline_args *args, const struct pl_stage *stage, struct pl_err *err)
{
    for (size_t k = 0; k < stage->n_leaves; k++) {
        struct pl_repo_args a = {.project = args->spec->project, .name = stage->leaves[k]->repo, .exist_ok = true};
        _cleanup_(json_decrefp) json_t *git = NULL;
        int r;

        if (!pl_input_follows_git(stage->leaves[k]))
            continue;
        git = pl_spec_git_json(stage->leaves[k]);
        a.git = git;
        r = git ? pl_tx_repo_create(tx, &a, err) : pl_err_nomem(err);
        if (r < 0)
            return pl_err_wrap(err, r, "stage \"%s\"", stage->name);
        args->follows = args->follows || a.changed;
    }
    return 0;
}

static int make_repos(struct pl_tx *tx, struct pl_pipeline_args *args, const bool *kept, struct pl_err *err)
{
    const struct pl_spec *spec = args->spec;

    for (size_t i = 0; i < spec->n_stages; i++) {
        int r = make_git_repos(tx, args, &spec->stages[i], err);

        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < spec->n_repos; i++) {
        int r = make_repo(tx, spec, &spec->repos[i], err);

        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < spec->n_stages; i++) {
        int r = make_output(tx, spec, &spec->stages[i], kept[i], err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Checks that the repo of an input exists; `known` remembers repos that were found. */
static int check_input(struct pl_tx *tx, const char *stage_project, const struct pl_stage *stage, const struct pl_input *leaf,
                       json_t *known, struct pl_err *err)
{
    char key[2 * PL_NAME_MAX_BYTES + 2];
    struct pl_repo_row repo;
    int r;

    snprintf(key, sizeof key, "%s/%s", leaf->project, leaf->repo);
    if (json_object_get(known, key))
        return 0;
    r = pl_db_repo_seek(pl_tx_conn(tx), leaf->project, leaf->repo, &repo, err);
    if (r == 0 && !pl_streq(leaf->project, stage_project))
        return pl_err_set(err, PL_ENOTFOUND,
                          "stage \"%s\": repo \"%s\" does not exist in project \"%s\": pipelinectl create repo %s/%s",
                          stage->name, leaf->repo, leaf->project, leaf->project, leaf->repo);
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND,
                          "stage \"%s\": repo \"%s\" does not exist: pipelinectl create repo %s, or add \"repos\": {\"%s\": {}}",
                          stage->name, leaf->repo, leaf->repo, leaf->repo);
    if (r > 0 && json_object_set_new(known, key, json_true()) < 0)
        return pl_err_nomem(err);
    return PL_MIN(r, 0);
}

/* Checks that every input is a stage of the spec, or a repo that exists. */
static int check_inputs(struct pl_tx *tx, const struct pl_spec *spec, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *known = json_object();
    int r = known ? 0 : pl_err_nomem(err);

    for (size_t i = 0; i < spec->n_stages; i++) {
        const struct pl_stage *stage = &spec->stages[i];

        for (size_t k = 0; r == 0 && k < stage->n_leaves; k++)
            if (pl_input_reads(stage->leaves[k]) && stage->leaves[k]->stage == PL_SPEC_NO_STAGE)
                r = check_input(tx, spec->project, stage, stage->leaves[k], known, err);
    }
    return r;
}

/* ---- comparison with the previous version ---- */

/* Compares stage `i` with the current stage: says what changed, and whether the current stage has a retention
 * rule. */
static int stage_changed(struct pl_tx *tx, const struct pl_pipeline_args *a, size_t i, const char **ret, bool *ret_kept,
                         struct pl_err *err)
{
    const char *name = a->spec->stages[i].name, *effective = json_string_value(json_array_get(a->texts, i));
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                         "SELECT s.spec, s.code_identity, p.name, json_type(s.spec, '$.output.keep') IS NOT NULL FROM stage s"
                         " JOIN pipeline p ON p.id = s.pipeline WHERE s.current = 1 AND s.project = ? AND s.name = ?",
                         "ss", a->spec->project, name);
    struct pl_hash identity;

    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    if (r < 0)
        return r;
    *ret = "new";
    if (r == 0)
        return 0;
    if (!pl_streq(pl_col_text(&rows, 2), a->spec->pipeline))
        return pl_err_set(
            err, PL_EINUSE,
            "stage \"%s\" already belongs to pipeline \"%s\" in project \"%s\": rename it, or set \"project\" in the spec", name,
            pl_col_text(&rows, 2), a->spec->project);
    identity = pl_col_hash(&rows, 1);
    *ret = pl_hash_eq(&identity, &a->code[i].identity) && pl_streq(pl_col_text(&rows, 0), effective) ? "unchanged" : "changed";
    *ret_kept = pl_col_int(&rows, 3) != 0;
    return 0;
}

static int note_removed(struct pl_tx *tx, struct pl_pipeline_args *a, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                         "SELECT s.name FROM pipeline p JOIN stage s ON s.pipeline = p.id AND s.version = p.version"
                         " WHERE p.project = ? AND p.name = ?",
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

/* Compares all stages; `kept` has one entry per stage, initially false. */
static int stage_changes(struct pl_tx *tx, struct pl_pipeline_args *a, bool *kept, struct pl_err *err)
{
    for (size_t i = 0; i < a->spec->n_stages; i++) {
        const char *change = NULL;
        int r = stage_changed(tx, a, i, &change, &kept[i], err);

        if (r < 0)
            return r;
        a->changed = a->changed || !pl_streq(change, "unchanged");
        r = pl_json_add(a->changes, json_pack("{s:s, s:s}", "stage", a->spec->stages[i].name, "change", change), err);
        if (r < 0)
            return r;
    }
    return note_removed(tx, a, err);
}

/* ---- stages to run ---- */

/* Says whether the branch has a commit; `heads` remembers the answers. */
static int has_head(struct pl_tx *tx, const struct pl_input *leaf, json_t *heads, bool *ret, struct pl_err *err)
{
    char key[3 * PL_NAME_MAX_BYTES + 3];
    const json_t *known;
    int64_t one;
    int r;

    snprintf(key, sizeof key, "%s/%s@%s", leaf->project, leaf->repo, leaf->branch);
    known = json_object_get(heads, key);
    *ret = json_is_true(known);
    if (known)
        return 0;
    r = pl_sql_int(pl_tx_conn(tx), err, &one,
                   "SELECT 1 FROM branch b JOIN repo r ON r.id = b.repo WHERE r.project = ? AND r.name = ? AND b.name = ? AND "
                   "b.head IS NOT NULL",
                   "sss", leaf->project, leaf->repo, leaf->branch);
    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    *ret = r == 0;
    return json_object_set_new(heads, key, json_boolean(*ret)) < 0 ? pl_err_nomem(err) : 0;
}

/* Says whether a tree of inputs can be read: all inputs of a cross, or one input of a union, must have a
 * commit or come from a stage of this spec that will run. Sets `*ret_here` if at least one of the inputs
 * comes from such a stage. */
static int can_read(struct pl_tx *tx, const struct pl_input *tree, const bool *runs, json_t *heads, bool *ret, bool *ret_here,
                    struct pl_err *err)
{
    bool here = tree->stage != PL_SPEC_NO_STAGE && runs[tree->stage], any = tree->n_children == 0, all = true;
    int r = 0;

    /* a run makes the environment that its stages need */
    if (tree->n_children == 0 && pl_input_triggers(tree) && !here && !(tree->environment && tree->stage != PL_SPEC_NO_STAGE))
        r = has_head(tx, tree, heads, &all, err);
    for (size_t i = 0; r == 0 && i < tree->n_children; i++) {
        bool can = false;

        r = can_read(tx, &tree->children[i], runs, heads, &can, ret_here, err);
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
    _cleanup_(json_decrefp) json_t *heads = json_object();
    int r = runs && heads ? 0 : pl_err_nomem(err);

    for (size_t k = 0; r == 0 && k < spec->n_stages; k++) {
        uint32_t i = spec->order[k];
        const struct pl_stage *s = &spec->stages[i];
        bool upstream = false, ready = false;

        r = can_read(tx, s->input, runs, heads, &ready, &upstream, err);
        runs[i] = ready && (upstream || wanted[i]);
        if (r == 0 && runs[i])
            r = pl_json_add(ret, json_pack("[s, s]", spec->project, s->name), err);
    }
    return r;
}

/* Lists the new or changed stages that can run, and the stages downstream of them; none of a stopped pipeline, and all of one
 * that starts again. */
static int changed_to_run(struct pl_tx *tx, const struct pl_pipeline_args *a, json_t *ret, struct pl_err *err)
{
    _cleanup_free_ bool *changed = calloc(a->spec->n_stages + 1, sizeof *changed);

    if (a->stopped)
        return 0;
    for (size_t i = 0; changed && i < a->spec->n_stages; i++)
        changed[i] =
            a->restarted || !pl_streq(json_string_value(json_object_get(json_array_get(a->changes, i), "change")), "unchanged");
    return changed ? pl_pipeline_stages_to_run(tx, a->spec, changed, ret, err) : pl_err_nomem(err);
}

int pl_pipeline_batch_run(struct pl_tx *tx, struct pl_pipeline_batch *batch, const char *message, struct pl_err *err)
{
    struct pl_run_args run = {
        .id = batch->run, .cause = "pipeline", .message = message, .state = "running", .stages = batch->stages};

    return json_array_size(batch->stages) ? pl_tx_run_create(tx, &run, err) : 0;
}

/* Adds the stages to the batch, whose run the new version starts. */
static int add_to_run(struct pl_tx *tx, struct pl_pipeline_args *a, struct pl_pipeline_batch *batch, json_t *stages,
                      struct pl_err *err)
{
    if (json_array_size(stages) == 0)
        return 0;
    batch->stages = batch->stages ? batch->stages : json_array();
    if (!batch->stages || json_array_extend(batch->stages, stages) < 0)
        return pl_err_nomem(err);
    if (!*batch->run)
        pl_id_make((uint64_t)(pl_tx_now_us(tx) / 1000), batch->run);
    snprintf(a->run, sizeof a->run, "%s", batch->run);
    return 0;
}

/* Makes what is recorded of the version's origin: the git commit, or who set it by hand; and the defaults that it was made
 * with. NULL: out of memory. */
static json_t *version_origin(const struct pl_pipeline_args *a)
{
    const json_t *known = a->origin ? a->origin : a->kept_origin;
    _cleanup_(json_decrefp) json_t *origin = known ? json_copy((json_t *)(uintptr_t)known) : json_object();

    if (!origin || (a->defaults && json_object_set(origin, "defaults", a->defaults) < 0) ||
        (!a->origin && a->by && *a->by && json_object_set_new(origin, "by", json_string(a->by)) < 0))
        return NULL;
    return TAKE_PTR(origin);
}

static int emit_pipeline(struct pl_tx *tx, const struct pl_pipeline_args *a, struct pl_err *err)
{
    json_t *origin = version_origin(a);
    char user[PL_HASH_HEX + 1], effective[PL_HASH_HEX + 1];
    int r = pl_tx_emit(tx, PL_RECORD_PIPELINE,
                       json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:O, s:I, s:o}", "project", a->spec->project, "name",
                                 a->spec->pipeline, "version", (json_int_t)a->version, "user_spec",
                                 pl_hash_hex(&a->user_spec, user), "effective_spec", pl_hash_hex(&a->effective_spec, effective),
                                 "filename", a->filename ? a->filename : "", "run", a->run, "stages", a->records, "at",
                                 (json_int_t)pl_tx_now_us(tx), "origin", origin),
                       err);

    return r < 0 ? r
                 : pl_tx_event(tx, "pipeline",
                               json_pack("{s:s, s:s, s:I, s:s}", "project", a->spec->project, "pipeline", a->spec->pipeline,
                                         "version", (json_int_t)a->version, "change", a->version > 1 ? "updated" : "created"),
                               err);
}

/* Checks that the existing pipeline, which follows the source `source` ("" = none), may be set from a->origin. `origin`: that
 * of its current version. A change of the file that it comes from is a new version even if the stages are the same. */
static int check_source(struct pl_pipeline_args *a, const char *source, const json_t *origin, struct pl_err *err)
{
    const char *mine = pl_json_str(a->origin, "source"), *left = pl_json_str(origin, "detached");
    int r;

    if (*mine && *source && !pl_streq(source, mine))
        return pl_err_set(err, PL_EINUSE,
                          "pipeline \"%s\" is set by source \"%s\" (%s in %s), and by source \"%s\" (%s): rename one",
                          a->spec->pipeline, source, pl_json_str(origin, "path"), pl_json_str(origin, "url"), mine,
                          pl_json_str(a->origin, "path"));
    if (*source && !a->origin && !a->detach) {
        r = pl_err_set(err, PL_EINUSE, "pipeline \"%s\" is set by source \"%s\", from %s in %s: change it there",
                       a->spec->pipeline, source, pl_json_str(origin, "path"), pl_json_str(origin, "url"));
        return pl_err_hint(err, r, "pipelinectl update pipeline -f FILE --detach sets it by hand from now on");
    }
    a->skipped = *mine && pl_streq(mine, left);
    a->changed = !pl_streq(source, mine) || (*mine && (!pl_streq(pl_json_str(origin, "path"), pl_json_str(a->origin, "path")) ||
                                                       !pl_streq(pl_json_str(origin, "url"), pl_json_str(a->origin, "url"))));
    if (!*mine && (*source || *left)) {
        json_decref(a->kept_origin);
        a->kept_origin = json_pack("{s:s}", "detached", *source ? source : left);
        return a->kept_origin ? 0 : pl_err_nomem(err);
    }
    return 0;
}

/* Finds the current version of the pipeline, and checks that this one may follow it. */
static int next_version(struct pl_tx *tx, struct pl_pipeline_args *a, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *origin = NULL;
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                         "SELECT p.version, p.source, v.origin, p.stopped FROM pipeline p JOIN pipeline_version v"
                         " ON v.pipeline = p.id AND v.version = p.version WHERE p.project = ? AND p.name = ?",
                         "ss", a->spec->project, a->spec->pipeline);

    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    a->version = 1;
    if (r <= 0)
        return r;
    if (!a->update) {
        r = pl_err_set(err, PL_EEXISTS, "pipeline \"%s\" exists already in project \"%s\"", a->spec->pipeline, a->spec->project);
        return pl_err_hint(err, r, "pipelinectl update pipeline -f FILE");
    }
    a->version = pl_col_int(&rows, 0) + 1;
    origin = pl_col_json(&rows, 2);
    r = check_source(a, pl_col_text(&rows, 1), origin, err);
    a->restarted = a->origin && !a->skipped && pl_streq(pl_col_text(&rows, 3), PL_STOPPED_BY_SOURCE);
    a->stopped = !a->restarted && *pl_col_text(&rows, 3);
    return r;
}

/* Estimates the cost of the update, and refuses it if it is high and not confirmed. */
static int price(struct pl_tx *tx, struct pl_pipeline_args *a, const json_t *runs, struct pl_err *err)
{
    int r = pl_update_cost(pl_tx_conn(tx), a, runs, a->changes, &a->gpu_s, err);

    if (r < 0 || a->dry_run || a->confirmed || a->confirm_above_s < 0 || a->gpu_s <= a->confirm_above_s)
        return r;
    r = pl_err_set(
        err, PL_ECONFIRM,
        "pipeline \"%s\": the update may repeat work that took %.1f GPU-hours; above %.1f (confirm_above) it must be confirmed",
        a->spec->pipeline, (double)a->gpu_s / 3600, (double)a->confirm_above_s / 3600);
    return pl_err_hint(err, r, "pipelinectl update pipeline -f FILE --dry-run shows what would run, --yes confirms it");
}

/* Creates the new version and its run. If only the file of a pipeline comes back that its source stopped, there is no new
 * version. */
static int make_version(struct pl_tx *tx, struct pl_pipeline_args *a, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *runs = json_array();
    struct pl_pipeline_batch alone = {0}, *batch = a->batch ? a->batch : &alone;
    int r = changed_to_run(tx, a, runs, err);

    r = r < 0 ? r : price(tx, a, runs, err);
    r = r < 0 ? r : add_to_run(tx, a, batch, runs, err);
    if (r == 0 && a->restarted)
        r = pl_pipeline_state_emit(tx, a->spec->project, a->spec->pipeline, "", err);
    if (r == 0 && a->changed)
        r = emit_pipeline(tx, a, err);
    r = r < 0 || a->batch ? r : pl_pipeline_batch_run(tx, &alone, a->spec->pipeline, err);
    json_decref(alone.stages);
    return r;
}

/* Checks for a cycle again if stages were added or changed since pl_pipeline_prepare. */
static int check_circle(struct pl_tx *tx, const struct pl_pipeline_args *a, struct pl_err *err)
{
    int64_t newest = 0;
    int r = newest_stage(pl_tx_conn(tx), &newest, err);

    return r < 0 || newest == a->newest_stage ? r : pl_pipeline_cycle_check(pl_tx_conn(tx), a->spec, err);
}

/* The steps of the transaction, ordered so that the most useful error is found first. A dry run does all of
 * them and is then rolled back. */
int pl_tx_pipeline_set(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_pipeline_args *a = arg;
    _cleanup_free_ bool *kept = calloc(a->spec->n_stages + 1, sizeof *kept);
    int r;

    json_decref(a->changes);
    a->changes = json_array();
    a->changed = a->skipped = a->stopped = a->restarted = false;
    a->run[0] = '\0';
    a->gpu_s = 0;
    r = kept && a->changes ? 0 : pl_err_nomem(err);
    if (r == 0 && a->stands_on && !a->dry_run)
        r = pl_tx_revive(tx, a->spec->project, a->stands_on, err);
    r = r < 0 ? r : next_version(tx, a, err);
    if (r == 0 && a->skipped) {
        a->version--;
        a->changed = false;
        return 0;
    }
    r = r < 0 ? r : stage_changes(tx, a, kept, err);
    r = r < 0 ? r : make_repos(tx, a, kept, err);
    r = r < 0 ? r : check_inputs(tx, a->spec, err);
    r = r < 0 ? r : check_circle(tx, a, err);
    if (r < 0)
        return r;
    a->changed = a->changed || a->version == 1;
    if (!a->changed)
        a->version--;
    if (a->changed || a->restarted)
        r = make_version(tx, a, err);
    if (r == 0 && a->dry_run)
        r = pl_err_set(err, PL_ECANCELED, "dry run");
    return r;
}

/* ---- deleting a pipeline ---- */

/* Lists the output repos of all versions of the pipeline's stages, except those that a stage of another
 * pipeline has taken over. */
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

static int delete_outputs(struct pl_tx *tx, struct pl_pipeline_delete_args *a, const json_t *names, struct pl_err *err)
{
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
    {
        struct pl_repo_args repo = {.project = a->project, .name = json_string_value(name), .force = a->force, .told = a->told};
        int r = pl_tx_repo_delete(tx, &repo, err);

        if (r < 0)
            return r;
        a->loss.repos += repo.loss.repos;
        a->loss.commits += repo.loss.commits;
        a->loss.files += repo.loss.files;
        a->loss.bytes += repo.loss.bytes;
    }
    return 0;
}

/* Refuses to delete a pipeline that a file of its source's applied commit sets: the next commit would bring it back. */
static int check_unsourced(struct pl_tx *tx, int64_t pipeline, const struct pl_pipeline_delete_args *a, struct pl_err *err)
{
    _cleanup_free_ char *source = NULL;
    int r = pl_sql_text(pl_tx_conn(tx), err, &source,
                        "SELECT p.source FROM pipeline p JOIN source_state t ON t.name = p.source,"
                        " json_each(t.details, '$.pipelines') j WHERE p.id = ? AND j.value = p.name",
                        "i", pipeline);

    if (r == PL_ENOTFOUND)
        return 0;
    if (r < 0)
        return r;
    r = pl_err_set(err, PL_EINUSE, "pipeline \"%s\" is set by source \"%s\": remove its file from the repository first", a->name,
                   source);
    return pl_err_hint(err, r, "pipelinectl delete source %s stops following the repository", source);
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
    r = r < 0 || a->by_source ? r : check_unsourced(tx, id, a, err);
    r = r < 0 ? r : list_outputs(tx, id, names, err);
    if (r == 0 && a->outputs && json_array_extend(a->outputs, names) < 0)
        r = pl_err_nomem(err);
    r = r < 0 ? r
              : pl_tx_emit(tx, PL_RECORD_PIPELINE_DELETE, json_pack("{s:s, s:s}", "project", a->project, "name", a->name), err);
    a->loss = (struct pl_delete_loss){0};
    if (r == 0 && !a->keep_repos)
        r = delete_outputs(tx, a, names, err);
    r = r < 0 ? r
              : pl_tx_event(tx, "pipeline",
                            json_pack("{s:s, s:s, s:s}", "project", a->project, "pipeline", a->name, "change", "deleted"), err);
    return r < 0 || !a->dry_run ? r : pl_err_set(err, PL_ECANCELED, "dry run");
}
