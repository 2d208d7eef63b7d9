#include "tests/support/s3_server/s3_mock_internal.h"
#include "tests/support/s3_server/s3_mock_verify.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_LINE 8192

/* --- objects; under the lock --- */

static size_t place_of(const struct s3_mock *m, const char *key, bool *ret_found)
{
    size_t low = 0, high = m->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (strcmp(m->objects[mid].key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *ret_found = low < m->n && !strcmp(m->objects[low].key, key);
    return low;
}

struct s3_mock_stored *s3_mock_find(struct s3_mock *m, const char *key)
{
    bool found;
    size_t at = place_of(m, key, &found);

    return found ? &m->objects[at] : NULL;
}

void s3_mock_put_bytes(struct s3_mock *m, const char *key, const void *bytes, size_t n)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    bool found;
    size_t at = place_of(m, key, &found);
    struct s3_mock_stored *o;

    if (!found) {
        if (m->n == m->cap)
            m->objects = reallocarray(m->objects, m->cap = m->cap ? 2 * m->cap : 64, sizeof *m->objects);
        memmove(&m->objects[at + 1], &m->objects[at], (m->n - at) * sizeof *m->objects);
        m->objects[at] = (struct s3_mock_stored){.key = strdup(key)};
        m->n++;
    }
    o = &m->objects[at];
    free(o->bytes);
    o->bytes = malloc(n + 1);
    memcpy(o->bytes, n ? bytes : "", n);
    o->len = n;
    EVP_Digest(o->bytes, n, md, &len, EVP_md5(), NULL);
    o->etag[0] = '"';
    for (unsigned i = 0; i < 16; i++)
        snprintf(o->etag + 1 + 2 * i, 3, "%02x", md[i]);
    strcat(o->etag, "\"");
}

void s3_mock_remove_key(struct s3_mock *m, const char *key)
{
    bool found;
    size_t at = place_of(m, key, &found);

    if (!found)
        return;
    free(m->objects[at].key);
    free(m->objects[at].bytes);
    memmove(&m->objects[at], &m->objects[at + 1], (--m->n - at) * sizeof *m->objects);
}

/* --- answers --- */

void s3_mock_answer_text(struct s3_mock_answer *a, unsigned status, const char *fmt, ...)
{
    va_list ap;
    int n;

    a->status = status;
    va_start(ap, fmt);
    n = vasprintf(&a->body, fmt, ap);
    va_end(ap);
    a->len = n < 0 ? 0 : (size_t)n;
    snprintf(a->content_type, sizeof a->content_type, "application/xml");
}

/* Enough of escaping for what the mock itself says. */
static char *escaped(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 6 < size; text++) {
        if (*text == '<' || *text == '&')
            n += (size_t)snprintf(out + n, size - n, "&#%d;", *text);
        else
            out[n++] = *text;
    }
    out[n] = '\0';
    return out;
}

void s3_mock_answer_error(struct s3_mock_answer *a, unsigned status, const char *code, const char *message, const char *region)
{
    char text[1024];

    s3_mock_answer_text(
        a, status,
        "<?xml version=\"1.0\" "
        "encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s</Message>%s%s%s<RequestId>mock</RequestId></Error>",
        code, escaped(message, text, sizeof text), *region ? "<Region>" : "", region, *region ? "</Region>" : "");
}

void s3_mock_violated(struct s3_mock *m, const char *method, const char *uri, const char *what)
{
    m->violations++;
    snprintf(m->violation, sizeof m->violation, "%s %.100s: %.350s", method, uri, what);
}

/* --- the operations; under the lock --- */

