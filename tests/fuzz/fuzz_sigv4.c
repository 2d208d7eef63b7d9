// link: storage/http storage/s3
/* Any query and any Authorization header: refused with a reason, or a claim within its bounds, that a random key does not bear out and
 * the true one does. */
#include "storage/http/uri.h"
#include "storage/s3/sigv4_encoding.h"
#include "storage/s3/sigv4_verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* What is parsed and written again is parsed to the same. */
static void fuzz_query(const char *text, struct pl_uri_query *q)
{
    _cleanup_(pl_uri_query_finish) struct pl_uri_query again = {0};
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};

    for (size_t i = 0; i < q->n; i++) {
        must(pl_buf_add_str(&out, i > 0 ? "&" : "", NULL) == 0);
        must(pl_uri_escape(q->pairs[i].name, false, &out, NULL) == 0 && pl_buf_add_str(&out, "=", NULL) == 0);
        must(pl_uri_escape(q->pairs[i].value, false, &out, NULL) == 0);
    }
    must(pl_uri_query_parse(pl_buf_str(&out), &again, NULL) == 0 && again.n == q->n);
    for (size_t i = 0; i < q->n; i++)
        must(pl_streq(q->pairs[i].name, again.pairs[i].name) && pl_streq(q->pairs[i].value, again.pairs[i].value));
    (void)text;
}

static void fuzz_claim(const struct pl_sigv4_request *q)
{
    struct pl_sigv4_claim c;
    struct pl_sigv4_key key;
    struct pl_err why = {0};
    enum pl_sigv4_verdict v = pl_sigv4_claim_read(q, &c, &why);

    if (v != PL_SIGV4_OK) {
        must(why.msg[0] != '\0' && pl_sigv4_verdict_info(v)->status >= 400);
        return;
    }
    must(strlen(c.signature) == PL_SIGV4_HEX && strlen(c.time) == PL_SIGV4_TIME_BYTES && c.access_key[0] != '\0');
    must(strncmp(c.time, c.scope.date, PL_SIGV4_DATE_BYTES) == 0 && c.expires_s <= PL_SIGV4_EXPIRES_MAX);
    must(pl_sigv4_key("secret", &c.scope, &key, NULL) == 0);
    v = pl_sigv4_claim_check(&c, q, &key, NULL);
    must(v == PL_SIGV4_MISMATCH || v == PL_SIGV4_UNSIGNED_HEADER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    _cleanup_(pl_uri_query_finish) struct pl_uri_query query = {0};
    _cleanup_free_ char *text = strndup((const char *)data, n);
    char *header = text != NULL ? strchr(text, '\n') : NULL;
    struct pl_sigv4_pair headers[] = {{"Host", "h"}, {"x-amz-date", "20130524T000000Z"}, {"authorization", ""}};
    struct pl_sigv4_request q = {.method = "GET", .path = "/", .headers = headers, .n_headers = 2, .payload = PL_SIGV4_UNSIGNED};

    must(text != NULL);
    if (header != NULL) {
        *header++ = '\0';
        headers[2].value = header;
        q.n_headers = 3;
    }
    if (pl_uri_query_parse(text, &query, NULL) == 0) {
        fuzz_query(text, &query);
        q.query = query.pairs;
        q.n_query = query.n;
    }
    fuzz_claim(&q);
    return 0;
}
