/* Loads repos, commits, heads and provenance into arrays with indices; ids and names become indices through maps. */
#include "pipelined/db/retention/retention_input.h"

#include "storage/base/path.h"

#include <stdio.h>

/* ---- names ---- */

struct commit_key {
    int64_t repo;
    char run[PL_ID_HEX];
};

static uint32_t index_of(const struct pl_map *m, const void *key, size_t len)
{
    uintptr_t at = (uintptr_t)pl_map_get(m, key, len);

    return at ? (uint32_t)(at - 1) : PL_RETENTION_NONE;
}

static int put_index(struct pl_map *m, const void *key, size_t len, size_t index, struct pl_err *err)
{
    return pl_map_put(m, key, len, (void *)(uintptr_t)(index + 1), NULL, err);
}

static bool make_key(int64_t repo, const char *run, struct commit_key *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->repo = repo;
    if (strlen(run) != PL_ID_HEX)
        return false;
    memcpy(ret->run, run, PL_ID_HEX);
    return true;
}

static uint32_t find_in(const struct pl_retention_db *w, int64_t repo, const char *run)
{
    struct commit_key key;

    return make_key(repo, run, &key) ? index_of(&w->by_name, &key, sizeof key) : PL_RETENTION_NONE;
}

static uint32_t find_named(const struct pl_retention_db *w, const char *project, const char *repo, const char *run)
{
    char name[2 * PL_NAME_MAX_BYTES + 2];
    int n = snprintf(name, sizeof name, "%s/%s", project, repo);
    uint32_t at = n < (int)sizeof name ? index_of(&w->repo_by_name, name, (size_t)n) : PL_RETENTION_NONE;

    return at == PL_RETENTION_NONE ? at : find_in(w, w->repos[at].id, run);
}

static uint32_t find_id(const struct pl_retention_db *w, int64_t id)
{
    size_t lo = 0, hi = w->world.n_commits;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (w->ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < w->world.n_commits && w->ids[lo] == id ? (uint32_t)lo : PL_RETENTION_NONE;
}

static int too_many(size_t n, const char *what, size_t max, struct pl_err *err)
{
    return n > max
               ? pl_err_set(err, PL_ELIMIT, "%zu %s are too many: retention rules can be applied to at most %zu", n, what, max)
               : 0;
}

/* Makes room for one more element. */
static int grow(void *list, size_t n, size_t *cap, size_t size, struct pl_err *err)
{
    void **p = list, *grown;
    size_t more = *cap ? *cap * 2 : 256;

    if (n < *cap)
        return 0;
    grown = reallocarray(*p, more, size);
    if (!grown)
        return pl_err_nomem(err);
    *p = grown;
    *cap = more;
    return 0;
}

/* ---- repos and their rules ---- */

/* Adds a repo with its rule. */
static int add_repo(struct pl_retention_db *w, const struct pl_rows *rows, struct pl_err *err)
{
    struct pl_retention_repo *repo = &w->repos[w->n_repos];
    _cleanup_(json_decrefp) json_t *keep = pl_col_json(rows, 4);
    char name[2 * PL_NAME_MAX_BYTES + 2];
    int n, r;

    if (!keep)
        return pl_err_nomem(err);
    *repo = (struct pl_retention_repo){.id = pl_col_int(rows, 0),
                                       .project = strdup(pl_col_text(rows, 1)),
                                       .name = strdup(pl_col_text(rows, 2)),
                                       .output = pl_col_int(rows, 3) != 0};
    w->n_repos++;
    if (!repo->project || !repo->name)
        return pl_err_nomem(err);
    w->rules[w->n_repos - 1] = (struct pl_retention_rule){0};
    r = json_is_object(keep) ? pl_retention_read(keep, &w->rules[w->n_repos - 1], err) : 0;
    n = snprintf(name, sizeof name, "%s/%s", repo->project, repo->name);
    r = r < 0 ? r : put_index(&w->repo_by_id, &repo->id, sizeof repo->id, w->n_repos - 1, err);
    return r < 0 ? r : put_index(&w->repo_by_name, name, (size_t)n, w->n_repos - 1, err);
}

/* Reads all repos. PL_ELIMIT. */
static int read_repos(struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n, "SELECT count(*) FROM repo", "");

    r = r < 0 ? r : too_many((size_t)n, "repos", PL_RETENTION_REPOS_MAX, err);
    if (r < 0)
        return r;
    w->repos = calloc((size_t)n + 1, sizeof *w->repos);
    w->rules = calloc((size_t)n + 1, sizeof *w->rules);
    if (!w->repos || !w->rules)
        return pl_err_nomem(err);
    r = pl_sql_query(
        c, err, &rows,
        "SELECT id, project, name, kind = 'output', json_extract(options, '$.keep') FROM repo ORDER BY project, name", "");
    while (r >= 0 && (int64_t)w->n_repos < n && (r = pl_sql_next(c, &rows, err)) > 0)
        r = add_repo(w, &rows, err);
    w->world.rules = w->rules;
    return PL_MIN(r, 0);
}

