/* Files of a commit: their bytes, their lists, what differs between two commits; and one file put by itself. */
#include "api_internal.h"

#include "download.h"
#include "listing.h"
#include "push.h"
#include "spool.h"
#include "storage/dataset/ingest.h"
#include "storage/pack/pack_session.h"
#include "storage/tree/content_id.h"
#include "storage/tree/tree_diff.h"

#include <stdio.h>

static const char *kind_name(uint8_t kind)
{
    static const char *const names[] = {
        [PL_KIND_FILE] = "file", [PL_KIND_EXEC] = "exec", [PL_KIND_LINK] = "link", [PL_KIND_DIR] = "dir"};

    return kind < PL_ARRAY_SIZE(names) && names[kind] ? names[kind] : "";
}

static json_t *content_json(const struct pl_entry *entry)
{
    struct pl_hash id = {0};

    if (entry->kind == PL_KIND_DIR || pl_content_id_file(entry, &id, NULL) < 0)
        return json_string("");
    return pl_api_hash_json(&id);
}

/* ---- bytes ---- */

/* Whether there is a directory of this name. */
static int is_directory(const struct pl_node_source *source, const struct pl_hash *root, const char *path, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    char below[PL_PATH_MAX_BYTES + 2];
    int len = snprintf(below, sizeof below, "%s/", path);
    struct pl_tree_item item;
    int r = pl_tree_cursor_create(source, root, below, (size_t)len, &c, err);

    return r < 0 ? r : pl_tree_cursor_next(c, &item, err);
}

static int find_file(struct pl_api *a, const struct pl_http_request *req, struct pl_store **ret_store, struct pl_entry *ret,
                     struct pl_err *err)
{
    char path[PL_PATH_MAX_BYTES + 1];
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_commit_row commit;
    size_t len;
    int r = pl_path_canonical(pl_http_param(req, "path"), path, err);

    r = r < 0 ? r : pl_api_commit(a, req, &commit, err);
    r = r < 0 ? r : pl_api_store(a, req, ret_store, err);
    if (r < 0)
        return r;
    source.self = *ret_store;
    len = strlen(path);
    r = len ? pl_tree_get(&source, &commit.root, path, len, ret, err) : PL_ENOTFOUND;
    if (r == 0)
        return ret->kind == PL_KIND_DIR ? pl_err_set(err, PL_EINVAL, "/%s is an empty directory", path) : 0;
    if (r != PL_ENOTFOUND)
        return r;
    r = len ? is_directory(&source, &commit.root, path, err) : 1;
    if (r < 0)
        return r;
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "commit %.8s of %s has no /%s", commit.run, pl_http_param(req, "repo"), path);
    pl_err_set(err, PL_EINVAL, "/%s is a directory", path);
    return pl_err_hint(err, PL_EINVAL, "List it, or get it with -r.");
}

static void get_file(struct pl_api *a, struct pl_http_request *req)
{
    struct pl_store *store;
    struct pl_entry entry;
    struct pl_err err = {0};

    if (find_file(a, req, &store, &entry, &err) < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    pl_http_reply_header(req, "X-Pipelined-Kind", kind_name(entry.kind)); /* the bytes of a link are its target */
    pl_download_reply(req, store, &entry);
}

/* ---- list ---- */

static int add_item(void *self, const struct pl_listing_item *item, struct pl_err *err)
{
    bool dir = item->entry.kind == PL_KIND_DIR;
    json_t *o = json_pack("{s:s, s:s, s:I, s:o}", "path", item->path, "kind", kind_name(item->entry.kind), "size",
                          (json_int_t)(dir ? item->stats.bytes : item->entry.size), "id", content_json(&item->entry));

    if (dir && o)
        json_object_set_new(o, "files", json_integer((json_int_t)item->stats.files));
    return json_array_append_new(self, o) < 0 ? pl_err_nomem(err) : 0;
}

static int list_files(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_glob_destroyp) struct pl_glob *glob = NULL;
    _cleanup_(json_decrefp) json_t *items = json_array();
    char path[PL_PATH_MAX_BYTES + 1], next[PL_PATH_MAX_BYTES + 2];
    const char *pattern = pl_http_query(req, "glob");
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_listing l = {
        .source = &source, .base = path, .recursive = pl_http_query_flag(req, "recursive"), .item = add_item, .self = items};
    struct pl_commit_row commit;
    struct pl_api_page page;
    struct pl_store *store;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_path_arg(req, "path", path, err);
    r = r < 0 || !pattern ? r : pl_glob_compile(pattern, &glob, err);
    r = r < 0 ? r : pl_api_commit(a, req, &commit, err);
    r = r < 0 ? r : pl_api_store(a, req, &store, err);
    if (r < 0)
        return r;
    source.self = store;
    l.root = commit.root;
    l.glob = glob;
    l.after = page.after;
    l.limit = page.limit;
    r = pl_listing_read(&l, next, err);
    if (r < 0)
        return r;
    *ret = pl_api_list("files", TAKE_PTR(items), r > 0 ? next : NULL);
    json_object_set_new(*ret, "commit", json_string(commit.run));
    return 0;
}

