/* The operations CreateMultipartUpload, UploadPart, UploadPartCopy and AbortMultipartUpload. */
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "pipelined/s3gateway/formats/s3_upload_file.h"
#include "pipelined/s3gateway/gateway/s3_copy.h"
#include "storage/base/clock.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/s3/s3_xml.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <strings.h>

int pl_s3_upload_named(struct pl_s3_request *q, struct pl_s3_upload **ret, struct pl_err *err)
{
    const struct pl_s3_target *t = &q->target;
    int r = pl_s3_upload_find(q->s3->uploads, t->project, t->repo, t->branch, q->key, pl_s3_query(q, "uploadId"), ret, err);

    /* a repo of the same name was deleted, and the upload belongs to that repo */
    if (r == 0 && pl_s3_upload_head(*ret)->repo_id != t->row.id) {
        *ret = pl_s3_upload_unref(*ret);
        r = pl_s3_error(err, PL_S3_NO_SUCH_UPLOAD);
    }
    return r;
}

/* ---- CreateMultipartUpload ---- */

/* Reads the kind of checksum: over all bytes (FULL_OBJECT), or over the checksums of the parts
 * (COMPOSITE). */
static int read_sum(const struct pl_s3_request *q, struct pl_s3_upload_head *head, struct pl_err *err)
{
    const char *algorithm = pl_s3_header(q, "x-amz-checksum-algorithm"), *type = pl_s3_header(q, "x-amz-checksum-type");
    bool whole, parts;

    if (!algorithm)
        return type ? pl_err_set(err, PL_S3_INVALID_REQUEST, "x-amz-checksum-type is given without x-amz-checksum-algorithm.")
                    : 0;
    head->sum = pl_s3_sum_named(algorithm);
    if (!head->sum)
        return pl_err_set(err, PL_S3_INVALID_REQUEST,
                          "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, "
                          "CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512]");
    whole = type ? strcasecmp(type, "FULL_OBJECT") == 0 : head->sum == PL_S3_CRC64NVME;
    parts = type ? strcasecmp(type, "COMPOSITE") == 0 : !whole;
    if ((!whole && !parts) || (whole && !pl_s3_sum_info(head->sum)->joins) || (parts && head->sum == PL_S3_CRC64NVME))
        return pl_err_set(err, PL_S3_INVALID_REQUEST, "The %s checksum type cannot be used with the %s checksum algorithm.", type,
                          pl_s3_sum_info(head->sum)->name);
    head->whole = whole;
    return 0;
}

static int answer_created(struct pl_s3_request *q, const struct pl_s3_upload *u, struct pl_err *err)
{
    const struct pl_s3_upload_head *head = pl_s3_upload_head(u);
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    int r = pl_s3_xml_begin(&out, "InitiateMultipartUploadResult", true, err);

    r = r < 0 ? r : pl_s3_xml_add(&out, "Bucket", q->bucket, err);
    r = r < 0 ? r : pl_s3_xml_add(&out, "Key", q->key, err);
    r = r < 0 ? r : pl_s3_xml_add(&out, "UploadId", pl_s3_upload_id(u), err);
    r = r < 0 ? r : pl_s3_xml_close(&out, "InitiateMultipartUploadResult", err);
    if (r < 0)
        return r;
    if (head->sum) {
        pl_s3_reply_header(q, "x-amz-checksum-algorithm", pl_s3_sum_info(head->sum)->name);
        pl_s3_reply_header(q, "x-amz-checksum-type", head->whole ? "FULL_OBJECT" : "COMPOSITE");
    }
    pl_s3_reply_xml(q, &out);
    return 0;
}

int pl_s3_create_upload(struct pl_s3_request *q, struct pl_err *err)
{
    const struct pl_s3_target *t = &q->target;
    _cleanup_(pl_s3_upload_unrefp) struct pl_s3_upload *u = NULL;
    struct pl_s3_upload_head head = {.project = t->project,
                                     .repo = t->repo,
                                     .branch = t->branch,
                                     .key = q->key,
                                     .author = q->who->name,
                                     .repo_id = t->row.id,
                                     .created_us = pl_clock_wall_us()};
    _cleanup_(pl_buf_finish) struct pl_buf tags = {0};
    int r = read_sum(q, &head, err);

    if (r == 0 && q->key[q->key_len - 1] == '/')
        r = pl_err_set(err, PL_S3_INVALID_ARGUMENT, "A key that ends with / is a folder, which has no bytes of its own.");
    r = r < 0 ? r : pl_s3_tags_asked(q, &tags, err);
    r = r < 0 ? r : pl_s3_attributes(q, &(struct pl_s3_known){.tags = pl_buf_str(&tags)}, &head.attributes, err);
    r = r < 0 ? r : pl_s3_upload_create(q->s3->uploads, &head, &u, err);
    pl_buf_finish(&head.attributes);
    return r < 0 ? r : answer_created(q, u, err);
}

