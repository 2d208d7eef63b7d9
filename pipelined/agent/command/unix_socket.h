/* unix_socket: listens on a unix socket in a folder whose path may be longer than a socket address allows.
 * Any thread. */
#pragma once

#include "storage/base/err.h"

/* Listens at FOLDER/NAME, after removing any file of that name. Every user that can reach the folder may
 * connect. `*ret` is a non-blocking descriptor that the caller closes. PL_EIO and other codes of errno. */
PL_MUST_CHECK
int pl_unix_socket_listen(const char *folder, const char *name, int backlog, int *ret, struct pl_err *err);
