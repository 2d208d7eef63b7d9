/* The parts are read as pieces: a piece is a chunk, or a whole small file. If a piece begins at a chunk
 * boundary of the new file, its chunk is used unchanged where possible. Otherwise the bytes of the pieces are
 * collected in a buffer and chunked again, until a new chunk boundary coincides with the start of a piece;
 * the bytes left in the buffer are then treated as pieces again. */
#include "storage/dataset/file/file_concat.h"

#include "storage/chunk/chunk.h"
#include "storage/dataset/file/file_read.h"
#include "storage/pack/pack_format.h"

#define JOIN_BUFFER_BYTES ((size_t)1 << 20)
#define PIECES_MAX        4096u /* maximum number of pieces whose start in the buffer is remembered */

/* A chunk of a part, or a whole small part. `as_is`: if a chunk of the new file begins where the piece
 * begins, the piece's chunk can be used unchanged, because its end is a boundary by the chunking rule and not
 * just the end of its part. */
struct piece {
    struct pl_hash id;
    size_t len, part;
    bool whole; /* an inline part, which has no chunk */
    bool as_is;
};

struct join {
    const struct pl_entry *parts;
    size_t n_parts;
    const struct pl_chunk_reader *reader;
    const struct pl_file_write_sink *sink;
    struct pl_effort *effort; /* NULL = no limits */
    uint64_t size;            /* size of the resulting file, in bytes */

    size_t part; /* number of the part that contains the next piece */
    struct pl_list_source lists;
    struct pl_list_cursor *cursor; /* position in the chunk list of `part`; NULL = not open */
    uint64_t part_at;              /* bytes of `part` already returned as pieces */

    uint8_t *buffer; /* bytes that are not chunked yet: [at .. at + len) */
    size_t at, len;
    struct piece pieces[PIECES_MAX]; /* pieces that begin in the buffer, in order */
    size_t starts[PIECES_MAX];       /* where they begin, as offsets in `buffer` */
    size_t first, n;
    /* offset in `buffer` before which there may be starts of pieces that the full array `pieces` lacks */
    size_t unknown;
    struct piece back[PIECES_MAX]; /* stack of pieces that next_piece returns again before it reads on */
    size_t n_back;
    struct pl_buf scratch;

    uint64_t out; /* number of bytes of the resulting file that are already in chunks */
    struct pl_list_builder *builder;
    struct pl_hash only; /* the first chunk, if it is the whole file */
    size_t only_len;
};

static void join_free(struct join *j)
{
    if (!j)
        return;
    pl_list_cursor_close(j->cursor);
    pl_list_builder_destroy(j->builder);
    pl_buf_finish(&j->scratch);
    free(j->buffer);
    free(j);
}

static void join_freep(struct join **j)
{
    join_free(*j);
}

/* ---- pieces of the parts ---- */

static int piece_of_list(struct join *j, const struct pl_entry *e, struct piece *ret, struct pl_err *err)
{
    int r = j->cursor ? 0 : pl_list_cursor_open(&j->lists, &e->id, &j->cursor, err);

    r = r < 0 ? r : pl_list_cursor_next(j->cursor, &ret->id, NULL, &ret->len, err);
    if (r == 0)
        return pl_err_set(err, PL_ECORRUPT, "a chunk list ends before the end of its file");
    if (r < 0)
        return r;
    j->part_at += ret->len;
    ret->as_is = j->part_at < e->size;
    return 0;
}

/* Returns 1 and the next piece, or 0 at the end. */
static int next_piece(struct join *j, struct piece *ret, struct pl_err *err)
{
    const struct pl_entry *e;
    int r = 0;

    if (j->n_back) {
        *ret = j->back[--j->n_back];
        return 1;
    }
    while (j->part < j->n_parts && j->parts[j->part].size == 0)
        j->part++;
    if (j->part == j->n_parts)
        return 0;
    r = pl_effort_add(j->effort, 1, err);
    if (r < 0)
        return r;
    e = &j->parts[j->part];
    *ret = (struct piece){.id = e->id, .len = (size_t)e->size, .part = j->part, .whole = e->content == PL_CONTENT_INLINE};
    if (e->content == PL_CONTENT_LIST)
        r = piece_of_list(j, e, ret, err);
    else
        j->part_at = e->size;
    if (r < 0)
        return r;
    if (j->part_at == e->size) {
        /* The end of the last part is also the end of the new file, so the last chunk of that part can be
         * used unchanged. A part of at most 64 KiB is one chunk although its bytes may contain a chunk
         * boundary, so it cannot be used unchanged in a larger file. */
        ret->as_is =
            j->part + 1 == j->n_parts && ret->len == e->size ? e->size > PL_CHUNK_WHOLE_BYTES : j->part + 1 == j->n_parts;
        j->cursor = pl_list_cursor_close(j->cursor);
        j->part++;
        j->part_at = 0;
    }
    return 1;
}

