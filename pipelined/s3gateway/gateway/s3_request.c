/* Takes a request from its headers to its operation: parses bucket and key, selects the operation, verifies
 * the signature, receives the body, and runs the operation. */
#include "pipelined/s3gateway/gateway/gateway_internal.h"

#include "storage/base/clock.h"
#include "storage/object/object.h"
#include "storage/system/log_line.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define AMZ "x-amz-"

/* ---- query, headers, replies ---- */

const char *pl_s3_query(const struct pl_s3_request *q, const char *name)
{
    return pl_http_query(q->http, name);
}

const char *pl_s3_query_or_empty(const struct pl_s3_request *q, const char *name)
{
    const char *text = pl_s3_query(q, name);

    return text ? text : "";
}

bool pl_s3_number(const char *text, uint64_t *ret)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return !errno && !*end;
}

const char *pl_s3_header(const struct pl_s3_request *q, const char *name)
{
    const char *value = pl_http_header(q->http, name);
    const struct pl_http_pair *arguments;
    size_t n;

    /* asked before the signature is read, too, so the claim does not say yet whether the request is presigned */
    if (value || strncasecmp(name, AMZ, strlen(AMZ)) != 0 || !pl_s3_query(q, "X-Amz-Signature"))
        return value;
    arguments = pl_http_queries(q->http, &n);
    for (size_t i = 0; i < n && !value; i++)
        if (strcasecmp(arguments[i].name, name) == 0)
            value = arguments[i].value;
    return value;
}

size_t pl_s3_amz_headers(const struct pl_s3_request *q, const char *prefix, const struct pl_http_pair *ret[PL_S3_AMZ_MAX])
{
    size_t n_headers, n_arguments, n = 0;
    const struct pl_http_pair *headers = pl_http_headers(q->http, &n_headers);
    const struct pl_http_pair *arguments = pl_http_queries(q->http, &n_arguments);

    assert(n_headers <= PL_SIGV4_PAIRS_MAX && n_arguments <= PL_SIGV4_PAIRS_MAX);
    for (size_t i = 0; i < n_headers; i++)
        if (strncasecmp(headers[i].name, prefix, strlen(prefix)) == 0)
            ret[n++] = &headers[i];
    for (size_t i = 0; i < n_arguments && q->claim.presigned; i++)
        if (strncasecmp(arguments[i].name, prefix, strlen(prefix)) == 0 && !pl_http_header(q->http, arguments[i].name))
            ret[n++] = &arguments[i];
    return n;
}

void pl_s3_reply_header(struct pl_s3_request *q, const char *name, const char *value)
{
    pl_http_reply_header(q->http, name, value);
}

void pl_s3_reply_xml(struct pl_s3_request *q, struct pl_buf *xml)
{
    pl_http_reply_buf(q->http, 200, PL_S3_XML, xml);
}

int pl_s3_query_number(const struct pl_s3_request *q, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                       struct pl_err *err)
{
    const char *text = pl_s3_query(q, name);
    size_t digits = text ? strspn(text, "0123456789") : 0;

    *ret = fallback;
    if (!text || !*text)
        return 0;
    if (text[digits] || digits > 18)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Provided %s not an integer or within integer range", name);
    *ret = PL_MIN(strtoull(text, NULL, 10), max);
    return 0;
}

void pl_s3_request_end(struct pl_s3_request *q)
{
    if (!q)
        return;
    if (q->drop_more)
        q->drop_more(q->more);
    pl_store_release(&q->hold);
    pl_s3_body_destroy(q->body);
    pl_principal_unref(q->who);
    free(q->path);
    free(q);
}

/* Returns what clients may know of a failure of the store. */
static const char *failure_text(int code)
{
    switch (code) {
    case PL_ECORRUPT:
        return "Data in the daemon's store is damaged.";
    case PL_EBUSY:
        return "The daemon's store asks for fewer requests: try again later.";
    case PL_ENOSPC:
        return "The daemon's store is full.";
    default:
        return "The daemon's store failed.";
    }
}

