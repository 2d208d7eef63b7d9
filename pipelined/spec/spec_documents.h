/* spec_documents: the documents of one file: JSON objects one after another, with or without lines of "---" between them, or the elements
 * of one array. Pure. */
#pragma once

#include "storage/base/buf.h"

/* Finds the document that begins at or after `*at`: true, its first byte and its length, and `*at` is moved behind it. A text that is
 * neither is one document to its end: the spec reader says what is wrong with it. */
bool pl_spec_document_next(const char *text, size_t len, size_t *at, size_t *ret_from, size_t *ret_len);
/* The document as a text of its own in which every line and column is that of the file: line breaks and blanks before it. PL_ENOMEM. */
PL_MUST_CHECK
int pl_spec_document_text(const char *text, size_t from, size_t len, struct pl_buf *out, struct pl_err *err);
