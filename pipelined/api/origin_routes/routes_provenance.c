/* Provenance of a commit or a file as a graph: what it was made from, what was made from it, and by what. */
#include "pipelined/api/origin_routes/provenance_walk.h"
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/plan/datum_table.h"
#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <stdio.h>

#define DEPTH_MAX        64
#define LEVEL_LIMIT      20 /* commits of a level on a page, unless the client wants another number */
#define LEVEL_LIMIT_MAX  200
#define PATHS_LISTED     20  /* files that are named of each commit */
#define PLACES_MAX       8   /* where a commit's datums ran: places that are listed */
#define ATTEMPTS_LOOKED  200 /* kept attempts of a job that are examined for them */
#define MESSAGE_CHARS    "1000"
#define EDGES_LISTED_MAX 10000
#define QUERY_EFFORT     100 /* steps that a commit counts as whose rows are read */

/* What a request asks for. */
struct asked {
    bool up, down;
    uint64_t depth;
    struct pl_provenance_ask page;
    char path[PL_PATH_MAX_BYTES + 1]; /* "" = the whole commit */
};

/* One request. */
struct answer {
    struct pl_api *api;
    const struct pl_http_request *req;
    struct pl_walk *walk;
    bool files; /* it is about files */
};

/* ---- the request ---- */

static int read_dir(const struct pl_http_request *req, struct asked *ret, struct pl_err *err)
{
    const char *dir = pl_http_query(req, "dir");

    ret->up = !dir || pl_streq(dir, "up") || pl_streq(dir, "all");
    ret->down = dir && (pl_streq(dir, "down") || pl_streq(dir, "all"));
    if (ret->up || ret->down)
        return 0;
    return pl_err_field(err, pl_err_set(err, PL_EINVAL, "dir is \"%s\": use up, down or all", dir), "dir");
}

/* Reads the position LEVEL/N, from which a page of a level begins. */
static int read_after(const struct pl_http_request *req, struct asked *ret, struct pl_err *err)
{
    const char *after = pl_http_query(req, "after");
    unsigned n;
    int level, end = 0;

    if (!after)
        return 0;
    if (strlen(after) > 20 || sscanf(after, "%d/%u%n", &level, &n, &end) != 2 || after[end] || level == 0)
        return pl_api_page_refuse(&(struct pl_api_page){.after = after}, err);
    ret->page.level = level;
    ret->page.after = n;
    return 0;
}

static int read_number(const struct pl_http_request *req, const char *name, uint64_t otherwise, uint64_t max, uint64_t *ret,
                       struct pl_err *err)
{
    int r = pl_http_query_u64(req, name, otherwise, max, ret, err);

    if (r == 0 && *ret == 0)
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "%s is 0: use 1 to %llu", name, (unsigned long long)max), name);
    return r;
}

static int read_asked(const struct pl_http_request *req, struct asked *ret, struct pl_err *err)
{
    uint64_t limit = 0;
    int r = read_dir(req, ret, err);

    r = r < 0 ? r : read_number(req, "depth", DEPTH_MAX, DEPTH_MAX, &ret->depth, err);
    r = r < 0 ? r : read_number(req, "limit", LEVEL_LIMIT, LEVEL_LIMIT_MAX, &limit, err);
    r = r < 0 ? r : read_after(req, ret, err);
    ret->page.limit = (uint32_t)limit;
    return r < 0 ? r : pl_path_canonical(pl_http_param(req, "path"), ret->path, err);
}

/* ---- where the datums of a commit ran ---- */

#define PLACE_COLUMNS                                                                                                            \
    "coalesce(json_extract(detail, '$.node'), ''), coalesce(json_extract(detail, '$.gpus'), 0),"                                 \
    " coalesce(json_extract(detail, '$.image_id'), '')"

static json_t *place_json(const struct pl_rows *rows, const char *run, const struct pl_hash *datum)
{
    const char *image = pl_col_text(rows, 2);
    char hex[PL_HASH_HEX + 1];

    return json_pack("{s:s, s:s*, s:s, s:I, s:s*, s:I, s:o, s:o}", "run", run, "datum", datum ? pl_hash_hex(datum, hex) : NULL,
                     "node", pl_col_text(rows, 0), "gpus", (json_int_t)pl_col_int(rows, 1), "image_id", *image ? image : NULL,
                     "attempts", (json_int_t)pl_col_int(rows, 3), "started_us", pl_api_time_or_null(pl_col_int(rows, 4)),
                     "finished_us", pl_api_time_or_null(pl_col_int(rows, 5)));
}

