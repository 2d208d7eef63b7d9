/* logs: prints what a stage's command or a container of its pod printed. */
#include "pipelined/cli/runs/log_print.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include <inttypes.h>
#include <stdio.h>

#define TAIL_MAX_BYTES (64u << 20)

struct logs {
    /* number of lines to print from the end of the log; 0 = print the whole log as it arrives */
    uint64_t tail;
    struct pl_buf kept; /* if `tail` is not 0: the last part of the text received so far */
    struct pl_show_text shown;
    struct pl_log_print *print; /* prints records of lines; NULL = the text is printed as it comes */
    bool any;                   /* something was received */
};

/* Returns the offset at which the last `lines` lines of the text begin. */
static size_t start_of_tail(const struct pl_buf *b, uint64_t lines)
{
    size_t at = b->len;

    for (; at > 0; at--)
        if (b->data[at - 1] == '\n' && at != b->len && --lines == 0)
            break;
    return at;
}

static int print(struct logs *l, const void *data, size_t n, struct pl_err *err)
{
    return l->print ? pl_log_print_feed(l->print, data, n, err) : pl_show_write(&l->shown, data, n, err);
}

/* Receives the next bytes of the log and prints them. If `tail` is set, keeps them instead, at most
 * TAIL_MAX_BYTES / 2 of the last ones. */
static int take(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct logs *l = self;
    size_t from;

    l->any = l->any || n > 0;
    if (!l->tail)
        return print(l, data, n, err);
    if (l->kept.len + n > TAIL_MAX_BYTES / 2) {
        from = PL_MAX(start_of_tail(&l->kept, l->tail), l->kept.len > TAIL_MAX_BYTES / 4 ? l->kept.len - TAIL_MAX_BYTES / 4 : 0);
        /* a line that is cut is dropped: what is left of its record cannot be read */
        while (l->print && from > 0 && from < l->kept.len && l->kept.data[from - 1] != '\n')
            from++;
        memmove(l->kept.data, l->kept.data + from, l->kept.len - from);
        l->kept.len -= from;
    }
    return pl_buf_add(&l->kept, data, n, err);
}

/* Builds the URL of a container's log, for --container. A pod belongs to a stage and not to one job, so an
 * argument that names a run is refused. */
static int container_path(struct pl_cli *c, const struct pl_cli_job *job, const char *container, struct pl_buf *url,
                          struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    int r;

    if (*job->run)
        return pl_err_set(err, PL_EUSAGE, "--container shows the current pod of stage %s: give the stage without a run",
                          job->stage);
    if (pl_cli_value(c, "datum"))
        return pl_err_set(err, PL_EUSAGE,
                          "--container and --datum do not go together: what a command prints is not in its container's log");
    path = pl_http_path_make("/api/v1/logs/%s/%s/%s?follow=%u", job->project, job->stage, container,
                             (uint64_t)pl_cli_flag(c, "follow"));
    r = path ? pl_buf_add_str(url, path, err) : pl_err_nomem(err);
    return r < 0 ? r : pl_cli_add_query(url, "pod", pl_cli_value(c, "pod"), err);
}

/* Builds the URL of the request for the log. */
static int logs_path(struct pl_cli *c, struct pl_buf *url, struct pl_err *err)
{
    static const char *const of_lines[] = {"prefix", "timestamps", "json"};
    _cleanup_free_ char *path = NULL;
    const char *container = pl_cli_value(c, "container");
    struct pl_cli_job job;
    int r = pl_cli_job_arg(c, c->args[0], &job, err);

    if (r < 0)
        return r;
    if (container || pl_cli_flag(c, "raw"))
        for (size_t i = 0; i < PL_ARRAY_SIZE(of_lines); i++)
            if (pl_cli_flag(c, of_lines[i]) || (c->json && pl_streq(of_lines[i], "json")))
                return pl_err_set(err, PL_EUSAGE, "--%s and --%s do not go together: only lines of datums have times and datums",
                                  of_lines[i], container ? "container" : "raw");
    if (container)
        return container_path(c, &job, container, url, err);
    if (pl_cli_value(c, "pod"))
        return pl_err_set(err, PL_EUSAGE, "--pod is only accepted with --container");
    path = pl_http_path_make("/api/v1/logs/%s/%s?follow=%u&lines=%u", job.project, job.stage, (uint64_t)pl_cli_flag(c, "follow"),
                             (uint64_t)!pl_cli_flag(c, "raw"));
    r = path ? pl_buf_add_str(url, path, err) : pl_err_nomem(err);
    if (r == 0 && *job.run)
        r = pl_buf_addf(url, err, "&run=%s", job.run);
    return r < 0 ? r : pl_cli_add_query(url, "datum", pl_cli_value(c, "datum"), err);
}

/* True if the job has several datums, as far as that is known yet. */
static bool has_datums(struct pl_cli *c)
{
    _cleanup_(json_decrefp) json_t *found = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_cli_job job;

    if (pl_cli_job_find(c, c->args[0], &job, NULL) < 0)
        return false;
    path = pl_http_path_make("/api/v1/jobs/%s/%s/%s", job.project, job.stage, job.run);
    return path && pl_cli_call(c, "GET", path, NULL, &found, NULL) == 0 && pl_show_int_at(found, "datums.total") > 1;
}