void pl_s3_refuse(struct pl_s3_request *q, const struct pl_err *err)
{
    struct pl_err told = {0};
    int code = pl_s3_error_of_store(err->code, pl_streq(err->field, PL_OBJECT_ERR_FIELD));

    if (!code || q->forbidden) {
        pl_http_reply_error(q->http, err);
        return;
    }
    /* Another server's codes and names would read as if the client's key or bucket were wrong. */
    pl_log_warn("s3", "request %llu failed at the store: %s", (unsigned long long)pl_http_request_id(q->http), err->msg);
    pl_err_set(&told, code, "%s Its log says more, at request %llu.", failure_text(err->code),
               (unsigned long long)pl_http_request_id(q->http));
    pl_http_reply_error(q->http, &told);
}

/* ---- bucket and key ---- */

/* Gets "bucket" from a Host header "bucket.domain[:port]"; false if the host is not below the domain. */
static bool bucket_of_host(const struct pl_s3_request *q, char ret[PL_S3_BUCKET_MAX + 1])
{
    const char *host = pl_s3_header(q, "Host"), *domain = q->s3->domain;
    size_t len = host ? strcspn(host, ":") : 0, tail = strlen(domain);

    if (!*domain || len < tail + 2 || len - tail - 1 > PL_S3_BUCKET_MAX || host[len - tail - 1] != '.' ||
        strncasecmp(host + len - tail, domain, tail) != 0)
        return false;
    snprintf(ret, PL_S3_BUCKET_MAX + 1, "%.*s", (int)(len - tail - 1), host);
    return true;
}

int pl_s3_read_names(struct pl_s3_request *q, struct pl_err *err)
{
    const char *tail = pl_http_param(q->http, "path");
    size_t len;

    if (asprintf(&q->path, "/%s", tail) < 0) {
        q->path = NULL;
        return pl_err_nomem(err);
    }
    q->key = q->path + 1;
    if (!bucket_of_host(q, q->bucket)) {
        len = strcspn(q->key, "/");
        if (len > PL_S3_BUCKET_MAX)
            return pl_s3_error(err, PL_S3_INVALID_BUCKET_NAME);
        snprintf(q->bucket, sizeof q->bucket, "%.*s", (int)len, q->key);
        q->key += len + (q->key[len] == '/');
    }
    q->key_len = strlen(q->key);
    return 0;
}

/* ---- operation ---- */

static enum pl_s3_level level_of(const struct pl_s3_request *q)
{
    return *q->key ? PL_S3_OBJECT : *q->bucket ? PL_S3_BUCKET : PL_S3_SERVICE;
}

