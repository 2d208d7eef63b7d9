/* provenance_walk: which files of the collected commits concern one file.
 *
 * Commits are visited in the order in which they were made, or against it: when a commit is visited, all of its files that
 * are followed are known. */
#include "pipelined/api/origin_routes/provenance_walk.h"
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/plan/enum_key.h"
#include "pipelined/text/json_text.h"
#include "storage/base/path.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- followed files ---- */

static int follow(struct pl_walk *w, struct pl_walk_commit *c, const char *path, size_t len, struct pl_err *err)
{
    const uint32_t room = c->room ? 2 * c->room : 16;
    char *copy;

    if (pl_map_get(&c->known, path, len))
        return 0;
    if (c->n_paths == PL_WALK_FILES_MAX) {
        c->more = w->more = true;
        return 0;
    }
    if (c->n_paths == c->room) {
        const char **grown = pl_arena_alloc(w->arena, room * sizeof(*grown));

        if (!grown)
            return pl_err_nomem(err);
        if (c->n_paths > 0)
            memcpy(grown, c->paths, c->n_paths * sizeof(*grown));
        c->paths = grown;
        c->room = room;
    }
    copy = pl_arena_strndup(w->arena, path, len);
    if (!copy)
        return pl_err_nomem(err);
    c->paths[c->n_paths++] = copy;
    return pl_map_put(&c->known, path, len, copy, NULL, err);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_paths(struct pl_walk_commit *c)
{
    if (c->n_paths > 1)
        qsort(c->paths, c->n_paths, sizeof(*c->paths), compare_paths);
}

/* Counts an entry of a tree. Returns false when the walk has examined enough. */
static bool visit(struct pl_walk *w)
{
    if (w->visits < PL_WALK_VISITS_MAX) {
        w->visits++;
        return true;
    }
    w->more = true;
    return false;
}

static int source_of(struct pl_walk *w, const struct pl_walk_commit *c, struct pl_node_source *ret, struct pl_err *err)
{
    struct pl_store *store = NULL;
    int r = pl_project_stores_get(w->api->config.stores, c->project, &store, err);

    *ret = (struct pl_node_source){store, pl_store_node_get};
    return r;
}

/* Follows the files below a folder ("d/", or "") that `set` takes; NULL = all. */
static int follow_folder(struct pl_walk *w, struct pl_walk_commit *c, const char *prefix, size_t len,
                         const struct pl_glob_set *set, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_node_source source;
    struct pl_tree_item item;
    int r = source_of(w, c, &source, err);

    r = r < 0 ? r : pl_tree_cursor_create(&source, &c->root, prefix, len, &cursor, err);
    while (r >= 0 && !c->more && visit(w) && (r = pl_tree_cursor_next(cursor, &item, err)) > 0) {
        r = pl_effort_add(&w->effort, 1, err);
        if (r >= 0 && item.entry.kind != PL_KIND_DIR && (!set || pl_glob_set_takes(set, item.path + len, item.path_len - len)))
            r = follow(w, c, item.path, item.path_len, err);
    }
    return PL_MIN(r, 0);
}

/* ---- the job that made a commit ---- */

/* The inputs of the job: which commit of the walk each reads, and which files of a folder. */
struct job {
    json_t *inputs, *spec;
    struct pl_glob_set *sets[PL_SPEC_LEAVES_MAX];
    uint32_t edges[PL_SPEC_LEAVES_MAX]; /* number of the edge + 1; 0 = its commit is not in the walk */
    size_t n;
};

static void job_finish(struct job *j)
{
    for (size_t i = 0; i < j->n; i++)
        pl_glob_set_destroy(j->sets[i]);
    json_decref(j->inputs);
    json_decref(j->spec);
}

static int read_job(struct pl_walk *w, const struct pl_walk_commit *c, struct job *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->api->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows,
                         "SELECT j.inputs, s.spec FROM job j LEFT JOIN stage s ON s.id = j.version"
                         " WHERE j.run = ? AND j.project = ? AND j.stage = ?",
                         "sss", c->run, c->project, c->repo);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r;
    ret->inputs = pl_col_json(&rows, 0);
    ret->spec = pl_col_json(&rows, 1);
    return ret->inputs && ret->spec ? 1 : pl_err_nomem(err);
}

static uint32_t edge_of(const struct pl_walk *w, uint32_t first, uint32_t to, const json_t *in)
{
    for (uint32_t e = first; e < w->n_edges && w->edges[e].to == to; e++) {
        const struct pl_walk_commit *from = &w->commits[w->edges[e].from];

        if (pl_streq(from->run, pl_json_str(in, "commit")) && pl_streq(from->repo, pl_json_str(in, "repo")) &&
            pl_streq(from->project, pl_json_str(in, "project")))
            return e + 1;
    }
    return 0;
}

