/* Each transaction looks up what it needs, checks the rules, emits its record, and writes an event. */
#include "pipelined/db/tx/repo_tx.h"

#include "pipelined/db/tx/job_tx.h"
#include "pipelined/db/tx/rerun_branch.h"
#include "pipelined/db/writer/name_lookup.h"
#include "storage/base/path.h"

#include <stdio.h>

static int project_exists(struct pl_tx *tx, const char *name, struct pl_err *err)
{
    int64_t one;
    int r = pl_sql_int(pl_tx_conn(tx), err, &one, "SELECT 1 FROM project WHERE name = ?", "s", name);

    return r == PL_ENOTFOUND ? 0 : r < 0 ? r : 1;
}

/* Sets the options of an existing project. */
static int set_project_options(struct pl_tx *tx, struct pl_repo_args *a, struct pl_err *err)
{
    _cleanup_free_ char *text = NULL;
    _cleanup_(json_decrefp) json_t *options = NULL;
    bool off;
    int r =
        a->set_network ? pl_sql_text(pl_tx_conn(tx), err, &text, "SELECT options FROM project WHERE name = ?", "s", a->name) : 0;

    if (r < 0 || !a->set_network)
        return r;
    options = json_loads(text, 0, NULL);
    if (!options)
        return pl_err_nomem(err);
    off = json_is_false(json_object_get(options, "network"));
    if (off == a->network_off)
        return 0;
    if (off)
        (void)json_object_del(options, "network");
    else if (json_object_set_new(options, "network", json_false()) < 0)
        return pl_err_nomem(err);
    a->changed = true;
    return pl_tx_emit(tx, PL_RECORD_PROJECT_OPTIONS, json_pack("{s:s, s:O}", "name", a->name, "options", options), err);
}

int pl_tx_project_create(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_args *a = arg;
    int r = pl_name_check("project", a->name, err);

    r = r < 0 ? r : project_exists(tx, a->name, err);
    if (r < 0)
        return r;
    if (r > 0 && !a->exist_ok)
        return pl_err_set(err, PL_EEXISTS, "project \"%s\" exists already", a->name);
    a->changed = r == 0;
    r = r > 0 ? 0
              : pl_tx_emit(tx, PL_RECORD_PROJECT, json_pack("{s:s, s:I}", "name", a->name, "at", (json_int_t)pl_tx_now_us(tx)),
                           err);
    return r < 0 ? r : set_project_options(tx, a, err);
}

int pl_tx_project_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_args *a = arg;
    int64_t repos = 0, pipelines = 0, sources = 0;
    int r = project_exists(tx, a->name, err);

    if (r < 0)
        return r;
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "project \"%s\" does not exist", a->name);
    r = pl_sql_int(pl_tx_conn(tx), err, &repos, "SELECT count(*) FROM repo WHERE project = ?", "s", a->name);
    r = r < 0 ? r : pl_sql_int(pl_tx_conn(tx), err, &pipelines, "SELECT count(*) FROM pipeline WHERE project = ?", "s", a->name);
    r = r < 0 ? r : pl_sql_int(pl_tx_conn(tx), err, &sources, "SELECT count(*) FROM source WHERE project = ?", "s", a->name);
    if (r < 0)
        return r;
    if (sources)
        return pl_err_set(err, PL_EINUSE, "project \"%s\" still has %lld sources: delete them first", a->name,
                          (long long)sources);
    if (repos || pipelines)
        return pl_err_set(err, PL_EINUSE, "project \"%s\" still has %lld repos and %lld pipelines: delete them first", a->name,
                          (long long)repos, (long long)pipelines);
    a->loss = (struct pl_delete_loss){0};
    r = pl_sql_int(pl_tx_conn(tx), err, &a->loss.notifications, "SELECT count(*) FROM notify WHERE project = ?", "s", a->name);
    if (r < 0 || a->look)
        return r;
    a->changed = true;
    return pl_tx_emit(tx, PL_RECORD_PROJECT_DELETE, json_pack("{s:s}", "name", a->name), err);
}

