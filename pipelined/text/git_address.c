/* git_address: finds scheme, user, host and port from left to right; what is left is the path. */
#include "pipelined/text/git_address.h"

#include <ctype.h>
#include <stdio.h>

static int refuse(const char *text, const char *why, struct pl_err *err)
{
    if (strchr(text, '@') && strncmp(text, "git@", 4) != 0 && strncmp(text, "ssh://git@", 10) != 0) /* it may be a token */
        return pl_err_set(err, PL_EINVAL, "this is not the address of a git repository: %s", why);
    return pl_err_set(err, PL_EINVAL, "\"%.200s\" is not the address of a git repository: %s", text, why);
}

/* Copies text[0..n) if all its characters are letters, digits or in `more`, and it fits. */
static bool copy(const char *text, size_t n, const char *more, char *out, size_t cap)
{
    if (n >= cap || (n > 0 && *text == '-'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(more, text[i]))
            return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

/* Reads USER@ and HOST from `at`; returns where they end, or NULL if they are not valid. */
static const char *read_host(const char *at, struct pl_git_address *ret)
{
    const size_t before = strcspn(at, "@/");
    size_t n;

    if (at[before] == '@') {
        if (before == 0 || !copy(at, before, "._+-", ret->user, sizeof ret->user))
            return NULL;
        at += before + 1;
    }
    if (*at == '[') {
        n = strcspn(at + 1, "]/");
        return at[n + 1] == ']' && n > 0 && copy(at + 1, n, ":.", ret->host, sizeof ret->host) ? at + n + 2 : NULL;
    }
    n = strcspn(at, ":/");
    return n > 0 && copy(at, n, ".-_", ret->host, sizeof ret->host) ? at + n : NULL;
}

/* Reads :PORT, if there is one. */
static const char *read_port(const char *at, struct pl_git_address *ret)
{
    size_t digits;

    if (*at != ':')
        return at;
    digits = strspn(at + 1, "0123456789");
    if (digits == 0 || digits > 5 || sscanf(at + 1, "%5u", &ret->port) != 1 || ret->port == 0 || ret->port > 65535)
        return NULL;
    return at + 1 + digits;
}

/* True if the path has "..", or characters that do not belong into one. */
static bool is_bad_path(const char *path)
{
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return true;
    for (const char *p = strstr(path, ".."); p; p = strstr(p + 1, ".."))
        if ((p == path || p[-1] == '/') && (p[2] == '\0' || p[2] == '/'))
            return true;
    return false;
}

static int parse_url(const char *text, const char *sep, struct pl_git_address *ret, struct pl_err *err)
{
    static const char *const schemes[] = {"https", "http", "ssh", "git", "file"};
    const char *at = sep + 3;
    bool known = false;

    for (size_t i = 0; i < PL_ARRAY_SIZE(schemes); i++)
        if (strlen(schemes[i]) == (size_t)(sep - text) && strncmp(text, schemes[i], (size_t)(sep - text)) == 0) {
            snprintf(ret->scheme, sizeof ret->scheme, "%s", schemes[i]);
            known = true;
        }
    if (!known)
        return refuse(text, "it begins with none of https://, ssh://, http://, git:// and file://", err);
    if (!pl_streq(ret->scheme, "file")) {
        at = read_host(at, ret);
        at = at ? read_port(at, ret) : NULL;
        if (!at)
            return refuse(text, "//HOST/PATH or //HOST:PORT/PATH is expected", err);
        if (*ret->user && !pl_streq(ret->scheme, "ssh"))
            return refuse(text, "give the user name in a secret", err);
    }
    if (*at != '/')
        return refuse(text, "a path is expected after the host", err);
    if (*ret->scheme == 'h' && strpbrk(at, "?#"))
        return refuse(text, "a path without ? and # is expected", err);
    if (*ret->scheme != 'h' && strpbrk(at, "%'")) /* libgit2 decodes the one, and does not escape the other */
        return refuse(text, "a path without % and ' is expected", err);
    ret->path = at;
    return 0;
}

/* True if USER:PASSWORD@ precedes the host. */
static bool has_password(const char *authority)
{
    const char *sign = memchr(authority, '@', strcspn(authority, "/"));

    return sign && memchr(authority, ':', (size_t)(sign - authority));
}

int pl_git_address_parse(const char *text, struct pl_git_address *ret, struct pl_err *err)
{
    const char *sep = strstr(text, "://"), *at;
    int r = 0;

    *ret = (struct pl_git_address){0};
    if (!*text || strlen(text) > PL_GIT_ADDRESS_BYTES_MAX)
        return pl_err_set(err, PL_EINVAL, "an address of 1 to %u bytes is expected", PL_GIT_ADDRESS_BYTES_MAX);
    if (sep && has_password(sep + 3))
        return pl_err_set(err, PL_EINVAL, "the address has a password: give it in a secret"); /* and do not repeat it */
    if (*text == '/') {
        snprintf(ret->scheme, sizeof ret->scheme, "file");
        ret->path = text;
    } else if (sep) {
        r = parse_url(text, sep, ret, err);
    } else {
        snprintf(ret->scheme, sizeof ret->scheme, "ssh");
        at = read_host(text, ret);
        if (!at || *at != ':' || !at[1])
            return refuse(text, "https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH, or /FOLDER is expected", err);
        ret->path = at + 1;
        ret->relative = *ret->path != '/';
    }
    if (r == 0 && is_bad_path(ret->path))
        r = refuse(text, "a path without \"..\" and control characters is expected", err);
    return r;
}

int pl_git_branch_check(const char *name, struct pl_err *err)
{
    if (strlen(name) > PL_GIT_BRANCH_BYTES_MAX || *name == '-' || *name == '/' || strpbrk(name, " ~^:?*[\\\n\t") ||
        strstr(name, "..") || strstr(name, "@{"))
        return pl_err_set(err, PL_EINVAL, "\"%.200s\" is not the name of a git branch", name);
    return 0;
}
