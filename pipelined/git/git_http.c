/* git_http: a request of libgit2 is one exchange of http_io, whose response comes through a pipe: the I/O thread writes it,
 * and libgit2 reads it when it wants. A full pipe makes the server wait.
 *
 *   LS:   GET  BASE/info/refs?service=git-upload-pack    may be redirected; BASE is then the new one
 *   PACK: POST BASE/git-upload-pack                      a round of the negotiation, and the pack */
#include "pipelined/git/git_http.h"

#include "storage/base/hash.h"
#include "storage/http/http_io.h"

#include <fcntl.h>
#include <git2/sys/transport.h>
#include <semaphore.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#define REFS       "/info/refs?service=git-upload-pack"
#define PACK       "/git-upload-pack"
#define FIRST_LINE "001e# service=git-upload-pack"

struct subtransport {
    git_smart_subtransport parent;
    struct pl_git_http *http;
    char *base;          /* the repository's URL, without a slash at its end */
    bool foreign;        /* a redirect led to another host, which does not get the credentials */
    uint64_t bytes_left; /* that may still be received */
};

struct stream {
    git_smart_subtransport_stream parent;
    struct subtransport *of;
    bool post;
    struct pl_buf request; /* body of a POST */
    char *url, *authorization;
    const char *headers[5];
    struct iovec body;
    struct pl_http_exchange x;
    atomic_bool cancel;
    sem_t answered, ended; /* the head of a response that is not refused was received; the exchange is over */
    bool is_answered;
    int in, out;        /* the pipe: the I/O thread writes to `out` */
    bool started, read; /* `read`: something of the response was read */
};

/* ---- the exchange, on the I/O thread ---- */

static void on_begin(void *self)
{
    struct stream *s = self;

    s->is_answered = true;
    sem_post(&s->answered);
}

