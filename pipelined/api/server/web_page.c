/* Chooses an embedded file by name and by Accept-Encoding, and sets the headers that keep the page to itself: no script,
 * style, frame or base of another origin. */
#include "pipelined/api/server/web_page.h"

#include "storage/base/buf.h"

#include "pl_web.h"

#include <stdio.h>
#include <strings.h>

#define PAGE_CSP                                                                                                                 \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; media-src 'self';"       \
    " form-action 'none'; base-uri 'self'; frame-ancestors 'none'"
#define BASE      "<base href=\"./\">"
#define DEPTH_MAX 64u

static void refuse(struct pl_http_request *req, const char *name)
{
    struct pl_err err = {0};

    if (pl_web_files_count == 0)
        pl_err_set(&err, PL_EUNAVAILABLE, "this daemon was built without its web page; the API is under /api/v1/");
    else
        pl_err_set(&err, PL_ENOTFOUND, "the web page has no file \"%.100s\"", name);
    pl_http_reply_error(req, &err);
}

/* True if the header Accept-Encoding lists the coding, and not with a weight of 0. */
static bool accepts(const char *header, const char *coding)
{
    size_t len = strlen(coding);

    for (const char *at = header; at && *at; at = *at ? at + 1 : at) {
        at += strspn(at, " \t");
        if (strncasecmp(at, coding, len) == 0 && strchr(" \t;,", at[len])) {
            const char *weight = at + len + strspn(at + len, " \t;");

            return strncasecmp(weight, "q=0", 3) != 0 || strspn(weight + 2, "0.") < strcspn(weight + 2, ", \t");
        }
        at += strcspn(at, ",");
    }
    return false;
}

/* Finds the file in the first of br, gzip and plain that the client accepts; every file is there plain. */
static const struct pl_web_file *find(const struct pl_http_request *req, const char *name)
{
    const char *header = pl_http_header(req, "Accept-Encoding");
    const struct pl_web_file *best = NULL;

    for (const struct pl_web_file *f = pl_web_files; f->name; f++) {
        if (!pl_streq(f->name, name) || (*f->encoding && !accepts(header, f->encoding)))
            continue;
        if (!best || f->size < best->size)
            best = f;
    }
    return best;
}

static void add_headers(struct pl_http_request *req, const char *cache)
{
    pl_http_reply_header(req, "Content-Security-Policy", PAGE_CSP);
    pl_http_reply_header(req, "Referrer-Policy", "same-origin");
    pl_http_reply_header(req, "Cache-Control", cache);
}

/* Sets the ETag; returns true if the client has this version. */
static bool is_known(struct pl_http_request *req, const char *etag)
{
    const char *known = pl_http_header(req, "If-None-Match");

    pl_http_reply_header(req, "ETag", etag);
    return known && strstr(known, etag);
}

void pl_web_page_reply_file(struct pl_http_request *req, const char *name)
{
    char full[256], etag[80];
    const struct pl_web_file *file;

    snprintf(full, sizeof full, "ui/%s", name);
    file = find(req, full);
    if (!file) {
        refuse(req, name);
        return;
    }
    add_headers(req, "public, max-age=31536000, immutable");
    pl_http_reply_header(req, "Vary", "Accept-Encoding");
    if (*file->encoding)
        pl_http_reply_header(req, "Content-Encoding", file->encoding);
    snprintf(etag, sizeof etag, "\"%s\"", file->etag);
    if (is_known(req, etag))
        pl_http_reply(req, 304, NULL, NULL, 0);
    else
        pl_http_reply_static(req, 200, file->type, file->data, file->size);
}

/* How many folders deep the request's path is: 0 for "/" and "/runs", 1 for "/runs/c41d". */
static size_t depth_of(const char *path)
{
    size_t n = 0;

    for (const char *c = path + (*path == '/'); *c; c++)
        n += *c == '/';
    return PL_MIN(n, DEPTH_MAX);
}

void pl_web_page_reply_index(struct pl_http_request *req, unsigned status)
{
    const struct pl_web_file *file = find(req, "index.html");
    const char *at = file ? strstr((const char *)file->data, BASE) : NULL;
    size_t depth = depth_of(pl_http_path(req));
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_err err = {0};
    char etag[96];
    int r;

    if (!at) {
        refuse(req, "index.html");
        return;
    }
    r = pl_buf_add(&out, file->data, (size_t)(at - (const char *)file->data), &err);
    r = r < 0 ? r : pl_buf_add_str(&out, "<base href=\"./", &err);
    for (size_t i = 0; r >= 0 && i < depth; i++)
        r = pl_buf_add_str(&out, "../", &err);
    r = r < 0 ? r : pl_buf_add_str(&out, "\">", &err);
    r = r < 0 ? r : pl_buf_add_str(&out, at + strlen(BASE), &err);
    if (r < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    add_headers(req, "no-cache");
    snprintf(etag, sizeof etag, "\"%s-%zu\"", file->etag, depth);
    if (status == 200 && is_known(req, etag))
        pl_http_reply(req, 304, NULL, NULL, 0);
    else
        pl_http_reply_buf(req, status, file->type, &out);
}
