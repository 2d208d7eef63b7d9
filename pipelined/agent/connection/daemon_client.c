/* Keeps one endpoint (HTTP client and remote stores) per URL and token. A new URL or token adds an endpoint;
 * the old ones stay until the end. The time since the daemon stopped answering decides when retrying ends. */
#include "pipelined/agent/connection/daemon_client.h"

#include "pipelined/net/remote/remote.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/chunk/chunk_list.h"
#include "storage/pack/pack_format.h"
#include "storage/store/store.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

/* how often pl_daemon_client_retry checks for an interrupt while it sleeps */
#define INTERRUPT_LOOK_MS 50

/* The store of one project. */
struct store {
    struct store *next;
    char *project;
    struct pl_remote *remote;
};

/* One URL and token of the daemon. Old endpoints stay until the end, because another thread may be in a
 * call. */
struct endpoint {
    struct endpoint *older;
    char *url;
    struct pl_http_client *client;
    struct store *stores; /* of the stage's project and of others that it reads, as far as they were opened */
    bool in_session;      /* the store of the stage's project has an open upload session */
};

struct pl_uplink {
    char *url_file;
    char *token;
    char *ca;
    char *store_url; /* "file:///DIR" or NULL */
    const char *remedy;
    char *project; /* project of the stage; NULL before pl_daemon_client_open_store */
    int64_t orphan_ms;
    atomic_bool *stopping;
    int wake_fd; /* eventfd; stays readable once the agent is stopping */
    /* held while an upload session is opened; taken before `lock` */
    pthread_mutex_t session_lock;
    /* guards current, its stores and sessions, sessions_ended, token; no request is made while it is held */
    pthread_mutex_t lock;
    struct endpoint *current;
    uint64_t sessions_ended;
    /* number of calls of pl_uplink_interrupt */
    atomic_uint interrupts;
    /* monotonic time of the first unanswered call; 0 = the last call was answered */
    atomic_int_least64_t away_since_ms;
};

/* Makes a new endpoint the current one. Call with the lock held, or before other threads exist. */
static int add_endpoint(struct pl_uplink *l, const char *url, struct pl_err *err)
{
    struct endpoint *e = calloc(1, sizeof(*e));
    int r;

    if (!e)
        return pl_err_nomem(err);
    e->url = strdup(url);
    r = e->url ? pl_http_client_create(url, l->token, &e->client, err) : pl_err_nomem(err);
    r = r < 0 || !l->ca ? r : pl_http_client_set_ca(e->client, l->ca, err);
    if (r == 0 && l->remedy)
        pl_http_client_set_remedy(e->client, l->remedy);
    if (r < 0) {
        pl_http_client_destroy(e->client);
        free(e->url);
        free(e);
        return r;
    }
    e->older = l->current;
    l->current = e;
    l->sessions_ended += e->older && e->older->in_session;
    return 0;
}

int pl_daemon_client_set_token(struct pl_uplink *l, const char *token, struct pl_err *err)
{
    char *copy = strdup(token), *before;
    int r = 0;

    if (!copy)
        return pl_err_nomem(err);
    pthread_mutex_lock(&l->lock);
    before = l->token;
    l->token = copy;
    if (!pl_streq(before, copy))
        r = add_endpoint(l, l->current->url, err);
    pthread_mutex_unlock(&l->lock);
    free(before);
    return r;
}

