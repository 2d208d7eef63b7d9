/* storage/object: One interface over a folder, a bucket and the libs3 module: put, get ranges, list, delete.
 *
 * In:      A store URL, keys, bytes.
 * Out:     Objects; presigned URLs where the server allows them.
 * Uses:    storage/{base, http, s3, system}
 * Threads: Any thread; calls block.
 *
 * Headers for other rooms:
 *   object_offer    file that another process of the daemon's user wrote for it
 *   store_marker    the object `format` at the root of a store: format and store id
 *
 * Inside:
 *   libs3_module    interface of the libs3 module
 *   object_cache    bounded cache of whole objects in a local folder
 *   object_file     file driver: an object is a file of a folder
 *   object_libs3    driver for servers that require Signature V2, through the libs3 module
 *   object_s3       S3 driver: open, put, delete
 *   object_s3_list  S3 driver: listing
 *   object_s3_read  S3 driver: range reads with parallel requests
 *   object_s3_sign  S3 driver: presigned URLs, and a test of which of them the server supports
 *   stream_compare  compares a byte stream with an expected iovec
 *
 * An object is created once under its key, completely or not at all, and read by ranges. This room does not
 * interpret the content of objects, except that of the store's marker. Valid keys:
 * pl_path_object_key_check. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/err.h"
#include "storage/base/path.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/uio.h>

#define PL_OBJECT_TO_END UINT64_MAX /* `len` of pl_object_get: up to the end of the object */

struct pl_object_store;

/* Receives each key with its size in bytes. 0 continues the listing, a negative code ends it with that error,
 * and a positive value ends it successfully. */
typedef int (*pl_object_visit_fn)(void *arg, const char *key, uint64_t size, struct pl_err *err);

/* Capabilities of a store, returned by pl_object_caps. */
enum {
    /* pl_object_open_fd works, and pl_object_tmp_path is on the store's filesystem, so that pl_object_adopt
     * copies nothing */
    PL_OBJECT_FILES = 1,
    /* an exclusive put never replaces an object. Without this capability, another process that puts the same
     * key at the same time may replace it */
    PL_OBJECT_PUT_IF_ABSENT = 2,
    PL_OBJECT_SIGNED_GET = 4,         /* presigned GETs, each bound to its range */
    PL_OBJECT_SIGNED_PUT = 8,         /* presigned PUTs, each bound to its length and SHA-256 */
    PL_OBJECT_SIGNED_PUT_ABSENT = 16, /* presigned PUTs never replace an object */
};

/* A request that another program may send without credentials for a limited time. It must send exactly these
 * headers, and no others that begin with x-amz-. */
#define PL_OBJECT_SIGNED_HEADERS 4
struct pl_object_signed {
    char *url; /* freed by pl_object_signed_finish */
    /* header lines "Name: value", without Host and Content-Length, which follow from URL and body */
    char headers[PL_OBJECT_SIGNED_HEADERS][128];
    size_t n_headers;
    uint32_t expires_s; /* lifetime from now; may be shorter than requested */
};

/* Kinds of calls, and how they ended. PUT includes adopt; GET all that reads bytes; REMOVE counts the removal of
 * several objects as one call. REFUSED: PL_EFORBIDDEN, PL_EAUTH or PL_EBUSY. */
enum pl_object_call { PL_OBJECT_PUT, PL_OBJECT_GET, PL_OBJECT_SIZE, PL_OBJECT_LIST, PL_OBJECT_REMOVE, PL_OBJECT_CALLS };
enum pl_object_result { PL_OBJECT_OK, PL_OBJECT_ABSENT, PL_OBJECT_REFUSED, PL_OBJECT_FAILED, PL_OBJECT_RESULTS };

/* HTTP requests of a bucket's driver since the store was opened. */
struct pl_object_requests {
    uint64_t sent, retries; /* sent: with the retries */
    /* replies that refuse a request: 401 or 403; 429 or 503; other statuses from 500 on */
    uint64_t forbidden, busy, errors;
};

