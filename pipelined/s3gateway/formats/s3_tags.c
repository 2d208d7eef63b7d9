/* Reads tags into a list, checks it, and writes it in the stored form. */
#include "pipelined/s3gateway/formats/s3_tags.h"

#include "pipelined/s3gateway/formats/s3_error.h"
#include "storage/base/path.h"
#include "storage/http/uri.h"
#include "storage/s3/s3_xml.h"

#include <stdio.h>
#include <strings.h>

struct tag {
    char *key, *value; /* owned */
};
struct tags {
    struct tag list[PL_S3_TAGS_MAX];
    size_t n;
};

static void tags_finish(struct tags *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->list[i].key);
        free(t->list[i].value);
    }
}

/* ---- checking ---- */

/* Returns the number of characters of UTF-8 text. */
static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

static bool text_ok(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7F)
            return false;
    return pl_utf8_ok(text, strlen(text));
}

/* Checks a tag and adds a copy of it. */
static int add(struct tags *t, const char *key, const char *value, struct pl_err *err)
{
    struct tag *tag = &t->list[t->n];

    if (t->n == PL_S3_TAGS_MAX)
        return pl_err_set(err, PL_S3_INVALID_TAG, "Object tags cannot be greater than %u", PL_S3_TAGS_MAX);
    if (!*key || characters(key) > PL_S3_TAG_KEY_MAX || !text_ok(key))
        return pl_err_set(
            err, PL_S3_INVALID_TAG,
            "The TagKey you have provided is invalid: \"%.150s\": 1 to %u characters of UTF-8 are accepted, no control "
            "characters.",
            key, PL_S3_TAG_KEY_MAX);
    if (characters(value) > PL_S3_TAG_VALUE_MAX || !text_ok(value))
        return pl_err_set(
            err, PL_S3_INVALID_TAG,
            "The TagValue you have provided is invalid: \"%.300s\": at most %u characters of UTF-8 are accepted, no "
            "control characters.",
            value, PL_S3_TAG_VALUE_MAX);
    if (strncasecmp(key, "aws:", 4) == 0)
        return pl_err_set(err, PL_S3_INVALID_TAG, "System tags cannot be added/updated by requester: \"%.150s\"", key);
    for (size_t i = 0; i < t->n; i++)
        if (pl_streq(t->list[i].key, key))
            return pl_err_set(err, PL_S3_INVALID_TAG, "Cannot provide multiple Tags with the same key: \"%.150s\"", key);
    *tag = (struct tag){strdup(key), strdup(value)};
    t->n++;
    return tag->key && tag->value ? 0 : pl_err_nomem(err);
}

/* ---- texts ---- */

static int decode(const char *text, size_t len, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_uri_unescape(text, len, true, out, NULL);

    if (r == PL_ENOMEM || (r == 0 && !pl_buf_str(out)))
        return pl_err_nomem(err);
    return r < 0 ? pl_err_set(err, PL_S3_INVALID_ARGUMENT,
                              "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without "
                              "tag name duplicates.")
                 : 0;
}

/* Reads KEY=VALUE&…, of a header or as stored. */
static int read_text(struct tags *t, const char *text, size_t len, struct pl_err *err)
{
    const char *end = text + len;
    int r = 0;

    while (text < end && r == 0) {
        _cleanup_(pl_buf_finish) struct pl_buf key = {0}, value = {0};
        const char *and = memchr(text, '&', (size_t)(end - text)), *stop = and? and : end;
        const char *equals = memchr(text, '=', (size_t)(stop - text));

        if (stop > text) {
            r = decode(text, (size_t)((equals ? equals : stop) - text), &key, err);
            r = r < 0 ? r : decode(equals ? equals + 1 : stop, equals ? (size_t)(stop - equals - 1) : 0, &value, err);
            r = r < 0 ? r : add(t, pl_buf_str(&key), pl_buf_str(&value), err);
        }
        text = stop + 1;
    }
    return r;
}

static int write_text(const char *text, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (const char *p = text; *p && r == 0; p++)
        r = strchr("%&=+", *p) ? pl_buf_addf(out, err, "%%%02X", (unsigned)(unsigned char)*p) : pl_buf_add(out, p, 1, err);
    return r;
}

static int by_key(const void *a, const void *b)
{
    const struct tag *x = a, *y = b;

    return strcmp(x->key, y->key);
}

/* Writes the tags sorted by key: the same tags in another order are no change. */
static int write_stored(struct tags *t, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    qsort(t->list, t->n, sizeof *t->list, by_key);
    for (size_t i = 0; i < t->n && r == 0; i++) {
        r = i ? pl_buf_add(out, "&", 1, err) : 0;
        r = r < 0 ? r : write_text(t->list[i].key, out, err);
        r = r < 0 ? r : pl_buf_add(out, "=", 1, err);
        r = r < 0 ? r : write_text(t->list[i].value, out, err);
    }
    return r;
}

int pl_s3_tags_of_header(const char *text, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(tags_finish) struct tags t = {0};
    int r = read_text(&t, text, strlen(text), err);

    return r < 0 ? r : write_stored(&t, out, err);
}

size_t pl_s3_tags_count(const char *stored, size_t len)
{
    size_t n = len > 0;

    for (size_t i = 0; i < len; i++)
        n += stored[i] == '&';
    return n;
}

/* ---- XML ---- */

int pl_s3_tags_of_xml(const struct pl_s3_xml_node *root, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(tags_finish) struct tags t = {0};
    const struct pl_s3_xml_node *set = pl_s3_xml_child(root, "TagSet");
    int r = set ? 0 : pl_s3_error(err, PL_S3_MALFORMED_XML);

    for (const struct pl_s3_xml_node *tag = set ? set->first : NULL; tag && r == 0; tag = tag->next) {
        const char *key = pl_s3_xml_text(tag, "Key"), *value = pl_s3_xml_text(tag, "Value");

        if (!pl_streq(tag->name, "Tag") || !key || !value)
            return pl_s3_error(err, PL_S3_MALFORMED_XML);
        r = add(&t, key, value, err);
    }
    return r < 0 ? r : write_stored(&t, out, err);
}

int pl_s3_tags_xml(const char *stored, size_t len, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(tags_finish) struct tags t = {0};
    int r = read_text(&t, stored, len, err);

    r = r < 0 ? r : pl_s3_xml_begin(out, "Tagging", true, err);
    r = r < 0 ? r : pl_s3_xml_open(out, "TagSet", err);
    for (size_t i = 0; i < t.n && r == 0; i++) {
        r = pl_s3_xml_open(out, "Tag", err);
        r = r < 0 ? r : pl_s3_xml_add(out, "Key", t.list[i].key, err);
        r = r < 0 ? r : pl_s3_xml_add(out, "Value", t.list[i].value, err);
        r = r < 0 ? r : pl_s3_xml_close(out, "Tag", err);
    }
    r = r < 0 ? r : pl_s3_xml_close(out, "TagSet", err);
    return r < 0 ? r : pl_s3_xml_close(out, "Tagging", err);
}
