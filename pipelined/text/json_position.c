/* A recursive-descent parser without a result. pl_json_check uses it to check a text, pl_json_find to find a
 * value by its path. */
#include "pipelined/text/json_position.h"

#include "storage/base/path.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* A key of an open object: position of its decoded bytes in json_scan.keys, and offset of its opening
 * quote. */
struct json_key {
    size_t at, len;
    size_t quote;
};

/* A segment of the path to find: a decoded key, or an index if `key` is NULL. */
struct json_segment {
    const char *key;
    size_t key_len;
    size_t index;
};

struct json_scan {
    const char *text;
    size_t len;
    size_t at;
    struct pl_buf keys;      /* decoded bytes of the keys of all open objects, one after another */
    struct pl_buf open_keys; /* struct json_key for each of these keys */
    struct pl_err *err;
    /* the path that pl_json_find searches; n_segments = 0 for pl_json_check */
    const struct json_segment *segments;
    size_t n_segments;
    size_t found; /* number of segments of the path matched so far */
    size_t found_key, found_value;
};

static int json_value(struct json_scan *s, unsigned depth, bool on_path, size_t matched);

static int json_fail(struct json_scan *s, size_t at, const char *fmt, ...) PL_PRINTF(3, 4);
static int json_fail(struct json_scan *s, size_t at, const char *fmt, ...)
{
    char message[256];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    s->at = at;
    return pl_err_set(s->err, PL_ESPEC, "%s", message);
}

static int json_peek(const struct json_scan *s)
{
    return s->at < s->len ? (unsigned char)s->text[s->at] : -1;
}

static void json_skip_space(struct json_scan *s)
{
    while (s->at < s->len && memchr(" \t\n\r", s->text[s->at], 4) != NULL)
        s->at++;
}

/* Describes the current byte for error messages: "the end of the text", "'x'", or its number. */
static const char *json_here(const struct json_scan *s, char out[32])
{
    int c = json_peek(s);

    if (c < 0)
        return "the end of the text";
    if (c >= 0x20 && c < 0x7F)
        (void)snprintf(out, 32, "'%c'", c);
    else
        (void)snprintf(out, 32, "byte 0x%02x", (unsigned)c);
    return out;
}

