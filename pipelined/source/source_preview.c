/* source_preview: compares the branches of the repository with the previews that are recorded, and plans those that differ. */
#include "pipelined/source/source_preview.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

#define BRANCHES_MAX 500u /* taken of pl-git's answer */
#define FAILURES_MAX 3u   /* branches that cannot be fetched, after which a look plans no more */

/* ---- the text ---- */

/* What the changes add up to. */
struct sum {
    size_t created, updated, started;
    size_t stages, news; /* stages that would run; those of them that are new, without an estimate */
    json_int_t datums, gpu_s;
    bool at_most, estimated;
};

static void add_stage(struct sum *sum, const json_t *stage)
{
    const json_t *again = json_object_get(stage, "again");
    const bool is_new = pl_streq(pl_json_str(stage, "change"), "new");

    sum->stages += is_new || again;
    sum->news += is_new;
    sum->datums += json_integer_value(json_object_get(again, "datums"));
    sum->gpu_s += json_integer_value(json_object_get(again, "gpu_s"));
    sum->estimated = sum->estimated || json_is_true(json_object_get(again, "estimated"));
    sum->at_most = sum->at_most || json_is_true(json_object_get(again, "at_most"));
}

static struct sum add_up(const json_t *changes)
{
    struct sum sum = {0};
    const json_t *one, *stage;
    size_t i, k;

    json_array_foreach(changes, i, one)
    {
        const char *change = pl_json_str(one, "change");

        sum.created += pl_streq(change, "created");
        sum.updated += pl_streq(change, "updated");
        sum.started += pl_streq(change, "started");
        if (pl_streq(change, "unchanged"))
            continue;
        json_array_foreach(json_object_get(one, "stages"), k, stage)
        {
            add_stage(&sum, stage);
        }
    }
    return sum;
}

/* Appends "create 1" or ", create 1", and counts. */
static void add_verb(struct pl_buf *out, const char *verb, size_t n, size_t *total)
{
    if (n)
        (void)!pl_buf_addf(out, NULL, "%s%s %zu", *total ? ", " : " ", verb, n);
    *total += n;
}

static void add_work(struct pl_buf *out, const struct sum *sum)
{
    const double hours = (double)sum->gpu_s / 3600;

    if (!sum->stages)
        return;
    if (sum->stages == sum->news) {
        (void)!pl_buf_addf(out, NULL, ": %zu new stage%s to run", sum->news, sum->news == 1 ? "" : "s");
        return;
    }
    (void)!pl_buf_addf(out, NULL, ": %s%lld datum%s to run",
                       sum->estimated ? "about "
                       : sum->at_most ? "up to "
                                      : "",
                       (long long)sum->datums, sum->datums == 1 ? "" : "s");
    if (sum->gpu_s && hours < 0.1)
        (void)!pl_buf_addf(out, NULL, ", less than 0.1 GPU-hours");
    else if (sum->gpu_s)
        (void)!pl_buf_addf(out, NULL, ", about %.1f GPU-hours", hours);
    (void)!pl_buf_addf(out, NULL, " (%zu stage%s", sum->stages, sum->stages == 1 ? "" : "s");
    if (sum->news)
        (void)!pl_buf_addf(out, NULL, ", %zu of them new and not counted", sum->news);
    (void)!pl_buf_addf(out, NULL, ")");
}

json_t *pl_source_preview_text(const json_t *changes, size_t pruned, enum pl_source_prune prune)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    const struct sum sum = add_up(changes);
    size_t total = 0;

    (void)!pl_buf_addf(&out, NULL, "would");
    add_verb(&out, "create", sum.created, &total);
    add_verb(&out, "update", sum.updated, &total);
    add_verb(&out, "start", sum.started, &total);
    add_verb(&out, prune == PL_PRUNE_DELETE ? "delete" : "stop", pruned, &total);
    if (!total)
        return json_string("would change nothing");
    (void)!pl_buf_addf(&out, NULL, " pipeline%s", total == 1 ? "" : "s");
    add_work(&out, &sum);
    return pl_buf_str(&out) ? json_string(pl_buf_str(&out)) : NULL;
}

/* ---- which branches ---- */

/* Asks for the branches, {"branch": id}, without the followed one, and without those whose commit is the followed one. `ret_more`:
 * there are others. */
