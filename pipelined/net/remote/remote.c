/* The store of a daemon, read and written from outside: asks the daemon where records are, then reads them
 * from pack files on this machine, from prefetched ranges, or through windows over HTTP. */
#include "pipelined/net/remote/remote.h"

#include "pipelined/net/remote/remote_locations.h"
#include "pipelined/net/remote/remote_prefetch.h"
#include "pipelined/net/remote/remote_presigned.h"
#include "pipelined/net/remote/remote_stream.h"
#include "storage/object/object.h"
#include "storage/object/object_offer.h"
#include "storage/pack/pack_sink.h"
#include "storage/store/pack_files.h"
#include "storage/store/pack_read_window.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define LOCATION_BYTES 80 /* size of one location in a reply to `locate`; see location_decode */
#define OPEN_PACKS     32
/* most concurrent prefetches, and streams, through the daemon, because it also serves other clients */
#define DAEMON_FETCHES 4
/* most concurrent streams, of which DAEMON_FETCHES come from the daemon: a connection to S3 brings some 80 MB a second */
#define STREAMS 16

/* The folder of the daemon's store, when this process can read it. */
struct folder {
    struct pl_object_store store;
    char *dir;
};

/* The answer to an offer comes when the pack is in the store: of a bucket it may be slow, and ask to come again meanwhile. */
#define OFFER_ANSWER_MS (INT64_C(15) * 60 * 1000)

/* Packs as files in the folder of the daemon's temporary files (object_offer.h). */
struct offers {
    char *dir;               /* its parent folder; NULL = no offers */
    uint64_t keep_free;      /* bytes of its disk that the daemon reserves */
    _Atomic uint64_t making; /* bytes of offers that are being written */
    atomic_bool on;          /* this process may offer packs; false after it proved impossible */
    /* the daemon did not answer or take the last offer: a retry would write the same file again. No offer is made until a
     * call has succeeded */
    atomic_bool away;
};

struct pl_remote {
    struct pl_http_client *client;
    char *project;
    char store_id[PL_ID_HEX + 1];
    struct folder folder;
    struct offers offers;
    struct pl_pack_files *files; /* the pack files on this machine; NULL = packs are read over HTTP */
    struct pl_pack_read_windows *windows;
    struct pl_remote_ahead *ahead;
    struct pl_remote_signed *direct;
    sem_t daemon_streams;
    atomic_bool closing;
    /* number of threads that read a record again because its hash was wrong; while it is not 0, packs are read
     * only through the daemon, without caches */
    atomic_uint doubting;
    pthread_mutex_t lock; /* guards the fields below */
    struct remote_table *table;
    char session[64];
};

/* --- the local store --- */

static int folder_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err)
{
    struct folder *f = PL_CONTAINER_OF(s, struct folder, store);
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", f->dir, key) >= (int)sizeof(path))
        return pl_err_set(err, PL_EINVAL, "the path %s/%s is too long", f->dir, key);
    *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
    return *ret_fd < 0 ? pl_err_errno(err, errno, "open %s", path) : 0;
}

static const struct pl_object_ops folder_ops = {.open_fd = folder_open_fd};

/* True if the folder of "file:///DIR" is a store that this process can read. */
static bool folder_usable(const char *url, const char **ret_dir)
{
    char path[PATH_MAX];

    if (!url || strncmp(url, "file:///", 8) != 0)
        return false;
    *ret_dir = url + 7;
    return snprintf(path, sizeof(path), "%s/format", *ret_dir) < (int)sizeof(path) && access(path, R_OK) == 0 &&
           access(*ret_dir, R_OK | X_OK) == 0;
}

/* Sets the folder for offers. A daemon on another machine has another folder of that name. */
static int offers_set(struct pl_remote *r, const char *dir, struct pl_err *err)
{
    struct offers *o = &r->offers;

    if (!pl_http_url_is_local(pl_http_client_url(r->client)))
        return 0;
    free(o->dir);
    o->dir = strdup(dir);
    atomic_store(&o->on, o->dir && pl_object_offer_allowed(dir));
    return o->dir ? 0 : pl_err_nomem(err);
}

int pl_remote_set_store(struct pl_remote *r, const char *url, struct pl_err *err)
{
    const char *dir;

    if (r->files || !folder_usable(url, &dir))
        return 0;
    r->folder.store.ops = &folder_ops;
    r->folder.dir = strdup(dir);
    if (r->folder.dir)
        r->files = pl_pack_files_create(&r->folder.store, r->project, OPEN_PACKS);
    return r->files ? offers_set(r, dir, err) : pl_err_nomem(err);
}

