/* shell: a person's shell in the place of a datum's command: the same sandbox, inputs, variables and working directory. Where the agent
 * was started from a terminal, the shell has one of its own (terminal.h), which passes on what is typed, Ctrl-C as well. */
#pragma once

#include "pipelined/agent/worker/datum_attempt.h"

/* As by_hand of datum.h: runs bash (sh where there is none) to its end, whatever its exit code. With bubblewrap nothing it started is left.
 * Interrupts of the terminal are the shell's meanwhile. PL_EUNAVAILABLE: it cannot be started. */
PL_MUST_CHECK
int pl_shell_run(const struct pl_datum_context *c, const char *const *env, const char *cwd, struct pl_agent_protocol_outcome *o,
                 struct pl_err *err);
