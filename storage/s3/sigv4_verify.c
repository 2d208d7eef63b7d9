/* sigv4_verify: parses and checks the claim of a received request (struct pl_sigv4_claim), then computes the
 * signature of the request over the headers that the claim lists. */
#include "storage/s3/sigv4_verify.h"

#include "storage/s3/sigv4_encoding.h"

#include <stdio.h>
#include <strings.h>

#define ALGORITHM "AWS4-HMAC-SHA256"

const struct pl_sigv4_verdict_info *pl_sigv4_verdict_info(enum pl_sigv4_verdict v)
{
    static const struct pl_sigv4_verdict_info table[] = {
#define ROW(name, code, status, message) {code, status, message},
        PL_SIGV4_VERDICT_MAP(ROW)
#undef ROW
    };

    return &table[v];
}

/* ---- reading the claim ---- */

static int refuse(struct pl_err *why, const char *text)
{
    return pl_err_set(why, PL_EINVAL, "%s", text);
}

/* Copies a value to `out`, which must be empty. */
static int take_text(char *out, size_t size, const char *value, size_t len, const char *name, struct pl_err *why)
{
    if (out[0] != '\0')
        return pl_err_set(why, PL_EINVAL, "%s is given twice", name);
    if (len == 0 || len >= size)
        return pl_err_set(why, PL_EINVAL, "%s has %zu bytes; accepted are 1 to %zu", name, len, size - 1);
    memcpy(out, value, len);
    out[len] = '\0';
    return 0;
}

/* Parses "AKID/20130524/us-east-1/s3/aws4_request" from its end, because an access key may contain
 * slashes. */
static int read_credential(const char *value, size_t len, struct pl_sigv4_claim *c, struct pl_err *why)
{
    char text[PL_SIGV4_ACCESS_KEY_MAX + 1 + PL_SIGV4_SCOPE_BYTES] = "";
    char *part[4]; /* date, region, service, "aws4_request" */
    int r = c->access_key[0] != '\0' ? refuse(why, "Credential is given twice") : 0;

    if (r == 0)
        r = take_text(text, sizeof(text), value, len, "Credential", why);
    for (size_t i = PL_ARRAY_SIZE(part); r == 0 && i-- > 0;) {
        part[i] = strrchr(text, '/');
        if (part[i] == NULL)
            return refuse(why, "Credential is not KEY/DATE/REGION/SERVICE/aws4_request");
        *part[i]++ = '\0';
    }
    if (r < 0)
        return r;
    if (!pl_streq(part[3], "aws4_request"))
        return refuse(why, "Credential does not end with aws4_request");
    if (strlen(part[0]) != PL_SIGV4_DATE_BYTES || strspn(part[0], "0123456789") != PL_SIGV4_DATE_BYTES)
        return refuse(why, "the date in Credential is not of the form 20130524");
    r = take_text(c->access_key, sizeof(c->access_key), text, strlen(text), "the key in Credential", why);
    return r < 0 ? r : pl_sigv4_scope_init(&c->scope, part[0], part[1], part[2], why);
}

static int read_signed_headers(const char *value, size_t len, struct pl_sigv4_claim *c, struct pl_err *why)
{
    int r = take_text(c->signed_headers, sizeof(c->signed_headers), value, len, "SignedHeaders", why);

    if (r < 0)
        return r;
    for (const char *p = c->signed_headers; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || (*p >= 'A' && *p <= 'Z') ||
            (*p == ';' && (p == c->signed_headers || p[1] == ';' || p[1] == '\0')))
            return refuse(why, "SignedHeaders is not a list of lower-case names separated by ';'");
    return 0;
}

static int read_signature(const char *value, size_t len, struct pl_sigv4_claim *c, struct pl_err *why)
{
    int r = take_text(c->signature, sizeof(c->signature), value, len, "Signature", why);

    if (r < 0)
        return r;
    return strspn(c->signature, "0123456789abcdef") == PL_SIGV4_HEX ? 0
                                                                    : refuse(why, "Signature is not 64 hex digits in lower case");
}

static int read_time(const char *time, struct pl_sigv4_claim *c, struct pl_err *why)
{
    int64_t unix_s;
    int r;

    if (time == NULL)
        return refuse(why, "the time is missing: x-amz-date");
    r = pl_sigv4_time_parse(time, &unix_s, why);
    if (r < 0)
        return r;
    memcpy(c->time, time, sizeof(c->time));
    return strncmp(c->time, c->scope.date, PL_SIGV4_DATE_BYTES) == 0
               ? 0
               : refuse(why, "the date in Credential differs from that of the request");
}