int pl_daemon_client_create(const struct pl_daemon_client_config *config, struct pl_uplink **ret, struct pl_err *err)
{
    struct pl_uplink *l = calloc(1, sizeof(*l));
    int r = 0;

    if (!l)
        return pl_err_nomem(err);
    pthread_mutex_init(&l->session_lock, NULL);
    pthread_mutex_init(&l->lock, NULL);
    l->stopping = config->stopping;
    l->remedy = config->remedy;
    l->orphan_ms = config->orphan_ms ? config->orphan_ms : PL_DAEMON_CLIENT_ORPHAN_MS;
    l->url_file = config->url_file ? strdup(config->url_file) : NULL;
    l->token = strdup(config->token);
    l->ca = config->ca ? strdup(config->ca) : NULL;
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (config->store_dir && asprintf(&l->store_url, "file://%s", config->store_dir) < 0)
        l->store_url = NULL; /* if memory runs out here, packs are read over HTTP */
    if (!l->token || (config->url_file && !l->url_file) || (config->ca && !l->ca))
        r = pl_err_nomem(err);
    else if (l->wake_fd < 0)
        r = pl_err_errno(err, errno, "link");
    else
        r = add_endpoint(l, config->url, err);
    if (r < 0) {
        pl_daemon_client_destroy(l);
        return r;
    }
    *ret = l;
    return 0;
}

/* Finds the endpoint's store of a project; NULL = it was not opened yet. Call with the lock held. */
static struct pl_remote *find_store(const struct endpoint *e, const char *project)
{
    const struct store *s = e->stores;

    while (s && !pl_streq(s->project, project))
        s = s->next;
    return s ? s->remote : NULL;
}

static void close_stores(struct endpoint *e)
{
    for (struct store *s = e->stores, *next; s; s = next) {
        next = s->next;
        pl_remote_close(s->remote);
        free(s->project);
        free(s);
    }
}

struct pl_uplink *pl_daemon_client_destroy(struct pl_uplink *l)
{
    if (!l)
        return NULL;
    for (struct endpoint *e = l->current, *older; e; e = older) {
        older = e->older;
        if (e->in_session && e == l->current && !pl_daemon_client_down(l))
            pl_remote_end_session(find_store(e, l->project));
        close_stores(e);
        pl_http_client_destroy(e->client);
        free(e->url);
        free(e);
    }
    pl_closep(&l->wake_fd);
    pthread_mutex_destroy(&l->session_lock);
    pthread_mutex_destroy(&l->lock);
    free(l->url_file);
    free(l->token);
    free(l->ca);
    free(l->store_url);
    free(l->project);
    free(l);
    return NULL;
}

static struct endpoint *current(struct pl_uplink *l)
{
    struct endpoint *e;

    pthread_mutex_lock(&l->lock);
    e = l->current;
    pthread_mutex_unlock(&l->lock);
    return e;
}

bool pl_daemon_client_is_away(int code)
{
    return code == PL_ENET || code == PL_ETIMEOUT || code == PL_EBUSY || code == PL_ESTOPPING;
}

bool pl_daemon_client_is_transport_error(int code)
{
    return code == PL_ECANCELED || code == PL_EAUTH || code == PL_EFORBIDDEN || code == PL_ERETRY ||
           pl_daemon_client_is_away(code);
}

bool pl_daemon_client_down(const struct pl_uplink *l)
{
    return atomic_load(&l->away_since_ms) != 0;
}

/* Records whether the daemon answered, by the result `r` of a call; returns `r`. */
static int note(struct pl_uplink *l, int r)
{
    if (!pl_daemon_client_is_away(r))
        atomic_store(&l->away_since_ms, 0);
    else if (!pl_daemon_client_down(l))
        atomic_store(&l->away_since_ms, pl_clock_mono_ms());
    return r;
}

/* Makes a POST with `body` as JSON and parses the answer. The caller sets path and cancellation of `call`,
 * this function the rest. `*ret` (may be NULL) is a new reference. */
static int ask_json(struct pl_uplink *l, const json_t *body, struct pl_http_call call, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *text = pl_json_text(body, JSON_COMPACT);
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = PL_DAEMON_CLIENT_ANSWER_MAX};
    json_error_t where;
    json_t *answer;
    int r;

    if (!text)
        return pl_err_nomem(err);
    call.method = "POST";
    call.content_type = "application/json";
    call.upload = PL_UPLOAD_BYTES;
    call.bytes = text;
    call.len = strlen(text);
    call.out = &out;
    r = note(l, pl_http_client_call(current(l)->client, &call, NULL, err));
    if (r < 0)
        return r;
    answer = out.len ? json_loadb((const char *)out.data, out.len, 0, &where) : json_object();
    if (!answer)
        return pl_err_set(err, PL_EPROTO, "the daemon's answer to %s is not JSON: %s", call.path, out.len ? where.text : "");
    if (ret)
        *ret = answer;
    else
        json_decref(answer);
    return 0;
}

