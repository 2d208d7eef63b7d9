/* spec_documents: splits a file into documents: JSON objects one after another, optionally with lines of
 * "---" between them, or the elements of one array. Pure. */
#pragma once

#include "storage/base/buf.h"

/* Finds the next document at or after `*at`. Returns true with its first byte and its length, and sets `*at`
 * to the byte after it. A text of any other form is one document, for which the spec parser reports the
 * mistake. */
bool pl_spec_document_next(const char *text, size_t len, size_t *at, size_t *ret_from, size_t *ret_len);
/* Appends the document with line breaks and blanks before it, so that its lines and columns are those of the
 * file. PL_ENOMEM. */
PL_MUST_CHECK
int pl_spec_document_text(const char *text, size_t from, size_t len, struct pl_buf *out, struct pl_err *err);