static int read_part(const char *part, size_t len, struct pl_sigv4_claim *c, struct pl_err *why)
{
    static const struct {
        const char *name;
        int (*read)(const char *value, size_t len, struct pl_sigv4_claim *c, struct pl_err *why);
    } parts[] = {{"Credential=", read_credential}, {"SignedHeaders=", read_signed_headers}, {"Signature=", read_signature}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(parts); i++) {
        const size_t n = strlen(parts[i].name);

        if (len >= n && strncmp(part, parts[i].name, n) == 0)
            return parts[i].read(part + n, len - n, c, why);
    }
    return pl_err_set(why, PL_EINVAL, "\"%.*s\" is not one of Credential=, SignedHeaders=, Signature=", (int)PL_MIN(len, 64),
                      part);
}

/* Parses the parts of the Authorization header that follow the algorithm. */
static int read_header_claim(const char *text, const struct pl_sigv4_request *q, struct pl_sigv4_claim *c, struct pl_err *why)
{
    const char *time = pl_sigv4_header_find(q->headers, q->n_headers, "x-amz-date");
    int r = 0;

    for (const char *p = text + strlen(ALGORITHM); r == 0 && *p != '\0';) {
        size_t len;

        p += strspn(p, " \t,");
        len = strcspn(p, " \t,");
        if (len > 0)
            r = read_part(p, len, c, why);
        p += len;
    }
    if (r == 0 && (c->access_key[0] == '\0' || c->signed_headers[0] == '\0' || c->signature[0] == '\0'))
        r = refuse(why, "one of Credential, SignedHeaders and Signature is missing");
    return r < 0 ? r : read_time(time != NULL ? time : pl_sigv4_header_find(q->headers, q->n_headers, "date"), c, why);
}

static int find_once(const struct pl_sigv4_request *q, const char *name, const char **ret, struct pl_err *why)
{
    *ret = NULL;
    for (size_t i = 0; i < q->n_query; i++) {
        if (!pl_streq(q->query[i].name, name))
            continue;
        if (*ret != NULL)
            return pl_err_set(why, PL_EINVAL, "%s is given twice", name);
        *ret = q->query[i].value;
    }
    return *ret != NULL ? 0 : pl_err_set(why, PL_EINVAL, "%s is missing", name);
}

static int read_expires(const char *text, struct pl_sigv4_claim *c, struct pl_err *why)
{
    const size_t len = strlen(text);
    unsigned long v = len > 0 && len <= 6 && strspn(text, "0123456789") == len ? strtoul(text, NULL, 10) : 0;

    if (v < 1 || v > PL_SIGV4_EXPIRES_MAX)
        return pl_err_set(why, PL_EINVAL, "X-Amz-Expires is \"%.16s\", accepted are 1 to %u seconds", text, PL_SIGV4_EXPIRES_MAX);
    c->expires_s = (uint32_t)v;
    return 0;
}

/* Parses the X-Amz-* parameters of a presigned URL, each of which must be present exactly once. */
static int read_query_claim(const struct pl_sigv4_request *q, struct pl_sigv4_claim *c, struct pl_err *why)
{
    const char *v;
    int r = find_once(q, "X-Amz-Algorithm", &v, why);

    c->presigned = true;
    if (r == 0 && !pl_streq(v, ALGORITHM))
        r = pl_err_set(why, PL_EINVAL, "X-Amz-Algorithm is \"%.64s\", accepted is " ALGORITHM, v);
    if (r == 0)
        r = find_once(q, "X-Amz-Credential", &v, why);
    if (r == 0)
        r = read_credential(v, strlen(v), c, why);
    if (r == 0)
        r = find_once(q, "X-Amz-SignedHeaders", &v, why);
    if (r == 0)
        r = read_signed_headers(v, strlen(v), c, why);
    if (r == 0)
        r = find_once(q, "X-Amz-Signature", &v, why);
    if (r == 0)
        r = read_signature(v, strlen(v), c, why);
    if (r == 0)
        r = find_once(q, "X-Amz-Expires", &v, why);
    if (r == 0)
        r = read_expires(v, c, why);
    if (r == 0)
        r = find_once(q, "X-Amz-Date", &v, why);
    return r < 0 ? r : read_time(v, c, why);
}

static bool is_algorithm(const char *authorization)
{
    const size_t n = strlen(ALGORITHM);

    return strncmp(authorization, ALGORITHM, n) == 0 &&
           (authorization[n] == ' ' || authorization[n] == '\t' || authorization[n] == '\0');
}

enum pl_sigv4_verdict pl_sigv4_claim_read(const struct pl_sigv4_request *q, struct pl_sigv4_claim *ret, struct pl_err *why)
{
    const char *authorization = pl_sigv4_header_find(q->headers, q->n_headers, "authorization");
    const bool query4 = pl_sigv4_pair_find(q->query, q->n_query, "X-Amz-Algorithm") != NULL ||
                        pl_sigv4_pair_find(q->query, q->n_query, "X-Amz-Signature") != NULL;
    const bool query2 = pl_sigv4_pair_find(q->query, q->n_query, "AWSAccessKeyId") != NULL &&
                        pl_sigv4_pair_find(q->query, q->n_query, "Signature") != NULL;
    struct pl_sigv4_claim c = {0};
    enum pl_sigv4_verdict v = PL_SIGV4_OK;

