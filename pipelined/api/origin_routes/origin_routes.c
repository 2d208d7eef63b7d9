/* Lists the route tables of this room. */
#include "pipelined/api/origin_routes/origin_routes.h"

#include "pipelined/api/server/api_context.h"

#define TABLES(X) X(lineage) X(provenance) X(run_changes)

TABLES(PL_API_TABLE_DECLARE)
static const struct pl_api_table *const tables[] = {TABLES(PL_API_TABLE_ADDRESS)};

const struct pl_api_tables pl_api_origin_routes = {tables, PL_ARRAY_SIZE(tables)};
