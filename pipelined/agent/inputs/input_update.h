/* input_change: turns the checkout of one commit into that of another by what differs between their trees: what went is removed, what came is
 * written, all else stays as it is. */
#pragma once

#include "pipelined/agent/inputs/input_folder.h"

/* `dest` holds what `wi` takes of the tree `old_root`, made by pl_input_build or here. `ret`: of the whole match. Any failure, also one that
 * tells of something else in `dest`: it is neither the one nor the other, remove it. */
PL_MUST_CHECK
int pl_input_change(struct pl_input_folder *f, const struct pl_hash *old_root, const struct pl_agent_protocol_input *wi,
                    const char *dest, struct pl_input_sums *ret, struct pl_err *err);
