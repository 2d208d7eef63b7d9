/* Replies. Handlers make them on any thread; libmicrohttpd's thread queues them when the connection has been
 * resumed. */
#include "pipelined/net/server/http_internal.h"

#include "pipelined/text/json_text.h"
#include "storage/base/alloc_failure.h"
#include "storage/system/log_line.h"

#include <ctype.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

/* --- headers --- */

void pl_httpd_add_header(struct MHD_Response *response, const char *name, const char *value)
{
    /* libmicrohttpd refuses an empty value; a blank is the same value (RFC 9110, section 5.5). The call fails only for
     * control characters or if memory runs out: then the reply lacks the header. */
    MHD_add_response_header(response, name, *value ? value : " ");
}

void pl_http_reply_header(struct pl_http_request *r, const char *name, const char *value)
{
    struct pl_http_pair *headers = reallocarray(r->reply_headers, r->n_reply_headers + 1, sizeof(*headers));
    size_t name_size = strlen(name) + 1, value_size = strlen(value) + 1;
    char *text;

    if (!headers)
        return; /* memory ran out: the reply lacks the header */
    r->reply_headers = headers;
    text = malloc(name_size + value_size);
    if (!text)
        return;
    memcpy(text, name, name_size);
    memcpy(text + name_size, value, value_size);
    headers[r->n_reply_headers++] = (struct pl_http_pair){.name = text, .value = text + name_size};
}

static const char *reply_header(const struct pl_http_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_reply_headers; i++)
        if (strcasecmp(r->reply_headers[i].name, name) == 0)
            return r->reply_headers[i].value;
    return NULL;
}

/* Adds to a response the headers that every reply has, those for private paths, and those that the handler
 * set. */
void pl_httpd_add_common_headers(struct pl_http_request *r, struct MHD_Response *response, const char *content_type)
{
    char id[24];

    if (response == r->server->lacking)
        return;
    snprintf(id, sizeof(id), "%llu", (unsigned long long)r->id);
    pl_httpd_add_header(response, "X-Request-Id", id);
    pl_httpd_add_header(response, "X-Content-Type-Options", "nosniff");
    if (r->server->private_prefix &&
        strncmp(pl_http_path(r), r->server->private_prefix, strlen(r->server->private_prefix)) == 0) {
        pl_httpd_add_header(response, "Cache-Control", "no-store");
        pl_httpd_add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
        pl_httpd_add_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    }
    if (content_type)
        pl_httpd_add_header(response, "Content-Type", content_type);
    if (atomic_load(&r->server->stopping) != HTTP_SERVING)
        pl_httpd_add_header(response, "Connection", "close");
    for (size_t i = 0; i < r->n_reply_headers; i++)
        pl_httpd_add_header(response, r->reply_headers[i].name, r->reply_headers[i].value);
}

/* --- setting the reply --- */

/* Logs each reply at level debug, under the id that the reply carries. */
static void log_reply(const struct pl_http_request *r, unsigned status)
{
    const uint64_t before = pl_log_request(r->id);

    pl_log_debug("http", "%s %.1000s: %u", pl_http_method(r), pl_http_path(r), status);
    (void)pl_log_request(before);
}

void pl_httpd_answer(struct pl_http_request *r, unsigned status, struct MHD_Response *response)
{
    log_reply(r, status);
    pthread_mutex_lock(&r->lock);
    if (r->replied)
        abort(); /* the handler has already replied */
    r->replied = true;
    r->status = status;
    if (r->connection) {
        r->response = response;
        response = NULL;
        pl_httpd_resume(r);
    }
    pthread_mutex_unlock(&r->lock);
    pl_httpd_drop_response(r, response); /* the client has disconnected */
    pl_httpd_request_unref(r);
}

