/* try_sandbox: makes the sandbox of a tried datum like those of the daemon on this machine: the folders that
 * commands can read, and the variables that decide what they find (PATH and the like). */
#pragma once

#include "pipelined/cli/support/cli.h"

#include <limits.h>

/* Finds how the daemon's sandboxes look, and sets the environment of this program accordingly; pipelined-worker
 * inherits it. The folders come from `sandbox_read_only` in the file `config`, a daemon's configuration, or from the
 * daemon if `config` is NULL.
 * The daemon is asked if its address is a loopback address, and its answer counts if it starts workers here. No daemon, or none that answers, is no error. `mode` is the kind of
 * sandbox of this try; a different one of the daemon is told on standard error.
 * PL_ENOTFOUND, PL_EFORMAT, PL_EINVAL: the file. `podman` receives podman's name or path; "": the daemon uses no images. */
PL_MUST_CHECK
int pl_cli_try_sandbox(struct pl_cli *c, const char *config, const char *mode, char podman[PATH_MAX], struct pl_err *err);
