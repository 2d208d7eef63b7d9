/* ingest_read: reads one item that the walker found and makes its entry: the part of an ingest that reader
 * threads run. Used only in this room. */
#pragma once

#include "storage/dataset/ingest/ingest_walk.h"
#include "storage/dataset/ingest/large_file.h"

/* One reader. `sink` must be set; buffers are allocated when they are needed. Single-threaded. */
struct pl_reader {
    struct pl_file_write_sink sink;
    const struct pl_stat_cache *stat_cache; /* NULL or empty = read every file */
    /* results may be stored in a stat cache, so check whether a later change of the file would be noticed
     * */
    bool remembers;
    uint8_t *small;  /* buffer of PL_CHUNK_WHOLE_BYTES + 1 bytes */
    uint8_t *stream; /* buffer of PL_FILE_WRITE_BUFFER_BYTES */
    struct pl_large_file_buffer segment;
    /* `share` reads a large file on this thread and offers it to other readers; it returns when all of
     * them have left it. */
    const _Atomic bool *stop;            /* true: stop reading a large file */
    struct pl_ingest_progress *progress; /* counts chunks as they are stored; NULL = not counted */
    _Atomic uint64_t counted;            /* bytes of the current item that `progress` has; helpers add to it, too */
    void (*share)(void *self, struct pl_large_file_job *job, struct pl_large_file_buffer *buffer);
    void *self;
};

void pl_reader_finish(struct pl_reader *rd);
/* Looks up the stat of a file in the cache. Returns true if it is known, and its size in `ret_size` in any case; 0 if there is
 * no such file any more. */
bool pl_reader_known_size(const struct pl_stat_cache *cache, const struct pl_walk_batch *b, const struct pl_walk_item *item,
                          uint64_t *ret_size);
/* Reads an item; sets item->entry, key, cached, fresh. Errors contain the local path. PL_ECHANGED: the file
 * changed during each of two attempts to read it. */
PL_MUST_CHECK
int pl_reader_item(struct pl_reader *rd, const struct pl_walk_batch *b, struct pl_walk_item *item, struct pl_err *err);
