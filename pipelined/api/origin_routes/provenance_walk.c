/* provenance_walk: the commits around a commit. */
#include "pipelined/api/origin_routes/provenance_walk.h"

#include "pipelined/text/json_text.h"

#include <stdio.h>
#include <stdlib.h>

#define SCAN_PAGE 5000u /* commits that are examined while one database reader is held */
#define KEY_MAX   (2 * PL_NAME_MAX_BYTES + PL_ID_HEX + 3)

/* ---- commits and edges ---- */

/* Doubles a list of the arena when it is full. */
static int make_room(struct pl_arena *arena, void **list, uint32_t n, uint32_t *room, size_t size, struct pl_err *err)
{
    const uint32_t more = n < 16 ? 32 : 2 * n;
    void *grown;

    if (n < *room)
        return 0;
    grown = pl_arena_alloc(arena, more * size);
    if (!grown)
        return pl_err_nomem(err);
    if (n > 0)
        memcpy(grown, *list, n * size);
    *list = grown;
    *room = more;
    return 0;
}

/* A place in some repo. */
struct at {
    const char *project, *repo, *run;
};

static size_t make_key(const struct at *at, char ret[KEY_MAX + 1])
{
    return (size_t)snprintf(ret, KEY_MAX + 1, "%s/%s@%s", at->project, at->repo, at->run);
}

/* Returns the number of the commit + 1; 0 if it was not collected. */
static uint32_t find(const struct pl_walk *w, const struct at *at)
{
    char key[KEY_MAX + 1];
    const size_t len = make_key(at, key);

    return (uint32_t)(uintptr_t)pl_map_get(&w->index, key, PL_MIN(len, (size_t)KEY_MAX));
}

static int add_commit(struct pl_walk *w, const struct at *at, uint32_t depth, struct pl_err *err)
{
    char key[KEY_MAX + 1];
    const size_t len = make_key(at, key);
    struct pl_walk_commit *c;
    int r = make_room(w->arena, (void **)&w->commits, w->n_commits, &w->room_commits, sizeof(*w->commits), err);

    if (r < 0)
        return r;
    c = &w->commits[w->n_commits];
    *c = (struct pl_walk_commit){.depth = depth,
                                 .project = pl_arena_strdup(w->arena, at->project),
                                 .repo = pl_arena_strdup(w->arena, at->repo),
                                 .run = pl_arena_strdup(w->arena, at->run)};
    if (!c->project || !c->repo || !c->run)
        return pl_err_nomem(err);
    w->n_commits++;
    return pl_map_put(&w->index, key, PL_MIN(len, (size_t)KEY_MAX), (void *)(uintptr_t)w->n_commits, NULL, err);
}

/* Adds an edge, unless it is there: a stage may read one commit by several inputs. The edges of one `to` are added in a row. */
static int add_edge(struct pl_walk *w, uint32_t from, uint32_t to, struct pl_err *err)
{
    int r;

    for (uint32_t e = w->n_edges; e > 0 && w->edges[e - 1].to == to; e--)
        if (w->edges[e - 1].from == from)
            return 0;
    r = make_room(w->arena, (void **)&w->edges, w->n_edges, &w->room_edges, sizeof(*w->edges), err);

    if (r >= 0)
        w->edges[w->n_edges++] = (struct pl_walk_edge){from, to, false};
    return r;
}

#define COMMIT_COLUMNS                                                                                                           \
    "c.id, c.root, coalesce(c.owner_root, zeroblob(32)), coalesce(c.table_root, zeroblob(32)), c.files, c.bytes, c.created_us"

static void take_columns(struct pl_walk_commit *c, const struct pl_rows *rows)
{
    c->id = pl_col_int(rows, 0);
    c->root = pl_col_hash(rows, 1);
    c->owner = pl_col_hash(rows, 2);
    c->table = pl_col_hash(rows, 3);
    c->files = pl_col_int(rows, 4);
    c->bytes = pl_col_int(rows, 5);
    c->created_us = pl_col_int(rows, 6);
}

/* ---- up ---- */