struct MHD_Response *pl_httpd_make_no_memory_reply(void)
{
    static const char text[] = "{\"error\":{\"code\":\"out_of_memory\",\"message\":\"there is no memory for an answer\","
                               "\"hint\":\"Try again; give the daemon more memory.\"}}\n";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof text - 1, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);

    if (!response)
        return NULL;
    pl_httpd_add_header(response, "Content-Type", "application/json");
    pl_httpd_add_header(response, "Retry-After", "1");
    pl_httpd_add_header(response, "Connection", "close");
    return response;
}

void pl_httpd_drop_response(const struct pl_http_request *r, struct MHD_Response *response)
{
    if (response && response != r->server->lacking)
        MHD_destroy_response(response);
}

/* Makes a response from bytes, and takes over the bytes if the mode says that they are to be freed. If memory
 * runs out, returns the shared reply for lack of memory. */
static struct MHD_Response *response_of(const struct pl_http_request *r, void *bytes, size_t n, enum MHD_ResponseMemoryMode mode,
                                        unsigned *status)
{
    struct MHD_Response *response = bytes || !n ? MHD_create_response_from_buffer(n, bytes, mode) : NULL;

    if (response)
        return response;
    if (mode == MHD_RESPMEM_MUST_FREE)
        free(bytes);
    *status = 503;
    return r->server->lacking;
}

static void reply_bytes(struct pl_http_request *r, unsigned status, const char *type, void *bytes, size_t n,
                        enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = response_of(r, bytes, n, mode, &status);

    pl_httpd_add_common_headers(r, response, type);
    pl_httpd_answer(r, status, response);
}

void pl_http_reply(struct pl_http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n)
{
    reply_bytes(r, status, content_type, (void *)(uintptr_t)bytes, n, n ? MHD_RESPMEM_MUST_COPY : MHD_RESPMEM_PERSISTENT);
}

void pl_http_reply_static(struct pl_http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n)
{
    reply_bytes(r, status, content_type, (void *)(uintptr_t)bytes, n, MHD_RESPMEM_PERSISTENT);
}

