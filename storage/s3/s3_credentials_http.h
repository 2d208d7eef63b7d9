/* s3_credentials_http: the sources of credentials that are queried over HTTP, for s3_credentials: STS with a
 * web identity token, the container credentials endpoint (ECS, EKS), and the instance metadata service
 * (IMDSv2). */
#pragma once

#include "storage/s3/s3_credentials.h"

#define PL_S3_FETCH_TIMEOUT_MS 5000

enum pl_s3_source_kind { PL_S3_SOURCE_FIXED, PL_S3_SOURCE_WEB_IDENTITY, PL_S3_SOURCE_CONTAINER, PL_S3_SOURCE_INSTANCE };

struct pl_s3_credential_source {
    enum pl_s3_source_kind kind;
    char name[96]; /* name of the source, for messages */
    char url[512]; /* address of the source */
    /* file with the web identity token, or with the authorization token for the container credentials
     * endpoint */
    char token_file[512];
    /* the authorization token for the container credentials endpoint, if it is not in a file */
    char token[1024];
    char role[256], session[65];
};

/* Each of these functions returns 1 and fills `s` if the environment variables select its source, otherwise
 * 0. PL_EINVAL if the variables are incomplete or invalid. */
PL_MUST_CHECK
int pl_s3_source_web_identity(struct pl_s3_credential_source *s, const struct pl_s3_credentials_config *config,
                              struct pl_err *err);
PL_MUST_CHECK
int pl_s3_source_container(struct pl_s3_credential_source *s, struct pl_err *err);
/* The last source: returns 1, or PL_EINVAL if AWS_EC2_METADATA_DISABLED is "true". */
PL_MUST_CHECK
int pl_s3_source_instance(struct pl_s3_credential_source *s, const struct pl_s3_credentials_config *config, struct pl_err *err);
/* Fetches keys from the source. PL_EAUTH if the source refuses or has no keys, PL_EPROTO if its response is
 * invalid, or the error of the HTTP exchange. */
PL_MUST_CHECK
int pl_s3_source_fetch(const struct pl_s3_credential_source *s, struct pl_http_io *io, struct pl_s3_access_keys *ret,
                       struct pl_err *err);
