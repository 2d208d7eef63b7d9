/* Requests presigned URLs from the daemon in batches, stores them with the planned ranges, and sends the
 * signed requests to the bucket. */
#include "pipelined/net/remote/remote_presigned.h"

#include "storage/base/clock.h"
#include "storage/pack/pack_format.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#define ORIGINS       4     /* most different addresses of the bucket; usually there is one */
#define HEADERS       8     /* most headers of a signed request */
#define URL_MARGIN_MS 30000 /* ms before it expires at which a URL is no longer used */
#define ELSEWHERE     1     /* the caller must use the daemon instead of the bucket */

/* A presigned request, and until when it can be used. */
struct ticket {
    json_t *said; /* JSON object {"url", "headers"} from the daemon; NULL = none */
    int64_t until_ms;
};

struct range {
    struct pl_remote_range at;
    struct ticket ticket;
};

struct origin {
    char *url;
    struct pl_http_client *client;
};

struct pl_remote_signed {
    struct pl_http_client *daemon;
    char *project;
    bool get, put;
    /* file in memory with the bucket's CA certificates; -1 = use the CA of the daemon's client, or the
     * system's */
    int ca_fd;
    atomic_bool *cancel;
    /* held while URLs are requested, so that there is one such request at a time: its reply serves many
     * readers */
    pthread_mutex_t asking;
    atomic_uint canceled; /* number of these requests that were interrupted */
    pthread_mutex_t lock; /* guards the fields below */
    int64_t paused_until_ms;
    bool said;
    struct origin origins[ORIGINS];
    size_t n_origins;
    struct range *ranges; /* sorted by pack and start */
    size_t n_ranges;
};

struct pl_remote_signed *pl_remote_presigned_create(struct pl_http_client *client, const char *project, atomic_bool *cancel)
{
    struct pl_remote_signed *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->daemon = client;
    s->ca_fd = -1;
    s->cancel = cancel;
    s->project = strdup(project);
    pthread_mutex_init(&s->asking, NULL);
    pthread_mutex_init(&s->lock, NULL);
    return s->project ? s : pl_remote_presigned_destroy(s);
}

static void ranges_free(struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        json_decref(ranges[i].ticket.said);
    free(ranges);
}

struct pl_remote_signed *pl_remote_presigned_destroy(struct pl_remote_signed *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n_origins; i++) {
        pl_http_client_destroy(s->origins[i].client);
        free(s->origins[i].url);
    }
    ranges_free(s->ranges, s->n_ranges);
    pl_closep(&s->ca_fd);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->asking);
    free(s->project);
    free(s);
    return NULL;
}

void pl_remote_presigned_allow(struct pl_remote_signed *s, bool get, bool put)
{
    s->get = get;
    s->put = put;
}

void pl_remote_presigned_trust(struct pl_remote_signed *s, const char *pem)
{
    const size_t n = strlen(pem);

    /* libcurl built with GnuTLS reads certificates only from files */
    pl_closep(&s->ca_fd);
    s->ca_fd = memfd_create("bucket-ca", MFD_CLOEXEC);
    if (s->ca_fd < 0 || pl_io_write(s->ca_fd, pem, n, "certificates", NULL) < 0) {
        pl_closep(&s->ca_fd);
        s->get = s->put = false;
    }
}

void pl_remote_signed_interrupt(struct pl_remote_signed *s)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_origins; i++)
        pl_http_client_interrupt(s->origins[i].client);
    pthread_mutex_unlock(&s->lock);
}

/* --- requests to the bucket --- */

static bool is_open(struct pl_remote_signed *s)
{
    bool open;

    pthread_mutex_lock(&s->lock);
    open = s->paused_until_ms == 0 || pl_clock_mono_ms() >= s->paused_until_ms;
    pthread_mutex_unlock(&s->lock);
    return open;
}

bool pl_remote_presigned_reads(struct pl_remote_signed *s)
{
    return s->get && is_open(s);
}

/* Stops using the bucket for a while, and logs the first time. The message omits the HTTP client's error,
 * because that contains the URL, and whoever has the URL has access. */
