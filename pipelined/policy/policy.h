/* policy: Small pure rules that several rooms share: permissions, retention, rate limits, disk thresholds, names of
 * secrets.
 *
 * In:      Facts as plain data.
 * Out:     A decision.
 * Uses:    storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   back_off               how long to wait before another attempt
 *   container_log_request  request for the output of a container
 *   disk_space             disk-full thresholds and their states
 *   principal              roles, permissions and the caller's identity
 *   project_secret         names, limits and requests of project secrets
 *   rate_limit             leaky-bucket rate limits per key
 *   retention_rule         decides which commits a repo keeps */

#pragma once

#include "storage/base/base.h"

/* Exit code of an agent when something outside the agent ended the sandbox of the user's command. The attempt does not
 * count as a try of the datum. */
#define PL_WORKER_EXIT_SANDBOX 76
