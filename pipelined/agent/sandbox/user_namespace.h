/* user_namespace: a user namespace for the sandboxes of an agent that runs as root. A command has
 * capabilities only in this namespace, so the kernel grants it no privilege over the machine. All user ids
 * are mapped to themselves, so that files may be owned by any user, as tar and installers require. */
#pragma once

#include "storage/base/err.h"

/* Makes a namespace for bwrap's --userns, as a close-on-exec descriptor that the caller closes. -1: none,
 * either because the agent is not root (then bubblewrap makes its own), or because bubblewrap cannot use one
 * on this machine. The latter is tested once and logged; root's capabilities are then limited to those for
 * files. Any thread. */
int pl_userns_open(void);
