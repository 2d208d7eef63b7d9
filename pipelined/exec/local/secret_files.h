/* secret_files: secrets of projects as files of this machine: FOLDER/PROJECT/NAME/KEY, folders 0700, files 0600. A new secret is there with
 * all its keys or not at all, a key with its value of before or the new one. Any thread; blocks. */
#pragma once

#include "pipelined/policy/project_secret.h"
#include "pipelined/spec/spec.h"

/* `ret` as of core/secret.h; none stay. `op` was checked (pl_secret_op_check), and its project is a name. PL_EEXISTS (CREATE), PL_ENOTFOUND
 * (UPDATE, DELETE of one), PL_ELIMIT, PL_EINUSE (NONE). */
PL_MUST_CHECK
int pl_secret_files(const char *folder, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
/* Whether all that the stage wants is there. PL_ENOTFOUND with how to make it. */
PL_MUST_CHECK
int pl_secret_files_have(const char *folder, const char *project, const struct pl_stage *stage, struct pl_err *err);
