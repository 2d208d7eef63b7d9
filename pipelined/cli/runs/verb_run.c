/* The subcommands for runs: list, inspect, stop. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/server_client.h"
#include <stdio.h>

static int list_run(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {
        {"RUN", "id", pl_show_id},   {"STATE", "state", NULL}, {"CREATED", "created_us", pl_show_ago},
        {"TOOK", "", pl_show_took},  {"CAUSE", "cause", NULL}, {"REASON", "reason", NULL},
        {"MESSAGE", "message", NULL}};
    const char *state = pl_cli_value(c, "state"), *commit = pl_cli_value(c, "commit");
    _cleanup_(pl_buf_finish) struct pl_buf path = {0};
    char empty[256] = "no runs yet: a push or a new pipeline starts one";
    uint64_t limit = 20;
    int r = pl_cli_number(c, "limit", 1000000000, &limit, err);

    if (state || commit)
        snprintf(empty, sizeof empty, "no run%s%.80s is %.40s", commit ? " of commit " : "", commit ? commit : "",
                 state ? state : "known");
    r = r < 0 ? r : pl_buf_add_str(&path, "/api/v1/runs?", err);
    r = r < 0 ? r : pl_cli_add_query(&path, "project", c->one_project ? c->project : NULL, err);
    r = r < 0 ? r : pl_cli_add_query(&path, "state", state, err);
    r = r < 0 ? r : pl_cli_add_query(&path, "commit", commit, err);
    return r < 0 ? r
                 : pl_show_list(c, pl_buf_str(&path), "runs", columns, PL_ARRAY_SIZE(columns), pl_cli_flag(c, "all") ? 0 : limit,
                                empty, err);
}

static int inspect_run(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {{"run", "id", NULL},
                                             {"state", "state", NULL},
                                             {"reason", "reason", NULL},
                                             {"cause", "cause", NULL},
                                             {"message", "message", NULL},
                                             {"created", "created_us", pl_show_time},
                                             {"finished", "finished_us", pl_show_time},
                                             {"took", "", pl_show_took}};
    _cleanup_(json_decrefp) json_t *run = NULL;
    _cleanup_free_ char *id = NULL, *path = NULL;
    int r = pl_cli_run_id(c, c->args[0], &id, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/runs/%s", id);
    r = pl_cli_call(c, "GET", path, NULL, &run, err);
    r = r < 0 ? r : pl_show_object(c, run, lines, PL_ARRAY_SIZE(lines), err);
    if (r < 0 || c->json)
        return r;
    putchar('\n');
    if (json_array_size(pl_show_at(run, "jobs")) == 0) {
        puts("no stage reads what this run changed");
        return 0;
    }
    r = pl_cli_jobs_table(pl_show_at(run, "jobs"), true, err);
    fflush(stdout);
    return r < 0 ? r : pl_cli_jobs_explain(c, pl_show_at(run, "jobs"), err);
}

static int stop_run(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL;
    _cleanup_free_ char *id = NULL, *path = NULL;
    int r = pl_cli_run_id(c, c->args[0], &id, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/runs/%s/stop", id);
    r = pl_cli_call(c, "POST", path, NULL, &answer, err);
    if (r < 0)
        return r;
    pl_show_say(c, "run %s stopped\n", pl_show_text_at(answer, "stopped"));
    return c->json ? pl_show_json(answer, err) : 0;
}

static const struct pl_option list_options[] = {{"limit", 'n', "N", "at most N (20)"},
                                                {"all", 'a', NULL, "list all"},
                                                {"state", 0, "STATE", "only in this state: running, success, failure or killed"},
                                                {"commit", 0, "SHA",
                                                 "only of stages whose spec or code came from this git commit"},
                                                {0}};

static const struct pl_verb verbs[] = {
    {"list",
     "run",
     "",
     0,
     0,
     list_options,
     list_run,
     "Lists runs, newest first: those of all projects, or of --project.",
     {"list run", "list run --state failure -n 5", "list run --commit 8f31c0a2"}},
    {"inspect",
     "run",
     "ID|REPO@REF",
     1,
     1,
     NULL,
     inspect_run,
     "Shows a run and its jobs.",
     {"inspect run 9ab2f1c4", "inspect run digits@master", "inspect run 9ab2f1c4 --json"}},
    {"stop",
     "run",
     "ID|REPO@REF",
     1,
     1,
     NULL,
     stop_run,
     "Stops every job of a run.",
     {"stop run 9ab2f1c4", "stop run digits@master", "stop run 9ab2f1c4 --json"}},
};
PL_CLI_TABLE(run, verbs);