/* Requires the project of a new repo to exist; creates "default" on first use. */
static int need_project(struct pl_tx *tx, const char *name, struct pl_err *err)
{
    int r = project_exists(tx, name, err);

    if (r != 0)
        return r < 0 ? r : 0;
    if (!pl_streq(name, "default")) {
        r = pl_err_set(err, PL_ENOTFOUND, "project \"%s\" does not exist", name);
        return pl_err_hint(err, r, "pipelinectl create project %s", name);
    }
    return pl_tx_project_create(tx, &(struct pl_repo_args){.name = name}, err);
}

int pl_tx_project_update(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_args *a = arg;
    int r = need_project(tx, a->name, err);

    return r < 0 ? r : set_project_options(tx, a, err);
}

static int check_options(const struct pl_repo_args *a, struct pl_err *err)
{
    if (a->set_window && a->commit_window_ms &&
        (a->commit_window_ms < PL_REPO_COMMIT_WINDOW_MIN_MS || a->commit_window_ms > PL_REPO_COMMIT_WINDOW_MAX_MS))
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL, "commit_window of repo \"%s\" must be 0s, or from %dms to %ds", a->name,
                                       PL_REPO_COMMIT_WINDOW_MIN_MS, PL_REPO_COMMIT_WINDOW_MAX_MS / 1000),
                            "commit_window");
    if (a->durable && !pl_streq(a->durable, "local") && !pl_streq(a->durable, "bucket"))
        return pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "durable is \"%.40s\" of repo \"%s\": use local or bucket", a->durable, a->name),
            "durable");
    if (a->keep && !a->output && (a->keep->results || a->keep->logs))
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL,
                                       "repo \"%s\" is an input repo and has no results or logs: set only commits and days",
                                       a->name),
                            "keep");
    return 0;
}

/* Sets the given options in `options`; a default value removes its key. */
static int set_options(json_t *options, const struct pl_repo_args *a, struct pl_err *err)
{
    int r = 0;

    if (a->set_window && a->commit_window_ms)
        r = json_object_set_new(options, "commit_window_ms", json_integer(a->commit_window_ms));
    else if (a->set_window)
        json_object_del(options, "commit_window_ms");
    if (r == 0 && a->durable && pl_streq(a->durable, "bucket"))
        r = json_object_set_new(options, "durable", json_string("bucket"));
    else if (a->durable)
        json_object_del(options, "durable");
    if (r == 0 && a->keep && (a->keep->commits || a->keep->days || a->keep->results || a->keep->logs))
        r = json_object_set_new(options, "keep", pl_retention_json(a->keep));
    else if (a->keep)
        json_object_del(options, "keep");
    return r < 0 ? pl_err_nomem(err) : 0;
}

static int emit_repo(struct pl_tx *tx, const struct pl_repo_args *a, const char *description, json_t *options, struct pl_err *err)
{
    int r = set_options(options, a, err);

    return r < 0 ? r
                 : pl_tx_emit(tx, PL_RECORD_REPO,
                              json_pack("{s:s, s:s, s:s, s:s, s:O, s:I}", "project", a->project, "name", a->name, "kind",
                                        a->output ? "output" : "input", "description", description, "options", options, "at",
                                        (json_int_t)pl_tx_now_us(tx)),
                              err);
}

