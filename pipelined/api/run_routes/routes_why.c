/* Provenance: from a path of a commit to the datum that wrote it, the datum's inputs, their commits, and so
 * on back to what was pushed. */
#include "pipelined/api/run_routes/job_images.h"
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/plan/datum_table.h"
#include "pipelined/plan/enum_key.h"
#include "pipelined/text/glob.h"
#include "pipelined/text/json_text.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

#define NODES_MAX 500 /* largest number of nodes in one reply; the origin of further nodes is left out */
#define DEPTH_MAX 64
#define FILES_MAX 20 /* largest number of files of an input folder whose origin is reported */
/* Largest number of entries of an input folder that are compared with the stage's file patterns. */
#define VISITS_MAX 100000

/* State of one request. The request holds no database reader while it reads trees. */
struct why {
    struct pl_api *api;
    const struct pl_http_request *req;
    unsigned nodes;
};

struct place {
    const char *project, *repo;
    struct pl_commit_row commit;
    struct pl_store *store;
    struct pl_node_source source;
};

static int explain(struct why *w, const struct place *at, const char *path, unsigned depth, json_t **ret, struct pl_err *err);

static int is_wanted(const struct why *w, struct pl_err *err)
{
    return pl_http_request_gone(w->req) ? pl_err_set(err, PL_ECANCELED, "the client has disconnected") : 0;
}

static int open_place(struct why *w, const char *project, const char *repo, const char *commit, struct place *ret,
                      struct pl_err *err)
{
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->api->config.db);

        r = pl_db_commit_named(rd.conn, project, repo, commit, &ret->commit, err);
    }
    r = r < 0 ? r : pl_project_stores_get(w->api->config.stores, project, &ret->store, err);
    ret->project = project;
    ret->repo = repo;
    ret->source = (struct pl_node_source){ret->store, pl_store_node_get};
    return r;
}

/* ---- the datum of an output path ---- */

/* Looks up `key` in a tree whose values are byte strings (rows), and appends the value to `out`. Returns 1,
 * or 0 if the tree has no such key. */
static int row_at(const struct place *at, const struct pl_hash *root, const void *key, size_t len, struct pl_buf *out,
                  struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    int r = pl_tree_cursor_create(&at->source, root, NULL, 0, &c, err);

    r = r < 0 ? r : pl_tree_cursor_get(c, key, len, &item, err);
    if (r <= 0)
        return r;
    r = pl_buf_add(out, item.entry.row, item.entry.size, err);
    return r < 0 ? r : 1;
}

/* ---- inputs ---- */

/* The files of a folder that a datum has read. */
struct folder {
    char prefix[PL_PATH_MAX_BYTES + 2]; /* the folder's path with its slash, or "" */
    size_t prefix_len;
    struct pl_glob_set *set; /* NULL = all files */
    uint64_t files;          /* number of files counted */
    bool more;               /* more files exist than were counted */
    json_t *inputs;
};

static void folder_finish(struct folder *f)
{
    pl_glob_set_destroy(f->set);
    json_decref(f->inputs);
}

static bool takes(const struct folder *f, const struct pl_tree_item *item)
{
    return item->entry.kind != PL_KIND_DIR &&
           (!f->set || pl_glob_set_takes(f->set, item->path + f->prefix_len, item->path_len - f->prefix_len));
}

/* Explains the first FILES_MAX files and finds out whether there are more. */
static int explain_files(struct why *w, const struct place *at, struct folder *f, unsigned depth, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    unsigned visits = 0;
    int r = pl_tree_cursor_create(&at->source, &at->commit.root, f->prefix, f->prefix_len, &c, err);

    while (r >= 0 && !f->more && (r = pl_tree_cursor_next(c, &item, err)) > 0) {
        json_t *child;

        f->more = visits++ == VISITS_MAX || (f->files == FILES_MAX && takes(f, &item));
        if (visits % 1024 == 0)
            r = is_wanted(w, err);
        if (r < 0 || f->more || !takes(f, &item))
            continue;
        f->files++;
        r = explain(w, at, item.path, depth, &child, err);
        if (r >= 0)
            json_array_append_new(f->inputs, child);
    }
    return PL_MIN(r, 0);
}

/* Adds the git commit with the same files, if the repo follows a git repository. */
static int add_git(struct why *w, const struct place *at, json_t *out, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->api->config.db);
    _cleanup_free_ char *git = NULL;
    int r =
        pl_sql_text(rd.conn, err, &git, "SELECT git FROM commit_ WHERE id = ? AND run = ?", "is", at->commit.id, at->commit.run);

    if (r == 0 && *git)
        json_object_set_new(out, "git", json_pack("{s:s}", "head", git));
    return r == PL_ENOTFOUND ? 0 : r;
}

/* Explains a folder: the first FILES_MAX of its files. Without file patterns, the total number of files comes
 * from the tree. */
