/* net/remote: A daemon's store seen from outside: uploads packs, reads records, by presigned URLs where possible.
 *
 * In:      Packs, record ids.
 * Out:     Verified records.
 * Uses:    net/http_client, storage/{base, chunk, object, pack, store, system}
 * Threads: Any thread; prefetch threads of its own.
 *
 * Headers for other rooms:
 *   retrying_sink     pack sink that retries after lost connections
 *
 * Inside:
 *   remote_locations  table of record locations
 *   remote_prefetch   fetches pack ranges before they are read
 *   remote_presigned  reads and writes packs by presigned URLs */

/* remote: the store of a daemon, seen from pipelinectl and the agent: where an ingest puts its packs, where a checkout reads its
 * chunks, and the entries of a committed tree.
 *
 * Reading: ids are located in batches; their bytes come out of the pack files themselves when the daemon's store is a folder that
 * this process can read, else by HTTP ranges: what is known to be read soon is fetched ahead (remote_ahead.h: 64 MiB), other things come through
 * a window cache (storage/store/pack_read_window.h: 32 MiB). Every record is checked against its SHA-256 either way. The chunks of a chunk list
 * that was read are read soon. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "storage/base/hash.h"
#include "storage/pack/chunk_reader.h"

#define PL_REMOTE_HAVE_MAX    65536      /* ids in one question */
#define PL_REMOTE_LOCATED_MAX (1u << 18) /* located ids kept (27 MiB); the older half goes */

struct pl_remote;
struct pl_pack_sink;

/* A remote of one project; asks the daemon once where its store is. `client` must outlive it. Thread-safe. */
PL_MUST_CHECK
int pl_remote_open(struct pl_http_client *client, const char *project, struct pl_remote **ret, struct pl_err *err);
struct pl_remote *pl_remote_close(struct pl_remote *r);
static inline void pl_remote_closep(struct pl_remote **r)
{
    *r = pl_remote_close(*r);
}
/* Ends reads, locates and puts that are under way with PL_ECANCELED, for all threads that wait for them: a caller that still wants one asks again.
 * Any thread. */
void pl_remote_interrupt(struct pl_remote *r);
/* Tells where the daemon's store is ("file:///DIR"), for a worker that may not ask. Anything that is no readable folder is ignored.
 * Before the first read. */
PL_MUST_CHECK
int pl_remote_set_store(struct pl_remote *r, const char *url, struct pl_err *err);
/* The id of the daemon's store (32 hex digits); "" for a worker that may not ask. */
const char *pl_remote_store_id(const struct pl_remote *r);
/* True when pack files are read directly. */
bool pl_remote_is_local(const struct pl_remote *r);

/* A session for writing (PL_POST /sessions): needed before the sink is used. PL_ENET, PL_EAUTH. */
PL_MUST_CHECK
int pl_remote_session(struct pl_remote *r, struct pl_err *err);
/* Ends it, when there is one and the daemon answers: what waits for it need not wait for its lease. */
void pl_remote_end_session(struct pl_remote *r);
/* The session's id, for the commit's `session` argument; "" before pl_remote_session. */
const char *pl_remote_session_id(const struct pl_remote *r);
/* Asks `have` and PUTs packs in this session. */
struct pl_pack_sink pl_remote_sink(struct pl_remote *r);

/* Reads verified records. */
struct pl_chunk_reader pl_remote_reader(struct pl_remote *r);
/* Asks where these are, so that the reads that follow need no question each. Unknown ids are no error here. */
PL_MUST_CHECK
int pl_remote_locate(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_err *err);
/* The same for what is read soon, in this order: unless packs are read directly, the bytes are fetched meanwhile (remote_ahead.h). */
PL_MUST_CHECK
int pl_remote_will_read(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_err *err);

/* The files below `path` ("" = all) of the tree `root`, as an ops stream (application/x-pl-ops), through `write` as it arrives.
 * `files`: NULL-terminated globs, relative to `path`; NULL = all. A file as `path` gives one entry named by its last segment. */
PL_MUST_CHECK
int pl_remote_entries(struct pl_remote *r, const struct pl_hash *root, const char *path, const char *const *files,
                      int (*write)(void *self, const void *data, size_t n, struct pl_err *err), void *self, struct pl_err *err);
/* The entries of the files that `names` (lines, at most 65,536 of them) name below `path`, as an ops stream into `ret`. PL_ENOTFOUND: one is no
 * file there; PL_EPATH, PL_ELIMIT. */
PL_MUST_CHECK
int pl_remote_named_entries(struct pl_remote *r, const struct pl_hash *root, const char *path, const struct pl_buf *names,
                            struct pl_buf *ret, struct pl_err *err);
