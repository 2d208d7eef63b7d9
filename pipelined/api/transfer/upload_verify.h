/* upload_verify: reads, once and in the background, every pack that a client has uploaded directly to the
 * bucket, and quarantines a pack whose content is not what it claims.
 *
 *   expect ─▶ add ──▶ unread ──every record is valid──▶ good: its note is deleted
 *                        └──its bytes are not valid──▶ quarantined: moved to q/…, its records unknown;
 *                                                      event pack.quarantined
 *
 * While a pack is unread, only the session that uploaded it is told that its records exist
 * (pl_upload_verify_reveal). Every other writer, the daemon too, uploads these records itself, because the
 * content of the pack is not verified. Readers verify each record anyway. The list of unread packs is in the
 * database and survives a restart.
 *
 * One thread, started with the first pack, reads one pack after another, piece by piece. A pack that seems
 * invalid is read again as a whole into memory (PL_PACK_MAX_BYTES) and verified there, so that a transfer
 * error cannot cause the quarantine of a valid pack. */
#pragma once

#include "pipelined/db/tx/direct_upload_tx.h"
#include "pipelined/net/server/http_server.h"
#include "storage/store/project_stores.h"

/* largest number of unread packs (at most 256 GiB); clients must send further packs through the daemon, which
 * is slower */
#define PL_UPLOAD_VERIFY_MAX   4096
#define PL_UPLOAD_VERIFY_FILES 32    /* largest number of damaged files named in an event */
#define PL_UPLOAD_VERIFY_LEAST 100   /* milliseconds until a failed read is repeated; doubled each time */
#define PL_UPLOAD_VERIFY_MOST  30000 /* largest pause between two attempts, in milliseconds */
/* key of a quarantined pack; the argument is the pack's key without its first letter */
#define PL_QUARANTINE_KEY "q%s"

struct pl_read_back;

/* Fills in the description of the request's pack: its project, id, size, upload session and writer. */
void pl_upload_verify_origin(const struct pl_http_request *req, const char *project, const struct pl_hash *pack, uint64_t bytes,
                             struct pl_direct_upload *ret);

/* Creates the verifier and continues with the packs that an earlier daemon left unread. `db` and `stores`
 * must outlive it. */
PL_MUST_CHECK
int pl_upload_verify_create(struct pl_db *db, struct pl_project_stores *stores, struct pl_read_back **ret, struct pl_err *err);
/* Records that a client may upload the pack soon. If the daemon ends before the client reports the upload,
 * the daemon looks for the pack at its next start. Blocks: call it on the pool. */
PL_MUST_CHECK
int pl_upload_verify_expect(struct pl_read_back *b, const struct pl_direct_upload *pack, struct pl_err *err);
/* Adds a pack that was uploaded to the bucket: reads its footer, and makes its records known as unverified.
 * Blocks: call it on the pool. PL_ENOTFOUND: the pack is not in the bucket; PL_EPROTO: the object is not a
 * pack, or is a pack with another id; PL_EBUSY: too many packs are unread, or an invalid object of the same
 * name is just being removed. After PL_EBUSY the client must send the pack through the daemon. */
PL_MUST_CHECK
int pl_upload_verify_add(struct pl_read_back *b, const struct pl_direct_upload *pack, struct pl_err *err);
/* Receives a pack through the daemon: calls pl_store_receive_pack, or pl_store_take_pack if it was `offered`, for the
 * file at `path`, which is removed in any case, and flushes the store. If a presigned URL was given for the pack, or an
 * object had its name before, the pack is verified again later, because a client may overwrite its object with the URL.
 * Blocks: call it on the pool. */
PL_MUST_CHECK
int pl_upload_verify_receive(struct pl_read_back *b, const struct pl_direct_upload *pack, const char *path, bool offered,
                             struct pl_err *err);
/* Adds to the result of pl_store_has_many the records that are in unread packs of this session. */
void pl_upload_verify_reveal(struct pl_read_back *b, struct pl_store *store, const char *session, const struct pl_hash *ids,
                             size_t n, uint8_t *bitmap, uint32_t *packs);
bool pl_upload_verify_is_full(struct pl_read_back *b);

struct pl_upload_verify_stats {
    uint64_t unread;      /* packs that are unread now */
    uint64_t good;        /* packs found valid since the start of the daemon */
    uint64_t quarantined; /* packs quarantined since the start of the daemon */
};
void pl_upload_verify_get_stats(struct pl_read_back *b, struct pl_upload_verify_stats *ret);
/* Ends the thread and cancels the read that it is doing. Call it before the database and the stores are
 * closed. */
void pl_upload_verify_stop(struct pl_read_back *b);
/* Stops and frees the verifier. NULL is allowed; returns NULL. */
struct pl_read_back *pl_upload_verify_destroy(struct pl_read_back *b);
