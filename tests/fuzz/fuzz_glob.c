// link: pipelined/text storage/base
/* A pattern, a newline, a path: refused, or matched with captures inside the path; nothing matches below a directory that is said to be
 * without matches, and what matches starts with the prefix. */
#include "pipelined/text/glob.h"

#include "storage/base/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct pl_glob *g, const char *path, size_t len)
{
    struct pl_span spans[PL_GLOB_CAPTURES_MAX];
    size_t prefix_len;
    const char *prefix = pl_glob_prefix(g, &prefix_len);
    bool matches = pl_glob_match(g, path, len, spans);

    if (matches != pl_glob_match(g, path, len, NULL) || (matches && !pl_glob_match_within(g, path, len)))
        abort();
    if (!matches)
        return;
    if (len < prefix_len || memcmp(path, prefix, prefix_len) != 0)
        abort();
    for (unsigned i = 0; i < pl_glob_captures(g); i++)
        if (spans[i].start != PL_SPAN_NONE && (spans[i].start > spans[i].end || spans[i].end > len))
            abort();
    for (size_t i = 0; i < len; i++)
        if (path[i] == '/' && (pl_glob_test(g, path, i, NULL) & PL_GLOB_BELOW) == 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *newline = n > 0 ? memchr(data, '\n', n) : NULL;
    char *pattern, *path;
    struct pl_glob *g = NULL;
    size_t len;

    if (newline == NULL)
        return 0;
    len = n - (size_t)(newline + 1 - data);
    pattern = strndup((const char *)data, (size_t)(newline - data));
    path = malloc(len + 1);
    if (pattern == NULL || path == NULL)
        abort();
    memcpy(path, newline + 1, len);
    path[len] = '\0';
    if (pl_glob_compile(pattern, &g, NULL) == 0 && pl_path_check(path, len, NULL) == 0)
        check(g, path, len);
    pl_glob_destroy(g);
    free(pattern);
    free(path);
    return 0;
}
