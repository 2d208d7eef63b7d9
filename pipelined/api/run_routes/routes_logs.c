/* Sends the logs of stages and of the containers of their pods: what the log has now, or, with `follow`,
 * also what is added to it later. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/db/retention/retention.h"
#include "pipelined/db/stage_log/log_stream.h"
#include "pipelined/db/stage_log/log_view.h"
#include "storage/base/clock.h"
#include "storage/system/timed_cond.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define PIECE_BYTES (64u << 10)
#define FIRST_MS    30000
#define AWAITED_MAX 2u /* pool threads that may wait for a log's first data at the same time */
#define TAIL_MAX    1000000u

/* A log that is being sent. The stream has a reference until `closed`; the handler has one until it has set
 * the field `stream`. */
struct following {
    _Atomic unsigned refs;
    struct pl_api *api;
    struct pl_principal *who;
    struct pl_http_stream *_Atomic stream;
    char project[PL_NAME_MAX_BYTES + 1];
    int64_t job;
    bool follow, all_datums;
    struct pl_hash datum;
    struct pl_stage_log_cursor cursor;
    struct pl_log_stream *lines; /* NULL = the text as it came */
};

static bool job_over(struct following *f)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(f->api->config.db);
    int64_t final = 1;

    return pl_sql_int(rd.conn, NULL, &final, "SELECT final FROM job WHERE id = ?", "i", f->job) < 0 || final;
}

static int pull(void *self, struct pl_buf *out, struct pl_err *err)
{
    struct following *f = self;
    size_t before = out->len;
    /* check before reading: if the job has ended, the read then gets everything that it logged */
    bool over = !f->follow || job_over(f);
    int r = pl_stage_logs_read(f->api->config.logs, f->project, f->job, f->all_datums ? NULL : &f->datum, &f->cursor, PIECE_BYTES,
                               f->lines, out, err);

    /* the log has no more text for now */
    if (r >= 0 && f->lines && out->len == before)
        r = over ? pl_log_stream_end(f->lines, before + PIECE_BYTES, out, err)
                 : pl_log_stream_states(f->lines, before + PIECE_BYTES, out, err);
    if (r >= 0 && !pl_principal_stands(f->who, pl_clock_wall_us()))
        r = pl_err_set(err, PL_EAUTH, "the token with which this log was opened was deleted or has expired");
    if (r < 0)
        return r;
    if (out->len > before)
        return PL_PULL_MORE;
    return over ? PL_PULL_END : PL_PULL_WAIT;
}

static void wake(void *arg)
{
    struct following *f = arg;

    pl_http_stream_wake(f->stream);
}

static void unref(struct following *f)
{
    if (--f->refs > 0)
        return;
    pl_principal_unref(f->who);
    pl_log_stream_destroy(f->lines);
    free(f);
}

static void closed(void *self)
{
    struct following *f = self;

    /* when pl_stage_logs_unwatch returns, `wake` is not called any more */
    pl_stage_logs_unwatch(f->api->config.logs, f);
    unref(f);
}

/* Finds a datum by its id, a prefix of it, or its paths, among the kept attempts; a complete id is used
 * without looking it up. */
static int find_datum(struct pl_conn *c, struct following *f, const char *text, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_hash_parse(text, &f->datum, NULL);

    if (r == 0)
        return 0;
    r = pl_sql_query(c, err, &rows, "SELECT datum FROM attempt WHERE job = ?1 AND " PL_ATTEMPT_NAMED " LIMIT 1", "is", f->job,
                     text);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r > 0)
        f->datum = pl_col_hash(&rows, 0);
    return r < 0    ? r
           : r == 0 ? pl_err_set(err, PL_ENOTFOUND, "the job has no datum \"%s\": pipelinectl list datum shows the ids", text)
                    : 0;
}

/* Checks the request and prepares the stream's state. */
static int start(struct pl_api *a, struct pl_http_request *req, struct following **ret, struct pl_err *err)
{
    const char *run = pl_http_query(req, "run"), *datum = pl_http_query(req, "datum");
    char id[PL_ID_HEX + 1];
    struct following *f = calloc(1, sizeof *f);
    uint64_t tail = 0;
    int r = f ? pl_http_query_u64(req, "tail", 0, TAIL_MAX, &tail, err) : pl_err_nomem(err);

    if (r == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        f->refs = 2;
        f->api = a;
        f->follow = pl_http_query_flag(req, "follow");
        f->all_datums = !datum;
        snprintf(f->project, sizeof f->project, "%s", pl_http_param(req, "project"));
        r = pl_api_job_find(rd.conn, f->project, pl_http_param(req, "stage"), run ? run : "", &f->job, id, err);
        r = r < 0 ? r : pl_retention_check_job(rd.conn, f->job, PL_KEEP_LOGS, err);
        if (r == 0 && datum)
            r = find_datum(rd.conn, f, datum, err);
        if (r == 0 && pl_http_query_flag(req, "lines"))
            r = pl_log_stream_create(&f->lines, err);
    }
    if (r == 0 && tail) {
        struct pl_effort effort = pl_request_effort(req);
        const struct pl_log_filter filter = {.datum = f->all_datums ? NULL : &f->datum, .effort = &effort};

        r = pl_stage_logs_tail(a->config.logs, f->project, f->job, &filter, tail, &f->cursor, err);
    }
    if (r < 0) {
        if (f)
            pl_log_stream_destroy(f->lines);
        free(f);
        return r;
    }
    f->who = pl_principal_ref(pl_http_context(req));
    pl_http_reply_header(req, "X-Run", id);
    *ret = f;
    return 0;
}

