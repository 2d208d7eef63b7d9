/* metrics: prints what a stage's commands wrote to metrics.jsonl: the results of its newest runs as a table, two runs against each
 * other, or the lines themselves. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/server_client.h"

#include "pipelined/metrics/metric_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOLLOW_MS  500  /* pause between two requests for new lines, in ms */
#define RUNS_USUAL 20   /* runs that the table has */
#define RUNS_MAX   1000 /* runs that --runs may ask for */
#define PAGE_JOBS  50   /* jobs of one request */
#define RUN_SHOWN  8    /* digits of a run's or datum's id */

/* ---- lines ---- */

struct metrics {
    struct pl_cli *c;
    struct pl_cli_job job;
    const char *datum; /* id of the datum, or the start of it; NULL = all datums */
    json_int_t last;   /* id of the last line received; -1 = none received yet */
    bool shown;        /* at least one line has been printed */
};

/* Prints one line in a form for people. Numbers have 15 digits: 0.1 is printed as 0.1 and not as
 * 0.10000000000000001, which is the same number. */
static void show_line(const struct metrics *m, const json_t *entry)
{
    _cleanup_free_ char *text =
        json_dumps(json_object_get(entry, "line"), JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

    if (m->datum)
        pl_show_print(stdout, "%s\n", text ? text : "");
    else
        pl_show_print(stdout, "%.8s  %s\n", pl_show_text_at(entry, "datum"), text ? text : "");
}

/* Prints the lines that have arrived since the last call; `*ret_n` receives their number. */
static int show_page(struct metrics *m, size_t *ret_n, struct pl_err *err)
{
    char after[40] = "";
    _cleanup_free_ char *path = NULL;
    _cleanup_(json_decrefp) json_t *answer = NULL;
    const json_t *entry;
    size_t i;
    int r;

    if (m->last >= 0)
        snprintf(after, sizeof after, "%lld", (long long)m->last);
    path = pl_http_path_make(*after ? "/api/v1/metrics/%s/%s?run=%s&after=%s" : "/api/v1/metrics/%s/%s?run=%s", m->job.project,
                             m->job.stage, m->job.run, after);
    r = pl_cli_call(m->c, "GET", path, NULL, &answer, err);
    *ret_n = 0;
    if (r < 0)
        return r;
    json_array_foreach(json_object_get(answer, "metrics"), i, entry)
    {
        m->last = pl_show_int_at(entry, "id");
        (*ret_n)++;
        if (m->datum && strncmp(pl_show_text_at(entry, "datum"), m->datum, strlen(m->datum)) != 0)
            continue;
        m->shown = true;
        if (m->c->json)
            json_dumpf(entry, stdout, JSON_COMPACT | pl_show_json_flags(stdout));
        if (m->c->json)
            putchar('\n');
        else
            show_line(m, entry);
    }
    fflush(stdout);
    return 0;
}

/* Sets `*ret` to true if the job has ended. */
static int is_over(struct metrics *m, bool *ret, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/jobs/%s/%s/%s", m->job.project, m->job.stage, m->job.run);
    _cleanup_(json_decrefp) json_t *job = NULL;
    int r = pl_cli_call(m->c, "GET", path, NULL, &job, err);

    *ret = r == 0 && json_is_integer(pl_show_at(job, "finished_us"));
    return r;
}

static int print_lines(struct pl_cli *c, struct pl_err *err)
{
    const struct timespec pause = {.tv_nsec = FOLLOW_MS * 1000000};
    struct metrics m = {.c = c, .datum = pl_cli_value(c, "datum"), .last = -1};
    bool over = !pl_cli_flag(c, "follow"), last_round = over;
    size_t n = 0;
    int r = pl_cli_job_find(c, c->args[0], &m.job, err);

    while (r == 0) {
        do
            r = show_page(&m, &n, err);
        while (r == 0 && n > 0);
        if (r < 0 || last_round)
            break;
        /* make one more request after the job's end, for lines that arrived just before it */
        last_round = over;
        if (!over)
            r = is_over(&m, &over, err);
        if (!over)
            nanosleep(&pause, NULL);
    }
    if (r == 0 && !m.shown && !c->quiet && !c->json)
        fprintf(stderr, "stage %s, run %.8s: no metrics%s%s. Its command writes them as lines of JSON to $PL_OUT/metrics.jsonl\n",
                m.job.stage, m.job.run, m.datum ? " of datum " : "", m.datum ? m.datum : "");
    return r;
}

/* ---- results ---- */

/* Moves the results of a page to `ret`, as long as there are no more than `runs` runs. Returns 1 if there is no room for more. */
static int take_results(const json_t *page, uint64_t runs, json_t *ret, uint64_t *n_runs, struct pl_err *err)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(page, "results"), i, one)
    {
        const json_t *last = json_array_get(ret, json_array_size(ret) - 1);

        if (!pl_streq(pl_show_text_at(one, "run"), pl_show_text_at(last, "run")) && (*n_runs)++ == runs)
            return 1;
        if (json_array_append(ret, (json_t *)(uintptr_t)one) < 0)
            return pl_err_nomem(err);
    }
    return 0;
}

