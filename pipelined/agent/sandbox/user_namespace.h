/* userns: a user namespace for the sandboxes of an agent that is root: the capabilities that a command has hold in it alone, and nothing that
 * it finds in the kernel is asked for a privilege over the machine. All users are in it as they are outside, so that files may be owned by
 * any of them, as tar and installers want it. */
#pragma once

#include "storage/base/err.h"

/* The namespace, close-on-exec, for bwrap's --userns; the caller closes it. -1: none, for the agent is not root (bubblewrap makes one of its
 * own then), or this machine gives none that bubblewrap can use, which is asked once and logged: then root's capabilities stay cut to those of
 * files. Any thread. */
int pl_userns_open(void);
