/* Makes a commit: its record in the log, its object in a pack, its run; and deletes commits of input repos. */
#include "pipelined/db/tx/commit_tx.h"

#include "pipelined/db/tx/job_tx.h"
#include "storage/dataset/commit/commit.h"
#include "storage/pack/pack_builder.h"

#include <stdio.h>

static char *hex(const struct pl_hash *h, char out[PL_HASH_HEX + 1])
{
    return pl_hash_is_zero(h) ? strcpy(out, "") : pl_hash_hex(h, out);
}

static json_t *commit_record(const struct pl_tx *tx, const struct pl_commit_args *a)
{
    json_t *provenance = a->provenance ? json_incref(a->provenance) : json_array();
    char object[PL_HASH_HEX + 1], root[PL_HASH_HEX + 1], attributes[PL_HASH_HEX + 1], table[PL_HASH_HEX + 1],
        owner[PL_HASH_HEX + 1], code[PL_HASH_HEX + 1];

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:o, s:I, s:s*}",
                     "project", a->project, "repo", a->repo, "branch", a->branch, "run", a->run, "parent",
                     a->parent ? a->parent : "", "object", pl_hash_hex(&a->object, object), "root", pl_hash_hex(&a->root, root),
                     "attributes", hex(&a->attributes, attributes), "table", hex(&a->table, table), "owner",
                     hex(&a->owner, owner), "code", hex(&a->code, code), "generation", (json_int_t)a->generation, "files",
                     (json_int_t)a->files, "bytes", (json_int_t)a->bytes, "message", a->message ? a->message : "", "author",
                     a->author ? a->author : "", "stage", a->stage ? a->stage : "", "provenance", provenance, "at",
                     (json_int_t)pl_tx_now_us(tx), "git", a->git);
}

static int check_repo(struct pl_tx *tx, const struct pl_commit_args *a, int64_t *ret_repo, struct pl_err *err)
{
    struct pl_repo_row repo;
    int r = pl_db_repo_find(pl_tx_conn(tx), a->project, a->repo, &repo, err);

    if (r < 0)
        return r;
    if ((repo.output && !a->output) || (repo.git && !a->git))
        return pl_db_refuse_write(pl_tx_conn(tx), a->project, a->repo, err);
    if (a->git && (!repo.git || repo.id != a->git_repo))
        return pl_err_set(err, PL_ENOTFOUND, "repo \"%s\" was deleted, and made anew", a->repo);
    if (a->output && !repo.output)
        return pl_err_set(err, PL_EOUTPUT, "repo \"%s\" is an input repo now: no stage writes it", a->repo);
    *ret_repo = repo.id;
    return 0;
}

int pl_tx_commit(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_commit_args *a = arg;
    struct pl_commit_row head = {0};
    int64_t repo = 0;
    int r = check_repo(tx, a, &repo, err);

    r = r < 0 ? r : pl_db_branch_head(pl_tx_conn(tx), repo, a->branch, &head, err);
    if (r < 0)
        return r;
    if (a->expect >= 0 && (a->expect != head.id || !pl_streq(a->parent ? a->parent : "", head.run)))
        return pl_err_set(err, PL_ERETRY, "another commit was made on %s/%s@%s in the meantime", a->project, a->repo, a->branch);
    r = a->stands_on ? pl_tx_revive(tx, a->project, a->stands_on, err) : 0;
    if (r == 0 && !a->output && !head.id)
        r = pl_db_check_new_branch(pl_tx_conn(tx), repo, a->branch, err);
    if (r == 0 && !a->output)
        r = pl_tx_emit(tx, PL_RECORD_RUN,
                       json_pack("{s:s, s:s, s:s, s:I}", "id", a->run, "cause", "push", "message", a->message ? a->message : "",
                                 "at", (json_int_t)pl_tx_now_us(tx)),
                       err);
    r = r < 0 ? r : pl_tx_emit(tx, PL_RECORD_COMMIT, commit_record(tx, a), err);
    return r < 0
               ? r
               : pl_tx_event(tx, "commit",
                             json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "project", a->project, "repo", a->repo, "branch",
                                       a->branch, "commit", a->run, "files", (json_int_t)a->files, "bytes", (json_int_t)a->bytes),
                             err);
}

static int read_provenance(const json_t *list, struct pl_commit_source **ret, size_t *ret_n, struct pl_err *err)
{
    size_t n = json_array_size(list), i;
    struct pl_commit_source *out = n ? calloc(n, sizeof *out) : NULL;
    const json_t *o;

    if (n && !out)
        return pl_err_nomem(err);
    json_array_foreach(list, i, o)
    {
        out[i].project = json_string_value(json_object_get(o, "project"));
        out[i].repo = json_string_value(json_object_get(o, "repo"));
        out[i].branch = json_string_value(json_object_get(o, "branch"));
        snprintf(out[i].commit, sizeof out[i].commit, "%s", json_string_value(json_object_get(o, "commit")));
    }
    *ret = out;
    *ret_n = n;
    return 0;
}