int pl_daemon_client_json(struct pl_uplink *l, const char *path, const json_t *body, bool cancel, json_t **ret,
                          struct pl_err *err)
{
    return ask_json(l, body, (struct pl_http_call){.path = path, .cancel = cancel ? l->stopping : NULL}, ret, err);
}

int pl_uplink_poll(struct pl_uplink *l, const char *path, const json_t *body, atomic_bool *cancel, int64_t timeout_ms,
                   json_t **ret, struct pl_err *err)
{
    return ask_json(l, body,
                    (struct pl_http_call){.path = path, .cancel = cancel, .timeout_ms = timeout_ms, .interruptible = true}, ret,
                    err);
}

int pl_daemon_client_post(struct pl_uplink *l, const char *path, const void *data, size_t n, struct pl_err *err)
{
    const struct pl_http_call call = {
        .method = "POST", .path = path, .upload = PL_UPLOAD_BYTES, .bytes = data, .len = n, .interruptible = true};

    return note(l, pl_http_client_call(current(l)->client, &call, NULL, err));
}

/* Reads the URL file: a restarted daemon may listen at another URL. */
static void look_for_url(struct pl_uplink *l)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {.max = 4096};
    char *url;

    if (!l->url_file || pl_io_read_file(l->url_file, &b, NULL) < 0)
        return;
    url = pl_buf_str(&b);
    if (!url)
        return;
    url[strcspn(url, " \t\r\n")] = 0;
    pthread_mutex_lock(&l->lock);
    if (*url && !pl_streq(url, l->current->url))
        (void)!add_endpoint(l, url, NULL); /* if memory runs out here, the old URL is tried again */
    pthread_mutex_unlock(&l->lock);
}

/* True if the folder of the URL file was removed: no daemon will come back there. */
static bool is_folder_gone(const struct pl_uplink *l)
{
    _cleanup_free_ char *folder = l->url_file && l->url_file[0] == '/' ? strdup(l->url_file) : NULL;

    if (!folder)
        return false;
    *PL_MAX(strrchr(folder, '/'), folder + 1) = 0;
    return access(folder, F_OK) < 0 && errno == ENOENT;
}

bool pl_daemon_client_retry(struct pl_uplink *l, int code, unsigned *tries)
{
    struct pollfd wake = {.fd = l->wake_fd, .events = POLLIN};
    const unsigned interrupts = atomic_load(&l->interrupts);
    int64_t since = atomic_load(&l->away_since_ms);
    int wait_ms = PL_MIN(PL_DAEMON_CLIENT_BACKOFF_MS << PL_MIN(*tries, 6u), PL_DAEMON_CLIENT_BACKOFF_MAX);

    if (!pl_daemon_client_is_away(code) || atomic_load(l->stopping))
        return false;
    if (since && (pl_clock_mono_ms() - since > l->orphan_ms || is_folder_gone(l)))
        return false;
    ++*tries;
    for (; wait_ms > 0 && interrupts == atomic_load(&l->interrupts); wait_ms -= INTERRUPT_LOOK_MS)
        if (poll(&wake, 1, PL_MIN(wait_ms, INTERRUPT_LOOK_MS)) > 0)
            break;
    look_for_url(l);
    return !atomic_load(l->stopping);
}

void pl_daemon_client_wake(struct pl_uplink *l)
{
    const uint64_t one = 1;

    (void)!write(l->wake_fd, &one, sizeof(one));
}

void pl_uplink_interrupt(struct pl_uplink *l)
{
    atomic_fetch_add(&l->interrupts, 1);
    pthread_mutex_lock(&l->lock);
    for (struct endpoint *e = l->current; e; e = e->older) {
        pl_http_client_interrupt(e->client);
        for (struct store *s = e->stores; s; s = s->next)
            pl_remote_interrupt(s->remote);
    }
    pthread_mutex_unlock(&l->lock);
}

