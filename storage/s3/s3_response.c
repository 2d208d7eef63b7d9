/* s3_response: tables from S3's error codes and HTTP statuses to classes, and from classes to errors. */
#include "storage/s3/s3_response.h"

#include "storage/s3/s3_xml.h"

#include <stdio.h>

static void take(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text != NULL ? text : "");
}

bool pl_s3_response_error_parse(const struct pl_buf *text, struct pl_s3_response_error *ret)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    const struct pl_s3_xml_node *root;

    *ret = (struct pl_s3_response_error){0};
    if (text->len == 0 || pl_s3_xml_parse(text->data, text->len, &x, NULL) < 0)
        return false;
    root = pl_s3_xml_root(x);
    if (!pl_streq(root->name, "Error"))
        return false;
    take(ret->code, sizeof(ret->code), pl_s3_xml_text(root, "Code"));
    take(ret->message, sizeof(ret->message), pl_s3_xml_text(root, "Message"));
    take(ret->region, sizeof(ret->region), pl_s3_xml_text(root, "Region"));
    return true;
}

/* Classes by S3 error code. The code takes precedence over the HTTP status, because servers use different
 * statuses with these codes. */
static const struct {
    const char *code;
    enum pl_s3_response_class class;
} by_code[] = {
    {"NoSuchBucket", PL_S3_NO_BUCKET},
    {"RequestTimeTooSkewed", PL_S3_CLOCK_SKEW},
    {"ExpiredToken", PL_S3_BAD_CREDENTIALS},
    {"ExpiredTokenException", PL_S3_BAD_CREDENTIALS},
    {"TokenRefreshRequired", PL_S3_BAD_CREDENTIALS},
    {"PermanentRedirect", PL_S3_WRONG_REGION},
    {"AuthorizationHeaderMalformed", PL_S3_WRONG_REGION},
    {"ConditionalRequestConflict", PL_S3_RETRY},
    {"OperationAborted", PL_S3_RETRY},
    {"RequestTimeout", PL_S3_RETRY},
    {"InternalError", PL_S3_RETRY},
    {"BadDigest", PL_S3_RETRY}, /* the body was damaged in transit */
    {"IncompleteBody", PL_S3_RETRY},
    {"XAmzContentSHA256Mismatch", PL_S3_RETRY},
    {"SlowDown", PL_S3_REDUCE_RATE},
    {"Throttling", PL_S3_REDUCE_RATE},
    {"ServiceUnavailable", PL_S3_REDUCE_RATE},
    {"QuotaExceeded", PL_S3_FULL},
    {"EntityTooLarge", PL_S3_BAD_RESPONSE},
};
static const struct {
    unsigned status;
    enum pl_s3_response_class class;
} by_status[] = {
    {301, PL_S3_WRONG_REGION}, {307, PL_S3_WRONG_REGION}, {308, PL_S3_WRONG_REGION}, {401, PL_S3_FORBIDDEN},
    {403, PL_S3_FORBIDDEN},    {404, PL_S3_NOT_FOUND},    {408, PL_S3_RETRY},        {409, PL_S3_RETRY},
    {405, PL_S3_UNKNOWN_CALL}, {412, PL_S3_EXISTS},       {429, PL_S3_REDUCE_RATE},  {500, PL_S3_RETRY},
    {501, PL_S3_UNKNOWN_CALL}, {502, PL_S3_RETRY},        {503, PL_S3_REDUCE_RATE},  {504, PL_S3_RETRY},
    {507, PL_S3_FULL},
};

enum pl_s3_response_class pl_s3_response_class_of(unsigned status, const char *code)
{
    if (status == 0)
        return PL_S3_RETRY;
    for (size_t i = 0; i < PL_ARRAY_SIZE(by_code); i++)
        if (pl_streq(by_code[i].code, code))
            return by_code[i].class;
    if (status >= 200 && status <= 299)
        return PL_S3_OK;
    for (size_t i = 0; i < PL_ARRAY_SIZE(by_status); i++)
        if (by_status[i].status == status)
            return by_status[i].class;
    return status >= 500 ? PL_S3_RETRY : PL_S3_BAD_RESPONSE;
}

int pl_s3_response_class_error(enum pl_s3_response_class c, unsigned status, const struct pl_s3_response_error *p,
                               struct pl_err *err)
{
    static const int codes[] = {
        [PL_S3_OK] = PL_EINTERNAL,         [PL_S3_NOT_FOUND] = PL_ENOTFOUND,
        [PL_S3_EXISTS] = PL_EEXISTS,       [PL_S3_RETRY] = PL_ENET,
        [PL_S3_REDUCE_RATE] = PL_EBUSY,    [PL_S3_CLOCK_SKEW] = PL_EFORBIDDEN,
        [PL_S3_WRONG_REGION] = PL_EINVAL,  [PL_S3_BAD_CREDENTIALS] = PL_EFORBIDDEN,
        [PL_S3_FORBIDDEN] = PL_EFORBIDDEN, [PL_S3_NO_BUCKET] = PL_EINVAL,
        [PL_S3_FULL] = PL_ENOSPC,          [PL_S3_UNKNOWN_CALL] = PL_EUNAVAILABLE,
        [PL_S3_BAD_RESPONSE] = PL_EIO,
    };
    static const char *const hints[] = {
        [PL_S3_RETRY] = "Check the server and the network connection to it.",
        [PL_S3_REDUCE_RATE] = "Try again later; the server asks for fewer requests.",
        [PL_S3_CLOCK_SKEW] = "Set this machine's clock.",
        [PL_S3_WRONG_REGION] = "Set store.region to the bucket's region.",
        [PL_S3_BAD_CREDENTIALS] = "Renew the credentials.",
        [PL_S3_FORBIDDEN] = "Check the credentials and what the bucket's policy allows them: get, put, delete and list.",
        [PL_S3_NO_BUCKET] = "Create the bucket, or correct --store.",
        [PL_S3_FULL] = "Free space in the bucket; no acknowledged data was lost.",
        [PL_S3_BAD_RESPONSE] = NULL,
    };
    const int code = codes[c];

    (void)pl_err_set(err, code, "s3: %u%s%s%s%s", status, p->code[0] != '\0' ? " " : "", p->code,
                     p->message[0] != '\0' ? ": " : "", p->message);
    return hints[c] != NULL ? pl_err_hint(err, code, "%s", hints[c]) : code;
}
