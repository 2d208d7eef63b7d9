/* Checks the store: one check at a time; its progress is published as events. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/db/writer/db_fsck.h"
#include "storage/base/clock.h"

#include <limits.h>
#include <stdio.h>

#define FINDINGS_MAX  1000
#define EVENT_EACH_MS 10000

struct asked {
    struct pl_api *api;
    const struct pl_http_request *req;
    json_t *findings;
    int64_t told_ms; /* monotonic time of the last event */
};

/* ---- findings ---- */

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static int note_finding(void *self, const struct pl_fsck_finding *f, struct pl_err *err)
{
    struct asked *k = self;

    atomic_fetch_add(&k->api->check.found, 1);
    if (json_array_size(k->findings) >= FINDINGS_MAX)
        return 0;
    return pl_json_add(k->findings,
                       json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "what", f->what, "pack",
                                 f->pack ? pl_api_hash_json(f->pack) : json_null(), "id",
                                 f->id ? pl_api_hash_json(f->id) : json_null(), "commit", text_or_null(f->commit), "path",
                                 text_or_null(f->path), "object", text_or_null(f->object)),
                       err);
}

/* ---- progress ---- */

static json_t *state_json(const struct pl_api *a)
{
    const struct pl_api_check *c = &a->check;

    return json_pack("{s:b, s:b, s:s, s:I, s:I, s:I}", "running", (int)atomic_load(&c->running), "full",
                     (int)atomic_load(&c->full), "stage", atomic_load(&c->stage) ? atomic_load(&c->stage) : "", "done",
                     (json_int_t)atomic_load(&c->done), "total", (json_int_t)atomic_load(&c->total), "found",
                     (json_int_t)atomic_load(&c->found));
}

static int write_event(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_tx_event(tx, "fsck", json_incref(arg), err);
}

/* Publishes an event; the check continues if that fails. */
static void tell(struct pl_api *a, json_t *data)
{
    if (data)
        (void)!pl_db_run(a->config.db, PL_TX_UNLOGGED, write_event, data, NULL);
    json_decref(data);
}

static void note_progress(void *self, const char *project, const struct pl_fsck_progress *progress)
{
    struct asked *k = self;
    struct pl_api_check *c = &k->api->check;
    int64_t now = pl_clock_mono_ms();

    (void)project;
    atomic_store(&c->stage, progress->stage);
    atomic_store(&c->done, progress->done);
    atomic_store(&c->total, progress->total);
    if (now - k->told_ms < EVENT_EACH_MS)
        return;
    k->told_ms = now;
    tell(k->api, state_json(k->api));
}

static int get_state(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    (void)req;
    *ret = state_json(a);
    return *ret ? 0 : pl_err_nomem(err);
}

/* ---- the check ---- */

static bool is_unwanted(void *self)
{
    const struct asked *k = self;

    return atomic_load(&k->api->draining) || pl_http_request_gone(k->req);
}

static json_t *report_json(const struct pl_fsck_report *sum, json_t *findings, bool full, int64_t ms)
{
    return json_pack("{s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:I}", "ok", sum->findings == 0, "full",
                     (int)full, "packs", (json_int_t)sum->packs, "records", (json_int_t)sum->records, "commits",
                     (json_int_t)sum->commits, "nodes", (json_int_t)sum->nodes, "files", (json_int_t)sum->files, "blobs",
                     (json_int_t)sum->blobs, "log_objects", (json_int_t)sum->log_objects, "checkpoints",
                     (json_int_t)sum->checkpoints, "earlier", (json_int_t)sum->earlier, "found", (json_int_t)sum->findings,
                     "findings", findings, "ms", (json_int_t)ms);
}

static int run_check(struct asked *k, bool full, struct pl_fsck_report *sum, struct pl_err *err)
{
    struct pl_api *a = k->api;
    char note[PATH_MAX];
    struct pl_db_fsck check = {.stores = a->config.stores,
                               .db = a->config.db,
                               .full = full,
                               .anew = pl_http_query_flag(k->req, "anew"),
                               .note_path = note,
                               .finding = note_finding,
                               .progress = note_progress,
                               .stop = is_unwanted,
                               .self = k};

    if (snprintf(note, sizeof note, "%s/fsck.json", a->config.data_dir) >= (int)sizeof note)
        check.note_path = NULL;
    return pl_db_fsck_run(&check, sum, err);
}

/* Runs a check, which may read the whole store: one at a time, and stopped when its client disconnects. */
static int run_fsck(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *findings = json_array();
    struct asked k = {.api = a, .req = req, .findings = findings, .told_ms = pl_clock_mono_ms()};
    struct pl_fsck_report sum = {0};
    bool full = pl_http_query_flag(req, "full");
    int64_t began = pl_clock_mono_ms();
    int r;

    if (!findings)
        return pl_err_nomem(err);
    if (atomic_exchange(&a->check.running, true))
        return pl_err_hint(err, pl_err_set(err, PL_EBUSY, "a check is running already"),
                           "Wait for its end, or stop the client that started it.");
    atomic_store(&a->check.full, full);
    atomic_store(&a->check.stage, "");
    atomic_store(&a->check.done, 0);
    atomic_store(&a->check.total, 0);
    atomic_store(&a->check.found, 0);
    tell(a, state_json(a));
    r = run_check(&k, full, &sum, err);
    atomic_store(&a->check.running, false);
    tell(a, state_json(a));
    if (r == 0)
        *ret = report_json(&sum, findings, full, pl_clock_mono_ms() - began);
    return r;
}

static const struct pl_api_route routes[] = {
    {.method = "POST",
     .pattern = "/api/v1/fsck",
     .json = run_fsck,
     .verb = PL_VERB_OPERATE,
     .summary =
         "Checks that everything exists that the commits need, and checks the log with its checkpoints; `full` hashes every "
         "record, and continues an interrupted check unless `anew`. One check at a time; it ends when the client disconnects.",
     .query = "full:boolean anew:boolean",
     .reply = "FsckReport"},
    {.method = "GET",
     .pattern = "/api/v1/fsck",
     .json = get_state,
     .verb = PL_VERB_OPERATE,
     .summary = "Returns the progress of the running check, or of the last one since the daemon's start.",
     .reply = "FsckState"},
};

static const struct pl_api_schema schemas[] = {
    {"FsckFinding", "what:string pack:string? id:string? commit:string? path:string? object:string?"},
    {"FsckReport",
     "ok:boolean full:boolean packs:integer records:integer commits:integer nodes:integer files:integer blobs:integer"
     " log_objects:integer checkpoints:integer earlier:integer found:integer findings:FsckFinding[] ms:integer"},
    {"FsckState", "running:boolean full:boolean stage:string done:integer total:integer found:integer"},
};

PL_API_TABLE(fsck, routes, schemas);
