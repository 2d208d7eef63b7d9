/* status_poster: one thread of http_io, which starts with the first status that is sent. */
#include "pipelined/forge/status_poster.h"

#include "pipelined/policy/project_secret.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"
#include "storage/http/http_io.h"

#include <pthread.h>
#include <stdio.h>

#define CONNECTIONS   4u
#define BUFFER_BYTES  (32L << 10)
#define MESSAGE_BYTES 160 /* shown of a server's own message */
#define DOUBLINGS_MAX 6
#define SECOND_US     INT64_C(1000000)

struct pl_status_poster {
    const struct pl_outbound *outbound;
    char *url;
    atomic_bool cancel;
    pthread_mutex_t lock; /* guards what follows */
    struct pl_http_io *io;
};

int pl_status_poster_create(const struct pl_outbound *outbound, const char *url, struct pl_status_poster **ret,
                            struct pl_err *err)
{
    struct pl_status_poster *p = calloc(1, sizeof *p);

    if (!p || !(p->url = strdup(url ? url : ""))) {
        free(p);
        return pl_err_nomem(err);
    }
    p->outbound = outbound;
    pthread_mutex_init(&p->lock, NULL);
    *ret = p;
    return 0;
}

void pl_status_poster_cancel(struct pl_status_poster *p)
{
    atomic_store(&p->cancel, true);
    pthread_mutex_lock(&p->lock);
    if (p->io)
        pl_http_io_wake(p->io);
    pthread_mutex_unlock(&p->lock);
}

struct pl_status_poster *pl_status_poster_destroy(struct pl_status_poster *p)
{
    if (!p)
        return NULL;
    pl_http_io_destroy(p->io);
    pthread_mutex_destroy(&p->lock);
    free(p->url);
    free(p);
    return NULL;
}

static int need_io(struct pl_status_poster *p, struct pl_http_io **ret, struct pl_err *err)
{
    const char *ca = pl_outbound_settings_of(p->outbound)->ca;
    const struct pl_http_io_config config = {.connections = CONNECTIONS,
                                             .ca = *ca ? ca : NULL,
                                             .no_proxy = true, /* a proxy would connect where the rules do not see it */
                                             .buffer_bytes = BUFFER_BYTES,
                                             .may_connect = pl_outbound_may_connect,
                                             .connect_self = p->outbound};
    int r = 0;

    pthread_mutex_lock(&p->lock);
    if (!p->io)
        r = pl_http_io_create(&config, &p->io, err);
    *ret = p->io;
    pthread_mutex_unlock(&p->lock);
    return r;
}

/* Checks that the rules allow the server at `url`. */
static int check_url(const struct pl_outbound *outbound, const char *url, struct pl_err *err)
{
    const char *host = strstr(url, "://") + 3; /* commit_status has made the URL */
    const bool v6 = *host == '[';
    char scheme[8], name[256];

    snprintf(scheme, sizeof scheme, "%.*s", (int)(host - 3 - url), url);
    host += v6;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(host, v6 ? "]" : ":/"), host);
    return pl_outbound_check(outbound, scheme, name, "status", err);
}

int pl_status_poster_check(const struct pl_outbound *outbound, const json_t *settings, struct pl_err *err)
{
    enum pl_status_kind kind = PL_STATUS_OFF;
    char url[PL_STATUS_URL_MAX];
    int r = pl_status_kind_parse(pl_json_str(settings, "status"), &kind, err);

    if (r < 0 || kind == PL_STATUS_OFF)
        return r;
    r = pl_commit_status_url(kind, pl_json_str(settings, "git"), "", url, err);
    if (r == 0 && !*pl_json_str(settings, "secret")) {
        r = pl_err_set(err, PL_EINVAL,
                       "status: \"%s\" needs a secret with the key \"" PL_STATUS_TOKEN_KEY
                       "\", named in the source's setting secret",
                       pl_json_str(settings, "status"));
        return pl_err_field(err, r, "status");
    }
    return r < 0 ? r : check_url(outbound, url, err);
}

/* ---- notes ---- */

json_t *pl_status_note(const char *commit, bool good, const char *text, const json_t *before)
{
    const char *state = good ? "success" : "failure";
    char some[PL_STATUS_TEXT_BYTES];

    snprintf(some, sizeof some, "%s", text);
    pl_utf8_trim(some);
    if (pl_streq(pl_json_str(before, "commit"), commit) && pl_streq(pl_json_str(before, "state"), state) &&
        pl_streq(pl_json_str(before, "text"), some))
        return json_deep_copy(before);
    return json_pack("{s:s, s:s, s:s, s:b, s:i, s:i}", "commit", commit, "state", state, "text", some, "done", 0, "tries", 0,
                     "again_us", 0);
}

static void note_done(json_t *note)
{
    json_object_set_new(note, "done", json_true());
    json_object_set_new(note, "again_us", json_integer(0));
    json_object_del(note, "error");
}

static void note_failed(json_t *note, const char *error, uint32_t retry_after_s)
{
    const json_int_t tries = json_integer_value(json_object_get(note, "tries"));
    int64_t wait = PL_MIN(PL_STATUS_AGAIN_US << PL_MIN(tries, (json_int_t)DOUBLINGS_MAX), PL_STATUS_AGAIN_MAX);

    wait = PL_MAX(wait, retry_after_s * SECOND_US);
    json_object_set_new(note, "error", json_string(error));
    json_object_set_new(note, "tries", json_integer(tries + 1));
    json_object_set_new(note, "again_us", json_integer(pl_clock_wall_us() + wait));
}

