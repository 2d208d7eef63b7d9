/* outbound: which servers the daemon may connect to for its users: those of git repositories, and receivers of
 * notifications. Without a rule a user could reach what only the daemon's machine reaches: services on loopback, machines
 * of the private network, the metadata of a cloud. Pure; any thread. */
#pragma once

#include "storage/base/err.h"
#include "storage/http/ip_network.h"

#define PL_OUTBOUND_ENTRIES_MAX 64u /* of each list */

struct pl_outbound_settings {
    const char *schemes;  /* "https,ssh" */
    const char *hosts;    /* "*", or names separated by commas: "github.com,*.example.org" */
    const char *networks; /* networks allowed beside the public addresses: "10.0.0.0/8,fd00::/8" */
    const char *ca;       /* file of certificates (PEM) trusted instead of the machine's; "" = none */
};

struct pl_outbound;

/* Reads the settings. PL_EINVAL: names the setting outbound.* and the entry; PL_ELIMIT. */
PL_MUST_CHECK
int pl_outbound_create(const struct pl_outbound_settings *settings, struct pl_outbound **ret, struct pl_err *err);
/* NULL is allowed. Returns NULL. */
struct pl_outbound *pl_outbound_destroy(struct pl_outbound *o);

/* Checks what a URL names; `field` is the field of the error. PL_EFORBIDDEN: says which setting excludes it. */
PL_MUST_CHECK
int pl_outbound_check(const struct pl_outbound *o, const char *scheme, const char *host, const char *field, struct pl_err *err);
/* True if a connection to the address is allowed: it is public, or lies in one of the networks of the settings. Call it
 * with the address that a name resolved to, when the connection is made. */
bool pl_outbound_allows(const struct pl_outbound *o, const struct sockaddr *address);
/* The same as an error: PL_EFORBIDDEN names the address and the setting. `self`: the pl_outbound (http_io.h, may_connect). */
PL_MUST_CHECK
int pl_outbound_may_connect(const void *self, const struct sockaddr *address, struct pl_err *err);
/* Returns the settings, for a process that has to keep the same rules. */
const struct pl_outbound_settings *pl_outbound_settings_of(const struct pl_outbound *o);
