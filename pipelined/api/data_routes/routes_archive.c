/* A folder of a commit as a tar or zip archive, which is made while the client receives it.
 *
 *   NEXT ──entry──▶ [BYTES, chunk by chunk, of a file of several chunks] ──▶ NEXT ──end of the tree──▶ [RECORDS, of zip] ──▶ end
 *
 * Memory: one chunk, and for zip the checksum of each entry. The central directory of a zip needs names, sizes and offsets
 * again: they are read from the tree a second time. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/data_routes/archive_format.h"
#include "pipelined/api/data_routes/commit_view.h"
#include "storage/base/clock.h"
#include "storage/chunk/chunk_list.h"
#include "storage/dataset/file/file_read.h"
#include "storage/pack/chunk_reader.h"
#include "storage/pack/pack_format.h"
#include "storage/system/log_line.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

#define PULL_BYTES      ((size_t)48 << 10)
#define ZIP_ENTRIES_MAX (16u << 20) /* most entries of a zip archive: 64 MiB of checksums */

enum phase { NEXT, BYTES, RECORDS };

struct archive {
    struct pl_commit_view v;
    struct pl_chunk_reader reader;
    struct pl_list_source lists;
    struct pl_tree_cursor *cursor;
    struct pl_list_cursor *list; /* BYTES: chunks of the file */
    struct pl_buf content;       /* a chunk, or a whole small file */
    enum phase phase;
    bool zip;
    char below[PL_PATH_MAX_BYTES + 2];  /* the folder with its final slash; "" = the whole tree */
    size_t cut;                         /* its length */
    char top[PL_SEGMENT_MAX_BYTES + 1]; /* folder of the archive that has everything */
    int64_t at_us;
    /* the entry whose bytes are sent */
    struct pl_archive_zip_entry entry;
    char name[PL_ARCHIVE_NAME_MAX + 1];
    /* zip: CRC-32 of the entries so far; RECORDS begins again at the first */
    uint32_t *crcs;
    size_t n, room;
    uint64_t at, n_all; /* offset in the archive; entries in all */
    uint64_t directory_at, directory_bytes;
};

