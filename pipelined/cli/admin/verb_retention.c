/* keep: drops the commits, results and logs that the retention rules of their repos no longer keep. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include <stdio.h>

/* Prints the commits that a dry run would drop. */
static int say_commits(const json_t *report, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"COMMIT", "commit", pl_show_id},
                                               {"REPO", "repo", NULL},
                                               {"BRANCH", "branch", NULL},
                                               {"CREATED", "created_us", pl_show_ago},
                                               {"FILES", "files", NULL},
                                               {"SIZE", "bytes", pl_show_size},
                                               {"WHY", "why", NULL}};
    const json_t *commits = json_object_get(report, "commits");

    if (json_array_size(commits) == 0)
        return 0;
    if (json_is_true(json_object_get(report, "more")))
        puts("\nwould be dropped (and more):");
    else
        puts("\nwould be dropped:");
    return pl_show_table(commits, columns, PL_ARRAY_SIZE(columns), true, err);
}

static int say(struct pl_cli *c, const json_t *report, bool dry_run, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"REPO", "repo", NULL},       {"KEEP", "keep", pl_show_keep},
                                               {"COMMITS", "kept", NULL},    {"HELD", "held", NULL},
                                               {"DROPPED", "commits", NULL}, {"RESULTS", "results", NULL},
                                               {"LOGS", "logs", NULL}};
    const json_t *repos = json_object_get(report, "repos");
    json_int_t results = pl_show_int_at(report, "deleted.results"), logs = pl_show_int_at(report, "deleted.logs");
    int r;

    if (json_array_size(repos) == 0 && !results && !logs) {
        pl_show_say(c, "everything is kept; set a rule with pipelinectl update repo NAME --keep commits=10,days=30\n");
        return 0;
    }
    r = json_array_size(repos) ? pl_show_table(repos, columns, PL_ARRAY_SIZE(columns), true, err) : 0;
    if (r == 0 && (results || logs))
        pl_show_say(c, "deleted stages: results of %lld jobs, logs of %lld\n", (long long)results, (long long)logs);
    if (r == 0 && dry_run)
        r = say_commits(report, err);
    if (r == 0 && !dry_run)
        pl_show_say(c, "next: pipelinectl gc frees the space\n");
    return r;
}

static int keep(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *report = NULL;
    _cleanup_free_ char *path = NULL;
    bool dry_run = pl_cli_flag(c, "dry-run");
    struct pl_cli_name at;
    const bool trust = pl_cli_flag(c, "trust-clock");
    int r = trust && (c->n_args || dry_run)
                ? pl_err_set(err, PL_EUSAGE, "--trust-clock applies to the whole daemon: give neither a repo nor --dry-run")
            : c->n_args ? pl_cli_name(c, "repo", c->args[0], &at, err)
                        : 0;

    if (r < 0)
        return r;
    path = c->n_args ? pl_http_path_make("/api/v1/repos/%s/%s/keep", at.project, at.name)
                     : pl_http_path_make(trust ? "/api/v1/keep?trust_clock=1" : "/api/v1/keep");
    r = dry_run ? pl_cli_call(c, "GET", path, NULL, &report, err) : pl_cli_call(c, "POST", path, json_object(), &report, err);
    if (r < 0)
        return r;
    return c->json ? pl_show_json(report, err) : say(c, report, dry_run, err);
}

static const struct pl_option options[] = {{"dry-run", 0, NULL, "show what would be dropped, and drop nothing"},
                                           {"trust-clock", 0, NULL,
                                            "confirm that the daemon's clock is right, although it is far ahead of the log"},
                                           {0}};

static const struct pl_verb verbs[] = {
    {"keep",
     NULL,
     "[REPO]",
     0,
     1,
     options,
     keep,
     "Drops what the retention rules of repos no longer keep, as the daemon does every hour.",
     {"keep --dry-run", "keep digits --dry-run", "keep"}},
};
PL_CLI_TABLE(keep, verbs);
