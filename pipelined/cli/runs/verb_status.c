/* status and gpus: show what the daemon does, and its GPUs. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/kube/nodes/gpu_report.h"
#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include <stdio.h>

#define USE_MAX 128 /* size of the text about the use of GPUs in bytes, with the final NUL */

/* ---- status ---- */

/* Prints the number found at `path`, followed by its noun and `sep`: "3 repos" or "1 repo". */
static void print_count(const json_t *s, const char *path, const char *noun, const char *what, const char *sep)
{
    long long n = (long long)pl_show_int_at(s, path);

    printf("%lld %s%s%s%s", n, noun, n == 1 ? "" : "s", what, sep);
}

static void print_figures(const json_t *s)
{
    char free_text[32], total_text[32];

    pl_show_print(stdout, "pipelined %s at %s, data in %s\n", pl_show_text_at(s, "version"), pl_show_text_at(s, "url"),
                  pl_show_text_at(s, "data_dir"));
    print_count(s, "counts.repos", "repo", "", ", ");
    print_count(s, "counts.pipelines", "pipeline", "", "");
    if (pl_show_int_at(s, "counts.pipelines_stopped"))
        printf(" (%lld stopped)", (long long)pl_show_int_at(s, "counts.pipelines_stopped"));
    printf(", ");
    print_count(s, "counts.commits", "commit", "", "; ");
    printf("%s free of %s\n", pl_size_text((uint64_t)pl_show_int_at(s, "disk.free_bytes"), free_text),
           pl_size_text((uint64_t)pl_show_int_at(s, "disk.total_bytes"), total_text));
    print_count(s, "counts.runs_running", "run", " running", ", ");
    print_count(s, "counts.jobs_unfinished", "job", " unfinished", ", ");
    print_count(s, "live.queue.workers_busy", "worker", " busy", ", ");
    printf("%lld of %lld GPUs used\n", (long long)pl_show_int_at(s, "live.queue.gpus_used"),
           (long long)pl_show_int_at(s, "live.queue.gpus"));
}

/* Prints a line for each disk that is full or nearly full. */
static void print_disks(const json_t *s)
{
    char left[32], total[32], full[32];
    const json_t *p;
    size_t i;

    json_array_foreach(pl_show_at(s, "disk.places"), i, p)
    {
        const char *state = pl_show_text_at(p, "state");

        pl_size_text((uint64_t)pl_show_int_at(p, "free_bytes"), left);
        pl_size_text((uint64_t)pl_show_int_at(p, "total_bytes"), total);
        pl_size_text((uint64_t)pl_show_int_at(p, "full_bytes"), full);
        if (pl_streq(state, "full"))
            pl_show_print(stdout, "DISK FULL: %s has %s free of %s: pushes are refused, running jobs finish\n",
                          pl_show_text_at(p, "path"), left, total);
        else if (pl_streq(state, "low"))
            pl_show_print(stdout, "disk is low: %s has %s free of %s; below %s pushes are refused\n", pl_show_text_at(p, "path"),
                          left, total, full);
    }
}

/* Prints which CPU and memory limits of workers the machine does not enforce, and why. */
static void print_limits(const json_t *s)
{
    const char *missing = pl_show_text_at(s, "live.limits.not_held");

    if (*missing)
        pl_show_print(stdout, "not limited: %s of workers: %s: %s\n", missing, pl_show_text_at(s, "live.limits.why"),
                      pl_show_text_at(s, "live.limits.remedy"));
}

/* Prints that workers can be neither started nor watched, and why, if the user may read it. */
static void print_outage(const json_t *s)
{
    const char *reason = pl_show_text_at(s, "live.outage.reason");
    char since[PL_SHOW_TEXT_MAX];

    if (!pl_show_at(s, "live.outage"))
        return;
    pl_show_ago(pl_show_at(s, "live.outage.since_us"), NULL, since);
    pl_show_print(stdout, "NO CLUSTER: %s%sworkers that run go on, none is started (it began %s)\n", reason, *reason ? ": " : "",
                  since);
}

/* Prints the open commits that the daemon tried to finish but could not. */
static void print_stalled(const json_t *s)
{
    const json_t *c;
    size_t i;

    json_array_foreach(pl_show_at(s, "stalled"), i, c)
        printf("NOT FINISHED: the commit of the puts to %s/%s@%s (commit %.8s, %s): %s\n", pl_show_text_at(c, "project"),
               pl_show_text_at(c, "repo"), pl_show_text_at(c, "branch"), pl_show_text_at(c, "id"),
               json_is_true(pl_show_at(c, "set_aside")) ? "not retried" : "tried again", pl_show_text_at(c, "blocked"));
}

