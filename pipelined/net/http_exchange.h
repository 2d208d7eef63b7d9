/* http_exchange: one request of http_client under way: what its two transports share. Internal to net.
 *
 *   http_wire   http:// and unix:, by sockets: what everything between our own programs goes through
 *   http_curl   https://, and http:// by way of a proxy: libcurl, which takes longer to load than a request takes, so that it is
 *               loaded when it is first needed */
#pragma once

#include "http_client.h"

#define PL_HTTP_ERROR_BODY_MAX (64u << 10) /* so much of a refusal is read */

struct pl_exchange {
    const struct pl_http_call *call;
    const char *authorization; /* "Authorization: Bearer …"; NULL = none */
    const char *shown;         /* the server's address for messages */
    struct pl_http_answer answer;
    struct pl_buf error_body;
    uint64_t uploaded;
    struct pl_err err; /* of a callback, which knows best; code 0 = none */
};

/* A line of the answer's head: keeps what http_answer has a place for. */
void pl_exchange_header(struct pl_exchange *x, const char *line, size_t n);
/* Bytes of the body: to whoever wants them. Negative: give up, `x->err` says why. */
PL_MUST_CHECK
int pl_exchange_body(struct pl_exchange *x, const void *data, size_t n);
/* The next bytes to send; 0 at the end; negative: give up, `x->err` says why. */
PL_MUST_CHECK
ssize_t pl_exchange_upload(struct pl_exchange *x, void *out, size_t n);

/* Why it failed, in the client's words. */
int pl_exchange_no_server(const struct pl_exchange *x, struct pl_err *err);
int pl_exchange_late(const struct pl_exchange *x, struct pl_err *err);
int pl_exchange_given_up(const struct pl_exchange *x, struct pl_err *err);
int pl_exchange_broken(const struct pl_exchange *x, const char *how, struct pl_err *err);

/* Transports. `create`: 1, or 0 when the URL is not for it. `run`: 0 when an answer came, whatever its status, with `x->answer`
 * filled; x->err.code when a callback gave up. Any thread. */
struct pl_http_wire;
PL_MUST_CHECK
int pl_http_wire_create(const char *url, struct pl_http_wire **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_http_wire_run(struct pl_http_wire *w, struct pl_exchange *x, struct pl_err *err);
struct pl_http_wire *pl_http_wire_destroy(struct pl_http_wire *w);

struct pl_http_curl;
/* PL_EINVAL: no URL for curl either; PL_EUNAVAILABLE: there is no libcurl. */
PL_MUST_CHECK
int pl_http_curl_create(const char *url, struct pl_http_curl **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_http_curl_run(struct pl_http_curl *c, struct pl_exchange *x, struct pl_err *err);
struct pl_http_curl *pl_http_curl_destroy(struct pl_http_curl *c);
