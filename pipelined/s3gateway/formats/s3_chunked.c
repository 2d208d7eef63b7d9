/* A state machine fed with arbitrary pieces of the body: lines are collected in `line`, data is passed on
 * directly. */
#include "pipelined/s3gateway/formats/s3_chunked.h"

#include "pipelined/s3gateway/formats/s3_error.h"

#include <ctype.h>

enum { LENGTH, DATA, DATA_END, TRAILERS, DONE };

#define SIGNATURE "chunk-signature="

void pl_s3_chunked_init(struct pl_s3_chunked *c, const struct pl_s3_chunked_sink *sink)
{
    c->sink = *sink;
    c->state = LENGTH;
    c->left = 0;
    c->trailers = 0;
    c->line_len = 0;
}

bool pl_s3_chunked_done(const struct pl_s3_chunked *c)
{
    return c->state == DONE;
}

static int malformed(struct pl_err *err, const char *what)
{
    return pl_err_set(err, PL_S3_INVALID_REQUEST, "The aws-chunked body is not well-formed: %s.", what);
}

/* ---- lines ---- */

/* Parses the length in "1000;chunk-signature=…". */
static bool read_length(const char *line, uint64_t *ret)
{
    size_t digits = strspn(line, "0123456789abcdefABCDEF");

    if (!digits || digits > 16 || (line[digits] && line[digits] != ';'))
        return false;
    *ret = strtoull(line, NULL, 16);
    return true;
}

static bool read_signature(const char *line, char ret[PL_S3_CHUNK_SIGNATURE + 1])
{
    const char *at = strchr(line, ';');

    ret[0] = '\0';
    if (!at)
        return true;
    at++;
    if (strncmp(at, SIGNATURE, strlen(SIGNATURE)) != 0)
        return false;
    at += strlen(SIGNATURE);
    if (strlen(at) != PL_S3_CHUNK_SIGNATURE || strspn(at, "0123456789abcdef") != PL_S3_CHUNK_SIGNATURE)
        return false;
    memcpy(ret, at, PL_S3_CHUNK_SIGNATURE + 1);
    return true;
}

static int length_line(struct pl_s3_chunked *c, struct pl_err *err)
{
    char signature[PL_S3_CHUNK_SIGNATURE + 1];
    uint64_t size;
    int r;

    if (!read_length(c->line, &size))
        return malformed(err, "a chunk does not begin with its length");
    if (!read_signature(c->line, signature))
        return malformed(err, "a chunk's length is not followed by a signature");
    if (size > PL_S3_CHUNK_MAX_BYTES)
        return pl_s3_error(err, PL_S3_CHUNK_SIZE);
    r = c->sink.begin(c->sink.self, size, signature, err);
    if (r == 0 && size == 0)
        r = c->sink.end(c->sink.self, err);
    c->left = size;
    c->state = size ? DATA : TRAILERS;
    return r;
}

static int trailer_line(struct pl_s3_chunked *c, struct pl_err *err)
{
    char *colon = strchr(c->line, ':'), *value;
    size_t len;

    if (!*c->line) {
        c->state = DONE;
        return 0;
    }
    if (!colon || colon == c->line || ++c->trailers > PL_S3_TRAILERS_MAX)
        return pl_s3_error(err, PL_S3_MALFORMED_TRAILER);
    *colon = '\0';
    value = colon + 1 + strspn(colon + 1, " \t");
    len = strlen(value);
    while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        value[--len] = '\0';
    return c->sink.trailer(c->sink.self, c->line, value, err);
}

static int take_line(struct pl_s3_chunked *c, struct pl_err *err)
{
    int r;

    if (c->line_len && c->line[c->line_len - 1] == '\r')
        c->line_len--;
    c->line[c->line_len] = '\0';
    if (strlen(c->line) != c->line_len)
        return malformed(err, "a line has a zero byte");
    if (c->state == DATA_END) {
        r = c->line_len ? malformed(err, "a chunk is longer than its length says") : 0;
        c->state = LENGTH;
    } else {
        r = c->state == LENGTH ? length_line(c, err) : trailer_line(c, err);
    }
    c->line_len = 0;
    return r;
}

/* Adds bytes to the current line and handles it when it is complete. Returns the number of bytes used. */
static ssize_t feed_line(struct pl_s3_chunked *c, const char *data, size_t n, struct pl_err *err)
{
    const char *end = memchr(data, '\n', n);
    size_t len = end ? (size_t)(end - data) : n;
    int r;

    if (c->line_len + len > PL_S3_CHUNK_LINE_MAX)
        return c->state == TRAILERS ? pl_s3_error(err, PL_S3_MALFORMED_TRAILER) : malformed(err, "a line is too long");
    memcpy(c->line + c->line_len, data, len);
    c->line_len += len;
    if (!end)
        return (ssize_t)n;
    r = take_line(c, err);
    return r < 0 ? r : (ssize_t)len + 1;
}

static ssize_t feed_data(struct pl_s3_chunked *c, const char *data, size_t n, struct pl_err *err)
{
    int r;

    n = (size_t)PL_MIN((uint64_t)n, c->left);
    r = c->sink.data(c->sink.self, data, n, err);
    c->left -= n;
    if (r == 0 && c->left == 0) {
        c->state = DATA_END;
        r = c->sink.end(c->sink.self, err);
    }
    return r < 0 ? r : (ssize_t)n;
}

int pl_s3_chunked_feed(struct pl_s3_chunked *c, const void *data, size_t n, struct pl_err *err)
{
    const char *p = data;

    while (n) {
        ssize_t used;

        if (c->state == DONE)
            return malformed(err, "bytes follow its end");
        used = c->state == DATA ? feed_data(c, p, n, err) : feed_line(c, p, n, err);
        if (used < 0)
            return (int)used;
        p += used;
        n -= (size_t)used;
    }
    return 0;
}
