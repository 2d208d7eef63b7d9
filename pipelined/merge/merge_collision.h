/* merge_collision (private to merge): the error message for two outputs that cannot both exist. */
#pragma once

#include "pipelined/plan/plan.h"

enum pl_merge_collision { MERGE_SAME_PATH, MERGE_FILE_AND_FOLDER };

/* Sets PL_ECOLLISION and returns it. `path` was written by datum `a` as a file, and by datum `b` as a file or
 * as a folder. */
int pl_merge_collision(const struct pl_plan *plan, enum pl_merge_collision kind, const char *path, size_t a, size_t b,
                       struct pl_err *err);
