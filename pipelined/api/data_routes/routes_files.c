/* Files of a commit: their bytes, and lists of them. Defines the routes for putting one file. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/data_routes/commit_view.h"
#include "pipelined/api/data_routes/gone_lookup.h"
#include "pipelined/api/data_routes/upload_request.h"
#include "pipelined/api/transfer/download.h"
#include "pipelined/api/transfer/media_type.h"
#include "pipelined/api/transfer/tree_listing.h"
#include "storage/base/clock.h"
#include "storage/tree/content_id.h"

#include <stdio.h>

const char *pl_api_kind_name(uint8_t kind)
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

/* Returns 1 if a directory of this name has entries, else 0. */
static int is_directory(const struct pl_node_source *source, const struct pl_hash *root, const char *path, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    char below[PL_PATH_MAX_BYTES + 2];
    int len = snprintf(below, sizeof below, "%s/", path);
    struct pl_tree_item item;
    int r = pl_tree_cursor_create(source, root, below, (size_t)len, &c, err);

    return r < 0 ? r : pl_tree_cursor_next(c, &item, err);
}

/* Finds the file of the request's path; the error says whether the path is a directory or missing. */
static int find_file(struct pl_api *a, const struct pl_http_request *req, struct pl_commit_view *v, struct pl_entry *ret,
                     struct pl_err *err)
{
    char path[PL_PATH_MAX_BYTES + 1];
    size_t len;
    int r = pl_path_canonical(pl_http_param(req, "path"), path, err);

    r = r < 0 ? r : pl_commit_view_init(a, req, pl_http_param(req, "ref"), v, err);
    if (r < 0)
        return r;
    len = strlen(path);
    r = len ? pl_tree_get(&v->source, &v->commit.root, path, len, ret, err) : PL_ENOTFOUND;
    if (r == 0)
        return ret->kind == PL_KIND_DIR ? pl_err_set(err, PL_EINVAL, "/%s is an empty folder: give the path of a file", path) : 0;
    if (r != PL_ENOTFOUND)
        return r;
    r = len ? is_directory(&v->source, &v->commit.root, path, err) : 1;
    if (r < 0)
        return r;
    if (r == 0) {
        r = pl_err_set(err, PL_ENOTFOUND, "commit %.8s of %s has no /%s", v->commit.run, pl_http_param(req, "repo"), path);
        return pl_gone_file(a, req, v, path, r, err);
    }
    pl_err_set(err, PL_EINVAL, "/%s is a directory", path);
    return pl_err_hint(err, PL_EINVAL, "List it, or get it with -r.");
}

static void drop_open(void *owner)
{
    pl_open_commit_unref(owner);
}

static void get_file(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(pl_commit_view_finish) struct pl_commit_view v = {0};
    struct pl_download_from from = {0};
    struct pl_entry entry;
    struct pl_err err = {0};

    if (find_file(a, req, &v, &entry, &err) < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    /* the bytes of a symbolic link are its target */
    pl_http_reply_header(req, "X-Pipelined-Kind", pl_api_kind_name(entry.kind));
    /* A browser that is sent here saves the file, and runs nothing of it. The page shows pictures, sound and films as
     * elements of its own, which ask for these types and ignore that it is an attachment. */
    pl_http_reply_header(req, "Content-Disposition", "attachment");
    pl_http_reply_header(req, "Content-Security-Policy", "sandbox; default-src 'none'");
    if (v.open)
        from = (struct pl_download_from){pl_open_commit_reader(v.open), pl_open_commit_ref(v.open), drop_open};
    else
        from.reader = pl_store_chunk_reader(v.store);
    pl_download_reply(req, &from, &entry,
                      entry.kind == PL_KIND_LINK ? PL_MEDIA_TYPE_BYTES : pl_media_type(pl_http_param(req, "path")));
}

/* ---- list ---- */

#define FIND_MS 500 /* longest search for one page of `find` */

/* Reads the argument `find` in lower case; "" if it is not given. `ret` has PL_SEGMENT_MAX_BYTES + 1 bytes. */
static int read_find(const struct pl_http_request *req, char *ret, struct pl_err *err)
{
    const char *text = pl_http_query(req, "find");
    const size_t n = text ? strlen(text) : 0;

    if (n > PL_SEGMENT_MAX_BYTES || (n && strchr(text, '/')))
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL, "find takes a part of one name, at most %d bytes without \"/\"",
                                       PL_SEGMENT_MAX_BYTES),
                            "find");
    if (n && (pl_http_query(req, "glob") || pl_http_query_flag(req, "recursive")))
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "find looks below path: give neither glob nor recursive"), "find");
    for (size_t i = 0; i < n; i++)
        ret[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + ('a' - 'A')) : text[i];
    ret[n] = '\0';
    return 0;
}

