/* Starts and stops the daemon: opens the rooms in the order in which they depend on each other, handles
 * signals, and closes the rooms in reverse order. */
#include "pipelined/daemon/daemon.h"

#include "pipelined/daemon/kube_settings.h"
#include "pipelined/daemon/listen_policy.h"
#include "pipelined/daemon/log_checkpoint_schedule.h"
#include "pipelined/daemon/user_connections.h"
#include "pipelined/engine/engine.h"

#include "pipelined/api/answer_routes/answer_routes.h"
#include "pipelined/api/data_routes/data_routes.h"
#include "pipelined/api/origin_routes/origin_routes.h"
#include "pipelined/api/run_routes/run_routes.h"
#include "pipelined/api/server/api.h"
#include "pipelined/db/gc/recovery_prune.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/db/writer/db_recover.h"
#include "pipelined/db/writer/log_watch.h"
#include "pipelined/exec/kubernetes/kubernetes.h"
#include "pipelined/exec/local/local.h"
#include "pipelined/net/server/tls.h"
#include "pipelined/notify/notify.h"
#include "pipelined/s3gateway/gateway/gateway.h"
#include "pipelined/source/source.h"
#include "storage/base/clock.h"
#include "storage/http/outbound.h"
#include "storage/object/store_marker.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#define EXIT_FENCED    75
#define DB_READERS     4
#define POOL_QUEUE_MAX 65536
#define POOL_WAITING   16
/* threads beyond one per core, with a local store; slow work has at most half of a pool: quick work finds one */
#define POOL_LOCAL       4
#define STOP_DEADLINE_MS 3000
#define DRAIN_TURN_MS    10
#define HOSTS_MAX        32
#define LOOK_MS          10000   /* interval of disk checks */
#define KEEP_FIRST_MS    600000  /* delay of the first retention pass after the start, in ms */
#define KEEP_MS          3600000 /* interval of the later retention passes, in ms */

struct daemon {
    const struct pl_config *config;
    char *store_url, *store_dir; /* the store's URL, and its folder ("" for a bucket); set by name_store */
    struct pl_object_store *objects;
    struct pl_project_stores *stores;
    struct pl_db *db;
    struct pl_stage_logs *logs;
    /* schedule of log checkpoints; the writer thread reports log objects to it */
    struct pl_log_ckpt *_Atomic ckpt;
    struct pl_loop *loop;
    struct pl_pool *pool;
    struct pl_engine *engine;
    struct pl_executor *executor;
    struct pl_pipeline_host pipelines; /* what setting a pipeline needs */
    struct pl_outbound *outbound;      /* servers that may be connected to for users */
    struct pl_sources *sources;        /* the git repositories that are followed; handlers of the API use them */
    /* the notification rules; handlers of the API use them, and the database's writer thread tells of events */
    struct pl_notify *_Atomic notify;
    struct pl_kube_settings kube; /* settings of pods, for --executor kubernetes */
    struct pl_api *_Atomic api;   /* the API; the database's writer thread sends events to it */
    /* the S3 gateway; handlers of the API use it; NULL = no gateway, or not started yet */
    struct pl_s3 *_Atomic s3;
    struct pl_timer *drain_timer, *look_timer, *keep_timer;
    char token[65];
    uint8_t master_key[32];
    char *hosts_text;
    const char *hosts[HOSTS_MAX];
    int exit_code;
    bool draining, url_written, s3_url_written;
};

/* ---- the data folder ---- */

static int make_folders(const struct daemon *d, struct pl_err *err)
{
    static const char *const folders[] = {"", "/index", "/cache", "/logs", "/work", "/open", "/secrets", "/tmp"};
    char path[4096];

    for (size_t i = 0; i < PL_ARRAY_SIZE(folders); i++) {
        int r;

        if (snprintf(path, sizeof path, "%s%s", d->config->data, folders[i]) >= (int)sizeof path)
            return pl_err_set(err, PL_EINVAL, "--data is longer than %zu bytes", sizeof path - 16);
        r = pl_io_mkdirs(path, 0700, err);
        if (r < 0)
            return pl_err_wrap(err, r, "--data");
    }
    return 0;
}

/* Reads a secret of `n` bytes from the file DIR/name (hex, mode 0600). If the file does not exist, creates it
 * with a random secret. */