bool pl_remote_is_local(const struct pl_remote *r)
{
    return r->files;
}

const char *pl_remote_store_id(const struct pl_remote *r)
{
    return r->store_id;
}

/* Reads from the status what the daemon keeps free on the disk of its temporary files, and where these are unless they are in
 * the store: in the daemon's own folder, which `disk.places` names last (disk_watch.h). */
static int remote_ask_offers(struct pl_remote *r, const json_t *status, struct pl_err *err)
{
    const json_t *places = json_object_get(json_object_get(status, "disk"), "places");
    const json_t *place = json_array_get(places, r->files ? 0 : json_array_size(places) - 1);
    const char *dir = json_string_value(json_object_get(place, "path"));

    r->offers.keep_free = (uint64_t)PL_MAX(json_integer_value(json_object_get(place, "full_bytes")), 0);
    return dir && !r->offers.dir ? offers_set(r, dir, err) : 0;
}

/* Requests the daemon's status and reads from it where the store is: the member "store" is a URL, or an
 * object with the member "url". */
static int remote_ask_store(struct pl_remote *r, struct pl_err *err)
{
    struct pl_err why = {0};
    const json_t *store, *packs;
    const char *id;
    json_t *status;
    int e = pl_http_client_json_interruptible(r->client, "GET", "/api/v1/status", NULL, &r->closing, &status, &why);

    if (e == PL_EFORBIDDEN || e == PL_EAUTH)
        return 0; /* without the status it uses the store of pl_remote_set_store, or HTTP */
    if (e < 0) {
        if (err)
            *err = why;
        return e;
    }
    id = json_string_value(json_object_get(status, "store_id"));
    if (id && pl_id_ok(id))
        memcpy(r->store_id, id, sizeof(r->store_id));
    packs = json_object_get(status, "packs");
    pl_remote_presigned_allow(r->direct, json_is_true(json_object_get(packs, "signed_get")),
                              json_is_true(json_object_get(packs, "signed_put")));
    if (json_is_string(json_object_get(packs, "ca")))
        pl_remote_presigned_trust(r->direct, json_string_value(json_object_get(packs, "ca")));
    store = json_object_get(status, "store");
    if (json_is_object(store))
        store = json_object_get(store, "url");
    e = pl_remote_set_store(r, json_string_value(store), err);
    e = e < 0 ? e : remote_ask_offers(r, status, err);
    json_decref(status);
    return e;
}

/* --- packs over HTTP --- */

/* Requests a range of a pack from the daemon; `call` says where the bytes go. */
static int daemon_range(struct pl_remote *r, const struct pl_remote_range *at, bool no_cache, struct pl_http_call *call,
                        struct pl_err *err)
{
    char path[PL_NAME_MAX_BYTES + 160], range[64], hex[PL_HASH_HEX + 1];
    const char *const headers[] = {range, no_cache ? "Cache-Control: no-cache" : NULL, NULL};
    struct pl_http_answer answer;
    int e;

    snprintf(path, sizeof(path), "/api/v1/projects/%s/packs/%s", r->project, pl_hash_hex(&at->pack, hex));
    snprintf(range, sizeof(range), "Range: bytes=%llu-%llu", (unsigned long long)at->start, (unsigned long long)at->end - 1);
    call->method = "GET";
    call->path = path;
    call->headers = headers;
    call->cancel = &r->closing;
    call->interruptible = true;
    e = pl_http_client_call(r->client, call, &answer, err);
    if (e == 0 && answer.status != 206)
        e = pl_err_set(err, PL_EPROTO, "pack %.12s: the server does not serve ranges (status %u)", hex, answer.status);
    return e;
}

/* Reads a range of a pack with a presigned URL; if that is not possible, through the daemon. */
static int fetch_range(void *self, const struct pl_hash *pack, uint64_t start, uint64_t end, struct pl_buf *ret,
                       struct pl_err *err)
{
    struct pl_remote *r = self;
    const struct pl_remote_range at = {*pack, start, end};
    const bool doubted = atomic_load(&r->doubting) > 0;
    int e = doubted ? 1 : pl_remote_presigned_fetch(r->direct, pack, start, end, ret);

