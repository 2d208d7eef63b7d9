#include "tests/support/s3_server/s3_mock_verify.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_MAX 32768

static bool refuse(struct s3_mock_refusal *ret, unsigned status, const char *code, bool violation, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static bool refuse(struct s3_mock_refusal *ret, unsigned status, const char *code, bool violation, const char *fmt, ...)
{
    va_list ap;

    *ret = (struct s3_mock_refusal){.status = status, .violation = violation};
    snprintf(ret->code, sizeof ret->code, "%s", code);
    va_start(ap, fmt);
    vsnprintf(ret->message, sizeof ret->message, fmt, ap);
    va_end(ap);
    return false;
}

void s3_mock_sha256(const void *data, size_t n, char out[65])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    EVP_Digest(n ? data : "", n, md, &len, EVP_sha256(), NULL);
    for (unsigned i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", md[i]);
}

static void hmac(const void *key, size_t key_len, const char *text, unsigned char out[32])
{
    unsigned len = 32;

    HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), out, &len);
}

static void crc32c_base64(const unsigned char *p, size_t n, char out[16])
{
    unsigned char be[4];
    uint32_t crc = 0xFFFFFFFFu, table[256];

    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] & 1 ? table[i] >> 1 ^ 0x82F63B78u : table[i] >> 1;
    }
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ p[i]) & 255];
    crc = ~crc;
    for (int i = 0; i < 4; i++)
        be[i] = (unsigned char)(crc >> (24 - 8 * i));
    EVP_EncodeBlock((unsigned char *)out, be, 4);
}

/* --- the form on the wire --- */

static bool is_unreserved(int c)
{
    return c && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", c);
}

static int hex_digit(int c)
{
    const char *at = c ? strchr("0123456789ABCDEF", c) : NULL; /* capitals only */

    return at ? (int)(at - "0123456789ABCDEF") : -1;
}

