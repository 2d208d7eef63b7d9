/* sigv4: the canonical request, signing keys and signatures. Names and values are collected in one buffer in
 * their encoded form, and sorted by pointers into it. */
#include "storage/s3/sigv4.h"

#include "storage/http/uri.h"
#include "storage/s3/sigv4_encoding.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"

/* ---- times and scopes ---- */

char *pl_sigv4_time(int64_t unix_s, char out[PL_SIGV4_TIME_BYTES + 1])
{
    const time_t t = (time_t)unix_s;
    struct tm tm;

    if (gmtime_r(&t, &tm) == NULL || strftime(out, PL_SIGV4_TIME_BYTES + 1, "%Y%m%dT%H%M%SZ", &tm) != PL_SIGV4_TIME_BYTES)
        memcpy(out, "19700101T000000Z", PL_SIGV4_TIME_BYTES + 1);
    return out;
}

int pl_sigv4_time_parse(const char *text, int64_t *ret_unix_s, struct pl_err *err)
{
    struct tm tm = {0};
    char again[PL_SIGV4_TIME_BYTES + 1];
    int64_t unix_s;
    int used = 0;

    if (strlen(text) != PL_SIGV4_TIME_BYTES || strspn(text, "0123456789TZ") != PL_SIGV4_TIME_BYTES ||
        sscanf(text, "%4d%2d%2dT%2d%2d%2dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec,
               &used) != 6 ||
        used != PL_SIGV4_TIME_BYTES)
        return pl_err_set(err, PL_EINVAL, "\"%.32s\" is not a time of the form 20130524T000000Z", text);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    unix_s = (int64_t)timegm(&tm);
    /* a date that does not exist, such as the 31st of February */
    if (unix_s < 0 || !pl_streq(pl_sigv4_time(unix_s, again), text))
        return pl_err_set(err, PL_EINVAL, "the time %s does not exist", text);
    *ret_unix_s = unix_s;
    return 0;
}

