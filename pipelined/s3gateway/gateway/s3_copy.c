/* CopyObject: within a project the copy refers to the same chunks. Between projects the bytes are copied,
 * because projects share no storage. */
#include "pipelined/s3gateway/gateway/s3_copy.h"

#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "storage/base/clock.h"
#include "storage/dataset/file/file_read.h"
#include "storage/http/uri.h"
#include "storage/s3/s3_xml.h"

#include <stdio.h>
#include <strings.h>

/* ---- source ---- */

/* Parses "[/]BUCKET/KEY[?versionId=…]", percent-encoded. */
static int read_source(const struct pl_s3_request *q, struct pl_s3_copy_source *s, struct pl_err *err)
{
    const char *text = pl_s3_header(q, "x-amz-copy-source"), *question, *slash;
    size_t len;
    int r;

    text += *text == '/';
    question = strstr(text, "?versionId=");
    if (question)
        s->version = question + strlen("?versionId=");
    len = question ? (size_t)(question - text) : strlen(text);
    r = pl_uri_unescape(text, len, true, &s->name, err);
    s->text = r == 0 ? pl_buf_str(&s->name) : NULL;
    if (r == PL_ENOMEM || (r == 0 && !s->text))
        return pl_err_nomem(err);
    slash = s->text ? strchr(s->text, '/') : NULL;
    if (!slash || !slash[1] || slash - s->text > (ptrdiff_t)PL_S3_BUCKET_MAX || !pl_utf8_ok(s->text, strlen(s->text)))
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "x-amz-copy-source must be BUCKET/KEY, percent-encoded.");
    snprintf(s->bucket, sizeof s->bucket, "%.*s", (int)(slash - s->text), s->text);
    s->key = slash + 1;
    return 0;
}

void pl_s3_copy_source_finish(struct pl_s3_copy_source *s)
{
    pl_branch_view_finish(&s->view);
    pl_branch_file_finish(&s->file);
    pl_buf_finish(&s->name);
}

int pl_s3_source(struct pl_s3_request *q, struct pl_s3_copy_source *s, struct pl_err *err)
{
    bool unchanged;
    int r = read_source(q, s, err);

    r = r < 0 ? r : pl_s3_target_of(q, s->bucket, PL_VERB_READ, &s->target, err);
    r = r < 0 ? r : pl_s3_view(q, &s->target, s->version, &s->view, err);
    r = r < 0 ? r : pl_s3_find(&s->view, s->key, strlen(s->key), &s->file, err);
    if (r == 0)
        r = pl_s3_error(err, s->version ? PL_S3_NO_SUCH_VERSION : PL_S3_NO_SUCH_KEY);
    if (r < 0)
        return r;
    pl_s3_etag(&s->file.entry, &s->file.attributes, s->etag);
    r = pl_s3_read_conditions(q, "x-amz-copy-source-", s->etag, pl_s3_modified(&s->view, &s->file), &unchanged, err);
    return r == 0 && unchanged ? pl_s3_error(err, PL_S3_PRECONDITION_FAILED) : r;
}

/* ---- the source's bytes ---- */

static int is_kept(struct pl_store *store, const struct pl_entry *e)
{
    /* condemned packs with the content; not used here: the transaction that records the copy revives them */
    _cleanup_(pl_pack_set_finish) struct pl_pack_set hidden = {0};
    struct pl_tree_op op = {.op = PL_TREE_PUT, .path = "", .entry = *e};

    return pl_db_check_content(store, &op, 1, &hidden, NULL, NULL);
}

int pl_s3_copy_source_keep(const struct pl_s3_copy_source *s, struct pl_err *err)
{
    int r = is_kept(s->target.store, &s->file.entry);

    if (r != PL_ERETRY || !s->file.open)
        return 0; /* the transaction that records the copy checks the records again */
    return pl_open_commit_pack_records(s->file.open, err);
}

static int spool_bytes(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_body_spool_write(self, bytes, n, err);
}

int pl_s3_copy_source_read(const struct pl_s3_copy_source *s, uint64_t first, uint64_t count, struct pl_body_spool *spool,
                           struct pl_err *err)
{
    struct pl_chunk_reader reader = pl_branch_view_reader(&s->view, s->file.open);
    _cleanup_(pl_buf_finish) struct pl_buf scratch = {0};
    int r = pl_disk_watch_admit_spooled(spool->disks, count, err);

    return r < 0 ? r : pl_file_read(&s->file.entry, first, count, &reader, &scratch, spool_bytes, spool, err);
}

/* ---- CopyObject ---- */

struct copied {
    char etag[PL_S3_ETAG_MAX + 1];
    char version[PL_ID_HEX + 1]; /* commit id of the copied version; "" = none */
    enum pl_s3_sum_kind sum_kind;
    char sum[PL_S3_SUM_TEXT];
    struct pl_body_spool spool;
};

