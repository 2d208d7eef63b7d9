/* Entries of a tree by its root hash, as a stream of operations that is produced while the client reads it;
 * workers and checkouts use it. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/text/glob.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_ops.h"

#define FILES_MAX  1000  /* largest number of globs in one request */
#define NAMES_MAX  65536 /* largest number of files that a request's body may name */
#define NAMES_BODY ((uint64_t)16 << 20)
#define PULL_BYTES ((size_t)48 << 10)
/* limit of search steps in one call of `pull`, so that the thread can serve other streams */
#define PULL_STEPS 5000000u

struct entries {
    struct pl_node_source source;
    struct pl_tree_cursor *cursor;
    struct pl_glob_set *files; /* NULL = all files */
    struct pl_tree_ops_writer writer;
    size_t cut;     /* length of the prefix of each path that the reply omits, in bytes */
    uint64_t steps; /* search steps made in the current call of `pull` */
    bool single, begun;
};

static void entries_free(void *self)
{
    struct entries *e = self;

    if (!e)
        return;
    pl_tree_cursor_destroy(e->cursor);
    pl_glob_set_destroy(e->files);
    pl_tree_ops_writer_finish(&e->writer);
    free(e);
}

/* Returns true if the entry belongs to the reply. An empty directory belongs to it only if the request
 * selects no files. */
static bool takes(const struct entries *e, const struct pl_tree_item *item)
{
    return !e->files ||
           (item->entry.kind != PL_KIND_DIR && pl_glob_set_takes(e->files, item->path + e->cut, item->path_len - e->cut));
}

/* Writes the next entry. Returns 1, or 0 at the end. */
static int pull_one(struct entries *e, struct pl_err *err)
{
    struct pl_tree_item item;
    int r = e->single && e->begun ? 0 : pl_tree_cursor_next(e->cursor, &item, err);

    e->begun = true;
    e->steps += r > 0 && e->files ? pl_glob_set_cost(e->files, item.path_len) : 1;
    if (r <= 0 || !takes(e, &item))
        return r;
    r = pl_tree_ops_writer_put(&e->writer, item.path + e->cut, item.path_len - e->cut, &item.entry, err);
    return r < 0 ? r : 1;
}

static int entries_pull(void *self, struct pl_buf *out, struct pl_err *err)
{
    struct entries *e = self;
    int r = e->begun ? 0 : pl_tree_ops_writer_init(&e->writer, out, err);

    if (r < 0)
        return r;
    e->writer.out = out;
    e->steps = 0;
    do
        r = pull_one(e, err);
    while (r > 0 && out->len < PULL_BYTES && e->steps < PULL_STEPS);
    if (r != 0)
        return r < 0 ? r : PL_PULL_MORE;
    r = pl_tree_ops_writer_end(&e->writer, err);
    return r < 0 ? r : PL_PULL_END;
}

static int read_files(struct entries *e, const struct pl_http_request *req, struct pl_err *err)
{
    const char *patterns[FILES_MAX];
    const char *text;
    size_t n = 0;
    int r;

    while ((text = pl_http_query_at(req, "files", n)) != NULL) {
        if (n == FILES_MAX)
            return pl_err_field(err, pl_err_set(err, PL_ELIMIT, "more than %d globs: use fewer or wider ones", FILES_MAX),
                                "files");
        patterns[n++] = text;
    }
    r = n ? pl_glob_set_compile(patterns, n, &e->files, err) : 0;
    return r < 0 ? pl_err_field(err, r, "files") : 0;
}

/* Positions the cursor before the first entry of the reply. `path` is a directory, a file, or "" for
 * everything. */
