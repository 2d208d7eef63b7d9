/* git_remote: a connection to a repository: a local one through libgit2, one over https through libcurl (git_http), one over
 * ssh through libgit2 with the keys and known hosts of a secret (git_ssh). The rules of storage/http/outbound hold for each
 * connection. One thread. */
#pragma once

#include "pipelined/git/git_setup.h"
#include "pipelined/text/git_address.h"
#include "storage/http/outbound.h"

#define PL_GIT_PACK_BYTES_MAX (4ull << 30)  /* received by one fetch */
#define PL_GIT_REFS_BYTES_MAX (64ull << 20) /* of the list of references */

/* Credentials of a source, borrowed; "" = not given. */
struct pl_git_secret {
    const char *username, *password; /* a token is a password */
    const char *ssh_key, *passphrase;
    const char *known_hosts; /* as in the file of OpenSSH */
};

/* What a process needs for its connections. */
struct pl_git_network {
    const struct pl_outbound *outbound;
    struct pl_http_io *io; /* made with the first connection over https, and kept */
    /* called while a pack arrives, with the number of bytes received since the last call; may be NULL */
    void (*progress)(size_t n);
};

struct pl_git_remote;

/* Connects to the repository at `url`. `network` and `secret` must outlive the connection. PL_EINVAL: not an address;
 * PL_EFORBIDDEN: the rules exclude scheme, host or address; PL_EAUTH: the server refuses the credentials, or it needs some;
 * PL_ETLS: its key or certificate is not trusted; PL_ENOTFOUND: it has no such repository; PL_ENET, PL_ETIMEOUT, PL_EIO. */
PL_MUST_CHECK
int pl_git_remote_connect(git_repository *copy, const char *url, struct pl_git_network *network,
                          const struct pl_git_secret *secret, struct pl_git_remote **ret, struct pl_err *err);
/* NULL is allowed. Returns NULL. */
struct pl_git_remote *pl_git_remote_destroy(struct pl_git_remote *r);

/* Lists the references of the repository, which live as long as the connection. PL_EIO. */
PL_MUST_CHECK
int pl_git_remote_list(struct pl_git_remote *r, const git_remote_head ***ret, size_t *ret_n, struct pl_err *err);
/* Fetches what `spec` says ("+refs/heads/x:refs/y"). PL_ETOOBIG: more than PL_GIT_PACK_BYTES_MAX; errors of connect. */
PL_MUST_CHECK
int pl_git_remote_fetch(struct pl_git_remote *r, const char *spec, struct pl_err *err);