int pl_uplink_check(const struct pl_uplink_user *user, struct pl_err *err)
{
    return !user || !user->wanted || user->wanted(user->self) ? 0 : pl_err_set(err, PL_ECANCELED, "the work is no longer wanted");
}

/* True if the call was interrupted only so that all readers and writers check `wanted`. The call can then be
 * repeated. */
static bool is_others_interrupt(const struct pl_uplink *l, int code)
{
    return code == PL_ECANCELED && !atomic_load(l->stopping);
}

/* Adds a store to the endpoint, which takes it over from `remote`. Call with the lock held. */
static int add_store(struct endpoint *e, const char *project, struct pl_remote **remote, struct pl_err *err)
{
    struct store *s = calloc(1, sizeof(*s));

    if (s)
        s->project = strdup(project);
    if (!s || !s->project) {
        free(s);
        return pl_err_nomem(err);
    }
    s->remote = TAKE_PTR(*remote);
    s->next = e->stores;
    e->stores = s;
    return 0;
}

/* Gets the endpoint's store of a project, and opens it first if necessary. To open it takes a request, which is made without the
 * lock: pl_uplink_interrupt, which needs the lock, ends it. Of two threads that open the same store the slower one closes its
 * own. */
static int open_store(struct pl_uplink *l, struct endpoint *e, const char *project, struct pl_remote **ret, struct pl_err *err)
{
    _cleanup_(pl_remote_closep) struct pl_remote *opened = NULL;
    struct pl_remote *found;
    int r;

    pthread_mutex_lock(&l->lock);
    found = find_store(e, project);
    pthread_mutex_unlock(&l->lock);
    if (found) {
        *ret = found;
        return 0;
    }
    r = pl_remote_open(e->client, project, &opened, err);
    if (r == 0 && l->store_url)
        r = pl_remote_set_store(opened, l->store_url, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&l->lock);
    if (!find_store(e, project))
        r = add_store(e, project, &opened, err);
    if (r == 0)
        *ret = find_store(e, project);
    pthread_mutex_unlock(&l->lock);
    return r;
}

/* Opens an upload session in the endpoint's store of the stage's project unless it has one. Returns 1, or 0 if another endpoint
 * has become the current one meanwhile: then the caller must use that. Call with session_lock held. */
static int open_session(struct pl_uplink *l, struct endpoint *e, struct pl_remote *remote, struct pl_err *err)
{
    bool has, is_current;
    int r;

    pthread_mutex_lock(&l->lock);
    has = e->in_session;
    is_current = e == l->current;
    pthread_mutex_unlock(&l->lock);
    if (has || !is_current)
        return is_current;
    r = pl_remote_session(remote, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&l->lock);
    is_current = e == l->current;
    e->in_session = is_current;
    pthread_mutex_unlock(&l->lock);
    return is_current;
}

/* Gets the store of the stage's project of the current endpoint, in an upload session; opens both first if necessary. */
static int open_write(struct pl_uplink *l, struct pl_remote **ret, struct pl_err *err)
{
    const unsigned interrupts = atomic_load(&l->interrupts);
    struct endpoint *e;
    int r;

    pthread_mutex_lock(&l->session_lock);
    /* an interrupt ended the request of the thread that held session_lock, and concerns the waiting threads too */
    if (interrupts != atomic_load(&l->interrupts))
        r = pl_err_set(err, PL_ECANCELED, "opening an upload session was canceled");
    else
        do {
            e = current(l);
            r = open_store(l, e, l->project, ret, err);
            r = r < 0 ? r : open_session(l, e, *ret, err);
        } while (r == 0);
    pthread_mutex_unlock(&l->session_lock);
    return note(l, PL_MIN(r, 0));
}

/* Gets the store that `user` reads, of the current endpoint. */
static int open_read(const struct pl_uplink_user *user, struct pl_remote **ret, struct pl_err *err)
{
    struct pl_uplink *l = user->link;

    return note(l, open_store(l, current(l), user->project ? user->project : l->project, ret, err));
}

