/* Queries that resolve names. Prefixes of ids are ranges of the index: from the prefix to the prefix with "g",
 * which is past every hex digit. */
#include "pipelined/db/writer/name_lookup.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"

#include <inttypes.h>
#include <stdio.h>

#define COMMIT_COLUMNS                                                                                                           \
    "c.id, c.repo, c.run, c.parent, c.branch, c.stage, c.object, c.root, c.attributes, c.table_root, c.owner_root, c.code,"      \
    " c.generation, c.files, c.bytes, c.seq, c.created_us"

/* Adds a hint to the error: the nearest of the project's newest 256 repo names, or how to create the project or the repo. */
static void hint_nearest(struct pl_conn *c, const char *project, const char *repo, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char names[256][PL_NAME_MAX_BYTES + 1];
    const char *words[256], *nearest;
    size_t n = 0;

    if (!err ||
        pl_sql_query(c, NULL, &rows, "SELECT name FROM repo WHERE project = ? ORDER BY id DESC LIMIT 256", "s", project) < 0)
        return;
    while (n < 256 && pl_sql_next(c, &rows, NULL) > 0) {
        snprintf(names[n], sizeof names[n], "%s", pl_col_text(&rows, 0));
        words[n] = names[n];
        n++;
    }
    nearest = pl_word_nearest(repo, words, n);
    if (nearest)
        pl_err_hint(err, PL_ENOTFOUND, "did you mean \"%s\"?", nearest);
    else if (pl_streq(project, "default")) /* the first repo creates the project */
        pl_err_hint(err, PL_ENOTFOUND, "pipelinectl create repo %s", repo);
    else if (pl_db_project_check(c, project, NULL) == PL_ENOTFOUND)
        pl_err_hint(err, PL_ENOTFOUND, "there is no such project: pipelinectl create project %s", project);
    else
        pl_err_hint(err, PL_ENOTFOUND, "pipelinectl create repo %s/%s", project, repo);
}

int pl_db_repo_seek(struct pl_conn *c, const char *project, const char *repo, struct pl_repo_row *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT r.id, r.kind = 'output', coalesce(json_extract(r.options, '$.commit_window_ms'), 0),"
                         " coalesce(json_extract(r.options, '$.durable'), '') = 'bucket',"
                         " json_type(r.options, '$.git') IS NOT NULL, " PL_REPO_KEPT
                         " FROM repo r WHERE r.project = ? AND r.name = ?",
                         "ss", project, repo);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r < 0)
        return r;
    if (r > 0)
        *ret = (struct pl_repo_row){.id = pl_col_int(&rows, 0),
                                    .output = pl_col_int(&rows, 1) && !pl_col_int(&rows, 5),
                                    .kept = pl_col_int(&rows, 5) != 0,
                                    .commit_window_ms = pl_col_int(&rows, 2),
                                    .bucket = pl_col_int(&rows, 3) != 0,
                                    .git = pl_col_int(&rows, 4) != 0};
    return r;
}

int pl_db_repo_find(struct pl_conn *c, const char *project, const char *repo, struct pl_repo_row *ret, struct pl_err *err)
{
    int r = pl_db_repo_seek(c, project, repo, ret, err);

    if (r != 0)
        return PL_MIN(r, 0);
    r = pl_err_set(err, PL_ENOTFOUND, "repo \"%s\" does not exist in project \"%s\"", repo, project);
    hint_nearest(c, project, repo, err);
    return r;
}

int pl_db_network_off(struct pl_conn *c, const char *project, bool *ret, struct pl_err *err)
{
    int64_t off = 0;
    int r = pl_sql_int(c, err, &off, "SELECT json_extract(options, '$.network') IS 0 FROM project WHERE name = ?", "s", project);

    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    *ret = off != 0;
    return 0;
}

int pl_db_stage_owner(struct pl_conn *c, const char *project, const char *stage, char **ret, struct pl_err *err)
{
    return pl_sql_text(
        c, err, ret,
        "SELECT p.name FROM stage s JOIN pipeline p ON p.id = s.pipeline WHERE s.current = 1 AND s.project = ? AND s.name = ?",
        "ss", project, stage);
}

