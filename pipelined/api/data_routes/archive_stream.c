/* Tar and zip archives of parts of trees, made while the client receives them.
 *
 *   NEXT ──entry──▶ [BYTES, chunk by chunk, of a file of several chunks] ──▶ NEXT ──end of the parts──▶ [RECORDS, of zip] ──▶ end
 *
 * Memory: one chunk, and for zip the checksum of each entry. The central directory of a zip needs names, sizes and offsets
 * again: they are read from the trees a second time. */
#include "pipelined/api/data_routes/archive_stream.h"

#include "pipelined/api/data_routes/archive_format.h"
#include "storage/chunk/chunk_list.h"
#include "storage/dataset/file/file_read.h"
#include "storage/pack/chunk_reader.h"
#include "storage/pack/pack_format.h"
#include "storage/system/log_line.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

#define PULL_BYTES ((size_t)48 << 10)

enum phase { NEXT, BYTES, RECORDS };

struct pl_archive_stream {
    struct pl_archive_plan plan;
    size_t part;                   /* the part that is read */
    struct pl_tree_cursor *cursor; /* in it; NULL = it is not open */
    struct pl_list_source lists;   /* of it */
    struct pl_list_cursor *list;   /* BYTES: chunks of the file */
    struct pl_buf content;         /* a chunk, or a whole small file */
    enum phase phase;
    /* the entry whose bytes are sent */
    struct pl_archive_zip_entry entry;
    char name[PL_ARCHIVE_NAME_MAX + 1];
    /* zip: CRC-32 of the entries so far; RECORDS begins again at the first */
    uint32_t *crcs;
    size_t n, room;
    uint64_t at, n_all; /* offset in the archive; entries in all */
    uint64_t directory_at, directory_bytes;
};

void pl_archive_plan_finish(struct pl_archive_plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++)
        pl_glob_set_destroy(plan->parts[i].files);
    free(plan->parts);
    if (plan->release)
        plan->release(plan->owner);
    *plan = (struct pl_archive_plan){0};
}

static void stream_free(void *self)
{
    struct pl_archive_stream *a = self;

    pl_list_cursor_close(a->list);
    pl_tree_cursor_destroy(a->cursor);
    pl_buf_finish(&a->content);
    pl_archive_plan_finish(&a->plan);
    free(a->crcs);
    free(a);
}

static struct pl_archive_part *part_of(struct pl_archive_stream *a)
{
    return &a->plan.parts[a->part];
}

static int append(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, bytes, n, err);
}

/* True if the bytes of the entry are at hand at once. A larger file is sent chunk by chunk, and its checksum comes after it. */
static bool is_small(const struct pl_entry *e)
{
    return e->content != PL_CONTENT_LIST;
}

/* Reads a small entry into a->content. */
static int read_small(struct pl_archive_stream *a, const struct pl_entry *e, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf scratch = {0};

    pl_buf_clear(&a->content);
    return pl_file_read(e, 0, e->size, &part_of(a)->reader, &scratch, append, &a->content, err);
}

/* Describes the item as an entry of the archive. A symbolic link that leads out of the folder becomes a text file with its
 * target, so that no program follows it while it unpacks. With `whole`, a->content is read if the item is small. */
static int describe(struct pl_archive_stream *a, const struct pl_tree_item *item, bool whole, struct pl_err *err)
{
    static const enum pl_archive_kind kinds[] = {[PL_KIND_FILE] = PL_ARCHIVE_FILE,
                                                 [PL_KIND_EXEC] = PL_ARCHIVE_EXEC,
                                                 [PL_KIND_LINK] = PL_ARCHIVE_LINK,
                                                 [PL_KIND_DIR] = PL_ARCHIVE_DIR};
    const char *rest = item->path + part_of(a)->cut;
    int r = 0;

    snprintf(a->name, sizeof a->name, "%s/%s", part_of(a)->top, rest);
    a->entry = (struct pl_archive_zip_entry){
        .entry = {.kind = kinds[item->entry.kind], .name = a->name, .size = item->entry.size, .at_us = a->plan.at_us},
        .descriptor = !is_small(&item->entry),
        .offset = a->at};
    if (item->entry.kind == PL_KIND_LINK || (whole && is_small(&item->entry)))
        r = read_small(a, &item->entry, err);
    if (r < 0 || item->entry.kind != PL_KIND_LINK)
        return r;
    r = pl_buf_add(&a->content, "", 1, err); /* its target as text */
    if (r < 0)
        return r;
    a->content.len--;
    a->entry.entry.target = (const char *)a->content.data;
    if (!pl_path_link_stays(rest, a->entry.entry.target))
        a->entry.entry.kind = PL_ARCHIVE_FILE;
    return 0;
}

/* ---- entries ---- */

