/* version_diff: which stages differ between two versions of a pipeline, and which datums run anew after the change. Pure. */
#pragma once

#include "pipelined/plan/stage_change.h"
#include "storage/base/hash.h"

#include <stddef.h>

/* A stage of one version. `spec`: its effective spec, whose inputs are "PROJECT/REPO@BRANCH". All is borrowed. */
struct pl_version_stage {
    const char *project, *name;
    const json_t *spec;
    struct pl_hash code_root; /* zero = no code */
    struct pl_hash identity;  /* code identity (datum_identity.h) */
};
struct pl_version_stages {
    const struct pl_version_stage *items;
    size_t n;
};

/* Compares two versions. `ret`: a new array, first of the stages of `after` in their order, then of those that only
 * `before` has:
 *   stage    its name
 *   change   "new", "changed", "unchanged", "removed"
 *   again    "none", "some" or "all" of its datums run anew; absent if it was removed
 *   because  names of the stages that it reads and that run anew; absent if there is none
 *   fields   of a changed stage: pl_stage_change_fields
 *   code     [before, after] roots of the code in hex, if they differ; "" = no code
 * Stages that are the same and run nothing anew are left out; `ret_same` is their number. PL_ENOMEM. */
PL_MUST_CHECK
int pl_version_diff(struct pl_version_stages before, struct pl_version_stages after, json_t **ret, size_t *ret_same,
                    struct pl_err *err);
