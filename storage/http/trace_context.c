/* trace_context: checks a traceparent and keeps it for the thread. */
#include "storage/http/trace_context.h"

#include <string.h>

static _Thread_local char current[PL_TRACEPARENT_CHARS + 1];

/* True if `n` lower-case hex digits begin at `p`, and, with `id`, not all of them are 0. */
static bool is_hex(const char *p, size_t n, bool id)
{
    return strspn(p, "0123456789abcdef") >= n && (!id || strspn(p, "0") < n);
}

bool pl_traceparent_ok(const char *text)
{
    return strlen(text) == PL_TRACEPARENT_CHARS && strncmp(text, "00-", 3) == 0 && is_hex(text + 3, 32, true) &&
           text[35] == '-' && is_hex(text + 36, 16, true) && text[52] == '-' && is_hex(text + 53, 2, false);
}

void pl_trace_context_set(const char *traceparent)
{
    const bool good = traceparent && pl_traceparent_ok(traceparent);

    memcpy(current, good ? traceparent : "", good ? PL_TRACEPARENT_CHARS + 1 : 1);
}

const char *pl_trace_context(void)
{
    return current;
}