int pl_daemon_client_open_store(struct pl_uplink *l, const char *project, struct pl_err *err)
{
    struct pl_remote *remote;
    unsigned tries = 0;
    int r;

    free(l->project);
    l->project = strdup(project);
    if (!l->project)
        return pl_err_nomem(err);
    do
        r = open_read(&(struct pl_uplink_user){.link = l}, &remote, err);
    while (r < 0 && (is_others_interrupt(l, r) || pl_daemon_client_retry(l, r, &tries)));
    return r;
}

/* Calls `tell` with the ids that the store on this machine does not have. */
static void announce(const struct pl_uplink_user *user, const struct pl_hash *ids, size_t n,
                     int (*tell)(struct pl_remote *remote, const struct pl_hash *ids, size_t n, struct pl_err *err))
{
    _cleanup_free_ struct pl_hash *absent = user->first && n > 0 ? malloc(n * sizeof(*absent)) : NULL;
    struct pl_remote *remote;
    size_t n_absent = 0;

    for (size_t i = 0; absent && i < n; i++)
        if (!pl_store_has(user->first, &ids[i]))
            absent[n_absent++] = ids[i];
    if (absent) {
        ids = absent;
        n = n_absent;
    }
    if (n > 0 && user->link && open_read(user, &remote, NULL) == 0)
        (void)!tell(remote, ids, n, NULL);
}

void pl_daemon_client_locate(const struct pl_uplink_user *user, const struct pl_hash *ids, size_t n)
{
    announce(user, ids, n, pl_remote_locate);
}

void pl_daemon_client_prefetch(const struct pl_uplink_user *user, const struct pl_hash *ids, size_t n)
{
    announce(user, ids, n, pl_remote_will_read);
}

bool pl_daemon_client_reads_files(const struct pl_uplink_user *user)
{
    struct pl_remote *remote;

    return user->link && open_read(user, &remote, NULL) == 0 && pl_remote_is_local(remote);
}

static int reader_get(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_uplink_user *user = self;
    struct pl_uplink *l = user->link;
    struct pl_remote *remote = NULL;
    unsigned tries = 0;
    int r;

    if (user->first && (!l || pl_store_has(user->first, id))) {
        const struct pl_chunk_reader own = pl_store_chunk_reader(user->first);
        return own.get(own.self, id, kind, ret, err);
    }
    do {
        r = pl_uplink_check(user, err);
        if (r < 0)
            return r;
        r = open_read(user, &remote, err);
        if (r == 0) {
            const struct pl_chunk_reader reader = pl_remote_reader(remote);
            r = note(l, reader.get(reader.self, id, kind, ret, err));
        }
    } while (r < 0 && (is_others_interrupt(l, r) || pl_daemon_client_retry(l, r, &tries)));
    return r;
}

static void reader_will_read(void *self, const struct pl_hash *ids, size_t n)
{
    pl_daemon_client_prefetch(self, ids, n);
}

struct pl_chunk_reader pl_daemon_client_reader(const struct pl_uplink_user *user)
{
    return (struct pl_chunk_reader){.self = (void *)user, .get = reader_get, .will_read = reader_will_read};
}

/* After a sink call failed: true if the upload session may be gone (the daemon was restarted, or the session
 * expired while the command computed) and a new one should be tried. Sets `*renewed` then; false if
 * `*renewed` was already set, so that an operation opens at most one new session. */
static bool session_is_gone(struct pl_uplink *l, int code, bool *renewed)
{
    if (*renewed || (code != PL_ENOTFOUND && code != PL_EINVAL && code != PL_ERETRY))
        return false;
    *renewed = true;
    pthread_mutex_lock(&l->lock);
    l->sessions_ended += l->current->in_session;
    l->current->in_session = false;
    pthread_mutex_unlock(&l->lock);
    return true;
}

