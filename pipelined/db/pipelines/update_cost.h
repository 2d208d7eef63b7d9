/* update_price: what an update of a pipeline would run again, told before it is done. An estimate: datums are those that the stage's last
 * job had, time is what its last job with attempts took for each of them.
 *
 * A stage runs all of its datums again when what their keys hold has changed (identity.h); when its input has, or what it reads is written
 * anew, it runs at most all of them. A new stage has no price. */
#pragma once

#include "pipelined/db/pipelines/pipeline_tx.h"

/* Adds to the entries of `changes` (pl_pipeline_args), one a stage of the spec in its order, of stages that `runs` ([project, stage]…) has:
 *   what   text, of a changed stage: "image app:1.4 → app:1.5, env"
 *   again  {datums, of, at_most, gpu_s, worker_s}: datums to run, of so many, at most so many of them; the seconds for which they would hold
 *          GPUs and workers, null when no job ever said. Not of new stages, nor of those that never had a job.
 * `*ret_gpu_s`: seconds of GPUs of all. Before the new version is made. PL_ENOMEM, errors of the database. */
PL_MUST_CHECK
int pl_update_cost(struct pl_conn *c, const struct pl_pipeline_args *a, const json_t *runs, json_t *changes, int64_t *ret_gpu_s,
                   struct pl_err *err);
