/* Ends of open commits: a client finishes or aborts one, the daemon finishes a gathering commit when its time
 * has come, or drops a started commit that is idle. */
#include "pipelined/db/open_commits/open_commits_internal.h"

#include "storage/base/clock.h"
#include "storage/dataset/commit/commit_ref.h"
#include "storage/system/log_line.h"

#include <stdio.h>

#define LOOK_EVERY_MS 60000 /* interval of checks for idle commits */

/* ---- the end ---- */

int pl_open_commit_begin_end(struct pl_open_commit *c, struct pl_err *err)
{
    struct pl_open_commits *o = c->o;
    int r = 0;

    pthread_mutex_lock(&o->lock);
    if (c->state == PL_OPEN_OPEN || c->queued)
        c->state = PL_OPEN_ENDING;
    else
        r = pl_err_set(err, PL_ERETRY, "commit %.8s is %s", pl_open_commit_head(c)->commit,
                       c->state == PL_OPEN_ENDING ? "being finished" : "not open any more");
    c->queued = false; /* this thread ends the commit: a pool job that was queued to end it will do nothing */
    while (r == 0 && c->pending)
        pthread_cond_wait(&o->ended, &o->lock);
    pthread_mutex_unlock(&o->lock);
    return r;
}

void pl_open_commit_retry(struct pl_open_commit *c)
{
    pthread_mutex_lock(&c->o->lock);
    c->state = PL_OPEN_OPEN;
    pthread_cond_broadcast(&c->o->ended);
    pthread_cond_signal(&c->o->wake); /* a later commit of the branch may have waited for this one */
    pthread_mutex_unlock(&c->o->lock);
}

void pl_open_commit_removed(struct pl_open_commit *c)
{
    struct pl_open_commits *o = c->o;
    struct pl_err err = {0};
    struct pl_open_commit **at;
    bool listed;

    if (pl_open_unsave(c, &err) < 0)
        pl_opens_sweep_later(o, &err);
    if (pl_open_commit_file_remove(c->spool, &err) < 0)
        pl_log_warn("open", "%s", err.msg); /* the next start of the daemon removes the file */
    if (c->set_aside)
        pl_open_forget_set_aside(c);
    pthread_mutex_lock(&o->lock);
    for (at = &o->list; *at && *at != c; at = &(*at)->next)
        ;
    listed = *at != NULL;
    if (listed) {
        *at = c->next;
        o->n--;
    }
    c->state = PL_OPEN_ENDED;
    pthread_cond_broadcast(&o->ended);
    pthread_cond_signal(&o->wake); /* a later gathering commit of the branch may be due now */
    pthread_mutex_unlock(&o->lock);
    if (listed)
        pl_open_commit_unref(c); /* releases the reference that the list held */
}

static int add_records(void *self, struct pl_pack_builder *session, struct pl_err *err)
{
    struct pl_open_commit *c = self;
    uint64_t group;

    return pl_open_commit_file_pack(c->spool, session, &group, err);
}

/* Pushes the operations of the open commit to its branch as one commit. */
static int push(struct pl_open_commit *c, const char *message, struct pl_push_result *ret, struct pl_err *err)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);
    _cleanup_free_ struct pl_tree_op *list = NULL;
    _cleanup_free_ char *said = pl_open_commit_file_message(c->spool);
    struct pl_push_args args = {.project = h->project,
                                .repo = h->repo,
                                .branch = h->branch,
                                .base = h->base,
                                .base_root = h->gathered ? NULL : &h->base_root,
                                .message = message && *message ? message : said,
                                .author = h->author,
                                .commit = h->commit,
                                .repo_id = h->repo_id,
                                .add_records = add_records,
                                .self = c};
    /* no lock needed: the commit is in the state ENDING, so the table does not change */
    int r = pl_op_set_list(&c->table, &list, &args.n_list, err);

    if (r == 0 && !said)
        r = pl_err_nomem(err);
    if (h->gathered)
        args.base = NULL;
    args.list = list;
    return r < 0 ? r : pl_db_push(c->o->config.db, c->o->config.stores, &args, ret, err);
}

