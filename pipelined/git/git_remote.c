/* git_remote: chooses the transport by the scheme, and gives libgit2 the callbacks for keys, credentials and progress. The
 * first error of a callback is kept: libgit2 reports only that one failed. */
#include "pipelined/git/git_remote.h"

#include "pipelined/git/git_http.h"
#include "pipelined/git/git_ssh.h"

#include "storage/base/clock.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* libgit2 1.5 does not free what it reads of known hosts, some 60 bytes for each connection over ssh. */
#include <sanitizer/lsan_interface.h>
#define LEAKS_OF_LIBGIT2(call) call
#else
#define LEAKS_OF_LIBGIT2(call) (void)0
#endif

#define OBJECT_BYTES 512   /* an object that was read counts as that many bytes */
#define MESSAGES_MAX 10    /* messages of the server that count as progress */
#define MESSAGE_MS   30000 /* time between two of them */

struct pl_git_remote {
    git_remote *remote;
    struct pl_git_network *network;
    const struct pl_git_secret *secret;
    struct pl_git_address address;
    char user[256];
    struct pl_git_http http;
    git_remote_callbacks callbacks;
    struct pl_err why; /* error of a callback */
    size_t work;       /* done on the pack, in bytes */
    unsigned messages; /* of the server that counted as progress */
    int64_t told_ms;   /* when the last of them came */
    bool too_big, connected;
    bool offered; /* a key or password of the secret was used */
};

/* ---- callbacks ---- */

static void report(const struct pl_git_remote *r, size_t n)
{
    if (r->network->progress)
        r->network->progress(n);
}

static int on_progress(const git_indexer_progress *stats, void *self)
{
    struct pl_git_remote *r = self;
    /* after the last byte, deltas are resolved for a while: their number is bounded by the pack */
    const size_t work = stats->received_bytes + (size_t)OBJECT_BYTES * (stats->indexed_objects + stats->indexed_deltas);

    r->too_big = r->too_big || stats->received_bytes > PL_GIT_PACK_BYTES_MAX;
    report(r, work - PL_MIN(work, r->work));
    r->work = work;
    return r->too_big ? -1 : 0;
}

/* The server's own progress, which it sends while it prepares a pack; it gives a limited time. */
static int on_message(const char *text, int n, void *self)
{
    struct pl_git_remote *r = self;
    const int64_t now_ms = pl_clock_mono_ms();

    (void)text;
    (void)n;
    if (r->messages == MESSAGES_MAX || now_ms - r->told_ms < MESSAGE_MS)
        return 0;
    r->messages++;
    r->told_ms = now_ms;
    report(r, SIZE_MAX / 2); /* whatever counts as progress */
    return 0;
}

static int on_host_key(git_cert *cert, int valid, const char *host, void *self)
{
    struct pl_git_remote *r = self;

    (void)valid; /* libgit2's verdict from ~/.ssh/known_hosts: only the secret's known_hosts counts */
    (void)host;  /* an address */
    if (cert->cert_type != GIT_CERT_HOSTKEY_LIBSSH2)
        return -1;
    return pl_git_ssh_check_key(r->secret->known_hosts, r->address.host, r->address.port, (const git_cert_hostkey *)cert,
                                &r->why) < 0
               ? -1
               : 0;
}

static int on_credentials(git_credential **out, const char *url, const char *user, unsigned allowed, void *self)
{
    struct pl_git_remote *r = self;
    const struct pl_git_secret *s = r->secret;

    (void)url;
    (void)user;
    if (allowed & GIT_CREDENTIAL_USERNAME)
        return git_credential_username_new(out, r->user);
    if (r->offered) { /* libgit2 asks again and again */
        (void)pl_err_set(&r->why, PL_EAUTH, "the host %.200s refuses the %s of the source's secret for the user %.100s",
                         r->address.host, *s->ssh_key ? "key ssh_key" : "password", r->user);
        return -1;
    }
    r->offered = true;
    if (*s->ssh_key && (allowed & GIT_CREDENTIAL_SSH_MEMORY))
        return git_credential_ssh_key_memory_new(out, r->user, NULL, s->ssh_key, s->passphrase);
    if (*s->password && (allowed & GIT_CREDENTIAL_USERPASS_PLAINTEXT))
        return git_credential_userpass_plaintext_new(out, r->user, s->password);
    (void)pl_err_set(&r->why, PL_EAUTH,
                     "the host %.200s wants credentials: name a secret with the keys ssh_key and known_hosts in "
                     "the source's setting secret",
                     r->address.host);
    return -1;
}

static int on_transport(git_transport **out, git_remote *owner, void *self)
{
    struct pl_git_remote *r = self;

    return pl_git_http_transport(out, owner, &r->http);
}

/* ---- connections ---- */

/* Returns the error of a failed call: that of a callback, or what libgit2 says. */
static int fail(struct pl_git_remote *r, const char *what, struct pl_err *err)
{
    const struct pl_err *why = r->why.code ? &r->why : &r->http.err;

    if (r->too_big)
        return pl_err_set(err, PL_ETOOBIG, "the repository sends more than %llu GiB in one fetch", PL_GIT_PACK_BYTES_MAX >> 30);
    if (!why->code && r->offered && !r->connected) {
        const git_error *e = git_error_last();

        return pl_err_set(err, PL_EAUTH,
                          "cannot log in to the host %.200s with ssh_key and passphrase of the source's secret: %s",
                          r->address.host, e && e->message ? e->message : "git failed");
    }
    if (!why->code)
        return pl_git_fail(err, what);
    if (err)
        *err = *why;
    return why->code;
}

