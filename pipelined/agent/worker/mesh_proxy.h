/* mesh_proxy: the proxy of a service mesh that was added to a worker's pod. A proxy that is not an init
 * container keeps running after agent and command, and then the pod does not end. So the agent stops the
 * proxy as its last action. */
#pragma once

/* Asks each known proxy to stop: Istio's at 127.0.0.1:15020 (POST /quitquitquit) and Linkerd's at
 * 127.0.0.1:4191 (POST /shutdown). Waits for each answer, at most PL_MESH_PROXY_WAIT_MS. A missing proxy is
 * not an error. */
#define PL_MESH_PROXY_WAIT_MS 2000
void pl_mesh_proxy_quit(void);
