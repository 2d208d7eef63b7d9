/* s3_xml: the XML documents of S3: a strict reader of small documents (libexpat) and a writer. Pure; any
 * thread.
 *
 * The reader accepts only UTF-8 and no DTD, and therefore no entities except the five predefined ones. It
 * skips attributes and comments, drops namespace prefixes, and accepts text only in elements without
 * children. Documents beyond the limits below are refused. */
#pragma once

#include "storage/base/buf.h"

#define PL_S3_XML_BYTES_MAX                                                                                                      \
    (4u << 20) /* enough for 1,000 keys of 1,024 bytes with every byte encoded as %XX, and 1 KiB per key */
#define PL_S3_XML_DEPTH_MAX 8
#define PL_S3_XML_NODES_MAX 65536

struct pl_s3_xml_node {
    const char *name;                    /* without namespace prefix */
    const char *text;                    /* "" if the node has children */
    struct pl_s3_xml_node *first, *next; /* first child; next sibling */
};
struct pl_s3_xml; /* opaque: a document and its memory */

/* Parses a document, which the caller frees. PL_EPROTO (the message has the line) if it is not accepted,
 * PL_ETOOBIG beyond a limit, PL_ENOMEM. */
PL_MUST_CHECK
int pl_s3_xml_parse(const void *data, size_t n, struct pl_s3_xml **ret, struct pl_err *err);
struct pl_s3_xml *pl_s3_xml_destroy(struct pl_s3_xml *x);
static inline void pl_s3_xml_destroyp(struct pl_s3_xml **x)
{
    *x = pl_s3_xml_destroy(*x);
}
/* Returns the root, never NULL. Nodes and their strings belong to the document. */
const struct pl_s3_xml_node *pl_s3_xml_root(const struct pl_s3_xml *x);
/* Returns the first child with that name, or NULL. `node` may be NULL. */
const struct pl_s3_xml_node *pl_s3_xml_child(const struct pl_s3_xml_node *node, const char *name);
/* Returns the next sibling with the same name, or NULL. */
const struct pl_s3_xml_node *pl_s3_xml_again(const struct pl_s3_xml_node *node);
/* Returns the text of the first child with that name; NULL if there is none. */
const char *pl_s3_xml_text(const struct pl_s3_xml_node *node, const char *name);

/* The writer functions append to `out`. Texts are UTF-8; characters that XML 1.0 does not allow (control
 * characters, invalid UTF-8) are replaced by "?". PL_ENOMEM, PL_ETOOBIG beyond out->max. */

/* Writes the XML declaration and the start tag of the root, with S3's namespace if `s3_namespace`. */
PL_MUST_CHECK
int pl_s3_xml_begin(struct pl_buf *out, const char *root, bool s3_namespace, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_xml_open(struct pl_buf *out, const char *name, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_xml_close(struct pl_buf *out, const char *name, struct pl_err *err);
/* Writes <name>text</name>, with the text escaped. */
PL_MUST_CHECK
int pl_s3_xml_add(struct pl_buf *out, const char *name, const char *text, struct pl_err *err);
/* Writes an element that contains a decimal number. */
PL_MUST_CHECK
int pl_s3_xml_add_u64(struct pl_buf *out, const char *name, uint64_t value, struct pl_err *err);