static int place(struct entries *e, const struct pl_hash *root, char path[PL_PATH_MAX_BYTES + 2], struct pl_err *err)
{
    struct pl_tree_item item;
    size_t len = strlen(path);
    const char *slash = strrchr(path, '/');
    int r = pl_tree_cursor_create(&e->source, root, NULL, 0, &e->cursor, err);

    if (r < 0 || len == 0)
        return r < 0 ? r : pl_tree_cursor_seek(e->cursor, "", 0, err);
    r = pl_tree_cursor_get(e->cursor, path, len, &item, err);
    if (r < 0)
        return r;
    e->single = r > 0 && item.entry.kind != PL_KIND_DIR;
    if (e->single) {
        e->cut = slash ? (size_t)(slash + 1 - path) : 0;
        return pl_tree_cursor_seek(e->cursor, path, len, err);
    }
    e->cut = len + 1;
    memcpy(path + len, "/", 2);
    e->cursor = pl_tree_cursor_destroy(e->cursor);
    /* the tree has no entry for the path itself; the path is a directory if a file is below it */
    if (r == 0) {
        r = pl_tree_cursor_create(&e->source, root, path, len + 1, &e->cursor, err);
        r = r < 0 ? r : pl_tree_cursor_next(e->cursor, &item, err);
        if (r <= 0)
            return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "the tree has no /%.*s", (int)len, path);
        return pl_tree_cursor_seek(e->cursor, path, len + 1, err);
    }
    return pl_tree_cursor_create(&e->source, root, path, len + 1, &e->cursor, err);
}

/* Reads the root hash of the request and opens its store. */
static int tree_root(struct pl_api *a, struct pl_http_request *req, struct entries *e, struct pl_hash *ret, struct pl_err *err)
{
    struct pl_store *store;
    int r = pl_hash_parse(pl_http_param(req, "root"), ret, err);

    if (r < 0)
        return pl_err_field(err, r, "root");
    r = pl_api_store(a, req, &store, err);
    if (r < 0)
        return r;
    /* the client named this root, so a missing one is not damage */
    if (!pl_hash_is_zero(ret) && pl_store_locate(store, ret, &(struct pl_location){0}, NULL) < 0)
        return pl_err_set(err, PL_ENOTFOUND, "tree %.12s is not in the store of project %s", pl_http_param(req, "root"),
                          pl_store_project(store));
    e->source = (struct pl_node_source){store, pl_store_node_get};
    return 0;
}

static int entries_open(struct pl_api *a, struct pl_http_request *req, struct entries *e, struct pl_err *err)
{
    char path[PL_PATH_MAX_BYTES + 2];
    struct pl_hash root;
    int r = pl_api_path_arg(req, "path", path, err);

    r = r < 0 ? r : read_files(e, req, err);
    r = r < 0 ? r : tree_root(a, req, e, &root, err);
    return r < 0 ? r : place(e, &root, path, err);
}

static void get_entries(struct pl_api *a, struct pl_http_request *req)
{
    struct pl_http_stream_options options = {.content_type = PL_TREE_OPS_MEDIA_TYPE, .length = PL_HTTP_LENGTH_UNKNOWN};
    struct entries *e = calloc(1, sizeof *e);
    struct pl_err err = {0};
    int r = e ? entries_open(a, req, e, &err) : pl_err_nomem(&err);

    if (r < 0) {
        entries_free(e);
        pl_http_reply_error(req, &err);
        return;
    }
    pl_http_stream_close(pl_http_reply_stream(req, &options, &(struct pl_http_stream_ops){e, entries_pull, entries_free}));
}

/* ---- files named in the body ---- */

struct name {
    const char *text;
    size_t len;
};

static int name_cmp(const void *a, const void *b)
{
    const struct name *x = a, *y = b;

    return pl_key_cmp(x->text, x->len, y->text, y->len);
}

