/* Checks target and disk space, spools the body, and then applies it: a small file at once, other bodies
 * when it is the principal's turn (pool_turns.h). */
#include "pipelined/api/data_routes/upload_request.h"

#include "pipelined/api/transfer/branch_push.h"
#include "pipelined/api/transfer/open_commit_put.h"
#include "pipelined/api/transfer/upload_session.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/tree_edit/tree_ops.h"

/* a file up to this size is applied at once; larger files and operations wait for their turn */
#define QUICK_BYTES (1u << 20)

struct upload {
    struct pl_api *api;
    bool is_file;
    char path[PL_PATH_MAX_BYTES + 1]; /* path of the file */
    /* the open commit that the request names; NULL = the target is a branch */
    struct pl_open_commit *open;
    int64_t window_ms; /* commit_window of the repo; 0 = none: commit at once */
    struct pl_body_spool spool;
};

static void upload_free(struct upload *u)
{
    pl_open_commit_unrefp(&u->open);
    pl_body_spool_finish(&u->spool);
    free(u);
}

static uint8_t kind_of(const struct pl_http_request *req)
{
    return pl_http_query_flag(req, "exec") ? PL_KIND_EXEC : PL_KIND_FILE;
}

/* ---- commit at once ---- */

/* Chunks the body and makes it durable; `ret_ops` gets one operation that puts the file. */
static int store_file(struct upload *u, const struct pl_http_request *req, struct pl_buf *ret_ops, uint64_t *ret_new_bytes,
                      struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_tree_ops_writer_finish) struct pl_tree_ops_writer writer = {0};
    struct pl_pack_builder_stats stats;
    struct pl_pack_sink sink;
    struct pl_store *store;
    struct pl_entry entry;
    int r = pl_api_store(u->api, req, &store, err);

    if (r < 0)
        return r;
    sink = pl_store_sink(store);
    r = pl_pack_builder_open(&sink, pl_store_project(store), &session, err);
    r = r < 0 ? r : pl_file_write_stream(session, kind_of(req), pl_body_spool_read, &u->spool, &entry, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    if (r < 0)
        return r;
    pl_pack_builder_stats(session, &stats);
    *ret_new_bytes = stats.new_bytes;
    r = pl_tree_ops_writer_init(&writer, ret_ops, err);
    r = r < 0 ? r : pl_tree_ops_writer_put(&writer, u->path, strlen(u->path), &entry, err);
    return r < 0 ? r : pl_tree_ops_writer_end(&writer, err);
}

/* Returns the number of bytes uploaded in the request's session since the previous report. */
static uint64_t brought(struct upload *u, const struct pl_http_request *req)
{
    const char *session = pl_http_query(req, "session");

    return session ? pl_upload_sessions_take(u->api->sessions, session) : 0;
}

static void bring_again(struct upload *u, const struct pl_http_request *req, uint64_t bytes)
{
    const char *session = pl_http_query(req, "session");

    if (session)
        pl_upload_sessions_count_bytes(u->api->sessions, session, bytes);
}

/* Checks and renews the upload session that the request names, if any. Refuses a session of another project.
 * The caller must have a hold on the store (pl_store_hold): garbage collection then keeps the session's
 * records, uploaded or reported as existing, until the operations are applied. */
static int use_session(struct upload *u, const struct pl_http_request *req, struct pl_err *err)
{
    const char *session = u->is_file ? NULL : pl_http_query(req, "session");

    return session ? pl_upload_session_use(u->api->config.db, session, pl_http_param(req, "project"), err) : 0;
}

