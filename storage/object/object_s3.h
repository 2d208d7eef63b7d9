/* object_s3: the driver of S3 buckets, over s3_client: object_s3 (open, put, remove), object_s3_read, object_s3_list, object_s3_sign
 * (presigned requests, and what the server honours of them).
 *
 * Objects are made by one PUT each, keys are never reused, and an ETag is never taken for a hash. Memory: what callers bring,
 * PL_S3_MEMORY_BYTES, and, in local_fd, PL_OBJECT_CACHE_LOADS objects at a time (each and PL_S3_RANGE_BYTES while it grows). */
#pragma once

#include "storage/object/object.h"
#include "storage/object/object_cache.h"
#include "storage/s3/s3_client.h"

#define PL_S3_RANGE_BYTES  ((uint64_t)8 << 20) /* what is larger is read in pieces of this size, */
#define PL_S3_RANGES       4u                  /* so many at a time */
#define PL_S3_DELETE_KEYS  1000u               /* in one request: the most that S3 takes */
#define PL_S3_OBJECT_MAX   ((size_t)256 << 20) /* that local_fd takes in */
#define PL_S3_EMPTY_PAGES  100u                /* of a list in a row: then it has no end */
#define PL_S3_PROBE_PREFIX "tmp/"
/* With so many connections busy: their buffers, and what is said on them. */
#define PL_S3_MEMORY_BYTES(connections)                                                                                          \
    ((size_t)(connections) * (2 * (size_t)PL_HTTP_IO_BUFFER_BYTES + ((size_t)128 << 10)) + ((size_t)1 << 20))

/* pl_object_open of an s3:// URL. */
PL_MUST_CHECK
int pl_object_s3_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err);

/* From here on for the driver's own files. */
struct pl_object_s3 {
    struct pl_object_store store;
    struct pl_s3_client *client;
    struct pl_object_cache *cache; /* NULL = none */
    struct pl_s3_place place;
    struct pl_s3_place workers; /* where presigned URLs lead, when `elsewhere` */
    bool elsewhere;
    char *tmp_dir;
    atomic_bool no_batch; /* the server has no DeleteObjects */
};
static inline struct pl_object_s3 *pl_object_s3_of(struct pl_object_store *s)
{
    return PL_CONTAINER_OF(s, struct pl_object_s3, store);
}

PL_MUST_CHECK
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
/* 1 when the object is these very bytes, 0 when it is not; PL_ENOTFOUND. */
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
/* Sets s->store.caps by trying. PL_EFORBIDDEN and the like when not even a plain put works. */
PL_MUST_CHECK
int pl_object_s3_probe(struct pl_object_s3 *s, struct pl_err *err);
/* One PUT as it stands: `condition`: If-None-Match: *. PL_EEXISTS when that failed. `ret_status` (may be NULL): of the last answer, 0 = there
 * was none. */
PL_MUST_CHECK
int pl_object_s3_put_once(struct pl_object_s3 *s, const char *key, const struct iovec *iov, int n, bool condition,
                          unsigned *ret_status, struct pl_err *err);
