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
 *   remote_presigned  reads and writes packs by presigned URLs
 *
 * pipelinectl and the agent use it: an ingest uploads its packs, a checkout reads its chunks and the entries of a
 * committed tree.
 *
 * Reading: ids are located in batches. If the daemon's store is a folder that this process can read, records are
 * read from the pack files, else with HTTP ranges: records that are known to be read soon are prefetched
 * (remote_prefetch.h: 64 MiB), others come through a window cache (storage/store/pack_read_window.h: 32 MiB).
 * Every record is checked against its SHA-256. After a chunk list is read, its chunks are prefetched. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "storage/base/hash.h"
#include "storage/pack/chunk_reader.h"

#define PL_REMOTE_HAVE_MAX    65536      /* ids per request */
#define PL_REMOTE_LOCATED_MAX (1u << 18) /* locations kept (27 MiB); when full the older half is dropped */

struct pl_remote;
struct pl_pack_sink;

/* Opens a remote of one project; asks the daemon once where its store is. `client` must outlive it. Thread-safe. */
PL_MUST_CHECK
int pl_remote_open(struct pl_http_client *client, const char *project, struct pl_remote **ret, struct pl_err *err);
struct pl_remote *pl_remote_close(struct pl_remote *r);
static inline void pl_remote_closep(struct pl_remote **r)
{
    *r = pl_remote_close(*r);
}
/* Ends the reads, locates and puts in progress with PL_ECANCELED, for all waiting threads; a caller that still
 * needs one repeats it. Any thread. */
void pl_remote_interrupt(struct pl_remote *r);
/* Sets where the daemon's store is ("file:///DIR"), for a worker that may not ask for the status. A URL that is
 * not a readable folder is ignored. Before the first read. */
PL_MUST_CHECK
int pl_remote_set_store(struct pl_remote *r, const char *url, struct pl_err *err);
/* Returns the id of the daemon's store (32 hex digits); "" for a worker that may not ask. */
const char *pl_remote_store_id(const struct pl_remote *r);
/* True if pack files are read directly. */
bool pl_remote_is_local(const struct pl_remote *r);

/* Opens an upload session (POST /sessions), which the sink needs. PL_ENET, PL_EAUTH. */
PL_MUST_CHECK
int pl_remote_session(struct pl_remote *r, struct pl_err *err);
/* Ends the session if there is one, so that garbage collection need not wait for its lease; errors are ignored. */
void pl_remote_end_session(struct pl_remote *r);
/* Returns the session's id, for the commit's `session` argument; "" before pl_remote_session. */
const char *pl_remote_session_id(const struct pl_remote *r);
/* Returns a sink that asks `have` and PUTs packs in this session. */
struct pl_pack_sink pl_remote_sink(struct pl_remote *r);

/* Returns a reader of verified records. */
struct pl_chunk_reader pl_remote_reader(struct pl_remote *r);
/* Locates records in batches, so that later reads need no request each. Unknown ids are no error here. */
PL_MUST_CHECK
int pl_remote_locate(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_err *err);
/* The same for records that are read soon, in this order; unless packs are read directly, the bytes are
 * prefetched. */
PL_MUST_CHECK
int pl_remote_will_read(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_err *err);

/* Streams the entries of the files below `path` ("" = all) of the tree `root` to `write`, as an ops stream
 * (application/x-pl-ops). `files`: NULL-terminated globs relative to `path`; NULL = all. If `path` is a file, its
 * entry is named by the last segment. */
PL_MUST_CHECK
int pl_remote_entries(struct pl_remote *r, const struct pl_hash *root, const char *path, const char *const *files,
                      int (*write)(void *self, const void *data, size_t n, struct pl_err *err), void *self, struct pl_err *err);
/* Reads the entries of the files that `names` (at most 65,536 lines) lists below `path`, as an ops stream into
 * `ret`. PL_ENOTFOUND: one is no file there; PL_EPATH, PL_ELIMIT. */
PL_MUST_CHECK
int pl_remote_named_entries(struct pl_remote *r, const struct pl_hash *root, const char *path, const struct pl_buf *names,
                            struct pl_buf *ret, struct pl_err *err);