static int give_up(struct pl_remote_signed *s, const char *what, const char *origin, int code, unsigned status)
{
    char why[64];
    bool said;

    pthread_mutex_lock(&s->lock);
    said = s->said;
    s->said = true;
    s->paused_until_ms = pl_clock_mono_ms() + PL_REMOTE_PRESIGNED_PAUSE_MS;
    pthread_mutex_unlock(&s->lock);
    if (status)
        snprintf(why, sizeof(why), "status %u", status);
    else
        snprintf(why, sizeof(why), "%s", pl_err_info(code)->name);
    if (!said)
        pl_log_warn("store", "%s the bucket at %s directly failed (%s): packs go through the daemon", what, origin, why);
    return ELSEWHERE;
}

/* Returns the length of the part "https://host:port" of a URL; 0 if there is none. */
static size_t origin_length(const char *url)
{
    const char *host = strstr(url, "://");

    return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/") : 0;
}

/* Returns the HTTP client for an address of the bucket; NULL if none can be created. The caller holds the
 * lock. */
static const struct origin *origin_find(struct pl_remote_signed *s, const char *url, size_t n)
{
    struct origin o = {0};
    const char *trusted;
    char ca[32];

    for (size_t i = 0; i < s->n_origins; i++)
        if (strlen(s->origins[i].url) == n && memcmp(s->origins[i].url, url, n) == 0)
            return &s->origins[i];
    if (s->n_origins == ORIGINS || n == 0)
        return NULL;
    snprintf(ca, sizeof(ca), "/proc/self/fd/%d", s->ca_fd);
    trusted = s->ca_fd >= 0 ? ca : pl_http_client_ca(s->daemon);
    o.url = strndup(url, n);
    if (!o.url || pl_http_client_create(o.url, NULL, &o.client, NULL) < 0 ||
        (trusted && pl_http_client_set_ca(o.client, trusted, NULL) < 0)) {
        pl_http_client_destroy(o.client);
        free(o.url);
        return NULL;
    }
    s->origins[s->n_origins] = o;
    return &s->origins[s->n_origins++];
}

/* Sends a signed request. Returns 0 if there was a reply (of any status), or a negative code. */
static int play(struct pl_remote_signed *s, const json_t *said, struct pl_http_call *call, struct pl_http_answer *ret,
                const char **ret_at)
{
    const char *url = json_string_value(json_object_get(said, "url")), *headers[HEADERS + 1] = {0};
    const json_t *list = json_object_get(said, "headers");
    const struct origin *origin;
    struct pl_err err = {0};
    size_t n = url ? origin_length(url) : 0;
    int r;

    *ret_at = "?";
    *ret = (struct pl_http_answer){0};
    pthread_mutex_lock(&s->lock);
    origin = n ? origin_find(s, url, n) : NULL;
    pthread_mutex_unlock(&s->lock);
    if (!origin || json_array_size(list) > HEADERS)
        return PL_EPROTO;
    for (size_t i = 0; i < json_array_size(list); i++)
        headers[i] = json_string_value(json_array_get(list, i));
    call->path = url + n;
    call->headers = headers;
    call->cancel = s->cancel;
    call->interruptible = true;
    *ret_at = origin->url;
    r = pl_http_client_call(origin->client, call, ret, &err);
    return ret->status >= 400 ? 0 : r;
}

/* True for errors after which the request is tried again before the daemon is used instead. */
static bool is_bad_luck(int r, unsigned status)
{
    return r == PL_ENET || status == 500 || status == 503;
}

/* Sends a request to the daemon with `items` (reference taken over) as member `list`. Returns 0 and the reply's
 * member `answers` if it has as many elements as `items`, else ELSEWHERE; PL_ECANCELED. */
static int ask(struct pl_remote_signed *s, const char *path, const char *list, json_t *items, const char *answers, json_t **ret)
{
    _cleanup_(json_decrefp) json_t *body = json_pack("{s:O}", list, items), *answer = NULL;
    const size_t n = json_array_size(items);
    json_t *got;
    int r = body && path ? pl_http_client_json_interruptible(s->daemon, "POST", path, body, s->cancel, &answer, NULL) : ELSEWHERE;

    json_decref(items);
    if (r != 0)
        return r == PL_ECANCELED ? r : ELSEWHERE;
    got = json_object_get(answer, answers);
    if (!got || json_array_size(got) != n)
        return ELSEWHERE;
    *ret = json_incref(got);
    return 0;
}

static struct ticket ticket_of(json_t *said)
{
    int64_t life_ms = json_integer_value(json_object_get(said, "expires_s")) * 1000;

    return (struct ticket){json_incref(said), pl_clock_mono_ms() + life_ms - URL_MARGIN_MS};
}

/* --- the plan --- */