/* Reads how lines are to be printed. Sets `*ret` to NULL if text is printed as it comes. */
static int read_print(struct pl_cli *c, struct pl_log_print **ret, struct pl_err *err)
{
    const char *prefix = pl_cli_value(c, "prefix");
    const bool automatic = !prefix || pl_streq(prefix, "auto");
    struct pl_log_print_options options = {.json = c->json,
                                           .timestamps = pl_cli_flag(c, "timestamps"),
                                           .prefix = prefix && pl_streq(prefix, "datum")};

    if (!automatic && !options.prefix && !pl_streq(prefix, "none"))
        return pl_err_set(err, PL_EUSAGE, "--prefix %.60s: give auto (if there are several datums), datum or none", prefix);
    if (pl_cli_flag(c, "container") || pl_cli_flag(c, "raw"))
        return 0;
    options.prefix_several = automatic && !pl_cli_flag(c, "datum");
    if (options.prefix_several && !c->json)
        options.prefix = has_datums(c);
    return pl_log_print_create(&options, ret, err);
}

/* Says on stderr why a job has printed nothing, if it had no datums or results of earlier runs were reused. */
static void explain_silence(struct pl_cli *c)
{
    _cleanup_(json_decrefp) json_t *found = NULL;
    _cleanup_free_ char *path = NULL;
    char reason[PL_SHOW_TEXT_MAX];
    struct pl_cli_job job;
    long long total;

    if (pl_cli_value(c, "container") || pl_cli_value(c, "datum") || pl_cli_job_find(c, c->args[0], &job, NULL) < 0)
        return;
    path = pl_http_path_make("/api/v1/jobs/%s/%s/%s", job.project, job.stage, job.run);
    if (!path || pl_cli_call(c, "GET", path, NULL, &found, NULL) < 0)
        return;
    total = pl_show_int_at(found, "datums.total");
    if (total > 0 && pl_show_int_at(found, "datums.reused") == total)
        fprintf(stderr, "stage %s ran no command in run %.8s: %lld of %lld datum%s reused from earlier runs\n", job.stage,
                pl_show_text_at(found, "run"), total, total, total == 1 ? "" : "s");
    else if (total == 0 && *pl_show_text_at(found, "reason"))
        fprintf(stderr, "stage %s ran no command in run %.8s: %s\n", job.stage, pl_show_text_at(found, "run"),
                pl_show_clean(pl_show_text_at(found, "reason"), reason, sizeof reason));
}

static int logs(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf url = {0};
    struct logs l = {.kept = {.max = TAIL_MAX_BYTES}};
    struct pl_http_call call = {.method = "GET", .write = take, .write_self = &l, .may_stall = true};
    struct pl_http_client *client;
    size_t from;
    int r = pl_cli_number(c, "tail", 1000000, &l.tail, err);

    if (r == 0 && l.tail && pl_cli_flag(c, "follow"))
        r = pl_err_set(err, PL_EUSAGE, "--tail and --follow cannot be used together");
    r = r < 0 ? r : logs_path(c, &url, err);
    r = r < 0 || l.tail == 0 ? r : pl_buf_addf(&url, err, "&tail=%" PRIu64, l.tail);
    if (pl_cli_value(c, "container"))
        l.tail = 0; /* the server sends only the last lines; of datums' lines it may send more before them */
    r = r < 0 ? r : pl_cli_client(c, &client, err);
    r = r < 0 ? r : read_print(c, &l.print, err);
    if (r < 0)
        return r;
    call.path = pl_buf_str(&url);
    r = call.path ? pl_http_client_call(client, &call, NULL, err) : pl_err_nomem(err);
    if (r == 0 && l.tail) {
        from = start_of_tail(&l.kept, l.tail);
        r = print(&l, l.kept.data + from, l.kept.len - from, err);
    }
    r = r < 0 || !l.print ? r : pl_log_print_end(l.print, err);
    pl_log_print_destroy(l.print);
    pl_buf_finish(&l.kept);
    if (r == 0 && !l.any)
        explain_silence(c);
    return r;
}

static const struct pl_option options[] = {
    {"follow", 'f', NULL, "follow the output until the job has ended"},
    {"datum", 0, "ID", "only this datum: its id, the start of it, or its paths"},
    {"tail", 'n', "N", "only the last N lines"},
    {"prefix", 0, "HOW", "the datum's id before each line: auto (default; if there are several datums), datum or none"},
    {"timestamps", 0, NULL, "the time before each line"},
    {"raw", 0, NULL, "the bytes as they came: lines of datums may be mixed, and progress bars are not collapsed"},
    {"container", 0, "NAME", "log of a container of the stage's current pod: main, agent or install"},
    {"pod", 0, "POD", "with --container: which pod, if the stage has several"},
    {0},
};

static const struct pl_verb verbs[] = {
    {"logs",
     NULL,
     "STAGE[@RUN]",
     1,
     1,
     options,
     logs,
     "Prints what a stage's command printed in its newest job or in a run, in whole lines; with --container, the log of a "
     "container of its pod.",
     {"logs train -f", "logs prepare@9ab2f1c4 --prefix datum --timestamps", "logs train --container agent -f"}},
};
PL_CLI_TABLE(logs, verbs);
