/* Transfers that bypass the daemon: presigned URLs for packs in the bucket, and the registration of packs
 * uploaded with them. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/transfer/upload_session.h"
#include "pipelined/api/transfer/upload_verify.h"
#include "storage/pack/pack_format.h"

#include <stdio.h>

#define URLS_MAX   256 /* largest number of URLs in one request */
#define LIFE_GET_S 900 /* seconds that a URL for reading is valid */
/* seconds that a URL for writing is valid; the lease of a session in use lasts at least that much longer */
#define LIFE_PUT_S 600
#define BODY_MAX   (1 << 20)

/* State of a request whose body lists packs; passed to the function that handles one item of the list. */
struct asked {
    struct pl_api *api;
    struct pl_http_request *req;
    struct pl_store *store;
    const json_t *one;
    json_t *answers;
};

static int bad_item(const json_error_t *e, const char *list, size_t i, struct pl_err *err)
{
    return pl_err_field(err, pl_err_set(err, PL_EINVAL, "%s[%zu]: %s", list, i, e->text), list);
}

static int hash_of(const char *hex, const char *name, struct pl_hash *ret, struct pl_err *err)
{
    int r = pl_hash_parse(hex, ret, err);

    return r < 0 ? pl_err_field(err, r, name) : 0;
}

/* Calls `step` for each item of the array `list` in the body; `step` adds the item's reply to the result. */
static int each(struct pl_api *a, struct pl_http_request *req, const char *list,
                int (*step)(struct asked *k, size_t i, struct pl_err *err), json_t **ret, const char *name, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    _cleanup_(json_decrefp) json_t *answers = json_array();
    struct asked k = {.api = a, .req = req, .answers = answers};
    json_t *items = NULL;
    int r = pl_api_body(req, &body, err, "{s:o}", list, &items);

    r = r < 0 ? r : pl_api_store(a, req, &k.store, err);
    if (r == 0 && (!json_is_array(items) || json_array_size(items) > URLS_MAX))
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "\"%s\" is not a list of at most %d entries", list, URLS_MAX), list);
    for (size_t i = 0; r == 0 && i < json_array_size(items); i++) {
        k.one = json_array_get(items, i);
        r = step(&k, i, err);
    }
    if (r < 0)
        return r;
    *ret = json_pack("{s:O}", name, answers);
    return *ret ? 0 : pl_err_nomem(err);
}

static int add_url(json_t *answers, const struct pl_object_signed *q, struct pl_err *err)
{
    json_t *headers = json_array();

    for (size_t i = 0; i < q->n_headers; i++)
        json_array_append_new(headers, json_string(q->headers[i]));
    return pl_json_add(answers,
                       json_pack("{s:s, s:o, s:I}", "url", q->url, "headers", headers, "expires_s", (json_int_t)q->expires_s),
                       err);
}

/* ---- URLs for reading ---- */

static int sign_get(struct asked *k, size_t i, struct pl_err *err)
{
    const char *pack = NULL;
    json_int_t offset = 0, bytes = 0;
    char key[PL_PACK_KEY_BYTES];
    struct pl_object_signed q = {0};
    struct pl_hash id;
    json_error_t e;
    int r;

    if (json_unpack_ex((json_t *)k->one, &e, JSON_STRICT, "{s:s, s:I, s:I}", "pack", &pack, "offset", &offset, "bytes", &bytes) <
        0)
        return bad_item(&e, "ranges", i, err);
    r = hash_of(pack, "ranges", &id, err);
    if (r == 0 && (offset < 0 || bytes < 1 || offset > (json_int_t)PL_PACK_MAX_BYTES || bytes > (json_int_t)PL_PACK_MAX_BYTES))
        r = pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "ranges[%zu] is not a range of a pack: its offset or its bytes are out of bounds", i),
            "ranges");
    if (r == 0 && !pl_store_has_pack(k->store, &id)) /* a missing pack does not fail the other items */
        return pl_json_add(k->answers, json_pack("{s:b}", "there", 0), err);
    r = r < 0 ? r
              : pl_object_sign_get(pl_store_objects(k->store), pl_pack_key(pl_store_project(k->store), &id, key),
                                   (uint64_t)offset, (uint64_t)bytes, LIFE_GET_S, &q, err);
    r = r < 0 ? r : add_url(k->answers, &q, err);
    pl_object_signed_finish(&q);
    atomic_fetch_add(&k->api->moved.urls_get, r == 0);
    return r;
}

static int get_urls(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    if (!(pl_object_caps(pl_project_stores_objects(a->config.stores)) & PL_OBJECT_SIGNED_GET))
        return pl_err_set(err, PL_EUNAVAILABLE, "the store cannot make URLs that are limited to a range: use GET …/packs/{id}");
    return each(a, req, "ranges", sign_get, ret, "urls", err);
}

/* ---- URLs for writing, and registration ---- */

static int check_size(json_int_t bytes, size_t i, struct pl_err *err)
{
    if (bytes >= (json_int_t)PL_PACK_OVERHEAD(0) && bytes <= (json_int_t)PL_PACK_MAX_BYTES)
        return 0;
    return pl_err_field(err,
                        pl_err_set(err, PL_EINVAL, "packs[%zu]: a pack cannot have %lld bytes: it has from %zu to %zu", i,
                                   (long long)bytes, PL_PACK_OVERHEAD(0), PL_PACK_MAX_BYTES),
                        "packs");
}

