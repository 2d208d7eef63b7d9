/* net/remote: A daemon's store seen from outside: uploads packs, reads records, by presigned URLs where possible.
 *
 * In:      Packs, record ids.
 * Out:     Verified records.
 * Uses:    net/http_client, storage/{base, object, pack, store, system}
 * Threads: Any thread; prefetch threads of its own.
 *
 * Headers for other rooms:
 *   retrying_sink     pack sink that retries after lost connections
 *
 * Inside:
 *   remote_locations  table of record locations
 *   remote_prefetch   fetches pack ranges before they are read
 *   remote_presigned  reads and writes packs by presigned URLs
 *   remote_stream     reads many records with few requests, each as it arrives
 *
 * pipelinectl and the agent use it: an ingest uploads its packs, a checkout reads its chunks and the entries of a
 * committed tree.
 *
 * Reading: ids are located in batches. If the daemon's store is a folder that this process can read, records are
 * read from the pack files, else with HTTP ranges: records that are known to be read soon are prefetched
 * (remote_prefetch.h: 64 MiB), those of large files are streamed (remote_stream.h), and others come through a window
 * cache (storage/store/pack_read_window.h: 32 MiB). Every record is checked against its SHA-256. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "storage/base/hash.h"
#include "storage/pack/chunk_reader.h"

#define PL_REMOTE_HAVE_MAX 65536 /* most ids in one request */
/* number of locations kept (27 MiB); when the table is full, the older half is dropped */
#define PL_REMOTE_LOCATED_MAX (1u << 18)

struct pl_remote;
struct pl_pack_sink;

/* Opens the store of one project and asks the daemon once where that store is. `client` must outlive the result.
 * PL_ECANCELED: pl_http_client_interrupt was called. Thread-safe. */
PL_MUST_CHECK
int pl_remote_open(struct pl_http_client *client, const char *project, struct pl_remote **ret, struct pl_err *err);
struct pl_remote *pl_remote_close(struct pl_remote *r);
static inline void pl_remote_closep(struct pl_remote **r)
{
    *r = pl_remote_close(*r);
}
/* Ends all reads, locates and uploads that are in progress with PL_ECANCELED, in whichever thread they wait.
 * A caller that still needs its result repeats the call. Any thread. */
void pl_remote_interrupt(struct pl_remote *r);
/* Sets where the daemon's store is ("file:///DIR"), for a worker, which may not request the daemon's status.
 * Ignores a URL that is not a folder that this process can read. Call it before the first read. */
PL_MUST_CHECK
int pl_remote_set_store(struct pl_remote *r, const char *url, struct pl_err *err);
/* Returns the id of the daemon's store (32 hex digits); "" for a worker, which may not request the daemon's
 * status. */
const char *pl_remote_store_id(const struct pl_remote *r);
/* True if records are read directly from pack files on this machine. */
bool pl_remote_is_local(const struct pl_remote *r);

/* Opens an upload session (POST /sessions), which the sink needs. PL_ENET, PL_EAUTH; PL_ECANCELED:
 * pl_remote_interrupt was called. */
PL_MUST_CHECK
int pl_remote_session(struct pl_remote *r, struct pl_err *err);
/* Like pl_remote_session, and tells the daemon how many bytes the session will bring. PL_ENOSPC: they do not fit on the disk of
 * the store. 0 = unknown. A daemon that does not know the number of bytes opens the session without it. */
PL_MUST_CHECK
int pl_remote_session_for(struct pl_remote *r, uint64_t bytes, struct pl_err *err);
/* Ends the upload session, if there is one, so that garbage collection need not wait until its lease expires.
 * Errors are ignored. */
void pl_remote_end_session(struct pl_remote *r);
/* Returns the id of the upload session, for the `session` argument of a commit; "" before
 * pl_remote_session. */
const char *pl_remote_session_id(const struct pl_remote *r);
/* Returns a pack sink that asks the daemon which records it has (`have`) and uploads packs in this
 * session. */
struct pl_pack_sink pl_remote_sink(struct pl_remote *r);

/* Returns a reader of records; it verifies each record's hash. */
struct pl_chunk_reader pl_remote_reader(struct pl_remote *r);
/* Requests the locations of records in batches, so that later reads need no request each. An unknown id is
 * not an error here. */
PL_MUST_CHECK
int pl_remote_locate(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_err *err);
/* Like pl_remote_locate, for records that will be read soon, in this order. Also prefetches their bytes,
 * unless pack files are read directly. */
PL_MUST_CHECK
int pl_remote_will_read(struct pl_remote *r, const struct pl_hash *ids, size_t n, struct pl_err *err);

/* Passes the entries of all files below `path` ("" = all files) in the tree `root` to `write`, as an ops
 * stream (application/x-pl-ops). `files`: NULL-terminated globs relative to `path`; NULL = all files. If
 * `path` is itself a file, its entry is named by the last segment of the path. */
PL_MUST_CHECK
int pl_remote_entries(struct pl_remote *r, const struct pl_hash *root, const char *path, const char *const *files,
                      int (*write)(void *self, const void *data, size_t n, struct pl_err *err), void *self, struct pl_err *err);
/* Reads the entries of files below `path` into `ret`, as an ops stream. `names` lists the files, one on each
 * line, at most 65,536. PL_ENOTFOUND: one of them is not a file; PL_EPATH, PL_ELIMIT. */
PL_MUST_CHECK
int pl_remote_named_entries(struct pl_remote *r, const struct pl_hash *root, const char *path, const struct pl_buf *names,
                            struct pl_buf *ret, struct pl_err *err);
