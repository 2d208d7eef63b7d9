/* worker_api: the daemon's side of the agent protocol, version 1 (docs/protocol.md). Each request names its
 * worker, and must carry that worker's token. */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/plan/plan_json.h"
#include "pipelined/text/json_text.h"

#include "pipelined/db/tx/upload_session_tx.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <stdio.h>

#define RESULTS_BODY_MAX (64u << 20)
#define LOG_BODY_MAX     (4u << 20)
#define METRIC_LINE_MAX  1024
#define METRICS_MAX      ((int64_t)1 << 40) /* largest number of a metric line of one attempt */
#define LEASE_MS         30000
/* interval of a worker's renewals. An older agent, whose renewals are answered at once, may learn of an ended
 * lease only after this interval */
#define RENEW_MS 2000

/* Finds the worker that "worker" (its id as text) names, and checks that the request came with this worker's
 * token. */
static int worker_of(struct pl_engine *e, struct pl_http_request *req, const char *text, struct pl_eworker **ret,
                     struct pl_err *err)
{
    const struct pl_principal *who = pl_http_context(req);
    uint64_t id;
    char *end;

    id = strtoull(text, &end, 10);
    if (!*text || *end)
        return pl_err_set(err, PL_EPROTO, "\"worker\" is \"%s\", not a worker's id", text);
    if (who->kind == PL_PRINCIPAL_WORKER && who->worker != id) {
        e->config.refused(e->config.refused_arg, req);
        return pl_err_set(err, PL_EFORBIDDEN, "this token does not belong to worker %s", text);
    }
    *ret = pl_engine_worker(e, id);
    if (!*ret)
        return pl_err_set(err, PL_ENOTFOUND, "worker %s is unknown: it was stopped, or belongs to another daemon", text);
    return 0;
}

static struct pl_sched_lease *leases_of(const json_t *list, size_t *ret_n)
{
    size_t n = json_array_size(list);
    struct pl_sched_lease *leases = calloc(n + 1, sizeof *leases);

    for (size_t i = 0; leases && i < n; i++) {
        const json_t *o = json_array_get(list, i);

        leases[i].task = (uint64_t)json_integer_value(json_object_get(o, "task"));
        leases[i].fence = (uint64_t)json_integer_value(json_object_get(o, "fence"));
    }
    *ret_n = n;
    return leases;
}

/* Finds the worker like worker_of. PL_ENOTFOUND also if the worker has not attached since the start of the daemon:
 * it then attaches, so that a daemon that was updated learns which version of the protocol the agent speaks. */
static int attached_worker(struct pl_engine *e, struct pl_http_request *req, const char *text, struct pl_eworker **ret,
                           struct pl_err *err)
{
    int r = worker_of(e, req, text, ret, err);

    if (r == 0 && !(*ret)->attached)
        return pl_err_set(err, PL_ENOTFOUND, "worker %s has not attached since the daemon's start: attach first", text);
    return r;
}

/* ---- attach ---- */

static json_t *attach_answer(struct pl_engine *e, const struct pl_eworker *w, const char *token)
{
    const struct pl_estage *s = w->stage;
    json_t *stage = json_loads(s->effective, 0, NULL), *devices = json_array();
    char code[PL_HASH_HEX + 1];

    for (uint32_t i = 0; i < w->n_gpus; i++)
        json_array_append_new(devices, json_integer(e->executor->ops->device(e->executor, w->gpus[i])));
    if (!pl_hash_is_zero(&s->code_root))
        json_object_set_new(stage, "code_root", json_string(pl_hash_hex(&s->code_root, code)));
    json_object_set_new(stage, "writable", pl_stage_writable_json(s->def));
    if (pl_stage_environment(s->def))
        json_object_set_new(stage, "environment", json_true());
    json_object_set_new(stage, "pipeline", json_string(s->pipeline));
    if (w->network_off)
        json_object_set_new(stage, "network", json_false());
    return json_pack("{s:i, s:i, s:i, s:s, s:o, s:{s:o, s:I}, s:s*}", "protocol", PL_AGENT_PROTOCOL_PROTOCOL, "lease_ms",
                     LEASE_MS, "renew_ms", RENEW_MS, "project", s->project, "stage", stage, "gpu", "devices", devices, "count",
                     (json_int_t)(w->pod == PL_POD_WITH_GPU ? s->def->gpu.count : w->n_gpus), "token", *token ? token : NULL);
}

