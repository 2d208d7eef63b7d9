/* ListObjects, versions 1 and 2: walks the keys of a branch with its open commits, in order, beginning after
 * a given key. Keys that share a prefix up to the delimiter become one line: the first such key adds the
 * line, and a seek skips the others.
 *
 * A key "name/" that ends with a slash is an empty folder. The tree stores it under "name", without the
 * slash. The walk therefore meets it before "name-…" and "name.…", but S3 sorts "name/" after these keys.
 * When the walk meets a folder, it holds the folder back in `folders`, where each path is a prefix of the
 * next. It lists the folder only after all keys that sort before "name/". */
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "storage/http/uri.h"
#include "storage/s3/s3_xml.h"

#include <stdio.h>

/* largest number of paths examined for one page; the page then ends, if it has at least one line */
#define STEPS_MAX     200000u
#define FOLDERS_MAX   PL_PATH_MAX_BYTES
#define PLACE_MAX     (PL_PATH_MAX_BYTES + 2)
#define PAGE_MAX      (16u << 20)
#define TOKEN_VERSION '1'

struct list {
    struct pl_s3_request *q;
    struct pl_branch_view view;
    struct pl_branch_walk *walk;
    const char *prefix, *delimiter;
    size_t prefix_len, delimiter_len;
    uint64_t max_keys;
    bool v2, url, owner;
    /* position of the list: all keys up to and including `place` were listed or skipped; "" = the start */
    char place[PLACE_MAX];
    size_t place_len;

    /* path of the longest empty folder that the walk has met but not listed yet (held back) */
    char folder[PLACE_MAX];
    uint16_t folders[FOLDERS_MAX]; /* lengths of the held-back folders, all of them prefixes of `folder` */
    size_t n_folders;

    struct pl_buf keys, prefixes;
    uint64_t n;
    bool truncated;
};

static void list_finish(struct list *l)
{
    pl_branch_walk_destroy(l->walk);
    pl_branch_view_finish(&l->view);
    pl_buf_finish(&l->keys);
    pl_buf_finish(&l->prefixes);
}

/* ---- lines ---- */

int pl_s3_add_text(bool url, struct pl_buf *out, const char *element, const char *text, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf escaped = {0};
    int r;

    if (!url)
        return pl_s3_xml_add(out, element, text, err);
    r = pl_uri_escape(text, true, &escaped, err);
    if (r == 0 && !pl_buf_str(&escaped))
        return pl_err_nomem(err);
    return r < 0 ? r : pl_s3_xml_add(out, element, (const char *)escaped.data, err);
}

int pl_s3_add_owner(const struct pl_s3_request *q, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_s3_xml_open(out, "Owner", err);

    r = r < 0 ? r : pl_s3_xml_add(out, "ID", q->claim.access_key, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "DisplayName", q->who->name, err);
    return r < 0 ? r : pl_s3_xml_close(out, "Owner", err);
}

static int add_key(struct list *l, const char *key, const struct pl_branch_file *f, struct pl_err *err)
{
    char etag[PL_S3_ETAG_MAX + 1], quoted[PL_S3_ETAG_MAX + 3], time[32];
    struct pl_buf *out = &l->keys;
    int r = pl_s3_xml_open(out, "Contents", err);

    pl_s3_etag(&f->entry, &f->attributes, etag);
    pl_s3_quote(etag, quoted);
    pl_s3_iso_time(pl_s3_modified(&l->view, f), time);
    r = r < 0 ? r : pl_s3_add_text(l->url, out, "Key", key, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "LastModified", time, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "ETag", quoted, err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "Size", f->entry.kind == PL_KIND_DIR ? 0 : f->entry.size, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "StorageClass", "STANDARD", err);
    r = r < 0 || (l->v2 && !l->owner) ? r : pl_s3_add_owner(l->q, out, err);
    return r < 0 ? r : pl_s3_xml_close(out, "Contents", err);
}

static int add_prefix(struct list *l, const char *prefix, struct pl_err *err)
{
    int r = pl_s3_xml_open(&l->prefixes, "CommonPrefixes", err);

    r = r < 0 ? r : pl_s3_add_text(l->url, &l->prefixes, "Prefix", prefix, err);
    return r < 0 ? r : pl_s3_xml_close(&l->prefixes, "CommonPrefixes", err);
}