/* Reads the results of the stage's newest runs that wrote metrics, or only those of `run` ("" = of the newest). A new reference. */
static int read_results(struct pl_cli *c, const struct pl_cli_job *job, const char *run, uint64_t runs, json_t **ret,
                        struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *results = json_array(), *page = NULL;
    const char *next = "";
    uint64_t n_runs = 0;
    int r = results ? 0 : pl_err_nomem(err);

    while (r == 0 && next) {
        _cleanup_free_ char *path = NULL;
        char limit[8];

        snprintf(limit, sizeof limit, "%d", PAGE_JOBS);
        path = *run    ? pl_http_path_make("/api/v1/metrics/%s/%s/jobs?run=%s", job->project, job->stage, run)
               : *next ? pl_http_path_make("/api/v1/metrics/%s/%s/jobs?limit=%s&after=%s", job->project, job->stage, limit, next)
                       : pl_http_path_make("/api/v1/metrics/%s/%s/jobs?limit=%s", job->project, job->stage, limit);
        json_decref(page);
        page = NULL;
        r = path ? pl_cli_call(c, "GET", path, NULL, &page, err) : pl_err_nomem(err);
        r = r < 0 ? r : take_results(page, runs, results, &n_runs, err);
        next = json_string_value(json_object_get(page, "next"));
    }
    if (r < 0)
        return r;
    *ret = TAKE_PTR(results);
    return 0;
}

/* A table whose columns depend on the data: cells are texts, under the keys "c0", "c1" and so on. */
struct sheet {
    json_t *rows;
    struct pl_column *columns;
    size_t n;
    char (*keys)[8];
};

static void sheet_finish(struct sheet *s)
{
    json_decref(s->rows);
    free(s->columns);
    free(s->keys);
}

static int sheet_init(struct sheet *s, size_t columns, struct pl_err *err)
{
    *s = (struct sheet){.rows = json_array(),
                        .columns = calloc(columns + 1, sizeof *s->columns),
                        .keys = calloc(columns + 1, sizeof *s->keys)};
    return s->rows && s->columns && s->keys ? 0 : pl_err_nomem(err);
}

static void add_column(struct sheet *s, const char *title)
{
    snprintf(s->keys[s->n], sizeof s->keys[s->n], "c%zu", s->n);
    s->columns[s->n] = (struct pl_column){.title = title, .key = s->keys[s->n]};
    s->n++;
}

/* Adds a row with the texts of the values, which are borrowed; "-" for one that is absent. */
static int add_cells(struct sheet *s, json_t *const *values, struct pl_err *err)
{
    json_t *row = json_object();
    int r = row ? 0 : pl_err_nomem(err);

    for (size_t k = 0; r == 0 && k < s->n; k++) {
        const json_t *v = values[k];
        _cleanup_free_ char *text = NULL;
        char number[32];

        if (json_is_real(v))
            snprintf(number, sizeof number, "%.6g", json_real_value(v));
        else if (v && !json_is_null(v) && !json_is_string(v))
            text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        if (json_object_set_new(row, s->keys[k],
                                json_string(json_is_real(v)     ? number
                                            : json_is_string(v) ? json_string_value(v)
                                            : text              ? text
                                                                : "-")) < 0)
            r = pl_err_nomem(err);
    }
    if (r < 0)
        json_decref(row);
    else if (json_array_append_new(s->rows, row) < 0)
        r = pl_err_nomem(err);
    return r;
}

/* Returns the first digits of an id as a new JSON string. */
static json_t *short_id(const json_t *item, const char *key)
{
    return json_sprintf("%.*s", RUN_SHOWN, pl_show_text_at(item, key));
}

static int print_json_lines(const json_t *rows, struct pl_err *err)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)rows, i, one)
    {
        if (json_dumpf(one, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15) | pl_show_json_flags(stdout)) < 0 ||
            putchar('\n') == EOF)
            return pl_err_errno(err, errno, "standard output");
    }
    return pl_show_flush(err);
}

/* True if a run has more than one result. */
static bool has_datums(const json_t *rows)
{
    for (size_t i = 1; i < json_array_size(rows); i++)
        if (pl_streq(pl_show_text_at(json_array_get(rows, i), "run"), pl_show_text_at(json_array_get(rows, i - 1), "run")))
            return true;
    return false;
}

static void add_columns(struct sheet *s, const json_t *names)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)names, i, one) add_column(s, json_string_value(one));
}

