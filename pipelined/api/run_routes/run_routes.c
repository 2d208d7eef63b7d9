/* Lists the route tables of this room. */
#include "pipelined/api/run_routes/run_routes.h"

#include "pipelined/api/server/api_context.h"

#define TABLES(X)                                                                                                                \
    X(pipelines)                                                                                                                 \
    X(versions)                                                                                                                  \
    X(check)                                                                                                                     \
    X(defaults)                                                                                                                  \
    X(secrets)                                                                                                                   \
    X(sources)                                                                                                                   \
    X(hooks) X(notify) X(runs) X(logs) X(why) X(graph) X(gc) X(status) X(metrics) X(access) X(fsck) X(keep)

TABLES(PL_API_TABLE_DECLARE)
static const struct pl_api_table *const tables[] = {TABLES(PL_API_TABLE_ADDRESS)};

const struct pl_api_tables pl_api_run_routes = {tables, PL_ARRAY_SIZE(tables)};
