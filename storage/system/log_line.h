/* log: lines of the daemon, agent and CLI to stderr: JSON when stderr is no terminal, else text. Libraries return errors, they do not
 * log; only programs do, once, where the error is handled. Thread-safe; a line is one write. */
#pragma once

#include "storage/base/base.h"

enum pl_log_level { PL_LOG_DEBUG, PL_LOG_INFO, PL_LOG_WARN, PL_LOG_ERROR };

/* "debug", "info", "warn", "error"; false for anything else. */
bool pl_log_level_parse(const char *name, enum pl_log_level *ret);
void pl_log_init(const char *program, enum pl_log_level least, bool json);
/* `module` e.g. "sched"; the message is one sentence. */
void pl_log(enum pl_log_level level, const char *module, const char *fmt, ...) PL_PRINTF(3, 4);
#define pl_log_info(module, ...)  pl_log(PL_LOG_INFO, module, __VA_ARGS__)
#define pl_log_warn(module, ...)  pl_log(PL_LOG_WARN, module, __VA_ARGS__)
#define pl_log_error(module, ...) pl_log(PL_LOG_ERROR, module, __VA_ARGS__)
#define pl_log_debug(module, ...) pl_log(PL_LOG_DEBUG, module, __VA_ARGS__)
