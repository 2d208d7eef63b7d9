/* cli/runs: Verbs: pipeline, defaults, secret, run, rerun, job, logs, metrics, wait, why, status.
 *
 * In:      Specs, run ids.
 * Out:     Tables, sentences.
 * Uses:    cli/{local, support}, kube/nodes, net/remote, policy, spec, storage/{base, pack, system}
 * Threads: Main thread.
 *
 * Inside:
 *   verb_defaults  defaults
 *   verb_job       jobs and datums
 *   verb_logs      logs
 *   verb_metrics   metrics
 *   verb_pipeline  pipelines
 *   verb_rerun     rerun
 *   verb_run       runs
 *   verb_secret    secrets
 *   verb_status    status, gpus, open
 *   verb_wait      wait run
 *   verb_why       why */
#pragma once
