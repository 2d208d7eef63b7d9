/* sandbox_probe: whether stages can run under bubblewrap on this machine, asked of the agent's program. */
#pragma once

#include "storage/base/err.h"

#define PL_SANDBOX_PROBE_MS 10000

/* Runs `program --probe-sandbox` and waits for its answer (some 20 ms; at most PL_SANDBOX_PROBE_MS). 0 = it works; PL_EUNAVAILABLE with
 * what the program said and what to do about it. Blocks; any thread. */
PL_MUST_CHECK
int pl_sandbox_probe(const char *program, struct pl_err *err);
