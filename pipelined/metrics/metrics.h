/* metrics: Figures for a monitoring system, as OpenMetrics text; figures that commands write, and tables of them. Pure.
 *
 * In:      Numbers that other rooms count.
 * Out:     The text of GET /metrics.
 * Uses:    text, storage/base
 * Threads: Any; each struct has one user at a time.
 *
 * Headers for other rooms:
 *   run_figures     figures of a metrics.jsonl, and their curves
 *   metric_list     names, types, units, labels and meanings of all metrics
 *   metric_table    results of jobs as a table, and two runs against each other
 *   metric_text     writes samples as OpenMetrics text, or as the older Prometheus text
 *   stage_activity  counts what stages did, for a bounded number of stages and the rest
 *
 * Metrics are about the daemon and its work. The lines that a command writes to metrics.jsonl are data of a job, and
 * only run_figures and metric_table are about them: `pipelinectl metrics` and GET /api/v1/metrics/{project}/{stage} show those. */
#pragma once
