/* CompleteMultipartUpload: joins the named parts into one file, adds it to the branch's open commit, and then
 * ends the upload. */
#include "pipelined/s3gateway/formats/s3_upload_file.h"
#include "pipelined/s3gateway/gateway/s3_copy.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"
#include "storage/dataset/file/file_concat.h"
#include "storage/pack/pack_builder.h"
#include "storage/s3/s3_xml.h"
#include "storage/system/log_line.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <strings.h>

struct complete {
    struct pl_s3_upload *upload;
    struct pl_s3_part *known; /* all parts of the upload, sorted by number */
    size_t n_known;
    struct pl_entry *parts; /* the parts that the client names in its request, in order */
    uint64_t *sizes;        /* their sizes in bytes */
    uint8_t *sums;          /* their checksums, one after the other */
    size_t n;
    EVP_MD_CTX *md5; /* MD5 of the MD5s of the parts checked so far; becomes the object's ETag */
    struct pl_s3_sum sum_of_sums;
    /* the object's checksum: of all bytes, or the final value of sum_of_sums */
    uint8_t sum[PL_S3_SUM_MAX_BYTES];
    uint64_t size;
    struct pl_s3_result result;
};

static void complete_free(void *self)
{
    struct complete *c = self;

    pl_s3_upload_unrefp(&c->upload);
    EVP_MD_CTX_free(c->md5);
    pl_s3_sum_finish(&c->sum_of_sums);
    free(c->known);
    free(c->parts);
    free(c->sizes);
    free(c->sums);
    free(c);
}

/* ---- reply ---- */

static int write_answer(const struct pl_s3_request *q, const struct pl_s3_result *result, struct pl_buf *out)
{
    const struct pl_s3_sum_info *info = pl_s3_sum_info(result->sum);
    char quoted[PL_S3_ETAG_MAX + 3], location[2 * PL_PATH_MAX_BYTES];
    const char *host = pl_s3_header(q, "Host");
    int r = pl_s3_xml_begin(out, "CompleteMultipartUploadResult", true, NULL);

    pl_s3_quote(result->etag, quoted);
    snprintf(location, sizeof location, "http%s://%s%.1500s", q->services->tls ? "s" : "", host ? host : "",
             pl_http_path(q->http));
    r = r < 0 ? r : pl_s3_xml_add(out, "Location", location, NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "Bucket", q->bucket, NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "Key", q->key, NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "ETag", quoted, NULL);
    if (r == 0 && info && *result->sum_text) {
        r = pl_s3_xml_add(out, info->element, result->sum_text, NULL);
        r = r < 0 ? r : pl_s3_xml_add(out, "ChecksumType", strchr(result->sum_text, '-') ? "COMPOSITE" : "FULL_OBJECT", NULL);
    }
    return r < 0 ? r : pl_s3_xml_close(out, "CompleteMultipartUploadResult", NULL);
}

static void answer(struct pl_s3_request *q, const struct pl_s3_result *result)
{
    struct pl_buf out = {0};
    struct pl_err err = {0};

    if (write_answer(q, result, &out) < 0) {
        pl_err_nomem(&err);
        pl_s3_refuse(q, &err);
    } else {
        pl_s3_reply_version(q, result->version);
        pl_s3_reply_xml(q, &out);
    }
    pl_buf_finish(&out);
}

/* Ends the upload and replies. Called on the pool after the file was committed durably. */
static void finish_job(void *arg)
{
    struct pl_s3_request *q = arg;
    struct complete *c = q->more;
    struct pl_err err = {0};

    if (pl_s3_upload_end(c->upload, &c->result, &err) < 0)
        pl_log_warn("s3", "upload %s is completed, but was not cleaned up: %s", pl_s3_upload_id(c->upload), err.msg);
    answer(q, &c->result);
    pl_s3_request_end(q);
}

static void complete_done(void *self, struct pl_open_commit *open, uint64_t new_bytes, int r, const struct pl_err *err)
{
    struct pl_s3_request *q = self;
    struct complete *c = q->more;

    (void)new_bytes;
    if (r < 0) {
        pl_s3_refuse(q, err);
        pl_s3_request_end(q);
        return;
    }
    snprintf(c->result.version, sizeof c->result.version, "%s", pl_open_commit_head(open)->commit);
    if (pl_pool_submit(q->services->pool, finish_job, q, NULL) < 0)
        finish_job(q);
}

