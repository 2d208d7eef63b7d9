/* mesh: the proxy of a service mesh that was put into a worker's pod. One that is no init container outlives agent and command, and its pod is not
 * over before somebody ends it: the agent does, last of all. */
#pragma once

/* Asks each proxy that is known to end: Istio's at 127.0.0.1:15020 (POST /quitquitquit), Linkerd's at 127.0.0.1:4191 (POST /shutdown). Waits for
 * their answers, PL_MESH_PROXY_WAIT_MS at most for each; one that is not there is nothing. */
#define PL_MESH_PROXY_WAIT_MS 2000
void pl_mesh_proxy_quit(void);