static bool scope_word_ok(const char *word, size_t max)
{
    size_t len = strlen(word);

    return len > 0 && len <= max && strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

int pl_sigv4_scope_init(struct pl_sigv4_scope *scope, const char *time, const char *region, const char *service,
                        struct pl_err *err)
{
    if (!scope_word_ok(region, PL_SIGV4_REGION_MAX))
        return pl_err_set(err, PL_EINVAL, "\"%.64s\" is not a region: use 1 to %d letters, digits, '.', '_' and '-'", region,
                          PL_SIGV4_REGION_MAX);
    if (!scope_word_ok(service, PL_SIGV4_SERVICE_MAX))
        return pl_err_set(err, PL_EINVAL, "\"%.64s\" is not a service name", service);
    memcpy(scope->date, time, PL_SIGV4_DATE_BYTES);
    scope->date[PL_SIGV4_DATE_BYTES] = '\0';
    memcpy(scope->region, region, strlen(region) + 1);
    memcpy(scope->service, service, strlen(service) + 1);
    return 0;
}

char *pl_sigv4_scope_text(const struct pl_sigv4_scope *scope, char out[PL_SIGV4_SCOPE_BYTES])
{
    (void)snprintf(out, PL_SIGV4_SCOPE_BYTES, "%s/%s/%s/aws4_request", scope->date, scope->region, scope->service);
    return out;
}

/* ---- signing keys ---- */

/* OpenSSL's HMAC; fetched once, because EVP_MAC_fetch takes longer than computing a signature */
static EVP_MAC *mac;

static void mac_fetch(void)
{
    mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
}

static int hmac(const void *key, size_t key_len, const void *data, size_t n, uint8_t ret[PL_HASH_BYTES], struct pl_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
    EVP_MAC_CTX *ctx;
    size_t len = 0;
    bool ok;

    pthread_once(&once, mac_fetch);
    ctx = mac != NULL ? EVP_MAC_CTX_new(mac) : NULL;
    ok = ctx != NULL && EVP_MAC_init(ctx, key, key_len, params) == 1 && EVP_MAC_update(ctx, data, n) == 1 &&
         EVP_MAC_final(ctx, ret, &len, PL_HASH_BYTES) == 1 && len == PL_HASH_BYTES;
    EVP_MAC_CTX_free(ctx);
    return ok ? 0 : pl_err_nomem(err);
}

static int hmac_text(const struct pl_sigv4_key *key, const char *text, uint8_t ret[PL_HASH_BYTES], struct pl_err *err)
{
    return hmac(key->b, sizeof(key->b), text, strlen(text), ret, err);
}

int pl_sigv4_key_derive(const char *secret, const struct pl_sigv4_scope *scope, struct pl_sigv4_key *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf first = {0};
    struct pl_sigv4_key key;
    int r = pl_buf_addf(&first, err, "AWS4%s", secret);

    if (r == 0)
        r = hmac(first.data, first.len, scope->date, PL_SIGV4_DATE_BYTES, key.b, err);
    if (r == 0)
        r = hmac_text(&key, scope->region, key.b, err);
    if (r == 0)
        r = hmac_text(&key, scope->service, key.b, err);
    if (r == 0)
        r = hmac_text(&key, "aws4_request", key.b, err);
    if (first.len > 0)
        explicit_bzero(first.data, first.len);
    if (r == 0)
        *ret = key;
    return r;
}

static struct {
    pthread_mutex_t lock;
    struct {
        struct pl_hash of; /* hash of secret and scope */
        struct pl_sigv4_key key;
        bool used;
    } kept[PL_SIGV4_KEYS_KEPT];
} keys = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void key_name(const char *secret, const struct pl_sigv4_scope *scope, struct pl_hash *ret)
{
    struct pl_hasher h;

    pl_hasher_init(&h);
    pl_hasher_add_field(&h, secret, strlen(secret));
    pl_hasher_add_field(&h, scope->date, strlen(scope->date));
    pl_hasher_add_field(&h, scope->region, strlen(scope->region));
    pl_hasher_add_field(&h, scope->service, strlen(scope->service));
    pl_hasher_get(&h, ret);
}

/* The cache is direct-mapped: a hash of secret and scope selects the one slot in which the key can be. */
int pl_sigv4_key(const char *secret, const struct pl_sigv4_scope *scope, struct pl_sigv4_key *ret, struct pl_err *err)
{
    struct pl_sigv4_key key;
    struct pl_hash of;
    size_t at;
    bool found;
    int r;

    key_name(secret, scope, &of);
    at = (of.b[0] | (size_t)of.b[1] << 8) % PL_SIGV4_KEYS_KEPT;
    pthread_mutex_lock(&keys.lock);
    found = keys.kept[at].used && pl_hash_eq(&keys.kept[at].of, &of);
    if (found)
        *ret = keys.kept[at].key;
    pthread_mutex_unlock(&keys.lock);
    if (found)
        return 0;
    r = pl_sigv4_key_derive(secret, scope, &key, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&keys.lock);
    keys.kept[at].of = of;
    keys.kept[at].key = key;
    keys.kept[at].used = true;
    pthread_mutex_unlock(&keys.lock);
    *ret = key;
    return 0;
}

/* ---- the canonical request ---- */

/* Names and values in their signed form, sorted. */
struct sorted {
    struct pl_buf text; /* name NUL value NUL … */
    struct {
        const char *name, *value;
        size_t order;
    } of[PL_SIGV4_PAIRS_MAX];
    size_t n;
};

static void sorted_finish(struct sorted *s)
{
    pl_buf_finish(&s->text);
}

static int by_name(const void *a, const void *b)
{
    const __typeof__(((struct sorted *)NULL)->of[0]) *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c != 0 ? c : (x->order > y->order) - (x->order < y->order);
}

static int by_name_and_value(const void *a, const void *b)
{
    const __typeof__(((struct sorted *)NULL)->of[0]) *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    c = c != 0 ? c : strcmp(x->value, y->value);
    return c != 0 ? c : by_name(a, b);
}

/* Appends the escaped text and a NUL. The buffer may move while it grows, so sorted_settle makes the pointers
 * after everything was added. */
static int add_escaped(struct sorted *s, const char *text, struct pl_err *err)
{
    int r = pl_uri_escape(text, false, &s->text, err);

    return r < 0 ? r : pl_buf_add_u8(&s->text, 0, err);
}

static int add_lower(struct sorted *s, const char *name, struct pl_err *err)
{
    int r = 0;

    for (const char *p = name; r == 0 && *p != '\0'; p++)
        r = pl_buf_add_u8(&s->text, (uint8_t)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p), err);
    return r < 0 ? r : pl_buf_add_u8(&s->text, 0, err);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Appends a header's value without leading and trailing spaces; each run of spaces in it becomes one
 * space. */
static int add_trimmed(struct sorted *s, const char *value, struct pl_err *err)
{
    int r = 0;

    while (is_space(*value))
        value++;
    for (const char *p = value; r == 0 && *p != '\0'; p++) {
        if (!is_space(*p))
            r = pl_buf_add_u8(&s->text, (uint8_t)*p, err);
        else if (!is_space(p[1]) && p[1] != '\0')
            r = pl_buf_add_u8(&s->text, ' ', err);
    }
    return r < 0 ? r : pl_buf_add_u8(&s->text, 0, err);
}

static void sorted_settle(struct sorted *s, size_t n, int (*order)(const void *, const void *))
{
    const char *p = (const char *)s->text.data;

    for (s->n = 0; s->n < n; s->n++) {
        s->of[s->n].name = p;
        p += strlen(p) + 1;
        s->of[s->n].value = p;
        p += strlen(p) + 1;
        s->of[s->n].order = s->n;
    }
    if (n > 1)
        qsort(s->of, n, sizeof(s->of[0]), order);
}

static int check_count(size_t n, const char *what, struct pl_err *err)
{
    return n <= PL_SIGV4_PAIRS_MAX
               ? 0
               : pl_err_set(err, PL_ELIMIT, "the request has %zu %s; at most %d can be signed", n, what, PL_SIGV4_PAIRS_MAX);
}

static int sort_query(const struct pl_sigv4_pair *query, size_t n, struct sorted *s, struct pl_err *err)
{
    int r = check_count(n, "query parameters", err);

    for (size_t i = 0; r == 0 && i < n; i++) {
        r = add_escaped(s, query[i].name, err);
        if (r == 0)
            r = add_escaped(s, query[i].value, err);
    }
    if (r == 0)
        sorted_settle(s, n, by_name_and_value);
    return r;
}

static int sort_headers(const struct pl_sigv4_request *q, struct sorted *s, struct pl_err *err)
{
    int r = check_count(q->n_headers, "headers", err);

    for (size_t i = 0; r == 0 && i < q->n_headers; i++) {
        r = add_lower(s, q->headers[i].name, err);
        if (r == 0)
            r = add_trimmed(s, q->headers[i].value, err);
    }
    if (r == 0)
        sorted_settle(s, q->n_headers, by_name);
    return r;
}

int pl_sigv4_query(const struct pl_sigv4_pair *query, size_t n, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(sorted_finish) struct sorted s = {.text.max = PL_SIGV4_TEXT_MAX};
    int r = sort_query(query, n, &s, err);

    for (size_t i = 0; r == 0 && i < s.n; i++)
        r = pl_buf_addf(out, err, "%s%s=%s", i > 0 ? "&" : "", s.of[i].name, s.of[i].value);
    return r;
}

/* Appends "name:value\n" for each name, with all values of a name in one line. */
static int add_headers(const struct sorted *s, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->n; i++) {
        const bool more = i > 0 && pl_streq(s->of[i - 1].name, s->of[i].name);
        const bool last = i + 1 == s->n || !pl_streq(s->of[i + 1].name, s->of[i].name);

        r = pl_buf_addf(out, err, "%s%s%s%s", more ? "," : s->of[i].name, more ? "" : ":", s->of[i].value, last ? "\n" : "");
    }
    return r;
}

