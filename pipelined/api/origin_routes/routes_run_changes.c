/* What differs between the data of two runs, in every repo. The data of a run are the commits that it made, and those that
 * these were made from, directly or through other stages. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/data_routes/diff_totals.h"
#include "storage/base/clock.h"

#include <stdio.h>

#define COMMITS_MAX  "4000" /* most commits of a run's data that are read */
#define REPOS_MAX    200    /* most repos of one page */
#define COUNT_MS     3000   /* longest count for one page; repos after it have no counts */
#define COUNT_ONE_MS 1000   /* longest count in one repo */

/* A repo with its commits in the data of the two runs. */
struct pair {
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    bool output;
    char from[PL_ID_HEX + 1], to[PL_ID_HEX + 1]; /* "" = it has none */
    struct pl_hash from_root, to_root;
};

struct run_changes {
    char from[PL_ID_HEX + 1], to[PL_ID_HEX + 1];
    struct pair *pairs; /* by project and repo */
    size_t n, same;     /* `same`: repos with equal files, which have no pair */
    bool more;          /* another page follows the last pair */
};

/* A commit of the data of a run, of each repo the newest. ?1 the run. */
#define DATA_OF(run)                                                                                                             \
    "(SELECT r.project AS project, r.name AS name, c.stage <> '' AS made, c.branch AS branch, c.run AS id, c.root AS root, "     \
    "max(c.id)"                                                                                                                  \
    " FROM (WITH RECURSIVE seen(id) AS (SELECT id FROM commit_ WHERE run = " run " UNION SELECT d.id FROM seen JOIN commit_ e"   \
    " ON e.id = seen.id JOIN json_each(e.provenance) p JOIN repo q ON q.project = json_extract(p.value, '$.project')"            \
    " AND q.name = json_extract(p.value, '$.repo') JOIN commit_ d ON d.run = json_extract(p.value, '$.commit')"                  \
    " AND d.repo = q.id LIMIT " COMMITS_MAX ") SELECT id FROM seen) s JOIN commit_ c ON c.id = s.id"                             \
    " JOIN repo r ON r.id = c.repo WHERE readable(r.project, r.name) GROUP BY r.id)"

/* Finds the run before: the newest earlier one that changed one of the repos in which the run has a commit that was pushed;
 * without one, any of its repos. */
static int run_before(struct pl_conn *c, const char *run, char ret[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_free_ char *parent = NULL;
    int r = pl_sql_text(c, err, &parent,
                        "SELECT c.parent FROM commit_ c JOIN repo r ON r.id = c.repo WHERE c.run = ? AND c.parent IS NOT NULL"
                        " AND c.parent <> '' AND readable(r.project, r.name) ORDER BY c.stage <> '', c.id LIMIT 1",
                        "s", run);

    if (r == PL_ENOTFOUND)
        return pl_err_field(err, pl_err_set(err, r, "run %.8s has no run before it: give from, another run", run), "from");
    if (r == 0)
        snprintf(ret, PL_ID_HEX + 1, "%s", parent);
    return r;
}

static void take_side(const struct pl_rows *rows, int at, char id[PL_ID_HEX + 1], struct pl_hash *root)
{
    snprintf(id, PL_ID_HEX + 1, "%s", pl_col_text(rows, at));
    *root = pl_col_hash(rows, at + 1);
}

/* Reads one page of the repos whose commits differ, after the position "project/repo". */
static int read_pairs(struct pl_conn *c, const struct pl_api_page *page, struct run_changes *w, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const size_t limit = PL_MIN(page->limit, (size_t)REPOS_MAX);
    int r = pl_sql_query(
        c, err, &rows,
        "WITH a AS MATERIALIZED " DATA_OF("?1") ", b AS MATERIALIZED " DATA_OF(
            "?2") " SELECT coalesce(b.project, a.project), coalesce(b.name, a.name), coalesce(b.made, a.made),"
                  " coalesce(b.branch, a.branch), coalesce(a.id, ''), a.root, coalesce(b.id, ''), b.root, a.root IS b.root"
                  " FROM a FULL JOIN b ON a.project = b.project AND a.name = b.name"
                  " WHERE coalesce(b.project, a.project) || '/' || coalesce(b.name, a.name) > ?3"
                  " ORDER BY coalesce(b.project, a.project) || '/' || coalesce(b.name, a.name)",
        "sss", w->from, w->to, page->after ? page->after : "");

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct pair *p = &w->pairs[w->n];

        if (pl_col_int(&rows, 8)) {
            w->same++;
            continue;
        }
        w->more = w->n == limit;
        if (w->more)
            break;
        *p = (struct pair){.output = pl_col_int(&rows, 2) != 0};
        snprintf(p->project, sizeof p->project, "%s", pl_col_text(&rows, 0));
        snprintf(p->repo, sizeof p->repo, "%s", pl_col_text(&rows, 1));
        snprintf(p->branch, sizeof p->branch, "%s", pl_col_text(&rows, 3));
        take_side(&rows, 4, p->from, &p->from_root);
        take_side(&rows, 6, p->to, &p->to_root);
        w->n++;
    }
    return PL_MIN(r, 0);
}

