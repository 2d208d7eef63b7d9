/* holders: which processes of this machine have a file open, as /proc tells it. */
#pragma once

#include "storage/base/err.h"

/* Kills (SIGKILL) the processes of that name (proc(5), comm) that have one of the files open, but never the caller's own, and adds to
 * `ret_killed[i]` how many had that of `fds[i]`: none, too, where /proc is not to be read or they are somebody else's. Looks at every process once,
 * however many files there are: some milliseconds for a thousand. A descriptor that is none names no file. Any thread; the descriptors stay open
 * meanwhile, for the number of a file that nobody has open may be another's. */
void pl_file_users_kill(const int *fds, size_t n, const char *name, size_t *ret_killed);

/* Has anyone the file open for writing, or mapped so? 0: nobody, and from now on who writes to it must open it first. PL_EBUSY: someone has.
 * PL_EUNAVAILABLE: it cannot be known (a file of another user, a file system that does not tell). `fd` is open for reading alone. Who opens the file
 * meanwhile waits for microseconds. */
int pl_holders_writing(int fd);
