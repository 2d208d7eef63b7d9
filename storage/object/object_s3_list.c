/* object_s3_list: ListObjectsV2, page after page. Each page is parsed and its keys are visited before the
 * next one is requested. */
#include "storage/object/object_s3.h"

#include "storage/http/uri.h"
#include "storage/s3/s3_xml.h"
#include "storage/s3/sigv4_encoding.h"

#include <stdio.h>

/* State of a listing. */
struct listing {
    struct pl_object_s3 *s;
    size_t prefix_len; /* length of the store's prefix, which is removed from keys before they are visited */
    pl_object_visit_fn visit;
    void *arg;
    /* the listing starts after this key, which includes the prefix; "" = at the first key */
    const char *after;
    char last[PL_S3_KEY_MAX + 1]; /* the previous key, with prefix */
    struct pl_buf token, key;     /* continuation token; current key */
    bool more;
    unsigned empty; /* consecutive pages without a key */
};

static void listing_finish(struct listing *l)
{
    pl_buf_finish(&l->token);
    pl_buf_finish(&l->key);
}

static bool is_true(const char *text)
{
    return text != NULL && pl_streq(text, "true");
}

static int read_size(const char *text, uint64_t *ret, struct pl_err *err)
{
    char *end;

    *ret = text != NULL ? strtoull(text, &end, 10) : 0;
    return text != NULL && *text >= '0' && *text <= '9' && *end == '\0'
               ? 0
               : pl_err_set(err, PL_EPROTO, "an object in the server's list has no size");
}

/* Stores the decoded key in l->key. Servers that support `encoding-type` say so in the response. */
static int read_key(struct listing *l, const char *text, bool encoded, struct pl_err *err)
{
    int r;

    pl_buf_clear(&l->key);
    if (text == NULL)
        return pl_err_set(err, PL_EPROTO, "an object in the server's list has no key");
    r = encoded ? pl_uri_unescape(text, strlen(text), true, &l->key, err) : pl_buf_add_str(&l->key, text, err);
    if (r == 0 && l->key.len > PL_S3_KEY_MAX)
        r = pl_err_set(err, PL_EPROTO, "the server's list has a key that is too long: %zu bytes", l->key.len);
    return r == 0 && pl_buf_str(&l->key) == NULL ? pl_err_nomem(err) : r;
}

/* Visits one key. A positive result was returned by the visitor and ends the listing. Skips keys that are not
 * valid keys of this store, and the keys of pl_object_s3_probe. */
static int visit_one(struct listing *l, const struct pl_s3_xml_node *node, bool encoded, struct pl_err *err)
{
    const char *key;
    uint64_t size = 0;
    int r = read_key(l, pl_s3_xml_text(node, "Key"), encoded, err);

    if (r == 0)
        r = read_size(pl_s3_xml_text(node, "Size"), &size, err);
    if (r < 0)
        return r;
    key = (const char *)l->key.data;
    if (l->last[0] != '\0' && strcmp(key, l->last) <= 0)
        return pl_err_set(err, PL_EPROTO, "the server lists %.200s after %.200s: this store needs keys in byte order", key,
                          l->last);
    memcpy(l->last, key, l->key.len + 1);
    if (strcmp(key, l->after) <= 0) /* the server does not support start-after */
        return 0;
    if (l->key.len < l->prefix_len || pl_path_object_key_check(key + l->prefix_len, NULL) < 0)
        return 0;
    return l->visit(l->arg, key + l->prefix_len, size, err);
}

/* Parses a page, notes where the next one starts, and visits the keys. */
static int read_page(struct listing *l, const struct pl_buf *reply, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    const struct pl_s3_xml_node *root, *c;
    const char *encoding, *token;
    int r = pl_s3_xml_parse(reply->data, reply->len, &x, err);

    if (r < 0)
        return r;
    root = pl_s3_xml_root(x);
    if (!pl_streq(root->name, "ListBucketResult"))
        return pl_err_set(err, PL_EPROTO, "the response to a list request is a document \"%.64s\"", root->name);
    encoding = pl_s3_xml_text(root, "EncodingType");
    l->more = is_true(pl_s3_xml_text(root, "IsTruncated"));
    token = pl_s3_xml_text(root, "NextContinuationToken");
    if (l->more && token == NULL)
        return pl_err_set(err, PL_EPROTO, "the server's list continues, but has no continuation token");
    pl_buf_clear(&l->token);
    r = l->more ? pl_buf_add_str(&l->token, token, err) : 0;
    l->empty = pl_s3_xml_child(root, "Contents") == NULL ? l->empty + 1 : 0;
    if (l->more && l->empty == PL_S3_EMPTY_PAGES)
        return pl_err_set(err, PL_EPROTO, "the server's list continues, but %u consecutive pages were empty", l->empty);
    for (c = pl_s3_xml_child(root, "Contents"); c != NULL && r == 0; c = pl_s3_xml_again(c))
        r = visit_one(l, c, encoding != NULL && pl_streq(encoding, "url"), err);
    return r;
}

static int get_page(struct listing *l, const char *prefix, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_sigv4_pair next = l->more ? (struct pl_sigv4_pair){"continuation-token", pl_buf_str(&l->token)}
                                              : (struct pl_sigv4_pair){"start-after", l->after};
    const struct pl_sigv4_pair query[] = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}, next};
    struct pl_s3_call call = {
        .method = "GET", .query = query, .n_query = l->more || l->after[0] != '\0' ? 4 : 3, .xml = true, .expect = 200};
    int r = next.value != NULL ? pl_s3_client_run(l->s->client, &call, err) : pl_err_nomem(err);

    *ret = call.reply;
    call.reply = (struct pl_buf){0};
    pl_s3_call_finish(&call);
    return r;
}

int pl_object_s3_list(struct pl_object_store *store, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                      struct pl_err *err)
{
    struct pl_object_s3 *s = pl_object_s3_of(store);
    char whole[2 * PL_OBJECT_KEY_MAX + 8], whole_after[2 * PL_OBJECT_KEY_MAX + 8] = "";
    _cleanup_(listing_finish) struct listing l = {
        .s = s, .prefix_len = strlen(s->place.prefix), .visit = visit, .arg = arg, .after = whole_after};
    int r;

    if (strlen(prefix) > PL_OBJECT_KEY_MAX || strlen(after) > PL_OBJECT_KEY_MAX)
        return 0; /* longer than any key */
    if (*after != '\0')
        (void)snprintf(whole_after, sizeof(whole_after), "%s%s", s->place.prefix, after);
    (void)snprintf(whole, sizeof(whole), "%s%s", s->place.prefix, prefix);
    do {
        _cleanup_(pl_buf_finish) struct pl_buf page = {0};

        r = get_page(&l, whole, &page, err);
        if (r < 0)
            return pl_err_wrap(err, r, "list objects");
        r = read_page(&l, &page, err);
    } while (r == 0 && l.more);
    return PL_MIN(r, 0);
}
