/* Differences of two commits. A page may have ten thousand changes, so it is written as text directly,
 * without building JSON values. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/data_routes/commit_view.h"
#include "pipelined/api/data_routes/diff_totals.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/tree/content_id.h"
#include "storage/tree/tree_diff.h"

#include <stdio.h>

struct diff {
    const struct pl_api_page *page;
    const char *path; /* a directory or a file; only changes of it and below it are listed */
    size_t path_len, after_len;
    struct pl_buf out;
    struct pl_effort effort;
    size_t n;
    char last[PL_PATH_MAX_BYTES + 1];
};

/* Appends a path as a JSON string; paths are UTF-8 without control characters. */
static int add_path(struct pl_buf *out, const char *path, size_t len, struct pl_err *err)
{
    int r = pl_buf_reserve(out, 2 * len + 2, err);
    uint8_t *p = r == 0 ? out->data + out->len : NULL;

    if (r < 0)
        return r;
    *p++ = '"';
    for (size_t i = 0; i < len; i++) {
        if (path[i] == '"' || path[i] == '\\')
            *p++ = '\\';
        *p++ = (uint8_t)path[i];
    }
    *p++ = '"';
    out->len = (size_t)(p - out->data);
    return 0;
}

static int add_text(struct pl_buf *out, const char *text, struct pl_err *err)
{
    return pl_buf_add_str(out, text, err);
}

/* Appends ,"old":{"kind":"file","size":12,"id":"…"} for one side of a change. */
static int add_side(struct pl_buf *out, const char *name, const struct pl_entry *entry, struct pl_err *err)
{
    char text[192], hex[PL_HASH_HEX + 1] = "";
    struct pl_hash id;
    int n;

    if (entry->kind != PL_KIND_DIR && pl_content_id_file(entry, &id, NULL) == 0)
        pl_hash_hex(&id, hex);
    n = snprintf(text, sizeof text, ",\"%s\":{\"kind\":\"%s\",\"size\":%llu,\"id\":\"%s\"}", name, pl_api_kind_name(entry->kind),
                 (unsigned long long)entry->size, hex);
    return pl_buf_add(out, text, (size_t)n, err);
}

/* Adds one change; returns 1 when the page is full. */
static int add_change(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct diff *d = self;
    const char *what = !change->old_entry ? "added" : !change->new_entry ? "removed" : "changed";
    int r = pl_effort_add(&d->effort, 1, err);

    if (r < 0)
        return r;
    if (d->path_len && change->path_len > d->path_len && change->path[d->path_len] != '/')
        return 0; /* the path "ab" is not below the directory "a" */
    if (d->page->after && pl_key_cmp(change->path, change->path_len, d->page->after, d->after_len) <= 0)
        return 0;
    if (d->n == d->page->limit)
        return 1;
    r = add_text(&d->out, d->n++ ? ",{\"path\":" : "{\"path\":", err);
    r = r < 0 ? r : add_path(&d->out, change->path, change->path_len, err);
    r = r < 0 ? r : add_text(&d->out, ",\"change\":\"", err);
    r = r < 0 ? r : add_text(&d->out, what, err);
    r = r < 0 ? r : add_text(&d->out, "\"", err);
    r = r < 0 || !change->old_entry ? r : add_side(&d->out, "old", change->old_entry, err);
    r = r < 0 || !change->new_entry ? r : add_side(&d->out, "new", change->new_entry, err);
    memcpy(d->last, change->path, change->path_len + 1);
    return r < 0 ? r : add_text(&d->out, "}", err);
}

/* Opens views of both commits. If the request has no `from`, the parent of `to` is used; if `to` has no
 * parent, no view is opened for `from`. */
static int diff_commits(struct pl_api *a, const struct pl_http_request *req, struct pl_commit_view *from_view,
                        struct pl_commit_view *to_view, struct pl_err *err)
{
    const char *from = pl_http_query(req, "from"), *to = pl_http_query(req, "to");
    int r = pl_commit_view_init(a, req, to ? to : "", to_view, err);

    if (r < 0)
        return pl_err_field(err, r, "to");
    if (!from || !*from)
        from = to_view->commit.parent;
    r = *from ? pl_commit_view_init(a, req, from, from_view, err) : 0;
    return r < 0 ? pl_err_field(err, r, "from") : 0;
}

/* Reads a tree node through the view of either commit: if both commits are open, each has nodes that the
 * other commit's view cannot read. */
static int get_of_either(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_commit_view *const *views = self;
    int r = views[0]->source.get(views[0]->source.self, id, ret, err);

    /* the first view does not find the node: it may belong to the other commit, if that is open */
    if ((r != PL_ENOTFOUND && r != PL_ECORRUPT) || !views[1]->open)
        return r;
    pl_buf_clear(ret);
    return views[1]->source.get(views[1]->source.self, id, ret, err);
}

/* Ends the document; `more`: another page follows `last`. */
static int add_end(struct diff *d, const struct pl_commit_view *from, const struct pl_commit_view *to, bool more,
                   struct pl_err *err)
{
    int r = add_text(&d->out, "]", err);

