/* Converts between S3 headers and file attributes, formats ETags and times, and evaluates conditions. */
#include "pipelined/s3gateway/gateway/s3_headers.h"

#include "pipelined/s3gateway/formats/s3_tags.h"
#include "storage/base/clock.h"
#include "storage/tree/content_id.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

#define META "x-amz-meta-"
/* the characters of a token (RFC 9110, 5.6.2) */
#define NAME_CHARACTERS "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Headers that are stored as attributes. */
static const struct {
    enum pl_attribute tag;
    const char *header, *override; /* query argument of a GET that replaces the header in the reply */
} texts[] = {
    {PL_ATTR_TYPE, "Content-Type", "response-content-type"},
    {PL_ATTR_CACHE, "Cache-Control", "response-cache-control"},
    {PL_ATTR_DISPOSITION, "Content-Disposition", "response-content-disposition"},
    {PL_ATTR_ENCODING, "Content-Encoding", "response-content-encoding"},
    {PL_ATTR_LANGUAGE, "Content-Language", "response-content-language"},
    {PL_ATTR_EXPIRES, "Expires", "response-expires"},
};

static struct pl_file_attributes attributes_of(const struct pl_buf *b)
{
    return (struct pl_file_attributes){b->data, b->len};
}

/* ---- ETag, time ---- */

void pl_s3_etag(const struct pl_entry *entry, const struct pl_buf *attributes, char ret[PL_S3_ETAG_MAX + 1])
{
    struct pl_file_attributes a = attributes_of(attributes);
    struct pl_attribute_field f;
    struct pl_hash id = {0};
    char hex[PL_HASH_HEX + 1];

    if (pl_file_attributes_find(&a, PL_ATTR_ETAG, &f) && f.len && f.len <= PL_S3_ETAG_MAX)
        snprintf(ret, PL_S3_ETAG_MAX + 1, "%.*s", (int)f.len, (const char *)f.bytes);
    else if (entry->kind == PL_KIND_DIR)
        snprintf(ret, PL_S3_ETAG_MAX + 1, "%s", PL_S3_DIRECTORY_ETAG);
    else if (pl_content_id_file(entry, &id, NULL) == 0)
        snprintf(ret, PL_S3_ETAG_MAX + 1, "%.32s-1", pl_hash_hex(&id, hex));
    else
        *ret = '\0';
}

void pl_s3_quote(const char *etag, char ret[PL_S3_ETAG_MAX + 3])
{
    size_t n = strnlen(etag, PL_S3_ETAG_MAX);

    ret[0] = '"';
    memcpy(ret + 1, etag, n);
    memcpy(ret + 1 + n, "\"", 2);
}

/* Writes `value` with `n` digits. A list page formats a time for each key, and printf would take half of the
 * page's time. */
static char *add_number(char *p, int value, int n)
{
    for (int i = n - 1; i >= 0; i--, value /= 10)
        p[i] = (char)('0' + value % 10);
    return p + n;
}

static char *add_word(char *p, const char *word, size_t n)
{
    memcpy(p, word, n);
    return p + n;
}

static char *add_clock(char *p, const struct tm *t)
{
    p = add_number(p, t->tm_hour, 2);
    *p++ = ':';
    p = add_number(p, t->tm_min, 2);
    *p++ = ':';
    return add_number(p, t->tm_sec, 2);
}

void pl_s3_http_time(int64_t us, char ret[32])
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t s = (time_t)(PL_MAX(us, 0) / 1000000);
    struct tm t;
    char *p = ret;

    gmtime_r(&s, &t);
    p = add_word(p, days + (size_t)(t.tm_wday % 7) * 3, 3);
    p = add_word(p, ", ", 2);
    p = add_number(p, t.tm_mday, 2);
    *p++ = ' ';
    p = add_word(p, months + (size_t)(t.tm_mon % 12) * 3, 3);
    *p++ = ' ';
    p = add_number(p, t.tm_year + 1900, 4);
    *p++ = ' ';
    p = add_clock(p, &t);
    memcpy(p, " GMT", 5);
}