int pl_tx_repo_update(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_args *a = arg;
    _cleanup_free_ char *options = NULL, *description = NULL;
    _cleanup_(json_decrefp) json_t *now = NULL, *before = NULL;
    struct pl_repo_row row;
    int r = pl_db_repo_find(pl_tx_conn(tx), a->project, a->name, &row, err);

    if (r == 0 && pl_repo_read_only(&row) && (a->set_window || a->durable))
        r = pl_err_set(err, PL_EOUTPUT, "repo \"%s\" is written by %s: it has no commit_window or durable", a->name,
                       row.git ? "the daemon, from git" : "a stage");
    a->output = r == 0 && (row.output || (row.kept && a->output)); /* a stage takes a kept repo over */
    r = r < 0 ? r : check_options(a, err);
    r = r < 0 ? r : pl_sql_text(pl_tx_conn(tx), err, &options, "SELECT options FROM repo WHERE id = ?", "i", row.id);
    r = r < 0 ? r : pl_sql_text(pl_tx_conn(tx), err, &description, "SELECT description FROM repo WHERE id = ?", "i", row.id);
    if (r < 0)
        return r;
    now = json_loads(options, 0, NULL);
    before = json_deep_copy(now);
    if (!before)
        return pl_err_nomem(err);
    r = set_options(now, a, err);
    if (r < 0)
        return r;
    if (json_equal(now, before) && (!a->description || pl_streq(a->description, description)))
        return 0;
    a->changed = true;
    r = emit_repo(tx, a, a->description ? a->description : description, now, err);
    return r < 0 ? r
                 : pl_tx_event(tx, "repo",
                               json_pack("{s:s, s:s, s:s}", "project", a->project, "repo", a->name, "change", "updated"), err);
}

/* ---- repos that follow git ---- */

/* Says where files come from: an address, or "source NAME"; and the branch. */
static void origin_text(const json_t *git, char out[PL_ERR_MSG_BYTES / 3])
{
    const char *url = json_string_value(json_object_get(git, "url")), *branch = json_string_value(json_object_get(git, "branch")),
               *secret = json_string_value(json_object_get(git, "secret"));

    snprintf(out, PL_ERR_MSG_BYTES / 3, "%s%.200s%s%.60s%s%.60s", url ? "" : "source ",
             url ? url : json_string_value(json_object_get(git, "source")), branch ? ", branch " : "", branch ? branch : "",
             secret ? ", secret " : "", secret ? secret : "");
}

/* Refuses an existing repo that does not follow the same git repository and branch. */
static int check_origin(struct pl_tx *tx, const struct pl_repo_args *a, const struct pl_repo_row *row, struct pl_err *err)
{
    char is[PL_ERR_MSG_BYTES / 3], wanted[PL_ERR_MSG_BYTES / 3];
    _cleanup_(json_decrefp) json_t *options = NULL;
    _cleanup_free_ char *text = NULL;
    const json_t *git;
    int r = pl_sql_text(pl_tx_conn(tx), err, &text, "SELECT options FROM repo WHERE id = ?", "i", row->id);

    if (r < 0)
        return r;
    options = json_loads(text, 0, NULL);
    git = json_object_get(options, "git");
    if (json_equal(git, a->git))
        return 0;
    origin_text(a->git, wanted);
    if (!git)
        return pl_err_set(err, PL_EEXISTS,
                          "repo \"%s\" exists, and is filled by %s, not from git (%s): give the git input another name", a->name,
                          row->output ? "a stage" : "pushes", wanted);
    origin_text(git, is);
    r = pl_err_set(err, PL_EEXISTS, "repo \"%s\" follows %s, not %s: give the git input another name", a->name, is, wanted);
    return pl_err_hint(err, r, "or delete the repo while no pipeline reads it: pipelinectl delete repo %s", a->name);
}

/* Checks that the source that `git` names is one of the project. */
static int check_source(struct pl_tx *tx, const struct pl_repo_args *a, struct pl_err *err)
{
    const char *source = json_string_value(json_object_get(a->git, "source"));
    int64_t one;
    int r = source ? pl_sql_int(pl_tx_conn(tx), err, &one, "SELECT 1 FROM source WHERE project = ? AND name = ?", "ss",
                                a->project, source)
                   : 0;

    if (r != PL_ENOTFOUND)
        return r;
    r = pl_err_set(err, r, "git input \"%s\": project \"%s\" has no source \"%s\"", a->name, a->project, source);
    return pl_err_hint(err, r, "pipelinectl create source %s --git URL", source);
}

