/* seccomp: the system calls that a stage's command has no business with: mounts and namespaces, kernel keys, bpf, perf, kexec,
 * modules, reboot, swap, clocks, raw ports, files by handle. Denied with EPERM, so that programs can say so; those that programs
 * try first and have a fallback for (clone3, io_uring) with ENOSYS. Everything else is allowed. */
#pragma once

#include "storage/base/err.h"

/* A memory file with the filter as a BPF program, at offset 0, close-on-exec; the caller closes it. PL_EUNAVAILABLE, PL_EIO. */
PL_MUST_CHECK
int pl_seccomp_filter_fd(int *ret_fd, struct pl_err *err);
/* The same for programs of another architecture that libseccomp knows, such as SCMP_ARCH_AARCH64. */
PL_MUST_CHECK
int pl_seccomp_filter_for(uint32_t arch, int *ret_fd, struct pl_err *err);
