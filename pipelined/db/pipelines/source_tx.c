/* source_tx: validates, emits the records of sources, and sets the pipelines of one commit together. */
#include "pipelined/db/pipelines/source_tx.h"

#include "pipelined/db/pipelines/pipeline_state.h"
#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/text/json_text.h"
#include "storage/base/buf.h"
#include "storage/base/path.h"

#include <stdio.h>

#define USERS_NAMED 3u /* of the inputs that have a source's files, in the refusal to delete it */

static int no_source(const char *name, struct pl_err *err)
{
    int r = pl_err_set(err, PL_ENOTFOUND, "source \"%s\" does not exist", name);

    return pl_err_hint(err, r, "pipelinectl list source");
}

/* Reads project and settings of a source. Returns 1, or 0 if there is none. */
static int read_source(struct pl_tx *tx, const char *name, char **ret_project, json_t **ret_spec, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows, "SELECT project, spec FROM source WHERE name = ?", "s", name);

    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    if (r <= 0)
        return r;
    *ret_project = strdup(pl_col_text(&rows, 0));
    *ret_spec = pl_col_json(&rows, 1);
    return *ret_project && *ret_spec ? 1 : pl_err_nomem(err);
}

static int check_count(struct pl_tx *tx, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &n, "SELECT count(*) FROM source", "");

    if (r == 0 && n >= PL_SOURCES_MAX)
        r = pl_err_set(err, PL_ELIMIT, "there are %u sources already, the largest number allowed: delete unused ones",
                       PL_SOURCES_MAX);
    return r;
}

static int emit_source(struct pl_tx *tx, const struct pl_source_args *a, const char *project, struct pl_err *err)
{
    int r = pl_tx_emit(tx, PL_RECORD_SOURCE,
                       json_pack("{s:s, s:s, s:O, s:I}", "name", a->name, "project", project, "spec", a->after, "at",
                                 (json_int_t)pl_tx_now_us(tx)),
                       err);

    return r < 0 ? r
                 : pl_tx_event(tx, "source",
                               json_pack("{s:s, s:s, s:s}", "project", project, "source", a->name, "change",
                                         a->update ? "updated" : "created"),
                               err);
}

int pl_tx_source_set(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_source_args *a = arg;
    _cleanup_(json_decrefp) json_t *spec = NULL;
    _cleanup_free_ char *project = NULL;
    int r = pl_name_check("source", a->name, err);

    r = r < 0 ? r : read_source(tx, a->name, &project, &spec, err);
    if (r < 0)
        return r;
    if (r == 0 && a->update)
        return no_source(a->name, err);
    if (r > 0 && !a->update) {
        r = pl_err_set(err, PL_EEXISTS, "source \"%s\" exists already", a->name);
        return pl_err_hint(err, r, "pipelinectl update source %s changes it", a->name);
    }
    if (!a->update)
        r = check_count(tx, err);
    if (r >= 0 && !a->update) /* creates the project "default" if needed */
        r = pl_tx_project_update(tx, &(struct pl_repo_args){.name = a->project}, err);
    json_decref(a->after);
    a->after = a->update ? TAKE_PTR(spec) : json_object();
    if (r >= 0 && (!a->after || json_object_update(a->after, a->spec) < 0))
        r = pl_err_nomem(err);
    return r < 0 ? r : emit_source(tx, a, a->update ? project : a->project, err);
}

