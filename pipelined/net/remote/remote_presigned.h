/* remote_presigned: reads and writes packs directly in the bucket of the daemon's store, if that store supports
 * presigned URLs. The daemon signs the URLs; each is valid for a limited time. The reader verifies the records that
 * it reads, and the daemon verifies the packs that were written.
 *
 *   located ──plan──▶ ranges ──get-urls, many at a time──▶ URLs ──▶ the bucket
 *
 * If the bucket cannot be used, the function returns 1 and the caller uses the daemon instead; the log says so once.
 * After a failure the bucket is not used for PL_REMOTE_PRESIGNED_PAUSE_MS. Any thread. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "pipelined/net/remote/remote_stream.h"

/* most planned ranges in memory, with their URLs (6 MiB); when more are planned, all earlier ranges are dropped */
#define PL_REMOTE_PLANNED_MAX        8192
#define PL_REMOTE_URLS               256 /* most ranges in one request for URLs */
#define PL_REMOTE_PRESIGNED_PAUSE_MS 60000

struct pl_remote_signed;

/* Creates the result without access to a bucket (see pl_remote_presigned_allow). `client` is the HTTP client for
 * the daemon; `client` and `cancel` must outlive the result. Setting `cancel` ends all requests within a second.
 * NULL if memory runs out. */
struct pl_remote_signed *pl_remote_presigned_create(struct pl_http_client *client, const char *project, atomic_bool *cancel);
struct pl_remote_signed *pl_remote_presigned_destroy(struct pl_remote_signed *s);
/* Sets whether the daemon's store signs URLs for reading and for writing, according to the member "packs" of
 * the daemon's status. Call it before the first read or write. */
void pl_remote_presigned_allow(struct pl_remote_signed *s, bool get, bool put);
/* Sets the CA certificates (PEM) with which to check the bucket's server, from the member "ca" in the status.
 * If they cannot be stored, packs go through the daemon. Call it before the first read or write. */
void pl_remote_presigned_trust(struct pl_remote_signed *s, const char *pem);

/* Ends the requests to the bucket that are in progress. */
void pl_remote_signed_interrupt(struct pl_remote_signed *s);
/* True if packs are read from the bucket now. */
bool pl_remote_presigned_reads(struct pl_remote_signed *s);
/* Plans ranges that will be read, so that one request gets the URLs of many of them. */
void pl_remote_presigned_plan(struct pl_remote_signed *s, const struct pl_remote_range *ranges, size_t n);
/* Reads bytes of a pack into `ret`, which must be empty: from `start` up to `end`, or up to the end of the
 * planned range. Returns 0; 1: use the daemon; PL_ECANCELED: interrupted. */
PL_MUST_CHECK
int pl_remote_presigned_fetch(struct pl_remote_signed *s, const struct pl_hash *pack, uint64_t start, uint64_t end,
                              struct pl_buf *ret);
/* Reads the bytes of a range and passes them to `write` as they arrive. Returns 0 if all were passed on; the negative
 * result of `write`; 1: none was passed on, use the daemon; PL_ENET: the rest is missing; PL_ECANCELED: interrupted. */
PL_MUST_CHECK
int pl_remote_presigned_stream(struct pl_remote_signed *s, const struct pl_remote_range *range, pl_remote_write write, void *to);
/* Writes a pack to the bucket and reports it to the daemon. Returns 0 if the daemon has accepted it; 1: use
 * the daemon; PL_ECANCELED: interrupted. */
PL_MUST_CHECK
int pl_remote_presigned_put(struct pl_remote_signed *s, const char *session, const struct pl_hash *pack, const void *bytes,
                            size_t n);
