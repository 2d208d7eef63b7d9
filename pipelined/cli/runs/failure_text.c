/* Prints failure groups in the words of the web page (web/src/core/failures.ts). */
#include "pipelined/cli/runs/failure_text.h"

#include "pipelined/cli/support/server_client.h"
#include "pipelined/spec/spec.h"

#include <stdio.h>

#define GROUPS_PRINTED 20
#define GROUP_DIGITS   8 /* of a group's id, for people */

int pl_failure_text_read(struct pl_cli *c, const struct pl_cli_job *job, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/jobs/%s/%s/%s/failures", job->project, job->stage, job->run);

    return pl_cli_call(c, "GET", path, NULL, ret, err);
}

char *pl_failure_text_job(const struct pl_cli_job *job, char out[PL_FAILURE_TEXT_JOB])
{
    const bool other = !pl_streq(job->project, PL_DEFAULT_PROJECT);

    snprintf(out, PL_FAILURE_TEXT_JOB, "%s%s%s@%.8s", other ? job->project : "", other ? "/" : "", job->stage, job->run);
    return out;
}

/* Prints how large the inputs of the group's datums are, if the sizes are known. */
static void print_sizes(const json_t *group)
{
    const json_int_t least = pl_show_int_at(group, "bytes_min"), most = pl_show_int_at(group, "bytes_max");
    char low[32], high[32];

    if (!json_is_integer(pl_show_at(group, "bytes_min")) || !json_is_integer(pl_show_at(group, "bytes_max")))
        return;
    pl_size_text((uint64_t)least, low);
    pl_size_text((uint64_t)most, high);
    if (most == 0)
        printf("        all inputs are empty\n");
    else if (least == most)
        printf("        each has %s of input\n", low);
    else
        printf("        each has %s to %s of input\n", low, high);
}

/* Prints whether earlier jobs of the stage failed in the same way. */
static void print_before(const json_t *group, json_int_t jobs)
{
    const json_int_t before = pl_show_int_at(group, "jobs_before");

    if (jobs == 0)
        return;
    if (jobs == 1)
        printf("        %s in the job before\n", before == 0 ? "no such failure" : "the same failure");
    else if (before == 0)
        printf("        no such failure in the last %lld job%s\n", (long long)jobs, jobs == 1 ? "" : "s");
    else
        printf("        the same failure in %lld of the last %lld job%s, last in run %.8s\n", (long long)before, (long long)jobs,
               jobs == 1 ? "" : "s", pl_show_text_at(group, "run_before"));
}

static void print_group(const struct pl_cli_job *job, const json_t *failures, const json_t *group)
{
    const json_int_t count = pl_show_int_at(group, "count");
    const char *message = pl_show_text_at(group, "message"), *reason = pl_show_text_at(group, "reason"),
               *folder = pl_show_text_at(group, "folder"), *node = pl_show_text_at(group, "node");
    const size_t len = strlen(folder);
    char name[PL_FAILURE_TEXT_JOB];

    pl_show_print(stdout, "%6lld  %s\n", (long long)count, message);
    if (*reason && !pl_streq(reason, message))
        pl_show_print(stdout, "        %s\n", reason);
    if (count > 1) {
        if (len >= 2 && strcmp(folder + len - 2, "=/") != 0)
            pl_show_print(stdout, "        all below %s\n", folder);
        print_sizes(group);
        if (*node)
            pl_show_print(stdout, "        all on %s\n", node);
    }
    print_before(group, pl_show_int_at(failures, "jobs_examined"));
    pl_show_print(stdout, "        %s%s\n", count > 1 ? "the first: " : "", pl_show_text_at(group, "paths"));
    printf("        pipelinectl inspect datum %s %.12s\n", pl_failure_text_job(job, name), pl_show_text_at(group, "datum"));
    printf("        pipelinectl retry job %s --group %.*s\n", name, GROUP_DIGITS, pl_show_text_at(group, "id"));
}

void pl_failure_text_print(const struct pl_cli_job *job, const json_t *failures)
{
    const json_t *groups = pl_show_at(failures, "groups"), *group;
    const json_int_t failed = pl_show_int_at(failures, "failed"), kept = pl_show_int_at(failures, "kept");
    const size_t n = json_array_size(groups);
    size_t i;

    if (n == 0)
        return;
    printf("\n%lld failed datum%s, %zu way%s", (long long)PL_MAX(failed, kept), PL_MAX(failed, kept) == 1 ? "" : "s", n,
           n == 1 ? "" : "s");
    if (kept < failed)
        printf(" among the %lld whose attempts are kept", (long long)kept);
    printf(":\n");
    json_array_foreach(groups, i, group)
    {
        if (i < GROUPS_PRINTED)
            print_group(job, failures, group);
    }
    if (n > GROUPS_PRINTED)
        printf("… and %zu more ways: inspect job --json lists them\n", n - GROUPS_PRINTED);
}
