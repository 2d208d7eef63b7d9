/* The subcommands for jobs (one stage in one run) and for their datums. */
#include "pipelined/cli/runs/failure_text.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/server_client.h"
#include "storage/base/clock.h"
#include <stdio.h>

#define WORKERS_PRINTED 40
#define DATUMS_SHOWN    100

/* ---- jobs ---- */

static int list_job(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"RUN", "run", pl_show_id},
                                               {"STAGE", "stage", NULL},
                                               {"STATE", "state", pl_show_job_state},
                                               {"CREATED", "created_us", pl_show_ago},
                                               {"DATUMS", "datums", pl_show_datums},
                                               {"TOOK", "", pl_show_took},
                                               {"ON", "device", NULL},
                                               {"REASON", "reason", NULL}};
    _cleanup_(pl_buf_finish) struct pl_buf url = {0};
    struct pl_cli_name of = {.name = ""};
    const char *stage = pl_cli_value(c, "stage");
    _cleanup_free_ char *run = NULL;
    uint64_t limit = 20;
    int r = pl_cli_number(c, "limit", 1000000000, &limit, err);

    if (r == 0 && pl_cli_value(c, "run"))
        r = pl_cli_run_id(c, pl_cli_value(c, "run"), &run, err);
    r = r < 0 || !stage ? r : pl_cli_name(c, "stage", stage, &of, err);
    r = r < 0 ? r : pl_buf_add_str(&url, "/api/v1/jobs?", err);
    r = r < 0 ? r : pl_cli_add_query(&url, "project", stage ? of.project : c->project, err);
    r = r < 0 ? r : pl_cli_add_query(&url, "run", run, err);
    r = r < 0 ? r : pl_cli_add_query(&url, "stage", stage ? of.name : NULL, err);
    r = r < 0 ? r : pl_cli_add_query(&url, "state", pl_cli_value(c, "state"), err);
    return r < 0 ? r
                 : pl_show_list(c, pl_buf_str(&url), "jobs", columns, PL_ARRAY_SIZE(columns), pl_cli_flag(c, "all") ? 0 : limit,
                                "no jobs found", err);
}

static void show_inputs(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    char project[PL_SHOW_PROJECT_MAX];
    const json_t *one;
    size_t i, n = 0;

    *out = '\0';
    json_array_foreach(value, i, one)
    {
        if (n < PL_SHOW_TEXT_MAX && !*pl_show_text_at(one, "repo"))
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s", i ? ", " : "", pl_show_text_at(one, "name"));
        else if (n < PL_SHOW_TEXT_MAX)
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s=%s%s@%.8s", i ? ", " : "", pl_show_text_at(one, "name"),
                                  pl_show_project_of(one, pl_show_text_at(item, "project"), project),
                                  pl_show_text_at(one, "repo"), pl_show_text_at(one, "commit"));
    }
}

/* Writes how long a job or an attempt spent on each step: waiting, fetching, computing, uploading. */
static void show_times(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    static const struct {
        const char *key, *name;
    } parts[] = {{"wait", "wait"},     {"fetch", "fetch"}, {"compute", "compute"},
                 {"upload", "upload"}, {"held", "held"},   {"gpu", "GPU held"}};
    size_t n = 0;
    char text[32];

    (void)item;
    *out = '\0';
    for (size_t i = 0; i < PL_ARRAY_SIZE(parts); i++)
        if (pl_show_at(value, parts[i].key) && (pl_show_int_at(value, parts[i].key) || !pl_streq(parts[i].key, "gpu")))
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s %s", n ? ", " : "", parts[i].name,
                                  pl_duration_text(pl_show_int_at(value, parts[i].key), text));
}

