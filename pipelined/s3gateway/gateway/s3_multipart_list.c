/* The operations ListParts and ListMultipartUploads. */
#include "pipelined/s3gateway/formats/s3_upload_file.h"
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "storage/s3/s3_xml.h"
#include "storage/s3/sigv4_encoding.h"

#include <stdio.h>

#define PAGE_MAX (16u << 20)

static int add_person(struct pl_buf *out, const char *element, const char *id, const char *name, struct pl_err *err)
{
    int r = pl_s3_xml_open(out, element, err);

    r = r < 0 ? r : pl_s3_xml_add(out, "ID", id, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "DisplayName", name, err);
    return r < 0 ? r : pl_s3_xml_close(out, element, err);
}

/* ---- ListParts ---- */

static int add_part(struct pl_buf *out, const struct pl_s3_part *p, enum pl_s3_sum_kind kind, struct pl_err *err)
{
    char etag[2 * sizeof p->md5 + 1], quoted[PL_S3_ETAG_MAX + 3], time[32], sum[PL_S3_SUM_TEXT];
    int r = pl_s3_xml_open(out, "Part", err);

    pl_hex_encode(p->md5, sizeof p->md5, etag);
    pl_s3_quote(etag, quoted);
    pl_s3_iso_time(p->at_us, time);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "PartNumber", p->number, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "LastModified", time, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "ETag", quoted, err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "Size", p->entry.size, err);
    if (r == 0 && kind) {
        pl_s3_sum_text(kind, p->sum, sum);
        r = pl_s3_xml_add(out, pl_s3_sum_info(kind)->element, sum, err);
    }
    return r < 0 ? r : pl_s3_xml_close(out, "Part", err);
}

struct parts_page {
    uint64_t after, max;
    size_t first, last; /* indexes of the parts on this page: `first` is included, `last` is not */
    bool truncated;
};

static int add_parts_head(const struct pl_s3_request *q, const struct pl_s3_upload *u, const struct pl_s3_part *parts,
                          const struct parts_page *page, struct pl_buf *out, struct pl_err *err)
{
    const struct pl_s3_upload_head *head = pl_s3_upload_head(u);
    int r = pl_s3_xml_add(out, "Bucket", q->bucket, err);

    r = r < 0 ? r : pl_s3_xml_add(out, "Key", q->key, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "UploadId", pl_s3_upload_id(u), err);
    r = r < 0 ? r : add_person(out, "Initiator", head->author, head->author, err);
    r = r < 0 ? r : add_person(out, "Owner", head->author, head->author, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "StorageClass", "STANDARD", err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "PartNumberMarker", page->after, err);
    if (r == 0 && page->last > page->first)
        r = pl_s3_xml_add_u64(out, "NextPartNumberMarker", parts[page->last - 1].number, err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "MaxParts", page->max, err);
    if (r == 0 && head->sum) {
        r = pl_s3_xml_add(out, "ChecksumAlgorithm", pl_s3_sum_info(head->sum)->name, err);
        r = r < 0 ? r : pl_s3_xml_add(out, "ChecksumType", head->whole ? "FULL_OBJECT" : "COMPOSITE", err);
    }
    return r < 0 ? r : pl_s3_xml_add(out, "IsTruncated", page->truncated ? "true" : "false", err);
}