/* Arguments of operations that are found by their method alone. Clients send many of them without a value. */
static bool is_parameter(const char *name)
{
    static const char *const names[] = {"bucket-region", "continuation-token", "delimiter",  "encoding-type",
                                        "fetch-owner",   "key-marker",         "list-type",  "marker",
                                        "max-buckets",   "max-keys",           "partNumber", "prefix",
                                        "start-after",   "versionId",          "x-id"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        if (pl_streq(name, names[i]))
            return true;
    return strncasecmp(name, AMZ, strlen(AMZ)) == 0 || strncmp(name, "response-", 9) == 0;
}

/* True if the query argument is one by which S3 tells operations apart: of any method, or one that this gateway does
 * not know, which is recognized by its lack of a value. */
static bool is_subresource(const struct pl_http_pair *argument)
{
    for (size_t i = 0; i < pl_s3_n_ops; i++)
        if (pl_s3_ops[i].query && pl_streq(pl_s3_ops[i].query, argument->name))
            return true;
    return *argument->name && !*argument->value && !is_parameter(argument->name);
}

/* Finds the operation. One that is found by its method alone does not stand for the calls that have a sub-resource
 * besides: PUT of a key with "?torrent" must not put the object. */
static int find_op(struct pl_s3_request *q, struct pl_err *err)
{
    enum pl_s3_level level = level_of(q);
    const struct pl_http_pair *arguments;
    size_t n;

    for (size_t i = 0; i < pl_s3_n_ops; i++) {
        const struct pl_s3_op *op = &pl_s3_ops[i];

        if (op->level != level || !pl_streq(op->method, pl_http_method(q->http)) || (op->query && !pl_s3_query(q, op->query)) ||
            (op->header && !pl_s3_header(q, op->header)))
            continue;
        q->op = op;
        arguments = pl_http_queries(q->http, &n);
        for (size_t k = 0; k < n && !op->query && !q->subresource; k++)
            if (is_subresource(&arguments[k]))
                q->subresource = arguments[k].name;
        return 0;
    }
    return pl_s3_error(err, PL_S3_METHOD_NOT_ALLOWED);
}

/* ---- authentication ---- */

static int verdict(enum pl_sigv4_verdict v, const struct pl_err *why, struct pl_err *err)
{
    static const int codes[] = {
        [PL_SIGV4_NONE] = PL_S3_ACCESS_DENIED,          [PL_SIGV4_V2] = PL_S3_INVALID_REQUEST,
        [PL_SIGV4_BAD_HEADER] = PL_S3_BAD_HEADER,       [PL_SIGV4_BAD_QUERY] = PL_S3_BAD_QUERY,
        [PL_SIGV4_BOTH] = PL_S3_INVALID_ARGUMENT,       [PL_SIGV4_SKEWED] = PL_S3_TIME_TOO_SKEWED,
        [PL_SIGV4_EXPIRED] = PL_S3_ACCESS_DENIED,       [PL_SIGV4_UNSIGNED_HEADER] = PL_S3_ACCESS_DENIED,
        [PL_SIGV4_MISMATCH] = PL_S3_SIGNATURE_MISMATCH,
    };
    const char *message = pl_sigv4_verdict_info(v)->message;

    if (v == PL_SIGV4_OK)
        return 0;
    if (v == PL_SIGV4_V2)
        return pl_err_set(err, codes[v],
                          "Signature Version 2 is not supported. Please use AWS4-HMAC-SHA256: in boto3, "
                          "Config(signature_version=\"s3v4\") or a region such as eu-central-1.");
    return pl_err_set(err, codes[v], *why->msg ? "%s (%s)" : "%s", message, why->msg);
}

/* A request signed in its headers must state its payload hash. */
static int read_payload(struct pl_s3_request *q, const struct pl_sigv4_request *request, struct pl_err *err)
{
    q->payload = pl_sigv4_claim_payload(&q->claim, request);
    if (!q->claim.presigned && !pl_s3_header(q, "x-amz-content-sha256"))
        return pl_err_set(err, PL_S3_INVALID_REQUEST, "Missing required header for this request: x-amz-content-sha256");
    return 0;
}

/* A request without a body must not state the hash of other bytes. Operations that are not implemented are
 * refused by their name, whatever body they have. */
static int check_no_body(const struct pl_s3_request *q, struct pl_err *err)
{
    if (q->op->run && !q->subresource && !q->op->body_max && strspn(q->payload, "0123456789abcdefABCDEF") == PL_SIGV4_HEX &&
        strcasecmp(q->payload, PL_SIGV4_EMPTY_SHA256) != 0)
        return pl_s3_error(err, PL_S3_WRONG_SHA256);
    return 0;
}

/* allows the casts from pl_http_pair to pl_sigv4_pair in verify() */
_Static_assert(sizeof(struct pl_http_pair) == sizeof(struct pl_sigv4_pair), "a name and a value");

/* Checks the request's signature and fills claim, who, payload and signing key. `secret` is scratch space;
 * the caller clears it. */
static int verify(struct pl_s3_request *q, char secret[PL_S3_SECRET_MAX + 1], struct pl_err *err)
{
    struct pl_sigv4_request request = {.method = pl_http_method(q->http), .path = q->path};
    struct pl_err why = {0};
    enum pl_sigv4_verdict v;
    int r;

    request.query = (const struct pl_sigv4_pair *)(const void *)pl_http_queries(q->http, &request.n_query);
    request.headers = (const struct pl_sigv4_pair *)(const void *)pl_http_headers(q->http, &request.n_headers);
    v = pl_sigv4_claim_read(&request, &q->claim, &why);
    r = verdict(v, &why, err);
    if (r == 0 && !pl_streq(q->claim.scope.service, "s3"))
        r = pl_err_set(err, q->claim.presigned ? PL_S3_BAD_QUERY : PL_S3_BAD_HEADER,
                       "Credential should be scoped to correct service: 's3'.");
    r = r < 0 ? r : pl_s3_authenticate(q, q->claim.access_key, secret, err);
    r = r < 0 ? r : verdict(pl_sigv4_claim_fresh(&q->claim, pl_clock_wall_us() / 1000000), &why, err);
    r = r < 0 ? r : read_payload(q, &request, err);
    if (r < 0)
        return r;
    request.payload = q->payload;
    r = pl_sigv4_key(secret, &q->claim.scope, &q->signing, err);
    r = r < 0 ? r : verdict(pl_sigv4_claim_check(&q->claim, &request, &q->signing, &why), &why, err);
    return r < 0 ? r : check_no_body(q, err);
}

/* Authenticates the request. A wrong key or signature counts as a refused request of the address, like a
 * wrong token. */
static int who_asks(struct pl_s3_request *q, struct pl_err *err)
{
    char secret[PL_S3_SECRET_MAX + 1] = "";
    int r = verify(q, secret, err);

    explicit_bzero(secret, sizeof secret);
    if (r == PL_S3_ACCESS_DENIED || r == PL_S3_INVALID_ACCESS_KEY || r == PL_S3_SIGNATURE_MISMATCH)
        r = pl_guard_refuse(q->services->guard, pl_http_peer(q->http), r, err);
    return r;
}

/* ---- run ---- */

const char *pl_s3_audit_target(const struct pl_s3_request *q, char out[512])
{
    snprintf(out, 512, "S3 %s %.480s", pl_http_method(q->http), pl_http_path(q->http));
    return out;
}

/* Audits and counts the refusal of a request that has a valid signature. Returns the error code for the
 * reply. */
static int tell_refusal(const struct pl_s3_request *q, int code, struct pl_err *err)
{
    char target[512];

    if (code != PL_EFORBIDDEN || !q->forbidden || !q->who)
        return code;
    pl_audit_write_refused(q->services->audit, q->who, pl_http_peer(q->http), pl_s3_audit_target(q, target));
    return pl_guard_forbid(q->services->guard, q->who, code, err);
}

/* Runs the operation, replies to errors, and frees `q` unless the reply comes later. */
static void run(struct pl_s3_request *q)
{
    struct pl_err err = {0};
    int r = q->op->run(q, &err);

    if (r == PL_S3_ANSWERS_LATER)
        return;
    if (r < 0) {
        err.code = tell_refusal(q, r, &err);
        pl_s3_refuse(q, &err);
    }
    pl_s3_request_end(q);
}

static void run_turn(void *self)
{
    struct pl_s3_request *q = self;
    struct pl_err err = {0};

    /* the key may have been revoked while the request waited */
    if (pl_principal_stands(q->who, pl_clock_wall_us())) {
        run(q);
        return;
    }
    pl_err_set(&err, PL_S3_ACCESS_DENIED, "The key was deleted, or lost a role, while the request waited.");
    pl_s3_refuse(q, &err);
    pl_s3_request_end(q);
}

/* Runs the operation at once. A costly operation runs when it is the user's turn (pool_turns.h). */
static void run_soon(struct pl_s3_request *q)
{
    struct pl_err err = {0};

    if (!q->op->costly) {
        run(q);
    } else if (pl_turns_run(q->services->turns, q->who->name, run_turn, q, &err) < 0) {
        pl_s3_refuse(q, &err);
        pl_s3_request_end(q);
    }
}

static int body_write(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct pl_s3_request *q = self;

    return pl_s3_body_write(q->body, data, n, err);
}

/* Checks key, role, repo and disk space a second time, because receiving the body may have taken hours. */
static int ask_again(struct pl_s3_request *q, struct pl_err *err)
{
    char secret[PL_S3_SECRET_MAX + 1] = "";
    int r = 0;

    if (!pl_principal_stands(q->who, pl_clock_wall_us())) {
        q->who = pl_principal_unref(q->who);
        r = pl_s3_authenticate(q, q->claim.access_key, secret, err);
        explicit_bzero(secret, sizeof secret);
    }
    r = r < 0 || !q->target.store ? r : pl_s3_target(q, PL_VERB_WRITE, err);
    return r < 0 || !q->op->brings || q->body->spool.fd < 0 ? r
                                                            : pl_disk_watch_admit(q->services->disks, q->body->spool.size, err);
}

static void body_end(void *self, struct pl_http_request *http, const struct pl_err *failure)
{
    struct pl_s3_request *q = self;
    struct pl_err err = {0};
    int r = failure ? failure->code : pl_s3_body_check(q->body, &err);

    (void)http;
    r = r < 0 ? r : ask_again(q, &err);
    if (r == 0) {
        run_soon(q);
        return;
    }
    err.code = r;
    if (failure)
        pl_http_reply_error(q->http, failure); /* the client's connection, not the store's */
    else
        pl_s3_refuse(q, &err);
    pl_s3_request_end(q);
}

/* Checks that there is disk space for the body. */
static int admit(struct pl_s3_request *q, struct pl_err *err)
{
    const struct pl_s3_body *b = q->body;

    if (b && b->length > b->spool.memory_max)
        return pl_disk_watch_admit_spooled(q->services->disks, b->length, err);
    return pl_disk_watch_admit(q->services->disks, b ? b->length : 0, err);
}

/* Checks the owners that the client expects. Every bucket belongs to the caller, under the id that lists and ACLs
 * give (pl_s3_add_owner). */
static int check_owner(const struct pl_s3_request *q, struct pl_err *err)
{
    static const char *const headers[] = {"x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(headers); i++) {
        const char *owner = pl_s3_header(q, headers[i]);

        if (owner && !pl_streq(owner, q->claim.access_key))
            return pl_err_set(err, PL_S3_ACCESS_DENIED, "%s: \"%.80s\" is not the owner: the owner's id is \"%s\".", headers[i],
                              owner, q->claim.access_key);
    }
    return 0;
}

static int check_implemented(const struct pl_s3_request *q, struct pl_err *err)
{
    if (q->subresource)
        return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "?%.80s is not implemented here.", q->subresource);
    return q->op->run ? 0 : pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "%s is not implemented here.", q->op->name);
}

