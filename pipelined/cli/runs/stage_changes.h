/* stage_changes: says what a change of a pipeline, or a run, does to its stages. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/cli/support/show.h"

/* Prints a line for each stage of the server's list [{stage, change, what?, files?, again?}]: what changed, the changed
 * files of its code, and how many datums run again at which cost. */
void pl_cli_stage_changes(const struct pl_cli *c, const json_t *stages);
/* Prints what a run would do to a stage, the server's {"project", "pipeline", "stage", "again"?}: the datums to run and to reuse, and the
 * cost. `first`: the price of a stage of the pipeline that runs; others are shown
 * with their pipelines. */
void pl_cli_stage_price(const struct pl_cli *c, const json_t *price, const json_t *first);
/* Writes which files of a stage's code changed, such as " (train.py, network.py and 3 more)"; "" if none did. `files`: the
 * server's {"changed": [NAME…], "count"}; NULL = none. */
void pl_cli_changed_files(const json_t *files, char out[PL_SHOW_TEXT_MAX]);