/* ---- UploadPart ---- */

static int read_number(const struct pl_s3_request *q, unsigned *ret, struct pl_err *err)
{
    const char *text = pl_s3_query(q, "partNumber");
    size_t digits = text ? strspn(text, "0123456789") : 0;
    unsigned long number = digits && digits < 9 && !text[digits] ? strtoul(text, NULL, 10) : 0;

    if (number < 1 || number > PL_S3_PARTS_MAX)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Part number must be an integer between 1 and %u, inclusive",
                          PL_S3_PARTS_MAX);
    *ret = (unsigned)number;
    return 0;
}

int pl_s3_part_before(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_upload_unrefp) struct pl_s3_upload *u = NULL;
    unsigned number;
    int r = pl_s3_put_before(q, err);

    r = r < 0 ? r : read_number(q, &number, err);
    r = r < 0 ? r : pl_s3_upload_named(q, &u, err);
    if (r == 0)
        q->default_sum = pl_s3_upload_head(u)->sum;
    return r;
}

/* Chunks the spool's bytes and stores them; they are in packs when it returns. */
static int store_part(const struct pl_s3_request *q, struct pl_body_spool *spool, struct pl_entry *ret, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(q->target.store);
    int r = pl_pack_builder_open(&sink, q->target.project, &session, err);

    spool->at = 0;
    r = r < 0 ? r : pl_file_write_stream(session, PL_KIND_FILE, pl_body_spool_read, spool, ret, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

static int check_part_sum(const struct pl_s3_upload_head *head, const struct pl_s3_body *b, struct pl_err *err)
{
    const struct pl_s3_sum_info *want = pl_s3_sum_info(head->sum), *is = pl_s3_sum_info(b->sum.kind);

    if (!want || head->sum == b->sum.kind)
        return 0;
    return pl_err_set(err, PL_S3_INVALID_REQUEST,
                      "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s", want->name,
                      is ? is->name : "null");
}

int pl_s3_upload_part(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_upload_unrefp) struct pl_s3_upload *u = NULL;
    struct pl_s3_part part = {.at_us = pl_clock_wall_us()};
    char etag[PL_S3_ETAG_MAX + 1], sum[PL_S3_SUM_TEXT];
    struct pl_s3_body *b = q->body;
    int r = read_number(q, &part.number, err);

    r = r < 0 ? r : pl_s3_upload_named(q, &u, err);
    r = r < 0 ? r : check_part_sum(pl_s3_upload_head(u), b, err);
    r = r < 0 ? r : store_part(q, &b->spool, &part.entry, err);
    if (r < 0)
        return r;
    memcpy(part.md5, b->md5, sizeof part.md5);
    part.sum_kind = b->sum.kind;
    memcpy(part.sum, b->sum_bytes, sizeof part.sum);
    r = pl_s3_upload_add(u, &part, err);
    if (r < 0)
        return r;
    pl_hex_encode(b->md5, sizeof b->md5, etag);
    pl_s3_reply_etag(q, etag);
    if (b->sum.kind) {
        pl_s3_sum_text(b->sum.kind, b->sum_bytes, sum);
        pl_s3_reply_header(q, pl_s3_sum_info(b->sum.kind)->header, sum);
    }
    pl_http_reply(q->http, 200, NULL, NULL, 0);
    return 0;
}

/* ---- UploadPartCopy ---- */

/* Parses "bytes=FIRST-LAST"; both are required. */
static int read_range(const struct pl_s3_request *q, uint64_t size, uint64_t *ret_first, uint64_t *ret_count, struct pl_err *err)
{
    const char *text = pl_s3_header(q, "x-amz-copy-source-range");
    unsigned long long first, last;
    int used = 0;

    *ret_first = 0;
    *ret_count = size;
    if (!text)
        return 0;
    if (sscanf(text, "bytes=%18llu-%18llu%n", &first, &last, &used) != 2 || text[used] || strpbrk(text + 6, " +") || first > last)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT,
                          "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the "
                          "zero-based offsets of the first and last bytes to copy");
    if (last >= size)
        return pl_err_set(err, PL_S3_INVALID_RANGE, "Range specified is not valid for source object of size: %llu",
                          (unsigned long long)size);
    *ret_first = first;
    *ret_count = last - first + 1;
    return *ret_count > PL_S3_OBJECT_MAX ? pl_s3_error(err, PL_S3_ENTITY_TOO_LARGE) : 0;
}