/* True if the local repository names folders with more objects: whoever writes there could name copies of other projects. */
static bool has_alternates(const char *path)
{
    char file[PATH_MAX];

    return (snprintf(file, sizeof file, "%s/objects/info/alternates", path) < (int)sizeof file && access(file, F_OK) == 0) ||
           (snprintf(file, sizeof file, "%s/.git/objects/info/alternates", path) < (int)sizeof file && access(file, F_OK) == 0);
}

/* Prepares what the scheme needs: the rules, and for ssh and git the address of the host. `ret_url`: to be freed. */
static int prepare(struct pl_git_remote *r, const char *url, char **ret_url, struct pl_err *err)
{
    const struct pl_git_address *a = &r->address;
    int e = pl_streq(a->scheme, "file") ? 0 : pl_outbound_check(r->network->outbound, a->scheme, a->host, "git", err);

    if (e < 0)
        return e;
    if (pl_streq(a->scheme, "ssh") && !*r->secret->known_hosts)
        return pl_err_set(
            err, PL_EAUTH,
            "%.200s: ssh needs a secret with the keys ssh_key and known_hosts, named in the source's setting secret", url);
    if (pl_streq(a->scheme, "ssh"))
        snprintf(r->user, sizeof r->user, "%s", *a->user ? a->user : *r->secret->username ? r->secret->username : "git");
    if (pl_streq(a->scheme, "ssh") || pl_streq(a->scheme, "git"))
        return pl_git_ssh_resolve(a, r->network->outbound, r->user, ret_url, err);
    if (pl_streq(a->scheme, "file") && has_alternates(a->path))
        return pl_err_set(err, PL_EINVAL,
                          "%.200s uses objects of another repository (objects/info/alternates), which is not followed", a->path);
    *ret_url = strdup(pl_streq(a->scheme, "file") ? a->path : url);
    return *ret_url ? 0 : pl_err_nomem(err);
}

static int connect_to(struct pl_git_remote *r, struct pl_err *err)
{
    git_proxy_options proxy = GIT_PROXY_OPTIONS_INIT;
    int e;

    proxy.type = GIT_PROXY_NONE;
    LEAKS_OF_LIBGIT2(__lsan_disable());
    e = git_remote_connect(r->remote, GIT_DIRECTION_FETCH, &r->callbacks, &proxy, NULL);
    LEAKS_OF_LIBGIT2(__lsan_enable());
    if (e < 0)
        return fail(r, "cannot reach the repository", err);
    r->connected = true;
    return 0;
}

int pl_git_remote_connect(git_repository *copy, const char *url, struct pl_git_network *network,
                          const struct pl_git_secret *secret, struct pl_git_remote **ret, struct pl_err *err)
{
    struct pl_git_remote *r = calloc(1, sizeof *r);
    _cleanup_free_ char *real = NULL;
    int e;

    if (!r)
        return pl_err_nomem(err);
    r->network = network;
    r->secret = secret;
    r->http = (struct pl_git_http){.network = network, .secret = secret};
    r->callbacks = (git_remote_callbacks)GIT_REMOTE_CALLBACKS_INIT;
    r->callbacks.payload = r;
    r->callbacks.transfer_progress = on_progress;
    r->callbacks.sideband_progress = on_message;
    r->callbacks.certificate_check = on_host_key;
    r->callbacks.credentials = on_credentials;
    e = pl_git_address_parse(url, &r->address, err);
    if (e == 0 && strncmp(r->address.scheme, "http", 4) == 0)
        r->callbacks.transport = on_transport;
    e = e < 0 ? e : prepare(r, url, &real, err);
    if (e == 0 && git_remote_create_anonymous(&r->remote, copy, real) < 0)
        e = pl_git_fail(err, "cannot use the address of the repository");
    if (e == 0)
        e = connect_to(r, err);
    if (e < 0) {
        pl_git_remote_destroy(r);
        return e;
    }
    *ret = r;
    return 0;
}

struct pl_git_remote *pl_git_remote_destroy(struct pl_git_remote *r)
{
    if (!r)
        return NULL;
    if (r->remote)
        git_remote_disconnect(r->remote);
    git_remote_free(r->remote);
    free(r);
    return NULL;
}

int pl_git_remote_list(struct pl_git_remote *r, const git_remote_head ***ret, size_t *ret_n, struct pl_err *err)
{
    return git_remote_ls(ret, ret_n, r->remote) < 0 ? fail(r, "cannot read the branches of the repository", err) : 0;
}

int pl_git_remote_fetch(struct pl_git_remote *r, const char *spec, struct pl_err *err)
{
    git_fetch_options options = GIT_FETCH_OPTIONS_INIT;
    char *specs[] = {(char *)(uintptr_t)spec};

    options.download_tags = GIT_REMOTE_DOWNLOAD_TAGS_NONE;
    options.update_fetchhead = 0;
    options.follow_redirects = GIT_REMOTE_REDIRECT_NONE;
    options.proxy_opts.type = GIT_PROXY_NONE;
    options.callbacks = r->callbacks;
    return git_remote_fetch(r->remote, &(git_strarray){specs, 1}, &options, NULL) < 0 ? fail(r, "cannot fetch the branch", err)
                                                                                      : 0;
}