/* ---- parts ---- */

static const struct pl_s3_part *find(const struct complete *c, unsigned long number)
{
    size_t lo = 0, hi = c->n_known;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (c->known[mid].number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c->n_known && c->known[lo].number == number ? &c->known[lo] : NULL;
}

static bool etag_is(const char *text, const struct pl_s3_part *p)
{
    char hex[2 * sizeof p->md5 + 1];

    pl_hex_encode(p->md5, sizeof p->md5, hex);
    return pl_s3_etag_listed(text, hex) && *text != '*';
}

/* Compares the checksums that the request states for a part with the one that was checked when its bytes came. One of
 * another kind is refused, because it cannot be compared. */
static int check_sums(const struct pl_s3_xml_node *node, const struct pl_s3_part *p, struct pl_err *err)
{
    const struct pl_s3_sum_info *has = pl_s3_sum_info(p->sum_kind);
    uint8_t bytes[PL_S3_SUM_MAX_BYTES];

    for (const struct pl_s3_xml_node *c = node->first; c && !p->sum_unknown; c = c->next) {
        if (strncmp(c->name, "Checksum", 8) != 0 || !*c->text)
            continue;
        if (!has || !pl_streq(c->name, has->element))
            return pl_err_set(err, PL_S3_INVALID_REQUEST, "%.40s of part %u cannot be compared: the part was uploaded with %s.",
                              c->name, p->number, has ? has->element : "no checksum");
        if (!pl_s3_sum_parse(p->sum_kind, c->text, bytes) || memcmp(bytes, p->sum, sizeof bytes) != 0)
            return pl_s3_error(err, PL_S3_INVALID_PART);
    }
    return 0;
}

static int add_part(struct complete *c, const struct pl_s3_part *p)
{
    const struct pl_s3_upload_head *head = pl_s3_upload_head(c->upload);

    assert(!head->sum || p->sum_kind == head->sum);
    EVP_DigestUpdate(c->md5, p->md5, sizeof p->md5);
    if (head->sum && head->whole && c->n)
        pl_s3_sum_join(head->sum, c->sum, p->sum, p->entry.size);
    else if (head->sum && head->whole)
        memcpy(c->sum, p->sum, sizeof c->sum);
    else if (head->sum)
        pl_s3_sum_add(&c->sum_of_sums, p->sum, pl_s3_sum_info(head->sum)->bytes);
    if (head->sum) {
        size_t bytes = pl_s3_sum_info(head->sum)->bytes;

        memcpy(c->sums + c->n * bytes, p->sum, bytes);
    }
    c->size += p->entry.size;
    c->sizes[c->n] = p->entry.size;
    c->parts[c->n++] = p->entry;
    return 0;
}

/* Checks one part that the client names (number, order, ETag, checksum, size) and adds it to the file's
 * parts. */
static int take_part(struct complete *c, const struct pl_s3_xml_node *node, unsigned long *last, struct pl_err *err)
{
    const char *number = pl_s3_xml_text(node, "PartNumber"), *etag = pl_s3_xml_text(node, "ETag");
    const struct pl_s3_part *p;
    unsigned long n;
    int r;

    if (!number || !etag || !*number || strspn(number, "0123456789") != strlen(number) || strlen(number) > 8)
        return pl_s3_error(err, PL_S3_MALFORMED_XML);
    n = strtoul(number, NULL, 10);
    if (n < 1 || n > PL_S3_PARTS_MAX)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Part number must be an integer between 1 and %u, inclusive",
                          PL_S3_PARTS_MAX);
    if (n <= *last)
        return pl_s3_error(err, PL_S3_INVALID_PART_ORDER);
    *last = n;
    p = find(c, n);
    if (!p || !etag_is(etag, p))
        return pl_s3_error(err, PL_S3_INVALID_PART);
    r = check_sums(node, p, err);
    if (r == 0 && c->n && c->parts[c->n - 1].size < PL_S3_PART_MIN_BYTES)
        r = pl_err_set(err, PL_S3_ENTITY_TOO_SMALL, "Part %zu has %llu bytes: all parts but the last need at least %llu.", c->n,
                       (unsigned long long)c->parts[c->n - 1].size, (unsigned long long)PL_S3_PART_MIN_BYTES);
    return r < 0 ? r : add_part(c, p);
}