static int secret_file(const struct daemon *d, const char *name, char *hex, size_t n, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = 4096};
    uint8_t bytes[64];
    char path[4096];
    int r;

    snprintf(path, sizeof path, "%s/%s", d->config->data, name);
    r = pl_io_read_file(path, &text, err);
    if (r == 0) {
        while (text.len && (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == ' '))
            text.len--;
        if (text.len != 2 * n)
            return pl_err_set(err, PL_EINVAL,
                              "%s does not hold %zu hex digits: put the old file back, or remove it so that a new one is made",
                              path, 2 * n);
        memcpy(hex, text.data, text.len);
        hex[text.len] = '\0';
        return 0;
    }
    if (r != PL_ENOTFOUND)
        return r;
    pl_random_bytes(bytes, n);
    pl_hex_encode(bytes, n, hex);
    return pl_io_write_file(path, hex, 2 * n, 0600, err);
}

static int read_secrets(struct daemon *d, struct pl_err *err)
{
    char hex[65];
    int r = secret_file(d, "token", d->token, 32, err);

    r = r < 0 ? r : secret_file(d, "master.key", hex, 32, err);
    if (r == 0 && !pl_hex_decode(hex, d->master_key, sizeof d->master_key))
        r = pl_err_set(err, PL_EINVAL,
                       "%s/master.key does not hold hex digits: put the old file back; without it S3 keys are lost",
                       d->config->data);
    return r;
}

static int write_s3_url(struct daemon *d, struct pl_err *err)
{
    char path[4096], url[400];
    int n = snprintf(url, sizeof url, "%s\n", pl_s3_url(d->s3));

    snprintf(path, sizeof path, "%s/s3.url", d->config->data);
    d->s3_url_written = true;
    return pl_io_write_file(path, url, (size_t)n, 0600, err);
}

static int write_url(struct daemon *d, struct pl_err *err)
{
    char path[4096], url[300];
    int n = snprintf(url, sizeof url, "%s\n", pl_api_local_url(d->api));

    snprintf(path, sizeof path, "%s/pipelined.url", d->config->data);
    d->url_written = true;
    return pl_io_write_file(path, url, (size_t)n, 0600, err);
}

/* ---- events and shutdown ---- */

static bool with_pods(const struct daemon *d)
{
    return pl_streq(d->config->executor, "kubernetes");
}

static void on_event(void *arg, int64_t id, int64_t at_us, const char *type, const char *data)
{
    struct daemon *d = arg;

    if (d->api)
        pl_api_event(d->api, id, at_us, type, data);
    if (d->notify)
        pl_notify_event(d->notify);
}

static void on_logged(void *arg, uint64_t seq)
{
    struct daemon *d = arg;

    pl_log_ckpt_logged(d->ckpt, seq);
}

static void stop_loop(void *arg)
{
    struct daemon *d = arg;

    pl_loop_stop(d->loop);
}

static void on_fatal(void *arg, const struct pl_err *err)
{
    struct daemon *d = arg;

    pl_log_error("daemon", "stopping: %s", err->msg);
    d->exit_code = EXIT_FENCED;
    pl_loop_stop(d->loop);
}

static void on_pack_state(void *arg, const char *project, const struct pl_hash *pack, const char *state)
{
    struct daemon *d = arg;

    pl_pack_state(d->stores, project, pack, state);
}

static void on_worker_refused(void *arg, const struct pl_http_request *req)
{
    const struct daemon *d = arg;

    if (d->api)
        pl_api_audit_worker_refused(d->api, req);
}

static void on_engine_failed(void *arg, const char *what)
{
    struct daemon *d = arg;

    pl_log_error("daemon", "stopping: %s; the next start continues the work that was under way", what);
    d->exit_code = 1;
    pl_loop_stop(d->loop);
}

/* Called when no task runs any more or the drain time has passed: shuts the workers down, then stops the
 * loop. */
static void drained(void *arg)
{
    struct daemon *d = arg;

    d->executor->ops->shutdown(d->executor, false, stop_loop, d);
}

/* Called on SIGTERM and SIGINT. The first signal starts the drain. A second signal stops the daemon at once,
 * as does the end of the drain time, or any signal while a start that failed is undone. */
