/* file_users: finds out, from /proc and from leases, which processes of this machine have a file open. */
#pragma once

#include "storage/base/err.h"

/* Kills (SIGKILL) the processes named `name` (proc(5), comm), except the caller, that have at least one of
 * the files `fds` open, and adds to `ret_killed[i]` the number of processes killed for the file of `fds[i]`.
 * Kills none if /proc cannot be read or the processes belong to another user. Examines each process once,
 * whatever `n` is: a few milliseconds for a thousand processes. An invalid descriptor matches no file. The
 * descriptors must stay open during the call, because the inode number of a closed file may be reused. Any
 * thread. */
void pl_file_users_kill(const int *fds, size_t n, const char *name, size_t *ret_killed);

/* Reports whether a process has the file open for writing, or mapped for writing. Returns 0 if no process
 * has: to write, a process must first open the file. PL_EBUSY: a process has. PL_EUNAVAILABLE: unknown (the
 * file belongs to another user, or the filesystem does not support leases). `fd` must be open only for
 * reading. A process that opens the file during the call waits for some microseconds. */
int pl_holders_writing(int fd);
