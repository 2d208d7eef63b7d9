/* object: checks keys and passes each call to the driver; if a driver lacks an optional function, emulates it
 * with the driver's other functions. In debug builds each request is reported to lock_order. */
#include "storage/object/object.h"

#include "storage/object/object_libs3.h"
#include "storage/object/object_s3.h"
#include "storage/system/lock_order.h"
#include "storage/system/trace.h"

/* Called at the start of every request to a store: writes a trace event if tracing is on; debug builds also
 * check that the thread holds no lock. */
static void begin_request(const char *what, const char *key)
{
    pl_lock_order_request(key);
    pl_trace("storage/object", "%s %s", what, key);
}

/* Counts a call by its result, marks its error, and returns the result. */
static int counted(struct pl_object_store *s, enum pl_object_call call, int r, struct pl_err *err)
{
    const enum pl_object_result result = r >= 0                                                 ? PL_OBJECT_OK
                                         : r == PL_ENOTFOUND                                    ? PL_OBJECT_ABSENT
                                         : r == PL_EFORBIDDEN || r == PL_EAUTH || r == PL_EBUSY ? PL_OBJECT_REFUSED
                                                                                                : PL_OBJECT_FAILED;

    atomic_fetch_add_explicit(&s->calls[call][result], 1, memory_order_relaxed);
    return r < 0 ? pl_err_field(err, r, PL_OBJECT_ERR_FIELD) : r;
}

uint64_t pl_object_call_count(const struct pl_object_store *s, enum pl_object_call call, enum pl_object_result result)
{
    return atomic_load_explicit(&s->calls[call][result], memory_order_relaxed);
}

bool pl_object_request_count(struct pl_object_store *s, struct pl_object_requests *ret)
{
    if (s->ops->requests == NULL)
        return false;
    s->ops->requests(s, ret);
    return true;
}

struct pl_object_store *pl_object_close(struct pl_object_store *s)
{
    if (s != NULL)
        s->ops->destroy(s);
    return NULL;
}

int pl_object_put(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive, struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    begin_request("put", key);
    return r < 0 ? r : counted(s, PL_OBJECT_PUT, s->ops->put(s, key, iov, n, exclusive, err), err);
}

int pl_object_adopt(struct pl_object_store *s, const char *key, const char *temp_path, struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    begin_request("adopt", key);
    if (r < 0) {
        unlink(temp_path);
        return r;
    }
    return counted(s, PL_OBJECT_PUT, s->ops->adopt(s, key, temp_path, err), err);
}

int pl_object_flush(struct pl_object_store *s, struct pl_err *err)
{
    int r;

    begin_request("flush", "flush");
    r = s->ops->flush(s, err);
    return r < 0 ? pl_err_field(err, r, PL_OBJECT_ERR_FIELD) : r;
}

int pl_object_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                  struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    begin_request("get", key);
    return r < 0 ? r : counted(s, PL_OBJECT_GET, s->ops->get(s, key, offset, len, ret, err), err);
}

int pl_object_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    begin_request("size", key);
    return r < 0 ? r : counted(s, PL_OBJECT_SIZE, s->ops->size(s, key, ret, err), err);
}

int pl_object_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    begin_request("open_fd", key);
    return r < 0 ? r : counted(s, PL_OBJECT_GET, s->ops->open_fd(s, key, ret_fd, err), err);
}

int pl_object_list(struct pl_object_store *s, const char *prefix, pl_object_visit_fn visit, void *arg, struct pl_err *err)
{
    return pl_object_list_after(s, prefix, "", visit, arg, err);
}

int pl_object_list_after(struct pl_object_store *s, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                         struct pl_err *err)
{
    begin_request("list_after", prefix);
    return counted(s, PL_OBJECT_LIST, s->ops->list(s, prefix, after, visit, arg, err), err);
}

int pl_object_remove(struct pl_object_store *s, const char *key, struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    begin_request("remove", key);
    return r < 0 ? r : counted(s, PL_OBJECT_REMOVE, s->ops->remove(s, key, err), err);
}

int pl_object_tmp_path(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err)
{
    return s->ops->tmp_path(s, out, err);
}

unsigned pl_object_caps(const struct pl_object_store *s)
{
    return s->caps;
}

int pl_object_tail(struct pl_object_store *s, const char *key, size_t n, struct pl_buf *ret, uint64_t *ret_size,
                   struct pl_err *err)
{
    uint64_t size;
    int r = pl_path_object_key_check(key, err);

    begin_request("tail", key);
    if (r < 0)
        return r;
    if (s->ops->tail != NULL)
        return counted(s, PL_OBJECT_GET, s->ops->tail(s, key, n, ret, ret_size, err), err);
    r = s->ops->size(s, key, &size, err);
    if (r == 0)
        r = s->ops->get(s, key, size - PL_MIN(n, size), PL_MIN(n, size), ret, err);
    if (r == 0)
        *ret_size = size;
    return counted(s, PL_OBJECT_GET, r, err);
}