/* Adds where the kept attempts of a job ran, each place once. */
static int add_job_places(struct pl_conn *c, int64_t job, const char *run, json_t *list, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT " PLACE_COLUMNS ", count(*), min(json_extract(detail, '$.started_us')), max(finished_us) FROM"
                         " (SELECT detail, finished_us FROM attempt WHERE job = ? AND state = 'success' LIMIT ?)"
                         " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT ?",
                         "iii", job, (int64_t)ATTEMPTS_LOOKED, (int64_t)PLACES_MAX);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = pl_json_add(list, place_json(&rows, run, NULL), err);
    return r;
}

/* The run that computed a datum, which may be earlier than the commit's. Returns 0 if the commit's table has no such row. */
static int read_run(const struct answer *a, const struct pl_walk_commit *c, const struct pl_walk_datum *datum,
                    char ret[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_store *store = NULL;
    struct pl_tree_item item;
    struct pl_datum_row row;
    int r = pl_project_stores_get(a->api->config.stores, c->project, &store, err);

    source.self = store;
    r = r < 0 ? r : pl_tree_cursor_create(&source, &c->table, NULL, 0, &cursor, err);
    r = r < 0 ? r : pl_tree_cursor_get(cursor, (const char *)datum->key, datum->key_len, &item, err);
    if (r <= 0)
        return r;
    r = pl_datum_row_decode(item.entry.row, item.entry.size, &row, err);
    if (r < 0)
        return r;
    pl_hex_encode(row.run, sizeof(row.run), ret);
    return 1;
}

/* Adds where the last attempt at one datum ran, if it is kept. */
static int add_datum_place(const struct answer *a, const struct pl_walk_commit *c, const struct pl_walk_datum *datum,
                           json_t *list, struct pl_err *err)
{
    char run[PL_ID_HEX + 1];
    struct pl_hash id;
    int64_t job;
    int r = read_run(a, c, datum, run, err);

    if (r <= 0)
        return r;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->api->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0}, attempts = {0};
    _cleanup_(json_decrefp) json_t *inputs = NULL;

    r = pl_sql_query(rd.conn, err, &rows, "SELECT id, inputs FROM job WHERE run = ? AND project = ? AND stage = ?", "sss", run,
                     c->project, c->repo);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r;
    job = pl_col_int(&rows, 0);
    inputs = pl_col_json(&rows, 1);
    if (!inputs)
        return pl_err_nomem(err);
    pl_job_datum_id(datum->key, datum->key_len, inputs, &id);
    r = pl_sql_query(rd.conn, err, &attempts,
                     "SELECT " PLACE_COLUMNS ", 1, json_extract(detail, '$.started_us'), finished_us FROM attempt"
                     " WHERE job = ? AND datum = ? AND state = 'success' ORDER BY attempt DESC LIMIT 1",
                     "ib", job, id.b, (size_t)PL_HASH_BYTES);
    r = r < 0 ? r : pl_sql_next(rd.conn, &attempts, err);
    return r <= 0 ? r : pl_json_add(list, place_json(&attempts, run, &id), err);
}

/* ---- a commit ---- */

/* Adds who made the commit, and of a commit that a stage made its job. */
static int add_rows(const struct answer *a, const struct pl_walk_commit *c, json_t *out, json_t *places, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->api->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0}, jobs = {0}, gits = {0};
    _cleanup_(json_decrefp) json_t *job = NULL;
    int r = pl_sql_query(rd.conn, err, &rows,
                         "SELECT branch, author, substr(message, 1, " MESSAGE_CHARS "), git, code FROM commit_ WHERE id = ?", "i",
                         c->id);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r < 0)
        return r;
    if (r > 0) {
        const struct pl_hash code = pl_col_hash(&rows, 4);
        const char *git = pl_col_text(&rows, 3);

        json_object_set_new(out, "branch", json_string(pl_col_text(&rows, 0)));
        json_object_set_new(out, "author", json_string(pl_col_text(&rows, 1)));
        json_object_set_new(out, "message", json_string(pl_col_text(&rows, 2)));
        if (*git)
            json_object_set_new(out, "git", json_pack("{s:s}", "head", git));
        if (!pl_hash_is_zero(&code))
            json_object_set_new(out, "code", pl_api_hash_json(&code));
    }
    if (pl_hash_is_zero(&c->owner))
        return 0;
    r = pl_sql_query(rd.conn, err, &jobs, PL_JOB_COLUMNS " FROM job j WHERE j.run = ? AND j.project = ? AND j.stage = ?", "sss",
                     c->run, c->project, c->repo);
    r = r < 0 ? r : pl_sql_next(rd.conn, &jobs, err);
    if (r <= 0)
        return r;
    job = pl_job_row_json(&jobs, false);
    if (!job || json_object_set(out, "job", job) < 0)
        return pl_err_nomem(err);
    r = pl_sql_query(rd.conn, err, &gits, "SELECT s.git FROM job j JOIN stage s ON s.id = j.version WHERE j.id = ?", "i",
                     pl_col_int(&jobs, 0));
    r = r < 0 ? r : pl_sql_next(rd.conn, &gits, err);
    if (r > 0) {
        _cleanup_(json_decrefp) json_t *git = pl_col_json(&gits, 0);

        if (json_object_size(git))
            json_object_set(out, "git", git);
    }
    return r < 0 || a->files ? PL_MIN(r, 0) : add_job_places(rd.conn, pl_col_int(&jobs, 0), c->run, places, err);
}

