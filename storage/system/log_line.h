/* log_line: log lines of the daemon, the agent and the CLI on stderr, as JSON or as text. Library code does
 * not log but returns errors. A program logs an error once, where it handles it. Thread-safe: each line is a
 * single write. */
#pragma once

#include "storage/base/base.h"

enum pl_log_level { PL_LOG_DEBUG, PL_LOG_INFO, PL_LOG_WARN, PL_LOG_ERROR };

/* Parses "debug", "info", "warn" or "error"; returns false for any other name. */
bool pl_log_level_parse(const char *name, enum pl_log_level *ret);
/* Sets the program's name, the lowest level that is written, and the format. Call it before other threads
 * start. */
void pl_log_init(const char *program, enum pl_log_level least, bool json);
/* Says that this thread works for the request with this id, so that its JSON lines carry `"request":ID`; 0 = for none.
 * Returns the id of before. */
uint64_t pl_log_request(uint64_t id);
/* Writes one line if `level` is high enough. `module` is e.g. "sched"; the message is one sentence. Line
 * breaks in it are replaced by spaces. */
void pl_log(enum pl_log_level level, const char *module, const char *fmt, ...) PL_PRINTF(3, 4);
#define pl_log_info(module, ...)  pl_log(PL_LOG_INFO, module, __VA_ARGS__)
#define pl_log_warn(module, ...)  pl_log(PL_LOG_WARN, module, __VA_ARGS__)
#define pl_log_error(module, ...) pl_log(PL_LOG_ERROR, module, __VA_ARGS__)
#define pl_log_debug(module, ...) pl_log(PL_LOG_DEBUG, module, __VA_ARGS__)