void pl_s3_iso_time(int64_t us, char ret[32])
{
    time_t s = (time_t)(PL_MAX(us, 0) / 1000000);
    struct tm t;
    char *p = ret;

    gmtime_r(&s, &t);
    p = add_number(p, t.tm_year + 1900, 4);
    *p++ = '-';
    p = add_number(p, t.tm_mon + 1, 2);
    *p++ = '-';
    p = add_number(p, t.tm_mday, 2);
    *p++ = 'T';
    p = add_clock(p, &t);
    *p++ = '.';
    p = add_number(p, (int)(PL_MAX(us, 0) / 1000 % 1000), 3);
    memcpy(p, "Z", 2);
}

/* Returns seconds since 1970; -1 if the text is not an HTTP date. RFC 9110, section 5.6.7, has three forms;
 * some clients also send the form of S3's documents. */
static int64_t parse_http_time(const char *text)
{
    static const char *const forms[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y",
                                        "%Y-%m-%dT%H:%M:%SZ"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(forms); i++) {
        struct tm t = {0};
        const char *end = strptime(text, forms[i], &t);

        if (end && !*end)
            return (int64_t)timegm(&t);
    }
    return -1;
}

/* ---- attributes of a put ---- */

static bool text_ok(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if ((*p < 0x20 && *p != '\t') || *p == 0x7F)
            return false;
    return true;
}

/* Copies Content-Encoding without "aws-chunked", because the framing was removed. The rest stays as the client
 * wrote it. PL_S3_METADATA_TOO_LARGE. */
static int strip_framing(const char *text, char *out, size_t size, struct pl_err *err)
{
    size_t used = 0;

    *out = '\0';
    while (*text) {
        size_t len = strcspn(text, ","), before = strspn(text, " \t"), word = strcspn(text + before, ", \t");
        size_t skip = used ? 0 : PL_MIN(before, len);

        if (used + len + 2 > size)
            return pl_s3_error(err, PL_S3_METADATA_TOO_LARGE);
        if (!(word == 11 && strncasecmp(text + before, "aws-chunked", 11) == 0) && len > skip)
            used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? "," : "", (int)(len - skip), text + skip);
        text += len + (text[len] == ',');
    }
    return 0;
}

/* Returns the length of a header's value without the blanks at its end, which are not part of it (RFC 9110, 5.5). */
static size_t text_len(const char *text)
{
    size_t len = strlen(text);

    while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    return len;
}

static int add_texts(const struct pl_s3_request *q, struct pl_buf *out, struct pl_err *err)
{
    char encoding[256];
    int r = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(texts) && r == 0; i++) {
        const char *text = pl_s3_header(q, texts[i].header);

        if (text && texts[i].tag == PL_ATTR_ENCODING) {
            r = strip_framing(text, encoding, sizeof encoding, err);
            text = encoding;
        }
        if (r == 0 && text && !text_ok(text))
            return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Header %s contains a control character.", texts[i].header);
        if (r == 0 && text && text_len(text))
            r = pl_file_attributes_add(out, texts[i].tag, text, text_len(text), err);
    }
    return r;
}

/* Orders headers by name, and those of one name as the request has them. */
static int by_name(const void *a, const void *b)
{
    const struct pl_http_pair *const *x = a, *const *y = b;
    int order = strcasecmp((*x)->name, (*y)->name);

    return order ? order : (*x > *y) - (*x < *y);
}

/* Adds the x-amz-meta-* headers, sorted by name, within PL_S3_META_MAX bytes. As in S3, a comma joins the values of a
 * header that occurs again. */