    if (e == PL_ECANCELED)
        return pl_err_set(err, e, "reading a pack was canceled");
    if (e <= 0)
        return e;
    ret->max = (size_t)(end - start);
    return daemon_range(r, &at, doubted, &(struct pl_http_call){.out = ret}, err);
}

/* Like fetch_range, but passes the bytes to `write` as they arrive. */
static int stream_range(void *self, const struct pl_remote_range *at, pl_remote_write write, void *to)
{
    struct pl_remote *r = self;
    int e = pl_remote_presigned_stream(r->direct, at, write, to);

    if (e <= 0)
        return e;
    while (sem_wait(&r->daemon_streams) < 0)
        ;
    e = daemon_range(r, at, false, &(struct pl_http_call){.write = write, .write_self = to}, NULL);
    (void)sem_post(&r->daemon_streams);
    return e;
}

static void plan_stream(void *self, const struct pl_remote_range *ranges, size_t n)
{
    struct pl_remote *r = self;

    pl_remote_presigned_plan(r->direct, ranges, n);
}

/* --- life --- */

int pl_remote_open(struct pl_http_client *client, const char *project, struct pl_remote **ret, struct pl_err *err)
{
    struct pl_remote *r;
    int e = pl_name_check("project", project, err);

    if (e < 0)
        return e;
    r = calloc(1, sizeof(*r));
    if (!r)
        return pl_err_nomem(err);
    pthread_mutex_init(&r->lock, NULL);
    (void)sem_init(&r->daemon_streams, 0, DAEMON_FETCHES);
    r->client = client;
    r->project = strdup(project);
    r->table = pl_remote_locations_create();
    r->windows = r->project ? pl_pack_windows_create(fetch_range, r) : NULL;
    r->ahead = pl_remote_prefetch_create(fetch_range, r);
    r->direct = r->project ? pl_remote_presigned_create(client, r->project, &r->closing) : NULL;
    e = r->windows && r->ahead && r->table && r->direct ? remote_ask_store(r, err) : pl_err_nomem(err);
    if (e < 0) {
        pl_remote_close(r);
        return e;
    }
    *ret = r;
    return 0;
}

struct pl_remote *pl_remote_close(struct pl_remote *r)
{
    if (!r)
        return NULL;
    atomic_store(&r->closing, true);
    pl_remote_prefetch_destroy(r->ahead);
    pl_pack_files_destroy(r->files);
    pl_pack_windows_destroy(r->windows);
    pl_remote_presigned_destroy(r->direct);
    pl_remote_locations_destroy(r->table);
    (void)sem_destroy(&r->daemon_streams);
    pthread_mutex_destroy(&r->lock);
    free(r->folder.dir);
    free(r->offers.dir);
    free(r->project);
    free(r);
    return NULL;
}

void pl_remote_interrupt(struct pl_remote *r)
{
    pl_http_client_interrupt(r->client);
    pl_remote_signed_interrupt(r->direct);
}

/* --- writing --- */

int pl_remote_session(struct pl_remote *r, struct pl_err *err)
{
    return pl_remote_session_for(r, 0, err);
}

static int post_session(struct pl_remote *r, uint64_t bytes, struct pl_err *err)
{
    json_t *body = json_pack("{s:s, s:o*}", "project", r->project, "bytes", bytes ? json_integer((json_int_t)bytes) : NULL),
           *answer;
    const char *session;
    int e = body ? pl_http_client_json_interruptible(r->client, "POST", "/api/v1/sessions", body, &r->closing, &answer, err)
                 : pl_err_nomem(err);

    json_decref(body);
    if (e < 0)
        return e;
    session = json_string_value(json_object_get(answer, "session"));
    if (!session || strlen(session) >= sizeof(r->session)) {
        e = pl_err_set(err, PL_EPROTO, "the answer of %s has no valid id of an upload session", pl_http_client_url(r->client));
    } else {
        pthread_mutex_lock(&r->lock);
        snprintf(r->session, sizeof(r->session), "%s", session);
        pthread_mutex_unlock(&r->lock);
    }
    json_decref(answer);
    return e;
}

int pl_remote_session_for(struct pl_remote *r, uint64_t bytes, struct pl_err *err)
{
    struct pl_err why = {0};
    int e = post_session(r, bytes, &why);

    /* a daemon refuses members that it does not know, and older ones do not know "bytes" */
    if (e == PL_EINVAL && bytes) {
        why = (struct pl_err){0};
        e = post_session(r, 0, &why);
    }
    if (e < 0 && err)
        *err = why;
    return e;
}

