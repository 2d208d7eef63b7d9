/* merge_collision (private to merge): the words for two outputs that cannot stand beside each other. */
#pragma once

#include "plan.h"

enum merge_collision { MERGE_SAME_PATH, MERGE_FILE_AND_FOLDER };

/* Sets PL_ECOLLISION. `path` is written by datum a (as a file) and by datum b (as a file or as the folder of something). */
int merge_collision(const struct pl_plan *plan, enum merge_collision kind, const char *path, size_t a, size_t b,
                    struct pl_err *err);