static int add_meta(const struct pl_s3_request *q, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf value = {0};
    const struct pl_http_pair *meta[PL_S3_AMZ_MAX];
    size_t n = pl_s3_amz_headers(q, META, meta), bytes = 0;
    int r = 0;

    for (size_t i = 0; i < n; i++) {
        const char *name = meta[i]->name + strlen(META);

        bytes += strlen(name) + strlen(meta[i]->value);
        if (bytes > PL_S3_META_MAX)
            return pl_s3_error(err, PL_S3_METADATA_TOO_LARGE);
        /* a name in a query may have characters that a header cannot have */
        if (strspn(name, NAME_CHARACTERS) != strlen(name))
            return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "\"%.80s\" is not the name of a header.", meta[i]->name);
        if (!text_ok(meta[i]->value))
            return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Header %s contains a control character.", meta[i]->name);
    }
    qsort(meta, n, sizeof(const struct pl_http_pair *), by_name);
    for (size_t i = 0; i < n && r == 0; i++) {
        bool again = i && strcasecmp(meta[i]->name, meta[i - 1]->name) == 0;
        bool last = i + 1 == n || strcasecmp(meta[i]->name, meta[i + 1]->name) != 0;

        r = again ? pl_buf_addf(&value, err, ",") : 0;
        r = r < 0 ? r : pl_buf_add(&value, meta[i]->value, text_len(meta[i]->value), err);
        if (r < 0 || !last)
            continue;
        if (!pl_buf_str(&value))
            return pl_err_nomem(err);
        if (meta[i]->name[strlen(META)])
            r = pl_file_attributes_add_meta(out, meta[i]->name + strlen(META), pl_buf_str(&value), err);
        pl_buf_clear(&value);
    }
    return r;
}

static int begin(const char *etag, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_file_attributes_begin(out, err);

    r = r < 0 || !etag ? r : pl_file_attributes_add(out, PL_ATTR_ETAG, etag, strlen(etag), err);
    return r < 0 ? r : pl_file_attributes_add_modified(out, pl_clock_wall_us(), err);
}

static int check(const struct pl_buf *out, struct pl_err *err)
{
    struct pl_file_attributes a = attributes_of(out);

    if (out->len > PL_FILE_ATTRIBUTES_MAX_BYTES)
        return pl_err_set(err, PL_S3_METADATA_TOO_LARGE,
                          "Headers, metadata and tags of an object have at most %u bytes together; these have %zu.",
                          PL_FILE_ATTRIBUTES_MAX_BYTES, out->len);
    return pl_file_attributes_check(&a, err) < 0
               ? pl_err_set(err, PL_S3_INVALID_ARGUMENT, "The object's headers cannot be stored.")
               : 0;
}

static int add_sum(enum pl_s3_sum_kind kind, const char *sum, struct pl_buf *out, struct pl_err *err)
{
    char checksum[PL_S3_SUM_TEXT + 1];

    if (!kind || !sum)
        return 0;
    checksum[0] = (char)kind;
    snprintf(checksum + 1, sizeof checksum - 1, "%s", sum);
    return pl_file_attributes_add(out, PL_ATTR_CHECKSUM, checksum, 1 + strlen(checksum + 1), err);
}

static int add_parts(const struct pl_attribute_field *parts, struct pl_buf *out, struct pl_err *err)
{
    return parts ? pl_file_attributes_add(out, PL_ATTR_PARTS, parts->bytes, parts->len, err) : 0;
}

static int add_tags(const char *tags, struct pl_buf *out, struct pl_err *err)
{
    return tags && *tags ? pl_file_attributes_add(out, PL_ATTR_TAGS, tags, strlen(tags), err) : 0;
}

/* Makes the attributes from the request's headers. */
static int make_new(const struct pl_s3_request *q, const struct pl_s3_known *known, struct pl_buf *out, struct pl_err *err)
{
    int r = begin(known->etag, out, err);

    r = r < 0 ? r : add_texts(q, out, err);
    r = r < 0 ? r : add_sum(known->kind, known->sum, out, err);
    r = r < 0 ? r : add_parts(known->parts, out, err);
    r = r < 0 ? r : add_tags(known->tags, out, err);
    r = r < 0 ? r : add_meta(q, out, err);
    return r < 0 ? r : check(out, err);
}

