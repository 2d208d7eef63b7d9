/* s3_url: the location of a bucket: "s3://BUCKET/PREFIX" with endpoint, region and style, and the URLs of its
 * objects. Pure; any thread.
 *
 *   path style      http://127.0.0.1:9000/BUCKET/PREFIX/key   (custom endpoints; buckets with dots)
 *   virtual style   https://BUCKET.s3.REGION.amazonaws.com/PREFIX/key   (Amazon) */
#pragma once

#include "storage/base/path.h"
#include "storage/s3/sigv4.h"

#define PL_S3_BUCKET_MAX   63
#define PL_S3_HOST_MAX     255
#define PL_S3_ENDPOINT_MAX (PL_S3_HOST_MAX - PL_S3_BUCKET_MAX - 1)
#define PL_S3_KEY_MAX      1024 /* S3's maximum for prefix and key together */
#define PL_S3_URL_MAX      (PL_S3_HOST_MAX + 3 * PL_S3_KEY_MAX + 512)

struct pl_s3_place {
    char bucket[PL_S3_BUCKET_MAX + 1];
    char prefix[PL_OBJECT_KEY_MAX + 2]; /* "", or ends with "/" */
    char region[PL_SIGV4_REGION_MAX + 1];
    /* value of the Host header; includes the port unless it is the default port of the scheme */
    char host[PL_S3_ENDPOINT_MAX + 1];
    char base[PL_S3_ENDPOINT_MAX + 1]; /* path part of the endpoint's URL, without a final "/"; usually "" */
    bool tls;
    bool path_style;
    bool amazon; /* no endpoint was given: the host follows from the region */
};

/* Fills `p`. `endpoint`: "http://HOST[:PORT][/PATH]" or https; "" or NULL = Amazon's in the region. `region`
 * "" or NULL: us-east-1. `style`: "path" or "virtual"; "" or NULL: path for a given endpoint or a bucket with
 * dots, else virtual. PL_EINVAL, with the field (store, endpoint, region, style), the value and what is
 * accepted. */
PL_MUST_CHECK
int pl_s3_place_init(struct pl_s3_place *p, const char *url, const char *endpoint, const char *region, const char *style,
                     struct pl_err *err);
/* Changes the location `p` to another endpoint of the same bucket, for URLs that other machines use.
 * PL_EINVAL. */
PL_MUST_CHECK
int pl_s3_place_behind(struct pl_s3_place *p, const char *endpoint, struct pl_err *err);
/* Changes the region, after a response named another region as the bucket's; Amazon's host changes with it.
 * PL_EINVAL. */
PL_MUST_CHECK
int pl_s3_place_move(struct pl_s3_place *p, const char *region, struct pl_err *err);
/* Follows a redirect: sets the host of `p` to the one in `location` if `location` is the URL of the same
 * object, in either style (`key` NULL: the URL of the bucket). Returns false and changes nothing if it is
 * another object, or leads from https to http. */
PL_MUST_CHECK
bool pl_s3_place_follow(struct pl_s3_place *p, const char *key, const char *location);
/* Writes "https://HOST", the start of URLs; returns `out`. */
char *pl_s3_place_origin(const struct pl_s3_place *p, char out[PL_S3_HOST_MAX + 9]);
/* Writes the Host header of requests, which contains the bucket in virtual style; returns `out`. */
char *pl_s3_place_host(const struct pl_s3_place *p, char out[PL_S3_HOST_MAX + 1]);
/* Writes the path of an object (`key` NULL: of the bucket), not percent-encoded, as it is signed; returns
 * `out`. */
char *pl_s3_place_path(const struct pl_s3_place *p, const char *key, char out[PL_S3_URL_MAX]);