int pl_s3_list_parts(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_upload_unrefp) struct pl_s3_upload *u = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = PAGE_MAX};
    _cleanup_free_ struct pl_s3_part *parts = NULL;
    struct parts_page page;
    size_t n = 0;
    int r = pl_s3_target(q, PL_VERB_WRITE, err);

    r = r < 0 ? r : pl_s3_upload_named(q, &u, err);
    r = r < 0 ? r : pl_s3_query_number(q, "part-number-marker", 0, PL_S3_PARTS_MAX, &page.after, err);
    r = r < 0 ? r : pl_s3_query_number(q, "max-parts", PL_S3_LIST_MAX, PL_S3_LIST_MAX, &page.max, err);
    r = r < 0 ? r : pl_s3_upload_parts(u, &parts, &n, err);
    if (r < 0)
        return r;
    for (page.first = 0; page.first < n && parts[page.first].number <= page.after; page.first++)
        ;
    page.last = (size_t)PL_MIN((uint64_t)n, page.first + page.max);
    page.truncated = page.last < n && page.max;
    r = pl_s3_xml_begin(&out, "ListPartsResult", true, err);
    r = r < 0 ? r : add_parts_head(q, u, parts, &page, &out, err);
    for (size_t i = page.first; i < page.last && r == 0; i++)
        r = add_part(&out, &parts[i], pl_s3_upload_head(u)->sum, err);
    r = r < 0 ? r : pl_s3_xml_close(&out, "ListPartsResult", err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}

/* ---- ListMultipartUploads ---- */

struct uploads_page {
    const char *prefix, *delimiter, *key_marker, *id_marker;
    size_t prefix_len, delimiter_len;
    uint64_t max, n;
    bool url, truncated;
    struct pl_buf uploads, prefixes;
    char shared[PL_PATH_MAX_BYTES + 2]; /* common prefix that was listed last; "" = none */
    const char *last_key, *last_id;
};

static void page_finish(struct uploads_page *p)
{
    pl_buf_finish(&p->uploads);
    pl_buf_finish(&p->prefixes);
}

static int add_upload(struct uploads_page *p, const struct pl_s3_upload *u, struct pl_err *err)
{
    const struct pl_s3_upload_head *head = pl_s3_upload_head(u);
    char time[32];
    int r = pl_s3_xml_open(&p->uploads, "Upload", err);

    pl_s3_iso_time(head->created_us, time);
    r = r < 0 ? r : pl_s3_add_text(p->url, &p->uploads, "Key", head->key, err);
    r = r < 0 ? r : pl_s3_xml_add(&p->uploads, "UploadId", pl_s3_upload_id(u), err);
    r = r < 0 ? r : add_person(&p->uploads, "Initiator", head->author, head->author, err);
    r = r < 0 ? r : add_person(&p->uploads, "Owner", head->author, head->author, err);
    r = r < 0 ? r : pl_s3_xml_add(&p->uploads, "StorageClass", "STANDARD", err);
    r = r < 0 ? r : pl_s3_xml_add(&p->uploads, "Initiated", time, err);
    return r < 0 ? r : pl_s3_xml_close(&p->uploads, "Upload", err);
}

static int add_shared(struct uploads_page *p, const char *key, size_t len, struct pl_err *err)
{
    int r = pl_s3_xml_open(&p->prefixes, "CommonPrefixes", err);

    snprintf(p->shared, sizeof p->shared, "%.*s", (int)len, key);
    r = r < 0 ? r : pl_s3_add_text(p->url, &p->prefixes, "Prefix", p->shared, err);
    return r < 0 ? r : pl_s3_xml_close(&p->prefixes, "CommonPrefixes", err);
}

/* Returns true if the upload comes after the marker. Uploads are ordered by key, then id. A marker without an
 * id comes after all uploads of its key. */
static bool is_behind(const struct uploads_page *p, const struct pl_s3_upload *u)
{
    int order = strcmp(pl_s3_upload_head(u)->key, p->key_marker);

    if (order || !*p->key_marker)
        return order >= 0;
    return *p->id_marker && strcmp(pl_s3_upload_id(u), p->id_marker) > 0;
}