/* Finishes a commit in the state ENDING; it stays in that state on failure. */
static int finish(struct pl_open_commit *c, const char *message, struct pl_push_result *ret, struct pl_err *err)
{
    int r = push(c, message, ret, err);

    if (r < 0)
        return r;
    pl_open_commit_ref(c);
    /* without a change, no log record shows this end: check that this daemon still owns the log before the file is
     * removed */
    if (!ret->changed) {
        r = pl_db_check_owner(c->o->config.db, err);
        r = r < 0 ? r : pl_open_unsave(c, err);
        if (r < 0)
            return r;
        pl_open_commit_ends(c, ret->commit, NULL);
    }
    pl_open_commit_removed(c);
    if (ret->changed)
        c->o->config.finished(c->o->config.self, ret->commit);
    pl_open_commit_unref(c);
    return 0;
}

int pl_open_commit_finish(struct pl_open_commit *c, const char *message, struct pl_push_result *ret, struct pl_err *err)
{
    int r = pl_open_commit_begin_end(c, err);

    if (r < 0)
        return r;
    r = finish(c, message, ret, err);
    if (r == 0)
        return 0;
    pthread_mutex_lock(&c->o->lock);
    c->idle_since_ms = pl_clock_mono_ms();
    pthread_mutex_unlock(&c->o->lock);
    pl_open_commit_retry(c);
    return r;
}

int pl_open_commit_abort(struct pl_open_commit *c, const char *why, struct pl_err *err)
{
    int r = pl_open_commit_begin_end(c, err);

    if (r < 0)
        return r;
    r = pl_open_unsave(c, err);
    if (r < 0) {
        pl_open_commit_retry(c);
        return r;
    }
    pl_open_commit_ends(c, NULL, why);
    pl_open_commit_removed(c);
    return 0;
}

int pl_open_commit_revive(struct pl_open_commit *c, const struct pl_pack_set *hidden, struct pl_err *err)
{
    return pl_db_revive(c->o->config.db, pl_open_commit_head(c)->project, hidden, err);
}

/* ---- gathering commits ---- */

/* Returns a reference to the oldest gathering commit of the branch. */
static struct pl_open_commit *oldest(struct pl_open_commits *o, const char *project, const char *repo, const char *branch)
{
    struct pl_open_commit *c;

    pthread_mutex_lock(&o->lock);
    for (c = o->list; c; c = c->next) {
        const struct pl_open_commit_file_head *h = pl_open_commit_head(c);

        if (h->gathered && !c->set_aside && pl_streq(h->branch, branch) && pl_streq(h->repo, repo) &&
            pl_streq(h->project, project))
            break;
    }
    if (c)
        c->refs++;
    pthread_mutex_unlock(&o->lock);
    return c;
}

void pl_open_commit_wait_end(struct pl_open_commit *c)
{
    struct pl_open_commits *o = c->o;

    pthread_mutex_lock(&o->lock);
    while (c->state == PL_OPEN_ENDING && !o->stopping)
        pthread_cond_wait(&o->ended, &o->lock);
    pthread_mutex_unlock(&o->lock);
}

int pl_open_commits_flush(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                          struct pl_err *err)
{
    struct pl_push_result result;
    struct pl_open_commit *c;
    int r = 0;

    while (r == 0 && (c = oldest(o, project, repo, branch))) {
        r = pl_open_commit_finish(c, NULL, &result, err);
        if (r == PL_ERETRY) {
            pl_open_commit_wait_end(c);
            r = 0;
        }
        pl_open_commit_unref(c);
        pthread_mutex_lock(&o->lock);
        if (o->stopping)
            r = pl_err_set(err, PL_ESTOPPING, "the daemon is stopping");
        pthread_mutex_unlock(&o->lock);
    }
    return r;
}

/* Flushes a branch given as in an effective spec: PROJECT/REPO@BRANCH. */
static int flush_ref(struct pl_open_commits *o, const char *text, struct pl_err *err)
{
    struct pl_commit_ref ref;
    int r = pl_commit_ref_parse(text, &ref, err);

    return r < 0 ? r : pl_open_commits_flush(o, ref.project, ref.repo, ref.name, err);
}

