/* seccomp: the system calls that a stage's command may make: those that container runtimes allow by default,
 * except mounts and namespaces, kernel keys, bpf, perf, kexec, modules, reboot, swap, clocks, raw ports, and
 * files by handle. The excepted calls fail with EPERM, so that programs can report it. Calls that programs
 * try first and have a fallback for (clone3, io_uring), and all calls that are in no list, fail with ENOSYS,
 * as on a kernel that lacks them. The filter is two programs joined into one: the first denies calls, some
 * of them by their arguments; the second gets the remaining calls and allows those in its list. */
#pragma once

#include "storage/base/err.h"

/* Makes the filter as a BPF program in a memory file, positioned at offset 0, close-on-exec. The caller
 * closes it. PL_EUNAVAILABLE, PL_EIO. */
PL_MUST_CHECK
int pl_seccomp_filter_fd(int *ret_fd, struct pl_err *err);
/* Like pl_seccomp_filter_fd, for another architecture that libseccomp knows, such as SCMP_ARCH_AARCH64. */
PL_MUST_CHECK
int pl_seccomp_filter_for(uint32_t arch, int *ret_fd, struct pl_err *err);
