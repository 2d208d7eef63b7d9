/* update_cost: estimates what an update of a pipeline would run again, before the update is made. The number
 * of datums is that of the stage's last job; the time per datum is that of its last job with attempts.
 *
 * A stage runs all its datums again if a field that datum keys contain has changed (datum_identity.h). If only
 * its input has changed, or a stage that it reads runs again, the number of all its datums is an upper bound. A
 * new stage has no estimate. */
#pragma once

#include "pipelined/db/pipelines/pipeline_tx.h"

/* Adds estimates to the entries of `changes` (pl_pipeline_args; one per stage of the spec, in its order), for
 * stages that `runs` ([project, stage]…) lists:
 *   what   text, for a changed stage: "image app:1.4 → app:1.5, env"
 *   code   [old, new] tree roots of the code in hex, if they differ; "" = no code
 *   again  {datums, of, at_most, gpu_s, worker_s}: `datums` of `of` run again; at_most: `datums` is an upper
 *          bound; gpu_s, worker_s: seconds for which they would hold GPUs and workers, null if unknown.
 *          Absent for new stages and stages that never had a job.
 * `*ret_gpu_s`: GPU seconds of all stages. Call it before the new version is created. PL_ENOMEM, errors of
 * the database. */
PL_MUST_CHECK
int pl_update_cost(struct pl_conn *c, const struct pl_pipeline_args *a, const json_t *runs, json_t *changes, int64_t *ret_gpu_s,
                   struct pl_err *err);
