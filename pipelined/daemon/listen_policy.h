/* listen: which addresses a listener may have: beyond this machine only with TLS, or behind a proxy that was said to be there. */
#pragma once

#include "storage/base/err.h"

/* Whether nobody but this machine reaches "HOST:PORT". */
bool pl_listen_policy_is_loopback(const char *listen);
/* PL_EINVAL: beyond loopback with neither; names the option ("--listen") and what to do. */
PL_MUST_CHECK
int pl_listen_policy_check(const char *option, const char *listen, bool tls, bool behind_proxy, struct pl_err *err);