static int range_cmp(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    int c = memcmp(x->at.pack.b, y->at.pack.b, PL_HASH_BYTES);

    return c != 0 ? c : (x->at.start > y->at.start) - (x->at.start < y->at.start);
}

/* Finds the planned range that contains this byte. A record that begins in a range also ends in it. The
 * caller holds the lock. */
static struct range *range_find(struct pl_remote_signed *s, const struct pl_hash *pack, uint64_t at)
{
    size_t lo = 0, hi = s->n_ranges;
    const struct range key = {.at = {.pack = *pack, .start = at}};
    struct range *r;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (range_cmp(&s->ranges[mid], &key) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    r = lo ? &s->ranges[lo - 1] : NULL;
    return r && pl_hash_eq(&r->at.pack, pack) && at < r->at.end ? r : NULL;
}

/* Adds those ranges of `made` that do not lie inside a range that is already planned. The caller holds the
 * lock. */
static void plan_add(struct pl_remote_signed *s, const struct pl_remote_range *made, size_t n)
{
    struct range *all;
    size_t kept = s->n_ranges;

    if (kept + n > PL_REMOTE_PLANNED_MAX) {
        ranges_free(s->ranges, s->n_ranges);
        s->ranges = NULL;
        s->n_ranges = kept = 0;
        n = PL_MIN(n, (size_t)PL_REMOTE_PLANNED_MAX);
    }
    all = reallocarray(s->ranges, kept + n, sizeof(*all));
    if (!all)
        return;
    s->ranges = all;
    for (size_t i = 0; i < n; i++) {
        const struct range *known = range_find(s, &made[i].pack, made[i].start);

        if (!known || known->at.end < made[i].end)
            all[kept++] = (struct range){.at = made[i]};
    }
    s->n_ranges = kept;
    qsort(all, kept, sizeof(*all), range_cmp);
}

void pl_remote_presigned_plan(struct pl_remote_signed *s, const struct pl_remote_range *ranges, size_t n)
{
    if (!s->get || n == 0)
        return;
    pthread_mutex_lock(&s->lock);
    plan_add(s, ranges, n);
    pthread_mutex_unlock(&s->lock);
}

/* --- reading --- */

static bool ticket_is_good(const struct ticket *t)
{
    return t->said && pl_clock_mono_ms() < t->until_ms;
}

/* Lists the ranges for which to request URLs: this one, and the planned ones after it that have no valid URL.
 * The caller holds the lock. */
static size_t question(struct pl_remote_signed *s, const struct pl_remote_range *first,
                       struct pl_remote_range out[PL_REMOTE_URLS], json_t *items)
{
    const struct range *r = range_find(s, &first->pack, first->start);
    char hex[PL_HASH_HEX + 1];
    size_t n = 0;

    out[n++] = *first;
    if (r)
        for (r++; r < s->ranges + s->n_ranges && n < PL_REMOTE_URLS; r++)
            if (!ticket_is_good(&r->ticket))
                out[n++] = r->at;
    for (size_t i = 0; i < n; i++)
        json_array_append_new(items, json_pack("{s:s, s:I, s:I}", "pack", pl_hash_hex(&out[i].pack, hex), "offset",
                                               (json_int_t)out[i].start, "bytes", (json_int_t)(out[i].end - out[i].start)));
    return n;
}

/* Stores the received URLs with their ranges. The caller holds the lock. */
static void keep_tickets(struct pl_remote_signed *s, const struct pl_remote_range *asked, size_t n, const json_t *answers)
{
    for (size_t i = 0; i < n; i++) {
        struct range *r = range_find(s, &asked[i].pack, asked[i].start);

        if (!r || r->at.start != asked[i].start || r->at.end != asked[i].end)
            continue;
        json_decref(r->ticket.said);
        r->ticket = ticket_of(json_array_get(answers, i));
    }
}

/* Returns the URL stored for the range; NULL if there is no valid one. If `widen`, `range` becomes the planned range
 * that contains its start, unless that is a stream's, which may be too large for memory. */
static json_t *kept_ticket(struct pl_remote_signed *s, struct pl_remote_range *range, bool widen)
{
    const struct range *planned;
    json_t *said = NULL;

    pthread_mutex_lock(&s->lock);
    planned = range_find(s, &range->pack, range->start);
    if (planned && widen && planned->at.end - planned->at.start <= PL_REMOTE_PREFETCH_RANGE)
        *range = planned->at;
    if (planned && ticket_is_good(&planned->ticket) && planned->at.start == range->start && planned->at.end == range->end)
        said = json_incref(planned->ticket.said);
    pthread_mutex_unlock(&s->lock);
    return said;
}

/* Requests URLs for `range` and for the ranges planned after it. Returns 0 and the URL of `range`, or as ask. */
static int ask_tickets(struct pl_remote_signed *s, const struct pl_remote_range *range, json_t **ret)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s/get-urls", s->project);
    _cleanup_free_ struct pl_remote_range *asked = calloc(PL_REMOTE_URLS, sizeof(*asked));
    json_t *items = json_array(), *answers;
    size_t n;
    int r;

