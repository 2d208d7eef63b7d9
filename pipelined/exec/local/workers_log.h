/* workers_log: DIR/logs/workers.log, to which all agents of this machine write for the operator. Each agent
 * has the file open and appends to it. Agents outlive their daemon, so the file is never renamed: when it is
 * full, its last part replaces the content of workers.log.1 and the file is truncated. A line that an agent
 * writes between these two steps is lost. Single-threaded. */
#pragma once

#include "storage/base/err.h"

/* size in bytes at which the log is full; also the most that workers.log.1 holds */
#define PL_WORKERS_LOG_BYTES (4u << 20)
/* interval of the size checks; between two checks the log may grow beyond its size */
#define PL_WORKERS_LOG_EVERY_MS 60000

/* Opens the log for appending and creates it if necessary. The caller owns the descriptor. Returns -1 with
 * errno on failure: the agent then runs without a log. */
PL_MUST_CHECK
int pl_workers_log_open(const char *data_dir);
/* Truncates the log if it is full, after copying its last part to workers.log.1. If the copy fails the log is
 * truncated anyway, because the usual cause is a full disk. PL_EIO: the log could not be truncated. */
PL_MUST_CHECK
int pl_workers_log_bound(const char *data_dir, struct pl_err *err);
