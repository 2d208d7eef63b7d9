/* path: checks of names, paths and object keys; UTF-8 validation; edit distance. */
#include "storage/base/path.h"

#include <ctype.h>
#include <stdio.h>

#define WORD_MAX_BYTES 63

/* Checks one segment of a path: the `len` bytes at `seg`, without '/'. The caller has already checked the
 * path for control bytes. */
static int path_check_segment(const char *seg, size_t len, const char *path, size_t path_len, struct pl_err *err)
{
    if (len == 0)
        return pl_err_set(err, PL_EPATH, "path \"%.*s\" has an empty segment", (int)path_len, path);
    if (len > PL_SEGMENT_MAX_BYTES)
        return pl_err_set(err, PL_EPATH, "path \"%.64s…\" has a segment of %zu bytes; at most %d are allowed", path, len,
                          PL_SEGMENT_MAX_BYTES);
    if ((len == 1 && seg[0] == '.') || (len == 2 && seg[0] == '.' && seg[1] == '.'))
        return pl_err_set(err, PL_EPATH, "path \"%.*s\" has a segment \"%.*s\"", (int)path_len, path, (int)len, seg);
    return 0;
}

int pl_path_check(const char *path, size_t len, struct pl_err *err)
{
    size_t start = 0;
    unsigned char seen = 0;
    int r;

    if (len == 0)
        return pl_err_set(err, PL_EPATH, "the path is empty");
    if (len > PL_PATH_MAX_BYTES)
        return pl_err_set(err, PL_EPATH, "path \"%.64s…\" is %zu bytes long; at most %d are allowed", path, len,
                          PL_PATH_MAX_BYTES);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)path[i];

        seen |= c;
        if (c < 0x20 || c == 0x7F)
            return pl_err_set(err, PL_EPATH, "path \"%.*s\" has the control byte 0x%02x at offset %zu", (int)i, path, c, i);
        if (c != '/')
            continue;
        r = path_check_segment(path + start, i - start, path, len, err);
        if (r < 0)
            return r;
        start = i + 1;
    }
    if (seen >= 0x80 && !pl_utf8_ok(path, len))
        return pl_err_set(err, PL_EPATH, "path \"%.*s\" is not valid UTF-8", (int)len, path);
    return path_check_segment(path + start, len - start, path, len, err);
}

int pl_path_canonical(const char *in, char *out, struct pl_err *err)
{
    size_t len = strlen(in);
    int r;

    if (len > 0 && in[0] == '/') {
        in++;
        len--;
    }
    if (len > 1 && in[len - 1] == '/')
        len--;
    if (len > 0) {
        r = pl_path_check(in, len, err);
        if (r < 0)
            return r;
    }
    memcpy(out, in, len);
    out[len] = '\0';
    return 0;
}

static bool name_is_hex(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isxdigit((unsigned char)name[i]))
            return false;
    return true;
}

static bool name_byte_ok(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (!first && (c == '_' || c == '-'));
}

int pl_name_check(const char *what, const char *name, struct pl_err *err)
{
    size_t len = strlen(name);

    if (len == 0)
        return pl_err_set(err, PL_ENAME, "the name of the %s is empty", what);
    if (len > PL_NAME_MAX_BYTES)
        return pl_err_set(err, PL_ENAME, "%s name \"%.60s…\" is %zu bytes long; at most %d are allowed", what, name, len,
                          PL_NAME_MAX_BYTES);
    for (size_t i = 0; i < len; i++)
        if (!name_byte_ok(name[i], i == 0))
            return pl_err_set(err, PL_ENAME, "%s name \"%s\" is not allowed: letters, digits, _ and -, not starting with _ or -",
                              what, name);
    if (len == 32 && name_is_hex(name, len))
        return pl_err_set(err, PL_ENAME, "%s name \"%s\" looks like the id of a commit (32 hex digits)", what, name);
    return 0;
}

/* Returns, for the lead byte `c` of a character, the number of bytes that follow, and the valid range of the
 * first of them, chosen so that overlong forms and surrogates are rejected (RFC 3629 §4). Returns false if
 * `c` is not a lead byte. */
static bool utf8_lead(uint8_t c, size_t *ret_more, uint8_t *ret_low, uint8_t *ret_high)
{
    *ret_low = 0x80;
    *ret_high = 0xBF;
    if (c >= 0xC2 && c <= 0xDF) {
        *ret_more = 1;
    } else if (c >= 0xE0 && c <= 0xEF) {
        *ret_more = 2;
        if (c == 0xE0)
            *ret_low = 0xA0;
        else if (c == 0xED)
            *ret_high = 0x9F;
    } else if (c >= 0xF0 && c <= 0xF4) {
        *ret_more = 3;
        if (c == 0xF0)
            *ret_low = 0x90;
        else if (c == 0xF4)
            *ret_high = 0x8F;
    } else {
        return false;
    }
    return true;
}

