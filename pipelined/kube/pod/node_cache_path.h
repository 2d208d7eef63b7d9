/* node_cache_path: checks the setting kubernetes.node_cache: the folder of nodes that holds the agents'
 * cache. The agent's user becomes the folder's owner, so no other program may use the folder. Pure. */
#pragma once

#include "storage/base/err.h"

/* PL_EINVAL: not an absolute path, contains ".", ".." or "//", is / or directly below it, or is a system
 * folder. */
PL_MUST_CHECK
int pl_node_cache_path_check(const char *folder, struct pl_err *err);
