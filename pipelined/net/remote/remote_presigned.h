/* remote_presigned: reads packs from the bucket and writes them to it, by URLs that the daemon signs for a limited
 * time, if its store supports that. The reader verifies what it reads, and the daemon verifies what was written.
 *
 *   located ──plan──▶ ranges ──get-urls, many at a time──▶ URLs ──▶ the bucket
 *
 * What fails here goes through the daemon: the function returns 1, and the log says so once. After a failure the
 * bucket is not used for PL_REMOTE_PRESIGNED_PAUSE_MS. Any thread. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "pipelined/net/remote/remote_prefetch.h"

#define PL_REMOTE_PLANNED_MAX        8192 /* ranges with their URLs: 6 MiB; beyond it all earlier ones are dropped */
#define PL_REMOTE_URLS               256  /* ranges per request */
#define PL_REMOTE_PRESIGNED_PAUSE_MS 60000

struct pl_remote_signed;

/* `client` is the daemon's; it and `cancel` must outlive the object. Setting `cancel` ends all requests within a
 * second. NULL without memory. */
struct pl_remote_signed *pl_remote_presigned_create(struct pl_http_client *client, const char *project, atomic_bool *cancel);
struct pl_remote_signed *pl_remote_presigned_destroy(struct pl_remote_signed *s);
/* Sets what the daemon's store signs: "packs" of its status. Before the first use. */
void pl_remote_presigned_allow(struct pl_remote_signed *s, bool get, bool put);
/* Sets the CA certificates (PEM) of the bucket instead of the system's: "ca" of the status. If they cannot be
 * stored, everything goes through the daemon. Before the first use. */
void pl_remote_presigned_trust(struct pl_remote_signed *s, const char *pem);

/* Ends the requests to the bucket in progress. */
void pl_remote_signed_interrupt(struct pl_remote_signed *s);
/* True if packs are read from the bucket now. */
bool pl_remote_presigned_reads(struct pl_remote_signed *s);
/* Announces ranges that will be read, so that one request gets many URLs. */
void pl_remote_presigned_plan(struct pl_remote_signed *s, const struct pl_remote_range *ranges, size_t n);
/* Reads bytes of a pack from `start` into the empty `ret`, up to `end` or to the end of the planned range. 0; 1:
 * use the daemon; PL_ECANCELED: interrupted. */
PL_MUST_CHECK
int pl_remote_presigned_fetch(struct pl_remote_signed *s, const struct pl_hash *pack, uint64_t start, uint64_t end,
                              struct pl_buf *ret);
/* Writes a pack to the bucket and reports it to the daemon. 0: the daemon knows it; 1: use the daemon;
 * PL_ECANCELED: interrupted. */
PL_MUST_CHECK
int pl_remote_presigned_put(struct pl_remote_signed *s, const char *session, const struct pl_hash *pack, const void *bytes,
                            size_t n);
