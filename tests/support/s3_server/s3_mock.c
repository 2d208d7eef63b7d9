#include "tests/support/s3_server/s3_mock_internal.h"

#include "tests/support/s3_server/s3_mock_verify.h"

#include "storage/base/clock.h"

#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BODY_MAX   (256u << 20)
#define SLOW_BYTES 64 /* that come one by one */

/* One request, from its first line to its answer. */
struct request {
    struct s3_mock *mock;
    char *uri;
    bool begun, refused;
    unsigned char *body;
    size_t len, cap;
    struct s3_fault fault;
    bool fault_drawn;
};

/* --- faults; under the lock --- */

static uint64_t next_random(struct s3_mock *m)
{
    uint64_t z = m->random += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static struct s3_fault draw(struct s3_mock *m, const char *method, const char *uri)
{
    for (size_t i = 0; i < m->n_faults; i++) {
        struct s3_fault *f = &m->faults[i];

        if ((f->method && strcmp(f->method, method)) || (f->key && !strstr(uri, f->key)))
            continue;
        if (f->skip) {
            f->skip--;
            continue;
        }
        if (f->times == UINT32_MAX) /* used up */
            continue;
        if (f->times && --f->times == 0)
            f->times = UINT32_MAX;
        return *f;
    }
    if (m->percent && next_random(m) % 100 < m->percent) {
        enum s3_fault_kind kind = (enum s3_fault_kind)(1 + next_random(m) % (S3_FAULT_KINDS - 1));
        /* a refusal is final, and right to be; silence costs the client's patience: only in one of eight */
        bool not_so = (kind == S3_FAULT_403 && !m->config.cruel) ||
                      (kind == S3_FAULT_STALL && (!m->config.cruel || next_random(m) % 8 != 0));

        return (struct s3_fault){.kind = not_so ? S3_FAULT_500_AFTER : kind, .bytes = (unsigned)(next_random(m) % 6)};
    }
    return (struct s3_fault){0};
}

static void put_off(struct s3_mock_call *c, unsigned requests)
{
    struct s3_mock *m = c->m;
    const bool put = !strcmp(c->method, "PUT");

    if (m->n_late == S3_MOCK_LATE_MAX || !*c->key || (!put && strcmp(c->method, "DELETE")))
        return;
    m->late[m->n_late] = (struct s3_mock_late){.key = strdup(c->key),
                                               .bytes = malloc(c->len + 1),
                                               .len = c->len,
                                               .remove = !put,
                                               .condition = s3_mock_header(c, "If-None-Match"),
                                               .due = m->requests + requests};
    memcpy(m->late[m->n_late++].bytes, c->body ? c->body : (const unsigned char *)"", c->len);
}

/* What was put off comes, in order, when its time has. */
static void catch_up(struct s3_mock *m, bool all)
{
    size_t left = 0;

    for (size_t i = 0; i < m->n_late; i++) {
        struct s3_mock_late *l = &m->late[i];

        if (!all && l->due > m->requests) {
            m->late[left++] = *l;
            continue;
        }
        if (l->remove)
            s3_mock_remove_key(m, l->key);
        else if (!l->condition || !s3_mock_find(m, l->key))
            s3_mock_put_bytes(m, l->key, l->bytes, l->len);
        free(l->key);
        free(l->bytes);
    }
    m->n_late = left;
}

/* --- one request --- */

static bool bucket_path(struct s3_mock *m, const char *path, char *key, size_t size)
{
    char all[4096];
    const size_t bucket = strlen(S3_MOCK_BUCKET);

    if (!s3_mock_decode(path, path + strcspn(path, "?"), true, all, sizeof all))
        return false;
    if (m->config.virtual_style) {
        snprintf(key, size, "%s", all + 1);
        return true;
    }
    if (strncmp(all + 1, S3_MOCK_BUCKET, bucket) || (all[1 + bucket] && all[1 + bucket] != '/'))
        return false;
    snprintf(key, size, "%s", all[1 + bucket] ? all + 2 + bucket : "");
    return true;
}

static bool refuse_place(struct s3_mock_call *c, struct s3_mock_answer *a)
{
    struct s3_mock *m = c->m;
    const char *host = s3_mock_header(c, "Host");

    if (*m->redirect) {
        /* to a host of the other style the path is another, too */
        snprintf(a->location, sizeof a->location, "%.200s%.300s", m->redirect,
                 c->uri + (strstr(m->redirect, "://" S3_MOCK_BUCKET ".") ? 1 + strlen(S3_MOCK_BUCKET) : 0));
        s3_mock_answer_error(a, 307, "TemporaryRedirect", "elsewhere", "");
    } else if (!host || strcmp(host, m->host)) {
        s3_mock_violated(m, c->method, c->uri, "the Host header");
        s3_mock_answer_error(a, 400, "InvalidURI", "not this host", "");
    } else if (!bucket_path(m, c->uri, c->key, sizeof c->key)) {
        s3_mock_answer_error(a, 404, "NoSuchBucket", "The specified bucket does not exist", "");
    } else if (s3_mock_header(c, "Expect")) {
        s3_mock_violated(m, c->method, c->uri, "an Expect header");
        s3_mock_answer_error(a, 417, "ExpectationFailed", "no", "");
    } else {
        return false;
    }
    return true;
}

/* The mock's clock. Not time(): that reads the kernel's coarse clock, which stays in the last second for up to a tick after clock_gettime(), with
 * which clients sign, has reached the next. A URL that had just expired was let in once in some 600 runs. */
static int64_t now_s(const struct s3_mock *m)
{
    return pl_clock_wall_us() / 1000000 + m->ahead_s;
}

static bool refuse_signature(struct s3_mock_call *c, struct s3_mock_answer *a)
{
    struct s3_mock *m = c->m;
    struct s3_mock_wire w = {.connection = c->connection,
                             .method = c->method,
                             .uri = c->uri,
                             .body = c->body,
                             .body_len = c->len,
                             .loose_ranges = m->config.ignores_signed_ranges,
                             .loose_hashes = m->config.ignores_signed_hashes};
    struct s3_mock_keys k = {.access_key = m->access_key,
                             .secret = m->secret,
                             .token = m->token,
                             .region = m->region,
                             .now_s = now_s(m),
                             .tls = m->config.tls};
    struct s3_mock_refusal refusal;

    if (s3_mock_verify(&w, &k, &c->presigned, &refusal))
        return false;
    if (refusal.violation)
        s3_mock_violated(m, c->method, c->uri, refusal.message);
    s3_mock_answer_error(a, refusal.status, refusal.code, refusal.message, refusal.region);
    snprintf(a->region, sizeof a->region, "%s", refusal.region);
    return true;
}

static void spoil(struct s3_mock_call *c, struct s3_fault *f, struct s3_mock_answer *a)
{
    static const struct {
        enum s3_fault_kind kind;
        unsigned status;
        const char *code;
    } plain[] = {{S3_FAULT_500, 500, "InternalError"},
                 {S3_FAULT_503, 503, "SlowDown"},
                 {S3_FAULT_409, 409, "ConditionalRequestConflict"},
                 {S3_FAULT_403, 403, "AccessDenied"},
                 {S3_FAULT_404, 404, "NoSuchKey"},
                 {S3_FAULT_200_ERROR, 200, "InternalError"},
                 {S3_FAULT_NO_BUCKET, 404, "NoSuchBucket"},
                 {S3_FAULT_REDIRECT, 301, "PermanentRedirect"},
                 {S3_FAULT_BAD_REGION, 400, "AuthorizationHeaderMalformed"},
                 {S3_FAULT_BAD_KEY, 403, "InvalidAccessKeyId"},
                 {S3_FAULT_FULL, 507, "QuotaExceeded"},
                 {S3_FAULT_UNKNOWN_CALL, 501, "NotImplemented"}};
    struct s3_mock_answer first = {0};

    c->whole = f->kind == S3_FAULT_WHOLE;
    c->slower = f->kind == S3_FAULT_KEYS_SLOW_DOWN;
    c->further = f->kind == S3_FAULT_OTHER_RANGE ? f->bytes : 0;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i].kind == f->kind) {
            s3_mock_answer_error(a, plain[i].status, plain[i].code, "as told", "");
            return;
        }
    if (f->kind == S3_FAULT_LATE) {
        put_off(c, f->bytes);
        return;
    }
    if (f->kind == S3_FAULT_TWICE) {
        s3_mock_carry_out(c, &first);
        free(first.body);
    }
    s3_mock_carry_out(c, a);
    if (f->kind == S3_FAULT_500_AFTER) {
        free(a->body);
        *a = (struct s3_mock_answer){0};
        s3_mock_answer_error(a, 500, "InternalError", "as told", "");
    }
    if (f->kind == S3_FAULT_WRONG_ETAG && *a->etag)
        snprintf(a->etag, sizeof a->etag, "\"00000000000000000000000000000000\"");
    if (f->kind == S3_FAULT_NO_ETAG)
        a->etag[0] = '\0';
    if (f->kind == S3_FAULT_FLIP && f->bytes < a->len)
        a->body[f->bytes] ^= 1;
}

