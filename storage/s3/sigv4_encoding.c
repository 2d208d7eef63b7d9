/* sigv4_encoding: decodes all parameters into one buffer; the results point into that buffer. */
#include "storage/s3/sigv4_encoding.h"

#include "storage/http/uri.h"

#include <strings.h>

/* Decodes the name or the value of a parameter and appends it to `text` with a NUL. */
static int add_decoded(const char *part, size_t len, struct pl_buf *text, struct pl_err *err)
{
    int r = pl_uri_unescape(part, len, true, text, err);

    return r < 0 ? r : pl_buf_add_u8(text, 0, err);
}

static int add_parameter(const char *p, size_t len, struct pl_buf *text, size_t *n, struct pl_err *err)
{
    const char *equals = memchr(p, '=', len);
    const size_t name = equals != NULL ? (size_t)(equals - p) : len;
    int r;

    if (len == 0)
        return 0;
    if (*n == PL_SIGV4_PAIRS_MAX)
        return pl_err_set(err, PL_ELIMIT, "the query has more than %d parameters", PL_SIGV4_PAIRS_MAX);
    r = add_decoded(p, name, text, err);
    if (r == 0)
        r = add_decoded(p + name + (equals != NULL), len - name - (equals != NULL), text, err);
    if (r == 0)
        ++*n;
    return r;
}

int pl_uri_query_parse(const char *text, struct pl_uri_query *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf decoded = {.max = PL_SIGV4_TEXT_MAX};
    struct pl_uri_query q = {0};
    const char *p;
    size_t n = 0;
    int r = 0;

    for (p = text; r == 0; p++) {
        const size_t len = strcspn(p, "&");

        r = add_parameter(p, len, &decoded, &n, err);
        p += len;
        if (*p == '\0')
            break;
    }
    if (r < 0)
        return r;
    q.memory = (char *)decoded.data;
    decoded = (struct pl_buf){0};
    p = q.memory;
    for (q.n = 0; q.n < n; q.n++) {
        q.pairs[q.n].name = p;
        p += strlen(p) + 1;
        q.pairs[q.n].value = p;
        p += strlen(p) + 1;
    }
    *ret = q;
    return 0;
}

void pl_uri_query_finish(struct pl_uri_query *q)
{
    free(q->memory);
    q->memory = NULL;
    q->n = 0;
}

const char *pl_sigv4_pair_find(const struct pl_sigv4_pair *pairs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (pl_streq(pairs[i].name, name))
            return pairs[i].value;
    return NULL;
}

const char *pl_sigv4_header_find(const struct pl_sigv4_pair *pairs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(pairs[i].name, name) == 0)
            return pairs[i].value;
    return NULL;
}