static const struct pl_column unfinished[] = {{"RUN", "run", pl_show_id},
                                              {"STAGE", "stage", NULL},
                                              {"STATE", "state", NULL},
                                              {"DATUMS", "datums", pl_show_datums},
                                              {"SINCE", "created_us", pl_show_ago},
                                              {"REASON", "reason", NULL}};
static const struct pl_column ended[] = {{"RUN", "id", pl_show_id},
                                         {"STATE", "state", NULL},
                                         {"CREATED", "created_us", pl_show_ago},
                                         {"TOOK", "", pl_show_took},
                                         {"REASON", "reason", NULL}};

static bool is_over(const json_t *job)
{
    return pl_show_at(job, "finished_us") && !json_is_null(pl_show_at(job, "finished_us"));
}

static int print_jobs(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *page = NULL, *open = json_array();
    json_t *job;
    size_t i;
    int r = pl_cli_call(c, "GET", "/api/v1/jobs?limit=200", NULL, &page, err);

    if (r < 0)
        return r;
    json_array_foreach(json_object_get(page, "jobs"), i, job)
    {
        if (!is_over(job))
            json_array_append(open, job);
    }
    if (json_array_size(open) == 0)
        return 0;
    puts("\nunfinished:");
    return pl_show_table(open, unfinished, PL_ARRAY_SIZE(unfinished), true, err);
}

/* Prints which command to type next; it depends on what exists in the project. */
static void print_next(const json_t *s, const json_t *newest)
{
    const char *state = pl_show_text_at(newest, "state"), *id = pl_show_text_at(newest, "id");

    if (pl_show_int_at(s, "counts.repos") == 0)
        puts("\nnext: pipelinectl create repo NAME, or pipelinectl create pipeline -f SPEC");
    else if (pl_show_int_at(s, "counts.pipelines") == 0)
        puts("\nnext: pipelinectl create pipeline -f SPEC");
    else if (pl_streq(state, "failure"))
        printf("\nnext: pipelinectl inspect run %.8s\n", id);
    else if (pl_streq(state, "running"))
        printf("\nnext: pipelinectl wait run %.8s\n", id);
    else
        puts("\nnext: pipelinectl list repo, pipelinectl put file REPO@master:/PATH -f FILE, pipelinectl open");
}

static int print_runs(struct pl_cli *c, const json_t *s, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *page = NULL;
    const json_t *runs;
    int r = pl_cli_call(c, "GET", "/api/v1/runs?limit=5", NULL, &page, err);

    if (r < 0)
        return r;
    runs = json_object_get(page, "runs");
    if (json_array_size(runs)) {
        puts("\nnewest runs:");
        r = pl_show_table(runs, ended, PL_ARRAY_SIZE(ended), true, err);
    }
    if (r == 0)
        print_next(s, json_array_get(runs, 0));
    return r;
}

/* ---- what is out of date ---- */

#define STALE_SHOWN 10 /* stages that status lists; status --stale lists all */

/* Adds the stages of a page of pipelines that are out of date. */
static int add_stale(const json_t *page, json_t *ret, struct pl_err *err)
{
    const json_t *pipeline, *stage;
    size_t i, k;
    int r = 0;

    json_array_foreach(json_object_get(page, "pipelines"), i, pipeline)
    {
        json_array_foreach(json_object_get(pipeline, "stages"), k, stage)
        {
            const json_t *fresh = json_object_get(stage, "freshness");
            json_t *one;

            if (r < 0 || !*pl_show_text_at(fresh, "text"))
                continue;
            one = json_pack("{s:s, s:s, s:s}", "project", pl_show_text_at(pipeline, "project"), "pipeline",
                            pl_show_text_at(pipeline, "name"), "stage", pl_show_text_at(stage, "name"));
            if (one && json_object_update(one, (json_t *)(uintptr_t)fresh) < 0)
                json_decrefp(&one);
            if (!one || json_array_append_new(ret, one) < 0)
                r = pl_err_nomem(err);
        }
    }
    return r;
}

/* Reads all stages that are out of date; a new reference. */
static int read_stale(struct pl_cli *c, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = json_array(), *page = NULL;
    const char *next = "";
    int r = list ? 0 : pl_err_nomem(err);

    while (r == 0 && next) {
        _cleanup_free_ char *path =
            *next ? pl_http_path_make("/api/v1/pipelines?after=%s", next) : pl_http_path_make("/api/v1/pipelines");

        json_decrefp(&page);
        page = NULL;
        r = path ? pl_cli_call(c, "GET", path, NULL, &page, err) : pl_err_nomem(err);
        r = r < 0 ? r : add_stale(page, list, err);
        next = json_string_value(json_object_get(page, "next"));
    }
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}