static void on_signal(void *arg)
{
    struct daemon *d = arg;

    if (d->draining || !d->api) {
        pl_loop_stop(d->loop);
        return;
    }
    d->draining = true;
    pl_api_drain(d->api);
    if (with_pods(d)) {
        pl_log_info("daemon", "stopping: pods continue to run, and report their results after the daemon's next start");
        drained(d);
        return;
    }
    pl_log_info("daemon", "stopping: waiting for the tasks that are running");
    pl_timer_start(d->drain_timer, (uint64_t)d->config->drain_ms);
    pl_engine_drain(d->engine, drained, d);
}

/* ---- disks ---- */

static void look_at_disks(void *arg)
{
    struct daemon *d = arg;

    pl_api_check_disks(d->api);
}

/* Starts a check of the disks on the pool. If the pool is full, no check is needed: the requests in its queue
 * check the disks, too. */
static void on_look(void *arg)
{
    struct daemon *d = arg;

    (void)!pl_pool_submit(d->pool, look_at_disks, d, NULL);
    pl_timer_start(d->look_timer, LOOK_MS);
}

/* ---- retention ---- */

static void keep_now(void *arg)
{
    struct daemon *d = arg;

    pl_api_run_retention(d->api);
}

static void on_keep(void *arg)
{
    struct daemon *d = arg;

    (void)!pl_pool_submit(d->pool, keep_now, d, NULL); /* if the pool is full, the next pass is in an hour */
    pl_timer_start(d->keep_timer, KEEP_MS);
}

/* ---- start ---- */

/* Sets d->store_url to the URL of --store, and d->store_dir to the store's folder if it is a local one, else
 * to "". */
static int name_store(struct daemon *d, struct pl_err *err)
{
    const char *url = d->config->store;
    int n = *url ? asprintf(&d->store_url, "%s", url) : asprintf(&d->store_url, "file://%s/store", d->config->data);

    if (n < 0) {
        d->store_url = NULL;
        return pl_err_nomem(err);
    }
    d->store_dir = strdup(strncmp(d->store_url, "file:///", 8) == 0 ? d->store_url + 7 : "");
    return d->store_dir ? 0 : pl_err_nomem(err);
}

/* Opens the object storage of the store, with the settings of the configuration. */
static int open_objects(struct daemon *d, struct pl_err *err)
{
    const struct pl_config *c = d->config;
    char tmp[4096], cache[4096];
    struct pl_object_config o = {.url = d->store_url,
                                 .driver = c->store_driver,
                                 .endpoint = c->store_endpoint,
                                 .region = c->store_region,
                                 .style = c->store_style,
                                 .worker_endpoint = c->store_worker_endpoint,
                                 .ca = c->store_ca,
                                 .profile = c->store_profile,
                                 .access_key = c->store_access_key,
                                 .secret_key = c->store_secret_key,
                                 .session_token = c->store_session_token,
                                 .tmp_dir = tmp,
                                 .cache_dir = cache,
                                 .cache_bytes = (uint64_t)c->store_cache_mib << 20,
                                 .exclusive = c->store_exclusive,
                                 .probe = true};

    snprintf(tmp, sizeof tmp, "%s/tmp", c->data);
    snprintf(cache, sizeof cache, "%s/cache/packs", c->data);
    return pl_object_open(&o, &d->objects, err);
}

static int open_store(struct daemon *d, struct pl_err *err)
{
    struct pl_store_marker marker;
    char index[4096];
    int r = name_store(d, err);

    r = r < 0 ? r : open_objects(d, err);
    if (r == 0) {
        r = pl_store_marker_init(d->objects, &marker, err);
        r = r < 0 ? pl_err_wrap(err, r, "store %s", d->store_url) : 0;
    }
    if (r < 0)
        return r;
    snprintf(index, sizeof index, "%s/index", d->config->data);
    return pl_project_stores_open(d->objects, index, &d->stores, err);
}

/* Returns the number of the pool's threads. They hash, read and write; with a remote store they spend most of
 * the time waiting for it, so more threads are useful. */
static unsigned pool_threads(const struct daemon *d)
{
    return pl_cores() + (*d->store_dir ? POOL_LOCAL : POOL_WAITING);
}

static void tell_recovered(const struct pl_recover_report *r)
{
    const json_t *text;
    size_t i;

    if (!r->recovered)
        return;
    pl_log_info("daemon", "the folder was empty: recovered from checkpoint %llu and the log up to %llu",
                (unsigned long long)r->ckpt_seq, (unsigned long long)r->log_seq);
    if (r->passed_over)
        pl_log_warn("daemon", "skipped %u damaged checkpoints: %s", r->passed_over, r->why);
    json_array_foreach(r->anew, i, text)
    {
        pl_log_warn("daemon", "created new: %s", json_string_value(text));
    }
}