/* Refuses with PL_EINUSE if inputs of current stages have the files of the source's repository; names the first of them. */
static int check_unused(struct pl_tx *tx, const char *name, const char *project, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(pl_buf_finish) struct pl_buf users = {0};
    size_t n = 0;
    /* PROJECT/REPO@BRANCH, as inputs are written in effective specs */
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                         "SELECT DISTINCT r.name, s.name, iif(p.project = ?1, p.name, p.project || '/' || p.name) FROM repo r, "
                         "stage s JOIN pipeline p ON p.id = s.pipeline,"
                         " json_tree(s.spec, '$.input') t WHERE r.project = ?1 AND json_extract(r.options, '$.git.source') = ?2"
                         " AND s.current = 1 AND t.key = 'repo'"
                         " AND substr(t.value, 1, length(r.project || r.name) + 2) = r.project || '/' || r.name || '@'"
                         " ORDER BY p.project, p.name, s.position, r.name",
                         "ss", project, name);

    while (r >= 0 && (r = pl_sql_next(pl_tx_conn(tx), &rows, err)) > 0)
        if (n++ < USERS_NAMED)
            r = pl_buf_addf(&users, err, "%sinput \"%s\" of stage \"%s\" of pipeline \"%s\"", n > 1 ? ", " : "",
                            pl_col_text(&rows, 0), pl_col_text(&rows, 1), pl_col_text(&rows, 2));
    if (r == 0 && n > USERS_NAMED)
        r = pl_buf_addf(&users, err, " and %zu more", n - USERS_NAMED);
    if (r < 0 || n == 0)
        return r;
    return pl_buf_str(&users)
               ? pl_err_set(err, PL_EINUSE, "source \"%s\" is read by git %s: change or delete them first, or use --force", name,
                            pl_buf_str(&users))
               : pl_err_nomem(err);
}

int pl_tx_source_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_source_args *a = arg;
    _cleanup_(json_decrefp) json_t *spec = NULL;
    _cleanup_free_ char *project = NULL;
    int r = read_source(tx, a->name, &project, &spec, err);

    if (r <= 0)
        return r < 0 ? r : no_source(a->name, err);
    r = a->force ? 0 : check_unused(tx, a->name, project, err);
    if (r < 0)
        return r;
    r = pl_tx_emit(tx, PL_RECORD_SOURCE_DELETE, json_pack("{s:s}", "name", a->name), err);
    return r < 0 ? r
                 : pl_tx_event(tx, "source",
                               json_pack("{s:s, s:s, s:s}", "project", project, "source", a->name, "change", "deleted"), err);
}

/* ---- what was seen ---- */

static int emit_seen(struct pl_tx *tx, const struct pl_source_seen *a, struct pl_err *err)
{
    _cleanup_free_ char *project = NULL;
    char error[1024]; /* events have at most 8 KiB */
    int r = pl_sql_text(pl_tx_conn(tx), err, &project, "SELECT project FROM source WHERE name = ?", "s", a->name);

    snprintf(error, sizeof error, "%s", a->error);
    pl_utf8_trim(error);
    return r < 0 ? r
                 : pl_tx_event(tx, "source",
                               json_pack("{s:s, s:s, s:s, s:s, s:s}", "project", project, "source", a->name, "state", a->state,
                                         "error", error, "commit", a->seen),
                               err);
}

int pl_tx_source_seen(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_source_seen *a = arg;
    _cleanup_free_ char *details = a->details ? pl_json_text(a->details, JSON_COMPACT) : strdup("");
    int64_t there = 0, same = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &there, "SELECT count(*) FROM source WHERE name = ? AND created_us = ?", "si",
                       a->name, a->created_us);

    if (r < 0 || there == 0 || !details)
        return r < 0 || there == 0 ? r : pl_err_nomem(err);
    r = pl_sql_int(pl_tx_conn(tx), err, &same,
                   "SELECT count(*) FROM source_state WHERE name = ?1 AND state = ?2 AND error = ?3 AND ?4 IN ('', seen)"
                   " AND ?5 IN ('', applied)",
                   "sssss", a->name, a->state, a->error, a->seen, a->applied);
    r = r < 0
            ? r
            : pl_sql_exec(pl_tx_conn(tx), err,
                          "INSERT INTO source_state(name, state, error, seen, applied, details, looked_us, changed_us)"
                          " VALUES (?1, ?2, ?3, ?4, ?5, CASE ?6 WHEN '' THEN '{}' ELSE ?6 END, ?7, ?7)"
                          " ON CONFLICT(name) DO UPDATE SET state = ?2, error = ?3,"
                          " seen = CASE ?4 WHEN '' THEN seen ELSE ?4 END, applied = CASE ?5 WHEN '' THEN applied ELSE ?5 END,"
                          /* pipelines and previews stay until they are replaced */
                          " details = CASE ?6 WHEN '' THEN details ELSE json_patch(json_object("
                          "'pipelines', json(coalesce(json_extract(details, '$.pipelines'), '[]')),"
                          "'previews', json(coalesce(json_extract(details, '$.previews'), '[]')),"
                          "'preview_warning', coalesce(json_extract(details, '$.preview_warning'), '')), ?6) END, looked_us = ?7,"
                          " changed_us = CASE ?8 WHEN 1 THEN changed_us ELSE ?7 END",
                          "ssssssii", a->name, a->state, a->error, a->seen, a->applied, details, pl_tx_now_us(tx), same);
    return r < 0 || same ? PL_MIN(r, 0) : emit_seen(tx, a, err);
}

