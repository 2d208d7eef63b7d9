/* storage/object: One interface over a folder, a bucket and the libs3 module: put once, get ranges, list, delete.
 *
 * In:      A store URL, keys, bytes.
 * Out:     Objects; presigned URLs where the server allows them.
 * Uses:    storage/{base, http, s3, system}
 * Threads: Any thread; calls block.
 *
 * Headers for other rooms:
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
 *   object_s3_sign  S3 driver: presigned URLs and what the server honours of them
 *   stream_compare  compares a byte stream with an expected iovec */

/* storage/object: drivers of object storage behind one interface. An object is made once under its key, whole or not at all, and
 * read by ranges. Uses storage/base; knows nothing of what the objects hold (but for the store's marker, marker.h).
 *
 * Keys: pl_path_object_key_check.
 * All functions may be called from any thread. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/err.h"
#include "storage/base/path.h"

#include <limits.h>
#include <sys/uio.h>

#define PL_OBJECT_TO_END UINT64_MAX /* as `len` of pl_object_get */

struct pl_object_store;

/* Gets each key with its size in bytes. 0 goes on, a negative code ends the listing with that error, a positive value ends it
 * well. */
typedef int (*pl_object_visit_fn)(void *arg, const char *key, uint64_t size, struct pl_err *err);

/* What a store can do; of pl_object_caps. */
enum {
    PL_OBJECT_FILES = 1,         /* pl_object_open_fd and pl_object_tmp_path on its own filesystem: adopting copies nothing */
    PL_OBJECT_PUT_IF_ABSENT = 2, /* an exclusive put never replaces, whoever else puts; else only this process keeps to it */
    PL_OBJECT_SIGNED_GET = 4,    /* presigned GETs, bound to their range */
    PL_OBJECT_SIGNED_PUT = 8,    /* presigned PUTs, bound to length and SHA-256 */
    PL_OBJECT_SIGNED_PUT_ABSENT = 16, /* which never replace */
};

/* A request that others may make without credentials, for a while: with exactly these headers, and no others that begin with x-amz-. */
#define PL_OBJECT_SIGNED_HEADERS 4
struct pl_object_signed {
    char *url;                                   /* pl_object_signed_finish */
    char headers[PL_OBJECT_SIGNED_HEADERS][128]; /* "Name: value"; Host and Content-Length follow from URL and body */
    size_t n_headers;
    uint32_t expires_s; /* from now; may be less than asked for */
};

/* What a driver gives; the functions below say what each does. NULL where noted: then there is another way, or PL_EUNAVAILABLE. */
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
    int (*sign_get)(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, uint32_t expires_s,
                    struct pl_object_signed *ret, struct pl_err *err);
    int (*sign_put)(struct pl_object_store *s, const char *key, uint64_t size, const char *sha256, uint32_t expires_s,
                    struct pl_object_signed *ret, struct pl_err *err);
};

/* The head of every driver's own struct. */
struct pl_object_store {
    const struct pl_object_ops *ops;
    unsigned caps; /* PL_OBJECT_…; set when it is opened */
    char *ca;      /* pl_object_ca; the driver's to free */
};

/* The folder `dir` as object store; made (with `dir`/tmp) when it is not there. Temp files that a crash left more than a day ago
 * are removed. PL_EIO. */
PL_MUST_CHECK
int pl_object_file_open(const char *dir, struct pl_object_store **ret, struct pl_err *err);

/* How a store is found and reached. Texts may be NULL or "". Of the parts for s3, the first that is there counts: configuration, the
 * environment of Amazon's tools, the shared profile. */
struct pl_object_config {
    const char *url;      /* file:///FOLDER or s3://BUCKET/PREFIX */
    const char *driver;   /* of s3://: "" or "s3"; "libs3" (object_libs3.h) */
    const char *endpoint; /* http(s)://HOST[:PORT]; else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's of the region */
    const char *region;   /* else AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1 */
    const char *style;    /* path | virtual; else path where an endpoint is given */
    const char *worker_endpoint; /* of presigned URLs, when those who use them see the store elsewhere */
    const char *ca;              /* file of certificates to trust instead of the system's; else AWS_CA_BUNDLE */
    const char *profile, *access_key, *secret_key, *session_token;
    const char *tmp_dir;   /* for pl_object_tmp_path; else TMPDIR */
    const char *cache_dir; /* for pl_object_local_fd; else there is none */
    uint64_t cache_bytes;  /* its bound; 0 = PL_OBJECT_CACHE_BYTES */
    unsigned connections;  /* 0 = the driver's */
    bool exclusive;        /* the operator says that no other daemon uses the store: PL_OBJECT_PUT_IF_ABSENT is not asked for */
    bool probe; /* find out what the server honours (a few small objects under tmp/ come and go); else nothing beyond S3's
                            * plain calls and put-if-absent is assumed */
    int64_t pause_ms, stall_ms, deadline_ms; /* of repetitions, of silence, of a call; 0 = the driver's */
};
#define PL_OBJECT_CACHE_BYTES ((uint64_t)4 << 30)

/* Opens the store of a URL; a folder is made when it is not there, a bucket must be. PL_EINVAL naming the field; PL_EUNAVAILABLE when the
 * server has no put-if-absent and `exclusive` is not set, or without libcurl; PL_EAUTH, PL_EFORBIDDEN, PL_ENET; errors of the driver. */
PL_MUST_CHECK
int pl_object_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err);

/* Closes any driver's store; takes NULL; returns NULL. */
struct pl_object_store *pl_object_close(struct pl_object_store *s);
static inline void pl_object_closep(struct pl_object_store **s)
{
    *s = pl_object_close(*s);
}

