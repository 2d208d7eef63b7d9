/* Transfer of packs: upload sessions, look-ups of record ids, upload and download of packs. These routes do
 * not interpret packs and records; their content gets its meaning when a commit refers to it. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/transfer/branch_push.h"
#include "pipelined/api/transfer/upload_session.h"
#include "pipelined/api/transfer/upload_verify.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/tx/upload_session_tx.h"
#include "storage/object/object_offer.h"
#include "storage/pack/pack_sink.h"
#include "storage/store/store.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define IDS_BODY_MAX  ((uint64_t)PL_PACK_SINK_HAS_MAX * PL_HASH_BYTES)
#define LOCATED_BYTES 80 /* bytes of the reply to "locate" for one record id */
#define BYTES_TYPE    "application/octet-stream"
#define PIECE_BYTES   ((uint64_t)1 << 20)

/* ---- sessions ---- */

static int open_session(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_upload_session_args args = {.project = "default", .kind = "write"};
    json_int_t bytes = 0;
    int r = pl_api_body(req, &body, err, "{s?:s, s?:s, s?:I}", "project", &args.project, "kind", &args.kind, "bytes", &bytes);

    if (r == 0 && !pl_streq(args.kind, "write") && !pl_streq(args.kind, "read"))
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "\"%s\" is not a kind of session; accepted: write, read", args.kind),
                         "kind");
    if (r == 0 && bytes < 0)
        r = pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "%lld is no number of bytes; accepted: 0 (unknown) or more", (long long)bytes),
            "bytes");
    r = r < 0 ? r : pl_api_may(req, pl_streq(args.kind, "read") ? PL_VERB_FETCH : PL_VERB_STORE, args.project, NULL, err);
    if (r == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = pl_api_project(rd.conn, args.project, err);
    }
    r = r < 0 || pl_streq(args.kind, "read") ? r : pl_branch_push_admit_bytes(&a->services, req, (uint64_t)bytes, err);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_UNLOGGED, pl_tx_upload_session_open, &args, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s, s:i}", "session", args.id, "project", args.project, "lease_s", PL_UPLOAD_SESSION_LEASE_S);
    return 201;
}

/* Ends a session, so that garbage collection need not wait until its lease runs out. */
static int close_session(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_upload_session_args args = {.project = pl_http_query(req, "project")};
    const char *id = pl_http_param(req, "id");
    int r;

    if (!args.project)
        args.project = "default";
    r = pl_api_may(req, PL_VERB_STORE, args.project, NULL, err);
    if (r == 0 && !pl_id_ok(id))
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "\"%.40s\" is not the id of a session", id), "id");
    snprintf(args.id, sizeof args.id, "%s", id);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_UNLOGGED, pl_tx_upload_session_close, &args, err);
    if (r < 0)
        return r;
    *ret = json_object();
    return 0;
}

/* ---- look-ups of ids ---- */

/* Reads the body as a list of record ids, and opens the store in which they will be looked up. */
static int read_ids(struct pl_api *a, struct pl_http_request *req, struct pl_store **ret_store, const struct pl_hash **ret,
                    size_t *ret_n, struct pl_err *err)
{
    const struct pl_buf *body = pl_http_body(req);

    if (body->len % PL_HASH_BYTES != 0)
        return pl_err_set(err, PL_EPROTO, "the body has %zu bytes, but must be a list of ids of %d bytes each", body->len,
                          PL_HASH_BYTES);
    *ret = (const struct pl_hash *)body->data;
    *ret_n = body->len / PL_HASH_BYTES;
    return pl_api_store(a, req, ret_store, err);
}

/* Makes the found records durable and pins their packs until the upload session ends. Both must be done
 * before the reply tells the client that the records exist. */
static int tell(struct pl_api *a, struct pl_http_request *req, struct pl_store *store, uint32_t *packs, size_t n,
                struct pl_err *err)
{
    int r = pl_store_flush(store, err);

    return r < 0 ? r
                 : pl_upload_session_pin_numbers(a->sessions, a->config.db, store, pl_http_query(req, "session"), packs, n, err);
}

