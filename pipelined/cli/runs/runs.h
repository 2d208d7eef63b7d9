/* cli/runs: Subcommands: pipeline, defaults, secret, source, notify, run, rerun, retry, job, logs, metrics, wait, why, status, open.
 *
 * In:      Specs, run ids.
 * Out:     Tables, sentences.
 * Uses:    cli/{local, support}, kube/nodes, metrics, net/remote, policy, spec, text, storage/{base, pack, system}
 * Threads: Main thread.
 *
 * Inside:
 *   example_folder examples that are part of the program
 *   failure_text   prints the failure groups of a job
 *   log_print      prints lines of logs
 *   stage_changes  what a change of a pipeline, or a run, does to its stages
 *   verb_defaults  update and inspect defaults
 *   verb_job       jobs and datums
 *   verb_logs      logs: what a stage's command printed
 *   verb_metrics   metrics: results side by side, lines of metrics.jsonl
 *   verb_notify    notifications
 *   verb_open      open: the web page at a place
 *   verb_pipeline  pipelines
 *   verb_rerun     rerun: repeats the jobs of a run
 *   verb_retry     retry job: tries the failed datums of one group again
 *   verb_run       runs
 *   verb_secret    secrets
 *   verb_source    git repositories that are followed
 *   verb_status    status with what is out of date, gpus
 *   verb_version   versions of a pipeline
 *   verb_wait      wait run
 *   verb_why       why: where a file comes from */
#pragma once
