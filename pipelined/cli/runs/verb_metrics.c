/* metrics: prints the lines that a stage's command wrote to metrics.jsonl. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/server_client.h"
#include <stdio.h>
#include <time.h>

#define FOLLOW_MS 500 /* pause between two requests for new lines, in ms */

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

static int metrics(struct pl_cli *c, struct pl_err *err)
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

static const struct pl_option options[] = {
    {"follow", 'f', NULL, "follow the lines until the job has ended"},
    {"datum", 0, "ID", "only this datum: its id or the start of it"},
    {0},
};

static const struct pl_verb verbs[] = {
    {"metrics",
     NULL,
     "STAGE[@RUN]",
     1,
     1,
     options,
     metrics,
     "Prints what a stage wrote to metrics.jsonl in its newest job or in a run: the datum and the line.",
     {"metrics train -f", "metrics train@9ab2f1c4 --datum 1f0c2b7a", "metrics train --json"}},
};
PL_CLI_TABLE(metrics, verbs);
