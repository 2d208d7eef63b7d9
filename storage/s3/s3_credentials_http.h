/* s3_creds_fetch: the sources of credentials that are asked over HTTP: STS for a web identity, the container's agent, the instance's
 * metadata service. For s3_creds. */
#pragma once

#include "storage/s3/s3_credentials.h"

#define PL_S3_FETCH_TIMEOUT_MS 5000

enum pl_s3_source_kind { PL_S3_SOURCE_FIXED, PL_S3_SOURCE_WEB_IDENTITY, PL_S3_SOURCE_CONTAINER, PL_S3_SOURCE_INSTANCE };

struct pl_s3_credential_source {
    enum pl_s3_source_kind kind;
    char name[96];        /* for people */
    char url[512];        /* who is asked */
    char token_file[512]; /* web identity's token; the container's authorization */
    char token[1024];     /* the container's authorization, given itself */
    char role[256], session[65];
};

/* Each returns 1 and fills `s` when the environment says that it is to be asked, else 0. PL_EINVAL when it says so by halves. */
PL_MUST_CHECK
int pl_s3_source_web_identity(struct pl_s3_credential_source *s, const struct pl_s3_credentials_config *config,
                              struct pl_err *err);
PL_MUST_CHECK
int pl_s3_source_container(struct pl_s3_credential_source *s, struct pl_err *err);
/* The last one: always 1, unless AWS_EC2_METADATA_DISABLED. */
PL_MUST_CHECK
int pl_s3_source_instance(struct pl_s3_credential_source *s, const struct pl_s3_credentials_config *config, struct pl_err *err);
/* Asks. PL_EAUTH when the answer is no, PL_EPROTO when it is not understood, the exchange's errors. */
PL_MUST_CHECK
int pl_s3_source_fetch(const struct pl_s3_credential_source *s, struct pl_http_io *io, struct pl_s3_access_keys *ret,
                       struct pl_err *err);
