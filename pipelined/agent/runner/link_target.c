/* Path arithmetic on text; no system calls. */
#include "pipelined/agent/runner/link_target.h"

#include <stdio.h>

/* Appends the segments of `more` to the absolute path `at` ("" = "/"), resolving "." and "..". False if it
 * does not fit. */
static bool walk(char *at, size_t size, const char *more)
{
    size_t len = strlen(at);

    while (*more) {
        size_t n = strcspn(more, "/");
        if (n == 2 && memcmp(more, "..", 2) == 0) {
            while (len > 0 && at[--len] != '/')
                ;
            at[len] = 0;
        } else if (n > 0 && !(n == 1 && *more == '.')) {
            if (len + 1 + n >= size)
                return false;
            at[len++] = '/';
            memcpy(at + len, more, n);
            len += n;
            at[len] = 0;
        }
        more += n + (more[n] == '/');
    }
    return true;
}

/* Returns the part of `path` after `folder` ("" if they are equal), or NULL if `path` is not below
 * `folder`. */
static const char *rest_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    if (strncmp(path, folder, n) != 0 || (path[n] != '/' && path[n] != 0))
        return NULL;
    return path[n] ? path + n + 1 : path + n;
}

/* Makes the relative link text from the folder of `path` to `target`; both are below the output folder. */
static bool relative_text(const char *path, const char *target, char *out, size_t size)
{
    size_t len = 0;

    for (const char *p = path; (p = strchr(p, '/')); p++) {
        if (len + 3 >= size)
            return false;
        memcpy(out + len, "../", 3);
        len += 3;
    }
    return snprintf(out + len, size - len, "%s", *target ? target : ".") < (int)(size - len);
}

/* True if the relative link text, starting in the folder of `path`, leaves the output folder at any step. */
static bool leaves(const char *path, const char *text)
{
    int depth = 0;

    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    for (size_t n; *text && depth >= 0; text += n + (text[n] == '/')) {
        n = strcspn(text, "/");
        if (n == 2 && memcmp(text, "..", 2) == 0)
            depth--;
        else if (n > 0 && !(n == 1 && *text == '.'))
            depth++;
    }
    return depth < 0;
}

void pl_link_target_find(const char *path, const char *text, const char *pfs, struct pl_link_target *ret)
{
    char at[8192] = "", out[4200];
    const char *below, *name_end;
    bool absolute = text[0] == '/';

    ret->where = PL_LINK_ELSEWHERE;
    snprintf(out, sizeof(out), "%s/out", pfs);
    if (!absolute) {
        const char *slash = strrchr(path, '/');
        char folder[4096];
        snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 0, path);
        if (!walk(at, sizeof(at), out) || !walk(at, sizeof(at), folder))
            return;
    }
    if (!walk(at, sizeof(at), text) || strlen(text) >= sizeof(ret->path))
        return;
    below = rest_below(at, out);
    if (below) {
        if (absolute || leaves(path, text) ? relative_text(path, below, ret->path, sizeof(ret->path))
                                           : snprintf(ret->path, sizeof(ret->path), "%s", text) < (int)sizeof(ret->path))
            ret->where = PL_LINK_WITHIN;
        return;
    }
    below = rest_below(at, pfs);
    if (!below || !*below)
        return;
    name_end = strchrnul(below, '/');
    if ((size_t)(name_end - below) >= sizeof(ret->input) || strlen(name_end) >= sizeof(ret->path))
        return;
    snprintf(ret->input, sizeof(ret->input), "%.*s", (int)(name_end - below), below);
    snprintf(ret->path, sizeof(ret->path), "%s", *name_end ? name_end + 1 : "");
    ret->where = PL_LINK_INPUT;
}