/* Reads the job that made the commit `at`, whose edges begin at `first`. Returns 0 if it is not known. */
static int open_job(struct pl_walk *w, uint32_t at, uint32_t first, struct job *ret, struct pl_err *err)
{
    const json_t *in;
    size_t i;
    int r = read_job(w, &w->commits[at], ret, err);

    if (r <= 0)
        return r;
    json_array_foreach(ret->inputs, i, in)
    {
        const json_t *leaf = pl_job_input_leaf(ret->spec, i);

        if (i == PL_SPEC_LEAVES_MAX)
            break;
        ret->edges[i] = edge_of(w, first, at, in);
        ret->n = i + 1;
        r = leaf ? pl_job_input_files(leaf, &ret->sets[i], err) : 0;
        if (r < 0)
            return r;
    }
    return 1;
}

/* Keeps the datum with this key, if the commit has few. */
static int keep_datum(struct pl_walk *w, struct pl_walk_commit *c, const uint8_t *key, size_t len, struct pl_err *err)
{
    uint8_t *copy;

    if (c->n_datums == PL_WALK_DATUMS_MAX)
        return 0;
    copy = pl_arena_alloc(w->arena, len);
    if (!copy)
        return pl_err_nomem(err);
    memcpy(copy, key, len);
    c->datums[c->n_datums++] = (struct pl_walk_datum){copy, len};
    return 0;
}

/* ---- up ---- */

/* Follows what the datum read. */
static int follow_key(struct pl_walk *w, const struct job *job, const uint8_t *key, size_t len, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(key, len);
    struct pl_enum_match match;
    int r = 0;

    while (r >= 0 && pl_enum_key_next(&c, &match)) {
        const uint32_t edge = match.leaf < job->n ? job->edges[match.leaf] : 0;
        char prefix[PL_PATH_MAX_BYTES + 2];
        struct pl_walk_commit *from;
        int n;

        if (!edge)
            continue;
        from = &w->commits[w->edges[edge - 1].from];
        w->edges[edge - 1].used = true;
        if (from->note)
            continue;
        n = snprintf(prefix, sizeof(prefix), "%.*s%s", (int)match.path_len, match.path, match.dir && match.path_len ? "/" : "");
        r = match.dir ? follow_folder(w, from, prefix, (size_t)n, job->sets[match.leaf], err)
                      : follow(w, from, prefix, (size_t)n, err);
    }
    return r;
}

/* Follows the commit's files to what their datums read. */
static int go_up(struct pl_walk *w, uint32_t at, uint32_t first, struct pl_err *err)
{
    _cleanup_(job_finish) struct job job = {0};
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *owners = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf last = {0};
    struct pl_walk_commit *c = &w->commits[at];
    struct pl_node_source source;
    int r = open_job(w, at, first, &job, err);

    if (r <= 0)
        return r;
    r = source_of(w, c, &source, err);
    r = r < 0 ? r : pl_tree_cursor_create(&source, &c->owner, NULL, 0, &owners, err);
    for (uint32_t i = 0; r >= 0 && i < c->n_paths && visit(w); i++) {
        struct pl_tree_item item;

        r = pl_effort_add(&w->effort, 1, err);
        r = r < 0 ? r : pl_tree_cursor_get(owners, c->paths[i], strlen(c->paths[i]), &item, err);
        if (r <= 0 || (last.len == item.entry.size && memcmp(last.data, item.entry.row, last.len) == 0))
            continue;
        last.len = 0;
        r = pl_buf_add(&last, item.entry.row, item.entry.size, err);
        r = r < 0 ? r : keep_datum(w, c, last.data, last.len, err);
        r = r < 0 ? r : follow_key(w, &job, last.data, last.len, err);
    }
    return PL_MIN(r, 0);
}

/* ---- down ---- */

