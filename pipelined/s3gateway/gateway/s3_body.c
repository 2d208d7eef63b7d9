/* Passes the bytes of a body through the framing parser (if the body is framed), then the hashes, then the
 * spool. Checks the signature of each chunk at its end, and everything else when the body is complete. */
#include "pipelined/s3gateway/gateway/s3_body.h"

#include "pipelined/s3gateway/gateway/gateway_internal.h"
#include "storage/s3/s3_xml.h"

#include <openssl/evp.h>
#include <strings.h>

#define TRAILER_SIGNATURE "x-amz-trailer-signature"

struct pl_s3_body *pl_s3_body_destroy(struct pl_s3_body *b)
{
    if (!b)
        return NULL;
    pl_body_spool_finish(&b->spool);
    pl_s3_sum_finish(&b->sum);
    EVP_MD_CTX_free(b->md5_context);
    free(b);
    return NULL;
}

/* ---- receive bytes ---- */

static int take_bytes(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct pl_s3_body *b = self;

    if (b->spool.size + n > b->length)
        return pl_err_set(err, PL_S3_INCOMPLETE_BODY, "The body has more than the %llu bytes that were announced.",
                          (unsigned long long)b->length);
    EVP_DigestUpdate(b->md5_context, data, n);
    pl_s3_sum_add(&b->sum, data, n);
    if (b->hashes)
        pl_hasher_add(&b->sha256, data, n);
    if (b->signs)
        pl_hasher_add(&b->chunk_hash, data, n);
    return pl_body_spool_write(&b->spool, data, n, err);
}

static int chunk_begin(void *self, uint64_t size, const char *signature, struct pl_err *err)
{
    struct pl_s3_body *b = self;

    if (size > b->length - b->spool.size)
        return pl_err_set(err, PL_S3_INCOMPLETE_BODY, "The chunks have more than the %llu bytes that were announced.",
                          (unsigned long long)b->length);
    if (b->signs && !*signature)
        return pl_s3_error(err, PL_S3_SIGNATURE_MISMATCH);
    memcpy(b->chunk_signature, signature, strlen(signature) + 1);
    pl_hasher_init(&b->chunk_hash);
    return 0;
}

static int chunk_end(void *self, struct pl_err *err)
{
    struct pl_s3_body *b = self;
    char computed[PL_SIGV4_HEX + 1];
    struct pl_hash hash;
    int r;

    if (!b->signs)
        return 0;
    pl_hasher_get(&b->chunk_hash, &hash);
    r = pl_sigv4_stream_chunk(&b->stream, &hash, computed, err);
    if (r == 0 && !pl_sigv4_same(computed, b->chunk_signature))
        r = pl_s3_error(err, PL_S3_SIGNATURE_MISMATCH);
    return r;
}

static int trailer_signature(struct pl_s3_body *b, const char *value, struct pl_err *err)
{
    char computed[PL_SIGV4_HEX + 1];
    struct pl_hash hash;
    int r;

    pl_hasher_get(&b->trailer_hash, &hash);
    r = pl_sigv4_stream_trailer(&b->stream, &hash, computed, err);
    if (r == 0 && !pl_sigv4_same(computed, value))
        r = pl_s3_error(err, PL_S3_SIGNATURE_MISMATCH);
    b->trailer_signed = r == 0;
    return r;
}

static int trailer(void *self, const char *name, const char *value, struct pl_err *err)
{
    struct pl_s3_body *b = self;
    const struct pl_s3_sum_info *info = pl_s3_sum_info(b->sum.kind);
    char lower[256];
    size_t n = strlen(name);

    /* refuse lines after the trailer signature, because no signature covers them */
    if (b->trailer_signed)
        return pl_s3_error(err, PL_S3_MALFORMED_TRAILER);
    if (b->signs_trailer && strcasecmp(name, TRAILER_SIGNATURE) == 0)
        return trailer_signature(b, value, err);
    if (!b->sum_trails || b->trailer_seen || strcasecmp(name, info->header) != 0 || n >= sizeof lower ||
        !pl_s3_sum_parse(b->sum.kind, value, b->said_sum))
        return pl_s3_error(err, PL_S3_MALFORMED_TRAILER);
    b->trailer_seen = true;
    pl_hasher_add(&b->trailer_hash, info->header, n);
    pl_hasher_add(&b->trailer_hash, ":", 1);
    pl_hasher_add(&b->trailer_hash, value, strlen(value));
    pl_hasher_add(&b->trailer_hash, "\n", 1);
    return 0;
}

