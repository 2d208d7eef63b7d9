/* fsck: checks a store, either through its daemon or, with --store, directly without a daemon. */
#include "pipelined/cli/local/store_url.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/progress.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/db/gc/recovery_prune.h"
#include "pipelined/db/writer/db_fsck.h"
#include "pipelined/db/writer/db_open.h"
#include "storage/base/clock.h"
#include "storage/dataset/fsck/fsck_log.h"
#include "storage/dataset/ingest/stat_cache.h"
#include "storage/object/store_marker.h"
#include "storage/system/io.h"

#include <limits.h>
#include <stdio.h>

#define POLL_MS      500
#define LINE_EACH_MS 100
#define FINDINGS_MAX 1000

/* ---- report ---- */

static void print_line(const char *stage, uint64_t done, uint64_t total, uint64_t found)
{
    fprintf(stderr, "\r\033[K%s: %llu of %llu, %llu findings", stage, (unsigned long long)done, (unsigned long long)total,
            (unsigned long long)found);
}

static int say_report(const struct pl_cli *c, const json_t *report, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"WHAT", "what", NULL},       {"COMMIT", "commit", NULL},
                                               {"PATH", "path", NULL},       {"RECORD", "id", pl_show_id},
                                               {"PACK", "pack", pl_show_id}, {"OBJECT", "object", NULL}};
    const json_t *findings = json_object_get(report, "findings");
    char took[32];

    pl_show_say(c, "%lld commits, %lld files, %lld nodes, %lld records in %lld packs, %lld log objects checked in %s%s\n",
                (long long)pl_show_int_at(report, "commits"), (long long)pl_show_int_at(report, "files"),
                (long long)pl_show_int_at(report, "nodes"), (long long)pl_show_int_at(report, "records"),
                (long long)pl_show_int_at(report, "packs"), (long long)pl_show_int_at(report, "log_objects"),
                pl_duration_text(pl_show_int_at(report, "ms"), took),
                pl_cli_flag(c, "full") ? "" : " (--full reads every record)");
    if (pl_show_int_at(report, "earlier"))
        pl_show_say(c, "continued an interrupted check, which had read %lld more packs (--anew starts over)\n",
                    (long long)pl_show_int_at(report, "earlier"));
    return json_array_size(findings) ? pl_show_table(findings, columns, PL_ARRAY_SIZE(columns), true, err) : 0;
}

/* Prints the report. Returns PL_ECORRUPT if the report has findings. */
static int conclude(const struct pl_cli *c, const json_t *report, struct pl_err *err)
{
    int r = c->json ? pl_show_json(report, err) : say_report(c, report, err);

    if (r < 0 || json_is_true(pl_show_at(report, "ok")))
        return r;
    pl_err_set(err, PL_ECORRUPT, "the store has %lld findings", (long long)pl_show_int_at(report, "found"));
    return pl_err_hint(err, PL_ECORRUPT, "Commits that are not named above are intact.");
}

/* ---- check by the daemon ---- */

/* A thread that polls the daemon for the progress of the check and prints it. */
struct asking {
    struct pl_http_client *client;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over_now;
    bool over, running;
};

static void ask(struct asking *a, bool *shown)
{
    json_t *state = NULL;

    if (pl_http_client_json(a->client, "GET", "/api/v1/fsck", NULL, &state, NULL) == 0 &&
        json_is_true(pl_show_at(state, "running")) && *pl_show_text_at(state, "stage")) {
        print_line(pl_show_text_at(state, "stage"), (uint64_t)pl_show_int_at(state, "done"),
                   (uint64_t)pl_show_int_at(state, "total"), (uint64_t)pl_show_int_at(state, "found"));
        *shown = true;
    }
    json_decref(state);
}

/* Polls the daemon every POLL_MS until `over` is set. */
static void *ask_on(void *arg)
{
    struct asking *a = arg;
    bool shown = false;

    pthread_mutex_lock(&a->lock);
    while (!a->over) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += POLL_MS * 1000000l;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&a->over_now, &a->lock, &until) == 0)
            continue;
        pthread_mutex_unlock(&a->lock);
        ask(a, &shown);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    if (shown)
        fputs("\r\033[K", stderr);
    return NULL;
}

static void ask_start(const struct pl_cli *c, struct asking *a)
{
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->over_now, NULL);
    a->running = pl_cli_progress_seen(c) && pthread_create(&a->thread, NULL, ask_on, a) == 0;
}

static void ask_stop(struct asking *a)
{
    pthread_mutex_lock(&a->lock);
    a->over = true;
    pthread_cond_signal(&a->over_now);
    pthread_mutex_unlock(&a->lock);
    if (a->running)
        pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->over_now);
    pthread_mutex_destroy(&a->lock);
}