/* Opens the database and the stage logs. If the database was recovered from the store, first removes from it
 * what the store no longer has. */
static int open_db(struct daemon *d, struct pl_err *err)
{
    struct pl_db_config c = {.dir = d->config->data,
                             .objects = d->objects,
                             .readers = DB_READERS,
                             .watch_ms = PL_LOG_WATCH_MS,
                             .fatal = on_fatal,
                             .event = on_event,
                             .logged = on_logged,
                             .pack_state = on_pack_state,
                             .arg = d};
    char logs[4096];
    int r = pl_db_open(&c, &d->db, err);

    if (r < 0)
        return r;
    pl_project_stores_on_open(d->stores, pl_gc_store_opened, d->db);
    tell_recovered(pl_db_recovered(d->db));
    r = pl_recovery_prune_results(d->db, d->stores, err);
    snprintf(logs, sizeof logs, "%s/logs", d->config->data);
    return r < 0 ? r : pl_stage_logs_open(logs, d->db, d->stores, &d->logs, err);
}

static int start_ckpt(struct daemon *d, struct pl_err *err)
{
    char cache[4096];
    const struct pl_log_ckpt_config c = {
        .db = d->db, .loop = d->loop, .pool = d->pool, .dir = cache, .every = (uint64_t)d->config->checkpoint_every};
    struct pl_log_ckpt *ckpt = NULL;

    snprintf(cache, sizeof cache, "%s/cache", d->config->data);
    const int r = pl_log_ckpt_create(&c, &ckpt, err);
    d->ckpt = ckpt;
    return r;
}

static int start_local(struct daemon *d, struct pl_err *err)
{
    const struct pl_exec_local_config c = {.loop = d->loop,
                                           .data_dir = d->config->data,
                                           .store_dir = d->store_dir,
                                           .ca = d->config->store_ca,
                                           .sandbox = d->config->sandbox,
                                           .podman = d->config->podman,
                                           .gpus = (int)d->config->gpus,
                                           .events = pl_engine_executor_events(d->engine)};

    return pl_exec_local_create(&c, &d->executor, err);
}

/* Implements pl_exec_kubernetes_config.is_owner. */
static bool is_owner(void *db, bool look)
{
    return pl_db_is_owner(db, look);
}

/* Starts the executor that runs workers as pods. The URL by which pods reach the daemon is set later, when
 * the daemon listens. */
static int start_kubernetes(struct daemon *d, struct pl_err *err)
{
    const struct pl_config_kube *k = &d->config->kube;
    struct pl_exec_kubernetes_config c = {.loop = d->loop,
                                          .kubeconfig = k->kubeconfig,
                                          .context = k->context,
                                          .settings = &d->kube.pods,
                                          .gpu_shapes = k->gpu_shapes,
                                          .data_dir = d->config->data,
                                          .trusted = d->kube.trusted,
                                          .epoch = pl_db_epoch(d->db),
                                          .is_owner = is_owner,
                                          .is_owner_arg = d->db,
                                          .events = pl_engine_executor_events(d->engine)};
    int r = pl_kube_settings_read(d->config, pl_db_store_id(d->db), &d->kube, err);

    c.n_trusted = d->kube.n_trusted;
    return r < 0 ? r : pl_exec_kubernetes_create(&c, &d->executor, err);
}

/* Creates the engine and its executor. */
static int start_engine(struct daemon *d, struct pl_err *err)
{
    struct pl_engine_config c = {.db = d->db,
                                 .stores = d->stores,
                                 .logs = d->logs,
                                 .loop = d->loop,
                                 .pool = d->pool,
                                 .master_key = d->master_key,
                                 .epoch = pl_db_epoch(d->db),
                                 .linger_ms = d->config->linger_ms ? d->config->linger_ms : -1,
                                 .refused = on_worker_refused,
                                 .refused_arg = d,
                                 .failed = on_engine_failed,
                                 .failed_arg = d};
    int r = pl_engine_create(&c, &d->engine, err);

    if (r < 0)
        return r;
    r = with_pods(d) ? start_kubernetes(d, err) : start_local(d, err);
    if (r == 0)
        pl_engine_take_executor(d->engine, d->executor);
    return r;
}