int pl_db_refuse_write(struct pl_conn *c, const char *project, const char *repo, struct pl_err *err)
{
    _cleanup_free_ char *pipeline = NULL, *git = NULL;
    int r = pl_sql_text(c, err, &git,
                        "SELECT coalesce(json_extract(options, '$.git.url'), 'source ' || json_extract(options, '$.git.source'))"
                        " FROM repo WHERE project = ? AND name = ? AND json_type(options, '$.git') IS NOT NULL",
                        "ss", project, repo);

    if (r == 0)
        return pl_err_set(err, PL_EOUTPUT, "repo \"%s\" has the files of %s, and changes with it: push to that git repository",
                          repo, git);
    if (r != PL_ENOTFOUND)
        return r;
    r = pl_db_stage_owner(c, project, repo, &pipeline, err);
    if (r == 0)
        return pl_err_set(err, PL_EOUTPUT, "repo \"%s\" is written by a stage of pipeline \"%s\": push to an input repo", repo,
                          pipeline);
    if (r != PL_ENOTFOUND)
        return r;
    pl_err_set(err, PL_EOUTPUT, "repo \"%s\" holds the output of a stage that its pipeline no longer has: push to an input repo",
               repo);
    return pl_err_hint(err, PL_EOUTPUT, "Push to an input repo, or delete repo \"%s\" and create it again.", repo);
}

static void read_commit(const struct pl_rows *rows, struct pl_commit_row *ret)
{
    ret->id = pl_col_int(rows, 0);
    ret->repo = pl_col_int(rows, 1);
    snprintf(ret->run, sizeof ret->run, "%s", pl_col_text(rows, 2));
    snprintf(ret->parent, sizeof ret->parent, "%s", pl_col_text(rows, 3));
    snprintf(ret->branch, sizeof ret->branch, "%s", pl_col_text(rows, 4));
    snprintf(ret->stage, sizeof ret->stage, "%s", pl_col_text(rows, 5));
    ret->object = pl_col_hash(rows, 6);
    ret->root = pl_col_hash(rows, 7);
    ret->attributes = pl_col_hash(rows, 8);
    ret->table = pl_col_hash(rows, 9);
    ret->owner = pl_col_hash(rows, 10);
    ret->code = pl_col_hash(rows, 11);
    ret->generation = pl_col_int(rows, 12);
    ret->files = pl_col_int(rows, 13);
    ret->bytes = pl_col_int(rows, 14);
    ret->seq = pl_col_int(rows, 15);
    ret->created_us = pl_col_int(rows, 16);
}

/* Reads one commit from the query: 1 and the commit, or 0 when there are no more rows. */
static int one_commit(struct pl_conn *c, struct pl_rows *rows, struct pl_commit_row *ret, struct pl_err *err)
{
    int r = pl_sql_next(c, rows, err);

    if (r > 0)
        read_commit(rows, ret);
    return r;
}

int pl_db_branch_head(struct pl_conn *c, int64_t repo, const char *branch, struct pl_commit_row *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r =
        pl_sql_query(c, err, &rows,
                     "SELECT " COMMIT_COLUMNS " FROM branch b JOIN commit_ c ON c.id = b.head WHERE b.repo = ? AND b.name = ?",
                     "is", repo, branch);

    return r < 0 ? r : one_commit(c, &rows, ret, err);
}

int pl_db_branch_as_of(struct pl_conn *c, int64_t repo, const char *branch, int64_t order, struct pl_commit_row *ret,
                       struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "WITH RECURSIVE line(id, parent, ord) AS ("
                         "SELECT h.id, h.parent, r.ord FROM branch b JOIN commit_ h ON h.id = b.head JOIN run r ON r.id = h.run"
                         " WHERE b.repo = ?1 AND b.name = ?2"
                         " UNION ALL SELECT p.id, p.parent, r.ord FROM line l JOIN commit_ p ON p.repo = ?1 AND p.run = l.parent"
                         " JOIN run r ON r.id = p.run WHERE l.ord > ?3)"
                         " SELECT " COMMIT_COLUMNS " FROM line l JOIN commit_ c ON c.id = l.id WHERE l.ord <= ?3",
                         "isi", repo, branch, order);

    return r < 0 ? r : one_commit(c, &rows, ret, err);
}

static int by_id(struct pl_conn *c, int64_t repo, const char *id, struct pl_commit_row *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r =
        pl_sql_query(c, err, &rows, "SELECT " COMMIT_COLUMNS " FROM commit_ c WHERE c.repo = ? AND c.run = ?", "is", repo, id);

    return r < 0 ? r : one_commit(c, &rows, ret, err);
}

