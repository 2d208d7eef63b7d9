/* api_fixture: the whole API in this process on a folder of its own, with an engine that only notes what it is told, and short ways to
 * ask it. Every test begins with an empty store. */
#pragma once

#include "tests/unit/http_fixture.h"

#include "pipelined/api/data_routes/data_routes.h"
#include "pipelined/api/run_routes/run_routes.h"
#include "pipelined/api/server/api.h"
#include "pipelined/db/tx/commit_tx.h"
#include "pipelined/db/tx/job_tx.h"
#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/spec/spec.h"
#include "storage/object/store_marker.h"
#include "storage/store/project_stores.h"
#include "storage/system/io.h"
#include "storage/tree_edit/tree_ops.h"
#include <stdatomic.h>

#define TOKEN        "token-of-the-daemon"
#define WORKER_TOKEN "plw_7_good"
#define GONE_TOKEN   "plw_8_gone"
#define AS_USER      "Authorization: Bearer " TOKEN "\r\n"
#define AS_WORKER    "Authorization: Bearer " WORKER_TOKEN "\r\n"
#define RUNS_MAX     64

static struct {
    char dir[64], data[96];
    struct pl_object_store *objects;
    struct pl_stores *stores;
    struct pl_db *db;
    struct pl_api *api;
    _Atomic(struct pl_api *) told;      /* events go there */
    char runs[RUNS_MAX][PL_ID_HEX + 1]; /* that the engine was told of; under `lock` */
    unsigned n_runs;
} t;

static inline void engine_run_created(void *self, const char *run)
{
    (void)self;
    pthread_mutex_lock(&lock);
    if (t.n_runs < RUNS_MAX)
        snprintf(t.runs[t.n_runs++], PL_ID_HEX + 1, "%s", run);
    pthread_mutex_unlock(&lock);
}

static inline void engine_network_changed(void *self, const char *project)
{
    (void)self;
    (void)project;
}

static inline void engine_pipelines_changed(void *self, const char *run)
{
    (void)self;
    (void)run;
}

static inline json_t *engine_live(void *self)
{
    (void)self;
    return json_object();
}

/* Worker 7 serves stage "worked" of the project default; 8 is gone. */
static inline int engine_worker(void *self, const char *token, struct pl_principal **ret, struct pl_err *err)
{
    (void)self;
    if (pl_streq(token, WORKER_TOKEN))
        return pl_principal_worker(7, 1, "default", "worked", ret, err);
    if (pl_streq(token, GONE_TOKEN))
        return pl_principal_worker(8, 0, "", "", ret, err);
    return pl_err_set(err, PL_EAUTH, "no worker's");
}

/* It keeps none. */
static inline int engine_secrets(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    (void)self;
    (void)err;
    if (op->what == PL_SECRET_LIST)
        *ret = json_array();
    return 0;
}

/* Its workers are no containers. */
static inline int engine_container_log(void *self, const char *project, const char *stage, const struct pl_container_log_ask *ask,
                                       struct pl_http_stream_ops *ret, struct pl_err *err)
{
    (void)self, (void)project, (void)stage, (void)ask, (void)ret;
    return pl_err_set(err, PL_EUNAVAILABLE, "no containers");
}

static inline int engine_check_stages(void *self, const struct pl_spec *spec, bool strict, json_t *warnings, struct pl_err *err)
{
    (void)self;
    (void)err;
    for (size_t i = 0; strict && i < spec->n_stages; i++)
        json_array_append_new(warnings, json_sprintf("stage %s was looked at", spec->stages[i].name));
    return 0;
}

/* A test may give it another store than a folder. */
static struct pl_object_store *(*api_store)(void);
/* A test may give it more to do. */
static struct pl_engine_ops api_engine = {.run_created = engine_run_created,
                                          .pipelines_changed = engine_pipelines_changed,
                                          .network_changed = engine_network_changed,
                                          .check_stages = engine_check_stages,
                                          .live = engine_live,
                                          .secrets = engine_secrets,
                                          .container_log = engine_container_log,
                                          .worker = engine_worker};

