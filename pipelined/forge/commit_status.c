/* commit_status: URLs from the address of the repository, and JSON. Field names, states and limits are those of GitHub's REST API
 * ("Create a commit status": at most 140 characters), GitLab's ("Set commit pipeline status": at most 255) and Gitea's
 * (repoCreateStatus; no limit is documented). */
#include "pipelined/forge/commit_status.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const struct kind {
    const char *name;
    const char *good, *bad; /* values of the field "state" */
    const char *context;    /* name of the field with the context */
    const char *token;      /* header before the token */
    unsigned text_max;      /* characters of a description */
} kinds[] = {
    [PL_STATUS_OFF] = {.name = "off"},
    [PL_STATUS_GITHUB] = {"github", "success", "failure", "context", "Authorization: Bearer ", 140},
    [PL_STATUS_GITLAB] = {"gitlab", "success", "failed", "name", "PRIVATE-TOKEN: ", 255},
    [PL_STATUS_GITEA] = {"gitea", "success", "failure", "context", "Authorization: token ", 255},
};

int pl_status_kind_parse(const char *text, enum pl_status_kind *ret, struct pl_err *err)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(kinds); i++)
        if (pl_streq(*text ? text : "off", kinds[i].name)) {
            *ret = (enum pl_status_kind)i;
            return 0;
        }
    return pl_err_set(err, PL_EINVAL, "\"%.40s\" is not accepted: " PL_STATUS_KINDS, text);
}

/* ---- the URL ---- */

/* A path of a repository: [PREFIX/]OWNER/REPO without slashes at its ends and without ".git". */
struct repository {
    const char *path;
    size_t len;
    size_t owner; /* where OWNER begins */
};

/* Servers allow these characters in names; the address may hold others percent-encoded. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("._~-", c));
}

static bool is_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_plain(text[i]))
            return false;
    return len > 0 && !(text[0] == '.' && (len == 1 || (len == 2 && text[1] == '.')));
}

static int split_path(const char *path, struct repository *ret, struct pl_err *err)
{
    size_t names = 0, owner = 0, last = 0, len;
    bool good = true;

    path += strspn(path, "/");
    len = strlen(path);
    while (len && path[len - 1] == '/')
        len--;
    if (len > 4 && strncmp(path + len - 4, ".git", 4) == 0)
        len -= 4;
    for (size_t at = 0, n; at <= len && good; at += n + 1) {
        n = strcspn(path + at, "/");
        n = PL_MIN(n, len - at);
        good = is_name(path + at, n);
        owner = last;
        last = at;
        names++;
    }
    if (!good || names < 2)
        return pl_err_set(err, PL_EINVAL, "status: the repository's path \"%.200s\" is not OWNER/REPOSITORY", path);
    *ret = (struct repository){path, len, owner};
    return 0;
}

static int make_url(enum pl_status_kind kind, const struct pl_git_address *a, const struct repository *p, const char *commit,
                    struct pl_buf *out, struct pl_err *err)
{
    const bool v6 = strchr(a->host, ':') != NULL;
    const int prefix = (int)p->owner, rest = (int)(p->len - p->owner);
    int r;

    if (kind == PL_STATUS_GITHUB && pl_streq(a->host, "github.com"))
        return pl_buf_addf(out, err, "https://api.github.com/repos/%.*s/statuses/%s", (int)p->len, p->path, commit);
    r = pl_buf_addf(out, err, "%s://%s%s%s", a->scheme, v6 ? "[" : "", a->host, v6 ? "]" : "");
    if (r == 0 && a->port)
        r = pl_buf_addf(out, err, ":%u", a->port);
    if (r == 0 && kind == PL_STATUS_GITHUB)
        r = pl_buf_addf(out, err, "/api/v3/repos/%.*s", (int)p->len, p->path);
    else if (r == 0 && kind == PL_STATUS_GITEA)
        r = pl_buf_addf(out, err, "/%.*sapi/v1/repos/%.*s", prefix, p->path, rest, p->path + prefix);
    else if (r == 0)
        r = pl_buf_addf(out, err, "/api/v4/projects/");
    for (size_t i = 0; r == 0 && kind == PL_STATUS_GITLAB && i < p->len; i++)
        r = p->path[i] == '/' ? pl_buf_addf(out, err, "%%2F") : pl_buf_addf(out, err, "%c", p->path[i]);
    return r < 0 ? r : pl_buf_addf(out, err, "/statuses/%s", commit);
}

int pl_commit_status_url(enum pl_status_kind kind, const char *git, const char *commit, char *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf url = {.max = PL_STATUS_URL_MAX - 1};
    struct pl_git_address a;
    struct repository p = {0};
    int r = pl_git_address_parse(git, &a, err);

    if (r == 0 && strncmp(a.scheme, "http", 4) != 0)
        r = pl_err_set(
            err, PL_EINVAL,
            "status: \"%s\" needs a repository at https://…, because a status is sent to the repository's server: %.200s",
            kinds[kind].name, git);
    r = r < 0 ? r : split_path(a.path, &p, err);
    if (r == 0 && kind == PL_STATUS_GITHUB && p.owner > 0)
        r = pl_err_set(err, PL_EINVAL, "status: the repository's path \"%.200s\" is not OWNER/REPOSITORY", a.path);
    r = r < 0 ? r : make_url(kind, &a, &p, commit, &url, err);
    if (r < 0)
        return pl_err_field(err, r, "status");
    if (!pl_buf_str(&url))
        return pl_err_nomem(err);
    snprintf(ret, PL_STATUS_URL_MAX, "%s", pl_buf_str(&url));
    return 0;
}

/* ---- the request ---- */