int pl_object_get_some(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                       struct pl_err *err)
{
    uint64_t size;
    int r = pl_path_object_key_check(key, err);

    begin_request("get_some", key);
    if (r < 0)
        return r;
    if (s->ops->get_some != NULL)
        return counted(s, PL_OBJECT_GET, s->ops->get_some(s, key, offset, len, ret, err), err);
    r = s->ops->size(s, key, &size, err);
    if (r == 0)
        r = s->ops->get(s, key, offset, offset < size ? PL_MIN(len, size - offset) : 0, ret, err);
    return counted(s, PL_OBJECT_GET, r, err);
}

int pl_object_local_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    begin_request("local_fd", key);
    if (r < 0)
        return r;
    r = s->ops->local_fd != NULL ? s->ops->local_fd(s, key, ret_fd, err) : s->ops->open_fd(s, key, ret_fd, err);
    return counted(s, PL_OBJECT_GET, r, err);
}

void pl_object_forget_local(struct pl_object_store *s, const char *key)
{
    if (s->ops->forget_local != NULL && pl_path_object_key_check(key, NULL) == 0)
        s->ops->forget_local(s, key);
}

bool pl_object_has_local(struct pl_object_store *s, const char *key)
{
    if (s->ops->has_local != NULL)
        return pl_path_object_key_check(key, NULL) == 0 && s->ops->has_local(s, key);
    return (s->caps & PL_OBJECT_FILES) != 0;
}

void pl_object_keep_local(struct pl_object_store *s, const char *key, const void *bytes, size_t n)
{
    if (s->ops->keep_local != NULL && pl_path_object_key_check(key, NULL) == 0)
        s->ops->keep_local(s, key, bytes, n);
}

int pl_object_remove_many(struct pl_object_store *s, const char *const *keys, size_t n, struct pl_err *err)
{
    int r = 0;

    begin_request("remove_many", "removal");
    for (size_t i = 0; i < n && r == 0; i++)
        r = pl_path_object_key_check(keys[i], err);
    if (r < 0 || n == 0)
        return r;
    if (s->ops->remove_many != NULL)
        return counted(s, PL_OBJECT_REMOVE, s->ops->remove_many(s, keys, n, err), err);
    for (size_t i = 0; i < n && r == 0; i++)
        r = s->ops->remove(s, keys[i], err);
    return counted(s, PL_OBJECT_REMOVE, r, err);
}

int pl_object_sign_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, uint32_t expires_s,
                       struct pl_object_signed *ret, struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    if (r < 0)
        return r;
    if ((s->caps & PL_OBJECT_SIGNED_GET) == 0)
        return pl_err_set(err, PL_EUNAVAILABLE, "this store cannot presign reads that are bound to a range");
    return s->ops->sign_get(s, key, offset, len, expires_s, ret, err);
}

int pl_object_sign_put(struct pl_object_store *s, const char *key, uint64_t size, const char *sha256, uint32_t expires_s,
                       struct pl_object_signed *ret, struct pl_err *err)
{
    int r = pl_path_object_key_check(key, err);

    if (r < 0)
        return r;
    if ((s->caps & PL_OBJECT_SIGNED_PUT) == 0)
        return pl_err_set(err, PL_EUNAVAILABLE, "this store cannot presign writes that are bound to their bytes");
    return s->ops->sign_put(s, key, size, sha256, expires_s, ret, err);
}

void pl_object_signed_finish(struct pl_object_signed *q)
{
    free(q->url);
    q->url = NULL;
}

static int open_bucket(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err)
{
    if (config->driver == NULL || config->driver[0] == '\0' || pl_streq(config->driver, "s3"))
        return pl_object_s3_open(config, ret, err);
    if (pl_streq(config->driver, "libs3"))
        return pl_object_libs3_open(config, ret, err);
    (void)pl_err_set(err, PL_EINVAL,
                     "driver is \"%.100s\": accepted are s3 and libs3 (for servers that accept only Signature V2)",
                     config->driver);
    return pl_err_field(err, PL_EINVAL, "driver");
}

void pl_object_wake(struct pl_object_store *s)
{
    if (s->ops->wake != NULL)
        s->ops->wake(s);
}

const char *pl_object_ca(const struct pl_object_store *s)
{
    return s->ca;
}

static int open_folder(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err)
{
    if (config->driver == NULL || config->driver[0] == '\0')
        return pl_object_file_open(config->url + 7, ret, err);
    (void)pl_err_set(err, PL_EINVAL, "driver is \"%.100s\", but the store is a folder: remove this setting", config->driver);
    return pl_err_field(err, PL_EINVAL, "driver");
}

int pl_object_open(const struct pl_object_config *config, struct pl_object_store **ret, struct pl_err *err)
{
    if (config->url != NULL && strncmp(config->url, "file:///", 8) == 0)
        return open_folder(config, ret, err);
    if (config->url != NULL && strncmp(config->url, "s3://", 5) == 0)
        return open_bucket(config, ret, err);
    (void)pl_err_set(err, PL_EINVAL, "store is \"%.200s\": accepted are file:///FOLDER and s3://BUCKET/PREFIX",
                     config->url != NULL ? config->url : "");
    return pl_err_field(err, PL_EINVAL, "store");
}
