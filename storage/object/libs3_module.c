/* libs3_module: calls of libs3 whose callbacks fill a struct call; libs3's statuses are mapped to
 * pl_libs3_result. The contract is in libs3_module.h. */
#include "storage/object/libs3_module.h"

#include <libs3.h>
#include <stdio.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define PAGE     1000

/* State of one call. */
struct call {
    char *text;
    S3Status status;
    uint64_t size;
    /* for put: the bytes that have not been sent yet */
    const struct iovec *iov;
    int n;
    size_t at; /* offset in iov[0] */
    /* for get: called with the received bytes */
    int (*data)(void *arg, const void *bytes, size_t n);
    /* for list: called with each key */
    int (*visit)(void *arg, const char *key, uint64_t size);
    bool more;
    void *arg;
};

static S3BucketContext context(const struct pl_libs3_bucket *b)
{
    return (S3BucketContext){.hostName = b->host,
                             .bucketName = b->bucket,
                             .protocol = b->tls ? S3ProtocolHTTPS : S3ProtocolHTTP,
                             .uriStyle = b->path_style ? S3UriStylePath : S3UriStyleVirtualHost,
                             .accessKeyId = b->access_key,
                             .secretAccessKey = b->secret_key};
}

static S3Status on_properties(const S3ResponseProperties *properties, void *arg)
{
    struct call *c = arg;

    c->size = properties->contentLength;
    return S3StatusOK;
}

static void on_complete(S3Status status, const S3ErrorDetails *details, void *arg)
{
    struct call *c = arg;

    c->status = status;
    if (status != S3StatusOK)
        (void)snprintf(c->text, PL_LIBS3_TEXT, "%s%s%.300s", S3_get_status_name(status),
                       details != NULL && details->message != NULL ? ": " : "",
                       details != NULL && details->message != NULL ? details->message : "");
}

/* Maps the status of a finished call. */
static enum pl_libs3_result result(const struct call *c)
{
    switch (c->status) {
    case S3StatusOK:
        return PL_LIBS3_OK;
    case S3StatusErrorNoSuchKey:
    case S3StatusHttpErrorNotFound:
        return PL_LIBS3_NOT_FOUND;
    case S3StatusErrorNoSuchBucket:
        return PL_LIBS3_NO_BUCKET;
    case S3StatusErrorAccessDenied:
    case S3StatusErrorInvalidAccessKeyId:
    case S3StatusErrorSignatureDoesNotMatch:
    case S3StatusErrorRequestTimeTooSkewed:
    case S3StatusHttpErrorForbidden:
        return PL_LIBS3_DENIED;
    case S3StatusErrorInvalidRange:
        return PL_LIBS3_RANGE;
    case S3StatusErrorBadDigest:
        return PL_LIBS3_DAMAGED;
    case S3StatusOutOfMemory:
        return PL_LIBS3_NO_MEMORY;
    case S3StatusAbortedByCallback:
        return PL_LIBS3_STOPPED;
    case S3StatusErrorUnknown:     /* 5xx with an error code that libs3 does not know */
    case S3StatusHttpErrorUnknown: /* 5xx without a body */
    case S3StatusErrorIncompleteBody:
    case S3StatusXmlParseFailure: /* a truncated response */
        return PL_LIBS3_AGAIN;
    default:
        return S3_status_is_retryable(c->status) ? PL_LIBS3_AGAIN : PL_LIBS3_FAILED;
    }
}

static const S3ResponseHandler plain = {on_properties, on_complete};

static int give_bytes(int size, char *out, void *arg)
{
    struct call *c = arg;
    size_t left, some;

    while (c->n > 0 && c->at == c->iov->iov_len) {
        c->iov++;
        c->n--;
        c->at = 0;
    }
    if (c->n == 0)
        return 0;
    left = c->iov->iov_len - c->at;
    some = left < (size_t)size ? left : (size_t)size;
    memcpy(out, (const char *)c->iov->iov_base + c->at, some);
    c->at += some;
    return (int)some;
}

