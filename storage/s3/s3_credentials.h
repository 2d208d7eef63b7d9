/* s3_credentials: the access keys for requests, from the first of these sources that provides any, and their
 * renewal.
 *
 *   config ─▶ environment ─▶ web identity (STS) ─▶ shared profile ─▶ container (ECS, EKS pod identity)
 *          ─▶ instance (IMDSv2)
 *
 * The configuration, the environment and the profile are read by pl_s3_credentials_create. The other sources
 * are queried over HTTP by a thread that starts when keys are first needed. Keys that expire are renewed
 * PL_S3_CREDENTIALS_EARLY_S seconds before they do, and the old ones remain in use meanwhile; a failed
 * renewal is retried after PL_S3_CREDENTIALS_AGAIN_MS. Any thread. */
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
    char token[PL_S3_TOKEN_MAX + 1]; /* session token; "" = none */
    int64_t expires_s;               /* seconds since 1970; 0 = never */
};

/* Every string may be NULL or "" (not given). */
struct pl_s3_credentials_config {
    const char *access_key, *secret, *token;
    /* name of a profile in the shared credentials file; if not given: AWS_PROFILE, or "default" */
    const char *profile;
    const char *region; /* region of STS */
    /* URLs that tests set; if not given, the environment's or Amazon's are used */
    const char *sts_endpoint, *instance_endpoint;
    void (*changed)(
        /* Called on the fetching thread after keys were fetched or a fetch failed. Callers of
         * pl_s3_credentials_get that received PL_EBUSY should then call it again. */
        void *arg);
    void *arg;
};

struct pl_s3_credentials;

/* Selects the source. `io` must outlive the object. PL_EINVAL if a source is incomplete (an access key
 * without a secret, a profile that does not exist), PL_EIO, PL_ENOMEM. Succeeds even if no source has keys;
 * pl_s3_credentials_get then returns PL_EAUTH. */
PL_MUST_CHECK
int pl_s3_credentials_create(const struct pl_s3_credentials_config *config, struct pl_http_io *io, struct pl_s3_credentials **ret,
                             struct pl_err *err);
/* Ends the thread and erases the keys. NULL is allowed. Returns NULL. */
struct pl_s3_credentials *pl_s3_credentials_destroy(struct pl_s3_credentials *c);
/* Copies keys that are valid at `now_s`. PL_EBUSY if they are being fetched: `changed` will be called.
 * PL_EAUTH if no source has any (the message lists the sources), or the error of a failed fetch. */
PL_MUST_CHECK
int pl_s3_credentials_get(struct pl_s3_credentials *c, int64_t now_s, struct pl_s3_access_keys *ret, struct pl_err *err);
/* Like pl_s3_credentials_get, but waits at most `timeout_ms` for keys that are being fetched; PL_ETIMEOUT if
 * there are none by then. Must not be called on the I/O thread. */
PL_MUST_CHECK
int pl_s3_credentials_wait(struct pl_s3_credentials *c, int64_t now_s, int64_t timeout_ms, struct pl_s3_access_keys *ret,
                           struct pl_err *err);
/* Reports that the server rejects these keys, so that the next get fetches new ones. Returns false if the
 * source cannot provide other keys. */
bool pl_s3_credentials_refused(struct pl_s3_credentials *c, const struct pl_s3_access_keys *keys);
/* Returns the name of the source for messages: "profile default", "environment". Owned by `c`. */
const char *pl_s3_credentials_source(const struct pl_s3_credentials *c);
