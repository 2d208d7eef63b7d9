/* this_host: names and addresses by which a program reaches its own machine, and no other. Pure; any thread. */
#pragma once

#include <stdbool.h>

/* Whether "HOST", "HOST:PORT" or "HOST/…" is this machine: localhost and what ends with it, 127.0.0.0/8, [::1]. A name that only begins so
 * ("127.example.org") is somebody else's. */
bool pl_is_loopback_host(const char *host);
