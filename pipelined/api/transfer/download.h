/* download: one file of a commit as an answer: small ones at once, large ones chunk by chunk as the client takes them. On the pool. */
#pragma once

#include "pipelined/net/server/http_server.h"
#include "storage/pack/chunk_reader.h"
#include "storage/tree/tree.h"

/* Whose bytes they are. `owner` (may be NULL) is let go of when nothing is read any more. */
struct pl_download_from {
    struct pl_chunk_reader reader;
    void *owner;
    void (*drop)(void *owner);
};

/* `count` bytes from `first` as the answer with this status and type. 1: it is under way and has taken the owner; 0: it is done without;
 * negative: nothing was replied. */
PL_MUST_CHECK
int pl_download_bytes(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry,
                      unsigned status, const char *type, uint64_t first, uint64_t count, struct pl_err *err);
/* Replies in any case. Honours Range and If-None-Match; the ETag is the content id's (docs/format.md "Attributes"). */
void pl_download_reply(struct pl_http_request *req, const struct pl_download_from *from, const struct pl_entry *entry);