/* ---- keys in order ---- */

static void set_place(struct list *l, const char *text, size_t len)
{
    memcpy(l->place, text, len);
    l->place[len] = '\0';
    l->place_len = len;
}

/* Returns the length of the key's common prefix: the part up to the first delimiter after `prefix`, with the
 * delimiter. Returns 0 if the key has none. */
static size_t common(const struct list *l, const char *key, size_t len)
{
    const char *at;

    if (!l->delimiter_len || len < l->prefix_len)
        return 0;
    at = memmem(key + l->prefix_len, len - l->prefix_len, l->delimiter, l->delimiter_len);
    return at ? (size_t)(at - key) + l->delimiter_len : 0;
}

/* Seeks past all keys with this prefix, by incrementing its last byte that is not 0xFF. */
static int seek_past(struct list *l, const char *prefix, size_t len, struct pl_err *err)
{
    char next[PLACE_MAX];

    memcpy(next, prefix, len);
    while (len && (uint8_t)next[len - 1] == 0xFF)
        len--;
    if (len)
        next[len - 1]++;
    return len ? pl_branch_walk_seek(l->walk, next, len, err) : 0;
}

enum { FULL = 0, ON = 1 };

/* Adds one key: its own line, or the line of its common prefix. Keys must be given in S3's order. Returns ON,
 * FULL or an error. */
static int give(struct list *l, const char *key, size_t len, const struct pl_branch_file *f, struct pl_err *err)
{
    size_t shared;
    char text[PLACE_MAX];
    int r;

    if (pl_key_cmp_prefix(key, len, l->prefix, l->prefix_len) != 0 || pl_key_cmp(key, len, l->place, l->place_len) <= 0)
        return ON;
    shared = common(l, key, len);
    if (shared && pl_key_cmp(key, shared, l->place, l->place_len) <= 0)
        return ON; /* the common prefix of this key already has its line on a page */
    if (l->n == l->max_keys) {
        l->truncated = true;
        return FULL;
    }
    memcpy(text, key, len);
    text[shared ? shared : len] = '\0';
    r = shared ? add_prefix(l, text, err) : add_key(l, text, f, err);
    if (r < 0)
        return r;
    l->n++;
    set_place(l, text, strlen(text));
    if (!shared)
        return ON;
    r = seek_past(l, text, shared, err);
    return r < 0 ? r : ON;
}

/* ---- empty folders ---- */

static struct pl_branch_file a_folder(void)
{
    return (struct pl_branch_file){.entry = pl_entry_dir()};
}

/* Lists the held-back empty folders that sort before `key`; `key` NULL: all held-back folders. */
static int give_folders(struct list *l, const char *key, size_t len, struct pl_err *err)
{
    struct pl_branch_file folder = a_folder();
    char name[PLACE_MAX];
    int r = ON;

    /* List the longest folder first: each shorter path is a prefix of it and continues there with a byte
     * below '/', so "shorter/" sorts after "longer/". */
    while (r == ON && l->n_folders) {
        size_t n = l->folders[l->n_folders - 1];

        memcpy(name, l->folder, n);
        name[n] = '/';
        if (key && pl_key_cmp(name, n + 1, key, len) > 0)
            break;
        r = give(l, name, n + 1, &folder, err);
        if (r == ON)
            l->n_folders--;
    }
    return r;
}

static void add_folder(struct list *l, const char *path, size_t len)
{
    memcpy(l->folder, path, len);
    if (l->n_folders < FOLDERS_MAX)
        l->folders[l->n_folders++] = (uint16_t)len;
}

/* Finds the empty folders that were held back when the previous page ended. Their paths are those prefixes of
 * l->place after which l->place has a byte below '/'. */
