/* seccomp: the system calls that a stage's command may make: those that containers may make by default, without mounts and namespaces, kernel
 * keys, bpf, perf, kexec, modules, reboot, swap, clocks, raw ports, files by handle. These are denied with EPERM, so that programs can say so;
 * those that programs try first and have a fallback for (clone3, io_uring), and all that nobody listed, with ENOSYS, as on a kernel without them.
 * Two programs in one: the first denies, also by arguments; what it lets through is looked up in the second. */
#pragma once

#include "storage/base/err.h"

/* A memory file with the filter as a BPF program, at offset 0, close-on-exec; the caller closes it. PL_EUNAVAILABLE, PL_EIO. */
PL_MUST_CHECK
int pl_seccomp_filter_fd(int *ret_fd, struct pl_err *err);
/* The same for programs of another architecture that libseccomp knows, such as SCMP_ARCH_AARCH64. */
PL_MUST_CHECK
int pl_seccomp_filter_for(uint32_t arch, int *ret_fd, struct pl_err *err);