    if (!asked || !items) {
        json_decref(items);
        return ELSEWHERE;
    }
    pthread_mutex_lock(&s->lock);
    n = question(s, range, asked, items);
    pthread_mutex_unlock(&s->lock);
    r = ask(s, path, "ranges", items, "urls", &answers);
    if (r != 0)
        return r;
    *ret = json_incref(json_array_get(answers, 0));
    pthread_mutex_lock(&s->lock);
    keep_tickets(s, asked, n, answers);
    pthread_mutex_unlock(&s->lock);
    json_decref(answers);
    return 0;
}

/* Finds a URL for the range, which is widened as by kept_ticket. `anew`: request a
 * new URL even if one is stored. Returns 0, ELSEWHERE if there is no URL, or PL_ECANCELED: also if the request of
 * another thread, for which this one waited, was interrupted. */
static int get_ticket(struct pl_remote_signed *s, struct pl_remote_range *range, bool widen, bool anew, json_t **ret)
{
    const unsigned canceled = atomic_load(&s->canceled);
    json_t *said = kept_ticket(s, range, widen);
    int r = 0;

    if (said && !anew) {
        *ret = said;
        return 0;
    }
    json_decref(said);
    pthread_mutex_lock(&s->asking);
    /* the request of another thread may have brought this range's URL */
    said = anew ? NULL : kept_ticket(s, range, widen);
    if (said)
        *ret = said;
    else if (canceled != atomic_load(&s->canceled))
        r = PL_ECANCELED;
    else {
        r = ask_tickets(s, range, ret);
        if (r == PL_ECANCELED)
            atomic_fetch_add(&s->canceled, 1);
    }
    pthread_mutex_unlock(&s->asking);
    return r;
}

/* The bytes of a reply: they are passed to `write`, or, if that is NULL, collected in `bytes`. */
struct receiver {
    pl_remote_write write;
    void *to;
    struct pl_buf *bytes;
    uint64_t n;  /* number of bytes received */
    int refused; /* the negative result of `write` */
};

static int receive(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct receiver *to = self;
    int r = to->write ? to->write(to->to, data, n, err) : pl_buf_add(to->bytes, data, n, err);

    to->n += n;
    to->refused = to->write ? r : 0;
    return r;
}

/* True if the reply has the beginning of the range, or all of it, according to the Content-Range of the
 * bucket. */
static bool is_of(const struct pl_remote_range *range, const struct pl_http_answer *answer, uint64_t n)
{
    unsigned long long first, last;

    return answer->status == 206 && sscanf(answer->content_range, "bytes %llu-%llu/", &first, &last) == 2 &&
           first == range->start && last >= first && last - first == n - 1;
}

/* Reads a range with a stored or a new URL; makes up to two attempts, but one if bytes were passed on. `widen`: as in
 * kept_ticket. Returns 0, ELSEWHERE, the negative result of the receiver, PL_ECANCELED, or PL_ENET if the reply broke off
 * after bytes were passed on. */
