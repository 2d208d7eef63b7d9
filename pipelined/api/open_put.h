/* open_put: one request's part of an open commit: its operations with the records that no pack has yet, on their way to the spool. */
#pragma once

#include "api_internal.h"
#include "pipelined/db/opens.h"
#include "spool.h"

/* Makes and sends it; the answer comes when it survives a crash. `spool` is read again from its start. 0: `req` is or will be replied to;
 * PL_ERETRY: the commit takes nothing more (nothing was replied); other errors are the answer. Takes nothing. On the pool. */
PL_MUST_CHECK
int pl_open_put_file(struct pl_http_request *req, struct pl_open *c, const char *path, uint8_t kind, struct pl_spool *spool,
                     struct pl_err *err);
/* The same of an ops stream; `new_bytes` is told in the answer. */
PL_MUST_CHECK
int pl_open_put_ops(struct pl_http_request *req, struct pl_open *c, struct pl_spool *spool, uint64_t new_bytes,
                    struct pl_err *err);