static int add_names(const struct sorted *s, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->n; i++)
        if (i == 0 || !pl_streq(s->of[i - 1].name, s->of[i].name))
            r = pl_buf_addf(out, err, "%s%s", i > 0 ? ";" : "", s->of[i].name);
    return r;
}

/* Appends the canonical request, with headers that are already sorted. */
static int canonical(const struct pl_sigv4_request *q, const struct sorted *headers, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_addf(out, err, "%s\n", q->method);

    if (r == 0)
        r = pl_uri_escape(q->path[0] != '\0' ? q->path : "/", true, out, err);
    if (r == 0)
        r = pl_buf_add_u8(out, '\n', err);
    if (r == 0)
        r = pl_sigv4_query(q->query, q->n_query, out, err);
    if (r == 0)
        r = pl_buf_add_u8(out, '\n', err);
    if (r == 0)
        r = add_headers(headers, out, err);
    if (r == 0)
        r = pl_buf_add_u8(out, '\n', err);
    if (r == 0)
        r = add_names(headers, out, err);
    return r < 0 ? r : pl_buf_addf(out, err, "\n%s", q->payload);
}

int pl_sigv4_canonical(const struct pl_sigv4_request *q, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(sorted_finish) struct sorted headers = {.text.max = PL_SIGV4_TEXT_MAX};
    int r = sort_headers(q, &headers, err);

    return r < 0 ? r : canonical(q, &headers, out, err);
}

