/* object_s3_sign: presigned requests, and the test that finds out which restrictions of them the server
 * enforces. */
#include "storage/object/object_s3.h"

#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/system/log_line.h"

#include <stdio.h>
#include <time.h>

#define PROBE_TIMEOUT_MS 20000
#define PROBE_LIFE_S     300
/* maximum number of attempts of the whole test; the pauses between them add up to about seven seconds */
#define PROBE_TRIES        8
#define PROBE_PAUSE_MS     100
#define PROBE_PAUSE_MAX_MS 2000
#define PROBE_PATIENCE_MS                                                                                                        \
    30000 /* no attempt of the test begins after this time; a single attempt can take minutes if the server is
           * unreachable, because its requests are retried */

/* Stores the request's headers except Host as lines. */
static void note_headers(struct pl_object_signed *q, const struct pl_sigv4_pair *headers, size_t n)
{
    for (size_t i = 0; i < n && q->n_headers < PL_OBJECT_SIGNED_HEADERS; i++)
        if (!pl_streq(headers[i].name, "content-length")) /* Content-Length follows from the body */
            (void)snprintf(q->headers[q->n_headers++], sizeof(q->headers[0]), "%s: %s", headers[i].name, headers[i].value);
}

static int presign(struct pl_object_s3 *s, bool for_workers, const char *method, const char *key,
                   const struct pl_sigv4_pair *headers, size_t n, const char *payload, uint32_t expires_s,
                   struct pl_object_signed *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf url = {0};
    struct pl_object_signed q = {0};
    int r = pl_s3_client_presign(s->client, for_workers && s->elsewhere ? &s->workers : NULL, method, key, headers, n, payload,
                                 expires_s, &url, &q.expires_s, err);

    if (r < 0)
        return pl_err_wrap(err, r, "sign a request for %s", key);
    q.url = pl_buf_take_str(&url);
    if (q.url == NULL)
        return pl_err_nomem(err);
    note_headers(&q, headers, n);
    *ret = q;
    return 0;
}

static int sign_get(struct pl_object_s3 *s, bool for_workers, const char *key, uint64_t offset, uint64_t len, uint32_t expires_s,
                    struct pl_object_signed *ret, struct pl_err *err)
{
    char range[64];
    const struct pl_sigv4_pair headers[] = {{"range", range}};

    if (len == 0 || len > UINT64_MAX - offset)
        return pl_err_set(err, PL_EINVAL, "%llu bytes from offset %llu are not a range", (unsigned long long)len,
                          (unsigned long long)offset);
    (void)snprintf(range, sizeof(range), "bytes=%llu-%llu", (unsigned long long)offset, (unsigned long long)(offset + len - 1));
    return presign(s, for_workers, "GET", key, headers, 1, PL_SIGV4_UNSIGNED, expires_s, ret, err);
}

static int sign_put(struct pl_object_s3 *s, bool for_workers, const char *key, uint64_t size, const char *sha256,
                    uint32_t expires_s, struct pl_object_signed *ret, struct pl_err *err)
{
    char length[24];
    struct pl_sigv4_pair headers[3] = {{"content-length", length}, {"x-amz-content-sha256", sha256}, {"if-none-match", "*"}};
    const bool absent = (s->store.caps & PL_OBJECT_PUT_IF_ABSENT) != 0;
    struct pl_hash hash;
    int r = pl_hash_parse(sha256, &hash, err);

    if (r < 0)
        return r;
    (void)snprintf(length, sizeof(length), "%llu", (unsigned long long)size);
    return presign(s, for_workers, "PUT", key, headers, absent ? 3 : 2, sha256, expires_s, ret, err);
}

int pl_object_s3_sign_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, uint32_t expires_s,
                          struct pl_object_signed *ret, struct pl_err *err)
{
    return sign_get(pl_object_s3_of(s), true, key, offset, len, expires_s, ret, err);
}

int pl_object_s3_sign_put(struct pl_object_store *s, const char *key, uint64_t size, const char *sha256, uint32_t expires_s,
                          struct pl_object_signed *ret, struct pl_err *err)
{
    return sign_put(pl_object_s3_of(s), true, key, size, sha256, expires_s, ret, err);
}

/* ---- testing the server ---- */

/* Sends a presigned request without credentials; `instead` (may be NULL) replaces its first header. Returns
 * the status. */
static int play(struct pl_object_s3 *s, const char *method, const struct pl_object_signed *q, const char *instead,
                const char *body, struct pl_err *err)
{
    const char *headers[PL_OBJECT_SIGNED_HEADERS + 1] = {0};
    struct iovec iov = {(void *)body, body != NULL ? strlen(body) : 0};
    struct pl_http_exchange x = {.method = method,
                                 .url = q->url,
                                 .headers = headers,
                                 .body = &iov,
                                 .n_body = body != NULL ? 1 : 0,
                                 .has_body = body != NULL,
                                 .timeout_ms = PROBE_TIMEOUT_MS};
    int r;

    for (size_t i = 0; i < q->n_headers; i++)
        headers[i] = q->headers[i];
    if (instead != NULL)
        headers[0] = instead;
    r = pl_http_io_run(pl_s3_client_io(s->client), &x, err);
    pl_buf_finish(&x.problem);
    /* a server fault does not show what the server supports */
    if (r == 0 && x.status >= 500 && x.status != 501)
        return pl_err_set(err, PL_ENET, "%s of a presigned URL: the server responded with status %u", method, x.status);
    return r < 0 ? r : (int)x.status;
}