/* Adds an upload, or its common prefix. Returns 1 = continue, 0 = the page is full, or an error. */
static int take_upload(struct uploads_page *p, const struct pl_s3_upload *u, struct pl_err *err)
{
    const char *key = pl_s3_upload_head(u)->key, *at = NULL;
    size_t shared = 0;
    int r;

    if (strncmp(key, p->prefix, p->prefix_len) != 0 || !is_behind(p, u))
        return 1;
    if (p->delimiter_len)
        at = strstr(key + p->prefix_len, p->delimiter);
    if (at)
        shared = (size_t)(at - key) + p->delimiter_len;
    /* the common prefix of this key already has its line */
    if (shared &&
        ((strlen(p->shared) == shared && strncmp(key, p->shared, shared) == 0) || (strncmp(key, p->key_marker, shared) == 0)))
        return 1;
    if (p->n == p->max) {
        p->truncated = true;
        return 0;
    }
    r = shared ? add_shared(p, key, shared, err) : add_upload(p, u, err);
    p->n++;
    p->last_key = shared ? p->shared : key;
    p->last_id = shared ? "" : pl_s3_upload_id(u);
    return r < 0 ? r : 1;
}

static int answer_uploads(const struct pl_s3_request *q, const struct uploads_page *p, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_s3_xml_begin(out, "ListMultipartUploadsResult", true, err);

    r = r < 0 ? r : pl_s3_xml_add(out, "Bucket", q->bucket, err);
    r = r < 0 ? r : pl_s3_add_text(p->url, out, "KeyMarker", p->key_marker, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "UploadIdMarker", p->id_marker, err);
    if (r == 0 && p->truncated && p->last_key) {
        r = pl_s3_add_text(p->url, out, "NextKeyMarker", p->last_key, err);
        r = r < 0 ? r : pl_s3_xml_add(out, "NextUploadIdMarker", p->last_id, err);
    }
    r = r < 0 ? r : pl_s3_add_text(p->url, out, "Prefix", p->prefix, err);
    if (r == 0 && p->delimiter_len)
        r = pl_s3_add_text(p->url, out, "Delimiter", p->delimiter, err);
    if (r == 0 && p->url)
        r = pl_s3_xml_add(out, "EncodingType", "url", err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "MaxUploads", p->max, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "IsTruncated", p->truncated ? "true" : "false", err);
    r = r < 0 ? r : pl_buf_add(out, p->uploads.data, p->uploads.len, err);
    r = r < 0 ? r : pl_buf_add(out, p->prefixes.data, p->prefixes.len, err);
    return r < 0 ? r : pl_s3_xml_close(out, "ListMultipartUploadsResult", err);
}

int pl_s3_list_uploads(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(page_finish) struct uploads_page p = {.prefix = pl_s3_query_or_empty(q, "prefix"),
                                                    .delimiter = pl_s3_query_or_empty(q, "delimiter"),
                                                    .key_marker = pl_s3_query_or_empty(q, "key-marker"),
                                                    .id_marker = pl_s3_query_or_empty(q, "upload-id-marker"),
                                                    .url = pl_streq(pl_s3_query_or_empty(q, "encoding-type"), "url"),
                                                    .uploads = {.max = PAGE_MAX},
                                                    .prefixes = {.max = PAGE_MAX}};
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = 3 * PAGE_MAX};
    _cleanup_free_ struct pl_s3_upload **list = NULL;
    const struct pl_s3_target *t = &q->target;
    size_t n = 0;
    int r = pl_s3_target(q, PL_VERB_WRITE, err), on = 1;

    p.prefix_len = strlen(p.prefix);
    p.delimiter_len = strlen(p.delimiter);
    if (r == 0 && !p.url && *pl_s3_query_or_empty(q, "encoding-type"))
        r = pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Invalid Encoding Method specified in Request");
    r = r < 0 ? r : pl_s3_query_number(q, "max-uploads", PL_S3_LIST_MAX, PL_S3_LIST_MAX, &p.max, err);
    r = r < 0 ? r : pl_s3_upload_files_list(q->s3->uploads, t->project, t->repo, t->branch, &list, &n, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n && on > 0 && p.max; i++)
        on = take_upload(&p, list[i], err);
    r = on < 0 ? on : answer_uploads(q, &p, &out, err);
    for (size_t i = 0; i < n; i++)
        pl_s3_upload_unref(list[i]);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}
