/* Each trace point compares its room with the list of traced rooms only once; afterwards, a trace point that
 * is off costs a single load. */
#include "storage/system/trace.h"

#include "storage/base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define TRACE_LINE_BYTES 2048

/* True if `name` (`len` bytes) is the name of the room or of a folder that contains it, or is "all". */
static bool names_room(const char *name, size_t len, const char *room)
{
    if (len == 3 && memcmp(name, "all", 3) == 0)
        return true;
    return len > 0 && strncmp(name, room, len) == 0 && (room[len] == '\0' || room[len] == '/');
}

bool pl_trace_on(const char *room)
{
    const char *list = getenv("PIPELINED_TRACE"), *end;

    for (; list && *list; list = *end ? end + 1 : end) {
        end = list + strcspn(list, ", ");
        if (names_room(list, (size_t)(end - list), room))
            return true;
    }
    return false;
}

void pl_trace_write(const char *room, const char *fmt, ...)
{
    char line[TRACE_LINE_BYTES];
    int64_t us = pl_clock_mono_us();
    int n = snprintf(line, sizeof line, "%lld.%06lld %ld %s: ", (long long)(us / 1000000), (long long)(us % 1000000),
                     (long)syscall(SYS_gettid), room);
    va_list ap;
    int more;

    va_start(ap, fmt);
    more = vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    n = more < 0 ? n : PL_MIN(n + more, (int)sizeof line - 2);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* stderr cannot be written: nothing can be reported */
}