/* PL_OBJECT_… that hold. */
unsigned pl_object_caps(const struct pl_object_store *s);
/* The file of certificates by which the server is known, where those of the system are not meant; NULL. Lives as long as the store. */
const char *pl_object_ca(const struct pl_object_store *s);

/* Has calls look at their flags. Any thread. */
void pl_object_wake(struct pl_object_store *s);

/* Makes the object of the joined bytes of `iov`. On failure nothing is left behind, but for PL_ENET and PL_ETIMEOUT: then nobody knows
 * yet, and the same put again finds out. `exclusive`: PL_EEXISTS when the key is there (and is left as it is; its name is durable after
 * pl_object_flush, whoever put it), or 0 when it is there with these very bytes; else it is replaced. PL_ENOSPC, PL_EIO; PL_EFORBIDDEN,
 * PL_EBUSY. The bytes are on the disk when it returns, the name after pl_object_flush. */
PL_MUST_CHECK
int pl_object_put(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive, struct pl_err *err);
/* As an exclusive put of the file at `temp_path`, a path from pl_object_tmp_path that the caller has written; the file is synced
 * here and renamed. On failure it is removed, but for PL_EEXISTS where it is removed too: the caller never has to clean up. */
PL_MUST_CHECK
int pl_object_adopt(struct pl_object_store *s, const char *key, const char *temp_path, struct pl_err *err);
/* Every put, adopt and remove that returned before this call survives a power failure when this returns. Cheap when nothing
 * changed. */
PL_MUST_CHECK
int pl_object_flush(struct pl_object_store *s, struct pl_err *err);
/* `len` bytes from `offset` into `ret` (replacing what it held); PL_OBJECT_TO_END: all from there. PL_ENOTFOUND; PL_ECORRUPT when
 * the object ends before; PL_ETOOBIG past ret->max. */
PL_MUST_CHECK
int pl_object_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                  struct pl_err *err);
/* The same, but fewer bytes where the object ends before; PL_ECORRUPT when it ends before `offset`. `len` ≥ 1. */
PL_MUST_CHECK
int pl_object_get_some(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                       struct pl_err *err);
/* All of it. */
static inline int pl_object_get_all(struct pl_object_store *s, const char *key, struct pl_buf *ret, struct pl_err *err)
{
    return pl_object_get(s, key, 0, PL_OBJECT_TO_END, ret, err);
}
/* Bytes of the object. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_object_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err);
/* The last `n` bytes, or all when it has fewer, and its size. PL_ENOTFOUND, PL_ETOOBIG past ret->max. */
PL_MUST_CHECK
int pl_object_tail(struct pl_object_store *s, const char *key, size_t n, struct pl_buf *ret, uint64_t *ret_size,
                   struct pl_err *err);
/* A descriptor for reading it (pread, sendfile), the caller's to close. PL_EUNAVAILABLE when the driver has no files;
 * PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_object_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
/* The same, also where the store has no files: then of a copy that is fetched as a whole and kept in a bounded cache (cache_dir). What is
 * read there has to be verified, as anywhere; what does not verify is worth a pl_object_forget_local and another try. PL_EUNAVAILABLE
 * without a cache. */
PL_MUST_CHECK
int pl_object_local_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
void pl_object_forget_local(struct pl_object_store *s, const char *key);
/* Whether pl_object_local_fd would fetch nothing. */
bool pl_object_has_local(struct pl_object_store *s, const char *key);
/* What was just put and will be read soon: its copy need not be fetched. Nothing where there is no cache, or the disk is full. */
void pl_object_keep_local(struct pl_object_store *s, const char *key, const void *bytes, size_t n);
/* Visits every key that starts with `prefix` ("" = all), in the byte order of keys. Holds no lock while visiting; an object made
 * or removed meanwhile is or is not seen. */
PL_MUST_CHECK
int pl_object_list(struct pl_object_store *s, const char *prefix, pl_object_visit_fn visit, void *arg, struct pl_err *err);
/* Those of them alone that come after the key `after`. */
PL_MUST_CHECK
int pl_object_list_after(struct pl_object_store *s, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                         struct pl_err *err);
/* Absent is fine. */
PL_MUST_CHECK
int pl_object_remove(struct pl_object_store *s, const char *key, struct pl_err *err);
/* A fresh file name on the filesystem of the store, for pl_object_adopt; the caller creates the file. PL_EUNAVAILABLE. */
PL_MUST_CHECK
int pl_object_tmp_path(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err);
/* Absent ones are fine; on failure some may be gone. */
PL_MUST_CHECK
int pl_object_remove_many(struct pl_object_store *s, const char *const *keys, size_t n, struct pl_err *err);

/* A request for `len` bytes from `offset`, bound to that range. PL_EUNAVAILABLE without PL_OBJECT_SIGNED_GET. */
PL_MUST_CHECK
int pl_object_sign_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, uint32_t expires_s,
                       struct pl_object_signed *ret, struct pl_err *err);
/* A PUT of `size` bytes that hash to `sha256` (64 hex digits), bound to both, and, with PL_OBJECT_SIGNED_PUT_ABSENT, to an absent key.
 * PL_EUNAVAILABLE without PL_OBJECT_SIGNED_PUT. */
PL_MUST_CHECK
int pl_object_sign_put(struct pl_object_store *s, const char *key, uint64_t size, const char *sha256, uint32_t expires_s,
                       struct pl_object_signed *ret, struct pl_err *err);
void pl_object_signed_finish(struct pl_object_signed *q);
