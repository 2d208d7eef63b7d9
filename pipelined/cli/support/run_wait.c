/* Asks the daemon again and again, in requests that it answers when the run ends. If another run supersedes the run, waits
 * for that run instead. */
#include "pipelined/cli/support/run_wait.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/progress.h"
#include "pipelined/cli/support/push_ops.h"
#include "pipelined/cli/support/server_client.h"
#include "storage/base/clock.h"
#include <stdio.h>

#define SLICE_MS 25000 /* time limit of one request, in ms */
#define LIVE_MS  1000  /* time limit of one request while a progress line is shown, in ms */

struct waiting {
    struct pl_cli *c;
    char *id;
    bool stays;       /* do not go on to the run that supersedes this one */
    int64_t until_ms; /* time at which --timeout ends; INT64_MAX = no timeout */
    bool line;        /* a progress line is on the terminal and must be erased */
    json_t *answer;   /* the server's last reply */
};

static void waiting_finish(struct waiting *w)
{
    free(w->id);
    json_decref(w->answer);
}

/* Prints the progress line, such as "prepare 3/8, train waiting". */
static void draw(struct waiting *w)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/runs/%s", w->id);
    _cleanup_(json_decrefp) json_t *run = NULL;
    const json_t *job;
    size_t i;

    if (pl_cli_call(w->c, "GET", path, NULL, &run, NULL) < 0)
        return;
    fprintf(stderr, "\r\033[Krun %.8s", pl_show_text_at(run, "id"));
    json_array_foreach(pl_show_at(run, "jobs"), i, job)
    {
        const char *state = pl_show_text_at(job, "state");
        json_int_t total = pl_show_int_at(job, "datums.total"),
                   over = pl_show_int_at(job, "datums.done") + pl_show_int_at(job, "datums.reused");

        if (total && pl_streq(state, "running"))
            fprintf(stderr, "  %s %lld/%lld", pl_show_text_at(job, "stage"), (long long)over, (long long)total);
        else
            fprintf(stderr, "  %s %s", pl_show_text_at(job, "stage"), state);
    }
    w->line = true;
}

static void wipe(struct waiting *w)
{
    if (w->line)
        fputs("\r\033[K", stderr);
    w->line = false;
}

/* Makes one request, which the daemon answers when the run ends or after `slice_ms`. A daemon that is being restarted is
 * waited for as a push does. */
static int ask(struct waiting *w, int64_t slice_ms, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/runs/%s/wait?timeout_ms=%u", w->id, (uint64_t)slice_ms);
    struct pl_retrying_sink patient;
    struct pl_http_client *client;
    unsigned pause_ms = 0;
    struct pl_err why;
    int r = pl_cli_client(w->c, &client, err);

    if (r < 0)
        return r;
    pl_cli_push_retry_policy(w->c, &patient);
    do {
        why = (struct pl_err){0};
        json_decref(w->answer);
        w->answer = NULL;
        why.code = pl_cli_call(w->c, "GET", path, NULL, &w->answer, &why);
    } while (why.code < 0 && pl_retrying_sink_retry(&patient, &why, &pause_ms));
    if (why.code < 0)
        *err = why;
    return why.code;
}

/* Evaluates the server's last reply. Returns 1 if the run has ended, or 0 to continue waiting. Unless w->stays: if another
 * run superseded this run, sets w->id to the other run and returns 0. If this run found its commit unchanged,
 * sets w->id to the run that made the commit and returns 0. */
static int check(struct waiting *w, struct pl_err *err)
{
    const char *next = pl_show_text_at(w->answer, "superseded_by"), *same = pl_show_text_at(w->answer, "unchanged_at");

    if (!json_is_true(pl_show_at(w->answer, "done")))
        return 0;
    if (w->stays || (!*next && !*same))
        return 1;
    wipe(w);
    if (!w->c->quiet && !w->c->json && *next)
        fprintf(stderr, "run %.8s was superseded by run %.8s\n", w->id, next);
    else if (!w->c->quiet && !w->c->json)
        pl_show_print(stderr, "%s\n", pl_show_text_at(w->answer, "reason"));
    next = *next ? next : same;
    free(w->id);
    w->id = strdup(next);
    return w->id ? 0 : pl_err_nomem(err);
}

static int wait_until_over(struct waiting *w, struct pl_err *err)
{
    bool seen = pl_cli_progress_seen(w->c);
    int r;

    for (;;) {
        int64_t left = w->until_ms == INT64_MAX ? SLICE_MS : w->until_ms - pl_clock_mono_ms();

        r = ask(w, PL_MAX(PL_MIN(left, seen ? LIVE_MS : SLICE_MS), 1), err);
        r = r < 0 ? r : check(w, err);
        if (r != 0)
            break;
        if (pl_clock_mono_ms() >= w->until_ms) {
            r = pl_err_set(err, PL_ETIMEOUT, "run %.8s is still running", w->id);
            break;
        }
        if (seen)
            draw(w);
    }
    wipe(w);
    return PL_MIN(r, 0);
}