/* Makes a commit at once. First finishes the branch's open commit that collects puts, if there is one. */
static int push(struct upload *u, struct pl_http_request *req, struct pl_err *err)
{
    _cleanup_(pl_store_release) struct pl_store_hold hold = {0};
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    uint64_t new_bytes = u->is_file ? 0 : brought(u, req);
    const void *bytes = NULL;
    struct pl_store *store;
    json_t *answer = NULL;
    size_t n;
    int r = pl_open_commits_flush(u->api->services.opens, pl_http_param(req, "project"), pl_http_param(req, "repo"),
                                  pl_http_param(req, "branch"), err);

    r = r < 0 ? r : pl_api_store(u->api, req, &store, err);
    if (r == 0) {
        pl_store_hold(store, &hold);
        r = use_session(u, req, err);
    }
    if (r == 0)
        r = u->is_file ? store_file(u, req, &ops, &new_bytes, err) : pl_body_spool_map(&u->spool, &bytes, err);
    n = u->is_file ? ops.len : (size_t)u->spool.size;
    r = r < 0 ? r : pl_branch_push(&u->api->services, req, u->is_file ? ops.data : bytes, n, new_bytes, &answer, err);
    if (r < 0 && !u->is_file)
        /* the client may repeat the request: count the session's bytes again */
        bring_again(u, req, new_bytes);
    if (r >= 0)
        pl_http_reply_json(req, (unsigned)r, answer);
    return PL_MIN(r, 0);
}

/* ---- into an open commit ---- */

struct into {
    struct upload *upload;
    struct pl_http_request *req;
};

static int put_into(void *self, struct pl_open_commit *c, struct pl_err *err)
{
    const struct into *to = self;
    struct upload *u = to->upload;
    struct pl_http_request *req = to->req;
    _cleanup_(pl_store_release) struct pl_store_hold hold = {0};
    uint64_t new_bytes;
    int r;

    if (u->is_file)
        return pl_open_commit_put_file(req, c, u->path, kind_of(req), &u->spool, err);
    pl_store_hold(pl_open_commit_store(c), &hold);
    r = use_session(u, req, err);
    if (r < 0)
        return r;
    new_bytes = brought(u, req);
    r = pl_open_commit_put_ops(req, c, &u->spool, new_bytes, err);
    if (r < 0)
        bring_again(u, req, new_bytes);
    return r;
}

static int gather(struct upload *u, struct pl_http_request *req, struct pl_err *err)
{
    struct pl_open_commit_args args = {.project = pl_http_param(req, "project"),
                                       .repo = pl_http_param(req, "repo"),
                                       .branch = pl_http_param(req, "branch"),
                                       .message = pl_http_query(req, "message"),
                                       .author = pl_branch_push_author(req, pl_http_query(req, "author"))};
    struct into to = {u, req};

    return pl_open_commit_put_run(u->api->services.opens, &args, u->window_ms, put_into, &to, err);
}

/* ---- the body ---- */

/* Returns true if the operations only delete, which is allowed on a full disk. Malformed operations count as
 * deletes: they are refused later with a better error. */
static bool only_removes(struct pl_body_spool *spool)
{
    struct pl_tree_ops_reader reader;
    const void *bytes = NULL;
    struct pl_tree_op op;
    int r = pl_body_spool_map(spool, &bytes, NULL);

    r = r < 0 ? r : pl_tree_ops_reader_init(&reader, bytes, (size_t)spool->size, NULL);
    while (r >= 0 && (r = pl_tree_ops_reader_next(&reader, &op, NULL)) > 0)
        if (op.op == PL_TREE_PUT || op.op == PL_TREE_REPLACE)
            return false;
    return true;
}

static int upload_write(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct upload *u = self;

    return pl_body_spool_write(&u->spool, data, n, err);
}

static int apply(struct upload *u, struct pl_http_request *req, struct pl_err *err)
{
    int r = 0;

    if (!u->is_file) /* a file is not checked here: its size was checked before its body was received */
        r = pl_branch_push_admit(&u->api->services, req, err);
    /* check a spooled file again: other requests may have used disk space while its body was received */
    else if (u->spool.fd >= 0)
        r = pl_disk_watch_admit(u->api->services.disks, u->spool.size, err);
    if (r < 0 && (u->is_file || !only_removes(&u->spool)))
        return r;
    if (u->open)
        return put_into(&(struct into){u, req}, u->open, err);
    return u->window_ms ? gather(u, req, err) : push(u, req, err);
}

