/* cache_folder: which folder of nodes the cache of agents may be (kubernetes.node_cache). It is given to the agent's user, so it must be nobody else's. Pure. */
#pragma once

#include "storage/base/err.h"

/* PL_EINVAL: not an absolute path, not written in its plain form (no ".", "..", "//"), /, directly below it, or a folder of the system's. */
PL_MUST_CHECK
int pl_node_cache_path_check(const char *folder, struct pl_err *err);
