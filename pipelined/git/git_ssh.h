/* git_ssh: names and keys of hosts for connections that libgit2 makes itself (ssh, git). */
#pragma once

#include "pipelined/git/git_remote.h"

/* Finds an address of the host that the rules allow, and writes the URL with it in place of the host to `ret` (to be freed),
 * so that no later look-up of the name gives another one. PL_EFORBIDDEN: none is allowed; PL_ENET: the name is unknown. */
PL_MUST_CHECK
int pl_git_ssh_resolve(const struct pl_git_address *address, const struct pl_outbound *outbound, const char *user, char **ret,
                       struct pl_err *err);
/* Checks a host's key against the known hosts. PL_ETLS: it is not there, or another one is: the message has the key's
 * type and fingerprint. PL_EINVAL: a line of `known_hosts` cannot be read. */
PL_MUST_CHECK
int pl_git_ssh_check_key(const char *known_hosts, const char *host, unsigned port, const git_cert_hostkey *key,
                         struct pl_err *err);