static int emit_repo_seen(struct pl_tx *tx, const struct pl_repo_seen *a, struct pl_err *err)
{
    char error[1024]; /* events have at most 8 KiB */

    snprintf(error, sizeof error, "%s", a->error);
    pl_utf8_trim(error);
    return pl_tx_event(tx, "repo",
                       json_pack("{s:s, s:s, s:s, s:s, s:s}", "project", a->project, "repo", a->repo, "state", a->state, "error",
                                 error, "git", a->seen),
                       err);
}

int pl_tx_repo_seen(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_seen *a = arg;
    _cleanup_free_ char *warnings = a->warnings ? pl_json_text(a->warnings, JSON_COMPACT) : strdup("");
    struct pl_repo_row repo;
    int64_t same = 0;
    int r = pl_db_repo_seek(pl_tx_conn(tx), a->project, a->repo, &repo, err);

    if (r <= 0 || repo.id != a->id || !warnings)
        return r <= 0 || repo.id != a->id ? PL_MIN(r, 0) : pl_err_nomem(err);
    r = pl_sql_int(pl_tx_conn(tx), err, &same,
                   "SELECT count(*) FROM repo_state WHERE repo = ?1 AND state = ?2 AND error = ?3 AND ?4 IN ('', seen)", "isss",
                   repo.id, a->state, a->error, a->seen);
    r = r < 0 ? r
              : pl_sql_exec(pl_tx_conn(tx), err,
                            "INSERT INTO repo_state(repo, state, error, seen, warnings, looked_us, changed_us)"
                            " VALUES (?1, ?2, ?3, ?4, CASE ?5 WHEN '' THEN '[]' ELSE ?5 END, ?6, ?6)"
                            " ON CONFLICT(repo) DO UPDATE SET state = ?2, error = ?3,"
                            " seen = CASE ?4 WHEN '' THEN seen ELSE ?4 END, warnings = CASE ?5 WHEN '' THEN warnings ELSE ?5 END,"
                            " looked_us = ?6, changed_us = CASE ?7 WHEN 1 THEN changed_us ELSE ?6 END",
                            "issssii", repo.id, a->state, a->error, a->seen, warnings, pl_tx_now_us(tx), same);
    return r < 0 || same ? PL_MIN(r, 0) : emit_repo_seen(tx, a, err);
}

int pl_tx_source_told(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_source_told *a = arg;
    _cleanup_free_ char *posted = a->posted ? pl_json_text(a->posted, JSON_COMPACT) : NULL;
    _cleanup_free_ char *previews = a->previews ? pl_json_text(a->previews, JSON_COMPACT) : NULL;

    int r = (a->posted && !posted) || (a->previews && !previews) ? pl_err_nomem(err) : 0;

    if (r == 0 && posted)
        r = pl_sql_exec(pl_tx_conn(tx), err,
                        "UPDATE source_state SET details = json_set(details, '$.posted', json(?2)) WHERE name = ?1", "ss",
                        a->name, posted);
    if (r >= 0 && previews)
        r = pl_sql_exec(pl_tx_conn(tx), err,
                        "UPDATE source_state SET details = json_set(details, '$.previews', json(?2), '$.preview_warning', ?3)"
                        " WHERE name = ?1",
                        "sss", a->name, previews, a->warning);
    return PL_MIN(r, 0);
}

/* ---- a commit ---- */

