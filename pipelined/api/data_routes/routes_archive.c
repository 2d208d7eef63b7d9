/* A folder of a commit as a tar or zip archive. */
#include "pipelined/api/data_routes/archive_stream.h"
#include "pipelined/api/data_routes/commit_view.h"
#include "storage/base/clock.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

/* Refuses a path that is no folder. */
static int check_folder(const struct pl_commit_view *v, const struct pl_archive_part *p, const char *path, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_tree_item item;
    struct pl_entry file;
    int r;

    if (!*path)
        return 0;
    if (pl_tree_get(&v->source, &v->commit.root, path, strlen(path), &file, NULL) == 0 && file.kind != PL_KIND_DIR)
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "/%s is a file: get the file itself", path), "path");
    r = pl_tree_cursor_create(&v->source, &v->commit.root, p->below, p->below_len, &cursor, err);
    r = r < 0 ? r : pl_tree_cursor_next(cursor, &item, err);
    return r < 0 ? r : r == 0 ? pl_err_set(err, PL_ENOTFOUND, "commit %.8s has no files below /%s", v->commit.run, path) : 0;
}

static void release_view(void *owner)
{
    pl_commit_view_finish(owner);
    free(owner);
}

static int plan_archive(struct pl_api *api, const struct pl_http_request *req, struct pl_archive_plan *plan, struct pl_err *err)
{
    struct pl_commit_view *v = calloc(1, sizeof *v);
    struct pl_archive_part *p = plan->parts = calloc(1, sizeof *plan->parts);
    char path[PL_PATH_MAX_BYTES + 1];
    const char *slash;
    int r;

    plan->owner = v;
    plan->release = v ? release_view : NULL;
    if (!v || !p)
        return pl_err_nomem(err);
    plan->n_parts = 1;
    r = pl_api_path_arg(req, "path", path, err);
    r = r < 0 ? r : pl_archive_format_read(req, false, &plan->zip, err);
    r = r < 0 ? r : pl_commit_view_init(api, req, pl_http_param(req, "ref"), v, err);
    if (r < 0)
        return r;
    p->source = v->source;
    p->root = v->commit.root;
    p->reader = v->open ? pl_open_commit_reader(v->open) : pl_store_chunk_reader(v->store);
    slash = strrchr(path, '/');
    snprintf(p->top, sizeof p->top, "%.*s", PL_SEGMENT_MAX_BYTES, slash ? slash + 1 : *path ? path : pl_http_param(req, "repo"));
    p->below_len = p->cut = (size_t)snprintf(p->below, sizeof p->below, "%s%s", path, *path ? "/" : "");
    plan->at_us = v->commit.created_us ? v->commit.created_us : pl_clock_wall_us();
    /* a repo's name and an id need no escapes */
    snprintf(plan->file_name, sizeof plan->file_name, "%s-%.8s.%s", pl_http_param(req, "repo"), v->commit.run,
             plan->zip ? "zip" : "tar");
    r = check_folder(v, p, path, err);
    return r < 0 ? r : pl_archive_check_entries(plan, err);
}

static void get_archive(struct pl_api *api, struct pl_http_request *req)
{
    struct pl_archive_plan plan = {0};
    struct pl_err err = {0};

    if (plan_archive(api, req, &plan, &err) < 0) {
        pl_archive_plan_finish(&plan);
        pl_http_reply_error(req, &err);
        return;
    }
    pl_archive_reply(req, &plan);
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/repos/{project}/{repo}/refs/{ref}/archive", .raw = get_archive, .costly = true, .verb = PL_VERB_READ,
     .summary = "Returns the folder path, with everything below it, as a tar (default) or zip archive in one folder of its name. "
                "Zip entries are stored, not compressed. A symbolic link that leads out of the folder is a text file with its "
                "target. A reply that is cut off is incomplete.",
     .query = "path format", .reply = "application/*"},
};
const struct pl_api_table pl_api_routes_archive = {.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)};