/* The functions of a driver. The comments of the public functions with the same names, below, describe what
 * each must do. A driver may leave the functions after `destroy` NULL: object.c then combines other
 * functions, or fails with PL_EUNAVAILABLE. */
struct pl_object_ops {
    int (*put)(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive, struct pl_err *err);
    int (*adopt)(struct pl_object_store *s, const char *key, const char *temp_path, struct pl_err *err);
    int (*flush)(struct pl_object_store *s, struct pl_err *err);
    int (*get)(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret, struct pl_err *err);
    int (*size)(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err);
    int (*open_fd)(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
    int (*list)(struct pl_object_store *s, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                struct pl_err *err);
    int (*remove)(struct pl_object_store *s, const char *key, struct pl_err *err);
    int (*tmp_path)(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err);
    void (*destroy)(struct pl_object_store *s);
    /* may be NULL */
    void (*wake)(struct pl_object_store *s);
    int (*remove_many)(struct pl_object_store *s, const char *const *keys, size_t n, struct pl_err *err);
    int (*get_some)(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                    struct pl_err *err);
    int (*tail)(struct pl_object_store *s, const char *key, size_t n, struct pl_buf *ret, uint64_t *ret_size, struct pl_err *err);
    int (*local_fd)(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
    void (*forget_local)(struct pl_object_store *s, const char *key);
    bool (*has_local)(struct pl_object_store *s, const char *key);
    void (*keep_local)(struct pl_object_store *s, const char *key, const void *bytes, size_t n);
    void (*requests)(struct pl_object_store *s, struct pl_object_requests *ret);
    int (*sign_get)(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, uint32_t expires_s,
                    struct pl_object_signed *ret, struct pl_err *err);
    int (*sign_put)(struct pl_object_store *s, const char *key, uint64_t size, const char *sha256, uint32_t expires_s,
                    struct pl_object_signed *ret, struct pl_err *err);
};

/* First member of the struct of each driver. */
struct pl_object_store {
    const struct pl_object_ops *ops;
    unsigned caps; /* set of PL_OBJECT_…; constant once the store is open */
    char *ca;      /* result of pl_object_ca; freed by the driver */
    /* calls since the store was opened */
    _Atomic uint64_t calls[PL_OBJECT_CALLS][PL_OBJECT_RESULTS];
};

/* Opens the folder `dir` as an object store; makes it, and `dir`/tmp, if it does not exist. Removes temporary
 * files that a crash left more than a day ago. PL_EIO, PL_EINVAL (name too long), PL_ENOMEM. */
PL_MUST_CHECK
int pl_object_file_open(const char *dir, struct pl_object_store **ret, struct pl_err *err);

/* How to find and reach a store. Strings may be NULL or "". An S3 setting that is not given here is taken
 * from the environment variables of Amazon's tools or, if they do not set it, from the shared profile. */
struct pl_object_config {
    const char *url;    /* file:///FOLDER or s3://BUCKET/PREFIX */
    const char *driver; /* driver of an s3:// URL: "" or "s3", or "libs3" (object_libs3.h) */
    /* http(s)://HOST[:PORT]; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, Amazon's endpoint in the
     * region */
    const char *endpoint;
    const char *region; /* default: AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1 */
    const char *style;  /* "path" or "virtual"; default: path if an endpoint is given */
    /* endpoint in presigned URLs, if workers reach the store at another address */
    const char *worker_endpoint;
    /* file with the CA certificates to trust instead of the system's; default: AWS_CA_BUNDLE */
    const char *ca;
    const char *profile, *access_key, *secret_key, *session_token;
    const char *tmp_dir;   /* folder of pl_object_tmp_path; default: TMPDIR */
    const char *cache_dir; /* folder of the cache of pl_object_local_fd; default: no cache */
    uint64_t cache_bytes;  /* maximum size of the cache; 0 = PL_OBJECT_CACHE_BYTES */
    unsigned connections;  /* maximum number of simultaneous connections; 0 = the driver's default */
    /* the operator guarantees that no other daemon uses the store, so that PL_OBJECT_PUT_IF_ABSENT is not
     * required */
    bool exclusive;
    /* Test what the server supports, with a few small objects under tmp/ that are removed again. Without the
     * test, only S3's plain calls and put-if-absent are assumed. */
    bool probe;
    /* in milliseconds: bound of the first pause between attempts, longest time without data, time limit of a
     * call; 0 = the driver's default */
    int64_t pause_ms, stall_ms, deadline_ms;
};
#define PL_OBJECT_CACHE_BYTES ((uint64_t)4 << 30)

/* Opens the store of a URL. A folder is made if it does not exist; a bucket must exist. PL_EINVAL, with the
 * field; PL_EUNAVAILABLE if the server has no put-if-absent and `exclusive` is not set, or without libcurl;
 * PL_EAUTH, PL_EFORBIDDEN, PL_ENET; other errors of the driver. */
PL_MUST_CHECK
int pl_object_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err);

/* Closes the store. NULL is allowed. Returns NULL. */
struct pl_object_store *pl_object_close(struct pl_object_store *s);
static inline void pl_object_closep(struct pl_object_store **s)
{
    *s = pl_object_close(*s);
}

/* Returns the capabilities of the store, a set of PL_OBJECT_…. */
unsigned pl_object_caps(const struct pl_object_store *s);
/* Returns the file with the CA certificates that verify the server; NULL = the system's certificates. Owned
 * by the store. */
const char *pl_object_ca(const struct pl_object_store *s);

/* Returns how many calls of a kind ended this way since the store was opened. Any thread. */
uint64_t pl_object_call_count(const struct pl_object_store *s, enum pl_object_call call, enum pl_object_result result);
/* Returns false if the driver sends no HTTP requests, or does not count them. */
bool pl_object_request_count(struct pl_object_store *s, struct pl_object_requests *ret);

/* Makes blocked calls check their cancel flags (cancel.h). Any thread. */
void pl_object_wake(struct pl_object_store *s);

/* The field of each error with which a call to a store failed (struct pl_err). The message of such an error may name
 * the store's server, bucket and keys, and what that server said of the daemon's own key. */
#define PL_OBJECT_ERR_FIELD "store"

/* Creates an object from the bytes of `iov`, one after the other. When it returns, the bytes are on the disk;
 * the object's name is durable only after pl_object_flush. If it fails, no object was created, except with
 * PL_ENET and PL_ETIMEOUT: then the outcome is unknown, and the caller can find out by repeating the same
 * put. `exclusive`: if the key exists, the object stays unchanged, and the result is 0 if it has exactly
 * these bytes, otherwise PL_EEXISTS. The existing name, too, is durable after pl_object_flush, even if
 * another program created it. Without `exclusive` an existing object is replaced. PL_ENOSPC, PL_EIO,
 * PL_EFORBIDDEN, PL_EBUSY. */
PL_MUST_CHECK
int pl_object_put(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive, struct pl_err *err);
/* Puts a file as an object, exclusively as in pl_object_put. `temp_path` is a path from pl_object_tmp_path,
 * to which the caller has written the bytes. Syncs the file and renames or uploads it. Afterwards, even after
 * a failure, no file exists at `temp_path`. */
PL_MUST_CHECK
int pl_object_adopt(struct pl_object_store *s, const char *key, const char *temp_path, struct pl_err *err);
/* Makes every put, adopt and remove that returned before this call durable: they survive a power failure once
 * it returns. Fast if nothing has changed since the last flush. */
PL_MUST_CHECK
int pl_object_flush(struct pl_object_store *s, struct pl_err *err);
/* Replaces the content of `ret` by `len` bytes from `offset`; PL_OBJECT_TO_END: all bytes from there.
 * PL_ENOTFOUND; PL_ECORRUPT if the object ends before the end of the range; PL_ETOOBIG if the bytes exceed
 * ret->max. */
PL_MUST_CHECK
int pl_object_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                  struct pl_err *err);
/* Like pl_object_get, but returns fewer bytes if the object ends within the range; PL_ECORRUPT if it ends
 * before `offset`. `len` is at least 1. */