static int take_parts(struct complete *c, const struct pl_s3_xml_node *root, struct pl_err *err)
{
    unsigned long last = 0;
    size_t n = 0;
    int r = 0;

    for (const struct pl_s3_xml_node *p = pl_s3_xml_child(root, "Part"); p; p = pl_s3_xml_again(p))
        n++;
    if (!pl_streq(root->name, "CompleteMultipartUpload") || !n)
        return pl_s3_error(err, PL_S3_MALFORMED_XML);
    if (n > PL_S3_PARTS_MAX)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "An upload can have at most %u parts, but %zu are named.", PL_S3_PARTS_MAX,
                          n);
    c->parts = calloc(n, sizeof *c->parts);
    c->sizes = calloc(n, sizeof *c->sizes);
    c->sums = calloc(n, PL_S3_SUM_MAX_BYTES);
    if (!c->parts || !c->sizes || !c->sums)
        return pl_err_nomem(err);
    for (const struct pl_s3_xml_node *p = pl_s3_xml_child(root, "Part"); p && r == 0; p = pl_s3_xml_again(p))
        r = take_part(c, p, &last, err);
    return r;
}

static int read_parts(struct pl_s3_request *q, struct complete *c, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *xml = NULL;
    const void *bytes;
    int r = pl_body_spool_map(&q->body->spool, &bytes, err);

    r = r < 0 ? r : pl_s3_xml_parse(bytes, (size_t)q->body->spool.size, &xml, err);
    if (r < 0)
        return r == PL_ENOMEM ? r : pl_err_wrap(err, PL_S3_MALFORMED_XML, "body");
    return take_parts(c, pl_s3_xml_root(xml), err);
}

/* ---- checksums of the whole file ---- */

static void name_sums(struct complete *c)
{
    struct pl_s3_result *result = &c->result;
    const struct pl_s3_upload_head *head = pl_s3_upload_head(c->upload);
    uint8_t md5[16];
    char hex[2 * sizeof md5 + 1];
    size_t len;

    EVP_DigestFinal_ex(c->md5, md5, NULL);
    pl_hex_encode(md5, sizeof md5, hex);
    snprintf(result->etag, sizeof result->etag, "%s-%zu", hex, c->n);
    result->sum = head->sum;
    if (!head->sum)
        return;
    if (!head->whole)
        pl_s3_sum_get(&c->sum_of_sums, c->sum);
    pl_s3_sum_text(head->sum, c->sum, result->sum_text);
    len = strlen(result->sum_text);
    if (!head->whole)
        snprintf(result->sum_text + len, sizeof result->sum_text - len, "-%zu", c->n);
}

/* Compares checksum and size of the whole file with those that the request's headers state. */
static int check_whole(const struct pl_s3_request *q, const struct complete *c, struct pl_err *err)
{
    const struct pl_s3_upload_head *head = pl_s3_upload_head(c->upload);
    const char *type = pl_s3_header(q, "x-amz-checksum-type"), *size = pl_s3_header(q, "x-amz-mp-object-size");
    const char *is_type = head->whole ? "FULL_OBJECT" : "COMPOSITE";
    uint64_t expected;

    for (int k = 1; k < PL_S3_SUM_KINDS; k++) {
        const struct pl_s3_sum_info *info = pl_s3_sum_info((enum pl_s3_sum_kind)k);
        const char *said = pl_s3_header(q, info->header);

        if (said && (enum pl_s3_sum_kind)k != head->sum)
            return pl_err_set(err, PL_S3_INVALID_REQUEST, "%s cannot be compared: the upload was created with %s.", info->header,
                              head->sum ? pl_s3_sum_info(head->sum)->name : "no checksum algorithm");
        /* the "-N" of a checksum of checksums, which is in no base64, may be left out, as some clients do */
        if (said && !pl_streq(said, c->result.sum_text) &&
            (strlen(said) != strcspn(c->result.sum_text, "-") || strncmp(said, c->result.sum_text, strlen(said)) != 0))
            return pl_err_set(err, PL_S3_BAD_DIGEST, "The %s you specified did not match the calculated checksum.", info->name);
    }
    if (type && (!head->sum || strcasecmp(type, is_type) != 0))
        return pl_err_set(err, PL_S3_INVALID_REQUEST, "x-amz-checksum-type: the upload was created with %s, not %.40s.",
                          head->sum ? is_type : "no checksum algorithm", type);
    if (size && (!pl_s3_number(size, &expected) || expected != c->size))
        return pl_err_set(err, PL_S3_INVALID_REQUEST,
                          "The provided 'x-amz-mp-object-size' header does not match what was computed: %llu.",
                          (unsigned long long)c->size);
    return 0;
}