/* ---- diff ---- */

struct diff {
    const struct pl_api_page *page;
    const char *path; /* a directory or a file: changes of it and below it */
    json_t *items;
    char last[PL_PATH_MAX_BYTES + 1];
};

static json_t *side_json(const struct pl_entry *entry)
{
    return json_pack("{s:s, s:I, s:o}", "kind", kind_name(entry->kind), "size", (json_int_t)entry->size, "id",
                     content_json(entry));
}

/* 1 when the page is full. */
static int add_change(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct diff *d = self;
    const char *what = !change->old_entry ? "added" : !change->new_entry ? "removed" : "changed";
    size_t len = strlen(d->path);
    json_t *o;

    if (len && change->path_len > len && change->path[len] != '/')
        return 0; /* "ab" beside "a" */
    if (d->page->after && pl_key_cmp(change->path, change->path_len, d->page->after, strlen(d->page->after)) <= 0)
        return 0;
    if (json_array_size(d->items) == d->page->limit)
        return 1;
    o = json_pack("{s:s, s:s}", "path", change->path, "change", what);
    if (o && change->old_entry)
        json_object_set_new(o, "old", side_json(change->old_entry));
    if (o && change->new_entry)
        json_object_set_new(o, "new", side_json(change->new_entry));
    snprintf(d->last, sizeof d->last, "%s", change->path);
    return json_array_append_new(d->items, o) < 0 ? pl_err_nomem(err) : 0;
}

/* Both commits; without `from` it is the parent of the other, or nothing. */
static int diff_commits(struct pl_api *a, const struct pl_http_request *req, struct pl_commit_row *ret_from,
                        struct pl_commit_row *ret_to, struct pl_err *err)
{
    const char *from = pl_http_query(req, "from"), *to = pl_http_query(req, "to");
    int r = pl_api_commit_at(a, req, to ? to : "", ret_to, err);

    if (r < 0)
        return pl_err_field(err, r, "to");
    *ret_from = (struct pl_commit_row){0};
    if (!from || !*from)
        from = ret_to->parent;
    r = *from ? pl_api_commit_at(a, req, from, ret_from, err) : 0;
    return r < 0 ? pl_err_field(err, r, "from") : 0;
}

static int diff_files(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *items = json_array();
    char path[PL_PATH_MAX_BYTES + 1];
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_commit_row from, to;
    struct pl_api_page page;
    struct diff d = {.page = &page, .path = path, .items = items};
    struct pl_store *store;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_path_arg(req, "path", path, err);
    r = r < 0 ? r : diff_commits(a, req, &from, &to, err);
    r = r < 0 ? r : pl_api_store(a, req, &store, err);
    if (r < 0)
        return r;
    source.self = store;
    r = pl_tree_diff(&source, &from.root, &to.root, path, strlen(path), add_change, &d, err);
    if (r < 0)
        return r;
    *ret = pl_api_list("changes", TAKE_PTR(items), r > 0 ? d.last : NULL);
    json_object_set_new(*ret, "from", json_string(from.run));
    json_object_set_new(*ret, "to", json_string(to.run));
    return 0;
}

/* ---- put ---- */

struct upload {
    struct pl_api *api;
    char path[PL_PATH_MAX_BYTES + 1];
    struct pl_spool spool;
};

static int upload_write(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct upload *u = self;

    return pl_spool_write(&u->spool, data, n, err);
}

/* The body's chunks become durable; `ret_ops` the one operation that puts it. */
static int upload_store(struct upload *u, const struct pl_http_request *req, struct pl_buf *ret_ops, uint64_t *ret_new_bytes,
                        struct pl_err *err)
{
    _cleanup_(pl_pack_session_closep) struct pl_pack_session *session = NULL;
    _cleanup_(pl_ops_writer_finish) struct pl_ops_writer writer = {0};
    struct pl_pack_session_stats stats;
    struct pl_pack_sink sink;
    struct pl_store *store;
    struct pl_entry entry;
    int r = pl_api_store(u->api, req, &store, err);