static int fsck_daemon(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    _cleanup_(json_decrefp) json_t *report = NULL;
    struct pl_http_call call = {.method = "POST", .out = &out, .may_stall = true};
    struct asking asking = {0};
    char path[64];
    int r = pl_cli_client(c, &asking.client, err);

    if (r < 0)
        return r;
    snprintf(path, sizeof path, "/api/v1/fsck?full=%d&anew=%d", pl_cli_flag(c, "full"), pl_cli_flag(c, "anew"));
    call.path = path;
    ask_start(c, &asking);
    r = pl_http_client_call(asking.client, &call, NULL, err);
    ask_stop(&asking);
    if (r < 0)
        return r;
    report = json_loadb((const char *)out.data, out.len, 0, NULL);
    return report ? conclude(c, report, err) : pl_err_set(err, PL_EPROTO, "the server's answer to a check is not JSON");
}

/* ---- check without a daemon ---- */

struct alone {
    struct pl_cli *cli;
    struct pl_object_store *objects;
    struct pl_project_stores *stores;
    struct pl_conn *conn;
    char *name;
    char scratch[PATH_MAX], note[PATH_MAX + 64];
    json_t *findings;
    uint64_t found;
    int64_t shown_ms;
};

static void alone_finish(struct alone *a)
{
    pl_conn_close(a->conn);
    pl_project_stores_close(a->stores);
    pl_object_close(a->objects);
    json_decref(a->findings);
    free(a->name);
    if (*a->scratch && pl_io_remove_tree(a->scratch, NULL) < 0)
        fprintf(stderr, "pipelinectl: could not remove %s\n", a->scratch);
}

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *hash_or_null(const struct pl_hash *h)
{
    char hex[PL_HASH_HEX + 1];

    return h ? json_string(pl_hash_hex(h, hex)) : json_null();
}

static int note_finding(void *self, const struct pl_fsck_finding *f, struct pl_err *err)
{
    struct alone *a = self;

    if (a->found++ >= FINDINGS_MAX)
        return 0;
    return pl_json_add(a->findings,
                       json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "what", f->what, "pack", hash_or_null(f->pack), "id",
                                 hash_or_null(f->id), "commit", text_or_null(f->commit), "path", text_or_null(f->path), "object",
                                 text_or_null(f->object)),
                       err);
}

static void note_progress(void *self, const char *project, const struct pl_fsck_progress *p)
{
    struct alone *a = self;
    int64_t now = pl_clock_mono_ms();

    (void)project;
    if (!pl_cli_progress_seen(a->cli) || now - a->shown_ms < LINE_EACH_MS)
        return;
    a->shown_ms = now;
    print_line(p->stage, p->done, p->total, a->found);
}

static bool is_interrupted(void *self)
{
    (void)self;
    return pl_cli_interrupted();
}

static int make_scratch(struct alone *a, struct pl_err *err)
{
    const char *base = getenv("TMPDIR");

    snprintf(a->scratch, sizeof a->scratch, "%s/pipelined-fsck-XXXXXX", base && *base ? base : "/tmp");
    if (mkdtemp(a->scratch))
        return 0;
    a->scratch[0] = '\0';
    return pl_err_errno(err, errno, "create a folder for the check");
}

/* Sets the path of the file in which an interrupted check saves its progress. The file lies in the same
 * folder as the user's cache of file states. */
static void find_note(struct alone *a, const char *store_id)
{
    char *dir = NULL;

    if (pl_stat_cache_default_dir(&dir, NULL) == 0 && pl_io_mkdirs(dir, 0700, NULL) == 0)
        (void)snprintf(a->note, sizeof a->note, "%.*s/fsck-%s.json", PATH_MAX - 1, dir, store_id);
    free(dir);
}

/* Checks only the store's log. Used when the log cannot be replayed: then the findings in the log are what
 * the user needs. */
static int check_log_only(struct alone *a, const uint8_t store_id[16], struct pl_fsck_report *sum)
{
    struct pl_fsck_options o = {.full = true, .finding = note_finding, .self = a};

    return pl_fsck_log(a->objects, store_id, NULL, &o, sum, NULL);
}

/* Opens the store and replays its log into a scratch database. If the replay fails, checks only the log and
 * returns with a->conn NULL. */