/* ---- a request ---- */

/* Reads the token of the source's secret, without the end of its line; to be erased. */
static int read_token(const struct pl_status_source *s, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_secret_op op = {.what = PL_SECRET_READ, .project = s->project, .name = pl_json_str(s->settings, "secret")};
    json_t *values = NULL;
    int r = *op.name ? s->secrets(s->self, &op, &values, err)
                     : pl_err_set(err, PL_EINVAL, "the source has no secret with the key \"" PL_STATUS_TOKEN_KEY "\"");
    const char *text = json_string_value(json_object_get(values, PL_STATUS_TOKEN_KEY));

    if (r == 0 && !text)
        r = pl_err_set(err, PL_EINVAL, "secret %s has no key \"" PL_STATUS_TOKEN_KEY "\"", op.name);
    ret->max = PL_SECRET_BYTES_MAX + 1;
    r = r < 0 ? r : pl_base64_decode(text, ret, err);
    while (r == 0 && ret->len && strchr("\r\n", ret->data[ret->len - 1]))
        ret->len--;
    pl_secret_values_erase(values);
    json_decref(values);
    if (r == 0 && ret->len && memchr(ret->data, '\0', ret->len))
        r = pl_err_set(err, PL_EINVAL, "the key \"" PL_STATUS_TOKEN_KEY "\" of secret %s holds a NUL byte", op.name);
    return r < 0 || pl_buf_str(ret) ? r : pl_err_nomem(err);
}

/* Makes the error of an answer. The server's own message is shown, unless it repeats the token. */
static int refused(const struct pl_http_exchange *x, const char *token, struct pl_err *err)
{
    json_t *answer = json_loadb((const char *)x->problem.data, x->problem.len, 0, NULL);
    const char *message = pl_json_str(answer, "message");
    char some[MESSAGE_BYTES + 1];
    int r;

    snprintf(some, sizeof some, "%s", strstr(message, token) ? "" : message);
    pl_utf8_trim(some);
    r = x->status / 100 == 3
            ? pl_err_set(err, PL_EPROTO, "the server answered with status %u: redirects are not followed", x->status)
            : pl_err_set(err, PL_EPROTO, "the server answered with status %u%s%s", x->status, *some ? ": " : "", some);
    json_decref(answer);
    return r;
}

static int send_request(struct pl_status_poster *p, const struct pl_commit_status *status, uint32_t *ret_after_s,
                        struct pl_err *err)
{
    struct pl_status_request request;
    struct pl_http_exchange x = {.method = "POST",
                                 .url = request.url,
                                 .headers = request.headers,
                                 .n_body = 1,
                                 .has_body = true,
                                 .timeout_ms = PL_STATUS_POST_MS,
                                 .cancel = &p->cancel};
    struct pl_http_io *io = NULL;
    struct iovec body;
    int r = pl_commit_status_make(status, &request, err);

    if (r < 0)
        return r;
    body = (struct iovec){request.body, strlen(request.body)};
    x.body = &body;
    r = check_url(p->outbound, request.url, err);
    r = r < 0 ? r : need_io(p, &io, err);
    if (r == 0 && atomic_load(&p->cancel))
        r = pl_err_set(err, PL_ECANCELED, "the daemon stops");
    if (r == 0) {
        r = pl_http_io_run(io, &x, err);
        if (r == PL_ETIMEOUT)
            r = pl_err_set(err, r, "the server did not answer within %d s", PL_STATUS_POST_MS / 1000);
        if (r == 0 && !pl_commit_status_taken(status->kind, x.status, (const char *)x.problem.data, x.problem.len))
            r = refused(&x, status->token, err);
        *ret_after_s = x.retry_after_s;
        pl_buf_finish(&x.problem);
    }
    pl_status_request_finish(&request);
    return r;
}

int pl_status_post(const struct pl_status_source *s, json_t *note, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf token = {0};
    struct pl_commit_status status = {.git = pl_json_str(s->settings, "git"),
                                      .commit = pl_json_str(note, "commit"),
                                      .good = pl_streq(pl_json_str(note, "state"), "success"),
                                      .context = s->context,
                                      .text = pl_json_str(note, "text"),
                                      .target = s->poster->url};
    uint32_t after_s = 0;
    struct pl_err why = {0};
    int r = pl_status_kind_parse(pl_json_str(s->settings, "status"), &status.kind, err);

    if (r < 0 || status.kind == PL_STATUS_OFF || json_is_true(json_object_get(note, "done")) ||
        (!s->now && json_integer_value(json_object_get(note, "again_us")) > pl_clock_wall_us()))
        return r;
    r = read_token(s, &token, &why);
    if (r == 0) {
        status.token = pl_buf_str(&token);
        r = send_request(s->poster, &status, &after_s, &why);
    }
    if (token.data)
        explicit_bzero(token.data, token.len);
    if (r < 0 && err)
        *err = why;
    if (r == 0)
        note_done(note);
    else if (r != PL_ECANCELED)
        note_failed(note, why.msg, after_s);
    return r < 0 ? r : 1;
}
