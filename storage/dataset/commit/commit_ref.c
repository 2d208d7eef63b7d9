/* Splits a reference at ":", "@", "/" and "^", and checks each part. */
#include "storage/dataset/commit/commit_ref.h"

#include <stdio.h>

#define ACCEPTED "[project/]repo@branch-or-id[^n][:/path]"

static bool is_hex(const char *s, size_t len)
{
    return strspn(s, "0123456789abcdef") >= len;
}

int pl_commit_ref_classify(const char *name, enum pl_commit_ref_kind *ret, struct pl_err *err)
{
    size_t len = strlen(name);
    int r;

    if (pl_id_ok(name)) {
        *ret = PL_COMMIT_REF_ID;
        return 0;
    }
    r = pl_name_check("branch", name, err);
    if (r < 0)
        return r;
    *ret =
        len >= PL_COMMIT_REF_PREFIX_DIGITS && len < PL_ID_HEX && is_hex(name, len) ? PL_COMMIT_REF_PREFIX : PL_COMMIT_REF_BRANCH;
    return 0;
}

/* Parses "^", "^^", "^3", "^2^": each ^ is one step back, or as many as the number after it says. */
static int parse_back(const char *s, const char *end, unsigned *ret, struct pl_err *err)
{
    uint64_t back = 0;

    while (s < end) {
        uint64_t step = 1;

        if (*s++ != '^')
            return pl_err_set(err, PL_EINVAL, "\"%.*s\" comes after ^; only a number is accepted there", (int)(end - s + 1),
                              s - 1);
        if (s < end && *s >= '0' && *s <= '9') {
            step = 0;
            while (s < end && *s >= '0' && *s <= '9' && step <= PL_COMMIT_REF_BACK_MAX)
                step = step * 10 + (uint64_t)(*s++ - '0');
        }
        back += step;
        if (back > PL_COMMIT_REF_BACK_MAX)
            return pl_err_set(err, PL_EINVAL, "^ goes back more than %u commits", PL_COMMIT_REF_BACK_MAX);
    }
    *ret = (unsigned)back;
    return 0;
}

static int copy_name(const char *what, const char *s, size_t len, char out[PL_NAME_MAX_BYTES + 1], struct pl_err *err)
{
    if (len == 0)
        return pl_err_set(err, PL_EINVAL, "the %s is missing", what);
    if (len > PL_NAME_MAX_BYTES)
        return pl_err_set(err, PL_ENAME, "%s \"%.*s…\" is %zu bytes long; at most %d are accepted", what, 40, s, len,
                          PL_NAME_MAX_BYTES);
    memcpy(out, s, len);
    out[len] = '\0';
    return 0;
}

static int parse_commit(const char *s, size_t len, struct pl_commit_ref *ret, struct pl_err *err)
{
    const char *caret = memchr(s, '^', len);
    size_t name_len = caret != NULL ? (size_t)(caret - s) : len;
    int r;

    if ((r = copy_name("branch or commit", s, name_len, ret->name, err)) < 0 ||
        (r = pl_commit_ref_classify(ret->name, &ret->kind, err)) < 0)
        return r;
    return caret != NULL ? parse_back(caret, s + len, &ret->back, err) : 0;
}

static int parse_repo(const char *s, size_t len, struct pl_commit_ref *ret, struct pl_err *err)
{
    const char *slash = memchr(s, '/', len);
    int r;

    if (slash != NULL) {
        size_t project_len = (size_t)(slash - s);

        if ((r = copy_name("project", s, project_len, ret->project, err)) < 0 ||
            (r = pl_name_check("project", ret->project, err)) < 0)
            return r;
        s += project_len + 1;
        len -= project_len + 1;
    }
    if ((r = copy_name("repo", s, len, ret->repo, err)) < 0)
        return r;
    return pl_name_check("repo", ret->repo, err);
}

static int parse_all(const char *text, struct pl_commit_ref *ret, struct pl_err *err)
{
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    const char *at = memchr(text, '@', len);
    int r = parse_repo(text, at != NULL ? (size_t)(at - text) : len, ret, err);

    if (r == 0 && at != NULL)
        r = parse_commit(at + 1, len - (size_t)(at + 1 - text), ret, err);
    if (r == 0 && colon != NULL) {
        ret->has_path = true;
        r = pl_path_canonical(colon + 1, ret->path, err);
    }
    return r;
}

int pl_commit_ref_parse(const char *text, struct pl_commit_ref *ret, struct pl_err *err)
{
    struct pl_commit_ref ref = {0};
    int r = parse_all(text, &ref, err);

    if (r < 0) {
        (void)pl_err_hint(err, r, "Accepted is %s.", ACCEPTED);
        return pl_err_wrap(err, r, "\"%.200s\"", text);
    }
    *ret = ref;
    return 0;
}

int pl_commit_ref_parse_commit(const char *text, struct pl_commit_ref *ret, struct pl_err *err)
{
    struct pl_commit_ref ref = {0};
    int r = parse_commit(text, strlen(text), &ref, err);

    if (r < 0)
        return pl_err_wrap(err, r, "\"%.200s\"", text);
    *ret = ref;
    return 0;
}