/* Replies for each record id whether the session may skip uploading the record. Keeps a hold on the store
 * (pl_store_hold) from the look-up until the pins are written, so that garbage collection removes no pack in
 * between. */
static int have(struct pl_api *a, struct pl_http_request *req, struct pl_buf *out, struct pl_err *err)
{
    const char *project = pl_http_param(req, "project");
    _cleanup_(pl_store_release) struct pl_store_hold hold = {
        0}; /* garbage collection waits for this hold until the pins are written */
    _cleanup_free_ uint8_t *bitmap = NULL;
    _cleanup_free_ uint32_t *packs = NULL;
    const struct pl_hash *ids;
    struct pl_store *store;
    size_t n;
    int r = pl_upload_session_use(a->config.db, pl_http_query(req, "session"), project, err);

    r = r < 0 ? r : read_ids(a, req, &store, &ids, &n, err);
    if (r < 0)
        return r;
    bitmap = calloc(n / 8 + 1, 1);
    packs = reallocarray(NULL, n + 1, sizeof *packs);
    if (!bitmap || !packs)
        return pl_err_nomem(err);
    pl_store_hold(store, &hold);
    pl_store_has_many(store, ids, n, bitmap, packs);
    pl_upload_verify_reveal(a->read_back, store, pl_http_query(req, "session"), ids, n, bitmap, packs);
    r = tell(a, req, store, packs, n, err);
    r = r < 0 ? r : pl_buf_reserve(out, n, err);
    for (size_t i = 0; i < n && r == 0; i++)
        r = pl_buf_add_u8(out, bitmap[i / 8] >> (i % 8) & 1, err);
    return r;
}

static int add_location(struct pl_buf *out, const struct pl_location *at, struct pl_err *err)
{
    static const uint8_t zeros[24];
    int r = pl_buf_add_u8(out, 1, err);

    r = r < 0 ? r : pl_buf_add_u8(out, at->codec, err);
    r = r < 0 ? r : pl_buf_add_u8(out, at->kind, err);
    r = r < 0 ? r : pl_buf_add_u8(out, 0, err);
    r = r < 0 ? r : pl_buf_add_le32(out, at->stored, err);
    r = r < 0 ? r : pl_buf_add_le32(out, at->raw, err);
    r = r < 0 ? r : pl_buf_add_le32(out, 0, err);
    r = r < 0 ? r : pl_buf_add_le64(out, at->offset, err);
    r = r < 0 ? r : pl_buf_add(out, at->pack.b, PL_HASH_BYTES, err);
    return r < 0 ? r : pl_buf_add(out, zeros, sizeof zeros, err);
}

static int locate(struct pl_api *a, struct pl_http_request *req, struct pl_buf *out, struct pl_err *err)
{
    static const uint8_t missing[LOCATED_BYTES];
    const struct pl_hash *ids;
    struct pl_location at;
    struct pl_store *store;
    size_t n;
    int r = read_ids(a, req, &store, &ids, &n, err);

    r = r < 0 ? r : pl_buf_reserve(out, n * LOCATED_BYTES, err);
    for (size_t i = 0; i < n && r == 0; i++)
        r = pl_store_locate(store, &ids[i], &at, NULL) == 0 ? add_location(out, &at, err)
                                                            : pl_buf_add(out, missing, sizeof missing, err);
    return r;
}

static void reply_bytes(struct pl_http_request *req, int r, struct pl_buf *out, const struct pl_err *err)
{
    if (r < 0)
        pl_http_reply_error(req, err);
    else
        pl_http_reply_buf(req, 200, BYTES_TYPE, out);
}

static void on_have(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_err err = {0};

    reply_bytes(req, have(a, req, &out, &err), &out, &err);
}

static void on_locate(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_err err = {0};

    reply_bytes(req, locate(a, req, &out, &err), &out, &err);
}

/* ---- upload of a pack: the pack is received into a temporary file, verified, and then renamed ---- */