int pl_tx_repo_create(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_args *a = arg;
    _cleanup_(json_decrefp) json_t *options = json_object();
    struct pl_repo_row row;
    int r = pl_name_check("repo", a->name, err);

    r = r < 0 ? r : check_options(a, err);
    r = r < 0 ? r : need_project(tx, a->project, err);
    if (r < 0)
        return r;
    r = pl_db_repo_seek(pl_tx_conn(tx), a->project, a->name, &row, err);
    if (r < 0)
        return r;
    if (r > 0 && a->exist_ok && a->git)
        return check_origin(tx, a, &row, err);
    if (r > 0 && a->exist_ok && row.output == a->output)
        return 0;
    if (r > 0)
        return pl_err_set(err, PL_EEXISTS, "repo \"%s\" exists already in project \"%s\"%s", a->name, a->project,
                          row.output ? ": a stage writes it" : "");
    r = check_source(tx, a, err);
    if (r == 0 && (!options || (a->git && json_object_set_new(options, "git", json_deep_copy(a->git)) < 0)))
        r = pl_err_nomem(err);
    r = r < 0 ? r : emit_repo(tx, a, a->description ? a->description : "", options, err);
    a->changed = r == 0;
    return r < 0 ? r
                 : pl_tx_event(tx, "repo",
                               json_pack("{s:s, s:s, s:s}", "project", a->project, "repo", a->name, "change", "created"), err);
}

/* Finds a current stage whose spec names the repo, or the branch (if not NULL), as an input, and says what reads it: a stage that
 * `to` may see, if there is one; of the others no name is told. Returns 1, or 0 if there is none. */
static int say_reader(struct pl_tx *tx, const struct pl_told *to, const char *project, const char *repo, const char *branch,
                      char ret[2 * PL_NAME_MAX_BYTES + 64], struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char leaf[3 * PL_NAME_MAX_BYTES + 3];
    bool found = false;
    int r;

    /* PROJECT/REPO@BRANCH, as inputs are written in effective specs */
    snprintf(leaf, sizeof leaf, "%s/%s@%s", project, repo, branch ? branch : "");
    r = pl_sql_query(
        pl_tx_conn(tx), err, &rows,
        "SELECT DISTINCT s.name, s.project FROM stage s, json_tree(s.spec, '$.input') t WHERE s.current = 1 AND t.key = 'repo'"
        " AND (t.value = ?1 OR (?2 AND substr(t.value, 1, length(?1)) = ?1))"
        " ORDER BY s.project <> ?3, s.project, s.name",
        "sis", leaf, (int64_t)!branch, project);
    while (r >= 0 && (r = pl_sql_next(pl_tx_conn(tx), &rows, err)) > 0) {
        const char *stage = pl_col_text(&rows, 0), *of = pl_col_text(&rows, 1);
        const bool own = pl_streq(of, project);

        if (to->readable ? to->readable(to->who, of, stage) : own) {
            snprintf(ret, 2 * PL_NAME_MAX_BYTES + 64, own ? "stage \"%s\"" : "stage \"%s\" of project \"%s\"", stage, of);
            return 1;
        }
        if (!found)
            snprintf(ret, 2 * PL_NAME_MAX_BYTES + 64, own ? "a stage" : "a stage of another project");
        found = true;
    }
    return r < 0 ? r : found;
}

/* Refuses with PL_EINUSE if a current stage reads the repo, or the branch (if not NULL). */
static int find_reader(struct pl_tx *tx, const struct pl_told *to, const char *project, const char *repo, const char *branch,
                       struct pl_err *err)
{
    char stage[2 * PL_NAME_MAX_BYTES + 64];
    int r = say_reader(tx, to, project, repo, branch, stage, err);

    if (r <= 0)
        return r;
    return branch ? pl_err_set(err, PL_EINUSE, "%s reads branch \"%s\" of repo \"%s\": delete its pipeline first, or use --force",
                               stage, branch, repo)
                  : pl_err_set(err, PL_EINUSE, "%s reads repo \"%s\": delete its pipeline first, or use --force", stage, repo);
}

