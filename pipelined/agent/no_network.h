/* no_network: takes the network from a command of a pod (`"network": false`). Agent and command share the pod's network, and the agent needs
 * it; so the command, and all that it starts, gets no socket but those that stay within the pod's containers. The kernel sees to that, whatever
 * the cluster's network does:
 *
 *   socket(AF_UNIX or AF_NETLINK)   as ever
 *   socket(anything else)           EAFNOSUPPORT, its own loopback included
 *   io_uring_setup                  ENOSYS: it would open sockets by another door
 *   anything of a foreign ABI       ENOSYS: 32-bit programs do not run
 *
 * libc alone. */
#pragma once

#include <stdbool.h>

/* Does the kernel take such filters? */
bool pl_no_network_works(void);
/* From here on, for the calling thread and whatever it starts; it can get no privileges by exec then either. May be called in a vfork'ed child. 0 or
 * errno. */
int pl_no_network_begin(void);
