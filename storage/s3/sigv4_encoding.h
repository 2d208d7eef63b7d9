/* sigv4_encoding: splits the query string of a URL into parameters, and finds parameters and headers by name.
 * Pure; any thread. */
#pragma once

#include "storage/s3/sigv4.h"

/* The decoded parameters of a query, in their order. `memory` is one block that holds all strings. */
struct pl_uri_query {
    struct pl_sigv4_pair pairs[PL_SIGV4_PAIRS_MAX];
    size_t n;
    char *memory;
};
/* Parses "a=1&b&c=%20". A parameter without "=" has the value ""; empty parameters are skipped. The caller
 * frees the result with pl_uri_query_finish. PL_EINVAL as in pl_uri_unescape, PL_ELIMIT for more than
 * PL_SIGV4_PAIRS_MAX parameters, PL_ETOOBIG, PL_ENOMEM. */
PL_MUST_CHECK
int pl_uri_query_parse(const char *text, struct pl_uri_query *ret, struct pl_err *err);
void pl_uri_query_finish(struct pl_uri_query *q);
/* Returns the value of the first parameter with that name (case-sensitive); NULL if there is none. */
const char *pl_sigv4_pair_find(const struct pl_sigv4_pair *pairs, size_t n, const char *name);
/* Returns the value of the first header with that name (in any case); NULL if there is none. */
const char *pl_sigv4_header_find(const struct pl_sigv4_pair *pairs, size_t n, const char *name);
