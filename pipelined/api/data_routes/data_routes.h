/* data_routes: routes on projects, repos, branches, commits, files and packs. */
#pragma once

#include "pipelined/api/server/api.h"

/* For pl_api_config.tables. */
extern const struct pl_api_tables pl_api_data_routes;
