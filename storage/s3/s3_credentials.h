/* s3_creds: whose requests these are: the first of these sources that has an answer, and its renewal.
 *
 *   config ─▶ environment ─▶ web identity (STS) ─▶ shared profile ─▶ container (ECS, EKS pod identity) ─▶ instance (IMDSv2)
 *
 * The first three and the profile are read when it is made; the others are asked over HTTP by a thread that is started with the first
 * need. What expires is renewed PL_S3_CREDENTIALS_EARLY_S before, while the old ones are used; a renewal that fails is tried again after
 * PL_S3_CREDENTIALS_AGAIN_MS. Any thread. */
#pragma once

#include "storage/http/http_io.h"

#define PL_S3_CREDENTIALS_EARLY_S  300
#define PL_S3_CREDENTIALS_AGAIN_MS 5000
#define PL_S3_ACCESS_KEY_MAX       128
#define PL_S3_SECRET_MAX           256
#define PL_S3_TOKEN_MAX            8192

struct pl_s3_access_keys {
    char access_key[PL_S3_ACCESS_KEY_MAX + 1];
    char secret[PL_S3_SECRET_MAX + 1];
    char token[PL_S3_TOKEN_MAX + 1]; /* "" = none */
    int64_t expires_s;               /* seconds since 1970; 0 = never */
};

/* All may be NULL or "". */
struct pl_s3_credentials_config {
    const char *access_key, *secret, *token;
    const char *profile;                          /* in the credentials file; else AWS_PROFILE, else "default" */
    const char *region;                           /* of STS */
    const char *sts_endpoint, *instance_endpoint; /* for tests; else the environment's or Amazon's */
    void (*changed)(
        void *arg); /* keys came, or asking for them failed: who got PL_EBUSY asks again. On the thread that fetches. */
    void *arg;
};

struct pl_s3_credentials;

/* `io` outlives it. PL_EINVAL when a source is there but not whole (an access key without a secret, a profile that does not exist), PL_EIO,
 * PL_ENOMEM. That there are no keys at all is only known after asking: PL_EAUTH from pl_s3_credentials_get. */
PL_MUST_CHECK
int pl_s3_credentials_create(const struct pl_s3_credentials_config *config, struct pl_http_io *io, struct pl_s3_credentials **ret,
                             struct pl_err *err);
struct pl_s3_credentials *pl_s3_credentials_destroy(struct pl_s3_credentials *c);
/* Keys that are valid at `now_s`. PL_EBUSY when they are being fetched and `changed` will be called. PL_EAUTH when no source has any (the
 * message says what was looked at), the fetch's error when that failed. */
PL_MUST_CHECK
int pl_s3_credentials_get(struct pl_s3_credentials *c, int64_t now_s, struct pl_s3_access_keys *ret, struct pl_err *err);
/* The same, waiting at most `timeout_ms`: PL_ETIMEOUT. Not on the I/O thread. */
PL_MUST_CHECK
int pl_s3_credentials_wait(struct pl_s3_credentials *c, int64_t now_s, int64_t timeout_ms, struct pl_s3_access_keys *ret,
                           struct pl_err *err);
/* The server does not take these keys any more: others are fetched where they come from somewhere. False when they cannot change. */
bool pl_s3_credentials_refused(struct pl_s3_credentials *c, const struct pl_s3_access_keys *keys);
/* "profile default", "environment": for people. */
const char *pl_s3_credentials_source(const struct pl_s3_credentials *c);