static int find_folders(struct list *l, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 1; i < l->place_len && r >= 0; i++) {
        _cleanup_(pl_branch_file_finish) struct pl_branch_file f = {0};

        if ((uint8_t)l->place[i] >= '/' || i > PL_PATH_MAX_BYTES || pl_path_check(l->place, i, NULL) < 0)
            continue;
        r = pl_branch_view_get(&l->view, l->place, i, &f, err);
        if (r > 0 && f.entry.kind == PL_KIND_DIR)
            add_folder(l, l->place, i);
    }
    return PL_MIN(r, 0);
}

/* ---- the page ---- */

/* Seeks to the first key that the page can contain. */
static int seek_first(struct list *l, struct pl_err *err)
{
    size_t shared = common(l, l->place, l->place_len);
    bool before = pl_key_cmp(l->place, l->place_len, l->prefix, l->prefix_len) < 0;
    const char *from = before ? l->prefix : l->place;
    size_t len = before ? l->prefix_len : l->place_len;
    int r;

    if (!before && shared && pl_key_cmp_prefix(l->place, l->place_len, l->prefix, l->prefix_len) == 0)
        /* the common prefix of this key already has its line on a page */
        return seek_past(l, l->place, shared, err);
    /* The prefix is "name/". Look the folder up, because the walk does not meet it: it is stored as
     * "name". */
    if (len && from[len - 1] == '/') {
        _cleanup_(pl_branch_file_finish) struct pl_branch_file f = {0};

        r = before && pl_path_check(from, len - 1, NULL) == 0 ? pl_branch_view_get(&l->view, from, len - 1, &f, err) : 0;
        if (r > 0 && f.entry.kind == PL_KIND_DIR)
            add_folder(l, from, len - 1);
        if (r < 0)
            return r;
    }
    r = before ? 0 : find_folders(l, err);
    return r < 0 ? r : pl_branch_walk_seek(l->walk, from, PL_MIN(len, (size_t)PL_PATH_MAX_BYTES), err);
}

static int take(struct list *l, const struct pl_branch_item *item, struct pl_err *err)
{
    int r = give_folders(l, item->path, item->path_len, err);

    if (r != ON)
        return r;
    if (item->file.entry.kind == PL_KIND_DIR) {
        add_folder(l, item->path, item->path_len);
        return ON;
    }
    return give(l, item->path, item->path_len, &item->file, err);
}

/* Walks the branch and adds lines until the page is full or the prefix ends. */
static int walk(struct list *l, struct pl_err *err)
{
    struct pl_branch_item *item;
    int r = pl_branch_walk_create(&l->view, &l->walk, err);

    r = r < 0 ? r : seek_first(l, err);
    if (r < 0)
        return r;
    for (unsigned steps = 0; (r = pl_branch_walk_next(l->walk, &item, err)) > 0; steps++) {
        bool gone = r == PL_BRANCH_WALK_GONE;

        if (pl_key_cmp_prefix(item->path, item->path_len, l->prefix, l->prefix_len) > 0)
            break;
        if (steps >= STEPS_MAX && l->n) {
            l->truncated = true;
            return 0;
        }
        r = gone ? ON : take(l, item, err);
        if (r != ON)
            return r;
    }
    return r < 0 ? r : PL_MIN(give_folders(l, NULL, 0, err), 0);
}

/* ---- parameters ---- */

static int bad_token(struct pl_err *err)
{
    return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "The continuation token provided is incorrect");
}

static int read_token(struct list *l, const char *token, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};

    if (pl_base64_decode(token, &bytes, NULL) < 0 || bytes.len < 1 || bytes.len > PLACE_MAX || bytes.data[0] != TOKEN_VERSION ||
        !pl_utf8_ok(bytes.data, bytes.len) || memchr(bytes.data, 0, bytes.len))
        return bad_token(err);
    set_place(l, (const char *)bytes.data + 1, bytes.len - 1);
    return 0;
}

/* Reads where to start: from the token of the previous page, or from the client's start-after or marker. */
static int read_place(struct list *l, struct pl_err *err)
{
    const char *token = l->v2 ? pl_s3_query(l->q, "continuation-token") : NULL;
    const char *after = pl_s3_query(l->q, l->v2 ? "start-after" : "marker");

    if (token && !*token)
        return bad_token(err);
    if (token)
        return read_token(l, token, err);
    if (after)
        set_place(l, after, PL_MIN(strlen(after), (size_t)PL_PATH_MAX_BYTES));
    return 0;
}

