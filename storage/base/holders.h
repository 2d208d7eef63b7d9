/* holders: which processes of this machine have a file open, as /proc tells it. */
#pragma once

#include "base.h"

/* Kills (SIGKILL) the processes of that name (proc(5), comm) that have the file of `fd` open, but never the caller's own. How many there were: 0,
 * too, where /proc is not to be read or they are somebody else's. Looks at every process: some milliseconds for a thousand. Any thread. */
size_t pl_holders_kill(int fd, const char *name);