    if (r < 0)
        return r;
    sink = pl_store_sink(store);
    r = pl_pack_session_open(&sink, pl_store_project(store), &session, err);
    r = r < 0 ? r
              : pl_ingest_stream(session, pl_http_query_flag(req, "exec") ? PL_KIND_EXEC : PL_KIND_FILE, pl_spool_read, &u->spool,
                                 &entry, err);
    r = r < 0 ? r : pl_pack_session_finish(session, err);
    if (r < 0)
        return r;
    pl_pack_session_stats(session, &stats);
    *ret_new_bytes = stats.new_bytes;
    r = pl_ops_writer_init(&writer, ret_ops, err);
    r = r < 0 ? r : pl_ops_writer_put(&writer, u->path, strlen(u->path), &entry, err);
    return r < 0 ? r : pl_ops_writer_end(&writer, err);
}

static void upload_end(void *self, struct pl_http_request *req, const struct pl_err *failure)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct upload *u = self;
    struct pl_err err = {0};
    json_t *answer = NULL;
    uint64_t new_bytes = 0;
    int r = failure ? failure->code : upload_store(u, req, &ops, &new_bytes, &err);

    r = r < 0 ? r : pl_api_push(u->api, req, ops.data, ops.len, new_bytes, &answer, &err);
    pl_spool_finish(&u->spool);
    free(u);
    if (r < 0)
        pl_http_reply_error(req, failure ? failure : &err);
    else
        pl_http_reply_json(req, (unsigned)r, answer);
}

static int start_upload(struct pl_api *a, struct pl_http_request *req, struct upload **ret, struct pl_err *err)
{
    char path[PL_PATH_MAX_BYTES + 1];
    int r = pl_path_canonical(pl_http_param(req, "path"), path, err);

    if (r == 0 && !*path)
        r = pl_err_set(err, PL_EPATH, "the root is no file: give a path");
    r = r < 0 ? r : pl_api_may_push(a, req, err);
    if (r < 0)
        return r;
    *ret = calloc(1, sizeof **ret);
    if (!*ret)
        return pl_err_nomem(err);
    (*ret)->api = a;
    memcpy((*ret)->path, path, sizeof path);
    pl_spool_init(&(*ret)->spool, a->tmp_dir);
    return 0;
}

static void put_file(struct pl_api *a, struct pl_http_request *req)
{
    struct upload *u = NULL;
    struct pl_err err = {0};

    if (start_upload(a, req, &u, &err) < 0)
        pl_http_reply_error(req, &err);
    else
        pl_http_body_to(req, &(struct pl_http_sink){.self = u, .write = upload_write, .end = upload_end});
}

static const struct pl_api_route routes[] = {
    {"PUT", "/api/v1/repos/{project}/{repo}/branches/{branch}/files/{path...}", .raw = put_file, .body = PL_BODY_STREAM,
     .summary = "Puts one file onto the branch's head and commits.", .query = "base message author exec:boolean",
     .request = "application/octet-stream", .reply = "Pushed"},
    {"GET", "/api/v1/repos/{project}/{repo}/refs/{ref}/files/{path...}", .raw = get_file,
     .summary = "The bytes of a file, or of it what Range asks for; those of a link are its target.",
     .reply = "application/octet-stream"},
    {"GET", "/api/v1/repos/{project}/{repo}/refs/{ref}/list", list_files,
     .summary = "Lists one level below path, or all (recursive), or what a glob over whole paths matches.",
     .query = "path glob recursive:boolean after limit:integer", .reply = "Files"},
    {"GET", "/api/v1/repos/{project}/{repo}/diff", diff_files,
     .summary = "What changed below path from one commit to the other; without from, since the parent of to.",
     .query = "from to path after limit:integer", .reply = "Changes"},
};
static const struct pl_api_schema schemas[] = {
    {"File", "path:string kind:string size:integer id:string files:integer?"},
    {"Files", "files:File[] commit:string next:string?"},
    {"Side", "kind:string size:integer id:string"},
    {"Change", "path:string change:string old:Side? new:Side?"},
    {"Changes", "changes:Change[] from:string to:string next:string?"},
};
PL_API_TABLE(files, routes, schemas);
