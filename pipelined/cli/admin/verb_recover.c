/* recover: rebuilds a daemon's data folder from its store. */
#include "pipelined/cli/local/store_url.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/db/writer/db_open.h"
#include "storage/object/object.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include <limits.h>
#include <stdio.h>

/* Creates the data folder if it does not exist. PL_EEXISTS: the folder already contains a database. */
static int check_empty(const char *dir, struct pl_err *err)
{
    char path[PATH_MAX];
    struct stat st;

    if (snprintf(path, sizeof path, "%s/pipelined.db", dir) >= (int)sizeof path)
        return pl_err_set(err, PL_EINVAL, "the path %s is too long", dir);
    if (stat(path, &st) == 0 && st.st_size > 0)
        return pl_err_set(err, PL_EEXISTS, "%s already has a database: recover needs a folder without one", dir);
    return pl_io_mkdirs(dir, 0700, err);
}

/* Runs a query that returns one number, and returns that number; 0 if the query fails. */
static int64_t count(struct pl_conn *c, const char *sql)
{
    int64_t n = 0;

    return pl_sql_int(c, NULL, &n, sql, "") < 0 ? 0 : n;
}

/* ---- report for the user ---- */

/* Prints one line of a list, with the list's title only on the first line. */
static void item(const struct pl_cli *c, bool *begun, const char *title, const char *text)
{
    pl_show_say(c, "%-13s %s\n", *begun ? "" : title, text);
    *begun = true;
}

static const char *plural(json_int_t n)
{
    return n == 1 ? "" : "s";
}

static void say_there(const struct pl_cli *c, const json_t *out)
{
    json_int_t runs = pl_show_int_at(out, "runs"), running = pl_show_int_at(out, "running"), users = pl_show_int_at(out, "users"),
               tokens = pl_show_int_at(out, "tokens");
    char text[200];
    bool begun = false;

    snprintf(text, sizeof text, "%lld run%s, of which %lld continue%s; %lld user%s, %lld token%s that remain%s valid",
             (long long)runs, plural(runs), (long long)running, running == 1 ? "s" : "", (long long)users, plural(users),
             (long long)tokens, plural(tokens), tokens == 1 ? "s" : "");
    item(c, &begun, "restored:", text);
}

static void say_list(const struct pl_cli *c, const char *title, const json_t *texts)
{
    const json_t *text;
    bool begun = false;
    size_t i;

    json_array_foreach(texts, i, text)
    {
        item(c, &begun, title, json_string_value(text));
    }
}

/* Lists what a recovery cannot restore, because the log does not contain it (docs/format.md "Log object"),
 * and the consequences. */
static json_t *not_there(const struct pl_recover_report *report)
{
    char since[160];

    if (report->ckpt_seq == 0)
        snprintf(since, sizeof since,
                 "attempts, workers and printed logs of jobs, events, metrics, the audit log: there was no checkpoint");
    else
        snprintf(since, sizeof since,
                 "attempts, workers and printed logs of jobs, events, metrics, the audit log after checkpoint %llu",
                 (unsigned long long)report->ckpt_seq);
    return json_pack("[s, s, s]", "open commits of repos without \"durable\": \"bucket\": put their files again",
                     "results of unfinished jobs that are newer than the checkpoint: these datums run again", since);
}

static void say_text(const struct pl_cli *c, const json_t *out, const struct pl_recover_report *report)
{
    bool begun = false;
    char next[600];

    pl_show_say(c, "recovered %lld repos, %lld commits and %lld pipelines", (long long)pl_show_int_at(out, "repos"),
                (long long)pl_show_int_at(out, "commits"), (long long)pl_show_int_at(out, "pipelines"));
    if (report->ckpt_seq)
        pl_show_say(c, ": checkpoint %llu and the log up to %llu\n", (unsigned long long)report->ckpt_seq,
                    (unsigned long long)report->log_seq);
    else
        pl_show_say(c, ": the log up to %llu\n", (unsigned long long)report->log_seq);
    if (report->passed_over)
        pl_show_say(c, "skipped %u damaged checkpoints: %s\n", report->passed_over, report->why);
    say_there(c, out);
    say_list(c, "not restored:", json_object_get(out, "not_there"));
    say_list(c, "created new:", report->anew);
    snprintf(next, sizeof next, "pipelined --data %.250s --store %.250s", pl_show_text_at(out, "data_dir"),
             pl_show_text_at(out, "store"));
    item(c, &begun, "next:", next);
    item(c, &begun, "", "pipelinectl fsck");
}

static int say(const struct pl_cli *c, struct pl_conn *conn, const struct pl_recover_report *report, const char *store,
               const char *dir, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *out =
        json_pack("{s:s, s:s, s:I, s:I, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:O?}", "store", store, "data_dir", dir,
                  "log_seq", (json_int_t)report->log_seq, "checkpoint", (json_int_t)report->ckpt_seq, "passed_over",
                  (int)report->passed_over, "why", report->why, "repos", (json_int_t)count(conn, "SELECT count(*) FROM repo"),
                  "commits", (json_int_t)count(conn, "SELECT count(*) FROM commit_"), "pipelines",
                  (json_int_t)count(conn, "SELECT count(*) FROM pipeline"), "runs",
                  (json_int_t)count(conn, "SELECT count(*) FROM run"), "running",
                  (json_int_t)count(conn, "SELECT count(*) FROM run WHERE state = 'running'"), "users",
                  (json_int_t)count(conn, "SELECT count(*) FROM user"), "tokens",
                  (json_int_t)count(conn, "SELECT count(*) FROM token"), "not_there", not_there(report), "anew", report->anew);

    if (!out)
        return pl_err_nomem(err);
    if (c->json)
        return pl_show_json(out, err);
    say_text(c, out, report);
    return 0;
}

static int recover(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(pl_recover_report_finish) struct pl_recover_report report = {0};
    const char *url = pl_cli_value(c, "store"), *dir = c->data;
    struct pl_object_store *objects = NULL;
    struct pl_conn *conn = NULL;
    struct pl_log_head head = {0};
    char *name = NULL;
    _cleanup_close_ int lock = -1;
    int r;

    if (!url || !dir)
        return pl_err_set(err, PL_EUSAGE, "recover needs --store file:///DIR and --data DIR");
    r = pl_cli_store_open(c, url, "", &objects, &name, err);
    r = r < 0 ? r : check_empty(dir, err);
    r = r < 0 ? r : pl_db_lock(dir, &lock, err);
    r = r < 0 ? r : pl_db_prepare(dir, objects, &conn, &head, &report, err);
    r = r < 0 ? r : say(c, conn, &report, name, dir, err);
    pl_conn_close(conn);
    pl_object_close(objects);
    free(name);
    return r;
}

static const struct pl_option options[] = {{"store", 0, "URL", "the store: file:///DIR, s3://BUCKET/PREFIX"},
                                           PL_CLI_STORE_OPTIONS(""),
                                           {0}};

static const struct pl_verb verbs[] = {
    {"recover",
     NULL,
     "--store URL --data DIR",
     0,
     0,
     options,
     recover,
     "Rebuilds a daemon's data folder from its store: the newest checkpoint and the log after it. Needs no server.",
     {"recover --store file:///srv/pipelined/store --data /srv/pipelined-new",
      "recover --store file:///mnt/copy --data /srv/new --json",
      "recover --store file:///mnt/copy --data /srv/new && pipelined --data /srv/new"}},
};
PL_CLI_TABLE(recover, verbs);