/* Makes the URL for one pack, or replies that the pack exists already. */
static int sign_put(struct asked *k, size_t i, struct pl_err *err)
{
    const char *pack = NULL, *sha256 = NULL;
    char key[PL_PACK_KEY_BYTES];
    struct pl_object_signed q = {0};
    struct pl_hash id, hash;
    struct pl_direct_upload b;
    json_int_t bytes = 0;
    json_error_t e;
    int r;

    if (json_unpack_ex((json_t *)k->one, &e, JSON_STRICT, "{s:s, s:I, s:s}", "pack", &pack, "bytes", &bytes, "sha256", &sha256) <
        0)
        return bad_item(&e, "packs", i, err);
    r = hash_of(pack, "packs", &id, err);
    r = r < 0 ? r : hash_of(sha256, "packs", &hash, err);
    r = r < 0 ? r : check_size(bytes, i, err);
    r = r < 0 ? r
              : pl_upload_session_add_pack(k->api->config.db, pl_store_project(k->store), pl_http_query(k->req, "session"), &id,
                                           err);
    if (r == 0 && pl_store_has_pack(k->store, &id))
        return pl_json_add(k->answers, json_pack("{s:b}", "there", 1), err);
    if (r < 0)
        return r;
    pl_upload_verify_origin(k->req, pl_store_project(k->store), &id, (uint64_t)bytes, &b);
    r = pl_upload_verify_expect(k->api->read_back, &b, err);
    r = r < 0 ? r
              : pl_object_sign_put(pl_store_objects(k->store), pl_pack_key(b.project, &id, key), (uint64_t)bytes, sha256,
                                   LIFE_PUT_S, &q, err);
    r = r < 0 ? r : add_url(k->answers, &q, err);
    pl_object_signed_finish(&q);
    atomic_fetch_add(&k->api->moved.urls_put, r == 0);
    return r;
}

static int put_urls(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    int r = pl_upload_session_use(a->config.db, pl_http_query(req, "session"), pl_http_param(req, "project"), err);

    if (r < 0)
        return r;
    if (!(pl_object_caps(pl_project_stores_objects(a->config.stores)) & PL_OBJECT_SIGNED_PUT))
        return pl_err_set(err, PL_EUNAVAILABLE,
                          "the store cannot make URLs that are limited to given bytes: use PUT …/packs/{id}");
    if (pl_upload_verify_is_full(a->read_back))
        return pl_err_set(err, PL_EUNAVAILABLE, "%d packs wait for verification: use PUT …/packs/{id}", PL_UPLOAD_VERIFY_MAX);
    return each(a, req, "packs", sign_put, ret, "urls", err);
}

/* Registers one pack that was uploaded with a URL. */
static int take_in(struct asked *k, size_t i, struct pl_err *err)
{
    const char *pack = NULL;
    json_int_t bytes = 0;
    struct pl_direct_upload b;
    struct pl_hash id;
    json_error_t e;
    int r;

    if (json_unpack_ex((json_t *)k->one, &e, JSON_STRICT, "{s:s, s:I}", "pack", &pack, "bytes", &bytes) < 0)
        return bad_item(&e, "packs", i, err);
    r = hash_of(pack, "packs", &id, err);
    r = r < 0 ? r : check_size(bytes, i, err);
    if (r < 0)
        return r;
    pl_upload_verify_origin(k->req, pl_store_project(k->store), &id, (uint64_t)bytes, &b);
    r = pl_upload_session_add_pack(k->api->config.db, b.project, b.session, &id, err);
    r = r < 0 ? r : pl_upload_verify_add(k->api->read_back, &b, err);
    if (r < 0)
        return pl_err_wrap(err, r, "pack %.12s", pack);
    pl_upload_sessions_count_bytes(k->api->sessions, b.session, b.bytes);
    return pl_json_add(k->answers, json_string(pack), err);
}

static int post_packs(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    int r = pl_upload_session_use(a->config.db, pl_http_query(req, "session"), pl_http_param(req, "project"), err);

    r = r < 0 ? r : each(a, req, "packs", take_in, ret, "packs", err);
    return r < 0 ? r : 201;
}

static const struct pl_api_route routes[] = {
    {"POST", "/api/v1/projects/{project}/get-urls", get_urls, .body = PL_BODY_JSON, .body_max = BODY_MAX, .verb = PL_VERB_FETCH,
     .summary = "Returns for each range of a pack a URL that reads it from the bucket, valid for 15 minutes, and the headers to "
                "send; `there` is false for a pack that is missing.",
     .request = "GetUrls", .reply = "SignedUrls"},
    {"POST", "/api/v1/projects/{project}/put-urls", put_urls, .body = PL_BODY_JSON, .body_max = BODY_MAX, .verb = PL_VERB_STORE,
     .summary = "Returns for each pack a URL that uploads it to the bucket: exactly the bytes with this SHA-256.",
     .query = "session", .request = "PutUrls", .reply = "SignedUrls"},
    {"POST", "/api/v1/projects/{project}/packs", post_packs, .costly = true, .body = PL_BODY_JSON, .body_max = BODY_MAX,
     .verb = PL_VERB_STORE, .summary = "Registers packs that were uploaded to the bucket; every record is verified later.",
     .query = "session", .request = "BroughtPacks", .reply = "PackIds"},
};
static const struct pl_api_schema schemas[] = {
    {"PackRange", "pack:string offset:integer bytes:integer"},
    {"GetUrls", "ranges:PackRange[]"},
    {"PackToPut", "pack:string bytes:integer sha256:string"},
    {"PutUrls", "packs:PackToPut[]"},
    {"SignedUrl", "url:string? headers:string[]? expires_s:integer? there:boolean?"},
    {"SignedUrls", "urls:SignedUrl[]"},
    {"BroughtPack", "pack:string bytes:integer"},
    {"BroughtPacks", "packs:BroughtPack[]"},
    {"PackIds", "packs:string[]"},
};
PL_API_TABLE(signed, routes, schemas);