/* Finds the two runs and reads the pairs; no reader is held afterwards. */
static int read_changes(struct pl_api *a, struct pl_http_request *req, const struct pl_api_page *page, struct run_changes *w,
                        struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    const char *from = pl_http_query(req, "from");
    int r = pl_db_run_find(rd.conn, pl_http_param(req, "run"), w->to, err);

    if (r == 0 && from && *from) {
        r = pl_db_run_find(rd.conn, from, w->from, err);
        r = r < 0 ? pl_err_field(err, r, "from") : 0;
    } else if (r == 0) {
        r = run_before(rd.conn, w->to, w->from, err);
    }
    return r < 0 ? r : read_pairs(rd.conn, page, w, err);
}

/* Adds a repo with its counts; after `until_ms` without them. */
static int add_pair(struct pl_api *a, const struct pair *p, int64_t until_ms, struct pl_effort *effort,
                    struct pl_diff_totals *totals, json_t *list, struct pl_err *err)
{
    const int64_t now_ms = pl_clock_mono_ms();
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_store *store;
    json_t *counts = NULL;
    bool more = true;
    int r = 0;

    if (now_ms < until_ms) {
        r = pl_api_store_named(a, p->project, &store, err);
        source.self = r < 0 ? NULL : store;
        r = r < 0 ? r
                  : pl_diff_totals_count(&source, &p->from_root, &p->to_root, "", PL_MIN(until_ms, now_ms + COUNT_ONE_MS), effort,
                                         totals, err);
        if (r < 0)
            return pl_err_wrap(err, r, "repo \"%s\" of project \"%s\"", p->repo, p->project);
        counts = pl_diff_counts_json(&totals->all);
        more = totals->more;
    }
    return pl_json_add(list,
                       json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o*}", "project", p->project, "repo", p->repo, "kind",
                                 p->output ? "output" : "input", "branch", p->branch, "from", p->from, "to", p->to, "more",
                                 (int)more, "counts", counts),
                       err);
}

static int get_changes(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ struct pair *pairs = calloc(REPOS_MAX + 1, sizeof *pairs);
    _cleanup_free_ struct pl_diff_totals *totals = malloc(sizeof *totals);
    _cleanup_(json_decrefp) json_t *list = json_array();
    struct pl_effort effort = pl_request_effort(req);
    const int64_t until_ms = pl_clock_mono_ms() + COUNT_MS;
    struct run_changes w = {.pairs = pairs};
    char next[2 * PL_NAME_MAX_BYTES + 2] = "";
    struct pl_api_page page;
    int r = pairs && totals && list ? pl_api_page_read(req, &page, err) : pl_err_nomem(err);

    r = r < 0 ? r : read_changes(a, req, &page, &w, err);
    for (size_t i = 0; r == 0 && i < w.n; i++)
        r = add_pair(a, &w.pairs[i], until_ms, &effort, totals, list, err);
    if (r < 0)
        return r;
    if (w.more)
        snprintf(next, sizeof next, "%s/%s", w.pairs[w.n - 1].project, w.pairs[w.n - 1].repo);
    *ret = pl_api_list("repos", TAKE_PTR(list), *next ? next : NULL);
    json_object_set_new(*ret, "from", json_string(w.from));
    json_object_set_new(*ret, "to", json_string(w.to));
    return json_object_set_new(*ret, "same", json_integer((json_int_t)w.same)) < 0 ? pl_err_nomem(err) : 0;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/runs/{run}/changes",
     .json = get_changes,
     .verb = PL_VERB_LIST,
     .costly = true,
     .summary = "Lists the repos whose files differ between the data of two runs, with counts: of the run and of `from`, "
                "without it of the run before. The data of a run are the commits that it made and those that they were made "
                "from. `same` counts repos with equal files; with `more` the count is not complete.",
     .query = "from after limit:integer",
     .reply = "RunChanges"},
};

static const struct pl_api_schema schemas[] = {
    {"RunChanges", "from:string to:string repos:RepoChanges[] same:integer next:string?"},
    {"RepoChanges", "project:string repo:string kind:string branch:string from:string to:string more:boolean counts:DiffCounts?"},
};

PL_API_TABLE(run_changes, routes, schemas);
