/* Sends a file of one chunk at once. A file of several chunks is sent as a stream, which reads one chunk each
 * time the server asks for more data. */
#include "pipelined/api/transfer/download.h"

#include "storage/chunk/chunk_list.h"
#include "storage/dataset/file/file_read.h"
#include "storage/pack/chunk_reader.h"
#include "storage/pack/pack_format.h"
#include "storage/system/log_line.h"
#include "storage/tree/content_id.h"

#include <stdio.h>

/* A file of several chunks that is being sent. */
struct download {
    struct pl_download_from from;
    struct pl_list_source lists;
    struct pl_list_cursor *cursor;
    uint64_t at, end; /* offsets in the file: next byte, end */
    struct pl_buf chunk;
};

static void let_go(const struct pl_download_from *from)
{
    if (from->owner)
        from->drop(from->owner);
}

static void download_free(void *self)
{
    struct download *d = self;

    pl_list_cursor_close(d->cursor);
    pl_buf_finish(&d->chunk);
    let_go(&d->from);
    free(d);
}

/* Sends the next chunk. A pull function of the stream. */
static int download_pull(void *self, struct pl_buf *out, struct pl_err *err)
{
    struct download *d = self;
    struct pl_hash id;
    uint64_t offset;
    size_t len, skip, n;
    int r = pl_list_cursor_next(d->cursor, &id, &offset, &len, err);

    if (r == 0)
        r = pl_err_set(err, PL_ECORRUPT, "a chunk list ends before its file");
    r = r < 0 ? r : d->from.reader.get(d->from.reader.self, &id, PL_REC_CHUNK, &d->chunk, err);
    if (r == 0 && d->chunk.len != len)
        r = pl_err_set(err, PL_ECORRUPT, "a chunk has %zu bytes, but its list says %zu", d->chunk.len, len);
    if (r < 0) {
        pl_log_warn("api", "a download was cut off at byte %llu of the file: %s", (unsigned long long)d->at, err->msg);
        return r;
    }
    skip = (size_t)(d->at - offset);
    n = (size_t)PL_MIN((uint64_t)len, d->end - offset) - skip;
    if (n == d->chunk.len && out->len == 0)
        pl_buf_swap(out, &d->chunk);
    else
        r = pl_buf_add(out, d->chunk.data + skip, n, err);
    d->at += n;
    return r < 0 ? r : d->at < d->end ? PL_PULL_MORE : PL_PULL_END;
}

/* Opens the chunk list of the file. On success the download owns `from->owner` and releases it. */
static int download_open(const struct pl_download_from *from, const struct pl_entry *entry, uint64_t first, uint64_t count,
                         struct download **ret, struct pl_err *err)
{
    struct download *d = calloc(1, sizeof *d);
    int r;

    if (!d)
        return pl_err_nomem(err);
    d->from = *from;
    d->lists = pl_reader_list_source(&d->from.reader);
    d->at = first;
    d->end = first + count;
    r = pl_list_cursor_open(&d->lists, &entry->id, &d->cursor, err);
    if (r == 0 && pl_list_cursor_bytes(d->cursor) != entry->size)
        r = pl_err_set(err, PL_ECORRUPT, "the chunks of the list add up to another size than that of the file");
    r = r < 0 ? r : pl_list_cursor_seek(d->cursor, first, err);
    if (r < 0) {
        d->from.owner = NULL;
        download_free(d);
        return r;
    }
    *ret = d;
    return 0;
}

static int add_bytes(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, bytes, n, err);
}

static int reply_small(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry,
                       unsigned status, const char *type, uint64_t first, uint64_t count, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0}, scratch = {0};
    struct pl_chunk_reader reader = from->reader;
    int r = pl_file_read(entry, first, count, &reader, &scratch, add_bytes, &out, err);

    if (r == 0)
        pl_http_reply_buf(req, status, type, &out);
    return r;
}

static int reply_large(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry,
                       unsigned status, const char *type, uint64_t first, uint64_t count, struct pl_err *err)
{
    struct pl_http_stream_options options = {.status = status, .content_type = type, .length = count};
    struct download *d;
    int r = download_open(from, entry, first, count, &d, err);

    if (r < 0)
        return r;
    pl_http_stream_close(pl_http_reply_stream(req, &options, &(struct pl_http_stream_ops){d, download_pull, download_free}));
    return 0;
}

int pl_download_bytes(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry,
                      unsigned status, const char *type, uint64_t first, uint64_t count, struct pl_err *err)
{
    int r;

    if (entry->content != PL_CONTENT_LIST)
        return reply_small(req, from, entry, status, type, first, count, err);
    r = reply_large(req, from, entry, status, type, first, count, err);
    return r < 0 ? r : 1;
}

/* Sets ETag; returns true if the client has this content already. */
static bool add_etag(struct pl_http_request *req, const struct pl_hash *content)
{
    const char *known = pl_http_header(req, "If-None-Match");
    char hex[PL_HASH_HEX + 1], etag[48];

    snprintf(etag, sizeof etag, "\"%.32s-1\"", pl_hash_hex(content, hex));
    pl_http_reply_header(req, "ETag", etag);
    return known && (pl_streq(known, "*") || strstr(known, etag));
}

/* Sends the reply. Returns 1 if the reply is still in progress; it then owns `from->owner`. */
static int reply(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry, const char *type,
                 struct pl_err *err)
{
    enum pl_http_range range;
    uint64_t first, count;
    struct pl_hash content;
    unsigned status;
    int r = pl_content_id_file(entry, &content, err);

    if (r < 0)
        return r;
    if (add_etag(req, &content)) {
        pl_http_reply(req, 304, NULL, NULL, 0);
        return 0;
    }
    range = pl_http_request_range(req, entry->size, &first, &count);
    status = range == PL_RANGE_PART ? 206 : 200;
    if (range == PL_RANGE_OUTSIDE) {
        pl_http_reply(req, 416, type, NULL, 0);
        return 0;
    }
    return pl_download_bytes(req, from, entry, status, type, first, count, err);
}

void pl_download_reply(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry,
                       const char *type)
{
    struct pl_err err = {0};
    int r = reply(req, from, entry, type, &err);

    if (r < 0)
        pl_http_reply_error(req, &err);
    if (r <= 0)
        let_go(from);
}
