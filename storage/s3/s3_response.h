/* s3_response: what a response of S3 means: a class, from which callers decide what to do next, and an error
 * message. Pure; any thread. */
#pragma once

#include "storage/base/buf.h"

enum pl_s3_response_class {
    PL_S3_OK,
    PL_S3_NOT_FOUND, /* the key does not exist */
    PL_S3_EXISTS,    /* a precondition failed because the key exists */
    /* failure of the server or the network: retry; the request may have been carried out */
    PL_S3_RETRY,
    PL_S3_REDUCE_RATE,     /* like RETRY, but the server asks for fewer requests */
    PL_S3_CLOCK_SKEW,      /* this machine's clock differs from the server's */
    PL_S3_WRONG_REGION,    /* the bucket is in another region */
    PL_S3_BAD_CREDENTIALS, /* the credentials have expired */
    PL_S3_FORBIDDEN,
    PL_S3_NO_BUCKET,
    PL_S3_FULL,
    PL_S3_UNKNOWN_CALL, /* the server does not support this call */
    PL_S3_BAD_RESPONSE, /* any other response: do not retry */
};

/* The fields of an error document; "" = absent. */
struct pl_s3_response_error {
    char code[64], message[320], region[64];
};
/* Parses an error document. Returns false, and all fields "", if `text` is not one. */
bool pl_s3_response_error_parse(const struct pl_buf *text, struct pl_s3_response_error *ret);

/* Returns the class. `status` 0: there was no response. `code` is the error code in the error document, "" =
 * none. */
enum pl_s3_response_class pl_s3_response_class_of(unsigned status, const char *code);
/* Sets the error for a class other than OK, such as "s3: 503 SlowDown: Reduce your request rate", and a hint.
 * Returns its code: PL_ENOTFOUND, PL_EEXISTS, PL_ENET (RETRY), PL_EBUSY (REDUCE_RATE), PL_EFORBIDDEN
 * (CLOCK_SKEW, BAD_CREDENTIALS, FORBIDDEN), PL_EINVAL (NO_BUCKET, WRONG_REGION), PL_ENOSPC, PL_EUNAVAILABLE
 * (UNKNOWN_CALL) or PL_EIO. */
int pl_s3_response_class_error(enum pl_s3_response_class c, unsigned status, const struct pl_s3_response_error *p,
                               struct pl_err *err);