static enum pl_libs3_result module_put(const struct pl_libs3_bucket *b, const char *key, const struct iovec *iov, int n,
                                       const char *md5, char *text)
{
    const S3PutObjectHandler handler = {plain, give_bytes};
    const S3PutProperties properties = {.contentType = "application/octet-stream", .md5 = md5, .expires = -1};
    const S3BucketContext where = context(b);
    struct call c = {.text = text, .status = S3StatusInternalError, .iov = iov, .n = n};
    uint64_t size = 0;

    for (int i = 0; i < n; i++)
        size += iov[i].iov_len;
    S3_put_object(&where, key, size, &properties, NULL, &handler, &c);
    return result(&c);
}

static S3Status take_bytes(int size, const char *bytes, void *arg)
{
    struct call *c = arg;

    return c->data(c->arg, bytes, (size_t)size) < 0 ? S3StatusAbortedByCallback : S3StatusOK;
}

static enum pl_libs3_result module_get(const struct pl_libs3_bucket *b, const char *key, uint64_t offset, uint64_t count,
                                       int (*data)(void *arg, const void *bytes, size_t n), void *arg, char *text)
{
    const S3GetObjectHandler handler = {plain, take_bytes};
    const S3GetConditions none = {.ifModifiedSince = -1, .ifNotModifiedSince = -1};
    const S3BucketContext where = context(b);
    struct call c = {.text = text, .status = S3StatusInternalError, .data = data, .arg = arg};

    S3_get_object(&where, key, &none, offset, count, NULL, &handler, &c);
    return result(&c);
}

static enum pl_libs3_result module_size(const struct pl_libs3_bucket *b, const char *key, uint64_t *ret, char *text)
{
    const S3BucketContext where = context(b);
    struct call c = {.text = text, .status = S3StatusInternalError};

    S3_head_object(&where, key, NULL, &plain, &c);
    if (c.status == S3StatusOK)
        *ret = c.size;
    return result(&c);
}

static S3Status take_keys(int truncated, const char *next, int n, const S3ListBucketContent *keys, int n_prefixes,
                          const char **prefixes, void *arg)
{
    struct call *c = arg;

    /* `next` is unused: libs3 sets it only if the request has a delimiter. The next page is requested with
     * the last key of this page */
    (void)next;
    (void)n_prefixes;
    (void)prefixes;
    c->more = truncated != 0;
    for (int i = 0; i < n; i++)
        if (c->visit(c->arg, keys[i].key, keys[i].size) < 0)
            return S3StatusAbortedByCallback;
    return S3StatusOK;
}

static enum pl_libs3_result module_list(const struct pl_libs3_bucket *b, const char *prefix, const char *after,
                                        int (*visit)(void *arg, const char *key, uint64_t size), void *arg, bool *ret_more,
                                        char *text)
{
    const S3ListBucketHandler handler = {plain, take_keys};
    const S3BucketContext where = context(b);
    struct call c = {.text = text, .status = S3StatusInternalError, .visit = visit, .arg = arg};

    S3_list_bucket(&where, prefix, after, NULL, PAGE, NULL, &handler, &c);
    *ret_more = c.more;
    return result(&c);
}

static enum pl_libs3_result module_remove(const struct pl_libs3_bucket *b, const char *key, char *text)
{
    const S3BucketContext where = context(b);
    struct call c = {.text = text, .status = S3StatusInternalError};

    S3_delete_object(&where, key, NULL, &plain, &c);
    return result(&c);
}

EXPORTED const struct pl_libs3_module *pl_libs3_module(char *text);

const struct pl_libs3_module *pl_libs3_module(char *text)
{
    static const struct pl_libs3_module module = {PL_LIBS3_VERSION, module_put,  module_get,
                                                  module_size,      module_list, module_remove};
    S3Status status = S3_initialize("pipelined", S3_INIT_ALL, NULL);

    if (status == S3StatusOK)
        return &module;
    (void)snprintf(text, PL_LIBS3_TEXT, "%s", S3_get_status_name(status));
    return NULL;
}