/* Checks that the head of the branch, or of every branch (NULL), has no files. */
static int check_empty(struct pl_tx *tx, int64_t repo, const char *branch, struct pl_err *err)
{
    int64_t files = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &files,
                       "SELECT coalesce(sum(c.files), 0) FROM branch b JOIN commit_ c ON c.id = b.head"
                       " WHERE b.repo = ? AND (? OR b.name = ?)",
                       "iis", repo, (int64_t)!branch, branch ? branch : "");

    return r == 0 && files ? pl_err_set(err, PL_ECONFLICT, "it is not empty: it has %lld files", (long long)files) : r;
}

/* Counts what the delete of a repo takes away. */
static int repo_loss(struct pl_tx *tx, int64_t repo, struct pl_delete_loss *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r =
        pl_sql_query(pl_tx_conn(tx), err, &rows,
                     "SELECT (SELECT count(*) FROM commit_ WHERE repo = ?1), coalesce(sum(c.files), 0), coalesce(sum(c.bytes), 0)"
                     " FROM branch b JOIN commit_ c ON c.id = b.head WHERE b.repo = ?1",
                     "i", repo);

    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    if (r > 0)
        *ret = (struct pl_delete_loss){
            .repos = 1, .commits = pl_col_int(&rows, 0), .files = pl_col_int(&rows, 1), .bytes = pl_col_int(&rows, 2)};
    return PL_MIN(r, 0);
}

json_t *pl_delete_loss_json(const struct pl_delete_loss *loss)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "repos", (json_int_t)loss->repos, "commits", (json_int_t)loss->commits,
                     "files", (json_int_t)loss->files, "bytes", (json_int_t)loss->bytes, "open_commits",
                     (json_int_t)loss->open_commits, "operations", (json_int_t)loss->operations);
}

/* A dry run ends here, before anything is changed: to delete and undo a large repo would hold up all other writes. */
static int end_dry_run(bool dry_run, struct pl_err *err)
{
    return dry_run ? pl_err_set(err, PL_ECANCELED, "dry run") : 0;
}

int pl_tx_repo_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_args *a = arg;
    _cleanup_free_ char *pipeline = NULL;
    struct pl_repo_row row;
    int r = pl_db_repo_find(pl_tx_conn(tx), a->project, a->name, &row, err);

    if (r < 0)
        return r;
    r = pl_db_stage_owner(pl_tx_conn(tx), a->project, a->name, &pipeline, err);
    if (r == 0)
        return pl_err_set(err, PL_EINUSE, "repo \"%s\" is written by pipeline \"%s\": delete the pipeline", a->name, pipeline);
    r = r == PL_ENOTFOUND ? 0 : r;
    if (r == 0 && (!a->force || row.git))
        r = find_reader(tx, &a->told, a->project, a->name, NULL, err);
    if (r == PL_EINUSE && row.git) /* one made by hand in its place would pass for the git repository */
        r = pl_err_set(err, r, "repo \"%s\" follows a git repository, and a stage reads it: delete its pipeline first", a->name);
    if (r == 0 && a->empty)
        r = check_empty(tx, row.id, NULL, err);
    if (r < 0)
        return r;
    a->changed = true;
    a->id = row.id;
    r = repo_loss(tx, row.id, &a->loss, err);
    r = r < 0 ? r : end_dry_run(a->dry_run, err);
    r = r < 0 ? r : pl_tx_emit(tx, PL_RECORD_REPO_DELETE, json_pack("{s:s, s:s}", "project", a->project, "name", a->name), err);
    r = r < 0 ? r
              : pl_tx_event(tx, "repo", json_pack("{s:s, s:s, s:s}", "project", a->project, "repo", a->name, "change", "deleted"),
                            err);
    return r;
}

/* Starts the stages that read the branch. `how`: what became of it, in words. */
static int run_of_branch(struct pl_tx *tx, struct pl_branch_args *a, const char *how, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *branches = json_pack("[s]", a->name);
    char message[2 * PL_NAME_MAX_BYTES + 64];

    snprintf(message, sizeof message, "branch %s@%s was %s", a->repo, a->name, how);
    return pl_tx_run_readers(tx, a->project, a->repo, branches, "push", message, a->started, err);
}

