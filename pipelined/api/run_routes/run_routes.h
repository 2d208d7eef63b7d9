/* api/run_routes: Routes on pipelines, runs, logs, reasons, access and maintenance.
 *
 * In:      Requests.
 * Out:     JSON and streams.
 * Uses:    api/{access, data_routes, graph_view, server, transfer}, db/{pipelines, retention, stage_log, tx, writer}, failure, gpus, metrics, notify, plan,
 *          source, spec, text, storage/{base, system, tree}
 * Threads: Storage pool; live figures are requested from the engine.
 *
 * Headers for other rooms:
 *   job_json          runs, jobs, attempts and origins of versions as JSON; inputs of a stage's spec
 *
 * Inside:
 *   job_images           image digests of a job's attempts
 *   routes_check         mistakes of a spec, and the datums that it would give
 *   routes_access        users, tokens, S3 keys, login sessions, audit
 *   routes_defaults      cluster and project defaults
 *   routes_fsck          checks of the store
 *   routes_gc            garbage collection
 *   routes_graph         the graph of repos and stages
 *   routes_hooks         webhooks of servers of repositories
 *   routes_logs          logs of stages and containers
 *   routes_metrics       figures for a monitoring system
 *   routes_notify        notification rules
 *   routes_pipelines     pipelines
 *   routes_retention     what retention rules drop
 *   routes_runs          runs, jobs and datums
 *   routes_secrets       project secrets
 *   routes_sources       git repositories that are followed
 *   routes_status        daemon status and GPUs
 *   routes_versions      versions of a pipeline, and what differs between two
 *   routes_why           provenance of a file */

/* run_routes: routes on pipelines, runs, logs, reasons, access and maintenance. */
#pragma once

#include "pipelined/api/server/api.h"

/* The tables of this room, for pl_api_config.tables. */
extern const struct pl_api_tables pl_api_run_routes;