/* Cuts `text` to `max` characters; the last one then is "…". */
static char *cut(const char *text, size_t max)
{
    size_t n = 0, bytes = 0, keep = 0;
    char *out;

    while (text[bytes]) {
        if (n == max - 1)
            keep = bytes;
        n++;
        bytes++;
        while (((unsigned char)text[bytes] & 0xc0) == 0x80)
            bytes++;
    }
    if (n <= max)
        return strdup(text);
    return asprintf(&out, "%.*s…", (int)keep, text) < 0 ? NULL : out;
}

static char *make_body(const struct kind *kind, const struct pl_commit_status *s)
{
    _cleanup_free_ char *text = cut(s->text, kind->text_max);
    json_t *body = text ? json_pack("{s:s, s:s, s:s, s:s*}", "state", s->good ? kind->good : kind->bad, kind->context, s->context,
                                    "description", text, "target_url", *s->target ? s->target : NULL)
                        : NULL;
    char *out = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    return out;
}

int pl_commit_status_make(const struct pl_commit_status *s, struct pl_status_request *ret, struct pl_err *err)
{
    const struct kind *kind = &kinds[s->kind];
    const size_t len = strlen(s->token);
    unsigned n = 0;
    int r;

    assert(s->kind != PL_STATUS_OFF);
    *ret = (struct pl_status_request){0};
    if (!len || len > PL_STATUS_TOKEN_MAX)
        return pl_err_set(err, PL_EINVAL, "the key token of the source's secret has %zu bytes; 1 to %u are expected", len,
                          PL_STATUS_TOKEN_MAX);
    for (size_t i = 0; i < len; i++)
        if (s->token[i] <= ' ' || s->token[i] > '~')
            return pl_err_set(err, PL_EINVAL, "the key token of the source's secret is not one word of printable ASCII");
    r = pl_commit_status_url(s->kind, s->git, s->commit, ret->url, err);
    if (r < 0)
        return r;
    snprintf(ret->authorization, sizeof ret->authorization, "%s%s", kind->token, s->token);
    ret->headers[n++] = ret->authorization;
    ret->headers[n++] = "Content-Type: application/json";
    ret->headers[n++] = s->kind == PL_STATUS_GITHUB ? "Accept: application/vnd.github+json" : "Accept: application/json";
    ret->headers[n++] = "User-Agent: pipelined"; /* GitHub refuses requests without one */
    ret->headers[n] = NULL;
    ret->body = make_body(kind, s);
    if (!ret->body) {
        pl_status_request_finish(ret);
        return pl_err_nomem(err);
    }
    return 0;
}

void pl_status_request_finish(struct pl_status_request *r)
{
    free(r->body);
    explicit_bzero(r, sizeof *r);
}

bool pl_commit_status_taken(enum pl_status_kind kind, unsigned http_status, const char *answer, size_t len)
{
    static const char same[] = "Cannot transition status";

    if (http_status >= 200 && http_status < 300)
        return true;
    return kind == PL_STATUS_GITLAB && http_status == 400 && len && memmem(answer, len, same, sizeof same - 1);
}
