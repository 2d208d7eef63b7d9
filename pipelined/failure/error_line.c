#include "pipelined/failure/error_line.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Words, in lower case, of lines that report an error. Each matches at the start of a word, so that "error"
 * matches "errors" but not "terror"; a word after a capital letter counts as well: "ValueError". */
static const char *const words[] = {
    "error",   "exception",     "fatal",        "panic",  "panicked",  "cannot",    "can't",        "could not", "couldn't",
    "failed",  "failure",       "unable",       "killed", "denied",    "refused",   "no such file", "not found", "abort",
    "invalid", "out of memory", "segmentation", "assert", "terminate", "traceback", "caused by",    "undefined",
};

/* How well a line explains a failure. */
enum rank { EMPTY, PLAIN, WEAK, STRONG };

static bool begins_word(const char *line, const char *at)
{
    return at == line || !isalpha((unsigned char)at[-1]) || (isupper((unsigned char)at[0]) && islower((unsigned char)at[-1]));
}

static bool has_word(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const int first = tolower((unsigned char)line[i]);

        if (!begins_word(line, line + i))
            continue;
        for (size_t w = 0; w < PL_ARRAY_SIZE(words); w++)
            if (words[w][0] == first && strncasecmp(line + i, words[w], PL_MIN(strlen(words[w]), len - i)) == 0 &&
                strlen(words[w]) <= len - i)
                return true;
    }
    return false;
}

static bool begins_with(const char *line, size_t len, const char *text)
{
    const size_t n = strlen(text);

    return len >= n && memcmp(line, text, n) == 0;
}

/* True for "make: *** [all] Error 2" and "make[1]: *** …". */
static bool is_of_make(const char *line, size_t len)
{
    const char *stars = len > 0 ? memmem(line, len, ": ***", 5) : NULL;

    return stars && begins_with(line, len, "make") && stars - line < 16;
}

static enum rank rank_of(const char *line, size_t len, bool indented)
{
    if (len == 0)
        return EMPTY;
    if (!has_word(line, len))
        return PLAIN;
    return indented || is_of_make(line, len) ? WEAK : STRONG;
}

struct pl_error_line pl_error_line(const char *output)
{
    struct pl_error_line best[STRONG + 1] = {0}, exception = {0};
    bool in_traceback = false;
    size_t number = 1;

    for (const char *at = output;; number++) {
        const size_t whole = strcspn(at, "\r\n");
        size_t indent = 0, len = whole;

        while (len > 0 && isspace((unsigned char)at[len - 1]))
            len--;
        while (indent < len && isspace((unsigned char)at[indent]))
            indent++;
        const struct pl_error_line line = {at + indent, len - indent, number};

        if (begins_with(line.text, line.len, "Traceback (most recent call last)"))
            in_traceback = true;
        else if (in_traceback && line.len > 0 && indent == 0) {
            exception = line;
            in_traceback = false;
        }
        best[rank_of(line.text, line.len, indent > 0)] = line;
        if (at[whole] == '\0')
            break;
        at += whole + (at[whole] == '\r' && at[whole + 1] == '\n' ? 2 : 1);
    }
    if (exception.len > 0)
        return exception;
    for (enum rank r = STRONG; r > EMPTY; r--)
        if (best[r].len > 0)
            return best[r];
    return (struct pl_error_line){output, 0, 1};
}
