/* try_shell: an interactive shell in place of a datum's command, with the same sandbox, inputs, variables and
 * working directory. If the agent was started from a terminal, the shell gets a pseudo-terminal of its own
 * (try_terminal.h), which passes on everything that is typed, including Ctrl-C. */
#pragma once

#include "pipelined/agent/worker/datum_attempt.h"

/* For `by_hand` of pl_datum_context: runs bash (or sh if there is no bash) until it ends; any exit code
 * counts as success. With bubblewrap no process of it remains. Meanwhile interrupts of the terminal go to the
 * shell. PL_EUNAVAILABLE: the shell cannot be started. */
PL_MUST_CHECK
int pl_shell_run(const struct pl_datum_context *c, const char *const *env, const char *cwd, struct pl_agent_protocol_outcome *o,
                 struct pl_err *err);