PL_MUST_CHECK
int pl_object_get_some(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                       struct pl_err *err);
/* Reads the whole object. */
static inline int pl_object_get_all(struct pl_object_store *s, const char *key, struct pl_buf *ret, struct pl_err *err)
{
    return pl_object_get(s, key, 0, PL_OBJECT_TO_END, ret, err);
}
/* Returns the size of the object in bytes. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_object_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err);
/* Reads the last `n` bytes, or all if the object is smaller, and returns its size. PL_ENOTFOUND, PL_ETOOBIG
 * beyond ret->max. */
PL_MUST_CHECK
int pl_object_tail(struct pl_object_store *s, const char *key, size_t n, struct pl_buf *ret, uint64_t *ret_size,
                   struct pl_err *err);
/* Opens the object for reading (pread, sendfile); the caller closes the descriptor. PL_EUNAVAILABLE if the
 * driver has no files; PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_object_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
/* Like pl_object_open_fd, but works for buckets too: the whole object is downloaded to a bounded cache
 * (cache_dir), and the copy is opened. The reader must verify what it reads; if verification fails, it calls
 * pl_object_forget_local and tries once more. PL_EUNAVAILABLE without a cache. */
PL_MUST_CHECK
int pl_object_local_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
/* Removes the object's copy from the cache. */
void pl_object_forget_local(struct pl_object_store *s, const char *key);
/* Returns true if the cache has a copy of the object, so that pl_object_local_fd need not download it. */
bool pl_object_has_local(struct pl_object_store *s, const char *key);
/* Adds the bytes of an object that was just put to the cache, for objects that will be read again soon. Does
 * nothing without a cache or if the disk is full. */
