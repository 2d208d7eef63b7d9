/* s3_profile: a parser of the INI-like format of the shared files, line by line. */
#include "storage/s3/s3_profile.h"

#include "storage/system/io.h"

#include <limits.h>
#include <stdio.h>

#define PROFILE_FILE_MAX (1u << 20)

static const char *skip_spaces(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

static const char *trim_end(const char *p, const char *end)
{
    while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    return end;
}

static bool is_word(const char *p, const char *end, const char *word)
{
    return (size_t)(end - p) == strlen(word) && memcmp(p, word, (size_t)(end - p)) == 0;
}

/* Returns true if the line is "[name]" or "[profile name]". */
static bool is_section(const char *p, const char *end, const char *profile)
{
    const char *close = memchr(p, ']', (size_t)(end - p));

    if (close == NULL)
        return false;
    p = skip_spaces(p + 1, close);
    if ((size_t)(close - p) > 8 && memcmp(p, "profile", 7) == 0 && (p[7] == ' ' || p[7] == '\t'))
        p = skip_spaces(p + 7, close);
    return is_word(p, trim_end(p, close), profile);
}

bool pl_s3_profile_value(const char *text, const char *profile, const char *name, char *out, size_t size, bool *ret_section)
{
    bool inside = false, section = false, found = false;

    for (const char *line = text; *line != '\0';) {
        const char *end = line + strcspn(line, "\n"), *p = skip_spaces(line, end), *equals;

        if (*p == '[') {
            inside = is_section(p, end, profile);
            section |= inside;
        } else if (inside && *p != '#' && *p != ';' && (equals = memchr(p, '=', (size_t)(end - p))) != NULL &&
                   is_word(p, trim_end(p, equals), name)) {
            const char *value = skip_spaces(equals + 1, end), *value_end = trim_end(value, end);

            found = (size_t)(value_end - value) < size;
            if (found)
                (void)snprintf(out, size, "%.*s", (int)(value_end - value), value);
        }
        line = *end != '\0' ? end + 1 : end;
    }
    if (ret_section != NULL)
        *ret_section = section;
    return found;
}

int pl_s3_profile_read(const char *variable, const char *file, struct pl_buf *ret, struct pl_err *err)
{
    const char *given = getenv(variable), *home = getenv("HOME");
    char path[PATH_MAX];
    int r;

    (void)snprintf(path, sizeof(path), "%s/.aws/%s", home != NULL ? home : "", file);
    ret->max = PROFILE_FILE_MAX;
    r = pl_io_read_file(given != NULL && *given != '\0' ? given : path, ret, err);
    if (r < 0)
        return r;
    return pl_buf_str(ret) != NULL ? 0 : pl_err_nomem(err);
}