/* Replies with the log of a stage's job, as a stream. */
static void get_logs(struct pl_api *a, struct pl_http_request *req)
{
    struct pl_http_stream_options options = {.content_type = "text/plain; charset=utf-8", .length = PL_HTTP_LENGTH_UNKNOWN};
    struct pl_http_stream_ops ops = {.pull = pull, .closed = closed};
    struct pl_http_stream *stream;
    struct following *f;
    struct pl_err err = {0};

    if (start(a, req, &f, &err) < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    if (f->follow && pl_stage_logs_watch(a->config.logs, f->job, wake, f, &err) < 0) {
        f->refs = 1;
        unref(f);
        pl_http_reply_error(req, &err);
        return;
    }
    ops.self = f;
    options.endless = f->follow;
    stream = pl_http_reply_stream(req, &options, &ops);
    f->stream = stream;
    pl_http_stream_wake(stream);
    unref(f);
    pl_http_stream_close(stream); /* the stream continues until `pull` returns PL_PULL_END */
}

/* ---- logs of containers ---- */

/* A log of a container that is being sent. The stream has a reference until `closed`; the handler has one
 * until it has replied. */
struct printed {
    _Atomic unsigned refs;
    struct pl_principal *who;
    struct pl_http_stream_ops from;
    struct pl_http_stream *_Atomic stream;
    struct pl_buf first; /* data received before the reply */
    bool follow, ended;  /* `ended`: the log is complete, and `first` has its remaining bytes */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool came; /* the log's source has reported new data; guarded by `lock` */
};

static void printed_came(void *self)
{
    struct printed *p = self;

    pthread_mutex_lock(&p->lock);
    p->came = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pl_http_stream_wake(p->stream);
}

static void printed_unref(struct printed *p)
{
    if (--p->refs > 0)
        return;
    pl_principal_unref(p->who);
    pl_buf_finish(&p->first);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void printed_closed(void *self)
{
    struct printed *p = self;

    p->from.closed(p->from.self); /* when `closed` returns, the log's source makes no more callbacks */
    printed_unref(p);
}

/* Sends more of the log. Once the reply has begun, an error can only be reported as the last line of its
 * text. */
static int printed_pull(void *self, struct pl_buf *out, struct pl_err *err)
{
    struct printed *p = self;
    struct pl_err why = {0};
    int r;

    if (!pl_principal_stands(p->who, pl_clock_wall_us()))
        return pl_err_set(err, PL_EAUTH, "the token with which this log was opened was deleted or has expired");
    if (p->first.len > 0) {
        r = pl_buf_add(out, p->first.data, p->first.len, err);
        pl_buf_clear(&p->first);
        return r < 0 ? r : PL_PULL_MORE;
    }
    if (p->ended)
        return PL_PULL_END;
    r = p->from.pull(p->from.self, out, &why);
    if (r >= 0)
        return r;
    r = pl_buf_addf(out, err, "pipelined: the log ends here: %s\n", why.msg);
    return r < 0 ? r : PL_PULL_END;
}

/* Waits for the first data of the log, so that an error of the source can become the status of the reply.
 * With `follow` the wait also ends, without data, when the source has called back or FIRST_MS has passed: a
 * container may print nothing for long. */
static int await_first(struct printed *p, struct pl_err *err)
{
    const int64_t until_ms = pl_clock_mono_ms() + FIRST_MS;
    const struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    bool late = false, stands = false;
    int r;

    while ((r = p->from.pull(p->from.self, &p->first, err)) == PL_PULL_WAIT) {
        if (p->follow && (late || stands))
            return 0;
        if (late)
            return pl_err_set(err, PL_EUNAVAILABLE, "no data of the container's log arrived within %d s", FIRST_MS / 1000);
        pthread_mutex_lock(&p->lock);
        while (!p->came && !late)
            late = pthread_cond_timedwait(&p->changed, &p->lock, &until) == ETIMEDOUT;
        stands = p->came;
        p->came = false;
        pthread_mutex_unlock(&p->lock);
    }
    p->ended = r == PL_PULL_END;
    return r;
}

/* Waits for the first data, unless AWAITED_MAX threads already wait for the logs of other requests. Without
 * the wait the reply begins before it is known whether the log can be read. The limit is there so that a
 * kubelet that does not answer blocks only a few threads. */
static int await_status(struct printed *p, struct pl_err *err)
{
    static atomic_uint awaited;
    const int r = atomic_fetch_add(&awaited, 1) < AWAITED_MAX ? await_first(p, err) : 0;

    atomic_fetch_sub(&awaited, 1);
    return r;
}

/* Checks that the stage exists or had jobs. A deleted stage is accepted if it had jobs, because its pods may
 * still exist. */
static int need_stage(struct pl_api *a, const struct pl_http_request *req, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    const char *project = pl_http_param(req, "project"), *stage = pl_http_param(req, "stage");
    int64_t known = 0;
    int r = pl_sql_int(rd.conn, err, &known,
                       "SELECT EXISTS (SELECT 1 FROM stage WHERE project = ?1 AND name = ?2)"
                       " OR EXISTS (SELECT 1 FROM job WHERE project = ?1 AND stage = ?2)",
                       "ss", project, stage);

    if (r < 0 || known)
        return PL_MIN(r, 0);
    return pl_err_set(err, PL_ENOTFOUND, "project \"%s\" has no stage \"%s\"", project, stage);
}

static int read_ask(struct pl_http_request *req, struct pl_container_log_request *ask, struct pl_err *err)
{
    int r;

    ask->pod = pl_http_query(req, "pod");
    ask->container = pl_http_param(req, "container");
    r = pl_container_log_check(ask->container, err);
    if (r == 0 && ask->pod && !*ask->pod)
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "pod is empty: name a pod, or leave it out if the stage has only one"),
                         "pod");
    return r < 0 ? r : pl_http_query_u64(req, "tail", 0, TAIL_MAX, &ask->tail, err);
}

