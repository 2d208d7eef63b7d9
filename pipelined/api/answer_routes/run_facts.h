/* run_facts: what is said of a run beside its row: its pipelines, the states of its stages, its datums, what was pushed,
 * and when it will be done. */
#pragma once

#include "pipelined/api/server/api_context.h"

#define PL_RUN_STAGES_LISTED    24u    /* most stages of a run that are listed; all are counted */
#define PL_RUN_PIPELINES_LISTED 16u    /* most pipelines of a run that are listed */
#define PL_RUN_CHANGES_MAX      10000u /* most changed files of a push that are counted */
#define PL_RUN_BEHIND_MIN       3u     /* fewest earlier runs from which the time of a run is estimated */
#define PL_RUN_BEHIND_MAX       5u     /* most of them: the newest */

/* Adds `pipelines`, `stages`, `states`, `datums` and, for a push, `pushed` to the JSON of a run; *jobs grows by the number of
 * jobs that were read. The reader has pl_conn.readable set. */
PL_MUST_CHECK
int pl_run_facts_add(struct pl_conn *c, json_t *run, uint64_t *jobs, struct pl_err *err);
/* Adds `eta` to a run that has not ended, if PL_RUN_BEHIND_MIN of the last runs of the same stages succeeded. */
PL_MUST_CHECK
int pl_run_eta_add(struct pl_conn *c, json_t *run, struct pl_err *err);
/* Adds to `pushed` of a run how many files the push added, changed and removed. Nothing is added when the trees cannot be read
 * or `effort` is used up. Reads trees: call it without a database reader. PL_ENOMEM. */
PL_MUST_CHECK
int pl_run_changes_add(struct pl_api *a, json_t *run, struct pl_effort *effort, struct pl_err *err);
/* Takes the fields of `pushed` away that only pl_run_changes_add needs. */
void pl_run_facts_finish(json_t *run);

/* Returns the median of `n` durations, which it sorts; -1 if there are fewer than PL_RUN_BEHIND_MIN. */
int64_t pl_run_estimate(int64_t *took, size_t n);