static int explain_folder(struct why *w, const struct place *at, const char *path, const json_t *leaf, unsigned depth,
                          json_t **ret, struct pl_err *err)
{
    _cleanup_(folder_finish) struct folder f = {.inputs = json_array()};
    struct pl_tree_stats stats;
    int r = pl_job_input_files(leaf, &f.set, err);

    f.prefix_len = (size_t)snprintf(f.prefix, sizeof f.prefix, "%s%s", path, *path ? "/" : "");
    r = r < 0 ? r : explain_files(w, at, &f, depth, err);
    if (r == 0 && f.more && !f.set) {
        r = pl_tree_stats_get(&at->source, &at->commit.root, f.prefix, f.prefix_len, &stats, err);
        f.files = stats.files;
        f.more = false;
    }
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s, s:s, s:s, s:I, s:O}", "project", at->project, "repo", at->repo, "path", f.prefix, "commit",
                     at->commit.run, "files", (json_int_t)f.files, "inputs", f.inputs);
    if (f.more)
        json_object_set_new(*ret, "more", json_true());
    r = add_git(w, at, *ret, err);
    if (r < 0)
        json_decref(TAKE_PTR(*ret));
    return r;
}

/* Explains one input of the datum. `in` is the job's {project, repo, branch, commit, name}. */
static int explain_input(struct why *w, const json_t *in, const json_t *leaf, const char *path, bool dir, unsigned depth,
                         json_t **ret, struct pl_err *err)
{
    const char *commit = json_string_value(json_object_get(in, "commit"));
    struct place at = {0};
    json_t *child = NULL;
    int r;

    if (json_object_get(leaf, "params")) {
        *ret = json_pack("{s:s, s:s, s:s}", "input", "params", "repo", "", "path", path);
        return 0;
    }
    if (!commit || !*commit)
        return 0;
    if (!pl_access_may_read(pl_http_context(w->req), json_string_value(json_object_get(in, "project")),
                            json_string_value(json_object_get(in, "repo")))) {
        *ret =
            json_pack("{s:O, s:s}", "input", json_object_get(in, "name"), "note", "it comes from a repo that you may not read");
        return 0;
    }
    r = open_place(w, json_string_value(json_object_get(in, "project")), json_string_value(json_object_get(in, "repo")), commit,
                   &at, err);
    if (r == PL_ENOTFOUND) {
        *ret = json_pack("{s:O, s:O, s:s, s:s}", "project", json_object_get(in, "project"), "repo", json_object_get(in, "repo"),
                         "path", path, "note", "the commit has been deleted");
        return 0;
    }
    r = r < 0 ? r : dir ? explain_folder(w, &at, path, leaf, depth, &child, err) : explain(w, &at, path, depth, &child, err);
    if (r < 0)
        return r;
    json_object_set(child, "input", json_object_get(in, "name"));
    *ret = child;
    return 0;
}

/* ---- one node ---- */

struct maker {
    json_t *inputs, *spec, *git, *origin;
};

static void maker_finish(struct maker *m)
{
    json_decref(m->inputs);
    json_decref(m->spec);
    json_decref(m->git);
    json_decref(m->origin);
}

static int find_maker(struct why *w, const struct place *at, struct maker *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->api->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r =
        pl_sql_query(rd.conn, err, &rows,
                     "SELECT j.inputs, s.spec, s.git, coalesce(v.origin, '{}') FROM job j LEFT JOIN stage s ON s.id = j.version"
                     " LEFT JOIN pipeline_version v ON v.pipeline = s.pipeline AND v.version = s.version"
                     " WHERE j.run = ? AND j.project = ? AND j.stage = ?",
                     "sss", at->commit.run, at->project, at->repo);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r;
    ret->inputs = pl_col_json(&rows, 0);
    ret->spec = pl_col_json(&rows, 1);
    ret->git = pl_col_json(&rows, 2);
    ret->origin = pl_col_json(&rows, 3);
    return ret->inputs && ret->spec && ret->git && ret->origin ? 1 : pl_err_nomem(err);
}

/* Adds the image that the datum ran in. `run` is the run that computed the datum; it may be earlier than the
 * run of the commit. */
static int add_image(struct why *w, const struct place *at, const char *run, const struct pl_buf *key, json_t *out,
                     struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->api->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *inputs = NULL;
    _cleanup_free_ char *image = NULL;
    struct pl_hash datum;
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT id, inputs FROM job WHERE run = ? AND project = ? AND stage = ?", "sss",
                         run, at->project, at->repo);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r;
    inputs = pl_col_json(&rows, 1);
    pl_job_datum_id(key->data, key->len, inputs, &datum);
    r = pl_job_image_of(rd.conn, pl_col_int(&rows, 0), &datum, &image, err);
    if (r == 0 && image)
        json_object_set_new(out, "image_id", json_string(image));
    return r;
}