static int add_item(void *self, const struct pl_tree_listing_item *item, struct pl_err *err)
{
    bool dir = item->entry.kind == PL_KIND_DIR;
    json_t *o = json_pack("{s:s, s:s, s:I, s:o}", "path", item->path, "kind", pl_api_kind_name(item->entry.kind), "size",
                          (json_int_t)(dir ? item->stats.bytes : item->entry.size), "id", content_json(&item->entry));

    if (dir && o)
        json_object_set_new(o, "files", json_integer((json_int_t)item->stats.files));
    return json_array_append_new(self, o) < 0 ? pl_err_nomem(err) : 0;
}

/* Lists one page of files and directories. */
static int list_files(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_glob_destroyp) struct pl_glob *glob = NULL;
    _cleanup_(json_decrefp) json_t *items = json_array();
    char path[PL_PATH_MAX_BYTES + 1], next[PL_PATH_MAX_BYTES + 2], find[PL_SEGMENT_MAX_BYTES + 1];
    unsigned looked = 0;
    const char *pattern = pl_http_query(req, "glob");
    _cleanup_(pl_commit_view_finish) struct pl_commit_view v = {0};
    struct pl_tree_listing l = {
        .source = &v.source, .base = path, .recursive = pl_http_query_flag(req, "recursive"), .item = add_item, .self = items};
    struct pl_api_page page;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_path_arg(req, "path", path, err);
    r = r < 0 ? r : read_find(req, find, err);
    r = r < 0 || !pattern ? r : pl_glob_compile(pattern, &glob, err);
    r = r < 0 ? r : pl_commit_view_init(a, req, pl_http_param(req, "ref"), &v, err);
    if (r < 0)
        return r;
    l.root = v.commit.root;
    l.glob = glob;
    l.after = page.after;
    l.limit = page.limit;
    if (*find) {
        l.find = find;
        l.until_ms = pl_clock_mono_ms() + FIND_MS;
    }
    r = pl_tree_listing_read(&l, next, &looked, err);
    if (r < 0)
        return pl_gone_file(a, req, &v, path, r, err);
    *ret = pl_api_list("files", TAKE_PTR(items), r > 0 ? next : NULL);
    json_object_set_new(*ret, "commit", json_string(v.commit.run));
    if (*find)
        json_object_set_new(*ret, "looked", json_integer(looked));
    return 0;
}

static const struct pl_api_route routes[] = {
    {"PUT", "/api/v1/repos/{project}/{repo}/branches/{branch}/files/{path...}", .raw = pl_upload_file_to_branch,
     .body = PL_BODY_STREAM, .verb = PL_VERB_WRITE,
     .summary = "Puts one file onto the branch's head and commits; in a repo with commit_window, and without base, adds it to "
                "the branch's open commit that collects changes during commit_window.",
     .query = "base message author exec:boolean", .request = "application/octet-stream", .reply = "Pushed"},
    {"GET", "/api/v1/repos/{project}/{repo}/refs/{ref}/files/{path...}", .raw = get_file, .verb = PL_VERB_READ,
     .summary =
         "Returns the bytes of a file, or the range that Range asks for; for a symbolic link, its target. Pictures, sound, films "
         "and PDF have their own media type, all else application/octet-stream; always as sandboxed attachment.",
     .reply = "application/octet-stream"},
    {"GET", "/api/v1/repos/{project}/{repo}/refs/{ref}/list", list_files, .costly = true, .verb = PL_VERB_READ,
     .summary = "Lists one level below path, everything below it (recursive), the paths that a glob over whole paths matches, or "
                "what below path has a text in its name (find; upper and lower case are equal). A page of find ends after "
                "half a second, even if it is empty: `looked` counts the entries that it looked at, and `next` goes on.",
     .query = "path glob find recursive:boolean after limit:integer", .reply = "Files"},
};
static const struct pl_api_schema schemas[] = {
    {"File", "path:string kind:string size:integer id:string files:integer?"},
    {"Files", "files:File[] commit:string looked:integer? next:string?"},
};
PL_API_TABLE(files, routes, schemas);
