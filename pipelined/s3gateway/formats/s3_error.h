/* s3_error: S3's error codes. The codes of this table are carried in struct pl_err like the PL_E… codes;
 * no number is used by both. PL_E… codes are translated to S3's when the reply is made. */
#pragma once

#include "storage/base/buf.h"

/* X(NAME, S3's code, HTTP status, S3's message) */
#define PL_S3_ERROR_MAP(X)                                                                                                       \
    X(ACCESS_DENIED, "AccessDenied", 403, "Access Denied")                                                                       \
    X(ACCESS_FORBIDDEN, "AccessForbidden", 403, "CORSResponse: this CORS request is not allowed.")                               \
    X(ACL_NOT_SUPPORTED, "AccessControlListNotSupported", 400, "The bucket does not allow ACLs")                                 \
    X(BAD_DIGEST, "BadDigest", 400, "The Content-MD5 or checksum value that you specified did not match what we received.")      \
    X(BAD_HEADER, "AuthorizationHeaderMalformed", 400, "The authorization header is malformed.")                                 \
    X(BAD_QUERY, "AuthorizationQueryParametersError", 400, "Query-string authentication parameters are malformed.")              \
    X(BUCKET_ACL, "InvalidBucketAclWithObjectOwnership", 400,                                                                    \
      "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")                                          \
    X(BUCKET_EXISTS, "BucketAlreadyOwnedByYou", 409, "Your previous request to create the named bucket succeeded.")              \
    X(BUCKET_NOT_EMPTY, "BucketNotEmpty", 409, "The bucket you tried to delete is not empty.")                                   \
    X(CHUNK_SIZE, "InvalidChunkSizeError", 403, "A chunk of the body is too large.")                                             \
    X(CONFLICT, "OperationAborted", 409, "A conflicting conditional operation is currently in progress against this resource.")  \
    X(ENTITY_TOO_LARGE, "EntityTooLarge", 400, "Your proposed upload exceeds the maximum allowed object size.")                  \
    X(ENTITY_TOO_SMALL, "EntityTooSmall", 400, "Your proposed upload is smaller than the minimum allowed object size.")          \
    X(INCOMPLETE_BODY, "IncompleteBody", 400,                                                                                    \
      "You did not provide the number of bytes specified by the Content-Length HTTP header.")                                    \
    X(INTERNAL, "InternalError", 500, "We encountered an internal error. Please try again.")                                     \
    X(INVALID_ACCESS_KEY, "InvalidAccessKeyId", 403, "The AWS access key ID you provided does not exist in our records.")        \
    X(INVALID_ARGUMENT, "InvalidArgument", 400, "Invalid Argument")                                                              \
    X(INVALID_BUCKET_NAME, "InvalidBucketName", 400, "The specified bucket is not valid.")                                       \
    X(INVALID_DIGEST, "InvalidDigest", 400, "The Content-MD5 you specified is not valid.")                                       \
    X(INVALID_PART, "InvalidPart", 400,                                                                                          \
      "One or more of the specified parts could not be found. The part might not have been uploaded, or the specified entity"    \
      " tag might not have matched the part's entity tag.")                                                                      \
    X(INVALID_PART_NUMBER, "InvalidPartNumber", 416, "The requested partnumber is not satisfiable")                              \
    X(INVALID_PART_ORDER, "InvalidPartOrder", 400, "The list of parts was not in ascending order.")                              \
    X(INVALID_RANGE, "InvalidRange", 416, "The requested range is not satisfiable.")                                             \
    X(INVALID_REQUEST, "InvalidRequest", 400, "Invalid Request")                                                                 \
    X(INVALID_STORAGE_CLASS, "InvalidStorageClass", 400, "The storage class you specified is not valid: use STANDARD.")          \
    X(INVALID_TAG, "InvalidTag", 400, "The tag provided was not a valid tag.")                                                   \
    X(INVALID_URI, "InvalidURI", 400, "Couldn't parse the specified URI.")                                                       \
    X(KEY_TOO_LONG, "KeyTooLongError", 400, "Your key is too long.")                                                             \
    X(MALFORMED_TRAILER, "MalformedTrailerError", 400,                                                                           \
      "The request contained trailing data that was not well-formed or did not conform to our published schema.")                \
    X(MALFORMED_XML, "MalformedXML", 400,                                                                                        \
      "The XML you provided was not well-formed or did not validate against our published schema.")                              \
    X(METADATA_TOO_LARGE, "MetadataTooLarge", 400, "Your metadata headers exceed the maximum allowed metadata size.")            \
    X(METHOD_NOT_ALLOWED, "MethodNotAllowed", 405, "The specified method is not allowed against this resource.")                 \
    X(MISSING_LENGTH, "MissingContentLength", 411, "You must provide the Content-Length HTTP header.")                           \
    X(NO_SUCH_BUCKET, "NoSuchBucket", 404, "The specified bucket does not exist")                                                \
    X(NO_SUCH_CORS, "NoSuchCORSConfiguration", 404, "The CORS configuration does not exist")                                     \
    X(NO_SUCH_KEY, "NoSuchKey", 404, "The specified key does not exist.")                                                        \
    X(NO_SUCH_UPLOAD, "NoSuchUpload", 404,                                                                                       \
      "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.")    \
    X(NO_SUCH_VERSION, "NoSuchVersion", 404, "The specified version does not exist.")                                            \
    X(NOT_IMPLEMENTED, "NotImplemented", 501, "A header or query you provided implies functionality that is not implemented.")   \
    X(PRECONDITION_FAILED, "PreconditionFailed", 412, "At least one of the pre-conditions you specified did not hold")           \
    X(REQUEST_TIMEOUT, "RequestTimeout", 400,                                                                                    \
      "Your socket connection to the server was not read from or written to within the timeout period.")                         \
    X(SIGNATURE_MISMATCH, "SignatureDoesNotMatch", 403,                                                                          \
      "The request signature we calculated does not match the signature you provided. Check your key and signing method.")       \
    X(SLOW_DOWN, "SlowDown", 503, "Please reduce your request rate.")                                                            \
    X(STORAGE_FULL, "InsufficientStorage", 507, "There is not enough space to store the object.")                                \
    X(TIME_TOO_SKEWED, "RequestTimeTooSkewed", 403,                                                                              \
      "The difference between the request time and the server's time is too large.")                                             \
    X(UNAVAILABLE, "ServiceUnavailable", 503, "Service is unable to handle request.")                                            \
    X(WRONG_SHA256, "XAmzContentSHA256Mismatch", 400,                                                                            \
      "The provided 'x-amz-content-sha256' header does not match what was computed.")

