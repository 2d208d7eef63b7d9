/* git_fence: limits what this process can do, before it reads data of others. */
#pragma once

#include "storage/base/err.h"

#define PL_GIT_MEMORY_BYTES (4ull << 30)  /* address space: pack windows are mapped */
#define PL_GIT_FILE_BYTES   (16ull << 30) /* of one file that it writes */

/* Limits memory and file sizes; turns off new privileges; with Landlock (Linux 5.13), lets the process write only below
 * `folder`, and read only `folder`, the file `ca` ("" = none), the `readable` folders, and programs, libraries, certificates and settings of the
 * machine. Folders that do not exist are left out. Refuses system calls by which a process
 * starts programs, or reaches others (seccomp). Without Landlock the limits of memory and sizes still hold. PL_EIO. */
PL_MUST_CHECK
int pl_git_fence(const char *folder, const char *ca, const char *const *readable, size_t n_readable, struct pl_err *err);