static int list_branches(struct pl_source_look *l, json_t *ret, bool *ret_more, struct pl_err *err)
{
    const char *followed = pl_json_str(l->settings, "branch"), *tip = pl_json_str(l->tip, "id");
    json_t *line = NULL;
    int r = pl_source_look_ask(l, &(struct pl_source_ask){.what = "branches", .branch = "", .have = ""}, err);

    for (size_t n = 0; r == 0 && (r = pl_git_child_line(l->git, &line, err)) == 0; n++) {
        const char *branch = pl_json_str(line, "branch"), *id = pl_json_str(line, "id");

        if (json_object_get(line, "done")) {
            (void)json_object_del(ret, *followed ? followed : pl_json_str(line, "head"));
            *ret_more = json_is_true(json_object_get(line, "more"));
            break;
        }
        if (!*branch || !*id || n >= BRANCHES_MAX) {
            pl_git_child_drop(l->git);
            r = pl_err_set(err, PL_EIO, "pl-git sent no answer");
        } else if (!pl_streq(id, tip) && json_object_set_new(ret, branch, json_string(id)) < 0) {
            r = pl_err_nomem(err);
        }
        json_decref(TAKE_PTR(line));
    }
    json_decref(line);
    return r;
}

static json_t *find(json_t *previews, const char *branch)
{
    json_t *one;
    size_t i;

    json_array_foreach(previews, i, one)
    {
        if (pl_streq(pl_json_str(one, "branch"), branch))
            return one;
    }
    return NULL;
}

/* Drops previews of branches that are gone. */
static void forget_branches(json_t *previews, const json_t *branches)
{
    for (size_t i = json_array_size(previews); i-- > 0;)
        if (!json_object_get(branches, pl_json_str(json_array_get(previews, i), "branch")))
            json_array_remove(previews, i);
}

/* Makes all branches be planned again. What was posted stays known. */
static void mark_stale(json_t *previews)
{
    json_t *one;
    size_t i;

    json_array_foreach(previews, i, one)
    {
        json_object_set_new(one, "stale", json_true());
    }
}

/* Returns the branch whose turn it is: without a preview, or with the oldest one, of another commit than its tip. NULL = none. */
static const char *next_branch(json_t *previews, const json_t *branches)
{
    const char *name, *next = NULL;
    json_int_t oldest = 0;
    json_t *id;

    json_object_foreach((json_t *)branches, name, id)
    {
        json_t *one = find(previews, name);
        const json_int_t at = json_integer_value(json_object_get(one, "at_us"));

        if (one && pl_streq(pl_json_str(one, "commit"), json_string_value(id)) && !json_object_get(one, "stale"))
            continue;
        if (!next || at < oldest) {
            next = name;
            oldest = at;
        }
    }
    return next;
}

/* ---- a preview ---- */

/* Plans the tip of the branch, which was `id`. `ret`: its note. An error of the commit is part of it. */
static int plan(struct pl_source_look *l, const char *branch, const char *id, const json_t *before, json_t **ret,
                struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *tip = NULL, *text = NULL, *changes = NULL;
    const struct pl_source_ask ask = {.what = "look", .branch = branch, .have = "", .preview = true};
    struct pl_source_apply done = {0};
    struct pl_source_commit c = {0};
    json_t *note = NULL;
    int r = pl_source_look_ask(l, &ask, err);

    r = r < 0 ? r : pl_git_child_line(l->git, &tip, err);
    if (r < 0 && r != PL_ETOOBIG)
        return r;
    if (tip)
        id = pl_json_str(tip, "id");
    r = r < 0 ? r : pl_source_look_set(l, tip, true, &c, &done, err);
    if (r == 0) {
        changes = pl_source_commit_changes(&c);
        text = pl_source_preview_text(changes, json_array_size(done.pruned), done.prune);
        note = pl_status_note(id, true, text ? json_string_value(text) : "", before);
    } else if (pl_source_look_blames(r)) {
        note = pl_status_note(id, false, err->msg, before);
        r = 0;
    }
    pl_source_apply_finish(&done);
    pl_source_commit_finish(&c);
    if (r < 0)
        return r;
    (void)json_object_del(note, "stale");
    if (!note || json_object_set_new(note, "branch", json_string(branch)) < 0 ||
        json_object_set_new(note, "at_us", json_integer(pl_clock_wall_us())) < 0) {
        json_decref(note);
        return pl_err_nomem(err);
    }
    *ret = note;
    return 0;
}

