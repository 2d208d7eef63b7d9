/* clock: reads the system's clocks, formats times, and parses durations as sums of numbers with units. */
#include "storage/base/clock.h"

#include "storage/base/err.h"

#include <stdio.h>
#include <time.h>

static int64_t clock_ns(clockid_t which)
{
    struct timespec ts;

    clock_gettime(which, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t pl_clock_mono_ms(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t pl_clock_mono_us(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000;
}

int64_t pl_clock_wall_us(void)
{
    return clock_ns(CLOCK_REALTIME) / 1000;
}

char *pl_clock_text(int64_t wall_us, char out[32])
{
    time_t seconds = (time_t)(wall_us >= 0 ? wall_us / 1000000 : -((-wall_us + 999999) / 1000000));
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        (void)snprintf(out, 32, "?");
    return out;
}

static const struct {
    const char *name;
    int64_t ns;
} clock_units[] = {
    /* "ms" comes before "m": the first name that matches is used */
    {"ms", 1000000}, {"us", 1000}, {"ns", 1}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000},
};

/* Parses one number with its unit at *p, e.g. "1.5h", into nanoseconds, and moves *p to its end. Returns
 * false if there is none or it does not fit. */
static bool duration_part(const char **p, int64_t *ret_ns)
{
    const char *s = *p;
    int64_t whole = 0, fraction = 0, scale = 1;
    bool digits = false;

    for (; *s >= '0' && *s <= '9'; s++) {
        digits = true;
        if (whole > INT64_MAX / 10 - 10)
            return false;
        whole = whole * 10 + (*s - '0');
    }
    if (*s == '.') {
        for (s++; *s >= '0' && *s <= '9'; s++) {
            digits = true;
            /* ignores further digits of the fraction: they make less than 1 ms, except with the units h
             * and d */
            if (scale < 10000) {
                fraction = fraction * 10 + (*s - '0');
                scale *= 10;
            }
        }
    }
    if (!digits)
        return false;
    for (size_t i = 0; i < PL_ARRAY_SIZE(clock_units); i++) {
        size_t n = strlen(clock_units[i].name);

        if (strncmp(s, clock_units[i].name, n) != 0)
            continue;
        if (whole > INT64_MAX / 2 / clock_units[i].ns)
            return false;
        *ret_ns = whole * clock_units[i].ns + clock_units[i].ns / scale * fraction;
        *p = s + n;
        return true;
    }
    return false;
}

int pl_duration_parse(const char *text, int64_t *ret_ms, struct pl_err *err)
{
    const char *p = text;
    int64_t sum = 0, part;

    if (*p == '0' && p[1] == '\0') {
        *ret_ms = 0;
        return 0;
    }
    if (*p == '\0')
        goto refuse;
    while (*p != '\0') {
        if (!duration_part(&p, &part) || part > INT64_MAX - sum)
            goto refuse;
        sum += part;
    }
    *ret_ms = sum / 1000000;
    return 0;
refuse:
    return pl_err_set(err, PL_EINVAL,
                      "\"%.64s\" is not a duration; accepted: numbers with units, such as 500ms, 90s, 10m, 1h30m, 2d", text);
}

char *pl_duration_text(int64_t ms, char out[32])
{
    const char *sign = ms < 0 ? "-" : "";
    uint64_t v = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    unsigned long long s = v / 1000, m = s / 60, h = m / 60;

    if (v < 1000)
        (void)snprintf(out, 32, "%s%ums", sign, (unsigned)v);
    else if (v < 60000 && v % 1000 >= 100)
        (void)snprintf(out, 32, "%s%llu.%llus", sign, s, (unsigned long long)(v % 1000 / 100));
    else if (v < 60000)
        (void)snprintf(out, 32, "%s%llus", sign, s);
    else if (h == 0)
        (void)snprintf(out, 32, s % 60 != 0 ? "%s%llum%llus" : "%s%llum", sign, m, s % 60);
    else
        (void)snprintf(out, 32, m % 60 != 0 ? "%s%lluh%llum" : "%s%lluh", sign, h, m % 60);
    return out;
}