/* Lists pipelines that follow the source and that no file of the commit has. */
static int note_left(struct pl_tx *tx, struct pl_source_apply *a, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows, "SELECT name FROM pipeline WHERE source = ? ORDER BY name", "s", a->name);

    while (r >= 0 && (r = pl_sql_next(pl_tx_conn(tx), &rows, err)) > 0) {
        bool there = false;

        for (size_t i = 0; i < a->n && !there; i++)
            there = pl_streq(a->pipelines[i]->spec->pipeline, pl_col_text(&rows, 0));
        if (!there && (r = pl_json_add(a->left, json_string(pl_col_text(&rows, 0)), err)) < 0)
            return r;
    }
    return r;
}

/* ---- pipelines that are in no file any more ---- */

static const char *const prune_names[] = {[PL_PRUNE_OFF] = "off", [PL_PRUNE_STOP] = "stop", [PL_PRUNE_DELETE] = "delete"};

const char *pl_source_prune_name(enum pl_source_prune prune)
{
    return prune_names[prune];
}

/* Reads the source's setting `prune`. */
static int read_prune(struct pl_tx *tx, struct pl_source_apply *a, struct pl_err *err)
{
    _cleanup_free_ char *name = NULL;
    int r =
        pl_sql_text(pl_tx_conn(tx), err, &name,
                    "SELECT coalesce((SELECT json_extract(spec, '$.prune') FROM source WHERE name = ?), 'off')", "s", a->name);

    a->prune = PL_PRUNE_OFF;
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(prune_names); i++)
        if (pl_streq(name, prune_names[i]))
            a->prune = (enum pl_source_prune)i;
    return r;
}

/* Stops the pipeline, unless it is stopped already. */
static int stop_left(struct pl_tx *tx, const struct pl_source_apply *a, const char *name, bool *ret_stopped, struct pl_err *err)
{
    int64_t runs = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &runs, "SELECT stopped = '' FROM pipeline WHERE project = ? AND name = ?", "ss",
                       a->project, name);

    *ret_stopped = r == 0 && runs;
    return r < 0 || !runs ? r : pl_pipeline_state_emit(tx, a->project, name, PL_STOPPED_BY_SOURCE, err);
}

/* Stops or deletes the pipelines that are left. Output repos of deleted ones are only added to `outputs`: pipelines of the
 * commit may have their stages from now on, and those that read them are deleted or changed first. */