/* Fills the cells of one row: its run, its datum if `datums`, parameters, metrics. */
static int add_result(struct sheet *s, const struct pl_metric_table *t, const json_t *row, bool datums, json_t **cells,
                      struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *run = short_id(row, "run"), *datum = short_id(row, "datum"), *made = NULL;
    char ago[PL_SHOW_TEXT_MAX];
    const json_t *one;
    size_t i, n = 0;

    pl_show_ago(pl_show_at(row, "created_us"), NULL, ago);
    made = json_string(ago);
    if (!run || !datum || !made)
        return pl_err_nomem(err);
    cells[n++] = run;
    cells[n++] = made;
    if (datums)
        cells[n++] = datum;
    json_array_foreach(t->params, i, one) cells[n++] = json_object_get(json_object_get(row, "params"), json_string_value(one));
    json_array_foreach(t->metrics, i, one) cells[n++] = json_object_get(json_object_get(row, "metrics"), json_string_value(one));
    return add_cells(s, cells, err);
}

static int print_table(const struct pl_metric_table *t, bool datums, struct pl_err *err)
{
    const size_t most = 3 + json_array_size(t->params) + json_array_size(t->metrics);
    _cleanup_(sheet_finish) struct sheet s = {0};
    _cleanup_free_ json_t **cells = calloc(most, sizeof *cells);
    const json_t *row;
    size_t i;
    int r = cells ? sheet_init(&s, most, err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    add_column(&s, "RUN");
    add_column(&s, "CREATED");
    if (datums)
        add_column(&s, "DATUM");
    add_columns(&s, t->params);
    add_columns(&s, t->metrics);
    json_array_foreach(t->rows, i, row)
    {
        r = r < 0 ? r : add_result(&s, t, row, datums, cells, err);
    }
    return r < 0 ? r : pl_show_table(s.rows, s.columns, s.n, true, err);
}

static void say_none(const struct pl_cli *c, const struct pl_cli_job *job, const char *run)
{
    if (!c->quiet && !c->json)
        fprintf(stderr, "stage %s%s%.8s: no metrics. Its command writes them as lines of JSON to $PL_OUT/metrics.jsonl\n",
                job->stage, *run ? ", run " : "", run);
}

static int print_results(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *results = NULL;
    struct pl_metric_table table;
    struct pl_cli_job job;
    uint64_t runs = RUNS_USUAL;
    int r = pl_cli_job_arg(c, c->args[0], &job, err);

    r = r < 0 ? r : pl_cli_number(c, "runs", RUNS_MAX, &runs, err);
    r = r < 0 ? r : read_results(c, &job, job.run, runs, &results, err);
    r = r < 0 ? r : pl_metric_table_make(results, pl_cli_value(c, "sort"), &table, err);
    if (r < 0)
        return r;
    if (c->json)
        r = print_json_lines(table.rows, err);
    else if (json_array_size(table.rows) == 0)
        say_none(c, &job, job.run);
    else
        r = print_table(&table, has_datums(results), err);
    pl_metric_table_finish(&table);
    return r;
}

/* ---- two runs ---- */

/* Reads the results of a run that the user named, by its id, the start of one, or REPO@REF. PL_ENOTFOUND: it wrote none. */
static int read_run(struct pl_cli *c, const struct pl_cli_job *job, const char *text, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *run = NULL;
    int r = pl_cli_run_id(c, text, &run, err);

    r = r < 0 ? r : read_results(c, job, run, 1, ret, err);
    if (r == 0 && json_array_size(*ret) == 0)
        return pl_err_set(
            err, PL_ENOTFOUND,
            "stage %s, run %.60s: no metrics: its command wrote none to $PL_OUT/metrics.jsonl, or all its datums were "
            "reused",
            job->stage, text);
    return r;
}

/* Lists the names of the parameters of the rows, each once. */
static int find_params(const json_t *rows, json_t *names, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *seen = json_object();
    const json_t *row;
    const char *name;
    json_t *value;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
    {
        json_object_foreach(json_object_get(row, "params"), name, value)
        {
            if (json_object_get(seen, name))
                continue;
            if (!seen || json_object_set_new(seen, name, json_true()) < 0 || json_array_append_new(names, json_string(name)) < 0)
                return pl_err_nomem(err);
        }
    }
    return seen ? 0 : pl_err_nomem(err);
}

/* Prints the rows of a comparison: with its parameters each, or the datum if there are several without any. */
static int print_diff(const json_t *rows, const char *a, const char *b, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *names = json_array();
    _cleanup_(sheet_finish) struct sheet s = {0};
    _cleanup_free_ json_t **cells = NULL;
    const json_t *row, *one;
    size_t i, k;
    int r = names ? find_params(rows, names, err) : pl_err_nomem(err);

    cells = r < 0 ? NULL : calloc(json_array_size(names) + 5, sizeof *cells);
    r = r < 0 ? r : cells ? sheet_init(&s, json_array_size(names) + 5, err) : pl_err_nomem(err);
    if (r < 0)
        return r;
    if (json_array_size(names) == 0)
        add_column(&s, "DATUM");
    add_columns(&s, names);
    add_column(&s, "METRIC");
    add_column(&s, a);
    add_column(&s, b);
    add_column(&s, "DIFFERENCE");
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
    {
        _cleanup_(json_decrefp) json_t *datum = short_id(row, "datum");
        size_t n = 0;

        if (json_array_size(names) == 0)
            cells[n++] = datum;
        json_array_foreach(names, k, one) cells[n++] = json_object_get(json_object_get(row, "params"), json_string_value(one));
        cells[n++] = json_object_get(row, "metric");
        cells[n++] = json_object_get(row, "a");
        cells[n++] = json_object_get(row, "b");
        cells[n++] = json_object_get(row, "difference");
        r = r < 0 ? r : datum ? add_cells(&s, cells, err) : pl_err_nomem(err);
    }
    return r < 0 ? r : pl_show_table(s.rows, s.columns, s.n, true, err);
}

static int compare_runs(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *a = NULL, *b = NULL, *rows = NULL;
    char title_a[RUN_SHOWN + 1], title_b[RUN_SHOWN + 1];
    struct pl_cli_job job;
    int r;

    if (c->n_args != 2)
        return pl_err_set(err, PL_EUSAGE, "--diff takes two runs: metrics %s --diff RUN RUN", c->args[0]);
    r = pl_cli_job_arg(c, c->args[0], &job, err);
    if (r == 0 && *job.run)
        return pl_err_set(err, PL_EUSAGE, "%s names a run beside the two of --diff: give the stage alone", c->args[0]);
    r = r < 0 ? r : read_run(c, &job, pl_cli_value(c, "diff"), &a, err);
    r = r < 0 ? r : read_run(c, &job, c->args[1], &b, err);
    r = r < 0 ? r : pl_metric_table_diff(a, b, &rows, err);
    if (r < 0 || c->json)
        return r < 0 ? r : print_json_lines(rows, err);
    snprintf(title_a, sizeof title_a, "%s", pl_show_text_at(json_array_get(a, 0), "run"));
    snprintf(title_b, sizeof title_b, "%s", pl_show_text_at(json_array_get(b, 0), "run"));
    return print_diff(rows, title_a, title_b, err);
}

/* ---- which of them ---- */

static int metrics(struct pl_cli *c, struct pl_err *err)
{
    static const char *const of_lines[] = {"follow", "datum", "lines"}, *const of_results[] = {"sort", "runs", "diff"};
    const char *lines = NULL, *results = NULL;

    for (size_t i = 0; i < PL_ARRAY_SIZE(of_lines); i++) {
        lines = pl_cli_flag(c, of_lines[i]) ? of_lines[i] : lines;
        results = pl_cli_flag(c, of_results[i]) ? of_results[i] : results;
    }
    if (lines && results)
        return pl_err_set(err, PL_EUSAGE, "--%s prints lines as they were written, --%s a table: give one of them", lines,
                          results);
    if (c->n_args == 2 && !pl_cli_flag(c, "diff"))
        return pl_err_set(err, PL_EUSAGE, "metrics takes one stage; with --diff also two runs: metrics %s --diff RUN RUN",
                          c->args[0]);
    if (lines)
        return print_lines(c, err);
    return pl_cli_flag(c, "diff") ? compare_runs(c, err) : print_results(c, err);
}

static const struct pl_option options[] = {
    {"sort", 0, "NAME", "sort by this metric or parameter; -NAME: the largest first"},
    {"runs", 0, "N", "results of the newest N runs that wrote any (20)"},
    {"diff", 0, "RUN RUN", "compare two runs: their ids or the start of them"},
    {"follow", 'f', NULL, "follow the lines until the job has ended"},
    {"datum", 0, "ID", "the lines of only this datum: its id or the start of it"},
    {"lines", 0, NULL, "print the lines of the newest job as they were written"},
    {0},
};

static const struct pl_verb verbs[] = {
    {"metrics",
     NULL,
     "STAGE[@RUN] [--sort NAME] [--runs N] [--diff RUN RUN]",
     1,
     2,
     options,
     metrics,
     "Shows the results of a stage's newest runs: their parameters and the last value of each metric.",
     {"metrics train --sort -accuracy --runs 50", "metrics train --diff 9ab2f1c4 1f0c2b7a", "metrics train -f"}},
};
PL_CLI_TABLE(metrics, verbs);