/* True for a browser's form (PostObject). Its signature is a field of its body, so it would be refused as unsigned if it
 * were not refused as not implemented first. */
static bool is_refused_form(const struct pl_s3_request *q)
{
    const char *type = pl_s3_header(q, "Content-Type");

    return !q->op->run && type && strncasecmp(type, "multipart/form-data", 19) == 0;
}

static int open(struct pl_s3_request *q, struct pl_err *err)
{
    int r = pl_s3_read_names(q, err);

    r = r < 0 ? r : find_op(q, err);
    r = r < 0 || is_refused_form(q) ? r : who_asks(q, err);
    r = r < 0 ? r : check_owner(q, err);
    r = r < 0 ? r : check_implemented(q, err);
    if (r == 0 && q->op->before)
        r = q->op->before(q, err);
    if (r == 0 && q->op->body_max) {
        /* Release the hold on the store, so that garbage collection does not wait while the client sends its
         * body; ask_again gets a new hold. */
        pl_store_release(&q->hold);
        r = pl_s3_body_create(q, q->op->body_max, &q->body, err);
    }
    return r < 0 || !q->op->brings ? r : admit(q, err);
}

static void begin(struct pl_s3 *s3, struct pl_http_request *http)
{
    struct pl_s3_request *q = calloc(1, sizeof *q);
    struct pl_err err = {0};
    int r = q ? 0 : pl_err_nomem(&err);

    if (r == 0) {
        q->s3 = s3;
        q->services = s3->services;
        q->http = http;
        r = open(q, &err);
    }
    if (r < 0) {
        err.code = q ? tell_refusal(q, r, &err) : r;
        if (q)
            pl_s3_refuse(q, &err);
        else
            pl_http_reply_error(http, &err);
        pl_s3_request_end(q);
    } else if (q->body) {
        pl_http_body_to(http, &(struct pl_http_sink){.self = q, .write = body_write, .end = body_end});
    } else {
        run_soon(q);
    }
}

void pl_s3_on_request(struct pl_http_request *http, void *arg)
{
    struct pl_s3 *s3 = arg;
    struct pl_err err = {0};
    char id[24];
    int r;

    snprintf(id, sizeof id, "%016llX", (unsigned long long)pl_http_request_id(http));
    pl_http_reply_header(http, "x-amz-request-id", id);
    /* objects come from any user: a page among them must not run scripts on this origin */
    pl_http_reply_header(http, "Content-Security-Policy", "sandbox");
    pl_s3_add_cors(s3, http);
    if (!pl_streq(pl_http_method(http), "OPTIONS")) {
        begin(s3, http);
        return;
    }
    r = pl_s3_preflight(s3, http, &err);
    if (r < 0)
        pl_http_reply_error(http, &err);
}