/* True if the commit has a followed file below the folder that `set` takes. */
static bool has_below(const struct pl_walk_commit *c, const char *prefix, size_t len, const struct pl_glob_set *set)
{
    uint32_t low = 0, high = c->n_paths;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (strncmp(c->paths[middle], prefix, len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < c->n_paths && strncmp(c->paths[low], prefix, len) == 0; low++)
        if (!set || pl_glob_set_takes(set, c->paths[low] + len, strlen(c->paths[low] + len)))
            return true;
    return false;
}

/* True if the datum read a followed file; marks the edges of those that it read. */
static bool reads_followed(struct pl_walk *w, const struct job *job, const uint8_t *key, size_t len)
{
    struct pl_cursor c = pl_cursor_of(key, len);
    struct pl_enum_match match;
    bool found = false;

    while (pl_enum_key_next(&c, &match)) {
        const uint32_t edge = match.leaf < job->n ? job->edges[match.leaf] : 0;
        const struct pl_walk_commit *from = edge ? &w->commits[w->edges[edge - 1].from] : NULL;
        char prefix[PL_PATH_MAX_BYTES + 2];
        int n;

        if (!edge || from->n_paths == 0)
            continue;
        n = snprintf(prefix, sizeof(prefix), "%.*s%s", (int)match.path_len, match.path, match.dir && match.path_len ? "/" : "");
        if (match.dir ? !has_below(from, prefix, (size_t)n, job->sets[match.leaf]) : !pl_map_get(&from->known, prefix, (size_t)n))
            continue;
        w->edges[edge - 1].used = found = true;
    }
    return found;
}

/* True if one of the commits that `at` was made from has followed files. */
static bool has_sources(const struct pl_walk *w, uint32_t at, uint32_t first)
{
    for (uint32_t e = first; e < w->n_edges && w->edges[e].to == at; e++)
        if (w->commits[w->edges[e].from].n_paths > 0)
            return true;
    return false;
}

/* Follows to the commit `at` what was made from followed files of its sources. */
static int go_down(struct pl_walk *w, uint32_t at, uint32_t first, struct pl_err *err)
{
    _cleanup_(job_finish) struct job job = {0};
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *owners = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf last = {0};
    struct pl_walk_commit *c = &w->commits[at];
    struct pl_node_source source;
    struct pl_tree_item item;
    bool takes = false;
    int r = open_job(w, at, first, &job, err);

    if (r <= 0)
        return r;
    r = source_of(w, c, &source, err);
    r = r < 0 ? r : pl_tree_cursor_create(&source, &c->owner, NULL, 0, &owners, err);
    while (r >= 0 && !c->more && visit(w) && (r = pl_tree_cursor_next(owners, &item, err)) > 0) {
        r = pl_effort_add(&w->effort, 1, err);
        if (r < 0 || memchr(item.path, 0, item.path_len)) /* a directory, or a datum that failed (datum_table.h) */
            continue;
        if (last.len != item.entry.size || memcmp(last.data, item.entry.row, last.len) != 0) {
            last.len = 0;
            r = pl_buf_add(&last, item.entry.row, item.entry.size, err);
            takes = r >= 0 && reads_followed(w, &job, last.data, last.len);
            r = r < 0 || !takes ? r : keep_datum(w, c, last.data, last.len, err);
        }
        if (r >= 0 && takes)
            r = follow(w, c, item.path, item.path_len, err);
    }
    return PL_MIN(r, 0);
}

/* ---- both ---- */

static int compare_edges(const void *a, const void *b)
{
    const struct pl_walk_edge *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Follows the root's file, or the files below its folder. */
static int follow_root(struct pl_walk *w, const char *path, struct pl_err *err)
{
    struct pl_walk_commit *c = &w->commits[w->root];
    char prefix[PL_PATH_MAX_BYTES + 2];
    struct pl_node_source source;
    struct pl_entry entry;
    int n, r = source_of(w, c, &source, err);

    r = r < 0 ? r : pl_tree_get(&source, &c->root, path, strlen(path), &entry, err);
    if (r == 0 && entry.kind != PL_KIND_DIR)
        return follow(w, c, path, strlen(path), err);
    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    n = snprintf(prefix, sizeof(prefix), "%s/", path);
    r = follow_folder(w, c, prefix, (size_t)n, NULL, err);
    return r < 0 ? r : c->n_paths > 0 ? 0 : pl_err_set(err, PL_ENOTFOUND, "the commit has no file or folder /%.600s", path);
}

/* Drops the edges that no file takes. */
static void drop_unused(struct pl_walk *w)
{
    uint32_t n = 0;

    for (uint32_t e = 0; e < w->n_edges; e++)
        if (w->edges[e].used)
            w->edges[n++] = w->edges[e];
    w->n_edges = n;
}

int pl_walk_files(struct pl_walk *w, const char *path, struct pl_err *err)
{
    uint32_t e;
    int r = follow_root(w, path, err);

    if (r < 0)
        return r;
    if (w->n_edges > 1)
        qsort(w->edges, w->n_edges, sizeof(*w->edges), compare_edges);
    e = w->n_edges;
    for (uint32_t at = w->n_commits; r >= 0 && at-- > 0;) {
        while (e > 0 && w->edges[e - 1].to >= at)
            e--;
        sort_paths(&w->commits[at]);
        if (at <= w->root && w->commits[at].n_paths > 0)
            r = go_up(w, at, e, err);
    }
    e = 0;
    for (uint32_t at = w->root + 1; r >= 0 && at < w->n_commits; at++) {
        while (e < w->n_edges && w->edges[e].to < at)
            e++;
        r = has_sources(w, at, e) ? go_down(w, at, e, err) : 0;
        sort_paths(&w->commits[at]);
    }
    drop_unused(w);
    return r;
}