/* Reads the commit with the number `at`, and collects what it was made from. */
static int read_sources(struct pl_walk *w, struct pl_conn *conn, uint32_t at, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *sources = NULL;
    struct pl_walk_commit *c = &w->commits[at];
    const json_t *one;
    size_t i;
    int r = pl_sql_query(conn, err, &rows,
                         "SELECT " COMMIT_COLUMNS ", c.provenance FROM repo r JOIN commit_ c ON c.repo = r.id"
                         " WHERE r.project = ? AND r.name = ? AND c.run = ?",
                         "sss", c->project, c->repo, c->run);

    r = r < 0 ? r : pl_sql_next(conn, &rows, err);
    if (r < 0)
        return r;
    if (r == 0) {
        c->note = "the commit has been deleted";
        return 0;
    }
    take_columns(c, &rows);
    sources = pl_col_json(&rows, 7);
    if (!sources)
        return pl_err_nomem(err);
    json_array_foreach(sources, i, one)
    {
        const struct at from = {pl_json_str(one, "project"), pl_json_str(one, "repo"), pl_json_str(one, "commit")};
        uint32_t number = find(w, &from);

        if (!number && (w->n_commits >= PL_WALK_COMMITS_MAX || w->n_edges >= PL_WALK_EDGES_MAX)) {
            w->more = true;
            return 0;
        }
        r = number ? 0 : add_commit(w, &from, w->commits[at].depth + 1, err);
        r = r < 0 ? r : add_edge(w, number ? number - 1 : w->n_commits - 1, at, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Collects breadth first. A commit one level below the depth is collected without what it was made from: it says that the
 * provenance is deeper. */
static int walk_up(struct pl_walk *w, struct pl_err *err)
{
    int r = 0;

    for (uint32_t at = 0; r >= 0 && at < w->n_commits; at++) {
        struct pl_walk_commit *c = &w->commits[at];

        r = pl_effort_add(&w->effort, 1, err);
        if (r < 0)
            return r;
        if (!pl_access_may_read(pl_http_context(w->req), c->project, c->repo)) {
            c->note = "it comes from a repo that you may not read";
            continue;
        }
        if (c->depth > w->depth)
            continue;
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->api->config.db);

        r = read_sources(w, rd.conn, at, err);
    }
    return r;
}

/* ---- down ---- */

/* Collects the commit of the row, whose source `number` is collected, and adds the edge. */
static int take_made(struct pl_walk *w, const struct pl_rows *rows, uint32_t number, struct pl_err *err)
{
    const struct at at = {pl_col_text(rows, 10), pl_col_text(rows, 11), pl_col_text(rows, 12)};
    uint32_t made = find(w, &at);
    int r = 0;

    if (!made && (w->n_commits >= PL_WALK_COMMITS_MAX || w->n_edges >= PL_WALK_EDGES_MAX)) {
        w->more = true;
        return 0;
    }
    if (!made) {
        r = add_commit(w, &at, w->commits[number - 1].depth + 1, err);
        if (r < 0)
            return r;
        made = w->n_commits;
        take_columns(&w->commits[made - 1], rows);
    }
    w->commits[made - 1].depth = PL_MIN(w->commits[made - 1].depth, w->commits[number - 1].depth + 1);
    return add_edge(w, number - 1, made - 1, err);
}

/* True if the commit with that number + 1 is the root or down of it, and near enough: a commit one level below the depth is
 * collected, and nothing that was made from it. */
static bool leads_down(const struct pl_walk *w, uint32_t number)
{
    return number > 0 && w->commits[number - 1].id >= w->commits[0].id && w->commits[number - 1].depth <= w->depth;
}

/* Examines the commits after `*after` on one database reader. Returns 1 if there may be more of them. */
static int scan_page(struct pl_walk *w, int64_t *after, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(w->api, w->req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t end = 0;
    int r = pl_sql_int(rd.conn, err, &end,
                       "SELECT coalesce(max(id), 0) FROM (SELECT id FROM commit_ WHERE id > ? ORDER BY id LIMIT ?)", "ii", *after,
                       (int64_t)SCAN_PAGE);

    if (r < 0 || end == 0)
        return r;
    r = pl_sql_query(rd.conn, err, &rows,
                     "SELECT " COMMIT_COLUMNS ", json_extract(p.value, '$.project'), json_extract(p.value, '$.repo'),"
                     " json_extract(p.value, '$.commit'), r.project, r.name, c.run FROM commit_ c, json_each(c.provenance) p"
                     " JOIN repo r ON r.id = c.repo WHERE c.id > ?1 AND c.id <= ?2 AND readable(r.project, r.name) ORDER BY c.id",
                     "ii", *after, end);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        const struct at from = {pl_col_text(&rows, 7), pl_col_text(&rows, 8), pl_col_text(&rows, 9)};
        const uint32_t number = find(w, &from);

        r = pl_effort_add(&w->effort, 1, err);
        if (r >= 0 && leads_down(w, number))
            r = take_made(w, &rows, number, err);
    }
    *after = end;
    return r < 0 ? r : 1;
}

static int walk_down(struct pl_walk *w, int64_t after, struct pl_err *err)
{
    int r = 1;

    for (uint32_t examined = 0; r > 0 && !w->more; examined += SCAN_PAGE) {
        if (examined >= PL_WALK_SCAN_MAX) {
            w->more = true;
            break;
        }
        r = scan_page(w, &after, err);
    }
    return PL_MIN(r, 0);
}

/* ---- the order ---- */

static int compare_commits(const void *a, const void *b)
{
    const struct pl_walk_commit *x = *(const struct pl_walk_commit *const *)a, *y = *(const struct pl_walk_commit *const *)b;
    int by;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    by = strcmp(x->project, y->project);
    by = by ? by : strcmp(x->repo, y->repo);
    return by ? by : strcmp(x->run, y->run);
}

/* Sorts the commits into the order in which they were made; those that are not there come first. */
static int sort_commits(struct pl_walk *w, struct pl_err *err)
{
    const struct pl_walk_commit **sorted = pl_arena_alloc(w->arena, w->n_commits * sizeof(struct pl_walk_commit *));
    struct pl_walk_commit *commits = pl_arena_alloc(w->arena, w->n_commits * sizeof(*commits));
    uint32_t *place = pl_arena_alloc(w->arena, w->n_commits * sizeof(*place));

    if (!sorted || !commits || !place)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < w->n_commits; i++)
        sorted[i] = &w->commits[i];
    qsort(sorted, w->n_commits, sizeof(*sorted), compare_commits);
    for (uint32_t i = 0; i < w->n_commits; i++) {
        commits[i] = *sorted[i];
        place[sorted[i] - w->commits] = i;
    }
    for (uint32_t e = 0; e < w->n_edges; e++) {
        w->edges[e].from = place[w->edges[e].from];
        w->edges[e].to = place[w->edges[e].to];
    }
    w->root = place[0];
    w->commits = commits;
    w->room_commits = w->n_commits;
    return 0;
}

int pl_walk_commits(struct pl_walk *w, const char *project, const char *repo, const struct pl_commit_row *root,
                    struct pl_err *err)
{
    const struct at at = {project, repo, root->run};
    int r = add_commit(w, &at, 0, err);

    if (r < 0)
        return r;
    w->commits[0].id = root->id;
    w->commits[0].root = root->root;
    w->commits[0].owner = root->owner;
    w->commits[0].table = root->table;
    w->commits[0].files = root->files;
    w->commits[0].bytes = root->bytes;
    w->commits[0].created_us = root->created_us;
    r = w->up ? walk_up(w, err) : 0;
    r = r < 0 || !w->down ? r : walk_down(w, root->id, err);
    return r < 0 ? r : sort_commits(w, err);
}

void pl_walk_finish(struct pl_walk *w)
{
    for (uint32_t i = 0; i < w->n_commits; i++)
        pl_map_finish(&w->commits[i].known, NULL);
    pl_map_finish(&w->index, NULL);
}