static void archive_free(void *self)
{
    struct archive *a = self;

    if (!a)
        return;
    pl_list_cursor_close(a->list);
    pl_tree_cursor_destroy(a->cursor);
    pl_buf_finish(&a->content);
    pl_commit_view_finish(&a->v);
    free(a->crcs);
    free(a);
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
static int read_small(struct archive *a, const struct pl_entry *e, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf scratch = {0};

    pl_buf_clear(&a->content);
    return pl_file_read(e, 0, e->size, &a->reader, &scratch, append, &a->content, err);
}

/* Describes the item as an entry of the archive. A symbolic link that leads out of the folder becomes a text file with its
 * target, so that no program follows it while it unpacks. With `whole`, a->content is read if the item is small. */
static int describe(struct archive *a, const struct pl_tree_item *item, bool whole, struct pl_err *err)
{
    static const enum pl_archive_kind kinds[] = {[PL_KIND_FILE] = PL_ARCHIVE_FILE,
                                                 [PL_KIND_EXEC] = PL_ARCHIVE_EXEC,
                                                 [PL_KIND_LINK] = PL_ARCHIVE_LINK,
                                                 [PL_KIND_DIR] = PL_ARCHIVE_DIR};
    const char *rest = item->path + a->cut;
    int r = 0;

    snprintf(a->name, sizeof a->name, "%s/%s", a->top, rest);
    a->entry = (struct pl_archive_zip_entry){
        .entry = {.kind = kinds[item->entry.kind], .name = a->name, .size = item->entry.size, .at_us = a->at_us},
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

static int keep_crc(struct archive *a, struct pl_err *err)
{
    if (!a->zip)
        return 0;
    if (a->n == a->room) {
        const size_t room = a->room ? 2 * a->room : 1024;
        uint32_t *more = a->n < ZIP_ENTRIES_MAX ? realloc(a->crcs, room * sizeof *more) : NULL;

        if (!more)
            return a->n < ZIP_ENTRIES_MAX ? pl_err_nomem(err)
                                          : pl_err_set(err, PL_ELIMIT, "more than %u entries", ZIP_ENTRIES_MAX);
        a->crcs = more;
        a->room = room;
    }
    a->crcs[a->n++] = a->entry.crc;
    a->at += pl_archive_zip_bytes(&a->entry);
    return 0;
}

/* Ends the entry after its bytes. */
static int end_entry(struct archive *a, struct pl_buf *out, struct pl_err *err)
{
    int r = a->zip                                   ? pl_archive_zip_descriptor(&a->entry, out, err)
            : a->entry.entry.kind == PL_ARCHIVE_LINK ? 0
                                                     : pl_archive_tar_padding(a->entry.entry.size, out, err);

    a->phase = NEXT;
    return r < 0 ? r : keep_crc(a, err);
}

static int begin_list(struct archive *a, const struct pl_entry *e, struct pl_err *err)
{
    int r;

    a->list = pl_list_cursor_close(a->list);
    r = pl_list_cursor_open(&a->lists, &e->id, &a->list, err);
    if (r == 0 && pl_list_cursor_bytes(a->list) != e->size)
        r = pl_err_set(err, PL_ECORRUPT, "the chunks of the list add up to another size than that of the file");
    a->phase = BYTES;
    return r;
}

static int begin_entry(struct archive *a, const struct pl_tree_item *item, struct pl_buf *out, struct pl_err *err)
{
    int r = describe(a, item, true, err);

    if (r < 0)
        return r;
    if (!a->entry.descriptor && a->zip)
        a->entry.crc = pl_archive_crc32(0, a->content.data, a->entry.entry.size ? a->content.len : 0);
    r = a->zip ? pl_archive_zip_header(&a->entry, out, err) : pl_archive_tar_header(&a->entry.entry, out, err);
    if (r < 0)
        return r;
    if (!is_small(&item->entry))
        return begin_list(a, &item->entry, err);
    if (a->entry.entry.size && (a->zip || a->entry.entry.kind != PL_ARCHIVE_LINK))
        r = pl_buf_add(out, a->content.data, a->content.len, err);
    return r < 0 ? r : end_entry(a, out, err);
}

/* Sends the next chunk of a file. */
static int send_chunk(struct archive *a, struct pl_buf *out, struct pl_err *err)
{
    struct pl_hash id;
    uint64_t offset;
    size_t len;
    int r = pl_list_cursor_next(a->list, &id, &offset, &len, err);

    if (r <= 0)
        return r < 0 ? r : end_entry(a, out, err);
    r = a->reader.get(a->reader.self, &id, PL_REC_CHUNK, &a->content, err);
    if (r == 0 && a->content.len != len)
        r = pl_err_set(err, PL_ECORRUPT, "a chunk has %zu bytes, but its list says %zu", a->content.len, len);
    if (r < 0)
        return r;
    if (a->zip)
        a->entry.crc = pl_archive_crc32(a->entry.crc, a->content.data, len);
    return pl_buf_add(out, a->content.data, len, err);
}

static int open_tree(struct archive *a, struct pl_err *err)
{
    a->cursor = pl_tree_cursor_destroy(a->cursor);
    return pl_tree_cursor_create(&a->v.source, &a->v.commit.root, a->below, a->cut, &a->cursor, err);
}

/* Appends the next entry. Returns 1, or 0 when the archive is complete. */
static int next_entry(struct archive *a, struct pl_buf *out, struct pl_err *err)
{
    struct pl_tree_item item;
    int r = pl_tree_cursor_next(a->cursor, &item, err);

    if (r != 0) {
        r = r < 0 ? r : begin_entry(a, &item, out, err);
        return r < 0 ? r : 1;
    }
    if (!a->zip)
        return pl_archive_tar_end(out, err);
    a->phase = RECORDS;
    a->directory_at = a->at;
    a->n_all = a->n;
    a->at = 0;
    a->n = 0;
    r = open_tree(a, err);
    return r < 0 ? r : 1;
}

/* Appends the next record of the central directory. Returns 1, or 0 when the archive is complete. */
static int next_record(struct archive *a, struct pl_buf *out, struct pl_err *err)
{
    const size_t before = out->len;
    struct pl_tree_item item;
    int r = a->n == a->n_all ? 0 : pl_tree_cursor_next(a->cursor, &item, err);

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
    struct archive *a = self;
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
        pl_log_warn("api", "an archive of commit %.8s was cut off at %s: %s", a->v.commit.run, a->name, err->msg);
    return r < 0 ? r : r > 0 ? PL_PULL_MORE : PL_PULL_END;
}

/* ---- request ---- */

/* Refuses a path that is no folder. */
static int check_folder(struct archive *a, const char *path, struct pl_err *err)
{
    struct pl_tree_item item;
    struct pl_tree_stats stats;
    struct pl_entry file;
    int r;

    if (*path && pl_tree_get(&a->v.source, &a->v.commit.root, path, strlen(path), &file, NULL) == 0 && file.kind != PL_KIND_DIR)
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "/%s is a file: get the file itself", path), "path");
    r = pl_tree_cursor_next(a->cursor, &item, err);
    if (r == 0 && *path)
        return pl_err_set(err, PL_ENOTFOUND, "commit %.8s has no files below /%s", a->v.commit.run, path);
    if (r == 0)
        return 0;
    r = r < 0 ? r : pl_tree_stats_get(&a->v.source, &a->v.commit.root, a->below, a->cut, &stats, err);
    if (r == 0 && a->zip && stats.files > ZIP_ENTRIES_MAX)
        return pl_err_field(err,
                            pl_err_set(err, PL_ELIMIT, "%llu files are too many for a zip archive (at most %u): use format=tar",
                                       (unsigned long long)stats.files, ZIP_ENTRIES_MAX),
                            "format");
    return r < 0 ? r : open_tree(a, err);
}

static int archive_open(struct pl_api *api, const struct pl_http_request *req, struct archive *a, struct pl_err *err)
{
    const char *format = pl_http_query(req, "format"), *slash;
    char path[PL_PATH_MAX_BYTES + 1];
    int r = pl_api_path_arg(req, "path", path, err);

    if (r == 0 && format && !pl_streq(format, "tar") && !pl_streq(format, "zip"))
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "format \"%.32s\" is not known: use tar or zip", format), "format");
    r = r < 0 ? r : pl_commit_view_init(api, req, pl_http_param(req, "ref"), &a->v, err);
    if (r < 0)
        return r;
    a->zip = pl_streq(format ? format : "tar", "zip");
    a->reader = a->v.open ? pl_open_commit_reader(a->v.open) : pl_store_chunk_reader(a->v.store);
    a->lists = pl_reader_list_source(&a->reader);
    a->at_us = a->v.commit.created_us ? a->v.commit.created_us : pl_clock_wall_us();
    slash = strrchr(path, '/');
    snprintf(a->top, sizeof a->top, "%.*s", PL_SEGMENT_MAX_BYTES, slash ? slash + 1 : *path ? path : pl_http_param(req, "repo"));
    snprintf(a->below, sizeof a->below, "%s%s", path, *path ? "/" : "");
    a->cut = strlen(a->below);
    r = open_tree(a, err);
    return r < 0 ? r : check_folder(a, path, err);
}

