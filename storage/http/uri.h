/* uri: percent-encoding of RFC 3986. Pure; any thread. */
#pragma once

#include "storage/base/buf.h"

/* Appends `text` percent-encoded with upper-case digits: [A-Za-z0-9-._~] stay, '/' too when `keep_slash`. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_uri_escape(const char *text, bool keep_slash, struct pl_buf *out, struct pl_err *err);
/* Appends the bytes that `len` bytes of text stand for. '+' is a space when `plus`. PL_EINVAL for a % without two hex digits and for
 * %00, which no C string can hold. */
PL_MUST_CHECK
int pl_uri_unescape(const char *text, size_t len, bool plus, struct pl_buf *out, struct pl_err *err);
