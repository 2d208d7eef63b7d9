/* open: opens the web page at a place, which is named as other subcommands name it. A bare name is looked up on the server. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "storage/base/buf.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

static int start_browser(const char *url, struct pl_err *err)
{
    char *argv[] = {(char *)"xdg-open", (char *)url, NULL};
    int status = 0, e;
    pid_t pid;

    e = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (e)
        return pl_err_errno(err, e, "start xdg-open (open --print shows the link)");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : pl_err_set(err, PL_EUNAVAILABLE, "no browser was found: open --print shows the link");
}

/* ---- places ---- */

/* Appends a path with its names escaped. NULL: memory ran out. Frees the path. */
static int take_path(char *path, struct pl_buf *out, struct pl_err *err)
{
    int r = path ? pl_buf_add_str(out, path, err) : pl_err_nomem(err);

    free(path);
    return r;
}

static int at_run(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_free_ char *run = NULL;
    int r = pl_cli_run_id(c, text, &run, err);

    return r < 0 ? r : take_path(pl_http_path_make("/runs/%s", run), out, err);
}

static int at_job(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    struct pl_cli_job job;
    int r = pl_cli_job_find(c, text, &job, err);

    return r < 0 ? r : take_path(pl_http_path_make("/jobs/%s/%s/%s", job.project, job.stage, job.run), out, err);
}

static int at_log(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    int r = at_job(c, text, out, err);

    return r < 0 ? r : pl_buf_add_str(out, "/log", err);
}

static int at_name(struct pl_cli *c, const char *what, const char *format, const char *text, struct pl_buf *out,
                   struct pl_err *err)
{
    struct pl_cli_name name;
    int r = pl_cli_name(c, what, text, &name, err);

    return r < 0 ? r : take_path(pl_http_path_make(format, name.project, name.name), out, err);
}

static int at_repo(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    return at_name(c, "repo", "/data/%s/%s", text, out, err);
}

static int at_pipeline(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    return at_name(c, "pipeline", "/pipelines/%s/%s", text, out, err);
}

static int at_metrics(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    return at_name(c, "stage", "/metrics/%s/%s", text, out, err);
}

/* Appends "/data/PROJECT/REPO/REF/-/PATH", or with another page than "data". */
static int at_ref(struct pl_cli *c, const char *page, const char *text, struct pl_buf *out, struct pl_err *err)
{
    char name[PL_NAME_MAX_BYTES + 16];
    struct pl_commit_ref ref;
    int r = pl_cli_ref(c, text, &ref, err);

    r = r < 0 ? r : pl_buf_addf(out, err, "/%s", page);
    r = r < 0 ? r : take_path(pl_http_path_make("/%s/%s/%s/-/", ref.project, ref.repo, pl_cli_ref_text(&ref, name)), out, err);
    return r < 0 ? r : pl_http_escape(out, ref.path, true, err);
}

static int at_file(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    return at_ref(c, "data", text, out, err);
}

static int at_why(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    return at_ref(c, "why", text, out, err);
}

/* The words that say what the name after them is. */
static const struct {
    const char *word, *takes;
    int (*at)(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err);
} kinds[] = {{"run", "RUN", at_run},
             {"job", "STAGE[@RUN]", at_job},
             {"log", "STAGE[@RUN]", at_log},
             {"repo", "REPO", at_repo},
             {"commit", "REPO@REF", at_file},
             {"branch", "REPO@BRANCH", at_file},
             {"file", "REPO@REF:/PATH", at_file},
             {"why", "REPO@REF:/PATH", at_why},
             {"pipeline", "PIPELINE", at_pipeline},
             {"metrics", "STAGE", at_metrics}};
/* Places that are one word. */
static const struct {
    const char *word, *path;
} pages[] = {{"home", "/"},       {"runs", "/runs"},         {"data", "/data"}, {"pipelines", "/pipelines"}, {"gpus", "/gpus"},
             {"check", "/check"}, {"metrics", "/metrics/-"}, {"gpu", "/gpus"},  {"queue", "/gpus"}};

/* ---- bare names ---- */

/* Returns 1 if the server has the object at the path, else 0. Frees the path. */
static int exists(struct pl_cli *c, char *path, json_t **ret, struct pl_err *err)
{
    int r = pl_cli_call(c, "GET", path, NULL, ret, err);

    free(path);
    return r == PL_ENOTFOUND || r == PL_EFORBIDDEN || r == PL_EGONE || r == PL_ENAME ? 0 : r < 0 ? r : 1;
}

/* True if the pipeline has the stage. */
static bool has_stage(const json_t *pipeline, const char *name)
{
    const json_t *stage;
    size_t i;

    json_array_foreach(pl_show_at(pipeline, "stages"), i, stage)
    {
        if (pl_streq(pl_show_text_at(stage, "name"), name))
            return true;
    }
    return false;
}