static void copied_free(void *self)
{
    struct copied *c = self;

    pl_body_spool_finish(&c->spool);
    free(c);
}

int pl_s3_copy_result(struct pl_buf *out, const char *element, const char *etag, enum pl_s3_sum_kind kind, const char *sum)
{
    const struct pl_s3_sum_info *info = pl_s3_sum_info(kind);
    char quoted[PL_S3_ETAG_MAX + 3], time[32];
    int r = pl_s3_xml_begin(out, element, true, NULL);

    pl_s3_quote(etag, quoted);
    pl_s3_iso_time(pl_clock_wall_us(), time);
    r = r < 0 ? r : pl_s3_xml_add(out, "LastModified", time, NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "ETag", quoted, NULL);
    if (r == 0 && info)
        r = pl_s3_xml_add(out, info->element, sum, NULL);
    if (r == 0 && info && pl_streq(element, "CopyObjectResult"))
        r = pl_s3_xml_add(out, "ChecksumType", strchr(sum, '-') ? "COMPOSITE" : "FULL_OBJECT", NULL);
    return r < 0 ? r : pl_s3_xml_close(out, element, NULL);
}

/* Sends the reply when the write has ended: the copy's version id and the result document. */
static void copy_done(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err)
{
    struct pl_s3_request *q = self;
    const struct copied *copied = q->more;
    struct pl_buf out = {0};
    struct pl_err nomem = {0};

    (void)new_bytes;
    if (r == 0 && pl_s3_copy_result(&out, "CopyObjectResult", copied->etag, copied->sum_kind, copied->sum) < 0) {
        r = pl_err_nomem(&nomem);
        err = &nomem;
    }
    if (r < 0) {
        pl_s3_refuse(q, err);
    } else {
        pl_s3_reply_version(q, pl_open_commit_head(c)->commit);
        if (*copied->version)
            pl_s3_reply_header(q, "x-amz-copy-source-version-id", copied->version);
        pl_s3_reply_xml(q, &out);
    }
    pl_buf_finish(&out);
    pl_s3_request_end(q);
}

/* What the copy gets from the request instead of from the source. */
struct directives {
    bool metadata, tags;
};

/* Gives the tags of the copy, as they are stored. */
static int copy_tags(const struct pl_s3_request *q, const struct pl_s3_copy_source *s, bool replace, struct pl_buf *out,
                     struct pl_err *err)
{
    struct pl_file_attributes a = {s->file.attributes.data, s->file.attributes.len};
    struct pl_attribute_field f;
    int r = 0;

    if (replace)
        return pl_s3_tags_asked(q, out, err);
    if (pl_file_attributes_find(&a, PL_ATTR_TAGS, &f))
        r = pl_buf_add(out, f.bytes, f.len, err);
    return r < 0 || pl_buf_str(out) ? r : pl_err_nomem(err);
}

static int copy_attributes(const struct pl_s3_request *q, const struct pl_s3_copy_source *s, const struct directives *replace,
                           struct pl_buf *out, struct pl_err *err)
{
    struct pl_file_attributes a = {s->file.attributes.data, s->file.attributes.len};
    _cleanup_(pl_buf_finish) struct pl_buf tags = {0};
    struct pl_s3_known known = {.etag = s->etag};
    struct pl_attribute_field parts;
    char sum[PL_S3_SUM_TEXT];
    int r = copy_tags(q, s, replace->tags, &tags, err);

    if (r < 0)
        return r;
    known.tags = pl_buf_str(&tags);
    /* if the source has no attributes, store those of the request, without an ETag */
    if (!replace->metadata && !a.len)
        return pl_s3_attributes(q, &(struct pl_s3_known){.tags = known.tags}, out, err);
    if (!replace->metadata)
        return pl_s3_attributes_again(&s->file.attributes, &known, out, err);
    known.kind = pl_s3_stored_sum(&s->file, sum);
    known.sum = sum;
    /* the ETag stays that of the parts, so that the parts stay, too */
    known.parts = pl_file_attributes_find(&a, PL_ATTR_PARTS, &parts) ? &parts : NULL;
    return pl_s3_attributes(q, &known, out, err);
}

static int read_directive(const struct pl_s3_request *q, const char *header, bool *ret_replace, struct pl_err *err)
{
    const char *text = pl_s3_header(q, header);

    *ret_replace = text && pl_streq(text, "REPLACE");
    return text && !*ret_replace && !pl_streq(text, "COPY")
               ? pl_err_set(err, PL_S3_INVALID_ARGUMENT, "%s: \"%.40s\" is not one of COPY, REPLACE.", header, text)
               : 0;
}