int pl_s3_body_write(struct pl_s3_body *b, const void *data, size_t n, struct pl_err *err)
{
    return b->framed ? pl_s3_chunked_feed(&b->chunked, data, n, err) : take_bytes(b, data, n, err);
}

/* ---- headers ---- */

static int read_payload(struct pl_s3_body *b, const struct pl_s3_request *q, struct pl_err *err)
{
    const struct pl_s3_chunked_sink sink = {b, chunk_begin, take_bytes, chunk_end, trailer};
    const char *p = q->payload;

    if (pl_streq(p, PL_SIGV4_UNSIGNED))
        return 0;
    b->signs = pl_streq(p, PL_SIGV4_STREAMING) || pl_streq(p, PL_SIGV4_STREAMING_TRAILER);
    b->signs_trailer = pl_streq(p, PL_SIGV4_STREAMING_TRAILER);
    b->framed = b->signs || pl_streq(p, PL_SIGV4_UNSIGNED_TRAILER);
    if (b->framed) {
        pl_s3_chunked_init(&b->chunked, &sink);
        pl_hasher_init(&b->trailer_hash);
        if (b->signs)
            pl_sigv4_stream_init(&b->stream, &q->claim.scope, &q->signing, q->claim.time, q->claim.signature);
        return 0;
    }
    if (strncmp(p, "STREAMING-", 10) == 0)
        return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "x-amz-content-sha256: %.80s is not implemented.", p);
    if (pl_hash_parse(p, &b->said_sha256, NULL) < 0)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT,
                          "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, %s or a valid sha256 value.", PL_SIGV4_STREAMING);
    b->hashes = true;
    pl_hasher_init(&b->sha256);
    return 0;
}

static int read_length(struct pl_s3_body *b, const struct pl_s3_request *q, uint64_t max, struct pl_err *err)
{
    int64_t length = pl_http_body_length(q->http);
    const char *decoded = pl_s3_header(q, "x-amz-decoded-content-length");

    if (b->framed && !decoded)
        return pl_s3_error(err, PL_S3_MISSING_LENGTH);
    if (b->framed && !pl_s3_number(decoded, &b->length))
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "x-amz-decoded-content-length \"%.40s\" is not a length.", decoded);
    if (!b->framed && length < 0)
        return pl_s3_error(err, PL_S3_MISSING_LENGTH);
    if (!b->framed)
        b->length = (uint64_t)length;
    return b->length > max ? pl_err_set(err, PL_S3_ENTITY_TOO_LARGE, "The body has %llu bytes; at most %llu are accepted here.",
                                        (unsigned long long)b->length, (unsigned long long)max)
                           : 0;
}

static int read_md5(struct pl_s3_body *b, const struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    const char *said = pl_s3_header(q, "Content-MD5");

    b->md5_context = EVP_MD_CTX_new();
    if (!b->md5_context || EVP_DigestInit_ex(b->md5_context, EVP_md5(), NULL) != 1)
        return pl_err_nomem(err);
    if (!said)
        return 0;
    if (pl_base64_decode(said, &bytes, NULL) < 0 || bytes.len != sizeof b->said_md5)
        return pl_s3_error(err, PL_S3_INVALID_DIGEST);
    memcpy(b->said_md5, bytes.data, bytes.len);
    b->wants_md5 = true;
    return 0;
}