static void upload_apply(void *self, struct pl_http_request *req)
{
    struct upload *u = self;
    struct pl_err err = {0};
    int r = pl_guard_check_again(req, u->api->services.guard, &err);

    r = r < 0 ? r : apply(u, req, &err);
    if (r < 0)
        pl_http_reply_error(req, &err);
    upload_free(u);
}

static void upload_end(void *self, struct pl_http_request *req, const struct pl_err *failure)
{
    struct upload *u = self;
    struct pl_err err = {0};

    if (!failure && u->is_file && u->spool.size <= QUICK_BYTES) {
        upload_apply(u, req);
    } else if (failure || pl_api_in_turn(u->api, req, upload_apply, u, &err) < 0) {
        pl_http_reply_error(req, failure ? failure : &err);
        upload_free(u);
    }
}

static int find_target(struct pl_api *a, const struct pl_http_request *req, bool open, struct upload *u, struct pl_err *err)
{
    const char *project = pl_http_param(req, "project"), *base;
    struct pl_repo_row repo;
    int r;

    if (open)
        return pl_open_commits_find(a->services.opens, project, pl_http_param(req, "repo"), pl_http_param(req, "commit"), true,
                                    &u->open, err);
    r = pl_branch_push_check(&a->services, req, &repo, err);
    base = pl_http_query(req, "base");
    if (r == 0 && !(base && *base))
        u->window_ms = repo.commit_window_ms;
    return r;
}

/* Checks the disk space for a file. A file above PL_BODY_SPOOL_MEMORY_BYTES also needs space in the daemon's
 * folder, where its body is spooled before it is stored. */
static int admit_file(struct pl_api *a, const struct pl_http_request *req, struct pl_err *err)
{
    int64_t length = pl_http_body_length(req);

    return length > (int64_t)PL_BODY_SPOOL_MEMORY_BYTES ? pl_disk_watch_admit_spooled(a->services.disks, (uint64_t)length, err)
                                                        : pl_branch_push_admit(&a->services, req, err);
}

static int check(struct upload *u, const struct pl_http_request *req, struct pl_err *err)
{
    int r;

    if (u->is_file) {
        r = pl_path_canonical(pl_http_param(req, "path"), u->path, err);
        return r == 0 && !*u->path ? pl_err_set(err, PL_EPATH, "the root of the tree is not a file: give a path") : r;
    }
    return use_session(u, req, err); /* the session is checked again when the body is complete */
}

static void begin(struct pl_api *a, struct pl_http_request *req, bool is_file, bool open)
{
    struct upload *u = calloc(1, sizeof *u);
    struct pl_err err = {0};
    int r = u ? 0 : pl_err_nomem(&err);

    if (r == 0) {
        u->api = a;
        u->is_file = is_file;
        pl_body_spool_init(&u->spool, a->services.tmp_dir, a->services.disks);
        r = check(u, req, &err);
        r = r < 0 ? r : find_target(a, req, open, u, &err);
        r = r < 0 || !is_file ? r : admit_file(a, req, &err);
    }
    if (r == 0) {
        pl_http_body_to(req, &(struct pl_http_sink){.self = u, .write = upload_write, .end = upload_end});
        return;
    }
    pl_http_reply_error(req, &err);
    if (u)
        upload_free(u);
}

void pl_upload_file_to_branch(struct pl_api *a, struct pl_http_request *req)
{
    begin(a, req, true, false);
}

void pl_upload_ops_to_branch(struct pl_api *a, struct pl_http_request *req)
{
    begin(a, req, false, false);
}

void pl_upload_file_to_open(struct pl_api *a, struct pl_http_request *req)
{
    begin(a, req, true, true);
}

void pl_upload_ops_to_open(struct pl_api *a, struct pl_http_request *req)
{
    begin(a, req, false, true);
}
