/* no_network: removes the network of a command in a pod (`"network": false`). Agent and command share the
 * pod's network, and the agent needs it. Therefore the command and its child processes can only open sockets
 * that stay within the pod. A seccomp filter in the kernel enforces this, independent of the cluster's
 * network:
 *
 *   socket(AF_UNIX or AF_NETLINK)   allowed
 *   socket(any other family)        EAFNOSUPPORT, also for loopback
 *   io_uring_setup                  ENOSYS, because io_uring can open sockets too
 *   any call of a foreign ABI       ENOSYS, so 32-bit programs do not run
 *
 * Uses libc only. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

/* number of instructions of the filter */
enum { PL_NO_NETWORK_STEPS = 12 };
/* Writes the filter for an ABI (AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64), which need not be this machine's.
 * False if its system call numbers are not known. Pure. */
bool pl_no_network_filter(uint32_t arch, struct sock_filter ret[PL_NO_NETWORK_STEPS]);

/* True if the kernel supports such filters. */
bool pl_no_network_works(void);
/* Installs the filter for the calling thread and everything that it starts. Also sets no_new_privs: exec can
 * no longer give privileges. May be called in a vfork'ed child. Returns 0 or errno. */
int pl_no_network_begin(void);