/* Returns true if a field of the existing attributes is replaced by one of `known`. */
static bool is_replaced(const struct pl_s3_known *known, uint8_t tag)
{
    return tag == PL_ATTR_ETAG || tag == PL_ATTR_MODIFIED || tag == PL_ATTR_PARTS || (tag == PL_ATTR_CHECKSUM && known->kind) ||
           (tag == PL_ATTR_TAGS && known->tags);
}

/* Adds the field of `known` with this tag. */
static int add_known(const struct pl_s3_known *known, enum pl_attribute tag, struct pl_buf *out, struct pl_err *err)
{
    switch (tag) {
    case PL_ATTR_CHECKSUM:
        return add_sum(known->kind, known->sum, out, err);
    case PL_ATTR_PARTS:
        return add_parts(known->parts, out, err);
    default:
        return add_tags(known->tags, out, err);
    }
}

/* Makes the attributes from existing ones; known->parts are those that the file is to have. */
static int make_again(const struct pl_buf *from, const struct pl_s3_known *known, struct pl_buf *out, struct pl_err *err)
{
    static const enum pl_attribute known_tags[] = {PL_ATTR_CHECKSUM, PL_ATTR_PARTS, PL_ATTR_TAGS};
    struct pl_file_attributes a = attributes_of(from);
    struct pl_attribute_field f;
    size_t at = 0, next = 0;
    int r = begin(known->etag, out, err);

    /* fields are stored in the order of their tags */
    while (r == 0) {
        bool more = pl_file_attributes_next(&a, &at, &f);

        for (; next < PL_ARRAY_SIZE(known_tags) && r == 0 && (!more || f.tag >= known_tags[next]); next++)
            r = add_known(known, known_tags[next], out, err);
        if (r < 0 || !more)
            break;
        if (!is_replaced(known, f.tag))
            r = pl_file_attributes_add(out, (enum pl_attribute)f.tag, f.bytes, f.len, err);
    }
    return r < 0 ? r : check(out, err);
}

/* Makes the attributes from `from`, or, if it is NULL, from the request. Leaves out the checksums of the parts, then
 * the parts, if all together are too large: they are what a file can lack. */
static int make_fitting(const struct pl_s3_request *q, const struct pl_buf *from, const struct pl_s3_known *known,
                        struct pl_buf *out, struct pl_err *err)
{
    struct pl_s3_known less = *known;
    struct pl_attribute_field parts;
    struct pl_file_parts runs;
    int r;

    for (;;) {
        pl_buf_clear(out);
        r = from ? make_again(from, &less, out, err) : make_new(q, &less, out, err);
        if (r != PL_S3_METADATA_TOO_LARGE || !less.parts)
            return r;
        parts = *less.parts;
        if (pl_file_parts_read(&parts, &runs) && runs.sums) {
            parts.len = (size_t)(runs.end - parts.bytes);
            less.parts = &parts;
        } else {
            less.parts = NULL;
        }
    }
}

int pl_s3_attributes(const struct pl_s3_request *q, const struct pl_s3_known *known, struct pl_buf *out, struct pl_err *err)
{
    return make_fitting(q, NULL, known, out, err);
}

int pl_s3_attributes_again(const struct pl_buf *from, const struct pl_s3_known *known, struct pl_buf *out, struct pl_err *err)
{
    struct pl_file_attributes a = attributes_of(from);
    struct pl_s3_known all = *known;
    struct pl_attribute_field parts;

    if (!all.parts && pl_file_attributes_find(&a, PL_ATTR_PARTS, &parts))
        all.parts = &parts;
    return make_fitting(NULL, from, &all, out, err);
}

