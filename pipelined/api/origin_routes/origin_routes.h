/* api/origin_routes: Routes that answer where data came from and what became of it: provenance as a graph, lineage for catalogs, what two
 * runs changed.
 *
 * In:      Requests.
 * Out:     JSON.
 * Uses:    api/{data_routes, run_routes, server, transfer}, plan, provenance, text, storage/{base, store, tree}
 * Threads: Storage pool; no database reader is held while trees are read.
 *
 * Inside:
 *   provenance_files    files that a file was made from, and files made from it
 *   provenance_walk     commits that a commit was made from, and commits made from it
 *   routes_lineage      jobs as events of OpenLineage
 *   routes_provenance   what came from what, as a graph
 *   routes_run_changes  what differs between the data of two runs */

/* origin_routes: routes that answer where data came from. */
#pragma once

#include "pipelined/api/server/api.h"

/* The tables of this room, for pl_api_config.tables. */
extern const struct pl_api_tables pl_api_origin_routes;