void pl_object_keep_local(struct pl_object_store *s, const char *key, const void *bytes, size_t n);
/* Calls `visit` for every key that starts with `prefix` ("" = all), in byte order. No lock is held during the
 * calls. Objects that are created or removed during the listing may or may not be visited. */
PL_MUST_CHECK
int pl_object_list(struct pl_object_store *s, const char *prefix, pl_object_visit_fn visit, void *arg, struct pl_err *err);
/* Like pl_object_list, but visits only the keys that come after the key `after` in byte order. */
PL_MUST_CHECK
int pl_object_list_after(struct pl_object_store *s, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                         struct pl_err *err);
/* Removes an object. Returns 0 if it does not exist. */
PL_MUST_CHECK
int pl_object_remove(struct pl_object_store *s, const char *key, struct pl_err *err);
/* Writes a new file name on the store's filesystem for pl_object_adopt to `out`; the caller creates the file.
 * PL_EINVAL (name too long). */
PL_MUST_CHECK
int pl_object_tmp_path(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err);
/* Removes objects; keys that do not exist are ignored. After a failure some may have been removed. */
PL_MUST_CHECK
int pl_object_remove_many(struct pl_object_store *s, const char *const *keys, size_t n, struct pl_err *err);

/* Presigns a GET of `len` bytes from `offset`, bound to that range. PL_EUNAVAILABLE without
 * PL_OBJECT_SIGNED_GET. */
PL_MUST_CHECK
int pl_object_sign_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, uint32_t expires_s,
                       struct pl_object_signed *ret, struct pl_err *err);
/* Presigns a PUT of exactly `size` bytes with the hash `sha256` (64 hex digits). If the store has
 * PL_OBJECT_SIGNED_PUT_ABSENT, the PUT fails if the key exists. PL_EUNAVAILABLE without
 * PL_OBJECT_SIGNED_PUT. */
PL_MUST_CHECK
int pl_object_sign_put(struct pl_object_store *s, const char *key, uint64_t size, const char *sha256, uint32_t expires_s,
                       struct pl_object_signed *ret, struct pl_err *err);
void pl_object_signed_finish(struct pl_object_signed *q);
