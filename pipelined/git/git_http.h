/* git_http: git's smart protocol over https by libcurl, as a transport of libgit2, whose own has no time limits, follows any
 * redirect and cannot be told which addresses to connect to. */
#pragma once

#include "pipelined/git/git_remote.h"

#define PL_GIT_REDIRECTS_MAX 3u    /* of the first request; the others must not be redirected */
#define PL_GIT_STALL_MS      30000 /* time without a byte after which a request fails */

/* A repository, reached over https. Its errors are in `err`, as libgit2 passes on none. */
struct pl_git_http {
    struct pl_git_network *network;
    const struct pl_git_secret *secret;
    struct pl_err err; /* code 0 = none */
};

/* Makes a transport; a git_transport_cb whose `self` is a struct pl_git_http, which must outlive the transport. */
int pl_git_http_transport(git_transport **out, git_remote *owner, void *self);