/* ---- signatures ---- */

static int sign_text(const struct pl_sigv4_key *key, const char *text, char ret[PL_SIGV4_HEX + 1], struct pl_err *err)
{
    uint8_t b[PL_HASH_BYTES];
    int r = hmac_text(key, text, b, err);

    if (r == 0)
        pl_hex_encode(b, sizeof(b), ret);
    return r;
}

static int sign_sorted(const struct pl_sigv4_request *q, const struct sorted *headers, const struct pl_sigv4_scope *scope,
                       const struct pl_sigv4_key *key, const char *time, char ret[PL_SIGV4_HEX + 1], struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf request = {.max = PL_SIGV4_TEXT_MAX};
    char text[512], scope_text[PL_SIGV4_SCOPE_BYTES], hex[PL_HASH_HEX + 1];
    struct pl_hash hash;
    int r = canonical(q, headers, &request, err);

    if (r < 0)
        return r;
    pl_hash_sha256(request.data, request.len, &hash);
    (void)snprintf(text, sizeof(text), ALGORITHM "\n%.16s\n%s\n%s", time, pl_sigv4_scope_text(scope, scope_text),
                   pl_hash_hex(&hash, hex));
    return sign_text(key, text, ret, err);
}

int pl_sigv4_sign(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                  const char *time, char ret[PL_SIGV4_HEX + 1], struct pl_err *err)
{
    _cleanup_(sorted_finish) struct sorted headers = {.text.max = PL_SIGV4_TEXT_MAX};
    int r = sort_headers(q, &headers, err);

    return r < 0 ? r : sign_sorted(q, &headers, scope, key, time, ret, err);
}

int pl_sigv4_authorization(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                           const char *access_key, const char *time, struct pl_buf *out, char ret_signature[PL_SIGV4_HEX + 1],
                           struct pl_err *err)
{
    _cleanup_(sorted_finish) struct sorted headers = {.text.max = PL_SIGV4_TEXT_MAX};
    char signature[PL_SIGV4_HEX + 1], scope_text[PL_SIGV4_SCOPE_BYTES];
    int r = sort_headers(q, &headers, err);

    if (r == 0)
        r = sign_sorted(q, &headers, scope, key, time, signature, err);
    if (r == 0)
        r = pl_buf_addf(out, err, ALGORITHM " Credential=%s/%s, SignedHeaders=", access_key,
                        pl_sigv4_scope_text(scope, scope_text));
    if (r == 0)
        r = add_names(&headers, out, err);
    if (r == 0)
        r = pl_buf_addf(out, err, ", Signature=%s", signature);
    if (r == 0 && ret_signature != NULL)
        memcpy(ret_signature, signature, sizeof(signature));
    return r;
}

int pl_sigv4_presign(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                     const char *access_key, const char *token, const char *time, uint32_t expires_s, struct pl_buf *out,
                     struct pl_err *err)
{
    _cleanup_(sorted_finish) struct sorted headers = {.text.max = PL_SIGV4_TEXT_MAX};
    _cleanup_(pl_buf_finish) struct pl_buf names = {0};
    struct pl_sigv4_pair query[PL_SIGV4_PAIRS_MAX];
    struct pl_sigv4_request whole = *q;
    char credential[PL_SIGV4_SCOPE_BYTES + 160], scope_text[PL_SIGV4_SCOPE_BYTES], expires[16], signature[PL_SIGV4_HEX + 1];
    size_t n = q->n_query;
    int r;

