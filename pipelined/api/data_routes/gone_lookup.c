/* Nothing here is needed to serve what exists: an error of a lookup leaves the first error as it is. */
#include "pipelined/api/data_routes/gone_lookup.h"

#include "storage/base/clock.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

#define LOOK_BACK_MS 300 /* for which the commits before one are searched */

/* Says when the repo was deleted, and to those who may read the audit, who did it. Returns PL_EGONE, or 0 if the audit does not know. */
static int repo_gone(struct pl_conn *c, const struct pl_principal *asker, const char *project, const char *repo,
                     struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const bool audits = pl_principal_may(asker, PL_VERB_OPERATE, NULL, NULL);
    char target[3 * PL_NAME_MAX_BYTES], time[32];
    int r;

    snprintf(target, sizeof target, "DELETE /api/v1/repos/%s/%s", project, repo);
    r = pl_sql_query(c, NULL, &rows,
                     "SELECT at_us, who FROM audit WHERE id > (SELECT max(id) FROM audit) - ? AND target = ?"
                     " AND verb = 'remove' ORDER BY id DESC LIMIT 1",
                     "is", (int64_t)PL_GONE_AUDIT_MAX, target);
    r = r < 0 ? r : pl_sql_next(c, &rows, NULL);
    if (r <= 0)
        return 0;
    *err = (struct pl_err){0};
    return pl_err_set(err, PL_EGONE, "repo \"%s\" of project \"%s\" was deleted on %.10s%s%s", repo, project,
                      pl_clock_text(pl_col_int(&rows, 0), time), audits ? " by " : "", audits ? pl_col_text(&rows, 1) : "");
}

/* Returns PL_EGONE if a commit with this id, or with an id that begins so, was dropped, else 0. */
static int commit_gone(struct pl_conn *c, const struct pl_repo_row *repo, const char *project, const char *name, const char *ref,
                       struct pl_err *err)
{
    const size_t n = strlen(ref);
    struct pl_err gone = {0};

    if (n < PL_COMMIT_REF_PREFIX_DIGITS || n > PL_ID_HEX || strspn(ref, "0123456789abcdef") != n ||
        pl_db_commit_gone(c, project, name, repo->id, ref, PL_EGONE, &gone) != PL_EGONE)
        return 0;
    *err = gone;
    return PL_EGONE;
}

int pl_gone_commit(struct pl_api *a, const struct pl_http_request *req, const char *ref, int r, struct pl_err *err)
{
    const char *project = pl_http_param(req, "project"), *name = pl_http_param(req, "repo");
    struct pl_repo_row repo;
    int found;

    if (r != PL_ENOTFOUND || !err)
        return r;
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        found = pl_db_repo_seek(rd.conn, project, name, &repo, NULL);
        if (found == 0)
            found = repo_gone(rd.conn, pl_http_context(req), project, name, err);
        else if (found > 0)
            found = ref ? commit_gone(rd.conn, &repo, project, name, ref, err) : 0;
    }
    return found == PL_EGONE ? found : r;
}

/* A commit without the file, and the newest one before it that has it. */
struct last_with {
    struct pl_commit_row without, with;
};

/* Returns 1 if the tree has the file or a folder of this path. */
static int has(const struct pl_node_source *source, const struct pl_hash *root, const char *path)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    char below[PL_PATH_MAX_BYTES + 2];
    struct pl_tree_item item;
    int len = snprintf(below, sizeof below, "%s/", path);
    int r = pl_tree_cursor_create(source, root, NULL, 0, &c, NULL);

    r = r < 0 ? r : pl_tree_cursor_get(c, path, (size_t)len - 1, &item, NULL);
    if (r != 0)
        return r;
    r = pl_tree_cursor_seek(c, below, (size_t)len, NULL);
    r = r < 0 ? r : pl_tree_cursor_next(c, &item, NULL);
    return r <= 0 ? r : item.path_len > (size_t)len && memcmp(item.path, below, (size_t)len) == 0;
}

static int read_parent(struct pl_api *a, const struct pl_http_request *req, const struct pl_commit_row *of,
                       struct pl_commit_row *ret)
{
    return *of->parent ? pl_api_commit_at(a, req, of->parent, ret, NULL) : PL_ENOTFOUND;
}

/* Who made the commit: its author, or the stage. "" = not known. */
static void read_author(struct pl_api *a, const struct pl_commit_row *commit, char *ret, size_t size)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_free_ char *author = NULL;

    *ret = '\0';
    if (*commit->stage)
        snprintf(ret, size, " by stage %s", commit->stage);
    else if (pl_sql_text(rd.conn, NULL, &author, "SELECT author FROM commit_ WHERE id = ?", "i", commit->id) == 0 && *author)
        snprintf(ret, size, " by %.100s", author);
}

int pl_gone_file(struct pl_api *a, const struct pl_http_request *req, const struct pl_commit_view *v, const char *path, int r,
                 struct pl_err *err)
{
    struct last_with at = {.without = v->commit};
    struct pl_effort effort = pl_request_effort(req);
    char author[128], time[32];

    if (r != PL_ENOTFOUND || v->open || !*path)
        return r;
    effort.until_ms = pl_clock_mono_ms() + LOOK_BACK_MS;
    for (unsigned i = 0; i < PL_GONE_PARENTS_MAX; i++) {
        if (read_parent(a, req, &at.without, &at.with) < 0 || pl_effort_add(&effort, PL_EFFORT_LOOK, NULL) < 0)
            return r;
        if (has(&v->source, &at.with.root, path) > 0)
            break;
        at.without = at.with;
        at.with = (struct pl_commit_row){0};
    }
    if (!*at.with.run)
        return r;
    read_author(a, &at.without, author, sizeof author);
    *err = (struct pl_err){0};
    pl_err_set(err, PL_EGONE, "/%.600s was removed on %.10s%s in commit %.8s of %s; commit %s has it", path,
               pl_clock_text(at.without.created_us, time), author, at.without.run, pl_http_param(req, "repo"), at.with.run);
    return PL_EGONE;
}