static int get_range(struct pl_remote_signed *s, struct pl_remote_range *range, bool widen, struct receiver *to)
{
    struct pl_http_call call = {.method = "GET", .write = receive, .write_self = to};
    struct pl_http_answer answer = {0};
    const char *at = "?";
    int r = 0;

    if (!pl_remote_presigned_reads(s))
        return ELSEWHERE;
    for (int attempt = 0; attempt < 2 && (to->n == 0 || !to->write); attempt++) {
        /* on status 403 the URL may have expired by the bucket's clock: request a new one */
        json_t *said;

        r = get_ticket(s, range, widen, answer.status == 403, &said);
        if (r != 0)
            return r;
        /* use the daemon, which will report the reason when the bytes are requested from it */
        if (!json_object_get(said, "url")) {
            json_decref(said);
            return ELSEWHERE;
        }
        to->n = 0;
        if (to->bytes) {
            pl_buf_clear(to->bytes);
            to->bytes->max = (size_t)(range->end - range->start);
        }
        r = play(s, said, &call, &answer, &at);
        json_decref(said);
        if (r == 0 && is_of(range, &answer, to->n))
            return 0;
        if (to->refused < 0 && answer.status == 206)
            return to->refused;
        if (answer.status != 403 && !is_bad_luck(r, answer.status))
            break;
    }
    if (r == PL_ECANCELED)
        return r;
    /* the data may have moved to another pack, which the daemon can find */
    if (r == 0 && answer.status == 404)
        return ELSEWHERE;
    if (!to->write || to->n == 0)
        return give_up(s, "reading from", at, r, answer.status);
    if (!is_bad_luck(r, answer.status))
        (void)give_up(s, "reading from", at, r, answer.status);
    return PL_ENET;
}

/* Drops the first `n` bytes of the buffer. Returns false if nothing is left. */
static bool cut_front(struct pl_buf *b, uint64_t n)
{
    if (n >= b->len)
        return false;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    return true;
}

int pl_remote_presigned_fetch(struct pl_remote_signed *s, const struct pl_hash *pack, uint64_t start, uint64_t end,
                              struct pl_buf *ret)
{
    struct pl_remote_range range = {*pack, start, end};
    struct receiver to = {.bytes = ret};
    int r = get_range(s, &range, true, &to);

    if (r == 0 && !cut_front(ret, start - range.start))
        r = ELSEWHERE;
    if (r != 0)
        pl_buf_clear(ret);
    return r;
}

int pl_remote_presigned_stream(struct pl_remote_signed *s, const struct pl_remote_range *range, pl_remote_write write, void *to)
{
    struct pl_remote_range exact = *range;

    return get_range(s, &exact, false, &(struct receiver){.write = write, .to = to});
}

/* --- writing --- */

/* Requests a URL for an upload. Returns as ask. */
static int put_ticket(struct pl_remote_signed *s, const char *session, const char *pack, const void *bytes, size_t n,
                      json_t **ret)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s/put-urls?session=%s", s->project, session);
    char hex[PL_HASH_HEX + 1];
    struct pl_hash hash;
    json_t *answers;
    int r;

    pl_hash_sha256(bytes, n, &hash);
    r = ask(s, path, "packs",
            json_pack("[{s:s, s:I, s:s}]", "pack", pack, "bytes", (json_int_t)n, "sha256", pl_hash_hex(&hash, hex)), "urls",
            &answers);
    if (r != 0)
        return r;
    *ret = json_incref(json_array_get(answers, 0));
    json_decref(answers);
    return 0;
}

static int tell(struct pl_remote_signed *s, const char *session, const char *pack, size_t n)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s/packs?session=%s", s->project, session);
    json_t *answers;
    int r = ask(s, path, "packs", json_pack("[{s:s, s:I}]", "pack", pack, "bytes", (json_int_t)n), "packs", &answers);

    if (r == 0)
        json_decref(answers);
    return r;
}

/* Requests a URL, uploads the pack with it, and reports the pack to the daemon. */
int pl_remote_presigned_put(struct pl_remote_signed *s, const char *session, const struct pl_hash *pack, const void *bytes,
                            size_t n)
{
    struct pl_http_call call = {.method = "PUT", .upload = PL_UPLOAD_BYTES, .bytes = bytes, .len = n};
    struct pl_http_answer answer = {0};
    char hex[PL_HASH_HEX + 1];
    const char *at = "?";
    json_t *said;
    bool there;
    int r = 0;

    if (!s->put || !is_open(s))
        return ELSEWHERE;
    r = put_ticket(s, session, pl_hash_hex(pack, hex), bytes, n, &said);
    if (r != 0)
        return r;
    there = json_is_true(json_object_get(said, "there"));
    for (int attempt = 0; !there && attempt < 2 && (attempt == 0 || is_bad_luck(r, answer.status)); attempt++)
        r = play(s, said, &call, &answer, &at);
    json_decref(said);
    if (there)
        return 0;
    if (r == PL_ECANCELED)
        return r;
    /* status 412: the pack already exists, from an earlier attempt or another client; the daemon verifies it
     * in any case */
    if (r < 0 || (answer.status != 200 && answer.status != 412))
        return give_up(s, "writing to", at, r, answer.status);
    return tell(s, session, hex, n);
}
