/* s3_chunked: parses a body of Content-Encoding aws-chunked: chunks with their length and, if signed, their
 * signature; then trailers.
 *
 *   hex length [";chunk-signature=" 64 hex] CRLF  that many bytes CRLF   …
 *   "0" [";chunk-signature=" …] CRLF  (name ":" value CRLF)*  CRLF
 *
 *   length ──CRLF──▶ data ──complete──▶ CRLF ──▶ length        length 0 ──▶ trailers ──empty line──▶ end
 *
 * A single LF is accepted for CRLF. Pure; one thread; buffers at most one line. */
#pragma once

#include "storage/base/buf.h"

#define PL_S3_CHUNK_LINE_MAX  4096u /* bytes of a line: a length with its signature, or a trailer */
#define PL_S3_CHUNK_MAX_BYTES ((uint64_t)5 << 30)
#define PL_S3_TRAILERS_MAX    16u
#define PL_S3_CHUNK_SIGNATURE 64u

/* Callbacks for the parts of a body. A negative result stops the parser. */
struct pl_s3_chunked_sink {
    void *self;
    /* A chunk of `size` bytes begins; the last chunk has size 0. `signature` has 64 digits, or is "" if there
     * is none. */
    int (*begin)(void *self, uint64_t size, const char *signature, struct pl_err *err);
    int (*data)(void *self, const void *bytes, size_t n, struct pl_err *err);
    int (*end)(void *self, struct pl_err *err);
    /* A trailer line; the value has no blanks around it. */
    int (*trailer)(void *self, const char *name, const char *value, struct pl_err *err);
};

struct pl_s3_chunked {
    struct pl_s3_chunked_sink sink;
    int state;
    uint64_t left; /* remaining bytes of the chunk */
    unsigned trailers;
    size_t line_len;
    char line[PL_S3_CHUNK_LINE_MAX + 1];
};

void pl_s3_chunked_init(struct pl_s3_chunked *c, const struct pl_s3_chunked_sink *sink);
/* Parses the next bytes. PL_S3_INVALID_REQUEST (malformed framing), PL_S3_CHUNK_SIZE,
 * PL_S3_MALFORMED_TRAILER; errors of the callbacks. After an error the parser must not be used. */
PL_MUST_CHECK
int pl_s3_chunked_feed(struct pl_s3_chunked *c, const void *data, size_t n, struct pl_err *err);
/* Returns true if the body is complete. */
bool pl_s3_chunked_done(const struct pl_s3_chunked *c);