struct intake {
    struct pl_api *api;
    struct pl_store *store;
    struct pl_hash id;
    char path[PATH_MAX];
    int fd;       /* -1 for an offered file */
    bool offered; /* a process of the daemon's user has written the file (object_offer.h) */
    uint64_t size;
};

static int intake_write(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct intake *in = self;

    if (in->offered)
        return pl_err_set(err, PL_EPROTO, "a request that names an offered file has no body");
    in->size += n;
    return pl_io_write(in->fd, data, n, in->path, err);
}

/* Verifies the uploaded file and makes it durable. The file is removed or renamed in every case. */
static int intake_finish(struct intake *in, struct pl_http_request *req, struct pl_err *err)
{
    int r = pl_guard_check_again(req, in->api->services.guard, err);

    /* The session has pinned the pack since the upload began. If the session is still valid, garbage
     * collection has not removed the pack. */
    r = r < 0 ? r : pl_upload_session_use(in->api->config.db, pl_http_query(req, "session"), pl_store_project(in->store), err);
    struct pl_direct_upload b;

    pl_closep(&in->fd);
    in->fd = -1;
    if (r < 0) {
        unlink(in->path);
        return r;
    }
    pl_upload_verify_origin(req, pl_store_project(in->store), &in->id, in->size, &b);
    r = pl_upload_verify_receive(in->api->read_back, &b, in->path, in->offered, err);
    /* the fault is in the bytes that the client sent, not in the store */
    if (r == PL_ECORRUPT || r == PL_EFORMAT)
        r = err->code = PL_EPROTO;
    return r;
}

static void intake_verify(void *self, struct pl_http_request *req)
{
    struct intake *in = self;
    struct pl_err err = {0};
    char hex[PL_HASH_HEX + 1];

    if (intake_finish(in, req, &err) < 0) {
        pl_http_reply_error(req, &err);
    } else {
        pl_upload_sessions_count_bytes(in->api->sessions, pl_http_query(req, "session"), in->size);
        atomic_fetch_add(in->offered ? &in->api->moved.bytes_offered : &in->api->moved.bytes_in, in->size);
        pl_http_reply_json(req, 201, json_pack("{s:s, s:I}", "pack", pl_hash_hex(&in->id, hex), "bytes", (json_int_t)in->size));
    }
    free(in);
}

static void intake_end(void *self, struct pl_http_request *req, const struct pl_err *failure)
{
    struct intake *in = self;
    struct pl_err err = {0};

    if (!failure && pl_api_in_turn(in->api, req, intake_verify, in, &err) == 0)
        return;
    pl_closep(&in->fd);
    unlink(in->path);
    free(in);
    pl_http_reply_error(req, failure ? failure : &err);
}

static int pack_id(const struct pl_http_request *req, struct pl_hash *ret, struct pl_err *err)
{
    int r = pl_hash_parse(pl_http_param(req, "id"), ret, err);

    return r < 0 ? pl_err_field(err, r, "id") : 0;
}

