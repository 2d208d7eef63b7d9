/* runner_pod: what pl-runner does differently as the first process of a pod's container. The agent is in another container, under
 * another user; the two have a folder and the kernel in common.
 *
 *   pl-runner --pod SOCKET [--no-network] [FOLDER…]
 *
 * It waits for the agent at SOCKET (≤ PL_POD_WAIT_S, for the agent has its own start), gets from it the pipe for the output of
 * commands (one byte, the descriptor beside it), and is then a runner as any other, but that
 *  - commands have the container's own environment (the image's and the pod's), and over it what RUN says; a PATH in RUN that ends in ':' is
 *    put before the container's;
 *  - before each EXIT, and at SHARE, all that lies in the FOLDERs is opened: files for reading and writing, folders for entering too, by
 *    the group that the FOLDER has, which is the agent's. What belongs to others stays as it is;
 *  - with --no-network commands have none (no_network.h);
 *  - EXIT says how many processes the kernel killed for want of memory.
 *   pl-runner --probe FOLDER…      for pipelinectl doctor: who it runs as, and whether that may write there
 *
 * libc alone, one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PL_POD_OPTION    "--pod"
#define PL_POD_NO_NET    "--no-network"
#define PL_POD_PROBE     "--probe"
#define PL_POD_WAIT_S    300
#define PL_POD_DEPTH_MAX 1024u /* deeper folders stay closed */

/* Connects, puts the socket at descriptor 0 and the pipe at 1 and 2. False: the agent did not come; said on standard error. */
bool pl_pod_connect(const char *socket_path);
/* NAME=value words, NULL-terminated: `run`, and what the container has beside it. One static array: until the next call. */
char **pl_pod_env(char *const *run);
void pl_pod_share(const char *folder);
/* Prints the user, and makes and removes a file in each folder. The exit status: 1 where it cannot, which is said. */
int pl_pod_probe(char *const *folders);
/* Processes that the kernel killed in this container so far. 0 where it does not tell. */
uint64_t pl_pod_ooms(void);
/* Bytes of memory that this container may have; 0 = no limit is known. */
uint64_t pl_pod_memory_limit(void);
