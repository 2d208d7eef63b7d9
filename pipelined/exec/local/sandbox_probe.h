/* sandbox_probe: tests whether stages can run under bubblewrap on this machine, with the agent's program. */
#pragma once

#include "storage/base/err.h"

#define PL_SANDBOX_PROBE_MS 10000

/* Runs `program --probe-sandbox` and waits for its answer: typically 20 ms, at most PL_SANDBOX_PROBE_MS.
 * Returns 0 if bubblewrap works. PL_EUNAVAILABLE: the error has the program's output and a remedy. Blocks;
 * any thread. */
PL_MUST_CHECK
int pl_sandbox_probe(const char *program, struct pl_err *err);
