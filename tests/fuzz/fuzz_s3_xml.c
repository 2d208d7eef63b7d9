// link: storage/base storage/s3
/* Any bytes as XML: refused with a reason, or a tree within its bounds, whose texts are written and read back the same. */
#include "storage/base/path.h"
#include "storage/s3/s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void write_and_read(const char *text)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};

    must(pl_s3_xml_begin(&out, "R", true, NULL) == 0 && pl_s3_xml_add(&out, "T", text, NULL) == 0);
    must(pl_s3_xml_close(&out, "R", NULL) == 0);
    must(pl_s3_xml_parse(out.data, out.len, &x, NULL) == 0);
    must(pl_streq(pl_s3_xml_text(pl_s3_xml_root(x), "T"), text));
}

static size_t visit(const struct pl_s3_xml_node *node, size_t depth)
{
    size_t n = 1;

    must(depth <= PL_S3_XML_DEPTH_MAX && node->name[0] != '\0' && pl_utf8_ok(node->text, strlen(node->text)));
    must(node->first == NULL || node->text[0] == '\0');
    if (node->text[0] != '\0')
        write_and_read(node->text);
    for (const struct pl_s3_xml_node *child = node->first; child != NULL; child = child->next)
        n += visit(child, depth + 1);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    struct pl_err err = {0};
    int r = pl_s3_xml_parse(data, n, &x, &err);

    if (r < 0) {
        must((r == PL_EPROTO || r == PL_ETOOBIG) && err.msg[0] != '\0');
        return 0;
    }
    must(visit(pl_s3_xml_root(x), 1) <= PL_S3_XML_NODES_MAX);
    return 0;
}