enum {
#define PL_S3_ERROR_ORDER(name, ...) PL_S3_ORDER_##name,
    PL_S3_ERROR_MAP(PL_S3_ERROR_ORDER)
#undef PL_S3_ERROR_ORDER
        PL_S3_ERRORS
};
#define PL_S3_ERROR_FIRST (-1000)
enum {
#define PL_S3_ERROR_ENUM(name, ...) PL_S3_##name = PL_S3_ERROR_FIRST - PL_S3_ORDER_##name,
    PL_S3_ERROR_MAP(PL_S3_ERROR_ENUM)
#undef PL_S3_ERROR_ENUM
};

struct pl_s3_error_info {
    const char *code;
    unsigned status;
    const char *message;
};
/* Returns the row of a code: a code of this table, or a PL_E… code, which is translated. */
const struct pl_s3_error_info *pl_s3_error_info(int code);
/* Returns the code to reply in place of a PL_E… code with which the daemon's own store, or the network to it, failed;
 * 0 if `code` is no such failure. `by_store`: the store is known to have set the code. Without it, only the codes that
 * nothing but a store or a network sets are taken for its failures. */
int pl_s3_error_of_store(int code, bool by_store);
/* Sets the code with its message from the table; returns the code. */
int pl_s3_error(struct pl_err *err, int code);
/* Writes the error as S3's XML document; for pl_http_options.tell. */
struct pl_http_request;
unsigned pl_s3_error_tell(struct pl_http_request *req, unsigned status, const struct pl_err *err, struct pl_buf *out);
