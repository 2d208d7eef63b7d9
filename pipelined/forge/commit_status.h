/* commit_status: the request that tells a server of repositories whether a commit is good. One POST of JSON, by one row of a
 * table for each kind of server. Pure; any thread.
 *
 *   github   https://api.github.com/repos/OWNER/REPO/statuses/SHA, or https://HOST/api/v3/… elsewhere than github.com
 *   gitlab   https://HOST/api/v4/projects/PATH, with %2F for each slash/statuses/SHA
 *   gitea    https://HOST[/PREFIX]/api/v1/repos/OWNER/REPO/statuses/SHA, also Forgejo
 *
 * Scheme, host and port are those of the repository. Its path says OWNER and REPO. */
#pragma once

#include "pipelined/text/git_address.h"
#include "storage/base/buf.h"

#define PL_STATUS_KINDS     "github, gitlab, gitea or off"
#define PL_STATUS_URL_MAX   4096u
#define PL_STATUS_TOKEN_MAX 4096u
#define PL_STATUS_HEADERS   6u

enum pl_status_kind { PL_STATUS_OFF, PL_STATUS_GITHUB, PL_STATUS_GITLAB, PL_STATUS_GITEA };

/* Reads a setting `status`; "" is "off". PL_EINVAL. */
PL_MUST_CHECK
int pl_status_kind_parse(const char *text, enum pl_status_kind *ret, struct pl_err *err);

/* What to tell; borrowed. */
struct pl_commit_status {
    enum pl_status_kind kind; /* not PL_STATUS_OFF */
    const char *git;          /* address of the repository */
    const char *commit;       /* full id */
    bool good;
    const char *context; /* names what checked the commit */
    const char *text;    /* cut where the server does not take more */
    const char *target;  /* URL of a page about it, "" = none */
    const char *token;
};

struct pl_status_request {
    char url[PL_STATUS_URL_MAX];
    char authorization[PL_STATUS_TOKEN_MAX + 32];
    const char *headers[PL_STATUS_HEADERS]; /* "Name: value", terminated by NULL; point into the request */
    char *body;                             /* JSON; malloc'ed */
};

/* Makes the URL of the request, at least PL_STATUS_URL_MAX bytes. PL_EINVAL: the address is not http or https, or its path does not name
 * a repository of such a server; the error has the field "status". */
PL_MUST_CHECK
int pl_commit_status_url(enum pl_status_kind kind, const char *git, const char *commit, char *ret, struct pl_err *err);
/* Makes the request in `ret`, which must not move. PL_EINVAL: as above, or the token is not one line of printable ASCII. Release it
 * with pl_status_request_finish, which also erases the token. */
PL_MUST_CHECK
int pl_commit_status_make(const struct pl_commit_status *s, struct pl_status_request *ret, struct pl_err *err);
void pl_status_request_finish(struct pl_status_request *r);
/* True if the answer says that the server has the status: GitLab refuses to set again the state that a commit has. */
bool pl_commit_status_taken(enum pl_status_kind kind, unsigned http_status, const char *answer, size_t len);