void pl_remote_end_session(struct pl_remote *r)
{
    _cleanup_free_ char *path = NULL;
    char session[64];

    pthread_mutex_lock(&r->lock);
    memcpy(session, r->session, sizeof(session));
    r->session[0] = '\0';
    pthread_mutex_unlock(&r->lock);
    if (!*session)
        return;
    path = pl_http_path_make("/api/v1/sessions/%s?project=%s", session, r->project);
    if (path)
        (void)!pl_http_client_json(r->client, "DELETE", path, NULL, NULL, NULL);
}

const char *pl_remote_session_id(const struct pl_remote *r)
{
    return r->session;
}

/* Copies the id of the present upload session to `out`. */
static char *remote_session(struct pl_remote *r, char out[64])
{
    pthread_mutex_lock(&r->lock);
    memcpy(out, r->session, sizeof(r->session));
    pthread_mutex_unlock(&r->lock);
    return out;
}

/* Asks the daemon which records it has. The reply has one byte for each id. */
static int sink_ask(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_buf *out, struct pl_err *err)
{
    char session[64];
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s/have?session=%s", r->project, remote_session(r, session));
    struct pl_http_call call = {.method = "POST",
                                .path = path,
                                .upload = PL_UPLOAD_BYTES,
                                .bytes = ids,
                                .len = n * PL_HASH_BYTES,
                                .out = out,
                                .interruptible = true};
    int e;

    if (!path)
        return pl_err_nomem(err);
    pl_buf_clear(out);
    e = pl_http_client_call(r->client, &call, NULL, err);
    if (e == 0)
        atomic_store(&r->offers.away, false);
    if (e == 0 && out->len != n)
        e = pl_err_set(err, PL_EPROTO, "the server's answer to \"have\" has %zu results for %zu ids", out->len, n);
    return e;
}

static int sink_has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = PL_REMOTE_HAVE_MAX};
    int e;

    memset(ret_bitmap, 0, (n + 7) / 8);
    for (size_t from = 0; from < n; from += PL_REMOTE_HAVE_MAX) {
        size_t count = PL_MIN(n - from, PL_REMOTE_HAVE_MAX);

        e = sink_ask(self, ids + from, count, &out, err);
        if (e < 0)
            return e;
        for (size_t i = 0; i < count; i++)
            if (out.data[i])
                ret_bitmap[(from + i) / 8] |= (uint8_t)(1u << (from + i) % 8);
    }
    return 0;
}

/* Handles the error `e` of an offer that was withdrawn. Returns 1 if sending the bytes may help, else the error: the
 * caller tries again, or gives up. */
static int offer_failed(struct offers *o, int e)
{
    switch (e) {
    case PL_ENET:
    case PL_ETIMEOUT:
    case PL_EBUSY:
    case PL_ESTOPPING:
        atomic_store(&o->away, true);
        return e;
    case PL_ECANCELED:
    case PL_ERETRY:
    case PL_EAUTH:
    case PL_ENOSPC:
        return e;
    case PL_EINVAL: /* the daemon may see another folder than this process, not own it, or not know offers */
    case PL_ENOTFOUND:
    case PL_EFORBIDDEN:
    case PL_EPROTO:
    case PL_EIO: /* it cannot rename the file or read it */
        atomic_store(&o->on, false);
        return 1;
    default:
        return 1;
    }
}

/* Writes the pack into the folder of the daemon's temporary files and tells the daemon, which then need not receive the bytes.
 * Returns 1 if that is not possible: the caller sends the bytes. */
static int offer_pack(struct pl_remote *r, const char *path, const void *bytes, size_t n, struct pl_err *err)
{
    _cleanup_free_ char *with_offer = NULL;
    char name[PL_OBJECT_OFFER_NAME];
    struct pl_err why = {0};
    struct pl_http_call call = {.method = "PUT",
                                .upload = PL_UPLOAD_BYTES,
                                .bytes = "",
                                .timeout_ms = OFFER_ANSWER_MS,
                                .may_stall = true,
                                .interruptible = true};
    uint64_t others;
    int e;

    if (!atomic_load(&r->offers.on) || atomic_load(&r->offers.away))
        return 1;
    others = atomic_fetch_add(&r->offers.making, n);
    e = pl_object_offer_make(r->offers.dir, bytes, n, r->offers.keep_free + others, name, &why);
    atomic_fetch_sub(&r->offers.making, n);
    if (e == PL_EUNAVAILABLE || e == PL_EINVAL)
        atomic_store(&r->offers.on, false);
    if (e < 0) /* without space the daemon refuses the bytes too, and says which disk */
        return 1;
    if (asprintf(&with_offer, "%s&offer=%s", path, name) < 0)
        with_offer = NULL;
    call.path = with_offer;
    e = with_offer ? pl_http_client_call(r->client, &call, NULL, &why) : pl_err_nomem(&why);
    pl_object_offer_withdraw(r->offers.dir, name); /* whatever the daemon says: it renames what it takes */
    if (e >= 0)
        return 0;
    e = offer_failed(&r->offers, e);
    if (e < 0 && err)
        *err = why;
    return e;
}

