/* http_response_head: parses the headers of a response into its exchange. Pure; any thread. */
#pragma once

#include "storage/http/http_io.h"

/* Resets the header fields of the response in `x` to their values for "not received". */
void pl_http_response_head_forget(struct pl_http_exchange *x);
/* Parses one header line of `n` bytes from the server. Headers that are not needed are ignored. */
void pl_http_response_head_read(struct pl_http_exchange *x, const char *line, size_t n);