static int keep_crc(struct pl_archive_stream *a, struct pl_err *err)
{
    if (!a->plan.zip)
        return 0;
    if (a->n == a->room) {
        const size_t room = a->room ? 2 * a->room : 1024;
        uint32_t *more = a->n < PL_ARCHIVE_ZIP_ENTRIES_MAX ? realloc(a->crcs, room * sizeof *more) : NULL;

        if (!more)
            return a->n < PL_ARCHIVE_ZIP_ENTRIES_MAX
                       ? pl_err_nomem(err)
                       : pl_err_set(err, PL_ELIMIT, "more than %u entries", PL_ARCHIVE_ZIP_ENTRIES_MAX);
        a->crcs = more;
        a->room = room;
    }
    a->crcs[a->n++] = a->entry.crc;
    a->at += pl_archive_zip_bytes(&a->entry);
    return 0;
}

/* Ends the entry after its bytes. */
static int end_entry(struct pl_archive_stream *a, struct pl_buf *out, struct pl_err *err)
{
    int r = a->plan.zip                              ? pl_archive_zip_descriptor(&a->entry, out, err)
            : a->entry.entry.kind == PL_ARCHIVE_LINK ? 0
                                                     : pl_archive_tar_padding(a->entry.entry.size, out, err);

    a->phase = NEXT;
    return r < 0 ? r : keep_crc(a, err);
}

static int begin_list(struct pl_archive_stream *a, const struct pl_entry *e, struct pl_err *err)
{
    int r;

    a->list = pl_list_cursor_close(a->list);
    r = pl_list_cursor_open(&a->lists, &e->id, &a->list, err);
    if (r == 0 && pl_list_cursor_bytes(a->list) != e->size)
        r = pl_err_set(err, PL_ECORRUPT, "the chunks of the list add up to another size than that of the file");
    a->phase = BYTES;
    return r;
}

static int begin_entry(struct pl_archive_stream *a, const struct pl_tree_item *item, struct pl_buf *out, struct pl_err *err)
{
    int r = describe(a, item, true, err);

    if (r < 0)
        return r;
    if (!a->entry.descriptor && a->plan.zip)
        a->entry.crc = pl_archive_crc32(0, a->content.data, a->entry.entry.size ? a->content.len : 0);
    r = a->plan.zip ? pl_archive_zip_header(&a->entry, out, err) : pl_archive_tar_header(&a->entry.entry, out, err);
    if (r < 0)
        return r;
    if (!is_small(&item->entry))
        return begin_list(a, &item->entry, err);
    if (a->entry.entry.size && (a->plan.zip || a->entry.entry.kind != PL_ARCHIVE_LINK))
        r = pl_buf_add(out, a->content.data, a->content.len, err);
    return r < 0 ? r : end_entry(a, out, err);
}

/* Sends the next chunk of a file. */
static int send_chunk(struct pl_archive_stream *a, struct pl_buf *out, struct pl_err *err)
{
    struct pl_hash id;
    uint64_t offset;
    size_t len;
    int r = pl_list_cursor_next(a->list, &id, &offset, &len, err);

    if (r <= 0)
        return r < 0 ? r : end_entry(a, out, err);
    r = part_of(a)->reader.get(part_of(a)->reader.self, &id, PL_REC_CHUNK, &a->content, err);
    if (r == 0 && a->content.len != len)
        r = pl_err_set(err, PL_ECORRUPT, "a chunk has %zu bytes, but its list says %zu", a->content.len, len);
    if (r < 0)
        return r;
    if (a->plan.zip)
        a->entry.crc = pl_archive_crc32(a->entry.crc, a->content.data, len);
    return pl_buf_add(out, a->content.data, len, err);
}

/* True if the part has the entry: it is the file that the part is, or a file that its globs select. */
static bool takes(const struct pl_archive_part *p, const struct pl_tree_item *item)
{
    if (p->file)
        return item->path_len == p->below_len;
    return !p->files || (item->entry.kind != PL_KIND_DIR &&
                         pl_glob_set_takes(p->files, item->path + p->below_len, item->path_len - p->below_len));
}

/* Finds the next entry of the part that is read, and then of those after it. Returns 1, or 0 after the last one. */
static int next_item(struct pl_archive_stream *a, struct pl_tree_item *ret, struct pl_err *err)
{
    int r = 0;

    while (a->part < a->plan.n_parts) {
        struct pl_archive_part *p = part_of(a);

        if (!a->cursor) {
            a->lists = pl_reader_list_source(&p->reader);
            r = pl_tree_cursor_create(&p->source, &p->root, p->below, p->below_len, &a->cursor, err);
        }
        while (r >= 0 && (r = pl_tree_cursor_next(a->cursor, ret, err)) > 0) {
            if (takes(p, ret))
                return 1;
            if (p->file) { /* it comes first: what follows only begins like it */
                r = 0;
                break;
            }
        }
        if (r < 0)
            return r;
        a->cursor = pl_tree_cursor_destroy(a->cursor);
        a->part++;
    }
    return 0;
}

