/* gc: requests a garbage collection from the daemon and shows its progress. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/progress.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "storage/base/path.h"

#include <stdio.h>

#define WAIT_MS 500 /* longest time that one status request waits for the collection to end, in ms */

static void show_progress(const struct pl_cli *c, const json_t *report)
{
    if (pl_cli_progress_seen(c))
        fprintf(stderr, "\r\033[K%s %s %lld of %lld", pl_show_text_at(report, "project"), pl_show_text_at(report, "phase"),
                (long long)pl_show_int_at(report, "done"), (long long)pl_show_int_at(report, "all"));
}

/* Waits until the garbage collection has ended. An interrupt (^C) stops the collection; steps that it has
 * completed are not undone. */
static int watch(struct pl_cli *c, json_int_t number, json_t **ret, struct pl_err *err)
{
    bool stopped = false;
    char path[128];
    int r;

    snprintf(path, sizeof path, "/api/v1/gc?number=%lld&wait_ms=%d", (long long)number, WAIT_MS);
    for (;;) {
        json_decref(*ret);
        *ret = NULL;
        r = pl_cli_call(c, "GET", path, NULL, ret, err);
        if (r < 0)
            return r;
        if (!json_is_true(pl_show_at(*ret, "running")) || pl_show_int_at(*ret, "number") > number)
            break;
        show_progress(c, *ret);
        if (pl_cli_interrupted() && !stopped) {
            stopped = true;
            r = pl_cli_call(c, "DELETE", "/api/v1/gc", NULL, NULL, err);
            if (r < 0)
                return r;
        }
    }
    if (pl_cli_progress_seen(c))
        fputs("\r\033[K", stderr);
    return 0;
}

static const char *size_at(const json_t *report, const char *key, char out[32])
{
    return pl_size_text((uint64_t)pl_show_int_at(report, key), out);
}

/* Prints what a dry run found. */
static int say_foreseen(struct pl_cli *c, const json_t *report, struct pl_err *err)
{
    static const struct pl_column columns[] = {
        {"PROJECT", "project", NULL}, {"REPO", "repo", NULL}, {"COMMITS", "commits", NULL}, {"SIZE", "bytes", pl_show_size}};
    json_t *repos = json_object_get(report, "repos");
    char freed[32], all[32], copied[32];

    pl_show_say(c, "%s in %lld packs would be freed, of %s in %lld packs\n", size_at(report, "freed_bytes", freed),
                (long long)pl_show_int_at(report, "freed_packs"), size_at(report, "bytes", all),
                (long long)pl_show_int_at(report, "packs"));
    if (pl_show_int_at(report, "commits"))
        pl_show_say(c, "%lld commits would be dropped by retention rules: pipelinectl keep --dry-run lists them\n",
                    (long long)pl_show_int_at(report, "commits"));
    if (pl_show_int_at(report, "copied_packs"))
        pl_show_say(c, "%s of needed data would be copied out of %lld packs that are mostly unneeded, or small\n",
                    size_at(report, "copied_bytes", copied), (long long)pl_show_int_at(report, "copied_packs"));
    if (!json_array_size(repos))
        return 0;
    pl_show_say(c, "\ndeleted history:\n");
    return c->quiet ? 0 : pl_show_table(repos, columns, PL_ARRAY_SIZE(columns), true, err);
}

static void say_done(struct pl_cli *c, const json_t *report)
{
    json_int_t waiting = pl_show_int_at(report, "waiting_packs"), commits = pl_show_int_at(report, "commits");
    char freed[32], waits[32], live[32];

    if (commits)
        pl_show_say(c, "%lld commits were dropped by retention rules\n", (long long)commits);
    pl_show_say(c, "%s in %lld packs freed; %s is needed\n", size_at(report, "freed_bytes", freed),
                (long long)pl_show_int_at(report, "freed_packs"), size_at(report, "live_bytes", live));
    if (waiting)
        pl_show_say(
            c,
            "%s in %lld packs will be freed when the writers, readers and workers that are active now have finished: usually "
            "within 15 minutes\n",
            size_at(report, "waiting_bytes", waits), (long long)waiting);
}

static int say(struct pl_cli *c, const json_t *report, struct pl_err *err)
{
    const char *error = pl_show_text_at(report, "error");
    bool dry = json_is_true(pl_show_at(report, "dry_run"));
    int r = 0;

    if (c->json)
        r = pl_show_json(report, err);
    else if (!*error && dry)
        r = say_foreseen(c, report, err);
    else if (!dry)
        say_done(c, report);
    if (r < 0 || !*error)
        return r;
    r = pl_err_set(err, pl_cli_interrupted() ? PL_ECANCELED : PL_EINTERNAL, "%s", error);
    return pl_err_hint(err, r, "What was freed stays freed; pipelinectl gc continues from there.");
}

static int gc(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL, *report = NULL;
    int r;

    pl_cli_note_interrupt();
    r = pl_cli_call(c, "POST", "/api/v1/gc", json_pack("{s:b}", "dry_run", pl_cli_flag(c, "dry-run")), &answer, err);
    r = r < 0 ? r : watch(c, pl_show_int_at(answer, "number"), &report, err);
    return r < 0 ? r : say(c, report, err);
}

static const struct pl_option options[] = {{"dry-run", 0, NULL, "show what would be freed, and change nothing"}, {0}};

static const struct pl_verb verbs[] = {
    {"gc",
     NULL,
     "[--dry-run]",
     0,
     0,
     options,
     gc,
     "Removes data that is no longer needed from the store; others may read and write meanwhile.",
     {"gc", "gc --dry-run", "gc --json | jq .freed_bytes"}},
};
PL_CLI_TABLE(gc, verbs);
