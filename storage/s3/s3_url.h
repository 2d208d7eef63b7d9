/* s3_url: where a bucket is: "s3://BUCKET/PREFIX" with endpoint, region and style, and the URLs of its objects. Pure; any thread.
 *
 *   path style      http://127.0.0.1:9000/BUCKET/PREFIX/key     (custom endpoints; buckets with dots)
 *   virtual style   https://BUCKET.s3.REGION.amazonaws.com/PREFIX/key   (Amazon's) */
#pragma once

#include "storage/base/path.h"
#include "storage/s3/sigv4.h"

#define PL_S3_BUCKET_MAX   63
#define PL_S3_HOST_MAX     255
#define PL_S3_ENDPOINT_MAX (PL_S3_HOST_MAX - PL_S3_BUCKET_MAX - 1)
#define PL_S3_KEY_MAX      1024 /* S3's own bound, prefix and key together */
#define PL_S3_URL_MAX      (PL_S3_HOST_MAX + 3 * PL_S3_KEY_MAX + 512)

struct pl_s3_place {
    char bucket[PL_S3_BUCKET_MAX + 1];
    char prefix[PL_OBJECT_KEY_MAX + 2]; /* "" or ending with "/" */
    char region[PL_SIGV4_REGION_MAX + 1];
    char host[PL_S3_ENDPOINT_MAX + 1]; /* as in the Host header: with a port unless it is the scheme's own */
    char base[PL_S3_ENDPOINT_MAX + 1]; /* path of the endpoint, without "/" at its end: mostly "" */
    bool tls;
    bool path_style;
    bool amazon; /* no endpoint was given: host follows the region */
};

/* `endpoint`: "http://HOST[:PORT][/PATH]" or https; "" or NULL = Amazon's for the region. `region` "" or NULL: us-east-1. `style`: "path",
 * "virtual", "" or NULL (path for an endpoint that was given). PL_EINVAL naming field (store, endpoint, region, style), value and what
 * is accepted. */
PL_MUST_CHECK
int pl_s3_place_init(struct pl_s3_place *p, const char *url, const char *endpoint, const char *region, const char *style,
                     struct pl_err *err);
/* The same place behind another endpoint: for URLs that others use. */
PL_MUST_CHECK
int pl_s3_place_behind(struct pl_s3_place *p, const char *endpoint, struct pl_err *err);
/* The bucket turned out to be in another region: Amazon's host changes with it. PL_EINVAL. */
PL_MUST_CHECK
int pl_s3_place_move(struct pl_s3_place *p, const char *region, struct pl_err *err);
/* The same object, or the bucket where `key` is NULL, where a redirect's Location says that it is: on another host, which may be of the other
 * style. False, and nothing is changed, when it leads to something else, or from https to http. */
PL_MUST_CHECK
bool pl_s3_place_follow(struct pl_s3_place *p, const char *key, const char *location);
/* "https://HOST": what URLs begin with; returns `out`. */
char *pl_s3_place_origin(const struct pl_s3_place *p, char out[PL_S3_HOST_MAX + 9]);
/* The Host header of requests (the bucket is in it in virtual style); returns `out`. */
char *pl_s3_place_host(const struct pl_s3_place *p, char out[PL_S3_HOST_MAX + 1]);
/* The decoded path of an object (NULL: of the bucket): what is signed. */
char *pl_s3_place_path(const struct pl_s3_place *p, const char *key, char out[PL_S3_URL_MAX]);
