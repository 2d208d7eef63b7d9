/* rerun: runs the jobs of a run again on the same inputs. With --compare it also compares the new outputs with the old ones;
 * the new ones are on a branch of their own, so that nothing reads them and nothing that runs is superseded. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/run_wait.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include <stdio.h>

#define DIFFERENCES_SHOWN 1000 /* most differing files printed for each stage */

/* Compares one stage's outputs in the two runs, and appends each file that differs to `ret` as {"stage",
 * "path", "change"}. */
static int compare_stage(struct pl_cli *c, const json_t *job, const char *of, const char *run, json_t *ret, struct pl_err *err)
{
    const char *project = pl_show_text_at(job, "project"), *stage = pl_show_text_at(job, "stage");
    _cleanup_(json_decrefp) json_t *answer = NULL;
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/repos/%s/%s/diff?from=%s&to=%s&limit=%u", project, stage, of, run,
                                                  (uint64_t)DIFFERENCES_SHOWN);
    const json_t *change;
    size_t i;
    int r = pl_cli_call(c, "GET", path, NULL, &answer, err);

    json_array_foreach(pl_show_at(answer, "changes"), i, change)
    {
        json_array_append_new(ret, json_pack("{s:s, s:O, s:O}", "stage", stage, "path", pl_show_at(change, "path"), "change",
                                             pl_show_at(change, "change")));
    }
    return r;
}

/* Waits for the run `run`, and lists the files in which its outputs differ from those of the run `of`. */
static int compare(struct pl_cli *c, const char *of, const char *run, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"STAGE", "stage", NULL}, {"FILE", "path", NULL}, {"CHANGE", "change", NULL}};
    _cleanup_(json_decrefp) json_t *before = NULL, *differ = json_array(), *out = NULL;
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/runs/%s", of);
    const json_t *job;
    size_t i, n;
    int r = pl_cli_run_success(c, run, err);

    if (r == PL_ESTAGE)
        return pl_err_wrap(err, r, "there is nothing to compare");
    r = r < 0 ? r : pl_cli_call(c, "GET", path, NULL, &before, err);
    json_array_foreach(pl_show_at(before, "jobs"), i, job)
    {
        if (r == 0 && *pl_show_text_at(job, "output"))
            r = compare_stage(c, job, of, run, differ, err);
    }
    if (r < 0)
        return r;
    n = json_array_size(differ);
    out = json_pack("{s:s, s:s, s:O}", "of", of, "run", run, "differ", differ);
    if (c->json)
        r = pl_show_json(out, err);
    else if (n)
        r = pl_show_table(differ, columns, PL_ARRAY_SIZE(columns), true, err);
    else
        pl_show_say(c, "run %.8s wrote the same files as run %.8s\n", run, of);
    fflush(stdout);
    return r < 0 || n == 0 ? r
                           : pl_err_set(err, PL_ESTAGE, "%zu file%s differ%s between run %.8s and run %.8s", n, n == 1 ? "" : "s",
                                        n == 1 ? "s" : "", of, run);
}

static json_t *request(bool failed, const char *as)
{
    return as ? json_pack("{s:b, s:s}", "failed", (int)failed, "as", as) : json_pack("{s:b}", "failed", (int)failed);
}

static int rerun(struct pl_cli *c, struct pl_err *err)
{
    bool failed = pl_cli_flag(c, "failed"), comparing = pl_cli_flag(c, "compare");
    const char *as = pl_cli_value(c, "as");
    char own[32];
    _cleanup_(json_decrefp) json_t *answer = NULL;
    _cleanup_free_ char *id = NULL, *path = NULL;
    int r = 0;

    if (failed && comparing)
        r = pl_err_set(err, PL_EUSAGE, "--failed and --compare do not go together: a failed job left nothing to compare with");
    r = r < 0 ? r : pl_cli_run_id(c, c->args[0], &id, err);
    if (r < 0)
        return r;
    snprintf(own, sizeof own, "compare-%.8s", id);
    as = comparing && !as ? own : as;
    path = pl_http_path_make("/api/v1/runs/%s/rerun", id);
    r = pl_cli_call(c, "POST", path, request(failed, as), &answer, err);
    if (r < 0)
        return r;
    if (!c->json || !comparing)
        pl_show_say(c, "run %s of %zu stage%s%s%s\n", pl_show_text_at(answer, "run"),
                    json_array_size(pl_show_at(answer, "stages")), json_array_size(pl_show_at(answer, "stages")) == 1 ? "" : "s",
                    as ? ", outputs on branch " : "", as ? as : "");
    if (comparing)
        return compare(c, id, pl_show_text_at(answer, "run"), err);
    return pl_cli_run_started(c, answer, err);
}

static const struct pl_option options[] = {
    {"failed", 0, NULL, "only jobs that did not succeed; the datums that they finished are kept"},
    {"compare", 0, NULL,
     "wait for the end, and list the files that differ (exit 1); outputs go to branch compare-RUN unless --as names one"},
    {"as", 0, "NAME", "write outputs to this branch of the stages' repos; input branches may have moved on since"},
    PL_CLI_WAIT,
    {0}};

static const struct pl_verb verbs[] = {
    {"rerun",
     NULL,
     "RUN",
     1,
     1,
     options,
     rerun,
     "Runs the jobs of a run again on what they read: every datum, or what failed.",
     {"rerun 9ab2f1c4 --failed", "rerun train@master --compare", "rerun 9ab2f1c4 --as again"}},
};
PL_CLI_TABLE(rerun, verbs);