int pl_s3_tags_asked(const struct pl_s3_request *q, struct pl_buf *out, struct pl_err *err)
{
    const char *text = pl_s3_header(q, "x-amz-tagging");
    int r = text ? pl_s3_tags_of_header(text, out, err) : 0;

    if (r == 0 && out->len && q->key_len && q->key[q->key_len - 1] == '/')
        return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "A folder (its key ends with /) cannot have tags.");
    return r < 0 || pl_buf_str(out) ? r : pl_err_nomem(err);
}

/* ---- features that are not supported ---- */

/* Objects belong to the bucket's owner, as with S3's object ownership "BucketOwnerEnforced": the ACLs that say
 * just this are accepted, all others are refused by S3's codes. */
int pl_s3_check_acl(const struct pl_s3_request *q, struct pl_err *err)
{
    static const char *const grants[] = {"x-amz-grant-full-control", "x-amz-grant-read", "x-amz-grant-read-acp",
                                         "x-amz-grant-write", "x-amz-grant-write-acp"};
    static const char fine[] = " private bucket-owner-full-control bucket-owner-read ";
    static const char canned[] = " public-read public-read-write authenticated-read aws-exec-read log-delivery-write ";
    const char *acl = pl_s3_header(q, "x-amz-acl");
    bool refused = false;
    char word[128];

    for (size_t i = 0; i < PL_ARRAY_SIZE(grants); i++)
        refused |= pl_s3_header(q, grants[i]) != NULL;
    if (acl && *acl) {
        snprintf(word, sizeof word, " %.120s ", acl);
        if (strchr(acl, ' ') || (!strstr(fine, word) && !strstr(canned, word)))
            return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "x-amz-acl: \"%.60s\" is not a canned ACL.", acl);
        refused |= !strstr(fine, word);
    }
    if (!refused)
        return 0;
    return pl_s3_error(err, q->op->level == PL_S3_BUCKET && !q->op->query ? PL_S3_BUCKET_ACL : PL_S3_ACL_NOT_SUPPORTED);
}

int pl_s3_check_wants(const struct pl_s3_request *q, struct pl_err *err)
{
    static const struct {
        /* `fine`: values that are accepted because they need no special feature; blanks enclose each value */
        const char *header, *fine;
    } table[] = {
        {"x-amz-server-side-encryption", ""},
        {"x-amz-server-side-encryption-customer-algorithm", ""},
        {"x-amz-website-redirect-location", ""},
        {"x-amz-object-lock-mode", ""},
        {"x-amz-object-lock-legal-hold", " OFF "},
        {"x-amz-object-lock-retain-until-date", ""},
        {"x-amz-bucket-object-lock-enabled", " false False "},
        {"x-amz-object-ownership", " BucketOwnerEnforced "},
        {"x-amz-write-offset-bytes", ""},
    };
    const char *storage = pl_s3_header(q, "x-amz-storage-class");
    _cleanup_(pl_buf_finish) struct pl_buf tags = {0};
    char word[128];
    int r = pl_s3_check_acl(q, err);

    r = r < 0 || !q->key_len ? r : pl_s3_tags_asked(q, &tags, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        const char *value = pl_s3_header(q, table[i].header);

        if (!value || !*value)
            continue;
        snprintf(word, sizeof word, " %.120s ", value);
        if (!strstr(table[i].fine, word))
            return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "%s: %.60s is not implemented here.", table[i].header, value);
    }
    return storage && !pl_streq(storage, "STANDARD") ? pl_s3_error(err, PL_S3_INVALID_STORAGE_CLASS) : 0;
}

/* ---- reply headers ---- */

void pl_s3_reply_version(struct pl_s3_request *q, const char *commit)
{
    if (*commit)
        pl_s3_reply_header(q, "x-amz-version-id", commit);
}

