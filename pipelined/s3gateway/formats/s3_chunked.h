/* s3_chunked: bodies of Content-Encoding aws-chunked: pieces with their length and, when signed, their signature; then trailers.
 *
 *   hex length [";chunk-signature=" 64 hex] CRLF  that many bytes CRLF   …   "0" [";chunk-signature=" …] CRLF  (name ":" value CRLF)*  CRLF
 *
 *   length ──CRLF──▶ data ──all there──▶ CRLF ──▶ length        length 0 ──▶ trailers ──an empty line──▶ end
 *
 * Where CRLF ends a line, LF alone does too. Pure; one thread; keeps at most one line. */
#pragma once

#include "storage/base/buf.h"

#define PL_S3_CHUNK_LINE_MAX  4096u /* a line: a length with its signature, or a trailer */
#define PL_S3_CHUNK_MAX_BYTES ((uint64_t)5 << 30)
#define PL_S3_TRAILERS_MAX    16u
#define PL_S3_CHUNK_SIGNATURE 64u

/* What comes of a body. Negative results end it. */
struct pl_s3_chunked_sink {
    void *self;
    /* A chunk of `size` bytes begins; the last one has none. `signature` has 64 digits, or is "". */
    int (*begin)(void *self, uint64_t size, const char *signature, struct pl_err *err);
    int (*data)(void *self, const void *bytes, size_t n, struct pl_err *err);
    int (*end)(void *self, struct pl_err *err);
    /* Without blanks around the value. */
    int (*trailer)(void *self, const char *name, const char *value, struct pl_err *err);
};

struct pl_s3_chunked {
    struct pl_s3_chunked_sink sink;
    int state;
    uint64_t left; /* of the chunk */
    unsigned trailers;
    size_t line_len;
    char line[PL_S3_CHUNK_LINE_MAX + 1];
};

void pl_s3_chunked_init(struct pl_s3_chunked *c, const struct pl_s3_chunked_sink *sink);
/* The next bytes. PL_S3_INVALID_REQUEST (no such framing), PL_S3_CHUNK_SIZE, PL_S3_MALFORMED_TRAILER; the sink's errors. After one
 * nothing more may be fed. */
PL_MUST_CHECK
int pl_s3_chunked_feed(struct pl_s3_chunked *c, const void *data, size_t n, struct pl_err *err);
/* Whether all came. */
bool pl_s3_chunked_done(const struct pl_s3_chunked *c);