/* Writes how long a job held its GPUs and how busy they were; "" for a job without GPUs. */
static void show_gpu(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const json_int_t measured = pl_show_int_at(value, "measured_ms"), peak_bytes = pl_show_int_at(value, "mem_peak"),
                     lost_ms = pl_show_int_at(value, "lost_ms");
    char held[32], waiting[32], of[32], used[32], peak[32], lost[32];
    int n;

    (void)item;
    *out = '\0';
    if (!json_is_object(value))
        return;
    n = snprintf(out, PL_SHOW_TEXT_MAX, "held %s, waiting for data %s of that, ",
                 pl_duration_text(pl_show_int_at(value, "held_ms"), held),
                 pl_duration_text(pl_show_int_at(value, "waiting_ms"), waiting));
    if (lost_ms > 0)
        n += snprintf(out + n, PL_SHOW_TEXT_MAX - (size_t)n, "lost with workers %s of that, ", pl_duration_text(lost_ms, lost));
    if (!measured) {
        snprintf(out + n, PL_SHOW_TEXT_MAX - (size_t)n, "use not measured");
        return;
    }
    n += snprintf(out + n, PL_SHOW_TEXT_MAX - (size_t)n, "busy %lld %% of %s that were measured (%s)",
                  (long long)(pl_show_int_at(value, "used_ms") * 100 / measured), pl_duration_text(measured, of),
                  pl_duration_text(pl_show_int_at(value, "used_ms"), used));
    if (peak_bytes > 0)
        snprintf(out + n, PL_SHOW_TEXT_MAX - (size_t)n, ", at most %s of memory", pl_size_text((uint64_t)peak_bytes, peak));
}

/* Writes what was lost with workers, and what it cost; "" if nothing was. */
static void show_lost(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const json_int_t attempts = json_integer_value(value), workers = pl_show_int_at(item, "workers_lost"),
                     gpu_ms = pl_show_int_at(item, "gpu.lost_ms");
    char took[32];
    int n;

    *out = '\0';
    if (attempts == 0)
        return;
    n = snprintf(out, PL_SHOW_TEXT_MAX, "%lld attempt%s", (long long)attempts, attempts == 1 ? "" : "s");
    if (workers > 0)
        n += snprintf(out + n, PL_SHOW_TEXT_MAX - (size_t)n, " with %lld worker%s", (long long)workers, workers == 1 ? "" : "s");
    n += snprintf(out + n, PL_SHOW_TEXT_MAX - (size_t)n, ": held %s", pl_duration_text(pl_show_int_at(item, "ms.lost"), took));
    if (gpu_ms > 0)
        snprintf(out + n, PL_SHOW_TEXT_MAX - (size_t)n, ", GPU held %s", pl_duration_text(gpu_ms, took));
}

/* Writes the highest peak memory of a single command; "" if no command ran. */
static void show_memory(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    char peak[32];

    (void)item;
    *out = '\0';
    if (json_integer_value(value) > 0)
        snprintf(out, PL_SHOW_TEXT_MAX, "at most %s for one command", pl_size_text((uint64_t)json_integer_value(value), peak));
}

/* Builds the API path of the job that the first argument names, followed by `tail`. malloc'ed. */
static int job_path(struct pl_cli *c, const char *tail, char **ret, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    struct pl_cli_job job;
    int r = pl_cli_job_find(c, c->args[0], &job, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/jobs/%s/%s/%s", job.project, job.stage, job.run);
    if (!path || asprintf(ret, "%s%s", path, tail) < 0)
        return pl_err_nomem(err);
    return 0;
}

/* Writes how long GPUs were held; "" if there were none. */
static void show_gpu_ms(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    char text[32];

    *out = '\0';
    if (pl_show_int_at(item, "gpus") > 0)
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld × %s", (long long)pl_show_int_at(item, "gpus"),
                 pl_duration_text(json_integer_value(value) / pl_show_int_at(item, "gpus"), text));
}

static void show_span(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const json_int_t until_us = pl_show_int_at(item, "ended_us");

    (void)value;
    pl_duration_text(((until_us ? until_us : pl_clock_wall_us()) - pl_show_int_at(item, "started_us")) / 1000, out);
}