uint64_t pl_daemon_client_session(struct pl_uplink *l, char ret[PL_DAEMON_CLIENT_SESSION_BYTES])
{
    uint64_t ended;

    pthread_mutex_lock(&l->lock);
    snprintf(ret, PL_DAEMON_CLIENT_SESSION_BYTES, "%s",
             l->current->in_session ? pl_remote_session_id(find_store(l->current, l->project)) : "");
    ended = l->sessions_ended;
    pthread_mutex_unlock(&l->lock);
    return ended;
}

/* Turns the daemon's errors "disk full", "I/O error" and "out of memory" into PL_EBUSY, so that the call is
 * retried: an operator can fix them, and until then the stage must not fail. */
static int daemons_trouble(int code, struct pl_err *err)
{
    if (code != PL_ENOSPC && code != PL_EIO && code != PL_ENOMEM)
        return code;
    return pl_err_wrap(err, PL_EBUSY, "the daemon cannot store data now");
}

/* One operation on the pack sink, with its arguments and its result. */
struct ask {
    /* performs the operation */
    int (*step)(const struct pl_pack_sink *sink, const struct ask *a, struct pl_err *err);
    const struct pl_hash *ids; /* id of the pack to put, or the ids to look up */
    const void *bytes;
    size_t n;
    uint8_t *ret_bitmap;
};

/* Makes one attempt at an operation of the pack sink, in an upload session. */
static int ask_once(struct pl_uplink *l, const struct ask *a, struct pl_err *err)
{
    struct pl_remote *remote;
    int r = open_write(l, &remote, err);

    if (r == 0) {
        const struct pl_pack_sink sink = pl_remote_sink(remote);
        r = note(l, a->step(&sink, a, err));
    }
    return r < 0 ? daemons_trouble(r, err) : r;
}

/* Performs an operation of the pack sink. Retries while the daemon is away or has no space, for at most
 * orphan_ms, and retries once with a new upload session. */
static int ask(const struct pl_uplink_user *user, const struct ask *a, struct pl_err *err)
{
    struct pl_uplink *l = user->link;
    const int64_t since_ms = pl_clock_mono_ms();
    unsigned tries = 0, said = 0;
    bool renewed = false;
    struct pl_err why = {0};
    int r;

    while ((r = pl_uplink_check(user, &why)) == 0 && (r = ask_once(l, a, &why)) < 0) {
        if (session_is_gone(l, r, &renewed) || is_others_interrupt(l, r))
            continue;
        if (!pl_daemon_client_down(l) && r == PL_EBUSY && said++ == 0)
            pl_log_warn("uplink", "%s: trying again", why.msg);
        if (pl_clock_mono_ms() - since_ms > l->orphan_ms || !pl_daemon_client_retry(l, r, &tries))
            break;
    }
    if (r < 0 && err)
        *err = why;
    return r;
}

static int step_has(const struct pl_pack_sink *sink, const struct ask *a, struct pl_err *err)
{
    return sink->has(sink->self, a->ids, a->n, a->ret_bitmap, err);
}

static int step_put(const struct pl_pack_sink *sink, const struct ask *a, struct pl_err *err)
{
    return sink->put_pack(sink->self, a->ids, a->bytes, a->n, err);
}

static int step_flush(const struct pl_pack_sink *sink, const struct ask *a, struct pl_err *err)
{
    (void)a;
    return sink->flush ? sink->flush(sink->self, err) : 0;
}

static int sink_has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    return ask(self, &(struct ask){.step = step_has, .ids = ids, .n = n, .ret_bitmap = ret_bitmap}, err);
}

static int sink_put(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    return ask(self, &(struct ask){.step = step_put, .ids = pack_id, .bytes = bytes, .n = n}, err);
}

static int sink_flush(void *self, struct pl_err *err)
{
    return ask(self, &(struct ask){.step = step_flush}, err);
}

struct pl_pack_sink pl_daemon_client_sink(const struct pl_uplink_user *user)
{
    return (struct pl_pack_sink){.self = (void *)user, .has = sink_has, .put_pack = sink_put, .flush = sink_flush};
}