const char *s3_mock_header(const struct s3_mock_call *c, const char *name)
{
    return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

/* Only these parameters, and those of a presigned request. */
static bool parameters_are(const struct s3_mock_call *c, const char *const *names)
{
    static const char *const presigned[] = {"X-Amz-Algorithm", "X-Amz-Credential",    "X-Amz-Date",           "X-Amz-Expires",
                                            "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Security-Token", NULL};
    const char *p = strchr(c->uri, '?');

    while (p && *++p) {
        const char *end = p + strcspn(p, "&");
        const size_t n = strcspn(p, "=&");
        bool known = false;

        for (size_t i = 0; names[i]; i++)
            known |= strlen(names[i]) == n && !strncmp(names[i], p, n);
        for (size_t i = 0; c->presigned && presigned[i]; i++)
            known |= strlen(presigned[i]) == n && !strncmp(presigned[i], p, n);
        if (!known)
            return false;
        p = *end ? end : NULL;
    }
    return true;
}

static const char *const no_parameters[] = {NULL};

static void unknown_parameter(struct s3_mock_call *c, struct s3_mock_answer *a)
{
    s3_mock_violated(c->m, c->method, c->uri, "a query parameter that this operation does not have");
    s3_mock_answer_error(a, 400, "InvalidArgument", "unknown query parameter", "");
}

/* "bytes=a-b", "bytes=a-", "bytes=-n"; 0 none or not to be heeded, 1 good, -1 not satisfiable. */
static int read_range(const char *text, size_t size, size_t *ret_first, size_t *ret_last)
{
    unsigned long long first, last;
    int used = 0;

    if (!text)
        return 0;
    if (sscanf(text, "bytes=%llu-%llu%n", &first, &last, &used) == 2 && !text[used]) {
        if (first > last)
            return 0;
    } else if ((used = 0, sscanf(text, "bytes=-%llu%n", &last, &used)) == 1 && !text[used]) {
        if (last == 0 || size == 0)
            return -1;
        first = last < size ? size - last : 0;
        last = size - 1;
    } else if ((used = 0, sscanf(text, "bytes=%llu-%n", &first, &used)) == 1 && used && !text[used]) {
        last = size ? size - 1 : 0;
    } else {
        return 0;
    }
    if (first >= size)
        return -1;
    *ret_first = first;
    *ret_last = last < size ? last : size - 1;
    return 1;
}

static void get_object(struct s3_mock_call *c, struct s3_mock_answer *a)
{
    const struct s3_mock_stored *o = s3_mock_find(c->m, c->key);
    size_t first = 0, last;
    int ranged;

    if (!parameters_are(c, no_parameters)) {
        unknown_parameter(c, a);
        return;
    }
    if (!o) {
        s3_mock_answer_error(a, 404, "NoSuchKey", "The specified key does not exist.", "");
        return;
    }
    ranged = c->whole ? 0 : read_range(s3_mock_header(c, "Range"), o->len, &first, &last);
    if (ranged > 0 && c->further && last + c->further < o->len) {
        first += c->further;
        last += c->further;
    }
    if (ranged < 0) {
        s3_mock_answer_error(a, 416, "InvalidRange", "The requested range is not satisfiable", "");
        snprintf(a->content_range, sizeof a->content_range, "bytes */%zu", o->len);
        return;
    }
    a->status = ranged ? 206 : 200;
    a->len = ranged ? last - first + 1 : o->len;
    a->body = malloc(a->len + 1);
    memcpy(a->body, o->bytes + first, a->len);
    if (ranged)
        snprintf(a->content_range, sizeof a->content_range, "bytes %zu-%zu/%zu", first, last, o->len);
    snprintf(a->etag, sizeof a->etag, "%s", o->etag);
    snprintf(a->content_type, sizeof a->content_type, "binary/octet-stream");
}

static void put_object(struct s3_mock_call *c, struct s3_mock_answer *a)
{
    const char *condition = s3_mock_header(c, "If-None-Match");

    if (!parameters_are(c, no_parameters)) {
        unknown_parameter(c, a);
        return;
    }
    if (s3_mock_header(c, "If-Match") || (condition && strcmp(condition, "*"))) {
        s3_mock_violated(c->m, c->method, c->uri, "a condition that PUT does not have");
        s3_mock_answer_error(a, 501, "NotImplemented", "A header you provided implies functionality that is not implemented", "");
        return;
    }
    if (condition && c->m->config.refuses_conditions) {
        s3_mock_answer_error(a, 501, "NotImplemented", "A header you provided implies functionality that is not implemented", "");
        return;
    }
    if (condition && !c->m->config.ignores_conditions && s3_mock_find(c->m, c->key)) {
        s3_mock_answer_error(a, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold", "");
        return;
    }
    s3_mock_put_bytes(c->m, c->key, c->body, c->len);
    a->status = 200;
    snprintf(a->etag, sizeof a->etag, "%s", s3_mock_find(c->m, c->key)->etag);
}

/* As `encoding-type=url` has it: '/' stays, a space is '+'. */
static size_t encode_key(const char *key, char *out, size_t size)
{
    size_t n = 0;

    for (; *key && n + 4 < size; key++) {
        if (*key == ' ')
            out[n++] = '+';
        else if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/", *key))
            out[n++] = *key;
        else
            n += (size_t)snprintf(out + n, size - n, "%%%02X", (unsigned char)*key);
    }
    out[n] = '\0';
    return n;
}

static void list_objects(struct s3_mock_call *c, struct s3_mock_answer *a)
{
    static const char *const names[] = {"list-type", "prefix", "continuation-token", "start-after", "encoding-type",
                                        "max-keys",  NULL};
    struct s3_mock *m = c->m;
    char type[8] = "", prefix[2048] = "", token[2048] = "", after[2048] = "", encoding[16] = "", max[16] = "1000", key[KEY_LINE];
    size_t at, n = 0, most;
    bool found, more = false;
    FILE *f;

    (void)s3_mock_parameter(c->uri, "prefix", prefix, sizeof prefix);
    (void)s3_mock_parameter(c->uri, "continuation-token", token, sizeof token);
    (void)s3_mock_parameter(c->uri, "start-after", after, sizeof after);
    (void)s3_mock_parameter(c->uri, "encoding-type", encoding, sizeof encoding);
    (void)s3_mock_parameter(c->uri, "max-keys", max, sizeof max);
    (void)s3_mock_parameter(c->uri, "list-type", type, sizeof type);
    if (!parameters_are(c, names) || strcmp(type, "2") || (*encoding && strcmp(encoding, "url"))) {
        unknown_parameter(c, a);
        return;
    }
    if (*token && strncmp(token, "from:", 5)) { /* not one that was given out */
        s3_mock_violated(m, c->method, c->uri, "a continuation token of its own");
        s3_mock_answer_error(a, 400, "InvalidArgument", "The continuation token provided is incorrect", "");
        return;
    }
    most = m->config.page_keys ? m->config.page_keys : 1000;
    most = (size_t)atoi(max) < most ? (size_t)atoi(max) : most;
    f = open_memstream(&a->body, &a->len);
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    if (*encoding)
        fprintf(f, "<EncodingType>url</EncodingType>");
    at = place_of(m, *token ? token + 5 : strcmp(after, prefix) > 0 ? after : prefix, &found);
    at += !*token && found && !strcmp(m->objects[at].key, after);
    for (; at < m->n && !strncmp(m->objects[at].key, prefix, strlen(prefix)); at++) {
        if (n++ == most) {
            more = true;
            break;
        }
        encode_key(m->objects[at].key, key, sizeof key);
        fprintf(f, "<Contents><Key>%s</Key><ETag>%s</ETag><Size>%zu</Size></Contents>", key, m->objects[at].etag,
                m->objects[at].len);
    }
    if (more)
        fprintf(f, "<NextContinuationToken>from:%s</NextContinuationToken>", m->objects[at].key);
    fprintf(f, "<IsTruncated>%s</IsTruncated></ListBucketResult>", more ? "true" : "false");
    fclose(f);
    a->status = 200;
    snprintf(a->content_type, sizeof a->content_type, "application/xml");
}

static bool md5_is(const struct s3_mock_call *c)
{
    const char *want = s3_mock_header(c, "Content-MD5");
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    char text[64];

    EVP_Digest(c->body, c->len, md, &len, EVP_md5(), NULL);
    EVP_EncodeBlock((unsigned char *)text, md, 16);
    return want && !strcmp(want, text);
}

static void delete_objects(struct s3_mock_call *c, struct s3_mock_answer *a)
{
    static const char *const names[] = {"delete", NULL};
    char key[2048], *errors = strdup(""), *more;
    unsigned n = 0;

    if (!parameters_are(c, names) || !md5_is(c)) {
        s3_mock_violated(c->m, c->method, c->uri, "DeleteObjects without its Content-MD5");
        s3_mock_answer_error(a, 400, "InvalidDigest", "The Content-MD5 you specified is not valid.", "");
        free(errors);
        return;
    }
    for (const char *p = (const char *)c->body; (p = strstr(p, "<Key>")); p++, n++) { /* our keys need no escapes */
        snprintf(key, sizeof key, "%.*s", (int)strcspn(p + 5, "<"), p + 5);
        if (!c->slower)
            s3_mock_remove_key(c->m, key);
        else if (asprintf(&more, "%s<Error><Key>%s</Key><Code>SlowDown</Code></Error>", errors, key) > 0) {
            free(errors);
            errors = more;
        }
    }
    if (n == 0 || n > 1000) {
        s3_mock_violated(c->m, c->method, c->uri, "DeleteObjects of too many keys");
        s3_mock_answer_error(a, 400, "MalformedXML", "too many keys", "");
    } else {
        s3_mock_answer_text(a, 200, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<DeleteResult>%s</DeleteResult>", errors);
    }
    free(errors);
}

void s3_mock_carry_out(struct s3_mock_call *c, struct s3_mock_answer *a)
{
    const bool object = *c->key;

    if (object && (!strcmp(c->method, "GET") || !strcmp(c->method, "HEAD"))) {
        get_object(c, a);
    } else if (object && !strcmp(c->method, "PUT")) {
        put_object(c, a);
    } else if (object && !strcmp(c->method, "DELETE") && parameters_are(c, no_parameters)) {
        s3_mock_remove_key(c->m, c->key);
        a->status = 204;
    } else if (!object && !strcmp(c->method, "GET")) {
        list_objects(c, a);
    } else if (!object && !strcmp(c->method, "POST") && strstr(c->uri, "?delete=")) {
        delete_objects(c, a);
    } else {
        s3_mock_violated(c->m, c->method, c->uri, "no operation that this mock knows");
        s3_mock_answer_error(a, 501, "NotImplemented", "no such operation", "");
    }
}
