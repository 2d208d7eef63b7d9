/* Lists the route tables of this room. */
#include "pipelined/api/data_routes/data_routes.h"

#include "pipelined/api/server/api_context.h"

#define TABLES(X) X(repos) X(branches) X(commits) X(open) X(files) X(archive) X(diff) X(packs) X(signed) X(trees)

TABLES(PL_API_TABLE_DECLARE)
static const struct pl_api_table *const tables[] = {TABLES(PL_API_TABLE_ADDRESS)};

const struct pl_api_tables pl_api_data_routes = {tables, PL_ARRAY_SIZE(tables)};
