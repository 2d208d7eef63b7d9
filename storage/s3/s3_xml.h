/* s3_xml: the XML documents of S3: a strict reader of small ones (libexpat) and a writer. Pure; any thread.
 *
 * Reader: UTF-8 only, no DTD and so no entities but the five, attributes and comments skipped, prefixes of namespaces dropped, text only
 * in elements without children. Bounds below; what is past them is refused, whatever it says. */
#pragma once

#include "storage/base/buf.h"

#define PL_S3_XML_BYTES_MAX                                                                                                      \
    (4u << 20) /* a list of 1,000 keys of 1,024 bytes, each byte %XX, has 3 MiB and 1 KiB beside each key */
#define PL_S3_XML_DEPTH_MAX 8
#define PL_S3_XML_NODES_MAX 65536

struct pl_s3_xml_node {
    const char *name;                    /* without prefix */
    const char *text;                    /* "" when it has children */
    struct pl_s3_xml_node *first, *next; /* children; sibling */
};
struct pl_s3_xml; /* opaque: a document and its memory */

/* PL_EPROTO with the line when it is no such XML, PL_ETOOBIG past a bound, PL_ENOMEM. */
PL_MUST_CHECK
int pl_s3_xml_parse(const void *data, size_t n, struct pl_s3_xml **ret, struct pl_err *err);
struct pl_s3_xml *pl_s3_xml_destroy(struct pl_s3_xml *x);
static inline void pl_s3_xml_destroyp(struct pl_s3_xml **x)
{
    *x = pl_s3_xml_destroy(*x);
}
/* Never NULL. Nodes live as long as the document. */
const struct pl_s3_xml_node *pl_s3_xml_root(const struct pl_s3_xml *x);
/* The first child of that name; NULL. `node` may be NULL. */
const struct pl_s3_xml_node *pl_s3_xml_child(const struct pl_s3_xml_node *node, const char *name);
/* The next sibling of the same name; NULL. */
const struct pl_s3_xml_node *pl_s3_xml_again(const struct pl_s3_xml_node *node);
/* The text of the first child of that name; NULL when there is none. */
const char *pl_s3_xml_text(const struct pl_s3_xml_node *node, const char *name);

/* Writer: appends to `out`. Texts are UTF-8; what XML 1.0 cannot hold (control characters, invalid UTF-8) becomes "?". PL_ENOMEM,
 * PL_ETOOBIG past out->max. */

/* The declaration and the root's start, in S3's namespace when `s3_namespace`. */
PL_MUST_CHECK
int pl_s3_xml_begin(struct pl_buf *out, const char *root, bool s3_namespace, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_xml_open(struct pl_buf *out, const char *name, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_xml_close(struct pl_buf *out, const char *name, struct pl_err *err);
/* <name>text</name>, escaped. */
PL_MUST_CHECK
int pl_s3_xml_add(struct pl_buf *out, const char *name, const char *text, struct pl_err *err);
/* The same with a number. */
PL_MUST_CHECK
int pl_s3_xml_add_u64(struct pl_buf *out, const char *name, uint64_t value, struct pl_err *err);