/* Prints the result for an open commit that was finished without starting a run. */
static int tell_none(const struct waiting *w, struct pl_err *err)
{
    const char *reason = pl_show_text_at(w->answer, "reason");

    if (!pl_streq(pl_show_text_at(w->answer, "state"), "success"))
        return pl_err_set(err, PL_ESTAGE, "there is no run: %s", reason);
    if (w->c->json)
        return pl_show_json(w->answer, err);
    pl_show_say(w->c, "there is no run: %s\n", reason);
    return 0;
}

/* Says why jobs that succeeded did nothing: a glob that matches nothing is no failure, and easily overlooked. */
static void say_reasons(const json_t *jobs)
{
    char reason[PL_SHOW_TEXT_MAX];
    const json_t *job;
    size_t i;

    json_array_foreach(jobs, i, job)
    {
        if (pl_streq(pl_show_text_at(job, "state"), "success") && *pl_show_text_at(job, "reason"))
            fprintf(stderr, "stage %s: %s\n", pl_show_text_at(job, "stage"),
                    pl_show_clean(pl_show_text_at(job, "reason"), reason, sizeof reason));
    }
}

/* Prints the result of the run and its jobs. PL_ESTAGE if the run did not succeed. */
static int tell(struct waiting *w, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *run = NULL;
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/runs/%s", w->id);
    const char *state = pl_show_text_at(w->answer, "state");
    bool good = pl_streq(state, "success");
    char took[PL_SHOW_TEXT_MAX];
    int r = pl_cli_call(w->c, "GET", path, NULL, &run, NULL);

    if (r == PL_ENOTFOUND) /* the commit was finished without starting a run */
        return tell_none(w, err);
    if (r < 0)
        return pl_cli_call(w->c, "GET", path, NULL, &run, err);
    pl_show_took(NULL, run, took);
    pl_show_say(w->c, "run %.8s: %s in %s\n", w->id, state, took);
    r = w->c->json ? pl_show_json(run, err) : w->c->quiet ? 0 : pl_cli_jobs_table(pl_show_at(run, "jobs"), false, err);
    fflush(stdout);
    if (r == 0 && !w->c->json && !w->c->quiet)
        say_reasons(pl_show_at(run, "jobs"));
    if (r < 0 || good)
        return r;
    r = w->c->json ? 0 : pl_cli_jobs_explain(w->c, pl_show_at(run, "jobs"), err);
    return r < 0 ? r
                 : pl_err_set(err, PL_ESTAGE, "run %.8s: %s%s%s", w->id, state, *pl_show_text_at(run, "reason") ? ": " : "",
                              pl_show_text_at(run, "reason"));
}

int pl_cli_branch_flush(struct pl_cli *c, const char *project, const char *repo, const char *branch, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/repos/%s/%s/branches/%s/flush", project, repo, branch);

    return pl_cli_call(c, "POST", path, json_object(), NULL, err);
}

/* If `text` names a branch, finishes the commit in which it gathers puts, so that the caller waits for these puts, too. If
 * a stage writes the branch, also sets `*ret` to the run that will write the branch next; otherwise leaves `*ret`
 * unchanged. */
static int find_newest(struct pl_cli *c, const char *text, char **ret, struct pl_err *err)
{
    struct pl_commit_ref ref;
    int r = pl_cli_ref(c, text, &ref, err);

    if (r < 0 || ref.back || ref.kind == PL_COMMIT_REF_ID)
        return r;
    r = pl_cli_branch_flush(c, ref.project, ref.repo, ref.name, err);
    return r < 0 ? r : pl_cli_run_to_come(c, &ref, ret, err);
}

int pl_cli_run_wait(struct pl_cli *c, const char *text, int64_t timeout_ms, struct pl_err *err)
{
    _cleanup_(waiting_finish) struct waiting w = {.c = c, .until_ms = INT64_MAX};
    int r;

    fflush(stdout); /* what was printed so far is seen while it waits */
    if (timeout_ms > 0)
        w.until_ms = pl_clock_mono_ms() + timeout_ms;
    r = strchr(text, '@') ? find_newest(c, text, &w.id, err) : 0;
    r = r < 0 || w.id ? r : pl_cli_run_id(c, text, &w.id, err);
    r = r < 0 ? r : wait_until_over(&w, err);
    return r < 0 ? r : tell(&w, err);
}

int pl_cli_run_success(struct pl_cli *c, const char *id, struct pl_err *err)
{
    _cleanup_(waiting_finish) struct waiting w = {.c = c, .id = strdup(id), .stays = true, .until_ms = INT64_MAX};
    int r;

    fflush(stdout); /* what was printed so far is seen while it waits */
    r = w.id ? wait_until_over(&w, err) : pl_err_nomem(err);
    if (r == 0 && !pl_streq(pl_show_text_at(w.answer, "state"), "success"))
        r = pl_err_set(err, PL_ESTAGE, "run %.8s: %s", id, pl_show_text_at(w.answer, "state"));
    return r;
}

int pl_cli_run_started(struct pl_cli *c, const json_t *answer, struct pl_err *err)
{
    const char *run = pl_show_text_at(answer, "run");

    if (*run && pl_cli_flag(c, "wait"))
        return pl_cli_run_wait(c, run, 0, err);
    if (c->json)
        return pl_show_json(answer, err);
    if (*run)
        pl_show_say(c, "next: pipelinectl wait run %.8s\n", run);
    return 0;
}
