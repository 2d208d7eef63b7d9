/* GetObjectAttributes: what is known of an object beside its bytes and headers: ETag, checksum, the parts in
 * which it was uploaded, size. */
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "storage/s3/s3_xml.h"

enum { ETAG = 1, CHECKSUM = 2, PARTS = 4, STORAGE = 8, SIZE = 16 };

/* Reads the list of attributes that the client wants. */
static int read_wanted(const struct pl_s3_request *q, unsigned *ret, struct pl_err *err)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {{"ETag", ETAG}, {"Checksum", CHECKSUM}, {"ObjectParts", PARTS}, {"StorageClass", STORAGE}, {"ObjectSize", SIZE}};
    const char *p = pl_s3_header(q, "x-amz-object-attributes");

    for (*ret = 0; p && *p;) {
        size_t len, i = 0;

        p += strspn(p, ", ");
        len = strcspn(p, ", ");
        while (len && i < PL_ARRAY_SIZE(names) && !(strlen(names[i].name) == len && strncmp(p, names[i].name, len) == 0))
            i++;
        if (i == PL_ARRAY_SIZE(names))
            return pl_err_set(err, PL_S3_INVALID_ARGUMENT,
                              "x-amz-object-attributes: \"%.*s\" is not one of ETag, Checksum, ObjectParts, StorageClass, "
                              "ObjectSize.",
                              (int)PL_MIN(len, (size_t)60), p);
        *ret |= len ? names[i].bit : 0;
        p += len;
    }
    return *ret ? 0 : pl_err_set(err, PL_S3_INVALID_REQUEST, "The header x-amz-object-attributes must name an attribute.");
}

/* Reads a number from 0 to `max` in a header; larger values become `max`. */
static int read_number(const struct pl_s3_request *q, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                       struct pl_err *err)
{
    const char *text = pl_s3_header(q, name);

    *ret = fallback;
    if (!text)
        return 0;
    if (!pl_s3_number(text, ret))
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "%s: \"%.40s\" is not a number.", name, text);
    *ret = PL_MIN(*ret, max);
    return 0;
}

static int add_checksum(const struct pl_branch_file *f, struct pl_buf *out, struct pl_err *err)
{
    char text[PL_S3_SUM_TEXT];
    enum pl_s3_sum_kind kind = pl_s3_stored_sum(f, text);
    int r;

    if (!kind)
        return 0;
    r = pl_s3_xml_open(out, "Checksum", err);
    r = r < 0 ? r : pl_s3_xml_add(out, pl_s3_sum_info(kind)->element, text, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "ChecksumType", strchr(text, '-') ? "COMPOSITE" : "FULL_OBJECT", err);
    return r < 0 ? r : pl_s3_xml_close(out, "Checksum", err);
}

static int add_part(const struct pl_file_parts *parts, uint64_t number, enum pl_s3_sum_kind kind, struct pl_buf *out,
                    struct pl_err *err)
{
    uint8_t bytes[PL_S3_SUM_MAX_BYTES] = {0};
    char text[PL_S3_SUM_TEXT];
    uint64_t first, size = 0;
    const uint8_t *sum = NULL;
    int r = pl_s3_xml_open(out, "Part", err);

    (void)pl_file_parts_get(parts, number, &first, &size, &sum);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "PartNumber", number, err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "Size", size, err);
    if (r == 0 && sum && kind && parts->sum_bytes == pl_s3_sum_info(kind)->bytes) {
        memcpy(bytes, sum, parts->sum_bytes);
        pl_s3_sum_text(kind, bytes, text);
        r = pl_s3_xml_add(out, pl_s3_sum_info(kind)->element, text, err);
    }
    return r < 0 ? r : pl_s3_xml_close(out, "Part", err);
}

/* Adds a page of the parts; nothing if the object was not uploaded in parts. */
static int add_parts(const struct pl_s3_request *q, const struct pl_branch_file *f, struct pl_buf *out, struct pl_err *err)
{
    struct pl_file_parts parts;
    char whole[PL_S3_SUM_TEXT];
    enum pl_s3_sum_kind kind = pl_s3_stored_sum(f, whole);
    uint64_t after, max, last;
    int r = read_number(q, "x-amz-part-number-marker", 0, UINT32_MAX, &after, err);

    r = r < 0 ? r : read_number(q, "x-amz-max-parts", PL_S3_LIST_MAX, PL_S3_LIST_MAX, &max, err);
    if (r < 0 || !pl_s3_parts_of(f, &parts))
        return r;
    last = PL_MIN(after + max, parts.n);
    r = pl_s3_xml_open(out, "ObjectParts", err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "PartsCount", parts.n, err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "PartNumberMarker", after, err);
    if (r == 0 && last > after)
        r = pl_s3_xml_add_u64(out, "NextPartNumberMarker", last, err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "MaxParts", max, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "IsTruncated", last < parts.n && max ? "true" : "false", err);
    for (uint64_t number = after + 1; number <= last && r == 0; number++)
        r = add_part(&parts, number, kind, out, err);
    return r < 0 ? r : pl_s3_xml_close(out, "ObjectParts", err);
}

static int write_answer(const struct pl_s3_request *q, const struct pl_branch_file *f, unsigned wanted, struct pl_buf *out,
                        struct pl_err *err)
{
    char etag[PL_S3_ETAG_MAX + 1];
    int r = pl_s3_xml_begin(out, "GetObjectAttributesResponse", true, err);

    pl_s3_etag(&f->entry, &f->attributes, etag);
    if (r == 0 && wanted & ETAG)
        r = pl_s3_xml_add(out, "ETag", etag, err);
    if (r == 0 && wanted & CHECKSUM)
        r = add_checksum(f, out, err);
    if (r == 0 && wanted & PARTS)
        r = add_parts(q, f, out, err);
    if (r == 0 && wanted & STORAGE)
        r = pl_s3_xml_add(out, "StorageClass", "STANDARD", err);
    if (r == 0 && wanted & SIZE)
        r = pl_s3_xml_add_u64(out, "ObjectSize", f->entry.kind == PL_KIND_DIR ? 0 : f->entry.size, err);
    return r < 0 ? r : pl_s3_xml_close(out, "GetObjectAttributesResponse", err);
}

int pl_s3_object_attributes(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_branch_view_finish) struct pl_branch_view view = {0};
    _cleanup_(pl_branch_file_finish) struct pl_branch_file file = {0};
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    char time[32];
    unsigned wanted;
    int r = pl_s3_find_read(q, &view, &file, err);

    r = r < 0 ? r : read_wanted(q, &wanted, err);
    r = r < 0 ? r : write_answer(q, &file, wanted, &out, err);
    if (r < 0)
        return r;
    pl_s3_http_time(pl_s3_modified(&view, &file), time);
    pl_s3_reply_header(q, "Last-Modified", time);
    pl_s3_reply_version(q, pl_s3_version_of(&view, &file));
    pl_s3_reply_xml(q, &out);
    return 0;
}