static int prune_left(struct pl_tx *tx, const struct pl_source_apply *a, json_t *outputs, struct pl_err *err)
{
    json_t *name;
    size_t i;
    int r;

    json_array_foreach(a->left, i, name)
    {
        struct pl_pipeline_delete_args gone = {
            .project = a->project, .name = json_string_value(name), .keep_repos = true, .by_source = true, .outputs = outputs};
        bool pruned = a->prune == PL_PRUNE_DELETE;

        if (a->prune == PL_PRUNE_OFF)
            continue;
        r = pruned ? pl_tx_pipeline_delete(tx, &gone, err) : stop_left(tx, a, gone.name, &pruned, err);
        if (r == 0 && pruned)
            r = pl_json_add(a->pruned, json_incref(name), err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Deletes the output repo of a deleted pipeline, unless a stage of another pipeline writes it now. */
static int delete_output(struct pl_tx *tx, const struct pl_source_apply *a, const char *name, struct pl_err *err)
{
    struct pl_repo_args repo = {.project = a->project, .name = name};
    _cleanup_free_ char *owner = NULL;
    struct pl_err why = {0};
    int r = pl_db_stage_owner(pl_tx_conn(tx), a->project, name, &owner, err);

    if (r != PL_ENOTFOUND)
        return r;
    r = pl_tx_repo_delete(tx, &repo, &why);
    if (r == PL_EINUSE)
        return pl_err_set(err, r,
                          "the pipeline of stage \"%s\" is in no file any more, and cannot be deleted (prune: delete): %.*s",
                          name, (int)strcspn(why.msg, ":"), why.msg);
    if (r < 0)
        *err = why;
    return r;
}

static int delete_outputs(struct pl_tx *tx, const struct pl_source_apply *a, const json_t *outputs, struct pl_err *err)
{
    const json_t *name;
    size_t i;
    int r = 0;

    json_array_foreach(outputs, i, name)
    {
        r = r < 0 ? r : delete_output(tx, a, json_string_value(name), err);
    }
    return r;
}

/* Adds to `left` the pipelines that the look before has recorded and that are gone: an apply of this commit has deleted them,
 * and the daemon was killed before it could record that. */
static int note_deleted(struct pl_tx *tx, struct pl_source_apply *a, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                         "SELECT e.value FROM source_state s, json_each(s.details, '$.pipelines') e WHERE s.name = ?1"
                         " AND NOT EXISTS (SELECT 1 FROM pipeline p WHERE p.project = ?2 AND p.name = e.value) ORDER BY e.value",
                         "ss", a->name, a->project);

    while (r >= 0 && (r = pl_sql_next(pl_tx_conn(tx), &rows, err)) > 0)
        if (!pl_json_has_text(a->pruned, pl_col_text(&rows, 0)) &&
            (r = pl_json_add(a->left, json_string(pl_col_text(&rows, 0)), err)) < 0)
            return r;
    return r;
}

/* ---- the transaction ---- */

/* Checks that the source still is to be followed, with the settings with which the commit was read: with others it may have
 * another commit, and what is in no file of this one may be in one of that. */
static int check_followed(struct pl_tx *tx, struct pl_source_apply *a, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &n,
                       "SELECT count(*) FROM source WHERE name = ?1 AND project = ?2 AND created_us = ?3"
                       " AND json_extract(spec, '$.git') = ?4 AND json_extract(spec, '$.branch') = ?5"
                       " AND json_extract(spec, '$.path') = ?6 AND (?7 OR NOT coalesce(json_extract(spec, '$.paused'), 0))",
                       "ssisssi", a->name, a->project, a->created_us, a->git, a->branch, a->path, (int64_t)a->asked);

    a->outdated = r == 0 && n == 0;
    return r < 0 || n ? r
                      : pl_err_set(err, PL_ECONFLICT,
                                   "source \"%s\" changed during the look: its new settings are looked at next", a->name);
}

void pl_source_apply_finish(struct pl_source_apply *a)
{
    json_decref(TAKE_PTR(a->left));
    json_decref(TAKE_PTR(a->pruned));
}

int pl_tx_source_apply(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_source_apply *a = arg;
    _cleanup_(json_decrefp) json_t *outputs = json_array();
    struct pl_pipeline_batch batch = {0};
    char message[PL_NAME_MAX_BYTES + 64];
    int r = a->dry_run ? 0 : check_followed(tx, a, err);

    pl_source_apply_finish(a);
    a->left = json_array();
    a->pruned = json_array();
    *a->run = '\0';
    a->failed = a->n;
    r = r < 0 || (outputs && a->left && a->pruned) ? r : pl_err_nomem(err);
    r = r < 0 ? r : read_prune(tx, a, err);
    r = r < 0 ? r : note_left(tx, a, err);
    r = r < 0 ? r : prune_left(tx, a, outputs, err);
    for (size_t i = 0; r >= 0 && i < a->n; i++) {
        a->pipelines[i]->batch = &batch;
        a->pipelines[i]->dry_run = false; /* the whole transaction is rolled back instead */
        r = pl_tx_pipeline_set(tx, a->pipelines[i], err);
        if (r < 0)
            a->failed = i;
    }
    if (r >= 0 && a->prune == PL_PRUNE_DELETE && !a->dry_run)
        r = note_deleted(tx, a, err);
    snprintf(message, sizeof message, "source %s at %.12s", a->name, a->commit);
    r = r < 0 ? r : delete_outputs(tx, a, outputs, err);
    r = r < 0 ? r : pl_pipeline_batch_run(tx, &batch, message, err);
    if (r >= 0 && batch.stages)
        snprintf(a->run, sizeof a->run, "%s", batch.run);
    json_decref(batch.stages);
    if (r >= 0 && a->dry_run)
        r = pl_err_set(err, PL_ECANCELED, "dry run");
    return r;
}