int pl_open_commits_flush_inputs(struct pl_open_commits *o, const char *project, const char *pipeline, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *refs = json_array();
    const json_t *ref;
    size_t i;
    int r = refs ? 0 : pl_err_nomem(err);

    if (r == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(o->config.db);
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

        r = pl_sql_query(
            rd.conn, err, &rows,
            "SELECT DISTINCT t.value FROM stage s JOIN pipeline p ON p.id = s.pipeline, json_tree(s.spec, '$.input') t"
            " WHERE p.project = ? AND p.name = ? AND s.current = 1 AND t.key = 'repo'",
            "ss", project, pipeline);
        while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0)
            r = pl_json_add(refs, json_string(pl_col_text(&rows, 0)), err);
    }
    json_array_foreach(refs, i, ref) r = r < 0 ? r : flush_ref(o, json_string_value(ref), err);
    return r;
}

/* ---- automatic ends ---- */

/* True if the operations can never be applied to the branch, so that a user must act. After any other error
 * finishing is retried, even if the error looks permanent: a bucket that refuses a request today may accept
 * it tomorrow. */
static bool is_final(int code)
{
    return code == PL_ECOLLISION || code == PL_EOUTPUT || code == PL_ELIMIT || code == PL_ETOOBIG;
}

/* Records that finishing the commit automatically failed, sets the commit aside if the error is final, and
 * reopens it. */
static void failed_by_clock(struct pl_open_commit *c, int r, const struct pl_err *err)
{
    struct pl_open_commits *o = c->o;
    bool first, other;

    pthread_mutex_lock(&o->lock);
    c->closed = true; /* later puts go into another gathering commit */
    c->retry_ms = pl_clock_mono_ms() + o->config.retry_ms;
    c->set_aside = is_final(r);
    first = !*c->blocked;
    other = first || c->blocked_code != r;
    snprintf(c->blocked, sizeof c->blocked, "%.255s", err->msg);
    c->blocked_code = r;
    if (first)
        c->blocked_us = pl_clock_wall_us();
    pthread_mutex_unlock(&o->lock);
    if (other)
        pl_log_warn("open", "open commit %.8s could not be finished%s: %s", pl_open_commit_head(c)->commit,
                    c->set_aside ? "" : ", will retry", err->msg);
    if (c->set_aside)
        pl_open_set_aside(c);
    if (first || c->set_aside)
        pl_open_commit_event(c, c->set_aside ? "blocked" : "refused", err->msg);
    pl_open_commit_retry(c);
}

/* True if a started commit has been idle too long. Uses the monotonic clock, so that a jump of the wall clock
 * drops nothing. Caller holds the lock. */
static bool is_idle(const struct pl_open_commit *c)
{
    return !pl_open_commit_head(c)->gathered && pl_clock_mono_ms() - c->idle_since_ms > c->o->config.idle_ms;
}

static bool is_idle_now(struct pl_open_commit *c)
{
    bool idle;

    pthread_mutex_lock(&c->o->lock);
    idle = is_idle(c);
    pthread_mutex_unlock(&c->o->lock);
    return idle;
}

/* Ends a commit in the state ENDING that is due: finishes it if it is a gathering commit, drops it if it is
 * idle, else reopens it. */
static void end_by_clock(struct pl_open_commit *c)
{
    struct pl_push_result result;
    struct pl_err err = {0};
    int r;

    if (pl_open_commit_head(c)->gathered && !c->set_aside) {
        r = finish(c, NULL, &result, &err);
        if (r < 0)
            failed_by_clock(c, r, &err);
    } else if (is_idle_now(c) && pl_open_unsave(c, &err) == 0) {
        pl_log_info("open", "commit %.8s is dropped: nothing was written to it for a day", pl_open_commit_head(c)->commit);
        pl_open_commit_ends(c, NULL, "nothing was written to it for a day");
        pl_open_commit_removed(c);
    } else {
        pl_open_commit_retry(c);
    }
}

/* Ends a due commit; runs on the pool. Does nothing if another thread has claimed the end of the commit
 * (pl_open_commit_begin_end) before this job ran. */
