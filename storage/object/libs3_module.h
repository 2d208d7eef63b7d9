/* libs3_module: the interface of the module pl-libs3.so, which gives the daemon plain S3 calls signed with
 * Signature V2, through Debian's libs3.
 *
 * libs3 is packaged under GPL-3 and exports common names (urlEncode, hash). It therefore stays in a module
 * of its own, which object_libs3 loads with RTLD_LOCAL; only the functions below connect the module and
 * this program. The module uses no other function and no other type of this program.
 *
 * One call is one attempt and blocks. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PL_LIBS3_VERSION  1
#define PL_LIBS3_TEXT     512
#define PL_LIBS3_FUNCTION "pl_libs3_module"

struct pl_libs3_bucket {
    const char *host; /* such as "s3.example.org", "127.0.0.1:9000" */
    const char *bucket;
    const char *access_key, *secret_key;
    bool tls;
    bool path_style;
};

enum pl_libs3_result {
    PL_LIBS3_OK,
    PL_LIBS3_NOT_FOUND, /* the key does not exist */
    PL_LIBS3_NO_BUCKET, /* the bucket does not exist */
    PL_LIBS3_DENIED,    /* wrong key or signature, or missing permission */
    PL_LIBS3_RANGE,     /* the object ends before the range */
    PL_LIBS3_DAMAGED,   /* the bytes that the server received do not match their MD5 */
    PL_LIBS3_NO_MEMORY,
    PL_LIBS3_STOPPED, /* a callback stopped the call */
    /* lost connection, or status 500 or 503: it is unknown whether the server carried out the request; a
     * retry may succeed */
    PL_LIBS3_AGAIN,
    PL_LIBS3_FAILED
};

/* `text` has room for PL_LIBS3_TEXT bytes. If the result is not OK, it receives the error message of libs3
 * and of the server. */
struct pl_libs3_module {
    unsigned version; /* PL_LIBS3_VERSION */
    /* Puts an object. `md5`: the MD5 of its bytes in base64, which the server checks. */
    enum pl_libs3_result (*put)(const struct pl_libs3_bucket *b, const char *key, const struct iovec *iov, int n, const char *md5,
                                char *text);
    /* Gets `count` bytes; 0 = up to the end of the object. A negative result of `data` ends the call with
     * STOPPED. */
    enum pl_libs3_result (*get)(const struct pl_libs3_bucket *b, const char *key, uint64_t offset, uint64_t count,
                                int (*data)(void *arg, const void *bytes, size_t n), void *arg, char *text);
    enum pl_libs3_result (*size)(const struct pl_libs3_bucket *b, const char *key, uint64_t *ret, char *text);
    /* Visits one page of keys after `after`; `*ret_more`: further pages follow. */
    enum pl_libs3_result (*list)(const struct pl_libs3_bucket *b, const char *prefix, const char *after,
                                 int (*visit)(void *arg, const char *key, uint64_t size), void *arg, bool *ret_more, char *text);
    enum pl_libs3_result (*remove)(const struct pl_libs3_bucket *b, const char *key, char *text);
};

/* Type of the module's only exported function. Returns the table, or NULL with the reason in `text`. Called
 * once. */
typedef const struct pl_libs3_module *(*pl_libs3_module_fn)(char *text);