/* Exchanges the worker's first token, which other processes may have seen, for a new one. Writes "" to
 * `token` if the request does not ask for an exchange. */
static int exchange(struct pl_engine *e, struct pl_http_request *req, const json_t *body, uint64_t id,
                    char token[PL_WORKER_TOKEN_BYTES], struct pl_err *err)
{
    const struct pl_principal *who = pl_http_context(req);
    const char *incarnation = pl_json_str(body, "incarnation");
    int r;

    token[0] = 0;
    if (!json_is_true(json_object_get(body, "exchange")))
        return atomic_load(&who->exchanged) ? pl_err_set(err, PL_EAUTH,
                                                         "the first token of worker %" PRIu64
                                                         " was exchanged: only the process that did so can exchange it again",
                                                         id)
                                            : 0;
    if (!pl_engine_incarnation_ok(incarnation))
        return pl_err_set(err, PL_EPROTO,
                          "\"incarnation\" is \"%.80s\": to exchange a token, use 16 to %d characters of 0-9, a-f and -, at "
                          "least one of them -",
                          incarnation, PL_INCARNATION_BYTES - 1);
    r = pl_engine_exchange_token(e, id, incarnation, token, err);
    if (r == PL_EFORBIDDEN)
        e->config.refused(e->config.refused_arg, req);
    return r;
}

/* One attach request: checks and exchanges the token, writes the worker's row, informs the scheduler,
 * answers. The row is written before the answer, so that a restarted daemon knows of every exchange that a
 * worker was told of. */
struct attach {
    struct pl_engine *engine;
    struct pl_http_request *req;
    json_t *body;
    uint64_t worker;
    char token[PL_WORKER_TOKEN_BYTES];
    int result; /* result of the write to the database; < 0 = an error */
    struct pl_err err;
};

static void attach_end(struct attach *a, json_t *answer)
{
    if (answer)
        pl_http_reply_json(a->req, 200, answer);
    else
        pl_http_reply_error(a->req, &a->err);
    json_decref(a->body);
    free(a);
}

static int attach_begin(struct attach *a, struct pl_eworker **ret, struct pl_err *err)
{
    struct pl_eworker *w;
    int r = pl_http_body_json(a->req, &a->body, err);

    r = r < 0 ? r : worker_of(a->engine, a->req, pl_json_str(a->body, "worker"), &w, err);
    if (r < 0)
        return r;
    if (json_integer_value(json_object_get(a->body, "protocol")) != PL_AGENT_PROTOCOL_PROTOCOL)
        return pl_err_set(err, PL_EPROTO, "\"protocol\" is %lld; this daemon speaks %d",
                          (long long)json_integer_value(json_object_get(a->body, "protocol")), PL_AGENT_PROTOCOL_PROTOCOL);
    r = exchange(a->engine, a->req, a->body, w->id, a->token, err);
    if (r < 0)
        return r;
    /* once an incarnation has exchanged the token, the worker keeps that incarnation */
    if (a->token[0] || !pl_engine_incarnation_ok(w->incarnation))
        snprintf(w->incarnation, sizeof w->incarnation, "%s", pl_json_str(a->body, "incarnation"));
    a->worker = w->id;
    *ret = w;
    return 0;
}