/* True if an item of the list has a text that is not empty, or a number above 0, at `key`. */
static bool any_has(const json_t *list, const char *key)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (*pl_show_text_at(one, key) || pl_show_int_at(one, key) > 0)
            return true;
    }
    return false;
}

static int by_start(const void *a, const void *b)
{
    const json_int_t x = pl_show_int_at(*(const json_t *const *)a, "started_us"),
                     y = pl_show_int_at(*(const json_t *const *)b, "started_us");

    return (x > y) - (x < y);
}

/* Prints the workers that serve or served the job in the order of their start. If there are too many, those are left out
 * that come last in the reply: it has those that serve the job now, then those that were lost, then others. */
static int print_workers(const json_t *job, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"WORKER", "worker", NULL},
                                               {"POD", "pod", NULL},
                                               {"NODE", "node", NULL},
                                               {"STATE", "state", NULL},
                                               {"BEGAN", "started_us", pl_show_time},
                                               {"TOOK", "", show_span},
                                               {"TASKS", "tasks", NULL},
                                               {"GPUS HELD", "gpu_ms", show_gpu_ms},
                                               {"REASON", "reason", NULL}};
    const json_t *all = pl_show_at(job, "workers");
    _cleanup_(json_decrefp) json_t *some = json_array();
    const size_t n = json_array_size(all), n_printed = PL_MIN(n, (size_t)WORKERS_PRINTED);
    const json_t *order[WORKERS_PRINTED];
    struct pl_column shown[PL_ARRAY_SIZE(columns)];
    size_t n_shown = 0;
    bool gpus, pods;
    int r;

    for (size_t i = 0; i < n_printed; i++)
        order[i] = json_array_get(all, i);
    if (n == 0)
        return 0;
    qsort(order, n_printed, sizeof *order, by_start);
    for (size_t i = 0; i < n_printed; i++)
        json_array_append(some, (json_t *)(uintptr_t)order[i]);
    gpus = any_has(some, "gpus");
    pods = any_has(some, "pod");
    for (size_t i = 0; i < PL_ARRAY_SIZE(columns); i++)
        if ((gpus || columns[i].text != show_gpu_ms) && (pods || strcmp(columns[i].key, "pod") != 0))
            shown[n_shown++] = columns[i];
    printf("\nworkers (%lld lost):\n", (long long)pl_show_int_at(job, "workers_lost"));
    r = pl_show_table(some, shown, n_shown, true, err);
    if (r == 0 && n > WORKERS_PRINTED)
        printf("… and %zu more: inspect job --json lists them\n", n - WORKERS_PRINTED);
    return r;
}

