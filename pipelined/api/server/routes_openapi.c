/* The OpenAPI document as a route, and the schema of error replies. */
#include "pipelined/api/server/api_context.h"

static void get_document(struct pl_api *a, struct pl_http_request *req)
{
    pl_http_reply(req, 200, "application/json", a->openapi.data, a->openapi.len);
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/openapi.json", .raw = get_document, .verb = PL_VERB_STATUS, .summary = "This document.", .reply = "object"},
};
static const struct pl_api_schema schemas[] = {
    {"Error", "error:ErrorBody"},
    {"ErrorBody", "code:string message:string field:string? hint:string?"},
};
PL_API_TABLE(openapi, routes, schemas);
