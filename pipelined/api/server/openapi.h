/* openapi: the OpenAPI 3.1 document of all routes, from the very rows that serve them. */
#pragma once

#include "pipelined/api/server/api_context.h"

/* As JSON text into `ret`. Routes without rows (more_routes: the workers' protocol) are listed by method and path. PL_EINTERNAL: a row names a
 * schema that no table has, a field of a type that there is none of, or has no summary. */
PL_MUST_CHECK
int pl_openapi_document(const struct pl_api *a, struct pl_buf *ret, struct pl_err *err);