static int prepare_alone(struct alone *a, const char *url, struct pl_fsck_report *sum, struct pl_err *err)
{
    _cleanup_(pl_recover_report_finish) struct pl_recover_report report = {0};
    struct pl_store_marker marker = {0};
    uint8_t id[PL_ID_HEX / 2];
    char path[PATH_MAX + 32];
    int r = pl_cli_store_open(a->cli, url, "", &a->objects, &a->name, err);

    r = r < 0 ? r : pl_store_marker_read(a->objects, &marker, err);
    r = r < 0 ? r : pl_store_marker_id(a->objects, id, err);
    r = r < 0 ? r : make_scratch(a, err);
    if (r < 0)
        return r;
    find_note(a, marker.store_id);
    r = pl_db_recover(a->scratch, a->objects, id, true, &report, err);
    if (r < 0 && check_log_only(a, id, sum) == 0)
        return 0;
    if (r == 0 && !report.recovered)
        return pl_err_set(err, PL_ENOTFOUND, "%s has no log yet: there is nothing to check", a->name);
    snprintf(path, sizeof path, "%s/pipelined.db", a->scratch);
    r = r < 0 ? r : pl_conn_open(path, false, &a->conn, err);
    snprintf(path, sizeof path, "%s/index", a->scratch);
    r = r < 0 ? r : pl_project_stores_open(a->objects, path, &a->stores, err);
    return r < 0 ? r : pl_recovery_prune_logs(a->conn, a->stores, err);
}

static json_t *report_json(const struct alone *a, const struct pl_fsck_report *sum, int64_t ms)
{
    return json_pack("{s:b, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:I}", "ok", sum->findings == 0,
                     "full", pl_cli_flag(a->cli, "full"), "store", a->name, "packs", (json_int_t)sum->packs, "records",
                     (json_int_t)sum->records, "commits", (json_int_t)sum->commits, "nodes", (json_int_t)sum->nodes, "files",
                     (json_int_t)sum->files, "blobs", (json_int_t)sum->blobs, "log_objects", (json_int_t)sum->log_objects,
                     "checkpoints", (json_int_t)sum->checkpoints, "earlier", (json_int_t)sum->earlier, "found",
                     (json_int_t)sum->findings, "findings", a->findings, "ms", (json_int_t)ms);
}

/* Checks a store without a daemon. A full check that was interrupted continues when the command is run
 * again. */
static int fsck_alone(struct pl_cli *c, const char *url, struct pl_err *err)
{
    _cleanup_(alone_finish) struct alone a = {.cli = c, .findings = json_array()};
    _cleanup_(json_decrefp) json_t *report = NULL;
    struct pl_fsck_report sum = {0};
    struct pl_db_fsck check = {.full = pl_cli_flag(c, "full"),
                               .anew = pl_cli_flag(c, "anew"),
                               .note_path = a.note,
                               .finding = note_finding,
                               .progress = note_progress,
                               .stop = is_interrupted,
                               .self = &a};
    int64_t began = pl_clock_mono_ms();
    int r;

    if (!a.findings)
        return pl_err_nomem(err);
    pl_cli_note_interrupt();
    r = prepare_alone(&a, url, &sum, err);
    check.stores = a.stores;
    check.conn = a.conn;
    if (!*a.note)
        check.note_path = NULL;
    if (r == 0 && a.conn)
        r = pl_db_fsck_run(&check, &sum, err);
    if (a.shown_ms)
        fputs("\r\033[K", stderr);
    if (r == PL_ECANCELED && check.full && check.note_path)
        fprintf(stderr, "pipelinectl: run the same command again to continue\n");
    if (r < 0)
        return r;
    report = report_json(&a, &sum, pl_clock_mono_ms() - began);
    return report ? conclude(c, report, err) : pl_err_nomem(err);
}

static int fsck(struct pl_cli *c, struct pl_err *err)
{
    const char *url = pl_cli_value(c, "store");

    return url ? fsck_alone(c, url, err) : fsck_daemon(c, err);
}

static const struct pl_option options[] = {
    {"full", 0, NULL, "read and hash every record"},
    {"anew", 0, NULL, "with --full: start over instead of continuing an interrupted check"},
    {"store", 0, "URL", "check this store without a daemon: file:///DIR, s3://BUCKET/PREFIX"},
    PL_CLI_STORE_OPTIONS(""),
    {0}};

static const struct pl_verb verbs[] = {
    {"fsck",
     NULL,
     "[--full [--anew]] [--store URL]",
     0,
     0,
     options,
     fsck,
     "Checks that the store has everything that its commits need, and that its log is intact. --store needs no daemon.",
     {"fsck", "fsck --full", "fsck --full --store file:///mnt/copy --json"}},
};
PL_CLI_TABLE(fsck, verbs);