    if (expires_s < 1 || expires_s > PL_SIGV4_EXPIRES_MAX)
        return pl_err_set(err, PL_EINVAL, "a presigned URL can be valid for 1 to %u seconds, not %u", PL_SIGV4_EXPIRES_MAX,
                          expires_s);
    r = check_count(n + 6, "query parameters", err);
    if (r == 0)
        r = sort_headers(q, &headers, err);
    if (r == 0)
        r = add_names(&headers, &names, err);
    if (r < 0 || pl_buf_str(&names) == NULL)
        return r < 0 ? r : pl_err_nomem(err);
    (void)snprintf(credential, sizeof(credential), "%.128s/%s", access_key, pl_sigv4_scope_text(scope, scope_text));
    (void)snprintf(expires, sizeof(expires), "%u", expires_s);
    if (n > 0)
        memcpy(query, q->query, n * sizeof(*query));
    query[n++] = (struct pl_sigv4_pair){"X-Amz-Algorithm", ALGORITHM};
    query[n++] = (struct pl_sigv4_pair){"X-Amz-Credential", credential};
    query[n++] = (struct pl_sigv4_pair){"X-Amz-Date", time};
    query[n++] = (struct pl_sigv4_pair){"X-Amz-Expires", expires};
    if (token != NULL)
        query[n++] = (struct pl_sigv4_pair){"X-Amz-Security-Token", token};
    query[n++] = (struct pl_sigv4_pair){"X-Amz-SignedHeaders", (const char *)names.data};
    whole.query = query;
    whole.n_query = n;
    r = sign_sorted(&whole, &headers, scope, key, time, signature, err);
    if (r == 0)
        r = pl_uri_escape(q->path, true, out, err);
    if (r == 0)
        r = pl_buf_add_u8(out, '?', err);
    if (r == 0)
        r = pl_sigv4_query(query, n, out, err);
    return r < 0 ? r : pl_buf_addf(out, err, "&X-Amz-Signature=%s", signature);
}

/* ---- bodies in chunks ---- */

void pl_sigv4_stream_init(struct pl_sigv4_stream *s, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                          const char *time, const char *seed)
{
    s->key = *key;
    (void)snprintf(s->time, sizeof(s->time), "%.16s", time);
    (void)pl_sigv4_scope_text(scope, s->scope);
    (void)snprintf(s->previous, sizeof(s->previous), "%.64s", seed);
}

static int stream_next(struct pl_sigv4_stream *s, const char *kind, const char *middle, const struct pl_hash *sha256,
                       char ret[PL_SIGV4_HEX + 1], struct pl_err *err)
{
    char text[768], hex[PL_HASH_HEX + 1], signature[PL_SIGV4_HEX + 1];
    int r;

    (void)snprintf(text, sizeof(text), ALGORITHM "-%s\n%s\n%s\n%s\n%s%s", kind, s->time, s->scope, s->previous, middle,
                   pl_hash_hex(sha256, hex));
    r = sign_text(&s->key, text, signature, err);
    if (r < 0)
        return r;
    memcpy(s->previous, signature, sizeof(signature));
    memcpy(ret, signature, sizeof(signature));
    return 0;
}

int pl_sigv4_stream_chunk(struct pl_sigv4_stream *s, const struct pl_hash *sha256, char ret[PL_SIGV4_HEX + 1], struct pl_err *err)
{
    /* the string to sign of a chunk contains two hashes; the first is always that of an empty string */
    return stream_next(s, "PAYLOAD", PL_SIGV4_EMPTY_SHA256 "\n", sha256, ret, err);
}

int pl_sigv4_stream_trailer(struct pl_sigv4_stream *s, const struct pl_hash *sha256, char ret[PL_SIGV4_HEX + 1],
                            struct pl_err *err)
{
    return stream_next(s, "TRAILER", "", sha256, ret, err);
}

bool pl_sigv4_same(const char *a, const char *b)
{
    return strlen(a) == PL_SIGV4_HEX && strlen(b) == PL_SIGV4_HEX && pl_secret_eq(a, b, PL_SIGV4_HEX);
}