static void end_job(void *arg)
{
    struct pl_open_commit *c = arg;
    struct pl_open_commits *o = c->o;
    bool mine;

    pthread_mutex_lock(&o->lock);
    mine = c->queued;
    c->queued = false;
    while (mine && c->pending)
        pthread_cond_wait(&o->ended, &o->lock);
    pthread_mutex_unlock(&o->lock);
    if (mine)
        end_by_clock(c);
    pthread_mutex_lock(&o->lock);
    o->jobs--;
    pthread_cond_broadcast(&o->ended);
    pthread_mutex_unlock(&o->lock);
    pl_open_commit_unref(c);
}

static void sweep_job(void *arg)
{
    struct pl_open_commits *o = arg;

    pl_opens_sweep(o);
    pthread_mutex_lock(&o->lock);
    o->jobs--;
    pthread_cond_broadcast(&o->ended);
    pthread_mutex_unlock(&o->lock);
}

/* Starts a sweep of the bucket if it is due; returns the time at which to check again. Caller holds the lock. */
static int64_t sweep_due(struct pl_open_commits *o, int64_t now_ms)
{
    if (!o->sweep_ms)
        return INT64_MAX;
    if (now_ms < o->sweep_ms)
        return o->sweep_ms;
    if (pl_pool_submit(o->config.pool, sweep_job, o, NULL) < 0)
        return o->sweep_ms = now_ms + o->config.retry_ms;
    o->sweep_ms = 0;
    o->jobs++;
    return INT64_MAX;
}

/* Returns the time at which to check `c` again; a time ≤ now means that `c` must be ended now. */
static int64_t due_of(struct pl_open_commit *c, int64_t now_ms)
{
    if (!pl_open_commit_head(c)->gathered || c->set_aside) {
        if (now_ms < c->look_ms)
            return c->look_ms;
        c->look_ms = now_ms + PL_MIN(LOOK_EVERY_MS, c->o->config.idle_ms);
        return is_idle(c) ? now_ms : c->look_ms;
    }
    if (!c->written) /* the write for which the commit was created is not queued yet */
        return PL_MAX(c->first_ms + PL_OPEN_COMMIT_GATHER_MAX_MS, c->retry_ms);
    return PL_MAX(PL_MIN(c->last_ms + c->window_ms, c->first_ms + PL_OPEN_COMMIT_GATHER_MAX_MS), c->retry_ms);
}

/* True if an earlier gathering commit of the branch is not finished: that one must be finished first. */
static bool has_elder(const struct pl_open_commits *o, const struct pl_open_commit *c)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);

    for (const struct pl_open_commit *e = o->list; e && e != c; e = e->next) {
        const struct pl_open_commit_file_head *other = pl_open_commit_head(e);

        if (other->gathered && !e->set_aside && pl_streq(other->branch, h->branch) && pl_streq(other->repo, h->repo) &&
            pl_streq(other->project, h->project))
            return true;
    }
    return false;
}

int64_t pl_open_commits_due(struct pl_open_commits *o, int64_t now_ms)
{
    int64_t next = PL_MIN(now_ms + LOOK_EVERY_MS, sweep_due(o, now_ms));

    for (struct pl_open_commit *c = o->list; c; c = c->next) {
        int64_t due = due_of(c, now_ms);

        if (c->state != PL_OPEN_OPEN || (due <= now_ms && pl_open_commit_head(c)->gathered && has_elder(o, c)))
            continue; /* the thread that ends or reopens the blocking commit wakes the writer thread */
        if (due > now_ms) {
            next = PL_MIN(next, due);
            continue;
        }
        c->state = PL_OPEN_ENDING;
        c->queued = true;
        c->refs++;
        o->jobs++;
        if (pl_pool_submit(o->config.pool, end_job, c, NULL) == 0)
            continue;
        c->state = PL_OPEN_OPEN;
        c->queued = false;
        c->refs--;
        o->jobs--;
        next = PL_MIN(next, now_ms + PL_OPEN_COMMIT_RETRY_MS);
    }
    return next;
}
