/* read_back: packs that a writer put into the bucket without the daemon are read once more, all of them, in the background; one that lies
 * is quarantined.
 *
 *   expect ─▶ add ──▶ unread ──every record is what it says──▶ good: no trace is left
 *                        └──its bytes are not──▶ quarantined: moved to q/…, its records unknown; event pack.quarantined
 *
 * While a pack is unread only its own session is told that its records are there (pl_upload_verify_reveal): nobody else, the daemon's own
 * writers neither, leaves out bytes because of what a stranger says. Whoever reads a record verifies it anyway. What is unread outlives the daemon.
 *
 * One thread, which reads one pack after the other by windows; of one that seems to lie, all bytes at once (PL_PACK_MAX_BYTES): they alone
 * decide, not what else can go wrong between here and a bucket. Started with the first pack. */
#pragma once

#include "pipelined/db/tx/direct_upload_tx.h"
#include "pipelined/net/server/http_server.h"
#include "storage/store/project_stores.h"

#define PL_UPLOAD_VERIFY_MAX   4096 /* unread packs (256 GiB at most); what comes then goes through the daemon, which is slower */
#define PL_UPLOAD_VERIFY_FILES 32   /* named in an event, of those hurt */
#define PL_UPLOAD_VERIFY_LEAST 100  /* ms until a pack is tried again that could not be read; doubled each time, */
#define PL_UPLOAD_VERIFY_MOST  30000 /* up to this */
#define PL_QUARANTINE_KEY      "q%s" /* of the pack's key without its first letter */

struct pl_read_back;

/* The pack that a request is about, with its session and who asks. */
void pl_upload_verify_origin(const struct pl_http_request *req, const char *project, const struct pl_hash *pack, uint64_t bytes,
                             struct pl_direct_upload *ret);

/* What was unread when the last daemon ended is read by this one. `db` and `stores` outlive it. */
PL_MUST_CHECK
int pl_upload_verify_create(struct pl_db *db, struct pl_project_stores *stores, struct pl_read_back **ret, struct pl_err *err);
/* Somebody may put it into the bucket soon: should we end before we are told, the next start looks. Blocks: on the pool. */
PL_MUST_CHECK
int pl_upload_verify_expect(struct pl_read_back *b, const struct pl_direct_upload *pack, struct pl_err *err);
/* The pack is in the bucket: its footer is read, its records are known from now on. Blocks: on the pool. PL_ENOTFOUND: it is not there;
 * PL_EPROTO: it is no pack, or another one; PL_EBUSY: too many are unread, or what lies under its name
 * is just being taken out: then it goes through the daemon. */
PL_MUST_CHECK
int pl_upload_verify_add(struct pl_read_back *b, const struct pl_direct_upload *pack, struct pl_err *err);
/* The pack comes through the daemon: pl_store_receive_pack of the file at `path`, which is gone afterwards, and durable. Was a URL given for
 * it, or did something lie under its name, then it is read back all the same: the URL may put other bytes yet. Blocks: on the pool. */
PL_MUST_CHECK
int pl_upload_verify_receive(struct pl_read_back *b, const struct pl_direct_upload *pack, const char *path, struct pl_err *err);
/* Adds to what pl_store_has_many said the ids that an unread pack of this very session has. */
void pl_upload_verify_reveal(struct pl_read_back *b, struct pl_store *store, const char *session, const struct pl_hash *ids,
                             size_t n, uint8_t *bitmap, uint32_t *packs);
bool pl_upload_verify_is_full(struct pl_read_back *b);

struct pl_upload_verify_stats {
    uint64_t unread;      /* now */
    uint64_t good;        /* since the start, */
    uint64_t quarantined; /* like these */
};
void pl_upload_verify_get_stats(struct pl_read_back *b, struct pl_upload_verify_stats *ret);
/* Ends the thread; what it reads from a bucket is given up. Before the database and the stores close. */
void pl_upload_verify_stop(struct pl_read_back *b);
/* NULL is fine. */
struct pl_read_back *pl_upload_verify_destroy(struct pl_read_back *b);