static void split_hosts(struct daemon *d)
{
    size_t n = 0;
    char *save = NULL;

    d->hosts_text = strdup(d->config->hosts);
    for (char *h = d->hosts_text ? strtok_r(d->hosts_text, ", ", &save) : NULL; h && n < HOSTS_MAX - 1;
         h = strtok_r(NULL, ", ", &save))
        d->hosts[n++] = h;
}

/* ---- TLS and listeners ---- */

static void look_at_certificate(void *arg)
{
    (void)arg;
    pl_tls_look();
}

static void on_hangup(void *arg)
{
    struct daemon *d = arg;

    if (pl_pool_submit(d->pool, look_at_certificate, NULL, NULL) < 0)
        pl_log_warn("daemon", "the certificate is checked within %d s", PL_HTTP_TLS_LOOK_MS / 1000);
}

static bool with_tls(const struct daemon *d)
{
    return *d->config->tls_cert || *d->config->tls_key;
}

static int open_listeners(struct daemon *d, struct pl_err *err)
{
    const struct pl_config *c = d->config;
    int r = pl_listen_policy_check("--listen", c->listen, with_tls(d), c->behind_proxy, err);

    if (r == 0 && *c->s3_listen)
        r = pl_listen_policy_check("--s3-listen", c->s3_listen, with_tls(d), c->behind_proxy, err);
    if (r == 0 && *c->proxy_header && !c->behind_proxy)
        r = pl_err_hint(
            err, pl_err_set(err, PL_EINVAL, "auth.proxy_header is set without --behind-proxy"),
            "Give --behind-proxy if all requests come through a proxy; without a proxy, leave auth.proxy_header out.");
    if (r < 0 || !with_tls(d))
        return r;
    if (!*c->tls_cert || !*c->tls_key)
        return pl_err_set(err, PL_EINVAL, "%s is given without %s: TLS needs both", *c->tls_cert ? "--tls-cert" : "--tls-key",
                          *c->tls_cert ? "--tls-key" : "--tls-cert");
    return pl_tls_open(c->tls_cert, c->tls_key, err);
}

/* ---- the S3 gateway ---- */

static void uploads_dir(const struct daemon *d, char ret[4096])
{
    snprintf(ret, 4096, "%s/uploads", d->config->data);
}

static const char *s3_url(void *arg)
{
    const struct daemon *d = arg;
    const struct pl_s3 *s3 = d->s3;

    return s3 ? pl_s3_url(s3) : "";
}

static void on_repo_deleted(void *arg, int64_t repo_id)
{
    const struct daemon *d = arg;

    pl_s3_drop_repo(d->s3, repo_id);
}

static int keep_uploads(void *arg, const char *project, int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err),
                        void *self, struct pl_err *err)
{
    const struct daemon *d = arg;
    char dir[4096];

    uploads_dir(d, dir);
    return pl_s3_gc_roots(d->s3, dir, d->db, project, fn, self, err);
}

static int start_s3(struct daemon *d, struct pl_err *err)
{
    char dir[4096];
    struct pl_s3_config config = {
        .listen = d->config->s3_listen, .domain = d->config->s3_domain, .cors = d->config->s3_cors, .dir = dir};
    struct pl_s3 *s3 = NULL;
    int r;

    uploads_dir(d, dir);
    r = pl_s3_start(pl_api_services_of(d->api), &config, &s3, err);
    d->s3 = s3;
    return r < 0 ? r : write_s3_url(d, err);
}

/* ---- start and stop ---- */

/* Starts following git repositories. */
static int start_sources(struct daemon *d, struct pl_err *err)
{
    const struct pl_engine_ops *engine = pl_engine_api_ops();
    const struct pl_sources_config c = {.host = &d->pipelines,
                                        .data_dir = d->config->data,
                                        .local_folders = d->config->git_local,
                                        .outbound = d->outbound,
                                        .public_url = d->config->public_url};
    const bool local = pl_streq(d->config->executor, "local");

    d->pipelines =
        (struct pl_pipeline_host){.db = d->db,
                                  .stores = d->stores,
                                  .local = local,
                                  .no_sandbox = local && pl_streq(d->config->sandbox, "none"),
                                  .confirm_above_s =
                                      d->config->confirm_above < 0 ? -1 : PL_MIN(d->config->confirm_above, INT32_MAX) * 3600,
                                  .check_stages = engine->check_stages,
                                  .pipelines_changed = engine->pipelines_changed,
                                  .run_created = engine->run_created,
                                  .secrets = engine->secrets,
                                  .engine = d->engine};
    return pl_sources_start(&c, &d->sources, err);
}

