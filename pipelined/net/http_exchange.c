#include "http_exchange.h"

#include "storage/base/io.h"
#include <ctype.h>
#include <stdio.h>

static void copy_header(const char *line, size_t n, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);

    if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
        return;
    for (line += len + 1, n -= len + 1; n && isspace((unsigned char)*line); line++)
        n--;
    while (n && isspace((unsigned char)line[n - 1]))
        n--;
    snprintf(out, size, "%.*s", (int)n, line);
}

void pl_exchange_header(struct pl_exchange *x, const char *line, size_t n)
{
    copy_header(line, n, "Content-Type", x->answer.content_type, sizeof(x->answer.content_type));
    copy_header(line, n, "ETag", x->answer.etag, sizeof(x->answer.etag));
    copy_header(line, n, "Content-Range", x->answer.content_range, sizeof(x->answer.content_range));
}

int pl_exchange_body(struct pl_exchange *x, const void *data, size_t n)
{
    const struct pl_http_call *call = x->call;
    int r = 0;

    if (x->answer.status >= 400) {
        size_t take = PL_MIN(n, PL_HTTP_ERROR_BODY_MAX - x->error_body.len); /* enough to say what is wrong */

        r = pl_buf_add(&x->error_body, data, take, &x->err);
    } else if (call->write) {
        r = call->write(call->write_self, data, n, &x->err);
    } else if (call->out) {
        r = pl_buf_add(call->out, data, n, &x->err);
    }
    if (r < 0 && !x->err.code)
        pl_err_set(&x->err, r, "the answer was not taken");
    return r;
}

ssize_t pl_exchange_upload(struct pl_exchange *x, void *out, size_t n)
{
    const struct pl_http_call *call = x->call;
    ssize_t got;

    if (call->upload == PL_UPLOAD_READER) {
        got = call->read(call->read_self, out, n, &x->err);
        if (got < 0 && !x->err.code)
            pl_err_set(&x->err, (int)got, "nothing more to send");
    } else {
        n = PL_MIN(n, call->len - x->uploaded);
        if (call->upload == PL_UPLOAD_BYTES)
            memcpy(out, (const char *)call->bytes + x->uploaded, n);
        else if (n && pl_io_pread(call->fd, out, n, call->offset + x->uploaded, "upload", &x->err) < 0)
            return x->err.code;
        got = (ssize_t)n;
    }
    if (got > 0)
        x->uploaded += (uint64_t)got;
    return got;
}

int pl_exchange_no_server(const struct pl_exchange *x, struct pl_err *err)
{
    return pl_err_set(err, PL_ENET, "no server at %s: start pipelined, or set --server", x->shown);
}

int pl_exchange_late(const struct pl_exchange *x, struct pl_err *err)
{
    return pl_err_set(err, PL_ETIMEOUT, "%s %s: no answer from %s in time", x->call->method, x->call->path, x->shown);
}

int pl_exchange_given_up(const struct pl_exchange *x, struct pl_err *err)
{
    return pl_err_set(err, PL_ECANCELED, "%s %s was given up", x->call->method, x->call->path);
}

int pl_exchange_broken(const struct pl_exchange *x, const char *how, struct pl_err *err)
{
    return pl_err_set(err, PL_ENET, "%s %s at %s: %s", x->call->method, x->call->path, x->shown, how);
}