/* Finds the repo, whose branches users may set, and the branch. Returns 1, or 0 if there is no such branch. `*ret_head`: the
 * branch's commit, 0 = none. */
static int find_settable(struct pl_tx *tx, const struct pl_branch_args *a, struct pl_repo_row *ret, int64_t *ret_head,
                         struct pl_err *err)
{
    int r = pl_db_repo_find(pl_tx_conn(tx), a->project, a->repo, ret, err);

    if (r < 0)
        return r;
    if (ret->git)
        return pl_db_refuse_write(pl_tx_conn(tx), a->project, a->repo, err);
    if (ret->output)
        return pl_err_set(err, PL_EOUTPUT, "cannot set branch \"%s\" of repo \"%s\": only the stage that writes it can", a->name,
                          a->repo);
    r = pl_sql_int(pl_tx_conn(tx), err, ret_head, "SELECT coalesce(head, 0) FROM branch WHERE repo = ? AND name = ?", "is",
                   ret->id, a->name);
    return r == PL_ENOTFOUND ? 0 : r < 0 ? r : 1;
}

/* Moves a branch that has the commit `head`. */
static int move_branch(struct pl_tx *tx, struct pl_branch_args *a, int64_t head, struct pl_err *err)
{
    struct pl_commit_row to = {0};
    char how[64];
    int r = pl_db_commit_named(pl_tx_conn(tx), a->project, a->repo, a->from, &to, err);

    if (r < 0 || to.id == head)
        return r;
    r = pl_tx_emit(tx, PL_RECORD_REF,
                   json_pack("{s:s, s:s, s:s, s:s, s:I}", "project", a->project, "repo", a->repo, "branch", a->name, "head",
                             to.run, "at", (json_int_t)pl_tx_now_us(tx)),
                   err);
    snprintf(how, sizeof how, "moved to commit %.8s", to.run);
    return r < 0 ? r : run_of_branch(tx, a, how, err);
}

int pl_tx_branch_move(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_branch_args *a = arg;
    struct pl_repo_row repo;
    int64_t head = 0;
    int r = find_settable(tx, a, &repo, &head, err);

    a->started[0] = '\0';
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "repo \"%s\" has no branch \"%s\"", a->repo, a->name);
    return r < 0 ? r : move_branch(tx, a, head, err);
}

int pl_tx_branch_create(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_branch_args *a = arg;
    struct pl_commit_row from = {0};
    struct pl_repo_row repo;
    int64_t head = 0;
    int r = pl_name_check("branch", a->name, err);

    a->started[0] = '\0';
    r = r < 0 ? r : find_settable(tx, a, &repo, &head, err);
    if (r < 0)
        return r;
    if (r > 0)
        return a->force && *a->from
                   ? move_branch(tx, a, head, err)
                   : pl_err_hint(err,
                                 pl_err_set(err, PL_EEXISTS, "branch \"%s\" exists already in repo \"%s\"", a->name, a->repo),
                                 "To move it: pipelinectl update branch %s@%s --head COMMIT", a->repo, a->name);
    r = pl_db_check_new_branch(pl_tx_conn(tx), repo.id, a->name, err);
    if (r == 0 && *a->from)
        r = pl_db_commit_named(pl_tx_conn(tx), a->project, a->repo, a->from, &from, err);
    if (r < 0)
        return r;
    r = pl_tx_emit(tx, PL_RECORD_BRANCH,
                   json_pack("{s:s, s:s, s:s, s:s, s:I}", "project", a->project, "repo", a->repo, "name", a->name, "head",
                             from.run, "at", (json_int_t)pl_tx_now_us(tx)),
                   err);
    return r < 0 || !*from.run ? r : run_of_branch(tx, a, "made", err);
}

/* Counts the commits that the repo's rule keeps because of this branch alone: no other branch leads to them, the rule limits
 * the commits of branches, and they are older than its days. Without a rule a deleted branch takes nothing along. */
