/* unix_listen: a socket in a folder whose name may be longer than a socket's address holds. Any thread. */
#pragma once

#include "storage/base/err.h"

/* Listens at FOLDER/NAME, which everyone who sees the folder may connect to; *ret is not blocking. What lies there already goes. PL_EIO … */
PL_MUST_CHECK
int pl_unix_socket_listen(const char *folder, const char *name, int backlog, int *ret, struct pl_err *err);
