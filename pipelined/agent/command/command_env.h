/* command_env: the environment of a command. It consists of variables that are constant for the worker's
 * life (search path, home, locale, GPUs) and of the variables that spec/datum_env makes from the datum and
 * the stage's own `env`; if both have a variable of the same name, the value from spec/datum_env is used.
 * One thread. */
#pragma once

#include "pipelined/agent/command/stage_secrets.h"
#include "pipelined/agent/sandbox/sandbox.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

struct pl_env;

/* Creates the constant part. All arguments are borrowed and must outlive the object; `secrets` may be NULL.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_env_create(const struct pl_agent_protocol_attach *stage, const struct pl_sandbox_config *config,
                  const struct pl_sandbox_paths *paths, const struct pl_secrets *secrets, struct pl_env **ret,
                  struct pl_err *err);
struct pl_env *pl_env_destroy(struct pl_env *e);
/* Returns only the variables of spec/datum_env, without the constant part. Valid until the next call. `row`
 * is the datum; if it is NULL, the result has only the variables that are the same for every datum of the
 * worker, and `task` is ignored. PL_ENOMEM. */
PL_MUST_CHECK
int pl_env_of_datum(struct pl_env *e, const struct pl_agent_protocol_task *task, const struct pl_agent_protocol_datum *row,
                    struct pl_env_var **ret, size_t *ret_n, struct pl_err *err);
/* Returns the complete environment as NAME=value strings, NULL-terminated. Valid until the next call. `row`
 * is the datum; if it is NULL, the result has only the variables that are the same for every datum of the
 * worker, and `task` is ignored. PL_ENOMEM. */
PL_MUST_CHECK
int pl_env_of(struct pl_env *e, const struct pl_agent_protocol_task *task, const struct pl_agent_protocol_datum *row,
              const char *const **ret, struct pl_err *err);
/* Returns `argv` with ${params.NAME} replaced by the parameters of the datum `row` (NULL = none), and "$${" by
 * "${"; `argv` itself if there is neither. Call it after pl_env_of for the same datum; the result is valid until the next
 * call of pl_env_of. PL_ENOMEM. */
PL_MUST_CHECK
int pl_env_argv(struct pl_env *e, const struct pl_agent_protocol_datum *row, const char *const *argv, const char *const **ret,
                struct pl_err *err);
