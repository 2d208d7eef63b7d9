/* input_update: changes the checkout of one commit into that of another, using the difference between their
 * trees: removes deleted files, writes new and changed ones, and leaves all others. */
#pragma once

#include "pipelined/agent/inputs/input_folder.h"

/* `dest` holds the files that `wi` matches in the tree `old_root`; changes them to the files that it matches
 * in the tree wi->root. `dest` was made by pl_input_build or by this function. `*ret` counts all files of
 * the new match. On any error `dest` is in an undefined state and must be removed; an error may also mean
 * that `dest` did not hold what was expected. */
PL_MUST_CHECK
int pl_input_change(struct pl_input_folder *f, const struct pl_hash *old_root, const struct pl_agent_protocol_input *wi,
                    const char *dest, struct pl_input_sums *ret, struct pl_err *err);