/* Opens the file for the body. If the query names an offered file, takes that file instead. */
static int intake_open(struct pl_api *a, struct pl_http_request *req, struct intake *in, struct pl_err *err)
{
    const char *offer = pl_http_query(req, "offer");
    int r = pack_id(req, &in->id, err);

    in->api = a;
    r = r < 0 ? r : pl_upload_session_use(a->config.db, pl_http_query(req, "session"), pl_http_param(req, "project"), err);
    r = r < 0 ? r : pl_api_store(a, req, &in->store, err);
    r = r < 0 ? r : pl_branch_push_admit(&a->services, req, err);
    r = r < 0
            ? r
            : pl_upload_session_add_pack(a->config.db, pl_store_project(in->store), pl_http_query(req, "session"), &in->id, err);
    in->fd = -1;
    in->offered = offer != NULL;
    /* The disk watch has seen the offered file: its bytes are written, so they are not counted once more. */
    if (r == 0 && in->offered)
        return pl_object_offer_take(pl_store_objects(in->store), offer, in->path, &in->size, err);
    r = r < 0 ? r : pl_object_tmp_path(pl_store_objects(in->store), in->path, err);
    if (r < 0)
        return r;
    in->fd = open(in->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return in->fd < 0 ? pl_err_errno(err, errno, "make %s", in->path) : 0;
}

static void put_pack(struct pl_api *a, struct pl_http_request *req)
{
    struct intake *in = calloc(1, sizeof *in);
    struct pl_err err = {0};
    int r = in ? intake_open(a, req, in, &err) : pl_err_nomem(&err);

    if (r < 0) {
        free(in);
        pl_http_reply_error(req, &err);
        return;
    }
    pl_http_body_to(req, &(struct pl_http_sink){.self = in, .write = intake_write, .end = intake_end});
}

/* ---- download: from the store's file or a local copy; a small range comes from the remote pack ---- */

static int pack_place(struct pl_api *a, struct pl_http_request *req, struct pl_store **ret, struct pl_hash *ret_id,
                      char key[PL_PACK_KEY_BYTES], struct pl_err *err)
{
    int r = pack_id(req, ret_id, err);

    r = r < 0 ? r : pl_api_store(a, req, ret, err);
    if (r == 0)
        pl_pack_key(pl_store_project(*ret), ret_id, key);
    return r;
}

/* Replies whether the store knows the pack. That the pack's object exists is not enough: a client may have
 * uploaded it with a presigned URL and not registered it. */
static void reply_head(struct pl_http_request *req, struct pl_store *store, const struct pl_hash *id, const char *key)
{
    char hex[PL_HASH_HEX + 1];
    struct pl_err err = {0};
    uint64_t size;
    int r = 0;

    if (!pl_store_has_pack(store, id))
        r = pl_err_set(&err, PL_ENOTFOUND, "pack %.12s is not in the store of project %s", pl_hash_hex(id, hex),
                       pl_store_project(store));
    r = r < 0 ? r : pl_object_size(pl_store_objects(store), key, &size, &err);
    if (r < 0)
        pl_http_reply_error(req, &err);
    else
        pl_http_reply_head(req, 200, BYTES_TYPE, size);
}

/* Removes the local copy of a pack if the request says "Cache-Control: no-cache": the client has read data
 * that failed verification, so the copy may be damaged. */
static void forget_copy(const struct pl_http_request *req, struct pl_object_store *objects, const char *key)
{
    const char *control = pl_http_header(req, "Cache-Control");

    if (control && strstr(control, "no-cache"))
        pl_object_forget_local(objects, key);
}

/* Parses a range such as "bytes=5-9"; true if it has at most PIECE_BYTES bytes. */
static bool small_piece(const struct pl_http_request *req, uint64_t *ret_first, uint64_t *ret_count)
{
    const char *range = pl_http_header(req, "Range");

    return range && strncmp(range, "bytes=", 6) == 0 && range[6] != '-' &&
           pl_http_range_parse(range, (uint64_t)1 << 60, ret_first, ret_count) == PL_RANGE_PART && *ret_count <= PIECE_BYTES;
}

static void reply_piece(struct pl_api *a, struct pl_http_request *req, struct pl_object_store *objects, const char *key,
                        uint64_t first, uint64_t count)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = PIECE_BYTES};
    struct pl_err err = {0};
    char range[96];
    int r = pl_object_get_some(objects, key, first, count, &out, &err);

    if (r == 0 && !out.len)
        r = pl_err_set(&err, PL_ECORRUPT, "the pack ends before byte %llu", (unsigned long long)first);
    if (r < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    snprintf(range, sizeof range, "bytes %llu-%llu/*", (unsigned long long)first, (unsigned long long)(first + out.len - 1));
    pl_http_reply_header(req, "Content-Range", range);
    atomic_fetch_add(&a->moved.bytes_out, out.len);
    pl_http_reply_buf(req, 206, BYTES_TYPE, &out);
}

