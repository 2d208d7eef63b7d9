/* storage/object: drivers of object storage behind one interface. An object is made once under its key, whole or not at all, and
 * read by ranges. Uses storage/base; knows nothing of what the objects hold (but for the store's marker, marker.h).
 *
 * Keys: 1..PL_OBJECT_KEY_MAX bytes of [A-Za-z0-9._-] and '/', segments not empty, not starting with '.', the first one not "tmp".
 * All functions may be called from any thread. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/err.h"

#include <limits.h>
#include <sys/uio.h>

#define PL_OBJECT_KEY_MAX 512
#define PL_OBJECT_TO_END  UINT64_MAX /* as `len` of pl_object_get */

struct pl_object_store;

/* Gets each key with its size in bytes. 0 goes on, a negative code ends the listing with that error, a positive value ends it
 * well. */
typedef int (*pl_object_visit_fn)(void *arg, const char *key, uint64_t size, struct pl_err *err);

/* What a driver gives; the functions below say what each does. */
struct pl_object_ops {
    int (*put)(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive, struct pl_err *err);
    int (*adopt)(struct pl_object_store *s, const char *key, const char *temp_path, struct pl_err *err);
    int (*flush)(struct pl_object_store *s, struct pl_err *err);
    int (*get)(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret, struct pl_err *err);
    int (*size)(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err);
    int (*open_fd)(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
    int (*list)(struct pl_object_store *s, const char *prefix, pl_object_visit_fn visit, void *arg, struct pl_err *err);
    int (*remove)(struct pl_object_store *s, const char *key, struct pl_err *err);
    int (*tmp_path)(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err);
    void (*destroy)(struct pl_object_store *s);
};

/* The head of every driver's own struct. */
struct pl_object_store {
    const struct pl_object_ops *ops;
};

/* The folder `dir` as object store; made (with `dir`/tmp) when it is not there. Temp files that a crash left more than a day ago
 * are removed. PL_EIO. */
PL_MUST_CHECK
int pl_object_file_open(const char *dir, struct pl_object_store **ret, struct pl_err *err);

/* Closes any driver's store; takes NULL; returns NULL. */
struct pl_object_store *pl_object_close(struct pl_object_store *s);
static inline void pl_object_closep(struct pl_object_store **s)
{
    *s = pl_object_close(*s);
}

/* PL_EINVAL unless `key` is one (see the top). */
PL_MUST_CHECK
int pl_object_key_check(const char *key, struct pl_err *err);

/* Makes the object of the joined bytes of `iov`. On failure nothing is left behind. `exclusive`: PL_EEXISTS when the key is there
 * (and is left as it is; its name is durable after pl_object_flush, whoever put it); else it is replaced. PL_ENOSPC, PL_EIO. The bytes are on the disk when it returns, the name after
 * pl_object_flush. */
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
/* All of it. */
static inline int pl_object_get_all(struct pl_object_store *s, const char *key, struct pl_buf *ret, struct pl_err *err)
{
    return pl_object_get(s, key, 0, PL_OBJECT_TO_END, ret, err);
}
/* Bytes of the object. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_object_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err);
/* A descriptor for reading it (pread, sendfile), the caller's to close. PL_EUNAVAILABLE when the driver has no files;
 * PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_object_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err);
/* Visits every key that starts with `prefix` ("" = all), in the byte order of keys. Holds no lock while visiting; an object made
 * or removed meanwhile is or is not seen. */
PL_MUST_CHECK
int pl_object_list(struct pl_object_store *s, const char *prefix, pl_object_visit_fn visit, void *arg, struct pl_err *err);
/* Absent is fine. */
PL_MUST_CHECK
int pl_object_remove(struct pl_object_store *s, const char *key, struct pl_err *err);
/* A fresh file name on the filesystem of the store, for pl_object_adopt; the caller creates the file. PL_EUNAVAILABLE. */
PL_MUST_CHECK
int pl_object_tmp_path(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err);