static int read_question(struct list *l, struct pl_err *err)
{
    const char *encoding = pl_s3_query(l->q, "encoding-type"), *owner = pl_s3_query(l->q, "fetch-owner");
    const char *type = pl_s3_query(l->q, "list-type");
    int r;

    l->v2 = type && pl_streq(type, "2");
    l->prefix = pl_s3_query_or_empty(l->q, "prefix");
    l->prefix_len = strlen(l->prefix);
    l->delimiter = pl_s3_query_or_empty(l->q, "delimiter");
    l->delimiter_len = strlen(l->delimiter);
    l->owner = owner && pl_streq(owner, "true");
    if (encoding && *encoding && !pl_streq(encoding, "url"))
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Invalid Encoding Method specified in Request");
    l->url = encoding && *encoding;
    r = pl_s3_query_number(l->q, "max-keys", PL_S3_LIST_MAX, PL_S3_LIST_MAX, &l->max_keys, err);
    return r < 0 ? r : read_place(l, err);
}

/* ---- reply ---- */

static int add_token(const struct list *l, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_free_ char *token = NULL;
    char text[PLACE_MAX + 1];
    int n = snprintf(text, sizeof text, "%c%s", TOKEN_VERSION, l->place);
    int r = pl_base64_encode(text, (size_t)n, &token, err);

    return r < 0 ? r : pl_s3_xml_add(out, "NextContinuationToken", token, err);
}

static int add_places(const struct list *l, struct pl_buf *out, struct pl_err *err)
{
    const char *token = pl_s3_query(l->q, "continuation-token"), *after = pl_s3_query(l->q, "start-after");
    int r = 0;

    if (!l->v2) {
        r = pl_s3_add_text(l->url, out, "Marker", pl_s3_query_or_empty(l->q, "marker"), err);
        return r < 0 || !l->truncated || !l->delimiter_len ? r : pl_s3_add_text(l->url, out, "NextMarker", l->place, err);
    }
    r = pl_s3_xml_add_u64(out, "KeyCount", l->n, err);
    if (r == 0 && token)
        r = pl_s3_xml_add(out, "ContinuationToken", token, err);
    if (r == 0 && after)
        r = pl_s3_add_text(l->url, out, "StartAfter", after, err);
    return r < 0 || !l->truncated ? r : add_token(l, out, err);
}

static int answer(const struct list *l, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_s3_xml_begin(out, "ListBucketResult", true, err);

    r = r < 0 ? r : pl_s3_xml_add(out, "Name", l->q->bucket, err);
    r = r < 0 ? r : pl_s3_add_text(l->url, out, "Prefix", l->prefix, err);
    r = r < 0 ? r : add_places(l, out, err);
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "MaxKeys", l->max_keys, err);
    if (r == 0 && l->delimiter_len)
        r = pl_s3_add_text(l->url, out, "Delimiter", l->delimiter, err);
    if (r == 0 && l->url)
        r = pl_s3_xml_add(out, "EncodingType", "url", err);
    r = r < 0 ? r : pl_s3_xml_add(out, "IsTruncated", l->truncated ? "true" : "false", err);
    r = r < 0 ? r : pl_buf_add(out, l->keys.data, l->keys.len, err);
    r = r < 0 ? r : pl_buf_add(out, l->prefixes.data, l->prefixes.len, err);
    return r < 0 ? r : pl_s3_xml_close(out, "ListBucketResult", err);
}

int pl_s3_list_objects(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(list_finish) struct list l = {.q = q, .keys = {.max = PAGE_MAX}, .prefixes = {.max = PAGE_MAX}};
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = 3 * PAGE_MAX};
    int r = pl_s3_target(q, PL_VERB_READ, err);

    r = r < 0 ? r : read_question(&l, err);
    r = r < 0 ? r : pl_s3_view(q, &q->target, NULL, &l.view, err);
    if (r == 0 && l.max_keys && l.prefix_len <= PL_S3_KEY_MAX)
        r = walk(&l, err);
    r = r < 0 ? r : answer(&l, &out, err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}