static int by_prefix(struct pl_conn *c, int64_t repo, const char *prefix, struct pl_commit_row *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char past[PL_NAME_MAX_BYTES + 2];
    int r;

    snprintf(past, sizeof past, "%sg", prefix); /* end of the range: "g" is past every hex digit */
    r = pl_sql_query(c, err, &rows,
                     "SELECT " COMMIT_COLUMNS " FROM commit_ c WHERE c.repo = ? AND c.run >= ? AND c.run < ? LIMIT 2", "iss",
                     repo, prefix, past);
    r = r < 0 ? r : one_commit(c, &rows, ret, err);
    if (r <= 0)
        return r;
    r = pl_sql_next(c, &rows, err);
    if (r > 0)
        return pl_err_set(err, PL_ECONFLICT, "\"%s\" is the start of several commit ids: give more digits", prefix);
    return r < 0 ? r : 1;
}

int pl_db_check_new_branch(struct pl_conn *c, int64_t repo, const char *name, struct pl_err *err)
{
    size_t digits = strspn(name, "0123456789abcdef");
    struct pl_commit_row row = {0};
    int64_t branch;
    int r;

    if (digits < PL_BRANCH_LIKE_ID_DIGITS || name[digits])
        return 0;
    r = pl_sql_int(c, err, &branch, "SELECT id FROM branch WHERE repo = ? AND name = ?", "is", repo, name);
    if (r != PL_ENOTFOUND)
        return r;
    r = by_prefix(c, repo, name, &row, err);
    if (r == 0)
        return 0;
    if (r < 0 && r != PL_ECONFLICT)
        return r;
    return pl_err_set(err, PL_ENAME, "branch \"%s\": the name is the beginning of a commit id: choose another name", name);
}

static int go_back(struct pl_conn *c, const char *project, const char *repo, unsigned back, struct pl_commit_row *row,
                   struct pl_err *err)
{
    for (unsigned i = 0; i < back; i++) {
        int r = *row->parent ? by_id(c, row->repo, row->parent, row, err) : 0;

        if (r < 0)
            return r;
        if (r == 0)
            return pl_err_set(err, PL_ENOTFOUND, "%s/%s has only %u commit%s before that one, not %u", project, repo, i,
                              i == 1 ? "" : "s", back);
    }
    return 0;
}

int pl_db_commit_gone(struct pl_conn *c, const char *project, const char *repo, int64_t row, const char *id, int code,
                      struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char past[PL_NAME_MAX_BYTES + 2], time[32];
    int r;

    snprintf(past, sizeof past, "%sg", id);
    r = pl_sql_query(c, err, &rows, "SELECT run, at_us, why FROM commit_gone WHERE repo = ? AND run >= ? AND run < ? LIMIT 1",
                     "iss", row, id, past);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    return pl_err_set(err, code, "commit %.8s of %s/%s was removed on %.10s: %s", pl_col_text(&rows, 0), project, repo,
                      pl_clock_text(pl_col_int(&rows, 1), time), pl_col_text(&rows, 2));
}

int pl_db_commit_find(struct pl_conn *c, const char *project, const char *repo, const struct pl_commit_ref *ref,
                      struct pl_commit_row *ret, struct pl_err *err)
{
    const char *name = ref->kind == PL_COMMIT_REF_NONE ? "master" : ref->name;
    struct pl_commit_row row = {0};
    struct pl_repo_row found;
    int r = pl_db_repo_find(c, project, repo, &found, err);

    if (r < 0)
        return r;
    r = ref->kind == PL_COMMIT_REF_ID ? by_id(c, found.id, name, &row, err) : pl_db_branch_head(c, found.id, name, &row, err);
    if (r == 0 && ref->kind == PL_COMMIT_REF_PREFIX)
        r = by_prefix(c, found.id, name, &row, err);
    if (r < 0)
        return r;
    if (r == 0) {
        int64_t branch;

        if (pl_sql_int(c, NULL, &branch, "SELECT id FROM branch WHERE repo = ? AND name = ?", "is", found.id, name) == 0)
            return pl_err_set(err, PL_ENOTFOUND, "branch %s/%s@%s has no commit yet", project, repo, name);
        if (ref->kind == PL_COMMIT_REF_ID || ref->kind == PL_COMMIT_REF_PREFIX)
            r = pl_db_commit_gone(c, project, repo, found.id, name, PL_ENOTFOUND, err);
        if (r < 0)
            return r;
        return pl_err_set(err, PL_ENOTFOUND, "%s/%s has no %s \"%s\"", project, repo,
                          ref->kind == PL_COMMIT_REF_ID       ? "commit"
                          : ref->kind == PL_COMMIT_REF_PREFIX ? "branch or commit"
                                                              : "branch",
                          name);
    }
    r = go_back(c, project, repo, ref->back, &row, err);
    if (r == 0)
        *ret = row;
    return r;
}