static int inspect_job(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {{"stage", "stage", NULL},
                                             {"run", "run", NULL},
                                             {"pipeline", "pipeline", NULL},
                                             {"version", "version", NULL},
                                             {"state", "state", pl_show_job_state},
                                             {"reason", "reason", NULL},
                                             {"warnings", "warnings", NULL},
                                             {"datums", "datums", pl_show_datums},
                                             {"lost", "datums.lost", show_lost},
                                             {"inputs", "inputs", show_inputs},
                                             {"output", "output", NULL},
                                             {"on", "device", NULL},
                                             {"images", "images", NULL},
                                             {"time of workers", "ms", show_times},
                                             {"GPUs", "gpu", show_gpu},
                                             {"memory", "mem_peak", show_memory},
                                             {"code", "code", NULL},
                                             {"git", "origin", pl_show_origin},
                                             {"created", "created_us", pl_show_time},
                                             {"started", "started_us", pl_show_time},
                                             {"finished", "finished_us", pl_show_time},
                                             {"took", "", pl_show_took}};
    _cleanup_(json_decrefp) json_t *job = NULL, *list = NULL, *failures = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_cli_job named;
    int r = pl_cli_job_find(c, c->args[0], &named, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/jobs/%s/%s/%s", named.project, named.stage, named.run);
    r = pl_cli_call(c, "GET", path, NULL, &job, err);
    if (r == 0 && pl_show_int_at(job, "datums.failed") > 0)
        r = pl_failure_text_read(c, &named, &failures, err);
    if (r == 0 && failures)
        json_object_set(job, "failures", failures);
    r = r < 0 ? r : pl_show_object(c, job, lines, PL_ARRAY_SIZE(lines), err);
    if (r < 0 || c->json)
        return r;
    r = print_workers(job, err);
    if (r < 0)
        return r;
    pl_failure_text_print(&named, failures);
    fflush(stdout);
    list = json_pack("[O]", job);
    return pl_cli_jobs_explain(c, list, err);
}

static int stop_job(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL;
    _cleanup_free_ char *path = NULL;
    int r = job_path(c, "/stop", &path, err);

    r = r < 0 ? r : pl_cli_call(c, "POST", path, NULL, &answer, err);
    if (r < 0)
        return r;
    pl_show_say(c, "job %s of run %.8s stopped\n", pl_show_text_at(answer, "stopped"), pl_show_text_at(answer, "run"));
    return c->json ? pl_show_json(answer, err) : 0;
}

/* ---- datums ---- */

static void show_end(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)value;
    *out = '\0';
    if (pl_streq(pl_show_text_at(item, "state"), "lost") || pl_streq(pl_show_text_at(item, "state"), "reused"))
        return;
    if (pl_show_int_at(item, "signal"))
        snprintf(out, PL_SHOW_TEXT_MAX, "signal %lld", (long long)pl_show_int_at(item, "signal"));
    else
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld", (long long)pl_show_int_at(item, "exit_code"));
}

/* Writes how long the command ran; for a lost attempt, which nobody reported, how long the worker was held for it. */
static void show_ran(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    pl_show_ms(value ? value : pl_show_at(item, "ms.held"), item, out);
}

/* Writes the number of the attempt; "" for a reused datum, of which the job made none. */
static void show_try(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    *out = '\0';
    if (json_integer_value(value) > 0)
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld", (long long)json_integer_value(value));
}

/* Writes the values of a `params` input, "k=3 lr=0.1". */
static void show_params(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *name;
    json_t *one;
    size_t n = 0;

    (void)item;
    *out = '\0';
    json_object_foreach((json_t *)(uintptr_t)value, name, one)
    {
        _cleanup_free_ char *text =
            json_is_string(one) ? NULL : json_dumps(one, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));

        if (n < PL_SHOW_TEXT_MAX)
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s=%s", n ? " " : "", name,
                                  text ? text : pl_show_text_at(value, name));
    }
}

/* Writes the datum's paths without its `params`, which have a column of their own. */
static void show_paths(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *text = json_is_string(value) ? json_string_value(value) : "", *at = strstr(text, "params={"), *rest;
    json_error_t end = {0};
    json_t *params;
    int before;

    snprintf(out, PL_SHOW_TEXT_MAX, "%s", text);
    if (!json_is_object(pl_show_at(item, "params")) || !at)
        return;
    params = json_loads(at + strlen("params="), JSON_DISABLE_EOF_CHECK, &end);
    if (!params)
        return;
    json_decref(params);
    rest = at + strlen("params=") + end.position;
    before = (int)(at - text);
    if (before >= 2)
        before -= 2; /* the ", " in front of it */
    else if (strncmp(rest, ", ", 2) == 0)
        rest += 2;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.*s%s", before, text, rest);
}

static const struct pl_column attempt_columns[] = {{"DATUM", "id", pl_show_id},      {"TRY", "attempt", show_try},
                                                   {"STATE", "state", NULL},         {"EXIT", "", show_end},
                                                   {"PATHS", "paths", show_paths},   {"PARAMS", "params", show_params},
                                                   {"TOOK", "ms.compute", show_ran}, {"NODE", "node", NULL},
                                                   {"REASON", "reason", NULL}};

