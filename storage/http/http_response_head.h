/* http_head: what the headers of an answer say, in its exchange. Pure. */
#pragma once

#include "storage/http/http_io.h"

/* Nothing is known of the answer. */
void pl_http_response_head_forget(struct pl_http_exchange *x);
/* One header line of `n` bytes, foreign; one that says nothing of interest changes nothing. */
void pl_http_response_head_read(struct pl_http_exchange *x, const char *line, size_t n);
