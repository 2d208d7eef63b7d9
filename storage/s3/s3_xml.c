/* s3_xml: expat's callbacks build a tree of nodes in an arena; the writer escapes text byte by byte. */
#include "storage/s3/s3_xml.h"

#include "storage/base/arena.h"
#include "storage/base/path.h"

#include <expat.h>

#define MEMORY_MAX (PL_S3_XML_BYTES_MAX + (size_t)PL_S3_XML_NODES_MAX * 128)

struct pl_s3_xml {
    struct pl_arena *arena;
    struct pl_s3_xml_node *root;
};

/* State of one parse. */
struct reader {
    XML_Parser parser;
    struct pl_s3_xml *x;
    struct pl_s3_xml_node *open[PL_S3_XML_DEPTH_MAX]; /* open elements, from the root inward */
    struct pl_s3_xml_node *last[PL_S3_XML_DEPTH_MAX]; /* last child of each open element */
    size_t depth, nodes;
    struct pl_buf text; /* text of the innermost open element */
    int failed;
    struct pl_err *err;
};

static void fail(struct reader *r, int code, const char *why)
{
    if (r->failed == 0)
        r->failed = pl_err_set(r->err, code, "line %lu of the XML: %s", (unsigned long)XML_GetCurrentLineNumber(r->parser), why);
    XML_StopParser(r->parser, XML_FALSE);
}

static bool only_spaces(const struct pl_buf *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (strchr(" \t\r\n", b->data[i]) == NULL)
            return false;
    return true;
}

/* Adds a node for a start tag, if the limits allow it. */
static void on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct reader *r = arg;
    const char *colon = strrchr(name, ':');
    struct pl_s3_xml_node *node, *parent = r->depth > 0 ? r->open[r->depth - 1] : NULL;

    (void)attributes;
    if (r->failed < 0)
        return;
    if (r->depth == PL_S3_XML_DEPTH_MAX || r->nodes == PL_S3_XML_NODES_MAX) {
        fail(r, PL_ETOOBIG, r->depth == PL_S3_XML_DEPTH_MAX ? "its elements are nested too deeply" : "it has too many elements");
        return;
    }
    if (!only_spaces(&r->text) || (colon != NULL && colon[1] == '\0')) {
        fail(r, PL_EPROTO, only_spaces(&r->text) ? "an element without a name" : "text and elements are mixed");
        return;
    }
    node = pl_arena_alloc(r->x->arena, sizeof(*node));
    if (node == NULL || (node->name = pl_arena_strdup(r->x->arena, colon != NULL ? colon + 1 : name)) == NULL) {
        fail(r, PL_ENOMEM, "out of memory");
        return;
    }
    node->text = "";
    if (parent == NULL)
        r->x->root = node;
    else if (r->last[r->depth - 1] == NULL)
        parent->first = node;
    else
        r->last[r->depth - 1]->next = node;
    if (parent != NULL)
        r->last[r->depth - 1] = node;
    r->open[r->depth] = node;
    r->last[r->depth++] = NULL;
    r->nodes++;
    pl_buf_clear(&r->text);
}

static void on_end(void *arg, const XML_Char *name)
{
    struct reader *r = arg;
    struct pl_s3_xml_node *node;

    (void)name;
    if (r->failed < 0)
        return;
    node = r->open[--r->depth];
    if (node->first == NULL && r->text.len > 0) {
        node->text = pl_arena_strndup(r->x->arena, (const char *)r->text.data, r->text.len);
        if (node->text == NULL)
            fail(r, PL_ENOMEM, "out of memory");
    } else if (!only_spaces(&r->text)) {
        fail(r, PL_EPROTO, "text and elements are mixed");
    }
    pl_buf_clear(&r->text);
}

static void on_text(void *arg, const XML_Char *text, int len)
{
    struct reader *r = arg;

    if (r->failed == 0 && pl_buf_add(&r->text, text, (size_t)len, NULL) < 0)
        fail(r, PL_ENOMEM, "out of memory");
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *system, const XML_Char *public, int subset)
{
    (void)name, (void)system, (void)public, (void)subset;
    fail(arg, PL_EPROTO, "a document type is not accepted");
}

static int reader_run(struct reader *r, const void *data, size_t n, struct pl_err *err)
{
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, on_start, on_end);
    XML_SetCharacterDataHandler(r->parser, on_text);
    XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
    if (XML_Parse(r->parser, data, (int)n, XML_TRUE) == XML_STATUS_OK)
        return r->failed;
    if (r->failed < 0)
        return r->failed;
    if (XML_GetErrorCode(r->parser) == XML_ERROR_NO_MEMORY)
        return pl_err_nomem(err);
    return pl_err_set(err, PL_EPROTO, "line %lu of the XML: %s", (unsigned long)XML_GetCurrentLineNumber(r->parser),
                      XML_ErrorString(XML_GetErrorCode(r->parser)));
}

/* The tree is handed to the caller's document only after the whole text was accepted. */
int pl_s3_xml_parse(const void *data, size_t n, struct pl_s3_xml **ret, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    struct reader r = {.err = err, .text.max = PL_S3_XML_BYTES_MAX};
    int code;

    if (n > PL_S3_XML_BYTES_MAX)
        return pl_err_set(err, PL_ETOOBIG, "an XML document has %zu bytes; at most %u are accepted", n, PL_S3_XML_BYTES_MAX);
    /* the byte order mark of UTF-16, which would make expat ignore the encoding that is given to it below */
    if (n > 0 && *(const uint8_t *)data >= 0xFE)
        return pl_err_set(err, PL_EPROTO, "line 1 of the XML: the document is not UTF-8");
    x = calloc(1, sizeof(*x));
    if (x == NULL || (x->arena = pl_arena_create(MEMORY_MAX)) == NULL || (r.parser = XML_ParserCreate("UTF-8")) == NULL)
        return pl_err_nomem(err);
    r.x = x;
    code = reader_run(&r, n > 0 ? data : "", n, err);
    XML_ParserFree(r.parser);
    pl_buf_finish(&r.text);
    if (code < 0)
        return code;
    *ret = TAKE_PTR(x);
    return 0;
}

