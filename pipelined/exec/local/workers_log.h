/* workers_log: DIR/logs/workers.log, the lines that all agents of this machine write for the operator. Each agent has it open and appends; agents
 * outlive their daemon, so the file is never renamed: when it is full its last bytes are copied to workers.log.1, whose older ones go, and it is emptied
 * in place. A line that is written between these two steps is lost. One thread. */
#pragma once

#include "storage/base/err.h"

#define PL_WORKERS_LOG_BYTES    (4u << 20) /* from here on it is full; workers.log.1 has no more */
#define PL_WORKERS_LOG_EVERY_MS 60000      /* it is looked at so often: what agents write in that time comes on top */

/* Opens it for appending, and makes it. The descriptor is the caller's; -1 with errno: the agent goes without. */
PL_MUST_CHECK
int pl_workers_log_open(const char *data_dir);
/* Turns it over if it is full; a file that cannot be copied is emptied all the same, for a full disk is why it could not. PL_EIO: it could not even be
 * emptied. */
PL_MUST_CHECK
int pl_workers_log_bound(const char *data_dir, struct pl_err *err);
