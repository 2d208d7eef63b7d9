/* download: sends one file of a commit as a reply: a small file at once, a large one chunk by chunk as the
 * client receives it. Call its functions on the pool. */
#pragma once

#include "pipelined/net/server/http_server.h"
#include "storage/pack/chunk_reader.h"
#include "storage/tree/tree.h"

/* Reader of a file's bytes. `owner` (may be NULL) is the object that the reader depends on; `drop` releases
 * it after the last read. */
struct pl_download_from {
    struct pl_chunk_reader reader;
    void *owner;
    void (*drop)(void *owner);
};

/* Replies with `count` bytes of the file from offset `first`, with this status and content type. Returns 1 if
 * the reply is still in progress: the stream then releases the owner. Returns 0 if the reply is complete: the
 * caller still has to release the owner. Negative: no reply was made. */
PL_MUST_CHECK
int pl_download_bytes(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry,
                      unsigned status, const char *type, uint64_t first, uint64_t count, struct pl_err *err);
/* Sends the file with this content type, or the error as the reply, and releases the owner in every case. Honours Range
 * and If-None-Match; the ETag is made from the content id (docs/format.md "Attributes"). */
void pl_download_reply(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry,
                       const char *type);
