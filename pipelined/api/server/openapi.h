/* openapi: makes the OpenAPI 3.1 document of all routes from the rows that serve them. */
#pragma once

#include "pipelined/api/server/api_context.h"

/* Appends the document as JSON text to `ret`. Routes without rows (more_routes: the workers' protocol) are
 * listed with method and path only. PL_EINTERNAL: a row or schema uses an unknown schema or type, or a row
 * has no summary. */
PL_MUST_CHECK
int pl_openapi_document(const struct pl_api *a, struct pl_buf *ret, struct pl_err *err);
