/* db/pipelines: Transactions on pipelines, defaults, manual runs and reruns; the cost of an update.
 *
 * In:      A checked spec.
 * Out:     Pipeline versions, repos, runs.
 * Uses:    db/{tx, writer}, plan, policy, spec, text, storage/{base, pack, store, tree}, storage/dataset/gc
 * Threads: The writer thread; estimates on the pool.
 *
 * Headers for other rooms:
 *   defaults_tx     transactions on cluster and project defaults
 *   manual_run      starts stages of a pipeline by hand
 *   pipeline_draft  a spec on its way to a pipeline version
 *   pipeline_state  stops pipelines and starts them again
 *   pipeline_tx     transactions on pipelines
 *   rerun           runs the jobs of an earlier run again
 *   source_tx       transactions on sources, and on the pipelines of a git commit
 *   update_cost     estimates the work that a pipeline update, or a run, causes
 *
 * Inside:
 *   pipeline_cycle  refuses a cycle of stages across pipelines */
#pragma once