void pl_http_reply_buf(struct pl_http_request *r, unsigned status, const char *content_type, struct pl_buf *bytes)
{
    void *data = bytes->data;
    size_t n = bytes->len;

    *bytes = (struct pl_buf){0};
    if (n == 0) {
        free(data);
        data = NULL;
    }
    reply_bytes(r, status, content_type, data, n, n ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
}

/* libmicrohttpd does not read the body of a reply to HEAD. */
static ssize_t no_bytes(void *arg, uint64_t at, char *out, size_t max)
{
    (void)arg;
    (void)at;
    (void)out;
    (void)max;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

void pl_http_reply_head(struct pl_http_request *r, unsigned status, const char *content_type, uint64_t length)
{
    struct MHD_Response *response = MHD_create_response_from_callback(length, 1024, no_bytes, NULL, NULL);
    struct pl_err err = {0};

    if (!response) {
        pl_err_nomem(&err);
        pl_http_reply_error(r, &err);
        return;
    }
    pl_httpd_add_common_headers(r, response, content_type);
    pl_httpd_answer(r, status, response);
}

void pl_http_reply_json(struct pl_http_request *r, unsigned status, json_t *value)
{
    char *text = pl_json_text(value, JSON_COMPACT | JSON_ENCODE_ANY), *more;
    size_t n = text ? strlen(text) : 0;
    bool lacked = pl_alloc_failure_take(); /* the buffer ran out of memory, so the value may be incomplete */

    json_decref(value);
    more = text && !lacked ? realloc(text, n + 2) : NULL;
    if (!more) {
        struct pl_err err = {0};

        free(text);
        if (text || lacked)
            pl_err_nomem(&err);
        else
            pl_err_set(&err, PL_EINTERNAL, "the answer could not be written as JSON");
        pl_http_reply_error(r, &err);
        return;
    }
    more[n++] = '\n';
    reply_bytes(r, status, "application/json", more, n, MHD_RESPMEM_MUST_FREE);
}

/* --- errors --- */

/* Makes a JSON string from an error's text, which may quote invalid UTF-8 that a client sent. */
static json_t *json_text(const char *text)
{
    json_t *value = json_string(text);
    char copy[PL_ERR_MSG_BYTES];

    if (value)
        return value;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(copy);
}

/* Makes the text {"error":{…}} of an error; NULL if memory runs out. */
static char *error_json(const struct pl_err *err, size_t *ret_n)
{
    const struct pl_err_info *info = pl_err_info(err->code);
    json_t *fields, *outer;
    char *text;

    /* forget earlier failed allocations: if there was one, `err` already reports it */
    (void)pl_alloc_failure_take();
    fields = json_object();
    outer = json_object();
    json_object_set_new(fields, "code", json_string(info->name));
    json_object_set_new(fields, "message", json_text(err->msg[0] ? err->msg : info->meaning));
    if (err->field[0])
        json_object_set_new(fields, "field", json_text(err->field));
    json_object_set_new(fields, "hint", json_text(err->hint[0] ? err->hint : info->remedy));
    json_object_set_new(outer, "error", fields);
    text = pl_json_text(outer, JSON_COMPACT);
    json_decref(outer);
    if (pl_alloc_failure_take()) {
        free(text);
        text = NULL;
    }
    *ret_n = text ? strlen(text) : 0;
    return text;
}

/* Makes the body of an error reply in the form that the server's options define; NULL if memory runs out. If
 * `*status` is 0, sets it to the status that belongs to the error code. */
static char *error_text(struct pl_http_request *r, unsigned *status, const struct pl_err *err, size_t *ret_n)
{
    _cleanup_(pl_buf_finish) struct pl_buf told = {0};

    if (r->server->tell) {
        *status = r->server->tell(r, *status, err, &told);
        *ret_n = told.len;
        return pl_buf_take_str(&told);
    }
    if (!*status)
        *status = (unsigned)pl_err_info(err->code)->http_status;
    return error_json(err, ret_n);
}

static struct MHD_Response *error_response(struct pl_http_request *r, unsigned *status, const struct pl_err *err)
{
    size_t n;
    char *text = error_text(r, status, err, &n);
    struct MHD_Response *response = text ? response_of(r, text, n, MHD_RESPMEM_MUST_FREE, status) : r->server->lacking;

    if (response == r->server->lacking) {
        *status = 503;
        return response;
    }
    pl_httpd_add_common_headers(r, response, r->server->tell_type);
    if (*status == 401)
        pl_httpd_add_header(response, "WWW-Authenticate", "Bearer");
    if (*status == 503)
        pl_httpd_add_header(response, "Retry-After", "1");
    r->error_text = text; /* borrowed from the response, which owns the text */
    r->error_len = n;
    return response;
}

/* Logs a failure of the daemon itself: its client knows the id and little else. */
static void log_failure(const struct pl_http_request *r, const struct pl_err *err)
{
    const uint64_t before = pl_log_request(r->id);

    pl_log_error("http", "%s %.1000s failed: %s", pl_http_method(r), pl_http_path(r), err->msg);
    (void)pl_log_request(before);
}

void pl_http_reply_error(struct pl_http_request *r, const struct pl_err *err)
{
    unsigned status = 0;
    struct MHD_Response *response = error_response(r, &status, err);

    if (status == 500)
        log_failure(r, err);
    pl_httpd_answer(r, status, response);
}

void pl_httpd_refuse(struct pl_http_request *r, unsigned status, const struct pl_err *err)
{
    struct MHD_Response *response;

    response = error_response(r, &status, err);
    log_reply(r, status);
    r->replied = true;
    r->status = status;
    r->response = response;
}

/* Sends the error reply with a single write, through TLS or to the socket. */
void pl_httpd_send_raw(struct pl_http_request *r)
{
    char head[256];
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 %u Refused\r\nContent-Type: %s\r\nContent-Length: %zu\r\nX-Request-Id: %llu\r\n"
                     "Connection: close\r\n\r\n",
                     r->status, r->server->tell_type, r->error_len, (unsigned long long)r->id);

    if (r->server->tls) {
        r->sent_raw = true;
        if (!r->tls || gnutls_record_send(r->tls, head, (size_t)n) < 0 ||
            gnutls_record_send(r->tls, r->error_text, r->error_len) < 0)
            r->gone = true;
        return;
    }
    parts[0] = (struct iovec){.iov_base = head, .iov_len = (size_t)n};
    parts[1] = (struct iovec){.iov_base = (void *)(uintptr_t)r->error_text, .iov_len = r->error_len};
    r->sent_raw = true;
    /* Nothing else was sent for this request, so there is space for a few hundred bytes in the socket's
     * buffer; if not, the client only sees the connection end. */
    if (sendmsg(r->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        r->gone = true;
}

/* --- ranges and files --- */

enum pl_http_range pl_http_range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_count)
{
    uint64_t first, last = size ? size - 1 : 0;
    char *end;

    *ret_first = 0;
    *ret_count = size;
    if (!header || strncasecmp(header, "bytes=", 6) != 0)
        return PL_RANGE_ALL;
    header += 6;
    if (*header == '-') { /* the last n bytes */
        if (!isdigit((unsigned char)header[1]))
            return PL_RANGE_ALL;
        first = strtoull(header + 1, &end, 10);
        if (*end)
            return PL_RANGE_ALL;
        first = first == 0 ? size : size - PL_MIN(first, size);
    } else {
        if (!isdigit((unsigned char)*header))
            return PL_RANGE_ALL;
        first = strtoull(header, &end, 10);
        if (*end++ != '-')
            return PL_RANGE_ALL;
        if (isdigit((unsigned char)*end)) {
            uint64_t asked = strtoull(end, &end, 10);

            last = PL_MIN(last, asked);
        }
        if (*end)
            return PL_RANGE_ALL; /* several ranges, or malformed */
        if (last < first && first < size)
            return PL_RANGE_ALL; /* a range that ends before it starts, such as "5-3" */
    }
    if (first >= size)
        return PL_RANGE_OUTSIDE;
    *ret_first = first;
    *ret_count = last - first + 1;
    return PL_RANGE_PART;
}

enum pl_http_range pl_http_request_range(struct pl_http_request *r, uint64_t size, uint64_t *ret_first, uint64_t *ret_count)
{
    const char *range = pl_http_header(r, "Range"), *condition = pl_http_header(r, "If-Range"), *etag = reply_header(r, "ETag");
    enum pl_http_range kind;
    char text[96];

    if (condition && (!etag || !pl_streq(condition, etag)))
        range = NULL; /* If-Range names another version of the file: send the whole file */
    kind = pl_http_range_parse(range, size, ret_first, ret_count);
    pl_http_reply_header(r, "Accept-Ranges", "bytes");
    if (kind == PL_RANGE_PART)
        snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)*ret_first,
                 (unsigned long long)(*ret_first + *ret_count - 1), (unsigned long long)size);
    else
        snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)size);
    if (kind != PL_RANGE_ALL)
        pl_http_reply_header(r, "Content-Range", text);
    return kind;
}

void pl_http_reply_fd(struct pl_http_request *r, int fd, uint64_t offset, uint64_t len, const char *content_type)
{
    uint64_t first, count;
    enum pl_http_range kind = pl_http_request_range(r, len, &first, &count);
    struct MHD_Response *response;

    if (kind == PL_RANGE_OUTSIDE || count == 0) {
        close(fd);
        pl_http_reply(r, kind == PL_RANGE_OUTSIDE ? 416 : 200, content_type, NULL, 0);
        return;
    }
    response = MHD_create_response_from_fd_at_offset64(count, fd, offset + first);
    if (!response) {
        struct pl_err err = {0};

        close(fd);
        pl_err_nomem(&err);
        pl_http_reply_error(r, &err);
        return;
    }
    pl_httpd_add_common_headers(r, response, content_type);
    pl_httpd_answer(r, kind == PL_RANGE_PART ? 206 : 200, response);
}