static int attach_feed(struct attach *a, struct pl_eworker *w, struct pl_err *err)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_WORKER_ATTACHED, .id = w->id};
    _cleanup_free_ struct pl_sched_lease *held = leases_of(json_object_get(a->body, "held"), &ev.leases.n);

    if (!held)
        return pl_err_nomem(err);
    /* the host name that a pod reports is not the name of its node */
    if (!w->pod && *pl_json_str(a->body, "host"))
        snprintf(w->host, sizeof w->host, "%s", pl_json_str(a->body, "host"));
    /* of a pod the cluster says it */
    if (!w->pod && !w->image && *pl_json_str(a->body, "image"))
        w->image = strdup(pl_json_str(a->body, "image"));
    w->attached = true;
    if (!w->stopping) /* tasks that the worker does not hold are leased again */
        pl_engine_worker_drop_ready(w);
    ev.leases.items = held;
    return pl_engine_feed(a->engine, &ev, err);
}

static void attach_on_loop(void *arg)
{
    struct attach *a = arg;
    struct pl_eworker *w = pl_engine_worker(a->engine, a->worker);
    int r = a->result;

    if (r >= 0 && !w)
        r = pl_err_set(&a->err, PL_ENOTFOUND, "worker %" PRIu64 " was stopped", a->worker);
    r = r < 0 ? r : attach_feed(a, w, &a->err);
    attach_end(a, r < 0 ? NULL : attach_answer(a->engine, w, a->token));
}

static void attach_written(void *arg, int r, const struct pl_err *err)
{
    struct attach *a = arg;

    a->result = r;
    a->err = *err;
    pl_engine_post(a->engine, "worker.attach", attach_on_loop, a);
}

static void on_attach(struct pl_http_request *req, void *arg)
{
    struct attach *a = calloc(1, sizeof *a);
    struct pl_eworker *w = NULL;
    struct pl_err err = {0};

    if (!a) {
        pl_err_nomem(&err);
        pl_http_reply_error(req, &err);
        return;
    }
    a->engine = arg;
    a->req = req;
    if (attach_begin(a, &w, &a->err) < 0)
        attach_end(a, NULL);
    else
        pl_engine_worker_attached_row(arg, w, attach_written, a);
}

/* ---- next: handles the results first (parsed on the pool), then waits for a task ---- */

struct next {
    struct pl_engine *engine;
    struct pl_http_request *req;
    json_t *body;
    uint64_t worker;
    int result;
    struct pl_err err;
};

static void next_free(struct next *n)
{
    json_decref(n->body);
    free(n);
}

/* Called once the results are durable: answers the worker, or keeps its request open until there is a
 * task. */
static void next_wait(void *arg)
{
    struct next *n = arg;
    struct pl_eworker *w = pl_engine_worker(n->engine, n->worker);
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_WORKER_NEXT, .id = n->worker};
    json_int_t wait_ms = json_integer_value(json_object_get(n->body, "wait_ms"));
    struct pl_err err = {0};

    if (!w || w->stopping || json_is_true(json_object_get(n->body, "leaving"))) {
        pl_http_reply_json(n->req, 200, json_pack("{s:b}", "end", 1));
    } else if (n->engine->hung_up || wait_ms <= 0) {
        pl_http_reply_json(n->req, 200, json_pack("{s:b}", "idle", 1));
    } else if (w->ready) {
        struct pl_etask *t = pl_map_get(&n->engine->tasks, &w->ready_task, sizeof w->ready_task);

        if (t)
            t->told = true;
        pl_http_reply(n->req, 200, "application/json", w->ready, strlen(w->ready));
        pl_engine_worker_drop_ready(w);
    } else {
        if (w->waiting) /* the worker sent a new request, so the connection of its old one is gone */
            pl_http_reply_json(TAKE_PTR(w->waiting), 200, json_pack("{s:b}", "idle", 1));
        w->waiting = n->req;
        pl_timer_start(w->poll, (uint64_t)PL_MIN(wait_ms, PL_LONG_POLL_MS));
        if (pl_engine_feed(n->engine, &ev, &err) < 0)
            pl_log_warn("engine", "worker %" PRIu64 ": %s", n->worker, err.msg);
    }
    next_free(n);
}