struct pl_s3_xml *pl_s3_xml_destroy(struct pl_s3_xml *x)
{
    if (x == NULL)
        return NULL;
    if (x->arena != NULL)
        (void)pl_arena_destroy(x->arena);
    free(x);
    return NULL;
}

const struct pl_s3_xml_node *pl_s3_xml_root(const struct pl_s3_xml *x)
{
    return x->root;
}

static const struct pl_s3_xml_node *find(const struct pl_s3_xml_node *node, const char *name)
{
    while (node != NULL && !pl_streq(node->name, name))
        node = node->next;
    return node;
}

const struct pl_s3_xml_node *pl_s3_xml_child(const struct pl_s3_xml_node *node, const char *name)
{
    return node != NULL ? find(node->first, name) : NULL;
}

const struct pl_s3_xml_node *pl_s3_xml_again(const struct pl_s3_xml_node *node)
{
    return find(node->next, node->name);
}

const char *pl_s3_xml_text(const struct pl_s3_xml_node *node, const char *name)
{
    const struct pl_s3_xml_node *child = pl_s3_xml_child(node, name);

    return child != NULL ? child->text : NULL;
}

/* ---- writer ---- */

int pl_s3_xml_begin(struct pl_buf *out, const char *root, bool s3_namespace, struct pl_err *err)
{
    return pl_buf_addf(out, err, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s%s>", root,
                       s3_namespace ? " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"" : "");
}

static int add_tag(struct pl_buf *out, const char *mark, size_t mark_len, const char *name, struct pl_err *err)
{
    size_t len = strlen(name);
    int r = pl_buf_reserve(out, mark_len + len + 1, err);

    r = r < 0 ? r : pl_buf_add(out, mark, mark_len, err);
    r = r < 0 ? r : pl_buf_add(out, name, len, err);
    return r < 0 ? r : pl_buf_add(out, ">", 1, err);
}

int pl_s3_xml_open(struct pl_buf *out, const char *name, struct pl_err *err)
{
    return add_tag(out, "<", 1, name, err);
}

int pl_s3_xml_close(struct pl_buf *out, const char *name, struct pl_err *err)
{
    return add_tag(out, "</", 2, name, err);
}

static int add_byte(struct pl_buf *out, char c, struct pl_err *err)
{
    switch (c) {
    case '&':
        return pl_buf_add_str(out, "&amp;", err);
    case '<':
        return pl_buf_add_str(out, "&lt;", err);
    case '>':
        return pl_buf_add_str(out, "&gt;", err);
    case '"':
        return pl_buf_add_str(out, "&quot;", err);
    case '\r': /* escaped, because an XML parser would replace a plain CR with a line feed */
        return pl_buf_add_str(out, "&#13;", err);
    default:
        return pl_buf_add_u8(out, (unsigned char)c < 0x20 && c != '\t' && c != '\n' ? '?' : (uint8_t)c, err);
    }
}

/* Returns true if `p` is the UTF-8 form of U+FFFE or U+FFFF, which XML does not allow. */
static bool no_character(const char *p)
{
    return (uint8_t)p[0] == 0xEF && (uint8_t)p[1] == 0xBF && ((uint8_t)p[2] & 0xFE) == 0xBE;
}

/* Returns the number of bytes at `p` that need no escaping. */
static size_t plain_run(const char *p)
{
    size_t n = 0;

    for (uint8_t c = (uint8_t)*p; c >= 0x20 && c < 0x80 && c != '&' && c != '<' && c != '>' && c != '"'; c = (uint8_t)p[n])
        n++;
    return n;
}

static int add_text(struct pl_buf *out, const char *p, struct pl_err *err)
{
    int r = 0;

    while (r == 0) {
        size_t run = plain_run(p);

        r = pl_buf_add(out, p, run, err);
        p += run;
        if (*p == '\0')
            break;
        if (no_character(p)) {
            r = r < 0 ? r : pl_buf_add_u8(out, '?', err);
            p += 3;
        } else {
            r = r < 0 ? r : add_byte(out, *p++, err);
        }
    }
    return r;
}

int pl_s3_xml_add(struct pl_buf *out, const char *name, const char *text, struct pl_err *err)
{
    _cleanup_free_ char *clean = NULL;
    int r = pl_s3_xml_open(out, name, err);

    if (!pl_utf8_ok(text, strlen(text))) {
        clean = strdup(text);
        if (clean == NULL)
            return pl_err_nomem(err);
        text = pl_utf8_clean(clean);
    }
    r = r < 0 ? r : add_text(out, text, err);
    return r < 0 ? r : pl_s3_xml_close(out, name, err);
}

int pl_s3_xml_add_u64(struct pl_buf *out, const char *name, uint64_t value, struct pl_err *err)
{
    char digits[24], *p = digits + sizeof digits - 1;

    *p = '\0';
    do
        *--p = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    return pl_s3_xml_add(out, name, p, err);
}