/* Opens the source of the log and waits for its status. On success the stream and the handler have a
 * reference to `p` each; on failure only the handler has one. */
static int begin_printed(struct pl_api *a, struct pl_http_request *req, struct printed *p, struct pl_err *err)
{
    struct pl_container_log_request ask = {.follow = p->follow, .came = printed_came, .self = p};
    int r = read_ask(req, &ask, err);

    r = r < 0 ? r : need_stage(a, req, err);
    r = r < 0 ? r
              : a->config.engine->container_log(a->config.engine_self, pl_http_param(req, "project"), pl_http_param(req, "stage"),
                                                &ask, &p->from, err);
    if (r < 0)
        return r;
    p->refs = 2;
    r = await_status(p, err);
    if (r < 0)
        printed_closed(p);
    return r;
}

/* Replies with the log of a container, as a stream. */
static void get_container_log(struct pl_api *a, struct pl_http_request *req)
{
    struct pl_http_stream_options options = {.content_type = "text/plain; charset=utf-8", .length = PL_HTTP_LENGTH_UNKNOWN};
    struct pl_http_stream_ops ops = {.pull = printed_pull, .closed = printed_closed};
    struct printed *p = calloc(1, sizeof *p);
    struct pl_http_stream *stream;
    struct pl_err err = {0};

    if (!p) {
        pl_err_nomem(&err);
        pl_http_reply_error(req, &err);
        return;
    }
    pthread_mutex_init(&p->lock, NULL);
    pl_timed_cond_init(&p->changed);
    p->refs = 1;
    p->follow = pl_http_query_flag(req, "follow");
    p->who = pl_principal_ref(pl_http_context(req));
    if (begin_printed(a, req, p, &err) < 0) {
        pl_http_reply_error(req, &err);
        printed_unref(p);
        return;
    }
    ops.self = p;
    options.endless = p->follow;
    stream = pl_http_reply_stream(req, &options, &ops);
    p->stream = stream;
    pl_http_stream_wake(stream);
    printed_unref(p);
    pl_http_stream_close(stream);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/logs/{project}/{stage}",
     .raw = get_logs,
     .verb = PL_VERB_READ,
     .summary =
         "Returns what the stage printed in its newest job, or in that of `run`; with `follow` until the job has ended. With "
         "`lines` each line of the reply is `AT_US DATUM ATTEMPT STATE TEXT`, for a whole line of one datum; of a line that "
         "is rewritten by a carriage return it has the last state. STATE: `=` a line, `+` a part of a long line or one "
         "without its line break, `~` how a line looks now that goes on (with `follow`; a later record replaces it). With `tail` "
         "the reply begins near the end: it has that many last lines, usually preceded by more lines; a line that began more "
         "than 4 MiB of output before them lacks its start.",
     .query = "run datum follow:boolean lines:boolean tail:integer",
     .reply = "text/plain"},
    {.method = "GET",
     .pattern = "/api/v1/logs/{project}/{stage}/{container}",
     .raw = get_container_log,
     .verb = PL_VERB_READ,
     .summary =
         "Returns what a container (main, agent, install) of one of the stage's present pods has printed; with `follow` until "
         "the container has ended. `pod` names the pod if there are several; with `tail` only that many last lines are sent "
         "first.",
     .query = "pod tail:integer follow:boolean",
     .reply = "text/plain"},
};

const struct pl_api_table pl_api_routes_logs = {.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)};