/* ---- commits ---- */

static int make_room(struct pl_retention_db *w, size_t n, struct pl_err *err)
{
    w->commits = calloc(n + 1, sizeof *w->commits);
    w->ids = calloc(n + 1, sizeof *w->ids);
    w->runs = calloc(n + 1, sizeof *w->runs);
    w->world.commits = w->commits;
    w->cap_commits = n;
    return w->commits && w->ids && w->runs ? 0 : pl_err_nomem(err);
}

static int add_commit(struct pl_retention_db *w, const struct pl_rows *rows, struct pl_err *err)
{
    size_t i = w->world.n_commits;
    int64_t repo = pl_col_int(rows, 1);
    struct commit_key key;

    w->ids[i] = pl_col_int(rows, 0);
    snprintf(w->runs[i], sizeof w->runs[i], "%s", pl_col_text(rows, 2));
    w->commits[i] = (struct pl_retention_commit){.created_us = pl_col_int(rows, 4),
                                                 .order = pl_col_int(rows, 5),
                                                 .repo = index_of(&w->repo_by_id, &repo, sizeof repo),
                                                 .parent = find_in(w, repo, pl_col_text(rows, 3)),
                                                 .why = pl_col_int(rows, 6) ? PL_RETENTION_IN_USE : PL_RETENTION_LOST};
    w->world.n_commits++;
    return make_key(repo, w->runs[i], &key) ? put_index(&w->by_name, &key, sizeof key, i, err) : 0;
}

/* Reads all commits by row id: a parent has a lower id than its child. */
static int read_commits(struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n, "SELECT count(*) FROM commit_", "");

    r = r < 0 ? r : too_many((size_t)n, "commits", PL_RETENTION_COMMITS_MAX, err);
    r = r < 0 ? r : make_room(w, (size_t)n, err);
    r = r < 0 ? r
              : pl_sql_query(
                    c, err, &rows,
                    "SELECT c.id, c.repo, c.run, c.parent, c.created_us, coalesce(r.ord, 0), coalesce(r.state = 'running', 0)"
                    " FROM commit_ c LEFT JOIN run r ON r.id = c.run ORDER BY c.id",
                    "");
    while (r >= 0 && w->world.n_commits < w->cap_commits && (r = pl_sql_next(c, &rows, err)) > 0)
        r = add_commit(w, &rows, err);
    return PL_MIN(r, 0);
}

static int read_heads(struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT head FROM branch WHERE head IS NOT NULL", "");

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        uint32_t head = find_id(w, pl_col_int(&rows, 0));

        r = too_many(w->world.n_heads + 1, "branches", PL_RETENTION_HEADS_MAX, err);
        r = r < 0 ? r : grow(&w->heads, w->world.n_heads, &w->cap_heads, sizeof *w->heads, err);
        if (r < 0)
            return r;
        if (head != PL_RETENTION_NONE)
            w->heads[w->world.n_heads++] = head;
    }
    w->world.heads = w->heads;
    return r;
}