static inline void on_fatal(void *arg, const struct pl_err *err)
{
    (void)arg;
    fail_msg("the database stopped: %s", err->msg);
}

static inline void on_event(void *arg, int64_t id, int64_t at_us, const char *type, const char *data)
{
    struct pl_api *api = atomic_load(&t.told);

    (void)arg;
    if (api)
        pl_api_event(api, id, at_us, type, data);
}

/* A route of the daemon's own, as the workers' are. */
static inline void on_worker_route(struct pl_http_request *req, void *arg)
{
    (void)arg;
    pl_http_reply_json(req, 200, json_pack("{s:b}", "worked", 1));
}
static const struct pl_http_route more_routes[] = {
    {"POST", "/api/v1/worker/attach", PL_ON_LOOP, PL_BODY_JSON, 0, on_worker_route, NULL, PL_VERB_WORK}};

#define MUST(call)                                                                                                               \
    do {                                                                                                                         \
        struct pl_err err = {0};                                                                                                 \
        int must_r_ = (int)(call);                                                                                               \
        if (must_r_ < 0)                                                                                                         \
            fail_msg("%s: %d %s", #call, must_r_, err.msg);                                                                      \
    } while (0)

static inline void api_begin(void)
{
    static const char *const hosts[] = {"data.example", NULL};
    static const struct pl_api_tables *const tables[] = {&pl_api_data_routes, &pl_api_run_routes, NULL};
    struct pl_api_config config = {.db = t.db,
                                   .stores = t.stores,
                                   .loop = loop,
                                   .pool = pool,
                                   .engine = &api_engine,
                                   .data_dir = t.data,
                                   .store_url = "file:///nowhere",
                                   .executor = "local",
                                   .version = "0-test",
                                   .token = TOKEN,
                                   .master_key = (const uint8_t *)"a master key of thirty-two bytes",
                                   .listen = "127.0.0.1:0",
                                   .hosts = hosts,
                                   .public_url = "https://people.example/pl/",
                                   .tables = tables,
                                   .more_routes = more_routes,
                                   .n_more_routes = PL_ARRAY_SIZE(more_routes)};

    MUST(pl_api_start(&config, &t.api, &err));
    MUST(pl_api_gc_start(t.api, &err));
    atomic_store(&t.told, t.api);
    port = pl_api_port(t.api);
}

/* The API goes and comes again, over the same loop, pool and store. */
static __attribute__((unused)) void api_again(void)
{
    atomic_store(&t.told, NULL);
    pl_api_stop(t.api, FIXTURE_WAIT_MS);
    fixture_await_loop(); /* it has things of the API's to do still */
    t.api = pl_api_destroy(t.api);
    api_begin();
}

static inline int api_setup(void **state)
{
    struct pl_db_config config = {.dir = t.data, .readers = 4, .fatal = on_fatal, .event = on_event};
    const char *base = getenv("TMPDIR");
    char path[128];

    (void)state;
    memset(&t, 0, sizeof t);
    snprintf(t.dir, sizeof t.dir, "%.40s/pl-api-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(t.dir));
    snprintf(t.data, sizeof t.data, "%s/data", t.dir);
    snprintf(path, sizeof path, "%s/store", t.dir);
    MUST(pl_io_mkdirs(t.data, 0700, &err));
    if (api_store)
        t.objects = api_store();
    else
        MUST(pl_object_file_open(path, &t.objects, &err));
    snprintf(path, sizeof path, "%s/index", t.dir);
    MUST(pl_stores_open(t.objects, path, &t.stores, &err));
    config.objects = t.objects;
    MUST(pl_db_open(&config, &t.db, &err));
    MUST(pl_loop_create(&loop, &err));
    MUST(pl_pool_create("api", 4, 4096, &pool, &err));
    pthread_create(&fixture_loop_thread, NULL, fixture_run_loop, loop);
    api_begin();
    return 0;
}

static inline int api_teardown(void **state)
{
    (void)state;
    pl_api_stop(t.api, FIXTURE_WAIT_MS);
    pool = pl_pool_destroy(pool);
    pl_loop_stop(loop);
    pthread_join(fixture_loop_thread, NULL);
    loop = pl_loop_destroy(loop);
    pl_db_close(t.db);
    atomic_store(&t.told, NULL);
    t.api = pl_api_destroy(t.api);
    pl_stores_close(t.stores);
    pl_object_close(t.objects);
    MUST(pl_io_remove_tree(t.dir, &err));
    return 0;
}

/* ---- asking ---- */

/* `headers`: whole lines; without a Host among them it is the listening address. */
static inline struct answer ask_with(const char *method, const char *target, const char *headers, const void *body, size_t n)
{
    char head[8192], host[64] = "";
    int fd = client_connect(port), len;
    struct answer a;

    if (!strcasestr(headers, "Host:"))
        snprintf(host, sizeof host, "Host: 127.0.0.1:%u\r\n", port);
    len = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\n%s%sContent-Length: %zu\r\n\r\n", method, target, host, headers, n);
    assert_true((size_t)len < sizeof head);
    assert_true(client_send(fd, head, (size_t)len));
    if (n)
        client_send(fd, body, n);
    if (pl_streq(method, "HEAD"))
        client_read_head(fd, &a);
    else
        a = client_read_answer(fd);
    close(fd);
    return a;
}

static inline struct answer ask(const char *method, const char *target, const char *body)
{
    return ask_with(method, target, AS_USER, body, body ? strlen(body) : 0);
}

static inline json_t *json_of(const struct answer *a)
{
    json_error_t e;
    json_t *value = json_loadb(a->body ? a->body : "", a->len, JSON_DECODE_ANY, &e);

    if (!value)
        fail_msg("no JSON: %s in: %.200s", e.text, a->body ? a->body : "");
    return value;
}

/* The answer's JSON; it must have `status`. The caller's reference. */
static inline json_t *ask_json(int status, const char *method, const char *target, const char *body)
{
    struct answer a = ask(method, target, body);
    json_t *value;

    if (a.status != status)
        fail_msg("%s %s: %d, not %d: %.300s", method, target, a.status, status, a.body ? a.body : "");
    value = json_of(&a);
    answer_free(&a);
    return value;
}

/* Asks and wants this status; the answer is not looked at. */
static inline void does(int status, const char *method, const char *target, const char *body)
{
    json_decref(ask_json(status, method, target, body));
}

/* It is refused with this code, and the message or field has `part` in it. */
static inline void refused(const char *code, const char *part, const char *method, const char *target, const char *body)
{
    struct answer a = ask(method, target, body);
    json_t *value = json_of(&a), *error = json_object_get(value, "error");
    const char *message = json_string_value(json_object_get(error, "message")),
               *field = json_string_value(json_object_get(error, "field"));

    if (!error || !pl_streq(json_string_value(json_object_get(error, "code")), code) || a.status < 400)
        fail_msg("%s %s: wanted %s: %d %.300s", method, target, code, a.status, a.body);
    if (!strstr(message, part) && !(field && strstr(field, part)))
        fail_msg("%s %s: \"%s\" is not in: %s", method, target, part, message);
    json_decref(value);
    answer_free(&a);
}

static inline const char *text_at(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    if (!text)
        fail_msg("no text \"%s\"", key);
    return text;
}

static inline int64_t number_at(const json_t *o, const char *key)
{
    const json_t *n = json_object_get(o, key);

    if (!json_is_integer(n))
        fail_msg("no number \"%s\"", key);
    return json_integer_value(n);
}

/* "a b c" of the field `key` of every element of the array `list`. */
static inline void names_are(const json_t *o, const char *list, const char *key, const char *want)
{
    _cleanup_(pl_buf_finish) struct pl_buf got = {0};
    const json_t *item;
    size_t i;

    json_array_foreach(json_object_get(o, list), i, item)
        assert_int_equal(pl_buf_addf(&got, NULL, "%s%s", i ? " " : "", text_at(item, key)), 0);
    assert_string_equal(pl_buf_str(&got), want);
}

/* ---- pushing ---- */

/* Puts `text` as a file; the commit's id into `ret_commit` (may be NULL). Answers whether something changed. */
static inline bool put_text(const char *repo_branch, const char *path, const char *text, char ret_commit[PL_ID_HEX + 1])
{
    char target[512];
    struct answer a;
    json_t *value;
    bool moved;

    snprintf(target, sizeof target, "/api/v1/repos/default/%.*s/branches/%s/files/%s", (int)strcspn(repo_branch, "@"),
             repo_branch, strchr(repo_branch, '@') + 1, path);
    a = ask("PUT", target, text);
    if (a.status != 200 && a.status != 201)
        fail_msg("PUT %s: %d %.300s", target, a.status, a.body ? a.body : "");
    value = json_of(&a);
    moved = json_is_true(json_object_get(value, "changed"));
    if (ret_commit)
        snprintf(ret_commit, PL_ID_HEX + 1, "%s", text_at(value, "commit"));
    json_decref(value);
    answer_free(&a);
    return moved;
}

/* One operation; `text` of at most 64 bytes, "->x" makes a link to x, "/" an empty directory. Paths ascend. */
struct edit {
    uint8_t op;
    const char *path, *text;
};

static inline struct pl_entry edit_entry(const struct edit *e)
{
    if (pl_streq(e->text, "/"))
        return pl_entry_dir();
    if (strncmp(e->text, "->", 2) == 0)
        return pl_entry_inline(PL_KIND_LINK, e->text + 2, strlen(e->text) - 2);
    return pl_entry_inline(PL_KIND_FILE, e->text, strlen(e->text));
}

static inline void edits_to_ops(const struct edit *edits, size_t n, struct pl_buf *ret)
{
    struct pl_ops_writer w = {0};

    MUST(pl_ops_writer_init(&w, ret, &err));
    for (size_t i = 0; i < n; i++) {
        struct pl_entry entry;

        if (edits[i].op == PL_TREE_PUT) {
            entry = edit_entry(&edits[i]);
            MUST(pl_ops_writer_put(&w, edits[i].path, strlen(edits[i].path), &entry, &err));
        } else if (edits[i].op == PL_TREE_DELETE) {
            MUST(pl_ops_writer_delete(&w, edits[i].path, strlen(edits[i].path), &err));
        } else {
            MUST(pl_ops_writer_delete_prefix(&w, edits[i].path, strlen(edits[i].path), &err));
        }
    }
    MUST(pl_ops_writer_end(&w, &err));
    pl_ops_writer_finish(&w);
}

/* Pushes to default/data@`branch_query` ("master?base=…"). */
static inline struct answer push_edits(const char *branch_query, const struct edit *edits, size_t n)
{
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    size_t name = strcspn(branch_query, "?");
    char target[512];

    edits_to_ops(edits, n, &ops);
    snprintf(target, sizeof target, "/api/v1/repos/default/data/branches/%.*s/commits%s", (int)name, branch_query,
             branch_query + name);
    return ask_with("POST", target, AS_USER, ops.data, ops.len);
}

/* The same, which must work: the answer. */
static inline json_t *push_good(const char *branch_query, const struct edit *edits, size_t n)
{
    struct answer a = push_edits(branch_query, edits, n);
    json_t *value = json_of(&a);

    if (a.status != 200 && a.status != 201)
        fail_msg("push: %d %.300s", a.status, a.body);
    answer_free(&a);
    return value;
}

static inline void make_repo(const char *name)
{
    char body[128];

    snprintf(body, sizeof body, "{\"name\":\"%s\"}", name);
    does(201, "POST", "/api/v1/repos", body);
}

/* A repo that a stage would write. `arg` is its name. */
static inline int make_output_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_repo_args a = {.project = "default", .name = arg, .output = true};

    return pl_tx_repo_create(tx, &a, err);
}
