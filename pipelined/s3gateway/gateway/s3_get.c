/* The operations GetObject and HeadObject, and the look-up of a key that other operations share. */
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "pipelined/api/transfer/download.h"
#include "pipelined/s3gateway/gateway/s3_headers.h"

#include <stdio.h>

#define TYPE_MAX 512

static void drop_open(void *owner)
{
    pl_open_commit_unref(owner);
}

int pl_s3_find(const struct pl_branch_view *v, const char *key, size_t len, struct pl_branch_file *ret, struct pl_err *err)
{
    bool directory = len && key[len - 1] == '/';
    int r;

    pl_buf_clear(&ret->attributes);
    ret->open = NULL;
    if (len > PL_S3_KEY_MAX + 1 || pl_path_check(key, len - directory, NULL) < 0)
        return 0; /* a stored path cannot have this name */
    if (!directory) {
        r = pl_branch_view_get(v, key, len, ret, err);
        return r > 0 ? ret->entry.kind != PL_KIND_DIR : r;
    }
    r = pl_branch_view_get(v, key, len - 1, ret, err);
    if (r > 0)
        return ret->entry.kind == PL_KIND_DIR;
    r = r < 0 ? r : pl_branch_view_has_dir(v, key, len - 1, err);
    ret->entry = pl_entry_dir();
    ret->open = NULL;
    return r;
}

const char *pl_s3_version_of(const struct pl_branch_view *v, const struct pl_branch_file *f)
{
    return f->open ? pl_open_commit_head(f->open)->commit : v->head.run;
}

int64_t pl_s3_modified(const struct pl_branch_view *v, const struct pl_branch_file *f)
{
    struct pl_file_attributes a = {f->attributes.data, f->attributes.len};

    return pl_file_attributes_modified(&a, f->open ? pl_open_commit_head(f->open)->created_us : v->head.created_us);
}

struct pl_download_from pl_s3_bytes_of(const struct pl_branch_view *v, const struct pl_branch_file *f)
{
    struct pl_download_from from = {.reader = pl_branch_view_reader(v, f->open)};

    if (f->open) {
        from.owner = pl_open_commit_ref(f->open);
        from.drop = drop_open;
    }
    return from;
}

/* The part of a file that the request asks for by partNumber. */
struct part {
    bool asked;
    uint64_t first, size;
    uint64_t count;     /* the number of parts in which the file was uploaded; 0 = not in parts */
    const uint8_t *sum; /* checksum of the part; NULL = not known */
    size_t sum_bytes;
};

/* Reads partNumber. A file that was not uploaded in parts has one part. */
static int read_part(const struct pl_s3_request *q, const struct pl_branch_file *f, struct part *ret, struct pl_err *err)
{
    const char *text = pl_s3_query(q, "partNumber");
    struct pl_file_parts parts;
    uint64_t number;

    *ret = (struct part){.asked = text, .size = f->entry.size};
    if (!text)
        return 0;
    if (pl_s3_header(q, "Range"))
        return pl_err_set(err, PL_S3_INVALID_REQUEST, "Cannot specify both Range header and partNumber query parameter");
    if (!pl_s3_number(text, &number) || !number)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "partNumber: \"%.40s\" is not the number of a part.", text);
    if (!pl_s3_parts_of(f, &parts))
        return number == 1 ? 0 : pl_s3_error(err, PL_S3_INVALID_PART_NUMBER);
    ret->count = parts.n;
    ret->sum_bytes = parts.sum_bytes;
    return pl_file_parts_get(&parts, number, &ret->first, &ret->size, &ret->sum) ? 0
                                                                                 : pl_s3_error(err, PL_S3_INVALID_PART_NUMBER);
}

static enum pl_http_range range_of(struct pl_s3_request *q, const struct pl_branch_file *f, const struct part *part,
                                   uint64_t *ret_first, uint64_t *ret_count)
{
    char text[96];

    if (part->asked && part->count && !part->size) { /* an empty part: no range says that */
        *ret_first = *ret_count = 0;
        return PL_RANGE_ALL;
    }
    if (!part->asked || !part->size)
        return pl_http_request_range(q->http, f->entry.size, ret_first, ret_count);
    *ret_first = part->first;
    *ret_count = part->size;
    snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)part->first,
             (unsigned long long)(part->first + part->size - 1), (unsigned long long)f->entry.size);
    pl_s3_reply_header(q, "Content-Range", text);
    return PL_RANGE_PART;
}