/* Returns the length in bytes of the UTF-8 character at `p`; 0 if it is invalid. */
static size_t utf8_step(const uint8_t *p, const uint8_t *end)
{
    uint8_t low, high;
    size_t more;

    if (*p < 0x80)
        return 1;
    if (!utf8_lead(*p, &more, &low, &high) || (size_t)(end - p) <= more || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i <= more; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return 1 + more;
}

bool pl_utf8_ok(const void *data, size_t len)
{
    const uint8_t *p = data, *end = p + len;

    while (p < end) {
        size_t step = *p < 0x80 ? 1 : utf8_step(p, end);

        if (step == 0)
            return false;
        p += step;
    }
    return true;
}

char *pl_utf8_clean(char *text)
{
    uint8_t *p = (uint8_t *)text, *end = p + strlen(text);

    while (p < end) {
        size_t step = utf8_step(p, end);

        if (step == 0)
            *p++ = '?';
        else
            p += step;
    }
    return text;
}

char *pl_utf8_trim(char *text)
{
    size_t n = strlen(text), back = 1;
    uint8_t *p = (uint8_t *)text;

    while (back < 4 && back < n && (p[n - back] & 0xC0) == 0x80)
        back++;
    if (n > 0 && p[n - back] >= 0xC0 && utf8_step(p + n - back, p + n) != back)
        p[n - back] = '\0';
    return text;
}

/* Returns the edit distance of two words of at most WORD_MAX_BYTES. Insertion, deletion, replacement and the
 * swap of two neighbours cost 1 each (optimal string alignment). */
static unsigned word_distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned rows[3][WORD_MAX_BYTES + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= m; j++)
        above[j] = (unsigned)j;
    memcpy(before, above, (m + 1) * sizeof(*above));
    for (size_t i = 1; i <= n; i++) {
        unsigned *spare = before;

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);

            best = PL_MIN(best, PL_MIN(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = PL_MIN(best, before[j - 2] + 1);
            row[j] = best;
        }
        before = above;
        above = row;
        row = spare;
    }
    return above[m];
}

const char *pl_word_nearest(const char *word, const char *const *words, size_t n)
{
    size_t len = strlen(word);
    unsigned best = len < 4 ? 2 : 3;
    const char *nearest = NULL;

    if (len > WORD_MAX_BYTES)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t other = strlen(words[i]);
        unsigned d;

        if (other > WORD_MAX_BYTES || other > len + 2 || len > other + 2)
            continue;
        d = word_distance(word, len, words[i], other);
        if (d < best) {
            best = d;
            nearest = words[i];
        }
    }
    return nearest;
}

char *pl_size_text(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    size_t unit = 0;

    while (v >= 1023.95 && unit + 1 < PL_ARRAY_SIZE(units)) {
        v /= 1024;
        unit++;
    }
    if (unit == 0)
        (void)snprintf(out, 32, "%u B", (unsigned)bytes);
    else
        (void)snprintf(out, 32, "%.1f %s", v, units[unit]);
    return out;
}

/* ---- object keys ---- */

static bool key_byte_ok(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

int pl_path_object_key_check(const char *key, struct pl_err *err)
{
    size_t len = strlen(key);
    bool start = true;

    if (len == 0 || len > PL_OBJECT_KEY_MAX)
        return pl_err_set(err, PL_EINVAL, "an object key must have 1 to %d bytes; this one has %zu", PL_OBJECT_KEY_MAX, len);
    if (strncmp(key, "tmp/", 4) == 0 || pl_streq(key, "tmp"))
        return pl_err_set(err, PL_EINVAL, "object key \"%s\" is reserved for temporary files", key);
    for (size_t i = 0; i < len; i++) {
        bool slash = key[i] == '/';

        if (start ? slash || key[i] == '.' || !key_byte_ok(key[i]) : !slash && !key_byte_ok(key[i]))
            return pl_err_set(err, PL_EINVAL, "object key \"%s\" has a character at byte %zu that is not allowed", key, i);
        start = slash;
    }
    return start ? pl_err_set(err, PL_EINVAL, "object key \"%s\" ends with a slash", key) : 0;
}

bool pl_path_link_stays(const char *path, const char *target)
{
    int64_t depth = 0;

    if (target[0] == '/')
        return false;
    for (const char *p = path; *p != '\0'; p++)
        depth += *p == '/';
    while (*target != '\0') {
        size_t len = strcspn(target, "/");

        if (len == 2 && target[0] == '.' && target[1] == '.')
            depth--;
        else if (len > 0 && !(len == 1 && target[0] == '.'))
            depth++;
        if (depth < 0)
            return false;
        target += len;
        target += *target == '/';
    }
    return true;
}
