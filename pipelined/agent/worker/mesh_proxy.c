/* One POST to each known proxy of a service mesh, with a time limit. */
#include "pipelined/agent/worker/mesh_proxy.h"

#include "pipelined/net/http_client/http_client.h"
#include "storage/system/log_line.h"

/* Sends one proxy the request to stop. */
static void quit(const char *url, const char *path)
{
    _cleanup_(pl_http_client_destroyp) struct pl_http_client *client = NULL;
    const struct pl_http_call call = {.method = "POST", .path = path, .timeout_ms = PL_MESH_PROXY_WAIT_MS};
    struct pl_err err = {0};
    int r = pl_http_client_create(url, NULL, &client, &err);

    r = r < 0 ? r : pl_http_client_call(client, &call, NULL, &err);
    if (r == 0)
        pl_log_info("worker", "asked the proxy at %s to stop", url);
    else if (r != PL_ENET) /* PL_ENET: there is no such proxy */
        pl_log_warn("worker", "cannot stop the proxy at %s: %s", url, err.msg);
}

void pl_mesh_proxy_quit(void)
{
    static const char *const proxies[][2] = {{"http://127.0.0.1:15020", "/quitquitquit"}, {"http://127.0.0.1:4191", "/shutdown"}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(proxies); i++)
        quit(proxies[i][0], proxies[i][1]);
}