static void next_on_loop(void *arg)
{
    struct next *n = arg;
    struct pl_eworker *w = NULL;

    if (n->result >= 0)
        n->result = attached_worker(n->engine, n->req, pl_json_str(n->body, "worker"), &w, &n->err);
    if (n->result < 0) {
        pl_http_reply_error(n->req, &n->err);
        next_free(n);
        return;
    }
    n->worker = w->id;
    pl_engine_results(n->engine, w, n->body, next_wait, n);
}

/* Runs on the pool, because the results of a task of 10,000 datums are megabytes of JSON. */
static void on_next(struct pl_http_request *req, void *arg)
{
    struct next *n = calloc(1, sizeof *n);
    struct pl_err err = {0};

    if (!n) {
        pl_err_nomem(&err);
        pl_http_reply_error(req, &err);
        return;
    }
    n->engine = arg;
    n->req = req;
    n->result = pl_http_body_json(req, &n->body, &n->err);
    pl_engine_post(n->engine, "worker.next", next_on_loop, n);
}

/* ---- renew: answered at once if there is something to report, else when the next renewal is due ---- */

struct telling {
    struct pl_lease_pin_args args; /* must be the first member: freeing it frees the whole struct */
    struct pl_lease_pin leases[PL_LEASE_PINS_MAX];
    char project[PL_NAME_MAX_BYTES + 1];
};

static void told(void *arg, int r, const struct pl_err *err)
{
    if (r < 0) /* the extension failed; a later renewal tries again */
        pl_log_warn("engine", "cannot extend the upload sessions of leases: %s", err->msg);
    free(arg);
}

/* Reads the list [{task, fence, session?}] of a renewal, keeping only tasks that the worker holds. */
static void read_told(struct pl_engine *e, const struct pl_eworker *w, const json_t *tasks, struct telling *t)
{
    const json_t *one;
    size_t i;

    json_array_foreach(tasks, i, one)
    {
        uint64_t task = (uint64_t)json_integer_value(json_object_get(one, "task"));
        const char *session = json_string_value(json_object_get(one, "session"));
        const struct pl_etask *held = pl_map_get(&e->tasks, &task, sizeof task);
        struct pl_lease_pin *told = &t->leases[t->args.n];

        if (!session || (*session && !pl_id_ok(session)) || !held || held->worker != w->id || t->args.n == PL_LEASE_PINS_MAX ||
            held->fence != (uint64_t)json_integer_value(json_object_get(one, "fence")))
            continue;
        *told = (struct pl_lease_pin){.task = task, .fence = held->fence};
        snprintf(told->session, sizeof told->session, "%s", session);
        t->args.n++;
    }
}

/* Extends the upload sessions that a renewal names, at most once every PL_ENGINE_TOLD_US
 * (db/tx/upload_session_tx.h). */
static void leases_last(struct pl_engine *e, struct pl_eworker *w, const json_t *tasks)
{
    int64_t now_us = pl_clock_wall_us();
    struct telling *t;

    if (w->told_us && now_us >= w->told_us && now_us - w->told_us < PL_ENGINE_TOLD_US)
        return;
    t = calloc(1, sizeof *t);
    if (!t)
        return;
    snprintf(t->project, sizeof t->project, "%s", w->stage->project);
    t->args.project = t->project;
    t->args.leases = t->leases;
    read_told(e, w, tasks, t);
    if (t->args.n == 0 || pl_db_submit(e->config.db, PL_TX_UNLOGGED, pl_tx_lease_renew_pins, told, t, NULL) < 0) {
        free(t);
        return;
    }
    w->told_us = now_us;
}

static json_t *lease_json(const struct pl_sched_lease *lease)
{
    return json_pack("{s:I, s:I}", "task", (json_int_t)lease->task, "fence", (json_int_t)lease->fence);
}