/* Reads the lines of the body, sorted in the tree's order, without duplicates. The caller frees `*ret`. */
static int read_names(const struct pl_http_request *req, struct name **ret, size_t *ret_n, struct pl_err *err)
{
    const struct pl_buf *body = pl_http_body(req);
    const char *at = (const char *)body->data, *end = at + body->len;
    _cleanup_free_ struct name *names = calloc(NAMES_MAX, sizeof *names);
    size_t n = 0, kept = 0;

    if (!names)
        return pl_err_nomem(err);
    while (at < end) {
        const char *line = at, *stop = memchr(at, '\n', (size_t)(end - at));
        int r;

        at = stop ? stop + 1 : end;
        if (n == NAMES_MAX)
            return pl_err_set(err, PL_ELIMIT, "more than %d names: use several requests", NAMES_MAX);
        names[n] = (struct name){line, (size_t)((stop ? stop : end) - line)};
        r = pl_path_check(names[n].text, names[n].len, err);
        if (r < 0)
            return pl_err_wrap(err, r, "line %zu", n + 1);
        n++;
    }
    qsort(names, n, sizeof *names, name_cmp);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || name_cmp(&names[i], &names[kept - 1]) != 0)
            names[kept++] = names[i];
    *ret = TAKE_PTR(names);
    *ret_n = kept;
    return 0;
}

/* Adds the file `name` of one folder to the reply. The first `below` bytes of `path` are the folder's path
 * with its final slash; the function writes the name after them. */
static int add_named(struct entries *e, char path[2 * PL_PATH_MAX_BYTES + 2], size_t below, const struct name *name,
                     struct pl_err *err)
{
    struct pl_tree_item item;
    int r;

    memcpy(path + below, name->text, name->len);
    r = pl_tree_cursor_get(e->cursor, path, below + name->len, &item, err);
    if (r == 0 || (r > 0 && item.entry.kind == PL_KIND_DIR))
        return pl_err_set(err, PL_ENOTFOUND, "the tree has no file /%.*s", (int)(below + name->len), path);
    return r < 0 ? r : pl_tree_ops_writer_put(&e->writer, name->text, name->len, &item.entry, err);
}

static int named_entries(struct pl_api *a, struct pl_http_request *req, struct entries *e, struct pl_buf *out, struct pl_err *err)
{
    char path[2 * PL_PATH_MAX_BYTES + 2];
    _cleanup_free_ struct name *names = NULL;
    size_t n = 0, below;
    struct pl_hash root;
    int r = tree_root(a, req, e, &root, err);

    r = r < 0 ? r : pl_api_path_arg(req, "path", path, err);
    r = r < 0 ? r : read_names(req, &names, &n, err);
    r = r < 0 ? r : pl_tree_cursor_create(&e->source, &root, NULL, 0, &e->cursor, err);
    r = r < 0 ? r : pl_tree_ops_writer_init(&e->writer, out, err);
    if (r < 0)
        return r;
    below = strlen(path);
    if (below)
        path[below++] = '/';
    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_named(e, path, below, &names[i], err);
    return r < 0 ? r : pl_tree_ops_writer_end(&e->writer, err);
}

static void post_entries(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct entries *e = calloc(1, sizeof *e);
    struct pl_err err = {0};
    int r = e ? named_entries(a, req, e, &out, &err) : pl_err_nomem(&err);

    entries_free(e);
    if (r < 0)
        pl_http_reply_error(req, &err);
    else
        pl_http_reply_buf(req, 200, PL_TREE_OPS_MEDIA_TYPE, &out);
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/trees/{project}/{root}/entries", .raw = get_entries, .costly = true, .verb = PL_VERB_FETCH,
     .summary = "Returns the entries below path of the tree, relative to path, that match files (globs); if path is a file, its "
                "entry by its last segment.",
     .query = "path files*", .reply = PL_TREE_OPS_MEDIA_TYPE},
    {"POST", "/api/v1/trees/{project}/{root}/entries", .raw = post_entries, .costly = true, .body = PL_BODY_BYTES,
     .body_max = NAMES_BODY, .verb = PL_VERB_FETCH,
     .summary = "Returns the entries of the files below path that the body names, one per line.", .query = "path",
     .request = "application/octet-stream", .reply = PL_TREE_OPS_MEDIA_TYPE},
};
const struct pl_api_table pl_api_routes_trees = {.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)};