/* Adds the origin of each input of the datum. */
static int add_inputs(struct why *w, const struct maker *m, const struct pl_buf *key, unsigned depth, json_t *out,
                      struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(key->data, key->len);
    json_t *list = json_array(), *child;
    char path[PL_PATH_MAX_BYTES + 1];
    struct pl_enum_match match;

    json_object_set_new(out, "inputs", list);
    while (pl_enum_key_next(&c, &match)) {
        int r;

        child = NULL;
        snprintf(path, sizeof path, "%.*s", (int)match.path_len, match.path);
        r = explain_input(w, json_array_get(m->inputs, match.leaf), pl_job_input_leaf(m->spec, match.leaf), path, match.dir,
                          depth + 1, &child, err);
        if (r < 0)
            return r;
        if (child)
            json_array_append_new(list, child);
    }
    return 0;
}

/* Adds the datum that wrote the path: its stage, run, key and code, and its inputs. */
static int add_datum(struct why *w, const struct place *at, const char *path, unsigned depth, json_t *out, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf key = {0}, bytes = {0};
    _cleanup_(maker_finish) struct maker m = {0};
    char run[PL_ID_HEX + 1];
    struct pl_datum_row row;
    int r = row_at(at, &at->commit.owner, path, strlen(path), &key, err);

    if (r <= 0)
        return r;
    r = row_at(at, &at->commit.table, key.data, key.len, &bytes, err);
    r = r > 0 ? pl_datum_row_decode(bytes.data, bytes.len, &row, err) : r < 0 ? r : PL_ECORRUPT;
    if (r < 0)
        return r;
    pl_hex_encode(row.run, sizeof row.run, run);
    json_object_set_new(out, "stage", json_string(at->repo));
    json_object_set_new(out, "run", json_string(run));
    json_object_set_new(out, "reused", json_boolean(!pl_streq(run, at->commit.run)));
    json_object_set_new(out, "key", pl_api_hash_json(&row.key));
    json_object_set_new(out, "code", pl_api_hash_json(&at->commit.code));
    r = add_image(w, at, run, &key, out, err);
    r = r < 0 ? r : find_maker(w, at, &m, err);
    if (r <= 0)
        return r;
    if (json_object_size(m.git))
        json_object_set(out, "git", m.git);
    if (json_object_get(m.origin, "source"))
        json_object_set_new(out, "origin", pl_api_origin_json(m.origin));
    return depth < DEPTH_MAX ? add_inputs(w, &m, &key, depth, out, err) : 0;
}

/* Explains one path: its size and commit, and the datum that wrote it. */
static int explain(struct why *w, const struct place *at, const char *path, unsigned depth, json_t **ret, struct pl_err *err)
{
    char shown[PL_PATH_MAX_BYTES + 2];
    struct pl_entry entry;
    json_t *out;
    int r = is_wanted(w, err);

    r = r < 0 ? r : pl_tree_get(&at->source, &at->commit.root, path, strlen(path), &entry, err);
    if (r < 0)
        return r;
    snprintf(shown, sizeof shown, "/%s", path);
    out = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "project", at->project, "repo", at->repo, "path", shown, "commit",
                    at->commit.run, "size", (json_int_t)entry.size, "created_us", (json_int_t)at->commit.created_us);
    if (++w->nodes > NODES_MAX)
        json_object_set_new(out, "note",
                            json_string("its origin is left out because the reply is large: ask for this path alone"));
    else if (!pl_hash_is_zero(&at->commit.owner))
        r = add_datum(w, at, path, depth, out, err);
    else
        r = add_git(w, at, out, err);
    if (r < 0) {
        json_decref(out);
        return r;
    }
    *ret = out;
    return 0;
}

static int get_why(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct why w = {.api = a, .req = req};
    char path[PL_PATH_MAX_BYTES + 1];
    struct place at = {0};
    int r = pl_path_canonical(pl_http_param(req, "path"), path, err);

    r = r < 0 ? r
              : open_place(&w, pl_http_param(req, "project"), pl_http_param(req, "repo"), pl_http_param(req, "ref"), &at, err);
    if (r == 0 && !*path)
        return explain_folder(&w, &at, path, NULL, 0, ret, err);
    r = r < 0 ? r : explain(&w, &at, path, 0, ret, err);
    if (r == PL_ENOTFOUND && explain_folder(&w, &at, path, NULL, 0, ret, NULL) == 0) {
        if (json_integer_value(json_object_get(*ret, "files")) > 0)
            return 0;
        json_decref(*ret);
        *ret = NULL; /* the caller releases `*ret` also after an error */
        return r;
    }
    return r;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/why/{project}/{repo}/{ref}/{path...}",
     .json = get_why,
     .verb = PL_VERB_READ,
     .summary = "Returns where a file comes from: its datum, the datum's inputs, and so on back to what was pushed.",
     .reply = "WhyNode"},
};

static const struct pl_api_schema schemas[] = {
    {"WhyNode", "project:string? repo:string? path:string? commit:string? size:integer? created_us:integer? stage:string? "
                "run:string? reused:boolean?"
                " key:string? code:string? image_id:string? git:object? origin:GitOrigin? files:integer? more:boolean? "
                "input:string? note:string? "
                "inputs:WhyNode[]?"},
};

PL_API_TABLE(why, routes, schemas);