int pl_commit_object_put(struct pl_pack_builder *session, struct pl_commit_args *a, const struct pl_hash *parent_object,
                         struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_COMMIT_OBJECT_MAX_BYTES};
    _cleanup_free_ struct pl_commit_source *provenance = NULL;
    struct pl_commit c = {.project = a->project,
                          .repo = a->repo,
                          .branch = a->branch,
                          .tree = a->root,
                          .attributes = a->attributes,
                          .table = a->table,
                          .owner = a->owner,
                          .generation = (uint64_t)a->generation,
                          /* the time is in the log record instead, so that the object's bytes depend only on
                           * the commit's content */
                          .wall_us = 0,
                          .files = (uint64_t)a->files,
                          .bytes = (uint64_t)a->bytes,
                          .author = a->author ? a->author : "",
                          .message = a->message ? a->message : "",
                          .stage = a->stage ? a->stage : "",
                          .code = a->code,
                          .parents = parent_object,
                          .n_parents = parent_object ? 1 : 0};
    int r = read_provenance(a->provenance, &provenance, &c.n_provenance, err);

    if (r < 0)
        return r;
    c.provenance = provenance;
    snprintf(c.id, sizeof c.id, "%s", a->run);
    r = pl_commit_encode(&c, &bytes, err);
    return r < 0 ? r : pl_pack_builder_add(session, PL_REC_COMMIT, bytes.data, bytes.len, &a->object, err);
}

/* Refuses to delete a stage's result, which follows from its inputs and code. */
static int refuse_result(struct pl_tx *tx, const struct pl_commit_delete_args *a, struct pl_err *err)
{
    _cleanup_free_ char *pipeline = NULL;
    int r = pl_db_stage_owner(pl_tx_conn(tx), a->project, a->repo, &pipeline, err);

    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    if (r == 0)
        return pl_err_set(err, PL_EOUTPUT,
                          "cannot delete commits of \"%s\", which a stage writes: push other input, or delete pipeline \"%s\"",
                          a->repo, pipeline);
    return pl_err_set(err, PL_EOUTPUT,
                      "cannot delete commits of \"%s\", written by a stage that its pipeline no longer has: delete repo \"%s\"",
                      a->repo, a->repo);
}

/* Lists the branches whose head is this commit. */
static int branches_on(struct pl_conn *c, int64_t commit, json_t *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT name FROM branch WHERE head = ?", "i", commit);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        if ((r = pl_json_add(ret, json_string(pl_col_text(&rows, 0)), err)) < 0)
            break;
    return r;
}

/* Deletes the commit and starts a run of the stages that read the affected branches. */
static int fall_back(struct pl_tx *tx, struct pl_commit_delete_args *a, const struct pl_commit_row *commit, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *branches = json_array();
    char message[PL_NAME_MAX_BYTES + 64];
    int r = branches ? branches_on(pl_tx_conn(tx), commit->id, branches, err) : pl_err_nomem(err);

    r = r < 0 ? r
              : pl_tx_emit(tx, PL_RECORD_COMMIT_DELETE,
                           json_pack("{s:s, s:s, s:s, s:I, s:s}", "project", a->project, "repo", a->repo, "run", commit->run,
                                     "at", (json_int_t)pl_tx_now_us(tx), "why", "deleted by a user"),
                           err);
    snprintf(message, sizeof message, "a commit of %s was deleted", a->repo);
    return r < 0 ? r : pl_tx_run_readers(tx, a->project, a->repo, branches, "delete", message, a->started, err);
}

int pl_tx_commit_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_commit_delete_args *a = arg;
    struct pl_commit_row commit;
    struct pl_repo_row repo;
    int64_t open_runs = 0, children = 0;
    int r = pl_db_repo_find(pl_tx_conn(tx), a->project, a->repo, &repo, err);

    if (r < 0)
        return r;
    if (repo.git)
        return pl_db_refuse_write(pl_tx_conn(tx), a->project, a->repo, err);
    if (repo.output)
        return refuse_result(tx, a, err);
    r = pl_db_commit_named(pl_tx_conn(tx), a->project, a->repo, a->run, &commit, err);
    r = r < 0 ? r
              : pl_sql_int(pl_tx_conn(tx), err, &open_runs, "SELECT count(*) FROM run WHERE id = ? AND state = 'running'", "s",
                           commit.run);
    r = r < 0 ? r
              : pl_sql_int(pl_tx_conn(tx), err, &children, "SELECT count(*) FROM commit_ WHERE repo = ? AND parent = ?", "is",
                           repo.id, commit.run);
    if (r < 0)
        return r;
    if (children)
        return pl_err_set(err, PL_EINUSE, "commit %.8s has %lld later commits: only the newest commit of a branch can be deleted",
                          commit.run, (long long)children);
    if (open_runs)
        return pl_err_set(err, PL_EINUSE, "run %.8s, which this commit started, is still running: pipelinectl stop run %.8s",
                          commit.run, commit.run);
    r = fall_back(tx, a, &commit, err);
    return r < 0 ? r
                 : pl_tx_event(tx, "commit",
                               json_pack("{s:s, s:s, s:s, s:s}", "project", a->project, "repo", a->repo, "commit", commit.run,
                                         "change", "deleted"),
                               err);
}
