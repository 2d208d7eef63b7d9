/* policy: Small pure rules that several rooms share: permissions, retention, rate limits, disk thresholds, names of
 * secrets.
 *
 * In:      Facts as plain data.
 * Out:     A decision.
 * Uses:    storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   container_log_request  request for the output of a container
 *   disk_space             disk-full thresholds and their states
 *   principal              roles, permissions and the caller's identity
 *   project_secret         names, limits and requests of project secrets
 *   rate_limit             leaky-bucket rate limits per key
 *   retention_rule         decides which commits a repo keeps */

/* pipelined/core: the decisions, pure. Text and hashes in, plain data out: no I/O, no clock, no threads, no randomness, no
 * globals that change. Links storage/tree, storage/base and jansson; node bytes come through `struct pl_node_source`.
 *
 *   json_pos   where in a JSON text a value stands; refuses what jansson refuses
 *   json_text  a value as text, whole or not at all
 *   quantity   Kubernetes quantities ("500m", "40Gi")
 *   glob       patterns over paths, with captures
 *   template   output prefixes: "${test.stem}/"
 *   spec       a pipeline spec: read, checked, merged with its defaults, described (schema, docs/spec.md)
 *   identity   code identity, datum id and datum key, byte by byte
 *   plan       the datums of a stage over given commits: full enumeration
 *   datum_env  the environment variables of one datum
 *   table      rows of the datum table and of the owner tree
 *   merge      outputs of datums put together: prefixes, collisions, `expect`
 *   sched/     step(state, event) → actions */
#pragma once

#include "storage/base/base.h"

/* Exit code of an agent whose command's sandbox was ended by something outside: no try of the datum. */
#define PL_WORKER_EXIT_SANDBOX 76