/* Appends the next entry. Returns 1, or 0 when the archive is complete. */
static int next_entry(struct pl_archive_stream *a, struct pl_buf *out, struct pl_err *err)
{
    struct pl_tree_item item;
    int r = next_item(a, &item, err);

    if (r != 0) {
        r = r < 0 ? r : begin_entry(a, &item, out, err);
        return r < 0 ? r : 1;
    }
    if (!a->plan.zip)
        return pl_archive_tar_end(out, err);
    a->phase = RECORDS;
    a->directory_at = a->at;
    a->n_all = a->n;
    a->at = 0;
    a->n = 0;
    a->part = 0;
    return 1;
}

/* Appends the next record of the central directory. Returns 1, or 0 when the archive is complete. */
static int next_record(struct pl_archive_stream *a, struct pl_buf *out, struct pl_err *err)
{
    const size_t before = out->len;
    struct pl_tree_item item;
    int r = a->n == a->n_all ? 0 : next_item(a, &item, err);

    if (r <= 0)
        return r < 0 ? r : pl_archive_zip_end(a->n_all, a->directory_at, a->directory_bytes, out, err);
    r = describe(a, &item, false, err);
    a->entry.crc = a->crcs[a->n++];
    a->at += pl_archive_zip_bytes(&a->entry);
    r = r < 0 ? r : pl_archive_zip_record(&a->entry, out, err);
    a->directory_bytes += out->len - before;
    return r < 0 ? r : 1;
}

static int archive_pull(void *self, struct pl_buf *out, struct pl_err *err)
{
    struct pl_archive_stream *a = self;
    int r;

    do {
        if (a->phase == BYTES) {
            r = send_chunk(a, out, err);
            r = r < 0 ? r : 1;
        } else {
            r = a->phase == NEXT ? next_entry(a, out, err) : next_record(a, out, err);
        }
    } while (r > 0 && out->len < PULL_BYTES);
    if (r < 0)
        pl_log_warn("api", "archive %s was cut off at %s: %s", a->plan.file_name, a->name, err->msg);
    return r < 0 ? r : r > 0 ? PL_PULL_MORE : PL_PULL_END;
}

int pl_archive_check_entries(const struct pl_archive_plan *plan, struct pl_err *err)
{
    uint64_t files = 0;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < plan->n_parts; i++) {
        const struct pl_archive_part *p = &plan->parts[i];
        struct pl_tree_stats stats;

        r = p->file ? 0 : pl_tree_stats_get(&p->source, &p->root, p->below, p->below_len, &stats, err);
        files += p->file ? 1 : r < 0 ? 0 : stats.files;
    }
    if (r < 0 || !plan->zip || files <= PL_ARCHIVE_ZIP_ENTRIES_MAX)
        return PL_MIN(r, 0);
    return pl_err_field(err,
                        pl_err_set(err, PL_ELIMIT, "%llu files are too many for a zip archive (at most %u): use format=tar",
                                   (unsigned long long)files, PL_ARCHIVE_ZIP_ENTRIES_MAX),
                        "format");
}

int pl_archive_format_read(const struct pl_http_request *req, bool zip, bool *ret_zip, struct pl_err *err)
{
    const char *format = pl_http_query(req, "format");

    if (format && !pl_streq(format, "tar") && !pl_streq(format, "zip"))
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "format \"%.32s\" is not known: use tar or zip", format), "format");
    *ret_zip = format ? pl_streq(format, "zip") : zip;
    return 0;
}

void pl_archive_reply(struct pl_http_request *req, struct pl_archive_plan *plan)
{
    struct pl_archive_stream *a = calloc(1, sizeof *a);
    struct pl_http_stream_options options = {.length = PL_HTTP_LENGTH_UNKNOWN};
    char disposition[sizeof plan->file_name + 64];
    struct pl_err err = {0};

    if (!a) {
        pl_archive_plan_finish(plan);
        (void)!pl_err_nomem(&err);
        pl_http_reply_error(req, &err);
        return;
    }
    a->plan = *plan;
    *plan = (struct pl_archive_plan){0};
    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"", a->plan.file_name);
    pl_http_reply_header(req, "Content-Disposition", disposition);
    pl_http_reply_header(req, "Content-Security-Policy", "sandbox; default-src 'none'");
    options.content_type = a->plan.zip ? "application/zip" : "application/x-tar";
    pl_http_stream_close(pl_http_reply_stream(req, &options, &(struct pl_http_stream_ops){a, archive_pull, stream_free}));
}