/* ---- output ---- */

/* Adds a chunk to the result. */
static int emit(struct join *j, const struct pl_hash *id, size_t len, struct pl_err *err)
{
    struct pl_list_sink lists = {.self = j->sink->self, .put = j->sink->list};
    int r = 0;

    if (j->out == 0 && len == j->size) {
        j->only = *id;
        j->only_len = len;
    } else if (!j->builder) {
        r = pl_list_builder_create(&lists, &j->builder, err);
    }
    r = r < 0 || !j->builder ? r : pl_list_builder_add(j->builder, id, len, err);
    j->out += len;
    return r;
}

/* ---- buffer ---- */

static int add_bytes_of(struct join *j, const struct piece *p, struct pl_err *err)
{
    const void *bytes = j->parts[p->part].data;
    int r = 0;

    if (!p->whole) {
        r = j->reader->get(j->reader->self, &p->id, PL_REC_CHUNK, &j->scratch, err);
        if (r == 0 && j->scratch.len != p->len)
            r = pl_err_set(err, PL_ECORRUPT, "a chunk has %zu bytes, but %zu are expected", j->scratch.len, p->len);
        bytes = j->scratch.data;
    }
    if (r < 0)
        return r;
    memcpy(j->buffer + j->at + j->len, bytes, p->len);
    j->len += p->len;
    return 0;
}

/* Moves the contents of the buffer and of the arrays to their start. */
static void make_room(struct join *j)
{
    memmove(j->buffer, j->buffer + j->at, j->len);
    memmove(j->pieces, j->pieces + j->first, j->n * sizeof *j->pieces);
    memmove(j->starts, j->starts + j->first, j->n * sizeof *j->starts);
    for (size_t i = 0; i < j->n; i++)
        j->starts[i] -= j->at;
    j->unknown -= PL_MIN(j->unknown, j->at);
    j->at = j->first = 0;
}

/* Appends the bytes of a piece to the buffer, and remembers where it begins. */
static int add_piece(struct join *j, const struct piece *p, struct pl_err *err)
{
    if (j->at + j->len + p->len > JOIN_BUFFER_BYTES || j->first + j->n == PIECES_MAX)
        make_room(j);
    if (j->n == PIECES_MAX) { /* happens only if there are many tiny parts */
        j->unknown = j->at + j->len + p->len;
    } else {
        j->pieces[j->first + j->n] = *p;
        j->starts[j->first + j->n] = j->at + j->len;
        j->n++;
    }
    return add_bytes_of(j, p, err);
}

/* Removes from `pieces` those that begin before the current position, because their first bytes are already
 * in a chunk. */
static void forget_pieces(struct join *j)
{
    while (j->n && j->starts[j->first] < j->at) {
        j->first++;
        j->n--;
    }
}

/* If the current position is the start of a piece that can be used unchanged, returns the rest of the
 * buffer to the queue of pieces. */
static void give_back(struct join *j)
{
    forget_pieces(j);
    if (!j->n || j->at < j->unknown || j->starts[j->first] != j->at || !j->pieces[j->first].as_is)
        return;
    for (size_t i = j->n; i-- > 0;)
        j->back[j->n_back++] = j->pieces[j->first + i];
    j->n = j->first = j->at = j->len = j->unknown = 0;
}

/* Cuts the next chunk from the start of the buffer and adds it to the result. */
static int cut(struct join *j, struct pl_err *err)
{
    size_t n = pl_chunk_next(j->buffer + j->at, j->len, j->out == 0);
    struct pl_hash id;
    int r = j->sink->chunk(j->sink->self, j->buffer + j->at, n, &id, err);

    r = r < 0 ? r : emit(j, &id, n, err);
    j->at += n;
    j->len -= n;
    return r;
}