static int sink_put_pack(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    struct pl_remote *r = self;
    char session[64], hex[PL_HASH_HEX + 1];
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s/packs/%s?session=%s", r->project,
                                                  pl_hash_hex(pack_id, hex), remote_session(r, session));
    struct pl_http_call call = {
        .method = "PUT", .path = path, .upload = PL_UPLOAD_BYTES, .bytes = bytes, .len = n, .interruptible = true};
    int e;

    if (!path)
        return pl_err_nomem(err);
    e = offer_pack(r, path, bytes, n, err);
    if (e > 0)
        e = pl_remote_presigned_put(r->direct, session, pack_id, bytes, n);
    if (e == PL_ECANCELED)
        return pl_err_set(err, e, "the upload of pack %.12s was canceled", hex);
    if (e > 0) {
        e = pl_http_client_call(r->client, &call, NULL, err);
        if (e == 0)
            atomic_store(&r->offers.away, false);
    }
    return e < 0 ? pl_err_wrap(err, e, "upload of pack %.12s", hex) : 0;
}

struct pl_pack_sink pl_remote_sink(struct pl_remote *r)
{
    return (struct pl_pack_sink){.self = r, .has = sink_has, .put_pack = sink_put_pack};
}

/* --- locating --- */

/* Decodes one location; false if the record does not exist.
 *   0 u8 found  1 u8 codec  2 u8 kind  3 zero  4 u32 stored  8 u32 raw  12 zero 4  16 u64 offset of the record's head
 *   24 pack id 32  56 zero 24; all little-endian */
static bool location_decode(const uint8_t *in, struct pl_location *ret)
{
    struct pl_cursor c = pl_cursor_of(in, LOCATION_BYTES);
    bool found = pl_cursor_u8(&c) == 1;
    uint64_t offset;

    ret->codec = pl_cursor_u8(&c);
    ret->kind = pl_cursor_u8(&c);
    pl_cursor_bytes(&c, 1);
    ret->stored = pl_cursor_le32(&c);
    ret->raw = pl_cursor_le32(&c);
    pl_cursor_bytes(&c, 4);
    offset = pl_cursor_le64(&c);
    memcpy(ret->pack.b, pl_cursor_bytes(&c, PL_HASH_BYTES), PL_HASH_BYTES);
    ret->offset = (uint32_t)offset;
    /* refuse values that would make a reader request too much */
    return found && offset < PL_PACK_MAX_BYTES && PL_PACK_RECORD_BYTES + (uint64_t)ret->stored <= PL_PACK_MAX_BYTES - offset &&
           ret->raw <= PL_PACK_MAX_BYTES;
}

/* Joins records that lie close together into ranges, so that each range needs only one URL. */
static void plan_ranges(struct pl_remote *r, const struct pl_location *where, size_t n)
{
    _cleanup_free_ struct pl_location *sorted = reallocarray(NULL, n + 1, sizeof(*sorted));
    _cleanup_free_ struct pl_remote_range *ranges = reallocarray(NULL, n + 1, sizeof(*ranges));

    if (!sorted || !ranges)
        return; /* without a plan, the URL of each range is requested when it is read */
    memcpy(sorted, where, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), pl_remote_location_cmp);
    pl_remote_presigned_plan(r->direct, ranges, pl_remote_coalesce(sorted, n, PL_REMOTE_PREFETCH_RANGE, ranges));
}

/* Requests the locations of at most PL_REMOTE_HAVE_MAX records from the daemon, and stores them. `plan`: they will be
 * read by fetch_range. */