/* Sets the headers that say of which parts this is one, and its checksum if the client asks for it. */
static void reply_part(struct pl_s3_request *q, const struct pl_branch_file *f, const struct part *part)
{
    char count[24], whole[PL_S3_SUM_TEXT], text[PL_S3_SUM_TEXT];
    enum pl_s3_sum_kind kind = pl_s3_stored_sum(f, whole);
    uint8_t sum[PL_S3_SUM_MAX_BYTES] = {0};

    if (!part->count)
        return;
    snprintf(count, sizeof count, "%llu", (unsigned long long)part->count);
    pl_s3_reply_header(q, "x-amz-mp-parts-count", count);
    if (!part->sum || !kind || part->sum_bytes != pl_s3_sum_info(kind)->bytes || !pl_s3_wants_sum(q))
        return;
    memcpy(sum, part->sum, part->sum_bytes);
    pl_s3_sum_text(kind, sum, text);
    pl_s3_reply_sum(q, kind, text, strchr(whole, '-'));
}

/* Replies with the file's bytes, or, for HEAD, with their headers only. */
static int reply_bytes(struct pl_s3_request *q, const struct pl_branch_view *v, const struct pl_branch_file *f,
                       const struct part *part, const char *type, struct pl_err *err)
{
    bool head = pl_streq(q->op->method, "HEAD");
    struct pl_download_from from;
    enum pl_http_range range;
    uint64_t first, count;
    int r;

    range = range_of(q, f, part, &first, &count);
    if (range == PL_RANGE_OUTSIDE)
        return pl_s3_error(err, PL_S3_INVALID_RANGE);
    if (head) {
        pl_http_reply_head(q->http, range == PL_RANGE_PART ? 206 : 200, type, count);
        return 0;
    }
    from = pl_s3_bytes_of(v, f);
    r = pl_download_bytes(q->http, &from, &f->entry, range == PL_RANGE_PART ? 206 : 200, type, first, count, err);
    if (r <= 0 && from.owner)
        from.drop(from.owner);
    return PL_MIN(r, 0);
}

static int reply(struct pl_s3_request *q, const struct pl_branch_view *v, const struct pl_branch_file *f, struct pl_err *err)
{
    char etag[PL_S3_ETAG_MAX + 1], time[32], type[TYPE_MAX];
    int64_t modified = pl_s3_modified(v, f);
    struct part part;
    bool unchanged;
    int r;

    pl_s3_etag(&f->entry, &f->attributes, etag);
    r = pl_s3_read_conditions(q, "", etag, modified, &unchanged, err);
    if (r < 0)
        return r;
    pl_s3_reply_etag(q, etag);
    pl_s3_http_time(modified, time);
    pl_s3_reply_header(q, "Last-Modified", time);
    pl_s3_reply_version(q, pl_s3_version_of(v, f));
    if (unchanged) {
        pl_http_reply(q->http, 304, NULL, NULL, 0);
        return 0;
    }
    r = read_part(q, f, &part, err);
    if (r < 0)
        return r;
    reply_part(q, f, &part);
    pl_s3_reply_attributes(q, f, part.count, type, sizeof type);
    return reply_bytes(q, v, f, &part, type, err);
}

/* The version has no such key: refuses it as a delete marker if the commit before it has the key. */
static int no_version(struct pl_s3_request *q, const struct pl_branch_view *v, struct pl_branch_file *file, struct pl_err *err)
{
    _cleanup_(pl_branch_view_finish) struct pl_branch_view before = {0};
    int r = 0;

    if (!v->n_opens && *v->head.parent && !*q->target.commit) {
        r = pl_s3_view(q, &q->target, v->head.parent, &before, err);
        r = r < 0 ? r : pl_s3_find(&before, q->key, q->key_len, file, err);
    }
    if (r <= 0)
        return r < 0 && r != PL_S3_NO_SUCH_VERSION ? r : pl_s3_error(err, PL_S3_NO_SUCH_VERSION);
    pl_s3_reply_header(q, "x-amz-delete-marker", "true");
    pl_s3_reply_version(q, v->head.run);
    return pl_s3_error(err, PL_S3_METHOD_NOT_ALLOWED);
}

int pl_s3_find_read(struct pl_s3_request *q, struct pl_branch_view *ret_view, struct pl_branch_file *ret, struct pl_err *err)
{
    const char *version = pl_s3_query(q, "versionId");
    int r = pl_s3_target(q, PL_VERB_READ, err);

    if (r == 0 && q->key_len > PL_S3_KEY_MAX)
        r = pl_s3_error(err, PL_S3_KEY_TOO_LONG);
    r = r < 0 ? r : pl_s3_view(q, &q->target, version, ret_view, err);
    r = r < 0 ? r : pl_s3_find(ret_view, q->key, q->key_len, ret, err);
    if (r == 0 && version && *version)
        r = no_version(q, ret_view, ret, err);
    else if (r == 0)
        r = pl_s3_error(err, PL_S3_NO_SUCH_KEY);
    return PL_MIN(r, 0);
}

int pl_s3_get_object(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_branch_view_finish) struct pl_branch_view view = {0};
    _cleanup_(pl_branch_file_finish) struct pl_branch_file file = {0};
    int r = pl_s3_find_read(q, &view, &file, err);

    return r < 0 ? r : reply(q, &view, &file, err);
}