void pl_s3_reply_etag(struct pl_s3_request *q, const char *etag)
{
    char quoted[PL_S3_ETAG_MAX + 3];

    pl_s3_quote(etag, quoted);
    pl_s3_reply_header(q, "ETag", quoted);
}

void pl_s3_reply_sum(struct pl_s3_request *q, enum pl_s3_sum_kind kind, const char *text, bool composite)
{
    const struct pl_s3_sum_info *info = pl_s3_sum_info(kind);

    if (!info || !*text)
        return;
    pl_s3_reply_header(q, info->header, text);
    pl_s3_reply_header(q, "x-amz-checksum-type", composite ? "COMPOSITE" : "FULL_OBJECT");
}

enum pl_s3_sum_kind pl_s3_stored_sum(const struct pl_branch_file *f, char ret[PL_S3_SUM_TEXT])
{
    struct pl_file_attributes a = attributes_of(&f->attributes);
    struct pl_attribute_field sum;

    *ret = '\0';
    if (!pl_file_attributes_find(&a, PL_ATTR_CHECKSUM, &sum) || sum.len < 2 || !pl_s3_sum_info((enum pl_s3_sum_kind)sum.bytes[0]))
        return PL_S3_SUM_NONE;
    snprintf(ret, PL_S3_SUM_TEXT, "%.*s", (int)sum.len - 1, (const char *)sum.bytes + 1);
    return (enum pl_s3_sum_kind)sum.bytes[0];
}

bool pl_s3_parts_of(const struct pl_branch_file *f, struct pl_file_parts *ret)
{
    struct pl_file_attributes a = attributes_of(&f->attributes);

    return pl_file_attributes_parts(&a, ret) && ret->bytes == f->entry.size;
}

bool pl_s3_wants_sum(const struct pl_s3_request *q)
{
    const char *mode = pl_s3_header(q, "x-amz-checksum-mode");

    return mode && strcasecmp(mode, "ENABLED") == 0;
}

static const char *text_of(const struct pl_attribute_field *f, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)f->len, (const char *)f->bytes);
    return out;
}

static bool is_ascii(const char *text)
{
    while (*text && !(*text & 0x80))
        text++;
    return !*text;
}

/* Sets the reply header of metadata. As in S3, a value beyond ASCII is encoded as RFC 2047 says; bytes that are not
 * UTF-8 are taken for ISO 8859-1, as HTTP does. */
static void reply_meta(struct pl_s3_request *q, const char *name, const char *value)
{
    _cleanup_(pl_buf_finish) struct pl_buf utf8 = {0}, text = {0};
    _cleanup_free_ char *base64 = NULL;
    bool utf8_already = pl_utf8_ok(value, strlen(value));
    int r = 0;

    if (is_ascii(value)) {
        pl_s3_reply_header(q, name, value);
        return;
    }
    for (const unsigned char *p = (const unsigned char *)value; *p && r == 0; p++) {
        if (*p < 0x80 || utf8_already) {
            r = pl_buf_add_u8(&utf8, *p, NULL);
        } else {
            r = pl_buf_add_u8(&utf8, (uint8_t)(0xC0 | *p >> 6), NULL);
            r = r < 0 ? r : pl_buf_add_u8(&utf8, (uint8_t)(0x80 | (*p & 0x3F)), NULL);
        }
    }
    r = r < 0 ? r : pl_base64_encode(utf8.data, utf8.len, &base64, NULL);
    r = r < 0 ? r : pl_buf_addf(&text, NULL, "=?UTF-8?B?%s?=", base64);
    if (r == 0 && pl_buf_str(&text))
        pl_s3_reply_header(q, name, pl_buf_str(&text));
}