static void reply_file(struct pl_api *a, struct pl_http_request *req, struct pl_object_store *objects, const char *key)
{
    _cleanup_close_ int fd = -1;
    struct pl_err err = {0};
    uint64_t first, count;
    struct stat st;
    int r = pl_object_local_fd(objects, key, &fd, &err);

    if (r == 0 && fstat(fd, &st) < 0)
        r = pl_err_errno(&err, errno, "stat object %s", key);
    if (r < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    (void)pl_http_range_parse(pl_http_header(req, "Range"), (uint64_t)st.st_size, &first, &count);
    atomic_fetch_add(&a->moved.bytes_out, count);
    pl_http_reply_fd(req, TAKE_FD(fd), 0, (uint64_t)st.st_size, BYTES_TYPE);
}

/* Replies with a pack or a range of it. */
static void get_pack(struct pl_api *a, struct pl_http_request *req)
{
    struct pl_object_store *objects;
    char key[PL_PACK_KEY_BYTES];
    struct pl_store *store;
    uint64_t first, count;
    struct pl_err err = {0};
    struct pl_hash id;

    if (pack_place(a, req, &store, &id, key, &err) < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    if (pl_streq(pl_http_method(req), "HEAD")) {
        reply_head(req, store, &id, key);
        return;
    }
    objects = pl_store_objects(store);
    forget_copy(req, objects, key);
    if (!(pl_object_caps(objects) & PL_OBJECT_FILES) && small_piece(req, &first, &count))
        reply_piece(a, req, objects, key, first, count);
    else
        reply_file(a, req, objects, key);
}

static const struct pl_api_route routes[] = {
    {"POST", "/api/v1/sessions", open_session, .body = PL_BODY_JSON, .verb = PL_VERB_STORE, .asks = true,
     .summary = "Opens a session for writing or reading packs; its lease is renewed while it is used. `bytes`: how much a "
                "session for writing will bring at most; one that does not fit on the disk of the store is refused. 0 = unknown.",
     .request = "NewSession", .reply = "Session"},
    {"DELETE", "/api/v1/sessions/{id}", close_session, .verb = PL_VERB_STORE, .asks = true,
     .summary = "Ends a session: packs that only it needs may be removed.", .query = "project"},
    {"POST", "/api/v1/projects/{project}/have", .raw = on_have, .costly = true, .body = PL_BODY_BYTES, .body_max = IDS_BODY_MAX,
     .verb = PL_VERB_STORE, .summary = "Returns one byte for each id (32 bytes): 1 if its record is in the project's store.",
     .query = "session", .request = BYTES_TYPE, .reply = BYTES_TYPE},
    {"POST", "/api/v1/projects/{project}/locate", .raw = on_locate, .costly = true, .body = PL_BODY_BYTES,
     .body_max = IDS_BODY_MAX, .verb = PL_VERB_FETCH,
     .summary = "Returns 80 bytes for each id (32 bytes): u8 found, codec, kind, 0; u32 stored size, raw size, 0; u64 offset of "
                "the record; pack id 32; zero 24. Little-endian; all zero if the record is missing.",
     .request = BYTES_TYPE, .reply = BYTES_TYPE},
    {"PUT", "/api/v1/projects/{project}/packs/{id}", .raw = put_pack, .body = PL_BODY_STREAM, .body_max = PL_PACK_MAX_BYTES,
     .verb = PL_VERB_STORE,
     .summary =
         "Uploads a pack: it is verified, and durable when the reply comes. A process of the daemon's user on its machine may "
         "have written it into the daemon's folder of temporary files: \"offer\" names that file, the body is empty, and the "
         "checksum of the bytes is verified.",
     .query = "session offer", .request = BYTES_TYPE, .reply = "Pack"},
    {"GET", "/api/v1/projects/{project}/packs/{id}", .raw = get_pack, .verb = PL_VERB_FETCH,
     .summary = "Returns the bytes of a pack, or the range that Range asks for; HEAD says whether the store knows the pack.",
     .reply = BYTES_TYPE},
};
static const struct pl_api_schema schemas[] = {
    {"NewSession", "project:string? kind:string? bytes:integer?"},
    {"Session", "session:string project:string lease_s:integer"},
    {"Pack", "pack:string bytes:integer"},
};
PL_API_TABLE(packs, routes, schemas);
