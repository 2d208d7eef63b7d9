/* Translates error codes to S3's and formats the error document. */
#include "pipelined/s3gateway/formats/s3_error.h"

#include "pipelined/net/server/http_server.h"
#include "storage/s3/s3_xml.h"

#include <stdio.h>

static const struct pl_s3_error_info table[PL_S3_ERRORS] = {
#define PL_S3_ERROR_ROW(name, code, status, message) {code, status, message},
    PL_S3_ERROR_MAP(PL_S3_ERROR_ROW)
#undef PL_S3_ERROR_ROW
};

/* PL_E… codes with an S3 code of their own; all others become InternalError. */
static const struct {
    int code, s3;
} words[] = {
    {PL_EINVAL, PL_S3_INVALID_ARGUMENT},
    {PL_ENAME, PL_S3_INVALID_BUCKET_NAME},
    {PL_EPATH, PL_S3_INVALID_ARGUMENT},
    {PL_ENOTFOUND, PL_S3_NO_SUCH_KEY},
    {PL_EEXISTS, PL_S3_BUCKET_EXISTS},
    {PL_ECONFLICT, PL_S3_CONFLICT},
    {PL_ECOLLISION, PL_S3_INVALID_REQUEST},
    {PL_EOUTPUT, PL_S3_ACCESS_DENIED},
    {PL_EINUSE, PL_S3_CONFLICT},
    {PL_EAUTH, PL_S3_ACCESS_DENIED},
    {PL_EFORBIDDEN, PL_S3_ACCESS_DENIED},
    {PL_ETOOBIG, PL_S3_ENTITY_TOO_LARGE},
    {PL_ENOMEM, PL_S3_SLOW_DOWN},
    {PL_EBUSY, PL_S3_SLOW_DOWN},
    {PL_ELIMIT, PL_S3_SLOW_DOWN},
    {PL_ERETRY, PL_S3_SLOW_DOWN},
    {PL_ESTOPPING, PL_S3_UNAVAILABLE},
    {PL_EFENCED, PL_S3_UNAVAILABLE},
    {PL_ENOSPC, PL_S3_STORAGE_FULL},
    {PL_ENET, PL_S3_REQUEST_TIMEOUT},
    {PL_ETIMEOUT, PL_S3_REQUEST_TIMEOUT},
    {PL_EPROTO, PL_S3_INVALID_REQUEST},
    {PL_EUNAVAILABLE, PL_S3_NOT_IMPLEMENTED},
};

static int said_as(int code)
{
    if (code <= PL_S3_ERROR_FIRST && code > PL_S3_ERROR_FIRST - PL_S3_ERRORS)
        return code;
    for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++)
        if (words[i].code == code)
            return words[i].s3;
    return PL_S3_INTERNAL;
}

const struct pl_s3_error_info *pl_s3_error_info(int code)
{
    return &table[PL_S3_ERROR_FIRST - said_as(code)];
}

int pl_s3_error_of_store(int code, bool by_store)
{
    switch (code) {
    case PL_EFORBIDDEN:
    case PL_EAUTH:
    case PL_ENET:
    case PL_ETIMEOUT:
        return PL_S3_UNAVAILABLE;
    case PL_EIO:
    case PL_ECORRUPT:
        return PL_S3_INTERNAL;
    case PL_EINVAL: /* no such bucket, or a bucket of another region */
        return by_store ? PL_S3_UNAVAILABLE : 0;
    case PL_EBUSY:
    case PL_ENOMEM:
        return by_store ? PL_S3_SLOW_DOWN : 0;
    case PL_ENOSPC:
        return by_store ? PL_S3_STORAGE_FULL : 0;
    default:
        return by_store ? PL_S3_INTERNAL : 0;
    }
}

int pl_s3_error(struct pl_err *err, int code)
{
    return pl_err_set(err, code, "%s", pl_s3_error_info(code)->message);
}

/* Returns the row for an error, including those that only the HTTP server detects: an unknown method, a
 * malformed path. */
static const struct pl_s3_error_info *info_of(const struct pl_http_request *req, unsigned status, const struct pl_err *err)
{
    if (status == 405)
        return pl_s3_error_info(PL_S3_METHOD_NOT_ALLOWED);
    if (err->code == PL_EINVAL && !pl_http_request_route(req))
        return pl_s3_error_info(PL_S3_INVALID_URI);
    return pl_s3_error_info(err->code);
}

unsigned pl_s3_error_tell(struct pl_http_request *req, unsigned status, const struct pl_err *err, struct pl_buf *out)
{
    const struct pl_s3_error_info *info = info_of(req, status, err);
    char id[24];
    int r = pl_s3_xml_begin(out, "Error", false, NULL);

    snprintf(id, sizeof id, "%016llX", (unsigned long long)pl_http_request_id(req));
    r = r < 0 ? r : pl_s3_xml_add(out, "Code", info->code, NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "Message", *err->msg ? err->msg : info->message, NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "Resource", pl_http_path(req), NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "RequestId", id, NULL);
    r = r < 0 ? r : pl_s3_xml_close(out, "Error", NULL);
    if (r < 0)
        pl_buf_finish(out); /* no memory: the server then sends its own reply */
    return info->status;
}
