/* ingest_read: one thing found → its entry: the reader's side of ingest. Internal to storage/dataset. */
#pragma once

#include "storage/dataset/ingest/ingest_walk.h"
#include "storage/dataset/ingest/large_file.h"

/* One reader's memory. `sink` must be set, the rest is made when needed. Single-threaded. */
struct pl_reader {
    struct pl_file_write_sink sink;
    const struct pl_stat_cache *stat_cache; /* NULL or empty: every file is read */
    bool remembers;                         /* what is read goes to a stat cache: whether it may is looked at */
    uint8_t *small;                         /* PL_CHUNK_WHOLE_BYTES + 1 */
    uint8_t *stream;                        /* PL_FILE_WRITE_BUFFER_BYTES */
    struct pl_large_file_buffer segment;
    /* A large file: offers the job to others while this reader works on it; returns when all have left it. */
    const _Atomic bool *stop; /* true: a large file is given up */
    void (*share)(void *self, struct pl_large_file_job *job, struct pl_large_file_buffer *buffer);
    void *self;
};

void pl_reader_finish(struct pl_reader *rd);
/* Sets item->entry, key, cached, fresh. Errors name the local path. */
PL_MUST_CHECK
int pl_reader_item(struct pl_reader *rd, const struct pl_walk_batch *b, struct pl_walk_item *item, struct pl_err *err);
