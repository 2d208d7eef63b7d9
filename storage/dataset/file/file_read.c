/* Reads inline bytes, one chunk, or the chunks of a list one after another, and passes on the requested
 * range. */
#include "storage/dataset/file/file_read.h"

#include "storage/pack/pack_format.h"

static int list_get(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_chunk_reader *reader = self;

    return reader->get(reader->self, id, PL_REC_LIST, ret, err);
}

/* Reads a list whose chunks will be read next, in order. */
static int list_get_ahead(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_chunk_reader *reader = self;
    _cleanup_free_ struct pl_hash *ids = NULL;
    struct pl_list list;
    uint64_t size;
    int r = list_get(self, id, ret, err);

    if (r < 0 || reader->will_read == NULL || pl_list_decode(ret->data, ret->len, &list, NULL) < 0)
        return r; /* the cursor reports that it is no list */
    ids = calloc(list.count + 1, sizeof(*ids));
    for (size_t i = 0; ids != NULL && i < list.count; i++)
        pl_list_entry(&list, i, &ids[i], &size);
    if (ids != NULL)
        reader->will_read(reader->self, ids, list.count);
    return 0;
}

struct pl_list_source pl_reader_list_source(const struct pl_chunk_reader *reader)
{
    return (struct pl_list_source){.self = (void *)reader, .get = list_get};
}

struct pl_list_source pl_reader_list_source_ahead(const struct pl_chunk_reader *reader)
{
    return (struct pl_list_source){.self = (void *)reader, .get = list_get_ahead};
}

static int read_chunk(const struct pl_hash *id, uint64_t size, const struct pl_chunk_reader *reader, struct pl_buf *scratch,
                      struct pl_err *err)
{
    int r = reader->get(reader->self, id, PL_REC_CHUNK, scratch, err);

    if (r == 0 && scratch->len != size)
        return pl_err_set(err, PL_ECORRUPT, "a chunk has %zu bytes, but %llu are expected", scratch->len,
                          (unsigned long long)size);
    return r;
}

/* Passes on those bytes of a piece that lie in the requested range offset .. offset + len. `at` is the
 * piece's offset in the file. */
static int write_part(const uint8_t *bytes, size_t n, uint64_t at, uint64_t offset, uint64_t len, pl_file_write_fn write,
                      void *self, struct pl_err *err)
{
    uint64_t from = PL_MAX(at, offset), to = PL_MIN(at + n, offset + len);

    return from < to ? write(self, bytes + (from - at), (size_t)(to - from), err) : 0;
}

/* Reads a range of a file that is stored as a chunk list. */
static int read_list(const struct pl_entry *entry, uint64_t offset, uint64_t len, const struct pl_chunk_reader *reader,
                     struct pl_buf *scratch, pl_file_write_fn write, void *self, struct pl_err *err)
{
    const struct pl_list_source source = pl_reader_list_source_ahead(reader);
    _cleanup_(pl_list_cursor_closep) struct pl_list_cursor *c = NULL;
    struct pl_hash id;
    uint64_t at;
    size_t n;
    int r;

    if ((r = pl_list_cursor_open(&source, &entry->id, &c, err)) < 0)
        return r;
    if (pl_list_cursor_bytes(c) != entry->size)
        return pl_err_set(err, PL_ECORRUPT, "the chunk list has %llu bytes, but its entry says %llu",
                          (unsigned long long)pl_list_cursor_bytes(c), (unsigned long long)entry->size);
    if (offset > 0 && (r = pl_list_cursor_seek(c, offset, err)) < 0)
        return r;
    while ((r = pl_list_cursor_next(c, &id, &at, &n, err)) > 0 && at < offset + len) {
        if ((r = read_chunk(&id, n, reader, scratch, err)) < 0 ||
            (r = write_part(scratch->data, n, at, offset, len, write, self, err)) < 0)
            return r;
    }
    return PL_MIN(r, 0);
}

int pl_file_read(const struct pl_entry *entry, uint64_t offset, uint64_t len, const struct pl_chunk_reader *reader,
                 struct pl_buf *scratch, pl_file_write_fn write, void *self, struct pl_err *err)
{
    int r;

    if (offset >= entry->size)
        return 0;
    len = PL_MIN(len, entry->size - offset);
    switch (entry->content) {
    case PL_CONTENT_INLINE:
        return write_part(entry->data, entry->inline_len, 0, offset, len, write, self, err);
    case PL_CONTENT_CHUNK:
        r = read_chunk(&entry->id, entry->size, reader, scratch, err);
        return r < 0 ? r : write_part(scratch->data, scratch->len, 0, offset, len, write, self, err);
    case PL_CONTENT_LIST:
        return read_list(entry, offset, len, reader, scratch, write, self, err);
    default:
        return 0;
    }
}
