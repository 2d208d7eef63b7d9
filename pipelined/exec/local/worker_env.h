/* worker_env: the environment that workers of this machine inherit from the daemon, and what of the daemon
 * decides how a sandbox looks here. Reads the environment only; any thread while no thread changes it. */
#pragma once

#include "pipelined/sandbox_view/sandbox_view.h"
#include "pipelined/spec/spec.h"
#include "storage/base/buf.h"
#include <jansson.h>

#define PL_WORKER_ENV_MAX (16u + PL_SANDBOX_PACKAGE_VARIABLES) /* maximum number of inherited variables */

/* Fills `ret` with the inherited variables, NAME=value, borrowed from the daemon's environment; returns their
 * number. */
size_t pl_worker_env_list(char *ret[PL_WORKER_ENV_MAX]);
/* Checks that the programs with which a stage begins are on this machine, and that the sandbox, "bwrap" or "none", shows
 * them. Errors of pl_sandbox_view_stage. */
PL_MUST_CHECK
int pl_worker_env_check(const char *mode, const struct pl_stage *def, struct pl_err *err);
/* Returns what pipelinectl needs to try a datum in a sandbox like those here, a new reference:
 * {"host": NAME, "mode": "bwrap" | "none", "podman": PROGRAM or "", "read_only": [FOLDER…], "env": {NAME: VALUE}}. `env` has those
 * inherited variables that decide what commands find; a variable that is not set is left out. */
json_t *pl_worker_env_json(const char *host, const char *mode, const char *podman);
