/* kube_identity.c: builds the headers, certificates and route of requests from the kubeconfig, and replaces
 * them when a token file or a plugin's credential changes. Requests in progress keep their reference to the
 * old ones. */
#include "pipelined/kube/client/kube_identity.h"

#include "pipelined/kube/client/kube_exec_plugin.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define FAILED_MS 5000 /* ms after a failed run of the plugin before it is run again */

struct pl_kube_identity {
    struct pl_kubeconfig config;
    void (*changed)(void *arg);
    void *arg;
    char *base;
    struct pl_kube_auth *auth; /* current credentials; NULL = none so far */
    int64_t read_ms;           /* monotonic time at which the token file was last read */
    /* State of the credential plugin. */
    pthread_t thread;
    bool threaded; /* `thread` must be joined */
    int stop_fd;
    pthread_mutex_t lock;
    /* Under `lock`. running: the plugin runs; fresh: `credential` or `failure` holds a result not used so
     * far. */
    bool running, fresh;
    struct pl_kube_credential credential;
    int64_t until_s; /* expiry of the current credential, seconds since 1970 */
    struct pl_err failure;
    int64_t failed_ms;
};

/* ---- credentials of a request ---- */

void pl_kube_auth_unref(struct pl_kube_auth *a)
{
    if (a == NULL || atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    for (size_t i = 0; i < PL_ARRAY_SIZE(a->fds_); i++)
        pl_closep(&a->fds_[i]);
    for (size_t i = 0; i < PL_ARRAY_SIZE(a->texts_); i++)
        free(a->texts_[i]);
    if (a->authorization != NULL)
        explicit_bzero(a->authorization, strlen(a->authorization));
    free(a->authorization);
    free(a->host);
    free(a);
}

/* Writes a text to an anonymous memory file. Returns its path under /proc/self/fd, which only this process
 * can open. */
static int memory_file(const char *text, int *ret_fd, char **ret_path, struct pl_err *err)
{
    _cleanup_close_ int fd = memfd_create("pem", MFD_CLOEXEC);
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "cannot create a memory file");
    r = pl_io_write(fd, text, strlen(text), "a memory file", err);
    if (r < 0)
        return r;
    if (asprintf(ret_path, "/proc/self/fd/%d", fd) < 0) {
        *ret_path = NULL;
        return pl_err_nomem(err);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int set_pem(struct pl_kube_auth *a, size_t i, const char *data, const char *file, const char **ret, struct pl_err *err)
{
    if (data == NULL && file == NULL)
        return 0;
    if (data != NULL) {
        int r = memory_file(data, &a->fds_[i], &a->texts_[i], err);

        if (r < 0)
            return r;
    } else {
        a->texts_[i] = strdup(file);
    }
    *ret = a->texts_[i];
    return *ret != NULL ? 0 : pl_err_nomem(err);
}

/* Returns the start of "host:port" in "https://host:port/…", and its length. */
static const char *authority_of(const char *server, size_t *ret_len)
{
    const char *host = strstr(server, "://") + 3;

    *ret_len = strcspn(host, "/");
    return host;
}

/* Returns the port of "host:port", or the default port of the URL's scheme, and the host's length. */
static const char *port_of(const char *server, const char *host, size_t len, size_t *ret_host_len)
{
    const char *colon = memrchr(host, ':', len), *bracket = memrchr(host, ']', len);

    if (colon == NULL || (bracket != NULL && colon < bracket)) {
        *ret_host_len = len;
        return strncasecmp(server, "https", 5) == 0 ? "443" : "80";
    }
    *ret_host_len = (size_t)(colon - host);
    return colon + 1;
}

/* Implements tls-server-name: request URLs contain that name, so that the server's certificate is checked
 * against it, but connections go to the host of the kubeconfig's server. */
static int set_other_name(const struct pl_kubeconfig *c, struct pl_kube_auth *a, struct pl_err *err)
{
    size_t len, host_len, port_len;
    const char *host = authority_of(c->server, &len), *port = port_of(c->server, host, len, &host_len);

    port_len = strcspn(port, "/");
    if (asprintf(&a->texts_[3], "::%.*s:%.*s", (int)host_len, host, (int)port_len, port) < 0) {
        a->texts_[3] = NULL;
        return pl_err_nomem(err);
    }
    if (asprintf(&a->host, "Host: %.*s", (int)len, host) < 0) {
        a->host = NULL;
        return pl_err_nomem(err);
    }
    a->route.connect_to = a->texts_[3];
    return 0;
}

/* True if the server is on this machine, so that no proxy is used. */
static bool is_here(const char *server)
{
    static const char *const hosts[] = {"localhost", "127.", "[::1]"};
    const char *host = strstr(server, "://") + 3;

    for (size_t i = 0; i < PL_ARRAY_SIZE(hosts); i++)
        if (strncasecmp(host, hosts[i], strlen(hosts[i])) == 0)
            return true;
    return false;
}

/* Sets certificates, key, server name and proxy. A plugin's certificate replaces the kubeconfig's. */
static int set_route(const struct pl_kubeconfig *c, const struct pl_kube_credential *given, struct pl_kube_auth *a,
                     struct pl_err *err)
{
    const bool own = given != NULL && given->cert != NULL;
    int r;

    a->route.insecure = c->insecure;
    a->route.keepalive_s = 30;
    r = set_pem(a, 0, c->ca_data, c->ca_file, &a->route.ca, err);
    if (r == 0)
        r = set_pem(a, 1, own ? given->cert : c->cert_data, own ? NULL : c->cert_file, &a->route.cert, err);
    if (r == 0)
        r = set_pem(a, 2, own ? given->key : c->key_data, own ? NULL : c->key_file, &a->route.key, err);
    if (r == 0 && c->tls_server_name != NULL)
        r = set_other_name(c, a, err);
    if (r == 0 && c->proxy_url != NULL) {
        a->texts_[4] = strdup(c->proxy_url);
        a->route.proxy = a->texts_[4];
        r = a->texts_[4] != NULL ? 0 : pl_err_nomem(err);
    } else if (r == 0 && is_here(c->server)) {
        a->route.proxy = "";
    }
    return r;
}

/* Makes the Authorization header from a token, or else from user name and password. */
static int set_authorization(const struct pl_kubeconfig *c, const char *token, struct pl_kube_auth *a, struct pl_err *err)
{
    _cleanup_free_ char *pair = NULL, *base64 = NULL;

    for (const char *at = token != NULL ? token : ""; *at != '\0'; at++)
        /* refuse control characters: a line break would start another header */
        if (*at <= ' ' || *at == 0x7f)
            return pl_err_set(err, PL_EAUTH, "the token for %s contains blanks or control characters", c->server);
    if (token != NULL) {
        if (asprintf(&a->authorization, "Authorization: Bearer %s", token) >= 0)
            return 0;
        a->authorization = NULL;
        return pl_err_nomem(err);
    }
    if (c->username == NULL)
        return 0;
    if (asprintf(&pair, "%s:%s", c->username, c->password != NULL ? c->password : "") < 0 ||
        pl_base64_encode(pair, strlen(pair), &base64, NULL) < 0 ||
        asprintf(&a->authorization, "Authorization: Basic %s", base64) < 0) {
        a->authorization = NULL;
        return pl_err_nomem(err);
    }
    return 0;
}

/* Replaces the current credentials. */
static int make_auth(struct pl_kube_identity *id, const char *token, const struct pl_kube_credential *given, struct pl_err *err)
{
    struct pl_kube_auth *a = calloc(1, sizeof(*a));
    int r;

    if (a == NULL)
        return pl_err_nomem(err);
    atomic_init(&a->refs, 1);
    for (size_t i = 0; i < PL_ARRAY_SIZE(a->fds_); i++)
        a->fds_[i] = -1;
    r = set_authorization(&id->config, token, a, err);
    if (r == 0)
        r = set_route(&id->config, given, a, err);
    if (r < 0) {
        pl_kube_auth_unref(a);
        return r;
    }
    pl_kube_auth_unref(id->auth);
    id->auth = a;
    return 0;
}

/* ---- tokens in files ---- */

/* Reads a token: one line without blanks, because a line break would start another header. */
static int read_token(const char *path, struct pl_buf *out, struct pl_err *err)
{
    int r;

    out->max = PL_KUBE_TOKEN_MAX;
    r = pl_io_read_file(path, out, err);
    if (r < 0)
        return pl_err_wrap(err, PL_EAUTH, "cannot read the token for the cluster");
    while (out->len > 0 && isspace(out->data[out->len - 1]))
        out->len--;
    for (size_t i = 0; i < out->len; i++)
        if (out->data[i] <= ' ' || out->data[i] == 0x7f)
            return pl_err_set(err, PL_EAUTH, "%s contains more than one token", path);
    if (out->len == 0)
        return pl_err_set(err, PL_EAUTH, "%s contains no token", path);
    return pl_buf_str(out) != NULL ? 0 : pl_err_nomem(err);
}

static bool is_in_force(const struct pl_kube_identity *id, const char *token)
{
    const char *now = id->auth != NULL ? id->auth->authorization : NULL;

    return now != NULL && pl_streq(strrchr(now, ' ') + 1, token);
}

/* Reads the token file again. If that fails, the current credentials stay. */
static int reread_token(struct pl_kube_identity *id, int64_t now_ms, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf token = {0};
    const char *text;
    int r = read_token(id->config.token_file, &token, err);

    id->read_ms = now_ms;
    if (r < 0 && id->auth != NULL)
        return 0;
    if (r < 0 && id->config.token == NULL)
        return r;
    text = r < 0 ? id->config.token : (const char *)token.data;
    r = is_in_force(id, text) ? 0 : make_auth(id, text, NULL, err);
    if (token.data != NULL)
        explicit_bzero(token.data, token.len);
    return r;
}

/* ---- plugins ---- */

static void *run_plugin(void *arg)
{
    struct pl_kube_identity *id = arg;
    struct pl_kube_credential c = {0};
    struct pl_err err = {0};
    const int r = pl_kube_exec_run(&id->config, PL_KUBE_PLUGIN_MS, id->stop_fd, &c, &err);

    pthread_mutex_lock(&id->lock);
    pl_kube_credential_finish(&id->credential);
    id->credential = c;
    id->failure = err;
    id->failure.code = r;
    id->fresh = true;
    id->running = false;
    pthread_mutex_unlock(&id->lock);
    id->changed(id->arg);
    return NULL;
}

static void join_plugin(struct pl_kube_identity *id)
{
    if (id->threaded)
        pthread_join(id->thread, NULL);
    id->threaded = false;
}

/* Starts the plugin on a thread of its own. Returns PL_EBUSY if that succeeded, because no credentials are
 * available until the plugin has ended. */
static int start_plugin(struct pl_kube_identity *id, struct pl_err *err)
{
    sigset_t all, old;
    int failed;

    join_plugin(id);
    pthread_mutex_lock(&id->lock);
    id->running = true;
    pthread_mutex_unlock(&id->lock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&id->thread, NULL, run_plugin, id);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    id->threaded = failed == 0;
    if (failed == 0)
        return PL_EBUSY;
    pthread_mutex_lock(&id->lock);
    id->running = false;
    pthread_mutex_unlock(&id->lock);
    return pl_err_errno(err, failed, "cannot start a thread for the plugin %s of the kubeconfig", id->config.plugin->command);
}

/* Applies the result of a plugin run that has ended since the last call, if there is one. Returns PL_EBUSY
 * while the plugin runs. */
static int take_news(struct pl_kube_identity *id, int64_t now_ms, struct pl_err *err)
{
    int r = 0;

    pthread_mutex_lock(&id->lock);
    if (id->running) {
        r = PL_EBUSY;
    } else if (id->fresh) {
        id->fresh = false;
        id->failed_ms = id->failure.code < 0 ? now_ms : 0;
        if (id->failure.code == 0) {
            id->until_s = PL_MAX(id->credential.until_s, pl_clock_wall_us() / 1000000 + PL_KUBE_EARLY_S + PL_KUBE_SKEWED_S);
            r = make_auth(id, id->credential.token, &id->credential, err);
        }
    }
    pthread_mutex_unlock(&id->lock);
    return r;
}

static int get_from_plugin(struct pl_kube_identity *id, int64_t now_ms, struct pl_err *err)
{
    int r = take_news(id, now_ms, err);

    if (r < 0)
        return r;
    if (id->auth != NULL && pl_clock_wall_us() / 1000000 < id->until_s - PL_KUBE_EARLY_S)
        return 0;
    if (id->failed_ms != 0 && now_ms - id->failed_ms < FAILED_MS) {
        if (err != NULL)
            *err = id->failure;
        return id->failure.code;
    }
    return start_plugin(id, err);
}

/* ---- public functions ---- */

static int make_base(struct pl_kube_identity *id, struct pl_err *err)
{
    const struct pl_kubeconfig *c = &id->config;
    size_t len, host_len;
    const char *host = authority_of(c->server, &len), *port;

    if (c->tls_server_name == NULL) {
        id->base = strdup(c->server);
        return id->base != NULL ? 0 : pl_err_nomem(err);
    }
    port = port_of(c->server, host, len, &host_len);
    if (asprintf(&id->base, "%.*s%s:%.*s%s", (int)(host - c->server), c->server, c->tls_server_name, (int)strcspn(port, "/"),
                 port, host + len) < 0) {
        id->base = NULL;
        return pl_err_nomem(err);
    }
    return 0;
}

int pl_kube_identity_create(struct pl_kubeconfig *config, void (*changed)(void *arg), void *arg, struct pl_kube_identity **ret,
                            struct pl_err *err)
{
    struct pl_kube_identity *id = calloc(1, sizeof(*id));
    int r;

    if (id == NULL) {
        pl_kubeconfig_finish(config);
        return pl_err_nomem(err);
    }
    id->config = *config;
    *config = (struct pl_kubeconfig){0};
    id->changed = changed;
    id->arg = arg;
    pthread_mutex_init(&id->lock, NULL);
    id->stop_fd = eventfd(0, EFD_CLOEXEC);
    r = id->stop_fd >= 0 ? make_base(id, err) : pl_err_errno(err, errno, "cannot create an event descriptor");
    if (r < 0) {
        pl_kube_identity_destroy(id);
        return r;
    }
    *ret = id;
    return 0;
}

struct pl_kube_identity *pl_kube_identity_destroy(struct pl_kube_identity *id)
{
    if (id == NULL)
        return NULL;
    if (id->stop_fd >= 0)
        (void)eventfd_write(id->stop_fd, 1);
    join_plugin(id);
    pl_closep(&id->stop_fd);
    pl_kube_credential_finish(&id->credential);
    pl_kube_auth_unref(id->auth);
    pl_kubeconfig_finish(&id->config);
    pthread_mutex_destroy(&id->lock);
    free(id->base);
    free(id);
    return NULL;
}

int pl_kube_identity_get(struct pl_kube_identity *id, int64_t now_ms, struct pl_kube_auth **ret, struct pl_err *err)
{
    int r = 0;

    if (id->config.plugin != NULL)
        r = get_from_plugin(id, now_ms, err);
    else if (id->config.token_file != NULL && (id->auth == NULL || now_ms - id->read_ms >= 1000 * PL_KUBE_TOKEN_S))
        r = reread_token(id, now_ms, err);
    else if (id->auth == NULL)
        r = make_auth(id, id->config.token, NULL, err);
    if (r < 0)
        return r;
    atomic_fetch_add(&id->auth->refs, 1);
    *ret = id->auth;
    return 0;
}

bool pl_kube_identity_refused(struct pl_kube_identity *id, const struct pl_kube_auth *refused, int64_t now_ms)
{
    if (id->auth != refused) /* the refused credentials have already been replaced */
        return true;
    if (id->config.plugin != NULL) {
        id->until_s = INT64_MIN / 2;
        return true;
    }
    if (id->config.token_file == NULL || reread_token(id, now_ms, NULL) < 0)
        return false;
    return id->auth != refused;
}

const char *pl_kube_identity_base(const struct pl_kube_identity *id)
{
    return id->base;
}

const struct pl_kubeconfig *pl_kube_identity_config(const struct pl_kube_identity *id)
{
    return &id->config;
}
