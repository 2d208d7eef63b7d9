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

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

enum { PL_NO_NETWORK_STEPS = 12 };
/* The filter of an ABI (AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64), this machine's or not; false: its numbers are not known. Pure. */
bool pl_no_network_filter(uint32_t arch, struct sock_filter ret[PL_NO_NETWORK_STEPS]);

/* Does the kernel take such filters? */
bool pl_no_network_works(void);
/* From here on, for the calling thread and whatever it starts; it can get no privileges by exec then either. May be called in a vfork'ed child. 0 or
 * errno. */
int pl_no_network_begin(void);
