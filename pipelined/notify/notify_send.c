/* notify_send: a POST over storage/http, with rules on the addresses that it connects to. libcurl is loaded with the first
 * delivery. */
#include "pipelined/notify/notify_send.h"

#include "pipelined/notify/notify_objects.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>

#define BUFFER_BYTES 65536L
#define TEST_TYPE    "test"

struct pl_notify_sender {
    struct pl_notify_sender_config config;
    pthread_mutex_t lock;
    struct pl_http_io *io; /* NULL = nothing was sent yet; guarded by `lock` */
    bool stopped;          /* guarded by `lock` */
};

int pl_notify_sender_create(const struct pl_notify_sender_config *config, struct pl_notify_sender **ret, struct pl_err *err)
{
    struct pl_notify_sender *s = calloc(1, sizeof *s);

    if (!s)
        return pl_err_nomem(err);
    s->config = *config;
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

/* Returns the thread of HTTP requests, which it starts on the first call. */
static int need_io(struct pl_notify_sender *s, struct pl_http_io **ret, struct pl_err *err)
{
    const char *ca = pl_outbound_settings_of(s->config.outbound)->ca;
    const struct pl_http_io_config config = {.connections = PL_NOTIFY_SENDS_MAX,
                                             .ca = ca && *ca ? ca : NULL,
                                             .no_proxy = true, /* a proxy would connect where the rules do not see it */
                                             .buffer_bytes = BUFFER_BYTES,
                                             .may_connect = pl_outbound_may_connect,
                                             .connect_self = s->config.outbound};
    int r = 0;

    pthread_mutex_lock(&s->lock);
    if (s->stopped)
        r = pl_err_set(err, PL_ECANCELED, "the daemon stops");
    else if (!s->io)
        r = pl_http_io_create(&config, &s->io, err);
    *ret = s->io;
    pthread_mutex_unlock(&s->lock);
    return r;
}

void pl_notify_sender_stop(struct pl_notify_sender *s)
{
    struct pl_http_io *io;

    pthread_mutex_lock(&s->lock);
    s->stopped = true;
    io = s->io;
    pthread_mutex_unlock(&s->lock);
    if (io)
        pl_http_io_stop(io);
}

struct pl_notify_sender *pl_notify_sender_destroy(struct pl_notify_sender *s)
{
    if (!s)
        return NULL;
    pl_http_io_destroy(s->io);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

/* ---- the request ---- */

/* Signs the body with the key of the rule's secret. */
static int sign(struct pl_notify_sender *s, const struct pl_notify_parcel *p, struct pl_notify_send *send, struct pl_err *err)
{
    const struct pl_secret_op op = {.what = PL_SECRET_READ, .project = p->project, .name = pl_json_str(p->settings, "secret")};
    struct pl_buf key = {.max = PL_SECRET_BYTES_MAX};
    json_t *values = NULL;
    const char *text;
    char signature[PL_NOTIFY_SIGNATURE_CHARS + 1];
    int r = s->config.secrets(s->config.secrets_self, &op, &values, err);

    if (r < 0)
        return pl_err_wrap(err, r, "secret");
    text = pl_json_text_at(values, PL_NOTIFY_KEY);
    r = text ? pl_base64_decode(text, &key, err)
             : pl_err_set(err, PL_ENOTFOUND, "secret \"%s\" has no key \"" PL_NOTIFY_KEY "\", with which deliveries are signed",
                          op.name);
    if (r == 0 && key.len == 0)
        r = pl_err_set(err, PL_EINVAL, "secret \"%s\": key \"" PL_NOTIFY_KEY "\" is empty", op.name);
    if (r == 0) {
        pl_notify_sign(&key, &send->body, signature);
        snprintf(send->signature_header, sizeof send->signature_header, "X-Pipelined-Signature: %s", signature);
    }
    if (key.data)
        OPENSSL_cleanse(key.data, key.len);
    pl_buf_finish(&key);
    pl_secret_values_erase(values);
    json_decref(values);
    return r;
}

/* Writes the body of format s3. */
static int write_s3(struct pl_notify_sender *s, const struct pl_notify_parcel *p, const struct pl_notify_message *m,
                    struct pl_notify_send *send, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *records = NULL;
    int r = pl_notify_objects(s->config.db, s->config.stores, m, p->part, &records, &send->next_part, err);

    if (r == PL_ENOTFOUND) {
        send->nothing = send->gone = true;
        return 0;
    }
    if (r < 0)
        return r;
    send->nothing = json_array_size(records) == 0;
    return pl_notify_format_s3(m, records, &send->body, err);
}

/* Writes what receivers of S3's notifications get when these are set up. */
static int write_s3_test(const struct pl_notify_message *m, struct pl_buf *out, struct pl_err *err)
{
    char at[32];

    return pl_buf_addf(out, err, "{\"Service\":\"pipelined\",\"Event\":\"s3:TestEvent\",\"Time\":\"%s\",\"Bucket\":\"\"}",
                       pl_clock_text(m->at_us, at));
}

static int write_body(struct pl_notify_sender *s, const struct pl_notify_parcel *p, const struct pl_notify_message *m,
                      struct pl_notify_send *send, struct pl_err *err)
{
    const char *format = pl_json_str(p->settings, "format");

    if (pl_streq(format, "slack"))
        return pl_notify_format_slack(m, &send->body, err);
    if (!pl_streq(format, "s3"))
        return pl_notify_format_json(m, &send->body, err);
    return p->event ? write_s3(s, p, m, send, err) : write_s3_test(m, &send->body, err);
}

/* Names the delivery: an event has the same name each time that it is sent, and so has each part of it. */
static void name_delivery(struct pl_notify_sender *s, const struct pl_notify_parcel *p, struct pl_notify_send *send)
{
    const char *store = pl_db_store_id(s->config.db);
    uint32_t random;

    if (!p->event) {
        pl_random_bytes(&random, sizeof random);
        snprintf(send->delivery, sizeof send->delivery, "%.8s-%s-test-%08" PRIx32, store, p->rule, random);
    } else if (p->part) {
        snprintf(send->delivery, sizeof send->delivery, "%.8s-%s-%" PRId64 "-%016" PRIx64, store, p->rule, p->event->id,
                 pl_xxh64(p->part, strlen(p->part), 0));
    } else {
        snprintf(send->delivery, sizeof send->delivery, "%.8s-%s-%" PRId64, store, p->rule, p->event->id);
    }
}

static void set_headers(struct pl_notify_send *send)
{
    size_t n = 0;

    snprintf(send->event_header, sizeof send->event_header, "X-Pipelined-Event: %s", send->event);
    snprintf(send->delivery_header, sizeof send->delivery_header, "X-Pipelined-Delivery: %s", send->delivery);
    send->headers[n++] = "Content-Type: application/json";
    send->headers[n++] = "User-Agent: pipelined";
    send->headers[n++] = send->event_header;
    send->headers[n++] = send->delivery_header;
    if (*send->signature_header)
        send->headers[n++] = send->signature_header;
    send->headers[n] = NULL;
}

int pl_notify_send_check_url(const struct pl_notify_sender *s, const char *url, struct pl_err *err)
{
    char scheme[8], host[PL_NOTIFY_HOST_MAX + 1];
    int r = pl_notify_url_split(url, scheme, host, err);

    return r < 0 ? r : pl_outbound_check(s->config.outbound, scheme, host, "url", err);
}

int pl_notify_send_make(struct pl_notify_sender *s, const struct pl_notify_parcel *p, struct pl_notify_send **ret,
                        struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *test = p->event ? NULL : json_object();
    struct pl_notify_send *send = calloc(1, sizeof *send);
    const char *type = p->event ? p->event->type : TEST_TYPE;
    struct pl_notify_message m = {.rule = p->rule, .project = p->project, .type = type, .missed = p->missed};
    int r;

    if (!send || (!p->event && !test)) {
        free(send);
        return pl_err_nomem(err);
    }
    m.data = p->event ? p->event->data : test;
    m.state = p->event ? pl_notify_state(type, m.data) : "";
    m.id = send->id = p->event ? p->event->id : 0;
    m.at_us = send->at_us = p->event ? p->event->at_us : pl_clock_wall_us();
    m.event = pl_notify_event_name(type, m.state, send->event);
    snprintf(send->rule, sizeof send->rule, "%s", p->rule);
    send->created_us = p->created_us;
    name_delivery(s, p, send);
    m.delivery = send->delivery;
    send->url = strdup(pl_json_str(p->settings, "url"));
    r = send->url ? pl_notify_send_check_url(s, send->url, err) : pl_err_nomem(err);
    r = r < 0 ? r : write_body(s, p, &m, send, err);
    if (r == 0 && !send->nothing && *pl_json_str(p->settings, "secret"))
        r = sign(s, p, send, err);
    if (r < 0) {
        pl_notify_send_free(send);
        return r;
    }
    set_headers(send);
    *ret = send;
    return 0;
}

/* ---- the exchange ---- */

static void begins(void *self)
{
    struct pl_notify_send *send = self;

    send->accepted = true;
}

/* Drops the body of a reply, and ends the exchange when there is too much of it. */
static int drop(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct pl_notify_send *send = self;

    (void)data;
    send->received += n;
    return send->received > PL_NOTIFY_REPLY_MAX ? pl_err_set(err, PL_ETOOBIG, "the reply is too long") : 0;
}

static void exchange_done(struct pl_http_exchange *x)
{
    struct pl_notify_send *send = x->arg;

    send->took_ms = pl_clock_mono_ms() - send->began_ms;
    send->ended(send);
}

static void set_exchange(struct pl_notify_send *send)
{
    send->iov = (struct iovec){send->body.data, send->body.len};
    send->x = (struct pl_http_exchange){.method = "POST",
                                        .url = send->url,
                                        .headers = send->headers,
                                        .body = &send->iov,
                                        .n_body = 1,
                                        .has_body = true,
                                        .timeout_ms = PL_NOTIFY_SEND_MS,
                                        .write = drop,
                                        .begins = begins,
                                        .write_self = send,
                                        .done = exchange_done,
                                        .arg = send};
    send->began_ms = pl_clock_mono_ms();
}

void pl_notify_send_start(struct pl_notify_sender *s, struct pl_notify_send *send, void (*ended)(struct pl_notify_send *send),
                          void *arg)
{
    struct pl_http_io *io = NULL;
    int r;

    send->ended = ended;
    send->arg = arg;
    set_exchange(send);
    r = need_io(s, &io, &send->x.err);
    if (r < 0)
        ended(send);
    else
        pl_http_io_submit(io, &send->x);
}

void pl_notify_send_run(struct pl_notify_sender *s, struct pl_notify_send *send)
{
    struct pl_http_io *io = NULL;

    set_exchange(send);
    if (need_io(s, &io, &send->x.err) == 0)
        (void)!pl_http_io_run(io, &send->x, NULL); /* the exchange keeps its error */
    send->took_ms = pl_clock_mono_ms() - send->began_ms;
}

int pl_notify_send_result(const struct pl_notify_send *send, struct pl_err *err)
{
    const struct pl_http_exchange *x = &send->x;

    if (send->accepted) /* whatever became of the reply's body */
        return 0;
    if (x->err.code == PL_ETIMEOUT)
        return pl_err_set(err, PL_ETIMEOUT, "no reply within %d s", PL_NOTIFY_SEND_MS / 1000);
    if (x->err.code < 0)
        return pl_err_set(err, x->err.code, "%s", x->err.msg);
    if (x->status / 100 == 3)
        return pl_err_set(err, PL_EPROTO, "the receiver replied with status %u: redirects are not followed", x->status);
    return pl_err_set(err, PL_EPROTO, "the receiver replied with status %u", x->status);
}

struct pl_notify_send *pl_notify_send_free(struct pl_notify_send *send)
{
    if (!send)
        return NULL;
    pl_buf_finish(&send->body);
    pl_buf_finish(&send->x.problem);
    free(send->next_part);
    free(send->url);
    free(send);
    return NULL;
}