/* Plans branches whose tip is new, up to the bound. One that cannot be fetched must not hold up all others. */
static int plan_branches(struct pl_source_look *l, json_t *previews, json_t *branches, struct pl_err *err)
{
    const char *branch;
    unsigned failures = 0;
    struct pl_err why;
    int first = 0;

    for (unsigned n = 0; n < PL_PREVIEWS_PER_LOOK && failures < FAILURES_MAX && (branch = next_branch(previews, branches)); n++) {
        json_t *before = find(previews, branch), *note = NULL;
        int r;

        why = (struct pl_err){0};
        r = plan(l, branch, json_string_value(json_object_get(branches, branch)), before, &note, &why);
        if (r == PL_ECANCELED)
            return r;
        if (r < 0) {
            failures += r != PL_ENOTFOUND; /* deleted since it was listed */
            if (r != PL_ENOTFOUND && !first)
                first = pl_err_set(err, r, "branch %s: %s", branch, why.msg);
            (void)json_object_del(branches, branch); /* not again in this look */
            continue;
        }
        json_object_set(branches, branch, json_object_get(note, "commit")); /* it may have moved since it was listed */
        if (before)
            json_object_clear(before);
        if ((before ? json_object_update(before, note) : json_array_append(previews, note)) < 0)
            first = pl_err_nomem(err);
        json_decref(note);
    }
    return first;
}

/* Sends statuses that are due, up to the bound. After an error of the server the others wait for the next look. */
static void post_previews(struct pl_source_look *l, json_t *previews)
{
    unsigned n = 0;
    json_t *one;
    size_t i;

    json_array_foreach(previews, i, one)
    {
        const int r = pl_source_look_post(l, "/preview", one);

        n += r > 0;
        if (r < 0 || n == PL_PREVIEWS_PER_LOOK)
            break;
    }
}

/* Lists the branches and plans those that are new. `previews` is brought up to date. `warning`: why some lack a preview. */
static int update_previews(struct pl_source_look *l, json_t *previews, char warning[PL_ERR_MSG_BYTES])
{
    _cleanup_(json_decrefp) json_t *branches = json_object();
    struct pl_err err = {0};
    bool more = false;
    int r = branches ? list_branches(l, branches, &more, &err) : pl_err_nomem(&err);

    if (r == 0) {
        if (l->changed) /* other files may be specs now */
            mark_stale(previews);
        forget_branches(previews, branches);
        r = plan_branches(l, previews, branches, &err);
    }
    if (r < 0)
        snprintf(warning, PL_ERR_MSG_BYTES, "%s", err.msg);
    else if (more)
        snprintf(warning, PL_ERR_MSG_BYTES, "the repository has more than %u branches, and the others are not previewed",
                 BRANCHES_MAX);
    return r;
}

void pl_source_preview(struct pl_source_look *l)
{
    _cleanup_(json_decrefp) json_t *previews = l->previews ? json_deep_copy(l->previews) : json_array();
    const bool on = json_is_true(json_object_get(l->settings, "preview"));
    char warning[PL_ERR_MSG_BYTES] = "";
    struct pl_source_told told = {.name = l->name, .previews = previews, .warning = warning};
    struct pl_err err = {0};

    if (!previews || (!on && json_array_size(previews) == 0 && !*l->warning))
        return;
    if (!on)
        json_array_clear(previews);
    else if (update_previews(l, previews, warning) == PL_ECANCELED)
        snprintf(warning, sizeof warning, "%s", l->warning); /* the daemon stops */
    else
        post_previews(l, previews);
    if (*warning && !pl_streq(warning, l->warning))
        pl_log_warn("source", "source %s: previews: %s", l->name, warning);
    if ((!json_equal(previews, l->previews) || !pl_streq(warning, l->warning)) &&
        pl_db_run(l->host->db, PL_TX_UNLOGGED, pl_tx_source_told, &told, &err) < 0)
        pl_log_warn("source", "source %s: previews cannot be recorded: %s", l->name, err.msg);
}
