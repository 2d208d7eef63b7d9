/* Jobs on the command line: parses the names of jobs and runs, prints the table of jobs, and reports why jobs
 * failed. */
#include "pipelined/cli/support/job_table.h"

#include "pipelined/cli/support/server_client.h"

#include "pipelined/spec/spec.h"
#include <stdio.h>
#include <time.h>

#define TAIL_LINES      20
#define JOBS_COME_MS    20
#define JOBS_COME_TRIES 100

static const struct pl_column columns[] = {
    {"STAGE", "stage", NULL},   {"STATE", "state", NULL}, {"DATUMS", "datums", pl_show_datums},
    {"TOOK", "", pl_show_took}, {"ON", "device", NULL},   {"REASON", "reason", NULL}};

/* ---- tables ---- */

/* qsort: by start time, jobs that have not started last. */
static int by_start(const void *a, const void *b)
{
    const json_t *const *x = a, *const *y = b;
    json_int_t s = pl_show_int_at(*x, "started_us"), t = pl_show_int_at(*y, "started_us");

    if (s != t)
        return s == 0 ? 1 : t == 0 ? -1 : s < t ? -1 : 1;
    return 0;
}

int pl_cli_jobs_table(const json_t *jobs, bool whole, struct pl_err *err)
{
    size_t n = json_array_size(jobs);
    _cleanup_free_ json_t **order = calloc(n + 1, sizeof(json_t *));
    _cleanup_(json_decrefp) json_t *sorted = json_array();

    if (!order || !sorted)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i++)
        order[i] = json_array_get(jobs, i);
    qsort(order, n, sizeof *order, by_start);
    for (size_t i = 0; i < n; i++)
        json_array_append(sorted, order[i]);
    return pl_show_table(sorted, columns, PL_ARRAY_SIZE(columns) - !whole, whole, err);
}

/* ---- names of runs and jobs ---- */

/* True if the spec of the pipeline says that the stage ref->repo writes the branch ref->name. */
static bool writes_branch(const json_t *pipeline, const struct pl_commit_ref *ref)
{
    const json_t *stage;
    size_t i;

    json_array_foreach(pl_show_at(pipeline, "stages"), i, stage)
    {
        if (pl_streq(pl_show_text_at(stage, "name"), ref->repo))
            return pl_streq(pl_show_text_at(stage, "branch"), ref->name);
    }
    return false;
}

/* Waits until every running run has its jobs, which are written one by one: until no more of them come. A run creates
 * them within milliseconds; before that, it is unknown which branches it will write. */
static int await_jobs(struct pl_cli *c, struct pl_err *err)
{
    const struct timespec pause = {.tv_nsec = JOBS_COME_MS * 1000000};
    size_t n_before = 0;
    bool all = false;
    int r = 0;

    for (unsigned i = 0; !all && r == 0 && i < JOBS_COME_TRIES; i++) {
        _cleanup_(json_decrefp) json_t *runs = NULL;
        size_t k, n_jobs = 0;
        const json_t *one;

        if (i)
            nanosleep(&pause, NULL);
        r = pl_cli_call(c, "GET", "/api/v1/runs?state=running&limit=20", NULL, &runs, err);
        all = true;
        json_array_foreach(pl_show_at(runs, "runs"), k, one)
        {
            _cleanup_free_ char *path = pl_http_path_make("/api/v1/runs/%s", pl_show_text_at(one, "id"));
            _cleanup_(json_decrefp) json_t *run = NULL;

            if (pl_cli_call(c, "GET", path, NULL, &run, NULL) < 0 || !pl_streq(pl_show_text_at(run, "state"), "running"))
                continue;
            all = all && json_array_size(pl_show_at(run, "jobs")) > 0;
            n_jobs += json_array_size(pl_show_at(run, "jobs"));
        }
        all = all && n_jobs == n_before;
        n_before = n_jobs;
    }
    return r;
}