/* Answers a renewal. Takes ownership of `lost` and `recall`, which list tasks that the request named; adds to
 * `lost` the leases of the worker that ended since the last answer. */
static void answer_renewal(struct pl_eworker *w, struct pl_http_request *req, json_t *lost, json_t *recall)
{
    for (size_t i = 0; i < w->n_lost; i++)
        json_array_append_new(lost, lease_json(&w->lost[i]));
    w->n_lost = 0;
    pl_http_reply_json(req, 200, json_pack("{s:o, s:o, s:b}", "lost", lost, "recall", recall, "stop", (int)w->stopping));
}

void pl_eworker_tell(struct pl_eworker *w, uint64_t recalled)
{
    json_t *recall;

    if (!w->renewing)
        return;
    recall = json_array();
    if (recalled)
        json_array_append_new(recall, json_pack("{s:I}", "task", (json_int_t)recalled));
    pl_timer_stop(w->renewal);
    answer_renewal(w, TAKE_PTR(w->renewing), json_array(), recall);
}

static bool is_told(const struct pl_eworker *w, const struct pl_sched_lease *lease)
{
    for (size_t i = 0; i < w->n_lost; i++)
        if (w->lost[i].task == lease->task && w->lost[i].fence == lease->fence)
            return true;
    return false;
}

/* Renews the leases, then answers at once or keeps the request open until there is something to report. */
static int renew(struct pl_engine *e, struct pl_http_request *req, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    _cleanup_free_ struct pl_sched_lease *leases = NULL;
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RENEW};
    struct pl_eworker *w;
    json_t *lost, *recall;
    json_int_t wait_ms;
    int r = pl_http_body_json(req, &body, err);

    r = r < 0 ? r : attached_worker(e, req, pl_json_str(body, "worker"), &w, err);
    if (r < 0)
        return r;
    leases = leases_of(json_object_get(body, "tasks"), &ev.leases.n);
    ev.id = w->id;
    ev.leases.items = leases;
    r = leases ? pl_engine_feed(e, &ev, err) : pl_err_nomem(err);
    if (r < 0)
        return r;
    leases_last(e, w, json_object_get(body, "tasks"));
    lost = json_array();
    recall = json_array();
    for (size_t i = 0; i < ev.leases.n; i++) {
        const struct pl_etask *t = pl_map_get(&e->tasks, &leases[i].task, sizeof leases[i].task);

        if (!t || t->fence != leases[i].fence || t->worker != w->id) {
            if (!is_told(w, &leases[i]))
                json_array_append_new(lost, lease_json(&leases[i]));
        } else if (t->recalled) {
            json_array_append_new(recall, json_pack("{s:I}", "task", (json_int_t)leases[i].task));
        }
    }
    /* an older agent sends no "wait_ms" and is answered at once */
    wait_ms = json_integer_value(json_object_get(body, "wait_ms"));
    if (wait_ms <= 0 || e->hung_up || w->stopping || w->n_lost > 0 || json_array_size(lost) > 0 || json_array_size(recall) > 0) {
        answer_renewal(w, req, lost, recall);
        return 0;
    }
    json_decref(lost);
    json_decref(recall);
    /* the worker sent a new request, so the connection of its previous renewal is gone */
    pl_eworker_tell(w, 0);
    w->renewing = req;
    pl_timer_start(w->renewal, (uint64_t)PL_MIN(wait_ms, RENEW_MS));
    return 0;
}

static void on_renew(struct pl_http_request *req, void *arg)
{
    struct pl_err err = {0};

    if (renew(arg, req, &err) < 0)
        pl_http_reply_error(req, &err);
}

/* ---- logs and metrics: the loop finds the job, the pool writes ---- */

struct piece {
    struct pl_engine *engine;
    struct pl_http_request *req;
    struct pl_ejob *job;
    struct pl_hash datum;
    uint64_t attempt, offset;
    uint64_t lease; /* fence of the task's lease */
    json_t *body;
    int64_t job_row;
    uint32_t first_metric;
    int64_t fence, first_line; /* number of the first metric line; −1 = the lines are not numbered */
    struct pl_err err;
};