/* A copy refers to the same bytes, which are not read: it keeps the checksum of its source. */
static int check_algorithm(const struct pl_s3_request *q, const struct pl_s3_copy_source *s, struct pl_err *err)
{
    const char *asked = pl_s3_header(q, "x-amz-checksum-algorithm");
    char sum[PL_S3_SUM_TEXT];
    const struct pl_s3_sum_info *has = pl_s3_sum_info(pl_s3_stored_sum(&s->file, sum));

    if (!asked || (has && strcasecmp(asked, has->name) == 0))
        return 0;
    return pl_err_set(err, PL_S3_NOT_IMPLEMENTED,
                      "x-amz-checksum-algorithm: %.40s: a copy keeps the checksum of its source, which is %s here.", asked,
                      has ? has->name : "none");
}

static int check_itself(const struct pl_s3_request *q, const struct pl_s3_copy_source *s, const struct directives *replace,
                        struct pl_err *err)
{
    const struct pl_s3_target *t = &q->target;

    if (replace->metadata || replace->tags || *s->target.commit || s->version || !pl_streq(s->key, q->key) ||
        !pl_streq(s->target.repo, t->repo) || !pl_streq(s->target.branch, t->branch) || !pl_streq(s->target.project, t->project))
        return 0;
    return pl_err_set(err, PL_S3_INVALID_REQUEST,
                      "This copy request is illegal because it is trying to copy an object to itself without changing the "
                      "object's metadata.");
}

struct copy {
    struct pl_s3_request *q;
    const struct pl_s3_copy_source *source;
    const char *path;
    struct pl_file_attributes attributes;
};

/* Makes one attempt to write the copy into the open commit `c`. If source and copy are in different projects,
 * first stores the bytes of the source, which begin_copy has read. */
static int copy_into(void *self, struct pl_open_commit *c, struct pl_err *err)
{
    const struct copy *copy = self;
    const struct pl_s3_copy_source *s = copy->source;
    struct pl_s3_request *q = copy->q;
    struct copied *copied = q->more;
    struct pl_open_commit_put_options how = {.self = q, .check = pl_s3_check_write, .done = copy_done};
    struct pl_tree_op op = {.op = PL_TREE_PUT, .path = copy->path, .path_len = strlen(copy->path), .entry = s->file.entry};
    int r;

    if (!pl_streq(s->target.project, q->target.project))
        return pl_open_commit_put_bytes(c, copy->path, &copy->attributes, &copied->spool, &how, err);
    r = s->file.open == c ? 0 : pl_s3_copy_source_keep(s, err);
    if (op.entry.kind != PL_KIND_DIR)
        op.attributes = copy->attributes;
    return r < 0 ? r : pl_open_commit_put_list(c, &op, 1, &how, err);
}

static int begin_copy(struct pl_s3_request *q, const struct pl_s3_copy_source *s, struct pl_err *err)
{
    struct copied *copied = calloc(1, sizeof *copied);

    if (!copied)
        return pl_err_nomem(err);
    q->more = copied;
    q->drop_more = copied_free;
    pl_body_spool_init(&copied->spool, q->services->tmp_dir, q->services->disks);
    memcpy(copied->etag, s->etag, sizeof copied->etag);
    copied->sum_kind = pl_s3_stored_sum(&s->file, copied->sum);
    memcpy(copied->version, pl_s3_version_of(&s->view, &s->file), sizeof copied->version);
    if (pl_streq(s->target.project, q->target.project))
        return 0;
    if (s->file.entry.size > PL_S3_OBJECT_MAX)
        return pl_err_set(err, PL_S3_ENTITY_TOO_LARGE,
                          "A copy from another project can have at most %llu bytes, but this one has %llu: copy it in parts.",
                          (unsigned long long)PL_S3_OBJECT_MAX, (unsigned long long)s->file.entry.size);
    return pl_s3_copy_source_read(s, 0, s->file.entry.size, &copied->spool, err);
}

int pl_s3_copy_object(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_copy_source_finish) struct pl_s3_copy_source s = {0};
    _cleanup_(pl_buf_finish) struct pl_buf attributes = {0};
    char path[PL_PATH_MAX_BYTES + 1];
    struct directives replace;
    bool dir;
    int r = pl_s3_key_path(q, path, &dir, err);

    r = r < 0 ? r : read_directive(q, "x-amz-metadata-directive", &replace.metadata, err);
    r = r < 0 ? r : read_directive(q, "x-amz-tagging-directive", &replace.tags, err);
    r = r < 0 ? r : pl_s3_source(q, &s, err);
    r = r < 0 ? r : check_itself(q, &s, &replace, err);
    r = r < 0 ? r : check_algorithm(q, &s, err);
    if (r == 0 && dir != (s.file.entry.kind == PL_KIND_DIR))
        r = pl_err_set(err, PL_S3_INVALID_ARGUMENT,
                       "A folder (its key ends with /) can only be copied to a folder, and a file to a file.");
    r = r < 0 ? r : begin_copy(q, &s, err);
    r = r < 0 ? r : copy_attributes(q, &s, &replace, &attributes, err);
    return r < 0 ? r : pl_s3_open_commit_put(q, copy_into, &(struct copy){q, &s, path, {attributes.data, attributes.len}}, err);
}