static void count(struct s3_mock *m, const char *method)
{
    static const char *const names[] = {"GET", "PUT", "HEAD", "DELETE", "POST"};
    unsigned *const counts[] = {&m->gets, &m->puts, &m->heads, &m->deletes, &m->posts};

    m->requests++;
    for (size_t i = 0; i < 5; i++)
        *counts[i] += !strcmp(names[i], method);
}

/* --- libmicrohttpd --- */

struct sending {
    struct s3_mock *m;
    char *body;
    size_t len, stop; /* bytes after which it ends, or stands still */
    bool stall, slow, endless;
};

static ssize_t send_some(void *arg, uint64_t at, char *out, size_t max)
{
    struct sending *s = arg;
    size_t n = at < s->stop ? s->stop - at : 0;

    if (n) {
        n = n < max ? n : max;
        n = s->slow && at < SLOW_BYTES ? 1 : n;
        memcpy(out, s->body + at, n);
        return (ssize_t)n;
    }
    if (s->stall) { /* until the mock ends; the client has gone before */
        pthread_mutex_lock(&s->m->lock);
        while (!s->m->ending)
            pthread_cond_wait(&s->m->ending_set, &s->m->lock);
        pthread_mutex_unlock(&s->m->lock);
    }
    return s->stop < s->len && !s->endless ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
}

