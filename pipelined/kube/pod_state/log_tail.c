/* log_tail.c: finds the last line with text and copies it as clean UTF-8, or the message of a JSON log
 * record. */
#include "pipelined/kube/pod_state/log_tail.h"

#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <jansson.h>

static bool is_blank(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7F;
}

/* Copies a line, cut at the buffer's size; control characters become blanks. */
static void take(const char *line, size_t n, char *out, size_t size)
{
    const bool fits = n < size;

    n = PL_MIN(n, size - 1);
    while (!fits && n > 0 && ((unsigned char)line[n] & 0xC0) == 0x80)
        n--; /* move the cut out of the middle of a UTF-8 character */
    for (size_t i = 0; i < n; i++)
        out[i] = is_blank(line[i]) ? ' ' : line[i];
    out[n] = '\0';
    (void)pl_utf8_clean(out);
}

/* Copies a line whose beginning may be missing: "…", then the line from its second word on. */
static void take_rest(const char *line, size_t n, char *out, size_t size)
{
    static const char missing[] = "\xe2\x80\xa6";
    const char *blank = memchr(line, ' ', n), *from = blank != NULL ? blank + 1 : line;

    memcpy(out, missing, sizeof(missing));
    take(from, n - (size_t)(from - line), out + strlen(missing), size - strlen(missing));
}

void pl_log_tail(const char *text, size_t n, bool cut, char *out, size_t size)
{
    const char *line, *message;
    json_t *record;

    while (n > 0 && is_blank(text[n - 1]))
        n--;
    line = n > 0 ? memrchr(text, '\n', n) : NULL;
    cut = cut && line == NULL;
    line = line != NULL ? line + 1 : text;
    n -= (size_t)(line - text);
    for (; n > 0 && is_blank(*line); n--)
        line++;
    record = n > 0 && *line == '{' ? json_loadb(line, n, JSON_ALLOW_NUL, NULL) : NULL;
    message = pl_json_str(record, "message");
    if (*message != '\0')
        take(message, strlen(message), out, size);
    else if (cut && n > 0)
        take_rest(line, n, out, size);
    else
        take(line, n, out, size);
    json_decref(record);
}
