/* download: one file of a commit as an answer: small ones at once, large ones chunk by chunk as the client takes them. On the pool. */
#pragma once

#include "pipelined/net/http_server.h"
#include "storage/pack/store.h"
#include "storage/tree/tree.h"

/* Replies in any case. Honours Range and If-None-Match; the ETag is the content id's (docs/format.md "Attributes"). */
void pl_download_reply(struct pl_http_request *req, struct pl_store *store, const struct pl_entry *entry);
