/* user_connections: parts of the daemon that connect to servers which users name. */
#pragma once

#include "pipelined/daemon/config.h"
#include "storage/base/err.h"

struct pl_db;
struct pl_engine;
struct pl_notify;
struct pl_outbound;
struct pl_project_stores;

/* Reads which servers may be connected to (storage/http/outbound.h). PL_EINVAL, PL_ELIMIT: a setting outbound.*; PL_EIO: its
 * certificates cannot be read. */
PL_MUST_CHECK
int pl_user_connections_read(const struct pl_config *config, struct pl_outbound **ret, struct pl_err *err);
/* Starts sending notifications. What is given must outlive `ret`. Errors of pl_notify_start. */
PL_MUST_CHECK
int pl_user_connections_notify(struct pl_db *db, struct pl_project_stores *stores, const struct pl_outbound *outbound,
                               struct pl_engine *engine, struct pl_notify **ret, struct pl_err *err);
