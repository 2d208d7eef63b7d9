/* env: the environment of a command: what holds for the worker's whole life (search path, home, locale, GPUs), and over it what
 * core/datum_env says of the datum and the stage's own `env`. One thread. */
#pragma once

#include "pipelined/agent/command/stage_secrets.h"
#include "pipelined/agent/sandbox/sandbox.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

struct pl_env;

/* All arguments must outlive it; `secrets` may be NULL. */
PL_MUST_CHECK
int pl_env_create(const struct pl_agent_protocol_attach *stage, const struct pl_sandbox_config *config,
                  const struct pl_sandbox_paths *paths, const struct pl_secrets *secrets, struct pl_env **ret,
                  struct pl_err *err);
struct pl_env *pl_env_destroy(struct pl_env *e);
/* What core/datum_env says alone, without what holds for the worker's whole life; valid until the next call. PL_ENOMEM. */
PL_MUST_CHECK
int pl_env_of_datum(struct pl_env *e, const struct pl_agent_protocol_task *task, const struct pl_agent_protocol_datum *row,
                    struct pl_env_var **ret, size_t *ret_n, struct pl_err *err);
/* NAME=value strings, NULL-terminated; valid until the next call. `row` NULL: what holds for every datum of the worker (task is not looked
 * at). PL_ENOMEM. */
PL_MUST_CHECK
int pl_env_of(struct pl_env *e, const struct pl_agent_protocol_task *task, const struct pl_agent_protocol_datum *row,
              const char *const **ret, struct pl_err *err);
/* `argv` with ${params.NAME} replaced by the row's parameters; itself when it has none. After pl_env_of of the row; valid as long. PL_ENOMEM. */
PL_MUST_CHECK
int pl_env_argv(struct pl_env *e, const struct pl_agent_protocol_datum *row, const char *const *argv, const char *const **ret,
                struct pl_err *err);
