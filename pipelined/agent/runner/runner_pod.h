/* runner_pod: what pl-runner does differently as the first process of a pod's container. The agent is in
 * another container and runs as another user; both share a folder and the kernel.
 *
 *   pl-runner --pod SOCKET [--no-network] [FOLDER…]
 *
 * It waits for the agent at SOCKET, at most PL_POD_WAIT_S, because the agent's container starts separately.
 * It receives the pipe for the commands' output as a descriptor sent with one byte. Then it works like any
 * runner, except that
 *  - commands have the container's own environment (of the image and the pod), overridden by the RUN
 *    frame; a PATH in RUN that ends in ':' is put before the container's PATH;
 *  - before each EXIT, and at SHARE, everything in the FOLDERs is made accessible to the FOLDER's group,
 *    of which the agent is a member: files readable and writable, folders also searchable. Files of other
 *    users are left as they are;
 *  - with --no-network commands have no network (no_network.h);
 *  - EXIT reports how many processes the kernel killed for lack of memory.
 *
 *   pl-runner --probe FOLDER…      for pipelinectl doctor: prints its user and whether it may write there
 *
 * Uses libc only; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PL_POD_OPTION "--pod"
#define PL_POD_NO_NET "--no-network"
#define PL_POD_PROBE  "--probe"
/* longest wait for the agent, in seconds */
#define PL_POD_WAIT_S    300
#define PL_POD_DEPTH_MAX 1024u /* deeper folders are not made accessible */

/* Connects to the agent, and puts the socket at descriptor 0 and the pipe at 1 and 2. False: the agent did
 * not come; a message was printed on standard error. */
bool pl_pod_connect(const char *socket_path);
/* Returns the environment as NAME=value strings, NULL-terminated: `run`, plus the container's variables that
 * `run` does not set. A static array, valid until the next call. */
char **pl_pod_env(char *const *run);
/* Makes everything in the folder accessible to the folder's group. Errors are ignored. */
void pl_pod_share(const char *folder);
/* Prints the user, and creates and removes a file in each folder. Returns the exit status: 1, with a message
 * on standard output, if that is not possible. */
int pl_pod_probe(char *const *folders);
/* Returns the number of processes that the kernel has killed in this container for lack of memory; 0 =
 * unknown. */
uint64_t pl_pod_ooms(void);
/* Returns the memory limit of this container in bytes; 0 = no limit is known. */
uint64_t pl_pod_memory_limit(void);