/* Sets the reply header of one attribute, except Content-Type. */
static void reply_field(struct pl_s3_request *q, const struct pl_attribute_field *f)
{
    char text[PL_FILE_ATTRIBUTES_MAX_BYTES + 1], name[sizeof text + 16];

    text_of(f, text, sizeof text);
    if (f->tag == PL_ATTR_META) {
        /* an attribute of metadata is NAME, a zero byte, VALUE; `%s` stops at the zero byte */
        snprintf(name, sizeof name, META "%s", text);
        snprintf(text, sizeof text, "%.*s", (int)(f->len - strlen(name) + strlen(META) - 1),
                 (const char *)f->bytes + strlen(name) - strlen(META) + 1);
        reply_meta(q, name, text);
        return;
    }
    if (f->tag == PL_ATTR_TAGS) {
        snprintf(name, sizeof name, "%zu", pl_s3_tags_count((const char *)f->bytes, f->len));
        pl_s3_reply_header(q, "x-amz-tagging-count", name);
        return;
    }
    if (f->tag == PL_ATTR_CHECKSUM) {
        if (pl_s3_wants_sum(q) && !pl_s3_header(q, "Range"))
            pl_s3_reply_sum(q, (enum pl_s3_sum_kind)f->bytes[0], text + 1, strchr(text, '-'));
        return;
    }
    for (size_t i = 1; i < PL_ARRAY_SIZE(texts); i++)
        if (texts[i].tag == f->tag && !pl_s3_query(q, texts[i].override))
            pl_s3_reply_header(q, texts[i].header, text);
}

const char *pl_s3_reply_attributes(struct pl_s3_request *q, const struct pl_branch_file *f, bool part, char *type,
                                   size_t type_size)
{
    struct pl_file_attributes a = attributes_of(&f->attributes);
    struct pl_attribute_field field;
    size_t at = 0;

    snprintf(type, type_size, "%s", PL_S3_TYPE_DEFAULT);
    while (pl_file_attributes_next(&a, &at, &field)) {
        if (field.tag == PL_ATTR_TYPE)
            text_of(&field, type, type_size);
        else if (field.tag != PL_ATTR_PARTS && !(part && field.tag == PL_ATTR_CHECKSUM))
            reply_field(q, &field);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
        const char *override = pl_s3_query(q, texts[i].override);

        if (!override || !text_ok(override))
            continue;
        if (texts[i].tag == PL_ATTR_TYPE)
            snprintf(type, type_size, "%s", override);
        else
            pl_s3_reply_header(q, texts[i].header, override);
    }
    return type;
}

/* ---- conditions ---- */

bool pl_s3_etag_listed(const char *list, const char *etag)
{
    size_t n = strlen(etag);

    for (const char *p = list; *p;) {
        size_t len;

        p += strspn(p, ", \t");
        if (strncmp(p, "W/", 2) == 0)
            p += 2;
        len = strcspn(p, ", \t");
        if ((len == 1 && *p == '*') || (len == n && memcmp(p, etag, n) == 0) ||
            (len == n + 2 && *p == '"' && p[len - 1] == '"' && memcmp(p + 1, etag, n) == 0))
            return true;
        p += len;
    }
    return false;
}

static const char *condition(const struct pl_s3_request *q, const char *prefix, const char *name)
{
    char header[64];

    snprintf(header, sizeof header, "%s%s", prefix, name);
    return pl_s3_header(q, header);
}

int pl_s3_read_conditions(const struct pl_s3_request *q, const char *prefix, const char *etag, int64_t modified_us,
                          bool *ret_unchanged, struct pl_err *err)
{
    const char *match = condition(q, prefix, "If-Match"), *none = condition(q, prefix, "If-None-Match");
    const char *since = condition(q, prefix, "If-Modified-Since"), *until = condition(q, prefix, "If-Unmodified-Since");
    int64_t modified = modified_us / 1000000, at;

    *ret_unchanged = false;
    if (match && !pl_s3_etag_listed(match, etag))
        return pl_s3_error(err, PL_S3_PRECONDITION_FAILED);
    /* If-Unmodified-Since is ignored if If-Match is present */
    at = !match && until ? parse_http_time(until) : -1;
    if (at >= 0 && modified > at)
        return pl_s3_error(err, PL_S3_PRECONDITION_FAILED);
    if (none)
        *ret_unchanged = pl_s3_etag_listed(none, etag);
    else if (since && (at = parse_http_time(since)) >= 0)
        *ret_unchanged = modified <= at;
    return 0;
}