/* Refuses checksums of algorithms that are not known, rather than to ignore them. */
static int check_sum_names(const struct pl_s3_request *q, struct pl_err *err)
{
    static const char prefix[] = "x-amz-checksum-";
    static const char *const others[] = {"algorithm", "mode", "type"};
    const struct pl_http_pair *headers[PL_S3_AMZ_MAX];
    size_t n = pl_s3_amz_headers(q, prefix, headers);

    for (size_t i = 0; i < n; i++) {
        bool known = pl_s3_sum_of_header(headers[i]->name);

        for (size_t k = 0; k < PL_ARRAY_SIZE(others) && !known; k++)
            known = strcasecmp(headers[i]->name + strlen(prefix), others[k]) == 0;
        if (!known)
            return pl_err_set(err, PL_S3_NOT_IMPLEMENTED,
                              "%.60s is not implemented here: use crc32, crc32c, crc64nvme, sha1, sha256, sha512 or md5.",
                              headers[i]->name);
    }
    return 0;
}

/* True for a checksum of no bytes that is in the query of a presigned URL. SDKs that sign a URL while there is no body
 * yet put it there. */
static bool is_placeholder(const struct pl_s3_request *q, enum pl_s3_sum_kind kind, const uint8_t bytes[PL_S3_SUM_MAX_BYTES])
{
    uint8_t of_nothing[PL_S3_SUM_MAX_BYTES];
    struct pl_s3_sum sum = {0};

    if (pl_http_header(q->http, pl_s3_sum_info(kind)->header) || pl_s3_sum_init(&sum, kind, NULL) < 0)
        return false;
    pl_s3_sum_get(&sum, of_nothing);
    pl_s3_sum_finish(&sum);
    return memcmp(bytes, of_nothing, sizeof of_nothing) == 0;
}

/* Reads the announced checksum: at most one, in a header, or in a trailer that x-amz-trailer names. */
static int read_sum(struct pl_s3_body *b, const struct pl_s3_request *q, struct pl_err *err)
{
    enum pl_s3_sum_kind kind = PL_S3_SUM_NONE;
    const char *trails = pl_s3_header(q, "x-amz-trailer");
    uint8_t bytes[PL_S3_SUM_MAX_BYTES];

    for (int k = 1; k < PL_S3_SUM_KINDS && !q->op->sum_elsewhere; k++) {
        const char *said = pl_s3_header(q, pl_s3_sum_info((enum pl_s3_sum_kind)k)->header);

        if (!said)
            continue;
        if (!pl_s3_sum_parse((enum pl_s3_sum_kind)k, said, bytes))
            return pl_err_set(err, PL_S3_INVALID_REQUEST, "Value for %s header is invalid.",
                              pl_s3_sum_info((enum pl_s3_sum_kind)k)->header);
        if (is_placeholder(q, (enum pl_s3_sum_kind)k, bytes))
            continue;
        if (kind)
            return pl_err_set(err, PL_S3_INVALID_REQUEST,
                              "Expecting a single x-amz-checksum- header. Multiple checksum Types are not "
                              "allowed.");
        kind = (enum pl_s3_sum_kind)k;
        memcpy(b->said_sum, bytes, sizeof bytes);
    }
    b->has_sum = kind;
    if (trails && *trails) {
        if (kind)
            return pl_err_set(err, PL_S3_INVALID_REQUEST,
                              "A checksum may be given in a header or in a trailer, but not in both.");
        kind = pl_s3_sum_of_header(trails);
        if (!kind && strncasecmp(trails, "x-amz-checksum-", 15) == 0)
            return pl_err_set(err, PL_S3_NOT_IMPLEMENTED,
                              "x-amz-trailer: %.60s is not implemented here: use crc32, crc32c, crc64nvme, sha1, sha256, sha512 "
                              "or md5.",
                              trails);
        if (!kind || !b->framed)
            return pl_err_set(err, PL_S3_INVALID_REQUEST, "x-amz-trailer: %.60s is not supported%s.", trails,
                              kind ? " without an aws-chunked body" : "");
        b->has_sum = b->sum_trails = true;
    }
    return pl_s3_sum_init(&b->sum, kind ? kind : q->default_sum, err);
}