static int remote_locate(struct pl_remote *r, const struct pl_hash *ids, size_t n, bool plan, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = n * LOCATION_BYTES};
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s/locate", r->project);
    struct pl_http_call call = {.method = "POST",
                                .path = path,
                                .upload = PL_UPLOAD_BYTES,
                                .bytes = ids,
                                .len = n * PL_HASH_BYTES,
                                .out = &out,
                                .interruptible = true};
    _cleanup_free_ struct pl_location *found = reallocarray(NULL, n, sizeof(*found));
    size_t n_found = 0;
    int e;

    if (!path || !found)
        return pl_err_nomem(err);
    e = pl_http_client_call(r->client, &call, NULL, err);
    if (e == 0 && out.len != n * LOCATION_BYTES)
        e = pl_err_set(err, PL_EPROTO, "the server's answer to \"locate\" has %zu bytes for %zu ids", out.len, n);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; e == 0 && i < n; i++)
        if (location_decode(out.data + i * LOCATION_BYTES, &found[n_found]))
            e = pl_remote_locations_put(r->table, &ids[i], &found[n_found++], err);
    pthread_mutex_unlock(&r->lock);
    if (e == 0 && plan)
        plan_ranges(r, found, n_found);
    return e;
}

/* Requests the locations of those records whose location is not known. */
static int locate_for(struct pl_remote *r, const struct pl_hash *ids, size_t n, bool plan, struct pl_err *err)
{
    _cleanup_free_ struct pl_hash *unknown = NULL;
    struct pl_location where;
    size_t n_unknown = 0;
    int e = 0;

    if (n == 0)
        return 0;
    unknown = calloc(n, sizeof(*unknown));
    if (!unknown)
        return pl_err_nomem(err);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < n; i++)
        if (!pl_remote_locations_find(r->table, &ids[i], &where))
            unknown[n_unknown++] = ids[i];
    pthread_mutex_unlock(&r->lock);
    for (size_t from = 0; e == 0 && from < n_unknown; from += PL_REMOTE_HAVE_MAX)
        e = remote_locate(r, unknown + from, PL_MIN(n_unknown - from, PL_REMOTE_HAVE_MAX), plan, err);
    return e;
}

int pl_remote_locate(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_err *err)
{
    return locate_for(r, ids, n, true, err);
}

int pl_remote_will_read(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_err *err)
{
    _cleanup_free_ struct pl_location *where = NULL;
    size_t n_known = 0;
    int e = pl_remote_locate(r, ids, n, err);

    if (e < 0 || n == 0 || r->files)
        return e;
    where = reallocarray(NULL, n, sizeof(*where));
    if (!where)
        return pl_err_nomem(err);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < n; i++)
        n_known += pl_remote_locations_find(r->table, &ids[i], &where[n_known]);
    pthread_mutex_unlock(&r->lock);
    pl_remote_prefetch_plan(r->ahead, where, n_known,
                            pl_remote_presigned_reads(r->direct) ? PL_REMOTE_PREFETCH_THREADS : DAEMON_FETCHES);
    return 0;
}

/* --- reading --- */

static bool remote_known(struct pl_remote *r, const struct pl_hash *id, struct pl_location *ret)
{
    bool known;

    pthread_mutex_lock(&r->lock);
    known = pl_remote_locations_find(r->table, id, ret);
    pthread_mutex_unlock(&r->lock);
    return known;
}

static int remote_where(struct pl_remote *r, const struct pl_hash *id, struct pl_location *ret, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    int e = 0;

    if (remote_known(r, id, ret))
        return 0;
    e = remote_locate(r, id, 1, true, err);
    if (e < 0 || remote_known(r, id, ret))
        return e;
    return pl_err_set(err, PL_ENOTFOUND, "there is no record %.12s in project %s", pl_hash_hex(id, hex), r->project);
}

struct wanted {
    struct pl_pack_entry entry;
    struct pl_buf *ret;
};

static int read_wanted(const struct pl_pack_input *in, void *arg, struct pl_err *err)
{
    const struct wanted *w = arg;

    return pl_pack_record_read(in, &w->entry, w->ret, err);
}

static int remote_read(struct pl_remote *r, const struct pl_hash *id, const struct pl_location *where, struct pl_buf *ret,
                       struct pl_err *err)
{
    struct wanted w = {{*id, where->offset, where->stored, where->raw, where->codec, where->kind}, ret};
    char hex[PL_HASH_HEX + 1];
    int e;