static int branch_loss(struct pl_tx *tx, int64_t repo, int64_t branch, struct pl_delete_loss *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_retention_rule rule = {0};
    _cleanup_(json_decrefp) json_t *keep = NULL;
    _cleanup_free_ char *text = NULL;
    int r = pl_sql_text(pl_tx_conn(tx), err, &text,
                        "SELECT coalesce(json_extract(options, '$.keep'), '{}') FROM repo WHERE id = ?", "i", repo);

    *ret = (struct pl_delete_loss){0};
    if (r < 0)
        return r;
    keep = json_loads(text, 0, NULL);
    r = keep ? pl_retention_read(keep, &rule, err) : pl_err_nomem(err);
    if (r < 0 || (!rule.commits && !rule.days))
        return r;
    r = pl_sql_query(pl_tx_conn(tx), err, &rows,
                     "WITH RECURSIVE mine(id, run, parent) AS (SELECT c.id, c.run, c.parent FROM branch b JOIN commit_ c"
                     " ON c.id = b.head WHERE b.id = ?2 UNION ALL SELECT c.id, c.run, c.parent FROM mine m JOIN commit_ c"
                     " ON c.repo = ?1 AND c.run = m.parent LIMIT ?4),"
                     " other(id, parent) AS (SELECT c.id, c.parent FROM branch b JOIN commit_ c ON c.id = b.head"
                     " WHERE b.repo = ?1 AND b.id <> ?2 UNION SELECT c.id, c.parent FROM other o JOIN commit_ c"
                     " ON c.repo = ?1 AND c.run = o.parent LIMIT ?4)"
                     " SELECT count(*), coalesce(sum(iif(c.id = h.head, c.files, 0)), 0),"
                     " coalesce(sum(iif(c.id = h.head, c.bytes, 0)), 0) FROM mine m JOIN commit_ c ON c.id = m.id"
                     " JOIN branch h ON h.id = ?2 WHERE c.created_us <= ?3 AND m.id NOT IN (SELECT id FROM other)",
                     "iiii", repo, branch, pl_tx_now_us(tx) - (int64_t)rule.days * PL_RETENTION_DAY_US,
                     (int64_t)PL_BRANCH_LOSS_MAX);
    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    if (r > 0)
        *ret = (struct pl_delete_loss){.commits = pl_col_int(&rows, 0),
                                       .files = pl_col_int(&rows, 1),
                                       .bytes = pl_col_int(&rows, 2)};
    return PL_MIN(r, 0);
}

int pl_tx_branch_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_branch_args *a = arg;
    struct pl_repo_row repo;
    bool made = false;
    int64_t id;
    int r = pl_db_repo_find(pl_tx_conn(tx), a->project, a->repo, &repo, err);

    if (r < 0)
        return r;
    r = pl_sql_int(pl_tx_conn(tx), err, &id, "SELECT id FROM branch WHERE repo = ? AND name = ?", "is", repo.id, a->name);
    if (r < 0)
        return r == PL_ENOTFOUND ? pl_err_set(err, r, "repo \"%s\" has no branch \"%s\"", a->repo, a->name) : r;
    r = pl_rerun_branch_made(pl_tx_conn(tx), repo.id, a->name, &made, err);
    if (r < 0)
        return r;
    if (repo.git)
        return pl_db_refuse_write(pl_tx_conn(tx), a->project, a->repo, err);
    if (repo.output && !made)
        return pl_err_set(err, PL_EOUTPUT, "branch \"%s\" of repo \"%s\" is written by a stage: delete the stage's pipeline",
                          a->name, a->repo);
    r = a->force ? 0 : find_reader(tx, &a->told, a->project, a->repo, a->name, err);
    r = r < 0 || !a->empty ? r : check_empty(tx, repo.id, a->name, err);
    r = r < 0 ? r : branch_loss(tx, repo.id, id, &a->loss, err);
    r = r < 0 ? r : end_dry_run(a->dry_run, err);
    r = r < 0 ? r
              : pl_tx_emit(tx, PL_RECORD_BRANCH_DELETE,
                           json_pack("{s:s, s:s, s:s}", "project", a->project, "repo", a->repo, "name", a->name), err);
    return r;
}