/* Computes MD5 and checksum of the spool's bytes. */
static int sum_up(struct pl_body_spool *spool, enum pl_s3_sum_kind kind, struct pl_s3_part *part, struct pl_err *err)
{
    struct pl_s3_sum sum = {0};
    const void *bytes;
    int r = pl_body_spool_map(spool, &bytes, err);

    r = r < 0 ? r : pl_s3_sum_init(&sum, kind, err);
    if (r == 0 && EVP_Digest(bytes, (size_t)spool->size, part->md5, NULL, EVP_md5(), NULL) != 1)
        r = pl_err_nomem(err);
    if (r == 0) {
        part->sum_kind = kind;
        pl_s3_sum_add(&sum, bytes, (size_t)spool->size);
        pl_s3_sum_get(&sum, part->sum);
    }
    pl_s3_sum_finish(&sum);
    return r;
}

static int copy_part(struct pl_s3_request *q, const struct pl_s3_copy_source *s, struct pl_s3_upload *u, struct pl_s3_part *part,
                     struct pl_err *err)
{
    _cleanup_(pl_body_spool_finish) struct pl_body_spool spool = {.fd = -1};
    uint64_t first, count;
    int r = read_range(q, s->file.entry.size, &first, &count, err);

    pl_body_spool_init(&spool, q->services->tmp_dir, q->services->disks);
    r = r < 0 ? r : pl_s3_copy_source_read(s, first, count, &spool, err);
    r = r < 0 ? r : sum_up(&spool, pl_s3_upload_head(u)->sum, part, err);
    return r < 0 ? r : store_part(q, &spool, &part->entry, err);
}

int pl_s3_part_copy(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_upload_unrefp) struct pl_s3_upload *u = NULL;
    _cleanup_(pl_s3_copy_source_finish) struct pl_s3_copy_source s = {0};
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_s3_part part = {.at_us = pl_clock_wall_us()};
    char etag[PL_S3_ETAG_MAX + 1], sum[PL_S3_SUM_TEXT] = "";
    int r = read_number(q, &part.number, err);

    r = r < 0 ? r : pl_s3_upload_named(q, &u, err);
    r = r < 0 ? r : pl_s3_source(q, &s, err);
    r = r < 0 ? r : copy_part(q, &s, u, &part, err);
    r = r < 0 ? r : pl_s3_upload_add(u, &part, err);
    if (r < 0)
        return r;
    pl_hex_encode(part.md5, sizeof part.md5, etag);
    if (part.sum_kind)
        pl_s3_sum_text(part.sum_kind, part.sum, sum);
    if (pl_s3_copy_result(&out, "CopyPartResult", etag, part.sum_kind, sum) < 0)
        return pl_err_nomem(err);
    if (*pl_s3_version_of(&s.view, &s.file))
        pl_s3_reply_header(q, "x-amz-copy-source-version-id", pl_s3_version_of(&s.view, &s.file));
    pl_s3_reply_xml(q, &out);
    return 0;
}

/* ---- AbortMultipartUpload ---- */

int pl_s3_abort_upload(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_upload_unrefp) struct pl_s3_upload *u = NULL;
    int r = pl_s3_target(q, PL_VERB_WRITE, err);

    r = r < 0 ? r : pl_s3_upload_named(q, &u, err);
    r = r < 0 ? r : pl_s3_upload_end(u, NULL, err);
    if (r == 0)
        pl_http_reply(q->http, 204, NULL, NULL, 0);
    return r;
}