/* Reads the provenance of all commits as edges from a commit to its source. */
static int read_edges(struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT c.id, json_extract(p.value, '$.project'), json_extract(p.value, '$.repo'),"
                         " json_extract(p.value, '$.commit') FROM commit_ c, json_each(c.provenance) p",
                         "");

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        uint32_t commit = find_id(w, pl_col_int(&rows, 0)),
                 source = find_named(w, pl_col_text(&rows, 1), pl_col_text(&rows, 2), pl_col_text(&rows, 3));

        r = too_many(w->world.n_edges + 1, "sources of commits", PL_RETENTION_EDGES_MAX, err);
        r = r < 0 ? r : grow(&w->edges, w->world.n_edges, &w->cap_edges, sizeof *w->edges, err);
        if (r < 0)
            return r;
        if (commit != PL_RETENTION_NONE && source < commit)
            w->edges[w->world.n_edges++] = (struct pl_retention_edge){commit, source};
    }
    w->world.edges = w->edges;
    return r;
}

/* ---- commits that jobs need ---- */

/* Finds the commits that jobs need: (1) the inputs of unfinished jobs; (2) the outputs of the stages of
 * unfinished jobs, because a job reuses results of its base commit and of the base's ancestors, and a job of
 * a rerun on a separate branch reuses results of the heads of the stage's own branch; (3) the inputs of jobs
 * that a running rerun repeats. */
#define UNFINISHED "(SELECT id FROM job WHERE final = 0)"
#define DONE_AGAIN "(SELECT j.id FROM run r JOIN job j ON j.run = r.of_run WHERE r.state = 'running' AND r.of_run IS NOT NULL)"
#define INPUTS_OF                                                                                                                \
    "SELECT json_extract(i.value, '$.project'), json_extract(i.value, '$.repo'), json_extract(i.value, '$.commit')"              \
    " FROM job, json_each(job.inputs) i WHERE job.id IN "

static const char *const needs[] = {
    INPUTS_OF UNFINISHED,
    INPUTS_OF DONE_AGAIN,
    "WITH RECURSIVE stage(project, name, repo, base) AS (SELECT j.project, j.stage, r.id, j.base FROM job j"
    " JOIN repo r ON r.project = j.project AND r.name = j.stage WHERE j.final = 0),"
    " made(project, name, repo, run, n) AS (SELECT project, name, repo, base, 0 FROM stage"
    " UNION SELECT s.project, s.name, s.repo, c.run, 0 FROM stage s JOIN branch b ON b.repo = s.repo JOIN commit_ c ON c.id = "
    "b.head"
    " UNION SELECT m.project, m.name, m.repo, c.parent, m.n + 1 FROM made m JOIN commit_ c ON c.repo = m.repo AND c.run = m.run"
    " WHERE m.n < 64) SELECT project, name, run FROM made",
};

static int each_needed(const struct pl_retention_db *w, struct pl_conn *c,
                       int (*fn)(const struct pl_retention_db *w, uint32_t commit), struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(needs) && r >= 0; i++) {
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

        r = pl_sql_query(c, err, &rows, needs[i], "");
        while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
            uint32_t commit = find_named(w, pl_col_text(&rows, 0), pl_col_text(&rows, 1), pl_col_text(&rows, 2));

            if (commit != PL_RETENTION_NONE && (r = fn(w, commit)) < 0)
                return r;
        }
    }
    return r;
}

static int mark_needed(const struct pl_retention_db *w, uint32_t commit)
{
    w->commits[commit].why = PL_RETENTION_IN_USE;
    return 0;
}

/* ---- read and decide ---- */

static int read_oldest_run(struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err)
{
    return pl_sql_int(c, err, &w->world.oldest_run,
                      "SELECT coalesce(min(ord), 9223372036854775807) FROM run WHERE state = 'running'", "");
}

static void choose(struct pl_retention_db *w, const char *project, const char *repo)
{
    for (size_t i = 0; i < w->n_repos; i++)
        w->repos[i].meant = !project || (pl_streq(project, w->repos[i].project) && (!repo || pl_streq(repo, w->repos[i].name)));
    for (size_t i = 0; i < w->world.n_commits; i++)
        if (!w->repos[w->commits[i].repo].meant)
            w->commits[i].why = PL_RETENTION_ALL;
}

int pl_retention_db_read(struct pl_retention_db *w, struct pl_conn *c, const char *project, const char *repo, int64_t now_us,
                         struct pl_err *err)
{
    int r = pl_sql_script(c, "BEGIN", err);