/* Says whether the job has a `params` input. */
static bool job_has_params(const json_t *job)
{
    const json_t *in;
    size_t i;

    json_array_foreach(pl_show_at(job, "inputs"), i, in) if (!*pl_show_text_at(in, "repo")) return true;
    return false;
}

/* Says why the list of the job's datums is empty. */
static void empty_text(const struct pl_cli *c, const json_t *job, char out[PL_SHOW_TEXT_MAX])
{
    const char *state = pl_cli_value(c, "state"), *reason = pl_show_text_at(job, "reason");

    if (pl_show_int_at(job, "datums.total") == 0 && *reason)
        pl_show_clean(reason, out, PL_SHOW_TEXT_MAX);
    else if (state)
        snprintf(out, PL_SHOW_TEXT_MAX, "no datum of this job is %.40s", state);
    else
        snprintf(out, PL_SHOW_TEXT_MAX, "no attempt at a datum of this job is kept, and none is reused");
}

static int list_datum(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf url = {0};
    _cleanup_(json_decrefp) json_t *job = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_column columns[PL_ARRAY_SIZE(attempt_columns)];
    char empty[PL_SHOW_TEXT_MAX];
    uint64_t limit = DATUMS_SHOWN;
    size_t n = 0;
    int r = job_path(c, "", &path, err);

    r = r < 0 ? r : pl_cli_number(c, "limit", 1000000000, &limit, err);
    r = r < 0 ? r : pl_buf_addf(&url, err, "%s/datums?", path);
    r = r < 0 ? r : pl_cli_add_query(&url, "state", pl_cli_value(c, "state"), err);
    r = r < 0 || c->json ? r : pl_cli_call(c, "GET", path, NULL, &job, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < PL_ARRAY_SIZE(attempt_columns); i++)
        if (attempt_columns[i].text != show_params || job_has_params(job))
            columns[n++] = attempt_columns[i];
    empty_text(c, job, empty);
    return pl_show_list(c, pl_buf_str(&url), "datums", columns, n, pl_cli_flag(c, "all") ? 0 : limit, empty, err);
}

/* Prints the attempts at one datum. */
static int print_attempts(const json_t *attempts, struct pl_err *err)
{
    static const struct pl_column columns[] = {
        {"TRY", "attempt", NULL},         {"STATE", "state", NULL}, {"EXIT", "", show_end}, {"BEGAN", "started_us", pl_show_time},
        {"TOOK", "ms.compute", show_ran}, {"NODE", "node", NULL},   {"POD", "pod", NULL},   {"REASON", "reason", NULL}};
    struct pl_column shown[PL_ARRAY_SIZE(columns)];
    const bool pods = any_has(attempts, "pod");
    size_t n = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(columns); i++)
        if (pods || strcmp(columns[i].key, "pod") != 0)
            shown[n++] = columns[i];
    return pl_show_table(attempts, shown, n, true, err);
}

/* Prints how long an attempt took and how much it used its GPUs. */
static void print_times(const json_t *attempt)
{
    const json_int_t memory = pl_show_int_at(attempt, "gpu.mem_peak");
    char text[PL_SHOW_TEXT_MAX], size[32];

    show_times(pl_show_at(attempt, "ms"), attempt, text);
    if (*text)
        printf("\ntime   %s\n", text);
    if (json_is_object(pl_show_at(attempt, "gpu")))
        printf("GPU    %lld %% busy%s%s%s\n", (long long)pl_show_int_at(attempt, "gpu.util"), memory ? ", " : "",
               memory ? pl_size_text((uint64_t)memory, size) : "", memory ? " at most" : "");
}