/* Finds what the name is: a pipeline, "PIPELINE/STAGE", a stage that has jobs, or a repo. Returns 1, or 0 if it is none. */
static int look_up(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *pipeline = NULL, *of = NULL, *jobs = NULL, *repo = NULL;
    struct pl_cli_name name;
    int r = pl_cli_name(c, "place", text, &name, err);

    r = r < 0 ? r : exists(c, pl_http_path_make("/api/v1/pipelines/%s/%s", name.project, name.name), &pipeline, err);
    if (r != 0)
        return r < 0 ? r : (r = at_pipeline(c, text, out, err)) < 0 ? r : 1;
    if (strchr(text, '/')) {
        r = exists(c, pl_http_path_make("/api/v1/pipelines/%s/%s", c->project, name.project), &of, err);
        if (r < 0 || (r > 0 && has_stage(of, name.name)))
            return r < 0 ? r : (r = at_job(c, name.name, out, err)) < 0 ? r : 1;
    }
    r = exists(c, pl_http_path_make("/api/v1/jobs?limit=1&project=%s&stage=%s", name.project, name.name), &jobs, err);
    if (r < 0 || json_array_size(pl_show_at(jobs, "jobs")) > 0)
        return r < 0 ? r : (r = at_job(c, text, out, err)) < 0 ? r : 1;
    r = exists(c, pl_http_path_make("/api/v1/repos/%s/%s", name.project, name.name), &repo, err);
    return r <= 0 ? r : (r = at_repo(c, text, out, err)) < 0 ? r : 1;
}

/* True for a text that may be a run's id or the start of it. */
static bool may_be_run(const char *text)
{
    const size_t n = strspn(text, "0123456789abcdef");

    return !text[n] && n >= 4 && n <= PL_ID_HEX;
}

static int nothing(const char *text, struct pl_err *err)
{
    int r = pl_err_set(err, PL_ENOTFOUND, "there is no run, pipeline, stage or repo \"%.80s\"", text);

    return pl_err_hint(err, r,
                       "A place is a RUN, STAGE, PIPELINE, PIPELINE/STAGE, REPO or REPO@REF[:/PATH], a word and a name such "
                       "as \"job train\", or runs, data, pipelines, gpus, metrics or check.");
}

static int at_place(struct pl_cli *c, const char *text, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *run = NULL;
    int r;

    for (size_t i = 0; i < PL_ARRAY_SIZE(pages); i++)
        if (pl_streq(pages[i].word, text))
            return pl_buf_add_str(out, pages[i].path, err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(kinds); i++)
        if (pl_streq(kinds[i].word, text))
            return pl_err_set(err, PL_EUSAGE, "which %s? open %s %s", text, text, kinds[i].takes);
    if (strchr(text, '@'))
        return at_file(c, text, out, err);
    if (may_be_run(text)) {
        r = exists(c, pl_http_path_make("/api/v1/runs/%s", text), &run, err);
        if (r != 0)
            return r < 0 ? r : at_run(c, pl_show_text_at(run, "id"), out, err);
    }
    r = look_up(c, text, out, err);
    return r == 0 ? nothing(text, err) : PL_MIN(r, 0);
}

/* Writes the path of the place below the page's address. */
static int find_place(struct pl_cli *c, struct pl_buf *out, struct pl_err *err)
{
    if (c->n_args < 2)
        return c->n_args == 0 ? pl_buf_add_str(out, "/", err) : at_place(c, c->args[0], out, err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(kinds); i++)
        if (pl_streq(kinds[i].word, c->args[0]))
            return kinds[i].at(c, c->args[1], out, err);
    return pl_err_set(err, PL_EUSAGE,
                      "\"%.40s\" is no kind of place: use run, job, log, repo, commit, branch, file, why, pipeline or metrics",
                      c->args[0]);
}

static int open_page(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *link = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf place = {0}, url = {0};
    int r = find_place(c, &place, err);

    r = r < 0 ? r : pl_cli_call(c, "POST", "/api/v1/login-links", NULL, &link, err);
    r = r < 0 ? r : pl_buf_add_str(&url, pl_show_text_at(link, "url"), err);
    if (r == 0 && c->n_args > 0) {
        r = pl_buf_add_str(&url, "&to=", err);
        r = r < 0 ? r : pl_http_escape(&url, pl_buf_str(&place), true, err);
    }
    if (r < 0)
        return r;
    json_object_set_new(link, "url", json_string(pl_buf_str(&url)));
    json_object_set_new(link, "place", json_string(pl_buf_str(&place)));
    if (c->json)
        return pl_show_json(link, err);
    if (!pl_cli_flag(c, "print"))
        return start_browser(pl_buf_str(&url), err);
    puts(pl_buf_str(&url));
    return 0;
}

static const struct pl_option options[] = {{"print", 0, NULL, "print the link instead of opening it"}, {0}};

static const struct pl_verb verbs[] = {
    {"open",
     NULL,
     "[PLACE | KIND NAME]",
     0,
     2,
     options,
     open_page,
     "Opens the web page, at a run, job, repo, commit, file or pipeline, or at a word such as gpus; logged in by a link that "
     "works once.",
     {"open", "open photos@master:/lisbon/a.jpg", "open job train@9ab2f1c4 --print"}},
};
PL_CLI_TABLE(open, verbs);