static int json_hex4(struct json_scan *s, uint32_t *ret)
{
    uint32_t v = 0;

    for (size_t i = 0; i < 4; i++) {
        int c = s->at + i < s->len ? (unsigned char)s->text[s->at + i] : -1;

        if (c < 0 || !isxdigit(c))
            return json_fail(s, s->at, "\\u must be followed by 4 hex digits");
        v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    s->at += 4;
    *ret = v;
    return 0;
}

/* Appends a code point to the decoded key. */
static int json_add_utf8(struct json_scan *s, uint32_t c)
{
    uint8_t b[4];
    size_t n;

    if (c < 0x80) {
        b[0] = (uint8_t)c;
        n = 1;
    } else if (c < 0x800) {
        b[0] = (uint8_t)(0xC0 | c >> 6);
        b[1] = (uint8_t)(0x80 | (c & 0x3F));
        n = 2;
    } else if (c < 0x10000) {
        b[0] = (uint8_t)(0xE0 | c >> 12);
        b[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        b[2] = (uint8_t)(0x80 | (c & 0x3F));
        n = 3;
    } else {
        b[0] = (uint8_t)(0xF0 | c >> 18);
        b[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
        b[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        b[3] = (uint8_t)(0x80 | (c & 0x3F));
        n = 4;
    }
    return pl_buf_add(&s->keys, b, n, s->err);
}

/* Reads \uXXXX, positioned after the u, as one code point; also a surrogate pair. U+0000 is refused as in
 * jansson, because C strings end there. */
static int json_escape_u(struct json_scan *s, bool decode)
{
    size_t start = s->at - 2;
    uint32_t c, low;
    int r;

    r = json_hex4(s, &c);
    if (r < 0)
        return r;
    if (c == 0)
        return json_fail(s, start, "\\u0000 is not allowed");
    if (c >= 0xDC00 && c <= 0xDFFF)
        return json_fail(s, start, "\\u%04X is the second half of a surrogate pair, and the first half is missing", c);
    if (c >= 0xD800 && c <= 0xDBFF) {
        if (s->at + 2 > s->len || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u')
            return json_fail(s, start, "\\u%04X is the first half of a surrogate pair, and the second half is missing", c);
        s->at += 2;
        r = json_hex4(s, &low);
        if (r < 0)
            return r;
        if (low < 0xDC00 || low > 0xDFFF)
            return json_fail(s, start, "\\u%04X\\u%04X is not a surrogate pair", c, low);
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    return decode ? json_add_utf8(s, c) : 0;
}

static int json_escape(struct json_scan *s, bool decode)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = json_peek(s);
    const char *which;

    if (c == 'u') {
        s->at++;
        return json_escape_u(s, decode);
    }
    which = c > 0 ? strchr(from, c) : NULL;
    if (which == NULL)
        return json_fail(s, s->at - 1, "\\ must be followed by one of \" \\ / b f n r t u");
    s->at++;
    return decode ? pl_buf_add_u8(&s->keys, (uint8_t)to[which - from], s->err) : 0;
}

/* Reads a string, positioned at its opening quote; `decode` appends it to s->keys. The text is known to be
 * UTF-8. */
static int json_string(struct json_scan *s, bool decode)
{
    size_t open = s->at++;
    int r;

    for (;;) {
        size_t run = s->at;
        int c;

        while (s->at < s->len && (unsigned char)s->text[s->at] >= 0x20 && s->text[s->at] != '"' && s->text[s->at] != '\\')
            s->at++;
        if (decode) {
            r = pl_buf_add(&s->keys, s->text + run, s->at - run, s->err);
            if (r < 0)
                return r;
        }
        c = json_peek(s);
        if (c < 0)
            return json_fail(s, open, "the string that starts here is never closed");
        if (c == '\n')
            return json_fail(s, open, "the string that starts here is not closed on its line");
        if (c < 0x20)
            return json_fail(s, s->at, "control byte 0x%02x in a string: write it as an escape", (unsigned)c);
        s->at++;
        if (c == '"')
            return 0;
        r = json_escape(s, decode);
        if (r < 0)
            return r;
    }
}

static size_t json_digits(struct json_scan *s)
{
    size_t from = s->at;

    while (s->at < s->len && s->text[s->at] >= '0' && s->text[s->at] <= '9')
        s->at++;
    return s->at - from;
}

/* Checks that the number is not too large for a double. The decimal point is removed from the text and added
 * to the exponent, because strtod expects the decimal point of the locale. */
static int json_real_check(struct json_scan *s, size_t start, size_t point, size_t fraction, size_t digits_end)
{
    _cleanup_(pl_buf_finish) struct pl_buf plain = {.max = s->len + 64};
    const char *t = s->text;
    long long exponent = 0;
    int r;

    if (digits_end < s->at) {
        for (size_t i = digits_end + 1; i < s->at; i++)
            if (t[i] >= '0' && t[i] <= '9' && exponent < 1000000000)
                exponent = exponent * 10 + (t[i] - '0');
        if (t[digits_end + 1] == '-')
            exponent = -exponent;
    }
    if (exponent <= 0 && point - start < 300)
        return 0; /* too few digits to be too large: the common case */
    r = pl_buf_add(&plain, t + start, point - start, s->err);
    if (r == 0)
        r = pl_buf_add(&plain, t + digits_end - fraction, fraction, s->err);
    if (r == 0)
        r = pl_buf_addf(&plain, s->err, "e%lld", exponent - (long long)fraction);
    if (r < 0)
        return r;
    if (pl_buf_str(&plain) == NULL)
        return pl_err_nomem(s->err);
    errno = 0;
    if (__builtin_isinf(strtod((const char *)plain.data, NULL)))
        return json_fail(s, start, "the number is too large for a double");
    return 0;
}

static int json_integer_check(struct json_scan *s, size_t start)
{
    bool negative = s->text[start] == '-';
    uint64_t v = 0, most = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;

    for (size_t i = start + negative; i < s->at; i++) {
        unsigned digit = (unsigned)(s->text[i] - '0');

        if (v > (most - digit) / 10)
            return json_fail(s, start, "the whole number does not fit into 64 bits");
        v = v * 10 + digit;
    }
    return 0;
}

/* Reads a number, positioned at its first character. */
static int json_number(struct json_scan *s)
{
    size_t start = s->at, point, fraction = 0, digits_end;
    bool real = false;

    if (json_peek(s) == '-')
        s->at++;
    if (json_peek(s) == '0') {
        s->at++;
        if (json_peek(s) >= '0' && json_peek(s) <= '9')
            return json_fail(s, start, "a number must not start with 0");
    } else if (json_digits(s) == 0) {
        return json_fail(s, start, "- must be followed by a digit");
    }
    point = s->at;
    if (json_peek(s) == '.') {
        real = true;
        s->at++;
        fraction = json_digits(s);
        if (fraction == 0)
            return json_fail(s, s->at, "the decimal point of a number must be followed by a digit");
    }
    digits_end = s->at;
    if (json_peek(s) == 'e' || json_peek(s) == 'E') {
        real = true;
        s->at++;
        if (json_peek(s) == '+' || json_peek(s) == '-')
            s->at++;
        if (json_digits(s) == 0)
            return json_fail(s, s->at, "the exponent of a number must have a digit");
    }
    return real ? json_real_check(s, start, point, fraction, digits_end) : json_integer_check(s, start);
}

static int json_word(struct json_scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t start = s->at;
    char here[32];

    while (s->at < s->len && isalpha((unsigned char)s->text[s->at]))
        s->at++;
    for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++)
        if (s->at - start == strlen(words[i]) && memcmp(s->text + start, words[i], s->at - start) == 0)
            return 0;
    if (s->at > start)
        return json_fail(s, start, "\"%.*s\" is not a JSON value: strings need double quotes",
                         (int)PL_MIN(s->at - start, (size_t)40), s->text + start);
    return json_fail(s, start, "a value is expected, not %s", json_here(s, here));
}

static int json_compare_keys(const void *a, const void *b, void *arg)
{
    const struct json_key *x = a, *y = b;
    const uint8_t *bytes = arg;
    size_t n = PL_MIN(x->len, y->len);
    int r = n > 0 ? memcmp(bytes + x->at, bytes + y->at, n) : 0;

    if (r == 0 && x->len != y->len)
        r = x->len < y->len ? -1 : 1;
    if (r == 0)
        r = x->quote < y->quote ? -1 : 1;
    return r;
}

/* Checks that the keys of the object that just ended (from index `first` on) differ. Equal keys stay in text
 * order when sorted. */
static int json_check_duplicates(struct json_scan *s, size_t first)
{
    size_t n = s->open_keys.len / sizeof(struct json_key) - first;
    const struct json_key *twice = NULL;
    struct json_key *keys;

    if (n < 2)
        return 0;
    keys = (struct json_key *)(void *)s->open_keys.data + first;
    qsort_r(keys, n, sizeof(*keys), json_compare_keys, s->keys.data);
    for (size_t i = 1; i < n; i++)
        if (keys[i].len == keys[i - 1].len &&
            (keys[i].len == 0 || memcmp(s->keys.data + keys[i].at, s->keys.data + keys[i - 1].at, keys[i].len) == 0))
            if (twice == NULL || keys[i].quote < twice->quote)
                twice = &keys[i];
    if (twice == NULL)
        return 0;
    return json_fail(s, twice->quote, "the key \"%.*s\" appears here a second time", (int)PL_MIN(twice->len, (size_t)100),
                     twice->len > 0 ? (const char *)s->keys.data + twice->at : "");
}

static bool json_key_wanted(const struct json_scan *s, const struct json_key *key, bool on_path, size_t matched)
{
    const struct json_segment *want;

    if (!on_path || matched >= s->n_segments)
        return false;
    want = &s->segments[matched];
    return want->key != NULL && want->key_len == key->len &&
           (key->len == 0 || memcmp(s->keys.data + key->at, want->key, key->len) == 0);
}

/* Reads "key": value, positioned at the key. */
static int json_member(struct json_scan *s, unsigned depth, bool on_path, size_t matched)
{
    struct json_key key = {.at = s->keys.len, .quote = s->at};
    char here[32];
    int r;

    if (json_peek(s) != '"')
        return json_fail(s, s->at, "a key in double quotes is expected, not %s", json_here(s, here));
    r = json_string(s, true);
    if (r < 0)
        return r;
    key.len = s->keys.len - key.at;
    r = pl_buf_add(&s->open_keys, &key, sizeof(key), s->err);
    if (r < 0)
        return r;
    json_skip_space(s);
    if (json_peek(s) != ':')
        return json_fail(s, s->at, "a : is expected after the key, not %s", json_here(s, here));
    s->at++;
    json_skip_space(s);
    on_path = json_key_wanted(s, &key, on_path, matched);
    if (on_path) {
        s->found = matched + 1;
        s->found_key = key.quote;
        s->found_value = s->at;
    }
    return json_value(s, depth, on_path, matched + 1);
}

/* Reads what follows a member or element. `ret_more` is true after a comma, which must be followed by another
 * member or element. */
static int json_after(struct json_scan *s, char close, bool *ret_more)
{
    char here[32];

    json_skip_space(s);
    if (json_peek(s) == close) {
        s->at++;
        *ret_more = false;
        return 0;
    }
    if (json_peek(s) != ',')
        return json_fail(s, s->at, "a , or %c is expected, not %s", close, json_here(s, here));
    s->at++;
    json_skip_space(s);
    if (json_peek(s) == close)
        return json_fail(s, s->at, "there is nothing between the , and the %c", close);
    *ret_more = true;
    return 0;
}

/* Reads an object, positioned at its '{'. */
static int json_object(struct json_scan *s, unsigned depth, bool on_path, size_t matched)
{
    size_t first = s->open_keys.len, first_byte = s->keys.len;
    bool more;
    int r;

    s->at++;
    json_skip_space(s);
    more = json_peek(s) != '}';
    if (!more)
        s->at++;
    while (more) {
        r = json_member(s, depth + 1, on_path, matched);
        if (r == 0)
            r = json_after(s, '}', &more);
        if (r < 0)
            return r;
    }
    r = json_check_duplicates(s, first / sizeof(struct json_key));
    if (r < 0)
        return r;
    s->open_keys.len = first;
    s->keys.len = first_byte;
    return 0;
}

/* Reads an array, positioned at its '['. */
static int json_array(struct json_scan *s, unsigned depth, bool on_path, size_t matched)
{
    bool more;
    int r;

    s->at++;
    json_skip_space(s);
    more = json_peek(s) != ']';
    if (!more)
        s->at++;
    for (size_t i = 0; more; i++) {
        bool wanted = on_path && matched < s->n_segments && s->segments[matched].key == NULL && s->segments[matched].index == i;

        if (wanted) {
            s->found = matched + 1;
            s->found_key = s->found_value = s->at;
        }
        r = json_value(s, depth + 1, wanted, matched + 1);
        if (r == 0)
            r = json_after(s, ']', &more);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Reads a value, positioned at its first byte. `depth` is the number of arrays and objects around it;
 * `on_path`: it is the value of the first `matched` segments of the path to find. */
static int json_value(struct json_scan *s, unsigned depth, bool on_path, size_t matched)
{
    int c = json_peek(s);

    if (c == '{' || c == '[') {
        if (depth >= PL_JSON_DEPTH_MAX)
            return json_fail(s, s->at, "more than %u nested arrays and objects", PL_JSON_DEPTH_MAX);
        return c == '{' ? json_object(s, depth, on_path, matched) : json_array(s, depth, on_path, matched);
    }
    if (c == '"')
        return json_string(s, false);
    if (c == '-' || (c >= '0' && c <= '9'))
        return json_number(s);
    return json_word(s);
}

static int json_text(struct json_scan *s)
{
    char here[32];
    int r;

    json_skip_space(s);
    s->found_key = s->found_value = s->at;
    if (json_peek(s) != '{' && json_peek(s) != '[')
        return json_fail(s, s->at, "a { is expected, not %s", json_here(s, here));
    r = json_value(s, 0, true, 0);
    if (r < 0)
        return r;
    json_skip_space(s);
    if (s->at < s->len)
        return json_fail(s, s->at, "unexpected %s after the end of the JSON value", json_here(s, here));
    return 0;
}

static struct pl_json_pos json_pos_at(const char *text, size_t offset)
{
    struct pl_json_pos pos = {.offset = offset, .line = 1, .column = 1};

    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            pos.line++;
            pos.column = 1;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) {
            pos.column++;
        }
    }
    return pos;
}

/* Returns the offset of the first byte that is NUL or not valid UTF-8; `len` if there is none. */
static size_t json_bad_byte(const char *text, size_t len)
{
    const char *nul = len > 0 ? memchr(text, '\0', len) : NULL; /* an empty file has `text` NULL */
    size_t end = nul != NULL ? (size_t)(nul - text) : len;

    if (pl_utf8_ok(text, end))
        return end;
    for (size_t i = 0, n; i < end; i += n) {
        for (n = 1; n <= 4 && i + n <= end && !pl_utf8_ok(text + i, n); n++)
            ;
        if (n > 4 || i + n > end)
            return i;
    }
    return end;
}

int pl_json_check(const char *text, size_t len, struct pl_json_pos *ret_at, struct pl_err *err)
{
    struct json_scan s = {.text = text, .len = len, .keys.max = 2 * PL_JSON_MAX_BYTES, .open_keys.max = SIZE_MAX / 2, .err = err};
    size_t bad;
    int r;

    if (len > PL_JSON_MAX_BYTES)
        return pl_err_set(err, PL_ETOOBIG, "the text is %zu bytes long; at most %u are allowed", len, PL_JSON_MAX_BYTES);
    bad = json_bad_byte(text, len);
    if (bad < len)
        r = json_fail(&s, bad, text[bad] == '\0' ? "the text contains a NUL byte" : "the text is not valid UTF-8");
    else
        r = json_text(&s);
    pl_buf_finish(&s.keys);
    pl_buf_finish(&s.open_keys);
    if (r < 0 && ret_at != NULL)
        *ret_at = json_pos_at(text, s.at);
    return r;
}

/* Parses a path into segments; keys written as JSON strings are decoded into `decoded`. Returns the number of
 * segments, -1 if it is not a valid path. */
static int json_path_parse(const char *path, struct json_segment *segments, struct pl_buf *decoded)
{
    struct json_scan s = {.text = path, .len = strlen(path)};
    size_t starts[PL_JSON_DEPTH_MAX];
    size_t n = 0;
    int r = 0;

    for (; r == 0 && s.at < s.len && n < PL_JSON_DEPTH_MAX; n++) {
        struct json_segment *seg = &segments[n];

        *seg = (struct json_segment){0};
        starts[n] = SIZE_MAX;
        if (path[s.at] != '[') {
            s.at += path[s.at] == '.';
            seg->key = path + s.at;
            seg->key_len = strcspn(seg->key, ".[");
            s.at += seg->key_len;
            continue;
        }
        s.at++;
        if (json_peek(&s) == '"') {
            starts[n] = s.keys.len;
            r = json_string(&s, true);
            seg->key_len = s.keys.len - starts[n];
        } else {
            for (; s.at < s.len && isdigit((unsigned char)path[s.at]); s.at++)
                seg->index = seg->index * 10 + (size_t)(path[s.at] - '0');
        }
        if (r == 0 && json_peek(&s) != ']')
            r = PL_EINVAL;
        s.at++;
    }
    *decoded = s.keys;
    for (size_t i = 0; i < n; i++)
        if (starts[i] != SIZE_MAX) /* from here on the buffer does not grow, so pointers into it stay valid */
            segments[i].key = decoded->data != NULL ? (const char *)decoded->data + starts[i] : "";
    return r == 0 && s.at >= s.len ? (int)n : -1;
}

bool pl_json_find(const char *text, size_t len, const char *path, struct pl_json_pos *ret_key, struct pl_json_pos *ret_value)
{
    _cleanup_(pl_buf_finish) struct pl_buf decoded = {0};
    struct json_segment segments[PL_JSON_DEPTH_MAX];
    struct json_scan s = {.text = text, .len = len, .keys.max = 2 * PL_JSON_MAX_BYTES, .open_keys.max = SIZE_MAX / 2};
    int n = json_path_parse(path, segments, &decoded);

    s.segments = segments;
    s.n_segments = n > 0 ? (size_t)n : 0;
    (void)json_text(&s); /* an invalid text has positions only up to the error */
    pl_buf_finish(&s.keys);
    pl_buf_finish(&s.open_keys);
    if (ret_key != NULL)
        *ret_key = json_pos_at(text, PL_MIN(s.found_key, len));
    if (ret_value != NULL)
        *ret_value = json_pos_at(text, PL_MIN(s.found_value, len));
    return n >= 0 && s.found == (size_t)n;
}

static bool json_key_plain(const char *key)
{
    if (*key == '\0')
        return false;
    for (; *key != '\0'; key++)
        if (!isalnum((unsigned char)*key) && *key != '_' && *key != '-')
            return false;
    return true;
}

int pl_json_path_key(struct pl_buf *path, const char *key, struct pl_err *err)
{
    int r;

    if (json_key_plain(key))
        return pl_buf_addf(path, err, "%s%s", path->len > 0 ? "." : "", key);
    r = pl_buf_add_str(path, "[\"", err);
    for (; r == 0 && *key != '\0'; key++) {
        if (*key == '"' || *key == '\\')
            r = pl_buf_addf(path, err, "\\%c", *key);
        else if ((unsigned char)*key < 0x20)
            r = pl_buf_addf(path, err, "\\u%04x", (unsigned)*key);
        else
            r = pl_buf_add_u8(path, (uint8_t)*key, err);
    }
    return r < 0 ? r : pl_buf_add_str(path, "\"]", err);
}

int pl_json_path_index(struct pl_buf *path, size_t index, struct pl_err *err)
{
    return pl_buf_addf(path, err, "[%zu]", index);
}