    if (r == 0 && more) {
        r = add_text(&d->out, ",\"next\":", err);
        r = r < 0 ? r : add_path(&d->out, d->last, strlen(d->last), err);
    }
    return r < 0 ? r : pl_buf_addf(&d->out, err, ",\"from\":\"%s\",\"to\":\"%s\"}\n", from->commit.run, to->commit.run);
}

static int write_diff(struct pl_api *a, const struct pl_http_request *req, struct pl_buf *ret, struct pl_err *err)
{
    _cleanup_(pl_commit_view_finish) struct pl_commit_view from = {0}, to = {0};
    char path[PL_PATH_MAX_BYTES + 1];
    const struct pl_commit_view *views[] = {&to, &from};
    struct pl_node_source source = {(void *)views, get_of_either};
    struct pl_api_page page;
    struct diff d = {.page = &page, .path = path, .effort = pl_request_effort(req), .out = {.max = (size_t)64 << 20}};
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_path_arg(req, "path", path, err);
    r = r < 0 ? r : diff_commits(a, req, &from, &to, err);
    r = r < 0 ? r : add_text(&d.out, "{\"changes\":[", err);
    if (r < 0)
        return r;
    d.path_len = strlen(path);
    d.after_len = page.after ? strlen(page.after) : 0;
    r = pl_tree_diff(&source, &from.commit.root, &to.commit.root, path, d.path_len, add_change, &d, err);
    r = r < 0 ? r : add_end(&d, &from, &to, r > 0, err);
    *ret = d.out;
    return r;
}

static void diff_files(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_err err = {0};

    if (write_diff(a, req, &out, &err) < 0)
        pl_http_reply_error(req, &err);
    else
        pl_http_reply_buf(req, 200, "application/json", &out);
}

/* ---- totals ---- */

#define TOTALS_MS 2000 /* longest count */

static int totals_json(const struct pl_diff_totals *t, const struct pl_commit_view *from, const struct pl_commit_view *to,
                       json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *folders = json_array();
    json_t *out;
    int r = folders ? 0 : pl_err_nomem(err);

    for (size_t i = 0; r == 0 && i < t->n_folders; i++) {
        const struct pl_diff_folder *f = &t->folders[i];

        if (f->counts.added + f->counts.changed + f->counts.removed)
            r = pl_json_add(folders, json_pack("{s:s, s:o}", "name", f->name, "counts", pl_diff_counts_json(&f->counts)), err);
    }
    if (r < 0)
        return r;
    out = json_pack("{s:s, s:s, s:o, s:O, s:b, s:b}", "from", from->commit.run, "to", to->commit.run, "counts",
                    pl_diff_counts_json(&t->all), "folders", folders, "more", (int)t->more, "more_folders", (int)t->more_folders);
    *ret = out;
    return out ? 0 : pl_err_nomem(err);
}

static int get_totals(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_commit_view_finish) struct pl_commit_view from = {0}, to = {0};
    _cleanup_free_ struct pl_diff_totals *totals = malloc(sizeof *totals);
    char path[PL_PATH_MAX_BYTES + 1];
    const struct pl_commit_view *views[] = {&to, &from};
    const struct pl_node_source source = {(void *)views, get_of_either};
    struct pl_effort effort = pl_request_effort(req);
    int r = totals ? pl_api_path_arg(req, "path", path, err) : pl_err_nomem(err);

    r = r < 0 ? r : diff_commits(a, req, &from, &to, err);
    if (r < 0)
        return r;
    r = pl_diff_totals_count(&source, &from.commit.root, &to.commit.root, path, pl_clock_mono_ms() + TOTALS_MS, &effort, totals,
                             err);
    return r < 0 ? r : totals_json(totals, &from, &to, ret, err);
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/repos/{project}/{repo}/diff", .raw = diff_files, .costly = true, .verb = PL_VERB_READ,
     .summary = "Lists what changed below path from one commit to the other; without from, since the parent of to.",
     .query = "from to path after limit:integer", .reply = "Changes"},
    {"GET", "/api/v1/repos/{project}/{repo}/diff/totals", get_totals, .costly = true, .verb = PL_VERB_READ,
     .summary = "Counts what changed below path from one commit to the other, and in each of the first 200 folders directly "
                "below path: files added, changed and removed, and the bytes before and after of those files. The count ends "
                "(`more`) after a million changes or two seconds.",
     .query = "from to path", .reply = "DiffTotals"},
};
static const struct pl_api_schema schemas[] = {
    {"Side", "kind:string size:integer id:string"},
    {"Change", "path:string change:string old:Side? new:Side?"},
    {"DiffCounts", "added:integer changed:integer removed:integer bytes_before:integer bytes_after:integer"},
    {"DiffFolder", "name:string counts:DiffCounts"},
    {"DiffTotals", "from:string to:string counts:DiffCounts folders:DiffFolder[] more:boolean more_folders:boolean"},
    {"Changes", "changes:Change[] from:string to:string next:string?"},
};
PL_API_TABLE(diff, routes, schemas);
