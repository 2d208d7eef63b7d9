/* stage_changes: says what a change of a pipeline does to its stages. */
#pragma once

#include "pipelined/cli/support/cli.h"

/* Prints a line for each stage of the server's list [{stage, change, what?, files?, again?}]: what changed, the changed
 * files of its code, and how many datums run again at which cost. */
void pl_cli_stage_changes(const struct pl_cli *c, const json_t *stages);