static void sent(void *arg)
{
    struct sending *s = arg;

    free(s->body);
    free(s);
}

static void add_date(struct s3_mock *m, struct MHD_Response *r)
{
    char text[64];
    time_t now;
    struct tm tm;

    pthread_mutex_lock(&m->lock);
    now = now_s(m);
    pthread_mutex_unlock(&m->lock);
    strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    MHD_add_response_header(r, "Date", text);
}

static enum MHD_Result send_answer(struct s3_mock *m, struct MHD_Connection *connection, struct s3_mock_answer *a,
                                   const struct s3_fault *f)
{
    struct sending *s = malloc(sizeof *s);
    struct MHD_Response *r;
    enum MHD_Result sent_ok;
    const bool endless = f->kind == S3_FAULT_NO_LENGTH, cut = f->kind == S3_FAULT_CUT || f->kind == S3_FAULT_STALL || endless;

    *s = (struct sending){.m = m,
                          .body = a->body,
                          .len = a->len,
                          .stop = cut && f->bytes < a->len ? f->bytes : a->len,
                          .endless = endless,
                          .stall = f->kind == S3_FAULT_STALL,
                          .slow = f->kind == S3_FAULT_SLOW};
    r = a->len ? MHD_create_response_from_callback(endless ? MHD_SIZE_UNKNOWN : a->len, 64 << 10, send_some, s, sent)
               : MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    if (!a->len)
        sent(s);
    if (endless)
        MHD_set_response_options(r, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    if (*a->content_type)
        MHD_add_response_header(r, "Content-Type", a->content_type);
    if (*a->etag)
        MHD_add_response_header(r, "ETag", a->etag);
    if (*a->content_range)
        MHD_add_response_header(r, "Content-Range", a->content_range);
    if (*a->region)
        MHD_add_response_header(r, "x-amz-bucket-region", a->region);
    if (*a->location)
        MHD_add_response_header(r, "Location", a->location);
    MHD_add_response_header(r, "x-amz-request-id", "mock");
    add_date(m, r);
    sent_ok = MHD_queue_response(connection, a->status, r);
    MHD_destroy_response(r);
    return sent_ok;
}

/* The whole request is here. */
static enum MHD_Result serve(struct request *q, struct MHD_Connection *connection, const char *method)
{
    struct s3_mock *m = q->mock;
    struct s3_mock_call c = {.m = m, .connection = connection, .method = method, .uri = q->uri, .body = q->body, .len = q->len};
    struct s3_mock_answer a = {0};
    bool silent;

    pthread_mutex_lock(&m->lock);
    catch_up(m, false);
    if (refuse_place(&c, &a) || refuse_signature(&c, &a))
        q->fault.kind = S3_FAULT_NONE;
    else if (q->fault.kind == S3_FAULT_NONE)
        s3_mock_carry_out(&c, &a);
    else if (q->fault.kind != S3_FAULT_RESET_BEFORE)
        spoil(&c, &q->fault, &a);
    pthread_mutex_unlock(&m->lock);
    silent = q->fault.kind == S3_FAULT_RESET_BEFORE || q->fault.kind == S3_FAULT_RESET_AFTER || q->fault.kind == S3_FAULT_LATE;
    if (silent) {
        free(a.body);
        return MHD_NO;
    }
    return send_answer(m, connection, &a, &q->fault);
}

static void *on_uri(void *arg, const char *uri, struct MHD_Connection *connection)
{
    struct request *q = calloc(1, sizeof *q);

    (void)connection;
    q->mock = arg;
    q->uri = strdup(uri);
    return q;
}

static void begin(struct request *q, const char *method)
{
    struct s3_mock *m = q->mock;

    q->begun = true;
    pthread_mutex_lock(&m->lock);
    snprintf(m->recent[m->requests % S3_MOCK_RECENT], sizeof *m->recent, "%s %.150s", method, q->uri);
    count(m, method);
    q->fault = draw(m, method, q->uri);
    if (++m->running > m->at_once)
        m->at_once = m->running;
    pthread_mutex_unlock(&m->lock);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **state)
{
    struct request *q = *state;

    (void)arg, (void)url, (void)version;
    if (!q->begun) {
        begin(q, method);
        return MHD_YES;
    }
    if (*n) {
        if (q->fault.kind == S3_FAULT_RESET_BODY || q->len + *n > BODY_MAX)
            return MHD_NO;
        if (q->len + *n > q->cap)
            q->body = realloc(q->body, q->cap = 2 * (q->len + *n));
        memcpy(q->body + q->len, data, *n);
        q->len += *n;
        *n = 0;
        return MHD_YES;
    }
    if (q->fault.kind == S3_FAULT_RESET_BODY)
        return MHD_NO;
    if (q->cap == q->len)
        q->body = realloc(q->body, q->cap = q->len + 1);
    q->body[q->len] = '\0'; /* DeleteObjects is searched as a text */
    return serve(q, connection, method);
}

static void on_end(void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    struct s3_mock *m = arg;
    struct request *q = *state;

    (void)connection, (void)code;
    if (!q)
        return;
    pthread_mutex_lock(&m->lock);
    m->running -= q->begun;
    pthread_mutex_unlock(&m->lock);
    free(q->uri);
    free(q->body);
    free(q);
    *state = NULL;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **state, enum MHD_ConnectionNotificationCode code)
{
    struct s3_mock *m = arg;

    (void)connection, (void)state;
    pthread_mutex_lock(&m->lock);
    m->connections += code == MHD_CONNECTION_NOTIFY_STARTED;
    pthread_mutex_unlock(&m->lock);
}

static size_t keep_escapes(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg, (void)connection;
    return strlen(text);
}

/* --- TLS: a certificate for 127.0.0.1 that signs itself --- */

static char *pem_of(BIO *bio)
{
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    char *text = strndup(data, (size_t)n);

    BIO_free(bio);
    return text;
}

static void add_extension(X509 *x, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
}

static void make_certificate(struct s3_mock *m)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    BIO *cert = BIO_new(BIO_s_mem()), *private_key = BIO_new(BIO_s_mem());
    int fd;

    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 24 * 3600);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)"mock", -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    add_extension(x, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(x, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
    X509_sign(x, key, EVP_sha256());
    PEM_write_bio_X509(cert, x);
    PEM_write_bio_PrivateKey(private_key, key, NULL, NULL, 0, NULL, NULL);
    m->cert = pem_of(cert);
    m->private_key = pem_of(private_key);
    X509_free(x);
    EVP_PKEY_free(key);
    snprintf(m->ca, sizeof m->ca, "/tmp/pl-s3-mock-XXXXXX");
    fd = mkstemp(m->ca);
    if (fd < 0 || write(fd, m->cert, strlen(m->cert)) != (ssize_t)strlen(m->cert))
        abort();
    close(fd);
}

/* --- the face --- */

static void set_keys(struct s3_mock *m, const char *access_key, const char *secret, const char *token)
{
    snprintf(m->access_key, sizeof m->access_key, "%s", access_key ? access_key : S3_MOCK_KEY);
    snprintf(m->secret, sizeof m->secret, "%s", secret ? secret : S3_MOCK_SECRET);
    snprintf(m->token, sizeof m->token, "%s", token ? token : "");
}

/* Before there are threads that ask for it, the port is known. */
static int listen_at(unsigned *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)*port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 || bind(fd, (void *)&at, sizeof at) < 0 ||
        listen(fd, SOMAXCONN) < 0 || getsockname(fd, (void *)&at, &len) < 0)
        abort();
    *port = ntohs(at.sin_port);
    return fd;
}