    if (authorization == NULL && !query4)
        v = query2 ? PL_SIGV4_V2 : PL_SIGV4_NONE;
    else if (authorization != NULL && (query4 || query2))
        v = PL_SIGV4_BOTH;
    else if (authorization != NULL && strncmp(authorization, "AWS ", 4) == 0)
        v = PL_SIGV4_V2;
    else if (authorization != NULL && !is_algorithm(authorization))
        v = PL_SIGV4_BAD_HEADER;
    if (v != PL_SIGV4_OK) {
        (void)refuse(why, pl_sigv4_verdict_info(v)->message);
        return v;
    }
    if (authorization != NULL)
        v = read_header_claim(authorization, q, &c, why) < 0 ? PL_SIGV4_BAD_HEADER : PL_SIGV4_OK;
    else
        v = read_query_claim(q, &c, why) < 0 ? PL_SIGV4_BAD_QUERY : PL_SIGV4_OK;
    if (v == PL_SIGV4_OK)
        *ret = c;
    return v;
}

/* ---- verifying the claim ---- */

enum pl_sigv4_verdict pl_sigv4_claim_fresh(const struct pl_sigv4_claim *c, int64_t now_s)
{
    int64_t time_s = 0;

    if (pl_sigv4_time_parse(c->time, &time_s, NULL) < 0 || time_s > now_s + PL_SIGV4_SKEW_S)
        return PL_SIGV4_SKEWED;
    if (c->presigned)
        return now_s > time_s + c->expires_s ? PL_SIGV4_EXPIRED : PL_SIGV4_OK;
    return now_s > time_s + PL_SIGV4_SKEW_S ? PL_SIGV4_SKEWED : PL_SIGV4_OK;
}

bool pl_sigv4_claim_signs(const struct pl_sigv4_claim *c, const char *name)
{
    const size_t n = strlen(name);

    for (const char *p = c->signed_headers; *p != '\0';) {
        const size_t len = strcspn(p, ";");

        if (len == n && strncasecmp(p, name, n) == 0)
            return true;
        p += len + (p[len] == ';');
    }
    return false;
}

static bool must_be_signed(const char *name)
{
    return strcasecmp(name, "host") == 0 || strncasecmp(name, "x-amz-", 6) == 0;
}

const char *pl_sigv4_claim_payload(const struct pl_sigv4_claim *c, const struct pl_sigv4_request *q)
{
    const char *value = pl_sigv4_header_find(q->headers, q->n_headers, "x-amz-content-sha256");

    if (!c->presigned)
        return value != NULL ? value : PL_SIGV4_EMPTY_SHA256;
    if (value != NULL && pl_sigv4_claim_signs(c, "x-amz-content-sha256"))
        return value;
    value = pl_sigv4_header_find(q->query, q->n_query, "x-amz-content-sha256"); /* in any case, as headers in the query */
    return value != NULL ? value : PL_SIGV4_UNSIGNED;
}

enum pl_sigv4_verdict pl_sigv4_claim_check(const struct pl_sigv4_claim *c, const struct pl_sigv4_request *q,
                                           const struct pl_sigv4_key *key, struct pl_err *ret_err)
{
    struct pl_sigv4_pair headers[PL_SIGV4_PAIRS_MAX], query[PL_SIGV4_PAIRS_MAX];
    struct pl_sigv4_request signed_part = *q;
    char signature[PL_SIGV4_HEX + 1];

    if (q->n_headers > PL_SIGV4_PAIRS_MAX || q->n_query > PL_SIGV4_PAIRS_MAX) {
        (void)pl_err_set(ret_err, PL_ELIMIT, "at most %d headers and query parameters can be signed", PL_SIGV4_PAIRS_MAX);
        return PL_SIGV4_MISMATCH;
    }
    if (!pl_sigv4_claim_signs(c, "host"))
        return PL_SIGV4_UNSIGNED_HEADER;
    signed_part.n_headers = signed_part.n_query = 0;
    for (size_t i = 0; i < q->n_headers; i++) {
        if (pl_sigv4_claim_signs(c, q->headers[i].name))
            headers[signed_part.n_headers++] = q->headers[i];
        else if (must_be_signed(q->headers[i].name))
            return PL_SIGV4_UNSIGNED_HEADER;
    }
    for (size_t i = 0; i < q->n_query; i++)
        if (!c->presigned || !pl_streq(q->query[i].name, "X-Amz-Signature"))
            query[signed_part.n_query++] = q->query[i];
    signed_part.headers = headers;
    signed_part.query = query;
    if (pl_sigv4_sign(&signed_part, &c->scope, key, c->time, signature, ret_err) < 0)
        return PL_SIGV4_MISMATCH;
    return pl_sigv4_same(signature, c->signature) ? PL_SIGV4_OK : PL_SIGV4_MISMATCH;
}