#define IF_MODIFIED "x-amz-if-match-last-modified-time"
#define IF_SIZE     "x-amz-if-match-size"

/* Headers whose value must be that of the present file. */
static const char *const match_headers[] = {"If-Match", IF_MODIFIED, IF_SIZE};

static bool has_match(const struct pl_s3_request *q)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(match_headers); i++)
        if (pl_s3_header(q, match_headers[i]))
            return true;
    return false;
}

int pl_s3_check_write_conditions(const struct pl_s3_request *q, struct pl_err *err)
{
    const char *modified = pl_s3_header(q, IF_MODIFIED), *size = pl_s3_header(q, IF_SIZE);
    uint64_t bytes;

    if (pl_s3_header(q, "If-None-Match") && pl_s3_header(q, "If-Match"))
        return pl_err_set(err, PL_S3_INVALID_REQUEST, "If-Match and If-None-Match cannot be used together.");
    if ((modified || size) && !pl_streq(q->op->method, "DELETE"))
        return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "%s is a condition of DeleteObject only.",
                          modified ? IF_MODIFIED : IF_SIZE);
    if (modified && parse_http_time(modified) < 0)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT,
                          IF_MODIFIED ": \"%.60s\" is not a date such as Wed, 12 Oct 2009 17:50:00 GMT.", modified);
    if (size && !pl_s3_number(size, &bytes))
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, IF_SIZE ": \"%.40s\" is not a number of bytes.", size);
    return 0;
}

/* Returns the time that HEAD gives as Last-Modified. */
static int64_t modified_of(const struct pl_s3_request *q, const struct pl_branch_file *f)
{
    struct pl_file_attributes a = attributes_of(&f->attributes);

    return pl_file_attributes_modified(&a, f->open ? pl_open_commit_head(f->open)->created_us : q->head_us);
}

int pl_s3_check_write(void *self, const struct pl_branch_file *now, struct pl_err *err)
{
    const struct pl_s3_request *q = self;
    const char *match = pl_s3_header(q, "If-Match"), *none = pl_s3_header(q, "If-None-Match");
    const char *modified = pl_s3_header(q, IF_MODIFIED), *size = pl_s3_header(q, IF_SIZE);
    bool folder = q->key[q->key_len - 1] == '/';
    int path_len = (int)(q->key_len - folder);
    char etag[PL_S3_ETAG_MAX + 1];
    uint64_t bytes;

    if (!now)
        return has_match(q) ? pl_s3_error(err, PL_S3_NO_SUCH_KEY) : 0;
    /* the keys "f" and "f/" are one path: a write of one must not replace or delete the other */
    if (folder != (now->entry.kind == PL_KIND_DIR))
        return pl_streq(q->op->method, "DELETE")
                   ? pl_s3_error(err, PL_S3_NO_SUCH_KEY)
                   : pl_err_set(err, PL_ECOLLISION, "\"%.*s\" and \"%.*s/\": a path cannot be both a file and a folder", path_len,
                                q->key, path_len, q->key);
    pl_s3_etag(&now->entry, &now->attributes, etag);
    if ((none && pl_s3_etag_listed(none, etag)) || (match && !pl_s3_etag_listed(match, etag)) ||
        (size && pl_s3_number(size, &bytes) && bytes != now->entry.size) ||
        (modified && parse_http_time(modified) != modified_of(q, now) / 1000000))
        return pl_s3_error(err, PL_S3_PRECONDITION_FAILED);
    return 0;
}