static void piece_free(struct piece *p)
{
    json_decref(p->body);
    pl_engine_job_unref(p->job);
    free(p);
}

static void piece_answer(struct piece *p, int r)
{
    if (r < 0)
        pl_http_reply_error(p->req, &p->err);
    else
        pl_http_reply_json(p->req, 200, json_object());
    piece_free(p);
}

static void append_log(void *arg)
{
    struct piece *p = arg;
    const struct pl_buf *body = pl_http_body(p->req);
    const struct pl_stage_log_source source = {.datum = p->datum, .attempt = (uint32_t)p->attempt, .fence = p->lease};
    int r = pl_stage_logs_append(p->engine->config.logs, p->job->stage->project, p->job_row, &source, p->offset, body->data,
                                 body->len, &p->err);

    piece_answer(p, pl_engine_log_appended(p->job, r, &p->err));
}

/* Finds the job of the task for which a worker sends logs or metrics. PL_ENOTFOUND: the task has ended, and
 * the late data is dropped; PL_ELEASE: another worker holds the task. */
static int job_of_task(struct pl_engine *e, const struct pl_eworker *w, uint64_t task, struct piece *p, struct pl_err *err)
{
    struct pl_etask *t = pl_map_get(&e->tasks, &task, sizeof task);

    if (!t || !t->job->row)
        return pl_err_set(err, PL_ENOTFOUND, "task %" PRIu64 " has ended", task);
    if (t->worker != w->id)
        return pl_err_set(err, PL_ELEASE, "task %" PRIu64 ": worker %" PRIu64 " does not hold its lease", task, w->id);
    p->job = pl_engine_job_ref(t->job);
    p->job_row = t->job->row;
    p->lease = t->fence;
    return 0;
}

static int start_log(struct piece *p, struct pl_err *err)
{
    const char *worker = pl_http_query(p->req, "worker"), *datum = pl_http_query(p->req, "datum");
    struct pl_eworker *w;
    uint64_t task = 0, fence = 0;
    int r = worker_of(p->engine, p->req, worker ? worker : "", &w, err);

    r = r < 0 ? r : pl_http_query_u64(p->req, "task", 0, UINT64_MAX, &task, err);
    r = r < 0 ? r : pl_http_query_u64(p->req, "attempt", 1, UINT32_MAX, &p->attempt, err);
    r = r < 0 ? r : pl_http_query_u64(p->req, "offset", 0, UINT64_MAX, &p->offset, err);
    r = r < 0 ? r : pl_http_query_u64(p->req, "fence", 0, INT64_MAX, &fence, err);
    r = r < 0 ? r : pl_hash_parse(datum ? datum : "", &p->datum, err);
    r = r < 0 ? r : job_of_task(p->engine, w, task, p, err);
    /* agents of the previous minor version do not send the fence: the task has only one */
    if (r == 0 && fence && fence != p->lease)
        return pl_err_set(err, PL_ELEASE, "task %" PRIu64 " was given out again with another fence", task);
    return r;
}

static struct piece *new_piece(struct pl_http_request *req, struct pl_engine *e)
{
    struct piece *p = calloc(1, sizeof *p);
    struct pl_err err = {0};

    if (p) {
        p->engine = e;
        p->req = req;
        return p;
    }
    pl_err_nomem(&err);
    pl_http_reply_error(req, &err);
    return NULL;
}

static void on_log(struct pl_http_request *req, void *arg)
{
    struct piece *p = new_piece(req, arg);
    int r;

    if (!p)
        return;
    r = start_log(p, &p->err);
    if (r < 0)
        piece_answer(p, r);
    else
        pl_engine_pool(arg, append_log, p);
}

/* Adds a metric line and tells of it; `value` NULL: only adds it. A line that is already stored is ignored: the agent sent it again after it was killed
 * or an answer was lost. */