static int inspect_datum(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *datum = NULL;
    _cleanup_free_ char *path = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf url = {0};
    const json_t *attempts, *last;
    bool reused;
    int r = job_path(c, "/datums/", &path, err);

    r = r < 0 ? r : pl_buf_add_str(&url, path, err);
    r = r < 0 ? r : pl_http_escape(&url, c->args[1], false, err);
    r = r < 0 ? r : pl_cli_call(c, "GET", pl_buf_str(&url), NULL, &datum, err);
    if (r < 0 || c->json)
        return r < 0 ? r : pl_show_json(datum, err);
    attempts = json_object_get(datum, "attempts");
    last = json_array_get(attempts, json_array_size(attempts) - 1);
    printf("datum  %s\n", pl_show_text_at(datum, "id"));
    pl_show_print(stdout, "paths  %s\n", pl_show_text_at(last, "paths"));
    reused = pl_streq(pl_show_text_at(last, "state"), "reused");
    if (*pl_show_text_at(datum, "run"))
        pl_show_print(stdout, "reused from run %.8s, whose attempts %s\n", pl_show_text_at(datum, "run"),
                      reused ? "are not kept" : "these are");
    if (reused)
        return 0;
    putchar('\n');
    r = print_attempts(attempts, err);
    if (r == 0)
        print_times(last);
    if (r == 0 && *pl_show_text_at(last, "image_id"))
        pl_show_print(stdout, "image  %s\n", pl_show_text_at(last, "image_id"));
    if (r == 0 && *pl_show_text_at(last, "tail"))
        pl_show_print(stdout, "\nend of its output:\n%s", pl_show_text_at(last, "tail"));
    if (r == 0 && !pl_streq(pl_show_text_at(last, "state"), "success"))
        pl_show_print(stdout, "\ntry it here: %s\n", pl_show_text_at(datum, "try"));
    return r;
}

static const struct pl_option list_options[] = {{"run", 0, "ID|REPO@REF", "only of this run"},
                                                {"stage", 0, "STAGE", "only of this stage"},
                                                {"state", 0, "STATE", "only in this state: running, success, failure, killed, …"},
                                                {"limit", 'n', "N", "at most N (20)"},
                                                {"all", 'a', NULL, "list all"},
                                                {0}};
static const struct pl_option datum_options[] = {{"state", 0, "STATE", "only in this state: success, failed, lost or reused"},
                                                 {"limit", 'n', "N", "at most N (100)"},
                                                 {"all", 'a', NULL, "list all"},
                                                 {0}};

static const struct pl_verb verbs[] = {
    {"list",
     "job",
     "",
     0,
     0,
     list_options,
     list_job,
     "Lists jobs, newest first.",
     {"list job", "list job --stage train", "list job --run digits@master"}},
    {"inspect",
     "job",
     "STAGE[@RUN]",
     1,
     1,
     NULL,
     inspect_job,
     "Shows a job: the newest of the stage, or that of a run.",
     {"inspect job train", "inspect job train@9ab2f1c4", "inspect job train@digits@master --json"}},
    {"stop",
     "job",
     "STAGE[@RUN]",
     1,
     1,
     NULL,
     stop_job,
     "Stops a job.",
     {"stop job train", "stop job train@9ab2f1c4", "stop job vision/detect"}},
    {"list",
     "datum",
     "STAGE[@RUN]",
     1,
     1,
     datum_options,
     list_datum,
     "Lists the attempts at datums that are kept: those that failed, succeeded, or were lost with their workers.",
     {"list datum prepare", "list datum train@9ab2f1c4 --state failed", "list datum prepare -n 5 --json"}},
    {"inspect",
     "datum",
     "STAGE[@RUN] DATUM",
     2,
     2,
     NULL,
     inspect_datum,
     "Shows a datum, given by its id, the start of it, or its paths; a reused one with the run that computed it.",
     {"inspect datum prepare 1f0c2b7a", "inspect datum infer 'test=/test/b1.csv, model=/'",
      "inspect datum prepare@9ab2f1c4 1f0c2b7a --json"}},
};
PL_CLI_TABLE(job, verbs);
