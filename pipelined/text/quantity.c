/* A quantity is read as mantissa × 10^power10 × 2^power2 and then evaluated in 128-bit arithmetic. */
#include "pipelined/text/quantity.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#define QUANTITY_DIGITS_MAX 18

/* The value mantissa × 10^power10 × 2^power2. */
struct quantity {
    uint64_t mantissa;
    int power10;
    int power2;
};

static const struct {
    const char *suffix;
    int power10, power2;
} quantity_suffixes[] = {
    {"", 0, 0},   {"m", -3, 0},  {"k", 3, 0},   {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},
    {"E", 18, 0}, {"Ki", 0, 10}, {"Mi", 0, 20}, {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

/* Reads an exponent like "e3" or "E-2". False for anything else. */
static bool quantity_exponent(const char *p, int *ret)
{
    bool negative;
    int v = 0;

    if (p[0] != 'e' && p[0] != 'E')
        return false;
    negative = p[1] == '-';
    p += p[1] == '+' || p[1] == '-' ? 2 : 1;
    if (!isdigit((unsigned char)*p))
        return false;
    for (; isdigit((unsigned char)*p) && v < 100; p++)
        v = v * 10 + (*p - '0');
    *ret = negative ? -v : v;
    return *p == '\0';
}

/* Parses digits with an optional decimal point, then an exponent or a suffix. */
static bool quantity_parse(const char *text, struct quantity *ret)
{
    struct quantity q = {0};
    unsigned digits = 0, kept = 0;
    bool point = false;
    const char *p = text;
    int exponent;

    for (; isdigit((unsigned char)*p) || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        digits++;
        if (kept > 0 || *p != '0')
            kept++;
        if (kept > QUANTITY_DIGITS_MAX)
            return false;
        q.mantissa = q.mantissa * 10 + (uint64_t)(*p - '0');
        q.power10 -= point;
    }
    if (digits == 0)
        return false;
    if (quantity_exponent(p, &exponent)) {
        q.power10 += exponent;
        *ret = q;
        return true;
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(quantity_suffixes); i++) {
        if (!pl_streq(p, quantity_suffixes[i].suffix))
            continue;
        q.power10 += quantity_suffixes[i].power10;
        q.power2 = quantity_suffixes[i].power2;
        *ret = q;
        return true;
    }
    return false;
}

/* Returns the value rounded up. False if it is outside 1..`most`. */
static bool quantity_value(struct quantity q, int64_t most, int64_t *ret)
{
    /* v is below 2^60 here; it is multiplied by 10 only while it is ≤ most ≤ 2^60 */
    __extension__ unsigned __int128 v = q.mantissa;
    bool rest = false;

    for (; q.power2 > 0; q.power2--)
        v *= 2; /* v stays below 2^120 */
    for (; q.power10 < 0 && v > 0; q.power10++) {
        rest = rest || v % 10 != 0;
        v /= 10;
    }
    for (; q.power10 > 0 && v <= (uint64_t)most; q.power10--)
        v *= 10;
    v += rest;
    if (v == 0 || v > (uint64_t)most)
        return false;
    *ret = (int64_t)v;
    return true;
}

int pl_quantity_cpu(const char *text, int64_t *ret_milli, struct pl_err *err)
{
    struct quantity q;

    if (!quantity_parse(text, &q))
        return pl_err_set(err, PL_EINVAL, "\"%s\" is not an amount of CPU: use 2, 0.5 or \"500m\"", text);
    q.power10 += 3;
    if (!quantity_value(q, (int64_t)1 << 53, ret_milli))
        return pl_err_set(err, PL_EINVAL, "\"%s\" is not between 1m and 9e12 CPUs", text);
    return 0;
}

int pl_quantity_bytes(const char *text, int64_t *ret_bytes, struct pl_err *err)
{
    struct quantity q;

    if (!quantity_parse(text, &q))
        return pl_err_set(err, PL_EINVAL, "\"%s\" is not a size: use \"512Mi\", \"40Gi\", \"2G\" or a number of bytes", text);
    if (!quantity_value(q, (int64_t)1 << 60, ret_bytes))
        return pl_err_set(err, PL_EINVAL, "\"%s\" is not between 1 byte and 1Ei", text);
    return 0;
}

char *pl_quantity_cpu_text(int64_t milli, char out[32])
{
    if (milli % 1000 == 0)
        (void)snprintf(out, 32, "%" PRId64, milli / 1000);
    else
        (void)snprintf(out, 32, "%" PRId64 "m", milli);
    return out;
}

char *pl_quantity_bytes_text(int64_t bytes, char out[32])
{
    static const char *const suffix[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    size_t i = 0;

    while (bytes > 0 && bytes % 1024 == 0 && i + 1 < PL_ARRAY_SIZE(suffix)) {
        bytes /= 1024;
        i++;
    }
    (void)snprintf(out, 32, "%" PRId64 "%s", bytes, suffix[i]);
    return out;
}

char *pl_quantity_count_text(int64_t n, char out[32])
{
    char digits[24];
    const int len = snprintf(digits, sizeof(digits), "%" PRId64, n);
    size_t at = 0;

    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}