static int add_metric(struct pl_tx *tx, const struct piece *p, size_t i, const char *text, json_t *value, struct pl_err *err)
{
    const char *sql = p->fence < 0 ? "INSERT OR IGNORE INTO metric(job, id, datum, at_us, data) VALUES (?, ?, ?, ?, ?)"
                                   : "INSERT OR IGNORE INTO metric(job, id, datum, at_us, data, fence, line)"
                                     " VALUES (?, ?, ?, ?, ?, ?, ?)";
    char hex[PL_HASH_HEX + 1];
    int r = pl_sql_exec(pl_tx_conn(tx), err, sql, p->fence < 0 ? "iibis" : "iibisii", p->job_row,
                        (int64_t)p->first_metric + (int64_t)i, p->datum.b, (size_t)PL_HASH_BYTES, pl_tx_now_us(tx), text,
                        p->fence, p->first_line + (int64_t)i);

    if (r <= 0 || !value)
        return r;
    return pl_tx_event(tx, "metric",
                       json_pack("{s:s, s:s, s:s, s:s, s:O}", "run", p->job->run, "project", p->job->stage->project, "stage",
                                 p->job->stage->def->name, "datum", pl_hash_hex(&p->datum, hex), "line", value),
                       err);
}

static int metric_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct piece *p = arg;
    const json_t *line;
    size_t i;

    json_array_foreach(json_object_get(p->body, "lines"), i, line)
    {
        const char *text = json_string_value(line);
        json_t *value = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
        bool good = json_is_object(value) && strlen(text) <= METRIC_LINE_MAX;
        /* of an invalid line, which is an error of the stage's command, only a null is kept, so that it can be counted; the
         * output of the datum contains the metrics file with all lines anyway */
        int r = i < PL_AGENT_PROTOCOL_LINES_MAX ? add_metric(tx, p, i, good ? text : "null", good ? value : NULL, err) : 0;

        json_decref(value);
        if (r < 0)
            return r;
    }
    return 0;
}

static void metric_done(void *arg, int r, const struct pl_err *err)
{
    struct piece *p = arg;

    p->err = *err;
    piece_answer(p, r);
}

/* Reads the numbers of the metric lines; agents of the previous minor version do not send them. */
static int read_numbers(struct piece *p, struct pl_err *err)
{
    const json_t *fence = json_object_get(p->body, "fence"), *first = json_object_get(p->body, "first");

    p->fence = p->first_line = -1;
    if (!fence && !first)
        return 0;
    p->fence = json_integer_value(fence);
    p->first_line = json_integer_value(first);
    if (json_is_integer(fence) && json_is_integer(first) && p->fence >= 0 && p->first_line >= 0 && p->first_line <= METRICS_MAX)
        return 0;
    return pl_err_set(err, PL_EPROTO, "\"fence\" and \"first\" of metrics are numbers, \"first\" at most %" PRId64, METRICS_MAX);
}

static int start_metrics(struct piece *p, struct pl_err *err)
{
    struct pl_eworker *w;
    json_int_t index;
    int r = pl_http_body_json(p->req, &p->body, err);

    r = r < 0 ? r : read_numbers(p, err);
    r = r < 0 ? r : worker_of(p->engine, p->req, pl_json_str(p->body, "worker"), &w, err);
    r = r < 0 ? r : job_of_task(p->engine, w, (uint64_t)json_integer_value(json_object_get(p->body, "task")), p, err);
    if (r < 0)
        return r;
    index = json_integer_value(json_object_get(p->body, "index"));
    if (index < 0 || index >= p->job->n_rows)
        return pl_err_set(err, PL_EPROTO, "row %lld does not exist: the job has %u rows", (long long)index, p->job->n_rows);
    pl_plan_datum_id(p->job->plan, p->job->rows[index], &p->datum);
    p->first_metric = p->job->next_metric;
    p->job->next_metric += (uint32_t)json_array_size(json_object_get(p->body, "lines"));
    return pl_db_submit(p->engine->config.db, PL_TX_UNLOGGED, metric_tx, metric_done, p, err);
}

