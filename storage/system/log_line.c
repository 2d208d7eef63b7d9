/* log_line: formats a line in a buffer on the stack and writes it; long messages are truncated. */
#include "storage/system/log_line.h"

#include "storage/base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define LOG_LINE_BYTES 4096

static struct {
    char program[32];
    enum pl_log_level least;
    bool json;
} log_state = {.program = "pipelined", .least = PL_LOG_INFO};

static _Thread_local uint64_t log_request; /* 0 = none */

static const char *const log_names[] = {"debug", "info", "warn", "error"};

bool pl_log_level_parse(const char *name, enum pl_log_level *ret)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(log_names); i++) {
        if (!pl_streq(log_names[i], name))
            continue;
        *ret = (enum pl_log_level)i;
        return true;
    }
    return false;
}

void pl_log_init(const char *program, enum pl_log_level least, bool json)
{
    (void)snprintf(log_state.program, sizeof(log_state.program), "%s", program);
    log_state.least = least;
    log_state.json = json;
}

uint64_t pl_log_request(uint64_t id)
{
    const uint64_t before = log_request;

    log_request = id;
    return before;
}

/* Copies `text` escaped for a JSON string, truncated to fit. */
static void log_escape(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (const unsigned char *p = (const unsigned char *)text; *p != '\0' && n + 8 < size; p++) {
        if (*p == '"' || *p == '\\') {
            out[n++] = '\\';
            out[n++] = (char)*p;
        } else if (*p < 0x20 || *p == 0x7F) {
            n += (size_t)snprintf(out + n, size - n, "\\u%04x", (unsigned)*p);
        } else {
            out[n++] = (char)*p;
        }
    }
    out[n] = '\0';
}

void pl_log(enum pl_log_level level, const char *module, const char *fmt, ...)
{
    char message[LOG_LINE_BYTES / 2], escaped[LOG_LINE_BYTES], line[LOG_LINE_BYTES + 256], when[32], request[40] = "";
    va_list ap;
    int n;

    if (level < log_state.least)
        return;
    va_start(ap, fmt);
    n = vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    for (char *p = message; *p != '\0'; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' '; /* each message stays one line, even if it quotes text with a line break */
    pl_clock_text(pl_clock_wall_us(), when);
    if (log_state.json) {
        log_escape(message, escaped, sizeof(escaped));
        if (log_request != 0)
            (void)snprintf(request, sizeof(request), ",\"request\":%" PRIu64, log_request);
        n = snprintf(line, sizeof(line),
                     "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"%s\",\"module\":\"%s\"%s,\"message\":\"%s\"}\n", when,
                     log_names[level], log_state.program, module, request, escaped);
    } else {
        n = snprintf(line, sizeof(line), "%s %-5s %s: %s\n", when, log_names[level], module, message);
    }
    if (n > 0 && write(STDERR_FILENO, line, PL_MIN((size_t)n, sizeof(line) - 1)) < 0)
        return; /* stderr cannot be written: the error cannot be reported */
}