/* Adds the names of the files that are followed. */
static int add_paths(const struct pl_walk_commit *c, json_t *out, struct pl_err *err)
{
    json_t *list = json_array();
    int r = json_object_set_new(out, "paths", list) < 0 ? pl_err_nomem(err) : 0;

    for (uint32_t i = 0; r >= 0 && i < PL_MIN(c->n_paths, (uint32_t)PATHS_LISTED); i++)
        r = pl_json_add(list, json_string(c->paths[i]), err);
    return r;
}

/* A commit that may not be read, or is gone, is named by a number: its key would tell of a repo. */
static json_t *key_json(const struct pl_walk *w, uint32_t at)
{
    const struct pl_walk_commit *c = &w->commits[at];

    return c->note ? json_sprintf("none/%u", at) : json_sprintf("%s/%s@%s", c->project, c->repo, c->run);
}

static int commit_json(const struct answer *a, uint32_t at, int32_t level, json_t **ret, struct pl_err *err)
{
    const struct pl_walk_commit *c = &a->walk->commits[at];
    _cleanup_(json_decrefp) json_t *out = json_pack("{s:o, s:i}", "key", key_json(a->walk, at), "level", (int)level),
                                   *places = NULL;
    int r = 0;

    if (!out)
        return pl_err_nomem(err);
    if (c->note) {
        r = json_object_set_new(out, "note", json_string(c->note)) < 0 ? pl_err_nomem(err) : 0;
        if (r == 0)
            *ret = json_incref(out);
        return r;
    }
    places = json_array();
    if (!places ||
        json_object_update_new(out, json_pack("{s:s, s:s, s:s, s:I, s:b, s:I, s:I, s:O}", "project", c->project, "repo", c->repo,
                                              "commit", c->run, "files", (json_int_t)(a->files ? c->n_paths : c->files), "more",
                                              (int)c->more, "bytes", (json_int_t)c->bytes, "created_us",
                                              (json_int_t)c->created_us, "places", places)) < 0)
        return pl_err_nomem(err);
    r = a->files ? add_paths(c, out, err) : 0;
    r = r < 0 ? r : add_rows(a, c, out, places, err);
    for (uint32_t i = 0; r >= 0 && i < c->n_datums; i++)
        r = add_datum_place(a, c, &c->datums[i], places, err);
    if (r >= 0)
        *ret = json_incref(out);
    return PL_MIN(r, 0);
}

static int add_nodes(const struct answer *a, const struct pl_provenance *g, json_t *list, struct pl_err *err)
{
    int r = 0;

    for (uint32_t v = 0; r >= 0 && v < g->n_nodes; v++) {
        json_t *one = NULL;

        if (!g->nodes[v].shown || g->nodes[v].level == PL_PROVENANCE_NONE)
            continue;
        r = pl_effort_add(&a->walk->effort, QUERY_EFFORT, err);
        r = r < 0 ? r : commit_json(a, v, g->nodes[v].level, &one, err);
        r = r < 0 ? r : pl_json_add(list, one, err);
    }
    return r;
}

/* ---- edges ---- */

/* Reads the inputs of the job that made the commit; JSON null if it is not known. */
static int read_inputs(const struct answer *a, const struct pl_walk_commit *c, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->api->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT inputs FROM job WHERE run = ? AND project = ? AND stage = ?", "sss", c->run,
                         c->project, c->repo);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r < 0)
        return r;
    *ret = r > 0 ? pl_col_json(&rows, 0) : json_null();
    return *ret ? 0 : pl_err_nomem(err);
}

