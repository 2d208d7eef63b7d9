/* retry job: tries the failed datums of one failure group again; the others stay failed. */
#include "pipelined/cli/runs/failure_text.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/run_wait.h"
#include "pipelined/cli/support/server_client.h"

/* Refuses a command line that does not say which of the groups is meant, and lists them. */
static int which(const struct pl_cli_job *job, const json_t *groups, const char *wanted, struct pl_err *err)
{
    char name[PL_FAILURE_TEXT_JOB], list[400] = "";
    const json_t *group;
    size_t i, n = 0;

    json_array_foreach(groups, i, group)
    {
        if (n < sizeof list)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%.8s (%lld × %.40s)", i ? ", " : "", pl_show_text_at(group, "id"),
                                  (long long)pl_show_int_at(group, "count"), pl_show_text_at(group, "message"));
    }
    if (!wanted)
        pl_err_set(err, PL_EUSAGE, "the datums of %s failed in %zu ways: give one with --group: %s",
                   pl_failure_text_job(job, name), json_array_size(groups), list);
    else
        pl_err_set(err, PL_ENOTFOUND, "%s has no failure group \"%.40s\", or several whose ids begin so; it has %s",
                   pl_failure_text_job(job, name), wanted, list);
    return err->code;
}

/* Finds the group whose id begins with `wanted`; if none is wanted, the only one. */
static int choose(const struct pl_cli_job *job, const json_t *failures, const char *wanted, const char **ret, struct pl_err *err)
{
    const json_t *groups = pl_show_at(failures, "groups"), *group, *found = NULL;
    size_t i, n = 0;
    char name[PL_FAILURE_TEXT_JOB];

    if (json_array_size(groups) == 0)
        return pl_err_set(err, PL_ENOTFOUND, "no failed datum of %s is kept: pipelinectl inspect job %s says what became of it",
                          job->stage, pl_failure_text_job(job, name));
    json_array_foreach(groups, i, group)
    {
        if (wanted && strncmp(pl_show_text_at(group, "id"), wanted, strlen(wanted)) != 0)
            continue;
        found = group;
        n++;
    }
    if (n != 1)
        return which(job, groups, wanted, err);
    *ret = pl_show_text_at(found, "id");
    return 0;
}

static int retry_job(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *failures = NULL, *answer = NULL;
    _cleanup_free_ char *path = NULL;
    const char *group = NULL;
    struct pl_cli_job job;
    json_int_t n, rest;
    int r = pl_cli_job_find(c, c->args[0], &job, err);

    r = r < 0 ? r : pl_failure_text_read(c, &job, &failures, err);
    r = r < 0 ? r : choose(&job, failures, pl_cli_value(c, "group"), &group, err);
    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/jobs/%s/%s/%s/retry", job.project, job.stage, job.run);
    r = pl_cli_call(c, "POST", path, json_pack("{s:s}", "group", group), &answer, err);
    if (r < 0)
        return r;
    n = pl_show_int_at(answer, "datums");
    rest = pl_show_int_at(answer, "untried");
    pl_show_say(c, "run %s tries %lld datum%s of %s again", pl_show_text_at(answer, "run"), (long long)n, n == 1 ? "" : "s",
                job.stage);
    if (rest)
        pl_show_say(c, "; the other %lld failed one%s not tried", (long long)rest, rest == 1 ? " is" : "s are");
    pl_show_say(c, "\n");
    return pl_cli_run_started(c, answer, err);
}

static const struct pl_option options[] = {
    {"group", 0, "GROUP", "only the datums of this failure group, as inspect job lists them; not needed if there is one"},
    PL_CLI_WAIT,
    {0}};

static const struct pl_verb verbs[] = {
    {"retry",
     "job",
     "STAGE[@RUN]",
     1,
     1,
     options,
     retry_job,
     "Tries the failed datums of one failure group again, in a new run over what the job read.",
     {"retry job decode --group 5f1e2d3c", "retry job decode@9ab2f1c4 --group 5f1e2d3c", "retry job vision/detect --json"}},
};
PL_CLI_TABLE(retry, verbs);