/* ---- whole files ---- */

/* Called at a chunk boundary, with an empty buffer: adds the chunks of the next pieces to the result
 * unchanged, as long as that is possible. Returns 1 if a piece had to be added to the buffer instead, 0 at
 * the end of the parts. */
static int take_pieces(struct join *j, struct pl_err *err)
{
    struct piece p;
    int r;

    while ((r = next_piece(j, &p, err)) > 0) {
        if (!p.as_is || p.whole) {
            r = add_piece(j, &p, err);
            return r < 0 ? r : 1;
        }
        r = emit(j, &p.id, p.len, err);
        if (r < 0)
            return r;
    }
    return r;
}

/* Joins the parts if the resulting file is larger than a file that is stored as a single chunk. */
static int run(struct join *j, struct pl_err *err)
{
    struct piece p;
    int r = 0;

    while (r >= 0 && j->out < j->size) {
        if (j->len == 0) {
            r = take_pieces(j, err);
            if (r <= 0)
                break;
        }
        r = 0;
        while (r >= 0 && j->len < PL_CHUNK_MAX_BYTES && (r = next_piece(j, &p, err)) > 0)
            r = add_piece(j, &p, err);
        r = r < 0 ? r : cut(j, err);
        if (r == 0)
            give_back(j);
    }
    return r < 0 || j->out == j->size ? PL_MIN(r, 0)
                                      : pl_err_set(err, PL_ECORRUPT, "the parts have fewer bytes than their entries say");
}

/* Appends bytes to a buffer, for a file that is small enough not to be chunked. */
static int add_bytes(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, bytes, n, err);
}

static int join_small(struct join *j, uint8_t kind, struct pl_entry *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    int r = 0;

    for (size_t i = 0; i < j->n_parts && r == 0; i++)
        r = pl_file_read(&j->parts[i], 0, j->parts[i].size, j->reader, &j->scratch, add_bytes, &bytes, err);
    return r < 0 ? r : pl_file_write_entry_small(j->sink, kind, bytes.data, bytes.len, ret, err);
}

static int join_large(struct join *j, uint8_t kind, struct pl_entry *ret, struct pl_err *err)
{
    struct pl_hash id;
    int r;

    j->lists = pl_reader_list_source(j->reader);
    j->buffer = malloc(JOIN_BUFFER_BYTES);
    r = j->buffer ? run(j, err) : pl_err_nomem(err);
    if (r < 0)
        return r;
    if (j->only_len) {
        *ret = pl_entry_chunk(kind, j->only_len, &j->only);
        return 0;
    }
    r = pl_list_builder_finish(j->builder, &id, NULL, err);
    if (r == 0)
        *ret = pl_entry_list(kind, j->size, &id);
    return r;
}

static int check_parts(const struct pl_entry *parts, size_t n, uint64_t *ret_size, struct pl_err *err)
{
    uint64_t size = 0;

    for (size_t i = 0; i < n; i++) {
        if (parts[i].kind != PL_KIND_FILE && parts[i].kind != PL_KIND_EXEC)
            return pl_err_set(err, PL_EINVAL, "part %zu is not a file", i + 1);
        size += parts[i].size;
        if (parts[i].size >= PL_FILE_LIMIT_BYTES || size >= PL_FILE_LIMIT_BYTES)
            return pl_err_set(err, PL_ETOOBIG, "the %zu parts together are larger than a file may be", n);
    }
    *ret_size = size;
    return 0;
}

int pl_file_concat(const struct pl_entry *parts, size_t n, uint8_t kind, const struct pl_chunk_reader *reader,
                   const struct pl_file_write_sink *sink, struct pl_effort *effort, struct pl_entry *ret, struct pl_err *err)
{
    _cleanup_(join_freep) struct join *j = NULL;
    uint64_t size;
    int r = check_parts(parts, n, &size, err);

    if (r < 0)
        return r;
    j = calloc(1, sizeof *j);
    if (!j)
        return pl_err_nomem(err);
    j->parts = parts;
    j->n_parts = n;
    j->reader = reader;
    j->sink = sink;
    j->effort = effort;
    j->size = size;
    return size <= PL_CHUNK_WHOLE_BYTES ? join_small(j, kind, ret, err) : join_large(j, kind, ret, err);
}
