/* run_routes: routes on pipelines, runs, logs, reasons, access and upkeep. */
#pragma once

#include "pipelined/api/server/api.h"

/* For pl_api_config.tables. */
extern const struct pl_api_tables pl_api_run_routes;