int pl_cli_run_to_come(struct pl_cli *c, const struct pl_commit_ref *ref, char **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *page = NULL, *repo = NULL;
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/jobs?limit=20&project=%s&stage=%s", ref->project, ref->repo);
    _cleanup_free_ char *at = pl_http_path_make("/api/v1/repos/%s/%s", ref->project, ref->repo);
    const json_t *job;
    size_t i;
    int r = pl_cli_call(c, "GET", at, NULL, &repo, err);

    if (r < 0 || !pl_streq(pl_show_text_at(repo, "kind"), "output"))
        return r;
    r = await_jobs(c, err);
    r = r < 0 ? r : pl_cli_call(c, "GET", path, NULL, &page, err);
    json_array_foreach(pl_show_at(page, "jobs"), i, job)
    {
        const char *as = pl_show_text_at(job, "as");
        _cleanup_(json_decrefp) json_t *pipeline = NULL;
        _cleanup_free_ char *of = NULL;

        if (r < 0 || *ret || !json_is_null(pl_show_at(job, "finished_us")) || (*as && !pl_streq(as, ref->name)))
            continue;
        of = pl_http_path_make("/api/v1/pipelines/%s/%s", ref->project, pl_show_text_at(job, "pipeline"));
        if (*as || (pl_cli_call(c, "GET", of, NULL, &pipeline, NULL) == 0 && writes_branch(pipeline, ref)))
            r = (*ret = strdup(pl_show_text_at(job, "run"))) ? 0 : pl_err_nomem(err);
    }
    return r;
}

/* For a stage's branch that has no commit yet: finds the run of the stage's newest job, if that job will
 * write the branch. PL_ENOTFOUND if there is no such job. */
static int run_of_stage(struct pl_cli *c, const struct pl_commit_ref *ref, char **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *page = NULL, *pipeline = NULL;
    _cleanup_free_ char *jobs = pl_http_path_make("/api/v1/jobs?limit=1&project=%s&stage=%s", ref->project, ref->repo),
                        *path = NULL;
    const json_t *job;
    int r = pl_cli_call(c, "GET", jobs, NULL, &page, err);

    job = r < 0 ? NULL : json_array_get(pl_show_at(page, "jobs"), 0);
    if (!job)
        return r < 0 ? r : PL_ENOTFOUND;
    path = pl_http_path_make("/api/v1/pipelines/%s/%s", ref->project, pl_show_text_at(job, "pipeline"));
    r = pl_cli_call(c, "GET", path, NULL, &pipeline, err);
    if (r < 0 || !writes_branch(pipeline, ref))
        return r < 0 ? r : PL_ENOTFOUND;
    *ret = strdup(pl_show_text_at(job, "run"));
    return *ret ? 0 : pl_err_nomem(err);
}

