/* update_cost: estimates what an update of a pipeline would run again, before the update is made. The number
 * of datums is that of the stage's last job; the time per datum is that of its last job with attempts.
 *
 * A stage runs all its datums again if a field that datum keys contain has changed (datum_identity.h). If only
 * a stage that it reads runs again, the number of all its datums is an upper bound. If its input has changed, it may
 * select more datums than in the last job, or fewer: the number is an estimate, whatever else has changed. A new stage has
 * none. */
#pragma once

#include "pipelined/db/pipelines/pipeline_tx.h"

/* Adds estimates to the entries of `changes` (pl_pipeline_args; one per stage of the spec, in its order), for
 * stages that `runs` ([project, stage]…) lists:
 *   what   text, for a changed stage: "image app:1.4 → app:1.5, env"
 *   code   [old, new] tree roots of the code in hex, if they differ; "" = no code
 *   again  {datums, of, at_most, estimated, gpu_s, worker_s}: `datums` of `of` run again; at_most: `datums` is an
 *          upper bound; estimated: there may be more of them, or fewer; gpu_s, worker_s: seconds for which they would hold
 *          GPUs and workers, null if unknown. Absent for new stages and stages that never had a job.
 * `*ret_gpu_s`: GPU seconds of all stages. Call it before the new version is created. PL_ENOMEM, errors of
 * the database. */
PL_MUST_CHECK
int pl_update_cost(struct pl_conn *c, const struct pl_pipeline_args *a, const json_t *runs, json_t *changes, int64_t *ret_gpu_s,
                   struct pl_err *err);

/* What the last jobs of a stage say about the next one. */
struct pl_stage_past {
    int64_t datums;         /* datums of the last job; −1: there was none */
    double gpu_s, worker_s; /* seconds per datum; negative: unknown */
};

/* Reads the number of datums of the stage's last job, and the time per datum of its last job that ran any. Any thread with a
 * connection. Errors of the database. */
PL_MUST_CHECK
int pl_stage_past_read(struct pl_conn *c, const char *project, const char *stage, struct pl_stage_past *ret, struct pl_err *err);
/* Makes {"datums", "of", "at_most", "estimated", "gpu_s", "worker_s"}, as for `again` above, of a job that runs `datums`; NULL = no
 * memory. */
json_t *pl_stage_past_json(const struct pl_stage_past *past, int64_t datums, bool at_most, bool estimated);
