/* uri: percent-encoding (RFC 3986). Pure; any thread. */
#pragma once

#include "storage/base/buf.h"

/* Appends `text` percent-encoded with upper-case digits. [A-Za-z0-9-._~] stay unchanged, and '/' if
 * `keep_slash`. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_uri_escape(const char *text, bool keep_slash, struct pl_buf *out, struct pl_err *err);
/* Decodes `len` bytes of percent-encoded text and appends the result. With `plus`, '+' means a space.
 * PL_EINVAL for a % without two hex digits, and for a NUL byte or %00, which a C string cannot contain.
 * PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_uri_unescape(const char *text, size_t len, bool plus, struct pl_buf *out, struct pl_err *err);