struct s3_mock *s3_mock_start(const struct s3_mock_config *config)
{
    struct s3_mock *m = calloc(1, sizeof *m);
    unsigned flags =
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_SUPPRESS_DATE_NO_CLOCK;
    unsigned port = config->port;
    int fd = listen_at(&port);

    m->config = *config;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->ending_set, NULL);
    set_keys(m, config->access_key, config->secret, config->token);
    snprintf(m->region, sizeof m->region, "%s", config->region ? config->region : S3_MOCK_REGION);
    if (config->tls)
        make_certificate(m);
    /* libcurl takes what ends with .localhost for this machine, without asking */
    snprintf(m->url, sizeof m->url, "http%s://%s:%u", config->tls ? "s" : "", config->virtual_style ? "localhost" : "127.0.0.1",
             port);
    snprintf(m->host, sizeof m->host, "%s:%u", config->virtual_style ? S3_MOCK_BUCKET ".localhost" : "127.0.0.1", port);
    m->daemon = MHD_start_daemon(flags | (config->tls ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, m, MHD_OPTION_LISTEN_SOCKET,
                                 fd, MHD_OPTION_URI_LOG_CALLBACK, on_uri, m, MHD_OPTION_NOTIFY_COMPLETED, on_end, m,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, m, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)256 << 10,
                                 config->tls ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, m->private_key,
                                 MHD_OPTION_HTTPS_MEM_CERT, m->cert, MHD_OPTION_END);
    if (!m->daemon)
        abort();
    return m;
}