static void on_metrics(struct pl_http_request *req, void *arg)
{
    struct piece *p = new_piece(req, arg);
    int r;

    if (!p)
        return;
    r = start_metrics(p, &p->err);
    if (r < 0)
        piece_answer(p, r);
}

/* ---- checkpoints ---- */

/* Checks that the worker still holds the datum in the task, and stores the datum's checkpoint. */
static int checkpoint(struct pl_engine *e, struct pl_http_request *req, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    const struct pl_etask *t;
    struct pl_eworker *w;
    struct pl_hash root;
    json_int_t index;
    uint64_t task;
    int r = pl_http_body_json(req, &body, err);

    r = r < 0 ? r : worker_of(e, req, pl_json_str(body, "worker"), &w, err);
    r = r < 0 ? r : pl_hash_parse(pl_json_str(body, "root"), &root, err);
    if (r < 0)
        return r;
    task = (uint64_t)json_integer_value(json_object_get(body, "task"));
    index = json_integer_value(json_object_get(body, "index"));
    t = pl_map_get(&e->tasks, &task, sizeof task);
    if (!t || t->worker != w->id || t->fence != (uint64_t)json_integer_value(json_object_get(body, "fence")))
        return pl_err_set(err, PL_ELEASE, "task %" PRIu64 " was given to another worker or has ended", task);
    if (index < 0 || index >= t->job->n_rows || !t->job->plan ||
        !pl_sched_holds(e->sched, w->id, &(struct pl_sched_lease){.task = task, .fence = t->fence}, (uint32_t)index))
        return pl_err_set(err, PL_EPROTO, "row %lld is not part of task %" PRIu64 ", or has ended", (long long)index, task);
    pl_engine_checkpoint(e, req, t->job, (uint32_t)index, &root);
    return 0;
}

static void on_checkpoint(struct pl_http_request *req, void *arg)
{
    struct pl_err err = {0};

    if (checkpoint(arg, req, &err) < 0)
        pl_http_reply_error(req, &err);
}

int pl_engine_make_routes(struct pl_engine *e, struct pl_err *err)
{
    const struct pl_http_route routes[] = {
        {.method = "POST", .pattern = "/api/v1/worker/attach", .where = PL_ON_LOOP, .body = PL_BODY_JSON, .handler = on_attach},
        {.method = "POST",
         .pattern = "/api/v1/worker/next",
         .where = PL_ON_POOL,
         .body = PL_BODY_JSON,
         .body_max = RESULTS_BODY_MAX,
         .handler = on_next},
        {.method = "POST", .pattern = "/api/v1/worker/renew", .where = PL_ON_LOOP, .body = PL_BODY_JSON, .handler = on_renew},
        {.method = "POST",
         .pattern = "/api/v1/worker/log",
         .where = PL_ON_LOOP,
         .body = PL_BODY_BYTES,
         .body_max = LOG_BODY_MAX,
         .handler = on_log},
        {.method = "POST", .pattern = "/api/v1/worker/metrics", .where = PL_ON_LOOP, .body = PL_BODY_JSON, .handler = on_metrics},
        {.method = "POST",
         .pattern = "/api/v1/worker/checkpoint",
         .where = PL_ON_LOOP,
         .body = PL_BODY_JSON,
         .handler = on_checkpoint},
    };

    e->routes = calloc(PL_ARRAY_SIZE(routes), sizeof *e->routes);
    if (!e->routes)
        return pl_err_nomem(err);
    memcpy(e->routes, routes, sizeof routes);
    e->n_routes = PL_ARRAY_SIZE(routes);
    for (size_t i = 0; i < e->n_routes; i++) {
        e->routes[i].arg = e;
        e->routes[i].access = i == 0 ? PL_VERB_ATTACH : PL_VERB_WORK;
    }
    return 0;
}
