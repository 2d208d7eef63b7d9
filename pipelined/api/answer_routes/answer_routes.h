/* api/answer_routes: Routes that answer what people ask: what needs attention, what runs, why a job ran, what failed and in which ways,
 * which result is best, what waits.
 *
 * In:      Requests.
 * Out:     JSON, with sentences that a page or a command prints as they are.
 * Uses:    api/{data_routes, run_routes, server, transfer}, db/{pipelines, retention, stage_log, writer}, failure, gpus, metrics, plan, spec, text,
 *          storage/{base, pack, store, tree}
 * Threads: Storage pool; no database reader is held while trees are read.
 *
 * Inside:
 *   job_changes           counts the files that differ between two jobs of a stage
 *   metric_lines          reads the stored lines of metrics.jsonl
 *   reused_datums         datums of a job whose results come from earlier runs
 *   routes_datum_inputs   the files of a datum as an archive
 *   routes_datums         the datums of a job, attempted and reused; one of them
 *   routes_failures       failed datums of a job in groups, and the retry of one group
 *   routes_find           finds things by a part of their name or id
 *   routes_gpus           what the GPUs did in the last 24 hours
 *   routes_job_cause      why a job ran
 *   routes_log_view       any lines of a log, and a search in it
 *   routes_metric_jobs    figures of jobs side by side, and curves
 *   routes_metric_stages  which stages have metrics
 *   routes_needs          what needs attention
 *   routes_queue          what waits for resources
 *   routes_run_timeline   what the workers of a run did
 *   routes_run_view       the list of runs, and one run
 *   run_facts             what is said of a run beside its row
 *   run_timeline          what a worker did as spans */

/* answer_routes: routes that answer what people ask. */
#pragma once

#include "pipelined/api/server/api.h"

/* The tables of this room, for pl_api_config.tables. */
extern const struct pl_api_tables pl_api_answer_routes;
