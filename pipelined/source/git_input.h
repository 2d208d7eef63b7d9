/* git_input: a look at a git repository whose files are an input: a new tip becomes a commit of the input's repo. */
#pragma once

#include "pipelined/source/source_look.h"

#define PL_GIT_INPUT_FILES_MAX 100000u
#define PL_GIT_INPUT_BYTES_MAX (UINT64_C(4) << 30) /* of all files together */

/* Looks at the repository of a repo with the option `git`, commits what is new, and records what was found. `l` is as for a
 * source, but `name` is that of the copy, PROJECT.REPO, and `settings` are {"repo", "git", "branch", "secret"; "source" if its
 * source gives the rest, and "git": "" if there is no such source}. Returns false if the repository was not reached: the next
 * look then waits longer. */
bool pl_git_input_look(struct pl_source_look *l);

struct pl_spec;
/* Checks the addresses that the git inputs of a spec name. PL_EFORBIDDEN, PL_ENOTFOUND, as pl_source_address_check; the message
 * names the stage. */
PL_MUST_CHECK
int pl_git_inputs_check(const struct pl_source_addresses *addresses, const struct pl_spec *spec, struct pl_err *err);