/* Starts sending notifications. */
static int start_notify(struct daemon *d, struct pl_err *err)
{
    struct pl_notify *notify = NULL;
    int r = pl_user_connections_notify(d->db, d->stores, d->outbound, d->engine, &notify, err);

    d->notify = notify;
    return r;
}

/* Starts the API, then the S3 gateway, then garbage collection, which must keep the data of the gateway's uploads. */
static int start_api(struct daemon *d, struct pl_err *err)
{
    static const struct pl_api_tables *const tables[] = {&pl_api_data_routes, &pl_api_run_routes, &pl_api_answer_routes,
                                                         &pl_api_origin_routes, NULL};
    struct pl_api_config c = {.db = d->db,
                              .stores = d->stores,
                              .logs = d->logs,
                              .loop = d->loop,
                              .pool = d->pool,
                              .engine = pl_engine_api_ops(),
                              .engine_self = d->engine,
                              .data_dir = d->config->data,
                              .executor = d->config->executor,
                              .no_sandbox = d->pipelines.no_sandbox,
                              .version = PL_VERSION,
                              .token = d->token,
                              .master_key = d->master_key,
                              .listen = d->config->listen,
                              .tls = with_tls(d),
                              .per_address = with_tls(d) && !d->config->behind_proxy ? PL_HTTP_ADDRESS_MAX : 0,
                              .hosts = d->hosts,
                              .public_url = d->config->public_url,
                              .worker_url = d->config->worker_url,
                              .proxy_header = d->config->proxy_header,
                              .proxy_addresses = d->config->proxy_addresses,
                              .pipelines = &d->pipelines,
                              .sources = d->sources,
                              .notify = d->notify,
                              .gc_every_ms = d->config->gc_every_ms,
                              .tables = tables,
                              .s3_url = s3_url,
                              .repo_deleted = on_repo_deleted,
                              .gc_keep = keep_uploads,
                              .gateway_self = d};
    struct pl_api *api = NULL;
    int r;

    c.store_url = d->store_url;
    c.store_dir = d->store_dir;
    c.more_routes = pl_engine_routes(d->engine, &c.n_more_routes);
    r = pl_api_start(&c, &api, err);
    d->api = api;
    r = r < 0 || !*d->config->s3_listen ? r : start_s3(d, err);
    r = r < 0 ? r : pl_api_gc_start(api, err);
    return r < 0 ? r : write_url(d, err);
}

/* Opens all parts of the daemon, in order. */
static int start(struct daemon *d, struct pl_err *err)
{
    int r = open_listeners(d, err);

    r = r < 0 ? r : make_folders(d, err);
    r = r < 0 ? r : read_secrets(d, err);
    r = r < 0 ? r : pl_loop_create(&d->loop, err);
    r = r < 0 ? r : pl_timer_create(d->loop, "daemon.drain", drained, d, &d->drain_timer, err);
    r = r < 0 ? r : pl_loop_on_signal(d->loop, SIGTERM, "daemon.sigterm", on_signal, d, err);
    r = r < 0 ? r : pl_loop_on_signal(d->loop, SIGINT, "daemon.sigint", on_signal, d, err);
    r = r < 0 || !with_tls(d) ? r : pl_loop_on_signal(d->loop, SIGHUP, "daemon.sighup", on_hangup, d, err);
    r = r < 0 ? r : open_store(d, err);
    r = r < 0 ? r : open_db(d, err);
    r = r < 0 ? r : pl_pool_create("storage", pool_threads(d), POOL_QUEUE_MAX, &d->pool, err);
    r = r < 0 ? r : start_ckpt(d, err);
    r = r < 0 ? r : start_engine(d, err);
    split_hosts(d);
    r = r < 0 ? r : pl_timer_create(d->loop, "daemon.look", on_look, d, &d->look_timer, err);
    r = r < 0 ? r : pl_timer_create(d->loop, "daemon.keep", on_keep, d, &d->keep_timer, err);
    r = r < 0 ? r : pl_user_connections_read(d->config, &d->outbound, err);
    r = r < 0 ? r : start_sources(d, err);
    r = r < 0 ? r : start_notify(d, err);
    r = r < 0 ? r : start_api(d, err);
    r = r < 0 || !with_pods(d) ? r : pl_kube_settings_url(&d->kube, d->config, pl_api_local_url(d->api), err);
    if (r == 0) {
        pl_timer_start(d->look_timer, LOOK_MS);
        pl_timer_start(d->keep_timer, KEEP_FIRST_MS);
    }
    return r < 0 ? r : pl_engine_start(d->engine, err);
}