/* Prints "STAGE  out of date: WHY: COMMAND". Stages outside the default project have its name before them. */
static void print_stale_stage(const json_t *one)
{
    const char *project = pl_show_text_at(one, "project");
    const bool usual = pl_streq(project, "default");

    pl_show_print(stdout, "%s%s%s  %s: %s\n", usual ? "" : project, usual ? "" : "/", pl_show_text_at(one, "stage"),
                  pl_show_text_at(one, "text"), pl_show_text_at(one, "command"));
}

/* Lists the stages that are out of date, and prints nothing if all are current. */
static int status_stale(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *stages = NULL, *out = NULL;
    const json_t *one;
    size_t i;
    int r = read_stale(c, &stages, err);

    if (r == 0 && c->json) {
        out = json_pack("{s:O}", "stages", stages);
        return out ? pl_show_json(out, err) : pl_err_nomem(err);
    }
    if (r < 0 || c->quiet)
        return r;
    json_array_foreach(stages, i, one) print_stale_stage(one);
    return pl_show_flush(err);
}

/* Prints the first stages that are out of date and that no run brings up to date. */
static int print_stale(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *stages = NULL;
    const json_t *one;
    size_t i, n = 0;
    int r = read_stale(c, &stages, err);

    json_array_foreach(stages, i, one)
    {
        if (!pl_streq(pl_show_text_at(one, "state"), "stale") || n++ >= STALE_SHOWN)
            continue;
        if (n == 1)
            puts("\nout of date:");
        print_stale_stage(one);
    }
    if (n > STALE_SHOWN)
        printf("and %zu more: pipelinectl status --stale\n", n - STALE_SHOWN);
    return r;
}

static int status(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *s = NULL;
    int r;

    if (pl_cli_flag(c, "stale"))
        return status_stale(c, err);
    r = pl_cli_call(c, "GET", "/api/v1/status", NULL, &s, err);
    if (r == PL_ENET && !*err->hint)
        snprintf(err->hint, sizeof err->hint,
                 "pipelined starts a daemon on this machine; pipelinectl login URL uses one on another machine; pipelinectl help "
                 "lists all subcommands");
    if (r < 0 || c->json)
        return r < 0 ? r : pl_show_json(s, err);
    if (c->quiet)
        return 0;
    print_figures(s);
    print_disks(s);
    print_limits(s);
    print_outage(s);
    print_stalled(s);
    if (json_is_true(pl_show_at(s, "clock.doubted")))
        puts("CLOCK DOUBTED: the daemon's clock is far ahead of the log, so nothing is dropped because of its age: set the "
             "clock, or "
             "confirm it with pipelinectl keep --trust-clock");
    r = print_jobs(c, err);
    r = r < 0 ? r : print_stale(c, err);
    return r < 0 ? r : print_runs(c, s, err);
}

/* ---- GPUs ---- */

static void show_holder(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%s%s%s", pl_show_text_at(value, "stage"), *pl_show_text_at(value, "run") ? "@" : "",
             pl_show_text_at(value, "run"));
}

/* Writes the measured use of GPUs and how many of them are unhealthy, such as " (37 %, 10240 MiB, 1 unhealthy)"; ""
 * if neither is known. */
static void show_use(const json_t *holder, char out[USE_MAX])
{
    const json_t *busy = json_object_get(holder, "utilisation"), *used = json_object_get(holder, "used_mib");
    const long long sick = pl_show_int_at(holder, "unhealthy");
    char per_cent[24] = "", mib[32] = "", count[40] = "";

    if (busy)
        snprintf(per_cent, sizeof per_cent, "%.0f %%", json_number_value(busy));
    if (used)
        snprintf(mib, sizeof mib, "%s%lld MiB", busy ? ", " : "", (long long)json_integer_value(used));
    if (sick)
        snprintf(count, sizeof count, "%s%lld unhealthy", busy || used ? ", " : "", sick);
    *out = '\0';
    if (busy || used || sick)
        snprintf(out, USE_MAX, " (%s%s%s)", per_cent, mib, count);
}

/* Writes how many devices pods can get, and how many the node has beside them: "7, 1 unhealthy". */
static void show_total(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const long long sick = pl_show_int_at(item, "unhealthy");

    if (sick)
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld, %lld unhealthy", (long long)json_integer_value(value), sick);
    else
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld", (long long)json_integer_value(value));
}

