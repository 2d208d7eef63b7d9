/* libs3_module: what the module pl-libs3.so gives the daemon: plain S3 calls signed with Signature V2, by Debian's libs3.
 *
 * libs3 is packaged under GPL-3 and exports names of every day (urlEncode, hash): it stays in a module of its own, loaded with
 * RTLD_LOCAL by object_libs3, and nothing but these functions passes between them. The module uses nothing of ours: no function, no
 * type beyond this header.
 *
 * One call is one attempt; blocking; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PL_LIBS3_VERSION  1
#define PL_LIBS3_TEXT     512
#define PL_LIBS3_FUNCTION "pl_libs3_module"

struct pl_libs3_bucket {
    const char *host; /* "s3.example.org", "127.0.0.1:9000" */
    const char *bucket;
    const char *access_key, *secret_key;
    bool tls;
    bool path_style;
};

enum pl_libs3_result {
    PL_LIBS3_OK,
    PL_LIBS3_NOT_FOUND, /* the key */
    PL_LIBS3_NO_BUCKET, /* the bucket */
    PL_LIBS3_DENIED,    /* key, signature or rights */
    PL_LIBS3_RANGE,     /* the object ends before */
    PL_LIBS3_DAMAGED,   /* the server got other bytes than the MD5 said */
    PL_LIBS3_NO_MEMORY,
    PL_LIBS3_STOPPED, /* by a callback */
    PL_LIBS3_AGAIN,   /* lost connection, 500, 503: nobody knows, and another attempt may help */
    PL_LIBS3_FAILED
};

/* `text`: on everything but OK, what libs3 and the server said; room for PL_LIBS3_TEXT bytes. */
struct pl_libs3_module {
    unsigned version; /* PL_LIBS3_VERSION */
    /* `md5`: base64, which the server checks. */
    enum pl_libs3_result (*put)(const struct pl_libs3_bucket *b, const char *key, const struct iovec *iov, int n, const char *md5,
                                char *text);
    /* `count` 0: to the end. `data` negative: STOPPED. */
    enum pl_libs3_result (*get)(const struct pl_libs3_bucket *b, const char *key, uint64_t offset, uint64_t count,
                                int (*data)(void *arg, const void *bytes, size_t n), void *arg, char *text);
    enum pl_libs3_result (*size)(const struct pl_libs3_bucket *b, const char *key, uint64_t *ret, char *text);
    /* One page of keys after `after`. */
    enum pl_libs3_result (*list)(const struct pl_libs3_bucket *b, const char *prefix, const char *after,
                                 int (*visit)(void *arg, const char *key, uint64_t size), void *arg, bool *ret_more, char *text);
    enum pl_libs3_result (*remove)(const struct pl_libs3_bucket *b, const char *key, char *text);
};

/* The module's one symbol: the table, or NULL with why in `text`. Called once. */
typedef const struct pl_libs3_module *(*pl_libs3_module_fn)(char *text);
