/* loopback_host: recognizes the names and addresses that always mean this machine. Pure; any thread. */
#pragma once

#include <stdbool.h>

/* Returns true if "HOST", "HOST:PORT" or "HOST/…" is this machine: localhost, names that end in ".localhost",
 * 127.0.0.0/8, [::1]. A name such as "127.example.org" is a different host. */
bool pl_is_loopback_host(const char *host);