/* ---- run ---- */

static int make_file(struct pl_s3_request *q, const struct complete *c, struct pl_entry *ret, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(q->target.store);
    struct pl_chunk_reader reader = pl_store_chunk_reader(q->target.store);
    struct pl_file_write_sink stream;
    struct pl_effort effort = pl_request_effort(q->http);
    int r = pl_pack_builder_open(&sink, q->target.project, &session, err);

    if (r < 0)
        return r;
    stream = pl_file_write_sink_pack(session);
    r = pl_file_concat(c->parts, c->n, PL_KIND_FILE, &reader, &stream, &effort, ret, err);
    if (r == PL_ELIMIT)
        return pl_err_set(err, PL_S3_ENTITY_TOO_LARGE, "The parts have more than %llu chunks.",
                          (unsigned long long)effort.visits_max);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

/* Makes the file's attributes, with its parts and their checksums as far as there is space. */
static int make_attributes(const struct complete *c, struct pl_buf *out, struct pl_err *err)
{
    const struct pl_s3_upload_head *head = pl_s3_upload_head(c->upload);
    const struct pl_s3_sum_info *info = pl_s3_sum_info(head->sum);
    struct pl_s3_known known = {.etag = c->result.etag, .kind = head->sum, .sum = c->result.sum_text};
    _cleanup_(pl_buf_finish) struct pl_buf parts = {0};
    struct pl_attribute_field field;
    int r = pl_file_attributes_begin(&parts, err);

    r = r < 0 ? r : pl_file_attributes_add_parts(&parts, c->sizes, c->n, info ? c->sums : NULL, info ? info->bytes : 0, err);
    if (r < 0)
        return r;
    if (pl_file_attributes_find(&(struct pl_file_attributes){parts.data, parts.len}, PL_ATTR_PARTS, &field))
        known.parts = &field;
    return pl_s3_attributes_again(&head->attributes, &known, out, err);
}

/* Repeats the reply of an upload that was completed already: the client may have lost the first reply. */
static bool is_done(struct pl_s3_request *q)
{
    struct pl_s3_result result;

    if (!pl_s3_upload_ended(q->s3->uploads, q->target.row.id, q->target.branch, pl_s3_query(q, "uploadId"), q->key, &result))
        return false;
    answer(q, &result);
    return true;
}

static int begin(struct pl_s3_request *q, struct complete *c, struct pl_err *err)
{
    int r = pl_s3_upload_named(q, &c->upload, err);

    r = r < 0 ? r : pl_s3_upload_parts(c->upload, &c->known, &c->n_known, err);
    if (r < 0)
        return r;
    c->md5 = EVP_MD_CTX_new();
    if (!c->md5 || EVP_DigestInit_ex(c->md5, EVP_md5(), NULL) != 1)
        return pl_err_nomem(err);
    return pl_s3_sum_init(&c->sum_of_sums,
                          pl_s3_upload_head(c->upload)->whole ? PL_S3_SUM_NONE : pl_s3_upload_head(c->upload)->sum, err);
}

int pl_s3_complete_upload(struct pl_s3_request *q, struct pl_err *err)
{
    struct complete *c = calloc(1, sizeof *c);
    _cleanup_(pl_buf_finish) struct pl_buf attributes = {0};
    struct pl_entry entry;
    int r;

    if (!c)
        return pl_err_nomem(err);
    q->more = c;
    q->drop_more = complete_free;
    r = begin(q, c, err);
    if (r == PL_S3_NO_SUCH_UPLOAD && is_done(q))
        return 0;
    r = r < 0 ? r : read_parts(q, c, err);
    if (r < 0)
        return r;
    name_sums(c);
    r = check_whole(q, c, err);
    r = r < 0 ? r : make_file(q, c, &entry, err);
    r = r < 0 ? r : make_attributes(c, &attributes, err);
    return r < 0 ? r : pl_s3_write_entry(q, q->key, &entry, &attributes, complete_done, err);
}
