/* Reads the stream into a buffer and chunks it. A chunk list is begun only when the file turns out to have a
 * second chunk. */
#include "storage/dataset/file/file_write.h"

#include "storage/chunk/chunk.h"
#include "storage/pack/pack_builder.h"

static int session_chunk(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    return pl_pack_builder_add(self, PL_REC_CHUNK, bytes, n, ret_id, err);
}

struct pl_file_write_sink pl_file_write_sink_pack(struct pl_pack_builder *session)
{
    return (struct pl_file_write_sink){.self = session, .chunk = session_chunk, .list = pl_pack_builder_list_put};
}

static int hash_put(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    (void)self;
    (void)err;
    pl_hash_sha256(bytes, n, ret_id);
    return 0;
}

struct pl_file_write_sink pl_file_write_sink_hash_only(void)
{
    return (struct pl_file_write_sink){.chunk = hash_put, .list = hash_put};
}

int pl_file_write_entry_small(const struct pl_file_write_sink *sink, uint8_t kind, const void *bytes, size_t n,
                              struct pl_entry *ret, struct pl_err *err)
{
    struct pl_hash id;
    int r;

    if (n <= PL_INLINE_MAX_BYTES) {
        *ret = pl_entry_inline(kind, bytes, n);
        return 0;
    }
    r = sink->chunk(sink->self, bytes, n, &id, err);
    if (r == 0)
        *ret = pl_entry_chunk(kind, n, &id);
    return r;
}

/* A stream; bytes that are read but not chunked are in buffer[at .. at + len). */
struct stream {
    const struct pl_file_write_sink *sink;
    uint8_t *buffer;
    size_t at, len;
    bool ended;
    pl_file_read_fn read;
    void *self;
};

/* Reads until the buffer has at least `want` bytes or the stream ends. */
static int stream_fill(struct stream *s, size_t want, struct pl_err *err)
{
    if (s->len >= want || s->ended)
        return 0;
    memmove(s->buffer, s->buffer + s->at, s->len);
    s->at = 0;
    while (s->len < PL_FILE_WRITE_BUFFER_BYTES && !s->ended) {
        ssize_t got = s->read(s->self, s->buffer + s->len, PL_FILE_WRITE_BUFFER_BYTES - s->len, err);

        if (got < 0)
            return (int)got;
        s->ended = got == 0;
        s->len += (size_t)got;
        if (s->len >= want && s->len >= PL_FILE_WRITE_BUFFER_BYTES / 2)
            break;
    }
    return 0;
}

/* Chunks a file of more than one chunk: `first` and all further chunks go into a list. */
static int stream_list(struct stream *s, const struct pl_hash *first, size_t first_len, uint8_t kind, struct pl_entry *ret,
                       struct pl_err *err)
{
    struct pl_list_sink lists = {.self = s->sink->self, .put = s->sink->list};
    _cleanup_(pl_list_builder_destroyp) struct pl_list_builder *builder = NULL;
    struct pl_hash id;
    uint64_t bytes;
    int r;

    if ((r = pl_list_builder_create(&lists, &builder, err)) < 0 || (r = pl_list_builder_add(builder, first, first_len, err)) < 0)
        return r;
    for (;;) {
        size_t n;

        if ((r = stream_fill(s, PL_CHUNK_MAX_BYTES, err)) < 0)
            return r;
        if (s->len == 0)
            break;
        n = pl_chunk_next(s->buffer + s->at, s->len, false);
        if ((r = s->sink->chunk(s->sink->self, s->buffer + s->at, n, &id, err)) < 0 ||
            (r = pl_list_builder_add(builder, &id, n, err)) < 0)
            return r;
        s->at += n;
        s->len -= n;
    }
    r = pl_list_builder_finish(builder, &id, &bytes, err);
    if (r == 0)
        *ret = pl_entry_list(kind, bytes, &id);
    return r;
}

int pl_file_write_entry(const struct pl_file_write_sink *sink, uint8_t *buffer, uint8_t kind, pl_file_read_fn read, void *self,
                        struct pl_entry *ret, struct pl_err *err)
{
    struct stream s = {.sink = sink, .buffer = buffer, .read = read, .self = self};
    struct pl_hash id;
    size_t n;
    int r;

    if ((r = stream_fill(&s, PL_CHUNK_MAX_BYTES, err)) < 0)
        return r;
    if (s.ended && s.len <= PL_CHUNK_WHOLE_BYTES)
        return pl_file_write_entry_small(sink, kind, buffer, s.len, ret, err);
    n = pl_chunk_next(buffer, s.len, true);
    if ((r = sink->chunk(sink->self, buffer, n, &id, err)) < 0)
        return r;
    if (s.ended && n == s.len) {
        *ret = pl_entry_chunk(kind, n, &id);
        return 0;
    }
    s.at = n;
    s.len -= n;
    if (s.len == 0 && (r = stream_fill(&s, 1, err)) < 0)
        return r;
    if (s.len == 0) {
        *ret = pl_entry_chunk(kind, n, &id);
        return 0;
    }
    return stream_list(&s, &id, n, kind, ret, err);
}

int pl_file_write_stream(struct pl_pack_builder *session, uint8_t kind, pl_file_read_fn read, void *self, struct pl_entry *ret,
                         struct pl_err *err)
{
    struct pl_file_write_sink sink = pl_file_write_sink_pack(session);
    _cleanup_free_ uint8_t *buffer = malloc(PL_FILE_WRITE_BUFFER_BYTES);

    if (buffer == NULL)
        return pl_err_nomem(err);
    return pl_file_write_entry(&sink, buffer, kind, read, self, ret, err);
}
