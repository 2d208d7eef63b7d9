#include "object.h"

static bool key_byte_ok(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

int pl_object_key_check(const char *key, struct pl_err *err)
{
    size_t len = strlen(key);
    bool start = true;

    if (len == 0 || len > PL_OBJECT_KEY_MAX)
        return pl_err_set(err, PL_EINVAL, "an object key has 1 to %d bytes, this has %zu", PL_OBJECT_KEY_MAX, len);
    if (strncmp(key, "tmp/", 4) == 0 || pl_streq(key, "tmp"))
        return pl_err_set(err, PL_EINVAL, "object key \"%s\" is reserved", key);
    for (size_t i = 0; i < len; i++) {
        bool slash = key[i] == '/';

        if (start ? slash || key[i] == '.' || !key_byte_ok(key[i]) : !slash && !key_byte_ok(key[i]))
            return pl_err_set(err, PL_EINVAL, "object key \"%s\" is not allowed at byte %zu", key, i);
        start = slash;
    }
    return start ? pl_err_set(err, PL_EINVAL, "object key \"%s\" ends with a slash", key) : 0;
}

struct pl_object_store *pl_object_close(struct pl_object_store *s)
{
    if (s != NULL)
        s->ops->destroy(s);
    return NULL;
}

int pl_object_put(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive, struct pl_err *err)
{
    int r = pl_object_key_check(key, err);

    return r < 0 ? r : s->ops->put(s, key, iov, n, exclusive, err);
}

int pl_object_adopt(struct pl_object_store *s, const char *key, const char *temp_path, struct pl_err *err)
{
    int r = pl_object_key_check(key, err);

    if (r < 0) {
        unlink(temp_path);
        return r;
    }
    return s->ops->adopt(s, key, temp_path, err);
}

int pl_object_flush(struct pl_object_store *s, struct pl_err *err)
{
    return s->ops->flush(s, err);
}

int pl_object_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                  struct pl_err *err)
{
    int r = pl_object_key_check(key, err);

    return r < 0 ? r : s->ops->get(s, key, offset, len, ret, err);
}

int pl_object_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err)
{
    int r = pl_object_key_check(key, err);

    return r < 0 ? r : s->ops->size(s, key, ret, err);
}

int pl_object_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err)
{
    int r = pl_object_key_check(key, err);

    return r < 0 ? r : s->ops->open_fd(s, key, ret_fd, err);
}

int pl_object_list(struct pl_object_store *s, const char *prefix, pl_object_visit_fn visit, void *arg, struct pl_err *err)
{
    return s->ops->list(s, prefix, visit, arg, err);
}

int pl_object_remove(struct pl_object_store *s, const char *key, struct pl_err *err)
{
    int r = pl_object_key_check(key, err);

    return r < 0 ? r : s->ops->remove(s, key, err);
}

int pl_object_tmp_path(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err)
{
    return s->ops->tmp_path(s, out, err);
}