bool s3_mock_decode(const char *text, const char *end, bool keep_slash, char *out, size_t size)
{
    size_t n = 0;

    while (text < end) {
        int c = (unsigned char)*text++;

        if (c == '%') {
            int high = text < end ? hex_digit(text[0]) : -1, low = text + 1 < end ? hex_digit(text[1]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = high << 4 | low;
            if (c == 0 || is_unreserved(c) || (keep_slash && c == '/'))
                return false; /* encoded in vain */
            text += 2;
        } else if (!is_unreserved(c) && !(keep_slash && c == '/')) {
            return false;
        }
        if (n + 1 >= size)
            return false;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return true;
}

bool s3_mock_parameter(const char *uri, const char *name, char *out, size_t size)
{
    const char *p = strchr(uri, '?');

    while (p && *++p) {
        const char *end = p + strcspn(p, "&"), *equals = memchr(p, '=', (size_t)(end - p));

        if (equals && (size_t)(equals - p) == strlen(name) && !strncmp(p, name, strlen(name)))
            return s3_mock_decode(equals + 1, end, false, out, size);
        p = *end ? end : NULL;
    }
    return false;
}

/* Path and query are canonical as they were sent: names and values encoded with capitals, "=" with each, sorted, none twice. */
static bool check_form(const char *uri, struct s3_mock_refusal *ret)
{
    const char *query = strchr(uri, '?'), *path_end = query ? query : uri + strlen(uri);
    char decoded[TEXT_MAX], before[TEXT_MAX] = "", name[TEXT_MAX];

    if (*uri != '/' || !s3_mock_decode(uri, path_end, true, decoded, sizeof decoded))
        return refuse(ret, 400, "MockNotCanonical", true, "the path %.100s", uri);
    for (const char *p = query ? query + 1 : NULL; p && *p;) {
        const char *end = p + strcspn(p, "&"), *equals = memchr(p, '=', (size_t)(end - p));

        if (!equals || !s3_mock_decode(p, equals, false, decoded, sizeof decoded) ||
            !s3_mock_decode(equals + 1, end, false, decoded, sizeof decoded))
            return refuse(ret, 400, "MockNotCanonical", true, "the parameter %.100s", p);
        snprintf(name, sizeof name, "%.*s", (int)(equals - p), p);
        if (!strcmp(name, "X-Amz-Signature") && !*end)
            return true; /* not signed itself: put behind what is */
        if (strcmp(before, name) >= 0)
            return refuse(ret, 400, "MockNotCanonical", true, "the order of the parameters: %.50s, then %.50s", before, name);
        snprintf(before, sizeof before, "%s", name);
        p = *end ? end + 1 : end;
    }
    return true;
}

/* --- the signature --- */

static const char *header(const struct s3_mock_wire *w, const char *name)
{
    return MHD_lookup_connection_value(w->connection, MHD_HEADER_KIND, name);
}

static void add(char *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(char *out, const char *fmt, ...)
{
    size_t n = strlen(out);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(out + n, TEXT_MAX - n, fmt, ap);
    va_end(ap);
}

struct claim {
    char access_key[160], date[16], region[64], signed_headers[1024], signature[80], time[32];
    long expires_s;
};

static bool split_credential(const char *text, struct claim *c)
{
    char service[16], end[32];

    return sscanf(text, "%159[^/]/%15[^/]/%63[^/]/%15[^/]/%31s", c->access_key, c->date, c->region, service, end) == 5 &&
           !strcmp(service, "s3") && !strcmp(end, "aws4_request") && strlen(c->date) == 8;
}

static bool read_header_claim(const struct s3_mock_wire *w, struct claim *c)
{
    const char *authorization = header(w, "Authorization"), *time = header(w, "x-amz-date");
    char credential[512];

    if (!time || sscanf(authorization, "AWS4-HMAC-SHA256 Credential=%511[^,], SignedHeaders=%1023[^,], Signature=%79s",
                        credential, c->signed_headers, c->signature) != 3)
        return false;
    snprintf(c->time, sizeof c->time, "%s", time);
    return split_credential(credential, c);
}

static bool read_query_claim(const struct s3_mock_wire *w, struct claim *c)
{
    char credential[512], algorithm[64], expires[16];

    if (!s3_mock_parameter(w->uri, "X-Amz-Algorithm", algorithm, sizeof algorithm) || strcmp(algorithm, "AWS4-HMAC-SHA256") ||
        !s3_mock_parameter(w->uri, "X-Amz-Credential", credential, sizeof credential) ||
        !s3_mock_parameter(w->uri, "X-Amz-Date", c->time, sizeof c->time) ||
        !s3_mock_parameter(w->uri, "X-Amz-Expires", expires, sizeof expires) ||
        !s3_mock_parameter(w->uri, "X-Amz-SignedHeaders", c->signed_headers, sizeof c->signed_headers) ||
        !s3_mock_parameter(w->uri, "X-Amz-Signature", c->signature, sizeof c->signature))
        return false;
    c->expires_s = atol(expires);
    return c->expires_s >= 1 && c->expires_s <= 604800 && split_credential(credential, c);
}

static bool is_signed(const struct claim *c, const char *name)
{
    char list[1100], one[128];

    snprintf(list, sizeof list, ";%s;", c->signed_headers);
    snprintf(one, sizeof one, ";%s;", name);
    return strstr(list, one);
}

struct unsigned_search {
    const struct claim *claim;
    char found[128];
};

static enum MHD_Result look_unsigned(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct unsigned_search *s = arg;
    char lower[128];
    size_t n = 0;

    (void)kind, (void)value;
    for (; name[n] && n < sizeof lower - 1; n++)
        lower[n] = (char)tolower((unsigned char)name[n]);
    lower[n] = '\0';
    if ((!strcmp(lower, "host") || !strncmp(lower, "x-amz-", 6)) && !is_signed(s->claim, lower))
        snprintf(s->found, sizeof s->found, "%s", lower);
    return MHD_YES;
}

/* "name:value\n" of each signed header, in the order of the list, which must be sorted. */
static bool add_headers(const struct s3_mock_wire *w, const struct claim *c, char *out, struct s3_mock_refusal *ret)
{
    char list[1024], before[128] = "", *save = NULL;

    snprintf(list, sizeof list, "%s", c->signed_headers);
    for (char *name = strtok_r(list, ";", &save); name; name = strtok_r(NULL, ";", &save)) {
        const char *value = header(w, name);

        if (strcmp(before, name) >= 0)
            return refuse(ret, 403, "SignatureDoesNotMatch", true, "SignedHeaders is not sorted: %s", c->signed_headers);
        snprintf(before, sizeof before, "%.127s", name);
        if (w->loose_ranges && !strcmp(name, "range") && strstr(w->uri, "X-Amz-Signature="))
            value = "loose";
        if (!value)
            return refuse(ret, 403, "SignatureDoesNotMatch", false, "the signed header %s is not there", name);
        add(out, "%s:%s\n", name, value);
    }
    return true;
}

/* What the signature says about the body. */
static bool payload_of(const struct s3_mock_wire *w, const struct claim *c, bool presigned, const char **ret_word,
                       struct s3_mock_refusal *ret)
{
    *ret_word = header(w, "x-amz-content-sha256");
    if (presigned && (!*ret_word || !is_signed(c, "x-amz-content-sha256")))
        *ret_word = "UNSIGNED-PAYLOAD";
    return *ret_word || refuse(ret, 400, "InvalidRequest", true, "x-amz-content-sha256 is missing");
}

/* Is it so? Asked last, as in S3: whose signature is wrong learns nothing of what it covers. */
static bool check_payload(const struct s3_mock_wire *w, const struct s3_mock_keys *k, const char *word, bool presigned,
                          struct s3_mock_refusal *ret)
{
    char sha[65], crc[16];

    s3_mock_sha256(w->body, w->body_len, sha);
    if (!strcmp(word, sha) || (presigned && (w->loose_hashes || !strcmp(word, "UNSIGNED-PAYLOAD"))))
        return true;
    if (strcmp(word, "UNSIGNED-PAYLOAD"))
        return refuse(ret, 400, "XAmzContentSHA256Mismatch", !presigned, "the body hashes to %s, not %s", sha, word);
    if (!k->tls)
        return refuse(ret, 400, "InvalidRequest", true, "UNSIGNED-PAYLOAD without TLS");
    crc32c_base64(w->body, w->body_len, crc);
    word = header(w, "x-amz-checksum-crc32c");
    if (!strcmp(w->method, "PUT") && (!word || strcmp(word, crc)))
        return refuse(ret, 400, "BadDigest", true, "x-amz-checksum-crc32c is %s, not %s", word ? word : "missing", crc);
    return true;
}

static void add_query(const char *uri, char *out)
{
    const char *p = strchr(uri, '?');
    bool first = true;

    while (p && *++p) {
        const char *end = p + strcspn(p, "&");

        if (strncmp(p, "X-Amz-Signature=", 16)) {
            add(out, "%s%.*s", first ? "" : "&", (int)(end - p), p);
            first = false;
        }
        p = *end ? end : NULL;
    }
}

static void signature_of(const struct s3_mock_keys *k, const struct claim *c, const char *canonical, char out[65])
{
    char sha[65], text[TEXT_MAX] = "", secret[300];
    unsigned char key[32];

    s3_mock_sha256(canonical, strlen(canonical), sha);
    add(text, "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", c->time, c->date, c->region, sha);
    snprintf(secret, sizeof secret, "AWS4%s", k->secret);
    hmac(secret, strlen(secret), c->date, key);
    hmac(key, 32, c->region, key);
    hmac(key, 32, "s3", key);
    hmac(key, 32, "aws4_request", key);
    hmac(key, 32, text, key);
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", key[i]);
}

static int64_t time_of(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y%m%dT%H%M%SZ", &tm);

    return end && !*end ? (int64_t)timegm(&tm) : -1;
}

static bool check_time(const struct claim *c, const struct s3_mock_keys *k, bool presigned, struct s3_mock_refusal *ret)
{
    const int64_t at = time_of(c->time);

    if (at < 0 || strncmp(c->time, c->date, 8))
        return refuse(ret, 403, "AccessDenied", true, "the time %s of %s", c->time, c->date);
    if (at > k->now_s + 900 || (!presigned && at < k->now_s - 900))
        return refuse(ret, 403, "RequestTimeTooSkewed", false, "it is not %s", c->time);
    if (presigned && k->now_s > at + c->expires_s)
        return refuse(ret, 403, "AccessDenied", false, "Request has expired");
    return true;
}

static bool check_keys(const struct claim *c, const struct s3_mock_wire *w, const struct s3_mock_keys *k, bool presigned,
                       struct s3_mock_refusal *ret)
{
    char in_query[4096];
    const char *token = header(w, "x-amz-security-token");

    if (presigned)
        token = s3_mock_parameter(w->uri, "X-Amz-Security-Token", in_query, sizeof in_query) ? in_query : NULL;
    if (strcmp(c->access_key, k->access_key) && token)
        return refuse(ret, 400, "ExpiredToken", false, "The provided token has expired.");
    if (strcmp(c->access_key, k->access_key))
        return refuse(ret, 403, "InvalidAccessKeyId", false, "nobody has the key %s", c->access_key);
    if (strcmp(token ? token : "", k->token ? k->token : ""))
        return refuse(ret, 400, "InvalidToken", true, "the token is not that of the keys");
    if (strcmp(c->region, k->region)) {
        refuse(ret, 400, "AuthorizationHeaderMalformed", false, "the region '%s' is wrong; expecting '%s'", c->region, k->region);
        snprintf(ret->region, sizeof ret->region, "%s", k->region);
        return false;
    }
    return true;
}

bool s3_mock_verify(const struct s3_mock_wire *w, const struct s3_mock_keys *k, bool *ret_presigned, struct s3_mock_refusal *ret)
{
    const bool presigned = strstr(w->uri, "X-Amz-Signature=");
    char canonical[TEXT_MAX] = "", signature[65];
    struct claim c = {0};
    struct unsigned_search search = {.claim = &c};
    const char *payload;

    *ret_presigned = presigned;
    if (!check_form(w->uri, ret))
        return false;
    if (!presigned && !header(w, "Authorization"))
        return refuse(ret, 403, "AccessDenied", false, "anonymous");
    if (!(presigned ? read_query_claim(w, &c) : read_header_claim(w, &c)))
        return refuse(ret, 400, presigned ? "AuthorizationQueryParametersError" : "AuthorizationHeaderMalformed", true,
                      "it is malformed");
    if (!check_time(&c, k, presigned, ret) || !check_keys(&c, w, k, presigned, ret))
        return false;
    MHD_get_connection_values(w->connection, MHD_HEADER_KIND, look_unsigned, &search);
    if (search.found[0] || !is_signed(&c, "host"))
        return refuse(ret, 403, "AccessDenied", !presigned, "the header %s was not signed", search.found);
    if (!payload_of(w, &c, presigned, &payload, ret))
        return false;
    add(canonical, "%s\n%.*s\n", w->method, (int)strcspn(w->uri, "?"), w->uri);
    add_query(w->uri, canonical);
    add(canonical, "\n");
    if (!add_headers(w, &c, canonical, ret))
        return false;
    add(canonical, "\n%s\n%s", c.signed_headers, payload);
    signature_of(k, &c, canonical, signature);
    if (strcmp(signature, c.signature) && !(presigned && w->loose_ranges && is_signed(&c, "range")))
        return refuse(ret, 403, "SignatureDoesNotMatch", !presigned, "canonical request: %s", canonical);
    return check_payload(w, k, payload, presigned, ret);
}