/* Lets the spool keep a body of up to PL_S3_MEMORY_ONE bytes in memory. The bytes are read again as soon as
 * the body is complete, so writing them to a file would be wasted work. */
static void prefer_memory(struct pl_s3_body *b)
{
    if (b->length > PL_BODY_SPOOL_MEMORY_BYTES && b->length <= PL_S3_MEMORY_ONE)
        b->spool.memory_max = b->spool.memory.max = (size_t)b->length;
}

int pl_s3_body_create(struct pl_s3_request *q, uint64_t max, struct pl_s3_body **ret, struct pl_err *err)
{
    struct pl_s3_body *b = calloc(1, sizeof *b);
    int r;

    if (!b)
        return pl_err_nomem(err);
    pl_body_spool_init(&b->spool, q->services->tmp_dir, q->services->disks);
    r = read_payload(b, q, err);
    r = r < 0 ? r : read_length(b, q, max, err);
    r = r < 0 ? r : read_md5(b, q, err);
    r = r < 0 ? r : check_sum_names(q, err);
    r = r < 0 ? r : read_sum(b, q, err);
    if (r < 0) {
        pl_s3_body_destroy(b);
        return r;
    }
    prefer_memory(b);
    *ret = b;
    return 0;
}

/* ---- final checks ---- */

static int check_framing(const struct pl_s3_body *b, struct pl_err *err)
{
    if (!pl_s3_chunked_done(&b->chunked))
        return pl_s3_error(err, PL_S3_INCOMPLETE_BODY);
    if ((b->sum_trails && !b->trailer_seen) || (b->signs_trailer && !b->trailer_signed))
        return pl_s3_error(err, PL_S3_MALFORMED_TRAILER);
    return 0;
}

int pl_s3_body_check(struct pl_s3_body *b, struct pl_err *err)
{
    struct pl_hash sha256;
    int r = b->framed ? check_framing(b, err) : 0;

    if (r == 0 && b->spool.size != b->length)
        r = pl_s3_error(err, PL_S3_INCOMPLETE_BODY);
    if (r < 0)
        return r;
    EVP_DigestFinal_ex(b->md5_context, b->md5, NULL);
    pl_s3_sum_get(&b->sum, b->sum_bytes);
    if (b->hashes) {
        pl_hasher_get(&b->sha256, &sha256);
        if (!pl_hash_eq(&sha256, &b->said_sha256))
            return pl_s3_error(err, PL_S3_WRONG_SHA256);
    }
    if (b->wants_md5 && memcmp(b->md5, b->said_md5, sizeof b->md5) != 0)
        return pl_s3_error(err, PL_S3_BAD_DIGEST);
    if (b->has_sum && memcmp(b->sum_bytes, b->said_sum, sizeof b->said_sum) != 0)
        return pl_err_set(err, PL_S3_BAD_DIGEST, "The %s you specified did not match the calculated checksum.",
                          pl_s3_sum_info(b->sum.kind)->name);
    return 0;
}

int pl_s3_body_xml(struct pl_s3_body *b, const char *root, struct pl_s3_xml **ret, struct pl_err *err)
{
    const void *bytes;
    int r = pl_body_spool_map(&b->spool, &bytes, err);

    r = r < 0 ? r : pl_s3_xml_parse(bytes, (size_t)b->spool.size, ret, err);
    if (r < 0)
        return r == PL_ENOMEM ? r : pl_err_wrap(err, PL_S3_MALFORMED_XML, "body");
    if (pl_streq(pl_s3_xml_root(*ret)->name, root))
        return 0;
    *ret = pl_s3_xml_destroy(*ret);
    return pl_s3_error(err, PL_S3_MALFORMED_XML);
}
