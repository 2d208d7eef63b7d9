/* sigv4_query: the query of a URL taken apart into parameters. Pure; any thread. */
#pragma once

#include "storage/s3/sigv4.h"

/* The parameters of a query, decoded, in their order. One block of memory. */
struct pl_uri_query {
    struct pl_sigv4_pair pairs[PL_SIGV4_PAIRS_MAX];
    size_t n;
    char *memory;
};
/* Takes "a=1&b&c=%20" apart (a parameter without "=" has the value ""; an empty one is left out). PL_EINVAL as unescape, PL_ELIMIT past
 * PL_SIGV4_PAIRS_MAX. */
PL_MUST_CHECK
int pl_uri_query_parse(const char *text, struct pl_uri_query *ret, struct pl_err *err);
void pl_uri_query_finish(struct pl_uri_query *q);
/* The value of the first parameter of that name (names are case-sensitive); NULL when there is none. */
const char *pl_sigv4_pair_find(const struct pl_sigv4_pair *pairs, size_t n, const char *name);
/* As above for headers: any case. */
const char *pl_sigv4_header_find(const struct pl_sigv4_pair *pairs, size_t n, const char *name);
