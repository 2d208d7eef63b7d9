/* Closes the open commits of a repo or branch for writes while a caller checks that they are empty and
 * deletes the repo or branch. */
#include "pipelined/db/open_commits/open_commits_internal.h"

/* ---- writers that wait ---- */

/* True if the repo or branch in `args` is closed for writes. Caller holds the lock. */
static bool is_shut(const struct pl_open_commits *o, const struct pl_open_commit_args *args)
{
    for (const struct pl_open_commits_shutdown *s = o->shut; s; s = s->next)
        if (pl_streq(s->project, args->project) && pl_streq(s->repo, args->repo) &&
            (!s->branch || pl_streq(s->branch, args->branch)))
            return true;
    return false;
}

/* Says whether the branch is closed for writes. Returns false while the daemon stops, so that the caller does
 * not wait for the branch to open but fails with PL_ESTOPPING. */
bool pl_open_commits_is_closed(struct pl_open_commits *o, const struct pl_open_commit_args *args)
{
    bool shut;

    pthread_mutex_lock(&o->lock);
    shut = !o->stopping && is_shut(o, args);
    pthread_mutex_unlock(&o->lock);
    return shut;
}

void pl_open_commits_wait_closed(struct pl_open_commits *o, const struct pl_open_commit_args *args)
{
    pthread_mutex_lock(&o->lock);
    while (!o->stopping && is_shut(o, args))
        pthread_cond_wait(&o->ended, &o->lock);
    pthread_mutex_unlock(&o->lock);
}

/* ---- closing ---- */

/* Closes the repo or branch: from now on no commit is started on it. Waits for a start that is under way,
 * whose commit is then in the list. */
static void shut_begin(struct pl_open_commits *o, struct pl_open_commits_shutdown *shut)
{
    pthread_mutex_lock(&o->lock);
    shut->next = o->shut;
    o->shut = shut;
    pthread_mutex_unlock(&o->lock);
    pthread_mutex_lock(&o->start_lock);
    pthread_mutex_unlock(&o->start_lock);
}

static void shut_end(struct pl_open_commits *o, struct pl_open_commits_shutdown *shut)
{
    struct pl_open_commits_shutdown **at;

    pthread_mutex_lock(&o->lock);
    for (at = &o->shut; *at != shut; at = &(*at)->next)
        ;
    *at = shut->next;
    pthread_cond_broadcast(&o->ended);
    pthread_mutex_unlock(&o->lock);
}

/* Claims the commit, waiting for a thread that is ending it. 1: claimed, and its queued writes are written;
 * 0: it has ended. */
static int hold(struct pl_open_commit *c, struct pl_err *err)
{
    struct pl_open_commits *o = c->o;
    bool ended = false, stopping = false;
    int r;

    while ((r = pl_open_commit_begin_end(c, err)) == PL_ERETRY) {
        pl_open_commit_wait_end(c);
        pthread_mutex_lock(&o->lock);
        ended = c->state == PL_OPEN_ENDED;
        stopping = o->stopping;
        pthread_mutex_unlock(&o->lock);
        if (ended)
            return 0;
        if (stopping)
            return pl_err_set(err, PL_ESTOPPING, "the daemon is stopping");
    }
    return r < 0 ? r : 1;
}

static int hold_empty(struct pl_open_commit *c, struct pl_err *err)
{
    int r = hold(c, err);
    size_t n;

    if (r <= 0)
        return r;
    pthread_mutex_lock(&c->lock);
    n = c->table.n;
    pthread_mutex_unlock(&c->lock);
    if (!n)
        return r;
    pl_open_commit_retry(c);
    return pl_err_set(err, PL_ECONFLICT, "%zu operations wait in open commit %.8s: finish or abort it first", n,
                      pl_open_commit_head(c)->commit);
}

int pl_open_commits_while_empty(struct pl_open_commits *o, const char *project, const char *repo, const char *branch,
                                int (*act)(void *self, struct pl_err *err), void *self, struct pl_err *err)
{
    struct pl_open_commits_shutdown shut = {.project = project, .repo = repo, .branch = branch};
    _cleanup_free_ struct pl_open_commit **list = NULL;
    size_t n = 0, held = 0;
    int r;

    shut_begin(o, &shut);
    r = pl_open_commits_list(o, project, repo, &list, &n) < 0 ? pl_err_nomem(err) : 0;
    for (size_t i = 0; i < n; i++) { /* claim the oldest first, as all callers do, so that two of them cannot deadlock */
        if (r >= 0 && (!branch || pl_streq(branch, pl_open_commit_head(list[i])->branch)) && (r = hold_empty(list[i], err)) > 0)
            list[held++] = list[i];
        else
            pl_open_commit_unref(list[i]);
    }
    r = r < 0 ? r : act(self, err);
    for (size_t i = 0; i < held; i++) {
        if (r == 0 && (!branch || pl_open_commit_head(list[i])->gathered)) {
            pl_open_commit_ends(list[i], NULL, branch ? "its branch was deleted" : "its repo was deleted");
            pl_open_commit_removed(list[i]);
        } else {
            pl_open_commit_retry(list[i]);
        }
        pl_open_commit_unref(list[i]);
    }
    shut_end(o, &shut);
    return r;
}