static void get_archive(struct pl_api *api, struct pl_http_request *req)
{
    struct archive *a = calloc(1, sizeof *a);
    struct pl_http_stream_options options = {.length = PL_HTTP_LENGTH_UNKNOWN};
    char disposition[2 * PL_NAME_MAX_BYTES + 64];
    struct pl_err err = {0};
    int r = a ? archive_open(api, req, a, &err) : pl_err_nomem(&err);

    if (r < 0) {
        archive_free(a);
        pl_http_reply_error(req, &err);
        return;
    }
    /* a repo's name and an id need no escapes */
    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s-%.8s.%s\"", pl_http_param(req, "repo"), a->v.commit.run,
             a->zip ? "zip" : "tar");
    pl_http_reply_header(req, "Content-Disposition", disposition);
    pl_http_reply_header(req, "Content-Security-Policy", "sandbox; default-src 'none'");
    options.content_type = a->zip ? "application/zip" : "application/x-tar";
    pl_http_stream_close(pl_http_reply_stream(req, &options, &(struct pl_http_stream_ops){a, archive_pull, archive_free}));
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/repos/{project}/{repo}/refs/{ref}/archive", .raw = get_archive, .costly = true, .verb = PL_VERB_READ,
     .summary = "Returns the folder path, with everything below it, as a tar (default) or zip archive in one folder of its name. "
                "Zip entries are stored, not compressed. A symbolic link that leads out of the folder is a text file with its "
                "target. A reply that is cut off is incomplete.",
     .query = "path format", .reply = "application/*"},
};
const struct pl_api_table pl_api_routes_archive = {.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)};