/* Runs the functions that the database and the pool have posted to the loop, and those that these functions
 * post in turn. */
static void run_posted(struct daemon *d)
{
    for (int i = 0; d->loop && i < 3; i++) {
        pl_loop_stop(d->loop);
        pl_loop_run(d->loop);
    }
}

/* Waits until the pool has no jobs and the threads of sources and notifications have ended. Runs the loop meanwhile, because they may wait
 * until a function has run on the loop. */
static void drain_pool(struct daemon *d)
{
    while (d->pool && (!pl_pool_drain_for(d->pool, DRAIN_TURN_MS) || !pl_sources_drained(d->sources, DRAIN_TURN_MS) ||
                       !pl_notify_drained(d->notify, DRAIN_TURN_MS)))
        run_posted(d);
    run_posted(d);
}

/* Stops and closes all parts of the daemon; each of them may not have been opened. */
static void stop(struct daemon *d)
{
    char path[4096];

    pl_timer_destroy(d->look_timer);
    pl_timer_destroy(d->keep_timer);
    pl_sources_drain(d->sources);
    pl_notify_drain(d->notify);
    pl_log_ckpt_stop(d->ckpt);
    if (d->engine)
        pl_engine_hang_up(d->engine);
    /* run the functions that request handlers posted to the loop before it stopped, so that these requests
     * get a reply */
    run_posted(d);
    if (d->api)
        pl_api_drain(d->api);
    /* the gateway must stop before the open commits do, which are stopped with the API */
    pl_s3_stop(d->s3, STOP_DEADLINE_MS);
    if (d->api)
        pl_api_stop(d->api, STOP_DEADLINE_MS);
    /* after a second signal or an error, workers may still run: kill them, and run the loop until they
     * have ended */
    if (d->executor) {
        d->executor->ops->shutdown(d->executor, true, stop_loop, d);
        pl_loop_run(d->loop);
    }
    drain_pool(d);
    pl_sources_destroy(d->sources);
    pl_engine_detach(d->engine);
    if (d->db)
        pl_db_stop(d->db);
    d->notify = pl_notify_destroy(d->notify); /* the database tells it of events until it has stopped */
    pl_outbound_destroy(d->outbound);
    pl_pool_destroy(d->pool);
    run_posted(d);
    pl_engine_destroy(d->engine);
    pl_executor_destroy(d->executor);
    d->s3 = pl_s3_destroy(d->s3);
    pl_api_destroy(d->api);
    pl_tls_close();
    pl_log_ckpt_destroy(d->ckpt);
    pl_db_close(d->db);
    pl_timer_destroy(d->drain_timer);
    if (d->loop)
        pl_loop_destroy(d->loop);
    pl_stage_logs_close(d->logs);
    pl_project_stores_close(d->stores);
    pl_object_close(d->objects);
    free(d->store_url);
    free(d->store_dir);
    free(d->hosts_text);
    pl_kube_settings_finish(&d->kube);
    snprintf(path, sizeof path, "%s/pipelined.url", d->config->data);
    if (d->url_written)
        unlink(path);
    snprintf(path, sizeof path, "%s/s3.url", d->config->data);
    if (d->s3_url_written)
        unlink(path);
}

/* Raises the limit of open files, starts the daemon, serves requests until a signal arrives, and stops. */
int pl_daemon_run(const struct pl_config *config)
{
    struct daemon d = {.config = config};
    struct rlimit files = {0};
    struct pl_err err = {0};

    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (start(&d, &err) < 0) {
        fprintf(stderr, "pipelined: %s\n%s%s%s", err.msg, *err.hint ? "  " : "", err.hint, *err.hint ? "\n" : "");
        d.exit_code = err.code == PL_EFENCED ? EXIT_FENCED : 1;
    } else {
        pl_log_info("daemon", "serving, folder %s, port %u", config->data, pl_api_port(d.api));
        pl_loop_run(d.loop);
    }
    stop(&d);
    return d.exit_code;
}
