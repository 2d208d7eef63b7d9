/* user_connections: from settings to rules, and from these to what uses them. */
#include "pipelined/daemon/user_connections.h"

#include "pipelined/engine/engine.h"
#include "pipelined/notify/notify.h"
#include "storage/http/outbound.h"

#include <errno.h>
#include <unistd.h>

int pl_user_connections_read(const struct pl_config *config, struct pl_outbound **ret, struct pl_err *err)
{
    const struct pl_outbound_settings settings = {.schemes = config->outbound.schemes,
                                                  .hosts = config->outbound.hosts,
                                                  .networks = config->outbound.networks,
                                                  .ca = config->outbound.ca};

    if (*settings.ca && access(settings.ca, R_OK) < 0)
        return pl_err_errno(err, errno, "outbound.ca: %s", settings.ca);
    return pl_outbound_create(&settings, ret, err);
}

int pl_user_connections_notify(struct pl_db *db, struct pl_project_stores *stores, const struct pl_outbound *outbound,
                               struct pl_engine *engine, struct pl_notify **ret, struct pl_err *err)
{
    const struct pl_notify_config c = {
        .db = db, .stores = stores, .outbound = outbound, .secrets = pl_engine_api_ops()->secrets, .secrets_self = engine};

    return pl_notify_start(&c, ret, err);
}
