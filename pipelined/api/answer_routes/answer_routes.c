/* Lists the route tables of this room. */
#include "pipelined/api/answer_routes/answer_routes.h"

#include "pipelined/api/server/api_context.h"

#define TABLES(X)                                                                                                                \
    X(datum_inputs)                                                                                                              \
    X(datums)                                                                                                                    \
    X(failures)                                                                                                                  \
    X(find) X(gpus) X(job_cause) X(log_view) X(metric_jobs) X(metric_stages) X(needs) X(queue) X(run_timeline) X(run_view)

TABLES(PL_API_TABLE_DECLARE)
static const struct pl_api_table *const tables[] = {TABLES(PL_API_TABLE_ADDRESS)};

const struct pl_api_tables pl_api_answer_routes = {tables, PL_ARRAY_SIZE(tables)};