void s3_mock_stop(struct s3_mock *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->ending = true;
    pthread_cond_broadcast(&m->ending_set);
    pthread_mutex_unlock(&m->lock);
    MHD_stop_daemon(m->daemon);
    catch_up(m, true);
    while (m->n)
        s3_mock_remove_key(m, m->objects[m->n - 1].key);
    if (*m->ca)
        unlink(m->ca);
    free(m->objects);
    free(m->cert);
    free(m->private_key);
    pthread_cond_destroy(&m->ending_set);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

const char *s3_mock_url(const struct s3_mock *m)
{
    return m->url;
}

const char *s3_mock_ca(const struct s3_mock *m)
{
    return m->ca;
}

void s3_mock_fault(struct s3_mock *m, struct s3_fault fault)
{
    pthread_mutex_lock(&m->lock);
    if (m->n_faults == S3_MOCK_FAULTS_MAX)
        abort();
    m->faults[m->n_faults++] = fault;
    pthread_mutex_unlock(&m->lock);
}

void s3_mock_chaos(struct s3_mock *m, uint64_t seed, unsigned percent)
{
    pthread_mutex_lock(&m->lock);
    m->n_faults = 0;
    m->random = seed;
    m->percent = percent;
    if (!percent)
        catch_up(m, true);
    pthread_mutex_unlock(&m->lock);
}

void s3_mock_set_clock(struct s3_mock *m, int64_t ahead_s)
{
    pthread_mutex_lock(&m->lock);
    m->ahead_s = ahead_s;
    pthread_mutex_unlock(&m->lock);
}

void s3_mock_set_region(struct s3_mock *m, const char *region)
{
    pthread_mutex_lock(&m->lock);
    snprintf(m->region, sizeof m->region, "%s", region);
    pthread_mutex_unlock(&m->lock);
}

void s3_mock_set_redirect(struct s3_mock *m, const char *origin)
{
    pthread_mutex_lock(&m->lock);
    snprintf(m->redirect, sizeof m->redirect, "%s", origin ? origin : "");
    pthread_mutex_unlock(&m->lock);
}

void s3_mock_set_keys(struct s3_mock *m, const char *access_key, const char *secret, const char *token)
{
    pthread_mutex_lock(&m->lock);
    set_keys(m, access_key, secret, token);
    pthread_mutex_unlock(&m->lock);
}

bool s3_mock_object(struct s3_mock *m, const char *key, struct pl_buf *ret)
{
    const struct s3_mock_stored *o;
    bool found;

    pthread_mutex_lock(&m->lock);
    o = s3_mock_find(m, key);
    found = o;
    pl_buf_clear(ret);
    if (found && pl_buf_add(ret, o->bytes, o->len, NULL) < 0)
        abort();
    pthread_mutex_unlock(&m->lock);
    return found;
}

void s3_mock_plant(struct s3_mock *m, const char *key, const void *bytes, size_t n)
{
    pthread_mutex_lock(&m->lock);
    s3_mock_put_bytes(m, key, bytes, n);
    pthread_mutex_unlock(&m->lock);
}

static unsigned read_under_lock(struct s3_mock *m, const unsigned *count)
{
    unsigned n;

    pthread_mutex_lock(&m->lock);
    n = *count;
    pthread_mutex_unlock(&m->lock);
    return n;
}

size_t s3_mock_objects(struct s3_mock *m)
{
    size_t n;

    pthread_mutex_lock(&m->lock);
    n = m->n;
    pthread_mutex_unlock(&m->lock);
    return n;
}

unsigned s3_mock_requests(struct s3_mock *m, const char *method)
{
    static const char *const names[] = {"GET", "PUT", "HEAD", "DELETE", "POST"};
    const unsigned *const counts[] = {&m->gets, &m->puts, &m->heads, &m->deletes, &m->posts};

    for (size_t i = 0; method && i < 5; i++)
        if (!strcmp(names[i], method))
            return read_under_lock(m, counts[i]);
    return read_under_lock(m, &m->requests);
}

unsigned s3_mock_at_once(struct s3_mock *m)
{
    return read_under_lock(m, &m->at_once);
}

void s3_mock_request(struct s3_mock *m, unsigned number, char *out, size_t size)
{
    pthread_mutex_lock(&m->lock);
    snprintf(out, size, "%s",
             number < m->requests && m->requests - number <= S3_MOCK_RECENT ? m->recent[number % S3_MOCK_RECENT] : "");
    pthread_mutex_unlock(&m->lock);
}

unsigned s3_mock_connections(struct s3_mock *m)
{
    return read_under_lock(m, &m->connections);
}

unsigned s3_mock_violations(struct s3_mock *m)
{
    return read_under_lock(m, &m->violations);
}

const char *s3_mock_violation(struct s3_mock *m)
{
    return m->violation;
}