static int probe_get(struct pl_object_s3 *s, const char *key, struct pl_err *err)
{
    struct pl_object_signed q;
    int right, wider, r = sign_get(s, false, key, 0, 4, PROBE_LIFE_S, &q, err);

    if (r < 0)
        return r;
    right = play(s, "GET", &q, NULL, NULL, err);
    wider = right < 0 ? right : play(s, "GET", &q, "range: bytes=0-7", NULL, err);
    pl_object_signed_finish(&q);
    if (right < 0 || wider < 0)
        return PL_MIN(right, wider);
    if (right == 206 && wider == 403)
        s->store.caps |= PL_OBJECT_SIGNED_GET;
    return 0;
}

/* Tests a presigned PUT: sends wrong bytes of the right length, then too few bytes, then the right bytes, and
 * then the right bytes again. */
static int probe_put(struct pl_object_s3 *s, const char *key, struct pl_err *err)
{
    static const char bytes[] = "these bytes", other[] = "other bytes", fewer[] = "these";
    struct pl_object_signed q;
    struct pl_hash hash;
    char hex[PL_HASH_HEX + 1];
    int lied, cut, right, again, r;

    pl_hash_sha256(bytes, strlen(bytes), &hash);
    r = sign_put(s, false, key, strlen(bytes), pl_hash_hex(&hash, hex), PROBE_LIFE_S, &q, err);
    if (r < 0)
        return r;
    lied = play(s, "PUT", &q, NULL, other, err);
    cut = lied < 0 ? lied : play(s, "PUT", &q, NULL, fewer, err);
    right = cut < 0 ? cut : play(s, "PUT", &q, NULL, bytes, err);
    again = right < 0 ? right : play(s, "PUT", &q, NULL, bytes, err);
    pl_object_signed_finish(&q);
    if (lied < 0 || cut < 0 || right < 0 || again < 0)
        return PL_MIN(PL_MIN(lied, cut), PL_MIN(right, again));
    if (lied >= 400 && cut >= 400 && right == 200) {
        s->store.caps |= PL_OBJECT_SIGNED_PUT;
        if (again == 412)
            s->store.caps |= PL_OBJECT_SIGNED_PUT_ABSENT;
    }
    return 0;
}

/* Returns true if the server responded that it does not support the request (501, 4xx). If the server is
 * unreachable or faulty, the response says nothing about its capabilities, and the result is false. */
static bool is_no_call(int r, unsigned status)
{
    return (status == 501 || (status >= 400 && status < 500)) && (r == PL_EUNAVAILABLE || r == PL_EIO);
}

/* The second put must be refused, and the bytes of the first must remain. */
static int probe_absent(struct pl_object_s3 *s, const char *key, struct pl_err *err)
{
    struct iovec first = {(void *)"first bytes", 11}, second = {(void *)"second bytes", 12};
    unsigned status = 0;
    int r;

    s->store.caps = PL_OBJECT_PUT_IF_ABSENT;
    r = pl_object_s3_put_once(s, key, &first, 1, true, &status, err);
    if (r == PL_EEXISTS) /* an earlier attempt whose response was lost has created the object */
        r = 0;
    if (is_no_call(r, status)) {
        s->store.caps = 0;
        return pl_object_s3_put_once(s, key, &first, 1, false, NULL, err);
    }
    if (r < 0)
        return r;
    r = pl_object_s3_put_once(s, key, &second, 1, true, &status, err);
    if (r == PL_EEXISTS)
        r = pl_object_s3_compare(s, key, &first, 1, err);
    if (r < 0 && !is_no_call(r, status))
        return r;
    if (r != 1)
        s->store.caps = 0;
    return 0;
}

/* Runs the three tests once, with objects under PL_S3_PROBE_PREFIX that are removed at the end. */
static int probe_all(struct pl_object_s3 *s, struct pl_err *err)
{
    char hex[33], key[64], signed_key[64];
    const char *const keys[] = {key, signed_key};
    uint8_t random[16];
    int r;

    pl_random_bytes(random, sizeof(random));
    pl_hex_encode(random, sizeof(random), hex);
    (void)snprintf(key, sizeof(key), PL_S3_PROBE_PREFIX "probe-%s", hex);
    (void)snprintf(signed_key, sizeof(signed_key), PL_S3_PROBE_PREFIX "probe-%s-signed", hex);
    s->store.caps = 0;
    r = probe_absent(s, key, err);
    if (r == 0)
        r = probe_get(s, key, err);
    if (r == 0)
        r = probe_put(s, signed_key, err);
    /* a failure here is ignored: it does not affect the result */
    for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
        (void)!s->store.ops->remove(&s->store, keys[i], NULL);
    return r;
}

/* The presigned requests of the test are sent without retries, so that each response is the response to
 * exactly one request. After a transient failure the whole test is repeated. */
int pl_object_s3_probe(struct pl_object_s3 *s, struct pl_err *err)
{
    const int64_t until_ms = pl_clock_mono_ms() + PROBE_PATIENCE_MS;
    int64_t pause_ms = PROBE_PAUSE_MS;
    struct pl_err why = {0};
    int r = probe_all(s, &why);

    for (unsigned tries = 1; r < 0 && pl_err_info(r)->retryable && tries < PROBE_TRIES && pl_clock_mono_ms() < until_ms;
         tries++) {
        const struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000};

        pl_log_warn("store", "the test of the server failed, next attempt in %lld ms: %s", (long long)pause_ms, why.msg);
        (void)nanosleep(&pause, NULL);
        pause_ms = PL_MIN(2 * pause_ms, PROBE_PAUSE_MAX_MS);
        why = (struct pl_err){0};
        r = probe_all(s, &why);
    }
    if (r == 0)
        return 0;
    if (err)
        *err = why;
    return pl_err_wrap(err, r, "test the server");
}
