/* object_s3: the driver of S3 buckets, on top of s3_client. Its files: object_s3 (open, put, remove),
 * object_s3_read, object_s3_list, object_s3_sign (presigned requests, and a test of which of them the server
 * supports).
 *
 * Each object is created by a single PUT, keys are never reused, and an ETag is never used as a hash. Memory:
 * that of the callers, PL_S3_MEMORY_BYTES and, in local_fd, PL_OBJECT_CACHE_LOADS objects at a time (each
 * plus PL_S3_RANGE_BYTES while its buffer grows). */
#pragma once

#include "storage/object/object.h"
#include "storage/object/object_cache.h"
#include "storage/s3/s3_client.h"

#define PL_S3_RANGE_BYTES ((uint64_t)8 << 20) /* a larger range is read in pieces of this size */
#define PL_S3_RANGES      4u                  /* number of pieces of one range that are read in parallel */
#define PL_S3_DELETE_KEYS 1000u               /* maximum number of keys per delete request, set by S3 */
#define PL_S3_OBJECT_MAX  ((size_t)256 << 20) /* maximum size of an object for local_fd, in bytes */
/* consecutive empty pages after which a listing is considered endless */
#define PL_S3_EMPTY_PAGES  100u
#define PL_S3_PROBE_PREFIX "tmp/"
/* Memory, in bytes, of `connections` busy connections: their own buffers and those of TLS and of the
 * requests. */
#define PL_S3_MEMORY_BYTES(connections)                                                                                          \
    ((size_t)(connections) * (2 * (size_t)PL_HTTP_IO_BUFFER_BYTES + ((size_t)128 << 10)) + ((size_t)1 << 20))

/* Implements pl_object_open for an s3:// URL. */
PL_MUST_CHECK
int pl_object_s3_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err);

/* The declarations below are for the driver's own files. */
struct pl_object_s3 {
    struct pl_object_store store;
    struct pl_s3_client *client;
    struct pl_object_cache *cache; /* NULL = none */
    struct pl_s3_place place;
    /* location of the bucket as workers reach it, for presigned URLs; used if `elsewhere` is set */
    struct pl_s3_place workers;
    bool elsewhere;
    char *tmp_dir;
    atomic_bool no_batch; /* the server does not support DeleteObjects */
};
static inline struct pl_object_s3 *pl_object_s3_of(struct pl_object_store *s)
{
    return PL_CONTAINER_OF(s, struct pl_object_s3, store);
}

PL_MUST_CHECK
/* The functions below that take a pl_object_store are functions of pl_object_ops; object.h has their
 * contracts. */
int pl_object_s3_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                     struct pl_err *err);
PL_MUST_CHECK
int pl_object_s3_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err);
PL_MUST_CHECK
int pl_object_s3_get_some(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                          struct pl_err *err);
PL_MUST_CHECK
int pl_object_s3_tail(struct pl_object_store *s, const char *key, size_t n, struct pl_buf *ret, uint64_t *ret_size,
                      struct pl_err *err);
PL_MUST_CHECK
int pl_object_s3_local_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
/* Returns 1 if the object has exactly these bytes, 0 if it has others; PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_object_s3_compare(struct pl_object_s3 *s, const char *key, const struct iovec *iov, int n, struct pl_err *err);
PL_MUST_CHECK
int pl_object_s3_list(struct pl_object_store *s, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                      struct pl_err *err);
PL_MUST_CHECK
int pl_object_s3_sign_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, uint32_t expires_s,
                          struct pl_object_signed *ret, struct pl_err *err);
PL_MUST_CHECK
int pl_object_s3_sign_put(struct pl_object_store *s, const char *key, uint64_t size, const char *sha256, uint32_t expires_s,
                          struct pl_object_signed *ret, struct pl_err *err);
/* Sets s->store.caps after testing the server. Returns PL_EFORBIDDEN or another error if not even a plain put
 * works. */
PL_MUST_CHECK
int pl_object_s3_probe(struct pl_object_s3 *s, struct pl_err *err);
/* Sends one PUT; with `condition`, If-None-Match: *. PL_EEXISTS if the condition failed. `ret_status` (may be
 * NULL) receives the status of the last response; 0 = there was none. */
PL_MUST_CHECK
int pl_object_s3_put_once(struct pl_object_s3 *s, const char *key, const struct iovec *iov, int n, bool condition,
                          unsigned *ret_status, struct pl_err *err);