static int run_of_commit(struct pl_cli *c, const char *text, char **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *commit = NULL;
    _cleanup_free_ char *path = NULL;
    char name[PL_NAME_MAX_BYTES + 16];
    struct pl_commit_ref ref;
    struct pl_err of_stage = {0};
    int r = pl_cli_ref(c, text, &ref, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/commits/%s", ref.project, ref.repo, pl_cli_ref_text(&ref, name));
    r = pl_cli_call(c, "GET", path, NULL, &commit, err);
    if (r == PL_ENOTFOUND && ref.kind != PL_COMMIT_REF_ID && !ref.back) {
        int s = run_of_stage(c, &ref, ret, &of_stage);

        if (s < 0 && s != PL_ENOTFOUND)
            *err = of_stage;
        return s == PL_ENOTFOUND ? r : s;
    }
    if (r < 0)
        return r;
    *ret = strdup(pl_show_text_at(commit, "id"));
    return *ret ? 0 : pl_err_nomem(err);
}

int pl_cli_run_id(struct pl_cli *c, const char *text, char **ret, struct pl_err *err)
{
    size_t n = strspn(text, "0123456789abcdef");

    if (strchr(text, '@'))
        return run_of_commit(c, text, ret, err);
    if (text[n] || n == 0 || n > PL_ID_HEX)
        return pl_err_set(err, PL_EUSAGE, "\"%.60s\" is not a run: give its id, the start of it, or REPO@REF", text);
    *ret = strdup(text);
    return *ret ? 0 : pl_err_nomem(err);
}

int pl_cli_job_arg(struct pl_cli *c, const char *text, struct pl_cli_job *ret, struct pl_err *err)
{
    const char *at = strchr(text, '@');
    _cleanup_free_ char *stage = at ? strndup(text, (size_t)(at - text)) : strdup(text), *run = NULL;
    struct pl_cli_name name;
    int r = stage ? pl_cli_name(c, "stage", stage, &name, err) : pl_err_nomem(err);

    r = r < 0 || !at ? r : pl_cli_run_id(c, at + 1, &run, err);
    if (r < 0)
        return r;
    memcpy(ret->project, name.project, sizeof ret->project);
    memcpy(ret->stage, name.name, sizeof ret->stage);
    snprintf(ret->run, sizeof ret->run, "%s", run ? run : "");
    return 0;
}

int pl_cli_job_find(struct pl_cli *c, const char *text, struct pl_cli_job *ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *page = NULL;
    _cleanup_free_ char *path = NULL;
    int r = pl_cli_job_arg(c, text, ret, err);

    if (r < 0 || *ret->run)
        return r;
    path = pl_http_path_make("/api/v1/jobs?limit=1&project=%s&stage=%s", ret->project, ret->stage);
    r = pl_cli_call(c, "GET", path, NULL, &page, err);
    if (r < 0)
        return r;
    snprintf(ret->run, sizeof ret->run, "%s", pl_show_text_at(json_array_get(json_object_get(page, "jobs"), 0), "run"));
    return *ret->run ? 0 : pl_err_set(err, PL_ENOTFOUND, "stage \"%s\" of project \"%s\" has no job", ret->stage, ret->project);
}

/* ---- reasons of failed jobs ---- */

static void print_tail(const char *tail)
{
    const char *end = tail + strlen(tail), *start = end;
    char line[1024];

    for (unsigned lines = 0; start > tail; start--)
        if (start[-1] == '\n' && start != end && ++lines == TAIL_LINES)
            break;
    for (; *start; start += strcspn(start, "\n"), start += *start == '\n') {
        size_t len = strcspn(start, "\n");
        const char *shown;
        char raw[sizeof line];

        while (len > 0 && start[len - 1] == '\r')
            len--;
        shown = memrchr(start, '\r', len); /* a progress bar: its last state, as on a terminal */
        shown = shown ? shown + 1 : start;
        snprintf(raw, sizeof raw, "%.*s", (int)PL_MIN((size_t)(start + len - shown), sizeof raw - 1), shown);
        fprintf(stderr, "    | %s\n", pl_show_clean(raw, line, sizeof line));
    }
}

/* Prints the last attempt of a failed datum of the job. Returns 1 if it printed one, 0 if no datum failed, or
 * an error. */
static int explain_datum(struct pl_cli *c, const json_t *job, struct pl_err *err)
{
    const char *project = pl_show_text_at(job, "project"), *stage = pl_show_text_at(job, "stage"),
               *run = pl_show_text_at(job, "run");
    _cleanup_free_ char *list = pl_http_path_make("/api/v1/jobs/%s/%s/%s/datums?state=failed&limit=1", project, stage, run),
                        *one = NULL;
    _cleanup_(json_decrefp) json_t *page = NULL, *datum = NULL;
    const json_t *attempts, *last;
    char text[PL_SHOW_TEXT_MAX], at[PL_NAME_MAX_BYTES + 2] = "";
    int r = pl_cli_call(c, "GET", list, NULL, &page, err);
    const char *id = pl_show_text_at(json_array_get(json_object_get(page, "datums"), 0), "id");

    if (r < 0 || !*id)
        return r;
    one = pl_http_path_make("/api/v1/jobs/%s/%s/%s/datums/%s", project, stage, run, id);
    r = pl_cli_call(c, "GET", one, NULL, &datum, err);
    if (r < 0)
        return r;
    attempts = json_object_get(datum, "attempts");
    last = json_array_get(attempts, json_array_size(attempts) - 1);
    if (!pl_streq(project, PL_DEFAULT_PROJECT))
        snprintf(at, sizeof at, "%s/", project);
    pl_show_print(stderr, "stage %s: datum %s: %s\n", stage, pl_show_text_at(last, "paths"),
                  pl_show_clean(pl_show_text_at(last, "reason"), text, sizeof text));
    print_tail(pl_show_text_at(last, "tail"));
    pl_show_print(stderr, "  whole log: pipelinectl logs %s%s@%.8s --datum %.12s\n", at, stage, run, id);
    pl_show_print(stderr, "  try it here: %s\n", pl_show_text_at(datum, "try"));
    return 1;
}

int pl_cli_jobs_explain(struct pl_cli *c, const json_t *jobs, struct pl_err *err)
{
    const json_t *job;
    char reason[PL_SHOW_TEXT_MAX];
    size_t i;
    int r = 0;

    json_array_foreach(jobs, i, job)
    {
        const char *state = pl_show_text_at(job, "state");

        if (r < 0 || (!pl_streq(state, "failure") && !pl_streq(state, "killed")))
            continue;
        r = pl_streq(state, "failure") ? explain_datum(c, job, err) : 0;
        if (r == 0)
            fprintf(stderr, "stage %s: %s: %s\n", pl_show_text_at(job, "stage"), state,
                    pl_show_clean(pl_show_text_at(job, "reason"), reason, sizeof reason));
    }
    return PL_MIN(r, 0);
}
