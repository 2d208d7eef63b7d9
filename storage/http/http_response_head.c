/* http_response_head: compares each line with the headers that are needed and stores their values. */
#include "storage/http/http_response_head.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

/* If the line is the header `name`, copies its trimmed value to `out`, truncated to fit, and returns true. */
static bool header_is(const char *line, size_t n, const char *name, char *out, size_t size)
{
    const size_t len = strlen(name);

    if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
        return false;
    for (line += len + 1, n -= len + 1; n > 0 && isspace((unsigned char)*line); line++)
        n--;
    while (n > 0 && isspace((unsigned char)line[n - 1]))
        n--;
    (void)snprintf(out, size, "%.*s", (int)n, line);
    return true;
}

static int64_t http_date(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);

    return end != NULL && *end == '\0' ? (int64_t)timegm(&tm) : 0;
}

/* Parses "bytes 0-9/100", or the form with "*" in place of the range, which a 416 response has. */
static void read_content_range(struct pl_http_exchange *x, const char *text)
{
    unsigned long long first = 0, last = 0, total = 0;

    if (sscanf(text, "bytes %llu-%llu/%llu", &first, &last, &total) == 3 || sscanf(text, "bytes */%llu", &total) == 1) {
        x->first = first;
        x->total = total;
    }
}

static uint64_t number(const char *text, uint64_t otherwise)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 10);

    return *text >= '0' && *text <= '9' && *end == '\0' ? v : otherwise;
}

void pl_http_response_head_forget(struct pl_http_exchange *x)
{
    x->status = 0;
    x->date_s = 0;
    x->first = 0;
    x->total = x->length = UINT64_MAX;
    x->retry_after_s = 0;
    x->chunked = false;
    x->etag[0] = x->region[0] = x->location[0] = '\0';
}

void pl_http_response_head_read(struct pl_http_exchange *x, const char *line, size_t n)
{
    char value[128];

    if (header_is(line, n, "ETag", x->etag, sizeof(x->etag)) ||
        header_is(line, n, "x-amz-bucket-region", x->region, sizeof(x->region)) ||
        header_is(line, n, "Location", x->location, sizeof(x->location)))
        return;
    if (header_is(line, n, "Date", value, sizeof(value)))
        x->date_s = http_date(value);
    else if (header_is(line, n, "Content-Range", value, sizeof(value)))
        read_content_range(x, value);
    else if (header_is(line, n, "Content-Length", value, sizeof(value)))
        x->length = number(value, UINT64_MAX);
    else if (header_is(line, n, "Transfer-Encoding", value, sizeof(value)))
        x->chunked = strcasecmp(value, "chunked") == 0;
    else if (header_is(line, n, "Retry-After", value, sizeof(value)))
        x->retry_after_s = (uint32_t)PL_MIN(number(value, 0), (uint64_t)3600);
}