    /* ignore an error: the daemon may be able to read a file that this process cannot read */
    if (r->files && pl_pack_files_read(r->files, &where->pack, read_wanted, &w, NULL) == 0)
        return 0;
    if (pl_remote_prefetch_read(r->ahead, id, where, ret) == 0)
        return 0;
    e = pl_pack_windows_read(r->windows, id, where, ret, NULL, err);
    return e < 0 ? pl_err_wrap(err, e, "pack %.12s", pl_hash_hex(&where->pack, hex)) : 0;
}

/* Reads a record. If that fails, locates the record again and reads it a second time. */
static int reader_get(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_remote *r = self;
    struct pl_location where;
    int e = remote_where(r, id, &where, err);
    bool doubts;

    (void)kind; /* the daemon knows it, and the bytes are checked against their hash */
    if (e == 0)
        e = remote_read(r, id, &where, ret, err);
    /* the record may have been moved, or damaged in transit: try once more */
    if (e == PL_ENOTFOUND || e == PL_ECORRUPT) {
        pthread_mutex_lock(&r->lock);
        pl_remote_locations_forget(r->table, id);
        pthread_mutex_unlock(&r->lock);
        doubts = e == PL_ECORRUPT;
        atomic_fetch_add(&r->doubting, doubts);
        e = remote_where(r, id, &where, err);
        if (e == 0)
            e = remote_read(r, id, &where, ret, err);
        atomic_fetch_sub(&r->doubting, doubts);
    }
    return e;
}

static void reader_will_read(void *self, const struct pl_hash *ids, size_t n)
{
    /* ignore an error: the reads repeat the request and report it */
    (void)!pl_remote_will_read(self, ids, n, NULL);
}

static void reader_stream(void *self, const struct pl_hash *ids, size_t n, pl_chunk_take take, void *arg)
{
    struct pl_remote *r = self;
    const struct pl_remote_stream_source source = {.self = r, .plan = plan_stream, .fetch = stream_range};
    _cleanup_free_ struct pl_remote_wanted *list = calloc(n + 1, sizeof(*list));
    size_t known = 0;

    /* records that were damaged or not found are looked up anew by `get` */
    if (!list || atomic_load(&r->doubting) > 0 || locate_for(r, ids, n, false, NULL) < 0)
        return;
    for (size_t i = 0; i < n; i++) {
        list[known].id = ids[i];
        list[known].i = i;
        known += remote_known(r, &ids[i], &list[known].where);
    }
    pl_remote_stream_read(&source, list, known, take, arg);
}

struct pl_chunk_reader pl_remote_reader(struct pl_remote *r)
{
    struct pl_chunk_reader reader = {.self = r, .get = reader_get, .will_read = reader_will_read};

    if (r->files)
        return reader;
    reader.stream = reader_stream;
    reader.streams = STREAMS;
    return reader;
}

/* --- entries --- */

int pl_remote_entries(struct pl_remote *r, const struct pl_hash *root, const char *path, const char *const *files,
                      int (*write)(void *self, const void *data, size_t n, struct pl_err *err), void *self, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf url = {0};
    char hex[PL_HASH_HEX + 1];
    struct pl_http_call call = {.method = "GET", .write = write, .write_self = self};
    int e = pl_buf_addf(&url, err, "/api/v1/trees/%s/%s/entries?path=", r->project, pl_hash_hex(root, hex));

    if (e == 0)
        e = pl_http_escape(&url, path, false, err);
    for (size_t i = 0; e == 0 && files && files[i]; i++) {
        e = pl_buf_add_str(&url, "&files=", err);
        if (e == 0)
            e = pl_http_escape(&url, files[i], false, err);
    }
    if (e < 0)
        return e;
    call.path = pl_buf_str(&url);
    return call.path ? pl_http_client_call(r->client, &call, NULL, err) : pl_err_nomem(err);
}

int pl_remote_named_entries(struct pl_remote *r, const struct pl_hash *root, const char *path, const struct pl_buf *names,
                            struct pl_buf *ret, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    _cleanup_free_ char *url = pl_http_path_make("/api/v1/trees/%s/%s/entries?path=%s", r->project, pl_hash_hex(root, hex), path);
    const struct pl_http_call call = {
        .method = "POST", .path = url, .upload = PL_UPLOAD_BYTES, .bytes = names->data, .len = names->len, .out = ret};

    return url ? pl_http_client_call(r->client, &call, NULL, err) : pl_err_nomem(err);
}
