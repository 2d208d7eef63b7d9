/* listen_policy: a listener may be reachable from other machines only with TLS, or behind a proxy that the
 * operator has declared. */
#pragma once

#include "storage/base/err.h"

/* True if "HOST:PORT" can be reached only from this machine. */
bool pl_listen_policy_is_loopback(const char *listen);
/* Checks the address of a listener. PL_EINVAL: other machines could reach the address, and there is neither
 * TLS nor a proxy; the message names the option ("--listen") and says what to do. */
PL_MUST_CHECK
int pl_listen_policy_check(const char *option, const char *listen, bool tls, bool behind_proxy, struct pl_err *err);