/* Writes which stages and pods hold the GPUs of a node, such as "default/train ×2 (37 %, 10240 MiB),
 * default/jupyter-0 ×1, others ×4", and how many of these are unhealthy, if it is not known whose. */
static void show_holders(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    json_int_t others = 0, sick = pl_show_int_at(item, "unhealthy_held");
    const json_t *one;
    size_t i, n = 0;

    *out = '\0';
    json_array_foreach(value, i, one)
    {
        const char *stage = pl_show_text_at(one, "stage"), *pod = pl_show_text_at(one, "pod");
        char use[USE_MAX];

        sick -= pl_show_int_at(one, "unhealthy");
        if (!*stage && !*pod)
            others += pl_show_int_at(one, "count");
        show_use(one, use);
        if ((*stage || *pod) && n < PL_SHOW_TEXT_MAX - 1)
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s/%s ×%lld%s", n ? ", " : "",
                                  *stage ? pl_show_text_at(one, "project") : pl_show_text_at(one, "namespace"),
                                  *stage ? stage : pod, (long long)pl_show_int_at(one, "count"), use);
    }
    if (others && n < PL_SHOW_TEXT_MAX - 1)
        n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%sothers ×%lld", n ? ", " : "", (long long)others);
    if (sick > 0 && n < PL_SHOW_TEXT_MAX - 1)
        snprintf(out + n, PL_SHOW_TEXT_MAX - n, "; %lld of them unhealthy", (long long)sick);
}

static int show_nodes(struct pl_cli *c, const json_t *answer, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"NODE", "node", NULL},       {"RESOURCE", "resource", NULL},
                                               {"PRODUCT", "product", NULL}, {"TOTAL", "capacity", show_total},
                                               {"USED", "allocated", NULL},  {"BY", "by", show_holders}};
    const json_t *nodes = json_object_get(answer, "nodes");
    _cleanup_(pl_buf_finish) struct pl_buf shared = {0};
    int r = pl_show_table(nodes, columns, PL_ARRAY_SIZE(columns), true, err);

    r = r < 0 ? r : pl_gpushare_table(nodes, pl_cli_flag(c, "details"), &shared, err);
    if (r == 0 && shared.len && printf("\n%.*s", (int)shared.len, (const char *)shared.data) < 0)
        r = pl_err_errno(err, errno, "standard output");
    if (r == 0 && *pl_show_text_at(answer, "not_measured"))
        pl_show_say(c, "\nGPU use is not measured, or not on all nodes: %s\n", pl_show_text_at(answer, "not_measured"));
    return r;
}

static int gpus(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"SLOT", "slot", NULL},          {"PRODUCT", "product", NULL},
                                               {"MiB", "memory_mib", NULL},     {"USED MiB", "used_mib", NULL},
                                               {"BUSY %", "utilisation", NULL}, {"STATE", "state", NULL},
                                               {"BY", "by", show_holder},       {"UUID", "uuid", NULL}};
    _cleanup_(json_decrefp) json_t *answer = NULL;
    int r = pl_cli_call(c, "GET", "/api/v1/gpus", NULL, &answer, err);

    if (r < 0 || c->json)
        return r < 0 ? r : pl_show_json(answer, err);
    if (json_array_size(json_object_get(answer, "gpus")) == 0 && json_array_size(json_object_get(answer, "nodes")) > 0)
        return show_nodes(c, answer, err);
    if (json_array_size(json_object_get(answer, "gpus")) == 0) {
        pl_show_say(c, "no GPUs available; stages with \"gpu\": {\"required\": false} run on CPUs\n");
        return 0;
    }
    return pl_show_table(json_object_get(answer, "gpus"), columns, PL_ARRAY_SIZE(columns), true, err);
}

static const struct pl_option status_options[] = {
    {"stale", 0, NULL, "list only the stages whose output is out of date, and what mends each; print nothing if all are current"},
    {0}};
static const struct pl_option gpus_options[] = {{"details", 0, NULL, "where GPU memory is shared: list each pod"}, {0}};

static const struct pl_verb verbs[] = {
    {"status",
     NULL,
     "[--stale]",
     0,
     0,
     status_options,
     status,
     "Shows what runs, waits, has failed and is out of date, and what to type next. It is what pipelinectl does without a "
     "subcommand.",
     {"status", "status --stale", "--server https://10.0.0.7:7380 status"}},
    {"gpus",
     NULL,
     "",
     0,
     0,
     gpus_options,
     gpus,
     "Shows the GPUs and who uses them.",
     {"gpus", "gpus --details", "gpus --json | jq -r .gpus[].product"}},
};
PL_CLI_TABLE(status, verbs);