int pl_db_commit_named(struct pl_conn *c, const char *project, const char *repo, const char *ref, struct pl_commit_row *ret,
                       struct pl_err *err)
{
    struct pl_commit_ref parsed = {.kind = PL_COMMIT_REF_NONE};
    int r = *ref ? pl_commit_ref_parse_commit(ref, &parsed, err) : 0;

    return r < 0 ? r : pl_db_commit_find(c, project, repo, &parsed, ret, err);
}

int pl_db_run_text_check(const char *text, struct pl_err *err)
{
    size_t len = strlen(text);

    if (len < PL_COMMIT_REF_PREFIX_DIGITS || len > PL_ID_HEX || strspn(text, "0123456789abcdef") != len)
        return pl_err_set(err, PL_EINVAL, "\"%s\" is not a run: give its id or its first digits, at least 4 of 0-9a-f", text);
    return 0;
}

int pl_db_run_find(struct pl_conn *c, const char *text, char ret_id[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char found[PL_ID_HEX + 1];
    int r = pl_db_run_text_check(text, err);

    r = r < 0 ? r
              : pl_sql_query(c, err, &rows,
                             "SELECT id FROM run WHERE id >= ?1 AND id < ?1 || 'g' AND (?2 OR " PL_RUN_SEEN ") LIMIT 2", "si",
                             text, (int64_t)!c->readable);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r < 0)
        return r;
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "there is no run %s", text);
    snprintf(found, sizeof found, "%s", pl_col_text(&rows, 0));
    r = pl_sql_next(c, &rows, err);
    if (r > 0)
        return pl_err_set(err, PL_ECONFLICT, "\"%s\" is the start of several run ids: give more digits", text);
    if (r == 0)
        strcpy(ret_id, found);
    return r;
}

int pl_db_project_check(struct pl_conn *c, const char *project, struct pl_err *err)
{
    int64_t one;
    int r = pl_streq(project, "default") ? 0 : pl_sql_int(c, err, &one, "SELECT 1 FROM project WHERE name = ?", "s", project);

    if (r != PL_ENOTFOUND)
        return r;
    r = pl_err_set(err, r, "project \"%s\" does not exist", project);
    return pl_err_hint(err, r, "pipelinectl create project %s", project);
}

/* Writes a row of table meta that belongs to a run, whose row is there: its key is `what` (which ends in '/') and PL_RUN_KEY. Drops
 * the rows of the oldest runs beyond PL_RUN_TRACES_MAX. */
static int write_of_run(struct pl_conn *c, const char *what, const char *run, const char *value, struct pl_err *err)
{
    int r = pl_sql_exec(c, err, "INSERT OR REPLACE INTO meta(key, value) SELECT ?1 || " PL_RUN_KEY ", ?3 FROM run WHERE id = ?2",
                        "sss", what, run, value);

    r = r < 0 ? r
              : pl_sql_exec(c, err,
                            "DELETE FROM meta WHERE key >= ?1 AND key <= (SELECT key FROM meta WHERE key >= ?1"
                            " AND key < ?1 || 'g' ORDER BY key DESC LIMIT 1 OFFSET ?2)",
                            "si", what, (int64_t)PL_RUN_TRACES_MAX);
    return PL_MIN(r, 0);
}

int pl_db_run_trace_write(struct pl_conn *c, const char *run, const char *traceparent, struct pl_err *err)
{
    return write_of_run(c, "traceparent/", run, traceparent, err);
}

int pl_db_run_asker_write(struct pl_conn *c, const char *run, const struct pl_run_asker *asker, struct pl_err *err)
{
    char agent[PL_RUN_AGENT_MAX + 1];
    _cleanup_free_ char *text = NULL;
    json_t *value;

    if (!asker->who)
        return 0;
    snprintf(agent, sizeof agent, "%s", asker->agent ? asker->agent : "");
    value = json_pack("{s:s, s:s}", "who", asker->who, "agent", pl_utf8_clean(agent));
    text = value ? pl_json_text(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return text ? write_of_run(c, "asked/", run, text, err) : pl_err_nomem(err);
}

int pl_db_run_trace_read(struct pl_conn *c, const char *run, char **ret, struct pl_err *err)
{
    int r = pl_sql_text(c, err, ret, "SELECT value FROM meta, run WHERE run.id = ? AND key = 'traceparent/' || " PL_RUN_KEY, "s",
                        run);

    return r == PL_ENOTFOUND ? 0 : PL_MIN(r, 0);
}