/* Makes the list of names by which a job reads a commit. */
static json_t *names_json(const json_t *inputs, const struct pl_walk_commit *from)
{
    json_t *list = json_array();
    const json_t *in;
    size_t i;

    json_array_foreach(inputs, i, in)
    {
        if (!pl_streq(pl_json_str(in, "commit"), from->run) || !pl_streq(pl_json_str(in, "repo"), from->repo) ||
            !pl_streq(pl_json_str(in, "project"), from->project))
            continue;
        if (!list || json_array_append(list, json_object_get(in, "name")) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* True if the edge touches what is shown: of a first page both ends, of a later page one of them. */
static bool is_listed(const struct pl_provenance *g, const struct pl_provenance_edge *e, bool first)
{
    const struct pl_provenance_node *from = &g->nodes[e->from], *to = &g->nodes[e->to];

    if (from->level == PL_PROVENANCE_NONE || to->level == PL_PROVENANCE_NONE)
        return false;
    return first ? from->shown && to->shown : from->shown || to->shown;
}

static int add_edges(const struct answer *a, const struct pl_provenance *g, bool first, json_t *list, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *inputs = NULL;
    uint32_t of = UINT32_MAX; /* the commit that `inputs` are of */
    int r = 0;

    for (uint32_t e = 0; r >= 0 && e < g->n_edges; e++) {
        const struct pl_provenance_edge *edge = &g->edges[e];

        if (!is_listed(g, edge, first))
            continue;
        if (json_array_size(list) == EDGES_LISTED_MAX) {
            a->walk->more = true;
            break;
        }
        if (of != edge->to) {
            json_decref(TAKE_PTR(inputs));
            of = edge->to;
            r = pl_effort_add(&a->walk->effort, QUERY_EFFORT, err);
            r = r < 0 ? r : read_inputs(a, &a->walk->commits[of], &inputs, err);
        }
        r = r < 0
                ? r
                : pl_json_add(list,
                              json_pack("{s:o, s:o, s:o}", "from", key_json(a->walk, edge->from), "to",
                                        key_json(a->walk, edge->to), "inputs", names_json(inputs, &a->walk->commits[edge->from])),
                              err);
    }
    return r;
}

/* ---- the reply ---- */

static json_t *level_json(const struct pl_provenance_level *level)
{
    char next[32];

    snprintf(next, sizeof(next), "%d/%u", (int)level->level, level->next);
    return json_pack("{s:i, s:I, s:I, s:s*}", "level", (int)level->level, "commits", (json_int_t)level->nodes, "shown",
                     (json_int_t)level->shown, "next", level->next < level->nodes ? next : NULL);
}

static int compare_repos(const struct pl_walk_commit *a, const struct pl_walk_commit *b)
{
    const int by = strcmp(a->project, b->project);

    return by ? by : strcmp(a->repo, b->repo);
}

struct named {
    const struct pl_walk_commit *commit;
    uint32_t at;
};

static int compare_named(const void *a, const void *b)
{
    return compare_repos(((const struct named *)a)->commit, ((const struct named *)b)->commit);
}

/* Makes the graph of the walk's commits; repos are numbered by name. */
static int make_graph(const struct pl_walk *w, struct pl_provenance *ret, struct pl_err *err)
{
    struct named *sorted = pl_arena_alloc(w->arena, w->n_commits * sizeof(*sorted));
    uint32_t repo = 0;

    *ret = (struct pl_provenance){.nodes = pl_arena_alloc(w->arena, w->n_commits * sizeof(*ret->nodes)),
                                  .edges = pl_arena_alloc(w->arena, (w->n_edges + 1) * sizeof(*ret->edges)),
                                  .n_nodes = w->n_commits,
                                  .n_edges = w->n_edges,
                                  .root = w->root};
    if (!sorted || !ret->nodes || !ret->edges)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < w->n_commits; i++)
        sorted[i] = (struct named){&w->commits[i], i};
    qsort(sorted, w->n_commits, sizeof(*sorted), compare_named);
    for (uint32_t i = 0; i < w->n_commits; i++) {
        repo += i > 0 && compare_repos(sorted[i].commit, sorted[i - 1].commit) != 0;
        ret->nodes[sorted[i].at] = (struct pl_provenance_node){.repo = repo};
    }
    for (uint32_t e = 0; e < w->n_edges; e++)
        ret->edges[e] = (struct pl_provenance_edge){w->edges[e].from, w->edges[e].to};
    return 0;
}

/* Makes the reply from a walk that is done. */
static int reply(const struct answer *a, const struct asked *asked, json_t *out, struct pl_err *err)
{
    const struct pl_walk *w = a->walk;
    json_t *nodes = json_object_get(out, "nodes"), *edges = json_object_get(out, "edges"), *list = json_object_get(out, "levels");
    struct pl_provenance_level *levels = NULL;
    struct pl_provenance g;
    uint32_t n = 0;
    bool deeper = false;
    int r = make_graph(w, &g, err);

    r = r < 0 ? r : pl_provenance_levels(&g, (uint32_t)asked->depth, &deeper, err);
    r = r < 0 ? r : pl_provenance_show(&g, &asked->page, w->arena, &levels, &n, err);
    r = r < 0 ? r : add_nodes(a, &g, nodes, err);
    r = r < 0 ? r : add_edges(a, &g, asked->page.level == 0, edges, err);
    for (uint32_t i = 0; r >= 0 && i < n; i++)
        if (levels[i].nodes > 0)
            r = pl_json_add(list, level_json(&levels[i]), err);
    if (r < 0)
        return r;
    return json_object_set_new(out, "deeper", json_boolean(deeper)) < 0 ||
                   json_object_set_new(out, "more", json_boolean(w->more)) < 0
               ? pl_err_nomem(err)
               : 0;
}

static int walk(struct pl_walk *w, const char *project, const char *repo, const struct pl_commit_row *root, const char *path,
                struct pl_err *err)
{
    int r = pl_walk_commits(w, project, repo, root, err);

    return r < 0 || !*path ? r : pl_walk_files(w, path, err);
}

static int get_provenance(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(pl_walk_finish) struct pl_walk w = {.api = a, .req = req, .arena = arena, .effort = pl_request_effort(req)};
    const char *project = pl_http_param(req, "project"), *repo = pl_http_param(req, "repo");
    struct answer answer = {a, req, &w, false};
    struct asked asked = {0};
    struct pl_commit_row root;
    int r = arena ? read_asked(req, &asked, err) : pl_err_nomem(err);

    r = r < 0 ? r : pl_api_commit(a, req, &root, err);
    if (r < 0)
        return r;
    w.up = asked.up;
    w.down = asked.down;
    w.depth = (uint32_t)asked.depth;
    answer.files = *asked.path != '\0';
    r = walk(&w, project, repo, &root, asked.path, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:[], s:[], s:[]}", "project", project, "repo", repo, "commit", root.run,
                     "path", asked.path, "dir",
                     asked.up && asked.down ? "all"
                     : asked.up             ? "up"
                                            : "down",
                     "root", key_json(&w, w.root), "nodes", "edges", "levels");
    return *ret ? reply(&answer, &asked, *ret, err) : pl_err_nomem(err); /* the caller releases `*ret` also after an error */
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/provenance/{project}/{repo}/{ref}/{path...}",
     .json = get_provenance,
     .verb = PL_VERB_READ,
     .costly = true,
     .summary = "Returns the commits that a commit, a file or the files of a folder were made from (`dir` up, the default), that "
                "were made from it (down), or both (all), with the jobs that made them and where these ran. A level is the "
                "longest way to the root; of each level a page of `limit` commits is shown, and its `next` given as `after` "
                "returns the next page. With a path, `files` counts those of a commit that concern it.",
     .query = "dir depth:integer after limit:integer",
     .reply = "Provenance"},
};

static const struct pl_api_schema schemas[] = {
    {"Provenance", "project:string repo:string commit:string path:string dir:string root:string nodes:ProvenanceNode[] "
                   "edges:ProvenanceEdge[] levels:ProvenanceLevel[] deeper:boolean more:boolean"},
    {"ProvenanceNode", "key:string level:integer note:string? project:string? repo:string? commit:string? files:integer? "
                       "more:boolean? bytes:integer? created_us:integer? paths:string[]? branch:string? author:string? "
                       "message:string? git:object? code:string? job:Job? places:ProvenancePlace[]?"},
    {"ProvenancePlace", "run:string datum:string? node:string gpus:integer image_id:string? attempts:integer started_us:integer? "
                        "finished_us:integer?"},
    {"ProvenanceEdge", "from:string to:string inputs:string[]"},
    {"ProvenanceLevel", "level:integer commits:integer shown:integer next:string?"},
};

PL_API_TABLE(provenance, routes, schemas);