static int on_bytes(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct stream *s = self;
    const char *at = data;

    if (n > s->of->bytes_left)
        return pl_err_set(err, PL_ETOOBIG, "the server sends too much: a list of branches may have %llu MiB, a pack %llu GiB",
                          PL_GIT_REFS_BYTES_MAX >> 20, PL_GIT_PACK_BYTES_MAX >> 30);
    s->of->bytes_left -= n;
    while (n > 0) {
        const ssize_t done = write(s->out, at, n);

        if (done < 0 && errno != EINTR)
            return pl_err_set(err, PL_ECANCELED, "the response is not wanted any more");
        at += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

static void on_done(struct pl_http_exchange *x)
{
    struct stream *s = x->arg;

    close(s->out);
    s->out = -1;
    if (!s->is_answered)
        sem_post(&s->answered);
    sem_post(&s->ended);
}

/* ---- a request ---- */

static int make_authorization(struct stream *s, struct pl_err *err)
{
    const struct pl_git_secret *secret = s->of->http->secret;
    _cleanup_(pl_buf_finish) struct pl_buf both = {0};
    char *text = NULL;
    int r;

    if (s->of->foreign || !*secret->password)
        return 0;
    r = pl_buf_addf(&both, err, "%s:%s", *secret->username ? secret->username : "git", secret->password);
    r = r < 0 ? r : pl_base64_encode(both.data, both.len, &text, err);
    if (r == 0 && asprintf(&s->authorization, "Authorization: Basic %s", text) < 0) {
        s->authorization = NULL;
        r = pl_err_nomem(err);
    }
    if (both.data)
        explicit_bzero(both.data, both.len);
    free(text);
    return r;
}

/* Starts the exchange for the stream's URL and waits for the head of the response. */
static int start(struct stream *s, struct pl_err *err)
{
    struct pl_git_network *network = s->of->http->network;
    const char *ca = pl_outbound_settings_of(network->outbound)->ca;
    const struct pl_http_io_config config = {.connections = 1,
                                             .ca = *ca ? ca : NULL,
                                             .no_proxy = true,
                                             .may_connect = pl_outbound_may_connect,
                                             .connect_self = network->outbound};
    size_t n = 0;
    int fds[2], r = network->io ? 0 : pl_http_io_create(&config, &network->io, err);

    r = r < 0 ? r : make_authorization(s, err);
    if (r < 0)
        return r;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return pl_err_errno(err, errno, "pipe");
    s->in = fds[0];
    s->out = fds[1];
    s->headers[n++] = "User-Agent: git/2.0 (pipelined)";
    if (s->post) {
        s->headers[n++] = "Content-Type: application/x-git-upload-pack-request";
        s->headers[n++] = "Accept: application/x-git-upload-pack-result";
    }
    if (s->authorization)
        s->headers[n++] = s->authorization;
    s->headers[n] = NULL;
    s->body = (struct iovec){.iov_base = s->request.data, .iov_len = s->request.len};
    s->of->bytes_left = s->post ? PL_GIT_PACK_BYTES_MAX : PL_GIT_REFS_BYTES_MAX;
    s->x = (struct pl_http_exchange){.method = s->post ? "POST" : "GET",
                                     .url = s->url,
                                     .headers = s->headers,
                                     .body = &s->body,
                                     .n_body = s->post ? 1 : 0,
                                     .has_body = s->post,
                                     .stall_ms = PL_GIT_STALL_MS,
                                     .cancel = &s->cancel,
                                     .write = on_bytes,
                                     .begins = on_begin,
                                     .write_self = s,
                                     .done = on_done,
                                     .arg = s};
    s->started = true;
    s->is_answered = false;
    pl_http_io_submit(network->io, &s->x);
    while (sem_wait(&s->answered) < 0 && errno == EINTR)
        ;
    return 0;
}

static void forget_authorization(struct stream *s)
{
    if (s->authorization)
        explicit_bzero(s->authorization, strlen(s->authorization));
    free(TAKE_PTR(s->authorization));
}

/* Ends the exchange, if one was started, and waits for its end. The stream can then start another. */
static void stop(struct stream *s)
{
    if (!s->started)
        return;
    atomic_store(&s->cancel, true);
    pl_closep(&s->in);
    s->in = -1;
    pl_http_io_wake(s->of->http->network->io);
    while (sem_wait(&s->ended) < 0 && errno == EINTR)
        ;
    pl_buf_finish(&s->x.problem);
    forget_authorization(s);
    atomic_store(&s->cancel, false);
    s->started = false;
}

/* The error of an exchange that ended without a response, or with one that refuses. */
static int failure(const struct stream *s, struct pl_err *err)
{
    const bool had = *s->of->http->secret->password != '\0';
    const struct pl_http_exchange *x = &s->x;

    if (x->status == 0)
        return pl_err_set(err, x->err.code == PL_EUNAVAILABLE ? PL_ETLS : x->err.code, "%.300s: %s", s->of->base, x->err.msg);
    if (x->status == 401 || x->status == 403)
        return pl_err_set(err, PL_EAUTH,
                          had ? "%.300s: the server refuses the token or password of the source's secret (status %u)"
                              : "%.300s: the server wants credentials (status %u): name a secret with the key token in the "
                                "source's setting secret",
                          s->of->base, x->status);
    if (x->status == 404 || x->status == 410)
        return pl_err_set(err, PL_ENOTFOUND, "%.300s: the server has no such repository%s", s->of->base,
                          had ? "" : ", or shows it only to those with credentials");
    return pl_err_set(err, PL_EIO, "%.300s: the server answers with status %u", s->of->base, x->status);
}

/* Makes the location of a redirect the base, if the rules allow it. */
static int follow_redirect(struct stream *s, struct pl_err *err)
{
    struct subtransport *t = s->of;
    struct pl_git_address from, to;
    const char *location = s->x.location;
    const size_t len = strlen(location);
    char *base = NULL;
    int r = pl_git_address_parse(t->base, &from, err);

    if (r < 0)
        return r;
    if (len <= sizeof REFS - 1 || strcmp(location + len - (sizeof REFS - 1), REFS) != 0)
        return pl_err_set(err, PL_EIO, "%.300s: the server redirects to %.300s, which is no repository", t->base, location);
    if (*location == '/'
            ? asprintf(&base, "%.*s%.*s", (int)(from.path - t->base), t->base, (int)(len - (sizeof REFS - 1)), location) < 0
            : !(base = strndup(location, len - (sizeof REFS - 1))))
        return pl_err_nomem(err);
    r = pl_git_address_parse(base, &to, err);
    if (r == 0 && strncmp(to.scheme, "http", 4) != 0)
        r = pl_err_set(err, PL_EFORBIDDEN, "a redirect to %s: is not followed", to.scheme);
    if (r == 0 && pl_streq(from.scheme, "https") && !pl_streq(to.scheme, "https"))
        r = pl_err_set(err, PL_EFORBIDDEN, "a redirect from https to http is not followed");
    r = r < 0 ? r : pl_outbound_check(t->http->network->outbound, to.scheme, to.host, "git", err);
    if (r < 0) {
        r = pl_err_wrap(err, r, "%.300s redirects to %.300s", t->base, location);
        free(base);
        return r;
    }
    t->foreign = t->foreign || !pl_streq(to.scheme, from.scheme) || strcasecmp(to.host, from.host) != 0 || to.port != from.port;
    free(t->base);
    t->base = base;
    return 0;
}

/* Asks until the response is not a redirect. */
static int ask(struct stream *s, struct pl_err *err)
{
    for (unsigned redirects = 0;; redirects++) {
        int r;

        free(TAKE_PTR(s->url));
        if (asprintf(&s->url, "%s%s", s->of->base, s->post ? PACK : REFS) < 0) {
            s->url = NULL;
            return pl_err_nomem(err);
        }
        r = start(s, err);
        if (r < 0 || s->is_answered)
            return r;
        if (s->post || s->x.status / 100 != 3 || !*s->x.location)
            return failure(s, err);
        if (redirects == PL_GIT_REDIRECTS_MAX)
            return pl_err_set(err, PL_EIO, "%.300s: the server redirects more than %u times", s->of->base, PL_GIT_REDIRECTS_MAX);
        stop(s);
        r = follow_redirect(s, err);
        if (r < 0)
            return r;
    }
}

/* ---- streams of libgit2 ---- */

/* Fails unless a list of references begins as the smart protocol requires. */
static int check_first(const struct stream *s, const char *bytes, size_t n, struct pl_err *err)
{
    if (s->post || s->read || strncmp(bytes, FIRST_LINE, PL_MIN(n, sizeof FIRST_LINE - 1)) == 0)
        return 0;
    return pl_err_set(err, PL_EIO,
                      "%.300s: the answer is not one of git's smart protocol: this is not the address of a repository",
                      s->of->base);
}

static int stream_read(git_smart_subtransport_stream *stream, char *buffer, size_t size, size_t *ret_n)
{
    struct stream *s = (struct stream *)stream;
    struct pl_err *err = &s->of->http->err;
    ssize_t n = -1;
    int r = s->started ? 0 : ask(s, err);

    *ret_n = 0;
    if (r == 0)
        while ((n = read(s->in, buffer, size)) < 0 && errno == EINTR)
            ;
    if (r == 0 && n < 0)
        r = pl_err_errno(err, errno, "read");
    if (r == 0 && n > 0)
        r = check_first(s, buffer, (size_t)n, err);
    if (r == 0 && n == 0) { /* the end, or an error in the middle */
        while (sem_wait(&s->ended) < 0 && errno == EINTR)
            ;
        sem_post(&s->ended);
        if (s->x.status == 0)
            r = failure(s, err);
    }
    if (r < 0)
        return -1;
    s->read = true;
    *ret_n = (size_t)n;
    return 0;
}

static int stream_write(git_smart_subtransport_stream *stream, const char *bytes, size_t n)
{
    struct stream *s = (struct stream *)stream;

    return pl_buf_add(&s->request, bytes, n, &s->of->http->err) < 0 ? -1 : 0;
}

static void stream_free(git_smart_subtransport_stream *stream)
{
    struct stream *s = (struct stream *)stream;

    stop(s);
    forget_authorization(s);
    sem_destroy(&s->answered);
    sem_destroy(&s->ended);
    pl_buf_finish(&s->request);
    free(s->url);
    free(s);
}

/* ---- the transport ---- */

static int on_action(git_smart_subtransport_stream **out, git_smart_subtransport *transport, const char *url,
                     git_smart_service_t action)
{
    struct subtransport *t = (struct subtransport *)transport;
    struct stream *s = calloc(1, sizeof *s);
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/')
        len--;
    if (!t->base)
        t->base = strndup(url, len);
    if (!s || !t->base) {
        free(s);
        (void)pl_err_nomem(&t->http->err);
        return -1;
    }
    s->parent = (git_smart_subtransport_stream){
        .subtransport = transport, .read = stream_read, .write = stream_write, .free = stream_free};
    s->of = t;
    s->post = action == GIT_SERVICE_UPLOADPACK;
    s->in = s->out = -1;
    s->request.max = 64u << 20;
    sem_init(&s->answered, 0, 0);
    sem_init(&s->ended, 0, 0);
    *out = &s->parent;
    return 0;
}

static int on_close(git_smart_subtransport *transport)
{
    (void)transport;
    return 0;
}

static void on_free(git_smart_subtransport *transport)
{
    struct subtransport *t = (struct subtransport *)transport;

    free(t->base);
    free(t);
}

static int make_subtransport(git_smart_subtransport **out, git_transport *owner, void *self)
{
    struct subtransport *t = calloc(1, sizeof *t);

    (void)owner;
    if (!t)
        return -1;
    t->parent = (git_smart_subtransport){.action = on_action, .close = on_close, .free = on_free};
    t->http = self;
    *out = &t->parent;
    return 0;
}

int pl_git_http_transport(git_transport **out, git_remote *owner, void *self)
{
    git_smart_subtransport_definition definition = {.callback = make_subtransport, .rpc = 1, .param = self};

    return git_transport_smart(out, owner, &definition);
}
