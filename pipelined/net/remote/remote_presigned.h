/* remote_signed: packs read from and put into the bucket itself, by URLs that the daemon signs for a while, where its store gives such.
 * Nothing here is believed: who reads verifies, and the daemon verifies what was put.
 *
 *   located ──plan──▶ ranges ──get-urls, many at a time──▶ URLs ──▶ the bucket
 *
 * Whatever does not go this way goes through the daemon: the caller is told so (1), and the log once. After a failure the bucket is left
 * alone for PL_REMOTE_PRESIGNED_PAUSE_MS. Any thread. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "pipelined/net/remote/remote_prefetch.h"

#define PL_REMOTE_PLANNED_MAX        8192 /* ranges, with their URLs: 6 MiB; then those planned last */
#define PL_REMOTE_URLS               256  /* in one question */
#define PL_REMOTE_PRESIGNED_PAUSE_MS 60000

struct pl_remote_signed;

/* `client` of the daemon outlives it, and so does `cancel`, which ends all requests within a second once it is set. NULL without memory. */
struct pl_remote_signed *pl_remote_presigned_create(struct pl_http_client *client, const char *project, atomic_bool *cancel);
struct pl_remote_signed *pl_remote_presigned_destroy(struct pl_remote_signed *s);
/* What the daemon's store signs: "packs" of its status. Before the first use. */
void pl_remote_presigned_allow(struct pl_remote_signed *s, bool get, bool put);
/* The certificates (PEM) by which the bucket is known, instead of the system's: "ca" there. Without room for them the bucket is not known,
 * and everything goes through the daemon. Before the first use. */
void pl_remote_presigned_trust(struct pl_remote_signed *s, const char *pem);

/* Ends the requests to the bucket that are under way. */
void pl_remote_signed_interrupt(struct pl_remote_signed *s);
/* Whether packs are read from the bucket now. */
bool pl_remote_presigned_reads(struct pl_remote_signed *s);
/* These ranges will be read. */
void pl_remote_presigned_plan(struct pl_remote_signed *s, const struct pl_remote_range *ranges, size_t n);
/* Bytes of a pack from `start` on into `ret`, which is empty: up to `end`, or as far as they were planned. 0; 1: not this way; PL_ECANCELED: interrupted. */
PL_MUST_CHECK
int pl_remote_presigned_fetch(struct pl_remote_signed *s, const struct pl_hash *pack, uint64_t start, uint64_t end,
                              struct pl_buf *ret);
/* Puts a pack and tells the daemon. 0: it knows; 1: not this way; PL_ECANCELED: interrupted. */
PL_MUST_CHECK
int pl_remote_presigned_put(struct pl_remote_signed *s, const char *session, const struct pl_hash *pack, const void *bytes,
                            size_t n);
