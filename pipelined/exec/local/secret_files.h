/* secret_files: secrets of projects as files of this machine: FOLDER/PROJECT/NAME/KEY; folders have mode
 * 0700, files 0600. A new secret appears with all its keys or not at all; a reader of an updated key sees its
 * old or its new value, never a mixture. Any thread; blocks. */
#pragma once

#include "pipelined/policy/project_secret.h"
#include "pipelined/spec/spec.h"

/* Carries out an operation on the secrets in `folder`. Sets `ret`, as project_secret.h says, only for
 * PL_SECRET_LIST and PL_SECRET_READ. A PL_SECRET_DELETE of all secrets of a project does not set `ret`, because no secret
 * remains that should be reported. `op` must have passed pl_secret_op_check, and its project must be a valid
 * name. PL_EEXISTS (CREATE), PL_ENOTFOUND (UPDATE, READ, and DELETE of one secret), PL_ELIMIT, PL_EINUSE (NONE). */
PL_MUST_CHECK
int pl_secret_files(const char *folder, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
/* Checks that all secrets and keys that the stage uses exist. PL_ENOTFOUND: the error names the missing
 * secret or key and the command that creates it. */
PL_MUST_CHECK
int pl_secret_files_have(const char *folder, const char *project, const struct pl_stage *stage, struct pl_err *err);