    w->world.now_us = now_us;
    r = r < 0 ? r : read_repos(w, c, err);
    r = r < 0 ? r : read_commits(w, c, err);
    r = r < 0 ? r : read_heads(w, c, err);
    r = r < 0 ? r : read_edges(w, c, err);
    r = r < 0 ? r : each_needed(w, c, mark_needed, err);
    r = r < 0 ? r : read_oldest_run(w, c, err);
    if (!sqlite3_get_autocommit(c->db))
        (void)!pl_sql_script(c, "ROLLBACK", NULL);
    if (r < 0)
        return r;
    choose(w, project, repo);
    pl_retention_decide(&w->world);
    return 0;
}

void pl_retention_db_finish(struct pl_retention_db *w)
{
    for (size_t i = 0; i < w->n_repos; i++) {
        free(w->repos[i].project);
        free(w->repos[i].name);
    }
    free(w->repos);
    free(w->rules);
    free(w->commits);
    free(w->ids);
    free(w->runs);
    free(w->heads);
    free(w->edges);
    pl_map_finish(&w->by_name, NULL);
    pl_map_finish(&w->repo_by_id, NULL);
    pl_map_finish(&w->repo_by_name, NULL);
    *w = (struct pl_retention_db){0};
}

/* ---- check before a drop ---- */

static int refuse_dropped(const struct pl_retention_db *w, uint32_t commit)
{
    return pl_retention_rule_drops(w->commits[commit].why) ? PL_ERETRY : 0;
}

/* Refuses with PL_ERETRY if a commit that is to be dropped has become the head of a branch: a branch was
 * created on it, or fell back to it. */
static int check_heads(const struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT b.repo, c.run FROM branch b JOIN commit_ c ON c.id = b.head", "");

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        uint32_t head = find_in(w, pl_col_int(&rows, 0), pl_col_text(&rows, 1));

        if (head != PL_RETENTION_NONE && w->commits[head].steps != 0)
            return PL_ERETRY;
    }
    return r;
}

/* Refuses with PL_ERETRY if a commit made since the read has a source that is to be dropped. Only commits
 * with a higher row id than the newest kept commit are checked: each of them is either new or is itself to be
 * dropped. */
static int check_made(const struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    size_t newest = w->world.n_commits;
    int64_t there = 0;
    int r;

    while (newest > 0 && pl_retention_rule_drops(w->commits[newest - 1].why))
        newest--;
    /* check that the newest kept commit is still the same one: row ids are reused after the last row is
     * deleted */
    if (newest > 0) {
        r = pl_sql_int(c, err, &there, "SELECT count(*) FROM commit_ WHERE id = ? AND run = ?", "is", w->ids[newest - 1],
                       w->runs[newest - 1]);
        if (r < 0 || there == 0)
            return r < 0 ? r : PL_ERETRY;
    }
    r = pl_sql_query(c, err, &rows,
                     "SELECT c.repo, c.run, json_extract(p.value, '$.project'), json_extract(p.value, '$.repo'),"
                     " json_extract(p.value, '$.commit') FROM commit_ c, json_each(c.provenance) p WHERE c.id > ?",
                     "i", newest > 0 ? w->ids[newest - 1] : 0);
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        uint32_t source = find_named(w, pl_col_text(&rows, 2), pl_col_text(&rows, 3), pl_col_text(&rows, 4));

        if (find_in(w, pl_col_int(&rows, 0), pl_col_text(&rows, 1)) == PL_RETENTION_NONE && source != PL_RETENTION_NONE &&
            (r = refuse_dropped(w, source)) < 0)
            return r;
    }
    return r;
}

int pl_retention_db_check(const struct pl_retention_db *w, struct pl_conn *c, struct pl_err *err)
{
    int r = check_heads(w, c, err);

    r = r < 0 ? r : check_made(w, c, err);
    r = r < 0 ? r : each_needed(w, c, refuse_dropped, err);
    return r == PL_ERETRY ? pl_err_set(err, PL_ERETRY, "a commit that was to be dropped has come into use") : r;
}
